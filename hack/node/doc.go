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

// Package node runs the Deployment of artifacts/deploy on a real node: a kubelet of the
// control plane's version, containerd and runc. Its tests need Linux and root.
//
// The node is isolated from the machine: it has its own process IDs, mounts and network,
// and ends with the tests. Its files are in hack/_output/node.
package node
