// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embedded serves an in-memory OpenStack on a loopback port: the networks, subnets,
// ports, routers and floating IPs of Neutron v2.0, and as much of Keystone v3 as a client needs to reach them.
//
// The controller starts it for itself when no cloud is configured, and the tests use it
// throughout. It answers like Neutron 21 (Zed) with the ML2 plug-in and the router service on MariaDB: the same
// status codes, error types, messages and fields. It stores nothing on disk and forwards no
// packets.
package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBody is the maximum size of a request's body, in bytes. The real Neutron has no
	// limit; 1 MiB holds a bulk create of several thousand networks.
	maxBody = 1 << 20
	// maxURI is the length in bytes above which the answer is 414, as in the real server
	// (eventlet).
	maxURI = 8192

	defaultMTU      = 1450
	defaultTokenTTL = time.Hour
)

// Options are the options of New. The zero value is a cloud with the projects "samplecrd"
// and "admin", random passwords, no quotas and no page limit.
type Options struct {
	// Projects are the projects, each with one user of the same name. The default is one
	// project "samplecrd". A project "admin", whose user has the role admin, is added
	// unless the list has one with that name.
	Projects []Project
	// PageLimit limits every list to that many items, like pagination_max_limit; 0: no
	// limit.
	PageLimit int
	// MTU in bytes is the default and the maximum of a tenant network; 0: 1450.
	MTU int
	// TokenTTL is the lifetime of a token; 0: one hour.
	TokenTTL time.Duration
	// ExternalNetwork is an external network that every Neutron has from the start. The zero value:
	// none.
	ExternalNetwork ExternalNetwork
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// NewID returns the ID of a new object with that name, a UUID that no other object has; nil: they are random, as in
	// Neutron. It is called under a lock, and must not call the Server.
	NewID func(name string) string
}

// ExternalNetwork is a network of the project "admin" that routers can have their gateways on.
type ExternalNetwork struct {
	Name string
	// CIDR is that of its one subnet. New panics for one that Neutron refuses.
	CIDR netip.Prefix
}

// Project is a project and its one user, both of the same name, in the domain Default.
type Project struct {
	Name string
	// ID is the project's ID; default: random.
	ID string
	// Password is the user's password; default: random, see CloudsYAML.
	Password string
	// Admin gives the user the role admin, which can see every project.
	Admin bool
	// Quota limits the number of a project's resources, by "network", "subnet", "port" and "rbac_policy".
	// A missing entry, or -1, means unlimited.
	Quota map[string]int
}

// Region is a region in Keystone's catalog.
type Region struct {
	// Name is its name in the catalog. "" is an endpoint without a region.
	Name string
	// Neutron is the name of the Neutron that its endpoints lead to, of letters and digits. Each
	// name is a Neutron with networks and quotas of its own; "" is the one that every Server has.
	// Two regions may have the same Neutron, and a region may change its Neutron or its name.
	Neutron string
}

// Server is the embedded OpenStack. It is an http.Handler, and safe for use by
// several goroutines.
type Server struct {
	keystone *keystone
	options  Options
	neutron  *neutron
	others   sync.Map // the other Neutrons: each is a *neutron, by Region.Neutron
	listener net.Listener
	http     *http.Server
	done     chan struct{}
	close    sync.Once

	fault   atomic.Pointer[func(*http.Request) *Fault]
	observe atomic.Pointer[func(Request)]
}

// New returns a server that does not listen, for callers that wrap its ServeHTTP. The URLs
// in its answers use the Host header of each request.
func New(o Options) *Server {
	o = o.withDefaults()
	return &Server{
		keystone: newKeystone(o),
		options:  o,
		neutron:  newNeutron(o),
		done:     make(chan struct{}),
	}
}

// Start returns a server that listens on addr, which must be a loopback address: the data
// has no value, but the users' passwords are sent in clear text. "127.0.0.1:0" picks a free
// port.
func Start(addr string, o Options) (*Server, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the embedded Neutron: %w", err)
	}
	return StartOn(listener, o), nil
}

// StartOn is Start for a listener, which Close closes. Clients must be able to connect to its address.
func StartOn(listener net.Listener, o Options) *Server {
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
	return s
}

// URL returns the address of a started server, such as http://127.0.0.1:4711: Keystone is
// under /identity/v3, Neutron under /networking/v2.0. It returns "" for a server that New
// returned.
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// Close stops listening, closes every connection and ends hanging requests. It does not
// wait for requests in flight. It may be called twice.
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

