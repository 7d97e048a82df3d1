// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// list returns what Neutron has of each owner of the cluster, with the routers if some Network needs them. If only the
// lists of the routers fail, list returns the networks with the routers that the cache knows. In a
// cloud without a router service it knows none: then only Networks that have a router are held up.
func (c *Cloud) list(ctx context.Context, cluster string) (map[types.UID]*Observed, error) {
	networks, err := c.listOwned(ctx, cluster)
	if err != nil {
		return nil, err
	}
	owned := c.byOwner(cluster, networks)
	if err := c.listShares(ctx, owned); err != nil {
		return nil, err
	}
	if !c.routing.isNeeded() {
		return joinRouting(owned, nil, nil, false), nil
	}
	found, err := c.listRouting(ctx, cluster, networks, owned)
	if err != nil && mayStay(ctx, err, "routers") {
		return c.keepRouting(owned), nil
	}
	return found, err
}

// byOwner returns the networks of each owner: those that were created for it, and the one that it imports. None was
// created in another project, whatever its description says.
func (c *Cloud) byOwner(cluster string, networks []*Network) map[types.UID][]*Network {
	owned := make(map[types.UID][]*Network, len(networks))
	for _, n := range networks {
		if owner, marked := OwnerOf(n.Description); marked && owner.Cluster == cluster && !n.IsForeign {
			owned[owner.UID] = append(owned[owner.UID], n)
		}
		for _, importer := range c.imports.of(n.ID) {
			owned[importer] = append(owned[importer], n)
		}
	}
	return owned
}

// mayStay reports whether a list of one kind of objects that failed with err may be left out: what is cached of
// them stays valid.
func mayStay(ctx context.Context, err error, kind string) bool {
	if ReasonOf(err) == Unauthenticated {
		return false
	}
	klog.FromContext(ctx).V(2).Info("Failed to list a part of what Neutron has; the cache keeps what it knows of that", "kind", kind, "err", err)
	return true
}

// listOwned lists the networks that carry the cluster's mark, and those that are imported.
func (c *Cloud) listOwned(ctx context.Context, cluster string) ([]*Network, error) {
	imported := c.imports.all()
	networks, err := c.client.listNetworks(ctx, func(n *Network) bool {
		owner, _ := OwnerOf(n.Description)
		return owner.Cluster == cluster || imported.Has(n.ID)
	})
	if err != nil || len(imported) == 0 {
		return networks, err
	}
	return c.addImported(ctx, networks)
}

// listRouting returns what is observed of each owner, with the routers and the interfaces on the networks. It lists the
// ports and the external networks only if they are needed.
func (c *Cloud) listRouting(ctx context.Context, cluster string, networks []*Network, owned map[types.UID][]*Network) (map[types.UID]*Observed, error) {
	routers, err := c.client.routers(ctx, nil)
	if err != nil {
		return nil, err
	}
	marked := map[types.UID][]Router{}
	for _, r := range routers {
		if owner, ok := OwnerOf(r.Description); ok && owner.Cluster == cluster {
			marked[owner.UID] = append(marked[owner.UID], r)
		}
	}
	c.routing.listed(routers, marked)
	if !c.routing.isNeeded() {
		return joinRouting(owned, nil, nil, false), nil
	}
	project, err := c.client.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := c.client.interfacesOn(ctx, networks, project)
	if err != nil {
		return nil, err
	}
	externals, err := c.client.externalNetworks(ctx)
	switch {
	case err == nil:
		c.routing.storeExternals(externals)
	case !mayStay(ctx, err, "external networks"):
		return nil, err
	}
	setInterfaces(networks, ports)
	found := joinRouting(owned, marked, routers, true)
	c.routing.prune(found)
	return found, nil
}

// joinRouting returns what is observed of each owner that has networks, or routers that are marked for it. routersKnown is
// whether the routers were read.
func joinRouting(owned map[types.UID][]*Network, marked map[types.UID][]Router, routers []Router, routersKnown bool) map[types.UID]*Observed {
	byID := make(map[string]Router, len(routers))
	for _, r := range routers {
		byID[r.ID] = r
	}
	found := make(map[types.UID]*Observed, len(owned))
	for uid, networks := range owned {
		relevant := slices.Clone(marked[uid])
		for _, n := range networks {
			for _, i := range n.Interfaces {
				if r, isVisible := byID[i.RouterID]; isVisible {
					relevant = append(relevant, r)
				}
			}
		}
		found[uid] = newObserved(uid, networks, relevant, routersKnown)
	}
	for uid, routers := range marked {
		if found[uid] == nil {
			found[uid] = newObserved(uid, nil, routers, routersKnown)
		}
	}
	return found
}

// keepRouting returns what is observed of each owner, with the routers and the interfaces that the cache knows. They are
// not known of an owner of whose networks the cache knows none. A duplicate may lack its interfaces: Neutron refuses to delete
// it then.
func (c *Cloud) keepRouting(owned map[types.UID][]*Network) map[types.UID]*Observed {
	cached := c.observer.known()
	found := make(map[types.UID]*Observed, len(owned))
	for uid, networks := range owned {
		before := cmp.Or(cached[uid], &Observed{})
		isCached := false
		for i, n := range networks {
			if known := before.network(n.ID); known != nil {
				withInterfaces := *n // others can import the network
				withInterfaces.Interfaces = known.Interfaces
				networks[i], isCached = &withInterfaces, true
			}
		}
		found[uid] = newObserved(uid, networks, before.Routers, isCached && before.RoutersKnown)
	}
	for uid, before := range cached {
		if left := newObserved(uid, nil, before.Routers, before.RoutersKnown); found[uid] == nil && !left.IsEmpty() {
			found[uid] = left
		}
	}
	return found
}
