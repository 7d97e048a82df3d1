/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package contract

import "fmt"

// networksWith requests networks with these attributes, one after the other.
func networksWith(attributes ...string) string {
	script := ""
	for _, a := range attributes {
		script += fmt.Sprintf("! POST networks {\"network\": {\"name\": \"NAME\", %s}}\n", a)
	}
	return script
}

// networkTo changes the network to each of these, one after the other.
func networkTo(user string, attributes ...string) string {
	script := ""
	for _, a := range attributes {
		script += "! " + user + updateNetwork(a)
	}
	return script
}

// subnetTo changes the subnet to each of these, one after the other.
func subnetTo(attributes ...string) string {
	script := ""
	for _, a := range attributes {
		script += "! " + updateSubnet(a)
	}
	return script
}

// typed creates a network of that type as an admin.
func typed(kind, more string) string {
	return fmt.Sprintf("net: @admin POST networks {\"network\": {\"name\": \"NAME\", \"provider:network_type\": %q%s}}\n", kind, more)
}

// The row's own name is a physical network that no other row uses. Segments above 4000 are
// never chosen by Neutron.
const (
	vlan = `, "provider:physical_network": "physnet1", "provider:segmentation_id": `
	flat = `, "provider:physical_network": "NAME"`
)

// manyRoutes returns n routes.
func manyRoutes(n int) string {
	routes := ""
	for i := range n {
		if i > 0 {
			routes += ", "
		}
		routes += fmt.Sprintf(`{"destination": "10.%d.0.0/16", "nexthop": "10.0.0.9"}`, 100+i)
	}
	return `"host_routes": [` + routes + `]`
}

