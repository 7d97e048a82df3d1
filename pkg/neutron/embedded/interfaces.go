// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
)

// interfaceChange adds or removes an interface. It returns the port, and its subnets that were
// added or removed.
type interfaceChange func(t *tx, r *router, info map[string]any) (*port, []*subnet, *failure)

// changeInterface serves add_router_interface and remove_router_interface.
func changeInterface(k *kind[*router], r *request, id string, change interfaceChange) *answer {
	info := map[string]any{}
	if len(r.body) > 0 {
		var err *failure
		if info, err = decodeObject(r.body); err != nil {
			return err.answer()
		}
	}
	var shown any
	err := k.write(r, func(t *tx) *failure {
		o, err := k.find(r.caller, id)
		if err != nil {
			return err
		}
		if err := checkInterfaceInfo(info); err != nil {
			return err
		}
		if err := ifMatch(r, o.revision); err != nil {
			return err
		}
		p, subnets, err := change(t, o, info)
		if err != nil {
			return err
		}
		shown = showInterface(o, p, subnets)
		return nil
	})
	if err != nil {
		return err.answer()
	}
	return jsonAnswer(http.StatusOK, shown)
}

func showInterface(r *router, p *port, subnets []*subnet) any {
	ids := []string{}
	for _, s := range subnets {
		ids = append(ids, s.id)
	}
	return map[string]any{"id": r.id, "tenant_id": p.project, "port_id": p.id, "network_id": p.networkID, "subnet_id": ids[len(ids)-1], "subnet_ids": ids}
}

// badRouter is the router service's refusal of most of what it cannot do. Only the message tells
// the reasons apart.
func badRouter(format string, args ...any) *failure {
	return badResource("router", fmt.Sprintf(format, args...))
}

// checkInterfaceInfo checks the IDs in a body. Other keys are ignored, as in Neutron.
func checkInterfaceInfo(info map[string]any) *failure {
	port, isPort := info["port_id"]
	subnet, isSubnet := info["subnet_id"]
	if !isPort && !isSubnet {
		return badRouter("Either subnet_id or port_id must be specified")
	}
	if s, _ := port.(string); isPort && !isUUID(s) {
		return badRouter("'%s' is not a valid UUID", python(port))
	}
	if s, _ := subnet.(string); isSubnet && !isUUID(s) {
		return badRouter("'%s' is not a valid UUID", python(subnet))
	}
	return nil
}

func addInterface(t *tx, r *router, info map[string]any) (*port, []*subnet, *failure) {
	subnetID, bySubnet := info["subnet_id"].(string)
	portID, byPort := info["port_id"].(string)
	switch {
	case bySubnet && byPort:
		return nil, nil, badRouter("Cannot specify both subnet-id and port-id")
	case byPort:
		return addPort(t, r, portID)
	}
	return addSubnet(t, r, subnetID)
}

// checkAnnounced refuses IPv6 subnets that another router announces.
func checkAnnounced(subnets ...*subnet) *failure {
	for _, s := range subnets {
		if s.ipMode != "" && s.raMode == "" {
			return badRouter("IPv6 subnet %s configured to receive RAs from an external router cannot be added to Neutron Router.", s.id)
		}
	}
	return nil
}

// addSubnet creates a port with the subnet's gateway as its address, and attaches it. An IPv6
// subnet gets an address on the port that the router has for IPv6 in the network.
func addSubnet(t *tx, r *router, id string) (*port, []*subnet, *failure) {
	s, err := seen[*subnet](t, "subnets", id)
	if err != nil {
		return nil, nil, err
	}
	if !s.gateway.IsValid() {
		return nil, nil, badRouter("Subnet for router interface must have a gateway IP")
	}
	if c := t.request.caller; s.project != c.project && !c.admin {
		return nil, nil, badRouter("Cannot add interface to router because subnet %s is not owned by project making the request", id)
	}
	if err := checkAnnounced(s); err != nil {
		return nil, nil, err
	}
	if err := t.checkOverlap(r, []*subnet{s}); err != nil {
		return nil, nil, err
	}
	address := fixedIP{s.id, s.gateway}
	if p := t.ipv6Port(r, s.networkID); p != nil && s.version() == 6 {
		return t.extend(r, p, address, s)
	}
	p, err := createPort(t, values{"project_id": r.project, "network_id": s.networkID, "fixed_ips": []fixedIP{address},
		"device_id": r.id, "device_owner": r.interfaceOwner()})
	if err != nil {
		return nil, nil, err
	}
	if err := t.addSNAT(r, p.networkID, s.id); err != nil {
		return nil, nil, err
	}
	p = t.changePort(p, func(*port) {}) // Neutron writes it once more
	if err := t.middle(); err != nil {
		return nil, nil, err
	}
	return t.attach(p, r), []*subnet{s}, nil
}

