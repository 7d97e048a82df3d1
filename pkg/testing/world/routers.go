// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// The external networks, and the routers of users. The specs of Scenarios have these names, also in
// place of the IDs, which each World has others of.
const (
	public  = "public"
	public2 = "public2"
	shared  = "shared" // its gateway is on public, and a stranger's network is connected to it
	other   = "other"  // without a gateway
	third   = "third"  // that no spec names
)

// Distribute makes all routers distributed that are created from now on.
func (w *World) Distribute() {
	w.Neutron.SetDistributed(true)
	w.interfaceOwner = "network:router_interface_distributed"
}

// CreateRouting creates a second external network, public2, and the routers of users: shared,
// other and third, with a network that is connected to shared. None of them may change.
func (w *World) CreateRouting() {
	w.t.Helper()
	admin := w.UserClient("test-admin")
	external := w.createObject(admin, "network", map[string]any{"name": public2, "router:external": true})
	w.createObject(admin, "subnet", map[string]any{"network_id": external, "cidr": "198.19.0.0/24", "ip_version": 4, "enable_dhcp": false})
	w.name(public, w.externalNetwork(public))
	w.name(public2, external)
	w.name(shared, w.CreateRouter(shared, "", w.ids[public]))
	w.name(other, w.CreateRouter(other, "", ""))
	w.name(third, w.CreateRouter(third, "", ""))
	stranger := w.CreateInNeutron("stranger", "", "10.200.0.0/24")
	w.Attach(w.ids[shared], w.SubnetOf(stranger))
	w.Protect(stranger)
	w.ProtectRouters(w.ids[shared], w.ids[other], w.ids[third])
}

// externalNetwork returns the ID of the external network of that name.
func (w *World) externalNetwork(name string) string {
	w.t.Helper()
	var list struct{ Networks []struct{ ID string } }
	w.send(w.Client, http.MethodGet, "networks?router:external=True&name="+name, nil, &list)
	if len(list.Networks) != 1 {
		w.t.Fatalf("external networks named %s: %v", name, list)
	}
	return list.Networks[0].ID
}

// IDOf returns the ID of an external network or a user's router of CreateRouting.
func (w *World) IDOf(name string) string { return w.ids[name] }

// bind returns a copy of the spec with the IDs of this World in place of names.
func (w *World) bind(spec *samplecrdv1.NetworkSpec) *samplecrdv1.NetworkSpec {
	if spec == nil || spec.Router == nil && spec.Import == nil {
		return spec
	}
	spec = spec.DeepCopy()
	if spec.Import != nil && w.ids[spec.Import.NetworkID] != "" {
		spec.Import.NetworkID = w.ids[spec.Import.NetworkID]
	}
	if spec.Router == nil {
		return spec
	}
	for _, ref := range []*samplecrdv1.NeutronReference{spec.Router.ExternalNetwork, spec.Router.Existing} {
		if ref != nil && w.ids[ref.ID] != "" {
			ref.ID = w.ids[ref.ID]
		}
	}
	return spec
}

// send sends a user's request.
func (w *World) send(client *gophercloud.ServiceClient, method, path string, body, answer any) {
	w.t.Helper()
	if err := w.trySend(client, method, path, body, answer); err != nil {
		w.t.Fatal(err)
	}
}

// trySend is send for a request that may be refused.
func (w *World) trySend(client *gophercloud.ServiceClient, method, path string, body, answer any) error {
	w.t.Helper()
	defer w.TakeJournal()
	opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}, JSONResponse: answer}
	if body != nil {
		opts.JSONBody = body
	}
	_, err := client.Request(context.Background(), method, client.ServiceURL(path), opts)
	return err
}

// createObject creates an object, and returns its ID.
func (w *World) createObject(client *gophercloud.ServiceClient, kind string, attributes map[string]any) string {
	w.t.Helper()
	answer := map[string]struct{ ID string }{}
	w.send(client, http.MethodPost, kind+"s", map[string]any{kind: attributes}, &answer)
	return answer[kind].ID
}

// CreateRouter creates a router, and returns its ID. external is the ID of the network of its
// gateway; "": it has none.
func (w *World) CreateRouter(name, description, external string) string {
	w.t.Helper()
	attributes := map[string]any{"name": name, "description": description}
	if external != "" {
		attributes["external_gateway_info"] = map[string]any{"network_id": external}
	}
	return w.createObject(w.Client, "router", attributes)
}

// CreateOwnedRouter creates a router that carries the Network's mark, and returns its ID.
func (w *World) CreateOwnedRouter(n *samplecrdv1.Network, external string) string {
	w.t.Helper()
	return w.CreateRouter("default/net-a", neutron.Owner{Cluster: Cluster, UID: n.UID}.Mark(), w.externalNetwork(external))
}

// Attach attaches a subnet to a router.
func (w *World) Attach(router, subnet string) {
	w.t.Helper()
	w.send(w.Client, http.MethodPut, "routers/"+router+"/add_router_interface", map[string]any{"subnet_id": subnet}, nil)
}

// AttachHalf creates a port as a worker of Neutron leaves it that dies while it attaches the subnet.
func (w *World) AttachHalf(router, subnet string) {
	w.t.Helper()
	s := w.getSubnet(subnet)
	w.createObject(w.Client, "port", map[string]any{
		"network_id": s.NetworkID, "device_owner": w.interfaceOwner, "device_id": router,
		"fixed_ips": []map[string]any{{"subnet_id": subnet, "ip_address": s.GatewayIP}},
	})
}

