// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// Owner is a Network of a cluster, as its marks name it.
type Owner struct{ Cluster, UID string }

// Mark returns the description that marks what the owner has created.
func (o Owner) Mark() string { return ownerMark + o.Cluster + "/" + o.UID }

// Tag returns the tag that marks what the owner has imported.
func (o Owner) Tag() string {
	return importTag + o.UID + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(o.Cluster)))[:7]
}

// HandoverStep is something that the subcommand move does: whose mark the network, a subnet and a router have before, Old or New, and
// what changes. "" is one that there is not. An imported network is marked by tags, and can have Both.
type HandoverStep struct{ Network, Subnet, Router, Change string }

// The owners of a HandoverStep.
const (
	Old  = "old"
	New  = "new"
	Both = "both"
)

// What a HandoverStep changes, besides the marks of a network, a subnet and a router.
const (
	newTag = "new tag of network"
	oldTag = "old tag of network"
	unlock = "unlock"
)

// Handover has all steps that the model of the handover takes: pkg/neutron/handover_model_test.go, which compares them. At the unlock,
// the controller of the new side begins.
var Handover = []HandoverStep{
	{Old, Old, Old, "mark of network"},
	{New, Old, Old, "mark of router"},
	{New, Old, New, "mark of subnet"},
	{New, New, New, unlock},
	// without a router
	{Old, Old, "", "mark of network"},
	{New, Old, "", "mark of subnet"},
	{New, New, "", unlock},
}

// HandoverOfImport has all steps for an imported network, in their order.
var HandoverOfImport = []HandoverStep{
	{Old, Old, Old, newTag},
	{Both, Old, Old, "mark of router"},
	{Both, Old, New, "mark of subnet"},
	{Both, New, New, oldTag},
	{New, New, New, unlock},
	// without a router and a subnet of its own
	{Old, "", "", newTag},
	{Both, "", "", oldTag},
	{New, "", "", unlock},
}

// IsHandover reports whether the model takes the step for each subnet and each router that have a mark: the mark of the object with
// that ID changes from the old owner's to the new one's, or the tag is added or removed, or the Network is unlocked if there is no ID.
// Of what does not exist, any mark fits.
func (s *Snapshot) IsHandover(from, to Owner, idOrTag string) bool {
	marks := map[string]string{from.Mark(): Old, to.Mark(): New}
	network, subnets, routers := "", map[string]string{"": ""}, map[string]string{"": ""}
	change := map[string]string{"": unlock, to.Tag(): newTag, from.Tag(): oldTag}[idOrTag]
	for key, n := range s.Networks {
		isOld, isNew := slices.Contains(n.Tags, from.Tag()), slices.Contains(n.Tags, to.Tag())
		switch {
		case isOld && isNew:
			network = Both
		case isOld || n.Description == from.Mark():
			network = Old
		case isNew || n.Description == to.Mark():
			network = New
		}
		if key == idOrTag {
			change = "mark of network"
		}
	}
	for key, n := range s.Subnets {
		if marks[n.Description] != "" {
			subnets[key] = marks[n.Description]
		}
		if key == idOrTag {
			change, subnets = "mark of subnet", map[string]string{idOrTag: marks[n.Description]}
			break
		}
	}
	for key, r := range s.Routers {
		if marks[r.Description] != "" {
			routers[key] = marks[r.Description]
		}
		if key == idOrTag {
			change, routers = "mark of router", map[string]string{idOrTag: marks[r.Description]}
			break
		}
	}
	for _, subnet := range subnets {
		for _, router := range routers {
			isTaken := slices.ContainsFunc(slices.Concat(Handover, HandoverOfImport), func(h HandoverStep) bool {
				return h.Change == change && fits(network, h.Network) && fits(subnet, h.Subnet) && fits(router, h.Router)
			})
			if !isTaken {
				return false
			}
		}
	}
	return true
}

func fits(mark, wanted string) bool { return mark == "" || mark == wanted }
