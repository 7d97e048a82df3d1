// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// longAgo is the transition time of the conditions in the tests' Networks.
var longAgo = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 2, LastTransitionTime: longAgo}
}

func ready() metav1.Condition {
	return condition("Ready", "True", "Available", "Neutron matches the spec")
}

// newNetwork returns a Network of generation 2 with all fields of the status set.
func newNetwork(conditions ...metav1.Condition) *samplecrdv1.Network {
	return &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", ResourceVersion: "41", Generation: 2},
		Status: samplecrdv1.NetworkStatus{
			ObservedGeneration: 2, NetworkID: "n", SubnetID: "s", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", Cloud: "test", MTU: 1450,
			Subnets:    []samplecrdv1.SubnetStatus{{ID: "s", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1"}},
			Conditions: conditions,
		},
	}
}

func haveNetwork() *neutron.Observed {
	return &neutron.Observed{Network: neutron.Network{ID: "n", MTU: 1450}}
}

// haveSubnets returns the subnet of spec.cidr.
func haveSubnets(gateway string) []neutron.CurrentSubnet {
	return []neutron.CurrentSubnet{haveSubnet("", "s", "10.0.0.0/24", gateway, "")}
}

func haveSubnet(label, id, cidr, gateway, port string) neutron.CurrentSubnet {
	s := &neutron.Subnet{ID: id, CIDR: netip.MustParsePrefix(cidr)}
	if gateway != "" {
		s.Gateway = netip.MustParseAddr(gateway)
	}
	return neutron.CurrentSubnet{Label: label, Subnet: s, RouterPortID: port}
}

func neutronError(kind neutron.ErrorReason) error {
	return &neutron.Error{Op: "create subnet", Reason: kind, Message: "Neutron's own words"}
}

func equal(t *testing.T, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var whenever = cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")

func TestTheConditionsHaveTheGenerationThatWasSynced(t *testing.T) {
	for _, err := range []error{nil, neutronError(neutron.Invalid), neutronError(neutron.Unavailable)} {
		network := newNetwork(ready())
		network.Generation = 3
		got := Compute(network, Outcome{Observation: Observation{Observed: haveNetwork()}, Err: err})
		equal(t, int64(3), got.ObservedGeneration)
		for _, c := range got.Conditions {
			equal(t, int64(3), c.ObservedGeneration)
		}
	}
}

// TestTheMessageOfAnUnavailableNeutron goes through a sequence of syncs. Each sees an error, since
// when there has been no good answer, and whether that is an outage.
func TestTheMessageOfAnUnavailableNeutron(t *testing.T) {
	type sync struct {
		at      time.Duration // since the beginning
		away    time.Duration // since the beginning; -1: the last answer was good
		outage  bool
		err     string // "": none
		message string // "": as before
	}
	const second, good = time.Second, -1
	since := func(after time.Duration, err string) string {
		return "Neutron has not been available since " + longAgo.Add(after).Format(time.RFC3339) + ": op: " + err
	}
	for _, test := range []struct {
		name   string
		before metav1.Condition
		syncs  []sync
	}{
		{"one request fails for ever, and all others succeed: one write", ready(), []sync{
			{1 * second, good, false, "500", "op: 500"},
			{2 * second, good, false, "500", ""},
			{9 * second, 9 * second, false, "500", ""},
			{99 * second, 99 * second, false, "500", ""},
		}},
		{"the error is another", ready(), []sync{
			{1 * second, 1 * second, false, "500", "op: 500"},
			{9 * second, 9 * second, false, "502", "op: 502"},
			{19 * second, good, false, "500", "op: 500"},
		}},
		{"an outage that is seen from its first failure on: one write", ready(), []sync{
			{1 * second, 1 * second, false, "refused", "op: refused"},
			{2 * second, 1 * second, false, "no answer", ""},
			{3 * second, 1 * second, true, "503", ""},
			{99 * second, 1 * second, true, "refused", ""},
		}},
		{"the first failure is a fraction of a second old: conditions have none", ready(), []sync{
			{1800 * time.Millisecond, 1500 * time.Millisecond, false, "refused", "op: refused"},
			{2 * second, 1500 * time.Millisecond, false, "no answer", ""},
		}},
		{"an outage that is seen when it is one: one write", ready(), []sync{
			{9 * second, 1 * second, true, "refused", since(1*second, "refused")},
			{10 * second, 1 * second, true, "no answer", ""},
			{99 * second, 1 * second, true, "503", ""},
		}},
		{"one request fails for ever, also during outages", ready(), []sync{
			{1 * second, good, false, "500", "op: 500"},
			{20 * second, 10 * second, true, "500", ""},
			{30 * second, good, false, "500", ""},
		}},
		{"another outage", ready(), []sync{
			{9 * second, 1 * second, true, "refused", since(1*second, "refused")},
			{60 * second, 50 * second, true, "refused", since(50*second, "refused")},
			{61 * second, 50 * second, true, "no answer", ""},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(longAgo.Time))
				network := newNetwork(test.before)
				message := test.before.Message
				for i, s := range test.syncs {
					time.Sleep(time.Until(longAgo.Add(s.at)))
					o := Outcome{CloudState: CloudState{IsOutage: s.outage}, Err: &neutron.Error{Op: "op", Reason: neutron.Unavailable, Message: s.err}}
					if s.away >= 0 {
						o.Away = longAgo.Add(s.away)
					}
					before := network.Status
					network.Status = Compute(network, o)
					for i := range network.Status.Conditions { // as the API server returns them
						c := &network.Status.Conditions[i]
						c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
					}
					if s.message != "" {
						message = s.message
					} else if !Equal(&before, &network.Status) {
						t.Errorf("sync %d: the status was written", i)
					}
					equal(t, message, Ready(&network.Status).Message)
				}
			})
		})
	}
}

