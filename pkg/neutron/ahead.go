// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
)

// checkPlan makes the checks of the steps of a joint plan. It returns the number of the one that is known to fail, and
// why.
func (c *Cloud) checkPlan(ctx context.Context, identity Identity, observed *Observed, plan []Step, guard Guard) (failing int, err error) {
	l := lookahead{Cloud: c, identity: identity, observed: observed}
	if len(plan) == 1 {
		return 0, l.check(ctx, anyStep, plan[0], observed)
	}
	failing, err = l.checkAll(ctx, plan)
	if err == nil {
		err = l.tryDefault(ctx, plan[0])
	}
	if err == nil {
		err = l.tryAttachments(ctx, guard)
	}
	return failing, err
}

// lookahead checks the preconditions of steps that are not taken yet. For the steps of one plan it reads everything once.
type lookahead struct {
	*Cloud
	identity Identity
	// observed is what is observed now.
	observed *Observed
	// isListed means that observed is from a list that was just made.
	isListed bool
	// unclear are the attachments of which the client cannot see everything that can prevent them.
	unclear []AttachSubnet
	// more is how many subnets and routers there are more than now, after the steps that were checked.
	more map[string]int
}

// checkAll returns the number of the first step that is known to fail, and why. The first step is checked last, and
// a deletion reads anew: so as little as possible happens between its check and the request.
func (l *lookahead) checkAll(ctx context.Context, steps []Step) (failing int, err error) {
	if len(steps) == 0 {
		return 0, nil
	}
	remembering := withMemory(ctx)
	failing, later := l.checkLater(remembering, steps)
	if _, isDeletion := steps[0].(DeleteSubnet); !isDeletion {
		ctx = remembering
	}
	if err := l.check(ctx, plannedStep, steps[0], l.observed); err != nil {
		return 0, err
	}
	return failing, later
}

// checkLater is checkAll for all steps but the first.
func (l *lookahead) checkLater(ctx context.Context, steps []Step) (failing int, err error) {
	l.more = map[string]int{}
	expected := l.observed
	for i, step := range steps {
		effect := effectOf(step)
		l.more[effect.resource] += effect.more
		if i > 0 {
			if err := l.check(ctx, laterStep, step, expected); err != nil {
				return i, err
			}
		}
		expected = step.expect(expected)
	}
	return 0, nil
}

// tryAttachments tries to attach the subnets before they are detached from another router, which has the addresses
// of their gateways. Neutron refuses that: with 409 because of the address, if nothing else is in the way. So it
// tells what the client cannot see, such as the subnets of an external network (measured: a member cannot list
// them). If Neutron accepts it, the other router has just lost the subnet: the subnet is detached again, because the
// status does not have this router yet, and the plan is made again.
func (l *lookahead) tryAttachments(ctx context.Context, guard Guard) error {
	for _, s := range l.unclear {
		if err := guard.verify(ctx); err != nil {
			return err
		}
		_, err := l.client.AttachSubnet(ctx, s.Router, s.Subnet)
		switch {
		case err == nil:
			if err := l.client.DetachSubnet(ctx, s.Router, s.Subnet); err != nil {
				return err
			}
			return &Error{Op: "attach subnet", Reason: Stale, Message: "the other router has lost the subnet"}
		case ReasonOf(err) != InUse:
			return asUnresolved(err)
		}
	}
	return nil
}

// tryDefault tries to restore the default gateway before the subnet is detached for that. Neutron refuses it: with 409
// because of the interface, if the client may change the gateway. Otherwise the subnet would be detached in vain, and
// again at each resync.
func (l *lookahead) tryDefault(ctx context.Context, step Step) error {
	s, _ := step.(DetachSubnet)
	if r, isFirst := step.(RemoveRoutes); isFirst {
		s = r.Detach
	}
	if c := gatewayChange(s.Changes); c == nil || !c.IsDefault {
		return nil
	}
	_, err := l.client.UpdateSubnet(ctx, l.observed.subnet(s.Subnet), update(s.Changes))
	switch {
	case err == nil:
		return &Error{Op: "update subnet", Reason: Stale, Message: "the router has lost the subnet"}
	case ReasonOf(err) == InUse:
		return nil
	}
	return err
}
