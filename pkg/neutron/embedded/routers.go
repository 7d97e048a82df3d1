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
	gatewayOwner   = "network:router_gateway"
	interfaceOwner = "network:router_interface"
)

// router is a router as stored. The ports of its gateway and of its interfaces name it in their
// field router.
type router struct {
	standard
	adminStateUp bool
	zoneHints    []string
	gateway      *gateway // nil: none
	noSNAT       bool
	distributed  bool
	routes       []route
}

// gateway is the connection of a router to an external network. Like every stored object, it does
// not change.
type gateway struct {
	port, network string
	fixedIPs      []fixedIP
}

func (r *router) parent() string { return "" }

func (n *neutron) routerKind() *kind[*router] {
	mine := func(c caller, o *router) bool { return c.admin || o.project == c.project }
	k := &kind[*router]{
		neutron: n, title: "Router", items: n.routers, attrs: routerAttributes(),
		visible: mine,
		owned:   mine,
		noBulk:  true,
		forbid:  forbidGatewayKeys,
		create:  createRouter,
		update:  updateRouter,
		remove:  removeRouter,
		copy:    func(o *router) *router { c := *o; return &c },
	}
	k.actions = map[string]func(*request, string) *answer{
		"add_router_interface":    func(r *request, id string) *answer { return changeInterface(k, r, id, addInterface) },
		"remove_router_interface": func(r *request, id string) *answer { return changeInterface(k, r, id, removeInterface) },
	}
	return k.init()
}

// routerAttributes are Neutron's. There are no flavors here, and without agents a router is in no
// zone, and not highly available.
func routerAttributes() []*attribute[*router] {
	off := func(*router) any { return false }
	none := func(*router) any { return []string{} }
	return standardAttributes([]*attribute[*router]{
		{name: "admin_state_up", flags: onPost | onPut | filter | sortable | boolean, check: truth, get: func(r *router) any { return r.adminStateUp }},
		{name: "status", flags: sortable, get: func(*router) any { return "ACTIVE" }},
		{name: "external_gateway_info", flags: onPost | onPut, check: checkGatewayInfo, get: showGateway},
		{name: "routes", flags: onPut, check: checkRoutes, get: func(r *router) any { return r.routes }},
		{name: "flavor_id", flags: onPost, get: func(*router) any { return nil }},
		{name: "distributed", flags: onPost | onPut | adminSets | adminSees, check: truth, get: func(r *router) any { return r.distributed }},
		{name: "ha", flags: onPost | onPut | adminSets | adminSees, check: truth, get: off},
		{name: "availability_zone_hints", flags: onPost, check: checkZones, get: func(r *router) any { return r.zoneHints }},
		{name: "availability_zones", get: none},
	})
}

func showGateway(r *router) any {
	if r.gateway == nil {
		return nil
	}
	type shown struct {
		Network  string    `json:"network_id"`
		SNAT     bool      `json:"enable_snat"`
		FixedIPs []fixedIP `json:"external_fixed_ips"`
	}
	return shown{r.gateway.network, !r.noSNAT, r.gateway.fixedIPs}
}

// gatewayInfo is external_gateway_info in a request. Without a network it clears the gateway.
type gatewayInfo struct {
	network  string
	snat     bool
	fixedIPs []fixedIP
	keys     []string
}

// gatewayKeys are the keys of external_gateway_info, in the order of Neutron's policy.
var gatewayKeys = []string{"network_id", "enable_snat", "external_fixed_ips"}

