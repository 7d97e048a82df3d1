// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import "slices"

const (
	// distributedOwner marks the interfaces of a distributed router.
	distributedOwner = "network:router_interface_distributed"
	// replicatedOwner marks the interfaces of a highly available router. There are none here, but any
	// client can create a port that looks like one.
	replicatedOwner = "network:ha_router_replicated_interface"
	// snatOwner marks the port that Neutron makes beside each interface of a distributed router with a
	// gateway, for the traffic that the gateway translates. It is on the interface's subnet, has an
	// address of the subnet's pools, belongs to no project, and goes with the interface.
	snatOwner = "network:router_centralized_snat"
)

// interfaceOwner is the device owner of the router's interfaces.
func (r *router) interfaceOwner() string {
	if r.distributed {
		return distributedOwner
	}
	return interfaceOwner
}

// snatPorts returns the ports beside the router's interfaces, and those that only look like one:
// Neutron does not tell them apart.
func (t *tx) snatPorts(r *router) []*port {
	return slices.DeleteFunc(slices.Clone(t.ports.sorted), func(p *port) bool { return p.deviceOwner != snatOwner || p.deviceID != r.id })
}

// addSNAT creates the port beside an interface on these subnets.
func (t *tx) addSNAT(r *router, network string, subnets ...string) *failure {
	if !r.distributed || r.gateway == nil {
		return nil
	}
	ips := make([]fixedIP, len(subnets))
	for i, id := range subnets {
		ips[i].SubnetID = id
	}
	_, err := createPort(t, values{"network_id": network, "fixed_ips": ips, "device_id": r.id, "device_owner": snatOwner})
	return err
}

// addSNATs creates the ports beside all interfaces, for a router that gets a gateway or becomes
// distributed: one for each IPv4 subnet, and one for all IPv6 subnets of a network.
func (t *tx) addSNATs(r *router) *failure {
	if len(t.snatPorts(r)) > 0 {
		return nil
	}
	for _, p := range t.interfaces(r.id) {
		var ipv6 []string
		for _, f := range p.fixedIPs {
			if f.Address.Is6() {
				ipv6 = append(ipv6, f.SubnetID)
			} else if err := t.addSNAT(r, p.networkID, f.SubnetID); err != nil {
				return err
			}
		}
		if len(ipv6) > 0 {
			if err := t.addSNAT(r, p.networkID, ipv6...); err != nil {
				return err
			}
		}
	}
	return nil
}

// extendSNAT gives the port beside an IPv6 interface an address of the subnet that the interface gets.
func (t *tx) extendSNAT(r *router, s *subnet) *failure {
	p := t.ipv6SNAT(r, s.networkID)
	if p == nil {
		return nil
	}
	return t.changeSNAT(p, append(slices.Clone(p.fixedIPs), fixedIP{SubnetID: s.id}))
}

// removeSNAT takes the address in the subnet from the port beside an IPv6 interface. A port without
// another address is deleted.
func (t *tx) removeSNAT(r *router, network, subnet string) *failure {
	if !r.distributed {
		return nil
	}
	in := func(f fixedIP) bool { return f.SubnetID == subnet }
	if p := t.ipv6SNAT(r, network); p != nil && slices.ContainsFunc(p.fixedIPs, in) && len(p.fixedIPs) > 1 {
		return t.changeSNAT(p, slices.DeleteFunc(slices.Clone(p.fixedIPs), in))
	}
	for _, p := range t.snatPorts(r) {
		if len(p.fixedIPs) == 0 || in(p.fixedIPs[0]) {
			discard(t, t.ports, p.id)
		}
	}
	return nil
}

// removeSNATs deletes the ports beside all interfaces, for a router that loses its gateway.
func (t *tx) removeSNATs(r *router) {
	if !r.distributed {
		return
	}
	for _, p := range t.snatPorts(r) {
		discard(t, t.ports, p.id)
	}
}

// ipv6SNAT returns the port beside the router's IPv6 interface in a network, or nil.
func (t *tx) ipv6SNAT(r *router, network string) *port {
	for _, p := range t.snatPorts(r) {
		if p.networkID == network && p.hasIPv6() {
			return p
		}
	}
	return nil
}

func (t *tx) changeSNAT(old *port, ips []fixedIP) *failure {
	p, err := updatePort(t, old, values{"fixed_ips": ips})
	if err != nil {
		return err
	}
	t.bump(&p.standard)
	t.storePort(p)
	return nil
}

// migrate makes a router distributed, or centralized. Neutron does that only while it is switched off.
func (t *tx) migrate(old, r *router) *failure {
	if old.distributed == r.distributed {
		return nil
	}
	if old.adminStateUp || r.adminStateUp {
		return badRouter("Cannot change the 'distributed' attribute of active routers. Please set router admin_state_up to False prior to upgrade")
	}
	for _, p := range t.interfaces(r.id) {
		if p.deviceOwner == old.interfaceOwner() {
			t.changePort(p, func(p *port) { p.deviceOwner = r.interfaceOwner() })
		}
	}
	if !r.distributed {
		t.removeSNATs(old)
	}
	return t.addSNATs(r)
}
