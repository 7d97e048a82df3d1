// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"encoding/json"
	"net/netip"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// fromPool returns a change of a desired state: the subnet with that label is one of this length from a pool. The pool with the ID ""
// is not resolved.
func fromPool(label, pool string, length int32) func(*View) {
	return func(v *View) {
		s := DesiredSubnet{Label: label, SubnetPool: &DesiredSubnetPool{
			Spec:       samplecrdv1.SubnetPoolSpec{NeutronReference: samplecrdv1.NeutronReference{Name: "team"}, PrefixLength: length},
			SubnetPool: SubnetPool{ID: pool, Name: "team", Version: 4, Min: "8", Max: "32"},
		}}
		if label == "" {
			v.Subnets[0] = s
		} else {
			v.Subnets = append(v.Subnets, s)
		}
	}
}

// recordedAs says which subnet the status has for the label.
func recordedAs(label, id string) func(*View) {
	return func(v *View) {
		if v.Recorded == nil {
			v.Recorded = map[string]string{}
		}
		v.Recorded[label], v.SubnetIDs = id, append(v.SubnetIDs, id)
	}
}

// from returns the subnet as one from the pool.
func from(pool string, s Subnet) Subnet {
	s.PoolID = pool
	return s
}

func TestNextForSubnetPools(t *testing.T) {
	type changes = []func(*View)
	wanting := func(changes []func(*View)) View { return wants("10.9.0.0/24", "", changes...) }
	creating := func(label, pool string, length int32, replaces ...string) CreateSubnet {
		v := wanting(changes{fromPool("", pool, length), fromPool("b", pool, length)})
		s := v.Subnets[0]
		if label != "" {
			s = v.Subnets[1]
		}
		return CreateSubnet{Subnet: s, Replaces: replaces}
	}
	a, b := from("p", ours("a", "10.0.0.0/24", "10.0.0.1")), from("p", withName(testName+"/b", ours("b", "10.0.1.0/24", "10.0.1.1")))
	other := from("q", ours("o", "10.5.0.0/24", "10.5.0.1"))
	stranger := described("another client's", from("q", ours("s", "10.6.0.0/24", "10.6.0.1")))
	isImport := func(v *View) { v.Import, v.Imported = "n", true }
	for _, test := range []struct {
		name    string
		want    changes
		have    []Subnet
		step    Step
		current map[string]string // the labels of the subnets in the status
	}{
		{"there is none", changes{fromPool("", "p", 24)}, nil, creating("", "p", 24), nil},
		{"there is one", changes{fromPool("", "p", 24)}, []Subnet{a}, nil, map[string]string{"a": ""}},
		{"the CIDR is not compared with the one that the status had", changes{fromPool("", "p", 24), recordedAs("", "x")}, []Subnet{a}, nil, map[string]string{"a": ""}},
		{"one of two", changes{fromPool("", "p", 24), fromPool("b", "p", 24)}, []Subnet{a}, creating("b", "p", 24), map[string]string{"a": ""}},
		{"two", changes{fromPool("", "p", 24), fromPool("b", "p", 24)}, []Subnet{a, b}, nil, map[string]string{"a": "", "b": "b"}},
		{"the status says which one", changes{fromPool("", "p", 24), fromPool("b", "p", 24), recordedAs("", "b"), recordedAs("b", "a")}, []Subnet{a, b},
			renamingSubnet("b", testName), map[string]string{"a": "b", "b": ""}},
		{"two without their names", changes{fromPool("", "p", 24), fromPool("b", "p", 24)}, []Subnet{withName("x", a), withName("y", b)},
			renamingSubnet("a", testName), map[string]string{"a": "", "b": "b"}},
		{"a lost answer has left one more", changes{fromPool("", "p", 24), recordedAs("", "b")}, []Subnet{a, withName(testName, b)},
			DeleteSubnet{ID: "a", CIDR: a.CIDR, PoolID: "p"}, map[string]string{"a": "", "b": ""}},
		{"without its mark", changes{fromPool("", "p", 24), recordedAs("", "a")}, []Subnet{described("", a)},
			UpdateSubnet{ID: "a", Changes: []Change{toMark("subnet mark")}}, map[string]string{"a": ""}},
		{"with another gateway", changes{fromPool("", "p", 24)}, []Subnet{from("p", ours("a", "10.0.0.0/24", "10.0.0.9"))},
			UpdateSubnet{ID: "a", Changes: toDefaultGateway("10.0.0.1", "10.0.0.2-10.0.0.254")}, map[string]string{"a": ""}},
		{"a longer prefix", changes{fromPool("", "p", 25)}, []Subnet{a}, creating("", "p", 25, "a"), map[string]string{"a": ""}},
		{"another pool: Neutron refuses it beside the old one", changes{fromPool("", "p", 24)}, []Subnet{other},
			DeleteSubnet{ID: "o", CIDR: other.CIDR, PoolID: "q"}, map[string]string{"o": ""}},
		{"another pool that refuses the length", changes{fromPool("", "p", 33)}, []Subnet{other}, creating("", "p", 33, "o"), map[string]string{"o": ""}},
		{"a pool in place of a CIDR", changes{fromPool("", "p", 24)}, []Subnet{ours("c", "10.9.0.0/24", "10.9.0.1")},
			DeleteSubnet{ID: "c", CIDR: cidr("10.9.0.0/24")}, map[string]string{"c": ""}},
		{"a pool in place of an IPv6 CIDR", changes{fromPool("", "p", 24)}, []Subnet{ours("c", "fd00:1::/64", "fd00:1::1")}, creating("", "p", 24, "c"), map[string]string{"c": ""}},
		{"another CIDR in place of a pool", nil, []Subnet{a}, DeleteSubnet{ID: "a", CIDR: a.CIDR, PoolID: "p"}, map[string]string{"a": ""}},
		{"the same CIDR in place of a pool", nil, []Subnet{from("p", ours("a", "10.9.0.0/24", "10.9.0.1"))}, nil, map[string]string{"a": ""}},
		{"a subnet that is declared by its CIDR is no other's", changes{fromPool("b", "p", 24)}, []Subnet{from("p", ours("a", "10.9.0.0/24", "10.9.0.1"))},
			creating("b", "p", 24), map[string]string{"a": ""}},
		{"a stranger's from another pool", changes{fromPool("", "p", 24)}, []Subnet{stranger}, creating("", "p", 24), nil},

		{"the name leads to none, and there is one", changes{fromPool("", "", 24), recordedAs("", "a")}, []Subnet{a}, nil, map[string]string{"a": ""}},
		{"the name leads to none, and there is none", changes{fromPool("", "", 24)}, nil, nil, nil},
		{"the name leads to none, and there is another one", changes{fromPool("", "", 25), recordedAs("", "a")}, []Subnet{a}, nil, map[string]string{"a": ""}},
		{"the name of one leads to none", changes{fromPool("b", "", 24), recordedAs("b", "b")}, []Subnet{b}, creates("10.9.0.0/24", ""), map[string]string{"b": "b"}},

		{"an import has one that was found", changes{isImport, fromPool("", "p", 24)}, []Subnet{described("", a)}, creating("", "p", 24), nil},
		{"an import has one whose mark was removed", changes{isImport, fromPool("", "p", 24), recordedAs("", "a")}, []Subnet{described("", a)}, nil, map[string]string{"a": ""}},
		{"an import has one", changes{isImport, fromPool("", "p", 24)}, []Subnet{described("", other), a}, nil, map[string]string{"a": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := at(wanting(test.want), has(test.have...))
			if v.Import != "" {
				v.Network, v.Observed.Description, v.Observed.Tags = DesiredNetwork{}, "", NewTags(owner.ImportTag())
			}
			equal(t, test.step, v.Next())
			var current map[string]string
			for _, s := range v.Current() {
				if current == nil {
					current = map[string]string{}
				}
				current[s.ID] = s.Label
			}
			equal(t, test.current, current)
		})
	}
}

