// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Fault describes what goes wrong with one request. The zero value changes nothing.
type Fault struct {
	// After lets the request take effect first: only its answer is lost, delayed or
	// replaced. Without After, a request that is dropped, hangs or is answered with Status
	// has no effect.
	After bool
	// Half ends the request where a worker of the real Neutron can die: between the port of an
	// interface and its attachment, between a router and its gateway (POST and DELETE), and between
	// the gateway and the other attributes (PUT). Any other request takes effect. The answer is lost:
	// the connection is closed, unless Hang or Status says otherwise.
	Half bool
	// Twice lets the request take effect first, and once more beside itself, as After does otherwise: the client or a proxy
	// has sent it again, and two workers of the real Neutron handle both at the same moment. Each checks a new subnet
	// against those that are stored. So a network that has a subnet gets two more of one CIDR; one without a subnet
	// gets one, because its lock (NetworkSubnetLock) is new too. The second request is ignored if Neutron refuses it. The answer
	// is that of the first one.
	Twice bool
	// Delay is how long to wait before anything else, or with After, Half or Twice, before answering. If
	// the client disconnects meanwhile, the wait ends; the request then has no effect,
	// except with After, Half or Twice.
	Delay time.Duration
	// Hang sends no answer until the client disconnects or the server is closed. It takes
	// precedence over Drop and Status.
	Hang bool
	// Drop closes the connection instead of answering. It takes precedence over Status. A
	// direct call of ServeHTTP then panics with http.ErrAbortHandler, which net/http
	// expects.
	Drop bool
	// Status, if not 0, is the answer's status. The body has Type and Message in Neutron's
	// form, or in Keystone's if the request is for Keystone, where Type is the title. Without a
	// Type, Message is the whole body, as plain text.
	Status  int
	Type    string
	Message string
	// RetryAfter is sent with Status, rounded up to whole seconds. 0: the header is not
	// sent.
	RetryAfter time.Duration
}

func (f *Fault) answer(r *http.Request) *answer {
	a := &answer{status: f.Status, header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}}, body: []byte(f.Message)}
	switch prefix, _, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/"); {
	case f.Type != "" && prefix == identityPrefix:
		a = jsonAnswer(f.Status, keystoneBody(f.Status, f.Type, f.Message))
	case f.Type != "":
		a = (&failure{f.Status, f.Type, f.Message}).answer()
	}
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		a.header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return a
}

// SetFault sets a function that is called for every request, Keystone's too, before the
// request is handled. The Fault that choose returns, if not nil, happens to the request.
// choose may read the request's body, and must be safe for concurrent use. nil: no faults.
func (s *Server) SetFault(choose func(*http.Request) *Fault) { s.fault.Store(&choose) }

func (s *Server) faultFor(r *http.Request, body []byte) *Fault {
	choose := s.fault.Load()
	if choose == nil || *choose == nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return (*choose)(r)
}

// Request describes one request that was answered.
type Request struct {
	// Service is "identity" or "network".
	Service string
	// Neutron is the name of the Neutron; "" for the one that every Server has, and for Keystone.
	Neutron string
	Method  string
	// Path is relative to the service, such as v2.0/networks or v3/auth/tokens.
	Path  string
	Query url.Values
	// UserAgent is that of the client.
	UserAgent string
	// Status is the status of the answer; 0: the connection was closed without one.
	Status int
}

// Observe sets a function that is called for each request after its answer is known and
// before the answer is sent, so a client never has an answer that see has not been called
// for. see must be safe for concurrent use. nil: no function.
func (s *Server) Observe(see func(Request)) { s.observe.Store(&see) }

func (s *Server) report(r *http.Request, a *answer) {
	see := s.observe.Load()
	if see == nil || *see == nil {
		return
	}
	prefix, path, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	seen := Request{Service: "identity", Method: r.Method, Path: path, Query: r.URL.Query(), UserAgent: r.UserAgent()}
	if name, ok := neutronName(prefix); ok {
		seen.Service, seen.Neutron = "network", name
	}
	if a != nil {
		seen.Status = a.status
	}
	(*see)(seen)
}