// Detach detaches a subnet from a router.
func (w *World) Detach(router, subnet string) {
	w.t.Helper()
	w.send(w.Client, http.MethodPut, "routers/"+router+"/remove_router_interface", map[string]any{"subnet_id": subnet}, nil)
}

// AttachElsewhere attaches the subnet to a router of a user with the subnet's last address, which is
// not that of its gateway. DeletePorts detaches it.
func (w *World) AttachElsewhere(router, subnet string) {
	w.t.Helper()
	s := w.getSubnet(subnet)
	port := w.createObject(w.Client, "port", map[string]any{"network_id": s.NetworkID, "fixed_ips": []map[string]any{{"subnet_id": subnet}}})
	w.send(w.Client, http.MethodPut, "routers/"+router+"/add_router_interface", map[string]any{"port_id": port}, nil)
	w.detached = append(w.detached, func() {
		w.send(w.Client, http.MethodPut, "routers/"+router+"/remove_router_interface", map[string]any{"port_id": port}, nil)
	})
}

// CreateFloatingIP gives a port an address in public, if a router connects the two. DeletePorts
// deletes it.
func (w *World) CreateFloatingIP(port string) {
	w.t.Helper()
	answer := map[string]struct{ ID string }{}
	attributes := map[string]any{"floating_network_id": w.externalNetwork(public), "port_id": port}
	if err := w.trySend(w.Client, http.MethodPost, "floatingips", map[string]any{"floatingip": attributes}, &answer); err == nil {
		w.detached = append(w.detached, func() { w.DeleteInNeutron("floatingips", answer["floatingip"].ID) })
	}
}

// UpdateRouter changes attributes of a router.
func (w *World) UpdateRouter(id string, change map[string]any) {
	w.t.Helper()
	w.updateInNeutron("routers", "router", id, change)
}

// ProtectRouters makes Check fail if one of these routers changes from now on, or its interfaces on
// protected networks.
func (w *World) ProtectRouters(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.protectedRouters[id] = w.describeRouter(id)
	}
}

func (w *World) describeRouter(id string) string {
	for _, r := range w.Neutron.Routers() {
		if r.ID == id {
			return fmt.Sprintf("%+v", r)
		}
	}
	return "the router is gone"
}

// ownRouters returns the routers that the controller has created.
func (w *World) ownRouters() (own []embedded.Router) {
	for _, r := range w.Neutron.Routers() {
		if _, isProtected := w.protectedRouters[r.ID]; !isProtected {
			own = append(own, r)
		}
	}
	return own
}

// strangers returns a line for each interface on a protected network.
func (w *World) strangers() (lines []string) {
	for _, i := range w.Neutron.Interfaces() {
		if _, isProtected := w.protected[i.NetworkID]; isProtected {
			lines = append(lines, fmt.Sprintf("%+v", i))
		}
	}
	return lines
}

// routersOf returns where a subnet is attached: " via own", " via shared", " via half own". own is
// the one with the mark of this cluster.
func (w *World) routersOf(subnet string) (text string) {
	var names []string
	for _, i := range w.Neutron.Interfaces() {
		if !slices.Contains(i.SubnetIDs, subnet) {
			continue
		}
		name := w.nameOfRouter(i.RouterID)
		if i.Half {
			name = "half " + name
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " via " + strings.Join(names, ", ")
}

func (w *World) nameOfRouter(id string) string {
	for _, r := range w.Neutron.Routers() {
		if r.ID != id {
			continue
		}
		if _, isProtected := w.protectedRouters[id]; isProtected {
			return r.Name
		}
		if _, ok := ownerOf(r.Description); ok {
			return "own"
		}
		return "unmarked"
	}
	return "nothing"
}

// nameOfNetwork returns the name of an external network.
func (w *World) nameOfNetwork(id string) string {
	for _, n := range w.Neutron.Networks() {
		if n.ID == id {
			return n.Name
		}
	}
	return "nothing"
}

// routerLine returns the line of Owned for a router that the controller has created.
func (w *World) routerLine(r embedded.Router) string {
	line := "unmarked router:"
	if owner, ok := ownerOf(r.Description); ok {
		line = fmt.Sprintf("router %s of %s:", r.ID, owner.UID)
	}
	return line + " " + w.nameOfNetwork(r.ExternalNetwork) + meaning.Zones(r.ZoneHints) + describeRoutes(r.Routes)
}

// describeRoutes describes the routes of a router; "" for none.
func describeRoutes(routes []string) (text string) {
	for _, route := range routes {
		text += " to " + route
	}
	return text
}

// SetRoutes gives a router these routes, as another client.
func (w *World) SetRoutes(router string, routes ...string) {
	w.t.Helper()
	w.UpdateRouter(router, map[string]any{"routes": routesOf(routes...)})
}

// routesOf returns routes as Neutron has them, each from a text such as "10.99.0.0/16 via 10.0.0.9".
func routesOf(texts ...string) []meaning.Route {
	routes := []meaning.Route{}
	for _, text := range texts {
		destination, nextHop, _ := strings.Cut(text, " via ")
		routes = append(routes, meaning.Route{Destination: destination, NextHop: nextHop})
	}
	return routes
}
