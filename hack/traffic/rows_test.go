// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/subnetpools"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// open are the options of a machine to and from which everything passes.
var open = machine.Options{NoPortSecurity: true}

// row is what a machine on a Network notices.
type row struct {
	// fields are the fields of the spec that it notices.
	fields []string
	// addresses are the first and the last address that its lease may have, and lease is the rest of
	// the lease, as says writes it. If they are empty, check makes the machines.
	addresses, lease string
	// secured is whether its port has port security. Without it, the bridge agent has less to do.
	secured bool
	// check shows what else the machine notices of the Network, which is ready.
	check func(*world, *samplecrdv1.Network, *machine.Machine)
}

// notices checks the row on that Network.
func (w *world) notices(r row, on *samplecrdv1.Network) {
	w.Helper()
	var m *machine.Machine
	if r.lease != "" {
		m = w.machine("first", on, machine.Options{Subnet: on.Status.SubnetID, NoPortSecurity: !r.secured})
		w.leases(m, r.lease)
		from, to, _ := strings.Cut(r.addresses, " ")
		if a := m.Lease.Address.Addr(); a.Less(netip.MustParseAddr(from)) || netip.MustParseAddr(to).Less(a) {
			w.Errorf("want an address from %s to %s, got %s", from, to, a)
		}
	}
	if r.check != nil {
		r.check(w, on, m)
	}
}

// leases waits until the machine gets a lease that says this.
func (w *world) leases(m *machine.Machine, want string) {
	w.Helper()
	w.eventually(func() error {
		if got := says(m.Lease); got != want {
			return errors.Join(fmt.Errorf("want the lease %s, got %s", want, got), m.RequestLease(w.Context()))
		}
		return nil
	})
}

// says returns in words what the lease has beside the address.
func says(l machine.Lease) string {
	var dns, routes []string
	for _, a := range l.DNS {
		dns = append(dns, strings.ReplaceAll(a.String(), l.Server.String(), "DHCP-server"))
	}
	for _, r := range l.Routes {
		routes = append(routes, strings.TrimSuffix(r.Destination.String()+">"+r.Via.String(), ">0.0.0.0"))
	}
	slices.Sort(routes)
	return fmt.Sprintf("routers%v dns%v mtu[%d] routes%v", l.Routers, dns, l.MTU, routes)
}

// getsNoLease fails if a DHCP server answers the machine. The caller has waited until one would.
func (w *world) getsNoLease(m *machine.Machine) {
	w.Helper()
	out, err := m.Run(w.Context(), "busybox", "udhcpc", "-i", "eth0", "-s", "/bin/true", "-f", "-q", "-n", "-t", "3", "-T", "1")
	if err == nil || !strings.Contains(out, "no lease") {
		w.Errorf("want no lease, got %s: %v", out, err)
	}
}

// hears returns a function that says whether a ping from that address has come since the call.
func (w *world) hears(m *machine.Machine, from string) func() bool {
	w.Helper()
	iptables := func(args ...string) string {
		out, err := m.Run(context.WithoutCancel(w.Context()), "iptables", append([]string{"--wait"}, args...)...)
		w.must(err)
		return out
	}
	iptables("--append", "INPUT", "--protocol", "icmp", "--source", from)
	w.Cleanup(func() { iptables("--delete", "INPUT", "--protocol", "icmp", "--source", from) })
	return func() bool {
		for line := range strings.Lines(iptables("--list", "INPUT", "--numeric", "--verbose", "--exact")) {
			if words := strings.Fields(line); slices.Contains(words, from) {
				return words[0] != "0"
			}
		}
		w.Fatalf("the rule for %s is gone", from)
		return false
	}
}

// passes sends an IPv4 packet of that size that no router may split, and says whether it is answered.
func (w *world) passes(m *machine.Machine, address string, bytes int) bool {
	const headers = 28 // of IPv4 and ICMP
	_, err := m.Run(w.Context(), "ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", strconv.Itoa(bytes-headers), address)
	return err == nil
}

// has gives the device of the machine an address.
func (w *world) has(m *machine.Machine, device, address string) {
	w.Helper()
	_, err := m.Run(w.Context(), "ip", "address", "add", address, "dev", device)
	w.must(err)
}

// part runs a part of the test as a subtest.
func (w *world) part(name string, test func(*world)) {
	w.Helper()
	w.Run(name, func(t *testing.T) {
		inner := *w
		inner.T = t
		test(&inner)
	})
}

// address returns the address of the machine's lease.
func address(m *machine.Machine) string { return m.Lease.Address.Addr().String() }

// surroundings are what Networks refer to: the router backbone, the subnet pools team-v4 and
// team-v6, and another project.
type surroundings struct {
	other        *gophercloud.ServiceClient
	otherProject string
}

// makeSurroundings works when the first test needs them. They stay until Neutron ends.
var makeSurroundings = sync.OnceValues(func() (s surroundings, err error) {
	ctx := context.Background()
	cloudsYAML, err := os.ReadFile(shared.real.CloudsYAML)
	if err != nil {
		return s, err
	}
	if s.other, err = stack.Connect(ctx, realneutron.OtherCloud, cloudsYAML); err != nil {
		return s, err
	}
	project, err := s.other.GetAuthResult().(tokens.CreateResult).ExtractProject()
	if err != nil {
		return s, err
	}
	s.otherProject = project.ID
	backbone := routers.CreateOpts{Name: "backbone", GatewayInfo: &routers.GatewayInfo{NetworkID: shared.outside.Port.NetworkID}}
	err = routers.Create(ctx, shared.neutron.Client, backbone).Err
	for name, prefix := range map[string]string{"team-v4": "10.20.0.0/16", "team-v6": "fd00:20::/48"} {
		pool := subnetpools.CreateOpts{Name: name, Prefixes: []string{prefix}}
		err = errors.Join(err, subnetpools.Create(ctx, shared.neutron.Client, pool).Err)
	}
	return s, err
})

func (w *world) surroundings() surroundings {
	w.Helper()
	s, err := makeSurroundings()
	w.must(err)
	return s
}

// inWorlds lets the tests take turns, each in a world of its own.
func inWorlds[R any](t *testing.T, rows map[string]R, test func(w *world, name string, r R)) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takeTurn(t)
			test(newWorld(t), name, r)
		})
	}
}

// mayLast says whether the Networks of the manifest can be left to the end of Neutron. Those on the
// router backbone cannot: with -count=2, the same subnets are attached to it again.
func mayLast(manifest string) bool { return !strings.Contains(manifest, "existing:") }
