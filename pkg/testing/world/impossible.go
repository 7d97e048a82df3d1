// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"slices"
	"strings"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// Impossible is an edit that cannot be completed, because of what another client has done, or because of
// what it says itself. It costs nothing: until the obstacle is gone, the Network keeps exactly the subnets,
// IDs and connections that it had.
type Impossible struct {
	Name string
	// Start is the Network before the edit. It is in order, with the obstacle too.
	Start *samplecrdv1.NetworkSpec
	// Want is what the edit asks for.
	Want *samplecrdv1.NetworkSpec
	// Before creates what is there before the Network; nil: nothing.
	Before func(*World)
	// Obstruct puts the obstacle in the way; nil: the edit is impossible by itself.
	Obstruct obstacle
	// Clear ends what is in the way if that is not undoing Obstruct; nil: undoing Obstruct.
	Clear func(*World)
	// Corrected is the spec that the user chooses in the end, if nobody else can help; nil: Want.
	Corrected *samplecrdv1.NetworkSpec
	// Names are words of which the message must have one: what is in the way. A name of an object in
	// specs stands for its ID.
	Names []string
	// Reason is the reason of the Network; "": any that a Network has whose edit waits.
	Reason string
	// Adds says why the edit may make something that waits; "": it must not.
	Adds string
	// Costs says why the edit may cost something; "": it must not. Then the message has Taken: what was
	// already taken away.
	Costs, Taken string
	// NeedsList means that the obstacle is none before a list shows it.
	NeedsList bool
	// EveryRequest means that the obstacle is to appear at each request, and that the Network says what is in the way each time.
	EveryRequest bool
	// NeedsNames means that the controller has listed the names of subnet pools a moment ago, and looks again only after some seconds. A test
	// that does not wait starts another controller.
	NeedsNames bool
	// TakesAddresses means that Neutron takes the obstacle's addresses away without a question. A client
	// cannot prevent that if the obstacle appears after it has looked.
	TakesAddresses bool
	// Verify compares both sides at the end, for an import; nil: Check does.
	Verify *verification
}

// Scenario returns the edit as a Scenario.
func (i Impossible) Scenario() Scenario {
	want := i.Want
	if i.Corrected != nil {
		want = i.Corrected
	}
	return Scenario{Name: i.Name, Start: i.Start, Act: edited(i.Want), Want: want}
}

// Prepare creates what is there before the Network.
func (i Impossible) Prepare(w *World) {
	w.CreateProtected()
	if i.Start.Import != nil {
		w.createLegacy()
	}
	w.CreateRouting()
	if isPooled(i.Start) || isPooled(i.Want) {
		w.CreatePools()
	}
	if i.Before != nil {
		i.Before(w)
	}
}

// Finish takes the obstacle out of the way, and makes the user correct the spec if that is the obstacle.
func (i Impossible) Finish(w *World) {
	if i.Clear != nil {
		i.Clear(w)
	}
	w.ClearObstacles()
	if i.Corrected != nil {
		edited(i.Corrected)(w)
	}
}

// Check compares both sides after Finish.
func (i Impossible) Check(w *World) []string {
	if i.Verify != nil {
		return i.Verify.violations(w)
	}
	return w.Check(i.Scenario().Want)
}

// IsNamed reports whether a message names what is in the way.
func (i Impossible) IsNamed(w *World, message string) bool {
	return slices.ContainsFunc(i.Names, func(name string) bool { return strings.Contains(message, w.nameOr(name)) })
}

// additional returns a change of a spec that adds a subnet.
func additional(name, cidr string, changes ...func(*samplecrdv1.SubnetSpec)) func(*samplecrdv1.NetworkSpec) {
	subnet := samplecrdv1.AdditionalSubnet{Name: name, SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}}
	for _, change := range changes {
		change(&subnet.SubnetSpec)
	}
	return func(s *samplecrdv1.NetworkSpec) {
		s.AdditionalSubnets = append(slices.Clone(s.AdditionalSubnets), subnet)
	}
}

// modes returns a change of a subnet to both IPv6 modes.
func modes(mode samplecrdv1.IPv6Mode) func(*samplecrdv1.SubnetSpec) {
	return func(s *samplecrdv1.SubnetSpec) { s.IPv6 = &samplecrdv1.IPv6Spec{AddressMode: mode, RAMode: mode} }
}

// inIPv6 is modes for the first subnet of a spec.
func inIPv6(mode samplecrdv1.IPv6Mode) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) { modes(mode)(&s.SubnetSpec) }
}

// pools returns a change of a spec to pools of the first subnet, each from a start to an end.
func pools(ends ...samplecrdv1.IPAddress) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		for pair := range slices.Chunk(ends, 2) {
			s.AllocationPools = append(s.AllocationPools, samplecrdv1.AllocationPool{Start: pair[0], End: pair[1]})
		}
	}
}

// tooManyNameservers sets more DNS servers than Neutron allows by default.
func tooManyNameservers(s *samplecrdv1.NetworkSpec) {
	s.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"}
}

// ownByID is own by the network's ID.
func ownByID(external string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{ID: external}}
	}
}

