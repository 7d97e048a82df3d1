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
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// all makes every request of the controller go wrong in that way.
func all(fault embedded.Fault) chooser {
	return func(*http.Request) *embedded.Fault { return &fault }
}

func TestOutageLeavesStandingWhatWasKnownAndHealsByItself(t *testing.T) {
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
				t.Errorf("what was known of it was lost: %+v", during.Status)
			}
			w.waitNotReady("deleted", samplecrdv1.ReasonNeutronUnavailable)
			w.waitForLog(controller, "Failed to look at Neutron")

			w.heal()
			w.waitReady("new")
			w.matches("new", "10.3.0.0/16", "10.3.0.1")
			w.waitReady("edited")
			if n := w.matches("edited", "10.2.0.0/16", "10.2.0.2"); n.ID != before.Status.NetworkID {
				t.Error("it has another network")
			}
			w.waitGone("deleted")
			w.nothing("deleted")
			w.waitForLog(controller, "Looked at Neutron again")
			if after := w.get("known"); after.ResourceVersion != known.ResourceVersion {
				t.Errorf("one that nobody has touched was written: %+v", after)
			}
			if n := w.warnings("new"); n != 1 {
				t.Errorf("%d warnings of one outage", n)
			}
		})
	}
}

func TestControllerStartedDuringAnOutageGoesToWorkAfterIt(t *testing.T) {
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
		t.Errorf("one that was in order all the time was written: %+v", after)
	}
}

func TestWrongPasswordIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.neutron.SetPassword(project, "another"))
	w.start()
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	network := w.waitNotReady("net", samplecrdv1.ReasonAuthenticationFailed)
	w.contains(condition(network, samplecrdv1.ConditionReady).Message, "authenticate", "The request you have made requires authentication.")
	// From the start, the observer asks again within seconds, and wakes the others.
	w.must(w.neutron.SetPassword(project, password))
	w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")

	// Later, a Network asks again after a minute, or when it is edited.
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

func TestRequestThatHangsHoldsUpOneNetworkOnly(t *testing.T) {
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

func TestNeutronThatAsksToBeLeftAloneIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	const asked = 8 * time.Second
	came := w.harmOnce("POST networks", embedded.Fault{Status: 429, RetryAfter: asked})
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the refusal", came)
	w.waitNotReady("net", samplecrdv1.ReasonNeutronUnavailable)
	// Retries come each half second, but for this.
	w.calls.take()
	w.create("other", "10.2.0.0/16", "")
	w.create("other", "10.2.0.0/16", "10.2.0.2")
	if n := w.calls.take()["POST networks"]; n != 1 {
		t.Errorf("%d networks were tried, want that of the other only", n)
	}
	w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
}
