// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

// The indexes of the informer's cache: from the UID in a mark to its Network, from the Secret or
// the ClusterCloud to the Networks that name it, and from a namespace to its Networks.
const (
	byUID         = "uid"
	byCredentials = "credentials"
	byNamespace   = cache.NamespaceIndex
)

// ControllerOptions are the settings of a Controller.
type ControllerOptions struct {
	// Cluster is the cluster's ID. With the Network's UID it marks what the controller owns in
	// Neutron.
	Cluster string
	// Resync is how often terminal errors are retried, in case they were not terminal.
	Resync time.Duration
	// Retry spaces out failed syncs.
	Retry retry.Options
	// Limits bound the workers that work for the clouds of Secrets.
	Limits fair.Limits
	// OnRepair is called with the steps that repaired drift. Optional.
	OnRepair func([]neutron.Step)
}

// Controller makes the networks in Neutron match the Networks in Kubernetes.
type Controller struct {
	options  ControllerOptions
	networks listers.NetworkLister
	indexer  cache.TypedIndexer[*samplecrdv1.Network]
	// networksSynced is done when the handlers have received the informer's first list.
	networksSynced cache.DoneChecker

	// live reads and writes Networks past the cache.
	live *live.Networks
	// clouds finds the cloud that a Network works in.
	clouds *clouds.Clouds
	// vanished are Networks that were deleted in spite of their finalizer.
	vanished *orphans.Vanished
	changes  *status.Unrecorded // in Neutron, without an event yet

	// queue holds the keys of the Networks to sync. It hands out a key to one worker at a time,
	// however often the key was added.
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// limiter is that of the queue.
	limiter  *retry.Limiter[cache.ObjectName, clouds.Ref]
	recorder record.EventRecorder

	// sync is syncHandler, except in tests of the queue.
	sync func(context.Context, cache.ObjectName) error
}

