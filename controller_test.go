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

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	cloudsyaml "github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

const (
	testCluster = "11111111-0000-0000-0000-000000000000"
	testUID     = types.UID("22222222-0000-0000-0000-000000000000")
)

var testKey = cache.NewObjectName("default", "net-a")

var testRetry = retry.Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1000, Burst: 1000}

// newNetwork returns a Network as kubectl makes it.
func newNetwork(cidr, gateway string, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: testKey.Name, UID: testUID, Generation: 1},
		Spec:       samplecrdv1.NetworkSpec{CIDR: cidr, Gateway: gateway},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func withFinalizer(n *samplecrdv1.Network) { n.Finalizers = []string{samplecrdv1.Finalizer} }

func beingDeleted(n *samplecrdv1.Network) {
	n.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	n.Generation++
}

// fixture is a controller between a stand-in for Kubernetes and an embedded Neutron. Its
// informer is not started: its cache holds what the test puts there, and so lags behind
// as far as the test likes.
type fixture struct {
	t          testing.TB
	kube       *fake.Clientset
	secrets    *kubefake.Clientset
	watched    chan struct{} // see awaitWatch
	api        *apiserver.Server
	neutron    *embedded.Server
	client     *gophercloud.ServiceClient // the users', and the oracle's
	osClient   *neutron.Client            // the controllers'
	cloud      *neutron.Cloud
	controller *Controller
	indexer    cache.Indexer
	events     *record.FakeRecorder

	mu sync.Mutex
	// journal holds the writes to Kubernetes and the calls of Neutron, as they came.
	journal []string
	crash   *crash

	// acted is set by an act that is done once.
	acted bool
	// strangers are the IDs of networks that must not be touched.
	strangers       map[string]bool
	strangersBefore []string
	unmarked        string // the one of them that has no mark
	ports           []string
}

func newFixture(t testing.TB, networks ...*samplecrdv1.Network) *fixture {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	f := &fixture{t: t, kube: fake.NewClientset(), secrets: kubefake.NewClientset(), watched: make(chan struct{}, 100), neutron: server, events: record.NewFakeRecorder(1000)}
	tellOfWatches(f.secrets, f.watched)
	f.client = f.openStack()
	f.api = apiserver.Install(f.kube)
	for _, n := range networks {
		f.api.Put(n)
	}
	f.start()
	f.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		f.noteKubernetes(r)
		return do()
	})
	server.Observe(func(r embedded.Request) {
		if r.Service == "network" && strings.HasPrefix(r.Path, "v2.0/") {
			f.note(r.Method + " " + withoutID(r.Path))
		}
	})
	return f
}

// newClouds returns Clouds with that one as the controller's own.
func newClouds(t testing.TB, own *neutron.Cloud, secrets kubernetes.Interface) *clouds.Clouds {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	all := clouds.New(ctx, own, clouds.Options{Client: secrets, NewCloud: func(config neutron.Config) *neutron.Cloud {
		return neutron.NewCloud(config.Name, neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second}), testCluster, time.Hour)
	}})
	t.Cleanup(func() { cancel(); all.Wait() })
	return all
}

// start makes a controller that knows nothing yet but what it reads.
func (f *fixture) start() {
	f.t.Helper()
	f.cloud = f.newCloud()
	informer := informers.NewSharedInformerFactory(f.kube, 0).Samplecrd().V1().Networks()
	controller, err := NewController(f.t.Context(), f.kube, informer, newClouds(f.t, f.cloud, f.secrets), f.events,
		ControllerOptions{Cluster: testCluster, Resync: time.Minute, Retry: testRetry, Limits: fair.Limits{PerCloud: 2, Total: 3}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(controller.queue.ShutDown)
	f.controller, f.indexer = controller, informer.Informer().GetIndexer()
	f.refresh()
	if err := f.cloud.Observer().Relist(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) noteKubernetes(r apiserver.Request) {
	if r.Verb != "list" && r.Verb != "watch" {
		f.note(strings.TrimSuffix(r.Verb+" networks/"+r.Subresource, "/"))
	}
}

// newCloud returns the cloud as a controller sees it that has just been started. All of
// them share a client, and so its token.
func (f *fixture) newCloud() *neutron.Cloud {
	f.t.Helper()
	if f.osClient == nil {
		config, err := neutron.ParseConfig("test", f.neutron.CloudsYAML("test"))
		if err != nil {
			f.t.Fatal(err)
		}
		f.osClient = neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second, Connections: 1, UserAgent: "controller"})
	}
	return neutron.NewCloud("test", f.osClient, testCluster, time.Hour)
}

// restart is what a new process does; what it reads is not in the journal.
func (f *fixture) restart() {
	f.t.Helper()
	f.start()
	f.takeJournal()
}

func (f *fixture) note(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.journal = append(f.journal, line)
}

// takeJournal returns what was noted since it was last taken.
func (f *fixture) takeJournal() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.journal
	f.journal = nil
	return taken
}

// takeEvents returns the reasons of the events since they were last taken.
func (f *fixture) takeEvents() []string {
	var reasons []string
	for {
		select {
		case event := <-f.events.Events:
			reasons = append(reasons, strings.Fields(event)[1])
		default:
			return reasons
		}
	}
}

// withoutID makes v2.0/subnets/0b1c… v2.0/subnets/ID.
func withoutID(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 2 {
		parts[2] = "ID"
	}
	return strings.TrimPrefix(strings.Join(parts, "/"), "v2.0/")
}

// refresh puts what Kubernetes has into the informer's cache.
func (f *fixture) refresh() {
	f.t.Helper()
	f.see(f.api.After(f.api.Changes()))
}

// see makes that the content of the informer's cache.
func (f *fixture) see(networks []*samplecrdv1.Network) {
	f.t.Helper()
	items := make([]any, len(networks))
	for i, n := range networks {
		items[i] = n
	}
	if err := f.indexer.Replace(items, ""); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) syncHandler(ctx context.Context) error {
	f.t.Helper()
	return f.controller.syncHandler(ctx, testKey)
}

// sync syncs the Network against a cache that is up to date, and returns the error.
func (f *fixture) sync() error {
	f.t.Helper()
	f.refresh()
	_, ctx := ktesting.NewTestContext(f.t)
	return f.syncHandler(ctx)
}

func (f *fixture) mustSync() {
	f.t.Helper()
	if err := f.sync(); err != nil {
		f.t.Fatalf("sync: %v", err)
	}
}

func (f *fixture) get() *samplecrdv1.Network {
	f.t.Helper()
	for _, n := range f.api.After(f.api.Changes()) {
		if n.Name == testKey.Name {
			return n
		}
	}
	f.t.Fatal("the Network is gone")
	return nil
}

// edit changes the Network as kubectl edit does, and as kubectl delete does with
// beingDeleted.
func (f *fixture) edit(change func(*samplecrdv1.Network)) {
	f.t.Helper()
	n := f.get()
	spec := n.Spec
	change(n)
	if n.Spec != spec {
		n.Generation++
	}
	f.api.Put(n)
}

