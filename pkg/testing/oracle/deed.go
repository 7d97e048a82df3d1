// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Deed is a request of a controller that changes something in Neutron.
type Deed struct {
	Method, Path string
	// Kind is one of those below; "" if the request can be undone, or has nothing to change any more.
	Kind Kind
	// UID is that of the owner.
	UID string
	// CIDR and Gateway are those of the subnet, and PoolID is the ID of its subnet pool. Router and External are those of the router.
	CIDR, Gateway, PoolID string
	Router, External      string

	network     string   // that a user has created, and that the deed is about
	address     string   // of the interface that is removed
	zones       string   // of the router
	project     string   // that the network is shared with
	twins       []string // the CIDRs of all subnets of the network that are from that pool, and as large
	repeats     int      // how many of these Neutron may have made beside those that were requested
	addressMode string   // of an IPv6 subnet
	raMode      string
	isOwn       bool // the router
	isDuplicate bool
	isHalf      bool
	routes      []lostRoute
	isRepeated  bool // the owner has another subnet of that CIDR on the network: Neutron has made it twice, and that one is attached if this one is
	isHolder    bool // an imported network has the mark of the owner, and of nobody else
	isNameless  bool // somebody has renamed what has the mark, so it does not say what the owner is called
}

// lostRoute is a route that a router loses.
type lostRoute struct {
	meaning.Route
	// detachment is the Deed that the route is in the way of; nil if it leads to another network.
	detachment *Deed
}

// Kind is a kind of Deeds that cannot be undone.
type Kind string

// The kinds. Routes that are removed can be added again; but no version of the Network may ever have wanted that.
const (
	Creates       Kind = "creates a network"
	Deletes       Kind = "deletes a network"
	Unmarks       Kind = "removes a mark"
	Imports       Kind = "marks an imported network"
	Withdraws     Kind = "removes the mark of an imported network"
	DeletesSubnet Kind = "deletes a subnet"
	Allocates     Kind = "takes a CIDR from a subnet pool"
	CreatesRouter Kind = "creates a router"
	DeletesRouter Kind = "deletes a router"
	Attaches      Kind = "attaches a subnet"
	Detaches      Kind = "detaches a subnet"
	Shares        Kind = "shares a network"
	Unshares      Kind = "ends the sharing of a network"
	RemovesRoutes Kind = "removes routes"
)

// body is that of a request to Neutron, as far as it matters.
type body struct {
	SubnetID string `json:"subnet_id"`
	PortID   string `json:"port_id"`
	Tags     []string
	Network  struct{ Description *string }
	Subnet   struct {
		NetworkID   string `json:"network_id"`
		Description *string
		PoolID      string `json:"subnetpool_id"`
		Length      int    `json:"prefixlen"`
		IPVersion   int    `json:"ip_version"`
	}
	Router struct {
		Description *string
		Gateway     struct {
			NetworkID string `json:"network_id"`
		} `json:"external_gateway_info"`
		ZoneHints []string `json:"availability_zone_hints"`
		Routes    *[]meaning.Route
	}
	Share Share `json:"rbac_policy"`
}

// DeedOf returns what a request to Neutron does, and what is wrong about it whatever the specs say; "" if nothing is. now is
// what Neutron has before the request. The path follows /v2.0/.
func (r *Rules) DeedOf(now *Snapshot, method, path string, content []byte) (d *Deed, wrong string) {
	d, wrong = r.deedOf(now, method, path, content)
	d.isNameless = r.isNameless(now, d.UID)
	return d, wrong
}

// isNameless reports whether the name of the network with the mark of that UID, or else that of its router, does not have the form
// <namespace>/<name>.
func (r *Rules) isNameless(now *Snapshot, uid string) bool {
	var ofNetworks, ofRouters []string
	for _, n := range now.Networks {
		if MarkOf(r.Cluster, n.Description) == uid {
			ofNetworks = append(ofNetworks, n.Name)
		}
	}
	for _, router := range now.Routers {
		if MarkOf(r.Cluster, router.Description) == uid {
			ofRouters = append(ofRouters, router.Name)
		}
	}
	if len(ofNetworks) > 0 {
		ofRouters = nil
	}
	return !slices.ContainsFunc(slices.Concat(ofNetworks, ofRouters), func(name string) bool { return strings.Contains(name, "/") })
}

