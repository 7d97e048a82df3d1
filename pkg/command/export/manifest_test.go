// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/existing"
)

const id = "3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11"

// network returns a network with one subnet as Neutron makes them by default.
func network(change func(n *neutron.NetworkDetails, s *neutron.Subnet)) *neutron.NetworkDetails {
	n := &neutron.NetworkDetails{
		Network: &neutron.Network{ID: id, Name: "web", MTU: 1450, PortSecurityEnabled: true},
		Project: "mine", PortSecurity: ptr.To(true),
	}
	s := newSubnet("s1", "10.0.0.0/24", "10.0.0.1", "10.0.0.2-10.0.0.254")
	if change != nil {
		change(n, &s)
	}
	if s.ID != "" {
		n.Subnets = append([]neutron.Subnet{s}, n.Subnets...)
	}
	n.SubnetCount = max(n.SubnetCount, neutron.Length(len(n.Subnets)))
	return n
}

func newSubnet(id, cidr, gateway string, pools neutron.Pools) neutron.Subnet {
	s := neutron.Subnet{ID: id, CIDR: netip.MustParsePrefix(cidr), Pools: pools, DHCP: true}
	if gateway != "" {
		s.Gateway = netip.MustParseAddr(gateway)
	}
	return s
}

// head is what each manifest of the network begins with, below the comments.
const head = `apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata:
  name: web
  namespace: team
spec:
  import:
    networkID: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11
  managementPolicy: Observe
  deletionPolicy: Retain
`

