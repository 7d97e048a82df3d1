// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// The fields that a list requests (see networkFields).
var (
	routerFields     = []string{"id", "name", "description", "external_gateway_info", "availability_zone_hints", "routes", "admin_state_up"}
	floatingIPFields = []string{"id", "floating_ip_address", "fixed_ip_address", "router_id", "port_forwardings"}
	namedFields      = []string{"id", "name"}
)

// Router is the observed state of a router in Neutron.
type Router struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Gateway     ExternalGateway `json:"external_gateway_info"`
	ZoneHints   Tags            `json:"availability_zone_hints"`
	Routes      Routes          `json:"routes"`
	// AdminDown means that somebody has switched the router off.
	AdminDown adminDown `json:"admin_state_up"`
}

// ExternalGateway connects a router to an external network. The zero value means that there is no
// gateway.
type ExternalGateway struct {
	NetworkID string      `json:"network_id"`
	IPs       ExternalIPs `json:"external_fixed_ips"`
}

// ExternalIPs are the addresses of a router in its external network: "198.18.0.7, 2001:db8::7".
type ExternalIPs string

// UnmarshalJSON reads Neutron's external_fixed_ips.
func (e *ExternalIPs) UnmarshalJSON(text []byte) error {
	var ips []struct {
		Address string `json:"ip_address"`
	}
	if err := json.Unmarshal(text, &ips); err != nil {
		return err
	}
	texts := make([]string, len(ips))
	for i, ip := range ips {
		texts[i] = canonical(ip.Address)
	}
	*e = ExternalIPs(set(texts))
	return nil
}

// All returns the addresses.
func (e ExternalIPs) All() []string { return elements(e) }

func (r Router) listed() (string, []string, []string) {
	return r.ID, []string{r.Name, r.Description, r.Gateway.NetworkID}, []string{string(r.Gateway.IPs), string(r.ZoneHints), string(r.Routes)}
}

// isOwnedBy reports whether the router carries the owner's mark.
func (r Router) isOwnedBy(owner Owner) bool { return owner.marks(r.Description) }

// Interface is the connection of a subnet to a router, as a port of the router shows it. After a
// failure in the middle of its creation Neutron shows it although it does not exist.
type Interface struct {
	PortID, RouterID, SubnetID string
	// Address is that of the router in the subnet.
	Address netip.Addr
	// Confirmed means that Neutron has answered that it exists.
	Confirmed bool
}

// interfaceOwners are the device owners of the ports that are interfaces of routers
// (ROUTER_INTERFACE_OWNERS in neutron_lib.constants): see ignoredOwners.
var interfaceOwners = []string{"network:router_interface", "network:router_interface_distributed", "network:ha_router_replicated_interface"}

// interfacesOf returns the interfaces that the ports show, ordered by subnet. A port can have
// addresses in several IPv6 subnets.
func interfacesOf(ports []Port) (interfaces []Interface) {
	for _, p := range ports {
		if !slices.Contains(interfaceOwners, p.DeviceOwner) {
			continue
		}
		for _, ip := range p.FixedIPs {
			interfaces = append(interfaces, Interface{PortID: p.ID, RouterID: p.DeviceID, SubnetID: ip.SubnetID, Address: ip.Address})
		}
	}
	slices.SortFunc(interfaces, compareInterfaces)
	return slices.Compact(interfaces)
}

func compareInterfaces(a, b Interface) int {
	return cmp.Or(cmp.Compare(a.SubnetID, b.SubnetID), cmp.Compare(a.RouterID, b.RouterID), cmp.Compare(a.PortID, b.PortID))
}

// CreateRouter creates a router with a gateway.
func (c *Client) CreateRouter(ctx context.Context, fields map[string]any) (Router, error) {
	return exchange[Router](ctx, c, http.MethodPost, fields, nil, "routers")
}

// UpdateRouter changes fields of the router with that ID. The request has no revision: Neutron
// refuses each revision together with a gateway. See also changeRoutes.
func (c *Client) UpdateRouter(ctx context.Context, id string, fields map[string]any) (Router, error) {
	return exchange[Router](ctx, c, http.MethodPut, fields, nil, "routers", id)
}

// routerDetails are a router with fields that no list asks for.
type routerDetails struct {
	Router
	ProjectID string `json:"project_id"`
	Revision  *int   `json:"revision_number"`
}

// getRouterDetails reads the details of one router.
func (c *Client) getRouterDetails(ctx context.Context, id string) (routerDetails, error) {
	return remembered(ctx, "routers/"+id, func() (routerDetails, error) {
		return exchange[routerDetails](ctx, c, http.MethodGet, nil, nil, "routers", id)
	})
}

// checkOwner fails with Stale unless the router has the owner's mark.
func (r Router) checkOwner(owner Owner) error {
	if r.isOwnedBy(owner) {
		return nil
	}
	return routerLost(r.ID)
}

