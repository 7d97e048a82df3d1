// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const policiesPath = "/networking/v2.0/rbac-policies"

// sharedWith returns a change of a spec to these projects.
func sharedWith(projects ...string) edit {
	return func(s *samplecrdv1.NetworkSpec) {
		s.SharedWith = nil
		for _, project := range projects {
			s.SharedWith = append(s.SharedWith, samplecrdv1.Share{ProjectID: project})
		}
	}
}

// projects returns the projects that the network is shared with, as an administrator sees them.
func (c *routedCloud) projects(t *testing.T, id string) (projects []string) {
	t.Helper()
	n := &Network{ID: id}
	noError(t, c.admin.readShares(t.Context(), n))
	for _, s := range n.Shares {
		projects = append(projects, s.ProjectID)
	}
	return projects
}

func TestNextForShares(t *testing.T) {
	share := func(project string) Share { return Share{ID: "id-" + project, NetworkID: "n", ProjectID: project} }
	hidden := Share{NetworkID: "n", ProjectID: "a"}
	for _, test := range []struct {
		name             string
		spec, status     []string
		in               []Share
		want             Step
		projects         []string
		isUnknown, reads bool
	}{
		{name: "nothing", in: []Share{share("a")}},
		{name: "a new project", spec: []string{"a"}, want: ShareNetwork{"a"}, projects: []string{"a"}},
		{name: "a project that is there", spec: []string{"a"}, status: []string{"a"}, in: []Share{share("a"), share("x")}, projects: []string{"a"}},
		{name: "the second of two", spec: []string{"b", "a"}, status: []string{"a", "b"}, in: []Share{share("b")}, want: ShareNetwork{"a"}, projects: []string{"a", "b"}},
		{name: "a project less", status: []string{"a"}, in: []Share{share("a"), share("x")}, want: UnshareNetwork{share("a")}, projects: []string{"a"}},
		{name: "another project comes afterwards", spec: []string{"b"}, status: []string{"a"}, in: []Share{share("a")}, want: UnshareNetwork{share("a")}, projects: []string{"a", "b"}},
		{name: "a project less, which is gone", status: []string{"a"}, in: []Share{share("x")}},
		{name: "what only somebody else has shared", spec: []string{"a"}, in: []Share{share("a"), share("x")}, projects: []string{"a"}},
		{name: "an administrator's", spec: []string{"a"}, in: []Share{hidden}, projects: []string{"a"}},
		{name: "an administrator's, and a project less", status: []string{"a"}, in: []Share{hidden}},
		{name: "not read", spec: []string{"b"}, status: []string{"a"}, isUnknown: true, projects: []string{"a", "b"}},
		{name: "only observed", spec: []string{"b"}, status: []string{"a"}, in: []Share{share("a")}, want: UnshareNetwork{share("a")}, projects: []string{"a"}, reads: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := wants("10.0.0.0/24", "")
			v.Projects, v.SharedWith, v.IsShared, v.ReadOnly = test.spec, test.status, len(test.spec)+len(test.status) > 0, test.reads
			v.Observed = has(ours("s", "10.0.0.0/24", "10.0.0.1"))
			v.Observed.Shares, v.Observed.SharesKnown = test.in, !test.isUnknown
			equal(t, test.want, v.nextForShares())
			equal(t, test.projects, v.CurrentProjects())
			if step, isNew := test.want.(ShareNetwork); isNew {
				equal(t, !slices.Contains(test.status, step.Project), v.isUnrecorded(step))
			}
		})
	}
}

