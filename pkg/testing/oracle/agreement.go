// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Disagreements compares Neutron with all Networks, after the controllers have had their time. An owner that mayBeLeft names
// may have left what it had: nobody told the controllers that it is gone.
func (r *Rules) Disagreements(networks []*samplecrdv1.Network, now *Snapshot, mayBeLeft func(uid string) bool) (all []string) {
	owners := map[string]*samplecrdv1.Network{}
	for _, n := range networks {
		owners[string(n.UID)] = n
		who := n.Namespace + "/" + n.Name
		switch {
		case n.DeletionTimestamp != nil:
			all = append(all, fmt.Sprintf("%s was deleted, and is still there: %+v", who, n.Status.Conditions))
		case n.Spec.Import != nil:
			// See disagreementsOnImports.
		default:
			if got, want := r.observed(n, now), r.wanted(n, now); got != want {
				all = append(all, fmt.Sprintf("%s (%s):\n  want %s\n  got  %s\n  %+v", who, n.UID, want, got, n.Status.Conditions))
			} else if wrong := r.wrongShares(n, now); wrong != "" {
				all = append(all, fmt.Sprintf("%s (%s): %s", who, n.UID, wrong))
			}
		}
	}
	isLeft := func(uid string) bool { return uid != "" && owners[uid] == nil && !mayBeLeft(uid) }
	for _, n := range now.Networks {
		if uid := MarkOf(r.Cluster, n.Description); isLeft(uid) {
			all = append(all, fmt.Sprintf("left over: network %s of %s", n.ID, uid))
		}
	}
	all = append(all, r.leftRouters(now, owners, isLeft)...)
	all = append(all, r.disagreementsOnImports(now, owners, isLeft)...)
	slices.Sort(all)
	return all
}

// leftRouters returns the routers with a mark that no Network declares, or that are more than one.
func (r *Rules) leftRouters(now *Snapshot, owners map[string]*samplecrdv1.Network, isLeft func(string) bool) (all []string) {
	count := map[string]int{}
	for _, router := range now.Routers {
		uid := MarkOf(r.Cluster, router.Description)
		owner := owners[uid]
		count[uid]++
		if isLeft(uid) || owner != nil && (owner.Spec.Router == nil || owner.Spec.Router.Existing != nil || count[uid] > 1) {
			all = append(all, fmt.Sprintf("left over: router %s of %s", router.ID, uid))
		}
	}
	return all
}

// wanted describes what the Network means.
func (r *Rules) wanted(n *samplecrdv1.Network, now *Snapshot) string {
	var subnets, statuses []string
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		name := n.Namespace + "/" + n.Name
		if s.Name != "" {
			name += "/" + s.Name
		}
		if s.SubnetPool != nil {
			meaning.Choose(&s.SubnetSpec, r.chosen(n, name, s.SubnetPool, now))
		}
		cidr, gateway := meaning.CIDRAndGateway(&s.SubnetSpec)
		subnets = append(subnets, name+meaning.WantedSubnet(&s.SubnetSpec)+r.wantedVia(n))
		statuses = append(statuses, s.Name+" "+cidr+" "+gateway)
	}
	slices.Sort(subnets)
	return fmt.Sprintf("1 network %s/%s%s [%s] status [%s] ready, generation %d", n.Namespace, n.Name,
		meaning.WantedNetwork(&n.Spec, now.Networks[n.Status.NetworkID].Network), strings.Join(subnets, "; "), strings.Join(statuses, "; "), n.Generation)
}

// chosen returns the CIDR that Neutron has chosen for the subnet of that name; one that no subnet has if there is none.
func (r *Rules) chosen(n *samplecrdv1.Network, name string, pool *samplecrdv1.SubnetPoolSpec, now *Snapshot) string {
	for _, s := range now.Subnets {
		if s.NetworkID == n.Status.NetworkID && s.Name == name && r.isFrom(pool, s.SubnetPoolID, s.CIDR) {
			return s.CIDR
		}
	}
	return meaning.AnyCIDR(false, int(pool.PrefixLength))
}

// wantedVia describes the router that the Network declares.
func (r *Rules) wantedVia(n *samplecrdv1.Network) string {
	switch spec := n.Spec.Router; {
	case spec == nil:
		return ""
	case spec.Existing != nil:
		return " via " + cmp.Or(spec.Existing.ID, r.Gates[spec.Existing.Name])
	default:
		return " via own in " + cmp.Or(spec.ExternalNetwork.ID, r.Externals[spec.ExternalNetwork.Name]) + meaning.Zones(spec.AvailabilityZoneHints) + declaredRoutes(n, nil)
	}
}

