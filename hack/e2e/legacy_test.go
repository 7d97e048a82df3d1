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
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// legacy is a network that somebody made long before the controller.
type legacy struct{ network, subnet string }

func (w *world) legacy() legacy {
	w.Helper()
	network, subnet := w.stranger("team-net", "do not touch, ask Ann", "10.7.0.0/24")
	w.put("networks", network+"/tags", "tags", []string{"prod"})
	w.put("subnets", subnet, "subnet", map[string]any{"dns_nameservers": []string{"192.0.2.53"}})
	return legacy{network, subnet}
}

// look returns all that Neutron has of the network, except its tags and what changes with each
// change.
func (w *world) look(l legacy) map[string]any {
	w.Helper()
	network, subnet := w.asItIs("networks", l.network)["network"].(map[string]any), w.asItIs("subnets", l.subnet)["subnet"].(map[string]any)
	for _, o := range []map[string]any{network, subnet} {
		for _, name := range []string{"tags", "updated_at", "revision_number"} {
			delete(o, name)
		}
	}
	return map[string]any{"network": network, "subnet": subnet}
}

func (w *world) tags(l legacy) []string {
	w.Helper()
	n, err := networks.Get(w.Context(), w.neutron.Client, l.network).Extract()
	w.must(err)
	slices.Sort(n.Tags)
	return n.Tags
}

// isUnchanged fails if anything but the tags of the network differs.
func (w *world) isUnchanged(before map[string]any, l legacy) {
	w.Helper()
	if diff := cmp.Diff(before, w.look(l)); diff != "" {
		w.Errorf("the network was changed (-before +after):\n%s", diff)
	}
}

// importTag returns the tag that marks the import of the Network.
func (w *world) importTag(network *samplecrdv1.Network) string {
	w.Helper()
	owner, _ := neutron.OwnerOf(w.mark(network))
	return owner.ImportTag()
}

const (
	observe   = "  managementPolicy: Observe\n"
	theSubnet = "  cidr: 10.7.0.0/24\n"
)
