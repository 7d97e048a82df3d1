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

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// Lists that Neutron answers with 404: a marker that was deleted, a wrong path in the catalog.

// listsNotFound answers the lists of these collections with 404.
func listsNotFound(errorType string, collections ...string) func(*http.Request) *embedded.Fault {
	return func(r *http.Request) *embedded.Fault {
		path := strings.Split(r.URL.Path, "/")
		if r.Method == http.MethodGet && slices.Contains(collections, path[len(path)-1]) {
			return &embedded.Fault{Status: http.StatusNotFound, Type: errorType, Message: "could not be found"}
		}
		return nil
	}
}

func TestListThatIsNotFoundDoesNotMeanThatTheNetworkIsGone(t *testing.T) {
	for _, errorType := range []string{"NetworkNotFound", "HTTPNotFound"} {
		for name, collections := range map[string][]string{
			"no list works":                {"networks", "subnets", "ports"},
			"the list of subnets fails":    {"subnets"},
			"the list of networks fails":   {"networks"},
			"the list of ports works only": {"networks", "subnets"},
		} {
			for change, edit := range map[string]func(*samplecrdv1.Network){
				"as it was":           func(*samplecrdv1.Network) {},
				"another gateway":     func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" },
				"another CIDR":        func(n *samplecrdv1.Network) { n.Spec.CIDR = "10.7.0.0/24" },
				"a reconcile request": world.ReconcileRequested,
				"being deleted":       world.BeingDeleted,
				"deleted, retained": func(n *samplecrdv1.Network) {
					n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain
					world.BeingDeleted(n)
				},
			} {
				t.Run(errorType+", "+name+", "+change, func(t *testing.T) {
					f := ready(t, "10.0.0.0/24", "")
					before := f.Get().Status
					// The mark on the subnet proves that it is ours.
					f.UnmarkNetwork(before.NetworkID)
					f.restart()
					f.Edit(edit)
					f.Neutron.SetFault(listsNotFound(errorType, collections...))
					for range 2 {
						f.mustFail(neutron.Unavailable)
					}
					f.Neutron.SetFault(nil)
					f.ExpectReady(samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling)
					f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
					if now := f.Get(); now.Status.NetworkID != before.NetworkID || !live.HasFinalizer(now) {
						t.Errorf("the status is %+v, the finalizers are %v", now.Status, now.Finalizers)
					}
				})
			}
		}
	}
}

// crowded answers the controller's lists of all networks with more than the cache may hold: as many networks
// of the cluster, or of strangers.
func crowded(cluster string) func(*http.Request) *embedded.Fault {
	var b strings.Builder
	for i := range 50_001 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id": "n%d", "description": %q}`, i, neutron.Owner{Cluster: cluster, UID: "u"}.Mark())
	}
	fault := &embedded.Fault{Status: http.StatusOK, Message: `{"networks": [` + b.String() + `]}`}
	return func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/networks") && r.URL.Query().Has("limit") && !r.URL.Query().Has("description") {
			return fault
		}
		return nil
	}
}

func TestTooManyNetworksInNeutronDoNotStopTheWork(t *testing.T) {
	for _, test := range []struct {
		name     string
		cluster  string
		overflow bool
	}{
		{"of strangers", "another cluster", false},
		{"of this cluster", world.Cluster, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
			f.Neutron.SetFault(crowded(test.cluster))
			again := func(edit func(*samplecrdv1.Network)) {
				t.Helper()
				f.Edit(edit)
				f.mustSync()
			}
			f.restart()
			if got := f.cloud.Observer().Overflow(); got != test.overflow {
				t.Errorf("overflow: %t", got)
			}
			f.mustSync()
			f.ExpectReady(samplecrdv1.ReasonAvailable)
			f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
			f.relist()
			again(func(n *samplecrdv1.Network) { n.Spec.Gateway = "10.0.0.9" })
			f.ExpectReady(samplecrdv1.ReasonAvailable)
			f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.9")

			// A new controller, and a status that another client has emptied.
			f.restart()
			again(func(n *samplecrdv1.Network) { n.Status = samplecrdv1.NetworkStatus{} })
			f.ExpectReady(samplecrdv1.ReasonAvailable)
			f.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.9")
			again(world.BeingDeleted)
			f.ExpectNeutron()
			if f.Find() != nil {
				t.Error("the Network still exists")
			}
		})
	}
}

// A subnet of another project on our network is visible to credentials with the role admin. It is
// reported once, whatever the network is read with.
func TestUnmanagedSubnetOfAnotherProjectIsReportedOnce(t *testing.T) {
	f := newFixture(t, world.NewNetwork("10.0.0.0/24", ""))
	config, err := neutron.ParseConfig("test-admin", f.Neutron.CloudsYAML("test"))
	if err != nil {
		t.Fatal(err)
	}
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
	f.cloud = neutron.NewCloud("test", client, world.Cluster, time.Hour)
	f.controller.clouds = f.newClouds()
	f.relist()
	f.mustSync()
	f.ExpectEvents(samplecrdv1.EventCreated)
	member, err := networks.Create(t.Context(), f.Client, networks.CreateOpts{Name: "the other project"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	unmanaged, err := subnets.Create(t.Context(), f.UserClient("test-admin"), subnets.CreateOpts{
		NetworkID: f.Get().Status.NetworkID, CIDR: "10.9.0.0/24", IPVersion: gophercloud.IPv4, ProjectID: member.ProjectID,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	relisted := func() { f.relist(); f.mustSync() }
	live := func() {
		f.Edit(func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: n.ResourceVersion}
		})
		f.mustSync()
	}
	events := []string{samplecrdv1.EventUnmanagedSubnet}
	for i, read := range []func(){relisted, live, relisted, live, relisted, relisted} {
		read()
		f.ExpectEvents(events...)
		events = nil
		if message := f.message(); !strings.Contains(message, unmanaged.ID) {
			t.Errorf("after read %d: message %q", i, message)
		}
	}
	if err := subnets.Delete(t.Context(), f.UserClient("test-admin"), unmanaged.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	relisted()
	if message := f.message(); strings.Contains(message, unmanaged.ID) {
		t.Errorf("message %q, though it is gone", message)
	}
}
