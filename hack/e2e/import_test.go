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
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestImportTellsWhatDiffersBeforeItChangesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	l := w.legacy()
	w.importing("net", l, theSubnet, "  gateway: 10.7.0.254\n  mtu: 1400\n")
	w.waitReady("net")
	event := w.waitForEvent("net", samplecrdv1.EventImported, "it differs from the spec, and is changed: ")
	w.contains(event.Message, "MTU", "1400", "gateway", "10.7.0.1", "10.7.0.254")
	w.waitForEvent("net", samplecrdv1.EventUpdated, "MTU set to 1400")
	s, err := subnets.Get(t.Context(), w.neutron.Client, l.subnet).Extract()
	w.must(err)
	w.equal(s.GatewayIP, "10.7.0.254")
}

func TestImportedNetworkIsDeletedOnlyIfTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	l := w.legacy()
	w.importing("net", l, "  deletionPolicy: Delete\n")
	w.waitReady("net")
	w.delete("net")
	w.nothing("team-net")
}

// Two Networks import one network: one gets it. The other one says whose it is, and gets it next.
func TestOnlyOneNetworkGetsAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	l := w.legacy()
	before := w.look(l)
	w.importing("first", l)
	first := w.waitReady("first")
	w.importing("second", l)
	refused := w.waitNotReady("second", samplecrdv1.ReasonImportRefused)
	w.contains(condition(refused, samplecrdv1.ConditionStalled).Message, "is imported by the Network "+w.namespace+"/first")
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(first)}))
	w.delete("first")
	second := w.waitReady("second")
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(second)}))
	w.isUnchanged(before, l)
}

func TestWhatMustNotBeImportedIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start("-resync=1s", retryQuickly)
	ours := w.create("ours", "10.1.0.0/24", "")
	for i, test := range []struct {
		why, network, reason, message string
	}{
		{"a network of another Network", ours.Status.NetworkID, samplecrdv1.ReasonImportRefused, "was created for the Network " + w.namespace + "/ours"},
		{"an external network", w.publicID(), samplecrdv1.ReasonImportRefused, ""},
		{"a network that is not there", "5a0f1e2c-0000-4000-8000-000000000001", samplecrdv1.ReasonNetworkNotFound, "there is no network 5a0f1e2c-0000-4000-8000-000000000001 that the credentials can see"},
	} {
		t.Run(test.why, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			w.importing(name, legacy{network: test.network})
			w.contains(condition(w.waitNotReady(name, test.reason), samplecrdv1.ConditionReady).Message, test.message)
			w.delete(name)
		})
	}
	w.matches("ours", "10.1.0.0/24", "10.1.0.1")
}

func TestObservedNetworkIsNeverWrittenTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.start("-resync=1s", retryQuickly)
	l := w.legacy()
	before := w.look(l)
	w.importing("net", l, observe)
	w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonObserved)
	w.importing("net", l, observe, theSubnet, "  gateway: 10.7.0.254\n  dnsNameservers: [192.0.2.53]\n")
	network := w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonDiffers)
	message := condition(network, samplecrdv1.ConditionReady).Message
	w.contains(message, "gateway", "10.7.0.1", "10.7.0.254")
	if strings.Contains(message, "DNS") {
		t.Errorf("the DNS servers do not differ: %s", message)
	}
	w.waitForEvent("net", samplecrdv1.ReasonDiffers, "10.7.0.254")
	w.contains(w.kubectl("get", "networks", "net"), "10.7.0.0/24", "10.7.0.1", "True", "Differs")

	// Others change it: the status tells, and the network stays as they want it.
	w.put("subnets", l.subnet, "subnet", map[string]any{"gateway_ip": "10.7.0.254", "allocation_pools": []map[string]string{{"start": "10.7.0.10", "end": "10.7.0.20"}}})
	w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonObserved)
	w.put("subnets", l.subnet, "subnet", map[string]any{"gateway_ip": "10.7.0.1"})
	w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonDiffers)
	w.put("subnets", l.subnet, "subnet", map[string]any{"allocation_pools": []map[string]string{{"start": "10.7.0.2", "end": "10.7.0.254"}}})
	w.isUnchanged(before, l)
	w.equal(fmt.Sprint(w.tags(l)), "[prod]")

	// Nothing holds up its deletion, not even that no controller is there.
	w.kill(c)
	w.delete("net")
	w.isUnchanged(before, l)
}

func TestObserveAndManagedMayBeChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	l := w.legacy()
	w.importing("net", l, observe, theSubnet, "  gateway: 10.7.0.254\n")
	w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonDiffers)
	w.importing("net", l, theSubnet, "  gateway: 10.7.0.254\n")
	network := w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonAvailable)
	w.equal(network.Status.Gateway, "10.7.0.254")
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(network)}))

	managed := w.look(l)
	w.importing("net", l, observe, theSubnet, "  gateway: 10.7.0.9\n")
	w.waitFor("net", metav1.ConditionTrue, samplecrdv1.ReasonDiffers)
	w.isUnchanged(managed, l)
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(network)})) // not even the mark is removed
	w.delete("net")
	w.waitForEvent("net", samplecrdv1.EventDeleted, "the tag that begins with samplecrd-owner-"+string(network.UID))
	w.isUnchanged(managed, l)
}

func TestImportedNetworkThatVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	for policy, reason := range map[string]string{"": samplecrdv1.ReasonAvailable, observe: samplecrdv1.ReasonObserved} {
		l := w.legacy()
		w.importing("net", l, policy)
		w.waitFor("net", metav1.ConditionTrue, reason)
		w.must(networks.Delete(t.Context(), w.neutron.Client, l.network).ExtractErr())
		network := w.waitNotReady("net", samplecrdv1.ReasonNetworkNotFound)
		w.equal(string(condition(network, samplecrdv1.ConditionStalled).Status), "True")
		w.nothing("team-net")
		w.delete("net")
		w.nothing("team-net")
	}
}
