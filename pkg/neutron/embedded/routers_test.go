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
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// routed starts a cloud with an external network, and returns a member's client and the network.
func routed(t *testing.T) (*client, string) {
	t.Helper()
	s := start(t, Options{
		Projects:        []Project{{Name: "samplecrd", ID: "p"}, {Name: "other"}},
		ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/24")},
	})
	c := as(t, s, "samplecrd")
	return c, c.externalNetwork("public")
}

// externalNetwork returns the ID of the external network of that name.
func (c *client) externalNetwork(name string) string {
	c.t.Helper()
	list := c.api("GET", "networks?router:external=True&fields=id&name="+name, "").json["networks"].([]any)
	if len(list) != 1 {
		c.t.Fatalf("external networks: %v", list)
	}
	return list[0].(map[string]any)["id"].(string)
}

// router creates a router with a gateway on that network; "": without.
func (c *client) router(external string) string {
	c.t.Helper()
	attrs := ""
	if external != "" {
		attrs = fmt.Sprintf(`"external_gateway_info":{"network_id":%q}`, external)
	}
	return c.create("router", attrs)["id"].(string)
}

// attach adds an interface by subnet and returns its port.
func (c *client) attach(router, subnet string) string {
	c.t.Helper()
	r := c.api("PUT", "routers/"+router+"/add_router_interface", fmt.Sprintf(`{"subnet_id":%q}`, subnet))
	if r.status != 200 {
		c.t.Fatalf("attach: %d %s", r.status, r.raw)
	}
	return r.json["port_id"].(string)
}

// list returns the objects of a list.
func (c *client) list(kind, query string) []map[string]any {
	c.t.Helper()
	r := c.api("GET", kind+"s?"+query, "")
	if r.status != 200 {
		c.t.Fatalf("list %s: %d %s", query, r.status, r.raw)
	}
	all := []map[string]any{}
	for _, o := range r.json[kind+"s"].([]any) {
		all = append(all, o.(map[string]any))
	}
	return all
}

func TestARouterHasTheAttributesOfARealOne(t *testing.T) {
	c, external := routed(t)
	got := c.create("router", `"name":"r","description":"mark","external_gateway_info":{"network_id":"`+external+`"}`)
	want := map[string]any{
		"name": "r", "description": "mark", "tenant_id": "p", "project_id": "p", "admin_state_up": true, "status": "ACTIVE",
		"routes": []any{}, "flavor_id": nil, "tags": []any{}, "availability_zones": []any{}, "availability_zone_hints": []any{},
		"revision_number": 3.0,
	}
	ignored := cmpopts.IgnoreMapEntries(func(k string, _ any) bool {
		return k == "id" || k == "created_at" || k == "updated_at" || k == "external_gateway_info"
	})
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	info := got["external_gateway_info"].(map[string]any)
	if info["network_id"] != external || info["enable_snat"] != true || fmt.Sprint(addressesOf(info["external_fixed_ips"])) != "[198.18.0.2]" {
		t.Errorf("gateway %v", info)
	}
	if r := c.create("router", `"name":"r"`); r["external_gateway_info"] != nil || r["revision_number"] != 1.0 {
		t.Errorf("a router without a gateway: %v", r)
	}
	if got := c.list("router", "name=r"); len(got) != 2 {
		t.Errorf("routers: %v", got)
	}
}

func TestAnInterfaceIsAddedAndRemovedBySubnet(t *testing.T) {
	c, external := routed(t)
	router, network := c.router(external), c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	r := c.api("PUT", "routers/"+router+"/add_router_interface", `{"subnet_id":"`+subnet+`","name":"ignored"}`)
	r.want(t, 200)
	port := r.json["port_id"].(string)
	want := map[string]any{"id": router, "tenant_id": "p", "port_id": port, "network_id": network, "subnet_id": subnet, "subnet_ids": []any{subnet}}
	if diff := cmp.Diff(want, r.json); diff != "" {
		t.Error(diff)
	}
	listed := c.list("port", "device_owner=network:router_interface")
	if len(listed) != 1 {
		t.Fatalf("ports: %v", listed)
	}
	for k, v := range map[string]any{"id": port, "device_id": router, "name": "", "description": "", "project_id": "p", "port_security_enabled": false, "status": "DOWN"} {
		if listed[0][k] != v {
			t.Errorf("%s: got %v, want %v", k, listed[0][k], v)
		}
	}
	if got := fmt.Sprint(addresses(listed[0])); got != "[10.0.0.1]" {
		t.Errorf("addresses %s", got)
	}
	r = c.api("PUT", "routers/"+router+"/remove_router_interface", `{"subnet_id":"`+subnet+`"}`)
	r.want(t, 200)
	if diff := cmp.Diff(want, r.json); diff != "" {
		t.Error(diff)
	}
	c.api("GET", "ports/"+port, "").want(t, 404)
	c.api("DELETE", "routers/"+router, "").want(t, 204)
}