// routerLost is the error for a router that is not the owner's any more.
func routerLost(id string) error {
	return &Error{Op: "find router " + id, Reason: Stale, Message: "it is gone, or no longer carries our mark"}
}

// changeRoutes replaces the routes that the owner's router has now. It fails with Stale if the router is not the owner's any more, or
// changes meanwhile.
func (c *Client) changeRoutes(ctx context.Context, id string, owner Owner, change func(now Routes) Routes) (Router, error) {
	now, err := c.getRouterDetails(ctx, id)
	if err = cmp.Or(err, now.checkOwner(owner)); err != nil {
		return Router{}, err
	}
	return exchange[Router](ctx, c, http.MethodPut, object{"routes": change(now.Routes)}, now.Revision, "routers", id)
}

// describeRouter replaces the owner's mark in the description of the router. It fails with Stale if the router is not the owner's any
// more, or changes meanwhile.
func (c *Client) describeRouter(ctx context.Context, id string, owner Owner, replace func(description string) object) error {
	now, err := c.getRouterDetails(ctx, id)
	if err = cmp.Or(err, now.checkOwner(owner)); err != nil {
		return err
	}
	_, err = exchange[Router](ctx, c, http.MethodPut, replace(now.Description), now.Revision, "routers", id)
	return err
}

// DeleteRouter deletes the router with its gateway. It fails with InUse if it has interfaces. It
// returns nil if the router does not exist. The request has no revision: Neutron refuses each
// revision of a router with a gateway, and takes the gateway away.
func (c *Client) DeleteRouter(ctx context.Context, id string) error {
	return c.delete(ctx, "delete router", "routers", id, nil)
}

// AttachSubnet adds an interface on the subnet to the router, and returns the ID of its port. The
// same request by the ID of a port could break an interface that exists.
func (c *Client) AttachSubnet(ctx context.Context, router, subnet string) (port string, err error) {
	var answer struct {
		PortID string `json:"port_id"`
	}
	err = c.send(ctx, http.MethodPut, object{"subnet_id": subnet}, &answer, nil, "routers", router, "add_router_interface")
	return answer.PortID, wrapAnswer("attach subnet", err, answer.PortID)
}

// DetachSubnet removes the interface on the subnet from the router, with its port. It returns nil
// if there is none.
func (c *Client) DetachSubnet(ctx context.Context, router, subnet string) error {
	var answer object
	return unlessGone(wrap("detach subnet", c.send(ctx, http.MethodPut, object{"subnet_id": subnet}, &answer, nil, "routers", router, "remove_router_interface")))
}

// FloatingIP is a public address that a router translates.
type FloatingIP struct {
	ID       string     `json:"id"`
	Address  netip.Addr `json:"floating_ip_address"`
	FixedIP  netip.Addr `json:"fixed_ip_address"`
	RouterID string     `json:"router_id"`
	// Forwardings are the ports of the floating IP that lead to ports of servers. If there are any,
	// FixedIP is invalid.
	Forwardings []Forwarding `json:"port_forwardings"`
}

// Forwarding is a port of a floating IP that leads to a port of a server.
type Forwarding struct {
	FixedIP netip.Addr `json:"internal_ip_address"`
}

// FixedIPs returns the addresses that the floating IP leads to.
func (f FloatingIP) FixedIPs() (ips []netip.Addr) {
	if f.FixedIP.IsValid() {
		ips = append(ips, f.FixedIP)
	}
	for _, w := range f.Forwardings {
		ips = append(ips, w.FixedIP)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips)
}

// String returns the floating IP with the addresses that it leads to.
func (f FloatingIP) String() string {
	var fixed []string
	for _, ip := range f.FixedIPs() {
		fixed = append(fixed, ip.String())
	}
	return f.Address.String() + " of " + shorten(fixed)
}

func (f FloatingIP) listed() (string, []string, []string) {
	texts := []string{f.RouterID, f.Address.Zone()}
	for _, ip := range f.FixedIPs() {
		texts = append(texts, ip.Zone())
	}
	return f.ID, texts, nil
}

// FloatingIPs lists the floating IPs that depend on the router.
func (c *Client) FloatingIPs(ctx context.Context, router string) ([]FloatingIP, error) {
	return list[FloatingIP](ctx, c, "floatingips", floatingIPFields, url.Values{"router_id": {router}})
}

// interfacePorts lists the ports that are interfaces of the router.
func (c *Client) interfacePorts(ctx context.Context, router string) ([]Port, error) {
	return list[Port](ctx, c, "ports", portFields, url.Values{"device_id": {router}, "device_owner": interfaceOwners})
}

