/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
)

// lowestFree returns the lowest block of that prefix length in the pool that overlaps
// nothing that is taken.
func lowestFree(pool netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	var free netipx.IPSetBuilder
	free.AddPrefix(pool)
	for _, t := range taken {
		if t.Overlaps(pool) {
			free.RemovePrefix(t)
		}
	}
	set, err := free.IPSet()
	if err != nil {
		return netip.Prefix{}, false // the pool is the zero Prefix
	}
	// What is free, in as few prefixes as it takes, in order: a free block is in one of them.
	for _, p := range set.Prefixes() {
		if p.Bits() <= bits {
			return netip.PrefixFrom(p.Addr(), bits), true
		}
	}
	return netip.Prefix{}, false
}

// cidrs returns what a Network takes of the address space: what it is to have, what it
// has, and what it was given and will be put back to.
func cidrs(network *samplecrdv1.Network) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{network.Spec.CIDR, network.Status.CIDR, network.Annotations[samplecrdv1.AnnotationAllocatedCIDR]} {
		if cidr, err := netip.ParsePrefix(text); err == nil && !slices.Contains(all, cidr.Masked()) {
			all = append(all, cidr.Masked())
		}
	}
	return all
}

func overlapsAny(cidr netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, cidr.Overlaps)
}

var (
	// errExhausted: no block of the pool is free.
	errExhausted = errors.New("no block of the pool is free")
	// errNoPool: there is no pool.
	errNoPool = errors.New("there is no pool")
)

// allocator hands out the blocks of the pool, one at a time. What is taken is told by
// the cache. But the cache lags behind, so two things more count as taken: what we have
// written ourselves and the cache does not show yet, and, after a start, what the process
// before us has written.
type allocator struct {
	pool netip.Prefix
	bits int

	networks listers.NetworkLister
	// list lists the Networks past the cache.
	list pager.ListPageFunc
	// cacheVersion returns the resourceVersion that the cache has come to.
	cacheVersion func() string

	// looking is held during the one list. The other mutex is not, since the handlers
	// need that.
	looking sync.Mutex
	looked  bool

	mu sync.Mutex
	// reserved holds the CIDRs of writes that the cache does not show yet, or of which we
	// do not know what has become.
	reserved map[cache.ObjectName]netip.Prefix
	// listed holds what was taken at listedVersion. It is nil once the cache has come that
	// far.
	listed        map[cache.ObjectName][]netip.Prefix
	listedVersion string
	// waiting holds the Deployments that have got no block.
	waiting map[cache.ObjectName]bool
}

// allocate returns a block for the Deployment, and reserves it: the preferred one if that
// is a block of the pool and nobody else's, and otherwise the lowest that is free.
func (a *allocator) allocate(ctx context.Context, key cache.ObjectName, preferred netip.Prefix) (netip.Prefix, error) {
	if !a.pool.IsValid() {
		return netip.Prefix{}, errNoPool
	}
	if err := a.lookOnce(ctx); err != nil {
		return netip.Prefix{}, err
	}
	// From here to the reservation nobody else gets a block.
	a.mu.Lock()
	defer a.mu.Unlock()
	others, err := a.takenByOthers(key)
	if err != nil {
		return netip.Prefix{}, err
	}
	block := preferred
	if !a.isBlock(preferred) || overlapsAny(preferred, others) {
		free := false
		if block, free = lowestFree(a.pool, a.bits, others); !free {
			a.waiting[key] = true
			return netip.Prefix{}, errExhausted
		}
	}
	delete(a.waiting, key)
	a.reserved[key] = block
	return block, nil
}

func (a *allocator) isBlock(cidr netip.Prefix) bool {
	return cidr.IsValid() && cidr.Bits() == a.bits && cidr == cidr.Masked() && a.pool.Contains(cidr.Addr())
}

// lookOnce lists the Networks before the first block is handed out: a cache may have been
// filled by an API server that is behind.
func (a *allocator) lookOnce(ctx context.Context) error {
	a.looking.Lock()
	defer a.looking.Unlock()
	if a.looked {
		return nil
	}
	list, _, err := pager.New(a.list).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Networks past the cache: %w", err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	listed := map[cache.ObjectName][]netip.Prefix{}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		network := object.(*samplecrdv1.Network)
		listed[cache.MetaObjectToName(network)] = cidrs(network)
		return nil
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked, a.listed, a.listedVersion = true, listed, accessor.GetResourceVersion()
	return nil
}

// takenByOthers returns what all Networks take but the one of that name.
func (a *allocator) takenByOthers(key cache.ObjectName) ([]netip.Prefix, error) {
	// First the version, then the content, which is as new at least.
	if order, err := resourceversion.CompareResourceVersion(a.cacheVersion(), a.listedVersion); err == nil && order >= 0 {
		a.listed = nil
	}
	networks, err := a.networks.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var taken []netip.Prefix
	for _, network := range networks {
		if cache.MetaObjectToName(network) != key {
			taken = append(taken, cidrs(network)...)
		}
	}
	for other, cidr := range a.reserved {
		if other != key {
			taken = append(taken, cidr)
		}
	}
	for other, all := range a.listed {
		if other != key {
			taken = append(taken, all...)
		}
	}
	return taken, nil
}

// reserve has a CIDR count as taken that was not allocated, but is about to be written.
func (a *allocator) reserve(key cache.ObjectName, cidr netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved[key] = cidr.Masked()
}

// isReserved says whether a CIDR is reserved for the Deployment.
func (a *allocator) isReserved(key cache.ObjectName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.reserved[key]
	return ok
}

// release ends a reservation of what was not written after all.
func (a *allocator) release(key cache.ObjectName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reserved, key)
}

// seen ends the reservation of what the cache shows now.
func (a *allocator) seen(network *samplecrdv1.Network) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := cache.MetaObjectToName(network)
	if cidr, err := netip.ParsePrefix(network.Spec.CIDR); err == nil && a.reserved[key] == cidr.Masked() {
		delete(a.reserved, key)
	}
}

// takeWaiting returns the Deployments that have got no block, for whoever knows of a
// reason to look again.
func (a *allocator) takeWaiting() []cache.ObjectName {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer clear(a.waiting)
	return slices.Collect(maps.Keys(a.waiting))
}
