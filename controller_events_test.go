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
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// The events of what was changed in Neutron, also when the sync that changed it did not end well.

// countRepairs returns the fields that the controller reports as repaired from now on.
func (f *fixture) countRepairs() *[]string {
	fields := &[]string{}
	f.controller.changes = status.NewUnrecorded(func(steps []neutron.Step) {
		for _, step := range steps {
			*fields = append(*fields, step.Fields()...)
		}
	})
	return fields
}

// failOnce makes the first request to Kubernetes fail that matches. The others work.
func (f *fixture) failOnce(matches func(apiserver.Request) bool, fail func(do func() (runtime.Object, error)) (runtime.Object, error)) {
	done := false
	f.AroundKubernetes(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		if done || !matches(r) {
			return do()
		}
		done = true
		return fail(do)
	})
}

func writesStatus(r apiserver.Request) bool { return r.Subresource == "status" }

// failures are the ways in which a request to Kubernetes can fail.
func (f *fixture) failures() map[string]func(do func() (runtime.Object, error)) (runtime.Object, error) {
	return map[string]func(do func() (runtime.Object, error)) (runtime.Object, error){
		"a conflict": func(do func() (runtime.Object, error)) (runtime.Object, error) {
			f.Edit(func(n *samplecrdv1.Network) { n.Labels = map[string]string{"another": "client"} })
			return do()
		},
		"refused": func(func() (runtime.Object, error)) (runtime.Object, error) {
			return nil, apierrors.NewInternalError(errors.New("etcd is not available"))
		},
		"the answer is lost": func(do func() (runtime.Object, error)) (runtime.Object, error) {
			_, _ = do()
			return nil, errors.New("connection lost")
		},
	}
}

func TestFailedStatusWriteLosesNoEvent(t *testing.T) {
	for _, test := range []struct {
		name     string
		fixture  func(*testing.T) *fixture
		want     string
		repaired []string
	}{
		{"created", func(t *testing.T) *fixture { return newFixture(t, world.NewNetwork("10.0.0.0/24", "")) }, samplecrdv1.EventCreated, nil},
		{"adopted", func(t *testing.T) *fixture {
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer))
			f.CreateOwned(world.UID, "10.0.0.0/24")
			return f
		}, samplecrdv1.EventAdopted, nil},
		{"adopted and completed", func(t *testing.T) *fixture {
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer))
			f.CreateOwned(world.UID)
			return f
		}, samplecrdv1.EventAdopted, nil},
		{"the network was deleted in Neutron", func(t *testing.T) *fixture {
			f := ready(t, "10.0.0.0/24", "")
			f.DeleteInNeutron("networks", f.Get().Status.NetworkID)
			return f
		}, samplecrdv1.EventDriftRepaired, []string{"network", "subnet"}},
		{"the subnet was deleted in Neutron", func(t *testing.T) *fixture {
			f := ready(t, "10.0.0.0/24", "")
			f.DeleteInNeutron("subnets", f.Get().Status.SubnetID)
			return f
		}, samplecrdv1.EventDriftRepaired, []string{"subnet"}},
		{"edited", func(t *testing.T) *fixture {
			f := ready(t, "10.0.0.0/24", "")
			f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
			return f
		}, samplecrdv1.EventUpdated, nil},
	} {
		for failure := range (*fixture)(nil).failures() {
			t.Run(test.name+", "+failure, func(t *testing.T) {
				f := test.fixture(t)
				f.relist()
				repaired := f.countRepairs()
				f.failOnce(writesStatus, f.failures()[failure])
				if err := f.sync(); err == nil {
					t.Fatal("the sync succeeded")
				}
				f.ExpectEvents()
				f.mustSync()
				f.ExpectEvents(test.want)
				f.mustSync()
				f.ExpectEvents()
				if diff := gocmp.Diff(test.repaired, *repaired, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("repaired (-want +got):\n%s", diff)
				}
				f.ExpectReady(samplecrdv1.ReasonAvailable)
			})
		}
	}
}

