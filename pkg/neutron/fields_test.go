// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// declaring returns what the owner's Network declares, with that CIDR and the changes.
func declaring(t *testing.T, cidr string, changes ...func(*samplecrdv1.NetworkSpec)) View {
	t.Helper()
	network := declares(cidr, "")
	for _, change := range changes {
		change(&network.Spec)
	}
	return viewOf(t, network)
}

// asJSON returns the JSON text of a value.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	noError(t, err)
	return string(text)
}

// A fieldTest shows what becomes of one field of the table.
type fieldTest[O any] struct {
	field string
	// declare declares a value, and created is what the request that creates the object has for it;
	// "" if it is the default, which is not sent.
	declare func(*samplecrdv1.NetworkSpec)
	created string
	// drift is made by another client. observed has what the Network declares.
	observed, drift func(*O)
	// updated and text are the request and the description of the step that repairs the drift.
	updated, text string
	// restored and restoredText are the same if the Network does not declare the field, and another
	// client sets it to what observed has; "" if it is left alone.
	restored, restoredText string
}

var networkTests = []fieldTest[Network]{
	{"name", func(*samplecrdv1.NetworkSpec) {}, `"default/web"`, func(n *Network) { n.Name = testName }, func(n *Network) { n.Name = "x" },
		`{"name":"default/web"}`, "name set to default/web", "", ""},
	{"description", func(*samplecrdv1.NetworkSpec) {}, `"` + owner.Mark() + `"`, func(n *Network) { n.Description = owner.Mark() }, func(n *Network) { n.Description = "x" },
		`{"description":"` + owner.Mark() + `"}`, "ownership mark restored", "", ""},
	{"mtu", func(s *samplecrdv1.NetworkSpec) { s.MTU = ptr.To[int32](1400) }, "1400", func(n *Network) { n.MTU = 1400 }, func(n *Network) { n.MTU = 1500 },
		`{"mtu":1400}`, "MTU set to 1400", "", ""},
	{"port_security_enabled", func(s *samplecrdv1.NetworkSpec) { s.PortSecurityEnabled = ptr.To(false) }, "false",
		func(n *Network) { n.PortSecurityEnabled = false }, func(n *Network) { n.PortSecurityEnabled = true },
		`{"port_security_enabled":false}`, "port security set to false", "", ""},
	{"port_security_enabled", func(s *samplecrdv1.NetworkSpec) { s.PortSecurityEnabled = ptr.To(true) }, "true",
		func(n *Network) { n.PortSecurityEnabled = true }, func(n *Network) { n.PortSecurityEnabled = false },
		`{"port_security_enabled":true}`, "port security set to true", "", ""},
	{"dns_domain", func(s *samplecrdv1.NetworkSpec) { s.DNSDomain = "Team.Example.org." }, `"team.example.org."`,
		func(n *Network) { n.DNSDomain = "team.example.org." }, func(n *Network) { n.DNSDomain = "" },
		`{"dns_domain":"team.example.org."}`, "DNS domain set to team.example.org.", `{"dns_domain":""}`, "DNS domain removed"},
	{"shared", func(s *samplecrdv1.NetworkSpec) { s.Shared = true }, "true", func(n *Network) { n.Shared = true }, func(n *Network) { n.Shared = false },
		`{"shared":true}`, "shared set to true", `{"shared":false}`, "shared set to false"},
	{"router:external", func(s *samplecrdv1.NetworkSpec) { s.External = true }, "true", func(n *Network) { n.External = true }, func(n *Network) { n.External = false },
		`{"router:external":true}`, "external set to true", `{"router:external":false}`, "external set to false"},
	{"availability_zone_hints", func(s *samplecrdv1.NetworkSpec) {
		s.AvailabilityZoneHints = []samplecrdv1.AvailabilityZone{"nova", "az2"}
	},
		`["az2","nova"]`, func(n *Network) { n.ZoneHints = NewTags("az2", "nova") }, func(n *Network) { n.ZoneHints = NewTags("nova") },
		`{"availability_zone_hints":["az2","nova"]}`, "availability zone hints set to az2, nova", "", ""},
	{"provider:network_type", func(s *samplecrdv1.NetworkSpec) { s.Provider = &samplecrdv1.ProviderSpec{NetworkType: "vlan"} }, `"vlan"`,
		func(n *Network) { n.NetworkType = "vlan" }, func(n *Network) { n.NetworkType = "flat" },
		`{"provider:network_type":"vlan"}`, "network type set to vlan", "", ""},
	{"provider:physical_network", func(s *samplecrdv1.NetworkSpec) { s.Provider = &samplecrdv1.ProviderSpec{PhysicalNetwork: "physnet1"} }, `"physnet1"`,
		func(n *Network) { n.PhysicalNetwork = "physnet1" }, func(n *Network) { n.PhysicalNetwork = "physnet2" },
		`{"provider:physical_network":"physnet1"}`, "physical network set to physnet1", "", ""},
	{"provider:segmentation_id", func(s *samplecrdv1.NetworkSpec) {
		s.Provider = &samplecrdv1.ProviderSpec{SegmentationID: ptr.To[int32](42)}
	}, "42", func(n *Network) { n.SegmentationID = 42 }, func(n *Network) { n.SegmentationID = 43 },
		`{"provider:segmentation_id":42}`, "segmentation ID set to 42", "", ""},
}

