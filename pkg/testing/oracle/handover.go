// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import "slices"

// HandoverStep is something that the subcommand move does: whose mark the network, a subnet and a router have before, Old or New, and
// what changes. "" is one that there is not.
type HandoverStep struct{ Network, Subnet, Router, Change string }

// The owners of a HandoverStep.
const (
	Old = "old"
	New = "new"
)

// Handover has all steps that the model of the handover takes: pkg/neutron/handover_model_test.go, which compares them. At the unlock,
// the controller of the new side begins.
var Handover = []HandoverStep{
	{Old, Old, Old, "mark of network"},
	{New, Old, Old, "mark of router"},
	{New, Old, New, "mark of subnet"},
	{New, New, New, "unlock"},
	// without a router
	{Old, Old, "", "mark of network"},
	{New, Old, "", "mark of subnet"},
	{New, New, "", "unlock"},
}

// IsHandover reports whether the model takes the step for each subnet and each router that have a mark: the mark of the object with
// that ID changes from the old owner's to the new one's, or the Network is unlocked if there is no ID. Of what does not exist, any
// mark fits.
func (s *Snapshot) IsHandover(from, to, id string) bool {
	marks := map[string]string{from: Old, to: New}
	network, subnets, routers, change := "", map[string]string{"": ""}, map[string]string{"": ""}, "unlock"
	for key, n := range s.Networks {
		if marks[n.Description] != "" {
			network = marks[n.Description]
		}
		if key == id {
			change = "mark of network"
		}
	}
	for key, n := range s.Subnets {
		if marks[n.Description] != "" {
			subnets[key] = marks[n.Description]
		}
		if key == id {
			change, subnets = "mark of subnet", map[string]string{id: marks[n.Description]}
			break
		}
	}
	for key, r := range s.Routers {
		if marks[r.Description] != "" {
			routers[key] = marks[r.Description]
		}
		if key == id {
			change, routers = "mark of router", map[string]string{id: marks[r.Description]}
			break
		}
	}
	for _, subnet := range subnets {
		for _, router := range routers {
			isTaken := slices.ContainsFunc(Handover, func(h HandoverStep) bool {
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
