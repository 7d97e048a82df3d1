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

package orphans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

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

// Options are what a Finder is told from outside.
type Options struct {
	// Clouds returns the clouds that are in use, the controller's own first.
	Clouds func() []*neutron.Cloud
	// Removal says which orphans are removed.
	Removal Removal
}

// Finder compares what the clouds' Observers have seen with all Networks in Kubernetes,
// those of all namespaces: with those of some, all others' networks would be orphans.
// Its methods may be called concurrently.
type Finder struct {
	options Options
	client  clientset.Interface
	cached  listers.NetworkLister
	synced  cache.DoneChecker
	// awake holds something when an Observer has looked.
	awake chan struct{}

	mu sync.Mutex
	// known holds what the last comparison of each cloud has found.
	known map[*neutron.Cloud]*found
}

// found is what a comparison has found.
type found struct {
	// looks is how many looks there had been.
	looks   int
	orphans map[string]Orphan
	// refusal is why they were left alone, "" if they were not.
	refusal string
}

// NewFinder makes a Finder. The caller starts the informer, has each Observer's OnRelist call
// Wake, and then calls Run.
func NewFinder(client clientset.Interface, informer informers.TypedNetworkInformer, options Options) *Finder {
	return &Finder{
		options: options,
		client:  client,
		cached:  informer.Lister(),
		synced:  informer.Informer().HasSyncedChecker(),
		awake:   make(chan struct{}, 1),
		known:   map[*neutron.Cloud]*found{},
	}
}

// Wake has Run look for orphans: an Observer has looked at Neutron. It does not block.
func (f *Finder) Wake() {
	select {
	case f.awake <- struct{}{}:
	default: // it will, anyway
	}
}

// Run looks for orphans whenever it is woken, until ctx is cancelled.
func (f *Finder) Run(ctx context.Context) {
	if !cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", f.synced) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.awake:
		}
		if err := f.find(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to look for orphans in Neutron; the next look at Neutron tries again")
		}
	}
}

// find compares all that was looked at since it was last called, and removes what may be
// removed. The order matters: what Kubernetes says must be younger than what Neutron says.
func (f *Finder) find(ctx context.Context) error {
	before := f.fresh()
	if len(before) == 0 {
		return nil
	}
	owners, err := f.owners(ctx, before)
	if err != nil {
		return err
	}
	for cloud, snapshot := range before {
		f.compare(ctx, cloud, snapshot, owners)
	}
	// One cloud in which it fails does not keep it from the others.
	var failed []error
	for cloud, snapshot := range before {
		failed = append(failed, f.remove(ctx, cloud, snapshot.total(), len(owners)))
	}
	return errors.Join(failed...)
}

// fresh returns what the clouds have that were looked at since they were last compared. It
// forgets those that are no longer in use.
func (f *Finder) fresh() map[*neutron.Cloud]snapshot {
	clouds := sets.New(f.options.Clouds()...)
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.known, func(cloud *neutron.Cloud, _ *found) bool { return !clouds.Has(cloud) })
	fresh := map[*neutron.Cloud]snapshot{}
	for cloud := range clouds {
		now := take(cloud)
		if last := f.known[cloud]; now.looks > 0 && (last == nil || last.looks != now.looks) {
			fresh[cloud] = now
		}
	}
	return fresh
}

func take(cloud *neutron.Cloud) snapshot {
	networks, looks := cloud.Observer().All()
	return snapshot{networks: networks, looks: looks}
}

// owners returns the UIDs of all Networks: as the informer remembers them if each network
// has its owner among them, and otherwise as Kubernetes has them.
func (f *Finder) owners(ctx context.Context, networks map[*neutron.Cloud]snapshot) (sets.Set[types.UID], error) {
	cached, err := f.cached.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	owners := sets.New[types.UID]()
	for _, n := range cached {
		owners.Insert(n.UID)
	}
	for snapshot := range maps.Values(networks) {
		if snapshot.unowned(owners) {
			return f.listOwners(ctx)
		}
	}
	return owners, nil
}

// pageSize is how many Networks are read at once.
const pageSize = 500

// listOwners reads past all caches. A page that fails fails the list.
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

// maxTold is how many orphans of a cloud the log tells of at once.
const maxTold = 100

// compare remembers a cloud's orphans, and tells of those that are new.
func (f *Finder) compare(ctx context.Context, cloud *neutron.Cloud, before snapshot, owners sets.Set[types.UID]) {
	told := 0
	for _, orphan := range sorted(maps.Values(f.remember(cloud, before, owners))) {
		if orphan.seen > 1 {
			continue
		}
		if told++; told <= maxTold {
			orphan.log(ctx).Info("A network in Neutron carries this cluster's mark, and its Network is gone", "delete-orphans", &f.options.Removal)
		}
	}
	if more := told - maxTold; more > 0 {
		klog.FromContext(ctx).Info("More networks in Neutron carry this cluster's mark, and their Networks are gone", "cloud", cloud.Name(), "count", more)
	}
}

func (f *Finder) remember(cloud *neutron.Cloud, before snapshot, owners sets.Set[types.UID]) map[string]Orphan {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.known[cloud]
	if last == nil {
		last = &found{}
	}
	now := compare(cloud.Name(), before, take(cloud), owners, last.orphans, time.Now().UTC().Truncate(time.Second))
	f.known[cloud] = &found{looks: before.looks, orphans: now, refusal: last.refusal}
	return maps.Clone(now)
}

func (o *Orphan) log(ctx context.Context) klog.Logger {
	return klog.LoggerWithValues(klog.FromContext(ctx), "cloud", o.Cloud, "networkID", o.NetworkID, "name", neutron.Printable(o.Name), "ownerUID", neutron.Printable(string(o.OwnerUID)))
}

