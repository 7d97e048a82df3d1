// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// maxFixedIPs is Neutron's default for max_fixed_ips_per_port.
const maxFixedIPs = 5

// port is an attachment to a network. It is never bound: its status stays DOWN.
type port struct {
	standard
	networkID, mac        string
	adminStateUp          bool
	deviceID, deviceOwner string
	fixedIPs              []fixedIP
	portSecurity          bool
	// router is the router that the port is attached to, as its gateway or as an interface.
	// deviceID and deviceOwner only look like it: both can be set without an attachment, and
	// changed in spite of one.
	router         string
	gateway        bool
	vnicType, host string
	profile        map[string]any
}

// fixedIP is an address of a port; in a request either field may be missing.
type fixedIP struct {
	SubnetID string     `json:"subnet_id"`
	Address  netip.Addr `json:"ip_address"`
}

func (p *port) parent() string { return p.networkID }

// portKind: both a port's own project and the network's project can see and change it.
func (n *neutron) portKind() *kind[*port] {
	mine := func(c caller, o *port) bool {
		net := n.networks.byID[o.networkID]
		return c.admin || o.project == c.project || net != nil && net.project == c.project
	}
	return (&kind[*port]{
		neutron: n, title: "Port", items: n.ports, attrs: portAttributes(),
		visible: mine,
		owned:   mine,
		admit:   n.admitToNetwork("port"),
		create:  createPort,
		update:  updatePort,
		remove:  removePort,
		copy:    func(o *port) *port { c := *o; return &c },
	}).init()
}

// portAttributes are Neutron's, without security groups and allowed address pairs, because those
// extensions are missing here.
func portAttributes() []*attribute[*port] {
	return standardAttributes([]*attribute[*port]{
		{name: "network_id", flags: onPost | required | filter | sortable, check: checkUUID, get: func(p *port) any { return p.networkID }},
		{name: "admin_state_up", flags: onPost | onPut | filter | sortable | boolean, check: truth, get: func(p *port) any { return p.adminStateUp }},
		{name: "mac_address", flags: onPost | onPut | filter | sortable, check: checkMAC, get: func(p *port) any { return p.mac }},
		{name: "fixed_ips", flags: onPost | onPut | filter, check: checkFixedIPs, get: func(p *port) any { return p.fixedIPs }, match: matchFixedIPs},
		{name: "device_id", flags: onPost | onPut | filter | sortable, check: text(maxText), get: func(p *port) any { return p.deviceID }},
		{name: "device_owner", flags: onPost | onPut | filter | sortable, check: text(maxText), get: func(p *port) any { return p.deviceOwner }},
		{name: "status", flags: filter | sortable, get: func(*port) any { return "DOWN" }},
		{name: "port_security_enabled", flags: onPost | onPut, check: truth, get: func(p *port) any { return p.portSecurity }},
		{name: "dns_name", flags: onPost | onPut, check: text(maxText), get: func(*port) any { return "" }}, // without a domain in its configuration Neutron ignores it
		{name: "dns_assignment", get: dnsAssignment},
		{name: "extra_dhcp_opts", get: func(*port) any { return []string{} }},
		{name: "binding:vnic_type", flags: onPost | onPut, check: text(64), get: func(p *port) any { return p.vnicType }},
		{name: "binding:host_id", flags: onPost | onPut | filter | adminSets | adminSees, check: text(maxText), get: func(p *port) any { return p.host }},
		{name: "binding:profile", flags: onPost | onPut | adminSets | adminSees, check: orNull(dictionary), get: func(p *port) any { return p.profile }},
		{name: "binding:vif_type", flags: adminSees, get: func(*port) any { return "unbound" }},
		{name: "binding:vif_details", flags: adminSees, get: func(*port) any { return map[string]any{} }},
	})
}

func dnsAssignment(p *port) any {
	all := []map[string]string{}
	for _, f := range p.fixedIPs {
		host := "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(f.Address.String())
		all = append(all, map[string]string{"ip_address": f.Address.String(), "hostname": host, "fqdn": host + ".openstacklocal."})
	}
	return all
}

