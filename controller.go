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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

// fieldManager is the controller's name in managedFields.
const fieldManager = "samplecrd-controller"

// The indexes of Networks: byUID leads from the UID in a mark to the Network, bySecret from
// a Secret to the Networks that refer to it.
const (
	byUID    = "uid"
	bySecret = "secret"
)

// ControllerOptions are what a Controller is told from outside.
type ControllerOptions struct {
	// Cluster is the cluster's ID, which marks what is the controller's own in Neutron.
	Cluster string
	// Resync is how often what is final is looked at again, lest it was not.
	Resync time.Duration
	// Retry says how failed syncs are spaced out.
	Retry retry.Options
	// Share is how many workers may work for one cloud at the same time, but for the
	// controller's own, and ShareOfAll how many for all those clouds together.
	Share, ShareOfAll int
	// OnRepair is told of the steps that have put right what others had changed in Neutron;
	// nil: nobody is.
	OnRepair func([]neutron.Step)
}

// Controller makes Neutron's networks match the Networks in Kubernetes.
type Controller struct {
	options ControllerOptions
	client  clientset.Interface
	// cloud is the controller's own, credentials lead to the clouds of the Networks that
	// name credentials of their own.
	cloud       *neutron.Cloud
	credentials *clouds.Set
	// share and retries keep one cloud of those from holding up the Networks of all others.
	share   *fair.Share[*neutron.Cloud, cache.ObjectName]
	retries *fair.Limiter[clouds.Ref, cache.ObjectName]

	networks listers.NetworkLister
	indexer  cache.TypedIndexer[*samplecrdv1.Network]
	// networksSynced is done when the handlers have seen the informer's first list.
	networksSynced cache.DoneChecker

	// queue holds the names of the Networks that somebody has to look at. It hands out
	// each to one worker at a time, however often it was added.
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	recorder record.EventRecorder

	mu sync.Mutex
	// written holds the resourceVersion of our last write of a Network, by UID, until the
	// cache has it: see behind.
	written map[types.UID]string
	// abandoned are Networks that are gone, and may have left something in Neutron.
	abandoned map[cache.ObjectName][]*samplecrdv1.Network
	// refs holds which credentials each Network was seen to refer to, users how many
	// Networks refer to each.
	refs  map[cache.ObjectName]clouds.Ref
	users map[clouds.Ref]int

	// sync is syncHandler, or what a test of the queue puts in its place.
	sync func(context.Context, cache.ObjectName) error
}

