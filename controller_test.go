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
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
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

// fixture is a controller between a fake Kubernetes and an embedded Neutron. The fake
// keeps no generation, no resourceVersion and no conflict, and lets go of what has a
// finalizer: what depends on those is tested on a real API server, under hack/e2e.
type fixture struct {
	t          *testing.T
	kube       *fake.Clientset
	neutron    *embedded.Server
	cloud      *neutron.Cloud
	controller *Controller
	indexer    cache.Indexer
	events     *record.FakeRecorder

	mu sync.Mutex
	// journal holds the writes to Kubernetes and the calls of Neutron, as they came.
	journal []string
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	f := &fixture{t: t, kube: fake.NewClientset(objects...), neutron: server, events: record.NewFakeRecorder(100)}
	f.cloud = f.newCloud()
	factory := informers.NewSharedInformerFactory(f.kube, 0)
	informer := factory.Samplecrd().V1().Networks()
	f.controller, err = NewController(f.kube, informer, f.cloud, f.events,
		ControllerOptions{Cluster: testCluster, Resync: time.Minute, Retry: testRetry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.controller.queue.ShutDown)
	// The informer is not started: what is in its cache is what the test puts there.
	f.indexer = informer.Informer().GetIndexer()
	f.refresh()
	if err := f.cloud.Observer().Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.kube.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !slices.Contains([]string{"list", "watch"}, action.GetVerb()) {
			f.note(strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/"))
		}
		return false, nil, nil
	})
	server.Observe(func(r embedded.Request) {
		if r.Service == "network" && strings.HasPrefix(r.Path, "v2.0/") {
			f.note(r.Method + " " + withoutID(r.Path))
		}
	})
	return f
}

// newCloud returns the cloud as a controller sees it that has just been started.
func (f *fixture) newCloud() *neutron.Cloud {
	f.t.Helper()
	config, err := neutron.ParseConfig("test", f.neutron.CloudsYAML("test"))
	if err != nil {
		f.t.Fatal(err)
	}
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
	return neutron.NewCloud("test", client, testCluster, time.Hour)
}

// restart forgets what the controller remembers of Neutron.
func (f *fixture) restart() {
	f.t.Helper()
	f.cloud = f.newCloud()
	f.controller.cloud = f.cloud
	if err := f.cloud.Observer().Look(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
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
	list, err := f.kube.SamplecrdV1().Networks("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	items := make([]any, len(list.Items))
	for i := range list.Items {
		items[i] = &list.Items[i]
	}
	if err := f.indexer.Replace(items, ""); err != nil {
		f.t.Fatal(err)
	}
	f.kube.ClearActions()
}

// sync syncs the Network against a cache that is up to date, and returns the error.
func (f *fixture) sync() error {
	f.t.Helper()
	f.refresh()
	_, ctx := ktesting.NewTestContext(f.t)
	return f.controller.syncHandler(ctx, testKey)
}

func (f *fixture) mustSync() {
	f.t.Helper()
	if err := f.sync(); err != nil {
		f.t.Fatalf("sync: %v", err)
	}
}

func (f *fixture) get() *samplecrdv1.Network {
	f.t.Helper()
	n, err := f.kube.SamplecrdV1().Networks(testKey.Namespace).Get(context.Background(), testKey.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// edit changes the Network as kubectl edit does.
func (f *fixture) edit(change func(*samplecrdv1.Network)) {
	f.t.Helper()
	n := f.get()
	change(n)
	n.Generation++
	if _, err := f.kube.SamplecrdV1().Networks(n.Namespace).Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.takeJournal()
}

// openStack is a client of the same project that shares no code with the controller.
func (f *fixture) openStack() *gophercloud.ServiceClient {
	f.t.Helper()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName("test"), clouds.WithCloudsYAML(bytes.NewReader(f.neutron.CloudsYAML("test"))))
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
	client := f.openStack()
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
	conflict := apierrors.NewConflict(samplecrdv1.Resource("networks"), testKey.Name, errors.New("somebody was quicker"))
	f.kube.PrependReactor("patch", "networks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	if err := f.sync(); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want the conflict", err)
	}
	f.expectNeutron()
	f.expectEvents()
}

func TestTheFinalizerPatchHoldsOnlyForTheVersionThatWasRead(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) {
		n.ResourceVersion = "41"
		n.Finalizers = []string{"example.com/another"}
	}))
	f.mustSync()
	for _, action := range f.kube.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok && patch.GetSubresource() == "" {
			want := `{"metadata":{"finalizers":["example.com/another","samplecrd.k8s.io/neutron"],"resourceVersion":"41","uid":"` + string(testUID) + `"}}`
			if diff := gocmp.Diff(want, string(patch.GetPatch())); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Fatal("no finalizer patch")
}