// dictionary checks for a JSON object with any content.
func dictionary(name string, v any) (any, *failure) {
	if _, ok := v.(map[string]any); !ok {
		return nil, badValue(name, fmt.Sprintf("'%s' is not a dictionary", python(v)))
	}
	return v, nil
}

// checkMAC accepts a MAC address in any of the usual forms and converts it to colons.
func checkMAC(name string, v any) (any, *failure) {
	s, _ := v.(string)
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || s == "00:00:00:00:00:00" {
		return nil, badValue(name, fmt.Sprintf("'%s' is not a valid MAC address", python(v)))
	}
	return mac.String(), nil
}

// checkFixedIPs checks only the form; subnetFor checks whether the address is available.
func checkFixedIPs(name string, v any) (any, *failure) {
	bad := func(v any) *failure {
		return badValue(name, fmt.Sprintf("Invalid data format for fixed IP: '%s'", python(v)))
	}
	list, ok := v.([]any)
	if !ok {
		return nil, bad(v)
	}
	wanted := []fixedIP{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, bad(e)
		}
		var f fixedIP
		if a, has := m["ip_address"]; has {
			if reason := addressFault(a); reason != "" {
				return nil, badValue(name, reason)
			}
			f.Address = netip.MustParseAddr(a.(string))
			if slices.ContainsFunc(wanted, func(w fixedIP) bool { return w.Address == f.Address }) {
				return nil, badValue(name, fmt.Sprintf("Duplicate IP address '%s'", a))
			}
		}
		if id, has := m["subnet_id"]; has {
			if _, err := checkUUID(name, id); err != nil {
				return nil, err
			}
			f.SubnetID = id.(string)
		}
		wanted = append(wanted, f)
	}
	return wanted, nil
}

// matchFixedIPs makes a filter of the form fixed_ips=ip_address=A or fixed_ips=subnet_id=S.
// Values of one key are alternatives; both keys must match.
func matchFixedIPs(values []string) (func(*port) bool, *failure) {
	wanted := map[string][]string{}
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key != "ip_address" && key != "subnet_id" {
			return nil, invalidInput("'%s' is not of the form <key>=[value]", v)
		}
		wanted[key] = append(wanted[key], value)
	}
	holds := func(key, value string) bool {
		return wanted[key] == nil || slices.Contains(wanted[key], value)
	}
	return func(p *port) bool {
		return slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool {
			return holds("ip_address", f.Address.String()) && holds("subnet_id", f.SubnetID)
		})
	}, nil
}

// createPort distinguishes a missing fixed_ips (one address of each family) from an empty
// list (no address).
func createPort(t *tx, v values) (*port, *failure) {
	p := &port{
		standard:     t.newStandard(v, 1),
		networkID:    given(v, "network_id", ""),
		mac:          given(v, "mac_address", ""),
		adminStateUp: given(v, "admin_state_up", true),
		vnicType:     "normal",
		fixedIPs:     []fixedIP{},
		profile:      map[string]any{},
	}
	net, ok := t.networks.byID[p.networkID]
	if !ok {
		return nil, missing("Network", p.networkID)
	}
	p.apply(v)
	p.portSecurity = given(v, "port_security_enabled", net.portSecurity && !strings.HasPrefix(p.deviceOwner, "network:"))
	if err := t.checkMAC(p); err != nil {
		return nil, err
	}
	if wanted, some := v["fixed_ips"].([]fixedIP); !some {
		if err := t.allocate(p, net); err != nil {
			return nil, err
		}
	} else if err := t.assign(p, net, wanted, nil); err != nil {
		return nil, err
	}
	store(t, t.ports, p)
	return p, nil
}

// updatePort replaces the whole list of addresses if the request has one.
func updatePort(t *tx, old *port, v values) (*port, *failure) {
	if len(v) == 0 {
		return old, nil
	}
	p := *old
	p.apply(v)
	p.portSecurity = given(v, "port_security_enabled", p.portSecurity)
	if v.has("mac_address") {
		p.mac = given(v, "mac_address", "")
		if err := t.checkMAC(&p); err != nil {
			return nil, err
		}
	}
	if wanted, some := v["fixed_ips"].([]fixedIP); some {
		p.fixedIPs = []fixedIP{}
		if err := t.assign(&p, t.networks.byID[p.networkID], wanted, old.fixedIPs); err != nil {
			return nil, err
		}
		if p.serves() && t.routers.byID[p.deviceID] != nil && !slices.Equal(ipv4(p.fixedIPs), ipv4(old.fixedIPs)) {
			return nil, badResource("ports", fmt.Sprintf("IP updates for port %s are not allowed", p.id))
		}
	}
	return &p, nil
}

