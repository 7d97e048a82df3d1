// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Protect makes Check fail if one of these networks in Neutron changes from now on.
func (w *World) Protect(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.protected[id] = w.Describe(id)
	}
	w.strangersBefore = w.strangers()
}

// Describe returns everything that Neutron shows of the network, its revision too.
func (w *World) Describe(id string) string {
	w.t.Helper()
	defer w.TakeJournal()
	n, err := networks.Get(context.Background(), w.Client, id).Extract()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", *n)
}

// CreateProtected creates and protects networks in Neutron that look like the Network's, except
// that one has no mark and one has another cluster's. It returns the ID of the one without a
// mark.
func (w *World) CreateProtected() (unmarked string) {
	w.t.Helper()
	unmarked = w.CreateInNeutron("default/net-a", "", "10.0.0.0/24")
	w.Protect(unmarked, w.CreateInNeutron("default/net-a", neutron.Owner{Cluster: "another", UID: UID}.Mark(), "10.0.0.0/24"))
	return unmarked
}

// Check compares both sides after a controller has done all its work, and returns what is wrong.
// The Network must have this spec; nil: there must be no Network, and nothing of it in Neutron. left
// are networks and routers that must be there without any mark, such as
// "unmarked: 10.0.0.0/24 10.0.0.1".
func (w *World) Check(want *samplecrdv1.NetworkSpec, left ...string) (violations []string) {
	w.t.Helper()
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	w.checkProtected(violate)
	violations = append(violations, w.lost...)
	want = w.bind(want)
	n := w.Find()
	switch {
	case want == nil && n != nil:
		violate("the Network is still there: %+v", n)
	case want != nil && n == nil:
		violate("the Network is gone")
	}
	if want != nil && n != nil {
		want = w.chosen(n, want)
	}
	wantOwned := slices.Clone(left)
	if want != nil && n != nil {
		wantOwned = append(wantOwned, w.wantOwned(n, want)...)
	}
	slices.Sort(wantOwned)
	if diff := gocmp.Diff(wantOwned, w.Owned(), cmpopts.EquateEmpty()); diff != "" {
		violate("in Neutron (-want +got):\n%s", diff)
	}
	if want == nil || n == nil {
		return violations
	}
	cidr, gateway := meaning.CIDRAndGateway(&want.SubnetSpec)
	if !status.IsAvailable(n) || n.Status.CIDR != cidr || n.Status.Gateway != gateway || n.Status.ObservedGeneration != n.Generation || !live.HasFinalizer(n) {
		violate("the Network: %+v", n)
	}
	if diff := gocmp.Diff(w.wantStatus(n, want), n.Status, cmpopts.EquateEmpty()); diff != "" {
		violate("the status of the Network (-want +got):\n%s", diff)
	}
	return violations
}

// checkProtected reports what a controller has changed that belongs to others.
func (w *World) checkProtected(violate func(format string, args ...any)) {
	w.t.Helper()
	for id, before := range w.protected {
		if diff := gocmp.Diff(before, w.Describe(id)); diff != "" {
			violate("a network of another owner was changed (-before +after):\n%s", diff)
		}
	}
	for id, network := range w.strangersShares {
		if _, isThere := w.shares()[id]; !isThere && w.hasNetwork(network) {
			violate("a share of another owner is gone")
		}
	}
	for id, before := range w.protectedRouters {
		if diff := gocmp.Diff(before, w.describeRouter(id)); diff != "" {
			violate("a router of another owner was changed (-before +after):\n%s", diff)
		}
	}
	if diff := gocmp.Diff(w.strangersBefore, w.strangers(), cmpopts.EquateEmpty()); diff != "" {
		violate("the interfaces on networks of other owners (-before +after):\n%s", diff)
	}
}

