// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// makeNetworks creates n networks with a subnet each, and returns their IDs in order.
func makeNetworks(t *testing.T, c *Client, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		network, err := c.CreateNetwork(t.Context(), creating(fmt.Sprint("net-", i)).fields())
		noError(t, err)
		_, err = c.CreateSubnet(t.Context(), network.ID, creates(fmt.Sprintf("10.%d.0.0/16", i), "").fields())
		noError(t, err)
		ids = append(ids, network.ID)
	}
	slices.Sort(ids)
	return ids
}

// A later Neutron may answer with more than the object. What has no object at all is not from Neutron.
func TestAnAnswerMayHaveMoreThanTheObject(t *testing.T) {
	for body, want := range map[string]ErrorReason{
		`{"network": {"id": "n"}, "took": 12, "request_ids": ["r"]}`: "",
		`{"status": "ok"}`: Unavailable,
		`{"network": []}`:  Unavailable,
		`[]`:               Unavailable,
	} {
		l, c, network := labWithNetwork(t)
		l.answer(replyTo(http.MethodGet, networksPath, http.StatusOK, body))
		_, err := c.getNetwork(t.Context(), network.ID)
		equal(t, want, ReasonOf(err))
	}
}

// makeNetwork creates a network with that description, which the plan could not create.
func makeNetwork(t *testing.T, c *Client, name, description string) Network {
	t.Helper()
	n, err := c.CreateNetwork(t.Context(), object{"name": name, "description": description})
	noError(t, err)
	return n
}

// makePort creates a port on the network and returns its ID.
func makePort(t *testing.T, c *Client, networkID, name, deviceOwner string) string {
	t.Helper()
	return post(t, c, "port", object{"network_id": networkID, "name": name, "device_owner": deviceOwner})
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
	// The server's limit cuts every page short, the last page is full, and there is one page.
	for limit, pages := range map[int]int{3: 3, 7: 2, 0: 1} {
		t.Run(fmt.Sprint("pages of ", limit), func(t *testing.T) {
			l := newLab(t, embedded.Options{PageLimit: limit})
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
			equal(t, pages, len(asked()))
		})
	}
}

func TestAListRequestsOnlyTheFieldsItNeeds(t *testing.T) {
	l := newLab(t, embedded.Options{})
	networkQueries := queries(l, "networks")
	_, err := l.client(t).ListNetworks(t.Context())
	noError(t, err)
	equal(t, []url.Values{{
		"fields": {"id", "name", "description", "mtu", "port_security_enabled", "dns_domain", "shared", "router:external",
			"provider:network_type", "provider:physical_network", "provider:segmentation_id", "availability_zone_hints", "tags", "admin_state_up", "revision_number", "subnets"},
		"limit":      {"1000"},
		"project_id": {"project-1"},
	}}, networkQueries())
	equal(t, 0, l.count("GET "+subnetsPath))
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
		{"nothing", ``},
		{"an empty object", `{}`},
		{"the page of a proxy", `<html>Please log in</html>`},
		{"null instead of the list", `{"networks": null}`},
		{"a list in a list", `{"networks": [[{"id": "a"}]]}`},
		{"a list one level below", `{"x": {"networks": [{"id": "a"}]}}`},
		{"an answer that ends within an item", `{"networks": [{"id": "a"}, {"id": "b"`},
		{"an answer that ends after the list", `{"networks": [{"id": "a"}]`},
		{"a list that is closed as an object", `{"networks": [{"id": "a"}}}`},
		{"an item that is null", `{"networks": [{"id": "a"}, null]}`},
		{"an item of another type", `{"networks": [{"id": "a"}, {"id": "b", "mtu": "x"}]}`},
		{"the list twice", `{"networks": [{"id": "a"}], "networks": []}`},
		{"links of another type", `{"networks": [{"id": "a"}], "networks_links": [{"rel": 1}]}`},
		{"another member that is not JSON", `{"networks": [{"id": "a"}], "x": y}`},
		{"something after it", `{"networks": [{"id": "a"}]} x`},
		{"lists in lists without end", `{"networks": ` + strings.Repeat("[", 20_000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clientOf(pages{"networks ": test.body})
			listed, err := c.ListNetworks(t.Context())
			equal(t, Unavailable, ReasonOf(err))
			found, err := c.FindNetworks(t.Context(), owner.Mark())
			equal(t, Unavailable, ReasonOf(err))
			equal(t, 0, len(listed)+len(found))
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
			// The page after "b" is asked for by its marker, and not at the URL x. It is the last one.
			last := `{"networks": [{"id": "c"}], "networks_links": [{"rel": "previous", "href": "x"}]}`
			got, err := clientOf(pages{"networks ": test.body, "networks b": last, "subnets ": `{"subnets": []}`}).ListNetworks(t.Context())
			noError(t, err)
			equal(t, []string{"a", "b", "c"}, idsOf(got))
		})
	}
}

