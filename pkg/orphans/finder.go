// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/metrics"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Options configure a Finder.
type Options struct {
	// Clouds returns the clouds that are in use. The first is the controller's own.
	Clouds func() []*neutron.Cloud
	// Removal says which orphans are deleted.
	Removal Removal
}

// Finder compares the networks in the clouds' Observers with all Networks in Kubernetes. It
// needs the Networks of all namespaces: otherwise the networks of the other namespaces would
// look like orphans. Its methods are safe for concurrent use.
type Finder struct {
	options Options
	client  clientset.Interface
	cached  listers.NetworkLister
	synced  cache.DoneChecker
	// wake has an item after a relist of an Observer.
	wake chan struct{}

	mu sync.Mutex
	// last has the result of the last comparison of each cloud.
	last map[*neutron.Cloud]result
	// neverOwned has the first orphan of each site that was NeverOwned. It is kept until the
	// process ends, because the other installation remains when its network is gone, or when the
	// cloud is closed and opened again. Those of untrusted sites are forgotten when there are more than maxSites.
	neverOwned map[site]*Orphan
	// deleted has the UIDs of Networks that were deleted lately.
	deleted recent
}

// site is a place, and whether only a server of a user says that it is this one: such a server can claim to be any place, and show any
// networks there. So what it shows says nothing about the clouds of an administrator.
type site struct {
	neutron.Place
	isUntrusted bool
}

func siteOf(cloud *neutron.Cloud) site {
	place, _ := cloud.Client().Place()
	return site{place, cloud.Client().IsUntrusted()}
}

// tellsOf reports whether what is known of this site is true of the other one.
func (s site) tellsOf(other site) bool {
	return s.Place == other.Place && (other.isUntrusted || !s.isUntrusted)
}

// maxSites bounds the memory for sites, because users can name any number of servers.
const maxSites = 1000

// result is the result of a comparison.
type result struct {
	// snapshot is what the Observer had before the comparison.
	snapshot snapshot
	// orphans has the orphans by their IDs.
	orphans map[string]Orphan
	// refusal is the reason why no orphan may be deleted, or "".
	refusal string
}

// NewFinder returns a Finder. The caller starts the informer, lets the OnRelist of each
// Observer call Wake, and then calls Run.
func NewFinder(client clientset.Interface, informer informers.TypedNetworkInformer, options Options) *Finder {
	f := &Finder{
		options: options,
		client:  client,
		cached:  informer.Lister(),
		synced:  informer.Informer().HasSyncedChecker(),
		wake:    make(chan struct{}, 1),
		last:    map[*neutron.Cloud]result{},

		neverOwned: map[site]*Orphan{},
	}
	handler := informers.NetworkHandlerFuncs{DeleteFunc: func(n informers.DeletedNetwork) {
		if n.OptionalObj != nil {
			f.addDeleted(n.OptionalObj.UID)
		}
	}}
	if _, err := informer.TypedInformer().AddTypedEventHandler(handler); err != nil {
		panic(err) // the informer has not been started
	}
	return f
}

func (f *Finder) addDeleted(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted.add(uid)
}

// Wake makes Run look for orphans. It is called after a relist, and does not block.
func (f *Finder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default: // Run is already due
	}
}

// Run looks for orphans after each call of Wake, until ctx is cancelled.
func (f *Finder) Run(ctx context.Context) {
	if !cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", f.synced) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if err := f.find(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to look for orphans in Neutron, will try again after the next relist")
		}
	}
}