// subnetsOf lists the subnets with these IDs, and those of the network, as far as the client can see them.
func (c *Client) subnetsOf(ctx context.Context, ids []string, network string) ([]Subnet, error) {
	subnets, err := listByID[Subnet](ctx, c, "subnets", subnetFields, ids)
	if err != nil || network == "" {
		return subnets, err
	}
	more, err := list[Subnet](ctx, c, "subnets", subnetFields, url.Values{"network_id": {network}})
	return append(subnets, more...), err
}

// quota is how many of a resource a project may have, and has.
type quota struct {
	// Limit is negative if there is none.
	Limit    int `json:"limit"`
	Used     int `json:"used"`
	Reserved int `json:"reserved"`
}

// quotas returns the quotas of the client's project by resource. What it cannot read has no limit.
func (c *Client) quotas(ctx context.Context) map[string]quota {
	quotas, err := remembered(ctx, "quotas", func() (map[string]quota, error) {
		project, err := c.projectFilter(ctx)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Quotas map[string]quota `json:"quota"`
		}
		err = c.send(ctx, http.MethodGet, nil, &answer, nil, "quotas", project.Get("project_id"), "details.json")
		return answer.Quotas, err
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to read the quotas of the project", "err", err)
	}
	return quotas
}

// routerZones returns the availability zones that routers can be in; none if they cannot be read.
func (c *Client) routerZones(ctx context.Context) (names []string) {
	type zone struct{ Name, Resource string }
	zones, err := remembered(ctx, "availability_zones", func() ([]zone, error) {
		var answer struct {
			Zones []zone `json:"availability_zones"`
		}
		err := c.send(ctx, http.MethodGet, nil, &answer, nil, "availability_zones")
		return answer.Zones, err
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to list the availability zones", "err", err)
	}
	for _, z := range zones {
		if z.Resource == "router" {
			names = append(names, z.Name)
		}
	}
	return names
}

// named is an object with a name.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (n named) listed() (string, []string, []string) { return n.ID, []string{n.Name}, nil }

// externalNetworks lists the external networks that the client can see.
func (c *Client) externalNetworks(ctx context.Context) ([]named, error) {
	return list[named](ctx, c, "networks", namedFields, url.Values{"router:external": {"True"}})
}

// routers lists the routers of the client's project that match the filter.
func (c *Client) routers(ctx context.Context, filter url.Values) ([]Router, error) {
	project, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(project, filter)
	return list[Router](ctx, c, "routers", routerFields, project)
}

// interfacesOn lists the ports that match the filter and are interfaces on one of the networks.
func (c *Client) interfacesOn(ctx context.Context, networks []*Network, filter url.Values) ([]Port, error) {
	filter = maps.Clone(filter)
	filter["device_owner"] = interfaceOwners
	ids := sets.New[string]()
	for _, n := range networks {
		ids.Insert(n.ID)
	}
	return listOnly(ctx, c, "ports", portFields, filter, func(p *Port) bool { return ids.Has(p.NetworkID) })
}

// readRouting adds to the networks of one owner the interfaces that are on them. It returns the owner's routers, and the
// others that have an interface on one of the networks.
func (c *Client) readRouting(ctx context.Context, mark string, networks []*Network) ([]Router, error) {
	routers, err := c.routers(ctx, url.Values{"description": {mark}})
	if err != nil {
		return nil, asUnserved(err)
	}
	routers = slices.DeleteFunc(routers, func(r Router) bool { return r.Description != mark })
	if len(networks) == 0 {
		return routers, nil
	}
	filter := url.Values{"device_owner": interfaceOwners}
	for _, n := range networks {
		filter.Add("network_id", n.ID)
	}
	ports, err := list[Port](ctx, c, "ports", portFields, filter)
	if err != nil {
		return nil, err
	}
	for ids := range slices.Chunk(routersOn(ports, routers), maxFilterIDs) {
		others, err := c.routers(ctx, url.Values{"id": ids})
		if err != nil {
			return nil, err
		}
		routers = append(routers, others...)
	}
	setInterfaces(networks, ports)
	return routers, nil
}

// routersOn returns the IDs of the routers that the ports belong to, without the known ones.
func routersOn(ports []Port, known []Router) (ids []string) {
	for _, p := range ports {
		isKnown := slices.ContainsFunc(known, func(r Router) bool { return r.ID == p.DeviceID })
		if !isKnown && validID(p.DeviceID) && !slices.Contains(ids, p.DeviceID) {
			ids = append(ids, p.DeviceID)
		}
	}
	return ids
}

// setInterfaces sets the interfaces on the networks.
func setInterfaces(networks []*Network, ports []Port) {
	onNetwork := map[string][]Port{}
	for _, p := range ports {
		onNetwork[p.NetworkID] = append(onNetwork[p.NetworkID], p)
	}
	for _, n := range networks {
		n.Interfaces = interfacesOf(onNetwork[n.ID])
	}
}

func compareRouters(a, b Router) int { return cmp.Compare(a.ID, b.ID) }