// wantOwned returns the lines that Owned must return of the Network.
func (w *World) wantOwned(n *samplecrdv1.Network, want *samplecrdv1.NetworkSpec) (lines []string) {
	via := ""
	switch router := want.Router; {
	case router == nil:
	case router.Existing != nil:
		via = " via " + cmp.Or(router.Existing.Name, w.nameOfRouter(router.Existing.ID))
	default:
		via = " via own"
		external := cmp.Or(router.ExternalNetwork.Name, w.nameOfNetwork(router.ExternalNetwork.ID))
		lines = append(lines, fmt.Sprintf("router %s of %s: %s%s", routerID(&n.Status), n.UID, external, w.wantedZones(n, router)+w.wantedRoutes(n, router)))
	}
	var subnets []string
	for _, s := range meaning.SubnetsOf(want) {
		subnets = append(subnets, meaning.WantedSubnet(&s.SubnetSpec)+via)
	}
	slices.Sort(subnets)
	var observed network
	for _, o := range w.listNetworks() {
		if o.ID == n.Status.NetworkID {
			observed = o
		}
	}
	return append(lines, fmt.Sprintf("%s of %s:%s%s%s", n.Status.NetworkID, n.UID, strings.Join(subnets, ""), meaning.WantedNetwork(want, observed.Network), wantedShares(want)))
}

// wantedZones describes the availability zones that the router of the status must have: any if the spec declares none.
func (w *World) wantedZones(n *samplecrdv1.Network, declared *samplecrdv1.RouterSpec) string {
	if len(declared.AvailabilityZoneHints) == 0 {
		for _, r := range w.Neutron.Routers() {
			if r.ID == routerID(&n.Status) {
				return meaning.Zones(r.ZoneHints)
			}
		}
	}
	return meaning.Zones(declared.AvailabilityZoneHints)
}

// wantedRoutes describes the routes that the router of the status must have: any if the spec declares none.
func (w *World) wantedRoutes(n *samplecrdv1.Network, declared *samplecrdv1.RouterSpec) string {
	if declared.Routes == nil {
		for _, r := range w.Neutron.Routers() {
			if r.ID == routerID(&n.Status) {
				return describeRoutes(r.Routes)
			}
		}
	}
	return meaning.Routes(meaning.WantedRoutes(declared, nil))
}

// wantStatusRoutes returns status.router.routes: the declared ones. If the spec declares none, those of the status must be there.
func (w *World) wantStatusRoutes(n *samplecrdv1.Network, declared *samplecrdv1.RouterSpec) (routes []samplecrdv1.RouteStatus) {
	if declared.Routes != nil {
		for _, r := range meaning.Sorted(meaning.WantedRoutes(declared, nil)) {
			destination, nextHop, _ := strings.Cut(r, " via ")
			routes = append(routes, samplecrdv1.RouteStatus{Destination: destination, NextHop: nextHop})
		}
		return routes
	}
	for _, r := range w.ownRouters() {
		for _, known := range n.Status.Router.Routes {
			if r.ID == routerID(&n.Status) && slices.Contains(r.Routes, known.Destination+" via "+known.NextHop) {
				routes = append(routes, known)
			}
		}
	}
	return routes
}

// wantStatus returns the status with the subnets and the router that Neutron has.
func (w *World) wantStatus(n *samplecrdv1.Network, want *samplecrdv1.NetworkSpec) samplecrdv1.NetworkStatus {
	w.t.Helper()
	status := *n.Status.DeepCopy()
	status.Subnets, status.Router, status.SharedWith = nil, nil, projectsOf(want)
	for _, s := range meaning.SubnetsOf(want) {
		cidr, gateway := meaning.CIDRAndGateway(&s.SubnetSpec)
		id := w.findSubnet(n.Status.NetworkID, cidr)
		status.Subnets = append(status.Subnets, samplecrdv1.SubnetStatus{Name: s.Name, ID: id, CIDR: cidr, Gateway: gateway})
		if want.Router != nil {
			last := &status.Subnets[len(status.Subnets)-1]
			last.RouterPortID, status.Router = w.attachment(id)
		}
	}
	if status.Router != nil && n.Status.Router != nil {
		status.Router.Routes = w.wantStatusRoutes(n, want.Router)
	}
	status.SubnetID = status.Subnets[0].ID
	return status
}

