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

// addressRows test the gateway and the pools, given or by default, in all kinds of CIDRs.
var addressRows = func() []row {
	var all []row
	add := func(version int, cidr, more string) {
		attributes := fmt.Sprintf(`"ip_version": %d, "cidr": %q%s`, version, cidr, more)
		all = append(all, row{name: "addresses of " + attributes, script: anyNetwork + subnetOf(attributes)})
	}
	for _, cidr := range []string{
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/28", "10.0.0.0/29", "10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32",
		"10.0.0.128/25", "0.0.0.0/0", "0.0.0.0/8", "10.0.0.0/0", "127.0.0.0/8", "224.0.0.0/4", "239.1.0.0/16", "240.0.0.0/4", "169.254.0.0/16", "255.255.255.0/24",
		"192.168.77.1/24", "192.169.0.1/16", " 10.41.0.0/24", "10.41.0.0/24 ", "010.040.000.000/24", "10.0.0.0/255.255.255.0", "10.0.0.0",
		"10.0/16", "10.0.0.0/33", "10.0.0.0/-1", "300.1.1.0/24", "10.0.0.0/", "/24", "10.0.0.0/24/24", "fd00::/129",
	} {
		add(4, cidr, "")
	}
	for _, cidr := range []string{"10.0.0.0/31", "10.0.0.0/32", "224.0.0.0/4", "127.0.0.0/8", "0.0.0.0/8", "10.0.0.0", "0.0.0.0/0"} {
		add(4, cidr, `, "enable_dhcp": false`)
	}
	for _, cidr := range []string{
		"fd00:2::/64", "fd00:2::/48", "fd00:2::/120", "fd00:2::/126", "fd00:2::/127", "fd00:2::/128", "fd00:2::1/64", "FD00:2:0:0::/64",
		"fe80::/64", "ff02::/64", "::1/128", "::/64", "::/0", "::ffff:10.0.0.0/120", "fd00::",
	} {
		add(6, cidr, "")
	}
	for _, cidr := range []string{"fd00:2::/127", "fd00:2::/128", "ff02::/64", "fd00::"} {
		add(6, cidr, `, "enable_dhcp": false`)
	}
	for _, gateway := range []string{`null`, `""`, `"x"`, `7`, `"10.0.0.0"`, `"10.0.0.1"`, `"10.0.0.2"`, `"10.0.0.100"`, `"10.0.0.254"`, `"10.0.0.255"`,
		`"10.0.1.1"`, `"fd00::1"`, `"010.0.0.1"`, `"10.0.0.1/24"`, `" 10.0.0.1"`, `"0.0.0.0"`, `"224.0.0.1"`} {
		add(4, "10.0.0.0/24", `, "gateway_ip": `+gateway)
	}
	for _, cidr := range []string{"10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32"} {
		for _, gateway := range []string{`null`, `"10.0.0.0"`, `"10.0.0.1"`, `"10.0.0.2"`} {
			add(4, cidr, `, "enable_dhcp": false, "gateway_ip": `+gateway)
		}
	}
	for _, gateway := range []string{`null`, `"fd00:2::"`, `"fd00:2::1"`, `"FD00:2:0::1"`, `"fd00:2::ffff:ffff:ffff:ffff"`, `"fd00:3::1"`, `"fe80::1"`, `"10.0.0.1"`} {
		add(6, "fd00:2::/64", `, "gateway_ip": `+gateway)
	}
	for _, cidr := range []string{"fd00:2::/127", "fd00:2::/128"} {
		for _, gateway := range []string{`null`, `"fd00:2::"`, `"fd00:2::1"`} {
			add(6, cidr, `, "enable_dhcp": false, "gateway_ip": `+gateway)
		}
	}
	for _, pools := range []string{
		`[]`, `null`, `"x"`, `["x"]`, `[{"start": "10.0.0.10"}]`, `[{"start": "10.0.0.10", "end": "x"}]`, `[{"start": "10.0.0.20", "end": "10.0.0.10"}]`,
		`[{"start": "10.0.0.0", "end": "10.0.0.10"}]`, `[{"start": "10.0.0.10", "end": "10.0.0.255"}]`, `[{"start": "10.0.1.1", "end": "10.0.1.2"}]`,
		`[{"start": "10.0.0.1", "end": "10.0.0.10"}]`, `[{"start": "10.0.0.5", "end": "10.0.0.5"}]`, `[{"start": "fd00::1", "end": "fd00::2"}]`,
		`[{"start": "10.0.0.20", "end": "10.0.0.30"}, {"start": "10.0.0.2", "end": "10.0.0.10"}]`,
		`[{"start": "10.0.0.2", "end": "10.0.0.10"}, {"start": "10.0.0.10", "end": "10.0.0.20"}]`,
		`[{"start": "10.0.0.2", "end": "10.0.0.10"}, {"start": "10.0.0.11", "end": "10.0.0.20"}]`,
	} {
		add(4, "10.0.0.0/24", `, "allocation_pools": `+pools)
	}
	add(4, "10.0.0.0/24", `, "gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.20"}]`)
	add(4, "10.0.0.0/24", `, "gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`)
	add(4, "10.0.0.0/24", `, "gateway_ip": null, "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.20"}]`)
	add(6, "fd00:2::/64", `, "allocation_pools": [{"start": "fd00:2::10", "end": "fd00:2::20"}]`)
	add(6, "fd00:2::/64", `, "allocation_pools": [{"start": "fd00:2::", "end": "fd00:2::20"}]`)
	add(6, "fd00:2::/64", `, "gateway_ip": null, "allocation_pools": [{"start": "fd00:2::", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`)
	all = append(all, edgeRows()...)
	return append(all, ipv6ChangeRows()...)
}()

