// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// history has all versions of the Networks that the API server has stored. It sees them by a watch.
type history struct {
	oracle.History
	world *world

	mu sync.Mutex
	// last has the last version of each Network; nil: it is gone.
	last map[types.UID]*samplecrdv1.Network
	// versions is how many versions there were when this one had been added.
	versions map[string]int
	// untilGone is how many versions there were before the Network went.
	untilGone map[types.UID]int
	// isLost has the Networks that went without having been told to wait: a restore of etcd has lost them, or their
	// finalizer.
	isLost map[types.UID]bool
	// isRestored has the Networks that a restore has brought back, or left as they were.
	isRestored set
	// endWatch ends the watch, and listed is closed when it has been started again.
	endWatch context.CancelFunc
	listed   chan struct{}
	// paused is locked while etcd is restored.
	paused sync.Mutex
}

// keyOf distinguishes versions. After a restore of etcd, revisions are used again.
func keyOf(n *samplecrdv1.Network) string {
	return fmt.Sprint(n.UID, n.ResourceVersion, n.Generation, n.DeletionTimestamp)
}

// add must be called with the lock held.
func (h *history) add(n *samplecrdv1.Network, isGone bool) {
	if isGone {
		h.untilGone[n.UID] = h.Len()
	}
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

// follow watches the Networks until ctx is done.
func (h *history) follow(ctx context.Context) {
	for ctx.Err() == nil {
		h.paused.Lock()
		watching, cancel := context.WithCancel(ctx)
		h.mu.Lock()
		h.endWatch = cancel
		h.mu.Unlock()
		h.paused.Unlock()
		watcher, err := watchtools.NewRetryWatcherWithContext(watching, h.list(watching), h)
		if err != nil {
			cancel()
			continue
		}
		for event := range watcher.ResultChan() {
			if n, ok := event.Object.(*samplecrdv1.Network); ok && event.Type != watch.Bookmark {
				h.mu.Lock()
				h.add(n, event.Type == watch.Deleted)
				h.mu.Unlock()
			}
		}
		cancel()
	}
}

// WatchWithContext starts a watch.
func (h *history) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return h.world.networks.Watch(ctx, options)
}

// list adds what has changed since the last watch, and returns the revision.
func (h *history) list(ctx context.Context) string {
	var all *samplecrdv1.NetworkList
	_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (done bool, err error) {
		all, err = h.world.networks.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return ""
	}
	exists := map[types.UID]bool{}
	for i := range all.Items {
		n := &all.Items[i]
		exists[n.UID] = true
		if h.world.restores.Load() > 0 {
			h.isRestored.add(string(n.UID))
		}
		if last := h.last[n.UID]; last == nil || keyOf(last) != keyOf(n) {
			h.add(n, false)
		}
	}
	for uid, last := range h.last {
		if last != nil && !exists[uid] {
			if isRestored := h.listed != nil; !isRestored && last.DeletionTimestamp == nil && len(last.Finalizers) == 0 {
				// A controller can have added it meanwhile, too late: the API server has deleted the Network in spite of it.
				last = last.DeepCopy()
				last.Finalizers = []string{samplecrdv1.Finalizer}
				h.add(last, false)
			}
			h.add(last, true)
			h.isLost[uid] = true
			h.world.count("Networks that a restore has lost")
		}
	}
	if h.listed != nil {
		close(h.listed)
		h.listed = nil
	}
	return all.ResourceVersion
}

// stop ends the watch before a restore of etcd. The returned function starts it again, and waits until it has
// seen what there is.
func (h *history) stop() (start func()) {
	h.paused.Lock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endWatch()
	listed := make(chan struct{})
	h.listed = listed
	return func() {
		h.paused.Unlock()
		<-listed
	}
}

// mayBeLeft reports whether Neutron may still have something of the Network although it is gone.
func (h *history) mayBeLeft(uid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isLost[types.UID(uid)]
}

func (h *history) lastOf(uid types.UID) (n *samplecrdv1.Network, isKnown bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, isKnown = h.last[uid]
	return n, isKnown
}

// await waits until the history has that version, and returns how many versions there were then. It
// fails if etcd is restored meanwhile, or if the client gives up.
func (h *history) await(ctx context.Context, n *samplecrdv1.Network) (versions int, ok bool) {
	restores := h.world.restores.Load()
	_ = wait.PollUntilContextCancel(ctx, 2*time.Millisecond, true, func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if versions, ok = h.versions[keyOf(n)]; !ok {
			// The one that removes the last finalizer is never stored, and one that was stored while there was no watch is not known.
			last, isKnown := h.last[n.UID]
			versions, ok = h.untilGone[n.UID], isKnown && last == nil
		}
		return ok || h.world.restores.Load() != restores, nil
	})
	return versions, ok
}

// catchUp waits until the history has the Network as it is at the moment.
func (h *history) catchUp(ctx context.Context, uid types.UID) {
	last, isKnown := h.lastOf(uid)
	if !isKnown || last == nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		live, err := h.world.networks.Get(ctx, last.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.UID != uid {
			now, _ := h.lastOf(uid)
			return now == nil, nil
		}
		if err != nil {
			return false, nil // the API server is away
		}
		_, ok := h.await(ctx, live)
		return ok, nil
	})
}
