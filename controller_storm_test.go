// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/pipes"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// A controller with all of its parts (informer, queue, workers, circuit, Observer) in virtual time, and
// what it costs both sides when some Networks fail for ever.

const (
	stormPeriod  = 5 * time.Minute
	stormMembers = 120
	stormFailing = 20
)

// storm counts what the controller does. The Networks with "bad" in their names fail.
type storm struct {
	t       *testing.T
	kube    *fake.Clientset
	api     *apiserver.Server
	neutron *embedded.Server
	events  *record.FakeRecorder
	cloud   *neutron.Cloud
	stop    func()

	relists  atomic.Int64 // lists of all networks
	lookups  atomic.Int64 // other reads of Neutron
	changes  atomic.Int64 // requests that would change something in Neutron
	statuses sync.Map     // by the name of the Network: the number of writes of its status
}

// startStorm starts a controller with these Networks in a bubble of synctest.
func startStorm(t *testing.T, fault func(*http.Request) *embedded.Fault, networks ...*samplecrdv1.Network) *storm {
	t.Helper()
	public := embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}
	s := &storm{t: t, neutron: embedded.StartOn(pipes.Listen(pipes.NewHost()), embedded.Options{ExternalNetwork: public}), events: record.NewFakeRecorder(100_000)}
	s.neutron.SetFault(fault)
	s.neutron.Observe(s.count)
	s.kube = fake.NewClientset()
	s.api = apiserver.Install(s.kube)
	s.watch()
	for _, n := range networks {
		s.api.Put(n)
	}
	config, err := neutron.ParseConfig("test", s.neutron.CloudsYAML("test"))
	must(t, err)
	// The defaults of the flags.
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 30 * time.Second, Connections: 8})
	s.cloud = neutron.NewCloud("test", client, world.Cluster, stormPeriod)
	factory := informers.NewSharedInformerFactory(s.kube, 0)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	all := clouds.New(ctx, s.cloud, clouds.Options{})
	controller, err := NewController(ctx, s.kube, factory.Samplecrd().V1().Networks(), all, s.events, ControllerOptions{
		Cluster: world.Cluster, Resync: stormPeriod, Limits: fair.Limits{PerCloud: 16, Total: 24},
		Retry: retry.Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 10, Burst: 100},
	})
	must(t, err)
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx, 32) })
	s.stop = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
		client.Close()
		_ = s.neutron.Close()
	}
	return s
}

// count counts a request to Neutron.
func (s *storm) count(r embedded.Request) {
	switch {
	case r.Service != "network" || !strings.HasPrefix(r.Path, "v2.0/"):
	case r.Method != http.MethodGet:
		s.changes.Add(1)
	case r.Path == "v2.0/networks" && !r.Query.Has("description") && !r.Query.Has("marker"):
		s.relists.Add(1)
	default:
		s.lookups.Add(1)
	}
}

// watch serves the informer's watch, which apiserver lacks, and counts the writes of each status.
func (s *storm) watch() {
	watcher := watch.NewFakeWithChanSize(100_000, false)
	s.kube.PrependWatchReactor("networks", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watcher, nil })
	s.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := do()
		if n, ok := object.(*samplecrdv1.Network); ok && err == nil && r.Writes() {
			watcher.Modify(n.DeepCopy())
			if r.Subresource == "status" {
				writes, _ := s.statuses.LoadOrStore(n.Name, new(atomic.Int64))
				writes.(*atomic.Int64).Add(1)
			}
		}
		return object, err
	})
}

// edit changes the Network of that name as a user does.
func (s *storm) edit(name string, change func(*samplecrdv1.Network)) {
	s.t.Helper()
	n := s.get(name)
	change(n)
	_, err := s.kube.SamplecrdV1().Networks(n.Namespace).Update(context.Background(), n, metav1.UpdateOptions{})
	must(s.t, err)
}

// requests returns the number of requests to Neutron.
func (s *storm) requests() int64 { return s.relists.Load() + s.lookups.Load() + s.changes.Load() }

// get returns the Network of that name.
func (s *storm) get(name string) *samplecrdv1.Network {
	s.t.Helper()
	for _, n := range s.api.After(s.api.Changes()) {
		if n.Name == name {
			return n
		}
	}
	s.t.Fatalf("there is no Network %s", name)
	return nil
}

