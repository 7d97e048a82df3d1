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

// floating creates a routed port with a floating IP.
const floating = externalNetwork + widerNetwork + `router: POST routers {"router": {"name": "NAME", "external_gateway_info": {"network_id": "$wide"}}}
` + anyNetwork + `sub: POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}}
` + attach + `port: POST ports {"port": {"network_id": "$net", "fixed_ips": [{"ip_address": "10.0.0.7"}]}}
`

// floatingIPOf creates a floating IP with these attributes.
func floatingIPOf(attributes string) string {
	return fmt.Sprintf("fip: POST floatingips {\"floatingip\": {%s}}\n", attributes)
}

var inUse = floatingIPOf(`"floating_network_id": "$wide", "port_id": "$port", "description": "NAME"`)

var floatingIPRows = []row{
	{name: "a floating IP leads to a port, and keeps the interface", script: floating + "! " + inUse + "! GET floatingips/$fip\n! GET floatingips?router_id=$router&fields=id&fields=floating_ip_address&fields=port_id\n" +
		"! GET ports?network_id=$wide&device_owner=network:floatingip\n! " + removeSubnet + "! " + remove(`"port_id": "$iface"`) +
		"! DELETE floatingips/$fip\n! DELETE floatingips/$fip\n" + removeSubnet},
	{name: "a floating IP keeps the gateway of its router", script: floating + inUse + "! " + clearGateway + "\n! " + updateRouter(`"external_gateway_info": {}`) +
		"! " + gatewayIn("$ext") + "! " + gatewayIn("$wide") + "! DELETE routers/$router\n" + showRouter},
	{name: "a floating IP that leads nowhere keeps nothing", script: floating + inUse + "! DELETE ports/$port\n! GET floatingips/$fip\n" +
		portOn("") + "PUT floatingips/$fip {\"floatingip\": {\"port_id\": \"$port\"}}\n! PUT floatingips/$fip {\"floatingip\": {\"port_id\": null}}\n" +
		"! GET floatingips?router_id=$router\n" + removeSubnet + "! " + clearGateway + "\nDELETE floatingips/$fip"},
	{name: "a floating IP is not created like this", script: floating + "! " + floatingIPOf(``) + "! " + floatingIPOf(`"floating_network_id": "`+noID+`"`) +
		"! " + floatingIPOf(`"floating_network_id": "$net"`) + "! " + floatingIPOf(`"floating_network_id": "$wide", "port_id": "`+noID+`"`) +
		"! " + floatingIPOf(`"floating_network_id": "$ext", "port_id": "$port"`) + "GET floatingips?floating_network_id=$wide"},
	{name: "a floating IP does not lead through a port that only looks like an interface", script: widerNetwork +
		`router: POST routers {"router": {"name": "NAME", "external_gateway_info": {"network_id": "$wide"}}}` + "\n" + anyNetwork +
		ipv4(`"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"`) + halfInterface +
		`vm: POST ports {"port": {"network_id": "$net"}}` + "\n" + floatingIPOf(`"floating_network_id": "$wide", "port_id": "$vm"`)},
	{name: "another project's floating IP does not exist", script: widerNetwork + floatingIPOf(`"floating_network_id": "$wide"`) +
		"! @other GET floatingips/$fip\n! @other GET floatingips?floating_network_id=$wide\n@other DELETE floatingips/$fip"},
	{name: "a quota of floating IPs is enforced", alone: true, script: widerNetwork + `@admin PUT quotas/$other {"quota": {"floatingip": 1}}
		fip: @other POST floatingips {"floatingip": {"floating_network_id": "$wide"}}
		@other POST floatingips {"floatingip": {"floating_network_id": "$wide"}}`},
}
