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
// It does not touch unmanaged subnets.
func Next(desired Desired, observed *Network) Step {
	mark := desired.Owner.Mark()
	if !observed.Exists() {
		return CreateNetwork{Name: desired.Name, Description: mark}
	}
	if step := (UpdateNetwork{unlessEqual(desired.Name, observed.Name), unlessEqual(mark, observed.Description)}); step != (UpdateNetwork{}) {
		return step
	}
	obsolete := obsoleteSubnets(desired, observed)
	for _, subnet := range desired.Subnets {
		existing := findSubnet(desired, observed, subnet.CIDR)
		if existing == nil {
			return createOrMakeRoom(desired, subnet, obsolete)
		}
		if step := updateSubnet(desired, mark, subnet, existing); step != nil {
			return step
		}
	}
	for _, s := range obsolete {
		return DeleteSubnet{ID: s.ID, CIDR: s.CIDR}
	}
	return nil
}

// unlessEqual returns desired, or "" if observed is the same.
func unlessEqual(desired, observed string) string {
	if desired == observed {
		return ""
	}
	return desired
}

// createOrMakeRoom returns the step that creates a missing subnet. Neutron refuses subnets
// that overlap on one network: then an old subnet is deleted first. Otherwise it is deleted
// last, so that the network is never without a subnet. It is also not deleted first for a
// subnet that Neutron is certain to refuse. Nothing changes before all old subnets are free of
// ports.
func createOrMakeRoom(desired Desired, subnet DesiredSubnet, obsolete []Subnet) Step {
	create := CreateSubnet{Subnet: subnet, Name: desired.Name, Description: desired.Owner.Mark()}
	for _, s := range obsolete {
		create.Replaces = append(create.Replaces, s.ID)
	}
	for i, s := range obsolete {
		if s.CIDR.Overlaps(subnet.CIDR) && !isRefused(subnet) {
			return DeleteSubnet{ID: s.ID, CIDR: s.CIDR, Others: slices.Delete(create.Replaces, i, i+1)}
		}
	}
	return create
}

// unserved are the multicast and the loopback addresses. Neutron refuses CIDRs inside them if
// DHCP is enabled, and accepts CIDRs that also contain other addresses.
var unserved = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("ff00::/8")}

// isRefused reports whether Neutron is certain to refuse the subnet, on any network. DHCP is
// enabled by default, and needs two hosts: a server and a client.
func isRefused(subnet DesiredSubnet) bool {
	cidr, first := subnet.CIDR, subnet.CIDR.Addr()
	if cidr.Bits() == 0 || first.BitLen()-cidr.Bits() < 2 || first == netip.IPv4Unspecified() {
		return true
	}
	for _, p := range unserved {
		if p.Bits() <= cidr.Bits() && p.Contains(first) {
			return true
		}
	}
	// In IPv4 these are the network address and the broadcast address.
	gateway := subnet.Gateway
	return gateway.Is4() && !subnet.NoGateway && (gateway == first || gateway == netipx.PrefixLastIP(cidr))
}

// updateSubnet returns the step that repairs the existing subnet, or nil.
func updateSubnet(desired Desired, mark string, subnet DesiredSubnet, existing *Subnet) Step {
	step := UpdateSubnet{
		ID:          existing.ID,
		Name:        unlessEqual(desired.Name, existing.Name),
		Description: unlessEqual(mark, existing.Description),
	}
	gateway, matches := desiredGateway(subnet, existing.Gateway)
	if step.Name == "" && step.Description == "" && matches {
		return nil
	}
	if !matches {
		step.SetGateway = true
		step.Gateway = gateway
		step.Pools = allocationPools(subnet.CIDR, gateway)
	}
	return step
}

// desiredGateway returns the gateway that the subnet must have, and whether it has it.
func desiredGateway(subnet DesiredSubnet, observed netip.Addr) (gateway netip.Addr, matches bool) {
	first := subnet.CIDR.Addr()
	switch {
	case subnet.NoGateway:
		gateway = netip.Addr{}
	case subnet.Gateway.IsValid():
		gateway = subnet.Gateway
	case first.Is4():
		gateway = first.Next()
	default:
		// Neutron releases differ in which of the first two addresses of an IPv6 subnet
		// they choose. Both count as Neutron's choice.
		return first, observed == first || observed == first.Next()
	}
	return gateway, observed == gateway
}

// allocationPools returns the pools that Neutron itself creates for a subnet with this
// gateway (generate_pools in neutron.ipam.utils). They are sent with each change of the
// gateway, because Neutron refuses a gateway that is inside a pool (409).
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
	// The only error is a range that ends before it begins, in a subnet without hosts.
	set, err := pools.IPSet()
	if err != nil {
		return nil
	}
	return set.Ranges()
}

// isOurs reports whether the subnet belongs to the owner.
func isOurs(desired Desired, s *Subnet) bool {
	owner, marked := OwnerOf(s.Description)
	if marked {
		return owner == desired.Owner
	}
	return s.ID == desired.Known
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

func findSubnet(desired Desired, observed *Network, cidr netip.Prefix) *Subnet {
	for i := range observed.Subnets {
		if s := &observed.Subnets[i]; s.CIDR == cidr && isOurs(desired, s) {
			return s
		}
	}
	return nil
}

// obsoleteSubnets returns the owner's subnets that are no longer declared.
func obsoleteSubnets(desired Desired, observed *Network) []Subnet {
	var obsolete []Subnet
next:
	for i := range observed.Subnets {
		if !isOurs(desired, &observed.Subnets[i]) {
			continue
		}
		for _, subnet := range desired.Subnets {
			if subnet.CIDR == observed.Subnets[i].CIDR {
				continue next
			}
		}
		obsolete = append(obsolete, observed.Subnets[i])
	}
	return obsolete
}

// Current returns the owner's subnet that is in use: the declared one, or the one that it will
// replace; nil if there is neither.
func Current(desired Desired, observed *Network) *Subnet {
	for _, subnet := range desired.Subnets {
		if s := findSubnet(desired, observed, subnet.CIDR); s != nil {
			return s
		}
	}
	for _, s := range obsoleteSubnets(desired, observed) {
		return &s
	}
	return nil
}
