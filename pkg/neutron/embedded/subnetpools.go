// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// subnetPool has the addresses that the CIDRs of subnets are allocated from. (A pool is a part of a subnet.)
type subnetPool struct {
	standard
	prefixes          []netip.Prefix
	shared, isDefault bool
	shortest, longest int // the prefix lengths that a subnet can have
	usual             int // the prefix length of a subnet that asks for none
	quota             int // in addresses, of IPv6 in networks of /64; none: no limit
	// isUpdated: this is what a PUT answers. The lengths are numbers then, and what is null is left out.
	isUpdated bool
}

const none = -1

func (p *subnetPool) parent() string { return "" }

func (p *subnetPool) version() int { return versionOf(p.prefixes[0]) }

// poolDefaults are the prefix lengths that a pool has by default, and the unit of its quota.
var poolDefaults = map[int]struct {
	shortest, longest, unit int
	any                     netip.Addr
}{
	4: {8, 32, 32, netip.IPv4Unspecified()},
	6: {64, 128, 64, netip.IPv6Unspecified()},
}

// subnetPoolKind: other projects see a pool if it is shared, but only its own project can change it.
func (n *neutron) subnetPoolKind() *kind[*subnetPool] {
	return (&kind[*subnetPool]{
		neutron: n, title: "Subnetpool", items: n.subnetPools, attrs: subnetPoolAttributes(),
		visible: func(c caller, o *subnetPool) bool { return c.admin || o.project == c.project || o.shared },
		owned:   func(c caller, o *subnetPool) bool { return c.admin || o.project == c.project },
		create:  createSubnetPool,
		update:  updateSubnetPool,
		remove:  removeSubnetPool,
		copy:    func(o *subnetPool) *subnetPool { c := *o; return &c },
		updated: func(o *subnetPool) *subnetPool { c := *o; c.isUpdated = true; return &c },
	}).init()
}

func subnetPoolAttributes() []*attribute[*subnetPool] {
	length := func(name string, of func(*subnetPool) int) *attribute[*subnetPool] {
		return &attribute[*subnetPool]{name: name, flags: onPost | onPut | filter | sortable, check: atLeastZero, get: func(p *subnetPool) any {
			if p.isUpdated {
				return of(p)
			}
			return strconv.Itoa(of(p))
		}}
	}
	null := func(p *subnetPool) any {
		if p.isUpdated {
			return absent{}
		}
		return nil
	}
	all := standardAttributes([]*attribute[*subnetPool]{
		{name: "prefixes", flags: onPost | onPut | required, check: checkPrefixes, get: func(p *subnetPool) any { return p.prefixes }},
		{name: "ip_version", flags: filter | sortable, get: func(p *subnetPool) any { return p.version() }},
		{name: "default_quota", flags: onPost | onPut | filter | sortable, check: atLeastZero, get: func(p *subnetPool) any {
			if p.quota == none {
				return null(p)
			}
			return p.quota
		}},
		length("default_prefixlen", func(p *subnetPool) int { return p.usual }),
		length("min_prefixlen", func(p *subnetPool) int { return p.shortest }),
		length("max_prefixlen", func(p *subnetPool) int { return p.longest }),
		{name: "is_default", flags: onPost | onPut | filter | sortable | boolean | adminSets, check: truth, def: false, get: func(p *subnetPool) any { return p.isDefault }},
		{name: "shared", flags: onPost | filter | sortable | boolean | adminSets, check: truth, def: false, get: func(p *subnetPool) any { return p.shared }},
		{name: "address_scope_id", flags: onPost | onPut | filter | sortable, check: orNull(checkUUID), get: null},
	})
	name := all[slices.IndexFunc(all, func(a *attribute[*subnetPool]) bool { return a.name == "name" })]
	name.flags |= required
	name.check = notBlank
	return all
}

func notBlank(name string, v any) (any, *failure) {
	if s, ok := v.(string); ok && strings.TrimSpace(s) == "" {
		return nil, badValue(name, fmt.Sprintf("'%s' Blank strings are not permitted", s))
	}
	return text(maxText)(name, v)
}

