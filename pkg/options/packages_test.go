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

package options

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/pkg/election"
)

func TestWhetherReplicasElectALeader(t *testing.T) {
	for _, tt := range []struct {
		flag, pod string
		want      bool
	}{
		{"auto", "", false},
		{"auto", "10.96.0.1", true},
		{"true", "", true},
		{"true", "10.96.0.1", true},
		{"false", "", false},
		{"false", "10.96.0.1", false},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		if got := (&Options{LeaderElect: tt.flag}).ForElection() != nil; got != tt.want {
			t.Errorf("-leader-elect=%s, in a pod: %t: got %t", tt.flag, tt.pod != "", got)
		}
	}
}

func TestTheLeaseIsInTheGivenNamespaceOrThatOfThePod(t *testing.T) {
	given := (&Options{LeaderElect: "true", Election: election.Options{Namespace: "here"}}).ForElection()
	if given.Namespace != "here" {
		t.Errorf("got %q", given.Namespace)
	}
	want := metav1.NamespaceSystem
	if namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		want = strings.TrimSpace(string(namespace)) // the tests run in a pod
	}
	if got := (&Options{LeaderElect: "true"}).ForElection(); got.Namespace != want {
		t.Errorf("got %q, want %q", got.Namespace, want)
	}
}
