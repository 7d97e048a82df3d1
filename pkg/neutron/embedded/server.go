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

// Package embedded serves an in-memory OpenStack on a loopback port: the
// networks, subnets and ports of Neutron v2.0, and as much of Keystone v3 as a
// client needs to get at them.
//
// The controller serves it to itself when no cloud is configured, and the tests
// talk to it all the time. It answers as Neutron 21 (Zed) with the ML2 plug-in on
// MariaDB does: the same status codes, error types, messages and fields. Nothing
// is kept on disk, and no packet is ever moved.
package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// maxBody bounds what is read of one request, in bytes. The real Neutron has no
	// bound; 1 MiB holds a bulk create of several thousand networks.
	maxBody = 1 << 20
	// maxURI is the length in bytes from which on the real server (eventlet) answers 414.
	maxURI = 8192

	defaultMTU      = 1450
	defaultTokenTTL = time.Hour
)

// Options says what New makes. The zero value is a cloud with the projects
// "samplecrd" and "admin", random passwords, no quotas and no page limit.
type Options struct {
	// Projects are the projects, each with one user of the same name. Left out: one
	// project "samplecrd". A project "admin", whose user has the role admin, is added
	// unless one of that name is listed.
	Projects []Project
	// PageLimit cuts every list to so many items, as pagination_max_limit does; 0: none.
	PageLimit int
	// MTU in bytes is the default and the maximum of a tenant network; 0: 1450.
	MTU int
	// TokenTTL is how long a token is valid; 0: one hour.
	TokenTTL time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Project is a project and its one user, both of the same name, in the domain Default.
type Project struct {
	Name string
	// ID is the project's ID; left out: random.
	ID string
	// Password is the user's; left out: random, see CloudsYAML.
	Password string
	// Admin gives the user the role admin, and with it sight of every project.
	Admin bool
	// Quota limits the number of a project's resources, by "network", "subnet" and
	// "port". One left out, or -1, is unlimited.
	Quota map[string]int
}

// Server is the embedded OpenStack. It is an http.Handler, and safe for use by
// several goroutines.
type Server struct {
	keystone *keystone
	neutron  *neutron
	listener net.Listener
	http     *http.Server
	done     chan struct{}
	close    sync.Once

	mu      sync.RWMutex
	fault   func(*http.Request) *Fault
	observe func(Request)
}

// New makes a server that does not listen: for wrapping its ServeHTTP. The URLs in
// its answers are built from the Host header of each request.
func New(o Options) *Server {
	o = o.withDefaults()
	return &Server{
		keystone: newKeystone(o),
		neutron:  newNeutron(o),
		done:     make(chan struct{}),
	}
}

// Start makes a server and serves it on addr, which must name a loopback address:
// what it holds is of no worth, but its users' passwords travel in clear text.
// "127.0.0.1:0" takes a free port.
func Start(addr string, o Options) (*Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the embedded Neutron: %w", err)
	}
	s := New(o)
	s.listener = listener
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// URL is the address of a started server, such as http://127.0.0.1:4711: Keystone is
// under /identity/v3, Neutron under /networking/v2.0. It is "" for one made by New.
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// Close stops listening, cuts every connection and ends hanging requests. It does
// not wait for requests in flight. It may be called twice.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		close(s.done)
		if s.http != nil {
			err = s.http.Close()
		}
	})
	return err
}

// CloudsYAML is a clouds.yaml for a started server with one entry for each user: the
// first is named cloud, each further one cloud-USER. It holds the passwords.
func (s *Server) CloudsYAML(cloud string) []byte {
	var b bytes.Buffer
	b.WriteString("clouds:\n")
	for i, u := range s.keystone.credentials() {
		name := cloud
		if i > 0 {
			name = cloud + "-" + u.name
		}
		// A Go string literal of printable text is a double-quoted YAML scalar.
		fmt.Fprintf(&b, "  %q:\n    auth_type: password\n    auth:\n      auth_url: %q\n", name, s.URL()+"/identity/v3")
		fmt.Fprintf(&b, "      username: %q\n      password: %q\n      project_name: %q\n", u.name, u.password, u.name)
		b.WriteString("      user_domain_name: Default\n      project_domain_name: Default\n")
		fmt.Fprintf(&b, "    region_name: %s\n    interface: public\n    identity_api_version: 3\n", region)
	}
	return b.Bytes()
}

// SetPassword changes a user's password and, as Keystone does, revokes the user's
// tokens. An unknown user is an error.
func (s *Server) SetPassword(user, password string) error {
	return s.keystone.setPassword(user, password)
}

