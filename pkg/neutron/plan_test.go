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
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"go4.org/netipx"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const testName = "default/web"

// wants returns the desired state of a Network with that CIDR. The gateway is an address,
// "none", or "" for Neutron's default.
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
	for i := range want.Subnets {
		s := &want.Subnets[i]
		s.Mark, s.Name = want.Owner.Mark(), want.Name
		if s.Label != "" {
			s.Name = want.Name + "/" + s.Label
		}
	}
	return want
}

func knowing(ids ...string) func(*Desired) { return func(d *Desired) { d.Known = ids } }

// with adds another subnet to a desired state.
func with(label, cidrText string, changes ...func(*DesiredSubnet)) func(*Desired) {
	return func(d *Desired) {
		s := DesiredSubnet{Label: label, CIDR: cidr(cidrText)}
		for _, change := range changes {
			change(&s)
		}
		d.Subnets = append(d.Subnets, s)
	}
}

// has returns the owner's network with those subnets.
func has(subnets ...Subnet) *Network {
	return &Network{ID: "n", Name: testName, Description: owner.Mark(), Subnets: subnets}
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
func creating(name string) CreateNetwork { return CreateNetwork{Desired{Owner: owner, Name: name}} }

// These are the changes of a network and of a subnet.

func toName(label, name string) Change { return Change{Name: "name", Label: label, Value: name} }
func toMark(label string) Change {
	return Change{Name: "description", Label: label, Value: owner.Mark()}
}

func renaming(name string) UpdateNetwork {
	return UpdateNetwork{[]Change{toName(fieldNetworkName, name)}}
}

func renamingSubnet(id, name string) UpdateSubnet {
	return UpdateSubnet{ID: id, Changes: []Change{toName(fieldSubnetName, name)}}
}

// toGateway changes the gateway to an address of the spec, or to none for "", and the pools to the
// default ones.
func toGateway(address string, pools ...string) []Change {
	return []Change{
		{Name: "gateway_ip", Label: fieldGateway, Value: addr(address)},
		{Name: "allocation_pools", Label: fieldPools, Value: ranges(pools...), IsDefault: true},
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
	for _, test := range []struct {
		name   string
		reason string
		want   Desired
		have   *Network
		step   Step
	}{
		{
			name: "there is no network", reason: "the network is created first, with its mark",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: &Network{},
			step: CreateNetwork{wants("192.168.0.0/16", "192.168.0.1")},
		},
		{
			name: "there is a network without a subnet", reason: "a crash between the two creates leaves this state",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(),
			step: creates("192.168.0.0/16", "192.168.0.1"),
		},
		{
			name: "the subnet is missing, and the spec has the gateway None", reason: "None is sent to Neutron, or Neutron chooses a gateway",
			want: wants("192.168.0.0/16", "none"), have: has(),
			step: creates("192.168.0.0/16", "none"),
		},
		{
			name: "the subnet is missing, and the spec has no gateway", reason: "Neutron chooses the gateway",
			want: wants("192.168.0.0/16", ""), have: has(),
			step: creates("192.168.0.0/16", ""),
		},
		{
			name: "Neutron matches the spec", reason: "an idle sync makes no request",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(right),
		},
		{
			name: "Neutron matches the spec, without a gateway", reason: "the zero address means no gateway, desired and observed",
			want: wants("192.168.0.0/16", "none"), have: has(ours(id, "192.168.0.0/16", "")),
		},
		{
			name: "the gateway is Neutron's default", reason: "without a gateway in the spec, the default is the first address",
			want: wants("192.168.0.0/16", ""), have: has(right),
		},
		{
			name: "the gateway was changed in the spec", reason: "the pools change with it, or Neutron refuses the request",
			want: wants("192.168.0.0/16", "192.168.1.1"), have: has(right),
			step: UpdateSubnet{ID: id, Changes: toGateway("192.168.1.1", "192.168.0.1-192.168.1.0", "192.168.1.2-192.168.255.254")},
		},
		{
			name: "the gateway was removed from the spec", reason: "the plan sets Neutron's default, since Neutron chooses only at the create",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.0.0/16", "192.168.1.1")),
			step: UpdateSubnet{ID: id, Changes: toDefaultGateway("192.168.0.1", "192.168.0.2-192.168.255.254")},
		},
		{
			name: "the gateway was set to None", reason: "the address returns to the pool",
			want: wants("192.168.0.0/16", "none"), have: has(right),
			step: UpdateSubnet{ID: id, Changes: toGateway("", "192.168.0.1-192.168.255.254")},
		},
		{
			name: "another client removed the gateway", reason: "drift is repaired",
			want: wants("192.168.0.0/16", "192.168.0.1"), have: has(ours(id, "192.168.0.0/16", "")),
			step: UpdateSubnet{ID: id, Changes: toGateway("192.168.0.1", "192.168.0.2-192.168.255.254")},
		},
		{
			name: "another client removed the default gateway", reason: "no gateway in the spec does not mean None",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.0.0/16", "")),
			step: UpdateSubnet{ID: id, Changes: toDefaultGateway("192.168.0.1", "192.168.0.2-192.168.255.254")},
		},
		{
			name: "IPv6 with the network address as Neutron's default", reason: "newer releases choose the subnet-router anycast address",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
		},
		{
			name: "IPv6 with the first host as Neutron's default", reason: "older releases choose it",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::1")),
		},
		{
			name: "IPv6 with a gateway that is not a default", reason: "another client set the second host",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::2")),
			step: UpdateSubnet{ID: id, Changes: toDefaultGateway("fd00:1::", "fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "IPv6 without its default gateway", reason: "another client removed it",
			want: wants("fd00:1::/64", ""), have: has(ours(id, "fd00:1::/64", "")),
			step: UpdateSubnet{ID: id, Changes: toDefaultGateway("fd00:1::")[:1]},
		},
		{
			name: "IPv6 with the other default", reason: "an address in the spec must match exactly",
			want: wants("fd00:1::/64", "fd00:1::1"), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: UpdateSubnet{ID: id, Changes: toGateway("fd00:1::1", "fd00:1::2-fd00:1::ffff:ffff:ffff:ffff")},
		},
		{
			name: "IPv6 with a gateway although the spec says None", reason: "None applies to IPv6 too",
			want: wants("fd00:1::/64", "none"), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: UpdateSubnet{ID: id, Changes: toGateway("")[:1]},
		},
		{
			name: "the CIDR was changed to one that does not overlap", reason: "the new subnet is created first, so there is always one",
			want: wants("10.0.0.0/24", ""), have: has(right),
			step: creates("10.0.0.0/24", "", id),
		},
		{
			name: "both the new and the old subnet exist", reason: "the second half of the replacement",
			want: wants("10.0.0.0/24", ""), have: has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the CIDR was made smaller", reason: "Neutron refuses overlapping subnets, so the old one is deleted first",
			want: wants("192.168.0.0/24", ""), have: has(right),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the CIDR was made larger", reason: "the new CIDR contains the old one",
			want: wants("192.168.0.0/16", ""), have: has(ours(id, "192.168.7.0/24", "192.168.7.1")),
			step: DeleteSubnet{ID: id, CIDR: cidr("192.168.7.0/24")},
		},
		{
			name: "the CIDR was changed to one that is too small for DHCP", reason: "Neutron always refuses it, so no subnet is deleted for it",
			want: wants("192.168.0.0/31", ""), have: has(right),
			step: creates("192.168.0.0/31", "", id),
		},
		{
			name: "the CIDR was changed to the smallest for DHCP", reason: "two hosts are enough: a server and a client",
			want: wants("192.168.0.0/30", ""), have: has(right),
			step: DeleteSubnet{ID: id, CIDR: right.CIDR},
		},
		{
			name: "the IPv6 CIDR was changed to one that is too small for DHCP", reason: "the same applies to IPv6",
			want: wants("fd00:1::/127", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: creates("fd00:1::/127", "", id),
		},
		{
			name: "the IPv6 CIDR was changed to all addresses", reason: "Neutron refuses it with DHCP and without",
			want: wants("::/0", ""), have: has(ours(id, "fd00:1::/64", "fd00:1::")),
			step: creates("::/0", "", id),
		},
		{
			name: "the CIDR was changed to one with a gateway that is its broadcast address", reason: "Neutron always refuses that gateway",
			want: wants("192.168.0.0/24", "192.168.0.255"), have: has(right),
			step: creates("192.168.0.0/24", "192.168.0.255", id),
		},
		{
			name: "the CIDR was changed to one that contains all multicast addresses and others", reason: "Neutron refuses only CIDRs inside the multicast addresses",
			want: wants("224.0.0.0/3", ""), have: has(ours(id, "240.0.0.0/24", "240.0.0.1")),
			step: DeleteSubnet{ID: id, CIDR: cidr("240.0.0.0/24")},
		},
		{
			name: "the old subnet exists, and the gateway of the new one differs", reason: "the new subnet is updated before the old one is deleted",
			want: wants("10.0.0.0/24", "10.0.0.9"), have: has(right, ours("b", "10.0.0.0/24", "10.0.0.1")),
			step: UpdateSubnet{ID: "b", Changes: toGateway("10.0.0.9", "10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.254")},
		},
		{
			name: "the IP family was changed", reason: "IPv4 and IPv6 never overlap",
			want: wants("fd00:1::/64", ""), have: has(right),
			step: creates("fd00:1::/64", "", id),
		},
		{
			name: "a second IP family was added", reason: "the subnet of the first family stays, and is not replaced",
			want: wants("192.168.0.0/16", "", with("v6", "fd00:1::/64")), have: has(right),
			step: CreateSubnet{Subnet: wants("192.168.0.0/16", "", with("v6", "fd00:1::/64")).Subnets[1]},
		},
		{
			name: "two old subnets and the new one exist", reason: "the CIDR was changed twice; the old ones are deleted one by one",
			want: wants("10.0.0.0/24", ""), have: has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.0.0.0/24", "10.0.0.1"), ours("c", "10.2.0.0/24", "10.2.0.1")),
			step: DeleteSubnet{ID: "a", CIDR: cidr("10.1.0.0/24")},
		},
		{
			name: "two old subnets exist, of which one overlaps", reason: "only a subnet that overlaps is deleted before the create",
			want: wants("10.0.0.0/24", ""), have: has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.0.0.0/16", "10.0.0.1")),
			step: DeleteSubnet{ID: "b", CIDR: cidr("10.0.0.0/16"), Others: []string{"a"}},
		},
		{
			name: "three old subnets exist, of which two overlap", reason: "all of them are replaced, so none may have ports",
			want: wants("10.0.0.0/23", ""), have: has(ours("a", "10.0.0.0/24", "10.0.0.1"), ours("b", "10.1.0.0/24", "10.1.0.1"), ours("c", "10.0.1.0/24", "10.0.1.1")),
			step: DeleteSubnet{ID: "a", CIDR: cidr("10.0.0.0/24"), Others: []string{"b", "c"}},
		},
		{
			name: "two old subnets exist, and none overlaps", reason: "both are deleted after the create, so neither may have ports",
			want: wants("10.0.0.0/24", ""), have: has(ours("a", "10.1.0.0/24", "10.1.0.1"), ours("b", "10.2.0.0/24", "10.2.0.1")),
			step: creates("10.0.0.0/24", "", "a", "b"),
		},
		{
			name: "an unmanaged subnet exists too", reason: "the plan does not delete it",
			want: wants("192.168.0.0/16", ""), have: has(right, described(stranger, ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "an unmanaged subnet has no description", reason: "a subnet without a mark is unmanaged unless the status has its ID",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(right, described("", ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "an unmanaged subnet has the same CIDR", reason: "Neutron refuses the create, and its message explains why",
			want: wants("192.168.0.0/16", "192.168.9.9"), have: has(described(stranger, right)),
			step: creates("192.168.0.0/16", "192.168.9.9"),
		},
		{
			name: "an unmanaged subnet overlaps the new CIDR", reason: "the plan does not delete it even then",
			want: wants("10.0.0.0/16", ""), have: has(described(stranger, ours("b", "10.0.0.0/24", "10.0.0.1"))),
			step: creates("10.0.0.0/16", ""),
		},
		{
			name: "the known subnet has no mark", reason: "the subnet in the status is still owned, so its mark is restored",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(described("", right)),
			step: UpdateSubnet{ID: id, Changes: []Change{toMark(fieldSubnetMark)}},
		},
		{
			name: "the known subnet has no mark and an old CIDR", reason: "it is replaced like any owned subnet",
			want: wants("10.0.0.0/24", "", knowing(id)), have: has(described(stranger, right)),
			step: creates("10.0.0.0/24", "", id),
		},
		{
			name: "the known subnet carries another Network's mark", reason: "a mark takes precedence over the ID in the status",
			want: wants("192.168.0.0/16", "", knowing(id)), have: has(described(other, right)),
			step: creates("192.168.0.0/16", ""),
		},
		{
			name: "a subnet of another Network exists too", reason: "the plan does not change it",
			want: wants("192.168.0.0/16", ""), have: has(right, described(other, ours("b", "10.0.0.0/24", "10.0.0.1"))),
		},
		{
			name: "a subnet of the same UID in another cluster exists too", reason: "a backup that is restored in another cluster keeps its UIDs",
			want: wants("10.0.0.0/24", ""), have: has(ours(id, "10.0.0.0/24", "10.0.0.1"), described(elsewhere, ours("b", "10.1.0.0/24", "10.1.0.1"))),
		},
		{
			name: "the subnet's description has text before the mark", reason: "the controller owns the whole description",
			want: wants("192.168.0.0/16", ""), have: has(described("mine! "+owner.Mark(), right)),
			step: UpdateSubnet{ID: id, Changes: []Change{toMark(fieldSubnetMark)}},
		},
		{
			name: "the subnet's name was changed", reason: "drift is repaired",
			want: wants("192.168.0.0/16", ""), have: has(withName("x", right)),
			step: renamingSubnet(id, testName),
		},
		{
			name: "all fields of the subnet were changed", reason: "one request repairs all of them",
			want: wants("10.0.0.0/30", "10.0.0.1", knowing(id)), have: has(withName("", described("", ours(id, "10.0.0.0/30", "10.0.0.2")))),
			step: UpdateSubnet{ID: id, Changes: slices.Concat([]Change{toName(fieldSubnetName, testName), toMark(fieldSubnetMark)}, toGateway("10.0.0.1", "10.0.0.2-10.0.0.2"))},
		},
		{
			name: "the mark of the network was removed", reason: "it is restored before the subnets are changed",
			want: wants("10.0.0.0/24", ""), have: &Network{ID: "n", Name: testName, Subnets: []Subnet{right}},
			step: UpdateNetwork{[]Change{toMark(fieldNetworkMark)}},
		},
		{
			name: "the mark of the network was overwritten", reason: "it is restored too",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Name: testName, Description: "hello", Subnets: []Subnet{right}},
			step: UpdateNetwork{[]Change{toMark(fieldNetworkMark)}},
		},
		{
			name: "the name of the network was changed", reason: "drift is repaired, and only what differs is sent",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Name: "x", Description: owner.Mark(), Subnets: []Subnet{right}},
			step: renaming(testName),
		},
		{
			name: "name and mark of the network were removed", reason: "one request restores both",
			want: wants("192.168.0.0/16", ""), have: &Network{ID: "n", Subnets: []Subnet{right}},
			step: UpdateNetwork{[]Change{toName(fieldNetworkName, testName), toMark(fieldNetworkMark)}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.step, Next(test.want, test.have))
			if t.Failed() {
				t.Log("the reason for this row: " + test.reason)
			}
		})
	}
}

func TestDuplicate(t *testing.T) {
	keep, second := &Network{ID: "a"}, &Network{ID: "b"}
	for _, test := range []struct {
		name  string
		owned []*Network
		want  Step
	}{
		{"there is no network", nil, nil},
		{"there is only the network to keep", []*Network{keep}, nil},
		{"a duplicate comes before it", []*Network{second, keep}, DeleteNetwork{second}},
		{"a duplicate comes after it", []*Network{keep, second}, DeleteNetwork{second}},
		{"duplicates are deleted one by one", []*Network{keep, second, {ID: "c"}}, DeleteNetwork{second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, duplicate(test.owned, keep))
		})
	}
}

func TestIsRefused(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.0/24": false, "10.0.0.0/30": false, "10.0.0.0/31": true, "10.0.0.0/32": true,
		"0.0.0.0/0": true, "0.0.0.0/1": true, "0.0.0.0/30": true, "0.1.0.0/16": false, "128.0.0.0/1": false,
		"127.0.0.0/8": true, "127.0.0.0/24": true, "126.0.0.0/7": false, "64.0.0.0/2": false,
		"224.0.0.0/4": true, "224.0.0.0/24": true, "224.0.0.0/3": false, "240.0.0.0/4": false, "255.255.255.0/24": false, "169.254.0.0/16": false,
		"fd00:1::/64": false, "fd00:1::/126": false, "fd00:1::/127": true, "fd00:1::/128": true, "ff02::/64": true, "ff00::/8": true, "fe00::/7": false,
		"::1/128": true, "::/0": true, "::/1": false, "::/64": false, "fe80::/64": false, "::ffff:127.0.0.0/120": false, "::ffff:224.0.0.0/120": false,
	} {
		if got := isRefused(&DesiredSubnet{CIDR: cidr(text)}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"10.0.0.0/30": false, "10.0.0.0/31": true, "10.0.0.0/32": false, "0.0.0.0/0": true, "0.0.0.0/8": false, "127.0.0.0/8": false, "224.0.0.0/4": false,
		"::/0": true, "fd00::/127": false, "fd00::/128": false, "ff02::/64": false,
	} {
		if got := isRefused(&DesiredSubnet{CIDR: cidr(text), NoDHCP: true}); got != want {
			t.Errorf("%s without DHCP: %v, want %v", text, got, want)
		}
	}
	for _, test := range []struct {
		cidr, gateway string
		want          bool
	}{
		{"10.0.0.0/24", "10.0.0.0", true}, {"10.0.0.0/24", "10.0.0.255", true}, {"10.0.0.0/24", "10.0.0.1", false}, {"10.0.0.0/24", "10.0.0.254", false},
		{"10.0.0.0/24", "none", false}, {"0.0.0.0/8", "none", true}, {"::/0", "none", true}, {"::/0", "fd00::1", true},
		{"fd00:1::/64", "fd00:1::", false}, {"fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff", false},
	} {
		if got := isRefused(&wants(test.cidr, test.gateway).Subnets[0]); got != test.want {
			t.Errorf("%s with gateway %s: %v, want %v", test.cidr, test.gateway, got, test.want)
		}
	}
}

// The contract tests compare the embedded Neutron with the real one.
func TestTheEmbeddedNeutronRefusesTheSameSubnets(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	client, tried, refused := w.Client(), 0, 0
	network, err := client.CreateNetwork(t.Context(), creating("x"))
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
					created, err := client.CreateSubnet(t.Context(), network.ID, CreateSubnet{Subnet: subnet})
					if err != nil && ReasonOf(err) != Invalid || (err != nil) != isRefused(&subnet) {
						t.Errorf("%+v: Neutron answers %v; isRefused returns %v", subnet, err, isRefused(&subnet))
					}
					if tried++; err != nil {
						refused++
						continue
					}
					noError(t, client.DeleteSubnet(t.Context(), created.ID, nil))
				}
			}
		}
	}
	t.Logf("%d subnets, %d refused", tried, refused)
}

func TestCurrent(t *testing.T) {
	old, new := ours("a", "192.168.0.0/16", "192.168.0.1"), ours("b", "10.0.0.0/24", "10.0.0.1")
	for _, test := range []struct {
		name string
		have *Network
		want []CurrentSubnet
	}{
		{"there is no network", &Network{}, nil},
		{"there is no subnet", has(), nil},
		{"the desired subnet", has(new), []CurrentSubnet{{Subnet: &new}}},
		{"the desired subnet, while the old one exists", has(old, new), []CurrentSubnet{{Subnet: &new}, {Subnet: &old}}},
		{"the old subnet, while the desired one is missing", has(old), []CurrentSubnet{{Subnet: &old}}},
		{"only unmanaged subnets", has(described("", old), described("", new)), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, Current(wants("10.0.0.0/24", ""), test.have))
		})
	}
}

