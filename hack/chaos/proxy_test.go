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
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/types"
)

// proxy passes on the requests of one process of a controller to Keystone, Neutron and the API
// server. It spoils some of them, and kills the process according to deaths.
type proxy struct {
	name string
	// cluster is the value of clusterLabel of the Networks that the controller sees.
	cluster string
	seed    uint64
	// share is the percentage of the calls that are spoiled.
	share  int
	tally  *tally
	target target
	url    string
	// kill ends the process, and returns when it has ended.
	kill   func()
	healed atomic.Bool
	tokens tokens
	// world is for what Neutron has, past the proxy.
	world *world
	// ledger, record, witness and changes are shared by all replicas of the controller.
	ledger  *ledger
	record  *record
	witness *witness
	changes *changes
	// life is the running process.
	life atomic.Pointer[life]
	gate gate
	// holdUp is called for the next request that has changed the Lease, before its answer.
	holdUp atomic.Pointer[func()]
	// kubernetes sends requests to the API server, and stream passes on those that are never
	// spoiled.
	kubernetes http.RoundTripper
	stream     http.Handler
	// inFlight is the number of calls in progress.
	inFlight atomic.Int32
	// looks counts the lists of all networks.
	looks atomic.Int32
	// keystone is the present fault of Keystone, and leads the place to which it leads. logins
	// counts the requests for tokens.
	keystone  atomic.Pointer[fault]
	leads     atomic.Int32
	logins    atomic.Int32
	elsewhere *elsewhere
	// watches is the number of watches so far.
	watches atomic.Int32
	server  http.Server

	mu     sync.Mutex
	calls  int
	counts map[string]int
	deaths deaths
	// seen is the number of restores of etcd before the last watch, by path.
	seen map[string]int
	// outages is the number of outages so far, and outageBegan the start of the last one.
	outages     int
	outageBegan time.Time
}

// target has the URLs of the servers, without the API versions.
type target struct{ keystone, neutron, kubernetes string }

// deaths has the remaining kills.
type deaths struct {
	rand *rand.Rand
	left int
	// in is the number of calls until the next kill, and between its average.
	in, between int
}

// startProxy starts a proxy on loopback.
func startProxy(name string, seed uint64, share int, deaths deaths, target target, tally *tally) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{
		name: name, seed: seed, share: share, tally: tally, target: target,
		url:    "http://" + listener.Addr().String(),
		counts: map[string]int{},
		seen:   map[string]int{},
		deaths: deaths,
	}
	p.deaths.rand = seeded(seed, "deaths", 0)
	p.deaths.in = p.deaths.interval()
	p.server.Handler = p
	p.server.ErrorLog = log.New(io.Discard, "", 0)
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// cloudsYAML returns the clouds.yaml with the address of the proxy.
func (p *proxy) cloudsYAML(original []byte) []byte {
	return bytes.ReplaceAll(original, []byte(p.target.keystone), []byte(p.url+"/keystone"))
}

// call is a request of the controller.
type call struct {
	*http.Request
	proxy *proxy
	// service is keystone, neutron or kubernetes, and path is the rest of the path.
	service, path string
	body          []byte
	// number is how many calls to the cloud came before, of all classes.
	number int
	// rand has this call's own random numbers.
	rand *rand.Rand
	// life is the process that sent it.
	life *life
	// entry is the call in the record; nil if it is not recorded.
	entry *entry
	// half reports whether Neutron dies in the middle of it.
	half bool
	// reading is the call if it reads a Network; otherwise nil.
	reading *reading
	// onImport is the call if it changes a network that was created by hand; otherwise nil.
	onImport *deed
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if streams(r) {
		if p.expires(r) {
			answerExpired(w)
			return
		}
		p.gate.stream(p.stream, w, r)
		return
	}
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := p.admit(r, body)
	defer p.record.answered(c.entry)
	w = &watchedWriter{w, func() {
		if c.isKubernetes() {
			p.gate.pass(r.Context())
		}
		p.record.answered(c.entry)
		p.witness.answered(c)
	}}
	f, death := p.choose(c), p.nextDeath()
	if death == beforeEffect {
		p.kill()
		cut(w, c, nil)
	}
	var a *answer
	if f == nil || f.effect || death == afterEffect {
		a = p.forward(c)
	}
	switch death {
	case afterEffect:
		p.kill()
		cut(w, c, a)
	case soon:
		time.AfterFunc(time.Duration(c.rand.IntN(30))*time.Millisecond, p.kill)
	}
	if f == nil {
		a.send(w)
		return
	}
	p.tally.add(c.realm() + " fault: " + f.name)
	p.tally.log("%s %s %s/%s: fault %s", p.name, c.Method, c.service, c.path, f.name)
	f.spoil(w, c, a)
}

