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

// Package deployment gives each Deployment that is annotated for it a Network of its own,
// which follows the annotations and goes with the Deployment. It is a controller of
// objects that own others: events lead from the owned to the owner, ownerless ones are
// adopted, and the garbage collector does the rest.
package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
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

// Options are what a Controller is told from outside.
type Options struct {
	// Namespace is the one that the informers look at; all if it is empty.
	Namespace string
	// CIDRPool is what NetworkCIDRAuto takes blocks from. The zero Prefix: nothing.
	CIDRPool netip.Prefix
	// CIDRPrefixLength is the size of those blocks.
	CIDRPrefixLength int
	// Retry says how failed syncs are spaced out.
	Retry retry.Options
	// Fence is called right before a Network is made; nil: nothing is. Who must no longer make
	// any does not return from it: the block that it was to get may be another's by now.
	Fence func()
}

// Controller makes the Networks of Deployments match their annotations.
type Controller struct {
	kube   kubernetes.Interface
	client clientset.Interface

	deployments appslisters.DeploymentLister
	networks    listers.NetworkLister
	// synced are done when the handlers have seen the informers' first lists.
	synced []cache.DoneChecker

	// queue holds the names of the Deployments that somebody has to look at.
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	pool     *allocator
	recorder record.EventRecorder
	fence    func() // nil: none

	mu sync.Mutex
	// told holds what was last said about why a Deployment has not got its Network.
	told map[cache.ObjectName]told

	// sync is syncHandler, or what a test of the queue puts in its place.
	sync func(context.Context, cache.ObjectName) error
}

// told is an event, and the Deployment that it was about.
type told struct {
	uid types.UID
	event
}

// NewController makes a Controller and registers its handlers. The caller starts the
// informers, and then calls Run.
func NewController(kube kubernetes.Interface, client clientset.Interface, deployments appsinformers.TypedDeploymentInformer, networks informers.TypedNetworkInformer, recorder record.EventRecorder, options Options) (*Controller, error) {
	c := &Controller{
		kube:        kube,
		client:      client,
		deployments: deployments.Lister(),
		networks:    networks.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			retry.NewLimiter(options.Retry, func(cache.ObjectName) struct{} { return struct{}{} }),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "deployments"},
		),
		pool: &allocator{
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
		recorder: recorder,
		fence:    options.Fence,
		told:     map[cache.ObjectName]told{},
	}
	c.sync = c.syncHandler
	ofDeployments, err := deployments.TypedInformer().AddTypedEventHandler(c.deploymentHandlers())
	if err != nil {
		return nil, fmt.Errorf("handle the events of Deployments: %w", err)
	}
	ofNetworks, err := networks.TypedInformer().AddTypedEventHandler(c.networkHandlers())
	if err != nil {
		return nil, fmt.Errorf("handle the events of Networks: %w", err)
	}
	c.synced = []cache.DoneChecker{ofDeployments.HasSyncedChecker(), ofNetworks.HasSyncedChecker()}
	return c, nil
}

// deploymentHandlers enqueue the Deployments that ask for a Network, or have one.
func (c *Controller) deploymentHandlers() appsinformers.DeploymentHandlerFuncs {
	return appsinformers.DeploymentHandlerFuncs{
		AddFunc: func(d *appsv1.Deployment) {
			if wants(d) || c.owns(d) {
				c.queue.Add(cache.MetaObjectToName(d))
			}
		},
		UpdateFunc: func(before, now *appsv1.Deployment) {
			if deploymentNeedsSync(before, now) && (wants(before) || wants(now) || c.owns(now)) {
				c.queue.Add(cache.MetaObjectToName(now))
			}
		},
		DeleteFunc: func(d appsinformers.DeletedDeployment) {
			if c.remembers(d.GetObjectName()) {
				c.queue.Add(d.GetObjectName())
			}
		},
	}
}

