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
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// unhurried are Options whose token bucket never makes anybody wait.
var unhurried = Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1e6, Burst: 1e6}

func between(t *testing.T, low, high, got time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s is not between %s and %s", got, low, high)
	}
}

func TestTheDelayOfAKeyDoublesUpToTheGreatest(t *testing.T) {
	limiter := NewLimiter[string](unhurried)
	for _, least := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		least *= time.Second
		between(t, least, least*12/10, limiter.When("a"))
	}
	// However long it lasts.
	for range 1000 {
		between(t, time.Minute, 72*time.Second, limiter.When("a"))
	}
}

func TestWhatFailedTogetherIsNotRetriedTogether(t *testing.T) {
	limiter := NewLimiter[int](unhurried)
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

func TestTheKeysDoNotDelayEachOther(t *testing.T) {
	limiter := NewLimiter[string](unhurried)
	for range 10 {
		limiter.When("a")
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("b"))
	if diff := cmp.Diff([]int{10, 1, 0}, []int{limiter.NumRequeues("a"), limiter.NumRequeues("b"), limiter.NumRequeues("c")}); diff != "" {
		t.Errorf("requeues (-want +got)\n%s", diff)
	}
}

func TestForgettingAKeyStartsAnew(t *testing.T) {
	limiter := NewLimiter[string](unhurried)
	for range 5 {
		limiter.When("a")
	}
	limiter.Forget("a")
	if n := limiter.NumRequeues("a"); n != 0 {
		t.Errorf("%d requeues are remembered", n)
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("a"))
}

func TestAllKeysTogetherWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter[int](Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 2, Burst: 3})
		for key := range 3 {
			between(t, time.Millisecond, 2*time.Millisecond, limiter.When(key))
		}
		// Beyond the burst, one each half of a second.
		for key := range 10 {
			want := time.Duration(key+1) * 500 * time.Millisecond
			between(t, want, want, limiter.When(100+key))
		}
		// The longer of the two counts.
		time.Sleep(time.Hour)
		for range 20 {
			limiter.When(7)
		}
		between(t, time.Minute, 72*time.Second, limiter.When(7))
	})
}

func TestAfter(t *testing.T) {
	const final = 5 * time.Minute
	of := func(kind neutron.ErrorReason) error {
		return fmt.Errorf("sync: %w", &neutron.Error{Reason: kind})
	}
	asking := func(kind neutron.ErrorReason) error {
		return &neutron.Error{Reason: kind, RetryAfter: 7 * time.Second}
	}
	for _, test := range []struct {
		name  string
		err   error
		want  time.Duration
		known bool
	}{
		{"a refused spec is looked at again at the resync", of(neutron.Invalid), final, true},
		{"a lack of rights is looked at again at the resync", of(neutron.Forbidden), final, true},
		{"a password is put right by a person", of(neutron.Unauthenticated), time.Minute, true},
		{"a quota is raised by a person", of(neutron.OverQuota), time.Minute, true},
		{"ports come and go, and somebody may be watching", of(neutron.InUse), 10 * time.Second, true},
		{"an outage is for the limiter", of(neutron.Unavailable), 0, false},
		{"a revision that is out of date is for the limiter, lest two writers fight for ever", of(neutron.Stale), 0, false},
		{"what has vanished is for the limiter", of(neutron.NotFound), 0, false},
		{"an error of Kubernetes is for the limiter", errors.New("conflict"), 0, false},
		{"Neutron asked for time", asking(neutron.Unavailable), 7 * time.Second, true},
		{"Neutron asked for time, and that comes first", asking(neutron.Invalid), 7 * time.Second, true},
		{"of joined errors Neutron's counts", errors.Join(errors.New("write the status"), of(neutron.InUse)), 10 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			delay, known := After(test.err, final)
			if delay != test.want || known != test.known {
				t.Errorf("got %s, %v; want %s, %v", delay, known, test.want, test.known)
			}
		})
	}
}
