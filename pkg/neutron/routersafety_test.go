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

package neutron

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// outside adds a router of the Network's own, with its gateway in the external network public. It is
// in the status already.
func outside(d *Desired) {
	public := samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public"}}
	d.Router, d.RouterRecorded = &DesiredRouter{Name: d.Name, Mark: d.Owner.Mark(), Spec: public}, true
}

// routedWorld returns a world with the desired network and its router.
func routedWorld(t *testing.T, want Desired) (*world, *Network) {
	t.Helper()
	w := newWorld(t, embedded.Options{ExternalNetwork: embedded.ExternalNetwork{Name: "public", CIDR: cidr("198.18.0.0/16")}})
	n, _, err := w.route(t, want, &Network{RoutersKnown: true})
	noError(t, err)
	return w, n
}

// route converges, and returns the steps.
func (w *world) route(t *testing.T, want Desired, observed *Network) (*Network, []string, error) {
	t.Helper()
	as := Identity{Owner: owner, NetworkID: observed.ID, Routed: true}
	n, steps, err := w.Converge(t.Context(), as, want, observed, Guard{})
	var texts []string
	for _, s := range steps {
		text := s.String()
		for _, r := range n.Routers {
			text = strings.ReplaceAll(text, r.ID, "R")
		}
		texts = append(texts, text)
	}
	return n, texts, err
}

// occupy creates a port on a subnet of the network, and with it a floating IP if external is the ID of
// an external network.
func (w *world) occupy(t *testing.T, network, subnet, external string) {
	t.Helper()
	service, err := w.others.connect(t.Context())
	noError(t, err)
	port, err := ports.Create(t.Context(), service, ports.CreateOpts{NetworkID: network, Name: "web-0", FixedIPs: []ports.IP{{SubnetID: subnet}}}).Extract()
	noError(t, err)
	if external != "" {
		_, err = floatingips.Create(t.Context(), service, floatingips.CreateOpts{FloatingNetworkID: external, PortID: port.ID}).Extract()
		noError(t, err)
	}
}

func TestTheNewSubnetIsAttachedBeforeTheOldOneIsDetached(t *testing.T) {
	t.Parallel()
	w, n := routedWorld(t, wants("10.0.0.0/24", "", outside))
	_, steps, err := w.route(t, wants("10.1.0.0/24", "", outside), n)
	noError(t, err)
	equal(t, []string{
		"subnet 10.1.0.0/24 created", "subnet 10.1.0.0/24 attached to router R",
		"subnet 10.0.0.0/24 detached from router R", "subnet 10.0.0.0/24 deleted",
	}, steps)
}

// Neutron itself refuses only to detach the subnet that has the floating IP.
func TestAFloatingIPKeepsAllSubnetsAttached(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", with("more", "10.1.0.0/24"), outside)
	w, n := routedWorld(t, want)
	for _, s := range n.Subnets {
		if s.CIDR == cidr("10.1.0.0/24") {
			w.occupy(t, n.ID, s.ID, n.Routers[0].Gateway.NetworkID)
		}
	}
	want.Router = nil
	_, steps, err := w.route(t, want, n)
	equal(t, InUse, ReasonOf(err))
	equal(t, []string(nil), steps)
	equal(t, 2, len(w.Interfaces()))
}

func TestAPortKeepsAnObsoleteSubnetAttached(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"10.0.0.0/16", "10.1.0.0/24"} { // the first one overlaps
		w, n := routedWorld(t, wants("10.0.0.0/24", "", outside))
		w.occupy(t, n.ID, n.Subnets[0].ID, "")
		_, steps, err := w.route(t, wants(other, "", outside), n)
		equal(t, InUse, ReasonOf(err))
		equal(t, []string(nil), steps)
		equal(t, 1, len(w.Interfaces()))
	}
}

// Every answer of Neutron shows half an interface as a whole one.
func TestHalfAnInterfaceIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w, n := routedWorld(t, wants("10.0.0.0/24", ""))
	died := false
	w.SetFault(func(r *http.Request) *embedded.Fault {
		if died || !strings.HasSuffix(r.URL.Path, "/add_router_interface") {
			return nil
		}
		died = true
		return &embedded.Fault{Half: true}
	})
	want := wants("10.0.0.0/24", "", outside)
	_, _, err := w.route(t, want, n)
	equal(t, Unavailable, ReasonOf(err))
	equal(t, true, w.Interfaces()[0].Half)

	n, err = w.readNeutron(t.Context(), Identity{Owner: owner, Routed: true})
	noError(t, err)
	n, _, err = w.route(t, want, n)
	noError(t, err)
	equal(t, []bool{false}, halves(w.Interfaces()))
	equal(t, w.Interfaces()[0].PortID, n.Interfaces[0].PortID)
}

func halves(interfaces []embedded.Interface) (half []bool) {
	for _, i := range interfaces {
		half = append(half, i.Half)
	}
	return half
}

