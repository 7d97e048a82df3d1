// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// An obstacle is what another client does that can be in the way of an edit. It returns an error if Neutron
// refuses it, as it can while the controller works. ClearObstacles undoes it.
type obstacle func(*World) error

// ClearObstacles undoes all obstacles, the last one first.
func (w *World) ClearObstacles() {
	w.t.Helper()
	for _, undo := range slices.Backward(w.undo) {
		undo()
	}
	w.undo = nil
}

// undoLater makes ClearObstacles send this request. What it is about may be gone by then.
func (w *World) undoLater(client *gophercloud.ServiceClient, method, path string, body any) {
	w.undo = append(w.undo, func() { _ = w.trySend(client, method, path, body, nil) })
}

// make creates an object that ClearObstacles deletes, and returns its ID.
func (w *World) make(client *gophercloud.ServiceClient, kind string, attributes map[string]any) (id string, err error) {
	answer := map[string]struct{ ID string }{}
	if err := w.trySend(client, http.MethodPost, kind+"s", map[string]any{kind: attributes}, &answer); err != nil {
		return "", err
	}
	w.undoLater(client, http.MethodDelete, kind+"s/"+answer[kind].ID, nil)
	return answer[kind].ID, nil
}

// makeSubnet creates an IPv4 subnet.
func (w *World) makeSubnet(client *gophercloud.ServiceClient, network, cidr string) (id string, err error) {
	return w.make(client, "subnet", map[string]any{"network_id": network, "cidr": cidr, "ip_version": 4})
}

// strangersSubnet adds a subnet to the Network's network.
func strangersSubnet(cidr string) obstacle {
	return func(w *World) error {
		_, err := w.makeSubnet(w.Client, w.Get().Status.NetworkID, cidr)
		return err
	}
}

// strangersAt connects another team's network with that CIDR to a user's router of that name; "" for the
// router in the Network's status.
func strangersAt(router, cidr string) obstacle {
	return func(w *World) error {
		id := w.ids[router]
		if router == "" {
			status := w.Get().Status.Router
			if status == nil {
				return errors.New("the Network has no router")
			}
			id = status.ID
		}
		network, err := w.make(w.Client, "network", map[string]any{"name": "team"})
		if err != nil {
			return err
		}
		subnet, err := w.makeSubnet(w.Client, network, cidr)
		if err != nil {
			return err
		}
		body := map[string]any{"subnet_id": subnet}
		if err := w.trySend(w.Client, http.MethodPut, "routers/"+id+"/add_router_interface", body, nil); err != nil {
			return err
		}
		w.undoLater(w.Client, http.MethodPut, "routers/"+id+"/remove_router_interface", body)
		return nil
	}
}

// server creates the port web-0 on the Network's network, as a virtual machine has it. Without an address
// it gets one of each IP version.
func server(address string) obstacle {
	return func(w *World) error {
		_, err := w.makeServer(address)
		return err
	}
}

func (w *World) makeServer(address string) (id string, err error) {
	port := map[string]any{"network_id": w.Get().Status.NetworkID, "name": "web-0", "device_owner": "compute:nova"}
	if address != "" {
		port["fixed_ips"] = []map[string]string{{"ip_address": address}}
	}
	return w.make(w.Client, "port", port)
}

// serverOf creates the port web-0 of another project on the Network's network, if that is shared with the project.
func serverOf(project string) obstacle {
	return func(w *World) error {
		network := w.Get().Status.NetworkID
		if w.policyOf(network, project) == "" {
			return errors.New("the project does not see the network")
		}
		_, err := w.make(w.adminClient(), "port", map[string]any{"network_id": network, "project_id": project, "name": "web-0", "device_owner": "compute:nova"})
		return err
	}
}

// block takes a block from a subnet pool, for another team's network.
func block(pool string, length int) obstacle {
	return func(w *World) error {
		network, err := w.make(w.Client, "network", map[string]any{"name": "team"})
		if err == nil {
			_, err = w.make(w.Client, "subnet", map[string]any{"network_id": network, "ip_version": 4, "subnetpool_id": w.ids[pool], "prefixlen": length})
		}
		return err
	}
}

