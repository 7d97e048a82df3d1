// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// roundTripper replaces the network, so that tests can use virtual time.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slowBody is a body that waits before each of its chunks of one byte.
type slowBody struct {
	ctx    context.Context
	chunks int
	wait   time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.chunks == 0 {
		return 0, io.EOF
	}
	select {
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	case <-time.After(b.wait):
	}
	b.chunks--
	return copy(p, "x"), nil
}

func (b *slowBody) Close() error { return nil }

// answering returns a RoundTripper that waits before its answer, and before each chunk of the body.
func answering(header time.Duration, chunks int, chunk time.Duration) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(header):
		}
		return &http.Response{StatusCode: 200, Body: &slowBody{ctx: r.Context(), chunks: chunks, wait: chunk}}, nil
	}
}

// ask makes one request and reads the answer.
func ask(ctx context.Context, t http.RoundTripper) error {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://neutron", nil)
	if err != nil {
		return err
	}
	response, err := t.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func TestRequestsWaitForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var order []string
		note := func(what string) { order = append(order, what+" after "+time.Since(began).String()) }
		m := &meter{}
		tr := &transport{meter: m, limiter: rate.NewLimiter(0.5, 1), timeout: time.Second,
			fence: func() { note("fence") },
			base: roundTripper(func(r *http.Request) (*http.Response, error) {
				note("request")
				return answering(0, 0, 0)(r)
			})}
		for range 3 {
			// The timeout of one second does not include the wait of two seconds.
			noError(t, ask(t.Context(), tr))
		}
		// The fence is called right before the request, after the wait.
		equal(t, []string{"fence after 0s", "request after 0s", "fence after 2s", "request after 2s", "fence after 4s", "request after 4s"}, order)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := ask(ctx, tr); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// What is not sent is not counted.
		equal(t, 6, len(order))
		equal(t, 3, len(m.counted()))
		equal(t, []string{"rate 0s", "rate 2s", "rate 2s", "rate 1s"}, m.waits)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestTheSizeOfAnAnswerIsBounded(t *testing.T) {
	for size, want := range map[int64]error{maxAnswer: nil, maxAnswer + 1: errTooLarge} {
		body := io.NopCloser(io.LimitReader(zeros{}, size))
		err := ask(t.Context(), &transport{meter: unmetered{}, limiter: rate.NewLimiter(rate.Inf, 1), timeout: time.Minute, base: roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: body}, nil
		})})
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
	}
}

func TestTheClientAppliesItsOptions(t *testing.T) {
	l := newLab(t, embedded.Options{})
	agents, fenced := map[string]bool{}, 0
	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		agent, _, _ := strings.Cut(r.UserAgent(), " ")
		agents[agent] = true
		return false
	})
	c := newTestClient(t, l.config(t), ClientOptions{Timeout: 10 * time.Second, QPS: 1000, Burst: 7, Connections: 9, UserAgent: "samplecrd-controller/test",
		Fence: func() { fenced++ }})
	works(t, c)
	equal(t, map[string]bool{"samplecrd-controller/test": true}, agents)
	equal(t, len(l.requests()), fenced)

	tr := c.circuit.base.(*transport)
	equal(t, 10*time.Second, tr.timeout)
	equal(t, rate.Limit(1000), tr.limiter.Limit())
	equal(t, 7, tr.limiter.Burst())
	equal(t, 9, tr.base.(*connections).transport().MaxIdleConnsPerHost)

	unbounded := NewClient(l.config(t), ClientOptions{}).circuit.base.(*transport).limiter
	equal(t, rate.Inf, unbounded.Limit())
}

// A request that has a turn must not need a second one, neither to authenticate again nor for
// the next page.
func TestOneConnectionIsEnough(t *testing.T) {
	l := newLab(t, embedded.Options{PageLimit: 1})
	c := newTestClient(t, l.config(t), ClientOptions{Timeout: 10 * time.Second, Connections: 1})
	ids := makeNetworks(t, c, 2)
	l.RevokeTokens()
	networks, err := c.ListNetworks(t.Context())
	noError(t, err)
	equal(t, ids, idsOf(networks))
	l.RevokeTokens()
	noError(t, c.DeleteNetwork(t.Context(), ids[0], nil))
}