// openStack is a client of the same project that shares no code with the controller.
func (f *fixture) openStack() *gophercloud.ServiceClient {
	f.t.Helper()
	auth, endpoint, _, err := cloudsyaml.Parse(cloudsyaml.WithCloudName("test"), cloudsyaml.WithCloudsYAML(bytes.NewReader(f.neutron.CloudsYAML("test"))))
	if err != nil {
		f.t.Fatal(err)
	}
	provider, err := openstack.AuthenticatedClient(context.Background(), auth)
	if err != nil {
		f.t.Fatal(err)
	}
	client, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

// inNeutron returns what Neutron has: for each network its subnets' CIDRs and gateways.
func (f *fixture) inNeutron() []string {
	f.t.Helper()
	defer f.takeJournal()
	client := f.client
	pages, err := networks.List(client, nil).AllPages(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []string
	for _, n := range all {
		line := n.Name
		for _, id := range n.Subnets {
			s, err := subnets.Get(context.Background(), client, id).Extract()
			if err != nil {
				f.t.Fatal(err)
			}
			line += " " + s.CIDR + " " + cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func (f *fixture) expectJournal(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.takeJournal()); diff != "" {
		f.t.Errorf("writes and calls (-want +got):\n%s", diff)
	}
}

func (f *fixture) expectEvents(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.takeEvents()); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (f *fixture) expectNeutron(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.inNeutron()); diff != "" {
		f.t.Errorf("in Neutron (-want +got):\n%s", diff)
	}
}

// expectReady checks the reason of the Ready condition, and which other ones are there.
func (f *fixture) expectReady(reason string, others ...string) {
	f.t.Helper()
	n := f.get()
	got := []string{}
	for _, c := range n.Status.Conditions {
		got = append(got, c.Type)
		if c.Reason != reason || c.ObservedGeneration != n.Generation {
			f.t.Errorf("condition %s has reason %s (%s) for generation %d, want %s for %d", c.Type, c.Reason, c.Message, c.ObservedGeneration, reason, n.Generation)
		}
	}
	if diff := gocmp.Diff(append([]string{samplecrdv1.ConditionReady}, others...), got); diff != "" {
		f.t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// ready is a fixture whose Network is in order.
func ready(t *testing.T, cidr, gateway string) *fixture {
	t.Helper()
	f := newFixture(t, newNetwork(cidr, gateway))
	f.mustSync()
	f.expectReady(samplecrdv1.ReasonAvailable)
	f.takeJournal()
	f.takeEvents()
	return f
}

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		main()
	}
	// client-go then panics when somebody changes an object in an informer's cache.
	_ = os.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	os.Exit(m.Run())
}

func TestANewNetworkCostsTwoCallsOfNeutronTwoWritesAndOneEvent(t *testing.T) {
	f := newFixture(t, newNetwork("192.168.1.0/16", "192.168.0.1"))
	f.mustSync()
	// The finalizer is stored before anything is made.
	f.expectJournal("patch networks", "POST networks", "POST subnets", "patch networks/status")
	f.expectEvents(samplecrdv1.EventCreated)
	f.expectReady(samplecrdv1.ReasonAvailable)
	f.expectNeutron("default/net-a 192.168.0.0/16 192.168.0.1")
	got := f.get()
	if got.Status.CIDR != "192.168.0.0/16" || got.Status.Gateway != "192.168.0.1" || got.Status.NetworkID == "" || got.Status.SubnetID == "" ||
		got.Status.MTU != 1450 || got.Status.Cloud != "test" || got.Status.ObservedGeneration != 1 {
		t.Errorf("status: %+v", got.Status)
	}
}

func TestASyncThatFindsNothingToDoCostsNothing(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.mustSync()
	f.expectJournal()
	f.expectEvents()

	f.restart()
	f.mustSync()
	f.expectJournal()
	f.expectEvents()
}

func TestAnEditIsBroughtAbout(t *testing.T) {
	tests := []struct {
		name          string
		cidr, gateway string
		want          string
		journal       []string
	}{
		{"another gateway: in place", "10.0.0.0/24", "10.0.0.9", "default/net-a 10.0.0.0/24 10.0.0.9",
			[]string{"PUT subnets/ID", "patch networks/status"}},
		{"no gateway: in place", "10.0.0.0/24", "None", "default/net-a 10.0.0.0/24 None",
			[]string{"PUT subnets/ID", "patch networks/status"}},
		{"only host bits: nothing but the generation in the status", "10.0.0.7/24", "", "default/net-a 10.0.0.0/24 10.0.0.1",
			[]string{"patch networks/status"}},
		{"a CIDR elsewhere: the new subnet first", "10.1.0.0/24", "", "default/net-a 10.1.0.0/24 10.1.0.1",
			[]string{"GET ports", "POST subnets", "get networks", "DELETE subnets/ID", "patch networks/status"}},
		{"a CIDR that overlaps: Neutron wants the old subnet gone first", "10.0.0.0/16", "", "default/net-a 10.0.0.0/16 10.0.0.1",
			[]string{"get networks", "DELETE subnets/ID", "POST subnets", "patch networks/status"}},
		{"IPv6 after IPv4", "fd00:1::/64", "", "default/net-a fd00:1::/64 fd00:1::",
			[]string{"GET ports", "POST subnets", "get networks", "DELETE subnets/ID", "patch networks/status"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR, n.Spec.Gateway = tt.cidr, tt.gateway })
			f.mustSync()
			f.expectJournal(tt.journal...)
			f.expectReady(samplecrdv1.ReasonAvailable)
			f.expectNeutron(tt.want)
			f.mustSync()
			f.expectJournal()
		})
	}
}

func TestNothingIsMadeIfTheFinalizerIsNotStored(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", ""))
	stale := f.api.After(f.api.Changes())
	f.edit(func(n *samplecrdv1.Network) { n.Labels = map[string]string{"somebody": "was quicker"} })
	f.see(stale)
	_, ctx := ktesting.NewTestContext(t)
	if err := f.syncHandler(ctx); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	f.expectNeutron()
	f.expectEvents()
}

func TestOtherFinalizersStay(t *testing.T) {
	const another = "example.com/another"
	f := newFixture(t, newNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) { n.Finalizers = []string{another} }))
	f.mustSync()
	if diff := gocmp.Diff([]string{another, samplecrdv1.Finalizer}, f.get().Finalizers); diff != "" {
		t.Error(diff)
	}
	f.edit(beingDeleted)
	f.mustSync()
	if diff := gocmp.Diff([]string{another}, f.get().Finalizers); diff != "" {
		t.Error(diff)
	}
}

func TestADeletedNetworkGoesFromNeutronBeforeItGoesFromKubernetes(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(beingDeleted)
	f.mustSync()
	// The revision is not known after the subnet was made, so the network is read first.
	f.expectJournal("get networks", "GET networks/ID", "DELETE networks/ID", "GET networks", "patch networks")
	f.expectEvents(samplecrdv1.EventDeleted)
	f.expectNeutron()
}

func TestADeletedNetworkThatNeverMadeAnythingIsLookedForAndLetGo(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withFinalizer, beingDeleted))
	f.mustSync()
	f.expectJournal("GET networks", "patch networks")
}

func TestADeletedNetworkWithoutOurFinalizerIsLeftAlone(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", beingDeleted))
	f.mustSync()
	f.expectJournal()
}

func TestADeletionWaitsForNeutron(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(beingDeleted)
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodDelete {
			return &embedded.Fault{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "Request Failed: internal server error while processing your request."}
		}
		return nil
	})
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want an error of Neutron", err)
	}
	if !live.HasFinalizer(f.get()) {
		t.Error("the finalizer is gone though Neutron has not confirmed that the network is")
	}
	f.expectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
	f.neutron.SetFault(nil)
	f.mustSync()
	f.expectNeutron()
}

// A list that failed must never pass for an empty one.
func TestADeletionDoesNotTakeAFailedLookUpForProof(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(beingDeleted)
	f.cloud.Observer().Invalidate(testUID)
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet {
			return &embedded.Fault{Status: http.StatusServiceUnavailable, Message: "busy"}
		}
		return nil
	})
	if err := f.sync(); err == nil {
		t.Fatal("the sync succeeded without an answer from Neutron")
	}
	if !live.HasFinalizer(f.get()) {
		t.Error("the finalizer is gone")
	}
}

func TestNothingIsDestroyedOnTheWordOfTheCache(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/16" })
	overlapping := f.api.After(f.api.Changes())
	f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/24" })
	f.see(overlapping)
	_, ctx := ktesting.NewTestContext(t)
	if err := f.syncHandler(ctx); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	f.expectJournal("get networks")
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

// A failed look-up is no proof that there is nothing.
func TestACreateWhoseAnswerWasLostIsNotRepeatedWhileNeutronCannotTell(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withFinalizer))
	f.inject(testUID, "10.0.0.0/24")
	f.cloud.Observer().Invalidate(testUID)
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/networks") {
			return &embedded.Fault{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "Request Failed: internal server error while processing your request."}
		}
		return nil
	})
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.neutron.SetFault(nil)
	f.mustSync()
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

func TestACreateWhoseAnswerWasLostIsAdopted(t *testing.T) {
	for _, lost := range []string{"networks", "subnets"} {
		t.Run(lost, func(t *testing.T) {
			f := newFixture(t, newNetwork("10.0.0.0/24", ""))
			f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+lost) {
					return &embedded.Fault{After: true, Drop: true}
				}
				return nil
			})
			if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
				t.Fatalf("got %v, want that Neutron is not available", err)
			}
			f.neutron.SetFault(nil)
			f.restart()
			f.mustSync()
			f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			f.expectReady(samplecrdv1.ReasonAvailable)
		})
	}
}

func TestANetworkThatVanishedIsMadeAgain(t *testing.T) {
	for _, vanished := range []string{"networks", "subnets"} {
		t.Run(vanished, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			id := f.get().Status.NetworkID
			if vanished == "subnets" {
				id = f.get().Status.SubnetID
			}
			f.deleteInNeutron(vanished, id)
			if err := f.cloud.Observer().Relist(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.mustSync()
			f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			f.expectEvents(samplecrdv1.EventDriftRepaired)
			f.expectReady(samplecrdv1.ReasonAvailable)
		})
	}
}

func TestASubnetThatSomebodyElseAddsIsLeftAloneAndTold(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	foreign, err := subnets.Create(t.Context(), f.client, subnets.CreateOpts{
		NetworkID: f.get().Status.NetworkID, CIDR: "10.9.0.0/24", IPVersion: gophercloud.IPv4,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	f.takeJournal()
	look := func() {
		t.Helper()
		if err := f.cloud.Observer().Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.mustSync()
	}
	look()
	f.expectEvents(samplecrdv1.EventUnmanagedSubnet)
	f.expectReady(samplecrdv1.ReasonAvailable)
	if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, foreign.ID) {
		t.Errorf("got %q, want it to name %s", message, foreign.ID)
	}
	// It is told once.
	before := f.get().ResourceVersion
	look()
	f.expectEvents()
	if after := f.get().ResourceVersion; after != before {
		t.Error("the Network was written though nothing has changed")
	}

	f.deleteInNeutron("subnets", foreign.ID)
	look()
	f.expectEvents()
	if message := status.Ready(&f.get().Status).Message; strings.Contains(message, foreign.ID) {
		t.Errorf("got %q, though it is gone", message)
	}
}

// deleteInNeutron deletes behind the controller's back.
func (f *fixture) deleteInNeutron(collection, id string) {
	f.t.Helper()
	defer f.takeJournal()
	client := f.client
	if _, err := client.Delete(context.Background(), client.ServiceURL(collection, id), nil); err != nil {
		f.t.Fatal(err)
	}
}

func TestAChangeInNeutronLeadsBackToTheNetwork(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.deleteInNeutron("networks", f.get().Status.NetworkID)
	if err := f.cloud.Observer().Relist(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.controller.queue.Len() != 1 {
		t.Fatalf("%d keys in the queue, want 1", f.controller.queue.Len())
	}
	if key, _ := f.controller.queue.Get(); key != testKey {
		t.Errorf("got %v, want %v", key, testKey)
	}
}

func TestALookForDriftCostsAHandfulOfCallsAndWakesWhomItConcernsOnly(t *testing.T) {
	const many = 1000
	networks := make([]*samplecrdv1.Network, many)
	for i := range networks {
		networks[i] = newNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) {
			n.Name, n.UID = fmt.Sprintf("net-%d", i), types.UID(fmt.Sprintf("22222222-0000-0000-0000-%012d", i))
		})
	}
	f := newFixture(t, networks...)
	f.refresh()
	for _, n := range networks {
		if err := f.controller.syncHandler(t.Context(), cache.MetaObjectToName(n)); err != nil {
			t.Fatal(err)
		}
	}
	f.refresh()
	all, err := f.cloud.Client().ListNetworks(t.Context())
	if err != nil || len(all) != many {
		t.Fatalf("%d networks in Neutron, error %v", len(all), err)
	}
	f.takeJournal()
	f.takeEvents()

	look := func() (calls []string) {
		t.Helper()
		if err := f.cloud.Observer().Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.takeJournal()
	}
	calls := look()
	t.Logf("%d calls for %d Networks: %v", len(calls), many, calls)
	if len(calls) > 5 || slices.ContainsFunc(calls, func(c string) bool { return !strings.HasPrefix(c, "GET ") }) {
		t.Errorf("got %v, want at most 5 lists and nothing else", calls)
	}
	if n := f.controller.queue.Len(); n != 0 {
		t.Errorf("%d keys in the queue, want none", n)
	}

	changed := all[many/2]
	f.setGateway(changed.Subnets[0].ID, "10.0.0.9")
	look()
	if n := f.controller.queue.Len(); n != 1 {
		t.Fatalf("%d keys in the queue, want one", n)
	}
	if key, _ := f.controller.queue.Get(); key.String() != changed.Name {
		t.Errorf("got %s, want %s", key, changed.Name)
	}
}

