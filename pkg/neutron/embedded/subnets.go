// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	// Neutron's defaults for max_dns_nameservers and max_subnet_host_routes.
	maxNameservers = 5
	maxHostRoutes  = 20
)

// subnet is a subnet as stored. There are no segments.
type subnet struct {
	standard
	networkID      string
	poolID         string // the subnet pool that its CIDR is from; "": none
	cidr           netip.Prefix
	gateway        netip.Addr // the zero Addr: none
	dhcp           bool
	pools          []pool
	nameservers    []string
	routes         []route
	raMode, ipMode string // "": not set
	serviceTypes   []string
}

// route is a host route. Both ends are kept as written.
type route struct {
	Destination string `json:"destination"`
	Nexthop     string `json:"nexthop"`
}

func (s *subnet) parent() string { return s.networkID }

func (s *subnet) version() int { return versionOf(s.cidr) }

func versionOf(cidr netip.Prefix) int {
	if cidr.Addr().Is4() {
		return 4
	}
	return 6
}

// automatic reports whether ports compute their own addresses (SLAAC). Such ports do not
// keep the subnet in use.
func (s *subnet) automatic() bool {
	for _, mode := range []string{s.raMode, s.ipMode} {
		if mode == "slaac" || mode == "dhcpv6-stateless" {
			return true
		}
	}
	return false
}

// subnetKind: who can see and change a subnet depends on its network.
func (n *neutron) subnetKind() *kind[*subnet] {
	return (&kind[*subnet]{
		neutron: n, title: "Subnet", items: n.subnets, attrs: subnetAttributes(),
		// A subnet that an admin created is hidden from the network's owner.
		visible: func(c caller, o *subnet) bool {
			net := n.networks.byID[o.networkID]
			return c.admin || o.project == c.project || net != nil && net.admits(c.project)
		},
		owned: func(c caller, o *subnet) bool {
			net := n.networks.byID[o.networkID]
			return c.admin || o.project == c.project || net != nil && net.project == c.project
		},
		admit:  n.admitToNetwork("subnet"),
		create: createSubnet,
		update: updateSubnet,
		remove: removeSubnet,
		copy:   func(o *subnet) *subnet { c := *o; return &c },
	}).init()
}

// subnetAttributes are Neutron's. cidr and network_id are not onPut: Neutron cannot change
// them, and refuses even the current value.
func subnetAttributes() []*attribute[*subnet] {
	modes := oneOf("dhcpv6-stateful", "dhcpv6-stateless", "slaac")
	return standardAttributes([]*attribute[*subnet]{
		{name: "ip_version", flags: onPost | required | filter | sortable, check: ipVersion, get: func(s *subnet) any { return s.version() }},
		{name: "network_id", flags: onPost | required | filter | sortable, check: checkUUID, get: func(s *subnet) any { return s.networkID }},
		{name: "subnetpool_id", flags: onPost | filter | sortable, check: orNull(checkUUID), get: func(s *subnet) any { return nullable(s.poolID) }},
		{name: "use_default_subnetpool", flags: onPost, check: truth},
		{name: "prefixlen", flags: onPost, check: atLeastZero},
		{name: "cidr", flags: onPost | filter | sortable, check: checkCIDR, match: matchCIDR, get: func(s *subnet) any { return s.cidr.String() }},
		{name: "gateway_ip", flags: onPost | onPut | filter | sortable, check: orNull(checkAddress), get: func(s *subnet) any { return nullable(s.gateway) }},
		{name: "allocation_pools", flags: onPost | onPut, check: checkPoolList, get: func(s *subnet) any { return s.pools }},
		{name: "dns_nameservers", flags: onPost | onPut, check: checkNameservers, get: func(s *subnet) any { return s.nameservers }},
		{name: "host_routes", flags: onPost | onPut, check: checkHostRoutes, get: func(s *subnet) any { return s.routes }},
		{name: "enable_dhcp", flags: onPost | onPut | filter | sortable | boolean, check: truth, get: func(s *subnet) any { return s.dhcp }},
		{name: "ipv6_ra_mode", flags: onPost | filter | sortable, check: modes, get: func(s *subnet) any { return nullable(s.raMode) }},
		{name: "ipv6_address_mode", flags: onPost | filter | sortable, check: modes, get: func(s *subnet) any { return nullable(s.ipMode) }},
		{name: "service_types", flags: onPost | onPut, check: texts, get: func(s *subnet) any { return s.serviceTypes }},
	})
}

