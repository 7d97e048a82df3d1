// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// newNeutron returns an empty network service with the options' quotas.
func newNeutron(o Options) *neutron {
	n := &neutron{
		now:          o.Now,
		newID:        o.NewID,
		pageLimit:    o.PageLimit,
		mtu:          o.MTU,
		networks:     newCollection[*network](),
		subnets:      newCollection[*subnet](),
		ports:        newCollection[*port](),
		routers:      newCollection[*router](),
		floatingIPs:  newCollection[*floatingIP](),
		rbacPolicies: newCollection[*rbacPolicy](),
		subnetPools:  newCollection[*subnetPool](),
		quotas:       map[string]map[string]int{},
	}
	for _, p := range o.Projects {
		n.quotas[p.ID] = maps.Clone(p.Quota)
	}
	n.resources = map[string]resource{
		"networks":      n.networkKind(),
		"subnets":       n.subnetKind(),
		"ports":         n.portKind(),
		"routers":       n.routerKind(),
		"floatingips":   n.floatingIPKind(),
		"rbac-policies": n.rbacPolicyKind(),
		"subnetpools":   n.subnetPoolKind(),
	}
	n.addExternalNetwork(o)
	return n
}

// addExternalNetwork creates the external network of the options.
func (n *neutron) addExternalNetwork(o Options) {
	if o.ExternalNetwork == (ExternalNetwork{}) {
		return
	}
	project := o.Projects[slices.IndexFunc(o.Projects, func(p Project) bool { return p.Name == "admin" })].ID
	version := 4
	if o.ExternalNetwork.CIDR.Addr().Is6() {
		version = 6
	}
	err := n.write(&request{}, func(t *tx) *failure {
		network, err := createNetwork(t, values{"name": o.ExternalNetwork.Name, "project_id": project, "router:external": true})
		if err != nil {
			return err
		}
		_, err = createSubnet(t, values{"name": o.ExternalNetwork.Name, "project_id": project, "network_id": network.id,
			"ip_version": version, "cidr": o.ExternalNetwork.CIDR.Masked(), "enable_dhcp": false})
		return err
	})
	if err != nil {
		panic("embedded: the external network is refused: " + err.message)
	}
}

// serve answers an authenticated request under /networking.
func (n *neutron) serve(r *request) *answer {
	switch {
	// The real Neutron serves nothing else either; v2 without .0 is a 404.
	case r.path[0] != "v2.0":
		return notFoundPath().answer()
	case len(r.path) == 1:
		return resourceList(r.base + "/" + r.service)
	}
	// Security groups and other resources do not exist here: 404, as in a cloud whose Neutron
	// lacks those plug-ins.
	if k, ok := n.resources[r.path[1]]; ok {
		return k.serve(r)
	}
	switch rest := r.path[2:]; r.path[1] {
	case "extensions":
		return serveExtensions(r, rest)
	case "quotas":
		return n.serveQuotas(r, rest)
	case "availability_zones":
		return serveZones(r, rest)
	}
	return notFoundPath().answer()
}

// networkVersions is the version document of the Neutron at that URL. Unlike Keystone's it has
// status 200.
func networkVersions(base string) *answer {
	return jsonAnswer(http.StatusOK, map[string]any{"versions": []any{map[string]any{
		"id": "v2.0", "status": "CURRENT",
		"links": []any{map[string]string{"rel": "self", "href": base + "/v2.0/"}},
	}}})
}

// resourceList is GET /v2.0/.
func resourceList(base string) *answer {
	var all []any
	for _, name := range []string{"network", "subnet", "port", "router", "floatingip"} {
		all = append(all, map[string]any{"name": name, "collection": name + "s",
			"links": []any{map[string]string{"rel": "self", "href": base + "/v2.0/" + name + "s"}}})
	}
	return jsonAnswer(http.StatusOK, map[string]any{"resources": all})
}

// extensions are the real Neutron's extensions that are implemented here. It has more, but
// they do not affect a client of networks, subnets, ports and routers. Clients use only the alias.
var extensions = func() (all []map[string]any) {
	for _, e := range [][2]string{
		// Alias and name. The description repeats the name, and the date is arbitrary.
		{"availability_zone", "Availability Zone"},
		{"binding", "Port Binding"},
		{"dns-integration", "DNS Integration"},
		{"empty-string-filtering", "Empty String Filtering Extension"},
		{"ext-gw-mode", "Neutron L3 Configurable external gateway mode"},
		{"external-net", "Neutron external network"},
		{"extraroute", "Neutron Extra Route"},
		{"filter-validation", "Filter parameters validation"},
		{"l3-port-ip-change-not-allowed", "Prevent L3 router ports IP address change extension"},
		{"net-mtu", "Network MTU"},
		{"net-mtu-writable", "Network MTU (writable)"},
		{"network_availability_zone", "Network Availability Zone"},
		{"pagination", "Pagination support"},
		{"port-mac-override", "Port MAC address override"},
		{"port-security", "Port Security"},
		{"project-id", "project_id field enabled"},
		{"provider", "Provider Network"},
		{"quotas", "Quota management support"},
		{"quota_details", "Quota details management support"},
		{"rbac-policies", "RBAC Policies"},
		{"revision-if-match", "If-Match constraints based on revision_number"},
		{"router", "Neutron L3 Router"},
		{"router_availability_zone", "Router Availability Zone"},
		{"sorting", "Sorting support"},
		{"standard-attr-description", "standard-attr-description"},
		{"standard-attr-revisions", "Resource revision numbers"},
		{"standard-attr-tag", "Tag support for resources with standard attribute"},
		{"standard-attr-timestamp", "Resource timestamps"},
		{"subnet-service-types", "Subnet service types"},
		{"subnet_allocation", "Subnet Allocation"},
	} {
		all = append(all, map[string]any{"alias": e[0], "name": e[1], "description": e[1], "updated": "2016-01-01T00:00:00-00:00", "links": []string{}})
	}
	return all
}()

