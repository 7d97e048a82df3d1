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
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// fast lets the controller sync many Networks at the same time.
const fast = "-kube-api-qps=1000 -kube-api-burst=1000"

// nth returns the name of the i-th of many Networks.
func nth(i int) string { return fmt.Sprintf("net-%04d", i) }

// nthCIDR returns the CIDR of that Network, and nthGateway a gateway in it.
func nthCIDR(i int) string             { return fmt.Sprintf("10.%d.%d.0/24", i/256, i%256) }
func nthGateway(i, address int) string { return fmt.Sprintf("10.%d.%d.%d", i/256, i%256, address) }

// nthNetwork returns the i-th of many Networks.
func nthNetwork(i, address int) *samplecrdv1.Network {
	return &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: nth(i)},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: nthCIDR(i), Gateway: nthGateway(i, address)}},
	}
}

// createMany creates Networks, and waits until they are ready.
func (w *world) createMany(n int) {
	w.Helper()
	for i := range n {
		_, err := w.client.SamplecrdV1().Networks(w.namespace).Create(w.Context(), nthNetwork(i, 1), metav1.CreateOptions{})
		w.must(err)
	}
	w.eventually(func() error {
		ready := 0
		for _, network := range w.list() {
			if condition(&network, samplecrdv1.ConditionReady).Status == metav1.ConditionTrue {
				ready++
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d Networks are ready", ready, n)
		}
		return nil
	})
}

// waitForCount waits until the log contains text n times.
func (w *world) waitForCount(c *stack.Controller, text string, n int) {
	w.Helper()
	w.eventually(func() error {
		if got := c.Log.Count(text); got < n {
			return fmt.Errorf("%q is in the log %d times, want %d", text, got, n)
		}
		return nil
	})
}

// defaultLease is the default of -leader-elect-lease-duration.
const defaultLease = 15 * time.Second

func TestNextLeaderWorksSoonAfterOneIsKilled(t *testing.T) {
	t.Parallel()
	const (
		networks = 100
		promised = defaultLease + 2*time.Second
	)
	w := newWorld(t)
	first := w.lead(fast)
	w.createMany(networks)
	kubernetes := w.throughProxy()
	second := w.elect()
	w.waitForEvent(leaseName, "LeaderElection", "became leader")
	seen := w.watchLease()
	w.calls.take()
	kubernetes.take()

	before := w.holder()
	killed := time.Now()
	w.kill(first)
	taken := w.becomes("taken over", seen, func(holder string) bool { return holder != before })
	w.waitForLog(second, "Listed Neutron's networks")
	looked := time.Since(killed)
	w.waitForCount(second, `"Synced"`, networks)
	synced := time.Since(killed)
	t.Logf("killed with %d Networks Ready; the next replica leads after %s, has listed Neutron after %s (promised: %s), and has synced all Networks after %s",
		networks, taken.at.Sub(killed), looked, promised, synced)
	if diff := cmp.Diff(counts{"GET networks": 1, "GET subnets": 1, "GET routers": 1}, w.calls.take()); diff != "" {
		t.Errorf("requests to Neutron (-want +got):\n%s", diff)
	}
	w.waitForEvent(leaseName, "LeaderElection", taken.holder()+" became leader")
	if diff := cmp.Diff(counts{"create events": 1}, writes(kubernetes.take())); diff != "" {
		t.Errorf("writes to Kubernetes, besides the Lease's (-want +got):\n%s", diff)
	}

	w.create(nth(0), nthCIDR(0), nthGateway(0, 9))
	w.matches(nth(0), nthCIDR(0), nthGateway(0, 9))
	w.must(second.Stop())
}
