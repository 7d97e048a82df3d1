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

package fair

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Limiter is a workqueue.TypedRateLimiter that has one for each group: the retries of one
// group use up nobody else's rate.
type Limiter[G, K comparable] struct {
	groupOf func(K) G
	make    func() workqueue.TypedRateLimiter[K]

	mu       sync.Mutex
	limiters map[G]workqueue.TypedRateLimiter[K]
}

// NewLimiter makes a Limiter that makes those of the groups when they are needed. As long
// as a key is not forgotten, it must stay in its group.
func NewLimiter[G, K comparable](groupOf func(K) G, make func() workqueue.TypedRateLimiter[K]) *Limiter[G, K] {
	return &Limiter[G, K]{groupOf: groupOf, make: make, limiters: map[G]workqueue.TypedRateLimiter[K]{}}
}

func (l *Limiter[G, K]) of(key K) workqueue.TypedRateLimiter[K] {
	group := l.groupOf(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.limiters[group]
	if limiter == nil {
		limiter = l.make()
		l.limiters[group] = limiter
	}
	return limiter
}

// When implements workqueue.TypedRateLimiter.
func (l *Limiter[G, K]) When(key K) time.Duration { return l.of(key).When(key) }

// Forget implements workqueue.TypedRateLimiter.
func (l *Limiter[G, K]) Forget(key K) { l.of(key).Forget(key) }

// NumRequeues implements workqueue.TypedRateLimiter.
func (l *Limiter[G, K]) NumRequeues(key K) int { return l.of(key).NumRequeues(key) }

// Drop is for a group that has no keys any more.
func (l *Limiter[G, K]) Drop(group G) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.limiters, group)
}