// edgeRows test CIDRs at the edges of what Neutron accepts, with each kind of gateway that the
// controller requests.
func edgeRows() []row {
	var all []row
	for _, edge := range []struct {
		version       int
		cidr, gateway string
	}{
		{4, "0.0.0.0/1", "1.2.3.4"}, {4, "128.0.0.0/1", "128.0.0.9"}, {4, "0.1.0.0/16", "0.1.0.9"}, {4, "0.255.0.0/30", "0.255.0.2"}, {4, "1.0.0.0/8", "1.0.0.9"},
		{4, "64.0.0.0/2", "64.0.0.9"}, {4, "126.0.0.0/7", "126.0.0.9"}, {4, "127.1.0.0/16", "127.1.0.9"}, {4, "127.0.0.1/32", "127.0.0.1"},
		{4, "192.0.0.0/2", "192.0.0.9"}, {4, "224.0.0.0/3", "224.0.0.9"}, {4, "224.0.0.0/24", "224.0.0.9"}, {4, "239.255.255.0/24", "239.255.255.9"},
		{4, "248.0.0.0/5", "248.0.0.9"}, {4, "255.255.255.252/30", "255.255.255.253"}, {4, "255.255.255.254/31", "255.255.255.254"}, {4, "255.255.255.255/32", "255.255.255.255"},
		{4, "169.254.0.0/30", "169.254.0.2"}, {4, "10.0.0.0/30", "10.0.0.2"},
		{6, "::/1", "::9"}, {6, "8000::/1", "8000::9"}, {6, "::/112", "::9"}, {6, "::/126", "::2"}, {6, "::/127", "::1"}, {6, "::/128", "::"},
		{6, "fe80::/10", "fe80::9"}, {6, "fe80::/126", "fe80::2"}, {6, "fe00::/7", "fe00::9"}, {6, "f000::/4", "f000::9"}, {6, "ff00::/8", "ff00::9"}, {6, "ff02::/126", "ff02::2"},
		{6, "::ffff:0.0.0.0/96", "::ffff:1.2.3.4"}, {6, "::ffff:127.0.0.0/120", "::ffff:127.0.0.9"}, {6, "::ffff:224.0.0.0/120", "::ffff:224.0.0.9"}, {6, "::ffff:0.0.0.0/126", "::ffff:0.0.0.2"},
		{4, "0.0.0.0/0", "1.2.3.4"}, {6, "::/0", "::9"},
	} {
		for _, gateway := range []string{"", `, "gateway_ip": null`, fmt.Sprintf(`, "gateway_ip": %q`, edge.gateway), `, "enable_dhcp": false`} {
			attributes := fmt.Sprintf(`"ip_version": %d, "cidr": %q%s`, edge.version, edge.cidr, gateway)
			all = append(all, row{name: "an edge of " + attributes, script: anyNetwork + subnetOf(attributes)})
		}
	}
	// Neutron itself uses ::/64 until a prefix is delegated.
	return append(all, row{name: "::/64 does not overlap", script: anyNetwork + ipv6(`"cidr": "::/64"`) + ipv6(`"cidr": "::/48"`) + ipv6(`"cidr": "::/64"`)})
}

// ipv6ChangeRows change the gateway of fd00:2::/64.
func ipv6ChangeRows() []row {
	var all []row
	for _, change := range []string{
		`"gateway_ip": null`, `"gateway_ip": "fd00:2::"`, `"gateway_ip": "fd00:2::1"`, `"gateway_ip": "fd00:3::1"`, `"gateway_ip": "fe80::1"`,
		`"gateway_ip": "10.0.0.1"`, `"gateway_ip": "fd00:2::ffff:ffff:ffff:ffff"`,
		`"gateway_ip": "fd00:2::1", "allocation_pools": [{"start": "fd00:2::2", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`,
		`"gateway_ip": "fd00:2::", "allocation_pools": [{"start": "fd00:2::1", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`,
		`"gateway_ip": null, "allocation_pools": [{"start": "fd00:2::1", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`,
		`"gateway_ip": "fd00:2::9", "allocation_pools": [{"start": "fd00:2::1", "end": "fd00:2::8"}, {"start": "fd00:2::a", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`,
	} {
		all = append(all, row{name: "a change of fd00:2::/64 to " + change,
			script: anyNetwork + ipv6(`"cidr": "fd00:2::/64"`) + "! " + updateSubnet(change) + showSubnet})
	}
	all = append(all, row{name: "a gateway of IPv6 moved to a port's address, with pools", script: anyNetwork + ipv6(`"cidr": "fd00:2::/64"`) +
		portOn(`, "fixed_ips": [{"ip_address": "fd00:2::7"}]`) + "! " + updateSubnet(`"gateway_ip": "fd00:2::7", "allocation_pools": `+
		`[{"start": "fd00:2::1", "end": "fd00:2::6"}, {"start": "fd00:2::8", "end": "fd00:2::ffff:ffff:ffff:ffff"}]`) + showSubnet})
	return append(all, row{name: "a change of fd00:2::/64 from ::1 to its first address", script: anyNetwork +
		ipv6(`"cidr": "fd00:2::/64", "gateway_ip": "fd00:2::1"`) + "! " + updateSubnet(`"gateway_ip": "fd00:2::"`) + showSubnet})
}
