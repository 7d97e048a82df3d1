// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

const liveUID = types.UID("live")

// having returns what an owner has.
func having(id, name string, subnetMarks ...string) *neutron.Observed {
	o := &neutron.Observed{Network: neutron.Network{ID: id, Name: name}}
	for _, mark := range subnetMarks {
		o.Subnets = append(o.Subnets, neutron.Subnet{Description: mark})
	}
	return o
}

func TestMatch(t *testing.T) {
	old := func(uid types.UID) neutron.Owner { return neutron.Owner{Cluster: "old", UID: uid} }
	named := func(uid types.UID) map[neutron.Owner]*neutron.Observed {
		return map[neutron.Owner]*neutron.Observed{old(uid): having("n-"+string(uid), "default/web")}
	}
	with := func(all ...map[neutron.Owner]*neutron.Observed) map[neutron.Owner]*neutron.Observed {
		joined := map[neutron.Owner]*neutron.Observed{}
		for _, m := range all {
			maps.Copy(joined, m)
		}
		return joined
	}
	owning := func(owner neutron.Owner, o *neutron.Observed) map[neutron.Owner]*neutron.Observed {
		return map[neutron.Owner]*neutron.Observed{owner: o}
	}
	router := &neutron.Observed{Routers: []neutron.Router{{ID: "r", Name: "default/web"}}}
	movingFrom := func(value string) func(*Target) {
		return func(t *Target) { t.Network.Annotations = map[string]string{samplecrdv1.AnnotationMovingFrom: value} }
	}
	movedFrom := func(value string) func(*Target) {
		return func(t *Target) { t.Network.Annotations = map[string]string{samplecrdv1.AnnotationMovedFrom: value} }
	}
	inFile := func(uid types.UID, network string) func(*Target) {
		return func(t *Target) { t.Old.UID, t.Old.Status.NetworkID = uid, network }
	}
	importing := func(t *Target) { t.Network.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: "n-c"} }
	for _, test := range []struct {
		name     string
		owners   map[neutron.Owner]*neutron.Observed
		change   func(*Target)
		want     types.UID
		evidence string
		err      string
	}{
		{"nothing", nil, func(*Target) {}, "", "", ""},
		{"another cluster's", owning(neutron.Owner{Cluster: "other", UID: "a"}, having("n", "default/web")), func(*Target) {}, "", "", ""},
		{"by the name", named("a"), func(*Target) {}, "a", "the name", ""},
		{"by the name of a router that was left behind", owning(old("a"), router), func(*Target) {}, "a", "the name", ""},
		{"two of one name", with(named("a"), named("b")), func(*Target) {}, "", "", "the name fits several Networks of cluster old"},
		{"the file says which one", with(named("a"), named("b")), inFile("b", ""), "b", "metadata.uid in -f", ""},
		{"an unknown UID in the file: it is of another cluster, whose ID is meant", named("a"), inFile("c", ""), "", "", ""},
		{"the UID of this Network in the file", named("a"), inFile(liveUID, ""), "a", "the name", ""},
		{"the status has a third cluster's network", with(named("a"), owning(neutron.Owner{Cluster: "other", UID: "c"}, having("n-c", "default/web"))), inFile("", "n-c"), "", "", ""},
		{"the status has a network of this cluster", with(named("a"), owning(neutron.Owner{Cluster: "new", UID: liveUID}, having("n-c", "default/web"))), inFile("", "n-c"), "a", "the name", ""},
		{"the status in the file says which one", with(named("a"), named("b")), inFile("", "n-b"), "b", "status.networkID", ""},
		{"the status says which one", with(named("a"), named("b")), func(t *Target) { t.Network.Status.NetworkID = "n-a" }, "a", "status.networkID", ""},
		{"the cluster has another ID", with(named("a"), named(liveUID)), func(*Target) {}, liveUID, "its UID", ""},
		{"an import", with(named("a"), owning(old("c"), having("n-c", "theirs"))), importing, "c", "spec.import.networkID", ""},
		{"an import of two Networks", with(owning(old("c"), having("n-c", "theirs")), owning(old("d"), having("n-c", "theirs"))), importing, "", "", "fits several"},
		{"an import that nobody has, with a network of the name", named("a"), importing, "", "", ""},
		{"an interrupted move", with(named("a"), named("b")), movingFrom("old/a"), "a", "an earlier move", ""},
		{"an interrupted move from what nothing else fits", owning(old("a"), having("n", "team/db")), movingFrom("old/a"), "", "", "and nothing else does"},
		{"a finished move from what nothing else fits", owning(old("a"), having("n", "team/db")), movedFrom("old/a"), "", "", "and nothing else does"},
		{"a finished move of which nothing is there", nil, movedFrom("old/a"), "", "", ""},
		{"a finished move", owning(neutron.Owner{Cluster: "new", UID: liveUID}, having("n", "team/db")), movedFrom("old/a"), "a", "an earlier move", ""},
		{"an interrupted move of which nothing is left", nil, movingFrom("old/a"), "a", "an earlier move", ""},
		{"an interrupted move from another cluster", named("a"), movingFrom("other/a"), "", "", "finish it with -from-cluster-id=other"},
		{"a finished move of which nothing is there, and another network of the name", named("b"), movedFrom("old/a"), "b", "the name", ""},
		{"a finished move from another cluster", named("a"), movedFrom("other/b"), "a", "the name", ""},
		{"an interrupted move whose annotation somebody has removed",
			owning(neutron.Owner{Cluster: "new", UID: liveUID}, having("n", "default/web", old("a").Mark())), func(*Target) {}, "a", "an earlier move", ""},
		{"two such moves to one Network",
			owning(neutron.Owner{Cluster: "new", UID: liveUID}, having("n", "default/web", old("a").Mark(), old("b").Mark())), func(*Target) {}, "", "", "a: marks of subnets"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := Target{
				Network: &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: liveUID}},
			}
			test.change(&target)
			owner, evidence, err := inventory{from: "old", to: "new", owners: test.owners}.match(target)
			if err == nil && (owner.UID != test.want || evidence != test.evidence) {
				t.Errorf("got %v by %q, want %s by %q", owner, evidence, test.want, test.evidence)
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

// What another Network of this cluster owns is not matched, nor is what a Network only observes.
func TestMatchLeavesWhatOthersHave(t *testing.T) {
	imported := samplecrdv1.NetworkSpec{Import: &samplecrdv1.ImportSpec{NetworkID: "n"}}
	observed := imported
	observed.ManagementPolicy = samplecrdv1.ManagementObserve
	for _, test := range []struct {
		name   string
		spec   samplecrdv1.NetworkSpec
		isHere bool
		want   types.UID
	}{
		{"an import", imported, false, "a"},
		{"an import that another Network here has", imported, true, ""},
		{"an import that is only observed", observed, false, ""},
		{"a name", samplecrdv1.NetworkSpec{}, false, "a"},
		{"the name of what another Network here has", samplecrdv1.NetworkSpec{}, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := inventory{from: "old", to: "new", here: map[types.UID]bool{"a": test.isHere},
				owners: map[neutron.Owner]*neutron.Observed{{Cluster: "old", UID: "a"}: having("n", "default/web")}}
			n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: liveUID}, Spec: test.spec}
			owner, _, err := i.match(Target{Network: n})
			if owner.UID != test.want || err != nil {
				t.Errorf("got %v, %v, want %q", owner, err, test.want)
			}
		})
	}
}