// writes returns how often the status of the Network was written.
func (s *storm) writes(name string) int64 {
	if writes, ok := s.statuses.Load(name); ok {
		return writes.(*atomic.Int64).Load()
	}
	return 0
}

// expectReason expects the reason of the Ready condition.
func (s *storm) expectReason(name, want string) {
	s.t.Helper()
	if ready := status.Ready(&s.get(name).Status); ready.Reason != want {
		s.t.Errorf("%s: %s (%s), want %s", name, ready.Reason, ready.Message, want)
	}
}

// atMost expects a count that has not grown beyond the limit.
func (s *storm) atMost(what string, got, limit int64) {
	s.t.Helper()
	if got > limit {
		s.t.Errorf("%d %s, want at most %d", got, what, limit)
	}
}

// member returns a Network with a range of its own.
func member(name string, i int, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := world.NewNetwork(fmt.Sprintf("10.%d.0.0/24", i), "", changes...)
	n.Name, n.UID = name, types.UID(fmt.Sprintf("22222222-0000-0000-0000-%012d", i))
	return n
}

func good(i int) string { return fmt.Sprintf("good-%d", i) }
func bad(i int) string  { return fmt.Sprintf("bad-%d", i) }

// members returns the Networks.
func members() (networks []*samplecrdv1.Network) {
	for i := range stormMembers {
		name := good(i)
		if i < stormFailing {
			name = bad(i)
		}
		networks = append(networks, member(name, i))
	}
	return networks
}

// ofTheBad returns the fault for the creations of the networks of the bad.
func ofTheBad(fault embedded.Fault) func(*http.Request) *embedded.Fault {
	return func(r *http.Request) *embedded.Fault {
		if body, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && bytes.Contains(body, []byte(`"default/bad-`)) {
			return &fault
		}
		return nil
	}
}

var noNetworkAvailable = embedded.Fault{
	Status: http.StatusServiceUnavailable, Type: "NoNetworkAvailable",
	Message: "Unable to create the network. No tenant network is available for allocation.",
}

var overQuota = embedded.Fault{Status: http.StatusConflict, Type: "OverQuota", Message: "Quota exceeded for resources: ['network']."}

// TestNetworksThatFailForEverCostTheOthersNothing counts for half an hour.
func TestNetworksThatFailForEverCostTheOthersNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  embedded.Fault
		reason string
	}{
		{"no VLAN and no VNI is free", noNetworkAvailable, samplecrdv1.ReasonNoSegmentAvailable},
		{"an error of the server", internalError, samplecrdv1.ReasonNeutronUnavailable},
		{"an error of a proxy", embedded.Fault{Status: http.StatusGatewayTimeout, Message: "<html>504 Gateway Time-out</html>"}, samplecrdv1.ReasonNeutronUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startStorm(t, ofTheBad(test.fault), members()...)
				defer s.stop()
				const minutes = 30
				time.Sleep(minutes * time.Minute)

				s.atMost("lists of all networks", s.relists.Load(), minutes/5+2)
				// Each is tried seven times in the first minute, then once a minute, and after each list if
				// it may have been created after all.
				const tries = stormFailing * (minutes + 7 + minutes/5)
				s.atMost("changes", s.changes.Load(), tries+2*(stormMembers-stormFailing))
				s.atMost("look-ups", s.lookups.Load(), tries+2*minutes)
				for _, n := range members() {
					want := samplecrdv1.ReasonAvailable
					if strings.HasPrefix(n.Name, "bad") {
						want = test.reason
					}
					s.expectReason(n.Name, want)
					s.atMost("writes of the status of "+n.Name, s.writes(n.Name), 1)
				}
				if since, isOutage := s.cloud.Client().Away(); !since.IsZero() || isOutage {
					t.Errorf("Neutron is away since %s", since)
				}

				// Others are not held up meanwhile.
				s.edit(good(100), func(n *samplecrdv1.Network) { n.Spec.Gateway = samplecrdv1.GatewayNone })
				time.Sleep(time.Second)
				if n := s.get(good(100)); n.Status.Gateway != samplecrdv1.GatewayNone || !status.IsAvailable(n) {
					t.Errorf("gateway %s", n.Status.Gateway)
				}

				// It is a Network's own error that ends when its cause does.
				s.neutron.SetFault(nil)
				time.Sleep(2 * time.Minute)
				for i := range stormFailing {
					s.expectReason(bad(i), samplecrdv1.ReasonAvailable)
				}
			})
		})
	}
}

