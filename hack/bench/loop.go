// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	samplecrdv1ac "github.com/samplecrd/samplecrd-controller/pkg/generated/applyconfiguration/samplecrd/v1"
)

// writeRaw makes the same two writes for each Network as the controller, with as many workers:
// the finalizer, and the status of a Network that is Ready.
func (w *watcher) writeRaw(ctx context.Context, workers int) error {
	networks := w.all()
	return inParallel(ctx, workers, len(networks), func(ctx context.Context, i int) error {
		n, err := w.patchFinalizer(ctx, networks[i])
		if err != nil {
			return fmt.Errorf("write the finalizer: %w", err)
		}
		patch, err := json.Marshal(readyStatus(n))
		if err != nil {
			return err
		}
		_, err = w.client.SamplecrdV1().Networks(n.Namespace).Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "bench"}, "status")
		if err != nil {
			return fmt.Errorf("write the status: %w", err)
		}
		return nil
	})
}

func (w *watcher) patchFinalizer(ctx context.Context, n *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "finalizers": []string{samplecrdv1.Finalizer},
	}})
	if err != nil {
		return nil, err
	}
	return w.client.SamplecrdV1().Networks(n.Namespace).Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "bench"})
}

// readyStatus returns the status that the controller writes, as a merge patch.
func readyStatus(n *samplecrdv1.Network) *samplecrdv1ac.NetworkApplyConfiguration {
	const id = "0a85c3e1-eb5c-4133-b676-3c110cdd7132"
	ready := metav1ac.Condition().
		WithType(samplecrdv1.ConditionReady).
		WithStatus(metav1.ConditionTrue).
		WithObservedGeneration(n.Generation).
		WithLastTransitionTime(metav1.Now()).
		WithReason(samplecrdv1.ReasonAvailable).
		WithMessage("Neutron matches the spec")
	return samplecrdv1ac.Network(n.Name, n.Namespace).
		WithResourceVersion(n.ResourceVersion).
		WithStatus(samplecrdv1ac.NetworkStatus().
			WithObservedGeneration(n.Generation).
			WithNetworkID(id).
			WithSubnetID(id).
			WithCIDR(n.Spec.CIDR).
			WithGateway(n.Spec.Gateway).
			WithCloud("local").
			WithProjectID("0a85c3e1eb5c4133b6763c110cdd7132").
			WithRegion("RegionOne").
			WithMTU(1450).
			WithConditions(ready))
}
