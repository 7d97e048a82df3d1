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

package retry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unhurried are Options whose token bucket never delays a key.
var unhurried = Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1e6, Burst: 1e6}

// oneGroup puts all keys into the same group.
func oneGroup[K comparable](K) string { return "" }

func between(t *testing.T, low, high, got time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s is not between %s and %s", got, low, high)
	}
}

func TestTheDelayOfAKeyDoublesUpToMaxDelay(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[string])
	for _, least := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		least *= time.Second
		between(t, least, least*12/10, limiter.When("a"))
	}
	// The delay does not overflow.
	for range 1000 {
		between(t, time.Minute, 72*time.Second, limiter.When("a"))
	}
}

func TestDelaysHaveJitter(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[int])
	distinct := map[time.Duration]bool{}
	for key := range 1000 {
		delay := limiter.When(key)
		between(t, time.Second, 1200*time.Millisecond, delay)
		distinct[delay] = true
	}
	if len(distinct) < 900 {
		t.Errorf("1000 keys have only %d different delays", len(distinct))
	}
}

func TestEachKeyHasItsOwnDelay(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[string])
	for range 10 {
		limiter.When("a")
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("b"))
	if diff := cmp.Diff([]int{10, 1, 0}, []int{limiter.NumRequeues("a"), limiter.NumRequeues("b"), limiter.NumRequeues("c")}); diff != "" {
		t.Errorf("requeues (-want +got)\n%s", diff)
	}
}

func TestForgetResetsTheDelayOfAKey(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[string])
	for range 5 {
		limiter.When("a")
	}
	limiter.Forget("a")
	if n := limiter.NumRequeues("a"); n != 0 {
		t.Errorf("got %d requeues, want 0", n)
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("a"))
}

func TestTheTokenBucketDelaysAllKeysOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 2, Burst: 3}, oneGroup[int])
		for key := range 3 {
			between(t, time.Millisecond, 2*time.Millisecond, limiter.When(key))
		}
		// After the burst, one key every 500 ms.
		for key := range 10 {
			want := time.Duration(key+1) * 500 * time.Millisecond
			between(t, want, want, limiter.When(100+key))
		}
		// The longer of the two delays applies.
		time.Sleep(time.Hour)
		for range 20 {
			limiter.When(7)
		}
		between(t, time.Minute, 72*time.Second, limiter.When(7))
	})
}

func TestEachGroupHasItsOwnTokenBucket(t *testing.T) {
	options := Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1, Burst: 1}
	limiter := NewLimiter(options, func(key string) string { return key[:1] })
	for i := range 100 {
		limiter.When(fmt.Sprint("bad", i))
	}
	if delay := limiter.When("good"); delay > 2*time.Second {
		t.Errorf("another group's key is retried after %s", delay)
	}
	if n := limiter.NumRequeues("good"); n != 1 {
		t.Errorf("got %d requeues, want 1", n)
	}
	limiter.Forget("good")
	if n := limiter.NumRequeues("good"); n != 0 {
		t.Errorf("got %d requeues, want 0", n)
	}
}

func TestADroppedGroupStartsWithAFullTokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 0.001, Burst: 1}
		limiter := NewLimiter(options, oneGroup[int])
		limiter.When(1)
		if delay := limiter.When(2); delay < time.Minute {
			t.Errorf("the bucket is empty, but the delay is only %s", delay)
		}
		limiter.Drop("")
		if delay := limiter.When(3); delay > time.Second {
			t.Errorf("the bucket is full, but the delay is %s", delay)
		}
	})
}
