// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Guard says when a step must not be taken.
type Guard struct {
	// Paused means that a user has paused the Network: no step is taken.
	Paused bool
	// Verify reads the Network past the cache. It is called right before each step that cannot be
	// undone; an error prevents the step. It is nil if the API server has just answered.
	Verify func(context.Context) error
}

// approve returns an error if the step must not be taken now. next describes the step, and ports are
// those that prevent it. It makes no request.
func (c *Cloud) approve(identity Identity, guard Guard, next string, ports blockers) error {
	if guard.Paused {
		c.waits.drop(identity.Owner.UID)
		why := "paused by the annotation " + samplecrdv1.AnnotationPaused
		if identity.MovingFrom != "" {
			why = "the move from " + identity.MovingFrom + " is not finished: run samplecrd-controller move again"
		}
		return &Error{Op: why, Reason: Paused, Message: next}
	}
	return c.waits.check(identity.Owner.UID, ports)
}

// approveStep is approve for a step of Converge. A step that needs the router in the status waits for
// the write of the status.
func (c *Cloud) approveStep(v View, guard Guard, step Step) error {
	next := "next step: " + step.String()
	if err := c.approve(v.Identity, guard, next, blockersOf(step, v.Identity, v.Observed)); err != nil {
		return err
	}
	if v.isUnrecorded(step) {
		return &Error{Op: "in progress", Reason: Unrecorded, Message: next}
	}
	return nil
}

// verify reads the Network past the cache.
func (g Guard) verify(ctx context.Context) error {
	if g.Verify == nil {
		return nil
	}
	return g.Verify(ctx)
}

// Converge applies one step after the other until Neutron matches the desired network, a step
// fails, or the guard prevents one. It returns the view as it is then, with the network in Neutron and what the names of
// the spec lead to, and the steps that were applied. Observed is nil if Neutron cannot tell which of several networks to keep.
func (c *Cloud) Converge(ctx context.Context, v View, guard Guard) (_ View, done []Step, err error) {
	if v.Observed, err = c.pickSurvivor(ctx, v.Identity, v.Observed); err != nil {
		v.Observed = nil
		return v, nil, err
	}
	isRouted := v.isRouted(v.Observed)
	// A name that is not found holds up only the steps for the router, or for the subnet from that pool and the routes. The first step of
	// a new Network must follow the write of its finalizer at once, so names are resolved after it.
	// A default that cannot be restored holds up nothing that the spec declares, and another project holds up nothing else.
	var unresolved, unshared, unrestored error
	leaveOut := func(step Step, err error) bool {
		project := refusedProject(step, err)
		if project != "" {
			v.LeftOut, unshared = append(v.LeftOut, project), cmp.Or(unshared, err)
		}
		return project != ""
	}
	isResolved, reread, isForeseen := false, false, false
	for {
		if !isResolved && v.Observed.Exists() {
			v, unresolved = c.resolve(ctx, v)
			isResolved = true
		}
		step := v.Next()
		if step == nil {
			if unshared == nil { // it can wait for the ports of another project
				c.waits.drop(v.Owner.UID)
			}
			return v, done, cmp.Or(v.CheckImport(), unresolved, unshared, unrestored, v.checkAddresses(), v.checkAdminState())
		}
		if makesNoProgress(done, step) {
			return v, nil, &Error{Op: "change network", Reason: Unavailable, Message: "Neutron's answers do not show the requested change: " + step.String()}
		}
		if err := c.approveStep(v, guard, step); err != nil {
			if leaveOut(step, err) {
				continue
			}
			return v, done, withTaken(done, err)
		}
		plan := []Step{step}
		if !isForeseen {
			plan, isForeseen = v.planFrom(step)
		}
		next, failing, err := c.take(ctx, v.Identity, v.Observed, plan, guard)
		if err == nil {
			if create, isNew := step.(CreateSubnet); isNew {
				step = create.made(v.Observed, next)
			}
			v.Observed, done = next, append(done, step)
			continue
		}
		if subnet, defaults := restored(plan, failing); isRefusal(err) && len(defaults) > 0 {
			v.Refused, unrestored = v.refusing(subnet, defaults), cmp.Or(unrestored, notRestored(defaults, err))
			isForeseen = false // the plan is another one now
			continue
		}
		if isOutdated(plan[failing], err) && !reread {
			// Read once more, and plan again if that shows something new.
			reread, isForeseen, isResolved = true, false, false
			fresh, readErr := c.readNeutron(ctx, v.Identity, isRouted)
			if readErr != nil {
				return v, done, readErr
			}
			fresh = fresh.Keeping(v.Observed.ID)
			if ReasonOf(err) == Stale || !sameObserved(fresh, v.Observed) {
				v.Observed = fresh
				continue
			}
		}
		if leaveOut(plan[failing], err) {
			continue
		}
		c.routing.forgetNamed(v.Desired, err)
		return v, done, withTaken(done, err)
	}
}

