// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// elsewhere is the name of another project, its ID, and the name of another region.
const elsewhere = "elsewhere"

// elsewhere returns what is in a place where nothing must be.
func (w *World) elsewhere() (all []string) {
	for _, n := range w.cloud.Networks() {
		if n.ProjectID == elsewhere || n.Neutron == elsewhere && !n.IsExternal {
			all = append(all, fmt.Sprintf("a network in another place: %+v", n))
		}
	}
	for _, r := range w.cloud.Routers() {
		if r.ProjectID == elsewhere || r.Neutron == elsewhere {
			all = append(all, fmt.Sprintf("a router in another place: %+v", r))
		}
	}
	return all
}

// move lets Keystone lead to another place for a while, with some seeds. Users edit and delete Networks meanwhile, and one process
// starts there. No process may change anything there.
func (w *World) move() {
	if w.twin != nil {
		return // it would need another leader
	}
	home := embedded.Region{Name: "RegionOne"}
	switch w.rand.IntN(4) {
	case 0:
		w.cloud.SetRegions(embedded.Region{Name: elsewhere, Neutron: elsewhere}, home)
	case 1:
		if err := w.cloud.SetDefaultProject("samplecrd", elsewhere); err != nil {
			panic(err) // both exist
		}
	default:
		return
	}
	w.log("Keystone leads elsewhere")
	w.cloud.RevokeTokens()
	w.killProcess(w.replicas[w.rand.IntN(len(w.replicas))])
	for _, name := range []string{"change fields", "change the gateway", "change the router", "delete", "drift"} {
		w.pass(time.Now().Add(time.Minute))
		kinds[name].do(w, w.slots[w.rand.IntN(slots)], w.rand)
	}
	w.pass(time.Now().Add(15 * time.Minute))

	w.log("Keystone leads home again")
	w.cloud.SetRegions(home)
	if err := w.cloud.SetDefaultProject("samplecrd", "samplecrd"); err != nil {
		panic(err)
	}
	w.cloud.RevokeTokens()
	w.removeRoutes()                                                              // of the drift
	for _, r := range append(slices.Clone(w.replicas), w.neighbour.replicas...) { // one that has begun elsewhere does not change its place by itself
		w.killProcess(r)
	}
}
