// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
)

func TestRequestsForTheLeaseDoNotWaitForOthers(t *testing.T) {
	const host = "http://127.0.0.1:1"
	shared := flowcontrol.NewTokenBucketRateLimiter(1, 1)
	config := &rest.Config{Host: host, UserAgent: "me", RateLimiter: shared, Timeout: timeout}
	got := forLeases(config, 10*time.Second)
	if got.Host != host || got.UserAgent != "me" {
		t.Errorf("it is for another server: %+v", got)
	}
	if got.Timeout != 5*time.Second {
		t.Errorf("there is no time for a second try: a request may take %s", got.Timeout)
	}
	for range 1000 {
		if !got.RateLimiter.TryAccept() {
			t.Fatal("the rate is limited")
		}
	}
	if config.RateLimiter != shared || config.Timeout != timeout {
		t.Errorf("the others' configuration was changed: %+v", config)
	}
}

func TestWatchesHaveNoTimeout(t *testing.T) {
	config := &rest.Config{Timeout: timeout}
	if got := forWatches(config); got.Timeout != 0 || config.Timeout != timeout {
		t.Errorf("got %s, and %s for the others", got.Timeout, config.Timeout)
	}
}

func TestTheLoadingRulesOfKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	content := `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],"clusters":[{"name":"a","cluster":{"server":"https://there"}}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, kubeconfig, pod string
		options               Options
		host, err             string
	}{
		{"$KUBECONFIG", file, "", Options{LoadingRules: true}, "https://there", ""},
		{"$KUBECONFIG in a pod", file, "192.0.2.1", Options{LoadingRules: true}, "https://there", ""},
		{"a flag overrides it", file, "", Options{LoadingRules: true, Master: "https://here"}, "https://here", ""},
		{"the controller does not read it", file, "", Options{}, "", "this is not a pod in a cluster"},
		{"it does not exist", file + "2", "", Options{LoadingRules: true}, "", "there is no kubeconfig: name the cluster with -kubeconfig"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.kubeconfig)
			t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
			config, err := restConfig(tt.options)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got %v", err)
			}
			if err == nil && config.Host != tt.host {
				t.Errorf("got %s", config.Host)
			}
		})
	}
}

func TestTheClusterID(t *testing.T) {
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid"}}
	for _, tt := range []struct {
		name, given string
		failure     error
		want, err   string
	}{
		{"the UID of kube-system", "", nil, "uid", ""},
		{"it is given", "mine", nil, "mine", ""},
		{"kube-system must not be read", "", apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", nil), "", "allow it, or give an ID with -cluster-id"},
		{"there is no answer", "", errors.New("connection refused"), "", "reach Kubernetes at here: connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kube := fake.NewClientset(system)
			if tt.failure != nil {
				kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.failure })
			}
			got, err := (&Clients{Host: "here", Kube: kube}).clusterID(t.Context(), tt.given)
			if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
