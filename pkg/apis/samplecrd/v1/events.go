// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// The reasons of the events that the controller records on a Network. In addition, a
// Network that is no longer ready gets a Warning with the reason of its Ready condition,
// and a Network that becomes ready without a change in Neutron gets Available.
const (
	// EventCreated is recorded when the network was created in Neutron.
	EventCreated = "Created"
	// EventAdopted is recorded when the controller found a network with the mark of this
	// Network: an earlier sync created it, but did not write its ID to the status.
	EventAdopted = "Adopted"
	// EventImported is recorded when the network of spec.import was taken over. The message says
	// what differs from the spec, and is changed next.
	EventImported = "Imported"
	// EventUpdated is recorded when the network in Neutron was changed after an edit of the
	// spec.
	EventUpdated = "Updated"
	// EventDriftRepaired is recorded when another client had changed the network in Neutron,
	// and the controller restored it.
	EventDriftRepaired = "DriftRepaired"
	// EventUnmanagedSubnet is recorded when another client has added a subnet to the network.
	// The controller does not change it. It is deleted together with the network.
	EventUnmanagedSubnet = "UnmanagedSubnet"
	// EventUnmanagedInterface is recorded when another client has attached the network to a router
	// that neither spec nor status names. The controller does not change it. The network cannot be
	// deleted while it is attached.
	EventUnmanagedInterface = "UnmanagedInterface"
	// EventDeleted is recorded when the network is gone from Neutron.
	EventDeleted = "Deleted"
)
