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

import "fmt"

const (
	// anyRouter creates the router that most rows about routers begin with.
	anyRouter = `router: POST routers {"router": {"name": "NAME"}}
`
	// externalNetwork creates a network for gateways with one address for them, 198.19.0.9.
	externalNetwork = `ext: @admin POST networks {"network": {"name": "NAME-ext", "router:external": true}}
extsub: @admin POST subnets {"subnet": {"network_id": "$ext", "ip_version": 4, "cidr": "198.19.0.0/24", "enable_dhcp": false, "allocation_pools": [{"start": "198.19.0.9", "end": "198.19.0.9"}]}}
`
	// widerNetwork creates another one with all addresses of its subnet.
	widerNetwork = `wide: @admin POST networks {"network": {"name": "NAME-wide", "router:external": true}}
@admin POST subnets {"subnet": {"network_id": "$wide", "ip_version": 4, "cidr": "198.19.1.0/24", "enable_dhcp": false}}
`
	// routedOutside creates a router with its gateway there.
	routedOutside = externalNetwork + `router: POST routers {"router": {"name": "NAME", "description": "NAME mark", "external_gateway_info": {"network_id": "$ext"}}}
`
	showRouter   = "! GET routers/$router\n"
	clearGateway = `PUT routers/$router {"router": {"external_gateway_info": null}}`

	// noID is the ID of nothing.
	noID = "11111111-2222-3333-4444-555555555555"
)

// updateRouter updates the router with these attributes.
func updateRouter(attributes string) string {
	return fmt.Sprintf("PUT routers/$router {\"router\": {%s}}\n", attributes)
}

// gatewayIn sets the gateway of the router.
func gatewayIn(network string) string {
	return updateRouter(fmt.Sprintf(`"external_gateway_info": {"network_id": %q}`, network))
}

// refusedRouters requests routers with these attributes, one after the other.
func refusedRouters(attributes ...string) string {
	script := ""
	for _, a := range attributes {
		script += fmt.Sprintf("! POST routers {\"router\": {\"name\": \"NAME\", %s}}\n", a)
	}
	return script
}

// threeRouters creates three routers in alphabetical order, two of them with a description.
const threeRouters = `a: POST routers {"router": {"name": "NAME-a", "description": "NAME-mark"}}
b: POST routers {"router": {"name": "NAME-b", "admin_state_up": false}}
c: POST routers {"router": {"name": "NAME-C", "description": "NAME-Mark"}}
`

// routersBy lists the three routers by each of these queries.
func routersBy(queries ...string) string {
	script := threeRouters
	for _, q := range queries {
		script += "! GET routers?" + q + "\n"
	}
	return script
}

const theRouters = "name=NAME-a&name=NAME-b&name=NAME-C"

