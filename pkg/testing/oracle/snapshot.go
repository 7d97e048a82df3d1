// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// The objects of Neutron, as far as the oracle looks at them.
type (
	// Network is a network.
	Network struct {
		ID, Name, Description string
		ProjectID             string `json:"project_id"`
		External              bool   `json:"router:external"`
		Up                    bool   `json:"admin_state_up"`
		Revision              int    `json:"revision_number"`
		meaning.Network
	}
	// Router is a router.
	Router struct {
		ID, Name, Description string
		Up                    bool `json:"admin_state_up"`
		Gateway               struct {
			NetworkID string `json:"network_id"`
		} `json:"external_gateway_info"`
		ZoneHints []string `json:"availability_zone_hints"`
		Routes    []meaning.Route
	}
	// Share is an RBAC policy that shares a network with a project.
	Share struct {
		ID        string
		NetworkID string `json:"object_id"`
		Project   string `json:"target_tenant"`
		// Creator is the project that has created the policy, and Action is access_as_shared for one that matters here.
		Creator string `json:"project_id"`
		Action  string
	}
	// Subnet is a subnet.
	Subnet = subnets.Subnet
	// Interface is a port that joins a router to subnets.
	Interface struct {
		PortID   string `json:"id"`
		RouterID string `json:"device_id"`
		FixedIPs []struct {
			SubnetID string `json:"subnet_id"`
			Address  string `json:"ip_address"`
		} `json:"fixed_ips"`
		// Half: the port looks like an interface, but it is not attached to the router. Neutron's API does not show that.
		Half bool `json:"-"`
	}
)

// Snapshot is all that Neutron has at one moment, by ID.
type Snapshot struct {
	Networks map[string]Network
	Subnets  map[string]Subnet
	Routers  map[string]Router
	Shares   map[string]Share
	// Interfaces are those of each subnet, by their IDs.
	Interfaces map[string][]Interface
}

// Take returns a snapshot. get reads a path of Neutron's API, such as networks, and decodes the answer; its credentials are
// an administrator's, if there is more than one project. isHalf reports whether the port with that ID is half an interface;
// nil: none is.
func Take(get func(path string, answer any) error, isHalf func(port string) bool) (*Snapshot, error) {
	return (&Snapshot{}).Update(get, isHalf, func(string) bool { return true })
}

// Update returns a later snapshot. It is Take, but a collection for which hasChanged reports false is that of s.
func (s *Snapshot) Update(get func(path string, answer any) error, isHalf func(port string) bool, hasChanged func(collection string) bool) (*Snapshot, error) {
	next := *s
	var err error
	if hasChanged("networks") {
		if next.Networks, err = all(get, "networks", networkFields, func(n Network) string { return n.ID }); err != nil {
			return nil, err
		}
	}
	if hasChanged("subnets") {
		if next.Subnets, err = all(get, "subnets", subnetFields, func(s Subnet) string { return s.ID }); err != nil {
			return nil, err
		}
	}
	if hasChanged("routers") {
		if next.Routers, err = all(get, "routers", routerFields, func(r Router) string { return r.ID }); err != nil {
			return nil, err
		}
	}
	if hasChanged("rbac-policies") {
		if next.Shares, err = all(get, "rbac-policies", shareFields, func(s Share) string { return s.ID }); err != nil {
			return nil, err
		}
	}
	if hasChanged("ports") {
		interfaces, err := all(get, "ports", interfaceFields, func(i Interface) string { return i.PortID })
		if err != nil {
			return nil, err
		}
		next.Interfaces = map[string][]Interface{}
		for _, id := range slices.Sorted(maps.Keys(interfaces)) {
			i := interfaces[id]
			i.Half = isHalf != nil && isHalf(i.PortID)
			for _, ip := range i.FixedIPs {
				next.Interfaces[ip.SubnetID] = append(next.Interfaces[ip.SubnetID], i)
			}
		}
	}
	return &next, nil
}