// TestManyThatNeutronAsksToWaitTakeTurns has a gateway before Neutron that limits the rate of requests, for ten minutes.
func TestManyThatNeutronAsksToWaitTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startStorm(t, func(r *http.Request) *embedded.Fault {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/networks") {
				return nil
			}
			return &embedded.Fault{Status: http.StatusTooManyRequests, Message: "too many requests", RetryAfter: time.Second}
		}, members()...)
		defer s.stop()
		const minutes, perSecond, burst = 10, 10, 100
		time.Sleep(minutes * time.Minute)
		// Each list wakes those that may have been created after all.
		s.atMost("changes", s.changes.Load(), stormMembers*(1+s.relists.Load())+burst+minutes*60*perSecond)

		s.neutron.SetFault(nil)
		time.Sleep((stormMembers/perSecond + 2) * time.Second)
		for _, n := range members() {
			s.expectReason(n.Name, samplecrdv1.ReasonAvailable)
		}
	})
}

// TestManyThatAreOverQuotaDoNotDelayTheRetriesOfOthers has so many that their retries take turns for minutes.
func TestManyThatAreOverQuotaDoNotDelayTheRetriesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		networks := members()
		for i := range 9 * stormMembers {
			n := member(fmt.Sprint("bad-", stormMembers+i), stormMembers+i)
			n.Spec.CIDR = "10.250.0.0/24"
			networks = append(networks, n)
		}
		s := startStorm(t, ofTheBad(overQuota), networks...)
		defer s.stop()
		time.Sleep(5 * time.Minute)
		changes := s.changes.Load()
		time.Sleep(time.Minute)
		s.atMost("changes in a minute", s.changes.Load()-changes, 60*10+30)
		s.expectReason(bad(0), samplecrdv1.ReasonQuotaExceeded)

		// Another one fails once.
		var failed atomic.Bool
		s.neutron.SetFault(func(r *http.Request) *embedded.Fault {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/subnets/") && failed.CompareAndSwap(false, true) {
				return &internalError
			}
			return ofTheBad(overQuota)(r)
		})
		s.edit(good(100), func(n *samplecrdv1.Network) { n.Spec.Gateway = samplecrdv1.GatewayNone })
		time.Sleep(3 * time.Second)
		if n := s.get(good(100)); !failed.Load() || n.Status.Gateway != samplecrdv1.GatewayNone || !status.IsAvailable(n) {
			t.Errorf("failed once: %t; gateway %s", failed.Load(), n.Status.Gateway)
		}
	})
}

// TestANameThatIsNotThereCostsManyNetworksFewLists counts for ten minutes.
func TestANameThatIsNotThereCostsManyNetworksFewLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		networks := members()
		for _, n := range networks {
			n.Spec.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{Name: "missing"}}
		}
		var lists atomic.Int64
		s := startStorm(t, func(r *http.Request) *embedded.Fault {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/routers") {
				lists.Add(1)
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		}, networks...)
		defer s.stop()
		time.Sleep(time.Minute) // all are created
		before := lists.Load()
		const minutes = 10
		time.Sleep(minutes * time.Minute)
		t.Logf("%d lists of routers", lists.Load()-before)
		s.atMost("lists of routers", lists.Load()-before, minutes*20)
		for _, n := range networks {
			s.expectReason(n.Name, samplecrdv1.ReasonReferenceNotFound)
			s.atMost("writes of the status of "+n.Name, s.writes(n.Name), 2)
		}
	})
}

