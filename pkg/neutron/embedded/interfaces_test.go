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
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// add and remove send one body to a router's actions.
func (c *client) add(router, body string) reply {
	c.t.Helper()
	return c.api("PUT", "routers/"+router+"/add_router_interface", body)
}

func (c *client) remove(router, body string) reply {
	c.t.Helper()
	return c.api("PUT", "routers/"+router+"/remove_router_interface", body)
}

func bySubnet(id string) string { return `{"subnet_id":"` + id + `"}` }
func byPort(id string) string   { return `{"port_id":"` + id + `"}` }

// subnet6 creates an IPv6 subnet; attrs begin with a comma.
func (c *client) subnet6(network, cidr, attrs string) string {
	c.t.Helper()
	return c.create("subnet", fmt.Sprintf(`"network_id":%q,"ip_version":6,"cidr":%q%s`, network, cidr, attrs))["id"].(string)
}

const slaac = `,"ipv6_ra_mode":"slaac","ipv6_address_mode":"slaac"`

func TestAddRouterInterfaceIsRefused(t *testing.T) {
	c, external := routed(t)
	router, other := c.router(external), c.router("")
	network := c.network("")
	attached := c.subnet(network, "10.0.0.0/24")
	port := c.attach(router, attached)
	sameCIDR := c.subnet(c.network(""), "10.0.0.128/25")
	likeExternal := c.subnet(c.network(""), "198.18.0.0/28")
	withoutGateway := c.create("subnet", `"network_id":"`+network+`","ip_version":4,"cidr":"10.1.0.0/24","gateway_ip":null`)["id"].(string)
	outside := c.create("subnet", `"network_id":"`+network+`","ip_version":4,"cidr":"10.2.0.0/24","gateway_ip":"10.9.9.9"`)["id"].(string)
	linkLocal := c.subnet6(network, "fd00:9::/64", `,"gateway_ip":"fe80::1"`)
	taken := c.subnet(network, "10.3.0.0/24")
	c.port(network, `,"fixed_ips":[{"ip_address":"10.3.0.1"}]`)
	bare := c.port(network, `,"fixed_ips":[]`)["id"].(string)
	second := c.port(network, `,"fixed_ips":[{"ip_address":"10.0.0.77"}]`)["id"].(string)
	two := c.port(network, `,"fixed_ips":[{"ip_address":"10.1.0.7"},{"ip_address":"10.3.0.7"}]`)["id"].(string)
	vm := c.port(network, `,"device_id":"vm","fixed_ips":[{"ip_address":"10.0.0.78"}]`)["id"].(string)
	foreign := as(t, c.s, "other")
	sharedNetwork := foreign.network("")
	shared, hidden := foreign.subnet(sharedNetwork, "10.4.0.0/24"), foreign.subnet(foreign.network(""), "10.5.0.0/24")
	as(t, c.s, "admin").api("PUT", "networks/"+sharedNetwork, `{"network":{"shared":true}}`).want(t, 200)
	tests := []struct {
		name, body    string
		status        int
		kind, message string
	}{
		{"for no ID", `{}`, 400, "BadRequest", "Bad router request: Either subnet_id or port_id must be specified."},
		{"for no body", ``, 400, "BadRequest", "Either subnet_id or port_id must be specified."},
		{"for a body that is not JSON", `{`, 400, "HTTPBadRequest", ""},
		{"for both IDs", `{"subnet_id":"` + attached + `","port_id":"` + port + `"}`, 400, "BadRequest", "Bad router request: Cannot specify both subnet-id and port-id."},
		{"for a subnet of null", `{"subnet_id":null}`, 400, "BadRequest", "Bad router request: 'None' is not a valid UUID."},
		{"for a subnet that is not a UUID", bySubnet("x"), 400, "BadRequest", "Bad router request: 'x' is not a valid UUID."},
		{"for the same subnet again", bySubnet(attached), 400, "BadRequest", "Bad router request: Router already has a port on subnet " + attached + "."},
		{"for a second port of the subnet", byPort(second), 400, "BadRequest", "Bad router request: Router already has a port on subnet " + attached + "."},
		{"for an overlapping subnet", bySubnet(sameCIDR), 400, "BadRequest",
			"Bad router request: Cidr 10.0.0.128/25 of subnet " + sameCIDR + " overlaps with cidr 10.0.0.0/24 of subnet " + attached + "."},
		{"for a subnet that overlaps the external one", bySubnet(likeExternal), 400, "BadRequest", "overlaps with cidr 198.18.0.0/24 of subnet "},
		{"for a subnet without a gateway", bySubnet(withoutGateway), 400, "BadRequest", "Bad router request: Subnet for router interface must have a gateway IP."},
		{"for a port without an address", byPort(bare), 400, "BadRequest", "Bad router request: Router port must have at least one fixed IP."},
		{"for a port with two IPv4 subnets", byPort(two), 400, "BadRequest", "Cannot have multiple IPv4 subnets on router port."},
		{"for another project's shared subnet", bySubnet(shared), 400, "BadRequest",
			"Bad router request: Cannot add interface to router because subnet " + shared + " is not owned by project making the request."},
		{"for a gateway outside the subnet", bySubnet(outside), 400, "InvalidIpForSubnet", "IP address 10.9.9.9 is not a valid IP for the specified subnet."},
		{"for a link-local gateway", bySubnet(linkLocal), 400, "InvalidIpForSubnet", ""},
		{"for a gateway that a port has", bySubnet(taken), 409, "IpAddressAlreadyAllocated", "IP address 10.3.0.1 already allocated in subnet " + taken},
		{"for the port of a machine", byPort(vm), 409, "PortInUse", "Unable to complete operation on port " + vm + " for network " + network + ". Port already has an attached device vm."},
		{"for the same port again", byPort(port), 409, "PortInUse", "Port already has an attached device " + router + "."},
		{"for an unknown subnet", bySubnet(newUUID()), 404, "SubnetNotFound", "could not be found."},
		{"for another project's subnet", bySubnet(hidden), 404, "SubnetNotFound", "Subnet " + hidden + " could not be found."},
		{"for an unknown port", byPort(newUUID()), 404, "PortNotFound", "could not be found."},
	}
	before := len(c.list("port", ""))
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { c.add(router, tc.body).refused(t, tc.status, tc.kind, tc.message) })
	}
	c.add(other, bySubnet(attached)).refused(t, 409, "IpAddressAlreadyAllocated", "IP address 10.0.0.1 already allocated in subnet "+attached)
	if after := len(c.list("port", "")); after != before {
		t.Errorf("refused, but there are %d ports instead of %d", after, before)
	}
	for _, id := range []string{second, two} {
		if p := c.get("port", id); p["device_id"] != "" || p["device_owner"] != "" || p["revision_number"] != 3.0 {
			t.Errorf("the refused port is not as before, except its revision: %v", p)
		}
	}
	if r := c.get("router", router); r["revision_number"] != 4.0 {
		t.Errorf("refused, but the router's revision is %v", r["revision_number"])
	}
	c.api("GET", "routers/"+router+"/add_router_interface", "").want(t, http.StatusMethodNotAllowed)
}