func TestRouterCreateIsRefused(t *testing.T) {
	c, external := routed(t)
	internal := c.network("")
	other := as(t, c.s, "other").network("")
	gateway := func(info string) string { return `{"router":{"external_gateway_info":` + info + `}}` }
	tests := []struct {
		name, body    string
		status        int
		kind, message string
	}{
		{"for tags", `{"router":{"tags":[]}}`, 400, "HTTPBadRequest", "Attribute 'tags' not allowed in POST"},
		{"for routes", `{"router":{"routes":[]}}`, 400, "HTTPBadRequest", "Attribute 'routes' not allowed in POST"},
		{"for an ID", `{"router":{"id":"` + newUUID() + `"}}`, 400, "HTTPBadRequest", "Attribute 'id' not allowed in POST"},
		{"in bulk", `{"routers":[{"name":"a"}]}`, 400, "HTTPBadRequest", "Bulk operation not supported"},
		{"for being distributed, by a member", `{"router":{"distributed":false}}`, 403, "PolicyNotAuthorized", "(rule:create_router and rule:create_router:distributed) is disallowed by policy"},
		{"for being highly available, by a member", `{"router":{"ha":true}}`, 403, "PolicyNotAuthorized", "rule:create_router:ha"},
		{"for an unknown zone", `{"router":{"availability_zone_hints":["x"]}}`, 404, "AvailabilityZoneNotFound", "AvailabilityZone x could not be found."},
		{"for enable_snat, by a member", gateway(`{"network_id":"` + external + `","enable_snat":true}`), 403, "PolicyNotAuthorized",
			"(rule:create_router and (rule:create_router:external_gateway_info and (rule:create_router:external_gateway_info:network_id and rule:create_router:external_gateway_info:enable_snat))) is disallowed by policy"},
		{"for external_fixed_ips, by a member", gateway(`{"network_id":"` + external + `","external_fixed_ips":[]}`), 403, "PolicyNotAuthorized", ":external_fixed_ips"},
		{"for an unknown external network", gateway(`{"network_id":"` + newUUID() + `"}`), 404, "NetworkNotFound", "could not be found."},
		{"for another project's network", gateway(`{"network_id":"` + other + `"}`), 404, "NetworkNotFound", "Network " + other + " could not be found."},
		{"for a network that is not external", gateway(`{"network_id":"` + internal + `"}`), 400, "BadRequest", "Bad router request: Network " + internal + " is not an external network."},
		{"for a network that is not a UUID", gateway(`{"network_id":"x"}`), 400, "HTTPBadRequest", "'x' is not a valid UUID"},
		{"for a gateway that is not an object", gateway(`"x"`), 400, "HTTPBadRequest", "'x' is not a dictionary"},
		{"for a gateway without a network", gateway(`{"enable_snat":true}`), 400, "HTTPBadRequest", "network_id"},
		{"for an unknown key of the gateway", gateway(`{"network_id":"` + external + `","x":1}`), 400, "HTTPBadRequest", "x"},
		{"for four-byte UTF-8", `{"router":{"name":"😀"}}`, 500, "HTTPInternalServerError", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("POST", "routers", tc.body).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	if left := c.s.Routers(); len(left) > 0 {
		t.Errorf("refused, but created: %v", left)
	}
	// An external network without a subnet, or without a free address.
	admin := as(t, c.s, "admin")
	full := admin.network(`"router:external":true`)
	router := c.router(full)
	if got := gatewayAddresses(c.get("router", router)); got != "[]" {
		t.Errorf("without a subnet: %s", got)
	}
	admin.subnet(full, "198.19.0.0/30")
	if got := gatewayAddresses(c.get("router", router)); got != "[198.19.0.2]" {
		t.Errorf("the subnet that was made later did not give an address: %s", got)
	}
	c.api("POST", "routers", gateway(`{"network_id":"`+full+`"}`)).refused(t, 409, "IpAddressGenerationFailure", "No more IP addresses available on network "+full+".")
	if left := c.s.Routers(); len(left) != 1 {
		t.Errorf("refused, but created: %v", left)
	}
}

// gatewayAddresses returns the addresses of a router's gateway, "none" without a gateway.
func gatewayAddresses(router map[string]any) string {
	info, ok := router["external_gateway_info"].(map[string]any)
	if !ok {
		return "none"
	}
	return fmt.Sprint(addressesOf(info["external_fixed_ips"]))
}

func TestRouterUpdatesAndTheirRevisions(t *testing.T) {
	c, external := routed(t)
	admin := as(t, c.s, "admin")
	second := admin.network(`"router:external":true`)
	admin.subnet(second, "198.19.0.0/30")
	router := c.router("")
	internal := c.network("")
	gateway := func(id string) string { return `"external_gateway_info":{"network_id":"` + id + `"}` }
	tests := []struct { // applied in sequence to one router
		name, attrs   string
		status        int
		kind, message string
		gateway       string
		revision      float64
	}{
		{"another name", `"name":"n"`, 200, "", "", "none", 2},
		{"the same name", `"name":"n"`, 200, "", "", "none", 3},
		{"nothing", ``, 200, "", "", "none", 3},
		{"a gateway", gateway(external), 200, "", "", "[198.18.0.2]", 5},
		{"the same gateway", gateway(external), 200, "", "", "[198.18.0.2]", 6},
		{"another gateway", gateway(second) + `,"admin_state_up":false`, 200, "", "", "[198.19.0.2]", 11},
		{"an unknown network", gateway(newUUID()), 404, "NetworkNotFound", "", "[198.19.0.2]", 12},
		{"a network that is not external", gateway(internal), 400, "BadRequest", "is not an external network", "[198.19.0.2]", 13},
		{"enable_snat, by a member", `"external_gateway_info":{"network_id":"` + second + `","enable_snat":true}`, 403, "PolicyNotAuthorized",
			"rule:update_router:external_gateway_info:enable_snat", "[198.19.0.2]", 13},
		{"no gateway", `"external_gateway_info":{}`, 200, "", "", "none", 16},
		{"no gateway again", `"external_gateway_info":null`, 200, "", "", "none", 17},
		{"a read-only attribute", `"status":"DOWN"`, 400, "HTTPBadRequest", "Cannot update read-only attribute status", "none", 17},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("PUT", "routers/"+router, `{"router":{`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
			r := c.get("router", router)
			if got := gatewayAddresses(r); got != tc.gateway || r["revision_number"] != tc.revision {
				t.Errorf("gateway %s, revision %v, want %s, %v", got, r["revision_number"], tc.gateway, tc.revision)
			}
		})
	}
	c.api("PUT", "routers/"+router+"/tags", `{"tags":["a"]}`).want(t, 200)
	if r := c.get("router", router); r["revision_number"] != 18.0 || r["admin_state_up"] != false || r["name"] != "n" {
		t.Errorf("router %v", r)
	}
	if got := c.list("router", "tags=a"); len(got) != 1 {
		t.Errorf("by tag: %v", got)
	}
}

// A change to an external network that is full takes the old gateway.
func TestAFullExternalNetworkTakesTheOldGateway(t *testing.T) {
	c, external := routed(t)
	admin := as(t, c.s, "admin")
	full := admin.network(`"router:external":true`)
	admin.subnet(full, "198.19.0.0/30")
	c.router(full)
	router := c.router(external)
	c.api("PUT", "routers/"+router, `{"router":{"name":"n","external_gateway_info":{"network_id":"`+full+`"}}}`).refused(t, 409, "IpAddressGenerationFailure", "")
	if r := c.get("router", router); gatewayAddresses(r) != "none" || r["name"] != "" {
		t.Errorf("router %v", r)
	}
	if ports := admin.list("port", "network_id="+external); len(ports) > 0 {
		t.Errorf("the old gateway's port is left: %v", ports)
	}
}

func TestGatewayPortsAreShownToAdminsOnly(t *testing.T) {
	c, external := routed(t)
	router := c.router(external)
	if ports := c.list("port", "device_id="+router); len(ports) > 0 {
		t.Errorf("a member sees %v", ports)
	}
	admin := as(t, c.s, "admin")
	ports := admin.list("port", "device_id="+router)
	if len(ports) != 1 || ports[0]["device_owner"] != "network:router_gateway" || ports[0]["project_id"] != "" {
		t.Fatalf("an admin sees %v", ports)
	}
	id := ports[0]["id"].(string)
	admin.api("DELETE", "ports/"+id, "").refused(t, 409, "ServicePortInUse", "Port "+id+" cannot be deleted directly via the port API: has device owner network:router_gateway.")
	admin.api("DELETE", "networks/"+external, "").refused(t, 409, "NetworkInUse", id)
	admin.api("PUT", "networks/"+external, `{"network":{"router:external":false}}`).
		refused(t, 409, "ExternalNetworkInUse", "External network "+external+" cannot be updated to be made non-external, since it has existing gateway ports.")
	c.api("DELETE", "routers/"+router, "").want(t, 204)
	admin.api("PUT", "networks/"+external, `{"network":{"router:external":false}}`).want(t, 200)
}

func TestAnAdminSetsSNATAndAMemberTurnsItOnAgain(t *testing.T) {
	c, external := routed(t)
	router := c.router("")
	info := func() map[string]any { return c.get("router", router)["external_gateway_info"].(map[string]any) }
	as(t, c.s, "admin").api("PUT", "routers/"+router, `{"router":{"external_gateway_info":{"network_id":"`+external+
		`","enable_snat":false,"external_fixed_ips":[{"ip_address":"198.18.0.9"}]}}}`).want(t, 200)
	if i := info(); i["enable_snat"] != false || fmt.Sprint(addressesOf(i["external_fixed_ips"])) != "[198.18.0.9]" {
		t.Errorf("an admin's gateway: %v", i)
	}
	c.api("PUT", "routers/"+router, `{"router":{"external_gateway_info":{"network_id":"`+external+`"}}}`).want(t, 200)
	if i := info(); i["enable_snat"] != true || fmt.Sprint(addressesOf(i["external_fixed_ips"])) != "[198.18.0.9]" {
		t.Errorf("a member's gateway: %v", i)
	}
	as(t, c.s, "admin").api("PUT", "routers/"+router, `{"router":{"external_gateway_info":{"network_id":"`+external+
		`","external_fixed_ips":[{"ip_address":"198.18.0.10"}]}}}`).want(t, 200)
	if i := info(); fmt.Sprint(addressesOf(i["external_fixed_ips"])) != "[198.18.0.10]" {
		t.Errorf("another address: %v", i)
	}
}

func TestIfMatchOfRouters(t *testing.T) {
	c, external := routed(t)
	admin := as(t, c.s, "admin")
	network := c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	router := c.router("")
	path := "routers/" + router
	gatewayPorts := func() int { return len(admin.list("port", "device_owner=network:router_gateway")) }
	tests := []struct { // applied in sequence
		name, method, path, body string
		revision                 int // 0: the current one
		status                   int
		gateway                  string
		ports                    int
	}{
		{"a stale PUT", "PUT", path, `{"router":{"name":"n"}}`, 9, 412, "none", 0},
		{"a PUT", "PUT", path, `{"router":{"name":"n"}}`, 0, 200, "none", 0},
		{"a stale add", "PUT", path + "/add_router_interface", `{"subnet_id":"` + subnet + `"}`, 1, 412, "none", 0},
		{"an add", "PUT", path + "/add_router_interface", `{"subnet_id":"` + subnet + `"}`, 0, 200, "none", 0},
		{"a stale remove", "PUT", path + "/remove_router_interface", `{"subnet_id":"` + subnet + `"}`, 1, 412, "none", 0},
		{"a remove", "PUT", path + "/remove_router_interface", `{"subnet_id":"` + subnet + `"}`, 0, 200, "none", 0},
		{"a gateway is not set", "PUT", path, `{"router":{"external_gateway_info":{"network_id":"` + external + `"}}}`, 0, 412, "none", 0},
		{"without If-Match it is", "PUT", path, `{"router":{"external_gateway_info":{"network_id":"` + external + `"}}}`, -1, 200, "[198.18.0.2]", 1},
		{"a stale clear changes nothing", "PUT", path, `{"router":{"external_gateway_info":{}}}`, 1, 412, "[198.18.0.2]", 1},
		{"a clear is refused, but carried out", "PUT", path, `{"router":{"external_gateway_info":{}}}`, 0, 412, "none", 1},
		{"the port of the old gateway stays", "PUT", path, `{"router":{"external_gateway_info":{"network_id":"` + external + `"}}}`, -1, 200, "[198.18.0.3]", 2},
		{"a DELETE takes the gateway off", "DELETE", path, ``, 0, 412, "none", 2},
		{"a stale DELETE", "DELETE", path, ``, 1, 412, "none", 2},
		{"a DELETE without a gateway", "DELETE", path, ``, 0, 204, "", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var header []string
			if tc.revision == 0 {
				tc.revision = int(c.get("router", router)["revision_number"].(float64))
			}
			if tc.revision > 0 {
				header = []string{fmt.Sprintf("If-Match: revision_number=%d", tc.revision)}
			}
			r := c.api(tc.method, tc.path, tc.body, header...)
			r.want(t, tc.status)
			if tc.status == 412 {
				r.refused(t, 412, "RevisionNumberConstraintFailed", fmt.Sprintf("Constrained to %d, but current revision is ", tc.revision))
			}
			if tc.gateway != "" && gatewayAddresses(c.get("router", router)) != tc.gateway {
				t.Errorf("gateway %v, want %s", c.get("router", router)["external_gateway_info"], tc.gateway)
			}
			if got := gatewayPorts(); got != tc.ports {
				t.Errorf("%d gateway ports, want %d", got, tc.ports)
			}
		})
	}
	c.api("GET", path, "").refused(t, 404, "RouterNotFound", "Router "+router+" could not be found")
}

