// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"maps"
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

func (s *sky) list(context.Context) (map[types.UID]*Observed, error) {
	found, err := joinRouting(new(Cloud).byOwner(owner.Cluster, s.networks), nil, nil, false), s.err
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return found, err
}

// having returns what is observed of an owner with these networks.
func having(networks ...*Network) *Observed { return newObserved("", networks, nil, false) }

// watcher is an Observer that records the owners for which its handler was called.
type watcher struct {
	*Observer
	sky    sky
	called []types.UID
}

func watch(networks ...*Network) *watcher {
	w := &watcher{sky: sky{networks: networks}}
	w.Observer = NewObserver(time.Minute, w.sky.list)
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
	equal(t, want, got.Networks())
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
		{"a network is created again", with(gateway("")), with(func(n *Network) { n.ID = "c" }), []types.UID{"u"}},
		{"a second network appears", with(gateway("")), append(with(gateway("")), netOf("u", "c")), []types.UID{"u"}},
		{"text is inserted before a mark", with(gateway("")), with(func(n *Network) { gateway("")(n); n.Description = "x " + n.Description }), []types.UID{"u"}},
		{"a mark is removed", with(gateway("")), with(func(n *Network) { n.Description = "" }), []types.UID{"u"}},
		{"a network is given to another owner", with(gateway("")), with(func(n *Network) { n.Description = Owner{owner.Cluster, "w"}.Mark() }), []types.UID{"u", "w"}},
		{"a gateway is changed", with(gateway("10.0.0.1")), with(gateway("10.0.0.2")), []types.UID{"u"}},
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

func TestAListAndAnOwnChange(t *testing.T) {
	a, b := netOf("u", "a"), netOf("u", "b")
	renamed := netOf("u", "a", func(n *Network) { n.Name = "ours" })
	for _, test := range []struct {
		name   string
		before []*Network
		change func(*Observer)
		after  []*Network
	}{
		{"a network was created", nil, func(o *Observer) { o.Update("u", having(a)) }, []*Network{a}},
		{"a network was changed", []*Network{a}, func(o *Observer) { o.Update("u", having(renamed)) }, []*Network{renamed}},
		{"a network was deleted", []*Network{a}, func(o *Observer) { o.Delete("u", "a") }, nil},
		{"one of two was deleted", []*Network{a, b}, func(o *Observer) { o.Delete("u", "a") }, []*Network{b}},
		{"a second network was created", []*Network{b}, func(o *Observer) { o.Update("u", having(a)) }, []*Network{a, b}},
		{"two were found, in another order", nil, func(o *Observer) { o.replace("u", having(b, a)) }, []*Network{a, b}},
		{"none was found", []*Network{a}, func(o *Observer) { o.replace("u", having()) }, nil},
	} {
		t.Run(test.name+", before the list", func(t *testing.T) {
			w := watch(test.before...)
			w.relist(t)
			test.change(w.Observer)
			w.owned(t, "u", test.after...)
			w.sky.networks = test.after
			equal(t, []types.UID(nil), w.relist(t))
			w.owned(t, "u", test.after...)
		})
		t.Run(test.name+", after the list began, which does not undo it", func(t *testing.T) {
			w := watch(append(test.before, netOf("v", "b"))...)
			w.relist(t)
			w.sky.meanwhile = func() { test.change(w.Observer) }
			w.sky.networks = append(slices.Clone(test.before), netOf("v", "b", func(n *Network) { n.Name = "x" }))
			// The handlers are called for the other owners all the same.
			equal(t, []types.UID{"v"}, w.relist(t))
			w.owned(t, "u", test.after...)

			// The next list begins after the change, and is taken over.
			w.sky.meanwhile = nil
			w.sky.networks = []*Network{netOf("u", "z")}
			equal(t, []types.UID{"u", "v"}, w.relist(t))
			w.owned(t, "u", netOf("u", "z"))
		})
	}
}

// The content of a Secret changes, and so another Observer has its Networks: what that one has listed before a change is not known any more.
func TestAChangeWithAJoinedObserver(t *testing.T) {
	before, after := netOf("u", "a"), netOf("u", "a", func(n *Network) { n.Name = "ours" })
	for _, when := range []string{"after a list", "during a list"} {
		t.Run(when, func(t *testing.T) {
			w, x := watch(before, netOf("v", "b")), watch()
			if when == "after a list" {
				x.Join(w.Observer)
			} else {
				w.Join(x.Observer)
			}
			change := func() { x.Update("u", having(after)) }
			if when == "during a list" {
				w.sky.meanwhile = change
			}
			w.relist(t)
			if when == "after a list" {
				w.owned(t, "u", before)
				change()
			}
			w.owned(t, "v", netOf("v", "b"))
			_, known, err := w.Get("u")
			noError(t, err)
			equal(t, false, known)
			equal(t, []types.UID{"v"}, slices.Collect(maps.Keys(w.known())))
			all, _ := w.All() // an owner that is not known is no orphan that is new
			equal(t, 2, len(all))

			w.sky = sky{networks: []*Network{after}}
			w.relist(t)
			w.owned(t, "u", after)
		})
	}
}

func TestTheListAfterAnUnknownOutcomeCallsTheHandlersInAnyCase(t *testing.T) {
	unknown := func(w *watcher) {
		t.Helper()
		got, known, err := w.Get("u")
		noError(t, err)
		equal(t, false, known)
		equal(t, true, got.IsEmpty())
	}
	for name, networks := range map[string][]*Network{"it took effect": {netOf("u", "a")}, "it did not": nil} {
		t.Run(name, func(t *testing.T) {
			w := watch()
			w.relist(t)
			w.sky.meanwhile = func() { w.Invalidate("u") }
			equal(t, []types.UID(nil), w.relist(t)) // this list began before it
			unknown(w)
			w.sky.meanwhile, w.sky.networks = nil, networks
			equal(t, []types.UID{"u"}, w.relist(t))
			w.owned(t, "u", networks...)
			equal(t, []types.UID(nil), w.relist(t))
		})
	}
}

func TestBeforeTheFirstListNothingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(netOf("u", "a"))
		w.sky.meanwhile = func() { time.Sleep(time.Second) }
		var succeeded time.Time // the end of the last list that succeeded
		check := func(isFirstDone, wantKnown bool, wantErr error) {
			t.Helper()
			_, known, err := w.Get("u")
			if known != wantKnown || !errors.Is(err, wantErr) || closed(w.FirstListDone()) != isFirstDone {
				t.Errorf("known: %v, %v; the first list is done: %v", known, err, closed(w.FirstListDone()))
			}
			equal(t, succeeded, w.LastList())
		}
		check(false, false, nil)
		w.sky.err = errAway
		w.relist(t)
		check(true, false, errAway)
		w.sky.err = nil
		w.relist(t)
		succeeded = time.Now()
		check(true, true, nil)
		// After that, an outage changes nothing, even if there is a part of a list.
		w.sky.networks, w.sky.err = []*Network{netOf("u", "z")}, errAway
		equal(t, []types.UID(nil), w.relist(t))
		check(true, true, nil)
		w.owned(t, "u", netOf("u", "a"))
	})
}

