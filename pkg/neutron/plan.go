// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// View is what the plan looks at: whose network it is, what its Network declares, and what Neutron has.
type View struct {
	Identity
	Desired
	// Observed is nil if Neutron could not be read, or cannot tell which of several networks to keep.
	Observed *Observed
}

// Next is the plan: it returns the next step from what is observed to what is desired, and nil if
// they match. Each step's effect is observed before the next step is chosen, so
// there is no half-finished plan to remember: Next continues from any state that a crash
// leaves behind.
//
// It does not touch unmanaged subnets. It takes nothing away while it is not known which router the
// subnets must be attached to, or which subnet pool one must be from. Duplicates go before the routers that they can be
// attached to.
func (v *View) Next() Step {
	step, hasDuplicates := v.freeing(v.Observed, v.next()), len(v.Observed.Duplicates) > 0
	effect := effectOf(step)
	waits := effect.takesAway && !v.isResolved() || effect.isApart && effect.isRelease && hasDuplicates
	if step != nil && !waits {
		return step
	}
	if hasDuplicates { // Neutron does not delete one that has ports
		return DeleteNetwork{Network: v.Observed.Duplicates[0], IsDuplicate: true}
	}
	return nil
}

// Plan returns all steps from the observed network to the desired one, in order, as far as they can be
// known before they are taken: Neutron may refuse one of them. It makes no request. IDs of what the steps
// create begin with "new-".
func (v View) Plan() (steps []Step) {
	return stepsOf(func(observed *Observed) Step { v.Observed = observed; return v.Next() }, v.Observed)
}

// maxSteps is more than any Network needs. More steps mean that Neutron's answers do not show
// what was requested.
const maxSteps = 100

// stepsOf returns all steps of a plan, as far as they can be known before they are taken.
func stepsOf(next func(*Observed) Step, observed *Observed) (steps []Step) {
	for step := next(observed); step != nil && len(steps) < maxSteps; step = next(observed) {
		steps = append(steps, step)
		observed = step.expect(observed)
	}
	return steps
}

func (v *View) next() Step {
	if v.Import != "" && (v.ReadOnly || !v.Observed.Exists()) {
		return nil
	}
	if v.Import != "" {
		if step := v.nextImport(); step != nil || v.CheckImport() != nil {
			return step
		}
	}
	if !v.Observed.Exists() {
		return CreateNetwork{v.Network}
	}
	if changes := v.networkChanges(); len(changes) > 0 {
		return UpdateNetwork{changes}
	}
	if tags := v.tags(); tags != nil && *tags != v.Observed.Tags {
		return SetTags{*tags}
	}
	obsolete := v.obsoleteSubnets()
	replaced := slices.DeleteFunc(slices.Clone(obsolete), v.isTwin)
	for i := range v.Subnets {
		subnet := &v.Subnets[i]
		existing := v.findSubnet(subnet)
		if existing == nil && subnet.isUnresolved() {
			continue
		}
		if existing == nil {
			return v.createOrMakeRoom(subnet, replaced)
		}
		if step := v.updateSubnet(subnet, existing); step != nil {
			return step
		}
	}
	if step := v.nextForRouter(); step != nil {
		return step
	}
	if step := v.nextForRoutes(replaced); step != nil {
		return step
	}
	if step := v.nextForShares(); step != nil || !v.isResolved() {
		return step
	}
	if len(obsolete) > 0 {
		return v.removeSubnet(obsolete[0], nil)
	}
	return v.obsoleteRouter()
}

// nextForShares returns the next step from the projects that the network is shared with to the desired ones; nil if they match. What
// neither the spec nor the status names is somebody else's. The network's own subnets and router come first. What is no longer
// shared comes before what is: the project's quota can be used up.
func (v *View) nextForShares() Step {
	if !v.IsShared || !v.Observed.SharesKnown {
		return nil
	}
	for _, project := range v.SharedWith {
		isObsolete := !slices.Contains(v.Projects, project) && !slices.Contains(v.LeftOut, project)
		if s := v.Observed.share(project); s != nil && s.ID != "" && isObsolete {
			return UnshareNetwork{*s}
		}
	}
	for _, project := range v.Projects {
		if v.Observed.share(project) == nil && !slices.Contains(v.LeftOut, project) {
			return ShareNetwork{project}
		}
	}
	return nil
}

