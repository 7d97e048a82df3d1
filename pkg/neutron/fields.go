// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// field is a field of a network or a subnet in Neutron: one row of a table. D is what a Network
// declares, O is what was observed. A value is null in JSON if it is the zero netip.Addr.
type field[D, O any] struct {
	// name is that of Neutron's API.
	name string
	// label is the field's name in events and in the metric of repaired drift. noun is its name in events, if that is another.
	label, noun string
	// role is what the field is for, if the plan treats it in a way of its own.
	role Role
	// spec returns the value that the Network declares, nil if it declares none. The request that
	// creates the object has only such values.
	spec func(*D) any
	// otherwise returns the value that Neutron must have if the Network declares none: Neutron's
	// default. If it is nil, or returns nil, the field is left alone.
	otherwise func(*D, *O) any
	// observed returns the value that Neutron has.
	observed func(*O) any
	// isFixed means that Neutron cannot change the field: a subnet or a router with another value is replaced.
	isFixed bool
}

// Role is what a field is for, if the plan treats it in a way of its own.
type Role int

const (
	// roleMark is that of a description, which has the ownership mark.
	roleMark Role = iota + 1
	roleGateway
	// roleZones is that of the availability zones of a network, which Neutron sets only when it creates the network.
	roleZones
	// rolePools is that of the allocation pools. They depend on the gateway: Neutron refuses a gateway inside a pool.
	rolePools
	// roleMTU is that of the size of packets, which machines learn only from a new lease.
	roleMTU
)

// always returns a default that does not depend on anything.
func always[D, O any](value any) func(*D, *O) any { return func(*D, *O) any { return value } }

// given returns the value, or nil if it is the zero value.
func given[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

// pointed returns the value that p points to, or nil.
func pointed[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// networkTable has a row for each field of a network that a Network can declare, except its tags,
// which Neutron changes by a request of their own.
var networkTable = []field[DesiredNetwork, Network]{
	{name: "name", label: "network name", noun: "name",
		spec:     func(d *DesiredNetwork) any { return given(d.Name) },
		observed: func(n *Network) any { return n.Name }},
	{name: "description", label: fieldNetworkMark, noun: "ownership mark", role: roleMark,
		spec:     func(d *DesiredNetwork) any { return given(d.Mark) },
		observed: func(n *Network) any { return n.Description }},
	{name: "mtu", label: "MTU", role: roleMTU,
		spec:     func(d *DesiredNetwork) any { return given(d.MTU) },
		observed: func(n *Network) any { return n.MTU }},
	{name: "port_security_enabled", label: "port security",
		spec:     func(d *DesiredNetwork) any { return pointed(d.PortSecurityEnabled) },
		observed: func(n *Network) any { return n.PortSecurityEnabled }},
	{name: "dns_domain", label: "DNS domain",
		spec:      func(d *DesiredNetwork) any { return given(d.DNSDomain) },
		otherwise: always[DesiredNetwork, Network](""),
		observed:  func(n *Network) any { return n.DNSDomain }},
	{name: "shared", label: "shared",
		spec:      func(d *DesiredNetwork) any { return given(d.Shared) },
		otherwise: always[DesiredNetwork, Network](false),
		observed:  func(n *Network) any { return n.Shared }},
	{name: "router:external", label: "external",
		spec:      func(d *DesiredNetwork) any { return given(d.External) },
		otherwise: always[DesiredNetwork, Network](false),
		observed:  func(n *Network) any { return n.External }},
	{name: "availability_zone_hints", label: "availability zone hints", role: roleZones,
		spec:     func(d *DesiredNetwork) any { return given(d.ZoneHints) },
		observed: func(n *Network) any { return n.ZoneHints }},
	{name: "provider:network_type", label: "network type",
		spec:     func(d *DesiredNetwork) any { return given(d.NetworkType) },
		observed: func(n *Network) any { return n.NetworkType }},
	{name: "provider:physical_network", label: "physical network",
		spec:     func(d *DesiredNetwork) any { return given(d.PhysicalNetwork) },
		observed: func(n *Network) any { return n.PhysicalNetwork }},
	{name: "provider:segmentation_id", label: "segmentation ID",
		spec:     func(d *DesiredNetwork) any { return given(d.SegmentationID) },
		observed: func(n *Network) any { return n.SegmentationID }},
}

// subnetTable has a row for each field of a subnet that a Network can declare, except its CIDR, by
// which the plan finds the subnet.
var subnetTable = []field[DesiredSubnet, Subnet]{
	{name: "name", label: "subnet name",
		spec:     func(d *DesiredSubnet) any { return given(d.Name) },
		observed: func(s *Subnet) any { return s.Name }},
	{name: "description", label: "subnet mark", noun: "ownership mark of the subnet", role: roleMark,
		spec:     func(d *DesiredSubnet) any { return given(d.Mark) },
		observed: func(s *Subnet) any { return s.Description }},
	{name: "gateway_ip", label: "gateway", role: roleGateway,
		spec:      specGateway,
		otherwise: func(d *DesiredSubnet, s *Subnet) any { return defaultGateway(d.CIDR, s.Gateway) },
		observed:  func(s *Subnet) any { return s.Gateway }},
	{name: "allocation_pools", label: "allocation pools", role: rolePools,
		spec:      func(d *DesiredSubnet) any { return given(d.Pools) },
		otherwise: defaultPools,
		observed:  func(s *Subnet) any { return s.Pools }},
	{name: "dns_nameservers", label: "DNS servers",
		spec:      func(d *DesiredSubnet) any { return given(d.DNSNameservers) },
		otherwise: always[DesiredSubnet, Subnet](Addresses("")),
		observed:  func(s *Subnet) any { return s.DNSNameservers }},
	{name: "host_routes", label: "host routes",
		spec:      func(d *DesiredSubnet) any { return given(d.Routes) },
		otherwise: always[DesiredSubnet, Subnet](Routes("")),
		observed:  func(s *Subnet) any { return s.Routes }},
	{name: "enable_dhcp", label: "DHCP",
		spec:      specDHCP,
		otherwise: always[DesiredSubnet, Subnet](true),
		observed:  func(s *Subnet) any { return s.DHCP }},
	{name: "ipv6_address_mode", label: "IPv6 address mode", isFixed: true,
		spec:      func(d *DesiredSubnet) any { return given(d.AddressMode) },
		otherwise: always[DesiredSubnet, Subnet](""),
		observed:  func(s *Subnet) any { return s.AddressMode }},
	{name: "ipv6_ra_mode", label: "IPv6 RA mode", isFixed: true,
		spec:      func(d *DesiredSubnet) any { return given(d.RAMode) },
		otherwise: always[DesiredSubnet, Subnet](""),
		observed:  func(s *Subnet) any { return s.RAMode }},
}

// gatewayOn is the external network of a router's gateway, in the form of a request.
type gatewayOn string

// MarshalJSON writes Neutron's external_gateway_info.
func (g gatewayOn) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"network_id": string(g)})
}

