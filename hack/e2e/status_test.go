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

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	samplecrdv1ac "github.com/samplecrd/samplecrd-controller/pkg/generated/applyconfiguration/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// The API server gives each field of a condition an owner. A condition of which another client
// owns a field must still go away as a whole: the rest would have no status and no time, and the
// API server would refuse it (422).
func TestConditionOfWhichAnotherClientEditedOneFieldGoesAway(t *testing.T) {
	t.Parallel()
	edits := []struct {
		name string
		edit func(w *world, name, kind string)
	}{
		{"patched-same", func(w *world, name, kind string) {
			w.patchCondition(name, kind, condition(w.get(name), kind).Message)
		}},
		{"patched-other", func(w *world, name, kind string) { w.patchCondition(name, kind, "edited") }},
		{"applied-same", func(w *world, name, kind string) {
			w.applyCondition(name, kind, condition(w.get(name), kind).Message)
		}},
		{"applied-other", func(w *world, name, kind string) { w.applyCondition(name, kind, "edited") }},
		{"patched-back", func(w *world, name, kind string) {
			before := condition(w.get(name), kind).Message
			w.patchCondition(name, kind, "edited")
			w.patchCondition(name, kind, before)
		}},
		{"written-by-an-earlier-release", (*world).applyStatus},
	}
	for _, test := range []struct {
		kind, reason  string
		begin, finish func(w *world, name string)
	}{
		{
			samplecrdv1.ConditionStalled, samplecrdv1.ReasonInvalidSpec,
			func(w *world, name string) { w.apply(name, "10.1.0.0/31", "") }, // Neutron refuses it
			func(w *world, name string) { w.apply(name, "10.1.0.0/24", "") },
		},
		{
			samplecrdv1.ConditionReconciling, samplecrdv1.ReasonNeutronUnavailable,
			func(w *world, name string) {
				w.harm(all(embedded.Fault{Status: 500}))
				w.apply(name, "10.1.0.0/24", "")
			},
			func(w *world, _ string) { w.heal() },
		},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(retryQuickly)
			for _, e := range edits {
				test.begin(w, e.name)
			}
			for _, e := range edits {
				w.waitNotReady(e.name, test.reason)
				e.edit(w, e.name, test.kind)
			}
			for _, e := range edits {
				test.finish(w, e.name)
			}
			for _, e := range edits {
				if got := w.waitReady(e.name).Status.Conditions; len(got) != 1 {
					t.Errorf("%s: got %+v, want only Ready", e.name, got)
				}
				w.matches(e.name, "10.1.0.0/24", "10.1.0.1")
			}
		})
	}
}

// A patch of the status must not reach another Network that has the name by now. The controller
// relies on this: the UID in such a patch is ignored.
func TestStatusPatchIsForTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	write := func(read *samplecrdv1.Network, mtu int) (*samplecrdv1.Network, error) {
		patch := fmt.Sprintf(`{"metadata": {"resourceVersion": %q}, "status": {"mtu": %d}}`, read.ResourceVersion, mtu)
		return w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), read.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{FieldManager: "samplecrd-controller"}, "status")
	}
	w.apply("net", "10.1.0.0/24", "")
	read := w.get("net")
	written, err := write(read, 1450)
	w.must(err)
	// The conditions are the default of the CustomResourceDefinition.
	if written.Status.MTU != 1450 || len(written.Status.Conditions) != 1 {
		t.Errorf("got %+v", written.Status)
	}
	if _, err := write(read, 9000); !apierrors.IsConflict(err) {
		t.Errorf("a second write of the same version: got %v, want a conflict", err)
	}
	w.delete("net")
	if _, err := write(written, 9000); !apierrors.IsNotFound(err) {
		t.Errorf("the Network is gone: got %v, want that it is not found", err)
	}
	w.apply("net", "10.1.0.0/24", "")
	if _, err := write(written, 9000); !apierrors.IsConflict(err) {
		t.Errorf("another Network has the name: got %v, want a conflict", err)
	}
	if got := w.get("net").Status; got.MTU != 0 {
		t.Errorf("the other Network's status was written: %+v", got)
	}
}

// applyStatus writes the status again as releases did that used a server-side apply: it owns all
// fields, and the controller has its name.
func (w *world) applyStatus(name, _ string) {
	w.Helper()
	read := w.get(name)
	apply := samplecrdv1ac.NetworkStatus().WithObservedGeneration(read.Status.ObservedGeneration).WithCloud(read.Status.Cloud)
	for _, c := range read.Status.Conditions {
		apply.WithConditions(metav1ac.Condition().WithType(c.Type).WithStatus(c.Status).WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime).WithReason(c.Reason).WithMessage(c.Message))
	}
	_, err := w.client.SamplecrdV1().Networks(w.namespace).ApplyStatus(w.Context(),
		samplecrdv1ac.Network(name, w.namespace).WithStatus(apply), metav1.ApplyOptions{FieldManager: "samplecrd-controller", Force: true})
	w.must(err)
}

// patchCondition sets the message of a condition, as kubectl patch does.
func (w *world) patchCondition(name, kind, message string) {
	w.Helper()
	i := slices.IndexFunc(w.get(name).Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	w.kubectl("patch", "network", name, "--subresource=status", "--type=json", "-p",
		fmt.Sprintf(`[{"op": "replace", "path": "/status/conditions/%d/message", "value": %q}]`, i, message))
}

// applyCondition sets the message of a condition by a server-side apply.
func (w *world) applyCondition(name, kind, message string) {
	w.Helper()
	patch := fmt.Sprintf(`{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": %q},
		"status": {"conditions": [{"type": %q, "message": %q}]}}`, name, kind, message)
	_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "another", Force: new(true)}, "status")
	w.must(err)
}

// all makes every request of the controller fail with this fault.
func all(fault embedded.Fault) chooser {
	return func(*http.Request) *embedded.Fault { return &fault }
}
