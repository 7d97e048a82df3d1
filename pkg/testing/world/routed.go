// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// own returns a change of a spec to a router of the Network's own, in the external network of that
// name.
func own(external string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: external}}
	}
}

// existing returns a change of a spec to a user's router, by its ID.
func existing(router string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: router}}
	}
}

// existingByName is existing by the router's name.
func existingByName(router string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{Name: router}}
	}
}

// routerIn returns a change of a spec to a router of the Network's own in these availability zones.
func routerIn(zones ...samplecrdv1.AvailabilityZone) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		own(public)(s)
		s.Router.AvailabilityZoneHints = zones
	}
}

// inZones returns a change of a spec to these availability zones.
func inZones(zones ...samplecrdv1.AvailabilityZone) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) { s.AvailabilityZoneHints = zones }
}

// routes returns a change of a spec to a router of the Network's own with these routes, each as "10.99.0.0/16 via 10.0.0.9".
func routes(routes ...string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		if s.Router == nil {
			own(public)(s)
		}
		s.Router.Routes = []samplecrdv1.HostRoute{}
		for _, route := range routes {
			destination, nextHop, _ := strings.Cut(route, " via ")
			s.Router.Routes = append(s.Router.Routes, samplecrdv1.HostRoute{Destination: destination, NextHop: samplecrdv1.IPAddress(nextHop)})
		}
	}
}

// Routes through the subnets that the specs have.
const (
	toB  = "10.98.0.0/16 via 10.0.0.7"
	toA  = "10.99.0.0/16 via 10.0.0.7" // in another order than Neutron's
	to6  = "fd99::/64 via fd00:1::7"
	toB1 = "10.98.0.0/16 via 10.1.0.7"
)

// dualStack adds an IPv6 subnet.
func dualStack(s *samplecrdv1.NetworkSpec) {
	s.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{
		CIDR: "fd00:1::/64", Gateway: "fd00:1::1",
		IPv6: &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC},
	}}}
}

// withoutModes takes the modes of the IPv6 subnet away.
func withoutModes(s *samplecrdv1.NetworkSpec) { s.AdditionalSubnets[0].IPv6 = nil }

// twoIPv6 adds two IPv6 subnets, whose addresses share one port of the router.
func twoIPv6(s *samplecrdv1.NetworkSpec) {
	dualStack(s)
	s.AdditionalSubnets = append(s.AdditionalSubnets, samplecrdv1.AdditionalSubnet{Name: "v6b", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:2::/64", Gateway: "fd00:2::1"}})
}

// withFields sets the fields of the subnet and the network that can change in place.
func withFields(s *samplecrdv1.NetworkSpec) {
	s.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.54", "192.0.2.53"}
	s.AllocationPools = []samplecrdv1.AllocationPool{{Start: "10.0.0.200", End: "10.0.0.210"}, {Start: "10.0.0.100", End: "10.0.0.110"}}
	s.HostRoutes = []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "10.0.0.254"}}
	s.EnableDHCP = new(false)
	s.MTU = new(int32(1400))
	s.DNSDomain = "team.example.org."
	s.PortSecurityEnabled = new(false)
}

// tagged sets the tags.
func tagged(tags ...samplecrdv1.Tag) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) { s.Tags = tags }
}

func isRetained(s *samplecrdv1.NetworkSpec) { s.DeletionPolicy = samplecrdv1.DeletionRetain }

// with returns a spec of the CIDR 10.0.0.0/24 with these changes.
func with(changes ...func(*samplecrdv1.NetworkSpec)) *samplecrdv1.NetworkSpec {
	return specWith("10.0.0.0/24", "", changes...)
}

func specWith(cidr, gateway string, changes ...func(*samplecrdv1.NetworkSpec)) *samplecrdv1.NetworkSpec {
	s := spec(cidr, gateway)
	for _, change := range changes {
		change(s)
	}
	return s
}

// RoutedSpecs returns a spec for each kind of router, for a World with CreateRouting.
func (w *World) RoutedSpecs() map[string]*samplecrdv1.NetworkSpec {
	return map[string]*samplecrdv1.NetworkSpec{"no router": with(), "own router": w.bind(with(own(public))), "existing router": w.bind(with(existing(shared)))}
}

