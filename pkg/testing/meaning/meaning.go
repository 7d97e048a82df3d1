// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meaning says what the spec of a Network means in Neutron, and describes what Neutron has in the same form. It
// is written without the code of the controller, so that tests can compare the two.
package meaning

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"go4.org/netipx"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Network has the fields of a network in Neutron that specs declare.
type Network struct {
	Tags         []string
	ZoneHints    []string `json:"availability_zone_hints"`
	MTU          int
	DNSDomain    string `json:"dns_domain"`
	PortSecurity bool   `json:"port_security_enabled"`
}

// SubnetsOf returns all subnets of the spec. The first one has no name.
func SubnetsOf(spec *samplecrdv1.NetworkSpec) []samplecrdv1.AdditionalSubnet {
	return append([]samplecrdv1.AdditionalSubnet{{SubnetSpec: spec.SubnetSpec}}, spec.AdditionalSubnets...)
}

// CIDRAndGateway returns the CIDR and the gateway that the spec leads to, None if there is no gateway. The embedded
// Neutron chooses the first address of an IPv6 subnet as its gateway.
func CIDRAndGateway(spec *samplecrdv1.SubnetSpec) (cidr, gateway string) {
	prefix := netip.MustParsePrefix(spec.CIDR).Masked()
	first := prefix.Addr()
	if first.Is4() {
		first = first.Next()
	}
	gateway = cmp.Or(spec.Gateway, first.String())
	if address, err := netip.ParseAddr(gateway); err == nil {
		gateway = address.String() // in lower case
	}
	return prefix.String(), gateway
}

// AnyCIDR returns a CIDR of that length that stands for one that Neutron chooses.
func AnyCIDR(isIPv6 bool, length int) string {
	if isIPv6 || length > 32 {
		return fmt.Sprintf("::/%d", length)
	}
	return fmt.Sprintf("0.0.0.0/%d", length)
}

// Choose declares the CIDR that Neutron has chosen from the subnet pool of the spec, and its default for the gateway. With a pool, that
// is the second address of an IPv6 subnet.
func Choose(s *samplecrdv1.SubnetSpec, cidr string) {
	s.SubnetPool, s.CIDR = nil, cidr
	if s.Gateway == "" {
		s.Gateway = netip.MustParsePrefix(cidr).Addr().Next().String()
	}
}

// ObservedSubnet describes a subnet in Neutron. A field is left out if it has Neutron's default.
func ObservedSubnet(s *subnets.Subnet) string {
	var pools, routes []string
	for _, p := range s.AllocationPools {
		pools = append(pools, p.Start+"-"+p.End)
	}
	for _, r := range s.HostRoutes {
		routes = append(routes, r.DestinationCIDR+" to "+r.NextHop)
	}
	gateway := cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone)
	return describeSubnet(s.CIDR, gateway, s.DNSNameservers, pools, routes, s.EnableDHCP, s.IPv6AddressMode, s.IPv6RAMode)
}

// WantedSubnet describes the subnet that a spec leads to.
func WantedSubnet(s *samplecrdv1.SubnetSpec) string {
	var dns, pools, routes []string
	for _, d := range s.DNSNameservers {
		dns = append(dns, string(d))
	}
	for _, p := range s.AllocationPools {
		pools = append(pools, string(p.Start+"-"+p.End))
	}
	for _, r := range s.HostRoutes {
		routes = append(routes, r.Destination+" to "+string(r.NextHop))
	}
	ipv6 := ptr.Deref(s.IPv6, samplecrdv1.IPv6Spec{})
	cidr, gateway := CIDRAndGateway(s)
	return describeSubnet(cidr, gateway, dns, pools, routes, ptr.Deref(s.EnableDHCP, true), string(ipv6.AddressMode), string(ipv6.RAMode))
}

