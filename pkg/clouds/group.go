// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Group identifies the cloud that credentials lead to. All Secrets with the same content are in
// one Group; a Secret whose content changes gets another Group. The zero Group is the
// controller's own cloud.
type Group struct {
	ref       Ref // zero if the Secret's content is known
	content   content
	cloudName string
}

// groups has a lock of its own, under which nothing slow is done: the work queue calls GroupOf
// under its lock.
type groups struct {
	mu sync.Mutex
	// refs are the credentials that each Network uses.
	refs map[cache.ObjectName]Ref
	// spares are the spare credentials that some of them use instead.
	spares map[cache.ObjectName]Ref
	// contents are those of the watched Secrets.
	contents map[cache.ObjectName]content
}

func (g *groups) ref(key cache.ObjectName) Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refs[key]
}

func (g *groups) setRef(key cache.ObjectName, ref Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.spares, key)
	if ref == (Ref{}) {
		delete(g.refs, key)
	} else {
		g.refs[key] = ref
	}
}

// setSpare records that the key uses spare credentials; the zero Ref for none.
func (g *groups) setSpare(key cache.ObjectName, ref Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ref == (Ref{}) {
		delete(g.spares, key)
	} else {
		g.spares[key] = ref
	}
}

// usedBy returns the credentials that the key uses. The network is nil if it is gone.
func (g *groups) usedBy(key cache.ObjectName, network *samplecrdv1.Network) Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.usedByLocked(key, network)
}

// usedByLocked is usedBy with the lock held.
func (g *groups) usedByLocked(key cache.ObjectName, network *samplecrdv1.Network) Ref {
	if spare, ok := g.spares[key]; ok {
		return spare
	}
	if network != nil {
		return RefOf(network)
	}
	return g.refs[key]
}

func (g *groups) setContent(name cache.ObjectName, content content) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.contents[name] = content
}

func (g *groups) forgetSecret(name cache.ObjectName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.contents, name)
}

// RefOfKey returns the credentials that the Network of that name used in its last sync; the zero
// Ref for the controller's own. It does not block.
func (c *Clouds) RefOfKey(key cache.ObjectName) Ref { return c.groups.ref(key) }

// GroupOf returns the Group of a Network; nil for one that is gone: then it is the Group of the
// credentials that the key had in its last sync, until Forget. It does not block.
func (c *Clouds) GroupOf(key cache.ObjectName, network *samplecrdv1.Network) Group {
	g := &c.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	ref := g.usedByLocked(key, network)
	if content, ok := g.contents[ref.Secret]; ok {
		return Group{content: content, cloudName: ref.CloudName}
	}
	return Group{ref: ref}
}
