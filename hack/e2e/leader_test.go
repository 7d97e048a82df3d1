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

package e2e

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// leaseName is the name of the replicas' Lease.
const leaseName = "samplecrd-controller"

// What replicas log about the election.
const (
	standsBy = "Attempting to acquire leader lease"
	leads    = "Successfully acquired lease"
)

// elect starts a replica whose Lease is in the test's namespace. It returns when the
// replica's caches are synced, and it tries to acquire the Lease.
func (w *world) elect(flags ...string) *stack.Controller {
	w.Helper()
	c := w.launch(append(flags, "-leader-elect=true", "-leader-elect-resource-namespace="+w.namespace)...)
	w.waitForLog(c, standsBy)
	return c
}

// lead is elect, and waits until the replica leads and its workers run.
func (w *world) lead(flags ...string) *stack.Controller {
	w.Helper()
	c := w.elect(flags...)
	w.waitUntilAtWork(c)
	return c
}

// watchLease returns each change of the Lease from now on, with the time when it was seen.
func (w *world) watchLease() <-chan leaseSeen {
	w.Helper()
	watch, err := w.kube.CoordinationV1().Leases(w.namespace).Watch(w.Context(), metav1.ListOptions{})
	w.must(err)
	w.Cleanup(watch.Stop)
	seen := make(chan leaseSeen, 10_000)
	go func() {
		for event := range watch.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				seen <- leaseSeen{lease, time.Now()}
			}
		}
	}()
	return seen
}

type leaseSeen struct {
	*coordinationv1.Lease
	at time.Time
}

func (l *leaseSeen) holder() string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// becomes waits until is reports true for the holder of the Lease.
func (w *world) becomes(what string, seen <-chan leaseSeen, is func(holder string) bool) leaseSeen {
	w.Helper()
	deadline := time.After(patience)
	for {
		select {
		case lease := <-seen:
			if is(lease.holder()) {
				return lease
			}
		case <-deadline:
			w.Fatalf("the Lease was not %s", what)
		}
	}
}

// holder returns the identity of the replica that holds the Lease.
func (w *world) holder() string {
	w.Helper()
	lease, err := w.kube.CoordinationV1().Leases(w.namespace).Get(w.Context(), leaseName, metav1.GetOptions{})
	w.must(err)
	return (&leaseSeen{Lease: lease}).holder()
}

// writes returns the requests that change something, except those of leader election.
func writes(all counts) counts {
	found := counts{}
	for request, n := range all {
		verb, resource, _ := strings.Cut(request, " ")
		if verb != "get" && verb != "list" && verb != "watch" && resource != "leases" {
			found[request] = n
		}
	}
	return found
}

// waitForAnswer waits for an answer with that code and with text in its body.
func (s *site) waitForAnswer(path string, code int, text string) {
	s.Helper()
	s.eventually(func() error {
		got, body, err := s.try("GET", path, "")
		if err == nil && (got != code || !strings.Contains(body, text)) {
			err = fmt.Errorf("GET %s: %d, %s", path, got, body)
		}
		return err
	})
}

func TestOneReplicaLeadsAndTheOtherStandsBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.lead(serve, "-resync=1h")
	w.waitForLog(first, deploymentWorkers)
	w.calls.take()
	kubernetes := w.throughProxy()
	second := w.elect(serve, "-resync=1h")
	leader, follower := w.siteOf(first, "http"), w.siteOf(second, "http")
	ready := "[+]networks ok\n[+]deployments ok\n[+]running ok\n"
	leader.waitForAnswer("/readyz", http.StatusOK, ready)
	follower.waitForAnswer("/readyz", http.StatusOK, ready)
	w.equal(follower.ask("GET", "/healthz", "", http.StatusOK), "ok\n")
	status := "\nleader_election_master_status{name=\"" + leaseName + "\"} "
	w.contains(leader.ask("GET", "/metrics", "", http.StatusOK), status+"1\n")
	w.contains(follower.ask("GET", "/metrics", "", http.StatusOK), status+"0\n")

	w.create("net", "10.1.0.0/16", "10.1.0.1")
	w.create("net", "10.1.0.0/16", "10.1.0.2")
	followerSaw := kubernetes.peek()
	delete(followerSaw, "get leases") // any number of them
	want := counts{"get namespaces": 1, "list networks": 1, "watch networks": 1, "watch deployments": 1}
	if diff := cmp.Diff(want, followerSaw); diff != "" {
		t.Errorf("the follower's requests to Kubernetes (-want +got):\n%s", diff)
	}
	want = counts{"POST networks": 1, "POST subnets": 1, "PUT subnets/*": 1}
	if diff := cmp.Diff(want, w.calls.take()); diff != "" {
		t.Errorf("the requests of both to Neutron are not the leader's alone (-want +got):\n%s", diff)
	}

	holder := w.holder()
	w.contains(w.kubectl("get", "lease", leaseName), "HOLDER", holder)
	w.eventually(func() error {
		if said := w.kubectl("describe", "lease", leaseName); !strings.Contains(said, holder+" became leader") {
			return fmt.Errorf("kubectl describe does not name the leader %s:\n%s", holder, said)
		}
		return nil
	})
	w.must(second.Stop())
	w.equal(w.holder(), holder)
	if second.Log.Count(leads)+second.Log.Count("Starting workers") != 0 {
		t.Error("the follower was leading")
	}
}

