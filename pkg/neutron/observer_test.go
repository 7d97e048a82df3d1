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
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

var errAway = errors.New("connection refused")

// sky is the state that an Observer lists.
type sky struct {
	networks []*Network
	err      error
	// meanwhile, if not nil, is called during the list, after the networks were read.
	meanwhile func()
}

func (s *sky) list(context.Context) ([]*Network, error) {
	networks, err := slices.Clone(s.networks), s.err
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return networks, err
}

// watcher is an Observer that records the owners for which its handler was called.
type watcher struct {
	*Observer
	sky    sky
	called []types.UID
}

func watch(networks ...*Network) *watcher {
	w := &watcher{sky: sky{networks: networks}}
	w.Observer = NewObserver(owner.Cluster, time.Minute, w.sky.list)
	w.AddHandler(func(uid types.UID) { w.called = append(w.called, uid) })
	return w
}

// relist lists once, and returns the owners for which the handler was called.
func (w *watcher) relist(t *testing.T) []types.UID {
	t.Helper()
	w.called = nil
	if err := w.Relist(t.Context()); !errors.Is(err, w.sky.err) {
		t.Fatal(err)
	}
	slices.Sort(w.called)
	return w.called
}

// owned fails the test unless these are the owner's networks in the cache.
func (w *watcher) owned(t *testing.T, uid types.UID, want ...*Network) {
	t.Helper()
	got, known, err := w.Get(uid)
	noError(t, err)
	equal(t, true, known)
	equal(t, want, got)
}

// netOf returns a network of the owner with that UID.
func netOf(uid types.UID, id string, changes ...func(*Network)) *Network {
	revision := 1
	n := &Network{ID: id, Name: testName, Description: Owner{owner.Cluster, uid}.Mark(), Revision: &revision}
	for _, change := range changes {
		change(n)
	}
	return n
}

func TestHandlersAreCalledOnceForEachOwnerThatChanged(t *testing.T) {
	with := func(change func(*Network)) []*Network { return []*Network{netOf("u", "a", change), netOf("v", "b")} }
	gateway := func(text string) func(*Network) {
		return func(n *Network) { n.Subnets = []Subnet{ours("s", "10.0.0.0/24", text)} }
	}
	revision := 7
	for _, test := range []struct {
		name          string
		before, after []*Network
		want          []types.UID
	}{
		{"nothing", with(gateway("10.0.0.1")), with(gateway("10.0.0.1")), nil},
		{"a network is created", []*Network{netOf("v", "b")}, with(gateway("")), []types.UID{"u"}},
		{"a network is deleted", with(gateway("")), []*Network{netOf("v", "b")}, []types.UID{"u"}},
		{"all networks are deleted", with(gateway("")), nil, []types.UID{"u", "v"}},
		{"a network is created again", with(gateway("")), with(func(n *Network) { n.ID = "c" }), []types.UID{"u"}},
		{"a second network appears", with(gateway("")), append(with(gateway("")), netOf("u", "c")), []types.UID{"u"}},
		{"a network is renamed", with(gateway("")), with(func(n *Network) { gateway("")(n); n.Name = "x" }), []types.UID{"u"}},
		{"text is inserted before a mark", with(gateway("")), with(func(n *Network) { gateway("")(n); n.Description = "x " + n.Description }), []types.UID{"u"}},
		{"a mark is removed", with(gateway("")), with(func(n *Network) { n.Description = "" }), []types.UID{"u"}},
		{"a network is given to another owner", with(gateway("")), with(func(n *Network) { n.Description = Owner{owner.Cluster, "w"}.Mark() }), []types.UID{"u", "w"}},
		{"the MTU is changed", with(gateway("")), with(func(n *Network) { gateway("")(n); n.MTU = 1400 }), []types.UID{"u"}},
		{"a gateway is changed", with(gateway("10.0.0.1")), with(gateway("10.0.0.2")), []types.UID{"u"}},
		{"a subnet is deleted", with(gateway("")), with(func(*Network) {}), []types.UID{"u"}},
		{"a subnet is created again", with(gateway("")), with(func(n *Network) { gateway("")(n); n.Subnets[0].ID = "t" }), []types.UID{"u"}},
		{"the mark of a subnet is removed", with(gateway("")), with(func(n *Network) { gateway("")(n); n.Subnets[0].Description = "" }), []types.UID{"u"}},
		{"only revisions are incremented, by tags and other fields that no spec has",
			with(gateway("")), with(func(n *Network) { gateway("")(n); n.Revision, n.Subnets[0].Revision = &revision, &revision }), nil},
		{"a network of another cluster appears", with(gateway("")), append(with(gateway("")), &Network{ID: "x", Description: Owner{"other", "u"}.Mark()}), nil},
		{"a network without a mark appears", with(gateway("")), append(with(gateway("")), &Network{ID: "x", Name: testName}), nil},
		{"the order differs", append(with(gateway("")), netOf("u", "c")), append([]*Network{netOf("u", "c")}, with(gateway(""))...), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := watch(test.before...)
			w.relist(t)
			w.sky.networks = test.after
			equal(t, test.want, w.relist(t))
			equal(t, []types.UID(nil), w.relist(t))
		})
	}
}

