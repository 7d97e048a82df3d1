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
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// An edit that cannot be completed costs nothing: the Network keeps its subnets, their IDs, and its connections.
// When what is in the way is gone, the edit is completed.
func TestAnEditThatCannotBeCompletedCostsNothing(t *testing.T) {
	t.Parallel()
	toCIDR := func(cidr string) func(*samplecrdv1.NetworkSpec) {
		return func(s *samplecrdv1.NetworkSpec) { s.CIDR = cidr }
	}
	remove := func(t *testing.T, c *routedCloud, collection, id string) func() {
		return func() { noError(t, c.others.delete(t.Context(), "delete", collection, id, nil)) }
	}
	stranger := func(cidr string) func(*testing.T, *routedCloud, *resource, *Network) func() {
		return func(t *testing.T, c *routedCloud, _ *resource, n *Network) func() {
			return remove(t, c, "subnets", post(t, c.others, "subnet", object{"network_id": n.ID, "cidr": cidr, "ip_version": 4}))
		}
	}
	// hidden is a subnet that an administrator has made for another project.
	hidden := func(cidr string) func(*testing.T, *routedCloud, *resource, *Network) func() {
		return func(t *testing.T, c *routedCloud, _ *resource, n *Network) func() {
			admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
			id := post(t, admin, "subnet", object{"network_id": n.ID, "cidr": cidr, "ip_version": 4, "project_id": "project-2"})
			return func() { noError(t, admin.delete(t.Context(), "delete", "subnets", id, nil)) }
		}
	}
	neighbour := func(cidr string) func(*testing.T, *routedCloud, *resource, *Network) func() {
		return func(t *testing.T, c *routedCloud, r *resource, _ *Network) func() {
			router, subnet := r.Status.Router.ID, legacyOf(t, c.others, "", cidr).Subnets[0].ID
			_, err := c.others.AttachSubnet(t.Context(), router, subnet)
			noError(t, err)
			return func() { noError(t, c.others.DetachSubnet(t.Context(), router, subnet)) }
		}
	}
	quota := func(limits object) func(*testing.T, *routedCloud, *resource, *Network) func() {
		return func(t *testing.T, c *routedCloud, _ *resource, _ *Network) func() {
			admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
			set := func(limits object) {
				var answer object
				noError(t, admin.send(t.Context(), http.MethodPut, object{"quota": limits}, &answer, nil, "quotas", "project-1"))
			}
			set(limits)
			return func() { set(object{"subnet": -1, "router": -1}) }
		}
	}
	for _, test := range []struct {
		name  string
		start []func(*samplecrdv1.NetworkSpec)
		// obstruct puts something in the way. It returns what removes it.
		obstruct func(*testing.T, *routedCloud, *resource, *Network) func()
		edit     []func(*samplecrdv1.NetworkSpec)
		reason   ErrorReason
		message  string
	}{
		{"a stranger's subnet is on the network", nil, stranger("10.0.5.0/24"), []func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			Invalid, "create subnet: 10.0.0.0/16 overlaps with subnet 10.0.5.0/24 (ID) of the network, which is left alone"},
		{"a stranger's subnet is on the network, which has a router", []func(*samplecrdv1.NetworkSpec){existingRouter(byName("gate"))}, stranger("10.0.5.0/24"),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			Invalid, "create subnet: 10.0.0.0/16 overlaps with subnet 10.0.5.0/24 (ID) of the network, which is left alone"},
		{"a subnet of another project is on the network", nil, hidden("10.0.5.0/24"), []func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			Invalid, "create subnet: 10.0.0.0/16 can overlap with subnet ID of the network, which belongs to another project and is not visible: an administrator has to delete it"},
		{"one of two subnets can be replaced", []func(*samplecrdv1.NetworkSpec){withSubnet("more", "10.1.0.0/24")}, stranger("10.2.0.0/25"),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16"), func(s *samplecrdv1.NetworkSpec) { s.AdditionalSubnets[0].CIDR = "10.2.0.0/24" }},
			Invalid, "create subnet: 10.2.0.0/24 overlaps with subnet 10.2.0.0/25 (ID) of the network, which is left alone"},
		{"another subnet is on the existing router", []func(*samplecrdv1.NetworkSpec){existingRouter(byName("gate"))}, neighbour("10.0.5.0/24"),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			Invalid, "attach subnet: 10.0.0.0/16 overlaps with 10.0.5.0/24 (ID), which is attached to router ID"},
		{"another subnet is on the existing router, and the CIDRs do not overlap", []func(*samplecrdv1.NetworkSpec){existingRouter(byName("gate"))}, neighbour("10.7.5.0/24"),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.7.0.0/16")},
			Invalid, "attach subnet: 10.7.0.0/16 overlaps with 10.7.5.0/24 (ID), which is attached to router ID"},
		{"another subnet is on the Network's own router", []func(*samplecrdv1.NetworkSpec){ownRouterOn(byName("public"))}, neighbour("10.0.5.0/24"),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			Invalid, "attach subnet: 10.0.0.0/16 overlaps with 10.0.5.0/24 (ID), which is attached to router ID"},
		{"a port has the address of the next gateway", []func(*samplecrdv1.NetworkSpec){ownRouterOn(byName("public"))}, func(t *testing.T, c *routedCloud, _ *resource, n *Network) func() {
			return remove(t, c, "ports", post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.Subnets[0].ID, "ip_address": "10.0.0.9"}}}))
		}, []func(*samplecrdv1.NetworkSpec){func(s *samplecrdv1.NetworkSpec) { s.Gateway = "10.0.0.9" }},
			InUse, "attach subnet: the address of the gateway, 10.0.0.9, is in use by port web-0 (no device)"},
		{"the router is not there", nil, nil, []func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16"), existingRouter(byName("nowhere"))},
			Unresolved, `spec.router.existing: there is no router named "nowhere" that the credentials can see`},
		{"the router is not there, and the CIDRs do not overlap", nil, nil, []func(*samplecrdv1.NetworkSpec){toCIDR("10.1.0.0/16"), ownRouterOn(byName("nowhere"))},
			Unresolved, `spec.router.externalNetwork: there is no external network named "nowhere" that the credentials can see`},
		{"the pools have the gateway", nil, nil, []func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16"), func(s *samplecrdv1.NetworkSpec) {
			s.AllocationPools = []samplecrdv1.AllocationPool{{Start: "10.0.0.1", End: "10.0.0.9"}}
		}}, Invalid, "create subnet: Neutron does not accept 10.0.0.0/16 with this gateway, these allocation pools and DHCP"},
		{"the quota of subnets is below what there is", nil, quota(object{"subnet": 0}), []func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16")},
			OverQuota, "create subnet: the project's quota is 0 subnets, and it has 1"},
		{"the quota has no room for one of two subnets", []func(*samplecrdv1.NetworkSpec){withSubnet("more", "10.1.0.0/24")}, quota(object{"subnet": 2}),
			[]func(*samplecrdv1.NetworkSpec){toCIDR("10.0.0.0/16"), func(s *samplecrdv1.NetworkSpec) { s.AdditionalSubnets[0].CIDR = "10.2.0.0/24" }},
			OverQuota, "create subnet: the project's quota is 2 subnets, and it has 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newRoutedCloud(t)
			r := c.declare(test.start...)
			n := r.synced(t)
			clear := func() {}
			if test.obstruct != nil {
				clear = test.obstruct(t, c, r, n)
			}
			noError(t, c.Observer().Relist(t.Context()))
			before, connections := c.inNeutron(t, n.ID), c.Interfaces()
			spec := *r.Spec.DeepCopy()
			for _, change := range test.edit {
				change(&r.Spec)
			}
			for range 3 {
				c.ageNames()
				writes := c.writes()
				err := r.err(t)
				equal(t, test.reason, ReasonOf(err))
				equal(t, test.message, anyID.ReplaceAllString(err.Error(), "ID"))
				equal(t, writes, c.writes())
				equal(t, true, same(before, withRouting(c.inNeutron(t, n.ID), before)))
				equal(t, connections, c.Interfaces())
				noError(t, c.Observer().Relist(t.Context()))
			}
			clear()
			noError(t, c.Observer().Relist(t.Context()))
			if test.obstruct == nil {
				r.Spec = spec // somebody takes it back
				equal(t, before.Subnets[0].ID, r.synced(t).Subnets[0].ID)
				return
			}
			after := r.synced(t)
			equal(t, len(before.Subnets)-strangers(before), len(after.Subnets))
		})
	}
}