func TestObservedFields(t *testing.T) {
	known := newNetwork().Status
	known.Conditions = nil
	with := func(change func(*samplecrdv1.NetworkStatus)) samplecrdv1.NetworkStatus {
		s := known
		change(&s)
		return s
	}
	for _, test := range []struct {
		name    string
		outcome Outcome
		want    samplecrdv1.NetworkStatus
	}{
		{"nothing changed", Outcome{Observation: Observation{Observed: haveNetwork(), Subnets: haveSubnets("10.0.0.1")}}, known},
		{"there is no gateway", Outcome{Observation: Observation{Observed: haveNetwork(), Subnets: haveSubnets("")}},
			with(func(s *samplecrdv1.NetworkStatus) {
				s.Gateway, s.Subnets = "None", []samplecrdv1.SubnetStatus{{ID: "s", CIDR: "10.0.0.0/24", Gateway: "None"}}
			})},
		{"Neutron could not be read: the fields stay", Outcome{Err: neutronError(neutron.Unavailable)}, known},
		{"there is no subnet", Outcome{Observation: Observation{Observed: haveNetwork()}, Err: neutronError(neutron.Invalid)},
			with(func(s *samplecrdv1.NetworkStatus) { s.SubnetID, s.CIDR, s.Gateway, s.Subnets = "", "", "", nil })},
		{"there is no network", Outcome{Observation: Observation{Observed: &neutron.Observed{}}, Err: neutronError(neutron.OverQuota)},
			samplecrdv1.NetworkStatus{ObservedGeneration: 2, Cloud: "test"}},
		{"there is another network", Outcome{Observation: Observation{Observed: &neutron.Observed{Network: neutron.Network{ID: "n2", MTU: 9000}}, Subnets: []neutron.CurrentSubnet{{Subnet: &neutron.Subnet{ID: "s2", CIDR: netip.MustParsePrefix("fd00:1::/64"), Gateway: netip.MustParseAddr("fd00:1::1")}}}}},
			with(func(s *samplecrdv1.NetworkStatus) {
				s.NetworkID, s.MTU, s.SubnetID, s.CIDR, s.Gateway = "n2", 9000, "s2", "fd00:1::/64", "fd00:1::1"
				s.Subnets = []samplecrdv1.SubnetStatus{{ID: "s2", CIDR: "fd00:1::/64", Gateway: "fd00:1::1"}}
			})},
		{"the cloud has another name", Outcome{CloudState: CloudState{Cloud: "other"}, Observation: Observation{Observed: haveNetwork(), Subnets: haveSubnets("10.0.0.1")}},
			with(func(s *samplecrdv1.NetworkStatus) { s.Cloud = "other" })},
		{"another cloud, in which the network was not observed: the place where it was created stays",
			Outcome{CloudState: CloudState{Cloud: "other", Place: &neutron.Place{Project: "other"}}, Err: neutronError(neutron.Unavailable)}, known},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.outcome.Cloud == "" {
				test.outcome.Cloud = "test"
			}
			equal(t, test.want, Compute(newNetwork(ready()), test.outcome), cmpopts.IgnoreFields(samplecrdv1.NetworkStatus{}, "Conditions"))
		})
	}
}

