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
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachChangeCostsNoMoreRequestsThanItNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	controller := w.start()
	w.waitForLog(controller, deploymentWorkers)
	steps := []struct {
		what string
		do   func()
		// event reports whether the step records one.
		event               bool
		neutron, kubernetes counts
	}{
		{
			"the start, besides the watch: the first list of a process shows whether there are routers",
			func() {}, false,
			counts{"GET networks": 1, "GET routers": 1},
			counts{"get namespaces": 1, "list networks": 1, "watch networks": 1, "watch deployments": 1},
		}, {
			"a create: the finalizer, then both in Neutron, then the status",
			func() { w.create("net", "192.168.0.0/16", "192.168.0.1") }, true,
			counts{"POST networks": 1, "POST subnets": 1},
			counts{"patch networks": 1, "patch networks/status": 1, "create events": 1},
		}, {
			"another gateway",
			func() { w.create("net", "192.168.0.0/16", "192.168.1.1") }, true,
			counts{"PUT subnets/*": 1},
			counts{"patch networks/status": 1, "create events": 1},
		}, {
			"other host bits only",
			func() { w.create("net", "192.168.7.0/16", "192.168.1.1") }, false,
			nil,
			counts{"patch networks/status": 1},
		}, {
			"another CIDR: ports are looked for before each change, and Kubernetes is asked before the old subnet goes",
			func() { w.create("net", "10.0.0.0/16", "10.0.0.1") }, true,
			counts{"GET ports": 2, "POST subnets": 1, "DELETE subnets/*": 1},
			counts{"get networks": 1, "patch networks/status": 1, "create events": 1},
		}, {
			// After the changes of the subnets the controller does not know the network's revision.
			"a deletion: the revision is read, and Kubernetes is asked before the network goes",
			func() { w.delete("net") }, true,
			counts{"GET networks": 1, "GET networks/*": 1, "DELETE networks/*": 1},
			counts{"get networks": 1, "patch networks": 1, "create events": 1},
		}, {
			"the end",
			func() { w.must(controller.Stop()) }, false,
			nil,
			nil,
		},
	}
	for _, step := range steps {
		if step.do(); step.event {
			w.waitForEventIn(kubernetes)
		}
		if diff := cmp.Diff(step.neutron, w.calls.take()); diff != "" {
			t.Errorf("%s: requests to Neutron (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.kubernetes, kubernetes.take()); diff != "" {
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
