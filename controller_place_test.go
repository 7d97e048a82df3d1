// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// The place: which project and region the controller's credentials lead to.

const severalRegions = "it is in several regions: set region_name in clouds.yaml, or OS_REGION_NAME, to one of \"RegionOne\", \"RegionTwo\""

// syncAnyway lists Neutron, and syncs even if that fails. It returns both errors.
func (f *fixture) syncAnyway() (listErr, err error) {
	f.t.Helper()
	listErr = f.cloud.Observer().Relist(f.t.Context())
	return listErr, f.sync()
}

// restartWith starts a process with this clouds.yaml. Its first list of Neutron may fail.
func (f *fixture) restartWith(cloudsYAML []byte) {
	f.t.Helper()
	f.Configure(cloudsYAML)
	f.startWithoutList(world.Cluster)
}

// withRegion returns the clouds.yaml of the controller with this region.
func (f *fixture) withRegion(name string) []byte {
	return regexp.MustCompile("region_name: .*").ReplaceAll(f.Neutron.CloudsYAML("test"), []byte("region_name: "+name))
}

// An operator adds a region to the catalog, before the one that the credentials used so far
// without naming it, and the controller starts again.
func TestRegionThatIsAddedLosesNoNetwork(t *testing.T) {
	for _, test := range []struct {
		name string
		// before changes the status that was written when there was one region.
		before func(*samplecrdv1.NetworkStatus)
	}{
		{"status with the region", func(*samplecrdv1.NetworkStatus) {}},
		{"status without the region", func(s *samplecrdv1.NetworkStatus) { s.Region = "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
			f.restartWith(f.CloudsYAMLWithout("region_name"))
			_, err := f.syncAnyway()
			must(t, err)
			was := f.Get().Status
			if was.Region != "RegionOne" {
				t.Errorf("the region in the status is %q", was.Region)
			}
			f.Edit(func(n *samplecrdv1.Network) { test.before(&n.Status); was = n.Status })
			made := f.projectNetworks()
			f.Neutron.SetRegions(embedded.Region{Name: "RegionTwo", Neutron: "two"}, embedded.Region{Name: "RegionOne"})

			stays := func(step, reason, message string) {
				t.Helper()
				for range 3 {
					if _, err := f.syncAnyway(); err == nil {
						t.Errorf("%s: no error", step)
					}
				}
				n := f.Get()
				if ready := status.Ready(&n.Status); ready.Reason != reason || !strings.Contains(ready.Message, message) {
					t.Errorf("%s: got %+v", step, ready)
				}
				if n.Status.NetworkID != was.NetworkID || n.Status.ProjectID != was.ProjectID || n.Status.Region != was.Region || !live.HasFinalizer(n) {
					t.Errorf("%s: got %+v", step, n)
				}
				if diff := gocmp.Diff(made, f.projectNetworks()); diff != "" {
					t.Errorf("%s: in Neutron (-want +got):\n%s", step, diff)
				}
			}
			f.restartWith(f.CloudsYAMLWithout("region_name"))
			stays("no region named", samplecrdv1.ReasonAuthenticationFailed, severalRegions)
			f.restartWith(f.withRegion("RegionTwo"))
			stays("the wrong region named", samplecrdv1.ReasonOtherCloud, `in region "RegionTwo", does not have it`)
			f.Edit(world.BeingDeleted)
			stays("being deleted, the wrong region named", samplecrdv1.ReasonOtherCloud, `in region "RegionTwo", does not have it`)
			f.restartWith(f.CloudsYAMLWithout("region_name"))
			stays("being deleted, no region named", samplecrdv1.ReasonAuthenticationFailed, severalRegions)

			f.restartWith(f.withRegion("RegionOne"))
			if _, err := f.syncAnyway(); err != nil || f.Find() != nil || len(f.projectNetworks()) > 0 {
				t.Errorf("got %v, want that the Network and its network are gone", err)
			}
		})
	}
}

// interruptions are what happens to the credentials at the moment when the token is refused.
// After back, they lead to the same place again.
var interruptions = []struct {
	name         string
	isMove       bool
	happen, back func(*world.World) error
}{
	{"only the token is revoked", false, func(*world.World) error { return nil }, func(*world.World) error { return nil }},
	{"the default project changes", true,
		func(w *world.World) error { return w.Neutron.SetDefaultProject("samplecrd", "admin") },
		func(w *world.World) error { return w.Neutron.SetDefaultProject("samplecrd", "samplecrd") }},
	{"the region moves to another Neutron under another name", true, func(w *world.World) error {
		w.Neutron.SetRegions(embedded.Region{Name: "RegionTwo", Neutron: "two"})
		return nil
	}, func(w *world.World) error { w.Neutron.SetRegions(embedded.Region{Name: "RegionOne"}); return nil }},
	{"a region is added in front", true, func(w *world.World) error {
		w.Neutron.SetRegions(embedded.Region{Name: "RegionTwo", Neutron: "two"}, embedded.Region{Name: "RegionOne"})
		return nil
	}, func(w *world.World) error { w.Neutron.SetRegions(embedded.Region{Name: "RegionOne"}); return nil }},
}

