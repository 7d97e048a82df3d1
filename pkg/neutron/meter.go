// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// Meter counts what a Client does. Its methods are called concurrently and must not block.
type Meter interface {
	// CountRequest is called once for each HTTP request that was sent, when it has ended. A
	// request that fails because the circuit is open is not sent.
	CountRequest(Request)
	// CountWait is called with the time that a request has waited for one of the Waits, also if its
	// context was done first. Most requests wait for almost no time. A request that fails because
	// the circuit is open does not count.
	CountWait(Wait, time.Duration)
	// CountAuthenticationFailure is called each time that Keystone refuses the credentials, that
	// they cannot be read or are not for the one place of the client, that they are needed but must
	// not be tried again yet, or that Neutron refuses a token which it has never accepted.
	CountAuthenticationFailure()
}

// Request is an HTTP request that has ended.
type Request struct {
	// Operation is one of a few names, such as "create network", "list ports" or "authenticate";
	// "other" for everything else.
	Operation string
	// Code is the status of the answer if HTTP has a name for it, and its class otherwise, such as
	// "4xx". If there was no complete answer, it is "timeout", "canceled" (by the caller) or
	// "error". The number of different codes is small, whatever a server answers.
	Code string
	// Duration is the time from sending the request until the answer was read, without the Waits.
	Duration time.Duration
	// RequestID identifies the request in OpenStack's logs; "" if the answer has none.
	RequestID string
}

// Wait is something that a request may wait for before it is sent.
type Wait string

const (
	// ForConnection lasts while as many requests are under way as ClientOptions.Connections allows.
	// Requests that wait for the rate are among them: if both waits are long, the rate is the
	// limit.
	ForConnection Wait = "connection"
	// ForRate lasts while ClientOptions.QPS and Burst are used up.
	ForRate Wait = "rate"
)

// Waits are all kinds of Wait.
var Waits = []Wait{ForConnection, ForRate}

// unmetered is a Meter that counts nothing.
type unmetered struct{}

func (unmetered) CountRequest(Request)          {}
func (unmetered) CountWait(Wait, time.Duration) {}
func (unmetered) CountAuthenticationFailure()   {}

// The parts of the names of operations.
var (
	// collections are those whose operations have a name.
	collections = sets.New("networks", "subnets", "ports", "routers", "floatingips", "subnetpools", rbacPolicies)
	// itemOperations and collectionOperations are the verbs of the operations on one item of a
	// collection, and on the collection.
	itemOperations       = map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodDelete: "delete"}
	collectionOperations = map[string]string{http.MethodGet: "list", http.MethodPost: "create"}
	// partOperations are the operations on a part of an item.
	partOperations = map[string]string{
		"PUT networks/tags":                   "set tags",
		"GET quotas/details.json":             "get quotas",
		"PUT routers/add_router_interface":    "add router interface",
		"PUT routers/remove_router_interface": "remove router interface",
	}
)

// operationOf returns the name of the operation that a request is for.
func operationOf(method, path string) string {
	if method == http.MethodPost && strings.HasSuffix(path, "/auth/tokens") {
		return authenticate
	}
	_, resource, _ := strings.Cut(path, "/v2.0/")
	collection, id, isItem := strings.Cut(resource, "/")
	if _, part, isPart := strings.Cut(id, "/"); isPart {
		return cmp.Or(partOperations[method+" "+collection+"/"+part], other)
	}
	if !collections.Has(collection) {
		return other
	}
	verb, object := collectionOperations[method], collection
	if isItem || verb == "create" {
		object = singular(collection)
	}
	if isItem {
		verb = itemOperations[method]
	}
	if verb == "" {
		return other
	}
	return verb + " " + inWords(object)
}

const (
	authenticate = "authenticate"
	other        = "other"
)

// codeOf returns the Code of an answer with that status.
func codeOf(status int) string {
	switch {
	case http.StatusText(status) != "":
		return strconv.Itoa(status)
	case status >= 100 && status < 600:
		return strconv.Itoa(status/100) + "xx"
	}
	return other
}

// failureOf returns the Code of a request with that context that ended in err.
func failureOf(ctx context.Context, err error) string {
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case errors.Is(err, errTimeout), isNet && netErr.Timeout():
		return "timeout"
	}
	return "error"
}

// requestIDHeader has the caller's ID in a request, and OpenStack's own ID in the answer
// (oslo.middleware, request_id.py).
const requestIDHeader = "X-Openstack-Request-Id"

// requestIDOf returns the ID that OpenStack gave to a request; "" if it has another form.
func requestIDOf(header http.Header) string {
	id := header.Get(requestIDHeader)
	// Validate also accepts other spellings of a UUID.
	const length = len("req-") + len("00000000-0000-0000-0000-000000000000")
	bare, ok := strings.CutPrefix(id, "req-")
	if !ok || len(id) != length || uuid.Validate(bare) != nil {
		return ""
	}
	return id
}

// log logs a request that has ended: a change at every verbosity.
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
