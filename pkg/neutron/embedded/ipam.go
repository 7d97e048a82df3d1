// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// pool is a range of addresses, both ends included.
type pool struct {
	Start netip.Addr `json:"start"`
	End   netip.Addr `json:"end"`
}

func (p pool) String() string { return p.Start.String() + "-" + p.End.String() }

func (p pool) contains(a netip.Addr) bool {
	return a.BitLen() == p.Start.BitLen() && p.Start.Compare(a) <= 0 && a.Compare(p.End) <= 0
}

// parseCIDR accepts everything that Python's netaddr accepts, which is more than netip:
// surrounding blanks, leading zeros, fewer than four octets, netmasks and hostmasks, and an
// address without a mask. Host bits are cleared.
func parseCIDR(s string) (netip.Prefix, bool) {
	host, mask, masked := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		var ok bool
		if addr, ok = parsePartial(host); !ok {
			return netip.Prefix{}, false
		}
	}
	bits := addr.BitLen()
	if masked {
		var ok bool
		if bits, ok = parseMask(strings.TrimSpace(mask), addr.BitLen()); !ok {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(addr, bits).Masked(), true
}

// parsePartial parses an IPv4 address in netaddr's fallback form. Each octet is parsed with
// Python's int(), so leading zeros are decimal, not octal; missing octets are zero.
func parsePartial(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var octets [4]byte
	for i, p := range parts {
		n, err := strconv.ParseUint(strings.TrimSpace(p), 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		octets[i] = byte(n)
	}
	return netip.AddrFrom4(octets), true
}

// parseMask reads a prefix length, a netmask (255.255.0.0) or a hostmask (0.0.255.255).
func parseMask(s string, width int) (int, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, n >= 0 && n <= width
	}
	m, err := netip.ParseAddr(s)
	if err != nil || m.BitLen() != width {
		return 0, false
	}
	all := netip.PrefixFrom(m, 0).Masked().Addr()
	for _, hosts := range []netip.Addr{invert(m), m} {
		for n := range width + 1 {
			if lastAddr(netip.PrefixFrom(all, n)) == hosts {
				return n, true
			}
		}
	}
	return 0, false
}

func invert(a netip.Addr) netip.Addr {
	b := a.AsSlice()
	for i := range b {
		b[i] = ^b[i]
	}
	inverted, _ := netip.AddrFromSlice(b)
	return inverted
}

// lastAddr returns the last address of a prefix, in IPv4 the broadcast address.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// addressFault returns why the API layer refuses v as an IP address; "" means that it
// accepts v.
func addressFault(v any) string {
	s, ok := v.(string)
	if a, err := netip.ParseAddr(s); ok && err == nil && a.Zone() == "" {
		return ""
	}
	if a, loose := parsePartial(s); ok && loose && strings.Count(s, ".") == 3 && !strings.ContainsAny(s, " \t\n") {
		return fmt.Sprintf("'%s' is not an accepted IP address, '%s' is recommended", s, a)
	}
	return fmt.Sprintf("'%s' is not a valid IP address", python(v))
}

// defaultGateway returns the first usable address in IPv4, and in IPv6 the subnet-router
// anycast address (RFC 4291, 2.6.1), which is the subnet's first address.
func defaultGateway(cidr netip.Prefix) netip.Addr {
	if cidr.Addr().Is4() {
		return cidr.Addr().Next() // for 255.255.255.255/32 the zero Addr; Neutron fails
	}
	return cidr.Addr()
}

// hostRange returns the addresses of a subnet that ports and pools can use: in IPv4 all
// except the network and the broadcast address, in IPv6 all except the first.
func hostRange(cidr netip.Prefix) pool {
	r := pool{cidr.Addr(), lastAddr(cidr)}
	if r.Start == r.End || cidr.Addr().Is4() && cidr.Bits() == 31 {
		return r
	}
	r.Start = r.Start.Next()
	if cidr.Addr().Is4() {
		r.End = r.End.Prev()
	}
	return r
}

// defaultPools returns the host range without the gateway: up to two pools around it, and
// none if there is no other address. A single address is a pool even if it is the gateway.
func defaultPools(cidr netip.Prefix, gateway netip.Addr) []pool {
	r := hostRange(cidr)
	if !gateway.IsValid() || !r.contains(gateway) || cidr.IsSingleIP() {
		return []pool{r}
	}
	pools := []pool{}
	if gateway != r.Start {
		pools = append(pools, pool{r.Start, gateway.Prev()})
	}
	if gateway != r.End {
		pools = append(pools, pool{gateway.Next(), r.End})
	}
	return pools
}

// checkPools refuses pools that overlap, lie outside the subnet, or contain the gateway.
func checkPools(pools []pool, cidr netip.Prefix, gateway netip.Addr) *failure {
	hosts := hostRange(cidr)
	for _, p := range pools {
		if p.Start.BitLen() != cidr.Addr().BitLen() || p.End.BitLen() != p.Start.BitLen() {
			return badAs("InvalidAllocationPool", "The allocation pool %s is not valid.", p)
		}
		if p.End.Less(p.Start) {
			return badAs("InvalidAllocationPool", "The allocation pool {'start': '%s', 'end': '%s'} is not valid.", p.Start, p.End)
		}
		if !hosts.contains(p.Start) || !hosts.contains(p.End) {
			return badAs("OutOfBoundsAllocationPool", "The allocation pool %s spans beyond the subnet cidr %s.", p, cidr)
		}
	}
	for i, p := range pools {
		for _, q := range pools[i+1:] {
			if p.contains(q.Start) || q.contains(p.Start) {
				return conflict("OverlappingAllocationPools", "Found overlapping allocation pools: %s %s for subnet %s.", p, q, cidr)
			}
		}
	}
	return checkGatewayOutside(pools, gateway)
}

// badAs is a 400 with an exception name of its own.
func badAs(kind, format string, args ...any) *failure {
	err := badRequest(format, args...)
	err.kind = kind
	return err
}

// checkGatewayOutside refuses a gateway inside a pool. This is why the gateway of a subnet
// with default pools cannot change within the subnet unless the request has new pools too.
func checkGatewayOutside(pools []pool, gateway netip.Addr) *failure {
	for _, p := range pools {
		if gateway.IsValid() && p.contains(gateway) {
			return conflict("GatewayConflictWithAllocationPools", "Gateway ip %s conflicts with allocation pool %s.", gateway, p)
		}
	}
	return nil
}

// firstFree returns the first address of the pools that is not in use. (The real Neutron
// picks one at random among the first few.)
func firstFree(pools []pool, used map[netip.Addr]bool) (netip.Addr, bool) {
	for _, p := range pools {
		for a := p.Start; p.contains(a); a = a.Next() {
			if !used[a] {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}
