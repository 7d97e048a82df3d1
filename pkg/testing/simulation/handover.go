// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

// handover gives a cluster another ID: its controllers are stopped, and then a user runs the subcommand move until nothing is left to
// move. Others do not wait for that: Networks, networks and clouds change meanwhile as ever.
type handover struct {
	from, to string
	// mover is the last process of the subcommand. At next, or later, another one may begin.
	mover *process
	next  time.Time
	// patched are the Networks that the subcommand has locked or unlocked lately.
	patched []restapi.Key
	// killAtWrite is at which write a process of the subcommand is killed; 0 if it is not.
	killAtWrite int
	// isInterrupted says that a process has found a lock of an earlier one.
	isInterrupted bool
}

// Handovers counts the handovers that have ended: all, those that have moved an import, those that were interrupted under a lock, and
// those to another cluster while the controllers of both worked.
type Handovers struct{ Ended, OfImports, Interrupted, BetweenClusters int }

// Add adds those of another simulation.
func (h *Handovers) Add(other Handovers) {
	h.Ended += other.Ended
	h.OfImports += other.OfImports
	h.Interrupted += other.Interrupted
	h.BetweenClusters += other.BetweenClusters
}

// Least returns how many there are of the kind with the fewest.
func (h Handovers) Least() int { return min(h.Ended, h.OfImports, h.Interrupted, h.BetweenClusters) }

// changeClusterID begins a handover.
func (w *World) changeClusterID(_ *slot, r *rand.Rand) {
	if w.handover != nil || len(w.replicas) == 0 {
		return
	}
	w.handover = &handover{from: w.cluster, to: fmt.Sprintf("c0ffee00-0000-4000-8000-1%011d", len(w.ids))}
	w.ids = append(w.ids, w.handover.to)
	w.log("cluster %s gets the ID %s", w.cluster, w.handover.to)
	for _, replica := range w.replicas {
		if r.IntN(2) == 0 {
			w.killProcess(replica)
			w.handover.next = time.Now().Add(30 * time.Second) // Neutron may still handle its last request
		} else {
			w.stopProcess(replica)
		}
	}
}

// tendHandover does what is next. It reports whether the controllers must stay stopped.
func (w *World) tendHandover() (isStopped bool) {
	h := w.handover
	if h == nil || w.cluster == h.to {
		return false
	}
	for _, r := range w.replicas {
		if !r.current.isDead() && !r.current.hasEnded() {
			return true
		}
	}
	w.judgeUnlocks(h)
	switch {
	case h.isBusy():
	case h.isDone():
		w.endHandover()
	default:
		h.isInterrupted = h.isInterrupted || slices.ContainsFunc(w.all(), isMoving)
		w.followAdvice(h)
		w.startMover(h)
	}
	return true
}

// isBusy reports whether the subcommand runs, or begins later.
func (h *handover) isBusy() bool {
	return h.mover != nil && !h.mover.isDead() && !h.mover.hasEnded() || time.Now().Before(h.next)
}

// isDone reports whether the subcommand has said that nothing is left to move.
func (h *handover) isDone() bool {
	return h.mover != nil && h.mover.hasEnded() && !h.mover.isDead() && h.mover.code == 0
}

// startMover runs the subcommand once: for all Networks, or for those of another cluster.
func (w *World) startMover(h *handover, old ...samplecrdv1.Network) {
	h.next = time.Now().Add(10 * time.Second)
	p, ctx := w.newProcess()
	h.mover, p.handover = p, h
	w.log("%s moves %s to %s", p.name, h.from, h.to)
	spec := w.processSpec(p, h.to)
	w.running.Go(func() {
		defer close(p.ended)
		code, output, err := w.program.Move(ctx, spec, h.from, old)
		w.log("%s has ended: %d, %v\n%s", p.name, code, err, output)
		p.code, p.output = code, output // before ended is closed
	})
}

