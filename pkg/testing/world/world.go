// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world is what surrounds a controller in tests: an API server, an embedded Neutron
// and its users. It keeps a journal of all requests, makes a controller crash at any of them,
// and compares both sides at the end. It contains no controller: the tests bring their own.
package world

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/pipes"
)

const (
	// Cluster is the ID of the controller's cluster.
	Cluster = "11111111-0000-0000-0000-000000000000"
	// UID is the UID of the Networks that NewNetwork returns.
	UID = types.UID("22222222-0000-0000-0000-000000000000")
)

// Key is the key of the Networks that NewNetwork returns.
var Key = cache.NewObjectName("default", "net-a")

// World holds both sides. Its methods fail the test if they fail.
type World struct {
	Kube    *fake.Clientset
	API     *apiserver.Server // stores the Networks of Kube
	Secrets *kubefake.Clientset
	Events  *record.FakeRecorder
	Neutron *embedded.Server
	// Client is a user's client of Neutron. It shares no code with the controller.
	Client *gophercloud.ServiceClient

	// Retained are the networks that an Actor wants to stay, as Check wants them.
	Retained []string

	t          testing.TB
	controller *neutron.Client // shared by the clouds of NewCloud
	watched    chan struct{}   // see AwaitSecretWatch
	ports      []string
	// addresses has the addresses that the ports of CreatePort had at first, lost what became of those
	// that a port has no more: see DeletePorts.
	addresses map[string][]ports.IP
	lost      []string
	detached  []func()          // see DeletePorts
	ids       map[string]string // see CreateRouting
	acted     bool              // see once
	// interfaceOwner is the device owner of the interfaces: see Distribute.
	interfaceOwner string
	undo           []func() // see ClearObstacles
	admin          *gophercloud.ServiceClient

	// beforeKubernetes is called before the controller's next request to Kubernetes: see retain.
	beforeKubernetes func()

	mu      sync.Mutex
	journal []string
	// changes are the controller's requests that changed something in Neutron: see TakeChanges.
	changes []string
	crash   *Crash
	// refusal is what Neutron refuses: see Refuse.
	refusal func(*http.Request) *embedded.Fault
	// protected describes the networks that must not change, by their ID; protectedRouters the
	// routers.
	protected, protectedRouters map[string]string
	// strangersShares has the networks of the policies of ShareByHand, by the IDs of these.
	strangersShares map[string]string
	// forgotten are the projects that a backup does not know. See forget.
	forgotten []string
	// strangersBefore are the interfaces on protected networks.
	strangersBefore []string
}

// New returns a World with these Networks in Kubernetes. Neutron has an external network, public,
// and nothing else.
func New(t testing.TB, networks ...*samplecrdv1.Network) *World {
	t.Helper()
	server := embedded.StartOn(pipes.Listen(pipes.NewHost()), embedded.Options{
		ExternalNetwork: embedded.ExternalNetwork{Name: public, CIDR: netip.MustParsePrefix("198.18.0.0/16")},
	})
	Cleanup(t, func() { _ = server.Close() })
	w := &World{
		Kube: fake.NewClientset(), Secrets: kubefake.NewClientset(), Events: record.NewFakeRecorder(1000), Neutron: server,
		t: t, watched: make(chan struct{}, 100), protected: map[string]string{}, protectedRouters: map[string]string{}, strangersShares: map[string]string{},
		addresses: map[string][]ports.IP{}, interfaceOwner: "network:router_interface",
	}
	w.notifyOfWatches()
	w.Client = w.UserClient("test")
	w.API = apiserver.Install(w.Kube)
	for _, n := range networks {
		w.API.Put(n)
	}
	w.AroundKubernetes(func(_ apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) { return do() })
	server.Observe(func(r embedded.Request) {
		if r.Service == "network" && strings.HasPrefix(r.Path, "v2.0/") {
			w.note(r.Method + " " + withoutID(r.Path))
			w.noteChange(r)
		}
	})
	return w
}

// Cleanup calls f at the end of the test, as t.Cleanup does, and then forgets it. A test refers to the functions that it has called
// until its parent has ended, and these would keep the worlds of thousands of subtests in memory.
func Cleanup(t testing.TB, f func()) {
	t.Cleanup(func() {
		f()
		f = nil
	})
}

// NewNetwork returns a Network like one that kubectl has just created.
func NewNetwork(cidr, gateway string, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: Key.Namespace, Name: Key.Name, UID: UID, Generation: 1},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// WithFinalizer gives the Network the controller's finalizer, and no other.
func WithFinalizer(n *samplecrdv1.Network) { n.Finalizers = []string{samplecrdv1.Finalizer} }

// WithCredentials makes the Network name the Secret that Secret returns.
func WithCredentials(n *samplecrdv1.Network) {
	n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "creds", CloudName: "theirs"}
}

// BeingDeleted changes the Network as kubectl delete does.
func BeingDeleted(n *samplecrdv1.Network) {
	n.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	n.Generation++
}

// Paused pauses the Network.
func Paused(n *samplecrdv1.Network) {
	n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
}

// Resumed removes the annotations, among them the one that pauses the Network.
func Resumed(n *samplecrdv1.Network) { n.Annotations = nil }

// ReconcileRequested requests a reconcile with the value "now".
func ReconcileRequested(n *samplecrdv1.Network) {
	n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
}

// Find returns the Network, or nil if there is none.
func (w *World) Find() *samplecrdv1.Network {
	for _, n := range w.API.After(w.API.Changes()) {
		if n.Name == Key.Name {
			return n
		}
	}
	return nil
}