// NewController makes a Controller and registers its handlers. The caller starts the
// informer, and then calls Run.
func NewController(client clientset.Interface, informer informers.TypedNetworkInformer, cloud *neutron.Cloud, credentialsSet *clouds.Set, recorder record.EventRecorder, options ControllerOptions) (*Controller, error) {
	c := &Controller{
		options:     options,
		client:      client,
		cloud:       cloud,
		credentials: credentialsSet,
		networks:    informer.Lister(),
		indexer:     informer.TypedInformer().GetTypedIndexer(),
		recorder:    recorder,
		written:     map[types.UID]string{},
		abandoned:   map[cache.ObjectName][]*samplecrdv1.Network{},
		refs:        map[cache.ObjectName]clouds.Ref{},
		users:       map[clouds.Ref]int{},
	}
	c.retries = fair.NewLimiter(c.refOfKey, func() workqueue.TypedRateLimiter[cache.ObjectName] {
		return retry.NewLimiter[cache.ObjectName](options.Retry)
	})
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig[cache.ObjectName](c.retries,
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "networks"})
	c.share = fair.NewShare[*neutron.Cloud](options.Share, options.ShareOfAll, c.queue.Add)
	c.sync = c.syncHandler
	err := informer.TypedInformer().AddTypedIndexers(informers.NetworkIndexers{
		byUID:    func(n *samplecrdv1.Network) ([]string, error) { return []string{string(n.UID)}, nil },
		bySecret: func(n *samplecrdv1.Network) ([]string, error) { return secretOf(n), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("index Networks: %w", err)
	}
	registration, err := informer.TypedInformer().AddTypedEventHandler(c.handlers())
	if err != nil {
		return nil, fmt.Errorf("handle the events of Networks: %w", err)
	}
	c.networksSynced = registration.HasSyncedChecker()
	cloud.Observer().AddHandler(c.enqueueOwner)
	cloud.Observer().OnRecovery(c.enqueueAll)
	credentialsSet.OnDrift(c.enqueueOwner)
	credentialsSet.OnChange(c.enqueueUsers)
	return c, nil
}

// refOf returns which credentials the Network names; false: the controller's own.
func refOf(network *samplecrdv1.Network) (ref clouds.Ref, ok bool) {
	named := network.Spec.CloudCredentialsRef
	if named == nil {
		return clouds.Ref{}, false
	}
	return clouds.Ref{Secret: cache.NewObjectName(network.Namespace, named.SecretName), CloudName: named.CloudName}, true
}

// secretOf returns the name of the Secret that the Network refers to, if it does.
func secretOf(network *samplecrdv1.Network) []string {
	if ref, ok := refOf(network); ok {
		return []string{ref.Secret.String()}
	}
	return nil
}

// handlers turn the informer's events into keys in the queue.
func (c *Controller) handlers() informers.NetworkHandlerFuncs {
	return informers.NetworkHandlerFuncs{
		AddFunc: func(n *samplecrdv1.Network) { c.queue.Add(cache.MetaObjectToName(n)) },
		UpdateFunc: func(before, now *samplecrdv1.Network) {
			if needsSync(before, now) {
				c.queue.Add(cache.MetaObjectToName(now))
			}
		},
		// The name is known even of what was deleted while the watch was cut off.
		DeleteFunc: func(n informers.DeletedNetwork) {
			if gone := n.OptionalObj; gone != nil {
				c.forget(gone.UID)
				// Only of what was seen to go: a list without it may come from a Kubernetes that
				// has lost its memory.
				if n.FinalStateUnknown == nil && overlooked(gone) {
					c.abandon(gone)
				}
			}
			c.queue.Add(n.GetObjectName())
		},
	}
}

// needsSync says whether something has changed that a sync looks at. Our own writes are
// no reason to look again, nor is a periodic resync; but that somebody has taken the
// finalizer off, or wiped the status, is.
func needsSync(before, now *samplecrdv1.Network) bool {
	return before.UID != now.UID ||
		before.Generation != now.Generation ||
		before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		isPaused(before) != isPaused(now) ||
		now.Annotations[samplecrdv1.AnnotationReconcileRequestedAt] != before.Annotations[samplecrdv1.AnnotationReconcileRequestedAt] ||
		hasFinalizer(before) && !hasFinalizer(now) ||
		status.Known(&before.Status) && !status.Known(&now.Status)
}

// enqueueOwner is the Observer's handler: Neutron's side of the loop.
func (c *Controller) enqueueOwner(uid types.UID) {
	for _, n := range c.indexed(byUID, string(uid)) {
		c.queue.Add(cache.MetaObjectToName(n))
	}
}

// enqueueUsers wakes the Networks that refer to the Secret.
func (c *Controller) enqueueUsers(secret cache.ObjectName) {
	for _, n := range c.indexed(bySecret, secret.String()) {
		c.queue.Add(cache.MetaObjectToName(n))
	}
}

// indexed returns the Networks that an index leads to.
func (c *Controller) indexed(index, value string) []*samplecrdv1.Network {
	networks, err := c.indexer.ByTypedIndex(index, value)
	if err != nil {
		// The indexes were registered by NewController.
		panic(err)
	}
	return networks
}

// Run looks at both sides once, and then works until ctx is cancelled. What the workers
// have in hand then, they finish; what is still queued, the next process finds again.
func (c *Controller) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()

	running.Go(func() { c.cloud.Observer().Run(ctx) })
	if !cache.WaitFor(klog.NewContext(ctx, logger.V(2)), "Networks", c.networksSynced) {
		return ctx.Err()
	}
	// If Neutron is away, the workers say so in the status; they do not wait for it.
	select {
	case <-c.cloud.Observer().FirstListDone():
	case <-ctx.Done():
		return ctx.Err()
	}

	logger.Info("Starting workers", "count", workers)
	for range workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	<-ctx.Done()
	logger.Info("Letting the workers finish what they have in hand")
	return nil
}

// enqueueAll wakes all Networks, those that wait for Neutron among them. Those that are
// in order cost nothing.
func (c *Controller) enqueueAll() {
	for _, key := range c.indexer.ListKeys() {
		if name, err := cache.ParseObjectName(key); err == nil {
			c.queue.Add(name)
		}
	}
}

func (c *Controller) runWorker(ctx context.Context) {
	// A queue that was shut down still hands out what it holds.
	for ctx.Err() == nil && c.processNextWorkItem(ctx) {
	}
}

func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)

	if c.settled(key) {
		if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
			logger.Info("Synced", "network", key)
		}
		c.share.Pass(key)
		c.queue.Forget(key)
		return true
	}
	// Neutron logs the ID with each request of this sync.
	id := uuid.New()
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "network", key, "reconcileID", id)
	logger.V(4).Info("Syncing")
	// A request to Neutron that is cut off may have taken effect or not. So shutting
	// down does not cut it off: each request has a time-out of its own.
	ctx = neutron.WithReconcileID(context.WithoutCancel(ctx), id)
	err := c.recoverSync(klog.NewContext(ctx, logger), key)
	if errors.Is(err, errBehind) {
		c.queue.AddAfter(key, catchUp)
		return true
	}
	if errors.Is(err, errNotYet) {
		logger.V(4).Info("Not yet", "err", err)
		return true
	}
	if err == nil {
		logger.V(4).Info("Synced")
		c.queue.Forget(key)
		return true
	}
	if delay, known := retry.After(err, c.options.Resync); known {
		logger.V(2).Info("Will try again", "after", delay, "err", err, "requestID", neutron.RequestIDOf(err))
		c.queue.Forget(key)
		c.queue.AddAfter(key, delay)
		return true
	}
	// What Neutron's errors mean is told by the status and by events, once; and a
	// conflict only means that the cache was behind.
	if neutron.ReasonOf(err) != "" || apierrors.IsConflict(err) || errors.Is(err, clouds.ErrNotYet) {
		logger.V(2).Info("Will try again", "err", err, "requestID", neutron.RequestIDOf(err))
	} else {
		logger.Error(err, "Failed to sync, will try again")
	}
	c.queue.AddRateLimited(key)
	return true
}

