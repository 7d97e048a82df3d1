// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/uuid"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
)

// target is a Network to plan for, as it is in the cluster or would be after its manifest is applied.
type target struct {
	namespace, name string
	network         *samplecrdv1.Network
	// err is the error with which the API server refuses the manifest; nil if it accepts it.
	err error
}

// targets returns the Networks to plan for.
func (s *settings) targets(ctx context.Context, client clientset.Interface, stderr io.Writer) ([]target, error) {
	if len(s.Files) > 0 {
		manifests, err := networks.ReadFiles(s.Files, os.Stdin, stderr)
		if err != nil {
			return nil, err
		}
		return s.applied(ctx, client, manifests)
	}
	found, err := networks.List(ctx, client, s.Namespace, s.Names, s.All)
	targets := make([]target, len(found))
	for i, n := range found {
		targets[i] = target{network: n, namespace: n.Namespace, name: n.Name}
	}
	return targets, err
}

// applied returns the Networks as they would be after kubectl apply.
func (s *settings) applied(ctx context.Context, client clientset.Interface, manifests []*unstructured.Unstructured) (targets []target, err error) {
	for _, manifest := range manifests {
		if manifest.GetNamespace() == "" {
			manifest.SetNamespace(s.Namespace)
		}
		t := target{namespace: manifest.GetNamespace(), name: manifest.GetName()}
		t.network, t.err = dryApply(ctx, client, manifest)
		if t.err != nil && apierrors.ReasonForError(t.err) == metav1.StatusReasonUnknown {
			return nil, t.err // the API server has not validated the manifest
		}
		targets = append(targets, t)
	}
	return targets, nil
}

var dryRun = []string{metav1.DryRunAll}

// dryApply returns the Network as it would be after kubectl apply, or after kubectl apply --server-side if
// it was applied in that way before. The API server validates it, and stores nothing.
func dryApply(ctx context.Context, client clientset.Interface, manifest *unstructured.Unstructured) (*samplecrdv1.Network, error) {
	inNamespace := client.SamplecrdV1().Networks(manifest.GetNamespace())
	live, err := inNamespace.Get(ctx, manifest.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return dryCreate(ctx, client, manifest)
	}
	if err != nil {
		return nil, err
	}
	modified, err := manifest.MarshalJSON()
	if err != nil {
		return nil, err
	}
	original := []byte(live.Annotations[lastApplied])
	if manager := applier(live); manager != "" && len(original) == 0 {
		return inNamespace.Patch(ctx, live.Name, types.ApplyPatchType, modified, metav1.PatchOptions{
			FieldManager: manager, Force: new(true), DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	}
	current, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return nil, err
	}
	return inNamespace.Patch(ctx, live.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
}

// applier returns the field manager that has applied the Network on the server side, as kubectl apply
// --server-side and GitOps tools do; "" if none has.
func applier(network *samplecrdv1.Network) string {
	for _, m := range network.ManagedFields {
		if m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			return m.Manager
		}
	}
	return ""
}

// lastApplied is the annotation in which kubectl apply keeps the manifest.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// dryCreate returns the new Network. If its namespace does not exist yet, the API server cannot
// validate it.
func dryCreate(ctx context.Context, client clientset.Interface, manifest *unstructured.Unstructured) (*samplecrdv1.Network, error) {
	network := &samplecrdv1.Network{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(manifest.Object, network, true); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	network.ResourceVersion, network.UID, network.Status = "", "", samplecrdv1.NetworkStatus{}
	created, err := client.SamplecrdV1().Networks(network.Namespace).Create(ctx, network, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if details := apierrors.APIStatus(nil); errors.As(err, &details) && apierrors.IsNotFound(err) && details.Status().Details != nil && details.Status().Details.Kind == "namespaces" {
		network.UID = uuid.NewUUID()
		return network, nil
	}
	return created, err
}
