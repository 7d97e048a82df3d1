/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// newNeutron makes an empty network service with the options' quotas.
func newNeutron(o Options) *neutron {
	n := &neutron{
		now:       o.Now,
		pageLimit: o.PageLimit,
		mtu:       o.MTU,
		networks:  newCollection[*network](),
		subnets:   newCollection[*subnet](),
		ports:     newCollection[*port](),
		quotas:    map[string]map[string]int{},
	}
	for _, p := range o.Projects {
		n.quotas[p.ID] = maps.Clone(p.Quota)
	}
	n.resources = map[string]resource{
		"networks": n.networkKind(),
		"subnets":  n.subnetKind(),
		"ports":    n.portKind(),
	}
	return n
}

// serve answers an authenticated request under /networking.
func (n *neutron) serve(r *request) *answer {
	switch {
	// The real one serves nothing else either; v2 without .0 is a 404.
	case r.path[0] != "v2.0":
		return notFoundPath().answer()
	case len(r.path) == 1:
		return resourceList(r.base)
	}
	// Routers, floating IPs, security groups and the rest are unknown here: 404, as on a
	// cloud whose Neutron has no such plug-in.
	if k, ok := n.resources[r.path[1]]; ok {
		return k.serve(r)
	}
	switch rest := r.path[2:]; r.path[1] {
	case "extensions":
		return serveExtensions(r, rest)
	case "quotas":
		return n.serveQuotas(r, rest)
	}
	return notFoundPath().answer()
}

// networkVersions is the document of discovery; it is answered with 200, unlike Keystone's.
func networkVersions(base string) *answer {
	body, _ := json.Marshal(map[string]any{"versions": []any{map[string]any{
		"id": "v2.0", "status": "CURRENT",
		"links": []any{map[string]string{"rel": "self", "href": base + "/networking/v2.0/"}},
	}}})
	return jsonAnswer(http.StatusOK, body)
}

// resourceList is GET /v2.0/.
func resourceList(base string) *answer {
	var all []any
	for _, name := range []string{"network", "subnet", "port"} {
		all = append(all, map[string]any{"name": name, "collection": name + "s",
			"links": []any{map[string]string{"rel": "self", "href": base + "/networking/v2.0/" + name + "s"}}})
	}
	body, _ := json.Marshal(map[string]any{"resources": all})
	return jsonAnswer(http.StatusOK, body)
}

// extension is as /v2.0/extensions shows it. Clients go by the alias alone.
type extension struct {
	Alias       string   `json:"alias"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Updated     string   `json:"updated"`
	Links       []string `json:"links"`
}

// extensions are those of the real Neutron that are implemented here. It has more, of
// which a client of networks, subnets and ports meets nothing.
var extensions = func() []extension {
	var all []extension
	for _, e := range [][2]string{
		// Alias and name; the description repeats the name, and the date is any.
		{"availability_zone", "Availability Zone"},
		{"binding", "Port Binding"},
		{"empty-string-filtering", "Empty String Filtering Extension"},
		{"external-net", "Neutron external network"},
		{"filter-validation", "Filter parameters validation"},
		{"net-mtu", "Network MTU"},
		{"net-mtu-writable", "Network MTU (writable)"},
		{"network_availability_zone", "Network Availability Zone"},
		{"pagination", "Pagination support"},
		{"port-mac-override", "Port MAC address override"},
		{"project-id", "project_id field enabled"},
		{"provider", "Provider Network"},
		{"quotas", "Quota management support"},
		{"revision-if-match", "If-Match constraints based on revision_number"},
		{"sorting", "Sorting support"},
		{"standard-attr-description", "standard-attr-description"},
		{"standard-attr-revisions", "Resource revision numbers"},
		{"standard-attr-tag", "Tag support for resources with standard attribute"},
		{"standard-attr-timestamp", "Resource timestamps"},
		{"subnet-service-types", "Subnet service types"},
	} {
		all = append(all, extension{Alias: e[0], Name: e[1], Description: e[1], Updated: "2016-01-01T00:00:00-00:00", Links: []string{}})
	}
	return all
}()

func serveExtensions(r *request, rest []string) *answer {
	if r.Method != http.MethodGet {
		return methodNotAllowed(r.Method).answer()
	}
	if len(rest) == 0 {
		body, _ := json.Marshal(map[string]any{"extensions": extensions})
		return jsonAnswer(http.StatusOK, body)
	}
	i := slices.IndexFunc(extensions, func(e extension) bool { return e.Alias == rest[0] })
	if i < 0 || len(rest) > 1 {
		// Not as JSON: the framework's own answer.
		text := fmt.Sprintf("404 Not Found\n\nThe resource could not be found.\n\n Extension with alias %s does not exist", rest[0])
		return &answer{status: http.StatusNotFound, header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}, body: []byte(text)}
	}
	body, _ := json.Marshal(map[string]any{"extension": extensions[i]})
	return jsonAnswer(http.StatusOK, body)
}

// quotaNames are what the real Neutron counts with the ML2 plug-in alone. Only the
// first three exist here; the others can be set, and limit nothing.
var quotaNames = []string{"network", "subnet", "port", "subnetpool", "rbac_policy"}

// quota is a limit; what nobody set is unlimited.
func (n *neutron) quota(project, name string) int {
	if limit, ok := n.quotas[project][name]; ok {
		return limit
	}
	if name == "rbac_policy" {
		return 10 // Neutron's default; it counts nothing here
	}
	return -1
}

// checkQuota refuses a creation that would take a project over its quota. Unlike the
// real one it cannot be overshot by requests that race.
func (k *kind[T]) checkQuota(all []values) *failure {
	// A bulk create is counted whole: over the quota by one, none is made.
	more := map[string]int{}
	for _, v := range all {
		project := v.text("project_id", "")
		more[project]++
		if limit := k.quota(project, k.name); limit >= 0 && k.items.count[project]+more[project] > limit {
			return conflict("OverQuota", "Quota exceeded for resources: ['%s'].", k.name)
		}
	}
	return nil
}

// serveQuotas has a member look at the own quota only, and change none.
func (n *neutron) serveQuotas(r *request, rest []string) *answer {
	if len(rest) != 1 {
		return notFoundPath().answer()
	}
	project := rest[0]
	if r.Method == http.MethodGet {
		if project != r.caller.project && !r.caller.admin {
			return disallowed("get_quota").answer()
		}
		n.mu.RLock()
		defer n.mu.RUnlock()
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

// setQuota changes the limits that are sent. A limit below what is in use is taken: it only
// keeps more from being made.
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
	for _, name := range sortedKeys(sent) {
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
	body, _ := json.Marshal(map[string]any{"quota": limits})
	return jsonAnswer(http.StatusOK, body)
}
