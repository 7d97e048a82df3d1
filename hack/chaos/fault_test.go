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
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fault is one way in which a request fails.
type fault struct {
	name string
	// fits reports whether a call can have this fault; nil: all calls can.
	fits func(*call) bool
	// effect reports whether the request takes effect first.
	effect bool
	// slow reports whether the controller, correctly, retries only after a minute. Such a
	// fault happens only before the last kill, which ends that wait.
	slow bool
	// spoil answers the request, or cuts it off. The answer is Neutron's if effect is set.
	spoil func(http.ResponseWriter, *call, *answer)
}

// faults are the faults of Keystone and Neutron, all equally likely.
var faults = []*fault{
	{name: "500", spoil: says(500, neutronError("HTTPInternalServerError"))},
	{name: "500 after effect", effect: true, spoil: says(500, neutronError("HTTPInternalServerError"))},
	{name: "503, Retry-After", spoil: says(503, "", "Retry-After", "1")},
	{name: "429, Retry-After", spoil: says(429, "", "Retry-After", "1")},
	{name: "502 page of a proxy", spoil: says(502, page, "Content-Type", "text/html")},
	{name: "504 page of a proxy after effect", effect: true, spoil: says(504, page, "Content-Type", "text/html")},
	{name: "404 page of a proxy", spoil: says(404, page, "Content-Type", "text/html")},
	{name: "200 page of a proxy", spoil: says(200, page, "Content-Type", "text/html"), fits: (*call).isRead},
	{name: "401", spoil: says(401, keystoneError), fits: (*call).revokeToken},
	{name: "401 of Keystone", slow: true, spoil: says(401, keystoneError), fits: (*call).isKeystone},
	{name: "409", spoil: says(409, neutronError("Conflict")), fits: (*call).isWrite},
	{name: "409 in use", spoil: says(409, neutronError("NetworkInUse")), fits: (*call).isDelete},
	{name: "409 over quota", slow: true, spoil: says(409, neutronError("OverQuota")), fits: (*call).isCreate},
	{name: "503 no segment", slow: true, spoil: says(503, neutronError("NoNetworkAvailable")), fits: (*call).isCreate},
	{name: "412", spoil: says(412, neutronError("RevisionNumberConstraintFailed")), fits: (*call).isConditional},
	{name: "delay", spoil: delay},
	{name: "delay after effect", effect: true, spoil: delay},
	{name: "hang", spoil: hang},
	{name: "hang after effect", effect: true, spoil: hang},
	{name: "connection cut", spoil: cut},
	{name: "connection cut after effect", effect: true, spoil: cut},
	{name: "connection cut within the answer", effect: true, spoil: cutWithin},
	{name: "connection cut within the answer to a list", effect: true, spoil: cutWithin, fits: (*call).isRead},
	{name: "hang within the answer", effect: true, spoil: hangWithin},
	{name: "answer cut short", effect: true, spoil: cutShort},
}

// halfway is a fault of the requests in the middle of which the embedded Neutron can die.
var halfway = &fault{name: "half", spoil: func(w http.ResponseWriter, c *call, a *answer) {
	c.half = true
	c.proxy.forward(c)
	cut(w, c, a)
}}

// halfHeader is the header of a request in the middle of which Neutron dies.
const halfHeader = "X-Chaos-Half"

// outages are faults of all requests for a while.
var outages = []*fault{
	{name: "outage, 503", spoil: says(503, page, "Content-Type", "text/html")},
	{name: "outage, connection cut", spoil: cut},
}

const (
	page          = "<html>\n<body>The server has gone fishing.</body></html>"
	keystoneError = `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`
)

func neutronError(kind string) string {
	return fmt.Sprintf(`{"NeutronError": {"type": %q, "message": "One of the faults.", "detail": ""}}`, kind)
}

// says answers with this status and body, in place of Neutron's answer if there was one.
func says(status int, body string, header ...string) func(http.ResponseWriter, *call, *answer) {
	return func(w http.ResponseWriter, _ *call, _ *answer) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may have disconnected
	}
}

// delay answers late. A request that the client has given up by then has no effect.
func delay(w http.ResponseWriter, c *call, a *answer) {
	select {
	case <-time.After(time.Duration(c.rand.IntN(1000)) * time.Millisecond):
	case <-c.Context().Done():
		cut(w, c, a)
	}
	if a == nil {
		a = c.proxy.forward(c)
	}
	a.send(w)
}

// hang sends no answer until the client gives up.
func hang(w http.ResponseWriter, c *call, a *answer) {
	<-c.Context().Done()
	cut(w, c, a)
}