// planTexts returns the whole plan as users see it.
func planTexts(v View) (texts []string) {
	for _, s := range describePlan(v.Plan(), v.Observed) {
		texts = append(texts, s.Text)
	}
	return texts
}

// What does not depend on the pool is done meanwhile.
func TestTheRouterOfASubnetWithoutItsPool(t *testing.T) {
	v := wants("10.9.0.0/24", "", fromPool("b", "", 24))
	v.Router, v.Routed, v.RouterRecorded = &DesiredRouter{Existing: "r"}, true, true
	v.Observed = has(ours("a", "10.9.0.0/24", "10.9.0.1"))
	v.Observed.RoutersKnown = true
	equal(t, []string{"subnet 10.9.0.0/24 attached to router r"}, planTexts(v))
}

// A plan knows no CIDR before Neutron has chosen it, and says so.
func TestThePlanOfASubnetFromAPool(t *testing.T) {
	v := wants("10.9.0.0/24", "", fromPool("", "p", 24), fromPool("b", "p", 24))
	v.Router, v.Routed, v.RouterRecorded = &DesiredRouter{Existing: "r"}, true, true
	v.Observed = has(from("q", ours("o", "10.5.0.0/24", "10.5.0.1")))
	v.Observed.RoutersKnown = true
	equal(t, []string{
		"subnet 10.5.0.0/24 replaced by /24 from subnet pool team (Neutron will choose its CIDR), which Neutron refuses beside the old subnet: both have to be from one subnet pool, or from none",
		"subnet /24 from subnet pool team (Neutron will choose its CIDR) created",
		"subnet /24 from subnet pool team (Neutron will choose its CIDR) created",
		"subnet /24 from the subnet pool attached to router r",
		"subnet /24 from the subnet pool attached to router r",
	}, planTexts(v))
}

func TestWhatAPoolRefuses(t *testing.T) {
	for _, test := range []struct {
		length   int32
		min, max json.Number
		prefixes []netip.Prefix
		want     string
	}{
		{24, "8", "32", nil, ""},
		{24, "24", "24", nil, ""},
		{23, "24", "28", nil, "the prefix length 23 is less than 24, the least that subnet pool team allows"},
		{29, "24", "28", nil, "the prefix length 29 is more than 28, the most that subnet pool team allows"},
		{29, "", "", nil, ""}, // Neutron decides
		{24, "8", "32", []netip.Prefix{cidr("10.1.0.0/25"), cidr("10.2.0.0/24")}, ""},
		{24, "8", "32", []netip.Prefix{cidr("10.1.0.0/25"), cidr("10.2.0.0/25")}, "no prefix of subnet pool team is as large as /24"},
	} {
		v := wants("10.9.0.0/24", "", fromPool("", "p", test.length))
		pool := v.Subnets[0].SubnetPool
		pool.Min, pool.Max, pool.Prefixes = test.min, test.max, test.prefixes
		equal(t, test.want, pool.refusal())
		equal(t, test.want != "", isRefused(&v.Subnets[0]))
	}
}
