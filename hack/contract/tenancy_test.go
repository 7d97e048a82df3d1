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

var tenancyRows = []row{
	{name: "another project's network is not listed", script: anyNetwork + "@other GET networks?name=NAME"},
	{name: "another project's network is not shown", script: anyNetwork + "@other GET networks/$net"},
	{name: "another project's network is not changed", script: anyNetwork + `@other PUT networks/$net {"network": {"name": "x"}}`},
	{name: "another project's network is not deleted", script: anyNetwork + "@other DELETE networks/$net"},
	{name: "another project's network gets no subnet", script: anyNetwork +
		`@other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "another project's network gets no port", script: anyNetwork + `@other POST ports {"port": {"network_id": "$net"}}`},
	{name: "another project's network gets no tag", script: anyNetwork + `@other PUT networks/$net/tags {"tags": ["x"]}`},
	{name: "another project's subnet is not shown", script: inSubnet("@other GET subnets/$sub")},
	{name: "another project's subnet is not changed", script: inSubnet(`@other PUT subnets/$sub {"subnet": {"name": "x"}}`)},
	{name: "another project's subnet is not deleted", script: inSubnet("@other DELETE subnets/$sub")},
	{name: "another project's subnets are not listed", script: inSubnet("@other GET subnets?network_id=$net")},
	{name: "another project's ports are not listed", script: inSubnet(portOn("") + "@other GET ports?network_id=$net")},
	{name: "another project's port is not shown", script: inSubnet(portOn("") + "@other GET ports/$port")},
	{name: "a network for another project is refused", script: newNetwork(`"project_id": "$other"`)},
	{name: "a network for the caller's project is accepted", script: newNetwork(`"project_id": "$project"`)},
	{name: "a network for the caller's tenant is accepted", script: newNetwork(`"tenant_id": "$project"`)},
	{name: "a network for two projects is refused", script: newNetwork(`"tenant_id": "$project", "project_id": "$other"`)},
	{name: "a subnet for another project is refused", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "project_id": "$other"`)},

	{name: "a member cannot share a network", script: newNetwork(`"shared": true`)},
	{name: "a member may say that a network is not shared", script: newNetwork(`"shared": false`)},
	{name: "a member cannot make a network external", script: newNetwork(`"router:external": true`)},
	{name: "a member cannot share and make external", script: newNetwork(`"shared": true, "router:external": true`)},
	{name: "a member cannot choose the type", script: newNetwork(`"provider:network_type": "vxlan"`)},
	{name: "a member cannot choose type, physical network and segment",
		script: newNetwork(`"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 7`)},
	{name: "a member cannot share a network later", script: anyNetwork + updateNetwork(`"shared": true`)},
	{name: "a member cannot even unshare a network later", script: anyNetwork + updateNetwork(`"shared": false`)},
	{name: "a member cannot make a network external later", script: anyNetwork + updateNetwork(`"router:external": true`)},
	{name: "a member cannot change the type", script: anyNetwork + updateNetwork(`"provider:network_type": "vlan"`)},

	{name: "an admin sees every project's networks", script: anyNetwork + "! @admin GET networks?name=NAME\n@admin GET networks/$net"},
	{name: "an admin changes every project's networks", script: anyNetwork + `! @admin PUT networks/$net {"network": {"description": "d"}}` + "\n" + showNetwork},
	{name: "an admin deletes every project's networks", script: anyNetwork + "! @admin DELETE networks/$net\n" + showNetwork},
	{name: "an admin creates a network for another project", script: `net: @admin POST networks {"network": {"name": "NAME", "project_id": "$project"}}` + "\n" + showNetwork},
	{name: "an admin creates a subnet in another project's network", script: anyNetwork +
		`sub: @admin POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}` + "\n! GET subnets/$sub\n! PUT subnets/$sub {\"subnet\": {\"name\": \"x\"}}\nDELETE subnets/$sub"},
	{name: "an admin's subnet in another project's network is listed only to admins", script: anyNetwork +
		`sub: @admin POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}` +
		"\n! GET networks?name=NAME&fields=subnets\n! @admin GET networks?name=NAME&fields=subnets\n! GET subnets?network_id=$net&fields=cidr" +
		"\n! @admin GET subnets?network_id=$net&fields=cidr\n@admin GET subnets?network_id=$net&project_id=$project&fields=cidr"},
	{name: "an admin changes the gateway of another project's subnet", script: inSubnet(`@admin PUT subnets/$sub {"subnet": {"gateway_ip": null}}` + "\n" + showSubnet + showNetwork)},
	{name: "an admin chooses the type", script: `net: @admin POST networks {"network": {"name": "NAME", "provider:network_type": "vlan", "provider:physical_network": "physnet1"}}` +
		"\n@admin GET networks/$net", whole: true},
	{name: "an admin chooses a type that does not exist", script: `net: @admin POST networks {"network": {"name": "NAME", "provider:network_type": "x"}}`},
	{name: "an admin chooses a physical network that does not exist",
		script: `net: @admin POST networks {"network": {"name": "NAME", "provider:network_type": "vlan", "provider:physical_network": "x"}}`},
	{name: "an admin cannot change the type", script: anyNetwork + `@admin PUT networks/$net {"network": {"provider:network_type": "vlan"}}`},

	{name: "a shared network is visible to all", script: shared + "! @other GET networks/$net\n@other GET networks?name=NAME"},
	{name: "a shared network is changed only by its project", script: shared + `@other PUT networks/$net {"network": {"name": "x"}}`},
	{name: "a shared network is deleted only by its project", script: shared + "@other DELETE networks/$net"},
	{name: "a shared network gets subnets only of its project", script: shared +
		`@other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}`},
	{name: "a shared network gets ports of others", script: shared + ipv4(`"cidr": "10.0.0.0/24"`) +
		`! port: @other POST ports {"port": {"network_id": "$net"}}` + "\n! GET ports/$port\n! DELETE networks/$net\n! DELETE ports/$port\nDELETE networks/$net"},
	{name: "a shared network with others' ports cannot be unshared", script: shared + `port: @other POST ports {"port": {"network_id": "$net"}}
		@admin PUT networks/$net {"network": {"shared": false}}`},
	{name: "a shared network's subnets are visible to all", script: shared + ipv4(`"cidr": "10.0.0.0/24"`) +
		"! @other GET subnets?network_id=$net\n! @other PUT subnets/$sub {\"subnet\": {\"name\": \"x\"}}\n@other DELETE subnets/$sub"},
	{name: "a shared network's subnet of another project is its own", script: shared +
		`sub: @other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}` +
		"\n! @other PUT subnets/$sub {\"subnet\": {\"name\": \"x\"}}\n! GET subnets/$sub\n! PUT subnets/$sub {\"subnet\": {\"name\": \"y\"}}\n! @other DELETE subnets/$sub"},
	{name: "a shared network gets tags only of its project", script: shared + `@other PUT networks/$net/tags {"tags": ["x"]}`},
	{name: "an external network gets no subnet of others", script: `net: @admin POST networks {"network": {"name": "NAME", "router:external": true}}` + "\n" + ipv4(`"cidr": "10.0.0.0/24"`)},
	{name: "an external network gets no port of others", script: `net: @admin POST networks {"network": {"name": "NAME", "router:external": true}}` + "\n" + portOn("")},
	{name: "an external network is not changed by others", script: `net: @admin POST networks {"network": {"name": "NAME", "router:external": true}}` + "\n" + updateNetwork(`"name": "x"`)},
	{name: "an admin repeats the type", script: anyNetwork + `@admin PUT networks/$net {"network": {"provider:network_type": "vxlan"}}`},
	{name: "an external network is visible to all", script: `net: @admin POST networks {"network": {"name": "NAME", "router:external": true}}` + "\nGET networks/$net"},

	{name: "a quota of networks is enforced", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": 1}}
		net: @other POST networks {"network": {"name": "NAME"}}
		! net: @other POST networks {"network": {"name": "NAME"}}
		! net: @other POST networks {"networks": [{"name": "NAME"}, {"name": "NAME"}]}
		DELETE networks/$net`},
	{name: "a quota of networks of 0", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": 0}}
		@other POST networks {"network": {"name": "NAME"}}`},
	{name: "a full quota is reported before another refusal", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": 0}}
		! @other POST networks {"network": {"name": "NAME", "shared": true}}
		@other POST networks {"network": {"name": "NAME", "mtu": 9000}}`},
	{name: "a quota of networks has room after a delete", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": 1}}
		net: @other POST networks {"network": {"name": "NAME"}}
		@other DELETE networks/$net
		net: @other POST networks {"network": {"name": "NAME"}}`},
	{name: "a bulk create over the quota creates nothing", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": 1}}
		! @other POST networks {"networks": [{"name": "NAME"}, {"name": "NAME"}]}
		@other GET networks?name=NAME`},
	{name: "a quota of subnets is enforced", alone: true, script: `@admin PUT quotas/$other {"quota": {"subnet": 1}}
		net: @other POST networks {"network": {"name": "NAME"}}
		sub: @other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}
		@other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.1.0/24"}}`},
	{name: "a quota is shown with what there is, which can be more", alone: true, script: `net: @other POST networks {"network": {"name": "NAME"}}
		sub: @other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}
		@admin PUT quotas/$other {"quota": {"subnet": 0}}
		! @other GET quotas/$other/details.json
		! GET quotas/$other/details.json
		@other POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.1.0/24"}}`},
	{name: "a quota of ports is enforced", alone: true, script: `@admin PUT quotas/$other {"quota": {"port": 0}}
		net: @other POST networks {"network": {"name": "NAME"}}
		@other POST ports {"port": {"network_id": "$net"}}`},
	{name: "a quota is changed only by admins", alone: true, script: `PUT quotas/$project {"quota": {"network": 1}}`},
	{name: "a quota is shown", alone: true, script: "GET quotas/$project"},
	{name: "a quota of others is shown only to admins", alone: true, script: "GET quotas/$other"},
	{name: "a quota is reset only by admins", alone: true, script: "DELETE quotas/$project"},
	{name: "a quota below -1 is refused", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": -2}}`},
	{name: "a quota that is not a number is refused", alone: true, script: `@admin PUT quotas/$other {"quota": {"network": "x"}}`},
}

