// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// imports has the networks that Networks import. A list of Neutron keeps them, although their descriptions
// lack the cluster's mark. Its methods may be called concurrently. The zero value is empty.
type imports struct {
	mu sync.Mutex
	// networks has the ID of the imported network by the UID of the Network.
	networks map[types.UID]string
	// importers has the UIDs of the Networks by the ID of the network.
	importers map[string][]types.UID
	// holders has, by the ID of a network, the Network that this process has marked it for or is about
	// to. There is one at most.
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
	if identity.Observe && i.holders[id] == uid { // it marks nothing any more
		delete(i.holders, id)
	}
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
	c.imports.drop(id, owner.UID)
	for _, other := range c.imports.of(id) {
		if other != owner.UID {
			c.observer.Invalidate(other)
			c.observer.callHandlers(other)
		}
	}
}

// ForgetOwner forgets a Network that no longer exists: what it imports, and that it waits for the cloud.
func (c *Cloud) ForgetOwner(uid types.UID) {
	c.recovery.forget(uid)
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
			cached, _, _ := c.observer.Get(importer)
			if known := cached.network(id); known != nil {
				shared := *known // the interfaces are added to it
				networks = append(networks, &shared)
				break
			}
		}
	}
	return networks, nil
}