// checkPrefixes reads the prefixes of a pool, clears their host bits, and joins those that can be one.
func checkPrefixes(name string, v any) (any, *failure) {
	list, reason := textsFault(v)
	if reason != "" {
		return nil, badValue(name, reason)
	}
	var prefixes []netip.Prefix
	for _, s := range list {
		p, ok := parseCIDR(s)
		exact, err := netip.ParsePrefix(s)
		switch {
		case !ok || strings.ContainsAny(s, " \t\n"):
			return nil, badValue(name, fmt.Sprintf("'%s' is not a valid IP subnet", s))
		case err != nil || p.Addr().Is4() && exact.String() != s:
			return nil, badValue(name, fmt.Sprintf("'%s' isn't a recognized IP subnet cidr, '%s' is recommended", s, p))
		}
		prefixes = append(prefixes, p)
	}
	return difference(prefixes, nil).Prefixes(), nil
}

// difference returns the addresses of a that no subnet of b has.
func difference(a []netip.Prefix, b []*subnet) *netipx.IPSet {
	var set netipx.IPSetBuilder
	for _, p := range a {
		set.AddPrefix(p)
	}
	for _, s := range b {
		set.RemovePrefix(s.cidr)
	}
	result, _ := set.IPSet() // fails only on prefixes that are not valid
	return result
}

func createSubnetPool(t *tx, v values) (*subnetPool, *failure) {
	p := &subnetPool{standard: t.newStandard(v, 0), shared: given(v, "shared", false), quota: none}
	if err := t.changePool(p, v); err != nil {
		return nil, err
	}
	store(t, t.subnetPools, p)
	return p, nil
}

// updateSubnetPool accepts only more addresses, not fewer.
func updateSubnetPool(t *tx, old *subnetPool, v values) (*subnetPool, *failure) {
	after := difference(given(v, "prefixes", old.prefixes), nil)
	if slices.ContainsFunc(old.prefixes, func(p netip.Prefix) bool { return !after.ContainsPrefix(p) }) {
		return nil, badAs("IllegalSubnetPoolPrefixUpdate", "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes.")
	}
	p := *old
	return &p, t.changePool(&p, v)
}

