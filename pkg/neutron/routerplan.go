/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package neutron

import "slices"

// nextForRouter returns the next step from the observed routers and interfaces to the desired ones,
// nil if they match. All desired subnets exist, with their gateways.
//
// Only one interface on a subnet can have the address of its gateway. So all subnets are detached
// from other routers before the first one is attached to the desired router.
func nextForRouter(desired Desired, observed *Network) Step {
	target, step := targetRouter(desired, observed)
	if step != nil {
		return step
	}
	for _, s := range Shown(desired, observed) {
		for _, i := range observed.Interfaces {
			if i.SubnetID == s.ID && i.RouterID != target && desired.manages(observed, i) {
				return detach(observed, i)
			}
		}
	}
	if target == "" {
		return nil
	}
	for i := range desired.Subnets {
		if step := attach(desired, observed, target, &desired.Subnets[i]); step != nil {
			return step
		}
	}
	return nil
}

// targetRouter returns the ID of the router that the subnets must be attached to, "" if there is
// none, or the step that makes it ready.
func targetRouter(desired Desired, observed *Network) (id string, step Step) {
	if desired.Router == nil {
		return "", nil
	}
	if desired.Router.Existing != "" {
		return desired.Router.Existing, nil
	}
	own := ownRouter(desired, observed)
	if own == nil {
		return "", CreateRouter{*desired.Router}
	}
	if changes := changes(routerTable, desired.Router, own); len(changes) > 0 {
		return own.ID, UpdateRouter{own.ID, changes}
	}
	return own.ID, nil
}

// ownRouter returns the router with the owner's mark to keep: the one with the right gateway, or
// one without a gateway, which can get it. Of several it is the one in the status. A router with a
// gateway in another external network is replaced and not changed: a change that fails, because
// the new network is full, takes the old gateway away.
func ownRouter(desired Desired, observed *Network) *Router {
	if desired.Router == nil || desired.Router.Existing != "" {
		return nil
	}
	var own *Router
	for _, gateway := range []string{desired.Router.ExternalNetwork, ""} {
		for i := range observed.Routers {
			r := &observed.Routers[i]
			isBetter := own == nil || own.Gateway.NetworkID == gateway && r.ID == desired.KnownRouter
			if r.isOwnedBy(desired.Owner) && r.Gateway.NetworkID == gateway && isBetter {
				own = r
			}
		}
	}
	return own
}

// attach returns the step that attaches the subnet to the router, or confirms that it is attached;
// nil if that is known. An interface with another address than the subnet's gateway is removed
// first, unless there is one with that address too: any client can create a port that looks like one.
func attach(desired Desired, observed *Network, router string, declared *DesiredSubnet) Step {
	subnet := findSubnet(desired, observed, declared)
	isOn := func(i Interface) bool { return i.RouterID == router && i.SubnetID == subnet.ID }
	at := slices.IndexFunc(observed.Interfaces, func(i Interface) bool { return isOn(i) && i.Address == subnet.Gateway })
	if at < 0 {
		at = slices.IndexFunc(observed.Interfaces, isOn)
	}
	r := observed.router(router)
	step := AttachSubnet{Router: router, Subnet: subnet.ID, CIDR: subnet.CIDR, IsOwn: r != nil && r.isOwnedBy(desired.Owner)}
	if at < 0 {
		return step
	}
	existing := observed.Interfaces[at]
	if existing.Address != subnet.Gateway && !desired.keepsInterface(declared, subnet) {
		return detach(observed, existing)
	}
	if desired.isConfirmed(existing) || !subnet.Gateway.IsValid() { // Neutron attaches no subnet without a gateway
		return nil
	}
	step.Port = existing.PortID
	return step
}

// keepsInterface reports whether an interface may have another address than the gateway: the subnet was
// taken over, and the spec leaves its gateway out.
func (d *Desired) keepsInterface(declared *DesiredSubnet, subnet *Subnet) bool {
	return d.Import != "" && !d.Owner.marks(subnet.Description) && !declared.Gateway.IsValid()
}

// detach returns the step that removes the interface.
func detach(observed *Network, i Interface) DetachSubnet {
	return DetachSubnet{Router: i.RouterID, Subnet: i.SubnetID, CIDR: observed.subnet(i.SubnetID).CIDR}
}

// manages reports whether the owner manages the interface: its subnet is the owner's, and its
// router carries the owner's mark, or is named by the spec or the status. A subnet that was taken over is
// no longer the owner's when the spec does not name it; then the status names the interface.
func (d *Desired) manages(observed *Network, i Interface) bool {
	s := observed.subnet(i.SubnetID)
	if s == nil || !isOurs(*d, s) && !(d.Import != "" && d.KnownPorts[s.ID] == i.PortID) {
		return false
	}
	return d.hasRouter(observed, i.RouterID)
}

