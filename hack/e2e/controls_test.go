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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// annotate sets an annotation with kubectl, or removes it if value is "".
func (w *world) annotate(name, key, value string) {
	w.Helper()
	change := key + "=" + value
	if value == "" {
		change = key + "-"
	}
	w.kubectl("annotate", "--overwrite", "network", name, change)
}

// moveGateway changes the gateway of the Network's subnet by hand in Neutron.
func (w *world) moveGateway(name, gateway, poolStart, poolEnd string) {
	w.Helper()
	pools := []subnets.AllocationPool{{Start: poolStart, End: poolEnd}}
	w.must(subnets.Update(w.Context(), w.neutron.Client, w.get(name).Status.SubnetID,
		subnets.UpdateOpts{GatewayIP: &gateway, AllocationPools: pools}).Err)
}

func TestPauseStopsAllChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	names := []string{"edited", "drifted", "deleted"}
	for _, name := range names {
		w.create(name, "10.1.0.0/16", "10.1.0.1")
		w.annotate(name, samplecrdv1.AnnotationPaused, "true")
	}
	before := map[string]string{}
	for _, name := range names {
		before[name] = w.matches(name, "10.1.0.0/16", "10.1.0.1").ID
	}
	w.calls.take()
	w.apply("edited", "10.1.0.0/16", "10.1.0.2")
	w.moveGateway("drifted", "10.1.0.77", "10.1.0.100", "10.1.0.200")
	w.kubectl("delete", "network", "deleted", "--wait=false")
	for _, name := range []string{"new", "new-and-deleted"} {
		text := strings.Replace(manifest(name, "10.1.0.0/16", "10.1.0.1"), "metadata:\n", "metadata:\n  annotations: {samplecrd.k8s.io/paused: \"true\"}\n", 1)
		_, err := w.tryKubectl(text, "apply", "-f", "-")
		w.must(err)
	}

	w.waitSays("edited", samplecrdv1.ReasonPaused, samplecrdv1.AnnotationPaused, "gateway set to 10.1.0.2")
	w.waitSays("drifted", samplecrdv1.ReasonPaused, "gateway set to 10.1.0.1")
	w.waitSays("deleted", samplecrdv1.ReasonPaused, "the deletion waits")
	w.waitSays("new", samplecrdv1.ReasonPaused, "network created")
	w.waitSays("new-and-deleted", samplecrdv1.ReasonPaused, "network created")
	w.contains(w.kubectl("get", "network", "edited"), samplecrdv1.ReasonPaused)
	w.waitForEvent("deleted", samplecrdv1.ReasonPaused, "the deletion waits")
	w.equal(w.get("edited").Status.Gateway, "10.1.0.1")
	w.equal(w.get("drifted").Status.Gateway, "10.1.0.77")
	w.delete("new-and-deleted") // it has nothing in Neutron to wait for
	for request, n := range w.calls.take() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("%d times %s", n, request)
		}
	}

	w.annotate("edited", samplecrdv1.AnnotationPaused, "false")
	w.annotate("drifted", samplecrdv1.AnnotationPaused, "")
	w.annotate("deleted", samplecrdv1.AnnotationPaused, "")
	w.annotate("new", samplecrdv1.AnnotationPaused, "")
	w.waitReady("edited")
	w.waitReady("drifted")
	w.waitReady("new")
	w.waitGone("deleted")
	w.equal(w.matches("edited", "10.1.0.0/16", "10.1.0.2").ID, before["edited"])
	w.equal(w.matches("drifted", "10.1.0.0/16", "10.1.0.1").ID, before["drifted"])
	w.matches("new", "10.1.0.0/16", "10.1.0.1")
	w.nothing("deleted")
	w.nothing("new-and-deleted")
}

func TestRetainedNetworkStaysWithoutItsMarkAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	retain := func(policy string) string {
		return manifest("net", "10.1.0.0/16", "10.1.0.1") + "  deletionPolicy: " + policy + "\n"
	}
	tests := []struct {
		what string
		// policies are applied one after the other.
		policies []string
		retained bool
	}{
		{"from the start", []string{"Retain"}, true},
		{"said later", []string{"Delete", "Retain"}, true},
		{"taken back", []string{"Retain", "Delete"}, false},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start("-resync=1s", retryQuickly)
			for _, policy := range tc.policies {
				_, err := w.tryKubectl(retain(policy), "apply", "-f", "-")
				w.must(err)
				w.waitReady("net")
			}
			n := w.matches("net", "10.1.0.0/16", "10.1.0.1")
			if !tc.retained {
				w.delete("net")
				w.nothing("net")
				return
			}
			// A port on it does not prevent that.
			_, err := ports.Create(t.Context(), w.neutron.Client, ports.CreateOpts{NetworkID: n.ID}).Extract()
			w.must(err)
			w.delete("net")
			w.waitForEvent("net", samplecrdv1.EventDeleted, "Left network "+n.ID)
			w.staysAlone(n.ID)
		})
	}
}

