// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/samplecrd/samplecrd-controller/hack/internal/conform"
)

// newConformer returns a Checker with the schemas in the Go module of Kubernetes.
func newConformer(t *testing.T) *conform.Checker {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	must(t, err)
	specs := filepath.Join(strings.TrimSpace(string(module)), "api", "openapi-spec", "v3")
	c, err := conform.New(t.TempDir(), func(version schema.GroupVersion) ([]byte, error) {
		group := "apis__" + version.Group
		if version.Group == "" {
			group = "api"
		}
		return os.ReadFile(filepath.Join(specs, group+"__"+version.Version+"_openapi.json"))
	})
	must(t, err)
	return c
}

// conforms checks all objects, except those of the Prometheus operator, which Kubernetes does not know.
func conforms(t *testing.T, c *conform.Checker, all objects) {
	t.Helper()
	for key, object := range all {
		if object.GroupVersionKind().Group == "monitoring.coreos.com" {
			continue
		}
		if err := c.Check(object); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestUnknownFieldsDoNotConform(t *testing.T) {
	c := newConformer(t)
	for key, object := range rendered(t, systemNamespace, "") {
		must(t, unstructured.SetNestedField(object.Object, "else", "metadata", "somewhere"))
		if err := c.Check(object); err == nil || !strings.Contains(err.Error(), "'somewhere' not allowed") {
			t.Errorf("%s with an unknown field: %v", key, err)
		}
	}
}
