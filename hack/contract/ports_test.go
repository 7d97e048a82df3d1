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

const dhcpPort = `port: @admin POST ports {"port": {"network_id": "$net", "device_owner": "network:dhcp"}}
`

var portRows = []row{
	{name: "a port shows all its fields to a member", script: inSubnet(portOn("") + "GET ports/$port"), whole: true},
	{name: "a port shows all its fields to an admin", script: inSubnet(portOn("") + "@admin GET ports/$port"), whole: true},
	{name: "a port gets an address of the subnet", script: inSubnet(portOn(`, "name": "NAME", "device_id": "d", "device_owner": "compute:nova"`))},
	{name: "a port gets an address of each family", script: inSubnet(ipv6(`"cidr": "fd00::/64"`) + portOn(""))},
	{name: "a port of a network without subnets has no address", script: anyNetwork + portOn("")},
	{name: "a port gets the address that it requests", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`))},
	{name: "a port gets an address of the subnet that it requests", script: inSubnet(portOn(`, "fixed_ips": [{"subnet_id": "$sub"}]`))},
	{name: "a port gets the gateway's address if it requests it", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.1"}]`))},
	{name: "a port may request no address", script: inSubnet(portOn(`, "fixed_ips": []`))},
	{name: "a port cannot have an address that is in use", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`))},
	{name: "a port cannot have an address outside", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.1.7"}]`))},
	{name: "a port cannot have an address outside the subnet that it names", script: inSubnet(portOn(`, "fixed_ips": [{"subnet_id": "$sub", "ip_address": "10.0.1.7"}]`))},
	{name: "a port cannot have the network's address", script: inSubnet(portOn(`, "fixed_ips": [{"subnet_id": "$sub", "ip_address": "10.0.0.0"}]`))},
	{name: "a port cannot have an address of a subnet that does not exist",
		script: inSubnet(portOn(`, "fixed_ips": [{"subnet_id": "11111111-2222-3333-4444-555555555555"}]`))},
	{name: "a port cannot have an invalid address", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "x"}]`))},
	{name: "a port gets no address in a full subnet", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/30"`) + portOn("") + portOn("")},
	{name: "a port needs a network", script: `POST ports {"port": {"name": "x"}}`},
	{name: "a port needs a network that exists", script: `POST ports {"port": {"network_id": "11111111-2222-3333-4444-555555555555"}}`},
	{name: "an unknown attribute of a port is refused", script: anyNetwork + portOn(`, "colour": "red"`)},
	{name: "a port computes its own address in a SLAAC subnet", script: anyNetwork +
		ipv6(`"cidr": "fd00:2::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`) + portOn(`, "mac_address": "fa:16:3e:00:00:01"`)},
	{name: "two ports cannot have the same MAC address", script: anyNetwork + portOn(`, "mac_address": "fa:16:3e:00:00:01"`) + portOn(`, "mac_address": "fa:16:3e:00:00:01"`)},
	{name: "an invalid MAC address is refused", script: anyNetwork + portOn(`, "mac_address": "x"`)},
	{name: "a port that does not exist is not found", script: "GET ports/11111111-2222-3333-4444-555555555555"},
	{name: "a port is changed", script: inSubnet(portOn("") + `! PUT ports/$port {"port": {"name": "NAME-2", "description": "d", "admin_state_up": false}}`)},
	{name: "an empty change of a port", script: inSubnet(portOn("") + `PUT ports/$port {"port": {}}`)},
	{name: "an empty change of a port under a condition", script: inSubnet(portOn("") + `PUT ports/$port {"port": {}}` + ifMatch + "99")},
	{name: "a change of a port to the same value", script: inSubnet(portOn(`, "name": "NAME"`) + `PUT ports/$port {"port": {"name": "NAME"}}`)},
	{name: "a port moves to another address", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		`! PUT ports/$port {"port": {"fixed_ips": [{"ip_address": "10.0.0.8"}]}}`)},
	{name: "a port cannot move to another network", script: inSubnet(portOn("") + `PUT ports/$port {"port": {"network_id": "$net"}}`)},
	{name: "a port is deleted", script: inSubnet(portOn("") + "! DELETE ports/$port\n! DELETE ports/$port\nDELETE subnets/$sub")},
	{name: "a port does not change the revisions of its network and subnet", script: inSubnet(portOn("") + showSubnet + showNetwork + "DELETE ports/$port\n" + showSubnet + showNetwork)},
	{name: "ports are listed by network", script: inSubnet(portOn(`, "name": "NAME-a"`) + portOn(`, "name": "NAME-b"`) + "GET ports?network_id=$net")},
	{name: "ports are listed by the subnet of their addresses", script: inSubnet(portOn("") + portOn(`, "fixed_ips": []`) + "GET ports?fixed_ips=subnet_id=$sub")},
	{name: "ports are listed by address", script: inSubnet(portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) + "GET ports?network_id=$net&fixed_ips=ip_address=10.0.0.7")},
	{name: "ports are listed by owner", script: inSubnet(portOn(`, "device_owner": "compute:nova"`) + dhcpPort + "! GET ports?network_id=$net&device_owner=compute:nova\n" +
		"GET ports?network_id=$net&device_owner=network:dhcp")},
	{name: "ports are listed with the requested fields", script: inSubnet(portOn("") + "GET ports?network_id=$net&fields=device_owner&fields=network_id")},
	{name: "the ports that keep a network are listed", script: inSubnet(portOn(`, "name": "NAME"`) + dhcpPort +
		"GET ports?network_id=$net&fields=id&fields=name&fields=device_owner&limit=1000")},
	{name: "the ports of several networks are found as the controller lists them", script: inSubnet(portOn(`, "name": "NAME"`) + dhcpPort +
		"two: POST networks {\"network\": {\"name\": \"NAME\"}}\nthree: POST networks {\"network\": {\"name\": \"NAME\"}}\n" +
		`POST ports {"port": {"network_id": "$two", "name": "NAME-2"}}` + "\n" + `POST ports {"port": {"network_id": "$three", "name": "NAME-3"}}` + "\n" +
		"GET ports?network_id=$net&network_id=$two&fields=id&fields=name&fields=device_owner&fields=network_id&fields=fixed_ips&limit=1000")},
	{name: "the ports that keep a subnet are listed", script: inSubnet(portOn(`, "name": "NAME"`) + portOn(`, "fixed_ips": []`) +
		"GET ports?fixed_ips=subnet_id%3D$sub&fields=id&fields=name&fields=device_owner&limit=1000")},
	{name: "ports are listed by a subnet that does not exist",
		script: "GET ports?fixed_ips=subnet_id%3D11111111-2222-3333-4444-555555555555&fields=id"},
	{name: "ports are listed by an invalid address", script: "GET ports?fixed_ips=x"},
	{name: "the DHCP port belongs to the admin who made it", script: inSubnet(dhcpPort + "GET ports/$port")},
}
