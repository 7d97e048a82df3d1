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
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// public is the external network that routers have their gateways in.
var public = embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}

// Lines of a spec.
const (
	// viaPublic asks for a router of the Network's own.
	viaPublic = "  router: {externalNetwork: {name: public}}\n"
	// withIPv6 adds a subnet.
	withIPv6 = "  additionalSubnets: [{name: v6, cidr: \"fd00:10::/64\", ipv6: {addressMode: slaac, raMode: slaac}}]\n"
)

// viaExisting asks for an existing router, by its name or its ID.
func viaExisting(key, value string) string {
	return fmt.Sprintf("  router: {existing: {%s: %s}}\n", key, value)
}

// applySpec applies a Network with more lines of the spec.
func (w *world) applySpec(name, cidr, gateway string, lines ...string) {
	w.Helper()
	_, err := w.tryKubectl(manifest(name, cidr, gateway)+strings.Join(lines, ""), "apply", "-f", "-")
	w.must(err)
}

// createSpec applies a Network with more lines of the spec, and waits until it is ready.
func (w *world) createSpec(name, cidr, gateway string, lines ...string) *samplecrdv1.Network {
	w.Helper()
	w.applySpec(name, cidr, gateway, lines...)
	return w.waitReady(name)
}

// publicID returns the ID of the external network.
func (w *world) publicID() string {
	w.Helper()
	pages, err := networks.List(w.neutron.Client, networks.ListOpts{Name: public.Name}).AllPages(w.Context())
	w.must(err)
	found, err := networks.ExtractNetworks(pages)
	w.must(err)
	return found[0].ID
}

// routers returns the routers in Neutron with that name, all of them if it is "".
func (w *world) routers(name string) []routers.Router {
	w.Helper()
	pages, err := routers.List(w.neutron.Client, routers.ListOpts{Name: name}).AllPages(w.Context())
	w.must(err)
	found, err := routers.ExtractRouters(pages)
	w.must(err)
	return found
}

// router creates a router as another client would, and returns its ID.
func (w *world) router(name string) string {
	w.Helper()
	r, err := routers.Create(w.Context(), w.neutron.Client, routers.CreateOpts{
		Name: name, Description: "made by hand", GatewayInfo: &routers.GatewayInfo{NetworkID: w.publicID()},
	}).Extract()
	w.must(err)
	return r.ID
}

// takeRouter deletes a router that is attached to the subnet, as another client would. The controller
// may be as quick to attach the subnet again, so it is detached until the router can be deleted.
func (w *world) takeRouter(id, subnet string) {
	w.Helper()
	w.eventually(func() error {
		_ = routers.RemoveInterface(w.Context(), w.neutron.Client, id, routers.RemoveInterfaceOpts{SubnetID: subnet}).Err
		return routers.Delete(w.Context(), w.neutron.Client, id).ExtractErr()
	})
}

func (w *world) removeRouter(id string) {
	w.Helper()
	w.must(routers.Delete(w.Context(), w.neutron.Client, id).ExtractErr())
}

// portsWith returns the ports in Neutron that match, except those of other projects.
func (w *world) portsWith(opts ports.ListOpts) []ports.Port {
	w.Helper()
	pages, err := ports.List(w.neutron.Client, opts).AllPages(w.Context())
	w.must(err)
	found, err := ports.ExtractPorts(pages)
	w.must(err)
	return found
}

