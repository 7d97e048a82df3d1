// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"go4.org/netipx"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	password = "correct-horse-battery-staple"

	tokensPath   = "/identity/v3/auth/tokens"
	networksPath = "/networking/v2.0/networks"
	subnetsPath  = "/networking/v2.0/subnets"
	portsPath    = "/networking/v2.0/ports"
)

var owner = Owner{Cluster: "11111111-0000-0000-0000-000000000000", UID: "22222222-0000-0000-0000-000000000000"}

// comparers make cmp compare types without exported fields, and treat nil as empty.
var comparers = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, netipx.IPRange{}),
	cmpopts.IgnoreUnexported(Error{}, Config{}),
	cmpopts.IgnoreFields(Error{}, "RequestID"),       // differs each time
	cmpopts.IgnoreFields(Change{}, "Before", "Noun"), // TestDifferences and the texts of steps compare them
	cmpopts.EquateEmpty(),
}

// lab is an embedded OpenStack behind a tap: a test can answer requests in its place.
type lab struct {
	*embedded.Server
	http *httptest.Server

	mu     sync.Mutex
	tap    func(http.ResponseWriter, *http.Request) bool
	served []string
}

func newLab(t *testing.T, options embedded.Options) *lab {
	t.Helper()
	if options.Projects == nil {
		options.Projects = []embedded.Project{{Name: "samplecrd", ID: "project-1", Password: password}}
	}
	l := &lab{Server: embedded.New(options)}
	l.http = httptest.NewServer(l)
	t.Cleanup(func() {
		_ = l.Close() // ends requests that hang
		l.http.CloseClientConnections()
		l.http.Close()
	})
	return l
}

// answer sets the function that is called for each request from now on. It reports whether it has
// answered the request.
func (l *lab) answer(tap func(http.ResponseWriter, *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tap = tap
}

func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.served = append(l.served, r.Method+" "+r.URL.Path)
	tap := l.tap
	l.mu.Unlock()
	if tap == nil || !tap(w, r) {
		l.Server.ServeHTTP(w, r)
	}
}

// count returns the number of requests with that method and path.
func (l *lab) count(request string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int
	for _, s := range l.served {
		if s == request {
			n++
		}
	}
	return n
}

func (l *lab) config(t *testing.T) Config {
	t.Helper()
	return l.configAs(t, "samplecrd", password)
}

func (l *lab) configAs(t *testing.T, user, password string) Config {
	t.Helper()
	config, err := ParseConfig("lab", l.cloudsYAML(user, password))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// cloudsYAML returns a clouds.yaml with one entry, lab.
func (l *lab) cloudsYAML(user, password string) []byte {
	return fmt.Appendf(nil, `
clouds:
  lab:
    auth:
      auth_url: %s/identity/v3
      username: %s
      password: %s
      project_name: %[2]s
      user_domain_name: Default
      project_domain_name: Default
`, l.http.URL, user, password)
}

func (l *lab) client(t *testing.T) *Client {
	t.Helper()
	return newTestClient(t, l.config(t), ClientOptions{Timeout: time.Minute})
}

// clientIn returns a client whose credentials name that region; "" for none.
func (l *lab) clientIn(t *testing.T, region string) *Client {
	t.Helper()
	config := l.config(t)
	config.Endpoint.Region = region
	return newTestClient(t, config, ClientOptions{Timeout: time.Minute})
}

func newTestClient(t *testing.T, config Config, options ClientOptions) *Client {
	t.Helper()
	c := NewClient(config, options)
	t.Cleanup(c.Close)
	return c
}

// connect returns gophercloud's authenticated client, for requests that Client does not make.
func (c *Client) connect(ctx context.Context) (*gophercloud.ServiceClient, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return s.service, nil
}

// reply answers with that status and body, and returns true.
func reply(w http.ResponseWriter, status int, body string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
	return true
}

// replyTo returns a tap that answers the requests with that method, and with a path that begins
// with that one.
func replyTo(method, path string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == method && strings.HasPrefix(r.URL.Path, path) && reply(w, status, body)
	}
}

func cidr(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// addr parses an address. It returns the zero Addr for "".
func addr(text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(text)
}

// equal fails the test if got differs from want.
func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, comparers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