// admit counts and records a request, and returns it as a call.
func (p *proxy) admit(r *http.Request, body []byte) *call {
	service, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c := &call{Request: r, proxy: p, service: service, path: path, body: body, life: p.life.Load()}
	c.entry = p.record.arrived(c)
	p.witness.arrived(c, p.ledger)
	p.tally.add(c.realm() + " calls")
	class := class(service, r.Method, path)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.number = p.calls
	c.rand = seeded(p.seed, class, p.counts[class])
	p.counts[class]++
	if !c.isKubernetes() {
		p.calls++
	}
	return c
}

func (c *call) isKubernetes() bool { return c.service == "kubernetes" }

// sent returns the body for the journal, without credentials and binary data.
func (c *call) sent() string {
	if c.isKeystone() || bytes.IndexByte(c.body, 0) >= 0 {
		return fmt.Sprintf("(%d bytes)", len(c.body))
	}
	return string(c.body)
}

// realm returns the name under which the call is counted.
func (c *call) realm() string {
	if c.isKubernetes() {
		return "Kubernetes"
	}
	return "OpenStack"
}

// moment is when a process is killed, relative to one of its calls.
type moment int

const (
	never moment = iota
	beforeEffect
	afterEffect // before the answer
	soon        // after the answer, during whatever the process does then
)

func (p *proxy) nextDeath() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.deaths
	d.in--
	if p.healed.Load() || d.left == 0 || d.in > 0 {
		return never
	}
	d.left--
	d.in = d.interval()
	return moment(1 + d.rand.IntN(3))
}

func (d *deaths) interval() int { return 1 + d.rand.IntN(2*d.between) }

func (p *proxy) killsLeft() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaths.left
}

// answer is an answer of a server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) send(w http.ResponseWriter) {
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have disconnected
}

// forward sends the call to its server, and returns the answer. It continues if the client
// disconnects, as Neutron does.
func (p *proxy) forward(c *call) *answer {
	if c.isKubernetes() {
		p.gate.pass(c.Context())
	}
	token := c.Header.Get("X-Auth-Token")
	if !c.isKubernetes() && p.tokens.isRevoked(token) {
		return &answer{status: http.StatusUnauthorized, body: []byte(keystoneError)}
	}
	began := time.Now()
	a, err := p.roundTrip(c)
	p.record.hadEffect(c.entry)
	if err != nil {
		p.tally.log("%s %s %s/%s: %v", p.name, c.Method, c.service, c.path, err)
		return &answer{status: http.StatusBadGateway, body: []byte(err.Error())}
	}
	p.tally.log("%s %s %s/%s?%s %s: %d", p.name, c.Method, c.service, c.path, c.URL.RawQuery, c.sent(), a.status)
	if a.status < http.StatusBadRequest {
		p.note(c, a)
	}
	if c.isLeaseWrite() && a.status < http.StatusBadRequest {
		p.record.leaseWritten(c.life, a.body, began)
		if holdUp := p.holdUp.Swap(nil); holdUp != nil {
			(*holdUp)()
		}
	}
	return a
}

