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
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// Desired is what Neutron shall hold for one owner: a network, and its subnets.
type Desired struct {
	Owner Owner
	Name  string
	// Subnets is a list though a Network declares one, so that a second IP family
	// will not turn everything round.
	Subnets []DesiredSubnet
	// Known is the ID of the subnet that was seen last. A subnet that has lost its
	// mark is still taken for the owner's if it is that one.
	Known string
}

// DesiredSubnet is one subnet that Neutron shall hold.
type DesiredSubnet struct {
	// CIDR is masked: no bit beyond its length is set.
	CIDR netip.Prefix
	// Gateway is the zero Addr for Neutron's choice, the first address.
	Gateway netip.Addr
	// NoGateway asks for a subnet without a gateway; Gateway is not looked at then.
	NoGateway bool
}

// A Step is one request that changes Neutron. It is taken by Cloud.Take.
type Step interface {
	// String tells people what the step does.
	fmt.Stringer
	// Irreversible says whether what the step removes cannot be had back, so that the
	// caller has to make sure of its word first.
	Irreversible() bool
}

// The steps that there are.
type (
	// CreateNetwork makes the network, marked from the start.
	CreateNetwork struct{ Name, Description string }
	// UpdateNetwork puts name and mark right; an empty one is as it should be.
	UpdateNetwork struct{ Name, Description string }
	// CreateSubnet makes a subnet, marked from the start. If it is to replace one that
	// has ports, it fails with InUse and changes nothing.
	CreateSubnet struct {
		Subnet      DesiredSubnet
		Name        string
		Description string
		// Replaces is the ID of the subnet that goes away afterwards, or "".
		Replaces string
	}
	// UpdateSubnet puts gateway, name and mark right.
	UpdateSubnet struct {
		ID   string
		Name string // empty: as it should be
		// Description is the mark; empty: as it should be.
		Description string
		// Gateway is set to GatewayIP (the zero Addr: none) and Pools, if SetGateway.
		SetGateway bool
		Gateway    netip.Addr
		Pools      []netipx.IPRange
	}
	// DeleteSubnet removes a subnet that is no longer wanted.
	DeleteSubnet struct {
		ID   string
		CIDR netip.Prefix
	}
	// DeleteNetwork removes a second network with the owner's mark: see Surplus.
	DeleteNetwork struct{ Network *Network }
)

func (CreateNetwork) Irreversible() bool { return false }
func (UpdateNetwork) Irreversible() bool { return false }
func (CreateSubnet) Irreversible() bool  { return false }
func (UpdateSubnet) Irreversible() bool  { return false }
func (DeleteSubnet) Irreversible() bool  { return true }
func (DeleteNetwork) Irreversible() bool { return true }

func (s CreateNetwork) String() string { return "network created" }

func (s UpdateNetwork) String() string {
	if s.Description == "" {
		return "name set to " + s.Name
	}
	return "ownership mark put back"
}

func (s CreateSubnet) String() string { return "subnet " + s.Subnet.CIDR.String() + " created" }

func (s UpdateSubnet) String() string {
	switch {
	case !s.SetGateway:
		return "name and ownership mark of the subnet put back"
	case !s.Gateway.IsValid():
		return "gateway removed"
	}
	return "gateway set to " + s.Gateway.String()
}

func (s DeleteSubnet) String() string { return "subnet " + s.CIDR.String() + " deleted" }

func (s DeleteNetwork) String() string { return "second network " + s.Network.ID + " deleted" }

// Surplus returns the step that removes one of the owner's networks but the one that it
// keeps, and nil if there is no other. There is one if two writers raced, or if Neutron
// made a network after it was given up. Ports keep it: Neutron does not delete it then.
func Surplus(owned []*Network, keep *Network) Step {
	for _, n := range owned {
		if n.ID != keep.ID {
			return DeleteNetwork{n}
		}
	}
	return nil
}

// Next is the plan: it returns the next step from what Neutron has to what it shall
// have, and nil once they are the same. Since each step's effect is seen before the
// next one is chosen, there is no half-finished plan to remember: from whatever a
// crash leaves behind, Next leads on.
//
// Subnets that are not the owner's are left alone.
func Next(want Desired, have *Network) Step {
	mark := want.Owner.Mark()
	if !have.Exists() {
		return CreateNetwork{Name: want.Name, Description: mark}
	}
	if step := (UpdateNetwork{differs(want.Name, have.Name), differs(mark, have.Description)}); step != (UpdateNetwork{}) {
		return step
	}
	obsolete := obsoleteSubnets(want, have)
	for _, subnet := range want.Subnets {
		existing := findSubnet(want, have, subnet.CIDR)
		if existing == nil {
			return makeRoom(want, subnet, obsolete)
		}
		if step := updateSubnet(want, mark, subnet, existing); step != nil {
			return step
		}
	}
	for _, s := range obsolete {
		return DeleteSubnet{ID: s.ID, CIDR: s.CIDR}
	}
	return nil
}

// differs returns want if have is another, and "" if it is the same.
func differs(want, have string) string {
	if want == have {
		return ""
	}
	return want
}

