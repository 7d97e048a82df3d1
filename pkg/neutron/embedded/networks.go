// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// network is a network as stored. Derived attributes (status, zones) are computed when it
// is shown.
type network struct {
	standard
	adminStateUp, shared, external bool
	portSecurity                   bool
	// sharedWith are the IDs of the projects that the network is shared with, besides shared, which is with all.
	sharedWith            []string
	mtu                   int
	dnsDomain             string
	subnets               []string
	zoneHints             []string
	networkType, physical string
	segment               int // 0: none
	// isDefault: the answer has is_default, as for an admin's new network and an external one.
	isDefault bool
}

func (n *network) parent() string { return "" }

const (
	// tunnelOverhead is the number of bytes that VXLAN takes from the underlay's MTU. The
	// other network types of the embedded cloud have the whole MTU.
	tunnelOverhead = 50
	// physicalNetwork is the only physical network for VLANs, with the name from most of
	// Neutron's examples.
	physicalNetwork = "physnet1"
	// firstVLAN is the first VLAN that is given to a network that asks for none.
	firstVLAN = 100
	// dhcpOwner marks the ports of DHCP agents.
	dhcpOwner = "network:dhcp"
)

// autoDeleted are the device owners of ports that do not keep a network or a subnet in use.
var autoDeleted = []string{dhcpOwner, "network:distributed", "network:floatingip_agent_gateway"}

// networkKind: other projects see a network if it is shared or external (both are RBAC
// entries in Neutron), but only its own project can change it.
func (n *neutron) networkKind() *kind[*network] {
	return (&kind[*network]{
		neutron: n, title: "Network", items: n.networks, attrs: networkAttributes(),
		visible: func(c caller, o *network) bool {
			return c.admin || o.project == c.project || o.admits(c.project) || o.external
		},
		owned:  func(c caller, o *network) bool { return c.admin || o.project == c.project },
		create: createNetwork,
		update: updateNetwork,
		remove: removeNetwork,
		// ML2 flushes the session before it checks what it may refuse.
		matchFirst: true,
		copy:       func(o *network) *network { c := *o; return &c },
	}).init()
}

// networkAttributes are Neutron's, with the extensions listed in neutron.go. Attributes of
// other extensions (qos_policy_id, vlan_transparent) are not recognized.
func networkAttributes() []*attribute[*network] {
	null := func(*network) any { return nil }
	return standardAttributes([]*attribute[*network]{
		{name: "subnets", get: func(n *network) any { return n.subnets }},
		{name: "admin_state_up", flags: onPost | onPut | filter | sortable | boolean, check: truth, get: func(n *network) any { return n.adminStateUp }},
		{name: "status", flags: filter | sortable, get: func(*network) any { return "ACTIVE" }},
		{name: "shared", flags: onPost | onPut | filter | boolean | adminSets, check: truth, def: false, get: func(n *network) any { return n.shared },
			getFor: func(c caller, n *network) any { return n.admits(c.project) }},
		{name: "router:external", flags: onPost | onPut | filter | boolean | adminSets, check: truth, def: false, get: func(n *network) any { return n.external }},
		{name: "is_default", flags: onPost | onPut | adminSets, check: truth, def: false, get: showDefault},
		{name: "segments", flags: onPost | onPut | adminSets},
		{name: "mtu", flags: onPost | onPut | filter, check: atLeastZero, get: func(n *network) any { return n.mtu }},
		{name: "port_security_enabled", flags: onPost | onPut, check: truth, get: func(n *network) any { return n.portSecurity }},
		{name: "dns_domain", flags: onPost | onPut, check: checkDomain, get: func(n *network) any { return n.dnsDomain }},
		{name: "provider:network_type", flags: onPost | onPut | filter | adminSets | adminSees, check: text(maxText), get: func(n *network) any { return n.networkType }},
		{name: "provider:physical_network", flags: onPost | onPut | filter | adminSets | adminSees, check: text(maxText), get: func(n *network) any { return nullable(n.physical) }},
		{name: "provider:segmentation_id", flags: onPost | onPut | filter | adminSets | adminSees, check: integer, get: func(n *network) any { return nullable(n.segment) }},
		{name: "availability_zone_hints", flags: onPost, check: checkZones, get: func(n *network) any { return n.zoneHints }},
		// Without agents no network is in any zone.
		{name: "availability_zones", get: func(*network) any { return []string{} }},
		{name: "ipv4_address_scope", get: null},
		{name: "ipv6_address_scope", get: null},
	})
}

