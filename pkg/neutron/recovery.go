// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// recovery has the owners whose last sync ended because the cloud was away. They are synced again at once when
// it answers again. Its methods may be called concurrently. The zero value is empty.
type recovery struct {
	mu sync.Mutex
	// owners has true for those that wait, and false for those that were woken and then failed again with a
	// request of their own: they are retried like any other failure. So requests that fail for ever do not
	// wake anybody for ever. Those whose credentials are refused again always wait: their next retry can be far.
	owners map[types.UID]bool
}

// ended remembers how a sync of the owner ended.
func (r *recovery) ended(owner types.UID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isAway(err) {
		delete(r.owners, owner)
		return
	}
	if _, wasWoken := r.owners[owner]; wasWoken && !IsUnsent(err) && ReasonOf(err) != Unauthenticated {
		return
	}
	if r.owners == nil {
		r.owners = map[types.UID]bool{}
	}
	r.owners[owner] = true
}

// forget forgets an owner that no longer exists.
func (r *recovery) forget(owner types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}

// wake returns the owners that wait.
func (r *recovery) wake() (waiting []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, waits := range r.owners {
		if waits {
			waiting = append(waiting, owner)
			r.owners[owner] = false
		}
	}
	return waiting
}

// SyncEnded remembers whether the cloud is why a sync of the owner failed: then the handlers of the Observer are
// called for the owner when the cloud answers again. The Cloud may be nil.
func (c *Cloud) SyncEnded(owner types.UID, err error) {
	if c == nil {
		return
	}
	c.recovery.ended(owner, err)
	// The cloud may have answered again during the sync. Before the first list, syncs wait for that list.
	if _, _, listErr := c.observer.Get(owner); IsUnsent(err) && listErr == nil && !c.observer.isAway() {
		c.observer.callHandlers(owner)
	}
}

// wake calls the handlers for the owners that wait for the cloud.
func (c *Cloud) wake() {
	for _, owner := range c.recovery.wake() {
		c.observer.callHandlers(owner)
	}
}
