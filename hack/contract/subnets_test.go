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

// updateSubnet updates the subnet with these attributes.
func updateSubnet(attributes string) string {
	return fmt.Sprintf("PUT subnets/$sub {\"subnet\": {%s}}\n", attributes)
}

// inSubnet returns a script that begins with a network and its subnet 10.0.0.0/24.
func inSubnet(script string) string { return anyNetwork + ipv4(`"cidr": "10.0.0.0/24"`) + script }

// asked returns a row that requests one subnet; its name is the request.
func asked(attributes string) row {
	return row{name: "a subnet of " + attributes, script: anyNetwork + subnetOf(attributes)}
}

// moved returns a row that changes the subnet 10.0.0.0/24.
func moved(attributes string) row {
	return row{name: "a change of 10.0.0.0/24 to " + attributes, script: inSubnet("! " + updateSubnet(attributes) + showSubnet)}
}

var subnetRows = []row{
	{name: "a subnet with only a CIDR has defaults", script: inSubnet(showSubnet + showNetwork)},
	{name: "a subnet shows all its fields to a member", script: inSubnet(showSubnet), whole: true},
	{name: "a subnet shows all its fields to an admin", script: inSubnet("@admin GET subnets/$sub"), whole: true},
	{name: "a subnet accepts what a member may set", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "name": "NAME", "description": "mark", `+
		`"enable_dhcp": false, "gateway_ip": "10.0.0.254", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}], `+
		`"dns_nameservers": ["1.1.1.1", "10.0.0.1"], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`)},
	{name: "a subnet needs a network", script: `POST subnets {"subnet": {"ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "a subnet needs an IP version", script: anyNetwork + subnetOf(`"cidr": "10.0.0.0/24"`)},
	{name: "a subnet needs a CIDR", script: anyNetwork + ipv4(`"name": "x"`)},
	{name: "a subnet needs a network that exists",
		script: `POST subnets {"subnet": {"network_id": "11111111-2222-3333-4444-555555555555", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "an admin's subnet needs a network that exists",
		script: `@admin POST subnets {"subnet": {"network_id": "11111111-2222-3333-4444-555555555555", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "a subnet needs a valid network ID", script: `POST subnets {"subnet": {"network_id": "x", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "a subnet in a network that was just deleted is refused", script: anyNetwork + "DELETE networks/$net\n" + ipv4(`"cidr": "10.0.0.0/24"`)},

	{name: "the same CIDR overlaps", script: inSubnet(ipv4(`"cidr": "10.0.0.0/24"`))},
	{name: "a smaller CIDR overlaps", script: inSubnet(ipv4(`"cidr": "10.0.0.128/25"`))},
	{name: "a larger CIDR overlaps", script: inSubnet(ipv4(`"cidr": "10.0.0.0/8"`))},
	{name: "the adjacent CIDR does not overlap", script: inSubnet("! " + ipv4(`"cidr": "10.0.1.0/24"`) + showNetwork)},
	{name: "an IPv6 CIDR does not overlap", script: inSubnet("! " + ipv6(`"cidr": "fd00::/64"`) + showNetwork)},
	{name: "an IPv6 CIDR overlaps", script: anyNetwork + ipv6(`"cidr": "fd00::/48"`) + ipv6(`"cidr": "fd00:0:0:1::/64"`)},
	{name: "the same CIDR is taken in another network", script: inSubnet("") + "" +
		"two: POST networks {\"network\": {\"name\": \"NAME\"}}\n" +
		`sub: POST subnets {"subnet": {"network_id": "$two", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},

	{name: "subnets are created in bulk", script: anyNetwork +
		`sub: POST subnets {"subnets": [{"network_id": "$net", "ip_version": 4, "cidr": "10.0.1.0/24"}, {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}]}`},
	{name: "subnets in bulk are all or nothing", script: anyNetwork +
		`! sub: POST subnets {"subnets": [{"network_id": "$net", "ip_version": 4, "cidr": "10.0.1.0/24"}, {"network_id": "$net", "ip_version": 4, "cidr": "10.0.1.0/24"}]}
		GET subnets?network_id=$net`},

	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "ip_version": 5`),
	asked(`"ip_version": "4", "cidr": "10.0.0.0/24"`),
	asked(`"ip_version": "x", "cidr": "10.0.0.0/24"`),
	asked(`"ip_version": 4, "cidr": "fd00::/64"`),
	asked(`"ip_version": 6, "cidr": "10.0.0.0/24"`),
	asked(`"ip_version": 4, "cidr": null`),
	asked(`"ip_version": 4, "cidr": ""`),
	asked(`"ip_version": 4, "cidr": "x"`),
	asked(`"ip_version": 4, "cidr": 7`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "prefixlen": 24`),
	asked(`"ip_version": 4, "prefixlen": 24`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "subnetpool_id": "11111111-2222-3333-4444-555555555555"`),
	asked(`"ip_version": 4, "use_default_subnetpool": true`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "colour": "red"`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "tags": []`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "name": null`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "enable_dhcp": "x"`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "enable_dhcp": null`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "ipv6_ra_mode": "slaac"`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "dhcpv6-stateful"`),
	asked(`"ip_version": 6, "cidr": "fd00::/48", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac", "enable_dhcp": false`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": "x"`),
	asked(`"ip_version": 6, "cidr": "fd00::/64", "ipv6_ra_mode": null`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "service_types": ["network:dhcp"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["1.1.1.1", "1.1.1.1"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["x"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["fd00::1"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": null`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": "1.1.1.1"`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["3.3.3.3", "2.2.2.2"]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.1/16", "nexthop": "10.0.0.9"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/16"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "x"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "fd00::9"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.8.0.0/16", "nexthop": "10.0.0.9"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`),
	asked(`"ip_version": 4, "cidr": "10.0.0.0/24", "host_routes": [{"destination": "0.0.0.0/0", "nexthop": "10.0.0.9"}]`),

	{name: "a subnet is shown with the requested fields", script: inSubnet("GET subnets/$sub?fields=cidr&fields=gateway_ip")},
	{name: "a subnet that does not exist is not found", script: "GET subnets/11111111-2222-3333-4444-555555555555"},
	{name: "a change of a subnet that does not exist is not found", script: `PUT subnets/11111111-2222-3333-4444-555555555555 {"subnet": {"name": "x"}}`},
	{name: "a subnet that is deleted is gone", script: inSubnet("! DELETE subnets/$sub\n! GET subnets/$sub\n" + showNetwork)},
	{name: "a subnet is deleted only once", script: inSubnet("DELETE subnets/$sub\nDELETE subnets/$sub")},
	{name: "a port keeps its subnet from being deleted", script: inSubnet(portOn("") + "DELETE subnets/$sub")},
	{name: "a port without an address does not keep a subnet from being deleted", script: inSubnet(portOn(`, "fixed_ips": []`) + "DELETE subnets/$sub")},
	{name: "a DHCP port does not keep its subnet from being deleted", script: inSubnet(
		`port: @admin POST ports {"port": {"network_id": "$net", "device_owner": "network:dhcp"}}` + "\n! DELETE subnets/$sub\nGET ports/$port")},
	{name: "a port does not keep a subnet of automatic addresses from being deleted", script: anyNetwork +
		ipv6(`"cidr": "fd00::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`) + portOn("") + "! DELETE subnets/$sub\nGET ports/$port"},

	moved(`"name": "NAME-2", "description": "d", "enable_dhcp": false`),
	moved(`"name": null`),
	moved(`"description": "` + text255 + `x"`),
	moved(`"cidr": "10.0.0.0/24"`),
	moved(`"cidr": "10.0.1.0/24"`),
	moved(`"network_id": "$net"`),
	moved(`"ip_version": 4`),
	moved(`"tags": ["x"]`),
	moved(`"ipv6_ra_mode": "slaac"`),
	moved(`"colour": "red"`),
	moved(`"dns_nameservers": ["1.1.1.1"]`),
	moved(`"dns_nameservers": []`),
	moved(`"dns_nameservers": null`),
	moved(`"dns_nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6"]`),
	moved(`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`),
	moved(`"host_routes": null`),
	moved(`"enable_dhcp": null`),
	moved(`"gateway_ip": null`),
	moved(`"gateway_ip": ""`),
	moved(`"gateway_ip": "x"`),
	moved(`"gateway_ip": "10.0.0.1"`),
	moved(`"gateway_ip": "10.0.0.2"`),
	moved(`"gateway_ip": "10.0.0.254"`),
	moved(`"gateway_ip": "10.0.0.0"`),
	moved(`"gateway_ip": "10.0.0.255"`),
	moved(`"gateway_ip": "10.0.1.1"`),
	moved(`"gateway_ip": "fd00::1"`),
	moved(`"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`),
	moved(`"allocation_pools": []`),
	moved(`"allocation_pools": null`),
	moved(`"allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.20"}]`),
	moved(`"gateway_ip": "10.0.0.2", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.1"}, {"start": "10.0.0.3", "end": "10.0.0.254"}]`),
	moved(`"gateway_ip": "10.0.0.254", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.253"}]`),
	moved(`"gateway_ip": "10.0.0.254", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.254"}]`),
	moved(`"gateway_ip": null, "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.254"}]`),
	moved(`"gateway_ip": null, "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.254"}]`),
	moved(`"gateway_ip": "10.0.0.2", "allocation_pools": [{"start": "10.0.0.3", "end": "10.0.1.254"}]`),

	{name: "a gateway outside the pools is accepted", script: anyNetwork +
		ipv4(`"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) + "! " + updateSubnet(`"gateway_ip": "10.0.0.9"`) + showSubnet},
	{name: "a gateway that is removed and set again", script: inSubnet("! " + updateSubnet(`"gateway_ip": null`) + "! " + updateSubnet(`"gateway_ip": "10.0.0.1"`))},
	{name: "the walkthrough's change of the gateway is refused without pools", script: anyNetwork +
		ipv4(`"cidr": "192.168.0.0/16", "gateway_ip": "192.168.0.1"`) + "! " + updateSubnet(`"gateway_ip": "192.168.1.1"`) + showSubnet},
	{name: "the walkthrough's change of the gateway is accepted with pools", script: anyNetwork +
		ipv4(`"cidr": "192.168.0.0/16", "gateway_ip": "192.168.0.1"`) + updateSubnet(`"gateway_ip": "192.168.1.1", `+
		`"allocation_pools": [{"start": "192.168.0.1", "end": "192.168.1.0"}, {"start": "192.168.1.2", "end": "192.168.255.254"}]`) + showSubnet},
	{name: "a gateway of the smallest subnet moved, with pools", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/30"`) +
		"! " + updateSubnet(`"gateway_ip": "10.0.0.2", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.1"}]`) + showSubnet},
	{name: "a gateway moved to a port's address, with pools as the controller makes them", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		"! " + updateSubnet(`"gateway_ip": "10.0.0.7", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.6"}, {"start": "10.0.0.8", "end": "10.0.0.254"}]`) + showSubnet)},
	{name: "a gateway moved, with a port elsewhere in the subnet", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		updateSubnet(`"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.8"}, {"start": "10.0.0.10", "end": "10.0.0.254"}]`) + showSubnet)},
	{name: "a gateway moved to a port's address, with pools", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		"! " + updateSubnet(`"gateway_ip": "10.0.0.7", "allocation_pools": [{"start": "10.0.0.8", "end": "10.0.0.20"}]`) + showSubnet)},
	{name: "a gateway moved to a port's address, without pools", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		updateSubnet(`"gateway_ip": "10.0.0.7"`))},
	{name: "a gateway moved to a port's address, outside the pools", script: anyNetwork +
		ipv4(`"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) +
		portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) + updateSubnet(`"gateway_ip": "10.0.0.7"`)},
	{name: "a gateway moved away from a router's port", script: inSubnet(
		portOn(`, "device_owner": "network:router_interface", "fixed_ips": [{"ip_address": "10.0.0.1"}]`) +
			updateSubnet(`"gateway_ip": null`))},
	{name: "pools moved away from a port's address", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		updateSubnet(`"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`))},
	{name: "a change with a DHCP port on it", script: inSubnet(
		`port: @admin POST ports {"port": {"network_id": "$net", "device_owner": "network:dhcp"}}` + "\n" + updateSubnet(`"enable_dhcp": false`))},
	{name: "DHCP cannot be enabled in a CIDR that it cannot serve", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/31", "enable_dhcp": false`) + updateSubnet(`"enable_dhcp": true`)},
	{name: "tags of a subnet are put", script: inSubnet(`! PUT subnets/$sub/tags {"tags": ["b"]}` + "\n" + showSubnet + showNetwork)},
}
