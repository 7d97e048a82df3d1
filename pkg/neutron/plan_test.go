/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package neutron

import (
	"fmt"
	"slices"
	"testing"

	"go4.org/netipx"
)

const testName = "default/web"

// wants returns what a Network of that CIDR asks for; the gateway is an address, "none",
// or "" for Neutron's choice.
func wants(cidrText, gateway string, changes ...func(*Desired)) Desired {
	subnet := DesiredSubnet{CIDR: cidr(cidrText)}
	if gateway == "none" {
		subnet.NoGateway = true
	} else {
		subnet.Gateway = addr(gateway)
	}
	want := Desired{Owner: owner, Name: testName, Subnets: []DesiredSubnet{subnet}}
	for _, change := range changes {
		change(&want)
	}
	return want
}

func knowing(id string) func(*Desired) { return func(d *Desired) { d.Known = id } }

// has returns the owner's network with those subnets.
func has(subnets ...Subnet) *Network {
	return &Network{ID: "n", Name: testName, Description: owner.Mark(), Subnets: subnets}
}

// ours returns a subnet that is as the controller made it.
func ours(id, cidrText, gateway string) Subnet {
	return Subnet{ID: id, NetworkID: "n", Name: testName, Description: owner.Mark(), CIDR: cidr(cidrText), Gateway: addr(gateway)}
}

// described returns the subnet with another description.
func described(description string, s Subnet) Subnet {
	s.Description = description
	return s
}

func named(name string, s Subnet) Subnet {
	s.Name = name
	return s
}

func creates(cidrText, gateway, replaces string) CreateSubnet {
	return CreateSubnet{Subnet: wants(cidrText, gateway).Subnets[0], Name: testName, Description: owner.Mark(), Replaces: replaces}
}

func ranges(texts ...string) []netipx.IPRange {
	var all []netipx.IPRange
	for _, text := range texts {
		all = append(all, netipx.MustParseIPRange(text))
	}
	return all
}