func TestRouterDelete(t *testing.T) {
	c, external := routed(t)
	router := c.router(external)
	port := c.attach(router, c.subnet(c.network(""), "10.0.0.0/24"))
	second := c.attach(router, c.subnet(c.network(""), "10.0.1.0/24"))
	r := c.api("DELETE", "routers/"+router, "")
	r.refused(t, 409, "RouterInUse", "Router "+router+" has ports still attached: ")
	r.refused(t, 409, "", port)
	r.refused(t, 409, "", second)
	c.api("PUT", "routers/"+router+"/remove_router_interface", `{"port_id":"`+port+`"}`).want(t, 200)
	c.api("PUT", "routers/"+router+"/remove_router_interface", `{"port_id":"`+second+`"}`).want(t, 200)
	c.api("DELETE", "routers/"+router, "").want(t, 204)
	c.api("DELETE", "routers/"+router, "").refused(t, 404, "RouterNotFound", "Router "+router+" could not be found")
	if ports := as(t, c.s, "admin").list("port", ""); len(ports) > 0 {
		t.Errorf("ports are left: %v", ports)
	}
}

func TestRoutersOfAnotherProjectAndUnknownOnesAreNotFound(t *testing.T) {
	c, external := routed(t)
	subnet := c.subnet(c.network(""), "10.0.0.0/24")
	for _, id := range []string{as(t, c.s, "other").router(external), newUUID(), "x"} {
		for _, call := range [][2]string{{"GET", ""}, {"PUT", ""}, {"DELETE", ""}, {"PUT", "/add_router_interface"}, {"PUT", "/remove_router_interface"}} {
			body := `{"router":{"name":"n"}}`
			if call[1] != "" {
				body = `{"subnet_id":"` + subnet + `"}`
			}
			c.api(call[0], "routers/"+id+call[1], body).refused(t, 404, "RouterNotFound", "Router "+id+" could not be found")
		}
	}
	if got := c.list("router", ""); len(got) > 0 {
		t.Errorf("listed: %v", got)
	}
}

