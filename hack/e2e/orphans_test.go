/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// everywhere lets a controller see the Networks of all namespaces. The tests that use it are part of
// TestWholeCluster: the controller would work on the Networks of all other tests.
const everywhere = "-namespace= -resync=1s " + serve

// abandon removes the finalizers of Networks and deletes them while no controller runs, as
// an impatient user does. It returns their UIDs.
func (w *world) abandon(names ...string) (uids []string) {
	w.Helper()
	for _, name := range names {
		uids = append(uids, string(w.get(name).UID))
		w.kubectl("patch", "network", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		w.kubectl("delete", "network", name)
	}
	return uids
}

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
type orphan struct {
	Cloud, NetworkID, Name, OwnerUID, Since string
	Ports                                   *int
}

// orphans waits until n orphans are listed.
func (s *site) orphans(token string, n int) (list []orphan) {
	s.Helper()
	s.eventually(func() error {
		list = nil
		s.must(json.Unmarshal([]byte(s.ask("GET", "/orphans", token, http.StatusOK)), &list))
		if len(list) != n {
			return fmt.Errorf("%d orphans are listed, want %d", len(list), n)
		}
		return nil
	})
	return list
}

// counts waits until the metrics count n orphans.
func (s *site) counts(n int) {
	s.Helper()
	want := fmt.Sprintf("\nsamplecrd_orphans{cloud=%q} %d\n", stack.Cloud, n)
	s.eventually(func() error {
		if metrics := s.ask("GET", "/metrics", "", http.StatusOK); !strings.Contains(metrics, want) {
			return fmt.Errorf("no %q in the metrics", want)
		}
		return nil
	})
}

// mayListAll creates an account that may list the Networks of all namespaces.
func (w *world) mayListAll(account string) (token string) {
	w.Helper()
	token = w.account(account)
	name := w.namespace + "-" + account
	w.kubectl("create", "clusterrole", name, "--verb=list", "--resource=networks.samplecrd.k8s.io")
	w.kubectl("create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+w.namespace+":"+account)
	w.may(account, "list", "networks.samplecrd.k8s.io", "--all-namespaces")
	return token
}

func orphansAreReportedAndRemovedOnRequestOnly(t *testing.T) {
	w := newWorld(t)
	p := w.throughProxy()
	reader, stranger := w.mayListAll("reader"), w.mayUpdate("stranger", "gone")

	c := w.start(everywhere)
	s := w.siteOf(c, "http")
	for _, name := range []string{"one", "two", "gone"} {
		w.create(name, "10.1.0.0/16", "10.1.0.1")
	}
	s.counts(0)
	s.orphans(reader, 0)
	s.ask("GET", "/orphans", "", http.StatusUnauthorized)
	s.ask("GET", "/orphans", stranger, http.StatusForbidden)
	p.take()
	w.relists(3)
	if asked := p.take(); asked["list networks"] > 0 {
		t.Errorf("without orphans, it costs requests to Kubernetes: %v", asked)
	}
	w.must(c.Stop())
	uid, id := w.abandon("gone")[0], w.networks("gone")[0].ID

	// The orphan is logged, and not removed.
	c = w.start(everywhere)
	s = w.siteOf(c, "http")
	s.counts(1)
	got := s.orphans(reader, 1)[0]
	w.equal(fmt.Sprint(got.Cloud, got.NetworkID, got.Name, got.OwnerUID), fmt.Sprint(stack.Cloud, id, w.namespace+"/gone", uid))
	s.ask("GET", "/orphans", stranger, http.StatusForbidden)
	w.relists(4)
	w.equal(w.networks("gone")[0].ID, id)
	if n := c.Log.Count("its Network is gone"); n != 1 {
		t.Errorf("the orphan is logged %d times", n)
	}
	w.must(c.Stop())

	// With -delete-orphans, it is removed when it has no ports any more.
	port, err := ports.Create(t.Context(), w.neutron.Client, ports.CreateOpts{NetworkID: id}).Extract()
	w.must(err)
	c = w.start(everywhere, "-delete-orphans")
	s = w.siteOf(c, "http")
	w.waitForLog(c, "has ports on it")
	w.relists(4)
	w.equal(w.networks("gone")[0].ID, id)
	if listed := s.orphans(reader, 1)[0].Ports; listed == nil || *listed != 1 {
		t.Errorf("%v ports are listed, want 1", listed)
	}
	w.must(ports.Delete(t.Context(), w.neutron.Client, port.ID).ExtractErr())
	w.eventually(func() error {
		if len(w.networks("gone")) > 0 {
			return errors.New("the orphan is still there")
		}
		return nil
	})
	s.counts(0)
	s.orphans(reader, 0)
	for _, name := range []string{"one", "two"} {
		w.matches(name, "10.1.0.0/16", "10.1.0.1")
		w.delete(name)
	}
}