// The subnets and the router come before, and what is no longer declared goes after it. A router that is not found does not matter.
func TestTheOrderOfSharing(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")), sharedWith("a"), withSubnet("more", "10.9.0.0/24"))
	r.synced(t)
	r.Spec.AdditionalSubnets = nil
	sharedWith("b")(&r.Spec)
	existingRouter(byName("gate"))(&r.Spec)
	_, done, err := r.sync(t)
	noError(t, err)
	for i := range done {
		done[i] = anyID.ReplaceAllString(done[i], "ID")
	}
	equal(t, []string{"subnet 10.0.0.0/24 detached from router ID", "subnet 10.9.0.0/24 detached from router ID", "subnet 10.0.0.0/24 attached to router ID",
		"network no longer shared with project a", "network shared with project b", "subnet 10.9.0.0/24 deleted", "router ID deleted"}, done)
	existingRouter(byName("nowhere"))(&r.Spec)
	sharedWith("c")(&r.Spec)
	equal(t, Unresolved, ReasonOf(r.err(t)))
	equal(t, []string{"c"}, c.projects(t, r.Status.NetworkID))
	equal(t, []string{"c"}, r.Status.SharedWith)
}

func TestTheRequestsOfASharedNetwork(t *testing.T) {
	c := newRoutedCloud(t)
	relist := func() { noError(t, c.Observer().Relist(t.Context())) }
	plain := c.declare()
	plain.synced(t)
	relist()
	if calls := c.calls(relist); slices.Contains(calls, "GET rbac-policies") {
		t.Errorf("the policies are listed: %q", calls)
	}

	r := c.declare(sharedWith("a", "b"))
	r.UID = "22222222-2222-4222-8222-222222222222"
	equal(t, []string{"POST networks", "POST subnets", "POST rbac-policies", "POST rbac-policies"}, c.calls(func() { r.synced(t) }))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	c.told = nil
	if calls := c.calls(relist); !slices.Contains(calls, "GET rbac-policies") {
		t.Errorf("the policies are not listed: %q", calls)
	}
	equal(t, 0, len(c.told))

	// What another client removes is there again after a list.
	observed := r.synced(t)
	noError(t, c.others.deleteShare(t.Context(), observed.share("a").ID))
	relist()
	equal(t, 1, len(c.told))
	equal(t, []string{"POST rbac-policies"}, c.calls(func() { r.synced(t) }))

	// Without the list, the cache stays as it is.
	c.answer(replyTo(http.MethodGet, policiesPath, http.StatusForbidden, `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "m"}}`))
	relist()
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	c.answer(nil)

	// A new process asks once for each such network.
	c.Cloud = NewCloud("test", c.Client(), owner.Cluster, c.observer.period)
	relist()
	equal(t, []string{"GET rbac-policies"}, c.calls(func() { r.synced(t) }))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))

	// Nobody shares anything any more: one more list shows that.
	sharedWith()(&r.Spec)
	r.synced(t)
	equal(t, 0, len(r.Status.SharedWith))
	r.synced(t)
	relist()
	if calls := c.calls(relist); slices.Contains(calls, "GET rbac-policies") {
		t.Errorf("the policies are listed: %q", calls)
	}
}

func TestPortsOfAnotherProject(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("project-2"))
	n := r.synced(t)
	theirs := post(t, c.admin, "port", object{"network_id": n.ID, "name": "theirs", "project_id": "project-2"})
	post(t, c.others, "port", object{"network_id": n.ID, "name": "ours"})
	sharedWith("a")(&r.Spec)
	_, done, err := r.sync(t)
	equal(t, []string{"network shared with project a"}, done)
	equal(t, "end sharing with project project-2: in use by port theirs (no device)", err.Error())
	equal(t, InUse, ReasonOf(err))
	equal(t, []string{"a", "project-2"}, r.Status.SharedWith)
	equal(t, []string(nil), c.calls(func() { equal(t, InUse, ReasonOf(r.err(t))) })) // it waits for the ports
	steps := r.preview(t)
	equal(t, []string{"network no longer shared with project project-2", "in use by port theirs (no device)"}, []string{steps[0].Text, steps[0].Blocked})

	// Ports of the project may stay while all projects share the network.
	r.Spec.Shared = true
	put(t, c.admin, "network", n.ID, object{"shared": true})
	noError(t, c.Observer().Relist(t.Context()))
	equal(t, "", r.preview(t)[0].Blocked)
	put(t, c.admin, "network", n.ID, object{"shared": false})
	r.Spec.Shared = false
	noError(t, c.Observer().Relist(t.Context()))

	noError(t, c.deleteByAdmin(t, "ports", theirs))
	noError(t, c.RelistPorts(t.Context()))
	r.synced(t)
	equal(t, []string{"a"}, c.projects(t, n.ID))
}

