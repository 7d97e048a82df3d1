// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// holdsAddress reports whether an interface on the subnet has the address.
func holdsAddress(n *Observed, subnet string, address netip.Addr) bool {
	return slices.ContainsFunc(n.Interfaces, func(i Interface) bool { return i.SubnetID == subnet && i.Address == address })
}

// simulateRouter is simulate for the steps of routers and interfaces. A port whose ID begins with
// "half" only looks like an interface.
func simulateRouter(t *testing.T, have *Observed, step Step) (*Observed, bool) {
	t.Helper()
	switch step := step.(type) {
	case CreateRouter:
		id := "new"
		for have.router(id) != nil {
			id += "er"
		}
		r := Router{ID: id, Name: step.Router.Name, Description: step.Router.Mark, ZoneHints: step.Router.ZoneHints}
		r.Gateway.NetworkID = step.Router.ExternalNetwork
		return have.withRouter(r), true
	case UpdateRouter:
		r := have.router(step.ID)
		if r == nil {
			t.Fatalf("%+v: there is no such router", step)
		}
		return have.withRouter(changed(*r, update(step.Changes))), true
	case DeleteRouter:
		if have.router(step.ID) == nil {
			t.Fatalf("%+v: there is no such router", step)
		}
		isUsed := slices.ContainsFunc(have.Interfaces, func(i Interface) bool { return i.RouterID == step.ID })
		return have.withoutRouter(step.ID), !isUsed
	case DetachSubnet:
		isAttached := slices.ContainsFunc(have.Interfaces, func(i Interface) bool { return i.RouterID == step.Router && i.SubnetID == step.Subnet })
		if !isAttached {
			t.Errorf("%+v: it is not attached", step)
		}
		if r := have.router(step.Router); r != nil && r.Routes.through(step.CIDR) != "" {
			return have, false
		}
		return have.withoutInterface(step.Router, step.Subnet), true
	case SetRoutes:
		isRefused := slices.ContainsFunc(step.Routes.hops(), func(hop netip.Addr) bool { return !step.reaches(have, hop) })
		return have.withRoutes(step.Router, step.Routes), !isRefused
	case RemoveRoutes:
		return have.withRoutes(step.Detach.Router, have.router(step.Detach.Router).Routes.without(step.Routes)), true
	case AttachSubnet:
		s := have.subnet(step.Subnet)
		if s == nil || !s.Gateway.IsValid() {
			t.Fatalf("%+v: there is no such subnet, or it has no gateway", step)
		}
		others := have.withoutInterface(step.Router, step.Subnet)
		if holdsAddress(others, s.ID, s.Gateway) {
			return have, false
		}
		port := step.Port
		if port == "" || strings.HasPrefix(port, "half") {
			port = "port of " + s.ID
		}
		return others.withInterface(Interface{PortID: port, RouterID: step.Router, SubnetID: s.ID, Address: s.Gateway, Confirmed: true}), true
	}
	t.Fatalf("no such step: %T", step)
	return nil, false
}

// writeStatus takes over into the desired state what the controller writes into the status.
func writeStatus(want *View, have *Observed) {
	ports := map[string]string{}
	for _, s := range at(*want, have).Current() {
		ports[s.ID] = s.RouterPortID
	}
	want.RouterID, want.RouterRecorded = at(*want, have).CurrentRouter()
	want.Routes = at(*want, have).KnownRoutes()
	want.PortIDs = ports
}

// These are routers of the desired state: none, one of the Network's own, and one that exists.

func noRouter(d *View) { d.Router, d.AllRoutes = nil, false }

func ownOn(external string) func(*View) {
	return func(d *View) {
		d.AllRoutes = false
		d.Router = &DesiredRouter{Name: testName, Mark: owner.Mark(), ExternalNetwork: external}
	}
}

// ownIn is ownOn in these availability zones.
func ownIn(external string, zones ...string) func(*View) {
	return func(d *View) {
		ownOn(external)(d)
		d.Router.ZoneHints = NewTags(zones...)
	}
}

func on(router string) func(*View) {
	return func(d *View) {
		d.AllRoutes = false
		d.Router = &DesiredRouter{Name: testName, Mark: owner.Mark(), Existing: router}
		d.Declared = router
	}
}

