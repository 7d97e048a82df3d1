// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// An administrator can make a subnet for another project on the network. The credentials do not see it, and Neutron
// refuses what overlaps with it: nothing is taken away for that.
func TestAHiddenSubnetPreventsAReplacement(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	hidden := post(t, c.admin, "subnet", object{"network_id": n.ID, "cidr": "10.0.5.0/24", "ip_version": 4, "project_id": "project-2"})
	r.Spec.CIDR = "10.0.0.0/16"
	for range 2 {
		writes := c.writes()
		wantError(t, Error{Op: "create subnet", Reason: Invalid, Message: "10.0.0.0/16 can overlap with subnet " + hidden +
			" of the network, which belongs to another project and is not visible: an administrator has to delete it"}, r.err(t))
		equal(t, writes, c.writes())
		noError(t, c.Observer().Relist(t.Context()))
	}
	noError(t, c.admin.DeleteSubnet(t.Context(), hidden, nil))
	equal(t, cidr("10.0.0.0/16"), r.synced(t).Subnets[0].CIDR)
}

// A subnet that was attached only to see whether Neutron refuses it is detached again: if the controller ends
// before it writes the status, and the spec changes, nobody knows of the router.
func TestATrialThatSucceedsLeavesNoConnection(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	second, third := c.makeRouter(t, "second", ""), c.makeRouter(t, "third", "")
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	noError(t, c.Observer().Relist(t.Context()))
	noError(t, c.others.DetachSubnet(t.Context(), c.gate, n.Subnets[0].ID))
	existingRouter(byIDOf(second))(&r.Spec)
	status := *r.Status.DeepCopy()
	_, _, err := r.syncOnce(t, Guard{})
	equal(t, Unrecorded, ReasonOf(err))
	equal(t, map[string]string{}, c.attached(t, n))
	r.Status = status // the controller ended before it wrote it
	existingRouter(byIDOf(third))(&r.Spec)
	noError(t, c.Observer().Relist(t.Context()))
	r.synced(t)
	equal(t, map[string]string{"10.0.0.0/24": third}, c.attached(t, n))
}

// The gateway of an attached subnet was moved by hand, and Neutron does not allow to restore the default: the subnet is not
// detached for that, at no resync. What it allows is restored.
func TestASubnetIsNotDetachedForADefaultThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byName("gate")))
	subnet := r.synced(t).Subnets[0].ID
	c.moveGateway(t, c.gate, subnet, "10.0.0.9")
	before := c.Interfaces()
	c.answer(replyTo(http.MethodPut, subnetsPath+"/"+subnet, http.StatusForbidden, neutronBody("PolicyNotAuthorized", "no")))
	for range 3 {
		noError(t, c.Observer().Relist(t.Context()))
		err := r.err(t)
		equal(t, []any{Forbidden, "restore what the spec leaves out"}, []any{ReasonOf(err), errorIn(err).Op})
		equal(t, before, c.Interfaces())
	}
	c.answer(nil)
	equal(t, "10.0.0.1", r.synced(t).Subnets[0].Gateway.String())
}

// Somebody has taken the gateway away, and then the router changes: no attachment is tried before the subnet has its
// gateway again, because Neutron attaches no subnet without one. What is tried then still costs nothing.
func TestTheRouterChangesAfterTheGatewayWasTakenAway(t *testing.T) {
	t.Parallel()
	for name, move := range map[string][2]func(*samplecrdv1.NetworkSpec){
		"to an existing router":         {ownRouterOn(byName("public")), existingRouter(byName("gate"))},
		"from an existing router":       {existingRouter(byName("gate")), ownRouterOn(byName("public"))},
		"to another existing router":    {existingRouter(byName("gate")), existingRouter(byName("other"))},
		"to a network that overlaps":    {existingRouter(byName("gate")), ownRouterOn(byName("next"))},
		"and the gateway is not needed": {existingRouter(byName("gate")), func(s *samplecrdv1.NetworkSpec) { s.Router = nil }},
	} {
		for _, isSeen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, seen %t", name, isSeen), func(t *testing.T) {
				t.Parallel()
				c := newRoutedCloud(t)
				next := post(t, c.admin, "network", object{"name": "next", "router:external": true, "project_id": "project-2"})
				post(t, c.admin, "subnet", object{"network_id": next, "cidr": "10.0.0.128/25", "ip_version": 4, "project_id": "project-2"})
				post(t, c.others, "router", object{"name": "other", "external_gateway_info": object{"network_id": c.public}})
				r := c.declare(move[0])
				n := r.synced(t)
				before := c.Interfaces()
				put(t, c.others, "subnet", n.Subnets[0].ID, object{"gateway_ip": nil})
				if isSeen {
					noError(t, c.Observer().Relist(t.Context()))
				}
				move[1](&r.Spec)
				if strings.Contains(name, "overlaps") {
					err := r.err(t)
					equal(t, Invalid, ReasonOf(err))
					equal(t, before, c.Interfaces())
					return
				}
				equal(t, "10.0.0.1", r.synced(t).Subnets[0].Gateway.String())
				equal(t, r.Spec.Router != nil, len(c.Interfaces()) == 1)
			})
		}
	}
}