// deleteByAdmin deletes an object as an administrator.
func (c *routedCloud) deleteByAdmin(t *testing.T, collection, id string) error {
	t.Helper()
	return c.admin.delete(t.Context(), "delete", collection, id, nil)
}

func TestThePoliciesOfOthers(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("a", "b"))
	n := r.synced(t)
	// Somebody else shares it too, and an administrator with a project that is declared later.
	_, err := c.others.createShare(t.Context(), n.ID, "x")
	noError(t, err)
	hidden, err := c.admin.createShare(t.Context(), n.ID, "c")
	noError(t, err)
	noError(t, c.Observer().Relist(t.Context()))
	sharedWith("c")(&r.Spec)
	r.synced(t)
	equal(t, []string{"c", "x"}, c.projects(t, n.ID))
	equal(t, []string{"c"}, r.Status.SharedWith)
	// It is not asked for again, and not taken away.
	c.told = nil
	noError(t, c.Observer().Relist(t.Context()))
	equal(t, 0, len(c.told))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	// Only a live read shows that it is gone.
	noError(t, c.admin.deleteShare(t.Context(), hidden.ID))
	c.Observer().Invalidate(owner.UID) // as after a change whose outcome is not known
	_, err = c.Observe(t.Context(), NewIdentity(r.Network, owner.Cluster), Live)
	noError(t, err)
	r.synced(t)
	equal(t, []string{"c", "x"}, c.projects(t, n.ID))
	_, err = c.admin.createShare(t.Context(), n.ID, "d")
	noError(t, err)
	sharedWith("c", "d")(&r.Spec)
	r.synced(t)
	sharedWith()(&r.Spec)
	r.synced(t)
	equal(t, []string{"d", "x"}, c.projects(t, n.ID))
	equal(t, 0, len(r.Status.SharedWith))
}

func TestAShareWhoseAnswerWasLost(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	sharedWith("a")(&r.Spec)
	_, err := c.others.createShare(t.Context(), n.ID, "a")
	noError(t, err)
	r.synced(t) // the cache does not have it
	equal(t, []string{"a"}, c.projects(t, n.ID))
	sharedWith()(&r.Spec)
	r.synced(t)
	equal(t, []string(nil), c.projects(t, n.ID))
}

func TestAShareOfANetworkThatIsGone(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	gone := r.synced(t)
	noError(t, c.deleteByAdmin(t, "networks", gone.ID))
	sharedWith("a")(&r.Spec)
	n := r.synced(t)
	equal(t, false, n.ID == gone.ID)
	equal(t, []string{"a"}, c.projects(t, n.ID))
}

// Somebody gives the policy to another project at the last moment: it is not the owner's any more.
func TestAPolicyThatBecameAnothers(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("a"))
	n := r.synced(t)
	var answer object
	noError(t, c.others.send(t.Context(), http.MethodPut, object{"rbac_policy": object{"target_tenant": "x"}}, &answer, nil, rbacPolicies, n.share("a").ID))
	sharedWith()(&r.Spec)
	r.synced(t)
	equal(t, []string{"x"}, c.projects(t, n.ID))
	equal(t, 0, len(r.Status.SharedWith))
}

func TestTheNetworksOwnProjectIsRefused(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("project-1"))
	err := r.err(t)
	equal(t, Error{Op: "spec.sharedWith", Reason: Invalid, Message: "project project-1 is the network's own: remove it from the list"}, errorIn(err))
	equal(t, []string(nil), c.projects(t, r.Status.NetworkID))
	equal(t, "project project-1 is the network's own: remove it from the list", r.preview(t)[0].Blocked)
}