// recorded sets the router in the status, and the ports that joins returns.
func recorded(router string, ports ...string) func(*View) {
	return func(d *View) {
		d.RouterRecorded, d.RouterID, d.PortIDs = true, router, map[string]string{}
		for _, port := range ports {
			_, subnet, _ := strings.Cut(port, "-")
			d.PortIDs[subnet] = port
		}
	}
}

// connected returns the network with these routers and interfaces.
func connected(n *Observed, all ...any) *Observed {
	n.RoutersKnown = true
	for _, one := range all {
		switch one := one.(type) {
		case Router:
			n = n.withRouter(one)
		case Interface:
			n.Interfaces = append(n.Interfaces, one)
			slices.SortFunc(n.Interfaces, compareInterfaces)
		}
	}
	return n
}

// router returns a router of the owner's with its gateway in that external network, or none for "".
func router(id, external string) Router {
	return Router{ID: id, Name: testName, Description: owner.Mark(), Gateway: ExternalGateway{NetworkID: external}}
}

// inZones returns the router with these availability zones.
func inZones(r Router, zones ...string) Router {
	r.ZoneHints = NewTags(zones...)
	return r
}

func strangersRouter(id string) Router {
	return Router{ID: id, Name: "a stranger's", Gateway: ExternalGateway{NetworkID: "public"}}
}

// joins is an interface that is confirmed.
func joins(router, subnet, address string) Interface {
	return Interface{PortID: router + "-" + subnet, RouterID: router, SubnetID: subnet, Address: addr(address), Confirmed: true}
}

func unconfirmed(i Interface) Interface {
	i.Confirmed = false
	return i
}

// followToGoal is follow, and checks what was done, and the goal. It returns nil if Neutron was to refuse the step that refused
// describes.
func followToGoal(t *testing.T, want *View, have *Observed, done []string, refused string) (now *Observed) {
	t.Helper()
	got, now, step := follow(t, want, have)
	if !slices.Equal(done, got) {
		t.Errorf("want %q\ngot  %q", done, got)
	}
	if refused != "" {
		equal(t, refused, fmt.Sprint(step))
		return nil
	}
	if step != nil {
		t.Fatalf("Neutron refuses %+v", step)
	}
	writeStatus(want, now)
	checkRouterGoal(t, *want, now)
	return now
}

// follow takes the steps of the plan until there are no more, or Neutron refuses one, and returns what
// was done, the status that was written before a step included.
func follow(t *testing.T, want *View, have *Observed) (done []string, now *Observed, refused Step) {
	t.Helper()
	for range 20 + 8*len(have.Subnets) + 2*len(have.Routers) {
		step := at(*want, have).Next()
		if step == nil {
			return done, have, nil
		}
		checkRouterStep(t, *want, have, step)
		if want.Identity.isUnrecorded(step) {
			writeStatus(want, have)
			done = append(done, "status: router "+want.RouterID)
			if want.Identity.isUnrecorded(step) {
				t.Fatalf("the status does not allow the step %+v: %+v", step, want)
			}
			continue
		}
		next, taken := simulate(t, have, step)
		if !taken {
			return done, have, step
		}
		done = append(done, step.String())
		if have.Exists() { // a new network is not known to the next lines
			checkOthers(t, *want, have, next, step)
		}
		checkRouterIsKept(t, *want, next)
		have = next
	}
	t.Fatalf("the plan does not end: %s", strings.Join(done, "\n"))
	return nil, nil, nil
}

// checkRouterStep fails the test if the step touches what is not the owner's.
func checkRouterStep(t *testing.T, want View, have *Observed, step Step) {
	t.Helper()
	isOwn := func(id string) bool { r := have.router(id); return r != nil && r.isOwnedBy(owner) }
	switch step := step.(type) {
	case DetachSubnet:
		if !at(want, have).manages(Interface{RouterID: step.Router, SubnetID: step.Subnet}) {
			t.Errorf("%+v removes an interface of another client", step)
		}
	case AttachSubnet:
		if !at(want, have).isOurs(have.subnet(step.Subnet)) || !isOwn(step.Router) && step.Router != want.Router.Existing {
			t.Errorf("%+v attaches another client's subnet, or to a router that is not named", step)
		}
	case UpdateRouter:
		if !isOwn(step.ID) {
			t.Errorf("%+v changes a router of another client", step)
		}
	case DeleteRouter:
		if !isOwn(step.ID) {
			t.Errorf("%+v deletes a router of another client", step)
		}
	case SetRoutes:
		if !isOwn(step.Router) || want.Router.Routes == nil || step.Routes.without(*want.Router.Routes) != "" {
			t.Errorf("%+v sets routes that the spec does not declare", step)
		}
	case RemoveRoutes:
		isKnown := want.AllRoutes || step.Routes.without(want.Routes) == ""
		if !isOwn(step.Detach.Router) || !isKnown || step.Routes.through(step.Detach.CIDR) != step.Routes {
			t.Errorf("%+v removes routes that are not the owner's, or not in the way", step)
		}
	}
}

