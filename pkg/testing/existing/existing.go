// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package existing makes networks as people have them in Neutron, with the oddest that Neutron
// accepts, and some that it does not.
package existing

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/google/uuid"
	"go4.org/netipx"
	"k8s.io/utils/ptr"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The values that the random ones are chosen from. The first ones are the usual ones.
var (
	texts = []string{"", "web", "Web Network", "default/web", "team.example.org", "Büro-Netz", "網路", "-", "a--b", "web", "null", "1.5", "true",
		"\x1b[31mred", "two\nlines", "# comment", "---", "'\"\\", "\xff\xfe", "\u202eabc", "x\u0085y", string(make([]rune, 300)),
		"samplecrd.k8s.io/owner=cluster/uid", "0123456789012345678901234567890123456789012345678901234567890123456789"}
	domains = []string{"", "", "team.example.org.", "Team.Example.Org.", "example", "10.", "a_b.", "x..", "\x00."}
	tags    = []string{"production", "team-a", "Team-A", "with blank", " blank first", "comma,comma", "", "true", "null", "~", "1:30", "bell\a", "x\u0080", "ü",
		"Samplecrd-Owner-x", "0123456789012345678901234567890123456789012345678901234567890123456789"}
	cidrs = []string{"10.0.0.0/24", "10.0.1.0/24", "192.168.0.0/16", "10.0.0.0/8", "0.0.0.0/0", "10.9.9.9/32", "10.8.8.8/31", "10.7.7.4/30", "224.0.0.0/4",
		"fd00:1::/64", "fd00:2::/80", "fd00:3::1/128", "fd00:4::/127", "::/0", "2001:db8::/32", "fe80::/10", "::ffff:10.0.0.0/120", ""}
	addresses = []string{"", "10.0.0.1", "10.0.0.254", "10.0.0.0", "10.0.0.255", "10.0.1.1", "192.168.0.1", "192.168.255.255", "10.9.9.9", "10.8.8.8", "10.8.8.9",
		"fd00:1::", "fd00:1::1", "fd00:2::1", "fe80::1", "fe80::1%eth0", "::", "::1", "::ffff:10.0.0.1", "0.0.0.0", "255.255.255.255"}
	modes = []string{"", "", "slaac", "dhcpv6-stateful", "dhcpv6-stateless", "unknown"}
)

type source struct{ *rand.Rand }

func (s source) one(of []string) string { return of[s.IntN(len(of))] }

// some returns up to n values.
func (s source) some(n int, of []string) (values []string) {
	if s.IntN(3) == 0 {
		n *= 3
	}
	for range s.IntN(n + 1) {
		values = append(values, s.one(of))
	}
	return values
}

func (s source) rarely() bool { return s.IntN(6) == 0 }

func (s source) id() string {
	if s.IntN(40) == 0 {
		return s.one([]string{"not-a-uuid", "ABCDEF01-2345-6789-ABCD-EF0123456789", "a.b_c"})
	}
	var id uuid.UUID
	for i := range id {
		id[i] = byte(s.Uint32())
	}
	return id.String()
}

// Networks returns n random networks.
func Networks(r *rand.Rand, n int) []*neutron.NetworkDetails {
	s := source{r}
	networks := make([]*neutron.NetworkDetails, n)
	for i := range networks {
		networks[i] = s.network()
	}
	return networks
}

func (s source) network() *neutron.NetworkDetails {
	n := &neutron.NetworkDetails{
		Network: &neutron.Network{
			ID: s.id(), Name: s.one(texts), Description: s.one(texts), DNSDomain: s.one(domains), MTU: []int{1450, 1500, 9000, 0, 67, 68, 65536}[s.IntN(7)],
			PortSecurityEnabled: !s.rarely(), Shared: s.rarely(), External: s.rarely(), Tags: neutron.NewTags(s.some(4, tags[:2+s.IntN(len(tags)-1)])...),
			ZoneHints: neutron.NewTags(s.some(1, texts)...),
		},
		Project: s.one([]string{"", "project-1", "project-2"}), SubnetDetails: map[string]neutron.SubnetDetails{},
	}
	for _, project := range []string{"project-1", "a0000000000000000000000000000001", "b0000000-0000-0000-0000-000000000002", "x\ny"} {
		if s.rarely() {
			n.Shares = append(n.Shares, neutron.Share{ID: s.id(), NetworkID: n.ID, ProjectID: project})
		}
	}
	if s.rarely() {
		n.NetworkType, n.PhysicalNetwork, n.SegmentationID = "vlan", s.one(texts), s.IntN(5000)
		n.Segments, n.QoSPolicy, n.AdminDown, n.VLANTransparent = neutron.Length(s.IntN(3)), s.one(texts), true, ptr.To(true)
	}
	if !s.rarely() {
		n.PortSecurity = &n.PortSecurityEnabled
	}
	for range s.IntN(4) * s.IntN(5) {
		subnet := s.subnet()
		n.Subnets = append(n.Subnets, subnet)
		n.SubnetDetails[subnet.ID] = neutron.SubnetDetails{ID: subnet.ID, Pool: s.one(texts), Segment: s.one(texts), ServiceTypes: s.some(2, texts), PublishesDNS: s.rarely()}
		for range s.IntN(3) {
			n.Interfaces = append(n.Interfaces, neutron.Interface{RouterID: s.one([]string{"r1", "r2"}), SubnetID: s.one([]string{subnet.ID, "unknown"})})
		}
	}
	n.Routers = []neutron.Router{{ID: "r1", Name: s.one(texts)}}
	n.SubnetCount = neutron.Length(len(n.Subnets) + s.IntN(2))
	return n
}

func (s source) subnet() neutron.Subnet {
	cidr, _ := netip.ParsePrefix(s.one(cidrs))
	if s.IntN(2) == 0 { // one that overlaps with few others
		cidr = netip.MustParsePrefix(fmt.Sprintf("172.16.%d.0/%d", s.IntN(256), 24+s.IntN(9))).Masked()
	}
	subnet := neutron.Subnet{
		ID: s.id(), Name: s.one(texts), Description: s.one(texts), CIDR: cidr, Gateway: s.addressIn(cidr), DHCP: !s.rarely(), AddressMode: s.one(modes), RAMode: s.one(modes),
	}
	subnet.DNSNameservers = neutron.NewAddresses(s.some(3, addresses)...)
	var ranges []netipx.IPRange
	for range len(s.some(3, texts)) {
		ranges = append(ranges, netipx.IPRangeFrom(s.addressIn(cidr), s.addressIn(cidr)))
	}
	subnet.Pools = neutron.NewPools(ranges...)
	var routes string
	for i := range s.IntN(4) * s.IntN(9) {
		if i > 0 {
			routes += ", "
		}
		routes += fmt.Sprintf("%s via %s", s.one([]string{"0.0.0.0/0", fmt.Sprintf("10.99.%d.0/24", i), "fd00:9::/64", "::/0", "::ffff:1.2.3.0/120", "10.1.1.1/8"}), s.addressIn(cidr))
	}
	subnet.Routes = neutron.Routes(routes)
	return subnet
}

// addressIn returns an address that is probably in the CIDR.
func (s source) addressIn(cidr netip.Prefix) netip.Addr {
	if !cidr.IsValid() || s.rarely() {
		a, _ := netip.ParseAddr(s.one(addresses))
		return a
	}
	a := cidr.Masked().Addr()
	if s.rarely() {
		return netipx.PrefixLastIP(cidr)
	}
	for range s.IntN(20) {
		a = a.Next()
	}
	return a
}
