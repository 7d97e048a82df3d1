// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
)

func TestAnAnnotatedDeploymentGetsANetworkForOneRequest(t *testing.T) {
	f := newFixture(t, "", 0)
	d := f.deploy("web", "10.1.0.0/24", "10.1.0.9")
	f.mustSync()
	f.expectJournal("create networks")
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	f.expectSpec("10.1.0.0/24", "10.1.0.9")
	yes := true
	want := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: d.UID, Controller: &yes, BlockOwnerDeletion: &yes}}
	n := f.get("web")
	if diff := gocmp.Diff(want, n.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(map[string]string{samplecrdv1.LabelDeployment: "web"}, n.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	f.mustSync()
	f.start()
	f.mustSync()
	f.expectJournal()
	f.expectEvents()
}

func TestTheNetworkFollowsTheAnnotations(t *testing.T) {
	f := newFixture(t, "", 0)
	f.deploy("web", "10.1.0.0/24", "10.1.0.9")
	f.mustSync()
	uid := f.get("web").UID
	for _, edit := range []struct{ cidr, gateway, want string }{
		{"10.2.0.0/16", "10.2.0.9", "10.2.0.9"}, {"10.2.0.0/16", "None", "None"}, {"10.2.0.0/16", "-", ""}, {"fd00::/64", "fd00::9", "fd00::9"},
	} {
		f.takeJournal()
		f.takeEvents()
		f.annotate(edit.cidr, edit.gateway)
		f.mustSync()
		f.expectSpec(edit.cidr, edit.want)
		f.expectJournal("get deployments", "patch networks")
		f.expectEvents(samplecrdv1.EventNetworkUpdated)
	}
	f.annotate("-", "-")
	f.mustSync()
	f.expectJournal("get deployments", "delete networks")
	f.expectEvents(samplecrdv1.EventNetworkDeleted)
	if n := f.find("web"); n != nil {
		t.Errorf("still there: %+v", n)
	}
	f.mustSync()
	f.expectJournal()
	f.annotate("10.1.0.0/24", "-")
	f.mustSync()
	if n := f.get("web"); n.UID == uid {
		t.Error("it is the old one")
	}
}

func TestADeploymentBeingDeletedIsLeftToTheGarbageCollector(t *testing.T) {
	for _, cidr := range []string{"10.2.0.0/24", "-"} {
		f := newDeployed(t)
		f.takeJournal()
		f.editDeployment("web", func(d *appsv1.Deployment) {
			d.Annotations, d.DeletionTimestamp = annotations(cidr, "-"), &metav1.Time{Time: time.Unix(1, 0)}
		})
		f.mustSync()
		f.expectJournal()
		f.expectSpec("10.1.0.0/24", "")

		f.undeploy("web")
		f.mustSync()
		f.expectJournal()
	}
}

func TestAStaleCacheOfDeploymentsChangesNothing(t *testing.T) {
	changes := map[string]func(*fixture, string){
		"gone":    func(f *fixture, _ string) { f.undeploy("web") },
		"another": func(f *fixture, cached string) { f.undeploy("web"); f.deploy("web", cached, "-") },
		"being deleted": func(f *fixture, _ string) {
			f.editDeployment("web", func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
		},
		"asks for something else": func(f *fixture, _ string) { f.annotate("10.3.0.0/24", "-") },
	}
	for name, change := range changes {
		for _, cached := range []string{"10.2.0.0/24", "-"} {
			t.Run(name+", the cache says "+cached, func(t *testing.T) {
				f := newDeployed(t)
				f.annotate(cached, "-")
				f.refresh()
				change(f, cached)
				f.takeJournal()
				if err := f.sync("web"); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
				f.expectJournal("get deployments")
				f.expectSpec("10.1.0.0/24", "")
			})
		}
	}
}

func TestAStaleCacheOfNetworksChangesNothing(t *testing.T) {
	disown := func(n *samplecrdv1.Network) { n.OwnerReferences = nil }
	for _, cidr := range []string{"10.2.0.0/24", "-"} {
		for name, change := range map[string]func(*fixture){
			"it was changed": func(f *fixture) { f.edit(disown) },
			"a restored API server has another one with the same resourceVersion": func(f *fixture) {
				other := f.get("web")
				disown(other)
				other.UID = "another"
				f.api.Restore(0)
				f.api.Put(other)
			},
		} {
			f := newDeployed(t)
			f.annotate(cidr, "-")
			f.refresh()
			change(f)
			if err := f.sync("web"); !apierrors.IsConflict(err) {
				t.Errorf("%s, %s: got %v", name, cidr, err)
			}
			f.expectSpec("10.1.0.0/24", "")
		}
	}
}

func TestAdoption(t *testing.T) {
	tests := []struct {
		name    string
		network func(*samplecrdv1.Network)
		pool    string
		cidr    string
		want    string
	}{
		{"it has another CIDR", labelled, "", "10.2.0.0/24", "10.2.0.0/24"},
		{"auto: a block of the pool is kept", labelled, "10.0.0.0/8", "auto", "10.1.0.0/24"},
		{"auto: a CIDR outside the pool is not", labelled, "192.168.0.0/16", "auto", "192.168.0.0/24"},
		{"auto: the allocated block is kept if the pool has changed", func(n *samplecrdv1.Network) {
			labelled(n)
			n.Annotations = map[string]string{samplecrdv1.AnnotationAllocatedCIDR: "10.1.0.0/24"}
		}, "192.168.0.0/16", "auto", "10.1.0.0/24"},
		{"a subnet pool is replaced by a CIDR", func(n *samplecrdv1.Network) {
			labelled(n)
			n.Spec.CIDR, n.Spec.SubnetPool = "", fromPool("shared", 24)
		}, "", "10.2.0.0/24", "10.2.0.0/24"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.pool, 24)
			before := f.stray("web", "10.1.0.0/24", tt.network)
			d := f.deploy("web", tt.cidr, "-")
			f.mustSync()
			f.expectEvents(samplecrdv1.EventNetworkAdopted)
			f.expectSpec(tt.want, "")
			if n := f.get("web"); n.UID != before.UID || !metav1.IsControlledBy(n, d) {
				t.Errorf("not adopted: %+v", n)
			}
			f.takeJournal()
			f.mustSync()
			f.expectJournal()
		})
	}
}

