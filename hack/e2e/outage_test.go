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
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// all makes every request of the controller fail with this fault.
func all(fault embedded.Fault) chooser {
	return func(*http.Request) *embedded.Fault { return &fault }
}

func TestOutageKeepsTheStatusAndNetworksRecover(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what  string
		fault embedded.Fault
		says  string
	}{
		{"an error of a proxy", embedded.Fault{Status: 503, Message: "<html>down</html>"}, "503 Service Unavailable"},
		{"no answer", embedded.Fault{Drop: true}, "EOF"},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			controller := w.start(retryQuickly, "-resync=1s")
			known := w.create("known", "10.1.0.0/16", "10.1.0.1")
			before := w.create("edited", "10.2.0.0/16", "10.2.0.1")
			w.create("deleted", "10.4.0.0/16", "10.4.0.1")

			w.harm(all(tc.fault))
			w.apply("new", "10.3.0.0/16", "")
			w.apply("edited", "10.2.0.0/16", "10.2.0.2")
			w.kubectl("delete", "network", "deleted", "--wait=false")
			during := w.waitNotReady("new", samplecrdv1.ReasonNeutronUnavailable)
			w.contains(condition(during, samplecrdv1.ConditionReady).Message, tc.says)
			during = w.waitNotReady("edited", samplecrdv1.ReasonNeutronUnavailable)
			if during.Status.NetworkID != before.Status.NetworkID || during.Status.SubnetID != before.Status.SubnetID || during.Status.Gateway != "10.2.0.1" {
				t.Errorf("the status lost what was known: %+v", during.Status)
			}
			w.waitNotReady("deleted", samplecrdv1.ReasonNeutronUnavailable)
			w.waitForLog(controller, "Failed to list Neutron's networks")

			w.heal()
			w.waitReady("new")
			w.matches("new", "10.3.0.0/16", "10.3.0.1")
			w.waitReady("edited")
			if n := w.matches("edited", "10.2.0.0/16", "10.2.0.2"); n.ID != before.Status.NetworkID {
				t.Error("the Network has another network")
			}
			w.waitGone("deleted")
			w.nothing("deleted")
			w.waitForLog(controller, "Listed Neutron's networks again")
			if after := w.get("known"); after.ResourceVersion != known.ResourceVersion {
				t.Errorf("a Network that was not edited was written: %+v", after)
			}
			if n := w.warnings("new"); n != 1 {
				t.Errorf("%d warnings of one outage", n)
			}
		})
	}
}

func TestControllerStartedDuringAnOutageWorksAfterIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start()
	known := w.create("known", "10.1.0.0/16", "10.1.0.1")
	w.must(first.Stop())

	w.harm(all(embedded.Fault{Status: 503}))
	w.start(retryQuickly)
	w.apply("new", "10.2.0.0/16", "")
	w.waitNotReady("new", samplecrdv1.ReasonNeutronUnavailable)
	w.heal()
	w.waitReady("new")
	w.matches("new", "10.2.0.0/16", "10.2.0.1")
	if after := w.get("known"); after.ResourceVersion != known.ResourceVersion {
		t.Errorf("a Network that was Ready all the time was written: %+v", after)
	}
}

func TestWrongPasswordIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.neutron.SetPassword(project, "another"))
	w.start()
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	network := w.waitNotReady("net", samplecrdv1.ReasonAuthenticationFailed)
	w.contains(condition(network, samplecrdv1.ConditionReady).Message, "authenticate", "The request you have made requires authentication.")
	// Before its first list, the observer retries within seconds, and then requeues the
	// Networks.
	w.must(w.neutron.SetPassword(project, password))
	w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")

	// Later, a Network is retried after a minute, or when it is edited.
	w.must(w.neutron.SetPassword(project, "another"))
	w.apply("net", "10.1.0.0/16", "10.1.0.2")
	w.waitNotReady("net", samplecrdv1.ReasonAuthenticationFailed)
	w.must(w.neutron.SetPassword(project, password))
	w.create("net", "10.1.0.0/16", "10.1.0.3")
	w.matches("net", "10.1.0.0/16", "10.1.0.3")
}

func TestRevokedTokenIsRenewedUnnoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	w.neutron.RevokeTokens()
	w.create("net", "10.1.0.0/16", "10.1.0.2")
	w.matches("net", "10.1.0.0/16", "10.1.0.2")
	if n := w.warnings("net"); n != 0 {
		t.Errorf("%d warnings", n)
	}
}

func TestHangingRequestBlocksOneNetworkOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-neutron-timeout=3s", "-workers=2", retryQuickly)
	w.harm(func(r *http.Request) *embedded.Fault {
		body, _ := io.ReadAll(r.Body)
		if neutronRequest(r) == "POST networks" && bytes.Contains(body, []byte(w.namespace+"/hung")) {
			return &embedded.Fault{Hang: true}
		}
		return nil
	})
	w.apply("hung", "10.1.0.0/16", "10.1.0.1")
	for i := range 3 {
		w.create(fmt.Sprintf("other-%d", i), "10.1.0.0/16", "10.1.0.1")
	}
	network := w.waitNotReady("hung", samplecrdv1.ReasonNeutronUnavailable)
	w.contains(condition(network, samplecrdv1.ConditionReady).Message, "no answer in time")
	w.heal()
	w.waitReady("hung")
	w.matches("hung", "10.1.0.0/16", "10.1.0.1")
}

func TestRetryAfterOfNeutronIsObeyed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	const asked = 8 * time.Second
	came := w.harmOnce("POST networks", embedded.Fault{Status: 429, RetryAfter: asked})
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the refusal", came)
	w.waitNotReady("net", samplecrdv1.ReasonNeutronUnavailable)
	// Without Retry-After, retries come every half second.
	w.calls.take()
	w.create("other", "10.2.0.0/16", "")
	w.create("other", "10.2.0.0/16", "10.2.0.2")
	if n := w.calls.take()["POST networks"]; n != 1 {
		t.Errorf("%d networks were tried, want only the other Network's", n)
	}
	w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
}

// An outage of two minutes, with the controller's defaults: longer than the longest back-off,
// and shorter than the time between two lists of Neutron.
func TestTwoMinutesWithoutNeutronLoseNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it takes more than two minutes")
	}
	const (
		many     = 200
		workers  = 4
		duration = 2 * time.Minute
		recovery = 30 * time.Second
	)
	w := newWorld(t)
	w.start(fmt.Sprintf("-workers=%d", workers))
	for i := range many {
		w.make(fmt.Sprintf("net-%d", i), samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.1.0.0/16", Gateway: "10.1.0.1"}})
	}
	w.waitAllReady(patience)
	before := w.list()

	w.harm(all(embedded.Fault{Drop: true}))
	w.calls.take()
	began := time.Now()
	for name := range before {
		w.patch(name, `{"spec": {"gateway": "10.1.0.2"}}`)
	}
	select {
	case <-time.After(duration - time.Since(began)):
	case <-t.Context().Done():
	}
	calls := 0
	for _, n := range w.calls.take() {
		calls += n
	}
	t.Logf("%d Networks, %d workers: %d calls in %s without Neutron", many, workers, calls, duration)
	if most := workers * int(duration/time.Second); calls >= most {
		t.Errorf("%d calls, want less than one per second and worker, %d", calls, most)
	}
	for name, now := range w.list() {
		was := before[name].Status
		if now.Status.NetworkID != was.NetworkID || now.Status.SubnetID != was.SubnetID {
			t.Errorf("%s has lost its IDs: %+v", name, now.Status)
		}
	}

	w.heal()
	began = time.Now()
	w.waitAllReady(recovery)
	t.Logf("all were ready again %s after Neutron's return", time.Since(began).Round(100*time.Millisecond))
	inNeutron, err := w.neutron.Networks(t.Context())
	w.must(err)
	if len(inNeutron) != many {
		t.Errorf("%d networks in Neutron, want %d", len(inNeutron), many)
	}
	for _, n := range inNeutron {
		if len(n.Subnets) != 1 || n.Subnets[0].GatewayIP != "10.1.0.2" {
			t.Errorf("not as the spec says: %+v", n)
		}
	}
}

// make creates a Network, as kubectl create does but faster.
func (w *world) make(name string, spec samplecrdv1.NetworkSpec) {
	w.Helper()
	_, err := client.SamplecrdV1().Networks(w.namespace).Create(w.Context(),
		&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	w.must(err)
}

// patch changes a Network, as kubectl patch --type=merge does but faster.
func (w *world) patch(name, patch string) {
	w.Helper()
	_, err := client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

// list returns the world's Networks by their names.
func (w *world) list() map[string]samplecrdv1.Network {
	w.Helper()
	list, err := client.SamplecrdV1().Networks(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	byName := map[string]samplecrdv1.Network{}
	for _, n := range list.Items {
		byName[n.Name] = n
	}
	return byName
}

// waitAllReady waits until all Networks are ready in their present generation.
func (w *world) waitAllReady(patience time.Duration) {
	w.Helper()
	var waiting []string
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		waiting = nil
		for name, n := range w.list() {
			if ready := condition(&n, samplecrdv1.ConditionReady); ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != n.Generation {
				waiting = append(waiting, name)
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		w.Fatalf("%v: not ready after %s: %d, %v", err, patience, len(waiting), waiting)
	}
}
