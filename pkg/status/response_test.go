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
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

func TestEveryReasonOfAnErrorHasAResponse(t *testing.T) {
	reasons := []neutron.ErrorReason{neutron.Invalid, neutron.Forbidden, neutron.Unauthenticated, neutron.NotFound, neutron.InUse, neutron.OverQuota,
		neutron.Stale, neutron.OtherCloud, neutron.NoCredentials, neutron.Paused, neutron.Unavailable}
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
		{"a person corrects a password", of(neutron.Unauthenticated), time.Minute, true},
		{"a person raises a quota", of(neutron.OverQuota), time.Minute, true},
		{"ports come and go, and a user may be watching", of(neutron.InUse), 10 * time.Second, true},
		{"an outage backs off", of(neutron.Unavailable), 0, false},
		{"a stale revision backs off, so that two writers do not fight for ever", of(neutron.Stale), 0, false},
		{"a network that is gone backs off", of(neutron.NotFound), 0, false},
		{"an error of Kubernetes backs off", errors.New("conflict"), 0, false},
		{"Neutron requests to wait", requesting(neutron.Unavailable), 7 * time.Second, true},
		{"Neutron's request to wait comes before a final error", requesting(neutron.Invalid), 7 * time.Second, true},
		{"Neutron's error among joined errors counts", errors.Join(errors.New("write the status"), of(neutron.InUse)), 10 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			delay, known := RetryAfter(test.err, final)
			if delay != test.want || known != test.known {
				t.Errorf("got %s, %v; want %s, %v", delay, known, test.want, test.known)
			}
		})
	}
}
