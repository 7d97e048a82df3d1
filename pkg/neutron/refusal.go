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
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"go4.org/netipx"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// checkRefusal returns an error if Neutron would refuse the step, as far as that is known before. observed is
// the network as it is now, expected as it is right before the step.
func (c *Cloud) checkRefusal(ctx context.Context, step Step, observed, expected *Network) error {
	switch s := step.(type) {
	case CreateSubnet:
		return s.checkRefusal(expected)
	case UpdateSubnet:
		return s.checkRefusal(expected)
	case AttachSubnet:
		return c.checkAttachment(ctx, s, observed, expected)
	case DeleteSubnet:
		return s.checkRefusal(expected)
	case DeleteRouter:
		return c.checkDetached(ctx, s, observed, expected)
	}
	return nil
}

// checkRefusal fails with Invalid if the subnet overlaps with another one of the network, or if Neutron
// accepts it on no network.
func (s CreateSubnet) checkRefusal(expected *Network) error {
	for _, other := range expected.Subnets {
		if other.CIDR.Overlaps(s.Subnet.CIDR) {
			return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with subnet %s (%s) of the network, which is left alone", s.Subnet.CIDR, other.CIDR, other.ID)}
		}
	}
	if isRefused(&s.Subnet) {
		return &Error{Op: "create subnet", Reason: Invalid, Message: fmt.Sprintf("Neutron does not accept %s with this gateway and DHCP", s.Subnet.CIDR)}
	}
	return nil
}

// checkRefusal fails with InUse if the gateway moves while a router of another client has its address,
// and with Invalid if the new gateway is in a pool.
func (s UpdateSubnet) checkRefusal(expected *Network) error {
	subnet, gateway := expected.subnet(s.ID), gatewayIn(s.Changes)
	if subnet == nil || !gateway.IsValid() {
		return nil
	}
	if pool := s.expect(expected).subnet(s.ID).Pools.containing(gateway); pool != "" {
		return &Error{Op: "update subnet", Reason: Invalid, Message: fmt.Sprintf("gateway %s is in the allocation pool %s of subnet %s", gateway, pool, subnet.CIDR)}
	}
	for _, i := range expected.Interfaces {
		if i.SubnetID == s.ID && i.Address == subnet.Gateway {
			return &Error{Op: "update subnet", Reason: InUse, Message: fmt.Sprintf("the address of the gateway, %s, is in use by router %s (port %s)", subnet.Gateway, i.RouterID, i.PortID)}
		}
	}
	return nil
}

// checkRefusal fails with InUse if a router is attached to the subnet.
func (s DeleteSubnet) checkRefusal(expected *Network) error {
	for _, i := range expected.Interfaces {
		if i.SubnetID == s.ID {
			return &Error{Op: "delete subnet " + s.CIDR.String(), Reason: InUse, Message: fmt.Sprintf("in use by router %s (port %s)", i.RouterID, i.PortID)}
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

// isAutoAddressed reports whether ports choose their own addresses in the subnet. Such addresses do not
// prevent its deletion, except those of routers.
func (s *Subnet) isAutoAddressed() bool {
	return s.AddressMode == string(samplecrdv1.IPv6ModeSLAAC) || s.AddressMode == string(samplecrdv1.IPv6ModeDHCPv6Stateless)
}

// checkAttachment fails with Invalid if the subnet has no gateway, or overlaps with another one of the
// router, and with InUse if a port has the address of its gateway. An interface that exists needs no
// check: the step only confirms it.
func (c *Cloud) checkAttachment(ctx context.Context, s AttachSubnet, observed, expected *Network) error {
	if s.Port != "" {
		return nil
	}
	gateway := expected.subnet(s.Subnet).Gateway
	if !gateway.IsValid() {
		return &Error{Op: "attach subnet", Reason: Invalid, Message: fmt.Sprintf("subnet %s has no gateway, which an interface of a router needs", s.CIDR)}
	}
	if observed.subnet(s.Subnet) != nil && !isReleased(observed, expected, s.Subnet, gateway) {
		if err := c.checkAddress(ctx, "attach subnet", observed.ID, FixedIP{s.Subnet, gateway}); err != nil {
			return err
		}
	}
	if s.Router == newRouter {
		return nil
	}
	move := DetachSubnet{Target: s.Router, Desired: []DesiredSubnet{{CIDR: s.CIDR}}}
	return move.checkTarget(ctx, c, observed)
}

// isReleased reports whether an interface has the address now, and a step before removes the interface.
func isReleased(observed, expected *Network, subnet string, address netip.Addr) bool {
	holds := func(i Interface) bool { return i.SubnetID == subnet && i.Address == address }
	return slices.ContainsFunc(observed.Interfaces, holds) && !slices.ContainsFunc(expected.Interfaces, holds)
}

// checkDetached fails with InUse if the router has interfaces that no step before removes.
func (c *Cloud) checkDetached(ctx context.Context, s DeleteRouter, observed, expected *Network) error {
	ports, err := list[Port](ctx, c.client, "ports", portFields, url.Values{"device_id": {s.ID}, "device_owner": interfaceOwners})
	if err != nil {
		return err
	}
	ports = slices.DeleteFunc(ports, func(p Port) bool {
		isOn := func(i Interface) bool { return i.PortID == p.ID }
		return slices.ContainsFunc(observed.Interfaces, isOn) && !slices.ContainsFunc(expected.Interfaces, isOn)
	})
	if message := inUseBy(ports); message != "" {
		return &Error{Op: "delete router " + s.ID, Reason: InUse, Message: message}
	}
	return nil
}
