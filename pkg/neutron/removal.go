// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import "slices"

// NextRemoval returns the next step of a removal, and nil if nothing of the owner is left: the network is freed and deleted,
// or its mark and those of its subnets and routers are removed if all that is to be retained. Like View.Next it continues
// from any state that a crash leaves behind. The caller must know that the network is the owner's.
func NextRemoval(identity Identity, observed *Observed, retain bool) Step {
	if retain {
		return nextRetention(identity, observed)
	}
	if step := nextRouterRemoval(identity, observed); step != nil || !observed.Exists() {
		return step
	}
	return DeleteNetwork{Network: &observed.Network}
}

// nextRetention returns the next step that removes a mark.
func nextRetention(identity Identity, observed *Observed) Step {
	for _, s := range observed.Subnets {
		if identity.Owner.marks(s.Description) {
			return UnmarkSubnet{s}
		}
	}
	for _, r := range observed.Routers {
		if r.isOwnedBy(identity.Owner) {
			return UnmarkRouter{r}
		}
	}
	if tags := observed.importTagsOf(identity.Owner); identity.Import != "" && len(tags) > 0 {
		return UnmarkImport{observed.ID, tags}
	}
	if identity.Import == "" && observed.Exists() {
		return UnmarkNetwork{observed.ID}
	}
	return nil
}

// nextRouterRemoval returns the next step that frees a network for its deletion: its interfaces are
// removed, and then the owner's routers. It returns nil if the network can be deleted.
func nextRouterRemoval(identity Identity, observed *Observed) Step {
	if step := nextDetachment(identity, observed); step != nil || len(observed.Duplicates) > 0 {
		return step // a duplicate can be attached to the routers
	}
	for _, r := range observed.Routers {
		if r.isOwnedBy(identity.Owner) {
			return DeleteRouter{r.ID}
		}
	}
	return nil
}

// nextDetachment returns the step that removes an interface of the owner, or first the routes through it; nil if there is none.
func nextDetachment(identity Identity, observed *Observed) Step {
	at := slices.IndexFunc(observed.Interfaces, func(i Interface) bool { return identity.managesByStatus(observed, i) })
	if at < 0 {
		return nil
	}
	step := detach(observed, observed.Interfaces[at])
	step.IsRemoval = true
	return identity.freeing(observed, step)
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
