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

// three creates three networks in alphabetical order, two of them with a description.
const three = `net: POST networks {"networks": [{"name": "NAME-a", "description": "NAME-mark"}, {"name": "NAME-b", "description": ""}, {"name": "NAME-C", "description": "NAME-Mark"}]}
`

// found returns a row that lists networks.
func found(name, query string) row {
	return row{name: name, script: three + "GET networks?" + query + "&fields=name&fields=description"}
}

// theThree is a filter for the networks of the row.
const theThree = "name=NAME-a&name=NAME-b&name=NAME-C"

var listRows = []row{
	found("a list by an exact name", "name=NAME-a"),
	found("a list by part of a name", "name=NAME-"),
	found("a list by several names", "name=NAME-a&name=NAME-b"),
	found("a list by one name twice", "name=NAME-a&name=NAME-a"),
	found("a list by a name in other case", "name=NAME-A"),
	found("a list by a name with a trailing blank", "name=NAME-a%20"),
	found("a list by a name with a leading blank", "name=%20NAME-a"),
	found("a list by a name with an accent", "name=NAME-%C3%A1"),
	found("a list by a pattern", "name=NAME-%25"),
	found("a list by a description finds other case too", "description=NAME-mark"),
	found("a list by a description in other case", "description=NAME-MARK"),
	found("a list by part of a description", "description=NAME-mar"),
	found("a list by a description with a trailing blank", "description=NAME-mark%20"),
	found("a list by several descriptions", theThree+"&description=NAME-mark&description="),
	{name: "the networks of a mark are found as the controller lists them", script: `net: POST networks {"network": {"name": "NAME", "description": "NAME mark"}}` +
		"\nGET networks?description=NAME+mark&project_id=$project&fields=id&fields=name&fields=description&fields=mtu&fields=revision_number&limit=1000"},
	{name: "the networks of a project are found as the controller lists them", script: inSubnet("GET networks?name=NAME&project_id=$project" +
		"&fields=id&fields=name&fields=description&fields=mtu&fields=revision_number&fields=subnets&limit=1000")},
	{name: "a mark is found with a blank, an equals sign and a slash in it", script: `net: POST networks {"network": {"description": "of NAME owner=a/b"}}` +
		"\nGET networks?description=of+NAME+owner%3Da%2Fb&fields=description"},
	found("a list by two filters", "description=NAME-mark&name=NAME-a"),
	found("a list by two filters that exclude each other", "description=NAME-mark&name=NAME-b"),
	found("a list by an empty description", theThree+"&description="),
	found("a list by an empty name", "name=&id=$net0"),
	found("a list by ID", "id=$net0"),
	found("a list by IDs", "id=$net0&id=$net2"),
	found("a list by an ID that does not exist", "id=x"),
	found("a list by state", theThree+"&admin_state_up=true"),
	found("a list by another state", theThree+"&admin_state_up=False"),
	found("a list by an invalid state", "admin_state_up=x"),
	found("a list by MTU", theThree+"&mtu=1450"),
	found("a list by status", theThree+"&status=ACTIVE"),
	found("a list by the caller's project", theThree+"&project_id=$project"),
	found("a list by another project", theThree+"&project_id=$other"),
	found("a list by the tenant, the old name of the project", theThree+"&tenant_id=$project"),
	found("a list by shared", theThree+"&shared=false"),
	found("a list by external", theThree+"&router:external=false"),
	found("a list by revision", theThree+"&revision_number=1"),
	found("a list by an unknown filter", "colour=red"),
	found("a list by two unknown filters", "colour=red&taste=sweet"),
	found("a list by a time of change", "changed_since=2020-01-01T00:00:00Z"),
	found("a list by a field that is not a filter", "created_at=2020-01-01T00:00:00Z"),
	found("a list by subnets", "subnets=x"),
	{name: "a list of all fields", script: three + "GET networks?" + theThree},
	{name: "a list with unknown fields", script: three + "GET networks?name=NAME-a&fields=name&fields=colour"},
	{name: "a list with no fields", script: three + "GET networks?name=NAME-a&fields="},
	{name: "a list with the fields in one, by commas", script: three + "GET networks?name=NAME-a&fields=name,mtu"},
	found("a list in order", theThree+"&sort_key=name&sort_dir=asc"),
	found("a list in order without a direction", theThree+"&sort_key=name"),
	found("a list in reverse order", theThree+"&sort_key=name&sort_dir=desc"),
	found("a list in order of two keys", theThree+"&sort_key=admin_state_up&sort_key=name&sort_dir=asc&sort_dir=desc"),
	found("a list in an invalid order", "sort_key=name&sort_dir=up"),
	found("a list in the order of a field that cannot be sorted by", "sort_key=created_at&sort_dir=asc"),
	found("a list in the order of the description", "sort_key=description&sort_dir=asc"),
	found("a list in the order of the revision", "sort_key=revision_number&sort_dir=asc"),
	found("a list with more directions than keys", "sort_key=name&sort_dir=asc&sort_dir=asc"),
	{name: "subnets are listed by network", script: inSubnet(ipv4(`"cidr": "10.0.1.0/24"`) + "GET subnets?network_id=$net")},
	{name: "subnets are listed by several networks", script: inSubnet("two: POST networks {\"network\": {\"name\": \"NAME\"}}\n" +
		"GET subnets?network_id=$net&network_id=$two")},
	{name: "subnets are listed by CIDR", script: inSubnet("! GET subnets?network_id=$net&cidr=10.0.0.0/24\nGET subnets?network_id=$net&cidr=10.0.0.1/24")},
	{name: "the subnets of networks are found as the controller lists them", script: inSubnet("two: POST networks {\"network\": {\"name\": \"NAME\"}}\n" +
		"GET subnets?network_id=$net&network_id=$two&fields=id&fields=network_id&fields=name&fields=description&fields=cidr&fields=gateway_ip&fields=revision_number&limit=1000")},
	{name: "subnets are listed by the caller's project", script: inSubnet("! GET subnets?network_id=$net&project_id=$project&fields=cidr\n" +
		"GET subnets?network_id=$net&project_id=$other&fields=cidr")},
	{name: "subnets are listed by an unknown filter", script: "GET subnets?colour=red"},
	{name: "ports are listed by an unknown filter", script: "GET ports?colour=red"},
	{name: "subnets are listed by an invalid CIDR", script: inSubnet("GET subnets?network_id=$net&cidr=x")},
	{name: "subnets are listed by an invalid gateway", script: inSubnet("GET subnets?network_id=$net&gateway_ip=x")},
	{name: "a list by a name of accents", script: `net: POST networks {"network": {"name": "NAME-äé"}}` + "\nGET networks?name=NAME-AE&fields=name"},
	{name: "subnets are listed by IP version", script: inSubnet(ipv6(`"cidr": "fd00::/64"`) + "GET subnets?network_id=$net&ip_version=6")},
	{name: "subnets are listed by gateway", script: inSubnet("GET subnets?network_id=$net&gateway_ip=10.0.0.1")},
	{name: "subnets are listed by DHCP", script: inSubnet("GET subnets?network_id=$net&enable_dhcp=false")},
	{name: "subnets are listed by description", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "description": "NAME"`) + "GET subnets?description=NAME"},
	{name: "subnets are listed by a network that does not exist", script: "GET subnets?network_id=11111111-2222-3333-4444-555555555555"},
	{name: "subnets are listed by pools", script: inSubnet("GET subnets?allocation_pools=x")},
	{name: "a URI of more than 8192 bytes is too long", script: "GET networks?name=" + long},
	{name: "the extensions that clients need exist", script: `
		! GET extensions/availability_zone
		! GET extensions/binding
		! GET extensions/dns-integration
		! GET extensions/empty-string-filtering
		! GET extensions/ext-gw-mode
		! GET extensions/external-net
		! GET extensions/extraroute
		! GET extensions/filter-validation
		! GET extensions/net-mtu
		! GET extensions/net-mtu-writable
		! GET extensions/network_availability_zone
		! GET extensions/pagination
		! GET extensions/port-mac-override
		! GET extensions/port-security
		! GET extensions/project-id
		! GET extensions/provider
		! GET extensions/quotas
		! GET extensions/revision-if-match
		! GET extensions/router
		! GET extensions/sorting
		! GET extensions/standard-attr-description
		! GET extensions/standard-attr-revisions
		! GET extensions/standard-attr-tag
		! GET extensions/standard-attr-timestamp
		! GET extensions/subnet-service-types`},
	{name: "a missing extension", script: "GET extensions/qos"},
}

var long = func() string {
	b := make([]byte, 8200)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}()

var pageRows = []row{
	{name: "a first page", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2"},
	{name: "a full last page", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=3"},
	{name: "a limit that is not reached", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=4"},
	{name: "a limit of 0 means no limit", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=0"},
	{name: "a page after a marker", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2&marker=$net1"},
	{name: "a page after the last", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2&marker=$net2"},
	{name: "a page before a marker", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2&marker=$net2&page_reverse=True"},
	{name: "a page with fields that lack the ID", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2&fields=name"},
	{name: "a marker without a limit", script: three + "GET networks?" + theThree + "&sort_key=name&sort_dir=asc&marker=$net1"},
	{name: "a marker that does not exist", script: three + "GET networks?" + theThree + "&limit=2&marker=11111111-2222-3333-4444-555555555555"},
	{name: "a marker of a deleted network", script: three + "DELETE networks/$net1\nGET networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2&marker=$net1"},
	{name: "a marker of a deleted subnet", script: inSubnet("DELETE subnets/$sub\nGET subnets?network_id=$net&limit=2&marker=$sub")},
	{name: "a list of subnets whose marker was deleted begins again", script: inSubnet(ipv4(`"cidr": "10.0.1.0/24"`) + ipv4(`"cidr": "10.0.2.0/24"`) +
		"DELETE subnets/$sub\nGET subnets?network_id=$net&sort_key=cidr&sort_dir=asc&limit=2&fields=cidr&marker=$sub")},
	{name: "a marker of a deleted port", script: anyNetwork + portOn("") + "DELETE ports/$port\nGET ports?network_id=$net&limit=2&marker=$port"},
	{name: "a marker that does not match the filter", script: three + "GET networks?name=NAME-a&name=NAME-C&sort_key=name&sort_dir=asc&limit=2&marker=$net1"},
	{name: "a negative limit", script: "GET networks?limit=-1"},
	{name: "a limit that is not a number", script: "GET networks?limit=abc"},
	{name: "an empty limit", script: "GET networks?limit="},
	{name: "a walk by pages finds each once", script: three + "WALK networks?" + theThree + "&limit=2"},
	{name: "a walk by pages of one", script: three + "WALK networks?" + theThree + "&limit=1"},
	{name: "a walk by pages in the order of names", script: three + "WALK networks?" + theThree + "&sort_key=name&sort_dir=asc&limit=2"},
	{name: "a walk over subnets", script: inSubnet(ipv4(`"cidr": "10.0.1.0/24"`) + ipv4(`"cidr": "10.0.2.0/24"`) + "WALK subnets?network_id=$net&limit=2")},
	{name: "a walk over ports", script: anyNetwork + portOn("") + portOn("") + portOn("") + "WALK ports?network_id=$net&limit=2"},
	{name: "a page of subnets", script: inSubnet(ipv4(`"cidr": "10.0.1.0/24"`) + "GET subnets?network_id=$net&sort_key=cidr&sort_dir=asc&limit=2&fields=cidr")},

	{name: "the operator's limit cuts a list without a limit", script: four + "GET networks?" + theFour + "&sort_key=name&sort_dir=asc&fields=name&fields=id", paged: true},
	{name: "the operator's limit replaces a limit above it", script: four + "GET networks?" + theFour + "&sort_key=name&sort_dir=asc&fields=id&limit=100", paged: true},
	{name: "the operator's limit replaces a limit of 0", script: four + "GET networks?" + theFour + "&sort_key=name&sort_dir=asc&fields=id&limit=0", paged: true},
	{name: "the operator's limit does not change a limit below it", script: four + "GET networks?" + theFour + "&sort_key=name&sort_dir=asc&fields=id&limit=2", paged: true},
	{name: "the operator's limit adds a link to a full list", script: four + "GET networks?name=NAME-a&name=NAME-b&name=NAME-c&sort_key=name&sort_dir=asc&fields=id", paged: true},
	{name: "the operator's limit and a short list", script: four + "GET networks?name=NAME-a&fields=id", paged: true},
	{name: "the operator's limit and a negative limit", script: "GET networks?limit=-1", paged: true},
	{name: "a walk under the operator's limit", script: four + "WALK networks?" + theFour, paged: true},
	{name: "a walk under the operator's limit requests more", script: four + "WALK networks?" + theFour + "&limit=500", paged: true},
}

const (
	four    = `net: POST networks {"networks": [{"name": "NAME-a"}, {"name": "NAME-b"}, {"name": "NAME-c"}, {"name": "NAME-d"}]}` + "\n"
	theFour = "name=NAME-a&name=NAME-b&name=NAME-c&name=NAME-d"
)
