// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

// The examples that get machines.
const (
	routedExample    = "artifacts/examples/example-routed-network.yaml"
	dualStackExample = "artifacts/examples/example-dual-stack.yaml"
)

// machines are the machines of the session. They end with Neutron.
type machines struct {
	host  *machine.Host
	state string // the folder of Neutron
	// first is on the routed network, and outside on the external one.
	first, outside *machine.Machine
	floatingIP     string // of the first one
}

func newMachines(ctx context.Context, neutron *realneutron.Neutron, state string) (*machines, error) {
	host, err := machine.NewHost(ctx, neutron)
	return &machines{host: host, state: state}, err
}

// trafficSteps are the steps with machines, none without -traffic.
func (s *session) trafficSteps() []step {
	if s.machines == nil {
		return nil
	}
	return []step{
		{"Two more examples: one with DNS servers and a pool, one with IPv6 too", s.applyRouted},
		{"A machine starts on the first one, and DHCP tells it what the spec says", s.startMachine},
		{"It reaches its gateway, and another machine on the same subnet", s.reachNeighbour},
		{"Another subnet on the same router: the machine reaches that too", s.reachOtherSubnet},
		{"It reaches an address outside, and a floating IP is reached from there", s.reachOutside},
		{"IPv6: a machine makes its address from the router's advertisement", s.useIPv6},
	}
}

// onFunction is the shell function with which the steps show what runs on a machine.
func (m *machines) onFunction() string {
	return fmt.Sprintf(`on() { hack/neutron/in.sh -state "%s" ip netns exec "$@"; }`, m.state)
}

// aboutMachines tells how to go on with the machines, "" without -traffic.
func (s *session) aboutMachines() string {
	if s.machines == nil {
		return ""
	}
	return fmt.Sprintf(`
The machines are machine-1 to machine-4, and outside. They are network namespaces:
    %s
    on machine-1 ping 10.60.0.1
    on machine-1 ip route
    on outside ping %s                # its floating IP
`, s.relative(s.machines.onFunction()), s.machines.floatingIP)
}

func (s *session) applyRouted(ctx context.Context) error {
	if err := s.kubectl(ctx, "apply", "-f", routedExample, "-f", dualStackExample); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=condition=Ready", resource+"/routed-network", resource+"/dual-stack", timeout); err != nil {
		return err
	}
	return s.kubectl(ctx, "get", resource, "-o", "wide")
}

// newMachine makes a machine on the network of a Network, and shows it as a port.
func (s *session) newMachine(ctx context.Context, name, network string, o machine.Options) (*machine.Machine, error) {
	id, err := s.output(ctx, "get", resource, network, "-o", "jsonpath={.status.networkID}")
	if err != nil {
		return nil, err
	}
	s.show("$ openstack port create --network default/%s %s    # %s starts", network, name, name)
	return s.machines.host.New(ctx, name, id, o)
}

func (s *session) startMachine(ctx context.Context) (err error) {
	if s.machines.first, err = s.newMachine(ctx, "machine-1", "routed-network", machine.Options{}); err != nil {
		return err
	}
	lease := s.machines.first.Lease
	s.show("Its lease:")
	s.showOutput(leaseTable(lease))
	s.show("$ %s", s.machines.onFunction())
	if err := s.on(ctx, s.machines.first, "ip", "route"); err != nil {
		return err
	}
	return checkLease(lease)
}

// leaseTable returns the lease as a table like kubectl's.
func leaseTable(l machine.Lease) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ADDRESS\tROUTERS\tDNS SERVERS\tMTU")
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", l.Address, words(l.Routers), words(l.DNS), l.MTU)
	w.Flush()
	return b.String()
}

func words(addresses []netip.Addr) string { return strings.Trim(fmt.Sprint(addresses), "[]") }

// checkLease returns an error unless the lease is what the example says.
func checkLease(l machine.Lease) error {
	address, first, last := l.Address.Addr(), netip.MustParseAddr("10.60.0.100"), netip.MustParseAddr("10.60.0.200")
	if address.Less(first) || last.Less(address) {
		return fmt.Errorf("the address is %s, want one from %s to %s", address, first, last)
	}
	if got, want := words(l.DNS), "192.0.2.53 192.0.2.54"; got != want {
		return fmt.Errorf("the DNS servers are %s, want %s", got, want)
	}
	if got, want := words(l.Routers), "10.60.0.1"; got != want {
		return fmt.Errorf("the router is %s, want %s", got, want)
	}
	return nil
}

