// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// Edits that cannot be completed: world.Impossibles. Until the obstacle is gone, such a Network keeps exactly
// the subnets, IDs and connections that it had. Each is tried as it is, with a crash at every write, and with an obstacle
// that appears at every request.

// reasonsOfObstacles are those of a Network whose edit waits.
var reasonsOfObstacles = []string{samplecrdv1.ReasonInUse, samplecrdv1.ReasonInvalidSpec, samplecrdv1.ReasonReferenceNotFound, samplecrdv1.ReasonQuotaExceeded}

// eachImpossible runs a subtest for each of the edits; with -short, for each nth.
func eachImpossible(t *testing.T, nth int, run func(*testing.T, int, world.Impossible)) {
	t.Helper()
	t.Run("edits", func(t *testing.T) {
		for number, i := range world.Impossibles {
			if testing.Short() && !*allCases && number%nth != 0 {
				continue
			}
			t.Run(i.Name, func(t *testing.T) {
				t.Parallel()
				run(t, number, i)
			})
		}
	})
}

// inOrder returns a fixture with the Network before the edit, and no obstacle.
func inOrder(t *testing.T, i world.Impossible) *fixture {
	t.Helper()
	f := newFixture(t)
	i.Prepare(f.World)
	f.Create(*i.Start)
	if err := f.settle(nothing); err != nil {
		t.Fatalf("start: %v", err)
	}
	return f
}

// obstruct puts the obstacle in the way.
func (f *fixture) obstruct(i world.Impossible) {
	f.t.Helper()
	if i.Obstruct == nil {
		return
	}
	if err := i.Obstruct(f.World); err != nil {
		f.t.Fatalf("obstacle: %v", err)
	}
}

// obstructed is inOrder with the obstacle, which is none before the edit. It also returns what Neutron has.
func obstructed(t *testing.T, i world.Impossible) (*fixture, world.Snapshot) {
	t.Helper()
	f := inOrder(t, i)
	f.obstruct(i)
	f.TakeChanges()
	_, _ = f.rest()
	if isReady, reason, message := f.IsReady(); !isReady {
		t.Fatalf("before the edit: %s, %s", reason, message)
	}
	return f, f.Snapshot()
}

// rest syncs until nothing is written in two rounds, and returns the changes in Neutron. isQuiet is false if
// there is no end to them.
func (f *fixture) rest() (changes []string, isQuiet bool) {
	f.t.Helper()
	for range 14 {
		f.TakeJournal()
		_ = f.round()
		changed := f.TakeChanges()
		changes = append(changes, changed...)
		isWritten := slices.ContainsFunc(f.TakeWrites(), func(w string) bool { return strings.HasPrefix(w, "patch ") || strings.HasPrefix(w, "update ") })
		if f.Crashed() {
			return changes, true
		}
		if len(changed) > 0 || isWritten {
			isQuiet = false
			continue
		}
		if isQuiet {
			return changes, true
		}
		isQuiet = true
	}
	return changes, false
}

// tell reports a violation.
type tell func(format string, args ...any)

// checkBlocked checks a Network whose edit has to wait. before is what Neutron had before the edit.
func (f *fixture) checkBlocked(i world.Impossible, before world.Snapshot, violate tell) {
	f.t.Helper()
	now := f.Snapshot()
	diff := now.Diff(before)
	if i.Adds != "" {
		diff = now.Kept(before).Diff(before.Kept(before))
	}
	if diff != "" && i.Costs == "" {
		violate("Neutron has changed (-before +after):\n%s", diff)
	}
	f.checkStrangers(i, now, before, violate)
	f.checkExplained(i, violate)
	isReady, _, message := f.IsReady()
	if isReady {
		violate("the Network is ready: %s", message)
	}
	if i.Taken != "" && !strings.Contains(message, i.Taken) {
		violate("the message %q does not say that %s was taken away", message, i.Taken)
	}
}

