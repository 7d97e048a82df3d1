// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	samplecrdv1ac "github.com/samplecrd/samplecrd-controller/pkg/generated/applyconfiguration/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// The fixture of all tests of the controller; then a sync, the handlers, and the queue. The other files
// are about one subject each; controller_systematic_test.go has the systematic tests.

var testRetry = retry.Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1000, Burst: 1000}

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		main()
	}
	debug.SetGCPercent(1000) // many small worlds, one after another
	os.Exit(m.Run())
}

// fixture is a controller in a world. Its informer does not run: the cache has what the test
// puts there, and so can be stale.
type fixture struct {
	*world.World
	t          testing.TB
	cloud      *neutron.Cloud // the controller's own
	controller *Controller
	indexer    cache.Indexer
	vanished   []cache.ObjectName // keys: see syncVanished
	// clouds are the settings of the clouds after the next restart.
	clouds clouds.Options
}

func newFixture(t testing.TB, networks ...*samplecrdv1.Network) *fixture {
	t.Helper()
	f := &fixture{World: world.New(t, networks...), t: t}
	f.restart()
	return f
}

// ready returns a fixture with a Network that is Available.
func ready(t *testing.T, cidr, gateway string) *fixture {
	t.Helper()
	f := newFixture(t, world.NewNetwork(cidr, gateway))
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
	f.TakeJournal()
	f.TakeEvents()
	return f
}

// start starts a new controller, which has read both sides and remembers nothing else.
func (f *fixture) start() {
	f.t.Helper()
	f.startAs(world.Cluster)
}

// startAs is start for a controller with this cluster ID.
func (f *fixture) startAs(cluster string) {
	f.t.Helper()
	f.startWithoutList(cluster)
	f.relist()
}

// startWithoutList is startAs, but Neutron was not listed yet.
func (f *fixture) startWithoutList(cluster string) {
	f.t.Helper()
	f.cloud = neutron.NewCloud("test", f.NewCloud().Client(), cluster, time.Hour)
	informer := informers.NewSharedInformerFactory(f.Kube, 0).Samplecrd().V1().Networks()
	controller, err := NewController(f.t.Context(), f.Kube, informer, f.newClouds(), f.Events,
		ControllerOptions{Cluster: cluster, Resync: time.Minute, Retry: testRetry, Limits: fair.Limits{PerCloud: 2, Total: 3}})
	must(f.t, err)
	world.Cleanup(f.t, controller.queue.ShutDown)
	f.controller, f.indexer = controller, informer.Informer().GetIndexer()
	f.refresh()
}

// restart calls start, and removes its requests from the journal.
func (f *fixture) restart() {
	f.t.Helper()
	f.start()
	f.TakeJournal()
}

// cloudTimeout is that of requests to the clouds of Secrets.
const cloudTimeout = time.Minute

// newClouds returns Clouds with the controller's own cloud. What they start is stopped at the
// end of the test.
func newClouds(t testing.TB, own *neutron.Cloud, options clouds.Options) *clouds.Clouds {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	options.NewCloud = func(config neutron.Config, _ bool) *neutron.Cloud {
		return neutron.NewCloud(config.Name, neutron.NewClient(config, neutron.ClientOptions{Timeout: cloudTimeout}), world.Cluster, time.Hour)
	}
	all := clouds.New(ctx, own, options)
	world.Cleanup(t, func() { cancel(); all.Wait() })
	return all
}

func (f *fixture) newClouds() *clouds.Clouds {
	f.clouds.Client, f.clouds.Networks = f.Secrets, f.Kube
	return newClouds(f.t, f.cloud, f.clouds)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// relist makes the Observer list Neutron once.
func (f *fixture) relist() {
	f.t.Helper()
	must(f.t, f.cloud.Observer().Relist(f.t.Context()))
}

// DeletePorts deletes the ports that CreatePort created, and lets all clouds notice it.
func (f *fixture) DeletePorts() {
	f.t.Helper()
	f.World.DeletePorts()
	f.relistPorts()
	f.TakeJournal()
}

// relistPorts lists the ports that Networks wait for.
func (f *fixture) relistPorts() {
	f.t.Helper()
	for _, cloud := range f.controller.clouds.List() {
		must(f.t, cloud.RelistPorts(f.t.Context()))
	}
}

// refresh puts the Networks of the API server into the informer's cache.
func (f *fixture) refresh() {
	f.t.Helper()
	f.see(f.API.After(f.API.Changes()))
}

// see puts these Networks, and no others, into the informer's cache.
func (f *fixture) see(networks []*samplecrdv1.Network) {
	f.t.Helper()
	items := make([]any, len(networks))
	for i, n := range networks {
		items[i] = n
	}
	must(f.t, f.indexer.Replace(items, ""))
}

// syncHandler syncs the Network with the cache as it is.
func (f *fixture) syncHandler() error {
	f.t.Helper()
	_, ctx := ktesting.NewTestContext(f.t)
	return f.controller.syncHandler(ctx, world.Key)
}

// sync syncs the Network with a cache that is up to date.
func (f *fixture) sync() error {
	f.t.Helper()
	f.refresh()
	return f.syncHandler()
}

func (f *fixture) mustSync() {
	f.t.Helper()
	if err := f.sync(); err != nil {
		f.t.Fatalf("sync: %v", err)
	}
}

// mustFail syncs the Network, and expects an error of Neutron of this reason.
func (f *fixture) mustFail(want neutron.ErrorReason) {
	f.t.Helper()
	if err := f.sync(); neutron.ReasonOf(err) != want {
		f.t.Fatalf("sync: got %v, want an error of reason %s", err, want)
	}
}

// message returns the message of the Ready condition.
func (f *fixture) message() string {
	f.t.Helper()
	return status.Ready(&f.Get().Status).Message
}

// fails returns a fault for the requests of a method whose path has this suffix.
func fails(method, suffix string, fault embedded.Fault) func(*http.Request) *embedded.Fault {
	return func(r *http.Request) *embedded.Fault {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			return &fault
		}
		return nil
	}
}

var (
	internalError = embedded.Fault{Status: http.StatusInternalServerError, Type: "HTTPInternalServerError", Message: "Request Failed: internal server error while processing your request."}
	busy          = embedded.Fault{Status: http.StatusServiceUnavailable, Message: "busy"}
	// lostAnswer lets the request take effect.
	lostAnswer = embedded.Fault{After: true, Drop: true}
)

func noAnswer(*http.Request) *embedded.Fault { return &embedded.Fault{Drop: true} }

// reasonOf returns the reason of an error of Neutron or Kubernetes; "" for nil.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(string(neutron.ReasonOf(err)), string(apierrors.ReasonForError(err)), err.Error())
}

