// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"strings"
)

// PlannedStep is a step that was not taken yet.
type PlannedStep struct {
	// Step is nil for the deletion of a network in a removal, which Text describes.
	Step Step
	// Text describes the step to users, with the values before and after it.
	Text string
	// Interrupts says which traffic or addresses the step interrupts; "" for none.
	Interrupts string
	// Blocked says what prevents the step now; "" if nothing is known to prevent it. The steps after it
	// wait for it.
	Blocked string
}

// Preview is what Converge would do, or how a network that is only observed differs from the spec.
type Preview struct {
	Steps       []PlannedStep
	Differences []string
}

// Preview reads Neutron, and returns the steps that Converge would take, with what prevents them. It
// changes nothing. The caller must relist the Observer first. It returns an error if Neutron cannot be
// read, or if the spec cannot be followed as it is: an import is refused, or there is no router of that
// name. Neutron can still refuse a step, for example because of a quota.
func (c *Cloud) Preview(ctx context.Context, identity Identity, desired Desired) (Preview, error) {
	observed, err := c.Observe(ctx, identity, Cached)
	v := View{identity, desired, observed}
	if err == nil {
		err = v.CheckImport()
	}
	if err == nil {
		v.Observed, err = c.pickSurvivor(ctx, identity, observed)
	}
	if err != nil {
		return Preview{}, err
	}
	v, unresolved := c.resolve(ctx, v)
	if v.Observe {
		return Preview{Differences: v.Differences()}, unresolved
	}
	steps, err := c.foretell(ctx, v)
	if err != nil {
		return Preview{}, err
	}
	return Preview{Steps: steps}, unresolved
}

// PreviewRemoval is Preview for Remove.
func (c *Cloud) PreviewRemoval(ctx context.Context, identity Identity, retain bool) ([]PlannedStep, error) {
	observed, err := c.Observe(ctx, identity, Cached)
	if err != nil || identity.Observe {
		return nil, err
	}
	if retain = retain || identity.keeps(&observed.Network); !retain {
		if err := identity.checkDeletion(&observed.Network); err != nil {
			return nil, err
		}
	}
	identity = c.withDeclaredRouter(ctx, identity, observed)
	planned, stays := planRemoval(identity, observed, retain)
	if stays != "" {
		return []PlannedStep{{Text: stays}}, nil
	}
	steps, _, _, err := c.checkPlanned(ctx, identity, observed, planned)
	for i, s := range steps {
		if _, isEnd := s.Step.(DeleteNetwork); isEnd {
			steps[i].Step = nil
		}
	}
	return steps, err
}

// planRemoval returns the steps of Remove, or says what stays. A network without the owner's mark stays as it is.
func planRemoval(identity Identity, observed *Observed, retain bool) (steps []Step, stays string) {
	switch {
	case observed.IsEmpty(), identity.hasLost(observed):
		return nil, ""
	case retain && observed.Exists():
		return nil, "network " + observed.ID + " stays, without its ownership mark"
	case retain:
		return nil, "the router stays, without its ownership mark"
	}
	return stepsOf(func(o *Observed) Step { return NextRemoval(identity, o, false) }, observed), ""
}

// foretell returns the steps that Converge would take, and then those that it would leave out because they
// restore what the spec does not declare and are known to fail.
func (c *Cloud) foretell(ctx context.Context, v View) ([]PlannedStep, error) {
	var left []PlannedStep
	for {
		plan := v.Plan()
		steps, failing, obstacle, err := c.checkPlanned(ctx, v.Identity, v.Observed, plan)
		if err != nil || !isRefusal(obstacle) {
			return append(steps, left...), err
		}
		held := heldBy(plan, failing)
		subnet, defaults := restored(plan[held:], failing-held)
		if len(defaults) == 0 {
			return append(steps, left...), nil
		}
		var step Step = UpdateNetwork{defaults}
		if subnet != "" {
			step = UpdateSubnet{ID: subnet, Changes: defaults}
		}
		refused := describePlan([]Step{step}, v.Observed)[0]
		refused.Blocked = steps[held].Blocked
		left, v.Refused = append(left, refused), v.refusing(subnet, defaults)
	}
}

// checkPlanned returns the steps of the plan, with Blocked in the one that is not taken because something in
// Neutron is known to prevent it or a later one. It returns the number of the step that is known to fail, and why;
// -1 if there is none.
func (c *Cloud) checkPlanned(ctx context.Context, identity Identity, observed *Observed, plan []Step) (steps []PlannedStep, failing int, obstacle, err error) {
	steps = describePlan(plan, observed)
	l := lookahead{Cloud: c, identity: identity, observed: observed, isListed: true}
	failing, err = l.checkAll(ctx, plan)
	if err == nil || !prevents(err) {
		return steps, -1, nil, err
	}
	steps[heldBy(plan, failing)].Blocked = errorIn(err).Message
	return steps, failing, err, nil
}

// prevents reports whether the error says what prevents a step.
func prevents(err error) bool {
	switch ReasonOf(err) {
	case InUse, Unresolved, Invalid, OverQuota:
		return true
	}
	return false
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
		if subnet := observed.subnet(s.ID); subnet != nil && len(observed.Subnets) > 1 {
			return "subnet " + subnet.CIDR.String() + ": " + describeTransitions(s.Changes)
		}
		return describeTransitions(s.Changes)
	case SetTags:
		return fmt.Sprintf("tags %s → %s", shown(observed.Tags.withoutMarks()), shown(s.Tags.withoutMarks()))
	case CreateSubnet:
		if len(s.Replaces) > 0 {
			return fmt.Sprintf("subnet %s replaced by %s", cidrsOf(observed, s.Replaces), s.Subnet.CIDR)
		}
	case DeleteSubnet:
		if next := successor(s, then); next != nil {
			return fmt.Sprintf("subnet %s replaced by %s, with which it overlaps", s.CIDR, next.Subnet.CIDR)
		}
	}
	return step.String()
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
		if create, ok := step.(CreateSubnet); ok && create.Subnet.CIDR.Overlaps(s.CIDR) {
			return &create
		}
	}
	return nil
}

// interruption returns PlannedStep.Interrupts. then are the steps after it.
func interruption(step Step, then []Step) string {
	switch s := step.(type) {
	case DeleteSubnet:
		if successor(s, then) != nil {
			return "the old subnet goes before the new one comes"
		}
	case DetachSubnet:
		for _, next := range then {
			if attach, ok := next.(AttachSubnet); ok && attach.Subnet == s.Subnet {
				return "no traffic through a router until the subnet is attached again"
			}
		}
		return "no traffic from this subnet through the router any more"
	case DeleteRouter:
		return "the addresses of the router are released"
	}
	return ""
}