var routerRows = []row{
	{name: "a router shows all its fields", script: "! " + anyRouter + showRouter + "@admin GET routers/$router", whole: true},
	{name: "a router accepts what a member may set", script: externalNetwork + `router: POST routers {"router": {"name": "NAME", "description": "mark", ` +
		`"admin_state_up": false, "availability_zone_hints": [], "external_gateway_info": {"network_id": "$ext"}}}` + "\n" + showRouter, whole: true},
	{name: "a router cannot have these attributes", script: refusedRouters(`"tags": ["a"]`, `"routes": []`, `"id": "`+noID+`"`, `"colour": "red"`, `"status": "DOWN"`,
		`"distributed": true`, `"ha": true`, `"availability_zone_hints": ["x"]`, `"description": null`, `"admin_state_up": "x"`, `"project_id": "$other"`,
		`"description": "`+text255+`x"`) + "! POST routers {\"router\": {\"name\": null}}\n! POST routers {\"router\": {\"name\": \"😀\"}}\n" +
		"! POST routers {\"routers\": [{\"name\": \"NAME\"}]}\n! POST routers {\"router\": {}}\nGET routers?name=NAME"},
	{name: "a router cannot have its gateway there", script: externalNetwork + anyNetwork +
		`others: @other POST networks {"network": {"name": "NAME-other"}}` + "\n" + refusedRouters(
		`"external_gateway_info": {"network_id": "`+noID+`"}`, `"external_gateway_info": {"network_id": "$others"}`,
		`"external_gateway_info": {"network_id": "$net"}`, `"external_gateway_info": {"network_id": "x"}`, `"external_gateway_info": "x"`,
		`"external_gateway_info": {"network_id": "$ext", "enable_snat": true}`, `"external_gateway_info": {"network_id": "$ext", "enable_snat": false}`,
		`"external_gateway_info": {"network_id": "$ext", "external_fixed_ips": [{"ip_address": "198.19.0.9"}]}`,
		`"external_gateway_info": {"network_id": "$ext", "colour": "red"}`) + "GET routers?name=NAME"},
	{name: "two routers may have the same name, and no gateway", script: `! POST routers {"router": {"name": "NAME", "external_gateway_info": null}}
		! POST routers {"router": {"name": "NAME", "external_gateway_info": {}}}
		GET routers?name=NAME&fields=name`},
	{name: "a router gets no address in an external network without subnets", script: `ext: @admin POST networks {"network": {"name": "NAME-ext", "router:external": true}}
		! router: POST routers {"router": {"name": "NAME", "external_gateway_info": {"network_id": "$ext"}}}
		extsub: @admin POST subnets {"subnet": {"network_id": "$ext", "ip_version": 4, "cidr": "198.19.0.0/24", "enable_dhcp": false}}
		GET routers/$router`},
	{name: "a gateway is set, and set again", script: externalNetwork + anyRouter + "! " + gatewayIn("$ext") + showRouter + "! " + gatewayIn("$ext") + showRouter},
	{name: "a gateway is moved to another network", script: routedOutside + widerNetwork + "! " + gatewayIn("$wide") + "! " + gatewayIn("$ext") + showRouter},
	{name: "a gateway is cleared", script: routedOutside + "! " + clearGateway + "\n! " + clearGateway + "\n" + gatewayIn("$ext") +
		"! " + updateRouter(`"external_gateway_info": {}`) + showRouter},
	{name: "a gateway is set with other fields", script: externalNetwork + anyRouter +
		"! " + updateRouter(`"name": "NAME-2", "description": "mark", "external_gateway_info": {"network_id": "$ext"}`) + showRouter},
	{name: "a gateway that is refused leaves the old one", script: routedOutside + anyNetwork + `others: @other POST networks {"network": {"name": "NAME-other"}}` + "\n" +
		"! " + gatewayIn(noID) + "! " + gatewayIn("$net") + "! " + gatewayIn("$others") + "! " + gatewayIn("x") +
		"! " + updateRouter(`"external_gateway_info": {"network_id": "$ext", "enable_snat": true}`) +
		"! " + updateRouter(`"external_gateway_info": {"network_id": "$ext", "external_fixed_ips": [{"subnet_id": "$extsub"}]}`) + showRouter},
	{name: "a gateway in a full network is refused, and loses the old one", script: routedOutside + widerNetwork +
		`! POST routers {"router": {"name": "NAME-2", "external_gateway_info": {"network_id": "$ext"}}}
		! GET routers?name=NAME-2
		two: POST routers {"router": {"name": "NAME-2", "external_gateway_info": {"network_id": "$wide"}}}
		! PUT routers/$two {"router": {"external_gateway_info": {"network_id": "$ext"}}}
		GET routers/$two`},
	{name: "a member's gateway turns on address translation", script: routedOutside +
		`! @admin PUT routers/$router {"router": {"external_gateway_info": {"network_id": "$ext", "enable_snat": false}}}` + "\n" + gatewayIn("$ext")},
	{name: "the port of a gateway is not the member's, and keeps the external network", script: routedOutside + "! GET ports?network_id=$ext\n! GET ports?device_id=$router\n" +
		"! @admin GET ports?network_id=$ext\n! @admin DELETE networks/$ext\n! @admin DELETE subnets/$extsub\n" +
		"@admin PUT networks/$ext {\"network\": {\"router:external\": false}}"},
	{name: "every attribute of a router that may be changed is changed", script: anyRouter +
		"! " + updateRouter(`"name": "NAME-2", "description": "d", "admin_state_up": false`) +
		"! " + updateRouter(``) + "! " + updateRouter(`"name": "NAME-2"`) + showRouter},
	{name: "a router cannot be changed like this", script: anyRouter + "! " + updateRouter(`"name": null`) + "! " + updateRouter(`"name": "`+text255+`x"`) +
		"! " + updateRouter(`"colour": "red"`) + "! " + updateRouter(`"tags": []`) + "! " + updateRouter(`"project_id": "$project"`) +
		"! " + updateRouter(`"status": "DOWN"`) + "! " + updateRouter(`"distributed": true`) + "! PUT routers/$router {\"network\": {}}\n" +
		"! PUT routers/" + noID + ` {"router": {"name": "x"}}` + "\n" + showRouter},
	{name: "a router gets tags", script: anyRouter + `! PUT routers/$router/tags {"tags": ["b", "a"]}` + "\n! GET routers?name=NAME&tags=a,b&fields=tags\n" + showRouter},

	{name: "a router is changed under a condition", script: anyRouter + "! PUT routers/$router {\"router\": {\"name\": \"NAME-2\"}}" + ifMatch + "1\n" +
		"! PUT routers/$router {\"router\": {\"name\": \"NAME-3\"}}" + ifMatch + "1\n" + showRouter},
	{name: "a router is deleted under a condition, only once", script: anyRouter + "! DELETE routers/$router" + ifMatch + "0\n! DELETE routers/$router" + ifMatch + "1\n" +
		"! DELETE routers/$router" + ifMatch + "1\n! DELETE routers/" + noID + "\nDELETE routers/x"},
	{name: "a condition refuses every gateway that is set", script: externalNetwork + anyRouter +
		"! PUT routers/$router {\"router\": {\"external_gateway_info\": {\"network_id\": \"$ext\"}}}" + ifMatch + "1\n" + showRouter + "! " + clearGateway + ifMatch + "2\n" + showRouter},
	{name: "a condition refuses a gateway that is cleared, which is cleared", script: routedOutside + "! GET routers/$router?fields=revision_number\n" +
		"! " + clearGateway + ifMatch + "3\n" + showRouter},
	{name: "a condition refuses to delete a router with a gateway, which is cleared", script: routedOutside + "! DELETE routers/$router" + ifMatch + "3\n" + showRouter},

	{name: "a router with a gateway is deleted", script: routedOutside + "! DELETE routers/$router\n! GET routers/$router\n@admin GET ports?network_id=$ext"},
	{name: "another project's router does not exist", script: inSubnet(anyRouter + "! @other GET routers/$router\n! @other GET routers?name=NAME\n" +
		"! @other PUT routers/$router {\"router\": {\"name\": \"x\"}}\n! @other DELETE routers/$router\n! @other PUT routers/$router/tags {\"tags\": []}\n" +
		"! @other PUT routers/$router/add_router_interface {\"subnet_id\": \"$sub\"}\n" +
		"@other PUT routers/$router/remove_router_interface {\"subnet_id\": \"$sub\"}")},

	{name: "routers are listed by each field", script: routersBy("name=NAME-a&fields=name", "name=NAME-A&fields=name", "name=NAME-a&name=NAME-b&fields=name",
		"description=NAME-mark&fields=description", theRouters+"&description=&fields=name", "id=$a&id=$b&fields=name", theRouters+"&admin_state_up=false&fields=name",
		theRouters+"&project_id=$project&fields=name", theRouters+"&project_id=$other&fields=name", theRouters+"&revision_number=1&fields=name",
		theRouters+"&fields=name&fields=colour", theRouters)},
	{name: "routers are not listed by these fields", script: "! GET routers?colour=red\n! GET routers?status=ACTIVE\n! GET routers?external_gateway_info=x\n" +
		"! GET routers?routes=x\n! GET routers?admin_state_up=x\n! GET routers?name=NAME&limit=2&marker=" + noID + "\n! GET routers?limit=-1\nGET routers?sort_key=name"},
	{name: "routers are listed by pages", script: routersBy(theRouters+"&sort_key=name&sort_dir=asc&limit=2&fields=name&fields=id",
		theRouters+"&sort_key=name&sort_dir=asc&limit=2&marker=$b&fields=name", theRouters+"&sort_key=name&sort_dir=desc&fields=name") +
		"WALK routers?" + theRouters + "&limit=1"},
	{name: "a walk over routers under the operator's limit", script: threeRouters + "d: POST routers {\"router\": {\"name\": \"NAME-a\"}}\nWALK routers?" + theRouters, paged: true},
	{name: "the routers of a mark are found as the controller lists them", script: routedOutside + "GET routers?description=NAME+mark&project_id=$project" +
		"&fields=id&fields=name&fields=description&fields=external_gateway_info&fields=revision_number&limit=1000"},
	{name: "the external networks are found as the controller lists them", script: externalNetwork + anyNetwork +
		"! GET networks?router:external=True&name=NAME&name=NAME-ext&fields=id&fields=name&limit=1000\n" +
		"! GET networks?name=NAME&name=NAME-ext&project_id=$project&fields=name\n! GET subnets?network_id=$ext\n! GET subnets/$extsub\nGET networks/$ext"},

	{name: "a quota of routers is enforced", alone: true, script: `@admin PUT quotas/$other {"quota": {"router": 1}}
		router: @other POST routers {"router": {"name": "NAME"}}
		! @other POST routers {"router": {"name": "NAME"}}
		@other DELETE routers/$router
		@other POST routers {"router": {"name": "NAME"}}`},
}
