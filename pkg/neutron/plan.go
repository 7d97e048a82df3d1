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

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// duplicate returns the step that deletes one of the owner's networks other than the one to
// keep, and nil if there is no other. There is one if two writers raced, or if Neutron
// finished a create request after the client had timed out. Neutron does not delete a network
// that has ports.
func duplicate(owned []*Network, keep *Network) Step {
	for _, n := range owned {
		if n.ID != keep.ID {
			return DeleteNetwork{n}
		}
	}
	return nil
}

// Next is the plan: it returns the next step from the observed network to the desired one,
// and nil if they match. Each step's effect is observed before the next step is chosen, so
// there is no half-finished plan to remember: Next continues from any state that a crash
// leaves behind.
//
// It does not touch unmanaged subnets. It takes nothing away while it is not known which router the
// subnets must be attached to.
func Next(desired Desired, observed *Network) Step {
	step := next(desired, observed)
	if takesAway(step) && !desired.Router.isResolved() {
		return nil
	}
	return step
}

// takesAway reports whether the step takes away a subnet of the Network or its connection, or begins to replace
// the subnet.
func takesAway(step Step) bool {
	switch s := step.(type) {
	case DetachSubnet, DeleteSubnet:
		return true
	case CreateSubnet:
		return len(s.Replaces) > 0
	}
	return false
}

func next(desired Desired, observed *Network) Step {
	if desired.Import != "" && (desired.Observe || !observed.Exists()) {
		return nil
	}
	if desired.Import != "" {
		if step := nextImport(desired, observed); step != nil || CheckImport(desired, observed) != nil {
			return step
		}
	}
	if !observed.Exists() {
		return CreateNetwork{desired}
	}
	if changes := desired.declared(changes(networkTable, &desired, observed), nil); len(changes) > 0 {
		return UpdateNetwork{changes}
	}
	if tags := desired.tags(observed); tags != nil && *tags != observed.Tags {
		return SetTags{*tags}
	}
	obsolete := obsoleteSubnets(desired, observed)
	for i := range desired.Subnets {
		subnet := &desired.Subnets[i]
		existing := findSubnet(desired, observed, subnet)
		if existing == nil {
			return createOrMakeRoom(desired, observed, subnet, obsolete)
		}
		if step := updateSubnet(desired, observed, subnet, existing); step != nil {
			return step
		}
	}
	if !desired.Router.isResolved() {
		return nil
	}
	if step := nextForRouter(desired, observed); step != nil {
		return step
	}
	if len(obsolete) > 0 {
		return release(desired, observed, obsolete[0], nil)
	}
	return obsoleteRouter(desired, observed)
}

// updateSubnet returns the step that makes the existing subnet match, or nil. Neutron refuses another
// gateway while an interface has the address of the present one, so the subnet is detached before.
// The other fields change before that, because Neutron can refuse them.
func updateSubnet(desired Desired, observed *Network, subnet *DesiredSubnet, existing *Subnet) Step {
	changes := desired.declared(changes(subnetTable, desired.forExisting(subnet, existing), existing), existing)
	if len(changes) == 0 {
		return nil
	}
	if slices.Contains(labels(changes), fieldGateway) {
		for _, i := range observed.Interfaces {
			if i.SubnetID == existing.ID && i.Address == existing.Gateway && desired.manages(observed, i) {
				if others := slices.DeleteFunc(slices.Clone(changes), Change.isAddressing); len(others) > 0 {
					return UpdateSubnet{ID: existing.ID, Label: subnet.Label, Changes: others}
				}
				step := detach(observed, i)
				step.Changes = changes
				return step
			}
		}
	}
	return UpdateSubnet{ID: existing.ID, Label: subnet.Label, Changes: changes}
}

// createOrMakeRoom returns the step that creates a missing subnet. Neutron refuses subnets
// that overlap on one network: then an old subnet is deleted first. Otherwise it is deleted
// last, so that the network is never without a subnet. It is also not deleted first for a
// subnet that Neutron is certain to refuse. Nothing changes before all old subnets are free of
// ports.
func createOrMakeRoom(desired Desired, observed *Network, subnet *DesiredSubnet, obsolete []Subnet) Step {
	create := CreateSubnet{Subnet: *subnet}
	for _, s := range obsolete {
		create.Replaces = append(create.Replaces, s.ID)
	}
	for i, s := range obsolete {
		if s.CIDR.Overlaps(subnet.CIDR) && !isRefused(subnet) {
			return release(desired, observed, s, slices.Delete(create.Replaces, i, i+1))
		}
	}
	return create
}