// connected fails unless the status has the router and, for each subnet, the port that connects it to
// that router, and unless the router has exactly these interfaces on the network.
func (w *world) connected(name, router string) {
	w.Helper()
	status := w.get(name).Status
	if status.Router == nil || status.Router.ID != router {
		w.Fatalf("the status does not name router %s: %+v", router, status.Router)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, s := range status.Subnets {
		want[s.ID] = s.RouterPortID + " " + s.Gateway
		w.attached(router, s.ID)
	}
	for _, p := range w.portsWith(ports.ListOpts{NetworkID: status.NetworkID, DeviceID: router}) {
		for _, ip := range p.FixedIPs {
			got[ip.SubnetID] = p.ID + " " + ip.IPAddress
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Fatalf("the interfaces in Neutron are not those of the status (-status +Neutron):\n%s", diff)
	}
}

// attached fails unless the subnet is attached to the router. After a request that failed in the
// middle, Neutron shows an interface too. Only its answer to another such request differs.
func (w *world) attached(router, subnet string) {
	w.Helper()
	_, err := routers.AddInterface(w.Context(), w.neutron.Client, router, routers.AddInterfaceOpts{SubnetID: subnet}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) || !strings.Contains(err.Error(), "already has a port on subnet") {
		w.Fatalf("subnet %s is not attached to router %s: %v", subnet, router, err)
	}
}

// routed returns the Network's own router. It fails unless there is exactly one, with its gateway in
// the external network, and unless all subnets are connected to it.
func (w *world) routed(name string) routers.Router {
	w.Helper()
	found, network := w.routers(w.namespace+"/"+name), w.get(name)
	if len(found) != 1 {
		w.Fatalf("want one router of Network %s, got %+v", name, found)
	}
	w.equal(found[0].Description, w.mark(network))
	w.equal(found[0].GatewayInfo.NetworkID, w.publicID())
	w.connected(name, found[0].ID)
	if ips := network.Status.Router.ExternalIPs; len(ips) != 1 || ips[0] != found[0].GatewayInfo.ExternalFixedIPs[0].IPAddress {
		w.Fatalf("status.router.externalIPs is %v, the gateway is %+v", ips, found[0].GatewayInfo)
	}
	return found[0]
}

// nothingAtAll fails unless the project has neither networks, except external ones, nor routers nor
// ports.
func (w *world) nothingAtAll() {
	w.Helper()
	all, err := w.neutron.Networks(w.Context())
	w.must(err)
	if len(all) > 0 {
		w.Errorf("still in Neutron: %+v", all)
	}
	if found := w.routers(""); len(found) > 0 {
		w.Errorf("still in Neutron: %+v", found)
	}
	if found := w.portsWith(ports.ListOpts{}); len(found) > 0 {
		w.Errorf("still in Neutron: %+v", found)
	}
}

func TestRoutedNetworkFromItsCreationToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start(retryQuickly)
	network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic)
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
	router := w.routed("net")
	external := network.Status.Router.ExternalIPs[0]
	if !public.CIDR.Contains(netip.MustParseAddr(external)) {
		t.Errorf("%s is not an address in %s", external, public.CIDR)
	}
	wide := table(w.kubectl("get", "net", "-o", "wide"))
	w.contains(wide[0], "EXTERNAL IP")
	w.contains(wide[1], " "+external+" ")
	w.waitForEvent("net", samplecrdv1.EventCreated, "Created network "+network.Status.NetworkID+" with subnet 10.1.0.0/16 and router "+router.ID)
	if all := w.events("net", ""); len(all) != 1 {
		t.Errorf("want one event, got %+v", all)
	}

	attach := func(cidr string) string { return "subnet " + cidr + " attached to router " + router.ID }
	detach := func(cidr string) string { return "subnet " + cidr + " detached from router " + router.ID }
	steps := []struct {
		what, cidr, gateway, more string
		event                     []string
	}{
		{"a CIDR elsewhere: the new subnet is attached before the old one is detached", "10.2.0.0/16", "10.2.0.1", "",
			[]string{"subnet 10.2.0.0/16 created", attach("10.2.0.0/16"), detach("10.1.0.0/16"), "subnet 10.1.0.0/16 deleted"}},
		{"a CIDR that overlaps", "10.2.0.0/24", "10.2.0.1", "",
			[]string{detach("10.2.0.0/16"), "subnet 10.2.0.0/16 deleted", "subnet 10.2.0.0/24 created", attach("10.2.0.0/24")}},
		{"another gateway", "10.2.0.0/24", "10.2.0.9", "",
			[]string{detach("10.2.0.0/24"), "gateway set to 10.2.0.9", attach("10.2.0.0/24")}},
		{"an IPv6 subnet", "10.2.0.0/24", "10.2.0.9", withIPv6,
			[]string{"subnet fd00:10::/64 created", attach("fd00:10::/64")}},
		{"no IPv6 subnet", "10.2.0.0/24", "10.2.0.9", "",
			[]string{detach("fd00:10::/64"), "subnet fd00:10::/64 deleted"}},
	}
	for _, step := range steps {
		w.createSpec("net", step.cidr, step.gateway, viaPublic, step.more)
		if now := w.routed("net"); now.ID != router.ID {
			t.Errorf("%s: router %s became %s", step.what, router.ID, now.ID)
		}
		if n := len(w.get("net").Status.Subnets); n != 1+len(step.more)/len(withIPv6) {
			t.Errorf("%s: the status has %d subnets", step.what, n)
		}
		w.waitForEvent("net", samplecrdv1.EventUpdated, "Updated network "+network.Status.NetworkID+": "+strings.Join(step.event, ", "))
	}
	w.matches("net", "10.2.0.0/24", "10.2.0.9")
	if all := w.events("net", ""); len(all) != 1+len(steps) || w.warnings("net") > 0 {
		t.Errorf("want %d events and no warning, got %+v", 1+len(steps), all)
	}
	w.createSpec("net", "10.2.0.0/24", "10.2.0.9", viaPublic, withIPv6)
	w.delete("net")
	w.nothingAtAll()
}

