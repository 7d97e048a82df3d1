// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

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
			*fields = append(*fields, neutron.FieldsOf(step)...)
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
					if leftOut(i+len(failure)+number, 23) {
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
