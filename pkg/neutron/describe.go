// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"strings"
)

// PlannedStep is a step that was not taken yet.
type PlannedStep struct {
	// Step is nil if a removal deletes or keeps the network, which Text describes.
	Step Step
	// Text describes the step to users, with the values before and after it.
	Text string
	// Interrupts says which traffic or addresses the step interrupts; "" for none.
	Interrupts string
	// Blocked says what prevents the step now; "" if nothing is known to prevent it. The steps after it
	// wait for it.
	Blocked string
}

// describePlan adds the texts. observed is from before the first step.
func describePlan(steps []Step, observed *Observed) []PlannedStep {
	planned := make([]PlannedStep, len(steps))
	for i, step := range steps {
		planned[i] = PlannedStep{Step: step, Text: plannedText(step, steps[i+1:], observed), Interrupts: interruption(step, steps[i+1:])}
	}
	return planned
}

// plannedText describes a step. then are those after it.
func plannedText(step Step, then []Step, observed *Observed) string {
	switch s := step.(type) {
	case UpdateNetwork:
		return describeTransitions(s.Changes)
	case UpdateRouter:
		return describeTransitions(s.Changes)
	case UpdateSubnet:
		switch subnet := observed.subnet(s.ID); {
		case subnet == nil:
			return s.String() // a step before it creates the subnet, so it has no values yet
		case len(observed.Subnets) > 1:
			return "subnet " + subnet.CIDR.String() + ": " + describeTransitions(s.Changes)
		}
		return describeTransitions(s.Changes)
	case SetRoutes:
		return fmt.Sprintf("%s %s → %s", fieldRoutes, shown(s.Before), shown(s.Routes))
	case SetTags:
		return fmt.Sprintf("tags %s → %s", shown(observed.Tags.withoutMarks()), shown(s.Tags.withoutMarks()))
	case CreateSubnet:
		if len(s.Replaces) > 0 {
			return fmt.Sprintf("subnet %s replaced by %s", cidrsOf(observed, s.Replaces), plannedRange(&s.Subnet))
		}
		return "subnet " + plannedRange(&s.Subnet) + " created"
	case DeleteSubnet:
		if next := successor(s, then); next != nil {
			why := "with which it overlaps"
			if !next.Subnet.CIDR.Overlaps(s.CIDR) {
				why = "which Neutron refuses beside the old subnet: both have to be from one subnet pool, or from none"
			}
			return fmt.Sprintf("subnet %s replaced by %s, %s", s.CIDR, plannedRange(&next.Subnet), why)
		}
	}
	return step.String()
}

// plannedRange describes the addresses of a new subnet.
func plannedRange(d *DesiredSubnet) string {
	if d.SubnetPool != nil {
		return d.rangeText() + " (Neutron will choose its CIDR)"
	}
	return d.rangeText()
}

// cidrsOf names subnets.
func cidrsOf(observed *Observed, ids []string) string {
	cidrs := make([]string, len(ids))
	for i, id := range ids {
		cidrs[i] = observed.subnet(id).CIDR.String()
	}
	return strings.Join(cidrs, ", ")
}

// describeTransitions describes changes with the values before and after them.
func describeTransitions(changes []Change) string {
	setsGateway := gatewayIn(changes).IsValid()
	var texts []string
	for _, c := range changes {
		switch {
		case c.Role == roleMark:
			texts = append(texts, c.String())
		case !(setsGateway && c.IsDefault && c.Role == rolePools): // they follow the gateway
			texts = append(texts, fmt.Sprintf("%s %s → %s", c.Label, shown(c.Before), shown(c.Value)))
		}
	}
	return strings.Join(texts, ", ")
}

// successor returns the step that creates a subnet for which this one makes room; nil if none does.
func successor(s DeleteSubnet, then []Step) *CreateSubnet {
	for _, step := range then {
		if create, ok := step.(CreateSubnet); ok && create.Subnet.excludes(&Subnet{CIDR: s.CIDR, PoolID: s.PoolID}) {
			return &create
		}
	}
	return nil
}

// interruption returns PlannedStep.Interrupts. then are the steps after it.
func interruption(step Step, then []Step) string {
	switch s := step.(type) {
	case UpdateNetwork:
		return interruptionByMTU(s.Changes)
	case DeleteSubnet:
		if successor(s, then) != nil {
			return "the old subnet goes before the new one comes"
		}
	case DetachSubnet:
		for _, next := range then {
			if attach, ok := next.(AttachSubnet); ok && attach.Subnet == s.Subnet {
				const text = "no traffic through a router until the subnet is attached again"
				if gatewayChange(s.Changes) != nil {
					return text + ", then none of a machine until it uses the new gateway, for example after a new DHCP lease"
				}
				return text
			}
		}
		return "no traffic from this subnet through the router any more"
	case SetRoutes:
		if removed := s.Before.without(s.Routes); removed != "" {
			return fmt.Sprintf("no traffic to %s any more", removed)
		}
	case RemoveRoutes:
		for _, next := range then {
			if set, ok := next.(SetRoutes); ok && s.Routes.without(set.Routes) == "" {
				return "no traffic over these routes until they are set again"
			}
		}
		return "no traffic over these routes any more"
	case DeleteRouter:
		return "the addresses of the router are released"
	}
	return ""
}

// interruptionByMTU is interruption for changes of a network: machines go on to send packets of the old size.
func interruptionByMTU(changes []Change) string {
	for _, c := range changes {
		before, _ := c.Before.(int)
		after, _ := c.Value.(int)
		if c.Role == roleMTU && after < before {
			return fmt.Sprintf("packets of a machine of more than %d bytes until it uses the new MTU, for example after a new DHCP lease", after)
		}
	}
	return ""
}