// TestSyncHandler shows what a sync does: the state of both sides goes in, and requests, events
// and a status come out. After a sync without an error, the next one makes no request.
func TestSyncHandler(t *testing.T) {
	const inOrder = "default/net-a 10.0.0.0/24 10.0.0.1" // what Neutron has for 10.0.0.0/24
	edit := func(changes ...func(*samplecrdv1.Network)) func(*fixture) {
		return func(f *fixture) {
			for _, change := range changes {
				f.Edit(change)
			}
		}
	}
	respec := func(cidr, gateway string) func(*samplecrdv1.Network) {
		return func(n *samplecrdv1.Network) { n.Spec.CIDR, n.Spec.Gateway = cidr, gateway }
	}
	drift := func(change func(*fixture)) func(*fixture) {
		return func(f *fixture) { change(f); f.relist() }
	}
	inUse := func(change func(*samplecrdv1.Network)) func(*fixture) {
		return func(f *fixture) { f.CreatePort(f.Get().Status.NetworkID); f.Edit(change) }
	}
	oldSubnetInForce := func(t *testing.T, f *fixture) {
		if got := f.Get().Status.CIDR; got != "10.0.0.0/24" {
			t.Errorf("status.cidr is %s, want the one that is in force", got)
		}
	}
	keepsFinalizer := func(t *testing.T, f *fixture) {
		if !live.HasFinalizer(f.Get()) {
			t.Error("the finalizer is gone")
		}
	}
	available := []string{samplecrdv1.ReasonAvailable}
	unavailable := []string{samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling}
	isInUse := []string{samplecrdv1.ReasonInUse, samplecrdv1.ConditionReconciling}
	conflict := string(metav1.StatusReasonConflict)

	tests := []row{
		{
			// The finalizer is stored before anything is created.
			name:         "new: two requests to Neutron, two to Kubernetes, one event",
			network:      world.NewNetwork("192.168.1.0/16", "192.168.0.1"),
			wantRequests: []string{"patch networks", "POST networks", "POST subnets", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventCreated}, wantReady: available, wantNeutron: []string{"default/net-a 192.168.0.0/16 192.168.0.1"},
			check: func(t *testing.T, f *fixture) {
				got := f.Get().Status
				if got.CIDR != "192.168.0.0/16" || got.Gateway != "192.168.0.1" || got.NetworkID == "" || got.SubnetID == "" ||
					got.MTU != 1450 || got.Cloud != "test" || got.ObservedGeneration != 1 {
					t.Errorf("status: %+v", got)
				}
			},
		},
		{
			name:      "in order: no request",
			wantReady: available, wantNeutron: []string{inOrder},
		},

		// Edits.
		{
			name:         "another gateway: in place",
			given:        edit(respec("10.0.0.0/24", "10.0.0.9")),
			wantRequests: []string{"PUT subnets/ID", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventUpdated}, wantReady: available, wantNeutron: []string{"default/net-a 10.0.0.0/24 10.0.0.9"},
		},
		{
			name:         "only host bits: nothing but the generation in the status",
			given:        edit(respec("10.0.0.7/24", "")),
			wantRequests: []string{"patch networks/status"},
			wantReady:    available, wantNeutron: []string{inOrder},
		},
		{
			name:         "another CIDR: the new subnet is created first",
			given:        edit(respec("10.1.0.0/24", "")),
			wantRequests: []string{"GET ports", "POST subnets", "GET ports", "get networks", "DELETE subnets/ID", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventUpdated}, wantReady: available, wantNeutron: []string{"default/net-a 10.1.0.0/24 10.1.0.1"},
		},
		{
			name:         "a CIDR that overlaps: Neutron requires that the old subnet is deleted first",
			given:        edit(respec("10.0.0.0/16", "")),
			wantRequests: []string{"GET quotas/ID/details.json", "GET subnets", "GET networks/ID", "GET ports", "get networks", "DELETE subnets/ID", "POST subnets", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventUpdated}, wantReady: available, wantNeutron: []string{"default/net-a 10.0.0.0/16 10.0.0.1"},
		},
		{
			name: "changed by another client since the last list: read and planned again at once",
			given: func(f *fixture) {
				f.RenameSubnet(f.Get().Status.SubnetID, "by hand")
				f.Edit(respec("10.0.0.0/24", "10.0.0.9"))
			},
			wantRequests: []string{"PUT subnets/ID", "GET networks", "GET subnets", "PUT subnets/ID", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventUpdated}, wantReady: available, wantNeutron: []string{"default/net-a 10.0.0.0/24 10.0.0.9"},
		},
		{
			name:    "another CIDR, but ports use the old subnet: it stays in force",
			given:   inUse(respec("10.1.0.0/24", "")),
			wantErr: string(neutron.InUse), wantRequests: []string{"GET ports", "patch networks/status"},
			wantEvents: []string{samplecrdv1.ReasonInUse}, wantReady: isInUse, wantMessage: "web-0", wantNeutron: []string{inOrder},
			check: oldSubnetInForce, resolve: func(f *fixture) { f.DeletePorts() }, wantResolved: []string{"default/net-a 10.1.0.0/24 10.1.0.1"},
		},
		{
			name:         "a spec that an older CRD accepted",
			network:      world.NewNetwork("10.0.0.0/24", "10.0.1.1"), // Neutron accepts it
			wantErr:      string(neutron.Invalid),
			wantRequests: []string{"patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonInvalidSpec},
			wantReady:    []string{samplecrdv1.ReasonInvalidSpec, samplecrdv1.ConditionStalled}, wantMessage: "spec.gateway: ",
		},

		// Drift.
		{
			name:         "the network was deleted in Neutron",
			given:        drift(func(f *fixture) { f.DeleteInNeutron("networks", f.Get().Status.NetworkID) }),
			wantRequests: []string{"GET networks", "GET networks/ID", "get networks", "POST networks", "POST subnets", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventDriftRepaired}, wantReady: available, wantNeutron: []string{inOrder},
		},
		{
			name: "a reconcile is requested: Neutron is read, not the cache",
			given: func(f *fixture) {
				f.SetGateway(f.Get().Status.SubnetID, "10.0.0.77") // not listed since
				f.Edit(world.ReconcileRequested)
			},
			wantRequests: []string{"GET networks", "GET subnets", "PUT subnets/ID", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventDriftRepaired}, wantReady: available, wantNeutron: []string{inOrder},
			check: func(t *testing.T, f *fixture) {
				if got := f.Get().Status.LastHandledReconcileAt; got != "now" {
					t.Errorf("status.lastHandledReconcileAt is %q", got)
				}
			},
		},
		{
			name:         "a reconcile is requested, and Neutron is away: the request stays pending",
			given:        edit(world.ReconcileRequested),
			fault:        fails(http.MethodGet, "/networks", busy),
			wantErr:      string(neutron.Unavailable),
			wantRequests: []string{"GET networks", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonNeutronUnavailable}, wantReady: unavailable, wantNeutron: []string{inOrder},
			check: func(t *testing.T, f *fixture) {
				if got := f.Get().Status.LastHandledReconcileAt; got != "" {
					t.Errorf("status.lastHandledReconcileAt is %q", got)
				}
			},
			wantResolved: []string{inOrder},
		},
		{
			name:         "a status without the region: it gets that of its network",
			given:        edit(func(n *samplecrdv1.Network) { n.Status.Region = "" }),
			wantRequests: []string{"patch networks/status"}, wantReady: available, wantNeutron: []string{inOrder},
			check: func(t *testing.T, f *fixture) {
				if got := f.Get().Status.Region; got != "RegionOne" {
					t.Errorf("the region is %q", got)
				}
			},
		},

		// Stale caches and lost answers.
		{
			name:       "the finalizer cannot be stored: nothing is created",
			network:    world.NewNetwork("10.0.0.0/24", ""),
			given:      edit(func(n *samplecrdv1.Network) { n.Labels = map[string]string{"another": "client"} }),
			cacheLacks: 1,
			wantErr:    conflict, wantRequests: []string{"patch networks"},
			wantReady: unchanged,
		},
		{
			name:       "the cache has a spec that requires a deletion, and the API server has not: nothing is deleted",
			given:      edit(respec("10.0.0.0/16", ""), respec("10.0.0.0/24", "")),
			cacheLacks: 1,
			wantErr:    conflict, wantRequests: []string{"GET quotas/ID/details.json", "GET subnets", "GET networks/ID", "GET ports", "get networks"},
			wantReady: unchanged, wantNeutron: []string{inOrder},
		},
		{
			name:    "the answer to the creation of the network was lost: it is adopted",
			network: world.NewNetwork("10.0.0.0/24", ""),
			fault:   fails(http.MethodPost, "/networks", lostAnswer),
			wantErr: string(neutron.Unavailable), wantRequests: []string{"patch networks", "POST networks", "patch networks/status"},
			wantEvents: []string{samplecrdv1.ReasonNeutronUnavailable}, wantReady: unavailable, wantNeutron: []string{"default/net-a"},
			resolve: (*fixture).restart, wantResolved: []string{inOrder},
		},
		{
			// A list that fails does not prove that there is nothing.
			name:    "the answer to the creation was lost, and Neutron cannot be listed: nothing is created",
			network: world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer),
			given: func(f *fixture) {
				f.CreateOwned(world.UID, "10.0.0.0/24")
				f.cloud.Observer().Invalidate(world.UID)
			},
			fault:   fails(http.MethodGet, "/networks", internalError),
			wantErr: string(neutron.Unavailable), wantRequests: []string{"GET networks", "patch networks/status"},
			wantEvents: []string{samplecrdv1.ReasonNeutronUnavailable}, wantReady: unavailable, wantNeutron: []string{inOrder},
			wantResolved: []string{inOrder},
		},
		{
			// Neutron has nothing only of a new Network. This one has had a router.
			name:         "another process created the network after the last list, and a user removed the finalizer: it is adopted",
			network:      world.NewNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) { n.Status.Router = &samplecrdv1.RouterStatus{ID: "gone"} }),
			given:        func(f *fixture) { f.CreateOwned(world.UID, "10.0.0.0/24") },
			wantRequests: []string{"patch networks", "GET networks", "GET subnets", "GET routers", "GET ports", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.EventAdopted}, wantReady: available, wantNeutron: []string{inOrder},
		},

		// Deletions.
		{
			// The network is read first: it may have lost its mark since the last list.
			name:         "being deleted: first in Neutron, then in Kubernetes",
			given:        edit(world.BeingDeleted),
			wantRequests: []string{"GET networks/ID", "get networks", "DELETE networks/ID", "GET networks", "patch networks"},
			wantEvents:   []string{samplecrdv1.EventDeleted},
		},
		{
			name:         "being deleted, and nothing was ever created: Neutron is asked all the same",
			network:      world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer, world.BeingDeleted),
			wantRequests: []string{"GET networks", "patch networks"},
			wantEvents:   []string{samplecrdv1.EventDeleted},
		},
		{
			name: "being deleted, and waits for another finalizer only: no request",
			network: world.NewNetwork("10.0.0.0/24", "", world.BeingDeleted, func(n *samplecrdv1.Network) {
				n.Finalizers = []string{"example.com/another"}
			}),
			wantReady: unchanged,
		},
		{
			name:    "being deleted, and Neutron fails: the finalizer stays",
			given:   edit(world.BeingDeleted),
			fault:   fails(http.MethodDelete, "", internalError),
			wantErr: string(neutron.Unavailable), wantRequests: []string{"GET networks/ID", "get networks", "DELETE networks/ID", "patch networks/status"},
			wantEvents: []string{samplecrdv1.ReasonNeutronUnavailable}, wantReady: unavailable, wantNeutron: []string{inOrder},
			check: keepsFinalizer, wantResolved: []string{},
		},
		{
			name:         "being deleted, but in use: the finalizer stays, and the message names the port",
			given:        inUse(world.BeingDeleted),
			wantErr:      string(neutron.InUse),
			wantRequests: []string{"GET networks/ID", "get networks", "DELETE networks/ID", "GET ports", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonInUse}, wantReady: isInUse, wantMessage: "web-0", wantNeutron: []string{inOrder},
			check: keepsFinalizer, resolve: func(f *fixture) { f.DeletePorts() }, wantResolved: []string{},
		},
		{
			name: "being deleted, and retained: the network stays without its mark",
			given: func(f *fixture) {
				f.Edit(func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain })
				f.mustSync()
				f.Edit(world.BeingDeleted)
			},
			wantRequests: []string{"get networks", "PUT subnets/ID", "get networks", "GET networks/ID", "PUT networks/ID", "GET networks", "patch networks"},
			wantEvents:   []string{samplecrdv1.EventDeleted}, wantNeutron: []string{inOrder},
			check: func(t *testing.T, f *fixture) {
				if marks := f.Descriptions(); !slices.Equal(marks, []string{"", ""}) {
					t.Errorf("the marks are still there: %q", marks)
				}
			},
		},
		{
			name:         "being deleted, but in use, and a reconcile is requested: it is handled",
			given:        func(f *fixture) { inUse(world.BeingDeleted)(f); f.Edit(world.ReconcileRequested) },
			wantErr:      string(neutron.InUse),
			wantRequests: []string{"GET networks", "GET subnets", "GET networks/ID", "get networks", "DELETE networks/ID", "GET ports", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonInUse}, wantReady: isInUse, wantNeutron: []string{inOrder},
			check: func(t *testing.T, f *fixture) {
				if got := f.Get().Status; got.LastHandledReconcileAt != "now" || got.SubnetID == "" {
					t.Errorf("status: %+v", got)
				}
			},
		},
		{
			// A user who wants to keep a network that is in use removes its mark.
			name: "being deleted, in use, and the network lost its mark: the ports are not waited for",
			given: func(f *fixture) {
				inUse(world.BeingDeleted)(f)
				f.mustFail(neutron.InUse)
				f.UnmarkNetwork(f.Get().Status.NetworkID)
				f.relist()
			},
			wantRequests: []string{"GET networks", "GET networks/ID", "GET subnets", "get networks", "patch networks"},
			wantEvents:   []string{samplecrdv1.EventDeleted}, wantNeutron: []string{inOrder},
		},

		// Paused Networks.
		{
			name:    "new and paused: nothing is created, and without a finalizer it can be deleted",
			network: world.NewNetwork("10.0.0.0/24", "", world.Paused),
			wantErr: string(neutron.Paused), wantRequests: []string{"GET networks", "patch networks/status"},
			wantEvents: []string{samplecrdv1.ReasonPaused}, wantReady: []string{samplecrdv1.ReasonPaused},
			check: func(t *testing.T, f *fixture) {
				if live.HasFinalizer(f.Get()) {
					t.Error("it has a finalizer, though there is nothing to finalize")
				}
			},
		},
		{
			name:         "paused, with an edit: nothing is changed, and the message names the next step",
			given:        edit(world.Paused, respec("10.0.0.0/24", "10.0.0.9")),
			wantErr:      string(neutron.Paused),
			wantRequests: []string{"patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonPaused}, wantReady: []string{samplecrdv1.ReasonPaused}, wantNeutron: []string{inOrder},
			wantMessage: "paused by the annotation samplecrd.k8s.io/paused: next step: gateway set to 10.0.0.9",
			resolve:     edit(world.Resumed), wantResolved: []string{"default/net-a 10.0.0.0/24 10.0.0.9"},
		},
		{
			name: "being deleted, and Neutron has nothing yet of what move gives it: the finalizer stays",
			network: world.NewNetwork("10.0.0.0/24", "", world.WithFinalizer, world.BeingDeleted, func(n *samplecrdv1.Network) {
				n.Annotations = map[string]string{samplecrdv1.AnnotationMovingFrom: "cluster/uid"}
			}),
			wantErr:      string(neutron.Paused),
			wantRequests: []string{"GET networks", "patch networks/status"},
			wantEvents:   []string{samplecrdv1.ReasonPaused}, wantReady: []string{samplecrdv1.ReasonPaused},
			wantMessage: "the move from cluster/uid is not finished: run samplecrd-controller move again: the deletion waits",
			check:       keepsFinalizer, resolve: edit(world.Resumed), wantResolved: []string{},
		},
		{
			// Without the finalizer, a deletion would leave an orphan.
			name:         "paused, and a user removed the finalizer: it is added again",
			given:        edit(world.Paused, func(n *samplecrdv1.Network) { n.Finalizers = nil }),
			wantRequests: []string{"patch networks"},
			wantReady:    available, wantNeutron: []string{inOrder},
			check: keepsFinalizer,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// row is a row of TestSyncHandler.
type row struct {
	name string
	// network is the Network before the sync; nil: one of 10.0.0.0/24 that is Available.
	network *samplecrdv1.Network
	// given is what happens then, before the sync.
	given func(*fixture)
	// cacheLacks is how many of the last changes the informer's cache does not have.
	cacheLacks int
	// fault makes requests to Neutron fail.
	fault func(*http.Request) *embedded.Fault

	wantErr      string // see reasonOf
	wantRequests []string
	wantEvents   []string
	// wantReady is the reason of Ready, and the types of the other conditions; nil: the
	// Network is gone.
	wantReady []string
	// wantMessage is a part of the message of Ready.
	wantMessage string
	wantNeutron []string
	check       func(*testing.T, *fixture)

	// resolve, and the end of the fault, let the next sync succeed. Neutron then has
	// wantResolved; nil: there is no next sync.
	resolve      func(*fixture)
	wantResolved []string
}

// unchanged, as wantReady, means that the sync does not write the status.
var unchanged = []string{}

func (tt row) run(t *testing.T) {
	var f *fixture
	if tt.network == nil {
		f = ready(t, "10.0.0.0/24", "")
	} else {
		f = newFixture(t, tt.network)
	}
	if tt.given != nil {
		tt.given(f)
	}
	f.Neutron.SetFault(tt.fault)
	f.TakeJournal()
	f.TakeEvents()
	before := f.Get().Status

	f.see(f.API.After(f.API.Changes() - tt.cacheLacks))
	err := f.syncHandler()
	f.Neutron.SetFault(nil)

	if got := reasonOf(err); got != tt.wantErr {
		t.Fatalf("got error %v of reason %q, want reason %q", err, got, tt.wantErr)
	}
	f.ExpectJournal(tt.wantRequests...)
	f.ExpectEvents(tt.wantEvents...)
	f.ExpectNeutron(tt.wantNeutron...)
	switch {
	case tt.wantReady == nil:
		if f.Find() != nil {
			t.Error("the Network is still there")
		}
	case len(tt.wantReady) == 0:
		if diff := gocmp.Diff(before, f.Get().Status); diff != "" {
			t.Errorf("the status was written (-before +after):\n%s", diff)
		}
	default:
		f.ExpectReady(tt.wantReady[0], tt.wantReady[1:]...)
		if got := f.message(); !strings.Contains(got, tt.wantMessage) {
			t.Errorf("got message %q, want %q in it", got, tt.wantMessage)
		}
	}
	if tt.check != nil {
		tt.check(t, f)
	}
	if err == nil {
		f.mustSync()
		f.ExpectJournal()
		f.ExpectEvents()
	}
	if tt.wantResolved != nil {
		if tt.resolve != nil {
			tt.resolve(f)
		}
		f.mustSync()
		f.ExpectNeutron(tt.wantResolved...)
		if f.Find() != nil {
			f.ExpectReady(samplecrdv1.ReasonAvailable)
		}
	}
}

func TestRelistMakesFewRequestsAndEnqueuesOnlyWhatChanged(t *testing.T) {
	const many, allowed = 500, 10
	networks := make([]*samplecrdv1.Network, many)
	for i := range networks {
		networks[i] = world.NewNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) {
			n.Name, n.UID = fmt.Sprintf("net-%d", i), types.UID(fmt.Sprintf("22222222-0000-0000-0000-%012d", i))
			n.Spec.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public"}}
		})
	}
	f := newFixture(t, networks...)
	syncAll := func() {
		t.Helper()
		f.refresh()
		for _, n := range networks {
			if err := f.controller.syncHandler(t.Context(), cache.MetaObjectToName(n)); err != nil && neutron.ReasonOf(err) != neutron.Unrecorded {
				t.Fatal(err)
			}
		}
	}
	syncAll()
	syncAll() // a router is created after the first write of the status
	f.refresh()
	all, err := f.cloud.Client().ListNetworks(t.Context())
	if err != nil || len(all) != many {
		t.Fatalf("%d networks in Neutron, error %v", len(all), err)
	}
	if n := len(f.Neutron.Routers()); n != many {
		t.Errorf("%d routers in Neutron, want %d", n, many)
	}
	f.relist() // its interfaces have been seen
	f.takeKeys()
	syncAll()
	f.TakeJournal()
	f.TakeEvents()

	f.relist()
	requests := f.TakeJournal()
	t.Logf("%d requests for %d Networks: %v", len(requests), many, requests)
	if len(requests) > allowed || slices.ContainsFunc(requests, func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
		t.Errorf("got %v, want at most %d lists and nothing else", requests, allowed)
	}
	if n := f.controller.queue.Len(); n != 0 {
		t.Errorf("%d keys in the queue, want none", n)
	}
	syncAll()
	f.ExpectJournal()

	changed := all[many/2]
	f.RenameSubnet(changed.Subnets[0].ID, "renamed")
	f.relist()
	if n := f.controller.queue.Len(); n != 1 {
		t.Fatalf("%d keys in the queue, want one", n)
	}
	if key, _ := f.controller.queue.Get(); key.String() != changed.Name {
		t.Errorf("got %s, want %s", key, changed.Name)
	}
}

