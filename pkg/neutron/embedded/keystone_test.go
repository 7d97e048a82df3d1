// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// endpoints returns a line for each public endpoint in the catalog of a new token.
func endpoints(t *testing.T, s *Server) (lines []string) {
	t.Helper()
	r := login(t, s, "samplecrd", "right")
	r.want(t, http.StatusCreated)
	var body struct {
		Token struct {
			Catalog []struct {
				Type      string
				Endpoints []struct {
					ID, Interface, URL string
					Region             *string
					RegionID           *string `json:"region_id"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.raw), &body); err != nil {
		t.Fatal(err)
	}
	for _, service := range body.Token.Catalog {
		for _, e := range service.Endpoints {
			if len(e.ID) != 32 || (e.Region == nil) != (e.RegionID == nil) || e.Region != nil && *e.Region != *e.RegionID {
				t.Errorf("got %+v", e)
			}
			region := "no region"
			if e.Region != nil {
				region = *e.Region
			}
			if e.Interface == "public" {
				lines = append(lines, service.Type+" in "+region+": "+strings.TrimPrefix(e.URL, s.URL()))
			}
		}
	}
	return lines
}

// unscoped returns the ID of the project of a new token without a scope, and the token.
func unscoped(t *testing.T, s *Server) (project, token string) {
	t.Helper()
	r := (&client{t: t, s: s}).do("POST", "/identity/v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],
		"password":{"user":{"name":"samplecrd","domain":{"name":"Default"},"password":"right"}}}}}`)
	r.want(t, http.StatusCreated)
	id, _ := r.json(t)["token"].(map[string]any)["project"].(map[string]any)["id"].(string)
	return id, r.header.Get("X-Subject-Token")
}

func startWith(t *testing.T) *Server {
	t.Helper()
	return start(t, Options{Projects: []Project{{Name: "samplecrd", ID: "p1", Password: "right"}, {Name: "other", ID: "p2"}}})
}

func TestEachRegionHasANeutron(t *testing.T) {
	s := startWith(t)
	same(t, []string{"identity in RegionOne: /identity", "network in RegionOne: /networking"}, endpoints(t, s))
	c := as(t, s, "samplecrd")
	c.api("POST", "networks", `{"network":{"name":"first"}}`).want(t, 201)

	s.SetRegions(Region{Name: "Two", Neutron: "two"}, Region{Name: "RegionOne"}, Region{})
	same(t, []string{"identity in Two: /identity", "identity in RegionOne: /identity", "identity in no region: /identity",
		"network in Two: /networking-two", "network in RegionOne: /networking", "network in no region: /networking"}, endpoints(t, s))
	c.do("GET", "/networking-two/v2.0/networks", "").lacks(t, "first")
	c.do("POST", "/networking-two/v2.0/networks", `{"network":{"name":"second"}}`).want(t, 201)
	c.api("GET", "networks", "").lacks(t, "second")
	c.do("GET", "/networking-three/v2.0/networks", "").want(t, 404)
	if r := c.do("GET", "/networking-two/", ""); !strings.Contains(r.raw, s.URL()+"/networking-two/v2.0/") {
		t.Errorf("versions: %s", r.raw)
	}
	if yaml := string(s.CloudsYAML("x")); !strings.Contains(yaml, `region_name: "Two"`) {
		t.Errorf("got %s", yaml)
	}

	// A region gets another name, and another one goes.
	s.SetRegions(Region{Name: "Renamed", Neutron: "two"})
	same(t, []string{"identity in Renamed: /identity", "network in Renamed: /networking-two"}, endpoints(t, s))
	var all []string
	for _, n := range s.Networks() {
		all = append(all, fmt.Sprintf("%q %s %s", n.Neutron, n.ProjectID, n.Name))
	}
	same(t, []string{`"" p1 first`, `"two" p1 second`}, all)
}

func TestTheDefaultProjectOfAUserChanges(t *testing.T) {
	s := startWith(t)
	was, old := unscoped(t, s)
	if err := s.SetDefaultProject("samplecrd", "other"); err != nil {
		t.Fatal(err)
	}
	now, _ := unscoped(t, s)
	same(t, []string{"p1", "p2"}, []string{was, now})
	// The old token is still for the old project, and the user can still name it.
	(&client{t, s, old}).api("POST", "networks", `{"network":{}}`).want(t, 201)
	same(t, []string{"p1"}, []string{s.Networks()[0].ProjectID})
	login(t, s, "samplecrd", "right").want(t, 201)
	if s.SetDefaultProject("samplecrd", "nothing") == nil || s.SetDefaultProject("nobody", "other") == nil {
		t.Error("an unknown user or project is not an error")
	}
}

func TestAProjectIsMadeAgainUnderItsName(t *testing.T) {
	s := startWith(t)
	_, token := unscoped(t, s)
	c := &client{t, s, token}
	c.api("POST", "networks", `{"network":{"name":"first"}}`).want(t, 201)
	if err := s.RecreateProject("samplecrd", "p3"); err != nil {
		t.Fatal(err)
	}
	c.api("GET", "networks", "").want(t, 401)
	id, token := unscoped(t, s)
	same(t, []string{"p3"}, []string{id})
	(&client{t, s, token}).api("GET", "networks", "").lacks(t, "first")
	same(t, []string{"p1"}, []string{s.Networks()[0].ProjectID})
	if s.RecreateProject("nothing", "") == nil {
		t.Error("an unknown project is not an error")
	}
}

func TestOneTokenIsRevoked(t *testing.T) {
	s := startWith(t)
	c, other := as(t, s, "samplecrd"), as(t, s, "samplecrd")
	same(t, []bool{true, false}, []bool{s.RevokeToken(c.token), s.RevokeToken(c.token)})
	c.api("GET", "networks", "").want(t, 401)
	other.api("GET", "networks", "").want(t, 200)
}

func TestTokens(t *testing.T) {
	now := time.Now()
	s := start(t, Options{TokenTTL: time.Minute, Now: func() time.Time { return now }, Projects: []Project{{Name: "samplecrd", Password: "right"}}})
	check := func(why string, c *client, status int) {
		t.Helper()
		if r := c.api("GET", "networks", ""); r.status != status {
			t.Errorf("%s: %d %s, want %d", why, r.status, r.raw, status)
		}
	}
	c := as(t, s, "samplecrd")
	check("fresh token", c, 200)
	now = now.Add(time.Minute)
	check("expired token", c, 401)
	c = as(t, s, "samplecrd")
	s.RevokeTokens()
	check("revoked token", c, 401)
	c = as(t, s, "samplecrd")
	if err := s.SetPassword("samplecrd", "new"); err != nil {
		t.Fatal(err)
	}
	check("token of before the change of password", c, 401)
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
	byToken := `{"auth":{"identity":{"methods":["token"],"token":{"id":"` + c.token + `"}}%s}}`
	again := c.do("POST", path, fmt.Sprintf(byToken, ""))
	again.want(t, 201)
	c.do("POST", path, fmt.Sprintf(byToken, `,"scope":{"project":{"name":"admin","domain":{"id":"default"}}}`)).want(t, 401)
	c.do("DELETE", path, "", subject).want(t, 204)
	c.do("GET", path, "", subject).want(t, 401)
	c.token = again.header.Get("X-Subject-Token")
	c.api("GET", "networks", "").want(t, 200)
}