func TestOnlyDeletesAndTheFirstCreateAreIrreversible(t *testing.T) {
	for _, step := range []Step{CreateNetwork{}, DeleteSubnet{}, DeleteNetwork{}, CreateRouter{}, AttachSubnet{}, DetachSubnet{}, DeleteRouter{}} {
		equal(t, true, step.Irreversible())
	}
	for _, step := range []Step{UpdateNetwork{}, CreateSubnet{}, UpdateSubnet{}, SetTags{}, UpdateRouter{}} {
		equal(t, false, step.Irreversible())
	}
}

func TestStepString(t *testing.T) {
	for _, test := range []struct {
		step Step
		want string
	}{
		{creating(testName), "network created"},
		{renaming(testName), "name set to default/web"},
		{UpdateNetwork{[]Change{toMark(fieldNetworkMark)}}, "ownership mark restored"},
		{UpdateNetwork{[]Change{toName(fieldNetworkName, testName), toMark(fieldNetworkMark)}}, "name set to default/web, ownership mark restored"},
		{creates("10.0.0.0/24", "", "a"), "subnet 10.0.0.0/24 created"},
		{renamingSubnet("a", testName), "subnet name set to default/web"},
		{UpdateSubnet{ID: "a", Changes: []Change{toMark(fieldSubnetMark)}}, "ownership mark of the subnet restored"},
		{UpdateSubnet{ID: "a", Label: "v6", Changes: []Change{toMark(fieldSubnetMark)}}, "subnet v6: ownership mark of the subnet restored"},
		{UpdateSubnet{Changes: toGateway("10.0.0.1", "10.0.0.2-10.0.0.254")}, "gateway set to 10.0.0.1"},
		{UpdateSubnet{Changes: toGateway("", "10.0.0.1-10.0.0.254")}, "gateway removed"},
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
		want    any
	}{
		{"the gateway is the first host", "192.168.0.0/24", "192.168.0.1", ranges("192.168.0.2-192.168.0.254")},
		{"the gateway is the last host", "192.168.0.0/24", "192.168.0.254", ranges("192.168.0.1-192.168.0.253")},
		{"the gateway is in the middle", "192.168.0.0/24", "192.168.0.100", ranges("192.168.0.1-192.168.0.99", "192.168.0.101-192.168.0.254")},
		{"there is no gateway", "192.168.0.0/24", "", ranges("192.168.0.1-192.168.0.254")},
		{"the smallest subnet for DHCP", "10.0.0.0/30", "10.0.0.1", ranges("10.0.0.2-10.0.0.2")},
		{"all IPv4 addresses", "0.0.0.0/0", "", ranges("0.0.0.1-255.255.255.254")},
		{"a point-to-point link has no addresses for hosts", "10.0.0.0/31", "", nil},
		{"one address", "10.0.0.0/32", "", nil},
		{"the first IPv4 address", "0.0.0.0/32", "", nil},
		{"the last IPv4 address", "255.255.255.255/32", "", nil},
		{"IPv6 with the first address as gateway", "fd00:1::/64", "fd00:1::", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with the first host as gateway", "fd00:1::/64", "fd00:1::1", ranges("fd00:1::2-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with the last host as gateway: it has no broadcast address", "fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:fffe")},
		{"IPv6 without a gateway", "fd00:1::/64", "", ranges("fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")},
		{"IPv6 with two addresses", "fd00:1::/127", "", ranges("fd00:1::1-fd00:1::1")},
		{"IPv6 with two addresses, one of them the gateway", "fd00:1::/127", "fd00:1::1", ranges()},
		{"one IPv6 address", "fd00:1::/128", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, allocationPools(cidr(test.cidr), addr(test.gateway)))
		})
	}
}

