// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deployment creates a Network for each Deployment that has the annotation
// network-cidr, keeps it in line with the annotations, and deletes it with the annotation. The
// annotation network-template names a Network whose settings it takes over.
// It is a controller of objects with an owner: events of a Network enqueue its Deployment, a
// Deployment adopts a labelled Network without an owner, and the garbage collector deletes
// the Networks of deleted Deployments.
package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
)

// fieldManager is the controller's name in managedFields.
const fieldManager = "samplecrd-controller"

// Options configure a Controller.
type Options struct {
	// Namespace is the namespace of the informers. Empty means all namespaces.
	Namespace string
	// CIDRPool is the pool of NetworkCIDRAuto. The zero Prefix means that there is no pool.
	CIDRPool netip.Prefix
	// SubnetPool is the name or the ID of the subnet pool in Neutron that takes the place of
	// CIDRPool. Empty means that there is none.
	SubnetPool string
	// CIDRPrefixLength is the prefix length of the blocks of CIDRPool or SubnetPool.
	CIDRPrefixLength int
	// Retry configures the delays between retries.
	Retry retry.Options
	// Fence is called directly before a Network is created. It is optional. It does not return
	// if this process must not create Networks any more: by now another process may have
	// allocated the same block.
	Fence func()
}

// Controller makes the Networks of Deployments match the annotations of the Deployments.
type Controller struct {
	kube   kubernetes.Interface
	client clientset.Interface

	deployments appslisters.DeploymentLister
	indexer     cache.TypedIndexer[*appsv1.Deployment]
	networks    listers.NetworkLister
	// synced are done when the handlers have received the first lists of the informers.
	synced []cache.DoneChecker

	// queue has the names of the Deployments to sync.
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	allocator *allocator
	// subnetPool is the subnet pool for NetworkCIDRAuto. If it is nil, the allocator chooses the blocks.
	subnetPool *samplecrdv1.SubnetPoolSpec
	recorder   record.EventRecorder
	fence      func() // optional

	mu sync.Mutex
	// lastEvents has the last event that says why a Deployment has no Network, or an old one.
	lastEvents map[cache.ObjectName]recordedEvent

	// sync is syncHandler, except in tests of the queue.
	sync func(context.Context, cache.ObjectName) error
}

// recordedEvent is an event and the UID of its Deployment.
type recordedEvent struct {
	uid types.UID
	event
}

// NewController returns a Controller and registers its handlers. The caller starts the
// informers and then calls Run.
func NewController(kube kubernetes.Interface, client clientset.Interface, deployments appsinformers.TypedDeploymentInformer, networks informers.TypedNetworkInformer, recorder record.EventRecorder, options Options) (*Controller, error) {
	c := &Controller{
		kube:        kube,
		client:      client,
		deployments: deployments.Lister(),
		indexer:     deployments.TypedInformer().GetTypedIndexer(),
		networks:    networks.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			retry.NewLimiter(options.Retry, func(cache.ObjectName) struct{} { return struct{}{} }),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "deployments"},
		),
		allocator: &allocator{
			pool:     options.CIDRPool.Masked(),
			bits:     options.CIDRPrefixLength,
			networks: networks.Lister(),
			list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.SamplecrdV1().Networks(options.Namespace).List(ctx, o)
			},
			cacheVersion: networks.Informer().GetIndexer().LastStoreSyncResourceVersion,
			reserved:     map[cache.ObjectName]netip.Prefix{},
			waiting:      map[cache.ObjectName]bool{},
		},
		subnetPool: subnetPool(options.SubnetPool, options.CIDRPrefixLength),
		recorder:   recorder,
		fence:      options.Fence,
		lastEvents: map[cache.ObjectName]recordedEvent{},
	}
	c.sync = c.syncHandler
	if err := c.addHandlers(deployments, networks); err != nil {
		c.queue.ShutDown() // it has goroutines
		return nil, err
	}
	return c, nil
}

// byTemplate is the index of the Deployments by the Network that they take over from.
const byTemplate = "byTemplate"

