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
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addresses returns the IP addresses of a port, in the port's order.
func addresses(port map[string]any) []string { return addressesOf(port["fixed_ips"]) }

func addressesOf(fixedIPs any) []string {
	all := []string{}
	for _, f := range fixedIPs.([]any) {
		all = append(all, f.(map[string]any)["ip_address"].(string))
	}
	return all
}

func TestAPortGetsAnAddressOfEachFamily(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	if got := addresses(c.port(id, "")); len(got) > 0 {
		t.Errorf("a port of a network without subnets has %q", got)
	}
	c.subnet(id, "10.0.0.0/24")
	c.subnet(id, "10.0.1.0/24")
	c.create("subnet", `"network_id":"`+id+`","ip_version":6,"cidr":"fd00::/64"`)
	c.create("subnet", `"network_id":"`+id+`","ip_version":6,"cidr":"fd00:1::/64","ipv6_ra_mode":"slaac","ipv6_address_mode":"slaac"`)
	p := c.port(id, `,"mac_address":"fa:16:3e:00:00:01"`)
	if diff := cmp.Diff([]string{"fd00:1::f816:3eff:fe00:1", "10.0.0.2", "fd00::1"}, addresses(p)); diff != "" {
		t.Error(diff)
	}
	if p["status"] != "DOWN" || p["binding:vnic_type"] != "normal" || p["binding:host_id"] != nil {
		t.Errorf("port %v", p)
	}
}

func TestPortCreateIsRefused(t *testing.T) {
	c := newClient(t)
	id, other := c.network(""), c.network("")
	sub, foreign := c.subnet(id, "10.0.0.0/30"), c.subnet(other, "10.5.0.0/24")
	c.port(id, `,"mac_address":"fa:16:3e:00:00:01"`) // takes 10.0.0.2, the only address
	tests := []struct {
		name, attrs   string
		status        int
		kind, message string
	}{
		{"when the pool is exhausted", ``, 409, "IpAddressGenerationFailure", "No more IP addresses available on network " + id + "."},
		{"when the requested subnet is exhausted", `,"fixed_ips":[{"subnet_id":"` + sub + `"}]`, 409, "IpAddressGenerationFailure", ""},
		{"for an address in use", `,"fixed_ips":[{"ip_address":"10.0.0.2"}]`, 409, "IpAddressAlreadyAllocated", "IP address 10.0.0.2 already allocated in subnet " + sub},
		{"for an address outside the subnet", `,"fixed_ips":[{"subnet_id":"` + sub + `","ip_address":"10.9.0.1"}]`, 400, "InvalidIpForSubnet", "IP address 10.9.0.1 is not a valid IP for the specified subnet."},
		{"for an address outside the network", `,"fixed_ips":[{"ip_address":"10.9.0.1"}]`, 400, "InvalidIpForNetwork", ""},
		{"for a broadcast address", `,"fixed_ips":[{"ip_address":"10.0.0.3"}]`, 400, "InvalidIpForNetwork", ""},
		{"for a subnet of another network", `,"fixed_ips":[{"subnet_id":"` + foreign + `"}]`, 400, "InvalidInput", "because fixed_ips included invalid subnet"},
		{"for a subnet that is not a UUID", `,"fixed_ips":[{"subnet_id":"x"}]`, 400, "HTTPBadRequest", "'x' is not a valid UUID"},
		{"for an unknown subnet", `,"fixed_ips":[{"subnet_id":"` + newUUID() + `"}]`, 404, "SubnetNotFound", ""},
		{"for an address twice", `,"fixed_ips":[{"ip_address":"10.0.0.1"},{"ip_address":"10.0.0.1"}]`, 400, "HTTPBadRequest", "Duplicate IP address '10.0.0.1'"},
		{"for a MAC address in use", `,"fixed_ips":[],"mac_address":"FA:16:3E:00:00:01"`, 409, "MacAddressInUse", "The mac address fa:16:3e:00:00:01 is in use."},
		{"for an invalid MAC address", `,"mac_address":"x"`, 400, "HTTPBadRequest", "'x' is not a valid MAC address"},
		{"for a host, by a member", `,"binding:host_id":"h"`, 403, "PolicyNotAuthorized", "rule:create_port:binding:host_id"},
		{"for security groups, which do not exist here", `,"security_groups":[]`, 400, "HTTPBadRequest", "Unrecognized attribute(s) 'security_groups'"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("POST", "ports", `{"port":{"network_id":"`+id+`"`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	c.api("POST", "ports", `{"port":{"network_id":"`+newUUID()+`"}}`).refused(t, 404, "NetworkNotFound", "")
	c.api("POST", "ports", `{"port":{}}`).refused(t, 400, "HTTPBadRequest", "Required attribute 'network_id' not specified")
}

func TestPortUpdateMovesAddresses(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	sub := c.subnet(id, "10.0.0.0/24")
	port := c.port(id, "")["id"].(string)
	for _, tc := range []struct{ name, fixed, want string }{
		{"a second one is added and the first one kept", `{"subnet_id":"` + sub + `"},{"ip_address":"10.0.0.9"}`, "[10.0.0.2 10.0.0.9]"},
		{"one is released", `{"ip_address":"10.0.0.9"}`, "[10.0.0.9]"},
		{"all are released", ``, "[]"},
	} {
		r := c.api("PUT", "ports/"+port, `{"port":{"fixed_ips":[`+tc.fixed+`]}}`)
		r.want(t, 200)
		if got := fmt.Sprint(addresses(r.json["port"].(map[string]any))); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := addresses(c.port(id, "")); !cmp.Equal(got, []string{"10.0.0.2"}) {
		t.Errorf("a released address was not allocated again: %q", got)
	}
}

func TestASubnetWithOnlyDHCPPortsOrAutomaticAddressesCanBeDeleted(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	sub := c.subnet(id, "10.0.0.0/24")
	dhcp := c.port(id, `,"device_owner":"network:dhcp"`)["id"].(string)
	c.api("DELETE", "subnets/"+sub, "").want(t, 204)
	if p := c.get("port", dhcp); len(addresses(p)) > 0 || p["revision_number"] != 2.0 {
		t.Errorf("the DHCP port still has its address: %v", p)
	}
	slaac := c.create("subnet", `"network_id":"`+id+`","ip_version":6,"cidr":"fd00::/64","ipv6_address_mode":"slaac"`)["id"].(string)
	c.port(id, "")
	c.api("DELETE", "subnets/"+slaac, "").want(t, 204)
	c.api("DELETE", "subnets/"+slaac, "").refused(t, 404, "SubnetNotFound", "Subnet "+slaac+" could not be found.")
}
