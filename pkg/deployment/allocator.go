// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
)

// lowestFree returns the lowest block of the given prefix length in the pool that does not
// overlap with a taken prefix. It returns false if there is none.
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
	// Prefixes returns the free addresses as the fewest possible prefixes, in order, so that
	// each free block is inside one of them.
	for _, p := range set.Prefixes() {
		if p.Bits() <= bits {
			return netip.PrefixFrom(p.Addr(), bits), true
		}
	}
	return netip.Prefix{}, false
}

// cidrsOf returns the CIDRs that a Network takes: those of the subnets that it declares, those of
// the subnets that it has, and the allocated one, to which the controller reverts edits. While a
// subnet is being replaced, both are taken.
func cidrsOf(network *samplecrdv1.Network) sets.Set[netip.Prefix] {
	texts := []string{network.Spec.CIDR, network.Status.CIDR, network.Annotations[samplecrdv1.AnnotationAllocatedCIDR]}
	for _, subnet := range network.Status.Subnets {
		texts = append(texts, subnet.CIDR)
	}
	return additionalCIDRsOf(network).Insert(parseCIDRs(texts)...)
}

// additionalCIDRsOf returns the CIDRs of the subnets that the Network declares besides spec.cidr.
func additionalCIDRsOf(network *samplecrdv1.Network) sets.Set[netip.Prefix] {
	var texts []string
	for _, subnet := range network.Spec.AdditionalSubnets {
		texts = append(texts, subnet.CIDR)
	}
	return sets.New(parseCIDRs(texts)...)
}

// parseCIDRs returns the CIDRs without host bits. It leaves out what is not a CIDR.
func parseCIDRs(texts []string) (cidrs []netip.Prefix) {
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			cidrs = append(cidrs, cidr.Masked())
		}
	}
	return cidrs
}

func overlapsAny(cidr netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, cidr.Overlaps)
}

var (
	errExhausted = errors.New("no block of the pool is free")
	errNoPool    = errors.New("there is no pool")
)

// allocator allocates blocks of the pool, one at a time. The CIDRs of all cached Networks
// are taken. The cache is late, so these are taken too: the CIDRs of our own writes that the
// cache does not have yet, and after a start the CIDRs that an earlier process has written.
type allocator struct {
	pool netip.Prefix
	bits int

	networks listers.NetworkLister
	// list lists the Networks live.
	list pager.ListPageFunc
	// cacheVersion returns the resourceVersion of the cache.
	cacheVersion func() string

	// listing is locked during the one live list. mu is not, because the handlers need it.
	listing  sync.Mutex
	listDone bool

	mu sync.Mutex
	// reserved has the CIDRs of writes that the cache does not have yet, or whose result is
	// unknown.
	reserved map[cache.ObjectName]netip.Prefix
	// listed has the CIDRs that were taken at listedVersion. It is nil when the cache has
	// reached that version.
	listed        map[cache.ObjectName]sets.Set[netip.Prefix]
	listedVersion string
	// waiting has the Deployments for which no block was free.
	waiting map[cache.ObjectName]bool
}

// allocate reserves a block for the Deployment and returns it: the preferred block if it is
// in the pool and not taken by another Network, and otherwise the lowest free block. It
// returns errNoPool or errExhausted if there is none.
func (a *allocator) allocate(ctx context.Context, key cache.ObjectName, preferred netip.Prefix) (netip.Prefix, error) {
	if !a.pool.IsValid() {
		return netip.Prefix{}, errNoPool
	}
	if err := a.listOnce(ctx); err != nil {
		return netip.Prefix{}, err
	}
	// mu stays locked until the block is reserved, so that two workers cannot get the same one.
	a.mu.Lock()
	defer a.mu.Unlock()
	taken, err := a.takenFor(key)
	if err != nil {
		return netip.Prefix{}, err
	}
	block := preferred
	if !a.isBlock(preferred) || overlapsAny(preferred, taken) {
		free := false
		if block, free = lowestFree(a.pool, a.bits, taken); !free {
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

// listOnce lists the Networks live before the first block is allocated: the API server that
// filled the cache may have been out of date.
func (a *allocator) listOnce(ctx context.Context) error {
	a.listing.Lock()
	defer a.listing.Unlock()
	if a.listDone {
		return nil
	}
	list, _, err := pager.New(a.list).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Networks live: %w", err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	listed := map[cache.ObjectName]sets.Set[netip.Prefix]{}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		network := object.(*samplecrdv1.Network)
		listed[cache.MetaObjectToName(network)] = cidrsOf(network)
		return nil
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listDone, a.listed, a.listedVersion = true, listed, accessor.GetResourceVersion()
	return nil
}

// takenFor returns the CIDRs that the block of that name must not overlap: those of all other
// Networks, and those of the additional subnets of its own, which the API server compares.
func (a *allocator) takenFor(key cache.ObjectName) ([]netip.Prefix, error) {
	// Read the version before the content, so that the content is at least as new.
	if order, err := resourceversion.CompareResourceVersion(a.cacheVersion(), a.listedVersion); err == nil && order >= 0 {
		a.listed = nil
	}
	networks, err := a.networks.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var taken []netip.Prefix
	for _, network := range networks {
		cidrs := cidrsOf(network)
		if cache.MetaObjectToName(network) == key {
			cidrs = additionalCIDRsOf(network)
		}
		taken = append(taken, cidrs.UnsortedList()...)
	}
	for other, cidr := range a.reserved {
		if other != key {
			taken = append(taken, cidr)
		}
	}
	for other, all := range a.listed {
		if other != key {
			taken = append(taken, all.UnsortedList()...)
		}
	}
	return taken, nil
}

// reserve marks a CIDR as taken. It is for a CIDR that was not allocated, before it is
// written.
func (a *allocator) reserve(key cache.ObjectName, cidr netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved[key] = cidr.Masked()
}

// isReserved reports whether a CIDR is reserved for the Deployment.
func (a *allocator) isReserved(key cache.ObjectName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.reserved[key]
	return ok
}

// release ends the reservation of a CIDR that was not written, and reports whether that frees a part of the pool.
func (a *allocator) release(key cache.ObjectName) (isOfPool bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cidr, isReserved := a.reserved[key]
	delete(a.reserved, key)
	return isReserved && cidr.Overlaps(a.pool)
}

// releaseIfCached ends the reservation for the Network if the cache has the reserved CIDR.
func (a *allocator) releaseIfCached(network *samplecrdv1.Network) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := cache.MetaObjectToName(network)
	if cidr, err := netip.ParsePrefix(network.Spec.CIDR); err == nil && a.reserved[key] == cidr.Masked() {
		delete(a.reserved, key)
	}
}

// takeWaiting returns the Deployments for which no block was free, and forgets them.
func (a *allocator) takeWaiting() []cache.ObjectName {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer clear(a.waiting)
	return slices.Collect(maps.Keys(a.waiting))
}