// The subnet is 10.0.0.0/24.
var subnetTests = []fieldTest[Subnet]{
	{"name", func(*samplecrdv1.NetworkSpec) {}, `"default/web"`, func(s *Subnet) { s.Name = testName }, func(s *Subnet) { s.Name = "x" },
		`{"name":"default/web"}`, "subnet name set to default/web", "", ""},
	{"description", func(*samplecrdv1.NetworkSpec) {}, `"` + owner.Mark() + `"`, func(s *Subnet) { s.Description = owner.Mark() },
		func(s *Subnet) { s.Description = "x " + owner.Mark() },
		`{"description":"` + owner.Mark() + `"}`, "ownership mark of the subnet restored", "", ""},
	{"gateway_ip", func(s *samplecrdv1.NetworkSpec) { s.Gateway = "10.0.0.9" }, `"10.0.0.9"`, gated("10.0.0.9"), gated("10.0.0.1"),
		`{"allocation_pools":[{"start":"10.0.0.1","end":"10.0.0.8"},{"start":"10.0.0.10","end":"10.0.0.254"}],"gateway_ip":"10.0.0.9"}`, "gateway set to 10.0.0.9",
		`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.254"}],"gateway_ip":"10.0.0.1"}`, "gateway set to 10.0.0.1"},
	{"gateway_ip", func(s *samplecrdv1.NetworkSpec) { s.Gateway = "None" }, "null", gated(""), gated("10.0.0.1"),
		`{"allocation_pools":[{"start":"10.0.0.1","end":"10.0.0.254"}],"gateway_ip":null}`, "gateway removed",
		`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.254"}],"gateway_ip":"10.0.0.1"}`, "gateway set to 10.0.0.1"},
	{"allocation_pools", func(s *samplecrdv1.NetworkSpec) {
		s.AllocationPools = []samplecrdv1.AllocationPool{{Start: "10.0.0.200", End: "10.0.0.250"}, {Start: "10.0.0.10", End: "10.0.0.20"}}
	}, `[{"start":"10.0.0.10","end":"10.0.0.20"},{"start":"10.0.0.200","end":"10.0.0.250"}]`,
		func(s *Subnet) { s.Pools = ranges("10.0.0.10-10.0.0.20", "10.0.0.200-10.0.0.250") }, func(s *Subnet) { s.Pools = ranges("10.0.0.10-10.0.0.20") },
		`{"allocation_pools":[{"start":"10.0.0.10","end":"10.0.0.20"},{"start":"10.0.0.200","end":"10.0.0.250"}]}`,
		"allocation pools set to 10.0.0.10-10.0.0.20, 10.0.0.200-10.0.0.250",
		`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.254"}]}`, "allocation pools set to 10.0.0.2-10.0.0.254"},
	{"dns_nameservers", func(s *samplecrdv1.NetworkSpec) {
		s.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.54", "192.0.2.53"}
	}, `["192.0.2.54","192.0.2.53"]`, func(s *Subnet) { s.DNSNameservers = "192.0.2.54, 192.0.2.53" }, func(s *Subnet) { s.DNSNameservers = "192.0.2.53, 192.0.2.54" },
		`{"dns_nameservers":["192.0.2.54","192.0.2.53"]}`, "DNS servers set to 192.0.2.54, 192.0.2.53", `{"dns_nameservers":[]}`, "DNS servers removed"},
	{"host_routes", func(s *samplecrdv1.NetworkSpec) {
		s.HostRoutes = []samplecrdv1.HostRoute{{Destination: "10.99.1.0/16", NextHop: "10.0.0.254"}, {Destination: "10.98.0.0/16", NextHop: "10.0.0.254"}}
	}, `[{"destination":"10.98.0.0/16","nexthop":"10.0.0.254"},{"destination":"10.99.0.0/16","nexthop":"10.0.0.254"}]`,
		func(s *Subnet) { s.Routes = "10.98.0.0/16 via 10.0.0.254, 10.99.0.0/16 via 10.0.0.254" },
		func(s *Subnet) { s.Routes = "10.98.0.0/16 via 10.0.0.254" },
		`{"host_routes":[{"destination":"10.98.0.0/16","nexthop":"10.0.0.254"},{"destination":"10.99.0.0/16","nexthop":"10.0.0.254"}]}`,
		"host routes set to 10.98.0.0/16 via 10.0.0.254, 10.99.0.0/16 via 10.0.0.254", `{"host_routes":[]}`, "host routes removed"},
	{"enable_dhcp", func(s *samplecrdv1.NetworkSpec) { s.EnableDHCP = ptr.To(false) }, "false", func(s *Subnet) { s.DHCP = false }, func(s *Subnet) { s.DHCP = true },
		`{"enable_dhcp":false}`, "DHCP set to false", `{"enable_dhcp":true}`, "DHCP set to true"},
	{"enable_dhcp", func(s *samplecrdv1.NetworkSpec) { s.EnableDHCP = ptr.To(true) }, "", func(s *Subnet) { s.DHCP = true }, func(s *Subnet) { s.DHCP = false },
		`{"enable_dhcp":true}`, "DHCP set to true", "", ""},
}

