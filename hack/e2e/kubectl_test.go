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
	"errors"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

func TestKubectlShowsNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.apply("net", "192.168.1.0/16", "")
	w.kubectl("wait", "--for=condition=Ready", "network/net", "--timeout="+patience.String())
	network := w.get("net")

	short := table(w.kubectl("get", "net"))
	w.equal(short[0], "NAME CIDR GATEWAY READY STATUS AGE")
	if got := strings.Join(strings.Fields(short[1])[:5], " "); got != "net 192.168.0.0/16 192.168.0.1 True Available" {
		t.Errorf("got the row %q", got)
	}
	wide := table(w.kubectl("get", "networks", "-o", "wide"))
	w.equal(wide[0], "NAME CIDR GATEWAY READY STATUS AGE NETWORK ID CLOUD MESSAGE")
	w.contains(wide[1], network.Status.NetworkID+" local Neutron matches the spec")

	w.waitForEvent("net", samplecrdv1.EventCreated, network.Status.NetworkID)
	w.contains(w.kubectl("describe", "network", "net"), "Events:", "Created network "+network.Status.NetworkID)

	w.contains(w.kubectl("explain", "network"), "Network declares a network in OpenStack Neutron")
	w.contains(w.kubectl("explain", "network.spec"), "cidr", "-required-", "gateway", "the address range of the network's subnet")
	w.contains(w.kubectl("explain", "network.spec.gateway"), "None means a subnet without a gateway")
	w.contains(w.kubectl("explain", "network.status.conditions"), "Ready is always present")
}

// table returns the lines of a table with one blank between its cells.
func table(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return append(lines, "")
}

func (w *world) equal(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("got  %q,\nwant %q", got, want)
	}
}

func TestEveryWayToDeleteTakesTheNetworkAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		t.Run(cascade, func(t *testing.T) {
			w := w.at(t)
			w.create("net", "10.0.0.0/24", "")
			w.kubectl("delete", "network", "net", "--cascade="+cascade, "--timeout="+patience.String())
			w.nothing("net")
		})
	}
}

func TestNetworkMadeAnewAtOnceUnderItsNameIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	before := w.create("net", "10.0.0.0/24", "")
	for range 3 {
		_, err := w.tryKubectl(manifest("net", "10.0.0.0/24", ""), "replace", "--force", "-f", "-")
		w.must(err)
		after := w.waitReady("net")
		n := w.matches("net", "10.0.0.0/24", "10.0.0.1")
		if after.UID == before.UID || n.ID == before.Status.NetworkID {
			t.Error("it is still the old one")
		}
		w.equal(n.Description, w.mark(after))
		w.equal(n.Subnets[0].Description, w.mark(after))
		before = after
	}
}

func TestReplaceInPlaceIsAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before := w.create("net", "10.0.0.0/24", "10.0.0.1")
	_, err := w.tryKubectl(manifest("net", "10.0.0.0/24", "None"), "replace", "-f", "-")
	w.must(err)
	after := w.waitReady("net")
	w.matches("net", "10.0.0.0/24", "")
	w.equal(after.Status.Gateway, samplecrdv1.GatewayNone)
	w.equal(after.Status.SubnetID, before.Status.SubnetID)
}

func TestNamespaceGoesWithItsNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, name := range []string{"a", "b"} {
		w.create(name, "10.0.0.0/24", "")
	}
	w.kubectl("delete", "namespace", w.namespace, "--timeout="+patience.String())
	for _, name := range []string{"a", "b"} {
		w.nothing(name)
	}
}

func TestFinalizerTakenOffByHandIsPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before := w.create("net", "10.0.0.0/24", "")
	w.kubectl("patch", "network", "net", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.eventually(func() error {
		if len(w.get("net").Finalizers) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	if n := w.matches("net", "10.0.0.0/24", "10.0.0.1"); n.ID != before.Status.NetworkID {
		t.Error("it has another network")
	}
	w.delete("net")
	w.nothing("net")
}
