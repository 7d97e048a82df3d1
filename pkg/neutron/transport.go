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
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// maxAnswer bounds how much of one answer is read, in bytes: a page of 1,000 networks
// is about half of a megabyte.
const maxAnswer = 64 << 20

var (
	errTimeout  = errors.New("no answer in time")
	errTooLarge = errors.New("the answer is larger than any that Neutron gives")
)

// transport lets requests through at a bounded rate, and gives each of them, with the
// reading of its answer, a bounded time. The waiting for its turn is not counted,
// which is why http.Client.Timeout does not serve.
type transport struct {
	base    http.RoundTripper
	limiter *rate.Limiter
	timeout time.Duration
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.limiter.Wait(request.Context()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(request.Context(), t.timeout, errTimeout)
	response, err := t.base.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer, cancel: cancel}
	return response, nil
}

// boundedBody ends the request's time when it is closed, and fails when there is more
// of it than there can be.
type boundedBody struct {
	io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
