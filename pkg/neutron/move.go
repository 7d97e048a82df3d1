// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// ObserveHandover reads the networks of both owners and the routers of From, past the cache. listed is what From had in a list, or nil:
// that is found even if there is more in the descriptions than the mark. It fails with Invalid if the handover cannot be made.
func (c *Cloud) ObserveHandover(ctx context.Context, h Handover, listed *Observed) (*Observed, error) {
	var ids, routerIDs []string
	if listed != nil {
		for _, n := range listed.Networks() {
			if h.Import != "" && n.ID != h.Import {
				return nil, cannotTakeOver("Network %s of the old cluster also has network %s, which an import of network %s does not take over: remove the mark of that one, or delete it if nothing uses it", h.From.UID, n.ID, h.Import)
			}
			ids = append(ids, n.ID)
		}
		for _, r := range listed.Routers {
			routerIDs = append(routerIDs, r.ID)
		}
	}
	networks, err := c.networksOfHandover(ctx, h, ids)
	if err != nil {
		return nil, err
	}
	routers, err := c.client.readRouting(ctx, h.From.Mark(), networks)
	if err = unlessWithoutRouters(err); err != nil {
		return nil, err
	}
	isKnown := func(id string) bool { return slices.ContainsFunc(routers, func(r Router) bool { return r.ID == id }) }
	more, err := listByID[Router](ctx, c.client, "routers", routerFields, slices.DeleteFunc(routerIDs, isKnown))
	if err != nil {
		return nil, err
	}
	observed := newObserved(h.From.UID, networks, append(routers, more...), true)
	return observed, h.check(observed)
}

// unlessWithoutRouters returns the error of a list of routers, unless the cloud has no routers. Routers that the client may not see keep
// the old mark, so that is an error.
func unlessWithoutRouters(err error) error {
	if errorIn(err).isUnserved && ReasonOf(err) != Forbidden {
		return nil
	}
	return err
}

func (c *Cloud) networksOfHandover(ctx context.Context, h Handover, ids []string) (networks []*Network, err error) {
	if h.Import != "" {
		network, err := c.client.GetNetwork(ctx, h.Import)
		if ReasonOf(err) == NotFound {
			return nil, nil // it is gone, or not visible: its router can be left
		}
		return []*Network{network}, err
	}
	for _, owner := range []Owner{h.From, h.To} {
		found, err := c.client.FindNetworks(ctx, owner.Mark())
		if err != nil {
			return nil, err
		}
		networks = append(networks, found...)
	}
	for _, id := range ids {
		if slices.ContainsFunc(networks, func(n *Network) bool { return n.ID == id }) {
			continue
		}
		network, err := c.client.GetNetwork(ctx, id)
		if ReasonOf(err) == NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if owner, isMarked := OwnerOf(network.Description); !isMarked || owner == h.From {
			networks = append(networks, network)
		}
	}
	return networks, nil
}

// Move makes one change of the handover. It fails with Stale if the object has changed since it was observed.
func (c *Cloud) Move(ctx context.Context, h Handover, observed *Observed, m Move) error {
	description := object{"description": h.To.Mark()}
	switch m.Kind {
	case MoveNetwork:
		_, err := c.client.UpdateNetwork(ctx, &observed.Network, description)
		return err
	case MoveSubnet:
		_, err := c.client.UpdateSubnet(ctx, observed.subnet(m.ID), description)
		return err
	case MoveRouter:
		return c.client.describeRouter(ctx, m.ID, h.From, func(string) object { return description })
	case AddTag:
		return c.client.addTag(ctx, m.ID, h.To.ImportTag())
	case RemoveTag:
		_, err := c.removeTags(ctx, &observed.Network, h.oldTags(&observed.Network))
		return err
	}
	panic("no request for " + m.String())
}

// ListOwners lists what Neutron has of each owner of every cluster: networks with their subnets, and routers. The tags of imports name
// no cluster, so only those of these clusters are found.
func (c *Cloud) ListOwners(ctx context.Context, clusters ...string) (map[Owner]*Observed, error) {
	networks, err := c.client.listNetworks(ctx, func(n *Network) bool { return !n.IsForeign })
	if err != nil {
		return nil, err
	}
	routers, err := c.client.routers(ctx, nil)
	if err = unlessWithoutRouters(asUnserved(err)); err != nil {
		return nil, err
	}
	owned, marked := map[Owner][]*Network{}, map[Owner][]Router{}
	for _, n := range networks {
		for _, owner := range ownersOf(n, clusters) {
			owned[owner] = append(owned[owner], n)
		}
	}
	for _, r := range routers {
		if owner, isMarked := OwnerOf(r.Description); isMarked {
			marked[owner] = append(marked[owner], r)
		}
	}
	all := map[Owner]*Observed{}
	for owner := range sets.KeySet(owned).Union(sets.KeySet(marked)) {
		all[owner] = newObserved(owner.UID, owned[owner], marked[owner], true)
	}
	return all, nil
}

// ownersOf returns the owners that the marks of the network name: one in the description, or those of these clusters in its tags. If
// it has lost its marks, those of its subnets count.
func ownersOf(n *Network, clusters []string) (owners []Owner) {
	if owner, isMarked := OwnerOf(n.Description); isMarked {
		return []Owner{owner}
	}
	for _, importer := range ImportersOf(n.Tags) {
		for _, cluster := range clusters {
			if owner := (Owner{cluster, importer.UID}); owner.isImporter(importer) && !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	for _, s := range n.Subnets {
		if owner, isMarked := OwnerOf(s.Description); isMarked && len(owners) == 0 {
			owners = append(owners, owner)
		}
	}
	return owners
}
