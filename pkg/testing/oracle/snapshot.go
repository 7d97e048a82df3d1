// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
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
	interfaces map[string]Interface // by their IDs
}

// Versions has the version of each object, by the name of its collection and by its ID: a value that is another one after
// each change of the object.
type Versions map[string]map[string]any

// Take returns a snapshot. get reads a path of Neutron's API, such as networks, and decodes the answer; its credentials are
// an administrator's, if there is more than one project. isHalf reports whether the port with that ID is half an interface;
// nil: none is.
func Take(get func(path string, answer any) error, isHalf func(port string) bool) (*Snapshot, error) {
	return (&Snapshot{}).Update(get, isHalf, nil, nil)
}

// Update returns a later snapshot. It is Take, but reads only those objects that have another version now than s was made of.
// Without the versions of a collection, it reads all of it.
func (s *Snapshot) Update(get func(path string, answer any) error, isHalf func(port string) bool, was, now Versions) (*Snapshot, error) {
	var next Snapshot
	r := reader{get, was, now}
	if err := errors.Join(
		read(r, "networks", networkFields, s.Networks, &next.Networks, func(n Network) string { return n.ID }),
		read(r, "subnets", subnetFields, s.Subnets, &next.Subnets, func(s Subnet) string { return s.ID }),
		read(r, "routers", routerFields, s.Routers, &next.Routers, func(r Router) string { return r.ID }),
		read(r, "rbac-policies", shareFields, s.Shares, &next.Shares, func(s Share) string { return s.ID }),
		read(r, "ports", interfaceFields, s.interfaces, &next.interfaces, func(i Interface) string { return i.PortID }),
	); err != nil {
		return nil, err
	}
	next.Interfaces = map[string][]Interface{}
	for _, id := range slices.Sorted(maps.Keys(next.interfaces)) {
		i := next.interfaces[id]
		i.Half = isHalf != nil && isHalf(i.PortID)
		for _, ip := range i.FixedIPs {
			next.Interfaces[ip.SubnetID] = append(next.Interfaces[ip.SubnetID], i)
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

// reader reads what has another version now.
type reader struct {
	get      func(path string, answer any) error
	was, now Versions
}

// read sets next to the items of a collection, with those fields: what has changed is read, the rest is taken from last.
func read[T any](r reader, collection, fields string, last map[string]T, next *map[string]T, id func(T) string) error {
	query := collection + "?fields=" + strings.ReplaceAll(fields, " ", "&fields=")
	*next = map[string]T{}
	if now, isKnown := r.now[collection]; isKnown {
		var changed []string
		for key, version := range now {
			if item, ok := last[key]; r.was[collection][key] != version {
				changed = append(changed, key)
			} else if ok {
				(*next)[key] = item
			}
		}
		if len(changed) == 0 {
			return nil
		}
		query += "&id=" + strings.Join(changed, "&id=")
	}
	var answer map[string][]T
	if err := r.get(query, &answer); err != nil {
		return fmt.Errorf("look at Neutron: %w", err)
	}
	for _, item := range answer[strings.ReplaceAll(collection, "-", "_")] {
		(*next)[id(item)] = item
	}
	return nil
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
