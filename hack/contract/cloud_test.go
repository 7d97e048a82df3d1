// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

// account is one user of a cloud, with a token.
type account struct {
	name, password  string
	token           string
	project         string
	neutron, v3auth string // base URLs of requests, with a slash at the end
}

// cloud is a Neutron with its Keystone, and the users that a script can name.
type cloud struct {
	kind     string
	accounts map[string]*account
	// preparations are the ones of rows that share them, by their requests.
	preparations sync.Map
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect logs in all users of a clouds.yaml.
func connect(t *testing.T, kind string, cloudsYAML []byte) *cloud {
	t.Helper()
	c := &cloud{kind: kind, accounts: map[string]*account{}}
	for user, entry := range map[string]string{"": realneutron.Cloud, "other": realneutron.OtherCloud, "admin": realneutron.AdminCloud} {
		auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(entry), clouds.WithCloudsYAML(bytes.NewReader(cloudsYAML)))
		must(t, err)
		provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
		if err != nil {
			t.Fatalf("log in to the %s Neutron as %s: %v", kind, entry, err)
		}
		client, err := openstack.NewNetworkV2(provider, endpoint)
		must(t, err)
		c.accounts[user] = &account{auth.Username, auth.Password, provider.Token(), projectOf(t, provider),
			client.ServiceURL(), strings.TrimSuffix(auth.IdentityEndpoint, "/") + "/"}
	}
	c.addStrangers(t)
	return c
}

func projectOf(t *testing.T, provider *gophercloud.ProviderClient) string {
	t.Helper()
	project, err := provider.GetAuthResult().(tokens.CreateResult).ExtractProject()
	must(t, err)
	return project.ID
}

// addStrangers adds the users that Neutron refuses. The real Neutron caches a token for
// some minutes after it was revoked, so this token is revoked before Neutron has seen it.
func (c *cloud) addStrangers(t *testing.T) {
	t.Helper()
	member := *c.accounts[""]
	nobody, forged, revoked := member, member, member
	nobody.token, forged.token = "", "gAAAAABforged"
	login := fmt.Sprintf(`{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %q, "domain": {"id": "default"}, "password": %q}}}}}`,
		member.name, member.password)
	resp, _ := send(t, "POST", member.v3auth+"auth/tokens", login, nil)
	revoked.token = resp.Header.Get("X-Subject-Token")
	send(t, "DELETE", member.v3auth+"auth/tokens", "", http.Header{"X-Auth-Token": {revoked.token}, "X-Subject-Token": {revoked.token}})
	c.accounts["nobody"], c.accounts["forged"], c.accounts["revoked"] = &nobody, &forged, &revoked
}

// client does not reuse connections: the real Neutron binds each connection to one worker,
// and a worker has few connections. A request without an answer within the timeout is never
// answered.
var client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// send sends one request and reads the whole answer.
func send(t *testing.T, method, url, body string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	for range 5 {
		// Neutron refuses a long request line before it has read all of it, and the connection
		// may be closed before the client sees the answer.
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) || method != http.MethodGet {
			break
		}
		resp, err = client.Do(req)
	}
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, raw
}

// decode decodes an answer's body; nil: it is not a JSON object.
func decode(raw []byte) map[string]any {
	var body map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&body) != nil {
		return nil
	}
	return body
}
