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

package kubeclient

import (
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPod reports whether this process runs in a pod, in whichever cluster.
func InPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// PodNamespace returns the namespace of the pod that this process runs in, or kube-system
// outside a pod.
func PodNamespace() string {
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return metav1.NamespaceSystem
	}
	return strings.TrimSpace(string(namespace))
}
