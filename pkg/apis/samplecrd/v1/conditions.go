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

// Finalizer keeps a Network in Kubernetes until Neutron has confirmed that its
// network is gone. It is put on before anything is made in Neutron.
const Finalizer = "samplecrd.k8s.io/neutron"

// The types of a Network's conditions. They follow kstatus, so that kubectl wait,
// Flux, Argo CD and Helm understand them:
// https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
const (
	// ConditionReady is True when Neutron was seen to match the generation in
	// status.observedGeneration, False if it was not, and Unknown before the controller has
	// looked. It is always there.
	ConditionReady = "Ready"
	// ConditionReconciling is there, and True, while the controller has yet to bring
	// the spec into force and will go on trying by itself.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is there, and True, when trying again cannot help: somebody
	// has to change the spec or what the credentials may do.
	ConditionStalled = "Stalled"
)

// The reasons of a Network's conditions.
const (
	// ReasonPending is what the API server says of a Network that no controller has looked
	// at yet: Ready is Unknown.
	ReasonPending = "Pending"
	// ReasonAvailable is set when Neutron matches the spec.
	ReasonAvailable = "Available"
	// ReasonInvalidSpec is set when Neutron refused the content of the spec (400).
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonForbidden is set when the credentials lack the right (403).
	ReasonForbidden = "Forbidden"
	// ReasonAuthenticationFailed is set when Keystone refused the credentials (401).
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonOtherCloud is set when the network was made in another cloud than the one that
	// the controller works in, which knows nothing of it: nothing is changed in either.
	ReasonOtherCloud = "OtherCloud"
	// ReasonNoCredentials is set when the Secret that spec.cloudCredentialsRef names is not
	// there, cannot be read, or does not say how to reach a cloud. The message says which key
	// of it is wrong.
	ReasonNoCredentials = "NoCredentials"
	// ReasonPaused is set when something is to be changed in Neutron, and the annotation
	// samplecrd.k8s.io/paused forbids it.
	ReasonPaused = "Paused"
	// ReasonInUse is set when ports stand in the way of a deletion or replacement (409).
	ReasonInUse = "InUse"
	// ReasonQuotaExceeded is set when the project's quota is used up (409).
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonNeutronUnavailable is set when Neutron did not answer, or answered with an
	// error that says nothing of the request.
	ReasonNeutronUnavailable = "NeutronUnavailable"
)