// gated sets the gateway and the allocation pools that Neutron chooses for it.
func gated(gateway string) func(*Subnet) {
	return func(s *Subnet) {
		s.Gateway = addr(gateway)
		s.Pools, _ = allocationPools(s.CIDR, s.Gateway).(Pools)
	}
}

// testFields tests each row of a table. of returns the part of a Desired that the table is for, and
// observed returns a network with a change of that part.
func testFields[D, O any](t *testing.T, table []field[D, O], tests []fieldTest[O], of func(*View) *D, observed func(func(*O)) *Observed) {
	request := func(step Step) string {
		switch step := step.(type) {
		case nil:
			return ""
		case UpdateNetwork:
			return asJSON(t, update(step.Changes))
		case UpdateSubnet:
			return asJSON(t, update(step.Changes))
		}
		t.Fatalf("not an update: %+v", step)
		return ""
	}
	tested := map[string]bool{}
	for _, f := range table {
		tested[f.name] = f.isFixed // by TestASubnetWithOtherIPv6ModesIsReplaced
	}
	for _, test := range tests {
		t.Run(test.field+" "+test.created, func(t *testing.T) {
			tested[test.field] = true
			want := declaring(t, "10.0.0.0/24", test.declare)
			created, sent := creation(table, of(&want))[test.field]
			if equal(t, test.created != "", sent); sent {
				equal(t, test.created, asJSON(t, created))
			}
			equal(t, Step(nil), at(want, observed(test.observed)).Next())
			step := at(want, observed(test.drift)).Next()
			equal(t, test.updated, request(step))
			equal(t, test.text, step.String())

			leftOut := declaring(t, "10.0.0.0/24")
			step = at(leftOut, observed(test.observed)).Next()
			equal(t, test.restored, request(step))
			if step != nil {
				equal(t, test.restoredText, step.String())
			}
			if fields := creation(table, of(&leftOut)); len(fields) != 2 {
				t.Errorf("what is left out is sent: %v", fields)
			}
		})
	}
	for name, isTested := range tested {
		if !isTested {
			t.Errorf("%s is not tested", name)
		}
	}
	equal(t, len(table), len(tested))
}

