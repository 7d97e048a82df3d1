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
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// client sends raw HTTP requests as one user, so that tests see status codes and bodies
// unchanged.
type client struct {
	t     *testing.T
	s     *Server
	token string
}

// reply is an answer: its status, its body and, if it is an error, Neutron's type and
// message.
type reply struct {
	status        int
	kind, message string
	header        http.Header
	raw           string
	json          map[string]any
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// as returns a client for the user of that name.
func as(t *testing.T, s *Server, user string) *client {
	t.Helper()
	for _, u := range s.keystone.credentials() {
		if u.name == user {
			r := login(t, s, user, u.password)
			if r.status != http.StatusCreated {
				t.Fatalf("login of %s: %d %s", user, r.status, r.raw)
			}
			return &client{t, s, r.header.Get("X-Subject-Token")}
		}
	}
	t.Fatalf("no user %s", user)
	return nil
}

func login(t *testing.T, s *Server, user, password string) reply {
	t.Helper()
	return (&client{t: t, s: s}).do("POST", "/identity/v3/auth/tokens", fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],
		"password":{"user":{"name":%q,"domain":{"name":"Default"},"password":%q}}},
		"scope":{"project":{"name":%q,"domain":{"id":"default"}}}}}`, user, password, user))
}

func newClient(t *testing.T) *client {
	t.Helper()
	return as(t, start(t, Options{}), "samplecrd")
}

// do sends a request. header holds additional headers as "Name: value".
func (c *client) do(method, path, body string, header ...string) reply {
	c.t.Helper()
	r, err := c.try(method, path, body, header...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (c *client) try(method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequest(method, c.s.URL()+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if c.token != "" {
		req.Header.Set("X-Auth-Token", c.token)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	d := json.NewDecoder(bytes.NewReader(raw))
	if d.Decode(&r.json) == nil {
		if e, ok := r.json["NeutronError"].(map[string]any); ok {
			r.kind, r.message = e["type"].(string), e["message"].(string)
		}
	}
	return r, nil
}

// api is do with a path relative to /networking/v2.0.
func (c *client) api(method, path, body string, header ...string) reply {
	c.t.Helper()
	return c.do(method, "/networking/v2.0/"+path, body, header...)
}

// create creates one resource and returns its attributes.
func (c *client) create(kind, attrs string) map[string]any {
	c.t.Helper()
	r := c.api("POST", kind+"s", fmt.Sprintf(`{%q: {%s}}`, kind, attrs))
	if r.status != http.StatusCreated {
		c.t.Fatalf("create %s %s: %d %s", kind, attrs, r.status, r.raw)
	}
	return r.json[kind].(map[string]any)
}

func (c *client) network(attrs string) string {
	c.t.Helper()
	return c.create("network", attrs)["id"].(string)
}

func (c *client) subnet(network, cidr string) string {
	c.t.Helper()
	return c.create("subnet", fmt.Sprintf(`"network_id":%q,"ip_version":4,"cidr":%q`, network, cidr))["id"].(string)
}

func (c *client) port(network, attrs string) map[string]any {
	c.t.Helper()
	return c.create("port", fmt.Sprintf(`"network_id":%q%s`, network, attrs))
}

func (c *client) get(kind, id string) map[string]any {
	c.t.Helper()
	r := c.api("GET", kind+"s/"+id, "")
	if r.status != http.StatusOK {
		c.t.Fatalf("get %s %s: %d %s", kind, id, r.status, r.raw)
	}
	return r.json[kind].(map[string]any)
}

// names returns the names of the networks that a query lists.
func (c *client) names(query string) []string {
	c.t.Helper()
	r := c.api("GET", "networks?"+query, "")
	if r.status != http.StatusOK {
		c.t.Fatalf("list %s: %d %s", query, r.status, r.raw)
	}
	names := []string{}
	for _, n := range r.json["networks"].([]any) {
		names = append(names, n.(map[string]any)["name"].(string))
	}
	return names
}

// refused compares an answer with a status, a type and (part of) a message. An empty type
// or message is not compared.
func (r reply) refused(t *testing.T, status int, kind, message string) {
	t.Helper()
	if r.status != status || kind != "" && r.kind != kind || !strings.Contains(r.message, message) {
		t.Errorf("got %d %s %q, want %d %s %q", r.status, r.kind, r.message, status, kind, message)
	}
}

func (r reply) want(t *testing.T, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("got %d %s, want %d", r.status, r.raw, status)
	}
}

// fakeClock is a clock that advances only when a test advances it.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
