// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package caches runs the informers: what they cache, when they start, and whether they have
// synced.
package caches

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/deployment"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
)

// The names of the checks in /readyz.
const (
	networksReady    = "networks"
	deploymentsReady = "deployments"
	runningReady     = "running"
)

// Caches are the informers of this process.
type Caches struct {
	Networks    networkinformers.TypedNetworkInformer
	Deployments appsinformers.TypedDeploymentInformer
	// Readiness reports which informers have synced.
	Readiness *serving.Readiness

	client            clientset.Interface
	namespace         string
	withDeployments   bool
	networkFactory    informers.SharedInformerFactory
	deploymentFactory kubeinformers.SharedInformerFactory
}

// New makes the informers of one namespace, or of all if namespace is "". It starts none.
// Deployments are cached only if withDeployments is set.
func New(clients *kubeclient.Clients, namespace string, withDeployments bool) *Caches {
	c := &Caches{
		Readiness:       serving.NewReadiness(networksReady, deploymentsReady, runningReady),
		client:          clients.Networks,
		namespace:       namespace,
		withDeployments: withDeployments,
		networkFactory: informers.NewSharedInformerFactoryWithOptions(clients.WatchNetworks, 0,
			informers.WithNamespace(namespace), informers.WithTransform(stripManagedFields)),
		deploymentFactory: kubeinformers.NewSharedInformerFactoryWithOptions(clients.WatchKube, 0,
			kubeinformers.WithNamespace(namespace), kubeinformers.WithTransform(deployment.Trim)),
	}
	c.Networks = c.networkFactory.Samplecrd().V1().Networks()
	c.Deployments = c.deploymentFactory.Apps().V1().Deployments()
	return c
}

// Run waits for the CustomResourceDefinition, starts the informers, waits until the one of
// Networks has synced, and calls work. It stops the informers when work returns, and returns
// work's error. When ctx is cancelled, the informers stop while work finishes.
func (c *Caches) Run(ctx context.Context, work func(context.Context) error) error {
	if err := c.waitForNetworks(ctx); err != nil {
		return err
	}
	defer c.networkFactory.Shutdown()
	defer c.deploymentFactory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A factory starts the informers that were requested from it before.
	c.recordErrors(networksReady, c.Networks.Informer())
	c.networkFactory.StartWithContext(ctx)
	if c.withDeployments {
		c.recordErrors(deploymentsReady, c.Deployments.Informer())
	}
	c.deploymentFactory.StartWithContext(ctx)

	go c.recordReadiness(ctx)
	if !waitForSync(ctx, "Networks", c.Networks.Informer()) {
		return ctx.Err()
	}
	return work(ctx)
}

// recordErrors makes the informer's errors the reason in /readyz until the first list succeeds.
func (c *Caches) recordErrors(name string, informer cache.SharedIndexInformer) {
	c.Readiness.Set(name, errors.New("not listed yet"))
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		if !informer.HasSynced() {
			c.Readiness.Set(name, err)
		}
	})
	if err != nil {
		panic(err) // it fails only if the informer is running
	}
}

// recordReadiness keeps /readyz up to date until ctx is cancelled.
func (c *Caches) recordReadiness(ctx context.Context) {
	c.Readiness.Set(runningReady, nil)
	if waitForSync(ctx, networksReady, c.Networks.Informer()) {
		c.Readiness.Set(networksReady, nil)
	}
	if !c.withDeployments || waitForSync(ctx, deploymentsReady, c.Deployments.Informer()) {
		c.Readiness.Set(deploymentsReady, nil)
	}
	<-ctx.Done()
	c.Readiness.Set(runningReady, errors.New("shutting down"))
}

// waitForSync reports whether the informer has synced; it returns false if ctx was cancelled
// before.
func waitForSync(ctx context.Context, name string, informer cache.SharedIndexInformer) bool {
	return cache.WaitFor(klog.NewContext(ctx, klog.FromContext(ctx).V(2)), name, informer.HasSyncedChecker())
}

// waitForNetworks returns when the API server serves Networks. An informer that is started
// before that retries too, but less and less often, and logs an error each time.
func (c *Caches) waitForNetworks(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var waiting string
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := c.client.SamplecrdV1().Networks(c.namespace).List(ctx, metav1.ListOptions{Limit: 1})
		reason := ""
		switch {
		case err == nil:
			if waiting != "" {
				logger.Info("Kubernetes knows Networks now")
			}
			return true, nil
		case apierrors.IsNotFound(err):
			reason = "the CustomResourceDefinition does not exist; create it with kubectl apply -f artifacts/crd"
		case waiting == "":
			return false, fmt.Errorf("list Networks: %w", err)
		default:
			reason = err.Error()
		}
		if reason != waiting {
			logger.Info("Waiting for Kubernetes to know what a Network is", "reason", reason)
			c.Readiness.Set(networksReady, errors.New(reason))
			waiting = reason
		}
		return false, nil
	})
}

// stripManagedFields is an informer's transform. Nothing reads managedFields, and they are
// more than half of a small object.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
