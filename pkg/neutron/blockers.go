// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import "slices"

// blockers says which ports prevent a step. The zero value has none.
type blockers struct {
	// op is the operation that they prevent.
	op string
	// network is the ID of the network that they are on.
	network string
	// subnets are the IDs of the subnets that they have addresses in; nil: any port of the network
	// prevents the step.
	subnets []string
	// project is the ID of the project whose ports prevent it; "" for all.
	project string
	// except are the interfaces that the controller removes itself. They do not prevent it, nor do the
	// ports that go with them.
	except []Interface
}

// blockersOf returns which ports prevent the step, except for those that go with the interfaces that the owner manages.
func blockersOf(step Step, identity Identity, observed *Observed) (b blockers) {
	switch s := step.(type) {
	case CreateSubnet:
		b = blockersOfReplaced(observed, s.Replaces)
	case DeleteSubnet:
		b = blockers{op: "delete subnet " + s.CIDR.String(), network: observed.ID, subnets: []string{s.ID}}
		if len(s.Others) > 0 {
			b = blockersOfReplaced(observed, append([]string{s.ID}, s.Others...))
		}
	case RemoveRoutes:
		return blockersOf(s.Detach, identity, observed)
	case DetachSubnet:
		b = blockersOfNetwork(observed.ID)
		if !s.IsRemoval {
			b = blockersOfReplaced(observed, s.Replaces)
		}
	case DeleteNetwork:
		observed = observed.Keeping(s.Network.ID) // its interfaces go first
		b = blockersOfNetwork(s.Network.ID)
	case UnshareNetwork:
		return blockers{op: "end sharing with project " + s.Share.ProjectID, network: observed.ID, project: s.Share.ProjectID}
	default:
		return blockers{}
	}
	return b.withoutInterfaces(identity, observed)
}

// blockersOfNetwork are those of the deletion of a network.
func blockersOfNetwork(id string) blockers { return blockers{op: "delete network", network: id} }

// blockersOfReplaced are those of the replacement of these subnets of the network. Without subnets
// there are none.
func blockersOfReplaced(observed *Observed, ids []string) blockers {
	if len(ids) == 0 {
		return blockers{}
	}
	return blockers{op: "replace subnet " + cidrsOf(observed, ids), network: observed.ID, subnets: ids}
}

// withoutInterfaces returns them without the interfaces that the owner manages. That goes by the status, because the spec does
// not declare what goes.
func (b blockers) withoutInterfaces(identity Identity, observed *Observed) blockers {
	for _, i := range observed.Interfaces {
		if identity.managesByStatus(observed, i) {
			b.except = append(b.except, i)
		}
	}
	return b
}

func (b blockers) equal(other blockers) bool {
	return b.network == other.network && b.project == other.project && slices.Equal(b.subnets, other.subnets) && slices.EqualFunc(b.except, other.except, sameInterface)
}

// has reports whether the port prevents the step. The IPv6 subnets of a network share the port of a router:
// it prevents the step too while it has the address of one that stays.
func (b blockers) has(p Port) bool {
	if b.project != "" && b.project != p.ProjectID {
		return false
	}
	return p.NetworkID == b.network && (b.subnets == nil && len(p.FixedIPs) == 0 || slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool {
		isIn := b.subnets == nil || slices.Contains(b.subnets, ip.SubnetID)
		isRemoved := func(i Interface) bool { return i.SubnetID == ip.SubnetID && p.GoesWith(i) }
		return isIn && !slices.ContainsFunc(b.except, isRemoved)
	}))
}

// blocking names those of the ports that prevent the step; "" if none does.
func (b blockers) blocking(ports []Port) string {
	return inUseBy(slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return !b.has(p) }))
}

func (b blockers) inUse(message string) error {
	return &Error{Op: b.op, Reason: InUse, Message: message}
}
