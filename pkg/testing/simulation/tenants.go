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

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// tenants are namespaces whose Networks use the credentials in a Secret there. Each one has a project of its name.
var tenants = []string{"tenant-a", "tenant-b"}

const (
	secretName = "credentials"
	// spareNamespace has spare credentials of the first tenant. See artifacts/deploy/README.md.
	spareNamespace = "spare"
)

// credentialsOf returns the reference of Networks in that namespace.
func credentialsOf(namespace string) *samplecrdv1.CloudCredentialsReference {
	if !slices.Contains(tenants, namespace) {
		return nil
	}
	return &samplecrdv1.CloudCredentialsReference{SecretName: secretName, CloudName: "test-" + namespace}
}

// putSecret creates the Secret of a tenant, or replaces what it has.
func (w *World) putSecret(namespace, comment string, labels map[string]string) {
	secrets := w.kube.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName, Labels: labels},
		Data:       map[string][]byte{"clouds.yaml": append(w.cloud.yaml(), comment...)},
	}
	_, err := secrets.Create(w.ctx, secret, metav1.CreateOptions{})
	if err != nil { // it exists
		_, err = secrets.Update(w.ctx, secret, metav1.UpdateOptions{})
	}
	w.log("the Secret of %s is there: %v", namespace, err)
}

func tenantOf(s *slot) string { return tenants[s.index%len(tenants)] }

// changeSecret replaces the Secret by one with the same credentials, or removes it for a while.
func (w *World) changeSecret(s *slot, r *rand.Rand) {
	namespace := tenantOf(s)
	again := func() { w.putSecret(namespace, fmt.Sprintf("# %d\n", r.Uint32()), nil) }
	if r.IntN(2) == 0 {
		again()
		return
	}
	_ = w.kube.CoreV1().Secrets(namespace).Delete(w.ctx, secretName, metav1.DeleteOptions{})
	w.after(time.Duration(1+r.IntN(60))*time.Second, again)
}

// deleteNamespace deletes all objects of a tenant, in any order. Later the tenant comes back.
func (w *World) deleteNamespace(s *slot, r *rand.Rand) {
	namespace := tenantOf(s)
	networks := w.client.SamplecrdV1().Networks(namespace)
	deletions := []func(context.Context) error{func(ctx context.Context) error {
		return w.kube.CoreV1().Secrets(namespace).Delete(ctx, secretName, metav1.DeleteOptions{})
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
	w.after(time.Duration(20+r.IntN(90))*time.Second, func() { w.putSecret(namespace, "", nil) })
}