// createNetwork creates a network with revision 1, because in Neutron the segment that is
// created with the network increments its revision.
func createNetwork(t *tx, v values) (*network, *failure) {
	n := &network{
		standard:     t.newStandard(v, 1),
		adminStateUp: given(v, "admin_state_up", true),
		shared:       given(v, "shared", false),
		external:     given(v, "router:external", false),
		portSecurity: given(v, "port_security_enabled", true),
		dnsDomain:    given(v, "dns_domain", ""),
		subnets:      []string{},
		zoneHints:    given(v, "availability_zone_hints", []string{}),
		networkType:  given(v, "provider:network_type", "vxlan"),
		physical:     given(v, "provider:physical_network", ""),
		segment:      given(v, "provider:segmentation_id", 0),
	}
	if given(v, "provider:network_type", "") == "" && (n.physical != "" || n.segment != 0) {
		return nil, invalidInput("network_type required")
	}
	if err := n.checkSegment(); err != nil {
		return nil, err
	}
	if err := t.reserveSegment(n); err != nil {
		return nil, err
	}
	if err := t.setMTU(n, v); err != nil {
		return nil, err
	}
	if err := findZones(n.zoneHints); err != nil {
		return nil, err
	}
	store(t, t.networks, n)
	t.setPolicy(n, accessAsShared, n.shared)
	t.setPolicy(n, accessAsExternal, n.external)
	shown := *n
	shown.isDefault = t.request.caller.admin
	return &shown, nil
}

// zones are the availability zones, in which no agent runs. A stock deployment has the first one.
var zones = []string{"nova", "az2"}

// serveZones lists the availability zones. Neutron ignores the fields and the limit of the request.
func serveZones(r *request, rest []string) *answer {
	switch {
	case len(rest) > 0:
		return notFoundPath().answer()
	case r.Method != http.MethodGet:
		return methodNotAllowed(r.Method).answer()
	}
	all := []map[string]string{}
	for _, zone := range zones {
		for _, resource := range []string{"network", "router"} {
			all = append(all, map[string]string{"name": zone, "resource": resource, "state": "available"})
		}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"availability_zones": all})
}

// checkZones sorts the zones, as Neutron does. Its database has them as JSON, with a limit.
func checkZones(name string, v any) (any, *failure) {
	hints, err := texts(name, v)
	if err != nil {
		return nil, err
	}
	all := hints.([]string)
	quoted := make([]string, len(all))
	for i, z := range all {
		quoted[i] = strconv.QuoteToASCII(z)
	}
	if len("["+strings.Join(quoted, ", ")+"]") > maxText {
		return nil, invalidInput("Too many availability_zone_hints specified")
	}
	slices.Sort(all)
	return all, nil
}

// findZones refuses zones that do not exist.
func findZones(hints []string) *failure {
	for _, z := range hints {
		if !slices.Contains(zones, z) {
			return missing("AvailabilityZone", z)
		}
	}
	return nil
}

// showDefault shows is_default where Neutron does. There is no default external network here.
func showDefault(n *network) any {
	if n.external || n.isDefault {
		return false
	}
	return absent{}
}