// settled says whether a sync of the Network would find nothing to do, for all that is in
// memory. Most find nothing, after a start or when another replica takes over: they make no
// more of it than that.
func (c *Controller) settled(key cache.ObjectName) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // the sync tells of it
		}
	}()
	network, err := c.networks.Networks(key.Namespace).Get(key.Name)
	if err != nil || !network.DeletionTimestamp.IsZero() || !hasFinalizer(network) || isPaused(network) ||
		!status.InOrder(network) || status.RequestedLook(network) != "" || c.behind(network) || c.hasAbandoned(key) {
		return false
	}
	cloud, err := c.cloudOf(key, network)
	if err != nil {
		return false
	}
	identity := c.identity(network)
	have, _, err := cloud.Owned(identity)
	if err != nil || !have.Exists() {
		return false
	}
	want, err := desired(network, c.options.Cluster)
	if err != nil || neutron.Next(want, have) != nil || cloud.Surplus(identity, have) != nil {
		return false
	}
	next := status.Compute(network, inCloud(cloud, outcomeOf(want, have)))
	return status.Equal(&network.Status, &next)
}

// outcomeOf is that of a sync after which Neutron has that.
func outcomeOf(want neutron.Desired, have *neutron.Network) status.Outcome {
	return status.Outcome{Have: have, Subnet: neutron.Current(want, have), Foreign: neutron.Foreign(want, have)}
}

// inCloud adds to an outcome what is known of the cloud.
func inCloud(cloud *neutron.Cloud, outcome status.Outcome) status.Outcome {
	outcome.Cloud = cloud.Name()
	if place, ok := cloud.Client().Place(); ok {
		outcome.Place = &place
	}
	outcome.Away, _ = cloud.Client().Away()
	return outcome
}

// recoverSync makes an error of a panic, so that one poisonous object does not stop all
// the others.
func (c *Controller) recoverSync(ctx context.Context, key cache.ObjectName) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.sync(ctx, key)
}

// syncHandler compares what a Network asks for with what Neutron has, and acts on the
// difference. It may be called at any time and any number of times.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) error {
	defer c.share.Pass(key)
	// What others of that name have left must not hold up the one that there is now.
	leftErr := c.removeAbandoned(ctx, key)
	if err := c.syncNetwork(ctx, key); err != nil {
		return err
	}
	return leftErr
}

func (c *Controller) syncNetwork(ctx context.Context, key cache.ObjectName) error {
	network, err := c.networks.Networks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(4).Info("Network is gone")
		c.queue.Forget(key) // while it is known which credentials it had
		c.refer(key, clouds.Ref{})
		return nil
	}
	if err != nil {
		return err
	}
	if c.behind(network) {
		return errBehind
	}
	if statusless(network) {
		if network, err = c.rereadStatus(ctx, network); err != nil {
			return err
		}
	}
	if !network.DeletionTimestamp.IsZero() && !hasFinalizer(network) {
		return nil // it waits for others
	}
	cloud, err := c.cloudOf(key, network)
	if neutron.ReasonOf(err) == neutron.NoCredentials && !network.DeletionTimestamp.IsZero() {
		cloud, err = c.lastCloudOf(ctx, network, err)
	}
	if errors.Is(err, clouds.ErrNotYet) {
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	if err != nil {
		return c.report(ctx, nil, network, status.Outcome{Err: err}, nil)
	}
	if cloud != c.cloud {
		if !c.share.Enter(cloud, key) {
			return errNotYet
		}
		defer c.share.Leave(cloud)
	}
	if !network.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, cloud, network)
	}
	return c.reconcile(ctx, cloud, network)
}

// statusless says whether the Network has no status at all, not even the one that the
// CustomResourceDefinition gives to all.
func statusless(network *samplecrdv1.Network) bool {
	return status.Equal(&network.Status, &samplecrdv1.NetworkStatus{})
}