func TestAdoptionKeepsASubnetPool(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.stray("web", "", labelled, func(n *samplecrdv1.Network) { n.Spec.SubnetPool = fromPool("old", 26) })
	d := f.deploy("web", "auto", "-")
	f.mustSync()
	if event := f.nextEvent(); !strings.Contains(event, "NetworkAdopted Adopted Network web, /26 from subnet pool old") {
		t.Errorf("got the event %q", event)
	}
	if n := f.get("web"); n.Spec.CIDR != "" || gocmp.Diff(fromPool("old", 26), n.Spec.SubnetPool) != "" || !metav1.IsControlledBy(n, d) {
		t.Errorf("got %+v", n)
	}
	f.takeJournal()
	f.mustSync()
	f.expectJournal()
}

func TestANetworkOfAnotherOwnerIsReportedOnceForEachCauseAndNotChanged(t *testing.T) {
	f := newFixture(t, "", 0)
	f.stray("web", "10.9.0.0/24")
	f.deploy("web", "10.1.0.0/24", "-")
	f.mustSync()
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkNotOwned)
	// Another cause, and then the first cause again.
	yes := true
	f.edit(func(n *samplecrdv1.Network) {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "x", Controller: &yes}}
	})
	f.mustSync()
	f.edit(func(n *samplecrdv1.Network) { n.OwnerReferences = nil })
	f.mustSync()
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkNotOwned, samplecrdv1.EventNetworkNotOwned)
	f.expectJournal()
	f.expectSpec("10.9.0.0/24", "")
	// Another Deployment with the same name gets its own event.
	f.undeploy("web")
	f.deploy("web", "10.1.0.0/24", "-")
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkNotOwned)
	// The removal of the annotation does not change the Network.
	f.annotate("-", "-")
	f.mustSync()
	f.expectJournal()
	f.annotate("10.1.0.0/24", "-")
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkNotOwned)
	// A user labels the Network so that it can be adopted.
	f.edit(labelled)
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkAdopted)
}

