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

package embedded

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestASubnetHasTheAttributesOfARealOne(t *testing.T) {
	s := start(t, Options{Now: newFakeClock().Now, Projects: []Project{{Name: "samplecrd", ID: "p"}}})
	c := as(t, s, "samplecrd")
	id := c.network("")
	got := c.create("subnet", `"network_id":"`+id+`","ip_version":4,"cidr":"192.168.0.0/16"`)
	want := map[string]any{
		"name": "", "tenant_id": "p", "project_id": "p", "network_id": id, "ip_version": 4.0, "subnetpool_id": nil,
		"cidr": "192.168.0.0/16", "gateway_ip": "192.168.0.1", "enable_dhcp": true,
		"allocation_pools": []any{map[string]any{"start": "192.168.0.2", "end": "192.168.255.254"}},
		"dns_nameservers":  []any{}, "host_routes": []any{}, "ipv6_ra_mode": nil, "ipv6_address_mode": nil, "service_types": []any{},
		"description": "", "tags": []any{}, "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z", "revision_number": 0.0,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "id" })); diff != "" {
		t.Error(diff)
	}
	if subnets := c.get("network", id)["subnets"]; !cmp.Equal(subnets, []any{got["id"]}) {
		t.Errorf("the network's subnets are %v", subnets)
	}
}