func (r *Rules) deedOf(now *Snapshot, method, path string, content []byte) (d *Deed, wrong string) {
	d = &Deed{Method: method, Path: path}
	collection, rest, _ := strings.Cut(path, "/")
	id, action, _ := strings.Cut(rest, "/")
	var b body
	_ = json.Unmarshal(content, &b) // a deletion has none
	isInterface := strings.HasSuffix(action, "_router_interface")
	if r.IsStrange(id) && !isInterface && collection != "rbac-policies" { // such a policy may be declared later
		return d, "it is a stranger's"
	}
	switch method + " " + collection {
	case "POST networks":
		d.Kind, d.UID = Creates, MarkOf(r.Cluster, ptr.Deref(b.Network.Description, ""))
	case "PUT networks", "DELETE networks":
		return d, r.completeNetwork(d, now, id, action, b)
	case "POST rbac-policies":
		return d, r.onShare(d, now, Shares, b.Share)
	case "DELETE rbac-policies":
		return d, r.onShare(d, now, Unshares, now.Shares[id])
	case "POST subnets":
		wrong := r.onNetwork(d, now, b.Subnet.NetworkID)
		if b.Subnet.PoolID != "" && d.UID != "" {
			d.Kind, d.PoolID, d.CIDR = Allocates, b.Subnet.PoolID, meaning.AnyCIDR(b.Subnet.IPVersion == 6, b.Subnet.Length)
			r.addTwins(d, now, b.Subnet.NetworkID)
			if r.Repeats != nil {
				d.repeats = r.Repeats(b.Subnet.NetworkID)
			}
		}
		return d, wrong
	case "PUT subnets":
		return d, r.completeSubnet(d, now, id, b.Subnet.Description)
	case "DELETE subnets":
		d.Kind = DeletesSubnet
		return d, r.about(d, now, id)
	case "POST routers":
		d.Kind, d.UID, d.External = CreatesRouter, MarkOf(r.Cluster, ptr.Deref(b.Router.Description, "")), b.Router.Gateway.NetworkID
		d.zones = meaning.Zones(b.Router.ZoneHints)
	case "DELETE routers":
		router := now.Routers[id]
		d.Kind, d.Router, d.UID, d.External, d.isOwn = DeletesRouter, id, MarkOf(r.Cluster, router.Description), router.Gateway.NetworkID, true
		d.zones = meaning.Zones(router.ZoneHints)
		d.isDuplicate = r.countRouters(now, d.UID) > 1
		return d, d.mustHaveMark(router.ID != "")
	case "PUT routers":
		if isInterface {
			return d, r.completeInterface(d, now, id, action, b)
		}
		router := now.Routers[id]
		d.Router, d.UID = id, MarkOf(r.Cluster, router.Description)
		r.unmarks(d, now, router.Description, b.Router.Description)
		if b.Router.Routes != nil {
			r.removesRoutes(d, now, router, *b.Router.Routes)
		}
		return d, d.mustHaveMark(router.ID != "")
	}
	return d, ""
}

// completeNetwork completes a Deed about a network that exists.
func (r *Rules) completeNetwork(d *Deed, now *Snapshot, id, action string, b body) string {
	n, description := now.Networks[id], b.Network.Description
	tag, isTag := strings.CutPrefix(action, "tags/")
	isDeletion := d.Method == http.MethodDelete
	if action == "tags" {
		for _, tag := range n.Tags {
			if uid := ImporterIn(tag); uid != "" && !slices.Contains(b.Tags, tag) {
				return "it removes the mark of " + uid
			}
		}
	}
	switch uid := ImporterIn(tag); {
	case isTag && uid != "" && n.ID != "":
		d.UID, d.network, d.Kind = uid, id, Imports
		if isDeletion {
			d.Kind, d.isHolder = Withdraws, n.isHeldOnlyBy(uid)
		}
		return ""
	case isDeletion && action == "":
		d.Kind = Deletes
	case description != nil && MarkOf(r.Cluster, *description) == "":
		d.Kind = Unmarks
	}
	if r.IsLegacy(id) {
		return r.onLegacy(d, &n)
	}
	d.UID = MarkOf(r.Cluster, n.Description)
	d.isDuplicate = r.count(now, d.UID) > 1
	return d.mustHaveMark(n.ID != "")
}

