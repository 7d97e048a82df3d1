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

package neutron

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// Observer remembers which networks Neutron has for each owner of one cluster, as an
// informer does for Kubernetes: it lists all of them once per period, is told of our
// own changes in between, and calls its handlers for each owner whose networks have
// changed by other hands. Its methods may be called concurrently.
type Observer struct {
	cluster string
	period  time.Duration
	list    func(context.Context) ([]*Network, error)

	mu        sync.Mutex
	handlers  []func(types.UID)
	recovered func()
	onLook    func()
	// tick orders lists and our own changes: a list must not undo a change that was
	// made after the list had begun.
	tick    int64
	records map[types.UID]record
	// err is why there is no complete look at Neutron yet; it is nil once there was one.
	err error

	// looks is how many there were, lastLook when the last one ended, and tried is set once it
	// was tried.
	looks    int
	lastLook time.Time
	tried    bool
	firstTry chan struct{}
	// soon holds something when the next look is not to wait for its time.
	soon chan struct{}
}

// record is what is remembered of one owner.
type record struct {
	networks []*Network
	// tick is the time of our own last change.
	tick int64
	// unknown is set after a change whose outcome is not known.
	unknown bool
}

// NewObserver makes an Observer of what list returns that carries the cluster's mark.
func NewObserver(cluster string, period time.Duration, list func(context.Context) ([]*Network, error)) *Observer {
	return &Observer{
		cluster:   cluster,
		period:    period,
		list:      list,
		recovered: func() {},
		onLook:    func() {},
		records:   map[types.UID]record{},
		firstTry:  make(chan struct{}),
		soon:      make(chan struct{}, 1),
	}
}

// AddHandler has handler called for each owner whose networks have changed by other
// hands since they were last seen. It must not block.
func (o *Observer) AddHandler(handler func(types.UID)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handlers = append(o.handlers, handler)
}

// OnRecovery has recovered called, in place of what was given before, when a look
// succeeds after others, or RelistSoon: what waits for Neutron may go on. It must not block.
func (o *Observer) OnRecovery(recovered func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recovered = recovered
}

// OnRelist has looked called, in place of what was given before, after each complete look,
// and after the handlers. It must not block.
func (o *Observer) OnRelist(looked func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onLook = looked
}

// Run looks at Neutron once per period (give or take a tenth, so that many controllers
// do not ask at the same moment), and sooner after it failed, until ctx is cancelled.
func (o *Observer) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var failures int
	var asked bool // somebody else has failed
	for {
		delay := wait.Jitter(o.period, 0.1)
		started := time.Now()
		err := o.Relist(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures == 0 {
				logger.Error(err, "Failed to look at Neutron; what was known stays, and the look is tried again until it succeeds")
			}
			delay = min(delay, retryLook(err, failures))
			failures++
		case failures > 0 || asked:
			logger.Info("Looked at Neutron again", "failures", failures)
			failures, asked = 0, false
			o.tellRecovered()
		}
		logger.V(4).Info("Looked at Neutron", "duration", time.Since(started), "err", err)
		select {
		case <-ctx.Done():
			return
		case <-o.soon:
			asked = true
		case <-time.After(delay):
		}
	}
}

// RelistSoon is for those whose requests fail: it has Run look at Neutron now, and then
// until it succeeds, and tell of the recovery.
func (o *Observer) RelistSoon() {
	select {
	case o.soon <- struct{}{}:
	default: // it will, anyway
	}
}

// retryLook is how long to wait after a look that failed, as so many before it. It is not
// long, since much may wait for it; but as long as Neutron asks, and not so short that
// Keystone locks the account for its wrong password.
func retryLook(err error, failures int) time.Duration {
	delay := wait.Jitter(time.Second<<min(failures, 3), 0.5)
	if ReasonOf(err) == Unauthenticated || ReasonOf(err) == Forbidden {
		delay = wait.Jitter(20*time.Second, 0.5)
	}
	return max(delay, RetryAfterOf(err))
}

func (o *Observer) tellRecovered() {
	o.mu.Lock()
	recovered := o.recovered
	o.mu.Unlock()
	recovered()
}