// makeRoom creates a subnet that is missing. Neutron refuses two that overlap on one
// network: then the old one goes first, and otherwise last, so that the network is
// never without a subnet if it can be helped. Nor does it go first for one that Neutron
// is bound to refuse.
func makeRoom(want Desired, subnet DesiredSubnet, obsolete []Subnet) Step {
	create := CreateSubnet{Subnet: subnet, Name: want.Name, Description: want.Owner.Mark()}
	for _, s := range obsolete {
		if s.CIDR.Overlaps(subnet.CIDR) && servesDHCP(subnet.CIDR) {
			return DeleteSubnet{ID: s.ID, CIDR: s.CIDR}
		}
		create.Replaces = s.ID
	}
	return create
}

// servesDHCP says whether Neutron takes a subnet with DHCP, which is its default, of
// that CIDR: one with room for a server and a client, of addresses for hosts.
func servesDHCP(cidr netip.Prefix) bool {
	first := cidr.Addr()
	if first.Is4() && first.As4()[0] == 0 || first.IsMulticast() || first.IsLoopback() {
		return false
	}
	return first.BitLen()-cidr.Bits() >= 2
}

// updateSubnet returns the step that puts existing right, or nil.
func updateSubnet(want Desired, mark string, subnet DesiredSubnet, existing *Subnet) Step {
	step := UpdateSubnet{
		ID:          existing.ID,
		Name:        differs(want.Name, existing.Name),
		Description: differs(mark, existing.Description),
	}
	gateway, inOrder := wantedGateway(subnet, existing.Gateway)
	if step.Name == "" && step.Description == "" && inOrder {
		return nil
	}
	if !inOrder {
		step.SetGateway = true
		step.Gateway = gateway
		step.Pools = allocationPools(subnet.CIDR, gateway)
	}
	return step
}

// wantedGateway returns the gateway that the subnet shall have, and whether it has it.
func wantedGateway(subnet DesiredSubnet, have netip.Addr) (want netip.Addr, inOrder bool) {
	first := subnet.CIDR.Addr()
	switch {
	case subnet.NoGateway:
		want = netip.Addr{}
	case subnet.Gateway.IsValid():
		want = subnet.Gateway
	case first.Is4():
		want = first.Next()
	default:
		// Releases of Neutron differ in which of the first two addresses of an IPv6
		// subnet they choose: either is Neutron's choice.
		return first, have == first || have == first.Next()
	}
	return want, have == want
}

// allocationPools are the pools that Neutron itself makes for a subnet with that
// gateway (generate_pools in neutron.ipam.utils). They go along with every change of
// the gateway, for Neutron refuses a gateway that lies in a pool (409).
func allocationPools(cidr netip.Prefix, gateway netip.Addr) []netipx.IPRange {
	whole := netipx.RangeOfPrefix(cidr)
	first, last := whole.From().Next(), whole.To()
	if cidr.Addr().Is4() {
		last = last.Prev()
	}
	var pools netipx.IPSetBuilder
	pools.AddRange(netipx.IPRangeFrom(first, last))
	if gateway.IsValid() {
		pools.Remove(gateway)
	}
	// The only error is a range that ends before it begins: a subnet without hosts.
	set, err := pools.IPSet()
	if err != nil {
		return nil
	}
	return set.Ranges()
}

// isOurs says whether a subnet is the owner's.
func isOurs(want Desired, s *Subnet) bool {
	owner, marked := OwnerOf(s.Description)
	if marked {
		return owner == want.Owner
	}
	return s.ID == want.Known
}

// Foreign returns the network's subnets that are not the owner's.
func Foreign(want Desired, have *Network) []Subnet {
	var foreign []Subnet
	for i := range have.Subnets {
		if !isOurs(want, &have.Subnets[i]) {
			foreign = append(foreign, have.Subnets[i])
		}
	}
	return foreign
}

func findSubnet(want Desired, have *Network, cidr netip.Prefix) *Subnet {
	for i := range have.Subnets {
		if s := &have.Subnets[i]; s.CIDR == cidr && isOurs(want, s) {
			return s
		}
	}
	return nil
}

// obsoleteSubnets returns the owner's subnets that are no longer wanted.
func obsoleteSubnets(want Desired, have *Network) []Subnet {
	var obsolete []Subnet
next:
	for i := range have.Subnets {
		if !isOurs(want, &have.Subnets[i]) {
			continue
		}
		for _, subnet := range want.Subnets {
			if subnet.CIDR == have.Subnets[i].CIDR {
				continue next
			}
		}
		obsolete = append(obsolete, have.Subnets[i])
	}
	return obsolete
}

// Current returns the owner's subnet that is in force: the wanted one, or while that
// is missing the one that it will replace; nil if there is none.
func Current(want Desired, have *Network) *Subnet {
	for _, subnet := range want.Subnets {
		if s := findSubnet(want, have, subnet.CIDR); s != nil {
			return s
		}
	}
	for _, s := range obsoleteSubnets(want, have) {
		return &s
	}
	return nil
}
