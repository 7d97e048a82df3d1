// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// Networks whose Secret was deleted with their namespace, and the spare credentials that finish them.

const systemNamespace = "samplecrd-system"

// restartWithSpares is restart, for a controller that may use spare credentials.
func (f *fixture) restartWithSpares() {
	f.t.Helper()
	f.spareNamespace = systemNamespace
	f.restart()
}

// createSpare creates a Secret with spare credentials.
func (f *fixture) createSpare(name string, cloudsYAML []byte) {
	f.t.Helper()
	secret := f.Secret()
	secret.Namespace, secret.Name = systemNamespace, name
	secret.Labels = map[string]string{samplecrdv1.LabelCloudCredentials: "true"}
	secret.Data["clouds.yaml"] = cloudsYAML
	_, err := f.Secrets.CoreV1().Secrets(systemNamespace).Create(f.t.Context(), secret, metav1.CreateOptions{})
	must(f.t, err)
}

// elsewhere returns credentials for another Neutron, whose entry has the name of the World's.
func elsewhere(t *testing.T) (cloudsYAML []byte) {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server.CloudsYAML("theirs")
}

// endNamespace makes the namespace of the Network one that is being deleted.
func (f *fixture) endNamespace() {
	f.t.Helper()
	err := f.Secrets.Tracker().Add(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: world.Key.Namespace, DeletionTimestamp: &metav1.Time{Time: time.Now()}}})
	must(f.t, err)
}

// The Secret of a namespace that is being deleted led to another project before it was deleted.
func TestNetworkIsNotFinishedInAnotherProject(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", "", world.WithCredentials))
	f.CreateSecret()
	f.syncUntil(samplecrdv1.ReasonAvailable)
	created := f.Get().Status

	f.restartWithSpares()
	other := f.Secret()
	other.Data["clouds.yaml"] = elsewhere(t)
	_, err := f.Secrets.CoreV1().Secrets(world.Key.Namespace).Update(t.Context(), other, metav1.UpdateOptions{})
	must(t, err)
	f.syncUntil(samplecrdv1.ReasonOtherCloud)
	for range 3 {
		f.AwaitSecretWatch()
	}
	f.DeleteSecret()
	f.syncUntil(samplecrdv1.ReasonNoCredentials)
	f.endNamespace()
	f.Edit(world.BeingDeleted)
	for range 2 {
		f.mustFail(neutron.OtherCloud)
	}
	if n := f.Get(); n.Status.NetworkID != created.NetworkID || n.Status.ProjectID != created.ProjectID || !live.HasFinalizer(n) {
		t.Errorf("the finalizer or the status is lost: %+v", n)
	}
	f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")

	f.createSpare("right", f.Secret().Data["clouds.yaml"])
	for f.Find() != nil {
		if err := f.sync(); err != nil && neutron.ReasonOf(err) != neutron.OtherCloud {
			t.Fatal(err)
		}
	}
	f.ExpectNeutron()
	f.mustSync() // the Network is gone
	if n := len(f.controller.clouds.List()); n != 1+2 {
		t.Errorf("%d clouds are open, want the controller's own and those of the spare credentials", n)
	}
}