// takeKeys removes all keys from the queue.
func (f *fixture) takeKeys() {
	for f.controller.queue.Len() > 0 {
		key, _ := f.controller.queue.Get()
		f.controller.queue.Done(key)
	}
}

// A subnet of another project on our network is visible to credentials with the role admin. It is
// reported once, whatever the network is read with.
func TestUnmanagedSubnetOfAnotherProjectIsReportedOnce(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
	config, err := neutron.ParseConfig("test-admin", f.Neutron.CloudsYAML("test"))
	must(t, err)
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
	f.cloud = neutron.NewCloud("test", client, world.Cluster, time.Hour)
	f.controller.clouds = f.newClouds()
	f.relist()
	f.mustSync()
	f.ExpectEvents(samplecrdv1.EventCreated)
	member, err := networks.Create(t.Context(), f.Client, networks.CreateOpts{Name: "the other project"}).Extract()
	must(t, err)
	unmanaged, err := subnets.Create(t.Context(), f.UserClient("test-admin"), subnets.CreateOpts{
		NetworkID: f.Get().Status.NetworkID, CIDR: "10.9.0.0/24", IPVersion: gophercloud.IPv4, ProjectID: member.ProjectID,
	}).Extract()
	must(t, err)
	relisted := func() { f.relist(); f.mustSync() }
	live := func() {
		f.Edit(func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: n.ResourceVersion}
		})
		f.mustSync()
	}
	events := []string{samplecrdv1.EventUnmanagedSubnet}
	for i, read := range []func(){relisted, live, relisted, live, relisted, relisted} {
		read()
		f.ExpectEvents(events...)
		events = nil
		if message := f.message(); !strings.Contains(message, unmanaged.ID) {
			t.Errorf("after read %d: message %q", i, message)
		}
	}
	must(t, subnets.Delete(t.Context(), f.UserClient("test-admin"), unmanaged.ID).ExtractErr())
	relisted()
	if message := f.message(); strings.Contains(message, unmanaged.ID) {
		t.Errorf("message %q, though it is gone", message)
	}
}

