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

package neutron

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// makeNetworks creates n networks with a subnet each, and returns their IDs in order.
func makeNetworks(t *testing.T, c *Client, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		network, err := c.CreateNetwork(t.Context(), creating(fmt.Sprint("net-", i)))
		noError(t, err)
		_, err = c.CreateSubnet(t.Context(), network.ID, creates(fmt.Sprintf("10.%d.0.0/16", i), ""))
		noError(t, err)
		ids = append(ids, network.ID)
	}
	slices.Sort(ids)
	return ids
}

// makeNetwork creates a network with that description, which the plan could not create.
func makeNetwork(t *testing.T, c *Client, name, description string) Network {
	t.Helper()
	var answer answer
	noError(t, c.send(t.Context(), http.MethodPost, object{"network": object{"name": name, "description": description}}, &answer, nil, "networks"))
	return answer.Network
}

// makePort creates a port on the network and returns its ID.
func makePort(t *testing.T, c *Client, networkID, name, deviceOwner string) string {
	t.Helper()
	service, err := c.connect(t.Context())
	noError(t, err)
	port, err := ports.Create(t.Context(), service, ports.CreateOpts{NetworkID: networkID, Name: name, DeviceOwner: deviceOwner}).Extract()
	noError(t, err)
	return port.ID
}

func idsOf(networks []*Network) []string {
	var ids []string
	for _, n := range networks {
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	return ids
}

// requests returns the requests to the lab so far.
func (l *lab) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.served)
}

// queries returns a function that returns the queries of the requests for the collection.
func queries(l *lab, collection string) func() []url.Values {
	var mu sync.Mutex
	var seen []url.Values
	l.Observe(func(r embedded.Request) {
		if r.Path == "v2.0/"+collection {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Query)
		}
	})
	return func() []url.Values {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func TestAListFollowsAllPages(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int
		pages int
	}{
		{"the server's limit cuts every page short", 3, 3},
		{"the last page is full", 7, 2},
		{"there is one page", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{PageLimit: test.limit})
			c := l.client(t)
			ids := makeNetworks(t, c, 7)
			asked := queries(l, "networks")
			got, err := c.ListNetworks(t.Context())
			noError(t, err)
			equal(t, ids, idsOf(got))
			for _, n := range got {
				if len(n.Subnets) != 1 || n.Subnets[0].NetworkID != n.ID {
					t.Errorf("network %s has the subnets %+v", n.ID, n.Subnets)
				}
			}
			equal(t, test.pages, len(asked()))
		})
	}
}

func TestAListRequestsOnlyTheFieldsItNeeds(t *testing.T) {
	l := newLab(t, embedded.Options{})
	networkQueries := queries(l, "networks")
	_, err := l.client(t).ListNetworks(t.Context())
	noError(t, err)
	equal(t, []url.Values{{
		"fields": {"name", "description", "mtu", "port_security_enabled", "dns_domain", "shared", "router:external",
			"provider:network_type", "provider:physical_network", "provider:segmentation_id", "id", "tags", "admin_state_up", "revision_number", "subnets"},
		"limit":      {"1000"},
		"project_id": {"project-1"},
	}}, networkQueries())
	equal(t, 0, l.count("GET "+subnetsPath))
}

func TestAListContinuesFromItsLastItem(t *testing.T) {
	l := newLab(t, embedded.Options{})
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == subnetsPath:
			return reply(w, 200, `{"subnets": []}`)
		case r.URL.Path != networksPath:
			return false
		case r.URL.Query().Get("marker") == "":
			// Behind a proxy, perhaps only the cloud itself can reach the URL.
			return reply(w, 200, `{"networks": [{"id": "a"}, {"id": "b"}], "networks_links": [{"rel": "next", "href": "http://10.255.255.1/v2.0/networks?marker=b"}]}`)
		case r.URL.Query().Get("marker") == "b":
			return reply(w, 200, `{"networks": [{"id": "c"}], "networks_links": [{"rel": "previous", "href": "http://10.255.255.1/v2.0/networks?marker=c"}]}`)
		}
		return reply(w, 400, "")
	})
	got, err := l.client(t).ListNetworks(t.Context())
	noError(t, err)
	equal(t, []string{"a", "b", "c"}, idsOf(got))
}

