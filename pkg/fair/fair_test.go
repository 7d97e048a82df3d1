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
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// lab is a Share, and the keys that it has woken.
type lab struct {
	*testing.T
	*Share[string, string]
	woken []string
}

func newLab(t *testing.T, each, all int) *lab {
	l := &lab{T: t}
	l.Share = NewShare[string](each, all, func(key string) { l.woken = append(l.woken, key) })
	return l
}

func (l *lab) enter(group, key string, want bool) {
	l.Helper()
	if got := l.Enter(group, key); got != want {
		l.Errorf("%s: got %v, want %v", key, got, want)
	}
}

func (l *lab) expectWoken(want ...string) {
	l.Helper()
	if diff := cmp.Diff(want, l.woken); diff != "" {
		l.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestAGroupKeepsToItsShareAndNobodyWaitsForEver(t *testing.T) {
	l := newLab(t, 2, 10)
	l.enter("slow", "a", true)
	l.enter("slow", "b", true)
	l.enter("slow", "c", false)
	l.enter("slow", "d", false)
	l.enter("slow", "e", false)
	l.enter("other", "f", true)
	l.Leave("slow")
	l.enter("slow", "c", true)
	l.Leave("slow")
	l.Pass("d") // it has gone
	l.enter("slow", "e", true)
	l.Leave("slow")
	l.Leave("slow")
	l.Leave("other")
	l.expectWoken("c", "d", "e")
	l.expectNothingLeft()
}

func (l *lab) expectNothingLeft() {
	l.Helper()
	if len(l.busy)+l.total+len(l.waiting)+len(l.isWaiting)+len(l.Share.woken) > 0 {
		l.Errorf("something is left: %+v", l.Share)
	}
}

func TestAllGroupsTogetherKeepToTheirShare(t *testing.T) {
	l := newLab(t, 2, 3)
	l.enter("slow", "a", true)
	l.enter("slow", "b", true)
	l.enter("slower", "c", true)
	l.enter("slower", "d", false)
	l.enter("good", "e", false)
	l.Leave("slower")
	l.expectWoken("d")
	l.enter("slower", "d", true)
	l.Leave("slow")
	l.expectWoken("d", "e")
	l.enter("good", "e", true)
	for _, group := range []string{"slow", "slower", "good"} {
		l.Leave(group)
	}
	l.expectNothingLeft()
}

func TestOneThatComesAgainAndAgainWaitsOnce(t *testing.T) {
	l := newLab(t, 1, 1)
	l.enter("slow", "a", true)
	for range 1000 {
		l.enter("slow", "b", false)
	}
	l.Leave("slow")
	l.enter("slow", "b", true)
	l.Leave("slow")
	l.expectWoken("b")
	l.expectNothingLeft()
}

// It waits for two groups, since it belonged to the one first, and then to the other.
func TestOneThatIsWokenTwiceTakesOneTurnOnly(t *testing.T) {
	l := newLab(t, 1, 10)
	l.enter("x", "a", true)
	l.enter("y", "b", true)
	l.enter("x", "both", false)
	l.enter("x", "other", false)
	l.enter("y", "both", false)
	l.Leave("x")
	l.Leave("y")
	l.enter("y", "both", true)
	l.enter("x", "other", true)
	l.expectWoken("both", "both", "other")
}

// Keys of two groups may come to belong to one, and one of them to another again while it
// waits. That one must not keep the turn that it was woken for.
func TestOneThatIsWokenAndGoesElsewherePassesItsTurnOn(t *testing.T) {
	l := newLab(t, 1, 10)
	l.enter("before", "a", true)
	l.enter("before", "changed", false)
	l.enter("before", "unchanged", false)
	l.Leave("before")
	l.enter("now", "changed", true)
	l.expectWoken("changed", "unchanged")
}

func TestRetriesOfOneGroupUseUpNobodyElsesRate(t *testing.T) {
	groupOf := func(key string) string { return key[:1] }
	l := NewLimiter(groupOf, func() workqueue.TypedRateLimiter[string] {
		return workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
			&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(1, 1)})
	})
	for i := range 100 {
		l.When(fmt.Sprint("bad", i))
	}
	if delay := l.When("good"); delay > 2*time.Second {
		t.Errorf("another one is retried after %s", delay)
	}
	if n := l.NumRequeues("good"); n != 1 {
		t.Errorf("%d retries", n)
	}
	l.Forget("good")
	l.Drop("b")
	if n := l.NumRequeues("good") + l.NumRequeues("bad0"); n != 0 {
		t.Errorf("%d retries are remembered", n)
	}
}