// This is what artifacts/deploy/README.md recommends for a cluster that gets another cluster ID.
func TestNetworksWhoseMarksAreRewrittenBelongToTheNewClusterID(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	n := f.Get()
	description := strings.Replace(neutron.Owner{Cluster: world.Cluster, UID: n.UID}.Mark(), world.Cluster, "new", 1)
	must(t, networks.Update(t.Context(), f.Client, n.Status.NetworkID, networks.UpdateOpts{Description: &description}).Err)
	must(t, subnets.Update(t.Context(), f.Client, n.Status.SubnetID, subnets.UpdateOpts{Description: &description}).Err)
	f.startAs("new")
	f.TakeWrites()
	f.relist()
	f.mustSync()
	f.ExpectEvents()
	if writes := f.TakeWrites(); len(writes) > 0 {
		t.Errorf("got the requests %q", writes)
	}
	if f.Get().Status.NetworkID != n.Status.NetworkID {
		t.Error("the network is another one")
	}
	f.Edit(world.BeingDeleted)
	f.mustSync()
	f.ExpectNeutron()
}

func TestSpecThatNeutronRefusesStallsTheNetworkUntilTheNextEdit(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/31", ""))
	f.mustFail(neutron.Invalid)
	f.ExpectReady(samplecrdv1.ReasonInvalidSpec, samplecrdv1.ConditionStalled)
	f.ExpectEvents(samplecrdv1.ReasonInvalidSpec)
	if message := f.message(); !strings.Contains(message, "prefix length that is incompatible with DHCP") {
		t.Errorf("message %q does not have Neutron's text", message)
	}
	f.TakeJournal()
	// Neutron is asked again once per resync. A read shows whether an earlier request took
	// effect after all. There is nothing new to report.
	f.mustFail(neutron.Invalid)
	f.ExpectJournal("POST subnets", "GET networks", "GET subnets")
	f.ExpectEvents()

	f.Edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.0.0/24" })
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
}

