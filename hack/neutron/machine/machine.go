// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine makes machines on the networks of a real Neutron with agents. A machine is a
// network namespace whose eth0 is connected to a port, like a virtual machine's. Its DHCP client,
// its pings and the like are those of Debian.
package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

// The machine that Outside returns: what its address in the external network is, where the routers
// send all that is for no subnet, and an address behind it.
const (
	ExternalNetwork = "public"
	OutsideGateway  = "198.18.0.1"
	Outside         = "203.0.113.1"
)

// patience bounds each wait. It is long because the computer may be busy.
const patience = 15 * time.Minute

// dhcpTries is how often a machine asks for a lease, once in a second.
const dhcpTries = 60

// missed is how long a port may take to become active. When ports and networks come at the same
// time, the DHCP agent misses one now and then, and Neutron waits for its word for ever. Or Neutron
// misses that both the DHCP agent and the bridge agent are ready. Each time it may take twice as
// long, because the agents may only be slow.
const missed = 20 * time.Second

// hostname is the name of the agents' host, as conf/agents.conf says.
const hostname = "host1"

// Host makes machines.
type Host struct {
	// Admin is a client with an administrator's rights.
	Admin   *gophercloud.ServiceClient
	neutron *realneutron.Neutron
}

// NewHost returns the host of a Neutron that UpWithAgents started.
func NewHost(ctx context.Context, neutron *realneutron.Neutron) (*Host, error) {
	cloudsYAML, err := os.ReadFile(neutron.CloudsYAML)
	if err != nil {
		return nil, err
	}
	admin, err := stack.Connect(ctx, realneutron.AdminCloud, cloudsYAML)
	return &Host{Admin: admin, neutron: neutron}, err
}

// file returns the path of a script of this package.
func (h *Host) file(name string) string {
	return filepath.Join(h.neutron.Scripts, "machine", name)
}

// Options are what a machine's port has. The zero value is a port with addresses that Neutron
// chooses, the project's default security group, and DHCP.
type Options struct {
	// Subnet is the ID of the subnet of the address, and Address is the address. Neutron chooses
	// what is empty.
	Subnet, Address string
	// SecurityGroups are the IDs of the port's security groups.
	SecurityGroups []string
	// NoPortSecurity lets everything through to and from the machine.
	NoPortSecurity bool
	// NoDHCP leaves it to the caller to set addresses and routes.
	NoDHCP bool
	// Project is the ID of the project of the machine, that of the network if it is empty.
	Project string
}

// Machine is a machine on a network.
type Machine struct {
	// Name is the name of its network namespace, and of its port.
	Name string
	// Port is its port, as Neutron returned it when it became active.
	Port ports.Port
	// Lease is what its DHCP client got last.
	Lease  Lease
	host   *Host
	closed bool
}

// New makes a machine on the network with that ID, in the project of the network. It returns when
// the machine has its lease. The name must be free, and a valid file name.
func (h *Host) New(ctx context.Context, name, networkID string, o Options) (_ *Machine, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m := &Machine{Name: name, host: h}
	if err := m.createPort(ctx, networkID, o); err != nil {
		return nil, fmt.Errorf("%s: create a port: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if err := m.plugIn(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !o.NoDHCP {
		err = m.RequestLease(ctx)
	}
	return m, err
}

// Outside makes the machine through which all routers with a gateway in the external network reach
// the address Outside.
func (h *Host) Outside(ctx context.Context) (*Machine, error) {
	pages, err := networks.List(h.Admin, networks.ListOpts{Name: ExternalNetwork}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	found, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("want one network %s, got %v", ExternalNetwork, found)
	}
	m, err := h.New(ctx, "outside", found[0].ID, Options{Address: OutsideGateway, NoPortSecurity: true, NoDHCP: true})
	if err != nil {
		return nil, err
	}
	_, err = m.Run(ctx, "sh", "-c", "ip address add "+OutsideGateway+"/16 dev eth0 && ip address add "+Outside+"/32 dev lo")
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Machine) createPort(ctx context.Context, networkID string, o Options) error {
	network, err := networks.Get(ctx, m.host.Admin, networkID).Extract()
	if err != nil {
		return err
	}
	// The bridge agent would leave it to Nova to connect a port with the owner compute:….
	create := ports.CreateOpts{NetworkID: networkID, Name: m.Name, ProjectID: cmp.Or(o.Project, network.ProjectID), DeviceOwner: "test:machine"}
	if o.Subnet != "" || o.Address != "" {
		create.FixedIPs = []ports.IP{{SubnetID: o.Subnet, IPAddress: o.Address}}
	}
	if o.SecurityGroups != nil {
		create.SecurityGroups = &o.SecurityGroups
	}
	var builder ports.CreateOptsBuilder = portsbinding.CreateOptsExt{CreateOptsBuilder: create, HostID: hostname}
	if o.NoPortSecurity {
		builder = portsecurity.PortCreateOptsExt{CreateOptsBuilder: builder, PortSecurityEnabled: new(false)}
	}
	port, err := ports.Create(ctx, m.host.Admin, builder).Extract()
	if err == nil {
		m.Port = *port
	}
	return err
}

// tap is the name under which the bridge agent expects the port's device.
func (m *Machine) tap() string { return "tap" + m.Port.ID[:11] }

// plugIn makes the namespace, and connects it to the port. Its eth0 goes up only when the agent has
// connected the port: else the first router solicitation is lost.
func (m *Machine) plugIn(ctx context.Context) error {
	_, err := m.host.run(ctx, "sh", "-ec", `ip netns add "$1"
		ip link add "$2" type veth peer name eth0 netns "$1" address "$3"
		ip link set "$2" up
		ip -n "$1" link set lo up
		# To ask Neutron all the time would make it slow.
		until [ -e "/sys/class/net/$2/master" ]; do sleep 0.2; done`, "sh", m.Name, m.tap(), m.Port.MACAddress)
	if err != nil {
		return err
	}
	pause := missed
	again := time.Now().Add(pause)
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		port, err := ports.Get(ctx, m.host.Admin, m.Port.ID).Extract()
		if err != nil {
			return false, err
		}
		m.Port = *port
		if port.Status != "ACTIVE" && time.Now().After(again) {
			pause *= 2
			again = time.Now().Add(pause)
			return false, m.announce(ctx)
		}
		return port.Status == "ACTIVE", nil
	})
	if err != nil {
		return fmt.Errorf("wait until port %s is active: %w", m.Port.ID, err)
	}
	_, err = m.host.run(ctx, "ip", "-n", m.Name, "link", "set", "eth0", "up")
	return err
}

