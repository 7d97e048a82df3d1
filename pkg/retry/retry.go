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

// Package retry spaces out the retries of failed syncs.
package retry

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// Options say how failed syncs are spaced out.
type Options struct {
	// BaseDelay and MaxDelay bound the delay of one key: it doubles from the one to the
	// other with each failure in a row.
	BaseDelay time.Duration
	MaxDelay  time.Duration
	// QPS and Burst bound the retries of all keys of a group together, per second.
	QPS   float64
	Burst int
}

// jitter is the fraction by which a delay is prolonged at most, so that what failed together
// is not retried together.
const jitter = 0.2

// Limiter is the rate limiter of a queue: a key waits for the longer of its own exponential
// back-off, with jitter, and its turn in the token bucket of its group. So the retries of one
// group do not use up the rate of another.
type Limiter[K, G comparable] struct {
	workqueue.TypedRateLimiter[K] // the back-off of each key

	options Options
	groupOf func(K) G

	mu      sync.Mutex
	buckets map[G]*rate.Limiter
}

// NewLimiter returns a Limiter. groupOf returns the group of a key; it must not use the queue.
func NewLimiter[K, G comparable](o Options, groupOf func(K) G) *Limiter[K, G] {
	return &Limiter[K, G]{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.BaseDelay, o.MaxDelay),
		options:          o,
		groupOf:          groupOf,
		buckets:          map[G]*rate.Limiter{},
	}
}

// When returns how long the key waits before its next retry.
func (l *Limiter[K, G]) When(key K) time.Duration {
	return max(wait.Jitter(l.TypedRateLimiter.When(key), jitter), l.bucket(key).Reserve().Delay())
}

func (l *Limiter[K, G]) bucket(key K) *rate.Limiter {
	group := l.groupOf(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.buckets[group]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Limit(l.options.QPS), l.options.Burst)
		l.buckets[group] = bucket
	}
	return bucket
}

// Drop forgets the token bucket of a group that has no keys any more.
func (l *Limiter[K, G]) Drop(group G) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.buckets, group)
}
