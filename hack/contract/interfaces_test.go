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
	// routed creates a router and a subnet for its interfaces.
	routed = anyRouter + anyNetwork + `sub: POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}}
`
	// attached creates them with an interface.
	attached  = routed + attach
	attach    = "iface: " + addSubnet
	addSubnet = `PUT routers/$router/add_router_interface {"subnet_id": "$sub"}
`
	removeSubnet = `PUT routers/$router/remove_router_interface {"subnet_id": "$sub"}
`
	// anotherRouter and anotherNetwork exist beside the first.
	anotherRouter = `router2: POST routers {"router": {"name": "NAME-2"}}
`
	anotherNetwork = `net2: POST networks {"network": {"name": "NAME-2"}}
`
	listInterfaces = "! GET ports?network_id=$net&device_owner=network:router_interface\n"
)

// anotherSubnet creates sub2 in this network.
func anotherSubnet(network, attributes string) string {
	return fmt.Sprintf("sub2: POST subnets {\"subnet\": {\"network_id\": %q, %s}}\n", network, attributes)
}

// add sends this body to add_router_interface, and remove to remove_router_interface.
func add(body string) string { return "PUT routers/$router/add_router_interface {" + body + "}\n" }
func remove(body string) string {
	return "PUT routers/$router/remove_router_interface {" + body + "}\n"
}

// oneOfTwo removes the first and then the second of two IPv6 subnets from their port, and replaces the second.
func oneOfTwo(name, modes string) row {
	attributes := func(net string) string {
		return fmt.Sprintf(`"ip_version": 6, "cidr": "fd0%s::/64", "gateway_ip": "fd0%[1]s::1"%s`, net, modes)
	}
	return row{name: "one of two IPv6 subnets is removed from the interface, " + name, script: anyRouter + anyNetwork + subnetOf(attributes("0")) + attach +
		anotherSubnet("$net", attributes("1")) + "! " + add(`"subnet_id": "$sub2"`) + "! " + removeSubnet + listInterfaces +
		"! " + addSubnet + listInterfaces + "! " + remove(`"subnet_id": "$sub2"`) + listInterfaces + "! DELETE subnets/$sub2\n" +
		anotherSubnet("$net", attributes("2")) + listInterfaces + add(`"subnet_id": "$sub2"`) + listInterfaces + showRouter}
}