// HasRoutes reports whether the Network declares routes of its router at any time.
func (s Scenario) HasRoutes() bool { return slices.ContainsFunc(s.specs(), hasRoutes) }

func hasRoutes(spec *samplecrdv1.NetworkSpec) bool {
	return spec.Router != nil && spec.Router.Routes != nil
}

const (
	retainedWithRouter      = "delete of a retained one with a router"
	retainedAtExisting      = "delete of a retained one at an existing router"
	deletedWithRouter       = "delete with a router"
	deletedAtExisting       = "delete at an existing router"
	deletedDualStack        = "delete of dual stack"
	deletedWithRoutes       = "delete with routes"
	routesRemovedWithRouter = "router removed with its routes"
	routesToExisting        = "own router with routes replaced by an existing one"
	routesUndeclared        = "edit of the gateway under routes that are no longer declared"
	routesUndeclaredFirst   = "routes no longer declared, and then the router"
	retainedWithRoutes      = "delete of a retained one with routes"
	recreatedWithRouter     = "delete and re-create with a router"
	otherExisting           = "another existing router"
	existingRouterRemoved   = "existing router removed"
	adoptedInterface        = "adoption of an interface to the existing router"
	existingToOwn           = "existing router replaced by an own one"
)

var (
	allRetained = []string{retained, retainedWithRouter, retainedAtExisting, retainedWithRoutes}
	// forgetful are the Scenarios in which only the status says that the interface on a user's router
	// is the controller's, or a route that is in the way, or what the network is shared with.
	forgetful = []string{otherExisting, existingRouterRemoved, existingToOwn, deletedAtExisting,
		routesRemovedWithRouter, routesToExisting, routesUndeclared, routesUndeclaredFirst,
		otherProjects, noProjects, shareStays, otherCIDRAndProject, importUnshared, importUnrouted}
)

// Forgets reports whether the Network leaves a user's router, or comes to one. Then there are backups
// that do not know of its interface, which is a stranger's for their Network.
func (s Scenario) Forgets() bool {
	return s.Start != nil && s.Want != nil && !equality.Semantic.DeepEqual(existingOf(s.Start), existingOf(s.Want))
}

func existingOf(s *samplecrdv1.NetworkSpec) *samplecrdv1.NeutronReference {
	if s.Router == nil {
		return nil
	}
	return s.Router.Existing
}

// create returns the Scenario of the creation of a Network.
func create(name string, want *samplecrdv1.NetworkSpec) Scenario {
	return Scenario{name, nil, once(func(w *World) { w.Create(*want) }), want}
}

// edit returns the Scenario of a user who changes the spec.
func edit(name string, start, want *samplecrdv1.NetworkSpec) Scenario {
	return Scenario{name, start, edited(want), want}
}

// drift returns the Scenario of another client that changes something in Neutron.
func drift(name string, start *samplecrdv1.NetworkSpec, act func(w *World, router, subnet string)) Scenario {
	return Scenario{name, start, once(func(w *World) {
		status := w.Find().Status
		act(w, status.Router.ID, status.SubnetID)
	}), start}
}