// networkHandlers enqueue the Deployments that Networks belong to, or stand in the way of.
// An informer's cache is up to date when its handlers are called. So of a Deployment and a
// Network that appear at the same time, the one that comes second finds the first.
func (c *Controller) networkHandlers() informers.NetworkHandlerFuncs {
	return informers.NetworkHandlerFuncs{
		AddFunc: func(n *samplecrdv1.Network) {
			c.pool.seen(n)
			c.enqueueFor(n)
		},
		UpdateFunc: func(before, now *samplecrdv1.Network) {
			key := cache.MetaObjectToName(now)
			unsettled := c.pool.isReserved(key)
			c.pool.seen(now)
			if !slices.Equal(cidrs(before), cidrs(now)) {
				c.enqueueWaiting()
			}
			if networkNeedsSync(before, now) {
				c.enqueueFor(before) // it may have belonged to another one
				c.enqueueFor(now)
			} else if unsettled {
				c.queue.Add(key)
			}
		},
		DeleteFunc: func(n informers.DeletedNetwork) {
			c.enqueueWaiting()
			if n.OptionalObj != nil {
				c.enqueueFor(n.OptionalObj)
			}
			c.enqueueNamed(n.GetObjectName())
		},
	}
}

// enqueueFor enqueues the Deployment that controls the Network, and otherwise the one that
// might: it has the same name.
func (c *Controller) enqueueFor(n *samplecrdv1.Network) {
	if owner := c.resolveControllerRef(n.Namespace, metav1.GetControllerOf(n)); owner != nil {
		c.queue.Add(cache.MetaObjectToName(owner))
		return
	}
	c.enqueueNamed(cache.MetaObjectToName(n))
}

// enqueueNamed enqueues the Deployment of that name if it asks for a Network.
func (c *Controller) enqueueNamed(key cache.ObjectName) {
	d, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if err == nil && wants(d) || c.remembers(key) {
		c.queue.Add(key)
	}
}

// resolveControllerRef returns the Deployment that a reference means, nil if there is none:
// a Deployment that was deleted and made again under its name is another one.
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

// enqueueWaiting has those look again that have got no block of the pool.
func (c *Controller) enqueueWaiting() {
	for _, key := range c.pool.takeWaiting() {
		c.queue.Add(key)
	}
}

// owns says whether the Deployment has a Network.
func (c *Controller) owns(d *appsv1.Deployment) bool {
	n, err := c.networks.Networks(d.Namespace).Get(d.Name)
	return err == nil && metav1.IsControlledBy(n, d)
}

// remembers says whether there is something in memory that a sync has to clear away.
func (c *Controller) remembers(key cache.ObjectName) bool {
	c.mu.Lock()
	_, isTold := c.told[key]
	c.mu.Unlock()
	return isTold || c.pool.isReserved(key)
}

// Run works until ctx is cancelled. What the workers have in hand then, they finish.
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
	// A queue that was shut down still hands out what it holds.
	for ctx.Err() == nil && c.processNextWorkItem(ctx) {
	}
}

// slowly is how long a Deployment that has got no block waits, unless it is woken before.
const slowly = time.Minute

func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)

	logger := klog.LoggerWithValues(klog.FromContext(ctx), "deployment", key)
	logger.V(4).Info("Syncing")
	err := c.recoverSync(klog.NewContext(context.WithoutCancel(ctx), logger), key)
	switch {
	case err == nil:
		logger.V(4).Info("Synced")
		c.queue.Forget(key)
		return true
	case errors.Is(err, errExhausted):
		c.queue.Forget(key)
		c.queue.AddAfter(key, slowly)
		return true
	case errors.Is(err, errBehind) || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		logger.V(2).Info("Will try again", "err", err)
	default:
		logger.Error(err, "Failed to sync, will try again")
	}
	c.queue.AddRateLimited(key)
	return true
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

// syncHandler compares what a Deployment asks for with the Network of its name, and acts
// on the difference. It may be called at any time and any number of times.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) error {
	network, err := c.networks.Networks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		network, err = nil, nil
	}
	if err != nil {
		return err
	}
	if err := c.settle(ctx, key, network); err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(4).Info("Deployment is gone")
		c.forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if !deployment.DeletionTimestamp.IsZero() {
		return nil // the garbage collector takes the Network along
	}
	if !wants(deployment) {
		c.forget(key)
		return c.deleteIfOwned(ctx, deployment, network)
	}
	return c.bringAbout(ctx, deployment, network)
}