func TestTheFirstListCallsTheHandlersForAllOwners(t *testing.T) {
	w := watch(netOf("u", "a"), netOf("v", "b"), &Network{ID: "x"})
	equal(t, []types.UID{"u", "v"}, w.relist(t))
	w.owned(t, "u", netOf("u", "a"))
	w.owned(t, "v", netOf("v", "b"))
	w.owned(t, "nobody")
}

func TestOwnChangesDoNotCallTheHandlers(t *testing.T) {
	a, b := netOf("u", "a"), netOf("u", "b")
	renamed := netOf("u", "a", func(n *Network) { n.Name = "x" })
	for _, test := range []struct {
		name   string
		before []*Network
		change func(*Observer)
		after  []*Network
	}{
		{"a network was created", nil, func(o *Observer) { o.Update("u", a) }, []*Network{a}},
		{"a network was changed", []*Network{a}, func(o *Observer) { o.Update("u", renamed) }, []*Network{renamed}},
		{"a network was deleted", []*Network{a}, func(o *Observer) { o.Delete("u", "a") }, nil},
		{"one of two was deleted", []*Network{a, b}, func(o *Observer) { o.Delete("u", "a") }, []*Network{b}},
		{"a second network was created", []*Network{b}, func(o *Observer) { o.Update("u", a) }, []*Network{a, b}},
		{"a network was found", nil, func(o *Observer) { o.Replace("u", a) }, []*Network{a}},
		{"two were found, in another order", nil, func(o *Observer) { o.Replace("u", b, a) }, []*Network{a, b}},
		{"none was found", []*Network{a}, func(o *Observer) { o.Replace("u") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := watch(test.before...)
			w.relist(t)
			test.change(w.Observer)
			w.owned(t, "u", test.after...)
			w.sky.networks = test.after
			equal(t, []types.UID(nil), w.relist(t))
			w.owned(t, "u", test.after...)
		})
	}
}

func TestAnOwnChangeThatIsUndoneCallsTheHandlers(t *testing.T) {
	w := watch(netOf("u", "a"))
	w.relist(t)
	w.Update("u", netOf("u", "a", func(n *Network) { n.Name = "ours" }))
	equal(t, []types.UID{"u"}, w.relist(t))
	w.owned(t, "u", netOf("u", "a"))
}

