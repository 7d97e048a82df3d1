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
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is a Lease. It records what the elector does not.
type lock struct {
	resourcelock.Interface
	// renewed is when the last successful renewal was sent; nil while another replica leads.
	renewed atomic.Pointer[time.Time]
	// taken receives ErrLost when another replica holds the Lease that this one held.
	taken chan error
	// refused receives the error of a request that cannot succeed: the permission is missing,
	// or the namespace.
	refused chan error
}

// age returns the time since the last successful renewal was sent. The other replicas count
// from when it took effect. The elector counts from when the answer came, which can be much
// later in a process that was suspended.
func (l *lock) age() time.Duration {
	if renewed := l.renewed.Load(); renewed != nil {
		// By either clock: the monotonic one stops while the machine sleeps.
		return max(time.Since(*renewed), time.Now().Round(0).Sub(renewed.Round(0)))
	}
	return 1<<63 - 1
}

// Get reads the Lease. An elector that reads that another replica has taken its Lease tries to
// renew it until RenewDeadline nevertheless, so Get reports that to taken.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	isOthers := err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity()
	if isOthers && l.renewed.Swap(nil) != nil {
		offer(l.taken, ErrLost)
	}
	return record, raw, err
}

// Create creates the Lease, held by this replica.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	err := l.written(sent, record, l.Interface.Create(ctx, record))
	if apierrors.IsNotFound(err) { // the namespace
		offer(l.refused, err)
	}
	return err
}

// Update takes, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return l.written(sent, record, l.Interface.Update(ctx, record))
}

// written records the result of a write that was sent at that time, and returns err.
func (l *lock) written(sent time.Time, record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil && record.HolderIdentity == l.Identity() {
		l.renewed.Store(&sent)
	}
	if apierrors.IsForbidden(err) {
		offer(l.refused, err)
	}
	return err
}

// offer sends err unless the channel is full: the first error is enough.
func offer(errs chan<- error, err error) {
	select {
	case errs <- err:
	default:
	}
}