func TestAPortIsAttachedAndDeletedWithItsInterface(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	subnet := c.create("subnet", `"network_id":"`+network+`","ip_version":4,"cidr":"10.0.0.0/24","gateway_ip":null`)["id"].(string)
	port := c.port(network, `,"name":"n","description":"mark","fixed_ips":[{"subnet_id":"`+subnet+`","ip_address":"10.0.0.9"}]`)["id"].(string)
	r := c.add(router, byPort(port))
	r.want(t, 200)
	want := map[string]any{"id": router, "tenant_id": "p", "port_id": port, "network_id": network, "subnet_id": subnet, "subnet_ids": []any{subnet}}
	if diff := cmp.Diff(want, r.json); diff != "" {
		t.Error(diff)
	}
	p := c.get("port", port)
	if p["name"] != "n" || p["description"] != "mark" || p["device_owner"] != "network:router_interface" || p["device_id"] != router {
		t.Errorf("port %v", p)
	}
	c.api("PUT", "ports/"+port, `{"port":{"name":"m","description":"other"}}`).want(t, 200)
	c.api("PUT", "ports/"+port+"/tags", `{"tags":["a"]}`).want(t, 200)
	c.api("PUT", "ports/"+port, `{"port":{"fixed_ips":[{"ip_address":"10.0.0.10"}]}}`).refused(t, 400, "BadRequest", "Bad ports request: IP updates for port "+port+" are not allowed.")
	if r := c.get("router", router); r["revision_number"] != 2.0 {
		t.Errorf("an interface increments the revision once, got %v", r["revision_number"])
	}
	c.port(network, "") // a machine's port does not matter
	c.remove(router, byPort(port)).want(t, 200)
	c.api("GET", "ports/"+port, "").want(t, 404)
	if r := c.get("router", router); r["revision_number"] != 3.0 {
		t.Errorf("revision %v", r["revision_number"])
	}
}

