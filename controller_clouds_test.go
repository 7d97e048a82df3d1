// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// Networks that need what an administrator gives: a ClusterCloud that finishes them, or the permission to use a cloud; and those whose
// credentials change.

const systemNamespace = "samplecrd-system"

// offer creates a ClusterCloud of that name, and its Secret.
func (f *fixture) offer(name string, cloudsYAML []byte) {
	f.t.Helper()
	secret := f.Secret()
	secret.Namespace, secret.Name = systemNamespace, name
	secret.Data["clouds.yaml"] = cloudsYAML
	_, err := f.Secrets.CoreV1().Secrets(systemNamespace).Create(f.t.Context(), secret, metav1.CreateOptions{})
	must(f.t, err)
	offer := &samplecrdv1.ClusterCloud{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: samplecrdv1.ClusterCloudSpec{SecretName: name, CloudName: "theirs"}}
	_, err = f.Kube.SamplecrdV1().ClusterClouds().Create(f.t.Context(), offer, metav1.CreateOptions{})
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

// giveSecret replaces the content of the Secret, and waits until the controller knows.
func (f *fixture) giveSecret(cloudsYAML []byte) {
	f.t.Helper()
	take := func() {
		key, _ := f.controller.queue.Get()
		f.controller.queue.Done(key)
	}
	for f.controller.queue.Len() > 0 {
		take()
	}
	secret := f.Secret()
	secret.Data["clouds.yaml"] = cloudsYAML
	_, err := f.Secrets.CoreV1().Secrets(world.Key.Namespace).Update(f.t.Context(), secret, metav1.UpdateOptions{})
	must(f.t, err)
	take()
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

	f.clouds.ClusterResourceNamespace = systemNamespace
	f.restart()
	other := f.Secret()
	other.Data["clouds.yaml"] = elsewhere(t)
	_, err := f.Secrets.CoreV1().Secrets(world.Key.Namespace).Update(t.Context(), other, metav1.UpdateOptions{})
	must(t, err)
	f.syncUntil(samplecrdv1.ReasonOtherCloud)
	for range 2 {
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

	f.offer("right", f.Secret().Data["clouds.yaml"])
	for f.Find() != nil {
		if err := f.sync(); err != nil && neutron.ReasonOf(err) != neutron.OtherCloud {
			t.Fatal(err)
		}
	}
	f.ExpectNeutron()
	f.mustSync() // the Network is gone
	if n := len(f.controller.clouds.List()); n != 1+1 {
		t.Errorf("%d clouds are open, want the controller's own and that of the ClusterCloud", n)
	}
}

// The Secret leads to another Neutron when the request to create the network has failed. If the answer was lost, the network can be in
// the first one: there is no second one, and no deletion is confirmed, until the user gives the credentials back or abandons the first.
func TestTheSecretLeadsElsewhereAfterACreationThatFailed(t *testing.T) {
	lost := embedded.Fault{After: true, Status: http.StatusGatewayTimeout, Message: "the server didn't respond in time"}
	const here, there = "default/net-a 10.0.0.0/24 10.0.0.1", "default/net-a"
	for _, test := range []struct {
		name   string
		fault  embedded.Fault
		reason string
		then   func(f *fixture, giveBack func())
		// here and there are the networks in both in the end.
		here, there []string
	}{
		{"refused", overQuota, samplecrdv1.ReasonQuotaExceeded, func(*fixture, func()) {}, nil, []string{there}},
		{"lost, and the first credentials come back", lost, samplecrdv1.ReasonNeutronUnavailable, func(_ *fixture, giveBack func()) { giveBack() },
			[]string{here}, nil},
		{"lost, and the Network is deleted", lost, samplecrdv1.ReasonNeutronUnavailable, func(f *fixture, giveBack func()) {
			f.Edit(world.BeingDeleted)
			for range 2 {
				f.mustFail(neutron.OtherCloud)
			}
			giveBack()
		}, nil, nil},
		{"lost, and the user abandons it while nothing else works", lost, samplecrdv1.ReasonNeutronUnavailable, func(f *fixture, _ func()) {
			f.Edit(world.Paused)
			f.Edit(func(n *samplecrdv1.Network) { n.Status.Cloud = "" })
			if err := f.syncOften(); neutron.ReasonOf(err) != neutron.Paused {
				f.t.Fatal(err)
			}
			f.Edit(world.Resumed)
		}, []string{"default/net-a"}, []string{there}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", "", world.WithCredentials))
			f.CreateSecret()
			f.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/networks") {
					return &test.fault
				}
				return nil
			})
			f.syncUntil(test.reason)
			f.Neutron.SetFault(nil)

			server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
			must(t, err)
			t.Cleanup(func() { _ = server.Close() })
			f.giveSecret(server.CloudsYAML("theirs"))
			if test.fault.After {
				if err := f.syncOften(); neutron.ReasonOf(err) != neutron.OtherCloud {
					t.Fatalf("the sync with other credentials ends with %v", err)
				}
				f.ExpectReady(samplecrdv1.ReasonOtherCloud, samplecrdv1.ConditionStalled)
			}
			test.then(f, func() { f.giveSecret(f.Secret().Data["clouds.yaml"]) })
			must(t, f.syncOften())
			f.ExpectNeutron(test.here...)
			var names []string
			for _, n := range server.Networks() {
				if !n.IsExternal {
					names = append(names, n.Name)
				}
			}
			if !slices.Equal(names, test.there) {
				t.Errorf("the other Neutron has %q, want %q", names, test.there)
			}
		})
	}
}

