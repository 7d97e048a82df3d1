// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Port is a port that prevents a deletion.
type Port struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	DeviceOwner string    `json:"device_owner"`
	DeviceID    string    `json:"device_id"`
	NetworkID   string    `json:"network_id"`
	FixedIPs    []FixedIP `json:"fixed_ips"`
}

// FixedIP is an address of a port.
type FixedIP struct {
	SubnetID string     `json:"subnet_id"`
	Address  netip.Addr `json:"ip_address"`
}

func (p Port) listed() (string, []string, []string) {
	texts := []string{p.Name, p.DeviceOwner, p.DeviceID, p.NetworkID}
	for _, ip := range p.FixedIPs {
		texts = append(texts, ip.SubnetID, ip.Address.Zone())
	}
	return p.ID, texts, nil
}

// String returns the port's name, or its ID if it has no name, and the owner of its device.
func (p Port) String() string {
	return cmp.Or(p.Name, p.ID) + " (" + cmp.Or(p.DeviceOwner, "no device") + ")"
}

// PortsOnNetworks lists the ports that prevent the deletion of the networks, including those of
// other projects.
func (c *Client) PortsOnNetworks(ctx context.Context, ids ...string) ([]Port, error) {
	ports, err := list[Port](ctx, c, "ports", portFields, url.Values{"network_id": ids})
	return slices.DeleteFunc(ports, func(p Port) bool { return ownersOfPorts[p.DeviceOwner] == ignored }), err
}

// ownersOfPorts has the device owners of the ports that Neutron and its services make by themselves
// (DEVICE_OWNER_* in neutron_lib.constants), and what such a port means for a deletion. Every other
// owner blocks: compute:nova, baremetal:none, trunk:subport, Octavia, none at all, and those that are
// not invented yet.
var ownersOfPorts = map[string]meaning{
	// A DHCP server. One that is only reserved has the same owner.
	"network:dhcp": ignored,
	// OVN: the metadata service, a localport, which each network has.
	"network:distributed": ignored,
	// DVR: the way of a host's floating IPs to an external network.
	"network:floatingip_agent_gateway": ignored,

	// The interface of a router: of an ordinary one and each one with OVN, of a distributed one (DVR), and of
	// one that is highly available.
	"network:router_interface":               goesWithInterface,
	"network:router_interface_distributed":   goesWithInterface,
	"network:ha_router_replicated_interface": goesWithInterface,
	// DVR: the port for the traffic that the gateway translates, beside each interface of a router with a
	// gateway. It goes with either of them, and by no request for itself.
	centralizedSNAT: goesWithInterface,

	// On external networks only: the gateway of a router, and a floating IP. Neutron deletes floating IPs
	// that lead nowhere with their network: see checkExternal.
	"network:router_gateway": blocks,
	"network:floatingip":     blocks,
	// Between the hosts of a highly available router. They are on a network that belongs to no project.
	"network:router_ha_interface": blocks,
	// A local IP, which a user has requested.
	"network:local_ip": blocks,
	// The address of a load balancer, by the retired neutron-lbaas.
	"neutron:LOADBALANCER":   blocks,
	"neutron:LOADBALANCERV2": blocks,
}

// meaning is what a port means for the deletion of its network and subnets.
type meaning int

const (
	// blocks: the port prevents the deletion, as a user's port does.
	blocks meaning = iota
	// ignored: Neutron deletes the port with its network, and takes its addresses away with a subnet
	// (AUTO_DELETE_PORT_OWNERS in neutron.common._constants).
	ignored
	// goesWithInterface: the port is the interface of a router, or goes with it. It prevents the deletion,
	// unless the controller itself removes the interface before.
	goesWithInterface
)

const centralizedSNAT = "network:router_centralized_snat"

// GoesWith reports whether Neutron deletes the port when it removes the interface: it is the port of the
// interface, or the one for SNAT beside it.
func (p Port) GoesWith(i Interface) bool {
	return p.ID == i.PortID || p.DeviceOwner == centralizedSNAT && p.DeviceID == i.RouterID &&
		slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool { return ip.SubnetID == i.SubnetID })
}

// inUseBy returns a message that names the ports; "" if there are none.
func inUseBy(ports []Port) string {
	if len(ports) == 0 {
		return ""
	}
	names := make([]string, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.String())
	}
	return Printable("in use by port " + shorten(names))
}

// shorten is FirstOf in alphabetical order, so that the text is the same each time.
func shorten(names []string) string {
	slices.Sort(names)
	return FirstOf(names)
}

// FirstOf returns the first of the names, and how many more there are.
func FirstOf(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}
