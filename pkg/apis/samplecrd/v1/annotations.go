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

// What people write on a Deployment that shall have a Network of its own.
const (
	// AnnotationNetworkCIDR on a Deployment asks for a Network of its name in its
	// namespace, with that spec.cidr, or, if it is NetworkCIDRAuto, with a free block of
	// the controller's pool. The Network is the Deployment's: it follows the annotations,
	// and goes with this annotation, or with the Deployment.
	AnnotationNetworkCIDR = "samplecrd.k8s.io/network-cidr"
	// AnnotationNetworkGateway on a Deployment is the spec.gateway of its Network. Left
	// out, Neutron chooses. Beside NetworkCIDRAuto it can only be None.
	AnnotationNetworkGateway = "samplecrd.k8s.io/network-gateway"
	// NetworkCIDRAuto as AnnotationNetworkCIDR stands for the lowest block of the
	// controller's -deployment-cidr-pool that overlaps no other Network.
	NetworkCIDRAuto = "auto"
)

// What the controller writes on the Network of a Deployment.
const (
	// LabelDeployment is the name of the Deployment; of one of more than 63 characters the
	// first 54, a dash, and eight digits of its SHA-256 sum. A Network that has no owner,
	// and this label, and the Deployment's name, is for the Deployment to adopt.
	LabelDeployment = "samplecrd.k8s.io/deployment"
	// AnnotationAllocatedCIDR is the block that NetworkCIDRAuto has led to. As long as the
	// Deployment asks for NetworkCIDRAuto it stays this one, whatever becomes of the pool.
	AnnotationAllocatedCIDR = "samplecrd.k8s.io/allocated-cidr"
)

// The reasons of the events that the controller records on a Deployment. Warnings are
// recorded once for each cause.
const (
	// EventNetworkCreated: the Network was created.
	EventNetworkCreated = "NetworkCreated"
	// EventNetworkAdopted: a Network that had no owner and carried the Deployment's label is
	// the Deployment's now.
	EventNetworkAdopted = "NetworkAdopted"
	// EventNetworkUpdated: the Network was brought in line with the annotations.
	EventNetworkUpdated = "NetworkUpdated"
	// EventNetworkDeleted: the annotation is gone, and the Network was deleted.
	EventNetworkDeleted = "NetworkDeleted"
	// EventNetworkBeingDeleted: the Deployment's Network has yet to be deleted before there
	// can be another one.
	EventNetworkBeingDeleted = "NetworkBeingDeleted"
	// EventNetworkNotOwned: the Network of the Deployment's name is somebody else's, and is
	// left alone.
	EventNetworkNotOwned = "NetworkNotOwned"
	// EventNetworkAnnotationInvalid: the annotations do not make a Network. The one that is
	// there stays as it is.
	EventNetworkAnnotationInvalid = "NetworkAnnotationInvalid"
	// EventNetworkRefused: the API server does not let the controller write the Network: a
	// right is missing, or a quota is used up.
	EventNetworkRefused = "NetworkRefused"
	// EventNoCIDRPool: NetworkCIDRAuto is asked for, and the controller has no
	// -deployment-cidr-pool.
	EventNoCIDRPool = "NoCIDRPool"
	// EventCIDRPoolExhausted: no block of the pool is free.
	EventCIDRPoolExhausted = "CIDRPoolExhausted"
)