// addHandlers adds the index byTemplate and the handlers that fill the queue.
func (c *Controller) addHandlers(deployments appsinformers.TypedDeploymentInformer, networks informers.TypedNetworkInformer) error {
	err := deployments.TypedInformer().AddTypedIndexers(appsinformers.DeploymentIndexers{
		byTemplate: func(d *appsv1.Deployment) ([]string, error) { return templatesOf(d), nil },
	})
	if err != nil {
		return fmt.Errorf("add an indexer for Deployments: %w", err)
	}
	ofDeployments, err := deployments.TypedInformer().AddTypedEventHandler(c.deploymentHandlers())
	if err != nil {
		return fmt.Errorf("handle the events of Deployments: %w", err)
	}
	ofNetworks, err := networks.TypedInformer().AddTypedEventHandler(c.networkHandlers())
	if err != nil {
		return fmt.Errorf("handle the events of Networks: %w", err)
	}
	c.synced = []cache.DoneChecker{ofDeployments.HasSyncedChecker(), ofNetworks.HasSyncedChecker()}
	return nil
}

// deploymentHandlers enqueue the Deployments that request or own a Network.
func (c *Controller) deploymentHandlers() appsinformers.DeploymentHandlerFuncs {
	return appsinformers.DeploymentHandlerFuncs{
		AddFunc: func(d *appsv1.Deployment) {
			if requestsNetwork(d) || c.owns(d) {
				c.queue.Add(cache.MetaObjectToName(d))
			}
		},
		UpdateFunc: func(before, now *appsv1.Deployment) {
			if deploymentNeedsSync(before, now) && (requestsNetwork(before) || requestsNetwork(now) || c.owns(now)) {
				c.queue.Add(cache.MetaObjectToName(now))
			}
		},
		DeleteFunc: func(d appsinformers.DeletedDeployment) {
			if c.hasState(d.GetObjectName()) {
				c.queue.Add(d.GetObjectName())
			}
		},
	}
}

// networkHandlers enqueue the Deployment that owns a Network, or that has the same name, and
// the Deployments that take over from it.
// An informer updates its cache before it calls its handlers. So if a Deployment and a
// Network appear at the same time, the handler that runs second finds both.
func (c *Controller) networkHandlers() informers.NetworkHandlerFuncs {
	return informers.NetworkHandlerFuncs{
		AddFunc: func(n *samplecrdv1.Network) {
			c.allocator.releaseIfCached(n)
			c.enqueueOwner(n)
			c.enqueueUsers(cache.MetaObjectToName(n))
		},
		UpdateFunc: func(before, now *samplecrdv1.Network) {
			key := cache.MetaObjectToName(now)
			wasReserved := c.allocator.isReserved(key)
			c.allocator.releaseIfCached(now)
			if !cidrsOf(before).Equal(cidrsOf(now)) {
				c.enqueueWaiting()
			}
			if networkNeedsSync(before, now) {
				c.enqueueOwner(before) // the owner may have changed
				c.enqueueOwner(now)
				c.enqueueUsers(key)
			} else if wasReserved {
				c.queue.Add(key)
			}
		},
		DeleteFunc: func(n informers.DeletedNetwork) {
			c.enqueueWaiting()
			if n.OptionalObj != nil {
				c.enqueueOwner(n.OptionalObj)
			}
			c.enqueueByName(n.GetObjectName())
			c.enqueueUsers(n.GetObjectName())
		},
	}
}

// enqueueOwner enqueues the Deployment that controls the Network. If there is none, it
// enqueues the Deployment with the same name.
func (c *Controller) enqueueOwner(n *samplecrdv1.Network) {
	if owner := c.resolveControllerRef(n.Namespace, metav1.GetControllerOf(n)); owner != nil {
		c.queue.Add(cache.MetaObjectToName(owner))
		return
	}
	c.enqueueByName(cache.MetaObjectToName(n))
}

// enqueueByName enqueues the Deployment of that name if it requests a Network, or if the
// Controller still has state of it.
func (c *Controller) enqueueByName(key cache.ObjectName) {
	d, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if err == nil && requestsNetwork(d) || c.hasState(key) {
		c.queue.Add(key)
	}
}

// enqueueUsers enqueues the Deployments that take over from the Network.
func (c *Controller) enqueueUsers(template cache.ObjectName) {
	users, err := c.indexer.ByTypedIndex(byTemplate, template.String())
	if err != nil {
		panic(err) // addHandlers added the index
	}
	for _, d := range users {
		c.queue.Add(cache.MetaObjectToName(d))
	}
}

