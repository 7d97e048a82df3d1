// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm tests the Helm chart with Helm's own library.
package helm

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	program         = "samplecrd-controller"
	systemNamespace = "samplecrd-system"
	artifacts       = "../../artifacts"
	// oldestKubernetes is what the chart requires.
	oldestKubernetes = "v1.31.0"
	chart            = artifacts + "/helm/" + program
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	must(t, err)
	return text
}

// render does what helm template does, and returns the release.
func render(t *testing.T, name, namespace, values string) (*release.Release, error) {
	t.Helper()
	loaded, err := loader.Load(chart)
	must(t, err)
	return renderChart(t, loaded, name, namespace, values)
}

func renderChart(t *testing.T, loaded *chartv2.Chart, name, namespace, values string) (*release.Release, error) {
	t.Helper()
	return renderFor(t, oldestKubernetes, loaded, name, namespace, values)
}

func renderFor(t *testing.T, kubernetes string, loaded *chartv2.Chart, name, namespace, values string) (*release.Release, error) {
	t.Helper()
	parsed := map[string]any{}
	must(t, yaml.UnmarshalStrict([]byte(values), &parsed))
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	var err error
	install.KubeVersion, err = common.ParseKubeVersion(kubernetes)
	must(t, err)
	install.ReleaseName, install.Namespace = name, namespace
	rendered, err := install.RunWithContext(t.Context(), loaded, parsed)
	if err != nil {
		return nil, err
	}
	return rendered.(*release.Release), nil
}

// objects are decoded objects by their kind and name.
type objects map[string]*unstructured.Unstructured

func keyOf(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// rendered returns the objects that the chart renders for a release of the usual name.
func rendered(t *testing.T, namespace, values string) objects {
	t.Helper()
	r, err := render(t, program, namespace, values)
	must(t, err)
	return decode(t, r.Manifest)
}

// decode returns the objects of a text in YAML. There must be no two with the same name.
func decode(t *testing.T, text string) objects {
	t.Helper()
	found := objects{}
	documents := k8syaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		must(t, err)
		object := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict(document, &object.Object)) // refuses a field that is there twice
		if len(object.Object) == 0 {
			continue // only comments
		}
		key := keyOf(object)
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = object
	}
}

// kustomized returns the objects of a kustomization that has the one in that folder of
// artifacts/deploy among its resources, and more objects in YAML. ARTIFACTS in the kustomization
// is the folder artifacts. Its JSON patches may be YAML.
func kustomized(t *testing.T, base, kustomization, more string) objects {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir()) // kustomize accepts only relative paths
	must(t, err)
	root, err := filepath.Abs(artifacts)
	must(t, err)
	root, err = filepath.EvalSymlinks(root)
	must(t, err)
	root, err = filepath.Rel(folder, root)
	must(t, err)
	var k types.Kustomization
	must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(kustomization, "ARTIFACTS", root)), &k))
	k.Resources = []string{filepath.Join(root, "deploy", base), "more.yaml"}
	for i := range k.Patches {
		patch, err := yaml.YAMLToJSON([]byte(k.Patches[i].Patch))
		must(t, err)
		k.Patches[i].Patch = string(patch)
	}
	text, err := yaml.Marshal(k)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), text, 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "more.yaml"), []byte(more), 0o600))
	return decode(t, runKustomize(t, folder))
}

func runKustomize(t *testing.T, folder string) string {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone // for artifacts/monitoring
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	must(t, err)
	text, err := built.AsYaml()
	must(t, err)
	return string(text)
}

// find returns the key of the object that begins like that, and "" if there is none.
func (o objects) find(prefix string) string {
	for key := range o {
		if strings.HasPrefix(key, prefix) {
			return key
		}
	}
	return ""
}

// set sets a field of the object with that key.
func (o objects) set(t *testing.T, key string, value any, path ...string) {
	t.Helper()
	must(t, unstructured.SetNestedField(o[key].Object, value, path...))
}

// hashOf is where the pods have the hash of their environment.
var hashOf = []string{"spec", "template", "metadata", "annotations", "samplecrd.k8s.io/environment-hash"}

// keep makes Helm keep the object.
func keep(t *testing.T, key string, built, _ objects) {
	built.set(t, key, "keep", "metadata", "annotations", "helm.sh/resource-policy")
}

// differences are all differences between the objects of a kustomization and those of the chart.
// Each changes the object of the kustomization whose key begins like that, if there is one.
var differences = []struct {
	key, reason string
	change      func(t *testing.T, key string, built, chart objects)
}{
	{
		"Namespace ", "Helm stores the release in its namespace, so the namespace must exist before: --create-namespace",
		func(_ *testing.T, key string, built, _ objects) { delete(built, key) },
	},
	{"CustomResourceDefinition networks", "Helm must not delete the CRD, and with it everybody's Networks", keep},
	{"CustomResourceDefinition clusterclouds", "nor the clouds of some of them", keep},
	{
		"ConfigMap samplecrd-controller-environment-", "Helm deletes what a release does not have any more before the old pods are gone, so the name stays the same, and the pods have the hash",
		func(t *testing.T, key string, built, chart objects) {
			environment := built[key]
			delete(built, key)
			environment.SetName(program + "-environment")
			built[keyOf(environment)] = environment
			deployment := "Deployment " + program
			containers, _, err := unstructured.NestedSlice(built[deployment].Object, "spec", "template", "spec", "containers")
			must(t, err)
			containers[0].(map[string]any)["envFrom"] = []any{map[string]any{"configMapRef": map[string]any{"name": environment.GetName()}}}
			built.set(t, deployment, containers, "spec", "template", "spec", "containers")
			hash, _, err := unstructured.NestedString(chart[deployment].Object, hashOf...)
			must(t, err)
			built.set(t, deployment, hash, hashOf...)
		},
	},
}

// compare fails unless the chart renders what is built, except for the differences.
func compare(t *testing.T, built, chart objects) {
	t.Helper()
	for _, d := range differences {
		if key := built.find(d.key); key != "" {
			d.change(t, key, built, chart)
		}
	}
	for key, object := range built {
		switch got := chart[key]; {
		case got == nil:
			t.Errorf("the chart does not render %s", key)
		default:
			if diff := gocmp.Diff(object.Object, got.Object); diff != "" {
				t.Errorf("%s (-artifacts +chart):\n%s", key, diff)
			}
		}
	}
	for key := range chart {
		if built[key] == nil {
			t.Errorf("the chart also renders %s", key)
		}
	}
}

func TestDefaultsAreArtifactsDeploy(t *testing.T) {
	built := kustomized(t, ".", "", "")
	for _, d := range differences {
		if built.find(d.key) == "" {
			t.Errorf("artifacts/deploy has no %s: this difference does not exist: %s", d.key, d.reason)
		}
	}
	compare(t, built, rendered(t, systemNamespace, ""))
}
