// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle judges what controllers do by what the documentation promises. It is written without the code of the
// controller. Tests in which whole controllers run use it: the simulation in virtual time, and those with real processes.
//
// It judges safety at each request to Neutron (see Rules.DeedOf and Rules.Permits), and agreement when a controller has had
// its time (see Rules.Disagreements).
//
// deed.go reads a request to Neutron, rules.go and history.go say whether a version of its Network permits it, agreement.go
// and imports.go compare both sides, and snapshot.go has what Neutron has.
package oracle

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Rules are what the oracle knows of a world. Its methods may be called concurrently, if its functions may.
type Rules struct {
	// Cluster is the ID of the cluster.
	Cluster string
	// Externals, Gates and Pools are the IDs of the external networks, the routers and the subnet pools that specs may name.
	Externals, Gates, Pools map[string]string
	// IsStrange reports whether the object in Neutron with that ID is one that no controller may change.
	IsStrange func(id string) bool
	// IsLegacy reports whether a user has created the network with that ID for Networks that import it.
	IsLegacy func(id string) bool
	// Repeats returns how often Neutron may have handled a request for a subnet from a pool on that network twice; nil: never.
	Repeats func(network string) int
}

// Permits reports whether this version of the owner permits the Deed; nil stands for an owner that is gone.
func (r *Rules) Permits(n *samplecrdv1.Network, d *Deed) bool {
	switch {
	case n == nil: // what it had is an orphan, and old enough
		return d.isRemoval() && d.network == "" || d.Kind == Unmarks || d.Kind == RemovesRoutes
	case n.IsPaused():
		return false
	case d.Kind == RemovesRoutes:
		return r.permitsRoutes(n, d)
	case n.Spec.Import != nil:
		return r.permitsOnImport(n, d)
	}
	isDeleted, isRetained := n.DeletionTimestamp != nil, n.Spec.DeletionPolicy == samplecrdv1.DeletionRetain
	isRemoval := isDeleted && !isRetained || !isDeleted && d.isDuplicate
	switch d.Kind {
	case Unmarks:
		return isDeleted && isRetained
	case Deletes:
		return isRemoval
	case Creates:
		return !isDeleted && hasFinalizer(n)
	}
	return r.permitsOnSubnet(n, d, isRemoval)
}

// permitsRoutes is Permits for a Deed that removes routes: the Network declares others, or the subnet with the next hop goes,
// or the router with the Network. Without a declaration, only those go with their subnet that the Network has declared before.
func (r *Rules) permitsRoutes(n *samplecrdv1.Network, d *Deed) bool {
	declared := meaning.WantedRoutes(n.Spec.Router, nil)
	isDeclaring := n.Spec.Router != nil && n.Spec.Router.Routes != nil
	isGoing := n.DeletionTimestamp != nil && !n.IsRetained()
	return n.Spec.ManagementPolicy != samplecrdv1.ManagementObserve && !slices.ContainsFunc(d.routes, func(lost lostRoute) bool {
		if isDeclaring && n.DeletionTimestamp == nil && !slices.Contains(declared, lost.Route) {
			return false
		}
		isKnown := isDeclaring || n.Status.Router != nil && slices.Contains(n.Status.Router.Routes, samplecrdv1.RouteStatus(lost.Route))
		return !isKnown || !isGoing && (lost.detachment == nil || !r.Permits(n, lost.detachment))
	})
}

// permitsOnSubnet is Permits for Deeds about subnets and routers.
func (r *Rules) permitsOnSubnet(n *samplecrdv1.Network, d *Deed, isRemoval bool) bool {
	isDeleted, declared := n.DeletionTimestamp != nil, r.declaredSubnet(n, d)
	switch {
	case d.Kind == Allocates:
		return !isDeleted && hasFinalizer(n) && r.surplus(n, d) < d.repeats
	case d.Kind == Shares || d.Kind == Unshares: // nothing but the status says whose a policy is
		isRecorded := slices.Contains(n.Status.SharedWith, d.project)
		return !isDeleted && hasFinalizer(n) && isRecorded && sharesWith(n, d.project) == (d.Kind == Shares)
	case d.Kind == CreatesRouter:
		return !isDeleted && hasFinalizer(n) && r.declaresRouter(n, d)
	case d.Kind == Attaches:
		return !isDeleted && declared != nil && r.declaresRouter(n, d)
	case isRemoval:
		return true
	case isDeleted:
		return false
	case d.Kind == DeletesSubnet:
		return declared == nil || d.isRepeated || mustBeReplaced(n, declared, d) || r.surplus(n, d) > 0
	case d.Kind == Detaches:
		// A trial that Neutron has accepted is taken back, if the status does not name the router.
		isTrial := n.Status.Router == nil || n.Status.Router.ID != d.Router
		return declared == nil || d.isHalf || isTrial || !r.declaresRouter(n, d) || isMoved(declared, d) || mustBeReplaced(n, declared, d) || r.surplus(n, d) > 0
	case d.Kind == DeletesRouter:
		return !r.declaresRouter(n, d)
	}
	return false
}

