// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// routed starts a cloud with an external network, and returns a member's client and the network's ID.
func routed(t *testing.T) (*client, string) {
	t.Helper()
	s := start(t, Options{
		Projects:        []Project{{Name: "samplecrd", ID: "p"}},
		ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/24")},
	})
	return as(t, s, "samplecrd"), s.Networks()[0].ID
}

func toNetwork(id string) string { return `"external_gateway_info":{"network_id":"` + id + `"}` }

func (c *client) router() string {
	c.t.Helper()
	return c.create("router", "")["id"].(string)
}

func TestTheServerListsRoutersAndInterfacesOfAllNeutrons(t *testing.T) {
	c, external := routed(t)
	c.s.SetRegions(Region{Name: "a"}, Region{Name: "b", Neutron: "two"})
	if n := c.s.Networks(); len(n) != 2 || !n[0].IsExternal || !n[1].IsExternal {
		t.Errorf("each Neutron has an external network, got %v", n)
	}
	for _, distributed := range []bool{false, true} {
		c.s.SetDistributed(distributed) // the ports beside the interfaces are not listed
		router := c.create("router", `"name":"r","description":"d",`+toNetwork(external))["id"].(string)
		network := c.network()
		subnet := c.subnet(network, "10.0.0.0/24")
		port := c.attach(router, subnet)
		if diff := cmp.Diff([]Router{{ProjectID: "p", ID: router, Name: "r", Description: "d", ExternalNetwork: external}}, c.s.Routers()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Interface{{RouterID: router, PortID: port, NetworkID: network, SubnetIDs: []string{subnet}}}, c.s.Interfaces()); diff != "" {
			t.Error(diff)
		}
		owner := c.api("GET", "ports?device_id="+router+"&network_id="+network+"&fields=device_owner", "").raw
		if strings.Contains(owner, distributedOwner) != distributed || strings.Contains(owner, snatOwner) != distributed {
			t.Errorf("distributed: %v, but the ports are %s", distributed, owner)
		}
		c.api("PUT", "routers/"+router+"/remove_router_interface", bySubnet(subnet)).want(t, 200)
		c.api("DELETE", "routers/"+router, "").want(t, 204)
	}
}

// half sends a request that ends halfway.
func (c *client) half(method, path, body string) {
	c.t.Helper()
	var done atomic.Bool
	c.s.SetFault(func(*http.Request) *Fault {
		if done.Swap(true) {
			return nil
		}
		return &Fault{Half: true}
	})
	if _, err := c.try(method, neutronV2+path, body); err == nil {
		c.t.Fatal("the connection was not closed")
	}
}

func TestRequestsForRoutersEndHalfway(t *testing.T) {
	c, external := routed(t)
	second := as(t, c.s, "admin").create("network", `"router:external":true`)["id"].(string)
	left := func(after string, want ...Router) {
		t.Helper()
		got := c.s.Routers()
		for i := range got {
			got[i].ID = ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s:\n%s", after, diff)
		}
	}
	c.half("POST", "routers", `{"router":{"description":"mark",`+toNetwork(external)+`}}`)
	left("a POST", Router{ProjectID: "p", Description: "mark"})
	path := "routers/" + c.s.Routers()[0].ID
	c.api("PUT", path, `{"router":{`+toNetwork(external)+`}}`).want(t, 200)
	c.half("PUT", path, `{"router":{"name":"n",`+toNetwork(second)+`}}`)
	left("a PUT", Router{ProjectID: "p", Description: "mark", ExternalNetwork: second})
	c.half("DELETE", path, "")
	left("a DELETE", Router{ProjectID: "p", Description: "mark"})
	c.api("DELETE", path, "").want(t, 204)
	c.half("POST", "routers", `{"router":{`+toNetwork(newUUID())+`}}`)
	left("a POST that is refused before the middle")

	c.half("POST", "networks", `{"network":{"name":"whole"}}`)
	if got := c.s.Networks(); len(got) != 3 {
		t.Errorf("a request without a middle has its effect: %v", got)
	}
	c.s.SetFault(func(*http.Request) *Fault { return &Fault{Half: true, Status: 502, Message: "bad gateway"} })
	c.api("POST", "routers", `{"router":{`+toNetwork(external)+`}}`).want(t, 502)
	left("a POST that a proxy answers", Router{ProjectID: "p"})
}

func TestAnInterfaceThatIsAddedHalfwayLooksLikeOneAndIsNone(t *testing.T) {
	c, _ := routed(t)
	shown := func(port string) map[string]any {
		t.Helper()
		p := c.api("GET", "ports/"+port, "").json(t)["port"].(map[string]any)
		for _, key := range []string{"id", "network_id", "mac_address", "fixed_ips", "device_id", "created_at", "updated_at"} {
			delete(p, key)
		}
		return p
	}
	router, network := c.router(), c.network()
	subnet := c.subnet(network, "10.0.0.0/24")
	whole := shown(c.attach(c.router(), c.subnet(c.network(), "10.0.0.0/24")))
	add, remove := "routers/"+router+"/add_router_interface", "routers/"+router+"/remove_router_interface"
	isHalf := func() string {
		t.Helper()
		for _, i := range c.s.Interfaces() {
			if i.Half && i.RouterID == router {
				return i.PortID
			}
		}
		t.Fatalf("interfaces: %v", c.s.Interfaces())
		return ""
	}
	c.half("PUT", add, bySubnet(subnet))
	if diff := cmp.Diff(whole, shown(isHalf())); diff != "" {
		t.Errorf("-whole +half:\n%s", diff)
	}
	c.api("PUT", add, bySubnet(subnet)).want(t, 409)
	c.api("PUT", remove, bySubnet(subnet)).want(t, 200)

	byPort := c.create("port", `"network_id":"`+network+`","fixed_ips":[{"ip_address":"10.0.0.1"}]`)["id"].(string)
	c.half("PUT", add, `{"port_id":"`+byPort+`"}`)
	if got := isHalf(); got != byPort || shown(byPort)["device_owner"] != "network:router_interface" {
		t.Errorf("got %s, want %s: %v", got, byPort, shown(byPort))
	}
	c.api("PUT", add, `{"port_id":"`+byPort+`"}`).want(t, 409)
	c.api("PUT", remove, `{"port_id":"`+byPort+`"}`).want(t, 200)
}
