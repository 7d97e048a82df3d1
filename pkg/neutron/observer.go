// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// Observer is a cache of what Neutron has of each owner of one cluster, as an informer is for
// Kubernetes. It lists all once per period, takes over the controller's own changes in between,
// and calls its handlers for each owner whose networks or routers another client has changed. Its methods may be called concurrently.
type Observer struct {
	period time.Duration
	// list returns what Neutron has of each owner that has something.
	list func(context.Context) (map[types.UID]*Observed, error)
	// wake calls the handlers for the owners that wait for the cloud.
	wake func()
	// isAway reports whether other requests fail too, and not only lists.
	isAway func() bool

	mu         sync.Mutex
	handlers   []func(types.UID)
	onRecovery func()
	onRelist   func()
	clock      *clock
	origins    *origins
	began      int64 // the tick at which the last list began that succeeded
	records    map[types.UID]record
	// err is the error of the last list; nil after a list that succeeded.
	err error
	// overflow is set while there are more networks than a list keeps.
	overflow bool

	lists      int // that succeeded
	lastList   time.Time
	firstList  chan struct{} // closed by closeFirst
	closeFirst sync.Once
	// soon has an element if the next list must not wait for the period.
	soon chan struct{}
}

// record is the cached state of one owner.
type record struct {
	// observed is nil if nothing is known.
	observed *Observed
	// tick is the tick of the last own change.
	tick int64
	// unknown is set after a change whose outcome is not known.
	unknown bool
}

// NewObserver returns an Observer of what list returns for each owner that has something.
func NewObserver(period time.Duration, list func(context.Context) (map[types.UID]*Observed, error)) *Observer {
	return &Observer{
		period:     period,
		list:       list,
		wake:       func() {},
		isAway:     func() bool { return true },
		onRecovery: func() {},
		onRelist:   func() {},
		clock:      &clock{},
		origins:    &origins{},
		records:    map[types.UID]record{},
		firstList:  make(chan struct{}),
		soon:       make(chan struct{}, 1),
	}
}

// Join gives both Observers, and all that are joined to the other one, one clock: what one of them has listed of an owner is not known
// any more when another one has changed or read something of the owner since that list began. They also know together where networks
// were created. The content of a Secret can change at any time, also during a sync, and then its Networks have another Observer. It is
// called before the Observer runs.
func (o *Observer) Join(other *Observer) { o.clock, o.origins = other.clock, other.origins }

// AddHandler adds a handler. It is called after a list for each owner whose networks another
// client has changed since they were last observed, and for each that waits for the cloud if the
// list before failed. It must not block.
func (o *Observer) AddHandler(handler func(types.UID)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handlers = append(o.handlers, handler)
}

// OnRecovery sets the function that is called when a list succeeds after one that failed, or
// after RelistSoon, and after the handlers. It must not block.
func (o *Observer) OnRecovery(recovered func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onRecovery = recovered
}

// OnRelist sets the function that is called after each list that succeeded, and after the
// handlers. It must not block.
func (o *Observer) OnRelist(relisted func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onRelist = relisted
}

// Run lists Neutron's networks once per period until ctx is cancelled. The period varies by up
// to a tenth, so that many controllers do not list at the same moment. After a failure Run
// retries sooner: much may wait for the first list, and for the end of an outage. If only the
// list fails, nothing waits for it, and the delay grows up to the period.
func (o *Observer) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var failures int
	var asked bool // by RelistSoon
	for {
		delay := wait.Jitter(o.period, 0.1)
		started := time.Now()
		err := o.Relist(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures == 0 {
				logger.Error(err, "Failed to list Neutron's networks; the cache stays as it is, and the list is retried until it succeeds")
			}
			delay = min(delay, max(retryDelay(err, failures), o.patience(err, failures)))
			failures++
		case failures > 0 || asked:
			logger.Info("Listed Neutron's networks again", "failures", failures)
			failures, asked = 0, false
			o.wake()
			o.notify(&o.onRecovery)
		}
		logger.V(4).Info("Listed Neutron's networks", "duration", time.Since(started), "err", err)
		select {
		case <-ctx.Done():
			return
		case <-o.soon:
			asked = true
		case <-time.After(delay):
		}
	}
}