func TestARouterWhoseCreationWasNotAnsweredIsFound(t *testing.T) {
	t.Parallel()
	w, n := routedWorld(t, wants("10.0.0.0/24", ""))
	died := false
	w.SetFault(func(r *http.Request) *embedded.Fault {
		if died || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/routers") {
			return nil
		}
		died = true
		return &embedded.Fault{After: true, Drop: true}
	})
	want := wants("10.0.0.0/24", "", outside)
	_, _, err := w.route(t, want, n)
	equal(t, Unavailable, ReasonOf(err))
	n, err = w.readNeutron(t.Context(), Identity{Owner: owner, Routed: true})
	noError(t, err)
	_, _, err = w.route(t, want, n)
	noError(t, err)
	equal(t, 1, len(w.Routers()))
}

func TestNothingOfARouterIsCreatedBeforeTheStatusHasIt(t *testing.T) {
	t.Parallel()
	w, n := routedWorld(t, wants("10.0.0.0/24", ""))
	want := wants("10.0.0.0/24", "", outside)
	want.RouterRecorded = false
	_, steps, err := w.route(t, want, n)
	equal(t, Unrecorded, ReasonOf(err))
	equal(t, []string(nil), steps)
	equal(t, 0, len(w.Routers()))
}

func TestAnotherExternalNetworkMeansAnotherRouter(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", outside)
	want.Router.ExternalNetwork = "internet"
	observed := has(ours("s1", "10.0.0.0/24", "10.0.0.1"))
	observed.Routers = []Router{
		{ID: "new", Name: testName, Description: owner.Mark(), Gateway: ExternalGateway{NetworkID: "internet"}},
		{ID: "old", Name: testName, Description: owner.Mark(), Gateway: ExternalGateway{NetworkID: "public"}},
	}
	observed.Interfaces = []Interface{{PortID: "p", RouterID: "new", SubnetID: "s1", Address: netip.MustParseAddr("10.0.0.1"), Confirmed: true}}
	equal(t, Step(DeleteRouter{"old"}), Next(want, observed))
	observed.Routers = observed.Routers[:1]
	equal(t, nil, Next(want, observed))
}

// An interface of a stranger's subnet is a stranger's, even if it is on the Network's own router.
func TestAnInterfaceOnAStrangersSubnetIsNotManaged(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", outside)
	want.Router.ExternalNetwork = "public"
	observed := has(ours("s1", "10.0.0.0/24", "10.0.0.1"), described("a stranger's", ours("s2", "10.1.0.0/24", "10.1.0.1")))
	observed.Routers = []Router{{ID: "r", Name: testName, Description: owner.Mark(), Gateway: ExternalGateway{NetworkID: "public"}}}
	strangers := Interface{PortID: "p2", RouterID: "r", SubnetID: "s2", Address: netip.MustParseAddr("10.1.0.1")}
	observed.Interfaces = []Interface{{PortID: "p1", RouterID: "r", SubnetID: "s1", Address: netip.MustParseAddr("10.0.0.1"), Confirmed: true}, strangers}
	equal(t, nil, Next(want, observed))
	equal(t, true, slices.Equal([]Interface{strangers}, UnmanagedInterfaces(want, observed)))
}

// After a restore of etcd the status may have a router again only after a sync that waits for the
// router's own interface.
func TestAWaitEndsWhenItsPortIsAnInterfaceOfTheRouter(t *testing.T) {
	t.Parallel()
	var w waits
	s := scope{op: "replace", network: "n", subnets: []string{"s"}}
	w.add(owner.UID, s, "in use by port p")
	equal(t, InUse, ReasonOf(w.check(owner.UID, s)))
	s.except = []string{"p"}
	noError(t, w.check(owner.UID, s))
}

// A status from a backup of etcd may not have the router that the spec names.
func TestTheInterfaceOnADeclaredRouterDoesNotPreventAReplacement(t *testing.T) {
	t.Parallel()
	w, n := routedWorld(t, wants("10.0.0.0/24", ""))
	service, err := w.others.connect(t.Context())
	noError(t, err)
	router, err := routers.Create(t.Context(), service, routers.CreateOpts{}).Extract()
	noError(t, err)
	_, err = routers.AddInterface(t.Context(), service, router.ID, routers.AddInterfaceOpts{SubnetID: n.Subnets[0].ID}).Extract()
	noError(t, err)
	n, err = w.readNeutron(t.Context(), Identity{Owner: owner, Routed: true})
	noError(t, err)
	for _, recorded := range []string{"", "another"} {
		want := wants("10.1.0.0/24", "", func(d *Desired) {
			spec := samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: router.ID}}
			d.Router, d.RouterRecorded, d.KnownRouter = &DesiredRouter{Spec: spec}, recorded != "", recorded
		})
		as := Identity{Owner: owner, NetworkID: n.ID, Routed: true, Router: recorded}
		var steps []Step
		n, steps, err = w.Converge(t.Context(), as, want, n, Guard{})
		equal(t, Unrecorded, ReasonOf(err)) // that comes before the subnet is attached
		equal(t, recorded == "", len(steps) == 1)
	}
}