// What was created elsewhere, and is gone from there, does not keep the Network from another place.
func TestTheSecretLeadsElsewhereWhenTheNetworkIsGone(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", "10.0.0.1", world.WithCredentials))
	f.CreateSecret()
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.mustSync() // finds what the status says
	f.Edit(world.Paused)
	must(t, networks.Delete(t.Context(), f.Client, f.Get().Status.NetworkID).ExtractErr())
	for _, cloud := range f.controller.clouds.List() {
		must(t, cloud.Observer().Relist(t.Context()))
	}
	if err := f.syncOften(); neutron.ReasonOf(err) != neutron.Paused || f.Get().Status.NetworkID != "" {
		t.Fatalf("the sync ends with %v, and the status has the network %q", err, f.Get().Status.NetworkID)
	}
	f.giveSecret(elsewhere(t))
	f.Edit(world.Resumed)
	must(t, f.syncOften())
	if n := f.Get().Status; n.NetworkID == "" {
		t.Errorf("there is no network: %+v", n)
	}
}

// A namespace loses the permission to use the controller's own cloud: its Networks stay as they are, and can be deleted.
func TestANetworkThatMayNotUseTheCloudAnyMore(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
	namespaces := f.Secrets.CoreV1().Namespaces()
	label := func(team string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata": {"labels": {"team": %q}}}`, team)
		_, err := namespaces.Patch(t.Context(), world.Key.Namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		must(t, err)
	}
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: world.Key.Namespace}}, metav1.CreateOptions{})
	must(t, err)
	must(t, f.clouds.OwnCloudNamespaces.Set("team=a"))
	f.restart()
	f.syncUntil(samplecrdv1.ReasonCloudNotPermitted)
	f.ExpectNeutron()
	if n := f.Get(); live.HasFinalizer(n) {
		t.Error("the finalizer is added although nothing may be created")
	}

	label("a")
	f.syncUntil(samplecrdv1.ReasonAvailable)
	created := f.Get().Status
	label("b")
	f.syncUntil(samplecrdv1.ReasonCloudNotPermitted)
	f.Edit(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
	f.BeforeRequest(1, func(r *http.Request) { t.Errorf("a request for what is not permitted: %s %s", r.Method, r.URL) })
	f.mustFail(neutron.NotPermitted)
	f.Neutron.SetFault(nil)
	if n := f.Get(); n.Status.NetworkID != created.NetworkID || n.Status.Gateway != created.Gateway {
		t.Errorf("the status is lost: %+v", n.Status)
	}
	f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")

	f.Edit(world.BeingDeleted)
	for f.Find() != nil {
		f.mustSync()
	}
	f.ExpectNeutron()
}