// NewController returns a Controller and registers its handlers. The informer may be running
// already. The caller then calls Run.
func NewController(ctx context.Context, client clientset.Interface, informer informers.TypedNetworkInformer, cloudSet *clouds.Clouds, recorder record.EventRecorder, options ControllerOptions) (*Controller, error) {
	direct := live.NewNetworks(client)
	c := &Controller{
		options:  options,
		networks: informer.Lister(),
		indexer:  informer.TypedInformer().GetTypedIndexer(),
		live:     direct,
		clouds:   cloudSet,
		vanished: orphans.NewVanished(direct, cloudSet, options.Cluster),
		recorder: recorder,
		changes:  status.NewUnrecorded(options.OnRepair),
	}
	c.sync = c.syncHandler
	err := informer.TypedInformer().AddTypedIndexers(informers.NetworkIndexers{
		byUID:         func(n *samplecrdv1.Network) ([]string, error) { return []string{string(n.UID)}, nil },
		byCredentials: func(n *samplecrdv1.Network) ([]string, error) { return clouds.SourcesOf(n), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("add indexers for Networks: %w", err)
	}
	c.newQueue() // its handlers use the indexes, and may be called at once
	registration, err := informer.TypedInformer().AddTypedEventHandler(c.handlers(klog.FromContext(ctx)))
	if err != nil {
		c.queue.ShutDown() // it has goroutines
		return nil, fmt.Errorf("add the event handler for Networks: %w", err)
	}
	c.networksSynced = registration.HasSyncedChecker()
	return c, nil
}

// newQueue makes the queue with its order and its back-off, and adds the handlers that enqueue
// the keys of what changes in Neutron and in credentials.
func (c *Controller) newQueue() {
	c.limiter = retry.NewLimiter(c.options.Retry, c.clouds.RefOfKey)
	c.queue = fair.NewQueue("networks", c.groupOf, c.options.Limits, c.limiter)
	c.clouds.AddHandlers(clouds.Handlers{
		Drift:              func(owner types.UID) { c.enqueueIndexed(byUID, string(owner)) },
		CredentialsChanged: func(source cache.ObjectName) { c.enqueueIndexed(byCredentials, source.String()) },
		LabelsChanged:      func(namespace string) { c.enqueueIndexed(byNamespace, namespace) },
		Released:           c.limiter.Drop,
	})
}

// groupOf returns the cloud and the namespace of a key, which decide when it has its turn.
func (c *Controller) groupOf(key cache.ObjectName) fair.Group[clouds.Group] {
	network, _ := c.networks.Networks(key.Namespace).Get(key.Name) // nil if it is gone
	group := c.clouds.GroupOf(key, network)
	return fair.Group[clouds.Group]{Cloud: group, Namespace: key.Namespace, IsOffered: group.IsOffered()}
}

// handlers enqueue the keys of what changes in Kubernetes.
func (c *Controller) handlers(logger klog.Logger) informers.NetworkHandlerFuncs {
	enqueue := func(key cache.ObjectName, why string) {
		logger.V(4).Info("Enqueuing", "network", key, "reason", why)
		c.queue.Add(key)
	}
	return informers.NetworkHandlerFuncs{
		AddFunc: func(n *samplecrdv1.Network) { enqueue(cache.MetaObjectToName(n), "added") },
		UpdateFunc: func(before, now *samplecrdv1.Network) {
			if before.UID != now.UID { // its deletion was missed
				c.clouds.ForgetOwner(before.UID)
			}
			if why := whyToSync(before, now); why != "" {
				enqueue(cache.MetaObjectToName(now), why)
			} else if !status.Equal(&before.Status, &now.Status) && !c.live.IsOwnWrite(now) {
				c.queue.AddAfter(cache.MetaObjectToName(now), live.UnknownWriteDelay)
			}
		},
		DeleteFunc: func(n informers.DeletedNetwork) {
			if gone := n.OptionalObj; gone != nil {
				c.live.Clear(gone.UID)
				c.clouds.ForgetOwner(gone.UID)
				// A list that lacks the Network proves nothing: it may come from an API server
				// that was restored from a backup.
				if n.FinalStateUnknown == nil && orphans.FinalizerBypassed(gone) {
					c.vanished.Add(gone)
				}
			}
			enqueue(n.GetObjectName(), "deleted") // a tombstone has the name too
		},
	}
}

// whyToSync returns what changed that a sync depends on; "" for nothing. Our own writes and a
// periodic resync of the informer are no reason. That another client removed the finalizer or
// the status is one.
func whyToSync(before, now *samplecrdv1.Network) string {
	switch {
	case before.UID != now.UID:
		return "created again"
	case before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero():
		return "being deleted"
	case live.IsRestored(before, now):
		return "restored from a backup" // the status is an old one, and perhaps the spec
	case before.Generation != now.Generation:
		return "spec changed"
	case before.IsPaused() != now.IsPaused():
		return "paused or resumed"
	case before.Annotations[samplecrdv1.AnnotationReconcileRequestedAt] != now.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]:
		return "reconcile requested"
	case live.HasFinalizer(before) && !live.HasFinalizer(now):
		return "finalizer removed"
	case status.Known(&before.Status) && !status.Known(&now.Status), before.Status.Cloud != "" && now.Status.Cloud == "":
		return "status removed"
	}
	return ""
}

// enqueueIndexed enqueues the Networks that an index has for the value.
func (c *Controller) enqueueIndexed(index, value string) {
	networks, err := c.indexer.ByTypedIndex(index, value)
	if err != nil {
		panic(err) // NewController added the indexes
	}
	for _, n := range networks {
		klog.Background().V(4).Info("Enqueuing", "network", klog.KObj(n), "reason", "changed outside", index, value)
		c.queue.Add(cache.MetaObjectToName(n))
	}
}

// namesIn returns a function that returns the name of the Network with that UID; "" if the namespace has none. Who reads a Network
// may not be allowed to see those of other namespaces.
func (c *Controller) namesIn(namespace string) func(types.UID) string {
	return func(uid types.UID) string {
		networks, err := c.indexer.ByTypedIndex(byUID, string(uid))
		if err != nil || len(networks) == 0 || networks[0].Namespace != namespace {
			return ""
		}
		return cache.MetaObjectToName(networks[0]).String()
	}
}

// Run waits for the informer's first list, and then syncs until ctx is cancelled. It returns when
// the workers have finished what they are processing.
func (c *Controller) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()

	running.Go(func() { c.clouds.RunOwn(ctx) })
	if !cache.WaitFor(klog.NewContext(ctx, logger.V(2)), "Networks", c.networksSynced) {
		return ctx.Err()
	}
	logger.Info("Starting workers", "count", workers)
	for range workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	<-ctx.Done()
	logger.Info("Shutting down workers")
	return nil
}