// rereadStatus returns the Network as the API server has it in the place where its status
// is, by a patch that changes nothing. If there is no such place, the API server goes by an
// older CustomResourceDefinition, and hides what that one does not know: where the network
// is, whose credentials made it, whether it is to be retained. Then nothing is safe to do.
// The cache may go on holding what it saw then, after the right one is back.
func (c *Controller) rereadStatus(ctx context.Context, network *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	live, err := c.client.SamplecrdV1().Networks(network.Namespace).Patch(ctx, network.Name, types.MergePatchType, []byte("{}"),
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if isGone(err) {
		return nil, fmt.Errorf("find the status: %w: if the Network is there, the CustomResourceDefinition is too old; kubectl apply -f artifacts/crd", err)
	}
	if err != nil {
		return nil, fmt.Errorf("find the status: %w", err)
	}
	if live.UID != network.UID {
		return nil, apierrors.NewConflict(samplecrdv1.Resource("networks"), network.Name, errors.New("it is another one by now"))
	}
	return live, nil
}

// errNotYet is returned by a sync that will be woken when it can go on.
var errNotYet = errors.New("it is not this Network's turn yet")

// cloudOf returns the cloud that the Network is for. Under that key it refers to its
// credentials until the key refers to others.
func (c *Controller) cloudOf(key cache.ObjectName, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	ref, ok := refOf(network)
	c.refer(key, ref)
	if !ok {
		return c.cloud, nil
	}
	return c.credentials.For(ref)
}

// lastCloudOf returns the cloud that a Network has worked in whose credentials have gone
// with their namespace, and err if they have not.
func (c *Controller) lastCloudOf(ctx context.Context, network *samplecrdv1.Network, err error) (*neutron.Cloud, error) {
	ref, _ := refOf(network)
	last, lastErr := c.credentials.Last(ctx, ref)
	if lastErr != nil {
		return nil, lastErr
	}
	if last == nil {
		return nil, err
	}
	return last, nil
}

// refer remembers which credentials the Network of that name refers to, the zero Ref for
// none, and releases those that nobody refers to any more.
func (c *Controller) refer(key cache.ObjectName, ref clouds.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.refs[key]
	if before == ref {
		return
	}
	if ref == (clouds.Ref{}) {
		delete(c.refs, key)
	} else {
		c.refs[key] = ref
		c.users[ref]++
	}
	if before == (clouds.Ref{}) {
		return
	}
	if c.users[before]--; c.users[before] == 0 {
		delete(c.users, before)
		// With the lock held, so that nobody comes to use them between the two.
		c.credentials.Release(before)
		c.retries.Drop(before)
	}
}

// refOfKey returns which credentials the Network of that name was last seen to refer to;
// the zero Ref for none.
func (c *Controller) refOfKey(key cache.ObjectName) clouds.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refs[key]
}

// errBehind is returned by a sync that has to wait for the cache.
var errBehind = errors.New("the cache has not seen our own last write yet")

// catchUp is how long a sync waits for the cache, which is rarely that far behind.
const catchUp = 20 * time.Millisecond

// behind says whether the cache holds an older Network than we have written ourselves. A
// sync of that one would take our last status for the one before it, find that it has
// nothing to write, and leave the wrong one there.
func (c *Controller) behind(network *samplecrdv1.Network) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	written, ok := c.written[network.UID]
	if !ok {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(network.ResourceVersion, written); err == nil && order < 0 {
		return true
	}
	delete(c.written, network.UID)
	return false
}

// wrote remembers what the API server has answered to a write.
func (c *Controller) wrote(network *samplecrdv1.Network) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[network.UID] = network.ResourceVersion
}

// forget is for a Network that is gone, or on its way.
func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, uid)
}

// reconcile brings a Network about that is to be there.
func (c *Controller) reconcile(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network) error {
	want, err := desired(network, c.options.Cluster)
	if err != nil {
		return c.report(ctx, cloud, network, status.Outcome{Err: err}, nil)
	}
	if isPaused(network) {
		return c.reconcilePaused(ctx, cloud, network, want)
	}
	network, added, err := c.addFinalizerIfNeeded(ctx, network)
	if err != nil {
		return err
	}
	// Nothing can be there yet if the finalizer was not: nothing is made without it.
	isNew := added && network.Status.NetworkID == ""
	have, err := c.find(ctx, cloud, network, isNew)
	if err != nil {
		return c.report(ctx, cloud, network, status.Outcome{Err: err}, nil)
	}
	adopted := have.Exists() && network.Status.NetworkID == ""
	have, steps, err := c.bringAbout(ctx, cloud, network, isNew, want, have)
	outcome := outcomeOf(want, have)
	outcome.Err = err
	event := eventFor(network, outcome, adopted, steps)
	if event != nil && event.reason == samplecrdv1.EventDriftRepaired && c.options.OnRepair != nil {
		c.options.OnRepair(steps)
	}
	return c.report(ctx, cloud, network, outcome, event)
}

// reconcilePaused looks at Neutron, changes nothing, and tells what there would be to do.
func (c *Controller) reconcilePaused(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, want neutron.Desired) error {
	if network.Status.NetworkID != "" { // it may have been taken off by hand
		var err error
		if network, _, err = c.addFinalizerIfNeeded(ctx, network); err != nil {
			return err
		}
	}
	have, err := c.find(ctx, cloud, network, false)
	if err != nil {
		return c.report(ctx, cloud, network, status.Outcome{Err: err}, nil)
	}
	outcome := outcomeOf(want, have)
	step := neutron.Next(want, have)
	if step == nil {
		step = cloud.Surplus(c.identity(network), have)
	}
	if step != nil {
		outcome.Err = paused("this is still to come: " + step.String())
	}
	return c.report(ctx, cloud, network, outcome, nil)
}

