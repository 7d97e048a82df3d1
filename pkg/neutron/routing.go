// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// routing is what a Cloud knows of routers besides the Observer's cache: which owners need them, and
// the names of routers, external networks and subnet pools. Its methods may be called concurrently.
type routing struct {
	mu sync.Mutex
	// owners are those whose Networks have a router.
	owners sets.Set[types.UID]
	// isMarked means that the last list had routers with the cluster's mark.
	isMarked bool
	// isListed means that routers were listed at least once.
	isListed bool

	// routers, externals and pools are the routers, the external networks and the subnet pools that a spec can name.
	routers   []Router
	externals []named
	pools     []SubnetPool
	// routersListed, externalsListed and poolsListed are when they were listed. poolsDue is when the pools are listed again, even if
	// all names are found.
	routersListed, externalsListed, poolsListed, poolsDue time.Time
	// lists are those of joinList that run now.
	lists singleflight.Group
}

// kind is the kind of an object that a spec can name, in the words of messages.
type kind string

const (
	kindRouter     kind = "router"
	kindExternal   kind = "external network"
	kindSubnetPool kind = "subnet pool"
)

// maxNamesAge is the age from which on a list of names is read again if a name is not in it. A
// younger list is not, so that a name that does not exist costs few requests. The Network asks once more when the list is that old.
// After that, it also accepts a younger list that another Network has asked for.
const maxNamesAge = 2 * time.Second

// need remembers and reports whether the owner needs routers. observed is what is known of it.
// An owner that needed them before still does if the routers are not known: its spec and its status may
// be from a backup without the router that Neutron has.
func (r *routing) need(identity Identity, observed *Observed) bool {
	owner, isRouted := identity.Owner.UID, identity.isRouted(observed)
	if !isRouted && observed.RoutersKnown {
		r.forget(owner)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners = sets.New[types.UID]()
	}
	if isRouted {
		r.owners.Insert(owner)
	}
	return r.owners.Has(owner)
}

// withRouters reads Neutron before a removal if no list has shown yet which owners have routers. The spec and the status do not
// tell if they are from a backup, and a router with a mark of the owner must not stay.
func (c *Cloud) withRouters(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if observed.RoutersKnown || c.routing.hasList() {
		return observed, nil
	}
	fresh, err := c.readNeutron(ctx, identity, true)
	if errorIn(err).isUnserved {
		return observed, nil // there are none, or none that the client can see
	}
	return fresh, err
}

// hasList reports whether routers were listed at least once.
func (r *routing) hasList() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isListed
}

// forget forgets that the owner needs routers.
func (r *routing) forget(owner types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners.Delete(owner)
}

// prune forgets the owners that have neither a network nor a router in the cloud. Their Networks may
// be gone, or in another cloud. A sync of such a Network remembers its owner again.
func (r *routing) prune(found map[types.UID]*Observed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners = r.owners.Intersection(sets.KeySet(found))
}

// isNeeded reports whether the next list must contain the routers: some Network has one, or the last
// list had one that carries the cluster's mark. The first list finds those of an earlier process.
func (r *routing) isNeeded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.isListed || r.owners.Len() > 0 || r.isMarked
}

// listed stores what a list of all routers shows, and remembers the owners for whom routers are marked: the lists after it
// can fail, and then what the cache has of these owners lacks their routers.
func (r *routing) listed(routers []Router, marked map[types.UID][]Router) {
	r.storeRouters(routers)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isListed, r.isMarked = true, len(marked) > 0
	r.owners = r.owners.Union(sets.KeySet(marked))
}

func (r *routing) storeRouters(routers []Router) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routers, r.routersListed = routers, time.Now()
}

func (r *routing) storeExternals(externals []named) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.externals, r.externalsListed = externals, time.Now()
}

func (r *routing) storePools(pools []SubnetPool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools, r.poolsListed = pools, time.Now()
}

// arePoolsDue reports whether the pools must be listed again, once in each period: a list that fails is not repeated before the next one.
func (r *routing) arePoolsDue(period time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isDue := time.Now().After(r.poolsDue) && time.Since(r.poolsListed) > period
	if isDue {
		r.poolsDue = time.Now().Add(period)
	}
	return isDue
}

