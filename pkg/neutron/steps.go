// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"
	"slices"
)

// A Step is one change in Neutron, as data. A new kind of change is one more type here, and:
//
//   - its method expect (expect.go), and its place in the plan (plan.go, routerplan.go, importplan.go or removal.go);
//   - a case in effectOf (effects.go): what it does to what exists, and to the steps after it;
//   - a case in Cloud.perform or Cloud.performOnRouter (take.go): its request;
//   - if ports can prevent it, a case in blockersOf (blockers.go); what else can, is a row of preconditions.go;
//   - a case in each of these, if it needs one: plannedText and interruption (describe.go), planFrom (joint.go),
//     isUnrecorded (below), asked and isOutdated (converge.go), checkStillOurs (import.go).
type Step interface {
	// String describes the step to users, in events and in the message of a paused Network.
	fmt.Stringer
	// expect returns what will be observed afterwards, if Neutron accepts the step.
	expect(observed *Observed) *Observed
}

// CreateNetwork creates the network. Its description carries the mark from the start.
type CreateNetwork struct{ Network DesiredNetwork }

func (CreateNetwork) String() string { return "network created" }

func (s CreateNetwork) fields() map[string]any { return creation(networkTable, &s.Network) }

// UpdateNetwork changes fields of the network.
type UpdateNetwork struct{ Changes []Change }

func (s UpdateNetwork) String() string { return describe(s.Changes) }

// SetTags replaces the tags of the network. Neutron does not accept tags in the request that
// creates it.
type SetTags struct{ Tags Tags }

func (s SetTags) String() string { return Change{Label: fieldTags, Value: s.Tags}.String() }

// CreateSubnet creates a subnet. Its description carries the mark from the start. If a subnet
// that it replaces has ports, it fails with InUse and changes nothing.
type CreateSubnet struct {
	Subnet DesiredSubnet
	// Replaces are the IDs of the subnets that are deleted afterwards.
	Replaces []string
}

func (s CreateSubnet) String() string { return "subnet " + s.Subnet.rangeText() + " created" }

func (s CreateSubnet) fields() map[string]any {
	fields := creation(subnetTable, &s.Subnet)
	fields["ip_version"] = s.Subnet.version()
	if pool := s.Subnet.SubnetPool; pool != nil {
		fields["subnetpool_id"], fields["prefixlen"] = pool.ID, pool.Spec.PrefixLength
	} else {
		fields["cidr"] = s.Subnet.CIDR
	}
	return fields
}

// UpdateSubnet changes fields of a subnet.
type UpdateSubnet struct {
	ID string
	// Label is the subnet's name in spec.additionalSubnets.
	Label   string
	Changes []Change
}

func (s UpdateSubnet) String() string {
	if s.Label == "" {
		return describe(s.Changes)
	}
	return "subnet " + s.Label + ": " + describe(s.Changes)
}

// DeleteSubnet deletes a subnet that the spec no longer declares. It fails with InUse if ports have
// addresses in it.
type DeleteSubnet struct {
	ID   string
	CIDR netip.Prefix
	// PoolID is the ID of the subnet pool that the CIDR is from, "" if it is from none.
	PoolID string
	// Others are the IDs of the other subnets that are replaced too, if this one is deleted to make
	// room for a new one. If one of them has ports, the new one cannot be created yet, and this
	// one is not deleted.
	Others []string
}

func (s DeleteSubnet) String() string { return "subnet " + cidrText(s.CIDR) + " deleted" }

// DeleteNetwork deletes a network with its subnets, if it still has the owner's mark.
type DeleteNetwork struct {
	Network *Network
	// IsDuplicate means that the owner has another network, which stays.
	IsDuplicate bool
}

func (s DeleteNetwork) String() string {
	text := "network " + s.Network.ID + " deleted"
	if s.IsDuplicate {
		return "duplicate " + text
	}
	return text
}

// UnmarkSubnet removes the mark from a subnet that is to be retained.
type UnmarkSubnet struct{ Subnet Subnet }

func (s UnmarkSubnet) String() string {
	return "ownership mark of subnet " + s.Subnet.CIDR.String() + " removed"
}

// UnmarkRouter removes the mark from a router that is to be retained.
type UnmarkRouter struct{ Router Router }

