// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// The systematic tests: each scenario of package world with a crash at every write, with an actor at every request, and
// with a restored API server; and every starting state. Stale caches are in TestSyncHandler and, as late watches, in the
// simulation.
// Each run ends with an oracle that compares both sides: world.Check. Those about one subject are in
// its file: a refused token (place), an event for each change (events), a Network that has changed
// past the cache (live).

var allCases = flag.Bool("all-cases", false, "run the cases that the systematic tests otherwise leave out")

// leftOut reports whether the case with this number is left out: only each nth one is in the sample. The number is
// a sum of the places in all dimensions, so that each value of each of them occurs; what combines them at random
// is TestSimulation. With -short the sample is small, because a controller that syncs one Network after another
// shows the race detector little.
func leftOut(number, nth int) bool {
	if testing.Short() {
		nth = 8*nth - 1
	}
	return !*allCases && number%nth != 0
}

// nothing is what users do who only wait.
func nothing(*world.World) {}

// settle syncs until a sync has no error and writes nothing. It returns what the last sync did if
// that does not happen, and nil if the controller crashed.
func (f *fixture) settle(act func(*world.World)) error {
	f.t.Helper()
	var last error
	for range 12 {
		act(f.World)
		f.TakeJournal()
		err := f.round()
		if f.Crashed() {
			return nil
		}
		writes := f.TakeWrites()
		if (err == nil || isStalled(err)) && len(writes) == 0 {
			return nil
		}
		last = fmt.Errorf("last round: %v, error: %w", writes, err)
	}
	return last
}

// isStalled reports whether only others can help.
func isStalled(err error) bool {
	reason := neutron.ReasonOf(err)
	return reason == neutron.ImportNotFound || reason == neutron.ImportRefused
}

// round reads both sides, and syncs once.
func (f *fixture) round() error {
	if err := f.cloud.Observer().Relist(context.Background()); err != nil {
		return err
	}
	f.refresh()
	return f.quietSync()
}

// quietSync is syncHandler without a log.
func (f *fixture) quietSync() error {
	return f.controller.syncHandler(klog.NewContext(context.Background(), klog.Logger{}), world.Key)
}

// prepare returns a fixture in the state in which the scenario starts.
func prepare(t *testing.T, s world.Scenario) *fixture {
	t.Helper()
	return prepareIn(t, newFixture(t), s)
}

// prepareIn is prepare in a world that has something special.
func prepareIn(t *testing.T, f *fixture, s world.Scenario) *fixture {
	t.Helper()
	s.Prepare(f.World)
	if s.Start != nil {
		f.Create(*s.Start)
		if err := f.settle(nothing); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	return f
}

// finish lets a new controller finish what the crashed ones left, and checks both sides.
func (f *fixture) finish(s world.Scenario) []string {
	f.CrashAt(nil)
	f.start()
	if err := f.settle(s.Act); err != nil {
		return []string{err.Error()}
	}
	if s.IsImport() {
		return f.Verify(s)
	}
	return f.Check(s.Want, append(s.Left(), f.Retained...)...)
}

// crashIn lets a controller crash, and another one finish. It reports whether the first one did not crash, because it
// sent fewer writes.
func crashIn(t *testing.T, f *fixture, s world.Scenario, crash *world.Crash) (survived bool) {
	t.Helper()
	f.CrashAt(crash)
	if err := f.settle(s.Act); err != nil {
		t.Errorf("%v: %v", crash, err)
	}
	survived = !f.Crashed()
	for _, violation := range f.finish(s) {
		t.Errorf("after %v: %s", crash, violation)
	}
	return survived
}

func TestEveryCrashPointOfEveryScenario(t *testing.T) {
	t.Parallel()
	var points, worse atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range slices.Concat(world.Scenarios, world.Imports) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for write := 1; !t.Failed(); write++ {
					if leftOut(i+write, 1) {
						continue
					}
					crash := &world.Crash{Write: write}
					if crashIn(t, prepare(t, s), s, crash) {
						break
					}
					points.Add(1)
					if crash.CanBeWorse {
						worse.Add(1)
						crashIn(t, prepare(t, s), s, &world.Crash{Write: write, IsWorse: true})
					}
				}
			})
		}
	})
	t.Logf("%d crash points of %d scenarios, and %d where Neutron crashes too, or creates something twice", points.Load(), len(world.Scenarios)+len(world.Imports), worse.Load())
}

