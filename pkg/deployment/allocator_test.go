// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
)

// cidrOf returns the spec.cidr of the Network.
func (f *fixture) cidrOf(name string) string {
	f.t.Helper()
	return f.get(name).Spec.CIDR
}

func (f *fixture) expectCIDR(name, want string) {
	f.t.Helper()
	if got := f.cidrOf(name); got != want {
		f.t.Errorf("%s has %s, want %s", name, got, want)
	}
}

// expectApart fails if any two subnets that Networks declare overlap.
func (f *fixture) expectApart() {
	f.t.Helper()
	type subnet struct {
		of   string
		cidr netip.Prefix
	}
	var all []subnet
	for _, n := range f.api.After(f.api.Changes()) {
		all = append(all, subnet{n.Name, netip.MustParsePrefix(n.Spec.CIDR)})
		for _, more := range n.Spec.AdditionalSubnets {
			all = append(all, subnet{n.Name, netip.MustParsePrefix(more.CIDR)})
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.cidr.Overlaps(b.cidr) {
				f.t.Errorf("%s of %s and %s of %s overlap", a.cidr, a.of, b.cidr, b.of)
			}
		}
	}
}

// declares returns a change that gives a Network additional subnets.
func declares(cidrs ...string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) {
		for i, cidr := range cidrs {
			n.Spec.AdditionalSubnets = append(n.Spec.AdditionalSubnets,
				samplecrdv1.AdditionalSubnet{Name: fmt.Sprint("more-", i), SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}})
		}
	}
}

func TestAutoTakesTheLowestFreeBlock(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.stray("spec", "10.0.0.7/24")
	f.stray("status", "192.168.0.0/24", func(n *samplecrdv1.Network) { n.Status.CIDR = "10.0.1.0/28" })
	f.stray("moved", "192.168.1.0/24", func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{samplecrdv1.AnnotationAllocatedCIDR: "10.0.2.0/24"}
	})
	f.stray("nonsense", "nonsense")
	f.deploy("web", "auto", "None")
	f.mustSync()
	f.expectSpec("10.0.3.0/24", "None")
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	// The Networks are listed live before the first block only.
	f.expectJournal("list networks", "create networks")
	f.deploy("second", "auto", "-")
	f.refresh()
	f.must(f.sync("second"))
	f.expectCIDR("second", "10.0.4.0/24")
	f.expectJournal("create networks")
	f.mustSync()
	f.expectJournal()
}

// The pool has four blocks, of which auto would take the first.
func TestAutoAvoidsEverySubnetOfEveryNetwork(t *testing.T) {
	has := func(cidrs ...string) func(*samplecrdv1.Network) {
		return func(n *samplecrdv1.Network) {
			for i, cidr := range cidrs {
				n.Status.Subnets = append(n.Status.Subnets, samplecrdv1.SubnetStatus{ID: fmt.Sprint(i), CIDR: cidr})
			}
		}
	}
	for _, test := range []struct {
		name string
		pool string
		cidr string // of the other Network
		with func(*samplecrdv1.Network)
		want string
	}{
		{"one of several additional subnets", "10.0.0.0/22", "192.168.0.0/24", declares("fd00::/64", "10.0.0.128/25", "10.0.1.0/28"), "10.0.2.0/24"},
		{"an additional subnet that the spec no longer declares", "10.0.0.0/22", "192.168.0.0/24", has("192.168.0.0/24", "10.0.0.0/24"), "10.0.1.0/24"},
		{"the old subnet and the new one while spec.cidr is replaced", "10.0.0.0/22", "10.0.1.0/24", has("10.0.0.0/24", "10.0.1.0/24"), "10.0.2.0/24"},
		{"the subnets of an import, which the spec does not name", "10.0.0.0/22", "", has("10.0.0.0/24", "10.0.2.0/24"), "10.0.1.0/24"},
		{"an additional IPv6 subnet, with an IPv6 pool", "fd00::/62", "10.0.0.0/24", declares("fd00::/64", "0.0.0.0/0"), "fd00:0:0:1::/64"},
		{"ranges that are none", "10.0.0.0/22", "10.0.0.0", declares("", "10.0.0.0/33", "10.0.0.0/24/24", "::ffff:10.0.0.0/120"), "10.0.0.0/24"},
	} {
		for _, isCached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, cached: %t", test.name, isCached), func(t *testing.T) {
				bits := 24
				if strings.Contains(test.pool, ":") {
					bits = 64
				}
				f := newFixture(t, test.pool, bits)
				f.stray("other", test.cidr, test.with)
				f.deploy("web", "auto", "-")
				f.refreshDeployments()
				if isCached {
					f.refresh()
				}
				f.must(f.sync("web"))
				f.expectCIDR("web", test.want)
			})
		}
	}
}

