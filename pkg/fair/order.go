// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fair is the order in which a work queue hands out its keys, so that no cloud and no
// namespace holds up the others.
package fair

import (
	"math"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Group says with which keys a key takes turns.
type Group[C comparable] struct {
	// Cloud is the cloud that the key works in. The zero value is the controller's own cloud.
	Cloud     C
	Namespace string
	// IsOffered means that an administrator has chosen the cloud: users cannot lead it to a slow server.
	IsOffered bool
}

// Limits bound how many keys are handed out and not yet released.
type Limits struct {
	// PerCloud is for the keys of one cloud, Total for those of all clouds together. The keys of
	// the zero cloud do not count.
	PerCloud, Total int
	// Untrusted is for the keys of all clouds that no administrator has chosen; 0 for no limit but Total.
	Untrusted int
	// Own is for the keys of the zero cloud; 0 for no limit.
	Own int
}

// NewLimits returns the Limits for so many workers, and so many simultaneous requests to a cloud.
// Any cloud can be so slow that all its workers wait, so each leaves some to the others: the
// controller's own cloud gets half of the workers and one more, and all other clouds get three quarters,
// which they share as Order says. Those of users' Secrets leave a quarter of that to those of ClusterClouds. More than two workers for each connection would only wait for one another.
func NewLimits(workers, connections int) Limits {
	total := max(1, workers-max(1, workers/4))
	return Limits{
		PerCloud:  2 * connections,
		Total:     total,
		Untrusted: total - total/4,
		Own:       min(workers/2+1, max(1, workers-1)),
	}
}

// Order is the order of a work queue: round robin among clouds, within a cloud round robin
// among namespaces, and within a namespace first come, first served. A key that exceeds a limit
// stays in the queue, and the next namespace or cloud has its turn.
//
// All clouds but the zero one share the Total of their Limits so that some of it is left, however slow some of them are: a
// cloud never has more keys handed out than are left, and a namespace, whose users write its Secrets, never more than twice as
// many in all these clouds. So one cloud alone gets half of the Total, two of two namespaces get a third each, and so on.
// Clouds that no administrator has chosen share Untrusted in the same way.
// See Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches, IEEE/ACM Transactions on
// Networking 6 (1998).
//
// It implements workqueue.Queue. The queue calls its methods under a lock, and never pushes a
// key that is already waiting or being processed.
type Order[K, C comparable] struct {
	groupOf func(K) Group[C]
	limits  Limits

	mu sync.Mutex
	// waiting holds the clouds that have keys that wait, and the zero cloud.
	waiting map[C]*waiting[K, C]
	// turns are the clouds that have keys that wait, in the order of their turns.
	turns []*waiting[K, C]
	// processing holds the groups of the keys that are handed out.
	processing map[K]Group[C]
	// busy is the number of those keys for each cloud, and tenants that of each namespace in all clouds but the zero cloud.
	busy    map[C]int
	tenants map[string]int
	// untrusted is the number of those keys for clouds that no administrator has chosen.
	untrusted int
	// hasZero reports whether the zero key waits. It is before all others, and in no group.
	hasZero bool
}

// waiting are the keys of one cloud that wait.
type waiting[K, C comparable] struct {
	cloud     C
	isOffered bool
	count     int
	// namespaces have keys that wait, in the order of their turns.
	namespaces []string
	keys       map[string][]K
}

// NewQueue returns a work queue with the order of the groups and the limits. groupOf is called
// for each key that is pushed, under the queue's lock: it must not use the queue. No key is the zero value.
func NewQueue[K, C comparable](name string, groupOf func(K) Group[C], limits Limits, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
	order := NewOrder(groupOf, limits)
	typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: typed})
	limited := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delaying})
	return &queue[K, C]{limited, order}
}

// queue tells its order which keys are done.
type queue[K, C comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	order *Order[K, C]
}

// Done releases the key first, because the work queue then pushes a key that was added
// meanwhile. Every worker that calls Done calls Get next, or the queue is shutting down, so no other worker has to be woken for
// the key that a release makes room for.
func (q *queue[K, C]) Done(key K) {
	q.order.Release(key)
	q.TypedRateLimitingInterface.Done(key)
}

// Get returns no zero key. A release can make room for several keys, and only one worker comes for them: it wakes another one by
// adding the zero key.
func (q *queue[K, C]) Get() (key K, shutdown bool) {
	var zero K
	for {
		key, shutdown = q.TypedRateLimitingInterface.Get()
		if shutdown {
			return key, shutdown
		}
		if key != zero {
			if q.order.hasRoom() {
				q.Add(zero)
			}
			return key, false
		}
		q.TypedRateLimitingInterface.Done(zero)
	}
}