// A distributed router has a port beside each of its interfaces, which no step names.
func TestEveryCrashPointWithDistributedRouters(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range world.Scenarios {
			if !s.IsRouted() {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for write := 1; !t.Failed(); write++ {
					if leftOut(write+i, 2) {
						continue
					}
					runs.Add(1)
					f := newFixture(t)
					f.Distribute()
					if crashIn(t, prepareIn(t, f, s), s, &world.Crash{Write: write, IsWorse: (write+i)%4 == 0}) {
						break
					}
				}
			})
		}
	})
	t.Logf("%d runs", runs.Load())
}

// changes are the reasons of the events that say what was done in Neutron.
var changes = []string{samplecrdv1.EventCreated, samplecrdv1.EventAdopted, samplecrdv1.EventUpdated, samplecrdv1.EventDriftRepaired, samplecrdv1.EventDeleted}

// takeChanges returns the reasons of those events since it was last called.
func (f *fixture) takeChanges() []string {
	return slices.DeleteFunc(f.TakeEvents(), func(reason string) bool { return !slices.Contains(changes, reason) })
}

// failOneList makes a list of Neutron fail: the process has seen a failure before.
func (f *fixture) failOneList() {
	f.t.Helper()
	f.Neutron.SetFault(fails(http.MethodGet, "/networks", internalError))
	if err := f.cloud.Observer().Relist(f.t.Context()); err == nil {
		f.t.Fatal("the list succeeded")
	}
}

// runActor runs the scenario while the actor acts at this request. With leaderChanges, another
// controller continues after the act. It returns the number of requests up to the act, or, if there are
// fewer, of all.
func runActor(t *testing.T, s world.Scenario, actor world.Actor, request int, leaderChanges bool, events []string) (requests int) {
	t.Helper()
	f := prepare(t, s)
	f.failOneList()
	f.takeChanges()
	violate := func(format string, args ...any) {
		t.Helper()
		t.Errorf("at request %d, leader changes: %v: %s", request, leaderChanges, fmt.Sprintf(format, args...))
	}
	act := f.ActAt(request, actor)
	isIdle := false
	for round := 0; round < 8 && !isIdle; round++ {
		if !act.Done() || actor.Want == nil {
			s.Act(f.World)
		}
		wasDone := act.Done()
		f.TakeJournal()
		err := f.round() // it may fail
		isIdle = len(f.TakeWrites()) == 0 && (wasDone || err == nil && !act.Done())
		if n := f.Find(); n != nil && strings.Contains(status.Ready(&n.Status).Message, "since") {
			violate("one failure is no outage: %s", f.message())
		}
		if leaderChanges && act.Done() {
			f.start()
		}
	}
	if !act.Done() {
		return act.Seen()
	}
	if requests := f.idle(); len(requests) > 0 && !leaderChanges && !actor.Retried && !s.Unmarks() && !s.IsMissing() {
		violate("requests of a sync that can do nothing: %q", requests)
	}
	if forbidden := act.End(); len(forbidden) > 0 {
		violate("forbidden requests: %q", forbidden)
	}
	f.relistPorts()
	if actor.Want != nil {
		s.Act, s.Want = nothing, actor.Want(s)
	}
	if err := f.settle(s.Act); err != nil {
		violate("%v", err)
	}
	if got := f.takeChanges(); actor.SameEvents && !leaderChanges && !slices.Equal(got, events) {
		violate("events %q, want %q", got, events)
	}
	for _, violation := range f.finish(s) {
		violate("%s", violation)
	}
	return request
}

// ofAList are the requests that list Neutron. A Network that waits for floating IPs or routes of a router reads
// them in each sync, which is once a minute, and the availability zones if its next router is to be in some.
var ofAList = []string{"GET networks", "GET subnets", "GET routers", "GET routers/ID", "GET ports", "GET floatingips", "GET availability_zones", "GET rbac-policies"}