func describeSubnet(cidr, gateway string, dns, pools, routes []string, dhcp bool, addressMode, raMode string) string {
	text := " " + cidr + " " + gateway
	add := func(name string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			text += " " + name + " " + strings.Join(values, ", ")
		}
	}
	slices.Sort(pools)
	slices.Sort(routes)
	add("DNS", dns...)
	if !slices.Equal(pools, defaultPools(cidr, gateway)) {
		add("pools", pools...)
	}
	add("routes", routes...)
	if !dhcp {
		add("without", "DHCP")
	}
	add("address mode", addressMode)
	add("RA mode", raMode)
	return text
}

// defaultPools returns the pools that Neutron creates: all addresses of the CIDR except the first
// one, the gateway, and the last one of IPv4.
func defaultPools(cidr, gateway string) (pools []string) {
	prefix := netip.MustParsePrefix(cidr)
	var set netipx.IPSetBuilder
	set.AddPrefix(prefix)
	set.Remove(prefix.Addr())
	if prefix.Addr().Is4() {
		set.Remove(netipx.PrefixLastIP(prefix))
	}
	if address, err := netip.ParseAddr(gateway); err == nil {
		set.Remove(address)
	}
	all, _ := set.IPSet()
	for _, r := range all.Ranges() {
		pools = append(pools, r.String())
	}
	slices.Sort(pools)
	return pools
}

// ObservedNetwork describes the fields of a network in Neutron.
func ObservedNetwork(n Network) string {
	return describeFields(n.Tags, Zones(n.ZoneHints), n.MTU, n.DNSDomain, n.PortSecurity)
}

// WantedNetwork describes the fields of the network that a spec leads to. What it leaves to the cloud is
// as observed.
func WantedNetwork(s *samplecrdv1.NetworkSpec, observed Network) string {
	tags := observed.Tags
	if s.Tags != nil {
		tags = nil
		for _, tag := range s.Tags {
			tags = append(tags, string(tag))
		}
	}
	zones := Zones(s.AvailabilityZoneHints)
	if zones == "" {
		zones = Zones(observed.ZoneHints)
	}
	return describeFields(tags, zones, int(ptr.Deref(s.MTU, int32(observed.MTU))), s.DNSDomain, ptr.Deref(s.PortSecurityEnabled, observed.PortSecurity))
}

// Zones describes availability zones; "" for none.
func Zones[T ~string](zones []T) (text string) {
	for _, zone := range slices.Sorted(slices.Values(zones)) {
		text += " in " + string(zone)
	}
	return text
}

// Route is a route of a router in Neutron.
type Route struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

func (r Route) String() string { return r.Destination + " via " + r.NextHop }

// WantedRoutes returns the routes that a router of the Network's own must have: as observed if the spec declares none.
func WantedRoutes(spec *samplecrdv1.RouterSpec, observed []Route) []Route {
	if spec == nil || spec.Routes == nil {
		return observed
	}
	var wanted []Route
	for _, r := range spec.Routes {
		wanted = append(wanted, Route{r.Destination, string(r.NextHop)})
	}
	return wanted
}

// Routes describes the routes of a router; "" for none.
func Routes(routes []Route) (text string) {
	for _, route := range Sorted(routes) {
		text += " to " + route
	}
	return text
}

// Sorted returns the texts of the routes, in order.
func Sorted(routes []Route) (texts []string) {
	for _, r := range routes {
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	return texts
}

// defaultMTU is that of the embedded Neutron.
const defaultMTU = 1450

func describeFields(tags []string, zones string, mtu int, domain string, portSecurity bool) (text string) {
	text = zones
	if len(tags) > 0 {
		tags = slices.Sorted(slices.Values(tags))
		text += " tags " + strings.Join(tags, ", ")
	}
	if mtu != defaultMTU {
		text += fmt.Sprintf(" MTU %d", mtu)
	}
	if domain != "" {
		text += " domain " + domain
	}
	if !portSecurity {
		text += " without port security"
	}
	return text
}
