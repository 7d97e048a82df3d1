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

// Package retry says when a sync that failed is tried again.
package retry

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Options say how failed syncs are spaced out.
type Options struct {
	// BaseDelay and MaxDelay bound the delay of one key: it doubles from the one to the
	// other with each failure in a row.
	BaseDelay time.Duration
	MaxDelay  time.Duration
	// QPS and Burst bound the retries of all keys together, per second.
	QPS   float64
	Burst int
}

// NewLimiter returns the rate limiter of a queue: a key waits for the longer of its own
// exponential back-off, jittered, and its turn in a token bucket that all keys share.
func NewLimiter[T comparable](o Options) workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedMaxOfRateLimiter(
		jittered[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](o.BaseDelay, o.MaxDelay)},
		&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(rate.Limit(o.QPS), o.Burst)},
	)
}

// jitter is by how much of itself a delay is prolonged at the most, so that what failed
// together is not retried together.
const jitter = 0.2

type jittered[T comparable] struct{ workqueue.TypedRateLimiter[T] }

func (j jittered[T]) When(item T) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(item), jitter)
}

// The waits that are known beforehand, where doubling would be of no use.
const (
	// inUse: ports come and go by other hands, and somebody may be watching.
	inUse = 10 * time.Second
	// slowly: a quota is raised, or a password put right, by a person.
	slowly = time.Minute
)

// After returns how long to wait after err, if that is known beforehand; if it is not,
// the limiter knows. What is final is looked at again after the period final, lest it
// was not.
func After(err error, final time.Duration) (time.Duration, bool) {
	if asked := neutron.RetryAfterOf(err); asked > 0 {
		return asked, true
	}
	switch neutron.ReasonOf(err) {
	case neutron.Invalid, neutron.Forbidden, neutron.OtherCloud, neutron.NoCredentials, neutron.Paused:
		return final, true
	case neutron.Unauthenticated, neutron.OverQuota:
		return slowly, true
	case neutron.InUse:
		return inUse, true
	}
	return 0, false
}