// attach makes a port that looks like an interface one.
func (t *tx) attach(old *port, r *router) *port {
	p := *old
	p.router = r.id
	store(t, t.ports, &p)
	t.bumpRouter(r.id)
	return &p
}

// changePort stores a changed copy of a port, with another revision.
func (t *tx) changePort(old *port, change func(*port)) *port {
	p := *old
	change(&p)
	t.bump(&p.standard)
	t.storePort(&p)
	return &p
}

// removeInterfacePort deletes the port of an interface, or one that only looks like it.
func (t *tx) removeInterfacePort(p *port) {
	discard(t, t.ports, p.id)
	if p.router != "" {
		t.bumpRouter(p.router)
	}
}

// extend adds an address to an interface. Neutron reads the addresses in the order of their texts.
func (t *tx) extend(r *router, old *port, address fixedIP, s *subnet) (*port, []*subnet, *failure) {
	addresses := append(slices.Clone(old.fixedIPs), address)
	slices.SortFunc(addresses, func(a, b fixedIP) int { return cmp.Compare(a.Address.String(), b.Address.String()) })
	p, err := updatePort(t, old, values{"fixed_ips": addresses})
	if err != nil {
		return nil, nil, err
	}
	t.bump(&p.standard)
	t.storePort(p)
	return p, []*subnet{s}, t.extendSNAT(r, s)
}

// ipv6Port returns the router's interface with IPv6 addresses in a network, or nil.
func (t *tx) ipv6Port(r *router, network string) *port {
	for _, p := range t.interfaces(r.id) {
		if p.networkID == network && p.hasIPv6() {
			return p
		}
	}
	return nil
}

func (p *port) hasIPv6() bool {
	return slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.Address.Is6() })
}

// checkOverlap refuses subnets that the router is already connected to, and those that overlap
// with one that it is connected to, the subnets of its external network included.
func (t *tx) checkOverlap(r *router, added []*subnet) *failure {
	var connected []string
	for _, p := range t.attached(r.id) {
		for _, f := range p.fixedIPs {
			if slices.ContainsFunc(added, func(s *subnet) bool { return s.id == f.SubnetID }) {
				return badRouter("Router already has a port on subnet %s", f.SubnetID)
			}
			if p.gateway {
				connected = append(connected, t.networks.byID[p.networkID].subnets...)
			} else {
				connected = append(connected, f.SubnetID)
			}
		}
	}
	slices.Sort(connected)
	for _, id := range slices.Compact(connected) {
		for _, s := range added {
			if old := t.subnets.byID[id]; old.cidr.Overlaps(s.cidr) {
				return badRouter("Cidr %s of subnet %s overlaps with cidr %s of subnet %s", s.cidr, s.id, old.cidr, old.id)
			}
		}
	}
	return nil
}

// addPort attaches an existing port. It takes the port first and checks it afterwards: a refused
// port is released, with another revision.
func addPort(t *tx, r *router, id string) (*port, []*subnet, *failure) {
	old, err := seen[*port](t, "ports", id)
	if err != nil {
		return nil, nil, err
	}
	if old.deviceID != "" {
		return nil, nil, conflict("PortInUse", "Unable to complete operation on port %s for network %s. "+
			"Port already has an attached device %s.", id, old.networkID, old.deviceID)
	}
	if len(old.fixedIPs) == 0 {
		return nil, nil, badRouter("Router port must have at least one fixed IP")
	}
	if err := checkAnnounced(t.subnetsOf(old)...); err != nil {
		return nil, nil, err
	}
	p := t.changePort(old, func(p *port) { p.deviceID, p.deviceOwner = r.id, r.interfaceOwner() })
	subnets, err := t.checkRouterPort(r, p)
	if err != nil {
		t.changePort(p, func(p *port) { p.deviceID, p.deviceOwner = "", old.deviceOwner })
		t.keep()
		return nil, nil, err
	}
	// Neutron makes only one port, also for an interface on two subnets.
	if err := t.addSNAT(r, p.networkID, subnets[len(subnets)-1].id); err != nil {
		return nil, nil, err
	}
	p = t.changePort(p, func(*port) {}) // Neutron writes it once more
	if err := t.middle(); err != nil {
		return nil, nil, err
	}
	return t.attach(p, r), subnets, nil
}

// checkRouterPort returns the subnets of a port that a router can be connected to.
func (t *tx) checkRouterPort(r *router, p *port) ([]*subnet, *failure) {
	if other := t.ipv6Port(r, p.networkID); other != nil && p.hasIPv6() {
		return nil, badRouter("Cannot have multiple router ports with the same network id if both contain IPv6 subnets. "+
			"Existing port %s has IPv6 subnet(s) and network id %s", other.id, p.networkID)
	}
	subnets := t.subnetsOf(p)
	if err := t.checkOverlap(r, subnets); err != nil {
		return nil, err
	}
	ipv4 := 0
	for i, s := range subnets {
		if s.version() == 4 {
			ipv4++
		}
		inPool := slices.ContainsFunc(s.pools, func(q pool) bool { return q.contains(p.fixedIPs[i].Address) })
		if c := t.request.caller; !c.admin && !inPool && s.project != c.project {
			return nil, badRouter("Cannot add interface to router because specified port %s has an IP address out of the "+
				"allocation pool of subnet %s, which is not owned by the project making the request", p.id, s.id)
		}
	}
	if ipv4 > 1 {
		return nil, badRouter("Cannot have multiple IPv4 subnets on router port")
	}
	return subnets, nil
}

