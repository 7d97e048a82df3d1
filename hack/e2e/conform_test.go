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
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubeconform gets the API server's own schemas: by default it downloads them.
func TestDeployConformsToTheSchemas(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	objects := slices.Concat(
		w.built(w.overlay(clusterWide, "components: [HTTPS]\n")),
		w.built(w.kustomization(oneNamespace)))
	folder := filepath.Join(w.dir, "schemas")
	w.must(os.MkdirAll(folder, 0o700))
	for _, object := range objects {
		w.writeSchema(folder, object.GroupVersionKind())
	}
	v, err := validator.New([]string{folder + "/{{.ResourceKind}}.json"}, validator.Opts{Strict: true})
	w.must(err)
	for _, object := range objects {
		if result := w.conforms(v, object); result.Status != validator.Valid {
			t.Errorf("%s %s: %v %v", object.GetKind(), object.GetName(), result.Err, result.ValidationErrors)
		}
	}
	for _, object := range objects {
		w.must(unstructured.SetNestedField(object.Object, "else", "metadata", "somewhere"))
		if result := w.conforms(v, object); result.Status != validator.Invalid {
			t.Errorf("%s %s conforms with an unknown field", object.GetKind(), object.GetName())
		}
	}
}

func (w *world) conforms(v validator.Validator, object *unstructured.Unstructured) validator.Result {
	w.Helper()
	text, err := json.Marshal(object)
	w.must(err)
	return v.ValidateResource(resource.Resource{Bytes: text})
}

// writeSchema writes the schema of a kind, with all schemas that it refers to, unless the
// file exists.
func (w *world) writeSchema(folder string, kind schema.GroupVersionKind) {
	w.Helper()
	file := filepath.Join(folder, strings.ToLower(kind.Kind)+".json")
	if _, err := os.Stat(file); err == nil {
		return
	}
	path := "/openapi/v3/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/openapi/v3/api/" + kind.Version
	}
	text, err := kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(w.Context())
	w.must(err)
	document := map[string]any{}
	w.must(json.Unmarshal(text, &document))
	schemas, _, err := unstructured.NestedMap(document, "components", "schemas")
	w.must(err)
	var ref string
	for name, s := range schemas {
		s := s.(map[string]any)
		refuseUnknownFields(s)
		if kinds, _, _ := unstructured.NestedSlice(s, "x-kubernetes-group-version-kind"); len(kinds) == 1 && kinds[0].(map[string]any)["kind"] == kind.Kind {
			ref = "#/components/schemas/" + name
		}
	}
	text, err = json.Marshal(map[string]any{"$ref": ref, "components": map[string]any{"schemas": schemas}})
	w.must(err)
	w.must(os.WriteFile(file, text, 0o600))
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
