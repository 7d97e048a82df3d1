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
	"slices"
	"testing"
)

// distributed starts a cloud whose routers are distributed.
func distributed(t *testing.T) (*client, string) {
	t.Helper()
	s := start(t, Options{
		Projects:        []Project{{Name: "samplecrd", ID: "p"}},
		ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/24")},
	})
	s.SetDistributed(true)
	c := as(t, s, "samplecrd")
	return c, c.externalNetwork("public")
}

// owners returns the device owners of the ports on a network, with the number of their addresses.
func (c *client) owners(network string) []string {
	c.t.Helper()
	all := []string{}
	for _, p := range c.list("port", "network_id="+network) {
		all = append(all, fmt.Sprintf("%s %d", p["device_owner"], len(p["fixed_ips"].([]any))))
	}
	slices.Sort(all)
	return all
}

// The contract in hack/contract has these answers of the real Neutron.
func TestADistributedRouterHasAPortBesideEachInterface(t *testing.T) {
	c, external := distributed(t)
	network := c.network("")
	a, b := c.subnet(network, "10.0.0.0/24"), c.subnet(network, "10.1.0.0/24")
	v6, v6b := c.subnet6(network, "fd00:a::/64", slaac), c.subnet6(network, "fd00:b::/64", slaac)
	router := c.router("")
	wants := func(want ...string) {
		t.Helper()
		if got := c.owners(network); !slices.Equal(want, got) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	c.attach(router, a)
	c.attach(router, v6)
	wants(distributedOwner+" 1", distributedOwner+" 1")
	gateway := func(info string) {
		t.Helper()
		c.api("PUT", "routers/"+router, `{"router":{"external_gateway_info":`+info+`}}`).want(t, 200)
	}
	gateway(`{"network_id":"` + external + `"}`)
	wants(snatOwner+" 1", snatOwner+" 1", distributedOwner+" 1", distributedOwner+" 1")
	c.add(router, bySubnet(v6b)).want(t, 200)
	c.attach(router, b)
	wants(snatOwner+" 1", snatOwner+" 1", snatOwner+" 2", distributedOwner+" 1", distributedOwner+" 1", distributedOwner+" 2")
	for _, p := range c.list("port", "device_owner="+snatOwner) {
		if p["project_id"] != "" || p["device_id"] != router {
			t.Errorf("got %v", p)
		}
		c.api("DELETE", "ports/"+p["id"].(string), "").refused(t, 409, "ServicePortInUse", "")
	}
	c.api("DELETE", "subnets/"+b, "").refused(t, 409, "SubnetInUse", "")
	c.remove(router, bySubnet(v6)).want(t, 200)
	c.remove(router, bySubnet(b)).want(t, 200)
	wants(snatOwner+" 1", snatOwner+" 1", distributedOwner+" 1", distributedOwner+" 1")
	gateway("null")
	wants(distributedOwner+" 1", distributedOwner+" 1")
	gateway(`{"network_id":"` + external + `"}`)
	c.remove(router, bySubnet(a)).want(t, 200)
	c.remove(router, bySubnet(v6b)).want(t, 200)
	wants()
	c.api("DELETE", "networks/"+network, "").want(t, 204)
	c.api("DELETE", "routers/"+router, "").want(t, 204)
}

func TestAFloatingIPThatForwardsPortsKeepsTheInterface(t *testing.T) {
	c, external := routed(t)
	f := c.floating(external)
	fip := c.create("floatingip", `"floating_network_id":"`+external+`"`)["id"].(string)
	forwardings := "floatingips/" + fip + "/port_forwardings"
	forward := func() string {
		t.Helper()
		r := c.api("POST", forwardings, `{"port_forwarding":{"protocol":"tcp","internal_port_id":"`+f.port+`","internal_port":80,"external_port":8080}}`)
		r.want(t, 201)
		return r.json["port_forwarding"].(map[string]any)["id"].(string)
	}
	id := forward()
	got := c.get("floatingip", fip)
	if got["router_id"] != f.router || got["fixed_ip_address"] != nil || got["port_id"] != nil || len(got["port_forwardings"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	c.remove(f.router, bySubnet(f.subnet)).refused(t, 409, "RouterInterfaceInUseByFloatingIP", "")
	c.api("PUT", "routers/"+f.router, `{"router":{"external_gateway_info":null}}`).refused(t, 409, "RouterExternalGatewayInUseByFloatingIp", "")
	c.api("DELETE", "floatingips/"+fip, "").refused(t, 409, "FipInUseByPortForwarding", "")
	c.api("PUT", "floatingips/"+fip, `{"floatingip":{"port_id":"`+f.port+`"}}`).refused(t, 409, "FipInUseByPortForwarding", "")
	c.api("GET", forwardings, "").want(t, 404)
	c.api("DELETE", forwardings+"/x", "").refused(t, 404, "PortForwardingNotFound", "")
	c.api("DELETE", forwardings+"/"+id, "").want(t, 204)
	if got := c.get("floatingip", fip); got["router_id"] != nil {
		t.Errorf("got %v", got)
	}
	forward()
	c.api("DELETE", "ports/"+f.port, "").want(t, 204)
	if got := c.get("floatingip", fip); got["router_id"] != nil || got["port_forwardings"] != nil {
		t.Errorf("got %v", got)
	}
	c.remove(f.router, bySubnet(f.subnet)).want(t, 200)
}
