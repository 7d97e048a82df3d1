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
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// plan shows what kubectl apply would do, in the way in which the Network was applied before.
func TestPlanAppliesAsKubectlDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	without := manifest("net", "10.1.0.0/24", "10.1.0.1")
	declared := strings.Replace(without, "spec:\n", "spec:\n  dnsNameservers: [192.0.2.53]\n", 1)
	if declared == without {
		t.Fatal(without)
	}
	removed := []string{"net: 1 change", "  1. DNS servers 192.0.2.53 → none", "1 Network: 1 with changes"}
	for _, test := range []struct {
		name      string
		arguments []string
		code      int
		lines     []string
	}{
		{"created: kubectl apply does not know what was there before", []string{"create"}, 0, []string{"net: nothing to do", "1 Network: 1 with nothing to do"}},
		{"applied", []string{"apply"}, 2, removed},
		{"applied by the API server", []string{"apply", "--server-side"}, 2, removed},
	} {
		_, err := w.tryKubectl(declared, append(test.arguments, "-f", "-")...)
		w.must(err)
		w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonAvailable)
		w.plans(without, test.code, test.lines...)
		w.plans(declared, 0, "net: nothing to do", "1 Network: 1 with nothing to do")
		w.kubectl("delete", "networks.samplecrd.k8s.io", "net")
		if t.Failed() {
			t.Fatal(test.name)
		}
	}
}
