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
	"bytes"
	"io"
	"net/http"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// The status shows no error without a reason of its table, and would stay Ready.
func TestAnExternalNetworkThatIsGoneIsReported(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byIDOf(c.public2)))
	r.synced(t)
	put(t, c.others, "router", c.own()[0].ID, object{"external_gateway_info": nil})
	noError(t, newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: c.others.options.Timeout}).DeleteNetwork(t.Context(), c.public2, nil))
	noError(t, c.Observer().Relist(t.Context()))
	for range 2 {
		equal(t, Unresolved, ReasonOf(r.err(t)))
	}
	// It is not taken for a router that is gone.
	noError(t, c.others.DetachSubnet(t.Context(), c.own()[0].ID, r.Status.Subnets[0].ID))
	noError(t, c.others.DeleteRouter(t.Context(), c.own()[0].ID))
	ownRouterOn(byIDOf(c.public))(&r.Spec)
	r.synced(t)
	equal(t, 1, len(c.own()))
}

// A subnet is not detached while it is certain that it cannot be attached again.
func TestASubnetStaysAttachedWhileTheRouterIsNotResolved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*samplecrdv1.NetworkSpec){
		"another gateway":              func(s *samplecrdv1.NetworkSpec) { s.Gateway = "10.0.0.9" },
		"a CIDR that overlaps":         func(s *samplecrdv1.NetworkSpec) { s.CIDR = "10.0.0.0/16" },
		"a CIDR that does not overlap": func(s *samplecrdv1.NetworkSpec) { s.CIDR = "10.1.0.0/24" },
		"another gateway and DNS server": func(s *samplecrdv1.NetworkSpec) {
			s.Gateway, s.DNSNameservers = "10.0.0.9", []samplecrdv1.IPAddress{"10.0.0.5"}
		},
	} {
		for _, ref := range []func(*samplecrdv1.NetworkSpec){ownRouterOn(byName("nowhere")), existingRouter(byName("nowhere")), existingRouter(byIDOf("nowhere"))} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newRoutedCloud(t)
				r := c.declare(existingRouter(byIDOf(c.gate)))
				r.synced(t)
				before := c.Interfaces()
				change(&r.Spec)
				ref(&r.Spec)
				for range 2 {
					equal(t, Unresolved, ReasonOf(r.err(t)))
				}
				equal(t, before, c.Interfaces())
				existingRouter(byName("gate"))(&r.Spec)
				equal(t, map[string]string{r.synced(t).Subnets[0].CIDR.String(): c.gate}, c.attached(t, r.synced(t)))
			})
		}
	}
}

// A port can have the address of the new gateway: then the subnet could not be attached again.
func TestTheGatewayDoesNotMoveToAnAddressThatIsInUse(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")), withSubnet("v6", "fd00:1::/64"))
	n := r.synced(t)
	var v4 string
	for _, s := range n.Subnets {
		if s.CIDR == cidr("10.0.0.0/24") {
			v4 = s.ID
		}
	}
	id := post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": v4, "ip_address": "10.0.0.9"}}})
	before := c.Interfaces()
	r.Spec.Gateway = "10.0.0.9"
	for range 2 {
		wantError(t, Error{Op: "attach subnet", Reason: InUse, Message: "the address of the gateway, 10.0.0.9, is in use by port web-0 (no device)"}, r.err(t))
	}
	equal(t, before, c.Interfaces())
	noError(t, c.others.delete(t.Context(), "delete", "ports", id, nil))
	n = r.synced(t)
	equal(t, c.own()[0].ID, c.attached(t, n)["10.0.0.0/24"])
	equal(t, addr("10.0.0.9"), n.subnet(v4).Gateway)
}

// refuseField refuses each change of a subnet that has the field.
func refuseField(w http.ResponseWriter, r *http.Request, name string) bool {
	if r.Method != http.MethodPut {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte(name)) && reply(w, http.StatusBadRequest, `{"NeutronError": {"type": "InvalidInput", "message": "no"}}`)
}

// Neutron refuses a field that changes together with the gateway.
func TestARefusedFieldDoesNotDetachASubnet(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	before := c.Interfaces()
	c.answer(func(w http.ResponseWriter, req *http.Request) bool { return refuseField(w, req, "dns_nameservers") })
	r.Spec.Gateway, r.Spec.DNSNameservers = "10.0.0.9", []samplecrdv1.IPAddress{"10.0.0.5"}
	equal(t, Invalid, ReasonOf(r.err(t)))
	equal(t, before, c.Interfaces())
	c.answer(nil)
	n := r.synced(t)
	equal(t, addr("10.0.0.9"), n.Subnets[0].Gateway)
	equal(t, c.own()[0].ID, c.attached(t, n)["10.0.0.0/24"])
}