func TestTheFieldsOfANetwork(t *testing.T) {
	itself := func(d *View) *DesiredNetwork { return &d.Network }
	testFields(t, networkTable, networkTests, itself, func(change func(*Network)) *Observed {
		n := has(ours("s", "10.0.0.0/24", "10.0.0.1"))
		change(&n.Network)
		return n
	})
}

func TestTheFieldsOfASubnet(t *testing.T) {
	first := func(d *View) *DesiredSubnet { return &d.Subnets[0] }
	testFields(t, subnetTable, subnetTests, first, func(change func(*Subnet)) *Observed {
		s := ours("s", "10.0.0.0/24", "10.0.0.1")
		change(&s)
		return has(s)
	})
}

// Neutron cannot change the IPv6 modes of a subnet, so the subnet is replaced.
func TestASubnetWithOtherIPv6ModesIsReplaced(t *testing.T) {
	const prefix = "fd00:1::/64"
	modes := func(address, ra samplecrdv1.IPv6Mode) func(*samplecrdv1.NetworkSpec) {
		return func(s *samplecrdv1.NetworkSpec) { s.IPv6 = &samplecrdv1.IPv6Spec{AddressMode: address, RAMode: ra} }
	}
	observed := func(address, ra string) *Observed {
		s := ours("s", prefix, "fd00:1::")
		s.AddressMode, s.RAMode = address, ra
		return has(s)
	}
	equal(t, Step(nil), at(declaring(t, prefix, modes("", "")), observed("", "")).Next())
	equal(t, Step(nil), at(declaring(t, prefix, modes("slaac", "slaac")), observed("slaac", "slaac")).Next())
	for name, want := range map[string]View{
		"another address mode":             declaring(t, prefix, modes("dhcpv6-stateful", "slaac")),
		"another RA mode":                  declaring(t, prefix, modes("slaac", "dhcpv6-stateful")),
		"none, which is Neutron's default": declaring(t, prefix),
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, Step(DeleteSubnet{ID: "s", CIDR: cidr(prefix)}), at(want, observed("slaac", "slaac")).Next())
			equal(t, Step(CreateSubnet{Subnet: want.Subnets[0]}), at(want, has()).Next())
		})
	}
	want := declaring(t, prefix, modes("slaac", "dhcpv6-stateful"))
	fields := creation(subnetTable, &want.Subnets[0])
	equal(t, []any{"slaac", "dhcpv6-stateful"}, []any{fields["ipv6_address_mode"], fields["ipv6_ra_mode"]})
}

