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

package chaos

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// kubernetesFaults are the faults of requests for one object. None hangs: client-go sets no
// timeout of its own, and a real API server answers every request in the end.
var kubernetesFaults = []*fault{
	{name: "500", spoil: says(500, statusOf(500, "InternalError"), "Content-Type", "application/json")},
	{name: "500 after effect", effect: true, spoil: says(500, statusOf(500, "InternalError"), "Content-Type", "application/json")},
	{name: "503", spoil: says(503, statusOf(503, "ServiceUnavailable"), "Content-Type", "application/json")},
	{name: "429, Retry-After", spoil: says(429, statusOf(429, "TooManyRequests"), "Content-Type", "application/json", "Retry-After", "1")},
	{name: "409", spoil: says(409, statusOf(409, "Conflict"), "Content-Type", "application/json"), fits: (*call).isPatch},
	{name: "delay", spoil: delay},
	{name: "delay after effect", effect: true, spoil: delay},
	{name: "connection cut", spoil: cut},
	{name: "connection cut after effect", effect: true, spoil: cut},
	{name: "connection cut within the answer", effect: true, spoil: cutWithin},
}

func (c *call) isPatch() bool { return c.Method == http.MethodPatch }
func (c *call) isEvent() bool { return c.isKubernetes() && strings.Contains(c.path, "/events") }

func (c *call) isLeaseWrite() bool {
	return c.isKubernetes() && c.Method != http.MethodGet && strings.Contains(c.path, "/leases")
}

func statusOf(code int, reason string) string {
	return fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "one of the faults"}`, reason, code)
}

// reachKubernetes makes the proxy pass on requests to the API server as well.
func (p *proxy) reachKubernetes(config *rest.Config) error {
	target, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	if p.kubernetes, err = rest.TransportFor(config); err != nil {
		return err
	}
	p.target.kubernetes = strings.TrimRight(config.Host, "/")
	p.stream = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/kubernetes")
			r.SetURL(target)
			if r.Out.URL.Path == strings.TrimSuffix(target.Path, "/")+allNetworksPath {
				p.narrow(r.Out.URL)
			}
		},
		Transport:      p.kubernetes,
		FlushInterval:  -1, // a watch is of no use in a buffer
		ModifyResponse: p.delayWatch,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	return nil
}

// streams reports whether a request is never spoiled: lists, watches, and the requests at the
// start of the controller, which correctly ends if those fail.
func streams(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, "/kubernetes/")
	if !ok {
		return false
	}
	named := strings.Count(path, "/") > 5 // apis/GROUP/VERSION/namespaces/NAMESPACE/networks/NAME
	return r.Method == http.MethodGet && !named
}

const (
	// allNetworksPath is where the Networks of all namespaces are.
	allNetworksPath = "/apis/samplecrd.k8s.io/v1/networks"
	// clusterLabel has the namespace of the controller for which a Network is.
	clusterLabel = "chaos/cluster"
)

// narrow restricts a request for the Networks of all namespaces to those of the controller's
// own cluster: all clusters share one API server.
func (p *proxy) narrow(url *url.URL) {
	query := url.Query()
	query.Set("labelSelector", clusterLabel+"="+p.cluster)
	url.RawQuery = query.Encode()
}

// isForeign reports whether the call is for a Network of another cluster.
func (c *call) isForeign() bool {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(c.path, networksPath), "/")
	return c.isRereading() && namespace != c.proxy.cluster && strings.HasPrefix(namespace, namespacePrefix)
}

// notFound is the answer to a call for a Network of another cluster.
var notFound = &fault{name: "404, in another cluster", spoil: says(404, statusOf(404, "NotFound"), "Content-Type", "application/json")}

// namespacePrefix is that of the namespaces of all clusters.
const namespacePrefix = "chaos-"

// lateness is how much later than the API server sends it the parts of a late watch arrive.
const lateness = time.Second

// delayWatch makes one in three watches late, until the faults stop.
func (p *proxy) delayWatch(r *http.Response) error {
	if r.StatusCode != http.StatusOK || r.Request.URL.Query().Get("watch") == "" || p.share == 0 {
		return nil
	}
	if n := p.watches.Add(1); seeded(p.seed, "watch", int(n)).IntN(3) == 0 && !p.healed.Load() {
		p.tally.add("late watches")
		p.tally.log("%s watches %s, late", p.name, r.Request.URL.Path)
		r.Body = newLateBody(r.Body, &p.healed)
	}
	return nil
}

// lateBody is the body of a late watch.
type lateBody struct {
	io.Closer
	healed *atomic.Bool
	parts  chan part
	rest   []byte
	closed chan struct{}
	close  sync.Once
}

// part is what one read of the original body has returned.
type part struct {
	at   time.Time
	data []byte
	err  error
}

func newLateBody(original io.ReadCloser, healed *atomic.Bool) *lateBody {
	b := &lateBody{Closer: original, healed: healed, parts: make(chan part, 10000), closed: make(chan struct{})}
	go func() {
		defer close(b.parts)
		for {
			data := make([]byte, 32<<10)
			n, err := original.Read(data)
			select {
			case b.parts <- part{time.Now(), data[:n], err}:
			case <-b.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

// Read returns the next part when it is late enough.
func (b *lateBody) Read(into []byte) (int, error) {
	if len(b.rest) == 0 {
		next, ok := <-b.parts
		if !ok {
			return 0, io.EOF
		}
		if wait := lateness - time.Since(next.at); wait > 0 && !b.healed.Load() {
			select {
			case <-time.After(wait):
			case <-b.closed:
				return 0, io.ErrClosedPipe
			}
		}
		if next.err != nil {
			return 0, next.err
		}
		b.rest = next.data
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends a Read, and closes the original body.
func (b *lateBody) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Closer.Close()
}