// checkExplained checks what a Network says that is not ready.
func (f *fixture) checkExplained(i world.Impossible, violate tell) {
	f.t.Helper()
	isReady, reason, message := f.IsReady()
	reasons := reasonsOfObstacles
	if i.Reason != "" {
		reasons = []string{i.Reason}
	}
	if !isReady && (!slices.Contains(reasons, reason) || !i.IsNamed(f.World, message)) {
		violate("the Network has the reason %s, want %q, and the message %q, want one of %q", reason, reasons, message, i.Names)
	}
}

// checkStrangers checks that what belongs to others is as before.
func (f *fixture) checkStrangers(i world.Impossible, now, before world.Snapshot, violate tell) {
	f.t.Helper()
	specs := []*samplecrdv1.NetworkSpec{i.Start, i.Want}
	if i.Corrected != nil {
		specs = append(specs, i.Corrected)
	}
	if diff := f.Strangers(now, specs...).Diff(f.Strangers(before, specs...)); diff != "" {
		violate("strangers' objects have changed (-before +after):\n%s", diff)
	}
}

// complete takes the obstacle away, and checks that the edit completes by itself.
func (f *fixture) complete(i world.Impossible, violate tell) {
	f.t.Helper()
	f.TakeChanges()
	i.Finish(f.World)
	if i.NeedsNames {
		f.start()
	}
	f.relistPorts()
	if _, isQuiet := f.rest(); !isQuiet {
		violate("the controller does not come to rest after the obstacle is gone: %s", f.message())
	}
	for _, violation := range i.Check(f.World) {
		violate("after the obstacle is gone: %s", violation)
	}
}

func TestAnEditThatCannotBeCompletedCostsNothing(t *testing.T) {
	t.Parallel()
	eachImpossible(t, 1, func(t *testing.T, _ int, i world.Impossible) {
		f, before := obstructed(t, i)
		i.Scenario().Act(f.World)
		changes, isQuiet := f.rest()
		if len(changes) > 0 && i.Costs == "" && i.Adds == "" || !isQuiet {
			t.Errorf("changes: %q, at rest: %v", changes, isQuiet)
		}
		f.checkBlocked(i, before, t.Errorf)
		if !t.Failed() {
			f.complete(i, t.Errorf)
		}
	})
}

// The last list is up to five minutes old.
func TestAnEditMeetsAnObstacleThatNoListHasShownYet(t *testing.T) {
	t.Parallel()
	eachImpossible(t, 10, func(t *testing.T, _ int, i world.Impossible) {
		if i.Obstruct == nil || i.NeedsList {
			return // there is no obstacle, or it is one only after a list
		}
		f := inOrder(t, i)
		f.obstruct(i)
		before := f.Snapshot()
		i.Scenario().Act(f.World)
		for range 4 {
			f.refresh()
			_ = f.quietSync()
		}
		f.checkBlocked(i, before, t.Errorf)
	})
}

// crashImpossible crashes a controller at that point of the edit, and lets another one continue. It reports
// whether the controller did not get there.
func crashImpossible(t *testing.T, i world.Impossible, crash world.Crash) (survived bool) {
	t.Helper()
	f, before := obstructed(t, i)
	f.start()
	f.CrashAt(&crash)
	i.Scenario().Act(f.World)
	_, _ = f.rest()
	survived = !f.Crashed()
	f.CrashAt(nil)
	f.start()
	violate := func(format string, args ...any) {
		t.Helper()
		t.Errorf("after a crash at %v: %s", &crash, fmt.Sprintf(format, args...))
	}
	if _, isQuiet := f.rest(); !isQuiet {
		violate("the controller does not come to rest: %s", f.message())
	}
	i.Taken = "" // the crashed controller may have been the only one that knew
	f.checkBlocked(i, before, violate)
	if !t.Failed() {
		f.complete(i, violate)
	}
	return survived
}

func TestEveryCrashPointOfAnEditThatCannotBeCompleted(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	eachImpossible(t, 8, func(t *testing.T, number int, i world.Impossible) {
		for write := 1; !t.Failed(); write++ {
			if leftOut(number+write, 3) {
				continue
			}
			runs.Add(1)
			if crashImpossible(t, i, world.Crash{Write: write}) {
				break
			}
		}
	})
	t.Logf("%d runs with a crash of %d edits", runs.Load(), len(world.Impossibles))
}

