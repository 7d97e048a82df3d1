// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// after does something later, unless the simulation heals before.
func (w *World) after(delay time.Duration, do func()) {
	w.later = append(w.later, delayed{time.Now().Add(delay), do})
}

type delayed struct {
	at time.Time
	do func()
}

// until returns when a trouble that begins now ends: it takes 1 s to that many seconds.
func until(r *rand.Rand, seconds int) time.Time {
	return time.Now().Add(time.Duration(1+r.IntN(seconds)) * time.Second)
}

func (w *World) takeNeutronAway(_ *slot, r *rand.Rand) {
	w.set(func() { w.neutronAway = until(r, 90) })
}

// lackList makes Neutron refuse the lists of one collection.
func (w *World) lackList(_ *slot, r *rand.Rand) {
	w.set(func() {
		w.lacking, w.lackingUntil = []string{"routers", "ports", "subnets", "rbac-policies"}[r.IntN(4)], until(r, 90)
		w.log("Neutron does not list %s", w.lacking)
	})
}

func (w *World) takeKubernetesAway(_ *slot, r *rand.Rand) {
	w.set(func() { w.kubernetesAway = until(r, 20) })
}

func (w *World) spoilNeutron(_ *slot, r *rand.Rand) {
	w.set(func() { w.neutronFaults = 5 + r.IntN(40) })
	w.after(time.Duration(r.IntN(90))*time.Second, func() { w.set(func() { w.neutronFaults = 0 }) })
}

func (w *World) slowNeutron(_ *slot, r *rand.Rand) {
	w.set(func() { w.slowness = 2 + r.IntN(100) })
	w.after(time.Duration(r.IntN(60))*time.Second, func() { w.set(func() { w.slowness = 0 }) })
}

func (w *World) spoilKubernetes(_ *slot, r *rand.Rand) {
	w.set(func() { w.kubernetesFaults = 5 + r.IntN(30) })
	w.after(time.Duration(r.IntN(60))*time.Second, func() { w.set(func() { w.kubernetesFaults = 0 }) })
}

func (w *World) delayWatches(_ *slot, r *rand.Rand) {
	w.set(func() { w.lateness = time.Duration(1+r.IntN(20)) * time.Second })
	w.after(time.Duration(r.IntN(60))*time.Second, func() { w.set(func() { w.lateness = 0 }) })
}

func (w *World) killLater(_ *slot, r *rand.Rand) { w.set(func() { w.killAtWrite = 1 + r.IntN(6) }) }

// suspend stops all that the leader sends and receives, until another replica may lead.
func (w *World) suspend(_ *slot, r *rand.Rand) {
	p := w.leader().current
	w.log("%s is suspended", p.name)
	w.set(func() { p.suspended = until(r, 100) })
}

func (w *World) backUp(_ *slot, _ *rand.Rand) {
	backup := w.api.Backup()
	w.backup, w.backupLeader = &backup, w.judge.leader()
}

// restore restores the last backup. Nobody tells the controllers which Networks are gone. Sometimes all of the control plane is
// restored, so that new processes begin, and users tidy up what they find. If the Lease in the backup is of another leader, controllers
// must not go on: for a moment there would be two.
func (w *World) restore(_ *slot, r *rand.Rand) {
	if w.backup == nil {
		return
	}
	routed := map[string]bool{}
	for _, n := range w.all() {
		w.left[string(n.UID)] = true
		routed[n.Name] = n.Status.Router != nil
	}
	w.api.Restore(*w.backup)
	for _, n := range w.all() {
		w.forgot[string(n.UID)] = true
		routed[n.Name] = routed[n.Name] && n.Spec.Router == nil && n.Status.Router == nil
		// A Network without the finalizer can be deleted at once, although it has something in Neutron.
		w.left[string(n.UID)] = len(n.Finalizers) == 0
	}
	if hasOtherLease := w.backupLeader != w.judge.leader(); r.IntN(2) == 0 && !hasOtherLease {
		return
	}
	for _, replica := range w.replicas {
		w.killProcess(replica)
	}
	w.lackList(nil, r)
	for _, s := range w.slots {
		// Users delete some Networks, and most of those whose router the backup lacks.
		if wait := time.Duration(r.IntN(120)) * time.Second; r.IntN(10) == 0 || routed[s.name] && r.IntN(4) > 0 {
			w.after(wait, func() { edit(changePolicy)(w, s, r); w.delete(s, r) })
		}
	}
}