// makesNoProgress reports whether Neutron's answers do not show what was requested: the plan asks for
// the same step again, or never ends.
func makesNoProgress(done []Step, next Step) bool {
	return len(done) > 0 && reflect.DeepEqual(asked(done[len(done)-1]), asked(next)) || len(done) == maxSteps
}

// asked returns the step without what it replaces: each answer can show something else.
func asked(step Step) Step {
	values := func(changes []Change) []Change {
		changes = slices.Clone(changes)
		for i := range changes {
			changes[i].Before = nil
		}
		return changes
	}
	switch s := step.(type) {
	case UpdateNetwork:
		return UpdateNetwork{values(s.Changes)}
	case UpdateRouter:
		return UpdateRouter{s.ID, values(s.Changes)}
	case UpdateSubnet:
		s.Changes = values(s.Changes)
		return s
	case DetachSubnet:
		s.Changes = values(s.Changes)
		return s
	case CreateSubnet:
		s.Replaces = nil
		if s.Subnet.SubnetPool != nil {
			s.Subnet.CIDR = netip.Prefix{}
		}
		return s
	case SetRoutes:
		s.Before = ""
		return s
	}
	return step
}

// isOutdated reports whether an error may come from what was observed and not from the step:
// another client was faster, or a create request that had timed out took effect after all and
// its subnet now overlaps with itself.
func isOutdated(step Step, err error) bool {
	reason := ReasonOf(err)
	if reason == Stale {
		return true
	}
	switch step.(type) {
	case CreateSubnet: // the network, or the subnet pool, can be gone; the subnet can have been created after a time-out
		return reason == Invalid || reason == Unresolved || reason == PoolEmpty
	case ShareNetwork: // Neutron answers 400 too if the network to share is gone
		return reason == Invalid
	case SetRoutes, RemoveRoutes: // the router, or an interface that a next hop needs, can be gone
		return reason == Invalid || reason == NotFound
	case AttachSubnet:
		return reason == InUse || reason == NotFound
	case UpdateRouter: // either the router is not there, or its external network
		return reason == Unresolved
	}
	return false
}

// isRefusal reports whether the same step fails again as long as nothing else changes.
func isRefusal(err error) bool {
	return slices.Contains([]ErrorReason{Invalid, Forbidden, InUse}, ReasonOf(err))
}

// refusedProject returns the project that the step is about, if Neutron refuses it for a reason that is no reason to hold up the steps
// after it; "" otherwise.
func refusedProject(step Step, err error) string {
	if !isRefusal(err) && ReasonOf(err) != OverQuota {
		return ""
	}
	switch s := step.(type) {
	case ShareNetwork:
		return s.Project
	case UnshareNetwork:
		return s.Share.ProjectID
	}
	return ""
}

// TakenBefore begins the part of a message that says what was taken away before a step that is not taken yet, or that
// Neutron has refused for a reason that only Neutron knows.
const TakenBefore = "; taken away before: "

// withTaken adds to the error what was taken away, in case it was in vain.
func withTaken(done []Step, err error) error {
	var taken []string
	for _, step := range done {
		if _, isNew := step.(CreateSubnet); effectOf(step).takesAway && !isNew {
			taken = append(taken, step.String())
		}
	}
	if len(taken) == 0 || !isRefusal(err) && !slices.Contains([]ErrorReason{OverQuota, PoolEmpty, Unrecorded}, ReasonOf(err)) {
		return err
	}
	refusal := errorIn(err)
	refusal.Message += TakenBefore + strings.Join(taken, ", ")
	return &refusal
}

// notRestored is the error for defaults that cannot be restored.
func notRestored(defaults []Change, err error) error {
	refusal := errorIn(err)
	refusal.Op = "restore what the spec leaves out"
	refusal.Message = describe(defaults) + ": " + refusal.Message
	return &refusal
}

// pickSurvivor chooses the network to keep. If the status names none of several, it is one
// that has ports.
func (c *Cloud) pickSurvivor(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if len(observed.Duplicates) == 0 || observed.ID == identity.NetworkID {
		return observed, nil
	}
	for _, n := range observed.Networks() {
		ports, err := c.client.PortsOnNetworks(ctx, n.ID)
		if err != nil {
			return nil, err
		}
		if len(ports) > 0 {
			return observed.Keeping(n.ID), nil
		}
	}
	return observed, nil
}