func (p *proxy) roundTrip(c *call) (*answer, error) {
	base, transport := p.target.neutron, http.DefaultTransport
	switch {
	case c.isKeystone():
		base = p.target.keystone
	case c.isKubernetes():
		base, transport = p.target.kubernetes, p.kubernetes
	}
	body := c.body
	if c.isKeystone() && p.leadsTo() == otherProject {
		body = p.elsewhere.asOther(body)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), time.Minute)
	defer cancel()
	url := base + "/" + c.path
	if c.URL.RawQuery != "" {
		url += "?" + c.URL.RawQuery
	}
	request, err := http.NewRequestWithContext(ctx, c.Method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = c.Header.Clone()
	if c.service == "elsewhere" {
		token, err := p.elsewhere.token(ctx)
		if err != nil {
			return nil, err
		}
		request.Header.Set("X-Auth-Token", token)
	}
	if c.half {
		request.Header.Set(halfHeader, "true")
	}
	// Without this header the transport decompresses the answer.
	request.Header.Del("Accept-Encoding")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, err
	}
	response.Header.Del("Content-Length")
	return &answer{response.StatusCode, response.Header, p.rewrite(c, body)}, nil
}

// rewrite replaces the addresses of Keystone and Neutron in Keystone's answers by the proxy's.
func (p *proxy) rewrite(c *call, body []byte) []byte {
	if !c.isKeystone() {
		return body
	}
	body = bytes.ReplaceAll(body, []byte(p.target.neutron), []byte(p.url+"/neutron"))
	if p.leadsTo() == otherRegion {
		body = withOtherRegion(body, p.url+"/elsewhere")
	}
	return bytes.ReplaceAll(body, []byte(p.target.keystone), []byte(p.url+"/keystone"))
}

func (p *proxy) leadsTo() place { return place(p.leads.Load()) }

// note counts a call that has taken effect, and updates the ledger.
func (p *proxy) note(c *call, a *answer) {
	if c.isKeystone() {
		p.logins.Add(1)
		return
	}
	if c.Method != http.MethodGet && !c.isEvent() && !c.isLeaseWrite() {
		p.changes.add(fmt.Sprintf("%s %s %s/%s: %s", p.name, c.Method, c.service, c.path, c.sent()))
	}
	if c.isKubernetes() {
		p.witness.read(c, a.body)
		return
	}
	p.tokens.use(c.Header.Get("X-Auth-Token"))
	collection, id, _ := strings.Cut(strings.TrimPrefix(c.path, "v2.0/"), "/")
	query := c.URL.Query()
	if c.isRead() && collection == "networks" && id == "" && !query.Has("id") && !query.Has("description") && !query.Has("router:external") {
		p.looks.Add(1)
	}
	if c.isRead() && collection == "networks" && id != "" {
		p.world.legacies.shown(id)
	}
	p.witness.worked(c)
	switch c.Method + " " + collection {
	case "POST networks":
		c.entry.unheard = c.Context().Err() != nil
		p.ledger.created(c.entry, a.body)
	case "POST subnets":
		p.ledger.createdSubnet(a.body)
	case "POST routers":
		p.ledger.createdRouter(c.entry, a.body, p.world)
	case "PUT networks":
		p.ledger.updated(id, a.body)
	case "DELETE networks":
		p.ledger.deleted(id)
	}
}

// ledger has the networks that a controller has created and not deleted, and the mistakes at
// any time: at the end, a duplicate network may have been deleted again.
type ledger struct {
	mu       sync.Mutex
	made     map[string]creation // by network ID
	ever     map[string]creation // those that were deleted too
	subnets  map[string]madeSubnet
	mistakes []mistake
	// routers has the routers that carried a mark of the controller's, by ID.
	routers map[string]madeRouter
}

// creation is the request that created a network, and the network's name and owner.
type creation struct {
	request     *entry
	name, owner string
}

type madeSubnet struct {
	network string // its ID
	cidr    netip.Prefix
}

// madeRouter has the request that created a router, and the router's owner. The request is not
// known if Neutron died in the middle of it.
type madeRouter struct {
	request *entry
	owner   string
}

// mistake describes what was wrong, with the requests that caused it.
type mistake struct {
	text     string
	requests []*entry
}