func TestNetworksThatWereReadDoNotChange(t *testing.T) {
	w := watch(netOf("u", "a"), netOf("u", "b"))
	w.relist(t)
	got, _, _ := w.Get("u")
	w.Update("u", having(netOf("u", "a", func(n *Network) { n.Name = "x" })))
	w.Delete("u", "b")
	equal(t, []*Network{netOf("u", "a"), netOf("u", "b")}, got.Networks())
}

func TestOnRelistIsCalledAfterEachListAndAllReturnsIt(t *testing.T) {
	a, b, c := netOf("u", "a"), netOf("u", "b"), netOf("v", "c")
	w := watch(a, b, c, &Network{ID: "x"})
	var inHandlers []int
	calls := 0
	w.AddHandler(func(types.UID) { inHandlers = append(inHandlers, calls) })
	w.OnRelist(func() { calls++ })
	all := func(wantLists int, want map[types.UID]*Observed) {
		t.Helper()
		got, lists := w.All()
		equal(t, want, got)
		equal(t, []int{wantLists, wantLists}, []int{lists, calls})
	}
	// An own change is not a list.
	w.replace("u", having(a))
	all(0, nil)
	w.relist(t)
	all(1, map[types.UID]*Observed{"u": having(a, b), "v": having(c)})
	equal(t, []int{0, 0}, inHandlers)

	w.Delete("u", "a")
	w.Delete("v", "c")
	all(1, map[types.UID]*Observed{"u": having(b)})
	w.Invalidate("u")
	all(1, nil)

	w.sky.err = errAway
	w.relist(t)
	all(1, nil)
	w.sky.networks, w.sky.err = []*Network{b}, nil
	w.relist(t)
	all(2, map[types.UID]*Observed{"u": having(b)})
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
	o := NewObserver(period, func(context.Context) (map[types.UID]*Observed, error) {
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
		_, lists := running(t, time.Minute, func(int) error { return nil })
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		equal(t, time.Duration(0), lists()[0])
		distinct := map[time.Duration]bool{}
		for _, gap := range gaps(lists()) {
			between(t, time.Minute, 66*time.Second, gap)
			distinct[gap] = true
		}
		if len(distinct) < 100 {
			t.Errorf("%d different waits: there is no jitter", len(distinct))
		}
	})
}

