// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"
)

// CreateRouter creates a router of the Network's own, with its gateway. Its description carries the
// mark from the start.
type CreateRouter struct{ Router DesiredRouter }

func (CreateRouter) String() string { return "router created" }

func (s CreateRouter) fields() map[string]any { return creation(routerTable, &s.Router) }

// UpdateRouter changes fields of a router of the Network's own.
type UpdateRouter struct {
	ID      string
	Changes []Change
}

func (s UpdateRouter) String() string { return describe(s.Changes) }

// AttachSubnet attaches a subnet to a router, or confirms that it is attached.
type AttachSubnet struct {
	Router, Subnet string
	CIDR           netip.Prefix
	// IsOwn means that the router carries the owner's mark.
	IsOwn bool
	// Port is the ID of the port of an interface that Neutron has not confirmed yet.
	Port string
}

func (s AttachSubnet) String() string {
	if s.Port != "" {
		return fmt.Sprintf("connection of subnet %s to router %s confirmed", s.CIDR, s.Router)
	}
	return fmt.Sprintf("subnet %s attached to router %s", s.CIDR, s.Router)
}

// DetachSubnet detaches a subnet from a router. It fails with InUse, and changes nothing, if
// floating IPs depend on the interface.
type DetachSubnet struct {
	Router, Subnet string
	CIDR           netip.Prefix
	// Replaces are the IDs of the subnets that are deleted afterwards, including this one. Ports on
	// them prevent the step.
	Replaces []string
	// IsRemoval means that the network is deleted afterwards. Ports on it prevent the step.
	IsRemoval bool
	// Changes are those of the subnet that Neutron accepts only while it is detached.
	Changes []Change
}

func (s DetachSubnet) String() string {
	return fmt.Sprintf("subnet %s detached from router %s", s.CIDR, s.Router)
}

// DeleteRouter deletes a router that carries the owner's mark.
type DeleteRouter struct{ ID string }

func (s DeleteRouter) String() string { return "router " + s.ID + " deleted" }