// Look lists Neutron's networks once. If the list fails, nothing changes but the error.
func (o *Observer) Relist(ctx context.Context) error {
	began := o.now()
	networks, err := o.list(ctx)
	changed, handlers := o.merge(began, networks, err)
	for _, uid := range changed {
		for _, handler := range handlers {
			handler(uid)
		}
	}
	if err == nil {
		o.tellLooked()
	}
	return err
}

func (o *Observer) tellLooked() {
	o.mu.Lock()
	looked := o.onLook
	o.mu.Unlock()
	looked()
}

// LastList returns when the last complete look ended; the zero Time if there was none yet.
func (o *Observer) LastList() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastLook
}

// FirstListDone is closed when the first look has ended, well or not.
func (o *Observer) FirstListDone() <-chan struct{} { return o.firstTry }

// Get returns the networks that the owner was last seen to have. Whether it is known
// at all is false after a change whose outcome is not known: the caller has to look
// for itself. The error is that of the last look if none has succeeded yet.
func (o *Observer) Get(uid types.UID) (networks []*Network, known bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looks == 0 {
		return nil, false, o.err
	}
	r := o.records[uid]
	return r.networks, !r.unknown, nil
}

// All returns the networks of all owners as they are remembered, and how many complete
// looks there have been. Owners for whom Get would say that it does not know, or none,
// are left out.
func (o *Observer) All() (networks map[types.UID][]*Network, looks int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	networks = make(map[types.UID][]*Network, len(o.records))
	if o.looks == 0 {
		return networks, 0
	}
	for uid, r := range o.records {
		if len(r.networks) > 0 {
			networks[uid] = r.networks
		}
	}
	return networks, o.looks
}

// Replace remembers that these are all of the owner's networks.
func (o *Observer) Replace(uid types.UID, networks ...*Network) {
	networks = slices.SortedFunc(slices.Values(networks), byID)
	o.modify(uid, func(r *record) { r.networks, r.unknown = networks, false })
}

// Update remembers the answer to a change of one of the owner's networks.
func (o *Observer) Update(uid types.UID, network *Network) {
	o.modify(uid, func(r *record) {
		r.networks = append(without(r.networks, network.ID), network)
		slices.SortFunc(r.networks, byID)
	})
}

// Delete remembers that one of the owner's networks is no longer there, or no longer its own.
func (o *Observer) Delete(uid types.UID, id string) {
	o.modify(uid, func(r *record) { r.networks = without(r.networks, id) })
}

// Invalidate is for a change whose outcome is not known.
func (o *Observer) Invalidate(uid types.UID) {
	o.modify(uid, func(r *record) { r.networks, r.unknown = nil, true })
}

func (o *Observer) modify(uid types.UID, change func(*record)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick++
	r := o.records[uid]
	r.tick = o.tick
	change(&r)
	o.records[uid] = r
}

func (o *Observer) now() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick++
	return o.tick
}

// merge takes over what a list that began at that tick has found, and returns the owners
// for whom that is something new, and whom to tell. The records that were changed since the
// list began stay as they are: the list may have been read before the change, or after it.
func (o *Observer) merge(began int64, networks []*Network, err error) (changed []types.UID, handlers []func(types.UID)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.tried {
		o.tried = true
		close(o.firstTry)
	}
	if err != nil {
		o.err = err
		return nil, nil
	}
	o.err = nil
	o.looks++
	o.lastLook = time.Now()

	found := make(map[types.UID][]*Network, len(networks))
	for _, n := range networks {
		if owner, marked := OwnerOf(n.Description); marked && owner.Cluster == o.cluster {
			found[owner.UID] = append(found[owner.UID], n)
		}
	}
	for _, now := range found {
		slices.SortFunc(now, byID)
	}
	for uid, r := range o.records {
		now, there := found[uid]
		if r.tick > began {
			delete(found, uid)
			continue
		}
		if r.unknown || !slices.EqualFunc(r.networks, now, same) {
			changed = append(changed, uid)
		}
		if !there {
			delete(o.records, uid)
		}
	}
	for uid, now := range found {
		if _, known := o.records[uid]; !known {
			changed = append(changed, uid)
		}
		o.records[uid] = record{networks: now}
	}
	return changed, o.handlers
}

func without(networks []*Network, id string) []*Network {
	return slices.DeleteFunc(slices.Clone(networks), func(n *Network) bool { return n.ID == id })
}
