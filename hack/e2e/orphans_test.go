// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// everywhere lets a controller see the Networks of all namespaces. The tests that use it are part of
// TestWholeCluster: the controller would work on the Networks of all other tests.
const everywhere = "-namespace= -resync=1s " + serve

// relists waits until the controller has listed Neutron n times from now on.
func (w *world) relists(n int) {
	w.Helper()
	w.calls.take()
	w.eventually(func() error {
		if done := w.calls.peek()["GET networks"]; done < n {
			return fmt.Errorf("it has listed %d times", done)
		}
		return nil
	})
}

// orphan is an item of the list of orphans.
type orphan struct{ Cloud, NetworkID, Name, OwnerUID string }

// orphans waits until n orphans are listed and counted.
func (s *site) orphans(token string, n int) (list []orphan) {
	s.Helper()
	count := fmt.Sprintf("\nsamplecrd_orphans{cloud=%q} %d\n", stack.Cloud, n)
	s.eventually(func() error {
		list = nil
		s.must(json.Unmarshal([]byte(s.ask("GET", "/orphans", token, http.StatusOK)), &list))
		if len(list) != n || !strings.Contains(s.ask("GET", "/metrics", "", http.StatusOK), count) {
			return fmt.Errorf("%d orphans are listed, want %d, and %q in the metrics", len(list), n, count)
		}
		return nil
	})
	return list
}

func orphansAreReportedAndRemovedOnRequestOnly(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	reader, stranger := w.account("reader"), w.mayUpdate("stranger", "gone")
	w.kubectl("create", "clusterrole", w.namespace, "--verb=list", "--resource=networks.samplecrd.k8s.io")
	w.kubectl("create", "clusterrolebinding", w.namespace, "--clusterrole="+w.namespace, "--serviceaccount="+w.namespace+":reader")
	w.may("reader", "list", "networks.samplecrd.k8s.io", "--all-namespaces")

	c := w.start(everywhere)
	s := w.siteOf(c)
	w.create("one", "10.1.0.0/16", "10.1.0.1")
	uid := w.create("gone", "10.1.0.0/16", "10.1.0.1").UID
	s.orphans(reader, 0)
	s.ask("GET", "/orphans", "", http.StatusUnauthorized)
	s.ask("GET", "/orphans", stranger, http.StatusForbidden)
	p.take()
	w.relists(3)
	if asked := p.take(); asked["list networks"] > 0 {
		t.Errorf("without orphans, it costs requests to Kubernetes: %v", asked)
	}
	w.must(c.Stop())
	// An impatient user removes a Network while no controller runs.
	w.kubectl("patch", "network", "gone", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.kubectl("delete", "network", "gone")
	id := w.networks("gone")[0].ID

	c = w.start(everywhere)
	got := w.siteOf(c).orphans(reader, 1)[0]
	w.equal(fmt.Sprint(got.Cloud, got.NetworkID, got.Name, got.OwnerUID), fmt.Sprint(stack.Cloud, id, w.namespace+"/gone", uid))
	w.relists(4)
	w.equal(w.networks("gone")[0].ID, id)
	if n := c.Log.Count("its Network is gone"); n != 1 {
		t.Errorf("the orphan is logged %d times", n)
	}
	w.must(c.Stop())

	w.siteOf(w.start(everywhere, "-delete-orphans")).orphans(reader, 0)
	w.nothing("gone")
	w.matches("one", "10.1.0.0/16", "10.1.0.1")
	w.delete("one")
}