func TestAPortOfAnotherProjectsSharedSubnetIsAttached(t *testing.T) {
	c, _ := routed(t)
	foreign := as(t, c.s, "other")
	network := foreign.network("")
	foreign.subnet(network, "10.4.0.0/24")
	as(t, c.s, "admin").api("PUT", "networks/"+network, `{"network":{"shared":true}}`).want(t, 200)
	router := c.router("")
	port := c.port(network, "")["id"].(string)
	c.add(router, byPort(port)).want(t, 200)
	if got := foreign.list("port", "device_owner=network:router_interface"); len(got) != 1 {
		t.Errorf("the owner of the network does not see the interface: %v", got)
	}
	foreign.api("DELETE", "networks/"+network, "").refused(t, 409, "NetworkInUse", port)
}

func TestRemoveRouterInterfaceIsRefused(t *testing.T) {
	c, _ := routed(t)
	router, other := c.router(""), c.router("")
	network := c.network("")
	subnet, elsewhere := c.subnet(network, "10.0.0.0/24"), c.subnet(c.network(""), "10.1.0.0/24")
	port := c.attach(router, subnet)
	tests := []struct {
		name, router, body string
		status             int
		kind, message      string
	}{
		{"for no ID", router, `{}`, 400, "BadRequest", "Bad router request: Either subnet_id or port_id must be specified."},
		{"by port, for another router", other, byPort(port), 404, "RouterInterfaceNotFound", "Router " + other + " does not have an interface with id " + port},
		{"by subnet, for another router", other, bySubnet(subnet), 404, "RouterInterfaceNotFoundForSubnet", "Router " + other + " has no interface on subnet " + subnet},
		{"for a subnet that is not attached", router, bySubnet(elsewhere), 404, "RouterInterfaceNotFoundForSubnet", "Router " + router + " has no interface on subnet " + elsewhere},
		{"for an unknown subnet", router, bySubnet(newUUID()), 404, "SubnetNotFound", ""},
		{"for an unknown port", router, byPort(newUUID()), 404, "RouterInterfaceNotFound", ""},
		{"for IDs that do not match", router, `{"port_id":"` + port + `","subnet_id":"` + elsewhere + `"}`, 400, "SubnetMismatchForPort",
			"Subnet on port " + port + " does not match the requested subnet " + elsewhere + "."},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { c.remove(tc.router, tc.body).refused(t, tc.status, tc.kind, tc.message) })
	}
	c.remove(router, `{"port_id":"`+port+`","subnet_id":"`+subnet+`"}`).want(t, 200)
	c.remove(router, byPort(port)).refused(t, 404, "RouterInterfaceNotFound", "")
	c.remove(router, bySubnet(subnet)).refused(t, 404, "RouterInterfaceNotFoundForSubnet", "")
}

func TestWhatAnInterfaceBlocks(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	unattached := c.port(network, `,"fixed_ips":[{"ip_address":"10.0.0.1"}]`)["id"].(string)
	c.api("DELETE", "subnets/"+subnet, "").refused(t, 409, "SubnetInUse", "")
	c.api("DELETE", "networks/"+network, "").refused(t, 409, "NetworkInUse", unattached)
	c.api("DELETE", "ports/"+unattached, "").want(t, 204)
	port := c.attach(router, subnet)
	pools := `,"allocation_pools":[{"start":"10.0.0.100","end":"10.0.0.200"}]`
	put := func(attrs string) reply { return c.api("PUT", "subnets/"+subnet, `{"subnet":{`+attrs+`}}`) }
	c.api("DELETE", "subnets/"+subnet, "").refused(t, 409, "SubnetInUse", "One or more ports have an IP allocation from this subnet.")
	c.api("DELETE", "networks/"+network, "").refused(t, 409, "NetworkInUse", "id for these ports is: "+port+".")
	c.api("DELETE", "ports/"+port, "").refused(t, 409, "ServicePortInUse", "Port "+port+" cannot be deleted directly via the port API: has device owner network:router_interface.")
	put(`"gateway_ip":"10.0.0.9"`+pools).refused(t, 409, "GatewayIpInUse", "Current gateway ip 10.0.0.1 already in use by port "+port+". Unable to update.")
	put(`"gateway_ip":"10.0.0.1"`).want(t, 200)
	put(`"dns_nameservers":["9.9.9.9"],"enable_dhcp":false,"host_routes":[]`+pools).want(t, 200)
	put(`"gateway_ip":null`).want(t, 200)
	put(`"gateway_ip":"10.0.0.9"`).want(t, 200)
	if got := fmt.Sprint(addresses(c.get("port", port))); got != "[10.0.0.1]" {
		t.Errorf("the interface's address changed: %s", got)
	}
	second := c.subnet(network, "10.0.1.0/24") // another CIDR beside it, with its own interface
	c.attach(router, second)
	if got := c.list("port", "device_id="+router+"&fixed_ips=subnet_id="+second); len(got) != 1 {
		t.Errorf("interfaces: %v", got)
	}
	c.remove(router, bySubnet(subnet)).want(t, 200)
	c.api("DELETE", "subnets/"+subnet, "").want(t, 204)
}