func TestTheFieldsOfARouter(t *testing.T) {
	want := DesiredRouter{Name: testName, Mark: owner.Mark(), ExternalNetwork: "e"}
	equal(t, `{"description":"`+owner.Mark()+`","external_gateway_info":{"network_id":"e"},"name":"default/web"}`, asJSON(t, creation(routerTable, &want)))
	inZones := want
	inZones.ZoneHints = NewTags("nova", "az2")
	equal(t, `["az2","nova"]`, asJSON(t, creation(routerTable, &inZones)["availability_zone_hints"]))
	right := Router{ID: "r", Name: testName, Description: owner.Mark(), Gateway: ExternalGateway{NetworkID: "e", IPs: "198.18.0.7"}}
	for _, test := range []struct {
		name          string
		drift         func(*Router)
		request, text string
	}{
		{"nothing", func(*Router) {}, "{}", ""},
		{"text before the mark", func(r *Router) { r.Description = "x " + owner.Mark() }, `{"description":"` + owner.Mark() + `"}`, "ownership mark of the router restored"},
		{"the gateway", func(r *Router) { r.Gateway = ExternalGateway{} }, `{"external_gateway_info":{"network_id":"e"}}`, "router gateway set to external network e"},
	} {
		t.Run(test.name, func(t *testing.T) {
			observed := right
			test.drift(&observed)
			changes := changes(routerTable, &want, &observed)
			equal(t, test.request, asJSON(t, update(changes)))
			equal(t, test.text, describe(changes))
		})
	}
}

func TestTags(t *testing.T) {
	tagged := func(tags ...string) *Observed {
		n := has(ours("s", "10.0.0.0/24", "10.0.0.1"))
		n.Tags = NewTags(tags...)
		return n
	}
	for _, test := range []struct {
		name     string
		declared []samplecrdv1.Tag // nil: they are left out
		observed *Observed
		want     Step
		text     string
	}{
		{"left out", nil, tagged("a"), nil, ""},
		{"one more", []samplecrdv1.Tag{"b", "a"}, tagged("a"), SetTags{NewTags("a", "b")}, "tags set to a, b"},
		{"another case, which is the same for Neutron's database", []samplecrdv1.Tag{"A"}, tagged("a"), SetTags{NewTags("A")}, "tags set to A"},
		{"none, and there are some", []samplecrdv1.Tag{}, tagged("a"), SetTags{}, "tags removed"},
		{"none, in a cloud without tags", []samplecrdv1.Tag{}, has(ours("s", "10.0.0.0/24", "10.0.0.1")), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := declaring(t, "10.0.0.0/24", func(s *samplecrdv1.NetworkSpec) { s.Tags = test.declared })
			step := at(want, test.observed).Next()
			equal(t, test.want, step)
			if step != nil {
				equal(t, test.text, step.String())
			}
			if creation(networkTable, &want.Network)["tags"] != nil {
				t.Error("Neutron refuses tags in the request that creates the network")
			}
		})
	}
}

func TestGatewayAndPools(t *testing.T) {
	want := declaring(t, "10.0.0.0/24", func(s *samplecrdv1.NetworkSpec) {
		s.Gateway, s.AllocationPools = "10.0.0.9", []samplecrdv1.AllocationPool{{Start: "10.0.0.100", End: "10.0.0.200"}}
	})
	right := ours("s", "10.0.0.0/24", "10.0.0.1")
	step := at(want, has(right)).Next()
	equal(t, "gateway set to 10.0.0.9, allocation pools set to 10.0.0.100-10.0.0.200", step.String())
	right.Pools = want.Subnets[0].Pools // they are there already
	equal(t, `{"gateway_ip":"10.0.0.9"}`, asJSON(t, update(at(want, has(right)).Next().(UpdateSubnet).Changes)))
}

// notOfNeutron are the fields of the spec that say nothing of the network itself.
var notOfNeutron = []string{"cloudCredentialsRef.secretName", "cloudCredentialsRef.cloudName", "cloudCredentialsRef.clusterCloudName", "deletionPolicy"}

// others are other values of the fields in everyField that NewDesired checks.
var others = map[string]string{
	"cidr": "10.0.0.0/23", "gateway": "10.0.0.9", "dnsNameservers": "192.0.2.99",
	"start": "10.0.0.101", "end": "10.0.0.201", "destination": "10.98.0.0/16", "nextHop": "10.0.0.253",
	"managementPolicy":       "Managed",
	"additionalSubnets.cidr": "fd00:1::/63", "additionalSubnets.gateway": "None",
	"additionalSubnets.allocationPools.start": "fd00:1::11", "additionalSubnets.allocationPools.end": "fd00:1::21",
}