// resolveControllerRef returns the Deployment of an owner reference, or nil. It compares the
// UID, because a Deployment that was deleted and created again is another one.
func (c *Controller) resolveControllerRef(namespace string, owner *metav1.OwnerReference) *appsv1.Deployment {
	if owner == nil || !isDeployment(owner) {
		return nil
	}
	d, err := c.deployments.Deployments(namespace).Get(owner.Name)
	if err != nil || d.UID != owner.UID {
		return nil
	}
	return d
}

// enqueueWaiting enqueues the Deployments that wait for a free block of the pool.
func (c *Controller) enqueueWaiting() {
	for _, key := range c.allocator.takeWaiting() {
		c.queue.Add(key)
	}
}

// owns reports whether the Deployment owns a Network.
func (c *Controller) owns(d *appsv1.Deployment) bool {
	n, err := c.networks.Networks(d.Namespace).Get(d.Name)
	return err == nil && metav1.IsControlledBy(n, d)
}

// hasState reports whether the Controller has state of the Deployment that a sync must
// clear.
func (c *Controller) hasState(key cache.ObjectName) bool {
	c.mu.Lock()
	_, hasEvent := c.lastEvents[key]
	c.mu.Unlock()
	return hasEvent || c.allocator.isReserved(key)
}

// Run waits for the caches and runs the workers until ctx is cancelled. Then it waits until
// the workers have finished their current syncs.
func (c *Controller) Run(ctx context.Context, workers int) {
	logger := klog.FromContext(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()

	if !cache.WaitFor(klog.NewContext(ctx, logger.V(2)), "Deployments and their Networks", c.synced...) {
		return
	}
	logger.Info("Starting Deployment workers", "count", workers)
	for range workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	<-ctx.Done()
}

func (c *Controller) runWorker(ctx context.Context) {
	// A queue that is shut down still returns its remaining keys.
	for ctx.Err() == nil && c.processNextWorkItem(ctx) {
	}
}

// exhaustedRetryPeriod is how often a Deployment without a free block is retried. A block that
// becomes free enqueues it earlier.
const exhaustedRetryPeriod = time.Minute

func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", key)
	logger.V(4).Info("Syncing")
	err := retry.Recover(klog.NewContext(context.WithoutCancel(ctx), logger), key, c.sync)
	switch {
	case err == nil:
		logger.V(4).Info("Synced")
		c.queue.Forget(key)
		return true
	case errors.Is(err, errExhausted):
		c.queue.Forget(key)
		c.queue.AddAfter(key, exhaustedRetryPeriod)
		return true
	case errors.Is(err, errStale) || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		logger.V(2).Info("Will try again", "err", err)
	default:
		logger.Error(err, "Failed to sync, will try again")
	}
	c.queue.AddRateLimited(key)
	return true
}

// syncHandler compares the annotations of a Deployment with the Network of the same name, and
// acts on the difference. It is idempotent.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) error {
	network, err := c.networks.Networks(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := c.checkFresh(ctx, key, network); err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(4).Info("Deployment is gone")
		c.forgetEvent(key)
		return nil
	}
	if err != nil {
		return err
	}
	if !deployment.DeletionTimestamp.IsZero() {
		return nil // the garbage collector deletes the Network
	}
	if !requestsNetwork(deployment) {
		return c.deleteIfOwned(ctx, deployment, network)
	}
	return c.reconcile(ctx, deployment, network)
}

// errStale is returned by a sync that must wait for the cache. Usually the informer sends an
// event then. The sync is retried as well, because there is no event for a Network that is
// created and deleted while the informer relists.
var errStale = errors.New("the cache does not have the latest version of the Network yet")

// checkFresh does nothing unless a CIDR is reserved for the Deployment: then the cache may not
// have our last write. It reads the Network live. It releases the CIDR if the cache is up to
// date, and returns errStale if it is not.
func (c *Controller) checkFresh(ctx context.Context, key cache.ObjectName, network *samplecrdv1.Network) error {
	if !c.allocator.isReserved(key) {
		return nil
	}
	live, err := c.client.SamplecrdV1().Networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Network live: %w", err)
	}
	if gone := err != nil; gone != (network == nil) || !gone && network.ResourceVersion != live.ResourceVersion {
		return errStale
	}
	c.release(key)
	return nil
}