// find returns the one of the Network's networks to keep, the zero Network if there is none,
// and an error if it must be somewhere else.
func (c *Controller) find(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, trustMemory bool) (*neutron.Network, error) {
	have, err := c.lookUp(ctx, cloud, network, trustMemory)
	if err == nil {
		have, err = cloud.Prefer(ctx, c.identity(network), have)
	}
	if err == nil && !have.Exists() {
		err = elsewhere(cloud, network)
	}
	return have, err
}

func isPaused(network *samplecrdv1.Network) bool {
	return network.Annotations[samplecrdv1.AnnotationPaused] == "true"
}

// paused returns the error of something that waits until the Network is not paused.
func paused(what string) error {
	return &neutron.Error{Op: samplecrdv1.AnnotationPaused, Reason: neutron.Paused, Message: what}
}

// elsewhere returns an error if the network, which was not found, was made in another
// project or region than the one that we work in: we would make a second one here, and lose
// the first. Of a status that knows no project yet, the cloud's name is what counts.
func elsewhere(cloud *neutron.Cloud, network *samplecrdv1.Network) error {
	was := neutron.Place{Project: network.Status.ProjectID, Region: network.Status.Region}
	op := "find network " + network.Status.NetworkID
	now, connected := cloud.Client().Place()
	switch {
	case network.Status.NetworkID == "" || network.Status.Cloud == "":
		return nil
	case was.Project == "" && network.Status.Cloud == cloud.Name():
		return nil
	case !connected:
		return &neutron.Error{Op: op, Reason: neutron.Unavailable, Message: "the session was lost meanwhile"}
	case was.Project != "" && was == now:
		return nil
	}
	return &neutron.Error{Op: op, Reason: neutron.OtherCloud, Message: fmt.Sprintf(
		"it was made in cloud %q, %s; cloud %q, %s, does not have it: give the controller the right credentials, or clear status.cloud to give that network up",
		network.Status.Cloud, was, cloud.Name(), now)}
}

// lookUp returns the Network's network in Neutron, the zero Network if there is none:
// from memory if it is there, and otherwise from Neutron, unless the caller knows that
// for once memory that holds nothing is proof enough. If somebody has asked for a look at
// Neutron itself, it is one.
func (c *Controller) lookUp(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, trustMemory bool) (*neutron.Network, error) {
	if status.RequestedLook(network) != "" {
		return cloud.Find(ctx, c.identity(network))
	}
	return lookUpClaim(ctx, cloud, c.identity(network), trustMemory)
}

func lookUpClaim(ctx context.Context, cloud *neutron.Cloud, identity neutron.Identity, trustMemory bool) (*neutron.Network, error) {
	have, known, err := cloud.Owned(identity)
	if err != nil || have.Exists() || known && trustMemory {
		return have, err
	}
	return cloud.Find(ctx, identity)
}

// bringAbout takes one step after the other until Neutron has what is wanted, or one
// fails. It returns what Neutron has then, and the steps that were taken. Confirmed says
// that the Network was just seen past the cache.
func (c *Controller) bringAbout(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, confirmed bool, want neutron.Desired, have *neutron.Network) (*neutron.Network, []neutron.Step, error) {
	var steps []neutron.Step
	reread := false
	for {
		step := neutron.Next(want, have)
		if step == nil {
			step = cloud.Surplus(c.identity(network), have)
		}
		if step == nil {
			return have, steps, nil
		}
		// A network that is made for one that is gone by now would be nobody's.
		if !confirmed && (step.Irreversible() || !have.Exists()) {
			if err := c.confirm(ctx, network); err != nil {
				return have, steps, err
			}
		}
		next, err := cloud.Take(ctx, c.identity(network), have, step)
		if outdated(step, err) && !reread {
			// Read again at once, and plan again, if there is anything new.
			reread = true
			fresh, findErr := cloud.Find(ctx, c.identity(network))
			if findErr != nil {
				return have, steps, findErr
			}
			if neutron.ReasonOf(err) == neutron.Stale || neutron.Next(want, fresh) != step {
				have = fresh
				continue
			}
		}
		if err != nil {
			return have, steps, err
		}
		have, steps = next, append(steps, step)
		if len(steps) > maxSteps {
			return have, nil, &neutron.Error{Op: "bring the network about", Reason: neutron.Unavailable,
				Message: "the answers do not show what was asked for: " + step.String()}
		}
	}
}

// maxSteps is more than it takes, unless what Neutron answers is not what it was told.
const maxSteps = 10

// outdated says whether an error may come from what we knew of Neutron and not from what
// we asked for: somebody was quicker, or a subnet that we had given up was made after all
// and is now in the way of itself.
func outdated(step neutron.Step, err error) bool {
	_, creates := step.(neutron.CreateSubnet)
	return neutron.ReasonOf(err) == neutron.Stale || creates && neutron.ReasonOf(err) == neutron.Invalid
}

