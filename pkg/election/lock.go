/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package election

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is a Lease, and remembers what the elector does not.
type lock struct {
	resourcelock.Interface
	// renewed is when the last renewal was sent that Kubernetes has taken; nil: none was.
	renewed atomic.Pointer[time.Time]
	// taken is closed when another one holds the Lease that was ours.
	taken     chan struct{}
	takenOnce sync.Once
	// refused holds why Kubernetes will not ever have it from us: the right is lacking, or the
	// namespace.
	refused chan error
}

func newLock(lease resourcelock.Interface) *lock {
	return &lock{Interface: lease, taken: make(chan struct{}), refused: make(chan error, 1)}
}

// age is how long ago the last renewal was sent. The others count from when it took effect,
// the elector from when the answer came: that may be long after, in a process that was
// suspended meanwhile.
func (l *lock) age() time.Duration {
	if renewed := l.renewed.Load(); renewed != nil {
		// By either clock: the monotonic one stands still while the machine sleeps.
		return max(time.Since(*renewed), time.Now().Round(0).Sub(renewed.Round(0)))
	}
	return 1<<63 - 1
}

// isTaken says whether the Lease that was ours was seen to be another's: the elector comes to
// know a moment later.
func (l *lock) isTaken() bool {
	select {
	case <-l.taken:
		return true
	default:
		return false
	}
}

// Create makes the Lease, as ours.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.write(ctx, record, l.Interface.Create)
	if apierrors.IsNotFound(err) {
		l.refuse(err)
	}
	return err
}

// Update renews the Lease, or gives it up.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := time.Now()
	err := write(ctx, record)
	if err == nil && record.HolderIdentity == l.Identity() {
		l.renewed.Store(&sent)
	}
	if apierrors.IsForbidden(err) {
		l.refuse(err)
	}
	return err
}

func (l *lock) refuse(err error) {
	select {
	case l.refused <- err:
	default: // it is known
	}
}

// Get reads the Lease. The elector, when it reads that it has lost it, keeps trying to renew it
// until RenewDeadline.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.renewed.Load() != nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.takenOnce.Do(func() { close(l.taken) })
	}
	return record, raw, err
}