// CurrentProjects returns the projects for the status: those that the spec declares, and those that the status has as long as the network
// is shared with them. Of a network that is only observed, the status stays as it is.
func (v *View) CurrentProjects() []string {
	if !v.IsShared || v.ReadOnly {
		return v.SharedWith
	}
	projects := slices.Clone(v.Projects)
	for _, project := range v.SharedWith {
		if s := v.Observed.share(project); !v.Observed.SharesKnown || s != nil && s.ID != "" {
			projects = append(projects, project)
		}
	}
	slices.Sort(projects)
	return slices.Compact(projects)
}

// networkChanges returns what must change in the network itself.
func (v *View) networkChanges() []Change {
	network := v.Network // a copy: the functions of the table would move the whole View to the heap
	return v.declared(changes(networkTable, &network, &v.Observed.Network), nil)
}

// updateSubnet returns the step that makes the existing subnet match, or nil. Neutron refuses another
// gateway while an interface has the address of the present one, so the subnet is detached before.
// The other fields change before that, because Neutron can refuse them.
func (v *View) updateSubnet(subnet *DesiredSubnet, existing *Subnet) Step {
	changes := v.declared(changes(subnetTable, v.forExisting(subnet, existing), existing), existing)
	if len(changes) == 0 {
		return nil
	}
	if gatewayChange(changes) != nil {
		for _, i := range v.Observed.Interfaces {
			if i.SubnetID == existing.ID && i.Address == existing.Gateway && v.manages(i) {
				if others := slices.DeleteFunc(slices.Clone(changes), Change.isAddressing); len(others) > 0 {
					return UpdateSubnet{ID: existing.ID, Label: subnet.Label, Changes: others}
				}
				step := detach(v.Observed, i)
				step.Changes = changes
				return step
			}
		}
	}
	return UpdateSubnet{ID: existing.ID, Label: subnet.Label, Changes: changes}
}