// idle returns the requests of a round, except those of the list of Neutron. The round before it lets
// the lists leave out the routers, once no Network has one.
func (f *fixture) idle() []string {
	_ = f.round()
	f.TakeJournal()
	_ = f.round()
	return slices.DeleteFunc(f.TakeJournal(), func(request string) bool { return slices.Contains(ofAList, request) })
}

// eventsOf returns the reasons of the events of the scenario without an actor.
func eventsOf(t *testing.T, s world.Scenario) []string {
	t.Helper()
	f := prepare(t, s)
	f.takeChanges()
	must(t, f.settle(s.Act))
	return f.takeChanges()
}

func TestActorsAtEveryRequest(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	t.Run("actors", func(t *testing.T) {
		for i, s := range slices.Concat(world.Scenarios, world.Imports) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				events, nth := eventsOf(t, s), 37
				if s.IsRouted() {
					nth = 211
				}
				requests := runActor(t, s, world.Actor{}, math.MaxInt, false, events)
				for j, actor := range world.Actors {
					if slices.Contains(actor.Except, s.Name) || actor.Of != nil && !actor.Of(s) || s.IsImport() && actor.Want != nil {
						continue
					}
					nth := nth
					if actor.Of != nil {
						nth /= 4
					}
					for request := 1; request <= requests && !t.Failed(); request++ {
						if leftOut(7*i+j+request, nth) {
							continue
						}
						acts.Add(1)
						runActor(t, s, actor, request, actor.Stays && (7*i+j+request)/nth%2 == 0, events)
						if t.Failed() {
							t.Logf("the actor is: %s", actor.Name)
						}
					}
				}
			})
		}
	})
	t.Logf("%d acts of %d actors in %d scenarios", acts.Load(), len(world.Actors), len(world.Scenarios)+len(world.Imports))
}

// restore restores the API server from the backup that was made after that many changes, while a
// controller is at this write, and lets another one continue. It returns the number of changes; -1 if there
// are fewer writes.
func restore(t *testing.T, s world.Scenario, write, backup int) (changes int) {
	t.Helper()
	f := prepare(t, s)
	f.CrashAt(&world.Crash{Write: write})
	if err := f.settle(s.Act); err != nil {
		t.Error(err)
	}
	if !f.Crashed() {
		return -1
	}
	if changes = f.API.Changes(); backup > changes {
		return changes
	}
	f.CrashAt(nil)
	f.API.Restore(backup)
	restored, before := f.Find(), f.Owned()
	f.start()
	if err := f.settle(nothing); err != nil {
		t.Errorf("at write %d, from the backup after change %d: %v", write, backup, err)
	}
	for _, violation := range f.CheckRestored(restored, before) {
		t.Errorf("at write %d, from the backup after change %d: %s", write, backup, violation)
	}
	return changes
}

func TestAnyBackupIsRestoredAtAnyWrite(t *testing.T) {
	t.Parallel()
	var restores atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for number, s := range world.Scenarios {
			if s.Unmarks() || s.Forgets() {
				continue // a backup without the status does not know the network, or the interface
			}
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for write, changes := 1, 0; changes >= 0 && !t.Failed(); write++ {
					if leftOut(number+write, 1) {
						continue
					}
					for backup := 0; backup <= changes && !t.Failed(); backup++ {
						if backup > 0 && leftOut(number+write+backup, 11) {
							continue
						}
						changes = restore(t, s, write, backup)
						restores.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d restored backups", restores.Load())
}

// loseOneAnswer makes Neutron carry out the controller's nth change, as far as it gets if its worker dies
// in the middle, and lose the answer. It returns a function that reports whether it has.
func (f *fixture) loseOneAnswer(nth int) (lost func() bool) {
	var seen atomic.Int64
	f.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/identity") || seen.Add(1) != int64(nth) {
			return nil
		}
		return &embedded.Fault{Half: true}
	})
	return func() bool { return seen.Load() >= int64(nth) }
}