// withRouting returns the network with the routers and interfaces of the other one.
func withRouting(n, from *Network) *Network {
	n.Routers, n.Interfaces, n.RoutersKnown = from.Routers, from.Interfaces, from.RoutersKnown
	return n
}

// strangers returns how many subnets of the network are not the owner's.
func strangers(n *Network) (count int) {
	for _, s := range n.Subnets {
		if !owner.marks(s.Description) {
			count++
		}
	}
	return count
}

// The next external network can have addresses that overlap. A member cannot list them, so Neutron is asked.
func TestASubnetStaysAttachedIfTheNextExternalNetworkOverlaps(t *testing.T) {
	t.Parallel()
	for project, name := range map[string]string{"project-1": "visible", "project-2": "hidden"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRoutedCloud(t)
			admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
			external := post(t, admin, "network", object{"name": "next", "router:external": true, "project_id": project})
			post(t, admin, "subnet", object{"network_id": external, "cidr": "10.0.0.128/25", "ip_version": 4, "project_id": project})
			r := c.declare(ownRouterOn(byIDOf(c.public)))
			n := r.synced(t)
			before := c.Interfaces()
			ownRouterOn(byIDOf(external))(&r.Spec)
			for range 3 {
				err := r.err(t)
				equal(t, Invalid, ReasonOf(err))
				if !strings.Contains(err.Error(), "overlaps with") || !strings.Contains(err.Error(), "10.0.0.") {
					t.Errorf("got %v", err)
				}
				equal(t, before, c.Interfaces())
				equal(t, n.Subnets, c.inNeutron(t, n.ID).Subnets)
				noError(t, c.Observer().Relist(t.Context()))
			}
			ownRouterOn(byIDOf(c.public))(&r.Spec)
			r.synced(t)
			equal(t, 1, len(c.own()))
			equal(t, before, c.Interfaces())
		})
	}
}