// CloudsYAML returns a clouds.yaml for a started server, with one entry for each user: the
// first is named cloud, the others cloud-USER. They name the first region. It contains the
// passwords.
func (s *Server) CloudsYAML(cloud string) []byte {
	var b bytes.Buffer
	b.WriteString("clouds:\n")
	region := (*s.keystone.regions.Load())[0].Name
	for i, u := range s.keystone.credentials() {
		name := cloud
		if i > 0 {
			name = cloud + "-" + u.name
		}
		// A Go string literal of printable text is a double-quoted YAML scalar.
		fmt.Fprintf(&b, "  %q:\n    auth_type: password\n    auth:\n      auth_url: %q\n", name, s.URL()+"/identity/v3")
		fmt.Fprintf(&b, "      username: %q\n      password: %q\n      project_name: %q\n", u.name, u.password, u.name)
		b.WriteString("      user_domain_name: Default\n      project_domain_name: Default\n")
		fmt.Fprintf(&b, "    region_name: %q\n    interface: public\n    identity_api_version: 3\n", region)
	}
	return b.Bytes()
}

// SetPassword changes a user's password and, like Keystone, revokes the user's tokens. It
// returns an error for an unknown user.
func (s *Server) SetPassword(user, password string) error {
	return s.keystone.setPassword(user, password)
}

// RevokeTokens revokes every issued token at once. (The real Neutron accepts one until its
// cache expires, for up to 300 seconds.)
func (s *Server) RevokeTokens() {
	s.keystone.revokeAll()
}

// RevokeToken revokes one token, such as that of a request (X-Auth-Token), and reports whether it
// was valid. A function of SetFault that calls it makes Neutron refuse that very request.
func (s *Server) RevokeToken(token string) bool {
	return s.keystone.revoke(token)
}

// SetDefaultProject makes a project the default project of a user: a token that is requested
// without a scope is for that project from now on. The user also gets the role there that the
// project's own user has, and keeps its roles in other projects, so that a request that names one
// of them still succeeds. As in Keystone, tokens that were issued before keep their project. It
// returns an error for an unknown user or project.
func (s *Server) SetDefaultProject(user, project string) error {
	return s.keystone.setDefaultProject(user, project)
}

// RecreateProject deletes a project and makes another one with the same name, the same users and
// that ID, or a random one if it is "". Tokens for the deleted project are revoked. As in
// OpenStack, what the deleted project has in Neutron stays there, and only an admin sees it. It
// returns an error for an unknown project.
func (s *Server) RecreateProject(name, id string) error {
	return s.keystone.recreateProject(name, cmp.Or(id, newID()))
}

// SetRegions sets the regions of the catalog and their order. There must be at least one; at the
// start it is Region{Name: "RegionOne"}. Clients see the change with their next token. A Neutron
// keeps what it has when no region leads to it, and still answers at its URL; its name in a later
// call leads to it again. All have the same Keystone: a token is valid in each of them.
func (s *Server) SetRegions(regions ...Region) {
	for _, r := range regions {
		if _, ok := s.neutronOf(networkPrefix(r.Neutron)); !ok {
			s.others.LoadOrStore(r.Neutron, newNeutron(s.options))
		}
	}
	regions = slices.Clone(regions)
	s.keystone.regions.Store(&regions)
}

// Network is a network as Networks returns it.
type Network struct {
	// Neutron is the name of the Neutron that has it: see Region.
	Neutron   string
	ProjectID string
	ID        string
	Name      string
	// IsExternal means that routers can have their gateway in it.
	IsExternal bool
}

// Networks returns the networks of all projects and all Neutrons, those too that no region leads
// to.
func (s *Server) Networks() []Network {
	var all []Network
	s.each(func(name string, n *neutron) {
		for _, network := range n.networks.sorted {
			all = append(all, Network{Neutron: name, ProjectID: network.project, ID: network.id, Name: network.name, IsExternal: network.external})
		}
	})
	return all
}

// Versions returns for each collection of the Neutron at URL, such as networks, the versions of its objects by their IDs. A
// version says nothing but whether it is equal to another one: as long as it is, so are the answers about the object.
func (s *Server) Versions() map[string]map[string]any {
	n := s.neutron
	n.mu.RLock()
	defer n.mu.RUnlock()
	return map[string]map[string]any{
		"networks": n.networks.versions(), "subnets": n.subnets.versions(), "ports": n.ports.versions(),
		"routers": n.routers.versions(), "rbac-policies": n.rbacPolicies.versions(),
	}
}

