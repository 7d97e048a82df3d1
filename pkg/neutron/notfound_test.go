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
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

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
	for _, test := range []struct {
		name       string
		collection string
		list       func(context.Context, *Client, string) error
	}{
		{"networks of the project", "networks", func(ctx context.Context, c *Client, _ string) error { _, err := c.ListNetworks(ctx); return err }},
		{"subnets of networks with a mark", "subnets", func(ctx context.Context, c *Client, _ string) error {
			_, err := c.FindNetworks(ctx, owner.Mark())
			return err
		}},
		{"ports on a network", "ports", func(ctx context.Context, c *Client, id string) error {
			_, err := c.PortsOnNetworks(ctx, id)
			return err
		}},
	} {
		for _, body := range []string{vanishedItem, wrongPath} {
			t.Run(test.name, func(t *testing.T) {
				l := newLab(t, embedded.Options{})
				c := l.client(t)
				id := makeNetworks(t, c, 1)[0]
				l.answer(notFoundLists(body, test.collection))
				err := test.list(t.Context(), c, id)
				if ReasonOf(err) != Unavailable || !strings.HasPrefix(err.Error(), "list "+test.collection+": ") || !strings.Contains(err.Error(), "could not be found") {
					t.Errorf("got the error %v of reason %q", err, ReasonOf(err))
				}
			})
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
				got, err := w.Observe(t.Context(), seen(n), read)
				noError(t, err)
				equal(t, n.ID, got.ID)
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