// errBehind is returned by a sync that has to wait for the cache. There will be an event,
// but for what comes and goes while the informer lists anew; so it is tried again, too.
var errBehind = errors.New("the cache does not show the Network as it is yet")

// settle finds out what has become of our last write, if the cache did not show it yet.
func (c *Controller) settle(ctx context.Context, key cache.ObjectName, network *samplecrdv1.Network) error {
	if !c.pool.isReserved(key) {
		return nil
	}
	live, err := c.client.SamplecrdV1().Networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Network past the cache: %w", err)
	}
	if gone := err != nil; gone != (network == nil) || !gone && network.ResourceVersion != live.ResourceVersion {
		return errBehind
	}
	c.release(key)
	return nil
}

// bringAbout makes the Network what the Deployment asks for, if it may.
func (c *Controller) bringAbout(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) error {
	asked, err := parse(d.Annotations)
	if err != nil {
		c.tell(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkAnnotationInvalid, err.Error()})
		return nil
	}
	if why := obstacle(network, d); why != nil {
		c.tell(ctx, d, *why)
		return nil
	}
	if asked.auto {
		if asked.cidr, err = c.allocate(ctx, d, network); asked.cidr == "" {
			return err
		}
	}
	if network == nil {
		return c.create(ctx, d, asked)
	}
	return c.updateIfNeeded(ctx, d, network, asked)
}

// allocate returns the block of the pool that the Network has, or a new one; "" if there
// is none to be had.
func (c *Controller) allocate(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) (string, error) {
	allocated, preferred := keepable(network)
	if allocated != "" {
		return allocated, nil
	}
	block, err := c.pool.allocate(ctx, cache.MetaObjectToName(d), preferred)
	switch {
	case errors.Is(err, errNoPool):
		c.tell(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNoCIDRPool,
			"The controller has no pool to take a block from: start it with -deployment-cidr-pool, or write a CIDR instead of " + samplecrdv1.NetworkCIDRAuto})
		return "", nil
	case errors.Is(err, errExhausted):
		c.tell(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventCIDRPoolExhausted,
			fmt.Sprintf("No block of prefix length %d is free in %s; waiting for one", c.pool.bits, c.pool.pool)})
		return "", err
	case err != nil:
		return "", err
	}
	return block.String(), nil
}

// create creates the Network. There is no look past the cache before: one that is there
// is not overwritten, and the garbage collector removes that of a Deployment that is gone.
func (c *Controller) create(ctx context.Context, d *appsv1.Deployment, asked request) error {
	c.reserve(d, asked)
	if c.fence != nil {
		c.fence()
	}
	network, err := c.client.SamplecrdV1().Networks(d.Namespace).Create(ctx, newNetwork(d, asked), metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return c.failed(ctx, d, fmt.Errorf("create the Network: %w", err))
	}
	c.done(ctx, d, samplecrdv1.EventNetworkCreated, "Created Network %s, %s", network.Name, network.Spec.CIDR)
	return nil
}

