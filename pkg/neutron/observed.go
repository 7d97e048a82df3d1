// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Observed is what Neutron has of one owner: its network, or none, its duplicates, and its routers. It is shared: copy it to
// change it.
type Observed struct {
	// Network is the zero Network if the owner has none. If it has several, Network is the one to keep; in the cache, the
	// one with the lowest ID.
	Network
	// Duplicates are the owner's other networks. There are some if two writers raced, or if Neutron finished a create
	// request after the client had timed out.
	Duplicates []*Network
	// Routers are the routers that carry the owner's mark, and the others that have an interface on one of the networks, as
	// far as the client can see them, ordered by ID.
	Routers []Router
	// RoutersKnown means that the Routers, and the Interfaces of the networks, were read. A relist reads them only if some
	// Network has a router.
	RoutersKnown bool
	// Imported means that a sync has just confirmed the mark of an import. See ImportNetwork.
	Imported bool
}

// newObserved returns what the owner has: the networks, and those of the routers that are the owner's or have an interface on
// one of the networks. A network that is there twice is one: a list can begin again, without an error, if its marker was
// deleted meanwhile.
func newObserved(owner types.UID, networks []*Network, routers []Router, routersKnown bool) *Observed {
	o := &Observed{RoutersKnown: routersKnown}
	if len(networks) > 0 {
		networks = slices.SortedFunc(slices.Values(networks), byID)
		networks = slices.CompactFunc(networks, func(a, b *Network) bool { return a.ID == b.ID })
		o.Network = *networks[0]
	}
	if len(networks) > 1 { // even an empty rest of the slice would keep the copied network in memory
		o.Duplicates = networks[1:]
	}
	for _, r := range routers {
		marked, _ := OwnerOf(r.Description)
		if marked.UID == owner || slices.ContainsFunc(networks, func(n *Network) bool { return n.hasInterfaceOf(r.ID) }) {
			o.Routers = append(o.Routers, r)
		}
	}
	slices.SortFunc(o.Routers, compareRouters)
	o.Routers = slices.CompactFunc(o.Routers, func(a, b Router) bool { return a.ID == b.ID })
	return o
}

// IsEmpty reports whether the owner has nothing.
func (o *Observed) IsEmpty() bool { return !o.Exists() && len(o.Routers) == 0 }

// isImportedBy reports whether the network is not one that was created for the owner with that UID.
func (o *Observed) isImportedBy(owner types.UID) bool {
	creator, _ := OwnerOf(o.Description)
	return o.Exists() && creator.UID != owner
}

// Networks returns all networks of the owner.
func (o *Observed) Networks() []*Network {
	if !o.Exists() {
		return nil
	}
	return append([]*Network{&o.Network}, o.Duplicates...)
}

// allInterfaces returns the interfaces on all networks of the owner.
func (o *Observed) allInterfaces() (all []Interface) {
	for _, n := range o.Networks() {
		all = append(all, n.Interfaces...)
	}
	return all
}

