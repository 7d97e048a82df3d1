// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
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
	// Interfaces are those of each subnet.
	Interfaces map[string][]Interface
}

// Take returns a snapshot. get reads a path of Neutron's API, such as networks, and decodes the answer; its credentials are
// an administrator's, if there is more than one project. isHalf reports whether the port with that ID is half an interface;
// nil: none is.
func Take(get func(path string, answer any) error, isHalf func(port string) bool) (*Snapshot, error) {
	s := &Snapshot{Interfaces: map[string][]Interface{}}
	var errs [4]error
	s.Networks, errs[0] = all(get, "networks", networkFields, func(n Network) string { return n.ID })
	s.Subnets, errs[1] = all(get, "subnets", subnetFields, func(s Subnet) string { return s.ID })
	s.Routers, errs[2] = all(get, "routers", "id name description admin_state_up external_gateway_info", func(r Router) string { return r.ID })
	interfaces, err := all(get, "ports", "id device_id fixed_ips&device_owner=network:router_interface", func(i Interface) string { return i.PortID })
	errs[3] = err
	for _, i := range interfaces {
		i.Half = isHalf != nil && isHalf(i.PortID)
		for _, ip := range i.FixedIPs {
			s.Interfaces[ip.SubnetID] = append(s.Interfaces[ip.SubnetID], i)
		}
	}
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("look at Neutron: %w", err)
		}
	}
	return s, nil
}

// Most of the time goes into the answers, so only these fields are asked for.
const (
	networkFields = "id name description project_id router:external admin_state_up revision_number tags mtu dns_domain port_security_enabled"
	subnetFields  = "id name description network_id cidr gateway_ip dns_nameservers allocation_pools host_routes enable_dhcp ipv6_address_mode ipv6_ra_mode"
)

// all returns the items of a collection, with those fields.
func all[T any](get func(string, any) error, collection, fields string, id func(T) string) (map[string]T, error) {
	var answer map[string][]T
	if err := get(collection+"?fields="+strings.ReplaceAll(fields, " ", "&fields="), &answer); err != nil {
		return nil, err
	}
	byID := map[string]T{}
	for _, item := range answer[collection] {
		byID[id(item)] = item
	}
	return byID, nil
}

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
