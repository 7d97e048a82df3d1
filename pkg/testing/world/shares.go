// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"slices"
	"strings"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The projects that networks are shared with. Only strangers share one with the last of them.
const (
	projectA        = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	projectB        = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	strangerProject = "cccccccccccccccccccccccccccccccc"
)

// sharedWith returns a change of a spec to these projects.
func sharedWith(projects ...string) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.SharedWith = nil
		for _, project := range projects {
			s.SharedWith = append(s.SharedWith, samplecrdv1.Share{ProjectID: project})
		}
	}
}

// projectsOf returns the projects of the spec, sorted.
func projectsOf(spec *samplecrdv1.NetworkSpec) (projects []string) {
	for _, share := range spec.SharedWith {
		projects = append(projects, share.ProjectID)
	}
	slices.Sort(projects)
	return projects
}

// share is an RBAC policy.
type share struct {
	ID, Action string
	NetworkID  string `json:"object_id"`
	Project    string `json:"target_tenant"`
}

// shares returns the policies for ports of one project each, by their IDs.
func (w *World) shares() map[string]share {
	w.t.Helper()
	defer w.TakeJournal()
	var list struct {
		Policies []share `json:"rbac_policies"`
	}
	w.send(w.adminClient(), http.MethodGet, "rbac-policies", nil, &list)
	byID := map[string]share{}
	for _, s := range list.Policies {
		if s.Action == "access_as_shared" && s.Project != "*" {
			byID[s.ID] = s
		}
	}
	return byID
}

// policyOf returns the ID of the policy that shares the network with the project; "" if there is none.
func (w *World) policyOf(network, project string) string {
	w.t.Helper()
	for id, s := range w.shares() {
		if s.NetworkID == network && s.Project == project {
			return id
		}
	}
	return ""
}

// IsShared reports whether the network is shared with a project at any time.
func (s Scenario) IsShared() bool { return slices.ContainsFunc(s.specs(), isShared) }

func isShared(spec *samplecrdv1.NetworkSpec) bool { return len(spec.SharedWith) > 0 }

// sharesOf describes with whom the network is shared, except by strangers.
func (w *World) sharesOf(network string) string {
	w.t.Helper()
	var projects []string
	for _, s := range w.shares() {
		if s.NetworkID == network && s.Project != strangerProject && !slices.Contains(w.forgotten, s.Project) {
			projects = append(projects, s.Project)
		}
	}
	slices.Sort(projects)
	return describeShares(projects)
}

// forget lets the network be shared with projects that neither the spec nor the status of a backup has: nothing says that the policies
// are the controller's.
func (w *World) forget(restored *samplecrdv1.Network) {
	for _, project := range []string{projectA, projectB} {
		if !slices.Contains(projectsOf(&restored.Spec), project) && !slices.Contains(restored.Status.SharedWith, project) {
			w.forgotten = append(w.forgotten, project)
		}
	}
}

// wantedShares describes with whom the spec shares the network.
func wantedShares(spec *samplecrdv1.NetworkSpec) string { return describeShares(projectsOf(spec)) }

func describeShares(projects []string) string {
	if len(projects) == 0 {
		return ""
	}
	return " shared with " + strings.Join(projects, ", ")
}

// ShareByHand shares the Network's network as a user does. If the project is one that no spec has, Check fails if that ends.
func (w *World) ShareByHand(project string) {
	w.t.Helper()
	if err := w.tryShare(project); err != nil {
		w.t.Fatal(err)
	}
}

// tryShare is ShareByHand for a project that the network may be shared with.
func (w *World) tryShare(project string) error {
	w.t.Helper()
	network := w.Get().Status.NetworkID
	var answer struct {
		Policy share `json:"rbac_policy"`
	}
	err := w.trySend(w.Client, http.MethodPost, "rbac-policies", map[string]any{"rbac_policy": map[string]any{
		"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": project}}, &answer)
	if err == nil && project == strangerProject {
		w.strangersShares[answer.Policy.ID] = network
	}
	return err
}

// shareWithAll shares the network with all projects of the spec, and with one more.
func shareWithAll(w *World) error {
	for _, project := range append(projectsOf(&w.Get().Spec), strangerProject) {
		_ = w.tryShare(project)
	}
	return nil
}

// endShares ends what the spec shares, or has shared.
func endShares(w *World) error {
	for id, s := range w.shares() {
		if s.NetworkID == w.Get().Status.NetworkID && s.Project != strangerProject {
			_ = w.trySend(w.Client, http.MethodDelete, "rbac-policies/"+id, nil, nil)
		}
	}
	return nil
}

// UnshareByHand ends the sharing with a project as a user does.
func (w *World) UnshareByHand(project string) {
	w.t.Helper()
	for id, s := range w.shares() {
		if s.Project == project {
			w.DeleteInNeutron("rbac-policies", id)
		}
	}
}

func (w *World) hasNetwork(id string) bool {
	return slices.ContainsFunc(w.listNetworks(), func(n network) bool { return n.ID == id })
}

// sharedScenarios share the network with other projects.
var sharedScenarios = []Scenario{
	create("create a network that is shared with projects", with(sharedWith(projectB, projectA))),
	edit(otherProjects, with(sharedWith(projectA)), with(sharedWith(projectB))),
	edit(noProjects, with(sharedWith(projectA, projectB)), with()),
	{"a share by hand", with(), once(func(w *World) {
		w.ShareByHand(strangerProject)
		w.ShareByHand(projectA)
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(sharedWith(projectA)) })
	}), with(sharedWith(projectA))},
	{shareStays, with(sharedWith(projectA)), once(func(w *World) {
		w.ShareByHand(strangerProject)
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with() })
	}), with()},
	{"a share ended by hand", with(sharedWith(projectA)), once(func(w *World) { w.UnshareByHand(projectA) }), with(sharedWith(projectA))},
	{"a shared network vanished", with(sharedWith(projectA)), once(func(w *World) { w.DeleteInNeutron("networks", w.Find().Status.NetworkID) }), with(sharedWith(projectA))},
	{"projects that come and go between two syncs", with(sharedWith(projectA)), once(func(w *World) {
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(sharedWith(projectB)) })
		w.Edit(func(n *samplecrdv1.Network) { n.Spec = *with(sharedWith(projectA)) })
	}), with(sharedWith(projectA))},
	edit(otherCIDRAndProject, with(own(public), sharedWith(projectA)), with(own(public), sharedWith(projectB), withCIDR("10.0.0.0/16", ""))),
	{deletedShared, with(sharedWith(projectA)), kubectlDelete, nil},
}

// Names of sharedScenarios that other code refers to.
const (
	otherProjects       = "other projects"
	noProjects          = "no other project any more"
	shareStays          = "a share by hand stays"
	otherCIDRAndProject = "another CIDR of a shared network, and another project"
	deletedShared       = "deletion of a network that is shared with a project"
)