// finalize takes the network away from Neutron, or its mark off it if it is to stay, and
// then lets the Network go.
func (c *Controller) finalize(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network) error {
	// However many there are: two writers that raced may have made one each. The last look
	// is one at Neutron itself, and finds none.
	identity := c.identity(network)
	have, err := c.lookUp(ctx, cloud, network, false)
	if err == nil && !have.Exists() {
		err = elsewhere(cloud, network)
	}
	for letGo := false; ; letGo = true {
		looked := err == nil
		if err == nil && have.Exists() && isPaused(network) {
			err = paused("the deletion waits")
		}
		if err != nil {
			return c.report(ctx, cloud, network, status.Outcome{Err: err, Looked: looked}, nil)
		}
		if !have.Exists() {
			return c.removeFinalizer(ctx, network, goneMessage(network, letGo))
		}
		if !identity.Marks(have) {
			return c.removeFinalizer(ctx, network, "Left network "+have.ID+" in Neutron: its ownership mark was taken off")
		}
		if err := c.confirm(ctx, network); err != nil {
			return err
		}
		if err := c.letGo(ctx, cloud, network, identity, have); err != nil {
			return c.report(ctx, cloud, network, status.Outcome{Err: err, Looked: true}, nil)
		}
		identity.NetworkID = "" // what is left can only be found by its mark
		have, err = lookUpClaim(ctx, cloud, identity, false)
	}
}

// letGo does with the network in Neutron what the deletion policy says.
func (c *Controller) letGo(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, identity neutron.Identity, have *neutron.Network) error {
	if network.Spec.DeletionPolicy == samplecrdv1.DeletionRetain {
		return cloud.Release(ctx, identity, have)
	}
	return cloud.Delete(ctx, identity, have)
}

func goneMessage(network *samplecrdv1.Network, letGo bool) string {
	if letGo && network.Spec.DeletionPolicy == samplecrdv1.DeletionRetain {
		return "Left network " + network.Status.NetworkID + " in Neutron, without its ownership mark, as the deletionPolicy says"
	}
	return "The network is gone from Neutron"
}

// confirm makes sure, past the cache, that the Network is still the same one (UID), asks
// for the same (generation), and speaks of the same network (status.networkID, which
// another controller may have written). It comes before everything that could not be put
// right afterwards.
func (c *Controller) confirm(ctx context.Context, network *samplecrdv1.Network) error {
	live, err := c.client.SamplecrdV1().Networks(network.Namespace).Get(ctx, network.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Network past the cache: %w", err)
	}
	if live.UID != network.UID || live.Generation != network.Generation || live.Status.NetworkID != network.Status.NetworkID {
		return apierrors.NewConflict(samplecrdv1.Resource("networks"), network.Name, errors.New("it has changed since it was read"))
	}
	return nil
}

// report writes the status that follows from the outcome, if it says anything new, and
// records the event, or the one that the transition calls for. It returns the outcome's
// error, so that the sync is tried again.
func (c *Controller) report(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, outcome status.Outcome, event *event) error {
	if outcome.Err != nil && (!status.Tells(outcome.Err) || c.notLookedYet(cloud, network, outcome.Err)) {
		return outcome.Err
	}
	if cloud != nil {
		outcome = inCloud(cloud, outcome)
	}
	outcome.Err = nameSecret(network, outcome.Err)
	next := status.Compute(network, outcome)
	if !status.Equal(&network.Status, &next) {
		written, err := c.client.SamplecrdV1().Networks(network.Namespace).ApplyStatus(ctx,
			status.ApplyConfiguration(network, next), metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if isGone(err) || apierrors.IsConflict(err) {
			if gone, leftErr := c.abandonIfGone(ctx, network); gone || leftErr != nil {
				return leftErr
			}
		}
		if err != nil {
			// The outcome's error may be one that waits; the next sync finds it again.
			return fmt.Errorf("write the status: %w", err)
		}
		c.wrote(written)
	}
	if event == nil {
		event = transition(status.Ready(&network.Status), status.Ready(&next), len(outcome.Foreign) > 0)
	}
	if event != nil {
		c.tell(ctx, network, event)
	}
	return outcome.Err
}

// nameSecret says in the error whose credentials it is that were refused.
func nameSecret(network *samplecrdv1.Network, err error) error {
	if ref, ok := refOf(network); ok && neutron.ReasonOf(err) == neutron.Unauthenticated {
		whose := fmt.Sprintf("Secret %s, key clouds.yaml, cloud %s", ref.Secret.Name, ref.CloudName)
		return fmt.Errorf("%s: %w", whose, err)
	}
	return err
}

// overlooked says of a Network that is gone whether its finalizer was overlooked. The API
// server does that with one which is stored just while a deletion is under way: what it
// deletes then was never marked for deletion.
func overlooked(gone *samplecrdv1.Network) bool {
	return hasFinalizer(gone) && gone.DeletionTimestamp.IsZero()
}

// isGone says whether an error is the API server's word that the object is not there. A
// 404 of a proxy, or of an API server that does not serve Networks at the moment, is not.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// abandon remembers a Network that is gone, and has not been finalized.
func (c *Controller) abandon(network *samplecrdv1.Network) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cache.MetaObjectToName(network)
	c.abandoned[key] = append(c.abandoned[key], network)
}

