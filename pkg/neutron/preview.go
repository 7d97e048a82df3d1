// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"slices"
)

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
	if v.ReadOnly {
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
	if err != nil || identity.ReadOnly {
		return nil, err
	}
	if observed, err = c.withRouters(ctx, identity, observed); err != nil {
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

// foretell returns the steps that Converge would take, and then those that it would leave out because they are known to fail: they are
// about another project, or restore what the spec does not declare.
func (c *Cloud) foretell(ctx context.Context, v View) ([]PlannedStep, error) {
	var left []PlannedStep
	for {
		plan := v.Plan()
		steps, failing, obstacle, err := c.checkPlanned(ctx, v.Identity, v.Observed, plan)
		if obstacle != nil {
			if project := refusedProject(plan[failing], obstacle); project != "" {
				left, v.LeftOut = append(left, steps[failing]), append(v.LeftOut, project)
				continue
			}
		}
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
	return slices.Contains([]ErrorReason{InUse, Unresolved, NoZone, Invalid, OverQuota}, ReasonOf(err))
}
