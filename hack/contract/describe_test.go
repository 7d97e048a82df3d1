// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// read are the fields of resources that clients read.
var read = map[string][]string{
	"network": {"id", "name", "description", "project_id", "tenant_id", "admin_state_up", "status", "mtu", "subnets", "shared",
		"router:external", "revision_number", "tags", "availability_zone_hints", "port_security_enabled", "dns_domain",
		"provider:network_type", "provider:physical_network", "provider:segmentation_id"},
	"subnet": {"id", "name", "description", "project_id", "network_id", "cidr", "ip_version", "gateway_ip", "allocation_pools",
		"enable_dhcp", "dns_nameservers", "host_routes", "ipv6_address_mode", "ipv6_ra_mode", "subnetpool_id", "revision_number", "tags"},
	"port": {"id", "name", "description", "project_id", "network_id", "fixed_ips", "device_owner", "device_id", "status",
		"admin_state_up", "revision_number", "tags"},
	"router": {"id", "name", "description", "project_id", "tenant_id", "admin_state_up", "status", "external_gateway_info", "routes",
		"revision_number", "tags", "availability_zone_hints"},
	"floatingip": {"id", "description", "project_id", "floating_network_id", "floating_ip_address", "router_id", "port_id",
		"fixed_ip_address", "status", "revision_number", "tags"},
	"extension": {"alias"},
	"token":     {"methods", "user", "project", "is_domain"},
	"version":   {"id", "status"},
}

// describe returns an answer as text for the comparison. Equal answers of two servers give
// the same text.
func (w *run) describe(s *step, resp *http.Response, raw []byte, body map[string]any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %d", resp.StatusCode)
	for _, name := range []string{"Content-Type", "Retry-After", "WWW-Authenticate", "Allow"} {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&b, " | %s: %s", name, v)
		}
	}
	b.WriteByte('\n')
	switch {
	case body == nil:
		if text := strings.TrimSpace(string(raw)); text != "" {
			fmt.Fprintf(&b, "    %q\n", text)
		}
	case body["NeutronError"] != nil:
		e := body["NeutronError"].(map[string]any)
		fmt.Fprintf(&b, "    %s: %s %v\n", e["type"], strings.ReplaceAll(fmt.Sprint(e["message"]), "\n", " "), e["detail"])
	default:
		w.describeBody(&b, s, body)
	}
	return w.normalise(s, b.String())
}

// describeBody writes the content of a body, key by key.
func (w *run) describeBody(b *strings.Builder, s *step, body map[string]any) {
	for _, key := range sortedKeys(body) {
		kind := strings.TrimSuffix(key, "s")
		switch v := body[key].(type) {
		case []any:
			fmt.Fprintf(b, "    %s: %d\n", key, len(v))
			var items []string
			for _, one := range v {
				items = append(items, "      "+w.describeItem(kind, one)+"\n")
			}
			// Without a sort_key the list is in the order of the IDs, which are random.
			if s.method == http.MethodGet && !strings.Contains(s.path, "sort_key") {
				slices.Sort(items)
			}
			b.WriteString(strings.Join(items, ""))
		default:
			fmt.Fprintf(b, "    %s: %s\n", key, w.describeItem(kind, v))
		}
	}
}

// describeItem returns one resource, or any other value, as JSON.
func (w *run) describeItem(kind string, v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return w.normalise(nil, compact(v))
	}
	if href, ok := m["href"].(string); ok {
		m["href"] = inOrder(href)
	}
	for name := range m {
		if fields := read[kind]; fields != nil && w.row.flag != "whole" && !slices.Contains(fields, name) {
			delete(m, name)
		}
	}
	// The database orders these by random IDs, or as text.
	for _, key := range []string{"subnets", "tags", "allocation_pools", "prefixes"} {
		if list, ok := m[key].([]any); ok {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(w.normalise(nil, compact(a)), w.normalise(nil, compact(b))) })
		}
	}
	return w.normalise(nil, compact(m))
}

// inOrder sorts the query of a link, because clients do not depend on its order. The marker
// is replaced in a list in the order of IDs, because these are random.
func inOrder(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return href
	}
	query := u.Query()
	if query.Has("marker") && !query.Has("sort_key") {
		query.Set("marker", "any")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

var (
	uuid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexID    = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	mac      = regexp.MustCompile(`\bfa:16:3e(:[0-9a-f]{2}){3}\b`)
	moment   = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address  = regexp.MustCompile(`("(?:floating_)?ip_address":)("[^"]*")`)
	hostName = regexp.MustCompile(`"host-[0-9-]+`) // from an address
	hostPort = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	// A Python set in a message has an arbitrary order.
	pythonSet = regexp.MustCompile(`\{'[^'{}]*'(, '[^'{}]*')*\}`)
	// A refused RBAC policy: which callbacks have refused it, and the numbers of these, and which kind of a policy a worker remembers.
	callbacks  = regexp.MustCompile(`(Callback \S+ failed with "[^"]*",?)+`)
	policyType = regexp.MustCompile(`(RBAC policy of type )(network|unknown)`)
	segment    = regexp.MustCompile(`("provider:segmentation_id":)(\d+)`)
)

// normalise replaces the values that differ from run to run.
func (w *run) normalise(s *step, text string) string {
	for label, id := range w.ids {
		text = strings.ReplaceAll(text, id, "$"+label)
	}
	for user, a := range w.accounts {
		text = strings.ReplaceAll(text, a.neutron, "$neutron/")
		text = strings.ReplaceAll(text, strings.TrimSuffix(a.v3auth, "/"), "$keystone")
		if user == "" {
			text = strings.ReplaceAll(text, a.password, "$password")
		}
	}
	text = strings.ReplaceAll(text, w.name, "NAME")
	text = uuid.ReplaceAllString(text, "<uuid>")
	text = hexID.ReplaceAllString(text, "<id>")
	text = mac.ReplaceAllString(text, "<mac>")
	text = moment.ReplaceAllString(text, "<time>")
	// Neutron picks random numbers and addresses.
	text = w.unlessGiven(text, segment, `<number>`)
	text = w.unlessGiven(text, address, `"<address>"`)
	text = hostName.ReplaceAllString(text, `"host-<address>`)
	text = callbacks.ReplaceAllString(text, "<callbacks>")
	text = policyType.ReplaceAllString(text, "$1<type>")
	text = hostPort.ReplaceAllString(text, "$$host")
	text = strings.ReplaceAll(text, "provider:physical_network, provider:network_type", "provider:network_type, provider:physical_network")
	return pythonSet.ReplaceAllStringFunc(text, func(set string) string {
		elements := strings.Split(strings.Trim(set, "{}"), ", ")
		slices.Sort(elements)
		return "{" + strings.Join(elements, ", ") + "}"
	})
}

// unlessGiven replaces the values of fields, except values that are in a request. The form has
// two groups: the name and the value.
func (w *run) unlessGiven(text string, form *regexp.Regexp, with string) string {
	return form.ReplaceAllStringFunc(text, func(found string) string {
		m := form.FindStringSubmatch(found)
		if w.row.gives(m[2]) {
			return found
		}
		return m[1] + with
	})
}

func compact(v any) string {
	b, _ := json.Marshal(v) // v was decoded from JSON
	return string(b)
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
