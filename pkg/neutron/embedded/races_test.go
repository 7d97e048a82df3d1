// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOneOfConcurrentRequestsSucceeds(t *testing.T) {
	c := newClient(t)
	network := c.network()
	router, subnet := c.router(), c.subnet(c.network(), "10.0.0.0/24")
	for _, tc := range []struct {
		name              string
		send              func(i int) (reply, error)
		succeeds, refused int
	}{
		{"changes of one revision", func(i int) (reply, error) {
			return c.try("PUT", neutronV2+"networks/"+network, fmt.Sprintf(`{"network":{"name":"%d"}}`, i), "If-Match: revision_number=1")
		}, 200, 412},
		{"subnets that overlap", func(i int) (reply, error) {
			return c.try("POST", neutronV2+"subnets", fmt.Sprintf(`{"subnet":{"network_id":%q,"ip_version":4,"cidr":"10.0.0.0/%d"}}`, network, 16+i))
		}, 201, 400},
		{"interfaces in one subnet", func(int) (reply, error) {
			return c.try("PUT", neutronV2+"routers/"+router+"/add_router_interface", bySubnet(subnet))
		}, 200, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			statuses := make(chan int, 8)
			for i := range cap(statuses) {
				go func() {
					r, _ := tc.send(i)
					statuses <- r.status
				}()
			}
			count := map[int]int{}
			for range cap(statuses) {
				count[<-statuses]++
			}
			if diff := cmp.Diff(map[int]int{tc.succeeds: 1, tc.refused: cap(statuses) - 1}, count); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A subnet whose creation succeeded must exist as long as its network, and be deleted with
// it.
func TestSubnetCreatesThatRaceTheDeleteOfTheirNetworkLeaveNothing(t *testing.T) {
	c := newClient(t)
	for range 20 {
		id := c.network()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				r, _ := c.try("POST", neutronV2+"subnets", fmt.Sprintf(`{"subnet":{"network_id":%q,"ip_version":4,"cidr":"10.%d.0.0/16"}}`, id, i))
				if r.status != 201 && r.status != 404 {
					t.Errorf("create: %d %s", r.status, r.raw)
				}
			})
		}
		wg.Go(func() {
			if r, _ := c.try("DELETE", neutronV2+"networks/"+id, ""); r.status != 204 {
				t.Errorf("delete: %d %s", r.status, r.raw)
			}
		})
		wg.Wait()
	}
	c.api("GET", "subnets", "").lacks(t, "cidr")
}

// As two workers of the real Neutron do with one request that is sent twice.
func TestARequestTakesEffectTwice(t *testing.T) {
	c := newClient(t)
	network := c.network()
	c.s.SetFault(func(*http.Request) *Fault { return &Fault{Twice: true} })
	c.subnet(network, "10.1.0.0/24")
	first := c.subnet(network, "10.0.0.0/24")
	c.s.SetFault(nil)
	body := fmt.Sprintf(`{"subnet":{"network_id":%q,"ip_version":4,"cidr":"10.0.0.0/24"}}`, network)
	c.api("POST", "subnets", body).want(t, 400)
	cidrs := strings.Count(string(c.api("GET", "subnets?fields=cidr", "").raw), `"10.`)
	if cidrs != 3 {
		t.Errorf("there are %d subnets, want two of one CIDR, and the one before them", cidrs)
	}

	router := c.router()
	c.s.SetFault(func(*http.Request) *Fault { return &Fault{Twice: true} })
	c.attach(router, first)
	c.api("DELETE", "subnets/"+first, "").want(t, 409)
	if n := len(c.s.Interfaces()); n != 1 {
		t.Errorf("Neutron refuses the second interface, and there are %d", n)
	}
}
