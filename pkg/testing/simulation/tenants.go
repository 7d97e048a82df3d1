// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// tenants are namespaces whose Networks use credentials of their own, each in a project of its name: those of the first a Secret
// there, and those of the second the ClusterCloud of that name.
var tenants = []string{"tenant-a", "tenant-b"}

const (
	secretName = "credentials"
	// systemNamespace has the Secret of the ClusterClouds. The one for the first tenant's project is for nobody; it finishes what
	// is deleted with its Secret. See artifacts/deploy/README.md.
	systemNamespace = "system"
	tenantLabel     = "tenant"
)

// credentialsOf returns the reference of Networks in that namespace.
func credentialsOf(namespace string) *samplecrdv1.CloudCredentialsReference {
	switch namespace {
	case tenants[0]:
		return &samplecrdv1.CloudCredentialsReference{SecretName: secretName, CloudName: cloudOf(namespace)}
	case tenants[1]:
		return &samplecrdv1.CloudCredentialsReference{ClusterCloudName: namespace}
	}
	return nil
}

// cloudOf returns the entry of clouds.yaml for Networks in that namespace.
func cloudOf(namespace string) string {
	if slices.Contains(tenants, namespace) {
		return "test-" + namespace
	}
	return "test"
}

// offerClouds creates the ClusterClouds and their Secret, and the namespaces that they select.
func (w *World) offerClouds() {
	w.putSecret(systemNamespace, "")
	for _, namespace := range tenants {
		offer := &samplecrdv1.ClusterCloud{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		offer.Spec = samplecrdv1.ClusterCloudSpec{SecretName: secretName, CloudName: cloudOf(namespace)}
		if namespace == tenants[1] {
			offer.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{tenantLabel: namespace}}
		}
		_, err := w.client.SamplecrdV1().ClusterClouds().Create(w.ctx, offer, metav1.CreateOptions{})
		w.log("the ClusterCloud %s is there: %v", namespace, err)
		_, err = w.kube.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		w.log("the namespace %s is there: %v", namespace, err)
		w.labelNamespace(namespace, namespace)
	}
}

// labelNamespace makes the namespace one that a ClusterCloud selects, or with another value one that none selects.
func (w *World) labelNamespace(namespace, value string) {
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, tenantLabel, value)
	_, err := w.kube.CoreV1().Namespaces().Patch(w.ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	w.log("the namespace %s has the label %q: %v", namespace, value, err)
}

// forbidCloud takes the label of a tenant away for a while.
func (w *World) forbidCloud(_ *slot, r *rand.Rand) {
	w.labelNamespace(tenants[1], "")
	w.after(time.Duration(1+r.IntN(90))*time.Second, func() { w.labelNamespace(tenants[1], tenants[1]) })
}

// putSecret creates the Secret of a namespace, or replaces what it has.
func (w *World) putSecret(namespace, comment string) {
	secrets := w.kube.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		Data:       map[string][]byte{"clouds.yaml": append(w.cloud.yaml(), comment...)},
	}
	_, err := secrets.Create(w.ctx, secret, metav1.CreateOptions{})
	if err != nil { // it exists
		_, err = secrets.Update(w.ctx, secret, metav1.UpdateOptions{})
	}
	w.log("the Secret of %s is there: %v", namespace, err)
}

func tenantOf(s *slot) string { return tenants[s.index%len(tenants)] }

// secretOf returns the namespace of the Secret of a tenant.
func secretOf(tenant string) string {
	if tenant == tenants[0] {
		return tenant
	}
	return systemNamespace
}

// changeSecret replaces the Secret by one with the same credentials, or removes it for a while.
func (w *World) changeSecret(s *slot, r *rand.Rand) {
	namespace := secretOf(tenantOf(s))
	again := func() { w.putSecret(namespace, fmt.Sprintf("# %d\n", r.Uint32())) }
	if r.IntN(2) == 0 {
		again()
		return
	}
	_ = w.kube.CoreV1().Secrets(namespace).Delete(w.ctx, secretName, metav1.DeleteOptions{})
	w.after(time.Duration(1+r.IntN(60))*time.Second, again)
}

// changeSecretMeanwhile changes the Networks of a tenant, and replaces the Secret by one with the same credentials while Neutron is slow to
// answer the requests for that.
func (w *World) changeSecretMeanwhile(s *slot, r *rand.Rand) {
	tenant := tenantOf(s)
	w.set(func() { w.slowness = 100 })
	for _, other := range w.slots {
		if other.namespace == tenant {
			editSpec([]func(*World, *slot, *rand.Rand, *samplecrdv1.Network){changePool, changeRouter, changeRoutes}[r.IntN(3)])(w, other, r)
		}
	}
	w.after(time.Duration(1+r.IntN(15))*time.Second, func() {
		w.set(func() { w.slowness = 0 })
		w.putSecret(secretOf(tenant), fmt.Sprintf("# %d\n", r.Uint32()))
	})
}

// deleteNamespace deletes all objects of a tenant, in any order. Later the tenant comes back.
func (w *World) deleteNamespace(s *slot, r *rand.Rand) {
	namespace := tenantOf(s)
	networks := w.client.SamplecrdV1().Networks(namespace)
	deletions := []func(context.Context) error{func(ctx context.Context) error {
		return w.kube.CoreV1().Secrets(namespace).Delete(ctx, secretName, metav1.DeleteOptions{}) // one has none
	}}
	for _, n := range w.all() {
		if n.Namespace == namespace {
			deletions = append(deletions, func(ctx context.Context) error { return networks.Delete(ctx, n.Name, metav1.DeleteOptions{}) })
		}
	}
	r.Shuffle(len(deletions), func(i, j int) { deletions[i], deletions[j] = deletions[j], deletions[i] })
	w.log("the namespace %s is deleted", namespace)
	for _, do := range deletions {
		_ = do(w.ctx) // perhaps it is gone
	}
	w.after(time.Duration(20+r.IntN(90))*time.Second, func() {
		if secretOf(namespace) == namespace {
			w.putSecret(namespace, "")
		}
	})
}