func TestAvailableStatusIsKeptUntilTheFirstList(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.cloud = f.NewCloud()
	f.controller.clouds = f.newClouds()
	f.Neutron.SetFault(noAnswer)
	if err := f.cloud.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the list succeeded")
	}
	f.mustFail(neutron.Unavailable)
	f.ExpectReady(samplecrdv1.ReasonAvailable)
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.mustFail(neutron.Unavailable)
	f.ExpectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
}

// The list of all networks fails, and single requests work. The deletion must not wait for a list.
func TestRequestedReconcileOfADeletionDoesNotNeedTheList(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.cloud = f.NewCloud()
	f.controller.clouds = f.newClouds()
	f.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/networks") && r.URL.Query().Get("description") == "" {
			return &embedded.Fault{Status: http.StatusGatewayTimeout}
		}
		return nil
	})
	if err := f.cloud.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the list succeeded")
	}
	f.Edit(func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
		world.BeingDeleted(n)
	})
	f.mustSync()
	if f.Find() != nil {
		t.Error("the Network still exists")
	}
}

func TestPausedNetworkIsNotAdopted(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.TakeEvents()
	f.Edit(func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
		n.Status = samplecrdv1.NetworkStatus{Conditions: []metav1.Condition{{Type: samplecrdv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: samplecrdv1.ReasonPending}}}
	})
	f.mustSync()
	f.ExpectEvents()
}

// A list that ends while a duplicate is being deleted is newer than what the sync observed.
func TestDriftThatIsListedDuringTheDeletionOfADuplicateIsRepaired(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	config, err := neutron.ParseConfig("test", f.Neutron.CloudsYAML("test"))
	must(t, err)
	f.cloud = neutron.NewCloud("test", neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second}), world.Cluster, time.Hour)
	f.controller.clouds = f.newClouds()
	f.CreateOwned(f.Get().UID)
	f.relist()
	done := false
	f.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodDelete && !done {
			done = true
			f.SetGateway(f.Get().Status.SubnetID, "10.0.0.77") // another client
			f.relist()
		}
		return nil
	})
	f.mustSync() // deletes the duplicate
	f.mustSync() // the handler has enqueued it for the drift
	if !done {
		t.Fatal("no duplicate was deleted")
	}
	f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

