// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"fmt"
	"slices"
)

// Handover gives all objects of one owner in Neutron to another one: to a Network of another cluster, or to the same Network when
// its cluster gets another ID. It changes marks, and nothing else. The controller never does this; the subcommand move does.
type Handover struct {
	From, To Owner
	// Import is the ID of the network that both import, "" if the controller has created the network.
	Import string
}

// Move is one change of a Handover.
type Move struct {
	Kind MoveKind
	// ID is that of the network, the subnet or the router.
	ID string
}

// MoveKind is the kind of a Move.
type MoveKind string

// What a Move changes.
const (
	// MoveNetwork, MoveSubnet and MoveRouter replace the mark in the description.
	MoveNetwork MoveKind = "mark of network"
	MoveSubnet  MoveKind = "mark of subnet"
	MoveRouter  MoveKind = "mark of router"
	// AddTag adds the new owner's tag to an imported network, and RemoveTag removes the old owner's.
	AddTag    MoveKind = "new tag of network"
	RemoveTag MoveKind = "old tag of network"
)

func (m Move) String() string {
	verb := cmp.Or(map[MoveKind]string{AddTag: "added", RemoveTag: "removed"}[m.Kind], "replaced")
	return fmt.Sprintf("%s %s %s", m.Kind, m.ID, verb)
}

// Moves returns the changes that are left, in their order. Each is a decision of its own: after an interruption, what is left
// follows from what is observed.
//
// The network is the first of what the controller has created. From then on, the old side cannot delete it, and the new side, which
// does nothing until the end, owns it. In the other order, the old side could delete the network with subnets that are the new
// side's already. The subnets are the last: their marks tell whose network it was, if the annotations are lost. An imported network has
// both tags for a while: then both sides refuse to change it. Without any tag, every Network could take it.
func (h Handover) Moves(observed *Observed) (moves []Move) {
	if h.From.marks(observed.Description) {
		moves = append(moves, Move{MoveNetwork, observed.ID})
	}
	oldTags := h.oldTags(&observed.Network)
	if h.Import != "" && len(oldTags) > 0 && !observed.namesCluster(h.To) {
		moves = append(moves, Move{AddTag, observed.ID})
	}
	for i := range observed.Routers {
		if observed.Routers[i].isOwnedBy(h.From) {
			moves = append(moves, Move{MoveRouter, observed.Routers[i].ID})
		}
	}
	for i := range observed.Subnets {
		if h.From.marks(observed.Subnets[i].Description) {
			moves = append(moves, Move{MoveSubnet, observed.Subnets[i].ID})
		}
	}
	if h.Import != "" && len(oldTags) > 0 {
		moves = append(moves, Move{RemoveTag, observed.ID})
	}
	return moves
}

// oldTags returns the tags of the network that mark the import of From. If both owners have one UID, the new tag does not make a tag of an
// older version that of somebody else.
func (h Handover) oldTags(n *Network) []string {
	withoutNew := Network{Tags: n.Tags.without(h.To.ImportTag())}
	return withoutNew.importTagsOf(h.From)
}

// IsBegun reports whether a handover that has begun only has to be finished: the network is the new owner's already, or nothing is left.
func (h Handover) IsBegun(observed *Observed) bool {
	hasNetwork := h.To.marks(observed.Description) || h.Import != "" && observed.namesCluster(h.To)
	return hasNetwork || len(h.Moves(observed)) == 0
}

// Listed is ObserveHandover for a network that is not imported, by what ListOwners has returned. It makes no request.
func (h Handover) Listed(owners map[Owner]*Observed) (*Observed, error) {
	var networks []*Network
	var routers []Router
	for _, owner := range []Owner{h.From, h.To} {
		if listed := owners[owner]; listed != nil {
			networks, routers = append(networks, listed.Networks()...), append(routers, listed.Routers...)
		}
	}
	observed := newObserved(h.From.UID, networks, routers, true)
	return observed, h.check(observed)
}

func cannotTakeOver(format string, args ...any) error {
	return &Error{Op: "take over", Reason: Invalid, Message: Printable(fmt.Sprintf(format, args...))}
}

// check returns an error if the handover cannot be made: nothing is changed then.
func (h Handover) check(observed *Observed) error {
	networks := observed.Networks()
	left := slices.IndexFunc(networks, func(n *Network) bool { return !h.To.marks(n.Description) })
	for _, n := range networks {
		_, isMarked := OwnerOf(n.Description)
		switch {
		case n.IsForeign:
			return cannotTakeOver("network %s belongs to another project than the credentials", n.ID)
		case h.Import == "" && len(n.importTagsOf(h.From)) > 0:
			return cannotTakeOver("network %s was imported: create this Network with spec.import", n.ID)
		case h.Import == "" && !isMarked:
			return cannotTakeOver("network %s has lost its mark, so the controller of this cluster would not find it: if it is the right one, run openstack network set --description %q %s", n.ID, h.lostMark(n), n.ID)
		case len(networks) > 1 && h.To.marks(n.Description) && left >= 0: // which one is in use, only their ports show
			return cannotTakeOver("it has network %[1]s already, and the old owner has network %[2]s: if nothing uses %[1]s, delete this Network, and remove its annotation moving-from if it has that, so that the controller deletes %[1]s; then create it again, paused; if nothing uses %[2]s, delete %[2]s in Neutron", n.ID, networks[left].ID)
		case len(networks) > 1 && n.ID != observed.ID:
			return cannotTakeOver("networks %s and %s have the same mark: delete the one that is not in use", observed.ID, n.ID)
		}
	}
	if h.Import == "" {
		return nil
	}
	if owner, isMarked := OwnerOf(observed.Description); isMarked {
		return cannotTakeOver("network %s was created for Network %s of cluster %s, and cannot be imported: create this Network without spec.import", h.Import, owner.UID, owner.Cluster)
	}
	ours := append(h.oldTags(&observed.Network), observed.importTagsOf(h.To)...)
	for _, tag := range observed.Tags.importTags() {
		if !slices.Contains(ours, tag) {
			return cannotTakeOver("a third Network imports network %s too: if that one is gone, run openstack network unset --tag %s %s", h.Import, tag, h.Import)
		}
	}
	return nil
}

// lostMark returns the mark of a network that has lost it. A subnet with the old mark shows that the move was not finished.
func (h Handover) lostMark(n *Network) string {
	if slices.ContainsFunc(n.Subnets, func(s Subnet) bool { return h.From.marks(s.Description) }) {
		return h.From.Mark()
	}
	return h.To.Mark()
}