func (g gatewayOn) String() string { return "external network " + string(g) }

// routerTable has a row for each field of a router of a Network's own.
var routerTable = []field[DesiredRouter, Router]{
	{name: "name", label: "router name",
		spec:     func(d *DesiredRouter) any { return d.Name },
		observed: func(r *Router) any { return r.Name }},
	{name: "description", label: "router mark", noun: "ownership mark of the router", role: roleMark,
		spec:     func(d *DesiredRouter) any { return d.Mark },
		observed: func(r *Router) any { return r.Description }},
	{name: "external_gateway_info", label: "router gateway",
		spec:     func(d *DesiredRouter) any { return gatewayOn(d.ExternalNetwork) },
		observed: func(r *Router) any { return gatewayOn(r.Gateway.NetworkID) }},
	{name: "availability_zone_hints", label: "router availability zone hints", isFixed: true,
		spec:     func(d *DesiredRouter) any { return given(d.ZoneHints) },
		observed: func(r *Router) any { return r.ZoneHints }},
}

func specGateway(d *DesiredSubnet) any {
	if d.NoGateway {
		return netip.Addr{}
	}
	return given(d.Gateway)
}

func specDHCP(d *DesiredSubnet) any {
	if d.NoDHCP {
		return false
	}
	return nil
}

// defaultGateway returns the gateway that Neutron chooses. Neutron releases differ in which of
// the first two addresses of an IPv6 subnet they choose. Both count as Neutron's choice.
func defaultGateway(cidr netip.Prefix, observed netip.Addr) netip.Addr {
	first := cidr.Addr()
	if first.Is4() || observed == first.Next() {
		return first.Next()
	}
	return first
}

// defaultPools returns the allocation pools that Neutron chooses. They depend on the gateway, and
// Neutron refuses a gateway that is inside a pool: so both are set together.
func defaultPools(d *DesiredSubnet, observed *Subnet) any {
	gateway := d.Gateway
	if !gateway.IsValid() && !d.NoGateway {
		gateway = defaultGateway(d.CIDR, observed.Gateway)
	}
	return allocationPools(d.CIDR, gateway)
}

