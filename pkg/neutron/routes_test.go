// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// Routes through the subnets of the tests.
const (
	toA  Routes = "10.99.0.0/16 via 10.0.0.7"
	toA2 Routes = "10.98.0.0/16 via 10.0.0.8"
	to6  Routes = "fd99::/64 via fd00:1::7"
)

// withRoutes is ownOn with these routes.
func withRoutes(external string, routes Routes) func(*View) {
	return func(d *View) {
		ownOn(external)(d)
		d.Router.Routes, d.AllRoutes = &routes, true
	}
}

// remembering returns a change of a View whose status has these routes.
func remembering(routes Routes) func(*View) { return func(d *View) { d.Routes = routes } }

// leading returns the router with these routes.
func leading(r Router, routes Routes) Router {
	r.Routes = routes
	return r
}

// withTwin returns the network with another subnet like s.
func withTwin(observed *Observed, s Subnet) *Observed {
	twin := s
	twin.ID += "-twin"
	return observed.withSubnet(twin)
}

func TestThePlanOfRoutes(t *testing.T) {
	a, withV6 := ours("a", "10.0.0.0/24", "10.0.0.1"), with("v6", "fd00:1::/64")
	v6 := withName(testName+"/v6", ours("b", "fd00:1::/64", "fd00:1::"))
	wanting := func(changes ...func(*View)) View { return wants("10.0.0.0/24", "", changes...) }
	const (
		detached, attached = "subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router r"
		removed, set       = "routes " + string(toA) + " of router r removed", "router routes set to " + string(toA)
	)
	// having is the subnet on the router r.
	having := func(routes Routes, subnets ...Subnet) *Observed {
		n := connected(has(append([]Subnet{a}, subnets...)...), leading(router("r", "public"), routes), joins("r", "a", "10.0.0.1"))
		for _, s := range subnets {
			n = connected(n, joins("r", s.ID, s.Gateway.String()))
		}
		n.RoutersKnown = true
		return n
	}
	for _, test := range []struct {
		name string
		want View
		have *Observed
		done []string
		// refused is the step that Neutron refuses.
		refused string
		// known are the routes of the status in the end.
		known Routes
	}{
		{name: "they are set when all subnets are attached, and recorded with the router", want: wanting(withRoutes("public", toA+", "+to6), withV6), have: &Observed{}, known: toA + ", " + to6, done: []string{
			"network created", "subnet 10.0.0.0/24 created", "subnet fd00:1::/64 created", "status: router ", "router created",
			"subnet 10.0.0.0/24 attached to router new", "subnet fd00:1::/64 attached to router new", "router routes set to " + string(toA+", "+to6)}},
		{name: "they match", want: wanting(withRoutes("public", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: toA},
		{name: "they are recorded before they are set", want: wanting(withRoutes("public", toA), recorded("r", "r-a")), have: having(""), known: toA, done: []string{"status: router r", set}},
		{name: "they are not declared", want: wanting(ownOn("public"), recorded("r", "r-a")), have: having(toA)},
		{name: "they are no longer declared", want: wanting(ownOn("public"), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: toA},
		{name: "the router must have none", want: wanting(withRoutes("public", ""), recorded("r", "r-a"), remembering(toA)), have: having(toA), done: []string{"router routes removed"}},
		{name: "others have changed them", want: wanting(withRoutes("public", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA2), known: toA, done: []string{set}},
		{name: "another gateway", want: wants("10.0.0.0/24", "10.0.0.9", withRoutes("public", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: toA,
			done: []string{removed, detached, "gateway set to 10.0.0.9", attached, set}},
		{name: "another gateway, and only routes through another subnet", want: wants("10.0.0.0/24", "10.0.0.9", withV6, withRoutes("public", to6), recorded("r", "r-a", "r-b"), remembering(to6)), have: having(to6, v6), known: to6,
			done: []string{detached, "gateway set to 10.0.0.9", attached}},
		{name: "another gateway under a route that is no longer declared", want: wants("10.0.0.0/24", "10.0.0.9", ownOn("public"), recorded("r", "r-a"), remembering(toA)), have: having(toA),
			done: []string{removed, detached, "gateway set to 10.0.0.9", attached}},
		{name: "another gateway under a route of others", want: wants("10.0.0.0/24", "10.0.0.9", ownOn("public"), recorded("r", "r-a")), have: having(toA), refused: detached},
		{name: "another gateway under a route of others, which the spec does not allow", want: wants("10.0.0.0/24", "10.0.0.9", withRoutes("public", ""), recorded("r", "r-a")), have: having(toA),
			done: []string{removed, detached, "gateway set to 10.0.0.9", attached}},
		{name: "another gateway under both kinds", want: wants("10.0.0.0/24", "10.0.0.9", ownOn("public"), recorded("r", "r-a"), remembering(toA)), have: having(toA2 + ", " + toA), done: []string{removed}, refused: detached},
		{name: "another CIDR, with other next hops", want: wants("10.1.0.0/24", "", withRoutes("public", "10.99.0.0/16 via 10.1.0.7"), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: "10.99.0.0/16 via 10.1.0.7", done: []string{
			"subnet 10.1.0.0/24 created", "subnet 10.1.0.0/24 attached to router r", "status: router r", "router routes set to 10.99.0.0/16 via 10.1.0.7", detached, "subnet 10.0.0.0/24 deleted"}},
		{name: "another CIDR that overlaps", want: wants("10.0.0.0/16", "", withRoutes("public", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: toA, done: []string{
			removed, detached, "subnet 10.0.0.0/24 deleted", "subnet 10.0.0.0/16 created", "subnet 10.0.0.0/16 attached to router r", set}},
		{name: "a declared route through a subnet that goes", want: wants("10.1.0.0/24", "", withRoutes("public", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA), done: []string{
			"subnet 10.1.0.0/24 created", "subnet 10.1.0.0/24 attached to router r", removed, detached, "subnet 10.0.0.0/24 deleted"}, refused: set},
		{name: "a new route through a subnet that goes is not set before", want: wanting(withRoutes("public", toA+", "+to6), recorded("r", "r-a", "r-b"), remembering(toA+", "+to6)), have: having("", v6), done: []string{
			set, "subnet fd00:1::/64 detached from router r", "subnet fd00:1::/64 deleted"}, refused: "router routes set to " + string(toA+", "+to6)},
		{name: "other routes through a subnet that was made twice", want: wanting(withRoutes("public", toA2), recorded("r", "r-a"), remembering(toA)), have: withTwin(having(toA), a), known: toA2, done: []string{
			"status: router r", "router routes set to " + string(toA2), "subnet 10.0.0.0/24 deleted"}},
		{name: "another external network", want: wanting(withRoutes("public2", toA), recorded("r", "r-a"), remembering(toA)), have: having(toA), known: toA, done: []string{
			"router created", removed, detached, "subnet 10.0.0.0/24 attached to router new", set, "router r deleted"}},
		{name: "the router goes with its routes", want: wanting(recorded("r", "r-a"), remembering(toA)), have: having(toA), done: []string{removed, detached, "router r deleted"}},
		{name: "an existing router instead", want: wanting(on("x"), recorded("r", "r-a"), remembering(toA)), have: connected(having(toA), strangersRouter("x")), done: []string{
			removed, detached, "status: router x", "subnet 10.0.0.0/24 attached to router x", "router r deleted"}},
		{name: "routes of an existing router are never touched", want: wanting(ownOn("public"), recorded("x", "x-a"), remembering(toA)), have: connected(has(a), leading(strangersRouter("x"), toA), joins("x", "a", "10.0.0.1")),
			done: []string{"router created"}, refused: "subnet 10.0.0.0/24 detached from router x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if followToGoal(t, &test.want, test.have, test.done, test.refused) != nil {
				equal(t, test.known, test.want.Routes)
			}
		})
	}
}

func TestARemovalRemovesTheRoutesOfTheOwner(t *testing.T) {
	const outside = "10.97.0.0/16 via 198.18.0.7" // Neutron refuses it with the rest if somebody has cleared the gateway
	observed := connected(has(ours("a", "10.0.0.0/24", "10.0.0.1")), leading(router("r", "public"), outside+", "+toA2+", "+toA), joins("r", "a", "10.0.0.1"))
	for _, test := range []struct {
		identity Identity
		want     string
	}{
		{Identity{Owner: owner}, "subnet 10.0.0.0/24 detached from router r"},
		{Identity{Owner: owner, Routes: toA}, "routes " + string(toA) + " of router r removed"},
		{Identity{Owner: owner, Routes: outside}, "subnet 10.0.0.0/24 detached from router r"},
		{Identity{Owner: owner, AllRoutes: true}, "routes " + string(outside+", "+toA2+", "+toA) + " of router r removed"},
	} {
		step := NextRemoval(test.identity, observed, false)
		equal(t, test.want, step.String())
		if remove, ok := step.(RemoveRoutes); ok {
			equal(t, true, remove.Detach.IsRemoval)
		}
	}
	twice := *observed
	twice.Duplicates = []*Network{{ID: "m"}} // it can be attached to the router, which stays
	equal(t, "routes "+string(toA2+", "+toA)+" of router r removed", NextRemoval(Identity{Owner: owner, AllRoutes: true}, &twice, false).String())
	equal(t, "ownership mark of subnet 10.0.0.0/24 removed", NextRemoval(Identity{Owner: owner, AllRoutes: true}, observed, true).String())
}

func TestNextHopsThatNeutronIsCertainToRefuse(t *testing.T) {
	now := connected(has(ours("a", "10.0.0.0/24", "10.0.0.1")), router("r", "public"), joins("r", "a", "10.0.0.1"))
	for _, test := range []struct {
		hop       string
		then      *Observed
		isRefused bool
	}{
		{"10.0.0.7", now, false},
		{"10.0.0.1", now, true},
		{"10.0.0.7", now.withoutInterface("r", "a"), true},
		{"10.0.0.7", now.withoutInterface("r", "a").withoutSubnet("a"), true},
		{"198.18.0.7", now, false}, // it can be in the external network
	} {
		err := SetRoutes{Router: "r", Routes: Routes("10.99.0.0/16 via " + test.hop)}.refusal(now, test.then)
		equal(t, test.isRefused, err != nil)
		equal(t, test.isRefused, ReasonOf(err) == Invalid)
	}
}

func TestWhatAChangeOfRoutesInterrupts(t *testing.T) {
	remove := RemoveRoutes{Routes: toA, Detach: DetachSubnet{Router: "r"}}
	for _, test := range []struct {
		step Step
		then []Step
		want string
	}{
		{SetRoutes{Routes: toA}, nil, ""},
		{SetRoutes{Before: toA, Routes: toA + ", " + to6}, nil, ""},
		{SetRoutes{Before: toA, Routes: to6}, nil, "no traffic to " + string(toA) + " any more"},
		{remove, nil, "no traffic over these routes any more"},
		{remove, []Step{SetRoutes{Router: "r", Routes: to6}}, "no traffic over these routes any more"},
		{remove, []Step{SetRoutes{Router: "r", Routes: toA}}, "no traffic over these routes until they are set again"},
	} {
		equal(t, test.want, interruption(test.step, test.then))
	}
}

// A machine learns the MTU and the gateway with its lease.
func TestWhatMachinesDoNotKnowYetInterrupts(t *testing.T) {
	mtu := func(before, after int) Step {
		desired, observed := DesiredNetwork{MTU: after}, Network{MTU: before}
		return UpdateNetwork{slices.DeleteFunc(changes(networkTable, &desired, &observed), func(c Change) bool { return c.Role != roleMTU })}
	}
	detach := DetachSubnet{Router: "r", Subnet: "s"}
	forGateway := detach
	forGateway.Changes = []Change{{Name: "gateway_ip", Role: roleGateway, Value: addr("10.0.0.9")}}
	again := []Step{AttachSubnet{Router: "r", Subnet: "s"}}
	for _, test := range []struct {
		step Step
		then []Step
		want string
	}{
		{mtu(1500, 1400), nil, "packets of a machine of more than 1400 bytes until it uses the new MTU, for example after a new DHCP lease"},
		{mtu(1400, 1500), nil, ""},
		{UpdateNetwork{[]Change{{Name: "name", Before: "a", Value: "b"}}}, nil, ""},
		{detach, again, "no traffic through a router until the subnet is attached again"},
		{forGateway, again, "no traffic through a router until the subnet is attached again, then none of a machine until it uses the new gateway, for example after a new DHCP lease"},
		{detach, nil, "no traffic from this subnet through the router any more"},
	} {
		equal(t, test.want, interruption(test.step, test.then))
	}
}

// Others may have added routes since the last list, or taken over the router.
func TestOnlyTheOwnersRoutesAreRemoved(t *testing.T) {
	c := newRoutedCloud(t)
	network := post(t, c.others, "network", object{"name": "n"})
	subnet := post(t, c.others, "subnet", object{"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4})
	_, err := c.others.AttachSubnet(t.Context(), c.gate, subnet)
	noError(t, err)
	put(t, c.others, "router", c.gate, object{"routes": toA2 + ", " + toA})
	remove := func(router string) error {
		_, err := c.performOnRouter(t.Context(), Identity{Owner: owner}, &Observed{}, RemoveRoutes{Routes: toA + ", " + to6, Detach: DetachSubnet{Router: router, Subnet: subnet}})
		return err
	}
	equal(t, Stale, ReasonOf(remove(c.gate)))
	put(t, c.others, "router", c.gate, object{"description": owner.Mark()})
	noError(t, remove(c.gate))
	router, err := c.others.getRouterDetails(t.Context(), c.gate)
	noError(t, err)
	equal(t, toA2, router.Routes)
	equal(t, NotFound, ReasonOf(remove("00000000-0000-4000-8000-000000000001")))
}

func TestTheErrorOfARouteNamesTheNextHop(t *testing.T) {
	now := connected(has(ours("a", "10.0.0.0/24", "10.0.0.1")), router("r", "public"), joins("r", "a", "10.0.0.1"))
	s := SetRoutes{Router: "r", Routes: toA + ", 10.97.0.0/16 via 10.66.0.7"}
	got := s.explain(&Error{Op: "update router", Reason: Invalid, Message: "Invalid format for routes"}, now)
	wantError(t, Error{Op: "spec.router.routes", Reason: Invalid, Message: "no subnet of this Network has the next hop 10.66.0.7: Invalid format for routes"}, got)
	s.Routes = toA
	got = s.explain(&Error{Op: "update router", Reason: Invalid, Message: "too many"}, now)
	wantError(t, Error{Op: "spec.router.routes", Reason: Invalid, Message: "too many"}, got)
	equal(t, InUse, ReasonOf(s.explain(&Error{Reason: InUse}, now)))
}

func TestTheRoutesOfTheStatus(t *testing.T) {
	on := func(routers ...any) *Observed {
		return connected(has(ours("a", "10.0.0.0/24", "10.0.0.1")), routers...)
	}
	for _, test := range []struct {
		name string
		view View
		have *Observed
		want Routes
	}{
		{"declared ones, before they are set", wants("10.0.0.0/24", "", withRoutes("public", toA)), on(), toA},
		{"an earlier one that is there", wants("10.0.0.0/24", "", withRoutes("public", toA), remembering(toA2)), on(leading(router("r", "public"), toA2)), toA2 + ", " + toA},
		{"an earlier one that is gone", wants("10.0.0.0/24", "", withRoutes("public", toA), remembering(toA2)), on(router("r", "public")), toA},
		{"none is declared, and some were", wants("10.0.0.0/24", "", ownOn("public"), remembering(toA)), on(leading(router("r", "public"), toA2+", "+toA)), toA},
		{"the router goes", wants("10.0.0.0/24", "", remembering(toA)), on(leading(router("r", "public"), toA)), toA},
		{"a router that is not the owner's", wants("10.0.0.0/24", "", remembering(toA)), on(leading(strangersRouter("x"), toA)), ""},
		{"the routers are not known", wants("10.0.0.0/24", "", remembering(toA)), has(ours("a", "10.0.0.0/24", "10.0.0.1")), toA},
		{"only observed", wants("10.0.0.0/24", "", withRoutes("public", toA), func(d *View) { d.ReadOnly = true }), on(leading(router("r", "public"), toA)), ""},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, test.want, at(test.view, test.have).KnownRoutes()) })
	}
}

// declareRoutes returns a change of a spec to routes by these next hops; nil: none is declared.
func declareRoutes(hops []string) edit {
	return func(s *samplecrdv1.NetworkSpec) {
		s.Router.Routes = nil
		if hops != nil {
			s.Router.Routes = []samplecrdv1.HostRoute{}
		}
		for _, hop := range hops {
			destination := "10.99.0.0/16"
			if netip.MustParseAddr(hop).Is6() {
				destination = "fd99::/64"
			}
			s.Router.Routes = append(s.Router.Routes, samplecrdv1.HostRoute{Destination: destination, NextHop: samplecrdv1.IPAddress(hop)})
		}
	}
}

func TestRoutesInNeutron(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")), declareRoutes([]string{"10.0.0.7"}))
	routes := func() []string { return c.own()[0].Routes }
	r.synced(t)
	equal(t, []string{string(toA)}, routes())
	equal(t, []samplecrdv1.RouteStatus{{Destination: "10.99.0.0/16", NextHop: "10.0.0.7"}}, r.Status.Router.Routes)
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))

	id := c.own()[0].ID
	put(t, c.others, "router", id, object{"routes": toA2})
	noError(t, c.Observer().Relist(t.Context()))
	equal(t, []string{"GET routers", "PUT routers"}, c.calls(func() { r.synced(t) }))
	equal(t, []string{string(toA)}, routes())

	r.Spec.Gateway = "10.0.0.9"
	var interrupts []string
	for _, step := range r.preview(t) {
		equal(t, "", step.Blocked)
		interrupts = append(interrupts, step.Text+": "+step.Interrupts)
	}
	equal(t, []string{
		"routes 10.99.0.0/16 via 10.0.0.7 of router " + id + " removed: no traffic over these routes until they are set again",
		"subnet 10.0.0.0/24 detached from router " + id + ": no traffic through a router until the subnet is attached again, then none of a machine until it uses the new gateway, for example after a new DHCP lease",
		"gateway 10.0.0.1 → 10.0.0.9: ", "subnet 10.0.0.0/24 attached to router " + id + ": ",
		"router routes none → 10.99.0.0/16 via 10.0.0.7: ",
	}, interrupts)
	put(t, c.others, "router", id, object{"routes": toA2 + ", " + toA}) // no list shows that
	r.synced(t)
	equal(t, []string{string(toA)}, routes())

	declareRoutes([]string{"10.0.0.7", "10.66.0.7"})(&r.Spec)
	err := r.err(t)
	wantError(t, Error{Op: "spec.router.routes", Reason: Invalid, Message: "no subnet of this Network has the next hop 10.66.0.7: Invalid format for routes: " +
		"[{'destination': '10.99.0.0/16', 'nexthop': '10.0.0.7'}, {'destination': '10.99.0.0/16', 'nexthop': '10.66.0.7'}], the nexthop is not connected with router"}, err)
	equal(t, []string{string(toA)}, routes())

	declareRoutes(nil)(&r.Spec)
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	put(t, c.others, "router", id, object{"routes": toA2 + ", " + toA}) // no list shows that
	r.Spec.Router = nil
	equal(t, InUse, ReasonOf(r.err(t)))
	equal(t, []string{string(toA2), string(toA)}, routes())
	put(t, c.others, "router", id, object{"routes": toA})
	r.synced(t)
	equal(t, 0, len(c.own()))
}

// Without the routes in the status, the controller does not know that it has set them.
func TestTheAnswerThatSetsRoutesIsLost(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	declareRoutes([]string{"10.0.0.7"})(&r.Spec)
	c.SetFault(func(request *http.Request) *embedded.Fault {
		if request.Method == http.MethodPut {
			return &embedded.Fault{After: true, Drop: true}
		}
		return nil
	})
	equal(t, Unavailable, ReasonOf(r.err(t)))
	c.SetFault(nil)
	equal(t, []string{string(toA)}, c.own()[0].Routes)
	r.Spec.Router = nil
	r.synced(t)
	equal(t, 0, len(c.own()))
}

// The routes stay if the subnet would be detached in vain: for a default gateway that the client may not restore.
func TestRoutesStayForADefaultThatCannotBeRestored(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")), declareRoutes([]string{"10.0.0.7"}))
	r.synced(t)
	id := c.own()[0].ID
	put(t, c.others, "router", id, object{"routes": []object{}})
	c.moveGateway(t, id, r.Status.SubnetID, "10.0.0.9")
	put(t, c.others, "router", id, object{"routes": toA})
	noError(t, c.Observer().Relist(t.Context()))
	c.SetFault(func(request *http.Request) *embedded.Fault {
		if request.Method == http.MethodPut && strings.HasPrefix(request.URL.Path, subnetsPath) {
			return &embedded.Fault{Status: http.StatusForbidden, Type: "PolicyNotAuthorized"}
		}
		return nil
	})
	r.Spec.DNSDomain = "example.org."
	n, _, err := r.sync(t)
	equal(t, Forbidden, ReasonOf(err))
	equal(t, true, strings.HasPrefix(err.Error(), "restore what the spec leaves out: gateway set to 10.0.0.1: "))
	equal(t, "example.org.", n.DNSDomain)
	equal(t, []string{string(toA)}, c.own()[0].Routes)
	equal(t, id, c.attached(t, n)["10.0.0.0/24"])
}
