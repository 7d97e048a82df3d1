// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// transfer gives what a Network has to one of the same name in the neighbour, as artifacts/deploy/recovery.md says. The controllers of
// both clusters work meanwhile.
type transfer struct {
	handover
	// old and new are the slots in both clusters.
	old, new *slot
	// isSeen says that the old controller had seen the pause when the subcommand was run last.
	isSeen, isOver bool
}

// transfer begins a transfer: the new Network is created paused, and the old one is paused in the middle of its work.
func (w *World) transfer(s *slot, r *rand.Rand) {
	if w.isNeighbour() || !hasTransfers(w.seed) || s.namespace != home || s.imports || w.get(s) == nil {
		return
	}
	w.pauseAfterEdit(s, r)
	old, to := w.get(s), w.neighbour.slots[s.index-w.slots[0].index]
	if old == nil || old.DeletionTimestamp != nil {
		return
	}
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: to.name}, Spec: *old.Spec.DeepCopy()}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, samplecrdv1.AnnotationPaused, "true")
	if _, err := w.neighbour.networks(to).Create(w.ctx, n, metav1.CreateOptions{}); err != nil {
		return // the neighbour has one of that name
	}
	s.isMoving, to.isMoving = true, true
	w.log("%s moves to the neighbour", s.name)
	w.transfers = append(w.transfers, &transfer{handover: handover{from: w.cluster, to: w.neighbour.cluster, killAtWrite: r.IntN(8)}, old: s, new: to})
}

// tendTransfers does what is next.
func (w *World) tendTransfers() {
	for _, t := range w.transfers {
		w.neighbour.judgeUnlocks(&t.handover)
		switch {
		case t.isOver, t.isBusy():
		case t.isSeen && t.isDone():
			w.endTransfer(t)
		default:
			w.tryTransfer(t)
		}
	}
}

// tryTransfer pauses the old Network so that its controller shows that, or runs the subcommand once. It may come too early, and then
// has to refuse.
func (w *World) tryTransfer(t *transfer) {
	old, n := w.get(t.old), w.neighbour.get(t.new)
	if old.Annotations[samplecrdv1.AnnotationReconcileRequestedAt] != t.request() {
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, samplecrdv1.AnnotationPaused, "true")
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, samplecrdv1.AnnotationReconcileRequestedAt, t.request())
		w.update(old)
		return
	}
	if w.cloud.snapshot().Networks[old.Status.NetworkID].ID == "" {
		old.Status.NetworkID = "" // move tells users to remove it
	}
	t.isInterrupted = t.isInterrupted || isMoving(n)
	t.isSeen = old.Status.LastHandledReconcileAt == t.request()
	w.neighbour.startMover(&t.handover, *old)
}

// request is what a user writes into the annotation reconcile-requested-at.
func (t *transfer) request() string { return "move-" + t.old.name }

// endTransfer lets the new controller begin, and deletes the old Network. Nothing may have its mark any more.
func (w *World) endTransfer(t *transfer) {
	t.isOver, t.new.isMoving = true, false
	old, n, now := w.get(t.old), w.neighbour.get(t.new), w.cloud.snapshot()
	mark := oracle.Owner{Cluster: t.from, UID: string(old.UID)}.Mark()
	for id, o := range now.Networks {
		if o.Description == mark {
			w.judge.violate("the mark of network %s was not moved", id)
		}
	}
	for id, o := range now.Subnets {
		if o.Description == mark {
			w.judge.violate("the mark of subnet %s was not moved", id)
		}
	}
	for id, o := range now.Routers {
		if o.Description == mark {
			w.judge.violate("the mark of router %s was not moved", id)
		}
	}
	w.handovers.Add(Handovers{0, 0, count(t.isInterrupted), 1})
	w.log("%s has moved to the neighbour", t.old.name)
	w.neighbour.forgot[string(n.UID)] = true // what the old status has said is not moved
	w.left[string(old.UID)] = true           // what it had is another Network's
	annotate(samplecrdv1.AnnotationPaused, "")(w.neighbour, t.new, nil)
	w.delete(t.old, nil)
	if old = w.get(t.old); old != nil {
		delete(old.Annotations, samplecrdv1.AnnotationPaused)
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, samplecrdv1.AnnotationReconcileRequestedAt, time.Now().Format(time.RFC3339Nano))
		w.update(old)
	}
}