// completeSubnet completes a Deed that changes a subnet. On a network that a user has created, the subnet has a mark of its own.
func (r *Rules) completeSubnet(d *Deed, now *Snapshot, id string, description *string) string {
	s := now.Subnets[id]
	wrong := r.onNetwork(d, now, s.NetworkID)
	if r.unmarks(d, now, s.Description, description); d.Kind == Unmarks && r.IsLegacy(s.NetworkID) {
		d.network = s.NetworkID
	}
	return wrong
}

// unmarks completes a Deed that changes a subnet or a router, if the next description lacks the mark that the present one has.
func (r *Rules) unmarks(d *Deed, now *Snapshot, description string, next *string) {
	uid := MarkOf(r.Cluster, description)
	if uid == "" || next == nil || MarkOf(r.Cluster, *next) == uid {
		return
	}
	d.Kind, d.UID = Unmarks, uid
	for _, n := range now.Networks {
		d.isHolder = d.isHolder || n.isHeldOnlyBy(uid)
	}
}

// mustHaveMark returns what is wrong if the object exists and has no mark. If it is gone, nothing can be wrong.
func (d *Deed) mustHaveMark(exists bool) string {
	switch {
	case !exists:
		d.Kind = ""
	case d.UID == "":
		return "it has no mark"
	}
	return ""
}

// onNetwork completes a Deed about a subnet of that network.
func (r *Rules) onNetwork(d *Deed, now *Snapshot, id string) string {
	n := now.Networks[id]
	if r.IsLegacy(id) {
		return r.onLegacy(d, &n)
	}
	d.UID = MarkOf(r.Cluster, n.Description)
	d.isDuplicate = r.count(now, d.UID) > 1
	if n.ID != "" && (r.IsStrange(id) || d.UID == "") {
		return "the network is not the controller's"
	}
	return ""
}

// onShare completes a Deed about an RBAC policy.
func (r *Rules) onShare(d *Deed, now *Snapshot, kind Kind, share Share) string {
	if share.NetworkID == "" || now.Networks[share.NetworkID].ID == "" {
		return "" // it is gone already
	}
	d.Kind, d.project = kind, share.Project
	if !share.isShared() {
		return "it is no policy for one project"
	}
	return r.onNetwork(d, now, share.NetworkID)
}

// onLegacy completes a Deed about a network that a user has created. It is for the one Network whose tag it has.
func (r *Rules) onLegacy(d *Deed, n *Network) string {
	if n.ID == "" {
		d.Kind = ""
		return ""
	}
	importers := n.Importers()
	if d.Kind == Unmarks {
		d.Kind = ""
		return "it changes the description of an imported network"
	}
	if d.Kind == "" {
		return "" // it can be undone: somebody may have removed the mark a moment ago
	}
	if len(importers) == 0 {
		return "no Network has marked the network"
	}
	d.network, d.UID = n.ID, importers[0]
	if len(importers) > 1 && d.Kind == Deletes {
		return "other Networks have marked the network too"
	}
	return ""
}

// completeInterface completes a Deed about the interface of a router.
func (r *Rules) completeInterface(d *Deed, now *Snapshot, router, action string, b body) string {
	d.Kind, d.Router = Attaches, router
	if action == "remove_router_interface" {
		d.Kind = Detaches
	}
	found := now.Routers[router]
	if found.ID == "" {
		d.Kind = "" // Neutron refuses it: the router is gone, which the process need not know yet
		return ""
	}
	d.External, d.isOwn = found.Gateway.NetworkID, MarkOf(r.Cluster, found.Description) != ""
	d.zones = meaning.Zones(found.ZoneHints)
	subnet := cmp.Or(b.SubnetID, now.subnetOf(b.PortID))
	for _, i := range now.Interfaces[subnet] {
		d.isHalf = d.isHalf || i.Half
	}
	return r.about(d, now, subnet)
}