func TestTransitionIsRecordedOnceAfterAConflict(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/31", ""))
	f.failOnce(writesStatus, f.failures()["a conflict"])
	if err := f.sync(); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	f.mustFail(neutron.Invalid)
	f.mustFail(neutron.Invalid)
	f.ExpectEvents(samplecrdv1.ReasonInvalidSpec)
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/24" })
	f.mustSync()
	f.ExpectEvents(samplecrdv1.EventCreated) // its network was created before the refusal
}

func TestNetworkThatIsCompletedLaterIsCreated(t *testing.T) {
	overQuota := fails(http.MethodPost, "/subnets", embedded.Fault{Status: http.StatusConflict, Type: "OverQuota", Message: "Quota exceeded for resources: ['subnet']."})
	for _, adopted := range []bool{false, true} {
		t.Run(fmt.Sprintf("adopted=%t", adopted), func(t *testing.T) {
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer))
			want := samplecrdv1.EventCreated
			if adopted {
				f.CreateOwned(world.UID)
				f.relist()
				want = samplecrdv1.EventAdopted
			}
			f.Neutron.SetFault(overQuota)
			for range 3 {
				f.mustFail(neutron.OverQuota)
			}
			f.ExpectEvents(samplecrdv1.ReasonQuotaExceeded)
			f.Neutron.SetFault(nil)
			f.mustSync()
			f.mustSync()
			f.ExpectEvents(want)
		})
	}
}

// The network is repaired, and the subnet changes at the same time.
func TestRepairInTwoSyncsIsRecordedOnce(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  embedded.Fault
		reason neutron.ErrorReason
		during []string // the events before it is complete
	}{
		{"changed in the middle", embedded.Fault{Status: http.StatusPreconditionFailed, Type: "RevisionNumberConstraintFailed", Message: "x"}, neutron.Stale, nil},
		{"failed in the middle", internalError, neutron.Unavailable, []string{samplecrdv1.ReasonNeutronUnavailable}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			before := f.Get().Status
			f.RenameNetwork(before.NetworkID, "another")
			f.SetGateway(before.SubnetID, "10.0.0.77")
			f.relist()
			repaired := f.countRepairs()
			f.Neutron.SetFault(fails(http.MethodPut, "/subnets/"+before.SubnetID, test.fault))
			for range 2 {
				f.mustFail(test.reason)
			}
			f.ExpectEvents(test.during...)
			f.Neutron.SetFault(nil)
			f.mustSync()
			select {
			case event := <-f.Events.Events:
				if want := "Normal DriftRepaired Repaired drift in Neutron: name set to default/net-a, gateway set to 10.0.0.1"; event != want {
					t.Errorf("got event %q, want %q", event, want)
				}
			default:
				t.Error("no event")
			}
			f.mustSync()
			f.ExpectEvents()
			if diff := gocmp.Diff([]string{"network name", "gateway", "allocation pools"}, *repaired); diff != "" {
				t.Errorf("repaired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesOfANetworkThatIsGoneAreForgotten(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
	f.failOnce(writesStatus, f.failures()["refused"])
	if err := f.sync(); err == nil {
		t.Fatal("the sync succeeded")
	}
	n := f.Get()
	f.API.Remove(world.Key.Namespace, world.Key.Name)
	f.mustSync()
	// The cache was behind when it no longer had the Network.
	f.API.Put(n)
	f.mustSync()
	f.ExpectEvents(samplecrdv1.EventAdopted)
}

// TestEachChangeIsRecordedOnce makes one request fail, each in turn, in each scenario. The same
// changes must be recorded as without the failure, and each of them once. There is one exception:
// if the answer to the removal of the finalizer is lost, the Network is gone before the next sync.
func TestEachChangeIsRecordedOnce(t *testing.T) {
	// run returns what was recorded, and whether so many requests were made.
	run := func(t *testing.T, s world.Scenario, number int, failure string) (got []string, reached bool) {
		f := prepare(t, s)
		f.start()
		f.TakeEvents()
		repaired := f.countRepairs()
		requests := 0
		next := func() bool { requests++; return requests == number }
		f.AroundKubernetes(func(_ apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
			if next() {
				return f.failures()[failure](do)
			}
			return do()
		})
		f.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
			if strings.HasPrefix(r.UserAgent(), "controller") && !strings.Contains(r.URL.Path, "/identity") && next() {
				return &internalError
			}
			return nil
		})
		for range 2 { // a list of the routers that fails hides their drift until the next relist
			if err := f.settle(s.Act); err != nil {
				t.Errorf("request %d, %s: %v", number, failure, err)
			}
		}
		events := slices.DeleteFunc(f.takeChanges(), func(reason string) bool {
			return reason == samplecrdv1.EventDeleted && failure == "the answer is lost"
		})
		return append(events, *repaired...), requests >= number
	}
	for i, s := range world.Scenarios {
		for failure := range (*fixture)(nil).failures() {
			t.Run(s.Name+", "+failure, func(t *testing.T) {
				t.Parallel()
				want, _ := run(t, s, 0, failure)
				for number := 1; ; number++ {
					if leftOut(i+len(failure)+number, 12) {
						continue
					}
					got, reached := run(t, s, number, failure)
					if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("request %d (-want +got):\n%s", number, diff)
					}
					if !reached {
						break
					}
				}
			})
		}
	}
}

