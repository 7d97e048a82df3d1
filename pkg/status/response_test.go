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

package status

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestEveryErrorReasonHasAResponse(t *testing.T) {
	reasons := []neutron.ErrorReason{neutron.Invalid, neutron.Forbidden, neutron.Unauthenticated, neutron.NotFound, neutron.InUse, neutron.OverQuota, neutron.NoSegment,
		neutron.Stale, neutron.OtherCloud, neutron.ImportNotFound, neutron.ImportRefused, neutron.NoCredentials, neutron.Paused, neutron.Unresolved, neutron.AdminStateDown, neutron.Unrecorded, neutron.Unavailable}
	for _, reason := range reasons {
		if _, ok := responses[reason]; !ok {
			t.Errorf("%s has no row in the table", reason)
		}
	}
	if len(responses) != len(reasons) {
		t.Errorf("the table has %d rows, want %d", len(responses), len(reasons))
	}
}

func TestRetryAfter(t *testing.T) {
	const final = 5 * time.Minute
	of := func(reason neutron.ErrorReason) error {
		return fmt.Errorf("sync: %w", &neutron.Error{Reason: reason})
	}
	requesting := func(reason neutron.ErrorReason) error {
		return &neutron.Error{Reason: reason, RetryAfter: 7 * time.Second}
	}
	for _, test := range []struct {
		name  string
		err   error
		want  time.Duration
		known bool
	}{
		{"an invalid spec is retried at the resync", of(neutron.Invalid), final, true},
		{"a missing right is retried at the resync", of(neutron.Forbidden), final, true},
		{"another cloud than the status names is looked at again at the resync", of(neutron.OtherCloud), final, true},
		{"a network to import is looked for again at the resync", of(neutron.ImportNotFound), final, true},
		{"a refused import is tried again at the resync", of(neutron.ImportRefused), final, true},
		{"a pause is over when the Network changes", of(neutron.Paused), final, true},
		{"missing credentials are there when the Secret changes", of(neutron.NoCredentials), final, true},
		{"refused credentials are retried after a minute, since a person corrects them", of(neutron.Unauthenticated), time.Minute, true},
		{"an exhausted quota is retried after a minute, since a person raises it", of(neutron.OverQuota), time.Minute, true},
		{"a missing segment is retried after a minute, since a person adds some", of(neutron.NoSegment), time.Minute, true},
		{"a network in use is retried after a minute, in case nothing enqueues it when the ports are gone", of(neutron.InUse), time.Minute, true},
		{"what is not there is looked for after a minute, since a person creates it", of(neutron.Unresolved), time.Minute, true},
		{"what is switched off is looked at again at the resync, and when a list shows it switched on", of(neutron.AdminStateDown), final, true},
		{"a sync that waits for its status goes on at once", of(neutron.Unrecorded), time.Millisecond, true},
		{"an outage backs off", of(neutron.Unavailable), 0, false},
		{"a stale revision backs off, so that two writers do not overwrite each other endlessly", of(neutron.Stale), 0, false},
		{"a network that does not exist backs off", of(neutron.NotFound), 0, false},
		{"an error of Kubernetes backs off", errors.New("conflict"), 0, false},
		{"the Retry-After of Neutron is the delay", requesting(neutron.Unavailable), 7 * time.Second, true},
		{"Retry-After takes precedence over the delay of a final error", requesting(neutron.Invalid), 7 * time.Second, true},
		{"joined errors are retried with the delay of Neutron's error", errors.Join(errors.New("write the status"), of(neutron.InUse)), time.Minute, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			delay, known := RetryAfter(test.err, final)
			if delay != test.want || known != test.known {
				t.Errorf("got %s, %v; want %s, %v", delay, known, test.want, test.known)
			}
		})
	}
}

func TestIsPremature(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	config, err := neutron.ParseConfig("test", server.CloudsYAML("test"))
	if err != nil {
		t.Fatal(err)
	}
	newCloud := func(answers ...int) *neutron.Cloud {
		client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
		t.Cleanup(client.Close)
		cloud := neutron.NewCloud("test", client, "cluster", time.Hour)
		for _, status := range answers {
			server.SetFault(func(r *http.Request) *embedded.Fault {
				if status == http.StatusOK || !strings.HasSuffix(r.URL.Path, "/networks") {
					return nil
				}
				return &embedded.Fault{Status: status, Type: "X", Message: "x"}
			})
			if err := cloud.Observer().Relist(t.Context()); (err == nil) != (status == http.StatusOK) {
				t.Fatalf("the list returned the error %v, want status %d", err, status)
			}
		}
		return cloud
	}
	failing, listed, listedBefore := newCloud(http.StatusForbidden), newCloud(http.StatusOK), newCloud(http.StatusOK, http.StatusForbidden)
	away := neutronError(neutron.Unavailable)
	edited := newNetwork(ready())
	edited.Generation++
	deleted := newNetwork(ready())
	deleted.DeletionTimestamp = new(metav1.Unix(1, 0))
	for _, test := range []struct {
		name    string
		cloud   *neutron.Cloud
		network *samplecrdv1.Network
		err     error
		want    bool
	}{
		{"nothing contradicts the status", failing, newNetwork(ready()), away, true},
		{"refused credentials are reported", failing, newNetwork(ready()), neutronError(neutron.Unauthenticated), false},
		{"the next step waits for the status", failing, newNetwork(ready()), neutronError(neutron.Unrecorded), false},
		{"Neutron was listed", listed, newNetwork(ready()), away, false},
		{"Neutron was listed once, but the last list failed", listedBefore, newNetwork(ready()), away, false},
		{"the cloud is not known", nil, newNetwork(ready()), away, false},
		{"the Network was not ready", failing, newNetwork(condition("Ready", "False", "InUse", "x")), away, false},
		{"the Network is new", failing, newNetwork(), away, false},
		{"the Network was edited", failing, edited, away, false},
		{"the Network is being deleted", failing, deleted, away, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, IsPremature(test.cloud, test.network, test.err))
		})
	}
}
