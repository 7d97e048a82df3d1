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

package v1

// IsPaused reports whether nothing may be changed in Neutron for the Network.
func (n *Network) IsPaused() bool { return n.Annotations[AnnotationPaused] == "true" }

// IsRetained reports whether the network stays in Neutron when the Network is deleted.
func (n *Network) IsRetained() bool { return n.Spec.DeletionPolicy == DeletionRetain }