// abandonIfGone takes the network away from Neutron again if the Network is gone though
// it had our finalizer.
func (c *Controller) abandonIfGone(ctx context.Context, network *samplecrdv1.Network) (gone bool, err error) {
	live, err := c.client.SamplecrdV1().Networks(network.Namespace).Get(ctx, network.Name, metav1.GetOptions{})
	if err == nil && live.UID == network.UID {
		return false, nil
	}
	if err != nil && !isGone(err) {
		return false, err
	}
	c.abandon(network)
	return true, c.removeAbandoned(ctx, cache.MetaObjectToName(network))
}

// hasAbandoned says whether Networks of that name may have left something in Neutron.
func (c *Controller) hasAbandoned(key cache.ObjectName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.abandoned[key]) > 0
}

// removeAbandoned removes what Networks of that name have left in Neutron. What it fails
// at, it does again when the key is synced again.
func (c *Controller) removeAbandoned(ctx context.Context, key cache.ObjectName) error {
	c.mu.Lock()
	left := c.abandoned[key]
	delete(c.abandoned, key)
	c.mu.Unlock()
	for i, network := range left {
		if err := c.removeLeft(ctx, network); err != nil {
			c.mu.Lock()
			c.abandoned[key] = append(c.abandoned[key], left[i:]...)
			c.mu.Unlock()
			return fmt.Errorf("remove what a Network that is gone has left: %w", err)
		}
		c.refer(leftKey(network), clouds.Ref{})
	}
	return nil
}

// leftKey is under what a Network that is gone refers to its credentials: another one may
// have its name by now.
func leftKey(gone *samplecrdv1.Network) cache.ObjectName {
	return cache.NewObjectName(gone.Namespace, gone.Name+"/"+string(gone.UID))
}