func ipVersion(name string, v any) (any, *failure) {
	n, err := integer(name, v)
	if err == nil && n != 4 && n != 6 {
		return nil, badValue(name, fmt.Sprintf("%d is not in valid_values", n))
	}
	return n, err
}

// checkCIDR parses a CIDR and clears its host bits. It refuses with InvalidInput, because
// in Neutron this is a conversion of the value.
func checkCIDR(_ string, v any) (any, *failure) {
	// Neutron fails on a value that is not a string, and on a second mask.
	s, ok := v.(string)
	if !ok || strings.Count(s, "/") > 1 {
		return nil, internalError()
	}
	if p, ok := parseCIDR(s); ok {
		return p, nil
	}
	return nil, invalidInput("%s is not in a CIDR format", s)
}

// matchCIDR makes a filter by CIDR. Host bits are cleared, as in the stored CIDRs.
func matchCIDR(values []string) (func(*subnet) bool, *failure) {
	wanted := map[netip.Prefix]bool{}
	for _, v := range values {
		p, ok := parseCIDR(v)
		if !ok {
			return nil, invalidInput("%s is not in a CIDR format", v)
		}
		wanted[p] = true
	}
	return func(s *subnet) bool { return wanted[s.cidr] }, nil
}

// checkAddress accepts one IP address, in IPv4 without leading zeros.
func checkAddress(name string, v any) (any, *failure) {
	if reason := addressFault(v); reason != "" {
		return nil, badValue(name, reason)
	}
	return netip.MustParseAddr(v.(string)), nil
}

// keysFault returns why v is not an object with exactly the keys a and b; "" means that it
// is one.
func keysFault(v any, a, b string) string {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("Invalid input. '%s' must be a dictionary with keys: ['%s', '%s']", python(v), a, b)
	}
	_, hasA := m[a]
	_, hasB := m[b]
	if len(m) != 2 || !hasA || !hasB {
		return fmt.Sprintf("Validation of dictionary's keys failed. Expected keys: {'%s', '%s'} Provided keys: {'%s'}",
			a, b, strings.Join(slices.Sorted(maps.Keys(m)), "', '"))
	}
	return ""
}

// checkPoolList checks only the form; checkPools checks whether the pools fit the subnet.
func checkPoolList(name string, v any) (any, *failure) {
	list, ok := v.([]any)
	if !ok {
		return nil, badValue(name, fmt.Sprintf("Invalid data format for IP pool: '%s'", python(v)))
	}
	pools := []pool{}
	for _, e := range list {
		if reason := keysFault(e, "start", "end"); reason != "" {
			return nil, badValue(name, reason)
		}
		var ends [2]netip.Addr
		for i, key := range []string{"start", "end"} {
			a, err := checkAddress(name, e.(map[string]any)[key])
			if err != nil {
				return nil, err
			}
			ends[i] = a.(netip.Addr)
		}
		pools = append(pools, pool{ends[0], ends[1]})
	}
	return pools, nil
}

// checkNameservers accepts null as an empty list.
func checkNameservers(name string, v any) (any, *failure) {
	servers := []string{}
	if v == nil {
		return servers, nil
	}
	list, ok := v.([]any)
	if s, isText := v.(string); isText { // a list of characters, to Python
		ok = true
		for _, c := range s {
			list = append(list, string(c))
		}
	}
	if !ok {
		return nil, badValue(name, fmt.Sprintf("Invalid data format for nameserver: '%s'", python(v)))
	}
	for _, e := range list {
		if reason := addressFault(e); reason != "" {
			return nil, badValue(name, fmt.Sprintf("'%s' is not a valid nameserver. %s", python(e), reason))
		}
		if slices.Contains(servers, e.(string)) {
			return nil, badValue(name, fmt.Sprintf("Duplicate nameserver '%s'", e))
		}
		servers = append(servers, e.(string))
	}
	return servers, nil
}

