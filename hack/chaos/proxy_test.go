// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// proxy passes on the requests of one process after the other to Keystone, Neutron and the API server.
// It drops the connections of some.
type proxy struct {
	world *world
	url   string
	// life is the running process.
	life atomic.Pointer[life]
	gate gate
	// kubernetes sends requests to the API server, and stream passes on those whose answers are streams.
	kubernetes http.RoundTripper
	stream     http.Handler
	server     http.Server

	mu   sync.Mutex
	rand *rand.Rand
	// restores is the number of restores of etcd before the last watch, by path.
	restores map[string]int64
}

// startProxy starts a proxy on loopback.
func startProxy(w *world, config *rest.Config, seed *rand.Rand) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &proxy{world: w, url: "http://" + listener.Addr().String(), rand: seed, restores: map[string]int64{}}
	if p.kubernetes, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	p.stream = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/kubernetes")
			r.SetURL(target)
		},
		Transport:     p.kubernetes,
		FlushInterval: -1, // a watch is of no use in a buffer
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	p.server.Handler, p.server.ErrorLog = p, log.New(io.Discard, "", 0)
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// call is a request of a process.
type call struct {
	*http.Request
	proxy *proxy
	life  *life
	// service is keystone, neutron or kubernetes, and path is the rest of the path.
	service, path string
	body          []byte
	// arrived is when the process sent the call, and reads what it had read then.
	arrived time.Time
	reads   oracle.Reads
}

func (c *call) isKubernetes() bool { return c.service == "kubernetes" }
func (c *call) isEvent() bool      { return c.isKubernetes() && strings.Contains(c.path, "/events") }
func (c *call) isLease() bool      { return c.isKubernetes() && strings.Contains(c.path, "/leases") }

// isChange reports whether the call changes something in Neutron.
func (c *call) isChange() bool { return c.service == "neutron" && c.Method != http.MethodGet }

// networkOf returns the name of the Network that a call to the API server is for.
func (c *call) networkOf() (namespace, name string, ok bool) {
	parts := strings.Split(c.path, "/") // apis/GROUP/VERSION/namespaces/NAMESPACE/networks/NAME
	if !c.isKubernetes() || len(parts) < 7 || parts[5] != "networks" {
		return "", "", false
	}
	return parts[4], parts[6], true
}

// fate is what becomes of the connection of a call.
type fate string

const (
	answered   fate = "answered"
	cutBefore  fate = "cut before the effect"
	cutAfter   fate = "cut after the effect"
	cutWithin  fate = "cut within the answer"
	hangBefore fate = "nothing comes back, and nothing has happened"
	hangAfter  fate = "nothing comes back, and it has taken effect"
	killBefore fate = "its process is killed before the effect"
	killAfter  fate = "its process is killed after the effect"
	killSoon   fate = "its process is killed soon after the answer"
)

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isStream(r) {
		if p.isExpired(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(w).Encode(apierrors.NewResourceExpired("too old resource version").Status())
			return
		}
		p.gate.stream(p.stream, w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process has ended
	}
	service, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c := &call{Request: r, proxy: p, life: p.life.Load(), service: service, path: path, body: body}
	c.arrived, c.reads = time.Now(), p.world.history.ReadBy(c.life.name)
	if c.isKubernetes() {
		p.gate.pass(r.Context())
	}
	if wrong := p.world.election.judge(c); wrong != "" {
		p.world.violate("%s sends %s %s, and %s", c.life.name, c.Method, c.path, wrong)
	}
	p.answer(w, c, p.fateOf(c))
}

// dropsBy is what dropped connections to a service are counted under, of all kinds together.
func dropsBy(service string) string { return "dropped connections to " + service }

