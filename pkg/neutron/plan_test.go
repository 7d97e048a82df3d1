// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"go4.org/netipx"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const testName = "default/web"

// declaredAs returns the view of a Network of that owner, with these subnets.
func declaredAs(owner Owner, subnets ...DesiredSubnet) View {
	return View{Identity: Identity{Owner: owner}, Desired: Desired{Network: DesiredNetwork{Name: testName, Mark: owner.Mark()}, Subnets: subnets}}
}

// viewOf returns the view of a Network.
func viewOf(t *testing.T, network *samplecrdv1.Network) View {
	t.Helper()
	desired, err := NewDesired(network, owner.Cluster)
	noError(t, err)
	return View{Identity: NewIdentity(network, owner.Cluster), Desired: desired}
}

// at returns the view when Neutron has this network.
func at(v View, observed *Observed) *View {
	v.Observed = observed
	return &v
}

// wants returns the desired state of a Network with that CIDR. The gateway is an address,
// "none", or "" for Neutron's default.
func wants(cidrText, gateway string, changes ...func(*View)) View {
	subnet := DesiredSubnet{CIDR: cidr(cidrText)}
	if gateway == "none" {
		subnet.NoGateway = true
	} else {
		subnet.Gateway = addr(gateway)
	}
	want := declaredAs(owner, subnet)
	for _, change := range changes {
		change(&want)
	}
	for i := range want.Subnets {
		s := &want.Subnets[i]
		s.Mark, s.Name = want.Owner.Mark(), want.Network.Name
		if s.Label != "" {
			s.Name = want.Network.Name + "/" + s.Label
		}
	}
	return want
}

func knowing(ids ...string) func(*View) { return func(d *View) { d.SubnetIDs = ids } }

// with adds another subnet to a desired state.
func with(label, cidrText string, changes ...func(*DesiredSubnet)) func(*View) {
	return func(d *View) {
		s := DesiredSubnet{Label: label, CIDR: cidr(cidrText)}
		for _, change := range changes {
			change(&s)
		}
		d.Subnets = append(d.Subnets, s)
	}
}

// has returns the owner's network with those subnets.
func has(subnets ...Subnet) *Observed {
	return &Observed{Network: Network{ID: "n", Name: testName, Description: owner.Mark(), Subnets: subnets}}
}

// ours returns a subnet as the controller creates it.
func ours(id, cidrText, gateway string) Subnet {
	s := Subnet{ID: id, NetworkID: "n", Name: testName, Description: owner.Mark(), CIDR: cidr(cidrText), Gateway: addr(gateway), DHCP: true}
	s.Pools, _ = allocationPools(s.CIDR, s.Gateway).(Pools)
	return s
}

// described returns the subnet with another description.
func described(description string, s Subnet) Subnet {
	s.Description = description
	return s
}

func withName(name string, s Subnet) Subnet {
	s.Name = name
	return s
}

func creates(cidrText, gateway string, replaces ...string) CreateSubnet {
	return CreateSubnet{Subnet: wants(cidrText, gateway).Subnets[0], Replaces: replaces}
}

// markedSubnet creates a subnet without a name, and with that description.
func markedSubnet(cidrText, description string) CreateSubnet {
	return CreateSubnet{Subnet: DesiredSubnet{CIDR: cidr(cidrText), Mark: description}}
}

// creating creates a network of that name.
func creating(name string) CreateNetwork {
	return CreateNetwork{DesiredNetwork{Name: name, Mark: owner.Mark()}}
}

// These are the changes of a network and of a subnet.

func toName(label, name string) Change { return Change{Name: "name", Label: label, Value: name} }
func toMark(label string) Change {
	return Change{Name: "description", Label: label, Role: roleMark, Value: owner.Mark()}
}

func renaming(name string) UpdateNetwork {
	return UpdateNetwork{[]Change{toName("network name", name)}}
}

func renamingSubnet(id, name string) UpdateSubnet {
	return UpdateSubnet{ID: id, Changes: []Change{toName("subnet name", name)}}
}