// subnetsOf returns the subnet of each address of a port.
func (t *tx) subnetsOf(p *port) []*subnet {
	var all []*subnet
	for _, f := range p.fixedIPs {
		all = append(all, t.subnets.byID[f.SubnetID])
	}
	return all
}

// removeInterface accepts what only looks like an interface too, and deletes its port.
func removeInterface(t *tx, r *router, info map[string]any) (*port, []*subnet, *failure) {
	subnetID, _ := info["subnet_id"].(string)
	if id, byPort := info["port_id"].(string); byPort {
		return removePortInterface(t, r, id, subnetID)
	}
	s, err := seen[*subnet](t, "subnets", subnetID)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range t.ports.in(s.networkID) {
		i := slices.IndexFunc(p.fixedIPs, func(f fixedIP) bool { return f.SubnetID == s.id })
		if i < 0 || !p.isInterfaceOf(r) {
			continue
		}
		if err := t.checkUnused(r, s); err != nil {
			return nil, nil, err
		}
		if len(p.fixedIPs) == 1 {
			t.removeInterfacePort(p)
			return p, []*subnet{s}, t.removeSNAT(r, s.networkID, s.id)
		}
		shorter, err := updatePort(t, p, values{"fixed_ips": slices.Delete(slices.Clone(p.fixedIPs), i, i+1)})
		if err != nil {
			return nil, nil, err
		}
		t.bump(&shorter.standard)
		t.storePort(shorter)
		return p, []*subnet{s}, t.removeSNAT(r, s.networkID, s.id)
	}
	return nil, nil, notFound("RouterInterfaceNotFoundForSubnet", "Router %s has no interface on subnet %s", r.id, s.id)
}

func removePortInterface(t *tx, r *router, id, subnetID string) (*port, []*subnet, *failure) {
	p, ok := t.ports.byID[id]
	if !ok || !p.isInterfaceOf(r) {
		return nil, nil, notFound("RouterInterfaceNotFound", "Router %s does not have an interface with id %s", r.id, id)
	}
	subnets := t.subnetsOf(p)
	if subnetID != "" && !slices.ContainsFunc(subnets, func(s *subnet) bool { return s.id == subnetID }) {
		return nil, nil, badAs("SubnetMismatchForPort", "Subnet on port %s does not match the requested subnet %s.", id, subnetID)
	}
	for _, s := range subnets {
		if err := t.checkUnused(r, s); err != nil {
			return nil, nil, err
		}
	}
	t.removeInterfacePort(p)
	// Neutron looks only for the first subnet: beside an interface on two, an address stays.
	if subnetID == "" && len(subnets) > 0 {
		subnetID = subnets[0].id
	}
	return p, subnets, t.removeSNAT(r, p.networkID, subnetID)
}

// isInterfaceOf reports whether a port is an interface of the router, or looks like one.
func (p *port) isInterfaceOf(r *router) bool {
	return p.router == r.id && !p.gateway || p.deviceID == r.id && p.deviceOwner == r.interfaceOwner()
}

// checkUnused refuses to remove an interface that floating IPs or routes need.
func (t *tx) checkUnused(r *router, s *subnet) *failure {
	for _, route := range r.routes {
		if s.cidr.Contains(netip.MustParseAddr(route.Nexthop)) {
			return conflict("RouterInterfaceInUseByRoute", "Router interface for subnet %s on router %s cannot be deleted, "+
				"as it is required by one or more routes.", s.id, r.id)
		}
	}
	for _, f := range t.floatingIPs.sorted {
		p := t.ports.byID[f.portID]
		if f.routerID == r.id && p != nil && slices.ContainsFunc(p.fixedIPs, func(a fixedIP) bool { return a.SubnetID == s.id && a.Address == f.fixed }) {
			return inUseByFloatingIP(r, s)
		}
		if f.routerID == r.id && slices.ContainsFunc(f.forwardings, func(w forwarding) bool { return t.leadsTo(w, s) }) {
			return inUseByFloatingIP(r, s)
		}
	}
	return nil
}

func inUseByFloatingIP(r *router, s *subnet) *failure {
	return conflict("RouterInterfaceInUseByFloatingIP", "Router interface for subnet %s on router %s cannot be deleted, "+
		"as it is required by one or more floating IPs.", s.id, r.id)
}
