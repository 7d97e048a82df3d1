// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// fieldCase is a spec, in YAML. The field, relative to what is declared, is refused with that
// message. If both are empty, the API server accepts it.
type fieldCase struct{ why, spec, field, message string }

const (
	noDNS       = `%q: must be an IPv4 or IPv6 address, such as 192.168.0.53 or fd00:1::53`
	written     = `%q: must be written as %s`
	noRange     = `%q: must be an IPv4 or IPv6 address and a prefix length, such as 10.99.0.0/16 or fd00:9::/64`
	noDomain    = `%q: must be a domain name in lower case with a dot at its end, such as team.example.org.`
	badTag      = `%q: must not be empty, and must not have a comma, a control character, or a blank at its start or end`
	longZones   = "must have at most 255 characters together, where each zone counts 4 more"
	noProject   = `%q: must be the ID of a project, 32 hexadecimal digits or a UUID in lower case: openstack project show -f value -c id NAME prints it`
	badZone     = `"a ": must not have a control character, or a blank at its start or end`
	ends        = "must not have the first or the last address of cidr, %s, in them: they are the network address and the broadcast address"
	defaultGate = "must not have the gateway in them: it is not set, so it is the first usable address of cidr, %s"
	recreate    = ": delete the Network and create another one"
	fixed       = "cannot be added, changed or removed" + recreate
	noCIDR      = `%q: must be an IPv4 or IPv6 address and a prefix length, such as 192.168.0.0/16 or fd00:1::/64`
	noGateway   = `%q: must be an IP address inside cidr, such as 192.168.0.1, or None`
	notAHost    = "%s must not be the first or the last address of cidr, %s: they are the network address and the broadcast address"
)