// find compares the clouds that were relisted since the last call, and deletes the orphans
// that may be deleted. The order matters: the list of Kubernetes must be newer than the list
// of Neutron, or a network that was just created would look like an orphan.
func (f *Finder) find(ctx context.Context) error {
	before := f.fresh()
	if len(before) == 0 {
		return nil
	}
	owners, cached, err := f.owners(ctx, before)
	if err != nil {
		return err
	}
	for cloud, snapshot := range before {
		f.compareCloud(ctx, cloud, snapshot, owners, cached)
	}
	// Neither an error in one cloud nor a slow cloud stops the others, but all stop if the list of Kubernetes was wrong.
	var isWrong atomic.Bool
	failed := make(chan error, len(before))
	for cloud, snapshot := range before {
		go func() { failed <- f.remove(ctx, cloud, snapshot.total(), len(owners), &isWrong) }()
	}
	var errs []error
	for range before {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// fresh returns snapshots of the clouds that were relisted since their last comparison. It
// deletes the results of clouds that are no longer in use.
func (f *Finder) fresh() map[*neutron.Cloud]snapshot {
	clouds := sets.New(f.options.Clouds()...)
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.last, func(cloud *neutron.Cloud, _ result) bool { return !clouds.Has(cloud) })
	fresh := map[*neutron.Cloud]snapshot{}
	for cloud := range clouds {
		if now := takeSnapshot(cloud); now.relists != f.last[cloud].snapshot.relists {
			fresh[cloud] = now
		}
	}
	return fresh
}

func takeSnapshot(cloud *neutron.Cloud) snapshot {
	owned, relists := cloud.Observer().All()
	return snapshot{owned: owned, relists: relists}
}

// owners returns the UIDs of all Networks, and those in the cache. It reads the cache, and
// lists the Networks live only if the cache lacks the owner of a network.
func (f *Finder) owners(ctx context.Context, networks map[*neutron.Cloud]snapshot) (owners, cached sets.Set[types.UID], err error) {
	list, err := f.cached.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	cached = sets.New[types.UID]()
	for _, n := range list {
		cached.Insert(n.UID)
	}
	for snapshot := range maps.Values(networks) {
		if snapshot.unowned(cached) {
			owners, err = f.listOwners(ctx)
			return owners, cached, err
		}
	}
	return cached, cached, nil
}

// pageSize is the number of Networks in a page of the live list.
const pageSize = 500

// listOwners lists the Networks live. If a page fails, the whole list fails.
func (f *Finder) listOwners(ctx context.Context) (sets.Set[types.UID], error) {
	owners := sets.New[types.UID]()
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := f.client.SamplecrdV1().Networks(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list Networks: %w", err)
		}
		for i := range page.Items {
			owners.Insert(page.Items[i].UID)
		}
		if page.Continue == "" {
			return owners, nil
		}
		options.Continue = page.Continue
	}
}

// maxLogged is the maximum number of orphans of a cloud that one comparison logs.
const maxLogged = 100

// compareCloud compares a cloud with the owners and logs the new orphans.
func (f *Finder) compareCloud(ctx context.Context, cloud *neutron.Cloud, before snapshot, owners, cached sets.Set[types.UID]) {
	now, neverOwned := f.store(cloud, before, owners, cached)
	logged := 0
	for _, orphan := range sorted(maps.Values(now.orphans)) {
		if orphan.sightings > 1 {
			continue
		}
		if logged++; logged <= maxLogged {
			orphan.log(ctx).Info("Found an orphan in Neutron: its Network is gone", "delete-orphans", &f.options.Removal)
		}
	}
	if neverOwned != nil {
		neverOwned.log(ctx).Info("A network has appeared in Neutron with the mark of this cluster, but without a Network: another installation probably has the same cluster ID. No orphan of this cloud is deleted any more. Give each installation its own -cluster-id, as artifacts/deploy/procedures.md describes",
			"clusterID", neverOwned.owner().Cluster)
	}
	if more := logged - maxLogged; more > 0 {
		klog.FromContext(ctx).Info("Found more orphans in Neutron", "cloud", cloud.Name(), "count", more)
	}
}

// store stores and returns the result of comparing a cloud. neverOwned is nil unless it is the
// first orphan of the cloud's place that is NeverOwned.
func (f *Finder) store(cloud *neutron.Cloud, before snapshot, owners, cached sets.Set[types.UID]) (now result, neverOwned *Orphan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, compared := f.last[cloud]
	at := siteOf(cloud)
	if !compared {
		last.snapshot, compared = f.snapshotOf(at)
	}
	orphans := compare(cloud.Name(), before, takeSnapshot(cloud), owners, last.orphans, time.Now().UTC().Truncate(time.Second))
	if compared {
		// The cache may be behind the live list, and the handler behind the cache.
		setNeverOwned(orphans, last.snapshot, func(uid types.UID) bool { return cached.Has(uid) || f.deleted.has(uid) })
	}
	if f.neverOwnedAt(at) == nil {
		if neverOwned = firstNeverOwned(orphans); neverOwned != nil {
			f.neverOwned[at] = neverOwned
		}
	}
	if len(f.neverOwned) > maxSites {
		maps.DeleteFunc(f.neverOwned, func(s site, _ *Orphan) bool { return s != at && s.isUntrusted })
	}
	now = result{snapshot: before, orphans: orphans, refusal: last.refusal}
	f.last[cloud] = now
	now.orphans = maps.Clone(orphans)
	return now, neverOwned
}