// Otherwise the sync would compare with the status before our last write, find nothing to
// write, and leave a status that is no longer true.
func TestSyncWaitsUntilTheCacheHasOurLastWrite(t *testing.T) {
	f := ready(t, "10.0.0.0/24", "")
	f.mustSync() // the cache has our last write
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	before := f.API.After(f.API.Changes())
	f.Neutron.SetFault(noAnswer)
	f.mustFail(neutron.Unavailable)
	f.Neutron.SetFault(nil)
	f.see(before)
	var stale *live.StaleCacheError
	if err := f.syncHandler(); !errors.As(err, &stale) {
		t.Fatalf("got %v, want that the cache is stale", err)
	}
	f.mustSync()
	f.ExpectReady(samplecrdv1.ReasonAvailable)
}

// readyAndEdited returns a Network whose edit is not synced yet, and the queue, which records what is called from now on.
func readyAndEdited(t *testing.T) (*fixture, *recordingQueue) {
	f := ready(t, "10.0.0.0/24", "")
	queue := &recordingQueue{TypedRateLimitingInterface: f.controller.queue}
	f.controller.queue = queue
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	return f, queue
}

// Another client, or a request of our own whose answer was lost, has written a status that the syncs since may not have seen.
func TestAStatusThatIsNotOurOwnWriteIsSynced(t *testing.T) {
	f, queue := readyAndEdited(t)
	handlers, edited := f.controller.handlers(klog.Logger{}), f.Get()
	f.mustSync()
	written := f.Get()
	handlers.OnUpdate(edited, written)
	if len(queue.calls) > 0 {
		t.Errorf("our own write: %q", queue.calls)
	}
	f.Edit(func(n *samplecrdv1.Network) { n.Status.Gateway = "10.0.0.8" })
	handlers.OnUpdate(written, f.Get())
	if diff := gocmp.Diff([]string{"AddAfter 1s"}, queue.calls); diff != "" {
		t.Errorf("another client's write (-want +got):\n%s", diff)
	}
}

// The watch shows another client's status before the answer to the controller's own write.
func TestAStatusThatOvertakesTheAnswerOfOurOwnWriteIsSynced(t *testing.T) {
	f, queue := readyAndEdited(t)
	handlers, edited := f.controller.handlers(klog.Logger{}), f.Get()
	f.failOnce(writesStatus, func(do func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := do()
		written := f.Get()
		handlers.OnUpdate(edited, written)
		f.Edit(func(n *samplecrdv1.Network) { n.Status.Gateway = "10.0.0.8" })
		handlers.OnUpdate(written, f.Get())
		return object, err
	})
	err := f.sync()
	if stale := (*live.StaleCacheError)(nil); !errors.As(err, &stale) || stale.RetryAfter != live.UnknownWriteDelay || len(queue.calls) > 0 {
		t.Errorf("got %v, and %q; want a sync in a second", err, queue.calls)
	}
	f.ExpectEvents(samplecrdv1.EventUpdated)
	f.mustSync()
	if gateway := f.Get().Status.Gateway; gateway != "10.0.0.9" {
		t.Errorf("the status has the gateway %s", gateway)
	}
	f.ExpectEvents()
}

func TestDeleteEventOfANetworkWithItsFinalizerLeavesNoOrphan(t *testing.T) {
	for _, test := range []struct {
		name    string
		gone    func(*samplecrdv1.Network) networkinformers.DeletedNetwork
		removed bool
	}{
		{"its finalizer was bypassed", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, true},
		{"it was finalized", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			world.BeingDeleted(n)
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, false},
		{"a user removed the finalizer", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			n.Finalizers = nil
			return networkinformers.DeletedNetwork{OptionalObj: n}
		}, false},
		{"a list no longer has it, which proves nothing", func(n *samplecrdv1.Network) networkinformers.DeletedNetwork {
			return networkinformers.DeletedNetwork{OptionalObj: n, FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: world.Key.String(), Obj: n}}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			gone := f.Get()
			f.API.Remove(world.Key.Namespace, world.Key.Name)
			f.controller.handlers(klog.Logger{}).DeleteFunc(test.gone(gone))
			f.mustSync()
			f.mustSyncVanished()
			if test.removed {
				f.ExpectNeutron()
			} else {
				f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			}
		})
	}
}

// syncUntil syncs each time the key is in the queue, until Ready has this reason.
func (f *fixture) syncUntil(reason string) {
	f.t.Helper()
	for {
		f.refresh()
		err := f.quietSync()
		if ready := status.Ready(&f.Get().Status); ready != nil && ready.Reason == reason {
			return
		}
		key, shutdown := f.controller.queue.Get()
		if shutdown || key != world.Key {
			f.t.Fatalf("the queue has %v, after the sync ended with %v", key, err)
		}
		f.controller.queue.Done(key)
	}
}

// ids matches the IDs of Neutron's objects.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// pausedSync syncs a paused Network, expects that nothing changes in Neutron, and returns the
// message of Ready, with ID for each ID; "" if the Network is gone.
func (f *fixture) pausedSync() string {
	f.t.Helper()
	f.TakeJournal()
	f.TakeEvents()
	err := f.sync()
	for _, request := range f.TakeWrites() {
		if request != "patch networks/status" && request != "patch networks" {
			f.t.Errorf("%s, though the Network is paused", request)
		}
	}
	if f.Find() == nil {
		if err != nil {
			f.t.Errorf("the Network is gone, but got %v", err)
		}
		f.ExpectEvents(samplecrdv1.EventDeleted)
		return ""
	}
	if neutron.ReasonOf(err) != neutron.Paused {
		f.t.Fatalf("got %v, want that the Network is paused", err)
	}
	f.ExpectReady(samplecrdv1.ReasonPaused)
	f.ExpectEvents(samplecrdv1.ReasonPaused)
	return ids.ReplaceAllString(f.message(), "ID")
}

// A deletion of a paused Network waits, unless Neutron has nothing of it: another client removed
// the marks, and so has taken the network over.
func TestPausedDeletion(t *testing.T) {
	const inOrder, waits = "default/net-a 10.0.0.0/24 10.0.0.1", "paused by the annotation samplecrd.k8s.io/paused: the deletion waits"
	unmark := func(f *fixture) {
		f.UnmarkSubnet(f.Get().Status.SubnetID)
		f.UnmarkNetwork(f.Get().Status.NetworkID)
	}
	for _, test := range []struct {
		name   string
		change func(*fixture)
		// want is the message of Ready; "": the Network is gone.
		want string
		// resumed is what Neutron has after the Network is gone.
		resumed []string
	}{
		{"marked", func(*fixture) {}, waits, nil},
		{"another client removed the marks", func(f *fixture) { unmark(f); f.relist() }, "", []string{inOrder}},
		{"another client removed the marks since the last list", unmark, waits, []string{inOrder}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ready(t, "10.0.0.0/24", "")
			f.Edit(world.Paused)
			f.Edit(world.BeingDeleted)
			test.change(f)
			before := f.InNeutron()
			if got := f.pausedSync(); got != test.want {
				t.Errorf("got message %q, want %q", got, test.want)
			}
			f.ExpectNeutron(before...)
			if n := f.Find(); n != nil {
				if !live.HasFinalizer(n) {
					t.Error("the finalizer is gone")
				}
				f.Edit(world.Resumed)
				if err := f.sync(); err != nil && neutron.ReasonOf(err) != neutron.Stale {
					t.Fatal(err)
				}
				f.mustSync()
			}
			f.ExpectNeutron(test.resumed...)
			if f.Find() != nil {
				t.Error("the Network is still there")
			}
		})
	}
}