// Get returns the Network.
func (w *World) Get() *samplecrdv1.Network {
	w.t.Helper()
	n := w.Find()
	if n == nil {
		w.t.Fatal("the Network is gone")
	}
	return n
}

// Create creates the Network as kubectl create does.
func (w *World) Create(spec samplecrdv1.NetworkSpec) {
	w.API.Put(NewNetwork("", "", func(n *samplecrdv1.Network) { n.UID, n.Spec = "", *w.bind(&spec) }))
}

// Edit changes the Network as kubectl edit does, and as kubectl delete does with BeingDeleted.
func (w *World) Edit(change func(*samplecrdv1.Network)) {
	w.t.Helper()
	n := w.Get()
	spec := n.Spec
	change(n)
	n.Spec = *w.bind(&n.Spec)
	if !equality.Semantic.DeepEqual(n.Spec, spec) {
		n.Generation++
	}
	w.API.Put(n)
}

// Secret returns a Secret with credentials for this World's Neutron.
func (w *World) Secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Key.Namespace, Name: "creds"},
		Data:       map[string][]byte{"clouds.yaml": w.Neutron.CloudsYAML("theirs")},
	}
}

// CreateSecret creates the Secret.
func (w *World) CreateSecret() {
	w.t.Helper()
	if _, err := w.Secrets.CoreV1().Secrets(Key.Namespace).Create(w.t.Context(), w.Secret(), metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// DeleteSecret deletes the Secret.
func (w *World) DeleteSecret() {
	w.t.Helper()
	if err := w.Secrets.CoreV1().Secrets(Key.Namespace).Delete(w.t.Context(), w.Secret().Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// AwaitSecretWatch waits until the Secret is watched. An informer of the fake clientset misses
// what happens between its list and its watch.
func (w *World) AwaitSecretWatch() {
	w.t.Helper()
	select {
	case <-w.watched:
	case <-time.After(time.Minute):
		w.t.Fatal("the Secret is not watched")
	}
}

// notifyOfWatches sends to watched when a watch of Secrets has begun.
func (w *World) notifyOfWatches() {
	w.Secrets.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := w.Secrets.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		w.watched <- struct{}{}
		return true, watcher, err
	})
}

// AroundKubernetes sets the function that decides what becomes of the requests for Networks:
// see apiserver.Server.Around. It replaces the one before, and that of CrashAt.
func (w *World) AroundKubernetes(around func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error)) {
	w.API.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb != "list" && r.Verb != "watch" {
			w.note(strings.TrimSuffix(r.Verb+" networks/"+r.Subresource, "/"))
		}
		return around(r, do)
	})
}

func (w *World) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = append(w.journal, line)
}

// noteChange remembers the request if it is the controller's and has changed something.
func (w *World) noteChange(r embedded.Request) {
	if r.Method == http.MethodGet || r.Status/100 != 2 || !strings.HasPrefix(r.UserAgent, userAgent) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, r.Method+" "+withoutID(r.Path))
}

// TakeChanges returns the controller's requests that Neutron has accepted and that are no reads, since it
// was last called.
func (w *World) TakeChanges() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.changes
	w.changes = nil
	return taken
}

// withoutID turns v2.0/subnets/0b1c… into subnets/ID.
func withoutID(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 2 {
		parts[2] = "ID"
	}
	return strings.TrimPrefix(strings.Join(parts, "/"), "v2.0/")
}

// TakeJournal returns the requests since it was last called, in their order: those to
// Kubernetes, such as "patch networks/status", and those to Neutron, such as "POST networks".
// Lists and watches of Kubernetes are left out, and requests of this package's methods.
func (w *World) TakeJournal() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.journal
	w.journal = nil
	return taken
}

// TakeWrites returns what TakeJournal does, without reads.
func (w *World) TakeWrites() []string {
	return slices.DeleteFunc(w.TakeJournal(), func(line string) bool {
		return strings.HasPrefix(line, "GET ") || strings.HasPrefix(line, "get ")
	})
}

// TakeEvents returns the reasons of the events since it was last called.
func (w *World) TakeEvents() []string {
	var reasons []string
	for {
		select {
		case event := <-w.Events.Events:
			reasons = append(reasons, strings.Fields(event)[1])
		default:
			return reasons
		}
	}
}

// ExpectJournal compares the requests since TakeJournal was last called.
func (w *World) ExpectJournal(want ...string) {
	w.t.Helper()
	if diff := gocmp.Diff(want, w.TakeJournal(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// ExpectEvents compares the events since TakeEvents was last called.
func (w *World) ExpectEvents(want ...string) {
	w.t.Helper()
	if diff := gocmp.Diff(want, w.TakeEvents(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// ExpectReady compares the reason of the Ready condition, and the types of the others, which
// have the same reason. All conditions must be those of the current generation.
func (w *World) ExpectReady(reason string, others ...string) {
	w.t.Helper()
	n := w.Get()
	got := []string{}
	for _, c := range n.Status.Conditions {
		got = append(got, c.Type)
		if c.Reason != reason || c.ObservedGeneration != n.Generation {
			w.t.Errorf("condition %s has reason %s (%s) for generation %d, want %s for %d", c.Type, c.Reason, c.Message, c.ObservedGeneration, reason, n.Generation)
		}
	}
	if diff := gocmp.Diff(append([]string{samplecrdv1.ConditionReady}, others...), got); diff != "" {
		w.t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