func TestRoutersAreListed(t *testing.T) {
	c, external := routed(t)
	ids := map[string]string{}
	for _, n := range []string{"a", "B", "c"} {
		ids[n] = c.create("router", `"name":"`+n+`","description":"mark-`+n+`"`)["id"].(string)
	}
	c.api("PUT", "routers/"+ids["c"], `{"router":{"admin_state_up":false,"external_gateway_info":{"network_id":"`+external+`"}}}`).want(t, 200)
	c.api("PUT", "routers/"+ids["a"]+"/tags", `{"tags":["red"]}`).want(t, 200)
	for query, want := range map[string]string{
		"name=b": "[B]", "name=a&name=c": "[a c]", "description=MARK-a": "[a]", "description=": "[]", "id=" + ids["c"]: "[c]",
		"project_id=p": "[a B c]", "project_id=x": "[]", "admin_state_up=false": "[c]", "revision_number=1": "[B]", "revision_number=2": "[a]",
		"tags=red": "[a]", "not-tags=red": "[B c]", "tags-any=red,blue": "[a]",
	} {
		var names []string
		for _, r := range c.list("router", query+"&sort_key=name&sort_dir=asc") {
			names = append(names, r["name"].(string))
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	for path, kind := range map[string]string{"status=ACTIVE": "HTTPBadRequest", "external_gateway_info=x": "HTTPBadRequest", "sort_key=name": "HTTPBadRequest"} {
		c.api("GET", "routers?"+path, "").refused(t, 400, kind, "")
	}
	c.api("GET", "routers?limit=1&marker="+newUUID(), "").refused(t, 404, "RouterNotFound", "")
	r := c.api("GET", "routers?limit=2", "")
	if len(r.json["routers"].([]any)) != 2 || r.json["routers_links"] == nil {
		t.Errorf("a page: %s", r.raw)
	}
}

func TestRouterQuota(t *testing.T) {
	s := start(t, Options{Projects: []Project{{Name: "samplecrd", Quota: map[string]int{"router": 1, "floatingip": 0}}},
		ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/24")}})
	c := as(t, s, "samplecrd")
	c.router("")
	c.api("POST", "routers", `{"router":{}}`).refused(t, 409, "OverQuota", "Quota exceeded for resources: ['router'].")
	c.api("POST", "floatingips", `{"floatingip":{"floating_network_id":"`+c.externalNetwork("public")+`"}}`).
		refused(t, 409, "OverQuota", "Quota exceeded for resources: ['floatingip'].")
}

func TestRoutes(t *testing.T) {
	c, _ := routed(t)
	router := c.router("")
	subnet := c.subnet(c.network(""), "10.0.0.0/24")
	c.attach(router, subnet)
	routes := func(nexthop string) string {
		return `{"router":{"routes":[{"destination":"10.9.0.0/16","nexthop":"` + nexthop + `"}]}}`
	}
	c.api("PUT", "routers/"+router, routes("10.1.0.1")).refused(t, 400, "InvalidRoutes", "the nexthop is not connected with router")
	c.api("PUT", "routers/"+router, routes("10.0.0.1")).refused(t, 400, "InvalidRoutes", "the nexthop is used by router")
	c.api("PUT", "routers/"+router, routes("10.0.0.9")).want(t, 200)
	c.api("PUT", "routers/"+router+"/remove_router_interface", `{"subnet_id":"`+subnet+`"}`).refused(t, 409, "RouterInterfaceInUseByRoute",
		"Router interface for subnet "+subnet+" on router "+router+" cannot be deleted, as it is required by one or more routes.")
	c.api("PUT", "routers/"+router, `{"router":{"routes":[]}}`).want(t, 200)
	c.api("PUT", "routers/"+router+"/remove_router_interface", `{"subnet_id":"`+subnet+`"}`).want(t, 200)
}

func TestTheServerListsRoutersAndInterfacesOfAllNeutrons(t *testing.T) {
	c, external := routed(t)
	c.s.SetRegions(Region{Name: "a"}, Region{Name: "b", Neutron: "two"})
	if n := c.s.Networks(); len(n) != 2 {
		t.Errorf("each Neutron has an external network, got %v", n)
	}
	id := c.create("router", `"name":"r","description":"d","external_gateway_info":{"network_id":"`+external+`"}`)["id"].(string)
	network := c.network("")
	subnet := c.subnet(network, "10.0.0.0/24")
	port := c.attach(id, subnet)
	if diff := cmp.Diff([]Router{{ProjectID: "p", ID: id, Name: "r", Description: "d", ExternalNetwork: external}}, c.s.Routers()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Interface{{RouterID: id, PortID: port, NetworkID: network, SubnetIDs: []string{subnet}}}, c.s.Interfaces()); diff != "" {
		t.Error(diff)
	}
}

func TestAnExternalNetworkThatNeutronRefusesPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Options{ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
}
