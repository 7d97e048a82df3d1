// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// portsOwned lists the ports on the network with that device owner.
func (c *routedCloud) portsOwned(t *testing.T, network, owner string) []Port {
	t.Helper()
	ports, err := list[Port](t.Context(), c.others, "ports", portFields, url.Values{"network_id": {network}, "device_owner": {owner}})
	noError(t, err)
	return ports
}

// gated gives the router gate its gateway, with which Neutron makes the ports beside its interfaces.
func (c *routedCloud) gated(t *testing.T) *routedCloud {
	put(t, c.others, "router", c.gate, object{"external_gateway_info": object{"network_id": c.public}})
	return c
}

// The address that a gateway moves to may be that of the port beside the interface: both go together.
func TestTheGatewayOfADistributedRouterMovesToTheAddressOfItsPort(t *testing.T) {
	c := newRoutedCloudWith(t, true)
	r := c.declare(ownRouterOn(byName("public")))
	r.Spec.AllocationPools = []samplecrdv1.AllocationPool{{Start: "10.0.0.9", End: "10.0.0.9"}}
	n := r.synced(t)
	address := c.portsOwned(t, n.ID, "network:router_centralized_snat")[0].FixedIPs[0].Address
	equal(t, addr("10.0.0.9"), address)
	r.Spec.Gateway, r.Spec.AllocationPools = address.String(), nil
	steps := r.preview(t)
	equal(t, 3, len(steps))
	for _, s := range steps {
		equal(t, "", s.Blocked)
	}
	n = r.synced(t)
	equal(t, address, n.Subnets[0].Gateway)
	equal(t, c.own()[0].ID, c.attached(t, n)["10.0.0.0/24"])
}

// A backup of etcd from before a subnet was added brings back a spec and a status without it.
func TestARestoredBackupDoesNotTakeAddressesFromPorts(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	r.synced(t)
	backup := r.DeepCopy()
	withSubnet("v6", "fd00:1::/64")(&r.Spec)
	r.Spec.AdditionalSubnets[0].IPv6 = &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
	n := r.synced(t)
	makePort(t, c.others, n.ID, "web-0", "compute:nova")
	before := c.portsOwned(t, n.ID, "compute:nova")
	equal(t, 2, len(before[0].FixedIPs))
	r.Network = backup
	noError(t, c.Observer().Relist(t.Context()))
	for range 2 {
		_, done, err := r.sync(t)
		wantError(t, Error{Op: "delete subnet fd00:1::/64", Reason: InUse, Message: "in use by port web-0 (compute:nova)"}, err)
		equal(t, []string(nil), done)
	}
	equal(t, before, c.portsOwned(t, n.ID, "compute:nova"))
	equal(t, 2, len(c.inNeutron(t, n.ID).Subnets))
}

// A port that comes while the rest of the plan is gone through keeps its address: the ports are looked at right before
// the first subnet goes.
func TestAPortThatComesDuringTheLookAheadKeepsItsAddress(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(withSubnet("a", "fd00:1::/64"), withSubnet("b", "fd00:2::/64"))
	for i := range r.Spec.AdditionalSubnets {
		r.Spec.AdditionalSubnets[i].IPv6 = &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
	}
	n := r.synced(t)
	r.Spec.AdditionalSubnets = nil
	withSubnet("all", "fd00::/16")(&r.Spec)
	var came sync.Once
	c.SetFault(func(r *http.Request) *embedded.Fault {
		if strings.HasSuffix(r.URL.Path, "/details.json") { // of the quotas, after the ports
			came.Do(func() { makePort(t, c.others, n.ID, "web-0", "compute:nova") })
		}
		return nil
	})
	_, done, err := r.sync(t)
	equal(t, InUse, ReasonOf(err))
	equal(t, "in use by port web-0 (compute:nova)", errorIn(err).Message)
	equal(t, []string(nil), done)
	equal(t, 3, len(c.portsOwned(t, n.ID, "compute:nova")[0].FixedIPs))
}

// Neutron deletes the floating IPs that lead nowhere with their network, also if it then refuses to delete
// it. They are somebody's as well.
func TestAnExternalNetworkIsNotDeletedUnderFloatingIPs(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	put(t, c.admin, "network", n.ID, object{"router:external": true})
	id := post(t, c.admin, "floatingip", object{"floating_network_id": n.ID})
	floating := c.portsOwned(t, n.ID, "network:floatingip")
	equal(t, 1, len(floating))
	noError(t, c.Observer().Relist(t.Context()))
	message := "in use by port " + floating[0].ID + " (network:floatingip)"
	steps, err := c.PreviewRemoval(t.Context(), NewIdentity(r.Network, owner.Cluster), false)
	noError(t, err)
	equal(t, message, steps[len(steps)-1].Blocked)
	c.waits.drop(owner.UID)
	verified := 0
	guard := Guard{Verify: func(context.Context) error { verified++; return nil }}
	for _, calls := range [][]string{{"GET ports"}, nil} {
		equal(t, calls, c.calls(func() { _, err = r.remove(t, false, guard) }))
		wantError(t, Error{Op: "delete network", Reason: InUse, Message: message}, err)
	}
	equal(t, 0, verified)
	equal(t, floating, c.portsOwned(t, n.ID, "network:floatingip"))

	noError(t, c.admin.delete(t.Context(), "delete", "floatingips", id, nil))
	noError(t, c.RelistPorts(t.Context()))
	_, err = r.remove(t, false, guard)
	noError(t, err)
	equal(t, 1, verified)
}

// The network has become external since the last list, which the read before the deletion shows.
func TestANetworkThatHasBecomeExternalIsNotDeletedUnderFloatingIPs(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	noError(t, c.Observer().Relist(t.Context()))
	put(t, c.admin, "network", n.ID, object{"router:external": true})
	post(t, c.admin, "floatingip", object{"floating_network_id": n.ID})
	floating := c.portsOwned(t, n.ID, "network:floatingip")
	_, err := r.remove(t, false, Guard{})
	equal(t, InUse, ReasonOf(err))
	equal(t, 1, len(floating))
	equal(t, floating, c.portsOwned(t, n.ID, "network:floatingip"))
}

// The interface of the own router goes before the network does.
func TestThePlanOfADeletionOfAnExternalNetworkIsNotBlockedByItsOwnRouter(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	put(t, c.admin, "network", r.synced(t).ID, object{"router:external": true})
	noError(t, c.Observer().Relist(t.Context()))
	steps, err := c.PreviewRemoval(t.Context(), NewIdentity(r.Network, owner.Cluster), false)
	noError(t, err)
	for _, s := range steps {
		equal(t, "", s.Blocked)
	}
	equal(t, 3, len(steps))
}
