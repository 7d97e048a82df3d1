// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// portsPeriod is how often the ports are listed that owners wait for. A list is delayed by up
	// to a quarter of it.
	portsPeriod = 15 * time.Second
	// maxWaitAge is how old the last list of the ports may be, and the last sync of the owner. An
	// older wait is dropped: the lists fail, or the Network is gone or has another cloud.
	maxWaitAge = 3 * time.Minute
)

// waits are the owners whose next step is prevented by ports. Until the ports are gone, a sync of
// such an owner makes no request. The zero value has none. Its methods may be called
// concurrently.
type waits struct {
	mu  sync.Mutex
	all map[waitKey]*portWait
}

// waitKey is the key of a wait. An owner can wait for the ports of several projects, and for those of all before a step of its own.
type waitKey struct {
	owner types.UID
	// project is that of the blockers.
	project string
}

// portWait is what an owner waits for before one step.
type portWait struct {
	blockers
	// message names the ports.
	message string
	// listed is when the ports were listed last, synced when the owner was.
	listed, synced time.Time
}

// add makes the owner wait. The message names the ports.
func (w *waits) add(owner types.UID, b blockers, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[waitKey]*portWait{}
	}
	w.all[waitKey{owner, b.project}] = &portWait{blockers: b, message: message, listed: time.Now(), synced: time.Now()}
}

// drop ends the waits of the owner.
func (w *waits) drop(owner types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.all, func(key waitKey, _ *portWait) bool { return key.owner == owner })
}

// check returns an InUse error if the owner waits before a step that the same ports prevent. A wait before
// another step is dropped: the Network now wants something else. A wait for one project stays while the Network's own steps go on.
func (w *waits) check(owner types.UID, b blockers) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.all[waitKey{owner, b.project}]
	if waiting == nil {
		return nil
	}
	if !waiting.equal(b) || time.Since(waiting.listed) > maxWaitAge {
		delete(w.all, waitKey{owner, b.project})
		return nil
	}
	waiting.synced = time.Now()
	return b.inUse(waiting.message)
}

// networks drops the waits of owners that are not synced any more, and returns the IDs of the
// networks of the others.
func (w *waits) networks() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.all, func(_ waitKey, waiting *portWait) bool { return time.Since(waiting.synced) > maxWaitAge })
	for _, waiting := range w.all {
		ids = append(ids, waiting.network)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// update takes over a list of all ports of some networks that began at that time. It drops the
// waits whose ports are gone, and returns their owners and those whose message has changed.
func (w *waits) update(began time.Time, networks []string, ports []Port) (changed []types.UID) {
	onNetwork := map[string][]Port{}
	for _, p := range ports {
		onNetwork[p.NetworkID] = append(onNetwork[p.NetworkID], p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, waiting := range w.all {
		// A newer list, by a sync, must not be undone.
		if !slices.Contains(networks, waiting.network) || waiting.listed.After(began) {
			continue
		}
		message := waiting.blocking(onNetwork[waiting.network])
		if message == "" {
			delete(w.all, key)
		}
		if message != waiting.message && !slices.Contains(changed, key.owner) {
			changed = append(changed, key.owner)
		}
		waiting.message, waiting.listed = message, time.Now()
	}
	return changed
}

// RelistPorts lists the ports that owners wait for, and calls the Observer's handlers for each
// owner whose ports are gone, or whose message has changed. A list that fails changes nothing.
func (c *Cloud) RelistPorts(ctx context.Context) error {
	var failed []error
	for networks := range slices.Chunk(c.waits.networks(), maxFilterIDs) {
		began := time.Now()
		ports, err := c.client.PortsOnNetworks(ctx, networks...)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, owner := range c.waits.update(began, networks, ports) {
			c.observer.callHandlers(owner)
		}
	}
	return errors.Join(failed...)
}

// relistPorts calls RelistPorts once per period until ctx is cancelled.
func (c *Cloud) relistPorts(ctx context.Context) {
	var delay time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(delay, wait.Jitter(portsPeriod, 0.25))):
		}
		err := c.RelistPorts(ctx)
		delay = retryDelay(err, 0)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Failed to list the ports that Networks wait for, will try again", "err", err)
		}
	}
}

// checkPorts lists the ports. If one prevents the step, it returns an InUse error that names
// them, and the owner waits.
func (c *Cloud) checkPorts(ctx context.Context, owner types.UID, b blockers) error {
	ports, err := c.client.PortsOnNetworks(ctx, b.network)
	if err != nil {
		return err
	}
	message := b.blocking(ports)
	if message == "" {
		return nil
	}
	c.waits.add(owner, b, message)
	return b.inUse(message)
}