// simulate applies the step to a copy of the network, with the rules of Neutron that the
// plan must follow. It returns false if Neutron would refuse the step.
func simulate(t *testing.T, have *Network, step Step) (*Network, bool) {
	t.Helper()
	next := *have
	next.Subnets = slices.Clone(have.Subnets)
	switch step := step.(type) {
	case CreateNetwork:
		next = changed(Network{ID: "n"}, creation(networkTable, &step.Desired))
	case UpdateNetwork:
		next = changed(next, update(step.Changes))
		next.Subnets, next.Interfaces, next.Routers = have.Subnets, have.Interfaces, have.Routers
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
		next.Tags, next.Imported = NewTags(append(have.Tags.All(), step.Desired.Owner.ImportTag())...), true
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
func strangersSubnets(want Desired, n *Network) []Subnet {
	return slices.DeleteFunc(slices.Clone(n.Subnets), func(s Subnet) bool {
		owner, marked := OwnerOf(s.Description)
		return marked && owner == want.Owner || !marked && slices.Contains(want.Known, s.ID)
	})
}

// startingStates returns networks with each set of up to three of the subnets, and with each
// state of the network itself. The subnets do not overlap, since Neutron refuses that.
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

func TestThePlanReachesTheDesiredStateFromEveryState(t *testing.T) {
	t.Parallel()
	const wanted, gateway = "10.0.0.0/24", "10.0.0.9"
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}.Mark()
	states := startingStates([]Subnet{
		ours("right", wanted, gateway),
		ours("default gateway", wanted, "10.0.0.1"),
		ours("no gateway", wanted, ""),
		withName("x", ours("name", wanted, gateway)),
		described("", ours("known", wanted, gateway)),
		described("", ours("stranger's", wanted, gateway)),
		described(other, ours("other's", wanted, gateway)),
		ours("contains it", "10.0.0.0/16", "10.0.0.1"),
		ours("lower half", "10.0.0.0/25", "10.0.0.1"),
		ours("upper half", "10.0.0.128/25", "10.0.0.129"),
		described("mine", ours("overlapping stranger", "10.0.0.128/26", "10.0.0.129")),
		ours("elsewhere", "10.1.0.0/24", "10.1.0.1"),
		ours("elsewhere too", "10.2.0.0/24", ""),
		ours("IPv6", "fd00:1::/64", "fd00:1::"),
		described("mine", ours("stranger elsewhere", "10.3.0.0/24", "")),
		described(other, ours("other's elsewhere", "10.4.0.0/24", "")),
	})
	t.Logf("%d states", len(states))
	for _, want := range []Desired{
		wants(wanted, gateway, knowing("known")),
		wants(wanted, "", knowing("known")),
		wants(wanted, "none", knowing("known")),
		wants(wanted, gateway, knowing("other's")),
		wants("fd00:1::/64", "", knowing("elsewhere")),
	} {
		for _, have := range states {
			followThePlan(t, want, have)
			if t.Failed() {
				t.Fatalf("want %+v\nhave %+v", want, have)
			}
		}
	}
}

// followThePlan applies and checks each step, and checks the final state.
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
			// Neutron may refuse a step only because of a subnet that the plan must not delete.
			if !slices.ContainsFunc(strangers, func(s Subnet) bool { return s.CIDR.Overlaps(want.Subnets[0].CIDR) }) {
				t.Errorf("Neutron refuses %+v", step)
			}
			return
		}
		if now := strangersSubnets(want, next); !slices.Equal(strangers, now) {
			t.Errorf("%+v changed the unmanaged subnets to %+v", step, now)
		}
		have = next
	}
	t.Errorf("the plan does not end after %d steps; the next is %+v", bound, Next(want, have))
}