// toGateway changes the gateway to an address of the spec, or to none for "", and the pools to the
// default ones.
func toGateway(address string, pools ...string) []Change {
	return []Change{
		{Name: "gateway_ip", Label: "gateway", Role: roleGateway, Value: addr(address)},
		{Name: "allocation_pools", Label: "allocation pools", Role: rolePools, Value: ranges(pools...), IsDefault: true},
	}
}

// toDefaultGateway is toGateway for Neutron's choice.
func toDefaultGateway(address string, pools ...string) []Change {
	changes := toGateway(address, pools...)
	changes[0].IsDefault = true
	return changes
}

func ranges(texts ...string) Pools {
	var all []netipx.IPRange
	for _, text := range texts {
		all = append(all, netipx.MustParseIPRange(text))
	}
	return NewPools(all...)
}

func TestNext(t *testing.T) {
	const (
		id       = "a"
		stranger = "another client's"
	)
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}.Mark()
	elsewhere := Owner{Cluster: "another cluster", UID: owner.UID}.Mark()
	right := ours(id, "192.168.0.0/16", "192.168.0.1")
	inPool := func(d *View) { d.Subnets[0].Pools = ranges("192.168.0.1-192.168.0.9") }
	for _, test := range []struct {
		name, reason string
		want         View
		have         *Observed
		step         Step
	}{
		{"there is no network", "the network is created first, with its mark",
			wants("192.168.0.0/16", "192.168.0.1"), &Observed{},
			CreateNetwork{wants("192.168.0.0/16", "192.168.0.1").Network}},
		{"there is a network without a subnet", "a crash between the two creates leaves this state",
			wants("192.168.0.0/16", "192.168.0.1"), has(),
			creates("192.168.0.0/16", "192.168.0.1")},
		{"Neutron matches the spec", "an idle sync makes no request",
			wants("192.168.0.0/16", "192.168.0.1"), has(right), nil},
		{"the gateway was changed in the spec", "the pools change with it, or Neutron refuses the request",
			wants("192.168.0.0/16", "192.168.1.1"), has(right),
			UpdateSubnet{ID: id, Changes: toGateway("192.168.1.1", "192.168.0.1-192.168.1.0", "192.168.1.2-192.168.255.254")}},
		{"the gateway was removed from the spec", "the plan sets Neutron's default, since Neutron chooses only at the create",
			wants("192.168.0.0/16", ""), has(ours(id, "192.168.0.0/16", "192.168.1.1")),
			UpdateSubnet{ID: id, Changes: toDefaultGateway("192.168.0.1", "192.168.0.2-192.168.255.254")}},
		{"the gateway was set to None", "the address returns to the pool",
			wants("192.168.0.0/16", "none"), has(right),
			UpdateSubnet{ID: id, Changes: toGateway("", "192.168.0.1-192.168.255.254")}},
		{"another client removed the default gateway", "no gateway in the spec does not mean None",
			wants("192.168.0.0/16", ""), has(ours(id, "192.168.0.0/16", "")),
			UpdateSubnet{ID: id, Changes: toDefaultGateway("192.168.0.1", "192.168.0.2-192.168.255.254")}},
		{"IPv6 with the network address as Neutron's default", "newer releases choose the subnet-router anycast address",
			wants("fd00:1::/64", ""), has(ours(id, "fd00:1::/64", "fd00:1::")), nil},
		{"IPv6 with the first host as Neutron's default", "older releases choose it",
			wants("fd00:1::/64", ""), has(ours(id, "fd00:1::/64", "fd00:1::1")), nil},
		{"IPv6 with a gateway that is not a default", "another client set the second host",
			wants("fd00:1::/64", ""), has(ours(id, "fd00:1::/64", "fd00:1::2")),
			UpdateSubnet{ID: id, Changes: toDefaultGateway("fd00:1::", "fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")}},
		{"IPv6 with the other default", "an address in the spec must match exactly",
			wants("fd00:1::/64", "fd00:1::1"), has(ours(id, "fd00:1::/64", "fd00:1::")),
			UpdateSubnet{ID: id, Changes: toGateway("fd00:1::1", "fd00:1::2-fd00:1::ffff:ffff:ffff:ffff")}},
		{"the CIDR was changed to one that does not overlap", "the new subnet is created first, so there is always one",
			wants("10.0.0.0/24", ""), has(right),
			creates("10.0.0.0/24", "", id)},
		{"both the new and the old subnet exist", "the second half of the replacement",
			wants("10.0.0.0/24", ""), has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			DeleteSubnet{ID: id, CIDR: right.CIDR}},
		{"the CIDR was made smaller", "Neutron refuses overlapping subnets, so the old one is deleted first",
			wants("192.168.0.0/24", ""), has(right),
			DeleteSubnet{ID: id, CIDR: right.CIDR}},
		{"the CIDR was changed to one that is too small for DHCP", "Neutron always refuses it, so no subnet is deleted for it",
			wants("192.168.0.0/31", ""), has(right),
			creates("192.168.0.0/31", "", id)},
		{"the CIDR was changed to one whose pools contain the default gateway", "Neutron always refuses it too",
			wants("192.168.0.0/24", "", inPool), has(right),
			CreateSubnet{Subnet: wants("192.168.0.0/24", "", inPool).Subnets[0], Replaces: []string{id}}},
		{"the old subnet exists, and the gateway of the new one differs", "the new subnet is updated before the old one is deleted",
			wants("10.0.0.0/24", "10.0.0.9"), has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			UpdateSubnet{ID: "b", Changes: toGateway("10.0.0.9", "10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.254")}},
		{"the subnet was made twice at the same moment", "the one in the status stays",
			wants("192.168.0.0/16", "", recordedAs("", "b")), has(right, ours("b", "192.168.0.0/16", "192.168.0.1")),
			DeleteSubnet{ID: id, CIDR: right.CIDR}},
		{"the subnet was made twice, and one is attached", "it stays, also if the status has the other one",
			wants("192.168.0.0/16", "", on("r"), recorded("r", "port-b"), recordedAs("", id)),
			connected(has(right, ours("b", "192.168.0.0/16", "192.168.0.1")), Interface{PortID: "port-b", RouterID: "r", SubnetID: "b", Address: addr("192.168.0.1")}),
			DeleteSubnet{ID: id, CIDR: right.CIDR}},
		{"the subnet was made twice, and a port looks as if it attached the other one", "the interface that Neutron has confirmed counts",
			wants("192.168.0.0/16", "", on("r"), recorded("r", "port-a")),
			connected(has(right, ours("b", "192.168.0.0/16", "192.168.0.1")), Interface{PortID: "port-a", RouterID: "r", SubnetID: id, Address: addr("192.168.0.1")},
				Interface{PortID: "port-b", RouterID: "r", SubnetID: "b", Address: addr("192.168.0.9")}),
			DetachSubnet{Router: "r", Subnet: "b", CIDR: right.CIDR, Replaces: []string{"b"}}},
		{"a subnet is added beside one that was made twice", "it does not take the place of the second one, which can have ports",
			wants("192.168.0.0/16", "", with("more", "10.3.0.0/24"), recordedAs("", "b")), has(right, ours("b", "192.168.0.0/16", "192.168.0.1")),
			CreateSubnet{Subnet: wants("192.168.0.0/16", "", with("more", "10.3.0.0/24")).Subnets[1]}},
		{"a second IP family was added", "the subnet of the first family stays, and is not replaced",
			wants("192.168.0.0/16", "", with("v6", "fd00:1::/64")), has(right),
			CreateSubnet{Subnet: wants("192.168.0.0/16", "", with("v6", "fd00:1::/64")).Subnets[1]}},
		{"two old subnets exist, of which one overlaps", "only a subnet that overlaps is deleted before the create",
			wants("10.0.0.0/24", ""), has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.0.0.0/16", "10.0.0.1")),
			DeleteSubnet{ID: "b", CIDR: cidr("10.0.0.0/16"), Others: []string{"a"}}},
		{"two old subnets exist, and none overlaps", "both are deleted after the create, so neither may have ports",
			wants("10.0.0.0/24", ""), has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.2.0.0/24", "10.2.0.1")),
			creates("10.0.0.0/24", "", "a", "b")},
		{"an unmanaged subnet has the same CIDR", "Neutron refuses the create, and its message explains why",
			wants("192.168.0.0/16", "192.168.9.9"), has(described(stranger, right)),
			creates("192.168.0.0/16", "192.168.9.9")},
		{"an unmanaged subnet overlaps the new CIDR", "the plan does not delete it even then",
			wants("10.0.0.0/16", ""), has(described("", ours("b", "10.0.0.0/24", "10.0.0.1"))),
			creates("10.0.0.0/16", "")},
		{"the known subnet has no mark", "the subnet in the status is still owned, so its mark is restored",
			wants("192.168.0.0/16", "", knowing(id)), has(described("", right)),
			UpdateSubnet{ID: id, Changes: []Change{toMark("subnet mark")}}},
		{"the known subnet carries another Network's mark", "a mark takes precedence over the ID in the status",
			wants("192.168.0.0/16", "", knowing(id)), has(described(other, right)),
			creates("192.168.0.0/16", "")},
		{"a subnet of the same UID in another cluster exists too", "a backup that is restored in another cluster keeps its UIDs",
			wants("10.0.0.0/24", ""), has(ours(id, "10.0.0.0/24", "10.0.0.1"), described(elsewhere, ours("b", "10.1.0.0/24", "10.1.0.1"))), nil},
		{"all fields of the subnet were changed", "one request repairs all of them",
			wants("10.0.0.0/30", "10.0.0.1", knowing(id)), has(withName("", described("", ours(id, "10.0.0.0/30", "10.0.0.2")))),
			UpdateSubnet{ID: id, Changes: slices.Concat([]Change{toName("subnet name", testName), toMark("subnet mark")}, toGateway("10.0.0.1", "10.0.0.2-10.0.0.2"))}},
		{"the mark of the network was overwritten", "it is restored before the subnets are changed",
			wants("10.0.0.0/24", ""), &Observed{Network: Network{ID: "n", Name: testName, Description: "hello", Subnets: []Subnet{right}}},
			UpdateNetwork{[]Change{toMark(fieldNetworkMark)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.step, at(test.want, test.have).Next())
			if t.Failed() {
				t.Log("the reason for this row: " + test.reason)
			}
		})
	}
}