// refuseStatuses makes the API server refuse to write statuses while isAway reports true.
func (f *fixture) refuseStatuses(isAway func() bool) {
	f.AroundKubernetes(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		if isAway() && r.Subresource == "status" {
			return nil, errors.New("etcd is away")
		}
		return do()
	})
}

// deleteAfterALostAnswer restores a backup, loses the answer to a change that the restored spec asks
// for, and deletes the Network before a status is written and Neutron is listed again. The status may
// not have what the controller must remove. It returns false if there are fewer changes in Neutron, or
// fewer backups.
func deleteAfterALostAnswer(t *testing.T, s world.Scenario, change, backup int) (changes, backups bool) {
	t.Helper()
	f := prepare(t, s)
	must(t, f.settle(s.Act))
	if backup > f.API.Changes() {
		return true, false
	}
	f.API.Restore(backup)
	restored, before := f.Find(), f.Owned()
	if restored == nil || restored.DeletionTimestamp != nil {
		return false, true
	}
	f.start()
	lost, isAway := f.loseOneAnswer(change), true
	f.refuseStatuses(func() bool { return isAway && lost() })
	for range 4 {
		f.refresh()
		_ = f.quietSync()
	}
	f.Neutron.SetFault(nil)
	isAway = false
	f.Edit(world.BeingDeleted)
	restored = f.Get()
	for range 6 {
		f.refresh()
		_ = f.quietSync()
	}
	if err := f.settle(nothing); err != nil {
		t.Errorf("the answer to change %d lost, from the backup after change %d: %v", change, backup, err)
	}
	for _, violation := range f.CheckRestored(restored, before) {
		t.Errorf("the answer to change %d lost, from the backup after change %d: %s", change, backup, violation)
	}
	return lost(), true
}

// A backup from before the router does not know it, and neither does the controller if the answer to its creation was
// lost. The deletion finds it all the same.
func TestDeletionAfterARestoreAndALostAnswer(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(world.Scenarios, func(s world.Scenario) bool { return s.Name == "router added" })
	for backup, backups := 0, true; backups && !t.Failed(); backup++ {
		for change, changes := 1, true; changes && backups && !t.Failed(); change++ {
			changes, backups = deleteAfterALostAnswer(t, world.Scenarios[i], change, backup)
		}
	}
}

