// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

var testKey = cache.NewObjectName("default", "web")

// fixture is a controller with fake clients. Its informers are not started: a test fills the
// caches, so that it can let them be out of date.
type fixture struct {
	t          *testing.T
	kube       *kubefake.Clientset
	client     *fake.Clientset
	api        *apiserver.Server
	controller *Controller
	options    Options

	deploymentCache, networkCache cache.Indexer
	events                        *record.FakeRecorder
	// around replaces the answer of a request. nil means that all requests are done.
	around func(request string, do func() (runtime.Object, error)) (runtime.Object, error)
	// journal has the requests in their order.
	journal []string
	uids    int
}

func newFixture(t *testing.T, pool string, bits int) *fixture {
	t.Helper()
	f := &fixture{t: t, kube: kubefake.NewClientset(), client: fake.NewClientset(), events: record.NewFakeRecorder(10000)}
	f.events.IncludeObject = true
	f.options = Options{CIDRPrefixLength: bits, Retry: retry.Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1000, Burst: 1000}}
	if pool != "" {
		f.options.CIDRPool = netip.MustParsePrefix(pool)
	}
	f.api = apiserver.Install(f.client)
	f.api.Around(f.react)
	f.kube.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.journal = append(f.journal, "get deployments")
		return false, nil, nil
	})
	f.start()
	return f
}

// newDeployed returns a fixture in which the Deployment of testKey has the Network 10.1.0.0/24.
func newDeployed(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, "", 0)
	f.deployedAs("10.1.0.0/24")
	return f
}

// start creates a controller without state, as a new process has it.
func (f *fixture) start() {
	f.t.Helper()
	deployments := kubeinformers.NewSharedInformerFactory(f.kube, 0).Apps().V1().Deployments()
	networks := informers.NewSharedInformerFactory(f.client, 0).Samplecrd().V1().Networks()
	controller, err := NewController(f.kube, f.client, deployments, networks, f.events, f.options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(controller.queue.ShutDown)
	f.controller, f.deploymentCache, f.networkCache = controller, deployments.Informer().GetIndexer(), networks.Informer().GetIndexer()
	f.refresh()
}

// react records a request for Networks, and lets around decide what becomes of it.
func (f *fixture) react(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
	request := r.Verb + " networks"
	f.journal = append(f.journal, request)
	if f.around != nil {
		return f.around(request, do)
	}
	return do()
}

// deploy creates a Deployment. It leaves out an annotation with the value "-".
func (f *fixture) deploy(name, cidr, gateway string) *appsv1.Deployment {
	f.t.Helper()
	f.uids++
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: testKey.Namespace, Name: name, UID: types.UID("uid-" + strconv.Itoa(f.uids)), Annotations: annotations(cidr, gateway),
	}}
	f.must(f.kube.Tracker().Add(d))
	return d
}

func annotations(cidr, gateway string) map[string]string {
	all := map[string]string{samplecrdv1.AnnotationNetworkCIDR: cidr, samplecrdv1.AnnotationNetworkGateway: gateway}
	for name, value := range all {
		if value == "-" {
			delete(all, name)
		}
	}
	return all
}

// editDeployment changes the Deployment as another client.
func (f *fixture) editDeployment(name string, change func(*appsv1.Deployment)) {
	f.t.Helper()
	object, err := f.kube.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), testKey.Namespace, name)
	f.must(err)
	d := object.(*appsv1.Deployment).DeepCopy()
	change(d)
	f.must(f.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), d, testKey.Namespace))
}

func (f *fixture) annotate(cidr, gateway string) {
	f.t.Helper()
	f.editDeployment(testKey.Name, func(d *appsv1.Deployment) { d.Annotations = annotations(cidr, gateway) })
}

func (f *fixture) undeploy(name string) {
	f.t.Helper()
	f.must(f.kube.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource("deployments"), testKey.Namespace, name))
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// refresh updates both caches.
func (f *fixture) refresh() {
	f.t.Helper()
	f.refreshDeployments()
	f.refreshNetworks(f.api.Changes())
}

func (f *fixture) refreshDeployments() {
	f.t.Helper()
	object, err := f.kube.Tracker().List(appsv1.SchemeGroupVersion.WithResource("deployments"), deploymentKind, "")
	f.must(err)
	var items []any
	for _, d := range object.(*appsv1.DeploymentList).Items {
		trimmed, err := Trim(&d)
		f.must(err)
		items = append(items, trimmed)
	}
	f.must(f.deploymentCache.Replace(items, ""))
}

