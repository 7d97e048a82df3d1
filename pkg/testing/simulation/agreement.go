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

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// disagreements compares both sides.
func (o *oracle) disagreements() (all []string) {
	w := o.world
	now := w.cloud.snapshot()
	owners := map[string]*samplecrdv1.Network{}
	for _, s := range w.slots {
		n := w.get(s)
		switch {
		case n == nil:
		case n.DeletionTimestamp != nil:
			all = append(all, fmt.Sprintf("%s was deleted, and is still there: %+v", s.name, n.Status.Conditions))
			owners[string(n.UID)] = n
		default:
			owners[string(n.UID)] = n
			if got, want := w.observed(n, now), w.wanted(n, now); got != want {
				all = append(all, fmt.Sprintf("%s (%s):\n  want %s\n  got  %s\n  %+v", s.name, n.UID, want, got, n.Status.Conditions))
			}
		}
	}
	for _, n := range now.networks {
		if uid := markOf(n.Description); uid != "" && owners[uid] == nil {
			all = append(all, fmt.Sprintf("left over: network %s of %s", n.ID, uid))
		}
	}
	all = append(all, leftRouters(now, owners)...)
	slices.Sort(all)
	return append(all, w.lost(now)...)
}

// leftRouters returns the routers with a mark that no Network declares, or that are more than one.
func leftRouters(now *snapshot, owners map[string]*samplecrdv1.Network) (all []string) {
	count := map[string]int{}
	for _, r := range now.routers {
		uid := markOf(r.Description)
		if uid == "" {
			continue
		}
		owner := owners[uid]
		if count[uid]++; owner == nil || owner.Spec.Router == nil || owner.Spec.Router.Existing != nil || count[uid] > 1 {
			all = append(all, fmt.Sprintf("left over: router %s of %s", r.ID, uid))
		}
	}
	return all
}

// wanted describes what the Network means.
func (w *World) wanted(n *samplecrdv1.Network, now *snapshot) string {
	via := ""
	switch r := n.Spec.Router; {
	case r == nil:
	case r.Existing != nil:
		via = " via " + cmp.Or(r.Existing.ID, w.gates[r.Existing.Name])
	default:
		via = " via own in " + cmp.Or(r.ExternalNetwork.ID, w.externals[r.ExternalNetwork.Name])
	}
	var subnets, statuses []string
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		name := namespace + "/" + n.Name
		if s.Name != "" {
			name += "/" + s.Name
		}
		cidr, gateway := meaning.CIDRAndGateway(&s.SubnetSpec)
		subnets = append(subnets, name+meaning.WantedSubnet(&s.SubnetSpec)+via)
		statuses = append(statuses, s.Name+" "+cidr+" "+gateway)
	}
	slices.Sort(subnets)
	return fmt.Sprintf("1 network %s/%s%s [%s] status [%s] ready, generation %d", namespace, n.Name,
		meaning.WantedNetwork(&n.Spec, now.networks[n.Status.NetworkID].Network), strings.Join(subnets, "; "), strings.Join(statuses, "; "), n.Generation)
}

// observed describes in the same form what Neutron has, and what the status says.
func (w *World) observed(n *samplecrdv1.Network, now *snapshot) string {
	network := now.networks[n.Status.NetworkID]
	if markOf(network.Description) != string(n.UID) {
		return fmt.Sprintf("the network of the status (%q) has no mark; %d networks have it", n.Status.NetworkID, now.count(string(n.UID)))
	}
	var subnets, statuses []string
	for _, s := range now.subnets {
		if s.NetworkID != network.ID || w.isStrange(s.ID) {
			continue
		}
		text := s.Name + meaning.ObservedSubnet(&s) + w.via(s.ID, now, string(n.UID))
		if markOf(s.Description) != string(n.UID) {
			text += " without a mark"
		}
		subnets = append(subnets, text)
	}
	slices.Sort(subnets)
	for _, s := range n.Status.Subnets {
		text := s.Name + " " + s.CIDR + " " + s.Gateway
		if now.subnets[s.ID].CIDR != s.CIDR {
			text += " with a wrong ID"
		}
		statuses = append(statuses, text)
	}
	return fmt.Sprintf("%d network %s%s [%s] status [%s] %s, generation %d", now.count(string(n.UID)), network.Name, meaning.ObservedNetwork(network.Network),
		strings.Join(subnets, "; "), strings.Join(statuses, "; "), readiness(n), n.Status.ObservedGeneration)
}

func readiness(n *samplecrdv1.Network) string {
	ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || len(n.Status.Conditions) != 1 || !slices.Contains(n.Finalizers, samplecrdv1.Finalizer) {
		return "not ready"
	}
	return "ready"
}

// via describes the routers of a subnet, without those of strangers that no spec can name.
func (w *World) via(subnet string, now *snapshot, uid string) (text string) {
	for _, i := range now.interfaces[subnet] {
		r := now.routers[i.RouterID]
		switch {
		case i.Half:
			text += " via half an interface"
		case markOf(r.Description) == uid:
			text += " via own in " + r.Gateway.NetworkID
		default:
			text += " via " + r.ID
		}
	}
	return text
}

// lost returns the networks that were to be retained, and are gone, and those that were to be deleted, and are there.
func (w *World) lost(now *snapshot) (all []string) {
	for _, c := range w.api.Changes() {
		if c.Key.Resource != "networks" || c.Type != watch.Deleted {
			continue
		}
		c.Type = watch.Modified
		n := typedNetwork(c)
		_, exists := now.networks[n.Status.NetworkID]
		switch isRetained := n.Spec.DeletionPolicy == samplecrdv1.DeletionRetain; {
		case n.Status.NetworkID == "" || w.isRemoved(n.Status.NetworkID):
		case isRetained && !exists:
			all = append(all, fmt.Sprintf("%s was to be retained, and its network %s is gone", n.Name, n.Status.NetworkID))
		}
	}
	return all
}
