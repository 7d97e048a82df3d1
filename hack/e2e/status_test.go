// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	samplecrdv1ac "github.com/samplecrd/samplecrd-controller/pkg/generated/applyconfiguration/samplecrd/v1"
)

// The API server gives each field of a condition an owner. A condition of which another client
// owns a field must still go away as a whole: the rest would have no status and no time, and the
// API server would refuse it (422).
func TestConditionOfWhichAnotherClientEditedOneFieldGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	const kind = samplecrdv1.ConditionStalled
	edits := map[string]func(name string){
		"patched-same":                  func(name string) { w.patchCondition(name, condition(w.get(name), kind).Message) },
		"patched-other":                 func(name string) { w.patchCondition(name, "edited") },
		"applied-same":                  func(name string) { w.applyCondition(name, condition(w.get(name), kind).Message) },
		"applied-other":                 func(name string) { w.applyCondition(name, "edited") },
		"written-by-an-earlier-release": w.applyStatus,
	}
	for name, edit := range edits {
		w.apply(name, "10.1.0.0/31", "") // Neutron refuses it
		w.waitNotReady(name, samplecrdv1.ReasonInvalidSpec)
		edit(name)
		if got := w.create(name, "10.1.0.0/24", "").Status.Conditions; len(got) != 1 {
			t.Errorf("%s: got %+v, want only Ready", name, got)
		}
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
func (w *world) applyStatus(name string) {
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

// patchCondition sets the message of the condition Stalled, as kubectl patch does.
func (w *world) patchCondition(name, message string) {
	w.Helper()
	i := slices.IndexFunc(w.get(name).Status.Conditions, func(c metav1.Condition) bool { return c.Type == samplecrdv1.ConditionStalled })
	w.kubectl("patch", "network", name, "--subresource=status", "--type=json", "-p",
		fmt.Sprintf(`[{"op": "replace", "path": "/status/conditions/%d/message", "value": %q}]`, i, message))
}

// applyCondition sets the message of the condition Stalled by a server-side apply.
func (w *world) applyCondition(name, message string) {
	w.Helper()
	patch := fmt.Sprintf(`{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": %q},
		"status": {"conditions": [{"type": %q, "message": %q}]}}`, name, samplecrdv1.ConditionStalled, message)
	_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "another", Force: new(true)}, "status")
	w.must(err)
}
