// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
)

// TestMachine shows what a machine gets from a Network, and whom it reaches.
func TestMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.example("example-routed-network.yaml"))
	routed := w.patch("routed-network", `{"additionalSubnets":[{"name":"second","cidr":"10.62.0.0/24"}]}`)
	group := []string{w.letsPingsIn()}
	first := w.machine("1", routed, machine.Options{Subnet: routed.Status.SubnetID, SecurityGroups: group})
	second := w.machine("2", routed, machine.Options{Address: "10.60.0.9", SecurityGroups: group})
	other := w.machine("3", routed, machine.Options{Address: "10.62.0.9", SecurityGroups: group})

	t.Run("DHCP gives the machine what the spec says", func(t *testing.T) {
		lease := first.Lease
		pool := netip.MustParsePrefix("10.60.0.0/24")
		if a := lease.Address.Addr(); !pool.Contains(a) || a.Less(netip.MustParseAddr("10.60.0.100")) || netip.MustParseAddr("10.60.0.200").Less(a) {
			t.Errorf("the address %s is not in the allocation pool", a)
		}
		if want := []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("192.0.2.54")}; !slices.Equal(lease.DNS, want) {
			t.Errorf("want the DNS servers %s, got %s", want, lease.DNS)
		}
		if want := (machine.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.60.0.1")}); !slices.Contains(lease.Routes, want) {
			t.Errorf("want the route %v, got %v", want, lease.Routes)
		}
	})
	for name, address := range map[string]string{
		"the gateway":                            "10.60.0.1",
		"another machine on the same subnet":     second.Lease.Address.Addr().String(),
		"a machine on another subnet":            other.Lease.Address.Addr().String(),
		"an address outside, through the router": machine.Outside,
	} {
		t.Run("a machine reaches "+name, func(t *testing.T) { w.reaches(first, address) })
	}
	t.Run("a floating IP is reached from outside", func(t *testing.T) { w.reaches(w.outside, w.floatingIP(first)) })
}

// TestProbe shows that a probe counts an interruption, and none where there is none.
func TestProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pair := w.apply(network("pair", "{cidr: 10.63.0.0/24}"))
	from, to := w.machine("1", pair, machine.Options{}), w.machine("2", pair, machine.Options{})
	address := to.Lease.Address.Addr().String()
	w.reaches(from, address)
	probe := func(while func()) machine.Result {
		p, err := from.Probe(w.Context(), address)
		w.must(err)
		while()
		w.reaches(from, address)
		r, err := p.Stop()
		w.must(err)
		return r
	}
	if r := probe(func() {}); r.Sent == 0 || r.Lost > 0 {
		w.Errorf("nothing was interrupted: %+v", r)
	}
	r := probe(func() {
		rule := []string{"INPUT", "--protocol", "icmp", "--jump", "DROP"}
		_, err := to.Run(w.Context(), "iptables", append([]string{"--append"}, rule...)...)
		w.must(err)
		if r, err := from.Ping(w.Context(), address, 1); err == nil {
			w.Errorf("a machine that drops pings has answered: %+v", r)
		}
		_, err = to.Run(w.Context(), "iptables", append([]string{"--delete"}, rule...)...)
		w.must(err)
	})
	// Ping has waited for two seconds.
	if r.Outage < time.Second || r.Lost == r.Sent {
		w.Errorf("two seconds were interrupted: %+v", r)
	}
}

// TestDualStack shows that a machine makes its IPv6 address of the router's advertisement, and that
// this is the address that Neutron expects.
func TestDualStack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dual := w.apply(w.example("example-dual-stack.yaml"))
	m := w.machine("1", dual, machine.Options{})
	address, router, err := m.WaitIPv6(t.Context())
	w.must(err)
	if !slices.ContainsFunc(m.Port.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == address.String() }) {
		t.Errorf("the machine has %s, its port %v", address, m.Port.FixedIPs)
	}
	if !router.IsLinkLocalUnicast() {
		t.Errorf("want the router's address on the link, got %s", router)
	}
	w.reaches(m, "fd00:61::1")
}
