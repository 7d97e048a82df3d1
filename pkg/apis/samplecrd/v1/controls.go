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

// The annotations with which a user controls how a Network is reconciled.
const (
	// AnnotationPaused set to "true" stops all changes in Neutron for the Network, including
	// its deletion. The controller still observes Neutron, and the conditions show what is
	// to be changed.
	AnnotationPaused = "samplecrd.k8s.io/paused"
	// AnnotationReconcileRequestedAt set to a new value, such as the current time, makes the
	// controller read Neutron itself instead of its cache. status.lastHandledReconcileAt
	// shows the value when this is done.
	AnnotationReconcileRequestedAt = "samplecrd.k8s.io/reconcile-requested-at"
)
