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

	"github.com/google/go-cmp/cmp"
)

func TestFieldsAndRoutersCostNoMoreRequestsThanTheyNeed(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.router("shared")
	kubernetes := w.throughProxy()
	controller := w.start()
	w.waitForLog(controller, deploymentWorkers)
	// A Network with a router writes the status once more: before anything of the router exists. And
	// Kubernetes is asked before a router is created, and before each interface.
	plain := counts{"patch networks": 1, "patch networks/status": 1, "create events": 1}
	own := counts{"patch networks": 1, "patch networks/status": 2, "create events": 1, "get networks": 2}
	existing := counts{"patch networks": 1, "patch networks/status": 2, "create events": 1, "get networks": 1}
	fields := "  dnsNameservers: [192.0.2.53]\n  allocationPools: [{start: 10.1.0.100, end: 10.1.0.200}]\n" +
		"  hostRoutes: [{destination: 10.99.0.0/16, nextHop: 10.1.0.254}]\n  enableDHCP: true\n" +
		"  mtu: 1400\n  portSecurityEnabled: true\n  dnsDomain: team.example.org.\n"
	create := func(name string, lines ...string) func() {
		return func() { w.createSpec(name, "10.1.0.0/16", "10.1.0.1", lines...) }
	}
	steps := []struct {
		what                string
		do                  func()
		neutron, kubernetes counts
	}{
		{"the start, besides the watch", func() {},
			counts{"GET networks": 1, "GET routers": 1},
			counts{"get namespaces": 1, "list networks": 1, "watch networks": 1, "watch deployments": 1}},
		{"CIDR and gateway alone", create("plain"),
			counts{"POST networks": 1, "POST subnets": 1}, plain},
		{"fields", create("fields", fields),
			counts{"POST networks": 1, "POST subnets": 1}, plain},
		{"tags", create("tags", fields, "  tags: [team-a]\n"),
			counts{"POST networks": 1, "POST subnets": 1, "PUT networks/*": 1}, plain},
		{"an existing router, whose name the first list has", create("existing", fields, viaExisting("name", "shared")),
			counts{"POST networks": 1, "POST subnets": 1, "PUT routers/*": 1}, existing},
		{"the first router of a Network's own: the external networks are listed by name", create("first", viaPublic),
			counts{"POST networks": 1, "POST subnets": 1, "POST routers": 1, "PUT routers/*": 1, "GET networks": 1}, own},
		{"the next one", create("own", fields, viaPublic),
			counts{"POST networks": 1, "POST subnets": 1, "POST routers": 1, "PUT routers/*": 1}, own},
		{"DNS servers in place", create("own", viaPublic, "  dnsNameservers: [192.0.2.54]\n"),
			counts{"PUT networks/*": 1, "PUT subnets/*": 1}, counts{"patch networks/status": 1, "create events": 1}},
		{"the deletion of a Network with a router of its own", func() { w.delete("own") },
			counts{"GET floatingips": 1, "GET ports": 1, "PUT routers/*": 1, "GET routers/*": 1, "DELETE routers/*": 1, "GET networks/*": 1, "DELETE networks/*": 1, "GET networks": 1, "GET routers": 1},
			counts{"get networks": 3, "patch networks": 1, "create events": 1}},
		{"the end", func() { w.must(controller.Stop()) }, nil, nil},
	}
	for _, step := range steps {
		if step.do(); step.kubernetes["create events"] > 0 {
			w.waitForEventIn(kubernetes)
		}
		neutron, kubernetes := w.calls.take(), kubernetes.take()
		t.Logf("%s: Neutron %v, Kubernetes %v", step.what, neutron, kubernetes)
		if diff := cmp.Diff(step.neutron, neutron); diff != "" {
			t.Errorf("%s: requests to Neutron (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.kubernetes, kubernetes); diff != "" {
			t.Errorf("%s: requests to Kubernetes (-want +got):\n%s", step.what, diff)
		}
	}
}
