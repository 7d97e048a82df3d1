// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachChangeCostsNoMoreRequestsThanItNeeds(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	proxy := w.throughProxy()
	controller := w.start()
	w.waitForLog(controller, deploymentWorkers)
	create := func(cidr, gateway string, lines ...string) func() {
		return func() { w.createSpec("net", cidr, gateway, lines...) }
	}
	for _, step := range []struct {
		what                string
		do                  func()
		neutron, kubernetes counts
	}{
		{
			"the start, besides the watch: the first list of a process shows whether there are routers",
			func() {},
			counts{"GET networks": 1, "GET routers": 1},
			counts{"get namespaces": 1, "list networks": 1, "watch networks": 1, "watch deployments": 1},
		}, {
			"a create: the finalizer, then both in Neutron, then the status",
			create("192.168.0.0/16", "192.168.0.1"),
			counts{"POST networks": 1, "POST subnets": 1},
			counts{"patch networks": 1, "patch networks/status": 1, "create events": 1},
		}, {
			"another gateway",
			create("192.168.0.0/16", "192.168.1.1"),
			counts{"PUT subnets/*": 1},
			counts{"patch networks/status": 1, "create events": 1},
		}, {
			"other host bits only",
			create("192.168.7.0/16", "192.168.1.1"),
			nil,
			counts{"patch networks/status": 1},
		}, {
			"another CIDR: ports are looked for before each change, and Kubernetes is asked before the old subnet goes",
			create("10.0.0.0/16", "10.0.0.1"),
			counts{"GET ports": 2, "POST subnets": 1, "DELETE subnets/*": 1},
			counts{"get networks": 1, "patch networks/status": 1, "create events": 1},
		}, {
			"a router: the external networks are listed by name, Kubernetes is asked and the status written before it exists",
			create("10.0.0.0/16", "10.0.0.1", viaPublic),
			counts{"GET networks": 1, "POST routers": 1, "PUT routers/*": 1},
			counts{"get networks": 2, "patch networks/status": 2, "create events": 1},
		}, {
			"routes: the status is written before they are set",
			create("10.0.0.0/16", "10.0.0.1", strings.Replace(viaPublic, "}}", "}, routes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.7}]}", 1)),
			counts{"GET routers/*": 1, "PUT routers/*": 1},
			counts{"patch networks/status": 2, "create events": 1},
		}, {
			"no routes: the Network is read past the cache before some go",
			create("10.0.0.0/16", "10.0.0.1", strings.Replace(viaPublic, "}}", "}, routes: []}", 1)),
			counts{"GET routers/*": 1, "PUT routers/*": 1},
			counts{"get networks": 1, "patch networks/status": 1, "create events": 1},
		}, {
			"a deletion",
			func() { w.delete("net") },
			counts{"GET floatingips": 1, "GET ports": 1, "PUT routers/*": 1, "GET routers/*": 1, "DELETE routers/*": 1, "GET networks": 1, "GET networks/*": 2, "DELETE networks/*": 1, "GET routers": 1},
			counts{"get networks": 3, "patch networks": 1, "create events": 1},
		}, {
			"the end",
			func() { w.must(controller.Stop()) },
			nil,
			nil,
		},
	} {
		if step.do(); step.kubernetes["create events"] > 0 {
			w.waitForEventIn(proxy)
		}
		if diff := cmp.Diff(step.neutron, w.calls.take()); diff != "" {
			t.Errorf("%s: requests to Neutron (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.kubernetes, proxy.take()); diff != "" {
			t.Errorf("%s: requests to Kubernetes (-want +got):\n%s", step.what, diff)
		}
	}
}

// waitForEventIn waits until an event has been recorded through the proxy: that is the
// last thing that a sync does.
func (w *world) waitForEventIn(p *proxy) {
	w.Helper()
	w.eventually(func() error {
		if p.peek()["create events"] == 0 {
			return errors.New("no event")
		}
		return nil
	})
}
