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
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	w.equal(wide[0], "NAME CIDR GATEWAY READY STATUS AGE NETWORK ID CLOUD EXTERNAL IP MESSAGE")
	w.contains(wide[1], network.Status.NetworkID+" local Neutron matches the spec")

	w.waitForEvent("net", samplecrdv1.EventCreated, network.Status.NetworkID)
	w.contains(w.kubectl("describe", "network", "net"), "Events:", "Created network "+network.Status.NetworkID)

	w.contains(w.kubectl("explain", "network"), "Network declares a network in OpenStack Neutron")
	w.contains(w.kubectl("explain", "network.spec"), "cidr", "gateway", "the address range of the subnet", "It is required, also in additionalSubnets")
	w.contains(w.kubectl("explain", "network.spec.import"), "networkID", "-required-")
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

func TestEveryWayToDeleteRemovesTheNetwork(t *testing.T) {
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

func TestNetworkRecreatedAtOnceIsANewOne(t *testing.T) {
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

func TestKubectlCreateMakesTheNetworkOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	file := filepath.Join("..", "..", "artifacts", "examples", "example-network.yaml")
	w.equal(w.kubectl("create", "-f", file), "network.samplecrd.k8s.io/example-network created\n")
	network := w.waitReady("example-network")
	before := w.matches("example-network", "192.168.0.0/16", "192.168.0.1")
	row := table(w.kubectl("get", "networks.samplecrd.k8s.io", "-o", "wide"))[1]
	w.contains(row, "example-network 192.168.0.0/16 192.168.0.1 True Available", before.ID)

	// Unlike apply, create changes nothing that exists.
	_, err := w.tryKubectl("", "create", "-f", file)
	w.contains(fmt.Sprint(err), `networks.samplecrd.k8s.io "example-network" already exists`)
	w.equal(w.get("example-network").ResourceVersion, network.ResourceVersion)
	if diff := cmp.Diff(before, w.matches("example-network", "192.168.0.0/16", "192.168.0.1")); diff != "" {
		t.Errorf("create changed Neutron (-before +after):\n%s", diff)
	}
}

// A file that kubectl get wrote has the status and the API server's metadata too.
func TestKubectlReplaceWithAnEditedFileOfKubectlGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	_, err := w.tryKubectl(manifest("net", "10.0.0.0/24", "10.0.0.1"), "create", "-f", "-")
	w.must(err)
	before := w.waitReady("net")
	got := w.kubectl("get", "networks.samplecrd.k8s.io", "net", "-o", "yaml")
	replace := func(oldNew ...string) (string, error) {
		edited := strings.NewReplacer(oldNew...).Replace(got)
		return w.tryKubectl("", "replace", "-f", w.file("net.yaml", edited))
	}

	out, err := replace("  gateway: 10.0.0.1", "  gateway: 10.0.0.9")
	w.must(err)
	w.equal(out, "network.samplecrd.k8s.io/net replaced\n")
	gateway := w.waitReady("net")
	w.matches("net", "10.0.0.0/24", "10.0.0.9")
	w.equal(gateway.Status.SubnetID, before.Status.SubnetID)

	// The file names the resource version that it was read at, so it cannot undo a later edit.
	_, err = replace("  cidr: 10.0.0.0/24", "  cidr: 10.7.0.0/16")
	w.contains(fmt.Sprint(err), "the object has been modified")
	w.matches("net", "10.0.0.0/24", "10.0.0.9")

	got = w.kubectl("get", "networks.samplecrd.k8s.io", "net", "-o", "yaml")
	_, err = replace("10.0.0.0/24", "10.7.0.0/16", "10.0.0.9", "10.7.0.1")
	w.must(err)
	cidr := w.waitReady("net")
	w.matches("net", "10.7.0.0/16", "10.7.0.1")
	w.equal(cidr.Status.NetworkID, before.Status.NetworkID)
	w.equal(table(w.kubectl("get", "networks.samplecrd.k8s.io", "--no-headers", "-o", "custom-columns=:.status.cidr,:.status.gateway"))[0], "10.7.0.0/16 10.7.0.1")
}

// otherNetworks is a resource with the names of ours in another group, which comes first
// in the alphabet. OpenShift has such a one.
const otherNetworks = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: networks.config.example.com
spec:
  group: config.example.com
  names: {kind: Network, plural: networks, singular: network, shortNames: [net]}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: config.example.com/v1
kind: Network
metadata:
  name: other
`

// It is part of TestWholeCluster: while the other resource exists, kubectl takes "network" for
// that one in all tests. Its discovery cache is its own, so that the tests after it do not
// find the other resource there.
func fullNameReachesOurNetworksBesideOthers(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("ours", "10.0.0.0/24", "")
	cache := "--cache-dir=" + filepath.Join(w.dir, "cache")
	kubectl := func(args ...string) string {
		t.Helper()
		return w.kubectl(append([]string{cache}, args...)...)
	}
	definition, object, _ := strings.Cut(otherNetworks, "---\n")
	crd, other := w.file("crd.yaml", definition), w.file("other.yaml", object)
	kubectl("apply", "-f", crd)
	t.Cleanup(func() {
		// The test's context is over by now, and kubectl does not need it.
		out, err := w.tryKubectl("", cache, "delete", "-f", crd, "--timeout="+patience.String())
		if err != nil {
			t.Errorf("the tests after this one may fail too: %s%v", out, err)
		}
	})
	kubectl("wait", "--for=condition=Established", "-f", crd, "--timeout="+patience.String())
	w.eventually(func() error { // discovery comes a little after Established
		_, err := w.tryKubectl("", cache, "apply", "-f", other)
		return err
	})

	// kubectl takes the group that the API server lists first.
	for _, name := range []string{"networks", "network", "net"} {
		w.equal(kubectl("get", name, "-o", "name"), "network.config.example.com/other\n")
	}
	w.contains(kubectl("explain", "networks"), "config.example.com")
	const ours = "network.samplecrd.k8s.io/ours\n"
	for _, name := range []string{"networks.samplecrd.k8s.io", "network.samplecrd.k8s.io", "net.samplecrd.k8s.io", "networks.v1.samplecrd.k8s.io"} {
		w.equal(kubectl("get", name, "-o", "name"), ours)
		w.equal(kubectl("get", name, "ours", "-o", "name"), ours)
	}
	w.equal(kubectl("get", "network.samplecrd.k8s.io/ours", "-o", "name"), ours)
	w.contains(kubectl("describe", "network.samplecrd.k8s.io/ours"), "API Version:  samplecrd.k8s.io/v1")
	w.contains(kubectl("explain", "networks.samplecrd.k8s.io.spec.cidr"), "samplecrd.k8s.io", "192.168.0.0/16")

	// The manifest names the group, so -f is never ambiguous; nor is it for the controller.
	ourFile := w.file("ours.yaml", manifest("ours", "10.0.0.0/24", "10.0.0.9"))
	w.equal(kubectl("apply", "-f", ourFile), "network.samplecrd.k8s.io/ours configured\n")
	w.waitReady("ours")
	w.matches("ours", "10.0.0.0/24", "10.0.0.9")
	kubectl("delete", "network.samplecrd.k8s.io/ours", "--timeout="+patience.String())
	w.nothing("ours")
	w.equal(kubectl("get", "networks.config.example.com", "-o", "name"), "network.config.example.com/other\n")
}
