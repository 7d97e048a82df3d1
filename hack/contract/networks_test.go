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

// anyNetwork creates the network that most rows begin with.
const anyNetwork = `net: POST networks {"network": {"name": "NAME"}}
`

// newNetwork creates a network with additional attributes, which the row tests.
func newNetwork(attributes string) string {
	return fmt.Sprintf("net: POST networks {\"network\": {\"name\": \"NAME\", %s}}\n", attributes)
}

// subnetOf creates a subnet in the network, with the attributes given.
func subnetOf(attributes string) string {
	return fmt.Sprintf("sub: POST subnets {\"subnet\": {\"network_id\": \"$net\", %s}}\n", attributes)
}

func ipv4(attributes string) string { return subnetOf(`"ip_version": 4, ` + attributes) }
func ipv6(attributes string) string { return subnetOf(`"ip_version": 6, ` + attributes) }

// portOn creates a port on the network.
func portOn(attributes string) string {
	return fmt.Sprintf("port: POST ports {\"port\": {\"network_id\": \"$net\"%s}}\n", attributes)
}

const (
	showNetwork = "! GET networks/$net\n"
	showSubnet  = "! GET subnets/$sub\n"
	text255     = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeaaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeaaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee" +
		"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeaaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeaaaaa"
)

// updateNetwork updates the network with these attributes.
func updateNetwork(attributes string) string {
	return fmt.Sprintf("PUT networks/$net {\"network\": {%s}}\n", attributes)
}

