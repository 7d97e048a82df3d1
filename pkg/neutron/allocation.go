// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"k8s.io/utils/ptr"
)

// DesiredSubnetPool is the subnet pool from which Neutron takes the CIDR of a subnet.
type DesiredSubnetPool struct {
	// Spec is what the Network declares.
	Spec samplecrdv1.SubnetPoolSpec
	// SubnetPool is the zero value until the name is resolved.
	SubnetPool
}

// String names the pool as the Network declares it.
func (p *DesiredSubnetPool) String() string {
	return cmp.Or(p.Spec.Name, p.Spec.ID)
}

// refusal returns why no subnet of the Network can be from the pool; "" if one may be.
func (p *DesiredSubnetPool) refusal() string {
	length := int64(p.Spec.PrefixLength)
	if least, err := p.Min.Int64(); err == nil && length < least {
		return fmt.Sprintf("the prefix length %d is less than %d, the least that subnet pool %s allows", length, least, p)
	}
	if most, err := p.Max.Int64(); err == nil && length > most {
		return fmt.Sprintf("the prefix length %d is more than %d, the most that subnet pool %s allows", length, most, p)
	}
	isLargeEnough := func(prefix netip.Prefix) bool { return int64(prefix.Bits()) <= length }
	if len(p.Prefixes) > 0 && !slices.ContainsFunc(p.Prefixes, isLargeEnough) {
		return fmt.Sprintf("no prefix of subnet pool %s is as large as /%d", p, length)
	}
	return p.lacksRoom()
}

// lacksRoom returns why the prefix length is too long for a subnet of any pool; "" if it is not.
func (p *DesiredSubnetPool) lacksRoom() string {
	if most := map[int]int32{4: 30, 6: 126}[p.Version]; most > 0 && p.Spec.PrefixLength > most {
		return fmt.Sprintf("a /%d has no room for the addresses of a gateway and of a DHCP server", p.Spec.PrefixLength)
	}
	return ""
}

// isUnresolved reports whether the subnet is from a pool that is not known yet, or not found.
func (d *DesiredSubnet) isUnresolved() bool { return d.SubnetPool != nil && d.SubnetPool.ID == "" }

// version returns the IP version of the subnet: 4 or 6.
func (d *DesiredSubnet) version() int {
	if d.SubnetPool != nil {
		return d.SubnetPool.Version
	}
	return versionOf(d.CIDR)
}

func versionOf(cidr netip.Prefix) int {
	if cidr.Addr().Is4() {
		return 4
	}
	return 6
}

// excludes reports whether Neutron refuses to create the subnet while the other one is on its network: they overlap, or
// they have the same IP version, but are neither both from the same pool nor both from none.
func (d *DesiredSubnet) excludes(other *Subnet) bool {
	return d.CIDR.Overlaps(other.CIDR) || d.version() == versionOf(other.CIDR) && d.poolID() != other.PoolID
}

func (d *DesiredSubnet) poolID() string { return ptr.Deref(d.SubnetPool, DesiredSubnetPool{}).ID }

// rangeText describes the addresses of the subnet to users. Neutron has not chosen them yet if they are from a pool.
func (d *DesiredSubnet) rangeText() string {
	switch {
	case d.SubnetPool == nil:
		return d.CIDR.String()
	case d.CIDR.IsValid():
		return fmt.Sprintf("%s from subnet pool %s", d.CIDR, d.SubnetPool)
	}
	return fmt.Sprintf("/%d from subnet pool %s", d.SubnetPool.Spec.PrefixLength, d.SubnetPool)
}

// made returns the step with the CIDR that Neutron has chosen. before and after are what was observed.
func (s CreateSubnet) made(before, after *Observed) CreateSubnet {
	for _, subnet := range after.Subnets {
		if s.Subnet.SubnetPool != nil && before.subnet(subnet.ID) == nil {
			s.Subnet.CIDR = subnet.CIDR
		}
	}
	return s
}

// explain adds the name of the subnet pool to the error of the request. A 404 becomes Unresolved: the pool or the network was deleted
// after it was listed.
func (s CreateSubnet) explain(err error) error {
	if s.Subnet.SubnetPool == nil {
		return err
	}
	if e := errorIn(err); e.Reason == PoolEmpty {
		e.Message = fmt.Sprintf("no %s is free: %s", s.Subnet.rangeText(), e.Message)
		return &e
	}
	return asUnresolved(err)
}

// expectedCIDR returns the CIDR of the subnet. In place of one that Neutron will choose, it has the unspecified address, so that
// checks for overlaps find none.
func (d *DesiredSubnet) expectedCIDR() netip.Prefix {
	if d.SubnetPool == nil {
		return d.CIDR
	}
	none := netip.IPv4Unspecified()
	if d.version() == 6 || d.SubnetPool.Spec.PrefixLength > 32 {
		none = netip.IPv6Unspecified()
	}
	return netip.PrefixFrom(none, int(d.SubnetPool.Spec.PrefixLength))
}

// cidrText describes a CIDR to users, also one that expectedCIDR has returned.
func cidrText(cidr netip.Prefix) string {
	if cidr.Addr().IsUnspecified() {
		return fmt.Sprintf("/%d from the subnet pool", cidr.Bits())
	}
	return cidr.String()
}

// allocated returns, by label, which existing subnet each desired subnet from a pool is. The subnets of one pool with one prefix length
// can take each other's place: Neutron can change everything else. So a desired subnet is the one that the status has for it, or else
// one with its name, or else any. This also finds a subnet that a lost answer has left behind, so that no
// second CIDR is taken from the pool.
func (v *View) allocated() map[string]*Subnet {
	found, taken := map[string]*Subnet{}, map[string]bool{}
	for i := range v.Subnets {
		if v.Subnets[i].SubnetPool == nil {
			if s := v.findSubnet(&v.Subnets[i]); s != nil {
				taken[s.ID] = true
			}
		}
	}
	isAny := func(*DesiredSubnet, *Subnet) bool { return true }
	for _, isMeant := range []func(*DesiredSubnet, *Subnet) bool{v.isRecorded, isNamed, isAny} {
		for i := range v.Subnets {
			d := &v.Subnets[i]
			for j := range v.Observed.Subnets {
				s := &v.Observed.Subnets[j]
				if found[d.Label] == nil && !taken[s.ID] && v.isFromPool(d, s) && isMeant(d, s) {
					found[d.Label], taken[s.ID] = s, true
				}
			}
		}
	}
	return found
}

// isFromPool reports whether the existing subnet can be the desired one: it is the owner's, of that length, and from that pool. While
// the pool is not resolved, only the subnet in the status can be, and one with its name.
func (v *View) isFromPool(d *DesiredSubnet, s *Subnet) bool {
	if d.SubnetPool == nil || s.CIDR.Bits() != int(d.SubnetPool.Spec.PrefixLength) || !v.isOurs(s) {
		return false
	}
	isPool := s.PoolID == d.SubnetPool.ID || d.isUnresolved() && (v.isRecorded(d, s) || isNamed(d, s))
	return isPool && s.PoolID != "" && matchesFixed(subnetTable, d, s, v.Import != "")
}

// isRecorded reports whether the status has the subnet as the desired one.
func (i Identity) isRecorded(d *DesiredSubnet, s *Subnet) bool { return i.Recorded[d.Label] == s.ID }

func isNamed(d *DesiredSubnet, s *Subnet) bool { return d.Name == s.Name }
