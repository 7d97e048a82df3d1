// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	for _, test := range []struct {
		name, method, path string
		change             func(*lab)
		code               int
		says               string
	}{
		{"alive", "GET", "/healthz", nil, 200, "ok\n"},
		{"alive, though not ready", "GET", "/healthz", notReady, 200, "ok\n"},
		{"ready", "GET", "/readyz", ready, 200, "[+]networks ok\n[+]deployments ok\n"},
		{"nothing is ready yet", "GET", "/readyz", nil, 503, "[-]networks: starting\n[-]deployments: starting\n"},
		{"one is not ready", "GET", "/readyz", notReady, 503, "[-]networks: not listed yet\n[+]deployments ok\n"},
		{"another method", "POST", "/readyz", ready, 405, ""},
		{"profiles are off", "GET", "/debug/pprof/", nil, 404, ""},
		{"profiles", "GET", "/debug/pprof/", profiled, 200, "goroutine"},
		{"a profile by name", "GET", "/debug/pprof/heap?debug=1", profiled, 200, "heap profile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.routes.Readiness = NewReadiness("networks", "deployments")
			if test.change != nil {
				test.change(l)
			}
			response := l.ask(NewHandler(l.routes), test.method, test.path)
			body := l.body(response)
			equal(t, test.code, response.StatusCode)
			if !strings.Contains(body, test.says) {
				t.Errorf("%q does not contain %q", body, test.says)
			}
		})
	}
}

func ready(l *lab) {
	l.routes.Readiness.Set("networks", nil)
	l.routes.Readiness.Set("deployments", nil)
}

func notReady(l *lab) {
	ready(l)
	l.routes.Readiness.Set("networks", errors.New("not listed yet"))
}

func profiled(l *lab) { l.routes.Profiled = true }

func anotherLeads(l *lab) { l.routes.Leads = func() bool { return false } }

func TestOnlyTheLeaderListsOrphans(t *testing.T) {
	l := newLab(t)
	anotherLeads(l)
	response := l.ask(NewHandler(l.routes), "GET", "/orphans", bearer(right))
	equal(t, http.StatusServiceUnavailable, response.StatusCode)
	equal(t, "5", response.Header.Get("Retry-After"))
	if body := l.body(response); !strings.Contains(body, `the leader is "pod-1"`) {
		t.Errorf("it does not name the leader: %q", body)
	}
	l.routes.Leads = func() bool { return true }
	equal(t, http.StatusOK, l.ask(NewHandler(l.routes), "GET", "/orphans", bearer(right)).StatusCode)
}
