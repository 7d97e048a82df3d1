/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// record has the requests of the replicas of one controller, and the terms of their leaders,
// as the proxies saw them.
type record struct {
	tally *tally

	mu sync.Mutex
	// restores is the number of restores of etcd, each of which lowers the revisions.
	restores int
	writes   []leaseWrite // in the order in which the API server took them
	terms    []*term
	entries  []*entry
	// changes counts the changes that each process requested from Neutron.
	changes map[*life]int
	errors  violations
}

// leaseWrite is a request that has changed the Lease.
type leaseWrite struct {
	life         *life
	restores     int
	revision     uint64
	holder       string // "": the Lease is released
	began, ended time.Time
}

// term is the time in which a process holds the Lease.
type term struct {
	life *life
	// asked is when it requested the Lease, and acquired when the request had succeeded.
	asked, acquired time.Time
	// over is when the Lease was released, or had moved to another process. It is zero until
	// then.
	over     time.Time
	released bool
}

// entry is a request to OpenStack, or a write to Kubernetes other than to the Lease.
type entry struct {
	life *life
	what string
	// changes reports whether it changes something in Neutron.
	changes, toKubernetes, event bool
	// reconcile is the ID of its sync. A sync has one request at a time.
	reconcile string
	// effect is when the request took effect in Neutron; zero if it never did.
	arrived, effect, answered time.Time
	// tooLate reports whether it was sent in time, but arrived when another replica led.
	tooLate bool
	// unheard reports whether its client had given up when it took effect: Neutron was slower than the time-out.
	unheard bool
}

// arrived records a request, and returns nil for one that is not recorded.
func (r *record) arrived(c *call) *entry {
	if c.isKubernetes() && (c.Method == http.MethodGet || c.isLeaseWrite()) {
		return nil
	}
	e := &entry{
		life:         c.life,
		what:         c.Method + " " + c.service + "/" + c.path,
		changes:      c.isWrite(),
		toKubernetes: c.isKubernetes(),
		event:        c.isEvent(),
		reconcile:    c.Header.Get("X-Openstack-Request-Id"),
		arrived:      time.Now(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
	if e.changes {
		if r.changes == nil {
			r.changes = map[*life]int{}
		}
		r.changes[e.life]++
	}
	return e
}

func (r *record) hadEffect(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e != nil {
		e.effect = time.Now()
	}
}

// answered records when the answer began, or when it is certain that none comes.
func (r *record) answered(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e != nil && e.answered.IsZero() {
		e.answered = time.Now()
	}
}

// leaseWritten records the holder of the Lease from the API server's answer.
func (r *record) leaseWritten(l *life, answer []byte, began time.Time) {
	write := leaseWrite{life: l, began: began, ended: time.Now()}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(answer, nil, nil)
	lease, ok := object.(*coordinationv1.Lease)
	if ok {
		write.revision, err = strconv.ParseUint(lease.ResourceVersion, 10, 64)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok || err != nil {
		r.errors.add("unreadable answer to a write of the Lease: %v: %q", err, answer)
		return
	}
	if lease.Spec.HolderIdentity != nil {
		write.holder = *lease.Spec.HolderIdentity
	}
	r.insert(write)
}

// etcdRestored is called while no API server runs.
func (r *record) etcdRestored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restores++
}

func (r *record) etcdRestores() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restores
}

// insert must be called with the lock held.
func (r *record) insert(write leaseWrite) {
	i := len(r.writes)
	write.restores = r.restores
	for i > 0 && r.writes[i-1].restores == write.restores && r.writes[i-1].revision > write.revision {
		i--
	}
	r.writes = slices.Insert(r.writes, i, write)
	if i == len(r.writes)-1 {
		r.extend(write)
		return
	}
	r.terms = nil
	for _, w := range r.writes {
		r.extend(w)
	}
}

// extend updates the terms with a write. It must be called with the lock held.
func (r *record) extend(write leaseWrite) {
	last := r.last()
	switch {
	case write.holder == "":
		if last != nil && last.life == write.life {
			last.over, last.released = write.began, true
		}
	case last == nil || last.life != write.life:
		if last != nil && !last.released {
			last.over = write.ended
		}
		r.terms = append(r.terms, &term{life: write.life, asked: write.began, acquired: write.ended})
		r.tally.log("%s leads", write.life.name)
	}
}

// last must be called with the lock held.
func (r *record) last() *term {
	if len(r.terms) == 0 {
		return nil
	}
	return r.terms[len(r.terms)-1]
}

// current returns a copy of the current or last term; nil if there was none.
func (r *record) current() *term {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last()
	if last == nil {
		return nil
	}
	now := *last
	return &now
}

// of returns the time from a process' first term to its last; nil if it never led. It must
// be called with the lock held.
func (r *record) of(l *life) *term {
	var whole *term
	for _, t := range r.terms {
		switch {
		case t.life != l:
		case whole == nil:
			copied := *t
			whole = &copied
		default:
			whole.over, whole.released = t.over, t.released
		}
	}
	return whole
}

// end returns when the last term of a process was over, and whether it released the lease.
func (r *record) end(l *life) (over time.Time, released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(l)
	return t.over, t.released
}

func (r *record) changesOf(l *life) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes[l]
}