// Router is a router as Routers returns it.
type Router struct {
	// Neutron is the name of the Neutron that has it: see Region.
	Neutron         string
	ProjectID       string
	ID              string
	Name            string
	Description     string
	ExternalNetwork string // the ID of the network that its gateway is on; "": no gateway
	ZoneHints       []string
	Routes          []string // such as "10.99.0.0/16 via 10.0.0.9", in order; nil: none
}

// Routers returns the routers of all projects and all Neutrons.
func (s *Server) Routers() []Router {
	var all []Router
	s.each(func(name string, n *neutron) {
		for _, r := range n.routers.sorted {
			router := Router{Neutron: name, ProjectID: r.project, ID: r.id, Name: r.name, Description: r.description}
			if len(r.zoneHints) > 0 {
				router.ZoneHints = r.zoneHints
			}
			for _, route := range r.routes {
				router.Routes = append(router.Routes, route.Destination+" via "+route.Nexthop)
			}
			slices.Sort(router.Routes)
			if r.gateway != nil {
				router.ExternalNetwork = r.gateway.network
			}
			all = append(all, router)
		}
	})
	return all
}

// SetDistributed makes the routers that are created from now on distributed or centralized, like
// router_distributed in Neutron's configuration. An admin can create either.
func (s *Server) SetDistributed(distributed bool) {
	s.each(func(_ string, n *neutron) { n.distributed = distributed })
}

// Interface is a router's interface as Interfaces returns it.
type Interface struct {
	// Neutron is the name of the Neutron that has it: see Region.
	Neutron   string
	RouterID  string
	PortID    string
	NetworkID string
	SubnetIDs []string
	// Half: the port looks like an interface in the API, but it is not attached to the router.
	Half bool
}

// Interfaces returns the interfaces of the routers of all projects and all Neutrons, and the ports
// that only look like one.
func (s *Server) Interfaces() []Interface {
	var all []Interface
	s.each(func(name string, n *neutron) {
		for _, p := range n.ports.sorted {
			attached := p.router != "" && !p.gateway
			if !attached && (!p.serves() || p.deviceOwner == snatOwner) {
				continue
			}
			i := Interface{Neutron: name, RouterID: p.router, PortID: p.id, NetworkID: p.networkID, Half: !attached}
			if i.Half {
				i.RouterID = p.deviceID
			}
			for _, f := range p.fixedIPs {
				i.SubnetIDs = append(i.SubnetIDs, f.SubnetID)
			}
			all = append(all, i)
		}
	})
	return all
}

// each calls list with every Neutron and its name, under its lock.
func (s *Server) each(list func(name string, n *neutron)) {
	locked := func(name, n any) bool {
		neutron := n.(*neutron)
		neutron.mu.RLock()
		defer neutron.mu.RUnlock()
		list(name.(string), neutron)
		return true
	}
	locked("", s.neutron)
	s.others.Range(locked)
}

// ServeHTTP answers one request, or simulates the Fault that was chosen for it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The body is read completely first: net/http notices that a client disconnected only
	// after the body was read, and a fault that hangs waits for exactly that.
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
		panic(http.ErrAbortHandler) // makes net/http close the connection
	}
	a.send(w)
}

// answer returns nil if the connection must be closed without an answer.
func (s *Server) answer(r *http.Request, body []byte) *answer {
	f := s.faultFor(r, body)
	if f == nil {
		return s.route(r, body, &Fault{})
	}
	var a *answer
	if f.After || f.Half || f.Twice {
		a = s.route(r, body, f)
	}
	if !s.wait(r.Context(), f) || f.Drop {
		return nil
	}
	if f.Status != 0 {
		return f.answer(r)
	}
	switch {
	case f.Half:
		return nil
	case a == nil:
		return s.route(r, body, &Fault{})
	}
	return a
}

