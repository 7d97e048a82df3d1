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
	w.agrees(name, w.networks(name)[0])
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

// floatingIP creates a floating IP of the port, and returns it.
func (w *world) floatingIP(port string) *floatingips.FloatingIP {
	w.Helper()
	ip, err := floatingips.Create(w.Context(), w.neutron.Client, floatingips.CreateOpts{FloatingNetworkID: w.publicID(), PortID: port}).Extract()
	w.must(err)
	return ip
}
