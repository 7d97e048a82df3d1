// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

// Process is what a controller's process is started with.
type Process struct {
	// Name is its user agent.
	Name string
	// Cluster is the ID of its cluster.
	Cluster string
	// Kubernetes leads to the API server.
	Kubernetes *rest.Config
	// CloudsYAML has the cloud test.
	CloudsYAML []byte
	// Arguments are flags of the simulation.
	Arguments []string
	// Lost ends the process, as os.Exit does. It does not return.
	Lost func()
}

// Program is the program that a simulation runs.
type Program struct {
	// Start runs a controller as main does, with all of its parts, until ctx is cancelled and its work has ended.
	Start func(ctx context.Context, p Process) error
	// Preview returns what a controller would do for these Networks now. The credentials are the entry of that name in the YAML.
	Preview func(ctx context.Context, cluster string, cloudsYAML []byte, cloudName string, networks []*samplecrdv1.Network) ([]Preview, error)
	// Move runs the subcommand move for all Networks: from the cluster with the ID from to that of the process. It returns the exit
	// code and what it has printed. With old, it moves from those Networks, and their controller works.
	Move func(ctx context.Context, p Process, from string, old []samplecrdv1.Network) (code int, output string, err error)
}

// Preview is what a controller would do for one Network.
type Preview struct {
	// Steps is how many steps there are, and Text describes them.
	Steps int
	Text  string
	// Err is why there is no preview.
	Err error
}

// replica is one process after the other.
type replica struct {
	index int
	// restart is when the next process is started.
	restart time.Time
	current *process
}

