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

package embedded

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Fault is what shall go wrong with one request. The zero value changes nothing.
type Fault struct {
	// After lets the request take effect first: only its answer is lost, late or
	// replaced. Without it, a request that is dropped, hung or answered with Status
	// has no effect.
	After bool
	// Delay is waited before anything else (with After: before answering). A client
	// that goes away meanwhile ends the wait; its request then has no effect (with
	// After: had it already).
	Delay time.Duration
	// Hang answers nothing until the client goes away or the server is closed. It
	// wins over Drop and Status.
	Hang bool
	// Drop cuts the connection instead of answering. It wins over Status. For who
	// calls ServeHTTP, cutting is panic(http.ErrAbortHandler), which net/http expects.
	Drop bool
	// Status, if not 0, is answered instead, with Type and Message in the body as
	// Neutron has them; without a Type, Message is the whole body, as plain text.
	Status  int
	Type    string
	Message string
	// RetryAfter, rounded up to whole seconds, is sent with Status; 0: not sent.
	RetryAfter time.Duration
}

func (f *Fault) answer() *answer {
	a := &answer{status: f.Status, header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}, body: []byte(f.Message)}
	if f.Type != "" {
		a = (&failure{f.Status, f.Type, f.Message}).answer()
	}
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		a.header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return a
}

// SetFault has choose called for every request, Keystone's among them, before it is
// looked at; the Fault it returns, if any, happens to the request. choose may read
// the request's body, and must be safe for concurrent use. nil: no faults.
func (s *Server) SetFault(choose func(*http.Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = choose
}

func (s *Server) faultFor(r *http.Request, body []byte) *Fault {
	s.mu.RLock()
	choose := s.fault
	s.mu.RUnlock()
	if choose == nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return choose(r)
}

// Request tells of one request that was answered.
type Request struct {
	// Service is "identity" or "network".
	Service string
	Method  string
	// Path is relative to the service, such as v2.0/networks or v3/auth/tokens.
	Path  string
	Query url.Values
	// Status is what was answered; 0: the connection was cut.
	Status int
}

// Observe has see called for each request once its answer is known and before the
// answer is sent: a client that has its answer has been counted. see must be safe
// for concurrent use. nil: none.
func (s *Server) Observe(see func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = see
}

func (s *Server) report(r *http.Request, a *answer) {
	s.mu.RLock()
	see := s.observe
	s.mu.RUnlock()
	if see == nil {
		return
	}
	prefix, path, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	seen := Request{Service: "identity", Method: r.Method, Path: path, Query: r.URL.Query()}
	if prefix == "networking" {
		seen.Service = "network"
	}
	if a != nil {
		seen.Status = a.status
	}
	see(seen)
}