// Pools that somebody chose stay, and Neutron refuses a gateway that is inside one.
func TestAnImportIsNotDetachedForAGatewayInsideItsPools(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	legacy := legacyOf(t, c.others, "", "10.0.0.0/24")
	put(t, c.others, "subnet", legacy.Subnets[0].ID, object{"allocation_pools": []object{{"start": "10.0.0.5", "end": "10.0.0.20"}}})
	r := c.declare(existingRouter(byName("gate")))
	r.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: legacy.ID}
	_, _, err := r.syncOnce(t, Guard{})
	equal(t, Unrecorded, ReasonOf(err))
	r.Status.Imported = true
	r.synced(t)
	before := c.Interfaces()
	equal(t, 1, len(before))
	r.Spec.Gateway = "10.0.0.9"
	for range 2 {
		err := r.err(t)
		equal(t, Invalid, ReasonOf(err))
		equal(t, "update subnet: gateway 10.0.0.9 is in the allocation pool 10.0.0.5-10.0.0.20 of subnet 10.0.0.0/24", err.Error())
		equal(t, before, c.Interfaces())
	}
}

// A default that Neutron does not let the controller restore holds up nothing that the spec declares.
func TestADefaultThatCannotBeRestoredHoldsUpNothing(t *testing.T) {
	t.Parallel()
	share := func(t *testing.T, c *routedCloud, n *Network) {
		admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
		put(t, admin, "network", n.ID, object{"shared": true})
	}
	for _, test := range []struct {
		name    string
		disturb func(*testing.T, *routedCloud, *Network)
		reason  ErrorReason
		message string
	}{
		{"an administrator shares the network", share, Forbidden, "restore what the spec leaves out: shared set to false: "},
		{"a port has the default gateway", func(t *testing.T, c *routedCloud, n *Network) {
			put(t, c.others, "subnet", n.Subnets[0].ID, object{"gateway_ip": nil})
			put(t, c.others, "subnet", n.Subnets[0].ID, object{"gateway_ip": "10.0.0.9", "allocation_pools": []object{}})
			_, err := c.others.AttachSubnet(t.Context(), c.makeRouter(t, "theirs", ""), n.Subnets[0].ID)
			noError(t, err)
		}, InUse, "restore what the spec leaves out: gateway set to 10.0.0.1: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newRoutedCloud(t)
			r := c.declare()
			n := r.synced(t)
			test.disturb(t, c, n)
			noError(t, c.Observer().Relist(t.Context()))
			r.Spec.MTU, r.Spec.Tags = new(int32(1300)), []samplecrdv1.Tag{"a"}
			r.Spec.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.53"}
			withSubnet("more", "10.1.0.0/24")(&r.Spec)
			for range 2 {
				err := r.err(t)
				equal(t, test.reason, ReasonOf(err))
				if err == nil || !strings.HasPrefix(err.Error(), test.message) {
					t.Errorf("got %v", err)
				}
				noError(t, c.Observer().Relist(t.Context()))
			}
			after := c.inNeutron(t, n.ID)
			equal(t, 1300, after.MTU)
			equal(t, NewTags("a"), after.Tags)
			equal(t, 2, len(after.Subnets))
			equal(t, NewAddresses("192.0.2.53"), after.subnet(n.Subnets[0].ID).DNSNameservers)
		})
	}
}

