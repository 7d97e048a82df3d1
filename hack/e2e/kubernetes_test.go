// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestControllerWithoutARightSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reach := "-master=" + newProxy(t, w.serviceAccount()).url
	fails := func(flags string, says ...string) {
		t.Helper()
		said, code := w.run(w.neutron.Env(), append(strings.Fields(flags), reach, "-namespace="+w.namespace)...)
		w.equal(fmt.Sprint(code), "1")
		w.contains(said, says...)
	}
	fails("", "forbidden", "kube-system", "-cluster-id")
	fails("-cluster-id=me", "list Networks", "forbidden")
	w.grant()
	fails("-cluster-id=me -leader-elect=true -leader-elect-resource-namespace="+w.namespace,
		"samplecrd-controller: leader election: ", `cannot get resource "leases"`, "-leader-elect=false")
}

// serviceAccount creates a service account without any rights, and returns a config with
// its token.
func (w *world) serviceAccount() *rest.Config {
	w.Helper()
	config := rest.AnonymousClientConfig(w.adminConfig)
	config.BearerToken = w.account("controller")
	return config
}

// grant grants the service account all rights on what the controller uses in its namespace, except on Secrets and Leases.
func (w *world) grant() {
	w.Helper()
	w.kubectl("create", "role", "controller", "--verb=*",
		"--resource=networks.samplecrd.k8s.io,networks.samplecrd.k8s.io/status,events,deployments.apps")
	w.kubectl("create", "rolebinding", "controller", "--role=controller", "--serviceaccount="+w.namespace+":controller")
	w.may("controller", "create", "events")
}

// It is the first part of TestWholeCluster, whose control plane has no CRD at first.
func readinessWaitsForTheCRD(t *testing.T) {
	w := newWorld(t)
	c := w.launch(serve, "-leader-elect=true", "-leader-elect-resource-namespace="+w.namespace)
	s := w.siteOf(c)
	becomes := func(code int, text string) {
		t.Helper()
		w.eventually(func() error {
			got, body, err := s.try(http.MethodGet, "/readyz", "")
			if err == nil && (got != code || !strings.Contains(body, text)) {
				err = errors.New(body)
			}
			return err
		})
	}
	becomes(http.StatusServiceUnavailable, "[-]networks: the CustomResourceDefinition does not exist; create it with kubectl apply -f artifacts/crd\n")
	s.ask("GET", "/healthz", "", http.StatusOK)
	s.ask("GET", "/metrics", "", http.StatusOK)
	w.must(w.applyCRD(crdOfToday))
	becomes(http.StatusOK, "[+]networks ok")
	w.waitUntilAtWork(c)
}
