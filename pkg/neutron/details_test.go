// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestNetworkDetails(t *testing.T) {
	l := newLab(t, embedded.Options{Projects: []embedded.Project{{Name: "samplecrd", ID: "project-1", Password: password}, {Name: "admin", ID: "project-2", Password: password, Admin: true}}})
	c := l.client(t)
	admin := newTestClient(t, l.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	create := func(c *Client, body object) Network {
		n, err := c.CreateNetwork(t.Context(), body)
		noError(t, err)
		return n
	}
	web := create(c, object{"name": "web", "admin_state_up": false, "port_security_enabled": false, "availability_zone_hints": []string{"nova"}})
	shared := create(admin, object{"name": "shared", "shared": true})
	made, err := c.CreateSubnet(t.Context(), web.ID, object{"ip_version": 4, "cidr": "10.0.0.0/24", "service_types": []string{"compute:nova"}})
	noError(t, err)
	// An admin's subnet on the network belongs to another project, so that a list of the project lacks it.
	_, err = admin.CreateSubnet(t.Context(), web.ID, object{"ip_version": 4, "cidr": "10.0.1.0/24"})
	noError(t, err)
	router := post(t, c, "router", object{"name": "edge"})
	_, err = c.AttachSubnet(t.Context(), router, made.ID)
	noError(t, err)

	count := 0
	got, err := c.ListNetworkDetails(t.Context(), func(read int) { count = read })
	noError(t, err)
	if len(got) != 1 || count != 1 {
		t.Fatalf("got %d networks, counted %d", len(got), count)
	}
	n := got[0]
	equal(t, []any{web.ID, "project-1", adminDown(true), ptr.To(false), NewTags("nova"), Length(2)}, []any{n.ID, n.Project, n.AdminDown, n.PortSecurity, n.ZoneHints, n.SubnetCount})
	equal(t, []string{"compute:nova"}, n.SubnetDetails[made.ID].ServiceTypes)
	if len(n.Routers) != 1 || n.Routers[0].Name != "edge" || len(n.Interfaces) != 1 || n.Interfaces[0].SubnetID != made.ID {
		t.Errorf("got the routers %+v, and the interfaces %+v", n.Routers, n.Interfaces)
	}

	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		equal(t, r.URL.Path != networksPath, r.URL.Query().Get("network_id")+r.URL.Query().Get("object_id") == shared.ID) // it lists nothing of other networks
		return false
	})
	one, err := c.GetNetworkDetails(t.Context(), shared.ID)
	noError(t, err)
	equal(t, []any{shared.ID, "project-2", ptr.To(true)}, []any{one.ID, one.Project, one.PortSecurity})
	if none, err := c.GetNetworkDetails(t.Context(), "3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11"); none != nil || err != nil {
		t.Errorf("got %+v, %v", none, err)
	}
}

func TestDetailsOfManyNetworksTakeFewRequests(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	makeNetworks(t, c, 70)
	before := len(l.requests())
	_, err := c.ListNetworkDetails(t.Context(), func(int) {})
	noError(t, err)
	if requests := l.requests()[before:]; len(requests) > 5 {
		t.Errorf("%d requests: %s", len(requests), requests)
	}
}

func TestAttributesThatTheCloudDoesNotHave(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	l.answer(replyTo(http.MethodGet, networksPath, http.StatusOK, `{"networks":[{"id":"a","name":"web","qos_policy_id":null,"vlan_transparent":null,"segments":[{},{}]}]}`))
	got, err := c.listDetails(t.Context(), nil, func(int) {})
	noError(t, err)
	n := got[0]
	if n.PortSecurity != nil || bool(n.AdminDown) || n.VLANTransparent != nil || n.QoSPolicy != "" || n.Segments != 2 {
		t.Errorf("got %+v", n)
	}
}

func TestTheElementsOfTexts(t *testing.T) {
	equal(t, []string{"a", "b, c"}, NewTags("b, c", "a").All())
	equal(t, []string{"192.0.2.2", "192.0.2.1"}, NewAddresses("192.0.2.2", "192.0.2.1").All())
	equal(t, []string{"10.0.0.2-10.0.0.3"}, Pools("10.0.0.2-10.0.0.3").All())
	equal(t, []Route{{"10.9.0.0/16", "10.0.0.2"}}, Routes("10.9.0.0/16 via 10.0.0.2").All())
	if got := slices.Concat(Tags("").All(), Addresses("").All(), Pools("").All()); len(got) > 0 || len(Routes("").All()) > 0 {
		t.Error(fmt.Sprint("empty ones have the elements ", got))
	}
}
