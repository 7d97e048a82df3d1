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

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Replica is this process. It leads while it holds the Lease, or always if it is the only
// replica.
type Replica struct {
	election *Election // nil: it is the only one
	lost     func()
}

// NewReplica makes a Replica. Without options it is the only one. lost is called when the
// Lease is lost, and must end the process at once: what this replica has begun, another one
// continues.
func NewReplica(client coordinationv1.LeasesGetter, recorder resourcelock.EventRecorder, options *Options, lost func()) (*Replica, error) {
	if options == nil {
		return &Replica{}, nil
	}
	election, err := New(client, recorder, *options)
	return &Replica{election: election, lost: lost}, err
}

// Run waits until this replica leads, and then calls lead, as Election's Run does.
func (r *Replica) Run(ctx context.Context, lead func(context.Context) error) error {
	if r.election == nil {
		return lead(ctx)
	}
	err := r.election.Run(ctx, lead)
	if errors.Is(err, ErrLost) {
		r.lost()
	}
	return err
}

// MustLead returns only if this replica leads. It is called before each request to OpenStack:
// a process that was suspended detects there that it has lost the Lease, before it creates
// what another replica has created already. (Most writes to Kubernetes need no such check:
// they hold only for the resourceVersion that was read.)
func (r *Replica) MustLead() {
	if !r.Leads() {
		r.lost()
	}
}

// Leads reports whether this replica leads.
func (r *Replica) Leads() bool { return r.election == nil || r.election.Leads() }

// Leader returns the identity of the replica that leads, and whether it is this one. The
// identity is "" if it is unknown, or if this is the only replica.
func (r *Replica) Leader() (identity string, here bool) {
	if r.election == nil {
		return "", true
	}
	return r.election.Leader(), r.Leads()
}
