// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
)

// Network is the observed state of a network in Neutron, with the fields that the controller
// uses. The zero Network means that there is none. Networks are shared: copy one to change it.
type Network struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MTU         int    `json:"mtu"`
	// A cloud without the extension of a field does not show it.
	PortSecurityEnabled bool   `json:"port_security_enabled"`
	DNSDomain           string `json:"dns_domain"`
	Shared              bool   `json:"shared"`
	External            bool   `json:"router:external"`
	// AdminDown means that somebody has switched the network off.
	AdminDown adminDown `json:"admin_state_up"`
	// Only administrators see these three.
	NetworkType     string `json:"provider:network_type"`
	PhysicalNetwork string `json:"provider:physical_network"`
	SegmentationID  int    `json:"provider:segmentation_id"`
	Tags            Tags   `json:"tags"`
	ZoneHints       Tags   `json:"availability_zone_hints"`
	// ProjectID is the ID of the project that has the network. A list of the networks of one project
	// does not ask for it.
	ProjectID string `json:"project_id"`
	// Revision is incremented by Neutron at each change of the network or its subnets. It is nil
	// after an own change if the new value is not known.
	Revision *int `json:"revision_number"`

	// IsForeign means that the network belongs to another project than the client's.
	IsForeign bool `json:"-"`

	// Subnets are all subnets of the network, including unmanaged ones, ordered by ID.
	Subnets []Subnet `json:"-"`

	// Shares are the permissions of single projects to use the network, given by anybody, ordered by project. SharesKnown means
	// that they were read: they are, if a Network declares some.
	Shares      []Share `json:"-"`
	SharesKnown bool    `json:"-"`

	// Interfaces are all connections of the subnets to routers, including those that the owner
	// does not manage. See Observed.RoutersKnown.
	Interfaces []Interface `json:"-"`
}

// Subnet is the observed state of a subnet in Neutron.
type Subnet struct {
	ID          string       `json:"id"`
	NetworkID   string       `json:"network_id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	CIDR        netip.Prefix `json:"cidr"`
	// Gateway is the zero Addr if the subnet has none.
	Gateway        netip.Addr `json:"gateway_ip"`
	Pools          Pools      `json:"allocation_pools"`
	DNSNameservers Addresses  `json:"dns_nameservers"`
	Routes         Routes     `json:"host_routes"`
	DHCP           bool       `json:"enable_dhcp"`
	AddressMode    string     `json:"ipv6_address_mode"`
	RAMode         string     `json:"ipv6_ra_mode"`
	Revision       *int       `json:"revision_number"`
	// PoolID is the ID of the subnet pool that the CIDR is from, "" if it is from none.
	PoolID string `json:"subnetpool_id"`
}

// adminDown is the opposite of Neutron's admin_state_up, so that the zero value is the usual state.
type adminDown bool

// UnmarshalJSON reads Neutron's admin_state_up.
func (a *adminDown) UnmarshalJSON(text []byte) error {
	isUp := true
	err := json.Unmarshal(text, &isUp)
	*a = adminDown(!isUp)
	return err
}

// Exists reports whether there is a network.
func (n *Network) Exists() bool { return n.ID != "" }

func byID(a, b *Network) int { return cmp.Compare(a.ID, b.ID) }

// sortSubnets orders the subnets by ID, and removes those that are there twice: a list of subnets
// begins again, without an error, if its marker was deleted meanwhile.
func (n *Network) sortSubnets() {
	slices.SortFunc(n.Subnets, func(a, b Subnet) int { return cmp.Compare(a.ID, b.ID) })
	n.Subnets = slices.CompactFunc(n.Subnets, func(a, b Subnet) bool { return a.ID == b.ID })
}

// subnet returns the subnet with that ID, or nil if there is none.
func (n *Network) subnet(id string) *Subnet {
	return find(n.Subnets, func(s *Subnet) bool { return s.ID == id })
}

// find returns the first of the items for which isMeant is true; nil if there is none.
func find[T any](items []T, isMeant func(*T) bool) *T {
	for i := range items {
		if isMeant(&items[i]) {
			return &items[i]
		}
	}
	return nil
}

// hasInterfaceOf reports whether a subnet of the network is attached to the router with that ID.
func (n *Network) hasInterfaceOf(router string) bool {
	return slices.ContainsFunc(n.Interfaces, func(i Interface) bool { return i.RouterID == router })
}

// copyRead copies what Neutron's answer to a change of the network does not contain.
func (n *Network) copyRead(from *Network) {
	n.Subnets, n.Interfaces, n.Shares, n.SharesKnown = from.Subnets, from.Interfaces, from.Shares, from.SharesKnown
}