// It is part of TestWholeCluster: a controller looks for orphans only if it sees all namespaces.
func orphansAreServedByTheLeaderOnly(t *testing.T) {
	w := newWorld(t)
	reader := w.mayListAll("reader")
	leader, follower := w.siteOf(w.lead(everywhere), "http"), w.siteOf(w.elect(everywhere), "http")
	leader.ask("GET", "/orphans", reader, http.StatusOK)
	w.contains(follower.ask("GET", "/orphans", reader, http.StatusServiceUnavailable), "does not lead", w.holder())
	follower.ask("GET", "/orphans", "", http.StatusUnauthorized)
}

func TestLeaseIsReleasedAfterTheDrainAndAcquiredAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.lead()
	before := w.holder()
	second := w.elect()
	seen := w.watchLease()

	came, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.harm(func(r *http.Request) *embedded.Fault {
		if neutronRequest(r) == "POST subnets" {
			once.Do(func() { close(came) })
			<-answer
		}
		return nil
	})
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the request", came)
	w.must(first.Signal(syscall.SIGTERM))
	w.waitForLog(first, "Shutting down workers")
	for range 5 {
		w.becomes("renewed while Neutron takes its time", seen, func(holder string) bool { return holder == before })
	}
	close(answer)
	given := w.becomes("given up", seen, func(holder string) bool { return holder == "" })
	taken := w.becomes("taken over", seen, func(holder string) bool { return holder != "" })
	w.exitsAtOnce(first, 0)
	w.waitUntilAtWork(second)
	atWork := time.Now()

	network := w.waitReady("net")
	if order, err := resourceversion.CompareResourceVersion(network.ResourceVersion, given.ResourceVersion); err != nil || order >= 0 {
		t.Errorf("the status was written (%s) after the Lease was released (%s): %v", network.ResourceVersion, given.ResourceVersion, err)
	}
	if taken.holder() == before {
		t.Error("the replica that released the Lease acquired it again")
	}
	t.Logf("the Lease was acquired within %s of its release; the workers ran after %s", taken.at.Sub(given.at), atWork.Sub(given.at))
	if took := taken.at.Sub(given.at); took >= defaultLease {
		t.Errorf("the Lease was acquired only after %s, when it had expired", took)
	}
	w.matches("net", "10.1.0.0/16", "10.1.0.1")
	w.must(second.Stop())
	calls := w.calls.take()
	if calls["POST networks"] != 1 || calls["POST subnets"] != 1 {
		t.Errorf("requests to Neutron: %v", calls)
	}
}

// shortLease is for tests that wait until a Lease expires.
const shortLease = "-leader-elect-lease-duration=3s -leader-elect-renew-deadline=2s -leader-elect-retry-period=200ms"