// fromPools returns everyField, but with subnets from subnet pools.
func fromPools() samplecrdv1.NetworkSpec {
	spec := everyField()
	for _, s := range []*samplecrdv1.SubnetSpec{&spec.SubnetSpec, &spec.AdditionalSubnets[0].SubnetSpec} {
		s.CIDR, s.Gateway, s.AllocationPools, s.HostRoutes, s.IPv6 = "", "", nil, nil, nil
		s.SubnetPool = &samplecrdv1.SubnetPoolSpec{NeutronReference: samplecrdv1.NeutronReference{Name: "pool", ID: "p"}, PrefixLength: 63}
	}
	return spec
}

// everyField returns a spec that sets every field, except those of subnet pools.
func everyField() samplecrdv1.NetworkSpec {
	subnet := func(cidr, gateway string, start, end samplecrdv1.IPAddress) samplecrdv1.SubnetSpec {
		return samplecrdv1.SubnetSpec{
			CIDR: cidr, Gateway: gateway, DNSNameservers: []samplecrdv1.IPAddress{"192.0.2.53"},
			AllocationPools: []samplecrdv1.AllocationPool{{Start: start, End: end}},
			HostRoutes:      []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "10.0.0.254"}},
			EnableDHCP:      ptr.To(false), IPv6: &samplecrdv1.IPv6Spec{AddressMode: "slaac", RAMode: "slaac"},
		}
	}
	return samplecrdv1.NetworkSpec{
		SubnetSpec:        subnet("10.0.0.0/24", "10.0.0.1", "10.0.0.100", "10.0.0.200"),
		AdditionalSubnets: []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: subnet("fd00:1::/64", "fd00:1::1", "fd00:1::10", "fd00:1::20")}},
		Router: &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public", ID: "e"},
			Existing: &samplecrdv1.NeutronReference{Name: "router", ID: "r"}, AvailabilityZoneHints: []samplecrdv1.AvailabilityZone{"nova"},
			Routes: []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "10.0.0.7"}}},
		AvailabilityZoneHints: []samplecrdv1.AvailabilityZone{"nova"},
		MTU:                   ptr.To[int32](1400), PortSecurityEnabled: ptr.To(false), DNSDomain: "example.org.", Tags: []samplecrdv1.Tag{"a"}, Shared: true, External: true,
		SharedWith:          []samplecrdv1.Share{{ProjectID: "p"}},
		Provider:            &samplecrdv1.ProviderSpec{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: ptr.To[int32](42)},
		CloudCredentialsRef: &samplecrdv1.CloudCredentialsReference{SecretName: "s", CloudName: "c", ClusterCloudName: "a"},
		DeletionPolicy:      samplecrdv1.DeletionRetain,
		Import:              &samplecrdv1.ImportSpec{NetworkID: "n"},
		ManagementPolicy:    samplecrdv1.ManagementObserve,
	}
}

// leaves calls visit for each field that is not a struct, with the path of its names in JSON: for one that is not set too, if it is a
// pointer or a list.
func leaves(v reflect.Value, path []string, visit func(path string, v reflect.Value, isSet bool)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice:
		if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			visit(strings.Join(path, "."), v, false)
			return
		}
		switch {
		case v.Kind() == reflect.Slice:
			leaves(v.Index(0), path, visit)
		case v.Elem().Kind() == reflect.Struct:
			leaves(v.Elem(), path, visit)
		default:
			visit(strings.Join(path, "."), v.Elem(), true)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			below := path
			if name != "" {
				below = append(slices.Clone(path), name)
			}
			leaves(v.Field(i), below, visit)
		}
	default:
		visit(strings.Join(path, "."), v, !v.IsZero())
	}
}