// ipv4 returns the IPv4 addresses of a port.
func ipv4(all []fixedIP) (some []fixedIP) {
	for _, f := range all {
		if f.Address.Is4() {
			some = append(some, f)
		}
	}
	return some
}

// removePort refuses to delete what looks like a port of a router that exists. It deletes an
// interface whose device_owner was taken away.
func removePort(t *tx, p *port) *failure {
	_, isRouter := t.routers.byID[p.deviceID]
	_, isFloating := t.floatingIPs.byID[p.deviceID]
	serves := isRouter && (p.serves() || p.deviceOwner == gatewayOwner) || isFloating && p.deviceOwner == floatingOwner
	if serves && len(p.fixedIPs) > 0 {
		return conflict("ServicePortInUse", "Port %s cannot be deleted directly via the port API: has device owner %s.", p.id, p.deviceOwner)
	}
	t.disassociate(p.id)
	discard(t, t.ports, p.id)
	return nil
}

// apply sets the attributes that do not depend on other ports.
func (p *port) apply(v values) {
	p.adminStateUp = given(v, "admin_state_up", p.adminStateUp)
	p.deviceID = given(v, "device_id", p.deviceID)
	p.deviceOwner = given(v, "device_owner", p.deviceOwner)
	p.vnicType = given(v, "binding:vnic_type", p.vnicType)
	p.host = given(v, "binding:host_id", p.host)
	p.profile = given(v, "binding:profile", p.profile)
}

// checkMAC assigns a MAC address of Neutron's default range to a port without one, and
// refuses one that is in use.
func (t *tx) checkMAC(p *port) *failure {
	taken := func(mac string) bool {
		for _, other := range t.ports.byParent[p.networkID] {
			if other.id != p.id && other.mac == mac {
				return true
			}
		}
		return false
	}
	// Random, as in Neutron, so that a client cannot rely on an order.
	for p.mac == "" {
		var b [3]byte
		_, _ = rand.Read(b[:])
		if mac := fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", b[0], b[1], b[2]); !taken(mac) {
			p.mac = mac
		}
	}
	if taken(p.mac) {
		return conflict("MacAddressInUse", "Unable to complete operation for network %s. The mac address %s is in use.", p.networkID, p.mac)
	}
	return nil
}

// used returns the addresses of the network's other ports.
func (t *tx) used(p *port) map[netip.Addr]bool {
	used := map[netip.Addr]bool{}
	for _, other := range t.ports.byParent[p.networkID] {
		if other.id == p.id {
			continue
		}
		for _, f := range other.fixedIPs {
			used[f.Address] = true
		}
	}
	return used
}

// allocate assigns a port's default addresses: one IPv4 address, one IPv6 address, and one
// of each subnet with automatic addresses.
func (t *tx) allocate(p *port, net *network) *failure {
	used := t.used(p)
	groups := map[int][]*subnet{}
	for _, id := range net.subnets {
		s := t.subnets.byID[id]
		if s.automatic() {
			if !p.serves() {
				p.add(s, automaticAddress(s.cidr, p.mac))
			}
			continue
		}
		groups[s.version()] = append(groups[s.version()], s)
	}
	// If all subnets of one family are full, the port fails, even if the other family has
	// free addresses.
	for _, version := range []int{4, 6} {
		if len(groups[version]) > 0 && !p.addFree(groups[version], used) {
			return noAddress(net.id)
		}
	}
	return nil
}

func (p *port) add(s *subnet, a netip.Addr) {
	p.fixedIPs = append(slices.Clone(p.fixedIPs), fixedIP{s.id, a})
}

// addFree adds the first free address of the first subnet that has one.
func (p *port) addFree(subnets []*subnet, used map[netip.Addr]bool) bool {
	for _, s := range subnets {
		if a, ok := firstFree(s.pools, used); ok {
			used[a] = true
			p.add(s, a)
			return true
		}
	}
	return false
}