// The API server refuses a Network whose subnets overlap.
func TestAutoAvoidsTheAdditionalSubnetsOfTheDeploymentsOwnNetwork(t *testing.T) {
	f := newFixture(t, "10.0.0.0/22", 24)
	f.deploy("web", "192.168.0.0/24", "-")
	f.mustSync()
	f.edit(func(n *samplecrdv1.Network) {
		declares("10.0.0.0/24")(n)
		n.Status.CIDR = "192.168.0.0/24"
	})
	f.annotate("auto", "-")
	f.mustSync()
	f.expectCIDR("web", "10.0.1.0/24")
}

func TestAutoKeepsItsBlock(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.deploy("web", "10.0.7.0/24", "-")
	f.mustSync()
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"explicit becomes auto, in a block of the pool", func() { f.annotate("auto", "-") }, "10.0.7.0/24"},
		{"a lower block is free", func() {}, "10.0.7.0/24"},
		{"an edit of the spec is reverted", func() { f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.0.8.0/24" }) }, "10.0.7.0/24"},
		{"another pool", func() { f.options.CIDRPool = netip.MustParsePrefix("172.16.0.0/16"); f.start() }, "10.0.7.0/24"},
		{"no pool", func() { f.options.CIDRPool = netip.Prefix{}; f.start() }, "10.0.7.0/24"},
		{"auto becomes explicit", func() { f.annotate("10.0.9.0/24", "-") }, "10.0.9.0/24"},
		{"explicit becomes auto, outside the pool", func() {
			f.options.CIDRPool = netip.MustParsePrefix("172.16.0.0/16")
			f.start()
			f.annotate("auto", "-")
		}, "172.16.0.0/24"},
		{"the annotation with the block is gone, and the CIDR is a block of the pool", func() { f.edit(func(n *samplecrdv1.Network) { n.Annotations = nil }) }, "172.16.0.0/24"},
		{"the annotation with the block is invalid", func() {
			f.edit(func(n *samplecrdv1.Network) {
				n.Annotations = map[string]string{samplecrdv1.AnnotationAllocatedCIDR: "x"}
			})
		}, "172.16.0.0/24"},
		{"a new process", func() { f.start() }, "172.16.0.0/24"},
	} {
		step.do()
		f.mustSync()
		if got := f.cidrOf("web"); got != step.want {
			t.Fatalf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	if events := f.takeEvents(); slices.Contains(events, samplecrdv1.EventNoCIDRPool) {
		t.Errorf("events: %v", events)
	}
}

func TestAutoTakesARangeFromASubnetPool(t *testing.T) {
	f := newFixture(t, "", 24)
	restart := func(cidrPool, subnetPool string, bits int) func() {
		return func() {
			f.options.CIDRPool, f.options.SubnetPool, f.options.CIDRPrefixLength = netip.Prefix{}, subnetPool, bits
			if cidrPool != "" {
				f.options.CIDRPool = netip.MustParsePrefix(cidrPool)
			}
			f.start()
		}
	}
	pooled := func(name string, bits int32) samplecrdv1.SubnetSpec {
		return samplecrdv1.SubnetSpec{SubnetPool: fromPool(name, bits)}
	}
	block := func(cidr string) samplecrdv1.SubnetSpec { return samplecrdv1.SubnetSpec{CIDR: cidr} }
	create, patch := []string{"create networks"}, []string{"get deployments", "patch networks"}
	restart("", "shared", 24)()
	f.deploy("web", "auto", "-")
	for _, step := range []struct {
		what     string
		do       func()
		want     samplecrdv1.SubnetSpec
		requests []string
		event    string
	}{
		{"a new Network", func() {}, pooled("shared", 24), create, "NetworkCreated Created Network web, /24 from subnet pool shared"},
		{"another subnet pool is for new Networks", restart("", "another", 26), pooled("shared", 24), nil, ""},
		{"so is a CIDR pool", restart("10.0.0.0/16", "", 24), pooled("shared", 24), nil, ""},
		{"no pool", restart("", "", 24), pooled("shared", 24), nil, ""},
		{"an edit of the subnet pool stays", func() { f.edit(func(n *samplecrdv1.Network) { n.Spec.SubnetPool = fromPool("mine", 28) }) }, pooled("mine", 28), nil, ""},
		{"auto becomes explicit", func() { f.annotate("10.7.0.0/24", "-") }, block("10.7.0.0/24"), patch, "NetworkUpdated Updated Network web: cidr 10.7.0.0/24"},
		{"explicit becomes auto without a pool", func() { f.annotate("auto", "-") }, block("10.7.0.0/24"), nil,
			"NoCIDRPool The controller has no pool: start it with -deployment-cidr-pool or -deployment-subnet-pool"},
		{"now there is a subnet pool", restart("", "another", 26), pooled("another", 26), patch, "NetworkUpdated Updated Network web: cidr /26 from subnet pool another"},
		{"an edit sets a CIDR", func() {
			f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR, n.Spec.SubnetPool = "10.8.0.0/24", nil })
		}, pooled("another", 26), patch, "NetworkUpdated Updated Network web: cidr /26 from subnet pool another"},
		{"explicit again", func() { f.annotate("10.0.9.0/24", "-") }, block("10.0.9.0/24"), patch, "NetworkUpdated"},
		{"auto with a CIDR pool", func() { restart("10.0.0.0/16", "", 24)(); f.annotate("auto", "-") }, block("10.0.9.0/24"), append([]string{"list networks"}, patch...), "NetworkUpdated"},
		{"an allocated block is kept", restart("", "shared", 24), block("10.0.9.0/24"), nil, ""},
		{"also after an edit", func() {
			f.edit(func(n *samplecrdv1.Network) { n.Spec.CIDR, n.Spec.SubnetPool = "", fromPool("mine", 28) })
		}, block("10.0.9.0/24"), patch, "NetworkUpdated Updated Network web: cidr 10.0.9.0/24"},
	} {
		step.do()
		f.takeJournal()
		f.mustSync()
		if diff := cmp.Diff(samplecrdv1.NetworkSpec{SubnetSpec: step.want}, f.get("web").Spec); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.requests, f.takeJournal()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", step.what, diff)
		}
		if allocated := f.get("web").Annotations[samplecrdv1.AnnotationAllocatedCIDR]; allocated != "" && allocated != step.want.CIDR {
			t.Errorf("%s: %s is recorded as allocated", step.what, allocated)
		}
		if event := f.nextEvent(); !strings.Contains(event, step.event) || (event == "") != (step.event == "") {
			t.Errorf("%s: got the event %q", step.what, event)
		}
		f.mustSync()
		f.expectJournal()
	}
}