// TestTokenRefusedAtEveryRequest revokes the token at every request of every scenario, and what
// the credentials lead to may change at the same time.
func TestTokenRefusedAtEveryRequest(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for number, s := range world.Scenarios {
			nth := 7 // odd, so that each interruption is in the sample
			if s.IsRouted() {
				nth = 31
			}
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for request := 1; !t.Failed(); request++ {
					if leftOut(number+request, nth) {
						continue
					}
					if !refuseToken(t, s, request, (number+request)%len(interruptions)) {
						break
					}
					runs.Add(1)
				}
			})
		}
	})
	t.Logf("%d refused tokens", runs.Load())
}

// refuseToken lets a controller run the scenario, with the interruption at this request, and
// another process finish it. It reports whether there were that many requests.
func refuseToken(t *testing.T, s world.Scenario, request, interruption int) (happened bool) {
	t.Helper()
	f, during := prepareUnscoped(t, s), interruptions[interruption]
	before := f.projectNetworks()
	project := before[slices.IndexFunc(before, func(n embedded.Network) bool { return n.Name == "default/net-a" })].ProjectID
	f.RevokeTokenAt(request, func() {
		happened = true
		if err := during.happen(f.World); err != nil {
			t.Error(err)
		}
	})
	err := f.settle(s.Act)
	if err != nil && (!happened || !during.isMove) {
		t.Errorf("request %d: %v", request, err)
	}
	// The syncs go on although the lists fail. One that finds everything in the cache succeeds.
	for range 3 {
		s.Act(f.World)
		listErr, err := f.syncAnyway()
		if happened && during.isMove && (neutron.ReasonOf(listErr) != neutron.Unauthenticated || err != nil && neutron.ReasonOf(err) != neutron.Unauthenticated) {
			t.Errorf("request %d: list: %v, sync: %v", request, listErr, err)
		}
	}
	for _, n := range f.projectNetworks() {
		if n.ProjectID != project && !slices.Contains(before, n) || n.Neutron != "" {
			t.Errorf("request %d: made elsewhere: %+v", request, n)
		}
	}
	must(t, during.back(f.World))
	f.Configure(f.CloudsYAMLWithout("project_name", "project_domain_name", "region_name"))
	for _, violation := range f.finish(s) {
		t.Errorf("request %d: %s", request, violation)
	}
	if t.Failed() {
		t.Logf("the interruption is: %s", during.name)
	}
	return happened
}

// projectNetworks returns the networks in Neutron, except the external ones, which belong to the
// cloud.
func (f *fixture) projectNetworks() []embedded.Network {
	return slices.DeleteFunc(f.Neutron.Networks(), func(n embedded.Network) bool { return n.IsExternal })
}

// prepareUnscoped is prepare, and its controller has credentials that name neither a project
// nor a region.
func prepareUnscoped(t *testing.T, s world.Scenario) *fixture {
	t.Helper()
	f := prepare(t, s)
	f.Configure(f.CloudsYAMLWithout("project_name", "project_domain_name", "region_name"))
	f.start()
	return f
}

// The network of a Network gets the mark of another Network, as when it is handed over to another cluster, or when this Network is
// restored with its status from a backup of one. However often it is synced, it gets no second network, and its deletion leaves that one.
func TestNetworkWhoseNetworkHasAnotherOwner(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", "10.0.0.1"))
	f.mustSync()
	before := f.Get().Status
	own, other := f.Descriptions()[0], neutron.Owner{Cluster: "another-cluster", UID: "33333333-0000-4000-8000-000000000000"}.Mark()
	remark := func(description string) {
		must(t, networks.Update(t.Context(), f.Client, before.NetworkID, networks.UpdateOpts{Description: &description}).Err)
		must(t, subnets.Update(t.Context(), f.Client, before.SubnetID, subnets.UpdateOpts{Description: &description}).Err)
		f.relist()
		f.TakeChanges()
	}
	remark(other)
	for range 3 {
		f.mustFail(neutron.OtherOwner)
		f.ExpectReady(samplecrdv1.ReasonOtherOwner, samplecrdv1.ConditionStalled)
		if n := f.Get(); n.Status.NetworkID != before.NetworkID {
			t.Errorf("the status has forgotten the network: %+v", n.Status)
		}
		f.relist()
	}
	f.restart()
	f.mustFail(neutron.OtherOwner)

	remark(own)
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)

	remark(other)
	f.Edit(world.BeingDeleted)
	f.mustSync()
	if f.Find() != nil || len(f.TakeChanges()) > 0 {
		t.Errorf("the Network is still there, or its deletion has changed Neutron: %+v", f.Find())
	}
}
