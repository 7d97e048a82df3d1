// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// clock orders the lists and the own changes of Observers: a list must not undo a change that was made after the list began. Its methods
// may be called concurrently. The zero value has seen no change.
type clock struct {
	mu   sync.Mutex
	tick int64
	last map[types.UID]int64
}

// now returns the tick of the last change.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tick
}

// change returns the tick of a change that was just made for the owner, or read.
func (c *clock) change(owner types.UID) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[types.UID]int64{}
	}
	c.tick++
	c.last[owner] = c.tick
	return c.tick
}

// lastChange returns the tick of the owner's last change, 0 if there was none.
func (c *clock) lastChange(owner types.UID) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[owner]
}

// forget forgets an owner that no longer exists.
func (c *clock) forget(owner types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, owner)
}

// origin is where a network was created.
type origin struct {
	cloud string
	place Place
}

// origins has, by the UID of the Network, where a request to create its network was sent last, unless Neutron has refused it. When the
// status has the network, it is forgotten here. It is the memory of one process: another one does not know of a network whose answer
// was lost. Its methods may be called concurrently. The zero value is empty.
type origins struct {
	mu   sync.Mutex
	last map[types.UID]origin
}

func (c *origins) add(owner types.UID, at origin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[types.UID]origin{}
	}
	c.last[owner] = at
}

// of returns where the owner's network was created, or may have been; nothing if nowhere.
func (c *origins) of(owner types.UID) origin {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[owner]
}

func (c *origins) forget(owner types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, owner)
}