// What only Neutron can know is told, with what was taken away, and nothing goes back and forth.
func TestARefusalThatNobodyCanForeseeIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byName("gate")))
	r.synced(t)
	c.answer(replyTo(http.MethodPost, subnetsPath, 400, neutronBody("InvalidInput", "no")))
	r.Spec.CIDR = "10.0.0.0/16"
	err := r.err(t)
	equal(t, Invalid, ReasonOf(err))
	equal(t, "create subnet: no; taken away before: subnet 10.0.0.0/24 detached from router ID, subnet 10.0.0.0/24 deleted", anyID.ReplaceAllString(err.Error(), "ID"))
	for range 2 {
		noError(t, c.Observer().Relist(t.Context()))
		calls := c.calls(func() { err = r.err(t) })
		equal(t, "create subnet: no", err.Error())
		equal(t, []string{"POST subnets", "GET networks", "GET subnets", "GET routers", "GET ports"}, calls)
	}
	c.answer(nil)
	r.Spec.CIDR = "10.0.0.0/24"
	equal(t, map[string]string{"10.0.0.0/24": c.gate}, c.attached(t, r.synced(t)))
}

// Without a default that cannot be restored, the rest of the plan is gone through again.
func TestADefaultThatCannotBeRestoredDoesNotHideAnEditThatCannotBeCompleted(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(withSubnet("moved", "10.1.0.0/24"), withSubnet("grows", "10.2.0.0/24"))
	n := r.synced(t)
	moved := n.Subnets[slices.IndexFunc(n.Subnets, func(s Subnet) bool { return s.CIDR == cidr("10.1.0.0/24") })].ID
	put(t, c.others, "subnet", moved, object{"gateway_ip": "10.1.0.254", "allocation_pools": []object{{"start": "10.1.0.10", "end": "10.1.0.20"}}})
	_, err := c.others.AttachSubnet(t.Context(), c.gate, moved)
	noError(t, err)
	post(t, c.others, "subnet", object{"network_id": n.ID, "cidr": "10.2.5.0/24", "ip_version": 4})
	existingRouter(byIDOf(c.makeRouter(t, "other", "")))(&r.Spec)
	noError(t, c.Observer().Relist(t.Context()))
	before := c.inNeutron(t, n.ID)
	r.Spec.CIDR, r.Spec.AdditionalSubnets[1].CIDR = "10.9.0.0/24", "10.2.0.0/16"
	for range 3 {
		err := r.err(t)
		equal(t, Invalid, ReasonOf(err))
		equal(t, "create subnet: 10.2.0.0/16 overlaps with subnet 10.2.5.0/24 (ID) of the network, which is left alone", anyID.ReplaceAllString(err.Error(), "ID"))
		equal(t, before.Subnets, c.inNeutron(t, n.ID).Subnets)
		noError(t, c.Observer().Relist(t.Context()))
	}
}