func TestWhatNeutronRefusesStallsTheNetworkUntilItIsEdited(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/31", ""))
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Invalid {
		t.Fatalf("got %v, want that the spec is invalid", err)
	}
	f.expectReady(samplecrdv1.ReasonInvalidSpec, samplecrdv1.ConditionStalled)
	f.expectEvents(samplecrdv1.ReasonInvalidSpec)
	if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, "prefix length that is incompatible with DHCP") {
		t.Errorf("message %q does not give Neutron's words", message)
	}
	f.takeJournal()
	// At the slow resync: one more call, and nothing new to say.
	if err := f.sync(); err == nil {
		t.Error("the sync succeeded")
	}
	// One more call, and a look whether it is in the way of itself.
	f.expectJournal("POST subnets", "GET networks", "GET subnets")
	f.expectEvents()

	f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/24" })
	f.mustSync()
	f.expectReady(samplecrdv1.ReasonAvailable)
}

func TestASpecFromBeforeTheCRDHadRulesIsRefusedHere(t *testing.T) {
	tests := []struct{ name, cidr, gateway, field string }{
		{"no CIDR", "", "", "spec.cidr"},
		{"no prefix length", "10.0.0.0", "", "spec.cidr"},
		{"gateway is no address", "10.0.0.0/24", "router", "spec.gateway"},
		{"gateway elsewhere, which Neutron would take", "10.0.0.0/24", "10.0.1.1", "spec.gateway"},
		{"gateway of the other family", "10.0.0.0/24", "fd00::1", "spec.gateway"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, newNetwork(tt.cidr, tt.gateway))
			if err := f.sync(); neutron.ReasonOf(err) != neutron.Invalid {
				t.Fatalf("got %v, want that the spec is invalid", err)
			}
			f.expectJournal("patch networks/status")
			f.expectReady(samplecrdv1.ReasonInvalidSpec, samplecrdv1.ConditionStalled)
			if message := status.Ready(&f.get().Status).Message; !strings.HasPrefix(message, tt.field+": ") {
				t.Errorf("message %q does not name %s", message, tt.field)
			}
		})
	}
}

func TestAnOutageKeepsWhatWasKnown(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	before := f.get().Status
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.neutron.SetFault(func(*http.Request) *embedded.Fault { return &embedded.Fault{Drop: true} })
	for range 3 {
		if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
			t.Fatalf("got %v, want that Neutron is not available", err)
		}
	}
	f.expectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
	f.expectEvents(samplecrdv1.ReasonNeutronUnavailable)
	if after := f.get().Status; after.NetworkID != before.NetworkID || after.SubnetID != before.SubnetID || after.Gateway != before.Gateway {
		t.Errorf("status was %+v, is %+v", before, after)
	}
	writes := 0
	for _, line := range f.takeJournal() {
		if strings.HasPrefix(line, "patch") {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d writes to Kubernetes, want 1: nothing was new after the first", writes)
	}
	f.neutron.SetFault(nil)
	f.mustSync()
	f.expectEvents(samplecrdv1.EventUpdated)
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.9")
}

func TestBeforeTheFirstLookANetworkInOrderKeepsItsStatus(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.cloud = f.newCloud()
	f.controller.clouds = newClouds(t, f.cloud, f.secrets)
	f.neutron.SetFault(func(*http.Request) *embedded.Fault { return &embedded.Fault{Drop: true} })
	if err := f.cloud.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the look succeeded")
	}
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.expectReady(samplecrdv1.ReasonAvailable)
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.expectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
}

// Without that, it would take our last status for the one before it, find nothing to
// write, and leave it there, though it is no longer true.
func TestASyncWaitsForTheCacheToHaveOurOwnLastWrite(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.mustSync() // the cache has our last write
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	before := f.api.After(f.api.Changes())
	f.neutron.SetFault(func(*http.Request) *embedded.Fault { return &embedded.Fault{Drop: true} })
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.neutron.SetFault(nil)
	f.see(before)
	_, ctx := ktesting.NewTestContext(t)
	if err := f.syncHandler(ctx); !errors.Is(err, live.ErrStaleCache) {
		t.Fatalf("got %v, want that the cache is behind", err)
	}
	f.mustSync()
	f.expectReady(samplecrdv1.ReasonAvailable)
}

func TestANetworkOfAnotherCloudIsNeitherMadeAgainNorLetGo(t *testing.T) {
	here := ready(t, "10.0.0.0/24", "").get().Status
	for _, test := range []struct{ name, cloud, project, region string }{
		{"of another name", "another", "", ""},
		{"of the same name, but another project", "test", "another", here.Region},
		{"of the same name, but another region", "test", here.ProjectID, "another"},
	} {
		t.Run(test.name, func(t *testing.T) {
			staysElsewhere(t, samplecrdv1.NetworkStatus{Cloud: test.cloud, ProjectID: test.project, Region: test.region})
		})
	}
}

func TestTheProjectCountsAndNotWhatTheCloudIsCalled(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.deleteInNeutron("networks", f.get().Status.NetworkID)
	f.edit(func(n *samplecrdv1.Network) { n.Status.Cloud = "another name for it" })
	if err := f.cloud.Observer().Relist(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.mustSync()
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

func staysElsewhere(t *testing.T, was samplecrdv1.NetworkStatus) {
	was.NetworkID = "99999999-9999-4999-8999-999999999999"
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withFinalizer, func(n *samplecrdv1.Network) { n.Status = was }))
	notPaused := func(n *samplecrdv1.Network) { n.Annotations = nil }
	for _, change := range []func(*samplecrdv1.Network){func(*samplecrdv1.Network) {}, isToBePaused, notPaused, beingDeleted} {
		f.edit(change)
		if err := f.sync(); neutron.ReasonOf(err) != neutron.OtherCloud {
			t.Fatalf("got %v, want that it is elsewhere", err)
		}
		f.expectReady(samplecrdv1.ReasonOtherCloud, samplecrdv1.ConditionStalled)
		if n := f.get(); n.Status.Cloud != was.Cloud || n.Status.ProjectID != was.ProjectID || n.Status.Region != was.Region || n.Status.NetworkID != was.NetworkID || !live.HasFinalizer(n) {
			t.Errorf("got %+v", n)
		}
		f.expectNeutron()
	}
	f.edit(func(n *samplecrdv1.Network) { n.Status.Cloud = "" })
	f.mustSync()
	if f.find() != nil {
		t.Error("the Network is still there though its network was given up")
	}
}

// A proxy that answers from a cache would have us ask for ever.
func TestAnswersThatDoNotShowTheChangeAreAnError(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	subnet := f.get().Status.SubnetID
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method != http.MethodPut {
			return nil
		}
		return &embedded.Fault{Status: http.StatusOK, Message: `{"subnet":{"id":"` + subnet + `","cidr":"10.0.0.0/24","gateway_ip":"10.0.0.1"}}`}
	})
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	if n := len(f.takeJournal()); n > 10+3 {
		t.Errorf("%d requests", n)
	}
}

func TestAStatusThatCouldNotBeWrittenIsNotPutOffWithTheOutcome(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/31", ""))
	f.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Subresource == "status" {
			return nil, apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return do()
	})
	err := f.sync()
	if delay, known := status.RetryAfter(err, time.Hour); err == nil || known {
		t.Errorf("got %v, put off by %s; want an error for the back-off", err, delay)
	}
	f.expectEvents()
}

// The API server overlooks a finalizer that is stored just while a deletion is under way:
// the patch succeeds, and the Network goes all the same.
func TestANetworkThatGoesInSpiteOfItsFinalizerLeavesNothingBehind(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", ""))
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/subnets") {
			f.api.Remove(testKey.Namespace, testKey.Name)
		}
		if r.Method == http.MethodDelete {
			return &embedded.Fault{Drop: true}
		}
		return nil
	})
	if err := f.sync(); err == nil {
		t.Error("the sync succeeded though it could not clean up")
	}
	f.neutron.SetFault(nil)
	f.mustSync()
	f.expectNeutron()
}

