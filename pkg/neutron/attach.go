// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
)

// attach attaches the subnet. Neutron refuses that if it is attached (400). It refuses it in another
// way (409) if an earlier request failed in the middle: then there is a port that looks like an
// interface, in every answer, and is none. It is removed, and the plan is made again.
func (c *Cloud) attach(ctx context.Context, s AttachSubnet, observed *Observed) (*Observed, error) {
	port, err := c.client.AttachSubnet(ctx, s.Router, s.Subnet)
	switch kind := errorIn(err).kind; {
	case kind == alreadyAttached && s.Port != "":
		port, err = s.Port, nil
	case kind == alreadyAttached:
		if err = c.checkAttached(ctx, s, observed); err == nil {
			err = c.removeHalf(ctx, s)
		}
	case kind == addressAllocated && s.Port != "":
		err = c.removeHalf(ctx, s)
	}
	if ReasonOf(err) == InUse {
		gateway := FixedIP{s.Subnet, observed.subnet(s.Subnet).Gateway}
		if named := c.checkAddress(ctx, "attach subnet", observed.ID, gateway); ReasonOf(named) == InUse {
			return nil, named
		}
		return nil, err
	}
	if err != nil && s.IsOwn {
		return nil, err // if the router does not exist, what was observed is out of date
	}
	if err != nil {
		return nil, asUnresolved(err)
	}
	if router, isKnown := c.routing.router(s.Router); isKnown && observed.router(s.Router) == nil {
		observed = observed.withRouter(router)
	}
	return observed.withInterface(Interface{
		PortID: port, RouterID: s.Router, SubnetID: s.Subnet, Address: observed.subnet(s.Subnet).Gateway, Confirmed: true,
	}), nil
}

// checkAttached fails with Stale if the subnet is attached, which was not observed: another request was
// faster. Otherwise the port of the interface has lost its device owner, and is hidden from lists.
func (c *Cloud) checkAttached(ctx context.Context, s AttachSubnet, observed *Observed) error {
	ports, err := c.client.PortsOnNetworks(ctx, observed.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(interfacesOf(ports), func(i Interface) bool { return i.RouterID == s.Router && i.SubnetID == s.Subnet }) {
		return &Error{Op: "attach subnet", Reason: Stale, Message: "the subnet is attached already"}
	}
	return nil
}

// removeHalf removes what a request that failed in the middle has left. It fails with Stale, so that the plan is made
// again: the next request to attach the subnet has a live read of the Network of its own.
func (c *Cloud) removeHalf(ctx context.Context, s AttachSubnet) error {
	klog.FromContext(ctx).Info("Removing what an earlier request to attach the subnet has left, which failed in the middle", "router", s.Router, "port", s.Port)
	if err := c.client.DetachSubnet(ctx, s.Router, s.Subnet); err != nil {
		return err
	}
	return &Error{Op: "attach subnet", Reason: Stale, Message: "what an earlier request has left was removed"}
}

// checkAddress fails with InUse, and names the ports, if ports have the address of a gateway. Ports that
// go with one of the removed interfaces do not count.
func (c *Cloud) checkAddress(ctx context.Context, op, network string, gateway FixedIP, removed ...Interface) error {
	ports, err := c.client.allPortsOn(ctx, network) // those of DHCP servers have addresses too
	if err != nil {
		return err
	}
	holders := slices.DeleteFunc(ports, func(p Port) bool {
		return !slices.Contains(p.FixedIPs, gateway) || slices.ContainsFunc(removed, p.GoesWith)
	})
	if len(holders) == 0 {
		return nil
	}
	return &Error{Op: op, Reason: InUse, Message: fmt.Sprintf("the address of the gateway, %s, is %s", gateway.Address, inUseBy(holders))}
}