// removesRoutes completes a Deed that replaces the routes of a router, if some go.
func (r *Rules) removesRoutes(d *Deed, now *Snapshot, router Router, next []meaning.Route) {
	for _, route := range router.Routes {
		if slices.Contains(next, route) {
			continue
		}
		d.Kind = RemovesRoutes
		lost := lostRoute{Route: route}
		hop, _ := netip.ParseAddr(route.NextHop)
		for id, interfaces := range now.Interfaces {
			cidr, err := netip.ParsePrefix(now.Subnets[id].CIDR)
			isOn := func(i Interface) bool { return i.RouterID == router.ID }
			if err == nil && cidr.Contains(hop) && slices.ContainsFunc(interfaces, isOn) {
				lost.detachment = &Deed{}
				r.completeInterface(lost.detachment, now, router.ID, "remove_router_interface", body{SubnetID: id})
			}
		}
		d.routes = append(d.routes, lost)
	}
}

// subnetOf returns the ID of the subnet that the interface joins, the first one if there are several.
func (s *Snapshot) subnetOf(port string) string {
	for _, interfaces := range s.Interfaces {
		for _, i := range interfaces {
			if i.PortID == port {
				return i.FixedIPs[0].SubnetID
			}
		}
	}
	return ""
}

// about completes a Deed about a subnet.
func (r *Rules) about(d *Deed, now *Snapshot, subnet string) string {
	s := now.Subnets[subnet]
	d.CIDR, d.Gateway, d.addressMode, d.raMode = s.CIDR, cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone), s.IPv6AddressMode, s.IPv6RAMode
	d.PoolID = s.SubnetPoolID
	r.addTwins(d, now, s.NetworkID)
	for _, other := range now.Subnets {
		isSame := other.NetworkID == s.NetworkID && other.CIDR == s.CIDR && other.Description == s.Description && other.ID != s.ID
		d.isRepeated = d.isRepeated || isSame && (len(now.Interfaces[s.ID]) == 0 || len(now.Interfaces[other.ID]) > 0)
	}
	switch {
	case s.ID == "":
		d.Kind = "" // it is gone already
		return ""
	case r.IsStrange(subnet):
		return "the subnet is a stranger's"
	case d.Kind == DeletesSubnet && r.IsLegacy(s.NetworkID) && MarkOf(r.Cluster, s.Description) == "":
		return "a user has created the subnet"
	case d.Kind == Detaches:
		d.address = addressOf(now, d.Router, subnet)
	}
	return r.onNetwork(d, now, s.NetworkID)
}

// addTwins completes a Deed about a subnet that is, or will be, from a subnet pool.
func (r *Rules) addTwins(d *Deed, now *Snapshot, network string) {
	length := d.CIDR[strings.LastIndexByte(d.CIDR, '/')+1:]
	for _, s := range now.Subnets {
		if d.PoolID != "" && s.NetworkID == network && s.SubnetPoolID == d.PoolID && strings.HasSuffix(s.CIDR, "/"+length) && !r.IsStrange(s.ID) {
			d.twins = append(d.twins, s.CIDR)
		}
	}
}

// addressOf returns the address of the router in the subnet.
func addressOf(now *Snapshot, router, subnet string) string {
	for _, i := range now.Interfaces[subnet] {
		for _, ip := range i.FixedIPs {
			if i.RouterID == router && ip.SubnetID == subnet {
				return ip.Address
			}
		}
	}
	return ""
}

// IsSecond reports whether a Deed that creates a network has created a second one of the owner. now is what Neutron has after it.
func (r *Rules) IsSecond(d *Deed, now *Snapshot) bool { return r.count(now, d.UID) > 1 }

// IsSecondRouter reports whether the owner of the Deed has more than one router in the same external network and the same
// availability zones.
func (r *Rules) IsSecondRouter(d *Deed, now *Snapshot) bool {
	count := 0
	for _, router := range now.Routers {
		if MarkOf(r.Cluster, router.Description) == d.UID && router.Gateway.NetworkID == d.External && meaning.Zones(router.ZoneHints) == d.zones {
			count++
		}
	}
	return count > 1
}

// isRemoval reports whether the Deed takes something away, and nothing else.
func (d *Deed) isRemoval() bool {
	return slices.Contains([]Kind{Deletes, DeletesSubnet, DeletesRouter, Detaches}, d.Kind)
}