func TestSuspendedLeaderDoesNothingAfterAnotherLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.lead(shortLease, "-resync=1h")
	second := w.elect(shortLease, "-resync=1h")
	// Neutron's answer is ready to be read when the process continues. Without the fence, it
	// would create the subnet then.
	came := w.harmOnce("POST networks", embedded.Fault{After: true, Delay: time.Second})
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the request", came)
	w.must(first.Signal(syscall.SIGSTOP))
	w.waitUntilAtWork(second)
	w.waitReady("net")
	made := w.matches("net", "10.1.0.0/16", "10.1.0.1")
	w.waitForEvent("net", samplecrdv1.EventAdopted, made.ID)
	w.calls.take()

	resumed := time.Now()
	w.must(first.Signal(syscall.SIGCONT))
	w.exitsAtOnce(first, 1)
	t.Logf("the process ended %s after it was continued", time.Since(resumed))
	w.contains(first.Log.String(), "samplecrd-controller: the lease is lost")
	if calls := w.calls.take(); len(calls) > 0 {
		t.Errorf("the process sent requests to Neutron: %v", calls)
	}
	w.equal(w.matches("net", "10.1.0.0/16", "10.1.0.1").ID, made.ID)
}

// throughWire makes the controllers that are started from now on reach Kubernetes through a
// proxy that answers nothing while the returned value is true.
func (w *world) throughWire() *atomic.Bool {
	w.Helper()
	through, err := url.Parse(newProxy(w.T, w.adminConfig).url)
	w.must(err)
	var cut atomic.Bool
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(through) }, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0)}
	wire := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // net/http notices a disconnected client only after this
			<-r.Context().Done()
			return
		}
		forward.ServeHTTP(rw, r)
	}))
	w.Cleanup(wire.Close)
	w.reach = "-master=" + wire.URL
	return &cut
}

func TestLeaderWithoutKubernetesEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expected = failedToSync
	second := *w
	isCut := w.throughWire()
	first := w.lead(shortLease, "-resync=1h")
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	next := second.elect(shortLease, "-resync=1h")
	isCut.Store(true)
	cut := time.Now()
	w.exitsAtOnce(first, 1)
	t.Logf("the process ended after %s", time.Since(cut))
	w.contains(first.Log.String(), "samplecrd-controller: the lease is lost")
	w.waitUntilAtWork(next)
	t.Logf("the workers of the other replica ran after %s", time.Since(cut))
	w.create("net", "10.1.0.0/16", "10.1.0.2")
	w.matches("net", "10.1.0.0/16", "10.1.0.2")
}

func TestAReplicaThatCanNeverLeadSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.serviceAccount()
	w.grant()
	p := newProxy(t, config)
	fails := func(namespace, reason string) {
		t.Helper()
		said, code := w.run(w.neutron.Env(), "-master="+p.url, "-namespace="+w.namespace, "-leader-elect=true", "-leader-elect-resource-namespace="+namespace)
		if code != 1 {
			t.Errorf("exit code %d", code)
		}
		w.contains(said, "samplecrd-controller: leader election: ", reason, "-leader-elect=false")
	}
	fails(w.namespace, `cannot get resource "leases"`)
	w.mayUseLeases("get")
	fails(w.namespace, `cannot create resource "leases"`)
	w.kubectl("create", "-f", w.file("lease.json", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"`+leaseName+`"}}`))
	fails(w.namespace, `cannot update resource "leases"`)
	if made := writes(p.take()); len(made) > 0 {
		t.Errorf("the replica wrote to Kubernetes: %v", made)
	}
	p = newProxy(t, w.adminConfig)
	fails("no-such-namespace", `namespaces "no-such-namespace" not found`)
}

// mayUseLeases grants the controller's account a right to Leases.
func (w *world) mayUseLeases(verb string) {
	w.Helper()
	w.kubectl("create", "role", "leases", "--verb="+verb, "--resource=leases.coordination.k8s.io")
	w.kubectl("create", "rolebinding", "leases", "--role=leases", "--serviceaccount="+w.namespace+":controller")
	w.may("controller", verb, "leases.coordination.k8s.io")
}

// It is the first part of TestWholeCluster, whose control plane has no CRD at first.
func readinessWaitsForTheCRD(t *testing.T) {
	w := newWorld(t)
	c := w.launch(serve, "-leader-elect=true", "-leader-elect-resource-namespace="+w.namespace)
	s := w.siteOf(c, "http")
	s.waitForAnswer("/readyz", http.StatusServiceUnavailable, "[-]networks: the CustomResourceDefinition does not exist; create it with kubectl apply -f artifacts/crd\n")
	s.ask("GET", "/healthz", "", http.StatusOK)
	s.ask("GET", "/metrics", "", http.StatusOK)
	w.must(w.applyCRD(crdOfToday))
	s.waitForAnswer("/readyz", http.StatusOK, "[+]networks ok")
	w.waitUntilAtWork(c)
}
