// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// checkRefusal fails with Invalid if the subnet overlaps with another one of the network, or if Neutron
// accepts it on no network.
func (s CreateSubnet) checkRefusal(expected *Network) error {
	if isRefused(&s.Subnet) {
		return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("Neutron does not accept %s with this gateway, these allocation pools and DHCP", s.Subnet.CIDR)}
	}
	for _, other := range expected.Subnets {
		if other.CIDR.Overlaps(s.Subnet.CIDR) {
			return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with subnet %s (%s) of the network, which is left alone", s.Subnet.CIDR, other.CIDR, other.ID)}
		}
	}
	return nil
}

// checkRefusal fails with Invalid if the gateway is then in a pool, and with InUse if the gateway moves while
// a router of another client has its address.
func (s UpdateSubnet) checkRefusal(expected *Network) error {
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

// containing returns the pool that contains the address, "" if none does.
func (p Pools) containing(address netip.Addr) string {
	for _, text := range elements(p) {
		if pool, err := netipx.ParseIPRange(text); err == nil && pool.Contains(address) {
			return text
		}
	}
	return ""
}
