// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// enough failures in a row open the circuit.
	enough = 5
	// probing is the least time between a failure and the next probe.
	probing = time.Second
)

// circuit is an http.RoundTripper that protects an unavailable Neutron from many workers.
// After enough failures in a row it answers with the last failure at once, and lets one
// request per second through as a probe. One good answer to any request closes it. A 4xx
// is a good answer: it is about the request, not about Neutron. A 5xx to the change of an
// object is no sign of either: it can be about that object only, for as long as the object
// exists. A sync reads before it tries such a change again, and that read counts. The circuit
// also bounds how many requests are under way, and lets no request through that has waited
// for its turn until the circuit was open.
//
// sony/gobreaker would not make it shorter: it keeps neither the last failure nor the time of
// the first one, and ignores the good answer to a request that was sent before it opened.
type circuit struct {
	base   http.RoundTripper
	turns  *semaphore.Weighted // one for each request under way
	meter  Meter
	opened func() // called when the circuit opens; may be nil

	mu       sync.Mutex
	underWay int
	answered bool      // at least once
	failures int       // in a row
	since    time.Time // the first of them; zero if there is none
	latest   time.Time // the last of them, or the last probe
	last     error
}

func (c *circuit) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := c.admit(request.Context()); err != nil {
		return nil, err
	}
	isAnswered := false
	defer func() {
		if !isAnswered { // base has panicked, or its goroutine has exited
			c.ended(errNotSent, true)
		}
	}()
	response, err := c.base.RoundTrip(request)
	isAnswered = true
	if err != nil {
		c.ended(err, isCanceled(request))
		return nil, err
	}
	isFailure := response.StatusCode >= http.StatusInternalServerError
	if isFailure {
		err = fmt.Errorf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	isAboutObject := isFailure && isChange(request.Method, request.URL.Path)
	// A body that is cut short is a failure too.
	response.Body = &watchedBody{ReadCloser: response.Body, err: err, closed: func(err error) {
		c.ended(err, isAboutObject || isCanceled(request))
	}}
	return response, nil
}

var errNotSent = errors.New("the request has ended without an answer")

// isCanceled reports whether the caller has cancelled the request, which is not a failure of Neutron.
func isCanceled(request *http.Request) bool {
	return errors.Is(request.Context().Err(), context.Canceled)
}

// isChange reports whether a request changes an object of Neutron.
func isChange(method, path string) bool {
	return method != http.MethodGet && operationOf(method, path) != authenticate
}

// unsentError is the last failure of others, for a request that was not sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// admit waits for a turn. It returns the last failure if the circuit is open, and the
// context's error if ctx is done first.
func (c *circuit) admit(ctx context.Context) error {
	began := time.Now()
	err := c.turns.Acquire(ctx, 1)
	if err == nil {
		if err := c.enter(); err != nil {
			c.turns.Release(1)
			return err // at once, so this wait is not counted
		}
	}
	c.meter.CountWait(ForConnection, time.Since(began))
	return err
}

// enter counts a request that is let through. While another one is under way no probe is
// needed, so a Neutron that hangs holds up only one caller.
func (c *circuit) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures >= enough {
		if c.underWay > 0 || time.Since(c.latest) < probing {
			return unsentError{c.last}
		}
		c.latest = time.Now() // so that a probe that is cancelled counts too
	}
	c.underWay++
	return nil
}

// ended counts the outcome of an admitted request, unless a failure tells nothing about Neutron, and then
// passes its turn on.
func (c *circuit) ended(err error, tellsNothing bool) {
	if c.count(err, tellsNothing) == enough && c.opened != nil {
		c.opened()
	}
	c.turns.Release(1)
}

// count returns the number of failures in a row, including this one, and 0 if this is not a
// failure of Neutron.
func (c *circuit) count(err error, tellsNothing bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	switch {
	case err == nil:
		c.answered, c.failures, c.since = true, 0, time.Time{}
		return 0
	case tellsNothing:
		return 0
	}
	c.latest, c.last = time.Now(), err
	if c.failures == 0 {
		c.since = c.latest
	}
	c.failures++
	return c.failures
}

// away returns since when all answers have been failures, zero if the last one was good, and
// reports whether that is an outage.
func (c *circuit) away() (since time.Time, isOutage bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.failures >= enough || c.failures > 0 && !c.answered
}
