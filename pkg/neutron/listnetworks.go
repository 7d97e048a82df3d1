// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
)

// ListNetworks lists the networks of the client's project that carry a mark of one of the
// clusters, or all if no cluster is given, with their subnets.
//
// An admin sees the networks of all projects, and everyone sees shared networks. Networks of
// other projects are left out, since the client cannot have created them. Their subnets on
// networks of this project are not left out.
func (c *Client) ListNetworks(ctx context.Context, clusters ...string) ([]*Network, error) {
	return c.listNetworks(ctx, func(n *Network) bool {
		owner, _ := OwnerOf(n.Description)
		return len(clusters) == 0 || slices.Contains(clusters, owner.Cluster)
	})
}

// listNetworks is ListNetworks for the networks for which keep returns true.
func (c *Client) listNetworks(ctx context.Context, keep func(*Network) bool) ([]*Network, error) {
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	// Networks first: a subnet that is created in between then has its network in the list.
	found, err := listOnly(ctx, c, "networks", append(slices.Clone(networkFields), "subnets"), filter, func(n *listedNetwork) bool { return keep(&n.Network) })
	if err != nil {
		return nil, err
	}
	networks := pointers(found)
	if err := c.readSubnets(ctx, networks, filter); err != nil {
		return nil, err
	}
	return networks, c.readMissing(ctx, networks, func(i int) int { return int(found[i].SubnetCount) })
}

// FindNetworks lists the networks of the client's project that have exactly this description,
// with their subnets.
func (c *Client) FindNetworks(ctx context.Context, description string) ([]*Network, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	filter.Set("description", description)
	found, err := listOnly(ctx, c, "networks", networkFields, filter, func(n *listedNetwork) bool {
		// Some databases ignore case, accents and trailing blanks when they compare.
		return n.Description == description
	})
	if err != nil {
		return nil, err
	}
	networks := pointers(found)
	return networks, c.readAllSubnets(ctx, networks)
}

// GetNetwork reads one network with its subnets.
func (c *Client) GetNetwork(ctx context.Context, id string) (*Network, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	network, err := c.getNetwork(ctx, id)
	if err != nil {
		return nil, err
	}
	return network, c.readAllSubnets(ctx, []*Network{network})
}

// projectFilter returns the filter for the client's project.
func (c *Client) projectFilter(ctx context.Context) (url.Values, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return url.Values{"project_id": {s.place.Project}}, nil
}

// The fields that a list requests: those of the tables in fields.go (TestListsRequestWhatTheTablesHave), and some that only the
// plan reads. routerFields, portFields and others are beside their types.
var (
	networkFields = []string{"id", "name", "description", "mtu", "port_security_enabled", "dns_domain", "shared", "router:external",
		"provider:network_type", "provider:physical_network", "provider:segmentation_id", "availability_zone_hints", "tags", "admin_state_up", "revision_number"}
	subnetFields = []string{"id", "network_id", "name", "description", "cidr", "gateway_ip", "allocation_pools", "dns_nameservers",
		"host_routes", "enable_dhcp", "ipv6_address_mode", "ipv6_ra_mode", "revision_number", "subnetpool_id"}
)

// listedNetwork is a network in a list.
type listedNetwork struct {
	Network
	// SubnetCount is 0 if the list was not asked for it.
	SubnetCount Length `json:"subnets"`
}

// Length is the number of elements of a JSON array. They are not kept.
type Length int

// UnmarshalJSON counts the elements of an array.
func (l *Length) UnmarshalJSON(array []byte) error {
	var elements []json.RawMessage
	err := json.Unmarshal(array, &elements)
	*l = Length(len(elements))
	return err
}

// pointers copies the networks, so that keeping one does not retain the whole slice.
func pointers(found []listedNetwork) []*Network {
	networks := make([]*Network, len(found))
	for i, n := range found {
		network := n.Network
		networks[i] = &network
	}
	return networks
}

// readMissing attaches all subnets again to the networks that have more than a list of the
// project's subnets contained. count returns how many a network has. These are rare: only an admin can create a subnet of another
// project on a network of this one. If one was deleted meanwhile, or if the client cannot see
// it, the second list lacks it too.
func (c *Client) readMissing(ctx context.Context, networks []*Network, count func(i int) int) error {
	var incomplete []*Network
	for i, n := range networks {
		if len(n.Subnets) < count(i) {
			n.Subnets = nil
			incomplete = append(incomplete, n)
		}
	}
	return c.readAllSubnets(ctx, incomplete)
}

// readAllSubnets attaches the subnets of all projects that the client can see.
func (c *Client) readAllSubnets(ctx context.Context, networks []*Network) error {
	var filters []url.Values
	for chunk := range slices.Chunk(networks, maxFilterIDs) {
		filter := url.Values{}
		for _, n := range chunk {
			filter.Add("network_id", n.ID)
		}
		filters = append(filters, filter)
	}
	return c.readSubnets(ctx, networks, filters...)
}

// readSubnets lists the subnets that match one of the filters, and adds each of them to its
// network.
func (c *Client) readSubnets(ctx context.Context, networks []*Network, filters ...url.Values) error {
	if len(networks) == 0 {
		return nil
	}
	byID := make(map[string]*Network, len(networks))
	for _, n := range networks {
		byID[n.ID] = n
	}
	subnets := newListing(c, func(s *Subnet) bool { return byID[s.NetworkID] != nil })
	for _, filter := range filters {
		if err := subnets.list(ctx, c, "subnets", subnetFields, filter); err != nil {
			return err
		}
	}
	for _, s := range subnets.items {
		n := byID[s.NetworkID]
		s.NetworkID = n.ID // one string for all subnets of the network
		n.Subnets = append(n.Subnets, s)
	}
	for _, n := range networks {
		n.sortSubnets()
	}
	return nil
}

// networksByID lists the networks with these IDs that the client can see, of any project, with the
// subnets that it can see.
func (c *Client) networksByID(ctx context.Context, ids []string) ([]*Network, error) {
	found, err := listByID[listedNetwork](ctx, c, "networks", append(slices.Clone(networkFields), "project_id"), ids)
	if err != nil {
		return nil, err
	}
	networks := pointers(found)
	for _, n := range networks {
		c.setForeign(n)
	}
	return networks, c.readAllSubnets(ctx, networks)
}

// setForeign sets IsForeign. Without a session, which no request has, no network is foreign.
func (c *Client) setForeign(n *Network) {
	place, ok := c.Place()
	n.IsForeign = ok && n.ProjectID != place.Project
}
