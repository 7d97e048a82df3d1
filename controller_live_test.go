// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// What a vanished Network left, the Network as it is past the cache, and a restored API server.

// syncVanished syncs the keys of the vanished Networks that have been started. It returns their
// errors.
func (f *fixture) syncVanished() error {
	f.t.Helper()
	for f.controller.queue.Len() > 0 {
		key, _ := f.controller.queue.Get()
		f.controller.queue.Done(key)
		if orphans.IsVanishedKey(key) && !slices.Contains(f.vanished, key) {
			f.vanished = append(f.vanished, key)
		}
	}
	var errs []error
	for _, key := range f.vanished {
		errs = append(errs, f.controller.syncHandler(quiet(f.t), key))
	}
	return errors.Join(errs...)
}

func (f *fixture) mustSyncVanished() {
	f.t.Helper()
	if err := f.syncVanished(); err != nil {
		f.t.Fatalf("sync of what vanished Networks left: %v", err)
	}
}

// An API server that was restored from a backup from before the Network does not have it. That
// proves nothing: a user may restore the Network as well.
func TestNetworkThatARestoredAPIServerHasLostStaysInNeutron(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"nothing else happens":      func(*fixture) {},
		"drift is repaired":         func(f *fixture) { f.SetGateway(f.Get().Status.SubnetID, "10.0.0.77"); f.relist() },
		"the gateway was edited":    func(f *fixture) { f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" }) },
		"the CIDR was edited":       func(f *fixture) { f.Edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.1.0.0/24" }) },
		"it was deleted":            func(f *fixture) { f.Edit(world.BeingDeleted) },
		"a reconcile was requested": func(f *fixture) { f.Edit(world.ReconcileRequested) },
	} {
		t.Run(name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			id := f.Get().Status.NetworkID
			change(f)
			f.refresh()
			gone := f.Get()
			f.API.Restore(0)
			// It may fail. Then the informer lists, and has a tombstone.
			_ = f.quietSync()
			_ = f.syncVanished()
			f.controller.handlers(klog.Logger{}).DeleteFunc(networkinformers.DeletedNetwork{
				OptionalObj: gone, FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: world.Key.String(), Obj: gone}})
			f.mustSync()
			f.mustSyncVanished()
			for _, description := range f.Descriptions() {
				if owner, marked := neutron.OwnerOf(description); !marked || owner.UID != gone.UID {
					t.Errorf("the mark is gone: %q", description)
				}
			}
			if f.SubnetOf(id) == "" {
				t.Error("the subnet is gone")
			}
		})
	}
}

// edits are what users and other clients do to a Network while the cache does not show it yet.
var edits = []struct {
	name string
	do   func(*fixture)
	// harmless: no decision rests on it.
	harmless bool
}{
	{"label", edit(func(n *samplecrdv1.Network) { n.Labels = map[string]string{"a": "b"} }), true},
	{"pause", edit(world.Paused), false},
	{"deletionPolicy Retain", edit(func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain }), false},
	{"deletionPolicy Delete", edit(func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionDelete }), false},
	{"delete", edit(func(n *samplecrdv1.Network) {
		if n.DeletionTimestamp == nil {
			world.BeingDeleted(n)
		}
	}), false},
	{"CIDR", edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.7.0.0/24" }), false},
	{"gateway", edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "None" }), false},
	{"finalizer removed", edit(func(n *samplecrdv1.Network) { n.Finalizers = nil }), false},
	{"status removed", edit(func(n *samplecrdv1.Network) { n.Status = samplecrdv1.NetworkStatus{} }), false},
	{"status.router removed", edit(func(n *samplecrdv1.Network) { n.Status.Router = nil }), false},
	{"status.router of another writer", edit(func(n *samplecrdv1.Network) { n.Status.Router = &samplecrdv1.RouterStatus{ID: "another"} }), false},
	{"router", edit(func(n *samplecrdv1.Network) {
		n.Spec.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: "another"}}
	}), false},
	{"status.cloud cleared", edit(func(n *samplecrdv1.Network) { n.Status.Cloud = "" }), false},
	{"status.networkID of another writer", edit(func(n *samplecrdv1.Network) { n.Status.NetworkID = "99999999-9999-4999-8999-999999999999" }), false},
	{"status of another place", edit(func(n *samplecrdv1.Network) { n.Status.ProjectID, n.Status.Region = "another", "another" }), false},
	{"another Network has its name", func(f *fixture) {
		f.API.Remove(world.Key.Namespace, world.Key.Name)
		f.Create(samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"}})
	}, false},
	{"gone", func(f *fixture) { f.API.Remove(world.Key.Namespace, world.Key.Name) }, false},
	{"lost by a restore", func(f *fixture) { f.API.Restore(0) }, false},
}

