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

var portFields = []string{"id", "name", "device_owner", "device_id", "network_id", "project_id", "fixed_ips"}

// Port is a port that prevents a deletion.
type Port struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	DeviceOwner string    `json:"device_owner"`
	DeviceID    string    `json:"device_id"`
	NetworkID   string    `json:"network_id"`
	ProjectID   string    `json:"project_id"`
	FixedIPs    []FixedIP `json:"fixed_ips"`
}

// FixedIP is an address of a port.
type FixedIP struct {
	SubnetID string     `json:"subnet_id"`
	Address  netip.Addr `json:"ip_address"`
}

func (p Port) listed() (string, []string, []string) {
	texts := []string{p.Name, p.DeviceOwner, p.DeviceID, p.NetworkID, p.ProjectID}
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
	ports, err := c.allPortsOn(ctx, ids...)
	return slices.DeleteFunc(ports, func(p Port) bool { return slices.Contains(ignoredOwners, p.DeviceOwner) }), err
}

// allPortsOn is PortsOnNetworks with the ports that Neutron deletes by itself.
func (c *Client) allPortsOn(ctx context.Context, ids ...string) ([]Port, error) {
	return list[Port](ctx, c, "ports", portFields, url.Values{"network_id": ids})
}

// ignoredOwners are the device owners of the ports that Neutron deletes with their network, and whose addresses it takes away with
// a subnet (AUTO_DELETE_PORT_OWNERS in neutron.common._constants). Every other port prevents a deletion, known or not.
var ignoredOwners = []string{
	"network:dhcp",                     // a DHCP server, also one that is only reserved
	"network:distributed",              // OVN: the metadata service, which each network has
	"network:floatingip_agent_gateway", // DVR: the way of a host's floating IPs to an external network
}

// centralizedSNAT is the owner of the port, beside each interface of a distributed router, for what the gateway translates.
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