func TestExplicitThatBecomesAutoDoesNotKeepABlockThatOverlaps(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.stray("other", "10.0.0.0/23")
	f.deploy("web", "10.0.1.0/24", "-")
	f.mustSync()
	f.annotate("auto", "-")
	f.mustSync()
	f.expectSpec("10.0.2.0/24", "")
	f.expectApart()
}

func TestAnExhaustedPoolIsReportedOnceAndAFreedBlockEnqueuesTheWaitingDeployments(t *testing.T) {
	f := newFixture(t, "10.0.0.0/24", 24)
	h := f.controller.networkHandlers()
	stray := f.stray("stray", "10.0.0.0/28")
	f.deploy("web", "auto", "-")
	for range 2 {
		f.refresh()
		if err := f.sync("web"); !errors.Is(err, errExhausted) {
			t.Fatalf("got %v", err)
		}
	}
	f.expectEvents(samplecrdv1.EventCIDRPoolExhausted)

	moved := stray.DeepCopy()
	moved.Status.NetworkID = "id"
	h.UpdateFunc(stray, moved)
	f.expectQueued() // no block is free
	moved.Spec.CIDR = "192.168.0.0/24"
	h.UpdateFunc(stray, moved)
	f.expectQueued("web")
	if err := f.sync("web"); !errors.Is(err, errExhausted) {
		t.Fatalf("got %v", err)
	}
	f.api.Remove("default", "stray")
	h.DeleteFunc(informers.DeletedNetwork{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/stray"}})
	f.expectQueued("web")
	f.mustSync()
	f.expectSpec("10.0.0.0/24", "")
}

func TestTheBlockOfARefusedWriteIsFreeAgain(t *testing.T) {
	f := newFixture(t, "10.0.0.0/24", 24)
	f.deploy("web", "auto", "-")
	f.deploy("other", "auto", "-")
	f.refresh()
	f.around = func(request string, do func() (runtime.Object, error)) (runtime.Object, error) {
		if request != "create networks" {
			return do()
		}
		// During this request the other Deployment finds no free block.
		f.around = nil
		if err := f.sync("other"); !errors.Is(err, errExhausted) {
			t.Errorf("got %v", err)
		}
		return nil, apierrors.NewForbidden(samplecrdv1.Resource("networks"), "web", errors.New("no right"))
	}
	if err := f.sync("web"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	f.expectQueued("other")
	f.must(f.sync("other"))
	f.expectCIDR("other", "10.0.0.0/24")
}

func TestARefusedWriteOutsideThePoolWakesNobody(t *testing.T) {
	f := newFixture(t, "10.0.0.0/24", 24)
	f.deploy("first", "auto", "-")
	f.refresh()
	f.must(f.sync("first"))
	f.deploy("waiting", "auto", "-")
	f.deploy("web", "192.168.0.0/24", "-")
	f.refresh()
	if err := f.sync("waiting"); !errors.Is(err, errExhausted) {
		t.Errorf("got %v", err)
	}
	f.expectQueued()
	f.around = func(string, func() (runtime.Object, error)) (runtime.Object, error) {
		return nil, apierrors.NewForbidden(samplecrdv1.Resource("networks"), "web", errors.New("quota"))
	}
	if err := f.sync("web"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	f.expectQueued()
}

func TestABlockDoesNotOverlapWithAnEditThatTheCacheDoesNotHave(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.deployedAs("192.168.0.0/24")
	f.deploy("first", "auto", "-")
	f.refresh()
	f.must(f.sync("first"))
	f.refresh()
	f.annotate("10.0.1.0/24", "-")
	f.deploy("late", "auto", "-")
	f.refreshDeployments()
	f.must(f.sync("web"))
	f.must(f.sync("late"))
	f.expectCIDR("late", "10.0.2.0/24")
	f.expectApart()
}

func TestANewProcessDoesNotAllocateABlockThatItsCacheDoesNotHave(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	for i := range 3 {
		f.deploy("web-"+strconv.Itoa(i), "auto", "-")
		f.refresh()
		f.must(f.sync("web-" + strconv.Itoa(i)))
	}
	f.start()
	f.refreshNetworks(1) // from an API server that is out of date
	f.deploy("late", "auto", "-")
	f.refreshDeployments()
	f.must(f.sync("late"))
	f.expectCIDR("late", "10.0.3.0/24")
	if err := f.sync("web-2"); !errors.Is(err, errStale) { // the Network exists
		t.Errorf("got %v", err)
	}
	f.expectApart()

	// When the cache is up to date, the block of a deleted Network is free.
	f.api.Remove("default", "web-0")
	f.refreshNetworks(f.api.Changes())
	f.deploy("later", "auto", "-")
	f.refreshDeployments()
	f.must(f.sync("later"))
	f.expectCIDR("later", "10.0.0.0/24")
	if f.controller.allocator.listed != nil {
		t.Error("the list is still kept")
	}
}

func TestNoBlockIsAllocatedBeforeTheLiveListHasSucceeded(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.deploy("web", "auto", "-")
	f.fail("list networks", errLost)
	f.refresh()
	for range 2 {
		if err := f.sync("web"); !errors.Is(err, errLost) {
			t.Errorf("got %v", err)
		}
	}
	f.expectJournal("list networks", "list networks")
	f.around = nil
	f.mustSync()
	f.expectSpec("10.0.0.0/24", "")
}

func TestTheLiveListUsesPages(t *testing.T) {
	var limits []int64
	f := newFixture(t, "10.0.0.0/16", 24)
	f.controller.allocator.list = func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		limits = append(limits, o.Limit)
		n := samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(len(limits))}}
		n.Spec.CIDR = fmt.Sprintf("10.0.%d.0/24", len(limits)-1)
		list := &samplecrdv1.NetworkList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []samplecrdv1.Network{n}}
		if len(limits) < 3 {
			list.Continue = "more"
		}
		return list, nil
	}
	block, err := f.controller.allocator.allocate(t.Context(), testKey, netip.Prefix{})
	if err != nil || block.String() != "10.0.3.0/24" || len(limits) != 3 || limits[0] == 0 {
		t.Errorf("got %v, %v, after pages of %v", block, err, limits)
	}
}