func TestIPv6SubnetsOfANetworkShareAnInterface(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	v4, v4b := c.subnet(network, "10.0.0.0/24"), c.subnet(network, "10.0.1.0/24")
	a := c.subnet6(network, "fd00:a::/64", "")
	b := c.subnet6(network, "fd00:b::/64", slaac)
	ports := []string{c.attach(router, v4), c.attach(router, v4b), c.attach(router, a), c.attach(router, b)}
	if ports[0] == ports[1] || ports[0] == ports[2] || ports[2] != ports[3] {
		t.Errorf("ports %v", ports)
	}
	if got := fmt.Sprint(addresses(c.get("port", ports[2]))); got != "[fd00:a:: fd00:b::]" {
		t.Errorf("addresses %s", got)
	}
	c.api("DELETE", "subnets/"+b, "").refused(t, 409, "SubnetInUse", "")
	another := c.port(network, `,"fixed_ips":[{"subnet_id":"`+a+`"}]`)["id"].(string)
	c.add(router, byPort(another)).refused(t, 400, "BadRequest", "Cannot have multiple router ports with the same network id if both contain IPv6 subnets. Existing port "+ports[2])
	r := c.remove(router, bySubnet(a))
	r.want(t, 200)
	if got := fmt.Sprint(addresses(c.get("port", ports[2]))); got != "[fd00:b::]" || r.json["port_id"] != ports[2] {
		t.Errorf("addresses %s after %s", got, r.raw)
	}
	c.add(router, bySubnet(a)).want(t, 200)
	r = c.remove(router, `{"port_id":"`+ports[2]+`","subnet_id":"`+a+`"}`)
	r.want(t, 200)
	if ids := r.json["subnet_ids"].([]any); len(ids) != 2 {
		t.Errorf("subnets %v", ids)
	}
	c.api("GET", "ports/"+ports[2], "").want(t, 404)
}

func TestAPortWithBothFamiliesIsOneInterface(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	v4 := c.subnet(network, "10.0.0.0/24")
	automatic := c.subnet6(network, "fd00:b::/64", slaac)
	c.api("POST", "ports", `{"port":{"network_id":"`+network+`","fixed_ips":[{"subnet_id":"`+automatic+`","ip_address":"fd00:b::7"}]}}`).
		refused(t, 400, "AllocationOnAutoAddressSubnet", "IPv6 address fd00:b::7 cannot be directly assigned to a port on subnet "+automatic)
	p := c.port(network, `,"mac_address":"fa:16:3e:00:00:01","fixed_ips":[{"subnet_id":"`+v4+`","ip_address":"10.0.0.1"}]`)
	if got := fmt.Sprint(addresses(p)); got != "[10.0.0.1 fd00:b::f816:3eff:fe00:1]" {
		t.Errorf("addresses %s", got)
	}
	r := c.add(router, byPort(p["id"].(string)))
	r.want(t, 200)
	if ids := r.json["subnet_ids"].([]any); !slices.Contains(ids, any(v4)) || !slices.Contains(ids, any(automatic)) {
		t.Errorf("subnets %v", ids)
	}
	c.add(router, bySubnet(automatic)).refused(t, 400, "BadRequest", "Router already has a port on subnet "+automatic)
}

