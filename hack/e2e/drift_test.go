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
	"fmt"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

func TestDriftInNeutronIsRepaired(t *testing.T) {
	t.Parallel()
	none, elsewhere, nothing := "", "10.1.0.77", ""
	tests := []struct {
		what   string
		change func(*world, stack.Network) error
		event  string
		// recreated: the network has another ID afterwards.
		recreated bool
	}{
		{"gateway changed", func(w *world, n stack.Network) error {
			pools := []subnets.AllocationPool{{Start: "10.1.0.100", End: "10.1.0.200"}}
			return subnets.Update(w.Context(), w.neutron.Client, n.Subnets[0].ID, subnets.UpdateOpts{GatewayIP: &elsewhere, AllocationPools: pools}).Err
		}, "gateway set to 10.1.0.1", false},
		{"gateway removed", func(w *world, n stack.Network) error {
			return subnets.Update(w.Context(), w.neutron.Client, n.Subnets[0].ID, subnets.UpdateOpts{GatewayIP: &none}).Err
		}, "gateway set to 10.1.0.1", false},
		{"subnet deleted", func(w *world, n stack.Network) error {
			return subnets.Delete(w.Context(), w.neutron.Client, n.Subnets[0].ID).Err
		}, "subnet 10.1.0.0/16 created", false},
		{"network deleted", func(w *world, n stack.Network) error {
			return networks.Delete(w.Context(), w.neutron.Client, n.ID).Err
		}, "network created, subnet 10.1.0.0/16 created", true},
		{"mark wiped off the network", func(w *world, n stack.Network) error {
			return networks.Update(w.Context(), w.neutron.Client, n.ID, networks.UpdateOpts{Description: &nothing}).Err
		}, "ownership mark restored", false},
		{"mark wiped off the subnet", func(w *world, n stack.Network) error {
			return subnets.Update(w.Context(), w.neutron.Client, n.Subnets[0].ID, subnets.UpdateOpts{Description: &nothing}).Err
		}, "ownership mark of the subnet restored", false},
		{"network renamed", func(w *world, n stack.Network) error {
			other := "other"
			return networks.Update(w.Context(), w.neutron.Client, n.ID, networks.UpdateOpts{Name: &other}).Err
		}, "name set to", false},
		{"subnet renamed", func(w *world, n stack.Network) error {
			other := "other"
			return subnets.Update(w.Context(), w.neutron.Client, n.Subnets[0].ID, subnets.UpdateOpts{Name: &other}).Err
		}, "subnet name set to", false},
	}
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	for i, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			network := w.create(name, "10.1.0.0/16", "10.1.0.1")
			before := w.matches(name, "10.1.0.0/16", "10.1.0.1")
			w.calls.take()
			w.must(tc.change(w, before))
			w.waitForEvent(name, samplecrdv1.EventDriftRepaired, tc.event)
			w.eventually(func() error { // the status is written just after the event
				if found := w.networks(name); w.get(name).Status.NetworkID != found[0].ID || w.get(name).Status.SubnetID != found[0].Subnets[0].ID {
					return fmt.Errorf("the status does not show %+v", found)
				}
				return nil
			})
			after := w.matches(name, "10.1.0.0/16", "10.1.0.1")
			if (after.ID != before.ID) != tc.recreated {
				t.Errorf("network %s became %s", before.ID, after.ID)
			}
			w.equal(after.Description, w.mark(network))
			w.equal(after.Subnets[0].Description, w.mark(network))
			made := 0
			if tc.recreated {
				made = 1
			}
			if n := w.calls.take()["POST networks"]; n != made {
				t.Errorf("%d networks were created, want %d", n, made)
			}
			if n := w.warnings(name); n != 0 {
				t.Errorf("%d warnings", n)
			}
			w.delete(name)
		})
	}
}
