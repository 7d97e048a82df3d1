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

package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// conformer checks objects against the schemas in the Go module of Kubernetes. It ignores the kinds
// of the Prometheus operator, which Kubernetes does not know.
type conformer struct {
	// specs has a file for each API group, folder one for each kind.
	specs, folder string
	validator     validator.Validator
}

func newConformer(t *testing.T) *conformer {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	must(t, err)
	c := &conformer{specs: filepath.Join(strings.TrimSpace(string(module)), "api", "openapi-spec", "v3"), folder: t.TempDir()}
	c.validator, err = validator.New([]string{c.folder + "/{{.ResourceKind}}.json"}, validator.Opts{Strict: true})
	must(t, err)
	return c
}

func (c *conformer) check(t *testing.T, all objects) {
	t.Helper()
	for key, object := range all {
		if object.GroupVersionKind().Group == "monitoring.coreos.com" {
			continue
		}
		if result := c.conforms(t, object); result.Status != validator.Valid {
			t.Errorf("%s: %v %v", key, result.Err, result.ValidationErrors)
		}
	}
}

func (c *conformer) conforms(t *testing.T, object *unstructured.Unstructured) validator.Result {
	t.Helper()
	c.writeSchema(t, object.GroupVersionKind())
	text, err := json.Marshal(object)
	must(t, err)
	return c.validator.ValidateResource(resource.Resource{Bytes: text})
}

// writeSchema writes the schema of a kind, with all schemas that it refers to, unless the file
// exists.
func (c *conformer) writeSchema(t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	file := filepath.Join(c.folder, strings.ToLower(kind.Kind)+".json")
	if _, err := os.Stat(file); err == nil {
		return
	}
	group := "apis__" + kind.Group
	if kind.Group == "" {
		group = "api"
	}
	document := map[string]any{}
	must(t, json.Unmarshal(read(t, filepath.Join(c.specs, group+"__"+kind.Version+"_openapi.json")), &document))
	schemas, _, err := unstructured.NestedMap(document, "components", "schemas")
	must(t, err)
	var ref string
	for name, s := range schemas {
		s := s.(map[string]any)
		refuseUnknownFields(s)
		if kinds, _, _ := unstructured.NestedSlice(s, "x-kubernetes-group-version-kind"); len(kinds) == 1 && kinds[0].(map[string]any)["kind"] == kind.Kind {
			ref = "#/components/schemas/" + name
		}
	}
	text, err := json.Marshal(map[string]any{"$ref": ref, "components": map[string]any{"schemas": schemas}})
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}

// refuseUnknownFields makes a schema and the schemas in it strict.
func refuseUnknownFields(s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	if properties != nil && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
		s["additionalProperties"] = false
	}
	for _, property := range properties {
		refuseUnknownFields(property.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if of, ok := s[key].(map[string]any); ok {
			refuseUnknownFields(of)
		}
	}
}

func TestUnknownFieldsDoNotConform(t *testing.T) {
	c := newConformer(t)
	for key, object := range rendered(t, systemNamespace, "networkPolicy: {enabled: true}") {
		must(t, unstructured.SetNestedField(object.Object, "else", "metadata", "somewhere"))
		if result := c.conforms(t, object); result.Status != validator.Invalid {
			t.Errorf("%s conforms with an unknown field", key)
		}
	}
}
