// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"net/http"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// election has what the proxies saw of the Lease. Only the process that holds it may send requests to
// OpenStack, or write to Kubernetes.
type election struct {
	mu sync.Mutex
	// holder is the process that has written the Lease last; nil before the first one.
	holder *life
	// revision is that of the last write since the last restore of etcd.
	revision uint64
	// hasLed has the processes that ever held the Lease; true: they have released it.
	hasLed map[*life]bool
	// late counts the changes in Neutron that each sync has sent after its process had lost the Lease.
	late map[string]int
	// changes counts the changes in Neutron that each process has sent.
	changes map[*life]int
}

// written notes the answer of the API server to a write of the Lease. It returns the process that leads
// since then, if it did not before.
func (e *election) written(l *life, answer []byte) (next *life) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(answer, nil, nil)
	lease, isLease := object.(*coordinationv1.Lease)
	if err != nil || !isLease {
		return nil // an error in place of it
	}
	revision, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision <= e.revision {
		return nil // a later write was answered before
	}
	e.revision = revision
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		e.hasLed[l] = true
		return nil
	}
	e.hasLed[l] = false
	if e.holder == l {
		return nil
	}
	e.holder = l
	return l
}

// etcdRestored is called while no API server runs: the revisions go back.
func (e *election) etcdRestored() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revision = 0
}

// judge returns what is wrong about a request; "" if nothing is.
func (e *election) judge(c *call) string {
	isRead := c.isKubernetes() && c.Method == http.MethodGet
	if isRead || c.isLease() {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	hasReleased, hasLed := e.hasLed[c.life]
	switch {
	case !hasLed:
		return "it does not lead"
	case c.isEvent():
		return ""
	case hasReleased:
		return "it has released the Lease"
	case !c.isChange():
		return ""
	}
	e.changes[c.life]++
	if e.holder == c.life {
		return ""
	}
	// A process that was suspended may have been about to send it. Before the next one, the sync must
	// have noticed that it has lost the Lease.
	sync := c.life.name + " " + c.Header.Get("X-Openstack-Request-Id")
	if e.late[sync]++; e.late[sync] > 1 {
		return "another process leads, and this is not the first request of its sync since then"
	}
	return ""
}

// leads reports whether the process holds the Lease, as far as the proxies know.
func (e *election) leads(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	hasReleased, hasLed := e.hasLed[l]
	return e.holder == l && hasLed && !hasReleased
}

// leader returns the process that holds the Lease, and how many changes in Neutron it has sent.
func (e *election) leader() (l *life, changes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder, e.changes[e.holder]
}
