// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Default is a field that the spec leaves out, that another client has changed, and that Neutron does not let
// the controller change back.
type Default struct {
	Name string
	// Label names the field in the message.
	Label string
	// Change changes the field. ClearObstacles ends what keeps it so.
	Change obstacle
	// IsHeld means that others hold the subnet: the Network cannot replace it or attach it to a router.
	IsHeld bool
	// IsOfSubnet means that the field goes with its subnet.
	IsOfSubnet bool
}

// Defaults are all fields of which that can be true. Those that the embedded Neutron does not refuse here are
// refused by a fault.
var Defaults = []Default{
	{Name: "shared, by an administrator", Label: "shared", Change: byAdmin("shared")},
	{Name: "external, by an administrator", Label: "external", Change: byAdmin("router:external")},
	{Name: "shared, and used by others", Label: "shared", Change: changedAndRefused("networks", byAdmin("shared"), "shared",
		embedded.Fault{Status: http.StatusConflict, Type: "InvalidSharedSetting", Message: "Multiple tenants are using it."})},
	{Name: "external, and used by others", Label: "external", Change: changedAndRefused("networks", byAdmin("router:external"), "router:external",
		embedded.Fault{Status: http.StatusConflict, Type: "ExternalNetworkInUse", Message: "it has existing gateway ports."})},
	{Name: "DNS domain", Label: "DNS domain", Change: changedAndRefused("networks", changed("network", map[string]any{"dns_domain": "theirs.example.org."}), "dns_domain", unforeseen)},
	{Name: "gateway, whose address a router of others has", Label: "gateway", Change: gatewayTaken, IsHeld: true, IsOfSubnet: true},
	{Name: "pools", Label: "allocation pools", IsOfSubnet: true, Change: changedAndRefused("subnets", changed("subnet", map[string]any{"allocation_pools": []map[string]string{{"start": "10.0.0.100", "end": "10.0.0.200"}}}),
		"allocation_pools", embedded.Fault{Status: http.StatusConflict, Type: "GatewayConflictWithAllocationPools", Message: "Gateway ip conflicts with allocation pool."})},
	{Name: "DHCP", Label: "DHCP", IsOfSubnet: true, Change: changedAndRefused("subnets", changed("subnet", map[string]any{"enable_dhcp": false}), "enable_dhcp", unforeseen)},
	{Name: "DNS servers", Label: "DNS servers", IsOfSubnet: true, Change: changedAndRefused("subnets", changed("subnet", map[string]any{"dns_nameservers": []string{"192.0.2.1"}}), "dns_nameservers", unforeseen)},
	{Name: "host routes", Label: "host routes", IsOfSubnet: true, Change: changedAndRefused("subnets", changed("subnet", map[string]any{"host_routes": []map[string]string{{"destination": "10.98.0.0/16", "nexthop": "10.0.0.9"}}}), "host_routes", unforeseen)},
}

// byAdmin sets a field of the network that only administrators may set. ClearObstacles resets it.
func byAdmin(field string) obstacle {
	return func(w *World) error {
		path := "networks/" + w.Get().Status.NetworkID
		set := func(value bool) map[string]any { return map[string]any{"network": map[string]any{field: value}} }
		w.undoLater(w.adminClient(), http.MethodPut, path, set(false))
		return w.trySend(w.adminClient(), http.MethodPut, path, set(true), nil)
	}
}

// changed changes fields of the network or the first subnet, as another client of the project.
func changed(kind string, fields map[string]any) obstacle {
	return func(w *World) error {
		path := "networks/" + w.Get().Status.NetworkID
		if kind == "subnet" {
			path = "subnets/" + w.Get().Status.SubnetID
		}
		return w.trySend(w.Client, http.MethodPut, path, map[string]any{kind: fields}, nil)
	}
}

// changedAndRefused makes the change, and lets Neutron refuse the controller's changes of that field.
func changedAndRefused(collection string, change obstacle, field string, fault embedded.Fault) obstacle {
	return func(w *World) error {
		if err := change(w); err != nil {
			return err
		}
		w.RefuseIf(func(r *http.Request) *embedded.Fault {
			body, _ := io.ReadAll(r.Body)
			_, path, _ := bytes.Cut([]byte(r.URL.Path), []byte("/v2.0/"))
			if r.Method != http.MethodPut || !bytes.HasPrefix(path, []byte(collection)) || !bytes.Contains(body, []byte(`"`+field+`"`)) {
				return nil
			}
			return &fault
		})
		return nil
	}
}

// gatewayTaken moves the gateway, and attaches the subnet with it to a router of others.
func gatewayTaken(w *World) error {
	subnet := w.Get().Status.SubnetID
	w.SetGateway(subnet, "10.0.0.77")
	body := map[string]any{"subnet_id": subnet}
	w.undoLater(w.Client, http.MethodPut, "routers/"+w.ids[third]+"/remove_router_interface", body)
	return w.trySend(w.Client, http.MethodPut, "routers/"+w.ids[third]+"/add_router_interface", body, nil)
}

// Declaration is a change that the spec declares elsewhere.
type Declaration struct {
	Name string
	Want *samplecrdv1.NetworkSpec
}

// Act makes the user declare it.
func (d Declaration) Act(w *World) { edited(d.Want)(w) }

// Replaces reports whether the first subnet is replaced.
func (d Declaration) Replaces() bool { return d.Want.CIDR != with().CIDR }

// Missing returns what of the declaration is missing in Neutron; "" for nothing.
func (d Declaration) Missing(w *World) string {
	w.t.Helper()
	n := w.Get()
	network := w.Snapshot()["networks/"+n.Status.NetworkID]
	for _, tag := range d.Want.Tags {
		if tags, _ := network["tags"].([]any); !slices.Contains(tags, any(string(tag))) {
			return "tag " + string(tag)
		}
	}
	if d.Want.MTU != nil && fmt.Sprint(network["mtu"]) != fmt.Sprint(*d.Want.MTU) {
		return "MTU"
	}
	for _, declared := range meaning.SubnetsOf(d.Want) {
		id := w.findSubnet(n.Status.NetworkID, declared.CIDR)
		if strings.HasSuffix(id, " subnets") {
			return "subnet " + declared.CIDR
		}
		for _, address := range declared.DNSNameservers {
			if !slices.Contains(w.getSubnet(id).DNSNameservers, string(address)) {
				return "DNS server " + string(address)
			}
		}
		if d.Want.Router != nil && w.routersOf(id) == "" {
			return "router"
		}
	}
	return ""
}

// Start is the Network before the declaration.
func (d Declaration) Start() *samplecrdv1.NetworkSpec { return with() }

// Declarations are changes of each kind.
var Declarations = []Declaration{
	{Name: "tags", Want: with(tagged("team-a"))},
	{Name: "MTU", Want: with(func(s *samplecrdv1.NetworkSpec) { s.MTU = new(int32(1400)) })},
	{Name: "a subnet more", Want: with(additional("a", "10.1.0.0/24"))},
	{Name: "a router", Want: with(own(public))},
	{Name: "an existing router", Want: with(existing(other))},
	{Name: "DNS servers", Want: with(func(s *samplecrdv1.NetworkSpec) { s.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.53"} })},
	{Name: "another CIDR", Want: spec("10.1.0.0/24", "")},
	{Name: "a CIDR that grows", Want: spec("10.0.0.0/16", "")},
}