func TestADeletedNetworkGoesFromNeutronBeforeItGoesFromKubernetes(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.edit(beingDeleted)
	f.mustSync()
	// The revision is not known after the subnet was made, so the network is read first.
	f.expectJournal("get networks", "GET networks/ID", "DELETE networks/ID", "patch networks")
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
	if err := f.sync(); neutron.KindOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want an error of Neutron", err)
	}
	if !hasFinalizer(f.get()) {
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
	f.cloud.Observer().Forget(testUID)
	f.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet {
			return &embedded.Fault{Status: http.StatusServiceUnavailable, Message: "busy"}
		}
		return nil
	})
	if err := f.sync(); err == nil {
		t.Fatal("the sync succeeded without an answer from Neutron")
	}
	if !hasFinalizer(f.get()) {
		t.Error("the finalizer is gone")
	}
}

func TestNothingIsDestroyedOnTheWordOfTheCache(t *testing.T) {
	tests := []struct {
		name   string
		cached func(*samplecrdv1.Network)
	}{
		{"the CIDR was changed and is changed back already", func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/16"; n.Generation++ }},
		{"another Network has the name by now", func(n *samplecrdv1.Network) { beingDeleted(n); n.UID = "another" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			f.edit(func(*samplecrdv1.Network) {}) // two generations on
			f.edit(func(*samplecrdv1.Network) {})
			stale := f.get()
			stale.Generation -= 2
			tt.cached(stale)
			if err := f.indexer.Replace([]any{stale}, ""); err != nil {
				t.Fatal(err)
			}
			have := neutron.Claim{Owner: neutron.Owner{Cluster: testCluster, UID: stale.UID}}
			if networks, _, _ := f.cloud.Observer().Owned(testUID); stale.UID != testUID {
				f.cloud.Observer().Saw(have.Owner.UID, networks...)
			}
			_, ctx := ktesting.NewTestContext(t)
			if err := f.controller.syncHandler(ctx, testKey); err == nil {
				t.Error("the sync succeeded")
			}
			f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
		})
	}
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
			if err := f.sync(); neutron.KindOf(err) != neutron.Unavailable {
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
			f.controller.queue.ShutDown()
			if err := f.cloud.Observer().Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.mustSync()
			f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			f.expectEvents(samplecrdv1.EventDriftRepaired)
			f.expectReady(samplecrdv1.ReasonAvailable)
		})
	}
}

// deleteInNeutron deletes behind the controller's back.
func (f *fixture) deleteInNeutron(collection, id string) {
	f.t.Helper()
	defer f.takeJournal()
	client := f.openStack()
	if _, err := client.Delete(context.Background(), client.ServiceURL(collection, id), nil); err != nil {
		f.t.Fatal(err)
	}
}

func TestAChangeInNeutronLeadsBackToTheNetwork(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.deleteInNeutron("networks", f.get().Status.NetworkID)
	if err := f.cloud.Observer().Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.controller.queue.Len() != 1 {
		t.Fatalf("%d keys in the queue, want 1", f.controller.queue.Len())
	}
	if key, _ := f.controller.queue.Get(); key != testKey {
		t.Errorf("got %v, want %v", key, testKey)
	}
}

