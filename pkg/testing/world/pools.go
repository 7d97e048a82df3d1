// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// The subnet pools of a World with CreatePools.
const (
	team     = "team"
	teamCIDR = "10.20.0.0/16"
	others   = "others"
	teamV6   = "team-v6"
	small    = "small" // with room for one /24
)

// CreatePools creates subnet pools of the project.
func (w *World) CreatePools() {
	w.t.Helper()
	for name, prefix := range map[string]string{team: teamCIDR, others: "10.21.0.0/16", teamV6: "fd20::/48", small: "10.22.0.0/24"} {
		w.name(name, w.createObject(w.Client, "subnetpool", map[string]any{"name": name, "prefixes": []string{prefix}}))
	}
}

// IsPooled reports whether the Network has a subnet from a pool at any time.
func (s Scenario) IsPooled() bool { return slices.ContainsFunc(s.specs(), isPooled) }

func isPooled(spec *samplecrdv1.NetworkSpec) bool {
	return slices.ContainsFunc(meaning.SubnetsOf(spec), func(s samplecrdv1.AdditionalSubnet) bool { return s.SubnetPool != nil })
}

// chosen returns a copy of the spec with the CIDRs that Neutron has chosen, by the names of the subnets there.
func (w *World) chosen(n *samplecrdv1.Network, spec *samplecrdv1.NetworkSpec) *samplecrdv1.NetworkSpec {
	w.t.Helper()
	spec = spec.DeepCopy()
	choose := func(label string, s *samplecrdv1.SubnetSpec) {
		if s.SubnetPool == nil {
			return
		}
		name := strings.TrimSuffix(n.Namespace+"/"+n.Name+"/"+label, "/")
		pool, length := w.ids[s.SubnetPool.Name], int(s.SubnetPool.PrefixLength)
		cidr := meaning.AnyCIDR(false, length) // no subnet has that
		for _, observed := range w.subnetsNamed(n.Status.NetworkID, name) {
			if observed.Pool == pool && strings.HasSuffix(observed.CIDR, fmt.Sprint("/", length)) {
				cidr = observed.CIDR
			}
		}
		meaning.Choose(s, cidr)
	}
	choose("", &spec.SubnetSpec)
	for i := range spec.AdditionalSubnets {
		choose(spec.AdditionalSubnets[i].Name, &spec.AdditionalSubnets[i].SubnetSpec)
	}
	return spec
}

type pooledSubnet struct {
	CIDR string
	Pool string `json:"subnetpool_id"`
}

func (w *World) subnetsNamed(network, name string) []pooledSubnet {
	w.t.Helper()
	var list struct{ Subnets []pooledSubnet }
	w.send(w.Client, http.MethodGet, "subnets?network_id="+network+"&name="+name, nil, &list)
	return list.Subnets
}

// takeGateway takes the gateway of the subnet away, as a user does.
func (w *World) takeGateway(subnet string) {
	w.t.Helper()
	w.send(w.Client, http.MethodPut, "subnets/"+subnet, map[string]any{"subnet": map[string]any{"gateway_ip": nil}}, nil)
}

// from returns a change of a spec: its CIDR is from the pool.
func from(pool string, length int32) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.CIDR, s.SubnetPool = "", poolReference(pool, length)
	}
}

// fromID is from by the pool's ID.
func fromID(pool string, length int32) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.CIDR, s.SubnetPool = "", &samplecrdv1.SubnetPoolSpec{NeutronReference: samplecrdv1.NeutronReference{ID: pool}, PrefixLength: length}
	}
}

// another returns a change of a spec: there is one more subnet, from the pool.
func another(label, pool string, length int32) func(*samplecrdv1.NetworkSpec) {
	return func(s *samplecrdv1.NetworkSpec) {
		s.AdditionalSubnets = append(s.AdditionalSubnets, samplecrdv1.AdditionalSubnet{Name: label, SubnetSpec: samplecrdv1.SubnetSpec{SubnetPool: poolReference(pool, length)}})
	}
}

func poolReference(name string, length int32) *samplecrdv1.SubnetPoolSpec {
	return &samplecrdv1.SubnetPoolSpec{NeutronReference: samplecrdv1.NeutronReference{Name: name}, PrefixLength: length}
}

// pooledScenarios have subnets from subnet pools.
var pooledScenarios = []Scenario{
	create("create with a range from a subnet pool", with(from(team, 24))),
	create("create with two ranges from a subnet pool, and IPv6", with(own(public), from(team, 24), another("b", team, 24), another("v6", teamV6, 64))),
	edit("another prefix length, with an own router", with(own(public), from(team, 24)), with(own(public), from(team, 25))),
	edit("another subnet pool, with an own router", with(own(public), from(team, 24)), with(own(public), from(others, 24))),
	edit("a subnet pool in place of a CIDR", with(), with(from(team, 24))),
	edit("a CIDR in place of a subnet pool", with(from(team, 24)), with()),
	edit("the CIDR from a subnet pool, declared", with(from(team, 24)), spec("10.20.0.0/24", "")),
	edit("one range fewer from the same subnet pool", with(from(team, 24), another("b", team, 24)), with(from(team, 24))),
	{"subnet from a subnet pool vanished", with(from(team, 24), another("b", team, 24)),
		once(func(w *World) { w.DeleteInNeutron("subnets", w.Find().Status.SubnetID) }), with(from(team, 24), another("b", team, 24))},
	{"gateway of a subnet from a subnet pool removed in Neutron", with(from(team, 24)),
		once(func(w *World) { w.takeGateway(w.Find().Status.SubnetID) }), with(from(team, 24))},
	{subnetFromPoolUnmarked, with(from(team, 24)), once(func(w *World) { w.UnmarkSubnet(w.Find().Status.SubnetID) }), with(from(team, 24))},
	{deletedPooled, with(from(team, 24)), kubectlDelete, nil},
}

const (
	subnetFromPoolUnmarked = "the mark of a subnet from a subnet pool removed in Neutron"
	deletedPooled          = "delete with a range from a subnet pool"
)
