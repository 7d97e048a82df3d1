// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"slices"
	"strings"
)

// nextForRouter returns the next step from the observed routers and interfaces to the desired ones,
// nil if they match, or if it is not known which router is meant. All desired subnets exist, with their gateways, except those
// whose subnet pool is not known.
//
// Only one interface on a subnet can have the address of its gateway. So all subnets are detached
// from other routers before the first one is attached to the desired router.
func (v *View) nextForRouter() Step {
	if !v.Router.isResolved() {
		return nil
	}
	target, step := v.targetRouter()
	if step != nil {
		return step
	}
	for _, s := range v.Shown() {
		for _, i := range v.Observed.Interfaces {
			if i.SubnetID == s.ID && i.RouterID != target && v.manages(i) {
				return detach(v.Observed, i)
			}
		}
	}
	if target == "" {
		return nil
	}
	for i := range v.Subnets {
		if step := v.attach(target, &v.Subnets[i]); step != nil {
			return step
		}
	}
	return nil
}

// targetRouter returns the ID of the router that the subnets must be attached to, "" if there is
// none, or the step that makes it ready.
func (v *View) targetRouter() (id string, step Step) {
	if v.Router == nil {
		return "", nil
	}
	if v.Router.Existing != "" {
		return v.Router.Existing, nil
	}
	own := v.ownRouter()
	if own == nil {
		return "", CreateRouter{*v.Router}
	}
	if changes := changes(routerTable, v.Router, own); len(changes) > 0 {
		return own.ID, UpdateRouter{own.ID, changes}
	}
	return own.ID, nil
}

// ownRouter returns the router with the owner's mark to keep: the one with the right gateway, or
// one without a gateway, which can get it. Of several it is the one in the status. A router with a
// gateway in another external network is replaced and not changed: a change that fails, because
// the new network is full, takes the old gateway away. Neutron cannot change availability zones.
func (v *View) ownRouter() *Router {
	if v.Router == nil || v.Router.Existing != "" {
		return nil
	}
	var own *Router
	for _, gateway := range []string{v.Router.ExternalNetwork, ""} {
		for i := range v.Observed.Routers {
			r := &v.Observed.Routers[i]
			isBetter := own == nil || own.Gateway.NetworkID == gateway && r.ID == v.RouterID
			if r.isOwnedBy(v.Owner) && r.Gateway.NetworkID == gateway && isBetter && matchesFixed(routerTable, v.Router, r, false) {
				own = r
			}
		}
	}
	return own
}

// attach returns the step that attaches the subnet to the router, or confirms that it is attached;
// nil if that is known. An interface with another address than the subnet's gateway is removed
// first, unless there is one with that address too: any client can create a port that looks like one.
func (v *View) attach(router string, declared *DesiredSubnet) Step {
	subnet := v.findSubnet(declared)
	if subnet == nil { // it is not known which subnet pool it is from
		return nil
	}
	isOn := func(i Interface) bool { return i.RouterID == router && i.SubnetID == subnet.ID }
	at := slices.IndexFunc(v.Observed.Interfaces, func(i Interface) bool { return isOn(i) && i.Address == subnet.Gateway })
	if at < 0 {
		at = slices.IndexFunc(v.Observed.Interfaces, isOn)
	}
	r := v.Observed.router(router)
	step := AttachSubnet{Router: router, Subnet: subnet.ID, CIDR: subnet.CIDR, IsOwn: r != nil && r.isOwnedBy(v.Owner)}
	if at < 0 {
		return step
	}
	existing := v.Observed.Interfaces[at]
	if existing.Address != subnet.Gateway && !v.keepsInterface(declared, subnet) {
		return detach(v.Observed, existing)
	}
	if v.isConfirmed(existing) || !subnet.Gateway.IsValid() { // Neutron attaches no subnet without a gateway
		return nil
	}
	step.Port = existing.PortID
	return step
}

// detach returns the step that removes the interface.
func detach(observed *Observed, i Interface) DetachSubnet {
	return DetachSubnet{Router: i.RouterID, Subnet: i.SubnetID, CIDR: observed.subnet(i.SubnetID).CIDR}
}

