// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// agent is the start of the controller's User-Agent, for Kubernetes and for OpenStack.
const agent = "samplecrd-controller/"

// counts has the number of requests of each kind, such as "POST networks" to Neutron or
// "patch networks/status" to Kubernetes.
type counts map[string]int

// tally counts requests. It is safe for concurrent use.
type tally struct {
	mu    sync.Mutex
	since counts
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = counts{}
	}
	t.since[what]++
}

// take returns the counts since the last call of take.
func (t *tally) take() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.since
	t.since = nil
	return taken
}

// peek returns the same as take, but does not reset the counts.
func (t *tally) peek() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.since)
}

// proxy passes the controller's requests on to the API server. It counts a request when it
// arrives, so a request whose effect a test sees has been counted.
type proxy struct {
	tally
	// refused counts the requests that were answered with 403.
	refused tally
	// slow is a kind of request that is delayed by slowness; "" delays none.
	slow atomic.Value
	url  string
}

// slowness is long for a request, and short for a test.
const slowness = 500 * time.Millisecond

// newProxy starts a proxy that uses config for its requests to the API server.
func newProxy(t *testing.T, config *rest.Config) *proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch is of no use in a buffer
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusForbidden {
				p.refused.add(kubernetesRequest(r.Request))
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), agent) {
			p.add(kubernetesRequest(r))
		}
		if kubernetesRequest(r) == p.slow.Load() {
			// net/http notices that a client has disconnected only after the body is read.
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			select {
			case <-time.After(slowness):
			case <-r.Context().Done():
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// kubernetesRequest returns the verb, the resource and the subresource, as in a Role.
func kubernetesRequest(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	default:
		return strings.ToLower(r.Method) + " " + r.URL.Path
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	resource, named := strings.Join(parts[:min(1, len(parts))], ""), len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return verb(r, named) + " " + resource
}

func verb(r *http.Request, named bool) string {
	switch {
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method != http.MethodGet || named:
		return strings.ToLower(r.Method)
	case r.URL.Query().Has("watch"):
		return "watch"
	}
	return "list"
}

// neutronRequest returns the method and the collection, with /* for one of its items;
// "" for a request that is not for Neutron but for Keystone.
func neutronRequest(r *http.Request) string {
	path, ok := strings.CutPrefix(r.URL.Path, "/networking/v2.0/")
	if !ok {
		return ""
	}
	collection, _, item := strings.Cut(path, "/")
	if item {
		collection += "/*"
	}
	return r.Method + " " + collection
}