// A Change sets one field.
type Change struct {
	// Name is the field's name in Neutron's API.
	Name string
	// Label is the field's name for users: one of Fields. Noun is its name in events, "" if that is the label.
	Label, Noun string
	// Role is that of the field.
	Role Role
	// Value is what the field is set to.
	Value any
	// IsDefault means that the Network does not declare the field.
	IsDefault bool
	// Before is the value that was observed.
	Before any
}

// changes returns what must change so that the observed object matches.
func changes[D, O any](table []field[D, O], desired *D, observed *O) (changes []Change) {
	for _, f := range table {
		value, isDefault := f.desired(desired, observed)
		if f.isFixed || value == nil {
			continue
		}
		if before := f.observed(observed); value != before {
			changes = append(changes, Change{f.name, f.label, f.noun, f.role, value, isDefault, before})
		}
	}
	return changes
}

// desired returns the value that Neutron must have, nil if any will do.
func (f field[D, O]) desired(desired *D, observed *O) (value any, isDefault bool) {
	value = f.spec(desired)
	if value == nil && f.otherwise != nil {
		return f.otherwise(desired, observed), true
	}
	return value, false
}

// matchesFixed reports whether the observed object has the values of all fields that Neutron
// cannot change. If onlyDeclared is set, fields that the Network does not declare may have any value.
func matchesFixed[D, O any](table []field[D, O], desired *D, observed *O, onlyDeclared bool) bool {
	return !slices.ContainsFunc(table, func(f field[D, O]) bool {
		if !f.isFixed {
			return false // without computing the default pools, which takes most of the time of a plan
		}
		value, isDefault := f.desired(desired, observed)
		return value != nil && value != f.observed(observed) && !(isDefault && onlyDeclared)
	})
}

// creation returns the fields of a request that creates the object.
func creation[D, O any](table []field[D, O], desired *D) map[string]any {
	fields := map[string]any{}
	for _, f := range table {
		if value := f.spec(desired); value != nil {
			fields[f.name] = sent(value)
		}
	}
	return fields
}

// update returns the fields of a request that makes the changes.
func update(changes []Change) map[string]any {
	fields := map[string]any{}
	for _, c := range changes {
		fields[c.Name] = sent(c.Value)
	}
	return fields
}

// sent returns the value as it is sent: null for the zero netip.Addr.
func sent(value any) any {
	if address, ok := value.(netip.Addr); ok && !address.IsValid() {
		return nil
	}
	return value
}

// equalFields reports whether two observed objects have the same fields.
func equalFields[D, O any](table []field[D, O], a, b *O) bool {
	return !slices.ContainsFunc(table, func(f field[D, O]) bool { return f.observed(a) != f.observed(b) })
}

// labelsIn returns the names of the fields for users, except of those that Neutron cannot change.
func labelsIn[D, O any](table []field[D, O]) []string {
	var labels []string
	for _, f := range table {
		if !f.isFixed {
			labels = append(labels, f.label)
		}
	}
	return labels
}

// isAddressing reports whether the change is of the gateway, or of the pools, which depend on it.
func (c Change) isAddressing() bool { return c.Role == roleGateway || c.Role == rolePools }

// gatewayChange returns the change of the gateway; nil if there is none.
func gatewayChange(changes []Change) *Change {
	return find(changes, func(c *Change) bool { return c.Role == roleGateway })
}

// gatewayIn returns the gateway that the changes set, the zero Addr if they set none.
func gatewayIn(changes []Change) (gateway netip.Addr) {
	if c := gatewayChange(changes); c != nil {
		gateway, _ = c.Value.(netip.Addr)
	}
	return gateway
}

func labels(changes []Change) []string {
	labels := make([]string, len(changes))
	for i, c := range changes {
		labels[i] = c.Label
	}
	return labels
}

// describe describes the changes to users. It leaves out the default pools of a new gateway.
func describe(changes []Change) string {
	var texts []string
	for _, c := range changes {
		if !(c.Role == rolePools && c.IsDefault && gatewayChange(changes) != nil) {
			texts = append(texts, c.String())
		}
	}
	return strings.Join(texts, ", ")
}

func (c Change) String() string {
	noun := cmp.Or(c.Noun, c.Label)
	switch {
	case c.Role == roleMark:
		return noun + " restored"
	case sent(c.Value) == nil, fmt.Sprint(c.Value) == "":
		return noun + " removed"
	}
	return fmt.Sprintf("%s set to %v", noun, c.Value)
}