// A list of strangers, none of which is kept, ends in the same way.
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
	} {
		for _, clusters := range [][]string{nil, {owner.Cluster}} {
			t.Run(fmt.Sprint(test.name, clusters), func(t *testing.T) {
				pages := 0
				got, err := clientOf(roundTripper(func(r *http.Request) (*http.Response, error) {
					pages++
					return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(`{"networks": [` + test.page(pages-1) + `],
						"networks_links": [{"rel": "next", "href": "http://127.0.0.1:1/v2.0/networks?marker=x"}]}`))}, nil
				})).ListNetworks(t.Context(), clusters...)
				if len(got) != 0 || ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), test.want) || pages > test.most {
					t.Errorf("got %d networks after %d pages, and the error %v, want %q in it", len(got), pages, err, test.want)
				}
			})
		}
	}
}

func TestWhatCannotBeNeutronsIsRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, test := range []struct{ name, network, subnet, want string }{
		{"no ID", `"name": "n"`, "", "without an ID"},
		{"an ID that leads elsewhere", `"id": "../../identity/v3/users/x"`, "", "without an ID"},
		{"an ID with a query", `"id": "x?force=true"`, "", "without an ID"},
		{"an ID that is encoded", `"id": "%2e%2e%2fx"`, "", "without an ID"},
		{"an ID with a line end", `"id": "x\r\ny"`, "", "without an ID"},
		{"an ID that is long", `"id": "` + long + `"`, "", "without an ID"},
		{"a name that is long", `"id": "x", "name": "` + long + `"`, "", "longer than any"},
		{"a description that is long", `"id": "x", "description": "` + long + `"`, "", "longer than any"},
		{"subnets that are not a list", `"id": "x", "subnets": {"a": "b"}`, "", "invalid list of networks"},
		{"a subnet whose network has a long ID", `"id": "a"`, `"network_id": "` + long + `"`, "longer than any"},
		{"a gateway with a long zone", `"id": "a"`, `"gateway_ip": "fe80::1%` + long + `"`, "longer than any"},
		{"a gateway that is not an address", `"id": "a"`, `"gateway_ip": "` + strings.Repeat(long, 10) + `"`, "invalid list of subnets"},
	} {
		// Nothing of that depends on whether it is the cluster's.
		for _, cluster := range []string{owner.Cluster, "another"} {
			if cluster == "another" && test.subnet != "" {
				continue // no subnets are listed
			}
			t.Run(test.name+", "+cluster, func(t *testing.T) {
				network := `{"description": "` + owner.Mark() + `", ` + test.network + `}`
				c := clientOf(pages{"networks ": `{"networks": [` + network + `]}`, "subnets ": `{"subnets": [{"id": "s", ` + test.subnet + `}]}`})
				got, err := c.ListNetworks(t.Context(), cluster)
				checkMessage(t, err)
				if len(got) != 0 || ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %d networks and the error %v, want %q in it", len(got), err, test.want)
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

func TestAListIsOfTheClientsOwnProject(t *testing.T) {
	l := newLab(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password},
		{Name: "admin", ID: "project-2", Password: password},
	}})
	own := l.client(t)
	admin := newTestClient(t, l.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	ids := makeNetworks(t, own, 1)
	// An admin sees both networks, and everyone sees the shared one.
	foreign := post(t, admin, "network", object{"name": "shared", "shared": true, "description": owner.Mark()})
	for c, want := range map[*Client][]string{own: ids, admin: {foreign}} {
		listed, err := c.ListNetworks(t.Context())
		noError(t, err)
		equal(t, want, idsOf(listed))
		found, err := c.FindNetworks(t.Context(), owner.Mark())
		noError(t, err)
		equal(t, want, idsOf(found))
	}
}

// Some databases ignore case, accents and trailing blanks.
func TestTheDescriptionIsComparedExactly(t *testing.T) {
	l := newLab(t, embedded.Options{})
	asked := queries(l, "networks")
	c := l.client(t)
	ids := map[string]string{}
	for _, description := range []string{"samplecrd.k8s.io/owner=c/U", "samplecrd.k8s.io/owner=c/u", "samplecrd.k8s.io/owner=c/u "} {
		ids[description] = makeNetwork(t, c, "n", description).ID
	}
	const want = "samplecrd.k8s.io/owner=c/u"
	got, err := c.FindNetworks(t.Context(), want)
	noError(t, err)
	equal(t, []string{ids[want]}, idsOf(got))
	equal(t, []string{want}, asked()[len(asked())-1]["description"])
}

func TestSubnetsAreInTheOrderOfTheirIDs(t *testing.T) {
	c := clientOf(pages{"networks ": `{"networks": [{"id": "n"}]}`,
		"subnets ": `{"subnets": [{"id": "b", "network_id": "n"}, {"id": "c", "network_id": "n"}, {"id": "a", "network_id": "n"}]}`})
	got, err := c.ListNetworks(t.Context())
	noError(t, err)
	ids := func(n *Network) (ids string) {
		for _, s := range n.Subnets {
			ids += " " + s.ID
		}
		return ids
	}
	// The order stays the same after own changes, which do not change what others have.
	changed := having(got[0]).withoutSubnet("b").withSubnet(Subnet{ID: "aa"})
	equal(t, []string{" a b c", " a aa c"}, []string{ids(got[0]), ids(&changed.Network)})
}

const (
	vanishedItem = `{"NeutronError": {"type": "NetworkNotFound", "message": "Network n could not be found.", "detail": ""}}`
	wrongPath    = `{"NeutronError": {"type": "HTTPNotFound", "message": "The resource could not be found.", "detail": ""}}`
)

// notFoundLists answers all lists of the collections with 404.
func notFoundLists(body string, collections ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		collection, isOurs := strings.CutPrefix(r.URL.Path, "/networking/v2.0/")
		return isOurs && r.Method == http.MethodGet && slices.Contains(collections, collection) && reply(w, http.StatusNotFound, body)
	}
}

func TestAListThatIsNotFoundProvesNothing(t *testing.T) {
	for _, collection := range []string{"networks", "subnets", "ports"} {
		for _, body := range []string{vanishedItem, wrongPath} {
			l := newLab(t, embedded.Options{})
			c := l.client(t)
			id := makeNetworks(t, c, 1)[0]
			l.answer(notFoundLists(body, collection))
			_, err := c.ListNetworks(t.Context())
			if collection == "ports" {
				noError(t, err)
				_, err = c.PortsOnNetworks(t.Context(), id)
			}
			if ReasonOf(err) != Unavailable || !strings.HasPrefix(err.Error(), "list "+collection+": ") || !strings.Contains(err.Error(), "could not be found") {
				t.Errorf("got the error %v of reason %q", err, ReasonOf(err))
			}
		}
	}
}

// The network has lost its mark, and the Network's status has its ID: the list of its subnets
// decides whether it is ours.
func TestANetworkIsNotGoneBecauseAListIsNotFound(t *testing.T) {
	for _, collection := range []string{"networks", "subnets"} {
		for _, read := range []Read{Cached, Live} {
			t.Run(fmt.Sprint(collection, read), func(t *testing.T) {
				w, n := made(t, wants("10.0.0.0/24", ""))
				w.theirs(t, n.ID, "", "")
				noError(t, w.Observer().Relist(t.Context()))
				w.answer(notFoundLists(vanishedItem, collection))
				_, err := w.Observe(t.Context(), seen(n), read)
				equal(t, Unavailable, ReasonOf(err))
				w.answer(nil)
				equal(t, n.ID, w.observe(t, seen(n), read).ID)
			})
		}
	}
}

func TestAWrongPathInTheCatalogIsNoProofThatANetworkIsGone(t *testing.T) {
	w, n := made(t, wants("10.0.0.0/24", ""))
	lost := w.lab.client(t)
	service, err := lost.connect(t.Context())
	noError(t, err)
	service.ResourceBase = service.Endpoint + "v2.0/no/such/path/"
	cloud := NewCloud("test", lost, owner.Cluster, time.Minute)
	equal(t, Unavailable, ReasonOf(cloud.Observer().Relist(t.Context())))
	for _, read := range []Read{Cached, CacheOnly, Live} {
		got, err := cloud.Observe(t.Context(), seen(n), read)
		if ReasonOf(err) != Unavailable {
			t.Errorf("got %+v and the error %v", got, err)
		}
	}
	// The 404 to the DELETE is taken for a success, and the list after it contradicts.
	_, err = cloud.Remove(t.Context(), seen(n), n, false, Guard{})
	equal(t, Unavailable, ReasonOf(err))
	equal(t, n.ID, w.inNeutron(t, n.ID).ID)
}

// deleteMarkers deletes the object that a list continues from, as another client would, before
// Neutron answers. It stops after that many.
func (l *lab) deleteMarkers(collection string, most int) (deleted func() []string) {
	var ids []string
	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		marker := r.URL.Query().Get("marker")
		if r.URL.Path != "/networking/v2.0/"+collection || marker == "" || len(ids) == most {
			return false
		}
		request := httptest.NewRequest(http.MethodDelete, r.URL.Path+"/"+marker, nil)
		request.Header = r.Header.Clone()
		answer := httptest.NewRecorder()
		l.Server.ServeHTTP(answer, request)
		if answer.Code == http.StatusNoContent {
			ids = append(ids, marker)
		}
		return false
	})
	return func() []string { return ids }
}