// NewOrder returns an empty Order.
func NewOrder[K, C comparable](groupOf func(K) Group[C], limits Limits) *Order[K, C] {
	return &Order[K, C]{groupOf: groupOf, limits: limits, waiting: map[C]*waiting[K, C]{}, processing: map[K]Group[C]{}, busy: map[C]int{}, tenants: map[string]int{}}
}

// Push adds a key.
func (o *Order[K, C]) Push(key K) {
	var zero K
	if key == zero {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.hasZero = true
		return
	}
	group := o.groupOf(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.waiting[group.Cloud]
	if w == nil {
		w = &waiting[K, C]{cloud: group.Cloud, isOffered: group.IsOffered, keys: map[string][]K{}}
		o.waiting[group.Cloud] = w
	}
	if w.count == 0 {
		o.turns = append(o.turns, w)
	}
	w.push(group.Namespace, key)
}

// Touch does nothing: a key that is added again keeps its place.
func (o *Order[K, C]) Touch(K) {}

// Len returns how many keys Pop can return now, but counts only one of each cloud but the zero one. Keys that exceed a limit do not
// count, so the queue's workers wait. The queue's depth metric does include them.
func (o *Order[K, C]) Len() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hasZero {
		n = 1
	}
	for _, w := range o.turns {
		switch {
		case isOwn(w.cloud):
			n += min(w.count, o.roomOfOwn())
		case o.next(w) >= 0:
			n++
		}
	}
	return n
}

// Pop returns the next key, and removes it. Len must not be 0.
func (o *Order[K, C]) Pop() K {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hasZero {
		o.hasZero = false
		var zero K
		return zero
	}
	i := slices.IndexFunc(o.turns, func(w *waiting[K, C]) bool { return o.next(w) >= 0 })
	w := o.turns[i]
	namespace, key := w.pop(o.next(w))
	o.turns = slices.Delete(o.turns, i, i+1)
	if w.count > 0 {
		o.turns = append(o.turns, w)
	}
	o.processing[key] = Group[C]{w.cloud, namespace, w.isOffered}
	o.busy[w.cloud]++
	if !isOwn(w.cloud) {
		o.tenants[namespace]++
		if !w.isOffered {
			o.untrusted++
		}
		if w.count == 0 {
			delete(o.waiting, w.cloud)
		}
	}
	return key
}

// Release makes room for other keys. Releasing a key that is not handed out does nothing.
func (o *Order[K, C]) Release(key K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	group, ok := o.processing[key]
	if !ok {
		return
	}
	delete(o.processing, key)
	decrement(o.busy, group.Cloud)
	if !isOwn(group.Cloud) {
		decrement(o.tenants, group.Namespace)
		if !group.IsOffered {
			o.untrusted--
		}
	}
}

// hasRoom reports whether a key of another cloud than the zero one can be handed out.
func (o *Order[K, C]) hasRoom() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.turns, func(w *waiting[K, C]) bool { return !isOwn(w.cloud) && o.next(w) >= 0 })
}

func decrement[K comparable](counts map[K]int, of K) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}

func isOwn[C comparable](cloud C) bool {
	var own C
	return cloud == own
}

// next returns the number of the namespace whose key can be handed out next; -1 if a limit holds up all of them.
func (o *Order[K, C]) next(w *waiting[K, C]) int {
	if isOwn(w.cloud) {
		return min(0, o.roomOfOwn()-1)
	}
	var own C
	left := o.limits.Total - (len(o.processing) - o.busy[own])
	if o.limits.Untrusted > 0 && !w.isOffered {
		left = min(left, o.limits.Untrusted-o.untrusted)
	}
	if o.busy[w.cloud] >= min(left, o.limits.PerCloud) {
		return -1
	}
	return slices.IndexFunc(w.namespaces, func(namespace string) bool { return o.tenants[namespace] < 2*left })
}

// roomOfOwn returns how many more keys of the zero cloud can be handed out now.
func (o *Order[K, C]) roomOfOwn() int {
	if o.limits.Own == 0 {
		return math.MaxInt
	}
	var own C
	return o.limits.Own - o.busy[own]
}

func (w *waiting[K, C]) push(namespace string, key K) {
	w.count++
	if len(w.keys[namespace]) == 0 {
		w.namespaces = append(w.namespaces, namespace)
	}
	w.keys[namespace] = append(w.keys[namespace], key)
}

// pop removes the first key of the namespace with that number.
func (w *waiting[K, C]) pop(number int) (namespace string, key K) {
	w.count--
	namespace = w.namespaces[number]
	w.namespaces = slices.Delete(w.namespaces, number, number+1)
	keys := w.keys[namespace]
	if len(keys) > 1 {
		w.keys[namespace] = keys[1:]
		w.namespaces = append(w.namespaces, namespace)
	} else {
		delete(w.keys, namespace)
	}
	return namespace, keys[0]
}