func (s UnmarkRouter) String() string { return "ownership mark of router " + s.Router.ID + " removed" }

// UnmarkNetwork removes the mark from a network that is to be retained. The network is no longer the owner's then.
type UnmarkNetwork struct{ ID string }

func (s UnmarkNetwork) String() string { return "ownership mark of network " + s.ID + " removed" }

// UnmarkImport removes the owner's tags from an imported network that is to be retained, and nothing else. The network is no
// longer the owner's then.
type UnmarkImport struct {
	ID   string
	Tags []string
}

func (s UnmarkImport) String() string { return "ownership mark of network " + s.ID + " removed" }

// ShareNetwork lets another project use the network.
type ShareNetwork struct{ Project string }

func (s ShareNetwork) String() string { return "network shared with project " + s.Project }

// UnshareNetwork takes that from a project that the spec no longer names. It fails with InUse if that project has ports on the
// network.
type UnshareNetwork struct{ Share Share }

func (s UnshareNetwork) String() string {
	return "network no longer shared with project " + s.Share.ProjectID
}

// isUnrecorded reports whether the step must wait for a write of the status: of the router, its routes or the project, because
// what the step creates could not be found if the spec changed right afterwards, or of an import, so that its event tells what
// differed before anything was changed.
func (i Identity) isUnrecorded(step Step) bool {
	switch s := step.(type) {
	case ImportNetwork, WithdrawImport:
		return false
	case CreateRouter:
		if !i.RouterRecorded {
			return true
		}
	case AttachSubnet:
		if !i.RouterRecorded || !s.IsOwn && i.RouterID != s.Router {
			return true
		}
	case ShareNetwork:
		if !slices.Contains(i.SharedWith, s.Project) {
			return true
		}
	case SetRoutes:
		if s.Routes.without(i.Routes) != "" {
			return true
		}
	}
	return i.Import != "" && !i.Imported
}

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

// SetRoutes replaces the routes of a router of the Network's own. Neutron accepts no routes in the request that creates the
// router, and later only those whose next hop is in a subnet of the router.
type SetRoutes struct {
	Router string
	Routes Routes
	// Before are those that were observed.
	Before Routes
}

func (s SetRoutes) String() string { return Change{Label: fieldRoutes, Value: s.Routes}.String() }

// RemoveRoutes removes routes of a router of the Network's own, and no others. They lead through a subnet that is detached
// next: Neutron refuses that as long as there are such routes.
type RemoveRoutes struct {
	Routes Routes
	// Detach is the step that the routes are in the way of. What prevents it prevents this step too.
	Detach DetachSubnet
}

func (s RemoveRoutes) String() string {
	return fmt.Sprintf("routes %s of router %s removed", s.Routes, s.Detach.Router)
}

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
		return fmt.Sprintf("connection of subnet %s to router %s confirmed", cidrText(s.CIDR), s.Router)
	}
	return fmt.Sprintf("subnet %s attached to router %s", cidrText(s.CIDR), s.Router)
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
	return fmt.Sprintf("subnet %s detached from router %s", cidrText(s.CIDR), s.Router)
}

// DeleteRouter deletes a router that carries the owner's mark.
type DeleteRouter struct{ ID string }

func (s DeleteRouter) String() string { return "router " + s.ID + " deleted" }

// ImportNetwork takes a network over: it adds the tag that marks it, and nothing else. It fails with
// ImportRefused if another Network has marked the network.
type ImportNetwork struct {
	// ID is that of the network, and Owner gives the tag.
	ID    string
	Owner Owner
	// IsAgain means that the status says that the network was taken over: it has lost its mark, or has an old one.
	IsAgain bool
	// Obsolete are the tags of an older version, which are removed when the network has the new one.
	Obsolete []string
}

func (s ImportNetwork) String() string {
	if s.IsAgain && len(s.Obsolete) > 0 {
		return "ownership mark replaced by one that names the cluster"
	}
	if s.IsAgain {
		return "ownership mark restored"
	}
	return "network " + s.ID + " imported"
}

// WithdrawImport removes the mark of an import that was not confirmed, from a network that must not be
// taken over.
type WithdrawImport struct{ Tags []string }

func (s WithdrawImport) String() string { return "ownership mark withdrawn" }
