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
}

// Limits bound how many keys are handed out and not yet released.
type Limits struct {
	// PerCloud is for the keys of one cloud, Total for those of all clouds together. The keys of
	// the zero cloud do not count.
	PerCloud, Total int
	// Own is for the keys of the zero cloud; 0 for no limit.
	Own int
}

// NewLimits returns the Limits for so many workers, and so many simultaneous requests to a cloud.
// Any cloud can be so slow that all its workers wait, so each leaves some to the others: the
// controller's own cloud gets half of the workers and one more, a cloud of a Secret three eighths,
// and all those of Secrets three quarters. With few workers, each leaves one if it has another. More than
// two workers for each connection would only wait for one another.
func NewLimits(workers, connections int) Limits {
	total := max(1, workers-max(1, workers/4))
	return Limits{
		PerCloud: min((workers*3+7)/8, max(1, total-1), 2*connections), // rounded up
		Total:    total,
		Own:      min(workers/2+1, max(1, workers-1)),
	}
}

// Order is the order of a work queue: round robin among clouds, within a cloud round robin
// among namespaces, and within a namespace first come, first served. A key that exceeds the
// limits of its cloud stays in the queue, and the next cloud has its turn.
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
	// processing holds the clouds of the keys that are handed out.
	processing map[K]C
	// busy is the number of those keys for each cloud.
	busy map[C]int
}

// waiting are the keys of one cloud that wait.
type waiting[K, C comparable] struct {
	cloud C
	count int
	// namespaces have keys that wait, in the order of their turns.
	namespaces []string
	keys       map[string][]K
}

// NewQueue returns a work queue with the order of the groups and the limits. groupOf is called
// for each key that is pushed, under the queue's lock: it must not use the queue.
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
// meanwhile. A release makes room for one key at most. Every worker that calls Done calls Get
// next, or the queue is shutting down, so no other worker has to be woken.
func (q *queue[K, C]) Done(key K) {
	q.order.Release(key)
	q.TypedRateLimitingInterface.Done(key)
}

// NewOrder returns an empty Order.
func NewOrder[K, C comparable](groupOf func(K) Group[C], limits Limits) *Order[K, C] {
	return &Order[K, C]{groupOf: groupOf, limits: limits, waiting: map[C]*waiting[K, C]{}, processing: map[K]C{}, busy: map[C]int{}}
}

// Push adds a key.
func (o *Order[K, C]) Push(key K) {
	group := o.groupOf(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.waiting[group.Cloud]
	if w == nil {
		w = &waiting[K, C]{cloud: group.Cloud, keys: map[string][]K{}}
		o.waiting[group.Cloud] = w
	}
	if w.count == 0 {
		o.turns = append(o.turns, w)
	}
	w.push(group.Namespace, key)
}

// Touch does nothing: a key that is added again keeps its place.
func (o *Order[K, C]) Touch(K) {}

// Len returns how many keys Pop can return now. Keys that exceed a limit do not count, so the
// queue's workers wait. The queue's depth metric does include them.
func (o *Order[K, C]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, others := 0, 0
	for _, w := range o.turns {
		if n := min(w.count, o.room(w.cloud)); isOwn(w.cloud) {
			own = n
		} else {
			others += n
		}
	}
	return own + min(others, o.roomInTotal())
}

// Pop returns the next key, and removes it. Len must not be 0.
func (o *Order[K, C]) Pop() K {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.turns, func(w *waiting[K, C]) bool { return o.room(w.cloud) > 0 })
	w := o.turns[i]
	key := w.pop()
	o.turns = slices.Delete(o.turns, i, i+1)
	if w.count > 0 {
		o.turns = append(o.turns, w)
	}
	o.processing[key] = w.cloud
	o.busy[w.cloud]++
	if w.count == 0 && !isOwn(w.cloud) {
		delete(o.waiting, w.cloud)
	}
	return key
}

// Release makes room for another key. Releasing a key that is not handed out does nothing.
func (o *Order[K, C]) Release(key K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	cloud, ok := o.processing[key]
	if !ok {
		return
	}
	delete(o.processing, key)
	if o.busy[cloud]--; o.busy[cloud] == 0 {
		delete(o.busy, cloud)
	}
}

func isOwn[C comparable](cloud C) bool {
	var own C
	return cloud == own
}

// room returns how many more keys of the cloud can be handed out now.
func (o *Order[K, C]) room(cloud C) int {
	switch {
	case !isOwn(cloud):
		return min(o.limits.PerCloud-o.busy[cloud], o.roomInTotal())
	case o.limits.Own > 0:
		return o.limits.Own - o.busy[cloud]
	}
	return math.MaxInt
}

// roomInTotal returns how many more keys of all clouds but the zero cloud can be handed out now.
func (o *Order[K, C]) roomInTotal() int {
	var own C
	return o.limits.Total - (len(o.processing) - o.busy[own])
}

func (w *waiting[K, C]) push(namespace string, key K) {
	w.count++
	if len(w.keys[namespace]) == 0 {
		w.namespaces = append(w.namespaces, namespace)
	}
	w.keys[namespace] = append(w.keys[namespace], key)
}

func (w *waiting[K, C]) pop() K {
	w.count--
	namespace := w.namespaces[0]
	w.namespaces = w.namespaces[1:]
	keys := w.keys[namespace]
	if len(keys) > 1 {
		w.keys[namespace] = keys[1:]
		w.namespaces = append(w.namespaces, namespace)
	} else {
		delete(w.keys, namespace)
	}
	return keys[0]
}
