// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// Lists of a network or a subnet are kept as one text each. Such texts can be compared with ==,
// take little memory, and are what users see in events. An empty one is [] in requests.
type (
	// Addresses are IP addresses, in order: "192.0.2.53, 192.0.2.54".
	Addresses string
	// Pools is a set of address ranges: "10.0.0.2-10.0.0.100, 10.0.0.200-10.0.0.254".
	Pools string
	// Routes is a set of routes of a subnet or a router: "10.99.0.0/16 via 10.0.0.254".
	Routes string
	// Tags is a set of texts, as a sorted JSON array: `["team-a","test"]`, or "" without tags. A tag
	// may contain any character. Availability zones are kept in this form too.
	Tags string
)

const (
	separator = ", "
	via       = " via "
)

// set returns the texts as a set.
func set(texts []string) string {
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), separator)
}

// elements returns the elements of a list or a set.
func elements[T ~string](texts T) []string {
	if texts == "" {
		return []string{}
	}
	return strings.Split(string(texts), separator)
}

// canonical returns an address in the form of RFC 5952. Neutron returns some addresses as they were
// sent.
func canonical(address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		return a.String()
	}
	return address
}

// NewAddresses returns a list of addresses.
func NewAddresses[T ~string](addresses ...T) Addresses {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = canonical(string(a))
	}
	return Addresses(strings.Join(texts, separator))
}

// NewPools returns a set of ranges.
func NewPools(ranges ...netipx.IPRange) Pools {
	slices.SortFunc(ranges, func(a, b netipx.IPRange) int {
		return cmp.Or(a.From().Compare(b.From()), a.To().Compare(b.To()))
	})
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	return Pools(strings.Join(texts, separator))
}

// NewTags returns a set of tags.
func NewTags[T ~string](tags ...T) Tags {
	if len(tags) == 0 {
		return ""
	}
	text, _ := json.Marshal(slices.Compact(slices.Sorted(slices.Values(tags)))) // strings cannot fail
	return Tags(text)
}

type poolJSON struct {
	Start netip.Addr `json:"start"`
	End   netip.Addr `json:"end"`
}

// Route is an element of Routes.
type Route struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

func (r Route) String() string {
	destination := r.Destination
	if prefix, err := netip.ParsePrefix(destination); err == nil {
		destination = prefix.Masked().String()
	}
	return destination + via + canonical(r.NextHop)
}

// UnmarshalJSON reads Neutron's dns_nameservers.
func (a *Addresses) UnmarshalJSON(text []byte) error {
	var addresses []string
	err := json.Unmarshal(text, &addresses)
	*a = NewAddresses(addresses...)
	return err
}

// MarshalJSON writes Neutron's dns_nameservers.
func (a Addresses) MarshalJSON() ([]byte, error) { return json.Marshal(elements(a)) }

// UnmarshalJSON reads Neutron's allocation_pools.
func (p *Pools) UnmarshalJSON(text []byte) error {
	var pools []poolJSON
	if err := json.Unmarshal(text, &pools); err != nil {
		return err
	}
	ranges := make([]netipx.IPRange, len(pools))
	for i, pool := range pools {
		ranges[i] = netipx.IPRangeFrom(pool.Start, pool.End)
	}
	*p = NewPools(ranges...)
	return nil
}

// MarshalJSON writes Neutron's allocation_pools.
func (p Pools) MarshalJSON() ([]byte, error) {
	pools := []poolJSON{}
	for _, text := range elements(p) {
		r, err := netipx.ParseIPRange(text)
		if err != nil {
			return nil, err
		}
		pools = append(pools, poolJSON{r.From(), r.To()})
	}
	return json.Marshal(pools)
}

// UnmarshalJSON reads Neutron's host_routes, or the routes of a router.
func (r *Routes) UnmarshalJSON(text []byte) error {
	var routes []Route
	if err := json.Unmarshal(text, &routes); err != nil {
		return err
	}
	*r = newRoutes(routes)
	return nil
}

func newRoutes(routes []Route) Routes {
	texts := make([]string, len(routes))
	for i, route := range routes {
		texts[i] = route.String()
	}
	return Routes(set(texts))
}