// isConfirmed reports whether Neutron has answered that the interface exists.
func (v *View) isConfirmed(i Interface) bool {
	return i.Confirmed || v.PortIDs[i.SubnetID] == i.PortID
}

// routerPort returns the ID of the port that attaches the subnet to a router of the owner's, if that
// is confirmed.
func (v *View) routerPort(subnet string) string {
	for _, i := range v.Observed.Interfaces {
		if i.SubnetID == subnet && v.manages(i) && v.isConfirmed(i) {
			return i.PortID
		}
	}
	return ""
}

// removeSubnet returns the step that removes an obsolete subnet, or its interface first. others are the
// subnets that are replaced with it.
func (v *View) removeSubnet(s Subnet, others []string) Step {
	for _, i := range v.Observed.Interfaces {
		if i.SubnetID == s.ID && v.manages(i) {
			step := detach(v.Observed, i)
			step.Replaces = append([]string{s.ID}, others...)
			return step
		}
	}
	return DeleteSubnet{ID: s.ID, CIDR: s.CIDR, PoolID: s.PoolID, Others: others}
}

// obsoleteRouter returns the step that deletes a router of the owner that is not the desired one;
// nil if there is none. A user can name a router of the owner as the existing one.
func (v *View) obsoleteRouter() Step {
	keep := v.ownRouter()
	for _, r := range v.Observed.Routers {
		isDesired := keep != nil && r.ID == keep.ID || v.Router != nil && r.ID == v.Router.Existing
		if r.isOwnedBy(v.Owner) && !isDesired {
			return DeleteRouter{r.ID}
		}
	}
	return nil
}

// CurrentRouter returns the ID of the router for the status, and whether there is one. It is the
// router in the status while subnets are attached to it or the desired one is not resolved, otherwise
// the desired one, otherwise one that is still to be deleted. The ID is "" for a router that is not
// created yet. Of a network that was taken over and is only observed now, the status stays as it is.
func (v *View) CurrentRouter() (id string, exists bool) {
	if v.ReadOnly && v.Imported {
		return v.RouterID, v.RouterRecorded
	}
	isKept := v.Router != nil && !v.Router.isResolved()
	isKept = isKept || slices.ContainsFunc(v.Observed.Interfaces, func(i Interface) bool {
		return i.RouterID == v.RouterID && v.manages(i)
	})
	if isKept && v.RouterID != "" {
		return v.RouterID, true
	}
	if v.Router != nil && v.Router.Existing != "" {
		return v.Router.Existing, true
	}
	if own := v.ownRouter(); own != nil {
		return own.ID, true
	}
	for _, r := range v.Observed.Routers {
		if r.isOwnedBy(v.Owner) {
			return r.ID, true
		}
	}
	return "", v.Router != nil
}

// checkAddresses fails if the router of the Network's own has no address in the external network, as
// in one without a subnet. Neutron adds the address when there is one.
func (v *View) checkAddresses() error {
	own := v.ownRouter()
	if own == nil || own.Gateway.IPs != "" {
		return nil
	}
	return &Error{Op: "spec.router.externalNetwork", Reason: Unresolved,
		Message: fmt.Sprintf("router %s has no address in external network %s, which has no subnet", own.ID, v.Router.ExternalNetwork)}
}

// checkAdminState fails with AdminStateDown if the network is switched off, or the router that its subnets
// must be attached to. Somebody may want that, so the controller leaves it as it is.
func (v *View) checkAdminState() error {
	var off []string
	add := func(kind, id string, isDown adminDown) {
		if isDown {
			off = append(off, fmt.Sprintf("%s %s is switched off: openstack %[1]s set --enable %[2]s switches it on", kind, id))
		}
	}
	add("network", v.Observed.ID, v.Observed.AdminDown)
	router := v.ownRouter()
	if router == nil {
		router = v.Observed.router(v.Declared)
	}
	if router != nil {
		add("router", router.ID, router.AdminDown)
	}
	if len(off) == 0 {
		return nil
	}
	return &Error{Op: "admin_state_up", Reason: AdminStateDown, Message: strings.Join(off, "; ")}
}
