// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Names of Imports that other code refers to.
const (
	importRetained     = "deletion of an import"
	importDeleted      = "deletion of an import, with deletionPolicy Delete"
	importLeft         = "managed, then observed, then deleted"
	anothersNetwork    = "import of another's network"
	vanishedAndDeleted = "imported network vanished, then a deletion"
	oldMarkDeleted     = "deletion of an import with the mark of an older version"
	importUnshared     = "import that is no longer shared with a project"
	importUnrouted     = "edit of an import that takes its router with routes away"
	sharedRetained     = "deletion of an import that is shared with a project"
	observedUnshared   = "observation of what is not shared"
)

// legacy is the name of a network that somebody created by hand. In a spec, it is its ID.
const legacy = "legacy"

// What the legacy network is before a controller touches it. See describeLegacy.
const (
	legacyNetwork = "legacy, ask Ann, tags prod"
	legacyPools   = " DNS 192.0.2.53 pools 10.0.0.100-10.0.0.200 by hand"
	legacySubnet  = " 10.0.0.0/24 10.0.0.9" + legacyPools
	legacyOther   = " 10.5.0.0/24 10.5.0.1 by hand"
	marked        = "legacy, ask Ann, tags MARK, prod"
)

// createLegacy creates the legacy network.
func (w *World) createLegacy() {
	w.t.Helper()
	defer w.TakeJournal()
	id := w.createObject(w.Client, "network", map[string]any{"name": legacy, "description": "ask Ann", "availability_zone_hints": []string{"nova"}})
	w.send(w.Client, http.MethodPut, "networks/"+id+"/tags", map[string]any{"tags": []string{"prod"}}, &struct{}{})
	w.send(w.Client, http.MethodPost, "subnets", map[string]any{"subnet": map[string]any{"network_id": id, "cidr": "10.0.0.0/24", "ip_version": 4, "description": "by hand",
		"gateway_ip": "10.0.0.9", "dns_nameservers": []string{"192.0.2.53"}, "allocation_pools": []map[string]string{{"start": "10.0.0.100", "end": "10.0.0.200"}}}}, &struct{}{})
	w.send(w.Client, http.MethodPost, "subnets", map[string]any{"subnet": map[string]any{"network_id": id, "cidr": "10.5.0.0/24", "ip_version": 4, "description": "by hand"}}, &struct{}{})
	w.name(legacy, id)
}

// LegacyID returns the ID of the legacy network.
func (w *World) LegacyID() string { return w.ids[legacy] }

// name gives an ID a name for specs.
func (w *World) name(name, id string) {
	if w.ids == nil {
		w.ids = map[string]string{}
	}
	w.ids[name] = id
}

// replaceMark replaces the Network's mark on the legacy network by that of an older version.
func replaceMark(w *World) {
	old := neutron.ImportTagPrefix + string(w.Get().UID)
	w.send(w.Client, http.MethodPut, "networks/"+w.ids[legacy]+"/tags", map[string]any{"tags": []string{"prod", old}}, &struct{}{})
}

// describeLegacy describes the legacy network with its tags, subnets, routers and shares, "gone" if there is none. The
// Network's tag is MARK, and a subnet with its mark is marked.
func (w *World) describeLegacy() string {
	w.t.Helper()
	defer w.TakeJournal()
	n, err := networks.Get(context.Background(), w.Client, w.ids[legacy]).Extract()
	if err != nil {
		return "gone"
	}
	for i, tag := range n.Tags {
		switch {
		case len(tag) == len("samplecrd-owner-")+len(UID): // without the cluster
			n.Tags[i] = "OLD MARK"
		case strings.HasPrefix(tag, "samplecrd-owner-"):
			n.Tags[i] = "MARK"
		}
	}
	slices.Sort(n.Tags)
	var lines []string
	for _, id := range n.Subnets {
		s := w.getSubnet(id)
		lines = append(lines, meaning.ObservedSubnet(s)+" "+w.describeMark(s)+w.routersOf(id))
	}
	slices.Sort(lines)
	for _, r := range w.ownRouters() {
		lines = append(lines, fmt.Sprintf(", %s router in %s%s", w.nameOfRouter(r.ID), w.nameOfNetwork(r.ExternalNetwork), describeRoutes(r.Routes)))
	}
	return fmt.Sprintf("%s, %s, tags %s%s%s", n.Name, n.Description, strings.Join(n.Tags, ", "), strings.Join(lines, ""), w.sharesOf(n.ID))
}

func (w *World) describeMark(s *subnets.Subnet) string {
	if _, isMarked := neutron.OwnerOf(s.Description); isMarked {
		return "marked"
	}
	if s.Description == "" {
		return "unmarked"
	}
	return s.Description
}