func TestARecreatedDeploymentWaitsUntilTheOldNetworkIsGone(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.deploy("web", "auto", "-")
	f.mustSync()
	f.edit(func(n *samplecrdv1.Network) { n.Finalizers = []string{samplecrdv1.Finalizer} })
	f.takeJournal()
	f.takeEvents()
	f.undeploy("web")
	d := f.deploy("web", "auto", "-")
	f.mustSync()
	f.api.Delete(f.get("web"))
	f.mustSync()
	f.mustSync()
	f.expectJournal()
	f.expectEvents(samplecrdv1.EventNetworkBeingDeleted, samplecrdv1.EventNetworkBeingDeleted)
	f.edit(func(n *samplecrdv1.Network) { n.Finalizers = nil }) // gone
	f.mustSync()
	f.expectJournal("create networks")
	if n := f.get("web"); !metav1.IsControlledBy(n, d) {
		t.Errorf("got %+v", n.OwnerReferences)
	}
}

func TestAnInvalidAnnotationIsReportedAndChangesNothing(t *testing.T) {
	f := newDeployed(t)
	f.takeEvents()
	f.takeJournal()
	for range 2 {
		f.annotate("10.1.0.0/33", "-")
		f.mustSync()
		f.mustSync()
	}
	f.annotate("10.1.0.0/24", "10.2.0.1")
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkAnnotationInvalid, samplecrdv1.EventNetworkAnnotationInvalid)
	f.annotate("auto", "-")
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNoCIDRPool)
	f.expectJournal()
	f.expectSpec("10.1.0.0/24", "")
}

func TestErrorsOfTheAPIServerAfterAWrite(t *testing.T) {
	resource := samplecrdv1.Resource("networks")
	terminating := apierrors.NewForbidden(resource, "web", errors.New("namespace is going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := []struct {
		name   string
		err    error
		event  string
		retry  bool
		remain bool // whether the block stays reserved
	}{
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Network"}, "web", field.ErrorList{field.Invalid(field.NewPath("spec", "gateway"), "x", "is not")}),
			samplecrdv1.EventNetworkAnnotationInvalid, false, false},
		{"forbidden, or a quota is used up", apierrors.NewForbidden(resource, "web", errors.New("no right")), samplecrdv1.EventNetworkRefused, true, false},
		{"the namespace is going", terminating, "", false, false},
		{"there is one already", apierrors.NewAlreadyExists(resource, "web"), "", true, false},
		{"conflict", apierrors.NewConflict(resource, "web", errors.New("changed")), "", true, false},
		{"an error inside", apierrors.NewInternalError(errors.New("etcd")), "", true, true},
		{"no answer", errLost, "", true, true},
	}
	for _, tt := range tests {
		for _, request := range []string{"create networks", "patch networks"} {
			t.Run(request+": "+tt.name, func(t *testing.T) {
				f := newFixture(t, "10.0.0.0/16", 24)
				if request == "patch networks" {
					f.stray("web", "192.168.0.0/24", labelled)
				}
				f.deploy("web", "auto", "-")
				f.fail(request, tt.err)
				for range 2 { // each error is reported once
					f.refresh()
					if err := f.sync("web"); (err != nil) != tt.retry || tt.remain && !errors.Is(err, tt.err) {
						t.Errorf("got %v", err)
					}
				}
				if tt.event == "" {
					f.expectEvents()
				} else {
					f.expectEvents(tt.event)
				}
				if got := f.controller.allocator.isReserved(testKey); got != tt.remain {
					t.Errorf("reserved: %v", got)
				}
				f.around = nil
				f.mustSync()
				f.expectSpec("10.0.0.0/24", "")
			})
		}
	}
}

