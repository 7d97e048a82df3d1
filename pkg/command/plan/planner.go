// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// planner plans for Networks. It keeps the clouds that they use.
type planner struct {
	clients *kubeclient.Clients
	clouds  *networks.Clouds
	// importers are the Networks of this run that import a network to manage it, by its ID.
	importers map[string]string
	// names are the names of all Networks in the cluster by their UIDs; nil until they are needed.
	names map[types.UID]string
}

func newPlanner(clients *kubeclient.Clients, s *settings) *planner {
	return &planner{clients: clients, clouds: networks.NewClouds(clients, s.Options), importers: map[string]string{}}
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
	cloud, err := p.clouds.Of(ctx, t.network)
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
	cloud, err := p.clouds.Of(ctx, network)
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
