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

package neutron

import (
	"regexp"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// What Converge would learn only when Neutron refuses a step, a preview tells before.
func TestPreviewOfWhatNeutronRefuses(t *testing.T) {
	t.Parallel()
	gateway := func(address string) func(*samplecrdv1.NetworkSpec) {
		return func(s *samplecrdv1.NetworkSpec) { s.Gateway = address }
	}
	gate := existingRouter(byName("gate"))
	for _, test := range []struct {
		name string
		// before is what other clients do. n is the network with the subnet 10.0.0.0/24.
		before func(t *testing.T, c *routedCloud, n *Network)
		spec   []func(*samplecrdv1.NetworkSpec)
		// step is the one that is prevented.
		step, blocked string
	}{
		{"a subnet of another client overlaps", func(t *testing.T, c *routedCloud, n *Network) {
			post(t, c.others, "subnet", object{"network_id": n.ID, "cidr": "10.1.0.0/25", "ip_version": 4})
		}, []func(*samplecrdv1.NetworkSpec){withSubnet("more", "10.1.0.0/24")},
			"subnet 10.1.0.0/24 created", "10.1.0.0/24 overlaps with subnet 10.1.0.0/25 (ID) of the network, which is left alone"},
		{"DHCP needs two addresses", nil, []func(*samplecrdv1.NetworkSpec){withSubnet("more", "10.1.0.0/31")},
			"subnet 10.1.0.0/31 created", "Neutron does not accept 10.1.0.0/31 with this gateway, these allocation pools and DHCP"},
		{"another client's router has the gateway", func(t *testing.T, c *routedCloud, n *Network) {
			_, err := c.others.AttachSubnet(t.Context(), c.makeRouter(t, "theirs", ""), n.Subnets[0].ID)
			noError(t, err)
		}, []func(*samplecrdv1.NetworkSpec){gateway("10.0.0.9"), gate},
			"gateway 10.0.0.1 → 10.0.0.9", "the address of the gateway, 10.0.0.1, is in use by router ID (port ID)"},
		{"a subnet without a gateway has no interface", nil, []func(*samplecrdv1.NetworkSpec){gateway("None"), gate},
			"subnet 10.0.0.0/24 attached to router ID", "subnet 10.0.0.0/24 has no gateway, which an interface of a router needs"},
		{"a port has the address of the gateway", func(t *testing.T, c *routedCloud, n *Network) {
			post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.Subnets[0].ID, "ip_address": "10.0.0.1"}}})
		}, []func(*samplecrdv1.NetworkSpec){gate},
			"subnet 10.0.0.0/24 attached to router ID", "the address of the gateway, 10.0.0.1, is in use by port web-0 (no device)"},
		{"the router has a subnet that overlaps", func(t *testing.T, c *routedCloud, _ *Network) {
			other := legacyOf(t, c.others, "", "10.0.0.0/25")
			_, err := c.others.AttachSubnet(t.Context(), c.gate, other.Subnets[0].ID)
			noError(t, err)
		}, []func(*samplecrdv1.NetworkSpec){gate},
			"subnet 10.0.0.0/24 attached to router ID", "10.0.0.0/24 overlaps with 10.0.0.0/25 (ID), which is attached to router ID"},
		{"the obsolete router is attached to another network", func(t *testing.T, c *routedCloud, _ *Network) {
			other := legacyOf(t, c.others, "", "10.7.0.0/24")
			_, err := c.others.AttachSubnet(t.Context(), c.makeRouter(t, "former", owner.Mark()), other.Subnets[0].ID)
			noError(t, err)
		}, []func(*samplecrdv1.NetworkSpec){gate},
			"router ID deleted", "in use by port ID (network:router_interface)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare()
			n := r.synced(t)
			if test.before != nil {
				test.before(t, c, n)
			}
			for _, change := range test.spec {
				change(&r.Spec)
			}
			c.ageNames()
			noError(t, c.Observer().Relist(t.Context()))
			desired, err := NewDesired(r.Network, owner.Cluster)
			noError(t, err)
			preview, err := c.Preview(t.Context(), NewIdentity(r.Network, owner.Cluster), desired)
			noError(t, err)
			var step, blocked string
			for _, s := range preview.Steps {
				if s.Blocked != "" {
					step, blocked = s.Text, s.Blocked
				}
			}
			equal(t, test.step, anyID.ReplaceAllString(step, "ID"))
			equal(t, test.blocked, anyID.ReplaceAllString(blocked, "ID"))
			if _, _, err := r.sync(t); err == nil {
				t.Error("Neutron accepts all steps")
			}
		})
	}
}

// anyID matches the IDs in texts.
var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
