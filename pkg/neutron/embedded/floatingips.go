// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/netip"
	"slices"
)

const floatingOwner = "network:floatingip"

// floatingIP is a floating IP as stored. It keeps the router and the gateway that its port needs.
type floatingIP struct {
	standard
	networkID, ownPort string // the external network, and the port there
	address            netip.Addr
	portID, routerID   string     // "": not associated
	fixed              netip.Addr // of the port
	forwardings        []forwarding
	dnsName, dnsDomain string
}

func (f *floatingIP) parent() string { return f.networkID }

func (n *neutron) floatingIPKind() *kind[*floatingIP] {
	mine := func(c caller, o *floatingIP) bool { return c.admin || o.project == c.project }
	k := &kind[*floatingIP]{
		neutron: n, title: "Floatingip", items: n.floatingIPs, attrs: floatingIPAttributes(),
		visible: mine,
		owned:   mine,
		noBulk:  true,
		create:  createFloatingIP,
		update:  updateFloatingIP,
		remove: func(t *tx, f *floatingIP) *failure {
			if len(f.forwardings) > 0 {
				return f.inUse()
			}
			removeFloatingIP(t, f)
			return nil
		},
		copy: func(o *floatingIP) *floatingIP { c := *o; return &c },
	}
	k.parts = map[string]func(*request, string, []string) *answer{
		"port_forwardings": func(r *request, id string, rest []string) *answer { return serveForwardings(k, r, id, rest) },
	}
	return k.init()
}

// floatingIPAttributes are Neutron's, without port_details.
func floatingIPAttributes() []*attribute[*floatingIP] {
	all := standardAttributes([]*attribute[*floatingIP]{
		{name: "floating_ip_address", flags: onPost | filter | sortable | adminSets, check: orNull(checkAddress), get: func(f *floatingIP) any { return f.address }},
		{name: "subnet_id", flags: onPost, check: orNull(checkUUID)},
		{name: "floating_network_id", flags: onPost | required | filter | sortable, check: checkUUID, get: func(f *floatingIP) any { return f.networkID }},
		{name: "router_id", flags: filter | sortable, get: func(f *floatingIP) any { return nullable(f.routerID) }},
		{name: "port_id", flags: onPost | onPut | filter, check: orNull(checkUUID), get: func(f *floatingIP) any { return nullable(f.portID) }},
		{name: "fixed_ip_address", flags: onPost | onPut | filter | sortable, check: orNull(checkAddress), get: func(f *floatingIP) any { return nullable(f.fixed) }},
		{name: "port_forwardings", get: showForwardings},
		{name: "status", flags: filter | sortable, get: func(*floatingIP) any { return "DOWN" }},
		{name: "dns_name", flags: onPost, check: text(maxText), get: func(f *floatingIP) any { return f.dnsName }},
		{name: "dns_domain", flags: onPost, check: checkDomain, get: func(f *floatingIP) any { return f.dnsDomain }},
	})
	// A floating IP has no name.
	return slices.DeleteFunc(all, func(a *attribute[*floatingIP]) bool { return a.name == "name" })
}

func createFloatingIP(t *tx, v values) (*floatingIP, *failure) {
	f := &floatingIP{
		standard:  t.newStandard(v, 0),
		networkID: given(v, "floating_network_id", ""),
		dnsName:   given(v, "dns_name", ""),
		dnsDomain: given(v, "dns_domain", ""),
	}
	network, err := seen[*network](t, "networks", f.networkID)
	switch {
	case err != nil:
		return nil, err
	case !network.external:
		return nil, badResource("floatingip", "Network "+f.networkID+" is not a valid external network")
	case !slices.ContainsFunc(network.subnets, func(id string) bool { return t.subnets.byID[id].version() == 4 }):
		return nil, badResource("floatingip", "Network "+f.networkID+" does not contain any IPv4 subnet")
	}
	wanted := values{"network_id": f.networkID, "device_id": f.id, "device_owner": floatingOwner}
	address := fixedIP{given(v, "subnet_id", ""), given(v, "floating_ip_address", netip.Addr{})}
	if address != (fixedIP{}) {
		wanted["fixed_ips"] = []fixedIP{address}
	}
	p, err := createPort(t, wanted)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.fixedIPs, func(f fixedIP) bool { return f.Address.Is4() })
	if i < 0 {
		return nil, badAs("ExternalIpAddressExhausted", "Unable to find any IP address on external network %s.", f.networkID)
	}
	f.ownPort, f.address = p.id, p.fixedIPs[i].Address
	if err := t.associate(f, v); err != nil {
		return nil, err
	}
	store(t, t.floatingIPs, f)
	return f, nil
}

