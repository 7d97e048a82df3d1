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

	"k8s.io/apimachinery/pkg/types"
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

// blockers says which ports prevent a step. The zero value has none.
type blockers struct {
	// op is the operation that they prevent.
	op string
	// network is the ID of the network that they are on.
	network string
	// subnets are the IDs of the subnets that they have addresses in; nil: any port of the network
	// prevents the step.
	subnets []string
	// except are the interfaces that the controller removes itself. They do not prevent it, nor do the
	// ports that go with them.
	except []Interface
}

// blockersOfNetwork are those of the deletion of a network.
func blockersOfNetwork(id string) blockers { return blockers{op: "delete network", network: id} }

// withoutInterfaces returns them without the interfaces that the owner manages.
func (b blockers) withoutInterfaces(identity Identity, observed *Observed) blockers {
	for _, i := range observed.Interfaces {
		if identity.manages(observed, i) {
			b.except = append(b.except, i)
		}
	}
	return b
}

// blockersOfReplaced are those of the replacement of these subnets of the network. Without subnets
// there are none.
func blockersOfReplaced(observed *Observed, ids []string) blockers {
	if len(ids) == 0 {
		return blockers{}
	}
	var cidrs []string
	for _, id := range ids {
		cidrs = append(cidrs, observed.subnet(id).CIDR.String())
	}
	return blockers{op: "replace subnet " + strings.Join(cidrs, ", "), network: observed.ID, subnets: ids}
}

// blockersOf returns which ports prevent the step, except for those that go with the interfaces that the owner manages.
func blockersOf(step Step, identity Identity, observed *Observed) (b blockers) {
	switch s := step.(type) {
	case CreateSubnet:
		b = blockersOfReplaced(observed, s.Replaces)
	case DeleteSubnet:
		b = blockers{op: "delete subnet " + s.CIDR.String(), network: observed.ID, subnets: []string{s.ID}}
		if len(s.Others) > 0 {
			b = blockersOfReplaced(observed, append([]string{s.ID}, s.Others...))
		}
	case DetachSubnet:
		b = blockersOfReplaced(observed, s.Replaces)
		if s.IsRemoval {
			b = blockersOfNetwork(observed.ID)
		}
	case DeleteNetwork:
		observed = observed.Keeping(s.Network.ID) // its interfaces go first
		b = blockersOfNetwork(s.Network.ID)
	default:
		return blockers{}
	}
	return b.withoutInterfaces(identity, observed)
}

func (b blockers) equal(other blockers) bool {
	return b.network == other.network && slices.Equal(b.subnets, other.subnets) && slices.EqualFunc(b.except, other.except, sameInterface)
}

// has reports whether the port prevents the step. The IPv6 subnets of a network share the port of a router:
// it prevents the step too while it has the address of one that stays.
func (b blockers) has(p Port) bool {
	return p.NetworkID == b.network && (b.subnets == nil && len(p.FixedIPs) == 0 || slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool {
		isIn := b.subnets == nil || slices.Contains(b.subnets, ip.SubnetID)
		isRemoved := func(i Interface) bool { return i.SubnetID == ip.SubnetID && p.GoesWith(i) }
		return isIn && !slices.ContainsFunc(b.except, isRemoved)
	}))
}

// blocking names those of the ports that prevent the step; "" if none does.
func (b blockers) blocking(ports []Port) string {
	return inUseBy(slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return !b.has(p) }))
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

func (b blockers) inUse(message string) error {
	return &Error{Op: b.op, Reason: InUse, Message: message}
}

// checkPorts lists the ports. If one prevents the step, it returns an InUse error that names
// them, and the owner waits.
func (c *Cloud) checkPorts(ctx context.Context, owner types.UID, b blockers) error {
	ports, err := c.client.PortsOnNetworks(ctx, b.network)
	if err != nil {
		return err
	}
	message := b.blocking(ports)
	if message == "" {
		return nil
	}
	c.waits.add(owner, b, message)
	return b.inUse(message)
}

// tryDelete calls del. If that fails with InUse, it returns an error that names the ports, and
// the owner waits. If no ports are found, the last one has just gone, or the credentials cannot
// see it: it calls del once more, after the guard.
func (c *Cloud) tryDelete(ctx context.Context, owner types.UID, b blockers, guard Guard, del func() error) error {
	err := del()
	if ReasonOf(err) != InUse {
		return err
	}
	switch named := c.checkPorts(ctx, owner, b); {
	case named == nil:
		if err := guard.verify(ctx); err != nil {
			return err
		}
		return del()
	case ReasonOf(named) == InUse:
		return named
	}
	return err
}
