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
	"github.com/google/go-cmp/cmp/cmpopts"
)

// floating is a network with a machine's port that a floating IP can lead to.
type floating struct {
	router, network, subnet, port string
}

func (c *client) floating(external string) floating {
	c.t.Helper()
	f := floating{router: c.router(external), network: c.network("")}
	f.subnet = c.subnet(f.network, "10.0.0.0/24")
	c.attach(f.router, f.subnet)
	f.port = c.port(f.network, "")["id"].(string)
	return f
}

func (c *client) floatingIP(external, port string) map[string]any {
	c.t.Helper()
	return c.create("floatingip", `"floating_network_id":"`+external+`","port_id":"`+port+`"`)
}

func TestAFloatingIPHasTheAttributesOfARealOne(t *testing.T) {
	c, external := routed(t)
	f := c.floating(external)
	got := c.floatingIP(external, f.port)
	want := map[string]any{
		"floating_network_id": external, "floating_ip_address": "198.18.0.3", "fixed_ip_address": "10.0.0.2", "port_id": f.port, "router_id": f.router,
		"status": "DOWN", "project_id": "p", "tenant_id": "p", "description": "", "tags": []any{}, "dns_name": "", "dns_domain": "", "revision_number": 0.0,
	}
	ignored := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "id" || k == "created_at" || k == "updated_at" })
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	free := c.create("floatingip", `"floating_network_id":"`+external+`"`)
	if free["port_id"] != nil || free["router_id"] != nil || free["fixed_ip_address"] != nil {
		t.Errorf("without a port: %v", free)
	}
	for query, want := range map[string]int{
		"": 2, "router_id=" + f.router: 1, "port_id=" + f.port: 1, "port_id=x": 0, "floating_network_id=" + external: 2, "fixed_ip_address=10.0.0.2": 1,
		"floating_ip_address=198.18.0.3": 1, "status=DOWN": 2, "id=" + free["id"].(string): 1, "description=": 2,
	} {
		if all := c.list("floatingip", query); len(all) != want {
			t.Errorf("%s: %d, want %d", query, len(all), want)
		}
	}
	c.api("GET", "floatingips?name=x", "").refused(t, 400, "HTTPBadRequest", "")
	if got := as(t, c.s, "other").list("floatingip", ""); len(got) > 0 {
		t.Errorf("another project sees %v", got)
	}
}