// cut closes the connection, in net/http's way.
func cut(http.ResponseWriter, *call, *answer) { panic(http.ErrAbortHandler) }

// cutWithin closes the connection after half of the body; the answer has a Content-Length
// or not.
func cutWithin(w http.ResponseWriter, c *call, a *answer) {
	w.Header().Set("Content-Type", "application/json")
	if c.rand.IntN(2) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush() // otherwise nothing is sent at all
	cut(w, c, a)
}

// hangWithin sends half of the body, and then hangs until the client gives up.
func hangWithin(w http.ResponseWriter, c *call, a *answer) {
	if len(a.body) == 0 {
		hang(w, c, a) // a client that expects no body waits for the header only
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush() // otherwise nothing is sent at all
	hang(w, c, a)
}

// cutShort sends half of the body as if it were the whole answer.
func cutShort(w http.ResponseWriter, _ *call, a *answer) {
	a.body = a.body[:len(a.body)/2]
	a.send(w)
}

// seeded returns random numbers that depend only on the seed, the purpose and n.
func seeded(seed uint64, purpose string, n int) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", purpose, n)
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// How often outages occur, and how long they last: in requests, and at most outageAtMost,
// because the controller sends few requests during an outage.
const (
	outageEvery  = 200
	outageFor    = 8
	outageAtMost = 5 * time.Second
)

// outage returns the fault of all calls at the moment, nil if there is no outage.
func (p *proxy) outage(c *call) *fault {
	if p.share == 0 || c.number%outageEvery < outageEvery-outageFor {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := 1 + c.number/outageEvery; i != p.outages {
		p.outages, p.outageBegan = i, time.Now()
	}
	if time.Since(p.outageBegan) > outageAtMost {
		return nil
	}
	return outages[p.outages%len(outages)]
}

// choose returns the fault of the call, nil for none. The choice depends on the number of
// earlier calls of its class, so that the seed decides it and not the time.
func (p *proxy) choose(c *call) *fault {
	if c.isForeign() {
		return notFound
	}
	if p.healed.Load() {
		return nil
	}
	if f := p.keystone.Load(); f != nil && c.isKeystone() {
		return f
	}
	all := faults
	if c.isKubernetes() {
		all = kubernetesFaults
	} else if f := p.outage(c); f != nil {
		return f
	}
	if c.canBeHalf() && c.rand.IntN(200) < p.share {
		return halfway
	}
	if c.rand.IntN(100) >= p.share {
		return nil
	}
	for {
		f := all[c.rand.IntN(len(all))]
		if (f.fits == nil || f.fits(c)) && (!f.slow || p.killsLeft() > 0) {
			return f
		}
	}
}

func (c *call) isKeystone() bool { return c.service == "keystone" }
func (c *call) isRead() bool     { return c.service == "neutron" && c.Method == http.MethodGet }
func (c *call) isWrite() bool    { return c.service == "neutron" && c.Method != http.MethodGet }
func (c *call) isCreate() bool   { return c.service == "neutron" && c.Method == http.MethodPost }
func (c *call) isDelete() bool   { return c.service == "neutron" && c.Method == http.MethodDelete }

// canBeHalf reports whether Neutron can die in the middle of the call: the embedded Neutron does so
// when it creates, changes or deletes a router, or attaches a subnet.
func (c *call) canBeHalf() bool {
	isEmbedded := c.proxy.world != nil && c.proxy.world.neutron.Server != nil
	return isEmbedded && c.isWrite() && strings.HasPrefix(c.path, "v2.0/routers") && !strings.HasSuffix(c.path, "/remove_router_interface")
}

func (c *call) isConditional() bool { return c.Header.Get("If-Match") != "" }

// revokeToken revokes the call's token, and reports whether it was valid. It leaves a token
// that never worked alone, because authenticating again would not help then.
func (c *call) revokeToken() bool {
	return !c.isKeystone() && c.proxy.tokens.revoke(c.Header.Get("X-Auth-Token"))
}

// class returns the class of a call, such as "neutron GET v2.0/networks/*".
func class(service, method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case service == "neutron" && len(parts) > 2:
		parts[2] = "*"
	case service == "kubernetes" && slices.Contains(parts, "events"):
		parts = []string{"events"}
	case service == "kubernetes" && len(parts) > 6:
		// apis/GROUP/VERSION/namespaces/NAMESPACE/networks/NAME
		parts = slices.Concat(parts[5:6], []string{"*"}, parts[7:])
	}
	return service + " " + method + " " + strings.Join(parts, "/")
}
