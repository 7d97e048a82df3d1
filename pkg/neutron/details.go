// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"maps"
	"net/url"
	"slices"
)

// NetworkDetails are a network with attributes that the controller does not use. The zero value of
// an attribute also means that the cloud does not have it.
type NetworkDetails struct {
	*Network
	Project string `json:"project_id"`
	// PortSecurity is nil if the cloud does not have port security. Network.PortSecurityEnabled stays false.
	PortSecurity    *bool  `json:"port_security_enabled"`
	VLANTransparent *bool  `json:"vlan_transparent"`
	QoSPolicy       string `json:"qos_policy_id"`
	// Segments is the number of segments of a network that has several. Only administrators see it.
	Segments Length `json:"segments"`
	// SubnetCount is the number of the network's subnets, including those that the client cannot see.
	SubnetCount Length `json:"subnets"`
	// SubnetDetails are the details of the network's subnets by ID.
	SubnetDetails map[string]SubnetDetails `json:"-"`
	// Routers are those that have an interface on the network, as far as the client can see them.
	Routers []Router `json:"-"`
}

// SubnetDetails are attributes of a subnet that the controller does not use.
type SubnetDetails struct {
	ID           string   `json:"id"`
	Pool         string   `json:"subnetpool_id"`
	Segment      string   `json:"segment_id"`
	ServiceTypes []string `json:"service_types"`
	PublishesDNS bool     `json:"dns_publish_fixed_ip"`
}

// The fields that details need besides those that each list has.
var (
	networkDetailFields = []string{"subnets", "project_id", "qos_policy_id", "vlan_transparent", "segments"}
	subnetDetailFields  = []string{"id", "subnetpool_id", "segment_id", "service_types", "dns_publish_fixed_ip"}
)

func (n NetworkDetails) listed() (string, []string, []string) {
	if n.Network == nil {
		return "", nil, nil // none of its fields was there
	}
	id, texts, lists := n.Network.listed()
	return id, append(texts, n.Project, n.QoSPolicy), lists
}

func (s SubnetDetails) listed() (string, []string, []string) {
	return s.ID, []string{s.Pool, s.Segment}, s.ServiceTypes
}

// ListNetworkDetails lists all networks of the client's project with their subnets, details and
// routers. It calls count with the number of networks that were read so far.
func (c *Client) ListNetworkDetails(ctx context.Context, count func(read int)) ([]*NetworkDetails, error) {
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.listDetails(ctx, filter, count)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	// Lists of the project take few requests, however many networks there are.
	if err := c.readSubnets(ctx, networksOf(found), filter); err != nil {
		return nil, err
	}
	return found, c.readDetails(ctx, found, filter, url.Values{})
}

// GetNetworkDetails is ListNetworkDetails for one network, which can be in any project. It returns
// nil if the client does not see it.
func (c *Client) GetNetworkDetails(ctx context.Context, id string) (*NetworkDetails, error) {
	found, err := c.listDetails(ctx, url.Values{"id": {id}}, func(int) {})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	filter := url.Values{"network_id": {id}}
	return found[0], c.readDetails(ctx, found, filter, filter)
}

func (c *Client) listDetails(ctx context.Context, filter url.Values, count func(read int)) ([]*NetworkDetails, error) {
	read := 0
	found, err := listOnly(ctx, c, "networks", slices.Concat(networkFields, networkDetailFields), filter, func(*NetworkDetails) bool {
		read++
		count(read)
		return true
	})
	details := make([]*NetworkDetails, len(found))
	for i := range found {
		found[i].SubnetDetails = map[string]SubnetDetails{}
		details[i] = &found[i]
	}
	return details, err
}

func networksOf(details []*NetworkDetails) []*Network {
	networks := make([]*Network, len(details))
	for i, n := range details {
		networks[i] = n.Network
	}
	return networks
}

// readDetails adds the subnets that the networks lack, the details of all subnets, and the
// routers. The filters are for lists of the subnets and of the ports.
func (c *Client) readDetails(ctx context.Context, networks []*NetworkDetails, subnets, ports url.Values) error {
	if err := c.readMissing(ctx, networksOf(networks), func(i int) int { return int(networks[i].SubnetCount) }); err != nil {
		return err
	}
	if err := c.readSubnetDetails(ctx, networks, subnets); err != nil {
		return err
	}
	if err := c.readAllShares(ctx, networksOf(networks)); err != nil {
		return err
	}
	return c.readAllRouting(ctx, networks, ports)
}

// readAllShares adds with which projects the networks are shared, as far as the client can see that. In a cloud without RBAC policies
// there are none.
func (c *Client) readAllShares(ctx context.Context, networks []*Network) error {
	err := asUnserved(c.readShares(ctx, networks...))
	if errorIn(err).isUnserved {
		return nil
	}
	return err
}

// readSubnetDetails adds the details of the subnets: those that match the filter with one list,
// the others by their IDs.
func (c *Client) readSubnetDetails(ctx context.Context, networks []*NetworkDetails, filter url.Values) error {
	missing := map[string]*NetworkDetails{}
	for _, n := range networks {
		for _, s := range n.Subnets {
			missing[s.ID] = n
		}
	}
	attach := func(filter url.Values) error {
		subnets, err := listOnly(ctx, c, "subnets", subnetDetailFields, filter, func(s *SubnetDetails) bool { return missing[s.ID] != nil })
		for _, s := range subnets {
			if n := missing[s.ID]; n != nil {
				n.SubnetDetails[s.ID] = s
				delete(missing, s.ID)
			}
		}
		return err
	}
	if err := attach(filter); err != nil {
		return err
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(missing)), maxFilterIDs) {
		if err := attach(url.Values{"id": ids}); err != nil {
			return err
		}
	}
	return nil
}

// readAllRouting adds the interfaces on the networks, and their routers, as far as the client can
// see them. The filter is for a list of the ports.
func (c *Client) readAllRouting(ctx context.Context, networks []*NetworkDetails, filter url.Values) error {
	ports, err := c.interfacesOn(ctx, networksOf(networks), filter)
	if err != nil {
		return err
	}
	routers, err := listByID[Router](ctx, c, "routers", routerFields, routersOn(ports, nil))
	if err != nil {
		return err
	}
	setInterfaces(networksOf(networks), ports)
	for _, n := range networks {
		n.Routers = slices.DeleteFunc(slices.Clone(routers), func(r Router) bool { return !n.hasInterfaceOf(r.ID) })
		slices.SortFunc(n.Routers, compareRouters)
	}
	return nil
}