// alter changes the value of a field.
func alter(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32:
		v.SetInt(v.Int() + 1)
	default:
		for name := path; ; {
			if text, known := others[name]; known {
				v.SetString(text)
				return
			}
			_, rest, found := strings.Cut(name, ".")
			if !found {
				v.SetString(v.String() + "x")
				return
			}
			name = rest
		}
	}
}

// inNeutronsTerms returns everything that NewDesired reads of the spec, as the requests have it.
func inNeutronsTerms(t *testing.T, spec samplecrdv1.NetworkSpec) string {
	t.Helper()
	network := declares("", "")
	network.Spec = spec
	desired := viewOf(t, network)
	all := []any{creation(networkTable, &desired.Network), desired.Network.Tags, desired.Projects, desired.Router.Spec, desired.Import, desired.ReadOnly}
	for i := range desired.Subnets {
		all = append(all, desired.Subnets[i].CIDR, desired.Subnets[i].SubnetPool, creation(subnetTable, &desired.Subnets[i]))
	}
	return asJSON(t, all)
}

// A new field of the API needs a row in one of the tables.
func TestEveryFieldOfTheSpecIsRead(t *testing.T) {
	isSet := map[string]bool{}
	for _, complete := range []func() samplecrdv1.NetworkSpec{everyField, fromPools} {
		spec := complete()
		before := inNeutronsTerms(t, spec)
		leaves(reflect.ValueOf(&spec), nil, func(path string, v reflect.Value, is bool) {
			isSet[path] = isSet[path] || is
			if !is {
				return
			}
			spec := complete()
			leaves(reflect.ValueOf(&spec), nil, func(at string, v reflect.Value, _ bool) {
				if at == path {
					alter(path, v)
				}
			})
			if isRead := inNeutronsTerms(t, spec) != before; isRead == slices.Contains(notOfNeutron, path) {
				t.Errorf("%s is read: %v", path, isRead)
			}
		})
	}
	for path, is := range isSet {
		// Below a pointer that is set nowhere, there are no paths.
		if isBelow := slices.ContainsFunc(slices.Collect(maps.Keys(isSet)), func(p string) bool { return strings.HasPrefix(p, path+".") }); !is && !isBelow {
			t.Errorf("neither everyField nor fromPools sets %s", path)
		}
	}
	t.Logf("%d fields", len(isSet))
}

