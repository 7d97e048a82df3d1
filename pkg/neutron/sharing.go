// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// sharing knows which owners share their networks with other projects: for all others, Neutron is never asked for its RBAC
// policies. Its methods may be called concurrently. The zero value knows none.
type sharing struct {
	mu     sync.Mutex
	owners sets.Set[types.UID]
	// hidden are the policies that Neutron has refused to create again, and does not show to the client: those of an administrator.
	hidden sets.Set[Share]
}

// need remembers whether the owner shares its network.
func (s *sharing) need(identity Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !identity.IsShared:
		s.owners.Delete(identity.Owner.UID)
	case s.owners == nil:
		s.owners = sets.New(identity.Owner.UID)
	default:
		s.owners.Insert(identity.Owner.UID)
	}
}

// among returns those of the owners that share their networks, and forgets the others: their Networks may be gone, or in another
// cloud. A sync of such a Network remembers its owner again.
func (s *sharing) among(owned map[types.UID][]*Network) map[types.UID][]*Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners = s.owners.Intersection(sets.KeySet(owned))
	shared := make(map[types.UID][]*Network, s.owners.Len())
	for owner := range s.owners {
		shared[owner] = owned[owner]
	}
	return shared
}

// hide remembers a policy that the client cannot see.
func (s *sharing) hide(share Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden == nil {
		s.hidden = sets.New[Share]()
	}
	s.hidden.Insert(share)
}

// reveal forgets the policies of the network that the client cannot see: they may be gone. Neutron is asked for them again.
func (s *sharing) reveal(network string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.hidden, func(share Share, _ sets.Empty) bool { return share.NetworkID == network })
}

// addHidden adds the policies that the client cannot see to what it has read.
func (s *sharing) addHidden(networks []*Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for share := range s.hidden {
		for _, n := range networks {
			if n.ID == share.NetworkID && n.share(share.ProjectID) == nil {
				n.Shares = append(n.Shares, share)
				slices.SortFunc(n.Shares, compareShares)
			}
		}
	}
}

// readShares adds to some networks with which projects they are shared.
func (c *Cloud) readShares(ctx context.Context, networks ...*Network) error {
	err := c.client.readShares(ctx, networks...)
	if err == nil {
		c.sharing.addHidden(networks)
	}
	return err
}

// withShares returns what was observed, with the projects that the network is shared with, if the owner needs them and no list has
// had them yet.
func (c *Cloud) withShares(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if observed.SharesKnown || !identity.IsShared {
		return observed, nil
	}
	next := *observed
	if err := c.readShares(ctx, &next.Network); err != nil {
		return observed, err
	}
	c.observer.Update(identity.Owner.UID, &next)
	return &next, nil
}

// listShares adds to the networks of the owners that share them with which projects they are shared, with one list for all. If only
// that list fails, they are as in the cache.
func (c *Cloud) listShares(ctx context.Context, owned map[types.UID][]*Network) error {
	shared := c.sharing.among(owned)
	networks := slices.Concat(slices.Collect(maps.Values(shared))...)
	if len(networks) == 0 {
		return nil
	}
	err := c.client.readShares(ctx, networks...)
	switch {
	case err == nil:
		c.sharing.addHidden(networks)
		return nil
	case !mayStay(ctx, err, "RBAC policies"):
		return err
	}
	for owner, networks := range shared {
		cached, isKnown, _ := c.observer.Get(owner)
		for _, n := range networks {
			if known := cached.network(n.ID); known != nil && isKnown {
				n.Shares, n.SharesKnown = known.Shares, known.SharesKnown
			}
		}
	}
	return nil
}

// share shares the network with the project. If Neutron has such a policy, which the client may not be able to see, that is as good:
// somebody else has made it, or an earlier request whose answer was lost.
func (c *Cloud) share(ctx context.Context, observed *Observed, project string) (*Observed, error) {
	share, err := c.client.createShare(ctx, observed.ID, project)
	if errorIn(err).kind != duplicatePolicy {
		return observed.withShare(share), err
	}
	next := *observed
	if err := c.client.readShares(ctx, &next.Network); err != nil {
		return nil, err
	}
	if next.share(project) == nil {
		c.sharing.hide(Share{NetworkID: observed.ID, ProjectID: project})
	}
	c.sharing.addHidden([]*Network{&next.Network})
	return &next, nil
}