func (l *ledger) created(request *entry, body []byte) {
	var made struct {
		Network struct{ ID, Name, Description string }
	}
	err := json.Unmarshal(body, &made)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.mistakes = append(l.mistakes, mistake{text: fmt.Sprintf("unreadable answer to a create: %v", err)})
		return
	}
	if l.made == nil {
		l.made, l.ever = map[string]creation{}, map[string]creation{}
	}
	for id, other := range l.made {
		if other.owner == made.Network.Description {
			l.mistakes = append(l.mistakes, mistake{
				fmt.Sprintf(duplicate+"network %s was created while %s existed with the same mark, %s", made.Network.ID, id, other.owner),
				[]*entry{request, other.request},
			})
		}
	}
	l.made[made.Network.ID] = creation{request, made.Network.Name, made.Network.Description}
	l.ever[made.Network.ID] = l.made[made.Network.ID]
}

func (l *ledger) createdSubnet(body []byte) {
	var made struct {
		Subnet struct {
			ID        string
			NetworkID string `json:"network_id"`
			CIDR      netip.Prefix
		}
	}
	err := json.Unmarshal(body, &made)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.mistakes = append(l.mistakes, mistake{text: fmt.Sprintf("unreadable answer to a create: %v", err)})
		return
	}
	if l.subnets == nil {
		l.subnets = map[string]madeSubnet{}
	}
	l.subnets[made.Subnet.ID] = madeSubnet{made.Subnet.NetworkID, made.Subnet.CIDR}
}

// complete adds to the deed what is known about its network, and returns the Network's name;
// false if the controller has not created it.
func (l *ledger) complete(d *deed, c *call) (namespace, name string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.subnet != "" {
		subnet := l.subnets[d.subnet]
		d.network, d.cidr = subnet.network, subnet.cidr
	}
	made, known := l.ever[d.network]
	var body struct {
		Network, Router struct{ Name, Description string }
	}
	switch {
	case d.kind == creates:
		known = json.Unmarshal(c.body, &body) == nil
		made = creation{name: body.Network.Name, owner: body.Network.Description}
	case d.kind == createsRouter:
		known = json.Unmarshal(c.body, &body) == nil
		made = creation{name: body.Router.Name, owner: body.Router.Description}
	case d.router != "" && d.subnet == "":
		made, known = d.ofRouter, d.isOwn
		l.knowRouter(d.router, madeRouter{owner: made.owner})
	}
	d.isOwn = d.isOwn && (d.kind == createsRouter || d.ofRouter.owner == made.owner)
	for id, other := range l.made {
		d.duplicate = d.duplicate || d.network != "" && id != d.network && other.owner == made.owner
	}
	d.owner, _ = ownerOf(made.owner)
	namespace, name, _ = strings.Cut(made.name, "/")
	return namespace, name, known
}