func TestInvalidFields(t *testing.T) {
	pools := func(pools ...samplecrdv1.AllocationPool) func(*samplecrdv1.NetworkSpec) {
		return func(s *samplecrdv1.NetworkSpec) { s.AllocationPools = pools }
	}
	for _, test := range []struct {
		name   string
		change func(*samplecrdv1.NetworkSpec)
		want   string
	}{
		{"a pool that is not of addresses", func(s *samplecrdv1.NetworkSpec) {
			s.AllocationPools = []samplecrdv1.AllocationPool{{Start: "x", End: "10.0.0.9"}}
		},
			"spec.allocationPools: x-10.0.0.9 is not a range of addresses: its end must not be before its start"},
		{"a pool outside the CIDR", pools(samplecrdv1.AllocationPool{Start: "10.0.0.9", End: "10.0.1.9"}), "spec.allocationPools: 10.0.0.9-10.0.1.9 is not inside 10.0.0.0/24"},
		{"a pool with the gateway", func(s *samplecrdv1.NetworkSpec) {
			s.Gateway = "10.0.0.9"
			pools(samplecrdv1.AllocationPool{Start: "10.0.0.9", End: "10.0.0.20"})(s)
		}, "spec.allocationPools: 10.0.0.9-10.0.0.20 must not contain the gateway, 10.0.0.9"},
		{"pools that overlap", pools(samplecrdv1.AllocationPool{Start: "10.0.0.2", End: "10.0.0.20"}, samplecrdv1.AllocationPool{Start: "10.0.0.20", End: "10.0.0.30"}),
			"spec.allocationPools: 10.0.0.20-10.0.0.30 overlaps with 10.0.0.2-10.0.0.20"},
		{"subnets that overlap", func(s *samplecrdv1.NetworkSpec) {
			s.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "more", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.128/25"}}}
		}, "spec.additionalSubnets[more].cidr: 10.0.0.128/25 overlaps with 10.0.0.0/24, another subnet of this Network"},
		{"a CIDR and a subnet pool", func(s *samplecrdv1.NetworkSpec) {
			s.SubnetPool = &samplecrdv1.SubnetPoolSpec{PrefixLength: 24}
		}, "spec.subnetPool: must not be set with cidr, an address as gateway, allocationPools or hostRoutes"},
		{"a gateway in a range that is not known", func(s *samplecrdv1.NetworkSpec) {
			s.CIDR, s.Gateway, s.SubnetPool = "", "10.0.0.1", &samplecrdv1.SubnetPoolSpec{PrefixLength: 24}
		}, "spec.subnetPool: must not be set with cidr, an address as gateway, allocationPools or hostRoutes"},
		{"IPv6 modes from a pool, without DHCP", func(s *samplecrdv1.NetworkSpec) {
			s.CIDR, s.SubnetPool = "", &samplecrdv1.SubnetPoolSpec{PrefixLength: 64}
			s.IPv6, s.EnableDHCP = &samplecrdv1.IPv6Spec{AddressMode: "slaac"}, ptr.To(false)
		}, "spec.ipv6: needs a subnetPool of IPv6 with the prefixLength 64, and DHCP"},
		{"IPv6 modes from a pool, with another length", func(s *samplecrdv1.NetworkSpec) {
			s.CIDR, s.SubnetPool, s.IPv6 = "", &samplecrdv1.SubnetPoolSpec{PrefixLength: 60}, &samplecrdv1.IPv6Spec{AddressMode: "slaac"}
		}, "spec.ipv6: needs a subnetPool of IPv6 with the prefixLength 64, and DHCP"},
		{"Observe without an import", func(s *samplecrdv1.NetworkSpec) { s.ManagementPolicy = samplecrdv1.ManagementObserve }, "spec.managementPolicy: Observe needs import"},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := declares("10.0.0.0/24", "")
			test.change(&network.Spec)
			_, err := NewDesired(network, owner.Cluster)
			equal(t, Invalid, ReasonOf(err))
			equal(t, test.want, fmt.Sprint(err))
		})
	}
}

func TestAdditionalSubnetsHaveNamesOfTheirOwn(t *testing.T) {
	desired := declaring(t, "10.0.0.0/24", func(s *samplecrdv1.NetworkSpec) {
		s.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:1::/64"}}}
	})
	equal(t, []DesiredSubnet{
		{Name: testName, Mark: owner.Mark(), CIDR: cidr("10.0.0.0/24")},
		{Name: testName + "/v6", Mark: owner.Mark(), Label: "v6", CIDR: cidr("fd00:1::/64")},
	}, desired.Subnets)
	long := Name(strings.Repeat("n", 253), "x")
	equal(t, maxName, len(Name(long, "v6")))
}

// namesIn returns the names of the fields in Neutron's API.
func namesIn[D, O any](table []field[D, O]) []string {
	names := make([]string, len(table))
	for i, f := range table {
		names[i] = f.name
	}
	return names
}

// TestListsRequestWhatTheTablesHave: the API does not know the tables, so a field that is only in a table is never read.
func TestListsRequestWhatTheTablesHave(t *testing.T) {
	for _, tc := range []struct{ requested, read []string }{
		{networkFields, namesIn(networkTable)},
		{subnetFields, namesIn(subnetTable)},
		{routerFields, namesIn(routerTable)},
	} {
		for _, name := range tc.read {
			if !slices.Contains(tc.requested, name) {
				t.Errorf("a list does not request %s: add it to the fields in listnetworks.go or routers.go", name)
			}
		}
	}
}
