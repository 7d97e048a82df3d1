// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The example is created with kubectl create, which changes nothing that exists.
func TestKubectlCreatesAndShowsNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	file := filepath.Join("..", "..", "artifacts", "examples", "example-network.yaml")
	w.equal(w.kubectl("create", "-f", file), "network.samplecrd.k8s.io/example-network created\n")
	w.kubectl("wait", "--for=condition=Ready", "network/example-network", "--timeout="+patience.String())
	network := w.get("example-network")
	id := w.matches("example-network", "192.168.0.0/16", "192.168.0.1").ID
	_, err := w.tryKubectl("", "create", "-f", file)
	w.contains(fmt.Sprint(err), `networks.samplecrd.k8s.io "example-network" already exists`)
	w.equal(w.get("example-network").ResourceVersion, network.ResourceVersion)

	short := table(w.kubectl("get", "net"))
	w.equal(short[0], "NAME CIDR GATEWAY READY STATUS AGE")
	w.contains(short[1], "example-network 192.168.0.0/16 192.168.0.1 True Available ")
	wide := table(w.kubectl("get", "networks", "-o", "wide"))
	w.equal(wide[0], "NAME CIDR GATEWAY READY STATUS AGE NETWORK ID CLOUD EXTERNAL IP MESSAGE")
	w.contains(wide[1], id+" local Neutron matches the spec")
	w.waitForEvent("example-network", samplecrdv1.EventCreated, id)
	w.contains(w.kubectl("describe", "network", "example-network"), "Events:", "Created network "+id)

	w.contains(w.kubectl("explain", "network"), "Network declares a network in OpenStack Neutron")
	w.contains(w.kubectl("explain", "network.spec"), "cidr", "gateway", "the address range of the subnet", "Exactly one of cidr and subnetPool is required")
	w.contains(w.kubectl("explain", "network.spec.subnetPool"), "lets Neutron choose the address range of the subnet", "prefixLength")
	w.contains(w.kubectl("explain", "network.spec.sharedWith"), "projectID")
	w.contains(w.kubectl("explain", "network.spec.router.routes"), "destination", "nextHop")
	w.contains(w.kubectl("explain", "network.spec.availabilityZoneHints"), "[]string", "zones")
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

func TestKubectlDeletesAndReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	for _, cascade := range []string{"foreground", "orphan"} {
		w.create("net", "10.0.0.0/24", "")
		w.kubectl("delete", "network", "net", "--cascade="+cascade, "--timeout="+patience.String())
		w.nothing("net")
	}
	before := w.create("net", "10.0.0.0/24", "")
	_, err := w.tryKubectl(manifest("net", "10.0.0.0/24", ""), "replace", "--force", "-f", "-")
	w.must(err)
	after := w.waitReady("net")
	n := w.matches("net", "10.0.0.0/24", "10.0.0.1")
	if after.UID == before.UID || n.ID == before.Status.NetworkID {
		t.Error("it is still the old one")
	}
	w.equal(n.Description, w.mark(after))
	w.equal(n.Subnets[0].Description, w.mark(after))
}

// A file that kubectl get wrote has the status and the API server's metadata too.
func TestKubectlReplaceWithAnEditedFileOfKubectlGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before := w.create("net", "10.0.0.0/24", "10.0.0.1")
	got := w.kubectl("get", "networks.samplecrd.k8s.io", "net", "-o", "yaml")
	replace := func(oldNew ...string) (string, error) {
		return w.tryKubectl("", "replace", "-f", w.file("net.yaml", strings.NewReplacer(oldNew...).Replace(got)))
	}
	out, err := replace("10.0.0.0/24", "10.7.0.0/16", "10.0.0.1", "10.7.0.9")
	w.must(err)
	w.equal(out, "network.samplecrd.k8s.io/net replaced\n")
	after := w.waitReady("net")
	w.matches("net", "10.7.0.0/16", "10.7.0.9")
	w.equal(after.Status.NetworkID, before.Status.NetworkID)
	// The file names the resource version that it was read at, so it cannot undo a later edit.
	_, err = replace("10.0.0.1", "10.0.0.2")
	w.contains(fmt.Sprint(err), "the object has been modified")
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
	w.equal(kubectl("get", "networks", "-o", "name"), "network.config.example.com/other\n")
	const ours = "network.samplecrd.k8s.io/ours\n"
	for _, name := range []string{"networks.samplecrd.k8s.io", "network.samplecrd.k8s.io", "net.samplecrd.k8s.io", "networks.v1.samplecrd.k8s.io"} {
		w.equal(kubectl("get", name, "-o", "name"), ours)
	}
	w.equal(kubectl("get", "network.samplecrd.k8s.io/ours", "-o", "name"), ours)
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
