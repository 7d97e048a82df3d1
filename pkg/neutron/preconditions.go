// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/klog/v2"
)

// precondition is what must be true for a step.
type precondition struct {
	// name says what must be true, to readers of the list.
	name string
	from moment
	// check fails if it is not true. expected is what is observed right before the step.
	check func(l *lookahead, ctx context.Context, step Step, expected *Observed) error
}

// moment is when a precondition is checked.
type moment int

const (
	// anyStep: before each step.
	anyStep moment = iota
	// plannedStep: only before the first step of a joint plan, which costs something if a later one fails, and for the steps
	// after it.
	plannedStep
	// laterStep: only for the steps after the first. Neutron itself checks it for the first one, which costs nothing.
	laterStep
)

// preconditions are what can prevent a step in Neutron, in the order in which they are checked.
//
// What prevents the deletion of a subnet must be a row for DetachSubnet too, and for DetachSubnet with IsRemoval: the deletion of
// a Network has no DeleteSubnet, and its DeleteNetwork is checked when it is the next step, after the subnets were detached.
//
// Some checks are made only for the step that is taken, right before it: waits.check, which knows the ports of the last list,
// tryDefault and tryAttachments, which ask Neutron by a request that changes nothing if it is refused, checkStillOurs, and
// deleteIfMarked. The Finder of package orphans deletes by itself.
var preconditions = []precondition{
	before(laterStep, "the quota has room", (*lookahead).checkQuota),
	before(laterStep, "no route of the router depends on the interface", (*lookahead).checkRoutes),
	before(laterStep, "the network has the subnets that were observed", (*lookahead).checkSubnets),
	before(anyStep, "the network has the declared availability zones", (*lookahead).checkZones),
	before(anyStep, "no ports are on what goes", (*lookahead).checkBlockers),
	before(anyStep, "no floating IPs are on an external network that goes", (*lookahead).checkPortsOnExternal),
	before(anyStep, "no floating IPs depend on the interface", (*lookahead).checkFloatingIPs),
	before(anyStep, "the router is there, and of this project", (*lookahead).checkRouter),
	before(anyStep, "the router still has the owner's mark", (*lookahead).checkOwnRouter),
	before(anyStep, "the subnet has room for a gateway and a DHCP server", (*lookahead).checkRoom),
	before(plannedStep, "the subnet pool is there, and allows the prefix length", (*lookahead).checkPool),
	before(plannedStep, "Neutron accepts the new subnet", (*lookahead).checkCreation),
	before(plannedStep, "no hidden subnet overlaps with the new one", (*lookahead).checkHidden),
	before(plannedStep, "Neutron accepts the changed subnet", (*lookahead).checkUpdate),
	before(plannedStep, "the router accepts the subnet", (*lookahead).checkAttachment),
	before(plannedStep, "the router has the subnets of the next hops", (*lookahead).checkNextHops),
	before(plannedStep, "the availability zones of the router exist", (*lookahead).checkRouterZones),
	before(anyStep, "the network is shared with other projects than its own", (*lookahead).checkShare),
	before(anyStep, "the policy still shares the network with the project", (*lookahead).checkOwnShare),
	// No joint plan has these three steps after another one, so these rows are for previews: Neutron itself checks them.
	before(plannedStep, "no ports are on the network that goes", (*lookahead).checkPortsOnNetwork),
	before(plannedStep, "no other interfaces are on the router that goes", (*lookahead).checkDetached),
	before(plannedStep, "the project that loses the network has no ports on it", (*lookahead).checkPortsOfProject),
}

// before returns the precondition of the steps of type S.
func before[S Step](from moment, name string, check func(*lookahead, context.Context, S, *Observed) error) precondition {
	return precondition{name, from, func(l *lookahead, ctx context.Context, step Step, expected *Observed) error {
		if s, ok := step.(S); ok {
			return check(l, ctx, s, expected)
		}
		return nil
	}}
}