func TestASubnetWithAutomaticAddressesGivesThemToPorts(t *testing.T) {
	c, external := routed(t)
	network := c.network("")
	v4 := c.subnet(network, "10.0.0.0/24")
	vm := c.port(network, `,"mac_address":"fa:16:3e:00:00:01"`)["id"].(string)
	port := c.attach(c.router(external), v4)
	c.subnet6(network, "fd00:b::/64", slaac)
	if got := fmt.Sprint(addresses(c.get("port", vm)), addresses(c.get("port", port))); got != "[10.0.0.2 fd00:b::f816:3eff:fe00:1] [10.0.0.1]" {
		t.Errorf("addresses %s", got)
	}
	c.api("PUT", "ports/"+vm, `{"port":{"fixed_ips":[{"ip_address":"10.0.0.2"}]}}`).want(t, 200)
	if got := fmt.Sprint(addresses(c.get("port", vm))); got != "[10.0.0.2]" {
		t.Errorf("a removed address is back: %s", got)
	}
}

// half makes the next request of that method, with that end of its path, end halfway.
func half(s *Server, method, suffix string) {
	var done atomic.Bool
	s.SetFault(func(r *http.Request) *Fault {
		if r.Method != method || !strings.HasSuffix(r.URL.Path, suffix) || done.Swap(true) {
			return nil
		}
		return &Fault{Half: true}
	})
}

func TestAHalfInterfaceLooksLikeOneAndIsNone(t *testing.T) {
	c, external := routed(t)
	router, network := c.router(external), c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	vm := c.port(network, "")["id"].(string)
	whole := c.attach(c.router(external), c.subnet(c.network(""), "10.0.0.0/24"))
	half(c.s, "PUT", "/add_router_interface")
	if _, err := c.try("PUT", "/networking/v2.0/routers/"+router+"/add_router_interface", bySubnet(subnet)); err == nil {
		t.Fatal("the connection was not closed")
	}
	ports := c.list("port", "network_id="+network+"&device_owner=network:router_interface")
	if len(ports) != 1 {
		t.Fatalf("ports: %v", ports)
	}
	like := c.get("port", whole)
	for _, key := range []string{"name", "description", "project_id", "device_owner", "revision_number", "status", "port_security_enabled", "admin_state_up"} {
		if ports[0][key] != like[key] {
			t.Errorf("%s: half %v, whole %v", key, ports[0][key], like[key])
		}
	}
	port := ports[0]["id"].(string)
	if got := c.s.Interfaces(); !slices.ContainsFunc(got, func(i Interface) bool { return i.Half && i.PortID == port && i.RouterID == router }) {
		t.Errorf("interfaces %v", got)
	}
	c.api("DELETE", "ports/"+port, "").refused(t, 409, "ServicePortInUse", "")
	c.api("POST", "floatingips", `{"floatingip":{"floating_network_id":"`+external+`","port_id":"`+vm+`"}}`).
		refused(t, 404, "ExternalGatewayForFloatingIPNotFound", "External network "+external+" is not reachable from subnet "+subnet+
			".  Therefore, cannot associate Port "+vm+" with a Floating IP.")
	c.add(router, bySubnet(subnet)).refused(t, 409, "IpAddressAlreadyAllocated", "IP address 10.0.0.1 already allocated in subnet "+subnet)
	c.remove(router, bySubnet(subnet)).want(t, 200)
	c.api("GET", "ports/"+port, "").want(t, 404)
	c.add(router, bySubnet(subnet)).want(t, 200)
	c.add(router, bySubnet(subnet)).refused(t, 400, "BadRequest", "Router already has a port on subnet "+subnet)
}

func TestAHalfInterfaceOutlivesItsRouter(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	port := c.port(network, `,"device_owner":"network:router_interface","device_id":"`+router+`","fixed_ips":[{"ip_address":"10.0.0.1"}]`)["id"].(string)
	c.api("DELETE", "subnets/"+subnet, "").refused(t, 409, "SubnetInUse", "")
	c.api("PUT", "subnets/"+subnet, `{"subnet":{"gateway_ip":null}}`).want(t, 200)
	c.api("DELETE", "ports/"+port, "").refused(t, 409, "ServicePortInUse", "")
	c.api("DELETE", "routers/"+router, "").want(t, 204)
	c.api("DELETE", "ports/"+port, "").want(t, 204)
}

func TestAnInterfaceStaysAttachedWithoutItsDevice(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	for _, end := range []func(port string) reply{
		func(string) reply { return c.remove(router, bySubnet(subnet)) },
		func(port string) reply { return c.remove(router, byPort(port)) },
		func(port string) reply { return c.api("DELETE", "ports/"+port, "") },
	} {
		port := c.attach(router, subnet)
		c.api("PUT", "ports/"+port, `{"port":{"device_id":"","device_owner":""}}`).want(t, 200)
		if got := c.list("port", "device_id="+router); len(got) > 0 {
			t.Errorf("listed: %v", got)
		}
		c.add(router, bySubnet(subnet)).refused(t, 400, "BadRequest", "Router already has a port on subnet "+subnet)
		if r := end(port); r.status/100 != 2 {
			t.Errorf("got %d %s", r.status, r.raw)
		}
		if got := c.s.Interfaces(); len(got) > 0 {
			t.Errorf("interfaces %v", got)
		}
	}
}

