// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"slices"
)

// This file says whose the objects in Neutron are, and what may be done with them. A network is created, imported, or only
// observed: Identity.Import and Identity.ReadOnly. A created network has its mark in the description, as all subnets and
// routers have that were created. The mark of an imported network is a tag, and its subnets and fields are the owner's as far as
// the spec declares them.

// Marks reports whether the network carries the owner's mark. Without the mark it is never
// deleted. The mark of an imported network is a tag, which proves something only together with the
// ID in the spec.
func (i Identity) Marks(n *Network) bool {
	if i.Import != "" {
		return n.ID == i.Import && n.hasImportTag(i.Owner)
	}
	return i.Owner.marks(n.Description)
}

// owns reports whether the subnet is the owner's: by its mark, or without one by its ID.
func (i Identity) owns(s *Subnet) bool {
	if owner, marked := OwnerOf(s.Description); marked {
		return owner == i.Owner
	}
	return slices.Contains(i.SubnetIDs, s.ID)
}

// covers reports whether the network belongs to the owner although it may have lost its mark:
// it has the known ID, and a subnet with the mark.
func (i Identity) covers(n *Network) bool {
	if _, marked := OwnerOf(n.Description); marked {
		return i.Marks(n)
	}
	return n.ID == i.NetworkID && slices.ContainsFunc(n.Subnets, func(s Subnet) bool { return i.Owner.marks(s.Description) })
}

// checkOwner returns an error if the network that was seen last carries the mark of another Network by now, such as one of a cluster
// that it was handed over to, or of the cluster whose backup has the status. A second network would be created otherwise. A copy of a
// cluster has the same UIDs: its Networks get networks of their own. A deletion has nothing to do.
func (i Identity) checkOwner(network *Network) error {
	owner, isMarked := OwnerOf(network.Description)
	if !isMarked || owner.UID == i.Owner.UID || i.CloudName == "" || i.IsDeleted {
		return nil
	}
	remedy := "restore the mark " + i.Owner.Mark() + " in its description"
	if owner.Cluster != i.Owner.Cluster {
		remedy = "run samplecrd-controller move to give it to this Network"
	}
	return &Error{Op: "find network " + network.ID, Reason: OtherOwner, Message: Printable(fmt.Sprintf(
		"it carries the mark of another Network, %s of cluster %s: %s; or clear status.cloud to abandon that network", owner.UID, owner.Cluster, remedy))}
}

// hasLost reports whether the network has none of the owner's marks any more. A removal leaves it alone.
func (i Identity) hasLost(observed *Observed) bool {
	return observed.Exists() && !i.Marks(&observed.Network) && !i.marksPartOf(observed)
}

// marksPartOf reports whether a subnet or a router of an imported network carries the owner's mark.
func (i Identity) marksPartOf(observed *Observed) bool {
	return i.Import != "" && (slices.ContainsFunc(observed.Subnets, func(s Subnet) bool { return i.Owner.marks(s.Description) }) ||
		slices.ContainsFunc(observed.Routers, func(r Router) bool { return r.isOwnedBy(i.Owner) }))
}

// checkDeletion returns an error if the network is imported and must not be deleted.
func (i Identity) checkDeletion(n *Network) error {
	if i.Import == "" {
		return nil
	}
	return importRefusal(i.Owner, n)
}

// keeps reports whether the network must stay although the spec says that it is deleted: an imported
// network without the mark may be anybody's, and so may one that was not taken over and now must not be.
func (i Identity) keeps(n *Network) bool {
	if i.Import == "" || !n.Exists() {
		return false
	}
	return !i.Marks(n) || !i.Imported && importRefusal(i.Owner, n) != nil
}

// isOurs reports whether the subnet belongs to the owner. Without a mark, a subnet of an imported
// network belongs to the owner as long as the spec has its CIDR, or has a subnet pool and the status
// says that this is the subnet from it.
func (v *View) isOurs(s *Subnet) bool {
	if _, marked := OwnerOf(s.Description); !marked && v.Import != "" {
		return slices.ContainsFunc(v.Subnets, func(d DesiredSubnet) bool {
			return d.CIDR == s.CIDR || d.SubnetPool != nil && v.isRecorded(&d, s) && isNamed(&d, s)
		})
	}
	return v.owns(s)
}

// isCreated reports whether the controller created the subnet for the owner. It deletes no other subnet of an
// imported network.
func (v *View) isCreated(s *Subnet) bool {
	return v.isOurs(s) && !v.tookOver(s)
}

// tookOver reports whether a subnet of the owner was found on an imported network, and not created.
func (i Identity) tookOver(s *Subnet) bool { return i.Import != "" && !i.Owner.marks(s.Description) }

// forExisting returns what the existing subnet must match: the desired subnet, but without its name and its
// mark if the existing one was taken over, and with the CIDR that Neutron has chosen.
func (v *View) forExisting(subnet *DesiredSubnet, existing *Subnet) *DesiredSubnet {
	if !v.tookOver(existing) && subnet.SubnetPool == nil {
		return subnet
	}
	adapted := *subnet
	adapted.CIDR = existing.CIDR
	if v.tookOver(existing) {
		adapted.Name, adapted.Mark = "", ""
	}
	return &adapted
}

// Unmanaged returns the network's subnets that do not belong to the owner.
func (v *View) Unmanaged() []Subnet {
	var unmanaged []Subnet
	for i := range v.Observed.Subnets {
		if !v.isOurs(&v.Observed.Subnets[i]) {
			unmanaged = append(unmanaged, v.Observed.Subnets[i])
		}
	}
	return unmanaged
}

// keepsInterface reports whether an interface may have another address than the gateway: the subnet was
// taken over, and the spec leaves its gateway out.
func (v *View) keepsInterface(declared *DesiredSubnet, subnet *Subnet) bool {
	return v.tookOver(subnet) && !declared.Gateway.IsValid()
}

// manages reports whether the owner manages the interface: its subnet is the owner's, and its
// router carries the owner's mark, or is named by the spec or the status. A subnet that was taken over is
// no longer the owner's when the spec does not name it; then the status names the interface.
func (v *View) manages(i Interface) bool {
	s := v.Observed.subnet(i.SubnetID)
	if s == nil || !v.isOurs(s) && !(v.Import != "" && v.PortIDs[s.ID] == i.PortID) {
		return false
	}
	return v.hasRouter(v.Observed, i.RouterID)
}

// managesByStatus is View.manages without the spec, for a removal: it goes by what the status knows.
func (i Identity) managesByStatus(observed *Observed, on Interface) bool {
	s := observed.subnet(on.SubnetID)
	return s != nil && i.owns(s) && i.hasRouter(observed, on.RouterID)
}

// hasRouter reports whether the router carries the owner's mark, or is named by the spec or the
// status. As long as a network is not taken over, the status only shows to which router somebody else has attached it.
func (i Identity) hasRouter(observed *Observed, id string) bool {
	if id == "" { // anybody can create such a port
		return false
	}
	r := observed.router(id)
	isRecorded := id == i.RouterID && (i.Import == "" || i.Imported)
	return r != nil && r.isOwnedBy(i.Owner) || isRecorded || id == i.Declared
}

// UnmanagedInterfaces returns the interfaces on the owner's subnets that the owner does not manage.
func (v *View) UnmanagedInterfaces() []Interface {
	return slices.DeleteFunc(slices.Clone(v.Observed.Interfaces), func(i Interface) bool { return v.manages(i) })
}
