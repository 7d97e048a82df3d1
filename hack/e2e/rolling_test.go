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
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// edits is a stream of changes of Networks, like those of many users. It creates Networks,
// changes the gateways of those that existed before, and deletes some that it created.
type edits struct {
	random *rand.Rand
	// lasting is how many Networks existed before; none of them is deleted.
	lasting int
	// created is how many Networks have existed, with the deleted ones.
	created int
	// gateways has the last number of the gateway that each existing Network must have.
	gateways map[int]int
	// done is the number of edits.
	done atomic.Int64
}

// editing is the time between two edits.
const editing = 100 * time.Millisecond

// run makes edits until ctx is done.
func (e *edits) run(ctx context.Context, namespace string) error {
	ticker := time.NewTicker(editing)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := e.one(context.WithoutCancel(ctx), namespace); err != nil {
			return err
		}
		e.done.Add(1)
	}
}

// one makes one edit. Of ten edits, two are creations and one is a deletion.
func (e *edits) one(ctx context.Context, namespace string) error {
	networks := client.SamplecrdV1().Networks(namespace)
	address := 2 + e.random.IntN(250)
	switch e.done.Load() % 10 {
	case 2, 5:
		i := e.created
		e.created++
		e.gateways[i] = address
		_, err := networks.Create(ctx, nthNetwork(i, address), metav1.CreateOptions{})
		return err
	case 7:
		i := e.removable()
		delete(e.gateways, i)
		return networks.Delete(ctx, nth(i), metav1.DeleteOptions{})
	}
	i := e.random.IntN(e.lasting)
	e.gateways[i] = address
	patch := fmt.Sprintf(`{"spec":{"gateway":%q}}`, nthGateway(i, address))
	_, err := networks.Patch(ctx, nth(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// removable returns a Network that the stream has created. There is always one, because
// there are more creations than deletions.
func (e *edits) removable() int {
	for {
		i := e.lasting + e.random.IntN(e.created-e.lasting)
		if _, ok := e.gateways[i]; ok {
			return i
		}
	}
}

// nthNetwork returns the i-th of many Networks.
func nthNetwork(i, address int) *samplecrdv1.Network {
	return &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: nth(i)},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: nthCIDR(i), Gateway: nthGateway(i, address)}},
	}
}

// want returns what Neutron must have, by name: one network with one subnet for each Network.
func (e *edits) want(namespace string) map[string]string {
	want := map[string]string{}
	for i, address := range e.gateways {
		want[namespace+"/"+nth(i)] = nthCIDR(i) + " " + nthGateway(i, address)
	}
	return want
}

// inNeutron returns what Neutron has, by name. Two networks of one name, or two subnets of
// one network, are an error.
func (w *world) inNeutron() (map[string]string, error) {
	all, err := w.neutron.Networks(w.Context())
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, n := range all {
		if len(n.Subnets) > 1 || found[n.Name] != "" {
			return nil, fmt.Errorf("two networks or subnets of %s: %+v", n.Name, n)
		}
		found[n.Name] = "no subnet"
		if len(n.Subnets) == 1 {
			found[n.Name] = n.Subnets[0].CIDR + " " + n.Subnets[0].GatewayIP
		}
	}
	return found, nil
}

// ids returns the IDs in the status of the first n Networks, by name.
func (w *world) ids(n int) map[string]string {
	w.Helper()
	list, err := client.SamplecrdV1().Networks(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	ids := map[string]string{}
	for _, network := range list.Items[:n] {
		ids[network.Name] = network.Status.NetworkID + " " + network.Status.SubnetID
	}
	return ids
}

// replace starts a replica, and stops the one before when the new one is ready, as a
// Deployment does. It returns the new one.
func (w *world) replace(before *stack.Controller) *stack.Controller {
	w.Helper()
	next := w.elect(serve)
	w.siteOf(next, "http").waitForAnswer("/readyz", http.StatusOK, "[+]networks ok")
	w.must(before.Signal(syscall.SIGTERM))
	w.await("the end of the replica before", before.Done())
	if code := before.ExitCode(); code != 0 {
		w.Errorf("the replica ended with exit code %d", code)
	}
	return next
}

// afterMore waits until n more edits are done.
func (w *world) afterMore(stream *edits, n int64) {
	w.Helper()
	until := stream.done.Load() + n
	w.eventually(func() error {
		if done := stream.done.Load(); done < until {
			return fmt.Errorf("%d edits, want %d", done, until)
		}
		return nil
	})
}

func TestRollingRestartsUnderAStreamOfEditsLoseAndDuplicateNothing(t *testing.T) {
	t.Parallel()
	const (
		lasting  = 100
		rounds   = 3
		promised = 5 * time.Second
	)
	w := newWorld(t)
	replicas := []*stack.Controller{w.lead(), w.elect()}
	w.createMany(lasting)
	before := w.ids(lasting)
	made := &tally{}
	w.neutron.Observe(func(r embedded.Request) {
		if r.Method == http.MethodPost && r.Status == http.StatusCreated {
			made.add(r.Path)
		}
	})

	seed := uint64(time.Now().UnixNano())
	stream := &edits{random: rand.New(rand.NewPCG(seed, 0)), lasting: lasting, created: lasting, gateways: map[int]int{}}
	for i := range lasting {
		stream.gateways[i] = 1
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	streamed := make(chan error, 1)
	began := time.Now()
	go func() { streamed <- stream.run(ctx, w.namespace) }()
	for range rounds {
		for i := range replicas {
			replicas[i] = w.replace(replicas[i])
			w.afterMore(stream, 10)
		}
	}
	stop()
	w.must(<-streamed)
	ended := time.Now()

	want := stream.want(w.namespace)
	w.eventually(func() error {
		found, err := w.inNeutron()
		if diff := cmp.Diff(want, found); err == nil && diff != "" {
			err = errors.New("Neutron does not match the specs (-want +got):\n" + diff)
		}
		return err
	})
	took := time.Since(ended)
	t.Logf("seed %d: %d edits in %s, over %d replacements of replicas; %s after the last edit all was in Neutron (promised: %s)",
		seed, stream.done.Load(), ended.Sub(began).Round(time.Millisecond), rounds*len(replicas), took, promised)
	if diff := cmp.Diff(before, w.ids(lasting)); diff != "" {
		t.Errorf("networks or subnets were replaced (-before +after):\n%s", diff)
	}
	created := stream.created - lasting
	if got := made.take(); created == 0 || got["v2.0/networks"] > created || got["v2.0/subnets"] > created {
		t.Errorf("for %d Networks, the creations in Neutron were %v", created, got)
	}
	for i := range stream.gateways {
		w.waitReady(nth(i))
	}
}
