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

// The annotations by which people tell the controller what to do with a Network.
const (
	// AnnotationPaused set to "true" stops every change in Neutron for the Network, its
	// deletion too. Neutron is still looked at: the conditions tell what waits.
	AnnotationPaused = "samplecrd.k8s.io/paused"
	// AnnotationReconcileRequestedAt set to a new value, such as the time of day, makes the
	// controller look at Neutron itself, and not at what it remembers of it.
	// status.lastHandledReconcileAt shows the value when that is done.
	AnnotationReconcileRequestedAt = "samplecrd.k8s.io/reconcile-requested-at"
)