func TestNext(t *testing.T) {
	const (
		id       = "a"
		stranger = "somebody's own"
	)
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}.Mark()
	elsewhere := Owner{Cluster: "another cluster", UID: owner.UID}.Mark()
	right := ours(id, "192.168.0.0/16", "192.168.0.1")
	for _, test := range []struct {
		name   string
		reason string
		want   Desired
		have   *Network
		step   Step
	}{
		{
			name: "nothing is there", reason: "the network comes first, and carries its mark from the start",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: &Network{},
			step: CreateNetwork{Name: testName, Description: owner.Mark()},
		},
		{
			name: "there is a network without a subnet", reason: "a crash between the two creates leaves it",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(),
			step: creates("192.168.0.0/16", "192.168.0.1", ""),
		},
		{
			name: "a subnet without a gateway is missing", reason: "no gateway is a wish, not the lack of one",
			want: wants("192.168.0.0/16", "none"), have: has(),
			step: creates("192.168.0.0/16", "none", ""),
		},
		{
			name: "a subnet with Neutron's gateway is missing", reason: "the choice is left to Neutron",
			want: wants("192.168.0.0/16", ""), have: has(),
			step: creates("192.168.0.0/16", "", ""),
		},
		{
			name: "all is right", reason: "an idle sync makes no request",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(right),
		},
		{
			name: "all is right and there is no gateway", reason: "the zero address stands for none on both sides",
			want: wants("192.168.0.0/16", "none"), have: has(ours(id, "192.168.0.0/16", "")),
		},
		{
			name: "the gateway is Neutron's choice", reason: "left out, it is the first address",
			want: wants("192.168.0.0/16", ""), have: has(right),
		},
		{
			name: "the gateway was changed in the spec", reason: "the pools go along, or Neutron refuses it",
			want: wants("192.168.0.0/16", "192.168.1.1"), have: has(right),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("192.168.1.1"), Pools: ranges("192.168.0.1-192.168.1.0", "192.168.1.2-192.168.255.254")},
		},
		{
			name: "the gateway was taken off the spec", reason: "Neutron's choice is made for it, since Neutron does not choose again",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.0.0/16", "192.168.1.1")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("192.168.0.1"), Pools: ranges("192.168.0.2-192.168.255.254")},
		},
		{
			name: "the gateway was set to None", reason: "the address goes back to the pool",
			want: wants("192.168.0.0/16", "none"), have: has(right),
			step: UpdateSubnet{ID: id, SetGateway: true, Pools: ranges("192.168.0.1-192.168.255.254")},
		},
		{
			name: "somebody removed the gateway", reason: "drift is repaired",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(ours(id, "192.168.0.0/16", "")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("192.168.0.1"), Pools: ranges("192.168.0.2-192.168.255.254")},
		},
		{
			name: "somebody removed the gateway that Neutron chose", reason: "left out does not mean none",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.0.0/16", "")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("192.168.0.1"), Pools: ranges("192.168.0.2-192.168.255.254")},
		},
		{
			name: "IPv6 with the network's address as Neutron's choice", reason: "newer releases choose the subnet-router anycast address",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
		},
		{
			name: "IPv6 with the first host as Neutron's choice", reason: "older releases choose it",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::1")),
		},
		{
			name: "IPv6 with a gateway that nobody chooses by himself", reason: "the second host was set by hand",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::2")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("fd00:1::"), Pools: ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "IPv6 without the gateway that Neutron chose", reason: "it was taken away by hand",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("fd00:1::"), Pools: ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "IPv6 with the other of Neutron's choices", reason: "an address that was asked for is exact",
			want: wants("fd00:1::/64", "fd00:1::1"), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: UpdateSubnet{ID: id, SetGateway: true, Gateway: addr("fd00:1::1"), Pools: ranges("fd00:1::2-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "IPv6 with no gateway although there is one", reason: "None holds for IPv6 too",
			want: wants("fd00:1::/64", "none"), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: UpdateSubnet{ID: id, SetGateway: true, Pools: ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "the CIDR was changed to one beside it", reason: "the new one comes first, so that there is always a subnet",
			want: wants("10.0.0.0/24", ""), have: has(right),
			step: creates("10.0.0.0/24", "", id),
		},
		{
			name: "the new subnet is there and the old one too", reason: "the second half of the replacement",
			want: wants("10.0.0.0/24", ""), have: has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the CIDR was made smaller", reason: "Neutron refuses two that overlap, so the old one goes first",
			want: wants("192.168.0.0/24", ""), have: has(right),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the CIDR was made larger", reason: "the old one lies inside the new one",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.7.0/24", "192.168.7.1")),
			step: DeleteSubnet{ID: id, CIDR: cidr("192.168.7.0/24")},
		},
		{
			name: "the CIDR shrinks to one without room for DHCP", reason: "Neutron is bound to refuse it, so nothing is destroyed for it",
			want: wants("192.168.0.0/31", ""), have: has(right),
			step: creates("192.168.0.0/31", "", id),
		},
		{
			name: "the CIDR shrinks to the smallest with room for DHCP", reason: "a server and a client are enough",
			want: wants("192.168.0.0/30", ""), have: has(right),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the CIDR of IPv6 shrinks to one without room for DHCP", reason: "the same holds for IPv6",
			want: wants("fd00:1::/127", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: creates("fd00:1::/127", "", id),
		},
		{
			name: "the new subnet waits to be put right while the old one is there", reason: "what is to stay is put right before anything is destroyed",
			want: wants("10.0.0.0/24", "10.0.0.9"), have: has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			step: UpdateSubnet{ID: "b", SetGateway: true, Gateway: addr("10.0.0.9"), Pools: ranges("10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.254")},
		},
		{
			name: "the family was changed", reason: "IPv4 and IPv6 never overlap",
			want: wants("fd00:1::/64", ""), have: has(right),
			step: creates("fd00:1::/64", "", id),
		},
		{
			name: "a second family was added", reason: "the subnet of the first family stays, and is not replaced",
			want: wants("192.168.0.0/16", "", func(d *Desired) { d.Subnets = append(d.Subnets, DesiredSubnet{CIDR: cidr("fd00:1::/64")}) }), have: has(right),
			step: creates("fd00:1::/64", "", ""),
		},
		{
			name: "two old subnets beside the new one", reason: "a CIDR that was changed twice; one goes after the other",
			want: wants("10.0.0.0/24", ""), have: has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.0.0.0/24", "10.0.0.1"), ours("c", "10.2.0.0/24", "10.2.0.1")),
			step: DeleteSubnet{ID: "a", CIDR: cidr("10.1.0.0/24")},
		},
		{
			name: "two old subnets of which one is in the way", reason: "only what is in the way goes first",
			want: wants("10.0.0.0/24", ""), have: has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.0.0.0/16", "10.0.0.1")),
			step: DeleteSubnet{ID: "b", CIDR: cidr("10.0.0.0/16")},
		},
		{
			name: "a stranger's subnet is beside ours", reason: "it is not ours to delete",
			want: wants("192.168.0.0/16", ""), have: has(right, described(stranger, ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "a stranger's subnet has no description at all", reason: "no mark means a stranger's, unless it is the known one",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(right, described("", ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "a stranger's subnet has the CIDR", reason: "ours is asked for, and Neutron's refusal tells the user why there is none",
			want: wants("192.168.0.0/16", "192.168.9.9"), have: has(described(stranger, right)),
			step: creates("192.168.0.0/16", "192.168.9.9", ""),
		},
		{
			name: "a stranger's subnet is in the way of the new CIDR", reason: "not even then is it ours to delete",
			want: wants("10.0.0.0/16", ""), have: has(described(stranger, ours("b", "10.0.0.0/24", "10.0.0.1"))),
			step: creates("10.0.0.0/16", "", ""),
		},
		{
			name: "our subnet has lost its mark", reason: "the one that was seen last is still ours, and is marked again",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(described("", right)),
			step: UpdateSubnet{ID: id, Description: owner.Mark()},
		},
		{
			name: "our subnet has lost its mark and is not wanted any more", reason: "it is replaced like any of ours",
			want: wants("10.0.0.0/24", "", knowing(id)), have: has(described(stranger, right)),
			step: creates("10.0.0.0/24", "", id),
		},
		{
			name: "the known subnet carries another Network's mark", reason: "a mark counts for more than a memory",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(described(other, right)),
			step: creates("192.168.0.0/16", "", ""),
		},
		{
			name: "another Network's subnet is beside ours", reason: "it is left alone",
			want: wants("192.168.0.0/16", ""), have: has(right, described(other, ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "a subnet of the same UID from another cluster", reason: "a backup that was restored elsewhere keeps its UIDs",
			want: wants("10.0.0.0/24", ""), have: has(ours(id, "10.0.0.0/24", "10.0.0.1"), described(elsewhere, ours("b", "10.1.0.0/24", "10.1.0.1"))),
		},
		{
			name: "text before the mark", reason: "the description is the controller's, and set as a whole",
			want: wants("192.168.0.0/16", ""), have: has(described("mine! "+owner.Mark(), right)),
			step: UpdateSubnet{ID: id, Description: owner.Mark()},
		},
		{
			name: "the subnet's name was changed", reason: "drift is repaired",
			want: wants("192.168.0.0/16", ""), have: has(named("x", right)),
			step: UpdateSubnet{ID: id, Name: testName},
		},
		{
			name: "everything of the subnet was changed", reason: "one request puts it right",
			want: wants("10.0.0.0/30", "10.0.0.1", knowing(id)), have: has(named("", described("", ours(id, "10.0.0.0/30", "10.0.0.2")))),
			step: UpdateSubnet{ID: id, Name: testName, Description: owner.Mark(), SetGateway: true, Gateway: addr("10.0.0.1"), Pools: ranges("10.0.0.2-10.0.0.2")},
		},
		{
			name: "the mark of the network was wiped", reason: "it is put back before anything is built on it",
			want: wants("10.0.0.0/24", ""), have: &Network{ID: "n", Name: testName, Subnets: []Subnet{right}},
			step: UpdateNetwork{Description: owner.Mark()},
		},
		{
			name: "the mark of the network was written over", reason: "the same",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Name: testName, Description: "hello", Subnets: []Subnet{right}},
			step: UpdateNetwork{Description: owner.Mark()},
		},
		{
			name: "the name of the network was changed", reason: "drift is repaired, and only what differs is sent",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Name: "x", Description: owner.Mark(), Subnets: []Subnet{right}},
			step: UpdateNetwork{Name: testName},
		},
		{
			name: "name and mark of the network were changed", reason: "one request puts both right",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Subnets: []Subnet{right}},
			step: UpdateNetwork{Name: testName, Description: owner.Mark()},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.step, Next(test.want, test.have))
			if t.Failed() {
				t.Log("the row is there because: " + test.reason)
			}
		})
	}
}

func TestOneMoreNetworkThanWantedIsSurplus(t *testing.T) {
	keep, second := &Network{ID: "a"}, &Network{ID: "b"}
	for _, test := range []struct {
		name  string
		owned []*Network
		want  Step
	}{
		{"there is none at all", nil, nil},
		{"there is the one to keep", []*Network{keep}, nil},
		{"there is another before it", []*Network{second, keep}, DeleteNetwork{second}},
		{"there is another behind it", []*Network{keep, second}, DeleteNetwork{second}},
		{"one of several goes at a time", []*Network{keep, second, {ID: "c"}}, DeleteNetwork{second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, duplicate(test.owned, keep))
		})
	}
}