func TestAPageThatFailsFailsTheList(t *testing.T) {
	for _, path := range []string{networksPath, subnetsPath} {
		t.Run(path, func(t *testing.T) {
			l := newLab(t, embedded.Options{PageLimit: 2})
			c := l.client(t)
			makeNetworks(t, c, 3)
			l.answer(func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == path && r.URL.Query().Has("marker") && reply(w, 500, "")
			})
			_, err := c.ListNetworks(t.Context())
			wantError(t, Error{Op: "list " + path[len("/networking/v2.0/"):], Reason: Unavailable, Message: "500 Internal Server Error"}, err)
			_, err = c.FindNetworks(t.Context(), owner.Mark())
			equal(t, Unavailable, ReasonOf(err))
		})
	}
}

func TestWhatIsNotAListNeverPassesForAnEmptyOne(t *testing.T) {
	for _, test := range []struct{ name, body string }{
		{"an empty object", `{}`},
		{"null instead of the list", `{"networks": null}`},
		{"null", `null`},
		{"an object instead of the list", `{"networks": {}}`},
		{"a list without its key", `[]`},
		{"a list of something else", `{"subnets": []}`},
		{"a network that is a number", `{"networks": [1]}`},
		{"links that are an object", `{"networks": [], "networks_links": {}}`},
		{"an error with a good status", `{"NeutronError": {"type": "x", "message": "y"}}`},
		{"the page of a proxy", `<html>Please log in</html>`},
		{"half an answer", `{"networks": [`},
		{"an answer that ends after an item", `{"networks": [{"id": "a"}`},
		{"an answer that ends within an item", `{"networks": [{"id": "a"}, {"id": "b"`},
		{"an answer that ends after the list", `{"networks": [{"id": "a"}]`},
		{"an item that is not JSON", `{"networks": [{"id": "a"}, {"id" "b"}]}`},
		{"no comma between the items", `{"networks": [{"id": "a"} {"id": "b"}]}`},
		{"a comma after the last item", `{"networks": [{"id": "a"},]}`},
		{"a list that is closed as an object", `{"networks": [{"id": "a"}}}`},
		{"an item that is null", `{"networks": [{"id": "a"}, null]}`},
		{"an item of another type", `{"networks": [{"id": "a"}, {"id": "b", "mtu": "x"}]}`},
		{"the list twice", `{"networks": [{"id": "a"}], "networks": []}`},
		{"the list, and null", `{"networks": [{"id": "a"}], "networks": null}`},
		{"null, and the list", `{"networks": null, "networks": [{"id": "a"}]}`},
		{"links of another type", `{"networks": [{"id": "a"}], "networks_links": [{"rel": 1}]}`},
		{"links that are not JSON", `{"networks": [{"id": "a"}], "networks_links": [}`},
		{"another member that is not JSON", `{"networks": [{"id": "a"}], "x": y}`},
		{"something after it", `{"networks": [{"id": "a"}]} x`},
		{"one more bracket", `{"networks": [{"id": "a"}]}}`},
		{"two answers", `{"networks": [{"id": "a"}]}{"networks": []}`},
		{"a list in a list", `{"networks": [[{"id": "a"}]]}`},
		{"a list one level below", `{"x": {"networks": [{"id": "a"}]}}`},
		{"lists in lists without end", `{"networks": ` + strings.Repeat("[", 20_000)},
		{"objects in objects without end", `{"networks": [{"id": "a", "x": ` + strings.Repeat(`{"x":`, 11_000)},
		{"nothing", ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			l.answer(replyTo("GET", networksPath, 200, test.body))
			c := l.client(t)
			got, err := c.ListNetworks(t.Context())
			if len(got) != 0 || ReasonOf(err) != Unavailable {
				t.Errorf("ListNetworks: got %d networks and the error %v", len(got), err)
			}
			got, err = c.FindNetworks(t.Context(), owner.Mark())
			if len(got) != 0 || ReasonOf(err) != Unavailable {
				t.Errorf("FindNetworks: got %d networks and the error %v", len(got), err)
			}
		})
	}
}

