// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// requestPrefix begins the annotation reconcile-requested-at of a user who pauses the old Network for a move: an older request can have
// been handled before the pause. So the request at the end of a move begins with unlockPrefix.
const (
	requestPrefix = "move-"
	unlockPrefix  = "moved-"
)

// maxRounds is how often Neutron is read for one Network, if others change it meanwhile.
const maxRounds = 6

// mover moves the networks of Networks.
type mover struct {
	request     Request
	clients     *kubeclient.Clients
	live        *live.Networks
	cloudOf     func(context.Context, *samplecrdv1.Network) (*neutron.Cloud, error)
	inventories map[*neutron.Cloud]inventory
	unlisted    map[*neutron.Cloud]error
	here        map[types.UID]bool
}

// pair is a Network with the owner that it takes over from.
type pair struct {
	Target
	cloud    *neutron.Cloud
	handover neutron.Handover // zero if there is none
	evidence string
	// isListed says that the list of Neutron has something of the old owner, and hasPart that it has something of the Network.
	isListed, hasPart bool
	err               error
}

// pairs finds the owner of each Network. Of two Networks that claim one owner, none gets it. A move that is over claims nothing: a copied
// manifest can have its annotation moved-from.
func (m *mover) pairs(ctx context.Context, targets []Target) []pair {
	pairs, claims := make([]pair, len(targets)), map[neutron.Owner][]*pair{}
	for i, t := range targets {
		pairs[i] = m.pair(ctx, t)
		if from := pairs[i].handover.From; from.UID != "" && (pairs[i].isListed || isLocked(t.Network)) {
			claims[from] = append(claims[from], &pairs[i])
		}
	}
	for from, claimants := range claims {
		if len(claimants) == 1 {
			continue
		}
		for _, p := range claimants {
			p.err = fmt.Errorf("%s would take over from %s: move only one of them", join(claimants), neutron.Printable(string(from.UID)))
		}
	}
	return pairs
}

// join names the Networks, with how each was found.
func join(pairs []*pair) string {
	var names []string
	for _, p := range pairs {
		names = append(names, fmt.Sprintf("%s (by %s)", p, p.evidence))
	}
	return strings.Join(names, " and ")
}

func (m *mover) pair(ctx context.Context, t Target) (p pair) {
	p.Target = t
	if p.cloud, p.err = m.cloudOf(ctx, t.Network); p.err != nil {
		return p
	}
	i, err := m.inventory(ctx, p.cloud)
	if err != nil {
		p.err = err
		return p
	}
	var from neutron.Owner
	if from, p.evidence, p.err = i.match(t); p.err != nil || from.UID == "" {
		return p
	}
	p.handover = neutron.Handover{From: from, To: neutron.Owner{Cluster: i.to, UID: t.Network.UID}}
	if t.Network.Spec.Import != nil {
		p.handover.Import = t.Network.Spec.Import.NetworkID
	}
	p.isListed, p.hasPart = i.owners[p.handover.From] != nil, i.owners[p.handover.To] != nil
	return p
}

// isLocked reports whether a move to the Network has begun, and has not ended.
func isLocked(network *samplecrdv1.Network) bool {
	return network.Annotations[samplecrdv1.AnnotationMovingFrom] != ""
}

var errDeletion = errors.New("it is being deleted, and would delete what it takes over")

// checkDeletion returns an error if the Network is being deleted, unless what it takes over has its own UID, or a move only has to be
// finished: mayFinish.
func (p pair) checkDeletion(network *samplecrdv1.Network, mayFinish bool) error {
	if network.DeletionTimestamp == nil || p.handover.From.UID == network.UID || isLocked(network) && mayFinish {
		return nil
	}
	advice := "create it again"
	if !p.hasPart {
		advice = "if no controller works here, remove its finalizer " + samplecrdv1.Finalizer + "; then " + advice
	}
	if isLocked(network) {
		advice = "remove its annotation " + samplecrdv1.AnnotationMovingFrom + ", for which the deletion waits; " + advice
	}
	return fmt.Errorf("%w: %s", errDeletion, advice)
}

