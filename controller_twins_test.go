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