// network returns the owner's network with that ID, or nil.
func (o *Observed) network(id string) *Network {
	for _, n := range o.Networks() {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Keeping returns what was observed with the network with that ID as the one to keep. If there is none with that ID, it is as
// before.
func (o *Observed) Keeping(id string) *Observed {
	at := slices.IndexFunc(o.Duplicates, func(n *Network) bool { return n.ID == id })
	if at < 0 {
		return o
	}
	next := *o
	next.Network = *o.Duplicates[at]
	next.Duplicates = slices.Clone(o.Duplicates)
	next.Duplicates[at] = &o.Network
	return &next
}

// of returns what was observed with the network that the identity imports, or has seen last, as the one to keep. An import has
// no other one.
func (o *Observed) of(identity Identity) *Observed {
	kept := o.Keeping(cmp.Or(identity.Import, identity.NetworkID))
	switch {
	case identity.Import == "" || !kept.Exists():
		return kept
	case kept.ID != identity.Import:
		return &Observed{}
	case len(kept.Duplicates) > 0:
		next := *kept
		next.Duplicates = nil
		return &next
	}
	return kept
}

// with returns a copy with the network in place of the one to keep.
func (o *Observed) with(n Network) *Observed {
	next := *o
	next.Network = n
	return &next
}

// withoutNetwork returns a copy without the network with that ID. A duplicate takes its place.
func (o *Observed) withoutNetwork(id string) *Observed {
	next := *o
	if o.ID != id {
		next.Duplicates = slices.DeleteFunc(slices.Clone(o.Duplicates), func(n *Network) bool { return n.ID == id })
		return &next
	}
	next.Network, next.Imported = Network{}, false
	if len(o.Duplicates) > 0 {
		next.Network, next.Duplicates = *o.Duplicates[0], o.Duplicates[1:]
	}
	return &next
}

// router returns the router with that ID, or nil.
func (o *Observed) router(id string) *Router {
	return find(o.Routers, func(r *Router) bool { return r.ID == id })
}

// withRouter returns a copy in which r replaces the router with the same ID, or is added.
func (o *Observed) withRouter(r Router) *Observed {
	next := o.withoutRouter(r.ID)
	next.Routers = append(next.Routers, r)
	slices.SortFunc(next.Routers, compareRouters)
	return next
}

// withRoutes returns a copy in which the router with that ID has these routes.
func (o *Observed) withRoutes(router string, routes Routes) *Observed {
	r := *o.router(router)
	r.Routes = routes
	return o.withRouter(r)
}

func (o *Observed) withoutRouter(id string) *Observed {
	next := *o
	next.Routers = slices.DeleteFunc(slices.Clone(o.Routers), func(r Router) bool { return r.ID == id })
	return &next
}

// withSubnet returns a copy in which s replaces the subnet with the same ID, or is added.
func (o *Observed) withSubnet(s Subnet) *Observed {
	next := o.withoutSubnet(s.ID)
	next.Subnets = append(next.Subnets, s)
	next.sortSubnets()
	return next
}

// withoutSubnet returns a copy without the subnet with that ID. The revision of the network is not known then, since Neutron
// increments it with each change of a subnet.
func (o *Observed) withoutSubnet(id string) *Observed {
	next := *o
	next.Revision = nil
	next.Subnets = slices.DeleteFunc(slices.Clone(o.Subnets), func(s Subnet) bool { return s.ID == id })
	return &next
}

// withInterface returns a copy in which i replaces the interface of the same router on the same subnet, or is added.
func (o *Observed) withInterface(i Interface) *Observed {
	next := o.withoutInterface(i.RouterID, i.SubnetID)
	next.Interfaces = append(next.Interfaces, i)
	slices.SortFunc(next.Interfaces, compareInterfaces)
	return next
}

func (o *Observed) withoutInterface(router, subnet string) *Observed {
	next := *o
	next.Interfaces = slices.DeleteFunc(slices.Clone(o.Interfaces), func(i Interface) bool { return i.RouterID == router && i.SubnetID == subnet })
	return &next
}

// withShare returns a copy in which the network is shared with the project too. Neutron increments the revision of the network.
func (o *Observed) withShare(s Share) *Observed {
	next := *o
	next.Revision = nil
	next.Shares = append(slices.Clone(o.Shares), s)
	slices.SortFunc(next.Shares, compareShares)
	return &next
}

func (o *Observed) withoutShare(id string) *Observed {
	next := *o
	next.Revision = nil
	next.Shares = slices.DeleteFunc(slices.Clone(o.Shares), func(s Share) bool { return s.ID == id })
	return &next
}

// sameObserved reports whether a and b are equal for the plan.
func sameObserved(a, b *Observed) bool {
	return same(&a.Network, &b.Network) && slices.EqualFunc(a.Duplicates, b.Duplicates, same) && slices.Equal(a.Routers, b.Routers)
}

// same reports whether a and b are equal for the plan. It ignores revisions, which also count
// changes of fields that no spec has.
func same(a, b *Network) bool {
	if a.ID != b.ID || !equalFields(networkTable, a, b) || a.Tags != b.Tags || a.AdminDown != b.AdminDown ||
		!slices.EqualFunc(a.Interfaces, b.Interfaces, sameInterface) || len(a.Subnets) != len(b.Subnets) ||
		a.SharesKnown != b.SharesKnown || !slices.Equal(a.Shares, b.Shares) {
		return false
	}
	for i, s := range a.Subnets {
		t := b.Subnets[i]
		s.Revision, t.Revision = nil, nil
		if s != t {
			return false
		}
	}
	return true
}

// sameInterface reports whether a and b are equal for the plan. A list never shows that an interface
// is confirmed.
func sameInterface(a, b Interface) bool {
	a.Confirmed, b.Confirmed = false, false
	return a == b
}