// TestAnyStartingState combines what a Network can look like with what Neutron can have, and
// starts a controller there. It must reach what the spec says, and then write nothing more.
func TestAnyStartingState(t *testing.T) {
	t.Parallel()
	const right, other = "10.0.0.0/24", "10.1.0.0/24"
	const unmarked, networkUnmarked = "marks of network and subnet removed", "mark of the network removed"
	objects := []struct {
		name   string
		change func(*samplecrdv1.Network)
	}{
		{"no finalizer", func(*samplecrdv1.Network) {}},
		{"finalizer", world.WithFinalizer},
		{"being deleted", func(n *samplecrdv1.Network) { world.WithFinalizer(n); world.BeingDeleted(n) }},
		{"old generation in the status", func(n *samplecrdv1.Network) {
			world.WithFinalizer(n)
			n.Generation = 7
			n.Status.ObservedGeneration = 5
		}},
	}
	ids := []string{"none", "right", "vanished", "another owner's"}
	// Each returns the ID of the Network's network, if there is one, and of a port that
	// prevents what is specified, if there is one.
	inNeutron := []struct {
		name string
		make func(*fixture) (network, port string)
	}{
		{"nothing", func(*fixture) (string, string) { return "", "" }},
		{"network without subnet", func(f *fixture) (string, string) { return f.CreateOwned(world.UID), "" }},
		{"as specified", func(f *fixture) (string, string) { return f.CreateOwned(world.UID, right), "" }},
		{"other subnet", func(f *fixture) (string, string) { return f.CreateOwned(world.UID, other), "" }},
		{"two subnets", func(f *fixture) (string, string) { return f.CreateOwned(world.UID, right, other), "" }},
		{"two networks with the mark", func(f *fixture) (string, string) {
			f.CreateOwned(world.UID, right)
			return f.CreateOwned(world.UID, other), ""
		}},
		{unmarked, func(f *fixture) (string, string) { return f.CreateInNeutron("default/net-a", "", right), "" }},
		{networkUnmarked, func(f *fixture) (string, string) {
			id := f.CreateOwned(world.UID, right)
			f.UnmarkNetwork(id)
			return id, ""
		}},
		{"port on the right subnet", func(f *fixture) (string, string) {
			id := f.CreateOwned(world.UID, right)
			f.CreatePort(id)
			return id, ""
		}},
		{"port on the other subnet", func(f *fixture) (string, string) { id := f.CreateOwned(world.UID, other); return id, f.CreatePort(id) }},
		{"two networks, one of them in use", func(f *fixture) (string, string) {
			f.CreateOwned(world.UID, right)
			id := f.CreateOwned(world.UID, right)
			f.CreatePort(id)
			f.CreateOwned(world.UID, right)
			return id, ""
		}},
	}
	var states atomic.Int64
	t.Run("states", func(t *testing.T) {
		for _, object := range objects {
			for _, id := range ids {
				for _, start := range inNeutron {
					t.Run(object.name+", ID "+id+", "+start.name, func(t *testing.T) {
						t.Parallel()
						states.Add(1)
						f := newFixture(t)
						others := f.CreateProtected()
						own, port := start.make(f)
						n := world.NewNetwork(right, "", object.change)
						switch id {
						case "right":
							n.Status.NetworkID, n.Status.Subnets = own, []samplecrdv1.SubnetStatus{{ID: f.SubnetOf(own)}}
						case "vanished":
							n.Status.NetworkID = "99999999-9999-4999-8999-999999999999"
						case "another owner's":
							n.Status.NetworkID = others
						}
						if start.name == unmarked || start.name == networkUnmarked && (id != "right" || n.DeletionTimestamp != nil) {
							// Only names and a status, which anybody can write, say that it is
							// ours; or a user removed the mark to keep it.
							f.Protect(own)
						}
						f.API.Put(n)
						f.start()
						f.converge(n, port)
					})
				}
			}
		}
	})
	t.Logf("%d starting states", states.Load())
}

// routerStates are what Neutron can have of routers for a subnet of the Network. Each returns the ID of
// the router that carries the mark, if there is one.
var routerStates = []struct {
	name   string
	shared bool // the subnet looks as if it were attached to the user's router
	make   func(f *fixture, n *samplecrdv1.Network, subnet string) (router string)
}{
	{"nothing", false, func(*fixture, *samplecrdv1.Network, string) string { return "" }},
	{"a router without a gateway", false, func(f *fixture, n *samplecrdv1.Network, _ string) string {
		id := f.CreateOwnedRouter(n, "public")
		f.UpdateRouter(id, map[string]any{"external_gateway_info": nil})
		return id
	}},
	{"a router without an interface", false, func(f *fixture, n *samplecrdv1.Network, _ string) string { return f.CreateOwnedRouter(n, "public") }},
	{"a router and half an interface", false, func(f *fixture, n *samplecrdv1.Network, subnet string) string {
		id := f.CreateOwnedRouter(n, "public")
		f.AttachHalf(id, subnet)
		return id
	}},
	{"a router and an interface", false, func(f *fixture, n *samplecrdv1.Network, subnet string) string {
		id := f.CreateOwnedRouter(n, "public")
		f.Attach(id, subnet)
		return id
	}},
	{"a router in another external network", false, func(f *fixture, n *samplecrdv1.Network, subnet string) string {
		id := f.CreateOwnedRouter(n, "public2")
		f.Attach(id, subnet)
		return id
	}},
	{"two routers", false, func(f *fixture, n *samplecrdv1.Network, subnet string) string {
		f.Attach(f.CreateOwnedRouter(n, "public"), subnet)
		return f.CreateOwnedRouter(n, "public")
	}},
	{"an interface at the user's router", true, func(f *fixture, _ *samplecrdv1.Network, subnet string) string {
		f.Attach(f.IDOf("shared"), subnet)
		return ""
	}},
	{"half an interface at the user's router", true, func(f *fixture, _ *samplecrdv1.Network, subnet string) string {
		f.AttachHalf(f.IDOf("shared"), subnet)
		return ""
	}},
	{"an interface at the user's router, and a router", true, func(f *fixture, n *samplecrdv1.Network, subnet string) string {
		f.Attach(f.IDOf("shared"), subnet)
		return f.CreateOwnedRouter(n, "public")
	}},
}