// inventory lists what the cloud has, once. If that fails, it fails for all Networks of the cloud: a cloud that does not answer takes
// a timeout only once.
func (m *mover) inventory(ctx context.Context, cloud *neutron.Cloud) (inventory, error) {
	if i, ok := m.inventories[cloud]; ok || m.unlisted[cloud] != nil {
		return i, m.unlisted[cloud]
	}
	i := inventory{from: m.request.From, to: m.clients.ClusterID, here: m.here}
	var err error
	if i.owners, err = cloud.ListOwners(ctx, i.from, i.to); err != nil {
		m.unlisted[cloud] = err
		return i, err
	}
	m.inventories[cloud] = i
	return i, nil
}

// observe reads what both owners have.
func (m *mover) observe(ctx context.Context, p pair) (*neutron.Observed, error) {
	return p.cloud.ObserveHandover(ctx, p.handover, m.inventories[p.cloud].owners[p.handover.From])
}

// move makes the changes. In this order, no moment has two owners that act, or an owner that does not know:
//
//	the old side is paused, or gone
//	the new side has not begun, or is paused too
//	lock      the new Network gets its finalizer, and is paused
//	moves     network, routers, subnets: each only if it is as it was observed, and the lock is there
//	unlock    when nothing is left
//
// If it is interrupted, it can be run again: what is left follows from what is observed.
func (m *mover) move(ctx context.Context, p pair) error {
	if err := m.checkOldSide(p); err != nil {
		return err
	}
	// What was listed for all Networks can be minutes old: a lock that only a refusal follows would hold up the Network.
	if _, err := m.observe(ctx, p); err != nil && neutron.ReasonOf(err) != neutron.Stale {
		return err
	}
	network, err := m.lock(ctx, p)
	if err != nil {
		return err
	}
	err = m.moveLocked(ctx, p, network)
	if err != nil && !errors.Is(err, errDeletion) {
		return fmt.Errorf("not finished, run this again: %w", err)
	}
	return err
}

func (m *mover) moveLocked(ctx context.Context, p pair, network *samplecrdv1.Network) error {
	for range maxRounds {
		observed, err := m.observe(ctx, p)
		if err == nil {
			moves := p.handover.Moves(observed)
			if len(moves) == 0 {
				return m.unlock(ctx, network)
			}
			err = m.round(ctx, p, network, observed, moves)
		}
		if err != nil && neutron.ReasonOf(err) != neutron.Stale {
			return err
		}
	}
	return errors.New("somebody else changes it in Neutron again and again")
}

// round makes the changes of one observation. After a tag was added, it ends: Neutron has no condition for tags, so the tags must be
// read before the old one goes.
func (m *mover) round(ctx context.Context, p pair, network *samplecrdv1.Network, observed *neutron.Observed, moves []neutron.Move) error {
	quiet := klog.NewContext(ctx, klog.FromContext(ctx).V(1)) // handle prints the changes
	for i, step := range moves {
		now, err := m.locked(ctx, network)
		if err != nil {
			return err
		}
		if err := p.checkDeletion(now, i > 0 || p.handover.IsBegun(observed)); err != nil {
			return err
		}
		if err := p.cloud.Move(quiet, p.handover, observed, step); err != nil || step.Kind == neutron.AddTag {
			return err
		}
	}
	return nil
}

// lock pauses the new Network. Then a controller that works here creates nothing any more: if it has not given the Network its finalizer
// yet, that write fails now, and otherwise checkNewSide has shown that no request is under way.
func (m *mover) lock(ctx context.Context, p pair) (network *samplecrdv1.Network, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		network, err = m.get(ctx, p.Network)
		if err != nil {
			return fmt.Errorf("pause it: %w", err)
		}
		mayFinish := true // what is left is known in round
		if err := cmp.Or(p.checkDeletion(network, mayFinish), m.checkNewSide(p, network)); err != nil {
			return err
		}
		switch lock := network.Annotations[samplecrdv1.AnnotationMovingFrom]; {
		case lock != "" && lock != p.handover.From.String():
			return fmt.Errorf("its annotation %s is of another move by now", samplecrdv1.AnnotationMovingFrom)
		case lock != "" && live.HasFinalizer(network):
			return nil
		}
		if network, err = m.live.Lock(ctx, network, p.handover.From.String()); err != nil {
			return fmt.Errorf("pause it: %w", err)
		}
		return nil
	})
	return network, err
}

