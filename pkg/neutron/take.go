// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// take takes the first step of the plan, unless something prevents it, or another step of the plan. It returns
// what is observed afterwards, or the number of the step that fails.
func (c *Cloud) take(ctx context.Context, identity Identity, observed *Observed, plan []Step, guard Guard) (next *Observed, failing int, err error) {
	step := plan[0]
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "step", step))
	failing, err = c.checkPlan(ctx, identity, observed, plan, guard)
	if err == nil {
		failing = 0
		next, err = c.apply(ctx, identity, observed, step, guard)
	}
	if err != nil {
		c.invalidateAfter(identity.Owner, err)
		return observed, failing, err
	}
	c.store(identity.Owner.UID, observed, next)
	return next, 0, nil
}

// store puts what a step has changed into the cache. A newer list may have replaced the rest of what was observed.
func (c *Cloud) store(owner types.UID, observed, next *Observed) {
	gone := slices.DeleteFunc(observed.Networks(), func(n *Network) bool { return next.network(n.ID) != nil })
	for _, n := range gone {
		c.observer.Delete(owner, n.ID)
	}
	if len(gone) == 0 {
		c.observer.Update(owner, next)
	}
}

// apply applies the step, unless the guard prevents it. It returns what is observed afterwards.
func (c *Cloud) apply(ctx context.Context, identity Identity, observed *Observed, step Step, guard Guard) (*Observed, error) {
	if err := c.checkStillOurs(ctx, identity, observed, step); err != nil {
		return nil, err
	}
	if s, isDeletion := step.(DeleteNetwork); isDeletion && s.IsDuplicate {
		detached, err := c.follow(ctx, identity, observed.Keeping(s.Network.ID), func(o *Observed) Step { return nextDetachment(identity, o) }, guard)
		if err != nil {
			return nil, err
		}
		step = DeleteNetwork{Network: &detached.Network, IsDuplicate: true}
	}
	if _, verifiesItself := step.(DeleteNetwork); !verifiesItself && !effectOf(step).isReversible {
		if err := guard.verify(ctx); err != nil {
			return nil, err
		}
	}
	return c.perform(ctx, identity, observed, step, guard)
}

// perform makes the request of the step, and returns what is observed afterwards. If it must be repeated, or if others come before it, the
// guard is asked again.
func (c *Cloud) perform(ctx context.Context, identity Identity, observed *Observed, step Step, guard Guard) (*Observed, error) {
	switch s := step.(type) {
	case CreateNetwork:
		network, err := c.createNetwork(ctx, identity.Owner, s.fields())
		network.SharesKnown = identity.IsShared // with nobody
		return observed.with(network), err
	case UpdateNetwork:
		network, err := c.client.UpdateNetwork(ctx, &observed.Network, update(s.Changes))
		network.copyRead(&observed.Network)
		return observed.with(network), err
	case SetTags:
		tags, err := c.client.SetTags(ctx, observed.ID, s.Tags)
		next := *observed
		next.Tags, next.Revision = tags, nil // the revision has changed
		return &next, err
	case DeleteNetwork:
		return s.expect(observed), unlessGone(c.deleteIfMarked(ctx, identity, s.Network.ID, guard))
	case UnmarkNetwork:
		return s.expect(observed), unlessGone(c.unmarkNetwork(ctx, identity, s.ID))
	case CreateSubnet:
		subnet, err := c.client.CreateSubnet(ctx, observed.ID, s.fields())
		return observed.withSubnet(subnet), s.explain(err)
	case UpdateSubnet:
		subnet, err := c.client.UpdateSubnet(ctx, observed.subnet(s.ID), update(s.Changes))
		return observed.withSubnet(subnet), err
	case UnmarkSubnet:
		_, err := c.client.UpdateSubnet(ctx, &s.Subnet, unmarked(s.Subnet.Description))
		return s.expect(observed), err // if it is gone, the next read says so
	case DeleteSubnet:
		return s.expect(observed), c.tryDelete(ctx, identity.Owner.UID, blockersOf(s, identity, observed), guard, func() error {
			return c.client.DeleteSubnet(ctx, s.ID, observed.subnet(s.ID).Revision)
		})
	case ShareNetwork:
		return c.share(ctx, observed, s.Project)
	case UnshareNetwork:
		return s.expect(observed), c.tryDelete(ctx, identity.Owner.UID, blockersOf(s, identity, observed), guard, func() error {
			return c.client.deleteShare(ctx, s.Share.ID)
		})
	case ImportNetwork:
		return c.importNetwork(ctx, identity, observed)
	case WithdrawImport:
		network, err := c.removeTags(ctx, &observed.Network, s.Tags)
		if err != nil {
			return nil, err
		}
		return observed.with(*network), nil
	case UnmarkImport:
		_, err := c.removeTags(ctx, &observed.Network, s.Tags)
		if err == nil {
			c.wakeImporters(identity.Owner, s.ID)
		}
		return s.expect(observed), err
	}
	return c.performOnRouter(ctx, identity, observed, step)
}

