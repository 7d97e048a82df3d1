// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// pending is the Ready condition that the API server gives a new Network.
func pending() metav1.Condition {
	return condition("Ready", "Unknown", "Pending", "Waiting for the controller")
}

func notReady(reason, message string) metav1.Condition {
	return condition("Ready", "False", reason, message)
}

// renamed is the step that renames the network.
func renamed(name string) neutron.Step {
	return neutron.UpdateNetwork{Changes: []neutron.Change{{Label: "network name", Noun: "name", Value: name}}}
}

func TestEventFor(t *testing.T) {
	const unmanagedMessage = "Neutron matches the spec; the network also has unmanaged subnets, which are left alone: 10.1.0.0/24 (f-1)"
	unmanaged := neutron.Subnet{ID: "f-1", CIDR: netip.MustParsePrefix("10.1.0.0/24")}
	const strangeMessage = "Neutron matches the spec; the network also has interfaces of other routers, which are left alone: q (port p)"
	strange := []neutron.Interface{{PortID: "p", RouterID: "q", SubnetID: "s"}}
	withStrange := ready()
	withStrange.Message = strangeMessage
	withUnmanaged := ready()
	withUnmanaged.Message = unmanagedMessage
	steps := []neutron.Step{
		neutron.CreateSubnet{Subnet: neutron.DesiredSubnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")}},
		neutron.DeleteSubnet{CIDR: netip.MustParsePrefix("10.2.0.0/24")},
	}
	const done = "subnet 10.0.0.0/24 created, subnet 10.2.0.0/24 deleted"
	imported := neutron.ImportNetwork{ID: "n"}
	importedBefore := func(n *samplecrdv1.Network) { n.Status.Imported = true }
	const observedMessage = "The network is only observed, and matches the spec"
	const differsMessage = "The network is only observed, and differs from the spec: MTU: 1 → 2"
	withoutNetwork := func(n *samplecrdv1.Network) { n.Status.NetworkID = "" }
	edited := func(n *samplecrdv1.Network) { n.Generation++ }
	unchanged := func(*samplecrdv1.Network) {}
	for _, test := range []struct {
		name    string
		before  *metav1.Condition
		change  func(*samplecrdv1.Network)
		outcome Outcome
		want    *Event
	}{
		// What was done in Neutron.
		{"the network is created", new(pending()), withoutNetwork, Outcome{Steps: steps},
			&Event{"Normal", "Created", "Created network n with subnet 10.0.0.0/24"}},
		{"the network is created, although the status said that all is well", new(ready()), withoutNetwork, Outcome{Steps: steps},
			&Event{"Normal", "Created", "Created network n with subnet 10.0.0.0/24"}},
		{"a network is adopted and completed", new(pending()), withoutNetwork, Outcome{Adopted: true, Steps: steps},
			&Event{"Normal", "Adopted", "Adopted network n, which carries this Network's mark"}},
		{"drift is repaired", new(ready()), unchanged, Outcome{Steps: steps},
			&Event{"Normal", "DriftRepaired", "Repaired drift in Neutron: " + done}},
		{"an edit is made", new(ready()), edited, Outcome{Steps: steps},
			&Event{"Normal", "Updated", "Updated network n: " + done}},
		{"an edit is made after a failure", new(notReady("InUse", "x")), unchanged, Outcome{Steps: steps},
			&Event{"Normal", "Updated", "Updated network n: " + done}},
		{"an unmanaged subnet does not hide what was done", new(ready()), unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}}, Steps: steps},
			&Event{"Normal", "DriftRepaired", "Repaired drift in Neutron: " + done}},
		{"the network is deleted", new(ready()), unchanged, Outcome{Finalized: "gone"}, &Event{"Normal", "Deleted", "gone"}},

		{"a network with two subnets and a router of its own is created", new(notReady("Progressing", "x")), withoutNetwork,
			Outcome{Observation: Observation{Router: &samplecrdv1.RouterStatus{ID: "r"}, Subnets: append(haveSubnets(""), haveSubnet("v6", "s6", "fd00::/64", "", ""))}, Steps: append(steps, neutron.CreateRouter{})},
			&Event{"Normal", "Created", "Created network n with subnets 10.0.0.0/24, fd00::/64 and router r"}},
		{"a network is created and attached to an existing router", new(pending()), withoutNetwork, Outcome{Observation: Observation{Router: &samplecrdv1.RouterStatus{ID: "e"}}, Steps: steps},
			&Event{"Normal", "Created", "Created network n with subnet 10.0.0.0/24, attached to router e"}},

		// Transitions of the Ready condition.
		{"ready as before", new(ready()), unchanged, Outcome{}, nil},
		{"ready for the first time", nil, unchanged, Outcome{}, nil},
		{"ready for the first time, after the default", new(pending()), unchanged, Outcome{}, nil},
		{"ready again", new(notReady("InUse", "x")), unchanged, Outcome{}, &Event{"Normal", "Available", "Neutron matches the spec"}},
		{"an edit that changes nothing in Neutron", new(ready()), edited, Outcome{}, nil},
		{"not ready", new(ready()), unchanged, Outcome{Err: neutronError(neutron.InUse)},
			&Event{"Warning", "InUse", "create subnet: Neutron's own words"}},
		{"not ready at first", nil, unchanged, Outcome{Err: neutronError(neutron.Invalid)},
			&Event{"Warning", "InvalidSpec", "create subnet: Neutron's own words"}},
		{"not ready for another reason", new(notReady("InUse", "x")), unchanged, Outcome{Err: neutronError(neutron.OverQuota)},
			&Event{"Warning", "QuotaExceeded", "create subnet: Neutron's own words"}},
		{"not ready for the same reason", new(notReady("InUse", "x")), unchanged, Outcome{Err: neutronError(neutron.InUse)}, nil},
		{"not ready after the first of two steps", new(ready()), edited, Outcome{Steps: steps[:1], Err: neutronError(neutron.InUse)},
			&Event{"Warning", "InUse", "create subnet: Neutron's own words"}},
		{"a network is adopted and not completed", new(pending()), withoutNetwork, Outcome{Adopted: true, Err: neutronError(neutron.OverQuota)},
			&Event{"Warning", "QuotaExceeded", "create subnet: Neutron's own words"}},

		{"at work", new(ready()), edited, Outcome{Err: neutronError(neutron.Unrecorded)}, nil},

		// Imports.
		{"a network is imported as it is", new(pending()), withoutNetwork, Outcome{Observation: Observation{Imported: true}, Steps: []neutron.Step{imported}},
			&Event{"Normal", "Imported", `Imported network n, named ""; it matches the spec`}},
		{"a network is imported, and changed next", new(pending()), withoutNetwork,
			Outcome{Observation: Observation{Imported: true, Differences: []string{"MTU: 1500 → 1400", "gateway: a → b"}}, Steps: []neutron.Step{imported}, Err: neutronError(neutron.Unrecorded)},
			&Event{"Normal", "Imported", `Imported network n, named ""; it differs from the spec, and is changed: MTU: 1500 → 1400; gateway: a → b`}},
		{"a network is imported with subnets", new(pending()), withoutNetwork,
			Outcome{Observation: Observation{Imported: true, TakenOver: append(haveSubnets(""), haveSubnet("v6", "s6", "fd00::/64", "", ""))}, Steps: []neutron.Step{imported}},
			&Event{"Normal", "Imported", `Imported network n, named "", with subnets 10.0.0.0/24, fd00::/64; it matches the spec`}},
		{"the mark of an import is put on again", new(ready()), importedBefore, Outcome{Observation: Observation{Imported: true}, Steps: []neutron.Step{neutron.ImportNetwork{IsAgain: true}}},
			&Event{"Normal", "DriftRepaired", "Repaired drift in Neutron: ownership mark restored"}},
		{"an import is refused", new(pending()), withoutNetwork, Outcome{Err: neutronError(neutron.ImportRefused)},
			&Event{"Warning", "ImportRefused", "create subnet: Neutron's own words"}},

		// Networks that are only observed.
		{"observed for the first time", new(pending()), withoutNetwork, Outcome{Observation: Observation{IsObserved: true}}, &Event{"Normal", "Observed", observedMessage}},
		{"observed as before", new(condition("Ready", "True", "Observed", observedMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true}}, nil},
		{"observed instead of managed", new(ready()), edited, Outcome{Observation: Observation{IsObserved: true}}, &Event{"Normal", "Observed", observedMessage}},
		{"a difference appears", new(condition("Ready", "True", "Observed", observedMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true, Differences: []string{"MTU: 1 → 2"}}},
			&Event{"Warning", "Differs", differsMessage}},
		{"the same difference", new(condition("Ready", "True", "Differs", differsMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true, Differences: []string{"MTU: 1 → 2"}}}, nil},
		{"another difference", new(condition("Ready", "True", "Differs", differsMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true, Differences: []string{"MTU: 1 → 2", "tags: a → b"}}},
			&Event{"Warning", "Differs", differsMessage + "; tags: a → b"}},
		{"the difference disappears", new(condition("Ready", "True", "Differs", differsMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true}}, &Event{"Normal", "Observed", observedMessage}},
		{"the observed network vanishes", new(condition("Ready", "True", "Observed", observedMessage)), unchanged, Outcome{Observation: Observation{IsObserved: true}, Err: neutronError(neutron.ImportNotFound)},
			&Event{"Warning", "NetworkNotFound", "create subnet: Neutron's own words"}},

		// Unmanaged interfaces.
		{"an unmanaged interface appears", new(ready()), unchanged, Outcome{Observation: Observation{UnmanagedInterfaces: strange}}, &Event{"Warning", "UnmanagedInterface", strangeMessage}},
		{"the unmanaged interface is already in the condition", &withStrange, unchanged, Outcome{Observation: Observation{UnmanagedInterfaces: strange}}, nil},
		{"an unmanaged subnet appears beside the interface", &withStrange, unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}, UnmanagedInterfaces: strange}},
			&Event{"Warning", "UnmanagedSubnet", unmanagedMessage + strings.TrimPrefix(strangeMessage, "Neutron matches the spec")}},
		{"an unmanaged interface appears beside the subnet", &withUnmanaged, unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}, UnmanagedInterfaces: strange}},
			&Event{"Warning", "UnmanagedInterface", unmanagedMessage + strings.TrimPrefix(strangeMessage, "Neutron matches the spec")}},

		// Unmanaged subnets.
		{"an unmanaged subnet appears", new(ready()), unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}}}, &Event{"Warning", "UnmanagedSubnet", unmanagedMessage}},
		{"an unmanaged subnet exists at first", nil, unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}}}, &Event{"Warning", "UnmanagedSubnet", unmanagedMessage}},
		{"the unmanaged subnet is already in the condition", &withUnmanaged, unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}}}, nil},
		{"another unmanaged subnet appears", &withUnmanaged, unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged, unmanaged}}},
			&Event{"Warning", "UnmanagedSubnet", unmanagedMessage + ", 10.1.0.0/24 (f-1)"}},
		{"ready again, with an unmanaged subnet", new(notReady("InUse", "x")), unchanged, Outcome{Observation: Observation{Unmanaged: []neutron.Subnet{unmanaged}}},
			&Event{"Normal", "Available", unmanagedMessage}},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := newNetwork()
			if test.before != nil {
				network = newNetwork(*test.before)
			}
			test.change(network)
			test.outcome.Observed = haveNetwork()
			if test.outcome.Subnets == nil {
				test.outcome.Subnets = haveSubnets("10.0.0.1")
			}
			var next samplecrdv1.NetworkStatus // a finalized Network has no status
			if test.outcome.Finalized == "" {
				next = Compute(network, test.outcome)
			}
			equal(t, test.want, EventFor(network, test.outcome, &next))
			equal(t, test.want != nil && test.want.Reason == "DriftRepaired", test.outcome.IsRepair(network))
		})
	}
}

