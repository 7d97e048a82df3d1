// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"slices"
	"testing"
)

func TestPortsThatNeutronDeletesByItselfDoNotBlock(t *testing.T) {
	_, c, network := labWithNetwork(t)
	subnet, err := c.CreateSubnet(t.Context(), network.ID, creates("10.0.0.0/24", "").fields())
	noError(t, err)
	other := makeNetworks(t, c, 1)[0]
	makePort(t, c, other, "elsewhere", "compute:nova")
	for _, owner := range []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"} {
		makePort(t, c, network.ID, owner, owner)
	}
	got, err := c.PortsOnNetworks(t.Context(), network.ID)
	noError(t, err)
	equal(t, []Port{}, got)
	id := makePort(t, c, network.ID, "web-0", "compute:nova")
	port := Port{ID: id, Name: "web-0", DeviceOwner: "compute:nova", NetworkID: network.ID, ProjectID: "project-1", FixedIPs: []FixedIP{{SubnetID: subnet.ID}}}
	got, err = c.PortsOnNetworks(t.Context(), network.ID)
	noError(t, err)
	address := &got[0].FixedIPs[0].Address
	equal(t, true, subnet.CIDR.Contains(*address))
	*address = addr("")
	equal(t, []Port{port}, got)
}

// Every other port prevents a deletion, whoever made it.
func TestPortsOfAllOtherOwnersBlock(t *testing.T) {
	_, c, network := labWithNetwork(t)
	var want []string
	for _, owner := range slices.Concat(interfaceOwners, []string{centralizedSNAT, "network:router_gateway", "network:floatingip", "network:router_ha_interface",
		"network:local_ip", "neutron:LOADBALANCERV2", "compute:nova", "baremetal:none", "trunk:subport", "Octavia", "invented:later", ""}) {
		want = append(want, makePort(t, c, network.ID, "", owner))
	}
	ports, err := c.PortsOnNetworks(t.Context(), network.ID)
	noError(t, err)
	var got []string
	for _, p := range ports {
		got = append(got, p.ID)
	}
	equal(t, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
}

func TestWhichPortsGoWithAnInterface(t *testing.T) {
	i := Interface{PortID: "i", RouterID: "r", SubnetID: "s"}
	beside := Port{ID: "p", DeviceOwner: centralizedSNAT, DeviceID: "r", FixedIPs: []FixedIP{{SubnetID: "t"}, {SubnetID: "s"}}}
	for _, test := range []struct {
		name   string
		change func(*Port)
		want   bool
	}{
		{"the port beside it", func(*Port) {}, true},
		{"its own port", func(p *Port) { *p = Port{ID: "i"} }, true},
		{"not the port beside the interface of another router", func(p *Port) { p.DeviceID = "q" }, false},
		{"not the port beside the interface on another subnet", func(p *Port) { p.FixedIPs = p.FixedIPs[:1] }, false},
		{"not a port without an address", func(p *Port) { p.FixedIPs = nil }, false},
		{"not another interface on the subnet", func(p *Port) { p.DeviceOwner = "network:router_interface" }, false},
		{"not the port of a server", func(p *Port) { p.DeviceOwner = "compute:nova" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := beside
			test.change(&p)
			equal(t, test.want, p.GoesWith(i))
		})
	}
}

func TestWhichPortsPreventAStep(t *testing.T) {
	on := func(network string, subnets ...string) Port {
		p := Port{ID: "p", NetworkID: network}
		for _, id := range subnets {
			p.FixedIPs = append(p.FixedIPs, FixedIP{SubnetID: id})
		}
		return p
	}
	both := has(ours("a", "10.0.0.0/24", ""), ours("b", "10.1.0.0/24", ""))
	for _, test := range []struct {
		name string
		step Step
		op   string
		port Port
		want bool
	}{
		{"a deletion of a network: any port on it", DeleteNetwork{Network: &Network{ID: "n"}}, "delete network", on("n"), true},
		{"a deletion of a subnet: a port in it", DeleteSubnet{ID: "a", CIDR: cidr("10.0.0.0/24")}, "delete subnet 10.0.0.0/24", on("n", "b", "a"), true},
		{"a deletion of a subnet: not a port in another", DeleteSubnet{ID: "a", CIDR: cidr("10.0.0.0/24")}, "delete subnet 10.0.0.0/24", on("n", "b"), false},
		{"a deletion that makes room: a port in any replaced subnet", DeleteSubnet{ID: "a", CIDR: cidr("10.0.0.0/24"), Others: []string{"b"}},
			"replace subnet 10.0.0.0/24, 10.1.0.0/24", on("n", "b"), true},
		{"a replacement of two: a port in the second", creates("10.2.0.0/24", "", "a", "b"), "replace subnet 10.0.0.0/24, 10.1.0.0/24", on("n", "b"), true},
		{"a new subnet: no port", creates("10.2.0.0/24", ""), "", on("n", "a"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := blockersOf(test.step, identity, both)
			equal(t, test.op, s.op)
			equal(t, test.want, s.has(test.port))
			equal(t, test.want, s.blocking([]Port{test.port}) != "")
		})
	}
}

func TestInUseNamesThePorts(t *testing.T) {
	port := func(name string) Port { return Port{ID: "id-of-" + name, Name: name, DeviceOwner: "compute:nova"} }
	for _, test := range []struct {
		name  string
		ports []Port
		want  string
	}{
		{"the order does not depend on Neutron", []Port{port("b"), port("c"), port("a")}, "in use by port a (compute:nova), b (compute:nova), c (compute:nova)"},
		{"a port without a name is named by its ID", []Port{{ID: "i", DeviceOwner: "compute:nova"}}, "in use by port i (compute:nova)"},
		{"five ports", []Port{port("a"), port("b"), port("c"), port("d"), port("e")},
			"in use by port a (compute:nova), b (compute:nova), c (compute:nova), d (compute:nova), e (compute:nova)"},
		{"of more ports, the first five and the number of the others", []Port{port("g"), port("f"), port("e"), port("d"), port("c"), port("b"), port("a")},
			"in use by port a (compute:nova), b (compute:nova), c (compute:nova), d (compute:nova), e (compute:nova) and 2 more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, Error{Op: "delete subnet", Reason: InUse, Message: test.want}, blockers{op: "delete subnet"}.inUse(inUseBy(test.ports)))
		})
	}
	equal(t, "", inUseBy(nil))
}
