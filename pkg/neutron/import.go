// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// importNetwork adds the tag and reads the network again. Of two controllers that do so at the same time, the
// one that adds its tag later sees both. It withdraws its own, and so may the other one; both try again
// after different delays.
func (c *Cloud) importNetwork(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if holder := c.imports.hold(observed.ID, identity.Owner.UID); holder != identity.Owner.UID {
		return nil, raced(importRefusal(identity.Owner, &Network{ID: observed.ID, Tags: NewTags(Owner{identity.Owner.Cluster, holder}.ImportTag())}))
	}
	fresh, err := c.client.getNetwork(ctx, observed.ID)
	if err == nil {
		err = importRefusal(identity.Owner, fresh)
	}
	if err == nil && !fresh.namesCluster(identity.Owner) {
		if err = c.client.addTag(ctx, fresh.ID, identity.Owner.ImportTag()); err == nil {
			fresh, err = c.confirm(ctx, identity.Owner, fresh.ID)
		}
	}
	if err == nil {
		fresh, err = c.removeTags(ctx, fresh, fresh.obsoleteImportTags(identity.Owner))
	}
	if err != nil {
		c.imports.drop(observed.ID, identity.Owner.UID)
		c.observer.Invalidate(identity.Owner.UID) // the network may have the tag, whatever the error says
		return nil, err
	}
	fresh.copyRead(&observed.Network)
	next := observed.with(*fresh)
	next.Imported = true
	return next, nil
}

// maxRaceDelay is the longest delay after two Networks have marked a network at the same time.
const maxRaceDelay = 4 * time.Second

// confirm reads a network that was just marked. If another Network has marked it too, confirm removes
// the owner's mark and fails with ImportRefused.
func (c *Cloud) confirm(ctx context.Context, owner Owner, id string) (*Network, error) {
	fresh, err := c.client.getNetwork(ctx, id)
	if err != nil {
		return nil, err
	}
	refused := importRefusal(owner, fresh)
	if refused == nil {
		return fresh, nil
	}
	return nil, cmp.Or(c.client.removeTag(ctx, id, owner.ImportTag()), raced(refused))
}

// raced returns the error with a delay: of two Networks that mark a network at the same time, both may have
// withdrawn.
func raced(err error) error {
	race := errorIn(err)
	race.RetryAfter = wait.Jitter(maxRaceDelay/4, 3)
	return &race
}

// removeTags removes the tags from the network, and returns it as it is then.
func (c *Cloud) removeTags(ctx context.Context, network *Network, tags []string) (*Network, error) {
	for _, tag := range tags {
		if err := c.client.removeTag(ctx, network.ID, tag); err != nil {
			return nil, err
		}
		next := *network
		next.Tags, next.Revision = network.Tags.without(tag), nil // the revision has changed
		network = &next
	}
	return network, nil
}

// checkImported fails with Stale if the network is imported and is not the owner's any more: what was
// observed may be as old as the last list. An own network has the mark in what Neutron changes or deletes.
func (c *Cloud) checkImported(ctx context.Context, identity Identity, observed *Observed, step Step) error {
	switch step.(type) {
	case ImportNetwork, WithdrawImport, UnmarkSubnet, UnmarkRouter, UnmarkImport, DeleteNetwork:
		return nil // the first two and a deletion look themselves; to remove marks, nothing more must be true
	}
	if identity.Import == "" || !observed.Exists() {
		return nil
	}
	fresh, err := c.client.getNetwork(ctx, observed.ID)
	if ReasonOf(err) == NotFound || err == nil && (!identity.Marks(fresh) || importRefusal(identity.Owner, fresh) != nil) {
		return &Error{Op: opImport, Reason: Stale, Message: "network " + observed.ID + " has changed"}
	}
	return err
}