// declaredRoutes describes the routes that the Network declares, or those that the router has if it declares some; "" if it
// declares none. The status has the same ones, and those that it has declared before and that are still there.
func declaredRoutes(n *samplecrdv1.Network, router *Router) string {
	if n.Spec.Router == nil || n.Spec.Router.Routes == nil {
		return ""
	}
	if router == nil {
		routes := meaning.Routes(meaning.WantedRoutes(n.Spec.Router, nil))
		return " routes" + routes + " status" + routes
	}
	var known []meaning.Route
	if n.Status.Router != nil {
		for _, r := range n.Status.Router.Routes {
			known = append(known, meaning.Route{Destination: r.Destination, NextHop: r.NextHop})
		}
	}
	return " routes" + meaning.Routes(router.Routes) + " status" + meaning.Routes(known)
}

// observed describes in the same form what Neutron has, and what the status says.
func (r *Rules) observed(n *samplecrdv1.Network, now *Snapshot) string {
	network := now.Networks[n.Status.NetworkID]
	if MarkOf(r.Cluster, network.Description) != string(n.UID) {
		return fmt.Sprintf("the network of the status (%q) has no mark; %d networks have it", n.Status.NetworkID, r.count(now, string(n.UID)))
	}
	var subnets, statuses []string
	for _, s := range now.Subnets {
		if s.NetworkID != network.ID || r.IsStrange(s.ID) {
			continue
		}
		text := s.Name + meaning.ObservedSubnet(&s) + r.via(s.ID, now, n)
		if MarkOf(r.Cluster, s.Description) != string(n.UID) {
			text += " without a mark"
		}
		subnets = append(subnets, text)
	}
	slices.Sort(subnets)
	for _, s := range n.Status.Subnets {
		text := s.Name + " " + s.CIDR + " " + s.Gateway
		if now.Subnets[s.ID].CIDR != s.CIDR {
			text += " with a wrong ID"
		}
		statuses = append(statuses, text)
	}
	return fmt.Sprintf("%d network %s%s [%s] status [%s] %s, generation %d", r.count(now, string(n.UID)), network.Name, meaning.ObservedNetwork(network.Network),
		strings.Join(subnets, "; "), strings.Join(statuses, "; "), readiness(n), n.Status.ObservedGeneration)
}

func readiness(n *samplecrdv1.Network) string {
	if !isReady(n, samplecrdv1.ReasonAvailable) || !hasFinalizer(n) {
		return "not ready"
	}
	return "ready"
}

// isReady reports whether the Network is Ready with that reason, and nothing else.
func isReady(n *samplecrdv1.Network, reason string) bool {
	ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.Reason == reason && len(n.Status.Conditions) == 1 && n.Status.ObservedGeneration == n.Generation
}

// wrongShares compares the projects that the network is shared with, and those of the status, with the declared ones. Strangers may
// share it with others, and so may Networks that had imported the network before.
func (r *Rules) wrongShares(n *samplecrdv1.Network, now *Snapshot) string {
	var declared []string
	for _, share := range n.Spec.SharedWith {
		declared = append(declared, share.ProjectID)
		if _, isShared := now.ShareOf(n.Status.NetworkID, share.ProjectID); !isShared {
			return "the network is not shared with project " + share.ProjectID
		}
	}
	for _, share := range now.Shares {
		if n.Spec.Import == nil && share.isShared() && share.NetworkID == n.Status.NetworkID && !slices.Contains(declared, share.Project) && !r.IsStrange(share.ID) {
			return "the network is still shared with project " + share.Project
		}
	}
	if slices.Sort(declared); !slices.Equal(declared, n.Status.SharedWith) {
		return fmt.Sprintf("the status has the projects %q, and the spec %q", n.Status.SharedWith, declared)
	}
	return ""
}

// via describes the routers of a subnet, without those of strangers that no spec can name.
func (r *Rules) via(subnet string, now *Snapshot, n *samplecrdv1.Network) (text string) {
	for _, i := range now.Interfaces[subnet] {
		router := now.Routers[i.RouterID]
		switch {
		case i.Half:
			text += " via half an interface"
		case MarkOf(r.Cluster, router.Description) == string(n.UID):
			text += " via own in " + router.Gateway.NetworkID
			if n.Spec.Router != nil && n.Spec.Router.AvailabilityZoneHints != nil { // otherwise the cloud chooses
				text += meaning.Zones(router.ZoneHints)
			}
			text += declaredRoutes(n, &router)
		default:
			text += " via " + router.ID
		}
	}
	return text
}

// Lost returns the networks that controllers have created, that were to be retained, and that are gone, unless somebody has removed
// them by hand, or nobody has told the controllers that their Network was deleted.
func (r *Rules) Lost(h *History, now *Snapshot, isRemoved, mayBeLeft func(id string) bool) (all []string) {
	for _, n := range h.Gone() {
		id := n.Status.NetworkID
		if n.Spec.Import != nil || id == "" || n.Spec.DeletionPolicy != samplecrdv1.DeletionRetain || !h.WasRetained(n.UID) {
			continue
		}
		if _, exists := now.Networks[id]; !exists && !isRemoved(id) && !mayBeLeft(string(n.UID)) {
			all = append(all, fmt.Sprintf("%s/%s was to be retained, and its network %s is gone", n.Namespace, n.Name, id))
		}
	}
	return all
}

func describe(spec *samplecrdv1.NetworkSpec) string {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(text)
}
