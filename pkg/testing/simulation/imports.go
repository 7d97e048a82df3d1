// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// legacy is a network that a user has created in Neutron by hand, for Networks that import it.
type legacy struct {
	id string
	// before is all that Neutron had when nobody had imported it.
	before *oracle.Snapshot
	// strangersTags are tags that make it look like an import of others.
	strangersTags []string
}

// legacyOf returns a network for the Network of the slot to import: mostly one that the Network of the next or the previous
// slot imports too.
func (w *World) legacyOf(s *slot, r *rand.Rand) *legacy {
	pair := s.index / 2
	if all := w.legacies[pair]; len(all) > 0 && r.IntN(5) > 0 {
		return all[len(all)-1]
	}
	description := []string{"", "made by hand", "samplecrd.k8s.io/owner=another/00000000-0000-4000-8000-000000000001"}[r.IntN(9)/4]
	id, err := w.cloud.create("network", object{"name": "legacy", "description": description, "availability_zone_hints": []string{"nova"}})
	if err != nil {
		panic(err) // nothing spoils the requests of users
	}
	_ = w.cloud.do(http.MethodPut, "networks/"+id+"/tags/by-hand", nil, nil)
	v4 := object{"network_id": id, "cidr": fmt.Sprintf("10.%d.0.0/24", s.index), "ip_version": 4, "name": "by hand", "description": "theirs"}
	if r.IntN(2) == 0 {
		v4["allocation_pools"] = []object{{"start": fmt.Sprintf("10.%d.0.100", s.index), "end": fmt.Sprintf("10.%d.0.200", s.index)}}
	}
	_, _ = w.cloud.create("subnet", v4)
	_, _ = w.cloud.create("subnet", object{"network_id": id, "cidr": fmt.Sprintf("fd20:%d::/64", s.index), "ip_version": 6, "enable_dhcp": r.IntN(2) == 0})
	l := &legacy{id: id, before: w.cloud.snapshot()}
	w.legacies[pair] = append(w.legacies[pair], l)
	w.legacyIDs.Store(id, l)
	w.log("a user creates the network %s by hand for %s", id, s.name)
	return l
}

func (w *World) isLegacy(id string) bool { _, is := w.legacyIDs.Load(id); return is }

// importSpec returns the spec of a Network that imports its network.
func importSpec(w *World, s *slot, r *rand.Rand) samplecrdv1.NetworkSpec {
	n := &samplecrdv1.Network{}
	n.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: w.legacyOf(s, r).id}
	n.Spec.AvailabilityZoneHints = [][]samplecrdv1.AvailabilityZone{nil, {"nova"}}[r.IntN(2)] // others are refused
	for range 1 + r.IntN(3) {
		changeImport(w, s, r, n)
	}
	return n.Spec
}

// changeImport changes one field of a Network that imports its network.
func changeImport(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	switch r.IntN(8) {
	case 7:
		changeSharing(w, s, r, n)
	case 0, 1:
		n.Spec.ManagementPolicy = []samplecrdv1.ManagementPolicy{"", samplecrdv1.ManagementManaged, samplecrdv1.ManagementObserve}[r.IntN(3)]
	case 2:
		n.Spec.DeletionPolicy = []samplecrdv1.DeletionPolicy{"", samplecrdv1.DeletionDelete, samplecrdv1.DeletionRetain}[r.IntN(3)]
	case 3:
		n.Spec.Tags = [][]samplecrdv1.Tag{nil, {}, {"team-a"}, {"team-b", "team-a"}}[r.IntN(4)]
	case 4:
		n.Spec.AdditionalSubnets = nil
		if r.IntN(3) > 0 {
			n.Spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "more", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("10.%d.%d.0/24", s.index, 100+r.IntN(3))}}}
		}
	default:
		own, theirs := fmt.Sprintf("10.%d.0", s.index), fmt.Sprintf("10.%d.0", s.index^1) // the other one of the pair
		n.Spec.SubnetSpec = []samplecrdv1.SubnetSpec{
			{}, {CIDR: own + ".0/24"}, {CIDR: theirs + ".0/24"}, {CIDR: own + ".0/24", Gateway: own + ".2"}, {CIDR: fmt.Sprintf("fd20:%d::/64", s.index)},
			{CIDR: fmt.Sprintf("10.%d.99.0/24", s.index)},
		}[r.IntN(6)]
	}
}