// Names that specs of Impossibles have.
const (
	unknown  = "99999999-9999-4999-8999-999999999999"
	wide     = "wide"     // an external network with 10.0.0.0/16
	narrow   = "narrow"   // an external network with 10.0.5.0/24
	foreign  = "foreign"  // a router of another project
	ordinary = "ordinary" // a network that is not external
	notYet   = "not-yet"  // that a user creates later
)

var (
	createWide         = makeExternal(wide, "10.0.0.0/16", "10.0.200.10", "10.0.200.200", true)
	createHiddenWide   = makeExternal(wide, "10.0.0.0/16", "10.0.200.10", "10.0.200.200", false)
	createNarrow       = makeExternal(narrow, "10.0.5.0/24", "10.0.5.10", "10.0.5.200", true)
	createHiddenNarrow = makeExternal(narrow, "10.0.5.0/24", "10.0.5.10", "10.0.5.200", false)
	// unforeseen is a refusal for a reason that only Neutron knows.
	unforeseen = embedded.Fault{Status: http.StatusBadRequest, Type: "InvalidInput", Message: "Invalid input for operation: a plug-in does not like it."}
)

const usedByOthers = "the Network gets what the edit asks for, and only the old router stays, because others use it"

const hiddenExternal = "a member cannot see the subnets of another project's external network, but its new router is connected to them"

// Impossibles are the edits that cannot be completed.
var Impossibles = slices.Concat(subnetsInTheWay, routersInTheWay, addressesInTheWay, namesOfNothing, usersInTheWay, quotasInTheWay, refusals, noSuchZones, noSuchHops, poolsInTheWay, projectsInTheWay)