// Somebody has attached the subnet to the next router, with another address than that of the gateway.
func TestTheNextRouterHasTheSubnetWithAnotherAddress(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	next := c.makeRouter(t, "next", "")
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	port := post(t, c.others, "port", object{"network_id": n.ID, "fixed_ips": []object{{"subnet_id": n.Subnets[0].ID, "ip_address": "10.0.0.77"}}})
	noError(t, c.others.send(t.Context(), http.MethodPut, object{"port_id": port}, &object{}, nil, "routers", next, "add_router_interface"))
	noError(t, c.Observer().Relist(t.Context()))
	existingRouter(byIDOf(next))(&r.Spec)
	r.synced(t)
	equal(t, map[string]string{"10.0.0.0/24": next}, c.attached(t, n))
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

// A quota holds up the whole edit, not only a default that it would restore. A preview says so too.
func TestAPreviewOfADefaultAndAQuota(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byIDOf(c.gate)), withSubnet("more", "10.1.0.0/24"))
	r.Spec.Gateway = "10.0.0.9"
	r.synced(t)
	admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	noError(t, admin.send(t.Context(), http.MethodPut, object{"quota": object{"subnet": 2}}, &object{}, nil, "quotas", "project-1"))
	noError(t, c.Observer().Relist(t.Context()))
	r.Spec.Gateway, r.Spec.AdditionalSubnets[0].CIDR = "", "10.2.0.0/24"
	desired, err := NewDesired(r.Network, owner.Cluster)
	noError(t, err)
	preview, err := c.Preview(t.Context(), NewIdentity(r.Network, owner.Cluster), desired)
	noError(t, err)
	const message = "the project's quota is 2 subnets, and it has 2"
	equal(t, message, preview.Steps[0].Blocked)
	equal(t, "create subnet: "+message, r.err(t).Error())
}

// moveGateway moves the gateway of an attached subnet, as another client does.
func (c *routedCloud) moveGateway(t *testing.T, router, subnet, gateway string) {
	t.Helper()
	noError(t, c.others.DetachSubnet(t.Context(), router, subnet))
	put(t, c.others, "subnet", subnet, object{"gateway_ip": nil})
	put(t, c.others, "subnet", subnet, object{"gateway_ip": gateway, "allocation_pools": []object{}})
	_, err := c.others.AttachSubnet(t.Context(), router, subnet)
	noError(t, err)
	noError(t, c.Observer().Relist(t.Context()))
}

// subnetWith returns the subnet with that CIDR.
func (n *Network) subnetWith(t *testing.T, c string) *Subnet {
	t.Helper()
	i := slices.IndexFunc(n.Subnets, func(s Subnet) bool { return s.CIDR == cidr(c) })
	if i < 0 {
		t.Fatalf("there is no subnet %s", c)
	}
	return &n.Subnets[i]
}

// The default is restored in the middle of the plan.
func TestADefaultThatCannotBeRestoredDoesNotHoldUpAnEditOfAnotherSubnet(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byName("gate")), withSubnet("more", "10.5.0.0/24"))
	more := r.synced(t).subnetWith(t, "10.5.0.0/24")
	c.moveGateway(t, c.gate, more.ID, "10.5.0.9")
	post(t, c.others, "port", object{"network_id": more.NetworkID, "name": "web-0", "fixed_ips": []object{{"subnet_id": more.ID, "ip_address": "10.5.0.1"}}})
	r.Spec.CIDR = "10.1.0.0/24"
	for range 2 {
		err := r.err(t)
		equal(t, "restore what the spec leaves out: gateway set to 10.5.0.1: the address of the gateway, 10.5.0.1, is in use by port web-0 (no device)", err.Error())
		equal(t, map[string]string{"10.1.0.0/24": c.gate, "10.5.0.0/24": c.gate}, c.attached(t, c.inNeutron(t, more.NetworkID)))
	}
}