func TestAListThatBeganBeforeAChangeDoesNotUndoIt(t *testing.T) {
	a := netOf("u", "a")
	renamed := netOf("u", "a", func(n *Network) { n.Name = "ours" })
	for _, test := range []struct {
		name   string
		before []*Network // and in the list
		change func(*Observer)
		after  []*Network
		known  bool
	}{
		{"a network was created", nil, func(o *Observer) { o.Update("u", a) }, []*Network{a}, true},
		{"a network was changed", []*Network{a}, func(o *Observer) { o.Update("u", renamed) }, []*Network{renamed}, true},
		{"a network was deleted", []*Network{a}, func(o *Observer) { o.Delete("u", "a") }, nil, true},
		{"the outcome of a change is not known", []*Network{a}, func(o *Observer) { o.Invalidate("u") }, nil, false},
		{"a network was found", nil, func(o *Observer) { o.Replace("u", a) }, []*Network{a}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := watch(append(test.before, netOf("v", "b"))...)
			w.relist(t)
			w.sky.meanwhile = func() { test.change(w.Observer) }
			w.sky.networks = append(slices.Clone(test.before), netOf("v", "b", func(n *Network) { n.Name = "x" }))
			// The handlers are called for the other owners all the same.
			equal(t, []types.UID{"v"}, w.relist(t))
			got, known, err := w.Get("u")
			noError(t, err)
			equal(t, test.after, got)
			equal(t, test.known, known)

			// The next list begins after the change, and is taken over.
			w.sky.meanwhile = nil
			w.sky.networks = []*Network{netOf("u", "z")}
			equal(t, []types.UID{"u", "v"}, w.relist(t))
			w.owned(t, "u", netOf("u", "z"))
		})
	}
}

func TestTheListAfterAnUnknownOutcomeCallsTheHandlersInAnyCase(t *testing.T) {
	for name, networks := range map[string][]*Network{"it took effect": {netOf("u", "a")}, "it did not": nil} {
		t.Run(name, func(t *testing.T) {
			w := watch()
			w.relist(t)
			w.Invalidate("u")
			got, known, err := w.Get("u")
			noError(t, err)
			equal(t, false, known)
			equal(t, 0, len(got))
			w.sky.networks = networks
			equal(t, []types.UID{"u"}, w.relist(t))
			w.owned(t, "u", networks...)
			equal(t, []types.UID(nil), w.relist(t))
		})
	}
}

func TestAListThatFailsChangesNothing(t *testing.T) {
	a := netOf("u", "a")
	w := watch(a)
	w.relist(t)
	// Even if it returns networks, such as a part of a list.
	w.sky.networks, w.sky.err = []*Network{netOf("u", "z")}, errAway
	equal(t, []types.UID(nil), w.relist(t))
	w.owned(t, "u", a)
	w.sky.networks, w.sky.err = []*Network{a}, nil
	equal(t, []types.UID(nil), w.relist(t))
}

func TestBeforeTheFirstListNothingIsKnown(t *testing.T) {
	w := watch(netOf("u", "a"))
	ask := func() (known bool, err error) {
		_, known, err = w.Get("u")
		return known, err
	}
	known, err := ask()
	equal(t, false, known)
	noError(t, err)
	equal(t, false, closed(w.FirstListDone()) || succeeded(w.Observer))

	w.sky.err = errAway
	w.relist(t)
	known, err = ask()
	equal(t, false, known)
	if !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	equal(t, true, closed(w.FirstListDone()))
	equal(t, false, succeeded(w.Observer))

	w.sky.err = nil
	w.relist(t)
	known, err = ask()
	equal(t, true, known)
	noError(t, err)
	equal(t, true, succeeded(w.Observer))

	// After that, an outage does not clear the cache.
	w.sky.err = errAway
	w.relist(t)
	known, err = ask()
	equal(t, true, known)
	noError(t, err)
}

func TestNetworksThatWereReadDoNotChange(t *testing.T) {
	w := watch(netOf("u", "a"), netOf("u", "b"))
	w.relist(t)
	got, _, _ := w.Get("u")
	w.Update("u", netOf("u", "a", func(n *Network) { n.Name = "x" }))
	w.Delete("u", "b")
	equal(t, []*Network{netOf("u", "a"), netOf("u", "b")}, got)
}