// TestAnOutageCostsOneRequestPerSecond has an outage of ten minutes, while some Networks are edited and others
// have errors of their own.
func TestAnOutageCostsOneRequestPerSecond(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault embedded.Fault
	}{
		{"no answer", embedded.Fault{Drop: true}},
		{"a proxy without a backend", embedded.Fault{Status: http.StatusServiceUnavailable, Message: "<html>503 Service Unavailable</html>"}},
		{"Neutron without its database", internalError},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startStorm(t, ofTheBad(noNetworkAvailable), members()...)
				defer s.stop()
				time.Sleep(10 * time.Minute)

				before, lists := s.requests(), s.relists.Load()
				s.neutron.SetFault(func(*http.Request) *embedded.Fault { return &test.fault })
				const edited = stormMembers / 2
				for i := stormFailing; i < edited; i++ {
					s.edit(good(i), func(n *samplecrdv1.Network) { n.Spec.Gateway = samplecrdv1.GatewayNone })
				}
				const seconds = 600
				time.Sleep(seconds * time.Second)
				// Each edited Network may have sent its change before the first of them has read again.
				s.atMost("requests", s.requests()-before, seconds+edited+10)
				s.atMost("lists of all networks", s.relists.Load()-lists, seconds/8)
				if _, isOutage := s.cloud.Client().Away(); !isOutage {
					t.Error("it is not an outage")
				}
				for i := stormFailing; i < edited; i++ {
					s.expectReason(good(i), samplecrdv1.ReasonNeutronUnavailable)
					// One when it was created, one for its own failure, and two about the outage.
					s.atMost("writes of the status of "+good(i), s.writes(good(i)), 4)
				}
				for i := edited; i < stormMembers; i++ {
					s.expectReason(good(i), samplecrdv1.ReasonAvailable)
				}

				// The Observer notices the end, and wakes those that wait.
				s.neutron.SetFault(ofTheBad(noNetworkAvailable))
				lists = s.relists.Load()
				time.Sleep(15 * time.Second)
				for i := stormFailing; i < stormMembers; i++ {
					s.expectReason(good(i), samplecrdv1.ReasonAvailable)
				}
				time.Sleep(10 * time.Minute)
				s.atMost("lists of all networks after the outage", s.relists.Load()-lists, 4)
				for i := range stormFailing {
					s.expectReason(bad(i), samplecrdv1.ReasonNoSegmentAvailable)
					// Those that have sent a probe say in between that Neutron is away.
					s.atMost("writes of the status of "+bad(i), s.writes(bad(i)), 4)
				}
			})
		})
	}
}

// TestAListThatFailsForEverCostsTheOthersNothing has one list of several that fails, of a Neutron that is slow already.
func TestAListThatFailsForEverCostsTheOthersNothing(t *testing.T) {
	const routed, periods, tolerance = 30, 12, 10
	for _, test := range []struct {
		list  string
		fails func(*http.Request) bool
		// most is the number of requests in that many periods. A relist without failures has five.
		most int64
	}{
		{"none", func(*http.Request) bool { return false }, 5 * periods},
		{"routers", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/routers") }, 5 * periods},
		{"ports", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/ports") }, 5 * periods},
		{"external networks", func(r *http.Request) bool { return r.URL.Query().Has("router:external") }, 5 * periods},
		// The relist fails with these, and is tried again after 1 s, 2 s, 4 s, and so on up to the period.
		{"subnets", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/subnets") }, 5*periods + 2*8},
	} {
		for _, fault := range []embedded.Fault{internalError, {Hang: true}} {
			t.Run(fmt.Sprintf("%s, status %d", test.list, fault.Status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var networks []*samplecrdv1.Network
					for i := range routed {
						networks = append(networks, member(good(i), i, func(n *samplecrdv1.Network) {
							n.Spec.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public"}}
						}))
					}
					s := startStorm(t, nil, networks...)
					defer s.stop()
					time.Sleep(2 * stormPeriod)
					before, writes := s.requests(), s.writes(good(0))
					s.neutron.SetFault(func(r *http.Request) *embedded.Fault {
						if r.Method == http.MethodGet && test.fails(r) {
							return &fault
						}
						return nil
					})
					time.Sleep(periods * stormPeriod)
					s.atMost("requests", s.requests()-before, test.most+tolerance)
					for i := range routed {
						s.expectReason(good(i), samplecrdv1.ReasonAvailable)
					}
					s.atMost("writes of a status", s.writes(good(0)), writes)
				})
			})
		}
	}
}