// createdRouter records a router that Neutron has created, and finds another one of the same owner
// for the same external network.
func (l *ledger) createdRouter(request *entry, body []byte, w *world) {
	var made struct{ Router routers.Router }
	err := json.Unmarshal(body, &made)
	all, listErr := w.routing(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = cmp.Or(err, listErr); err != nil {
		l.mistakes = append(l.mistakes, mistake{text: fmt.Sprintf("unreadable answer to a create: %v", err)})
		return
	}
	owner := strings.TrimPrefix(made.Router.Description, ownerPrefix)
	l.knowRouter(made.Router.ID, madeRouter{request, made.Router.Description})
	for _, other := range all.byOwner[owner] {
		external := other.GatewayInfo.NetworkID
		isUsable := external == made.Router.GatewayInfo.NetworkID || external == "" && !w.others.isCleared(other.ID)
		if other.ID == made.Router.ID || !isUsable {
			continue
		}
		requests := []*entry{request}
		if earlier := l.routers[other.ID].request; earlier != nil {
			requests = append(requests, earlier)
		}
		l.mistakes = append(l.mistakes, mistake{
			fmt.Sprintf(secondRouter+"%s was created while %s existed with the same mark, %s", made.Router.ID, other.ID, owner), requests,
		})
	}
}

// knowRouter must be called with the lock held.
func (l *ledger) knowRouter(id string, r madeRouter) {
	if l.routers == nil {
		l.routers = map[string]madeRouter{}
	}
	if _, known := l.routers[id]; !known {
		l.routers[id] = r
	}
}

// ownerOfRouter returns the UID of the Network whose mark a router carried.
func (l *ledger) ownerOfRouter(id string) (types.UID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, known := l.routers[id]
	uid, _ := ownerOf(made.owner)
	return uid, known
}

// look adds to the deed what Neutron has of its router and its subnet. It returns false if Neutron
// does not have them: then the request has no effect.
func (p *proxy) look(d *deed) bool {
	ctx, client := context.Background(), p.world.neutron.Client
	if d.router != "" {
		router, err := routers.Get(ctx, client, d.router).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return false
		}
		if err == nil {
			_, d.isOwn = ownerOf(router.Description)
			d.isOwn = d.isOwn && strings.HasPrefix(router.Name, p.cluster+"/")
			d.external, d.ofRouter = router.GatewayInfo.NetworkID, creation{name: router.Name, owner: router.Description}
		}
		d.duplicate = d.kind == deletesRouter && p.world.hasSibling(ctx, router)
	}
	if d.kind != attaches && d.kind != detaches {
		return true
	}
	subnet, err := subnets.Get(ctx, client, d.subnet).Extract()
	if err != nil {
		return !gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	}
	d.gateway, _ = netip.ParseAddr(subnet.GatewayIP) // it may have none
	if p.world.neutron.Server != nil {
		for _, i := range p.world.neutron.Interfaces() {
			d.half = d.half || i.Half && slices.Contains(i.SubnetIDs, d.subnet)
		}
	}
	return true
}

// hasSibling reports whether Neutron has another router with the same mark.
func (w *world) hasSibling(ctx context.Context, router *routers.Router) bool {
	all, err := w.routing(ctx)
	if err != nil || router == nil {
		return false
	}
	return slices.ContainsFunc(all.byOwner[strings.TrimPrefix(router.Description, ownerPrefix)], func(r routers.Router) bool { return r.ID != router.ID })
}

// creator returns the UID of the Network that a network was created for.
func (l *ledger) creator(id string) (types.UID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, known := l.ever[id]
	uid, _ := ownerOf(made.owner)
	return uid, known
}

// updated removes a network that has lost its mark.
func (l *ledger) updated(id string, body []byte) {
	var updated struct{ Network struct{ Description string } }
	if json.Unmarshal(body, &updated) == nil && !strings.HasPrefix(updated.Network.Description, ownerPrefix) {
		l.deleted(id)
	}
}

func (l *ledger) deleted(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.made, id)
}

// found returns the mistakes, except those by requests that could not be recalled.
func (l *ledger) found(tally *tally) (v violations) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.mistakes {
		if slices.ContainsFunc(m.requests, func(e *entry) bool { return e.tooLate || e.unheard }) {
			tally.log("%s", m.text)
			tally.add("duplicates, for a time, by requests that arrived or ended too late")
			continue
		}
		v.add("%s", m.text)
	}
	return v
}

// tokens has the tokens that were used successfully.
type tokens struct {
	mu      sync.Mutex
	revoked map[string]bool // false: the token is valid
}

func (t *tokens) use(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.revoked == nil {
		t.revoked = map[string]bool{}
	}
	if _, known := t.revoked[token]; !known {
		t.revoked[token] = false
	}
}

// revoke revokes a token, and reports whether it was valid until now.
func (t *tokens) revoke(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	revoked, known := t.revoked[token]
	if known {
		t.revoked[token] = true
	}
	return known && !revoked
}

// revokeAll revokes all tokens that were used.
func (t *tokens) revokeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for token := range t.revoked {
		t.revoked[token] = true
	}
}

func (t *tokens) isRevoked(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked[token]
}
