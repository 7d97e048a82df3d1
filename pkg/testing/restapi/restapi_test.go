// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var ctx = context.Background()

func newServer(c Client) (*Server, kubernetes.Interface) {
	s := New(1, map[string]Kind{"secrets": {Name: "Secret"}, "deployments": {Name: "Deployment", HasStatus: true}}, nil)
	return s, s.client(c)
}

func (s *Server) client(c Client) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://kubernetes", Transport: s.Transport(c), QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestConflictsAndGenerations(t *testing.T) {
	_, client := newServer(Client{})
	deployments := client.AppsV1().Deployments("default")
	first := must[*appsv1.Deployment](t)(deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: appsv1.DeploymentStatus{Replicas: 7}}, metav1.CreateOptions{}))
	if first.Generation != 1 || first.UID == "" || first.Status.Replicas != 0 {
		t.Errorf("created: %+v", first)
	}
	second := first.DeepCopy()
	second.Spec.Paused, second.Status.Replicas = true, 7
	second = must[*appsv1.Deployment](t)(deployments.Update(ctx, second, metav1.UpdateOptions{}))
	if second.Generation != 2 || second.Status.Replicas != 0 {
		t.Errorf("updated: %+v", second)
	}
	second.Status.Replicas, second.Spec.Paused = 7, false
	third := must[*appsv1.Deployment](t)(deployments.UpdateStatus(ctx, second, metav1.UpdateOptions{}))
	if third.Generation != 2 || third.Status.Replicas != 7 || !third.Spec.Paused {
		t.Errorf("status updated: %+v", third)
	}
	if _, err := deployments.Update(ctx, first, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	if _, err := deployments.Create(ctx, first, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second creation: %v", err)
	}
	same := must[*appsv1.Deployment](t)(deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"paused":false}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
	if stored := must[*appsv1.Deployment](t)(deployments.Get(ctx, "web", metav1.GetOptions{})); same.Spec.Paused || !stored.Spec.Paused || stored.ResourceVersion != third.ResourceVersion {
		t.Errorf("a dry run: %+v, stored %+v", same, stored)
	}
}

func TestADeletionWaitsForFinalizers(t *testing.T) {
	_, client := newServer(Client{})
	secrets := client.CoreV1().Secrets("default")
	held := secret("held")
	held.Finalizers = []string{"example.org/held"}
	held = must[*corev1.Secret](t)(secrets.Create(ctx, held, metav1.CreateOptions{}))
	other := types.UID("other")
	if err := secrets.Delete(ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of another object: %v", err)
	}
	for range 2 {
		if err := secrets.Delete(ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &held.UID}}); err != nil {
			t.Fatal(err)
		}
	}
	deleting := must[*corev1.Secret](t)(secrets.Get(ctx, "held", metav1.GetOptions{}))
	if deleting.DeletionTimestamp == nil {
		t.Error("it has no deletionTimestamp")
	}
	deleting.Finalizers = nil
	must[*corev1.Secret](t)(secrets.Update(ctx, deleting, metav1.UpdateOptions{}))
	if _, err := secrets.Get(ctx, "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without finalizers: %v", err)
	}
}