// imported returns a spec that imports the legacy network.
func imported(changes ...func(*samplecrdv1.NetworkSpec)) *samplecrdv1.NetworkSpec {
	s := &samplecrdv1.NetworkSpec{Import: &samplecrdv1.ImportSpec{NetworkID: legacy}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func withCIDR(cidr, gateway string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) { s.CIDR, s.Gateway = cidr, gateway }
}

func withV6(s *samplecrdv1.NetworkSpec) {
	s.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:1::/64"}}}
}

func observed(s *samplecrdv1.NetworkSpec) { s.ManagementPolicy = samplecrdv1.ManagementObserve }

func deleted(s *samplecrdv1.NetworkSpec) { s.DeletionPolicy = samplecrdv1.DeletionDelete }

// created creates a Network with this spec.
func created(s *samplecrdv1.NetworkSpec) func(*World) {
	return once(func(w *World) { w.Create(*s) })
}

// after changes the legacy network as another client, and then creates a Network with this spec.
func after(change func(*World), s *samplecrdv1.NetworkSpec) func(*World) {
	return once(func(w *World) { change(w); w.Create(*s) })
}

// tagOf adds a tag to the legacy network.
func tagOf(tag string) func(*World) {
	return func(w *World) {
		w.send(w.Client, http.MethodPut, "networks/"+w.ids[legacy]+"/tags/"+tag, nil, nil)
	}
}

func vanished(w *World) { w.DeleteInNeutron("networks", w.ids[legacy]) }

// What an import adds to the description of the legacy network. See describeLegacy.
const (
	v6Subnet     = " fd00:1::/64 fd00:1:: "
	fromTeamV6   = " fd20::/64 fd20::1 "
	ofProjectA   = " shared with " + projectA
	withOwnRoute = ", own router in public to " + toA
)

// importScenario is a Scenario with a Network that imports the legacy network.
type importScenario struct {
	Scenario
	verify *verification
}

var importScenarios = []importScenario{
	{Scenario{Name: "import", Act: created(imported())}, imports(imported(), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "import with a subnet", Act: created(imported(withCIDR("10.0.0.0/24", "")))}, imports(imported(withCIDR("10.0.0.0/24", "")), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "import with another gateway", Act: created(imported(withCIDR("10.0.0.0/24", "10.0.0.77")))}, imports(imported(withCIDR("10.0.0.0/24", "10.0.0.77")), "Available", marked+" 10.0.0.0/24 10.0.0.77"+legacyPools+legacyOther)},
	{Scenario{Name: "import with one more subnet", Act: created(imported(withV6))}, imports(imported(withV6), "Available", marked+legacySubnet+legacyOther+v6Subnet+"marked")},
	{Scenario{Name: "import with tags", Act: created(imported(tagged("x")))}, imports(imported(tagged("x")), "Available", "legacy, ask Ann, tags MARK, x"+legacySubnet+legacyOther)},
	{Scenario{Name: "edit of an import", Start: imported(withCIDR("10.0.0.0/24", "")), Act: edited(imported(withCIDR("10.8.0.0/24", "")))}, imports(imported(withCIDR("10.8.0.0/24", "")), "Available", marked+legacySubnet+legacyOther+" 10.8.0.0/24 10.8.0.1 marked")},
	{Scenario{Name: "edit of an import that takes its own subnet away", Start: imported(withV6), Act: edited(imported())}, imports(imported(), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: importRetained, Start: imported(withCIDR("10.0.0.0/24", "10.0.0.77"), withV6), Act: kubectlDelete}, imports(nil, "", legacyNetwork+" 10.0.0.0/24 10.0.0.77"+legacyPools+legacyOther+v6Subnet+"unmarked")},
	{Scenario{Name: importDeleted, Start: imported(withV6, deleted), Act: kubectlDelete}, imports(nil, "", "gone")},
	{Scenario{Name: "mark of an import removed in Neutron", Start: imported(), Act: once(func(w *World) {
		w.send(w.Client, http.MethodPut, "networks/"+w.ids[legacy]+"/tags", map[string]any{"tags": []string{"prod"}}, &struct{}{})
	})}, imports(imported(), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "mark of an older version", Start: imported(withV6), Act: once(replaceMark)}, imports(imported(withV6), "Available", marked+legacySubnet+legacyOther+v6Subnet+"marked")},
	{Scenario{Name: oldMarkDeleted, Start: imported(withV6), Act: once(func(w *World) { replaceMark(w); kubectlDelete(w) })}, imports(nil, "", legacyNetwork+legacySubnet+legacyOther+v6Subnet+"unmarked")},
	{Scenario{Name: "import of what the original of this cluster has imported", Act: once(func(w *World) {
		w.Create(*imported(withV6))
		tagOf(neutron.Owner{Cluster: "another", UID: w.Get().UID}.ImportTag())(w)
	})}, imports(imported(withV6), "ImportRefused", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "imported network changed in Neutron", Start: imported(withCIDR("10.0.0.0/24", "10.0.0.77")), Act: once(func(w *World) {
		w.SetGateway(w.Find().Status.SubnetID, "10.0.0.66")
		w.RenameNetwork(w.ids[legacy], "renamed")
	})}, imports(imported(withCIDR("10.0.0.0/24", "10.0.0.77")), "Available", "renamed, ask Ann, tags MARK, prod 10.0.0.0/24 10.0.0.77"+legacyPools+legacyOther)},
	{Scenario{Name: "imported network vanished", Start: imported(), Act: once(vanished)}, imports(imported(), "NetworkNotFound", "gone")},
	{Scenario{Name: vanishedAndDeleted, Start: imported(withV6, deleted), Act: once(func(w *World) { vanished(w); kubectlDelete(w) })}, imports(nil, "", "gone")},
	{Scenario{Name: "import of what is not there", Act: after(vanished, imported())}, imports(imported(), "NetworkNotFound", "gone")},
	{Scenario{Name: "import of another's import", Act: after(tagOf("samplecrd-owner-33333333-0000-0000-0000-000000000000"), imported(withV6))}, imports(imported(withV6), "ImportRefused", "legacy, ask Ann, tags OLD MARK, prod"+legacySubnet+legacyOther)},
	{Scenario{Name: anothersNetwork, Act: after(func(w *World) {
		w.updateInNeutron("networks", "network", w.ids[legacy], map[string]any{"description": neutron.Owner{Cluster: "another", UID: "u"}.Mark()})
	}, imported(withV6))}, imports(imported(withV6), "ImportRefused", "legacy, samplecrd.k8s.io/owner=another/u, tags prod"+legacySubnet+legacyOther)},
	{Scenario{Name: "observation", Act: created(imported(observed))}, imports(imported(observed), "Observed", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "observation of a difference", Act: created(imported(observed, withCIDR("10.0.0.0/24", "10.0.0.77")))}, imports(imported(observed, withCIDR("10.0.0.0/24", "10.0.0.77")), "Differs", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "deletion of an observation", Start: imported(observed), Act: kubectlDelete}, imports(nil, "", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "observed network vanished", Start: imported(observed), Act: once(vanished)}, imports(imported(observed), "NetworkNotFound", "gone")},
	{Scenario{Name: "observed, then managed", Start: imported(observed), Act: edited(imported(withCIDR("10.0.0.0/24", "10.0.0.77")))}, imports(imported(withCIDR("10.0.0.0/24", "10.0.0.77")), "Available", marked+" 10.0.0.0/24 10.0.0.77"+legacyPools+legacyOther)},
	{Scenario{Name: "managed, then observed", Start: imported(withCIDR("10.0.0.0/24", "")), Act: edited(imported(observed, withCIDR("10.0.0.0/24", "10.0.0.77")))}, imports(imported(observed, withCIDR("10.0.0.0/24", "10.0.0.77")), "Differs", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "import in the availability zones that it has", Act: created(imported(inZones("nova")))}, imports(imported(inZones("nova")), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "import in other availability zones", Act: created(imported(inZones("az2")))}, imports(imported(inZones("az2")), "ImportRefused", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "observation of other availability zones", Act: created(imported(observed, inZones("nova", "az2")))}, imports(imported(observed, inZones("nova", "az2")), "Differs", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "import that is shared with a project", Act: created(imported(sharedWith(projectA)))}, imports(imported(sharedWith(projectA)), "Available", marked+legacySubnet+legacyOther+ofProjectA)},
	{Scenario{Name: importUnshared, Start: imported(sharedWith(projectA, projectB)), Act: edited(imported(sharedWith(projectA)))}, imports(imported(sharedWith(projectA)), "Available", marked+legacySubnet+legacyOther+ofProjectA)},
	{Scenario{Name: sharedRetained, Start: imported(sharedWith(projectA)), Act: kubectlDelete}, imports(nil, "", legacyNetwork+legacySubnet+legacyOther+ofProjectA)},
	{Scenario{Name: observedUnshared, Act: created(imported(observed, sharedWith(projectA)))}, imports(imported(observed, sharedWith(projectA)), "Differs", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "import with one more subnet from a subnet pool", Act: created(imported(another("v6", teamV6, 64)))}, imports(imported(another("v6", teamV6, 64)), "Available", marked+legacySubnet+legacyOther+fromTeamV6+"marked")},
	{Scenario{Name: "edit of an import that takes its own subnet from a subnet pool away", Start: imported(another("v6", teamV6, 64)), Act: edited(imported())}, imports(imported(), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: "observation of a subnet from a subnet pool", Act: created(imported(observed, another("v6", teamV6, 64)))}, imports(imported(observed, another("v6", teamV6, 64)), "Differs", legacyNetwork+legacySubnet+legacyOther)},
	{Scenario{Name: "import with routes", Act: created(imported(withCIDR("10.0.0.0/24", ""), routes(toA)))}, imports(imported(withCIDR("10.0.0.0/24", ""), routes(toA)), "Available", marked+legacySubnet+" via own"+legacyOther+withOwnRoute)},
	{Scenario{Name: "edit of an import that changes its routes", Start: imported(withCIDR("10.0.0.0/24", ""), routes(toB)), Act: edited(imported(withCIDR("10.0.0.0/24", ""), routes(toA)))}, imports(imported(withCIDR("10.0.0.0/24", ""), routes(toA)), "Available", marked+legacySubnet+" via own"+legacyOther+withOwnRoute)},
	{Scenario{Name: importUnrouted, Start: imported(withCIDR("10.0.0.0/24", ""), routes(toA)), Act: edited(imported(withCIDR("10.0.0.0/24", "")))}, imports(imported(withCIDR("10.0.0.0/24", "")), "Available", marked+legacySubnet+legacyOther)},
	{Scenario{Name: importLeft, Start: imported(withV6, deleted), Act: func(w *World) {
		if n := w.Find(); n != nil && !n.IsObserved() {
			w.Edit(func(n *samplecrdv1.Network) { observed(&n.Spec) })
		}
		kubectlDelete(w)
	}}, imports(nil, "", marked+legacySubnet+legacyOther+v6Subnet+"marked")},
}

// Imports are the Scenarios with a Network that imports the legacy network.
var Imports = func() (all []Scenario) {
	for _, s := range importScenarios {
		all = append(all, s.Scenario)
	}
	return all
}()

// IsImport reports whether Verify is the one to compare both sides.
func (s Scenario) IsImport() bool { return s.verification() != nil }

// verification returns what Verify compares; nil for a Scenario that is not of Imports.
func (s Scenario) verification() *verification {
	at := slices.IndexFunc(importScenarios, func(i importScenario) bool { return i.Name == s.Name })
	if at < 0 {
		return nil
	}
	return importScenarios[at].verify
}

// IsMissing reports whether the imported network is gone. Each sync looks for it.
func (s Scenario) IsMissing() bool {
	return s.IsImport() && (strings.Contains(s.Name, "vanished") || strings.Contains(s.Name, "not there"))
}

// Verify compares both sides after a Scenario of Imports, as Check does after another one.
func (w *World) Verify(s Scenario) []string {
	return s.verification().violations(w)
}

// verification says what there must be after a Scenario of Imports: the Network with this spec (nil: there must be none) and this reason,
// and the legacy network as described.
type verification struct {
	want              *samplecrdv1.NetworkSpec
	reason, inNeutron string
}

func imports(want *samplecrdv1.NetworkSpec, reason, inNeutron string) *verification {
	return &verification{want, reason, inNeutron}
}

// violations returns what is wrong.
func (v *verification) violations(w *World) (violations []string) {
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	w.checkProtected(violate)
	// Of two blocks of the pool that one request has taken, either may stay.
	if got := strings.ReplaceAll(w.describeLegacy(), "fd20:0:0:1::", "fd20::"); got != v.inNeutron {
		violate("the imported network is\n%s\nwant\n%s", got, v.inNeutron)
	}
	for _, n := range w.listNetworks() {
		if w.protected[n.ID] == "" && n.ID != w.ids[legacy] {
			violate("there is another network: %+v", n)
		}
	}
	n := w.Find()
	switch {
	case (v.want == nil) != (n == nil):
		violate("the Network is %+v", n)
	case n == nil:
	case status.Ready(&n.Status).Reason != v.reason || n.Status.ObservedGeneration != n.Generation:
		violate("the Network has the condition %+v, want %s", status.Ready(&n.Status), v.reason)
	// A user who removes the status of a Network that is only observed removes this.
	case !n.IsObserved() && n.Status.Imported != (strings.Contains(v.inNeutron, "MARK") && v.reason != "ImportRefused"):
		violate("status.imported is %t, and the network is %s", n.Status.Imported, v.inNeutron)
	case !n.IsObserved() && !live.HasFinalizer(n):
		violate("the Network has no finalizer")
	}
	return violations
}