func TestANetworkThatIsSeenToGoInSpiteOfItsFinalizerLeavesNothingBehind(t *testing.T) {
	for _, test := range []struct {
		name    string
		gone    func(*samplecrdv1.Network) networkinformers.DeletedNetwork
		removed bool
	}{
		{"its finalizer was overlooked", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, true},
		{"it was let go", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			beingDeleted(n)
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, false},
		{"somebody has taken off the finalizer", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			n.Finalizers = nil
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, false},
		{"a list does not have it any more", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			return networkinformers.DeletedNetwork{OptionalObj: n, FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: testKey.String(), Obj: n}}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			gone := f.get()
			f.api.Remove(testKey.Namespace, testKey.Name)
			f.controller.handlers(klog.Logger{}).DeleteFunc(test.gone(gone))
			f.mustSync()
			if test.removed {
				f.expectNeutron()
			} else {
				f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			}
		})
	}
}

func TestAFailedStatusWriteIsTriedAgainAndMakesNothingTwice(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", ""))
	fail := true
	f.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		f.noteKubernetes(r)
		if fail && r.Subresource == "status" {
			return nil, apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return do()
	})
	if err := f.sync(); err == nil {
		t.Fatal("the sync succeeded")
	}
	fail = false
	f.takeJournal()
	f.mustSync()
	f.expectJournal("patch networks/status")
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

func TestPortsKeepTheOldSubnetInForce(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	port := f.portOn(f.get().Status.NetworkID)
	for _, cidr := range []string{"10.1.0.0/24", "10.0.0.0/16"} {
		f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = cidr })
		if err := f.sync(); neutron.ReasonOf(err) != neutron.InUse {
			t.Fatalf("%s: got %v, want that the subnet is in use", cidr, err)
		}
		f.expectReady(samplecrdv1.ReasonInUse, samplecrdv1.ConditionReconciling)
		if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, "web-0") {
			t.Errorf("%s: message %q does not name the port", cidr, message)
		}
		if got := f.get().Status.CIDR; got != "10.0.0.0/24" {
			t.Errorf("%s: status.cidr is %s, want the one that is in force", cidr, got)
		}
		f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
	}
	f.deleteInNeutron("ports", port)
	f.mustSync()
	f.expectNeutron("default/net-a 10.0.0.0/16 10.0.0.1")
}

func TestAChangeByOtherHandsBetweenLookAndChangeIsReadAndPlannedAgainAtOnce(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	subnet := f.get().Status.SubnetID
	name := "by hand"
	if _, err := subnets.Update(t.Context(), f.client, subnet, subnets.UpdateOpts{Name: &name}).Extract(); err != nil {
		t.Fatal(err)
	}
	f.takeJournal()
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.mustSync()
	f.expectJournal("PUT subnets/ID", "GET networks", "GET subnets", "PUT subnets/ID", "patch networks/status")
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.9")
}

func TestANetworkWithPortsIsNotDeleted(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	port := f.portOn(f.get().Status.NetworkID)
	f.edit(beingDeleted)
	if err := f.sync(); neutron.ReasonOf(err) != neutron.InUse {
		t.Fatalf("got %v, want that the network is in use", err)
	}
	if !live.HasFinalizer(f.get()) {
		t.Error("the finalizer is gone")
	}
	if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, "web-0") {
		t.Errorf("message %q does not name the port", message)
	}
	f.deleteInNeutron("ports", port)
	f.mustSync()
	f.expectNeutron()
}

func withCredentials(n *samplecrdv1.Network) {
	n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "creds", CloudName: "theirs"}
}

// secret is one with credentials for the fixture's Neutron.
func (f *fixture) secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: "creds"},
		Data:       map[string][]byte{"clouds.yaml": f.neutron.CloudsYAML("theirs")},
	}
}

// awaitWatch waits until the Secret is watched: what the stand-in is told between an
// informer's list and its watch, the informer never hears of.
func (f *fixture) awaitWatch() {
	f.t.Helper()
	select {
	case <-f.watched:
	case <-time.After(time.Minute):
		f.t.Fatal("the Secret is not watched")
	}
}

// tellOfWatches has watched told of each watch once it works.
func tellOfWatches(kube *kubefake.Clientset, watched chan<- struct{}) {
	kube.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := kube.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		watched <- struct{}{}
		return true, w, err
	})
}

// syncUntil syncs each time that the key is in the queue, until that is the reason of Ready.
// A Secret may change at any moment here, so that what settled says may be over when the sync
// begins: unlike f.syncHandler, it does not compare the two.
func (f *fixture) syncUntil(reason string) {
	f.t.Helper()
	for {
		f.refresh()
		err := f.controller.syncHandler(klog.NewContext(f.t.Context(), klog.Logger{}), testKey)
		if ready := status.Ready(&f.get().Status); ready != nil && ready.Reason == reason {
			return
		}
		key, shutdown := f.controller.queue.Get()
		if shutdown || key != testKey {
			f.t.Fatalf("the queue holds %v, after the sync ended with %v", key, err)
		}
		f.controller.queue.Done(key)
	}
}

func TestANetworkWithCredentialsOfItsOwnWaitsForThem(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withCredentials))
	f.syncUntil(samplecrdv1.ReasonNoCredentials)
	f.expectReady(samplecrdv1.ReasonNoCredentials, samplecrdv1.ConditionReconciling)
	if live.HasFinalizer(f.get()) {
		t.Error("it has a finalizer, though nothing can have been made")
	}
	f.awaitWatch()
	secrets := f.secrets.CoreV1().Secrets(testKey.Namespace)
	if _, err := secrets.Create(t.Context(), f.secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
	if got := f.get().Status; got.Cloud != "theirs" || got.ProjectID == "" {
		t.Errorf("the status tells of cloud %q, project %q", got.Cloud, got.ProjectID)
	}

	// Without its credentials, a Network that is deleted waits, and says so.
	id := f.get().Status.NetworkID
	if err := secrets.Delete(t.Context(), "creds", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.syncUntil(samplecrdv1.ReasonNoCredentials)
	f.edit(beingDeleted)
	if err := f.sync(); neutron.ReasonOf(err) != neutron.NoCredentials {
		t.Errorf("got %v, want that the credentials are missing", err)
	}
	if got := f.get(); got.Status.NetworkID != id || !live.HasFinalizer(got) {
		t.Errorf("what was known is lost: %+v", got)
	}
	if _, err := secrets.Create(t.Context(), f.secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for f.find() != nil {
		if err := f.sync(); err != nil && !errors.Is(err, clouds.ErrNotReady) && neutron.ReasonOf(err) != neutron.NoCredentials {
			t.Fatal(err)
		}
	}
	f.expectNeutron()
	f.mustSync() // the Network is gone
	if n := len(f.controller.clouds.List()); n != 1 {
		t.Errorf("%d clouds are open for a Network that is gone", n)
	}
}

func TestANetworkWhoseCredentialsGoWithTheirNamespaceGoesToo(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withCredentials))
	secrets := f.secrets.CoreV1().Secrets(testKey.Namespace)
	if _, err := secrets.Create(t.Context(), f.secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.awaitWatch()
	if err := secrets.Delete(t.Context(), "creds", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.syncUntil(samplecrdv1.ReasonNoCredentials)
	err := f.secrets.Tracker().Add(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: testKey.Namespace, DeletionTimestamp: &metav1.Time{Time: time.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	f.edit(beingDeleted)
	f.mustSync()
	f.expectNeutron()
	if f.find() != nil {
		t.Error("the Network is still there")
	}
}

func isToBePaused(n *samplecrdv1.Network) {
	n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
}

func TestWhilePausedNothingIsChangedInNeutron(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*fixture)
		says   string
		// caughtUp is what Neutron has when the annotation is taken away.
		caughtUp []string
	}{
		{"an edit", func(f *fixture) {
			f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
		}, "gateway set to 10.0.0.9", []string{"default/net-a 10.0.0.0/24 10.0.0.9"}},
		{"drift", func(f *fixture) {
			f.setGateway(f.get().Status.SubnetID, "10.0.0.77")
		}, "gateway set to 10.0.0.1", []string{"default/net-a 10.0.0.0/24 10.0.0.1"}},
		{"the network vanishes", func(f *fixture) {
			f.deleteInNeutron("networks", f.get().Status.NetworkID)
		}, "network created", []string{"default/net-a 10.0.0.0/24 10.0.0.1"}},
		{"a deletion", func(f *fixture) { f.edit(beingDeleted) }, "the deletion waits", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			f.edit(isToBePaused)
			f.mustSync()
			f.expectReady(samplecrdv1.ReasonAvailable)
			test.change(f)
			if err := f.cloud.Observer().Relist(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.takeJournal()
			if err := f.sync(); neutron.ReasonOf(err) != neutron.Paused {
				t.Fatalf("got %v, want that it waits", err)
			}
			f.expectReady(samplecrdv1.ReasonPaused)
			if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, test.says) {
				t.Errorf("got %q, want it to tell: %s", message, test.says)
			}
			for _, request := range f.takeJournal() {
				if !strings.HasPrefix(request, "GET ") && request != "patch networks/status" {
					t.Errorf("%s, though it is paused", request)
				}
			}
			f.edit(func(n *samplecrdv1.Network) { n.Annotations = nil })
			f.mustSync()
			f.expectNeutron(test.caughtUp...)
		})
	}
}

func TestANewNetworkThatIsPausedMakesNothingAndMayGo(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", isToBePaused))
	if err := f.sync(); neutron.ReasonOf(err) != neutron.Paused {
		t.Fatalf("got %v, want that it waits", err)
	}
	if live.HasFinalizer(f.get()) {
		t.Error("it has a finalizer, though there is nothing to finalize")
	}
	f.expectNeutron()
}

func TestARequestedLookIsOneAtNeutronItself(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.setGateway(f.get().Status.SubnetID, "10.0.0.77") // nobody has looked since
	f.edit(func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
	})
	f.takeJournal()
	f.mustSync()
	f.expectJournal("GET networks", "GET subnets", "PUT subnets/ID", "patch networks/status")
	f.expectEvents(samplecrdv1.EventDriftRepaired)
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
	if got := f.get().Status.LastHandledReconcileAt; got != "now" {
		t.Errorf("the status says %q", got)
	}
	f.mustSync()
	f.expectJournal()
}