// routed are the Scenarios with routers.
var routed = []Scenario{
	create("create with a router", with(own(public))),
	create("create at an existing router", with(existing(shared))),
	create("create at an existing router by name", with(existingByName(other))),
	create("create of dual stack with a router", with(own(public), dualStack, withFields, tagged("team-a", "team-b"))),
	create("create with two IPv6 subnets at an existing router", with(existing(shared), twoIPv6)),
	edit("router added", with(), with(own(public))),
	edit("router removed", with(own(public)), with()),
	edit(existingRouterRemoved, with(existing(shared)), with()),
	edit("own router replaced by an existing one", with(own(public)), with(existing(shared))),
	edit(existingToOwn, with(existing(shared)), with(own(public))),
	edit(otherExisting, with(existing(shared), dualStack), with(existingByName(other), dualStack)),
	edit("another external network", with(own(public)), with(own(public2))),
	edit("replacement while attached", with(own(public)), specWith("10.1.0.0/24", "", own(public))),
	edit("replacement with overlap while attached", with(existing(shared)), specWith("10.0.0.0/16", "10.0.3.1", existing(shared))),
	edit("replacement with another router", with(own(public)), specWith("10.0.0.0/16", "", existing(shared))),
	edit("edit of the gateway while attached", with(own(public)), specWith("10.0.0.0/24", "10.0.0.9", own(public))),
	edit("subnet added while attached", with(own(public)), with(own(public), twoIPv6)),
	edit("subnet removed while attached", with(existing(shared), dualStack), with(existing(shared))),
	edit("one of two IPv6 subnets removed while attached", with(own(public), twoIPv6), with(own(public), dualStack)),
	edit("IPv6 modes changed while attached", with(own(public), dualStack), with(own(public), dualStack, withoutModes)),
	edit("fields and tags set", with(own(public)), with(own(public), withFields, tagged("team-a"))),
	edit("fields removed and tags changed", with(own(public), withFields, tagged("team-a", "team-b")),
		with(own(public), tagged("team-b", "team-c"), func(s *samplecrdv1.NetworkSpec) { s.MTU, s.PortSecurityEnabled = new(int32(1450)), new(true) })),
	drift("interface taken off by others", with(own(public)), (*World).Detach),
	drift("interface on an existing router taken off by others", with(existing(shared)), (*World).Detach),
	drift("own router deleted by others", with(own(public)), func(w *World, router, subnet string) {
		w.Detach(router, subnet)
		w.DeleteInNeutron("routers", router)
	}),
	drift("gateway of the router cleared by others", with(own(public)), func(w *World, router, _ string) {
		w.UpdateRouter(router, map[string]any{"external_gateway_info": nil})
	}),
	drift("gateway of the router moved by others", with(own(public)), func(w *World, router, _ string) {
		w.UpdateRouter(router, map[string]any{"external_gateway_info": map[string]any{"network_id": w.ids[public2]}, "name": "theirs"})
	}),
	drift("gateway moved from under its interface", with(own(public)), func(w *World, _, subnet string) {
		w.updateInNeutron("subnets", "subnet", subnet, map[string]any{"gateway_ip": nil})
		w.SetGateway(subnet, "10.0.0.77")
	}),
	drift("gateway removed from under its interface", with(existing(shared)), func(w *World, _, subnet string) {
		w.updateInNeutron("subnets", "subnet", subnet, map[string]any{"gateway_ip": nil})
	}),
	drift("interface replaced by half of one", with(own(public)), func(w *World, router, subnet string) {
		w.Detach(router, subnet)
		w.AttachHalf(router, subnet)
	}),
	drift("fields and tags changed in Neutron", with(own(public), withFields, tagged("team-a")), func(w *World, _, subnet string) {
		w.SetGateway(subnet, "10.0.0.1")
		w.updateInNeutron("subnets", "subnet", subnet, map[string]any{"dns_nameservers": []string{"192.0.2.1"}, "host_routes": []any{}, "enable_dhcp": true})
		w.updateInNeutron("networks", "network", w.Find().Status.NetworkID, map[string]any{"mtu": 1300, "port_security_enabled": true, "dns_domain": ""})
		w.send(w.Client, "PUT", "networks/"+w.Find().Status.NetworkID+"/tags", map[string]any{"tags": []string{"theirs"}}, nil)
	}),
	{"network vanished with its interface", with(own(public)), once(func(w *World) {
		status := w.Find().Status
		w.Detach(status.Router.ID, status.SubnetID)
		w.DeleteInNeutron("networks", status.NetworkID)
	}), with(own(public))},
	{deletedWithRouter, with(own(public)), kubectlDelete, nil},
	{deletedAtExisting, with(existing(shared)), kubectlDelete, nil},
	{deletedDualStack, with(own(public), twoIPv6), kubectlDelete, nil},
	{retainedWithRouter, with(own(public), isRetained), kubectlDelete, nil},
	{retainedAtExisting, with(existing(shared), isRetained), kubectlDelete, nil},
	{recreatedWithRouter, with(own(public)), func(w *World) {
		if n := w.Find(); n == nil {
			w.Create(*specWith("10.1.0.0/24", "", own(public)))
		} else if n.Spec.CIDR != "10.1.0.0/24" {
			kubectlDelete(w)
		}
	}, specWith("10.1.0.0/24", "", own(public))},
	{"adoption of a network, a router and half an interface", nil, once(func(w *World) {
		w.Create(*with(own(public)))
		w.Edit(WithFinalizer)
		w.AttachHalf(w.CreateOwnedRouter(w.Find(), public), w.SubnetOf(w.CreateOwned(w.Find().UID, "10.0.0.0/24")))
	}), with(own(public))},
	{"adoption of two routers and no network", nil, once(func(w *World) {
		w.Create(*with(own(public)))
		w.Edit(WithFinalizer)
		w.CreateOwnedRouter(w.Find(), public)
		w.CreateOwnedRouter(w.Find(), public2)
	}), with(own(public))},
	{adoptedInterface, with(), once(func(w *World) {
		w.Attach(w.ids[shared], w.Find().Status.SubnetID)
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(existing(shared)) })
	}), with(existing(shared))},
	{"routers that come and go between two syncs", with(own(public)), once(func(w *World) {
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(existing(shared)) })
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with() })
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(own(public2)) })
	}), with(own(public2))},
	create("create in availability zones", with(inZones("nova", "az2"), routerIn("nova", "az2"))),
	edit("own router in another availability zone", with(inZones("nova"), routerIn("nova")), with(inZones("nova"), routerIn("az2"))),
	edit("own router in chosen availability zones", with(own(public)), with(routerIn("nova", "az2"))),
	edit("availability zones of the own router removed", with(routerIn("nova")), with(own(public))),
	create("create with routes", with(routes(toA, toB))),
	create("create of dual stack with routes", with(dualStack, routes(to6, toA))),
	edit("routes added", with(own(public)), with(routes(toA))),
	edit("routes changed", with(routes(toA)), with(routes(toB))),
	edit("all routes removed", with(routes(toA, toB)), with(routes())),
	edit("routes no longer declared", with(routes(toA)), with(own(public))),
	edit(routesRemovedWithRouter, with(routes(toA)), with()),
	edit(routesToExisting, with(dualStack, routes(toA, to6)), with(dualStack, existing(shared))),
	edit("another external network, with routes", with(routes(toA)), with(own(public2), routes(toA, toB))),
	edit("edit of the gateway under routes", with(dualStack, routes(toA, to6)), specWith("10.0.0.0/24", "10.0.0.9", dualStack, routes(toA, toB, to6))),
	edit(routesUndeclared, with(routes(toA)), specWith("10.0.0.0/24", "10.0.0.9", own(public))),
	edit("replacement under routes", with(routes(toA, toB)), specWith("10.1.0.0/24", "", routes(toB1))),
	edit("replacement with overlap under routes", with(routes(toA)), specWith("10.0.0.0/16", "", routes(toA, toB))),
	edit("subnet removed under its route", with(dualStack, routes(toA, to6)), with(routes(toA))),
	drift("routes changed by others", with(routes(toA)), func(w *World, router, _ string) { w.SetRoutes(router, toB) }),
	drift("routes of others left alone", with(own(public)), func(w *World, router, _ string) { w.SetRoutes(router, toB) }),
	drift("gateway moved from under its interface and routes", with(routes(toA)), func(w *World, router, subnet string) {
		w.updateInNeutron("subnets", "subnet", subnet, map[string]any{"gateway_ip": nil})
		w.SetGateway(subnet, "10.0.0.77")
		w.SetRoutes(router, toA, toB)
	}),
	{routesUndeclaredFirst, with(routes(toA)), func(w *World) {
		w.Edit(func(n *samplecrdv1.Network) {
			switch {
			case n.Spec.Router == nil:
			case n.Spec.Router.Routes != nil:
				n.Spec = *with(own(public))
			case n.Status.ObservedGeneration == n.Generation:
				n.Spec = *with()
			}
		})
	}, with()},
	{deletedWithRoutes, with(dualStack, routes(toA, to6)), kubectlDelete, nil},
	{retainedWithRoutes, with(routes(toA), isRetained), kubectlDelete, nil},
	{"network vanished from its availability zones", with(inZones("az2")), once(func(w *World) {
		w.DeleteInNeutron("networks", w.Find().Status.NetworkID)
	}), with(inZones("az2"))},
}