// A policy can protect the Network from deletion.
func TestARefusedDeletionIsReportedOnce(t *testing.T) {
	f := newDeployed(t)
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	f.annotate("-", "-")
	f.fail("delete networks", apierrors.NewForbidden(samplecrdv1.Resource("networks"), "web", errors.New("protected")))
	for range 2 {
		f.refresh()
		if err := f.sync("web"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	}
	f.expectEvents(samplecrdv1.EventNetworkRefused)
	f.around = nil
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkDeleted)
}

func TestAFailedDeletionIsRetried(t *testing.T) {
	f := newDeployed(t)
	f.annotate("-", "-")
	f.refresh()
	f.lose("delete networks")
	if err := f.sync("web"); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
	f.around = nil
	f.must(f.sync("web")) // the cache still has the Network
	f.mustSync()
	if n := f.find("web"); n != nil {
		t.Errorf("still there: %+v", n)
	}
}

// Handlers.

func TestHandlersOfDeployments(t *testing.T) {
	f := newFixture(t, "", 0)
	plain := func(name string) *appsv1.Deployment { return f.deploy(name, "-", "-") }
	h := f.controller.deploymentHandlers()

	h.AddFunc(plain("plain"))
	f.expectQueued()
	h.AddFunc(f.deploy("asks", "10.1.0.0/24", "-"))
	f.expectQueued("asks")

	owner := plain("owner")
	n := newNetwork(owner, request{cidr: "10.1.0.0/24"})
	f.api.Put(n)
	f.refresh()
	h.AddFunc(owner) // the annotation was removed while no controller ran
	f.expectQueued("owner")

	update := func(change func(*appsv1.Deployment)) {
		d := aDeployment("10.1.0.0/24")
		now := d.DeepCopy()
		change(now)
		h.UpdateFunc(d, now)
	}
	update(func(d *appsv1.Deployment) { d.ResourceVersion, d.Status.Replicas = "8", 3 })
	update(func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	f.expectQueued()
	update(func(d *appsv1.Deployment) { d.Annotations[samplecrdv1.AnnotationNetworkCIDR] = "auto" })
	f.expectQueued("web")
	update(func(d *appsv1.Deployment) { d.Annotations[samplecrdv1.AnnotationNetworkGateway] = "None" })
	f.expectQueued("web")
	update(func(d *appsv1.Deployment) { d.Annotations[samplecrdv1.AnnotationNetworkTemplate] = "shared" })
	f.expectQueued("web")
	update(func(d *appsv1.Deployment) { d.Annotations = nil })
	f.expectQueued("web")
	update(func(d *appsv1.Deployment) { d.UID = "uid-2" })
	f.expectQueued("web")
	h.UpdateFunc(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "plain", UID: "a"}}, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "plain", UID: "b"}})
	f.expectQueued()
}