func serveExtensions(r *request, rest []string) *answer {
	if r.Method != http.MethodGet {
		return methodNotAllowed(r.Method).answer()
	}
	if len(rest) == 0 {
		return jsonAnswer(http.StatusOK, map[string]any{"extensions": extensions})
	}
	i := slices.IndexFunc(extensions, func(e map[string]any) bool { return e["alias"] == rest[0] })
	if i < 0 || len(rest) > 1 {
		// The framework's own answer, which is not JSON.
		text := fmt.Sprintf("404 Not Found\n\nThe resource could not be found.\n\n Extension with alias %s does not exist", rest[0])
		return &answer{status: http.StatusNotFound, header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}, body: []byte(text)}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"extension": extensions[i]})
}

// quotaNames are the resources that the real Neutron counts with the ML2 plug-in and the router
// service.
var quotaNames = []string{"network", "subnet", "port", "router", "floatingip", "subnetpool", "rbac_policy"}

// quota returns a project's limit; -1: unlimited, the default.
func (n *neutron) quota(project, name string) int {
	if limit, ok := n.quotas[project][name]; ok {
		return limit
	}
	return -1
}

// checkQuota refuses a creation that would exceed a project's quota. Unlike in the real
// Neutron, concurrent requests cannot exceed it together.
func (k *kind[T]) checkQuota(all []values) *failure {
	// A bulk create is counted as a whole: if one is over the quota, none is created.
	more := map[string]int{}
	for _, v := range all {
		project := given(v, "project_id", "")
		more[project]++
		if limit := k.quota(project, k.name); limit >= 0 && k.items.count[project]+more[project] > limit {
			return conflict("OverQuota", "Quota exceeded for resources: ['%s'].", k.name)
		}
	}
	return nil
}

// serveQuotas lets a member only read its own quota. An admin can read and change all.
func (n *neutron) serveQuotas(r *request, rest []string) *answer {
	isDetailed := len(rest) == 2 && strings.TrimSuffix(rest[1], ".json") == "details" && r.Method == http.MethodGet
	if len(rest) != 1 && !isDetailed {
		return notFoundPath().answer()
	}
	project := rest[0]
	if r.Method == http.MethodGet {
		isOthers := project != r.caller.project && !r.caller.admin
		if isOthers && isDetailed {
			return (&failure{http.StatusForbidden, "AdminRequired", "User does not have admin privileges: Only admin is authorized to access quotas for another project."}).answer()
		}
		if isOthers {
			return disallowed("get_quota").answer()
		}
		n.mu.RLock()
		defer n.mu.RUnlock()
		if isDetailed {
			return n.quotaDetails(project)
		}
		return n.quotaAnswer(project)
	}
	if !r.caller.admin {
		return disallowed(map[string]string{http.MethodPut: "update_quota", http.MethodDelete: "delete_quota"}[r.Method]).answer()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		if err := n.setQuota(project, r.body); err != nil {
			return err.answer()
		}
		return n.quotaAnswer(project)
	case http.MethodDelete:
		delete(n.quotas, project)
		return &answer{status: http.StatusNoContent}
	}
	return methodNotAllowed(r.Method).answer()
}

// setQuota changes the limits in the body. A limit below the current use is accepted: it
// only prevents further creations.
func (n *neutron) setQuota(project string, body []byte) *failure {
	root, err := decodeObject(body)
	if err != nil {
		return err
	}
	sent, ok := root["quota"].(map[string]any)
	if !ok {
		return badRequest("Unable to find 'quota' in request body")
	}
	limits := maps.Clone(n.quotas[project])
	if limits == nil {
		limits = map[string]int{}
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if !slices.Contains(quotaNames, name) {
			return badRequest("Unrecognized attribute(s) '%s'", name)
		}
		limit, err := integer(name, sent[name])
		if err != nil {
			return err
		}
		if limit.(int) < -1 {
			return badValue(name, fmt.Sprintf("'%d' is too small - must be at least '-1'", limit))
		}
		limits[name] = limit.(int)
	}
	n.quotas[project] = limits
	return nil
}

func (n *neutron) quotaAnswer(project string) *answer {
	limits := map[string]int{}
	for _, name := range quotaNames {
		limits[name] = n.quota(project, name)
	}
	return jsonAnswer(http.StatusOK, map[string]any{"quota": limits})
}

// quotaDetails is the answer of the extension quota_details: the limits, and what the project has.
func (n *neutron) quotaDetails(project string) *answer {
	used := map[string]int{
		"network": n.networks.count[project], "subnet": n.subnets.count[project], "port": n.ports.count[project],
		"router": n.routers.count[project], "floatingip": n.floatingIPs.count[project],
		"rbac_policy": n.rbacPolicies.count[project], "subnetpool": n.subnetPools.count[project],
	}
	details := map[string]any{}
	for _, name := range quotaNames {
		details[name] = map[string]int{"limit": n.quota(project, name), "used": used[name], "reserved": 0}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"quota": details})
}
