// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"slices"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// withPooled returns an edit of a spec: there is one more subnet, from the pool.
func withPooled(label, pool string, length int32) edit {
	return func(s *samplecrdv1.NetworkSpec) {
		var spec samplecrdv1.NetworkSpec
		pooled(byName(pool), length)(&spec)
		s.AdditionalSubnets = append(s.AdditionalSubnets, samplecrdv1.AdditionalSubnet{Name: label, SubnetSpec: spec.SubnetSpec})
	}
}

// The order and the labels of subnets from one pool change. No range is lost, and none is taken.
func TestTheLabelsOfSubnetsFromAPool(t *testing.T) {
	additional := func(change func([]samplecrdv1.AdditionalSubnet)) edit {
		return func(s *samplecrdv1.NetworkSpec) { change(s.AdditionalSubnets) }
	}
	swapNames := func(a []samplecrdv1.AdditionalSubnet) { a[0].Name, a[1].Name = a[1].Name, a[0].Name }
	for _, test := range []struct {
		name string
		edit edit
	}{
		{"another order", additional(slices.Reverse[[]samplecrdv1.AdditionalSubnet])},
		{"one is renamed", additional(func(a []samplecrdv1.AdditionalSubnet) { a[0].Name = "d" })},
		{"the names are swapped", additional(swapNames)},
		{"the lengths are swapped", additional(func(a []samplecrdv1.AdditionalSubnet) {
			a[2].SubnetPool.PrefixLength, a[0].SubnetPool.PrefixLength = 24, 25
		})},
	} {
		for _, isBackup := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				c := newRoutedCloud(t)
				c.pool(t, "team", "10.20.0.0/16")
				r := c.declare(pooled(byName("team"), 24), withPooled("b", "team", 24), withPooled("c", "team", 24), withPooled("e", "team", 25))
				r.Spec.AdditionalSubnets[1].Gateway = samplecrdv1.GatewayNone
				before := cidrsIn(r.synced(t))
				if isBackup {
					r.Status = samplecrdv1.NetworkStatus{}
				}
				test.edit(&r.Spec)
				var after []string
				calls := c.calls(func() { after = cidrsIn(r.synced(t)) })
				equal(t, before, after)
				equal(t, false, slices.Contains(calls, "POST subnets"))
				equal(t, []string(nil), c.calls(func() { r.synced(t) }))
			})
		}
	}
}