func TestNoSubnetGoesForOneThatNeutronIsBoundToRefuse(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.0/24": true, "10.0.0.0/30": true, "10.0.0.0/31": false, "10.0.0.0/32": false,
		"0.0.0.0/0": false, "0.1.0.0/16": false, "127.0.0.0/24": false, "224.0.0.0/24": false, "169.254.0.0/16": true,
		"fd00:1::/64": true, "fd00:1::/126": true, "fd00:1::/127": false, "fd00:1::/128": false, "ff02::/64": false, "::1/128": false,
	} {
		if got := servesDHCP(cidr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestCurrentIsTheSubnetInForce(t *testing.T) {
	old, new := ours("a", "192.168.0.0/16", "192.168.0.1"), ours("b", "10.0.0.0/24", "10.0.0.1")
	for _, test := range []struct {
		name string
		have *Network
		want *Subnet
	}{
		{"there is no network", &Network{}, nil},
		{"there is no subnet", has(), nil},
		{"the wanted one", has(new), &new},
		{"the wanted one, while the old one is still there", has(old, new), &new},
		{"the old one, while the wanted one is missing", has(old), &old},
		{"a stranger's is not", has(described("", old), described("", new)), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, Current(wants("10.0.0.0/24", ""), test.have))
		})
	}
}