// found returns the violations by replicas, and counts requests that are late but not wrong.
func (r *record) found() violations {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.errors
	terms, counts := map[*life]*term{}, map[*life]map[string]int{}
	for i, e := range r.entries {
		if _, known := counts[e.life]; !known {
			terms[e.life], counts[e.life] = r.of(e.life), map[string]int{}
		}
		what, wrong := r.judge(terms[e.life], i)
		if what == "" {
			continue
		}
		r.tally.log("%s at %s, %s: %s", e.life.name, e.arrived.Format("15:04:05.000000"), e.what, what)
		if wrong {
			counts[e.life][what]++
		} else {
			e.tooLate = e.changes
			r.tally.add(what)
		}
	}
	for l, counts := range counts {
		for what, n := range counts {
			v.add("%s: %d times, see the journal: "+what, l.name, n)
		}
	}
	return v
}

// What a replica must not do, and what it cannot prevent.
const (
	byFollower  = "a request of a replica that does not lead"
	afterLoss   = "a change in Neutron of a replica that no longer leads"
	afterGiving = "a request of a replica that has released the lease"
	beforeDrain = "the lease was released while a change in Neutron was under way"

	underWay      = "changes in Neutron that were under way when the lease moved"
	heldInProcess = "changes in Neutron that were under way in a process when it was stopped"
	staleWrite    = "writes to Kubernetes of a replica that no longer leads"
)

// judge returns what is notable about the i-th request, given the term of its process, and
// whether it is a violation; "" if nothing is.
func (r *record) judge(t *term, i int) (what string, wrong bool) {
	e := r.entries[i]
	switch {
	case t == nil || e.arrived.Before(t.asked):
		return byFollower, true
	case t.over.IsZero():
		return "", false
	case e.arrived.After(t.over) && e.event:
		return "", false
	case e.arrived.After(t.over) && t.released:
		return afterGiving, true
	case e.arrived.After(t.over) && e.toKubernetes:
		return staleWrite, false
	case e.arrived.After(t.over) && e.changes && r.wasHeld(i):
		return heldInProcess, false
	case e.arrived.After(t.over) && e.changes:
		return afterLoss, true
	case e.changes && e.effect.After(t.over) && t.released:
		return beforeDrain, true
	case e.changes && e.effect.After(t.over):
		return underWay, false
	}
	return "", false
}

// onItsWay is longer than it takes to send a request after the last check of the lease.
const onItsWay = 250 * time.Millisecond

// wasHeld reports whether the i-th request may have been under way in its process when that
// was paused: after the last check of the lease, and not yet sent. Then it is the first to
// arrive from its sync, which has one request at a time.
func (r *record) wasHeld(i int) bool {
	e := r.entries[i]
	stopped, continued := e.life.pause()
	if stopped.IsZero() || e.reconcile == "" || e.arrived.Before(continued) || e.arrived.After(continued.Add(onItsWay)) {
		return false
	}
	return !slices.ContainsFunc(r.entries[:i], func(before *entry) bool {
		return before.life == e.life && before.reconcile == e.reconcile &&
			(before.arrived.After(stopped) || before.answered.IsZero() || before.answered.After(stopped))
	})
}

// sample has the durations of something that happened repeatedly.
type sample []time.Duration

func (s sample) String() string {
	sorted := slices.Sorted(slices.Values(s))
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("p50 %s, max %s, of %d", round(sorted[(len(sorted)-1)/2]), round(sorted[len(sorted)-1]), len(sorted))
}
