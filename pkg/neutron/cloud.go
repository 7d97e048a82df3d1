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
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// Cloud is one project of one Neutron as the controller deals with it: what is there
// (from memory, or looked up), and steps that change it. It keeps the Observer in step
// with the answers.
//
// For one owner at a time no two of its methods may run; the queue sees to that.
type Cloud struct {
	name     string
	client   *Client
	observer *Observer
}

// NewCloud makes a Cloud of what carries the cluster's mark. The period is how often
// all networks are listed.
func NewCloud(name string, client *Client, cluster string, period time.Duration) *Cloud {
	observer := NewObserver(cluster, period, client.ListNetworks)
	client.circuit.opened = observer.RelistSoon
	return &Cloud{name: name, client: client, observer: observer}
}

// Name is what people call the cloud.
func (c *Cloud) Name() string { return c.name }

// Observer returns what remembers the cloud's networks. The caller has to Run it.
func (c *Cloud) Observer() *Observer { return c.observer }

// Client returns what the cloud is talked to with.
func (c *Cloud) Client() *Client { return c.client }

// Identity is what somebody who is sure to own at most one network knows of it.
type Identity struct {
	Owner Owner
	// NetworkID is the ID of the network that was seen last; "" if none was.
	NetworkID string
}

// Owned returns the identity's network as it was last seen, and the zero Network if there
// is none. Known is false if that cannot be told from memory.
func (c *Cloud) Owned(identity Identity) (network *Network, known bool, err error) {
	networks, known, err := c.observer.Get(identity.Owner.UID)
	return choose(networks, identity), known, err
}

// Find looks in Neutron for the identity's network; it returns the zero Network if there
// is none. It finds networks by their mark, and the one that was seen last by its ID too
// if somebody has taken the mark off but it still has a subnet with it. Without either it
// is a stranger's, whatever its name, and whatever the IDs in a status, which people can
// write.
func (c *Cloud) Find(ctx context.Context, identity Identity) (*Network, error) {
	found, err := c.client.FindNetworks(ctx, identity.Owner.Mark())
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && identity.NetworkID != "" {
		network, err := c.client.GetNetwork(ctx, identity.NetworkID)
		if err != nil && ReasonOf(err) != NotFound {
			return nil, err
		}
		if err == nil && identity.covers(network) {
			found = append(found, network)
		}
	}
	c.observer.Replace(identity.Owner.UID, found...)
	return choose(found, identity), nil
}

// Marks says whether the network carries the identity's mark. Without it, it is not deleted.
func (c Identity) Marks(n *Network) bool {
	owner, marked := OwnerOf(n.Description)
	return marked && owner == c.Owner
}

// covers says whether the network is the identity's, though its mark may be off.
func (c Identity) covers(n *Network) bool {
	if owner, marked := OwnerOf(n.Description); marked {
		return owner == c.Owner
	}
	return n.ID == c.NetworkID && slices.ContainsFunc(n.Subnets, func(s Subnet) bool {
		owner, marked := OwnerOf(s.Description)
		return marked && owner == c.Owner
	})
}

// choose returns the network that was seen last if it is one of several, else the
// first, else the zero Network.
func choose(networks []*Network, identity Identity) *Network {
	for _, n := range networks {
		if n.ID == identity.NetworkID {
			return n
		}
	}
	if len(networks) > 0 {
		return networks[0]
	}
	return &Network{}
}

// Prefer returns the one of the identity's networks to keep: the one that was seen last, or
// else the first that has ports, or else the one that was chosen. It asks Neutron for
// ports only if there are several.
func (c *Cloud) Prefer(ctx context.Context, identity Identity, chosen *Network) (*Network, error) {
	networks, _, err := c.observer.Get(identity.Owner.UID)
	if err != nil || len(networks) < 2 || chosen.ID == identity.NetworkID {
		return chosen, err
	}
	for _, n := range networks {
		ports, err := c.client.PortsOnNetwork(ctx, n.ID)
		if err != nil {
			return nil, err
		}
		if len(ports) > 0 {
			return n, nil
		}
	}
	return chosen, nil
}

// Surplus returns the step that removes a second network with the identity's mark, as the
// function of that name. It reads memory only: nil may also mean that there is none in it.
func (c *Cloud) Surplus(identity Identity, keep *Network) Step {
	networks, _, err := c.observer.Get(identity.Owner.UID)
	if err != nil {
		return nil
	}
	return Surplus(networks, keep)
}

// Take takes one step, and returns the network as it is then. What is logged of its requests
// names the step.
func (c *Cloud) Take(ctx context.Context, identity Identity, have *Network, step Step) (*Network, error) {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "step", step))
	if step, ok := step.(DeleteNetwork); ok {
		return have, c.Delete(ctx, identity, step.Network)
	}
	next, err := c.take(ctx, have, step)
	if err != nil {
		c.afterFailure(identity.Owner, err)
		return have, err
	}
	c.observer.Update(identity.Owner.UID, next)
	return next, nil
}