// hasRouter reports whether the router carries the owner's mark, or is named by the spec or the
// status.
func (d *Desired) hasRouter(observed *Network, id string) bool {
	if id == "" { // anybody can create such a port
		return false
	}
	r := observed.router(id)
	return r != nil && r.isOwnedBy(d.Owner) || id == d.KnownRouter || d.Router != nil && id == d.Router.Existing
}

// isConfirmed reports whether Neutron has answered that the interface exists.
func (d *Desired) isConfirmed(i Interface) bool {
	return i.Confirmed || d.KnownPorts[i.SubnetID] == i.PortID
}

// routerPort returns the ID of the port that attaches the subnet to a router of the owner's, if that
// is confirmed.
func routerPort(desired Desired, observed *Network, subnet string) string {
	for _, i := range observed.Interfaces {
		if i.SubnetID == subnet && desired.manages(observed, i) && desired.isConfirmed(i) {
			return i.PortID
		}
	}
	return ""
}

// release returns the step that removes an obsolete subnet, or its interface first. others are the
// subnets that are replaced with it.
func release(desired Desired, observed *Network, s Subnet, others []string) Step {
	for _, i := range observed.Interfaces {
		if i.SubnetID == s.ID && desired.manages(observed, i) {
			step := detach(observed, i)
			step.Replaces = append([]string{s.ID}, others...)
			return step
		}
	}
	return DeleteSubnet{ID: s.ID, CIDR: s.CIDR, Others: others}
}

// obsoleteRouter returns the step that deletes a router of the owner that is not the desired one;
// nil if there is none. A user can name a router of the owner as the existing one.
func obsoleteRouter(desired Desired, observed *Network) Step {
	keep := ownRouter(desired, observed)
	for _, r := range observed.Routers {
		isDesired := keep != nil && r.ID == keep.ID || desired.Router != nil && r.ID == desired.Router.Existing
		if r.isOwnedBy(desired.Owner) && !isDesired {
			return DeleteRouter{r.ID}
		}
	}
	return nil
}

// CurrentRouter returns the ID of the router for the status, and whether there is one. It is the
// router in the status while subnets are attached to it or the desired one is not resolved, otherwise
// the desired one, otherwise one that is still to be deleted. The ID is "" for a router that is not
// created yet.
func CurrentRouter(desired Desired, observed *Network) (id string, exists bool) {
	isKept := desired.Router != nil && !desired.Router.isResolved()
	isKept = isKept || slices.ContainsFunc(observed.Interfaces, func(i Interface) bool {
		return i.RouterID == desired.KnownRouter && desired.manages(observed, i)
	})
	if isKept && desired.KnownRouter != "" {
		return desired.KnownRouter, true
	}
	if desired.Router != nil && desired.Router.Existing != "" {
		return desired.Router.Existing, true
	}
	if own := ownRouter(desired, observed); own != nil {
		return own.ID, true
	}
	for _, r := range observed.Routers {
		if r.isOwnedBy(desired.Owner) {
			return r.ID, true
		}
	}
	return "", desired.Router != nil
}

// UnmanagedInterfaces returns the interfaces on the owner's subnets that the owner does not manage.
func UnmanagedInterfaces(desired Desired, observed *Network) []Interface {
	return slices.DeleteFunc(slices.Clone(observed.Interfaces), func(i Interface) bool { return desired.manages(observed, i) })
}

// nextRemoval returns the next step that frees a network for its deletion: its interfaces are
// removed, and then the owner's routers. It returns nil if the network can be deleted.
func nextRemoval(identity Identity, observed *Network) Step {
	for _, i := range observed.Interfaces {
		if identity.manages(observed, i) {
			step := detach(observed, i)
			step.IsRemoval = true
			return step
		}
	}
	return obsoleteRouter(Desired{Owner: identity.Owner}, observed)
}

// removalSteps returns all steps of nextRemoval.
func removalSteps(identity Identity, observed *Network) (steps []Step) {
	for step := nextRemoval(identity, observed); step != nil && len(steps) < maxSteps; step = nextRemoval(identity, observed) {
		steps = append(steps, step)
		observed = step.expect(observed)
	}
	return steps
}

// manages is Desired.manages.
func (i Identity) manages(observed *Network, on Interface) bool {
	desired := Desired{Owner: i.Owner, KnownRouter: i.Router, Known: i.Subnets, Router: &DesiredRouter{Existing: i.Declared}}
	return desired.manages(observed, on)
}
