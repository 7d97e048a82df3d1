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
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// Each row kills the process in another kind of work. The systematic tests crash at every request.
func TestNextControllerContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what, request string
		fault         embedded.Fault
		// deletes: the crash is during the deletion of the Network.
		deletes bool
	}{
		{"while the network is made", "POST networks", embedded.Fault{After: true}, false},
		{"while the subnet is made", "POST subnets", embedded.Fault{After: true}, false},
		{"between the router and its gateway", "POST routers", embedded.Fault{Half: true}, false},
		{"between the port and its attachment", "PUT routers/*", embedded.Fault{Half: true}, false},
		{"between the gateway and the router", "DELETE routers/*", embedded.Fault{Half: true}, true},
		{"while the network is deleted", "DELETE networks/*", embedded.Fault{After: true}, true},
	}
	w := newWorldWith(t, public)
	for i, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			first := w.start(retryQuickly)
			if tc.deletes {
				w.createSpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic)
			}
			tc.fault.Hang = true
			came := w.harmOnce(tc.request, tc.fault)
			if tc.deletes {
				w.kubectl("delete", "network", name, "--wait=false")
			} else {
				w.applySpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic)
			}
			w.await("the request that hangs", came)
			w.kill(first)
			made, routers := w.networks(name), len(w.routers(w.namespace+"/"+name))
			w.calls.take()
			second := w.start(retryQuickly)
			if tc.deletes {
				w.waitGone(name)
			} else {
				w.waitReady(name)
				if n := w.matches(name, "10.1.0.0/16", "10.1.0.1"); len(made) != 1 || n.ID != made[0].ID {
					t.Errorf("networks %+v were not used, and %s was created", made, n.ID)
				}
				w.routed(name)
				calls := w.calls.take()
				if calls["POST networks"] > 0 || calls["POST routers"] > 1-routers {
					t.Errorf("more was created: %v", calls)
				}
				if tc.request == "POST networks" {
					w.waitForEvent(name, samplecrdv1.EventAdopted, made[0].ID)
				}
				w.delete(name)
			}
			w.must(second.Stop())
			w.nothingAtAll()
		})
	}
}

func TestDeletionWhileTheControllerIsStoppedIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start()
	w.create("net", "10.0.0.0/24", "")
	w.kill(first)
	w.kubectl("delete", "network", "net", "--wait=false")
	w.start()
	w.waitGone("net")
	w.nothing("net")
}
