// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/move"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

const (
	newCluster = "55555555-0000-4000-8000-000000000000"
	newUID     = types.UID("66666666-0000-4000-8000-000000000000")
)

// manifestOf returns the Network as a new cluster has it after kubectl apply.
func manifestOf(old *samplecrdv1.Network) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, UID: newUID, Generation: 1}}
	old.Spec.DeepCopyInto(&n.Spec)
	return n
}

// recoveries are the ways in which the new cluster gets the Network, and what -f has of the old one.
var recoveries = []struct {
	name string
	make func(old *samplecrdv1.Network) move.Target
}{
	{"the same Network, of a cluster with another ID", func(old *samplecrdv1.Network) move.Target {
		return move.Target{Network: old.DeepCopy()}
	}},
	{"a manifest", func(old *samplecrdv1.Network) move.Target {
		return move.Target{Network: manifestOf(old)}
	}},
	{"a dump with another name", func(old *samplecrdv1.Network) move.Target {
		return move.Target{Network: manifestOf(old), Old: *old}
	}},
	{"a backup with the status", func(old *samplecrdv1.Network) move.Target {
		n := manifestOf(old)
		n.Finalizers, n.Status = old.Finalizers, *old.Status.DeepCopy()
		return move.Target{Network: n}
	}},
}

// TestEveryScenarioIsMoved gives what a controller has made to a Network of another cluster, in which move is killed at each of its
// writes. Nothing but marks may change, neither then nor when both controllers work again.
func TestEveryScenarioIsMoved(t *testing.T) {
	t.Parallel()
	var moves atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range slices.Concat(world.Scenarios, world.Imports) {
			if s.Unmarks() {
				continue // only the status says whose it is
			}
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for j := range recoveries {
					if leftOut(i+j, 2) {
						continue
					}
					for write, crashed := 1, true; crashed && !t.Failed(); write++ {
						if leftOut(i+j+write, 5) {
							continue
						}
						crashed = moveAt(t, s, j, write)
						moves.Add(1)
						if t.Failed() {
							t.Logf("%s, killed at write %d", recoveries[j].name, write)
						}
					}
				}
			})
		}
	})
	if n := moves.Load(); n < 20 {
		t.Errorf("only %d moves", n)
	}
}

// moveAt moves what the scenario has made while move is killed at this write, and moves the rest. It returns false if there are fewer
// writes.
func moveAt(t *testing.T, s world.Scenario, recovery, write int) (crashed bool) {
	t.Helper()
	f := prepare(t, s)
	if err := f.settle(s.Act); err != nil {
		t.Error(err)
	}
	old := f.Find()
	if old == nil || old.IsObserved() || old.Status.NetworkID == "" || old.Spec.Import != nil && !old.Status.Imported {
		return false // it owns nothing
	}
	before := f.Snapshot()
	target := recoveries[recovery].make(old.DeepCopy())
	c := f.second(newCluster, target.Network)
	from, to := neutron.Owner{Cluster: world.Cluster, UID: old.UID}, neutron.Owner{Cluster: newCluster, UID: target.Network.UID}

	c.CrashAt(&world.Crash{Write: write})
	_, _, _ = c.move(target.Old)
	crashed = c.Crashed()
	c.CrashAt(nil)
	halfway := f.Snapshot()
	c.startAs(newCluster)
	_ = c.round() // it is paused, or has all
	if diff := f.Snapshot().Diff(halfway); crashed && diff != "" {
		t.Errorf("the controller of the new cluster has not waited:\n%s", diff)
	}
	if out, code, err := c.move(target.Old); code != 0 || err != nil {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
	if diff := lasting(f.Snapshot()).Diff(lasting(remarked(before, from, to))); diff != "" {
		t.Errorf("move has changed more than marks:\n%s", diff)
	}
	moved := lasting(f.Snapshot())
	c.startAs(newCluster)
	must(t, c.settle(nothing))
	if isReady, reason, message := c.IsReady(); !isReady {
		t.Errorf("not ready: %s: %s", reason, message)
	}
	if target.Network.UID != old.UID {
		f.start()
		f.Edit(world.BeingDeleted)
		must(t, f.settle(nothing))
		if n := f.Find(); n != nil {
			t.Errorf("the old Network is still there: %v", n.Status.Conditions)
		}
	}
	if diff := lasting(f.Snapshot()).Diff(moved); diff != "" {
		t.Errorf("the controllers have changed what was moved:\n%s", diff)
	}
	return crashed
}

// move runs the subcommand in the cluster.
func (f *fixture) move(inFile samplecrdv1.Network) (out string, code int, err error) {
	f.t.Helper()
	var stdout bytes.Buffer
	clients := &kubeclient.Clients{ClusterID: newCluster, Kube: f.Secrets, Networks: f.Kube}
	cloud := neutron.NewCloud("test", f.NewCloud().Client(), newCluster, time.Hour)
	cloudOf := func(context.Context, *samplecrdv1.Network) (*neutron.Cloud, error) { return cloud, nil }
	request := move.Request{From: world.Cluster, OldIsStopped: true, Yes: true}
	code, err = request.Move(context.Background(), clients, cloudOf, []move.Target{{Network: f.Get(), Old: inFile}}, &stdout)
	return stdout.String(), code, err
}

// remarked returns the snapshot with the marks of another owner.
func remarked(s world.Snapshot, from, to neutron.Owner) world.Snapshot {
	next := world.Snapshot{}
	for key, object := range s {
		next[key] = map[string]any{}
		for field, value := range object {
			switch value := value.(type) {
			case string:
				next[key][field] = strings.ReplaceAll(value, from.Mark(), to.Mark())
			case []any:
				tags := slices.Clone(value)
				for i := range tags {
					if tags[i] == from.ImportTag() {
						tags[i] = to.ImportTag()
					}
				}
				slices.SortFunc(tags, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				next[key][field] = tags
			default:
				next[key][field] = value
			}
		}
	}
	return next
}

// lasting returns the snapshot without what changes with a mark, and with the tags in their order.
func lasting(s world.Snapshot) world.Snapshot {
	return remarked(s.Kept(s), neutron.Owner{}, neutron.Owner{})
}
