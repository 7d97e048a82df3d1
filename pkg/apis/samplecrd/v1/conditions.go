// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Finalizer keeps a Network in Kubernetes until Neutron has confirmed that its network
// is gone, or is to be retained. The controller adds it before it creates anything in Neutron.
const Finalizer = "samplecrd.k8s.io/neutron"

// The types of a Network's conditions. They follow kstatus, so that kubectl wait, Flux and Helm
// understand them: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md.
// Argo CD needs a health check, which is in artifacts/argocd.
const (
	// ConditionReady is True if Neutron matches the generation in status.observedGeneration, False if
	// it does not, and Unknown before the first sync. It is also True if the network is only observed
	// and can be read: then the reason says whether it matches. It is always present.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the spec is not in force yet and the
	// controller goes on trying.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, if a retry cannot help: a user must change the
	// spec, or the rights of the credentials.
	ConditionStalled = "Stalled"
)

// The reasons of a Network's conditions.
const (
	// ReasonPending is the default that the API server sets: no controller has synced the
	// Network yet, and Ready is Unknown.
	ReasonPending = "Pending"
	// ReasonAvailable is set when Neutron matches the spec.
	ReasonAvailable = "Available"
	// ReasonObserved is set when the network of spec.import is as the spec says, and
	// spec.managementPolicy is Observe.
	ReasonObserved = "Observed"
	// ReasonDiffers is set when the network of spec.import differs from the spec, and
	// spec.managementPolicy is Observe. Ready is True, because the controller must not change the
	// network; the message names what differs.
	ReasonDiffers = "Differs"
	// ReasonNetworkNotFound is set when the network of spec.import is not in Neutron, or the
	// credentials cannot see it.
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonImportRefused is set when the controller must not take over the network of spec.import:
	// it carries another owner's mark, it is an external network, it belongs to another project, or
	// it has other availability zones than the spec.
	ReasonImportRefused = "ImportRefused"
	// ReasonInvalidSpec is set when Neutron refused the content of the spec (400).
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonForbidden is set when the credentials lack the right (403).
	ReasonForbidden = "Forbidden"
	// ReasonAuthenticationFailed is set when Keystone refused the credentials (401), when they
	// name no region and there are several, or when they lead to another project or region than
	// before.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonOtherCloud is set when the network was created in another cloud than the one
	// that the controller works in now, or may have been: the answer was lost. The controller
	// changes nothing in either cloud.
	ReasonOtherCloud = "OtherCloud"
	// ReasonOtherOwner is set when the network of the status carries the mark of another Network. The
	// controller neither changes it nor creates another one in its place.
	ReasonOtherOwner = "OtherOwner"
	// ReasonNoCredentials is set when the Secret or the ClusterCloud of spec.cloudCredentialsRef does
	// not exist, cannot be read, or has no valid cloud configuration. The message names the wrong key.
	ReasonNoCredentials = "NoCredentials"
	// ReasonCloudNotPermitted is set when an administrator has not allowed the namespace to use the cloud:
	// that of the ClusterCloud, or the controller's own. The controller sends nothing for the Network until
	// that changes, or until the Network is deleted: then it looks for what is there of it.
	ReasonCloudNotPermitted = "CloudNotPermitted"
	// ReasonPaused is set when Neutron needs a change, but the annotation
	// samplecrd.k8s.io/paused forbids it.
	ReasonPaused = "Paused"
	// ReasonInUse is set when ports prevent a deletion or a replacement (409).
	ReasonInUse = "InUse"
	// ReasonQuotaExceeded is set when the quota of the project is used up (409).
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonNoSegmentAvailable is set when Neutron has no free VLAN, VNI or the like for another
	// network (503 NoNetworkAvailable).
	ReasonNoSegmentAvailable = "NoSegmentAvailable"
	// ReasonSubnetPoolExhausted is set when the subnet pool has no free block of the requested prefix
	// length (500 SubnetAllocationError). The controller tries again once per minute.
	ReasonSubnetPoolExhausted = "SubnetPoolExhausted"
	// ReasonReferenceNotFound is set when the router, the external network, the subnet pool or an
	// availability zone that the spec names is not in Neutron, or when there are several of that name.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonAdminStateDown is set when Neutron has what the spec declares, but the network, or the router
	// that its subnets are attached to, is switched off there (admin_state_up is false).
	ReasonAdminStateDown = "AdminStateDown"
	// ReasonProgressing is set while the controller works on the spec and nothing holds it up.
	ReasonProgressing = "Progressing"
	// ReasonNeutronUnavailable is set when Neutron did not answer, or answered with an error
	// that is not about the request.
	ReasonNeutronUnavailable = "NeutronUnavailable"
)