// The embedded Neutron refuses the same subnets, and chooses the same pools for the others. The contract tests compare
// it with the real one.
func TestTheEmbeddedNeutronRefusesTheSameSubnets(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	client, tried, refused := w.Client(), 0, 0
	network, err := client.CreateNetwork(t.Context(), creating("x").fields())
	noError(t, err)
	for _, first := range []string{"0.0.0.0", "0.1.0.0", "10.0.0.0", "126.0.0.0", "127.1.0.0", "224.0.0.0", "239.255.255.0", "240.0.0.0", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.0", "::ffff:224.0.0.0", "fd00::", "fe80::", "ff00::", "ff02::1"} {
		for bits := range addr(first).BitLen() + 1 {
			cidr := netip.PrefixFrom(addr(first), bits).Masked()
			last := netipx.PrefixLastIP(cidr)
			for _, subnet := range []DesiredSubnet{{CIDR: cidr}, {CIDR: cidr, NoGateway: true}, {CIDR: cidr, Gateway: cidr.Addr()},
				{CIDR: cidr, Gateway: last}, {CIDR: cidr, Gateway: last.Prev()}} {
				if subnet.Gateway.IsValid() && !cidr.Contains(subnet.Gateway) {
					continue
				}
				for _, subnet.NoDHCP = range []bool{false, true} {
					if subnet.NoDHCP && cidr.Addr() == addr("255.255.255.255") && !subnet.NoGateway {
						continue // Neutron answers 500: there is no next address
					}
					created, err := client.CreateSubnet(t.Context(), network.ID, CreateSubnet{Subnet: subnet}.fields())
					if err != nil && ReasonOf(err) != Invalid || (err != nil) != isRefused(&subnet) {
						t.Errorf("%+v: Neutron answers %v; isRefused returns %v", subnet, err, isRefused(&subnet))
					}
					if tried++; err != nil {
						refused++
						continue
					}
					hasNoHosts := cidr.IsSingleIP() || cidr.Addr().Is4() && cidr.Bits() == 31
					pools := allocationPools(created.CIDR, created.Gateway)
					if hasNoHosts != (pools == nil) || !hasNoHosts && pools != created.Pools {
						t.Errorf("%+v: Neutron chooses the pools %q, allocationPools returns %q", subnet, created.Pools, pools)
					}
					noError(t, client.DeleteSubnet(t.Context(), created.ID, nil))
				}
			}
		}
	}
	t.Logf("%d subnets, %d refused", tried, refused)
}

