// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Group identifies the cloud that credentials lead to. All Secrets with the same content are in
// one Group, and those of ClusterClouds in another; a Secret whose content changes gets another
// Group. The zero Group is the controller's own cloud.
type Group struct {
	ref       Ref // only the namespace, while the Secret's content is not known
	content   content
	cloudName string
	// isOffered means that an administrator vouches for the credentials, by a ClusterCloud.
	isOffered bool
}

// IsOffered reports whether an administrator has chosen the cloud, by a ClusterCloud.
func (g Group) IsOffered() bool { return g.isOffered }

// of returns the Group of the credentials, which have the content of this one.
func (g Group) of(ref Ref) Group {
	if !g.isOffered {
		g.cloudName = ref.CloudName
	}
	return g
}

// groups has a lock of its own, under which nothing slow is done: the work queue calls GroupOf
// under its lock.
type groups struct {
	mu sync.Mutex
	// refs are the credentials that each Network uses.
	refs map[cache.ObjectName]Ref
	// spares are the credentials of a ClusterCloud that some of them use instead.
	spares map[cache.ObjectName]Ref
	// known has the Group of each Source whose content is known.
	known map[cache.ObjectName]Group
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

// setSpare records that the key uses these credentials instead of its own; the zero Ref for none.
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

func (g *groups) set(source cache.ObjectName, group Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[source] = group
}

func (g *groups) forget(source cache.ObjectName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, source)
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
	if known, ok := g.known[ref.Source]; ok {
		return known.of(ref)
	}
	if ref.Source.Name != "" { // all that name what is not known take turns with one another
		ref = Ref{Source: cache.ObjectName{Namespace: key.Namespace}}
	}
	return Group{ref: ref}
}
