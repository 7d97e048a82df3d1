// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
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
	switch {
	case len(s.files) > 0:
		manifests, err := readFiles(s.files, os.Stdin, stderr)
		if err != nil {
			return nil, err
		}
		return s.applied(ctx, client, manifests)
	case len(s.names) > 0:
		return s.named(ctx, client)
	}
	namespace := s.Namespace
	if s.all {
		namespace = metav1.NamespaceAll
	}
	list, err := client.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Networks: %w", err)
	}
	targets := make([]target, len(list.Items))
	for i := range list.Items {
		targets[i] = target{network: &list.Items[i], namespace: list.Items[i].Namespace, name: list.Items[i].Name}
	}
	return targets, nil
}

// named reads the Networks with these names.
func (s *settings) named(ctx context.Context, client clientset.Interface) (targets []target, err error) {
	for _, name := range s.names {
		network, err := client.SamplecrdV1().Networks(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && isFile(name) {
			return nil, fmt.Errorf("%w: to plan for the manifests in a file, use -f %s", err, name)
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, target{namespace: s.Namespace, name: name, network: network})
	}
	return targets, nil
}

// extensions are those of the manifests in a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// isFile reports whether what should be the name of a Network looks like that of a file.
func isFile(name string) bool {
	return name == "-" || strings.Contains(name, "/") || slices.Contains(extensions, filepath.Ext(name))
}

// readFiles reads the Networks in the files and directories. It tells stderr what it skips.
func readFiles(paths []string, stdin io.Reader, stderr io.Writer) (manifests []*unstructured.Unstructured, err error) {
	for _, path := range paths {
		if path == "-" {
			found, err := readManifests(stdin, "standard input", stderr)
			if err != nil {
				return nil, err
			}
			manifests = append(manifests, found...)
			continue
		}
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			isManifest := file == path || slices.Contains(extensions, filepath.Ext(file))
			if err != nil || entry.IsDir() || !isManifest {
				return err
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			found, err := readManifests(f, file, stderr)
			manifests = append(manifests, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(manifests) == 0 {
		return nil, errors.New("there is no Network in the manifests")
	}
	return manifests, nil
}

// readManifests reads the Networks in a stream of YAML or JSON documents.
func readManifests(r io.Reader, name string, stderr io.Writer) (manifests []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		var document unstructured.Unstructured
		err := decoder.Decode(&document.Object)
		if errors.Is(err, io.EOF) {
			return manifests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if document.Object == nil {
			continue // only comments
		}
		items := []unstructured.Unstructured{document}
		if document.IsList() {
			list, err := document.ToList()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			items = list.Items
		}
		for i := range items {
			if items[i].GetKind() != "Network" || items[i].GetAPIVersion() != samplecrdv1.GroupVersion.String() {
				fmt.Fprintf(stderr, "%s: skipped %s\n", name, strings.TrimSpace(cmp.Or(items[i].GetKind(), "an object without a kind")+" "+items[i].GetName()))
				continue
			}
			if items[i].GetName() == "" {
				return nil, fmt.Errorf("%s: a Network has no name", name)
			}
			manifests = append(manifests, &items[i])
		}
	}
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
	networks := client.SamplecrdV1().Networks(manifest.GetNamespace())
	live, err := networks.Get(ctx, manifest.GetName(), metav1.GetOptions{})
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
		return networks.Patch(ctx, live.Name, types.ApplyPatchType, modified, metav1.PatchOptions{
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
	return networks.Patch(ctx, live.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
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
