// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Scenario is something that users do with one Network.
type Scenario struct {
	Name string
	// Start is the Network that exists before, and is Available; nil: there is none.
	Start *samplecrdv1.NetworkSpec
	// Act is what users do. It is called before each sync, so a second call must do nothing.
	Act func(*World)
	// Want is the Network's spec in the end; nil: there is none.
	Want *samplecrdv1.NetworkSpec
}

// specs returns the specs that the Network has at the start and in the end.
func (s Scenario) specs() []*samplecrdv1.NetworkSpec {
	specs := []*samplecrdv1.NetworkSpec{s.Start, s.Want}
	if v := s.verification(); v != nil {
		specs = append(specs, v.want)
	}
	return slices.DeleteFunc(specs, func(spec *samplecrdv1.NetworkSpec) bool { return spec == nil })
}

// IsRouted reports whether the Network has a router at any time.
func (s Scenario) IsRouted() bool {
	return slices.ContainsFunc(s.specs(), func(spec *samplecrdv1.NetworkSpec) bool { return spec.Router != nil })
}

// Prepare creates what is there before the Network.
func (s Scenario) Prepare(w *World) {
	w.CreateProtected()
	if s.IsImport() {
		w.createLegacy()
	}
	if s.IsRouted() {
		w.CreateRouting()
	}
	if s.IsPooled() {
		w.CreatePools()
	}
}

// Unmarks reports whether marks are removed, so that only the status says whose the network is.
func (s Scenario) Unmarks() bool {
	return slices.Contains([]string{networkUnmarked, subnetUnmarked, subnetFromPoolUnmarked}, s.Name) || slices.Contains(allRetained, s.Name)
}

// Left returns what stays in Neutron in the end, without a mark: see World.Check.
func (s Scenario) Left() []string {
	switch s.Name {
	case retained:
		return []string{"unmarked: 10.0.0.0/24 10.0.0.1"}
	case retainedWithRouter:
		return []string{"unmarked: 10.0.0.0/24 10.0.0.1 via unmarked", "unmarked router: public"}
	case retainedWithRoutes:
		return []string{"unmarked: 10.0.0.0/24 10.0.0.1 via unmarked", "unmarked router: public to " + toA}
	case retainedAtExisting:
		return []string{"unmarked: 10.0.0.0/24 10.0.0.1 via shared"}
	}
	return nil
}

func spec(cidr, gateway string) *samplecrdv1.NetworkSpec {
	return &samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway}}
}

// edited returns an act that makes the Network have this spec.
func edited(want *samplecrdv1.NetworkSpec) func(*World) {
	return func(w *World) {
		if n := w.Find(); n != nil && n.DeletionTimestamp == nil && !equality.Semantic.DeepEqual(n.Spec, *w.bind(want)) {
			w.Edit(func(n *samplecrdv1.Network) { n.Spec = *want })
		}
	}
}

// once returns an act that does something in the first call only.
func once(act func(*World)) func(*World) {
	return func(w *World) {
		if !w.acted {
			w.acted = true
			act(w)
		}
	}
}

func kubectlDelete(w *World) {
	if n := w.Find(); n != nil && n.DeletionTimestamp == nil {
		w.Edit(BeingDeleted)
	}
}

const (
	networkUnmarked = "the network's mark removed in Neutron"
	subnetUnmarked  = "the subnet's mark removed in Neutron"
	retained        = "delete of a retained one"
	duplicated      = "a second network with the mark"
	recreated       = "delete and re-create under the same name"
	recreatedAtOnce = "delete and re-create between two syncs"
)

// Scenarios are all that users do, as far as it makes a difference.
var Scenarios = slices.Concat(plain, routed, sharedScenarios, pooledScenarios)