// process is one process of a replica. A process that was killed sends nothing any more.
type process struct {
	world  *World
	name   string
	dead   chan struct{}
	kill   func()
	cancel context.CancelFunc
	ended  chan struct{}
	// handover is what the process works for, and code its exit code and output what it has printed, when it has ended; nil, 0 and ""
	// for a controller.
	handover *handover
	code     int
	output   string
	// suspended is until when the process sends and receives nothing.
	suspended time.Time
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// launch starts the next process of the replica.
func (w *World) launch(r *replica) {
	p, ctx := w.newProcess()
	r.current = p
	w.log("%s starts as replica %d", p.name, r.index)
	spec := w.processSpec(p, w.cluster)
	w.running.Go(func() {
		defer close(p.ended)
		w.log("%s has ended: %v", p.name, w.program.Start(ctx, spec))
	})
}

// newProcess returns a process that was not started yet, and its context.
func (w *World) newProcess() (*process, context.Context) {
	w.launched++
	ctx, cancel := context.WithCancel(w.ctx)
	p := &process{world: w, name: fmt.Sprintf("process-%d", w.launched), dead: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
	p.kill = sync.OnceFunc(func() { close(p.dead); cancel() })
	w.mu.Lock()
	w.processes[p.name] = p
	w.mu.Unlock()
	return p, ctx
}

// processSpec returns what the process is started with.
func (w *World) processSpec(p *process, cluster string) Process {
	return Process{
		Name: p.name, Cluster: cluster, CloudsYAML: w.cloud.yaml(), Arguments: w.arguments(),
		Kubernetes: w.clientConfig(w.connectionOf(p)),
		Lost: func() {
			w.log("%s has lost the lease", p.name)
			p.kill()
			goruntime.Goexit()
		},
	}
}

// arguments returns the flags of all processes.
func (w *World) arguments() []string {
	arguments := []string{"-cluster-resource-namespace=" + systemNamespace, "-resync=" + resync.String()}
	if w.seed%2 == 1 || hasTwins(w.seed) {
		arguments = append(arguments, "-delete-orphans")
	}
	if hasDeploymentPool(w.seed) {
		arguments = append(arguments, "-deployment-subnet-pool="+deploymentPool, fmt.Sprint("-deployment-cidr-prefix-length=", deploymentPrefix))
	}
	return arguments
}

// clientConfig returns the configuration of a client of the API server.
func (w *World) clientConfig(c restapi.Client) *rest.Config {
	return &rest.Config{Host: "http://kubernetes", Transport: w.api.Transport(c), QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

// connectionOf returns what is between the API server and the process.
func (w *World) connectionOf(p *process) restapi.Client {
	return restapi.Client{
		Dead:   p.dead,
		Before: func(r *restapi.Request) restapi.Fault { return w.faultInKubernetes(p, r) },
		After: func(r *restapi.Request, err error) {
			w.judge.kubernetes(p.name, r, err)
			if h := p.handover; h != nil && r.Verb == "patch" && err == nil {
				w.set(func() { h.patched = append(h.patched, r.Key) })
			}
		},
		Lateness: func() time.Duration { return w.latenessOf(p) },
	}
}

// latenessOf returns how late watches of the process are.
func (w *World) latenessOf(p *process) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	lateness := w.lateness
	if w.isNeighbour() {
		lateness = 0
	}
	return max(lateness, time.Until(p.suspended))
}

// tend restarts what has ended, as a kubelet does.
func (w *World) tend() {
	w.tendTransfers()
	if w.tendHandover() {
		return
	}
	for _, r := range w.replicas {
		switch {
		case r.current != nil && !r.current.hasEnded() && !r.current.isDead():
		case r.restart.IsZero():
			r.restart = time.Now().Add(time.Duration(1+w.rand.IntN(20)) * time.Second)
		case !time.Now().Before(r.restart):
			r.restart = time.Time{}
			w.launch(r)
		}
	}
}

// leader returns the replica that has renewed the Lease last, or one of them if none has.
func (w *World) leader() *replica {
	name := w.judge.leader()
	for _, r := range w.replicas {
		if r.current.name == name {
			return r
		}
	}
	return w.replicas[0]
}

// faultInKubernetes returns what happens to a request to the API server.
func (w *World) faultInKubernetes(p *process, r *restapi.Request) (f restapi.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dice := w.dice(p.name, r.Verb, r.Key.Resource, r.Key.Name)
	f.Delay = between(dice, time.Millisecond, 10*time.Millisecond)
	isLease := r.Key.Resource == "leases"
	switch {
	case time.Now().Before(p.suspended):
		f.Delay = time.Until(p.suspended) + between(dice, 0, 10*time.Millisecond)
	case w.isNeighbour() && p.handover == nil:
		// Of what the second cluster needs, only the cloud fails, which both share.
	case w.killAt(p, r.Writes() && !isLease):
		f.Lost, f.After = true, dice.IntN(2) == 0
	case time.Now().Before(w.kubernetesAway):
		f.Status = http.StatusServiceUnavailable
	case r.Verb != "watch" && dice.IntN(100) < w.kubernetesFaults:
		f = kubernetesFaults[dice.IntN(len(kubernetesFaults))]
		w.log("%s: %s %s %s is spoiled: %+v", p.name, r.Verb, r.Key.Resource, r.Key.Name, f)
	}
	return f
}

// dice returns the random numbers of one request. They do not depend on the order of requests that are sent at the same
// time, which differs from run to run.
func (w *shared) dice(request ...string) *rand.Rand {
	key := strings.Join(request, " ")
	w.rolled[key]++
	return seeded(w.seed, key, w.rolled[key])
}

// between returns a random duration. Two are never the same, so that what happens at one time seldom does.
func between(dice *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(dice.Int64N(int64(most-least)))
}

// newID returns the ID of a new object in Neutron.
func (w *shared) newID(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	dice := w.dice("ID of", name)
	id := uuid.UUID{}
	binary.BigEndian.PutUint64(id[:8], dice.Uint64())
	binary.BigEndian.PutUint64(id[8:], dice.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return id.String()
}

// kubernetesFaults are those of the API server and of what is before it.
var kubernetesFaults = []restapi.Fault{
	{Status: http.StatusInternalServerError},
	{Status: http.StatusInternalServerError, After: true},
	{Status: http.StatusServiceUnavailable},
	{Status: http.StatusTooManyRequests, RetryAfter: time.Second},
	{Status: http.StatusConflict},
	{Lost: true},
	{Lost: true, After: true},
	{Delay: 4 * time.Second},
}

// killAt reports whether the process is to be killed at this request, and kills it.
func (w *shared) killAt(p *process, isWrite bool) bool {
	if !isWrite || p == nil || p.isDead() {
		return false
	}
	left := &w.killAtWrite
	if h := p.handover; h != nil && h.killAtWrite > 0 {
		left = &h.killAtWrite
	}
	if *left == 0 || p.world.isNeighbour() && left == &w.killAtWrite {
		return false
	}
	*left--
	if *left > 0 {
		return false
	}
	w.log("%s is killed at a request", p.name)
	p.kill()
	return true
}

// faultInNeutron returns what happens to a request of a controller to Neutron or Keystone.
func (w *shared) faultInNeutron(r *http.Request) *embedded.Fault {
	p := w.processOf(r)
	if p == nil {
		return nil // a user
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.isDead() {
		return &embedded.Fault{Drop: true}
	}
	isWrite := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/identity")
	dice := w.dice(p.name, r.Method, r.URL.Path)
	usual := embedded.Fault{Delay: between(dice, 5*time.Millisecond, 50*time.Millisecond) * time.Duration(max(1, w.slowness))}
	switch {
	case time.Now().Before(p.suspended):
		usual.Delay += time.Until(p.suspended)
		return &usual
	case w.killAt(p, isWrite):
		return &embedded.Fault{Drop: true, After: dice.IntN(2) == 0}
	case time.Now().Before(w.neutronAway):
		return &embedded.Fault{Status: http.StatusServiceUnavailable, Message: "no backend"}
	case time.Now().Before(w.lackingUntil) && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+w.lacking):
		return &embedded.Fault{Status: http.StatusServiceUnavailable, Message: "no backend"}
	case isWrite && strings.HasSuffix(r.URL.Path, "/subnets") && dice.IntN(100) < w.subnetsTwice:
		usual.Twice, usual.Drop = true, dice.IntN(2) == 0
		w.noteRepeat(r)
		w.log("%s: a subnet is created twice", p.name)
	case dice.IntN(100) < w.neutronFaults:
		f := neutronFaults[dice.IntN(len(neutronFaults))]
		if f.Half && !isWrite {
			return &usual
		}
		w.log("%s: %s %s is spoiled: %+v", p.name, r.Method, r.URL.Path, f)
		return &f
	}
	return &usual
}

// noteRepeat remembers the network of a request for a subnet from a subnet pool that Neutron handles twice: the second subnet has another
// CIDR.
func (w *shared) noteRepeat(r *http.Request) {
	var body struct {
		Subnet struct {
			NetworkID string `json:"network_id"`
			PoolID    string `json:"subnetpool_id"`
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) == nil && body.Subnet.PoolID != "" {
		w.repeats[body.Subnet.NetworkID]++
	}
}

// repeatsOn returns how many requests for subnets on the network Neutron has handled twice.
func (w *shared) repeatsOn(network string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.repeats[network]
}

// neutronFaults are those of Neutron, of Keystone and of the proxies before them.
var neutronFaults = []embedded.Fault{
	{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "oops"},
	{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "oops", After: true},
	{Status: http.StatusServiceUnavailable, Message: "busy", RetryAfter: 3 * time.Second},
	{Status: http.StatusGatewayTimeout, Message: "<html>504 Gateway Time-out</html>", After: true},
	{Status: http.StatusNotFound, Message: "<html>404 page of a proxy</html>"},
	{Status: http.StatusUnauthorized, Type: "Unauthorized", Message: "no"},
	{Drop: true},
	{Drop: true, After: true},
	{Hang: true},
	{Hang: true, After: true},
	{Delay: 10 * time.Second},
	{Half: true},
}

// processOf returns the process that has sent the request; nil if none has.
func (w *shared) processOf(r *http.Request) *process {
	name, _, _ := strings.Cut(r.UserAgent(), " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[name]
}

// seeded returns a source of random numbers that the seed and the purpose decide.
func seeded(seed uint64, purpose string, index int) *rand.Rand {
	hash := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprintf("%s %d", purpose, index)) {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, hash))
}