// permitsOnImport is Permits for a Network that imports its network.
func (r *Rules) permitsOnImport(n *samplecrdv1.Network, d *Deed) bool {
	isDeleted, isRetained := n.DeletionTimestamp != nil, n.Spec.DeletionPolicy != samplecrdv1.DeletionDelete
	isRemoval := isDeleted && !isRetained
	switch {
	case n.Spec.ManagementPolicy == samplecrdv1.ManagementObserve, d.network != "" && d.network != n.Spec.Import.NetworkID:
		return false
	case d.Kind == Imports:
		return !isDeleted
	case d.Kind == Withdraws: // what was never confirmed is not deleted if somebody else has marked it meanwhile
		return !isDeleted || isRetained || !d.isHolder && !n.Status.Imported
	case d.Kind == Unmarks: // a network that lacks the mark, or has another one too, may be anybody's: it is never deleted
		return isDeleted && (isRetained || !d.isHolder)
	case d.Kind == Deletes:
		return isRemoval
	}
	return r.permitsOnSubnet(n, d, isRemoval)
}

func hasFinalizer(n *samplecrdv1.Network) bool {
	return slices.Contains(n.Finalizers, samplecrdv1.Finalizer)
}

func sharesWith(n *samplecrdv1.Network, project string) bool {
	return slices.Contains(n.Spec.SharedWith, samplecrdv1.Share{ProjectID: project})
}

// declaredSubnet returns the declared subnet that the subnet of the Deed can be, with its CIDR; nil if it can be none.
func (r *Rules) declaredSubnet(n *samplecrdv1.Network, d *Deed) *samplecrdv1.SubnetSpec {
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		if r.isFrom(s.SubnetPool, d.PoolID, d.CIDR) {
			meaning.Choose(&s.SubnetSpec, d.CIDR)
			return &s.SubnetSpec
		}
		if s.CIDR == "" {
			continue // an import need not declare any
		}
		if declared, _ := meaning.CIDRAndGateway(&s.SubnetSpec); declared == d.CIDR {
			return &s.SubnetSpec
		}
	}
	return nil
}

// isFrom reports whether the CIDR is one that the spec requests from the subnet pool with that ID.
func (r *Rules) isFrom(spec *samplecrdv1.SubnetPoolSpec, pool, cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return spec != nil && err == nil && pool != "" && cmp.Or(spec.ID, r.Pools[spec.Name]) == pool && prefix.Bits() == int(spec.PrefixLength)
}

// surplus returns how many subnets the network has from the pool of the Deed and with its prefix length, besides those that the
// spec requests or declares by their CIDRs. It is negative if some are missing, and 0 if the Deed is about no subnet of a pool.
func (r *Rules) surplus(n *samplecrdv1.Network, d *Deed) (count int) {
	for _, cidr := range d.twins {
		if declared := r.declaredSubnet(n, &Deed{CIDR: cidr}); declared == nil {
			count++
		}
	}
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		if r.isFrom(s.SubnetPool, d.PoolID, d.CIDR) {
			count--
		}
	}
	return count
}

// isMoved reports whether the subnet, or its interface, has another gateway than declared.
func isMoved(declared *samplecrdv1.SubnetSpec, d *Deed) bool {
	_, gateway := meaning.CIDRAndGateway(declared)
	return sameAddress(gateway) != sameAddress(d.Gateway) || sameAddress(gateway) != sameAddress(d.address)
}

// mustBeReplaced reports whether the subnet has the declared CIDR, and other modes than declared: Neutron cannot change those of
// an IPv6 subnet. On an imported network, a mode that the spec leaves out may be any.
func mustBeReplaced(n *samplecrdv1.Network, declared *samplecrdv1.SubnetSpec, d *Deed) bool {
	modes := ptr.Deref(declared.IPv6, samplecrdv1.IPv6Spec{})
	differs := func(declared samplecrdv1.IPv6Mode, mode string) bool {
		return string(declared) != mode && (declared != "" || n.Spec.Import == nil)
	}
	return differs(modes.AddressMode, d.addressMode) || differs(modes.RAMode, d.raMode)
}

func sameAddress(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.String()
	}
	return text
}

// declaresRouter reports whether the spec declares the router of the Deed.
func (r *Rules) declaresRouter(n *samplecrdv1.Network, d *Deed) bool {
	switch spec := n.Spec.Router; {
	case spec == nil:
		return false
	case spec.Existing != nil:
		return !d.isOwn && d.Kind != CreatesRouter && d.Router == cmp.Or(spec.Existing.ID, r.Gates[spec.Existing.Name])
	default:
		external := cmp.Or(spec.ExternalNetwork.ID, r.Externals[spec.ExternalNetwork.Name])
		if zones := meaning.Zones(spec.AvailabilityZoneHints); zones != "" && zones != d.zones {
			return false // Neutron cannot change them
		}
		// A router without a gateway gets the declared one.
		return (d.isOwn || d.Kind == CreatesRouter) && (d.External == external || d.External == "")
	}
}