// updateFloatingIP keeps the association if the request has no port.
func updateFloatingIP(t *tx, old *floatingIP, v values) (*floatingIP, *failure) {
	f := *old
	if _, sent := v["port_id"]; !sent && f.portID != "" {
		v["port_id"] = f.portID
	}
	return &f, t.associate(&f, v)
}

// associate connects a floating IP with the port of the request, or with none.
func (t *tx) associate(f *floatingIP, v values) *failure {
	id := given(v, "port_id", "")
	wanted := given(v, "fixed_ip_address", netip.Addr{})
	if id == "" {
		if wanted.IsValid() {
			return badResource("floatingip", "fixed_ip_address cannot be specified without a port_id")
		}
		if len(f.forwardings) > 0 {
			return nil
		}
		f.portID, f.routerID, f.fixed = "", "", netip.Addr{}
		return nil
	}
	if len(f.forwardings) > 0 {
		return f.inUse()
	}
	p, err := seen[*port](t, "ports", id)
	if err != nil {
		return err
	}
	address, err := t.internalAddress(f, p, wanted)
	if err != nil {
		return err
	}
	routerID, err := t.routerBetween(p, address, f.networkID)
	if err != nil {
		return err
	}
	for _, other := range t.floatingIPs.sorted {
		if other.id != f.id && other.portID == id && other.networkID == f.networkID && other.fixed == address.Address {
			return conflict("FloatingIPPortAlreadyAssociated", "Cannot associate floating IP %s (%s) with port %s using fixed IP %s, "+
				"as that fixed IP already has a floating IP on external network %s.", f.address, f.id, id, address.Address, f.networkID)
		}
	}
	f.portID, f.routerID, f.fixed = id, routerID, address.Address
	return nil
}

// internalAddress returns the address of a port that a floating IP leads to.
func (t *tx) internalAddress(f *floatingIP, p *port, wanted netip.Addr) (fixedIP, *failure) {
	if p.project != f.project && !t.request.caller.admin {
		return fixedIP{}, badResource("floatingip", "Cannot process floating IP association with Port "+p.id+
			", since that port is owned by a different tenant")
	}
	if p.deviceOwner == dhcpOwner {
		return fixedIP{}, badResource("floatingip", "Port %(id)s is unable to be assigned a floating IP") // Neutron's own message
	}
	if wanted.IsValid() && !wanted.Is4() {
		return fixedIP{}, badResource("floatingip", "Cannot process floating IP association with "+wanted.String()+", since that is not an IPv4 address")
	}
	var found []fixedIP
	for _, a := range p.fixedIPs {
		if a.Address.Is4() && (!wanted.IsValid() || a.Address == wanted) {
			found = append(found, a)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case wanted.IsValid():
		return fixedIP{}, badResource("floatingip", "Port "+p.id+" does not have fixed ip "+wanted.String())
	case len(found) == 0:
		return fixedIP{}, badResource("floatingip", "Cannot add floating IP to port "+p.id+" that has no fixed IPv4 addresses")
	}
	return fixedIP{}, badResource("floatingip", "Port "+p.id+" has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP")
}

// routerBetween returns the router that connects the subnet of an address with an external
// network. A port that only looks like an interface does not.
func (t *tx) routerBetween(p *port, a fixedIP, external string) (string, *failure) {
	first := ""
	for _, q := range t.ports.in(p.networkID) {
		r := t.routers.byID[q.router]
		i := slices.IndexFunc(q.fixedIPs, func(f fixedIP) bool { return f.SubnetID == a.SubnetID })
		if r == nil || q.gateway || i < 0 || r.gateway == nil || r.gateway.network != external {
			continue
		}
		if q.fixedIPs[i].Address == t.subnets.byID[a.SubnetID].gateway {
			return r.id, nil
		}
		if first == "" {
			first = r.id
		}
	}
	if first == "" {
		return "", notFound("ExternalGatewayForFloatingIPNotFound", "External network %s is not reachable from subnet %s.  "+
			"Therefore, cannot associate Port %s with a Floating IP.", external, a.SubnetID, p.id)
	}
	return first, nil
}

// removeFloatingIP deletes a floating IP with its port.
func removeFloatingIP(t *tx, f *floatingIP) {
	discard(t, t.ports, f.ownPort)
	discard(t, t.floatingIPs, f.id)
}

// disassociate takes a port that is deleted from its floating IPs.
func (t *tx) disassociate(id string) {
	t.removeForwardings(func(f forwarding) bool { return f.PortID == id })
	for _, old := range slices.Clone(t.floatingIPs.sorted) {
		if old.portID == id {
			f := *old
			f.portID, f.routerID, f.fixed = "", "", netip.Addr{}
			t.bump(&f.standard)
			store(t, t.floatingIPs, &f)
		}
	}
}
