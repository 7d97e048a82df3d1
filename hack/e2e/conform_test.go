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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/samplecrd/samplecrd-controller/hack/internal/conform"
)

func TestDeployConformsToTheSchemas(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	folder := filepath.Join(w.dir, "schemas")
	w.must(os.MkdirAll(folder, 0o700))
	c, err := conform.New(folder, w.openAPI)
	w.must(err)
	for _, object := range slices.Concat(
		w.built(w.overlay(clusterWide, "components: [HTTPS]\n")),
		w.built(w.kustomization(oneNamespace))) {
		if err := c.Check(object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		w.must(unstructured.SetNestedField(object.Object, "else", "metadata", "somewhere"))
		if err := c.Check(object); err == nil || !strings.Contains(err.Error(), "'somewhere' not allowed") {
			t.Errorf("%s %s with an unknown field: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// openAPI returns the API server's own document.
func (w *world) openAPI(version schema.GroupVersion) ([]byte, error) {
	path := "/openapi/v3/apis/" + version.String()
	if version.Group == "" {
		path = "/openapi/v3/api/" + version.Version
	}
	return w.kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(w.Context())
}