// subnetsInTheWay: a new subnet overlaps with one of the same network.
var subnetsInTheWay = []Impossible{
	{Name: "CIDR grows over a stranger's subnet", Start: with(), Want: spec("10.0.0.0/16", ""), Obstruct: strangersSubnet("10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "IPv6 CIDR grows over a stranger's subnet", Start: spec("fd00:1::/64", ""), Want: spec("fd00:1::/48", ""), Obstruct: func(w *World) error {
		_, err := w.make(w.Client, "subnet", map[string]any{"network_id": w.Get().Status.NetworkID, "cidr": "fd00:1:0:5::/64", "ip_version": 6})
		return err
	}, Names: []string{"fd00:1:0:5::/64"}},
	{Name: "CIDR grows over a stranger's subnet, with an own router", Start: with(own(public)), Want: specWith("10.0.0.0/16", "", own(public)), Obstruct: strangersSubnet("10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "CIDR grows over a stranger's subnet, at an existing router", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(shared)), Obstruct: strangersSubnet("10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "CIDR shrinks beside a stranger's subnet, and an additional one grows over it", Start: specWith("10.0.0.0/16", "", additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/24", "", additional("a", "10.1.0.0/16")),
		Obstruct: strangersSubnet("10.1.5.0/24"), Names: []string{"10.1.5.0/24"}},
	{Name: "next CIDR overlaps with a stranger's subnet", Start: with(), Want: spec("10.1.0.0/16", ""), Obstruct: strangersSubnet("10.1.5.0/24"), Names: []string{"10.1.5.0/24"}},
	{Name: "next CIDR overlaps with a stranger's subnet, with an own router", Start: with(own(public)), Want: specWith("10.1.0.0/16", "", own(public)), Obstruct: strangersSubnet("10.1.5.0/24"), Names: []string{"10.1.5.0/24"}},
	{Name: "of two subnets that grow, the second one cannot", Start: with(additional("a", "10.1.0.0/24"), additional("b", "10.2.0.0/24")), Want: with(additional("a", "10.1.0.0/16"), additional("b", "10.2.0.0/16")),
		Obstruct: strangersSubnet("10.2.5.0/24"), Names: []string{"10.2.5.0/24"}},
	{Name: "of two subnets that grow, the first one cannot", Start: with(additional("a", "10.1.0.0/24"), additional("b", "10.2.0.0/24")), Want: with(additional("a", "10.1.0.0/16"), additional("b", "10.2.0.0/16")),
		Obstruct: strangersSubnet("10.1.5.0/24"), Names: []string{"10.1.5.0/24"}},
	{Name: "of two subnets that grow, with a router, the second one cannot", Start: with(existing(shared), additional("a", "10.1.0.0/24"), additional("b", "10.2.0.0/24")),
		Want: with(existing(shared), additional("a", "10.1.0.0/16"), additional("b", "10.2.0.0/16")), Obstruct: strangersSubnet("10.2.5.0/24"), Names: []string{"10.2.5.0/24"}},
	{Name: "IPv6 modes change, and another subnet grows over a stranger's", Start: with(additional("v6", "fd00:1::/64", modes(samplecrdv1.IPv6ModeSLAAC))),
		Want: specWith("10.0.0.0/16", "", additional("v6", "fd00:1::/64")), Obstruct: strangersSubnet("10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "an import's own subnet grows over a stranger's", Start: imported(withCIDR("10.8.0.0/24", "")), Want: imported(withCIDR("10.8.0.0/16", "")), Obstruct: strangersSubnet("10.8.5.0/24"), Names: []string{"10.8.5.0/24"},
		Verify: imports(imported(withCIDR("10.8.0.0/16", "")), "Available", marked+legacySubnet+legacyOther+" 10.8.0.0/16 10.8.0.1 marked")},
	{Name: "an import's own subnet grows over a stranger's, at an existing router", Start: imported(withCIDR("10.8.0.0/24", ""), existing(shared)), Want: imported(withCIDR("10.8.0.0/16", ""), existing(shared)),
		Obstruct: strangersSubnet("10.8.5.0/24"), Names: []string{"10.8.5.0/24"},
		Verify: imports(imported(withCIDR("10.8.0.0/16", ""), existing(shared)), "Available", marked+legacySubnet+legacyOther+" 10.8.0.0/16 10.8.0.1 marked via shared")},
	{Name: "an import's own subnet grows over one that was found", Start: imported(withCIDR("10.4.0.0/16", "")), Want: imported(withCIDR("10.4.0.0/15", "")), Names: []string{"10.5.0.0/24"},
		Corrected: imported(withCIDR("10.6.0.0/16", "")), Verify: imports(imported(withCIDR("10.6.0.0/16", "")), "Available", marked+legacySubnet+legacyOther+" 10.6.0.0/16 10.6.0.1 marked")},
}

// routersInTheWay: a router has a subnet that overlaps with a new one, or keeps the Network's.
var routersInTheWay = []Impossible{
	{Name: "CIDR grows over another team's subnet at the existing router", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(shared)), Obstruct: strangersAt(shared, "10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "next CIDR overlaps with another team's subnet at the existing router", Start: with(existing(shared)), Want: specWith("10.1.0.0/24", "", existing(shared)), Obstruct: strangersAt(shared, "10.1.0.0/16"), Names: []string{"10.1.0.0/16"}},
	{Name: "the second subnet grows over another team's at the existing router", Start: with(existing(shared), additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", existing(shared), additional("a", "10.1.0.0/16")),
		Obstruct: strangersAt(shared, "10.1.5.0/24"), Names: []string{"10.1.5.0/24"}},
	{Name: "the next existing router has a subnet that overlaps", Start: with(existing(shared)), Want: with(existing(other)), Obstruct: strangersAt(other, "10.0.0.0/16"), Names: []string{"10.0.0.0/16"}},
	{Name: "the next existing router has a subnet that overlaps, by its name", Start: with(own(public)), Want: with(existingByName(other)), Obstruct: strangersAt(other, "10.0.0.0/25"), Names: []string{"10.0.0.0/25"}},
	{Name: "the first router has a subnet that overlaps", Start: with(), Want: with(existing(other)), Obstruct: strangersAt(other, "10.0.0.0/25"), Names: []string{"10.0.0.0/25"}},
	{Name: "the next existing router has a subnet that overlaps with the second one", Start: with(existing(shared), dualStack, additional("b", "10.1.0.0/24")), Want: with(existing(other), dualStack, additional("b", "10.1.0.0/24")),
		Obstruct: strangersAt(other, "10.1.0.0/24"), Names: []string{"10.1.0.0/24"}},
	{Name: "CIDR grows over a stranger's subnet at the own router", Start: with(own(public)), Want: specWith("10.0.0.0/16", "", own(public)), Obstruct: strangersAt("", "10.0.5.0/24"), Names: []string{"10.0.5.0/24"}},
	{Name: "another external network, and a stranger's subnet at the own router", Start: with(own(public)), Want: with(own(public2)), Obstruct: strangersAt("", "10.66.0.0/24"), Names: []string{"ports still attached"}, Costs: usedByOthers},
	{Name: "an existing router instead, and a stranger's subnet at the own one", Start: with(own(public)), Want: with(existing(shared)), Obstruct: strangersAt("", "10.66.0.0/24"), Names: []string{"ports still attached"}, Costs: usedByOthers},
	{Name: "the next external network overlaps", Start: with(own(public)), Want: with(own(wide)), Before: createWide, Corrected: with(own(public2)), Names: []string{"10.0.0.0/16"}},
	{Name: "the next external network overlaps, and its subnets are hidden", Start: with(own(public)), Want: with(own(wide)), Before: createHiddenWide, Corrected: with(own(public2)), Names: []string{"10.0.0.0/16", "overlaps"},
		Adds: hiddenExternal},
	{Name: "an own router in an external network that overlaps, instead of an existing one", Start: with(existing(shared)), Want: with(own(wide)), Before: createWide, Corrected: with(own(public2)), Names: []string{"10.0.0.0/16"}},
	{Name: "CIDR grows over the external network", Start: with(own(narrow)), Want: specWith("10.0.0.0/16", "", own(narrow)), Before: createNarrow, Corrected: specWith("10.1.0.0/16", "", own(narrow)), Names: []string{"10.0.5.0/24"}},
	{Name: "CIDR grows over the router's address in the external network, whose subnets are hidden", Start: with(own(narrow)), Want: specWith("10.0.0.0/16", "", own(narrow)), Before: createHiddenNarrow,
		Corrected: specWith("10.1.0.0/16", "", own(narrow)), Names: []string{"10.0.5."}},
	{Name: "a route of the router goes via the subnet", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(shared)), Obstruct: route(shared, "10.0.0.77"), Names: []string{"route"}},
	{Name: "a route of the router goes via the second subnet", Start: with(existing(shared), additional("a", "10.1.0.0/24")), Want: with(existing(other), additional("a", "10.1.0.0/24")), Obstruct: route(shared, "10.1.0.77"), Names: []string{"10.1.0.77"}},
	{Name: "a route of the router goes via the gateway's subnet that moves", Start: with(existing(shared)), Want: specWith("10.0.0.0/24", "10.0.0.9", existing(shared)), Obstruct: route(shared, "10.0.0.77"), Names: []string{"route"}},
	{Name: "two subnets grow, and a route of the router goes via the second", Start: with(existing(shared), additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", existing(shared), additional("a", "10.1.0.0/16")),
		Obstruct: route(shared, "10.1.0.77"), Names: []string{"route"}},
}

// addressesInTheWay: a gateway or a pool that Neutron refuses.
var addressesInTheWay = []Impossible{
	{Name: "an import's gateway moves into a pool that somebody chose", Start: imported(withCIDR("10.0.0.0/24", "10.0.0.9"), existing(shared)), Want: imported(withCIDR("10.0.0.0/24", "10.0.0.150"), existing(shared)),
		Names: []string{"10.0.0.100-10.0.0.200"}, Clear: func(w *World) {
			w.updateInNeutron("subnets", "subnet", w.Find().Status.SubnetID, map[string]any{"allocation_pools": []map[string]string{{"start": "10.0.0.20", "end": "10.0.0.50"}}})
		}, Verify: imports(imported(withCIDR("10.0.0.0/24", "10.0.0.150"), existing(shared)), "Available",
			marked+" 10.0.0.0/24 10.0.0.150 DNS 192.0.2.53 pools 10.0.0.20-10.0.0.50 by hand via shared"+legacyOther)},
	{Name: "an import's gateway moves into a pool, without a router", Start: imported(withCIDR("10.0.0.0/24", "")), Want: imported(withCIDR("10.0.0.0/24", "10.0.0.150")), Names: []string{"10.0.0.100"},
		Corrected: imported(withCIDR("10.0.0.0/24", "10.0.0.10")), Verify: imports(imported(withCIDR("10.0.0.0/24", "10.0.0.10")), "Available", marked+" 10.0.0.0/24 10.0.0.10"+legacyPools+legacyOther)},
	{Name: "gateway moves to the address of a server", Start: with(own(public)), Want: specWith("10.0.0.0/24", "10.0.0.50", own(public)), Obstruct: server("10.0.0.50"), Names: []string{"web-0"}},
	{Name: "gateway moves to the address of a server, at an existing router", Start: with(existing(shared)), Want: specWith("10.0.0.0/24", "10.0.0.50", existing(shared)), Obstruct: server("10.0.0.50"), Names: []string{"web-0"}},
	{Name: "of two gateways, one moves to the address of a server", Start: with(own(public), additional("a", "10.1.0.0/24")), Obstruct: server("10.1.0.50"), Names: []string{"web-0"},
		Want: specWith("10.0.0.0/24", "10.0.0.9", own(public), additional("a", "10.1.0.0/24", func(s *samplecrdv1.SubnetSpec) { s.Gateway = "10.1.0.50" }))},
	{Name: "IPv6 pools with the gateway in them, and a gateway that moves", Start: specWith("fd00:1::/64", "fd00:1::1", own(public)), Want: specWith("fd00:1::/64", "fd00:1::9", own(public), pools("fd00:1::5", "fd00:1::20")), Names: []string{"fd00:1::5-fd00:1::20"},
		Corrected: specWith("fd00:1::/64", "fd00:1::9", own(public), pools("fd00:1::10", "fd00:1::20"))},
	{Name: "IPv6 pools that overlap, and a CIDR that grows", Start: spec("fd00:1::/64", ""), Want: specWith("fd00:1::/60", "", pools("fd00:1::10", "fd00:1::50", "fd00:1::20", "fd00:1::70")), Names: []string{"fd00:1::10-fd00:1::50", "fd00:1::20-fd00:1::70"},
		Corrected: specWith("fd00:1::/60", "", pools("fd00:1::10", "fd00:1::50"))},
	{Name: "an import's subnet has lost its gateway, and moves to another router", Start: imported(withCIDR("10.0.0.0/24", ""), existing(shared)), Want: imported(withCIDR("10.0.0.0/24", ""), existing(other)),
		Obstruct: func(w *World) error {
			path := "subnets/" + w.Get().Status.SubnetID
			set := func(gateway any) map[string]any {
				return map[string]any{"subnet": map[string]any{"gateway_ip": gateway}}
			}
			w.undoLater(w.Client, http.MethodPut, path, set("10.0.0.9"))
			return w.trySend(w.Client, http.MethodPut, path, set(nil), nil)
		}, Names: []string{"gateway"}, Verify: imports(imported(withCIDR("10.0.0.0/24", ""), existing(other)), "Available", marked+legacySubnet+" via other"+legacyOther)},
	{Name: "more DNS servers than Neutron allows, and a CIDR that grows", Start: with(), Want: specWith("10.0.0.0/16", "", tooManyNameservers), Names: []string{"DNS", "nameserver"}, Corrected: spec("10.0.0.0/16", ""),
		Costs: "the limit is in Neutron's configuration, which no client can read", Taken: "10.0.0.0/24"},
}

// namesOfNothing: a router or an external network that is not there, or may not be used.
var namesOfNothing = []Impossible{
	{Name: "a router that is not there", Start: with(own(public)), Want: with(existing(unknown)), Names: []string{unknown}, Corrected: with(existing(shared))},
	{Name: "a router that is not there, after another existing one", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(unknown)), Names: []string{unknown}, Corrected: specWith("10.0.0.0/16", "", existing(other))},
	{Name: "a router that is not there yet, by its name", Start: with(existing(shared)), Want: with(existingByName(notYet)), Names: []string{notYet}, Clear: later("router", notYet)},
	{Name: "a router that is not there yet, by its name, and a CIDR that grows", Start: with(own(public)), Want: specWith("10.0.0.0/16", "", existingByName(notYet)), Names: []string{notYet}, Clear: later("router", notYet)},
	{Name: "a router of another project", Start: with(existing(shared)), Want: with(existing(foreign)), Before: foreignRouter(foreign), Names: []string{foreign}, Corrected: with(existing(other))},
	{Name: "a router's name that is ambiguous", Start: with(existing(shared)), Want: with(existingByName(other)), Obstruct: twin("router", other), NeedsList: true, Names: []string{other}},
	{Name: "an external network that is not there", Start: with(own(public)), Want: with(ownByID(unknown)), Names: []string{unknown}, Corrected: with(own(public2))},
	{Name: "an external network that is not there yet, by its name", Start: with(own(public)), Want: with(own(notYet)), Names: []string{notYet}, Clear: later("network", notYet)},
	{Name: "a network that is not external", Start: with(existing(shared)), Want: with(ownByID(ordinary)), Before: func(w *World) {
		id := w.CreateInNeutron(ordinary, "", "10.201.0.0/24")
		w.name(ordinary, id)
		w.Protect(id)
	}, Names: []string{"not an external network"}, Corrected: with(own(public2))},
	{Name: "an external network's name that is ambiguous", Start: with(existing(shared)), Want: with(own(public2)), Obstruct: twin("network", public2), NeedsList: true, Names: []string{public2}},
}

// usersInTheWay: servers and floating IPs use what the edit takes away.
var usersInTheWay = []Impossible{
	{Name: "a server in a subnet that is replaced", Start: with(), Want: spec("10.1.0.0/24", ""), Obstruct: server(""), Names: []string{"web-0"}},
	{Name: "a server in a subnet that grows", Start: with(own(public)), Want: specWith("10.0.0.0/16", "", own(public)), Obstruct: server(""), Names: []string{"web-0"}},
	{Name: "a server in the second subnet that grows", Start: with(existing(shared), additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", existing(shared), additional("a", "10.1.0.0/16")), Obstruct: server("10.1.0.50"), Names: []string{"web-0"}},
	{Name: "a server in a subnet that goes", Start: with(existing(shared), additional("a", "10.1.0.0/24")), Want: with(existing(shared)), Obstruct: server("10.1.0.50"), Names: []string{"web-0"}},
	serverInIPv6(samplecrdv1.IPv6ModeDHCPv6Stateful), serverInIPv6(samplecrdv1.IPv6ModeDHCPv6Stateless), serverInIPv6(samplecrdv1.IPv6ModeSLAAC),
	{Name: "a server in a SLAAC subnet that goes", Start: with(dualStack), Want: with(), Obstruct: server(""), TakesAddresses: true, Names: []string{"web-0"}},
	{Name: "a server in a stateless subnet that goes", Start: with(additional("v6", "fd00:1::/64", modes(samplecrdv1.IPv6ModeDHCPv6Stateless))), Want: with(), Obstruct: server(""), TakesAddresses: true, Names: []string{"web-0"}},
	{Name: "a server in a SLAAC subnet that becomes a stateless one", Start: specWith("fd00:1::/64", "", inIPv6(samplecrdv1.IPv6ModeSLAAC)), Want: specWith("fd00:1::/64", "", inIPv6(samplecrdv1.IPv6ModeDHCPv6Stateless)), Obstruct: server(""), TakesAddresses: true, Names: []string{"web-0"}},
	{Name: "a server in a SLAAC subnet that grows", Start: specWith("fd00:1::/64", "", inIPv6(samplecrdv1.IPv6ModeSLAAC)), Want: spec("fd00:1::/60", ""), Obstruct: server(""), TakesAddresses: true, Names: []string{"web-0"}},
	{Name: "a server in a SLAAC subnet that goes, at a router", Start: with(existing(shared), dualStack), Want: with(existing(shared)), Obstruct: server(""), TakesAddresses: true, Names: []string{"web-0"}},
	{Name: "a server in a SLAAC subnet whose modes change", TakesAddresses: true, Start: with(own(public), dualStack), Want: with(own(public), additional("v6", "fd00:1::/64", func(s *samplecrdv1.SubnetSpec) { s.Gateway = "fd00:1::1" })), Obstruct: server(""), Names: []string{"web-0"}},
	{Name: "a floating IP needs the router that is replaced", Start: with(existing(shared)), Want: with(existing(other)), Obstruct: floating, Names: []string{"198.18."}},
	{Name: "a floating IP needs the own router whose external network changes", Start: with(own(public)), Want: with(own(public2)), Obstruct: floating, Names: []string{"198.18."}},
	{Name: "a floating IP needs the router that goes", Start: with(own(public)), Want: with(), Obstruct: floating, Names: []string{"198.18."}},
	{Name: "a floating IP needs the gateway that moves", Start: with(existing(shared)), Want: specWith("10.0.0.0/24", "10.0.0.9", existing(shared)), Obstruct: floating, Names: []string{"198.18."}},
}

func serverInIPv6(mode samplecrdv1.IPv6Mode) Impossible {
	return Impossible{TakesAddresses: mode != samplecrdv1.IPv6ModeDHCPv6Stateful, Name: "a server in an IPv6 subnet that is replaced: " + string(mode), Start: specWith("fd00:1::/64", "", inIPv6(mode)), Want: specWith("fd00:2::/64", "", inIPv6(mode)), Obstruct: server(""), Names: []string{"web-0"}}
}

// quotasInTheWay: the quota is full, or the project has more than it allows.
var quotasInTheWay = []Impossible{
	{Name: "quota of subnets full, and another CIDR", Start: with(), Want: spec("10.1.0.0/24", ""), Obstruct: quota("subnet", 0), Names: []string{"uota"}},
	{Name: "quota of subnets full, and two subnets of which one overlaps", Start: with(additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", additional("a", "10.5.0.0/24")), Obstruct: quota("subnet", 0), Names: []string{"uota"}},
	{Name: "quota of subnets full, and two subnets, with a router", Start: with(own(public), additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", own(public), additional("a", "10.5.0.0/24")), Obstruct: quota("subnet", 0), Names: []string{"uota"}},
	{Name: "more subnets than the quota allows, and a CIDR that grows", Start: with(), Want: spec("10.0.0.0/16", ""), Obstruct: quota("subnet", 1), Names: []string{"uota"}},
	{Name: "more subnets than the quota allows, and a CIDR that grows, at a router", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(shared)), Obstruct: quota("subnet", 1), Names: []string{"uota"}},
	{Name: "quota of routers full, and another external network", Start: with(own(public)), Want: with(own(public2)), Obstruct: quota("router", 0), Names: []string{"uota"}},
	{Name: "quota of routers full, and an own router instead of an existing one", Start: with(existing(shared)), Want: with(own(public2)), Obstruct: quota("router", 0), Names: []string{"uota"}},
}

// refusals: Neutron refuses what nobody can foresee.
var refusals = []Impossible{
	{Name: "Neutron refuses the next subnet", Start: with(own(public)), Want: specWith("10.1.0.0/24", "", own(public)), Obstruct: refusing(http.MethodPost, "/subnets", unforeseen), Names: []string{"does not like it"}},
	{Name: "Neutron refuses the subnet that is to replace one with which it overlaps", Start: with(), Want: spec("10.0.0.0/16", ""), Obstruct: refusing(http.MethodPost, "/subnets", unforeseen), Names: []string{"does not like it"},
		Costs: "the old subnet must go before Neutron looks at the new one", Taken: "10.0.0.0/24"},
	{Name: "Neutron refuses the subnet that is to replace one with which it overlaps, at a router", Start: with(existing(shared)), Want: specWith("10.0.0.0/16", "", existing(shared)),
		Obstruct: refusing(http.MethodPost, "/subnets", unforeseen), Names: []string{"does not like it"}, Costs: "the old subnet must go before Neutron looks at the new one", Taken: "10.0.0.0/24"},
	{Name: "Neutron refuses the gateway that moves", Start: with(own(public)), Want: specWith("10.0.0.0/24", "10.0.0.9", own(public)), Obstruct: refusing(http.MethodPut, "/subnets/ID", unforeseen), Names: []string{"does not like it"},
		Costs: "Neutron looks at the new gateway after the interface is gone", Taken: "10.0.0.0/24"},
	{Name: "Neutron refuses the connection to the next router", Start: with(existing(shared)), Want: with(existing(other)), Obstruct: refusing(http.MethodPut, "/add_router_interface", unforeseen), Names: []string{"does not like it"},
		Costs: "two routers cannot have the address of the gateway", Taken: "10.0.0.0/24"},
	{Name: "Neutron refuses the connection to the next own router", Start: with(existing(shared)), Want: with(own(public2)), Obstruct: refusing(http.MethodPut, "/add_router_interface", unforeseen), Names: []string{"does not like it"},
		Adds: hiddenExternal},
	{Name: "Neutron refuses the next router", Start: with(own(public)), Want: with(own(public2)), Obstruct: refusing(http.MethodPost, "/routers", unforeseen), Names: []string{"does not like it"}},
}

// Edits are edits that can be completed, of each kind that takes something away.
var Edits = []Scenario{
	edit("CIDR grows", with(), spec("10.0.0.0/16", "")),
	edit("CIDR grows, with an own router", with(own(public)), specWith("10.0.0.0/16", "", own(public))),
	edit("CIDR grows, at an existing router", with(existing(shared)), specWith("10.0.0.0/16", "", existing(shared))),
	edit("another CIDR", with(), spec("10.1.0.0/24", "")),
	edit("another CIDR, with an own router", with(own(public)), specWith("10.1.0.0/24", "", own(public))),
	edit("another CIDR, at an existing router", with(existing(shared)), specWith("10.1.0.0/24", "", existing(shared))),
	edit("another existing router", with(existing(shared)), with(existing(other))),
	edit("an existing router instead of an own one", with(own(public)), with(existing(shared))),
	edit("another external network", with(own(public)), with(own(public2))),
	edit("the router goes", with(own(public)), with()),
	edit("gateway moves", with(), spec("10.0.0.0/24", "10.0.0.9")),
	edit("gateway moves, with an own router", with(own(public)), specWith("10.0.0.0/24", "10.0.0.9", own(public))),
	edit("gateway moves, at an existing router", with(existing(shared)), specWith("10.0.0.0/24", "10.0.0.9", existing(shared))),
	edit("a subnet is added", with(existing(shared)), with(existing(shared), additional("a", "10.1.0.0/24"))),
	edit("a subnet goes", with(existing(shared), additional("a", "10.1.0.0/24")), with(existing(shared))),
}

// noSuchZones: Neutron does not know the availability zones of the next router.
var noSuchZones = []Impossible{
	{Name: "an own router in an availability zone that is not there", Start: with(own(public)), Want: with(routerIn("nowhere")), Names: []string{"nowhere"}, Corrected: with(routerIn("az2"))},
	{Name: "an own router in an availability zone that is not there, instead of an existing one", Start: with(existing(shared)), Want: with(routerIn("nova", "nowhere")), Names: []string{"nowhere"}, Corrected: with(routerIn("nova"))},
	{Name: "an own router in an availability zone that is not there, and a CIDR that grows", Start: with(own(public)), Want: specWith("10.0.0.0/16", "", routerIn("nowhere")), Names: []string{"nowhere"}, Corrected: specWith("10.0.0.0/16", "", routerIn("az2"))},
	{Name: "an own router in an availability zone that is not there yet", Start: with(own(public)), Want: with(routerIn("az2")),
		Obstruct: refusing(http.MethodPost, "/routers", embedded.Fault{Status: http.StatusNotFound, Type: "AvailabilityZoneNotFound", Message: "AvailabilityZone az2 could not be found."}), Names: []string{"az2"}},
}

// noSuchHops: the router has no subnet of a next hop, or a route of somebody else is in the way.
var noSuchHops = []Impossible{
	{Name: "a route via nothing", Start: with(routes(toA)), Want: with(routes(toB, "10.97.0.0/16 via 10.66.0.7")), Names: []string{"10.66.0.7"}, Corrected: with(routes(toB))},
	{Name: "a route via the router itself", Start: with(own(public)), Want: with(routes("10.97.0.0/16 via 10.0.0.1")), Names: []string{"used by router"}, Corrected: with(routes(toB))},
	{Name: "next CIDR without the next hops", Start: with(routes(toA)), Want: specWith("10.1.0.0/24", "", routes(toA)), Names: []string{"10.0.0.7"}, Corrected: specWith("10.1.0.0/24", "", routes(toB1))},
	{Name: "CIDR that shrinks from under a next hop", Start: with(routes("10.97.0.0/16 via 10.0.0.200")), Want: specWith("10.0.0.0/25", "", routes("10.97.0.0/16 via 10.0.0.200")), Names: []string{"10.0.0.200"}, Corrected: specWith("10.0.0.0/25", "", routes(toA))},
	{Name: "subnet removed from under a declared route", Start: with(dualStack, routes(toA, to6)), Want: with(routes(toA, to6)), Names: []string{"fd00:1::7"}, Corrected: with(routes(toA))},
	{Name: "the gateway moves to a next hop", Start: with(routes(toA)), Want: specWith("10.0.0.0/24", "10.0.0.7", routes(toA)), Names: []string{"10.0.0.7"}, Corrected: specWith("10.0.0.0/24", "10.0.0.9", routes(toA))},
	{Name: "a route of somebody else at the own router, and a gateway that moves", Start: with(own(public)), Want: specWith("10.0.0.0/24", "10.0.0.9", own(public)), Obstruct: route("", "10.0.0.77"), Names: []string{"route"}},
	{Name: "a route of somebody else beside one of the Network, and a CIDR that grows", Start: with(own(public), additional("a", "10.1.0.0/24")), Want: specWith("10.0.0.0/16", "", own(public), additional("a", "10.1.0.0/16")), Obstruct: route("", "10.1.0.77"), Names: []string{"route"}},
	{Name: "an unforeseen refusal of routes", Start: with(routes(toA)), Want: with(routes(toB)), Obstruct: refusing(http.MethodPut, "/routers/ID", unforeseen), Names: []string{"plug-in"}},
}

const onlyNeutronKnows = "only Neutron knows what is free in a subnet pool, and it takes all subnets of a network from one pool"

// poolsInTheWay: the subnet pool is not there, has no room, or does not allow what the edit asks for.
var poolsInTheWay = []Impossible{
	{Name: "a subnet pool that is not there", Start: with(), Want: with(fromID(unknown, 24)), Reason: samplecrdv1.ReasonReferenceNotFound, Names: []string{unknown}, Corrected: with(from(team, 24))},
	{Name: "a subnet pool that is not there yet, by its name, at a router", Start: with(own(public), from(team, 24), another("b", team, 24)), Want: with(own(public), from(notYet, 24), another("b", notYet, 24)),
		Reason: samplecrdv1.ReasonReferenceNotFound, Names: []string{notYet}, Clear: later("subnetpool", notYet), NeedsNames: true},
	{Name: "a subnet pool that somebody has deleted", Start: with(own(public)), Want: with(own(public), from(others, 24)), Obstruct: withoutPool(others), NeedsNames: true, Reason: samplecrdv1.ReasonReferenceNotFound, Names: []string{`"others"`}},
	{Name: "a subnet pool's name that is ambiguous", Start: with(), Want: with(from(others, 24)), Obstruct: twin("subnetpool", others), NeedsNames: true, Reason: samplecrdv1.ReasonReferenceNotFound, Names: []string{others}},
	{Name: "a subnet pool without room for one more subnet", Start: with(own(public), from(small, 25)), Want: with(own(public), from(small, 25), another("b", small, 25)), Obstruct: block(small, 25),
		Reason: samplecrdv1.ReasonSubnetPoolExhausted, Names: []string{"no /25 from subnet pool small is free"}},
	{Name: "a subnet pool without room for another prefix length", Start: with(from(small, 24)), Want: with(from(small, 25)), Clear: extendPool(small, "10.22.0.0/23"),
		Reason: samplecrdv1.ReasonSubnetPoolExhausted, Names: []string{"no /25 from subnet pool small is free"}},
	{Name: "a subnet pool without room, in place of a CIDR", Start: with(), Want: with(from(small, 24)), Obstruct: block(small, 25),
		Reason: samplecrdv1.ReasonSubnetPoolExhausted, Names: []string{"no /24 from subnet pool small is free"}, Costs: onlyNeutronKnows, Taken: "10.0.0.0/24"},
	{Name: "a prefix length that is too long for the subnet pool", Start: with(from(team, 24)), Want: with(from(team, 28)), Obstruct: poolChange(team, map[string]any{"max_prefixlen": 26}, map[string]any{"max_prefixlen": 32}), NeedsNames: true,
		Reason: samplecrdv1.ReasonInvalidSpec, Names: []string{"more than 26", "maximum allowed prefix is 26"}},
	{Name: "a prefix length that is too short for the subnet pool, in place of a CIDR", Start: with(existing(shared)), Want: with(existing(shared), from(team, 20)), NeedsNames: true,
		Obstruct: poolChange(team, map[string]any{"min_prefixlen": 22, "default_prefixlen": 22}, map[string]any{"min_prefixlen": 8}), Reason: samplecrdv1.ReasonInvalidSpec, Names: []string{"less than 22", "minimum allowed prefix is 22"}},
	{Name: "a prefix length that no prefix of the subnet pool has", Start: with(from(small, 24)), Want: with(from(small, 20)), Reason: samplecrdv1.ReasonInvalidSpec, Names: []string{"no prefix of subnet pool small"}, Corrected: with(from(team, 20))},
	{Name: "quota in the subnet pool full, and one more subnet", Start: with(from(team, 24)), Want: with(from(team, 24), another("b", team, 24)), Obstruct: poolChange(team, map[string]any{"default_quota": 256}, map[string]any{"default_quota": 1 << 20}),
		Reason: samplecrdv1.ReasonQuotaExceeded, Names: []string{"quota exceeded"}},
	{Name: "a stranger's subnet that is from no pool", Start: with(), Want: with(from(team, 24)), Obstruct: strangersSubnet("10.66.0.0/24"), Reason: samplecrdv1.ReasonInvalidSpec, Names: []string{"10.66.0.0/24"}},
	{Name: "a server in a subnet from a subnet pool that is replaced", Start: with(own(public), from(team, 24)), Want: with(own(public), from(others, 24)), Obstruct: server(""), Reason: samplecrdv1.ReasonInUse, Names: []string{"web-0"}},
}

const restIsDone = "what holds up the sharing holds up nothing else of the edit"

// projectsInTheWay: a project that is to lose the network has a port on it, or the quota of RBAC policies is full.
var projectsInTheWay = []Impossible{
	{Name: "a server of a project that loses the network", Start: with(sharedWith(projectA)), Want: with(), Obstruct: serverOf(projectA), EveryRequest: true, Reason: samplecrdv1.ReasonInUse, Names: []string{"web-0"}},
	{Name: "a server of one of two projects that lose the network, and another project", Start: with(sharedWith(projectA, projectB)), Want: with(sharedWith("dddddddddddddddddddddddddddddddd")), Obstruct: serverOf(projectB), EveryRequest: true,
		Reason: samplecrdv1.ReasonInUse, Names: []string{"web-0"}, Costs: restIsDone},
	{Name: "a server of a project that loses the network, and another CIDR", Start: with(own(public), sharedWith(projectA)), Want: specWith("10.1.0.0/24", "", own(public)), Obstruct: serverOf(projectA),
		Reason: samplecrdv1.ReasonInUse, Names: []string{"web-0"}},
	{Name: "quota of RBAC policies full, and one more project", Start: with(sharedWith(projectA)), Want: with(sharedWith(projectA, projectB)), Obstruct: quota("rbac_policy", 0), Reason: samplecrdv1.ReasonQuotaExceeded, Names: []string{"rbac_policy"}},
	{Name: "more RBAC policies than the quota allows, another project, and another CIDR", Start: with(sharedWith(projectA)), Want: specWith("10.0.0.0/16", "", sharedWith(projectB)), Obstruct: quota("rbac_policy", 1), Reason: samplecrdv1.ReasonQuotaExceeded, Names: []string{"rbac_policy"},
		Costs: restIsDone},
}
