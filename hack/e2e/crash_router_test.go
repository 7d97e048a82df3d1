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
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestNextControllerContinuesARoutedNetworkAfterACrash(t *testing.T) {
	t.Parallel()
	const create, attach, remove = "POST routers", "PUT routers/*", "DELETE routers/*"
	tests := []struct {
		what, request string
		fault         embedded.Fault
		// deletes: the crash is during the deletion of the Network.
		deletes bool
		// created is the number of routers that the next controller creates.
		created int
	}{
		{"before the router is made", create, embedded.Fault{}, false, 1},
		{"between the router and its gateway", create, embedded.Fault{Half: true}, false, 0},
		{"after the router is made", create, embedded.Fault{After: true}, false, 0},
		{"before the subnet is attached", attach, embedded.Fault{}, false, 0},
		{"between the port and its attachment", attach, embedded.Fault{Half: true}, false, 0},
		{"after the subnet is attached", attach, embedded.Fault{After: true}, false, 0},
		{"before the subnet is detached", attach, embedded.Fault{}, true, 0},
		{"after the subnet is detached", attach, embedded.Fault{After: true}, true, 0},
		{"before the router is deleted", remove, embedded.Fault{}, true, 0},
		{"between the gateway and the router", remove, embedded.Fault{Half: true}, true, 0},
		{"after the router is deleted", remove, embedded.Fault{After: true}, true, 0},
		{"before the network is deleted", "DELETE networks/*", embedded.Fault{}, true, 0},
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
			w.calls.take()
			second := w.start(retryQuickly)
			if tc.deletes {
				w.waitGone(name)
			} else {
				w.waitReady(name)
				w.matches(name, "10.1.0.0/16", "10.1.0.1")
				w.routed(name)
				w.delete(name)
			}
			if n := w.calls.take()[create]; n != tc.created {
				t.Errorf("%d more routers were created, want %d", n, tc.created)
			}
			w.must(second.Stop())
			w.nothingAtAll()
		})
	}
}

// Each controller is killed while several of its changes are under way: some of them have taken effect,
// some have not, and some have taken effect in half.
func TestKilledControllersLeaveOneRouterForEachNetwork(t *testing.T) {
	t.Parallel()
	const networks, kills, changes, hanging = 15, 5, 8, 3
	hangs := []embedded.Fault{{Hang: true}, {Hang: true, After: true}, {Hang: true, Half: true}}
	w := newWorldWith(t, public)
	for i := range networks {
		w.applySpec(nth(i), nthCIDR(i), nthGateway(i, 1), viaPublic)
	}
	for range kills {
		var n atomic.Int32
		enough := make(chan struct{})
		w.harm(func(r *http.Request) *embedded.Fault {
			if neutronRequest(r) == "" || r.Method == http.MethodGet {
				return nil
			}
			over := int(n.Add(1)) - changes
			if over == hanging {
				close(enough)
			}
			if over > 0 {
				return &hangs[over%len(hangs)]
			}
			return nil
		})
		c := w.launch(retryQuickly)
		w.await("several requests that hang", enough)
		w.kill(c)
	}
	w.heal()
	w.start(retryQuickly)
	for i := range networks {
		w.waitReady(nth(i))
		w.matches(nth(i), nthCIDR(i), nthGateway(i, 1))
		w.routed(nth(i))
	}
	if n := len(w.routers("")); n != networks {
		t.Errorf("%d routers, want %d", n, networks)
	}
	if n := len(w.portsWith(ports.ListOpts{})); n != networks {
		t.Errorf("%d ports, want %d", n, networks)
	}
	w.kubectl("delete", "networks", "--all", "--timeout="+patience.String())
	w.nothingAtAll()
}