// checkGatewayInfo accepts null and an empty object, which both clear the gateway.
func checkGatewayInfo(name string, v any) (any, *failure) {
	info := gatewayInfo{snat: true}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, badValue(name, fmt.Sprintf("'%s' is not a dictionary", python(v)))
	}
	for _, key := range gatewayKeys {
		x, sent := m[key]
		if !sent {
			continue
		}
		var err *failure
		switch key {
		case "network_id":
			x, err = checkUUID(name, x)
			info.network, _ = x.(string)
		case "enable_snat":
			x, err = truth(name, x)
			info.snat, _ = x.(bool)
		default:
			x, err = checkFixedIPs(name, x)
			info.fixedIPs, _ = x.([]fixedIP)
		}
		if err != nil {
			return nil, err
		}
		info.keys = append(info.keys, key)
	}
	if len(m) > len(info.keys) || len(m) > 0 && info.network == "" {
		return nil, badValue(name, gatewayKeysFault(m))
	}
	return info, nil
}

func gatewayKeysFault(m map[string]any) string {
	var unexpected []string
	for key := range m {
		if !slices.Contains(gatewayKeys, key) {
			unexpected = append(unexpected, key)
		}
	}
	if unexpected == nil {
		return "Validation of dictionary's keys failed. Expected keys: {'network_id'} Provided keys: dict_keys(" + pythonList(slices.Sorted(maps.Keys(m))) + ")"
	}
	slices.Sort(unexpected)
	return "Unexpected keys supplied: " + strings.Join(unexpected, ", ")
}

// forbidGatewayKeys refuses the keys of external_gateway_info that only an admin may send.
func forbidGatewayKeys(v values, action string) *failure {
	info, _ := v["external_gateway_info"].(gatewayInfo)
	if len(info.keys) < 2 {
		return nil
	}
	prefix := "rule:" + action + ":external_gateway_info"
	return &failure{http.StatusForbidden, "PolicyNotAuthorized", fmt.Sprintf("(rule:%s and (%s and (%s:%s))) is disallowed by policy",
		action, prefix, prefix, strings.Join(info.keys, " and "+prefix+":"))}
}

// createRouter stores the router first and sets its gateway afterwards.
func createRouter(t *tx, v values) (*router, *failure) {
	r := &router{
		standard:     t.newStandard(v, 1),
		adminStateUp: given(v, "admin_state_up", true),
		zoneHints:    given(v, "availability_zone_hints", []string{}),
		distributed:  given(v, "distributed", t.distributed),
		routes:       []route{},
	}
	if err := findZones(r.zoneHints); err != nil {
		return nil, err
	}
	store(t, t.routers, r)
	info := given(v, "external_gateway_info", gatewayInfo{})
	if info.network == "" {
		return r, nil
	}
	if err := t.checkGatewayNetwork(info); err != nil {
		return nil, err
	}
	if err := t.middle(); err != nil {
		return nil, err
	}
	return t.setGateway(t.setSNAT(r, info), info)
}

// updateRouter changes the gateway before the other attributes.
func updateRouter(t *tx, old *router, v values) (*router, *failure) {
	if len(v) == 0 {
		return old, nil
	}
	if info, ok := v["external_gateway_info"].(gatewayInfo); ok {
		var err *failure
		if old, err = t.changeGateway(old, info); err != nil {
			return nil, err
		}
		if err := t.middle(); err != nil {
			return nil, err
		}
		if len(v) == 1 {
			return old, nil // the gateway has its own revisions
		}
	}
	r := *old
	r.adminStateUp = given(v, "admin_state_up", r.adminStateUp)
	r.distributed = given(v, "distributed", r.distributed)
	if err := t.migrate(old, &r); err != nil {
		return nil, err
	}
	if !v.has("routes") {
		return &r, nil
	}
	routes := given(v, "routes", r.routes)
	if err := t.checkNexthops(&r, routes); err != nil {
		return nil, err
	}
	r.routes = sortRoutes(slices.Clone(routes))
	if len(v) == 1 && slices.Equal(r.routes, old.routes) {
		return old, nil // without another revision
	}
	return &r, nil
}