// checkHostRoutes reads the routes of a subnet.
func checkHostRoutes(name string, v any) (any, *failure) {
	routes, err := checkRoutes(name, v)
	if err != nil {
		return nil, err
	}
	return sortRoutes(routes.([]route)), nil
}

// sortRoutes brings the routes in the order of the database's primary key.
func sortRoutes(routes []route) []route {
	slices.SortFunc(routes, func(a, b route) int { return strings.Compare(a.Destination+" "+a.Nexthop, b.Destination+" "+b.Nexthop) })
	return routes
}

// checkRoutes reads routes in the order in which they are sent. It accepts null as an empty list.
func checkRoutes(name string, v any) (any, *failure) {
	routes := []route{}
	if v == nil {
		return routes, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, badValue(name, fmt.Sprintf("Invalid data format for hostroute: '%s'", python(v)))
	}
	for _, e := range list {
		if reason := keysFault(e, "destination", "nexthop"); reason != "" {
			return nil, badValue(name, reason)
		}
		m := e.(map[string]any)
		if reason := subnetFault(m["destination"]); reason != "" {
			return nil, badValue(name, reason)
		}
		if reason := addressFault(m["nexthop"]); reason != "" {
			return nil, badValue(name, reason)
		}
		r := route{m["destination"].(string), m["nexthop"].(string)}
		if slices.Contains(routes, r) {
			return nil, badValue(name, fmt.Sprintf("Duplicate hostroute '{'destination': '%s', 'nexthop': '%s'}'", r.Destination, r.Nexthop))
		}
		routes = append(routes, r)
	}
	for i := range routes {
		routes[i].Nexthop = netip.MustParseAddr(routes[i].Nexthop).String()
	}
	return routes, nil
}

// subnetFault returns why v is not the CIDR of a route; "" means that it is one. It is
// stricter than parseCIDR, like Neutron's validator of routes, except for IPv6: there it accepts
// any form, which is kept.
func subnetFault(v any) string {
	s, _ := v.(string)
	p, ok := parseCIDR(s)
	if _, err := netip.ParsePrefix(s); ok && (p.String() == s || err == nil && p.Addr().Is6()) {
		return ""
	}
	if ok {
		return fmt.Sprintf("'%s' is not a recognized CIDR, '%s' is recommended", s, p)
	}
	return fmt.Sprintf("'%s' is not a valid IP subnet", python(v))
}

// createSubnet checks in Neutron's order: the subnet by itself, its network, and then both
// together. Neutron does not check a subnet from a pool by itself. The first revision is 0.
func createSubnet(t *tx, v values) (*subnet, *failure) {
	pool, err := t.poolOf(v)
	if err != nil {
		return nil, err
	}
	s := &subnet{
		standard:     t.newStandard(v, 0),
		networkID:    given(v, "network_id", ""),
		poolID:       pool,
		cidr:         given(v, "cidr", netip.Prefix{}),
		dhcp:         given(v, "enable_dhcp", true),
		nameservers:  []string{},
		routes:       []route{},
		raMode:       given(v, "ipv6_ra_mode", ""),
		ipMode:       given(v, "ipv6_address_mode", ""),
		serviceTypes: []string{},
	}
	s.apply(v)
	if s.poolID == "" {
		if err := s.checkNew(v); err != nil {
			return nil, err
		}
	}
	// A member without access was already refused; this is for admins.
	net, ok := t.networks.byID[s.networkID]
	if !ok {
		return nil, missing("Network", s.networkID)
	}
	if err := t.place(s, net, v); err != nil {
		return nil, err
	}
	if len(s.serviceTypes) > 0 {
		s.revision++ // Neutron stores them after the subnet
	}
	store(t, t.subnets, s)
	// A copy: readers may still hold the old list.
	t.changeNetwork(net.id, func(n *network) { n.subnets = append(slices.Clone(n.subnets), s.id) })
	return s, t.extendPorts(s, net)
}

// extendPorts gives ports that exist already an address of a new subnet, if they get one.
func (t *tx) extendPorts(s *subnet, net *network) *failure {
	if s.automatic() {
		t.addAutomatic(s)
	}
	if net.external {
		return t.extendGateways(s)
	}
	return nil
}

