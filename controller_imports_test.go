// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// importing makes a Network import the network with that ID.
func importing(id string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) { n.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: id} }
}

// untag removes a Network's mark from an imported network, as another client.
func (f *fixture) untag(id string, uid types.UID) {
	f.t.Helper()
	defer f.TakeJournal()
	_, err := f.Client.Delete(f.t.Context(), f.Client.ServiceURL("networks", id, "tags", neutron.Owner{Cluster: world.Cluster, UID: uid}.ImportTag()), nil)
	must(f.t, err)
}

// tag adds a tag to a network, as another client.
func (f *fixture) tag(id, tag string) {
	f.t.Helper()
	defer f.TakeJournal()
	_, err := f.Client.Put(f.t.Context(), f.Client.ServiceURL("networks", id, "tags", tag), nil, nil, nil)
	must(f.t, err)
}

// A Network that was created again has another UID. If the informer has missed the deletion, nothing but
// the update says that the first one is gone.
func TestImportOfANetworkWhoseDeletionWasMissed(t *testing.T) {
	f := newFixture(t)
	id := f.CreateInNeutron("legacy", "", "10.0.0.0/24")
	first := world.NewNetwork("", "", importing(id))
	f.API.Put(first)
	f.refresh()
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
	before := f.Get()
	f.untag(id, before.UID)

	again := world.NewNetwork("", "", importing(id), func(n *samplecrdv1.Network) { n.UID = "another" })
	f.API.Put(again)
	f.controller.handlers(klog.Logger{}).OnUpdate(before, again)
	f.relist()
	f.refresh()
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
}

// second returns the fixture of another cluster with the same project in Neutron. Its controller
// has this cluster ID.
func (f *fixture) second(cluster string, networks ...*samplecrdv1.Network) *fixture {
	f.t.Helper()
	s := &fixture{World: world.New(f.t, networks...), t: f.t}
	_ = s.Neutron.Close()
	s.Neutron, s.Client = f.Neutron, f.Client
	s.startAs(cluster)
	return s
}

// clone returns a second cluster with a copy of the Network and its status.
func (f *fixture) clone(cluster string) *fixture {
	f.t.Helper()
	return f.second(cluster, f.Get().DeepCopy())
}

// Edits of a copy of a Network that imports its network.
var cloneEdits = []struct {
	name string
	edit func(*samplecrdv1.Network)
}{
	{"none", func(*samplecrdv1.Network) {}},
	{"tags, and another subnet", func(n *samplecrdv1.Network) {
		n.Spec.Tags = []samplecrdv1.Tag{"clone"}
		n.Spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "clone", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.77.0.0/24"}}}
	}},
	{"another gateway", func(n *samplecrdv1.Network) { n.Spec.CIDR, n.Spec.Gateway = "10.0.0.0/24", "10.0.0.99" }},
	{"deletion, and Retain", func(n *samplecrdv1.Network) {
		n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain
		world.BeingDeleted(n)
	}},
	{"deletion, and Delete", func(n *samplecrdv1.Network) {
		n.Spec.DeletionPolicy = samplecrdv1.DeletionDelete
		world.BeingDeleted(n)
	}},
	{"only observed", func(n *samplecrdv1.Network) { n.Spec.ManagementPolicy = samplecrdv1.ManagementObserve }},
}

// A copy of a cluster that has a cluster ID of its own has the same UIDs, specs and statuses. At whichever write of
// the original it starts, it does not touch what the original has imported, and the original goes on.
func TestAClusterCopiedAtAnyWriteDoesNotTouchImports(t *testing.T) {
	t.Parallel()
	var copies atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range world.Imports {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for write, crashed := 1, true; crashed && !t.Failed(); write++ {
					for j, edit := range cloneEdits {
						if leftOut(i+write+j, 2) {
							continue
						}
						cluster := []string{"copy", "44444444-0000-0000-0000-000000000000"}[(write+j/2)%2]
						crashed = copyAt(t, s, write, cluster, edit.edit, &copies)
						if t.Failed() {
							t.Logf("at write %d, the edit in %s is: %s", write, cluster, edit.name)
						}
					}
				}
			})
		}
	})
	t.Logf("%d copies", copies.Load())
}