func TestManifest(t *testing.T) {
	const usual = "  cidr: 10.0.0.0/24\n  gateway: 10.0.0.1\n"
	const mtu = "  mtu: 1450\n"
	tests := []struct {
		name     string
		change   func(n *neutron.NetworkDetails, s *neutron.Subnet)
		spec     string
		comments string // one in each line
	}{
		{"a usual network has no comments", nil, usual + mtu, ""},
		{"no subnet", func(_ *neutron.NetworkDetails, s *neutron.Subnet) { s.ID = "" }, mtu, ""},
		{"all fields of a network", func(n *neutron.NetworkDetails, _ *neutron.Subnet) {
			n.PortSecurity, n.DNSDomain, n.Shared, n.Tags = ptr.To(false), "example.org.", true, neutron.NewTags("b", "a")
			n.ZoneHints = neutron.NewTags("nova", "az2")
			n.Shares = []neutron.Share{{ProjectID: "0123456789abcdef0123456789abcdef"}}
		}, usual + mtu + "  portSecurityEnabled: false\n  dnsDomain: example.org.\n  tags:\n  - a\n  - b\n  shared: true\n  sharedWith:\n  - projectID: 0123456789abcdef0123456789abcdef\n  availabilityZoneHints:\n  - az2\n  - nova\n", ""},
		{"a cloud without port security and MTU", func(n *neutron.NetworkDetails, _ *neutron.Subnet) {
			n.PortSecurity, n.PortSecurityEnabled, n.MTU = nil, false, 0
		}, usual, ""},
		{"all fields of a subnet", func(_ *neutron.NetworkDetails, s *neutron.Subnet) {
			s.Gateway, s.DHCP, s.Pools = netip.Addr{}, false, "10.0.0.10-10.0.0.20"
			s.DNSNameservers, s.Routes = "192.0.2.54, 192.0.2.53", "10.99.0.0/16 via 10.0.0.254"
		}, `  cidr: 10.0.0.0/24
  gateway: None
  dnsNameservers:
  - 192.0.2.54
  - 192.0.2.53
  allocationPools:
  - start: 10.0.0.10
    end: 10.0.0.20
  hostRoutes:
  - destination: 10.99.0.0/16
    nextHop: 10.0.0.254
  enableDHCP: false
` + mtu, ""},
		{"the first IPv4 subnet without a mark comes first", func(n *neutron.NetworkDetails, s *neutron.Subnet) {
			s.Description = "samplecrd.k8s.io/owner=c/u"
			six := newSubnet("s2", "fd00:1::/64", "fd00:1::", "fd00:1::1-fd00:1::ffff:ffff:ffff:ffff")
			six.Name, six.AddressMode, six.RAMode = "V6 half", "slaac", "slaac"
			n.Subnets = []neutron.Subnet{six, newSubnet("s3", "10.0.1.0/24", "10.0.1.1", "10.0.1.2-10.0.1.254")}
		}, `  cidr: 10.0.1.0/24
  gateway: 10.0.1.1
  additionalSubnets:
  - name: subnet-s1
    cidr: 10.0.0.0/24
    gateway: 10.0.0.1
  - name: v6-half
    cidr: fd00:1::/64
    gateway: 'fd00:1::'
    ipv6:
      addressMode: slaac
      raMode: slaac
` + mtu, "subnet 10.0.0.0/24: carries the mark of the Network with the UID u in the cluster c\nsubnet fd00:1::/64: name: \"V6 half\""},
		{"what the API has no field for", func(n *neutron.NetworkDetails, s *neutron.Subnet) {
			n.Description, n.AdminDown, n.QoSPolicy, n.VLANTransparent = "by\nops", true, "gold", ptr.To(true)
			n.NetworkType, n.PhysicalNetwork, n.SegmentationID, n.Segments = "vlan", "physnet1", 7, 2
			s.Description, s.Name = "for web", "web-v4"
			n.SubnetDetails = map[string]neutron.SubnetDetails{"s1": {Pool: "pool", Segment: "segment", ServiceTypes: []string{"compute:nova"}, PublishesDNS: true}}
			n.SubnetCount = 3
		}, usual + mtu, `subnet 10.0.0.0/24: description: "for web"
subnet 10.0.0.0/24: name: "web-v4"
subnet 10.0.0.0/24: subnetpool_id: pool
subnet 10.0.0.0/24: segment_id: segment
subnet 10.0.0.0/24: service_types: ["compute:nova"]
subnet 10.0.0.0/24: dns_publish_fixed_ip: true
subnets: the credentials do not see 2 of 3
description: "by\nops"
admin_state_up: false; the network forwards no packets
qos_policy_id: gold
vlan_transparent: true
provider: networkType "vlan", physicalNetwork "physnet1", segmentationID 7
segments: there are 2`},
		{"a router", func(n *neutron.NetworkDetails, _ *neutron.Subnet) {
			n.Interfaces = []neutron.Interface{{RouterID: "r1", SubnetID: "s1"}, {RouterID: "r2", SubnetID: "s1"}}
			n.Routers = []neutron.Router{{ID: "r1", Name: "edge", Routes: "10.9.0.0/16 via 10.0.0.7"}}
		}, usual + mtu, `router: edge (r1) is attached to 10.0.0.0/24; to declare it, add to the spec: router: {existing: {id: "r1"}}
routes of router edge (r1): 10.9.0.0/16 via 10.0.0.7; only those of a router that a Network creates can be declared
router: r2 is attached to 10.0.0.0/24; to declare it, add to the spec: router: {existing: {id: "r2"}}`},
		{"what the API refuses of a network", func(n *neutron.NetworkDetails, _ *neutron.Subnet) {
			n.MTU, n.DNSDomain, n.Tags = 67, "Example.Org.", neutron.NewTags("a,b", "c")
			n.ZoneHints = neutron.NewTags(" a", "b")
			n.Shares = []neutron.Share{{ProjectID: "all of them"}}
		}, usual, `mtu: 67; the API accepts 68 to 65535
dns_domain: "Example.Org."; the API accepts only a domain name in lower case with a dot at its end
availability_zone_hints: [" a" "b"]; the API accepts at most 10, of 255 characters together, and no blank or control character at the start or end of one
tags: ["a,b" "c"]; the API accepts no empty tag, and no comma, control character, or blank at the start or end of one
shared with project "all of them"; the API accepts at most 32 other projects, and only IDs of 32 hexadecimal digits or UUIDs, in lower case`},
		{"what the API refuses of a subnet", func(_ *neutron.NetworkDetails, s *neutron.Subnet) {
			s.Gateway = netip.MustParseAddr("10.1.0.1")
			s.Pools = "10.0.0.1-10.0.0.254"
			s.DNSNameservers, s.Routes = "fd00::53", "fd00::/64 via 10.0.0.2"
			s.AddressMode = "slaac"
		}, "  cidr: 10.0.0.0/24\n" + mtu, `subnet 10.0.0.0/24: gateway_ip: 10.1.0.1; the API accepts only an address inside the CIDR
subnet 10.0.0.0/24: dns_nameservers: fd00::53; the API accepts only addresses of the IP family of the CIDR
subnet 10.0.0.0/24: allocation_pools: [10.0.0.1-10.0.0.254]; the API accepts no range with the gateway in it
subnet 10.0.0.0/24: host_routes: fd00::/64 via 10.0.0.2; the API accepts only addresses of the IP family of the CIDR
subnet 10.0.0.0/24: ipv6_address_mode, ipv6_ra_mode: "slaac", ""; the API accepts modes only for an IPv6 CIDR with the prefix length 64`},
		{"no pools, and six DNS servers", func(_ *neutron.NetworkDetails, s *neutron.Subnet) {
			s.Pools, s.DNSNameservers = "", "10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7, 10.0.0.8"
		}, usual + mtu, `subnet 10.0.0.0/24: dns_nameservers: 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7, 10.0.0.8; the API accepts at most 5
subnet 10.0.0.0/24: allocation_pools: []; the API cannot declare that there are none`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := Manifests([]*neutron.NetworkDetails{network(tt.change)}, Options{Namespace: "team", Project: "mine"})[0]
			want := "# In Neutron: network web (" + id + ")\n"
			if tt.comments != "" {
				want += "# " + intro + "\n#   " + strings.ReplaceAll(tt.comments, "\n", "\n#   ") + "\n"
			}
			want += head + tt.spec
			// %q writes the line feed of a description as two characters.
			want = strings.Replace(want, "by\n#   ops", `by\nops`, 1)
			got, err := m.YAML()
			if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestASubnetTooMany(t *testing.T) {
	n := network(func(n *neutron.NetworkDetails, s *neutron.Subnet) {
		s.ID = ""
		for i := range byte(maxAdditionalSubnets + 3) {
			n.Subnets = append(n.Subnets, neutron.Subnet{ID: "s", CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, i, 0}), 24), Pools: "10.0.0.0-10.0.0.0", DHCP: true})
		}
	})
	m := Manifests([]*neutron.NetworkDetails{n}, Options{Namespace: "team"})[0]
	if got := len(m.Network.Spec.AdditionalSubnets); got != maxAdditionalSubnets {
		t.Errorf("%d additional subnets", got)
	}
	for _, want := range []string{"subnet 10.0.9.0/24: the API accepts at most 8 additional subnets", "subnet 10.0.10.0/24: the API accepts at most 8 additional subnets"} {
		if !slices.Contains(m.Comments, want) {
			t.Errorf("%q is not in %q", want, m.Comments)
		}
	}
}

