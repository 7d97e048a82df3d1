// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"sync"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/pipes"
)

// cloud is the OpenStack of a simulation. Controllers reach it over connections in memory; users and strangers
// call it.
type cloud struct {
	*embedded.Server
	shared   *shared
	host     string
	password string
	http     *http.Server
	tokens   sync.Map // by user
	// last is the last snapshot, of these versions.
	mu       sync.Mutex
	last     *oracle.Snapshot
	versions oracle.Versions
}

func newCloud(w *shared) *cloud {
	public := embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}
	projects := []embedded.Project{{Name: "samplecrd", ID: "project-1", Password: "secret"}, {Name: "admin", Password: "secret", Admin: true}}
	for _, name := range append(tenants, elsewhere) {
		projects = append(projects, embedded.Project{Name: name, ID: name, Password: "secret"})
	}
	c := &cloud{shared: w, password: "secret", last: &oracle.Snapshot{}, Server: embedded.New(embedded.Options{
		Projects:        projects,
		ExternalNetwork: public, NewID: w.newID,
	})}
	c.SetFault(w.faultInNeutron)
	listener := pipes.Listen(fmt.Sprint("seed-", w.seed))
	c.host, c.http = listener.Addr().String(), &http.Server{Handler: c}
	go func() { _ = c.http.Serve(listener) }()
	return c
}

func (c *cloud) close() {
	_ = c.http.Close()
	_ = c.Server.Close()
}

// placeless matches what a clouds.yaml says about the place.
var placeless = regexp.MustCompile(`(?m)^ *(region_name|project_name|project_domain_name):.*\n`)

// yaml returns the clouds.yaml of the controllers. It leaves the region and the project to Keystone.
func (c *cloud) yaml() []byte {
	content := bytes.ReplaceAll(c.CloudsYAML("test"), []byte(`"/identity`), []byte(`"http://`+c.host+`/identity`))
	return placeless.ReplaceAll(content, nil)
}

// ServeHTTP answers a request of a controller. The oracle sees it before.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has ended
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if deed, judge := c.shared.arrived(r, body); deed != nil {
		defer judge.answered(deed)
	}
	c.Server.ServeHTTP(w, r)
}

// do sends a request of a user to Neutron, and decodes the answer if answer is not nil.
func (c *cloud) do(method, path string, body, answer any) error {
	return c.send("samplecrd", method, path, body, answer)
}

// byAdmin is do for an administrator.
func (c *cloud) byAdmin(method, path string, body, answer any) error {
	return c.send("admin", method, path, body, answer)
}

func (c *cloud) send(user, method, path string, body, answer any) error {
	response := c.call(method, "/networking/v2.0/"+path, c.token(user, false), body)
	if response.Code == http.StatusUnauthorized { // it was revoked
		response = c.call(method, "/networking/v2.0/"+path, c.token(user, true), body)
	}
	if response.Code >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %d %s", method, path, response.Code, response.Body)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(response.Body.Bytes(), answer)
}

// token returns a token of the user.
func (c *cloud) token(user string, isNew bool) string {
	if token, ok := c.tokens.Load(user); ok && !isNew {
		return token.(string)
	}
	token := c.call(http.MethodPost, "/identity/v3/auth/tokens", "", authentication(user, c.password)).Header().Get("X-Subject-Token")
	c.tokens.Store(user, token)
	return token
}

func (c *cloud) call(method, path, token string, body any) *httptest.ResponseRecorder {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are literals
	}
	r := httptest.NewRequest(method, "http://"+c.host+path, bytes.NewReader(data))
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	c.Server.ServeHTTP(response, r)
	return response
}

type object map[string]any

func authentication(user, password string) object {
	domain := object{"name": "Default"}
	return object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{"user": object{"name": user, "domain": domain, "password": password}}},
		"scope":    object{"project": object{"name": user, "domain": domain}},
	}}
}

// create creates an object as a user, and returns its ID.
func (c *cloud) create(kind string, fields object) (string, error) {
	var answer map[string]struct{ ID string }
	err := c.do(http.MethodPost, kind+"s", object{kind: fields}, &answer)
	return answer[kind].ID, err
}

// change changes an object of any project.
func (c *cloud) change(kind, id string, fields object) error {
	return c.byAdmin(http.MethodPut, kind+"s/"+id, object{kind: fields}, nil)
}

// snapshot returns all that Neutron has. Callers must not change it: only what has changed since the last one is read again.
func (c *cloud) snapshot() *oracle.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := c.Versions()
	if maps.EqualFunc(versions, c.versions, maps.Equal) {
		return c.last
	}
	halves := map[string]bool{}
	for _, i := range c.Interfaces() {
		halves[i.PortID] = i.Half
	}
	get := func(path string, answer any) error { return c.byAdmin(http.MethodGet, path, nil, answer) }
	s, err := c.last.Update(get, func(port string) bool { return halves[port] }, c.versions, versions)
	if err != nil {
		panic(err) // nothing spoils the requests of users
	}
	c.last, c.versions = s, versions
	return s
}