func TestWhatIsIrreversible(t *testing.T) {
	for _, step := range []Step{CreateNetwork{}, DeleteSubnet{}, DeleteNetwork{}, CreateRouter{}, AttachSubnet{}, DetachSubnet{}, DeleteRouter{}, ImportNetwork{}, WithdrawImport{}, ShareNetwork{}, UnshareNetwork{},
		UnmarkNetwork{}, UnmarkImport{}, UnmarkSubnet{}, UnmarkRouter{}, RemoveRoutes{}, SetRoutes{Routes: toA, Before: toA2}} {
		equal(t, false, effectOf(step).isReversible)
	}
	for _, step := range []Step{UpdateNetwork{}, CreateSubnet{}, UpdateSubnet{}, SetTags{}, UpdateRouter{}, SetRoutes{Routes: toA + ", " + to6, Before: toA}} {
		equal(t, true, effectOf(step).isReversible)
	}
}

// simulate applies the step to a copy of the network, with the rules of Neutron that the
// plan must follow. It returns false if Neutron would refuse the step.
func simulate(t *testing.T, have *Observed, step Step) (*Observed, bool) {
	t.Helper()
	next := *have
	next.Subnets = slices.Clone(have.Subnets)
	switch step := step.(type) {
	case CreateNetwork:
		next.Network = changed(Network{ID: "n"}, creation(networkTable, &step.Network))
	case UpdateNetwork:
		next.Network = changed(next.Network, update(step.Changes))
		next.copyRead(&have.Network)
	case CreateSubnet:
		if !step.Subnet.NoDHCP && neutronRefuses(step.Subnet) || slices.ContainsFunc(have.Subnets, func(s Subnet) bool { return s.CIDR.Overlaps(step.Subnet.CIDR) }) {
			return have, false
		}
		s := Subnet{ID: fmt.Sprint("new ", step.Subnet.CIDR), NetworkID: "n", CIDR: step.Subnet.CIDR, Gateway: step.Subnet.CIDR.Addr().Next(), DHCP: true}
		fields := creation(subnetTable, &step.Subnet)
		s = changed(s, fields)
		if fields["allocation_pools"] == nil {
			s.Pools, _ = allocationPools(s.CIDR, s.Gateway).(Pools)
		}
		next.Subnets = append(next.Subnets, s)
	case UpdateSubnet:
		s := next.subnet(step.ID)
		if s == nil {
			t.Fatalf("%+v: there is no such subnet", step)
		}
		fields := update(step.Changes)
		before := s.Gateway
		*s = changed(*s, fields)
		if s.Gateway.IsValid() && s.Gateway != before && holdsAddress(have, s.ID, before) {
			return have, false
		}
		for _, pool := range poolsIn(t, s.Pools) {
			if pool.Contains(s.Gateway) || !s.CIDR.Contains(pool.From()) || !s.CIDR.Contains(pool.To()) {
				t.Errorf("%+v: Neutron refuses the pool %s", step, pool)
			}
		}
	case DeleteSubnet:
		if next.subnet(step.ID) == nil {
			t.Fatalf("%+v: there is no such subnet", step)
		}
		if slices.ContainsFunc(have.Interfaces, func(i Interface) bool { return i.SubnetID == step.ID }) {
			return have, false
		}
		next.Subnets = slices.DeleteFunc(next.Subnets, func(s Subnet) bool { return s.ID == step.ID })
	case SetTags:
		next.Tags = step.Tags
	case ImportNetwork:
		next.Tags, next.Imported = NewTags(append(have.Tags.All(), step.Owner.ImportTag())...), true
	default:
		return simulateRouter(t, have, step)
	}
	return &next, true
}