// Users can put the finalizer on a Network that was never permitted. Its deletion looks for what is there of it, and changes
// nothing: the network that it names carries no mark of it.
func TestADeletionWithoutPermissionChangesNothing(t *testing.T) {
	f := newFixture(t)
	victim := f.CreateInNeutron("theirs", "", "10.0.0.0/24")
	f.Protect(victim)
	_, err := f.Secrets.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: world.Key.Namespace}}, metav1.CreateOptions{})
	must(t, err)
	must(t, f.clouds.OwnCloudNamespaces.Set("team=none"))
	n := world.NewNetwork("", "", world.BeingDeleted)
	n.Finalizers = []string{samplecrdv1.Finalizer, "example.com/other"}
	n.Spec.Import, n.Spec.DeletionPolicy = &samplecrdv1.ImportSpec{NetworkID: victim}, samplecrdv1.DeletionDelete
	_, err = f.Kube.SamplecrdV1().Networks(world.Key.Namespace).Create(t.Context(), n, metav1.CreateOptions{})
	must(t, err)
	f.restart()
	before := f.InNeutron()
	for range 10 {
		f.refresh()
		if err := f.quietSync(); err == nil && !live.HasFinalizer(f.Get()) {
			break
		}
	}
	if live.HasFinalizer(f.Get()) {
		t.Error("the finalizer is left")
	}
	if after := f.InNeutron(); !slices.Equal(before, after) {
		t.Errorf("Neutron has %v, want %v", after, before)
	}
}

// TestOtherCredentialsInEveryScenario does what each scenario does with the credentials of a Secret, and then takes back the controller's
// own, which lead to the same project. What their last list has shown is older than all of that: the controller must neither make
// anything again nor undo anything. The CRD does not let users do that; but a Secret can get the content of another one, whose cloud was
// listed before.
func TestOtherCredentialsInEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(world.Scenarios, world.Imports) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			f := prepare(t, s)
			f.CreateSecret()
			s.Act(f.World)
			if n := f.Find(); n == nil || n.DeletionTimestamp != nil {
				return // credentials do not change any more
			}
			f.Edit(world.WithCredentials)
			theirs := f.syncOften()
			f.TakeChanges()
			f.Edit(func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef = nil })
			ours := f.syncOften()
			if again := f.TakeChanges(); len(again) > 0 {
				t.Errorf("changes by the credentials of before: %q", again)
			}
			isNew := neutron.ReasonOf(ours) == neutron.Unresolved // the object with that name: the list is repeated after some seconds
			if (ours == nil) != (theirs == nil) && !isNew {
				t.Errorf("the sync ends with %v, and with the Secret with %v", ours, theirs)
			}
			f.TakeJournal()
			if again := f.quietSync(); again == nil {
				f.ExpectJournal() // what was read is known
			}
			for _, violation := range f.finish(s) {
				t.Error(violation)
			}
		})
	}
}

// syncOften syncs until a sync writes nothing, and returns its error. It lists Neutron only for clouds that are new.
func (f *fixture) syncOften() error {
	f.t.Helper()
	for range 12 {
		f.refresh()
		f.TakeJournal()
		err := f.quietSync()
		if errors.Is(err, clouds.ErrNotReady) {
			key, _ := f.controller.queue.Get()
			f.controller.queue.Done(key)
		} else if len(f.TakeWrites()) == 0 {
			return err
		}
	}
	f.t.Fatal("the syncs write again and again")
	return nil
}
