// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// setSubnets declares the subnets: an IPv4 subnet without a mark as the first one, if there is any.
func (m *Manifest) setSubnets(n *neutron.NetworkDetails) {
	subnets := m.subnets(n)
	var names, ids []string
	for i, s := range subnets {
		if owner, marked := neutron.OwnerOf(s.Description); marked {
			m.comment("subnet %s: carries the mark of the Network with the UID %s in the cluster %s", s.CIDR, owner.UID, owner.Cluster)
		}
		if i > 0 {
			names, ids = append(names, label(strings.TrimPrefix(s.Name, n.Name+"/"))), append(ids, s.ID)
		}
	}
	names = unique(names, ids, "subnet")
	for i, s := range subnets {
		switch spec := m.subnet(s); {
		case i == 0:
			m.Network.Spec.SubnetSpec = spec
		case i <= maxAdditionalSubnets:
			m.Network.Spec.AdditionalSubnets = append(m.Network.Spec.AdditionalSubnets, samplecrdv1.AdditionalSubnet{Name: names[i-1], SubnetSpec: spec})
		}
		m.commentOnSubnet(s, n.SubnetDetails[s.ID])
	}
	if len(subnets) > maxAdditionalSubnets+1 {
		for _, s := range subnets[maxAdditionalSubnets+1:] {
			m.comment("subnet %s: the API accepts at most %d additional subnets", s.CIDR, maxAdditionalSubnets)
		}
	}
	if hidden := int(n.SubnetCount) - len(n.Subnets); hidden > 0 {
		m.comment("subnets: the credentials do not see %d of %d", hidden, n.SubnetCount)
	}
}

// subnets returns the subnets that can be declared, in order, and comments on the others.
func (m *Manifest) subnets(n *neutron.NetworkDetails) (subnets []*neutron.Subnet) {
	for i := range n.Subnets {
		s := &n.Subnets[i]
		overlapped := slices.IndexFunc(subnets, func(o *neutron.Subnet) bool { return o.CIDR.Overlaps(s.CIDR) })
		switch {
		case !s.CIDR.IsValid() || s.CIDR.Addr().Is4In6():
			m.comment("subnet %s: the API does not accept its CIDR", s.ID)
		case overlapped >= 0:
			m.comment("subnet %s (%s): it overlaps with %s", s.CIDR, s.ID, subnets[overlapped].CIDR)
		default:
			subnets = append(subnets, s)
		}
	}
	slices.SortFunc(subnets, func(a, b *neutron.Subnet) int { return a.CIDR.Masked().Compare(b.CIDR.Masked()) })
	first := max(0, slices.IndexFunc(subnets, func(s *neutron.Subnet) bool {
		_, marked := neutron.OwnerOf(s.Description)
		return s.CIDR.Addr().Is4() && !marked
	}))
	if len(subnets) > 0 {
		chosen := subnets[first]
		subnets = slices.Insert(slices.Delete(subnets, first, first+1), 0, chosen)
	}
	return subnets
}

// subnet returns what the Network declares of a subnet. A field that the API would refuse is left
// out, with a comment.
func (m *Manifest) subnet(s *neutron.Subnet) samplecrdv1.SubnetSpec {
	spec := samplecrdv1.SubnetSpec{CIDR: s.CIDR.Masked().String()}
	leftOut := func(field, value, fault string) { m.comment("subnet %s: %s: %s; %s", s.CIDR, field, value, fault) }
	switch fault := faultOfGateway(s); {
	case !s.Gateway.IsValid():
		spec.Gateway = samplecrdv1.GatewayNone
	case fault != "":
		leftOut("gateway_ip", s.Gateway.String(), fault)
	default:
		spec.Gateway = s.Gateway.String()
	}
	if servers := s.DNSNameservers.All(); faultOfServers(s, servers) == "" {
		for _, server := range servers {
			spec.DNSNameservers = append(spec.DNSNameservers, samplecrdv1.IPAddress(server))
		}
	} else {
		leftOut("dns_nameservers", string(s.DNSNameservers), faultOfServers(s, servers))
	}
	if !s.HasDefaultPools() || spec.Gateway == "" {
		pools, fault := poolsOf(s, spec.Gateway == "")
		if fault != "" {
			leftOut("allocation_pools", "["+string(s.Pools)+"]", fault)
		}
		spec.AllocationPools = pools
	}
	routes, fault := routesOf(s)
	if fault != "" {
		leftOut("host_routes", string(s.Routes), fault)
	}
	spec.HostRoutes = routes
	if !s.DHCP {
		spec.EnableDHCP = ptr.To(false)
	}
	switch fault := faultOfModes(s); {
	case s.AddressMode == "" && s.RAMode == "":
	case fault != "":
		leftOut("ipv6_address_mode, ipv6_ra_mode", fmt.Sprintf("%q, %q", s.AddressMode, s.RAMode), fault)
	default:
		spec.IPv6 = &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6Mode(s.AddressMode), RAMode: samplecrdv1.IPv6Mode(s.RAMode)}
	}
	return spec
}

// isPlain reports whether the API accepts the address in that family.
func isPlain(a netip.Addr, family netip.Prefix) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && a.Is4() == family.Addr().Is4()
}

// isEnd reports whether the address is the first or the last one of an IPv4 subnet, which no host
// can have.
func isEnd(cidr netip.Prefix, a netip.Addr) bool {
	r := netipx.RangeOfPrefix(cidr)
	return cidr.Addr().Is4() && cidr.Bits() <= 30 && (a == r.From() || a == r.To())
}