func (c *Controller) runWorker(ctx context.Context) {
	// A queue that was shut down still hands out what it holds.
	for ctx.Err() == nil && c.processNextWorkItem(ctx) {
	}
}

// processNextWorkItem syncs the next key. It returns false if the queue was shut down.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)

	// Neutron logs this ID with each request of the sync.
	id := uuid.New()
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "network", key, "reconcileID", id)
	logger.V(4).Info("Syncing")
	// A request to Neutron that is cut off may or may not have taken effect. So a shutdown
	// does not cancel it; it has a time-out of its own.
	ctx = klog.NewContext(neutron.ForSync(context.WithoutCancel(ctx), id), logger)
	c.requeue(ctx, key, retry.Recover(ctx, key, c.sync))
	return true
}

// requeue decides when the key is synced again.
func (c *Controller) requeue(ctx context.Context, key cache.ObjectName, err error) {
	logger := klog.FromContext(ctx)
	if err == nil {
		logger.V(4).Info("Synced")
		c.queue.Forget(key)
		return
	}
	var stale *live.StaleCacheError
	delay, known := status.RetryAfter(err, c.options.Resync)
	switch {
	case errors.As(err, &stale):
		c.queue.AddAfter(key, stale.RetryAfter)
	case errors.Is(err, clouds.ErrNotReady), errors.Is(err, live.ErrGone):
		logger.V(4).Info("Waiting for an event", "err", err) // a handler enqueues the key
	case known:
		logger.V(2).Info("Will try again", "after", delay, "err", err, "requestID", neutron.RequestIDOf(err))
		c.queue.Forget(key)
		if status.IsPaced(err) {
			delay = c.limiter.After(key, delay)
		}
		c.queue.AddAfter(key, delay)
	case neutron.ReasonOf(err) != "" || apierrors.IsConflict(err): // Neutron is away, or the cache was behind
		logger.V(2).Info("Will try again", "err", err, "requestID", neutron.RequestIDOf(err))
		c.queue.AddRateLimited(key)
	default:
		logger.Error(err, "Failed to sync, will try again")
		c.queue.AddRateLimited(key)
	}
}

// syncHandler compares what a Network declares with what Neutron has, and acts on the
// difference. It may be called at any time, any number of times.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) error {
	if orphans.IsVanishedKey(key) {
		return c.vanished.Remove(ctx, key)
	}
	for _, vanished := range c.vanished.Start(ctx, key) {
		c.queue.Add(vanished)
	}
	network, err := c.networks.Networks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.clouds.Forget(key)
		c.changes.Forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.live.CheckFresh(ctx, network); err != nil {
		return err
	}
	if network, err = c.live.RereadIfStatusless(ctx, network); err != nil {
		return err
	}
	isDeleted := !network.DeletionTimestamp.IsZero()
	if isDeleted && !live.HasFinalizer(network) {
		return nil // it waits for other finalizers
	}
	var outcome status.Outcome
	cloud, err := c.clouds.For(ctx, key, network)
	switch {
	case isDeleted && network.IsObserved():
		outcome = c.finish(ctx, network, nil)
	case err != nil:
		outcome.Err = err
	case isDeleted:
		outcome = c.finalize(ctx, cloud, network)
	default:
		network, outcome = c.reconcile(ctx, cloud, network)
	}
	return c.updateStatus(ctx, cloud, network, outcome)
}

