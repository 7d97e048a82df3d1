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

package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// stepLog is the sink of a log. It keeps the steps that changed something in Neutron.
type stepLog struct {
	logr.LogSink
	values []any
	steps  *[]string
}

func (stepLog) Enabled(int) bool            { return true }
func (stepLog) Init(logr.RuntimeInfo)       {}
func (stepLog) Error(error, string, ...any) {}

func (l stepLog) WithValues(values ...any) logr.LogSink {
	l.values = append(slices.Clone(l.values), values...)
	return l
}

func (l stepLog) WithName(string) logr.LogSink { return l }

func (l stepLog) Info(_ int, message string, _ ...any) {
	at := slices.Index(l.values, any("step"))
	if message != "Changed Neutron" {
		return
	}
	text := "removal"
	if at >= 0 {
		text = fmt.Sprint(l.values[at+1])
	}
	if isConfirmation(text) {
		return
	}
	if n := len(*l.steps); n == 0 || (*l.steps)[n-1] != text { // a step can take several requests
		*l.steps = append(*l.steps, text)
	}
}

// isConfirmation reports whether the step may only confirm, without a change, what an earlier sync did.
func isConfirmation(step string) bool {
	return strings.HasSuffix(step, " confirmed") || strings.HasSuffix(step, " imported")
}

// take syncs until nothing is left to do, and returns the steps that changed something in Neutron.
func (f *fixture) take() (steps []string, err error) {
	f.t.Helper()
	ctx := klog.NewContext(context.Background(), logr.New(stepLog{steps: &steps}))
	for range 12 {
		if err := f.cloud.Observer().Relist(ctx); err != nil {
			return nil, err
		}
		f.refresh()
		f.TakeJournal()
		err = f.controller.syncHandler(ctx, world.Key)
		if writes := f.TakeWrites(); err == nil && len(writes) == 0 {
			return steps, nil
		}
	}
	return steps, fmt.Errorf("there is always something to do: %w", err)
}

// foretell returns the steps that a plan has for the Network, whether one of them is prevented, and
// whether the Network is only removed. Halves are the attachments that cure an interface which the plan only
// confirms: no list shows that it is half.
func (f *fixture) foretell() (steps, halves []string, isPrevented, isRemoval bool) {
	f.t.Helper()
	defer f.TakeJournal()
	f.TakeJournal()
	network, cloud := f.Get(), f.NewCloud()
	identity := neutron.NewIdentity(network, world.Cluster)
	if err := cloud.Observer().Relist(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	var planned []neutron.PlannedStep
	var err error
	if isRemoval = network.DeletionTimestamp != nil; isRemoval {
		planned, err = cloud.PreviewRemoval(f.t.Context(), identity, network.IsRetained())
	} else {
		var desired neutron.Desired
		if desired, err = neutron.NewDesired(network, world.Cluster); err != nil {
			f.t.Fatal(err)
		}
		var preview neutron.Preview
		preview, err = cloud.Preview(f.t.Context(), identity, desired)
		planned = preview.Steps
	}
	for _, p := range planned {
		isPrevented = isPrevented || p.Blocked != ""
		if s, ok := p.Step.(neutron.AttachSubnet); ok && s.Port != "" {
			s.Port = ""
			halves = append(halves, s.String())
		}
		switch {
		case p.Step == nil:
			steps = append(steps, "removal")
		case !isConfirmation(p.Step.String()):
			steps = append(steps, p.Step.String())
		}
	}
	if writes := f.TakeWrites(); len(writes) > 0 {
		f.t.Errorf("plan writes: %v", writes)
	}
	return steps, halves, isPrevented || err != nil, isRemoval
}

// unknownRouter matches the ID of a router that only one side can know.
var unknownRouter = regexp.MustCompile(`router (new-router|[0-9a-f]{8}-[0-9a-f-]{27})`)

// What plan says is what the controller then does: in every state that the crashes of the scenarios
// leave, the steps of the plan are compared with those that a new controller takes.
func TestPlanSaysWhatTheControllerThenDoes(t *testing.T) {
	t.Parallel()
	var states, withSteps atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range slices.Concat(world.Scenarios, world.Imports) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for write := 1; !t.Failed(); write++ {
					if leftOut(i+write, 2) {
						continue
					}
					f := prepare(t, s)
					f.start()
					f.CrashAt(&world.Crash{Write: write})
					_ = f.settle(s.Act)
					crashed := f.Crashed()
					f.CrashAt(nil)
					f.start()
					s.Act(f.World)
					if f.Find() == nil {
						break
					}
					foretold, halves, isPrevented, isRemoval := f.foretell()
					done, err := f.take()
					done = slices.DeleteFunc(done, func(step string) bool { return slices.Contains(halves, step) })
					states.Add(1)
					if len(done) > 0 {
						withSteps.Add(1)
					}
					compareSteps(t, foretold, done, isPrevented, isRemoval, err)
					if !crashed {
						break
					}
				}
			})
		}
	})
	t.Logf("%d states, %d of them with something to do", states.Load(), withSteps.Load())
}

func compareSteps(t *testing.T, foretold, done []string, isPrevented, isRemoval bool, err error) {
	t.Helper()
	switch {
	case isPrevented && err == nil:
		t.Errorf("foretold %v, and that something prevents one; done: %v", foretold, done)
	case !isPrevented && err != nil:
		t.Errorf("foretold %v; done: %v, %v", foretold, done, err)
	case isRemoval:
		if (len(foretold) > 0) != (len(done) > 0) {
			t.Errorf("foretold %v; done: %v", foretold, done)
		}
	case !isPrevented:
		plain := func(steps []string) []string {
			return strings.Split(unknownRouter.ReplaceAllString(strings.Join(steps, "\n"), "router ID"), "\n")
		}
		if diff := cmp.Diff(plain(foretold), plain(done), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-foretold +done)\n%s", diff)
		}
	}
}