func TestARequestedLookThatFailsIsStillToCome(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
	})
	f.neutron.SetFault(func(*http.Request) *embedded.Fault { return &embedded.Fault{Status: 503} })
	if err := f.sync(); err == nil {
		t.Error("it succeeded")
	}
	if got := f.get().Status.LastHandledReconcileAt; got != "" {
		t.Errorf("the status says %q", got)
	}
	f.neutron.SetFault(nil)
	f.mustSync()
	if got := f.get().Status.LastHandledReconcileAt; got != "now" {
		t.Errorf("the status says %q", got)
	}
}

func TestALookIsRequestedOfANetworkThatIsBeingDeleted(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	port := f.portOn(f.get().Status.NetworkID)
	f.edit(func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
		beingDeleted(n)
	})
	if err := f.sync(); neutron.ReasonOf(err) != neutron.InUse {
		t.Fatalf("got %v, want that it is in use", err)
	}
	if got := f.get().Status; got.LastHandledReconcileAt != "now" || got.SubnetID == "" {
		t.Errorf("got %+v", got)
	}
	f.deleteInNeutron("ports", port)
	f.mustSync()
	f.expectNeutron()
}

func TestAPausedNetworkGetsItsFinalizerBack(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(isToBePaused)
	f.edit(func(n *samplecrdv1.Network) { n.Finalizers = nil })
	f.mustSync()
	if !live.HasFinalizer(f.get()) {
		t.Error("it has no finalizer, and would leave an orphan")
	}
}

func TestWhatANetworkThatIsGoneHasLeftDoesNotHoldUpTheNextOne(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	port := f.portOn(f.get().Status.NetworkID)
	gone := f.get()
	f.api.Remove(testKey.Namespace, testKey.Name)
	f.controller.handlers(klog.Logger{}).DeleteFunc(networkinformers.DeletedNetwork{OptionalObj: gone})
	f.create(*spec("10.1.0.0/24", ""))
	if err := f.sync(); neutron.ReasonOf(err) != neutron.InUse {
		t.Errorf("got %v, want that the old one is in use", err)
	}
	f.expectReady(samplecrdv1.ReasonAvailable)
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1", "default/net-a 10.1.0.0/24 10.1.0.1")
	f.deleteInNeutron("ports", port)
	f.mustSync()
	f.expectNeutron("default/net-a 10.1.0.0/24 10.1.0.1")
}

func TestWhatIsLeftInACloudOfItsOwnIsRemovedBesideANewNetworkWithoutOne(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", withCredentials))
	if _, err := f.secrets.CoreV1().Secrets(testKey.Namespace).Create(t.Context(), f.secret(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.syncUntil(samplecrdv1.ReasonAvailable)
	port := f.portOn(f.get().Status.NetworkID)
	gone := f.get()
	f.api.Remove(testKey.Namespace, testKey.Name)
	f.controller.handlers(klog.Logger{}).DeleteFunc(networkinformers.DeletedNetwork{OptionalObj: gone})
	f.create(*spec("10.1.0.0/24", ""))
	if err := f.sync(); neutron.ReasonOf(err) != neutron.InUse {
		t.Errorf("got %v, want that the old one is in use", err)
	}
	f.deleteInNeutron("ports", port)
	f.mustSync() // the cloud of the old one is still open
	f.expectNeutron("default/net-a 10.1.0.0/24 10.1.0.1")
	if n := len(f.controller.clouds.List()); n != 1 {
		t.Errorf("%d clouds are open that nobody refers to", n)
	}
}

func TestWhatIsAbandonedIsNotRemovedIfItsNetworkIsBack(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.controller.vanished.Add(f.get())
	f.mustSync()
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

func TestANetworkThatIsRetainedStaysWithoutItsMark(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	id := f.get().Status.NetworkID
	f.edit(func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain })
	f.mustSync()
	f.takeEvents()
	f.edit(beingDeleted)
	f.takeJournal()
	f.mustSync()
	f.expectEvents(samplecrdv1.EventDeleted)
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
	network, err := networks.Get(t.Context(), f.client, id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := subnets.Get(t.Context(), f.client, network.Subnets[0]).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if network.Description != "" || subnet.Description != "" {
		t.Errorf("the marks are still there: %q, %q", network.Description, subnet.Description)
	}
	if f.find() != nil {
		t.Error("the Network is still there")
	}
}

func TestOnlyWhatASyncLooksAtIsAReasonToSync(t *testing.T) {
	tests := []struct {
		name   string
		before func(*samplecrdv1.Network)
		now    func(*samplecrdv1.Network)
		want   bool
	}{
		{"a periodic resync", nil, nil, false},
		{"our own status write", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Status.NetworkID = "id" }, false},
		{"our own finalizer", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; withFinalizer(n) }, false},
		{"a label", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Labels = map[string]string{"a": "b"} }, false},
		{"paused", nil, isToBePaused, true},
		{"not paused any more", isToBePaused, nil, true},
		{"a look is requested", nil, func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
		}, true},
		{"an edit of the spec", nil, func(n *samplecrdv1.Network) { n.Generation = 2 }, true},
		{"a deletion", nil, beingDeleted, true},
		{"our finalizer taken off by hand", withFinalizer, nil, true},
		{"the status wiped by hand", func(n *samplecrdv1.Network) {
			n.Status.Conditions = []metav1.Condition{{Type: samplecrdv1.ConditionReady}}
		}, nil, true},
		{"a deletion and a creation that the watch has missed", nil, func(n *samplecrdv1.Network) { n.UID = "another" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, now := newNetwork("10.0.0.0/24", ""), newNetwork("10.0.0.0/24", "")
			if tt.before != nil {
				tt.before(before)
			}
			if tt.now != nil {
				tt.now(now)
			}
			if got := whyToSync(before, now); (got != "") != tt.want {
				t.Errorf("got %q, want a reason: %v", got, tt.want)
			}
		})
	}
}

func TestTheHandlersEnqueueWhatTheInformerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, cancel := context.WithCancel(ctx)
		kube := fake.NewClientset(newNetwork("10.0.0.0/24", ""))
		factory := informers.NewSharedInformerFactory(kube, 0)
		cloud := neutron.NewCloud("none", neutron.NewClient(neutron.Config{}, neutron.ClientOptions{}), testCluster, time.Hour)
		controller, err := NewController(ctx, kube, factory.Samplecrd().V1().Networks(), newClouds(t, cloud, nil), record.NewFakeRecorder(10),
			ControllerOptions{Cluster: testCluster, Resync: time.Minute, Retry: testRetry})
		if err != nil {
			t.Fatal(err)
		}
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer cancel()
		defer controller.queue.ShutDown()

		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if got := controller.queue.Len(); got != want {
				t.Errorf("%s: %d keys in the queue, want %d", what, got, want)
			}
			for range controller.queue.Len() {
				key, _ := controller.queue.Get()
				if key != testKey {
					t.Errorf("%s: got %v, want %v", what, key, testKey)
				}
				controller.queue.Done(key)
			}
		}
		expect("the first list", 1)

		networks := kube.SamplecrdV1().Networks(testKey.Namespace)
		edited := newNetwork("10.0.0.0/25", "")
		edited.Generation = 2
		if _, err := networks.Update(ctx, edited, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("an edit", 1)

		written := edited.DeepCopy()
		written.Status.NetworkID = "id"
		if _, err := networks.UpdateStatus(ctx, written, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("our own status write", 0)

		if err := networks.Delete(ctx, testKey.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("a deletion", 1)
	})
}

func TestATombstoneLeadsToItsKey(t *testing.T) {
	f := newFixture(t)
	// What an informer hands out for an object whose deletion it has missed.
	f.controller.handlers(klog.Logger{}).OnDelete(networkinformers.DeletedNetwork{
		FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: testKey.String()},
	})
	if key, _ := f.controller.queue.Get(); key != testKey {
		t.Errorf("got %v, want %v", key, testKey)
	}
}

// queueOnly is a controller of which only the queue and the workers are used.
func queueOnly(sync func(context.Context, cache.ObjectName) error) *Controller {
	own := neutron.NewCloud("none", neutron.NewClient(neutron.Config{}, neutron.ClientOptions{}), testCluster, time.Hour)
	c := &Controller{
		options:  ControllerOptions{Resync: 10 * time.Minute, Retry: testRetry},
		networks: listers.NewNetworkLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
		clouds:   clouds.New(context.Background(), own, clouds.Options{}),
		sync:     sync,
	}
	c.newQueue()
	return c
}

// work runs n workers in the bubble until stop is called, which waits for them.
func work(ctx context.Context, c *Controller, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range n {
		running.Go(func() { c.runWorker(ctx) })
	}
	return func() {
		cancel()
		c.queue.ShutDown()
		running.Wait()
	}
}

func key(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

func quiet(t *testing.T) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c := queueOnly(func(_ context.Context, key cache.ObjectName) error {
			got = append(got, key.Name)
			return nil
		})
		want := []string{"c", "a", "b"}
		for _, name := range want {
			c.queue.Add(key(name))
		}
		stop := work(quiet(t), c, 1)
		synctest.Wait()
		stop()
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAKeyManyTimesAddedIsSyncedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syncs := 0
		c := queueOnly(func(context.Context, cache.ObjectName) error { syncs++; return nil })
		for range 100 {
			c.queue.Add(key("a"))
		}
		stop := work(quiet(t), c, 1)
		synctest.Wait()
		stop()
		if syncs != 1 {
			t.Errorf("synced %d times, want once", syncs)
		}
	})
}

