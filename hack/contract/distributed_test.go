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
	// distributed creates a distributed router, which only an admin can, and a subnet with one address
	// for the port that Neutron makes beside the interface.
	distributed = `router: @admin POST routers {"router": {"name": "NAME", "distributed": true, "ha": false, "project_id": "$project"}}
` + anyNetwork + `sub: POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.9", "end": "10.0.0.9"}]}}
`
	listPorts  = "! GET ports?network_id=$net\n"
	removeSub2 = `PUT routers/$router/remove_router_interface {"subnet_id": "$sub2"}
`
)

// slaac creates a subnet whose ports choose their own addresses. One is left for ports of routers.
func slaac(label, network, prefix string) string {
	return fmt.Sprintf(`%s: POST subnets {"subnet": {"network_id": %q, "ip_version": 6, "cidr": "%s::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac", `+
		`"allocation_pools": [{"start": "%s::9", "end": "%s::9"}]}}`+"\n", label, network, prefix, prefix, prefix)
}

// ownedBy creates ports with these device owners.
func ownedBy(owners ...string) string {
	script := ""
	for _, owner := range owners {
		script += fmt.Sprintf("POST ports {\"port\": {\"network_id\": \"$net\", \"device_owner\": %q}}\n", owner)
	}
	return script
}

// listAddresses lists which of the ports with these device owners have an address in sub.
func listAddresses(owners ...string) string {
	script := ""
	for _, owner := range owners {
		script += "! GET ports?network_id=$net&fixed_ips=subnet_id=$sub&fields=device_owner&device_owner=" + owner + "\n"
	}
	return script
}

var distributedRows = []row{
	{name: "a distributed router has a port beside its interface, which goes with it", script: distributed + widerNetwork + "! " + gatewayIn("$wide") +
		"! " + attach + listPorts + "! DELETE subnets/$sub\n! " + removeSubnet + listPorts + "DELETE networks/$net"},
	{name: "a distributed router has the port only while it has a gateway", script: distributed + widerNetwork + attach + listPorts +
		gatewayIn("$wide") + listPorts + clearGateway + "\n" + listPorts + removeSubnet + "DELETE networks/$net"},
	{name: "the IPv6 subnets of a distributed router share the port", script: distributed + widerNetwork + gatewayIn("$wide") + slaac("sub2", "$net", "fd00:1") +
		slaac("sub", "$net", "fd00:2") + add(`"subnet_id": "$sub2"`) + "! " + attach + listPorts + "! DELETE subnets/$sub\n! " + removeSubnet + listPorts + removeSub2 + listPorts},
	{name: "an interface on two IPv6 subnets that is removed by its port leaves an address", script: distributed + widerNetwork + gatewayIn("$wide") +
		slaac("sub2", "$net", "fd00:1") + slaac("sub", "$net", "fd00:2") + add(`"subnet_id": "$sub2"`) + attach + remove(`"port_id": "$iface"`) +
		"! GET ports?network_id=$net&fields=device_owner"},
	{name: "what looks like the port of a distributed router goes with the interface too", script: distributed + widerNetwork + gatewayIn("$wide") +
		`port: POST ports {"port": {"network_id": "$net", "device_owner": "network:router_centralized_snat", "device_id": "$router", "fixed_ips": [{"ip_address": "10.0.0.7"}]}}` + "\n" +
		attach + "! DELETE ports/$port\n" + listPorts + removeSubnet + listPorts},
	{name: "a router becomes distributed, and centralized again", script: widerNetwork + `router: POST routers {"router": {"name": "NAME"}}` + "\n" + anyNetwork +
		ipv4(`"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.9", "end": "10.0.0.9"}]`) + gatewayIn("$wide") + attach +
		"! @admin " + updateRouter(`"distributed": true`) + updateRouter(`"admin_state_up": false`) + "@admin " + updateRouter(`"distributed": true`) + listPorts +
		"@admin " + updateRouter(`"distributed": false`) + listPorts},
	{name: "ports that are deleted with a network or a subnet", script: anyNetwork + ipv4(`"cidr": "10.0.0.0/24"`) +
		ownedBy("network:dhcp", "network:distributed", "network:floatingip_agent_gateway") + "! DELETE subnets/$sub\n! GET ports?network_id=$net&fields=device_owner&fields=fixed_ips\n! DELETE networks/$net"},
	{name: "chosen addresses do not keep a subnet, but their ports the network", script: anyNetwork + slaac("sub", "$net", "fd00:1") +
		ownedBy("compute:nova", "network:router_gateway", "network:floatingip", "trunk:subport", "") + "! GET ports?network_id=$net&fixed_ips=subnet_id=$sub&fields=device_owner\n" +
		"! DELETE subnets/$sub\n! GET ports?network_id=$net&fields=device_owner&fields=fixed_ips\nDELETE networks/$net"},
	{name: "which ports get an address of a new subnet", script: anyNetwork + ownedBy("compute:nova", "network:dhcp", "network:router_interface", "network:router_interface_distributed",
		"network:ha_router_replicated_interface", "network:router_centralized_snat", "network:router_ha_interface", "network:router_gateway") + slaac("sub", "$net", "fd00:1") +
		listAddresses("compute:nova", "network:dhcp", "network:router_interface", "network:router_interface_distributed", "network:ha_router_replicated_interface",
			"network:router_centralized_snat", "network:router_ha_interface", "network:router_gateway")},
	{name: "a refused deletion of an external network deletes the floating IPs that lead nowhere", script: widerNetwork + floatingIPOf(`"floating_network_id": "$wide"`) +
		`router: POST routers {"router": {"name": "NAME", "external_gateway_info": {"network_id": "$wide"}}}` + "\n@admin DELETE networks/$wide\nGET floatingips/$fip"},
}
