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
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilters(t *testing.T) {
	c := newClient(t)
	ids := map[string]string{}
	for _, n := range []struct{ name, description, tags string }{
		{"a", "mark-1", `"red"`},
		{"Case-Name", "", `"red","blue"`},
		{"c", "mark-2", ``},
	} {
		id := c.network(fmt.Sprintf(`"name":%q,"description":%q`, n.name, n.description))
		c.api("PUT", "networks/"+id+"/tags", `{"tags":[`+n.tags+`]}`).want(t, 200)
		ids[n.name] = id
	}
	for range 2 {
		c.api("PUT", "networks/"+ids["c"], `{"network":{"admin_state_up":false}}`).want(t, 200)
	}
	tests := []struct {
		name, query string
		want        []string
	}{
		{"by exact name", "name=a", []string{"a"}},
		{"by part of a name finds nothing", "name=Case", []string{}},
		{"by name regardless of case", "name=case-name", []string{"Case-Name"}},
		{"by name regardless of trailing blanks", "name=a%20%20", []string{"a"}},
		{"by name regardless of accents", "name=%C3%A1", []string{"a"}},
		{"by name, but not regardless of leading blanks", "name=%20a", []string{}},
		{"by description", "description=mark-1", []string{"a"}},
		{"by description regardless of case", "description=MARK-2", []string{"c"}},
		{"by an empty description", "description=", []string{"Case-Name"}},
		{"repeated means or", "name=a&name=c", []string{"a", "c"}},
		{"different ones mean and", "name=a&description=mark-2", []string{}},
		{"by ID", "id=" + ids["c"], []string{"c"}},
		{"by several IDs, one twice", "id=" + ids["c"] + "&id=" + ids["a"] + "&id=" + ids["a"], []string{"a", "c"}},
		{"by an ID and a name that do not fit", "id=" + ids["c"] + "&name=a", []string{}},
		{"by an unknown ID", "id=x", []string{}},
		{"by a boolean", "admin_state_up=False", []string{"c"}},
		{"by revision", "revision_number=3", []string{"c"}},
		{"by MTU", "mtu=1450", []string{"Case-Name", "a", "c"}},
		{"by status", "status=DOWN", []string{}},
		{"by project", "project_id=x", []string{}},
		{"by one tag", "tags=red", []string{"Case-Name", "a"}},
		{"by one tag regardless of case", "tags=RED", []string{"Case-Name", "a"}},
		{"by all tags", "tags=red,blue", []string{"Case-Name"}},
		{"by any tag", "tags-any=blue,green", []string{"Case-Name"}},
		{"by not all tags", "not-tags=red,blue", []string{"a", "c"}},
		{"by not any tag", "not-tags-any=red,blue", []string{"c"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := (&client{t, c.s, c.token}).names(tc.query)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListsAreRefused(t *testing.T) {
	c := newClient(t)
	tests := []struct {
		name, path    string
		status        int
		kind, message string
	}{
		{"for an unknown filter", "networks?x=1", 400, "HTTPBadRequest", "['x'] is invalid attribute for filtering"},
		{"for changed_since", "networks?changed_since=2026-01-01T00:00:00Z", 400, "HTTPBadRequest", "['changed_since'] is invalid attribute for filtering"},
		{"for created_at", "networks?created_at=x", 400, "HTTPBadRequest", "is invalid attribute for filtering"},
		{"for updated_at", "subnets?updated_at=x", 400, "HTTPBadRequest", "is invalid attribute for filtering"},
		{"for an invalid boolean", "networks?shared=x", 400, "InvalidInput", "'x' cannot be converted to boolean"},
		{"for a negative limit", "networks?limit=-1", 400, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '-1'."},
		{"for a limit that is not a number", "networks?limit=abc", 400, "BadRequest", "not 'abc'"},
		{"for an unknown marker", "networks?limit=1&marker=" + newUUID(), 404, "NetworkNotFound", ""},
		{"for sorting by created_at", "networks?sort_key=created_at&sort_dir=asc", 400, "HTTPBadRequest", "['created_at'] is invalid attribute for sort_keys"},
		{"for sorting by revision", "networks?sort_key=revision_number&sort_dir=asc", 400, "HTTPBadRequest", ""},
		{"for sorting without a direction", "networks?sort_key=name", 400, "HTTPBadRequest", "The number of sort_keys and sort_dirs must be same"},
		{"for an unknown direction", "networks?sort_key=name&sort_dir=up", 400, "HTTPBadRequest", "is invalid value for sort_dirs"},
		{"for a fixed_ips filter of another form", "ports?fixed_ips=10.0.0.1", 400, "InvalidInput", "is not of the form <key>=[value]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { c.api("GET", tc.path, "").refused(t, tc.status, tc.kind, tc.message) })
	}
}

func TestFields(t *testing.T) {
	c := newClient(t)
	id := c.network(`"name":"a"`)
	want := map[string]any{"id": id, "name": "a"}
	list := c.api("GET", "networks?fields=id&fields=name&fields=unknown", "").json["networks"].([]any)
	if diff := cmp.Diff([]any{want}, list); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, c.api("GET", "networks/"+id+"?fields=id&fields=name", "").json["network"]); diff != "" {
		t.Error(diff)
	}
	if n := c.api("GET", "networks/"+id+"?fields=", "").json["network"].(map[string]any); len(n) > 0 {
		t.Errorf("an empty field selects no attribute, got %v", n)
	}
}

func TestSorting(t *testing.T) {
	c := newClient(t)
	for _, n := range []string{"b", "a", "C"} {
		c.network(`"name":"` + n + `"`)
	}
	for query, want := range map[string][]string{
		"sort_key=name&sort_dir=asc":                               {"a", "b", "C"},
		"sort_key=name&sort_dir=desc":                              {"C", "b", "a"},
		"sort_key=status&sort_key=name&sort_dir=asc&sort_dir=desc": {"C", "b", "a"},
		"sort_key=name&sort_dir=desc&limit=2":                      {"C", "b"},
		"sort_key=name&sort_dir=asc&limit=2&page_reverse=1":        {"a", "b"}, // only "true" reverses the page
		"sort_key=name&sort_dir=asc&limit=2&page_reverse=TRUE":     {"b", "C"},
	} {
		if diff := cmp.Diff(want, c.names(query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

// pages follows the links of one rel through a list, and returns the names of each page.
func pages(t *testing.T, c *client, path, rel string, most int) [][]string {
	t.Helper()
	var all [][]string
	for range most {
		r := c.do("GET", path, "")
		r.want(t, 200)
		var names []string
		for _, n := range r.json["networks"].([]any) {
			names = append(names, n.(map[string]any)["name"].(string))
		}
		all = append(all, names)
		path = ""
		links, _ := r.json["networks_links"].([]any)
		for _, l := range links {
			if l := l.(map[string]any); l["rel"] == rel {
				u, err := url.Parse(l["href"].(string))
				if err != nil || !strings.HasPrefix(l["href"].(string), c.s.URL()) {
					t.Fatalf("link %v, %v", l, err)
				}
				path = u.RequestURI()
			}
		}
		if path == "" {
			return all
		}
	}
	return all
}

func TestPaging(t *testing.T) {
	c := newClient(t)
	for _, n := range []string{"1", "2", "3", "4"} {
		c.network(`"name":"` + n + `","description":"d"`)
	}
	c.network(`"name":"other"`)
	const list = "/networking/v2.0/networks?sort_key=name&sort_dir=asc&description=d"
	tests := []struct {
		name, path, rel string
		want            [][]string
	}{
		{"a short last page has no next one", list + "&limit=3", "next", [][]string{{"1", "2", "3"}, {"4"}}},
		{"a full last page has a next one, which is empty", list + "&limit=2", "next", [][]string{{"1", "2"}, {"3", "4"}, nil}},
		{"backwards from the end, in the order of the list", list + "&limit=3&page_reverse=True", "previous", [][]string{{"2", "3", "4"}, {"1"}}},
		{"without a limit there are no links", list, "next", [][]string{{"1", "2", "3", "4"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pages(t, c, tc.path, tc.rel, 5)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if first := c.api("GET", "networks?limit=2", ""); len(first.json["networks_links"].([]any)) != 2 {
		t.Errorf("the first page has no link to a previous one: %s", first.raw)
	}
}

func TestPagesInTheOrderOfIDsHoldEverythingOnce(t *testing.T) {
	s := start(t, Options{PageLimit: 3})
	c := as(t, s, "samplecrd")
	want := []string{}
	for i := range 10 {
		c.network(fmt.Sprintf(`"name":"%d"`, i))
		want = append(want, fmt.Sprint(i))
	}
	for _, rel := range []string{"next", "previous"} {
		path := "/networking/v2.0/networks?limit=1000"
		if rel == "previous" {
			path += "&page_reverse=True"
		}
		got := slices.Concat(pages(t, c, path, rel, 9)...)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", rel, diff)
		}
	}
	if all := c.names(""); len(all) != 3 {
		t.Errorf("the page limit left %d networks in an unlimited list, want 3", len(all))
	}
}

func TestSubnetsAndPortsAreListedByNetwork(t *testing.T) {
	c := newClient(t)
	a, b := c.network(""), c.network("")
	sub := c.subnet(a, "10.0.0.0/24")
	c.subnet(b, "10.0.0.0/24")
	port := c.port(a, "")
	c.port(b, "")
	for query, want := range map[string]int{
		"subnets?network_id=" + a: 1, "subnets?network_id=" + a + "&network_id=" + b: 2, "subnets?cidr=10.0.0.0/24": 2,
		"subnets?network_id=" + a + "&name=x": 0, "subnets?network_id=" + newUUID(): 0, "ports?network_id=" + a: 1,
		"ports?fixed_ips=subnet_id=" + sub: 1, "ports?fixed_ips=ip_address=10.0.0.2": 2,
		"ports?fixed_ips=ip_address=10.0.0.2&fixed_ips=subnet_id=" + sub: 1, "ports?mac_address=" + port["mac_address"].(string): 1,
		"subnets?id=" + sub + "&network_id=" + b: 0,
	} {
		collection, _, _ := strings.Cut(query, "?")
		if got := c.api("GET", query, ""); len(got.json[collection].([]any)) != want {
			t.Errorf("%s: %s, want %d", query, got.raw, want)
		}
	}
}

// With 50,000 networks a page by ID, a get and a search for a description must be fast,
// because the controller does them all the time.
func BenchmarkFiftyThousandNetworks(b *testing.B) {
	s := New(Options{Projects: []Project{{Name: "samplecrd", ID: "p"}}})
	k := s.neutron.resources["networks"].(*kind[*network])
	var marker string
	for i := range 50_000 {
		_ = s.neutron.write(&request{}, func(t *tx) *failure {
			n, err := k.create(t, values{"name": fmt.Sprint(i), "description": fmt.Sprintf("mark %d", i), "project_id": "p"})
			marker = n.id
			return err
		})
	}
	me := caller{project: "p"}
	for name, l := range map[string]*listing[*network]{
		"page":        {caller: me, limit: 500, marker: marker, reverse: true},
		"id":          {caller: me, ids: []string{marker}},
		"description": {caller: me, match: []func(*network) bool{must(k.index["description"].filter([]string{"mark 7"}))}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if found, err := k.run(l); err != nil || len(found) == 0 {
					b.Fatal(err, len(found))
				}
			}
		})
	}
}

func must[T any](v T, err *failure) T {
	if err != nil {
		panic(err.message)
	}
	return v
}