// Credentials that now lead to a project that the network is shared with see it, and it is not theirs.
func TestASharedNetworkOfAnotherProjectIsNotTheOwners(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("project-2"))
	n := r.synced(t)
	theirs := NewCloud("test", c.admin, owner.Cluster, c.observer.period)
	noError(t, theirs.Observer().Relist(t.Context()))
	as := NewIdentity(r.Network, owner.Cluster)
	as.CloudName, as.Place.Project = "test", "project-1"
	_, err := theirs.Observe(t.Context(), as, Cached)
	equal(t, OtherCloud, ReasonOf(err))
	// It can be observed there.
	watching := c.declare(func(s *samplecrdv1.NetworkSpec) {
		s.Import, s.ManagementPolicy = &samplecrdv1.ImportSpec{NetworkID: n.ID}, samplecrdv1.ManagementObserve
	})
	v := viewOf(t, watching.Network)
	observed, err := theirs.Observe(t.Context(), v.Identity, Cached)
	noError(t, err)
	v.Observed = observed
	equal(t, []string(nil), v.Differences())
	equal(t, true, observed.IsForeign && observed.Shared)
}

func TestTheDifferencesOfShares(t *testing.T) {
	v := wants("10.0.0.0/24", "")
	v.Projects, v.IsShared = []string{"a", "b"}, true
	v.Observed = has(ours("s", "10.0.0.0/24", "10.0.0.1"))
	v.Observed.Shares, v.Observed.SharesKnown = []Share{{ID: "1", ProjectID: "b"}, {ID: "2", ProjectID: "x"}}, true
	equal(t, []string{"the network is not shared with project a, as far as the credentials can see"}, v.Differences())
}

// What holds up the sharing holds up nothing of the network's own, and the other way round. In the preview too.
func TestAProjectThatStaysHoldsUpNothing(t *testing.T) {
	unshared, gone := "network no longer shared with project project-2", "subnet 10.9.0.0/24 deleted"
	for _, test := range []struct {
		name string
		// theirs: project-2 has a port. ours: the Network's own project has one in the subnet that goes last.
		theirs, ours bool
		edit         edit
		blocked      []string
		projects     []string
		cidrs        []string
		routers      int
	}{
		{"a subnet and the router go", true, false, func(s *samplecrdv1.NetworkSpec) { sharedWith()(s); s.AdditionalSubnets, s.Router = nil, nil },
			[]string{unshared}, []string{"project-2"}, []string{"10.0.0.0/24"}, 0},
		{"a subnet that goes has a port", false, true, func(s *samplecrdv1.NetworkSpec) { sharedWith("b")(s); s.AdditionalSubnets = nil },
			[]string{gone}, []string{"b"}, []string{"10.0.0.0/24", "10.8.0.0/24", "10.9.0.0/24"}, 1},
		{"both", true, true, func(s *samplecrdv1.NetworkSpec) { sharedWith("b")(s); s.AdditionalSubnets = nil },
			[]string{unshared, gone}, []string{"b", "project-2"}, []string{"10.0.0.0/24", "10.8.0.0/24", "10.9.0.0/24"}, 1},
		{"another CIDR, and a project that Neutron refuses", false, false, func(s *samplecrdv1.NetworkSpec) { sharedWith("project-1", "project-2")(s); s.CIDR = "10.7.0.0/24" },
			[]string{"network shared with project project-1"}, []string{"project-2"}, []string{"10.7.0.0/24", "10.8.0.0/24", "10.9.0.0/24"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(sharedWith("project-2"), ownRouterOn(byName("public")), withSubnet("more", "10.8.0.0/24"), withSubnet("last", "10.9.0.0/24"))
			n := r.synced(t)
			var ports []string
			if test.theirs {
				ports = append(ports, post(t, c.admin, "port", object{"network_id": n.ID, "project_id": "project-2", "fixed_ips": []object{{"subnet_id": r.Status.SubnetID}}}))
			}
			if test.ours {
				ports = append(ports, post(t, c.others, "port", object{"network_id": n.ID, "fixed_ips": []object{{"subnet_id": r.Status.Subnets[2].ID}}}))
			}
			test.edit(&r.Spec)
			var blocked []string
			for _, s := range r.preview(t) {
				if s.Blocked != "" {
					blocked = append(blocked, s.Text)
				}
			}
			slices.Sort(blocked)
			for i := range blocked { // what holds up a subnet holds up the first step towards its end
				if strings.HasPrefix(blocked[i], "subnet ") {
					blocked[i] = gone
				}
			}
			equal(t, test.blocked, blocked)
			observed, _, err := r.sync(t)
			equal(t, true, isRefusal(err))
			equal(t, test.cidrs, slices.Sorted(slices.Values(cidrsIn(observed))))
			equal(t, test.projects, c.projects(t, n.ID))
			equal(t, test.routers, len(c.own()))
			if test.theirs && !test.ours { // which of its own subnets goes first is not known
				equal(t, []string(nil), c.calls(func() { equal(t, InUse, ReasonOf(r.err(t))) }))
			}
			if len(ports) == 0 {
				return
			}
			for _, port := range ports {
				noError(t, c.deleteByAdmin(t, "ports", port))
			}
			c.told = nil
			noError(t, c.RelistPorts(t.Context()))
			equal(t, []types.UID{owner.UID}, c.told)
			r.synced(t)
		})
	}
}