// endHandover lets the controllers begin with the new ID. Nothing of a Network may have the mark of the old one.
func (w *World) endHandover() {
	h := w.handover
	now, owners := w.cloud.snapshot(), map[string]bool{"": false}
	for _, n := range w.all() {
		owners[string(n.UID)] = true
	}
	isForgotten := func(description string) bool { return owners[oracle.MarkOf(h.from, description)] }
	hasImport := false
	for id, n := range now.Networks {
		if isForgotten(n.Description) {
			w.judge.violate("the mark of network %s was not moved", id)
		}
		for _, uid := range n.Importers() {
			if owners[uid] && slices.Contains(n.Tags, (oracle.Owner{Cluster: h.from, UID: uid}).Tag()) {
				w.judge.violate("the tag of network %s was not moved", id)
			}
			hasImport = hasImport || slices.Contains(n.Tags, (oracle.Owner{Cluster: h.to, UID: uid}).Tag())
		}
	}
	for id, s := range now.Subnets {
		network := now.Networks[s.NetworkID]
		if isForgotten(s.Description) && len(network.Importers()) == 0 { // otherwise somebody has given the import to another Network
			w.judge.violate("the mark of subnet %s was not moved", id)
		}
	}
	for id, r := range now.Routers {
		if isForgotten(r.Description) {
			w.judge.violate("the mark of router %s was not moved", id)
		}
	}
	w.judge.history.Ever(func(n *samplecrdv1.Network) bool { // what another Network's status has said is not moved
		from := n.Annotations[samplecrdv1.AnnotationMovingFrom]
		w.forgot[string(n.UID)] = w.forgot[string(n.UID)] || from != "" && !strings.HasSuffix(from, "/"+string(n.UID))
		return false
	})
	w.handovers.Add(Handovers{1, count(hasImport), count(h.isInterrupted), 0})
	w.log("cluster %s has the ID %s now", h.from, h.to)
	w.former = append(w.former, h.from)
	w.cluster, w.judge.rules.Cluster = h.to, h.to
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// tidyMoves runs the subcommand again for Networks that a restore has brought back from the middle of a move.
func (w *World) tidyMoves() {
	h := w.handover
	if h != nil && w.cluster == h.to && h.mover.hasEnded() && slices.ContainsFunc(w.all(), isMoving) {
		w.followAdvice(h)
		w.startMover(h)
	}
}

// followAdvice does what the last process of the subcommand has told users to do with the Networks that it could not move.
func (w *World) followAdvice(h *handover) {
	if h.mover == nil || !h.mover.hasEnded() {
		return
	}
	now := w.cloud.snapshot()
	for _, n := range w.all() {
		_, advice, _ := strings.Cut("\n"+h.mover.output, fmt.Sprintf("\n%s/%s: error: ", n.Namespace, n.Name))
		advice, _, _ = strings.Cut(advice, "\n")
		next := n.DeepCopy()
		isGone := strings.Contains(advice, "If what it takes over is gone, remove its annotation") && now.Networks[n.Status.NetworkID].ID == ""
		isWaiting := strings.Contains(advice, "remove its annotation "+samplecrdv1.AnnotationMovingFrom+", for which the deletion waits")
		if isGone || isWaiting && n.DeletionTimestamp != nil { // a restore can have made the advice outdated
			delete(next.Annotations, samplecrdv1.AnnotationMovingFrom)
		}
		if strings.Contains(advice, "if no controller works here, remove its finalizer") && w.cluster != h.to && n.DeletionTimestamp != nil {
			w.left[string(n.UID)], next.Finalizers = true, nil
		}
		if !equality.Semantic.DeepEqual(n, next) {
			w.log("a user follows the advice for %s: %s", n.Name, advice)
			w.update(next)
		}
	}
}

func isMoving(n *samplecrdv1.Network) bool {
	return n.Annotations[samplecrdv1.AnnotationMovingFrom] != ""
}

// notInModel is what is wrong about a step that pkg/neutron/handover_model_test.go does not have.
const notInModel = "the model does not take this step"

// judgeMove judges a request of the subcommand move: it changes the marks of one Network's objects, which it has locked, and nothing
// else.
func (w *World) judgeMove(p *process, r *http.Request, path string, body []byte) {
	if r.Method == http.MethodGet {
		return
	}
	w.log("%s: %s %s %.200s", p.name, r.Method, path, body)
	now := w.cloud.snapshot()
	if now.IsOutdated(path, r.Header.Get("If-Match")) {
		return
	}
	uid, wrong := "", ""
	if parts := strings.Split(path, "/"); len(parts) == 4 && parts[0] == "networks" && parts[2] == "tags" {
		uid, wrong = w.judgeTag(p, now, r.Method, parts[1], parts[3])
	} else {
		uid, wrong = w.judgeDescription(p.handover, now, r, path, body)
	}
	if _, to := w.ownersOf(p, uid); wrong == "" && to.UID == "" {
		wrong = "the Network is not locked"
	}
	if wrong != "" {
		w.judge.violate("%s: %s %s %s: %s", p.name, r.Method, path, body, wrong)
	}
}

// judgeUnlocks judges the patches of Networks that have no lock after them.
func (w *World) judgeUnlocks(h *handover) {
	patched := []restapi.Key(nil)
	w.set(func() { patched, h.patched = h.patched, nil })
	for _, n := range w.all() {
		isPatched := slices.ContainsFunc(patched, func(key restapi.Key) bool { return key.Namespace == n.Namespace && key.Name == n.Name })
		from, to := oracle.Owner{Cluster: h.from}, oracle.Owner{Cluster: h.to, UID: string(n.UID)}
		if old, isMoved := strings.CutPrefix(n.Annotations[samplecrdv1.AnnotationMovedFrom], h.from+"/"); isMoved {
			from.UID = old
		} else {
			from.UID = to.UID
		}
		if isPatched && !isMoving(n) && !w.cloud.snapshot().IsHandover(from, to, "") {
			w.judge.violate("%s unlocks %s/%s: %s", h.mover.name, n.Namespace, n.Name, notInModel)
		}
	}
}

// judgeTag returns the owner in a tag that move adds or removes, and what is wrong.
func (w *World) judgeTag(p *process, now *oracle.Snapshot, method, network, tag string) (uid, wrong string) {
	uid = oracle.ImporterIn(tag)
	n := now.Networks[network]
	from, to := w.ownersOf(p, uid)
	switch {
	case n.ID == "", slices.Contains(n.Tags, tag) == (method == http.MethodPut):
		return uid, "" // it changes nothing
	case uid == "":
		return uid, "it is no mark"
	case !now.IsHandover(from, to, tag):
		return uid, notInModel
	}
	return uid, ""
}

// judgeDescription returns the owner in a mark that move writes, and what is wrong. A Network may get what had the mark of another one
// that is gone.
func (w *World) judgeDescription(h *handover, now *oracle.Snapshot, r *http.Request, path string, body []byte) (uid, wrong string) {
	var fields map[string]map[string]string
	if err := json.Unmarshal(body, &fields); err != nil || r.Method != http.MethodPut || len(fields) != 1 {
		return "", "it is more than a mark"
	}
	collection, id, _ := strings.Cut(path, "/")
	object := fields[strings.TrimSuffix(collection, "s")]
	uid = oracle.MarkOf(h.to, object["description"])
	if uid == "" || len(object) != 1 {
		return "", "it is more than a mark"
	}
	was := now.Networks[id].Description + now.Subnets[id].Description + now.Routers[id].Description
	isOther := func(n *samplecrdv1.Network) bool {
		return string(n.UID) != uid && string(n.UID) == ownerIn([]string{h.from, h.to}, was)
	}
	if was != "" && (ownerIn([]string{h.from, h.to}, was) == "" || slices.ContainsFunc(w.all(), isOther)) {
		return uid, "it was another owner's: " + was
	}
	owner := ownerIn([]string{h.from}, was)
	if owner != "" && !now.IsHandover(oracle.Owner{Cluster: h.from, UID: owner}, oracle.Owner{Cluster: h.to, UID: uid}, id) {
		return uid, notInModel
	}
	return uid, ""
}

// ownersOf returns both owners of the move of the Network with that UID, or of the one that takes over from it: those of its lock, if
// it had that when the process has read it last, or later. Otherwise they are zero.
func (w *World) ownersOf(p *process, uid string) (from, to oracle.Owner) {
	h := p.handover
	for _, n := range w.all() {
		if n.Annotations[samplecrdv1.AnnotationMovingFrom] == h.from+"/"+uid {
			uid = string(n.UID)
		}
	}
	for _, n := range w.judge.history.Since(w.judge.history.ReadBy(p.name), types.UID(uid)) {
		if n == nil || !slices.Contains(n.Finalizers, samplecrdv1.Finalizer) {
			continue
		}
		if old, isLocked := strings.CutPrefix(n.Annotations[samplecrdv1.AnnotationMovingFrom], h.from+"/"); isLocked {
			return oracle.Owner{Cluster: h.from, UID: old}, oracle.Owner{Cluster: h.to, UID: uid}
		}
	}
	return from, to
}
