// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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

// checkAttachment fails with Invalid if the subnet has no gateway, or overlaps with another one of the
// router, and with InUse if a port has the address of its gateway. An interface that exists needs no
// check: the step only confirms it.
func (l *lookahead) checkAttachment(ctx context.Context, s AttachSubnet, expected *Observed) error {
	if s.Port != "" {
		return nil
	}
	gateway := expected.subnet(s.Subnet).Gateway
	if !gateway.IsValid() {
		return &Error{Op: "attach subnet", Reason: Invalid, Message: fmt.Sprintf("subnet %s has no gateway, which an interface of a router needs", s.CIDR)}
	}
	existing := l.observed.subnet(s.Subnet)
	removed := l.removed(expected)
	isReleased := slices.ContainsFunc(removed, func(i Interface) bool { return i.SubnetID == s.Subnet && i.Address == gateway })
	if existing != nil && !isReleased {
		if err := l.checkAddress(ctx, "attach subnet", l.observed.ID, FixedIP{s.Subnet, gateway}, removed...); err != nil {
			return err
		}
	}
	// Neutron has accepted the subnet at this router before, if it is attached with another address now.
	isAttached := slices.ContainsFunc(removed, func(i Interface) bool { return i.SubnetID == s.Subnet && i.RouterID == s.Router })
	isComplete, err := l.checkNeighbours(ctx, s, expected)
	canTry := existing != nil && existing.Gateway == gateway && isReleased && !isAttached && s.Router != newRouter
	if err == nil && !isComplete && canTry {
		l.unclear = append(l.unclear, s)
	}
	return err
}

// removed returns the interfaces that a step before removes.
func (l *lookahead) removed(expected *Observed) []Interface {
	return slices.DeleteFunc(slices.Clone(l.observed.Interfaces), func(i Interface) bool {
		return slices.ContainsFunc(expected.Interfaces, func(left Interface) bool { return sameInterface(i, left) })
	})
}

// checkNeighbours fails with Invalid if the subnet overlaps with another one of the router, or of its external
// network. It is complete if the client can see all of them. Of a subnet that it cannot see, it knows the
// address of the router.
func (l *lookahead) checkNeighbours(ctx context.Context, s AttachSubnet, expected *Observed) (isComplete bool, err error) {
	router := expected.router(s.Router)
	if router == nil || !s.IsOwn {
		details, err := l.client.getRouterDetails(ctx, s.Router)
		if err != nil {
			return false, asUnresolved(err)
		}
		router = &details.Router
	}
	addresses, err := l.neighbours(ctx, router)
	if err != nil {
		return false, err
	}
	visible, err := l.client.subnetsOf(ctx, slices.Sorted(maps.Keys(addresses)), router.Gateway.NetworkID)
	if err != nil {
		return false, err
	}
	hasExternal := router.Gateway.NetworkID == ""
	for _, other := range visible {
		delete(addresses, other.ID)
		isExternal := other.NetworkID == router.Gateway.NetworkID
		hasExternal = hasExternal || isExternal
		if other.CIDR.Overlaps(s.CIDR) {
			return false, overlap(s, other.CIDR.String(), other.ID, isExternal)
		}
	}
	for id, address := range addresses {
		if s.CIDR.Contains(address) {
			return false, overlap(s, "the subnet of "+address.String(), id, false)
		}
	}
	for _, address := range router.Gateway.IPs.All() {
		if ip, err := netip.ParseAddr(address); err == nil && !hasExternal && s.CIDR.Contains(ip) {
			return false, overlap(s, "the subnet of "+address, router.Gateway.NetworkID, true)
		}
	}
	return hasExternal && len(addresses) == 0, nil
}

// neighbours returns the router's address in each subnet of other networks that is attached to it.
func (l *lookahead) neighbours(ctx context.Context, router *Router) (map[string]netip.Addr, error) {
	addresses := map[string]netip.Addr{}
	if router.ID == newRouter {
		return addresses, nil
	}
	ports, err := l.client.interfacePorts(ctx, router.ID)
	for _, i := range interfacesOf(ports) {
		if l.observed.subnet(i.SubnetID) == nil {
			addresses[i.SubnetID] = i.Address
		}
	}
	return addresses, err
}

// overlap is the error for another subnet of the router that overlaps with the one to attach.
func overlap(s AttachSubnet, other, id string, isExternal bool) error {
	of := fmt.Sprintf("which is attached to router %s", s.Router)
	if isExternal {
		of = "a subnet of the router's external network"
	}
	return &Error{Op: "attach subnet", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with %s (%s), %s", s.CIDR, other, id, of)}
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