// refreshNetworks fills the cache with the Networks as they were after the given number of
// changes, and releases reservations as the handlers do.
func (f *fixture) refreshNetworks(changes int) {
	f.t.Helper()
	var items []any
	for _, n := range f.api.After(changes) {
		items = append(items, n)
	}
	f.must(f.networkCache.Replace(items, strconv.Itoa(changes)))
	for _, item := range items {
		f.controller.allocator.releaseIfCached(item.(*samplecrdv1.Network))
	}
}

// sync syncs the Deployment with the current caches.
func (f *fixture) sync(name string) error {
	f.t.Helper()
	_, ctx := ktesting.NewTestContext(f.t)
	return retry.Recover(ctx, cache.NewObjectName(testKey.Namespace, name), f.controller.sync)
}

// mustSync updates the caches and syncs the Deployment of testKey.
func (f *fixture) mustSync() {
	f.t.Helper()
	f.refresh()
	f.must(f.sync(testKey.Name))
}

func (f *fixture) find(name string) *samplecrdv1.Network {
	for _, n := range f.api.After(f.api.Changes()) {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (f *fixture) get(name string) *samplecrdv1.Network {
	f.t.Helper()
	n := f.find(name)
	if n == nil {
		f.t.Fatalf("there is no Network %s", name)
	}
	return n
}

// edit changes the Network as another client.
func (f *fixture) edit(change func(*samplecrdv1.Network)) {
	f.t.Helper()
	n := f.get(testKey.Name)
	spec := n.Spec.DeepCopy()
	change(n)
	if !equality.Semantic.DeepEqual(&n.Spec, spec) {
		n.Generation++
	}
	f.api.Put(n)
}

// stray creates a Network as another client.
func (f *fixture) stray(name, cidr string, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: name}, Spec: samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}}}
	for _, change := range changes {
		change(n)
	}
	return f.api.Put(n)
}

func labelled(n *samplecrdv1.Network) {
	n.Labels = map[string]string{samplecrdv1.LabelDeployment: labelValue(n.Name)}
}

func (f *fixture) takeJournal() []string {
	taken := f.journal
	f.journal = nil
	return taken
}

func (f *fixture) expectJournal(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.takeJournal()); diff != "" {
		f.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// nextEvent returns the text of the next event, or "".
func (f *fixture) nextEvent() string {
	f.t.Helper()
	select {
	case text := <-f.events.Events:
		if !strings.HasSuffix(text, "involvedObject{kind=Deployment,apiVersion=apps/v1}") {
			f.t.Errorf("not on a Deployment: %s", text)
		}
		return text
	default:
		return ""
	}
}

// takeEvents returns the reasons of the events since the last call.
func (f *fixture) takeEvents() (reasons []string) {
	f.t.Helper()
	for text := f.nextEvent(); text != ""; text = f.nextEvent() {
		reasons = append(reasons, strings.Fields(text)[1])
	}
	return reasons
}

func (f *fixture) expectEvents(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.takeEvents()); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// expectSpec checks the Network of testKey.
func (f *fixture) expectSpec(cidr, gateway string) {
	f.t.Helper()
	if diff := gocmp.Diff(samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway}}, f.get(testKey.Name).Spec); diff != "" {
		f.t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// queued empties the queue and returns the names that were in it.
func (f *fixture) queued() []string {
	var names []string
	for f.controller.queue.Len() > 0 {
		key, _ := f.controller.queue.Get()
		f.controller.queue.Done(key)
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) expectQueued(want ...string) {
	f.t.Helper()
	if diff := gocmp.Diff(want, f.queued()); diff != "" {
		f.t.Errorf("in the queue (-want +got):\n%s", diff)
	}
}

// fail answers these requests with the error and does not do them.
func (f *fixture) fail(request string, err error) {
	f.around = func(r string, do func() (runtime.Object, error)) (runtime.Object, error) {
		if r == request {
			return nil, err
		}
		return do()
	}
}

// lose does these requests and loses the answers.
func (f *fixture) lose(request string) {
	f.around = func(r string, do func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := do()
		if r == request {
			return nil, errLost
		}
		return object, err
	}
}

var errLost = errors.New("connection lost")

var quiet = klog.Logger{}
