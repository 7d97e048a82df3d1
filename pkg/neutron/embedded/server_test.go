// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// What Neutron answers is compared in hack/contract with the answers of the real one. These tests
// are about what only the embedded one has.

func TestOptions(t *testing.T) {
	const id = "00000000-0000-0000-0000-00000000000"
	s := start(t, Options{
		Projects:        []Project{{Name: "samplecrd", ID: "p", Quota: map[string]int{"network": 1, "subnet": 0}}},
		ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/24")},
		MTU:             1400,
		Now:             func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewID:           func(name string) string { return id + strconv.Itoa(len(name)) },
	})
	c := as(t, s, "samplecrd")
	n := c.create("network", `"name":"a"`)
	got := []any{n["project_id"], n["mtu"], n["created_at"], n["id"]}
	if diff := cmp.Diff([]any{"p", 1400.0, "2026-01-02T03:04:05Z", id + "1"}, got); diff != "" {
		t.Error(diff)
	}
	for kind, attrs := range map[string]string{"network": "", "subnet": `"network_id":"` + id + `1","ip_version":4,"cidr":"10.0.0.0/24"`} {
		if r := c.api("POST", kind+"s", `{"`+kind+`":{`+attrs+`}}`); !strings.Contains(r.raw, "OverQuota") {
			t.Errorf("beyond the quota: %d %s", r.status, r.raw)
		}
	}
	if got := c.api("GET", "networks?router:external=True&fields=name", "").raw; got != `{"networks": [{"name": "public"}]}` {
		t.Errorf("external networks: %s", got)
	}
}

func TestAnExternalNetworkThatNeutronRefusesPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Options{ExternalNetwork: ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
}

func TestEveryUserOfCloudsYAMLCanLogIn(t *testing.T) {
	s := start(t, Options{Projects: []Project{{Name: "one", Password: `p"w\: #`}, {Name: "two"}}})
	for _, name := range []string{"dev", "dev-two", "dev-admin"} {
		auth, _, _, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(s.CloudsYAML("dev"))), clouds.WithCloudName(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openstack.AuthenticatedClient(t.Context(), auth); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
		r := c.do("GET", path, "")
		r.want(t, status)
		r.json(t)
	}
	as(t, c.s, "samplecrd").api("GET", "", "").want(t, http.StatusOK)
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	c := newClient(t)
	ids := map[string]bool{}
	for _, path := range []string{"networks", "networks/x"} {
		id := c.api("GET", path, "").header.Get("X-Openstack-Request-Id")
		if !strings.HasPrefix(id, "req-") || !isUUID(strings.TrimPrefix(id, "req-")) || ids[id] {
			t.Errorf("request ID %q after %v", id, ids)
		}
		ids[id] = true
	}
}

func TestAnOversizedBodyIsRefused(t *testing.T) {
	newClient(t).api("POST", "networks", strings.Repeat(" ", maxBody+1)).want(t, http.StatusRequestEntityTooLarge)
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
			r, err := c.try("POST", neutronV2+"networks", `{"network":{"name":"poison"}}`)
			if (err != nil) != (tc.status == 0) || r.status != tc.status {
				t.Errorf("got %d, %v", r.status, err)
			}
			if tc.fault.RetryAfter > 0 && (r.header.Get("Retry-After") != "2" || r.raw != tc.fault.Message) {
				t.Errorf("Retry-After %q, body %q", r.header.Get("Retry-After"), r.raw)
			}
			if made := len(c.s.Networks()) == 1; made != tc.made {
				t.Errorf("created: %v, want %v", made, tc.made)
			}
		})
	}
}

func TestFaultsOfKeystoneHaveItsForm(t *testing.T) {
	s := start(t, Options{})
	s.SetFault(func(*http.Request) *Fault { return &Fault{Status: 500, Type: "Internal Server Error", Message: "no"} })
	r := login(t, s, "samplecrd", "right")
	same(t, []string{`{"error":{"code":500,"message":"no","title":"Internal Server Error"}}`}, []string{r.raw})
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
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL()+neutronV2+"networks", strings.NewReader("{}"))
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
	seen := make(chan Request, 2)
	c.s.Observe(func(r Request) { seen <- r })
	c.api("GET", "networks?name=a", "")
	c.do("GET", "/identity/v3", "")
	for _, want := range []Request{
		{Service: "network", Method: "GET", Path: "v2.0/networks", Query: map[string][]string{"name": {"a"}}, UserAgent: "Go-http-client/1.1", Status: 200},
		{Service: "identity", Method: "GET", Path: "v3", Query: map[string][]string{}, UserAgent: "Go-http-client/1.1", Status: 200},
	} {
		select {
		case got := <-seen:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		default:
			t.Fatal("the answer is here, and the request was not seen")
		}
	}
}

func TestAServerThatDoesNotListenUsesTheHostHeaderInItsLinks(t *testing.T) {
	s := New(Options{})
	proxy := start(t, Options{}) // only for its listener
	proxy.http.Handler = s
	r := (&client{t: t, s: proxy}).do("GET", "/networking/", "")
	if !strings.Contains(r.raw, proxy.URL()+neutronV2) {
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