// createOrMakeRoom returns the step that creates a missing subnet. Neutron refuses subnets of one network
// that overlap, or that are from different subnet pools: then an old subnet is deleted first. Otherwise it is deleted
// last, so that the network is never without a subnet. It is also not deleted first for a
// subnet that Neutron is certain to refuse. Nothing changes before all old subnets are free of
// ports.
func (v *View) createOrMakeRoom(subnet *DesiredSubnet, replaced []Subnet) Step {
	create := CreateSubnet{Subnet: *subnet}
	for _, s := range replaced {
		create.Replaces = append(create.Replaces, s.ID)
	}
	for i, s := range replaced {
		if subnet.excludes(&s) && !isRefused(subnet) {
			return v.removeSubnet(s, slices.Delete(create.Replaces, i, i+1))
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
	if subnet.SubnetPool != nil {
		return subnet.SubnetPool.refusal() != ""
	}
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
		case RemoveRoutes:
			subnet, changes = s.Detach.Subnet, s.Detach.Changes
		}
		gateway := gatewayChange(changes)
		followsGateway := gateway != nil && !gateway.IsDefault
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

// refusing returns Refused, with the fields of these changes too.
func (d *Desired) refusing(subnet string, changes []Change) map[subnetField]bool {
	refused := map[subnetField]bool{}
	maps.Copy(refused, d.Refused)
	for _, c := range changes {
		refused[subnetField{subnet, c.Name}] = true
	}
	return refused
}

// findSubnet returns the owner's subnet that is the desired one, or can be changed to it. Neutron checks a new subnet only against
// those that are stored, so two requests at the same moment can make two of one CIDR. Then it is the one of the highest rank, and
// the other one is obsolete.
func (v *View) findSubnet(subnet *DesiredSubnet) (found *Subnet) {
	if subnet.SubnetPool != nil {
		return v.allocated()[subnet.Label]
	}
	for i := range v.Observed.Subnets {
		s := &v.Observed.Subnets[i]
		if s.CIDR != subnet.CIDR || !matchesFixed(subnetTable, subnet, s, v.Import != "") || !v.isOurs(s) {
			continue
		}
		if found == nil || v.rank(subnet, s) > v.rank(subnet, found) {
			found = s
		}
	}
	return found
}

// rank says which of two subnets of one CIDR stays: the one that is attached, because a router takes no second one, or else the one in
// the status. Any client can create a port that looks like an interface, so one that Neutron has confirmed comes first.
func (v *View) rank(subnet *DesiredSubnet, existing *Subnet) int {
	isAttachment := func(i Interface) bool { return i.SubnetID == existing.ID && v.manages(i) }
	switch {
	case v.routerPort(existing.ID) != "":
		return 3
	case slices.ContainsFunc(v.Observed.Interfaces, isAttachment):
		return 2
	case v.isRecorded(subnet, existing):
		return 1
	}
	return 0
}

// isTwin reports whether the obsolete subnet has the CIDR of a declared one, which exists too: see findSubnet. No other subnet takes its
// place.
func (v *View) isTwin(obsolete Subnet) bool {
	return slices.ContainsFunc(v.Subnets, func(d DesiredSubnet) bool {
		s := v.findSubnet(&d)
		return s != nil && s.CIDR == obsolete.CIDR
	})
}

// obsoleteSubnets returns the owner's subnets that are no longer declared.
func (v *View) obsoleteSubnets() []Subnet {
	declared := map[string]bool{}
	for i := range v.Subnets {
		if s := v.findSubnet(&v.Subnets[i]); s != nil {
			declared[s.ID] = true
		}
	}
	var obsolete []Subnet
	for i := range v.Observed.Subnets {
		if s := &v.Observed.Subnets[i]; v.isCreated(s) && !declared[s.ID] {
			obsolete = append(obsolete, *s)
		}
	}
	return obsolete
}

// Current returns the owner's subnets: the declared ones in the order of the spec, and then those
// that are no longer declared. The label of the latter is "".
func (v *View) Current() []CurrentSubnet {
	var current []CurrentSubnet
	for i := range v.Subnets {
		subnet := &v.Subnets[i]
		if s := v.findSubnet(subnet); s != nil {
			current = append(current, CurrentSubnet{subnet.Label, s, v.routerPort(s.ID)})
		}
	}
	for _, s := range v.obsoleteSubnets() {
		current = append(current, CurrentSubnet{"", &s, v.routerPort(s.ID)})
	}
	return current
}

// Shown returns the subnets for the status: Current, and for an import all others too.
func (v *View) Shown() []CurrentSubnet {
	shown := v.Current()
	if v.Import == "" {
		return shown
	}
	for i := range v.Observed.Subnets {
		s := &v.Observed.Subnets[i]
		if !slices.ContainsFunc(shown, func(c CurrentSubnet) bool { return c.ID == s.ID }) {
			shown = append(shown, CurrentSubnet{"", s, v.routerPort(s.ID)})
		}
	}
	return shown
}

// CurrentSubnet is a subnet that exists.
type CurrentSubnet struct {
	// Label is its name in spec.additionalSubnets.
	Label string
	*Subnet
	// RouterPortID is the ID of the port of its interface, "" if Neutron has not confirmed it.
	RouterPortID string
}

// declared returns the changes without those that Neutron refuses. If the network is imported, it returns
// only those of fields that the spec declares: all others stay as they were found, with one exception: pools
// that Neutron chose for the gateway change with it, because Neutron refuses a gateway that is inside a pool.
func (v *View) declared(changes []Change, subnet *Subnet) []Change {
	if len(v.Refused) > 0 {
		id := ""
		if subnet != nil {
			id = subnet.ID
		}
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.IsDefault && v.Refused[subnetField{id, c.Name}] })
	}
	if v.Import == "" {
		return changes
	}
	declared := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.IsDefault })
	if subnet == nil || !gatewayIn(declared).IsValid() || !subnet.HasDefaultPools() {
		return declared
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.IsDefault && c.Role != rolePools })
}

// tags returns the tags that the network must have, nil if it may have any. They include the marks of imports
// that it has.
func (v *View) tags() *Tags {
	if v.Network.Tags == nil || v.Import == "" {
		return v.Network.Tags
	}
	return new(NewTags(append(v.Network.Tags.All(), v.Observed.Tags.importTags()...)...))
}