func TestWhyToSync(t *testing.T) {
	tests := []struct {
		name   string
		before func(*samplecrdv1.Network)
		now    func(*samplecrdv1.Network)
		want   string
	}{
		{"a periodic resync", nil, nil, ""},
		{"our own status write", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Status.NetworkID = "id" }, ""},
		{"our own finalizer", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; world.WithFinalizer(n) }, ""},
		{"a label", nil, func(n *samplecrdv1.Network) { n.ResourceVersion = "2"; n.Labels = map[string]string{"a": "b"} }, ""},
		{"paused", nil, world.Paused, "paused or resumed"},
		{"a reconcile is requested", nil, world.ReconcileRequested, "reconcile requested"},
		{"a deletion, which changes the generation too", nil, world.BeingDeleted, "being deleted"},
		{"a deletion, by an API server that does not change the generation", nil, func(n *samplecrdv1.Network) { world.BeingDeleted(n); n.Generation = 1 }, "being deleted"},
		{"another client removed our finalizer", world.WithFinalizer, nil, "finalizer removed"},
		{"another client removed the status", func(n *samplecrdv1.Network) {
			n.Status.Conditions = []metav1.Condition{{Type: samplecrdv1.ConditionReady}}
		}, nil, "status removed"},
		{"a restore from a backup with an old status", func(n *samplecrdv1.Network) { n.ResourceVersion = "12"; n.Status.SubnetID = "id" },
			func(n *samplecrdv1.Network) { n.ResourceVersion = "9" }, "restored from a backup"},
		{"a deletion and a creation that the watch missed", nil, func(n *samplecrdv1.Network) { n.UID = "another" }, "created again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, now := world.NewNetwork("10.0.0.0/24", ""), world.NewNetwork("10.0.0.0/24", "")
			if tt.before != nil {
				tt.before(before)
			}
			if tt.now != nil {
				tt.now(now)
			}
			if got := whyToSync(before, now); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHandlersEnqueueTheChangesOfTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, cancel := context.WithCancel(ctx)
		kube := fake.NewClientset(world.NewNetwork("10.0.0.0/24", ""))
		factory := informers.NewSharedInformerFactory(kube, 0)
		cloud := neutron.NewCloud("none", neutron.NewClient(neutron.Config{}, neutron.ClientOptions{}), world.Cluster, time.Hour)
		controller, err := NewController(ctx, kube, factory.Samplecrd().V1().Networks(), newClouds(t, cloud, clouds.Options{}), record.NewFakeRecorder(10),
			ControllerOptions{Cluster: world.Cluster, Resync: time.Minute, Retry: testRetry})
		must(t, err)
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
				if key != world.Key {
					t.Errorf("%s: got %v, want %v", what, key, world.Key)
				}
				controller.queue.Done(key)
			}
		}
		expect("the first list", 1)

		networks := kube.SamplecrdV1().Networks(world.Key.Namespace)
		edited := world.NewNetwork("10.0.0.0/25", "")
		edited.Generation = 2
		_, err = networks.Update(ctx, edited, metav1.UpdateOptions{})
		must(t, err)
		expect("an edit", 1)

		written := edited.DeepCopy()
		written.Status.NetworkID = "id"
		_, err = networks.UpdateStatus(ctx, written, metav1.UpdateOptions{})
		must(t, err)
		expect("a write of the status by another client", 0)
		time.Sleep(live.UnknownWriteDelay)
		expect("a write of the status by another client, a second ago", 1)

		must(t, networks.Delete(ctx, world.Key.Name, metav1.DeleteOptions{}))
		expect("a deletion", 1)
	})
}

func TestTombstoneEnqueuesItsKey(t *testing.T) {
	f := newFixture(t)
	// An informer that missed the deletion has only the key.
	f.controller.handlers(klog.Logger{}).OnDelete(networkinformers.DeletedNetwork{
		FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: world.Key.String()},
	})
	if key, _ := f.controller.queue.Get(); key != world.Key {
		t.Errorf("got %v, want %v", key, world.Key)
	}
}

// queueOnly returns a controller of which only the queue and the workers are used.
func queueOnly(sync func(context.Context, cache.ObjectName) error) *Controller {
	own := neutron.NewCloud("none", neutron.NewClient(neutron.Config{}, neutron.ClientOptions{}), world.Cluster, time.Hour)
	c := &Controller{
		options:  ControllerOptions{Resync: 10 * time.Minute, Retry: testRetry},
		networks: listers.NewNetworkLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
		clouds:   clouds.New(context.Background(), own, clouds.Options{}),
		live:     live.NewNetworks(fake.NewClientset()),
		sync:     sync,
	}
	c.newQueue()
	return c
}

// work starts n workers. stop stops them, and waits for them.
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

func quiet(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

// recordingQueue records the calls of requeue.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	calls []string
	// inTurn is a delay that is recorded without its jitter.
	inTurn time.Duration
}

func (q *recordingQueue) Forget(key cache.ObjectName) {
	q.calls = append(q.calls, "Forget")
	q.TypedRateLimitingInterface.Forget(key)
}

func (q *recordingQueue) AddAfter(key cache.ObjectName, delay time.Duration) {
	call := fmt.Sprintf("AddAfter %s", delay)
	if delay > q.inTurn && delay <= q.inTurn*12/10 {
		call = fmt.Sprintf("AddAfter %s in turn", q.inTurn)
	}
	q.calls = append(q.calls, call)
	q.TypedRateLimitingInterface.AddAfter(key, delay)
}