// poolChange changes a subnet pool, and later back.
func poolChange(name string, change, back map[string]any) obstacle {
	return func(w *World) error {
		path := "subnetpools/" + w.ids[name]
		w.undoLater(w.Client, http.MethodPut, path, map[string]any{"subnetpool": back})
		return w.trySend(w.Client, http.MethodPut, path, map[string]any{"subnetpool": change}, nil)
	}
}

// extendPool adds addresses to a subnet pool. Neutron takes none away.
func extendPool(name string, prefixes ...string) func(*World) {
	return func(w *World) {
		w.updateInNeutron("subnetpools", "subnetpool", w.ids[name], map[string]any{"prefixes": prefixes})
	}
}

// withoutPool deletes a subnet pool. Later there is another one of that name.
func withoutPool(name string) obstacle {
	return func(w *World) error {
		err := w.trySend(w.Client, http.MethodDelete, "subnetpools/"+w.ids[name], nil, nil)
		if err == nil {
			w.undo = append(w.undo, func() { later("subnetpool", name)(w) })
		}
		return err
	}
}

// floating gives the server an address in the external network public.
func floating(w *World) error {
	port, err := w.makeServer("")
	if err == nil {
		_, err = w.make(w.Client, "floatingip", map[string]any{"floating_network_id": w.externalNetwork(public), "port_id": port})
	}
	return err
}

// strangersRoute goes through the first subnet that most specs have.
const strangersRoute = "10.96.0.0/16 via 10.0.0.77"

// replaceRoutes gives the routers that the controller has created one route only, which no spec has. ClearObstacles removes it,
// unless the Network declares routes: then the controller does.
func replaceRoutes(w *World) error {
	for _, r := range w.ownRouters() {
		_ = w.trySend(w.Client, http.MethodPut, "routers/"+r.ID, map[string]any{"router": map[string]any{"routes": routesOf(strangersRoute)}}, nil)
	}
	w.undo = append(w.undo, func() {
		if n := w.Find(); n != nil && n.DeletionTimestamp == nil && hasRoutes(&n.Spec) {
			return
		}
		for _, r := range w.ownRouters() {
			if at := slices.Index(r.Routes, strangersRoute); at >= 0 {
				w.SetRoutes(r.ID, slices.Delete(slices.Clone(r.Routes), at, at+1)...)
			}
		}
	})
	return nil
}

// route gives the user's router of that name, or the Network's own router for "", a route via an address of the Network.
func route(router, nexthop string) obstacle {
	return func(w *World) error {
		set := func(routes ...map[string]string) map[string]any {
			return map[string]any{"router": map[string]any{"routes": append([]map[string]string{}, routes...)}}
		}
		id := w.ids[router]
		if status := w.Get().Status.Router; router == "" && status != nil {
			id = status.ID
		}
		path := "routers/" + id
		w.undoLater(w.Client, http.MethodPut, path, set())
		return w.trySend(w.Client, http.MethodPut, path, set(map[string]string{"destination": "10.99.0.0/16", "nexthop": nexthop}), nil)
	}
}

// quota limits the project to as many objects of a kind as it has, or to fewer by this number.
func quota(kind string, fewer int) obstacle {
	return func(w *World) error {
		project := w.Get().Status.ProjectID
		var list map[string][]struct{ ID string }
		collection := map[string]string{"rbac_policy": "rbac-policies"}[kind]
		if err := w.trySend(w.adminClient(), http.MethodGet, cmp.Or(collection, kind+"s")+"?project_id="+project, nil, &list); err != nil {
			return err
		}
		used := len(list[cmp.Or(strings.ReplaceAll(collection, "-", "_"), kind+"s")])
		set := func(limit int) map[string]any { return map[string]any{"quota": map[string]int{kind: limit}} }
		w.undoLater(w.adminClient(), http.MethodPut, "quotas/"+project, set(-1))
		return w.trySend(w.adminClient(), http.MethodPut, "quotas/"+project, set(used-fewer), nil)
	}
}