// Neutron itself refuses only to detach the subnet that has the next hop.
func TestARouteOfARouterKeepsAllSubnetsAttached(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byIDOf(c.gate)), withSubnet("more", "10.1.0.0/24"))
	r.synced(t)
	put(t, c.others, "router", c.gate, object{"routes": []object{{"destination": "10.77.0.0/16", "nexthop": "10.1.0.9"}}})
	before := c.Interfaces()
	r.Spec.Router = nil
	for range 2 {
		equal(t, InUse, ReasonOf(r.err(t)))
		equal(t, before, c.Interfaces())
	}
	put(t, c.others, "router", c.gate, object{"routes": []object{}})
	r.synced(t)
	equal(t, 0, len(c.Interfaces()))
}

// The interfaces belong to the project of the router, so a list of the network's project does not have
// them.
func TestARouterOfAnotherProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{
		Projects: []embedded.Project{
			{Name: "samplecrd", ID: "project-1", Password: password, Admin: true},
			{Name: "other", ID: "project-2", Password: password},
		},
		ExternalNetwork: embedded.ExternalNetwork{Name: "public", CIDR: cidr("198.18.0.0/24")},
	})
	c := &routedCloud{world: w}
	gate := post(t, newTestClient(t, w.configAs(t, "other", password), ClientOptions{Timeout: c.others.options.Timeout}), "router", object{"name": "gate"})
	r := c.declare(existingRouter(byIDOf(gate)))
	for range 2 {
		wantError(t, Error{Op: "attach subnet", Reason: Unresolved, Message: "router " + gate + " belongs to another project"}, r.err(t))
		equal(t, 0, len(c.Interfaces()))
		noError(t, c.Observer().Relist(t.Context()))
	}
	_, err := r.remove(t, false, Guard{})
	noError(t, err)
}

// Nothing of the network is in the status of a backup.
func TestARouterWithoutANetworkIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	id := c.makeRouter(t, "default/web", owner.Mark())
	c.routing.need(Identity{Owner: owner, Routed: true}, &Network{})
	noError(t, c.Observer().Relist(t.Context()))
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	equal(t, 1, len(c.own()))
	equal(t, id, c.own()[0].ID)
}

// The status of a backup does not have the router that the spec names, or it has one that is gone since.
func TestTheRouterOfTheSpecIsDetachedBeforeADeletion(t *testing.T) {
	t.Parallel()
	for _, ref := range []samplecrdv1.NeutronReference{{Name: "gate"}, {}} {
		for _, recorded := range []*samplecrdv1.RouterStatus{nil, {ID: "00000000-0000-4000-8000-000000000001"}} {
			c := newRoutedCloud(t)
			if ref.Name == "" {
				ref.ID = c.gate
			}
			r := c.declare(existingRouter(ref))
			r.synced(t)
			r.Status.Router = recorded
			_, err := r.remove(t, false, Guard{})
			noError(t, err)
			equal(t, 0, len(c.Interfaces()))
			equal(t, 2, len(c.world.Networks()))
		}
	}
}

// Neutron refuses overlapping subnets on one router.
func TestSubnetsStayAttachedIfTheNewRouterHasOneThatOverlaps(t *testing.T) {
	t.Parallel()
	for name, router := range map[string]func(*routedCloud) func(*samplecrdv1.NetworkSpec){
		"from an existing router": func(c *routedCloud) func(*samplecrdv1.NetworkSpec) {
			return existingRouter(byIDOf(c.makeRouter(t, "first", "")))
		},
		"from an own router": func(c *routedCloud) func(*samplecrdv1.NetworkSpec) { return ownRouterOn(byIDOf(c.public)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRoutedCloud(t)
			r := c.declare(router(c), withSubnet("more", "10.1.0.0/24"))
			r.synced(t)
			theirs := post(t, c.others, "network", object{"name": "theirs"})
			subnet := post(t, c.others, "subnet", object{"network_id": theirs, "cidr": "10.1.0.128/25", "ip_version": 4})
			_, err := c.others.AttachSubnet(t.Context(), c.gate, subnet)
			noError(t, err)
			before := c.Interfaces()
			existingRouter(byName("gate"))(&r.Spec)
			for range 2 {
				wantError(t, Error{Op: "attach subnet", Reason: Invalid,
					Message: "10.1.0.0/24 overlaps with 10.1.0.128/25 (" + subnet + "), which is attached to router " + c.gate}, r.err(t))
				equal(t, before, c.Interfaces())
			}
			noError(t, c.others.DetachSubnet(t.Context(), c.gate, subnet))
			equal(t, map[string]string{"10.0.0.0/24": c.gate, "10.1.0.0/24": c.gate}, c.attached(t, r.synced(t)))
		})
	}
}