// checkSegment refuses a physical network or a segment that the network's type does not have.
func (n *network) checkSegment() *failure {
	switch {
	case !slices.Contains([]string{"local", "flat", "vlan", "vxlan"}, n.networkType):
		return invalidInput("network_type value '%s' not supported", n.networkType)
	case n.networkType == "flat" && n.physical == "":
		return invalidInput("physical_network required for flat provider network")
	case n.networkType == "vxlan" && n.physical != "":
		return invalidInput("provider:physical_network specified for vxlan network")
	case n.networkType == "local" && n.physical != "":
		return invalidInput("physical_network prohibited for local provider network")
	case (n.networkType == "flat" || n.networkType == "local") && n.segment != 0:
		return invalidInput("segmentation_id prohibited for %s provider network", n.networkType)
	case n.networkType != "vlan":
		return nil
	case n.physical == "" && n.segment != 0:
		return invalidInput("segmentation_id requires physical_network for VLAN provider network")
	case n.physical != "" && n.physical != physicalNetwork:
		return invalidInput("physical_network '%s' unknown for VLAN provider network", n.physical)
	case n.segment < 0 || n.segment > 4094:
		return invalidInput("segmentation_id out of range (1 through 4094)")
	}
	return nil
}

// reserveSegment gives a network a segment that no other one has, or refuses the one that it asks
// for. Tunnels are numbered in sequence; the sequence does not skip those that admins asked for.
func (t *tx) reserveSegment(n *network) *failure {
	switch {
	case n.networkType == "flat" && t.isTaken(n):
		return conflict("FlatNetworkInUse", "Unable to create the flat network. Physical network %s is in use.", n.physical)
	case n.networkType == "vxlan" && n.segment == 0:
		t.segment++
		n.segment = t.segment
	case n.networkType == "vxlan" && t.isTaken(n):
		return conflict("TunnelIdInUse", "Unable to create the network. The tunnel ID %d is in use.", n.segment)
	case n.networkType == "vlan" && n.segment == 0:
		n.physical = physicalNetwork
		for n.segment = firstVLAN; t.isTaken(n); {
			n.segment++
		}
	case n.networkType == "vlan" && t.isTaken(n):
		return conflict("VlanIdInUse", "Unable to create the network. The VLAN %d on physical network %s is in use.", n.segment, n.physical)
	}
	return nil
}

// isTaken reports whether a network has the segment already.
func (t *tx) isTaken(n *network) bool {
	return slices.ContainsFunc(t.networks.sorted, func(o *network) bool {
		return o.networkType == n.networkType && o.physical == n.physical && o.segment == n.segment
	})
}

// setMTU sets the requested MTU. 0, or none, means the largest possible.
func (t *tx) setMTU(n *network, v values) *failure {
	most := t.mtu
	if n.networkType != "vxlan" {
		most += tunnelOverhead
	}
	mtu := given(v, "mtu", n.mtu)
	if mtu > most {
		return invalidInput("Requested MTU is too big, maximum is %d", most)
	}
	if mtu == 0 {
		mtu = most
	}
	n.mtu = mtu
	return nil
}

