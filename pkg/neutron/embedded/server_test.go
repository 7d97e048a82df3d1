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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// cloud returns a gophercloud client for one entry of the server's own clouds.yaml.
func cloud(t *testing.T, s *Server, name string) *gophercloud.ServiceClient {
	t.Helper()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(s.CloudsYAML("dev"))), clouds.WithCloudName(name))
	if err != nil {
		t.Fatal(err)
	}
	provider, err := openstack.AuthenticatedClient(t.Context(), auth)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGophercloudCreatesUpdatesAndDeletesANetworkWithTheServersOwnCloudsYAML(t *testing.T) {
	s, ctx := start(t, Options{}), t.Context()
	c := cloud(t, s, "dev")
	n, err := networks.Create(ctx, c, networks.CreateOpts{Name: "a", Description: "mark"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	gateway := "192.168.0.1"
	sub, err := subnets.Create(ctx, c, subnets.CreateOpts{
		NetworkID: n.ID, IPVersion: 4, CIDR: "192.168.0.0/16", GatewayIP: &gateway,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]subnets.AllocationPool{{Start: "192.168.0.2", End: "192.168.255.254"}}, sub.AllocationPools); diff != "" {
		t.Error(diff)
	}
	if _, err := attributestags.ReplaceAll(ctx, c, "networks", n.ID, attributestags.ReplaceAllOpts{Tags: []string{"x"}}).Extract(); err != nil {
		t.Error(err)
	}
	p, err := ports.Create(ctx, c, ports.CreateOpts{NetworkID: n.ID}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if err := networks.Delete(ctx, c, n.ID).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("delete with a port: %v, want 409", err)
	}
	if err := ports.Delete(ctx, c, p.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	// Neutron checks the revision only if there is something to change.
	stale, name := 1, "x"
	if _, err := networks.Update(ctx, c, n.ID, networks.UpdateOpts{RevisionNumber: &stale, Name: &name}).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed) {
		t.Errorf("update with a stale revision: %v, want 412", err)
	}
	if err := networks.Delete(ctx, c, n.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if _, err := subnets.Get(ctx, c, sub.ID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the subnet still exists without its network: %v", err)
	}
}

func TestGophercloudFollowsPagesToTheEnd(t *testing.T) {
	s := start(t, Options{PageLimit: 3})
	c := cloud(t, s, "dev")
	for range 7 {
		if _, err := networks.Create(t.Context(), c, networks.CreateOpts{}).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := networks.List(c, networks.ListOpts{}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := networks.ExtractNetworks(pages); err != nil || len(all) != 7 {
		t.Errorf("got %d networks, %v; want 7", len(all), err)
	}
}

func TestEveryUserOfCloudsYAMLCanLogIn(t *testing.T) {
	s := start(t, Options{Projects: []Project{{Name: "one", Password: `p"w\: #`}, {Name: "two"}}})
	for _, name := range []string{"dev", "dev-two", "dev-admin"} {
		cloud(t, s, name)
	}
}

func TestStartListensOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.org:0", "127.0.0.1"} {
		if s, err := Start(addr, Options{}); err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", addr)
		}
	}
}

func TestVersionDocumentsNeedNoToken(t *testing.T) {
	c := &client{t: t, s: start(t, Options{})}
	for path, status := range map[string]int{
		"/": 300, "/identity": 300, "/identity/": 300, "/identity/v3": 200, "/identity/v3/": 200, "/networking/": 200, "/networking": 200,
	} {
		if r := c.do("GET", path, ""); r.status != status || r.json == nil {
			t.Errorf("%s: %d %s, want %d", path, r.status, r.raw, status)
		}
	}
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	c := newClient(t)
	a, b := c.api("GET", "networks", ""), c.api("GET", "networks/x", "")
	for _, r := range []reply{a, b} {
		if id := r.header.Get("X-Openstack-Request-Id"); !strings.HasPrefix(id, "req-") || !isUUID(strings.TrimPrefix(id, "req-")) {
			t.Errorf("request ID %q", id)
		}
	}
	if a.header.Get("X-Openstack-Request-Id") == b.header.Get("X-Openstack-Request-Id") {
		t.Error("two answers have the same request ID")
	}
}

func TestOversizedRequestsAreRefused(t *testing.T) {
	c := newClient(t)
	c.api("POST", "networks", strings.Repeat(" ", maxBody+1)).want(t, http.StatusRequestEntityTooLarge)
	r := c.api("GET", "networks?"+strings.Repeat("id="+newUUID()+"&", 250), "")
	r.want(t, http.StatusRequestURITooLong)
	if r.raw != "" {
		t.Errorf("414 has a body: %s", r.raw)
	}
	c.api("GET", "networks?"+strings.Repeat("id="+newUUID()+"&", 200), "").want(t, http.StatusOK)
}

func TestTokens(t *testing.T) {
	const neutron401 = `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`
	clock := newFakeClock()
	s := start(t, Options{TokenTTL: time.Minute, Now: clock.Now, Projects: []Project{{Name: "samplecrd", Password: "right"}}})
	c := as(t, s, "samplecrd")
	check := func(why string, status int) {
		t.Helper()
		r := c.api("GET", "networks", "")
		if r.status != status || status == 401 && r.raw != neutron401 {
			t.Errorf("%s: %d %s, want %d", why, r.status, r.raw, status)
		}
	}
	check("fresh token", 200)
	clock.advance(time.Minute)
	check("expired token", 401)
	c = as(t, s, "samplecrd")
	s.RevokeTokens()
	check("revoked token", 401)
	c.token = ""
	check("no token", 401)
	c.token = "nonsense"
	check("unknown token", 401)

	if r := login(t, s, "samplecrd", "wrong"); r.status != 401 || r.raw != neutron401 {
		t.Errorf("wrong password: %d %s", r.status, r.raw)
	}
	login(t, s, "nobody", "right").want(t, 401)
	c = as(t, s, "samplecrd")
	if err := s.SetPassword("samplecrd", "new"); err != nil {
		t.Fatal(err)
	}
	check("token of before the change of password", 401)
	login(t, s, "samplecrd", "right").want(t, 401)
	login(t, s, "samplecrd", "new").want(t, 201)
	if s.SetPassword("nobody", "x") == nil {
		t.Error("the password of an unknown user was set")
	}
}

func TestKeystoneShowsAndDeletesTokens(t *testing.T) {
	s := start(t, Options{})
	c := as(t, s, "samplecrd")
	const path = "/identity/v3/auth/tokens"
	subject := "X-Subject-Token: " + c.token
	c.do("GET", path, "", subject).want(t, 200)
	c.do("HEAD", path, "", subject).want(t, 200)
	c.do("GET", path, "", "X-Subject-Token: nonsense").want(t, 404)
	again := c.do("POST", path, `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+c.token+`"}}}}`)
	again.want(t, 201)
	c.do("POST", path, `{"auth":{"identity":{"methods":["token"],"token":{"id":"`+c.token+`"}},
		"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`).want(t, 401)
	c.do("POST", path, `{`).want(t, 400)
	c.do("DELETE", path, "", subject).want(t, 204)
	c.do("GET", path, "", subject).want(t, 401)
	c.token = again.header.Get("X-Subject-Token")
	c.api("GET", "networks", "").want(t, 200)
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name   string
		fault  Fault
		status int // 0: the connection is closed
		made   bool
	}{
		{"an error answered instead", Fault{Status: 503, Message: "Keystone is down", RetryAfter: 1500 * time.Millisecond}, 503, false},
		{"a Neutron error after the effect", Fault{Status: 500, Type: "HTTPInternalServerError", After: true}, 500, true},
		{"a connection closed before the effect", Fault{Drop: true}, 0, false},
		{"a connection closed after the effect", Fault{Drop: true, After: true}, 0, true},
		{"a delay only", Fault{Delay: time.Millisecond}, 201, true},
		{"nothing at all", Fault{}, 201, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t)
			c.s.SetFault(func(r *http.Request) *Fault {
				if body, _ := io.ReadAll(r.Body); r.Method == "POST" && strings.Contains(string(body), "poison") {
					return &tc.fault
				}
				return nil
			})
			r, err := c.try("POST", "/networking/v2.0/networks", `{"network":{"name":"poison"}}`)
			if (err != nil) != (tc.status == 0) || r.status != tc.status {
				t.Errorf("got %d, %v", r.status, err)
			}
			if tc.fault.RetryAfter > 0 && (r.header.Get("Retry-After") != "2" || r.raw != tc.fault.Message) {
				t.Errorf("Retry-After %q, body %q", r.header.Get("Retry-After"), r.raw)
			}
			if made := len(c.names("name=poison")) == 1; made != tc.made {
				t.Errorf("created: %v, want %v", made, tc.made)
			}
		})
	}
}

