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

package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheOnlyReplicaLeads(t *testing.T) {
	r, err := NewReplica(nil, nil, nil, func() { t.Error("the lease is lost") })
	if err != nil {
		t.Fatal(err)
	}
	r.MustLead()
	if leader, here := r.Leader(); leader != "" || !here || !r.Leads() {
		t.Errorf("the leader is %q, here: %t", leader, here)
	}
	failed := errors.New("failed")
	if err := r.Run(t.Context(), func(context.Context) error { return failed }); err != failed {
		t.Errorf("got %v", err)
	}
}

func TestAReplicaThatLosesTheLeaseIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, lost := newKubernetes(), 0
		r, err := NewReplica(k, nil, &options, func() { lost++ })
		if err != nil {
			t.Fatal(err)
		}
		if r.MustLead(); lost != 1 {
			t.Errorf("before it leads: lost was called %d times", lost)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- r.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		time.Sleep(soon)
		leader, here := r.Leader()
		if r.MustLead(); lost != 1 || !here || leader != k.holder(t) {
			t.Errorf("while %q leads, here: %t: lost was called %d times", leader, here, lost)
		}
		k.harm(refuses, nil)
		if err := <-ended; !errors.Is(err, ErrLost) || lost != 2 {
			t.Errorf("got %v; lost was called %d times", err, lost)
		}
		if r.MustLead(); lost != 3 {
			t.Errorf("afterwards: lost was called %d times", lost)
		}
	})
}