func (q *recordingQueue) AddRateLimited(key cache.ObjectName) {
	q.calls = append(q.calls, "AddRateLimited")
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

func TestRequeue(t *testing.T) {
	reason := func(reason neutron.ErrorReason) error { return &neutron.Error{Op: "test", Reason: reason} }
	wrapped := func(err error) error { return fmt.Errorf("read the Network: %w", err) }
	conflict := apierrors.NewConflict(samplecrdv1.Resource("networks"), world.Key.Name, errors.New("it has changed"))
	stale := &live.StaleCacheError{RetryAfter: 20 * time.Millisecond}
	perResync := []string{"Forget", "AddAfter 10m0s"}
	byHand := []string{"Forget", "AddAfter 1m0s in turn"}
	backOff := []string{"AddRateLimited"}
	tests := []struct {
		name string
		err  error
		want []string
		// isError: it is logged as an error.
		isError bool
	}{
		{"no error", nil, []string{"Forget"}, false},
		// The cache is rarely that far behind; it is no failure that counts for the back-off.
		{"the cache is stale", wrapped(stale), []string{"AddAfter 20ms"}, false},
		// A handler enqueues the key.
		{"the Network is gone", live.ErrGone, nil, false},
		{"the cloud of a Secret is not ready", wrapped(clouds.ErrNotReady), nil, false},
		{"a conflict", wrapped(conflict), backOff, false},
		{"another error of Kubernetes", apierrors.NewInternalError(errors.New("etcd is not available")), backOff, true},
		{"any other error", errors.New("unknown"), backOff, true},

		{"Invalid", reason(neutron.Invalid), perResync, false},
		{"OverQuota", reason(neutron.OverQuota), byHand, false},
		// It makes a request only if the credentials were not refused just before, or cannot see the ports.
		{"Unauthenticated", reason(neutron.Unauthenticated), []string{"Forget", "AddAfter 1m0s"}, false},
		{"InUse", reason(neutron.InUse), []string{"Forget", "AddAfter 1m0s"}, false},
		{"a name that Neutron is asked for once more", &neutron.Error{Reason: neutron.Unresolved, RetryAfter: 2 * time.Second}, []string{"Forget", "AddAfter 2s"}, false},
		{"the first of two steps is done", reason(neutron.Unrecorded), []string{"Forget", "AddAfter 1ms"}, false},
		{"Unavailable", reason(neutron.Unavailable), backOff, false},
		{"NotFound", reason(neutron.NotFound), backOff, false},
		{"Unavailable, and Neutron asks for a delay", &neutron.Error{Reason: neutron.Unavailable, RetryAfter: 7 * time.Second}, []string{"Forget", "AddAfter 7s in turn"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := queueOnly(nil)
			defer c.queue.ShutDown()
			queue := &recordingQueue{TypedRateLimitingInterface: c.queue}
			c.queue = queue
			if last := len(tt.want) - 1; last >= 0 && strings.HasSuffix(tt.want[last], " in turn") {
				queue.inTurn, _ = time.ParseDuration(strings.Fields(tt.want[last])[1])
			}
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			c.requeue(klog.NewContext(t.Context(), logger), world.Key, tt.err)
			if diff := gocmp.Diff(tt.want, queue.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			isError := slices.ContainsFunc(logger.GetSink().(ktesting.Underlier).GetBuffer().Data(), func(entry ktesting.LogEntry) bool {
				return entry.Type == ktesting.LogError
			})
			if isError != tt.isError {
				t.Errorf("logged as an error: %v, want %v", isError, tt.isError)
			}
		})
	}
}

func TestKeyAddedManyTimesIsSyncedOnce(t *testing.T) {
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

func TestKeyIsSyncedByOneWorkerAtATime(t *testing.T) {
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
			c.queue.Add(key("a")) // while it is being synced: it is synced once more
		}
		time.Sleep(10 * time.Second)
		stop()
		if most != 1 || syncs != 2 {
			t.Errorf("at most %d at a time, %d in all; want 1 and 2", most, syncs)
		}
	})
}

func TestDifferentKeysAreSyncedConcurrently(t *testing.T) {
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
			t.Errorf("8 workers took %s for 8 syncs of a second each", took)
		}
	})
}

func TestShutdownFinishesTheSyncsInFlightAndStartsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished []string
		c := queueOnly(func(ctx context.Context, key cache.ObjectName) error {
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Error("the sync's context was cancelled")
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

func TestPanicIsAnErrorOfOneKey(t *testing.T) {
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
		// The panic is logged as an error: discard the log.
		stop := work(klog.NewContext(t.Context(), klog.Logger{}), c, 1)
		time.Sleep(1300 * time.Millisecond)
		stop()
		if diff := gocmp.Diff(map[string]int{"poison": 2, "other": 1}, synced); diff != "" {
			t.Error(diff)
		}
	})
}

// The generated fake clientset needs the schema of our types for every write.
func TestFakeClientsetAcceptsEveryKindOfWrite(t *testing.T) {
	ctx := t.Context()
	client := fake.NewClientset().SamplecrdV1().Networks("default")
	if _, err := client.Create(ctx, world.NewNetwork("10.0.0.0/24", ""), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := client.Update(ctx, world.NewNetwork("10.0.0.0/25", ""), metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update: %v", err)
	}
	computed := status.Compute(world.NewNetwork("10.0.0.0/25", ""), status.Outcome{CloudState: status.CloudState{Cloud: "test"}})
	patch, err := status.Patch(world.NewNetwork("", ""), &computed)
	must(t, err)
	if _, err := client.Patch(ctx, world.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "test"}, "status"); err != nil {
		t.Fatalf("patch the status: %v", err)
	}
	applied := samplecrdv1ac.Network(world.Key.Name, world.Key.Namespace).WithStatus(samplecrdv1ac.NetworkStatus().WithRegion("applied"))
	if _, err := client.ApplyStatus(ctx, applied, metav1.ApplyOptions{FieldManager: "another", Force: true}); err != nil {
		t.Fatalf("apply the status: %v", err)
	}
	got, err := client.Get(ctx, world.Key.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if got.Spec.CIDR != "10.0.0.0/25" || got.Status.Cloud != "test" || got.Status.Region != "applied" || len(got.Status.Conditions) != 1 {
		t.Errorf("got %+v", got)
	}
}

// BenchmarkSyncInOrder measures a sync that finds nothing to do, from the queue and back, with the
// default verbosity.
func BenchmarkSyncInOrder(b *testing.B) {
	f := newFixture(b, world.NewNetwork("10.0.0.0/24", ""))
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.refresh()
	ctx := klog.NewContext(b.Context(), klog.Background())
	f.TakeJournal()
	b.ReportAllocs()
	for b.Loop() {
		f.controller.queue.Add(world.Key)
		f.controller.processNextWorkItem(ctx)
	}
	if requests := f.TakeJournal(); len(requests) > 0 {
		b.Errorf("it was not in order, and made the requests: %q", requests)
	}
}

// earlyInformer calls a function before it adds indexers.
type earlyInformer struct {
	networkinformers.TypedNetworkInformer
	before func()
}

func (i earlyInformer) TypedInformer() networkinformers.NetworkIndexInformer {
	return earlyIndexInformer{i.TypedNetworkInformer.TypedInformer(), i.before}
}

type earlyIndexInformer struct {
	networkinformers.NetworkIndexInformer
	before func()
}

func (i earlyIndexInformer) AddTypedIndexers(indexers networkinformers.NetworkIndexers) error {
	i.before()
	return i.NetworkIndexInformer.AddTypedIndexers(indexers)
}

// The clouds of ClusterClouds, and their Secrets, are read as soon as their handlers are
// registered.
func TestNoHandlerIsCalledBeforeTheIndexesExist(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
	f.CreateOwned(f.Get().UID, "10.0.0.0/24")
	cloud := neutron.NewCloud("test", f.NewCloud().Client(), world.Cluster, time.Hour)
	informer := informers.NewSharedInformerFactory(f.Kube, 0).Samplecrd().V1().Networks()
	early := earlyInformer{informer, func() {
		if err := cloud.Observer().Relist(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	controller, err := NewController(t.Context(), f.Kube, early, newClouds(t, cloud, clouds.Options{Client: f.Secrets}), f.Events, ControllerOptions{Cluster: world.Cluster})
	must(t, err)
	controller.queue.ShutDown()
}
