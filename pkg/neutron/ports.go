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
	return slices.DeleteFunc(ports, func(p Port) bool { return slices.Contains(autoDeleted, p.DeviceOwner) }), err
}

// autoDeleted are the device owners of the ports that Neutron creates and deletes by itself
// (AUTO_DELETE_PORT_OWNERS in neutron.common._constants). They belong to its DHCP servers and,
// with OVN, to the metadata service, which has a port on every network.
var autoDeleted = []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"}

// scope says which ports prevent a step. The zero scope has none.
type scope struct {
	// op is the operation that they prevent.
	op string
	// network is the ID of the network that they are on.
	network string
	// subnets are the IDs of the subnets that they have addresses in; nil: any port of the network
	// prevents the step.
	subnets []string
	// except are the addresses that do not prevent it: of the interfaces that the controller removes
	// itself.
	except []portSubnet
}

// portSubnet is the address that a port has in a subnet, by the IDs of both.
type portSubnet struct{ port, subnet string }

// networkScope is the scope of the deletion of a network.
func networkScope(id string) scope { return scope{op: "delete network", network: id} }

// withoutInterfaces returns the scope without the interfaces that the owner manages.
func (s scope) withoutInterfaces(identity Identity, observed *Network) scope {
	for _, i := range observed.Interfaces {
		if identity.manages(observed, i) {
			s.except = append(s.except, portSubnet{i.PortID, i.SubnetID})
		}
	}
	return s
}

// replacedScope is the scope of the replacement of these subnets of the network. Without subnets
// it is the zero scope.
func replacedScope(observed *Network, ids []string) scope {
	if len(ids) == 0 {
		return scope{}
	}
	var cidrs []string
	for _, id := range ids {
		cidrs = append(cidrs, observed.subnet(id).CIDR.String())
	}
	return scope{op: "replace subnet " + strings.Join(cidrs, ", "), network: observed.ID, subnets: ids}
}

// scopeOf returns the scope of a step.
func scopeOf(step Step, identity Identity, observed *Network) scope {
	if s, ok := step.(interface{ scope(*Network) scope }); ok {
		return s.scope(observed).withoutInterfaces(identity, observed)
	}
	return scope{}
}

func (s scope) equal(other scope) bool {
	return s.network == other.network && slices.Equal(s.subnets, other.subnets) && slices.Equal(s.except, other.except)
}

// has reports whether the port prevents the step. The IPv6 subnets of a network share the port of a router:
// it prevents the step too while it has the address of one that stays.
func (s scope) has(p Port) bool {
	return p.NetworkID == s.network && (s.subnets == nil && len(p.FixedIPs) == 0 || slices.ContainsFunc(p.FixedIPs, func(ip FixedIP) bool {
		isIn := s.subnets == nil || slices.Contains(s.subnets, ip.SubnetID)
		return isIn && !slices.Contains(s.except, portSubnet{p.ID, ip.SubnetID})
	}))
}

// blocking names those of the ports that prevent the step; "" if none does.
func (s scope) blocking(ports []Port) string {
	return inUseBy(slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return !s.has(p) }))
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

// shorten sorts the names, so that the text is the same each time, and returns the first of them and
// how many more there are.
func shorten(names []string) string {
	const most = 5
	slices.Sort(names)
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

func (s scope) inUse(message string) error {
	return &Error{Op: s.op, Reason: InUse, Message: message}
}

// checkPorts lists the ports. If one prevents the step, it returns an InUse error that names
// them, and the owner waits.
func (c *Cloud) checkPorts(ctx context.Context, owner types.UID, s scope) error {
	ports, err := c.client.PortsOnNetworks(ctx, s.network)
	if err != nil {
		return err
	}
	message := s.blocking(ports)
	if message == "" {
		return nil
	}
	c.waits.add(owner, s, message)
	return s.inUse(message)
}

// tryDelete calls del. If that fails with InUse, it returns an error that names the ports, and
// the owner waits. If no ports are found, the last one has just gone, or the credentials cannot
// see it: it calls del once more.
func (c *Cloud) tryDelete(ctx context.Context, owner types.UID, s scope, del func() error) error {
	err := del()
	if ReasonOf(err) != InUse {
		return err
	}
	switch named := c.checkPorts(ctx, owner, s); {
	case named == nil:
		return del()
	case ReasonOf(named) == InUse:
		return named
	}
	return err
}