// resolve returns the view with the IDs of what the spec names: subnet pools, and the router or its external network. It fails with
// Unresolved if nothing has a name, or if several have it; then the ID is "". It makes no request if the lists have the names.
func (c *Cloud) resolve(ctx context.Context, v View) (View, error) {
	v, err := c.resolveRouter(ctx, v)
	v, poolErr := c.resolvePools(ctx, v)
	return v, cmp.Or(poolErr, err)
}

// resolveRouter is resolve for the router.
func (c *Cloud) resolveRouter(ctx context.Context, v View) (_ View, err error) {
	if v.Router == nil {
		return v, nil
	}
	router := *v.Router
	switch ref := router.Spec; {
	case ref.Existing != nil:
		router.Existing, err = c.resolveName(ctx, v.Identity, "spec.router.existing", kindRouter, *ref.Existing)
	case ref.ExternalNetwork != nil:
		router.ExternalNetwork, err = c.resolveName(ctx, v.Identity, "spec.router.externalNetwork", kindExternal, *ref.ExternalNetwork)
	default:
		err = &Error{Op: "spec.router", Reason: Invalid, Message: "either externalNetwork or existing must be set"}
	}
	v.Router, v.Declared = &router, router.Existing
	return v, err
}

// resolvePools is resolve for the subnet pools.
func (c *Cloud) resolvePools(ctx context.Context, v View) (View, error) {
	var first error
	if !slices.ContainsFunc(v.Subnets, func(s DesiredSubnet) bool { return s.SubnetPool != nil }) {
		return v, nil
	}
	v.Subnets = slices.Clone(v.Subnets) // the caller's stay as they are
	for i := range v.Subnets {
		s := &v.Subnets[i]
		if s.SubnetPool == nil {
			continue
		}
		spec := s.SubnetPool.Spec
		pool, err := c.resolvePool(ctx, v.Identity, fieldOf(s.Label)+".subnetPool", spec)
		s.SubnetPool, first = &pool, cmp.Or(first, err)
	}
	return v, first
}

// resolvePool returns the subnet pool that the spec names. It also looks for an ID in the list, which has the IP version of the
// pool, and its limits: if these are in the way, they are read again, because an administrator can change them.
func (c *Cloud) resolvePool(ctx context.Context, identity Identity, field string, spec samplecrdv1.SubnetPoolSpec) (pool DesiredSubnetPool, err error) {
	pool.Spec = spec
	id, err := c.findNamed(ctx, identity, field, kindSubnetPool, spec.NeutronReference)
	if err != nil {
		return pool, err
	}
	var age time.Duration
	pool.SubnetPool, age, err = c.routing.subnetPool(field, id)
	if err != nil || pool.refusal() == "" || age <= maxNamesAge {
		return pool, err
	}
	if err := c.listNames(ctx, kindSubnetPool); err != nil {
		return pool, err
	}
	pool.SubnetPool, _, err = c.routing.subnetPool(field, id)
	return pool, err
}

// subnetPool returns the subnet pool with that ID, as it was listed last, and how long ago that was. It fails with Unresolved if
// another sync has just forgotten it, or listed the pools without it: without an error, a Network would be ready although it has
// no subnet.
func (r *routing) subnetPool(field, id string) (_ SubnetPool, age time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pool := range r.pools {
		if pool.ID == id {
			return pool, time.Since(r.poolsListed), nil
		}
	}
	return SubnetPool{}, 0, &Error{Op: field, Reason: Unresolved, Message: "there is no subnet pool " + id + " any more", RetryAfter: maxNamesAge}
}

// resolveName returns the ID of the object that the reference names. It lists the names again if the
// last list does not have exactly one object of that name.
func (c *Cloud) resolveName(ctx context.Context, identity Identity, field string, k kind, ref samplecrdv1.NeutronReference) (id string, err error) {
	if ref.ID != "" {
		return ref.ID, nil
	}
	return c.findNamed(ctx, identity, field, k, ref)
}