func TestRequestsForRoutersEndHalfway(t *testing.T) {
	c, external := routed(t)
	second := as(t, c.s, "admin").network(`"router:external":true`)
	do := func(method, path, body string) {
		t.Helper()
		half(c.s, method, path)
		if _, err := c.try(method, "/networking/v2.0/"+path, body); err == nil {
			t.Fatal("the connection was not closed")
		}
	}
	do("POST", "routers", `{"router":{"description":"mark","external_gateway_info":{"network_id":"`+external+`"}}}`)
	routers := c.list("router", "description=mark")
	if len(routers) != 1 || gatewayAddresses(routers[0]) != "none" || routers[0]["revision_number"] != 1.0 {
		t.Fatalf("after a POST: %v", routers)
	}
	path := "routers/" + routers[0]["id"].(string)
	c.api("PUT", path, `{"router":{"external_gateway_info":{"network_id":"`+external+`"}}}`).want(t, 200)
	do("PUT", path, `{"router":{"name":"n","external_gateway_info":{"network_id":"`+second+`"}}}`)
	if r := c.list("router", "")[0]; r["name"] != "" || r["external_gateway_info"].(map[string]any)["network_id"] != second {
		t.Errorf("after a PUT: %v", r)
	}
	do("DELETE", path, "")
	if r := c.list("router", ""); len(r) != 1 || gatewayAddresses(r[0]) != "none" {
		t.Errorf("after a DELETE: %v", r)
	}
	c.api("DELETE", path, "").want(t, 204)
	do("POST", "networks", `{"network":{"name":"whole"}}`)
	if got := c.names("name=whole"); len(got) != 1 {
		t.Errorf("networks: %v", got)
	}
	// A request that is refused before the middle leaves nothing.
	do("POST", "routers", `{"router":{"external_gateway_info":{"network_id":"`+newUUID()+`"}}}`)
	if got := c.s.Routers(); len(got) > 0 {
		t.Errorf("routers: %v", got)
	}
	s := c.s
	s.SetFault(func(*http.Request) *Fault { return &Fault{Half: true, Status: 502, Message: "bad gateway"} })
	c.api("POST", "routers", `{"router":{"external_gateway_info":{"network_id":"`+external+`"}}}`).want(t, 502)
	if got := s.Routers(); len(got) != 1 || got[0].ExternalNetwork != "" {
		t.Errorf("routers: %v", got)
	}
}

func TestAHalfAttachedPortLooksLikeAnInterface(t *testing.T) {
	c, _ := routed(t)
	router, network := c.router(""), c.network("")
	c.subnet(network, "10.0.0.0/24")
	port := c.port(network, `,"fixed_ips":[{"ip_address":"10.0.0.1"}]`)["id"].(string)
	half(c.s, "PUT", "/add_router_interface")
	_, _ = c.try("PUT", "/networking/v2.0/routers/"+router+"/add_router_interface", byPort(port))
	if p := c.get("port", port); p["device_id"] != router || p["device_owner"] != "network:router_interface" {
		t.Errorf("port %v", p)
	}
	if got := c.s.Interfaces(); len(got) != 1 || !got[0].Half {
		t.Errorf("interfaces %v", got)
	}
	c.add(router, byPort(port)).refused(t, 409, "PortInUse", "")
	c.remove(router, byPort(port)).want(t, 200)
	c.api("GET", "ports/"+port, "").want(t, 404)
}

func TestOneOfConcurrentAddsSucceeds(t *testing.T) {
	c, _ := routed(t)
	router := c.router("")
	subnet := c.subnet(c.network(""), "10.0.0.0/24")
	statuses := make(chan int, 4)
	for range 4 {
		go func() {
			r, _ := c.try("PUT", "/networking/v2.0/routers/"+router+"/add_router_interface", bySubnet(subnet))
			statuses <- r.status
		}()
	}
	count := map[int]int{}
	for range 4 {
		count[<-statuses]++
	}
	if diff := cmp.Diff(map[int]int{200: 1, 400: 3}, count); diff != "" {
		t.Error(diff)
	}
}