// checkOthers fails the test if the step has changed other clients' routers or interfaces, or has made
// an interface that is not found again.
func checkOthers(t *testing.T, want View, have, next *Observed, step Step) {
	t.Helper()
	others := func(n *Observed) (all []any) {
		for _, r := range n.Routers {
			if !r.isOwnedBy(owner) {
				all = append(all, r)
			}
		}
		for _, i := range n.Interfaces {
			if !at(want, have).manages(i) && n.subnet(i.SubnetID) != nil {
				all = append(all, i)
			}
		}
		return all
	}
	if before, after := others(have), others(next); !slices.Equal(before, after) {
		t.Errorf("%+v changes what other clients have from %+v to %+v", step, before, after)
	}
	if s, ok := step.(AttachSubnet); ok && !at(want, next).manages(Interface{RouterID: s.Router, SubnetID: s.Subnet}) {
		t.Errorf("%+v makes an interface that is not ours", step)
	}
}

// checkRouterIsKept fails the test if a status that is written now would lose an interface.
func checkRouterIsKept(t *testing.T, want View, have *Observed) {
	t.Helper()
	before := want
	writeStatus(&want, have)
	want.Router = nil // a user may remove it from the spec at the same time
	for _, i := range have.Interfaces {
		if at(before, have).manages(i) && !at(want, have).manages(i) && i.RouterID == before.RouterID {
			t.Errorf("the status names router %q, and %+v is lost", want.RouterID, i)
		}
	}
}

// checkRouterGoal fails the test unless the network matches the desired one.
func checkRouterGoal(t *testing.T, want View, have *Observed) {
	t.Helper()
	target, own := "", 0
	for _, r := range have.Routers {
		if r.isOwnedBy(owner) && (want.Router == nil || r.ID != want.Router.Existing) {
			own++
			target = r.ID
			equal(t, want.Router.ExternalNetwork, r.Gateway.NetworkID)
			equal(t, testName+owner.Mark(), r.Name+r.Description)
			if want.Router.Routes != nil {
				equal(t, *want.Router.Routes, r.Routes)
			}
		}
	}
	wanted := 0
	if want.Router != nil && want.Router.Existing == "" {
		wanted = 1
	}
	equal(t, wanted, own)
	if want.Router != nil && want.Router.Existing != "" {
		target = want.Router.Existing
	}
	var attached []string
	for _, i := range have.Interfaces {
		if !at(want, have).manages(i) {
			continue
		}
		equal(t, target, i.RouterID)
		equal(t, have.subnet(i.SubnetID).Gateway, i.Address)
		equal(t, true, want.isConfirmed(i) && !strings.HasPrefix(i.PortID, "half"))
		attached = append(attached, i.SubnetID)
	}
	var subnets []string
	for _, s := range at(want, have).Current() {
		subnets = append(subnets, s.ID)
		equal(t, target != "", s.RouterPortID != "")
	}
	equal(t, len(want.Subnets), len(subnets))
	if target == "" {
		subnets = nil
	}
	equal(t, sets.New(subnets...), sets.New(attached...))
	id, exists := at(want, have).CurrentRouter()
	equal(t, []any{target, target != ""}, []any{id, exists})
}

// A late effect of a request to the former router could not be found if the status did not name it.
func TestTheStatusNamesTheFormerRouterUntilTheNameIsResolved(t *testing.T) {
	for _, test := range []struct {
		recorded, resolved, want string
	}{{"x", "", "x"}, {"", "", ""}, {"x", "y", "y"}} {
		want := wants("10.0.0.0/24", "", on(test.resolved), recorded(test.recorded))
		id, exists := at(want, has(ours("a", "10.0.0.0/24", "10.0.0.1"))).CurrentRouter()
		equal(t, []any{test.want, true}, []any{id, exists})
	}
}