func TestOnRelistIsCalledAfterEachListAndAllReturnsIt(t *testing.T) {
	w := watch(netOf("u", "a"), netOf("u", "b"), netOf("v", "c"), &Network{ID: "x"})
	var inHandlers []int
	calls := 0
	w.AddHandler(func(types.UID) { inHandlers = append(inHandlers, calls) })
	w.OnRelist(func() { t.Error("the previous callback is called") })
	w.OnRelist(func() { calls++ })
	all := func(wantLists int, want map[types.UID][]*Network) {
		t.Helper()
		got, lists := w.All()
		equal(t, want, got)
		equal(t, wantLists, lists)
		equal(t, wantLists, calls)
	}
	// An own change is not a list.
	w.Replace("u", netOf("u", "a"))
	all(0, map[types.UID][]*Network{})
	w.relist(t)
	all(1, map[types.UID][]*Network{"u": {netOf("u", "a"), netOf("u", "b")}, "v": {netOf("v", "c")}})
	equal(t, []int{0, 0}, inHandlers)

	w.Delete("u", "a")
	w.Delete("v", "c")
	all(1, map[types.UID][]*Network{"u": {netOf("u", "b")}})
	w.Invalidate("u")
	all(1, map[types.UID][]*Network{})

	w.sky.err = errAway
	w.relist(t)
	all(1, map[types.UID][]*Network{})
	w.sky.networks, w.sky.err = []*Network{netOf("u", "b")}, nil
	w.relist(t)
	all(2, map[types.UID][]*Network{"u": {netOf("u", "b")}})
}

// succeeded reports whether a list has succeeded.
func succeeded(o *Observer) bool {
	_, known, _ := o.Get("nobody")
	return known
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// running returns an Observer whose Run is active in a bubble of synctest, and a function that
// returns the times of its lists.
func running(t *testing.T, period time.Duration, list func(n int) error) (*Observer, func() []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var lists []time.Duration
	began := time.Now()
	o := NewObserver(owner.Cluster, period, func(context.Context) ([]*Network, error) {
		mu.Lock()
		lists = append(lists, time.Since(began))
		n := len(lists)
		mu.Unlock()
		return nil, list(n)
	})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var run sync.WaitGroup
	run.Go(func() { o.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return o, func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lists)
	}
}

// gaps returns the times between the lists.
func gaps(lists []time.Duration) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(lists); i++ {
		all = append(all, lists[i]-lists[i-1])
	}
	return all
}

func between(t *testing.T, low, high, got time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s is not between %s and %s", got, low, high)
	}
}

func TestRunListsAtOnceAndThenOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, lists := running(t, time.Minute, func(int) error { return nil })
		synctest.Wait()
		equal(t, []time.Duration{0}, lists())
		equal(t, true, closed(o.FirstListDone()) && succeeded(o))
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		distinct := map[time.Duration]bool{}
		for _, gap := range gaps(lists()) {
			between(t, 54*time.Second, 66*time.Second, gap)
			distinct[gap] = true
		}
		if len(distinct) < 100 {
			t.Errorf("%d different waits: there is no jitter", len(distinct))
		}
	})
}

func TestRunListsSoonerAfterAFailureUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 10
		o, lists := running(t, 5*time.Minute, func(n int) error {
			if n <= failures {
				return errAway
			}
			return nil
		})
		var recoveries atomic.Int64
		o.OnRecovery(func() { recoveries.Add(1) })
		synctest.Wait()
		equal(t, true, closed(o.FirstListDone()))
		equal(t, false, succeeded(o))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		equal(t, true, succeeded(o))
		equal(t, int64(1), recoveries.Load())
		for i, gap := range gaps(lists()) {
			if i >= failures {
				between(t, 5*time.Minute, 330*time.Second, gap)
				continue
			}
			least := time.Second << min(i, 3)
			between(t, least, least*3/2, gap)
		}
	})
}

func TestRunBacksOffAgainAfterARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lists := running(t, time.Minute, func(n int) error {
			if n == 3 || n == 5 || n == 6 {
				return nil
			}
			return errAway
		})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		got := gaps(lists())
		// Failures 1 and 2, success, failure 4, successes.
		between(t, time.Second, 3*time.Second/2, got[0])
		between(t, 2*time.Second, 3*time.Second, got[1])
		between(t, 54*time.Second, 66*time.Second, got[2])
		between(t, time.Second, 3*time.Second/2, got[3])
		between(t, 54*time.Second, 66*time.Second, got[4])
	})
}