func TestOnlyDeletesAndTheFirstCreateAreIrreversible(t *testing.T) {
	for step, want := range map[Step]bool{
		CreateNetwork{}: true, UpdateNetwork{}: false, CreateSubnet{}: false, DeleteSubnet{}: true, DeleteNetwork{}: true,
	} {
		equal(t, want, step.Irreversible())
	}
	equal(t, false, UpdateSubnet{}.Irreversible())
}

func TestAStepTellsWhatItDoes(t *testing.T) {
	for _, test := range []struct {
		step Step
		want string
	}{
		{CreateNetwork{Name: testName}, "network created"},
		{UpdateNetwork{Name: testName}, "name set to default/web"},
		{UpdateNetwork{Description: "m"}, "ownership mark restored"},
		{UpdateNetwork{Name: testName, Description: "m"}, "ownership mark restored"},
		{creates("10.0.0.0/24", "", "a"), "subnet 10.0.0.0/24 created"},
		{UpdateSubnet{Name: testName}, "name and ownership mark of the subnet restored"},
		{UpdateSubnet{SetGateway: true, Gateway: addr("10.0.0.1")}, "gateway set to 10.0.0.1"},
		{UpdateSubnet{SetGateway: true}, "gateway removed"},
		{DeleteSubnet{ID: "a", CIDR: cidr("10.0.0.0/24")}, "subnet 10.0.0.0/24 deleted"},
		{DeleteNetwork{&Network{ID: "b"}}, "duplicate network b deleted"},
	} {
		equal(t, test.want, test.step.String())
	}
}

