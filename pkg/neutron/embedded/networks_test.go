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
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestANetworkHasTheAttributesOfARealOne(t *testing.T) {
	clock := newFakeClock()
	s := start(t, Options{Now: clock.Now, Projects: []Project{{Name: "samplecrd", ID: "p"}}})
	c := as(t, s, "samplecrd")
	got := c.create("network", `"name":"a"`)
	want := map[string]any{
		"name": "a", "tenant_id": "p", "project_id": "p", "admin_state_up": true, "mtu": 1450.0, "status": "ACTIVE",
		"subnets": []any{}, "shared": false, "port_security_enabled": true, "dns_domain": "", "availability_zone_hints": []any{}, "availability_zones": []any{},
		"ipv4_address_scope": nil, "ipv6_address_scope": nil, "router:external": false, "description": "", "tags": []any{},
		"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z", "revision_number": 1.0,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "id" })); diff != "" {
		t.Error(diff)
	}
	if !isUUID(got["id"].(string)) {
		t.Errorf("id %v", got["id"])
	}
	if n := as(t, s, "admin").get("network", got["id"].(string)); n["provider:network_type"] != "vxlan" || n["provider:segmentation_id"] == nil {
		t.Errorf("an admin does not see the provider attributes: %v", n)
	}
}

func TestNetworkCreateIsRefused(t *testing.T) {
	long := strings.Repeat("ä", 256)
	tests := []struct {
		name, body    string
		status        int
		kind, message string
	}{
		{"for a body that is not JSON", `{`, 400, "HTTPBadRequest", ""},
		{"for a body that is followed by another", `{"network":{}}{}`, 400, "HTTPBadRequest", ""},
		{"for a body without a network", `{"net":{}}`, 400, "HTTPBadRequest", "Unable to find 'network' in request body"},
		{"for an unknown attribute", `{"network":{"x":1}}`, 400, "HTTPBadRequest", "Unrecognized attribute(s) 'x'"},
		{"for an attribute of a missing extension", `{"network":{"qos_policy_id":null}}`, 400, "HTTPBadRequest", "Unrecognized attribute(s) 'qos_policy_id'"},
		{"for an ID chosen by the client", `{"network":{"id":"b5a6b1a6-3d4e-4f47-9d5e-3d2a3b0c5a11"}}`, 400, "HTTPBadRequest", "Attribute 'id' not allowed in POST"},
		{"for tags", `{"network":{"tags":["a"]}}`, 400, "HTTPBadRequest", "Attribute 'tags' not allowed in POST"},
		{"for inline subnets", `{"network":{"subnets":[]}}`, 400, "HTTPBadRequest", "Attribute 'subnets' not allowed in POST"},
		{"for a name of null", `{"network":{"name":null}}`, 400, "HTTPBadRequest", "Invalid input for name. Reason: 'None' is not a valid string."},
		{"for a name of 256 characters", `{"network":{"name":"` + long + `"}}`, 400, "HTTPBadRequest", "exceeds maximum length of 255."},
		{"for a description of 256 characters", `{"network":{"description":"` + long + `"}}`, 400, "HTTPBadRequest", "exceeds maximum length of 255."},
		{"for four-byte UTF-8", `{"network":{"name":"😀"}}`, 500, "HTTPInternalServerError", "Request Failed: internal server error"},
		{"for an MTU above the largest", `{"network":{"mtu":1451}}`, 400, "InvalidInput", "Requested MTU is too big, maximum is 1450."},
		{"for an MTU that is not a number", `{"network":{"mtu":"x"}}`, 400, "InvalidInput", "'x' is not an integer"},
		{"for a state that is not a boolean", `{"network":{"admin_state_up":"x"}}`, 400, "InvalidInput", "'x' cannot be converted to boolean"},
		{"for an unknown zone", `{"network":{"availability_zone_hints":["x"]}}`, 404, "AvailabilityZoneNotFound", ""},
		{"for another project", `{"network":{"project_id":"x"}}`, 400, "HTTPBadRequest", "other than the authenticated project"},
		{"for sharing, by a member", `{"network":{"shared":true}}`, 403, "PolicyNotAuthorized", "(rule:create_network and rule:create_network:shared) is disallowed by policy"},
		{"for being external, by a member", `{"network":{"router:external":true}}`, 403, "PolicyNotAuthorized", ""},
		{"for a provider network, by a member", `{"network":{"provider:network_type":"vlan"}}`, 403, "PolicyNotAuthorized", ""},
		{"in bulk, for an empty list", `{"networks":[]}`, 400, "HTTPBadRequest", "Resources required"},
		{"in bulk, for one bad attribute", `{"networks":[{"name":"a"},{"x":1}]}`, 400, "HTTPBadRequest", "Unrecognized"},
	}
	c := newClient(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("POST", "networks", tc.body).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	if left := c.names(""); len(left) > 0 {
		t.Errorf("refused, but created: %q", left)
	}
}

func TestNetworkCreateIsAccepted(t *testing.T) {
	c := newClient(t)
	for name, attrs := range map[string]string{
		"without any attribute":           ``,
		"with a name of 255 characters":   `"name":"` + strings.Repeat("ä", 255) + `"`,
		"with a name that is in use":      `"name":"` + strings.Repeat("ä", 255) + `"`,
		"with the default of shared":      `"shared":false`,
		"with a state written as text":    `"admin_state_up":"False"`,
		"with the largest MTU":            `"mtu":1450`,
		"with the caller's own project":   `"tenant_id":"` + c.create("network", "")["project_id"].(string) + `"`,
		"with the availability zone nova": `"availability_zone_hints":["nova"]`,
	} {
		t.Run(name, func(t *testing.T) {
			(&client{t, c.s, c.token}).create("network", attrs)
		})
	}
}

func TestNetworkUpdateIsRefused(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	tests := []struct {
		name, path, body string
		status           int
		kind, message    string
	}{
		{"for a read-only attribute", id, `{"network":{"status":"DOWN"}}`, 400, "HTTPBadRequest", "Cannot update read-only attribute status"},
		{"for tags", id, `{"network":{"tags":[]}}`, 400, "HTTPBadRequest", "Cannot update read-only attribute tags"},
		{"for sharing, by a member, even with false", id, `{"network":{"shared":false}}`, 403, "PolicyNotAuthorized", "rule:update_network:shared"},
		{"for an unknown network", newUUID(), `{"network":{}}`, 404, "NetworkNotFound", "could not be found."},
		{"for something that is not a UUID", "x", `{"network":{}}`, 404, "NetworkNotFound", "Network x could not be found."},
		{"in bulk", "", `{"networks":[{"name":"a"}]}`, 400, "HTTPBadRequest", "Bulk operation not supported"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.api("PUT", strings.TrimSuffix("networks/"+tc.path, "/"), tc.body).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	c.api("DELETE", "networks", "").refused(t, 404, "NetworkNotFound", "")
	c.api("PATCH", "networks/"+id, "").want(t, http.StatusMethodNotAllowed)
	if n := c.get("network", id); n["revision_number"] != 1.0 {
		t.Errorf("a refused update changed the revision: %v", n["revision_number"])
	}
}

func TestBulkCreateKeepsTheOrder(t *testing.T) {
	c := newClient(t)
	r := c.api("POST", "networks", `{"networks":[{"name":"c"},{"network":{"name":"a"}},{"name":"b"}]}`)
	r.want(t, 201)
	var names []string
	for _, n := range r.json["networks"].([]any) {
		names = append(names, n.(map[string]any)["name"].(string))
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestRevisionNumbers(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	revision := func(why string, want float64) {
		t.Helper()
		if got := c.get("network", id)["revision_number"]; got != want {
			t.Errorf("%s: revision %v, want %v", why, got, want)
		}
	}
	revision("a new network", 1)
	c.api("PUT", "networks/"+id, `{"network":{"name":"a"}}`)
	revision("an update", 2)
	c.api("PUT", "networks/"+id, `{"network":{"name":"a"}}`)
	revision("an update to the same value", 3)
	sub := c.create("subnet", `"network_id":"`+id+`","ip_version":4,"cidr":"10.0.0.0/24"`)
	if sub["revision_number"] != 0.0 {
		t.Errorf("a new subnet: revision %v, want 0", sub["revision_number"])
	}
	revision("a subnet created", 4)
	path := "subnets/" + sub["id"].(string)
	if r := c.api("PUT", path, `{"subnet":{"name":"s"}}`); r.json["subnet"].(map[string]any)["revision_number"] != 1.0 {
		t.Errorf("an updated subnet: %s", r.raw)
	}
	revision("a subnet updated", 5)
	c.api("DELETE", path, "")
	revision("a subnet deleted", 6)
	c.api("PUT", "networks/"+id+"/tags", `{"tags":["a"]}`)
	revision("tags set", 7)
}

func TestIfMatch(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	const body = `{"network":{"name":"new"}}`
	c.api("PUT", "networks/"+id, body, "If-Match: revision_number=9").
		refused(t, 412, "RevisionNumberConstraintFailed", "Constrained to 9, but current revision is 1")
	if n := c.get("network", id); n["name"] != "" || n["revision_number"] != 1.0 {
		t.Errorf("a refused update changed the network: %v", n)
	}
	c.api("PUT", "networks/"+id, body, "If-Match: revision_number=1").want(t, 200)
	c.api("PUT", "networks/"+id, body, "If-Match: nonsense").want(t, 200)
	sub := c.subnet(id, "10.0.0.0/24")
	c.api("DELETE", "networks/"+id, "", "If-Match: revision_number=3").refused(t, 412, "", "")
	c.api("GET", "subnets/"+sub, "").want(t, 200)
	c.api("DELETE", "subnets/"+sub, "", "If-Match: revision_number=1").refused(t, 412, "", "Constrained to 1, but current revision is 0")
	if n := c.get("network", id); n["revision_number"] != 4.0 || len(n["subnets"].([]any)) != 1 {
		t.Errorf("a refused delete of a subnet changed the network: %v", n)
	}
	c.api("DELETE", "networks/"+id, "", "If-Match: revision_number=4").want(t, 204)
}

func TestOnlyOneOfConcurrentConstrainedUpdatesSucceeds(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	statuses := make(chan int, 8)
	for i := range 8 {
		go func() {
			r, _ := c.try("PUT", "/networking/v2.0/networks/"+id, fmt.Sprintf(`{"network":{"name":"%d"}}`, i), "If-Match: revision_number=1")
			statuses <- r.status
		}()
	}
	won := 0
	for range 8 {
		if <-statuses == 200 {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d updates succeeded, want 1", won)
	}
}

func TestNetworkDelete(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	sub := c.subnet(id, "10.0.0.0/24")
	port := c.port(id, "")["id"].(string)
	dhcp := c.port(id, `,"device_owner":"network:dhcp"`)["id"].(string)
	c.api("DELETE", "networks/"+id, "").refused(t, 409, "NetworkInUse",
		"Unable to complete operation on network "+id+". There are one or more ports still in use on the network, id for these ports is: "+port+".")
	c.api("DELETE", "subnets/"+sub, "").refused(t, 409, "SubnetInUse",
		"Unable to complete operation on subnet "+sub+": One or more ports have an IP allocation from this subnet.")
	c.api("DELETE", "ports/"+port, "").want(t, 204)
	c.api("DELETE", "networks/"+id, "").want(t, 204)
	c.api("DELETE", "networks/"+id, "").refused(t, 404, "NetworkNotFound", "Network "+id+" could not be found.")
	c.api("GET", "subnets/"+sub, "").refused(t, 404, "SubnetNotFound", "")
	c.api("GET", "ports/"+dhcp, "").refused(t, 404, "PortNotFound", "")
}

func TestProjectsAreSeparate(t *testing.T) {
	s := start(t, Options{Projects: []Project{{Name: "one"}, {Name: "two"}}})
	one, two, admin := as(t, s, "one"), as(t, s, "two"), as(t, s, "admin")
	id := one.network(`"name":"a"`)
	two.api("GET", "networks/"+id, "").refused(t, 404, "NetworkNotFound", "")
	two.api("PUT", "networks/"+id, `{"network":{"name":"b"}}`).refused(t, 404, "NetworkNotFound", "")
	two.api("DELETE", "networks/"+id, "").refused(t, 404, "NetworkNotFound", "")
	two.api("PUT", "networks/"+id+"/tags", `{"tags":[]}`).refused(t, 404, "TagResourceNotFound", "")
	two.api("POST", "subnets", `{"subnet":{"network_id":"`+id+`","ip_version":4,"cidr":"10.0.0.0/24"}}`).refused(t, 404, "NetworkNotFound", "")
	if names := two.names(""); len(names) > 0 {
		t.Errorf("two sees %q", names)
	}
	if names := admin.names(""); !slices.Equal(names, []string{"a"}) {
		t.Errorf("the admin sees %q", names)
	}

	admin.api("PUT", "networks/"+id, `{"network":{"shared":true}}`).want(t, 200)
	two.api("GET", "networks/"+id, "").want(t, 200)
	two.api("DELETE", "networks/"+id, "").refused(t, 403, "PolicyNotAuthorized", "rule:delete_network is disallowed by policy")
	two.api("POST", "subnets", `{"subnet":{"network_id":"`+id+`","ip_version":4,"cidr":"10.0.0.0/24"}}`).want(t, 201)
	two.port(id, "")
	admin.api("PUT", "networks/"+id, `{"network":{"shared":false}}`).refused(t, 409, "InvalidSharedSetting", "")
}

func TestQuotas(t *testing.T) {
	s := start(t, Options{Projects: []Project{{Name: "samplecrd", ID: "p", Quota: map[string]int{"network": 2, "subnet": 0}}}})
	c, admin := as(t, s, "samplecrd"), as(t, s, "admin")
	id := c.network("")
	c.api("POST", "networks", `{"networks":[{},{}]}`).refused(t, 409, "OverQuota", "Quota exceeded for resources: ['network'].")
	if got := len(c.names("")); got != 1 {
		t.Errorf("a refused bulk create left %d networks, want 1", got)
	}
	c.network("")
	c.api("POST", "networks", `{"network":{}}`).refused(t, 409, "OverQuota", "Quota exceeded for resources: ['network'].")
	c.api("POST", "subnets", `{"subnet":{"network_id":"`+id+`","ip_version":4,"cidr":"10.0.0.0/24"}}`).refused(t, 409, "OverQuota", "['subnet']")
	c.api("DELETE", "networks/"+id, "")
	c.network("")

	c.api("PUT", "quotas/p", `{"quota":{"network":9}}`).refused(t, 403, "PolicyNotAuthorized", "rule:update_quota is disallowed by policy")
	c.api("GET", "quotas/other", "").refused(t, 403, "PolicyNotAuthorized", "rule:get_quota")
	admin.api("PUT", "quotas/p", `{"quota":{"network":3}}`).want(t, 200)
	if q := c.api("GET", "quotas/p", "").json["quota"].(map[string]any); q["network"] != 3.0 || q["port"] != -1.0 {
		t.Errorf("quota %v", q)
	}
	c.network("")
	admin.api("DELETE", "quotas/p", "").want(t, 204)
	c.network("")
}

func TestTags(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	path := "networks/" + id + "/tags"
	if r := c.api("PUT", path, `{"tags":["a","b"]}`); r.status != 200 || fmt.Sprint(r.json["tags"]) != "[a b]" {
		t.Errorf("replace: %d %s", r.status, r.raw)
	}
	c.api("GET", path+"/a", "").want(t, 204)
	c.api("GET", path+"/x", "").refused(t, 404, "TagNotFound", "Tag x could not be found.")
	c.api("PUT", path+"/c", "").want(t, 201)
	c.api("DELETE", path+"/a", "").want(t, 204)
	if tags := c.get("network", id)["tags"]; fmt.Sprint(tags) != "[b c]" {
		t.Errorf("tags %v", tags)
	}
	c.api("PUT", path, `{}`).refused(t, 400, "InvalidInput", "Invalid tags body")
	c.api("PUT", path, `{"tags":["a","a"]}`).refused(t, 400, "InvalidInput", "Duplicate items in the list: 'a'")
	c.api("PUT", path, `{"tags":["`+strings.Repeat("x", 256)+`"]}`).refused(t, 400, "InvalidInput", "exceeds maximum length of 255")
	c.api("PUT", path, `{"tags":["a","A"]}`).refused(t, 500, "", "") // the real one hangs
	c.api("PUT", "networks/"+newUUID()+"/tags", `{"tags":[]}`).refused(t, 404, "TagResourceNotFound", "")
	c.api("DELETE", path, "").want(t, 204)
	if tags := c.get("network", id)["tags"]; fmt.Sprint(tags) != "[]" {
		t.Errorf("tags %v", tags)
	}
}

func TestExtensionsListWhatIsImplemented(t *testing.T) {
	c := newClient(t)
	aliases := []string{}
	for _, e := range c.api("GET", "extensions", "").json["extensions"].([]any) {
		aliases = append(aliases, e.(map[string]any)["alias"].(string))
	}
	if !slices.Contains(aliases, "revision-if-match") || slices.Contains(aliases, "qos") || !slices.Contains(aliases, "dns-integration") {
		t.Errorf("extensions %q", aliases)
	}
	c.api("GET", "extensions/provider", "").want(t, 200)
	c.api("GET", "extensions/qos", "").want(t, 404)
	c.api("GET", "", "").want(t, 200)
	c.api("GET", "security-groups", "").want(t, 404)
}

// A subnet whose creation succeeded must exist as long as its network, and be deleted with
// it.
func TestSubnetCreatesThatRaceTheDeleteOfTheirNetworkLeaveNothing(t *testing.T) {
	c := newClient(t)
	for range 20 {
		id := c.network("")
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				r, _ := c.try("POST", "/networking/v2.0/subnets", fmt.Sprintf(`{"subnet":{"network_id":%q,"ip_version":4,"cidr":"10.%d.0.0/16"}}`, id, i))
				if r.status != 201 && r.status != 404 {
					t.Errorf("create: %d %s", r.status, r.raw)
				}
			})
		}
		wg.Go(func() {
			if r, _ := c.try("DELETE", "/networking/v2.0/networks/"+id, ""); r.status != 204 {
				t.Errorf("delete: %d %s", r.status, r.raw)
			}
		})
		wg.Wait()
	}
	if r := c.api("GET", "subnets", ""); len(r.json["subnets"].([]any)) > 0 {
		t.Errorf("still exists: %s", r.raw)
	}
}

func TestDNSDomainAndPortSecurityOfANetwork(t *testing.T) {
	c := newClient(t)
	id := c.network(`"dns_domain":"Team.Example.","port_security_enabled":false`)
	first := c.port(id, "")
	if n := c.get("network", id); n["dns_domain"] != "team.example." || n["port_security_enabled"] != false || first["port_security_enabled"] != false {
		t.Errorf("network %v, port %v", n, first)
	}
	put := func(attrs string) reply { return c.api("PUT", "networks/"+id, `{"network":{`+attrs+`}}`) }
	put(`"port_security_enabled":true`).want(t, 200)
	if got := c.get("port", first["id"].(string)); got["port_security_enabled"] != false {
		t.Errorf("the setting counts for later ports only: %v", got)
	}
	if later := c.port(id, ""); later["port_security_enabled"] != true {
		t.Errorf("port %v", later)
	}
	put(`"dns_domain":"team.example."`).want(t, 200)
	if n := c.get("network", id); n["revision_number"] != 2.0 {
		t.Errorf("the same domain increments the revision: %v", n["revision_number"])
	}
	for _, domain := range []string{"a.", "<project_id>.example.", "1.a.", ""} {
		put(`"dns_domain":"`+domain+`"`).want(t, 200)
	}
	for domain, reason := range map[string]string{
		`"a.example"`: "'a.example' is not a FQDN.", `"a_b.example."`: "not a valid PQDN or FQDN. Reason: Name 'a_b' must be 1-63 characters long",
		`"*.example."`: "not a valid", `"a b."`: "not a valid", `"a.1."`: "TLD '1' must not be all numeric.",
		`"a..b."`: "Encountered an empty component.", `"-a."`: "must not start or end with a hyphen.", `"` + strings.Repeat("a.", 127) + `"`: "exceed the maximum length",
		`"` + strings.Repeat("a.", 200) + `"`: "exceeds the 255 character FQDN limit",
	} {
		put(`"dns_domain":`+domain).refused(t, 400, "HTTPBadRequest", reason)
	}
	put(`"dns_domain":null`).refused(t, 400, "InvalidInput", "Input value None must be string type")
	put(`"dns_domain":1`).refused(t, 400, "InvalidInput", "Input value 1 must be string type")
	put(`"port_security_enabled":null`).refused(t, 400, "InvalidInput", "'None' cannot be converted to boolean")
}

func TestTheMTUOfANetwork(t *testing.T) {
	c := newClient(t)
	id := c.network(`"mtu":67`)
	for mtu, want := range map[string]float64{"0": 1450, "1": 1, "1279": 1279} {
		c.api("PUT", "networks/"+id, `{"network":{"mtu":`+mtu+`}}`).want(t, 200)
		if got := c.get("network", id)["mtu"]; got != want {
			t.Errorf("%s: got %v, want %v", mtu, got, want)
		}
	}
	for _, mtu := range []string{"-1", "null"} {
		c.api("PUT", "networks/"+id, `{"network":{"mtu":`+mtu+`}}`).want(t, 400)
	}
	if got := as(t, c.s, "admin").create("network", `"provider:network_type":"local"`)["mtu"]; got != 1500.0 {
		t.Errorf("a local network has the MTU %v", got)
	}
}

func TestProviderNetworks(t *testing.T) {
	admin := as(t, newClient(t).s, "admin")
	vlan := func(id string) string {
		return `"provider:network_type":"vlan","provider:physical_network":"physnet1","provider:segmentation_id":` + id
	}
	id, other := admin.network(vlan("7")), admin.network(vlan("100"))
	admin.network(`"provider:network_type":"flat","provider:physical_network":"any"`)
	tunnel := admin.network(`"provider:network_type":"vxlan","provider:segmentation_id":9000`)
	for range 2 {
		if n := admin.create("network", `"provider:network_type":"vlan"`); n["provider:segmentation_id"] == 100.0 || n["provider:physical_network"] != "physnet1" {
			t.Errorf("network %v", n)
		}
	}
	tests := []struct {
		name, attrs   string
		status        int
		kind, message string
	}{
		{"a VLAN that is in use", vlan("7"), 409, "VlanIdInUse", "Unable to create the network. The VLAN 7 on physical network physnet1 is in use."},
		{"a VLAN out of range", vlan("4095"), 400, "InvalidInput", "segmentation_id out of range (1 through 4094)."},
		{"a VLAN on no physical network", `"provider:network_type":"vlan","provider:segmentation_id":8`, 400, "InvalidInput", "segmentation_id requires physical_network for VLAN provider network."},
		{"an unknown physical network", `"provider:network_type":"vlan","provider:physical_network":"x"`, 400, "InvalidInput", "physical_network 'x' unknown for VLAN provider network."},
		{"an unknown type", `"provider:network_type":"x"`, 400, "InvalidInput", "network_type value 'x' not supported."},
		{"no type", `"provider:physical_network":"physnet1"`, 400, "InvalidInput", "network_type required."},
		{"a flat network that is in use", `"provider:network_type":"flat","provider:physical_network":"any"`, 409, "FlatNetworkInUse", "Unable to create the flat network. Physical network any is in use."},
		{"a flat network with a segment", `"provider:network_type":"flat","provider:physical_network":"b","provider:segmentation_id":1`, 400, "InvalidInput", "segmentation_id prohibited for flat provider network."},
		{"a flat network without a physical one", `"provider:network_type":"flat"`, 400, "InvalidInput", "physical_network required for flat provider network."},
		{"a local network on a physical one", `"provider:network_type":"local","provider:physical_network":"b"`, 400, "InvalidInput", "physical_network prohibited for local provider network."},
		{"a tunnel that is in use", `"provider:network_type":"vxlan","provider:segmentation_id":9000`, 409, "TunnelIdInUse", "The tunnel ID 9000 is in use."},
		{"a tunnel on a physical network", `"provider:network_type":"vxlan","provider:physical_network":"b"`, 400, "InvalidInput", "provider:physical_network specified for vxlan network."},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			admin.api("POST", "networks", `{"network":{`+tc.attrs+`}}`).refused(t, tc.status, tc.kind, tc.message)
		})
	}
	put := func(id, attrs string) reply { return admin.api("PUT", "networks/"+id, `{"network":{`+attrs+`}}`) }
	put(id, `"provider:segmentation_id":8`).want(t, 200)
	if n := admin.get("network", id); n["provider:segmentation_id"] != 8.0 || n["revision_number"] != 1.0 {
		t.Errorf("network %v", n)
	}
	admin.network(vlan("7")) // free again
	put(other, `"provider:segmentation_id":8`).refused(t, 409, "VlanIdInUse", "The VLAN 8 on physical network physnet1 is in use.")
	put(other, `"provider:segmentation_id":4095`).refused(t, 400, "InvalidInput", "out of range")
	put(tunnel, `"provider:segmentation_id":9001`).refused(t, 400, "InvalidInput", "Only VLAN type networks can be updated.")
	put(other, `"provider:physical_network":"x"`).refused(t, 400, "InvalidInput", "Plugin does not support updating")
	put(other, `"availability_zone_hints":[]`).refused(t, 400, "HTTPBadRequest", "Cannot update read-only attribute availability_zone_hints")
}

func TestAnEmptyUpdateOfANetwork(t *testing.T) {
	c := newClient(t)
	id := c.network("")
	c.api("PUT", "networks/"+id, `{"network":{}}`).want(t, 200)
	if n := c.get("network", id); n["revision_number"] != 1.0 {
		t.Errorf("revision %v", n["revision_number"])
	}
	admin := as(t, c.s, "admin")
	for _, attr := range []string{"shared", "router:external"} {
		admin.api("PUT", "networks/"+id, `{"network":{"shared":false,"router:external":false}}`).want(t, 200)
		admin.api("PUT", "networks/"+id, `{"network":{"`+attr+`":true}}`).want(t, 200)
		c.api("PUT", "networks/"+id, `{"network":{}}`).refused(t, 403, "PolicyNotAuthorized", "rule:update_network:"+attr)
		c.api("PUT", "networks/"+id, `{"network":{"name":"n"}}`).want(t, 200)
	}
}

func TestAnExternalNetworkIsSeenByAll(t *testing.T) {
	c, external := routed(t)
	n := c.get("network", external)
	subnets := n["subnets"].([]any)
	if n["router:external"] != true || n["shared"] != false || len(subnets) != 1 {
		t.Fatalf("network %v", n)
	}
	if got := c.names("project_id=p"); len(got) > 0 {
		t.Errorf("by project: %v", got)
	}
	if got := c.list("subnet", "network_id="+external); len(got) > 0 {
		t.Errorf("its subnets are listed: %v", got)
	}
	c.api("GET", "subnets/"+subnets[0].(string), "").refused(t, 404, "SubnetNotFound", "")
	c.api("PUT", "networks/"+external, `{"network":{"name":"n"}}`).refused(t, 403, "PolicyNotAuthorized", "rule:update_network is disallowed by policy")
	c.api("DELETE", "networks/"+external, "").refused(t, 403, "PolicyNotAuthorized", "rule:delete_network is disallowed by policy")
	c.api("POST", "ports", `{"port":{"network_id":"`+external+`"}}`).refused(t, 403, "HTTPForbidden", "")
	c.api("PUT", "networks/"+external+"/tags/a", "").want(t, 201)
}
