// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Client is what is between the Server and one of its clients. All functions are optional, and may be called
// concurrently.
type Client struct {
	// Before is called for each request. What it returns happens to the request.
	Before func(*Request) Fault
	// After is called at the moment when a request takes effect, or is refused with err. It must not call the Server.
	After func(r *Request, err error)
	// Lateness returns how much later than the change the next event of a watch arrives.
	Lateness func() time.Duration
	// Dead is closed when the client sends nothing any more, and receives nothing.
	Dead <-chan struct{}
}

// Fault is what goes wrong with one request. The zero value changes nothing.
type Fault struct {
	// Delay is how long the request takes before anything else.
	Delay time.Duration
	// Lost means that there is no answer. The request takes effect only with After.
	Lost, After bool
	// Status, if not 0, is the status of the answer. The request takes effect only with After.
	Status int
	// RetryAfter is sent with Status.
	RetryAfter time.Duration
}

// Transport returns what takes the place of a connection of the client.
func (s *Server) Transport(c Client) http.RoundTripper {
	return &transport{server: s, client: c, restores: map[Key]int{}}
}

type transport struct {
	server *Server
	client Client
	// restores has how often the Server was restored before the client's last watch of these objects. The Server's lock
	// guards it.
	restores map[Key]int
}

var (
	errLost = errors.New("the connection is lost")
	errDead = errors.New("the process has ended")
)

func (t *transport) RoundTrip(h *http.Request) (*http.Response, error) {
	var body []byte
	if h.Body != nil {
		body, _ = io.ReadAll(h.Body) // from memory
		_ = h.Body.Close()
	}
	r, err := parse(h, body)
	if err != nil {
		return answer(h, failed(err)), nil
	}
	var fault Fault
	if t.client.Before != nil {
		fault = t.client.Before(r)
	}
	if err := t.wait(h.Context(), fault.Delay); err != nil {
		return nil, err
	}
	if !fault.After && fault.Lost {
		return nil, errLost
	}
	if !fault.After && fault.Status != 0 {
		return answer(h, fault.answer(r)), nil
	}
	if r.Verb == "watch" {
		return t.watch(h, r), nil
	}
	result, err := t.server.do(r, t.client.After)
	switch {
	case fault.Lost:
		return nil, errLost
	case fault.Status != 0:
		return answer(h, fault.answer(r)), nil
	case err != nil:
		return answer(h, failed(err)), nil
	}
	status := http.StatusOK
	if r.Verb == "create" {
		status = http.StatusCreated
	}
	return answer(h, reply{status: status, object: result}), nil
}

// wait waits for so long, unless the client ends before.
func (t *transport) wait(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-t.client.Dead:
		return errDead
	default:
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.client.Dead:
		return errDead
	}
}

// reply is an answer of the Server.
type reply struct {
	status     int
	object     runtime.Object
	retryAfter time.Duration
}

func failed(err error) reply {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return reply{status: int(s.Code), object: &s}
}

func (f Fault) answer(r *Request) reply {
	err := apierrors.NewGenericServerResponse(f.Status, r.Verb, r.groupResource(), r.Key.Name, "spoiled", int(f.RetryAfter/time.Second), true)
	return reply{status: f.Status, object: &err.ErrStatus, retryAfter: f.RetryAfter}
}

func answer(h *http.Request, r reply) *http.Response {
	if s, ok := r.object.(*metav1.Status); ok {
		s.Kind, s.APIVersion = "Status", "v1"
	}
	response := response(h, r.status, io.NopCloser(bytes.NewReader(encode(r.object))))
	if r.retryAfter > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(r.retryAfter/time.Second)))
	}
	return response
}

// encode returns the object as JSON.
func encode(o runtime.Object) []byte {
	marshal := func() ([]byte, error) { return json.Marshal(o) }
	if m, ok := o.(json.Marshaler); ok {
		marshal = m.MarshalJSON // json.Marshal would read the result once more
	}
	data, err := marshal()
	if err != nil {
		panic(err) // objects come from JSON
	}
	return data
}