// changeTags adds a tag of a stranger to a network that was created by hand, or removes all marks.
func (w *World) changeTags(s *slot, r *rand.Rand) {
	all := w.legacies[s.index/2]
	if len(all) == 0 {
		return
	}
	l := all[len(all)-1]
	if r.IntN(2) == 0 {
		tag := fmt.Sprintf("samplecrd-owner-%08x-0000-4000-8000-000000000000-%012d", r.Uint32(), 0)[:60]
		l.strangersTags = append(l.strangersTags, tag)
		_ = w.cloud.do(http.MethodPut, "networks/"+l.id+"/tags/"+tag, nil, nil)
		return
	}
	network := w.cloud.snapshot().Networks[l.id]
	for _, tag := range network.Tags {
		if oracle.ImporterIn(tag) != "" {
			_ = w.cloud.do(http.MethodDelete, "networks/"+l.id+"/tags/"+tag, nil, nil)
		}
	}
}

// deleteLegacy deletes a network that was created by hand.
func (w *World) deleteLegacy(s *slot, _ *rand.Rand) {
	if all := w.legacies[s.index/2]; len(all) > 0 {
		id := all[len(all)-1].id
		if w.cloud.do(http.MethodDelete, "networks/"+id, nil, nil) == nil {
			w.removed[id] = true
		}
	}
}

// tidyImports removes the marks that keep others from a network and its subnets, as the documentation tells users to do: those of
// strangers, of Networks that were only observed when they were deleted, and of Networks from which somebody has taken the network.
func (w *World) tidyImports() {
	gone := map[string]bool{}
	for _, n := range w.judge.history.Gone() {
		gone[string(n.UID)] = n.Spec.ManagementPolicy == samplecrdv1.ManagementObserve || w.mayBeLeft(string(n.UID))
	}
	now := w.cloud.snapshot()
	for _, pair := range w.legacies {
		for _, l := range pair {
			network := now.Networks[l.id]
			for _, tag := range network.Tags {
				if gone[oracle.ImporterIn(tag)] || slices.Contains(l.strangersTags, tag) {
					_ = w.cloud.do(http.MethodDelete, "networks/"+l.id+"/tags/"+tag, nil, nil)
				}
			}
		}
	}
	for id, s := range now.Subnets {
		owner, network := ownerIn(append(w.former, w.cluster), s.Description), now.Networks[s.NetworkID]
		holders := network.Importers()
		hasLostIt := owner != "" && len(holders) > 0 && !slices.Contains(holders, owner)
		if w.isLegacy(s.NetworkID) && (gone[owner] || hasLostIt) {
			_ = w.cloud.change("subnet", id, object{"description": ""})
		}
	}
}

// wrongImports returns what is wrong about the networks that were created by hand, besides disagreements.
func (w *World) wrongImports(now *oracle.Snapshot) (all []string) {
	for _, pair := range w.legacies {
		for _, l := range pair {
			all = append(all, w.judge.rules.Changed(&w.judge.history, l.id, l.before, now)...)
			if now.Networks[l.id].ID == "" && !w.removed[l.id] && !w.judge.history.Ever(func(n *samplecrdv1.Network) bool {
				return n.Spec.Import != nil && n.Spec.Import.NetworkID == l.id && n.DeletionTimestamp != nil &&
					n.Spec.DeletionPolicy == samplecrdv1.DeletionDelete && n.Spec.ManagementPolicy != samplecrdv1.ManagementObserve
			}) {
				all = append(all, fmt.Sprintf("network %s, which was created by hand, is gone", l.id))
			}
		}
	}
	return all
}
