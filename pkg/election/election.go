// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election elects one leader among several replicas, with a Lease in Kubernetes.
package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
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

// Options name the Lease and set its durations.
type Options struct {
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// LeaseDuration is how long the other replicas wait after the last renewal that they saw.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew the Lease before the Lease counts
	// as lost. It is shorter than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is how often the leader renews the Lease. The other replicas read it at
	// this interval with a jitter: up to 2.2 times as long.
	RetryPeriod time.Duration
}

// ErrLost is returned by Run when the Lease was lost. Another replica may lead already while
// work is still under way here: the process must exit at once.
var ErrLost = errors.New("the lease is lost: another replica may be at work")

// Election is one replica's part in the leader election. A nil Election is that of the only
// replica, which always leads.
type Election struct {
	options  Options
	lost     func()
	identity string
	lock     *lock
	elector  *leaderelection.LeaderElector
	elected  chan struct{}
}

// New returns an Election, or nil without options. It sends no requests yet. The client needs a
// rate limit of its own: if it shares one, other requests can delay renewals until the Lease is
// lost. The client's timeout should be shorter than RenewDeadline, so that there is time for a
// second try. lost is called when the Lease is lost, and must end the process at once: what this
// replica has begun, another one continues.
func New(client coordinationv1.LeasesGetter, recorder resourcelock.EventRecorder, options *Options, lost func()) (*Election, error) {
	if options == nil {
		return nil, nil
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e := &Election{
		options: *options,
		lost:    lost,
		// The same form as in Kubernetes' own controllers: a restarted pod is a new candidate.
		identity: hostname + "_" + uuid.NewString(),
		elected:  make(chan struct{}),
	}
	e.lock = &lock{taken: make(chan error, 1), refused: make(chan error, 1), Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity, EventRecorder: recorder},
	}}
	// Without ReleaseOnCancel: see release.
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
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return e, nil
}

// Run waits until this replica leads, and then calls lead. When ctx is cancelled, lead must
// finish its work and return. Run renews the Lease until then, releases it, and returns lead's
// error. If the Lease is lost earlier, Run calls lost and returns ErrLost, while lead still runs.
func (e *Election) Run(ctx context.Context, lead func(context.Context) error) error {
	if e == nil {
		return lead(ctx)
	}
	if _, _, err := e.lock.Get(ctx); apierrors.IsForbidden(err) {
		return advise(err) // the elector would retry for ever
	}
	// Two contexts: the Lease outlives the work.
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
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
	case <-e.lock.taken:
	case err := <-result:
		stop()
		<-ended
		e.release(context.WithoutCancel(ctx))
		return err
	}
	e.lost()
	return ErrLost
}

// advise adds to a permanent error what the user can do about it.
func advise(err error) error {
	return fmt.Errorf("leader election: %w: correct that, or run one replica with -leader-elect=false", err)
}

// release gives up the Lease if this replica holds it, so that the next leader need not wait
// until it expires. It retries until RenewDeadline. client-go's ReleaseOnCancel is not used: it
// would release a lost Lease too, while work is under way; it trusts the record that it observed
// last, so a process that was suspended would release its successor's Lease; and it tries once.
func (e *Election) release(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("lease", e.lock.Describe())
	var last error
	err := wait.PollUntilContextTimeout(ctx, e.options.RetryPeriod, e.options.RenewDeadline, true, func(ctx context.Context) (bool, error) {
		var record *resourcelock.LeaderElectionRecord
		record, _, last = e.lock.Get(ctx)
		if apierrors.IsNotFound(last) || last == nil && record.HolderIdentity != e.identity {
			return true, nil // not held, or released by a request whose answer was lost
		}
		if last == nil {
			record.HolderIdentity = ""
			last = e.lock.Update(ctx, *record)
		}
		return last == nil, nil
	})
	if err != nil {
		logger.Info("Failed to release the lease; the other replicas wait until it expires", "err", last)
		return
	}
	logger.V(2).Info("No longer holding the lease")
}

// Leads reports whether this replica is certain to lead: it holds the Lease and renewed it within
// RenewDeadline. Others do not take the Lease before LeaseDuration has passed. A process
// that was suspended learns here that it no longer leads, before the elector notices.
func (e *Election) Leads() bool {
	return e == nil || e.elector.IsLeader() && e.lock.age() < e.options.RenewDeadline
}

// MustLead returns only if this replica leads. It is called before each request to OpenStack:
// a process that was suspended detects there that it has lost the Lease, before it creates
// what another replica has created already. (Most writes to Kubernetes need no such check:
// they hold only for the resourceVersion that was read.)
func (e *Election) MustLead() {
	if !e.Leads() {
		e.lost()
	}
}

// Leader returns the identity of the leader, or "" if none is known.
func (e *Election) Leader() string {
	if e == nil {
		return ""
	}
	return e.elector.GetLeader()
}

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
