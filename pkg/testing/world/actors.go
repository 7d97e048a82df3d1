// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

// Actor is a user, an operator or a fault that acts once while a controller works.
type Actor struct {
	Name string
	// Act is called right before this request of the controller takes effect. The controller has
	// decided to send it without knowing of the act. A fault that Act returns happens to the
	// request, if it is one to Neutron.
	Act func(w *World, request string) *embedded.Fault
	// End undoes what keeps the controller from its work; nil: there is no such thing.
	End func(*World)
	// Forbidden are the requests that the controller must not begin between Act and End.
	Forbidden []string
	// Until is a request with which the controller ends that itself; "": there is none.
	Until string
	// SameEvents is set if the events of changes are the same as without the actor.
	SameEvents bool
	// Stays is set if the act still matters after the next sync, and so to the next leader.
	Stays bool
	// Retried is set if each sync tries again what the act prevents, until End.
	Retried bool
	// Of reports whether the act means something in a Scenario; nil: in each.
	Of func(Scenario) bool
	// Except are the names of the Scenarios in which the act means something else.
	Except []string
	// Want returns the spec that the Network has in the end, and nil if there is none. nil: the
	// one of the Scenario.
	Want func(Scenario) *samplecrdv1.NetworkSpec
}

// Irreversible are the requests that no later sync can repair, as TakeJournal returns them.
var Irreversible = []string{"POST networks", "DELETE networks/ID", "DELETE subnets/ID",
	"POST rbac-policies", "DELETE rbac-policies/ID", "POST routers", "DELETE routers/ID", "PUT routers/ID/add_router_interface", "PUT routers/ID/remove_router_interface"}

// deletions are the names of the Scenarios with a Network that is being deleted.
var deletions = []string{"delete", retained, "delete before anything was created", recreated, recreatedAtOnce,
	deletedPooled, deletedShared, deletedWithRouter, deletedAtExisting, deletedDualStack, deletedWithRoutes, retainedWithRoutes, retainedWithRouter, retainedAtExisting, recreatedWithRouter,
	importDeleted, importRetained, importLeft, oldMarkDeleted, vanishedAndDeleted, sharedRetained}

// user returns the act of a user who changes the Network; nothing happens if it is gone.
func user(change func(*samplecrdv1.Network)) func(*World, string) *embedded.Fault {
	return func(w *World, _ string) *embedded.Fault {
		if w.Find() != nil {
			w.Edit(change)
		}
		return nil
	}
}

// fault returns an act that does nothing but this to the request.
func fault(f embedded.Fault) func(*World, string) *embedded.Fault {
	return func(*World, string) *embedded.Fault { return &f }
}

// retain is the act of a user who wants to keep the network after all. What the Network has at the
// controller's next request to Kubernetes stays: a request that was sent before may still take effect.
func retain(w *World, _ string) *embedded.Fault {
	n := w.Find()
	if n == nil {
		return nil
	}
	if n.DeletionTimestamp != nil {
		w.beforeKubernetes = func() {
			for _, line := range w.Owned() {
				w.Retained = append(w.Retained, unmarkedLine(line))
			}
		}
	}
	w.Edit(func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain })
	return nil
}

// obstructing returns the act of another client that can be in the way, as far as Neutron lets it.
func obstructing(act obstacle) func(*World, string) *embedded.Fault {
	return func(w *World, _ string) *embedded.Fault {
		if n := w.Find(); n != nil && slices.ContainsFunc(w.listNetworks(), func(in network) bool { return in.ID == n.Status.NetworkID }) {
			_ = act(w)
		}
		return nil
	}
}

// routing returns an act on the Network's first subnet, if that exists and there are routers.
func routing(act func(w *World, subnet string)) func(*World, string) *embedded.Fault {
	return func(w *World, _ string) *embedded.Fault {
		n := w.Find()
		if n == nil || w.ids[third] == "" || !slices.ContainsFunc(w.listNetworks(), func(in network) bool { return slices.Contains(in.Subnets, n.Status.SubnetID) }) {
			return nil
		}
		act(w, n.Status.SubnetID)
		return nil
	}
}

// detachAll detaches the subnets of the controller's networks from all routers, after the routes through them.
func detachAll(w *World) {
	for _, r := range w.ownRouters() {
		if r.Routes != nil {
			w.SetRoutes(r.ID)
		}
	}
	for _, i := range w.Neutron.Interfaces() {
		if _, isProtected := w.protected[i.NetworkID]; !isProtected {
			w.send(w.Client, http.MethodPut, "routers/"+i.RouterID+"/remove_router_interface", map[string]any{"port_id": i.PortID}, nil)
		}
	}
}

// deleteRouters deletes the routers that the controller has created.
func deleteRouters(w *World) {
	detachAll(w)
	for _, r := range w.ownRouters() {
		w.DeleteInNeutron("routers", r.ID)
	}
}