func TestRunListsSoonerAfterAFailure(t *testing.T) {
	const s, period = time.Second, time.Minute
	for _, test := range []struct {
		name   string
		period time.Duration
		failed []bool
		// waits are the least waits after each of these lists. Jitter makes them longer by up to a half, or to a tenth
		// if they are the period.
		waits      []time.Duration
		recoveries int
	}{
		{"until it succeeds", period, []bool{true, true, true, true, true, true, false, false}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 8 * s, 8 * s, period, period}, 1},
		{"and again after a recovery", period, []bool{true, true, false, true, false}, []time.Duration{s, 2 * s, period, s, period}, 2},
		{"but no later than after a period", 2 * s, []bool{true, true, true, true}, []time.Duration{s, 2 * s, 2 * s, 2 * s}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, lists := running(t, test.period, func(n int) error {
					if n <= len(test.failed) && test.failed[n-1] {
						return errAway
					}
					return nil
				})
				var recoveries atomic.Int64
				o.OnRecovery(func() { recoveries.Add(1) })
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				got := gaps(lists())
				for i, least := range test.waits {
					most := least * 3 / 2
					if least == test.period {
						most = least * 11 / 10
					}
					between(t, least, most, got[i])
				}
				equal(t, test.recoveries, int(recoveries.Load()))
			})
		})
	}
	for _, reason := range []ErrorReason{Unauthenticated, Forbidden} { // others can be there at any time
		between(t, shortHold, shortHold*3/2, retryDelay(&Error{Reason: reason, RetryAfter: longHold}, 0))
	}
}

func TestRelistSoonListsAtOnceAndNotifiesOfTheRecovery(t *testing.T) {
	for _, failures := range []int{0, 3} { // of the lists after RelistSoon
		synctest.Test(t, func(t *testing.T) {
			o, lists := running(t, time.Hour, func(n int) error {
				if n > 1 && n <= 1+failures {
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
			time.Sleep(90 * time.Minute)
			equal(t, 3+failures, len(lists())) // as before, once per period
			equal(t, int64(1), recoveries.Load())
		})
	}
}

func TestRunEndsWhileItLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewObserver(time.Hour, func(ctx context.Context) (map[types.UID]*Observed, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o.Run(ctx)
	})
}

// With -race.
func TestAnObserverMayBeUsedConcurrently(t *testing.T) {
	s := sky{networks: []*Network{netOf("u", "a"), netOf("u", "b"), netOf("v", "c")}}
	o := NewObserver(time.Minute, s.list)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 50 {
				o.AddHandler(func(uid types.UID) { _, _, _ = o.Get(uid) })
				_ = o.Relist(t.Context())
			}
		})
		users.Go(func() {
			for range 200 {
				o.Update("u", having(netOf("u", "a")))
				o.replace("u", having(netOf("u", "b"), netOf("u", "a")))
				o.Delete("u", "a")
				o.Invalidate("v")
				observed, _, _ := o.Get("u")
				_ = idsOf(observed.Networks())
			}
		})
	}
	users.Wait()
	noError(t, o.Relist(t.Context()))
	observed, _, _ := o.Get("u")
	equal(t, []string{"a", "b"}, idsOf(observed.Networks()))
}