// changeGateway removes the old gateway before it sets the new one. So the router has none if the
// new one is refused for want of an address.
func (t *tx) changeGateway(r *router, info gatewayInfo) (*router, *failure) {
	if err := ifMatch(t.request, r.revision); err != nil {
		return nil, err
	}
	old := r.gateway
	r = t.setSNAT(r, info)
	t.keep()
	if err := t.checkGatewayNetwork(info); err != nil {
		return nil, err
	}
	if info.network != "" && (old == nil || old.network != info.network) {
		if err := t.checkNexthops(r, r.routes, t.subnets.in(info.network)...); err != nil {
			return nil, err
		}
	}
	if old != nil && old.network != info.network {
		if slices.ContainsFunc(t.floatingIPs.sorted, func(f *floatingIP) bool { return f.routerID == r.id }) {
			return nil, conflict("RouterExternalGatewayInUseByFloatingIp", "Gateway cannot be updated for router %s, since a "+
				"gateway to external network %s is required by one or more floating IPs.", r.id, old.network)
		}
		var err *failure
		if r, err = t.clearGateway(r); err != nil {
			return nil, err
		}
		t.keep()
	}
	switch {
	case info.network == "":
		t.removeSNATs(r)
		return r, nil
	case r.gateway == nil:
		return t.setGateway(r, info)
	case info.fixedIPs != nil:
		return t.moveGateway(r, info)
	}
	return r, nil
}

// maxRoutes is the default of Neutron's max_routes.
const maxRoutes = 30

// checkNexthops refuses routes whose nexthop is not on a subnet that the router is connected to. next are those of its next
// gateway, in place of the present one; none: the gateway stays.
func (t *tx) checkNexthops(r *router, routes []route, next ...*subnet) *failure {
	if len(routes) > maxRoutes {
		return badAs("RoutesExhausted", "Unable to complete operation for %s. The number of routes exceeds the maximum %d.", r.id, maxRoutes)
	}
	var cidrs []netip.Prefix
	used := map[netip.Addr]bool{}
	for _, s := range next {
		cidrs = append(cidrs, s.cidr)
	}
	for _, p := range t.attached(r.id) {
		if p.gateway && len(next) > 0 {
			continue
		}
		for i, s := range t.subnetsOf(p) {
			cidrs = append(cidrs, s.cidr)
			used[p.fixedIPs[i].Address] = true
		}
	}
	for _, route := range routes {
		reason := ""
		nexthop := netip.MustParseAddr(route.Nexthop)
		switch {
		case !slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Contains(nexthop) }):
			reason = "the nexthop is not connected with router"
		case used[nexthop]:
			reason = "the nexthop is used by router"
		default:
			continue
		}
		var texts []string
		for _, r := range routes {
			texts = append(texts, fmt.Sprintf("{'destination': '%s', 'nexthop': '%s'}", r.Destination, r.Nexthop))
		}
		return badAs("InvalidRoutes", "Invalid format for routes: [%s], %s", strings.Join(texts, ", "), reason)
	}
	return nil
}

// setSNAT is a transaction of its own in Neutron. It turns SNAT on unless the request turns it off.
func (t *tx) setSNAT(r *router, info gatewayInfo) *router {
	return t.changeRouter(r, func(r *router) { r.noSNAT = !info.snat })
}

// changeRouter stores a changed copy of a router, with another revision.
func (t *tx) changeRouter(old *router, change func(*router)) *router {
	r := *old
	change(&r)
	t.bump(&r.standard)
	store(t, t.routers, &r)
	return &r
}

// bumpRouter increments the revision of a router that gets an attachment, or loses one.
func (t *tx) bumpRouter(id string) *router {
	return t.changeRouter(t.routers.byID[id], func(*router) {})
}

func (t *tx) checkGatewayNetwork(info gatewayInfo) *failure {
	if info.network == "" {
		return nil
	}
	network, err := seen[*network](t, "networks", info.network)
	if err == nil && !network.external {
		err = badResource("router", fmt.Sprintf("Network %s is not an external network", info.network))
	}
	return err
}