func TestTheStateOfADeletedDeploymentIsCleared(t *testing.T) {
	for _, gone := range []appsinformers.DeletedDeployment{
		{OptionalObj: aDeployment("x")},
		{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/web"}},
	} {
		f := newFixture(t, "", 0)
		h := f.controller.deploymentHandlers()
		h.DeleteFunc(gone)
		f.expectQueued() // there is no state to clear
		f.deploy("web", "nonsense", "-")
		f.mustSync()
		f.undeploy("web")
		h.DeleteFunc(gone)
		f.expectQueued("web")
		f.mustSync()
		if f.controller.hasState(testKey) {
			t.Error("the state is still there")
		}
	}
}

func TestHandlersOfNetworksEnqueueTheDeployment(t *testing.T) {
	f := newFixture(t, "", 0)
	owner := f.deploy("owner", "-", "-")
	f.deploy("web", "10.1.0.0/24", "-")
	f.deploy("plain", "-", "-")
	f.refresh()
	h := f.controller.networkHandlers()
	owned := func(d *appsv1.Deployment, uid string) *samplecrdv1.Network {
		d = d.DeepCopy()
		d.UID = owner.UID
		if uid != "" {
			d.UID = "other"
		}
		return newNetwork(d, request{cidr: "10.1.0.0/24"})
	}
	mine := owned(owner, "")

	h.AddFunc(mine)
	f.expectQueued("owner")
	h.AddFunc(owned(owner, "other")) // the owner was created again, and requests no Network
	f.expectQueued()
	wrongKind := mine.DeepCopy()
	wrongKind.OwnerReferences[0].APIVersion = "example.com/v1"
	h.AddFunc(wrongKind)
	f.expectQueued()
	h.AddFunc(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}})
	h.AddFunc(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nobody"}})
	h.AddFunc(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "web"}})
	f.expectQueued()
	h.AddFunc(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}) // an obstacle, or to be adopted
	f.expectQueued("web")

	h.UpdateFunc(mine, mine)
	f.expectQueued()
	taken := mine.DeepCopy()
	taken.OwnerReferences = nil
	h.UpdateFunc(mine, taken)
	f.expectQueued("owner")
	h.UpdateFunc(taken, mine)
	f.expectQueued("owner")

	h.DeleteFunc(informers.DeletedNetwork{OptionalObj: mine})
	f.expectQueued("owner")
	// A tombstone may have the name only.
	h.DeleteFunc(informers.DeletedNetwork{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/web"}})
	f.expectQueued("web")
	h.DeleteFunc(informers.DeletedNetwork{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/plain"}})
	f.expectQueued()
}

// Queue.

// work runs a controller with synced informers. The caller must call stop.
func work(t *testing.T, c *Controller) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	close(done)
	c.synced = []cache.DoneChecker{checker(done)}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), quiet))
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, 2) })
	return func() {
		cancel()
		running.Wait()
	}
}

type checker <-chan struct{}

func (c checker) Name() string          { return "test" }
func (c checker) Done() <-chan struct{} { return c }

func TestRetriesAfterASync(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int // syncs within a little more than a minute
	}{
		{"success", nil, 1},
		{"no free block: after one minute", fmt.Errorf("allocate: %w", errExhausted), 2},
		{"conflict: after 1, 2, 4… seconds", apierrors.NewConflict(samplecrdv1.Resource("networks"), "web", errors.New("changed")), 6},
		{"an error: the same", errLost, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFixture(t, "", 0).controller
				syncs := 0
				c.sync = func(context.Context, cache.ObjectName) error { syncs++; return tt.err }
				c.queue.Add(testKey)
				stop := work(t, c)
				time.Sleep(62 * time.Second)
				stop()
				if syncs != tt.want {
					t.Errorf("%d syncs, want %d", syncs, tt.want)
				}
			})
		})
	}
}

func TestAPanicIsAnErrorOfOneDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFixture(t, "", 0).controller
		synced := make(chan string, 10)
		c.sync = func(_ context.Context, key cache.ObjectName) error {
			synced <- key.Name
			if key.Name == "poison" {
				panic("poison")
			}
			return nil
		}
		c.queue.Add(cache.NewObjectName("default", "poison"))
		c.queue.Add(cache.NewObjectName("default", "other"))
		stop := work(t, c)
		time.Sleep(1300 * time.Millisecond)
		stop()
		if len(synced) != 3 {
			t.Errorf("%d syncs, want one of other and two of poison", len(synced))
		}
	})
}

func TestRunEndsWhileItWaitsForTheCaches(t *testing.T) {
	c := newFixture(t, "", 0).controller
	c.synced = []cache.DoneChecker{checker(make(chan struct{}))}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), quiet))
	cancel()
	c.queue.Add(testKey)
	c.sync = func(context.Context, cache.ObjectName) error {
		t.Error("there was a sync")
		return nil
	}
	c.Run(ctx, 1)
}