// on runs a command on a machine, and shows it with its output. It tries again until the command
// succeeds, because the agents follow Neutron within seconds.
func (s *session) on(ctx context.Context, m *machine.Machine, name string, args ...string) (err error) {
	s.showCommand("on", append([]string{m.Name, name}, args...)...)
	var out string
	err = s.eventually(ctx, func() (err error) {
		out, err = m.Run(ctx, name, args...)
		return err
	})
	s.showOutput(out)
	return err
}

func (s *session) ping(ctx context.Context, from *machine.Machine, address string) error {
	return s.on(ctx, from, "ping", "-n", "-q", "-c", "3", "-i", "0.2", address)
}

func (s *session) reachNeighbour(ctx context.Context) error {
	second, err := s.newMachine(ctx, "machine-2", "routed-network", machine.Options{})
	if err != nil {
		return err
	}
	if err := s.ping(ctx, s.machines.first, "10.60.0.1"); err != nil {
		return err
	}
	return s.ping(ctx, s.machines.first, second.Lease.Address.Addr().String())
}

func (s *session) reachOtherSubnet(ctx context.Context) error {
	patch := `{"spec":{"additionalSubnets":[{"name":"second","cidr":"10.62.0.0/24"}]}}`
	if err := s.kubectl(ctx, "patch", resource, "routed-network", "--type=merge", "-p", patch); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=condition=Ready", resource+"/routed-network", timeout); err != nil {
		return err
	}
	third, err := s.newMachine(ctx, "machine-3", "routed-network", machine.Options{Address: "10.62.0.9"})
	if err != nil {
		return err
	}
	return s.ping(ctx, s.machines.first, third.Lease.Address.Addr().String())
}

// reachOutside opens the project's default security group for pings.
func (s *session) reachOutside(ctx context.Context) (err error) {
	if s.machines.outside, err = s.machines.host.Outside(ctx); err != nil {
		return err
	}
	if err := s.ping(ctx, s.machines.first, machine.Outside); err != nil {
		return err
	}
	if err := s.letPingsIn(ctx); err != nil {
		return err
	}
	s.show("$ openstack floating ip create --port machine-1 %s", machine.ExternalNetwork)
	ip, err := floatingips.Create(ctx, s.neutron.Client, floatingips.CreateOpts{
		FloatingNetworkID: s.machines.outside.Port.NetworkID, PortID: s.machines.first.Port.ID,
	}).Extract()
	if err != nil {
		return fmt.Errorf("create a floating IP: %w", err)
	}
	s.machines.floatingIP = ip.FloatingIP
	return s.ping(ctx, s.machines.outside, ip.FloatingIP)
}

func (s *session) letPingsIn(ctx context.Context) error {
	s.show("$ openstack security group rule create --protocol icmp default")
	pages, err := groups.List(s.neutron.Client, groups.ListOpts{Name: "default"}).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("list security groups: %w", err)
	}
	found, err := groups.ExtractGroups(pages)
	if err != nil {
		return fmt.Errorf("list security groups: %w", err)
	}
	if len(found) != 1 {
		return fmt.Errorf("want one default security group, got %v", found)
	}
	return rules.Create(ctx, s.neutron.Client, rules.CreateOpts{
		SecGroupID: found[0].ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolICMP,
	}).Err
}

// useIPv6 checks that the address is the one that Neutron expects.
func (s *session) useIPv6(ctx context.Context) error {
	m, err := s.newMachine(ctx, "machine-4", "dual-stack", machine.Options{})
	if err != nil {
		return err
	}
	address, _, err := m.WaitIPv6(ctx)
	if err != nil {
		return err
	}
	if err := s.on(ctx, m, "ip", "-6", "-brief", "address", "show", "dev", "eth0"); err != nil {
		return err
	}
	if err := s.on(ctx, m, "ip", "-6", "route", "show", "default"); err != nil {
		return err
	}
	if !slices.ContainsFunc(m.Port.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == address.String() }) {
		return fmt.Errorf("the machine's address is %s, its port has %v", address, m.Port.FixedIPs)
	}
	return s.ping(ctx, m, "fd00:61::1")
}