func TestRouterOfANetworkCanChange(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	first, second := w.router("first"), w.router("second")
	w.start(retryQuickly)
	others := "  additionalSubnets: [{name: more, cidr: 10.2.0.0/16}]\n"
	network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", others, viaPublic)
	own := w.routed("net").ID
	steps := []struct {
		what, line, router string
	}{
		{"existing", viaExisting("name", "first"), first},
		{"another existing", viaExisting("id", second), second},
		{"none", "", ""},
		{"existing again", viaExisting("id", first), first},
		{"own", viaPublic, "own"},
		{"none again", "", ""},
	}
	for _, step := range steps {
		now := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", others, step.line)
		w.equal(now.Status.NetworkID, network.Status.NetworkID)
		switch step.router {
		case "":
			if now.Status.Router != nil {
				t.Errorf("%s: the status has the router %+v", step.what, now.Status.Router)
			}
		case "own":
			w.routed("net")
		default:
			w.connected("net", step.router)
		}
		for _, id := range []string{first, second} {
			interfaces := w.portsWith(ports.ListOpts{DeviceID: id})
			if want := map[bool]int{true: 2}[id == step.router]; len(interfaces) != want {
				t.Errorf("%s: %d interfaces on router %s, want %d", step.what, len(interfaces), id, want)
			}
		}
		if n, want := len(w.routers(w.namespace+"/net")), map[bool]int{true: 1}[step.router == "own"]; n != want {
			t.Errorf("%s: %d routers of the Network's own, want %d", step.what, n, want)
		}
	}
	w.waitForEvent("net", samplecrdv1.EventUpdated, "router "+own+" deleted")
	if n := w.warnings("net"); n != 0 {
		t.Errorf("%d warnings", n)
	}
	w.createSpec("net", "10.1.0.0/16", "10.1.0.1", others, viaExisting("name", "second"))
	w.delete("net")
	for _, r := range w.routers("") {
		w.equal(r.Description, "made by hand")
		w.removeRouter(r.ID)
	}
	w.nothingAtAll()
}

// floatingIP creates a floating IP of the port, and returns it.
func (w *world) floatingIP(port string) *floatingips.FloatingIP {
	w.Helper()
	ip, err := floatingips.Create(w.Context(), w.neutron.Client, floatingips.CreateOpts{FloatingNetworkID: w.publicID(), PortID: port}).Extract()
	w.must(err)
	return ip
}

func TestRouterStaysWhileFloatingIPsNeedIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what, cidr, gateway, line string
		isExisting                bool
	}{
		{"no router", "10.1.0.0/16", "10.1.0.1", "", false},
		{"another router", "10.1.0.0/16", "10.1.0.1", viaExisting("name", "other"), true},
		{"another gateway", "10.1.0.0/16", "10.1.0.9", viaPublic, false},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, public)
			other := w.router("other")
			w.start(retryQuickly)
			network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic)
			before := w.routed("net")
			port := w.port(network.Status.NetworkID, "server-1")
			ip := w.floatingIP(port)
			w.applySpec("net", tc.cidr, tc.gateway, tc.line)
			blocked := w.waitNotReady("net", samplecrdv1.ReasonInUse)
			named := "in use by floating IP " + ip.FloatingIP + " of " + ip.FixedIP
			w.contains(condition(blocked, samplecrdv1.ConditionReady).Message, named, "subnet 10.1.0.0/16")
			w.contains(table(w.kubectl("get", "net", "-o", "wide"))[1], "False "+samplecrdv1.ReasonInUse, named)
			w.waitForEvent("net", samplecrdv1.ReasonInUse, ip.FloatingIP)
			w.equal(w.routed("net").ID, before.ID)
			w.matches("net", "10.1.0.0/16", "10.1.0.1")

			w.must(floatingips.Delete(w.Context(), w.neutron.Client, ip.ID).ExtractErr())
			w.waitReady("net")
			switch {
			case tc.isExisting:
				w.connected("net", other)
			case tc.line == "":
				if found := w.routers(w.namespace + "/net"); len(found) > 0 {
					t.Errorf("still in Neutron: %+v", found)
				}
			default:
				w.equal(w.routed("net").ID, before.ID)
			}
			w.matches("net", tc.cidr, tc.gateway)
			w.removePort(port)
			w.delete("net")
			w.removeRouter(other)
			w.nothingAtAll()
		})
	}
}

func TestInterfacesStayWhileAPortBlocksTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start(retryQuickly)
	network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic, withIPv6)
	before := w.routed("net")
	port := w.port(network.Status.NetworkID, "server-1")
	w.kubectl("delete", "network", "net", "--wait=false")
	blocked := w.waitNotReady("net", samplecrdv1.ReasonInUse)
	w.equal(condition(blocked, samplecrdv1.ConditionReady).Message, "delete network: in use by port server-1 (no device)")
	w.equal(w.routed("net").ID, before.ID)
	w.removePort(port)
	w.waitGone("net")
	w.nothingAtAll()
}

func TestStrangersInterfaceIsNamedAndNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start("-resync=1s", retryQuickly)
	network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic)
	w.routed("net")
	stranger := w.router("strangers")
	port, err := ports.Create(t.Context(), w.neutron.Client, ports.CreateOpts{
		NetworkID: network.Status.NetworkID, FixedIPs: []ports.IP{{SubnetID: network.Status.SubnetID, IPAddress: "10.1.0.77"}},
	}).Extract()
	w.must(err)
	w.must(routers.AddInterface(t.Context(), w.neutron.Client, stranger, routers.AddInterfaceOpts{PortID: port.ID}).Err)
	before := []map[string]any{w.asItIs("routers", stranger), w.asItIs("ports", port.ID)}

	named := fmt.Sprintf("the network also has interfaces of other routers, which are left alone: %s (port %s)", stranger, port.ID)
	w.waitForEvent("net", samplecrdv1.EventUnmanagedInterface, named)
	w.contains(condition(w.waitReady("net"), samplecrdv1.ConditionReady).Message, named)
	w.createSpec("net", "10.1.0.0/16", "10.1.0.9", viaPublic)
	w.routed("net")
	w.createSpec("net", "10.1.0.0/16", "10.1.0.9")
	if found := w.routers(w.namespace + "/net"); len(found) > 0 {
		t.Errorf("still in Neutron: %+v", found)
	}
	w.kubectl("delete", "network", "net", "--wait=false")
	blocked := w.waitNotReady("net", samplecrdv1.ReasonInUse)
	w.contains(condition(blocked, samplecrdv1.ConditionReady).Message, port.ID+" (network:router_interface)")
	if diff := cmp.Diff(before, []map[string]any{w.asItIs("routers", stranger), w.asItIs("ports", port.ID)}); diff != "" {
		t.Errorf("the stranger's interface was changed (-before +after):\n%s", diff)
	}
	w.must(routers.RemoveInterface(t.Context(), w.neutron.Client, stranger, routers.RemoveInterfaceOpts{PortID: port.ID}).Err)
	w.waitGone("net")
	w.removeRouter(stranger)
	w.nothingAtAll()
}

// The condition names what is missing, and everything else is created meanwhile. When it exists, the
// Network becomes ready by itself, within a minute.
func TestNetworkWaitsForTheRouterThatItNames(t *testing.T) {
	t.Parallel()
	t.Run("there is none of that name", func(t *testing.T) {
		t.Parallel()
		w := newWorldWith(t, public)
		w.start()
		w.applySpec("net", "10.1.0.0/16", "10.1.0.1", viaExisting("name", "later"))
		waiting := w.waitNotReady("net", samplecrdv1.ReasonReferenceNotFound)
		const message = `spec.router.existing: there is no router named "later" that the credentials can see`
		w.equal(condition(waiting, samplecrdv1.ConditionReady).Message, message)
		w.contains(table(w.kubectl("get", "net", "-o", "wide"))[1], "False "+samplecrdv1.ReasonReferenceNotFound, message)
		w.waitForEvent("net", samplecrdv1.ReasonReferenceNotFound, message)
		w.matches("net", "10.1.0.0/16", "10.1.0.1")
		router := w.router("later")
		w.waitReady("net")
		w.connected("net", router)
	})
	t.Run("there are two of that name", func(t *testing.T) {
		t.Parallel()
		w := newWorldWith(t, public)
		w.start()
		router, other := w.router("twin"), w.router("twin")
		w.applySpec("net", "10.1.0.0/16", "10.1.0.1", viaExisting("name", "twin"))
		// A list that is a few seconds old may have neither of the two yet. It is repeated soon.
		w.waitSays("net", samplecrdv1.ReasonReferenceNotFound, `spec.router.existing: there are 2 routers named "twin": set id instead of name, to one of `, router, other)
		w.removeRouter(other)
		w.waitReady("net")
		w.connected("net", router)
	})
	t.Run("there is no such external network", func(t *testing.T) {
		t.Parallel()
		w := newWorldWith(t, public)
		w.start()
		w.applySpec("net", "10.1.0.0/16", "10.1.0.1", strings.Replace(viaPublic, "public", "nowhere", 1))
		waiting := w.waitNotReady("net", samplecrdv1.ReasonReferenceNotFound)
		w.equal(condition(waiting, samplecrdv1.ConditionReady).Message,
			`spec.router.externalNetwork: there is no external network named "nowhere" that the credentials can see`)
		w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaPublic)
		w.routed("net")
	})
	t.Run("there is none of that ID", func(t *testing.T) {
		t.Parallel()
		w := newWorldWith(t, public)
		w.start()
		const id = "5a000000-0000-4000-8000-000000000000"
		w.applySpec("net", "10.1.0.0/16", "10.1.0.1", viaExisting("id", id))
		waiting := w.waitNotReady("net", samplecrdv1.ReasonReferenceNotFound)
		w.contains(condition(waiting, samplecrdv1.ConditionReady).Message, "Router "+id+" could not be found")
		w.delete("net")
		w.nothingAtAll()
	})
}

func TestDriftOfRoutersIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start("-resync=1s", retryQuickly)
	removeInterface := func(w *world, router string, network *samplecrdv1.Network) {
		w.must(routers.RemoveInterface(w.Context(), w.neutron.Client, router, routers.RemoveInterfaceOpts{SubnetID: network.Status.SubnetID}).Err)
	}
	put := func(body map[string]any) func(*world, string, *samplecrdv1.Network) {
		return func(w *world, router string, _ *samplecrdv1.Network) { w.put("routers", router, "router", body) }
	}
	tests := []struct {
		what   string
		change func(w *world, router string, network *samplecrdv1.Network)
		event  string
		// recreated: the router has another ID afterwards.
		recreated bool
	}{
		{"interface removed", removeInterface, "subnet 10.1.0.0/16 attached to router ", false},
		{"router deleted", func(w *world, router string, network *samplecrdv1.Network) {
			w.takeRouter(router, network.Status.SubnetID)
		}, "router created, subnet 10.1.0.0/16 attached to router ", true},
		{"gateway cleared", put(map[string]any{"external_gateway_info": nil}), "router gateway set to external network " + w.publicID(), false},
		{"router renamed", put(map[string]any{"name": "other"}), "router name set to " + w.namespace + "/net-3", false},
	}
	for i, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			name := fmt.Sprintf("net-%d", i)
			network := w.createSpec(name, "10.1.0.0/16", "10.1.0.1", viaPublic)
			before := w.routed(name)
			tc.change(w, before.ID, network)
			w.waitForEvent(name, samplecrdv1.EventDriftRepaired, tc.event)
			w.eventually(func() error { // the status is written just after the event
				if r := w.get(name).Status.Router; r == nil || tc.recreated == (r.ID == before.ID) || len(r.ExternalIPs) == 0 {
					return fmt.Errorf("the status has the router %+v", r)
				}
				return nil
			})
			w.waitReady(name)
			w.routed(name)
			if n := w.warnings(name); n != 0 {
				t.Errorf("%d warnings", n)
			}
			w.delete(name)
		})
	}
	w.nothingAtAll()
}

// put changes an object in Neutron as another client would.
func (w *world) put(collection, id, object string, value any) {
	w.Helper()
	_, err := w.neutron.Client.Put(w.Context(), w.neutron.Client.ServiceURL(collection, id),
		map[string]any{object: value}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	w.must(err)
}

func TestExistingRouterThatOthersDeleteIsMissed(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, public)
	w.start("-resync=1s", retryQuickly)
	old := w.router("shared")
	network := w.createSpec("net", "10.1.0.0/16", "10.1.0.1", viaExisting("name", "shared"))
	w.connected("net", old)
	w.must(routers.RemoveInterface(t.Context(), w.neutron.Client, old, routers.RemoveInterfaceOpts{SubnetID: network.Status.SubnetID}).Err)
	w.waitForEvent("net", samplecrdv1.EventDriftRepaired, "subnet 10.1.0.0/16 attached to router "+old)
	w.connected("net", old)

	w.takeRouter(old, network.Status.SubnetID)
	missing := w.waitNotReady("net", samplecrdv1.ReasonReferenceNotFound)
	w.contains(condition(missing, samplecrdv1.ConditionReady).Message, `there is no router named "shared"`)
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
	again := w.router("shared")
	w.waitReady("net")
	w.connected("net", again)
	w.delete("net")
	w.removeRouter(again)
	w.nothingAtAll()
}
