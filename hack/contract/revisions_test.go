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

const ifMatch = " | If-Match: revision_number="

// put updates the network with a condition.
func put(condition string) string {
	return `! PUT networks/$net {"network": {"description": "d"}} | If-Match: ` + condition + "\n" + showNetwork
}

var revisionRows = []row{
	{name: "a network is changed if the revision is right", script: anyNetwork + put("revision_number=1")},
	{name: "a network is not changed if the revision is old", script: anyNetwork + `PUT networks/$net {"network": {"name": "NAME"}}` + "\n" + put("revision_number=1")},
	{name: "a network is not changed if the revision is of the future", script: anyNetwork + put("revision_number=2")},
	{name: "a condition that is not a number is ignored", script: anyNetwork + put("revision_number=x")},
	{name: "a condition of another form is ignored", script: anyNetwork + put(`"1"`)},
	{name: "a condition of anything is ignored", script: anyNetwork + put("*")},
	{name: "a condition with blanks", script: anyNetwork + put("revision_number = 7")},
	{name: "a condition in quotes", script: anyNetwork + put(`"revision_number=7"`)},
	{name: "a network is deleted if the revision is right", script: anyNetwork + "! DELETE networks/$net" + ifMatch + "1\n" + showNetwork},
	{name: "a network is not deleted if the revision is old", script: inSubnet("! DELETE networks/$net" + ifMatch + "1\n" + showNetwork)},
	{name: "a network with a subnet is deleted if the revision is right", script: inSubnet("! DELETE networks/$net" + ifMatch + "2\n" + "GET subnets/$sub")},
	{name: "a subnet is changed if the revision is right", script: inSubnet(`! PUT subnets/$sub {"subnet": {"name": "x"}}` + ifMatch + "0\n" + showSubnet + showNetwork)},
	{name: "a subnet is not changed if the revision is old", script: inSubnet("! " + updateSubnet(`"name": "x"`) + `! PUT subnets/$sub {"subnet": {"name": "y"}}` + ifMatch + "0\n" + showSubnet)},
	{name: "a subnet is deleted if the revision is right", script: inSubnet("! DELETE subnets/$sub" + ifMatch + "0\n" + showNetwork)},
	{name: "a subnet is not deleted if the revision is old", script: inSubnet(updateSubnet(`"name": "x"`) + "! DELETE subnets/$sub" + ifMatch + "0\n" + showSubnet + showNetwork)},
	{name: "a subnet is corrected in one request as the controller does it", script: inSubnet(`! PUT subnets/$sub {"subnet": {"name": "NAME", "description": "mark", ` +
		`"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.8"}, {"start": "10.0.0.10", "end": "10.0.0.254"}]}}` +
		ifMatch + "0\n" + showSubnet + showNetwork)},
	{name: "a subnet's gateway and pools are not changed if the revision is old", script: inSubnet(updateSubnet(`"name": "x"`) +
		`! PUT subnets/$sub {"subnet": {"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.254"}]}}` +
		ifMatch + "0\n" + showSubnet + showNetwork)},
	{name: "a network is corrected in one request as the controller does it", script: anyNetwork +
		`! PUT networks/$net {"network": {"name": "NAME-2", "description": "mark"}}` + ifMatch + "1\n" + showNetwork},
	{name: "a network with a port is not deleted although the revision is right", script: inSubnet(portOn("") + "! DELETE networks/$net" + ifMatch + "2\n" + showNetwork)},
	{name: "a subnet with a port is not deleted although the revision is right", script: inSubnet(portOn("") + "! DELETE subnets/$sub" + ifMatch + "0\n" + showSubnet)},
	{name: "a network is not deleted if its subnet was changed meanwhile", script: inSubnet(updateSubnet(`"name": "x"`) + "! DELETE networks/$net" + ifMatch + "2\n" + showNetwork)},
	{name: "a network is not deleted if its subnet was deleted meanwhile", script: inSubnet("DELETE subnets/$sub\n! DELETE networks/$net" + ifMatch + "2\n" + showNetwork)},
	{name: "a subnet that does not exist is not found, whatever the condition", script: "DELETE subnets/11111111-2222-3333-4444-555555555555" + ifMatch + "1"},
	{name: "a change of a network that does not exist is not found, whatever the condition",
		script: `PUT networks/11111111-2222-3333-4444-555555555555 {"network": {"name": "x"}}` + ifMatch + "1"},
	{name: "another project's network is not found, whatever the condition", script: anyNetwork + "@other DELETE networks/$net" + ifMatch + "9"},
	{name: "a subnet's gateway is changed if the revision is right", script: inSubnet(`! PUT subnets/$sub {"subnet": {"gateway_ip": null}}` + ifMatch + "0\n" + showNetwork)},
	{name: "a port is not deleted if the revision is wrong", script: inSubnet(portOn("") + "! DELETE ports/$port" + ifMatch + "99")},
	{name: "a creation under a condition", script: `net: POST networks {"network": {"name": "NAME"}} | If-Match: revision_number=7`},
	{name: "a list under a condition", script: `GET networks?name=NAME | If-Match: revision_number=7`},
	{name: "a network that does not exist is not found, whatever the condition", script: "DELETE networks/11111111-2222-3333-4444-555555555555" + ifMatch + "1"},
	{name: "a refusal for another reason takes precedence over an old revision: a value", script: anyNetwork + `PUT networks/$net {"network": {"mtu": 9000}}` + ifMatch + "9"},
	{name: "a refusal for another reason takes precedence over an old revision: a port", script: anyNetwork + portOn("") + "DELETE networks/$net" + ifMatch + "9"},
	{name: "a refusal for another reason takes precedence over an old revision: a gateway", script: inSubnet(`PUT subnets/$sub {"subnet": {"gateway_ip": "10.0.0.9"}}` + ifMatch + "9")},
	{name: "a refusal for another reason takes precedence over an old revision: a port of a subnet", script: inSubnet(portOn("") + "DELETE subnets/$sub" + ifMatch + "9")},
	{name: "a new subnet bumps its network once", script: anyNetwork + showNetwork + ipv4(`"cidr": "10.0.0.0/24"`) + showNetwork + ipv4(`"cidr": "10.0.1.0/24"`) + showNetwork},
	{name: "a subnet that is changed bumps its network", script: inSubnet(showNetwork + updateSubnet(`"name": "x"`) + showNetwork)},
	{name: "a subnet's gateway bumps its network", script: inSubnet(showNetwork + updateSubnet(`"gateway_ip": null`) + showNetwork + showSubnet)},
	{name: "a subnet's name servers and the revisions", script: inSubnet(showNetwork + updateSubnet(`"dns_nameservers": ["1.1.1.1"]`) + showNetwork + showSubnet)},
	{name: "a subnet's routes and the revisions", script: inSubnet(showNetwork + updateSubnet(`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`) + showNetwork + showSubnet)},
	{name: "a subnet's pools and the revisions", script: inSubnet(showNetwork + updateSubnet(`"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) + showNetwork + showSubnet)},
	{name: "a subnet that is not changed bumps its network too", script: inSubnet(updateSubnet(`"enable_dhcp": true`) + showNetwork + showSubnet)},
	{name: "a subnet with routes, servers and pools begins at a revision", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "dns_nameservers": ["1.1.1.1"], `+
		`"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}], "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) + showSubnet + showNetwork},
	{name: "a subnet that is deleted bumps its network once", script: inSubnet(showNetwork + "DELETE subnets/$sub\n" + showNetwork)},
	{name: "a tag bumps its network", script: anyNetwork + "PUT networks/$net/tags/x\nGET networks/$net"},
	{name: "a tag that exists already", script: anyNetwork + "PUT networks/$net/tags/x\nPUT networks/$net/tags/x\nGET networks/$net"},
	{name: "tags that exist already, in one request", script: anyNetwork + `PUT networks/$net/tags {"tags": ["a", "b"]}` + "\n! GET networks/$net\n" +
		`PUT networks/$net/tags {"tags": ["b", "a"]}` + "\nGET networks/$net"},
	{name: "tags are removed although there are none", script: anyNetwork + "! DELETE networks/$net/tags\nGET networks/$net"},
	{name: "a condition twice", script: anyNetwork + put(`"revision_number=1", "revision_number=1"`)},
	{name: "a condition among others", script: anyNetwork + put(`"x", "revision_number=7"`)},
	{name: "an empty change of a subnet", script: inSubnet("! " + updateSubnet(``) + showNetwork)},
	{name: "an empty change under a condition", script: anyNetwork + "PUT networks/$net {\"network\": {}}" + ifMatch + "7"},
	{name: "a list of one under a condition", script: anyNetwork + "GET networks/$net" + ifMatch + "7"},
	{name: "a refusal of a member is reported before an old revision", script: anyNetwork + `PUT networks/$net {"network": {"shared": true}}` + ifMatch + "9"},
	{name: "a refusal of a body is reported before an old revision", script: anyNetwork + `PUT networks/$net {"network": {"colour": 1}}` + ifMatch + "9"},
	{name: "a subnet with service types bumps its network", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "service_types": ["network:dhcp"]`) + showSubnet + showNetwork},
	{name: "tags in one request bump their network", script: anyNetwork + `PUT networks/$net/tags {"tags": ["a", "b"]}` + "\nGET networks/$net"},
	{name: "a tag that is removed bumps its network", script: anyNetwork + "PUT networks/$net/tags/x\nDELETE networks/$net/tags/x\nGET networks/$net"},
	{name: "an MTU bumps its network", script: anyNetwork + updateNetwork(`"mtu": 1300`) + "GET networks/$net"},
	{name: "an MTU of a network with ports bumps these too", script: inSubnet(portOn("") + updateNetwork(`"mtu": 1300`) + "! GET ports/$port\nGET networks/$net")},
	{name: "sharing bumps its network", script: anyNetwork + `@admin PUT networks/$net {"network": {"shared": true}}` + "\nGET networks/$net"},
}