var interfaceRows = []row{
	{name: "a router gets an interface in a subnet", script: routed + "! " + attach + "! GET ports/$iface\n" + showRouter + showSubnet + showNetwork, whole: true},
	{name: "an interface cannot be added like this", script: routed + anyPort + "! " + add(``) + "! " + add(`"subnet_id": "$sub", "port_id": "$port"`) +
		"! " + add(`"subnet_id": "`+noID+`"`) + "! " + add(`"port_id": "`+noID+`"`) + "! " + add(`"subnet_id": "x"`) + "! " + add(`"subnet_id": null`) +
		"! PUT routers/$router/add_router_interface\n! PUT routers/" + noID + "/add_router_interface {\"subnet_id\": \"$sub\"}\n" +
		"! PUT routers/x/add_router_interface {\"subnet_id\": \"$sub\"}\n" + showRouter},
	{name: "an interface's other keys are ignored, and it is added only once", script: routed +
		"iface: " + add(`"subnet_id": "$sub", "name": "NAME", "description": "mark", "colour": "red"`) + "! " + addSubnet + listInterfaces + showRouter},
	{name: "the subnets of a router do not overlap", script: attached + anotherNetwork + anotherSubnet("$net2", `"ip_version": 4, "cidr": "10.0.0.128/25"`) +
		"! " + add(`"subnet_id": "$sub2"`) + "GET ports?network_id=$net2"},
	{name: "an overlap with the external subnet is found although another router has the gateway's address", script: routedOutside + anotherRouter + anyNetwork +
		ipv4(`"cidr": "198.19.0.0/16"`) + "PUT routers/$router2/add_router_interface {\"subnet_id\": \"$sub\"}\n! " + addSubnet + listInterfaces},
	{name: "a subnet that another router has is refused for the gateway's address alone", script: routedOutside + anotherRouter + anyNetwork +
		ipv4(`"cidr": "10.0.0.0/24"`) + "PUT routers/$router2/add_router_interface {\"subnet_id\": \"$sub\"}\n! " + addSubnet + listInterfaces},
	{name: "the subnets of a router do not overlap with the external one", script: routedOutside + anyNetwork + ipv4(`"cidr": "198.19.0.0/16"`) + "! " + addSubnet +
		clearGateway + "\n! " + addSubnet + "! " + gatewayIn("$ext") + showRouter},
	{name: "an interface needs a subnet with a gateway", script: anyRouter + anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "gateway_ip": null`) + "! " + addSubnet + listInterfaces},
	{name: "an interface needs a gateway in the subnet", script: anyRouter + anyNetwork + ipv4(`"cidr": "10.0.0.0/24", "gateway_ip": "10.1.0.1"`) + "! " + addSubnet +
		anotherNetwork + anotherSubnet("$net2", `"ip_version": 6, "cidr": "fd00::/64", "gateway_ip": "fe80::1"`) + add(`"subnet_id": "$sub2"`)},
	{name: "an interface needs the gateway's address, which another port has", script: routed + portOn(`, "fixed_ips": [{"ip_address": "10.0.0.1"}]`) + "! " + addSubnet +
		showRouter + "DELETE ports/$port\n" + attach + anotherRouter + "! PUT routers/$router2/add_router_interface {\"subnet_id\": \"$sub\"}\n" + listInterfaces},
	{name: "a port becomes an interface", script: routed + `port: POST ports {"port": {"network_id": "$net", "name": "NAME", "description": "mark", ` +
		`"fixed_ips": [{"subnet_id": "$sub", "ip_address": "10.0.0.1"}]}}` + "\n! " + add(`"port_id": "$port"`) + "! GET ports/$port\n! " + addSubnet +
		"! " + removeSubnet + "GET ports/$port"},
	{name: "a port becomes an interface with any address", script: routed + updateSubnet(`"gateway_ip": null`) + portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) +
		"! " + add(`"port_id": "$port"`) + "GET ports/$port"},
	{name: "a port does not become an interface", script: routed + `port: POST ports {"port": {"network_id": "$net", "fixed_ips": []}}` + "\n! " + add(`"port_id": "$port"`) +
		`port: POST ports {"port": {"network_id": "$net", "device_id": "x"}}` + "\n! " + add(`"port_id": "$port"`) + "! " + attach + add(`"port_id": "$iface"`)},
	{name: "a second port of a subnet does not become an interface", script: attached + portOn(`, "fixed_ips": [{"ip_address": "10.0.0.7"}]`) + "! " + add(`"port_id": "$port"`) +
		"GET ports/$port"},
	{name: "one port becomes an interface in two subnets", script: routed + anotherSubnet("$net", `"ip_version": 6, "cidr": "fd00::/64", "gateway_ip": "fd00::1"`) +
		`port: POST ports {"port": {"network_id": "$net", "fixed_ips": [{"ip_address": "10.0.0.1"}, {"ip_address": "fd00::1"}]}}` + "\n" +
		add(`"port_id": "$port"`) + "! " + remove(`"subnet_id": "$sub"`) + listInterfaces},

	{name: "an IPv6 subnet has another interface than an IPv4 subnet", script: attached +
		anotherSubnet("$net", `"ip_version": 6, "cidr": "fd00::/64", "gateway_ip": "fd00::1", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`) +
		"! iface2: " + add(`"subnet_id": "$sub2"`) + listInterfaces},
	{name: "an IPv6 subnet whose router is another one gets no interface", script: anyRouter + anyNetwork +
		ipv6(`"cidr": "fd00::/64", "gateway_ip": "fd00::1", "ipv6_address_mode": "slaac"`) + "! " + addSubnet + portOn(``) + "! " + add(`"port_id": "$port"`) +
		listInterfaces + anotherSubnet("$net", `"ip_version": 6, "cidr": "fd01::/64", "gateway_ip": "fd01::1", "ipv6_ra_mode": "slaac"`) + add(`"subnet_id": "$sub2"`)},
	{name: "a later IPv6 subnet joins the interface", script: anyRouter + anyNetwork + ipv6(`"cidr": "fd00::/64", "gateway_ip": "fd00::1"`) + attach +
		anotherSubnet("$net", `"ip_version": 6, "cidr": "fd01::/64", "gateway_ip": "fd01::1"`) + "! " + add(`"subnet_id": "$sub2"`) +
		"! " + add(`"subnet_id": "$sub2"`) + listInterfaces + "! " + removeSubnet + listInterfaces + showRouter + "! " + remove(`"port_id": "$iface"`) + listInterfaces},
	oneOfTwo("without modes", ""),
	oneOfTwo("with SLAAC", `, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"`),
	oneOfTwo("with stateful DHCP", `, "ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"`),
	{name: "an IPv6 interface is removed by its port", script: anyRouter + anyNetwork + ipv6(`"cidr": "fd00::/64", "gateway_ip": "fd00::1"`) + attach +
		anotherSubnet("$net", `"ip_version": 6, "cidr": "fd01::/64", "gateway_ip": "fd01::1"`) + add(`"subnet_id": "$sub2"`) +
		remove(`"port_id": "$iface", "subnet_id": "$sub2"`) + listInterfaces},

	{name: "an interface is removed by its subnet, whatever other ports", script: attached + anyPort + "! " + removeSubnet + "! " + removeSubnet + "! GET ports/$iface\n" + showRouter +
		"! GET ports/$port\nDELETE routers/$router"},
	{name: "an interface is not removed like this, and then by its port", script: attached + anotherRouter + anotherNetwork + anotherSubnet("$net2", `"ip_version": 4, "cidr": "10.0.1.0/24"`) +
		anyPort + "! " + remove(``) + "! " + remove(`"subnet_id": "`+noID+`"`) + "! " + remove(`"port_id": "`+noID+`"`) + "! " + remove(`"subnet_id": "$sub2"`) +
		"! " + remove(`"port_id": "$port"`) + "! " + remove(`"port_id": "$iface", "subnet_id": "$sub2"`) +
		"! PUT routers/$router2/remove_router_interface {\"subnet_id\": \"$sub\"}\n! PUT routers/$router2/remove_router_interface {\"port_id\": \"$iface\"}\n" +
		"! PUT routers/" + noID + "/remove_router_interface {\"subnet_id\": \"$sub\"}\n" + listInterfaces + "! " + remove(`"port_id": "$iface"`) + "! " + remove(`"port_id": "$iface"`) + listInterfaces},
	{name: "an interface is added and removed under a condition", script: routed + "! PUT routers/$router/add_router_interface {\"subnet_id\": \"$sub\"}" + ifMatch + "0\n" +
		"! PUT routers/$router/add_router_interface {\"subnet_id\": \"$sub\"}" + ifMatch + "1\n" +
		"! PUT routers/$router/remove_router_interface {\"subnet_id\": \"$sub\"}" + ifMatch + "1\n" + showRouter +
		"! PUT routers/$router/remove_router_interface {\"subnet_id\": \"$sub\"}" + ifMatch + "2\n" + showRouter},
	{name: "an interface that a route needs is not removed", script: attached +
		"! " + updateRouter(`"routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]`) + "! " + removeSubnet +
		updateRouter(`"routes": []`) + removeSubnet},

	{name: "an interface keeps its router, port, subnet and network from being deleted", script: attached + "! DELETE routers/$router\n! DELETE ports/$iface\n" +
		"! DELETE subnets/$sub\n! DELETE networks/$net\n! " + removeSubnet + "! DELETE subnets/$sub\nDELETE networks/$net"},
	{name: "an interface keeps the gateway of its subnet", script: attached + "! " +
		updateSubnet(`"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) + "! " + updateSubnet(`"gateway_ip": "10.0.0.1"`) +
		"! " + updateSubnet(`"gateway_ip": null`) + "! " + updateSubnet(`"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) +
		"! GET ports/$iface\n! " + addSubnet + removeSubnet},
	{name: "a subnet with an interface, and the interface's port, are changed in other fields", script: attached + "! " + updateSubnet(`"name": "NAME", "enable_dhcp": false, `+
		`"dns_nameservers": ["192.0.2.53"], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}], `+
		`"allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]`) +
		"! PUT ports/$iface {\"port\": {\"name\": \"NAME\", \"description\": \"mark\"}}\n! PUT ports/$iface/tags {\"tags\": [\"a\"]}\n" +
		"! PUT ports/$iface {\"port\": {\"fixed_ips\": [{\"ip_address\": \"10.0.0.7\"}]}}\nGET ports/$iface"},
	{name: "another CIDR is attached beside the old one", script: attached + anotherSubnet("$net", `"ip_version": 4, "cidr": "10.0.1.0/24", "gateway_ip": "10.0.1.1"`) +
		"! iface2: " + add(`"subnet_id": "$sub2"`) + listInterfaces + "! " + removeSubnet + "! DELETE subnets/$sub\n" + listInterfaces + showNetwork},

	{name: "a port that only looks like an interface blocks the address", script: routed + halfInterface + "! GET ports/$port\n! " + addSubnet + "! " + removeSubnet +
		"! " + attach + listInterfaces + showRouter},
	{name: "a port that only looks like an interface stays without its router", script: routed + halfInterface + "! DELETE routers/$router\n! GET ports/$port\n" +
		"! DELETE subnets/$sub\n! DELETE networks/$net\nDELETE ports/$port"},
	{name: "an interface that does not look like one stays attached", script: attached + "! PUT ports/$iface {\"port\": {\"device_id\": \"\", \"device_owner\": \"\"}}\n" +
		listInterfaces + "! " + addSubnet + "! " + removeSubnet + "GET ports/$iface"},

	{name: "interfaces are listed", script: attached + anyPort + listInterfaces + "! GET ports?device_id=$router\n! GET ports?device_id=$router&device_owner=network:router_interface&device_owner=compute:nova\n" +
		"! GET ports?fixed_ips=subnet_id=$sub&device_owner=network:router_interface\nGET ports?network_id=$net&description=&fields=device_owner"},
	{name: "the interfaces of networks are found as the controller lists them", script: attached + anotherNetwork +
		"GET ports?device_owner=network:router_interface&network_id=$net&network_id=$net2&fields=id&fields=device_id&fields=network_id&fields=fixed_ips&limit=1000"},

	{name: "another project's shared network gets no interface by its subnet", script: shared + ipv4(`"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"`) +
		`router: @other POST routers {"router": {"name": "NAME"}}` + "\n! @other PUT routers/$router/add_router_interface {\"subnet_id\": \"$sub\"}\n" +
		listInterfaces},
	{name: "another project's shared network gets an interface by a port", script: shared + ipv4(`"cidr": "10.0.0.0/24"`) +
		`router: @other POST routers {"router": {"name": "NAME"}}` + "\nport: @other POST ports {\"port\": {\"network_id\": \"$net\"}}\n" +
		"! @other PUT routers/$router/add_router_interface {\"port_id\": \"$port\"}\n" + listInterfaces +
		"! DELETE subnets/$sub\n! DELETE networks/$net\n! DELETE ports/$port\n! PUT routers/$router/remove_router_interface {\"port_id\": \"$port\"}\n" +
		"! @other PUT routers/$router/remove_router_interface {\"port_id\": \"$port\"}\nDELETE networks/$net"},
}

const (
	anyPort = `port: POST ports {"port": {"network_id": "$net", "device_owner": "compute:nova"}}
`
	// halfInterface creates a port with the fields of an interface, which the router does not
	// know. A Neutron that dies while it adds an interface leaves such a port.
	halfInterface = `port: POST ports {"port": {"network_id": "$net", "device_owner": "network:router_interface", "device_id": "$router", "fixed_ips": [{"ip_address": "10.0.0.1"}]}}
`
)