// answer leads the call to its fate.
func (p *proxy) answer(w http.ResponseWriter, c *call, f fate) {
	if f != answered {
		p.world.count(c.service + ": " + string(f))
		p.world.count(dropsBy(c.service))
		p.world.log("%s %s %s: %s", c.life.name, c.Method, c.path, f)
	}
	var a *answer
	if f != cutBefore && f != hangBefore && f != killBefore {
		a = p.world.take(c)
	}
	switch f {
	case hangBefore, hangAfter:
		<-c.Context().Done()
	case killBefore, killAfter:
		c.life.kill()
	case killSoon:
		time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, c.life.kill)
	}
	if f != answered && f != cutWithin && f != killSoon {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if c.isKubernetes() {
		p.gate.pass(c.Context())
	}
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	if f == cutWithin {
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush() // otherwise nothing is sent at all
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(a.body) // the process may have ended
}

// fateOf chooses the fate of a call.
func (p *proxy) fateOf(c *call) fate {
	if c.isChange() {
		if next := p.world.atNextChange.Swap(nil); next != nil {
			return (*next)(c)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rand.IntN(100) >= p.world.dropped || p.world.isHealed.Load() {
		return answered
	}
	if c.isKubernetes() || !p.world.hangs { // a client of the API server has no time-out
		return []fate{cutBefore, cutAfter, cutWithin}[p.rand.IntN(3)]
	}
	return []fate{cutBefore, cutAfter, cutWithin, hangBefore, hangAfter}[p.rand.IntN(5)]
}

// answer is an answer of a server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends the call to its server. It continues if the client disconnects, as Neutron does.
func (p *proxy) send(c *call) (*answer, error) {
	base, transport := p.world.neutronURL, http.DefaultTransport
	switch c.service {
	case "keystone":
		base = p.world.keystone
	case "kubernetes":
		base, transport = p.world.apiServer, p.kubernetes
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Minute)
	defer cancel()
	target := base + "/" + c.path
	if c.URL.RawQuery != "" {
		target += "?" + c.URL.RawQuery
	}
	request, err := http.NewRequestWithContext(ctx, c.Method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	request.Header = c.Header.Clone()
	// Without this header the transport decompresses the answer.
	request.Header.Del("Accept-Encoding")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Header.Del("Content-Length")
	if c.service == "keystone" {
		body = bytes.ReplaceAll(body, []byte(p.world.neutronURL), []byte(p.url+"/neutron"))
		body = bytes.ReplaceAll(body, []byte(p.world.keystone), []byte(p.url+"/keystone"))
	}
	return &answer{response.StatusCode, response.Header, body}, nil
}

// isStream reports whether a request is a list, a watch, or one at the start of a process, which correctly
// ends if that fails. Their connections are dropped by a gate only.
func isStream(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, "/kubernetes/")
	return ok && r.Method == http.MethodGet && strings.Count(path, "/") <= 5
}

// isExpired reports whether a watch continues from before the last restore of etcd. An API server
// whose revisions went back would send nothing until they have caught up. So etcd's documentation
// wants the old revisions to be marked as compacted, and then it answers 410.
func (p *proxy) isExpired(r *http.Request) bool {
	query := r.URL.Query()
	if query.Get("watch") != "true" {
		return false
	}
	restores := p.world.restores.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.restores[r.URL.Path]
	p.restores[r.URL.Path] = restores
	return before < restores && query.Get("sendInitialEvents") != "true"
}

// take sends the call to its server. The oracle judges it before, and sees the answer.
func (w *world) take(c *call) *answer {
	judged := w.judge(c)
	a, err := c.proxy.send(c)
	if err != nil {
		w.log("%s %s %s: %v", c.life.name, c.Method, c.path, err)
		return &answer{status: http.StatusBadGateway, body: []byte(err.Error())}
	}
	if c.isChange() || c.isKubernetes() && c.Method != http.MethodGet && !c.isLease() && !c.isEvent() {
		w.log("%s %s %s %s: %d", c.life.name, c.Method, c.path, c.body, a.status)
	}
	switch {
	case c.isLease() && c.Method != http.MethodGet && a.status < http.StatusBadRequest:
		if next := w.election.written(c.life, a.body); next != nil {
			w.log("%s leads", next.name)
			w.count("leaders")
		}
	case c.isKubernetes():
		w.noteRead(c, a)
	case judged != nil:
		w.judgeEffect(c, judged)
	}
	return a
}

// noteRead notes what the process learns of a Network. It holds the answer back until the history has it.
func (w *world) noteRead(c *call, a *answer) {
	namespace, name, ok := c.networkOf()
	switch {
	case !ok:
	case a.status == http.StatusNotFound:
		w.history.Read(c.life.name, namespace, name, w.history.Len())
	case a.status < http.StatusBadRequest:
		n := &samplecrdv1.Network{}
		if err := json.Unmarshal(a.body, n); err != nil || n.UID == "" {
			w.violate("unreadable answer to %s %s: %v: %q", c.Method, c.path, err, a.body)
			return
		}
		if versions, ok := w.history.await(c.Context(), n); ok {
			w.history.Read(c.life.name, namespace, name, versions)
		}
	}
}