// setGateway creates the gateway's port, which belongs to no project.
func (t *tx) setGateway(r *router, info gatewayInfo) (*router, *failure) {
	if t.request.constraint != nil {
		return nil, ifMatch(t.request, r.revision) // which the request itself has changed
	}
	v := values{"network_id": info.network, "device_id": r.id, "device_owner": gatewayOwner}
	if info.fixedIPs != nil {
		v["fixed_ips"] = info.fixedIPs
	}
	p, err := createPort(t, v)
	if err != nil {
		return nil, err
	}
	attached := *p
	attached.router, attached.gateway = r.id, true
	store(t, t.ports, &attached)
	r = t.changeRouter(r, func(r *router) { r.gateway = &gateway{p.id, p.networkID, p.fixedIPs} })
	return r, t.addSNATs(r)
}

// moveGateway changes the addresses of a gateway.
func (t *tx) moveGateway(r *router, info gatewayInfo) (*router, *failure) {
	p, err := updatePort(t, t.ports.byID[r.gateway.port], values{"fixed_ips": info.fixedIPs})
	if err != nil {
		return nil, err
	}
	t.bump(&p.standard)
	t.storePort(p)
	return t.routers.byID[r.id], nil
}

// storePort stores a changed port. The router whose gateway it is shows its addresses, without
// another revision.
func (t *tx) storePort(p *port) {
	store(t, t.ports, p)
	if r := t.routers.byID[p.router]; r != nil && r.gateway != nil && r.gateway.port == p.id && !slices.Equal(r.gateway.fixedIPs, p.fixedIPs) {
		changed := *r
		changed.gateway = &gateway{p.id, p.networkID, p.fixedIPs}
		store(t, t.routers, &changed)
	}
}

// extendGateways gives the gateways on an external network an address of its new subnet, except
// those that have one of that version.
func (t *tx) extendGateways(s *subnet) *failure {
	for _, old := range t.ports.in(s.networkID) {
		if !old.gateway || slices.ContainsFunc(old.fixedIPs, func(f fixedIP) bool { return f.Address.Is4() == (s.version() == 4) }) {
			continue
		}
		p := *old
		if !p.addFree([]*subnet{s}, t.used(&p)) {
			return noAddress(s.networkID)
		}
		t.bump(&p.standard)
		t.storePort(&p)
		t.bumpRouter(p.router)
	}
	return nil
}

// clearGateway takes the gateway off the router, and then deletes its port.
func (t *tx) clearGateway(r *router) (*router, *failure) {
	id := r.gateway.port
	r = t.changeRouter(r, func(r *router) { r.gateway = nil })
	if t.request.constraint != nil {
		// The constraint is checked again when the port is deleted, against the revision that the
		// request itself has changed. The port stays until the router is deleted.
		t.keep()
		return nil, ifMatch(t.request, r.revision)
	}
	discard(t, t.ports, id)
	return t.bumpRouter(r.id), nil
}

// removeRouter takes the gateway off first.
func removeRouter(t *tx, r *router) *failure {
	if attached := t.interfaces(r.id); len(attached) > 0 {
		var ids []string
		for _, p := range attached {
			ids = append(ids, p.id)
		}
		return conflict("RouterInUse", "Router %s has ports still attached: %s", r.id, strings.Join(ids, ", "))
	}
	if r.gateway != nil {
		if err := ifMatch(t.request, r.revision); err != nil {
			return err
		}
		var err *failure
		if r, err = t.clearGateway(r); err != nil {
			return err
		}
		t.removeSNATs(r)
		if err := t.middle(); err != nil {
			return err
		}
	}
	for _, p := range t.attached(r.id) {
		discard(t, t.ports, p.id)
	}
	discard(t, t.routers, r.id)
	return nil
}

// attached returns the ports that are attached to a router.
func (n *neutron) attached(router string) []*port {
	var all []*port
	for _, p := range n.ports.sorted {
		if p.router == router {
			all = append(all, p)
		}
	}
	return all
}

// interfaces returns the ports that are attached to a router, except those of gateways.
func (n *neutron) interfaces(router string) []*port {
	return slices.DeleteFunc(n.attached(router), func(p *port) bool { return p.gateway })
}
