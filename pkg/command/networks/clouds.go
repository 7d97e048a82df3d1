// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networks has what several subcommands need: the flags that select Networks, the Networks in manifests, and the clouds of
// Networks.
package networks

import (
	"context"
	"fmt"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

// Clouds are the clouds that Networks use. Each is opened when a Network needs it first. Its methods may not be called concurrently.
type Clouds struct {
	cluster string
	options *options.Options
	lookup  clouds.Lookup
	opened  map[clouds.Ref]opened
}

// opened is a cloud, or the error that prevents its use.
type opened struct {
	cloud *neutron.Cloud
	err   error
}

// NewClouds returns Clouds that read credentials with these clients and options. Call Close after use.
func NewClouds(clients *kubeclient.Clients, o *options.Options) *Clouds {
	lookup := clouds.Lookup{Options: clouds.Options{
		Client: clients.Kube, Networks: clients.Networks, Servers: o.Servers,
		ClusterResourceNamespace: o.ClusterResourceNamespace, OwnCloudNamespaces: o.OwnCloudNamespaces,
	}}
	return &Clouds{cluster: clients.ClusterID, options: o, lookup: lookup, opened: map[clouds.Ref]opened{}}
}

// Close closes the connections.
func (c *Clouds) Close() {
	for _, o := range c.opened {
		if o.cloud != nil {
			o.cloud.Client().Close()
		}
	}
}

// Of returns the cloud that the Network works in, with what Neutron had when it was opened.
func (c *Clouds) Of(ctx context.Context, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	if err := c.lookup.CheckPermission(ctx, network); err != nil {
		return nil, aboutCredentials(err)
	}
	ref := clouds.RefOf(network)
	if _, ok := c.opened[ref]; !ok {
		c.opened[ref] = c.open(ctx, ref)
	}
	return c.opened[ref].cloud, c.opened[ref].err
}

func (c *Clouds) open(ctx context.Context, ref clouds.Ref) opened {
	config, err := c.configOf(ctx, ref)
	if err != nil {
		return opened{err: err}
	}
	cloud := neutron.NewCloud(config.Name, neutron.NewClient(config, c.options.Neutron), c.cluster, time.Hour)
	return opened{cloud, cloud.Observer().Relist(ctx)}
}

// configOf returns the configuration of the cloud of these credentials, or of the controller's own for the zero Ref.
func (c *Clouds) configOf(ctx context.Context, ref clouds.Ref) (neutron.Config, error) {
	if ref == (clouds.Ref{}) {
		return neutron.LoadConfig(c.options.Cloud)
	}
	config, err := c.lookup.Config(ctx, ref)
	return config, aboutCredentials(err)
}

// aboutCredentials says which field an error of Kubernetes is about. Others say it.
func aboutCredentials(err error) error {
	if err == nil || neutron.ReasonOf(err) != "" {
		return err
	}
	return fmt.Errorf("spec.cloudCredentialsRef: %w", err)
}
