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
