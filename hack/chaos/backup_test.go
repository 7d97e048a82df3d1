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

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

const (
	whileWorking = "restores of etcd while the users work"
	atRest       = "restores of etcd at rest"
)

// restoreEtcd takes backups of etcd and restores them later, while the users work. About half
// of the controllers are killed at that time. The others keep what they have in memory.
func (w *world) restoreEtcd(ctx context.Context, rand *rand.Rand) error {
	all := w.killsLeft()
	for i := range w.plan.restores {
		// Each restore has its part of the work: the backup in the first half of it, and the
		// restore in the second.
		part := max(1, all/w.plan.restores)
		end := all - part*(i+1)
		if err := w.waitForKills(ctx, end+part/2+rand.IntN(1+part/4)); err != nil {
			return err
		}
		w.backup = filepath.Join(w.dir, fmt.Sprintf("backup-%d", i))
		if err := w.withoutKubernetes("a backup of etcd is taken", func() error { return w.controlPlane.Backup(w.backup) }); err != nil {
			return err
		}
		if err := w.waitForKills(ctx, end+rand.IntN(1+part/2)); err != nil {
			return err
		}
		if err := w.restore(ctx, func() bool { return rand.IntN(2) == 0 }); err != nil {
			return err
		}
		w.ahead.Add(-1)
		w.tally.add(whileWorking)
	}
	return nil
}

// restoreAtRest restores the last backup of etcd again when all is in order. The controllers
// keep what they have in memory, and nothing raises the revisions to where they were. It
// returns the violations after that.
func (w *world) restoreAtRest(ctx context.Context) (violations, error) {
	if err := w.restore(ctx, func() bool { return false }); err != nil {
		return nil, err
	}
	w.tally.add(atRest)
	u := &user{world: w}
	for _, n := range w.wanted {
		if err := u.resume(ctx, n); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	found, err := w.waitForOrder(ctx)
	w.tally.note("order after a restore at rest", time.Since(started))
	return found, err
}

// waitForKills waits until at most that many kills are left.
func (w *world) waitForKills(ctx context.Context, left int) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return w.killsLeft() <= left, nil
	})
}

// withoutKubernetes does something during which the API server does not work.
func (w *world) withoutKubernetes(what string, do func() error) error {
	w.kubernetes.Lock()
	defer w.kubernetes.Unlock()
	w.away.Add(1)
	w.tally.log("%s", what)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	w.away.Add(1)
	w.tally.log("%s: done", what)
	return nil
}

func (w *world) restore(ctx context.Context, kill func() bool) error {
	w.users.Lock()
	defer w.users.Unlock()
	before, err := w.existing(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = w.withoutKubernetes("a backup of etcd is restored", func() error {
		return w.controlPlane.Restore(w.backup, func() {
			for _, c := range w.controllers {
				c.record.etcdRestored()
				if kill() {
					w.tally.add("controllers that were killed at a restore")
					c.killAll()
				}
			}
		})
	})
	if err != nil {
		return err
	}
	after, err := w.existing(ctx)
	if err != nil {
		return err
	}
	w.restored.Store(true)
	w.adopt(before, after, began)
	return nil
}

// existing returns all Networks of the controllers by their UIDs.
func (w *world) existing(ctx context.Context) (map[types.UID]*samplecrdv1.Network, error) {
	all := map[types.UID]*samplecrdv1.Network{}
	for _, c := range w.controllers {
		var list *samplecrdv1.NetworkList
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			list, last = w.client.SamplecrdV1().Networks(c.namespace).List(ctx, metav1.ListOptions{})
			return last == nil, nil
		})
		if err != nil {
			return nil, errors.Join(err, last)
		}
		for i := range list.Items {
			all[list.Items[i].UID] = &list.Items[i]
		}
	}
	return all, nil
}

// adopt makes what a restored backup has what the users want.
func (w *world) adopt(before, after map[types.UID]*samplecrdv1.Network, began time.Time) {
	for uid := range before {
		if after[uid] == nil {
			w.intents.add(uid, intent{lost: true, sent: began, answered: time.Now()})
			w.tally.add("Networks that a restore has lost")
		}
	}
	byName := map[string]*samplecrdv1.Network{}
	for uid, network := range after {
		byName[network.Namespace+"/"+network.Name] = network
		if !slices.Contains(network.Finalizers, samplecrdv1.Finalizer) {
			w.intents.unguard(uid)
		}
		if before[uid] == nil {
			w.tally.add("Networks that a restore has brought back")
		} else if before[uid].Generation != network.Generation {
			w.tally.add("Networks with an older spec since a restore")
		}
	}
	for _, n := range w.wanted {
		n.restores++
		n.spec, n.paused, n.uid, n.routers = nil, false, "", nil
		network := byName[n.namespace+"/"+n.name]
		if network == nil {
			continue
		}
		n.uid, n.last, n.paused = network.UID, network.Spec, network.IsPaused()
		if network.DeletionTimestamp.IsZero() {
			n.spec = &network.Spec
		}
		i := w.intentOf(n)
		i.sent, i.answered = began, time.Now()
		w.intents.add(n.uid, i)
	}
}

// expires reports whether a watch continues from before the last restore of etcd. An API server
// whose revisions went back would send nothing until they have caught up. So etcd's documentation
// wants the old revisions to be marked as compacted, and then it answers 410.
func (p *proxy) expires(r *http.Request) bool {
	query := r.URL.Query()
	if query.Get("watch") != "true" {
		return false
	}
	restores := p.record.etcdRestores()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.seen[r.URL.Path]
	p.seen[r.URL.Path] = restores
	return before < restores && query.Get("sendInitialEvents") != "true"
}

func answerExpired(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_ = json.NewEncoder(w).Encode(apierrors.NewResourceExpired("too old resource version").Status())
}