func TestSubnetCreateIsAccepted(t *testing.T) {
	tests := []struct {
		name, attrs   string
		cidr, gateway string
		pools         string
	}{
		{"with host bits, which are masked", `"ip_version":4,"cidr":"192.168.77.1/24"`, "192.168.77.0/24", "192.168.77.1", "192.168.77.2-192.168.77.254"},
		{"with host bits of a large network", `"ip_version":4,"cidr":"192.169.0.1/16"`, "192.169.0.0/16", "192.169.0.1", "192.169.0.2-192.169.255.254"},
		{"with a blank before the CIDR", `"ip_version":4,"cidr":" 10.41.0.0/24"`, "10.41.0.0/24", "10.41.0.1", "10.41.0.2-10.41.0.254"},
		{"with leading zeros", `"ip_version":4,"cidr":"010.040.000.000/24"`, "10.40.0.0/24", "10.40.0.1", "10.40.0.2-10.40.0.254"},
		{"with a netmask", `"ip_version":4,"cidr":"10.42.0.0/255.255.255.0"`, "10.42.0.0/24", "10.42.0.1", "10.42.0.2-10.42.0.254"},
		{"with a gateway in the middle, which splits the pool", `"ip_version":4,"cidr":"10.0.0.0/24","gateway_ip":"10.0.0.9"`, "10.0.0.0/24", "10.0.0.9", "10.0.0.1-10.0.0.8 10.0.0.10-10.0.0.254"},
		{"with the last address as gateway", `"ip_version":4,"cidr":"10.0.0.0/24","gateway_ip":"10.0.0.254"`, "10.0.0.0/24", "10.0.0.254", "10.0.0.1-10.0.0.253"},
		{"with a gateway outside the CIDR", `"ip_version":4,"cidr":"10.0.0.0/24","gateway_ip":"10.9.9.9"`, "10.0.0.0/24", "10.9.9.9", "10.0.0.1-10.0.0.254"},
		{"without a gateway", `"ip_version":4,"cidr":"10.0.0.0/24","gateway_ip":null`, "10.0.0.0/24", "", "10.0.0.1-10.0.0.254"},
		{"with pools", `"ip_version":4,"cidr":"10.0.0.0/24","allocation_pools":[{"start":"10.0.0.5","end":"10.0.0.6"}]`, "10.0.0.0/24", "10.0.0.1", "10.0.0.5-10.0.0.6"},
		{"with IPv6, whose gateway is the first address", `"ip_version":6,"cidr":"fd00:2::/64"`, "fd00:2::/64", "fd00:2::", "fd00:2::1-fd00:2::ffff:ffff:ffff:ffff"},
		{"with IPv6 in long form", `"ip_version":6,"cidr":"FD00:0002::0/64","gateway_ip":"fd00:2::1"`, "fd00:2::/64", "fd00:2::1", "fd00:2::2-fd00:2::ffff:ffff:ffff:ffff"},
		{"with SLAAC", `"ip_version":6,"cidr":"fd00::/64","ipv6_ra_mode":"slaac","ipv6_address_mode":"slaac"`, "fd00::/64", "fd00::", "fd00::1-fd00::ffff:ffff:ffff:ffff"},
		{"with /31 but no DHCP", `"ip_version":4,"cidr":"10.0.0.0/31","enable_dhcp":false,"gateway_ip":null`, "10.0.0.0/31", "", "10.0.0.0-10.0.0.1"},
		{"with five DNS servers", `"ip_version":4,"cidr":"10.0.0.0/30","dns_nameservers":["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4","1.1.1.5"]`, "10.0.0.0/30", "10.0.0.1", "10.0.0.2-10.0.0.2"},
		{"with the version as text", `"ip_version":"4","cidr":"10.0.0.0/30"`, "10.0.0.0/30", "10.0.0.1", "10.0.0.2-10.0.0.2"},
	}
	c := newClient(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := &client{t, c.s, c.token}
			s := c.create("subnet", `"network_id":"`+c.network("")+`",`+tc.attrs)
			gateway, _ := s["gateway_ip"].(string)
			got := []string{s["cidr"].(string), gateway, poolText(s)}
			if diff := cmp.Diff([]string{tc.cidr, tc.gateway, tc.pools}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func poolText(subnet map[string]any) string {
	var pools []string
	for _, p := range subnet["allocation_pools"].([]any) {
		p := p.(map[string]any)
		pools = append(pools, fmt.Sprintf("%s-%s", p["start"], p["end"]))
	}
	return strings.Join(pools, " ")
}

func TestSubnetCreateIsRefused(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	c.subnet(id, "10.99.0.0/24")
	in := func(attrs string) string { return `"network_id":"` + id + `",` + attrs }
	v4 := func(cidr, attrs string) string { return in(`"ip_version":4,"cidr":"` + cidr + `"` + attrs) }
	const dhcp = "Invalid input for operation: Subnet has a prefix length that is incompatible with DHCP service enabled."
	overlap := func(cidr string) string {
		return "Invalid input for operation: Requested subnet with cidr: " + cidr + " for network: " + id + " overlaps with another subnet."
	}
	tests := []struct {
		name, attrs   string
		status        int
		kind, message string
	}{
		{"for the same CIDR again", v4("10.99.0.0/24", ""), 400, "InvalidInput", overlap("10.99.0.0/24")},
		{"for a supernet", v4("10.99.1.0/16", ""), 400, "InvalidInput", overlap("10.99.0.0/16")},
		{"for a part of it", v4("10.99.0.128/25", ""), 400, "InvalidInput", overlap("10.99.0.128/25")},
		{"for a gateway that is the network address", v4("10.0.0.0/24", `,"gateway_ip":"10.0.0.0"`), 400, "InvalidInput", "Invalid input for operation: Gateway is not valid on subnet."},
		{"for a gateway that is the broadcast address", v4("10.0.0.0/24", `,"gateway_ip":"10.0.0.255"`), 400, "InvalidInput", "Gateway is not valid on subnet."},
		{"for an empty gateway", v4("10.0.0.0/24", `,"gateway_ip":""`), 400, "HTTPBadRequest", "Invalid input for gateway_ip. Reason: '' is not a valid IP address."},
		{"for a gateway that is not an address", v4("10.0.0.0/24", `,"gateway_ip":"abc"`), 400, "HTTPBadRequest", "'abc' is not a valid IP address."},
		{"for a gateway of the other family", v4("10.0.0.0/24", `,"gateway_ip":"fd00::1"`), 400, "InvalidInput", "gateway_ip 'fd00::1' does not match the ip_version '4'."},
		{"for /31", v4("10.32.0.0/31", ""), 400, "InvalidInput", dhcp},
		{"for /32", v4("10.32.0.0/32", ""), 400, "InvalidInput", dhcp},
		{"for an address without a length", v4("10.30.0.0", ""), 400, "InvalidInput", dhcp},
		{"for /127 in IPv6", in(`"ip_version":6,"cidr":"fd00::/127"`), 400, "InvalidInput", dhcp},
		{"for an octet that is too large", v4("300.1.1.0/24", ""), 400, "InvalidInput", "Invalid input for operation: 300.1.1.0/24 is not in a CIDR format."},
		{"for a prefix length that is too large", v4("10.0.0.0/33", ""), 400, "InvalidInput", "is not in a CIDR format."},
		{"for a mask with holes", v4("10.0.0.0/255.0.255.0", ""), 400, "InvalidInput", "is not in a CIDR format."},
		{"for an empty CIDR", v4("", ""), 400, "InvalidInput", "is not in a CIDR format."},
		{"for a CIDR of null", in(`"ip_version":4,"cidr":null`), 500, "HTTPInternalServerError", ""},
		{"for no CIDR", in(`"ip_version":4`), 400, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr."},
		{"for an IPv6 CIDR with version 4", v4("fd00::/64", ""), 400, "InvalidInput", "cidr 'fd00::/64' does not match the ip_version '4'."},
		{"for no version", in(`"cidr":"10.0.0.0/24"`), 400, "HTTPBadRequest", "Failed to parse request. Required attribute 'ip_version' not specified"},
		{"for version 5", in(`"ip_version":5,"cidr":"10.0.0.0/24"`), 400, "HTTPBadRequest", "5 is not in valid_values"},
		{"for no network", `"ip_version":4,"cidr":"10.0.0.0/24"`, 400, "HTTPBadRequest", "Required attribute 'network_id' not specified"},
		{"for an unknown network", `"network_id":"` + newUUID() + `","ip_version":4,"cidr":"10.0.0.0/24"`, 404, "NetworkNotFound", ""},
		{"for a network that is not a UUID", `"network_id":"x","ip_version":4,"cidr":"10.0.0.0/24"`, 400, "HTTPBadRequest", "Invalid input for network_id. Reason: 'x' is not a valid UUID."},
		{"for multicast", v4("224.0.0.0/24", ""), 400, "InvalidInput", "Multicast IP subnet is not supported if enable_dhcp is True."},
		{"for loopback", v4("127.0.0.0/24", ""), 400, "InvalidInput", "Loopback IP subnet is not supported if enable_dhcp is True."},
		{"for 0.0.0.0/8", v4("0.0.0.0/8", ""), 400, "InvalidInput", "First IP '0.0.0.0' of network is not supported if enable_dhcp is True.."},
		{"for /0", v4("0.0.0.0/0", `,"enable_dhcp":false`), 400, "InvalidInput", "0 is not allowed as CIDR prefix length"},
		{"for six DNS servers", v4("10.0.0.0/24", `,"dns_nameservers":["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4","1.1.1.5","1.1.1.6"]`), 400, "DNSNameServersExhausted",
			"Unable to complete operation for new subnet. The number of DNS nameservers exceeds the limit 5."},
		{"for a DNS server twice", v4("10.0.0.0/24", `,"dns_nameservers":["8.8.8.8","8.8.8.8"]`), 400, "HTTPBadRequest", "Invalid input for dns_nameservers. Reason: Duplicate nameserver '8.8.8.8'."},
		{"for a DNS server of the other family", v4("10.0.0.0/24", `,"dns_nameservers":["fd00::1"]`), 400, "InvalidInput", "dns_nameserver 'fd00::1' does not match the ip_version '4'."},
		{"for a pool over the gateway", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.0.1","end":"10.0.0.9"}]`), 409, "GatewayConflictWithAllocationPools",
			"Gateway ip 10.0.0.1 conflicts with allocation pool 10.0.0.1-10.0.0.9."},
		{"for a pool outside", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.1.1","end":"10.0.1.9"}]`), 400, "OutOfBoundsAllocationPool",
			"The allocation pool 10.0.1.1-10.0.1.9 spans beyond the subnet cidr 10.0.0.0/24."},
		{"for a pool up to the broadcast address", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.255"}]`), 400, "OutOfBoundsAllocationPool", ""},
		{"for a pool that ends before it starts", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.0.9","end":"10.0.0.5"}]`), 400, "InvalidAllocationPool",
			"The allocation pool {'start': '10.0.0.9', 'end': '10.0.0.5'} is not valid."},
		{"for pools that overlap", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.5"},{"start":"10.0.0.5","end":"10.0.0.9"}]`), 409, "OverlappingAllocationPools", ""},
		{"for a pool without an end", v4("10.0.0.0/24", `,"allocation_pools":[{"start":"10.0.0.2"}]`), 400, "HTTPBadRequest", "Validation of dictionary's keys failed."},
		{"for a route of the other family", v4("10.0.0.0/24", `,"host_routes":[{"destination":"fd00::/64","nexthop":"10.0.0.1"}]`), 400, "InvalidInput", "destination 'fd00::/64' does not match"},
		{"for an IPv6 mode in IPv4", v4("10.0.0.0/24", `,"ipv6_ra_mode":"slaac"`), 400, "InvalidInput", "ipv6_ra_mode is not valid when ip_version is 4."},
		{"for SLAAC without /64", in(`"ip_version":6,"cidr":"fd00::/80","ipv6_ra_mode":"slaac"`), 400, "InvalidInput", "which requires the prefix to be /64."},
		{"for different IPv6 modes", in(`"ip_version":6,"cidr":"fd00::/64","ipv6_ra_mode":"slaac","ipv6_address_mode":"dhcpv6-stateful"`), 400, "InvalidInput", "they must be the same value."},
		{"for a subnet pool", in(`"ip_version":4,"subnetpool_id":"` + newUUID() + `"`), 404, "SubnetPoolNotFound", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("POST", "subnets", `{"subnet":{`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	t.Run("in bulk, for two that overlap", func(t *testing.T) {
		c.api("POST", "subnets", `{"subnets":[{`+v4("10.1.0.0/16", "")+`},{`+v4("10.1.2.0/24", "")+`}]}`).refused(t, 400, "InvalidInput", "overlaps")
	})
	if n := c.get("network", id); len(n["subnets"].([]any)) != 1 || n["revision_number"] != 2.0 {
		t.Errorf("refused, but the network was changed: %v", n)
	}
	c.subnet(c.network(""), "10.99.0.0/24") // the same CIDR in another network
}

func TestSubnetUpdate(t *testing.T) {
	c := newClient(t)
	id := c.subnet(c.network(""), "192.168.0.0/16")
	tests := []struct { // applied in sequence to one subnet
		name, attrs   string
		status        int
		kind, message string
	}{
		{"refuses a CIDR, even the same", `"cidr":"192.168.0.0/16"`, 400, "HTTPBadRequest", "Cannot update read-only attribute cidr"},
		{"refuses a network", `"network_id":"` + newUUID() + `"`, 400, "HTTPBadRequest", "Cannot update read-only attribute network_id"},
		{"refuses a gateway inside the pool", `"gateway_ip":"192.168.1.1"`, 409, "GatewayConflictWithAllocationPools",
			"Gateway ip 192.168.1.1 conflicts with allocation pool 192.168.0.2-192.168.255.254."},
		{"refuses a gateway of the other family", `"gateway_ip":"fd00::1"`, 400, "InvalidInput", "does not match the ip_version '4'"},
		{"accepts a gateway with pools around it", `"gateway_ip":"192.168.1.1","allocation_pools":[{"start":"192.168.0.1","end":"192.168.1.0"},{"start":"192.168.1.2","end":"192.168.255.254"}]`, 200, "", ""},
		{"accepts a gateway outside the subnet", `"gateway_ip":"10.0.0.1"`, 200, "", ""},
		{"accepts no gateway", `"gateway_ip":null`, 200, "", ""},
		{"accepts a gateway outside the pools", `"gateway_ip":"192.168.1.1"`, 200, "", ""},
		{"accepts the same gateway", `"gateway_ip":"192.168.1.1"`, 200, "", ""},
		{"refuses a pool over the gateway", `"allocation_pools":[{"start":"192.168.1.1","end":"192.168.1.9"}]`, 409, "GatewayConflictWithAllocationPools", ""},
		{"accepts other attributes", `"name":"n","description":"d","enable_dhcp":false,"dns_nameservers":["9.9.9.9"],"host_routes":[{"destination":"10.0.0.0/8","nexthop":"192.168.0.9"}]`, 200, "", ""},
		{"refuses too many DNS servers", `"dns_nameservers":["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4","1.1.1.5","1.1.1.6"]`, 400, "DNSNameServersExhausted", "Unable to complete operation for " + id},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("PUT", "subnets/"+id, `{"subnet":{`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	got := c.get("subnet", id)
	want := map[string]any{"name": "n", "description": "d", "enable_dhcp": false, "gateway_ip": "192.168.1.1", "revision_number": 6.0,
		"dns_nameservers": []any{"9.9.9.9"}, "host_routes": []any{map[string]any{"destination": "10.0.0.0/8", "nexthop": "192.168.0.9"}}}
	for k, v := range want {
		if !cmp.Equal(v, got[k]) {
			t.Errorf("%s: got %v, want %v", k, got[k], v)
		}
	}
	if pools := poolText(got); pools != "192.168.0.1-192.168.1.0 192.168.1.2-192.168.255.254" {
		t.Errorf("pools %s", pools)
	}
}

func TestOnlyOneOfConcurrentOverlappingSubnetsIsCreated(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	statuses := make(chan int, 8)
	for i := range 8 {
		go func() {
			r, _ := c.try("POST", "/networking/v2.0/subnets", fmt.Sprintf(`{"subnet":{"network_id":%q,"ip_version":4,"cidr":"10.0.0.0/%d"}}`, id, 16+i))
			statuses <- r.status
		}()
	}
	count := map[int]int{}
	for range 8 {
		count[<-statuses]++
	}
	if diff := cmp.Diff(map[int]int{201: 1, 400: 7}, count); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultPoolsAtTheEdges(t *testing.T) {
	for _, tc := range []struct{ name, cidr, gateway, want string }{
		{"a single address", "10.0.0.7/32", "", "10.0.0.7-10.0.0.7"},
		{"the end of IPv4", "255.255.255.254/31", "", "255.255.255.254-255.255.255.255"},
		{"a /30 without a gateway", "10.0.0.0/30", "", "10.0.0.1-10.0.0.2"},
		{"a /31 with its second address as gateway", "10.0.0.0/31", "10.0.0.1", "10.0.0.0-10.0.0.0"},
		{"the end of IPv6", "ffff::/16", "ffff::", "ffff::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gateway, _ := netip.ParseAddr(tc.gateway)
			var got []string
			for _, p := range defaultPools(netip.MustParsePrefix(tc.cidr), gateway) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