func TestThePlanOfRouters(t *testing.T) {
	a := ours("a", "10.0.0.0/24", "10.0.0.1")
	v6 := withName(testName+"/v6", ours("b", "fd00:1::/64", "fd00:1::"))
	withV6, withSLAAC := with("v6", "fd00:1::/64"), with("v6", "fd00:1::/64", func(s *DesiredSubnet) { s.AddressMode, s.RAMode = "slaac", "slaac" })
	wanting := func(changes ...func(*View)) View { return wants("10.0.0.0/24", "", changes...) }
	for _, test := range []struct {
		name string
		want View
		have *Observed
		done []string
		// refused is the step that Neutron refuses, because of other clients.
		refused string
	}{
		{name: "nothing to do without a router", want: wanting(), have: has(a)},
		{name: "everything is created, with a router of its own", want: wanting(ownOn("public"), withV6), have: &Observed{}, done: []string{
			"network created", "subnet 10.0.0.0/24 created", "subnet fd00:1::/64 created", "status: router ", "router created",
			"subnet 10.0.0.0/24 attached to router new", "subnet fd00:1::/64 attached to router new"}},
		{name: "an own router matches", want: wanting(ownOn("public"), recorded("r", "r-a")), have: connected(has(a), router("r", "public"), unconfirmed(joins("r", "a", "10.0.0.1")))},
		{name: "an existing router matches", want: wanting(on("x"), recorded("x", "x-a")), have: connected(has(a), strangersRouter("x"), unconfirmed(joins("x", "a", "10.0.0.1")))},
		{name: "the request that creates the router ended before its gateway", want: wanting(ownOn("public"), recorded("")),
			have: connected(has(a), router("r", "")), done: []string{
				"router gateway set to external network public", "subnet 10.0.0.0/24 attached to router r"}},
		{name: "another client removed the gateway, the name and added text to the mark", want: wanting(ownOn("public"), recorded("r", "r-a")),
			have: connected(has(a), Router{ID: "r", Name: "x", Description: "x " + owner.Mark()}, joins("r", "a", "10.0.0.1")), done: []string{
				"router name set to default/web, ownership mark of the router restored, router gateway set to external network public"}},
		{name: "another external network", want: wanting(ownOn("public2"), withV6, recorded("r")),
			have: connected(has(a, v6), router("r", "public"), joins("r", "a", "10.0.0.1"), joins("r", "b", "fd00:1::")), done: []string{
				"router created", "subnet 10.0.0.0/24 detached from router r", "subnet fd00:1::/64 detached from router r",
				"subnet 10.0.0.0/24 attached to router new", "subnet fd00:1::/64 attached to router new", "router r deleted"}},
		{name: "another external network, and the new router has no gateway yet", want: wanting(ownOn("public2"), recorded("r")),
			have: connected(has(a), router("r", "public"), router("q", ""), joins("r", "a", "10.0.0.1")), done: []string{
				"router gateway set to external network public2",
				"subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router q", "router r deleted"}},
		{name: "other availability zones", want: wanting(ownIn("public", "az2"), recorded("r")),
			have: connected(has(a), inZones(router("r", "public"), "az2", "nova"), joins("r", "a", "10.0.0.1")), done: []string{
				"router created", "subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router new", "router r deleted"}},
		{name: "the availability zones match", want: wanting(ownIn("public", "nova", "az2"), recorded("r", "r-a")),
			have: connected(has(a), inZones(router("r", "public"), "az2", "nova"), joins("r", "a", "10.0.0.1"))},
		{name: "availability zones that the cloud has chosen", want: wanting(ownOn("public"), recorded("r", "r-a")),
			have: connected(has(a), inZones(router("r", "public"), "nova"), joins("r", "a", "10.0.0.1"))},
		{name: "a router without a gateway in other availability zones", want: wanting(ownIn("public", "az2"), recorded("r")),
			have: connected(has(a), router("r", "")), done: []string{"router created", "subnet 10.0.0.0/24 attached to router new", "router r deleted"}},
		{name: "three routers with the mark, and none is desired", want: wanting(recorded("q")),
			have: connected(has(a), router("r", "public"), router("q", "public"), router("p", ""), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.0.0.0/24 detached from router r", "router p deleted", "router q deleted", "router r deleted"}},
		{name: "another existing router", want: wanting(on("y"), withV6, recorded("x", "x-a", "x-b")),
			have: connected(has(a, v6), strangersRouter("x"), joins("x", "a", "10.0.0.1"), joins("x", "b", "fd00:1::")), done: []string{
				"subnet 10.0.0.0/24 detached from router x", "subnet fd00:1::/64 detached from router x", "status: router y",
				"subnet 10.0.0.0/24 attached to router y", "subnet fd00:1::/64 attached to router y"}},
		{name: "from an own router to an existing one", want: wanting(on("x"), recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.0.0.0/24 detached from router r", "status: router x", "subnet 10.0.0.0/24 attached to router x", "router r deleted"}},
		{name: "from an existing router to an own one", want: wanting(ownOn("public"), recorded("x", "x-a")),
			have: connected(has(a), strangersRouter("x"), joins("x", "a", "10.0.0.1")), done: []string{
				"router created", "subnet 10.0.0.0/24 detached from router x", "subnet 10.0.0.0/24 attached to router new"}},
		{name: "an own router is removed from the spec", want: wanting(recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{"subnet 10.0.0.0/24 detached from router r", "router r deleted"}},
		{name: "an existing router that the client cannot see is removed from the spec", want: wanting(recorded("x", "x-a")),
			have: connected(has(a), joins("x", "a", "10.0.0.1")), done: []string{"subnet 10.0.0.0/24 detached from router x"}},
		{name: "the existing router in the spec has the owner's mark", want: wanting(on("r"), recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1"))},
		{name: "another CIDR that does not overlap", want: wants("10.1.0.0/24", "", ownOn("public"), recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.1.0.0/24 created", "subnet 10.1.0.0/24 attached to router r", "subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 deleted"}},
		{name: "another CIDR that overlaps", want: wants("10.0.0.0/16", "", ownOn("public"), recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 deleted", "subnet 10.0.0.0/16 created", "subnet 10.0.0.0/16 attached to router r"}},
		{name: "another gateway", want: wants("10.0.0.0/24", "10.0.0.9", ownOn("public"), recorded("r", "r-a")),
			have: connected(has(a), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.0.0.0/24 detached from router r", "gateway set to 10.0.0.9", "subnet 10.0.0.0/24 attached to router r"}},
		{name: "another client moved the gateway from under its interface", want: wanting(ownOn("public"), recorded("r", "r-a")),
			have: connected(has(ours("a", "10.0.0.0/24", "10.0.0.9")), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"gateway set to 10.0.0.1"}},
		{name: "the gateway was moved to that of the spec, and the interface has the old one", want: wants("10.0.0.0/24", "10.0.0.9", ownOn("public"), recorded("r", "r-a")),
			have: connected(has(ours("a", "10.0.0.0/24", "10.0.0.9")), router("r", "public"), joins("r", "a", "10.0.0.1")), done: []string{
				"subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router r"}},
		{name: "another field of a subnet changes in place", want: wanting(withV6, ownOn("public"), recorded("r", "r-a", "r-b"), func(d *View) { d.Subnets[1].NoDHCP = true }),
			have: connected(has(a, v6), router("r", "public"), joins("r", "a", "10.0.0.1"), joins("r", "b", "fd00:1::")), done: []string{"subnet v6: DHCP set to false"}},
		{name: "IPv6 modes are added, and the IPv4 subnet stays attached", want: wanting(withSLAAC, ownOn("public"), recorded("r", "r-a", "r-b")),
			have: connected(has(a, v6), router("r", "public"), joins("r", "a", "10.0.0.1"), joins("r", "b", "fd00:1::")), done: []string{
				"subnet fd00:1::/64 detached from router r", "subnet fd00:1::/64 deleted", "subnet fd00:1::/64 created", "subnet fd00:1::/64 attached to router r"}},
		{name: "an interface whose confirmation was lost", want: wanting(on("x"), recorded("x")),
			have: connected(has(a), strangersRouter("x"), unconfirmed(joins("x", "a", "10.0.0.1"))), done: []string{
				"connection of subnet 10.0.0.0/24 to router x confirmed"}},
		{name: "a half interface", want: wanting(ownOn("public"), recorded("r")),
			have: connected(has(a), router("r", "public"), Interface{PortID: "half", RouterID: "r", SubnetID: "a", Address: addr("10.0.0.1")}), done: []string{
				"connection of subnet 10.0.0.0/24 to router r confirmed"}},
		{name: "an unconfirmed interface with another address", want: wanting(on("x"), recorded("x")),
			have: connected(has(a), strangersRouter("x"), unconfirmed(joins("x", "a", "10.0.0.7"))), done: []string{
				"subnet 10.0.0.0/24 detached from router x", "subnet 10.0.0.0/24 attached to router x"}},
		{name: "a stranger's interface has the address of the gateway", want: wanting(on("x"), recorded("x")),
			have: connected(has(a), strangersRouter("x"), strangersRouter("z"), joins("z", "a", "10.0.0.1")), refused: "subnet 10.0.0.0/24 attached to router x"},
		{name: "a stranger's interface is on a subnet that is replaced", want: wants("10.1.0.0/24", ""),
			have: connected(has(a), strangersRouter("z"), joins("z", "a", "10.0.0.1")), done: []string{"subnet 10.1.0.0/24 created"}, refused: "subnet 10.0.0.0/24 deleted"},
		{name: "a stranger's subnet is on an own router that is removed from the spec", want: wanting(recorded("r", "r-a")),
			have: connected(has(a, described("mine", ours("s", "10.9.0.0/24", "10.9.0.1"))), router("r", "public"), joins("r", "a", "10.0.0.1"), joins("r", "s", "10.9.0.1")),
			done: []string{"subnet 10.0.0.0/24 detached from router r"}, refused: "router r deleted"},
		{name: "a port with the device owner of an interface, and no device", want: wanting(), have: connected(has(a), Interface{PortID: "half", SubnetID: "a", Address: addr("10.0.0.9")})},
	} {
		t.Run(test.name, func(t *testing.T) {
			if now := followToGoal(t, &test.want, test.have, test.done, test.refused); now != nil {
				equal(t, Step(nil), at(test.want, now).Next())
			}
		})
	}
}

// routed returns a network that can be found in any cloud: subnets, routers and interfaces of the
// owner's and of others. Per subnet, one interface can have the address of the gateway.
func (s *source) routed() *Observed {
	n := has()
	for _, subnet := range []Subnet{
		ours("a", "10.0.0.0/24", []string{"10.0.0.1", "10.0.0.9", ""}[s.below(3)]),
		ours("old", "10.1.0.0/24", "10.1.0.1"),
		ours("half of it", "10.0.0.128/25", "10.0.0.129"),
		withName(testName+"/v6", ours("v6", "fd00:1::/64", "fd00:1::")),
		described("mine", ours("stranger's", "10.9.0.0/24", "10.9.0.1")),
	} {
		if s.below(2) == 0 && !slices.ContainsFunc(n.Subnets, func(o Subnet) bool { return o.CIDR.Overlaps(subnet.CIDR) }) {
			n.Subnets = append(n.Subnets, subnet)
		}
	}
	for _, r := range []Router{router("r1", "public"), router("r2", []string{"public", "public2", ""}[s.below(3)]),
		strangersRouter("x"), strangersRouter("y"), strangersRouter("z")} {
		if s.below(2) == 1 {
			continue
		}
		n = connected(n, r)
		var routes Routes
		for _, subnet := range n.Subnets {
			i := Interface{PortID: "port of " + subnet.ID + " on " + r.ID, RouterID: r.ID, SubnetID: subnet.ID, Address: subnet.Gateway}
			switch s.below(5) {
			case 0, 1:
				continue
			case 2:
				i.Confirmed = true
			case 3:
				i.PortID = "half " + i.PortID
			}
			if !i.Address.IsValid() || holdsAddress(n, subnet.ID, i.Address) {
				i.Address = subnet.CIDR.Addr().Next().Next().Next()
			}
			n = connected(n, i)
			if r.isOwnedBy(owner) && s.below(2) == 1 {
				routes = routes.and((toA + ", " + to6 + ", 10.97.0.0/16 via 10.1.0.7").through(subnet.CIDR))
			}
		}
		n = n.withRoutes(r.ID, routes)
	}
	return n
}

func (s *source) spec() func(*View) {
	return []func(*View){noRouter, ownOn("public"), ownOn("public2"), on("x"), on("y"), ownIn("public", "az2"),
		withRoutes("public", ""), withRoutes("public", toA), withRoutes("public2", toA), withRoutes("public", toA+", "+to6)}[s.below(10)]
}

func (s *source) desiredRouted() View {
	want := wants([]string{"10.0.0.0/24", "10.2.0.0/24", "10.0.0.0/16"}[s.below(3)], []string{"", "10.0.0.9"}[s.below(2)], s.spec())
	if !want.Subnets[0].CIDR.Contains(want.Subnets[0].Gateway) {
		want.Subnets[0].Gateway = netip.Addr{}
	}
	if s.below(2) == 0 {
		with("v6", "fd00:1::/64", func(d *DesiredSubnet) {
			d.Name, d.Mark = testName+"/v6", owner.Mark()
			if s.below(2) == 0 {
				d.AddressMode, d.RAMode = "slaac", "slaac"
			}
		})(&want)
	}
	if s.below(2) == 0 {
		recorded([]string{"", "r1", "x", "y"}[s.below(4)])(&want)
	}
	if s.below(2) == 0 {
		want.Routes = toA + ", " + to6 + ", 10.97.0.0/16 via 10.1.0.7"
	}
	return want
}

// From every state of routers and interfaces, the plan ends, although the spec changes in the middle
// and the status is written at any time. It touches nothing of other clients, and forgets no interface
// that it made.
func FuzzThePlanOfRouters(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		seed := make([]byte, 100)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := source(data)
		want, have := s.desiredRouted(), s.routed()
		made := map[string]bool{} // routers and subnets
		var log []string
		changesLeft := 2
		for range 100 {
			if changesLeft > 0 && s.below(6) == 5 {
				changesLeft--
				s.spec()(&want)
				log = append(log, fmt.Sprintf("spec: %+v", want.Router))
			}
			step := at(want, have).Next()
			if step == nil && changesLeft > 0 && len(s) > 0 {
				changesLeft--
				s.spec()(&want)
				log = append(log, fmt.Sprintf("spec: %+v", want.Router))
				step = at(want, have).Next()
			}
			if step == nil {
				writeStatus(&want, have)
				checkRouterGoal(t, want, have)
				equal(t, Step(nil), at(want, have).Next())
				break
			}
			checkRouterStep(t, want, have, step)
			if isNeeded := want.Identity.isUnrecorded(step); isNeeded || s.below(3) == 0 {
				writeStatus(&want, have)
				log = append(log, fmt.Sprintf("status: %q", want.RouterID))
				if isNeeded && want.Identity.isUnrecorded(step) {
					t.Fatalf("the status %+v does not allow %+v", want, step)
				}
				continue
			}
			next, taken := simulate(t, have, step)
			log = append(log, step.String())
			if !taken {
				if !hasStrangers(want, have) && !isRefusedFor(want, have, step) {
					t.Errorf("Neutron refuses %+v", step)
				}
				break
			}
			checkOthers(t, want, have, next, step)
			if a, ok := step.(AttachSubnet); ok {
				made[a.Router+" "+a.Subnet] = true
			}
			have = next
			spec := want
			spec.Router = nil
			for _, i := range have.Interfaces {
				if made[i.RouterID+" "+i.SubnetID] && !at(spec, have).manages(i) {
					t.Errorf("%+v is forgotten", i)
				}
			}
		}
		if step := at(want, have).Next(); step != nil && !hasStrangers(want, have) && !isRefusedFor(want, have, step) {
			t.Errorf("the plan does not end: the next step is %+v", step)
		}
		if t.Failed() {
			t.Logf("want %+v, router %+v\nhave %+v\n%s", want, want.Router, have, strings.Join(log, "\n"))
		}
	})
}

// isRefusedFor reports whether Neutron refuses the step because of routes that another client has set, or because the spec has next
// hops that are in none of its subnets.
func isRefusedFor(want View, have *Observed, step Step) bool {
	switch s := step.(type) {
	case SetRoutes:
		return slices.ContainsFunc(s.Routes.hops(), func(hop netip.Addr) bool {
			return !slices.ContainsFunc(want.Subnets, func(d DesiredSubnet) bool { return d.CIDR.Contains(hop) })
		})
	case DetachSubnet:
		r := have.router(s.Router)
		return r != nil && r.Routes.through(s.CIDR).that(want.mayRemove) == ""
	}
	return false
}

// hasStrangers reports whether other clients' subnets or interfaces can prevent a step.
func hasStrangers(want View, have *Observed) bool {
	return len(at(want, have).Unmanaged()) > 0 || len(at(want, have).UnmanagedInterfaces()) > 0
}