func TestANetworkThatCannotBeImportedIsAComment(t *testing.T) {
	n := network(func(n *neutron.NetworkDetails, _ *neutron.Subnet) { n.ID = "public" })
	text, err := Manifests([]*neutron.NetworkDetails{n}, Options{})[0].YAML()
	if want := "# In Neutron: network web (public)\n# No Network can import it: its ID is not a UUID in lower case\n"; string(text) != want || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestNames(t *testing.T) {
	ids := []string{"aaaaaaaa-0", "bbbbbbbb-0", "cccccccc-0", "dddddddd-0", "cccccccc-1"}
	for _, tt := range []struct {
		name  string
		names []string
		want  []string
	}{
		{"a valid name stays", []string{"web", "team.example.org"}, []string{"web", "team.example.org"}},
		{"letters, blanks and accents", []string{"Web Network", "Büro_Netz/1", "-x-"}, []string{"web-network", "buro-netz-1", "x"}},
		{"the name of a network that was retained", []string{"team/web", "other/web"}, []string{"web", "other-web"}},
		{"nothing is left", []string{"", "網路", "web"}, []string{"network-aaaaaaaa", "network-bbbbbbbb", "web"}},
		{"two collide", []string{"web", "Web", "db"}, []string{"web-aaaaaaaa", "web-bbbbbbbb", "db"}},
		{"the name with the ID is taken", []string{"web", "web", "web-aaaaaaaa"}, []string{"web-aaaaaaaa-2", "web-bbbbbbbb", "web-aaaaaaaa"}},
		{"IDs that begin alike", []string{"a", "b", "web", "c", "web"}, []string{"a", "b", "web-cccccccc", "c", "web-cccccccc-2"}},
		{"a long name", []string{strings.Repeat("x_", 120)}, []string{strings.Repeat("x-", 24)[:47]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var names []string
			for _, name := range tt.names {
				names = append(names, objectName(strings.TrimPrefix(name, "team/")))
			}
			if diff := cmp.Diff(tt.want, unique(names, ids, "network")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// FuzzManifests checks what does not need the CustomResourceDefinition; hack/export validates the
// manifests of the same networks with it.
func FuzzManifests(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, "web", "made by ops", "tag")
	}
	f.Fuzz(func(t *testing.T, seed uint64, name, description, tag string) {
		networks := existing.Networks(rand.New(rand.NewPCG(seed, 1)), 4)
		networks[0].Name, networks[0].Description, networks[0].Tags = name, description, neutron.NewTags(tag)
		networks[1].Name = name
		if len(networks[2].Subnets) > 1 {
			networks[2].Subnets[1].Name, networks[2].Subnets[0].Name = name, description
		}
		names := map[string]bool{}
		for _, m := range Manifests(networks, Options{Namespace: "team", Project: "project-1"}) {
			checkManifest(t, m)
			if m.Network != nil && names[m.Network.Name] {
				t.Errorf("two have the name %s", m.Network.Name)
			}
			if m.Network != nil {
				names[m.Network.Name] = true
				checkNothingDiffers(t, m.Network, networks)
			}
		}
	})
}

// checkManifest checks that the document has the manifest, and nothing else that is no comment.
func checkManifest(t *testing.T, m Manifest) {
	t.Helper()
	text, err := m.YAML()
	must(t, err)
	if m.Network == nil {
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%q is no comment", line)
			}
		}
		return
	}
	var read samplecrdv1.Network
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(m.Network, &read); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
	if errs := validation.IsDNS1123Subdomain(m.Network.Name); len(errs) > 0 {
		t.Errorf("%q: %s", m.Network.Name, errs)
	}
	for _, s := range m.Network.Spec.AdditionalSubnets {
		if errs := validation.IsDNS1123Label(s.Name); len(errs) > 0 {
			t.Errorf("%q: %s", s.Name, errs)
		}
	}
}

// checkNothingDiffers checks that what the manifest declares is what Neutron has.
func checkNothingDiffers(t *testing.T, m *samplecrdv1.Network, networks []*neutron.NetworkDetails) {
	t.Helper()
	n := networks[slices.IndexFunc(networks, func(n *neutron.NetworkDetails) bool { return n.ID == m.Spec.Import.NetworkID })]
	if m.Spec.CIDR == "" {
		return
	}
	desired, err := neutron.NewDesired(m, "cluster")
	if err != nil {
		t.Fatalf("the controller refuses it: %v", err)
	}
	d := desired.Network
	if d.MTU != 0 && d.MTU != n.MTU || d.DNSDomain != "" && d.DNSDomain != n.DNSDomain || d.Shared != n.Shared || d.Tags != nil && *d.Tags != n.Tags || d.ZoneHints != "" && d.ZoneHints != n.ZoneHints {
		t.Errorf("declared %+v, observed %+v", d, n.Network)
	}
	for _, d := range desired.Subnets {
		s := n.Subnets[slices.IndexFunc(n.Subnets, func(s neutron.Subnet) bool { return s.CIDR.Masked() == d.CIDR })]
		if d.NoGateway == s.Gateway.IsValid() || d.Gateway.IsValid() && d.Gateway != s.Gateway || d.Pools != "" && d.Pools != s.Pools ||
			d.DNSNameservers != "" && d.DNSNameservers != s.DNSNameservers || d.NoDHCP == s.DHCP {
			t.Errorf("declared %+v, observed %+v", d, s)
		}
		if (d.AddressMode != "" || d.RAMode != "") && (d.AddressMode != s.AddressMode || d.RAMode != s.RAMode) {
			t.Errorf("declared %+v, observed %+v", d, s)
		}
	}
}