// shared creates a network that an admin has shared.
const shared = anyNetwork + `@admin PUT networks/$net {"network": {"shared": true}}
`

// login requests a token.
func login(user, password, scope string) string {
	return `POST identity/auth/tokens {"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "` + user +
		`", "domain": {"id": "default"}, "password": "` + password + `"}}}` + scope + `}}`
}

// ofTheUser is the scope of the project with the user's name.
const ofTheUser = `, "scope": {"project": {"name": "$user", "domain": {"id": "default"}}}`

var tokenRows = []row{
	{name: "no token", script: "@nobody GET networks"},
	{name: "an invalid token", script: "@forged GET networks"},
	{name: "a token that was revoked", script: "@revoked GET networks"},
	{name: "no token, to create", script: `@nobody POST networks {"network": {"name": "NAME"}}`},
	{name: "a missing token is reported before a path that does not exist", script: "@nobody GET nothing"},
	{name: "a missing token is reported before a body that is not JSON", script: "@nobody POST networks {"},
	{name: "a login for the project", script: login("$user", "$password", ofTheUser)},
	{name: "a login without a project is for the user's own project", script: login("$user", "$password", "")},
	{name: "a login with a body that is not JSON", script: "POST identity/auth/tokens {"},
	{name: "Keystone's versions", script: "GET identity/"},
	{name: "a path of Keystone that does not exist", script: "GET identity/nothing"},
	{name: "a login with a wrong password", script: login("$user", "wrong", "")},
	{name: "a login of a user that does not exist", script: login("stranger", "wrong", "")},
	{name: "a login for a project that does not exist", script: login("$user", "$password", `, "scope": {"project": {"name": "nothing", "domain": {"id": "default"}}}`)},
	{name: "a login for a project that is not the user's", script: login("$user", "$password", `, "scope": {"project": {"name": "other", "domain": {"id": "default"}}}`)},
	{name: "a login with an invalid token", script: `POST identity/auth/tokens {"auth": {"identity": {"methods": ["token"], "token": {"id": "gAAAAABforged"}}}}`},
}
