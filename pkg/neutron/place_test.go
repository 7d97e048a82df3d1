// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var (
	regionOne = embedded.Region{Name: "RegionOne"}
	regionTwo = embedded.Region{Name: "RegionTwo", Neutron: "two"}
)

const severalRegions = `it is in several regions: set region_name in clouds.yaml, or OS_REGION_NAME, to one of `

func TestThePlaceIsThatOfTheEndpointInUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		regions []embedded.Region
		named   string
		want    string
		neutron string
		err     Error
	}{
		{"one region, which the credentials name", []embedded.Region{regionOne}, "RegionOne", "RegionOne", "", Error{}},
		{"the second of two", []embedded.Region{regionOne, regionTwo}, "RegionTwo", "RegionTwo", "two", Error{}},
		{"an endpoint without a region", []embedded.Region{{}}, "", "", "", Error{}},
		{"two regions, and the credentials name none", []embedded.Region{regionTwo, regionOne}, "", "", "",
			Error{Op: findNeutron, Reason: Unauthenticated, Message: severalRegions + `"RegionOne", "RegionTwo"`}},
		{"a region that is not in the catalog", []embedded.Region{regionTwo}, "RegionOne", "", "",
			Error{Op: findNeutron, Reason: Unavailable, Message: "No suitable endpoint could be found in the service catalog."}},
		{"a name that can mislead a terminal", []embedded.Region{{Name: "R\x1b[2J"}}, "", "", "",
			Error{Op: "authenticate", Reason: Unavailable, Message: "the answer is not from Keystone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			l.SetRegions(test.regions...)
			c := l.clientIn(t, test.named)
			_, err := c.CreateNetwork(t.Context(), creating(testName).fields())
			place, known := c.Place()
			equal(t, test.err.Reason == "", known)
			if !known {
				wantError(t, test.err, err)
				equal(t, 0, len(l.Networks()))
				return
			}
			noError(t, err)
			equal(t, Place{Project: "project-1", Region: test.want}, place)
			if made := l.Networks(); len(made) != 1 || made[0].Neutron != test.neutron {
				t.Errorf("got %+v, want one network in the Neutron %q", made, test.neutron)
			}
		})
	}
}

// Keystone's API v2.0 has no region and no project in a form that could be compared.
func TestOldVersionsOfKeystoneAreRefused(t *testing.T) {
	l := newLab(t, embedded.Options{})
	l.answer(replyTo("POST", "/identity/v2.0/tokens", 200, `{"access": {"token": {"id": "t", "expires": "2100-01-01T00:00:00Z"}, "serviceCatalog": []}}`))
	config := l.config(t)
	config.Auth.IdentityEndpoint = l.http.URL + "/identity/v2.0"
	config.Auth.TenantName = "samplecrd"
	_, err := newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second}).ListNetworks(t.Context())
	wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: "auth_url leads to version 2.0 of Keystone's API; only version 3 is supported"}, err)
}

// Such a token sees the networks of all projects, and none would be another project's.
func TestCredentialsForNoProjectAreRefused(t *testing.T) {
	for _, project := range []string{``, `"project": {},`, `"system": {"all": true},`} {
		_, err := keystone(t, `{"token": {`+project+` "catalog": []}}`).connect(t.Context())
		wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: "the credentials are for no project: set project_id or project_name in clouds.yaml, or OS_PROJECT_ID"}, err)
	}
}

