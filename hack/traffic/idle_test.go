// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

var (
	idleNetworks = flag.Int("idle-networks", 0, "how many Networks TestIdle has; 0: it does nothing")
	idleFor      = flag.Duration("idle-for", time.Minute, "how long TestIdle watches them")
)

// TestIdle watches many Networks for a long time, each with a DHCP server at work. The controller, which lists Neutron
// every five seconds, may write nothing meanwhile.
func TestIdle(t *testing.T) {
	if *idleNetworks == 0 {
		return
	}
	w := newWorld(t)
	w.lasts = true
	var manifests strings.Builder
	for i := range *idleNetworks {
		fmt.Fprintf(&manifests, "---\n%s", network(fmt.Sprintf("idle-%04d", i), fmt.Sprintf("{cidr: 10.%d.%d.0/24}", i/256, i%256)))
	}
	started := time.Now()
	w.kubectl(manifests.String(), "apply", "-f", "-")
	w.waitForDHCPServers(*idleNetworks)
	t.Logf("%d Networks with DHCP servers after %s", *idleNetworks, time.Since(started).Round(time.Second))

	const changed, listed = `"Changed Neutron"`, `"Listed Neutron's networks"`
	before, lists, changes := w.versions(), w.controller.Log.Count(listed), w.controller.Log.Count(changed)
	w.pause(*idleFor)
	lists = w.controller.Log.Count(listed) - lists
	t.Logf("in %s: %d lists, %d changes in Neutron", *idleFor, lists, w.controller.Log.Count(changed)-changes)
	if want := int(*idleFor / time.Minute); lists < want {
		t.Errorf("a controller that hangs writes nothing either: want at least a list each minute, got %d", lists)
	}
	if diff := cmp.Diff(before, w.versions()); diff != "" || w.controller.Log.Count(changed) > changes {
		t.Errorf("an idle controller has written (-before +after):\n%s", diff)
	}
}

// waitForDHCPServers waits until that many Networks are ready, and the ports of their DHCP servers are active.
func (w *world) waitForDHCPServers(want int) {
	w.Helper()
	var last string
	err := wait.PollUntilContextTimeout(w.Context(), 5*time.Second, time.Hour, true, func(ctx context.Context) (bool, error) {
		all, err := w.client.SamplecrdV1().Networks(w.namespace).List(ctx, metav1.ListOptions{})
		w.must(err)
		ready := 0
		for _, n := range all.Items {
			if meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady) {
				ready++
			}
		}
		pages, err := ports.List(w.host.Admin, ports.ListOpts{DeviceOwner: "network:dhcp", Status: "ACTIVE"}).AllPages(ctx)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		active, err := ports.ExtractPorts(pages)
		w.must(err)
		last = fmt.Sprintf("%d Networks are ready, and %d DHCP servers", ready, len(active))
		return ready == want && len(active) >= want, nil
	})
	if err != nil {
		w.Fatalf("%v: %s", err, last)
	}
}

// versions returns the versions of the Networks, and of the networks and subnets in Neutron.
func (w *world) versions() map[string]string {
	w.Helper()
	versions := map[string]string{}
	all, err := w.client.SamplecrdV1().Networks(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, n := range all.Items {
		versions["Network "+n.Name] = n.ResourceVersion
	}
	pages, err := networks.List(w.neutron.Client, networks.ListOpts{}).AllPages(w.Context())
	w.must(err)
	found, err := networks.ExtractNetworks(pages)
	w.must(err)
	for _, n := range found {
		versions["network "+n.ID] = fmt.Sprint(n.RevisionNumber)
	}
	pages, err = subnets.List(w.neutron.Client, subnets.ListOpts{}).AllPages(w.Context())
	w.must(err)
	of, err := subnets.ExtractSubnets(pages)
	w.must(err)
	for _, s := range of {
		versions["subnet "+s.ID] = fmt.Sprint(s.RevisionNumber)
	}
	return versions
}