// Turn switches the networks of the controller and the routers that it has created on or off, as another
// client.
func (w *World) Turn(up bool) {
	w.t.Helper()
	for _, n := range w.listNetworks() {
		if _, isProtected := w.protected[n.ID]; !isProtected {
			w.updateInNeutron("networks", "network", n.ID, map[string]any{"admin_state_up": up})
		}
	}
	for _, r := range w.ownRouters() {
		w.updateInNeutron("routers", "router", r.ID, map[string]any{"admin_state_up": up})
	}
}

// Actors act at each request of each of the Scenarios.
var Actors = []Actor{
	{Name: "a user sets a label", SameEvents: true, Act: user(func(n *samplecrdv1.Network) { n.Labels = map[string]string{"team": "web"} })},
	{Name: "a user pauses the Network", Stays: true, Forbidden: Irreversible, Except: []string{recreated, recreatedWithRouter}, Act: user(Paused),
		End: func(w *World) { user(Resumed)(w, "") }},
	{Name: "a user pauses the Network and resumes it", SameEvents: true, Act: func(w *World, _ string) *embedded.Fault {
		user(Paused)(w, "")
		return user(Resumed)(w, "")
	}},
	{Name: "a user requests a reconcile", SameEvents: true, Act: user(ReconcileRequested)},
	// Without status and mark, nothing says that the network is ours, or an interface.
	{Name: "a user removes the status", Stays: true, Except: append([]string{networkUnmarked, subnetUnmarked}, forgetful...),
		Act: user(func(n *samplecrdv1.Network) { n.Status = samplecrdv1.NetworkStatus{} })},
	// A Network that is being deleted would be gone at once: that user abandons its network.
	{Name: "a user removes the finalizer", Stays: true, Forbidden: Irreversible, Until: "patch networks", Except: deletions,
		Act: user(func(n *samplecrdv1.Network) { n.Finalizers = nil })},
	{Name: "a user deletes the Network", Stays: true, Except: append(slices.Clone(deletions), networkUnmarked), Act: user(func(n *samplecrdv1.Network) {
		if n.DeletionTimestamp == nil {
			BeingDeleted(n)
		}
	}), Want: func(Scenario) *samplecrdv1.NetworkSpec { return nil }},
	{Name: "a user changes the CIDR", Stays: true, Except: append(slices.Clone(deletions), subnetUnmarked), Act: user(func(n *samplecrdv1.Network) { n.Spec = *spec("172.16.0.0/24", "None") }),
		Want: func(Scenario) *samplecrdv1.NetworkSpec { return spec("172.16.0.0/24", "None") }},
	{Name: "a user chooses Retain", Stays: true, Forbidden: []string{"DELETE networks/ID"}, Except: append([]string{recreated, recreatedWithRouter, duplicated, importDeleted}, allRetained...), Act: retain},
	{Name: "the token is revoked", SameEvents: true, Act: func(w *World, _ string) *embedded.Fault { w.Neutron.RevokeTokens(); return nil }},
	{Name: "Neutron fails", SameEvents: true, Act: fault(embedded.Fault{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "oops"})},
	{Name: "Neutron is busy", SameEvents: true, Act: fault(embedded.Fault{Status: http.StatusServiceUnavailable, Message: "busy"})},
	{Name: "a proxy has no backend", SameEvents: true, Act: fault(embedded.Fault{Status: http.StatusNotFound, Message: "no backend"})},
	{Name: "a list is answered as if it were not there", SameEvents: true, Act: func(_ *World, request string) *embedded.Fault {
		if strings.HasPrefix(request, "GET ") && !strings.HasSuffix(request, "/ID") {
			return &embedded.Fault{Status: http.StatusNotFound, Type: "NetworkNotFound", Message: "Network 0 could not be found."}
		}
		return nil
	}},
	{Name: "a port is created", Stays: true, SameEvents: true, Act: func(w *World, request string) *embedded.Fault {
		n := w.Find()
		if n == nil || !slices.ContainsFunc(w.listNetworks(), func(in network) bool { return in.ID == n.Status.NetworkID }) {
			return nil
		}
		port := w.CreatePort(n.Status.NetworkID)
		// The controller looks for ports before it reads the Network past the cache and sends the request.
		if request == "get networks" || request == "DELETE subnets/ID" {
			w.MayLose(port)
		}
		return nil
	}, End: (*World).DeletePorts},
	{Name: "a user attaches the subnet to another router", Stays: true, SameEvents: true, Act: routing(func(w *World, subnet string) {
		w.AttachElsewhere(w.ids[third], subnet)
	}), End: (*World).DeletePorts},
	{Name: "a floating IP needs the router", Stays: true, SameEvents: true, Act: routing(func(w *World, _ string) {
		w.CreateFloatingIP(w.CreatePort(w.Find().Status.NetworkID))
	}), End: (*World).DeletePorts},
	{Name: "a user detaches the subnets", Except: allRetained, Act: routing(func(w *World, _ string) { detachAll(w) })},
	{Name: "a user deletes the own router", Except: allRetained, Act: routing(func(w *World, _ string) { deleteRouters(w) })},
	{Name: "another client switches everything off", Stays: true, SameEvents: true, Act: func(w *World, _ string) *embedded.Fault {
		w.Turn(false)
		return nil
	}, End: func(w *World) { w.Turn(true) }},
	{Name: "a stranger adds a subnet", SameEvents: true, Act: obstructing(strangersSubnet("10.66.0.0/24")), End: (*World).ClearObstacles},
	{Name: "a stranger attaches a subnet to the router", SameEvents: true, Retried: true, Act: obstructing(strangersAt("", "10.66.0.0/24")), End: (*World).ClearObstacles},
	{Name: "an administrator shares the network", SameEvents: true, Retried: true, Act: obstructing(byAdmin("shared")), End: (*World).ClearObstacles},
	{Name: "a stranger ends the sharing", Of: Scenario.IsShared, Except: []string{sharedRetained}, Act: obstructing(endShares)},
	{Name: "a user shares the network with the same projects", Of: Scenario.IsShared, Except: []string{observedUnshared}, Act: obstructing(shareWithAll)},
	{Name: "another client replaces the routes", Of: Scenario.HasRoutes, Retried: true, Except: allRetained, Act: obstructing(replaceRoutes), End: (*World).ClearObstacles},
	{Name: "another team takes a block from the subnet pool", Of: Scenario.IsPooled, SameEvents: true, Act: obstructing(block(team, 24)), End: (*World).ClearObstacles},
	{Name: "a user extends the subnet pool", Of: Scenario.IsPooled, SameEvents: true, Act: func(w *World, _ string) *embedded.Fault {
		extendPool(team, "10.24.0.0/20", teamCIDR)(w)
		return nil
	}},
	{Name: "a worker of Neutron dies in the middle of the request", Act: func(_ *World, request string) *embedded.Fault {
		if method, path, _ := strings.Cut(request, " "); hasMiddle(method, "/"+path) {
			return &embedded.Fault{Half: true}
		}
		return nil
	}},
	{Name: "the answer is lost", Act: fault(embedded.Fault{After: true, Drop: true})},
}