func TestBlocksAllocatedConcurrentlyDoNotOverlap(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.refresh()
	blocks := make([]netip.Prefix, 200)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < len(blocks); i += 8 {
				block, err := f.controller.allocator.allocate(t.Context(), cache.NewObjectName("default", strconv.Itoa(i)), netip.Prefix{})
				if err != nil {
					t.Error(err)
				}
				blocks[i] = block
			}
		})
	}
	group.Wait()
	slices.SortFunc(blocks, netip.Prefix.Compare)
	for i, block := range blocks {
		if want := fmt.Sprintf("10.0.%d.0/24", i); block.String() != want {
			t.Fatalf("got %v", blocks)
		}
	}
}

// deployedAs creates a Deployment and syncs it.
func (f *fixture) deployedAs(cidr string) {
	f.t.Helper()
	f.deploy("web", cidr, "-")
	f.mustSync()
}

// controllersOwn returns the Networks that have an owner.
func (f *fixture) controllersOwn() []*samplecrdv1.Network {
	return slices.DeleteFunc(f.api.After(f.api.Changes()), func(n *samplecrdv1.Network) bool { return metav1.GetControllerOf(n) == nil })
}

// Random steps of Deployments, users, caches, the connection and the process: a write is refused, its answer is
// lost, and the process dies at any time. After each step no two blocks overlap.
func TestBlocksNeverOverlapInARandomWalk(t *testing.T) {
	seed := *seed
	for walk := range 8 {
		random := rand.New(rand.NewPCG(seed, uint64(walk)))
		f := newFixture(t, "10.0.0.0/24", 28) // 16 blocks
		f.stray("stray", "192.168.0.0/24", declares("10.0.0.0/28", "fd00::/64", "10.0.0.64/28", "10.0.0.99/30"))
		for range 200 {
			f.step(random)
			f.expectApart()
			if t.Failed() {
				t.Fatalf("seed %d, walk %d", seed, walk)
			}
		}
		f.around = nil
		for range 3 { // without further steps, all Deployments get their Networks
			f.collectGarbage()
			for i := range 10 {
				f.refresh()
				f.must(f.sync(strconv.Itoa(i)))
			}
		}
		f.expectAllWell()
		if t.Failed() {
			t.Fatalf("seed %d, walk %d", seed, walk)
		}
		f.takeEvents()
	}
}