// checkNewSide returns an error if the controller of this cluster may be about to create a network. The controller creates a network some
// time after it has added the finalizer, and a lock in between does not stop that. If the status shows that the controller has handled a
// pause, no such request is under way. It creates nothing for an import, nor if the status has the ID of the network that is moved.
//
// A finalizer from a backup is no sign of a controller. A controller that works here, although it must not, is not noticed before it has
// written the Network. Nor is one with the new ID of this cluster: the Network is the one that the controller with the old ID has written.
func (m *mover) checkNewSide(p pair, network *samplecrdv1.Network) error {
	isSame := p.handover.From.UID == network.UID
	hasBegun := live.HasFinalizer(network) && live.IsWrittenHere(network)
	createsNothing := network.Spec.Import != nil || hasNetwork(m.inventories[p.cloud].owners[p.handover.From], network.Status.NetworkID)
	if isLocked(network) || isSame || !hasBegun || createsNothing || hasHandledPause(network) {
		return nil
	}
	return errors.New("the controller of this cluster may be creating a network for it: pause it with the annotations " + samplecrdv1.AnnotationPaused + "=true and " +
		samplecrdv1.AnnotationReconcileRequestedAt + "=" + requestPrefix + "1, and run this again in a few seconds; only if no controller works here, remove its finalizer " + samplecrdv1.Finalizer)
}

// isPausedForMove reports whether a user has paused the Network for a move, and hasHandledPause whether the controller has seen it.
func isPausedForMove(network *samplecrdv1.Network) bool {
	return network.IsPaused() && strings.HasPrefix(network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt], requestPrefix)
}

func hasHandledPause(network *samplecrdv1.Network) bool {
	return isPausedForMove(network) && network.Status.LastHandledReconcileAt == network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]
}

// get reads the Network. It fails if that is another one by now.
func (m *mover) get(ctx context.Context, network *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	now, err := m.clients.Networks.SamplecrdV1().Networks(network.Namespace).Get(ctx, network.Name, metav1.GetOptions{})
	if err == nil && now.UID != network.UID {
		return nil, errors.New("it was deleted and created again meanwhile")
	}
	return now, err
}

// locked reads the Network, and fails if it does not have the lock any more.
func (m *mover) locked(ctx context.Context, network *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	now, err := m.get(ctx, network)
	if err != nil {
		return nil, err
	}
	if !live.HasFinalizer(now) || now.Annotations[samplecrdv1.AnnotationMovingFrom] != network.Annotations[samplecrdv1.AnnotationMovingFrom] {
		return nil, fmt.Errorf("somebody has removed its finalizer or its annotation %s", samplecrdv1.AnnotationMovingFrom)
	}
	return now, nil
}

// unlock ends the pause.
func (m *mover) unlock(ctx context.Context, network *samplecrdv1.Network) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := m.locked(ctx, network)
		if err != nil {
			return err
		}
		_, err = m.live.Unlock(ctx, now, unlockPrefix+time.Now().UTC().Format(time.RFC3339Nano))
		return err
	})
}

// checkOldSide returns an error if a controller may work on the old Network: nobody says that it is stopped, and -f does not show that
// it has paused the Network for a move.
func (m *mover) checkOldSide(p pair) error {
	old := p.Old
	switch {
	case m.request.OldIsStopped:
		return nil
	case old.UID != "" && old.UID == p.Network.UID:
		return errors.New("-f has this Network itself, not that of the old cluster: is the current context that of the new cluster?")
	case old.UID != "" && old.UID != p.handover.From.UID:
		return fmt.Errorf("-f has Network %s, and by %s it takes over from another one, %s: give -f that one, paused, or set -old-is-stopped if no controller of cluster %s works",
			neutron.Printable(string(old.UID)), p.evidence, neutron.Printable(string(p.handover.From.UID)), m.request.From)
	case !isPausedForMove(&old):
		return fmt.Errorf("a controller of cluster %s may work on it: set -old-is-stopped if none does, or pause the old Network as -h says", m.request.From)
	case !hasHandledPause(&old):
		return fmt.Errorf("the controller of cluster %s had not paused the old Network when -f was made: get it again in a few seconds, or look at its status there if that does not help", m.request.From)
	}
	return nil
}