// findNamed is resolveName, but finds an ID only if the list has it. The Observer does not list subnet pools, so the first sync that
// needs them lists them again when they are as old as its lists can be.
func (c *Cloud) findNamed(ctx context.Context, identity Identity, field string, k kind, ref samplecrdv1.NeutronReference) (id string, err error) {
	failure := &Error{Op: field, Reason: Unresolved}
	ids, listed := c.routing.find(k, ref)
	isFound := len(ids) == 1
	switch age := time.Since(listed); {
	case isFound && !(k == kindSubnetPool && c.routing.arePoolsDue(c.observer.period)):
		return ids[0], nil
	case age > maxNamesAge:
		list := c.listNames
		if identity.HasAsked {
			list = c.joinList
		}
		if err := list(ctx, k); err != nil && !(isFound && mayStay(ctx, err, "subnet pools")) {
			return "", err
		}
		ids, _ = c.routing.find(k, ref)
	case !identity.HasAsked: // the list may be older than the object
		failure.RetryAfter = maxNamesAge - age
	}
	switch len(ids) {
	case 0:
		failure.Message = fmt.Sprintf("there is no %s %s that the credentials can see", k, referenceText(ref))
	case 1:
		return ids[0], nil
	default:
		failure.Message = fmt.Sprintf("there are %d %ss %s: set id instead of name, to one of %s", len(ids), k, referenceText(ref), shorten(ids))
	}
	return "", failure
}

// referenceText describes an object to users by its name or its ID.
func referenceText(ref samplecrdv1.NeutronReference) string {
	if ref.ID != "" {
		return "with the ID " + ref.ID
	}
	return fmt.Sprintf("named %q", ref.Name)
}

// find returns the IDs of all objects with that ID, or else of that name, and when they were listed.
func (r *routing) find(k kind, ref samplecrdv1.NeutronReference) (ids []string, listed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(n named) {
		if ref.ID != "" && n.ID == ref.ID || ref.ID == "" && n.Name == ref.Name {
			ids = append(ids, n.ID)
		}
	}
	switch k {
	case kindExternal:
		for _, n := range r.externals {
			add(n)
		}
		return ids, r.externalsListed
	case kindSubnetPool:
		for _, pool := range r.pools {
			if ref.ID != "" || !pool.IsForeign {
				add(named{pool.ID, pool.Name})
			}
		}
		return ids, r.poolsListed
	default:
		for _, router := range r.routers {
			add(named{router.ID, router.Name})
		}
		return ids, r.routersListed
	}
}

// router returns the router with that ID, if the last list of the project's routers had it, or if it
// was read since.
func (r *routing) router(id string) (_ Router, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, router := range r.routers {
		if router.ID == id {
			return router, true
		}
	}
	return Router{}, false
}

// storeRouter adds a router that was read to the listed ones.
func (r *routing) storeRouter(router Router) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := func(other Router) bool { return other.ID == router.ID }
	r.routers = append(slices.DeleteFunc(slices.Clone(r.routers), others), router)
}

// forgetNamed forgets what the names of the spec lead to, if the error says that one of them is not in Neutron: it may have
// been made again, with another ID. The next sync lists the names again.
func (r *routing) forgetNamed(desired Desired, err error) {
	if ReasonOf(err) != Unresolved {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if router := desired.Router; router != nil {
		r.routers = slices.DeleteFunc(slices.Clone(r.routers), func(other Router) bool { return other.ID == router.Existing })
		r.externals = slices.DeleteFunc(slices.Clone(r.externals), func(n named) bool { return n.ID == router.ExternalNetwork })
	}
	for i := range desired.Subnets {
		r.pools = slices.DeleteFunc(slices.Clone(r.pools), func(p SubnetPool) bool { return p.ID == desired.Subnets[i].poolID() })
	}
}

// listNames lists the names of one kind.
func (c *Cloud) listNames(ctx context.Context, k kind) error {
	switch k {
	case kindExternal:
		return listAndStore(ctx, c.client.externalNetworks, c.routing.storeExternals)
	case kindSubnetPool:
		return listAndStore(ctx, c.client.subnetPools, c.routing.storePools)
	default:
		allRouters := func(ctx context.Context) ([]Router, error) { return c.client.routers(ctx, nil) }
		return listAndStore(ctx, allRouters, c.routing.storeRouters)
	}
}

// joinList is listNames, or waits for the one that another sync has begun.
func (c *Cloud) joinList(ctx context.Context, k kind) error {
	_, err, _ := c.routing.lists.Do(string(k), func() (any, error) { return nil, c.listNames(ctx, k) })
	if errors.Is(err, errSlow) { // the other sync was
		return c.listNames(ctx, k)
	}
	return err
}

func listAndStore[T any](ctx context.Context, list func(context.Context) ([]T, error), store func([]T)) error {
	items, err := list(ctx)
	if err == nil {
		store(items)
	}
	return err
}