func checkStep(t *testing.T, want Desired, have *Network, step Step) {
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
		if !inTheWay && findSubnet(want, have, &want.Subnets[0]) == nil {
			t.Errorf("%+v comes before the create of the new subnet, which it does not overlap", step)
		}
	case CreateSubnet:
		var obsolete []string
		for _, s := range obsoleteSubnets(want, have) {
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
		obsolete := obsoleteSubnets(want, start)
		for ports := range 1 << len(obsolete) {
			var used []string
			for i, s := range obsolete {
				if ports>>i&1 == 1 {
					used = append(used, s.ID)
				}
			}
			have := start
			for step := Next(want, have); step != nil; step = Next(want, have) {
				s := scopeOf(step, identity, have)
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
			isCreated := findSubnet(want, have, &want.Subnets[0]) != nil
			wasCreated := findSubnet(want, start, &want.Subnets[0]) != nil
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

func checkGoal(t *testing.T, want Desired, have *Network) {
	t.Helper()
	equal(t, want.Name+" "+want.Owner.Mark(), have.Name+" "+have.Description)
	own := has(have.Subnets...)
	own.Subnets = slices.DeleteFunc(slices.Clone(have.Subnets), func(s Subnet) bool { return s.Description != want.Owner.Mark() })
	if len(own.Subnets) != 1 {
		t.Errorf("got %d owned subnets at the end, want 1", len(own.Subnets))
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

// BenchmarkNext measures the plan of one Network.
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
		{"another name", has(withName("x", right)), false},
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
