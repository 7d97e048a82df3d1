// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"encoding/json"
	"net/netip"
)

// SubnetPool is a subnet pool in Neutron. A subnet pool is for one IP version, and while a subnet is from it,
// Neutron does not delete it.
type SubnetPool struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Version is the IP version: 4 or 6.
	Version int `json:"ip_version"`
	// Min and Max limit the prefix length of a subnet. Neutron writes them as texts.
	Min json.Number `json:"min_prefixlen"`
	Max json.Number `json:"max_prefixlen"`
	// Prefixes are all addresses of the pool: those that are taken, too.
	Prefixes []netip.Prefix `json:"prefixes"`

	// ProjectID is the ID of the project that the pool belongs to. Shared means that other projects can use it.
	ProjectID string `json:"project_id"`
	Shared    bool   `json:"shared"`
	// IsForeign means that another project has the pool for itself. Only an administrator can see it. It is found by its ID alone.
	IsForeign bool `json:"-"`
}

var subnetPoolFields = []string{"id", "name", "ip_version", "min_prefixlen", "max_prefixlen", "prefixes", "project_id", "shared"}

func (p SubnetPool) listed() (string, []string, []string) {
	return p.ID, []string{p.Name, p.Min.String(), p.Max.String(), p.ProjectID}, nil
}

// subnetPools lists the subnet pools that the client can see: those of its project, and those that are shared with all projects.
// An administrator sees those of all projects.
func (c *Client) subnetPools(ctx context.Context) ([]SubnetPool, error) {
	pools, err := list[SubnetPool](ctx, c, "subnetpools", subnetPoolFields, nil)
	place, ok := c.Place() // without a session, no pool is foreign
	for i := range pools {
		pools[i].IsForeign = ok && !pools[i].Shared && pools[i].ProjectID != place.Project
	}
	return pools, err
}