func TestAHangingRequestEndsWhenTheClientDisconnectsAndWhenTheServerCloses(t *testing.T) {
	s := start(t, Options{})
	hung := make(chan struct{}, 1)
	cut := make(chan struct{}, 2)
	s.SetFault(func(*http.Request) *Fault { hung <- struct{}{}; return &Fault{Hang: true} })
	s.Observe(func(r Request) {
		if r.Status == 0 {
			cut <- struct{}{}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	for _, end := range []func(){cancel, func() { _ = s.Close() }} {
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL()+"/networking/v2.0/networks", strings.NewReader("{}"))
		failed := make(chan error, 1)
		go func() { _, err := http.DefaultClient.Do(req); failed <- err }()
		<-hung
		end()
		if err := <-failed; err == nil {
			t.Error("the request was answered")
		}
		<-cut
		ctx = t.Context()
	}
}

func TestObserveSeesARequestBeforeTheClientHasItsAnswer(t *testing.T) {
	c := newClient(t)
	var mu sync.Mutex
	var seen []Request
	c.s.Observe(func(r Request) { mu.Lock(); defer mu.Unlock(); seen = append(seen, r) })
	c.api("GET", "networks?name=a", "")
	c.do("GET", "/identity/v3", "")
	want := []Request{
		{Service: "network", Method: "GET", Path: "v2.0/networks", Query: map[string][]string{"name": {"a"}}, UserAgent: "Go-http-client/1.1", Status: 200},
		{Service: "identity", Method: "GET", Path: "v3", Query: map[string][]string{}, UserAgent: "Go-http-client/1.1", Status: 200},
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestAServerThatDoesNotListenUsesTheHostHeaderInItsLinks(t *testing.T) {
	s := New(Options{})
	proxy := start(t, Options{}) // only for its listener
	proxy.http.Handler = s
	r := (&client{t: t, s: proxy}).do("GET", "/networking/", "")
	if !strings.Contains(r.raw, proxy.URL()+"/networking/v2.0/") {
		t.Errorf("the links do not have the request's host: %s", r.raw)
	}
	if s.URL() != "" {
		t.Errorf("URL %q", s.URL())
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// Every request gets an answer of Neutron or Keystone, and the store stays usable: a panic
// with the lock held would make every later request hang.
func FuzzAnyRequestIsAnswered(f *testing.F) {
	const net = "b5a6b1a6-3d4e-4f47-9d5e-3d2a3b0c5a11"
	for _, seed := range [][3]string{
		{"POST", "networks", `{"network":{"project_id":{},"tenant_id":{}}}`},
		{"POST", "networks", `{"networks":[{"network":[]},1,null]}`},
		{"POST", "subnets", `{"subnet":{"network_id":"` + net + `","ip_version":4.5,"cidr":"10.0.0.0/24","allocation_pools":[{"start":1,"end":[]}]}}`},
		{"POST", "subnets", `{"subnet":{"network_id":"` + net + `","ip_version":4,"cidr":"255.255.255.255/32","enable_dhcp":false}}`},
		{"POST", "subnets", `{"subnet":{"network_id":"` + net + `","ip_version":6,"cidr":"::/127","enable_dhcp":false,"host_routes":[{"destination":null,"nexthop":null}]}}`},
		{"POST", "ports", `{"port":{"network_id":"` + net + `","fixed_ips":[{"subnet_id":null,"ip_address":7}]}}`},
		{"PUT", "networks/" + net, `{"network":{"mtu":-1,"name":{}}}`},
		{"PUT", "networks/" + net + "/tags", `{"tags":[{}]}`},
		{"GET", "networks?sort_key=name&sort_dir=asc&limit=1&marker=" + net + "&page_reverse=true", ""},
		{"GET", "subnets?fields=id&ip_version=&tags=&id=", ""},
		{"DELETE", "networks/" + net + "/tags/x/y", ""},
		{"PUT", "quotas/p", `{"quota":{"network":null}}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	s := New(Options{Projects: []Project{{Name: "samplecrd", ID: "p"}}})
	n := &network{standard: standard{id: net, project: "p", tags: []string{}}, subnets: []string{}, zoneHints: []string{}}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.Parse("http://localhost/networking/v2.0/" + target)
		if err != nil {
			t.Skip()
		}
		s.neutron.networks.put(n)
		r := &request{Request: &http.Request{Method: method, URL: u, Header: http.Header{}}, body: []byte(body), base: "http://localhost",
			path: splitPath(strings.TrimPrefix(u.Path, "/networking/")), caller: caller{project: "p", admin: true}}
		a := s.neutron.serve(r)
		if len(a.body) > 0 && !json.Valid(a.body) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