// TestSubnetsAndRouterOfTheStatus observes networks for a Network with two subnets and a router of
// its own, if the case does not say otherwise.
func TestSubnetsAndRouterOfTheStatus(t *testing.T) {
	owner := neutron.Owner{Cluster: "cluster", UID: "u"}
	subnet := func(id, cidr, gateway string) neutron.Subnet {
		return neutron.Subnet{ID: id, Description: owner.Mark(), CIDR: netip.MustParsePrefix(cidr), Gateway: netip.MustParseAddr(gateway), DHCP: true}
	}
	v4, v6, old := subnet("s4", "10.0.0.0/24", "10.0.0.1"), subnet("s6", "fd00::/64", "fd00::1"), subnet("s0", "10.9.0.0/24", "10.9.0.1")
	theirs := v4
	theirs.ID, theirs.Description, theirs.CIDR = "s9", "", netip.MustParsePrefix("10.8.0.0/24")
	router := func(id, description, external string, ips neutron.ExternalIPs) neutron.Router {
		return neutron.Router{ID: id, Description: description, Gateway: neutron.ExternalGateway{NetworkID: external, IPs: ips}}
	}
	own, other := router("r", owner.Mark(), "x", "198.18.0.7, 2001:db8::7"), router("q", "", "x", "198.18.0.8")
	on := func(s neutron.Subnet, router, port string) neutron.Interface {
		return neutron.Interface{PortID: port, RouterID: router, SubnetID: s.ID, Address: s.Gateway, Confirmed: true}
	}
	unconfirmed := on(v4, "r", "p4")
	unconfirmed.Confirmed = false
	subnets := func(all ...neutron.Subnet) []neutron.Subnet { return all }
	has := func(all []neutron.Subnet, routers []neutron.Router, interfaces ...neutron.Interface) *neutron.Observed {
		network := neutron.Network{ID: "n", Description: owner.Mark(), Subnets: all, Interfaces: interfaces}
		return &neutron.Observed{Network: network, Routers: routers, RoutersKnown: true}
	}
	routers := func(all ...neutron.Router) []neutron.Router { return all }
	statusOf := func(name string, s neutron.Subnet, port string) samplecrdv1.SubnetStatus {
		return samplecrdv1.SubnetStatus{Name: name, ID: s.ID, CIDR: s.CIDR.String(), Gateway: s.Gateway.String(), RouterPortID: port}
	}
	both := []samplecrdv1.SubnetStatus{statusOf("", v4, ""), statusOf("v6", v6, "")}
	attached := []samplecrdv1.SubnetStatus{statusOf("", v4, "p4"), statusOf("v6", v6, "p6")}
	existing := func(n *samplecrdv1.Network) {
		n.Spec.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: "e"}}
	}
	known := func(id string) func(*samplecrdv1.Network) {
		return func(n *samplecrdv1.Network) { n.Status.Router = &samplecrdv1.RouterStatus{ID: id} }
	}
	none := func(n *samplecrdv1.Network) { n.Spec.Router = nil }
	const available = "Neutron matches the spec"
	for _, test := range []struct {
		name     string
		changes  []func(*samplecrdv1.Network)
		observed *neutron.Observed
		subnets  []samplecrdv1.SubnetStatus
		router   *samplecrdv1.RouterStatus
		message  string // of a Network that is ready
	}{
		{"nothing exists: a router is recorded", nil, &neutron.Observed{}, nil, &samplecrdv1.RouterStatus{}, available},
		{"the router of its own is not created yet", nil, has(subnets(v4, v6), nil), both, &samplecrdv1.RouterStatus{}, available},
		{"an existing router is recorded before a subnet is attached", []func(*samplecrdv1.Network){existing}, has(subnets(v4, v6), nil), both, &samplecrdv1.RouterStatus{ID: "e"}, available},
		{"both are attached", nil, has(subnets(v4, v6), routers(own), on(v4, "r", "p4"), on(v6, "r", "p6")), attached,
			&samplecrdv1.RouterStatus{ID: "r", ExternalIPs: []string{"198.18.0.7", "2001:db8::7"}}, available},
		{"one connection is not confirmed", nil, has(subnets(v4, v6), routers(own), unconfirmed, on(v6, "r", "p6")),
			[]samplecrdv1.SubnetStatus{statusOf("", v4, ""), statusOf("v6", v6, "p6")}, &samplecrdv1.RouterStatus{ID: "r", ExternalIPs: []string{"198.18.0.7", "2001:db8::7"}}, available},
		{"the status has the port of a confirmed connection", []func(*samplecrdv1.Network){func(n *samplecrdv1.Network) { n.Status.Subnets = attached }},
			has(subnets(v4, v6), routers(own), unconfirmed, on(v6, "r", "p6")), attached,
			&samplecrdv1.RouterStatus{ID: "r", ExternalIPs: []string{"198.18.0.7", "2001:db8::7"}}, available},
		{"the existing router cannot be seen", []func(*samplecrdv1.Network){existing, known("e")}, has(subnets(v4, v6), nil, on(v4, "e", "p4"), on(v6, "e", "p6")),
			attached, &samplecrdv1.RouterStatus{ID: "e"}, available},
		{"subnets are still attached to the router before", []func(*samplecrdv1.Network){existing, known("q")}, has(subnets(v4, v6), routers(other), on(v6, "q", "p6")),
			[]samplecrdv1.SubnetStatus{statusOf("", v4, ""), statusOf("v6", v6, "p6")}, &samplecrdv1.RouterStatus{ID: "q", ExternalIPs: []string{"198.18.0.8"}}, available},
		{"the spec declares no router any more", []func(*samplecrdv1.Network){none, known("r")}, has(subnets(v4, v6), routers(own)), both,
			&samplecrdv1.RouterStatus{ID: "r", ExternalIPs: []string{"198.18.0.7", "2001:db8::7"}}, available},
		{"nothing of the router is left", []func(*samplecrdv1.Network){none, known("r")}, has(subnets(v4, v6), nil), both, nil, available},
		{"a subnet that is not declared any more comes last", []func(*samplecrdv1.Network){none}, has(subnets(old, v4, v6), nil), append(slices.Clone(both), statusOf("", old, "")), nil, available},
		{"only the subnet before exists", []func(*samplecrdv1.Network){none}, has(subnets(old), nil), []samplecrdv1.SubnetStatus{statusOf("", old, "")}, nil, available},
		{"an unmanaged subnet, and its connection", nil, has(subnets(v4, v6, theirs), routers(own, other), on(theirs, "r", "p9")), both,
			&samplecrdv1.RouterStatus{ID: "r", ExternalIPs: []string{"198.18.0.7", "2001:db8::7"}},
			available + "; the network also has unmanaged subnets, which are left alone: 10.8.0.0/24 (s9); the network also has interfaces of other routers, which are left alone: r (port p9)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := newNetwork(ready())
			network.Status.Subnets = nil
			network.Spec.CIDR = "10.0.0.0/24"
			network.Spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00::/64"}}}
			network.Spec.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{ID: "x"}}
			for _, change := range test.changes {
				change(network)
			}
			desired, err := neutron.NewDesired(network, owner.Cluster)
			must(t, err)
			if desired.Router != nil { // as Converge does
				if ref := network.Spec.Router.Existing; ref != nil {
					desired.Router.Existing = ref.ID
				} else {
					desired.Router.ExternalNetwork = network.Spec.Router.ExternalNetwork.ID
				}
			}
			got := Compute(network, Outcome{Observation: Observing(neutron.View{Identity: neutron.NewIdentity(network, owner.Cluster), Desired: desired, Observed: test.observed})})
			equal(t, test.subnets, got.Subnets)
			equal(t, test.router, got.Router, cmpopts.EquateEmpty())
			equal(t, test.message, Ready(&got).Message)
			if len(test.subnets) > 0 {
				first := test.subnets[0]
				equal(t, []string{first.ID, first.CIDR, first.Gateway}, []string{got.SubnetID, got.CIDR, got.Gateway})
			}
			// The same again is no write.
			network.Status = got
			again := Compute(network, Outcome{Observation: Observing(neutron.View{Identity: neutron.NewIdentity(network, owner.Cluster), Desired: desired, Observed: test.observed})})
			equal(t, true, Equal(&got, &again))
		})
	}
}