// updateNetwork refuses to change the type or the physical network, as ML2 does. An update
// with only these attributes, or the DNS domain, unchanged, changes nothing. The segment of a VLAN
// can change, but not to the same one, because that is in use. It has no effect on the revision.
func updateNetwork(t *tx, old *network, v values) (*network, *failure) {
	if given(v, "provider:network_type", old.networkType) != old.networkType || given(v, "provider:physical_network", old.physical) != old.physical {
		return nil, invalidInput("Plugin does not support updating the following provider network attributes: provider:network_type, provider:physical_network")
	}
	if len(v) == 0 && (old.shared || old.external) && !t.request.caller.admin {
		// Without attributes to compare, the policy checks all that the network has.
		return nil, disallowed("update_network", map[bool]string{true: "update_network:shared", false: "update_network:router:external"}[old.shared])
	}
	n := *old
	segment := given(v, "provider:segmentation_id", 0)
	if segment != 0 {
		if err := t.changeSegment(&n, segment); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(v, func(name string, _ any) bool { return strings.HasPrefix(name, "provider:") })
	if len(v) == 1 && v["dns_domain"] == old.dnsDomain {
		delete(v, "dns_domain")
	}
	switch {
	case len(v) == 0 && segment == 0:
		return old, nil
	case len(v) == 0:
		store(t, t.networks, &n) // the revision stays
		return &n, nil
	}
	n.adminStateUp = given(v, "admin_state_up", n.adminStateUp)
	n.shared = given(v, "shared", n.shared)
	n.external = given(v, "router:external", n.external)
	n.portSecurity = given(v, "port_security_enabled", n.portSecurity)
	n.dnsDomain = given(v, "dns_domain", n.dnsDomain)
	if v.has("mtu") {
		if err := t.setMTU(&n, v); err != nil {
			return nil, err
		}
	}
	if err := t.checkSharing(old, &n); err != nil {
		return nil, err
	}
	t.setPolicy(&n, accessAsShared, n.shared)
	t.setPolicy(&n, accessAsExternal, n.external)
	return &n, nil
}

// checkSharing refuses to take a network from the other projects that use it.
func (t *tx) checkSharing(old, n *network) *failure {
	if old.shared && !n.shared && t.usedByOthers(old) {
		return conflict("InvalidSharedSetting",
			"Unable to reconfigure sharing settings for network %s. Multiple tenants are using it.", old.name)
	}
	if old.external && !n.external && slices.ContainsFunc(t.ports.in(n.id), func(p *port) bool { return p.deviceOwner == gatewayOwner }) {
		return conflict("ExternalNetworkInUse",
			"External network %s cannot be updated to be made non-external, since it has existing gateway ports.", n.id)
	}
	return nil
}

func (t *tx) changeSegment(n *network, segment int) *failure {
	if n.networkType != "vlan" {
		return invalidInput("Only VLAN type networks can be updated.")
	}
	n.segment = segment
	if err := n.checkSegment(); err != nil {
		return err
	}
	return t.reserveSegment(n)
}

// usedByOthers reports whether projects other than the owner's have ports on the network.
func (t *tx) usedByOthers(n *network) bool {
	return slices.ContainsFunc(t.ports.in(n.id), func(p *port) bool {
		return p.project != n.project && !slices.Contains(n.sharedWith, p.project) && !strings.HasPrefix(p.deviceOwner, "network:")
	})
}

// removeNetwork deletes the subnets, the ports that are deleted with them, and the floating IPs that
// lead nowhere. Any other port prevents the deletion, after the floating IPs are gone.
func removeNetwork(t *tx, n *network) *failure {
	for _, f := range t.floatingIPs.in(n.id) {
		if f.portID == "" && len(f.forwardings) == 0 {
			removeFloatingIP(t, f)
		}
	}
	t.keep()
	var blocking []string
	for _, p := range t.ports.in(n.id) {
		if !slices.Contains(autoDeleted, p.deviceOwner) {
			blocking = append(blocking, p.id)
		}
	}
	if blocking != nil {
		return conflict("NetworkInUse", "Unable to complete operation on network %s. "+
			"There are one or more ports still in use on the network, id for these ports is: %s.", n.id, strings.Join(blocking, ","))
	}
	for _, p := range t.ports.in(n.id) {
		discard(t, t.ports, p.id)
	}
	for _, id := range n.subnets {
		discard(t, t.subnets, id)
	}
	for _, p := range t.rbacPolicies.in(n.id) {
		discard(t, t.rbacPolicies, p.id)
	}
	discard(t, t.networks, n.id)
	return nil
}

// admitToNetwork returns a check that refuses a member's subnet or port in another
// project's network, unless the network is shared.
func (n *neutron) admitToNetwork(resource string) func(caller, values) *failure {
	return func(c caller, v values) *failure {
		id := given(v, "network_id", "")
		net, ok := n.networks.byID[id]
		switch {
		case !ok || net.project != c.project && !net.admits(c.project) && !net.external:
			return missing("Network", id)
		case net.project == c.project || net.admits(c.project):
			return nil
		}
		return &failure{http.StatusForbidden, "HTTPForbidden",
			"Tenant " + c.project + " not allowed to create " + resource + " on this network"}
	}
}