func TestRelistSoonListsAtOnceAndNotifiesOfTheRecovery(t *testing.T) {
	for _, test := range []struct {
		name     string
		failures int // of the lists after RelistSoon
	}{{"Neutron is back already", 0}, {"Neutron is away for a while", 3}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, lists := running(t, time.Hour, func(n int) error {
					if n > 1 && n <= 1+test.failures {
						return errAway
					}
					return nil
				})
				var recoveries atomic.Int64
				o.OnRecovery(func() { recoveries.Add(1) })
				time.Sleep(time.Minute)
				equal(t, int64(0), recoveries.Load())
				o.RelistSoon()
				time.Sleep(20 * time.Second)
				equal(t, int64(1), recoveries.Load())
				equal(t, time.Minute, lists()[1])
				time.Sleep(30 * time.Minute)
				if got := len(lists()); got > 3+test.failures {
					t.Errorf("%d lists: it continues without a reason", got)
				}
			})
		})
	}
}

func TestRunDoesNotWaitLongerThanAPeriodAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lists := running(t, time.Second, func(int) error { return errAway })
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, gap := range gaps(lists()) {
			between(t, time.Second, 1100*time.Millisecond, gap)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
	}{
		{"while it waits", 10 * time.Second},
		{"while it lists", time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewObserver(owner.Cluster, time.Hour, func(ctx context.Context) ([]*Network, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(5 * time.Second):
						return nil, nil
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				began := time.Now()
				o.Run(ctx)
				equal(t, test.after, time.Since(began))
			})
		})
	}
}

// With -race.
func TestAnObserverMayBeUsedConcurrently(t *testing.T) {
	o := NewObserver(owner.Cluster, time.Minute, func(context.Context) ([]*Network, error) {
		return []*Network{netOf("u", "a"), netOf("u", "b"), netOf("v", "c")}, nil
	})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 50 {
				o.AddHandler(func(uid types.UID) { _, _, _ = o.Get(uid) })
				if err := o.Relist(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		users.Go(func() {
			for range 200 {
				o.Update("u", netOf("u", "a"))
				o.Replace("u", netOf("u", "b"), netOf("u", "a"))
				o.Delete("u", "a")
				o.Invalidate("v")
				networks, _, _ := o.Get("u")
				for _, n := range networks {
					_ = n.Name
				}
			}
		})
	}
	users.Wait()
	noError(t, o.Relist(t.Context()))
	networks, known, err := o.Get("u")
	noError(t, err)
	equal(t, true, known)
	equal(t, 2, len(networks))
}

func TestLastListIsTheLastListThatSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		equal(t, time.Time{}, w.LastList())
		w.sky.err = errAway
		w.relist(t)
		equal(t, time.Time{}, w.LastList())
		w.sky.err = nil
		w.sky.meanwhile = func() { time.Sleep(time.Second) }
		w.relist(t)
		ended := time.Now()
		equal(t, ended, w.LastList())
		w.sky.err = errAway
		w.relist(t)
		equal(t, ended, w.LastList())
	})
}

// netsOf returns n networks with a subnet each. Each network has another owner, whose UID is the
// network's ID.
func netsOf(n int) []*Network {
	networks := make([]*Network, n)
	for i := range networks {
		id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
		networks[i] = netOf(types.UID(id), id, func(n *Network) { n.Subnets = []Subnet{ours(id, "10.0.0.0/24", "10.0.0.1")} })
	}
	return networks
}

// BenchmarkRelist measures how the Observer takes over a list: the first one, and one without
// changes. BenchmarkListNetworks measures how a list is read.
func BenchmarkRelist(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		s := sky{networks: netsOf(n)}
		next := netsOf(n) // equal, but in other memory, like a list that was read again
		o := NewObserver(owner.Cluster, time.Minute, s.list)
		relist := func(b *testing.B) {
			if err := o.Relist(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		expectAll := func(b *testing.B) {
			for _, want := range s.networks {
				if got, _, err := o.Get(types.UID(want.ID)); err != nil || len(got) != 1 || got[0] != want {
					b.Fatalf("network %s is not found by its mark: %v", want.ID, err)
				}
			}
		}
		b.Run(fmt.Sprintf("first/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o = NewObserver(owner.Cluster, time.Minute, s.list)
				relist(b)
			}
			expectAll(b)
		})
		b.Run(fmt.Sprintf("again/%d", n), func(b *testing.B) {
			relist(b)
			b.ReportAllocs()
			for b.Loop() {
				s.networks, next = next, s.networks
				relist(b)
			}
			expectAll(b)
		})
	}
}
