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
	"slices"
	"strings"
	"testing"

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

// importing applies a Network that imports the network.
func (w *world) importing(name string, l legacy, lines ...string) {
	w.Helper()
	_, err := w.tryKubectl(fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata:\n  name: %s\nspec:\n  import: {networkID: %s}\n", name, l.network)+
		strings.Join(lines, ""), "apply", "-f", "-")
	w.must(err)
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

func TestImportedNetworkIsTakenOverAndGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	l := w.legacy()
	before := w.look(l)

	w.importing("net", l, theSubnet)
	network := w.waitReady("net")
	w.waitForEvent("net", samplecrdv1.EventImported, `Imported network `+l.network+`, named "team-net", with subnet 10.7.0.0/24; it matches the spec`)
	w.isUnchanged(before, l)
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(network)}))
	w.equal(network.Status.CIDR, "10.7.0.0/24")
	w.equal(network.Status.SubnetID, l.subnet)

	// What the spec declares is kept, and nothing else.
	w.importing("net", l, theSubnet, "  gateway: 10.7.0.254\n")
	w.waitForEvent("net", samplecrdv1.EventUpdated, "gateway set to 10.7.0.254")
	w.put("networks", l.network, "network", map[string]any{"name": "renamed by Ann"})
	w.put("subnets", l.subnet, "subnet", map[string]any{"gateway_ip": "10.7.0.253", "allocation_pools": []map[string]string{{"start": "10.7.0.10", "end": "10.7.0.20"}}})
	w.waitForEvent("net", samplecrdv1.EventDriftRepaired, "gateway set to 10.7.0.254")
	changed := w.look(l)
	w.equal(changed["network"].(map[string]any)["name"].(string), "renamed by Ann")
	w.equal(changed["network"].(map[string]any)["description"].(string), "do not touch, ask Ann")

	w.delete("net")
	w.isUnchanged(changed, l)
	w.equal(fmt.Sprint(w.tags(l)), "[prod]")
	w.waitForEvent("net", samplecrdv1.EventDeleted, "Left the imported network "+l.network+" in Neutron without its ownership mark")
}