// tidyForgotten does what users are told to do after somebody has set a status back: see artifacts/deploy/README.md. It removes an
// interface between a subnet of a Network and a router that neither its spec nor its status names, and puts back the mark of a
// subnet that was about to be retained.
func (w *World) tidyForgotten() {
	now := w.cloud.snapshot()
	for _, n := range w.all() {
		if !w.forgot[string(n.UID)] {
			continue
		}
		for id, share := range now.Shares {
			isDeclared := slices.Contains(n.Spec.SharedWith, samplecrdv1.Share{ProjectID: share.Project})
			if share.NetworkID == n.Status.NetworkID && !isDeclared && !w.isStrange(id) {
				_ = w.cloud.byAdmin(http.MethodDelete, "rbac-policies/"+id, nil, nil)
			}
		}
		for _, s := range now.Subnets {
			network := now.Networks[s.NetworkID].Description
			if oracle.MarkOf(w.cluster, network) != string(n.UID) || w.isStrange(s.ID) {
				continue
			}
			if s.Description == "" {
				_ = w.cloud.change("subnet", s.ID, object{"description": network})
			}
			for _, i := range now.Interfaces[s.ID] {
				isNamed := n.Status.Router != nil && n.Status.Router.ID == i.RouterID || n.Spec.Router != nil && n.Spec.Router.Existing != nil &&
					cmp.Or(n.Spec.Router.Existing.ID, w.gates[n.Spec.Router.Existing.Name]) == i.RouterID
				if w.isGate(i.RouterID) && !isNamed {
					_ = w.cloud.byAdmin(http.MethodPut, "routers/"+i.RouterID+"/remove_router_interface", object{"port_id": i.PortID}, nil)
				}
			}
		}
	}
}

func (w *World) killProcess(r *replica) {
	w.log("%s is killed", r.current.name)
	r.current.kill()
}

func (w *World) stopProcess(r *replica) {
	w.log("%s is stopped", r.current.name)
	r.current.cancel()
}

// set changes what is read for each request.
func (w *World) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// heal ends all troubles, and takes away what prevents the controller from its work.
func (w *World) heal() {
	w.later = nil
	w.set(func() {
		w.neutronAway, w.lackingUntil, w.kubernetesAway, w.lateness = time.Time{}, time.Time{}, time.Time{}, 0
		w.neutronFaults, w.kubernetesFaults, w.subnetsTwice, w.slowness, w.killAtWrite = 0, 0, 0, 0, 0
		for _, p := range w.processes {
			p.suspended = time.Time{}
		}
	})
	nobody := seeded(0, "heal", 0)
	for _, s := range w.slots {
		if n := w.get(s); n != nil && n.IsPaused() && !s.isMoving {
			kinds["resume"].do(w, s, nobody)
		}
	}
	w.switchAllOn()
	w.removePorts(nil, nobody)
	w.removeObstacles()
	w.putSecret(tenants[0], "")
	w.putSecret(systemNamespace, "")
	w.labelNamespace(tenants[1], tenants[1])
}

// switchAllOn switches all networks and routers on.
func (w *World) switchAllOn() {
	now := w.cloud.snapshot()
	for id, n := range now.Networks {
		if !n.Up {
			_ = w.cloud.change("network", id, object{"admin_state_up": true})
		}
	}
	for id, r := range now.Routers {
		if !r.Up {
			_ = w.cloud.change("router", id, object{"admin_state_up": true})
		}
	}
}

// removeObstacles removes what strangers, and Networks that were retained or lost, have at routers and on networks.
func (w *World) removeObstacles() {
	w.removeRoutes()
	now := w.cloud.snapshot()
	for id, interfaces := range now.Interfaces {
		s := now.Subnets[id]
		for _, i := range interfaces {
			if w.isStrange(i.RouterID) && !w.isGate(i.RouterID) || w.isStrange(id) || ownerIn(w.ids, s.Description) == "" || w.isOrphan(s.Description) {
				if err := w.cloud.byAdmin(http.MethodPut, "routers/"+i.RouterID+"/remove_router_interface", object{"port_id": i.PortID}, nil); err != nil {
					w.log("an interface stays: %v", err)
				}
			}
		}
	}
	for id, s := range now.Subnets {
		if w.isStrange(id) && !w.isStrange(s.NetworkID) {
			_ = w.cloud.byAdmin(http.MethodDelete, "subnets/"+id, nil, nil)
		}
	}
	for id := range now.Routers {
		if w.isStrange(id) && !w.isGate(id) {
			_ = w.cloud.byAdmin(http.MethodDelete, "routers/"+id, nil, nil)
		}
	}
}