func TestFinalizedMessage(t *testing.T) {
	retained := newNetwork()
	retained.Spec.DeletionPolicy = samplecrdv1.DeletionRetain
	kept := &neutron.Network{ID: "n"}
	imported := func(isMarked bool, policy samplecrdv1.ManagementPolicy, deletion samplecrdv1.DeletionPolicy) *samplecrdv1.Network {
		n := newNetwork()
		n.UID, n.Status.Imported = "u", isMarked
		n.Spec.Import, n.Spec.ManagementPolicy, n.Spec.DeletionPolicy = &samplecrdv1.ImportSpec{NetworkID: "n"}, policy, deletion
		return n
	}
	for _, test := range []struct {
		name    string
		network *samplecrdv1.Network
		kept    *neutron.Network
		want    string
	}{
		{"the network is gone", newNetwork(), nil, "Neutron has confirmed that the network is gone"},
		{"there was no network to retain", retained, nil, "No network in Neutron carries this Network's ownership mark"},
		{"the network is retained", retained, kept, "Left network n in Neutron without its ownership mark, as deletionPolicy says"},
		{"an imported network is retained by default", imported(true, "", ""), kept, "Left the imported network n in Neutron without its ownership mark"},
		{"an imported network is deleted", imported(true, "", samplecrdv1.DeletionDelete), nil, "Neutron has confirmed that the network is gone"},
		{"an imported network is gone already", imported(true, "", ""), nil, "The imported network is not in Neutron"},
		{"an import was refused", imported(false, "", samplecrdv1.DeletionDelete), kept, "Left network n in Neutron: this Network has not taken it over"},
		{"a network is only observed", imported(false, samplecrdv1.ManagementObserve, ""), nil, "Left the network in Neutron as it is: managementPolicy is Observe"},
		{"a network is only observed since it was imported", imported(true, samplecrdv1.ManagementObserve, ""), nil,
			"Left the network in Neutron as it is: managementPolicy is Observe; it keeps its ownership mark, the tag that begins with samplecrd-owner-u"},
		{"the mark was removed", newNetwork(), kept, "Left network n in Neutron: another client removed its ownership mark"},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, FinalizedMessage(test.network, test.kept))
		})
	}
}
