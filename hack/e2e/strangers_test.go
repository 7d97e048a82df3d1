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

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// stranger creates a network with a subnet as another client would, and returns their IDs.
func (w *world) stranger(name, description, cidr string) (network, subnet string) {
	w.Helper()
	n, err := networks.Create(w.Context(), w.neutron.Client, networks.CreateOpts{Name: name, Description: description}).Extract()
	w.must(err)
	return n.ID, w.subnet(n.ID, description, cidr)
}

// subnet creates a subnet as another client would.
func (w *world) subnet(networkID, description, cidr string) string {
	w.Helper()
	s, err := subnets.Create(w.Context(), w.neutron.Client, subnets.CreateOpts{
		NetworkID: networkID, Description: description, CIDR: cidr, IPVersion: gophercloud.IPv4,
	}).Extract()
	w.must(err)
	return s.ID
}

// asItIs returns all fields of a network or subnet in Neutron, with its revision.
func (w *world) asItIs(collection, id string) (all map[string]any) {
	w.Helper()
	_, err := w.neutron.Client.Get(w.Context(), w.neutron.Client.ServiceURL(collection, id), &all, nil)
	w.must(err)
	return all
}

func TestStrangersNetworksAreNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.namespace + "/net"
	var ids [][2]string // of networks and their subnets
	for _, description := range []string{
		"",
		"made by hand",
		"samplecrd.k8s.io/owner=another-cluster/9a1b0e6c-0000-4000-8000-000000000000",
		"samplecrd.k8s.io/owner=",
	} {
		network, subnet := w.stranger(name, description, "10.1.0.0/16")
		ids = append(ids, [2]string{network, subnet})
	}
	look := func() (all []map[string]any) {
		for _, id := range ids {
			all = append(all, w.asItIs("networks", id[0]), w.asItIs("subnets", id[1]))
		}
		return all
	}
	before := look()

	w.start("-resync=1s")
	ours := w.create("net", "10.1.0.0/16", "10.1.0.1")
	for _, id := range ids {
		if ours.Status.NetworkID == id[0] {
			t.Error("an unmanaged network was adopted")
		}
	}
	w.create("net", "10.2.0.0/16", "10.2.0.9")
	w.delete("net")
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("an unmanaged network was changed (-before +after):\n%s", diff)
	}
	if found := w.networks("net"); len(found) != len(ids) {
		t.Errorf("want only the unmanaged networks, got %+v", found)
	}
}

func TestUnmanagedSubnetOnOurNetworkIsNotChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s")
	network := w.create("net", "10.1.0.0/16", "10.1.0.1")
	foreign := w.subnet(network.Status.NetworkID, "by hand", "10.99.0.0/24")
	before := w.asItIs("subnets", foreign)
	w.create("net", "10.1.0.0/16", "10.1.0.2")
	edited := w.create("net", "10.2.0.0/16", "10.2.0.1")
	if diff := cmp.Diff(before, w.asItIs("subnets", foreign)); diff != "" {
		t.Errorf("the unmanaged subnet was changed (-before +after):\n%s", diff)
	}
	w.equal(edited.Status.CIDR, "10.2.0.0/16")
	if n := w.networks("net"); len(n) != 1 || len(n[0].Subnets) != 2 {
		t.Errorf("want our subnet and the unmanaged one, got %+v", n)
	}
	w.delete("net")
	w.nothing("net")
}
