// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// client sends raw HTTP requests as one user, so that tests see status codes and bodies
// unchanged.
type client struct {
	t     *testing.T
	s     *Server
	token string
}

// reply is an answer, and its body.
type reply struct {
	status int
	header http.Header
	raw    string
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
			r.want(t, http.StatusCreated)
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
	return reply{resp.StatusCode, resp.Header, string(raw)}, err
}

const neutronV2 = "/networking/v2.0/"

// api is do with a path relative to /networking/v2.0.
func (c *client) api(method, path, body string, header ...string) reply {
	c.t.Helper()
	return c.do(method, neutronV2+path, body, header...)
}

// create creates one resource, and returns its attributes.
func (c *client) create(kind, attrs string) map[string]any {
	c.t.Helper()
	r := c.api("POST", kind+"s", fmt.Sprintf(`{%q: {%s}}`, kind, attrs))
	r.want(c.t, http.StatusCreated)
	return r.json(c.t)[kind].(map[string]any)
}

func (c *client) network() string {
	c.t.Helper()
	return c.create("network", "")["id"].(string)
}

func (c *client) subnet(network, cidr string) string {
	c.t.Helper()
	return c.create("subnet", fmt.Sprintf(`"network_id":%q,"ip_version":4,"cidr":%q`, network, cidr))["id"].(string)
}

func bySubnet(id string) string { return `{"subnet_id":"` + id + `"}` }

// attach adds an interface in the subnet, and returns its port.
func (c *client) attach(router, subnet string) string {
	c.t.Helper()
	r := c.api("PUT", "routers/"+router+"/add_router_interface", bySubnet(subnet))
	r.want(c.t, http.StatusOK)
	return r.json(c.t)["port_id"].(string)
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	body := map[string]any{}
	if err := json.Unmarshal([]byte(r.raw), &body); err != nil {
		t.Fatalf("%v: %s", err, r.raw)
	}
	return body
}

func (r reply) want(t *testing.T, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("got %d %s, want %d", r.status, r.raw, status)
	}
}

// lacks fails the test unless r is a list without that text.
func (r reply) lacks(t *testing.T, text string) {
	t.Helper()
	r.want(t, http.StatusOK)
	if strings.Contains(r.raw, text) {
		t.Errorf("it has %q: %s", text, r.raw)
	}
}

func same[T comparable](t *testing.T, want, got []T) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}
