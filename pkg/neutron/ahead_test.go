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
	"strings"
	"testing"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// An administrator can make a subnet for another project on the network. The credentials do not see it, and Neutron
// refuses what overlaps with it: nothing is taken away for that.
func TestAHiddenSubnetPreventsAReplacement(t *testing.T) {
	t.Parallel()
	c := newRoutedCloud(t)
	r := c.declare()
	n := r.synced(t)
	admin := newTestClient(t, c.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	hidden := post(t, admin, "subnet", object{"network_id": n.ID, "cidr": "10.0.5.0/24", "ip_version": 4, "project_id": "project-2"})
	r.Spec.CIDR = "10.0.0.0/16"
	for range 2 {
		writes := c.writes()
		wantError(t, Error{Op: "create subnet", Reason: Invalid, Message: "10.0.0.0/16 can overlap with subnet " + hidden +
			" of the network, which belongs to another project and is not visible: an administrator has to delete it"}, r.err(t))
		equal(t, writes, c.writes())
		noError(t, c.Observer().Relist(t.Context()))
	}
	noError(t, admin.DeleteSubnet(t.Context(), hidden, nil))
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
	noError(t, c.others.DetachSubnet(t.Context(), c.gate, subnet))
	put(t, c.others, "subnet", subnet, object{"gateway_ip": "10.0.0.9", "allocation_pools": []object{}})
	_, err := c.others.AttachSubnet(t.Context(), c.gate, subnet)
	noError(t, err)
	before := c.Interfaces()
	c.answer(replyTo(http.MethodPut, subnetsPath+"/"+subnet, http.StatusForbidden, neutronBody("PolicyNotAuthorized", "no")))
	for range 3 {
		noError(t, c.Observer().Relist(t.Context()))
		equal(t, Forbidden, ReasonOf(r.err(t)))
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