func TestAllocationPools(t *testing.T) {
	for _, test := range []struct {
		name    string
		cidr    string
		gateway string
		want    []netipx.IPRange
	}{
		{"the gateway is the first host", "192.168.0.0/24", "192.168.0.1", ranges("192.168.0.2-192.168.0.254")},
		{"the gateway is the last host", "192.168.0.0/24", "192.168.0.254", ranges("192.168.0.1-192.168.0.253")},
		{"the gateway is in the middle", "192.168.0.0/24", "192.168.0.100", ranges("192.168.0.1-192.168.0.99", "192.168.0.101-192.168.0.254")},
		{"there is no gateway", "192.168.0.0/24", "", ranges("192.168.0.1-192.168.0.254")},
		{"the smallest that DHCP can serve", "10.0.0.0/30", "10.0.0.1", ranges("10.0.0.2-10.0.0.2")},
		{"the whole of IPv4", "0.0.0.0/0", "", ranges("0.0.0.1-255.255.255.254")},
		{"a point-to-point link has no hosts beside its ends", "10.0.0.0/31", "", nil},
		{"one address is no range", "10.0.0.0/32", "", nil},
		{"the first address of all", "0.0.0.0/32", "", nil},
		{"the last address of all", "255.255.255.255/32", "", nil},
		{"IPv6 with the first address as gateway", "fd00:1::/64", "fd00:1::", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with the first host as gateway", "fd00:1::/64", "fd00:1::1", ranges("fd00:1::2-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with the last host as gateway: it has no broadcast address", "fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:fffe")},
		{"IPv6 without a gateway", "fd00:1::/64", "", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with two addresses", "fd00:1::/127", "", ranges("fd00:1::1-fd00:1::1")},
		{"IPv6 with two addresses, of which the gateway is one", "fd00:1::/127", "fd00:1::1", nil},
		{"one IPv6 address", "fd00:1::/128", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, allocationPools(cidr(test.cidr), addr(test.gateway)))
		})
	}
}

// simulate takes the step on a copy of the network, by the rules of Neutron that the
// plan has to keep. It returns false where Neutron refuses it.
func simulate(t *testing.T, have *Network, step Step) (*Network, bool) {
	t.Helper()
	next := *have
	next.Subnets = slices.Clone(have.Subnets)
	switch step := step.(type) {
	case CreateNetwork:
		next = Network{ID: "n", Name: step.Name, Description: step.Description}
	case UpdateNetwork:
		next.Name, next.Description = change(next.Name, step.Name), change(next.Description, step.Description)
	case CreateSubnet:
		if slices.ContainsFunc(have.Subnets, func(s Subnet) bool { return s.CIDR.Overlaps(step.Subnet.CIDR) }) {
			return have, false
		}
		s := Subnet{ID: "new", NetworkID: "n", Name: step.Name, Description: step.Description, CIDR: step.Subnet.CIDR, Gateway: step.Subnet.Gateway}
		if !step.Subnet.NoGateway && !s.Gateway.IsValid() {
			s.Gateway = s.CIDR.Addr().Next()
		}
		next.Subnets = append(next.Subnets, s)
	case UpdateSubnet:
		s := next.subnet(step.ID)
		if s == nil {
			t.Fatalf("%+v: there is no such subnet", step)
		}
		s.Name, s.Description = change(s.Name, step.Name), change(s.Description, step.Description)
		if step.SetGateway {
			s.Gateway = step.Gateway
			for _, pool := range step.Pools {
				if pool.Contains(step.Gateway) || !s.CIDR.Contains(pool.From()) || !s.CIDR.Contains(pool.To()) {
					t.Errorf("%+v: Neutron refuses the pool %s", step, pool)
				}
			}
		}
	case DeleteSubnet:
		if next.subnet(step.ID) == nil {
			t.Fatalf("%+v: there is no such subnet", step)
		}
		next.Subnets = slices.DeleteFunc(next.Subnets, func(s Subnet) bool { return s.ID == step.ID })
	default:
		t.Fatalf("no such step: %T", step)
	}
	return &next, true
}