// check checks the preconditions of the step at that moment.
func (l *lookahead) check(ctx context.Context, at moment, step Step, expected *Observed) error {
	for _, p := range preconditions {
		if p.from > at {
			continue
		}
		if err := p.check(l, ctx, step, expected); err != nil {
			klog.FromContext(ctx).V(4).Info("A step cannot be taken yet", "step", step, "precondition", p.name, "err", err)
			return err
		}
	}
	return nil
}

// checkQuota fails with OverQuota if the project's quota does not allow what the step creates. A
// quota that cannot be read prevents nothing: Neutron itself checks it.
func (l *lookahead) checkQuota(ctx context.Context, step Step, _ *Observed) error {
	effect := effectOf(step)
	if effect.more <= 0 {
		return nil
	}
	resource := effect.resource
	quota, isKnown := l.client.quotas(ctx)[resource]
	if !isKnown || quota.Limit < 0 || quota.Used+quota.Reserved+l.more[resource] <= quota.Limit {
		return nil
	}
	return &Error{Op: "create " + resource, Reason: OverQuota, Message: fmt.Sprintf("the project's quota is %d %ss, and it has %d", quota.Limit, resource, quota.Used)}
}

// checkRoutes fails with InUse if routes of the router depend on the subnet, unless a step before removes them. It fails with
// Stale if a step would, had they been observed.
func (l *lookahead) checkRoutes(ctx context.Context, s DetachSubnet, expected *Observed) error {
	router, err := l.client.getRouterDetails(ctx, s.Router)
	if err != nil && ReasonOf(err) != NotFound {
		return err
	}
	left := router.Routes.through(s.CIDR)
	if before, after := l.observed.router(s.Router), expected.router(s.Router); before != nil && after != nil {
		left = left.without(before.Routes.without(after.Routes))
	}
	if left == "" {
		return nil
	}
	if router.isOwnedBy(l.identity.Owner) && left.that(l.identity.mayRemove) == left {
		return &Error{Op: "look at router", Reason: Stale, Message: "its routes have changed"}
	}
	return &Error{Op: "detach subnet " + s.CIDR.String(), Reason: InUse, Message: fmt.Sprintf("in use by a route of router %s via %s", s.Router, left.hops()[0])}
}

// checkNextHops fails with Invalid if Neutron is certain to refuse a route.
func (l *lookahead) checkNextHops(_ context.Context, s SetRoutes, expected *Observed) error {
	return s.refusal(l.observed, expected)
}

// checkSubnets fails with Stale if the network has other subnets than those that were observed: what was
// observed can be as old as the last list.
func (l *lookahead) checkSubnets(ctx context.Context, step Step, _ *Observed) error {
	switch step.(type) {
	case CreateSubnet, UpdateSubnet, AttachSubnet:
	default:
		return nil
	}
	if l.isListed {
		return nil
	}
	now := l.observed.Network
	subnets, err := l.client.subnetsOf(ctx, nil, now.ID)
	if err != nil {
		return err
	}
	now.Subnets = subnets
	now.sortSubnets()
	if !same(&now, &l.observed.Network) {
		return &Error{Op: "look at network", Reason: Stale, Message: "its subnets have changed"}
	}
	return nil
}

// checkZones fails with Invalid if the network has other availability zones than declared. Only an imported one can, if its spec was
// stored under a CustomResourceDefinition that let them change.
func (l *lookahead) checkZones(_ context.Context, s UpdateNetwork, _ *Observed) error {
	if why := otherZones(s.Changes); why != "" {
		return &Error{Op: "spec.availabilityZoneHints", Reason: Invalid, Message: why}
	}
	return nil
}

