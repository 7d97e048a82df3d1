// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"slices"
	"strings"
)

// rbacPolicy lets a project use a network of another one. Neutron has such policies for other objects too.
type rbacPolicy struct {
	standard  // only its ID and its project
	networkID string
	action    string
	target    string // the ID of a project, or everybody
}

func (p *rbacPolicy) parent() string { return p.networkID }

const (
	accessAsShared   = "access_as_shared"
	accessAsExternal = "access_as_external"
	everybody        = "*"
)

// rbacPolicyKind: only the project that has created a policy sees it, even if the network is another one's.
func (n *neutron) rbacPolicyKind() *kind[*rbacPolicy] {
	mine := func(c caller, o *rbacPolicy) bool { return c.admin || o.project == c.project }
	k := (&kind[*rbacPolicy]{
		neutron: n, title: "Rbac_policy", items: n.rbacPolicies, attrs: rbacPolicyAttributes(),
		visible: mine,
		owned:   mine,
		create:  createRBACPolicy,
		update:  updateRBACPolicy,
		remove:  removeRBACPolicy,
		copy:    func(o *rbacPolicy) *rbacPolicy { c := *o; return &c },
		forbid: func(v values, action string) *failure {
			if v["target_tenant"] == everybody {
				return disallowed(action, action+":object_type", action+":object_id", action+":target_tenant", action+":action")
			}
			return nil
		},
	}).init()
	k.plural, k.noPages = "rbac_policies", true
	return k
}

func rbacPolicyAttributes() []*attribute[*rbacPolicy] {
	project := func(p *rbacPolicy) any { return p.project }
	return []*attribute[*rbacPolicy]{
		{name: "id", flags: filter, get: func(p *rbacPolicy) any { return p.id }},
		{name: "object_type", flags: onPost | filter, check: checkObjectType, get: func(*rbacPolicy) any { return "network" }},
		{name: "object_id", flags: onPost | required | filter, check: checkUUID, get: func(p *rbacPolicy) any { return p.networkID }},
		{name: "target_tenant", flags: onPost | onPut | required | filter | folded, check: text(maxText), get: func(p *rbacPolicy) any { return p.target }},
		{name: "tenant_id", flags: onPost | filter, check: text(maxText), get: project},
		{name: "project_id", flags: onPost | filter, check: text(maxText), get: project},
		{name: "action", flags: onPost | required | filter, check: text(maxText), get: func(p *rbacPolicy) any { return p.action }},
	}
}

// checkObjectType accepts only networks: the other objects that have policies do not exist here.
func checkObjectType(_ string, v any) (any, *failure) {
	if s, ok := v.(string); ok && strings.EqualFold(strings.TrimSpace(s), "network") {
		return "network", nil
	}
	return nil, invalidInput("'%s' is not a valid RBAC object type", python(v))
}

func createRBACPolicy(t *tx, v values) (*rbacPolicy, *failure) {
	id := given(v, "object_id", "")
	n, err := seen[*network](t, "networks", id)
	if err != nil {
		return nil, invalidInput("%s", refusedBy(err.message))
	}
	if c := t.request.caller; !c.admin && n.project != c.project {
		return nil, invalidInput("%s", refusedBy("Only admins can manipulate policies on networks they do not own."))
	}
	return t.addPolicy(&rbacPolicy{
		standard: standard{id: t.newID(""), project: given(v, "project_id", "")}, networkID: id,
		action: given(v, "action", ""), target: given(v, "target_tenant", ""),
	})
}

// refusedBy returns Neutron's words for what one of its callbacks says.
func refusedBy(message string) string {
	return fmt.Sprintf("Callback neutron.plugins.ml2.plugin.NeutronDbPluginV2.validate_network_rbac_policy_change-1 failed with %q", message)
}

// addPolicy stores a policy that no other one is equal to.
func (t *tx) addPolicy(p *rbacPolicy) (*rbacPolicy, *failure) {
	if slices.ContainsFunc(t.rbacPolicies.in(p.networkID), func(o *rbacPolicy) bool {
		return o.id != p.id && o.action == p.action && fold(o.target) == fold(p.target)
	}) {
		return nil, conflict("DuplicateRbacPolicy", "An RBAC policy already exists with those values.")
	}
	store(t, t.rbacPolicies, p)
	t.applyPolicies(p.networkID)
	return p, nil
}

// applyPolicies stores with whom the network is shared now.
func (t *tx) applyPolicies(id string) {
	t.changeNetwork(id, func(n *network) {
		n.shared, n.sharedWith = false, nil
		for _, p := range t.rbacPolicies.in(id) {
			switch {
			case p.action == accessAsShared && p.target == everybody:
				n.shared = true
			case p.action == accessAsShared:
				n.sharedWith = append(n.sharedWith, p.target)
			}
		}
	})
}

func updateRBACPolicy(t *tx, old *rbacPolicy, v values) (*rbacPolicy, *failure) {
	p := *old
	p.target = given(v, "target_tenant", p.target)
	if p.target != old.target {
		if err := t.checkPolicy(old); err != nil {
			return nil, err
		}
	}
	return t.addPolicy(&p)
}

func removeRBACPolicy(t *tx, p *rbacPolicy) *failure {
	if err := t.checkPolicy(p); err != nil {
		return err
	}
	discard(t, t.rbacPolicies, p.id)
	t.applyPolicies(p.networkID)
	return nil
}

// checkPolicy refuses to take a policy away while the project that it is for has ports on the network, unless another policy lets it
// have them.
func (t *tx) checkPolicy(p *rbacPolicy) *failure {
	n := t.networks.byID[p.networkID]
	isLeft := func(project string) bool {
		switch {
		case p.action != accessAsShared || project == n.project:
			return false
		case p.target == everybody:
			return !slices.Contains(n.sharedWith, project)
		}
		return project == p.target && !n.shared
	}
	if slices.ContainsFunc(t.ports.in(n.id), func(o *port) bool { return isLeft(o.project) }) {
		return conflict("RbacPolicyInUse", "RBAC policy on object %s cannot be removed because other objects depend on it.\nDetails: %s",
			n.id, refusedBy("Unable to reconfigure sharing settings for network "+n.id+". Multiple tenants are using it."))
	}
	return nil
}

// setPolicy adds the policy for everybody with that action, or removes it, for the fields shared and router:external of a network.
func (t *tx) setPolicy(n *network, action string, isSet bool) {
	for _, p := range t.rbacPolicies.in(n.id) {
		if p.action == action && p.target == everybody {
			if !isSet {
				discard(t, t.rbacPolicies, p.id)
			}
			return
		}
	}
	if isSet {
		store(t, t.rbacPolicies, &rbacPolicy{standard: standard{id: t.newID(""), project: n.project}, networkID: n.id, action: action, target: everybody})
	}
}

// admits reports whether the project can use the network because of a policy.
func (n *network) admits(project string) bool {
	return n.shared || slices.Contains(n.sharedWith, project)
}