func edit(change func(*samplecrdv1.Network)) func(*fixture) {
	return func(f *fixture) { f.Edit(change) }
}

// editAtRead syncs the scenario's first changes with a cache that has them. Right before the read
// past the cache with this number, the Network changes; 0: before the sync. It returns the
// irreversible requests that were sent after that, a removed mark among them, whether the change
// made a difference, and whether there was such a read.
func editAtRead(t *testing.T, s world.Scenario, paused bool, read int, do func(*fixture)) (sent []string, differs, done bool) {
	t.Helper()
	f := prepare(t, s)
	s.Act(f.World)
	if n := f.Find(); paused && n != nil {
		f.Edit(world.Paused)
	}
	f.start()
	var marks []string
	act := func() {
		done = true
		if before := f.Find(); before != nil {
			do(f)
			after := f.Find()
			differs = after == nil || !gocmp.Equal(before, after, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion"))
		}
		marks = f.Descriptions()
		f.TakeJournal()
	}
	reads := 0
	f.AroundKubernetes(func(r apiserver.Request, request func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "get" {
			if reads++; reads == read {
				act()
			}
		}
		return request()
	})
	if read == 0 {
		act()
	}
	for range 3 { // a router takes more than one sync
		_ = f.quietSync() // it may fail
		_ = f.syncVanished()
		if done {
			break
		}
		f.refresh()
	}
	if !done {
		return nil, false, false
	}
	sent = slices.DeleteFunc(f.TakeJournal(), func(request string) bool { return !slices.Contains(world.Irreversible, request) })
	now := f.Descriptions()
	for _, mark := range marks {
		if i := slices.Index(now, mark); i >= 0 {
			now = slices.Delete(now, i, i+1)
		} else if mark != "" {
			sent = append(sent, "a mark was removed")
		}
	}
	return sent, differs, true
}

// Whatever a decision rests on can change while the cache shows the Network as it was. Then nothing
// irreversible is done in Neutron, neither at once nor in the middle of a sync.
func TestNothingIrreversibleIsDoneWhenTheNetworkHasChangedPastTheCache(t *testing.T) {
	t.Parallel()
	var runs, irreversibles atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range world.Scenarios {
			for j, change := range edits {
				if leftOut(i+j, 10) {
					continue
				}
				t.Run(s.Name+", "+change.name, func(t *testing.T) {
					t.Parallel()
					for read := 0; ; read++ {
						sent, differs, done := editAtRead(t, s, false, read, change.do)
						if !done {
							break
						}
						runs.Add(1)
						if change.harmless || !differs {
							irreversibles.Add(int64(len(sent)))
						} else if len(sent) > 0 {
							t.Errorf("at read %d: %q", read, sent)
						}
					}
				})
			}
			if leftOut(i, 1) {
				continue
			}
			t.Run(s.Name+", resumed", func(t *testing.T) {
				t.Parallel()
				runs.Add(1)
				if sent, _, _ := editAtRead(t, s, true, 0, edit(world.Resumed)); len(sent) > 0 {
					t.Errorf("%q", sent)
				}
			})
		}
	})
	if irreversibles.Load() == 0 && !testing.Short() {
		t.Error("no scenario does anything irreversible")
	}
	t.Logf("%d runs of %d scenarios with %d changes; %d irreversible requests after a change that does not matter",
		runs.Load(), len(world.Scenarios), len(edits), irreversibles.Load())
}
