// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// Share is the permission of a project to use a network of another project: an RBAC policy of Neutron.
type Share struct {
	// ID is "" for a policy that the client cannot see: only the project that has made a policy sees it, and administrators do.
	ID        string `json:"id"`
	NetworkID string `json:"object_id"`
	// ProjectID is the ID of the project that may use the network, and allProjects for all of them: those of the field shared.
	ProjectID string `json:"target_tenant"`
}

const (
	rbacPolicies = "rbac-policies"
	allProjects  = "*"
)

var shareFields = []string{"id", "object_id", "target_tenant"}

func (s Share) listed() (string, []string, []string) {
	return s.ID, []string{s.NetworkID, s.ProjectID}, nil
}

func compareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(a.ProjectID, b.ProjectID), cmp.Compare(a.ID, b.ID))
}

// share returns the permission of the project; nil if it has none.
func (n *Network) share(project string) *Share {
	return find(n.Shares, func(s *Share) bool { return s.ProjectID == project })
}

// readShares adds to the networks with which projects each is shared. The list is limited to these networks, unless there are more than
// maxFilterIDs. It fails if the client may not list them.
func (c *Client) readShares(ctx context.Context, networks ...*Network) error {
	if len(networks) == 0 {
		return nil
	}
	byID := make(map[string]*Network, len(networks))
	for _, n := range networks {
		byID[n.ID] = n
	}
	query := url.Values{"object_type": {"network"}, "action": {"access_as_shared"}}
	if len(networks) <= maxFilterIDs {
		query["object_id"] = slices.Sorted(maps.Keys(byID))
	}
	shares, err := listOnly(ctx, c, rbacPolicies, shareFields, query, func(s *Share) bool { return byID[s.NetworkID] != nil && s.ProjectID != allProjects })
	if err != nil {
		return err
	}
	for _, n := range networks {
		n.Shares, n.SharesKnown = nil, true
	}
	for _, s := range shares {
		byID[s.NetworkID].Shares = append(byID[s.NetworkID].Shares, s)
	}
	for _, n := range networks {
		slices.SortFunc(n.Shares, compareShares)
		n.Shares = slices.Compact(n.Shares) // a list can begin again
	}
	return nil
}

// createShare shares a network with a project. It fails with the kind duplicatePolicy if it is shared with it.
func (c *Client) createShare(ctx context.Context, network, project string) (Share, error) {
	return exchange[Share](ctx, c, http.MethodPost, object{
		"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": project,
	}, nil, rbacPolicies)
}

// deleteShare ends the sharing with a project. It fails with InUse if that project has ports on the network.
func (c *Client) deleteShare(ctx context.Context, id string) error {
	return c.delete(ctx, "end sharing", rbacPolicies, id, nil)
}
