// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"
	"slices"
)

// nextForRoutes returns the step that gives the router of the Network's own its declared routes, nil if it has them, or if the
// spec declares none, or if a subnet is missing whose subnet pool is not known. All other desired subnets are attached. A port on a
// subnet that is replaced does not hold up the routes, so they are set before that subnet goes. But a route through it is not set any more.
func (v *View) nextForRoutes(replaced []Subnet) Step {
	own := v.ownRouter()
	isMissing := func(s DesiredSubnet) bool { return s.isUnresolved() && v.findSubnet(&s) == nil }
	if own == nil || v.Router.Routes == nil || !v.Router.isResolved() || slices.ContainsFunc(v.Subnets, isMissing) {
		return nil
	}
	routes := v.Router.Routes.that(func(route Routes) bool {
		goes := slices.ContainsFunc(replaced, func(s Subnet) bool { return s.CIDR.Contains(route.nextHop()) })
		return !goes || own.Routes.has(route)
	})
	if routes == own.Routes {
		return nil
	}
	return SetRoutes{Router: own.ID, Routes: routes, Before: own.Routes}
}

// freeing returns the step, or the one before it that removes the routes in its way: those through the subnet that it detaches
// from a router with the owner's mark. step may be nil. Routes that the owner has not declared stay, and prevent the step.
func (i Identity) freeing(observed *Observed, step Step) Step {
	s, isDetachment := step.(DetachSubnet)
	if !isDetachment {
		return step
	}
	router := observed.router(s.Router)
	if router == nil || !router.isOwnedBy(i.Owner) {
		return step
	}
	routes := router.Routes.that(i.mayRemove)
	through := routes.through(s.CIDR)
	switch {
	case through == "":
		return step
	case s.IsRemoval && len(observed.Duplicates) == 0: // the router goes too, and Neutron can refuse the rest
		return RemoveRoutes{Routes: routes, Detach: s}
	}
	return RemoveRoutes{Routes: through, Detach: s}
}

// mayRemove reports whether the owner may remove the route from a router of its own.
func (i Identity) mayRemove(route Routes) bool { return i.AllRoutes || i.Routes.has(route) }

// KnownRoutes returns the routes for the status: the declared ones, and those in the status that a router with the owner's mark
// still has. Nothing else tells later that they are the Network's.
func (v *View) KnownRoutes() Routes {
	routes := v.Routes
	if v.Observed.RoutersKnown {
		routes = routes.that(func(route Routes) bool {
			return slices.ContainsFunc(v.Observed.Routers, func(r Router) bool { return r.isOwnedBy(v.Owner) && r.Routes.has(route) })
		})
	}
	if v.Router != nil && v.Router.Routes != nil && !v.ReadOnly {
		routes = routes.and(*v.Router.Routes)
	}
	return routes
}

// opRoutes is the Op of the errors about next hops.
const opRoutes = "spec.router.routes"

// refusal returns the error for a next hop that Neutron is certain to refuse: one in a subnet of the network that is not attached
// to the router then, or an address of the router. The subnets of the external network are not known. before is what is observed
// now, expected what is observed when the routes are set.
func (s SetRoutes) refusal(before, expected *Observed) error {
	for _, hop := range s.Routes.hops() {
		isIn := func(s Subnet) bool { return s.CIDR.Contains(hop) }
		isKnown := slices.ContainsFunc(before.Subnets, isIn) || slices.ContainsFunc(expected.Subnets, isIn)
		isOwn := slices.ContainsFunc(expected.Interfaces, func(i Interface) bool { return i.RouterID == s.Router && i.Address == hop })
		switch {
		case isOwn:
			return &Error{Op: opRoutes, Reason: Invalid, Message: fmt.Sprintf("the next hop %s is the address of the router itself", hop)}
		case isKnown && !s.reaches(expected, hop):
			return &Error{Op: opRoutes, Reason: Invalid, Message: fmt.Sprintf("the router is not connected to a subnet with the next hop %s", hop)}
		}
	}
	return nil
}

// reaches reports whether a subnet of the network with that address is attached to the router.
func (s SetRoutes) reaches(observed *Observed, hop netip.Addr) bool {
	return slices.ContainsFunc(observed.Interfaces, func(i Interface) bool {
		subnet := observed.subnet(i.SubnetID)
		return i.RouterID == s.Router && subnet != nil && subnet.CIDR.Contains(hop)
	})
}

// explain returns the error with the next hops that can be why Neutron refuses the routes. Neutron's words have all routes, and do
// not say which one is wrong.
func (s SetRoutes) explain(err error, observed *Observed) error {
	if ReasonOf(err) != Invalid {
		return err
	}
	refusal := errorIn(err)
	refusal.Op = opRoutes
	var outside []string
	for _, hop := range s.Routes.hops() {
		if !s.reaches(observed, hop) {
			outside = append(outside, hop.String())
		}
	}
	if len(outside) > 0 {
		refusal.Message = fmt.Sprintf("no subnet of this Network has the next hop %s: %s", shorten(outside), refusal.Message)
	}
	return &refusal
}