// plain are the Scenarios without routers.
var plain = []Scenario{
	{"create", nil, once(func(w *World) { w.Create(*spec("10.0.0.0/24", "")) }), spec("10.0.0.0/24", "")},
	{"edit of the gateway", spec("10.0.0.0/24", ""), edited(spec("10.0.0.0/24", "10.0.0.9")), spec("10.0.0.0/24", "10.0.0.9")},
	{"edit that takes the gateway away", spec("10.0.0.0/24", "10.0.0.9"), edited(spec("10.0.0.0/24", "")), spec("10.0.0.0/24", "")},
	{"edit that takes an IPv6 gateway away", spec("fd00:1::/64", "fd00:1::9"), edited(spec("fd00:1::/64", "")), spec("fd00:1::/64", "")},
	{"replacement of IPv4 by IPv6", spec("10.0.0.0/24", "10.0.0.9"), edited(spec("fd00:1::/64", "None")), spec("fd00:1::/64", "None")},
	{"replacement with overlap, IPv6", spec("fd00:1::/64", ""), edited(spec("fd00:1::/56", "fd00:1::9")), spec("fd00:1::/56", "fd00:1::9")},
	{"replacement", spec("10.0.0.0/24", ""), edited(spec("10.1.0.0/24", "")), spec("10.1.0.0/24", "")},
	{"replacement with overlap", spec("10.0.0.0/24", ""), edited(spec("10.0.0.0/16", "10.0.3.1")), spec("10.0.0.0/16", "10.0.3.1")},
	edit("removal of a subnet with addresses that ports choose", with(dualStack), with()),
	edit("IPv6 modes changed of a subnet with addresses that ports choose", with(dualStack), with(dualStack, withoutModes)),
	{"delete", spec("10.0.0.0/24", ""), kubectlDelete, nil},
	{retained, &samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"}, DeletionPolicy: samplecrdv1.DeletionRetain}, kubectlDelete, nil},
	{"delete before anything was created", nil, once(func(w *World) { w.Create(*spec("10.0.0.0/24", "")); w.Edit(BeingDeleted) }), nil},
	{recreated, spec("10.0.0.0/24", ""), func(w *World) {
		if n := w.Find(); n == nil {
			w.Create(*spec("10.1.0.0/24", ""))
		} else if n.Spec.CIDR != "10.1.0.0/24" {
			kubectlDelete(w)
		}
	}, spec("10.1.0.0/24", "")},
	{"adoption", nil, once(func(w *World) {
		w.Create(*spec("10.0.0.0/24", ""))
		w.Edit(WithFinalizer)
		w.CreateOwned(w.Find().UID, "10.0.0.0/24")
	}), spec("10.0.0.0/24", "")},
	{"network vanished", spec("10.0.0.0/24", ""), once(func(w *World) { w.DeleteInNeutron("networks", w.Find().Status.NetworkID) }), spec("10.0.0.0/24", "")},
	{"subnet vanished", spec("10.0.0.0/24", ""), once(func(w *World) { w.DeleteInNeutron("subnets", w.Find().Status.SubnetID) }), spec("10.0.0.0/24", "")},
	{"gateway changed in Neutron", spec("10.0.0.0/24", ""), once(func(w *World) { w.SetGateway(w.Find().Status.SubnetID, "10.0.0.77") }), spec("10.0.0.0/24", "")},
	{networkUnmarked, spec("10.0.0.0/24", ""), once(func(w *World) {
		w.UnmarkNetwork(w.Find().Status.NetworkID)
	}), spec("10.0.0.0/24", "")},
	{subnetUnmarked, spec("10.0.0.0/24", ""), once(func(w *World) {
		w.UnmarkSubnet(w.Find().Status.SubnetID)
	}), spec("10.0.0.0/24", "")},
	{duplicated, spec("10.0.0.0/24", ""), once(func(w *World) { w.CreateOwned(w.Find().UID, "10.0.0.0/24") }), spec("10.0.0.0/24", "")},
	{"edits that come and go between two syncs", spec("10.0.0.0/24", ""), once(func(w *World) {
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *spec("10.0.0.0/16", "") })
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *spec("fd00:1::/64", "") })
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *spec("10.0.0.0/24", "None") })
	}), spec("10.0.0.0/24", "None")},
	{recreatedAtOnce, nil, once(func(w *World) {
		w.Create(*spec("10.0.0.0/24", ""))
		w.Edit(BeingDeleted)
		w.Create(*spec("10.1.0.0/24", ""))
	}), spec("10.1.0.0/24", "")},
}