// What the status says while Neutron fails: the writes to Kubernetes are counted.

// statusWrites syncs that many times, each of which must fail because Neutron is unavailable, and
// returns the number of writes to Kubernetes.
func (f *fixture) statusWrites(syncs int) (writes int) {
	f.t.Helper()
	f.TakeJournal()
	for range syncs {
		f.mustFail(neutron.Unavailable)
	}
	for _, request := range f.TakeJournal() {
		if strings.HasPrefix(request, "patch") {
			writes++
		}
	}
	return writes
}

const notAvailableSince = "Neutron has not been available since "

// failsInTurn returns faults of all requests: no two in a row are the same.
func failsInTurn() func(*http.Request) *embedded.Fault {
	var n atomic.Int64
	return func(*http.Request) *embedded.Fault {
		return []*embedded.Fault{{Drop: true}, &busy, &internalError}[n.Add(1)%3]
	}
}

func TestSingleRequestThatFailsForEverIsNoOutage(t *testing.T) {
	for _, failures := range []int{0, 4} { // before; with a fifth one the test would have to wait
		t.Run(fmt.Sprintf("after %d failures", failures), func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
			f.Neutron.SetFault(noAnswer)
			f.statusWrites(failures)
			f.Neutron.SetFault(nil)
			f.mustSync()
			f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.8" })
			f.Neutron.SetFault(fails(http.MethodPut, "", internalError))
			if n := f.statusWrites(20); n != 1 {
				t.Errorf("%d writes, want 1", n)
			}
			if got, want := f.message(), "update subnet: 500 "+internalError.Message; got != want {
				t.Errorf("got message %q, want %q", got, want)
			}
		})
	}
}

func TestStatusIsWrittenOncePerOutage(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.Neutron.SetFault(failsInTurn())
	if n := f.statusWrites(20); n != 1 {
		t.Errorf("seen from its beginning: %d writes, want 1", n)
	}
	// Others see it when it is one.
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.8" })
	if n := f.statusWrites(20); n != 1 {
		t.Errorf("seen later: %d writes, want 1", n)
	}
	before := f.message()
	if !strings.HasPrefix(before, notAvailableSince) {
		t.Errorf("got message %q", before)
	}

	// A new controller has a new client, which does not know since when Neutron is away.
	config, err := neutron.ParseConfig("test", f.World.Neutron.CloudsYAML("test"))
	if err != nil {
		t.Fatal(err)
	}
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
	f.cloud = neutron.NewCloud("test", client, world.Cluster, time.Hour)
	f.controller.clouds = f.newClouds()
	f.controller.changes = status.NewUnrecorded(nil)
	if err := f.cloud.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the list succeeded")
	}
	if n := f.statusWrites(20); n > 1 {
		t.Errorf("after a restart: %d writes, want at most 1", n)
	}
	if got := f.message(); !strings.HasPrefix(got, notAvailableSince) {
		t.Errorf("got message %q", got)
	}
}