// subnetCases are tried as the first subnet and as an additional one.
var subnetCases = []fieldCase{
	{"a range from a subnet pool", `{subnetPool: {name: team, prefixLength: 24}, gateway: None, dnsNameservers: [192.0.2.53]}`, "", ""},
	{"a CIDR and a subnet pool", `{cidr: 10.0.0.0/24, subnetPool: {name: team, prefixLength: 24}}`, "subnetPool", "must not be set with cidr: either the Network declares its address range, or Neutron takes one from the pool"},
	{"a gateway in a range that is not known", `{subnetPool: {name: team, prefixLength: 24}, gateway: 10.0.0.1}`, "subnetPool", "must not be set with the gateway 10.0.0.1: the address range is not known before Neutron has chosen it. Leave gateway out, or set it to None"},
	{"pools in a range that is not known", `{subnetPool: {name: team, prefixLength: 24}, allocationPools: [{start: 10.0.0.1, end: 10.0.0.9}]}`, "subnetPool", "must not be set with allocationPools: the address range is not known before Neutron has chosen it"},
	{"routes from a range that is not known", `{subnetPool: {name: team, prefixLength: 24}, hostRoutes: [{destination: 10.9.0.0/16, nextHop: 10.0.0.9}]}`, "subnetPool", "must not be set with hostRoutes: the address range is not known before Neutron has chosen it"},
	{"a subnet pool without a prefix length", `{subnetPool: {name: team}}`, "subnetPool.prefixLength", "Required value"},
	{"a subnet pool by name and ID", `{subnetPool: {name: team, id: 5a, prefixLength: 24}}`, "subnetPool", "must have exactly one of name and id, and has both, team and 5a"},
	{"IPv6 modes of another prefix length", `{subnetPool: {name: team, prefixLength: 60}, ipv6: {raMode: slaac, addressMode: slaac}}`, "ipv6", "needs a subnetPool of IPv6 and the prefixLength 64"},
	{"all fields", `{cidr: 10.0.0.0/24, gateway: 10.0.0.1, dnsNameservers: [10.0.0.53, 192.0.2.53], allocationPools: [{start: 10.0.0.100, end: 10.0.0.200}], hostRoutes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.254}], enableDHCP: true}`, "", ""},
	{"all fields of IPv6", `{cidr: "fd00:1::/64", gateway: "fd00:1::1", dnsNameservers: ["fd00:1::53"], allocationPools: [{start: "fd00:1::100", end: "fd00:1::200"}], hostRoutes: [{destination: "fd00:9::/64", nextHop: "fd00:1::fe"}], enableDHCP: true, ipv6: {addressMode: slaac, raMode: slaac}}`, "", ""},
	{"empty lists", `{cidr: 10.0.0.0/24, dnsNameservers: [], allocationPools: [], hostRoutes: []}`, "", ""},

	{"host bits are masked", `{cidr: 192.168.1.0/16, gateway: 192.168.0.1}`, "", ""},
	{"no gateway wanted", `{cidr: 10.0.0.0/8, gateway: None}`, "", ""},
	{"all hosts of a /30", `{cidr: 10.0.0.0/30, gateway: 10.0.0.2}`, "", ""},
	{"a /31 has neither network nor broadcast address", `{cidr: 10.0.0.0/31, gateway: 10.0.0.0}`, "", ""},
	{"a /32 neither", `{cidr: 10.0.0.1/32, gateway: 10.0.0.1}`, "", ""},
	{"ends in 0 and 255 but is a host", `{cidr: 10.0.0.0/8, gateway: 10.0.255.0}`, "", ""},
	{"the first address of IPv6 is Neutron's own default", `{cidr: "fd00:1::/64", gateway: "fd00:1::"}`, "", ""},
	{"the last address of IPv6 is not for broadcasts", `{cidr: "fd00:1::/64", gateway: "fd00:1::ffff:ffff:ffff:ffff"}`, "", ""},
	{"an empty CIDR", `{cidr: ""}`, "cidr", fmt.Sprintf(noCIDR, "")},
	{"an address without a length", `{cidr: 192.168.0.0}`, "cidr", fmt.Sprintf(noCIDR, "192.168.0.0")},
	{"a length too large", `{cidr: 10.0.0.0/33}`, "cidr", fmt.Sprintf(noCIDR, "10.0.0.0/33")},
	{"a leading zero, which some read as octal", `{cidr: 010.0.0.0/8}`, "cidr", fmt.Sprintf(noCIDR, "010.0.0.0/8")},
	{"IPv4 dressed up as IPv6", `{cidr: "::ffff:10.0.0.0/104"}`, "cidr", fmt.Sprintf(noCIDR, "::ffff:10.0.0.0/104")},
	{"a zone", `{cidr: "fe80::%eth0/64"}`, "cidr", fmt.Sprintf(noCIDR, "fe80::%eth0/64")},
	{"a CIDR longer than any", `{cidr: "` + strings.Repeat("1", 44) + `"}`, "cidr", "Too long: may not be more than 43 bytes"},
	{"None is a word of its own", `{cidr: 10.0.0.0/8, gateway: none}`, "gateway", fmt.Sprintf(noGateway, "none")},
	{"a gateway with a leading zero", `{cidr: 10.0.0.0/8, gateway: 10.0.0.01}`, "gateway", fmt.Sprintf(noGateway, "10.0.0.01")},
	{"a gateway longer than any", `{cidr: 10.0.0.0/8, gateway: "` + strings.Repeat("1", 40) + `"}`, "gateway", "Too long: may not be more than 39 bytes"},
	{"a gateway just outside", `{cidr: 10.0.0.0/30, gateway: 10.0.0.4}`, "gateway", "10.0.0.4 is not an address inside cidr, 10.0.0.0/30"},
	{"a gateway outside, in IPv6", `{cidr: "fd00:1::/64", gateway: "fd00:2::1"}`, "gateway", "fd00:2::1 is not an address inside cidr, fd00:1::/64"},
	{"an IPv6 gateway for IPv4", `{cidr: 192.168.0.0/16, gateway: "fd00::1"}`, "gateway", "fd00::1 is not of the same IP family as cidr, 192.168.0.0/16"},
	{"network address of a /30", `{cidr: 10.0.0.4/30, gateway: 10.0.0.4}`, "gateway", fmt.Sprintf(notAHost, "10.0.0.4", "10.0.0.4/30")},
	{"of a /8", `{cidr: 10.0.0.0/8, gateway: 10.0.0.0}`, "gateway", fmt.Sprintf(notAHost, "10.0.0.0", "10.0.0.0/8")},
	{"of what host bits hide", `{cidr: 192.168.1.0/16, gateway: 192.168.0.0}`, "gateway", fmt.Sprintf(notAHost, "192.168.0.0", "192.168.1.0/16")},
	{"broadcast address of a /30", `{cidr: 10.0.0.4/30, gateway: 10.0.0.7}`, "gateway", fmt.Sprintf(notAHost, "10.0.0.7", "10.0.0.4/30")},
	{"of a /23", `{cidr: 10.0.0.0/23, gateway: 10.0.1.255}`, "gateway", fmt.Sprintf(notAHost, "10.0.1.255", "10.0.0.0/23")},
	{"of a /8", `{cidr: 10.0.0.0/8, gateway: 10.255.255.255}`, "gateway", fmt.Sprintf(notAHost, "10.255.255.255", "10.0.0.0/8")},

	{"five DNS servers", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5]}`, "", ""},
	{"a DNS server that is a word", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.53, dns]}`, "dnsNameservers[1]", fmt.Sprintf(noDNS, "dns")},
	{"a DNS server that is not as short as possible", `{cidr: "fd00:1::/64", dnsNameservers: ["FD00:1:0::53"]}`, "dnsNameservers[0]", fmt.Sprintf(written, "FD00:1:0::53", "fd00:1::53")},
	{"an IPv6 DNS server for IPv4", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.53, "fd00:1::53"]}`, "dnsNameservers", "fd00:1::53 is not of the same IP family as cidr, 10.0.0.0/24"},
	{"a double DNS server", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.53, 10.0.0.54, 10.0.0.53]}`, "dnsNameservers", "10.0.0.53 must not be in the list twice"},
	{"six DNS servers", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6]}`, "dnsNameservers", "6: must have at most 5 items"},

	{"two pools that touch", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.10, end: 10.0.0.19}, {start: 10.0.0.2, end: 10.0.0.9}]}`, "", ""},
	{"a pool of one address", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.9, end: 10.0.0.9}]}`, "", ""},
	{"a pool beside the gateway", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9, allocationPools: [{start: 10.0.0.1, end: 10.0.0.8}, {start: 10.0.0.10, end: 10.0.0.254}]}`, "", ""},
	{"all hosts of a subnet without a gateway", `{cidr: 10.0.0.0/24, gateway: None, allocationPools: [{start: 10.0.0.1, end: 10.0.0.254}]}`, "", ""},
	{"9 is less than 10", `{cidr: 10.0.0.0/8, allocationPools: [{start: 10.9.0.0, end: 10.10.0.0}]}`, "", ""},
	{"an IPv6 gateway at the first address", `{cidr: "fd00:1::/64", allocationPools: [{start: "fd00:1::1", end: "fd00:1::ffff"}]}`, "", ""},
	{"both addresses of a /31", `{cidr: 10.0.0.0/31, gateway: None, allocationPools: [{start: 10.0.0.0, end: 10.0.0.1}]}`, "", ""},
	{"a start that is a word", `{cidr: 10.0.0.0/24, allocationPools: [{start: first, end: 10.0.0.9}]}`, "allocationPools[0].start", fmt.Sprintf(noDNS, "first")},
	{"an empty pool", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.2}]}`, "allocationPools[0].end", "Required value"},
	{"a pool that ends outside", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}, {start: 10.0.0.20, end: 10.0.1.9}]}`, "allocationPools", "10.0.0.20-10.0.1.9 is not inside cidr, 10.0.0.0/24"},
	{"a pool of two families", `{cidr: "fd00:1::/64", allocationPools: [{start: "fd00:1::2", end: 10.0.0.9}]}`, "allocationPools", "fd00:1::2-10.0.0.9 is not inside cidr, fd00:1::/64"},
	{"a start after the end", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.10, end: 10.0.0.9}]}`, "allocationPools[0].start", "10.0.0.10 must not be after end, 10.0.0.9"},
	{"the network address", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.0, end: 10.0.0.9}]}`, "allocationPools", fmt.Sprintf(ends, "10.0.0.0/24")},
	{"the broadcast address", `{cidr: 10.0.0.0/23, allocationPools: [{start: 10.0.0.100, end: 10.0.1.255}]}`, "allocationPools", fmt.Sprintf(ends, "10.0.0.0/23")},
	{"the gateway in a pool", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9, allocationPools: [{start: 10.0.0.2, end: 10.0.0.200}]}`, "allocationPools", "must not have the gateway, 10.0.0.9, in them"},
	{"the gateway at the start", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9, allocationPools: [{start: 10.0.0.9, end: 10.0.0.200}]}`, "allocationPools", "must not have the gateway, 10.0.0.9, in them"},
	{"the gateway at the end", `{cidr: 10.0.0.0/24, gateway: 10.0.0.200, allocationPools: [{start: 10.0.0.9, end: 10.0.0.200}]}`, "allocationPools", "must not have the gateway, 10.0.0.200, in them"},
	{"the gateway at the start, in IPv6", `{cidr: "fd00:1::/64", gateway: "FD00:1::0:1", allocationPools: [{start: "fd00:1::1", end: "fd00:1::9"}]}`, "allocationPools", "must not have the gateway, FD00:1::0:1, in them"},
	{"the default gateway in a pool", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.1, end: 10.0.0.9}]}`, "allocationPools", fmt.Sprintf(defaultGate, "10.0.0.0/24")},
	{"the default gateway if the CIDR has host bits", `{cidr: 10.0.0.77/24, gateway: "", allocationPools: [{start: 10.0.0.1, end: 10.0.0.9}]}`, "allocationPools", fmt.Sprintf(defaultGate, "10.0.0.77/24")},
	{"the default gateway in a pool, in IPv6", `{cidr: "fd00:1::/64", allocationPools: [{start: "fd00:1::", end: "fd00:1::9"}]}`, "allocationPools", fmt.Sprintf(defaultGate, "fd00:1::/64")},
	{"pools that overlap", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.2, end: 10.0.0.4}, {start: 10.0.0.10, end: 10.0.0.20}, {start: 10.0.0.20, end: 10.0.0.30}]}`, "allocationPools", "10.0.0.10-10.0.0.20 overlaps with another range"},
	{"a pool in another", `{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.11, end: 10.0.0.12}, {start: 10.0.0.10, end: 10.0.0.20}]}`, "allocationPools", "10.0.0.11-10.0.0.12 overlaps with another range"},
	{"pools with the same start, in IPv6", `{cidr: "fd00:1::/64", allocationPools: [{start: "fd00:1::1", end: "fd00:1::9"}, {start: "fd00:1::1", end: "fd00:1::99"}]}`, "allocationPools", "fd00:1::1-fd00:1::9 overlaps with another range"},
	{"the order of IPv6 addresses is left to the controller", `{cidr: "fd00:1::/64", gateway: "fd00:1::5", allocationPools: [{start: "fd00:1::9", end: "fd00:1::1"}, {start: "fd00:1::2", end: "fd00:1::20"}]}`, "", ""},

	{"the default route, and a next hop outside", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 0.0.0.0/0, nextHop: 192.0.2.1}]}`, "", ""},
	{"two next hops for a destination", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.2}, {destination: 10.99.0.0/16, nextHop: 10.0.0.3}]}`, "", ""},
	{"a destination without a length", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 10.9.1.1, nextHop: 10.0.0.2}]}`, "hostRoutes[0].destination", fmt.Sprintf(noRange, "10.9.1.1")},
	{"a destination with host bits", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 10.9.1.1/16, nextHop: 10.0.0.2}]}`, "hostRoutes[0].destination", fmt.Sprintf(written, "10.9.1.1/16", "10.9.0.0/16")},
	{"no next hop", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 10.9.0.0/16}]}`, "hostRoutes[0].nextHop", "Required value"},
	{"a next hop of the other family", `{cidr: "fd00:1::/64", hostRoutes: [{destination: "fd00:9::/64", nextHop: 10.0.0.2}]}`, "hostRoutes", "fd00:9::/64 via 10.0.0.2 is not of the same IP family as cidr, fd00:1::/64"},
	{"a double route", `{cidr: 10.0.0.0/24, hostRoutes: [{destination: 10.9.0.0/16, nextHop: 10.0.0.2}, {destination: 10.9.0.0/16, nextHop: 10.0.0.2}]}`, "hostRoutes", "10.9.0.0/16 via 10.0.0.2 must not be in the list twice"},

	{"the other mode alone", `{cidr: "fd00:1::/64", ipv6: {raMode: dhcpv6-stateless}}`, "", ""},
	{"DHCP off without modes", `{cidr: "fd00:1::/64", enableDHCP: false}`, "", ""},
	{"a mode that does not exist", `{cidr: "fd00:1::/64", ipv6: {addressMode: dhcp}}`, "ipv6.addressMode", `"dhcp": supported values: "slaac", "dhcpv6-stateful", "dhcpv6-stateless"`},
	{"modes for IPv4", `{cidr: 10.0.0.0/24, ipv6: {addressMode: slaac}}`, "ipv6", "must not be set for an IPv4 cidr, 10.0.0.0/24"},
	{"no mode", `{cidr: "fd00:1::/64", ipv6: {}}`, "ipv6", "must have addressMode, raMode or both"},
	{"two modes", `{cidr: "fd00:1::/64", ipv6: {addressMode: slaac, raMode: dhcpv6-stateful}}`, "ipv6.raMode", "dhcpv6-stateful must be the same as addressMode, slaac"},
	{"modes need a /64", `{cidr: "fd00:1::/80", ipv6: {addressMode: slaac}}`, "ipv6", "needs a cidr with the prefix length 64, not fd00:1::/80"},
	{"modes need DHCP", `{cidr: "fd00:1::/64", enableDHCP: false, ipv6: {addressMode: slaac}}`, "ipv6", "must not be set if enableDHCP is false"},

	{"one mistake in cidr says nothing of the other fields", `{cidr: abc, dnsNameservers: ["fd00::53"], allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}], hostRoutes: [{destination: "fd00:9::/64", nextHop: 10.0.0.2}], ipv6: {addressMode: slaac}}`, "cidr", fmt.Sprintf(noCIDR, "abc")},
}

// manyProjects returns so many entries of sharedWith.
func manyProjects(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("{projectID: a%031x}", i))
	}
	return strings.Join(all, ", ")
}

// networkCases are specs of a Network.
var networkCases = []fieldCase{
	{"all of IPv4", `{cidr: 0.0.0.0/0, gateway: 10.0.0.1}`, "", ""},
	{"its network address", `{cidr: 0.0.0.0/0, gateway: 0.0.0.0}`, "gateway", fmt.Sprintf(notAHost, "0.0.0.0", "0.0.0.0/0")},
	{"its broadcast address", `{cidr: 0.0.0.0/0, gateway: 255.255.255.255}`, "gateway", fmt.Sprintf(notAHost, "255.255.255.255", "0.0.0.0/0")},
	{"no CIDR at all", `{gateway: None}`, "cidr", "Required value: is required unless subnetPool or import is set"},

	{"dual stack, and more room", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, cidr: "fd00:1::/64"}, {name: more, cidr: 10.0.1.0/24}]}`, "", ""},
	{"an additional subnet in the first", `{cidr: 10.0.0.0/16, additionalSubnets: [{name: v6, cidr: "fd00:1::/64"}, {name: more, cidr: 10.0.1.0/24}]}`, "additionalSubnets", "more, 10.0.1.0/24, overlaps with cidr, 10.0.0.0/16"},
	{"the first in an additional subnet", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: more, cidr: 10.0.0.77/8}]}`, "additionalSubnets", "more, 10.0.0.77/8, overlaps with cidr, 10.0.0.0/24"},
	{"the same CIDR", `{cidr: "fd00:1::/64", additionalSubnets: [{name: more, cidr: "FD00:1:0::/64"}]}`, "additionalSubnets", "more, FD00:1:0::/64, overlaps with cidr, fd00:1::/64"},
	{"additional subnets that overlap", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: a, cidr: 10.1.0.0/16}, {name: b, cidr: 10.2.0.0/24}, {name: c, cidr: 10.2.0.128/25}]}`, "additionalSubnets", "b, 10.2.0.0/24, overlaps with c, 10.2.0.128/25"},
	{"a double name", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: a, cidr: 10.1.0.0/16}, {name: a, cidr: 10.2.0.0/24}]}`, "additionalSubnets[1]", `Duplicate value: {"name":"a"}`},
	{"no name", `{cidr: 10.0.0.0/24, additionalSubnets: [{cidr: 10.1.0.0/16}]}`, "additionalSubnets[0].name", "Required value"},
	{"a name in upper case", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: V6, cidr: 10.1.0.0/16}]}`, "additionalSubnets[0].name", "\"V6\": PATH in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
	{"no CIDR", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6}]}`, "additionalSubnets[0].cidr", "Required value: is required unless subnetPool is set"},
	{"nine additional subnets", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: a, cidr: 10.1.0.0/24}, {name: b, cidr: 10.2.0.0/24}, {name: c, cidr: 10.3.0.0/24}, {name: d, cidr: 10.4.0.0/24}, {name: e, cidr: 10.5.0.0/24}, {name: f, cidr: 10.6.0.0/24}, {name: g, cidr: 10.7.0.0/24}, {name: h, cidr: 10.8.0.0/24}, {name: i, cidr: 10.9.0.0/24}]}`, "additionalSubnets", "9: must have at most 8 items"},

	{"a router of its own", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}}}`, "", ""},
	{"an empty router", `{cidr: 10.0.0.0/24, router: {}}`, "router", "must have exactly one of externalNetwork and existing, and has neither"},
	{"two routers", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, existing: {name: main}}}`, "router", "must have exactly one of externalNetwork and existing, and has both"},
	{"an external network without a name", `{cidr: 10.0.0.0/24, router: {externalNetwork: {}}}`, "router.externalNetwork", "must have exactly one of name and id, and has neither"},
	{"an existing router by name and ID", `{cidr: 10.0.0.0/24, router: {existing: {name: main, id: 5a}}}`, "router.existing", "must have exactly one of name and id, and has both, main and 5a"},
	{"an ID with a slash", `{cidr: 10.0.0.0/24, router: {existing: {id: a/b}}}`, "router.existing.id", "\"a/b\": PATH in body should match '^[A-Za-z0-9][A-Za-z0-9._-]*$'"},
	{"a router for a subnet without a gateway", `{cidr: 10.0.0.0/24, gateway: None, router: {existing: {name: main}}}`, "router", "needs a gateway in each subnet, and 10.0.0.0/24 has the gateway None"},
	{"a router for a subnet from a pool, without a gateway", `{subnetPool: {name: team, prefixLength: 24}, gateway: None, router: {existing: {name: main}}}`, "router", "needs a gateway in each subnet, and the one from subnetPool has the gateway None"},
	{"a router for an additional subnet without a gateway", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: a, cidr: 10.1.0.0/24}, {name: b, cidr: 10.2.0.0/24, gateway: None}], router: {existing: {name: main}}}`, "router", "needs a gateway in each subnet, and 10.2.0.0/24 has the gateway None"},
	{"a router for a subnet whose addresses it does not announce", `{cidr: "fd00:1::/64", ipv6: {addressMode: slaac}, router: {existing: {name: main}}}`, "router", "needs raMode in each subnet that has addressMode, and fd00:1::/64 has none"},
	{"a router for an additional subnet whose addresses it does not announce", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, cidr: "fd00:1::/64", ipv6: {addressMode: slaac}}], router: {existing: {name: main}}}`, "router", "needs raMode in each subnet that has addressMode, and fd00:1::/64 has none"},

	{"the fields of the network", `{cidr: 10.0.0.0/24, mtu: 1400, portSecurityEnabled: false, dnsDomain: team-1.example.org., tags: [team a, "Ä:1/2"], shared: true, external: true}`, "", ""},
	{"a label of 63 characters", `{cidr: 10.0.0.0/24, dnsDomain: ` + strings.Repeat("a", 63) + `.org.}`, "", ""},
	{"a domain without the dot", `{cidr: 10.0.0.0/24, dnsDomain: team.example.org}`, "dnsDomain", fmt.Sprintf(noDomain, "team.example.org")},
	{"a domain in upper case", `{cidr: 10.0.0.0/24, dnsDomain: Team.example.org.}`, "dnsDomain", fmt.Sprintf(noDomain, "Team.example.org.")},
	{"a hyphen at the end of a label", `{cidr: 10.0.0.0/24, dnsDomain: team-.org.}`, "dnsDomain", fmt.Sprintf(noDomain, "team-.org.")},
	{"a label of 64 characters", `{cidr: 10.0.0.0/24, dnsDomain: ` + strings.Repeat("a", 64) + `.org.}`, "dnsDomain", fmt.Sprintf(noDomain, strings.Repeat("a", 64)+".org.")},
	{"digits at the end", `{cidr: 10.0.0.0/24, dnsDomain: team.10.}`, "dnsDomain", fmt.Sprintf(noDomain, "team.10.")},
	{"an empty tag", `{cidr: 10.0.0.0/24, tags: [""]}`, "tags[0]", fmt.Sprintf(badTag, "")},
	{"a double tag", `{cidr: 10.0.0.0/24, tags: [a, b, a]}`, "tags[2]", `Duplicate value: "a"`},
	{"tags that differ in case", `{cidr: 10.0.0.0/24, tags: [a, Team, team]}`, "tags", "Team and team must not differ only in upper and lower case"},
	{"a tag with a blank at its end", `{cidr: 10.0.0.0/24, tags: ["a "]}`, "tags[0]", fmt.Sprintf(badTag, "a ")},
	{"a tag with a line break", `{cidr: 10.0.0.0/24, tags: ["a\nb"]}`, "tags[0]", fmt.Sprintf(badTag, "a\nb")},
	{"a tag that is a mark", `{cidr: 10.0.0.0/24, tags: [Samplecrd-owner-1]}`, "tags[0]", `"Samplecrd-owner-1": must not begin with samplecrd-owner-, which is the ownership mark of imported networks`},
	{"other projects", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: 0123456789abcdef0123456789abcdef}, {projectID: 01234567-89ab-cdef-0123-456789abcdef}]}`, "", ""},
	{"no other project", `{cidr: 10.0.0.0/24, sharedWith: []}`, "", ""},
	{"a project by its name", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: demo}]}`, "sharedWith[0].projectID", fmt.Sprintf(noProject, "demo")},
	{"a project in upper case", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: 0123456789ABCDEF0123456789ABCDEF}]}`, "sharedWith[0].projectID", fmt.Sprintf(noProject, "0123456789ABCDEF0123456789ABCDEF")},
	{"all projects", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: "*"}]}`, "sharedWith[0].projectID", `"*": must be the ID of one project: shared, and not sharedWith, shares the network with all projects`},
	{"a project without an ID", `{cidr: 10.0.0.0/24, sharedWith: [{}]}`, "sharedWith[0].projectID", "Required value"},
	{"a double project", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: 0123456789abcdef0123456789abcdef}, {projectID: 0123456789abcdef0123456789abcdef}]}`, "sharedWith[1]", `Duplicate value: {"projectID":"0123456789abcdef0123456789abcdef"}`},
	{"33 projects", `{cidr: 10.0.0.0/24, sharedWith: [` + manyProjects(33) + `]}`, "sharedWith", "33: must have at most 32 items"},
	{"32 projects", `{cidr: 10.0.0.0/24, sharedWith: [` + manyProjects(32) + `]}`, "", ""},
	{"zones of the router", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, availabilityZoneHints: [nova, "zone 2"]}}`, "", ""},
	{"a double zone", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, availabilityZoneHints: [a, b, a]}}`, "router.availabilityZoneHints[2]", `Duplicate value: "a"`},
	{"a zone with a blank at its end", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, availabilityZoneHints: ["a "]}}`, "router.availabilityZoneHints[0]", badZone},
	{"zones that are too long together", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, availabilityZoneHints: [` + strings.Repeat("a", 124) + ", " + strings.Repeat("b", 124) + `]}}`, "router.availabilityZoneHints", longZones},
	{"no zone of the router", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, availabilityZoneHints: []}}`, "router.availabilityZoneHints", `0: PATH in body should have at least 1 items`},
	{"zones of a router that exists", `{cidr: 10.0.0.0/24, router: {existing: {name: main}, availabilityZoneHints: [nova]}}`, "router.availabilityZoneHints", "must not be set with existing: the zones of a router that exists cannot change"},
	{"routes of the router", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.9}, {destination: "fd00:9::/64", nextHop: "fd00:1::9"}, {destination: 0.0.0.0/0, nextHop: 10.0.0.9}]}}`, "", ""},
	{"two next hops of the router for a destination", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.9}, {destination: 10.99.0.0/16, nextHop: 10.0.0.8}]}}`, "", ""},
	{"no routes of the router", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: []}}`, "", ""},
	{"a double route of the router", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.9}, {destination: 10.99.0.0/16, nextHop: 10.0.0.9}]}}`, "router.routes", "10.99.0.0/16 via 10.0.0.9 must not be in the list twice"},
	{"a route of the router with host bits", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: 10.99.0.1/16, nextHop: 10.0.0.9}]}}`, "router.routes[0].destination", fmt.Sprintf(written, "10.99.0.1/16", "10.99.0.0/16")},
	{"a route of the router that has no next hop", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: 10.99.0.0/16}]}}`, "router.routes[0].nextHop", "Required value"},
	{"a route of the router to the other family", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}, routes: [{destination: "fd00:9::/64", nextHop: 10.0.0.9}]}}`, "router.routes", "fd00:9::/64 via 10.0.0.9 must have a next hop of the same IP family as the destination"},
	{"routes of a router that exists", `{cidr: 10.0.0.0/24, router: {existing: {name: main}, routes: []}}`, "router.routes", "must not be set with existing: the routes of a router that exists stay as they are"},
	{"an MTU that is too small", `{cidr: 10.0.0.0/24, mtu: 67}`, "mtu", "67: PATH in body should be greater than or equal to 68"},
	{"an empty provider", `{cidr: 10.0.0.0/24, provider: {}}`, "provider.networkType", "Required value"},
}

// The same spec is refused as a new Network, and as an edit of one.
func TestAPIServerRefusesInvalidFieldsWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("net", "198.51.100.0/24", "") // the test needs no controller
	for _, tc := range subnetCases {
		t.Run(tc.why, func(t *testing.T) {
			w := w.at(t)
			w.tryFields(tc.spec, "spec."+tc.field, tc.message)
			additional := "{cidr: 203.0.113.0/24, additionalSubnets: [{name: more, " + strings.TrimPrefix(tc.spec, "{") + "]}"
			w.tryFields(additional, "spec.additionalSubnets[0]."+tc.field, tc.message)
		})
	}
	for _, tc := range networkCases {
		t.Run(tc.why, func(t *testing.T) { w.at(t).tryFields(tc.spec, "spec."+tc.field, tc.message) })
	}
}

// They cannot be added to a Network.
func TestAPIServerRefusesInvalidNamesOfCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const names = "{cidr: 10.0.0.0/24, cloudCredentialsRef: {secretName: %s, cloudName: %s}}"
	for _, tc := range []struct{ secret, cloud, field, message string }{
		{"team.cloud-1", "My cloud (2), Zürich", "", ""},
		{"Team_Cloud", "mycloud", "secretName", `"Team_Cloud": must be a valid name of a Secret: letters in lower case, digits, dashes and dots`},
		{"../other/creds", "mycloud", "secretName", `"../other/creds": must be a valid name of a Secret: letters in lower case, digits, dashes and dots`},
		{"team-cloud", `"a\nb"`, "cloudName", "\"a\\nb\": must not have a control character, or a blank at its start or end"},
		{"team-cloud", `"a\e[2J"`, "cloudName", "\"a\\x1b[2J\": must not have a control character, or a blank at its start or end"},
		{"team-cloud", `" a"`, "cloudName", `" a": must not have a control character, or a blank at its start or end`},
	} {
		w.refused(w.dryRun(spec("new", fmt.Sprintf(names, tc.secret, tc.cloud))), "spec.cloudCredentialsRef."+tc.field, tc.message)
	}
}

// tryFields sends the spec as a new Network, and as an edit of the Network net.
func (w *world) tryFields(text, field, message string) {
	w.Helper()
	w.refused(w.dryRun(spec("new", text)), field, message)
	w.refused(w.dryReplace("net", text), field, message)
}

// dryRun sends a manifest to the API server as kubectl does, and returns the error.
func (w *world) dryRun(manifest string) error {
	return w.client.SamplecrdV1().RESTClient().Post().
		Namespace(w.namespace).Resource("networks").
		Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/yaml").
		Body([]byte(manifest)).
		Do(w.Context()).Error()
}

// causesOf returns the causes of a refusal, except the one that only says that the rules were not
// evaluated, because the schema is violated.
func causesOf(err error) []metav1.StatusCause {
	return slices.DeleteFunc(err.(apierrors.APIStatus).Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "some validation rules were not checked")
	})
}

// dryReplace replaces the spec of a Network, which stays as it is, and returns the error.
func (w *world) dryReplace(name, spec string) error {
	w.Helper()
	value, err := yaml.YAMLToJSON([]byte(spec))
	w.must(err)
	_, err = w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec","value":%s}]`, value), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// refused fails unless the error has one cause, with that field and that message. In