// appear lets the obstacle appear at that request of the edit, which may be too late to be one. Then the edit
// may cost something. But others lose nothing, nothing goes back and forth, and the Network heals. It returns
// false if there are fewer requests.
func appear(t *testing.T, i world.Impossible, request int) bool {
	t.Helper()
	f := inOrder(t, i)
	before := f.Snapshot()
	violate := func(format string, args ...any) {
		t.Helper()
		t.Errorf("the obstacle appears at request %d: %s", request, fmt.Sprintf(format, args...))
	}
	act := f.ActAt(request, world.Actor{Act: func(w *world.World, _ string) *embedded.Fault {
		_ = i.Obstruct(w) // it may be too late
		before = w.Snapshot()
		return nil
	}})
	f.TakeChanges()
	i.Scenario().Act(f.World)
	changes, isQuiet := f.rest()
	if !isQuiet {
		violate("the controller does not come to rest: %q, %s", changes, f.message())
	}
	if !act.Done() {
		return false
	}
	act.End()
	if i.EveryRequest { // otherwise only Neutron's words may tell
		f.checkExplained(i, violate)
	}
	if !i.TakesAddresses || !isTooLate(act.Requests()) {
		f.checkStrangers(i, f.Snapshot(), before, violate)
	}
	f.complete(i, violate)
	return true
}

// isTooLate reports whether a port came after the controller had looked for ports, and before it deleted the subnet of
// the port, or created the next one, in which the port gets an address too; or after it had deleted the subnet: then
// the next subnet gives the port an address.
func isTooLate(before, since []string) bool {
	if slices.Contains(before, "DELETE subnets/ID") {
		return true
	}
	change := slices.IndexFunc(since, func(r string) bool { return r == "POST subnets" || r == "DELETE subnets/ID" })
	return change >= 0 && slices.Contains(before, "GET ports") && !slices.Contains(since[:change], "GET ports")
}

func TestAnObstacleAppearsAtEveryRequest(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	eachImpossible(t, 7, func(t *testing.T, number int, i world.Impossible) {
		for request := 1; !t.Failed() && i.Obstruct != nil; request++ {
			if !i.EveryRequest && leftOut(number+request, 11) {
				continue
			}
			if !appear(t, i, request) {
				break
			}
			acts.Add(1)
		}
	})
	t.Logf("%d obstacles that appear", acts.Load())
}

// A default that Neutron does not let the controller restore is told, and holds up nothing that the spec
// declares. When Neutron accepts it, it is restored.
func TestADefaultThatCannotBeRestoredHoldsUpNothing(t *testing.T) {
	for i, field := range world.Defaults {
		for j, declared := range world.Declarations {
			if leftOut(i+j, 1) || field.Label == declared.Name || field.IsHeld && (declared.Replaces() || declared.Want.Router != nil) {
				continue
			}
			t.Run(field.Name+", and "+declared.Name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.CreateProtected()
				f.CreateRouting()
				f.Create(*declared.Start())
				must(t, f.settle(nothing))
				must(t, field.Change(f.World))
				_, _ = f.rest()
				f.expectUnrestored(field.Label)
				declared.Act(f.World)
				if changes, isQuiet := f.rest(); !isQuiet {
					t.Errorf("the controller does not come to rest: %q, %s", changes, f.message())
				}
				if missing := declared.Missing(f.World); missing != "" {
					t.Errorf("not made: %s, and the message is %q", missing, f.message())
				}
				if !field.IsOfSubnet || !declared.Replaces() {
					f.expectUnrestored(field.Label)
				}
				f.ClearObstacles()
				_, _ = f.rest()
				for _, violation := range f.Check(declared.Want) {
					t.Errorf("after Neutron accepts the default: %s", violation)
				}
			})
		}
	}
}

// expectUnrestored expects a Network that is not ready, with a message that names the field.
func (f *fixture) expectUnrestored(label string) {
	f.t.Helper()
	if isReady, reason, message := f.IsReady(); isReady || !strings.Contains(message, label) {
		f.t.Errorf("ready: %v, %s: %q does not name %s", isReady, reason, message, label)
	}
}