// staysAlone fails unless the network with that ID is the only one, without marks, and
// stays as it is while a Network of its name is created and deleted.
func (w *world) staysAlone(id string) {
	w.Helper()
	left := w.networks("net")
	if len(left) != 1 || len(left[0].Subnets) != 1 {
		w.Fatalf("want one network with one subnet, got %+v", left)
	}
	w.equal(left[0].ID, id)
	w.equal(left[0].Description+left[0].Subnets[0].Description, "")
	w.equal(left[0].Subnets[0].GatewayIP, "10.1.0.1")

	later := w.create("net", "10.1.0.0/16", "10.1.0.9")
	if later.Status.NetworkID == id {
		w.Error("the later Network adopted the retained network")
	}
	if both := w.networks("net"); len(both) != 2 {
		w.Errorf("want another network beside the retained one, got %+v", both)
	}
	w.create("net", "10.1.0.0/16", "10.1.0.8")
	w.delete("net")
	if diff := cmp.Diff(left, w.networks("net")); diff != "" {
		w.Errorf("the retained network was changed (-before +after):\n%s", diff)
	}
}

func TestReconcileRequestReadsNeutronPastTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	w.start("-resync=1h")
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	w.waitForEventIn(kubernetes)
	steps := []struct {
		what string
		do   func()
		// event reports whether the step records one.
		event               bool
		neutron, kubernetes counts
	}{
		{
			"nothing to do: a look at the network and its subnet, and the echo",
			func() {}, false,
			counts{"GET networks": 1, "GET subnets": 1},
			counts{"patch networks/status": 1},
		}, {
			"drift that no list has shown yet",
			func() { w.moveGateway("net", "10.1.0.77", "10.1.0.100", "10.1.0.200") }, true,
			counts{"GET networks": 1, "GET subnets": 1, "PUT subnets/*": 1},
			counts{"patch networks/status": 1, "create events": 1},
		}, {
			"the network is gone: looked for by its mark and by its ID, and made again",
			func() {
				w.must(networks.Delete(t.Context(), w.neutron.Client, w.get("net").Status.NetworkID).Err)
			}, true,
			counts{"GET networks": 1, "GET networks/*": 1, "POST networks": 1, "POST subnets": 1},
			counts{"get networks": 1, "patch networks/status": 1, "create events": 1},
		},
	}
	for i, step := range steps {
		step.do()
		w.calls.take()
		kubernetes.take()
		w.requestReconcile(fmt.Sprintf("request-%d", i))
		if step.event {
			w.waitForEventIn(kubernetes)
		}
		if diff := cmp.Diff(step.neutron, w.calls.take()); diff != "" {
			t.Errorf("%s: requests to Neutron (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.kubernetes, kubernetes.take()); diff != "" {
			t.Errorf("%s: requests to Kubernetes (-want +got):\n%s", step.what, diff)
		}
		w.matches("net", "10.1.0.0/16", "10.1.0.1")
	}

	// One value causes one read: an edit after it costs no more than any other.
	w.create("net", "10.1.0.0/16", "10.1.0.2")
	if diff := cmp.Diff(counts{"PUT subnets/*": 1}, w.calls.take()); diff != "" {
		t.Errorf("an edit: requests to Neutron (-want +got):\n%s", diff)
	}
}

// requestReconcile requests a read of Neutron, and waits until the controller has read it.
func (w *world) requestReconcile(value string) {
	w.Helper()
	w.annotate("net", samplecrdv1.AnnotationReconcileRequestedAt, value)
	w.eventually(func() error {
		if got := w.get("net").Status.LastHandledReconcileAt; got != value {
			return fmt.Errorf("status.lastHandledReconcileAt is %q", got)
		}
		return nil
	})
}

func TestReconcileRequestIsHandledOnlyAfterNeutronAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1h", retryQuickly)
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	w.requestReconcile("before")
	w.harm(all(embedded.Fault{Drop: true}))
	w.annotate("net", samplecrdv1.AnnotationReconcileRequestedAt, "during")
	w.equal(w.waitNotReady("net", samplecrdv1.ReasonNeutronUnavailable).Status.LastHandledReconcileAt, "before")
	w.heal()
	w.equal(w.waitReady("net").Status.LastHandledReconcileAt, "during")
}
