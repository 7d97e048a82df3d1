// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	defaultRegion   = "RegionOne"
	unauthenticated = "The request you have made requires authentication."
	// keystoneTime is how Keystone writes times: microseconds, and Z for UTC.
	keystoneTime = "2006-01-02T15:04:05.000000Z"
)

// caller is the identity that a token stands for.
type caller struct {
	project string
	admin   bool
}

// user is one of the fixed users.
type user struct {
	id, name, password string
	// projects are those in which the user has a role. The first is the default project.
	projects []Project
}

// token is an issued token. Unlike Fernet tokens, these hold no data, so deleting the
// record revokes the token.
type token struct {
	user            *user
	project         Project
	method          string
	issued, expires time.Time
	audit           string
}

// keystone is the identity service: a fixed set of users, and their tokens. It has no
// application credentials, no domain except Default, and no API to change users.
type keystone struct {
	now func() time.Time
	ttl time.Duration
	// seed is what the IDs of the catalog and of the roles are made from.
	seed uuid.UUID
	// regions are those of the catalog, in its order.
	regions atomic.Pointer[[]Region]

	mu       sync.Mutex
	projects []Project
	users    []*user
	tokens   map[string]token
}

func newKeystone(o Options) *keystone {
	k := &keystone{now: o.Now, ttl: o.TokenTTL, seed: uuid.New(), projects: slices.Clone(o.Projects), tokens: map[string]token{}}
	k.regions.Store(&[]Region{{Name: defaultRegion}})
	for _, p := range o.Projects {
		k.users = append(k.users, &user{id: newID(), name: p.Name, password: p.Password, projects: []Project{p}})
	}
	return k
}

// id returns an ID that stays the same for that key, because clients may cache it.
func (k *keystone) id(key string) string {
	id := uuid.NewSHA1(k.seed, []byte(key))
	return hex.EncodeToString(id[:])
}

// interfaces are the endpoint interfaces of the catalog. All have the same URL.
var interfaces = []string{"public", "internal", "admin"}

// credentials returns the users with their passwords, in the order of the options.
func (k *keystone) credentials() []user {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []user
	for _, u := range k.users {
		all = append(all, *u)
	}
	return all
}

// user returns the user of that name. The caller holds the lock.
func (k *keystone) user(name string) (*user, error) {
	for _, u := range k.users {
		if u.name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("no user %q", name)
}

func (k *keystone) setPassword(name, password string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	u, err := k.user(name)
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	u.password = password
	maps.DeleteFunc(k.tokens, func(_ string, t token) bool { return t.user == u })
	return nil
}

func (k *keystone) setDefaultProject(name, project string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	u, err := k.user(name)
	if err != nil {
		return fmt.Errorf("set default project: %w", err)
	}
	isProject := func(p Project) bool { return p.Name == project }
	i := slices.IndexFunc(k.projects, isProject)
	if i < 0 {
		return fmt.Errorf("set default project: no project %q", project)
	}
	u.projects = append([]Project{k.projects[i]}, slices.DeleteFunc(slices.Clone(u.projects), isProject)...)
	return nil
}

func (k *keystone) recreateProject(name, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.ContainsFunc(k.projects, func(p Project) bool { return p.Name == name }) {
		return fmt.Errorf("recreate project: no project %q", name)
	}
	recreate := func(projects []Project) {
		for i := range projects {
			if projects[i].Name == name {
				projects[i].ID = id
			}
		}
	}
	recreate(k.projects)
	for _, u := range k.users {
		recreate(u.projects)
	}
	maps.DeleteFunc(k.tokens, func(_ string, t token) bool { return t.project.Name == name })
	return nil
}

func (k *keystone) revoke(id string) bool {
	_, valid := k.lookup(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, id)
	return valid
}

func (k *keystone) revokeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.tokens)
}

// authenticate does what keystonemiddleware does for Neutron, except that it has no cache:
// a revoked token is refused at once.
func (k *keystone) authenticate(id string) (caller, bool) {
	t, ok := k.lookup(id)
	if !ok {
		return caller{}, false
	}
	return caller{project: t.project.ID, admin: t.project.Admin}, true
}

// lookup returns a token, and whether it is still valid.
func (k *keystone) lookup(id string) (token, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tokens[id]
	return t, ok && k.now().Before(t.expires)
}

