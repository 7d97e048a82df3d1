// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// The values of the generated specs. Some are wrong alone, most are wrong beside others. The names
// of additional subnets differ: without that the API server does not come to the rules.
var (
	cidrs = []any{"10.0.0.0/24", "10.0.0.77/24", "10.0.1.0/24", "10.0.0.0/8", "10.0.0.0/30", "10.0.0.0/31", "10.0.0.9/32", "0.0.0.0/0",
		"fd00:1::/64", "FD00:1:0::/64", "fd00:1::/80", "fd00:2::/64", "abc", "", "10.0.0.0", "010.0.0.0/8", "::ffff:10.0.0.0/104"}
	addresses = []any{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.9", "10.0.0.20", "10.0.0.200", "10.0.0.255", "10.0.1.9", "10.255.255.255",
		"fd00:1::", "fd00:1::1", "fd00:1::2", "fd00:1::9", "FD00:1::9", "fd00:2::1", "x", "", "10.0.0.01"}
	gateways     = append([]any{"None", "none", "FD00:1::0:1", "0.0.0.0", "255.255.255.255"}, addresses...)
	destinations = []any{"0.0.0.0/0", "10.99.0.0/16", "10.99.0.1/16", "fd00:9::/64", "FD00:9::/64", "::/0", "x"}
	modes        = []any{"slaac", "dhcpv6-stateful"}
	names        = []string{"a", "b", "c"}
	tags         = []any{"blue", "Blue", "BLUE", "red", "a,b", " x", "", "samplecrd-owner-x", "Samplecrd-Owner-,"}
	domains      = []any{"", "example.org.", "example.org", "Example.org.", "10.20.", "a..b."}
	ids          = []any{"3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11", "4d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11", "x"}
	zones        = []any{"nova", "az2", "az3", " x", "x\ty", strings.Repeat("z", 130), strings.Repeat("y", 130)}
	projects     = []any{"0123456789abcdef0123456789abcdef", "3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11", "*", "x", "0123456789ABCDEF0123456789ABCDEF"}
	words        = []any{"a", "b", "A", "a.b", ".a", " a"}
)

// generator makes specs at random. It is not safe for concurrent use.
type generator struct{ *rand.Rand }

func (g generator) one(of []any) any { return of[g.IntN(len(of))] }

// in reports true once in n times.
func (g generator) in(n int) bool { return g.IntN(n) == 0 }

// list makes a list of at most n elements.
func (g generator) list(n int, element func() any) []any {
	l := []any{}
	for range g.IntN(n + 1) {
		l = append(l, element())
	}
	return l
}

// field is a field of an object, and how to make it.
type field struct {
	name string
	// rare fields are in one object of n.
	rare int
	make func() any
}

func (g generator) object(fields []field) map[string]any {
	o := map[string]any{}
	for _, f := range fields {
		if g.in(f.rare) {
			o[f.name] = f.make()
		}
	}
	return o
}

func (g generator) reference() any {
	return g.object([]field{{"name", 2, func() any { return g.one(words) }}, {"id", 2, func() any { return g.one(words) }}})
}

func (g generator) pool() any {
	p := g.object([]field{{"id", 6, func() any { return g.one(words) }}})
	if !g.in(6) {
		p["name"] = g.one(words)
	}
	p["prefixLength"] = g.one([]any{int64(24), int64(64)})
	return p
}

func (g generator) zones() any {
	return append(g.list(2, func() any { return g.one(zones) }), g.one(zones))
}

func (g generator) routes() any {
	return g.list(3, func() any { return map[string]any{"destination": g.one(destinations), "nextHop": g.one(addresses)} })
}

func (g generator) subnet() []field {
	return []field{
		{"gateway", 2, func() any { return g.one(gateways) }},
		{"dnsNameservers", 4, func() any { return g.list(3, func() any { return g.one(addresses) }) }},
		{"allocationPools", 3, func() any {
			return g.list(3, func() any { return map[string]any{"start": g.one(addresses), "end": g.one(addresses)} })
		}},
		{"hostRoutes", 4, g.routes},
		{"enableDHCP", 4, func() any { return g.in(2) }},
		{"subnetPool", 8, g.pool},
		{"ipv6", 4, func() any {
			return g.object([]field{{"addressMode", 2, func() any { return g.one(modes) }}, {"raMode", 2, func() any { return g.one(modes) }}})
		}},
	}
}

func (g generator) spec() map[string]any {
	fields := append(g.subnet(), []field{
		{"additionalSubnets", 3, func() any {
			i := -1
			return g.list(3, func() any {
				i++
				s := g.object(g.subnet())
				s["name"] = names[i]
				return g.ranged(s, 5)
			})
		}},
		{"router", 4, func() any {
			return g.object([]field{{"externalNetwork", 2, g.reference}, {"existing", 2, g.reference}, {"availabilityZoneHints", 3, g.zones}, {"routes", 3, g.routes}})
		}},
		{"provider", 4, func() any {
			p := g.object([]field{{"physicalNetwork", 2, func() any { return g.one(words) }}, {"segmentationID", 2, func() any { return int64(g.IntN(3)) }}})
			p["networkType"] = g.one([]any{"vlan", "vxlan"})
			return p
		}},
		{"import", 4, func() any { return map[string]any{"networkID": g.one(ids)} }},
		{"managementPolicy", 4, func() any { return g.one([]any{"Managed", "Observe"}) }},
		{"cloudCredentialsRef", 4, func() any {
			return g.object([]field{{"secretName", 2, func() any { return g.one(words) }}, {"cloudName", 2, func() any { return g.one(words) }}, {"clusterCloudName", 3, func() any { return g.one(words) }}})
		}},
		{"tags", 4, func() any { return g.list(4, func() any { return g.one(tags) }) }},
		{"availabilityZoneHints", 4, g.zones},
		{"sharedWith", 4, func() any {
			return g.list(3, func() any { return map[string]any{"projectID": g.one(projects)} })
		}},
		{"dnsDomain", 6, func() any { return g.one(domains) }},
	}...)
	return g.ranged(g.object(fields), 8)
}

// ranged gives a subnet a CIDR, except one in n. Of those from a pool, it gives only one in four a CIDR.
func (g generator) ranged(subnet map[string]any, n int) map[string]any {
	isFromPool := subnet["subnetPool"] != nil
	if isFromPool && g.in(4) || !isFromPool && !g.in(n) {
		subnet["cidr"] = g.one(cidrs)
	}
	return subnet
}

// edited returns a copy of a spec with some fields of another one, or without them. The order of the fields makes each run the same.
func (g generator) edited(spec map[string]any) map[string]any {
	after, other := runtime.DeepCopyJSON(spec), g.spec()
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if g.in(3) {
			after[name] = other[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if g.in(6) {
			delete(after, name)
		}
	}
	return after
}