// remove removes those of a cloud's orphans that may be removed.
func (f *Finder) remove(ctx context.Context, cloud *neutron.Cloud, total, owners int) error {
	for _, orphan := range f.choose(ctx, cloud, total, owners) {
		gone, err := f.removeOne(ctx, cloud, &orphan)
		if errors.Is(err, errAlive) {
			f.forget()
		}
		if err != nil {
			return fmt.Errorf("remove network %s from Neutron: %w", orphan.NetworkID, err)
		}
		f.note(cloud, orphan, gone)
	}
	return nil
}

// choose returns what may be removed, and says when it begins or ceases to be nothing for
// there being so many.
func (f *Finder) choose(ctx context.Context, cloud *neutron.Cloud, total, owners int) []Orphan {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.known[cloud]
	chosen, refusal := removable(now.orphans, f.options.Removal, total, owners)
	text := ""
	if refusal != nil {
		text = refusal.Error()
	}
	if text != now.refusal && text != "" {
		klog.FromContext(ctx).Info("Left all orphans in Neutron, lest it is Kubernetes that has lost its memory; -delete-orphans=all removes them all the same",
			"cloud", cloud.Name(), "reason", text)
	}
	now.refusal = text
	return chosen
}

// note remembers what became of an orphan.
func (f *Finder) note(cloud *neutron.Cloud, orphan Orphan, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if gone {
		delete(f.known[cloud].orphans, orphan.NetworkID)
		return
	}
	f.known[cloud].orphans[orphan.NetworkID] = orphan
}

// forget has all orphans be seen anew before any is removed.
func (f *Finder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for now := range maps.Values(f.known) {
		for id, orphan := range now.orphans {
			orphan.seen = 0
			now.orphans[id] = orphan
		}
	}
}

// errAlive says that Kubernetes has a Network that it has left out of a list.
var errAlive = errors.New("its Network is there, though the list of all Networks did not contain it")

// removeOne removes an orphan if it still is one, nobody has changed it since the look, and
// there are no ports on it. It returns whether it is gone from Neutron.
func (f *Finder) removeOne(ctx context.Context, cloud *neutron.Cloud, orphan *Orphan) (gone bool, err error) {
	now, err := cloud.Client().GetNetwork(ctx, orphan.NetworkID)
	if neutron.ReasonOf(err) == neutron.NotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !unchanged(orphan.network, now) {
		orphan.log(ctx).V(2).Info("Left an orphan in Neutron that has changed since the last look")
		return false, nil
	}
	ports, err := cloud.Client().PortsOnNetwork(ctx, orphan.NetworkID)
	if err != nil {
		return false, err
	}
	if count := len(ports); orphan.Ports == nil || *orphan.Ports != count {
		orphan.Ports = &count
		if count > 0 {
			orphan.log(ctx).Info("Left an orphan in Neutron that has ports on it", "ports", count)
		}
	}
	if len(ports) > 0 {
		return false, nil
	}
	if err := f.confirm(ctx, orphan); err != nil {
		return false, err
	}
	return f.delete(ctx, cloud, orphan, now)
}

// confirm asks Kubernetes once more, past the cache and the list, if the name in Neutron
// tells for whom the network was made.
func (f *Finder) confirm(ctx context.Context, orphan *Orphan) error {
	name, ok := ownerName(orphan.Name)
	if !ok {
		return nil
	}
	network, err := f.client.SamplecrdV1().Networks(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the Network past the cache: %w", err)
	case network.UID == orphan.OwnerUID:
		return errAlive
	}
	return nil
}

// delete deletes the network if it is still as it was read.
func (f *Finder) delete(ctx context.Context, cloud *neutron.Cloud, orphan *Orphan, network *neutron.Network) (gone bool, err error) {
	err = cloud.Client().DeleteNetwork(ctx, network.ID, network.Revision)
	switch neutron.ReasonOf(err) {
	case neutron.Stale, neutron.InUse:
		orphan.log(ctx).V(2).Info("Left an orphan in Neutron that somebody was quicker to change", "err", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cloud.Observer().Delete(orphan.OwnerUID, network.ID)
	orphan.log(ctx).Info("Removed a network from Neutron whose Network is gone")
	return true, nil
}

// List returns the orphans that are known, in the order of their clouds and IDs.
func (f *Finder) List() []Orphan {
	clouds := f.options.Clouds()
	f.mu.Lock()
	defer f.mu.Unlock()
	return sorted(func(yield func(Orphan) bool) {
		for _, cloud := range clouds {
			now := f.known[cloud]
			if now == nil {
				continue
			}
			for orphan := range maps.Values(now.orphans) {
				if !yield(orphan) {
					return
				}
			}
		}
	})
}

// orphansDesc is of the metric.
var orphansDesc = prometheus.NewDesc("samplecrd_orphans",
	"Networks in Neutron that carry this cluster's mark though their Network is gone.", []string{"cloud"}, nil)

// Describe makes a Finder a prometheus.Collector.
func (f *Finder) Describe(descs chan<- *prometheus.Desc) { descs <- orphansDesc }

// Collect counts the orphans of each cloud that was compared. Clouds of one label count
// together.
func (f *Finder) Collect(collected chan<- prometheus.Metric) {
	clouds := f.options.Clouds()
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int{}
	for i, label := range metrics.CloudLabels(clouds) {
		if now := f.known[clouds[i]]; now != nil {
			counts[label] += len(now.orphans)
		}
	}
	for label, count := range counts {
		collected <- prometheus.MustNewConstMetric(orphansDesc, prometheus.GaugeValue, float64(count), label)
	}
}