// unserved are the multicast and the loopback addresses. Neutron refuses CIDRs inside them if
// DHCP is enabled, and accepts CIDRs that also contain other addresses.
var unserved = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("ff00::/8")}

// isServed reports whether Neutron accepts the CIDR with DHCP, which needs two hosts: a server and
// a client.
func isServed(cidr netip.Prefix) bool {
	first := cidr.Addr()
	if first.BitLen()-cidr.Bits() < 2 || first == netip.IPv4Unspecified() {
		return false
	}
	return !slices.ContainsFunc(unserved, func(p netip.Prefix) bool { return p.Bits() <= cidr.Bits() && p.Contains(first) })
}

// isRefused reports whether Neutron is certain to refuse the subnet, on any network.
func isRefused(subnet *DesiredSubnet) bool {
	cidr, first := subnet.CIDR, subnet.CIDR.Addr()
	if cidr.Bits() == 0 || !subnet.NoDHCP && !isServed(cidr) {
		return true
	}
	if subnet.NoGateway || !first.Is4() {
		return false
	}
	// These are the network address and the broadcast address. Neutron chooses the latter itself for
	// a CIDR of two addresses.
	gateway := cmp.Or(subnet.Gateway, first.Next())
	return gateway == first || gateway == netipx.PrefixLastIP(cidr) || subnet.Pools.containing(gateway) != ""
}

// allocationPools returns the pools that Neutron itself creates for a subnet with this gateway
// (generate_pools in neutron.ipam.utils); nil for a subnet without hosts.
func allocationPools(cidr netip.Prefix, gateway netip.Addr) any {
	whole := netipx.RangeOfPrefix(cidr)
	first, last := whole.From().Next(), whole.To()
	if cidr.Addr().Is4() {
		last = last.Prev()
	}
	pool := netipx.IPRangeFrom(first, last)
	switch {
	case !pool.IsValid():
		return nil
	case !pool.Contains(gateway):
		return NewPools(pool)
	}
	var pools []netipx.IPRange
	if gateway != first {
		pools = append(pools, netipx.IPRangeFrom(first, gateway.Prev()))
	}
	if gateway != last {
		pools = append(pools, netipx.IPRangeFrom(gateway.Next(), last))
	}
	return NewPools(pools...)
}

// isOurs reports whether the subnet belongs to the owner. Without a mark, a subnet of an imported
// network belongs to the owner as long as the spec has its CIDR.
func isOurs(desired Desired, s *Subnet) bool {
	if owner, marked := OwnerOf(s.Description); marked {
		return owner == desired.Owner
	}
	if desired.Import != "" {
		return slices.ContainsFunc(desired.Subnets, func(d DesiredSubnet) bool { return d.CIDR == s.CIDR })
	}
	return slices.Contains(desired.Known, s.ID)
}

// isCreated reports whether the controller created the subnet for the owner. It deletes no other subnet of an
// imported network.
func isCreated(desired Desired, s *Subnet) bool {
	return isOurs(desired, s) && (desired.Import == "" || desired.Owner.marks(s.Description))
}

// forExisting returns what the existing subnet must match: the desired subnet, but without its name and its
// mark if the existing one was taken over.
func (d *Desired) forExisting(subnet *DesiredSubnet, existing *Subnet) *DesiredSubnet {
	if d.Import == "" || d.Owner.marks(existing.Description) {
		return subnet
	}
	unnamed := *subnet
	unnamed.Name, unnamed.Mark = "", ""
	return &unnamed
}

// declared returns the changes without those that Neutron refuses. If the network is imported, it returns
// only those of fields that the spec declares: all others stay as they were found, with one exception: pools
// that Neutron chose for the gateway change with it, because Neutron refuses a gateway that is inside a pool.
func (d *Desired) declared(changes []Change, subnet *Subnet) []Change {
	if len(d.Refused) > 0 {
		id := ""
		if subnet != nil {
			id = subnet.ID
		}
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.IsDefault && d.Refused[subnetField{id, c.Name}] })
	}
	if d.Import == "" {
		return changes
	}
	declared := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.IsDefault })
	if subnet == nil || !gatewayIn(declared).IsValid() || !subnet.HasDefaultPools() {
		return declared
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.IsDefault && c.Label != fieldPools })
}