// updateIfNeeded puts right what differs from what the Deployment asks for, and adopts the
// Network if it has no owner yet.
func (c *Controller) updateIfNeeded(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network, asked request) error {
	patch := difference(network, d, asked)
	if patch == nil {
		c.forget(cache.MetaObjectToName(d))
		return nil
	}
	if err := c.confirm(ctx, d); err != nil {
		c.release(cache.MetaObjectToName(d))
		return err
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if network.Spec.CIDR != asked.cidr {
		c.reserve(d, asked)
	}
	_, err = c.client.SamplecrdV1().Networks(d.Namespace).Patch(ctx, network.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return c.failed(ctx, d, fmt.Errorf("update the Network: %w", err))
	}
	if !metav1.IsControlledBy(network, d) {
		c.done(ctx, d, samplecrdv1.EventNetworkAdopted, "Adopted Network %s, %s", network.Name, asked.cidr)
		return nil
	}
	c.done(ctx, d, samplecrdv1.EventNetworkUpdated, "Updated Network %s: %s", network.Name, changes(network, asked))
	return nil
}

// deleteIfOwned deletes the Network of a Deployment that does not ask for one any more.
func (c *Controller) deleteIfOwned(ctx context.Context, d *appsv1.Deployment, network *samplecrdv1.Network) error {
	if network == nil || !metav1.IsControlledBy(network, d) || !network.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.confirm(ctx, d); err != nil {
		return err
	}
	err := c.client.SamplecrdV1().Networks(d.Namespace).Delete(ctx, network.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &network.UID, ResourceVersion: &network.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete the Network: %w", err)
	}
	c.done(ctx, d, samplecrdv1.EventNetworkDeleted, "Deleted Network %s: the annotation %s is gone", network.Name, samplecrdv1.AnnotationNetworkCIDR)
	return nil
}

// confirm makes sure, past the cache, that the Deployment is still the same one, is not
// being deleted, and asks for the same: a deleted one adopts nothing, and no subnet is
// replaced on the word of a cache.
func (c *Controller) confirm(ctx context.Context, d *appsv1.Deployment) error {
	live, err := c.kube.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the Deployment past the cache: %w", err)
	}
	if live.UID != d.UID || !live.DeletionTimestamp.IsZero() || !asksTheSame(live, d) {
		return apierrors.NewConflict(appsv1.Resource("deployments"), d.Name, errors.New("it has changed since it was read"))
	}
	return nil
}

// failed says what a write that failed means. What Kubernetes has refused has not been
// written, so its CIDR is free; of all else we do not know.
func (c *Controller) failed(ctx context.Context, d *appsv1.Deployment, err error) error {
	if refused(err) {
		c.release(cache.MetaObjectToName(d))
	}
	switch {
	case apierrors.IsInvalid(err):
		c.tell(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkAnnotationInvalid, err.Error()})
		return nil
	case apierrors.IsAlreadyExists(err):
		return errBehind
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the Deployment is about to go too
	case apierrors.IsForbidden(err):
		c.tell(ctx, d, event{corev1.EventTypeWarning, samplecrdv1.EventNetworkRefused, err.Error()})
	}
	return err
}

// refused says whether an error is the API server's word that it has done nothing.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// reserve has what is about to be written count as taken.
func (c *Controller) reserve(d *appsv1.Deployment, asked request) {
	if cidr, err := netip.ParsePrefix(asked.cidr); err == nil {
		c.pool.reserve(cache.MetaObjectToName(d), cidr)
	}
}

// release frees what was not written, for those that wait for it.
func (c *Controller) release(key cache.ObjectName) {
	c.pool.release(key)
	c.enqueueWaiting()
}

// done records that something was done, and that all is well.
func (c *Controller) done(ctx context.Context, d *appsv1.Deployment, reason, format string, args ...any) {
	c.forget(cache.MetaObjectToName(d))
	c.record(ctx, d, event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

// tell records an event, unless it was the last one that was told of the Deployment.
func (c *Controller) tell(ctx context.Context, d *appsv1.Deployment, e event) {
	key, now := cache.MetaObjectToName(d), told{d.UID, e}
	c.mu.Lock()
	isNew := c.told[key] != now
	c.told[key] = now
	c.mu.Unlock()
	if isNew {
		c.record(ctx, d, e)
	}
}

// record records an event, and logs it.
func (c *Controller) record(ctx context.Context, d *appsv1.Deployment, e event) {
	klog.FromContext(ctx).Info("Event", "type", e.kind, "reason", e.reason, "message", e.message)
	c.recorder.Event(reference(d), e.kind, e.reason, e.message)
}

// forget is for a Deployment with which all is well, or which is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, key)
}

// reference is the Deployment as events speak of it. Objects from a cache do not say of
// which kind they are.
func reference(d *appsv1.Deployment) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
	}
}
