// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

// selection says which networks are exported.
type selection struct {
	// arguments are names and IDs; none for all networks.
	arguments []string
	// tags are those that each network must have.
	tags []string
	// imported are the Networks that import a network already, by its ID.
	imported map[string]string
}

// omission is a network that is left out although the selection has it.
type omission struct {
	title, reason string
	isExternal    bool
}

// choose returns the networks that are exported, and those that are left out.
func (s *selection) choose(networks []*neutron.NetworkDetails) (chosen []*neutron.NetworkDetails, leftOut []omission) {
	for _, n := range networks {
		switch reason := s.reasonToLeaveOut(n); {
		case !s.has(n):
		case reason != "":
			leftOut = append(leftOut, omission{titleOf(n), reason, false})
		case n.External && len(s.arguments) == 0:
			leftOut = append(leftOut, omission{titleOf(n), "it is an external network, which can be observed, but not managed; name it to export it nevertheless", true})
		default:
			chosen = append(chosen, n)
		}
	}
	slices.SortFunc(leftOut, func(a, b omission) int { return strings.Compare(a.title, b.title) })
	return chosen, leftOut
}

func (s *selection) has(n *neutron.NetworkDetails) bool {
	tags := n.Tags.All()
	isNamed := func(argument string) bool { return argument == n.ID || argument == n.Name }
	return (len(s.arguments) == 0 || slices.ContainsFunc(s.arguments, isNamed)) &&
		!slices.ContainsFunc(s.tags, func(tag string) bool { return !slices.Contains(tags, tag) })
}

// reasonToLeaveOut returns why no selection exports the network, "" if there is no reason.
func (s *selection) reasonToLeaveOut(n *neutron.NetworkDetails) string {
	if owner, marked := neutron.OwnerOf(n.Description); marked {
		return neutron.Printable(fmt.Sprintf("it carries the mark of the Network with the UID %s in the cluster %s", owner.UID, owner.Cluster))
	}
	if importers := neutron.ImportersOf(n.Tags); len(importers) > 0 {
		return neutron.Printable(fmt.Sprintf("the Network with the UID %s has imported it", importers[0].UID))
	}
	if name := s.imported[n.ID]; name != "" {
		return fmt.Sprintf("the Network %s imports it", name)
	}
	return ""
}

// missing returns the arguments that are neither the name nor the ID of a network.
func (s *selection) missing(networks []*neutron.NetworkDetails) (missing []string) {
	for _, argument := range s.arguments {
		if !slices.ContainsFunc(networks, func(n *neutron.NetworkDetails) bool { return argument == n.ID || argument == n.Name }) {
			missing = append(missing, argument)
		}
	}
	return missing
}

// unknown returns an error if an argument names no network.
func (s *selection) unknown(networks []*neutron.NetworkDetails) error {
	missing := s.missing(networks)
	if len(missing) == 0 {
		return nil
	}
	hint := "; a network of another project can only be named by its ID"
	var names, quoted []string
	for _, n := range networks {
		names = append(names, n.Name)
	}
	for _, argument := range missing {
		quoted = append(quoted, strconv.Quote(argument))
	}
	if nearest := options.Nearest(missing[0], names); nearest != "" && len(missing) == 1 {
		hint = fmt.Sprintf(": did you mean %s?", neutron.Printable(nearest))
	}
	return fmt.Errorf("no network of the project has the name or the ID %s%s", strings.Join(quoted, ", "), hint)
}
