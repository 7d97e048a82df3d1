// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command samplecrd-controller creates an OpenStack Neutron network for each Network object
// in Kubernetes, keeps it as the object declares it, and deletes it with the object.
package main

import (
	"context"
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificate authorities
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/caches"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/command"
	"github.com/samplecrd/samplecrd-controller/pkg/deployment"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/logging"
	"github.com/samplecrd/samplecrd-controller/pkg/metrics"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/fallback"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
	"github.com/samplecrd/samplecrd-controller/pkg/signals"
	"github.com/samplecrd/samplecrd-controller/pkg/version"
)

func main() {
	if code, handled := command.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); handled {
		exit(code, nil)
	}
	o, done, err := options.Parse(os.Args[1:], os.Stdout, command.Summaries()...)
	if err != nil {
		exit(2, err)
	} else if done {
		exit(0, nil)
	}
	o.Logging.Setup()
	ctx := signals.SetupSignalHandler()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		exit(1, err)
	}
	klog.FromContext(ctx).Info("Stopped")
	exit(0, nil)
}

// exit ends the process, without the deferred calls. Nothing else does, except a second signal.
func exit(code int, err error) {
	if err != nil {
		logging.PrintError(err)
	}
	klog.Flush()
	os.Exit(code)
}

// run works until ctx is cancelled and the work under way has ended, or until an error.
func run(ctx context.Context, o *options.Options) error {
	// In a pod, no user would notice that the networks exist in memory only.
	cloud, err := fallback.LoadConfig(o.Cloud, !kubeclient.InPod())
	if err != nil {
		return err
	}
	defer cloud.Close()
	clients, err := kubeclient.Connect(ctx, o.Kubernetes)
	if err != nil {
		return err
	}
	cloud.Warn(os.Stderr)
	server, err := serving.Listen(o.Serving)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "version", version.Version, "commit", version.Commit,
		"kubernetes", clients.Host, "clusterID", clients.ClusterID, "cloud", cloud.Config.Name)
	recorder := clients.NewRecorder(ctx)
	defer recorder.Stop() // after the controllers, so that their last events are written too
	caches := caches.New(clients, o.Namespace, o.DeploymentWorkers > 0)
	replica, err := election.New(clients.Leases.CoordinationV1(), recorder, o.ForElection(), func() { exit(1, election.ErrLost) })
	if err != nil {
		return err
	}
	c := newControllers(ctx, o, clients, caches, replica, recorder, cloud.Config)
	defer server.Start(ctx, c.routes())()
	return caches.Run(ctx, func(ctx context.Context) error { return replica.Run(ctx, c.run) })
}

// controllers are what the leader runs, and what they work with.
type controllers struct {
	options  *options.Options
	clients  *kubeclient.Clients
	caches   *caches.Caches
	replica  *election.Election // nil: the only one
	recorder record.EventRecorder
	metrics  *metrics.Metrics

	clouds  *clouds.Clouds
	orphans *orphans.Finder
}

func newControllers(ctx context.Context, o *options.Options, clients *kubeclient.Clients, caches *caches.Caches,
	replica *election.Election, recorder record.EventRecorder, config neutron.Config) *controllers {
	c := &controllers{options: o, clients: clients, caches: caches, replica: replica, recorder: recorder, metrics: metrics.New(version.Version, version.Commit)}
	c.clouds = clouds.New(ctx, c.newCloud(config, metrics.Controller), clouds.Options{
		Client:                   clients.WatchKube,
		Networks:                 clients.WatchNetworks,
		Servers:                  o.Servers,
		Limits:                   o.CloudLimits,
		ClusterResourceNamespace: o.ClusterResourceNamespace,
		OwnCloudNamespaces:       o.OwnCloudNamespaces,
		NewCloud: func(config neutron.Config, isOffered bool) *neutron.Cloud {
			if isOffered {
				return c.newCloud(config, metrics.ClusterCloud)
			}
			return c.newCloud(config, metrics.Secret)
		},
	})
	c.orphans = orphans.NewFinder(clients.Networks, caches.Networks, orphans.Options{Clouds: c.clouds.List, Removal: o.DeleteOrphans})
	c.metrics.MustRegister(metrics.Networks(caches.Networks.Lister(), replica.Leads), metrics.Clouds(c.clouds.List, c.clouds.Offered, replica.Leads))
	if o.AllNamespaces() {
		c.metrics.MustRegister(c.orphans)
	}
	return c
}

// newCloud makes a cloud whose requests are counted under this credentials label.
func (c *controllers) newCloud(config neutron.Config, credentials string) *neutron.Cloud {
	o := c.options.Neutron
	o.Fence, o.Meter = c.replica.MustLead, c.metrics.Meter(credentials)
	cloud := neutron.NewCloud(config.Name, neutron.NewClient(config, o), c.clients.ClusterID, c.options.Resync)
	cloud.Observer().OnRelist(func() { c.orphans.Wake() })
	return cloud
}

// routes returns what each replica serves, whether it leads or not.
func (c *controllers) routes() serving.Routes {
	routes := serving.Routes{
		Metrics:   c.metrics.Gatherer(),
		Readiness: c.caches.Readiness,
		Profiled:  c.options.Profiling,
		Kube:      c.clients.Kube,
		Networks:  c.clients.Networks,
		Namespace: c.options.Namespace,
		Leads:     c.replica.Leads,
		Leader:    c.replica.Leader,
	}
	if c.options.AllNamespaces() {
		routes.Orphans = c.orphans.List
	}
	return routes
}

// run runs the controllers until ctx is cancelled and their work under way has ended. Their
// handlers are registered on running informers, which call them for all objects in the cache,
// as after a first list.
func (c *controllers) run(ctx context.Context) error {
	o := c.options
	var running errgroup.Group
	if o.DeploymentWorkers > 0 {
		o.Deployments.Fence = c.replica.MustLead
		deployments, err := deployment.NewController(c.clients.Kube, c.clients.Networks, c.caches.Deployments, c.caches.Networks, c.recorder, o.Deployments)
		if err != nil {
			return err
		}
		running.Go(func() error { deployments.Run(ctx, o.DeploymentWorkers); return nil })
	}
	networks, err := NewController(ctx, c.clients.Networks, c.caches.Networks, c.clouds, c.recorder, ControllerOptions{
		Cluster:  c.clients.ClusterID,
		Resync:   o.Resync,
		Limits:   fair.NewLimits(o.Workers, o.Neutron.Connections),
		Retry:    o.Retry,
		OnRepair: c.metrics.DriftRepaired,
	})
	if err != nil {
		return err
	}
	if o.AllNamespaces() {
		running.Go(func() error { c.orphans.Run(ctx); return nil })
	} else {
		klog.FromContext(ctx).Info("Not looking for orphans in Neutron: that needs the Networks of all namespaces", "namespace", o.Namespace)
	}
	running.Go(func() error { return networks.Run(ctx, o.Workers) })
	defer c.clouds.Wait()
	return running.Wait()
}