// The status is written while the subnet is detached. Then its default gateway cannot be restored either.
func TestASubnetMovesWithAGatewayThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	second := c.makeRouter(t, "second", "")
	r := c.declare(existingRouter(byIDOf(c.gate)))
	n := r.synced(t)
	c.moveGateway(t, c.gate, n.Subnets[0].ID, "10.0.0.9")
	port := post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.Subnets[0].ID, "ip_address": "10.0.0.1"}}})
	existingRouter(byIDOf(second))(&r.Spec)
	for range 2 {
		err := r.err(t)
		equal(t, InUse, ReasonOf(err))
		equal(t, "restore what the spec leaves out: gateway set to 10.0.0.1: the address of the gateway, 10.0.0.1, is in use by port web-0 (no device)", err.Error())
		equal(t, map[string]string{"10.0.0.0/24": second}, c.attached(t, n))
	}
	noError(t, c.others.delete(t.Context(), "delete", "ports", port, nil))
	equal(t, "10.0.0.1", r.synced(t).Subnets[0].Gateway.String())
	equal(t, map[string]string{"10.0.0.0/24": second}, c.attached(t, n))
}

// What is no longer declared, and cannot go yet, does not hold up what is.
func TestAPortInAnObsoleteSubnetDoesNotPreventARepair(t *testing.T) {
	t.Parallel()
	for name, start := range everyRouter() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRoutedCloud(t)
			r := c.declare(start, withSubnet("more", "10.5.0.0/24"))
			n := r.synced(t)
			router := r.Status.Router.ID
			post(t, c.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.subnetWith(t, "10.5.0.0/24").ID}}})
			r.Spec.AdditionalSubnets = nil
			equal(t, InUse, ReasonOf(r.err(t)))
			noError(t, c.others.DetachSubnet(t.Context(), router, n.subnetWith(t, "10.0.0.0/24").ID))
			noError(t, c.Observer().Relist(t.Context()))
			desired, err := NewDesired(r.Network, owner.Cluster)
			noError(t, err)
			preview, err := c.Preview(t.Context(), NewIdentity(r.Network, owner.Cluster), desired)
			noError(t, err)
			equal(t, "", preview.Steps[0].Blocked)
			equal(t, "in use by port web-0 (no device)", preview.Steps[1].Blocked)
			err = r.err(t)
			equal(t, "replace subnet 10.5.0.0/24: in use by port web-0 (no device)", err.Error())
			equal(t, map[string]string{"10.0.0.0/24": router, "10.5.0.0/24": router}, c.attached(t, n))
		})
	}
}

// The gateway of an attached subnet was moved by hand, and Neutron does not allow to restore the default: the subnet is not
// detached for that, at no resync. What it allows is restored.
func TestASubnetIsNotDetachedForADefaultThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	for _, isAllowed := range []bool{false, true} {
		c := newRoutedCloud(t)
		r := c.declare(existingRouter(byName("gate")))
		n := r.synced(t)
		c.moveGateway(t, c.gate, n.Subnets[0].ID, "10.0.0.9")
		if isAllowed {
			equal(t, "10.0.0.1", r.synced(t).Subnets[0].Gateway.String())
			continue
		}
		before := c.Interfaces()
		c.answer(replyTo(http.MethodPut, subnetsPath+"/"+n.Subnets[0].ID, http.StatusForbidden, neutronBody("PolicyNotAuthorized", "no")))
		for range 3 {
			_, _, err := r.sync(t)
			equal(t, Forbidden, ReasonOf(err))
			equal(t, before, c.Interfaces())
			noError(t, c.Observer().Relist(t.Context()))
		}
	}
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
				admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
				next := post(t, admin, "network", object{"name": "next", "router:external": true, "project_id": "project-2"})
				post(t, admin, "subnet", object{"network_id": next, "cidr": "10.0.0.128/25", "ip_version": 4, "project_id": "project-2"})
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
