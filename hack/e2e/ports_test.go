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

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// port creates a port on a network, as a server would, and returns its ID.
func (w *world) port(networkID, name string) string {
	w.Helper()
	port, err := ports.Create(w.Context(), w.neutron.Client, ports.CreateOpts{NetworkID: networkID, Name: name}).Extract()
	w.must(err)
	return port.ID
}

func (w *world) removePort(id string) {
	w.Helper()
	w.must(ports.Delete(w.Context(), w.neutron.Client, id).ExtractErr())
}

func TestSubnetStaysWhileThereArePortsOnIt(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, cidr, gateway string }{
		{"elsewhere", "10.9.0.0/16", "10.9.0.1"},
		{"overlapping, so that the old one has to go first", "10.1.0.0/24", "10.1.0.1"},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(retryQuickly)
			before := w.create("net", "10.1.0.0/16", "10.1.0.1")
			port := w.port(before.Status.NetworkID, "server-1")
			w.apply("net", tc.cidr, tc.gateway)
			blocked := w.waitNotReady("net", samplecrdv1.ReasonInUse)
			w.contains(condition(blocked, samplecrdv1.ConditionReady).Message, "server-1", "10.1.0.0/16")
			w.equal(blocked.Status.SubnetID, before.Status.SubnetID)
			w.matches("net", "10.1.0.0/16", "10.1.0.1")
			w.waitForEvent("net", samplecrdv1.ReasonInUse, "server-1")
			w.removePort(port)
			w.waitReady("net")
			if n := w.matches("net", tc.cidr, tc.gateway); n.ID != before.Status.NetworkID {
				t.Error("the network is another one")
			}
		})
	}
}

func TestNetworkStaysWhileThereArePortsOnIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	network := w.create("net", "10.1.0.0/16", "10.1.0.1")
	port := w.port(network.Status.NetworkID, "server-1")
	w.kubectl("delete", "network", "net", "--wait=false")
	blocked := w.waitNotReady("net", samplecrdv1.ReasonInUse)
	w.contains(condition(blocked, samplecrdv1.ConditionReady).Message, "delete network", "server-1")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
	w.removePort(port)
	w.waitGone("net")
	w.nothing("net")
}