// ActAt lets the actor act at this request of the controller, from 1. It replaces CrashAt.
// Requests of this package's methods do not count.
func (w *World) ActAt(request int, actor Actor) *Act {
	a := &Act{request: request, actor: actor, world: w}
	w.AroundKubernetes(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb != "list" && r.Verb != "watch" {
			a.next(r.Verb + " networks")
		}
		return do()
	})
	w.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		_, path, isNeutron := strings.Cut(r.URL.Path, "/v2.0/")
		if !isNeutron || !strings.HasPrefix(r.UserAgent(), userAgent) {
			return nil
		}
		if f := a.next(r.Method + " " + withoutID("v2.0/"+path)); f != nil {
			return f
		}
		return w.refused(r)
	})
	return a
}

// Act is what has become of ActAt. The controller sends one request at a time.
type Act struct {
	request int
	actor   Actor
	world   *World

	// mu also orders requests of which one was not answered: the race detector does not know
	// that the controller sends the second one after the first one.
	mu       sync.Mutex
	seen     int
	before   []string // up to the request that the actor acts at
	requests []string // after it
	ended    bool
}

func (a *Act) next(request string) *embedded.Fault {
	acts, first := a.count(request)
	if first != nil {
		first()
	}
	if acts {
		return a.actor.Act(a.world, request)
	}
	return nil
}

// count reports whether the actor acts at this request, and returns what is to be done before it.
func (a *Act) count(request string) (acts bool, first func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	if a.seen <= a.request {
		a.before = append(a.before, request)
	}
	if a.seen > a.request && !a.ended {
		a.requests = append(a.requests, request)
	}
	isKubernetes := strings.HasSuffix(request, " networks") && strings.ToLower(request) == request
	if isKubernetes {
		first, a.world.beforeKubernetes = a.world.beforeKubernetes, nil
	}
	return a.seen == a.request, first
}

// Seen returns the number of requests so far.
func (a *Act) Seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// Done reports whether the actor has acted.
func (a *Act) Done() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen >= a.request
}

// Requests returns the requests before the act, and those since. The act was right before the first of these.
func (a *Act) Requests() (before, since []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := len(a.before) - 1
	return a.before[:at], append([]string{a.before[at]}, a.requests...)
}

// stop returns the requests until now.
func (a *Act) stop() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return slices.Clone(a.requests)
}

// End ends the act, and returns the forbidden requests that were sent.
func (a *Act) End() (forbidden []string) {
	requests := a.stop()
	if i := slices.Index(requests, a.actor.Until); i >= 0 {
		requests = requests[:i]
	}
	if a.actor.End != nil {
		a.actor.End(a.world)
	}
	return slices.DeleteFunc(requests, func(request string) bool { return !slices.Contains(a.actor.Forbidden, request) })
}