// TestAnyStartingStateOfRouters combines the kinds of routers that a Network can declare, what its
// status can say of them, and what Neutron can have.
func TestAnyStartingStateOfRouters(t *testing.T) {
	t.Parallel()
	statuses := []string{"no router", "a router without ID", "the own router", "the user's router", "a router that vanished", "a wrong port"}
	var states atomic.Int64
	t.Run("states", func(t *testing.T) {
		number := 0
		for _, router := range []string{"no router", "own router", "existing router"} {
			for _, recorded := range statuses {
				for _, start := range routerStates {
					for _, deleted := range []bool{false, true} {
						number++
						// Without a name in the spec or the status it is a stranger's interface.
						isStrangers := start.shared && recorded != "the user's router" && (router != "existing router" || deleted)
						if leftOut(number, 1) || isStrangers {
							continue
						}
						t.Run(fmt.Sprintf("%s, status %s, %s, deleted %v", router, recorded, start.name, deleted), func(t *testing.T) {
							t.Parallel()
							states.Add(1)
							f := newFixture(t)
							f.CreateProtected()
							f.CreateRouting()
							n := world.NewNetwork("", "", world.WithFinalizer)
							n.Spec = *f.RoutedSpecs()[router]
							n.Status.NetworkID = f.CreateOwned(world.UID, n.Spec.CIDR)
							subnet := f.SubnetOf(n.Status.NetworkID)
							n.Status.Subnets = []samplecrdv1.SubnetStatus{{ID: subnet, CIDR: n.Spec.CIDR}}
							f.recordRouter(n, recorded, start.make(f, n, subnet))
							if deleted {
								world.BeingDeleted(n)
							}
							f.API.Put(n)
							f.start()
							f.converge(n, "")
						})
					}
				}
			}
		}
	})
	t.Logf("%d starting states", states.Load())
}

// recordRouter writes into the status what a test calls by that name. own is the ID of the router that
// carries the mark.
func (f *fixture) recordRouter(n *samplecrdv1.Network, name, own string) {
	switch name {
	case "a router without ID":
		n.Status.Router = &samplecrdv1.RouterStatus{}
	case "the own router":
		n.Status.Router = &samplecrdv1.RouterStatus{ID: own}
	case "the user's router":
		n.Status.Router = &samplecrdv1.RouterStatus{ID: f.IDOf("shared")}
	case "a router that vanished":
		n.Status.Router = &samplecrdv1.RouterStatus{ID: "99999999-9999-4999-8999-999999999999"}
	case "a wrong port":
		n.Status.Router = &samplecrdv1.RouterStatus{ID: own}
		n.Status.Subnets[0].RouterPortID = "99999999-9999-4999-8999-999999999999"
	}
}

// converge lets the controller sync n, deletes the ports if they must be deleted first, and
// checks both sides.
func (f *fixture) converge(n *samplecrdv1.Network, blocking string) {
	f.t.Helper()
	deleted := n.DeletionTimestamp != nil
	if blocking != "" || deleted && len(f.Ports()) > 0 {
		if err := f.settle(nothing); !strings.Contains(fmt.Sprint(err), "in use by port web-0") {
			f.t.Errorf("a port is in use, and the error is: %v", err)
		}
		f.DeletePorts()
	}
	must(f.t, f.settle(nothing))
	want := &n.Spec
	if deleted {
		want = nil
	}
	for _, violation := range f.Check(want) {
		f.t.Error(violation)
	}
	if err := f.round(); err != nil {
		f.t.Error(err)
	}
	if writes := f.TakeWrites(); len(writes) > 0 {
		f.t.Errorf("further writes: %q", writes)
	}
}