// All catalogs of up to three endpoints: if there is one region, gophercloud's endpoint is in it.
func TestTheRegionIsThatOfGophercloudsEndpoint(t *testing.T) {
	var kinds []tokens.Endpoint
	for _, region := range []string{"", "a", "b"} {
		for _, id := range []string{"", "a", "b"} {
			for _, i := range []string{"public", "internal"} {
				kinds = append(kinds, tokens.Endpoint{Region: region, RegionID: id, Interface: i, URL: "http://" + region + "." + id + "." + i + "/v2.0"})
			}
		}
	}
	catalogs, chosen := 0, 0
	var check func(endpoints []tokens.Endpoint)
	check = func(endpoints []tokens.Endpoint) {
		catalogs++
		catalog := &tokens.ServiceCatalog{Entries: []tokens.CatalogEntry{{Type: "identity", Endpoints: kinds}, {Type: "network", Endpoints: endpoints}}}
		for _, named := range []string{"", "a", "b"} {
			for _, i := range []gophercloud.Availability{"", "public", "internal"} {
				opts := gophercloud.EndpointOpts{Region: named, Availability: i}
				regions := regionsOf(catalog, opts)
				opts.ApplyDefaults("network")
				url, err := openstack.V3Endpoint(t.Context(), &gophercloud.ProviderClient{}, catalog, opts)
				if (err != nil) != (len(regions) == 0) {
					t.Fatalf("%+v %+v: %v, regions %q", endpoints, opts, err, regions)
				}
				if len(regions) != 1 {
					continue
				}
				chosen++
				used := kinds[slices.IndexFunc(kinds, func(e tokens.Endpoint) bool { return gophercloud.NormalizeURL(e.URL) == url })]
				if regions[0] != used.RegionID && (used.RegionID != "" || regions[0] != used.Region) {
					t.Fatalf("%+v %+v: %s, region %q", endpoints, opts, url, regions[0])
				}
			}
		}
		if len(endpoints) < 3 {
			for _, e := range kinds {
				check(append(slices.Clone(endpoints), e))
			}
		}
	}
	check(nil)
	t.Logf("%d endpoints of %d catalogs", chosen, catalogs)
}

// moves are changes after which the same credentials lead to another place. back undoes them.
var moves = []struct {
	name     string
	away     func(*testing.T, *lab)
	back     func(*testing.T, *lab)
	now, was string
}{
	{"the user's default project is another", func(t *testing.T, l *lab) { noError(t, l.SetDefaultProject("samplecrd", "other")) },
		func(t *testing.T, l *lab) { noError(t, l.SetDefaultProject("samplecrd", "samplecrd")) },
		`project "project-2" in region "RegionOne"`, `project "project-1" in region "RegionOne"`},
	{"the project was made again under the same name", func(t *testing.T, l *lab) { noError(t, l.RecreateProject("samplecrd", "project-3")) },
		func(t *testing.T, l *lab) { noError(t, l.RecreateProject("samplecrd", "project-1")) },
		`project "project-3" in region "RegionOne"`, `project "project-1" in region "RegionOne"`},
	{"the catalog has another region only", func(_ *testing.T, l *lab) { l.SetRegions(regionTwo) },
		func(_ *testing.T, l *lab) { l.SetRegions(regionOne) },
		`project "project-1" in region "RegionTwo"`, `project "project-1" in region "RegionOne"`},
}

// unscopedLab returns a lab, and a client whose credentials name no project and no region.
func unscopedLab(t *testing.T) (*lab, *Client) {
	t.Helper()
	l := newLab(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password}, {Name: "other", ID: "project-2", Password: password},
	}})
	config, err := ParseConfig("lab", []byte(strings.ReplaceAll(string(l.cloudsYAML("samplecrd", password)), "project_", "unused_")))
	noError(t, err)
	return l, newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second})
}

// The token is refused in the middle of the client's life, and the same credentials lead elsewhere.
func TestATokenOfAnotherPlaceIsNotUsed(t *testing.T) {
	t.Parallel()
	operations := map[string]func(context.Context, *Client, Network) error{
		"list": func(ctx context.Context, c *Client, _ Network) error { _, err := c.ListNetworks(ctx); return err },
		"create subnet": func(ctx context.Context, c *Client, n Network) error {
			_, err := c.CreateSubnet(ctx, n.ID, creates("10.0.0.0/24", "", "").fields())
			return err
		},
		"delete": func(ctx context.Context, c *Client, n Network) error { return c.DeleteNetwork(ctx, n.ID, nil) },
	}
	for _, move := range moves {
		for name, operation := range operations {
			t.Run(move.name+", "+name, func(t *testing.T) {
				l, c := unscopedLab(t)
				network, err := c.CreateNetwork(t.Context(), creating(testName).fields())
				noError(t, err)
				before := l.Networks()
				move.away(t, l)
				l.RevokeTokens()
				for range 3 {
					err = operation(t.Context(), c, network)
					equal(t, Unauthenticated, ReasonOf(err))
					if message := "the credentials are now for " + move.now + ", and were for " + move.was; !strings.Contains(err.Error(), message) {
						t.Errorf("got %v", err)
					}
				}
				equal(t, before, l.Networks())
				place, known := c.Place()
				equal(t, []any{Place{Project: "project-1", Region: "RegionOne"}, true}, []any{place, known})

				move.back(t, l)
				c.refused.until = time.Now()
				noError(t, operation(t.Context(), c, network))
				for _, n := range l.Networks() {
					equal(t, "project-1", n.ProjectID)
				}
			})
		}
	}
}