// changePool sets and checks what a POST and a PUT have in common.
func (t *tx) changePool(p *subnetPool, v values) *failure {
	p.prefixes = given(v, "prefixes", p.prefixes)
	switch {
	case len(p.prefixes) == 0:
		return badAs("EmptySubnetPoolPrefixList", "Empty subnet pool prefix list.")
	case slices.ContainsFunc(p.prefixes, func(o netip.Prefix) bool { return versionOf(o) != p.version() }):
		return badAs("PrefixVersionMismatch", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
	}
	if defaults := poolDefaults[p.version()]; p.longest == 0 { // it is new
		p.shortest, p.longest = defaults.shortest, defaults.longest
		p.usual = given(v, "min_prefixlen", p.shortest)
	}
	p.shortest = given(v, "min_prefixlen", p.shortest)
	p.longest = given(v, "max_prefixlen", p.longest)
	p.usual = given(v, "default_prefixlen", p.usual)
	p.quota = given(v, "default_quota", p.quota)
	if err := p.checkLengths(); err != nil {
		return err
	}
	wasDefault := p.isDefault
	p.isDefault = given(v, "is_default", p.isDefault)
	if p.isDefault && !wasDefault && t.defaultPool(p.version()) != nil {
		return invalidInput("A default subnetpool for this IP family has already been set. Only one default may exist per IP family")
	}
	if id := given(v, "address_scope_id", ""); id != "" { // there are none here
		return notFound("AddressScopeNotFound", "Address scope %s could not be found.", id)
	}
	return nil
}

// checkLengths refuses prefix lengths that contradict each other, in Neutron's order.
func (p *subnetPool) checkLengths() *failure {
	illegal := func(name string, length int, other string, otherLength int) *failure {
		return badAs("IllegalSubnetPoolPrefixBounds", "Illegal prefix bounds: %s=%d, %s=%d.", name, length, other, otherLength)
	}
	width := poolDefaults[p.version()].longest
	switch {
	case p.shortest > p.longest:
		return illegal("min_prefixlen", p.shortest, "max_prefixlen", p.longest)
	case p.longest > width:
		return illegal("max_prefixlen", p.longest, "ip_version_max", width)
	case p.usual < p.shortest:
		return illegal("default_prefixlen", p.usual, "min_prefixlen", p.shortest)
	case p.usual > p.longest:
		return illegal("default_prefixlen", p.usual, "max_prefixlen", p.longest)
	}
	return nil
}

func removeSubnetPool(t *tx, p *subnetPool) *failure {
	if len(t.allocatedFrom(p)) > 0 {
		return badAs("SubnetPoolDeleteError", "Unable to delete subnet pool: Subnet pool has existing allocations.")
	}
	discard(t, t.subnetPools, p.id)
	return nil
}

func (t *tx) allocatedFrom(p *subnetPool) []*subnet {
	return slices.DeleteFunc(slices.Clone(t.subnets.sorted), func(s *subnet) bool { return s.poolID != p.id })
}

// defaultPool returns the default pool that the caller can see, or nil.
func (t *tx) defaultPool(version int) *subnetPool {
	for _, p := range t.subnetPools.sorted {
		if _, err := seen[*subnetPool](t, "subnetpools", p.id); err == nil && p.isDefault && p.version() == version {
			return p
		}
	}
	return nil
}

// allocateCIDR gives a subnet its CIDR from its pool: the one in the request, the one around the gateway in the request, or any.
func (t *tx) allocateCIDR(s *subnet, v values) *failure {
	p, err := seen[*subnetPool](t, "subnetpools", s.poolID)
	if err != nil {
		return err
	}
	if want := given(v, "ip_version", 0); want != p.version() {
		return badResource("subnets", fmt.Sprintf("Cannot allocate IPv%d subnet from IPv%d subnet pool", want, p.version()))
	}
	if p.version() == 4 || !s.dhcp {
		s.raMode, s.ipMode = "", "" // without a pool they are refused before
	}
	isAny := !v.has("cidr") && !s.gateway.IsValid()
	if !v.has("cidr") {
		start, length := s.gateway, given(v, "prefixlen", p.usual)
		if isAny {
			start = poolDefaults[p.version()].any
		}
		if s.cidr = netip.PrefixFrom(start, length).Masked(); !s.cidr.IsValid() {
			return badAs("AddrFormatError", "invalid IPNetwork %s/%d", start, length)
		}
	}
	if err := t.checkAllocation(p, s.cidr.Bits()); err != nil {
		return err
	}
	free := difference(p.prefixes, t.allocatedFrom(p))
	switch {
	case isAny:
		return s.takeFrom(free, v)
	case !free.ContainsPrefix(s.cidr):
		return allocationError("Cannot allocate requested subnet from the available set of prefixes")
	}
	return nil
}

// takeFrom gives the subnet the lowest block of the smallest free ones that its CIDR fits in. Its gateway is the first address, even
// of IPv6, and even if the request has null.
func (s *subnet) takeFrom(free *netipx.IPSet, v values) *failure {
	cidr, _, ok := free.RemoveFreePrefix(uint8(s.cidr.Bits()))
	if !ok {
		return allocationError(fmt.Sprintf("Insufficient prefix space to allocate subnet size /%d", s.cidr.Bits()))
	}
	s.cidr, s.gateway = cidr, cidr.Addr().Next()
	v["gateway_ip"] = s.gateway
	return nil
}

func allocationError(reason string) *failure {
	return &failure{http.StatusInternalServerError, "SubnetAllocationError", "Failed to allocate subnet: " + reason + "."}
}

// checkAllocation checks a prefix length, and the pool's quota. The subnets of the pool's own project count, whichever project asks.
func (t *tx) checkAllocation(p *subnetPool, length int) *failure {
	switch {
	case length > p.longest:
		return badAs("MaxPrefixSubnetAllocationError", "Unable to allocate subnet with prefix length %d, maximum allowed prefix is %d.", length, p.longest)
	case length < p.shortest:
		return badAs("MinPrefixSubnetAllocationError", "Unable to allocate subnet with prefix length %d, minimum allowed prefix is %d.", length, p.shortest)
	case p.quota <= 0:
		return nil
	}
	unit := poolDefaults[p.version()].unit
	used := math.Ldexp(1, unit-length)
	for _, s := range t.allocatedFrom(p) {
		if s.project == p.project {
			used += math.Ldexp(1, unit-s.cidr.Bits())
		}
	}
	if used > float64(p.quota) {
		return conflict("SubnetPoolQuotaExceeded", "Per-tenant subnet pool prefix quota exceeded.")
	}
	return nil
}