// A watch begins after the list, is as late as it is told, and cannot begin at a version that has expired.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := newServer(Client{Lateness: func() time.Duration { return time.Minute }})
		secrets := client.CoreV1().Secrets("default")
		must[*corev1.Secret](t)(secrets.Create(ctx, secret("a"), metav1.CreateOptions{}))
		list := must[*corev1.SecretList](t)(secrets.List(ctx, metav1.ListOptions{}))
		w := must[watch.Interface](t)(secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))
		began := time.Now()
		must[*corev1.Secret](t)(secrets.Create(ctx, secret("b"), metav1.CreateOptions{}))
		if err := secrets.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []watch.Event{{Type: watch.Added, Object: secret("b")}, {Type: watch.Deleted, Object: secret("a")}} {
			got := <-w.ResultChan()
			if got.Type != want.Type || got.Object.(*corev1.Secret).Name != want.Object.(*corev1.Secret).Name || time.Since(began) != time.Minute {
				t.Errorf("after %s: %+v, want %+v", time.Since(began), got, want)
			}
		}
		s.Expire()
		s.BreakWatches()
		if e, open := <-w.ResultChan(); open {
			t.Errorf("a watch that has ended: %+v", e)
		}
		if _, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch that begins too early: %v", err)
		}
		all := must[watch.Interface](t)(secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, SendInitialEvents: new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}))
		var types []watch.EventType
		for range 2 {
			types = append(types, (<-all.ResultChan()).Type)
		}
		if !slices.Equal(types, []watch.EventType{watch.Added, watch.Bookmark}) {
			t.Errorf("a watch with a list: %v", types)
		}
		all.Stop()
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		var fault Fault
		s, _ := newServer(Client{})
		secrets := s.client(Client{Before: func(*Request) Fault { return fault }, Dead: dead}).CoreV1().Secrets("default")
		create := func(name string, f Fault) (err error, stored bool) {
			fault = f
			_, err = secrets.Create(ctx, secret(name), metav1.CreateOptions{})
			return err, s.Get(Key{"secrets", "default", name}) != nil
		}
		if err, stored := create("lost", Fault{Lost: true}); !errors.Is(err, errLost) || stored {
			t.Errorf("a lost request: %v, stored %t", err, stored)
		}
		if err, stored := create("unheard", Fault{Lost: true, After: true}); !errors.Is(err, errLost) || !stored {
			t.Errorf("a lost answer: %v, stored %t", err, stored)
		}
		if err, stored := create("refused", Fault{Status: http.StatusInternalServerError}); !apierrors.IsInternalError(err) || stored {
			t.Errorf("a refused request: %v, stored %t", err, stored)
		}
		began := time.Now()
		if err, stored := create("late", Fault{Delay: time.Minute}); err != nil || !stored || time.Since(began) != time.Minute {
			t.Errorf("a late request: %v, stored %t, after %s", err, stored, time.Since(began))
		}
		close(dead)
		if err, stored := create("dead", Fault{}); !errors.Is(err, errDead) || stored {
			t.Errorf("a request of a process that has ended: %v, stored %t", err, stored)
		}
	})
}

// After a restore, the objects and the resourceVersions are those of the backup, and a client whose watch was ahead lists again.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		s := New(1, map[string]Kind{"secrets": {Name: "Secret"}}, func(c Change) {
			changes = append(changes, string(c.Type)+" "+c.Key.Name)
		})
		client := s.client(Client{})
		secrets := client.CoreV1().Secrets("default")
		kept := must[*corev1.Secret](t)(secrets.Create(ctx, secret("kept"), metav1.CreateOptions{}))
		must[*corev1.Secret](t)(secrets.Create(ctx, secret("deleted"), metav1.CreateOptions{}))
		backup := s.Backup()
		w := must[watch.Interface](t)(secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: kept.ResourceVersion}))
		must[*corev1.Secret](t)(secrets.Create(ctx, secret("late"), metav1.CreateOptions{}))
		if err := secrets.Delete(ctx, "deleted", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		changes = nil
		s.Restore(backup)
		if slices.Sort(changes); !slices.Equal(changes, []string{"DELETED late", "MODIFIED deleted"}) {
			t.Errorf("the changes of the restore: %v", changes)
		}
		for range w.ResultChan() { // what was on its way, and the end
		}
		list := must[*corev1.SecretList](t)(secrets.List(ctx, metav1.ListOptions{}))
		if len(list.Items) != 2 || list.Items[0].Name != "deleted" || list.Items[1].ResourceVersion != kept.ResourceVersion {
			t.Errorf("after the restore: %+v", list.Items)
		}
		if _, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: kept.ResourceVersion}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from before the restore: %v", err)
		}
		w = must[watch.Interface](t)(secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))
		must[*corev1.Secret](t)(secrets.Create(ctx, secret("next"), metav1.CreateOptions{}))
		if e := <-w.ResultChan(); e.Object.(*corev1.Secret).Name != "next" {
			t.Errorf("a watch from after the restore: %+v", e)
		}
		w.Stop()
	})
}