func TestNoKeyIsSyncedByTwoWorkersAtATimeAndOneAddedMeanwhileIsSyncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, syncs := 0, 0, 0
		c := queueOnly(func(context.Context, cache.ObjectName) error {
			mu.Lock()
			now++
			syncs++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second) // of virtual time
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		stop := work(quiet(t), c, 8)
		c.queue.Add(key("a"))
		synctest.Wait()
		for range 10 {
			c.queue.Add(key("a")) // while it is being synced
		}
		time.Sleep(10 * time.Second)
		stop()
		if most != 1 || syncs != 2 {
			t.Errorf("at most %d at a time, %d in all; want 1 and 2", most, syncs)
		}
	})
}

func TestDifferentKeysAreSyncedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queueOnly(func(context.Context, cache.ObjectName) error { time.Sleep(time.Second); return nil })
		for i := range 8 {
			c.queue.Add(key(fmt.Sprint(i)))
		}
		began := time.Now()
		stop := work(quiet(t), c, 8)
		synctest.Wait()
		stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("8 syncs of a second each took 8 workers %s", took)
		}
	})
}

func TestShuttingDownLetsWhatIsInFlightFinishAndStartsNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished []string
		c := queueOnly(func(ctx context.Context, key cache.ObjectName) error {
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Error("the sync's context was cancelled under it")
			}
			finished = append(finished, key.Name)
			return nil
		})
		c.queue.Add(key("in flight"))
		c.queue.Add(key("queued"))
		stop := work(quiet(t), c, 1)
		synctest.Wait()
		stop()
		if diff := gocmp.Diff([]string{"in flight"}, finished); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFailedSyncIsAlwaysTriedAgain(t *testing.T) {
	tests := []struct {
		name string
		err  error
		// after is when the second and the third sync begin at the latest, and at the
		// soonest if exact.
		first, second time.Duration
	}{
		{"an error of Kubernetes: the limiter's back-off", errors.New("etcd is away"), 1200 * time.Millisecond, 2400 * time.Millisecond},
		{"Neutron is away: the limiter's back-off", &neutron.Error{Reason: neutron.Unavailable}, 1200 * time.Millisecond, 2400 * time.Millisecond},
		{"Neutron asked for a time", &neutron.Error{Reason: neutron.Unavailable, RetryAfter: 7 * time.Second}, 7 * time.Second, 7 * time.Second},
		{"final: at the slow resync", &neutron.Error{Reason: neutron.Invalid}, 10 * time.Minute, 10 * time.Minute},
		{"ports in the way: steadily", &neutron.Error{Reason: neutron.InUse}, 10 * time.Second, 10 * time.Second},
		{"changed meanwhile, twice: the limiter's back-off", &neutron.Error{Reason: neutron.Stale}, 1200 * time.Millisecond, 2400 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began []time.Time
				c := queueOnly(func(context.Context, cache.ObjectName) error {
					began = append(began, time.Now())
					if len(began) < 3 {
						return tt.err
					}
					return nil
				})
				stop := work(quiet(t), c, 2)
				c.queue.Add(key("a"))
				time.Sleep(time.Hour)
				stop()
				if len(began) != 3 {
					t.Fatalf("synced %d times, want 3", len(began))
				}
				for i, most := range []time.Duration{tt.first, tt.second} {
					// The back-off is jittered by a fifth at the most.
					if got := began[i+1].Sub(began[i]); got > most || got < most*5/6 {
						t.Errorf("sync %d began %s after the one before, want %s", i+2, got, most)
					}
				}
			})
		})
	}
}

func TestAPanicIsAnErrorOfItsOwnKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		synced := map[string]int{}
		c := queueOnly(func(_ context.Context, key cache.ObjectName) error {
			synced[key.Name]++
			if key.Name == "poison" {
				panic("poison")
			}
			return nil
		})
		c.queue.Add(key("poison"))
		c.queue.Add(key("other"))
		// The log of the panic is no failure of the test.
		stop := work(klog.NewContext(t.Context(), klog.Logger{}), c, 1)
		time.Sleep(1300 * time.Millisecond)
		stop()
		if diff := gocmp.Diff(map[string]int{"poison": 2, "other": 1}, synced); diff != "" {
			t.Error(diff)
		}
	})
}