// serve answers requests under /identity. The list of versions has status 300 and the
// single version 200, because clients' discovery distinguishes them by the status.
func (k *keystone) serve(r *request) *answer {
	switch path := strings.Join(r.path, "/"); {
	case path == "":
		return jsonAnswer(http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{identityVersion(r.base)}}})
	case path == "v3":
		return jsonAnswer(http.StatusOK, map[string]any{"version": identityVersion(r.base)})
	case path == "v3/auth/tokens":
		return k.serveTokens(r)
	}
	return &answer{status: http.StatusNotFound, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, body: []byte(noSuchPath)}
}

// Keystone's own texts. It answers an unknown path in HTML.
const (
	noSuchPath = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n" +
		"<p>The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.</p>\n"
	malformed = "The server could not comply with the request since it is either malformed or otherwise incorrect. " +
		"The client is assumed to be in error."
)

// serveTokens lets any valid token read and revoke any other. Keystone has a policy for
// this; here all users belong to one person, so there is nothing to protect.
func (k *keystone) serveTokens(r *request) *answer {
	if r.Method == http.MethodPost {
		return k.issue(r)
	}
	if _, ok := k.lookup(r.Header.Get("X-Auth-Token")); !ok {
		return keystoneError(r, http.StatusUnauthorized, unauthenticated)
	}
	subject := r.Header.Get("X-Subject-Token")
	t, ok := k.lookup(subject)
	if !ok {
		return keystoneError(r, http.StatusNotFound, "Could not find token: "+subject+".")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return k.describe(r, http.StatusOK, subject, t)
	case http.MethodDelete:
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.tokens, subject)
		return &answer{status: http.StatusNoContent}
	}
	return keystoneError(r, http.StatusMethodNotAllowed, "The method is not allowed for the requested URL.")
}