// removeLeft lets all networks go that carry the mark of a Network that is gone. What it
// must not or cannot touch, the orphans' finder tells of.
func (c *Controller) removeLeft(ctx context.Context, network *samplecrdv1.Network) error {
	if isPaused(network) {
		return nil
	}
	cloud, err := c.cloudOf(leftKey(network), network)
	if neutron.ReasonOf(err) == neutron.NoCredentials {
		klog.FromContext(ctx).Info("Without its credentials, nothing can be removed of a Network that is gone", "uid", network.UID, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	identity := c.identity(network)
	identity.NetworkID = ""
	for {
		have, err := lookUpClaim(ctx, cloud, identity, false)
		if err == nil && !have.Exists() {
			err = elsewhere(cloud, network)
		}
		if neutron.ReasonOf(err) == neutron.OtherCloud {
			klog.FromContext(ctx).Info("What a Network that is gone has left is in another cloud", "uid", network.UID, "err", err)
			return nil
		}
		if err != nil || !have.Exists() {
			return err
		}
		live, err := c.client.SamplecrdV1().Networks(network.Namespace).Get(ctx, network.Name, metav1.GetOptions{})
		if err == nil && live.UID == network.UID {
			return nil // it is back
		}
		if err != nil && !isGone(err) {
			return err
		}
		if err := c.letGo(ctx, cloud, network, identity, have); err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Let a network go whose Network is gone", "networkID", have.ID, "uid", identity.Owner.UID)
	}
}

// notLookedYet says whether there is nothing to tell of a Network that was in order: no
// look at Neutron has succeeded since the controller started, so nothing speaks against
// what the status says. But somebody has to put refused credentials right.
func (c *Controller) notLookedYet(cloud *neutron.Cloud, network *samplecrdv1.Network, syncErr error) bool {
	if cloud == nil || neutron.ReasonOf(syncErr) == neutron.Unauthenticated {
		return false
	}
	_, _, err := cloud.Owned(c.identity(network))
	return err != nil && status.InOrder(network) && network.DeletionTimestamp.IsZero()
}

// identity is what the Network knows of its network in Neutron.
func (c *Controller) identity(network *samplecrdv1.Network) neutron.Identity {
	return neutron.Identity{
		Owner:     neutron.Owner{Cluster: c.options.Cluster, UID: network.UID},
		NetworkID: network.Status.NetworkID,
	}
}

func hasFinalizer(network *samplecrdv1.Network) bool {
	return slices.Contains(network.Finalizers, samplecrdv1.Finalizer)
}

// addFinalizerIfNeeded returns the Network as it is with the finalizer, and whether it
// had to be added.
func (c *Controller) addFinalizerIfNeeded(ctx context.Context, network *samplecrdv1.Network) (*samplecrdv1.Network, bool, error) {
	if hasFinalizer(network) {
		return network, false, nil
	}
	finalizers := append(slices.Clone(network.Finalizers), samplecrdv1.Finalizer)
	patched, err := c.patchFinalizers(ctx, network, finalizers)
	if isGone(err) {
		return nil, false, fmt.Errorf("%w: it is gone, as the informer will tell", errNotYet)
	}
	if err != nil {
		return nil, false, fmt.Errorf("add the finalizer: %w", err)
	}
	c.wrote(patched)
	return patched, true, nil
}

// removeFinalizer lets Kubernetes remove the Network, and says why in an event.
func (c *Controller) removeFinalizer(ctx context.Context, network *samplecrdv1.Network, why string) error {
	finalizers := slices.DeleteFunc(slices.Clone(network.Finalizers), func(f string) bool { return f == samplecrdv1.Finalizer })
	_, err := c.patchFinalizers(ctx, network, finalizers)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	c.tell(ctx, network, &event{corev1.EventTypeNormal, samplecrdv1.EventDeleted, why})
	return nil
}

// patchFinalizers writes the finalizers if the Network is still as it was read: of two
// controllers that act on the same version, one gets a conflict.
func (c *Controller) patchFinalizers(ctx context.Context, network *samplecrdv1.Network, finalizers []string) (*samplecrdv1.Network, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             network.UID,
		"resourceVersion": network.ResourceVersion,
		"finalizers":      finalizers,
	}})
	if err != nil {
		return nil, err
	}
	return c.client.SamplecrdV1().Networks(network.Namespace).Patch(ctx, network.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// desired reads the spec. Most of what it refuses the API server has refused before,
// but not of Networks that were stored under an older CRD.
func desired(network *samplecrdv1.Network, cluster string) (neutron.Desired, error) {
	cidr, err := netip.ParsePrefix(network.Spec.CIDR)
	if err != nil {
		return neutron.Desired{}, &neutron.Error{Op: "spec.cidr", Reason: neutron.Invalid,
			Message: fmt.Sprintf("%q is not an address and a prefix length, such as 192.168.0.0/16", network.Spec.CIDR)}
	}
	subnet := neutron.DesiredSubnet{CIDR: cidr.Masked()}
	switch gateway := network.Spec.Gateway; gateway {
	case "":
	case samplecrdv1.GatewayNone:
		subnet.NoGateway = true
	default:
		// Neutron takes a gateway that is outside the CIDR.
		subnet.Gateway, err = netip.ParseAddr(gateway)
		if err != nil || !subnet.CIDR.Contains(subnet.Gateway) {
			return neutron.Desired{}, &neutron.Error{Op: "spec.gateway", Reason: neutron.Invalid,
				Message: fmt.Sprintf("%q is not an address inside %s, nor %s", gateway, subnet.CIDR, samplecrdv1.GatewayNone)}
		}
	}
	return neutron.Desired{
		Owner:   neutron.Owner{Cluster: cluster, UID: network.UID},
		Name:    neutron.Name(network.Namespace, network.Name),
		Subnets: []neutron.DesiredSubnet{subnet},
		Known:   network.Status.SubnetID,
	}, nil
}

// event is an event to record on a Network.
type event struct{ kind, reason, message string }

// tell records the event, and logs it.
func (c *Controller) tell(ctx context.Context, network *samplecrdv1.Network, e *event) {
	klog.FromContext(ctx).Info("Event", "type", e.kind, "reason", e.reason, "message", e.message)
	c.recorder.Event(network, e.kind, e.reason, e.message)
}

// eventFor returns the event that tells of what was done in Neutron; nil if nothing was,
// or not to the end.
func eventFor(network *samplecrdv1.Network, outcome status.Outcome, adopted bool, steps []neutron.Step) *event {
	if outcome.Err != nil || len(steps) == 0 && !adopted {
		return nil
	}
	done := make([]string, len(steps))
	for i, step := range steps {
		done[i] = step.String()
	}
	normal := func(reason, format string, args ...any) *event {
		return &event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case adopted:
		return normal(samplecrdv1.EventAdopted, "Took on network %s, which carried this Network's mark", outcome.Have.ID)
	case network.Status.NetworkID == "":
		return normal(samplecrdv1.EventCreated, "Created network %s with subnet %s", outcome.Have.ID, outcome.Subnet.CIDR)
	case status.InOrder(network):
		return normal(samplecrdv1.EventDriftRepaired, "Put right what had changed in Neutron: %s", strings.Join(done, ", "))
	}
	return normal(samplecrdv1.EventUpdated, "Updated network %s: %s", outcome.Have.ID, strings.Join(done, ", "))
}

// transition returns the event that tells of a change of the Ready condition; nil if
// its reason is the same, or if the Network is ready for the first time. Foreign says
// that the network has subnets of others, which is told when it becomes so.
func transition(before, now *metav1.Condition, foreign bool) *event {
	isFirst := before == nil || before.Status == metav1.ConditionUnknown
	if foreign && now.Status == metav1.ConditionTrue && (isFirst || before.Status == now.Status && before.Message != now.Message) {
		return &event{corev1.EventTypeWarning, samplecrdv1.EventUnmanagedSubnet, now.Message}
	}
	if isFirst && now.Status == metav1.ConditionTrue || !isFirst && before.Reason == now.Reason {
		return nil
	}
	if now.Status == metav1.ConditionTrue {
		return &event{corev1.EventTypeNormal, now.Reason, now.Message}
	}
	return &event{corev1.EventTypeWarning, now.Reason, now.Message}
}