// neutronRefuses is isRefused, by the addresses that the subnet has.
func neutronRefuses(subnet DesiredSubnet) bool {
	addresses := netipx.RangeOfPrefix(subnet.CIDR)
	first, last := addresses.From(), addresses.To()
	for _, text := range []string{"224.0.0.0-239.255.255.255", "127.0.0.0-127.255.255.255", "ff00::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		if p := netipx.MustParseIPRange(text); p.Contains(first) && p.Contains(last) {
			return true
		}
	}
	few := first == last || first.Next() == last
	all := !first.Prev().IsValid() && !last.Next().IsValid()
	edge := first.Is4() && subnet.Gateway.IsValid() && (subnet.Gateway == first || subnet.Gateway == last)
	return few || all || edge || first.Is4() && first.IsUnspecified()
}

// changed returns the object with these fields of a request.
func changed[T any](object T, fields map[string]any) (next T) {
	all := map[string]any{}
	for _, o := range []any{object, fields} {
		text, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			panic(err)
		}
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, &next)
	}
	if err != nil {
		panic(err)
	}
	return next
}

// poolsIn returns the ranges of the pools.
func poolsIn(t *testing.T, pools Pools) (all []netipx.IPRange) {
	t.Helper()
	for _, text := range elements(pools) {
		r, err := netipx.ParseIPRange(text)
		noError(t, err)
		all = append(all, r)
	}
	return all
}