// The ports of each project are waited for.
func TestTwoProjectsThatStay(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("project-2", "project-3"))
	n := r.synced(t)
	post(t, c.admin, "port", object{"network_id": n.ID, "project_id": "project-2"})
	second := post(t, c.admin, "port", object{"network_id": n.ID, "project_id": "project-3"})
	sharedWith()(&r.Spec)
	equal(t, InUse, ReasonOf(r.err(t)))
	equal(t, []string(nil), c.calls(func() { equal(t, InUse, ReasonOf(r.err(t))) }))
	noError(t, c.deleteByAdmin(t, "ports", second))
	c.told = nil
	noError(t, c.RelistPorts(t.Context()))
	equal(t, 1, len(c.told))
	equal(t, InUse, ReasonOf(r.err(t)))
	equal(t, []string{"project-2"}, c.projects(t, n.ID))
}

// A duplicate with a port does not go, and holds up no new project.
func TestADuplicateDoesNotHoldUpAShare(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	other := post(t, c.others, "network", object{"name": "default/web", "description": owner.Mark()})
	post(t, c.others, "port", object{"network_id": other})
	noError(t, c.Observer().Relist(t.Context()))
	sharedWith("a")(&r.Spec)
	equal(t, InUse, ReasonOf(r.err(t)))
	equal(t, []string{"a"}, c.projects(t, n.ID))
}

// With the quota used up, one project takes the place of another, and what comes after the shares is done.
func TestTheQuotaOfSharesIsUsedUp(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(sharedWith("a"), withSubnet("more", "10.9.0.0/24"))
	n := r.synced(t)
	c.SetFault(func(request *http.Request) *embedded.Fault {
		if request.Method == http.MethodPost && request.URL.Path == policiesPath && len(c.projects(t, n.ID)) > 0 {
			return &embedded.Fault{Status: http.StatusConflict, Type: "OverQuota"}
		}
		return nil
	})
	sharedWith("b")(&r.Spec)
	r.synced(t)
	equal(t, []string{"b"}, c.projects(t, n.ID))
	sharedWith("b", "c")(&r.Spec)
	r.Spec.AdditionalSubnets = nil
	observed, _, err := r.sync(t)
	equal(t, OverQuota, ReasonOf(err))
	equal(t, []string{"10.0.0.0/24"}, cidrsIn(observed))
	equal(t, []string{"b", "c"}, r.Status.SharedWith)
}