// createNetwork creates the network, and remembers where. Nothing of the owner was found here before.
func (c *Cloud) createNetwork(ctx context.Context, owner Owner, fields map[string]any) (Network, error) {
	network, err := c.client.CreateNetwork(ctx, fields)
	place, isKnown := c.client.Place()
	switch {
	case !mayBeSent(err): // an earlier request may have been
	case changesNothing(err):
		c.observer.origins.forget(owner.UID)
	case isKnown:
		c.observer.origins.add(owner.UID, origin{c.name, place})
	}
	return network, err
}

// mayBeSent reports whether a request that ended with this error, or with none, can have reached Neutron.
func mayBeSent(err error) bool {
	e := errorIn(err)
	connection, isOfConnection := errors.AsType[*net.OpError](err)
	isRefused := isOfConnection && connection.Op == "dial"
	return !e.unsent && e.Op != authenticate && e.Op != findNeutron && !errors.Is(err, errSlow) && !isRefused
}

// performOnRouter is perform for the steps that are about routers.
func (c *Cloud) performOnRouter(ctx context.Context, identity Identity, observed *Observed, step Step) (*Observed, error) {
	switch s := step.(type) {
	case CreateRouter:
		router, err := c.client.CreateRouter(ctx, s.fields())
		return observed.withRouter(router), asUnresolved(err)
	case UpdateRouter:
		router, err := c.client.UpdateRouter(ctx, s.ID, update(s.Changes))
		return observed.withRouter(router), asUnresolved(err)
	case SetRoutes:
		router, err := c.client.changeRoutes(ctx, s.Router, identity.Owner, func(Routes) Routes { return s.Routes })
		return observed.withRouter(router), s.explain(err, observed)
	case RemoveRoutes:
		router, err := c.client.changeRoutes(ctx, s.Detach.Router, identity.Owner, func(now Routes) Routes { return now.without(s.Routes) })
		return observed.withRouter(router), err
	case UnmarkRouter:
		return s.expect(observed), c.client.describeRouter(ctx, s.Router.ID, identity.Owner, unmarked)
	case DeleteRouter:
		return s.expect(observed), c.client.DeleteRouter(ctx, s.ID)
	case AttachSubnet:
		return c.attach(ctx, s, observed)
	case DetachSubnet:
		return s.expect(observed), c.client.DetachSubnet(ctx, s.Router, s.Subnet)
	}
	panic(fmt.Sprintf("no request for the step %T", step)) // TestEveryStepHasARequest
}

// deleteIfMarked reads the network and deletes it, unless it has lost the owner's mark. If the network has become external, floating IPs
// of all projects can be on it: Neutron deletes those that lead nowhere, even if it then refuses the request.
func (c *Cloud) deleteIfMarked(ctx context.Context, identity Identity, id string, guard Guard) error {
	fresh, err := c.client.getNetwork(ctx, id)
	if err == nil {
		err = identity.checkDeletion(fresh)
	}
	if err != nil {
		return err
	}
	if !identity.Marks(fresh) { // the next sync reads it, and says that it stays
		return &Error{Op: "delete network " + id, Reason: Stale, Message: "it no longer carries our mark; its description is " + strconv.Quote(Printable(fresh.Description))}
	}
	on := blockersOfNetwork(id)
	if fresh.External {
		if err := c.checkPorts(ctx, identity.Owner.UID, on); err != nil {
			return err
		}
	}
	if err := guard.verify(ctx); err != nil {
		return err
	}
	return c.tryDelete(ctx, identity.Owner.UID, on, guard, func() error { return c.client.DeleteNetwork(ctx, id, fresh.Revision) })
}

// unmarkNetwork removes the mark. The steps before have changed the network's revision.
func (c *Cloud) unmarkNetwork(ctx context.Context, identity Identity, id string) error {
	fresh, err := c.client.getNetwork(ctx, id)
	if err != nil || !identity.Marks(fresh) {
		return err
	}
	_, err = c.client.UpdateNetwork(ctx, fresh, unmarked(fresh.Description))
	return err
}

// unmarked returns the fields of a request that removes the mark from this description.
func unmarked(description string) object {
	return object{"description": withoutMark(description)}
}

// invalidateAfter invalidates what the cache has of the owner, unless the error shows that
// nothing has changed in Neutron.
func (c *Cloud) invalidateAfter(owner Owner, err error) {
	isOfGuard := ReasonOf(err) == "" // so no request was sent
	if !isOfGuard && !changesNothing(err) {
		c.observer.Invalidate(owner.UID)
	}
}

// changesNothing reports whether the error of a request shows that nothing has changed in Neutron.
func changesNothing(err error) bool {
	switch ReasonOf(err) {
	case Invalid, Forbidden, Unauthenticated, InUse, OverQuota, NoSegment, NoZone, PoolEmpty:
		return true
	}
	return false
}

// tryDelete calls del. If that fails with InUse, it returns an error that names the ports, and
// the owner waits. If no ports are found, the last one has just gone, or the credentials cannot
// see it: it calls del once more, after the guard.
func (c *Cloud) tryDelete(ctx context.Context, owner types.UID, b blockers, guard Guard, del func() error) error {
	err := del()
	if ReasonOf(err) != InUse {
		return err
	}
	switch named := c.checkPorts(ctx, owner, b); {
	case named == nil:
		if err := guard.verify(ctx); err != nil {
			return err
		}
		return del()
	case ReasonOf(named) == InUse:
		return named
	}
	return err
}