func change(have, want string) string {
	if want == "" {
		return have
	}
	return want
}

// strangersSubnets returns the subnets that are not to be touched.
func strangersSubnets(want Desired, n *Network) []Subnet {
	return slices.DeleteFunc(slices.Clone(n.Subnets), func(s Subnet) bool {
		owner, marked := OwnerOf(s.Description)
		return marked && owner == want.Owner || !marked && s.ID == want.Known
	})
}

// startingStates are the networks with each set of up to three of the subnets that do
// not overlap, since Neutron holds no others, in each state of the network itself.
func startingStates(subnets []Subnet) []*Network {
	states := []*Network{{}}
	var grow func(chosen []Subnet, rest []Subnet)
	grow = func(chosen, rest []Subnet) {
		for _, network := range []Network{
			{ID: "n", Name: testName, Description: owner.Mark()},
			{ID: "n", Name: "x", Description: owner.Mark()},
			{ID: "n", Name: testName},
		} {
			network.Subnets = chosen
			states = append(states, &network)
		}
		for i, s := range rest {
			if len(chosen) < 3 && !slices.ContainsFunc(chosen, func(c Subnet) bool { return c.CIDR.Overlaps(s.CIDR) }) {
				grow(append(slices.Clone(chosen), s), rest[i+1:])
			}
		}
	}
	grow(nil, subnets)
	return states
}

func TestFromEveryStateThePlanLeadsToTheGoal(t *testing.T) {
	t.Parallel()
	const wanted, gateway = "10.0.0.0/24", "10.0.0.9"
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}.Mark()
	states := startingStates([]Subnet{
		ours("right", wanted, gateway),
		ours("default gateway", wanted, "10.0.0.1"),
		ours("no gateway", wanted, ""),
		named("x", ours("name", wanted, gateway)),
		described("", ours("known", wanted, gateway)),
		described("", ours("stranger's", wanted, gateway)),
		described(other, ours("other's", wanted, gateway)),
		ours("around it", "10.0.0.0/16", "10.0.0.1"),
		ours("lower half", "10.0.0.0/25", "10.0.0.1"),
		ours("upper half", "10.0.0.128/25", "10.0.0.129"),
		described("mine", ours("stranger in the way", "10.0.0.128/26", "10.0.0.129")),
		ours("beside", "10.1.0.0/24", "10.1.0.1"),
		ours("beside too", "10.2.0.0/24", ""),
		ours("of IPv6", "fd00:1::/64", "fd00:1::"),
		described("mine", ours("stranger beside", "10.3.0.0/24", "")),
		described(other, ours("other's beside", "10.4.0.0/24", "")),
	})
	t.Logf("%d states", len(states))
	for _, want := range []Desired{
		wants(wanted, gateway, knowing("known")),
		wants(wanted, "", knowing("known")),
		wants(wanted, "none", knowing("known")),
		wants(wanted, gateway, knowing("other's")),
		wants("fd00:1::/64", "", knowing("beside")),
	} {
		for _, have := range states {
			followThePlan(t, want, have)
			if t.Failed() {
				t.Fatalf("want %+v\nhave %+v", want, have)
			}
		}
	}
}