// reconcile makes Neutron match the spec. It returns the Network with the finalizer.
func (c *Controller) reconcile(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network) (*samplecrdv1.Network, status.Outcome) {
	desired, err := neutron.NewDesired(network, c.options.Cluster)
	if err != nil {
		return network, status.Outcome{Err: err}
	}
	isNew := false
	// Without a finalizer, a Network that has nothing of its own in Neutron can be deleted at once.
	hasNothing := network.IsPaused() && (network.Status.NetworkID == "" || network.Spec.Import != nil && !network.Status.Imported) || network.IsObserved()
	if !hasNothing {
		patched, added, err := c.live.AddFinalizerIfNeeded(ctx, network)
		if err != nil {
			return network, status.Outcome{Err: err}
		}
		network, isNew = patched, added && network.Status.NetworkID == "" && network.Status.Router == nil
	}
	identity := neutron.NewIdentity(network, c.options.Cluster)
	observed, err := cloud.Observe(ctx, identity, readOf(network, isNew))
	if err != nil {
		return network, status.Outcome{Err: err}
	}
	adopted := observed.Exists() && network.Status.NetworkID == "" && !network.IsPaused() && network.Spec.Import == nil
	view := neutron.View{Identity: identity, Desired: desired, Observed: observed}
	view, steps, err := cloud.Converge(ctx, view, c.guard(network, isNew))
	return network, status.Outcome{Observation: status.Observing(view), Adopted: adopted, Steps: steps, Err: err}
}

// finalize removes the network and its router from Neutron, or their marks if they are to be
// retained, and then the finalizer from the Network.
func (c *Controller) finalize(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network) status.Outcome {
	identity := neutron.NewIdentity(network, c.options.Cluster)
	observed, err := cloud.Observe(ctx, identity, readOf(network, false))
	if err != nil {
		return status.Outcome{Err: err}
	}
	kept, err := cloud.Remove(ctx, identity, observed, network.IsRetained(), c.guard(network, false))
	if err != nil {
		return status.Outcome{Err: err, Read: true}
	}
	return c.finish(ctx, network, kept)
}

// finish removes the finalizer. Kept is the network that stays in Neutron.
func (c *Controller) finish(ctx context.Context, network *samplecrdv1.Network, kept *neutron.Network) status.Outcome {
	if err := c.live.RemoveFinalizer(ctx, network); err != nil {
		return status.Outcome{Err: err}
	}
	return status.Outcome{Finalized: status.FinalizedMessage(network, kept)}
}

// readOf returns where to read what Neutron has of the Network. Nothing can exist for a new Network, because nothing
// is created before the finalizer is stored.
func readOf(network *samplecrdv1.Network, isNew bool) neutron.Read {
	switch {
	case status.RequestedReconcile(network) != "":
		return neutron.Live
	case isNew:
		return neutron.CacheOnly
	}
	return neutron.Cached
}

// guard keeps Converge and Remove from touching Neutron for a paused Network, and lets them
// verify the Network past the cache before anything that cannot be undone.
func (c *Controller) guard(network *samplecrdv1.Network, isNew bool) neutron.Guard {
	if isNew { // the API server has just answered
		return neutron.Guard{Paused: network.IsPaused()}
	}
	return neutron.Guard{Paused: network.IsPaused(), Verify: func(ctx context.Context) error { return c.live.Verify(ctx, network) }}
}

// updateStatus writes the status that follows from the outcome, if it differs, and records the
// event. It is the only place that does either. It returns the outcome's error, for requeue.
func (c *Controller) updateStatus(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network, outcome status.Outcome) error {
	cloud.SyncEnded(network.UID, outcome.Err)
	outcome = c.changes.Add(network, outcome)
	if outcome.Err != nil && (!status.IsReported(outcome.Err) || status.IsPremature(cloud, network, outcome.Err)) {
		return outcome.Err
	}
	outcome.Err = neutron.NameHolder(c.clouds.Explain(network, outcome.Err), c.namesIn(network.Namespace))
	next := network.Status
	var overtaken error
	if outcome.Finalized == "" {
		next = status.Compute(network, outcome.In(cloud))
		err := c.live.UpdateStatusIfNeeded(ctx, network, next)
		if errors.As(err, new(*live.StaleCacheError)) { // it was written
			overtaken = err
		} else if err != nil {
			return err // the next sync finds the outcome's error again
		}
	}
	if event := c.changes.EventFor(network, outcome, &next); event != nil {
		klog.FromContext(ctx).Info("Event", "type", event.Type, "reason", event.Reason, "message", event.Message)
		c.recorder.Event(network, event.Type, event.Reason, event.Message)
	}
	return cmp.Or(overtaken, outcome.Err)
}