// copyAt lets another cluster with a copy of the Network work while the original is at this write. It returns false
// if there are fewer writes.
func copyAt(t *testing.T, s world.Scenario, write int, cluster string, edit func(*samplecrdv1.Network), copies *atomic.Int64) (crashed bool) {
	t.Helper()
	f := prepare(t, s)
	f.CrashAt(&world.Crash{Write: write})
	if err := f.settle(s.Act); err != nil {
		t.Error(err)
	}
	crashed = f.Crashed()
	f.CrashAt(nil)
	n := f.Find()
	before := f.Describe(f.LegacyID())
	if n != nil && strings.Contains(before, neutron.Owner{Cluster: world.Cluster, UID: n.UID}.ImportTag()) {
		copies.Add(1)
		c := f.second(cluster, n.DeepCopy())
		c.Edit(edit)
		for range 3 {
			_ = c.round()
		}
		if after := f.Describe(f.LegacyID()); after != before {
			t.Errorf("the copy has changed the network to\n%s\nfrom\n%s", after, before)
		}
		if n := c.Find(); n != nil && !n.IsObserved() && n.DeletionTimestamp == nil {
			c.ExpectReady(samplecrdv1.ReasonImportRefused, samplecrdv1.ConditionStalled)
		}
	}
	for _, violation := range f.finish(s) {
		t.Error(violation)
	}
	return crashed
}

// A mark of an older version names no cluster. A copy with an ID of its own that meets one leaves it to the user: the
// original may still run the older version.
func TestACopiedClusterDoesNotTakeAnOlderMarkForItsOwn(t *testing.T) {
	for _, edit := range cloneEdits {
		t.Run(edit.name, func(t *testing.T) {
			f := newFixture(t)
			id := f.CreateInNeutron("legacy", "", "10.0.0.0/24")
			f.API.Put(world.NewNetwork("", "", importing(id)))
			f.refresh()
			f.mustSync()
			f.untag(id, world.UID)
			f.tag(id, neutron.ImportTagPrefix+string(world.UID))
			before := f.Describe(id)
			c := f.clone("copy")
			c.Edit(edit.edit)
			for range 3 {
				_ = c.round()
			}
			if after := f.Describe(id); after != before {
				t.Errorf("the copy has changed the network to\n%s\nfrom\n%s", after, before)
			}
		})
	}
}

// A sync of an imported network that is as it should be makes no request, and writes nothing.
func TestASyncOfAnImportWithNothingToDoIsFree(t *testing.T) {
	for _, policy := range []samplecrdv1.ManagementPolicy{samplecrdv1.ManagementManaged, samplecrdv1.ManagementObserve} {
		t.Run(string(policy), func(t *testing.T) {
			f := newFixture(t)
			id := f.CreateInNeutron("legacy", "", "10.0.0.0/24")
			f.API.Put(world.NewNetwork("10.0.0.0/24", "", importing(id), func(n *samplecrdv1.Network) { n.Spec.ManagementPolicy = policy }))
			f.refresh()
			f.mustSync()
			f.refresh()
			f.TakeJournal()
			f.mustSync()
			f.ExpectJournal()
			f.relist()
			f.TakeJournal()
			f.mustSync()
			f.ExpectJournal()
			f.Neutron.SetFault(fails(http.MethodGet, "/networks", internalError)) // not even a look
			f.mustSync()
		})
	}
}

// A paused Network that has not taken its network over can be deleted at once.
func TestAPausedImportThatHasNothingIsDeletedAtOnce(t *testing.T) {
	f := newFixture(t)
	id := f.CreateInNeutron("legacy", "", "10.0.0.0/24")
	f.API.Put(world.NewNetwork("", "", importing(id), func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
	}))
	for range 2 {
		f.refresh()
		_ = f.sync()
	}
	if n := f.Get(); len(n.Finalizers) > 0 {
		t.Errorf("it has the finalizers %q, and the status %+v", n.Finalizers, n.Status)
	}
}

// Who reads a Network may not be allowed to see those of other namespaces.
func TestARefusalNamesNoNetworkOfAnotherNamespace(t *testing.T) {
	f := newFixture(t)
	holder := world.NewNetwork("10.0.0.0/24", "")
	for namespace, want := range map[string]string{
		holder.Namespace: "import: in use by the Network " + holder.Namespace + "/" + holder.Name,
		"elsewhere":      "import: in use by the Network with the UID " + string(holder.UID),
	} {
		f.see([]*samplecrdv1.Network{holder})
		refusal := &neutron.Error{Op: "import", Reason: neutron.ImportRefused, Holder: holder.UID, Message: "in use by the Network with the UID " + string(holder.UID)}
		if got := neutron.NameHolder(refusal, f.controller.namesIn(namespace)).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