// removeRoutes removes the routes that neither the spec nor the status of a Network names from its router, and all routes of
// routers that are no Network's any more: controllers leave them alone.
func (w *World) removeRoutes() {
	owners := map[string]*samplecrdv1.Network{}
	networks := w.all()
	if w.twin != nil {
		networks = append(networks, w.twin.all()...)
	}
	for _, n := range networks {
		owners[string(n.UID)] = n
	}
	for id, router := range w.cloud.snapshot().Routers {
		owner := owners[ownerIn(w.ids, router.Description)]
		if len(router.Routes) == 0 || owner != nil && owner.Spec.Router != nil && owner.Spec.Router.Routes != nil {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(router.Routes), func(route meaning.Route) bool {
			return owner == nil || owner.Status.Router == nil || !slices.Contains(owner.Status.Router.Routes, samplecrdv1.RouteStatus(route))
		})
		_ = w.cloud.change("router", id, object{"routes": left})
	}
}

// isOrphan reports whether the description is the mark of a Network that a restore has lost. Its subnets stay in Neutron, and can
// overlap with those of another Network at the same router.
func (w *World) isOrphan(description string) bool {
	uid := ownerIn(append(w.former, w.cluster), description)
	isOf := func(n *samplecrdv1.Network) bool { return string(n.UID) == uid }
	return uid != "" && !slices.ContainsFunc(w.all(), isOf) && (w.twin == nil || !slices.ContainsFunc(w.twin.all(), isOf))
}

// ownerIn returns the UID in the mark of one of these clusters; "" if the description is none.
func ownerIn(clusters []string, description string) (uid string) {
	for _, cluster := range clusters {
		uid = cmp.Or(uid, oracle.MarkOf(cluster, description))
	}
	return uid
}

// networkOf returns the ID of the slot's network in Neutron, and of its first subnet; "" if there is none, or it is imported.
func (w *World) networkOf(s *slot) (network, subnet string) {
	n := w.get(s)
	if n == nil || n.Status.NetworkID == "" || s.imports {
		return "", ""
	}
	if w.cloud.byAdmin(http.MethodGet, "networks/"+n.Status.NetworkID, nil, nil) != nil {
		return "", ""
	}
	if w.cloud.byAdmin(http.MethodGet, "subnets/"+n.Status.SubnetID, nil, nil) == nil {
		subnet = n.Status.SubnetID
	}
	return n.Status.NetworkID, subnet
}

// own records what a stranger has created.
func (w *World) own(kind string, fields object) string {
	id, err := w.cloud.create(kind, fields)
	if err != nil {
		return ""
	}
	w.strange.Store(id, true)
	return id
}

// isGate reports whether it is a router that Networks may name.
func (w *World) isGate(id string) bool { return id == w.gates["gate"] || id == w.gates["gate2"] }

func (w *World) isStrange(id string) bool { _, is := w.strange.Load(id); return is }

// mayBeLeft reports whether nobody has told the controller that the Network with that UID is gone, or it is or was the twin's.
func (w *World) mayBeLeft(uid string) bool {
	isOf := func(n *samplecrdv1.Network) bool { return string(n.UID) == uid }
	return w.left[uid] || w.twin != nil && (w.twin.left[uid] || slices.ContainsFunc(w.twin.all(), isOf))
}

// all returns all Networks. They are not to be changed.
func (w *World) all() (all []*samplecrdv1.Network) {
	for _, o := range w.api.List("networks") {
		all = append(all, w.judge.typedNetwork(o))
	}
	return all
}

// isRemoved reports whether somebody has deleted the network by hand.
func (w *World) isRemoved(id string) bool { return w.removed[id] }