// checkNew checks a new subnet that is not from a pool.
func (s *subnet) checkNew(v values) *failure {
	// The request has the version apart from the CIDR, so the two may contradict.
	if want := given(v, "ip_version", 0); s.version() != want {
		return versionMismatch("cidr", s.cidr, want)
	}
	if err := s.check(v, "new subnet", s.dhcp); err != nil {
		return err
	}
	return s.checkIPv6Modes()
}

// addAutomatic gives the ports of a network their addresses of its new subnet.
func (t *tx) addAutomatic(s *subnet) {
	for _, old := range t.ports.in(s.networkID) {
		if old.serves() {
			continue
		}
		p := *old
		p.add(s, automaticAddress(s.cidr, p.mac))
		t.bump(&p.standard)
		t.storePort(&p)
	}
}

// poolOf returns the ID of the pool that a new subnet is allocated from; "": from none, so the request has a CIDR.
func (t *tx) poolOf(v values) (string, *failure) {
	id := given(v, "subnetpool_id", "")
	isDefault := given(v, "use_default_subnetpool", false)
	version := given(v, "ip_version", 0)
	if v.has("cidr") {
		version = versionOf(v["cidr"].(netip.Prefix))
	}
	switch {
	case v.has("cidr") && v.has("prefixlen"):
		return "", badResource("subnets", "cidr and prefixlen must not be supplied together")
	case id != "" && isDefault:
		return "", badResource("subnets", "subnetpool_id and use_default_subnetpool cannot both be specified")
	case isDefault && t.defaultPool(version) == nil:
		return "", badResource("subnets", fmt.Sprintf("No default subnetpool found for IPv%d", version))
	case isDefault:
		id = t.defaultPool(version).id
	case id == "" && !v.has("cidr"):
		return "", badResource("subnets", "a subnetpool must be specified in the absence of a cidr")
	}
	if id != "" && !v.has("cidr") && v.has("allocation_pools") {
		return "", badResource("subnets", "allocation_pools allowed only for specific subnet requests.")
	}
	return id, nil
}

// place sets what the request leaves open of the CIDR, the gateway and the pools, and refuses a subnet that overlaps
// another one of the network.
func (t *tx) place(s *subnet, net *network, v values) *failure {
	if s.poolID != "" {
		if err := t.allocateCIDR(s, v); err != nil {
			return err
		}
	}
	if !v.has("gateway_ip") {
		if s.gateway = defaultGateway(s.cidr); !s.gateway.IsValid() {
			return internalError()
		}
	}
	// An empty list means the default on creation, but no pools on update.
	if len(s.pools) > 0 {
		if err := checkPools(s.pools, s.cidr, s.gateway); err != nil {
			return err
		}
	} else {
		s.pools = defaultPools(s.cidr, s.gateway)
	}
	// Checked after the pools, as in Neutron, where it is part of the check for overlaps.
	if s.cidr.Bits() == 0 {
		return invalidInput("0 is not allowed as CIDR prefix length")
	}
	for _, id := range net.subnets {
		// Neutron itself uses ::/64 until a prefix is delegated.
		other := t.subnets.byID[id].cidr
		isTwin := t.request.isRepeated && other == s.cidr && len(net.subnets) > 1
		if other.Overlaps(s.cidr) && other.String() != "::/64" && !isTwin {
			return invalidInput("Requested subnet with cidr: %s for network: %s overlaps with another subnet", s.cidr, net.id)
		}
	}
	for _, id := range net.subnets {
		if o := t.subnets.byID[id]; o.version() == s.version() && o.poolID != s.poolID {
			return badAs("NetworkSubnetPoolAffinityError", "Subnets hosted on the same network must be allocated from the same subnet pool.")
		}
	}
	// Neutron's own default can be invalid in an IPv4 subnet of two addresses.
	if s.checkGateway() != nil {
		return conflict("IpamValueInvalid", "Gateway IP %s cannot be allocated in CIDR %s", s.gateway, s.cidr)
	}
	return nil
}

