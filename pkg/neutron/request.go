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
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"
)

// Meter is told of what a Client does. Its methods are called concurrently, and must not
// block.
type Meter interface {
	// CountRequest is called once for each HTTP request that was sent, when it has ended. What
	// is refused because Neutron is known to be away, is not sent.
	CountRequest(Request)
	// CountWait is called with the time that a request has waited for one of the Waits, when that
	// is over or its caller has gone away. For most it is next to nothing. What is refused because
	// Neutron is known to be away does not count.
	CountWait(Wait, time.Duration)
	// CountAuthenticationFailure is called each time that Keystone has refused the credentials,
	// or Neutron a token that it has never taken, and when the credentials cannot be read.
	CountAuthenticationFailure()
}

// Request is an HTTP request that has ended.
type Request struct {
	// Operation is what was asked for, such as "create network", "list ports" or
	// "authenticate"; "other" for what a Client has no name for. There are few of them.
	Operation string
	// Code is the status of the answer, of those that HTTP has a name for, or the class of
	// another one, such as "4xx". If there was no answer, or not the whole of it, it is "timeout",
	// "canceled" (by the caller) or "error". There are few of them, whatever is answered.
	Code string
	// Duration is the time from sending the request to having read the answer. It does not
	// include the Waits.
	Duration time.Duration
	// RequestID is what OpenStack calls the request in its logs; "" if it did not say.
	RequestID string
}

// Wait is what a request may wait for before it is sent.
type Wait string

const (
	// ForConnection is while as many requests are under way as ClientOptions.Connections allows.
	// Those that wait for the rate are among them: if both waits are long, it is the rate.
	ForConnection Wait = "connection"
	// ForRate is while ClientOptions.QPS and Burst are used up.
	ForRate Wait = "rate"
)

// Waits are all there are.
var Waits = []Wait{ForConnection, ForRate}

// unmetered is the Meter of who has none.
type unmetered struct{}

func (unmetered) CountRequest(Request)          {}
func (unmetered) CountWait(Wait, time.Duration) {}
func (unmetered) CountAuthenticationFailure()   {}

// operations name what is done to one of a collection, and to the collection.
var (
	itemOperations       = map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodDelete: "delete"}
	collectionOperations = map[string]string{http.MethodGet: "list", http.MethodPost: "create"}
)

// operationOf names what a request asks for.
func operationOf(method, path string) string {
	if method == http.MethodPost && strings.HasSuffix(path, "/auth/tokens") {
		return authenticate
	}
	_, resource, _ := strings.Cut(path, "/v2.0/")
	collection, id, isItem := strings.Cut(resource, "/")
	if collection != "networks" && collection != "subnets" && collection != "ports" || strings.Contains(id, "/") {
		return other
	}
	verb, object := collectionOperations[method], collection
	if isItem || verb == "create" {
		object = strings.TrimSuffix(collection, "s")
	}
	if isItem {
		verb = itemOperations[method]
	}
	if verb == "" {
		return other
	}
	return verb + " " + object
}

const (
	// authenticate is Keystone's operation.
	authenticate = "authenticate"
	// other is what there is no name for.
	other = "other"
)

// codeOf names the status of an answer.
func codeOf(status int) string {
	switch {
	case http.StatusText(status) != "":
		return strconv.Itoa(status)
	case status >= 100 && status < 600:
		return strconv.Itoa(status/100) + "xx"
	}
	return other
}

// failureOf names why there was no answer to a request of that context.
func failureOf(ctx context.Context, err error) string {
	var netErr net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case errors.Is(err, errTimeout), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	}
	return "error"
}

// requestIDHeader is where OpenStack says what it calls a request, and is told what the
// caller calls it (oslo.middleware, request_id.py).
const requestIDHeader = "X-Openstack-Request-Id"

// requestIDOf returns the ID that OpenStack has given to a request, if it looks like one.
func requestIDOf(header http.Header) string {
	id := header.Get(requestIDHeader)
	// A UUID may be written otherwise, too.
	const length = len("req-") + len("00000000-0000-0000-0000-000000000000")
	bare, ok := strings.CutPrefix(id, "req-")
	if !ok || len(id) != length || uuid.Validate(bare) != nil {
		return ""
	}
	return id
}

// reconcileID is the key of the ID in a context.
type reconcileID struct{}

// WithReconcileID has each request with the context tell OpenStack the ID, which writes it
// into its logs beside its own: req-<id>, the "global request ID". Debian 12's Neutron, with
// neutron-lib 3.1.0 and oslo.messaging 14.0.3, forgets it in the middle of a change.
func WithReconcileID(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, reconcileID{}, id)
}

// tellReconcileID puts the context's ID, if it has one, into a request's header.
func tellReconcileID(request *http.Request) {
	if id, ok := request.Context().Value(reconcileID{}).(uuid.UUID); ok {
		request.Header.Set(requestIDHeader, "req-"+id.String())
	}
}

// log tells of a request that has ended: of a change for everybody.
func (r *Request) log(ctx context.Context, method string) {
	isRead := method == http.MethodGet || r.Operation == authenticate
	level, message := 0, "Changed Neutron"
	switch {
	case !strings.HasPrefix(r.Code, "2"):
		level, message = 2, "Request to OpenStack failed"
	case isRead:
		level, message = 4, "Asked OpenStack"
	}
	klog.FromContext(ctx).V(level).Info(message, "operation", r.Operation, "code", r.Code, "requestID", r.RequestID, "duration", r.Duration)
}