func TestAListWhoseMarkerIsDeletedStartsAgain(t *testing.T) {
	for _, most := range []int{1, 2, maxRestarts} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			l := newLab(t, embedded.Options{PageLimit: 3})
			c := l.client(t)
			var want []string
			for i := range 10 + most {
				want = append(want, makeNetwork(t, c, fmt.Sprint(i), "").ID)
			}
			deleted := l.deleteMarkers("networks", most)
			got, err := c.ListNetworks(t.Context())
			noError(t, err)
			equal(t, most, len(deleted()))
			want = slices.DeleteFunc(want, func(id string) bool { return slices.Contains(deleted(), id) })
			slices.Sort(want)
			equal(t, want, idsOf(got))
		})
	}
}

func TestAListDoesNotStartAgainForEver(t *testing.T) {
	l := newLab(t, embedded.Options{PageLimit: 1})
	c := l.client(t)
	makeNetworks(t, c, 3)
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Has("marker") && reply(w, http.StatusNotFound, vanishedItem)
	})
	before := len(l.requests())
	got, err := c.ListNetworks(t.Context())
	wantError(t, Error{Op: "list networks", Reason: Unavailable, Message: "Network n could not be found."}, err)
	equal(t, 0, len(got))
	equal(t, before+2*(1+maxRestarts), len(l.requests()))
	// A proxy's 404 is not about a marker.
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Has("marker") && reply(w, http.StatusNotFound, "no backend")
	})
	before = len(l.requests())
	_, err = c.ListNetworks(t.Context())
	equal(t, Unavailable, ReasonOf(err))
	equal(t, before+2, len(l.requests()))
}