// apply sets the attributes that both a creation and an update can have.
func (s *subnet) apply(v values) {
	if v.has("gateway_ip") {
		s.gateway = given(v, "gateway_ip", netip.Addr{})
	}
	s.nameservers = given(v, "dns_nameservers", s.nameservers)
	s.routes = given(v, "host_routes", s.routes)
	s.pools = given(v, "allocation_pools", s.pools)
	s.serviceTypes = given(v, "service_types", s.serviceTypes)
}

// check validates the attributes that a request has set.
// dhcpNew is true if the request enables DHCP: only then is the CIDR checked for DHCP.
func (s *subnet) check(v values, label string, dhcpNew bool) *failure {
	if dhcpNew {
		if err := s.checkDHCP(); err != nil {
			return err
		}
	}
	if v.has("gateway_ip") {
		if err := s.checkGateway(); err != nil {
			return err
		}
	}
	if v.has("dns_nameservers") {
		if err := s.checkServers(s.nameservers, label); err != nil {
			return err
		}
	}
	if v.has("host_routes") {
		return s.checkHostRoutes(s.routes, label)
	}
	return nil
}

// versionMismatch is Neutron's refusal of an address of the other family.
func versionMismatch(attr string, value any, version int) *failure {
	return invalidInput("%s '%s' does not match the ip_version '%d'", attr, value, version)
}

// checkDHCP refuses subnets that a DHCP server cannot serve. Without DHCP a subnet of one
// address, or of multicast, is valid.
func (s *subnet) checkDHCP() *failure {
	first := s.cidr.Addr()
	switch {
	case first.BitLen()-s.cidr.Bits() < 2:
		return invalidInput("Subnet has a prefix length that is incompatible with DHCP service enabled")
	case s.isWithin("224.0.0.0/4"), s.isWithin("ff00::/8"):
		return invalidInput("Multicast IP subnet is not supported if enable_dhcp is True")
	case s.isWithin("127.0.0.0/8"):
		return invalidInput("Loopback IP subnet is not supported if enable_dhcp is True")
	case first == netip.IPv4Unspecified():
		return invalidInput("First IP '0.0.0.0' of network is not supported if enable_dhcp is True.")
	}
	return nil
}

// isWithin reports whether all addresses of the subnet are in the CIDR.
func (s *subnet) isWithin(cidr string) bool {
	p := netip.MustParsePrefix(cidr)
	return p.Bits() <= s.cidr.Bits() && p.Contains(s.cidr.Addr())
}

// checkGateway accepts a gateway outside the subnet, as Neutron does.
func (s *subnet) checkGateway() *failure {
	g := s.gateway
	if !g.IsValid() {
		return nil
	}
	if g.BitLen() != s.cidr.Addr().BitLen() {
		return versionMismatch("gateway_ip", g, s.version())
	}
	if g.Is4() && (g == s.cidr.Addr() || g == lastAddr(s.cidr)) {
		return invalidInput("Gateway is not valid on subnet")
	}
	return nil
}

func exhausted(kind, label, what string, limit int) *failure {
	return &failure{http.StatusBadRequest, kind,
		fmt.Sprintf("Unable to complete operation for %s. The number of %s exceeds the limit %d.", label, what, limit)}
}

func (s *subnet) checkServers(list []string, label string) *failure {
	if len(list) > maxNameservers {
		return exhausted("DNSNameServersExhausted", label, "DNS nameservers", maxNameservers)
	}
	for _, server := range list {
		if netip.MustParseAddr(server).BitLen() != s.cidr.Addr().BitLen() {
			return versionMismatch("dns_nameserver", server, s.version())
		}
	}
	return nil
}

func (s *subnet) checkHostRoutes(list []route, label string) *failure {
	if len(list) > maxHostRoutes {
		return exhausted("HostRoutesExhausted", label, "host routes", maxHostRoutes)
	}
	width := s.cidr.Addr().BitLen()
	for _, r := range list {
		if netip.MustParseAddr(r.Nexthop).BitLen() != width {
			return versionMismatch("nexthop", r.Nexthop, s.version())
		}
		if netip.MustParsePrefix(r.Destination).Addr().BitLen() != width {
			return versionMismatch("destination", r.Destination, s.version())
		}
	}
	return nil
}