// neverOwnedAt returns the first orphan of the place that was NeverOwned; nil if there was none.
func (f *Finder) neverOwnedAt(s site) *Orphan {
	return cmp.Or(f.neverOwned[s], f.neverOwned[site{Place: s.Place}])
}

// snapshotOf returns what another cloud had when it was compared last, if both lead to the same place: what has appeared since is
// new for a cloud that was opened later, too.
func (f *Finder) snapshotOf(s site) (last snapshot, compared bool) {
	for cloud, result := range f.last {
		if siteOf(cloud).tellsOf(s) {
			return result.snapshot, true
		}
	}
	return snapshot{}, false
}

// log returns a logger with the values that identify the orphan.
func (o *Orphan) log(ctx context.Context) klog.Logger {
	kind := "networkID"
	if o.NetworkID == "" {
		kind = "routerID"
	}
	return klog.LoggerWithValues(klog.FromContext(ctx), "cloud", o.Cloud, kind, o.id(), "name", neutron.Printable(o.Name), "ownerUID", neutron.Printable(string(o.OwnerUID)))
}

// remove deletes the orphans of a cloud that may be deleted. One that Neutron refuses to delete does not stop the others. The next
// comparison of all clouds waits for it, so it takes as long as a sync at most.
func (f *Finder) remove(ctx context.Context, cloud *neutron.Cloud, total, owners int, isWrong *atomic.Bool) (failed error) {
	ctx = neutron.ForSync(ctx, uuid.New())
	for _, orphan := range f.selectRemovable(ctx, cloud, total, owners) {
		if isWrong.Load() {
			return failed
		}
		gone, err := f.removeOne(ctx, cloud, &orphan)
		if errors.Is(err, errOwnerExists) {
			isWrong.Store(true)
			f.resetSightings()
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("delete orphan %s from Neutron: %w", orphan.id(), err))
			if _, isOutage := cloud.Client().Away(); isOutage || neutron.ReasonOf(err) == "" || ctx.Err() != nil {
				return failed
			}
			continue
		}
		if gone {
			cloud.ForgetOwner(orphan.OwnerUID)
		}
		f.update(cloud, orphan, gone)
	}
	return failed
}

// selectRemovable returns the orphans that may be deleted now. If none may be deleted, it logs
// the reason once.
func (f *Finder) selectRemovable(ctx context.Context, cloud *neutron.Cloud, total, owners int) []Orphan {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.last[cloud]
	chosen, refusal := removable(now.orphans, f.options.Removal, total, owners, f.neverOwnedAt(siteOf(cloud)))
	text := ""
	if refusal != nil {
		text = refusal.Error()
	}
	if text != now.refusal && text != "" {
		klog.FromContext(ctx).Info("Left all orphans in Neutron", "cloud", cloud.Name(), "reason", text)
	}
	now.refusal = text
	f.last[cloud] = now
	return chosen
}

// update stores the state of an orphan, or removes it from the result if it is gone.
func (f *Finder) update(cloud *neutron.Cloud, orphan Orphan, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	orphans, id := f.last[cloud].orphans, orphan.id()
	if gone {
		delete(orphans, id)
		return
	}
	orphan.sightings = orphans[id].sightings // they may have been reset meanwhile
	orphans[id] = orphan
}

// resetSightings sets the sightings of all orphans to 0, so that none is deleted before it has
// been found often enough again.
func (f *Finder) resetSightings() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for now := range maps.Values(f.last) {
		for id, orphan := range now.orphans {
			orphan.sightings = 0
			now.orphans[id] = orphan
		}
	}
}

// errOwnerExists means that the API server has a Network that its list did not contain.
var errOwnerExists = errors.New("its Network exists, but the list of all Networks did not contain it")