// RevokeTokens makes every token that was issued invalid at once. (The real Neutron
// goes on taking one for as long as its cache lives, up to 300 seconds.)
func (s *Server) RevokeTokens() {
	s.keystone.revokeAll()
}

// ServeHTTP answers one request, or does what the Fault for it says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The body is read whole at the start: net/http notices that a client went away
	// only once its body was read, and a fault that hangs waits for just that.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var a *answer
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		a = (&failure{http.StatusRequestEntityTooLarge, "HTTPRequestEntityTooLarge", "Request is too large."}).answer()
	case err != nil:
		a = badRequest("The request body could not be read").answer()
	default:
		a = s.answer(r, body)
	}
	s.report(r, a)
	if a == nil {
		panic(http.ErrAbortHandler) // net/http's way of cutting the connection
	}
	a.send(w)
}

// answer is nil when the connection is to be cut.
func (s *Server) answer(r *http.Request, body []byte) *answer {
	f := s.faultFor(r, body)
	if f == nil {
		return s.route(r, body)
	}
	var a *answer
	if f.After {
		a = s.route(r, body)
	}
	if !s.wait(r.Context(), f) {
		return nil
	}
	if f.Drop {
		return nil
	}
	if f.Status != 0 {
		return f.answer()
	}
	if a == nil {
		a = s.route(r, body)
	}
	return a
}

// route finds the service for a request by its path.
func (s *Server) route(r *http.Request, body []byte) *answer {
	if len(requestURI(r)) > maxURI {
		return &answer{status: http.StatusRequestURITooLong}
	}
	base := "http://" + r.Host
	service, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	req := &request{Request: r, body: body, base: base, path: splitPath(rest)}
	switch service {
	case "", "identity":
		return s.keystone.serve(req)
	case "networking":
		return s.serveNeutron(req)
	}
	return notFoundPath().answer()
}

// serveNeutron authenticates a request, as keystonemiddleware does in front of the
// real Neutron. The list of versions needs no token.
func (s *Server) serveNeutron(r *request) *answer {
	if len(r.path) == 0 {
		return networkVersions(r.base)
	}
	c, ok := s.keystone.authenticate(r.Header.Get("X-Auth-Token"))
	if !ok {
		return keystoneError(r, http.StatusUnauthorized, unauthenticated)
	}
	r.caller = c
	return s.neutron.serve(r)
}

// request is what a handler gets: the HTTP request with its body read and its path cut up.
type request struct {
	*http.Request
	body   []byte
	base   string   // scheme, host and port, for links
	path   []string // what follows the service's prefix
	caller caller
	// constraint is the revision that If-Match demands, if it does.
	constraint *int
}

// answer is a whole response, made before a byte is sent, so that it can be counted
// and, by a fault, be thrown away.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func jsonAnswer(status int, body []byte) *answer {
	return &answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

func (a *answer) send(w http.ResponseWriter) {
	h := w.Header()
	for k, v := range a.header {
		h[k] = v
	}
	h.Set("X-Openstack-Request-Id", "req-"+newUUID())
	h.Set("Content-Length", fmt.Sprint(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that went away is nobody's error
}

func (o Options) withDefaults() Options {
	projects := append([]Project(nil), o.Projects...)
	if len(projects) == 0 {
		projects = []Project{{Name: "samplecrd"}}
	}
	admin := false
	for _, p := range projects {
		admin = admin || p.Name == "admin"
	}
	if !admin {
		projects = append(projects, Project{Name: "admin", Admin: true})
	}
	for i := range projects {
		p := &projects[i]
		p.Admin = p.Admin || p.Name == "admin"
		if p.ID == "" {
			p.ID = newID()
		}
		if p.Password == "" {
			p.Password = newID()
		}
	}
	o.Projects = projects
	if o.MTU == 0 {
		o.MTU = defaultMTU
	}
	if o.TokenTTL == 0 {
		o.TokenTTL = defaultTokenTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen for the embedded Neutron: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen for the embedded Neutron: %q is not a loopback address", host)
	}
	return nil
}

// requestURI is the URI as it came, or, for a request that never travelled, as it would.
func requestURI(r *http.Request) string {
	if r.RequestURI != "" {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

func splitPath(p string) []string {
	if p = strings.Trim(p, "/"); p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// wait sits out the fault's delay, and with Hang waits for the client to go. It
// reports whether there is still somebody to answer.
func (s *Server) wait(ctx context.Context, f *Fault) bool {
	if f.Hang {
		select {
		case <-ctx.Done():
		case <-s.done:
		}
		return false
	}
	if f.Delay <= 0 {
		return true
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}
