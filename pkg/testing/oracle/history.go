// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// History has all versions of the Networks that the API server ever stored, and what each process has read of them. Its
// methods may be called concurrently. The zero value is empty.
type History struct {
	mu       sync.Mutex
	versions []version
	byUID    map[types.UID][]int
	reads    map[string]Reads
}

type version struct {
	network *samplecrdv1.Network
	isGone  bool
	// isBypassed means that it is gone in spite of its finalizer, which was stored too late. Controllers may do what its deletion
	// would have wanted, so the network is as if it was being deleted.
	isBypassed bool
}

// judged returns what Permits judges by: nil for a Network that is gone.
func (v version) judged() *samplecrdv1.Network {
	if v.isGone && !v.isBypassed {
		return nil
	}
	return v.network
}

// Reads is what one process has read until a moment: how many versions there were when it read each Network last.
type Reads map[types.NamespacedName]int

// Add adds a version of a Network, which must not change any more. isGone means that this is what it was before it went.
func (h *History) Add(n *samplecrdv1.Network, isGone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byUID == nil {
		h.byUID = map[types.UID][]int{}
	}
	h.byUID[n.UID] = append(h.byUID[n.UID], len(h.versions))
	isBypassed := isGone && n.DeletionTimestamp == nil && hasFinalizer(n)
	if isBypassed {
		n = n.DeepCopy()
		n.DeletionTimestamp = &n.CreationTimestamp
	}
	h.versions = append(h.versions, version{n, isGone, isBypassed})
}

// Len returns how many versions there are.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.versions)
}

// Read records that the process has read the Network past its cache when there were so many versions.
func (h *History) Read(process, namespace, name string, versions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reads == nil {
		h.reads = map[string]Reads{}
	}
	if h.reads[process] == nil {
		h.reads[process] = Reads{}
	}
	h.reads[process][types.NamespacedName{Namespace: namespace, Name: name}] = versions
}

// ReadBy returns what the process has read until now. A request is judged by what its process had read when it sent it: it may
// give the request up, send it again, and read the result, all before the first one is judged.
func (h *History) ReadBy(process string) Reads {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.reads[process])
}

// Since returns the owner as it was at the last one of the reads, and all later versions of it; nil stands for one that is gone.
// It returns none if none of the reads was of it.
func (h *History) Since(reads Reads, uid types.UID) (versions []*samplecrdv1.Network) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.byUID[uid]
	if len(all) == 0 {
		return nil
	}
	first := h.versions[all[0]].network
	since, isRead := reads[types.NamespacedName{Namespace: first.Namespace, Name: first.Name}]
	if !isRead {
		return nil
	}
	versions = []*samplecrdv1.Network{nil}
	for _, i := range all {
		n := h.versions[i].judged()
		if i < since {
			versions[0] = n
		} else {
			versions = append(versions, n)
		}
	}
	if h.versions[all[len(all)-1]].isBypassed { // a process that has not seen it takes what is left for an orphan
		return append([]*samplecrdv1.Network{nil}, versions...)
	}
	return versions
}

// all returns all versions of the owner; nil stands for one that is gone.
func (h *History) all(uid types.UID) (versions []*samplecrdv1.Network) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.byUID[uid] {
		versions = append(versions, h.versions[i].judged())
	}
	return versions
}

// Ever reports whether a version of any Network was so.
func (h *History) Ever(is func(n *samplecrdv1.Network) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.versions, func(v version) bool { return is(v.network) })
}

// Gone returns the Networks that are gone, as they were before that.
func (h *History) Gone() (gone []*samplecrdv1.Network) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.byUID {
		if last := h.versions[all[len(all)-1]]; last.isGone {
			gone = append(gone, last.network)
		}
	}
	slices.SortFunc(gone, func(a, b *samplecrdv1.Network) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return gone
}

// isGone reports whether the Network with that UID is gone.
func (h *History) isGone(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.byUID[uid]
	return len(all) > 0 && h.versions[all[len(all)-1]].isGone
}

// WasRetained reports whether the Network with that UID was to be retained for as long as it was being deleted.
func (h *History) WasRetained(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.byUID[uid], func(i int) bool {
		n := h.versions[i].network
		return n.DeletionTimestamp != nil && n.Spec.DeletionPolicy != samplecrdv1.DeletionRetain
	})
}

// Judge returns what is wrong about a Deed of the process, which had read so much when it sent the request; "" if some version of
// the owner permits it that was stored since the last of these reads.
func (r *Rules) Judge(h *History, process string, reads Reads, d *Deed) string {
	what := fmt.Sprintf("%s %s (%s %s, subnet %s %s, external network %s)", process, d.Kind, d.Method, d.Path, d.CIDR, d.Gateway, d.External)
	if d.Kind == "" {
		return ""
	}
	if d.UID == "" {
		return what + " without an owner"
	}
	versions := h.Since(reads, types.UID(d.UID))
	if len(versions) == 0 && d.isNameless && h.isGone(types.UID(d.UID)) {
		versions = []*samplecrdv1.Network{nil} // lists have shown that it is an orphan, and nothing says what to read
	}
	if d.Kind == RemovesRoutes || d.Kind == Allocates { // a later sync puts that right
		versions = h.all(types.UID(d.UID))
	}
	if len(versions) == 0 {
		return what + " of " + d.UID + " without a read of it before"
	}
	if slices.ContainsFunc(versions, func(n *samplecrdv1.Network) bool { return r.Permits(n, d) }) {
		return ""
	}
	last := versions[len(versions)-1]
	if last == nil {
		return what + ", and its owner " + d.UID + " is gone"
	}
	return fmt.Sprintf("%s, and %s/%s does not want that: paused %t, deleted %t, finalizers %v, %+v",
		what, last.Namespace, last.Name, last.IsPaused(), last.DeletionTimestamp != nil, last.Finalizers, describe(&last.Spec))
}