// addSimilar creates a network that looks like that of the slot.
func (w *World) addSimilar(s *slot, r *rand.Rand) {
	uid := "00000000-0000-4000-8000-000000000001"
	if n := w.get(s); n != nil {
		uid = string(n.UID)
	}
	const owner = "samplecrd.k8s.io/owner="
	descriptions := []string{"", "made by hand", owner + "another/" + uid, owner + w.cluster + "x/" + uid, owner + w.cluster + "/" + uid + " (copied)", owner + w.cluster, "SAMPLECRD.K8S.IO/OWNER=" + w.cluster + "/" + uid}
	description := descriptions[r.IntN(len(descriptions))]
	if id := w.own("network", object{"name": "default/" + s.name, "description": description}); id != "" {
		w.own("subnet", object{"network_id": id, "cidr": fmt.Sprintf("10.%d.0.0/24", s.index), "ip_version": 4, "description": description})
	}
}

// addPort creates a port, and sometimes a floating IP that leads to it.
func (w *World) addPort(s *slot, r *rand.Rand) {
	network, _ := w.networkOf(s)
	if network == "" {
		return
	}
	port := w.own("port", object{"network_id": network, "name": "web-0", "device_owner": "compute:nova"})
	if port == "" {
		return
	}
	w.ports = append(w.ports, port)
	if r.IntN(3) == 0 {
		if ip := w.own("floatingip", object{"floating_network_id": w.externals["public"], "port_id": port}); ip != "" {
			w.floatingIPs = append(w.floatingIPs, ip)
		}
	}
}

// shareByOthers shares the slot's network with a project, by hand or as an administrator.
func (w *World) shareByOthers(s *slot, r *rand.Rand) {
	network, _ := w.networkOf(s)
	policy := object{"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": append(others, "c")[r.IntN(len(others)+1)]}
	user := []string{"samplecrd", "admin"}[r.IntN(2)]
	var answer struct {
		Policy struct{ ID string } `json:"rbac_policy"`
	}
	if network != "" && w.cloud.send(user, http.MethodPost, "rbac-policies", object{"rbac_policy": policy}, &answer) == nil {
		w.strange.Store(answer.Policy.ID, true)
	}
}

// isHidden reports whether an administrator has shared the network with a project that the spec has. The project of the network does
// not see that.
func (w *World) isHidden(n *samplecrdv1.Network) bool {
	now := w.cloud.snapshot()
	return slices.ContainsFunc(n.Spec.SharedWith, func(declared samplecrdv1.Share) bool {
		share, isShared := now.ShareOf(n.Status.NetworkID, declared.ProjectID)
		return isShared && share.Creator != now.Networks[n.Status.NetworkID].ProjectID
	})
}

// addPortOfOthers creates a port of another project on the slot's network, if it is shared with that project.
func (w *World) addPortOfOthers(s *slot, _ *rand.Rand) {
	network, _ := w.networkOf(s)
	var answer struct{ Port struct{ ID string } }
	if network != "" && w.cloud.send(elsewhere, http.MethodPost, "ports", object{"port": object{"network_id": network}}, &answer) == nil {
		w.strange.Store(answer.Port.ID, true)
		w.ports = append(w.ports, answer.Port.ID)
	}
}

// unshareByHand ends what the project of the slot's network shares with another one.
func (w *World) unshareByHand(s *slot, _ *rand.Rand) {
	network, _ := w.networkOf(s)
	for id, share := range w.cloud.snapshot().Shares {
		if share.NetworkID == network && share.Creator == w.cloud.snapshot().Networks[network].ProjectID {
			_ = w.cloud.byAdmin(http.MethodDelete, "rbac-policies/"+id, nil, nil)
		}
	}
}

func (w *World) removePorts(_ *slot, _ *rand.Rand) {
	for _, id := range w.floatingIPs {
		_ = w.cloud.do(http.MethodDelete, "floatingips/"+id, nil, nil)
	}
	for _, id := range w.ports {
		_ = w.cloud.byAdmin(http.MethodDelete, "ports/"+id, nil, nil)
	}
	w.floatingIPs, w.ports = nil, nil
}