func TestManyRequestsWithAnExpiredTokenAuthenticateOnce(t *testing.T) {
	l, c, network := labWithNetwork(t)
	// All requests are refused before the first one authenticates.
	const requests = 8
	var refused sync.WaitGroup
	refused.Add(requests)
	expired := c.session.Load().service.Token()
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Auth-Token") == expired {
			refused.Done()
			refused.Wait()
			return reply(w, 401, keystoneBody(401, unauthorized))
		}
		return false
	})
	var running sync.WaitGroup
	for range requests {
		running.Go(func() {
			if _, err := c.getNetwork(t.Context(), network.ID); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	equal(t, 2, l.count("POST "+tokensPath))
}

// The caller whose request authenticates may give up. The others, who wait for that authentication,
// must not fail with its error.
func TestACallerThatGivesUpDoesNotFailTheOthers(t *testing.T) {
	l, c, network := labWithNetwork(t)
	l.RevokeTokens()
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var asked atomic.Bool
	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != tokensPath || asked.Swap(true) {
			return false
		}
		for range 4 {
			others.Go(func() {
				if _, err := c.getNetwork(t.Context(), network.ID); err != nil {
					t.Error(err)
				}
			})
		}
		cancel()
		hang(r)
		return false
	})
	_, err := c.getNetwork(ctx, network.ID)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	others.Wait()
}

// Each page needs a new token. It is refused once, and then the request is repeated; a second refusal is an error.
func TestATokenThatExpiresInTheMiddleOfAListIsRenewed(t *testing.T) {
	for _, refusals := range []int{1, 2} {
		l := newLab(t, embedded.Options{PageLimit: 1})
		c := l.client(t)
		ids := makeNetworks(t, c, 5)
		refused := map[string]int{} // by marker; the pages are requested one after the other
		l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			marker := r.URL.Query().Get("marker")
			if r.URL.Path == networksPath && marker != "" && refused[marker] < refusals {
				refused[marker]++
				l.RevokeToken(r.Header.Get("X-Auth-Token"))
			}
			return false
		})
		got, err := c.ListNetworks(t.Context())
		if refusals > 1 {
			equal(t, Unauthenticated, ReasonOf(err))
			equal(t, 0, len(got))
			continue
		}
		noError(t, err)
		equal(t, ids, idsOf(got))
		equal(t, ids, slices.Sorted(maps.Keys(refused)))
	}
}

// The answer to the creation is lost, and the status says nothing of it yet, when the credentials lead elsewhere. Until the user clears
// the cloud in the status, the network may be where it was created.
func TestWhereANetworkMayBeWhoseCreationHadNoAnswer(t *testing.T) {
	first := newWorld(t, embedded.Options{})
	second := newWorld(t, embedded.Options{Projects: []embedded.Project{{Name: "samplecrd", ID: "project-2", Password: password}}})
	second.Observer().Join(first.Observer())
	first.answer(replyTo("POST", networksPath, 504, "no answer in time"))
	_, err := first.createNetwork(t.Context(), owner, creating(testName).fields())
	equal(t, Unavailable, ReasonOf(err))
	first.answer(nil)

	look := func(w *world, as Identity) ErrorReason {
		_, err := w.Observe(t.Context(), as, Live)
		return ReasonOf(err)
	}
	equal(t, ErrorReason(""), look(first, identity))
	equal(t, OtherCloud, look(second, identity))
	abandoned := identity
	abandoned.Abandoned = true
	equal(t, ErrorReason(""), look(second, abandoned))
	equal(t, ErrorReason(""), look(second, identity))
}