// MarshalJSON writes Neutron's host_routes, or the routes of a router.
func (r Routes) MarshalJSON() ([]byte, error) { return json.Marshal(r.All()) }

// UnmarshalJSON reads Neutron's tags, or its availability_zone_hints.
func (t *Tags) UnmarshalJSON(text []byte) error {
	var tags []string
	err := json.Unmarshal(text, &tags)
	*t = NewTags(tags...)
	return err
}

// MarshalJSON writes Neutron's tags, or its availability_zone_hints.
func (t Tags) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(t, "[]")), nil }

// All returns the tags.
func (t Tags) All() (tags []string) {
	if t != "" {
		_ = json.Unmarshal([]byte(t), &tags) // NewTags wrote it
	}
	return tags
}

// String returns the tags as users see them.
func (t Tags) String() string { return strings.Join(t.All(), separator) }

// All returns the addresses.
func (a Addresses) All() []string { return elements(a) }

// All returns the ranges, each as its first and its last address with a dash between them.
func (p Pools) All() []string { return elements(p) }

// All returns the routes.
func (r Routes) All() []Route {
	routes := []Route{}
	for _, text := range elements(r) {
		destination, nextHop, _ := strings.Cut(text, via)
		routes = append(routes, Route{destination, nextHop})
	}
	return routes
}

// that returns the routes for which keep is true. Its argument is one route.
func (r Routes) that(keep func(route Routes) bool) Routes {
	var kept []string
	for _, text := range elements(r) {
		if keep(Routes(text)) {
			kept = append(kept, text)
		}
	}
	return Routes(set(kept))
}

// and returns the routes of both.
func (r Routes) and(others Routes) Routes {
	return Routes(set(slices.Concat(elements(r), elements(others))))
}

// has reports whether the one route is among them.
func (r Routes) has(route Routes) bool { return slices.Contains(elements(r), string(route)) }

// without returns the routes that are not among the others.
func (r Routes) without(others Routes) Routes {
	return r.that(func(route Routes) bool { return !others.has(route) })
}

// through returns the routes whose next hop is in the CIDR.
func (r Routes) through(cidr netip.Prefix) Routes {
	return r.that(func(route Routes) bool { return cidr.Contains(route.nextHop()) })
}

// nextHop returns the next hop of one route, the zero Addr if it is none.
func (r Routes) nextHop() netip.Addr {
	_, text, _ := strings.Cut(string(r), via)
	hop, _ := netip.ParseAddr(text) // the zero Addr is in no CIDR
	return hop
}

// hops returns the next hops.
func (r Routes) hops() (hops []netip.Addr) {
	for _, text := range elements(r) {
		if hop := Routes(text).nextHop(); !slices.Contains(hops, hop) {
			hops = append(hops, hop)
		}
	}
	return hops
}

// containing returns the pool that contains the address, "" if none does.
func (p Pools) containing(address netip.Addr) string {
	for _, text := range elements(p) {
		if pool, err := netipx.ParseIPRange(text); err == nil && pool.Contains(address) {
			return text
		}
	}
	return ""
}

// allocationPools returns the pools that Neutron itself creates for a subnet with this gateway
// (generate_pools in neutron.ipam.utils); nil for a subnet without hosts.
func allocationPools(cidr netip.Prefix, gateway netip.Addr) any {
	whole := netipx.RangeOfPrefix(cidr)
	first, last := whole.From().Next(), whole.To()
	if cidr.Addr().Is4() {
		last = last.Prev()
	}
	pool := netipx.IPRangeFrom(first, last)
	switch {
	case !pool.IsValid():
		return nil
	case !pool.Contains(gateway):
		return NewPools(pool)
	}
	var pools []netipx.IPRange
	if gateway != first {
		pools = append(pools, netipx.IPRangeFrom(first, gateway.Prev()))
	}
	if gateway != last {
		pools = append(pools, netipx.IPRangeFrom(gateway.Next(), last))
	}
	return NewPools(pools...)
}

// HasDefaultPools reports whether the subnet has the allocation pools that Neutron chooses for its
// gateway.
func (s *Subnet) HasDefaultPools() bool {
	return s.Pools == allocationPools(s.CIDR, s.Gateway)
}