// Most of the time goes into the answers, so only these fields are asked for.
const (
	networkFields = "id name description project_id router:external admin_state_up revision_number tags availability_zone_hints mtu dns_domain port_security_enabled"
	subnetFields  = "id name description network_id cidr gateway_ip dns_nameservers allocation_pools host_routes enable_dhcp ipv6_address_mode ipv6_ra_mode subnetpool_id"
	routerFields  = "id name description admin_state_up external_gateway_info availability_zone_hints routes"
	shareFields   = "id object_id target_tenant project_id action"
	// of the ports that are a router's interfaces
	interfaceFields = "id device_id fixed_ips&device_owner=network:router_interface"
)

// all returns the items of a collection, with those fields.
func all[T any](get func(string, any) error, collection, fields string, id func(T) string) (map[string]T, error) {
	var answer map[string][]T
	if err := get(collection+"?fields="+strings.ReplaceAll(fields, " ", "&fields="), &answer); err != nil {
		return nil, fmt.Errorf("look at Neutron: %w", err)
	}
	byID := map[string]T{}
	for _, item := range answer[strings.ReplaceAll(collection, "-", "_")] {
		byID[id(item)] = item
	}
	return byID, nil
}

// ShareOf returns the policy that shares the network with the project, if there is one.
func (s *Snapshot) ShareOf(network, project string) (Share, bool) {
	for _, share := range s.Shares {
		if share.isShared() && share.NetworkID == network && share.Project == project {
			return share, true
		}
	}
	return Share{}, false
}

// isShared reports whether the policy is for ports of one project.
func (s Share) isShared() bool { return s.Action == "access_as_shared" && s.Project != "*" }

// MarkOf returns the UID in the description, if it is a mark of the cluster; "" if it is none.
func MarkOf(cluster, description string) string {
	uid, isMarked := strings.CutPrefix(description, ownerMark+cluster+"/")
	if !isMarked || uuid.Validate(uid) != nil {
		return ""
	}
	return uid
}

// The beginnings of marks: of descriptions, and of the tags of imported networks.
const (
	ownerMark = "samplecrd.k8s.io/owner="
	importTag = "samplecrd-owner-"
)

// ImporterIn returns the UID in a tag that marks an imported network; "" if it marks none.
func ImporterIn(tag string) string {
	uid, isMark := strings.CutPrefix(tag, importTag)
	if length := len(uuid.Nil.String()); isMark && len(uid) >= length {
		return uid[:length]
	}
	return ""
}

// Importers returns the UIDs in the network's tags, the same ones in all clusters.
func (n *Network) Importers() (uids []string) {
	for _, tag := range n.Tags {
		if uid := ImporterIn(tag); uid != "" {
			uids = append(uids, uid)
		}
	}
	return uids
}

// isHeldOnlyBy reports whether the network has the mark of an import by that UID, and no other one.
func (n *Network) isHeldOnlyBy(uid string) bool {
	importers := n.Importers()
	return len(importers) > 0 && !slices.ContainsFunc(importers, func(other string) bool { return other != uid })
}

// count returns how many networks have the mark of that owner.
func (r *Rules) count(s *Snapshot, uid string) (count int) {
	for _, n := range s.Networks {
		if uid != "" && MarkOf(r.Cluster, n.Description) == uid {
			count++
		}
	}
	return count
}

// countRouters returns how many routers have the mark of that owner.
func (r *Rules) countRouters(s *Snapshot, uid string) (count int) {
	for _, router := range s.Routers {
		if uid != "" && MarkOf(r.Cluster, router.Description) == uid {
			count++
		}
	}
	return count
}

// IsOutdated reports whether Neutron refuses the request because its network has another revision than the header If-Match says.
func (s *Snapshot) IsOutdated(path, ifMatch string) bool {
	n, exists := s.Networks[strings.TrimPrefix(path, "networks/")]
	revision, isConditional := strings.CutPrefix(ifMatch, "revision_number=")
	return exists && isConditional && revision != strconv.Itoa(n.Revision)
}
