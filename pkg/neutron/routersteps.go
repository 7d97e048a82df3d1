// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"k8s.io/klog/v2"
)

const (
	fieldRouter         = "router"
	fieldObsoleteRouter = "obsolete router"
	fieldInterface      = "router interface"
)

// needsStatus is a step that must not be taken before the status has the router: if the spec changed
// right afterwards, what the step creates could not be found.
type needsStatus interface{ isRecorded(Identity) bool }

// CreateRouter creates a router of the Network's own, with its gateway. Its description carries the
// mark from the start.
type CreateRouter struct{ Router DesiredRouter }

func (CreateRouter) String() string { return "router created" }

func (s CreateRouter) fields() map[string]any { return creation(routerTable, &s.Router) }

// Irreversible returns true: a router created for a deleted Network would be an orphan.
func (CreateRouter) Irreversible() bool                { return true }
func (CreateRouter) Fields() []string                  { return []string{fieldRouter} }
func (CreateRouter) isRecorded(identity Identity) bool { return identity.RouterRecorded }

// UpdateRouter changes fields of a router of the Network's own.
type UpdateRouter struct {
	ID      string
	Changes []Change
}

func (s UpdateRouter) String() string   { return describe(s.Changes) }
func (UpdateRouter) Irreversible() bool { return false }
func (s UpdateRouter) Fields() []string { return labels(s.Changes) }

// AttachSubnet attaches a subnet to a router, or confirms that it is attached.
type AttachSubnet struct {
	Router, Subnet string
	CIDR           netip.Prefix
	// IsOwn means that the router carries the owner's mark.
	IsOwn bool
	// Port is the ID of the port of an interface that Neutron has not confirmed yet.
	Port string
}

func (s AttachSubnet) String() string {
	if s.Port != "" {
		return fmt.Sprintf("connection of subnet %s to router %s confirmed", s.CIDR, s.Router)
	}
	return fmt.Sprintf("subnet %s attached to router %s", s.CIDR, s.Router)
}

// Irreversible returns true: an interface on a router that the Network no longer names would stay.
func (AttachSubnet) Irreversible() bool { return true }

// Fields returns nothing for a confirmation: the interface exists, as a rule.
func (s AttachSubnet) Fields() []string {
	if s.Port != "" {
		return nil
	}
	return []string{fieldInterface}
}

func (s AttachSubnet) isRecorded(identity Identity) bool {
	return identity.RouterRecorded && (s.IsOwn || identity.RouterID == s.Router)
}

// attach attaches the subnet. Neutron refuses that if it is attached (400). It refuses it in another
// way (409) if an earlier request failed in the middle: then there is a port that looks like an
// interface, in every answer, and is none. It is removed, and the plan is made again.
func (c *Cloud) attach(ctx context.Context, s AttachSubnet, observed *Observed) (*Observed, error) {
	port, err := c.client.AttachSubnet(ctx, s.Router, s.Subnet)
	switch conflict := errorIn(err).conflict; {
	case conflict == attachedAlready && s.Port != "":
		port, err = s.Port, nil
	case conflict == attachedAlready:
		if err = c.checkAttached(ctx, s, observed); err == nil {
			err = c.removeHalf(ctx, s)
		}
	case conflict == addressTaken && s.Port != "":
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
	// The ports of DHCP servers have addresses too.
	ports, err := list[Port](ctx, c.client, "ports", portFields, url.Values{"network_id": {network}})
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

// asUnresolved returns the error of a request that names a router or an external network. NotFound
// becomes Unresolved: the spec names something that does not exist.
func asUnresolved(err error) error {
	if e := errorIn(err); e.Reason == NotFound {
		e.Reason = Unresolved
		return &e
	}
	return err
}

// DetachSubnet detaches a subnet from a router. It fails with InUse, and changes nothing, if
// floating IPs depend on the interface.
type DetachSubnet struct {
	Router, Subnet string
	CIDR           netip.Prefix
	// Replaces are the IDs of the subnets that are deleted afterwards, including this one. Ports on
	// them prevent the step.
	Replaces []string
	// IsRemoval means that the network is deleted afterwards. Ports on it prevent the step.
	IsRemoval bool
	// Changes are those of the subnet that Neutron accepts only while it is detached.
	Changes []Change
}

func (s DetachSubnet) String() string {
	return fmt.Sprintf("subnet %s detached from router %s", s.CIDR, s.Router)
}
func (DetachSubnet) Irreversible() bool { return true }
func (DetachSubnet) Fields() []string   { return []string{fieldInterface} }

// DeleteRouter deletes a router that carries the owner's mark.
type DeleteRouter struct{ ID string }

func (s DeleteRouter) String() string   { return "router " + s.ID + " deleted" }
func (DeleteRouter) Irreversible() bool { return true }
func (DeleteRouter) Fields() []string   { return []string{fieldObsoleteRouter} }
