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
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// How much of one answer is read, in bytes. A list is read item by item, and takes little
// memory however long a page is: one of 1,000 networks is about a third of a megabyte, and
// twenty times that if all of their texts are as long as can be. Of Keystone's answers
// gophercloud makes a tree of values, and keeps it: a catalog of 50 services with 3 endpoints
// each is some 50 KB, with 1,500 values.
const (
	maxPage   = 8 << 20
	maxAnswer = 512 << 10
	// maxValues is how many values such a tree may have: one of two bytes takes as much
	// memory as one of a hundred.
	maxValues = 25_000
)

var (
	errTimeout  = errors.New("no answer in time")
	errTooLarge = errors.New("the answer is larger than any that Neutron gives")
)

// transport lets requests through at a bounded rate, and gives each of them, with the
// reading of its answer, a bounded time. The waiting for its turn is not counted,
// which is why http.Client.Timeout does not serve. The meter and the log are told of each
// request that has ended.
type transport struct {
	base    http.RoundTripper
	limiter *rate.Limiter
	timeout time.Duration
	fence   func() // nil: none
	meter   Meter
	// taken is the last token with which something was answered.
	taken atomic.Pointer[string]
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	waiting := time.Now()
	err := t.limiter.Wait(request.Context())
	t.meter.CountWait(ForRate, time.Since(waiting))
	if err != nil {
		return nil, err
	}
	if t.fence != nil {
		t.fence()
	}
	ctx, cancel := context.WithTimeoutCause(request.Context(), t.timeout, errTimeout)
	began := time.Now()
	response, err := t.base.RoundTrip(prepare(ctx, request))
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

// prepare returns a copy of the request with that context, for a RoundTripper must not
// change what it is given.
func prepare(ctx context.Context, request *http.Request) *http.Request {
	request = request.Clone(ctx)
	tellReconcileID(request)
	return request
}

// ended tells of a request that has ended, and err, why its answer did not come to its end.
func (t *transport) ended(request *http.Request, began time.Time, response *http.Response, err error) {
	r := Request{Operation: operationOf(request.Method, request.URL.Path), Duration: time.Since(began)}
	if response != nil {
		r.RequestID = requestIDOf(response.Header)
		r.Code = codeOf(response.StatusCode)
		t.noteToken(request, r.Operation, response.StatusCode)
	}
	if err != nil {
		r.Code = failureOf(request.Context(), err)
	}
	t.meter.CountRequest(r)
	r.log(request.Context(), request.Method)
}

// noteToken remembers the request's token if it was taken. Other operations are looks at
// what there is, such as the versions of Neutron, for which it takes any.
func (t *transport) noteToken(request *http.Request, operation string, status int) {
	token := request.Header.Get("X-Auth-Token")
	if token != "" && operation != other && status != http.StatusUnauthorized && status < http.StatusInternalServerError {
		t.taken.Store(&token)
	}
}

// hasTaken says whether something was answered with that token since there is a newer one.
func (t *transport) hasTaken(token string) bool {
	taken := t.taken.Load()
	return taken != nil && *taken == token
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
