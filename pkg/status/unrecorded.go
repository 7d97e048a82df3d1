// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Unrecorded keeps what syncs changed in Neutron until an event is recorded for it. A sync can fail
// after some of its steps, or its status write can be refused; the next sync then finds some changes made already,
// and a status that says something else. They are kept in memory only, so a restart loses them. The
// methods may be called concurrently for different Networks.
type Unrecorded struct {
	onRepair func([]neutron.Step)

	mu      sync.Mutex
	changes map[cache.ObjectName]change
}

// change is what was changed for one Network.
type change struct {
	// before is the Network as the first of these syncs found it. Its status decides what kind of
	// change the steps are.
	before  *samplecrdv1.Network
	adopted bool
	steps   []neutron.Step
}

// maxSteps limits what is kept for a Network whose syncs change something and fail for ever.
const maxSteps = 20

// NewUnrecorded returns an empty Unrecorded. It calls onRepair with the steps that repaired drift,
// once for each event; onRepair may be nil.
func NewUnrecorded(onRepair func([]neutron.Step)) *Unrecorded {
	return &Unrecorded{onRepair: onRepair, changes: map[cache.ObjectName]change{}}
}

// Add adds the changes of a sync to those of earlier syncs, and returns the outcome with all of
// them.
func (u *Unrecorded) Add(network *samplecrdv1.Network, o Outcome) Outcome {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := cache.MetaObjectToName(network)
	c, ok := u.changes[key]
	if !ok || c.before.UID != network.UID || c.isEmpty() && c.before.Generation != network.Generation {
		c = change{before: network}
	}
	// A network that an earlier sync created is not in the status yet either. One that was moved here came into the status while the
	// Network was paused.
	isFound := o.Adopted || network.Spec.Import == nil && c.before.Status.NetworkID == "" && network.Status.NetworkID != ""
	c.adopted = c.adopted || isFound && !has[neutron.CreateNetwork](c.steps)
	c.steps = slices.Concat(c.steps, slices.DeleteFunc(slices.Clone(o.Steps), c.isConfirmation))
	c.steps = c.steps[:min(len(c.steps), maxSteps)]
	if o.Err == nil && c.isEmpty() {
		return o
	}
	u.changes[key] = c
	o.Before, o.Adopted, o.Steps = c.before, c.adopted, c.steps
	return o
}

func (c change) isEmpty() bool { return !c.adopted && len(c.steps) == 0 }

// isConfirmation reports whether the step only confirms that a subnet is attached, after an earlier
// sync has attached it: the status with its port was not written.
func (c change) isConfirmation(step neutron.Step) bool {
	attach, ok := step.(neutron.AttachSubnet)
	return ok && attach.Port != "" && slices.ContainsFunc(c.steps, func(earlier neutron.Step) bool {
		before, ok := earlier.(neutron.AttachSubnet)
		return ok && before.Router == attach.Router && before.Subnet == attach.Subnet
	})
}

// EventFor returns the event to record for an outcome of Add, after its status was written; nil if
// there is nothing new. The changes are kept while they are not complete.
func (u *Unrecorded) EventFor(network *samplecrdv1.Network, o Outcome, next *samplecrdv1.NetworkStatus) *Event {
	if o.Err == nil || o.IsImport(network) {
		u.Forget(cache.MetaObjectToName(network))
	}
	if o.IsRepair(network) && u.onRepair != nil {
		u.onRepair(o.Steps)
	}
	return EventFor(network, o, next)
}

// Forget removes the changes of a Network.
func (u *Unrecorded) Forget(key cache.ObjectName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.changes, key)
}
