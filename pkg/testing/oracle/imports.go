// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// disagreementsOnImports compares the networks that users have created with the Networks that import them. Of those that
// manage the same network, one must have it, and the others must say why not.
func (r *Rules) disagreementsOnImports(now *Snapshot, owners map[string]*samplecrdv1.Network, isLeft func(string) bool) (all []string) {
	byNetwork := map[string][]*samplecrdv1.Network{}
	for _, n := range owners {
		if n.Spec.Import != nil && n.DeletionTimestamp == nil {
			byNetwork[n.Spec.Import.NetworkID] = append(byNetwork[n.Spec.Import.NetworkID], n)
		}
	}
	for id, importers := range byNetwork {
		all = append(all, r.disagreementsOnImport(id, importers, now)...)
	}
	for _, n := range now.Networks {
		if !r.IsLegacy(n.ID) {
			continue
		}
		for _, uid := range n.Importers() {
			if isLeft(uid) || owners[uid] != nil && (owners[uid].Spec.Import == nil || owners[uid].Spec.Import.NetworkID != n.ID) {
				all = append(all, fmt.Sprintf("left over: the tag of %s on network %s", uid, n.ID))
			}
		}
	}
	return all
}

// disagreementsOnImport compares one such network with the Networks that import it.
func (r *Rules) disagreementsOnImport(id string, importers []*samplecrdv1.Network, now *Snapshot) (all []string) {
	network, exists := now.Networks[id]
	tagged := network.Importers()
	managed, holders := 0, 0
	// Nobody may take over what another cluster has created, or what was not given up.
	isBlocked := strings.HasPrefix(network.Description, ownerMark)
	for _, n := range importers {
		isObserving := n.Spec.ManagementPolicy == samplecrdv1.ManagementObserve
		isHolder := !isObserving && slices.Contains(tagged, string(n.UID)) && n.Status.Imported
		wrong := ""
		if !isObserving {
			managed++
		} else if slices.Contains(tagged, string(n.UID)) {
			isBlocked = true
		}
		switch {
		case !exists:
			wrong = wantReason(n, samplecrdv1.ReasonNetworkNotFound)
		case isObserving:
			wrong = cmp.Or(r.wrongStatus(n, now), wantReason(n, samplecrdv1.ReasonObserved, samplecrdv1.ReasonDiffers))
		case isHolder:
			holders++
			wrong = cmp.Or(r.wrongStatus(n, now), r.wrongImport(n, &network, now))
		default:
			wrong = wantReason(n, samplecrdv1.ReasonImportRefused)
		}
		if wrong != "" {
			all = append(all, fmt.Sprintf("%s/%s (%s) imports network %s: %s\n  %+v", n.Namespace, n.Name, n.UID, id, wrong, n.Status.Conditions))
		}
	}
	if exists && !isBlocked && holders != min(1, managed) || holders > 1 {
		all = append(all, fmt.Sprintf("%d of %d Networks have the network %s, which has the tags %q", holders, managed, id, network.Tags))
	}
	return all
}

// wantReason returns what is wrong if the condition Ready has none of these reasons.
func wantReason(n *samplecrdv1.Network, reasons ...string) string {
	ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
	if ready != nil && slices.Contains(reasons, ready.Reason) && n.Status.ObservedGeneration == n.Generation {
		return ""
	}
	return fmt.Sprintf("want one of the reasons %q", reasons)
}

// wrongStatus compares the subnets of the status with those of the imported network.
func (r *Rules) wrongStatus(n *samplecrdv1.Network, now *Snapshot) string {
	var want, got []string
	for _, s := range now.Subnets {
		if s.NetworkID == n.Spec.Import.NetworkID {
			want = append(want, s.ID+" "+s.CIDR+" "+cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone))
		}
	}
	for _, s := range n.Status.Subnets {
		got = append(got, s.ID+" "+s.CIDR+" "+s.Gateway)
	}
	slices.Sort(want)
	slices.Sort(got)
	if n.Status.NetworkID != n.Spec.Import.NetworkID || !slices.Equal(want, got) {
		return fmt.Sprintf("the status has %s [%s], Neutron has [%s]", n.Status.NetworkID, strings.Join(got, "; "), strings.Join(want, "; "))
	}
	return ""
}

