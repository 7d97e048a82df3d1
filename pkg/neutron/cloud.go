// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cloud reads and changes the networks of one project in one Neutron. It reads from the cache of
// its Observer or from Neutron itself. The answer to each change updates the cache.
//
// At most one method may run for an owner at a time; the work queue ensures that.
type Cloud struct {
	name     string
	client   *Client
	observer *Observer
	waits    waits
	routing  routing
	imports  imports
	sharing  sharing
	recovery recovery
}

// NewCloud returns the Cloud of the networks that carry the cluster's mark. They are listed once
// per period.
func NewCloud(name string, client *Client, cluster string, period time.Duration) *Cloud {
	c := &Cloud{name: name, client: client}
	c.observer = NewObserver(period, func(ctx context.Context) (map[types.UID]*Observed, error) { return c.list(ctx, cluster) })
	c.observer.wake = c.wake
	c.observer.isAway = func() bool { _, isOutage := client.Away(); return isOutage }
	client.circuit.opened, client.onRefusal = c.observer.RelistSoon, c.observer.RelistSoon
	return c
}

// Name returns the name of the cloud that users know, such as its entry in clouds.yaml.
func (c *Cloud) Name() string { return c.name }

// Run runs the Observer, and lists the ports that owners wait for, until ctx is cancelled.
func (c *Cloud) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.observer.Run(ctx) })
	running.Go(func() { c.relistPorts(ctx) })
	running.Wait()
}

// Observer returns the cache of the cloud's networks.
func (c *Cloud) Observer() *Observer { return c.observer }

// Client returns the client that sends the requests.
func (c *Cloud) Client() *Client { return c.client }

// Read says where Observe reads from.
type Read int

const (
	// Cached reads the Observer's cache, and Neutron if the cache has no such network, or does not
	// know it: an empty cache does not prove that there is none.
	Cached Read = iota
	// CacheOnly reads only the cache. It is for a Network whose finalizer was just added:
	// nothing can exist yet in Neutron.
	CacheOnly
	// Live reads Neutron.
	Live
)

// Observe returns what Neutron has of the identity. It fails with OtherCloud if there is no network here because it
// was created in another place, and with OtherOwner if it carries the mark of another Network.
func (c *Cloud) Observe(ctx context.Context, identity Identity, read Read) (*Observed, error) {
	uid := identity.Owner.UID
	if identity.Abandoned {
		c.observer.origins.forget(uid)
	}
	observed, err := c.read(ctx, identity, read)
	switch {
	case err != nil:
	case !observed.Exists():
		err = c.checkPlace(identity)
	case observed.ID == identity.NetworkID: // from now on the status says where it is
		c.observer.origins.forget(uid)
	}
	return observed, err
}

func (c *Cloud) read(ctx context.Context, identity Identity, read Read) (*Observed, error) {
	c.imports.add(identity)
	all, known, err := c.observer.Get(identity.Owner.UID)
	cached := all.of(identity)
	isRouted := c.routing.need(identity, cached)
	c.sharing.need(identity)
	if read == Live {
		c.waits.drop(identity.Owner.UID)
		c.sharing.reveal(cmp.Or(cached.ID, identity.Import, identity.NetworkID))
		return c.readNeutron(ctx, identity, isRouted)
	}
	isComplete := cached.RoutersKnown || !isRouted // a relist may have lacked the routers
	if known && cached.Exists() && isComplete {
		return c.withShares(ctx, identity, cached)
	}
	if err != nil {
		return cached, err
	}
	if known && read == CacheOnly && identity.Import == "" && cached.IsEmpty() {
		return &Observed{RoutersKnown: true}, nil // nothing can exist
	}
	return c.readNeutron(ctx, identity, isRouted)
}

// readNeutron finds networks by their mark. It finds the network that was seen last also by
// its ID, if another client removed its mark and a subnet of it still has the mark. Names, and
// IDs in a status, prove nothing.
func (c *Cloud) readNeutron(ctx context.Context, identity Identity, isRouted bool) (*Observed, error) {
	networks, err := c.findNetworks(ctx, identity)
	if err != nil {
		return nil, err
	}
	if identity.IsShared && len(networks) > 0 {
		if err := c.readShares(ctx, networks...); err != nil {
			return nil, err
		}
	}
	var routers []Router
	if isRouted {
		if routers, err = c.client.readRouting(ctx, identity.Owner.Mark(), networks); err != nil {
			return nil, err
		}
	}
	observed := newObserved(identity.Owner.UID, networks, routers, isRouted)
	c.observer.replace(identity.Owner.UID, observed)
	return observed.of(identity), nil
}

// findNetworks reads the identity's networks without their routers. An imported one is read by its ID.
func (c *Cloud) findNetworks(ctx context.Context, identity Identity) (found []*Network, err error) {
	id := identity.Import
	if id == "" {
		found, err = c.client.FindNetworks(ctx, identity.Owner.Mark())
		if err != nil || len(found) > 0 {
			return found, err
		}
		id = identity.NetworkID // without one, there is no request
	}
	network, err := c.client.GetNetwork(ctx, id)
	if ReasonOf(err) == NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if identity.Import == "" && (!identity.covers(network) || network.IsForeign) {
		return nil, identity.checkOwner(network)
	}
	return []*Network{network}, nil
}

// checkPlace returns an error if the network was created in another project or region than
// this client's, or may have been: a second network here would be a duplicate, and the first would be lost. A
// status from before it recorded the project is compared by the cloud's name. One that has no
// region is from before it recorded the region of the endpoint, or of a cloud whose endpoints
// had none: it can mean any region of the catalog.
func (c *Cloud) checkPlace(identity Identity) error {
	op, from, was := "find network "+identity.NetworkID, origin{identity.CloudName, identity.Place}, "was created"
	if identity.NetworkID == "" {
		op, from, was = "find network", c.observer.origins.of(identity.Owner.UID), "may have been created"
	}
	if from.cloud == "" {
		return nil
	}
	session := c.client.session.Load()
	if session == nil {
		return &Error{Op: op, Reason: Unavailable, Message: "the session ended while the network was looked for"}
	}
	now := session.place
	sameProject := from.place.Project == now.Project
	if from.place.Project == "" {
		sameProject = from.cloud == c.name
	}
	sameRegion := from.place.Region == now.Region || from.place.Region == "" && session.onlyRegion
	if sameProject && sameRegion {
		return nil
	}
	return &Error{Op: op, Reason: OtherCloud, Message: fmt.Sprintf(
		"it %s in cloud %q, %s; cloud %q, %s, does not have it: give the controller the credentials of the former, or clear status.cloud to abandon that network",
		was, from.cloud, from.place, c.name, now)}
}
