// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package caches

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
)

func newCaches(client *fake.Clientset, kube *kubefake.Clientset, withDeployments bool) *Caches {
	return New(&kubeclient.Clients{WatchKube: kube, Networks: client, WatchNetworks: client}, metav1.NamespaceAll, withDeployments)
}

// missing is the API server's answer while there is no CRD.
var missing = apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Group: samplecrdv1.GroupName, Resource: "networks"}, "", "404 page not found", 0, true)

func TestWaitingForTheCRDIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		began := time.Now()
		client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Since(began) < time.Hour, nil, missing
		})
		var log bytes.Buffer
		if err := newCaches(client, kubefake.NewClientset(), true).waitForNetworks(logTo(t.Context(), &log)); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(began) - time.Hour; late > 2*time.Second {
			t.Errorf("it returned %s after the CRD was created", late)
		}
		if got := strings.Count(log.String(), "\n"); got != 2 {
			t.Errorf("%d lines in the log, want one when it begins to wait and one when it ends:\n%s", got, log.String())
		}
	})
}

func TestAnAPIServerThatGoesAwayWhileWaitingForTheCRDIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		answers := []error{missing, errors.New("connection refused"), errors.New("connection refused"), missing}
		client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
			if len(answers) == 0 {
				return false, nil, nil
			}
			err := answers[0]
			answers = answers[1:]
			return true, nil, err
		})
		if err := newCaches(client, kubefake.NewClientset(), true).waitForNetworks(logTo(t.Context(), io.Discard)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAListOfNetworksThatIsForbiddenIsAnError(t *testing.T) {
	client := fake.NewClientset()
	forbidden := apierrors.NewForbidden(samplecrdv1.Resource("networks"), "", errors.New("no right"))
	client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	if err := newCaches(client, kubefake.NewClientset(), true).waitForNetworks(logTo(t.Context(), io.Discard)); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the API server's error", err)
	}
}

func logTo(ctx context.Context, w io.Writer) context.Context {
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
}

// readyz returns the answer of /readyz.
func (c *Caches) readyz() string {
	w := httptest.NewRecorder()
	c.Readiness.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	return w.Body.String()
}

func TestReadyzFollowsTheCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, client := kubefake.NewClientset(), fake.NewClientset(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "net"}})
		var back atomic.Bool
		kube.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !back.Load() {
				return true, nil, apierrors.NewResourceExpired("try later") // after other errors client-go sleeps, by the real clock
			}
			return false, nil, nil
		})
		c := newCaches(client, kube, true)
		ctx, cancel := context.WithCancel(logTo(t.Context(), io.Discard))
		finish, ended := make(chan error), make(chan error)
		go func() {
			ended <- c.Run(ctx, func(context.Context) error {
				if list, err := c.Networks.Lister().List(labels.Everything()); err != nil || len(list) != 1 {
					t.Errorf("work began with %v in the cache, %v", list, err)
				}
				return <-finish
			})
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.readyz(); !strings.Contains(got, "[+]networks ok\n[-]deployments: ") || !strings.HasSuffix(got, "try later\n[+]running ok\n") {
			t.Errorf("without Deployments: %s", got)
		}
		back.Store(true)
		time.Sleep(time.Minute)
		if got := c.readyz(); got != "[+]networks ok\n[+]deployments ok\n[+]running ok\n" {
			t.Errorf("with all: %s", got)
		}
		cancel()
		synctest.Wait()
		if got := c.readyz(); !strings.HasSuffix(got, "[-]running: shutting down\n") {
			t.Errorf("while work finishes: %s", got)
		}
		failed := errors.New("failed")
		finish <- failed
		if err := <-ended; err != failed {
			t.Errorf("got %v, want the error of work", err)
		}
	})
}

func TestDeploymentsAreNotCachedIfNothingNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, client := kubefake.NewClientset(), fake.NewClientset()
		c := newCaches(client, kube, false)
		err := c.Run(logTo(t.Context(), io.Discard), func(context.Context) error {
			synctest.Wait()
			if got := c.readyz(); got != "[+]networks ok\n[+]deployments ok\n[+]running ok\n" {
				t.Error(got)
			}
			return nil
		})
		if err != nil || len(kube.Actions()) > 0 {
			t.Errorf("got %v; requests: %v", err, kube.Actions())
		}
	})
}

func TestStripManagedFields(t *testing.T) {
	n := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"}},
	}
	stripped, err := stripManagedFields(n)
	if err != nil || stripped.(*samplecrdv1.Network).ManagedFields != nil || stripped.(*samplecrdv1.Network).Spec.CIDR == "" {
		t.Errorf("got %+v, %v", stripped, err)
	}
	if tombstone, err := stripManagedFields("no object"); err != nil || tombstone != "no object" {
		t.Errorf("got %v, %v", tombstone, err)
	}
}