// putPort creates a port on the network as another client, with that address.
func (c *routedCloud) putPort(t *testing.T, n *Observed, subnet, address string) (id string) {
	t.Helper()
	return post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": subnet, "ip_address": address}}})
}

// moveGateway moves the gateway of an attached subnet, as another client does.
func (c *routedCloud) moveGateway(t *testing.T, router, subnet, gateway string) {
	t.Helper()
	noError(t, c.others.DetachSubnet(t.Context(), router, subnet))
	put(t, c.others, "subnet", subnet, object{"gateway_ip": gateway, "allocation_pools": []object{}})
	_, err := c.others.AttachSubnet(t.Context(), router, subnet)
	noError(t, err)
	noError(t, c.Observer().Relist(t.Context()))
}

// The status is written while the subnet is detached. Then its default gateway cannot be restored either.
func TestASubnetMovesWithAGatewayThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	second := c.makeRouter(t, "second", "")
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	c.moveGateway(t, c.gate, n.Subnets[0].ID, "10.0.0.9")
	c.putPort(t, n, n.Subnets[0].ID, "10.0.0.1")
	existingRouter(byIDOf(second))(&r.Spec)
	for range 2 {
		equal(t, "restore what the spec leaves out: gateway set to 10.0.0.1: the address of the gateway, 10.0.0.1, is in use by port web-0 (no device)", r.err(t).Error())
		equal(t, map[string]string{"10.0.0.0/24": second}, c.attached(t, n))
	}
}

// Without a default that cannot be restored, the rest of the plan is gone through again.
func TestADefaultThatCannotBeRestoredDoesNotHideAnEditThatCannotBeCompleted(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byIDOf(c.gate)), withSubnet("grows", "10.2.0.0/24"))
	n := r.synced(t)
	moved := r.Status.Subnets[0].ID
	c.moveGateway(t, c.gate, moved, "10.0.0.9")
	c.putPort(t, n, moved, "10.0.0.1")
	post(t, c.others, "subnet", object{"network_id": n.ID, "cidr": "10.2.5.0/24", "ip_version": 4})
	noError(t, c.Observer().Relist(t.Context()))
	r.Spec.AdditionalSubnets[0].CIDR = "10.2.0.0/16"
	steps := r.preview(t)
	equal(t, "subnet 10.0.0.0/24: gateway 10.0.0.9 → 10.0.0.1", steps[len(steps)-1].Text)
	before := c.inNeutron(t, n.ID).Subnets
	for range 2 {
		equal(t, "create subnet: 10.2.0.0/16 overlaps with subnet 10.2.5.0/24 (ID) of the network, which is left alone", anyID.ReplaceAllString(r.err(t).Error(), "ID"))
		equal(t, before, c.inNeutron(t, n.ID).Subnets)
	}
}

// Somebody has attached the subnet to the next router, with another address than that of the gateway.
func TestTheNextRouterHasTheSubnetWithAnotherAddress(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	next := c.makeRouter(t, "next", "")
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	port := c.putPort(t, n, n.Subnets[0].ID, "10.0.0.77")
	noError(t, c.others.send(t.Context(), http.MethodPut, object{"port_id": port}, &object{}, nil, "routers", next, "add_router_interface"))
	noError(t, c.Observer().Relist(t.Context()))
	existingRouter(byIDOf(next))(&r.Spec)
	r.synced(t)
	equal(t, map[string]string{"10.0.0.0/24": next}, c.attached(t, n))
}

// What the client can see of the next router is read, and not tried.
func TestTheNeighboursOfTheNextRouterAreRead(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	external := post(t, c.admin, "network", object{"name": "external", "router:external": true, "project_id": "project-1"})
	post(t, c.others, "subnet", object{"network_id": external, "cidr": "198.18.9.0/24", "ip_version": 4})
	next := post(t, c.others, "router", object{"name": "next", "external_gateway_info": object{"network_id": external}})
	_, err := c.others.AttachSubnet(t.Context(), next, c.legacy(t, "10.9.0.0/24").Subnets[0].ID)
	noError(t, err)
	r := c.declare(existingRouter(byIDOf(c.gate)))
	r.synced(t)
	existingRouter(byIDOf(next))(&r.Spec)
	c.answer(func(w http.ResponseWriter, r *http.Request) bool {
		return isList("subnets", "id")(r) && reply(w, 500, "")
	})
	equal(t, Unavailable, ReasonOf(r.err(t)))
	c.answer(nil)
	calls := c.calls(func() { r.synced(t) })
	equal(t, 1, strings.Count(strings.Join(calls, ", "), attachCall))
}