// strangersSubnets returns the unmanaged subnets, which the plan must not change.
func strangersSubnets(want View, n *Observed) []Subnet {
	return slices.DeleteFunc(slices.Clone(n.Subnets), func(s Subnet) bool {
		owner, marked := OwnerOf(s.Description)
		return marked && owner == want.Owner || !marked && slices.Contains(want.SubnetIDs, s.ID)
	})
}

// startingStates returns networks with each set of up to three of the subnets, and with each
// state of the network itself. Subnets overlap only if they are equal: Neutron refuses others, but two requests at the same moment
// can make two of one CIDR.
func startingStates(subnets []Subnet) []*Observed {
	states := []*Observed{{}}
	var grow func(chosen []Subnet, rest []Subnet)
	grow = func(chosen, rest []Subnet) {
		for _, network := range []Network{
			{ID: "n", Name: testName, Description: owner.Mark()},
			{ID: "n", Name: "x", Description: owner.Mark()},
			{ID: "n", Name: testName},
		} {
			network.Subnets = chosen
			states = append(states, &Observed{Network: network})
		}
		for i, s := range rest {
			if len(chosen) < 3 && !slices.ContainsFunc(chosen, func(c Subnet) bool { return c.CIDR.Overlaps(s.CIDR) && c.CIDR != s.CIDR }) {
				grow(append(slices.Clone(chosen), s), rest[i+1:])
			}
		}
	}
	grow(nil, subnets)
	return states
}

func checkStep(t *testing.T, want View, have *Observed, step Step) {
	t.Helper()
	untouchable := strangersSubnets(want, have)
	touches := func(id string) {
		if slices.ContainsFunc(untouchable, func(s Subnet) bool { return s.ID == id }) {
			t.Errorf("%+v changes an unmanaged subnet", step)
		}
	}
	switch step := step.(type) {
	case UpdateSubnet:
		touches(step.ID)
	case DeleteSubnet:
		touches(step.ID)
		inTheWay := step.CIDR.Overlaps(want.Subnets[0].CIDR)
		if !inTheWay && at(want, have).findSubnet(&want.Subnets[0]) == nil {
			t.Errorf("%+v comes before the create of the new subnet, which it does not overlap", step)
		}
	case CreateSubnet:
		var obsolete []string
		for _, s := range at(want, have).obsoleteSubnets() {
			touches(s.ID)
			obsolete = append(obsolete, s.ID)
		}
		equal(t, obsolete, step.Replaces)
	}
}

