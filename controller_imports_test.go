/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"net/http"
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
	_, err := f.Client.Delete(f.t.Context(), f.Client.ServiceURL("networks", id, "tags", neutron.Owner{UID: uid}.ImportTag()), nil)
	if err != nil {
		f.t.Fatal(err)
	}
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

// Two clusters import one network: one gets it, and the other one when the first gives it back.
func TestTwoClustersImportOneNetwork(t *testing.T) {
	f := newFixture(t)
	id := f.CreateInNeutron("legacy", "", "10.0.0.0/24")
	f.API.Put(world.NewNetwork("", "", importing(id)))
	f.refresh()
	f.mustSync()
	s := f.second("another-cluster", world.NewNetwork("", "", importing(id), func(n *samplecrdv1.Network) { n.UID = "another" }))
	if err := s.sync(); neutron.ReasonOf(err) != neutron.ImportRefused {
		t.Fatalf("got %v", err)
	}
	s.ExpectReady(samplecrdv1.ReasonImportRefused, samplecrdv1.ConditionStalled)
	f.ExpectReady(samplecrdv1.ReasonAvailable)

	f.Edit(world.BeingDeleted)
	f.refresh()
	f.mustSync()
	s.relist()
	s.mustSync()
	s.ExpectReady(samplecrdv1.ReasonAvailable)
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
