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

package neutron

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// enough failures in a row, without a good answer to anybody in between, mean that
	// it is not the requests.
	enough = 5
	// probing is how often one request is let through then.
	probing = time.Second
)

// circuit keeps many workers with many Networks from hammering a Neutron that is away:
// after enough failures in a row it answers with the last of them by itself, and lets
// one request a second through to see. One good answer, to whatever it was, and all
// pass again at once. Bad answers that are about their request alone (4xx) are good ones
// here.
//
// It also bounds how many requests are under way at the same time. Whoever has waited for a
// turn, and finds by then that there were enough failures, makes no request.
type circuit struct {
	base http.RoundTripper
	// turns are as many as there may be requests under way; nil: that is not bounded.
	turns *semaphore.Weighted
	// meter is told how long each request has waited for its turn.
	meter Meter
	// opened is called when there were enough failures; nil is nobody.
	opened func()

	mu       sync.Mutex
	underWay int
	failures int
	last     error
	// since is when the first of the failures happened.
	since     time.Time
	nextProbe time.Time
}

func (c *circuit) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := c.admit(request.Context()); err != nil {
		return nil, err
	}
	response, err := c.base.RoundTrip(request)
	if err != nil {
		c.ended(request, err)
		return nil, err
	}
	if response.StatusCode >= http.StatusInternalServerError {
		err = fmt.Errorf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	// An answer that does not come to its end is none.
	response.Body = &answerBody{ReadCloser: response.Body, err: err, ended: func(err error) { c.ended(request, err) }}
	return response, nil
}

// answerBody tells, when it is closed, how the answer was.
type answerBody struct {
	io.ReadCloser
	err   error
	ended func(error)
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.err == nil {
		b.err = err
	}
	return n, err
}

func (b *answerBody) Close() error {
	if b.ended != nil {
		defer b.ended(b.err)
		b.ended = nil
	}
	return b.ReadCloser.Close()
}

// ended counts a request that was admitted.
func (c *circuit) ended(request *http.Request, err error) {
	defer c.passOn()
	c.leave()
	switch {
	case err != nil && errors.Is(request.Context().Err(), context.Canceled):
		// It is the caller who went away.
	case err != nil:
		c.failed(err)
	default:
		c.succeeded()
	}
}

// admit waits for a turn, until ctx is done. It returns the last failure if the request has
// to stay.
func (c *circuit) admit(ctx context.Context) error {
	began := time.Now()
	if c.turns != nil {
		if err := c.turns.Acquire(ctx, 1); err != nil {
			c.meter.CountWait(ForConnection, time.Since(began))
			return err
		}
	}
	if err := c.enter(); err != nil {
		c.passOn()
		return err
	}
	c.meter.CountWait(ForConnection, time.Since(began))
	return nil
}

// passOn gives the turn to the next one.
func (c *circuit) passOn() {
	if c.turns != nil {
		c.turns.Release(1)
	}
}

// enter counts a request that is let through. While others are under way, there is no need
// for a probe: a Neutron that hangs holds up one caller only.
func (c *circuit) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.failures >= enough {
		if c.underWay > 0 || now.Before(c.nextProbe) {
			return c.last
		}
		c.nextProbe = now.Add(probing)
	}
	c.underWay++
	return nil
}

// leave is for a request that was admitted, and has ended.
func (c *circuit) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
}

func (c *circuit) failed(err error) {
	if c.count(err) == enough && c.opened != nil {
		c.opened()
	}
}

// count returns how many failures in a row it is with this one.
func (c *circuit) count(err error) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures == 0 {
		c.since = time.Now()
	}
	c.failures++
	c.last = err
	if c.failures == enough {
		c.nextProbe = time.Now().Add(probing)
	}
	return c.failures
}

func (c *circuit) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}

// away returns since when there has been no good answer, if the last one was none.
func (c *circuit) away() (since time.Time, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.failures > 0
}