// checkIPv6Modes follows the table of valid combinations in Neutron's IPv6 guide.
func (s *subnet) checkIPv6Modes() *failure {
	switch {
	case s.version() == 4 && s.raMode != "":
		return invalidInput("ipv6_ra_mode is not valid when ip_version is 4")
	case s.version() == 4 && s.ipMode != "":
		return invalidInput("ipv6_address_mode is not valid when ip_version is 4")
	case s.raMode == "" && s.ipMode == "":
		return nil
	case !s.dhcp:
		return invalidInput("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")
	case s.raMode != "" && s.ipMode != "" && s.raMode != s.ipMode:
		return invalidInput("ipv6_ra_mode set to '%s' with ipv6_address_mode set to '%s' is not valid. "+
			"If both attributes are set, they must be the same value", s.raMode, s.ipMode)
	case s.automatic() && s.cidr.Bits() != 64:
		return invalidInput("Invalid CIDR %s for IPv6 address mode. OpenStack uses the EUI-64 address format, "+
			"which requires the prefix to be /64", s.cidr)
	}
	return nil
}

// updateSubnet increments the network's revision too, as Neutron does. So a network's
// revision that a client has seen soon becomes stale.
func updateSubnet(t *tx, old *subnet, v values) (*subnet, *failure) {
	s := *old
	s.dhcp = given(v, "enable_dhcp", s.dhcp)
	s.apply(v)
	if err := s.check(v, s.id, s.dhcp && !old.dhcp); err != nil {
		return nil, err
	}
	if s.gateway.IsValid() && s.gateway != old.gateway {
		if p := t.interfaceAt(old); p != nil {
			return nil, conflict("GatewayIpInUse", "Current gateway ip %s already in use by port %s. Unable to update.", old.gateway, p.id)
		}
	}
	// The modes cannot change after the creation of the subnet.
	if !s.dhcp && v.has("enable_dhcp") && (s.raMode != "" || s.ipMode != "") {
		return nil, invalidInput("Cannot disable enable_dhcp with ipv6 attributes set")
	}
	if v.has("allocation_pools") {
		if err := checkPools(s.pools, s.cidr, s.gateway); err != nil {
			return nil, err
		}
	} else if s.gateway != old.gateway {
		// The pools do not change, so a gateway inside one is refused.
		if err := checkGatewayOutside(s.pools, s.gateway); err != nil {
			return nil, err
		}
	}
	t.changeNetwork(s.networkID, func(*network) {})
	return &s, nil
}

// interfaceAt returns the interface that has a subnet's gateway as its address, or nil.
func (t *tx) interfaceAt(s *subnet) *port {
	for _, p := range t.ports.in(s.networkID) {
		if p.router != "" && slices.Contains(p.fixedIPs, fixedIP{s.id, s.gateway}) {
			return p
		}
	}
	return nil
}

// removeSubnet refuses while a port has an address of the subnet. Exceptions are the ports that are
// deleted with a network, and addresses that ports compute themselves, except those of interfaces: such
// ports lose the address.
func removeSubnet(t *tx, s *subnet) *failure {
	for _, p := range t.ports.in(s.networkID) {
		left := slices.DeleteFunc(slices.Clone(p.fixedIPs), func(f fixedIP) bool { return f.SubnetID == s.id })
		if len(left) == len(p.fixedIPs) {
			continue
		}
		if !slices.Contains(autoDeleted, p.deviceOwner) && (!s.automatic() || p.serves() && p.deviceOwner != snatOwner) {
			return conflict("SubnetInUse", "Unable to complete operation on subnet %s: "+
				"One or more ports have an IP allocation from this subnet.", s.id)
		}
		// The port stays, without the address.
		changed := *p
		changed.fixedIPs = left
		t.bump(&changed.standard)
		t.storePort(&changed)
	}
	discard(t, t.subnets, s.id)
	t.changeNetwork(s.networkID, func(n *network) {
		n.subnets = slices.DeleteFunc(slices.Clone(n.subnets), func(id string) bool { return id == s.id })
	})
	return nil
}
