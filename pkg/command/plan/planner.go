// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// planner plans for Networks. It keeps the clouds that they use.
type planner struct {
	clients  *kubeclient.Clients
	settings *settings
	lookup   clouds.Lookup
	opened   map[clouds.Ref]opened
	// importers are the Networks of this run that import a network to manage it, by its ID.
	importers map[string]string
	// names are the names of all Networks in the cluster by their UIDs; nil until they are needed.
	names map[types.UID]string
}

// opened is a cloud, or the error that prevents its use.
type opened struct {
	cloud  *neutron.Cloud
	client *neutron.Client
	err    error
}

func newPlanner(clients *kubeclient.Clients, s *settings) *planner {
	lookup := clouds.Lookup{Options: clouds.Options{
		Client: clients.Kube, Networks: clients.Networks, Servers: s.Servers,
		ClusterResourceNamespace: s.ClusterResourceNamespace, OwnCloudNamespaces: s.OwnCloudNamespaces,
	}}
	return &planner{clients: clients, settings: s, lookup: lookup, opened: map[clouds.Ref]opened{}, importers: map[string]string{}}
}

func (p *planner) close() {
	for _, o := range p.opened {
		if o.client != nil {
			o.client.Close()
		}
	}
}

// plan plans for the targets, in their order.
func (p *planner) plan(ctx context.Context, targets []target) []NetworkPlan {
	plans := make([]NetworkPlan, len(targets))
	for i, t := range targets {
		steps, message, err := p.planOne(ctx, t)
		if err != nil {
			err = neutron.NameHolder(err, func(uid types.UID) string { return p.nameOf(ctx, uid) })
		}
		isPaused := err == nil && t.network.IsPaused()
		plans[i] = newNetworkPlan(t, steps, message, isPaused, err)
	}
	return plans
}

// planOne returns what would be done for a Network, and what else there is to say.
func (p *planner) planOne(ctx context.Context, t target) (steps []neutron.PlannedStep, message string, err error) {
	if t.err != nil {
		return nil, "", t.err
	}
	if isDeleted := !t.network.DeletionTimestamp.IsZero(); isDeleted {
		steps, err = p.planRemoval(ctx, t.network)
		return steps, "the Network is being deleted", err
	}
	desired, err := neutron.NewDesired(t.network, p.clients.ClusterID)
	if err != nil {
		return nil, "", err
	}
	cloud, err := p.cloudOf(ctx, t.network)
	if err != nil {
		return nil, "", err
	}
	preview, err := cloud.Preview(ctx, neutron.NewIdentity(t.network, p.clients.ClusterID), desired)
	if err == nil {
		if err := p.checkOthers(t); err != nil {
			return nil, "", err
		}
	}
	return preview.Steps, observation(t.network, preview.Differences), err
}

// planRemoval returns what would be done in Neutron for a Network that is being deleted: nothing without
// the controller's finalizer, and nothing to a network that is only observed.
func (p *planner) planRemoval(ctx context.Context, network *samplecrdv1.Network) ([]neutron.PlannedStep, error) {
	if !live.HasFinalizer(network) || network.IsObserved() {
		return nil, nil
	}
	cloud, err := p.cloudOf(ctx, network)
	if err != nil {
		return nil, err
	}
	return cloud.PreviewRemoval(ctx, neutron.NewIdentity(network, p.clients.ClusterID), network.IsRetained())
}

// observation says whether a network that is only observed matches the spec; "" for another network.
func observation(network *samplecrdv1.Network, differences []string) string {
	if !network.IsObserved() {
		return ""
	}
	text := "the network is only observed, and matches the spec"
	if len(differences) > 0 {
		text = "the network is only observed, and differs from the spec"
		for _, d := range differences {
			text += "\n  " + d
		}
	}
	return text
}

// checkOthers returns an error if another Network of this run takes over the same network. One that has
// the network already keeps it.
func (p *planner) checkOthers(t target) error {
	if t.network.Spec.Import == nil || t.network.IsObserved() || t.network.Status.Imported {
		return nil
	}
	id, name := t.network.Spec.Import.NetworkID, t.namespace+"/"+t.name
	if other, ok := p.importers[id]; ok && other != name {
		return fmt.Errorf("spec.import.networkID: %s imports network %s too, and only one of them gets it", other, id)
	}
	p.importers[id] = name
	return nil
}

// cloudOf returns the cloud that the Network works in, with what Neutron has now.
func (p *planner) cloudOf(ctx context.Context, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	if err := p.lookup.CheckPermission(ctx, network); err != nil {
		return nil, aboutCredentials(err)
	}
	ref := clouds.RefOf(network)
	if _, ok := p.opened[ref]; !ok {
		p.opened[ref] = p.open(ctx, ref)
	}
	return p.opened[ref].cloud, p.opened[ref].err
}

func (p *planner) open(ctx context.Context, ref clouds.Ref) opened {
	config, err := p.configOf(ctx, ref)
	if err != nil {
		return opened{err: err}
	}
	client := neutron.NewClient(config, p.settings.Neutron)
	cloud := neutron.NewCloud(config.Name, client, p.clients.ClusterID, time.Hour)
	return opened{cloud, client, cloud.Observer().Relist(ctx)}
}

// configOf returns the configuration of the cloud of these credentials, or of the controller's own for the zero Ref.
func (p *planner) configOf(ctx context.Context, ref clouds.Ref) (neutron.Config, error) {
	if ref == (clouds.Ref{}) {
		return neutron.LoadConfig(p.settings.Cloud)
	}
	config, err := p.lookup.Config(ctx, ref)
	return config, aboutCredentials(err)
}

// aboutCredentials says which field an error of Kubernetes is about. Others say it.
func aboutCredentials(err error) error {
	if err == nil || neutron.ReasonOf(err) != "" {
		return err
	}
	return fmt.Errorf("spec.cloudCredentialsRef: %w", err)
}

// nameOf returns the name of the Network with that UID; "" if it is not known, as without the right to list
// the Networks of all namespaces.
func (p *planner) nameOf(ctx context.Context, uid types.UID) string {
	if p.names == nil {
		p.names = map[types.UID]string{}
		list, err := p.clients.Networks.SamplecrdV1().Networks(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, n := range list.Items {
				p.names[n.UID] = n.Namespace + "/" + n.Name
			}
		}
	}
	return p.names[uid]
}