// route calls the service that a request's path belongs to. Of the Fault it knows Half and Twice.
func (s *Server) route(r *http.Request, body []byte, f *Fault) *answer {
	// A request that was not sent over a connection has no RequestURI.
	if len(cmp.Or(r.RequestURI, r.URL.RequestURI())) > maxURI {
		return &answer{status: http.StatusRequestURITooLong}
	}
	base := "http://" + r.Host
	if r.TLS != nil {
		base = "https://" + r.Host
	}
	service, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	req := &request{Request: r, body: body, base: base, service: service, path: splitPath(rest), half: f.Half}
	if service == "" || service == identityPrefix {
		return s.keystone.serve(req)
	}
	if n, ok := s.neutronOf(service); ok {
		a := s.serveNeutron(req, n)
		if f.Twice && a.status < http.StatusMultipleChoices {
			again := *req
			again.isRepeated = true
			s.serveNeutron(&again, n)
		}
		return a
	}
	return notFoundPath().answer()
}

// neutronOf returns the Neutron whose paths begin with that segment.
func (s *Server) neutronOf(prefix string) (*neutron, bool) {
	name, ok := neutronName(prefix)
	if !ok || name == "" {
		return s.neutron, ok
	}
	n, ok := s.others.Load(name)
	if !ok {
		return nil, false
	}
	return n.(*neutron), true
}

// The first segments of the paths.
const (
	identityPrefix = "identity"
	neutronPrefix  = "networking"
)

// networkPrefix returns the first segment of the paths of the Neutron with that name.
func networkPrefix(name string) string {
	if name == "" {
		return neutronPrefix
	}
	return neutronPrefix + "-" + name
}

// neutronName returns the name of the Neutron whose paths begin with that segment.
func neutronName(prefix string) (name string, ok bool) {
	if prefix == neutronPrefix {
		return "", true
	}
	return strings.CutPrefix(prefix, neutronPrefix+"-")
}

// serveNeutron authenticates a request, as keystonemiddleware does for the real Neutron.
// The list of versions needs no token.
func (s *Server) serveNeutron(r *request, n *neutron) *answer {
	if len(r.path) == 0 {
		return networkVersions(r.base + "/" + r.service)
	}
	c, ok := s.keystone.authenticate(r.Header.Get("X-Auth-Token"))
	if !ok {
		return keystoneError(r, http.StatusUnauthorized, unauthenticated)
	}
	r.caller = c
	return n.serve(r)
}

// request is a handler's argument: the HTTP request with its body read and its path split.
type request struct {
	*http.Request
	body    []byte
	base    string   // scheme, host and port, for links
	service string   // the first segment of the path
	path    []string // the path after the service's prefix
	caller  caller
	// constraint is the revision that If-Match requires, or nil.
	constraint *int
	// half: see Fault.Half.
	half bool
	// isRepeated: the same request was handled a moment ago. See Fault.Twice.
	isRepeated bool
}

// answer is a complete response. It is built before a byte is sent, so that it can be
// counted, and discarded by a fault.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// jsonAnswer returns an answer with a value that JSON can represent.
func jsonAnswer(status int, value any) *answer {
	body, _ := json.Marshal(value)
	return rawAnswer(status, body)
}

func rawAnswer(status int, body []byte) *answer {
	return &answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

func (a *answer) send(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, a.header)
	h.Set("X-Openstack-Request-Id", "req-"+newUUID())
	h.Set("Content-Length", fmt.Sprint(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // fails only if the client disconnected
}

func (o Options) withDefaults() Options {
	projects := slices.Clone(o.Projects)
	if len(projects) == 0 {
		projects = []Project{{Name: "samplecrd"}}
	}
	if !slices.ContainsFunc(projects, func(p Project) bool { return p.Name == "admin" }) {
		projects = append(projects, Project{Name: "admin"})
	}
	for i := range projects {
		p := &projects[i]
		p.Admin = p.Admin || p.Name == "admin"
		p.ID = cmp.Or(p.ID, newID())
		p.Password = cmp.Or(p.Password, newID())
	}
	o.Projects = projects
	o.MTU = cmp.Or(o.MTU, defaultMTU)
	o.TokenTTL = cmp.Or(o.TokenTTL, defaultTokenTTL)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func(string) string { return newUUID() }
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

func splitPath(p string) []string {
	if p = strings.Trim(p, "/"); p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// wait waits for the fault's delay, or with Hang until the client disconnects. It reports
// whether the request can still be answered.
func (s *Server) wait(ctx context.Context, f *Fault) bool {
	var elapsed <-chan time.Time // never, with Hang
	if !f.Hang {
		if f.Delay <= 0 {
			return true
		}
		elapsed = time.After(f.Delay)
	}
	select {
	case <-elapsed:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}