// reconcile makes the Network match the annotations of the Deployment. It records an event
// if the annotations or the existing Network prevent that.
func (c *Controller) reconcile(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) error {
	desired, err := parse(d.Annotations)
	if err != nil {
		c.recordOnce(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkAnnotationInvalid, err.Error()})
		return nil
	}
	if e := obstacle(network, d); e != nil {
		c.recordOnce(ctx, d, *e)
		return nil
	}
	if desired.templateName != "" {
		desired.template, err = c.networks.Networks(d.Namespace).Get(desired.templateName)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if e := templateObstacle(network, d, desired); e != nil {
			c.recordOnce(ctx, d, *e)
			return nil
		}
	}
	if desired.auto {
		desired.cidr, desired.subnetPool = chooseRange(network, c.subnetPool)
	}
	if desired.cidr == "" && desired.subnetPool == nil {
		if desired.cidr, err = c.allocate(ctx, d, network); desired.cidr == "" {
			return err
		}
	}
	if network == nil {
		return c.create(ctx, d, desired)
	}
	return c.updateIfNeeded(ctx, d, network, desired)
}

// allocate returns a block of the CIDR pool. It returns "" if there is none.
func (c *Controller) allocate(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) (string, error) {
	block, err := c.allocator.allocate(ctx, cache.MetaObjectToName(d), preferredBlock(network))
	switch {
	case errors.Is(err, errNoPool):
		c.recordOnce(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNoCIDRPool,
			"The controller has no pool: start it with -deployment-cidr-pool or -deployment-subnet-pool, or use a CIDR instead of " + samplecrdv1.NetworkCIDRAuto})
		return "", nil
	case errors.Is(err, errExhausted):
		c.recordOnce(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventCIDRPoolExhausted,
			fmt.Sprintf("No block of prefix length %d is free in %s; waiting for one", c.allocator.bits, c.allocator.pool)})
		return "", err
	case err != nil:
		return "", err
	}
	return block.String(), nil
}

// create creates the Network. It does not read the Deployment live first: create cannot
// overwrite an existing Network, and the garbage collector deletes the Network of a
// Deployment that is gone.
func (c *Controller) create(ctx context.Context, d *appsv1.Deployment, desired request) error {
	if err := c.verifyTemplate(ctx, desired.template); err != nil {
		c.release(cache.MetaObjectToName(d))
		return err
	}
	c.reserve(d, desired)
	if c.fence != nil {
		c.fence()
	}
	network, err := c.client.SamplecrdV1().Networks(d.Namespace).Create(ctx, newNetwork(d, desired), metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return c.handleWriteError(ctx, d, fmt.Errorf("create the Network: %w", err))
	}
	c.recordDone(ctx, d, samplecrdv1.EventNetworkCreated, "Created Network %s, %s", network.Name, desired.rangeText())
	return nil
}

// updateIfNeeded patches the Network if it differs from the desired one, and adopts it if it
// has no owner.
func (c *Controller) updateIfNeeded(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network, desired request) error {
	patch, err := patchFor(network, d, desired)
	if err != nil {
		return err
	}
	if patch == nil {
		c.forgetEvent(cache.MetaObjectToName(d))
		return nil
	}
	if err := c.verify(ctx, d, desired.template); err != nil {
		c.release(cache.MetaObjectToName(d))
		return err
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if network.Spec.CIDR != desired.cidr {
		c.reserve(d, desired)
	}
	_, err = c.client.SamplecrdV1().Networks(d.Namespace).Patch(ctx, network.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return c.handleWriteError(ctx, d, fmt.Errorf("update the Network: %w", err))
	}
	if !metav1.IsControlledBy(network, d) {
		c.recordDone(ctx, d, samplecrdv1.EventNetworkAdopted, "Adopted Network %s, %s", network.Name, desired.rangeText())
		return nil
	}
	c.recordDone(ctx, d, samplecrdv1.EventNetworkUpdated, "Updated Network %s: %s", network.Name, describeChanges(patch, desired))
	return nil
}

// deleteIfOwned deletes the Network of a Deployment that does not request one any more.
func (c *Controller) deleteIfOwned(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) error {
	if network == nil || !metav1.IsControlledBy(network, d) || !network.DeletionTimestamp.IsZero() {
		c.forgetEvent(cache.MetaObjectToName(d))
		return nil
	}
	if err := c.verify(ctx, d, nil); err != nil {
		return err
	}
	err := c.client.SamplecrdV1().Networks(d.Namespace).Delete(ctx, network.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &network.UID, ResourceVersion: &network.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return c.handleWriteError(ctx, d, fmt.Errorf("delete the Network: %w", err))
	}
	c.recordDone(ctx, d, samplecrdv1.EventNetworkDeleted, "Deleted Network %s: the annotation %s is gone", network.Name, samplecrdv1.AnnotationNetworkCIDR)
	return nil
}

// verify reads the Deployment and the template live. It returns a conflict if the Deployment
// is another one, is being deleted, or requests another Network than d, or if the template has
// changed. A deleted Deployment must not adopt a Network, and a stale cache must not cause the
// replacement of a subnet.
func (c *Controller) verify(ctx context.Context, d *appsv1.Deployment, template *samplecrdv1.Network) error {
	live, err := c.kube.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Deployment live: %w", err)
	}
	if live.UID != d.UID || !live.DeletionTimestamp.IsZero() || !sameRequest(live, d) {
		return apierrors.NewConflict(appsv1.Resource("deployments"), d.Name, errors.New("it has changed since it was read"))
	}
	return c.verifyTemplate(ctx, template)
}

