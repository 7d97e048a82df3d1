/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"fmt"
	"strings"
	"testing"

	osnetworks "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// Two clusters whose controllers work in one project.

// second returns the fixture of another cluster with the same project in Neutron. Its controller
// has this cluster ID.
func (f *fixture) second(cluster string, networks ...*samplecrdv1.Network) *fixture {
	f.t.Helper()
	s := &fixture{World: world.New(f.t, networks...), t: f.t}
	_ = s.Neutron.Close()
	s.Neutron, s.Client = f.Neutron, f.Client
	s.startAs(cluster)
	return s
}

// clone returns a second cluster with a copy of the Network and its status.
func (f *fixture) clone(cluster string) *fixture {
	f.t.Helper()
	return f.second(cluster, f.Get().DeepCopy())
}

// expectQuiet expects that a relist finds no drift, and that a sync has nothing to do.
func (f *fixture) expectQuiet() {
	f.t.Helper()
	before := f.controller.queue.Len()
	f.relist()
	if n := f.controller.queue.Len() - before; n > 0 {
		f.t.Errorf("%d keys are enqueued", n)
	}
	if err := f.sync(); err != nil {
		f.t.Error(err)
	}
	if events := f.TakeEvents(); len(events) > 0 {
		f.t.Errorf("got the events %q", events)
	}
}

func gatewayOf(gateway string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) { n.Spec.Gateway = gateway }
}

// By mistake both have the same cluster ID. The UIDs differ, so each Network has its own network,
// even if the names are equal.
func TestTwoInstallationsWithOneClusterIDKeepTheirOwnNetworks(t *testing.T) {
	const first, theirs = "default/net-a 10.0.0.0/24 10.0.0.1", "default/net-a 10.0.0.0/24 10.0.0.9"
	f := ready(t, "10.0.0.0/24", "")
	s := f.second(world.Cluster, world.NewNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) { n.UID = "33333333-0000-0000-0000-000000000000" }))
	s.mustSync()
	f.ExpectNeutron(first, first)
	f.expectQuiet()
	s.Edit(gatewayOf("10.0.0.9"))
	s.mustSync()
	f.ExpectNeutron(first, theirs)
	f.expectQuiet()
	s.Edit(world.BeingDeleted)
	s.mustSync()
	f.ExpectNeutron(first)
	f.expectQuiet()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
}

// A clone has the same UIDs and, by default, the same cluster ID: both manage one network.
func TestCloneOfAClusterManagesTheSameNetworks(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	id := f.Get().Status.NetworkID
	s := f.clone(world.Cluster)
	s.expectQuiet()
	f.expectQuiet()

	// With specs that differ, each one changes what the other one has set.
	s.Edit(gatewayOf("10.0.0.9"))
	s.mustSync()
	for range 2 {
		for _, now := range []*fixture{f, s} {
			now.TakeEvents()
			now.relist()
			now.mustSync()
			if events := fmt.Sprint(now.TakeEvents()); !strings.Contains(events, samplecrdv1.EventDriftRepaired) {
				t.Errorf("got the events %s", events)
			}
		}
	}

	// Neutron keeps a network that is in use. Another one goes, and is created again.
	f.CreatePort(id)
	s.Edit(world.BeingDeleted)
	s.mustFail(neutron.InUse)
	f.DeletePorts()
	s.relistPorts()
	s.mustSync()
	f.ExpectNeutron()
	f.relist()
	f.mustSync()
	f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
	if f.Get().Status.NetworkID == id {
		t.Error("the network has the same ID")
	}
}

func TestCloneWithAClusterIDOfItsOwnCreatesItsOwnNetworks(t *testing.T) {
	const line = "default/net-a 10.0.0.0/24 10.0.0.1"
	f := ready(t, "10.0.0.0/24", "")
	s := f.clone("clone")
	s.mustSync()
	s.ExpectReady(samplecrdv1.ReasonAvailable)
	f.ExpectNeutron(line, line)
	f.expectQuiet()
	s.Edit(world.BeingDeleted)
	s.mustSync()
	f.ExpectNeutron(line)
	f.expectQuiet()
	for _, violation := range f.Check(&f.Get().Spec) {
		t.Error(violation)
	}
}

// This is what artifacts/deploy/README.md recommends for a cluster that gets another cluster ID.
func TestNetworksWhoseMarksAreRewrittenBelongToTheNewClusterID(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	n := f.Get()
	description := strings.Replace(neutron.Owner{Cluster: world.Cluster, UID: n.UID}.Mark(), world.Cluster, "new", 1)
	if err := osnetworks.Update(t.Context(), f.Client, n.Status.NetworkID, osnetworks.UpdateOpts{Description: &description}).Err; err != nil {
		t.Fatal(err)
	}
	if err := subnets.Update(t.Context(), f.Client, n.Status.SubnetID, subnets.UpdateOpts{Description: &description}).Err; err != nil {
		t.Fatal(err)
	}
	f.startAs("new")
	f.TakeWrites()
	f.expectQuiet()
	if writes := f.TakeWrites(); len(writes) > 0 {
		t.Errorf("got the requests %q", writes)
	}
	if f.Get().Status.NetworkID != n.Status.NetworkID {
		t.Error("the network is another one")
	}
	f.Edit(world.BeingDeleted)
	f.mustSync()
	f.ExpectNeutron()
}
