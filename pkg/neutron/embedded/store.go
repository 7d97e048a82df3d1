// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"maps"
	"slices"
	"sort"
	"sync"
	"time"
)

// standard holds the attributes that all kinds have in common. A stored
// object never changes: an update stores a changed copy. So a list can be rendered without
// the lock, and undoing a change restores the old pointer.
type standard struct {
	id, project, name, description string
	tags                           []string
	revision                       int
	created, updated               time.Time
}

func (s *standard) std() *standard { return s }

// object is a *network, a *subnet, a *port, a *router, a *floatingIP, an *rbacPolicy or a *subnetPool.
type object interface {
	std() *standard
	// parent returns the ID of the object's network; "" for a network, a router and a subnet pool.
	parent() string
}

// collection holds the objects of one kind: by ID, in the order of their IDs (the order in
// which Neutron lists), by network, and counted by project.
type collection[T object] struct {
	byID     map[string]T
	sorted   []T
	byParent map[string]map[string]T
	count    map[string]int
}

func newCollection[T object]() *collection[T] {
	return &collection[T]{byID: map[string]T{}, byParent: map[string]map[string]T{}, count: map[string]int{}}
}

// position returns the index of an ID in the sorted list, or where it would be inserted.
func (c *collection[T]) position(id string) int {
	return sort.Search(len(c.sorted), func(i int) bool { return c.sorted[i].std().id >= id })
}

// put inserts into the sorted list in place. This moves only pointers: at 50,000 objects it
// takes about ten microseconds.
func (c *collection[T]) put(o T) {
	id := o.std().id
	at := c.position(id)
	if _, known := c.byID[id]; known {
		c.sorted[at] = o
	} else {
		c.sorted = slices.Insert(c.sorted, at, o)
		c.count[o.std().project]++
	}
	c.byID[id] = o
	if p := o.parent(); p != "" {
		if c.byParent[p] == nil {
			c.byParent[p] = map[string]T{}
		}
		c.byParent[p][id] = o
	}
}

// remove removes an object that exists.
func (c *collection[T]) remove(id string) {
	o, at := c.byID[id], c.position(id)
	c.sorted = slices.Delete(c.sorted, at, at+1)
	delete(c.byID, id)
	c.count[o.std().project]--
	if p := o.parent(); p != "" {
		delete(c.byParent[p], id)
		if len(c.byParent[p]) == 0 {
			delete(c.byParent, p)
		}
	}
}

// versions returns the versions of the objects, by their IDs. Because a stored object never changes, it is its own version.
func (c *collection[T]) versions() map[string]any {
	versions := make(map[string]any, len(c.byID))
	for id, o := range c.byID {
		versions[id] = o
	}
	return versions
}

// in returns the objects in a network, in the order of their IDs.
func (c *collection[T]) in(network string) []T {
	return slices.SortedFunc(maps.Values(c.byParent[network]), byID[T])
}

// neutron is the network service. One lock protects all its objects, so that a subnet
// cannot be created in a network that is being deleted.
type neutron struct {
	now       func() time.Time
	newID     func(name string) string
	pageLimit int
	mtu       int
	resources map[string]resource

	mu          sync.RWMutex
	networks    *collection[*network]
	subnets     *collection[*subnet]
	ports       *collection[*port]
	routers     *collection[*router]
	floatingIPs *collection[*floatingIP]
	// rbacPolicies are those of networks.
	rbacPolicies *collection[*rbacPolicy]
	subnetPools  *collection[*subnetPool]
	quotas       map[string]map[string]int
	segment      int
	distributed  bool // see SetDistributed
}

// tx is one atomic change of the store. The write lock is held throughout.
type tx struct {
	*neutron
	request *request
	undo    []func()
	// bumped are the networks whose revision was already incremented for a subnet.
	bumped map[string]bool
}

// write calls change under the lock and, if it fails, undoes it, except what it keeps.
func (n *neutron) write(r *request, change func(*tx) *failure) *failure {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := &tx{neutron: n, request: r, bumped: map[string]bool{}}
	if err := change(t); err != nil {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
		return err
	}
	return nil
}

// keep keeps what was changed so far, even if the request is refused later: the router service of
// Neutron uses several database transactions for one request.
func (t *tx) keep() { t.undo = nil }

// middle is called between two transactions of Neutron's. It ends a request that is to end there.
func (t *tx) middle() *failure {
	if !t.request.half {
		return nil
	}
	t.keep()
	return &failure{} // is not sent
}

// seen returns an object that the caller can see.
func seen[T object](t *tx, plural, id string) (T, *failure) {
	return t.resources[plural].(*kind[T]).find(t.request.caller, id)
}

// store stores an object and records how to undo it.
func store[T object](t *tx, c *collection[T], o T) {
	id := o.std().id
	old, known := c.byID[id]
	c.put(o)
	t.undo = append(t.undo, func() {
		if known {
			c.put(old)
		} else {
			c.remove(id)
		}
	})
}

// discard removes an object and records how to undo it.
func discard[T object](t *tx, c *collection[T], id string) {
	old, known := c.byID[id]
	if !known {
		return
	}
	c.remove(id)
	t.undo = append(t.undo, func() { c.put(old) })
}

// bump increments the revision of an object that is about to be stored.
func (t *tx) bump(s *standard) {
	s.revision++
	s.updated = t.now()
}

// changeNetwork stores a changed copy of a network. Its revision is incremented once, even
// if several subnets are created in bulk.
func (t *tx) changeNetwork(id string, change func(*network)) {
	old, ok := t.networks.byID[id]
	if !ok {
		return
	}
	n := *old
	change(&n)
	if !t.bumped[id] {
		t.bumped[id] = true
		t.bump(&n.standard)
	}
	store(t, t.networks, &n)
}
