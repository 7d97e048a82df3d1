// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package retry spaces out the retries of failed syncs, and makes a panic of a sync an error.
package retry

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// Recover calls do, and turns a panic into an error, so that one object does not stop all the others.
func Recover[K any](ctx context.Context, key K, do func(context.Context, K) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, key)
}

// Options say how failed syncs are spaced out.
type Options struct {
	// BaseDelay and MaxDelay bound the delay of one key: it doubles from the one to the
	// other with each failure in a row.
	BaseDelay time.Duration
	MaxDelay  time.Duration
	// QPS and Burst bound the retries of all keys of a group together, per second: those with a back-off, and, apart from them, those
	// whose delay is known.
	QPS   float64
	Burst int
}

// jitter is the fraction by which a delay is prolonged at most, so that what failed together
// is not retried together.
const jitter = 0.2

// Limiter is the rate limiter of a queue: a key waits for the longer of its own exponential
// back-off, with jitter, and its turn in the token bucket of its group. So the retries of one
// group do not use up the rate of another.
//
// Something else can enqueue a key before its turn. Then the key gives the turn back, and the
// next key of the group that needs one gets it: otherwise each recovery of Neutron, which
// enqueues all keys, would make the retries after it later.
type Limiter[K, G comparable] struct {
	workqueue.TypedRateLimiter[K] // the back-off of each key

	options Options
	groupOf func(K) G

	mu      sync.Mutex
	buckets map[G]*buckets
	turns   map[K]turn
}

// turn is when the token bucket lets a key be retried.
type turn struct {
	at     time.Time
	bucket *bucket
}

// buckets are those of a group.
type buckets struct{ backOff, known bucket }

// bucket is a token bucket of a group.
type bucket struct {
	tokens *rate.Limiter
	// unused are turns that were given back, in order. Cancelling the reservation of a token
	// would not do: a bucket takes back only those that nobody has reserved after.
	unused []time.Time
}

// NewLimiter returns a Limiter. groupOf returns the group of a key; it must not use the queue.
func NewLimiter[K, G comparable](o Options, groupOf func(K) G) *Limiter[K, G] {
	return &Limiter[K, G]{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.BaseDelay, o.MaxDelay),
		options:          o,
		groupOf:          groupOf,
		buckets:          map[G]*buckets{},
		turns:            map[K]turn{},
	}
}

// When returns how long the key waits before its next retry.
func (l *Limiter[K, G]) When(key K) time.Duration {
	return l.inTurn(key, l.TypedRateLimiter.When(key), func(b *buckets) *bucket { return &b.backOff })
}

// After returns how long the key waits if its next retry is to be that much later: with jitter, and until its turn. These retries take
// turns in a token bucket of their own: however many there are, they do not delay those of keys that have just failed.
func (l *Limiter[K, G]) After(key K, delay time.Duration) time.Duration {
	return l.inTurn(key, delay, func(b *buckets) *bucket { return &b.known })
}

func (l *Limiter[K, G]) inTurn(key K, delay time.Duration, of func(*buckets) *bucket) time.Duration {
	delay = wait.Jitter(delay, jitter)
	group, now := l.groupOf(key), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key, now)
	next := of(l.bucketsOf(group)).next(now)
	l.turns[key] = next
	return max(delay, next.at.Sub(now))
}

// Forget ends the back-off of the key: it succeeded, or waits for something else.
func (l *Limiter[K, G]) Forget(key K) {
	l.TypedRateLimiter.Forget(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key, time.Now())
}

// giveBack is called with the lock held.
func (l *Limiter[K, G]) giveBack(key K, now time.Time) {
	if last, ok := l.turns[key]; ok && last.at.After(now) {
		i, _ := slices.BinarySearchFunc(last.bucket.unused, last.at, time.Time.Compare)
		last.bucket.unused = slices.Insert(last.bucket.unused, i, last.at)
	}
	delete(l.turns, key)
}

// bucketsOf is called with the lock held.
func (l *Limiter[K, G]) bucketsOf(group G) *buckets {
	b := l.buckets[group]
	if b == nil {
		full := func() bucket { return bucket{tokens: rate.NewLimiter(rate.Limit(l.options.QPS), l.options.Burst)} }
		b = &buckets{full(), full()}
		l.buckets[group] = b
	}
	return b
}

// next returns the earliest turn that was given back and is not over yet, or else a new one.
func (b *bucket) next(now time.Time) turn {
	i, _ := slices.BinarySearchFunc(b.unused, now, time.Time.Compare)
	b.unused = b.unused[i:]
	if len(b.unused) == 0 {
		return turn{now.Add(b.tokens.ReserveN(now, 1).DelayFrom(now)), b}
	}
	at := b.unused[0]
	b.unused = b.unused[1:]
	return turn{at, b}
}

// Drop forgets the token buckets of a group that has no keys any more.
func (l *Limiter[K, G]) Drop(group G) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.buckets, group)
}