func faultOfGateway(s *neutron.Subnet) string {
	switch {
	case !isPlain(s.Gateway, s.CIDR) || !s.CIDR.Contains(s.Gateway):
		return "the API accepts only an address inside the CIDR"
	case isEnd(s.CIDR, s.Gateway):
		return "the API accepts neither the first nor the last address of the CIDR"
	}
	return ""
}

func faultOfServers(s *neutron.Subnet, servers []string) string {
	if len(servers) > maxDNSNameservers {
		return fmt.Sprintf("the API accepts at most %d", maxDNSNameservers)
	}
	for i, server := range servers {
		a, err := netip.ParseAddr(server)
		switch {
		case err != nil || !isPlain(a, s.CIDR):
			return "the API accepts only addresses of the IP family of the CIDR"
		case slices.Contains(servers[:i], server):
			return "the API accepts no address twice"
		}
	}
	return ""
}

// poolsOf returns the allocation pools, or why the API refuses them. If the gateway is not declared, the API
// assumes that it is the first address of the CIDR.
func poolsOf(s *neutron.Subnet, isGatewayUndeclared bool) (pools []samplecrdv1.AllocationPool, fault string) {
	texts := s.Pools.All()
	switch {
	case len(texts) == 0:
		return nil, "the API cannot declare that there are none"
	case len(texts) > maxPools:
		return nil, fmt.Sprintf("the API accepts at most %d", maxPools)
	}
	gateway := s.Gateway
	if first := s.CIDR.Masked().Addr(); isGatewayUndeclared && first.Is4() {
		gateway = first.Next()
	} else if isGatewayUndeclared {
		gateway = first
	}
	var ranges []netipx.IPRange
	for _, text := range texts {
		r, err := netipx.ParseIPRange(text)
		switch {
		case err != nil || !isPlain(r.From(), s.CIDR) || !s.CIDR.Contains(r.From()) || !s.CIDR.Contains(r.To()):
			return nil, "the API accepts only ranges inside the CIDR"
		case isEnd(s.CIDR, r.From()) || isEnd(s.CIDR, r.To()):
			return nil, "the API accepts neither the first nor the last address of the CIDR"
		case r.Contains(gateway):
			return nil, "the API accepts no range with the gateway in it"
		case slices.ContainsFunc(ranges, r.Overlaps):
			return nil, "the API accepts no ranges that overlap"
		}
		ranges = append(ranges, r)
		pools = append(pools, samplecrdv1.AllocationPool{Start: samplecrdv1.IPAddress(r.From().String()), End: samplecrdv1.IPAddress(r.To().String())})
	}
	return pools, ""
}

// routesOf returns the host routes, or why the API refuses them.
func routesOf(s *neutron.Subnet) (routes []samplecrdv1.HostRoute, fault string) {
	all := s.Routes.All()
	if len(all) > maxRoutes {
		return nil, fmt.Sprintf("the API accepts at most %d", maxRoutes)
	}
	for _, route := range all {
		destination, err := netip.ParsePrefix(route.Destination)
		nextHop, hopErr := netip.ParseAddr(route.NextHop)
		if err != nil || hopErr != nil || !isPlain(destination.Addr(), s.CIDR) || !isPlain(nextHop, s.CIDR) {
			return nil, "the API accepts only addresses of the IP family of the CIDR"
		}
		r := samplecrdv1.HostRoute{Destination: destination.Masked().String(), NextHop: samplecrdv1.IPAddress(nextHop.String())}
		if !slices.Contains(routes, r) {
			routes = append(routes, r)
		}
	}
	return routes, ""
}

func faultOfModes(s *neutron.Subnet) string {
	for _, mode := range []string{s.AddressMode, s.RAMode} {
		switch samplecrdv1.IPv6Mode(mode) {
		case "", samplecrdv1.IPv6ModeSLAAC, samplecrdv1.IPv6ModeDHCPv6Stateful, samplecrdv1.IPv6ModeDHCPv6Stateless:
		default:
			return "the API does not know this mode"
		}
	}
	switch {
	case s.AddressMode != "" && s.RAMode != "" && s.AddressMode != s.RAMode:
		return "the API accepts two modes only if they are the same"
	case s.CIDR.Addr().Is4() || s.CIDR.Bits() != 64:
		return "the API accepts modes only for an IPv6 CIDR with the prefix length 64"
	case !s.DHCP:
		return "the API accepts modes only with DHCP"
	}
	return ""
}

// commentOnSubnet comments on attributes that no Network can declare.
func (m *Manifest) commentOnSubnet(s *neutron.Subnet, d neutron.SubnetDetails) {
	if _, marked := neutron.OwnerOf(s.Description); s.Description != "" && !marked {
		m.comment("subnet %s: description: %q", s.CIDR, s.Description)
	}
	if s.Name != "" {
		m.comment("subnet %s: name: %q", s.CIDR, s.Name)
	}
	if d.Pool != "" {
		m.comment("subnet %s: subnetpool_id: %s", s.CIDR, d.Pool)
	}
	if d.Segment != "" {
		m.comment("subnet %s: segment_id: %s", s.CIDR, d.Segment)
	}
	if len(d.ServiceTypes) > 0 {
		m.comment("subnet %s: service_types: %q", s.CIDR, d.ServiceTypes)
	}
	if d.PublishesDNS {
		m.comment("subnet %s: dns_publish_fixed_ip: true", s.CIDR)
	}
}