func (c *Cloud) take(ctx context.Context, have *Network, step Step) (*Network, error) {
	switch step := step.(type) {
	case CreateNetwork:
		network, err := c.client.CreateNetwork(ctx, step)
		return &network, err
	case UpdateNetwork:
		network, err := c.client.UpdateNetwork(ctx, have, step)
		network.Subnets = have.Subnets
		return &network, err
	case CreateSubnet:
		return c.createSubnet(ctx, have, step)
	case UpdateSubnet:
		subnet, err := c.client.UpdateSubnet(ctx, have.subnet(step.ID), step)
		return have.withSubnet(subnet), err
	case DeleteSubnet:
		return have.withoutSubnet(step.ID), c.deleteSubnet(ctx, have, step)
	}
	return nil, fmt.Errorf("no such step: %T", step)
}

// createSubnet makes the new subnet only if the one that it replaces can go, so that a
// network does not end up with both.
func (c *Cloud) createSubnet(ctx context.Context, have *Network, step CreateSubnet) (*Network, error) {
	if step.Replaces != "" {
		ports, err := c.client.PortsOnSubnet(ctx, step.Replaces)
		if err == nil {
			err = inUse("replace subnet "+have.subnet(step.Replaces).CIDR.String(), ports)
		}
		if err != nil {
			return nil, err
		}
	}
	subnet, err := c.client.CreateSubnet(ctx, have.ID, step)
	return have.withSubnet(subnet), err
}

func (c *Cloud) deleteSubnet(ctx context.Context, have *Network, step DeleteSubnet) error {
	err := c.client.DeleteSubnet(ctx, step.ID, have.subnet(step.ID).Revision)
	if ReasonOf(err) != InUse {
		return err
	}
	return c.namePorts(ctx, err, "delete subnet "+step.CIDR.String(), c.client.PortsOnSubnet, step.ID)
}

// Delete removes the network with its subnets. That it is not there is not an error,
// nor that it is a stranger's by now: that one stays.
func (c *Cloud) Delete(ctx context.Context, identity Identity, network *Network) error {
	err := c.deleteNetwork(ctx, identity, network)
	if err != nil {
		c.afterFailure(identity.Owner, err)
		return err
	}
	c.observer.Delete(identity.Owner.UID, network.ID)
	return nil
}

func (c *Cloud) deleteNetwork(ctx context.Context, identity Identity, network *Network) error {
	if network.Revision != nil {
		if err := c.tryDelete(ctx, network); ReasonOf(err) != Stale {
			return err
		}
	}
	// What was seen of it is out of date: it may be a stranger's by now.
	fresh, err := c.client.getNetwork(ctx, network.ID)
	if ReasonOf(err) == NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if !identity.Marks(fresh) {
		klog.FromContext(ctx).Info("Left a network in Neutron that no longer carries our mark", "networkID", fresh.ID, "description", Printable(fresh.Description))
		return nil
	}
	return c.tryDelete(ctx, fresh)
}

// Release takes the identity's mark off the network and its subnets, which stay as they are
// otherwise. The network's is the last to go: as long as it is there, the rest is found.
func (c *Cloud) Release(ctx context.Context, identity Identity, network *Network) error {
	err := c.release(ctx, identity, network)
	if err != nil {
		c.afterFailure(identity.Owner, err)
		return err
	}
	c.observer.Delete(identity.Owner.UID, network.ID)
	return nil
}

func (c *Cloud) release(ctx context.Context, identity Identity, network *Network) error {
	for _, s := range network.Subnets {
		if owner, marked := OwnerOf(s.Description); marked && owner == identity.Owner {
			if err := c.client.UnmarkSubnet(ctx, &s); err != nil {
				return err
			}
		}
	}
	// The revision has changed with the subnets'.
	fresh, err := c.client.getNetwork(ctx, network.ID)
	if ReasonOf(err) == NotFound {
		return nil
	}
	if err != nil || !identity.Marks(fresh) {
		return err
	}
	return c.client.UnmarkNetwork(ctx, fresh)
}

// tryDelete deletes the network if it is still as it was read.
func (c *Cloud) tryDelete(ctx context.Context, network *Network) error {
	err := c.client.DeleteNetwork(ctx, network.ID, network.Revision)
	if ReasonOf(err) != InUse {
		return err
	}
	return c.namePorts(ctx, err, "delete network", c.client.PortsOnNetwork, network.ID)
}

// namePorts says which ports it was that err, Neutron's answer, speaks of.
func (c *Cloud) namePorts(ctx context.Context, err error, op string, portsOn func(context.Context, string) ([]Port, error), id string) error {
	ports, listErr := portsOn(ctx, id)
	if listErr != nil || len(ports) == 0 {
		return err
	}
	return inUse(op, ports)
}

// afterFailure makes the next sync look for itself, unless the answer says that
// nothing was changed and that what was known of Neutron still holds.
func (c *Cloud) afterFailure(owner Owner, err error) {
	switch ReasonOf(err) {
	case Invalid, Forbidden, Unauthenticated, InUse, OverQuota:
	default:
		c.observer.Invalidate(owner.UID)
	}
}