// findSubnet returns the ID of the subnet with that CIDR on the network.
func (w *World) findSubnet(network, cidr string) string {
	w.t.Helper()
	var list struct{ Subnets []struct{ ID string } }
	w.send(w.Client, http.MethodGet, "subnets?fields=id&network_id="+network+"&cidr="+cidr, nil, &list)
	if len(list.Subnets) != 1 {
		return fmt.Sprintf("%d subnets", len(list.Subnets))
	}
	return list.Subnets[0].ID
}

// attachment returns the port that attaches the subnet, and the router.
func (w *World) attachment(subnet string) (port string, router *samplecrdv1.RouterStatus) {
	w.t.Helper()
	for _, i := range w.Neutron.Interfaces() {
		if i.Half || !slices.Contains(i.SubnetIDs, subnet) {
			continue
		}
		var answer struct {
			Router struct {
				Gateway struct {
					IPs []struct {
						Address string `json:"ip_address"`
					} `json:"external_fixed_ips"`
				} `json:"external_gateway_info"`
			}
		}
		w.send(w.Client, http.MethodGet, "routers/"+i.RouterID, nil, &answer)
		router = &samplecrdv1.RouterStatus{ID: i.RouterID}
		for _, ip := range answer.Router.Gateway.IPs {
			router.ExternalIPs = append(router.ExternalIPs, ip.Address)
		}
		return i.PortID, router
	}
	return "not attached", nil
}

// CheckRestored is Check for an API server that was restored from a backup. restored is the Network
// of the backup, or nil; before is what Owned returned then. Networks of owners that the backup
// does not have are orphans, which stay.
func (w *World) CheckRestored(restored *samplecrdv1.Network, before []string) (violations []string) {
	w.t.Helper()
	if restored == nil {
		return w.Check(nil, before...)
	}
	var others []string
	isLeft := restored.DeletionTimestamp != nil && restored.IsRetained()
	for _, line := range before {
		id, _, _ := strings.Cut(line, ":")
		if !strings.HasSuffix(id, string(restored.UID)) {
			others = append(others, line)
		} else if isLeft {
			others = append(others, unmarkedLine(line))
		}
	}
	if restored.DeletionTimestamp != nil {
		return w.Check(nil, others...)
	}
	w.forget(restored)
	return w.Check(&restored.Spec, others...)
}

func routerID(status *samplecrdv1.NetworkStatus) string {
	if status.Router == nil {
		return "not in the status"
	}
	return status.Router.ID
}

// unmarkedLine returns what is left of a line of Owned when the mark is removed.
func unmarkedLine(line string) string {
	id, rest, _ := strings.Cut(line, ":")
	rest = strings.ReplaceAll(rest, " via own", " via unmarked")
	if strings.HasPrefix(id, "router") {
		return "unmarked router:" + rest
	}
	return "unmarked:" + rest
}

// Owned returns a line for each network and each router in Neutron that is not protected.
func (w *World) Owned() (lines []string) {
	w.t.Helper()
	defer w.TakeJournal()
	for _, n := range w.listNetworks() {
		if _, isProtected := w.protected[n.ID]; isProtected {
			continue
		}
		line := "unmarked:"
		if owner, ok := ownerOf(n.Description); ok {
			line = fmt.Sprintf("%s of %s:", n.ID, owner.UID)
		} else if slices.ContainsFunc(n.Subnets, w.isMarked) {
			line = n.ID + " unmarked, with a marked subnet:"
		}
		subnets := w.describeSubnets(n)
		slices.Sort(subnets)
		lines = append(lines, line+strings.Join(subnets, "")+meaning.ObservedNetwork(n.Network)+w.sharesOf(n.ID))
	}
	for _, r := range w.ownRouters() {
		lines = append(lines, w.routerLine(r))
	}
	slices.Sort(lines)
	return lines
}

// ownerOf returns the owner according to the mark in the description, and false if there is no mark of
// this cluster.
func ownerOf(description string) (owner neutron.Owner, ok bool) {
	owner, marked := neutron.OwnerOf(description)
	return owner, marked && owner.Cluster == Cluster
}

func (w *World) isMarked(subnet string) bool {
	_, marked := neutron.OwnerOf(w.getSubnet(subnet).Description)
	return marked
}