func TestWhatNeutronRefusesStallsTheNetworkUntilItIsEdited(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/31", ""))
	if err := f.sync(); neutron.KindOf(err) != neutron.Invalid {
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
	f.expectJournal("POST subnets")
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
			if err := f.sync(); neutron.KindOf(err) != neutron.Invalid {
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
		if err := f.sync(); neutron.KindOf(err) != neutron.Unavailable {
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
	f.controller.cloud = f.newCloud()
	f.neutron.SetFault(func(*http.Request) *embedded.Fault { return &embedded.Fault{Drop: true} })
	if err := f.controller.cloud.Observer().Look(t.Context()); err == nil {
		t.Fatal("the look succeeded")
	}
	if err := f.sync(); neutron.KindOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.expectReady(samplecrdv1.ReasonAvailable)
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	if err := f.sync(); neutron.KindOf(err) != neutron.Unavailable {
		t.Fatalf("got %v, want that Neutron is not available", err)
	}
	f.expectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
}

func TestAFailedStatusWriteIsTriedAgainAndMakesNothingTwice(t *testing.T) {
	f := newFixture(t, newNetwork("10.0.0.0/24", ""))
	fail := true
	f.kube.PrependReactor("patch", "networks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return fail && action.GetSubresource() == "status", nil, apierrors.NewInternalError(errors.New("etcd is away"))
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
	port := f.createPort("web-0")
	for _, cidr := range []string{"10.1.0.0/24", "10.0.0.0/16"} {
		f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = cidr })
		if err := f.sync(); neutron.KindOf(err) != neutron.InUse {
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

// createPort puts a port on the Network's network, and returns its ID.
func (f *fixture) createPort(name string) string {
	f.t.Helper()
	defer f.takeJournal()
	port, err := ports.Create(context.Background(), f.openStack(), ports.CreateOpts{NetworkID: f.get().Status.NetworkID, Name: name}).Extract()
	if err != nil {
		f.t.Fatal(err)
	}
	return port.ID
}

func TestAChangeByOtherHandsBetweenLookAndChangeIsReadAndPlannedAgainAtOnce(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	subnet := f.get().Status.SubnetID
	name := "by hand"
	if _, err := subnets.Update(t.Context(), f.openStack(), subnet, subnets.UpdateOpts{Name: &name}).Extract(); err != nil {
		t.Fatal(err)
	}
	f.edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.mustSync()
	f.expectJournal("PUT subnets/ID", "GET networks", "GET subnets", "PUT subnets/ID", "patch networks/status")
	f.expectNeutron("default/net-a 10.0.0.0/24 10.0.0.9")
}

func TestANetworkWithPortsIsNotDeleted(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	port := f.createPort("web-0")
	f.edit(beingDeleted)
	if err := f.sync(); neutron.KindOf(err) != neutron.InUse {
		t.Fatalf("got %v, want that the network is in use", err)
	}
	if !hasFinalizer(f.get()) {
		t.Error("the finalizer is gone")
	}
	if message := status.Ready(&f.get().Status).Message; !strings.Contains(message, "web-0") {
		t.Errorf("message %q does not name the port", message)
	}
	f.deleteInNeutron("ports", port)
	f.mustSync()
	f.expectNeutron()
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
		{"an edit of the spec", nil, func(n *samplecrdv1.Network) { n.Generation = 2 }, true},
		{"a deletion", nil, beingDeleted, true},
		{"our finalizer taken off by hand", withFinalizer, nil, true},
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
			if got := needsSync(before, now); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
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
		controller, err := NewController(kube, factory.Samplecrd().V1().Networks(), cloud, record.NewFakeRecorder(10),
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
	f.controller.handlers().OnDelete(networkinformers.DeletedNetwork{
		FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: testKey.String()},
	})
	if key, _ := f.controller.queue.Get(); key != testKey {
		t.Errorf("got %v, want %v", key, testKey)
	}
}

// queueOnly is a controller of which only the queue and the workers are used.
func queueOnly(sync func(context.Context, cache.ObjectName) error) *Controller {
	return &Controller{
		options: ControllerOptions{Resync: 10 * time.Minute, Retry: testRetry},
		queue:   workqueue.NewTypedRateLimitingQueue(retry.NewLimiter[cache.ObjectName](testRetry)),
		sync:    sync,
	}
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
		{"Neutron is away: the limiter's back-off", &neutron.Error{Kind: neutron.Unavailable}, 1200 * time.Millisecond, 2400 * time.Millisecond},
		{"Neutron asked for a time", &neutron.Error{Kind: neutron.Unavailable, RetryAfter: 7 * time.Second}, 7 * time.Second, 7 * time.Second},
		{"final: at the slow resync", &neutron.Error{Kind: neutron.Invalid}, 10 * time.Minute, 10 * time.Minute},
		{"ports in the way: steadily", &neutron.Error{Kind: neutron.InUse}, 10 * time.Second, 10 * time.Second},
		{"changed meanwhile, twice: the limiter's back-off", &neutron.Error{Kind: neutron.Stale}, 1200 * time.Millisecond, 2400 * time.Millisecond},
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
