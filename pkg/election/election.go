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

// Package election has one of several replicas lead, by a Lease in Kubernetes.
package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Options say which Lease it is, and how long it holds.
type Options struct {
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// LeaseDuration is how long the others wait after the last renewal that they have seen.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew the Lease before it takes it for
	// lost. It is shorter than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is how often the leader renews the Lease, and the others look at it:
	// these with a jitter, up to 2.2 times as long.
	RetryPeriod time.Duration
}

// ErrLost is returned by Run when the Lease was lost. Another replica may lead already, and
// the work that was begun may still be under way: the process has to end at once.
var ErrLost = errors.New("the lease is lost: another replica may be at work")

// Election is one replica's part in it.
type Election struct {
	options  Options
	identity string
	lock     *lock
	elector  *leaderelection.LeaderElector
	elected  chan struct{}
}

// New makes an Election; it does not yet talk to Kubernetes. The client must not share its
// rate limit with others, lest the Lease is lost for sheer work. Its time-out should be
// shorter than the RenewDeadline, so that there is more than one try.
func New(client coordinationv1.LeasesGetter, recorder resourcelock.EventRecorder, options Options) (*Election, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e := &Election{
		options: options,
		// As Kubernetes' own controllers name themselves: a pod that is started again is
		// another candidate.
		identity: hostname + "_" + uuid.NewString(),
		elected:  make(chan struct{}),
	}
	e.lock = newLock(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity, EventRecorder: recorder},
	})
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          options.Name,
		Lock:          e.lock,
		LeaseDuration: options.LeaseDuration,
		RenewDeadline: options.RenewDeadline,
		RetryPeriod:   options.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(e.elected) },
			OnStoppedLeading: func() {},
		},
		// ReleaseOnCancel would also try to give up a Lease that was lost, for as long as
		// RenewDeadline, before it says so. By then others lead.
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return e, nil
}

// Run waits until this replica leads, and then calls lead. When ctx is cancelled, lead has
// to finish what it has in hand and to return: the Lease is kept until it has, and given up
// then. If the Lease is lost before, Run returns ErrLost at once. Otherwise it returns
// lead's error.
func (e *Election) Run(ctx context.Context, lead func(context.Context) error) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	// Two contexts: the Lease outlives the work.
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	defer letGo()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.elector.Run(holding)
	}()

	result := make(chan error, 1)
	select {
	case <-ctx.Done():
		result <- nil
	case err := <-e.lock.refused:
		result <- advise(err)
	case <-e.elected:
		go func() { result <- lead(ctx) }()
	}
	select {
	case <-ended:
		return ErrLost
	case <-e.lock.taken:
		return ErrLost
	case err := <-result:
		letGo()
		<-ended
		e.release(context.WithoutCancel(ctx))
		return err
	}
}

// check tells at once what would be an error for ever.
func (e *Election) check(ctx context.Context) error {
	_, _, err := e.lock.Get(ctx)
	if apierrors.IsForbidden(err) {
		return advise(err)
	}
	return nil
}

// advise says what to do about what would be an error for ever.
func advise(err error) error {
	return fmt.Errorf("leader election: %w: put that right, or run one replica with -leader-elect=false", err)
}

// release gives up the Lease, if it is ours, so that another one need not wait until it
// has run out. It tries until RenewDeadline.
func (e *Election) release(ctx context.Context) {
	var last error
	err := wait.PollUntilContextTimeout(ctx, e.options.RetryPeriod, e.options.RenewDeadline, true, func(ctx context.Context) (bool, error) {
		last = e.giveUp(ctx)
		return last == nil, nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("Failed to give up the lease; the others wait until it has run out", "lease", e.lock.Describe(), "err", last)
		return
	}
	klog.FromContext(ctx).V(2).Info("No longer holding the lease", "lease", e.lock.Describe())
}

func (e *Election) giveUp(ctx context.Context) error {
	record, _, err := e.lock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != e.identity {
		return nil // it is not ours, or was given up by a request whose answer was lost
	}
	if err != nil {
		return err
	}
	now := metav1.Now()
	return e.lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions:    record.LeaderTransitions,
		LeaseDurationSeconds: 1, // the API server refuses 0
		AcquireTime:          now,
		RenewTime:            now,
	})
}

// Leads says whether this replica leads, and can be sure of it: it has renewed the Lease
// within RenewDeadline. Others do not take it over before LeaseDuration has passed. A
// process that was suspended finds out here, before the elector does.
func (e *Election) Leads() bool {
	return !e.lock.isTaken() && e.elector.IsLeader() && e.lock.age() < e.options.RenewDeadline
}

// Leader names the replica that leads; "" if none is known to.
func (e *Election) Leader() string { return e.elector.GetLeader() }

// Identity names this replica.
func (e *Election) Identity() string { return e.identity }