func response(h *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body, ContentLength: -1, Request: h}
}

// stream is the body of a watch.
type stream struct {
	transport *transport
	request   *Request
	ctx       context.Context
	timeout   <-chan time.Time

	awake chan struct{}
	ended chan struct{}
	once  sync.Once

	next   int // the number of the next change to look at
	buffer []byte
}

func (t *transport) watch(h *http.Request, r *Request) *http.Response {
	s := t.server
	w := &stream{transport: t, request: r, ctx: h.Context(), awake: make(chan struct{}, 1), ended: make(chan struct{})}
	if r.options.TimeoutSeconds != nil {
		w.timeout = time.After(time.Duration(*r.options.TimeoutSeconds) * time.Second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isOld := t.restores[r.Key] < s.restores
	t.restores[r.Key] = s.restores
	version, _ := strconv.ParseInt(r.options.ResourceVersion, 10, 64) // it comes from this Server
	if isList := r.options.SendInitialEvents; version == 0 || isList != nil && *isList {
		w.begin()
	} else if version < s.expired || version > s.version || isOld {
		return answer(h, failed(apierrors.NewResourceExpired("too old resource version")))
	} else {
		w.seek(version)
	}
	s.watches[w] = struct{}{}
	return response(h, http.StatusOK, w)
}

// begin puts all objects at the beginning.
func (w *stream) begin() {
	s := w.transport.server
	for _, o := range s.sorted(w.request) {
		w.write(watch.Added, o)
	}
	w.next = len(s.changes)
	if isList := w.request.options.SendInitialEvents; isList != nil && *isList {
		mark := &unstructured.Unstructured{}
		mark.SetAPIVersion(w.request.version.String())
		mark.SetKind(s.kinds[w.request.Key.Resource].Name)
		mark.SetResourceVersion(strconv.FormatInt(s.version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.write(watch.Bookmark, mark)
	}
}

// seek continues after that resourceVersion.
func (w *stream) seek(version int64) {
	changes := w.transport.server.changes
	w.next = len(changes)
	for w.next > 0 && changes[w.next-1].Version > version {
		w.next--
	}
}

func (w *stream) write(event watch.EventType, o *unstructured.Unstructured) {
	w.buffer = fmt.Appendf(w.buffer, `{"type":%q,"object":%s}`+"\n", event, encode(o))
}

func (w *stream) wake() {
	select {
	case w.awake <- struct{}{}:
	default: // it is already
	}
}

func (w *stream) end() { w.once.Do(func() { close(w.ended) }) }

// Read returns the next events. It waits for them.
func (w *stream) Read(p []byte) (int, error) {
	for len(w.buffer) == 0 {
		change, found := w.change()
		if found {
			w.write(change.Type, change.Object)
		}
		var late <-chan time.Time
		awake := w.awake
		if found {
			awake = nil
			late = time.After(w.late(change))
		}
		select {
		case <-late:
		case <-awake:
		case <-w.timeout:
			return 0, io.EOF
		case <-w.ended:
			return 0, io.EOF
		case <-w.transport.client.Dead:
			return 0, errDead
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
	n := copy(p, w.buffer)
	w.buffer = w.buffer[n:]
	return n, nil
}

// late returns how long the event of the change is still on its way.
func (w *stream) late(c Change) time.Duration {
	if w.transport.client.Lateness == nil {
		return 0
	}
	return max(0, w.transport.client.Lateness()-time.Since(c.At))
}

// change returns the next change that the watch shows.
func (w *stream) change() (Change, bool) {
	s := w.transport.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for w.next < len(s.changes) {
		c := s.changes[w.next]
		w.next++
		if w.request.matches(c.Key, c.Object) {
			return c, true
		}
	}
	return Change{}, false
}

// Close ends the watch.
func (w *stream) Close() error {
	w.end()
	s := w.transport.server
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
	return nil
}
