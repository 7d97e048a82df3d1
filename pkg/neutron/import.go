// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
)

// importNetwork adds the tag and reads the network again. Of two controllers that do so at the same time, the
// one that adds its tag later sees both. It withdraws its own, and so may the other one; both try again
// after different delays.
func (c *Cloud) importNetwork(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if holder := c.imports.hold(observed.ID, identity.Owner.UID); holder != identity.Owner.UID {
		return nil, raced(importRefusal(identity.Owner, &Network{ID: observed.ID, Tags: NewTags(Owner{identity.Owner.Cluster, holder}.ImportTag())}))
	}
	defer c.imports.drop(observed.ID, identity.Owner.UID) // from now on the tag tells the others
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

// checkStillOurs fails with Stale if the network is not the owner's any more: what was observed may be as old as the last list. An
// own network has the mark in what Neutron changes or deletes, except for the steps that free it for its deletion.
func (c *Cloud) checkStillOurs(ctx context.Context, identity Identity, observed *Observed, step Step) error {
	switch step.(type) {
	case ImportNetwork, WithdrawImport, UnmarkSubnet, UnmarkRouter, UnmarkImport, DeleteNetwork:
		return nil // the first two and a deletion look themselves; to remove marks, nothing more must be true
	}
	if !observed.Exists() || identity.Import == "" && !isFreeing(step) {
		return nil
	}
	fresh, err := c.client.getNetwork(ctx, observed.ID)
	if ReasonOf(err) == NotFound || err == nil && (!identity.Marks(fresh) || identity.checkDeletion(fresh) != nil) {
		return &Error{Op: "find network " + observed.ID, Reason: Stale, Message: "it has changed, or is gone"}
	}
	return err
}

// isFreeing reports whether the step frees a network for its deletion.
func isFreeing(step Step) bool {
	switch s := step.(type) {
	case DetachSubnet:
		return s.IsRemoval
	case RemoveRoutes:
		return s.Detach.IsRemoval
	}
	return false
}

// imports has the networks that Networks import. A list of Neutron keeps them, although their descriptions
// lack the cluster's mark. Its methods may be called concurrently. The zero value is empty.
type imports struct {
	mu sync.Mutex
	// networks has the ID of the imported network by the UID of the Network.
	networks map[types.UID]string
	// importers has the UIDs of the Networks by the ID of the network.
	importers map[string][]types.UID
	// holders has, by the ID of a network, the Network that this process is just marking it for. There is one at most.
	holders map[string]types.UID
}

// add remembers what the identity imports.
func (i *imports) add(identity Identity) {
	if identity.Import == "" {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.networks == nil {
		i.networks, i.importers = map[types.UID]string{}, map[string][]types.UID{}
	}
	uid, id := identity.Owner.UID, identity.Import
	if _, known := i.networks[uid]; !known { // the ID never changes
		i.networks[uid], i.importers[id] = id, append(slices.Clone(i.importers[id]), uid)
	}
}

// forget forgets the Network, and returns the ID of the network that it imported.
func (i *imports) forget(uid types.UID) (id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, isKnown := i.networks[uid]
	if !isKnown {
		return ""
	}
	delete(i.networks, uid)
	i.importers[id] = slices.DeleteFunc(slices.Clone(i.importers[id]), func(other types.UID) bool { return other == uid })
	if len(i.importers[id]) == 0 {
		delete(i.importers, id)
	}
	return id
}

// of returns the Networks that import the network with that ID.
func (i *imports) of(id string) []types.UID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.importers[id]
}

// all returns the IDs of all imported networks.
func (i *imports) all() sets.Set[string] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return sets.KeySet(i.importers)
}

// hold reserves the network for the Network with that UID, unless it is reserved for another one. It returns
// the UID that it is reserved for.
func (i *imports) hold(id string, uid types.UID) (holder types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holders == nil {
		i.holders = map[string]types.UID{}
	}
	if i.holders[id] == "" {
		i.holders[id] = uid
	}
	return i.holders[id]
}

// drop ends the reservation of the network for the Network, if there is one.
func (i *imports) drop(id string, uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holders[id] == uid {
		delete(i.holders, id)
	}
}

// wakeImporters enqueues the other Networks that import the network, because one of them may have it now.
func (c *Cloud) wakeImporters(owner Owner, id string) {
	for _, other := range c.imports.of(id) {
		if other != owner.UID {
			c.observer.Invalidate(other)
			c.observer.callHandlers(other)
		}
	}
}

// ForgetOwner forgets a Network that no longer exists: what it imports, that it waits for the cloud, and when it was changed.
func (c *Cloud) ForgetOwner(uid types.UID) {
	c.recovery.forget(uid)
	c.observer.clock.forget(uid)
	c.observer.origins.forget(uid)
	if id := c.imports.forget(uid); id != "" {
		c.wakeImporters(Owner{UID: uid}, id)
	}
}

// addImported adds the imported networks that the list of the project's networks lacks, because they
// belong to other projects. It makes one request for networks and one for subnets for each 64 of them. If these
// fail, it adds the networks that the cache knows.
func (c *Cloud) addImported(ctx context.Context, networks []*Network) ([]*Network, error) {
	missing := c.imports.all()
	for _, n := range networks {
		missing.Delete(n.ID)
	}
	others, err := c.client.networksByID(ctx, sets.List(missing))
	switch {
	case err == nil:
		return append(networks, others...), nil
	case !mayStay(ctx, err, "imported networks of other projects"):
		return nil, err
	}
	for id := range missing {
		for _, importer := range c.imports.of(id) {
			cached, isKnown, _ := c.observer.Get(importer)
			if known := cached.network(id); known != nil && isKnown {
				shared := *known // the interfaces are added to it
				networks = append(networks, &shared)
				break
			}
		}
	}
	return networks, nil
}
