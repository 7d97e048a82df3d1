// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"slices"
)

// An edit that cannot be completed costs nothing: before the first step that creates or takes away
// something, or moves a gateway, Converge goes through the rest of a plan that takes something away or moves
// a gateway before all that the spec declares is there. If a step is known to fail, none of them is taken.

// planFrom returns the plan that begins with the step, as far as it must be checked before the step is taken. isWhole
// means that the steps after it need no such check any more.
func (v View) planFrom(step Step) (plan []Step, isWhole bool) {
	if effectOf(step).onlyUpdates || !v.Observed.Exists() {
		return []Step{step}, false
	}
	v.Observed = step.expect(v.Observed)
	plan = joint(append([]Step{step}, v.Plan()...))
	switch step.(type) {
	case CreateRouter, UpdateSubnet: // what can be attached is only known afterwards
		return plan, false
	}
	return plan, len(plan) > 1
}

// joint returns the steps of the plan that are checked before the first one is taken: all but those that nothing depends on, or
// only the first one, if nothing is in danger before what the spec declares is there. So a port in a subnet that is
// no longer declared does not prevent a repair.
func joint(plan []Step) []Step {
	if effectOf(plan[0]).isApart {
		return plan[:1]
	}
	all := append(plan[:1:1], slices.DeleteFunc(slices.Clone(plan[1:]), func(s Step) bool { return effectOf(s).isApart })...)
	declared := len(all)
	for declared > 0 && effectOf(all[declared-1]).isRelease {
		declared--
	}
	if declared > 0 && !slices.ContainsFunc(all[:declared], func(s Step) bool { return effectOf(s).costs() }) {
		return all[:1]
	}
	return all
}

// heldBy returns the number of the first step of the plan that is not taken because the step with the number
// failing is known to fail. It is that step, if nothing depends on it.
func heldBy(plan []Step, failing int) (held int) {
	if effectOf(plan[failing]).isApart {
		return failing
	}
	for held < failing && (effectOf(plan[held]).onlyUpdates || len(joint(plan[held:])) == 1) {
		held++
	}
	return held
}
