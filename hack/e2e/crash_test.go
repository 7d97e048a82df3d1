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

func TestLostAnswerHasTheSameResultAsAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what, request string
		fault         embedded.Fault
		// networks is the number of POST networks in all.
		networks int
	}{
		{"network made, answer lost", "POST networks", embedded.Fault{After: true, Drop: true}, 1},
		{"network made, answer is an error", "POST networks", embedded.Fault{After: true, Status: 500}, 1},
		{"network not made, connection cut", "POST networks", embedded.Fault{Drop: true}, 2},
		{"subnet made, answer lost", "POST subnets", embedded.Fault{After: true, Drop: true}, 1},
		{"subnet not made, connection cut", "POST subnets", embedded.Fault{Drop: true}, 1},
		{"gateway changed, answer lost", "PUT subnets/*", embedded.Fault{After: true, Drop: true}, 1},
		{"gateway not changed, connection cut", "PUT subnets/*", embedded.Fault{Drop: true}, 1},
		{"old subnet deleted, answer lost", "DELETE subnets/*", embedded.Fault{After: true, Drop: true}, 1},
		{"old subnet not deleted, connection cut", "DELETE subnets/*", embedded.Fault{Drop: true}, 1},
		{"network deleted, answer lost", "DELETE networks/*", embedded.Fault{After: true, Drop: true}, 1},
		{"network not deleted, connection cut", "DELETE networks/*", embedded.Fault{Drop: true}, 1},
	}
	w := newWorld(t)
	w.start(retryQuickly)
	for i, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			w.calls.take()
			came := w.harmOnce(tc.request, tc.fault)
			w.create(name, "10.1.0.0/16", "10.1.0.1")
			first := w.matches(name, "10.1.0.0/16", "10.1.0.1")
			w.create(name, "10.1.0.0/16", "10.1.0.2")
			w.matches(name, "10.1.0.0/16", "10.1.0.2")
			w.create(name, "10.2.0.0/16", "10.2.0.1")
			if last := w.matches(name, "10.2.0.0/16", "10.2.0.1"); last.ID != first.ID {
				t.Errorf("network %s became %s", first.ID, last.ID)
			}
			w.delete(name)
			w.nothing(name)
			w.await("the fault", came)
			if n := w.calls.take()["POST networks"]; n != tc.networks {
				t.Errorf("%d attempts to create a network, want %d", n, tc.networks)
			}
		})
	}
}

func TestNextControllerContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, request, event string }{
		{"while the network is made", "POST networks", samplecrdv1.EventAdopted},
		{"while the subnet is made", "POST subnets", samplecrdv1.EventAdopted},
	}
	w := newWorld(t)
	for i, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			came := w.harmOnce(tc.request, embedded.Fault{After: true, Hang: true})
			first := w.start(retryQuickly)
			w.apply(name, "10.1.0.0/16", "10.1.0.1")
			w.await("the request that hangs", came)
			w.kill(first)
			made := w.networks(name)
			if len(made) != 1 {
				t.Fatalf("want the network whose answer was lost, got %+v", made)
			}
			w.calls.take()
			second := w.start(retryQuickly)
			w.waitReady(name)
			if n := w.matches(name, "10.1.0.0/16", "10.1.0.1"); n.ID != made[0].ID {
				t.Errorf("network %s was not used, and %s was created", made[0].ID, n.ID)
			}
			if n := w.calls.take()["POST networks"]; n != 0 {
				t.Errorf("%d more networks were created", n)
			}
			w.waitForEvent(name, tc.event, made[0].ID)
			w.must(second.Stop())
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