func (w *World) addSubnet(s *slot, r *rand.Rand) {
	if network, _ := w.networkOf(s); network != "" {
		cidr := []string{fmt.Sprintf("172.16.%d.0/24", s.index), fmt.Sprintf("10.%d.5.0/24", s.index)}[r.IntN(2)]
		w.own("subnet", object{"network_id": network, "cidr": cidr, "ip_version": 4})
	}
}

// addInterface attaches the slot's network to a router of a stranger.
func (w *World) addInterface(s *slot, _ *rand.Rand) {
	network, subnet := w.networkOf(s)
	if subnet == "" {
		return
	}
	router := w.own("router", object{"name": "strange"})
	if port := w.own("port", object{"network_id": network, "fixed_ips": []object{{"subnet_id": subnet}}}); port != "" {
		_ = w.cloud.byAdmin(http.MethodPut, "routers/"+router+"/add_router_interface", object{"port_id": port}, nil)
	}
}

// drift changes a field of what the controller has made.
func (w *World) drift(s *slot, r *rand.Rand) {
	network, subnet := w.networkOf(s)
	if subnet == "" {
		return
	}
	switch r.IntN(9) {
	case 0:
		_ = w.cloud.change("network", network, object{"name": "renamed"})
	case 1:
		_ = w.cloud.change("subnet", subnet, object{"name": "renamed"})
	case 2:
		_ = w.cloud.change("subnet", subnet, object{"dns_nameservers": []string{"192.0.2.53"}})
	case 3:
		_ = w.cloud.change("subnet", subnet, object{"enable_dhcp": false})
	case 4:
		_ = w.cloud.byAdmin(http.MethodPut, "networks/"+network+"/tags/drifted", nil, nil)
	case 5:
		_ = w.cloud.change("subnet", subnet, object{"gateway_ip": nil})
	case 6:
		if router := w.get(s).Status.Router; router != nil && !w.isGate(router.ID) {
			_ = w.cloud.change("router", router.ID, object{"name": "renamed"})
		}
	case 7, 8:
		w.driftRoutes(w.get(s), r)
	}
}

// driftRoutes adds a route to the Network's own router, or removes all that it has.
func (w *World) driftRoutes(n *samplecrdv1.Network, r *rand.Rand) {
	if n.Status.Router == nil || w.isGate(n.Status.Router.ID) {
		return
	}
	routes := []meaning.Route{}
	if r.IntN(2) == 0 {
		routes = append(routes, w.cloud.snapshot().Routers[n.Status.Router.ID].Routes...)
		for _, more := range routesTo(n, 97) {
			routes = append(routes, meaning.Route{Destination: more.Destination, NextHop: string(more.NextHop)})
		}
	}
	_ = w.cloud.change("router", n.Status.Router.ID, object{"routes": routes})
}

// detach takes the slot's first subnet off all routers.
func (w *World) detach(s *slot, _ *rand.Rand) {
	_, subnet := w.networkOf(s)
	for _, i := range w.cloud.snapshot().Interfaces[subnet] {
		_ = w.cloud.byAdmin(http.MethodPut, "routers/"+i.RouterID+"/remove_router_interface", object{"subnet_id": subnet}, nil)
	}
}

// deleteByHand deletes the slot's network, or only its first subnet.
func (w *World) deleteByHand(s *slot, r *rand.Rand) {
	network, subnet := w.networkOf(s)
	if network == "" {
		return
	}
	w.detach(s, r)
	if r.IntN(2) == 0 {
		_ = w.cloud.byAdmin(http.MethodDelete, "subnets/"+subnet, nil, nil)
	} else {
		_ = w.cloud.byAdmin(http.MethodDelete, "networks/"+network, nil, nil)
		w.removed[network] = true
	}
}

func (w *World) switchOff(s *slot, _ *rand.Rand) { w.turn(s, false) }
func (w *World) switchOn(s *slot, _ *rand.Rand)  { w.turn(s, true) }

func (w *World) turn(s *slot, up bool) {
	if network, _ := w.networkOf(s); network != "" {
		_ = w.cloud.change("network", network, object{"admin_state_up": up})
	}
	if n := w.get(s); n != nil && n.Status.Router != nil && !w.isGate(n.Status.Router.ID) {
		_ = w.cloud.change("router", n.Status.Router.ID, object{"admin_state_up": up})
	}
}
