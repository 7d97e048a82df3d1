// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// history has all versions of the Networks that were ever stored. It watches etcd itself: a watch through kube-apiserver misses
// versions when that is killed. kube-apiserver removes versions from etcd that are older than five minutes. The watch is not so late.
type history struct {
	oracle.History
	world *world
	// stop ends what start has started, as soon as the history has all that is stored.
	stop func(context.Context) error

	mu   sync.Mutex
	etcd *clientv3.Client
	// last has the last version of each Network; nil: it is gone.
	last map[types.UID]*samplecrdv1.Network
	// versions is how many versions there were when this one had been added.
	versions map[string]int
	// isLost has the Networks that went without having been told to wait: a restore of etcd has lost them, or their
	// finalizer.
	isLost map[types.UID]bool
	// isRestored has the Networks that a restore has brought back, or left as they were.
	isRestored set
}

// keyOf distinguishes versions. After a restore of etcd, revisions are used again.
func keyOf(n *samplecrdv1.Network) string {
	return fmt.Sprint(n.UID, n.ResourceVersion, n.Generation, n.DeletionTimestamp)
}

// add must be called with the lock held.
func (h *history) add(n *samplecrdv1.Network, isGone bool) {
	h.Add(n, isGone)
	if last := h.last[n.UID]; isGone && last != nil && last.DeletionTimestamp == nil {
		h.isLost[n.UID] = true
	}
	h.last[n.UID] = n
	if isGone {
		h.last[n.UID] = nil
	}
	h.versions[keyOf(n)] = h.Len()
}

// networksInEtcd is the prefix of the Networks' keys in etcd.
const networksInEtcd = "/registry/" + samplecrdv1.GroupName + "/networks/" + namespace + "/"

// start adds what a restore of etcd has changed, if there was one, and then each version that is stored until stop is called.
func (h *history) start(ctx context.Context) error {
	endpoint, config, err := h.world.controlPlane.Etcd()
	if err != nil {
		return err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.etcd = etcd
	h.mu.Unlock()
	revision, changed, gone, err := h.compare(ctx)
	if err != nil {
		return errors.Join(err, etcd.Close())
	}
	h.restored(changed, gone)
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watch := etcd.Watch(watching, networksInEtcd, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(revision+1))
	var group sync.WaitGroup
	group.Go(func() { h.follow(watch) })
	h.stop = func(ctx context.Context) error {
		err := h.catchUp(ctx)
		cancel()
		group.Wait()
		return errors.Join(err, etcd.Close())
	}
	return nil
}

// catchUp waits until the history has all that is stored at the moment.
func (h *history) catchUp(ctx context.Context) error {
	return await(ctx, "what etcd has stored", func() bool {
		_, changed, gone, err := h.compare(ctx)
		return err == nil && len(changed)+len(gone) == 0
	})
}

// compare returns the revision of etcd, the Networks whose last version in the history is another one than in etcd, and those
// that are in the history only.
func (h *history) compare(ctx context.Context) (revision int64, changed, gone []*samplecrdv1.Network, err error) {
	h.mu.Lock()
	etcd := h.etcd
	h.mu.Unlock()
	found, err := etcd.Get(ctx, networksInEtcd, clientv3.WithPrefix())
	if err != nil {
		return 0, nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	exists := map[types.UID]bool{}
	for _, pair := range found.Kvs {
		n := decode(pair.Value, pair.ModRevision)
		exists[n.UID] = true
		if last := h.last[n.UID]; last == nil || keyOf(last) != keyOf(n) {
			changed = append(changed, n)
		}
	}
	for uid, last := range h.last {
		if last != nil && !exists[uid] {
			gone = append(gone, last)
		}
	}
	return found.Header.Revision, changed, gone, nil
}

// restored adds what a restore of etcd has changed.
func (h *history) restored(changed, gone []*samplecrdv1.Network) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range changed {
		h.add(n, false)
	}
	for _, n := range gone {
		h.add(n, true)
		h.isLost[n.UID] = true
		h.world.count("Networks that a restore has lost")
	}
	for uid, last := range h.last {
		if last != nil {
			h.isRestored.add(string(uid))
		}
	}
}

// follow adds what the watch sees until stop ends it.
func (h *history) follow(watch clientv3.WatchChan) {
	for response := range watch {
		h.mu.Lock()
		for _, event := range response.Events {
			if event.Type == clientv3.EventTypeDelete {
				h.add(decode(event.PrevKv.Value, event.Kv.ModRevision), true)
			} else {
				h.add(decode(event.Kv.Value, event.Kv.ModRevision), false)
			}
		}
		h.mu.Unlock()
		if err := response.Err(); err != nil {
			h.world.violate("the oracle cannot see what is stored: %v", err)
		}
	}
}

// decode returns a Network. kube-apiserver does not store the revision with it.
func decode(value []byte, revision int64) *samplecrdv1.Network {
	n := &samplecrdv1.Network{}
	if err := json.Unmarshal(value, n); err != nil {
		panic(err) // nobody else writes there
	}
	n.ResourceVersion = strconv.FormatInt(revision, 10)
	return n
}

// mayBeLeft reports whether Neutron may still have something of the Network although it is gone.
func (h *history) mayBeLeft(uid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isLost[types.UID(uid)]
}

// await waits until the history has that version, and returns how many versions there were then. It
// fails if etcd is restored meanwhile, or if the client gives up.
func (h *history) await(ctx context.Context, n *samplecrdv1.Network) (versions int, ok bool) {
	restores := h.world.restores.Load()
	_ = wait.PollUntilContextCancel(ctx, 2*time.Millisecond, true, func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if versions, ok = h.versions[keyOf(n)]; !ok {
			// The one that removes the last finalizer is never stored.
			last, isKnown := h.last[n.UID]
			versions, ok = h.Len(), isKnown && last == nil
		}
		return ok || h.world.restores.Load() != restores, nil
	})
	return versions, ok
}