// fieldRows are about the fields of networks and subnets that are not needed to create them.
var fieldRows = []row{
	{name: "name servers are changed, and keep their order", script: inSubnet(subnetTo(`"dns_nameservers": ["9.9.9.9", "1.1.1.1"]`, `"dns_nameservers": ["1.1.1.1", "9.9.9.9"]`,
		`"dns_nameservers": ["1.1.1.5", "1.1.1.4", "1.1.1.3", "1.1.1.2", "1.1.1.1"]`, `"dns_nameservers": ["1.1.1.1", "1.1.1.1"]`, `"dns_nameservers": ["01.1.1.1"]`,
		`"dns_nameservers": ["fd00::1"]`, `"dns_nameservers": ["FD00::1"]`, `"dns_nameservers": null`))},
	{name: "name servers and routes of an IPv6 subnet", script: anyNetwork + "! " + ipv6(`"cidr": "fd00::/64", "dns_nameservers": ["FD00:0::2", "fd00::1"], `+
		`"host_routes": [{"destination": "FD09:0::/64", "nexthop": "FD00::9"}]`) +
		subnetTo(`"dns_nameservers": ["1.1.1.1"]`, `"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`, `"dns_nameservers": [], "host_routes": []`)},
	{name: "pools are changed, and sorted", script: inSubnet(subnetTo(
		`"allocation_pools": [{"start": "10.0.0.100", "end": "10.0.0.110"}, {"start": "10.0.0.20", "end": "10.0.0.30"}]`,
		`"allocation_pools": [{"start": "10.0.0.20", "end": "10.0.0.30"}, {"start": "10.0.0.30", "end": "10.0.0.40"}]`,
		`"allocation_pools": [{"start": "10.0.0.30", "end": "10.0.0.20"}]`, `"allocation_pools": [{"start": "10.0.0.0", "end": "10.0.0.20"}]`,
		`"allocation_pools": [{"start": "10.0.0.250", "end": "10.0.0.255"}]`, `"gateway_ip": "10.0.0.25"`, `"gateway_ip": "10.0.0.9"`, `"gateway_ip": null`,
		`"gateway_ip": "10.0.0.2", "allocation_pools": []`))},
	{name: "routes are changed, and sorted", script: inSubnet(subnetTo(
		`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.10.0.0/16", "nexthop": "10.0.0.8"}, {"destination": "10.8.0.0/16", "nexthop": "10.0.0.9"}]`,
		`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.9.0.0/16", "nexthop": "10.0.0.8"}]`,
		`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`,
		`"host_routes": [{"destination": "0.0.0.0/0", "nexthop": "192.0.2.1"}]`, `"host_routes": [{"destination": "10.9.1.1/16", "nexthop": "10.0.0.9"}]`,
		`"host_routes": [{"destination": "10.9.0.0", "nexthop": "10.0.0.9"}]`, `"host_routes": [{"destination": "fd09::/64", "nexthop": "fd00::9"}]`,
		manyRoutes(20), manyRoutes(21), `"host_routes": []`))},
	{name: "DHCP is disabled and enabled", script: inSubnet(subnetTo(`"enable_dhcp": false`, `"enable_dhcp": true`))},
	{name: "IPv6 modes cannot be changed", script: anyNetwork + ipv6(`"cidr": "fd00::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`) +
		subnetTo(`"ipv6_ra_mode": "slaac"`, `"ipv6_address_mode": "dhcpv6-stateful"`, `"ipv6_ra_mode": null, "ipv6_address_mode": null`, `"enable_dhcp": false`) + showSubnet},
	{name: "IPv6 modes", script: anyNetwork + ipv6(`"cidr": "fd00::/64", "ipv6_ra_mode": "slaac"`) + "! GET subnets/$sub\n" +
		"! " + ipv6(`"cidr": "fd01::/64", "ipv6_address_mode": "dhcpv6-stateless"`) + "! " + ipv6(`"cidr": "fd02::/64", "ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"`) +
		"! " + ipv6(`"cidr": "fd03::/64", "ipv6_address_mode": "x"`) + ipv6(`"cidr": "fd04::/64", "enable_dhcp": false, "ipv6_ra_mode": null, "ipv6_address_mode": null`)},
	{name: "a subnet of everything is changed in one request", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1", "dns_nameservers": ["1.1.1.1"], `+
		`"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`) +
		`! PUT subnets/$sub {"subnet": {"name": "NAME", "description": "mark", "gateway_ip": "10.0.0.254", "dns_nameservers": ["9.9.9.9", "1.1.1.1"], "enable_dhcp": false, ` +
		`"allocation_pools": [{"start": "10.0.0.100", "end": "10.0.0.110"}], "host_routes": [{"destination": "10.8.0.0/16", "nexthop": "10.0.0.8"}]}}` + ifMatch + "0\n" + showSubnet + showNetwork},
	{name: "the subnets of networks are found with all fields as the controller lists them", script: inSubnet("GET subnets?network_id=$net&fields=id&fields=network_id&fields=name" +
		"&fields=description&fields=cidr&fields=gateway_ip&fields=dns_nameservers&fields=allocation_pools&fields=host_routes&fields=enable_dhcp&fields=ipv6_address_mode" +
		"&fields=ipv6_ra_mode&fields=revision_number&limit=1000")},

	{name: "a network accepts all that a member may set", script: newNetwork(`"description": "mark", "mtu": 1400, "port_security_enabled": false, "dns_domain": "Team.Example.ORG."`) + showNetwork, whole: true},
	{name: "an MTU is changed", script: anyNetwork + networkTo("", `"mtu": 1400`, `"mtu": 0`, `"mtu": 67`, `"mtu": -1`, `"mtu": null`, `"mtu": 1451`) + ipv6(`"cidr": "fd00::/64"`) + networkTo("", `"mtu": 1279`)},
	{name: "port security is the default of later ports", script: newNetwork(`"port_security_enabled": false`) + portOn("") + "! GET ports/$port?fields=port_security_enabled\n" +
		networkTo("", `"port_security_enabled": true`) + "! GET ports/$port?fields=port_security_enabled\n" + portOn("") + "GET ports/$port?fields=port_security_enabled", whole: true},
	{name: "port security is a boolean", script: networksWith(`"port_security_enabled": null`, `"port_security_enabled": "x"`, `"port_security_enabled": "no"`) +
		anyNetwork + networkTo("", `"port_security_enabled": null`, `"port_security_enabled": "x"`)},
	{name: "a DNS domain ends with a dot", script: anyNetwork + networkTo("", `"dns_domain": "Team.Example.org."`, `"dns_domain": "a"`, `"dns_domain": "a_b.example."`,
		`"dns_domain": "*.example."`, `"dns_domain": "a b."`, `"dns_domain": "example.123."`, `"dns_domain": "-a.example."`, `"dns_domain": "a..example."`, `"dns_domain": "."`,
		`"dns_domain": null`, `"dns_domain": 7`, `"dns_domain": "`+text255+`x."`, `"dns_domain": ""`) + networksWith(`"dns_domain": "example"`, `"dns_domain": null`)},
	{name: "networks are listed by the new fields", script: newNetwork(`"dns_domain": "a.example.", "port_security_enabled": false`) + "! GET networks?name=NAME&dns_domain=a.example.&fields=name\n" +
		"! GET networks?name=NAME&dns_domain=b.example.&fields=name\n! GET networks?name=NAME&port_security_enabled=false&fields=name\n" +
		"! GET networks?name=NAME&router:external=False&fields=name\nGET networks?name=NAME&shared=True&fields=name"},
	{name: "an unchanged DNS domain does not bump the revision", script: newNetwork(`"dns_domain": "a.example.", "port_security_enabled": false`) +
		networkTo("", `"dns_domain": "a.example."`, `"port_security_enabled": false`)},

	{name: "a member cannot have an administrator's fields", script: networksWith(`"shared": false, "router:external": false`, `"router:external": true`, `"is_default": true`,
		`"provider:physical_network": "physnet1"`, `"provider:segmentation_id": 7`, `"vlan_transparent": false`)},
	{name: "a member cannot change an administrator's fields", script: anyNetwork + networkTo("", `"shared": false`, `"router:external": false`, `"is_default": false`,
		`"provider:network_type": "vxlan"`, `"provider:physical_network": null`, `"provider:segmentation_id": 7`, `"name": "NAME-2", "shared": true`) + showNetwork},
	{name: "an admin shares a network and makes it external", script: anyNetwork + networkTo("@admin ", `"shared": true`, `"router:external": true`, `"shared": false`, `"router:external": false`) +
		showNetwork},
	{name: "an admin creates a shared external network", script: `! net: @admin POST networks {"network": {"name": "NAME", "shared": true, "router:external": true, "mtu": 1300}}
		! GET networks/$net
		! @other PUT networks/$net/tags {"tags": []}
		@other PUT networks/$net {"network": {"name": "NAME-2"}}`},
	{name: "an admin's vlan", script: "! " + typed("vlan", vlan+"4001") + "! " + typed("vlan", vlan+"4001") + networkTo("@admin ", `"provider:segmentation_id": 4002`,
		`"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 4003`, `"provider:segmentation_id": 4003`,
		`"provider:segmentation_id": 5000`, `"provider:physical_network": "x"`, `"provider:network_type": "flat"`, `"mtu": 1500`, `"mtu": 1501`) +
		typed("vlan", vlan+"4004") + networkTo("@admin ", `"provider:segmentation_id": 4003`) + "@admin GET networks/$net"},
	{name: "an admin's flat network", script: "! " + typed("flat", flat) + "! " + typed("flat", flat) +
		networkTo("@admin ", `"provider:physical_network": "NAME-2"`, `"provider:network_type": "flat"`)},
	{name: "an admin's local and vxlan networks", script: "! " + typed("local", "") + "! " + typed("vxlan", "") + networkTo("@admin ", `"provider:segmentation_id": 19999`) + "@admin GET networks/$net"},
	{name: "an admin cannot have these types", script: "! " + typed("x", "") + "! " + typed("vlan", `, "provider:physical_network": "x", "provider:segmentation_id": 4006`) +
		"! " + typed("vlan", vlan+"4095") + "! " + typed("flat", "") + "! " + typed("flat", flat+`, "provider:segmentation_id": 4006`) + "! " + typed("local", flat) +
		typed("vxlan", flat)},

	{name: "the whole set of tags is replaced", script: anyNetwork + `! PUT networks/$net/tags {"tags": ["b", "a", "b"]}` + "\n" + `! PUT networks/$net/tags {"tags": ["c", "a"]}` + "\n" +
		`! PUT networks/$net/tags {"tags": []}` + "\n! PUT networks/$net/tags {}\n! PUT networks/$net/tags {\"tags\": [7]}\n! PUT networks/$net/tags {\"tags\": [\"\"]}\n" +
		`! PUT networks/$net/tags {"tags": ["a/b"]}` + "\n! PUT networks/$net/tags {\"tags\": [\"a,b\"]}\n" + showNetwork},
	{name: "the networks of a mark are found with all fields as the controller lists them", script: `net: POST networks {"network": {"name": "NAME", "description": "NAME mark"}}` +
		"\nGET networks?description=NAME+mark&project_id=$project&fields=id&fields=name&fields=description&fields=mtu&fields=revision_number&fields=port_security_enabled" +
		"&fields=dns_domain&fields=tags&fields=shared&fields=router%3Aexternal&fields=provider%3Anetwork_type&fields=provider%3Aphysical_network&fields=provider%3Asegmentation_id&limit=1000"},
}