// RelistSoon makes Run list now, retry until the list succeeds, and then notify the callback of
// OnRecovery. It is for callers whose own requests fail.
func (o *Observer) RelistSoon() {
	select {
	case o.soon <- struct{}{}:
	default: // it is already requested
	}
}

// retryDelay returns how long to wait after a list that failed with err, after that many earlier
// failures. The delay is short, since much may wait for the list. But it is at least what Neutron
// asks for. Refused credentials can change at any time: until then the Client makes no request.
func retryDelay(err error, failures int) time.Duration {
	if ReasonOf(err) == Unauthenticated || ReasonOf(err) == Forbidden {
		return wait.Jitter(shortHold, 0.5)
	}
	return max(wait.Jitter(time.Second<<min(failures, 3), 0.5), RetryAfterOf(err))
}

// patience returns the least delay after a list that failed with err, after that many earlier failures. It is 0 if
// something waits for the list: all Networks wait for credentials that are refused.
func (o *Observer) patience(err error, failures int) time.Duration {
	o.mu.Lock()
	isFirst := o.lists == 0
	o.mu.Unlock()
	if isFirst || o.isAway() || ReasonOf(err) != Unavailable {
		return 0
	}
	return wait.Jitter(time.Second<<min(failures, 20), 0.5)
}

// notify calls a callback without the lock, so that it can call methods of the Observer.
func (o *Observer) notify(callback *func()) {
	o.mu.Lock()
	call := *callback
	o.mu.Unlock()
	call()
}

// callHandlers calls the handlers for one owner.
func (o *Observer) callHandlers(uid types.UID) {
	o.mu.Lock()
	handlers := o.handlers
	o.mu.Unlock()
	for _, handler := range handlers {
		handler(uid)
	}
}

// Relist lists Neutron's networks once, and returns the error of the list. If it fails, the
// cache stays as it is. It does not fail if there are more networks than a list keeps: the limit
// protects memory, and must not stop the work. See Overflow.
func (o *Observer) Relist(ctx context.Context) error {
	began := o.clock.now()
	found, err := o.list(ctx)
	if errors.Is(err, errTooMany) {
		if o.drop(began) {
			klog.FromContext(ctx).Error(err, "The cache is too small for this cluster's networks in Neutron: each sync reads its network from Neutron, and the changes of other clients are not noticed")
		}
		return nil
	}
	changed, handlers := o.merge(began, found, err)
	for _, uid := range changed {
		for _, handler := range handlers {
			handler(uid)
		}
	}
	if err == nil {
		o.notify(&o.onRelist)
	}
	return err
}

// LastList returns when the last list that succeeded ended; the zero Time if there was none.
func (o *Observer) LastList() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastList
}

// FirstListDone returns a channel that is closed when the first list has ended, whether it
// succeeded or not.
func (o *Observer) FirstListDone() <-chan struct{} { return o.firstList }

// Overflow reports whether there were more networks or subnets of the cluster at the last list
// than the cache may hold. It then has only the networks that were read or changed since.
func (o *Observer) Overflow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.overflow
}

// Get returns what the cache has of the owner. known is false after a change whose outcome
// is not known, after a change or a read with a joined Observer, and, for an owner without a network, after an overflow: the caller must ask
// Neutron. It is false too, with the error of the last list, if no list has succeeded yet.
func (o *Observer) Get(uid types.UID) (observed *Observed, known bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lists == 0 && !o.overflow {
		return &Observed{}, false, o.err
	}
	r := o.records[uid]
	return r.get(), !r.unknown && !o.isOutdated(uid, r) && (!o.overflow || r.get().Exists()), nil
}

// isOutdated reports whether a joined Observer has changed something of the owner since the record was listed. It is called with the
// lock held.
func (o *Observer) isOutdated(uid types.UID, r record) bool {
	return o.clock.lastChange(uid) > max(r.tick, o.began)
}