// the message, PATH is the field. Without a message it fails unless there is no error.
func (w *world) refused(err error, field, message string) {
	w.Helper()
	if message == "" {
		if err != nil {
			w.Errorf("refused: %v", err)
		}
		return
	}
	if !apierrors.IsInvalid(err) {
		w.Errorf("want it refused as invalid, got %v", err)
		return
	}
	causes := causesOf(err)
	message = strings.ReplaceAll(message, "PATH", field)
	if len(causes) != 1 || causes[0].Field != field || trimKind(causes[0].Message) != message {
		w.Errorf("want one cause, %s: %s; got %+v", field, message, causes)
	}
}

// trimKind returns the message without the kind of the mistake.
func trimKind(message string) string {
	for _, kind := range []string{"Invalid value: ", "Unsupported value: ", "Forbidden: ", "Too many: "} {
		message = strings.TrimPrefix(message, kind)
	}
	return message
}

// What cannot be changed, and what can. Each row makes a Network, and edits it.
func TestAPIServerRefusesEditsWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const (
		segment     = "cannot be removed, and only that of networkType vlan can be added or changed" + recreate
		imported    = "import: {networkID: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11}"
		other       = "import: {networkID: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c12}"
		credentials = "cloudCredentialsRef: {secretName: team-cloud, cloudName: mycloud}"
	)
	for i, tc := range []struct{ why, before, after, field, message string }{
		{"a VLAN changes", `provider: {networkType: vlan, physicalNetwork: p, segmentationID: 1}`, `provider: {networkType: vlan, physicalNetwork: p, segmentationID: 2}`, "", ""},
		{"a VLAN is added", `provider: {networkType: vlan, physicalNetwork: p}`, `provider: {networkType: vlan, physicalNetwork: p, segmentationID: 2}`, "", ""},
		{"a VLAN is removed", `provider: {networkType: vlan, physicalNetwork: p, segmentationID: 1}`, `provider: {networkType: vlan, physicalNetwork: p}`, "provider.segmentationID", segment},
		{"a tunnel changes", `provider: {networkType: vxlan, segmentationID: 1}`, `provider: {networkType: vxlan, segmentationID: 2}`, "provider.segmentationID", segment},
		{"a tunnel is added", `provider: {networkType: vxlan}`, `provider: {networkType: vxlan, segmentationID: 2}`, "provider.segmentationID", segment},
		{"the type changes", `provider: {networkType: vxlan, segmentationID: 1}`, `provider: {networkType: vlan, segmentationID: 2}`, "provider.networkType", "cannot change from vxlan to vlan" + recreate},
		{"the physical network changes", `provider: {networkType: vlan, physicalNetwork: p}`, `provider: {networkType: vlan, physicalNetwork: q}`, "provider.physicalNetwork", fixed},
		{"the physical network is added", `provider: {networkType: vlan}`, `provider: {networkType: vlan, physicalNetwork: p}`, "provider.physicalNetwork", fixed},
		{"the physical network is removed", `provider: {networkType: vlan, physicalNetwork: p}`, `provider: {networkType: vlan}`, "provider.physicalNetwork", fixed},
		{"provider is removed", `provider: {networkType: vlan}`, ``, "provider", "cannot be added or removed" + recreate},
		{"provider is added", ``, `provider: {networkType: vlan}`, "provider", "cannot be added or removed" + recreate},
		{"zones are added", ``, `availabilityZoneHints: [a]`, "availabilityZoneHints", fixed},
		{"zones change", `availabilityZoneHints: [a]`, `availabilityZoneHints: [a, b]`, "availabilityZoneHints", fixed},
		{"zones are removed", `availabilityZoneHints: [a]`, ``, "availabilityZoneHints", fixed},
		{"zones in another order", `availabilityZoneHints: [a, b]`, `availabilityZoneHints: [b, a]`, "", ""},
		{"the zones of the router change", `router: {externalNetwork: {name: public}, availabilityZoneHints: [a]}`, `router: {externalNetwork: {name: public}, availabilityZoneHints: [b]}`, "", ""},
		{"the ID of an import changes", imported, other, "import", fixed},
		{"import is removed", imported, ``, "import", fixed},
		{"import is added", ``, imported, "import", fixed},
		{"the policy of an import changes", imported, imported + ", managementPolicy: Observe", "", ""},
		{"credentials are added", ``, credentials, "cloudCredentialsRef", fixed},
		{"another Secret", credentials, "cloudCredentialsRef: {secretName: other-cloud, cloudName: mycloud}", "cloudCredentialsRef", fixed},
		{"another entry", credentials, "cloudCredentialsRef: {secretName: team-cloud, cloudName: yourcloud}", "cloudCredentialsRef", fixed},
		{"credentials are removed", credentials, ``, "cloudCredentialsRef", fixed},
		{"another field of a Network with credentials", credentials, credentials + ", mtu: 1400", "", ""},
	} {
		t.Run(tc.why, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			w.applyText(spec(name, "{cidr: 10.0.0.0/24, "+tc.before+"}"))
			w.refused(w.dryReplace(name, "{cidr: 10.0.0.0/24, "+tc.after+"}"), "spec."+tc.field, tc.message)
		})
	}
}