// authRequest is the body of POST /v3/auth/tokens.
type authRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User struct {
					ID       string    `json:"id"`
					Name     string    `json:"name"`
					Domain   reference `json:"domain"`
					Password string    `json:"password"`
				} `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

// reference is a project or a domain, by ID or by name.
type reference struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (d reference) isDefault() bool {
	return d.ID == "default" || d.ID == "" && strings.EqualFold(d.Name, "Default")
}

// issue answers 401 for a wrong password, for an unknown user and for a project that is not
// the user's. As in Keystone the three answers are the same, so a client cannot find out
// which users exist.
func (k *keystone) issue(r *request) *answer {
	var body authRequest
	if !json.Valid(r.body) {
		return keystoneError(r, http.StatusBadRequest, "Expecting to find valid JSON in request body. "+malformed)
	}
	if err := json.Unmarshal(r.body, &body); err != nil || len(body.Auth.Identity.Methods) != 1 {
		return keystoneError(r, http.StatusBadRequest, "Invalid input: the request body must name one authentication method")
	}
	u, ok := k.identify(&body)
	if !ok && body.Auth.Identity.Methods[0] == "token" {
		return keystoneError(r, http.StatusNotFound, "Could not recognize Fernet token")
	}
	if !ok {
		return keystoneError(r, http.StatusUnauthorized, unauthenticated)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	project, ok := projectInScope(body.Auth.Scope, u.projects)
	if !ok {
		return keystoneError(r, http.StatusUnauthorized, unauthenticated)
	}
	now := k.now()
	t := token{user: u, project: project, method: body.Auth.Identity.Methods[0], issued: now, expires: now.Add(k.ttl), audit: newID()[:22]}
	id := "gAAAAA" + newID() + newID()
	// Expired tokens are deleted here, because they would accumulate in a server that runs
	// for months.
	maps.DeleteFunc(k.tokens, func(_ string, t token) bool { return !now.Before(t.expires) })
	k.tokens[id] = t
	return k.describe(r, http.StatusCreated, id, t)
}

// identify returns the user whose password or token a request contains.
func (k *keystone) identify(body *authRequest) (*user, bool) {
	switch body.Auth.Identity.Methods[0] {
	case "token":
		t, ok := k.lookup(body.Auth.Identity.Token.ID)
		return t.user, ok
	case "password":
		want := body.Auth.Identity.Password.User
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, u := range k.users {
			if want.ID == u.id || want.ID == "" && want.Name == u.name && want.Domain.isDefault() {
				return u, subtle.ConstantTimeCompare([]byte(want.Password), []byte(u.password)) == 1
			}
		}
	}
	return nil, false
}

// projectInScope returns the one of the projects that the requested scope names. Without a scope
// it is the first, the user's default project.
func projectInScope(scope json.RawMessage, projects []Project) (Project, bool) {
	var want struct {
		Project *struct {
			reference
			Domain reference `json:"domain"`
		} `json:"project"`
	}
	// Clients spell "no scope" in three ways.
	if len(scope) == 0 || string(scope) == `"unscoped"` || string(scope) == "null" {
		return projects[0], true
	}
	if json.Unmarshal(scope, &want) != nil || want.Project == nil {
		return Project{}, false
	}
	for _, p := range projects {
		if want.Project.ID == p.ID || want.Project.ID == "" && want.Project.Name == p.Name && want.Project.Domain.isDefault() {
			return p, true
		}
	}
	return Project{}, false
}

// describe returns the answer both to issuing and to reading a token.
func (k *keystone) describe(r *request, status int, id string, t token) *answer {
	domain := map[string]string{"id": "default", "name": "Default"}
	body := map[string]any{
		"methods":    []string{t.method},
		"user":       map[string]any{"id": t.user.id, "name": t.user.name, "domain": domain, "password_expires_at": nil},
		"project":    map[string]any{"id": t.project.ID, "name": t.project.Name, "domain": domain},
		"is_domain":  false,
		"roles":      k.roles(t.project),
		"audit_ids":  []string{t.audit},
		"issued_at":  t.issued.UTC().Format(keystoneTime),
		"expires_at": t.expires.UTC().Format(keystoneTime),
	}
	// keystonemiddleware asks without the catalog, because it does not use it.
	if !r.URL.Query().Has("nocatalog") {
		body["catalog"] = k.catalog(r.base)
	}
	a := jsonAnswer(status, map[string]any{"token": body})
	a.header.Set("X-Subject-Token", id)
	a.header.Set("Vary", "X-Auth-Token")
	if r.Method == http.MethodHead {
		a.body = nil
	}
	return a
}

// roles returns the roles that a user has in the project, including those that they imply
// after Keystone's bootstrap.
func (k *keystone) roles(p Project) []map[string]string {
	names := []string{"member", "reader"}
	if p.Admin {
		names = append([]string{"admin"}, names...)
	}
	var roles []map[string]string
	for _, n := range names {
		roles = append(roles, map[string]string{"id": k.id(n), "name": n})
	}
	return roles
}

// catalog returns endpoints at the address that the request came to, so that they are right
// behind a test's own listener too.
func (k *keystone) catalog(base string) []any {
	service := func(kind, name string, url func(Region) string) any {
		var endpoints []any
		for _, region := range *k.regions.Load() {
			for _, i := range interfaces {
				endpoint := map[string]any{"id": k.id(kind + i + region.Name), "interface": i, "region": nil, "region_id": nil, "url": url(region)}
				if region.Name != "" {
					endpoint["region"], endpoint["region_id"] = region.Name, region.Name
				}
				endpoints = append(endpoints, endpoint)
			}
		}
		return map[string]any{"id": k.id(kind), "type": kind, "name": name, "endpoints": endpoints}
	}
	return []any{
		service("identity", "keystone", func(Region) string { return base + "/identity" }),
		service("network", "neutron", func(r Region) string { return base + "/" + networkPrefix(r.Neutron) }),
	}
}

// identityVersion is part of both the list of versions and the document of v3. Clients read
// id, status and the self link.
func identityVersion(base string) map[string]any {
	return map[string]any{
		"id":      "v3.14",
		"status":  "stable",
		"updated": "2020-04-07T00:00:00Z",
		"links":   []any{map[string]string{"rel": "self", "href": base + "/identity/v3/"}},
		"media-types": []any{map[string]string{
			"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

// keystoneError returns an error in the form of Keystone and of its middleware in Neutron.
func keystoneError(r *request, status int, message string) *answer {
	a := jsonAnswer(status, keystoneBody(status, http.StatusText(status), message))
	if status == http.StatusUnauthorized {
		a.header.Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", r.base+"/identity/v3"))
	}
	return a
}

func keystoneBody(status int, title, message string) any {
	return map[string]any{"error": map[string]any{"code": status, "title": title, "message": message}}
}