// get returns what was observed, which is empty if nothing is known.
func (r record) get() *Observed {
	if r.observed == nil {
		return &Observed{}
	}
	return r.observed
}

// All returns what the cache has of each owner that has networks or routers of its own, and how many lists have
// succeeded. It leaves out owners of which nothing is known, and those that import their network. What a joined Observer has changed since
// is as it was listed: an orphan stays the same one.
func (o *Observer) All() (all map[types.UID]*Observed, lists int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lists == 0 {
		return map[types.UID]*Observed{}, 0
	}
	all = map[types.UID]*Observed{}
	for uid, r := range o.records {
		if !r.unknown && !r.observed.IsEmpty() && !r.observed.isImportedBy(uid) {
			all[uid] = r.observed
		}
	}
	return all, o.lists
}

// known returns what the cache has of each owner of which something is known.
func (o *Observer) known() map[types.UID]*Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := make(map[types.UID]*Observed, len(o.records))
	for uid, r := range o.records {
		if !r.unknown && !o.isOutdated(uid, r) {
			known[uid] = r.observed
		}
	}
	return known
}

// replace puts what was read of the owner into the cache.
func (o *Observer) replace(uid types.UID, observed *Observed) {
	o.modify(uid, func(r *record) { r.observed, r.unknown = observed, false })
}

// Update puts the answer to a change of the owner's network or routers into the cache. The duplicates stay as a
// newer list may have shown them.
func (o *Observer) Update(uid types.UID, observed *Observed) {
	o.modify(uid, func(r *record) {
		networks := r.get().withoutNetwork(observed.ID).Networks()
		if observed.Exists() {
			networks = append(networks, &observed.Network)
		}
		r.observed = newObserved(uid, networks, observed.Routers, observed.RoutersKnown)
		r.observed.Imported = observed.Imported
	})
}

// Delete removes a network that does not exist any more, or no longer belongs to the owner, from the cache.
func (o *Observer) Delete(uid types.UID, id string) {
	o.modify(uid, func(r *record) {
		left := r.get().withoutNetwork(id)
		r.observed = newObserved(uid, left.Networks(), left.Routers, left.RoutersKnown)
	})
}

// Invalidate drops what is known about the owner, after a change whose outcome is not known.
func (o *Observer) Invalidate(uid types.UID) {
	o.modify(uid, func(r *record) { r.observed, r.unknown = nil, true })
}

func (o *Observer) modify(uid types.UID, change func(*record)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.records[uid]
	r.tick = o.clock.change(uid)
	change(&r)
	o.records[uid] = r
}

// drop empties the cache after a list that began at that tick and found too much to keep. It
// keeps the records that were changed since the list began. It reports whether the
// list before it was complete, or there was none.
func (o *Observer) drop(began int64) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeFirst.Do(func() { close(o.firstList) })
	maps.DeleteFunc(o.records, func(_ types.UID, r record) bool { return r.tick <= began })
	first = !o.overflow
	o.err, o.overflow = nil, true
	return first
}

// merge takes over the result of a list that began at that tick, and returns the owners of which
// something has changed, and the handlers to call. It keeps the records that were changed since
// the list began: Neutron may have answered before that change or after it.
func (o *Observer) merge(began int64, found map[types.UID]*Observed, err error) (changed []types.UID, handlers []func(types.UID)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeFirst.Do(func() { close(o.firstList) })
	o.err = ofAnother(err)
	if err != nil {
		return nil, nil
	}
	o.overflow = false
	o.began = began
	o.lists++
	o.lastList = time.Now()

	for uid, r := range o.records {
		observed, exists := found[uid]
		if r.tick > began {
			delete(found, uid)
			continue
		}
		if !exists {
			observed = &Observed{}
		}
		if r.unknown || !sameObserved(r.get(), observed) {
			changed = append(changed, uid)
		}
		if !exists {
			delete(o.records, uid)
		}
	}
	for uid, observed := range found {
		if _, known := o.records[uid]; !known {
			changed = append(changed, uid)
		}
		o.records[uid] = record{observed: observed}
	}
	return changed, o.handlers
}