func TestOtherMembersOfAPageAreIgnored(t *testing.T) {
	for _, test := range []struct{ name, body string }{
		{"as Neutron writes it", `{"networks": [{"id": "a"}, {"id": "b"}], "networks_links": [{"rel": "next", "href": "x"}]}`},
		{"the links first", `{"networks_links": [{"rel": "next", "href": "x"}], "networks": [{"id": "a"}, {"id": "b"}]}`},
		{"other members", `{"a": null, "b": [{"networks": []}, 1], "networks": [{"id": "a", "x": {"id": "y"}}, {"x": [1], "id": "b"}], "c": {"d": "}"}, "networks_links": [{"rel": "next", "href": "x"}]}`},
		{"blanks", "\r\n{ \"networks\" :\t[ {\"id\": \"a\"} , {\"id\": \"b\"} ] , \"networks_links\" : [ { \"rel\" : \"next\", \"href\" : \"x\" } ] }\r\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := clientOf(pages{"networks ": test.body, "networks b": `{"networks": [{"id": "c"}]}`, "subnets ": `{"subnets": []}`}).ListNetworks(t.Context())
			noError(t, err)
			equal(t, []string{"a", "b", "c"}, idsOf(got))
		})
	}
}

func TestAListThatHasNoEndIsAnError(t *testing.T) {
	for _, test := range []struct {
		name string
		page func(n int) string // from 0
		want string
		most int // pages
	}{
		{"every page has something new", func(n int) string { return fmt.Sprintf(`{"id": "n%d"}`, n) }, "the list has no end", maxSmallPages},
		{"the pages repeat in a circle", func(n int) string { return fmt.Sprintf(`{"id": "n%d"}`, n%3) }, "the list has no end", maxSmallPages},
		{"the pages are the same", func(int) string { return `{"id": "n"}` }, "every page is the same", 2},
		{"the pages are as long as possible", func(n int) string {
			return strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"id": "n%d"},`, n), 20_000), ",")
		}, "too much to keep", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			pages := 0
			got, err := clientOf(roundTripper(func(r *http.Request) (*http.Response, error) {
				pages++
				return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(`{"networks": [` + test.page(pages-1) + `],
					"networks_links": [{"rel": "next", "href": "http://127.0.0.1:1/v2.0/networks?marker=x"}]}`))}, nil
			})).ListNetworks(t.Context())
			if len(got) != 0 || ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d networks and the error %v, want %q in it", len(got), err, test.want)
			}
			if pages > test.most {
				t.Errorf("%d pages were read", pages)
			}
		})
	}
}

func TestWhatCannotBeNeutronsIsRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, test := range []struct{ name, body, want string }{
		{"no ID", `{"name": "n"}`, "without an ID"},
		{"an ID that leads elsewhere", `{"id": "../../identity/v3/users/x"}`, "without an ID"},
		{"an ID that is two dots", `{"id": ".."}`, "without an ID"},
		{"an ID with a query", `{"id": "x?force=true"}`, "without an ID"},
		{"an ID with a fragment", `{"id": "x#"}`, "without an ID"},
		{"an ID that is encoded", `{"id": "%2e%2e%2fx"}`, "without an ID"},
		{"an ID with a line end", `{"id": "x\r\ny"}`, "without an ID"},
		{"an ID that is long", `{"id": "` + long + `"}`, "without an ID"},
		{"a name that is long", `{"id": "x", "name": "` + long + `"}`, "longer than any"},
		{"a description that is long", `{"id": "x", "description": "` + long + `"}`, "longer than any"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			c := l.client(t)
			l.answer(replyTo("GET", networksPath, 200, `{"networks": [`+test.body+`]}`))
			got, err := c.ListNetworks(t.Context())
			if len(got) != 0 || ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d networks and the error %v, want %q in it", len(got), err, test.want)
			}
		})
	}
}

func TestASubnetThatCannotBeNeutronsIsRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, test := range []struct{ name, members, want string }{
		{"a network's ID that is long", `"network_id": "` + long + `"`, "longer than any"},
		{"a name that is long", `"name": "` + long + `"`, "longer than any"},
		{"a gateway with a long zone", `"gateway_ip": "fe80::1%` + long + `"`, "longer than any"},
		{"a gateway that is not an address", `"gateway_ip": "` + strings.Repeat(long, 10) + `"`, "invalid list of subnets"},
		{"a CIDR that is not a prefix", `"cidr": "` + strings.Repeat(long, 10) + `"`, "invalid list of subnets"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := clientOf(pages{"networks ": `{"networks": [{"id": "a"}]}`, "subnets ": `{"subnets": [{"id": "s", ` + test.members + `}]}`}).ListNetworks(t.Context())
			checkMessage(t, err)
			if ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want %q in it", err, test.want)
			}
			// The error must not retain the answer.
			for ; err != nil; err = errors.Unwrap(err) {
				if len(err.Error()) > 2*maxMessage {
					t.Errorf("the error %T holds %d bytes", err, len(err.Error()))
				}
			}
		})
	}
}

func TestAStatusThatSomebodyHasWrittenLeadsNowhereElse(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	_, err := c.connect(t.Context())
	noError(t, err)
	before := len(l.requests())
	for _, id := range []string{"..", "../../v2.0/subnets/x", "x/../y", "x?fields=id", "x#y", "%2e%2e", "x y", "", "-", strings.Repeat("x", 65)} {
		_, err := c.GetNetwork(t.Context(), id)
		equal(t, NotFound, ReasonOf(err))
	}
	equal(t, before, len(l.requests()))
	_, err = c.GetNetwork(t.Context(), "0a85c3e1-eb5c-4133-b676-3c110cdd7132")
	equal(t, NotFound, ReasonOf(err))
	equal(t, before+1, len(l.requests()))
}

func TestPrintableTextIsOneShortLine(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"the usual", "Quota exceeded for resources: ['network'].", "Quota exceeded for resources: ['network']."},
		{"other scripts", "сеть 网络 réseau", "сеть 网络 réseau"},
		{"a sequence that moves the cursor", "web\x1b[2J\x1b[H-0", "web [2J [H-0"},
		{"lines that look like the log", "web\nI1121 12:00:00.000000 1 main.go:1] all is well\r", "web I1121 12:00:00.000000 1 main.go:1] all is well "},
		{"marks of direction", "a\u202eb\u2066c", "a b c"},
		{"a character that is split by the cut", strings.Repeat("x", maxMessage-1) + "é", strings.Repeat("x", maxMessage-1)},
		{"bytes that are not UTF-8", "a\xffb", "a\ufffdb"},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, test.want, Printable(test.text)) })
	}
	text := inUseBy([]Port{{ID: "i", Name: "a\x1b[2Jb\nc", DeviceOwner: strings.Repeat("é", maxText)}})
	if strings.ContainsAny(text, "\x1b\n") || len(text) > maxMessage {
		t.Errorf("got %q", text)
	}
}

func TestAnEmptyListIsAnEmptyList(t *testing.T) {
	c := newLab(t, embedded.Options{}).client(t)
	got, err := c.ListNetworks(t.Context())
	noError(t, err)
	equal(t, 0, len(got))
	got, err = c.FindNetworks(t.Context(), owner.Mark())
	noError(t, err)
	equal(t, 0, len(got))
}

func TestAListIsOfTheClientsOwnProject(t *testing.T) {
	l := newLab(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password},
		{Name: "admin", ID: "project-2", Password: password},
	}})
	own := l.client(t)
	admin := newTestClient(t, l.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	ids := makeNetworks(t, own, 1)
	shared := true
	service, err := admin.connect(t.Context())
	noError(t, err)
	// An admin sees both networks, and everyone sees the shared one.
	foreign, err := networks.Create(t.Context(), service, external.CreateOptsExt{
		CreateOptsBuilder: networks.CreateOpts{Name: "shared", Shared: &shared, Description: owner.Mark()},
	}).Extract()
	noError(t, err)
	for _, list := range []func(*Client) ([]*Network, error){
		func(c *Client) ([]*Network, error) { return c.ListNetworks(t.Context()) },
		func(c *Client) ([]*Network, error) { return c.FindNetworks(t.Context(), owner.Mark()) },
	} {
		got, err := list(own)
		noError(t, err)
		equal(t, ids, idsOf(got))
		got, err = list(admin)
		noError(t, err)
		equal(t, []string{foreign.ID}, idsOf(got))
	}

	// Without a project in the token there is no filter.
	admin.session.Store(&session{service: service})
	got, err := admin.ListNetworks(t.Context())
	noError(t, err)
	equal(t, 2, len(got))
}

func TestTheDescriptionIsComparedExactly(t *testing.T) {
	l := newLab(t, embedded.Options{})
	// Some databases ignore case, accents and trailing blanks.
	someCases := replyTo("GET", networksPath, 200, `{"networks": [
		{"id": "a", "description": "samplecrd.k8s.io/owner=c/U"},
		{"id": "b", "description": "samplecrd.k8s.io/owner=c/u"},
		{"id": "c", "description": "samplecrd.k8s.io/owner=c/u "},
		{"id": "d", "description": "samplecrd.k8s.io/owner=ç/u"}]}`)
	asked := queries(l, "subnets")
	var filter []string
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == networksPath {
			filter = r.URL.Query()["description"]
		}
		return someCases(w, r)
	})
	got, err := l.client(t).FindNetworks(t.Context(), "samplecrd.k8s.io/owner=c/u")
	noError(t, err)
	equal(t, []string{"samplecrd.k8s.io/owner=c/u"}, filter)
	equal(t, []string{"b"}, idsOf(got))
	equal(t, []string{"b"}, asked()[0]["network_id"])
}

func TestSubnetsAreAttachedToTheirNetwork(t *testing.T) {
	l, c, network := labWithNetwork(t)
	other := makeNetwork(t, c, "other", "")
	var want []Subnet
	for _, step := range []CreateSubnet{
		creates("10.0.0.0/24", ""),
		creates("10.0.1.0/24", "none"),
		creates("10.0.2.0/24", "10.0.2.9"),
		creates("fd00:1::/64", "fd00:1::9"),
		{Subnet: DesiredSubnet{CIDR: cidr("10.0.3.0/24"), Name: "a stranger's"}},
	} {
		s, err := c.CreateSubnet(t.Context(), network.ID, step)
		noError(t, err)
		want = append(want, s)
	}
	equal(t, []any{addr("10.0.0.1"), addr(""), addr("10.0.2.9"), addr("fd00:1::9")},
		[]any{want[0].Gateway, want[1].Gateway, want[2].Gateway, want[3].Gateway})
	slices.SortFunc(want, func(a, b Subnet) int { return strings.Compare(a.ID, b.ID) })

	for name, get := range map[string]func(context.Context) ([]*Network, error){
		"listed": func(ctx context.Context) ([]*Network, error) { return c.ListNetworks(ctx) },
		"found":  func(ctx context.Context) ([]*Network, error) { return c.FindNetworks(ctx, owner.Mark()) },
		"got": func(ctx context.Context) ([]*Network, error) {
			n, err := c.GetNetwork(ctx, network.ID)
			return []*Network{n}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := get(t.Context())
			noError(t, err)
			for _, n := range got {
				if n.ID == network.ID {
					equal(t, want, n.Subnets)
				} else {
					equal(t, other.ID, n.ID)
					equal(t, 0, len(n.Subnets))
				}
			}
		})
	}
	l.answer(replyTo("GET", subnetsPath, 500, ""))
	_, err := c.GetNetwork(t.Context(), network.ID)
	wantError(t, Error{Op: "list subnets", Reason: Unavailable, Message: "500 Internal Server Error"}, err)
}

func TestSubnetsAreInTheOrderOfTheirIDs(t *testing.T) {
	l := newLab(t, embedded.Options{})
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == networksPath && reply(w, 200, `{"networks": [{"id": "n"}]}`) ||
			r.URL.Path == subnetsPath && reply(w, 200, `{"subnets": [{"id": "b", "network_id": "n"}, {"id": "c", "network_id": "n"}, {"id": "a", "network_id": "n"}]}`)
	})
	got, err := l.client(t).ListNetworks(t.Context())
	noError(t, err)
	ids := func(n *Network) (ids []string) {
		for _, s := range n.Subnets {
			ids = append(ids, s.ID)
		}
		return ids
	}
	equal(t, []string{"a", "b", "c"}, ids(got[0]))
	// The order stays the same after own changes.
	changed := got[0].withoutSubnet("b").withSubnet(Subnet{ID: "aa"})
	equal(t, []string{"a", "aa", "c"}, ids(changed))
	equal(t, []string{"a", "b", "c"}, ids(got[0]))
}
