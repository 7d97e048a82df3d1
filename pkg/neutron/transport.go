// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Limits of one answer in bytes. A page of 1,000 networks has about a third of a megabyte, and
// twenty times that if all texts have their greatest length. It may be larger than other
// answers, since it is decoded item by item. gophercloud decodes an answer of Keystone into a
// tree of values, and keeps it: a catalog of 50 services with 3 endpoints each has about 50 KB
// and 1,500 values.
const (
	maxPage   = 8 << 20
	maxAnswer = 512 << 10
	// maxValues is how many values such a tree may have: a value of two bytes takes as much
	// memory as a value of a hundred.
	maxValues = 25_000
)

var (
	errTimeout  = errors.New("no answer in time")
	errTooLarge = errors.New("the answer is larger than any that Neutron gives")
)

// transport is an http.RoundTripper that limits the rate of requests, and the time of each of
// them until its answer was read. http.Client.Timeout cannot be used for that: it would include
// the wait for the rate. Each request that has ended is counted and logged.
type transport struct {
	base    http.RoundTripper
	limiter *rate.Limiter
	timeout time.Duration
	fence   func() // may be nil
	meter   Meter
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	err := t.limiter.Wait(request.Context())
	t.meter.CountWait(ForRate, time.Since(began))
	if err != nil {
		return nil, err
	}
	if t.fence != nil {
		t.fence()
	}
	ctx, cancel := context.WithTimeoutCause(request.Context(), t.timeout, errTimeout)
	began = time.Now()
	response, err := t.base.RoundTrip(withReconcileID(request.Clone(ctx)))
	if err != nil {
		cancel()
		t.ended(request, began, nil, err)
		return nil, err
	}
	body := &boundedBody{ReadCloser: response.Body, left: maxAnswer, values: maxValues}
	if response.StatusCode == http.StatusOK && strings.HasPrefix(operationOf(request.Method, request.URL.Path), "list ") {
		body.left, body.values = maxPage, maxPage
	}
	response.Body = &watchedBody{ReadCloser: body, closed: func(err error) {
		cancel()
		t.ended(request, began, response, err)
	}}
	return response, nil
}

// ended counts and logs a request that has ended. err is why its answer was not complete.
func (t *transport) ended(request *http.Request, began time.Time, response *http.Response, err error) {
	r := Request{Operation: operationOf(request.Method, request.URL.Path), Duration: time.Since(began)}
	if response != nil {
		r.RequestID = requestIDOf(response.Header)
		r.Code = codeOf(response.StatusCode)
	}
	if err != nil {
		r.Code = failureOf(request.Context(), err)
	}
	t.meter.CountRequest(r)
	r.log(request.Context(), request.Method)
}

// boundedBody fails when the answer is larger than allowed.
type boundedBody struct {
	io.ReadCloser
	left   int64 // bytes
	values int   // JSON values
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	// One of each two JSON values has one of these before it.
	b.values -= bytes.Count(p[:n], []byte{'{'}) + bytes.Count(p[:n], []byte{'['}) + bytes.Count(p[:n], []byte{','})
	if b.left < 0 || b.values < 0 {
		err = errTooLarge
	}
	return n, err
}

// watchedBody calls closed when it is closed for the first time, with the error that ended
// the reading, if one did.
type watchedBody struct {
	io.ReadCloser
	err    error
	closed func(error)
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.err == nil {
		b.err = err
	}
	return n, err
}

func (b *watchedBody) Close() error {
	if b.closed != nil {
		defer b.closed(b.err)
		b.closed = nil
	}
	return b.ReadCloser.Close()
}