// A network must not lose its subnet while ports prevent the creation of the new one. So as long
// as there is no new subnet, and an obsolete one has ports, no step may change the subnets.
func TestPortsOnAnyObsoleteSubnetPreventTheReplacement(t *testing.T) {
	t.Parallel()
	const wanted = "10.0.0.0/24"
	states := startingStates([]Subnet{
		ours("right", wanted, "10.0.0.1"),
		ours("its twin", wanted, "10.0.0.1"),
		ours("contains it", "10.0.0.0/16", "10.0.0.1"),
		ours("lower half", "10.0.0.0/25", "10.0.0.1"),
		ours("upper half", "10.0.0.128/25", "10.0.0.129"),
		ours("elsewhere", "10.1.0.0/24", "10.1.0.1"),
		ours("elsewhere too", "10.2.0.0/24", ""),
		ours("IPv6", "fd00:1::/64", "fd00:1::"),
	})
	want := wants(wanted, "")
	refusals := 0
	for _, start := range states {
		obsolete := at(want, start).obsoleteSubnets()
		for ports := range 1 << len(obsolete) {
			var used []string
			for i, s := range obsolete {
				if ports>>i&1 == 1 {
					used = append(used, s.ID)
				}
			}
			have := start
			for step := at(want, have).Next(); step != nil; step = at(want, have).Next() {
				s := blockersOf(step, identity, have)
				if slices.ContainsFunc(s.subnets, func(id string) bool { return slices.Contains(used, id) }) {
					refusals++
					break
				}
				var taken bool
				if have, taken = simulate(t, have, step); !taken {
					t.Fatalf("Neutron refuses %+v", step)
				}
			}
			left := func(id string) bool { return have.subnet(id) != nil }
			for _, id := range used {
				if !left(id) {
					t.Errorf("%+v, ports on %q: the subnet %s is gone", start, used, id)
				}
			}
			isCreated := at(want, have).findSubnet(&want.Subnets[0]) != nil
			wasCreated := at(want, start).findSubnet(&want.Subnets[0]) != nil
			if len(used) > 0 && !wasCreated && (isCreated || len(have.Subnets) != len(start.Subnets)) {
				t.Errorf("%+v, ports on %q: the subnets became %+v", start, used, have.Subnets)
			}
			if len(used) == 0 {
				checkGoal(t, want, have)
			}
		}
	}
	t.Logf("%d states, %d refusals", len(states), refusals)
}

func checkGoal(t *testing.T, want View, have *Observed) {
	t.Helper()
	equal(t, want.Network.Name+" "+want.Owner.Mark(), have.Name+" "+have.Description)
	own := has(have.Subnets...)
	own.Subnets = slices.DeleteFunc(slices.Clone(have.Subnets), func(s Subnet) bool { return s.Description != want.Owner.Mark() })
	if len(own.Subnets) != 1 {
		t.Errorf("got %d owned subnets at the end, want 1", len(own.Subnets))
		return
	}
	subnet, goal := own.Subnets[0], want.Subnets[0]
	equal(t, fmt.Sprint(goal.CIDR, want.Network.Name), fmt.Sprint(subnet.CIDR, subnet.Name))
	switch first := goal.CIDR.Addr(); {
	case goal.NoGateway:
		equal(t, addr(""), subnet.Gateway)
	case goal.Gateway.IsValid():
		equal(t, goal.Gateway, subnet.Gateway)
	case subnet.Gateway != first.Next() && (first.Is4() || subnet.Gateway != first):
		t.Errorf("the gateway is %s", subnet.Gateway)
	}
}