// Only a request of the pause itself shows that the pause was seen.
func TestCheckOldSide(t *testing.T) {
	const mayWork, tooEarly = "may work on it", "had not paused the old Network when -f was made"
	for _, test := range []struct {
		name, paused, requested, handled string
		uid                              types.UID
		want                             string
	}{
		{"paused for the move", "true", "move-1", "move-1", "old", ""},
		{"the controller has not seen it", "true", "move-2", "move-1", "old", tooEarly},
		{"an older request", "true", "yesterday", "yesterday", "old", mayWork},
		{"the request at the end of an earlier move", "true", unlockPrefix + "1", unlockPrefix + "1", "old", mayWork},
		{"not paused", "", "move-1", "move-1", "old", mayWork},
		{"a manifest", "", "", "", "", mayWork},
		{"another Network than the one that has the network", "true", "move-1", "move-1", "another", "-f has Network another, and by"},
		{"the Network of this cluster itself", "true", "move-1", "move-1", liveUID, "-f has this Network itself"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{UID: test.uid, Annotations: map[string]string{
				samplecrdv1.AnnotationPaused: test.paused, samplecrdv1.AnnotationReconcileRequestedAt: test.requested,
			}}}
			n.Status.LastHandledReconcileAt = test.handled
			p := pair{Target: Target{&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{UID: liveUID}}, *n}, handover: neutron.Handover{From: neutron.Owner{Cluster: "old", UID: "old"}}}
			err := (&mover{}).checkOldSide(p)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err := (&mover{request: Request{OldIsStopped: true}}).checkOldSide(p); err != nil {
				t.Error(err)
			}
		})
	}
}
