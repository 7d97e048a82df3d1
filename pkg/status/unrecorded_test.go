// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

func TestUnrecorded(t *testing.T) {
	create := neutron.CreateNetwork{}
	rename := renamed("web")
	subnet := neutron.CreateSubnet{Subnet: neutron.DesiredSubnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")}}
	unavailable, overQuota, unrecorded, paused := neutronError(neutron.Unavailable), neutronError(neutron.OverQuota), neutronError(neutron.Unrecorded), neutronError(neutron.Paused)
	router := &samplecrdv1.RouterStatus{ID: "r"}
	attach := func(router, port string) neutron.Step {
		return neutron.AttachSubnet{Router: router, Subnet: "s", CIDR: netip.MustParsePrefix("10.0.0.0/24"), Port: port}
	}
	progressing := func(n *samplecrdv1.Network) { n.Status = newNetwork(notReady("Progressing", "x")).Status }
	progressingAndEdited := func(n *samplecrdv1.Network) { progressing(n); n.Generation++ }
	fresh := func(n *samplecrdv1.Network) { n.Status = newNetwork(pending()).Status; n.Status.NetworkID = "" }
	isReady := func(*samplecrdv1.Network) {}
	failed := func(n *samplecrdv1.Network) { n.Status = newNetwork(notReady("NeutronUnavailable", "x")).Status }
	edited := func(n *samplecrdv1.Network) { n.Generation++ }
	failedAndEdited := func(n *samplecrdv1.Network) { failed(n); edited(n) }
	other := func(n *samplecrdv1.Network) { n.UID = "another"; fresh(n) }
	steps := func(all ...neutron.Step) []neutron.Step { return all }
	const notWritten, nothing = "-", ""
	type sync struct {
		network func(*samplecrdv1.Network) // as it is found
		outcome Outcome
		want    string // the event; notWritten: the status could not be written
	}
	for _, test := range []struct {
		name     string
		syncs    []sync
		repaired []neutron.Step
	}{
		{"created, and not written", []sync{
			{fresh, Outcome{Steps: steps(create, subnet)}, notWritten},
			{fresh, Outcome{Adopted: true}, "Created network n with subnet 10.0.0.0/24"},
			{isReady, Outcome{}, nothing},
		}, nil},
		{"created, and the answer to the write is lost", []sync{
			{fresh, Outcome{Steps: steps(create, subnet)}, notWritten},
			{isReady, Outcome{}, "Created network n with subnet 10.0.0.0/24"},
			{isReady, Outcome{}, nothing},
		}, nil},
		{"created in two syncs", []sync{
			{fresh, Outcome{Steps: steps(create), Err: overQuota}, overQuota.Error()},
			{failed, Outcome{Err: unavailable}, nothing},
			{failed, Outcome{Steps: steps(subnet)}, "Created network n with subnet 10.0.0.0/24"},
			{isReady, Outcome{}, nothing},
		}, nil},
		{"created in two syncs, and edited between them", []sync{
			{fresh, Outcome{Steps: steps(create), Err: overQuota}, overQuota.Error()},
			{failedAndEdited, Outcome{Steps: steps(subnet)}, "Created network n with subnet 10.0.0.0/24"},
		}, nil},
		{"created in two syncs, since the router is recorded between them", []sync{
			{fresh, Outcome{Observation: Observation{Router: &samplecrdv1.RouterStatus{}}, Steps: steps(create, subnet), Err: unrecorded}, nothing},
			{progressing, Outcome{Observation: Observation{Router: router}, Steps: steps(neutron.CreateRouter{})}, "Created network n with subnet 10.0.0.0/24 and router r"},
			{isReady, Outcome{Observation: Observation{Router: router}}, nothing},
		}, nil},
		{"edited, and the router is recorded between the steps", []sync{
			{edited, Outcome{Observation: Observation{Router: &samplecrdv1.RouterStatus{}}, Steps: steps(rename), Err: unrecorded}, nothing},
			{progressingAndEdited, Outcome{Observation: Observation{Router: router}, Steps: steps(neutron.CreateRouter{})}, "Updated network n: name set to web, router created"},
			{isReady, Outcome{Observation: Observation{Router: router}}, nothing},
		}, nil},
		{"the record of the router was lost, and nothing else", []sync{
			{isReady, Outcome{Observation: Observation{Router: &samplecrdv1.RouterStatus{}}, Err: unrecorded}, nothing},
			{progressing, Outcome{Observation: Observation{Router: router}, Steps: steps(neutron.CreateRouter{})}, "Repaired drift in Neutron: router created"},
		}, steps(neutron.CreateRouter{})},
		{"attached, not written, and confirmed", []sync{
			{isReady, Outcome{Steps: steps(attach("r", ""))}, notWritten},
			{isReady, Outcome{Steps: steps(attach("r", "p"))}, "Repaired drift in Neutron: subnet 10.0.0.0/24 attached to router r"},
			{isReady, Outcome{}, nothing},
		}, steps(attach("r", ""))},
		{"confirmed twice", []sync{
			{isReady, Outcome{Steps: steps(attach("r", "p"))}, notWritten},
			{isReady, Outcome{Steps: steps(attach("r", "p"))}, "Repaired drift in Neutron: connection of subnet 10.0.0.0/24 to router r confirmed"},
		}, steps(attach("r", "p"))},
		{"attached to a router, and then to another one", []sync{
			{isReady, Outcome{Steps: steps(attach("q", ""))}, notWritten},
			{isReady, Outcome{Steps: steps(attach("r", ""))}, "Repaired drift in Neutron: subnet 10.0.0.0/24 attached to router q, subnet 10.0.0.0/24 attached to router r"},
		}, steps(attach("q", ""), attach("r", ""))},
		{"the answer to the creation is lost", []sync{
			{fresh, Outcome{Err: unavailable}, unavailable.Error()},
			{fresh, Outcome{Adopted: true, Steps: steps(subnet)}, "Adopted network n, which carries this Network's mark"},
		}, nil},
		{"moved here from another cluster while it was paused, and then resumed", []sync{
			{fresh, Outcome{Err: paused}, paused.Error()},
			{progressing, Outcome{Err: paused}, paused.Error()},
			{progressing, Outcome{Steps: steps(attach("r", "p"))}, "Adopted network n, which carries this Network's mark"},
			{isReady, Outcome{}, nothing},
		}, nil},
		{"adopted, and completed later", []sync{
			{fresh, Outcome{Adopted: true, Err: overQuota}, overQuota.Error()},
			{failed, Outcome{Steps: steps(subnet)}, "Adopted network n, which carries this Network's mark"},
		}, nil},
		{"repaired, and not written", []sync{
			{isReady, Outcome{Steps: steps(subnet)}, notWritten},
			{isReady, Outcome{}, "Repaired drift in Neutron: subnet 10.0.0.0/24 created"},
			{isReady, Outcome{}, nothing},
		}, steps(subnet)},
		{"repaired in two syncs", []sync{
			{isReady, Outcome{Steps: steps(rename), Err: unavailable}, unavailable.Error()},
			{failed, Outcome{Steps: steps(subnet)}, "Repaired drift in Neutron: name set to web, subnet 10.0.0.0/24 created"},
			{isReady, Outcome{}, nothing},
		}, steps(rename, subnet)},
		{"a sync fails, and later ones have nothing to do", []sync{
			{isReady, Outcome{Err: unavailable}, unavailable.Error()},
			{failed, Outcome{}, "Neutron matches the spec"},
			{isReady, Outcome{}, nothing},
		}, nil},
		{"a sync fails, and the Network is edited", []sync{
			{isReady, Outcome{Err: unavailable}, unavailable.Error()},
			{failedAndEdited, Outcome{Steps: steps(subnet)}, "Updated network n: subnet 10.0.0.0/24 created"},
		}, nil},
		{"another Network has the name", []sync{
			{isReady, Outcome{Steps: steps(subnet)}, notWritten},
			{other, Outcome{Adopted: true}, "Adopted network n, which carries this Network's mark"},
		}, nil},
		{"deleted, before the creation was recorded", []sync{
			{fresh, Outcome{Steps: steps(create, subnet)}, notWritten},
			{isReady, Outcome{Finalized: "gone"}, "gone"},
			{other, Outcome{Adopted: true}, "Adopted network n, which carries this Network's mark"},
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var repaired []neutron.Step
			u := NewUnrecorded(func(steps []neutron.Step) { repaired = append(repaired, steps...) })
			for i, s := range test.syncs {
				network := newNetwork(ready())
				s.network(network)
				s.outcome.Observed, s.outcome.Subnets = haveNetwork(), haveSubnets("10.0.0.1")
				o := u.Add(network, s.outcome)
				if s.want == notWritten {
					continue
				}
				var next samplecrdv1.NetworkStatus
				if o.Finalized == "" {
					next = Compute(network, o)
				}
				got := ""
				if event := u.EventFor(network, o, &next); event != nil {
					got = event.Message
				}
				if got != s.want {
					t.Errorf("sync %d: got event %q, want %q", i, got, s.want)
				}
			}
			equal(t, fmt.Sprint(test.repaired), fmt.Sprint(repaired))
			if last := test.syncs[len(test.syncs)-1]; last.outcome.Err == nil && len(u.changes) > 0 {
				t.Errorf("still kept: %+v", u.changes)
			}
		})
	}
}

func TestUnrecordedIsBounded(t *testing.T) {
	u := NewUnrecorded(nil)
	network := newNetwork(ready())
	for range 1000 {
		u.Add(network, Outcome{Steps: []neutron.Step{renamed("web")}, Err: errors.New("failed")})
	}
	if n := len(u.changes[cache.MetaObjectToName(network)].steps); n != maxSteps {
		t.Errorf("%d steps are kept, want %d", n, maxSteps)
	}
	// A sync that has nothing to do keeps nothing.
	inOrder := newNetwork(ready())
	inOrder.Name = "other"
	u.Add(inOrder, Outcome{Observation: Observation{Observed: haveNetwork()}})
	u.Forget(cache.MetaObjectToName(network))
	equal(t, 0, len(u.changes))
}

func TestUnrecordedDoesNotShareSteps(t *testing.T) {
	u := NewUnrecorded(nil)
	network := newNetwork(ready())
	step := func(name string) neutron.Step { return renamed(name) }
	first := u.Add(network, Outcome{Steps: append(make([]neutron.Step, 0, 10), step("a")), Err: errors.New("failed")})
	second := u.Add(network, Outcome{Steps: []neutron.Step{step("b")}, Err: errors.New("failed")})
	u.Add(network, Outcome{Steps: []neutron.Step{step("c")}})
	equal(t, "[name set to a] [name set to a name set to b]", fmt.Sprint(first.Steps, second.Steps))
}

func TestUnrecordedOfSeveralNetworksAtTheSameTime(t *testing.T) {
	u := NewUnrecorded(func([]neutron.Step) {})
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			network := newNetwork(ready())
			network.Name = fmt.Sprint("web-", i)
			for range 100 {
				u.Add(network, Outcome{Steps: []neutron.Step{renamed("web")}, Err: errors.New("failed")})
				o := u.Add(network, Outcome{Observation: Observation{Observed: haveNetwork()}})
				if event := u.EventFor(network, o, &network.Status); event == nil || event.Reason != samplecrdv1.EventDriftRepaired {
					t.Errorf("got %+v", event)
				}
			}
		})
	}
	workers.Wait()
	equal(t, 0, len(u.changes))
}