// removeOne deletes an orphan if it has no ports, and if no client has changed it since the
// relist. It returns whether the orphan is gone from Neutron.
func (f *Finder) removeOne(ctx context.Context, cloud *neutron.Cloud, orphan *Orphan) (gone bool, err error) {
	identity := neutron.Identity{Owner: orphan.owner(), NetworkID: orphan.NetworkID, Routed: len(orphan.observed.Routers) > 0, AllRoutes: true}
	now, err := cloud.Observe(ctx, identity, neutron.Live)
	if err != nil {
		return false, err
	}
	if !slices.Contains(idsOf(now), orphan.id()) {
		return true, nil
	}
	if !unchanged(orphan.observed, now) {
		orphan.log(ctx).V(2).Info("Left an orphan in Neutron that has changed since the last relist")
		return false, nil
	}
	if hasPorts, err := f.hasPorts(ctx, cloud, orphan, now); err != nil || hasPorts {
		return false, err
	}
	guard := neutron.Guard{Verify: func(ctx context.Context) error { return f.verify(ctx, orphan) }}
	now, err = cloud.RemoveRouters(ctx, identity, now, guard)
	switch {
	case neutron.ReasonOf(err) == neutron.InUse:
		if message := err.Error(); orphan.inUse != message {
			orphan.inUse = message
			orphan.log(ctx).Info("Left an orphan in Neutron whose router is in use", "err", err)
		}
		return false, nil
	case err != nil:
		return false, err
	case !now.Exists():
		orphan.log(ctx).Info("Deleted an orphan from Neutron")
		return true, nil
	}
	if err := f.verify(ctx, orphan); err != nil {
		return false, err
	}
	return f.delete(ctx, cloud, orphan, now)
}

// hasPorts reports whether ports prevent the deletion of the orphan, and stores their number in it.
func (f *Finder) hasPorts(ctx context.Context, cloud *neutron.Cloud, orphan *Orphan, now *neutron.Observed) (bool, error) {
	if !now.Exists() {
		return false, nil
	}
	ports, err := cloud.Client().PortsOnNetworks(ctx, now.ID)
	if err != nil {
		return false, err
	}
	count := len(blocking(orphan.owner(), now, ports))
	if orphan.Ports == nil || *orphan.Ports != count {
		orphan.Ports = &count
		if count > 0 {
			orphan.log(ctx).Info("Left an orphan in Neutron that has ports on it", "ports", count)
		}
	}
	return count > 0, nil
}

// verify reads the owner of an orphan live, and returns errOwnerExists if it exists. It does
// nothing if the name of the network is not that of a Network.
func (f *Finder) verify(ctx context.Context, orphan *Orphan) error {
	name, ok := ownerName(orphan.Name)
	if !ok {
		return nil
	}
	network, err := f.client.SamplecrdV1().Networks(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the Network live: %w", err)
	case network.UID == orphan.OwnerUID:
		return errOwnerExists
	}
	return nil
}

// delete deletes the network if it has not changed since it was read.
func (f *Finder) delete(ctx context.Context, cloud *neutron.Cloud, orphan *Orphan, network *neutron.Observed) (gone bool, err error) {
	err = cloud.Client().DeleteNetwork(ctx, network.ID, network.Revision)
	switch neutron.ReasonOf(err) {
	case neutron.Stale, neutron.InUse:
		orphan.log(ctx).V(2).Info("Left an orphan in Neutron that another client has just changed", "err", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cloud.Observer().Delete(orphan.OwnerUID, network.ID)
	orphan.log(ctx).Info("Deleted an orphan from Neutron")
	return true, nil
}

// List returns the orphans of the last comparisons, sorted by cloud and ID.
func (f *Finder) List() []Orphan {
	clouds := f.options.Clouds()
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Orphan
	for _, cloud := range clouds {
		all = slices.AppendSeq(all, maps.Values(f.last[cloud].orphans))
	}
	return sorted(slices.Values(all))
}

// orphansDesc describes the metric samplecrd_orphans.
var orphansDesc = prometheus.NewDesc("samplecrd_orphans",
	"Networks in Neutron, and routers without a network, that have the mark of this cluster but whose Network is gone.", []string{"cloud"}, nil)

// Describe makes a Finder a prometheus.Collector.
func (f *Finder) Describe(descs chan<- *prometheus.Desc) { descs <- orphansDesc }

// Collect counts the orphans of each cloud that has been compared. It adds up the clouds that
// have the same label.
func (f *Finder) Collect(collected chan<- prometheus.Metric) {
	clouds := f.options.Clouds()
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for i, label := range metrics.CloudLabels(clouds) {
		if now, compared := f.last[clouds[i]]; compared {
			counts[label] += len(now.orphans)
		}
	}
	for label, count := range counts {
		collected <- prometheus.MustNewConstMetric(orphansDesc, prometheus.GaugeValue, float64(count), label)
	}
}