// verifyTemplate reads the template live, if there is one. It returns a conflict if the cache
// does not have its latest spec: a stale cache must not create a network in the wrong cloud,
// or move one to another router and back.
func (c *Controller) verifyTemplate(ctx context.Context, template *samplecrdv1.Network) error {
	if template == nil {
		return nil
	}
	live, err := c.client.SamplecrdV1().Networks(template.Namespace).Get(ctx, template.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the template live: %w", err)
	}
	if networkNeedsSync(template, live) {
		return apierrors.NewConflict(samplecrdv1.Resource("networks"), template.Name, errors.New("it has changed since it was read"))
	}
	return nil
}

// handleWriteError returns the error with which the sync ends, nil if a retry cannot help.
// The CIDR of a refused write is released. After any other error the result of the write is
// unknown, so the CIDR stays reserved.
func (c *Controller) handleWriteError(ctx context.Context, d *appsv1.Deployment, err error) error {
	if refused(err) {
		c.release(cache.MetaObjectToName(d))
	}
	switch {
	case apierrors.IsInvalid(err):
		c.recordOnce(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkAnnotationInvalid, err.Error()})
		return nil
	case apierrors.IsAlreadyExists(err):
		return errStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the Deployment is deleted with its namespace
	case apierrors.IsForbidden(err):
		c.recordOnce(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkRefused, err.Error()})
	}
	return err
}

// refused reports whether the API server answered that it did not do the write.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// reserve marks the desired CIDR as taken before it is written.
func (c *Controller) reserve(d *appsv1.Deployment, desired request) {
	if cidr, err := netip.ParsePrefix(desired.cidr); err == nil {
		c.allocator.reserve(cache.MetaObjectToName(d), cidr)
	}
}

// release frees the CIDR of a write that did not happen, and enqueues the Deployments that
// wait for a block.
func (c *Controller) release(key cache.ObjectName) {
	if c.allocator.release(key) {
		c.enqueueWaiting()
	}
}

// recordDone records an event about a successful write.
func (c *Controller) recordDone(ctx context.Context, d *appsv1.Deployment, reason, format string, args ...any) {
	c.forgetEvent(cache.MetaObjectToName(d))
	c.record(ctx, d, event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

// recordOnce records an event unless it is the same as the last one of the Deployment.
func (c *Controller) recordOnce(ctx context.Context, d *appsv1.Deployment, e event) {
	key, now := cache.MetaObjectToName(d), recordedEvent{d.UID, e}
	c.mu.Lock()
	isNew := c.lastEvents[key] != now
	c.lastEvents[key] = now
	c.mu.Unlock()
	if isNew {
		c.record(ctx, d, e)
	}
}

// record records an event and logs it.
func (c *Controller) record(ctx context.Context, d *appsv1.Deployment, e event) {
	klog.FromContext(ctx).Info("Event", "type", e.eventType, "reason", e.reason, "message", e.message)
	c.recorder.Event(reference(d), e.eventType, e.reason, e.message)
}

// forgetEvent clears the last event of a Deployment that has its Network, or that is gone.
func (c *Controller) forgetEvent(key cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lastEvents, key)
}

// reference returns the reference to the Deployment for an event. Objects in a cache have an
// empty TypeMeta, so the kind is set here.
func reference(d *appsv1.Deployment) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: deploymentKind.GroupVersion().String(), Kind: deploymentKind.Kind,
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
	}
}