// wrongImport compares the imported network with what the spec declares of it.
func (r *Rules) wrongImport(n *samplecrdv1.Network, network *Network, now *Snapshot) string {
	if !isReady(n, samplecrdv1.ReasonAvailable) || !hasFinalizer(n) {
		return "it is not ready"
	}
	if n.Spec.Tags != nil {
		var want []string
		for _, tag := range n.Spec.Tags {
			want = append(want, string(tag))
		}
		slices.Sort(want)
		if got := userTags(network.Tags); !slices.Equal(got, want) {
			return fmt.Sprintf("want the tags %q, got %q", want, got)
		}
	}
	if wrong := r.wrongShares(n, now); wrong != "" {
		return wrong
	}
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		if s.CIDR == "" {
			continue
		}
		if wrong := r.wrongSubnet(n, &s.SubnetSpec, now); wrong != "" {
			return wrong
		}
	}
	for _, s := range now.Subnets {
		if s.NetworkID == network.ID && MarkOf(r.Cluster, s.Description) == string(n.UID) && r.declaredSubnet(n, &Deed{CIDR: s.CIDR, PoolID: s.SubnetPoolID}) == nil {
			return "the spec does not declare the subnet " + s.CIDR
		}
	}
	return ""
}

// wrongSubnet compares a subnet with what the spec declares of it.
func (r *Rules) wrongSubnet(n *samplecrdv1.Network, declared *samplecrdv1.SubnetSpec, now *Snapshot) string {
	cidr, _ := meaning.CIDRAndGateway(declared)
	for _, s := range now.Subnets {
		if s.NetworkID != n.Spec.Import.NetworkID || s.CIDR != cidr {
			continue
		}
		if declared.Gateway != "" && sameAddress(declared.Gateway) != sameAddress(cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone)) {
			return fmt.Sprintf("want the gateway %s of subnet %s, got %s", declared.Gateway, cidr, s.GatewayIP)
		}
		if got, want := r.via(s.ID, now, n), r.wantedVia(n); n.Spec.Router != nil && got != want {
			return fmt.Sprintf("want subnet %s%s, got%s", cidr, want, got)
		}
		return ""
	}
	return "there is no subnet " + cidr
}

// userTags returns the tags that mark nothing.
func userTags(tags []string) []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return strings.HasPrefix(tag, importTag) })))
}

// Changed returns what controllers have changed of a network that a user has created, and that no Network has ever declared.
// before and now are snapshots from before any Network has imported it, and after.
func (r *Rules) Changed(h *History, id string, before, now *Snapshot) (all []string) {
	was, is := before.Networks[id], now.Networks[id]
	imports := func(n *samplecrdv1.Network) bool { return n.Spec.Import != nil && n.Spec.Import.NetworkID == id }
	everDeclared := func(is func(*samplecrdv1.Network) bool) bool {
		return h.Ever(func(n *samplecrdv1.Network) bool { return imports(n) && is(n) })
	}
	declaresGateway := func(n *samplecrdv1.Network) bool { return n.Spec.Gateway != "" }
	if is.ID == "" {
		return nil // see Lost
	}
	if was.Name != is.Name || was.Description != is.Description || was.MTU != is.MTU || was.PortSecurity != is.PortSecurity || meaning.Zones(was.ZoneHints) != meaning.Zones(is.ZoneHints) || was.DNSDomain != is.DNSDomain {
		all = append(all, fmt.Sprintf("nobody has declared that: network %s was %+v, and is %+v", id, was, is))
	}
	if !everDeclared(func(n *samplecrdv1.Network) bool { return n.Spec.Tags != nil }) && !slices.Equal(userTags(was.Tags), userTags(is.Tags)) {
		all = append(all, fmt.Sprintf("nobody has declared tags: network %s had %q, and has %q", id, was.Tags, is.Tags))
	}
	for _, s := range before.Subnets {
		if s.NetworkID != id {
			continue
		}
		next, exists := now.Subnets[s.ID]
		if !exists {
			all = append(all, fmt.Sprintf("nobody has declared that: subnet %s of network %s is gone", s.CIDR, id))
			continue
		}
		if everDeclared(declaresGateway) {
			next.GatewayIP, next.AllocationPools = s.GatewayIP, s.AllocationPools
		}
		if got, want := meaning.ObservedSubnet(&next)+" "+next.Name+" "+next.Description, meaning.ObservedSubnet(&s)+" "+s.Name+" "+s.Description; got != want {
			all = append(all, fmt.Sprintf("nobody has declared that: subnet %s of network %s was %s, and is %s", s.ID, id, want, got))
		}
	}
	return all
}