func (f *fixture) step(random *rand.Rand) {
	name := strconv.Itoa(random.IntN(10))
	_, err := f.kube.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), testKey.Namespace, name)
	switch random.IntN(12) {
	case 0, 1:
		if err != nil {
			f.deploy(name, "auto", "-")
		}
	case 2:
		if err == nil {
			f.editDeployment(name, func(d *appsv1.Deployment) { d.Annotations = annotations("-", "-") })
		}
	case 3:
		if err == nil {
			f.editDeployment(name, func(d *appsv1.Deployment) { d.Annotations = annotations("auto", "-") })
		}
	case 4:
		if err == nil {
			f.undeploy(name)
		}
		if random.IntN(2) == 0 {
			f.collectGarbage()
		}
	case 5:
		f.start()
		// The cache of a new process may be stale. The live list is not.
		f.refreshNetworks(random.IntN(f.api.Changes() + 1))
	case 6:
		f.around = nil
		if write := []string{"create networks", "patch networks", "delete networks"}[random.IntN(3)]; random.IntN(2) == 0 {
			f.lose(write)
		} else if random.IntN(2) == 0 {
			f.fail(write, errLost)
		}
	case 7:
		f.refresh()
	case 8:
		f.refreshDeployments()
	default:
		_ = f.sync(name) // errors are expected
	}
}

// collectGarbage deletes the Networks whose owners are gone.
func (f *fixture) collectGarbage() {
	f.t.Helper()
	for _, n := range f.controllersOwn() {
		object, err := f.kube.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), testKey.Namespace, n.Name)
		if err != nil || !metav1.IsControlledBy(n, object.(*appsv1.Deployment)) {
			f.api.Delete(n)
		}
	}
}

// expectAllWell fails unless exactly the Deployments that request a Network own one.
func (f *fixture) expectAllWell() {
	f.t.Helper()
	object, err := f.kube.Tracker().List(appsv1.SchemeGroupVersion.WithResource("deployments"), deploymentKind, "")
	f.must(err)
	for _, d := range object.(*appsv1.DeploymentList).Items {
		n := f.find(d.Name)
		if has := n != nil && metav1.IsControlledBy(n, &d); has != requestsNetwork(&d) {
			f.t.Errorf("Deployment %s: it requests a Network: %v; it owns one: %v", d.Name, requestsNetwork(&d), has)
		}
	}
	if n := len(f.controller.allocator.reserved); n > 0 {
		f.t.Errorf("%d are still reserved", n)
	}
}
