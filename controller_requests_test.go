// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// What an edit costs that can be completed: all requests to Neutron, in order, reads too, and the writes of
// the status. The cache is up to date, and nobody else does anything. The lists are those before the first
// step that takes something away: of what can be in the way.
func TestTheRequestsOfAnEdit(t *testing.T) {
	for _, edit := range world.Edits {
		t.Run(edit.Name, func(t *testing.T) {
			f := newFixture(t)
			f.CreateProtected()
			f.CreateRouting()
			f.Create(*edit.Start)
			must(t, f.settle(nothing))
			f.relist()
			f.TakeJournal()
			edit.Act(f.World)
			var requests []string
			statuses := 0
			for range 8 {
				f.refresh()
				err := f.quietSync()
				journal := f.TakeJournal()
				statuses += len(slices.DeleteFunc(slices.Clone(journal), func(r string) bool { return !strings.HasPrefix(r, "patch ") }))
				requests = append(requests, slices.DeleteFunc(journal, func(r string) bool { return strings.HasSuffix(r, "networks/status") || r == "get networks" })...)
				if err == nil && len(journal) == 0 {
					break
				}
			}
			want := requestsOf[edit.Name]
			if diff := gocmp.Diff(strings.Split(want.requests, ", "), requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if statuses != want.statuses {
				t.Errorf("%d writes of the status, want %d", statuses, want.statuses)
			}
			for _, violation := range f.Check(edit.Want) {
				t.Error(violation)
			}
		})
	}
}

// requestsOf has the number of writes of the status, and the requests to Neutron, of each of world.Edits.
var requestsOf = map[string]struct {
	statuses int
	requests string
}{
	"CIDR grows":                               {1, "GET quotas/ID/details.json, GET subnets, GET networks/ID, GET ports, DELETE subnets/ID, POST subnets"},
	"CIDR grows, with an own router":           {1, "GET ports, GET quotas/ID/details.json, GET subnets, GET networks/ID, GET ports, GET subnets, GET floatingips, PUT routers/ID/remove_router_interface, GET ports, DELETE subnets/ID, POST subnets, PUT routers/ID/add_router_interface"},
	"CIDR grows, at an existing router":        {1, "GET ports, GET quotas/ID/details.json, GET subnets, GET networks/ID, GET routers/ID, GET ports, GET subnets, GET subnets, GET floatingips, PUT routers/ID/remove_router_interface, GET ports, DELETE subnets/ID, POST subnets, PUT routers/ID/add_router_interface"},
	"another CIDR":                             {1, "GET ports, POST subnets, GET ports, DELETE subnets/ID"},
	"another CIDR, with an own router":         {1, "GET subnets, GET ports, GET subnets, GET routers/ID, GET ports, GET floatingips, POST subnets, PUT routers/ID/add_router_interface, GET ports, GET floatingips, PUT routers/ID/remove_router_interface, GET ports, DELETE subnets/ID"},
	"another CIDR, at an existing router":      {1, "GET subnets, GET routers/ID, GET ports, GET subnets, GET subnets, GET ports, GET floatingips, POST subnets, PUT routers/ID/add_router_interface, GET ports, GET floatingips, PUT routers/ID/remove_router_interface, GET ports, DELETE subnets/ID"},
	"another existing router":                  {2, "GET subnets, GET routers/ID, GET ports, GET floatingips, PUT routers/ID/remove_router_interface, PUT routers/ID/add_router_interface"},
	"an existing router instead of an own one": {2, "GET subnets, GET routers/ID, GET ports, GET subnets, GET subnets, GET floatingips, PUT routers/ID/add_router_interface, PUT routers/ID/remove_router_interface, PUT routers/ID/add_router_interface, GET routers/ID, DELETE routers/ID"},
	"another external network":                 {1, "GET routers/ID, GET floatingips, GET subnets, GET subnets, POST routers, GET subnets, GET ports, GET subnets, GET floatingips, PUT routers/ID/add_router_interface, PUT routers/ID/remove_router_interface, PUT routers/ID/add_router_interface, GET routers/ID, DELETE routers/ID"},
	"the router goes":                          {1, "GET floatingips, PUT routers/ID/remove_router_interface, GET routers/ID, DELETE routers/ID"},
	"gateway moves":                            {1, "PUT subnets/ID"},
	"gateway moves, with an own router":        {1, "GET subnets, GET ports, GET ports, GET subnets, GET floatingips, PUT routers/ID/remove_router_interface, PUT subnets/ID, PUT routers/ID/add_router_interface"},
	"gateway moves, at an existing router":     {1, "GET subnets, GET ports, GET routers/ID, GET ports, GET subnets, GET subnets, GET floatingips, PUT routers/ID/remove_router_interface, PUT subnets/ID, PUT routers/ID/add_router_interface"},
	"a subnet is added":                        {1, "POST subnets, PUT routers/ID/add_router_interface"},
	"a subnet goes":                            {1, "GET ports, GET floatingips, PUT routers/ID/remove_router_interface, GET ports, DELETE subnets/ID"},
}