var networkRows = []row{
	{name: "a network with only a name has defaults", script: anyNetwork + showNetwork},
	{name: "a network shows all its fields to a member", script: anyNetwork + showNetwork, whole: true},
	{name: "a network shows all its fields to an admin", script: anyNetwork + "! @admin GET networks/$net\n", whole: true},
	{name: "a network needs no attribute at all", script: `net: POST networks {"network": {}}`},
	{name: "a network accepts what a member may set",
		script: newNetwork(`"description": "mark", "mtu": 1400, "admin_state_up": false, "availability_zone_hints": []`)},
	{name: "two networks may have the same name", script: anyNetwork + "! " + anyNetwork + "! GET networks?name=NAME"},
	{name: "a name of 255 characters is the longest", script: fmt.Sprintf(`net: POST networks {"network": {"name": %q}}`, text255)},
	{name: "a name of 256 characters is too long", script: fmt.Sprintf(`net: POST networks {"network": {"name": %q}}`, text255+"x")},
	{name: "a description of 256 characters is too long", script: newNetwork(fmt.Sprintf(`"description": %q`, text255+"x"))},
	{name: "characters are counted, not bytes", script: newNetwork(`"description": "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü"`)},
	{name: "a null name is refused", script: `net: POST networks {"network": {"name": null}}`},
	{name: "a name that is a number is refused", script: `net: POST networks {"network": {"name": 7}}`},
	{name: "a null description is refused", script: newNetwork(`"description": null`)},
	{name: "a name outside the basic plane fails", script: newNetwork(`"description": "😀"`)},
	{name: "an MTU of 0 means the largest", script: newNetwork(`"mtu": 0`)},
	{name: "the largest MTU is accepted", script: newNetwork(`"mtu": 1450`)},
	{name: "an MTU above the largest is refused", script: newNetwork(`"mtu": 1451`)},
	{name: "a negative MTU is refused", script: newNetwork(`"mtu": -1`)},
	{name: "an MTU below what IPv4 needs", script: newNetwork(`"mtu": 67`)},
	{name: "an MTU may be a string", script: newNetwork(`"mtu": "1400"`)},
	{name: "an MTU that is not a number is refused", script: newNetwork(`"mtu": "x"`)},
	{name: "a null MTU", script: newNetwork(`"mtu": null`)},
	{name: "a state may be written as a word", script: newNetwork(`"admin_state_up": "no"`)},
	{name: "a state that is not a boolean is refused", script: newNetwork(`"admin_state_up": "x"`)},
	{name: "an unknown availability zone is refused", script: newNetwork(`"availability_zone_hints": ["x"]`)},
	{name: "tags cannot be given on creation", script: newNetwork(`"tags": ["a"]`)},
	{name: "an ID cannot be chosen", script: newNetwork(`"id": "11111111-2222-3333-4444-555555555555"`)},
	{name: "a status cannot be chosen", script: newNetwork(`"status": "DOWN"`)},
	{name: "subnets cannot be created with their network", script: newNetwork(`"subnets": []`)},
	{name: "a revision cannot be chosen", script: newNetwork(`"revision_number": 9`)},
	{name: "an unknown attribute is refused", script: newNetwork(`"colour": "red"`)},
	{name: "an attribute of a missing extension is refused: qos_policy_id", script: newNetwork(`"qos_policy_id": null`)},
	{name: "an attribute of a missing extension is refused: vlan_transparent", script: newNetwork(`"vlan_transparent": true`)},
	{name: "a body that is not JSON is refused", script: `POST networks {`},
	{name: "an empty body is refused", script: `POST networks`},
	{name: "a body that is a list is refused", script: `POST networks []`},
	{name: "a body of another resource is refused", script: `POST networks {"subnet": {}}`},
	{name: "a body of a string is refused", script: `POST networks {"network": "x"}`},

	{name: "a network is shown by its ID", script: anyNetwork + "GET networks/$net"},
	{name: "a network is shown with the requested fields", script: anyNetwork + "GET networks/$net?fields=name&fields=mtu"},
	{name: "a network is shown with no field", script: anyNetwork + "GET networks/$net?fields="},
	{name: "an empty list of tags is put", script: anyNetwork + `PUT networks/$net/tags {"tags": []}` + "\nGET networks/$net"},
	{name: "a network that does not exist is not found", script: "GET networks/11111111-2222-3333-4444-555555555555"},
	{name: "an invalid ID is not found", script: "GET networks/x"},
	{name: "a path that does not exist is not found", script: "GET nothing"},
	{name: "a network has no further path", script: anyNetwork + "GET networks/$net/x"},
	{name: "a network cannot be patched", script: anyNetwork + "PATCH networks/$net"},

	{name: "every attribute of a network that may be changed is changed", script: anyNetwork +
		updateNetwork(`"name": "NAME-2", "description": "d", "mtu": 1300, "admin_state_up": false`) + showNetwork},
	{name: "a change to the same value bumps the revision", script: anyNetwork + "! " + updateNetwork(`"name": "NAME"`) + showNetwork},
	{name: "an empty change", script: anyNetwork + "! " + updateNetwork(``) + showNetwork},
	{name: "a change that is refused changes nothing", script: anyNetwork + "! " + updateNetwork(`"name": "NAME-2", "mtu": 9000`) + showNetwork},
	{name: "a change to a name that is too long is refused", script: anyNetwork + updateNetwork(fmt.Sprintf(`"name": %q`, text255+"x"))},
	{name: "a change to a null name is refused", script: anyNetwork + updateNetwork(`"name": null`)},
	{name: "a change to an MTU that is too large is refused", script: anyNetwork + updateNetwork(`"mtu": 1451`)},
	{name: "a change of the status is refused", script: anyNetwork + updateNetwork(`"status": "DOWN"`)},
	{name: "a change of the project is refused", script: anyNetwork + updateNetwork(`"project_id": "$project"`)},
	{name: "a change of the zones is refused", script: anyNetwork + updateNetwork(`"availability_zone_hints": []`)},
	{name: "a change of the tags is refused", script: anyNetwork + updateNetwork(`"tags": []`)},
	{name: "a change of an unknown attribute is refused", script: anyNetwork + updateNetwork(`"colour": "red"`)},
	{name: "a change of a network that does not exist is not found",
		script: `PUT networks/11111111-2222-3333-4444-555555555555 {"network": {"name": "x"}}`},
	{name: "a change without a body is refused", script: anyNetwork + "PUT networks/$net"},
	{name: "a change of a network as a subnet is refused", script: anyNetwork + `PUT networks/$net {"subnet": {}}`},
	{name: "there is no bulk update", script: anyNetwork + `PUT networks/$net {"networks": [{"name": "x"}]}`},
	{name: "the collection cannot be updated", script: `PUT networks {"network": {"name": "x"}}`},

	{name: "a network that is deleted is gone", script: anyNetwork + "! DELETE networks/$net\nGET networks/$net"},
	{name: "a network is deleted only once", script: anyNetwork + "DELETE networks/$net\nDELETE networks/$net"},
	{name: "a network that does not exist is not deleted", script: "DELETE networks/11111111-2222-3333-4444-555555555555"},
	{name: "a network is deleted with its subnets", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24"`) + "! DELETE networks/$net\nGET subnets/$sub"},
	{name: "a port keeps its network from being deleted", script: anyNetwork + portOn("") + "DELETE networks/$net"},
	{name: "a DHCP port does not keep its network from being deleted", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24"`) +
		`port: @admin POST ports {"port": {"network_id": "$net", "device_owner": "network:dhcp"}}` + "\n! DELETE networks/$net\nGET ports/$port"},
	// No labels: the order of the IDs in the message is arbitrary.
	{name: "an error has the IDs of all ports that keep a network from being deleted", script: inSubnet(
		`POST ports {"port": {"network_id": "$net", "name": "NAME-a", "device_owner": "compute:nova"}}` + "\n" +
			`POST ports {"port": {"network_id": "$net", "name": "NAME-b"}}` + "\nDELETE networks/$net")},
	{name: "a network can be deleted after its port", script: inSubnet(portOn("") + "! DELETE networks/$net\n! DELETE ports/$port\nDELETE networks/$net")},
	{name: "the collection cannot be deleted", script: "DELETE networks"},

	{name: "a bulk create keeps the order of the networks",
		script: `net: POST networks {"networks": [{"name": "NAME-b"}, {"name": "NAME-a", "mtu": 1300}]}`},
	{name: "networks in bulk may be wrapped", script: `net: POST networks {"networks": [{"network": {"name": "NAME-a"}}]}`},
	{name: "a bulk create is all or nothing",
		script: `! net: POST networks {"networks": [{"name": "NAME"}, {"name": "NAME", "mtu": 9000}]}` + "\nGET networks?name=NAME"},
	{name: "a bulk create names the wrong attribute", script: `net: POST networks {"networks": [{"name": "NAME"}, {"colour": "red"}]}`},
	{name: "a bulk create of nothing is refused", script: `POST networks {"networks": []}`},
	{name: "a bulk create of values that are not objects is refused", script: `POST networks {"networks": ["x"]}`},

	{name: "tags are put and shown", script: anyNetwork + `! PUT networks/$net/tags {"tags": ["b", "a"]}` + "\nGET networks/$net?fields=tags"},
	{name: "networks are listed by tags", script: anyNetwork + `PUT networks/$net/tags {"tags": ["b", "a"]}` + "\nGET networks?name=NAME&tags=a,b&fields=name"},
	{name: "networks are listed by tags, any of them", script: anyNetwork + `PUT networks/$net/tags {"tags": ["b", "a"]}` + "\nGET networks?name=NAME&tags-any=a,c&fields=name"},
	{name: "networks are listed by tags, none of them", script: anyNetwork + `PUT networks/$net/tags {"tags": ["b", "a"]}` +
		"\n! GET networks?name=NAME&not-tags=a,b&fields=name\n! GET networks?name=NAME&not-tags=a,c&fields=name\nGET networks?name=NAME&not-tags-any=a,c&fields=name"},
	{name: "a single tag is added and removed", script: anyNetwork + "! PUT networks/$net/tags/x\n! GET networks/$net/tags/x\n" +
		"! DELETE networks/$net/tags/x\nGET networks/$net/tags/x"},
	{name: "all tags are removed", script: anyNetwork + "PUT networks/$net/tags/x\n! DELETE networks/$net/tags\nGET networks/$net/tags"},
	{name: "a tag that is too long is refused", script: anyNetwork + fmt.Sprintf(`PUT networks/$net/tags {"tags": [%q]}`, text255+"x")},
	{name: "tags that are not a list are refused", script: anyNetwork + `PUT networks/$net/tags {"tags": "x"}`},
	{name: "tags of a network that does not exist", script: "GET networks/11111111-2222-3333-4444-555555555555/tags"},
}