func TestComputeDoesNotChangeItsArguments(t *testing.T) {
	network := newNetwork(ready(), condition("Foreign", "True", "X", "of another client"))
	have, subnets := haveNetwork(), haveSubnets("")
	before := network.DeepCopy()
	got := Compute(network, Outcome{CloudState: CloudState{Cloud: "other"}, Observation: Observation{Observed: have, Subnets: subnets}, Err: neutronError(neutron.Invalid)})
	equal(t, before, network)
	equal(t, haveNetwork(), have)
	equal(t, haveSubnets(""), subnets, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}))
	for i := range got.Conditions {
		got.Conditions[i].Message = "changed"
	}
	equal(t, before, network)
	if !slices.ContainsFunc(got.Conditions, func(c metav1.Condition) bool { return c.Type == "Foreign" }) {
		t.Error("the condition of another client is missing")
	}
}

// fill sets each field to a value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(longAgo))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	default:
		t.Fatalf("fill does not support %s", v.Type())
	}
}

func TestPatch(t *testing.T) {
	var full samplecrdv1.NetworkStatus
	fill(t, reflect.ValueOf(&full).Elem())
	const condition = `{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"x","observedGeneration":7,"reason":"x","status":"x","type":"x"}`
	const other = `{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"edited","reason":"x","status":"True","type":"Other"}`
	edited := metav1.Condition{Type: "Other", Status: "True", Reason: "x", Message: "edited", LastTransitionTime: longAgo}
	with := func(change func(*samplecrdv1.NetworkStatus)) samplecrdv1.NetworkStatus {
		s := *full.DeepCopy()
		change(&s)
		return s
	}
	for _, test := range []struct {
		name         string
		before, next samplecrdv1.NetworkStatus
		want         string // the status in the patch; "": none
	}{
		{"nothing differs", full, *full.DeepCopy(), ""},
		{"one field differs", full, with(func(s *samplecrdv1.NetworkStatus) { s.NetworkID = "y" }), `{"networkID":"y"}`},
		{"one field of a condition differs: all conditions are in the patch",
			with(func(s *samplecrdv1.NetworkStatus) {
				s.Conditions = append(s.Conditions, edited)
				s.Conditions[0].Message = "y"
			}),
			with(func(s *samplecrdv1.NetworkStatus) { s.Conditions = append(s.Conditions, edited) }),
			`{"conditions":[` + condition + `,` + other + `]}`},
		{"a router is recorded that has no ID yet", with(func(s *samplecrdv1.NetworkStatus) { s.Router = nil }), with(func(s *samplecrdv1.NetworkStatus) { s.Router = &samplecrdv1.RouterStatus{} }),
			`{"router":{}}`},
		{"the default of the CustomResourceDefinition is replaced", samplecrdv1.NetworkStatus{Conditions: []metav1.Condition{pending()}},
			samplecrdv1.NetworkStatus{ObservedGeneration: 2, Conditions: full.Conditions}, `{"conditions":[` + condition + `],"observedGeneration":2}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := newNetwork()
			network.Status = test.before
			patch, err := Patch(network, &test.next)
			must(t, err)
			want := `{"metadata":{"resourceVersion":"41"}}`
			if test.want != "" {
				want = `{"metadata":{"resourceVersion":"41"},"status":` + test.want + `}`
			}
			equal(t, want, string(patch))
		})
	}
}

// For each field: it appears, it changes, and it goes.
func TestPatchCarriesEachFieldOfTheStatus(t *testing.T) {
	var full samplecrdv1.NetworkStatus
	fill(t, reflect.ValueOf(&full).Elem())
	for i := range reflect.TypeFor[samplecrdv1.NetworkStatus]().NumField() {
		without := *full.DeepCopy()
		reflect.ValueOf(&without).Elem().Field(i).SetZero()
		for _, test := range [][2]samplecrdv1.NetworkStatus{{full, without}, {without, full}, {{}, full}, {full, {}}} {
			network := newNetwork()
			network.Status = test[0]
			patch, err := Patch(network, &test[1])
			must(t, err)
			before, err := json.Marshal(network)
			must(t, err)
			after, err := jsonpatch.MergePatch(before, patch)
			must(t, err)
			got := &samplecrdv1.Network{}
			must(t, json.Unmarshal(after, got))
			if !Equal(&test[1], &got.Status) {
				t.Errorf("%s: got %+v, want %+v", reflect.TypeFor[samplecrdv1.NetworkStatus]().Field(i).Name, got.Status, test[1])
			}
		}
	}
}

func TestEqualComparesEachField(t *testing.T) {
	var full samplecrdv1.NetworkStatus
	fill(t, reflect.ValueOf(&full).Elem())
	if !Equal(&full, full.DeepCopy()) {
		t.Error("a copy differs")
	}
	elsewhere := full.DeepCopy()
	elsewhere.Conditions[0].LastTransitionTime = metav1.NewTime(elsewhere.Conditions[0].LastTransitionTime.In(time.FixedZone("", 3600)))
	if !Equal(&full, elsewhere) {
		t.Error("the same time in another time zone differs")
	}
	differs := func(of func(*samplecrdv1.NetworkStatus) reflect.Value) {
		for i := range of(&full).NumField() {
			other := full.DeepCopy()
			of(other).Field(i).SetZero()
			if Equal(&full, other) {
				t.Errorf("Equal ignores the field %s", of(other).Type().Field(i).Name)
			}
		}
	}
	differs(func(s *samplecrdv1.NetworkStatus) reflect.Value { return reflect.ValueOf(s).Elem() })
	differs(func(s *samplecrdv1.NetworkStatus) reflect.Value { return reflect.ValueOf(&s.Conditions[0]).Elem() })
	differs(func(s *samplecrdv1.NetworkStatus) reflect.Value { return reflect.ValueOf(&s.Subnets[0]).Elem() })
	differs(func(s *samplecrdv1.NetworkStatus) reflect.Value { return reflect.ValueOf(s.Router).Elem() })
	recorded := full.DeepCopy()
	recorded.Router = &samplecrdv1.RouterStatus{}
	unrecorded := recorded.DeepCopy()
	unrecorded.Router = nil
	if Equal(recorded, unrecorded) {
		t.Error("a router that has no ID yet is the same as none")
	}
}

// An edit can take something away before Neutron refuses the rest. Later syncs do not know what that was.
func TestTheConditionSaysWhatWasTakenAwayUntilTheNextEdit(t *testing.T) {
	refused := neutron.Error{Op: "create subnet", Reason: neutron.Invalid, Message: "no" + neutron.TakenBefore + "subnet 10.0.0.0/24 deleted"}
	again := neutron.Error{Op: "create subnet", Reason: neutron.Invalid, Message: "no"}
	network := newNetwork(ready())
	network.Status = Compute(network, Outcome{Observation: Observation{Observed: haveNetwork()}, Err: &refused})
	equal(t, network.Status, Compute(network, Outcome{Observation: Observation{Observed: haveNetwork()}, Err: &refused}))
	equal(t, network.Status, Compute(network, Outcome{Observation: Observation{Observed: haveNetwork()}, Err: &again}))
	network.Generation++
	equal(t, "create subnet: no", Ready(new(Compute(network, Outcome{Observation: Observation{Observed: haveNetwork()}, Err: &again}))).Message)
}

// away returns credentials for a Neutron that is away: nothing listens on that port.
func away(t *testing.T) neutron.Config {
	t.Helper()
	config, err := neutron.ParseConfig("test", []byte(`clouds: {test: {auth: {auth_url: "http://127.0.0.1:1/v3", username: me, password: secret,
  project_name: mine, user_domain_name: Default, project_domain_name: Default}}}`))
	must(t, err)
	return config
}

// unsent returns the error of a request that a client has not sent, because Neutron is away.
func unsent(t *testing.T) error {
	t.Helper()
	client := neutron.NewClient(away(t), neutron.ClientOptions{Timeout: time.Minute})
	var err error
	for range 10 {
		if _, err = client.GetNetwork(t.Context(), "n"); neutron.IsUnsent(err) {
			return err
		}
	}
	t.Fatalf("the last request was sent: %v", err)
	return nil
}

// What Neutron has last said about the Network is worth more than that it says nothing now.
func TestWhatIsKnownStaysInTheStatusIfNoRequestWasSent(t *testing.T) {
	const words = "Neutron's own words"
	away := unsent(t)
	edited := func(n *samplecrdv1.Network) { n.Generation++ }
	for _, test := range []struct {
		name   string
		before metav1.Condition
		err    error
		change func(*samplecrdv1.Network)
		stays  bool
	}{
		{"an error of its own", notReady("NoSegmentAvailable", words), away, nil, true},
		{"a request was sent", notReady("InUse", words), neutronError(neutron.Unavailable), nil, false},
		{"an error about an older spec", notReady("InvalidSpec", words), away, edited, false},
		{"it was ready", ready(), away, nil, false},
		{"it is new", metav1.Condition{}, away, func(n *samplecrdv1.Network) { n.Status.Conditions = nil }, false},
		{"the pause may be over", notReady("Paused", words), away, nil, false},
		{"the Secret may be there", notReady("NoCredentials", words), away, nil, false},
		{"the password may be right", notReady("AuthenticationFailed", words), away, nil, false},
		{"it was at work", notReady("Progressing", words), away, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNetwork(test.before)
			if test.change != nil {
				test.change(n)
			}
			got := Compute(n, Outcome{Err: test.err})
			if test.stays {
				equal(t, n.Status, got)
				return
			}
			equal(t, "NeutronUnavailable", Ready(&got).Reason)
			equal(t, test.err.Error(), Ready(&got).Message)
		})
	}
}

// The event of an import names what was taken over, and what is changed next. Later, only an observed Network differs.
func TestWhatAnImportTakesOver(t *testing.T) {
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	observed := &neutron.Observed{Network: neutron.Network{ID: "n", Name: "theirs", Subnets: []neutron.Subnet{{ID: "s", CIDR: cidr, Routes: "10.1.0.0/16 via 10.0.0.2"}}}}
	for _, test := range []struct {
		name              string
		imported, observe bool
		want              string
	}{
		{"it is being imported", false, false, `subnet 10.0.0.0/24; 1`},
		{"it was imported before", true, false, `none; 0`},
		{"it is observed", true, true, `subnet 10.0.0.0/24; 1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			view := neutron.View{Observed: observed}
			view.Identity = neutron.Identity{Owner: neutron.Owner{Cluster: "c", UID: "u"}, Import: "n", Imported: test.imported, ReadOnly: test.observe}
			view.Subnets = []neutron.DesiredSubnet{{CIDR: cidr, Routes: "10.2.0.0/16 via 10.0.0.2"}}
			o := Outcome{Observation: Observing(view)}
			taken := "none"
			if len(o.TakenOver) > 0 {
				taken = describeSubnets(o.TakenOver)
			}
			equal(t, test.want, fmt.Sprintf("%s; %d", taken, len(o.Differences)))
		})
	}
}
