// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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

// AnnotationMovingFrom is what the subcommand move writes on a Network while it gives it the network of another one. The value is
// that Network's owner in Neutron, <cluster ID>/<UID>. As long as the annotation is there, the Network is paused. If it stays,
// the move was interrupted: run it again.
//
// AnnotationMovedFrom has the same value when the move is finished. So another run of move knows that this Network has its network.
const (
	AnnotationMovingFrom = "samplecrd.k8s.io/moving-from"
	AnnotationMovedFrom  = "samplecrd.k8s.io/moved-from"
)

// LabelDeletionProtection on a Network makes the API server refuse its deletion, and that of its
// namespace, if the policies of artifacts/deploy/admission/deletion-policy.yaml are installed. Each
// value protects, except "false". The controller does not read it.
//
// It is a label because the API server selects objects by labels: it asks the policies only about
// Networks that have it.
const LabelDeletionProtection = "samplecrd.k8s.io/deletion-protection"

// IsPaused reports whether nothing may be changed in Neutron for the Network.
func (n *Network) IsPaused() bool {
	return n.Annotations[AnnotationPaused] == "true" || n.Annotations[AnnotationMovingFrom] != ""
}

// What a user writes on a Deployment that needs a Network of its own.
const (
	// AnnotationNetworkCIDR on a Deployment requests a Network of the same name in the same
	// namespace. The value is its spec.cidr, or NetworkCIDRAuto. The Deployment owns the
	// Network: the controller updates it when the annotations change, and the Network is
	// deleted with this annotation or with the Deployment.
	AnnotationNetworkCIDR = "samplecrd.k8s.io/network-cidr"
	// AnnotationNetworkGateway on a Deployment is the spec.gateway of its Network. If it is
	// not set, Neutron chooses. With NetworkCIDRAuto the only possible value is None.
	AnnotationNetworkGateway = "samplecrd.k8s.io/network-gateway"
	// AnnotationNetworkTemplate on a Deployment names a Network in the same namespace. The
	// Network of the Deployment takes over its spec, except the fields that only one Network
	// can have: cidr, subnetPool, gateway, allocationPools, additionalSubnets, external, provider,
	// import, managementPolicy, deletionPolicy, availabilityZoneHints and router.routes, the host
	// routes with a next hop inside the template's CIDR, and what is
	// of another IP family than its own CIDR. With a subnet pool its IP family is not known: it
	// takes over all DNS servers, ipv6 only if the prefix length is 64, and no host routes. It
	// follows the changes of the template, except cloudCredentialsRef, which is taken over when it
	// is created.
	AnnotationNetworkTemplate = "samplecrd.k8s.io/network-template"
	// NetworkCIDRAuto as AnnotationNetworkCIDR requests the lowest block of the controller's
	// -deployment-cidr-pool that does not overlap with a subnet of another Network. With
	// -deployment-subnet-pool, the Network has that pool as its spec.subnetPool instead, and
	// Neutron chooses the block. Either way, an existing Network keeps its block or its
	// spec.subnetPool when the flags change.
	NetworkCIDRAuto = "auto"
)

// What the controller writes on the Network of a Deployment.
const (
	// LabelDeployment is the name of the Deployment. If the name has more than 63
	// characters, it is the first 54, a dash, and eight digits of the name's SHA-256 sum.
	// A Deployment adopts a Network of its name that has this label and no owner.
	LabelDeployment = "samplecrd.k8s.io/deployment"
	// AnnotationAllocatedCIDR is the block of -deployment-cidr-pool that was allocated for
	// NetworkCIDRAuto. The Network keeps it while the Deployment requests NetworkCIDRAuto, even
	// if the pool changes.
	AnnotationAllocatedCIDR = "samplecrd.k8s.io/allocated-cidr"
	// AnnotationAppliedTemplate on the Network of a Deployment is the name of its template, see
	// AnnotationNetworkTemplate. If the Deployment no longer names a template, the controller
	// removes the annotation and all fields that can be taken over from a template.
	AnnotationAppliedTemplate = "samplecrd.k8s.io/applied-template"
)

// The reasons of the events that the controller records on a Deployment. It records a
// Warning once for each cause.
const (
	// EventNetworkCreated is recorded when the Network was created.
	EventNetworkCreated = "NetworkCreated"
	// EventNetworkAdopted is recorded when the Deployment became the owner of a Network that
	// had its label and no owner.
	EventNetworkAdopted = "NetworkAdopted"
	// EventNetworkUpdated is recorded when the Network was changed to match the annotations
	// and the template.
	EventNetworkUpdated = "NetworkUpdated"
	// EventNetworkDeleted is recorded when the Network was deleted because the annotation is
	// gone.
	EventNetworkDeleted = "NetworkDeleted"
	// EventNetworkBeingDeleted is recorded when the old Network must be gone before the
	// controller can create a new one.
	EventNetworkBeingDeleted = "NetworkBeingDeleted"
	// EventNetworkNotOwned is recorded when the Network of the Deployment's name has another
	// owner, or no owner and no label. The controller does not change it.
	EventNetworkNotOwned = "NetworkNotOwned"
	// EventNetworkAnnotationInvalid is recorded when the annotations are not valid. The
	// controller does not change an existing Network.
	EventNetworkAnnotationInvalid = "NetworkAnnotationInvalid"
	// EventNetworkTemplateUnusable is recorded when the Network of AnnotationNetworkTemplate
	// does not exist, is being deleted, is the Deployment's own, takes over from a template
	// itself, or has other credentials. The controller does not change an existing Network,
	// and creates none.
	EventNetworkTemplateUnusable = "NetworkTemplateUnusable"
	// EventNetworkRefused is recorded when the API server forbids the controller to write the
	// Network: a right is missing, or a quota is used up.
	EventNetworkRefused = "NetworkRefused"
	// EventNoCIDRPool is recorded when the Deployment requests NetworkCIDRAuto, but the
	// controller has neither -deployment-cidr-pool nor -deployment-subnet-pool.
	EventNoCIDRPool = "NoCIDRPool"
	// EventCIDRPoolExhausted is recorded when no block of -deployment-cidr-pool is free. If a
	// subnet pool is exhausted, the Network says so: ReasonSubnetPoolExhausted.
	EventCIDRPoolExhausted = "CIDRPoolExhausted"
)