// Remove deletes the identity's networks and routers, or removes the mark from them if they are to
// be retained, until Neutron has none or the guard prevents it. It returns the network that stays: a
// retained one, or one that another client removed the mark from, which is left alone. It changes
// nothing if the network is only observed.
func (c *Cloud) Remove(ctx context.Context, identity Identity, observed *Observed, retain bool, guard Guard) (kept *Network, err error) {
	if identity.ReadOnly {
		return &observed.Network, nil
	}
	if observed, err = c.withRouters(ctx, identity, observed); err != nil {
		return nil, err
	}
	isRouted := identity.isRouted(observed)
	identity = c.withDeclaredRouter(ctx, identity, observed)
	for done := 0; !observed.IsEmpty() && done < maxSteps; done++ {
		if !retain && identity.keeps(&observed.Network) { // what a list has shown of other marks can be old
			if observed, err = c.readNeutron(ctx, identity, isRouted); err != nil {
				return nil, err
			}
			retain = identity.keeps(&observed.Network)
		}
		if identity.hasLost(observed) {
			if err := c.approveRemoval(ctx, identity, observed, guard); err != nil {
				return nil, err
			}
			return &observed.Network, nil
		}
		if err := identity.checkDeletion(&observed.Network); err != nil && !retain {
			return nil, err
		}
		next := func(observed *Observed) Step { return NextRemoval(identity, observed, retain) }
		if _, err := c.follow(ctx, identity, observed, next, guard); err != nil {
			return nil, err
		}
		if retain && observed.Exists() {
			kept = &observed.Network
		}
		identity.NetworkID = "" // others can only be found by their mark
		if observed, err = c.readNeutron(ctx, identity, isRouted); err != nil {
			return nil, err
		}
	}
	if !observed.IsEmpty() {
		return nil, &Error{Op: "delete network", Reason: Unavailable, Message: "Neutron's answers do not show that the network is gone: " + observed.ID}
	}
	if identity.MovingFrom != "" { // a request of the subcommand move can still be under way
		return nil, c.approve(identity, guard, deletionWaits, blockers{})
	}
	c.routing.forget(identity.Owner.UID)
	return kept, nil
}

// approveRemoval fails if the Network is paused, or no longer deleted. It is for a network that stays as it is.
func (c *Cloud) approveRemoval(ctx context.Context, identity Identity, observed *Observed, guard Guard) error {
	if err := c.approve(identity, guard, deletionWaits, blockers{}); err != nil {
		return err
	}
	return guard.verify(withNetwork(ctx, observed))
}

// withDeclaredRouter returns the identity with the ID of the router that the spec names, if the subnets are on another one than
// the status has. If no router has the name, the interfaces on it prevent the deletion, which is an error by itself.
func (c *Cloud) withDeclaredRouter(ctx context.Context, identity Identity, observed *Observed) Identity {
	isOther := func(i Interface) bool { return i.RouterID != identity.RouterID }
	if identity.Existing != nil && slices.ContainsFunc(observed.allInterfaces(), isOther) {
		identity.Declared, _ = c.resolveName(ctx, identity, "spec.router.existing", kindRouter, *identity.Existing)
	}
	return identity
}

// RemoveRouters detaches the network from the identity's routers, and deletes those that carry the
// owner's mark, unless a duplicate needs them. It returns what is observed then.
func (c *Cloud) RemoveRouters(ctx context.Context, identity Identity, observed *Observed, guard Guard) (*Observed, error) {
	return c.follow(ctx, identity, observed, func(observed *Observed) Step { return nextRouterRemoval(identity, observed) }, guard)
}

// deletionWaits is the message of a paused Network that is being deleted.
const deletionWaits = "the deletion waits"

// follow takes the steps of a removal until next returns none, one fails, or the guard prevents one. It returns what is observed
// then.
func (c *Cloud) follow(ctx context.Context, identity Identity, observed *Observed, next func(*Observed) Step, guard Guard) (*Observed, error) {
	ctx = withNetwork(ctx, observed)
	for done := range maxSteps {
		plan := stepsOf(next, observed)
		if len(plan) == 0 {
			return observed, nil
		}
		if done > 0 {
			plan = plan[:1] // the rest was checked
		}
		err := c.approve(identity, guard, deletionWaits, blockersOf(plan[0], identity, observed))
		if err == nil {
			observed, _, err = c.take(ctx, identity, observed, joint(plan), guard)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, &Error{Op: "delete network", Reason: Unavailable, Message: "Neutron's answers do not show the requested changes"}
}

// withNetwork adds the network to what is logged.
func withNetwork(ctx context.Context, observed *Observed) context.Context {
	return klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "networkID", observed.ID))
}