// announce makes Neutron tell its agents of the port again.
func (m *Machine) announce(ctx context.Context) error {
	for _, up := range []bool{false, true} {
		if err := ports.Update(ctx, m.host.Admin, m.Port.ID, ports.UpdateOpts{AdminStateUp: &up}).Err; err != nil {
			return err
		}
	}
	return nil
}

// RequestLease asks the DHCP server for a lease, and sets the address and the routes of the lease.
func (m *Machine) RequestLease(ctx context.Context) error {
	out, err := m.Run(ctx, "busybox", "udhcpc", "-i", "eth0", "-s", m.host.file("lease.sh"),
		"-f", "-q", "-n", "-t", strconv.Itoa(dhcpTries), "-T", "1", "-O", "mtu", "-O", "staticroutes")
	if err != nil {
		return err
	}
	m.Lease, err = parseLease(out)
	return err
}

// WaitIPv6 waits until the machine has an address and a default route from a router's
// advertisement, and returns both.
func (m *Machine) WaitIPv6(ctx context.Context) (address, router netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var links []ipLink
		if err := m.runJSON(ctx, &links, "ip", "-6", "-json", "address", "show", "dev", "eth0", "scope", "global"); err != nil {
			return false, err
		}
		var routes []ipRoute
		if err := m.runJSON(ctx, &routes, "ip", "-6", "-json", "route", "show", "default", "proto", "ra"); err != nil {
			return false, err
		}
		address = usableAddress(links)
		if len(routes) > 0 {
			router = routes[0].Gateway
		}
		return address.IsValid() && router.IsValid(), nil
	})
	if err != nil {
		err = fmt.Errorf("%s: wait for a router's advertisement: %w", m.Name, err)
	}
	return address, router, err
}

// ipLink and ipRoute are what ip prints.
type ipLink struct {
	AddrInfo []struct {
		Local     netip.Addr
		Tentative bool
	} `json:"addr_info"`
}

type ipRoute struct {
	Gateway netip.Addr
}

// usableAddress returns an address that the kernel has found to be unique.
func usableAddress(links []ipLink) netip.Addr {
	for _, link := range links {
		for _, info := range link.AddrInfo {
			if info.Local.IsValid() && !info.Tentative {
				return info.Local
			}
		}
	}
	return netip.Addr{}
}

// Command returns a command that runs on the machine.
func (m *Machine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return m.host.neutron.Command(ctx, "ip", slices.Concat([]string{"netns", "exec", m.Name, name}, args)...)
}

// Run runs a command on the machine, and returns its output, with stderr. An error contains it too.
func (m *Machine) Run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := output(m.Command(ctx, name, args...))
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", m.Name, name, err)
	}
	return out, err
}

func (m *Machine) runJSON(ctx context.Context, into any, name string, args ...string) error {
	out, err := m.Run(ctx, name, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

func (h *Host) run(ctx context.Context, name string, args ...string) (string, error) {
	return output(h.neutron.Command(ctx, name, args...))
}

func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// Close removes the machine and its port. It may be called more than once.
func (m *Machine) Close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := m.host.run(ctx, "sh", "-c", `ip link delete "$1"; ip netns delete "$2"`, "sh", m.tap(), m.Name)
	return errors.Join(err, ports.Delete(ctx, m.host.Admin, m.Port.ID).ExtractErr())
}
