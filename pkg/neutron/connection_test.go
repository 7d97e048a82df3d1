// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"fmt"
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
	noError(t, c.admin.DeleteNetwork(t.Context(), c.public2, nil))
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

// Neutron refuses a field that changes together with the gateway.
func TestARefusedFieldDoesNotDetachASubnet(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	before := c.Interfaces()
	c.SetFault(func(r *http.Request) *embedded.Fault {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPut && bytes.Contains(body, []byte("dns_nameservers")) {
			return &embedded.Fault{Status: 400, Type: "InvalidInput"}
		}
		return nil
	})
	r.Spec.Gateway, r.Spec.DNSNameservers = "10.0.0.9", []samplecrdv1.IPAddress{"10.0.0.5"}
	equal(t, Invalid, ReasonOf(r.err(t)))
	equal(t, before, c.Interfaces())
	c.SetFault(nil)
	n := r.synced(t)
	equal(t, addr("10.0.0.9"), n.Subnets[0].Gateway)
	equal(t, c.own()[0].ID, c.attached(t, n)["10.0.0.0/24"])
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
	c.routing.need(Identity{Owner: owner, Routed: true}, &Observed{})
	noError(t, c.Observer().Relist(t.Context()))
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	equal(t, 1, len(c.own()))
	equal(t, id, c.own()[0].ID)
}

func TestTheRouterOfTheSpecIsDetachedBeforeADeletion(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*routedCloud, *resource){
		"the status of a backup does not have the router": func(_ *routedCloud, r *resource) { r.Status.Router = nil },
		"it has one that is gone since": func(_ *routedCloud, r *resource) {
			r.Status.Router = &samplecrdv1.RouterStatus{ID: "00000000-0000-4000-8000-000000000001"}
		},
		"the subnet has lost its mark": func(c *routedCloud, r *resource) {
			put(t, c.others, "subnet", r.Status.Subnets[0].ID, object{"description": ""})
			noError(t, c.Observer().Relist(t.Context()))
		},
	} {
		for _, isByName := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, by name: %v", name, isByName), func(t *testing.T) {
				c := newRoutedCloud(t)
				ref := byIDOf(c.gate)
				if isByName {
					ref = byName("gate")
				}
				r := c.declare(existingRouter(ref))
				r.synced(t)
				lose(c, r)
				_, err := r.remove(t, false, Guard{})
				noError(t, err)
				equal(t, 0, len(c.Interfaces()))
				equal(t, 2, len(c.world.Networks()))
			})
		}
	}
}

// Neutron has no such interface: "IPv6 subnet configured to receive RAs from an external router cannot
// be added to Neutron Router."
func TestARouterNeedsTheIPv6RAMode(t *testing.T) {
	r := (&routedCloud{}).declare(ownRouterOn(byName("public")), withSubnet("v6", "fd00:1::/64"))
	r.Spec.AdditionalSubnets[0].IPv6 = &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC}
	_, err := NewDesired(r.Network, owner.Cluster)
	wantError(t, Error{Op: "spec.additionalSubnets[v6].ipv6", Reason: Invalid, Message: "needs raMode if the Network has a router"}, err)
}

// A member can create a port that looks like an interface of the router. Neutron removes the real
// interface first.
func TestAPortThatLooksLikeAnInterfaceDoesNotDetachTheSubnet(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", ownOn("public"), recorded("own"))
	n := connected(has(ours("s1", "10.0.0.0/24", "10.0.0.1")), router("own", "public"), joins("own", "s1", "10.0.0.1"),
		Interface{PortID: "a", RouterID: "own", SubnetID: "s1", Address: addr("10.0.0.77")})
	if step := at(want, n).Next(); step != nil {
		t.Errorf("got %+v", step)
	}
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

func TestARouterWithoutAnExternalAddressIsNotReady(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	external := post(t, c.admin, "network", object{"name": "empty", "router:external": true})
	r := c.declare(ownRouterOn(byIDOf(external)))
	for range 2 {
		err := r.err(t)
		wantError(t, Error{Op: "spec.router.externalNetwork", Reason: Unresolved,
			Message: "router " + c.own()[0].ID + " has no address in external network " + external + ", which has no subnet"}, err)
	}
	post(t, c.admin, "subnet", object{"network_id": external, "cidr": "198.20.0.0/24", "ip_version": 4})
	noError(t, c.Observer().Relist(t.Context()))
	r.synced(t)
	equal(t, 1, len(c.own()))
}