// followThePlan takes one step after the other, and checks each of them and the end.
func followThePlan(t *testing.T, want Desired, have *Network) {
	t.Helper()
	strangers := strangersSubnets(want, have)
	bound := 4 + len(have.Subnets)
	for range bound {
		step := Next(want, have)
		if step == nil {
			checkGoal(t, want, have)
			return
		}
		checkStep(t, want, have, step)
		next, taken := simulate(t, have, step)
		if !taken {
			// Only a stranger's subnet may be in the way for good.
			if !slices.ContainsFunc(strangers, func(s Subnet) bool { return s.CIDR.Overlaps(want.Subnets[0].CIDR) }) {
				t.Errorf("Neutron refuses %+v", step)
			}
			return
		}
		if now := strangersSubnets(want, next); !slices.Equal(strangers, now) {
			t.Errorf("%+v makes of the strangers' subnets %+v", step, now)
		}
		have = next
	}
	t.Errorf("no end after %d steps; the next is %+v", bound, Next(want, have))
}

func checkStep(t *testing.T, want Desired, have *Network, step Step) {
	t.Helper()
	untouchable := strangersSubnets(want, have)
	touches := func(id string) {
		if slices.ContainsFunc(untouchable, func(s Subnet) bool { return s.ID == id }) {
			t.Errorf("%+v touches a stranger's subnet", step)
		}
	}
	switch step := step.(type) {
	case UpdateSubnet:
		touches(step.ID)
	case DeleteSubnet:
		touches(step.ID)
		inTheWay := step.CIDR.Overlaps(want.Subnets[0].CIDR)
		if !inTheWay && findSubnet(want, have, want.Subnets[0].CIDR) == nil {
			t.Errorf("%+v comes before the new subnet is there, and need not", step)
		}
	case CreateSubnet:
		touches(step.Replaces)
		// With more than one to replace, any may be named.
		if obsolete := obsoleteSubnets(want, have); (step.Replaces != "") != (len(obsolete) > 0) {
			t.Errorf("%+v replaces one of %d subnets", step, len(obsolete))
		}
	}
}

func checkGoal(t *testing.T, want Desired, have *Network) {
	t.Helper()
	equal(t, want.Name+" "+want.Owner.Mark(), have.Name+" "+have.Description)
	own := has(have.Subnets...)
	own.Subnets = slices.DeleteFunc(slices.Clone(have.Subnets), func(s Subnet) bool { return s.Description != want.Owner.Mark() })
	if len(own.Subnets) != 1 {
		t.Errorf("there are %d subnets at the goal", len(own.Subnets))
		return
	}
	subnet, goal := own.Subnets[0], want.Subnets[0]
	equal(t, fmt.Sprint(goal.CIDR, want.Name), fmt.Sprint(subnet.CIDR, subnet.Name))
	switch first := goal.CIDR.Addr(); {
	case goal.NoGateway:
		equal(t, addr(""), subnet.Gateway)
	case goal.Gateway.IsValid():
		equal(t, goal.Gateway, subnet.Gateway)
	case subnet.Gateway != first.Next() && (first.Is4() || subnet.Gateway != first):
		t.Errorf("the gateway is %s", subnet.Gateway)
	}
}

// BenchmarkNext is what it costs to tell what is to be done for one Network.
func BenchmarkNext(b *testing.B) {
	right := ours("a", "192.168.0.0/16", "192.168.0.1")
	for _, bench := range []struct {
		name    string
		have    *Network
		inOrder bool
	}{
		{"in order", has(right), true},
		{"to be created", &Network{}, false},
		{"a subnet is missing", has(), false},
		{"another name", has(named("x", right)), false},
		{"another gateway", has(ours("a", "192.168.0.0/16", "192.168.1.1")), false},
		{"another CIDR", has(ours("a", "192.168.7.0/24", "192.168.7.1")), false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			want := wants("192.168.0.0/16", "192.168.0.1")
			b.ReportAllocs()
			for b.Loop() {
				if step := Next(want, bench.have); (step == nil) != bench.inOrder {
					b.Fatalf("got %v", step)
				}
			}
		})
	}
}
