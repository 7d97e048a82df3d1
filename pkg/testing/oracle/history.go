// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
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
	reads    map[readBy]int
}

type version struct {
	network *samplecrdv1.Network
	isGone  bool
}

type readBy struct{ process, namespace, name string }

// Add adds a version of a Network, which must not change any more. isGone means that this is what it was before it went.
func (h *History) Add(n *samplecrdv1.Network, isGone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byUID == nil {
		h.byUID, h.reads = map[types.UID][]int{}, map[readBy]int{}
	}
	h.byUID[n.UID] = append(h.byUID[n.UID], len(h.versions))
	h.versions = append(h.versions, version{n, isGone})
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
	if h.reads != nil {
		h.reads[readBy{process, namespace, name}] = versions
	}
}

// Since returns the owner as it was when the process read it last, and all later versions of it; nil stands for one that is
// gone. It returns none if the process has never read it.
func (h *History) Since(process string, uid types.UID) (versions []*samplecrdv1.Network) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.byUID[uid]
	if len(all) == 0 {
		return nil
	}
	first := h.versions[all[0]].network
	since, isRead := h.reads[readBy{process, first.Namespace, first.Name}]
	if !isRead {
		return nil
	}
	versions = []*samplecrdv1.Network{nil}
	for _, i := range all {
		n := h.versions[i].network
		if h.versions[i].isGone {
			n = nil
		}
		if i < since {
			versions[0] = n
		} else {
			versions = append(versions, n)
		}
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

// WasRetained reports whether the Network with that UID was to be retained for as long as it was being deleted.
func (h *History) WasRetained(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.byUID[uid], func(i int) bool {
		n := h.versions[i].network
		return n.DeletionTimestamp != nil && n.Spec.DeletionPolicy != samplecrdv1.DeletionRetain
	})
}

// Judge returns what is wrong about a Deed of the process; "" if some version of the owner permits it that was stored since the
// process has read it last.
func (r *Rules) Judge(h *History, process string, d *Deed) string {
	what := fmt.Sprintf("%s %s (%s %s, subnet %s %s, external network %s)", process, d.Kind, d.Method, d.Path, d.CIDR, d.Gateway, d.External)
	if d.Kind == "" {
		return ""
	}
	if d.UID == "" {
		return what + " without an owner"
	}
	versions := h.Since(process, types.UID(d.UID))
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