// subnetField names a field of a subnet in Neutron, or of the network if the ID is "".
type subnetField struct{ subnet, name string }

// restored returns the changes that restore defaults, of fields that the spec does not declare: in the step that
// fails, or else in the first step before it that has some. subnet is the ID of the subnet, "" for the network. The
// default pools of a declared gateway are not among them.
func restored(plan []Step, failing int) (subnet string, defaults []Change) {
	for _, step := range append([]Step{plan[failing]}, plan[:failing]...) {
		var changes []Change
		switch s := step.(type) {
		case UpdateNetwork:
			subnet, changes = "", s.Changes
		case UpdateSubnet:
			subnet, changes = s.ID, s.Changes
		case DetachSubnet:
			subnet, changes = s.Subnet, s.Changes
		}
		followsGateway := slices.ContainsFunc(changes, func(c Change) bool { return c.Label == fieldGateway && !c.IsDefault })
		for _, c := range changes {
			if c.IsDefault && !(followsGateway && c.isAddressing()) {
				defaults = append(defaults, c)
			}
		}
		if len(defaults) > 0 {
			return subnet, defaults
		}
	}
	return "", nil
}

// without returns the desired state without the changes.
func (d *Desired) without(subnet string, changes []Change) Desired {
	next := *d
	next.Refused = maps.Clone(d.Refused)
	if next.Refused == nil {
		next.Refused = map[subnetField]bool{}
	}
	for _, c := range changes {
		next.Refused[subnetField{subnet, c.Name}] = true
	}
	return next
}

// tags returns the tags that the network must have, nil if it may have any. They include the marks of imports
// that it has.
func (d *Desired) tags(observed *Network) *Tags {
	if d.Network.Tags == nil || d.Import == "" {
		return d.Network.Tags
	}
	return new(NewTags(append(d.Network.Tags.All(), observed.Tags.importTags()...)...))
}

// Unmanaged returns the network's subnets that do not belong to the owner.
func Unmanaged(desired Desired, observed *Network) []Subnet {
	var unmanaged []Subnet
	for i := range observed.Subnets {
		if !isOurs(desired, &observed.Subnets[i]) {
			unmanaged = append(unmanaged, observed.Subnets[i])
		}
	}
	return unmanaged
}

// findSubnet returns the owner's subnet that is the desired one, or can be changed to it.
func findSubnet(desired Desired, observed *Network, subnet *DesiredSubnet) *Subnet {
	for i := range observed.Subnets {
		if s := &observed.Subnets[i]; s.CIDR == subnet.CIDR && matchesFixed(subnetTable, subnet, s, desired.Import != "") && isOurs(desired, s) {
			return s
		}
	}
	return nil
}

// obsoleteSubnets returns the owner's subnets that are no longer declared.
func obsoleteSubnets(desired Desired, observed *Network) []Subnet {
	declared := map[string]bool{}
	for i := range desired.Subnets {
		if s := findSubnet(desired, observed, &desired.Subnets[i]); s != nil {
			declared[s.ID] = true
		}
	}
	var obsolete []Subnet
	for i := range observed.Subnets {
		if s := &observed.Subnets[i]; isCreated(desired, s) && !declared[s.ID] {
			obsolete = append(obsolete, *s)
		}
	}
	return obsolete
}

// Current returns the owner's subnets: the declared ones in the order of the spec, and then those
// that are no longer declared. The label of the latter is "".
func Current(desired Desired, observed *Network) []CurrentSubnet {
	var current []CurrentSubnet
	for i := range desired.Subnets {
		subnet := &desired.Subnets[i]
		if s := findSubnet(desired, observed, subnet); s != nil {
			current = append(current, CurrentSubnet{subnet.Label, s, routerPort(desired, observed, s.ID)})
		}
	}
	for _, s := range obsoleteSubnets(desired, observed) {
		current = append(current, CurrentSubnet{"", &s, routerPort(desired, observed, s.ID)})
	}
	return current
}

// CurrentSubnet is a subnet that exists.
type CurrentSubnet struct {
	// Label is its name in spec.additionalSubnets.
	Label string
	*Subnet
	// RouterPortID is the ID of the port of its interface, "" if Neutron has not confirmed it.
	RouterPortID string
}