func TestFloatingIPCreateIsRefused(t *testing.T) {
	c, external := routed(t)
	f := c.floating(external)
	c.floatingIP(external, f.port)
	alone := c.network("")
	unreachable := c.subnet(alone, "10.1.0.0/24")
	lost := c.port(alone, "")["id"].(string)
	bare := c.port(alone, `,"fixed_ips":[]`)["id"].(string)
	two := c.port(alone, `,"fixed_ips":[{"ip_address":"10.1.0.8"},{"ip_address":"10.1.0.9"}]`)["id"].(string)
	dhcp := c.port(f.network, `,"device_owner":"network:dhcp"`)["id"].(string)
	admin := as(t, c.s, "admin")
	empty := admin.network(`"router:external":true`)
	on := func(network, attrs string) string { return `"floating_network_id":"` + network + `"` + attrs }
	tests := []struct {
		name, attrs   string
		status        int
		kind, message string
	}{
		{"without a network", ``, 400, "HTTPBadRequest", "Required attribute 'floating_network_id' not specified"},
		{"for an unknown network", on(newUUID(), ""), 404, "NetworkNotFound", ""},
		{"for a network that is not external", on(alone, ""), 400, "BadRequest", "Bad floatingip request: Network " + alone + " is not a valid external network."},
		{"for an external network without a subnet", on(empty, ""), 400, "BadRequest", "Network " + empty + " does not contain any IPv4 subnet."},
		{"for an address, by a member", on(external, `,"floating_ip_address":"198.18.0.9"`), 403, "PolicyNotAuthorized", "rule:create_floatingip:floating_ip_address"},
		{"for an unknown port", on(external, `,"port_id":"`+newUUID()+`"`), 404, "PortNotFound", ""},
		{"when no router connects", on(external, `,"port_id":"`+lost+`"`), 404, "ExternalGatewayForFloatingIPNotFound",
			"External network " + external + " is not reachable from subnet " + unreachable + ".  Therefore, cannot associate Port " + lost + " with a Floating IP."},
		{"for a port without an address", on(external, `,"port_id":"`+bare+`"`), 400, "BadRequest", "has no fixed IPv4 addresses."},
		{"for a port with two addresses", on(external, `,"port_id":"`+two+`"`), 400, "BadRequest", "has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address"},
		{"for another address", on(external, `,"port_id":"`+f.port+`","fixed_ip_address":"10.0.0.99"`), 400, "BadRequest", "does not have fixed ip 10.0.0.99."},
		{"for an IPv6 address", on(external, `,"port_id":"`+f.port+`","fixed_ip_address":"fd00::1"`), 400, "BadRequest", "since that is not an IPv4 address."},
		{"for an address without a port", on(external, `,"fixed_ip_address":"10.0.0.2"`), 400, "BadRequest", "fixed_ip_address cannot be specified without a port_id."},
		{"for the port of a DHCP agent", on(external, `,"port_id":"`+dhcp+`"`), 400, "BadRequest", "is unable to be assigned a floating IP."},
		{"for a port that has one", on(external, `,"port_id":"`+f.port+`"`), 409, "FloatingIPPortAlreadyAssociated", "as that fixed IP already has a floating IP on external network " + external + "."},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("POST", "floatingips", `{"floatingip":{`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	if got := c.list("floatingip", ""); len(got) != 1 {
		t.Errorf("refused, but created: %v", got)
	}
	if got := admin.list("port", "device_owner=network:floatingip"); len(got) != 1 {
		t.Errorf("refused, but ports are left: %v", got)
	}
	c.api("GET", "floatingips/x", "").refused(t, 404, "FloatingIPNotFound", "Floating IP x could not be found")
	admin.subnet(empty, "198.19.0.0/30")
	admin.router(empty)
	c.api("POST", "floatingips", `{"floatingip":{`+on(empty, "")+`}}`).refused(t, 409, "IpAddressGenerationFailure", "")
}

func TestAFloatingIPBlocksItsInterfaceAndItsGateway(t *testing.T) {
	c, external := routed(t)
	admin := as(t, c.s, "admin")
	second := admin.network(`"router:external":true`)
	f := c.floating(external)
	id := c.floatingIP(external, f.port)["id"].(string)
	other := c.subnet(f.network, "10.0.1.0/24")
	c.attach(f.router, other)
	gatewayInUse := "Gateway cannot be updated for router " + f.router + ", since a gateway to external network " + external + " is required by one or more floating IPs."
	blocked := func() {
		t.Helper()
		c.remove(f.router, bySubnet(f.subnet)).refused(t, 409, "RouterInterfaceInUseByFloatingIP",
			"Router interface for subnet "+f.subnet+" on router "+f.router+" cannot be deleted, as it is required by one or more floating IPs.")
		for _, info := range []string{`{}`, `null`, `{"network_id":"` + second + `"}`} {
			c.api("PUT", "routers/"+f.router, `{"router":{"external_gateway_info":`+info+`}}`).refused(t, 409, "RouterExternalGatewayInUseByFloatingIp", gatewayInUse)
		}
	}
	blocked()
	c.remove(f.router, bySubnet(other)).want(t, 200)
	c.api("PUT", "routers/"+f.router, `{"router":{"external_gateway_info":{"network_id":"`+external+`"}}}`).want(t, 200)
	admin.api("DELETE", "networks/"+external, "").refused(t, 409, "NetworkInUse", "")
	// It blocks no more once it leads nowhere, and again when it leads to the port.
	put := func(attrs string) {
		t.Helper()
		c.api("PUT", "floatingips/"+id, `{"floatingip":{`+attrs+`}}`).want(t, 200)
	}
	put(`"port_id":null`)
	c.remove(f.router, bySubnet(f.subnet)).want(t, 200)
	c.attach(f.router, f.subnet)
	put(`"port_id":"` + f.port + `"`)
	put(`"description":"d"`)
	blocked()
	if got := c.get("floatingip", id); got["port_id"] != f.port || got["description"] != "d" || got["router_id"] != f.router {
		t.Errorf("floating IP %v", got)
	}
	c.api("DELETE", "ports/"+f.port, "").want(t, 204)
	if got := c.get("floatingip", id); got["port_id"] != nil || got["router_id"] != nil || got["fixed_ip_address"] != nil {
		t.Errorf("after the port is deleted: %v", got)
	}
	c.api("DELETE", "floatingips/"+id, "").want(t, 204)
	c.api("DELETE", "floatingips/"+id, "").refused(t, 404, "FloatingIPNotFound", "Floating IP "+id+" could not be found")
	if got := admin.list("port", "device_owner=network:floatingip"); len(got) > 0 {
		t.Errorf("ports are left: %v", got)
	}
	c.remove(f.router, bySubnet(f.subnet)).want(t, 200)
	c.api("PUT", "routers/"+f.router, `{"router":{"external_gateway_info":{}}}`).want(t, 200)
}

// Of two routers that connect a subnet, the one at its gateway serves the floating IP.
func TestTheRouterAtTheGatewayServesAFloatingIP(t *testing.T) {
	c, external := routed(t)
	network := c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	vm := c.port(network, "")["id"].(string)
	for i := range 4 {
		side := c.port(network, fmt.Sprintf(`,"fixed_ips":[{"ip_address":"10.0.0.%d"}]`, 100+i))["id"].(string)
		c.add(c.router(external), byPort(side)).want(t, 200)
	}
	first := c.floatingIP(external, vm)
	c.api("DELETE", "floatingips/"+first["id"].(string), "").want(t, 204)
	router := c.router(external)
	c.attach(router, subnet)
	if got := c.floatingIP(external, vm); got["router_id"] != router || first["router_id"] == nil {
		t.Errorf("got %v and before %v, want %s", got["router_id"], first["router_id"], router)
	}
}

func TestAnExternalNetworkIsDeletedWithItsFreeFloatingIPs(t *testing.T) {
	c, external := routed(t)
	id := c.create("floatingip", `"floating_network_id":"`+external+`"`)["id"].(string)
	as(t, c.s, "admin").api("DELETE", "networks/"+external, "").want(t, 204)
	c.api("GET", "floatingips/"+id, "").want(t, 404)
}
