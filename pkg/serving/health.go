// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
)

// Readiness is the set of conditions that a replica waits for before it works or stands by.
type Readiness struct {
	mu    sync.Mutex
	names []string
	waits map[string]error
}

var errStarting = errors.New("starting")

// NewReadiness returns a Readiness that waits for all of these names.
func NewReadiness(names ...string) *Readiness {
	r := &Readiness{names: names, waits: map[string]error{}}
	for _, name := range names {
		r.waits[name] = errStarting
	}
	return r
}

// Set sets the reason why name is not ready; nil means that it is ready. The name is one of those
// given to NewReadiness.
func (r *Readiness) Set(name string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits[name] = why
}

// ServeHTTP answers 200 if all names are ready, and else 503. The answer has a line for each name,
// as in Kubernetes' own /readyz.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text, ready := r.describe()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprint(w, text) // the caller may have gone away
}

func (r *Readiness) describe() (text string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	ready = true
	for _, name := range r.names {
		if why := r.waits[name]; why != nil {
			ready = false
			fmt.Fprintf(&b, "[-]%s: %v\n", name, why)
			continue
		}
		fmt.Fprintf(&b, "[+]%s ok\n", name)
	}
	return b.String(), ready
}

// healthz is for the kubelet: a process that answers is alive. A process that loses the Lease
// exits by itself.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok") // the caller may have gone away
}

// handleProfiles adds the routes of net/http/pprof.
func handleProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