func noAddress(network string) *failure {
	return conflict("IpAddressGenerationFailure", "No more IP addresses available on network %s.", network)
}

// serves reports whether a port is, or looks like, one that a router has in its subnets: it gets no
// automatic addresses.
func (p *port) serves() bool {
	return slices.Contains([]string{interfaceOwner, distributedOwner, replicatedOwner, snatOwner}, p.deviceOwner)
}

// assign assigns the wanted addresses. An entry without an address keeps the port's address
// in that subnet. Every port gets an address of each subnet with automatic addresses,
// unless an update removes it.
func (t *tx) assign(p *port, net *network, wanted, had []fixedIP) *failure {
	if len(wanted) > maxFixedIPs {
		return invalidInput("Exceeded maximum amount of fixed ips per port")
	}
	used := t.used(p)
	for _, w := range wanted {
		s, err := t.subnetFor(p, net, w)
		if err != nil {
			return err
		}
		// Otherwise a client that adds an address would lose the existing one.
		if i := slices.IndexFunc(had, func(h fixedIP) bool { return h.SubnetID == s.id }); !w.Address.IsValid() && i >= 0 {
			w.Address = had[i].Address
		}
		automatic := automaticAddress(s.cidr, p.mac)
		switch {
		case s.automatic() && !p.serves():
			if w.Address.IsValid() && w.Address != automatic {
				return badAs("AllocationOnAutoAddressSubnet", "IPv6 address %s cannot be directly assigned to a port on subnet %s as the "+
					"subnet is configured for automatic addresses", w.Address, s.id)
			}
		case !w.Address.IsValid():
			if !p.addFree([]*subnet{s}, used) {
				return noAddress(net.id)
			}
		case used[w.Address]:
			return conflict("IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", w.Address, s.id)
		default:
			used[w.Address] = true
			p.add(s, w.Address)
		}
	}
	for _, id := range net.subnets {
		in := func(f fixedIP) bool { return f.SubnetID == id }
		removed := slices.ContainsFunc(had, in) && !slices.ContainsFunc(wanted, in)
		if s := t.subnets.byID[id]; s.automatic() && !p.serves() && !removed {
			p.add(s, automaticAddress(s.cidr, p.mac))
		}
	}
	return nil
}

// subnetFor returns the network's subnet that an entry of fixed_ips refers to.
func (t *tx) subnetFor(p *port, net *network, w fixedIP) (*subnet, *failure) {
	if len(net.subnets) == 0 {
		return nil, invalidInput("IP allocation requires subnets for network")
	}
	if w.SubnetID == "" && !w.Address.IsValid() {
		return nil, invalidInput("IP allocation requires subnet_id or ip_address")
	}
	for _, id := range net.subnets {
		s := t.subnets.byID[id]
		if w.SubnetID != "" && w.SubnetID != id {
			continue
		}
		// The first address of an IPv6 subnet is for routers.
		anycast := s.version() == 6 && w.Address == s.cidr.Addr() && (p.serves() || p.deviceOwner == gatewayOwner)
		if !w.Address.IsValid() || hostRange(s.cidr).contains(w.Address) || anycast {
			return s, nil
		}
		// The request names this subnet, so no other subnet of the network is tried.
		if w.SubnetID == id {
			return nil, badAs("InvalidIpForSubnet", "IP address %s is not a valid IP for the specified subnet.", w.Address)
		}
	}
	if w.SubnetID == "" {
		return nil, badAs("InvalidIpForNetwork", "IP address %s is not a valid IP for any of the subnets on the specified network.", w.Address)
	}
	s, ok := t.subnets.byID[w.SubnetID]
	if !ok {
		return nil, missing("Subnet", w.SubnetID)
	}
	return nil, invalidInput("Failed to create port on network %s, because fixed_ips included invalid subnet %s", s.networkID, w.SubnetID)
}

// automaticAddress returns the modified EUI-64 address (RFC 4291, appendix A).
func automaticAddress(cidr netip.Prefix, mac string) netip.Addr {
	m, _ := net.ParseMAC(mac)
	a := cidr.Addr().As16()
	copy(a[8:], []byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	return netip.AddrFrom16(a)
}