// The generated fake needs the schema of our types for every write.
func TestTheFakeClientsetTakesEveryKindOfWrite(t *testing.T) {
	ctx := t.Context()
	client := fake.NewClientset().SamplecrdV1().Networks("default")
	if _, err := client.Create(ctx, newNetwork("10.0.0.0/24", ""), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := client.Update(ctx, newNetwork("10.0.0.0/25", ""), metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update: %v", err)
	}
	if _, err := client.Patch(ctx, testKey.Name, types.MergePatchType, []byte(`{"spec":{"gateway":"10.0.0.2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch: %v", err)
	}
	computed := status.Compute(newNetwork("10.0.0.0/25", ""), status.Outcome{Cloud: "test"})
	if _, err := client.ApplyStatus(ctx, status.ApplyConfiguration(newNetwork("", ""), computed), metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatalf("apply the status: %v", err)
	}
	got, err := client.Get(ctx, testKey.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if got.Spec.CIDR != "10.0.0.0/25" || got.Spec.Gateway != "10.0.0.2" || got.Status.Cloud != "test" || len(got.Status.Conditions) != 1 {
		t.Errorf("got %+v", got)
	}
}

// The systematic part: crashes at every point, views that are behind, and any starting
// state, each followed by an oracle that reads both sides.

// scenario is something that users do with one Network, from a state that is in order.
type scenario struct {
	name string
	// start is the Network that is brought about before; nil: there is none.
	start *samplecrdv1.NetworkSpec
	// act is what happens then. It is called before each round of syncs, so it must take
	// no notice of what it has done already.
	act func(*fixture)
	// want is the Network's spec in the end; nil: there is none.
	want *samplecrdv1.NetworkSpec
}

func spec(cidr, gateway string) *samplecrdv1.NetworkSpec {
	return &samplecrdv1.NetworkSpec{CIDR: cidr, Gateway: gateway}
}

func edited(want *samplecrdv1.NetworkSpec) func(*fixture) {
	return func(f *fixture) {
		if n := f.find(); n != nil && n.DeletionTimestamp == nil && n.Spec != *want {
			f.edit(func(n *samplecrdv1.Network) { n.Spec = *want })
		}
	}
}

// once makes of an act one that is done in the first round only.
func once(act func(*fixture)) func(*fixture) {
	return func(f *fixture) {
		if !f.acted {
			f.acted = true
			act(f)
		}
	}
}

func kubectlDelete(f *fixture) {
	if n := f.find(); n != nil && n.DeletionTimestamp == nil {
		f.edit(beingDeleted)
	}
}

var scenarios = []scenario{
	{"create", nil, once(func(f *fixture) { f.create(*spec("10.0.0.0/24", "")) }), spec("10.0.0.0/24", "")},
	{"edit of the gateway", spec("10.0.0.0/24", ""), edited(spec("10.0.0.0/24", "10.0.0.9")), spec("10.0.0.0/24", "10.0.0.9")},
	{"replacement", spec("10.0.0.0/24", ""), edited(spec("10.1.0.0/24", "")), spec("10.1.0.0/24", "")},
	{"replacement with overlap", spec("10.0.0.0/24", ""), edited(spec("10.0.0.0/16", "10.0.3.1")), spec("10.0.0.0/16", "10.0.3.1")},
	{"delete", spec("10.0.0.0/24", ""), kubectlDelete, nil},
	{"delete of one that is retained", &samplecrdv1.NetworkSpec{CIDR: "10.0.0.0/24", DeletionPolicy: samplecrdv1.DeletionRetain}, kubectlDelete, nil},
	{"delete before anything was made", nil, once(func(f *fixture) { f.create(*spec("10.0.0.0/24", "")); f.edit(beingDeleted) }), nil},
	{"delete and re-create under the same name", spec("10.0.0.0/24", ""), func(f *fixture) {
		if n := f.find(); n == nil {
			f.create(*spec("10.1.0.0/24", ""))
		} else if n.Spec.CIDR != "10.1.0.0/24" {
			kubectlDelete(f)
		}
	}, spec("10.1.0.0/24", "")},
	{"adoption", nil, once(func(f *fixture) {
		f.create(*spec("10.0.0.0/24", ""))
		f.edit(withFinalizer)
		f.inject(f.find().UID, "10.0.0.0/24")
	}), spec("10.0.0.0/24", "")},
	{"network vanished", spec("10.0.0.0/24", ""), once(func(f *fixture) { f.deleteInNeutron("networks", f.find().Status.NetworkID) }), spec("10.0.0.0/24", "")},
	{"subnet vanished", spec("10.0.0.0/24", ""), once(func(f *fixture) { f.deleteInNeutron("subnets", f.find().Status.SubnetID) }), spec("10.0.0.0/24", "")},
	{"gateway changed in Neutron", spec("10.0.0.0/24", ""), once(func(f *fixture) { f.setGateway(f.find().Status.SubnetID, "10.0.0.77") }), spec("10.0.0.0/24", "")},
	{"the network's mark wiped in Neutron", spec("10.0.0.0/24", ""), once(func(f *fixture) {
		f.put("networks", "network", f.find().Status.NetworkID, map[string]any{"description": ""})
	}), spec("10.0.0.0/24", "")},
	{"the subnet's mark wiped in Neutron", spec("10.0.0.0/24", ""), once(func(f *fixture) {
		f.put("subnets", "subnet", f.find().Status.SubnetID, map[string]any{"description": ""})
	}), spec("10.0.0.0/24", "")},
	{"a second network with the mark", spec("10.0.0.0/24", ""), once(func(f *fixture) { f.inject(f.find().UID, "10.0.0.0/24") }), spec("10.0.0.0/24", "")},
	{"edits that come and go between two looks", spec("10.0.0.0/24", ""), once(func(f *fixture) {
		f.edit(func(n *samplecrdv1.Network) { n.Spec = *spec("10.0.0.0/16", "") })
		f.edit(func(n *samplecrdv1.Network) { n.Spec = *spec("fd00:1::/64", "") })
		f.edit(func(n *samplecrdv1.Network) { n.Spec = *spec("10.0.0.0/24", "None") })
	}), spec("10.0.0.0/24", "None")},
	{"delete and re-create between two looks", nil, once(func(f *fixture) {
		f.create(*spec("10.0.0.0/24", ""))
		f.edit(beingDeleted)
		f.create(*spec("10.1.0.0/24", ""))
	}), spec("10.1.0.0/24", "")},
}

// find returns the Network, nil if there is none.
func (f *fixture) find() *samplecrdv1.Network {
	for _, n := range f.api.After(f.api.Changes()) {
		return n
	}
	return nil
}

func (f *fixture) create(spec samplecrdv1.NetworkSpec) {
	n := newNetwork(spec.CIDR, spec.Gateway)
	n.UID = ""
	f.api.Put(n)
}

// inject makes a network in Neutron with that owner's mark, with subnets, and returns
// its ID: what is left of a creation whose answer was lost.
func (f *fixture) inject(owner types.UID, cidrs ...string) string {
	f.t.Helper()
	return f.makeNetwork("default/net-a", neutron.Owner{Cluster: testCluster, UID: owner}.Mark(), cidrs...)
}

func (f *fixture) makeNetwork(name, description string, cidrs ...string) string {
	f.t.Helper()
	defer f.takeJournal()
	network, err := networks.Create(context.Background(), f.client, networks.CreateOpts{Name: name, Description: description}).Extract()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, cidr := range cidrs {
		opts := subnets.CreateOpts{NetworkID: network.ID, Name: name, Description: description, CIDR: cidr, IPVersion: gophercloud.IPv4}
		if _, err := subnets.Create(context.Background(), f.client, opts).Extract(); err != nil {
			f.t.Fatal(err)
		}
	}
	return network.ID
}

func (f *fixture) setGateway(subnet, gateway string) {
	f.t.Helper()
	f.put("subnets", "subnet", subnet, map[string]any{
		"gateway_ip": gateway, "allocation_pools": []map[string]string{{"start": "10.0.0.100", "end": "10.0.0.200"}}})
}

func (f *fixture) put(collection, key, id string, change map[string]any) {
	f.t.Helper()
	defer f.takeJournal()
	_, err := f.client.Put(context.Background(), f.client.ServiceURL(collection, id), map[string]any{key: change}, nil, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if err != nil {
		f.t.Fatal(err)
	}
}

// newWorld is a fixture with strangers in the same project: networks of the same name,
// without a mark and with another cluster's, which look like ours in all but that.
func newWorld(t *testing.T) *fixture {
	f := newFixture(t)
	f.unmarked = f.makeNetwork("default/net-a", "", "10.0.0.0/24")
	f.strangers = map[string]bool{
		f.unmarked: true,
		f.makeNetwork("default/net-a", neutron.Owner{Cluster: "another", UID: testUID}.Mark(), "10.0.0.0/24"): true,
	}
	f.strangersBefore = f.describeStrangers()
	return f
}

// describeStrangers tells everything of the strangers' networks, their revisions too.
func (f *fixture) describeStrangers() []string {
	f.t.Helper()
	defer f.takeJournal()
	var all []string
	for id := range f.strangers {
		n, err := networks.Get(context.Background(), f.client, id).Extract()
		if err != nil {
			f.t.Fatalf("a stranger's network: %v", err)
		}
		all = append(all, fmt.Sprintf("%+v", *n))
	}
	slices.Sort(all)
	return all
}

// settle lets the controller work until a round has no error and changes nothing. It
// returns what the last round still had to do, if there is no end.
func (f *fixture) settle(act func(*fixture)) error {
	f.t.Helper()
	var last error
	for range 12 {
		act(f)
		f.takeJournal()
		err := f.round()
		if f.dead() {
			return nil
		}
		var writes []string
		for _, line := range f.takeJournal() {
			if !strings.HasPrefix(line, "GET ") && !strings.HasPrefix(line, "get ") {
				writes = append(writes, line)
			}
		}
		if err == nil && len(writes) == 0 {
			return nil
		}
		last = fmt.Errorf("last round: %v, error: %w", writes, err)
	}
	return last
}

// round is one look at both sides, and one sync.
func (f *fixture) round() error {
	if err := f.cloud.Observer().Relist(context.Background()); err != nil {
		return err
	}
	f.refresh()
	return f.syncHandler(klog.NewContext(context.Background(), klog.Logger{}))
}

// check is the oracle: it returns what is not as it should be.
func (f *fixture) check(want *samplecrdv1.NetworkSpec) (violations []string) {
	f.t.Helper()
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	if diff := gocmp.Diff(f.strangersBefore, f.describeStrangers()); diff != "" {
		violate("a stranger's network was touched:\n%s", diff)
	}
	owned := f.owned()
	n := f.find()
	switch {
	case want == nil && n != nil:
		violate("the Network is still there: %+v", n)
	case want == nil && len(owned) > 0:
		violate("left over in Neutron: %v", owned)
	case want != nil && n == nil:
		violate("the Network is gone")
	}
	if want == nil || n == nil {
		return violations
	}
	cidr, _ := neutronSubnet(want)
	gateway := cmp.Or(want.Gateway, cidr.Addr().Next().String())
	wantOwned := []string{fmt.Sprintf("%s of %s: %s %s", n.Status.NetworkID, n.UID, cidr, gateway)}
	if diff := gocmp.Diff(wantOwned, owned); diff != "" {
		violate("in Neutron (-want +got):\n%s", diff)
	}
	if !status.IsAvailable(n) || n.Status.CIDR != cidr.String() || n.Status.Gateway != gateway || n.Status.ObservedGeneration != n.Generation || !live.HasFinalizer(n) {
		violate("the Network: %+v", n)
	}
	return violations
}

func neutronSubnet(spec *samplecrdv1.NetworkSpec) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(spec.CIDR)
	return prefix.Masked(), err
}

// owned tells of the networks with this cluster's mark, and of their subnets.
func (f *fixture) owned() []string {
	f.t.Helper()
	defer f.takeJournal()
	pages, err := networks.List(f.client, nil).AllPages(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []string
	for _, n := range all {
		owner, marked := neutron.OwnerOf(n.Description)
		if f.strangers[n.ID] {
			continue
		}
		line := n.ID + " without our mark"
		if marked && owner.Cluster == testCluster {
			line = fmt.Sprintf("%s of %s:", n.ID, owner.UID)
		}
		for _, id := range n.Subnets {
			s, err := subnets.Get(context.Background(), f.client, id).Extract()
			if err != nil {
				f.t.Fatal(err)
			}
			line += " " + s.CIDR + " " + cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// crash is how a controller dies: with one of its requests, before that leaves or after
// it has taken effect and before the answer is read. A dead controller sends nothing.
type crash struct {
	request int
	after   bool

	seen int
	dead bool
}

// fate says what becomes of the next request: whether it takes effect, and whether its
// answer arrives.
func (c *crash) fate() (effect, answer bool) {
	if c.dead {
		return false, false
	}
	c.seen++
	if c.seen != c.request {
		return true, true
	}
	c.dead = true
	return c.after, false
}

func (f *fixture) dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crash != nil && f.crash.dead
}

func (f *fixture) fate() (effect, answer bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crash == nil {
		return true, true
	}
	return f.crash.fate()
}

// arm has the controller die so; nil lets it live. The requests of act and of the oracle
// are not the controller's: they go past it.
func (f *fixture) arm(c *crash) {
	f.mu.Lock()
	f.crash = c
	f.mu.Unlock()
	lost := errors.New("connection lost")
	f.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		f.noteKubernetes(r)
		effect, answer := f.fate()
		if !effect {
			return nil, lost
		}
		object, err := do()
		if !answer {
			return nil, lost
		}
		return object, err
	})
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if strings.Contains(r.URL.Path, "/identity") || !strings.HasPrefix(r.UserAgent(), "controller") {
			return nil
		}
		effect, answer := f.fate()
		if effect && answer {
			return nil
		}
		return &embedded.Fault{Drop: true, After: effect}
	})
}

// prepare brings the scenario's start about.
func (s scenario) prepare(t *testing.T) *fixture {
	t.Helper()
	f := newWorld(t)
	if s.start != nil {
		f.create(*s.start)
		if err := f.settle(func(*fixture) {}); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	return f
}

// finish lets a new process end what the others have left, and asks the oracle.
func (s scenario) finish(f *fixture) []string {
	f.arm(nil)
	f.start()
	if err := f.settle(s.act); err != nil {
		return []string{err.Error()}
	}
	return f.check(s.want)
}

// run has one process after the other die as the crashes say, and the last one live. It
// returns how many requests the last of those that should die had sent if it did not.
func (s scenario) run(t *testing.T, crashes ...crash) (survived bool) {
	t.Helper()
	f := s.prepare(t)
	for i := range crashes {
		f.arm(nil)
		f.start()
		f.arm(&crashes[i])
		if err := f.settle(s.act); err != nil {
			t.Errorf("%v: %v", crashes, err)
		}
		if !f.dead() {
			survived = true
		}
	}
	for _, violation := range s.finish(f) {
		t.Errorf("after %+v: %s", crashes, violation)
	}
	return survived
}

func TestEveryCrashPointOfEveryScenario(t *testing.T) {
	var runs, points atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				for request := 1; ; request++ {
					runs.Add(2)
					survived := s.run(t, crash{request: request})
					if s.run(t, crash{request: request, after: true}) != survived || t.Failed() {
						break
					}
					if survived {
						break
					}
					points.Add(2)
				}
			})
		}
	})
	t.Logf("%d crash points of %d scenarios, %d runs", points.Load(), len(scenarios), runs.Load())
}

func TestPairsOfCrashPoints(t *testing.T) {
	var runs atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			// OtherCloud a second crash meets what a first one can leave, too.
			if s.name != "create" && s.name != "replacement" {
				continue
			}
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, the first one after=%v", s.name, after), func(t *testing.T) {
					t.Parallel()
					for first := 1; !t.Failed(); first++ {
						for second := 1; !t.Failed(); second++ {
							runs.Add(2)
							survived := s.run(t, crash{request: first, after: after}, crash{request: second})
							s.run(t, crash{request: first, after: after}, crash{request: second, after: true})
							if survived {
								break
							}
						}
						runs.Add(1)
						if s.run(t, crash{request: first, after: after}) {
							break
						}
					}
				})
			}
		}
	})
	t.Logf("%d runs with two crashes", runs.Load())
}

func TestAViewThatIsBehindDoesNoHarm(t *testing.T) {
	var views atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				for behind := 1; ; behind++ {
					f := s.prepare(t)
					if err := f.settle(s.act); err != nil {
						t.Fatal(err)
					}
					if behind > f.api.Changes() {
						break
					}
					views.Add(1)
					f.start()
					f.see(f.api.After(f.api.Changes() - behind))
					// It may fail, as long as it does no harm.
					_ = f.syncHandler(klog.NewContext(t.Context(), klog.Logger{}))
					for _, violation := range s.finish(f) {
						t.Errorf("behind by %d: %s", behind, violation)
					}
				}
			})
		}
	})
	t.Logf("%d views that are behind, of %d scenarios", views.Load(), len(scenarios))
}

// TestAnyStartingState puts together what a Network may look like and what Neutron may
// hold, and lets the controller begin there. It must reach what is specified, and then
// make no further write.
func TestAnyStartingState(t *testing.T) {
	const right, other = "10.0.0.0/24", "10.1.0.0/24"
	const marksWiped, markWiped = "marks of network and subnet wiped", "mark of the network wiped"
	objects := []struct {
		name   string
		change func(*samplecrdv1.Network)
	}{
		{"no finalizer", func(*samplecrdv1.Network) {}},
		{"finalizer", withFinalizer},
		{"being deleted", func(n *samplecrdv1.Network) { withFinalizer(n); beingDeleted(n) }},
		{"old generation in the status", func(n *samplecrdv1.Network) { withFinalizer(n); n.Generation = 7; n.Status.ObservedGeneration = 5 }},
	}
	ids := []string{"none", "right", "vanished", "a stranger's"}
	// Each returns the ID of the network that is the Network's, if any, and of a port that
	// stands in the way of what is specified, if any.
	inNeutron := []struct {
		name string
		make func(*fixture) (network, port string)
	}{
		{"nothing", func(*fixture) (string, string) { return "", "" }},
		{"network without subnet", func(f *fixture) (string, string) { return f.inject(testUID), "" }},
		{"as specified", func(f *fixture) (string, string) { return f.inject(testUID, right), "" }},
		{"other subnet", func(f *fixture) (string, string) { return f.inject(testUID, other), "" }},
		{"two subnets", func(f *fixture) (string, string) { return f.inject(testUID, right, other), "" }},
		{"two networks with the mark", func(f *fixture) (string, string) { f.inject(testUID, right); return f.inject(testUID, other), "" }},
		{marksWiped, func(f *fixture) (string, string) { return f.makeNetwork("default/net-a", "", right), "" }},
		{markWiped, func(f *fixture) (string, string) {
			id := f.inject(testUID, right)
			f.put("networks", "network", id, map[string]any{"description": ""})
			return id, ""
		}},
		{"port on the right subnet", func(f *fixture) (string, string) {
			id := f.inject(testUID, right)
			f.portOn(id)
			return id, ""
		}},
		{"port on the other subnet", func(f *fixture) (string, string) { id := f.inject(testUID, other); return id, f.portOn(id) }},
		{"two networks, one of them in use", func(f *fixture) (string, string) {
			f.inject(testUID, right)
			id := f.inject(testUID, right)
			f.portOn(id)
			f.inject(testUID, right)
			return id, ""
		}},
	}
	var states atomic.Int64
	t.Run("states", func(t *testing.T) {
		for _, object := range objects {
			for _, id := range ids {
				for _, start := range inNeutron {
					t.Run(object.name+", ID "+id+", "+start.name, func(t *testing.T) {
						t.Parallel()
						states.Add(1)
						f := newWorld(t)
						own, port := start.make(f)
						n := newNetwork(right, "", object.change)
						switch id {
						case "right":
							n.Status.NetworkID, n.Status.SubnetID = own, f.subnetOf(own)
						case "vanished":
							n.Status.NetworkID = "99999999-9999-4999-8999-999999999999"
						case "a stranger's":
							n.Status.NetworkID = f.unmarked
						}
						if start.name == marksWiped || start.name == markWiped && (id != "right" || n.DeletionTimestamp != nil) {
							// Nothing but what people can write says that it is ours, or
							// somebody wants to keep it.
							f.strangers[own] = true
							f.strangersBefore = f.describeStrangers()
						}
						f.api.Put(n)
						f.start()
						f.converge(n, port)
					})
				}
			}
		}
	})
	t.Logf("%d starting states", states.Load())
}

// subnetOf returns the ID of the network's first subnet, if it has one.
func (f *fixture) subnetOf(network string) string {
	f.t.Helper()
	defer f.takeJournal()
	if network == "" {
		return ""
	}
	n, err := networks.Get(context.Background(), f.client, network).Extract()
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(n.Subnets[:min(1, len(n.Subnets))], "")
}

// portOn puts a port on the network, and returns its ID.
func (f *fixture) portOn(network string) string {
	f.t.Helper()
	defer f.takeJournal()
	port, err := ports.Create(context.Background(), f.client, ports.CreateOpts{NetworkID: network, Name: "web-0"}).Extract()
	if err != nil {
		f.t.Fatal(err)
	}
	f.ports = append(f.ports, port.ID)
	return port.ID
}

// converge lets the controller work on n, takes the ports away if they have to go first,
// and asks the oracle.
func (f *fixture) converge(n *samplecrdv1.Network, blocking string) {
	f.t.Helper()
	deleted := n.DeletionTimestamp != nil
	if blocking != "" || deleted && len(f.ports) > 0 {
		if err := f.settle(func(*fixture) {}); !strings.Contains(fmt.Sprint(err), "in use by port web-0") {
			f.t.Errorf("a port was in the way, and the controller said: %v", err)
		}
		for _, port := range f.ports {
			f.deleteInNeutron("ports", port)
		}
	}
	if err := f.settle(func(*fixture) {}); err != nil {
		f.t.Fatal(err)
	}
	want := &n.Spec
	if deleted {
		want = nil
	}
	for _, violation := range f.check(want) {
		f.t.Error(violation)
	}
	if err := f.round(); err != nil {
		f.t.Error(err)
	}
	for _, line := range f.takeJournal() {
		if !strings.HasPrefix(line, "GET ") && !strings.HasPrefix(line, "get ") {
			f.t.Errorf("it goes on writing: %s", line)
		}
	}
}

// BenchmarkSyncInOrder is a sync that finds nothing to do, from the queue and back, with what
// is logged by default.
func BenchmarkSyncInOrder(b *testing.B) {
	f := newFixture(b, newNetwork("10.0.0.0/24", ""))
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.refresh()
	ctx := klog.NewContext(b.Context(), klog.Background())
	f.takeJournal()
	b.ReportAllocs()
	for b.Loop() {
		f.controller.queue.Add(testKey)
		f.controller.processNextWorkItem(ctx)
	}
	if calls := f.takeJournal(); len(calls) > 0 {
		b.Errorf("it was not in order: %q", calls)
	}
}

// BenchmarkUpdateHandler is what an update costs that the informer tells of: the decision whether
// somebody has to look at the Network, and if so, its way through the queue to a worker.
func BenchmarkUpdateHandler(b *testing.B) {
	before := newNetwork("10.0.0.0/24", "", withFinalizer)
	written := newNetwork("10.0.0.0/24", "", withFinalizer, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Status.NetworkID = "id" })
	edited := newNetwork("10.0.0.0/25", "", withFinalizer, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Generation = 2 })
	for _, bench := range []struct {
		name string
		now  *samplecrdv1.Network
		keys int
	}{
		{"a resync", before, 0},
		{"a status write", written, 0},
		{"an edit of the spec", edited, 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := queueOnly(nil)
			defer c.queue.ShutDown()
			handlers := c.handlers(klog.Logger{})
			b.ReportAllocs()
			for b.Loop() {
				handlers.OnUpdate(before, bench.now)
				if got := c.queue.Len(); got != bench.keys {
					b.Fatalf("%d keys in the queue, want %d", got, bench.keys)
				}
				for range bench.keys {
					key, _ := c.queue.Get()
					c.queue.Done(key)
				}
			}
		})
	}
}
