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
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestPreview(t *testing.T) {
	from := func(cidr, gateway string) Desired { return wants(cidr, gateway) }
	type line struct{ text, interrupts, blocked string }
	for _, test := range []struct {
		name        string
		first, then Desired
		port        bool
		want        []line
	}{
		{"a new network", Desired{}, from("10.0.0.0/24", ""), false, []line{{text: "network created"}, {text: "subnet 10.0.0.0/24 created"}}},
		{"another gateway", from("10.0.0.0/24", ""), from("10.0.0.0/24", "10.0.0.254"), true, []line{{text: "gateway 10.0.0.1 → 10.0.0.254"}}},
		{"another CIDR, with a port", from("10.0.0.0/24", ""), from("10.1.0.0/24", ""), true,
			[]line{{text: "subnet 10.0.0.0/24 replaced by 10.1.0.0/24", blocked: "in use by port web-0 (no device)"}, {text: "subnet 10.0.0.0/24 deleted"}}},
		{"a CIDR that overlaps", from("10.0.0.0/24", ""), from("10.0.0.0/16", ""), false,
			[]line{{"subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps", "the old subnet goes before the new one comes", ""}, {text: "subnet 10.0.0.0/16 created"}}},
		{"a CIDR that overlaps, with a port", from("10.0.0.0/24", ""), from("10.0.0.0/16", ""), true,
			[]line{{"subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps", "the old subnet goes before the new one comes", "in use by port web-0 (no device)"},
				{text: "subnet 10.0.0.0/16 created"}}},
		{"a subnet less, with a port", wants("10.0.0.0/24", "", with("more", "10.1.0.0/24")), from("10.0.0.0/24", ""), true, []line{{text: "subnet 10.1.0.0/24 deleted"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, embedded.Options{})
			as := Identity{Owner: owner}
			if test.first.Name != "" {
				n, _ := w.converge(t, test.first, &Network{})
				as.NetworkID = n.ID
				if test.port {
					makePortIn(t, w.others, n, "10.0.0.0/24")
				}
			}
			before := w.writes()
			noError(t, w.Observer().Relist(t.Context()))
			preview, err := w.Preview(t.Context(), as, test.then)
			noError(t, err)
			equal(t, before, w.writes())
			var got []line
			for _, s := range preview.Steps {
				got = append(got, line{s.Text, s.Interrupts, s.Blocked})
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(line{}), comparers); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// makePortIn creates a port with an address in the subnet.
func makePortIn(t *testing.T, c *Client, n *Network, in string) {
	t.Helper()
	service, err := c.connect(t.Context())
	noError(t, err)
	at := slices.IndexFunc(n.Subnets, func(s Subnet) bool { return s.CIDR == cidr(in) })
	opts := ports.CreateOpts{NetworkID: n.ID, Name: "web-0", FixedIPs: []ports.IP{{SubnetID: n.Subnets[at].ID}}}
	noError(t, ports.Create(t.Context(), service, opts).Err)
}