// Neutron has no such interface: "IPv6 subnet configured to receive RAs from an external router cannot
// be added to Neutron Router."
func TestARouterNeedsTheIPv6RAMode(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")), withSubnet("v6", "fd00:1::/64"))
	ipv6 := &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC}
	r.Spec.AdditionalSubnets[0].IPv6 = ipv6
	_, err := NewDesired(r.Network, owner.Cluster)
	wantError(t, Error{Op: "spec.additionalSubnets[v6].ipv6", Reason: Invalid, Message: "needs raMode if the Network has a router"}, err)
	ipv6.RAMode = ipv6.AddressMode
	r.synced(t)
	r.Spec.Router, ipv6.RAMode = nil, ""
	n := r.synced(t)
	for _, s := range n.Subnets {
		if s.CIDR.Addr().Is6() {
			_, err := c.others.AttachSubnet(t.Context(), c.gate, s.ID)
			equal(t, Invalid, ReasonOf(err))
		}
	}
}

// A member can create a port that looks like an interface of the router. Neutron removes the real
// interface first.
func TestAPortThatLooksLikeAnInterfaceDoesNotDetachTheSubnet(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", ownOn("public"), recorded("own"))
	n := connected(has(ours("s1", "10.0.0.0/24", "10.0.0.1")), router("own", "public"), joins("own", "s1", "10.0.0.1"),
		Interface{PortID: "a", RouterID: "own", SubnetID: "s1", Address: addr("10.0.0.77")})
	if step := Next(want, n); step != nil {
		t.Errorf("got %+v", step)
	}
}

// The interface has another address than the gateway after the gateway was removed and set again.
func TestASubnetIsNotDetachedForAGatewayThatIsInUse(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	n := r.synced(t)
	post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.Subnets[0].ID, "ip_address": "10.0.0.9"}}})
	put(t, c.others, "subnet", n.Subnets[0].ID, object{"gateway_ip": nil})
	put(t, c.others, "subnet", n.Subnets[0].ID, object{"gateway_ip": "10.0.0.9", "allocation_pools": allocationPools(cidr("10.0.0.0/24"), addr("10.0.0.9"))})
	noError(t, c.Observer().Relist(t.Context()))
	before := c.Interfaces()
	r.Spec.Gateway = "10.0.0.9"
	equal(t, InUse, ReasonOf(r.err(t)))
	equal(t, before, c.Interfaces())
}

// Such an interface is another client's, as in UnmanagedInterfaces.
func TestTheInterfaceOfAnUnmanagedSubnetPreventsADeletion(t *testing.T) {
	t.Parallel()
	for _, isOwn := range []bool{false, true} {
		c := newRoutedCloud(t)
		r := c.declare(existingRouter(byIDOf(c.gate)))
		if isOwn {
			ownRouterOn(byIDOf(c.public))(&r.Spec)
		}
		n := r.synced(t)
		subnet := post(t, c.others, "subnet", object{"network_id": n.ID, "cidr": "10.9.0.0/24", "ip_version": 4})
		port, err := c.others.AttachSubnet(t.Context(), r.Status.Router.ID, subnet)
		noError(t, err)
		noError(t, c.Observer().Relist(t.Context()))
		before := c.Interfaces()
		for range 2 {
			_, err = r.remove(t, false, Guard{})
			wantError(t, Error{Op: "delete network", Reason: InUse, Message: "in use by port " + port + " (network:router_interface)"}, err)
			equal(t, before, c.Interfaces())
		}
		noError(t, c.others.DetachSubnet(t.Context(), r.Status.Router.ID, subnet))
		c.waits.drop(owner.UID)
		noError(t, c.Observer().Relist(t.Context()))
		_, err = r.remove(t, false, Guard{})
		noError(t, err)
		equal(t, 0, len(c.Interfaces())+len(c.own()))
	}
}

// The mark of a subnet can be lost. The status knows the subnet.
func TestASubnetWithoutItsMarkIsDetachedBeforeADeletion(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	put(t, c.others, "subnet", n.Subnets[0].ID, object{"description": ""})
	noError(t, c.Observer().Relist(t.Context()))
	_, err := r.remove(t, false, Guard{})
	noError(t, err)
	equal(t, 0, len(c.Interfaces()))
}

func TestARouterWithoutAnExternalAddressIsNotReady(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: c.others.options.Timeout})
	external := post(t, admin, "network", object{"name": "empty", "router:external": true})
	r := c.declare(ownRouterOn(byIDOf(external)))
	for range 2 {
		err := r.err(t)
		wantError(t, Error{Op: "spec.router.externalNetwork", Reason: Unresolved,
			Message: "router " + c.own()[0].ID + " has no address in external network " + external + ", which has no subnet"}, err)
	}
	post(t, admin, "subnet", object{"network_id": external, "cidr": "198.20.0.0/24", "ip_version": 4})
	noError(t, c.Observer().Relist(t.Context()))
	r.synced(t)
	equal(t, 1, len(c.own()))
}
