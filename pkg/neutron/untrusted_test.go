// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/testing/tlsserver"
)

// hidden is what only those may read who may reach the server.
const hidden = "vault-bastion"

// untrustedBy returns the error of a Client whose clouds.yaml somebody else has written.
func untrustedBy(t *testing.T, authURL string, change ...func(*Config)) string {
	t.Helper()
	config, err := ParseConfig("c", fmt.Appendf(nil, `clouds: {c: {auth: {auth_url: %q, username: u, password: p, project_name: p, user_domain_name: d, project_domain_name: d}}}`, authURL))
	noError(t, err)
	config.Untrusted = true
	for _, c := range change {
		c(&config)
	}
	_, err = newTestClient(t, config, ClientOptions{Timeout: time.Minute}).ListNetworks(t.Context(), "cluster")
	if err == nil || ReasonOf(err) != Unavailable && ReasonOf(err) != Unauthenticated {
		t.Fatalf("got %v", err)
	}
	return err.Error()
}

// greeter is a server that sends a text to each client, as those of SSH and SMTP do.
func greeter(t *testing.T, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte(text))
			_ = connection.Close()
		}
	}()
	return "http://" + listener.Addr().String() + "/v3"
}

// catalog is a Keystone on that address of loopback, whose Neutron has that URL.
func catalog(t *testing.T, address, neutron string) string {
	t.Helper()
	listener, err := net.Listen("tcp", address+":0")
	noError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("X-Subject-Token", "token")
			reply(w, http.StatusCreated, fmt.Sprintf(`{"token": {"project": {"id": "p"}, "catalog": [{"type": "network", "endpoints": [{"interface": "public", "region": "r", "region_id": "r", "url": %q}]}]}}`, neutron))
		}
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + "/v3"
}

func TestNothingCanBeReadThroughTheCloudOfASecret(t *testing.T) {
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, status, body) }))
		t.Cleanup(server.Close)
		return server.URL + "/v3"
	}
	trusted := tlsserver.NewAuthority(t)
	secure := tlsserver.New(t, trusted, http.NotFoundHandler())
	const fixed = "authenticate: no connection, or the server does not speak the protocol of the URL"
	for _, test := range []struct{ name, authURL, want string }{
		{"SSH", greeter(t, "SSH-2.0-"+hidden+"\r\n"), fixed},
		{"a status line", greeter(t, "HTTP/1.1 "+hidden+" 200\r\n\r\n"), fixed},
		{"a header", greeter(t, "HTTP/1.1 200 OK\r\n"+hidden+"\r\n\r\n"), fixed},
		{"a length", greeter(t, "HTTP/1.1 403 No\r\nContent-Length: "+hidden+"\r\n\r\n"), fixed},
		{"TLS without TLS", strings.Replace(greeter(t, "SSH-2.0-"+hidden+"\r\n"), "http:", "https:", 1), fixed},
		{"an error of another service", answer(403, `{"error": {"title": "Forbidden", "message": "`+hidden+`"}}`), "authenticate: Forbidden"},
		{"an error of another service, without a title", answer(400, `{"error": {"message": "`+hidden+`"}}`), "authenticate: 400 Bad Request"},
		{"an error that is a text", answer(500, `{"error": "`+hidden+`"}`), "authenticate: 500 Internal Server Error"},
		{"a redirect", answer(307, `{"error": {"message": "`+hidden+`"}}`), "authenticate: 307 Temporary Redirect"},
		{"versions that are an error", answer(300, `{"error": {"message": "`+hidden+`"}}`), ""},
		{"a page", answer(401, hidden), "authenticate: Unauthorized"},
		{"an unknown status", answer(599, hidden), "authenticate: 599"},
		{"JSON that is no token", answer(201, `{"`+hidden+`": 1}`), ""},
		{"text that is no token", answer(201, hidden), ""},
		{"another service in the catalog", catalog(t, "127.0.0.1", answer(400, `{"error": {"title": "t", "message": "`+hidden+`"}}`)), ""},
		{"SSH in the catalog", catalog(t, "127.0.0.1", greeter(t, "SSH-2.0-"+hidden+"\r\n")), ""},
		{"JSON in the catalog", catalog(t, "127.0.0.1", strings.TrimSuffix(answer(200, `{"`+hidden+`": 1}`), "/v3")), ""},
		{"JSON with an ID in the catalog", catalog(t, "127.0.0.1", strings.TrimSuffix(answer(200, `{"id": "`+hidden+`"}`), "/v3")), ""},
		{"a text in place of a list", catalog(t, "127.0.0.1", strings.TrimSuffix(answer(200, `"`+hidden+`"`), "3")+"2/foo?x="), "list networks: invalid list of networks: the answer is not OpenStack's"},
		{"a text in place of items", catalog(t, "127.0.0.1", strings.TrimSuffix(answer(200, `{"networks": "`+hidden+`"}`), "3")+"2/foo?x="), "list networks: invalid list of networks: the answer is not OpenStack's"},
		{"a redirect to what is no URL", greeter(t, "HTTP/1.1 307 No\r\nLocation: /%zz"+hidden+"\r\nContent-Length: 0\r\n\r\n"), ""},
		{"credentials without a domain", answer(200, `{"`+hidden+`": 1}`), "authenticate: You must provide exactly one of DomainID or DomainName to authenticate by Username"},
		{"an unknown authority", secure.URL + "/v3", "authenticate: the server's certificate is not signed by a known authority"},
		{"nothing listens", "http://127.0.0.1:1/v3", "authenticate: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := untrustedBy(t, test.authURL, func(c *Config) {
				if strings.Contains(test.name, "without a domain") {
					c.Auth.DomainName = ""
				}
			})
			if strings.Contains(got, hidden) || test.want != "" && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Users need to know what Neutron itself says.
func TestWhatIsQuotedOfTheCloudOfASecret(t *testing.T) {
	for body, want := range map[string]Error{
		neutronBody("PolicyNotAuthorized", "not allowed"):                             {Op: "list networks", Reason: Forbidden, Message: "not allowed"},
		`{"error": {"code": 403, "title": "Forbidden", "message": "` + hidden + `"}}`: {Op: "list networks", Reason: Forbidden, Message: "Forbidden"},
		`{"error": "` + hidden + `"}`:                                                 {Op: "list networks", Reason: Unavailable, Message: "403 Forbidden"},
		hidden:                                                                        {Op: "list networks", Reason: Unavailable, Message: "403 Forbidden"},
	} {
		c := clientOf(untrusted{roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})})
		_, err := c.ListNetworks(t.Context(), "cluster")
		want.status = http.StatusForbidden
		wantError(t, want, err)
	}
}

func TestASecretDoesNotLeadToADeniedNetwork(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	noError(t, err)
	deny := func(c *Config) {
		c.Denied = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		if got := untrustedBy(t, "http://"+host+":"+port+"/v3", deny); got != "authenticate: "+errDenied.Error() {
			t.Errorf("%s: %s", host, got)
		}
	}
	if reached {
		t.Error("there was a connection")
	}
	// The Keystone is at another address, and its catalog leads to this one.
	only := func(c *Config) { c.Denied = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }
	if got := untrustedBy(t, catalog(t, "127.0.0.2", server.URL), only); !strings.HasPrefix(got, findNeutron) || !strings.HasSuffix(got, errDenied.Error()) {
		t.Errorf("got %q", got)
	}
	// A proxy may be in such a network.
	connection, err := dialExcept([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})(context.WithValue(t.Context(), proxied{}, true), "tcp", server.Listener.Addr().String())
	noError(t, err)
	noError(t, connection.Close())
}