// checkBlockers fails with InUse if ports are on the subnets that go, or on the network that is deleted after them.
// For the deletion of the network itself, and for the end of sharing, Neutron's answer is enough. For that of a subnet it is not: Neutron takes an IPv6
// subnet away under ports that have chosen their addresses in it (SLAAC). A port that gets an address between the check and
// the request can still lose it, because no request of Neutron's depends on the ports.
func (l *lookahead) checkBlockers(ctx context.Context, step Step, _ *Observed) error {
	ports := blockersOf(step, l.identity, l.observed)
	switch step.(type) {
	case DeleteNetwork, UnshareNetwork:
		return nil
	}
	if ports.op == "" {
		return nil
	}
	return l.checkPorts(ctx, l.identity.Owner.UID, ports)
}

// checkPortsOnExternal is checkPortsOnNetwork for an external network. Neutron itself refuses to delete a network with ports,
// but before that it deletes the floating IPs on it that lead nowhere, those of all projects.
func (l *lookahead) checkPortsOnExternal(ctx context.Context, s DeleteNetwork, expected *Observed) error {
	if !s.Network.External {
		return nil
	}
	return l.checkPortsOnNetwork(ctx, s, expected)
}

// checkFloatingIPs fails with InUse if floating IPs depend on the subnet.
func (l *lookahead) checkFloatingIPs(ctx context.Context, s DetachSubnet, _ *Observed) error {
	ips, err := l.client.FloatingIPs(ctx, s.Router)
	if err != nil {
		return err
	}
	var names []string
	for _, ip := range ips {
		if slices.ContainsFunc(ip.FixedIPs(), s.CIDR.Contains) {
			names = append(names, ip.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &Error{Op: "detach subnet " + s.CIDR.String(), Reason: InUse, Message: Printable("in use by floating IP " + shorten(names))}
}

// checkRouter reads the router if the last list does not have it. It fails with Unresolved if there is no such router, or if
// it belongs to another project, as far as an admin can see it: the list of the project's ports would not have the
// interfaces, and the subnets would be attached again and again.
func (l *lookahead) checkRouter(ctx context.Context, s AttachSubnet, _ *Observed) error {
	_, isKnown := l.routing.router(s.Router)
	if s.IsOwn || isKnown || l.observed.router(s.Router) != nil {
		return nil
	}
	router, err := l.client.getRouterDetails(ctx, s.Router)
	if err != nil {
		return asUnresolved(err)
	}
	if place, _ := l.client.Place(); router.ProjectID != place.Project {
		return &Error{Op: "attach subnet", Reason: Unresolved, Message: fmt.Sprintf("router %s belongs to another project", s.Router)}
	}
	l.routing.storeRouter(router.Router)
	return nil
}

// checkOwnRouter reads the router. The requests of these two steps cannot have a revision, and another client may have
// removed the mark.
func (l *lookahead) checkOwnRouter(ctx context.Context, step Step, _ *Observed) error {
	var id string
	switch s := step.(type) {
	case UpdateRouter:
		id = s.ID
	case DeleteRouter:
		id = s.ID
	}
	if id == "" || id == newRouter {
		return nil
	}
	router, err := l.client.getRouterDetails(ctx, id)
	if ReasonOf(err) == NotFound {
		return routerLost(id)
	}
	return cmp.Or(err, router.checkOwner(l.identity.Owner))
}

// checkRoom fails with Invalid if the prefix length is too long for a subnet of any pool. Neutron accepts some of these.
func (l *lookahead) checkRoom(_ context.Context, s CreateSubnet, _ *Observed) error {
	if s.Subnet.SubnetPool == nil {
		return nil
	}
	return invalidSubnet(s.Subnet.SubnetPool.lacksRoom())
}

// invalidSubnet returns the error for a subnet that cannot be created; nil if there is no reason.
func invalidSubnet(why string) error {
	if why == "" {
		return nil
	}
	return &Error{Op: "create subnet", Reason: Invalid, Message: why}
}

// checkPool fails with Unresolved if the subnet pool is gone, with Stale if its name now leads to another one, and with Invalid if it
// does not allow the prefix length any more. The list of names can be old.
func (l *lookahead) checkPool(ctx context.Context, s CreateSubnet, _ *Observed) error {
	pool := s.Subnet.SubnetPool
	if pool == nil {
		return nil
	}
	field := fieldOf(s.Subnet.Label) + ".subnetPool"
	_, age, err := l.routing.subnetPool(field, pool.ID)
	if err == nil && age > maxNamesAge {
		err = l.listNames(ctx, kindSubnetPool)
	}
	if err != nil {
		return err
	}
	now, err := l.resolvePool(ctx, l.identity, field, pool.Spec)
	if err == nil && now.ID != pool.ID {
		return &Error{Op: "create subnet", Reason: Stale, Message: fmt.Sprintf("the name %s is that of another subnet pool now", pool)}
	}
	return cmp.Or(err, invalidSubnet(now.refusal()))
}

// checkCreation fails with Invalid if another subnet of the network excludes the subnet, or if Neutron
// accepts it on no network.
func (l *lookahead) checkCreation(_ context.Context, s CreateSubnet, expected *Observed) error {
	if s.Subnet.SubnetPool == nil && isRefused(&s.Subnet) {
		return invalidSubnet(fmt.Sprintf("Neutron does not accept %s with this gateway, these allocation pools and DHCP", s.Subnet.CIDR))
	}
	for _, other := range expected.Subnets {
		if other.CIDR.Overlaps(s.Subnet.CIDR) {
			return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with subnet %s (%s) of the network, which is left alone", s.Subnet.CIDR, other.CIDR, other.ID)}
		}
		if s.Subnet.excludes(&other) {
			return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("Neutron takes all subnets of a network that have the same IP version from one subnet pool, or none of them from a pool: subnet %s (%s) is not from the same pool as the new subnet", cidrText(other.CIDR), other.ID)}
		}
	}
	return nil
}

// checkUpdate fails with Invalid if the gateway is then in a pool, and with InUse if the gateway moves while
// a router of another client has its address.
func (l *lookahead) checkUpdate(_ context.Context, s UpdateSubnet, expected *Observed) error {
	subnet, after := expected.subnet(s.ID), s.expect(expected).subnet(s.ID)
	if pool := after.Pools.containing(after.Gateway); pool != "" {
		return &Error{Op: "update subnet", Reason: Invalid, Message: fmt.Sprintf("gateway %s is in the allocation pool %s of subnet %s", after.Gateway, pool, subnet.CIDR)}
	}
	if !gatewayIn(s.Changes).IsValid() {
		return nil
	}
	for _, i := range expected.Interfaces {
		if i.SubnetID == s.ID && i.Address == subnet.Gateway {
			return &Error{Op: "update subnet", Reason: InUse, Message: fmt.Sprintf("the address of the gateway, %s, is in use by router %s (port %s)", subnet.Gateway, i.RouterID, i.PortID)}
		}
	}
	return nil
}

// checkHidden fails with Invalid if the network has a subnet that the client cannot see, and the new one can overlap
// with it. An administrator can make one for another project. None overlaps if a subnet that goes before has all the
// addresses, and Neutron itself is asked before anything goes if none has some of them.
func (l *lookahead) checkHidden(ctx context.Context, s CreateSubnet, _ *Observed) error {
	cidr, replaced, conflict := s.Subnet.CIDR, false, "overlap with"
	for _, old := range l.observed.Subnets {
		isOtherPool := versionOf(old.CIDR) == s.Subnet.version() && old.PoolID != s.Subnet.poolID()
		if !isOtherPool && old.CIDR.Contains(cidr.Addr()) && old.CIDR.Bits() <= cidr.Bits() {
			return nil
		}
		if isOtherPool {
			conflict = "be from another subnet pool than"
		}
		replaced = replaced || s.Subnet.excludes(&old)
	}
	if !replaced {
		return nil
	}
	ids, err := l.client.subnetIDs(ctx, l.observed.ID)
	for _, id := range ids {
		if l.observed.subnet(id) == nil {
			return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("%s can %s subnet %s of the network, which belongs to another project and is not visible: an administrator has to delete it", s.Subnet.rangeText(), conflict, id)}
		}
	}
	return err
}

// checkPortsOnNetwork fails with InUse if ports are on the network, except for those that go with its interfaces.
func (l *lookahead) checkPortsOnNetwork(ctx context.Context, s DeleteNetwork, _ *Observed) error {
	return l.checkPorts(ctx, l.identity.Owner.UID, blockersOf(s, l.identity, l.observed))
}

// checkShare fails with Invalid if the project is the network's own one. Neutron accepts that, and shows the network as shared with
// all then.
func (l *lookahead) checkShare(_ context.Context, s ShareNetwork, _ *Observed) error {
	if place, _ := l.client.Place(); place.Project != s.Project {
		return nil
	}
	return &Error{Op: "spec.sharedWith", Reason: Invalid, Message: fmt.Sprintf("project %s is the network's own: remove it from the list", s.Project)}
}

// checkOwnShare reads the policies of the network. The request to delete one cannot have a revision, and another client may have
// given the policy to another project.
func (l *lookahead) checkOwnShare(ctx context.Context, s UnshareNetwork, _ *Observed) error {
	now := l.observed.Network
	if err := l.readShares(ctx, &now); err != nil {
		return err
	}
	if share := now.share(s.Share.ProjectID); share == nil || *share != s.Share {
		return &Error{Op: "end sharing", Reason: Stale, Message: "the network is no longer shared with project " + s.Share.ProjectID}
	}
	return nil
}

// checkPortsOfProject is checkPortsOnNetwork for the ports of one project. If all projects share the network, they may stay.
func (l *lookahead) checkPortsOfProject(ctx context.Context, s UnshareNetwork, expected *Observed) error {
	if expected.Shared {
		return nil
	}
	return l.checkPorts(ctx, l.identity.Owner.UID, blockersOf(s, l.identity, l.observed))
}

// checkDetached fails with InUse if the router has interfaces that no step before removes.
func (l *lookahead) checkDetached(ctx context.Context, s DeleteRouter, expected *Observed) error {
	ports, err := l.client.interfacePorts(ctx, s.ID)
	if err != nil {
		return err
	}
	ports = slices.DeleteFunc(ports, func(p Port) bool {
		isOn := func(i Interface) bool { return i.PortID == p.ID }
		return slices.ContainsFunc(l.observed.allInterfaces(), isOn) && !slices.ContainsFunc(expected.allInterfaces(), isOn)
	})
	if message := inUseBy(ports); message != "" {
		return &Error{Op: "delete router " + s.ID, Reason: InUse, Message: message}
	}
	return nil
}

// checkAttachment fails with Invalid if the subnet has no gateway, or overlaps with another one of the
// router, and with InUse if a port has the address of its gateway. An interface that exists needs no
// check: the step only confirms it.
func (l *lookahead) checkAttachment(ctx context.Context, s AttachSubnet, expected *Observed) error {
	if s.Port != "" {
		return nil
	}
	gateway := expected.subnet(s.Subnet).Gateway
	if !gateway.IsValid() {
		return &Error{Op: "attach subnet", Reason: Invalid, Message: fmt.Sprintf("subnet %s has no gateway, which an interface of a router needs", s.CIDR)}
	}
	existing := l.observed.subnet(s.Subnet)
	removed := l.removed(expected)
	isReleased := slices.ContainsFunc(removed, func(i Interface) bool { return i.SubnetID == s.Subnet && i.Address == gateway })
	if existing != nil && !isReleased {
		if err := l.checkAddress(ctx, "attach subnet", l.observed.ID, FixedIP{s.Subnet, gateway}, removed...); err != nil {
			return err
		}
	}
	// Neutron has accepted the subnet at this router before, if it is attached with another address now.
	isAttached := slices.ContainsFunc(removed, func(i Interface) bool { return i.SubnetID == s.Subnet && i.RouterID == s.Router })
	isComplete, err := l.checkNeighbours(ctx, s, expected)
	canTry := existing != nil && existing.Gateway == gateway && isReleased && !isAttached && s.Router != newRouter
	if err == nil && !isComplete && canTry {
		l.unclear = append(l.unclear, s)
	}
	return err
}

// checkRouterZones fails with NoZone, in Neutron's words, if there is no such availability zone. Those of a network need no
// check: a network is created before anything else.
func (l *lookahead) checkRouterZones(ctx context.Context, s CreateRouter, _ *Observed) error {
	if s.Router.ZoneHints == "" {
		return nil
	}
	existing := l.client.routerZones(ctx)
	for _, zone := range s.Router.ZoneHints.All() {
		if len(existing) > 0 && !slices.Contains(existing, zone) {
			return &Error{Op: "create router", Reason: NoZone, Message: Printable(fmt.Sprintf("AvailabilityZone %s could not be found.", zone))}
		}
	}
	return nil
}

// removed returns the interfaces that a step before removes.
func (l *lookahead) removed(expected *Observed) []Interface {
	return slices.DeleteFunc(slices.Clone(l.observed.Interfaces), func(i Interface) bool {
		return slices.ContainsFunc(expected.Interfaces, func(left Interface) bool { return sameInterface(i, left) })
	})
}

// checkNeighbours fails with Invalid if the subnet overlaps with another one of the router, or of its external
// network. It is complete if the client can see all of them. Of a subnet that it cannot see, it knows the
// address of the router.
func (l *lookahead) checkNeighbours(ctx context.Context, s AttachSubnet, expected *Observed) (isComplete bool, err error) {
	router := expected.router(s.Router)
	if router == nil || !s.IsOwn {
		details, err := l.client.getRouterDetails(ctx, s.Router)
		if err != nil {
			return false, asUnresolved(err)
		}
		router = &details.Router
	}
	addresses, err := l.neighbours(ctx, router)
	if err != nil {
		return false, err
	}
	visible, err := l.client.subnetsOf(ctx, slices.Sorted(maps.Keys(addresses)), router.Gateway.NetworkID)
	if err != nil {
		return false, err
	}
	hasExternal := router.Gateway.NetworkID == ""
	for _, other := range visible {
		delete(addresses, other.ID)
		isExternal := other.NetworkID == router.Gateway.NetworkID
		hasExternal = hasExternal || isExternal
		if other.CIDR.Overlaps(s.CIDR) {
			return false, overlap(s, other.CIDR.String(), other.ID, isExternal)
		}
	}
	for id, address := range addresses {
		if s.CIDR.Contains(address) {
			return false, overlap(s, "the subnet of "+address.String(), id, false)
		}
	}
	for _, address := range router.Gateway.IPs.All() {
		if ip, err := netip.ParseAddr(address); err == nil && !hasExternal && s.CIDR.Contains(ip) {
			return false, overlap(s, "the subnet of "+address, router.Gateway.NetworkID, true)
		}
	}
	return hasExternal && len(addresses) == 0, nil
}

// neighbours returns the router's address in each subnet of other networks that is attached to it.
func (l *lookahead) neighbours(ctx context.Context, router *Router) (map[string]netip.Addr, error) {
	addresses := map[string]netip.Addr{}
	if router.ID == newRouter {
		return addresses, nil
	}
	ports, err := l.client.interfacePorts(ctx, router.ID)
	for _, i := range interfacesOf(ports) {
		if l.observed.subnet(i.SubnetID) == nil {
			addresses[i.SubnetID] = i.Address
		}
	}
	return addresses, err
}

// overlap is the error for another subnet of the router that overlaps with the one to attach.
func overlap(s AttachSubnet, other, id string, isExternal bool) error {
	of := fmt.Sprintf("which is attached to router %s", s.Router)
	if isExternal {
		of = "a subnet of the router's external network"
	}
	return &Error{Op: "attach subnet", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with %s (%s), %s", s.CIDR, other, id, of)}
}
