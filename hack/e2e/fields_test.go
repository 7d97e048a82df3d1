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

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// list is a list in JSON.
type list = []any

// declared is a field that a user declares, then another client changes, and then the user leaves out.
type declared struct {
	// line is a line of the spec.
	line string
	// collection is what the field is of: networks or subnets. name is its name there, and value the
	// value that Neutron must have.
	collection, name string
	value            any
	// theirs is the value that another client sets.
	theirs any
	// event says that the field was set.
	event string
	// without is the value that Neutron must have once the spec leaves the field out, and removed says
	// so; "" if the field is then left alone.
	without any
	removed string
}

var declaredFields = []declared{
	{"  dnsNameservers: [192.0.2.54, 192.0.2.53]\n", "subnets", "dns_nameservers", list{"192.0.2.54", "192.0.2.53"},
		list{"192.0.2.53", "192.0.2.54"}, "DNS servers set to 192.0.2.54, 192.0.2.53", list{}, "DNS servers removed"},
	{"  allocationPools: [{start: 10.1.0.200, end: 10.1.0.210}, {start: 10.1.0.100, end: 10.1.0.110}]\n", "subnets", "allocation_pools",
		list{pool("10.1.0.100", "10.1.0.110"), pool("10.1.0.200", "10.1.0.210")}, list{pool("10.1.0.100", "10.1.0.110")},
		"allocation pools set to 10.1.0.100-10.1.0.110, 10.1.0.200-10.1.0.210",
		list{pool("10.1.0.2", "10.1.255.254")}, "allocation pools set to 10.1.0.2-10.1.255.254"},
	{"  hostRoutes: [{destination: 10.99.0.0/16, nextHop: 10.1.0.254}]\n", "subnets", "host_routes", list{route("10.99.0.0/16", "10.1.0.254")},
		list{route("10.98.0.0/16", "10.1.0.254")}, "host routes set to 10.99.0.0/16 via 10.1.0.254", list{}, "host routes removed"},
	{"  enableDHCP: false\n", "subnets", "enable_dhcp", false, true, "DHCP set to false", true, "DHCP set to true"},
	{"  mtu: 1400\n", "networks", "mtu", json.Number("1400"), 1300, "MTU set to 1400", json.Number("1400"), ""},
	{"  portSecurityEnabled: false\n", "networks", "port_security_enabled", false, true, "port security set to false", false, ""},
	{"  dnsDomain: team.example.org.\n", "networks", "dns_domain", "team.example.org.", "other.example.org.",
		"DNS domain set to team.example.org.", "", "DNS domain removed"},
	{"  tags: [team-b, team-a]\n", "networks", "tags", list{"team-a", "team-b"}, list{"team-a"}, "tags set to team-a, team-b", list{"team-a", "team-b"}, ""},
}

func pool(start, end string) any { return map[string]any{"start": start, "end": end} }

func route(destination, nextHop string) any {
	return map[string]any{"destination": destination, "nexthop": nextHop}
}

func TestFieldsChangeInPlaceAndTheirDriftIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start("-resync=1s", retryQuickly)
	for i, field := range declaredFields {
		t.Run(field.name, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			before := w.createSpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic)
			router := w.routed(name)
			id := map[string]string{"networks": before.Status.NetworkID, "subnets": before.Status.SubnetID}[field.collection]
			singular := field.collection[:len(field.collection)-1]
			isNow := func(want any) {
				t.Helper()
				if diff := cmp.Diff(want, w.asItIs(field.collection, id)[singular].(map[string]any)[field.name]); diff != "" {
					t.Fatalf("%s (-want +Neutron):\n%s", field.name, diff)
				}
			}
			w.createSpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic, field.line)
			isNow(field.value)
			w.waitForEvent(name, samplecrdv1.EventUpdated, "Updated network "+before.Status.NetworkID+": "+field.event)

			if field.name == "tags" {
				w.put(field.collection, id+"/tags", "tags", field.theirs)
			} else {
				w.put(field.collection, id, singular, map[string]any{field.name: field.theirs})
			}
			w.waitForEvent(name, samplecrdv1.EventDriftRepaired, "Repaired drift in Neutron: "+field.event)
			isNow(field.value)

			after := w.createSpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic)
			isNow(field.without)
			if field.removed != "" {
				w.waitForEvent(name, samplecrdv1.EventUpdated, "Updated network "+before.Status.NetworkID+": "+field.removed)
			}
			w.equal(after.Status.NetworkID, before.Status.NetworkID)
			w.equal(after.Status.SubnetID, before.Status.SubnetID)
			w.equal(after.Status.Subnets[0].RouterPortID, before.Status.Subnets[0].RouterPortID)
			w.equal(w.routed(name).ID, router.ID)
			if n := w.warnings(name); n != 0 {
				t.Errorf("%d warnings", n)
			}
			w.delete(name)
		})
	}
	w.nothingAtAll()
}

// The IPv6 modes of a subnet are fixed in Neutron, so the subnet is replaced.
func TestIPv6SubnetWithOtherModesIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start(retryQuickly)
	spec := func(modes string) string {
		return "  additionalSubnets: [{name: v6, cidr: \"fd00:10::/64\"" + modes + "}]\n"
	}
	slaac, stateful := ", ipv6: {addressMode: slaac, raMode: slaac}", ", ipv6: {addressMode: dhcpv6-stateful, raMode: dhcpv6-stateful}"
	before := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic, spec(""))
	w.routed("net")
	for _, modes := range []string{slaac, stateful, ""} {
		after := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic, spec(modes))
		w.routed("net")
		w.equal(after.Status.SubnetID, before.Status.SubnetID)
		if after.Status.Subnets[1].ID == before.Status.Subnets[1].ID {
			t.Errorf("the subnet with the modes %q is the one before", modes)
		}
		before = after
	}
	w.delete("net")
	w.nothingAtAll()
}
