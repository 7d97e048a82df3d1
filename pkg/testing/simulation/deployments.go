// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

const (
	// deployments is how many Deployments there are at most.
	deployments = 3
	// deploymentPool is the subnet pool of those that request auto, and deploymentPrefix the prefix length of their blocks.
	deploymentPool, deploymentPrefix = "team", 26
)

// hasDeploymentPool reports whether the controllers have a subnet pool for Deployments.
func hasDeploymentPool(seed uint64) bool { return seed%4 >= 2 }

// nameOfDeployment returns the name of the Deployment that an act is about, and its CIDRs.
func nameOfDeployment(s *slot, r *rand.Rand) (name, cidr string) {
	i := s.index % deployments
	return fmt.Sprintf("web-%d", i), fmt.Sprintf("10.%d.%d.0/24", 200+i, r.IntN(3))
}

// declare creates the Deployment, or changes what it declares.
func (w *World) declare(s *slot, r *rand.Rand) {
	name, cidr := nameOfDeployment(s, r)
	if hasDeploymentPool(w.seed) && r.IntN(2) == 0 {
		cidr = samplecrdv1.NetworkCIDRAuto
	}
	all := w.kube.AppsV1().Deployments(home)
	d, err := all.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		d = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, samplecrdv1.AnnotationNetworkCIDR, cidr)
		_, _ = all.Create(w.ctx, d, metav1.CreateOptions{})
		return
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, samplecrdv1.AnnotationNetworkCIDR, cidr)
	_, _ = all.Update(w.ctx, d, metav1.UpdateOptions{})
}

// deleteDeployment deletes the Deployment, and some time later what it owns, as the garbage collector does.
func (w *World) deleteDeployment(s *slot, r *rand.Rand) {
	name, _ := nameOfDeployment(s, r)
	_ = w.kube.AppsV1().Deployments(home).Delete(w.ctx, name, metav1.DeleteOptions{}) // perhaps it does not exist
}

// collectGarbage deletes the Networks whose Deployments are gone.
func (w *World) collectGarbage() {
	if time.Since(w.collected) < 5*time.Second {
		return
	}
	w.collected = time.Now()
	owners := sets.New[types.UID]()
	for _, d := range w.api.List("deployments") {
		owners.Insert(d.GetUID())
	}
	for _, n := range w.all() {
		owner := metav1.GetControllerOf(n)
		if owner == nil || n.DeletionTimestamp != nil || owners.Has(owner.UID) {
			continue
		}
		uid := n.UID
		_ = w.client.SamplecrdV1().Networks(n.Namespace).Delete(w.ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
}

func (w *World) allDeployments() (all []*appsv1.Deployment) {
	for _, o := range w.api.List("deployments") {
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			panic(err) // typed clients have stored it
		}
		all = append(all, d)
	}
	return all
}

// wrongDeployments compares the Deployments with the Networks that they own.
func (w *World) wrongDeployments() (all []string) {
	owned := map[types.UID][]*samplecrdv1.Network{}
	for _, n := range w.all() {
		if owner := metav1.GetControllerOf(n); owner != nil {
			owned[owner.UID] = append(owned[owner.UID], n)
		}
	}
	for _, d := range w.allDeployments() {
		networks, want := owned[d.UID], d.Annotations[samplecrdv1.AnnotationNetworkCIDR]
		delete(owned, d.UID)
		if len(networks) != 1 || networks[0].Name != d.Name || !reflect.DeepEqual(networks[0].Spec.SubnetSpec, rangeOf(want)) {
			all = append(all, fmt.Sprintf("Deployment %s declares %s and has the Networks %+v", d.Name, want, networks))
		}
	}
	for uid, networks := range owned {
		all = append(all, fmt.Sprintf("the Deployment %s is gone, and its Networks are not: %d", uid, len(networks)))
	}
	return all
}

// rangeOf returns what the annotation means in the spec of a Network.
func rangeOf(annotation string) samplecrdv1.SubnetSpec {
	if annotation == samplecrdv1.NetworkCIDRAuto {
		pool := samplecrdv1.NeutronReference{Name: deploymentPool}
		return samplecrdv1.SubnetSpec{SubnetPool: &samplecrdv1.SubnetPoolSpec{NeutronReference: pool, PrefixLength: deploymentPrefix}}
	}
	return samplecrdv1.SubnetSpec{CIDR: annotation}
}