// The largest Network that the schema allows stays within the cost limits of the API server
// when its rules are evaluated.
func TestTheLargestSpecIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct {
		family string
		// subnet is the number of the subnet, and number that of an address in it.
		cidr    func(subnet int) string
		address func(subnet, number int) string
		route   func(number int) string
	}{
		{"IPv4", func(i int) string { return fmt.Sprintf("100.100.%d.0/24", 100+i) },
			func(i, n int) string { return fmt.Sprintf("100.100.%d.%d", 100+i, 100+n) },
			func(n int) string { return fmt.Sprintf("200.200.%d.0/24", 200+n) }},
		{"IPv6", func(i int) string { return fmt.Sprintf("fd00:1111:2222:333%d:ffff:ffff:ffff:ffff/64", i) },
			func(i, n int) string { return fmt.Sprintf("fd00:1111:2222:333%d:4444:5555:6666:70%02d", i, n) },
			func(n int) string { return fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:70%02d/128", n) }},
	} {
		t.Run(tc.family, func(t *testing.T) {
			subnet := func(i int) samplecrdv1.SubnetSpec {
				s := samplecrdv1.SubnetSpec{CIDR: tc.cidr(i), Gateway: tc.address(i, 99)}
				for n := range 5 {
					s.DNSNameservers = append(s.DNSNameservers, samplecrdv1.IPAddress(tc.address(i, n)))
				}
				for n := range 10 {
					s.AllocationPools = append(s.AllocationPools, samplecrdv1.AllocationPool{
						Start: samplecrdv1.IPAddress(tc.address(i, 10+2*n)), End: samplecrdv1.IPAddress(tc.address(i, 11+2*n))})
				}
				for n := range 20 {
					s.HostRoutes = append(s.HostRoutes, samplecrdv1.HostRoute{Destination: tc.route(n), NextHop: samplecrdv1.IPAddress(tc.address(i, n))})
				}
				return s
			}
			spec := samplecrdv1.NetworkSpec{
				SubnetSpec: subnet(0),
				Router:     &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: strings.Repeat("n", 255)}},
				DNSDomain:  strings.Repeat("a.", 127),
			}
			for i := range 10 {
				zone := samplecrdv1.AvailabilityZone(fmt.Sprintf("%s%d", strings.Repeat("z", 20), i))
				spec.Router.AvailabilityZoneHints = append(spec.Router.AvailabilityZoneHints, zone)
			}
			for n := range 30 {
				spec.Router.Routes = append(spec.Router.Routes, samplecrdv1.HostRoute{Destination: tc.route(n), NextHop: samplecrdv1.IPAddress(tc.address(0, n))})
			}
			for i := range 8 {
				spec.AdditionalSubnets = append(spec.AdditionalSubnets, samplecrdv1.AdditionalSubnet{
					Name: fmt.Sprintf("%s-%d", strings.Repeat("s", 61), i), SubnetSpec: subnet(1 + i)})
			}
			for n := range 32 {
				spec.SharedWith = append(spec.SharedWith, samplecrdv1.Share{ProjectID: fmt.Sprintf("01234567-89ab-cdef-0123-%012x", n)})
			}
			for n := range 50 {
				spec.Tags = append(spec.Tags, samplecrdv1.Tag(fmt.Sprintf("%s%02d", strings.Repeat("T", 58), n)))
			}
			w := w.at(t)
			text, err := json.Marshal(spec)
			w.must(err)
			w.apply(strings.ToLower(tc.family), "192.0.2.0/24", "")
			w.refused(w.dryReplace(strings.ToLower(tc.family), string(text)), "", "")
		})
	}
}

func TestKubectlShowsWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for text, says := range map[string]string{
		`{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, cidr: "fd00:1::/64", dnsNameservers: [10.0.0.53]}]}`: `The Network "net" is invalid: spec.additionalSubnets[0].dnsNameservers: Invalid value: 10.0.0.53 is not of the same IP family as cidr, fd00:1::/64`,
		`{cdir: 10.0.0.0/24}`: `unknown field "spec.cdir"`,
	} {
		_, err := w.tryKubectl(spec("net", text), "apply", "--dry-run=server", "-f", "-")
		w.contains(fmt.Sprint(err), says)
	}
}

// The rules for new Networks that import a network, and others that an edit breaks together with another one.
func TestAPIServerRefusesInvalidImportsWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const id = "3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11"
	const noID = `%q: must be the ID of a network in Neutron, a UUID in lower case, such as 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11`
	const imported = "{import: {networkID: " + id + "}"
	for _, tc := range []fieldCase{
		{"an empty physical network", `{cidr: 10.0.0.0/24, provider: {networkType: flat, physicalNetwork: ""}}`, "provider.physicalNetwork", `"": PATH in body should be at least 1 chars long`},
		{"zones of the network", `{cidr: 10.0.0.0/24, availabilityZoneHints: [nova, "zone 2"]}`, "", ""},
		{"a zone with a blank at its end", `{cidr: 10.0.0.0/24, availabilityZoneHints: ["a "]}`, "availabilityZoneHints[0]", badZone},
		{"zones that are too long together", `{cidr: 10.0.0.0/24, availabilityZoneHints: [` + strings.Repeat("a", 124) + ", " + strings.Repeat("b", 124) + `]}`, "availabilityZoneHints", longZones},
		{"nothing else", imported + "}", "", ""},
		{"observed", imported + ", managementPolicy: Observe}", "", ""},
		{"a subnet that is there", imported + ", cidr: 10.0.0.0/24, gateway: 10.0.0.9}", "", ""},
		{"only an additional subnet", imported + ", additionalSubnets: [{name: v6, cidr: \"fd00:1::/64\"}], router: {externalNetwork: {name: public}}}", "", ""},
		{"no ID", "{import: {}}", "import.networkID", "Required value"},
		{"a name instead of an ID", "{import: {networkID: team-net}}", "import.networkID", fmt.Sprintf(noID, "team-net")},
		{"an ID in upper case", "{import: {networkID: " + strings.ToUpper(id) + "}}", "import.networkID", fmt.Sprintf(noID, strings.ToUpper(id))},
		{"nothing to observe", "{cidr: 10.0.0.0/24, managementPolicy: Observe}", "managementPolicy", `Observe needs import, which says what to observe`},
		{"a policy that does not exist", imported + ", managementPolicy: Look}", "managementPolicy", `"Look": supported values: "Managed", "Observe"`},
		{"a gateway of no subnet", imported + ", gateway: 10.0.0.9}", "cidr", "Required value: is required if another field of the subnet is set: it says which subnet of the imported network is meant"},
		{"a router for no subnet", imported + ", router: {externalNetwork: {name: public}}}", "router", "needs a subnet: cidr, subnetPool or additionalSubnets"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			w := w.at(t)
			w.refused(w.dryRun(spec("new", tc.spec)), "spec."+tc.field, tc.message)
		})
	}
}