// twin creates a router or another object with the name of one that is there.
func twin(kind, name string) obstacle {
	return func(w *World) error {
		client, attributes := w.Client, map[string]any{"name": name}
		switch kind {
		case "network":
			client, attributes["router:external"] = w.adminClient(), true
		case "subnetpool":
			attributes["prefixes"] = []string{"10.29.0.0/16"}
		}
		_, err := w.make(client, kind, attributes)
		return err
	}
}

// refusing makes Neutron refuse the controller's requests of a method whose path ends so.
func refusing(method, suffix string, fault embedded.Fault) obstacle {
	return func(w *World) error {
		w.Refuse(method, suffix, fault)
		return nil
	}
}

// Refuse makes Neutron refuse the controller's requests of this method whose path has this suffix, until
// ClearObstacles is called.
func (w *World) Refuse(method, suffix string, fault embedded.Fault) {
	w.RefuseIf(func(r *http.Request) *embedded.Fault {
		if _, path, _ := strings.Cut(r.URL.Path, "/v2.0"); r.Method != method || !strings.HasSuffix("/"+withoutID("v2.0"+path), suffix) {
			return nil
		}
		return &fault
	})
}

// RefuseIf is Refuse with a function that chooses. It replaces CrashAt and ActAt; these
// may be called after it.
func (w *World) RefuseIf(refusal func(*http.Request) *embedded.Fault) {
	w.refuse(refusal)
	w.Neutron.SetFault(w.refused)
	w.undo = append(w.undo, func() { w.refuse(nil) })
}

func (w *World) refuse(refusal func(*http.Request) *embedded.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = refusal
}

// refused returns the fault of RefuseIf for a request of the controller, or nil.
func (w *World) refused(r *http.Request) *embedded.Fault {
	w.mu.Lock()
	refusal := w.refusal
	w.mu.Unlock()
	if refusal == nil || !strings.HasPrefix(r.UserAgent(), userAgent) {
		return nil
	}
	return refusal(r)
}

// makeExternal creates an external network with one subnet, whose first address for routers is that one.
// isVisible means that it belongs to the controller's project: then its subnets can be seen.
func makeExternal(name, cidr, first, last string, isVisible bool) func(*World) {
	return func(w *World) {
		admin := w.adminClient()
		attributes := map[string]any{"name": name, "router:external": true}
		subnet := map[string]any{"cidr": cidr, "ip_version": 4, "enable_dhcp": false, "allocation_pools": []map[string]string{{"start": first, "end": last}}}
		if isVisible {
			attributes["project_id"], subnet["project_id"] = w.project(), w.project()
		}
		id := w.createObject(admin, "network", attributes)
		subnet["network_id"] = id
		w.createObject(admin, "subnet", subnet)
		w.name(name, id)
	}
}

// project returns the ID of the controller's project.
func (w *World) project() string {
	for _, n := range w.Neutron.Networks() {
		if n.Name == "default/net-a" {
			return n.ProjectID
		}
	}
	return ""
}

// foreignRouter creates a router of another project.
func foreignRouter(name string) func(*World) {
	return func(w *World) {
		w.name(name, w.createObject(w.adminClient(), "router", map[string]any{"name": name}))
		w.ProtectRouters(w.ids[name])
	}
}

// later returns the act of a user who creates what a spec names already.
func later(kind, name string) func(*World) {
	return func(w *World) {
		switch kind {
		case "network":
			makeExternal(name, "198.20.0.0/24", "198.20.0.10", "198.20.0.200", false)(w)
		case "subnetpool":
			w.name(name, w.createObject(w.Client, kind, map[string]any{"name": name, "prefixes": []string{"10.28.0.0/16"}}))
		default:
			w.name(name, w.CreateRouter(name, "", ""))
			w.ProtectRouters(w.ids[name])
		}
	}
}

// nameOr returns the ID that has the name in specs, or the text itself.
func (w *World) nameOr(text string) string { return cmp.Or(w.ids[text], text) }
