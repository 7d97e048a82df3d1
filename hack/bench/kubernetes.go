// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
)

// namespace is the namespace of the Networks. Each has its own name and CIDR.
const namespace = "default"

// appliers is the number of clients that create, edit and delete Networks concurrently.
const appliers = 8

func name(i int) string { return fmt.Sprintf("network-%05d", i) }

// numberOf returns the number of the Network with a name.
func numberOf(name string) (i int, err error) {
	_, err = fmt.Sscanf(name, "network-%d", &i)
	return i, err
}

// cidr returns the CIDR of a Network by its number, which is below 65,536. gateway returns an
// address in it.
func cidr(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255) }

func gateway(i, address int) string { return fmt.Sprintf("10.%d.%d.%d", i>>8, i&255, address) }

// inParallel calls do with 0 to n-1, from a number of goroutines. It stops at the first error.
func inParallel(ctx context.Context, clients, n int, do func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range clients {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// moments has the times at which something happened to Networks, by name. It is safe for
// concurrent use.
type moments struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newMoments() *moments { return &moments{at: map[string]time.Time{}} }

func (m *moments) now(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[name] = time.Now()
}

// until returns the times from these moments to the later ones of the same names.
func (m *moments) until(later map[string]time.Time) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var times []time.Duration
	for name, at := range later {
		if began, ok := m.at[name]; ok {
			times = append(times, at.Sub(began))
		}
	}
	return times
}

// after returns the times from began to each moment.
func after(began time.Time, at map[string]time.Time) []time.Duration {
	times := make([]time.Duration, 0, len(at))
	for _, t := range at {
		times = append(times, t.Sub(began))
	}
	return times
}

// tracker notes when each of a number of objects fulfills a condition. It is safe for concurrent
// use.
type tracker[T any] struct {
	mu sync.Mutex
	// is reports whether an object fulfills the condition; nil if the condition is that it is
	// deleted.
	is      func(T) bool
	desired int
	at      map[string]time.Time
	done    chan struct{}
}

// expect starts to wait for n objects that fulfill a condition, which is that they are deleted
// if is is nil.
func (t *tracker[T]) expect(n int, is func(T) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.is, t.desired, t.at, t.done = is, n, map[string]time.Time{}, make(chan struct{})
}

func (t *tracker[T]) see(name string, object T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.is != nil && t.is(object) {
		t.note(name)
	}
}

func (t *tracker[T]) seeGone(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.is == nil {
		t.note(name)
	}
}

// note notes the time for an object. The caller holds the lock.
func (t *tracker[T]) note(name string) {
	if _, known := t.at[name]; known || t.done == nil {
		return
	}
	t.at[name] = time.Now()
	if len(t.at) == t.desired {
		close(t.done)
	}
}

// wait waits until all objects of expect fulfill the condition. It returns when each first did,
// by name.
func (t *tracker[T]) wait(ctx context.Context) (map[string]time.Time, error) {
	t.mu.Lock()
	done := t.done
	t.mu.Unlock()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("only %d of %d objects fulfill the condition: %w", len(t.at), t.desired, err)
	}
	return maps.Clone(t.at), nil
}

// watcher watches all Networks.
type watcher struct {
	tracker[*samplecrdv1.Network]
	client   clientset.Interface
	networks networkinformers.TypedNetworkInformer
}

// watch returns a watcher whose cache has synced. It stops when ctx is done.
func watch(ctx context.Context, client clientset.Interface) (*watcher, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(object any) (any, error) {
		if network, ok := object.(*samplecrdv1.Network); ok {
			network.ManagedFields = nil
		}
		return object, nil
	}))
	w := &watcher{client: client, networks: factory.Samplecrd().V1().Networks()}
	registration, err := w.networks.TypedInformer().AddTypedEventHandler(networkinformers.NetworkHandlerFuncs{
		AddFunc:    func(n *samplecrdv1.Network) { w.see(n.Name, n) },
		UpdateFunc: func(_, n *samplecrdv1.Network) { w.see(n.Name, n) },
		DeleteFunc: func(n networkinformers.DeletedNetwork) { w.seeGone(n.GetObjectName().Name) },
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	select {
	case <-registration.HasSyncedChecker().Done():
		return w, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// await is expect, and counts the Networks that fulfill the condition already.
func (w *watcher) await(n int, is func(*samplecrdv1.Network) bool) {
	w.expect(n, is)
	for _, network := range w.all() {
		w.see(network.Name, network)
	}
}

// all returns all Networks in the cache.
func (w *watcher) all() []*samplecrdv1.Network {
	networks, err := w.networks.Lister().List(labels.Everything())
	if err != nil {
		panic(err) // the cache returns none
	}
	return networks
}

// isReady reports whether the Network is Ready in its current generation.
func isReady(network *samplecrdv1.Network) bool {
	for _, c := range network.Status.Conditions {
		if c.Type == samplecrdv1.ConditionReady {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == network.Generation
		}
	}
	return false
}

// apply creates the Network with a number.
func (w *watcher) apply(ctx context.Context, i int) error {
	return w.create(ctx, namespace, name(i), samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr(i), Gateway: gateway(i, 1)}})
}

func (w *watcher) create(ctx context.Context, namespace, name string, spec samplecrdv1.NetworkSpec) error {
	network := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	_, err := w.client.SamplecrdV1().Networks(namespace).Create(ctx, network, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// applyAll creates the Networks with the numbers from to to-1, and adds the time of each
// request to asked.
func (w *watcher) applyAll(ctx context.Context, from, to int, asked *moments) error {
	return inParallel(ctx, appliers, to-from, func(ctx context.Context, i int) error {
		asked.now(name(from + i))
		return w.apply(ctx, from+i)
	})
}

// editAll sets the gateways of all Networks to addresses with that last number, and adds the
// time of each request to asked.
func (w *watcher) editAll(ctx context.Context, address int, asked *moments) error {
	networks := w.all()
	return inParallel(ctx, appliers, len(networks), func(ctx context.Context, i int) error {
		network := networks[i].DeepCopy()
		number, err := numberOf(network.Name)
		if err != nil {
			return err
		}
		network.Spec.Gateway = gateway(number, address)
		asked.now(network.Name)
		_, err = w.client.SamplecrdV1().Networks(namespace).Update(ctx, network, metav1.UpdateOptions{})
		return err
	})
}

// deleteAll deletes all Networks, and adds the time of each request to asked.
func (w *watcher) deleteAll(ctx context.Context, asked *moments) error {
	networks := w.all()
	return inParallel(ctx, appliers, len(networks), func(ctx context.Context, i int) error {
		asked.now(networks[i].Name)
		return w.client.SamplecrdV1().Networks(namespace).Delete(ctx, networks[i].Name, metav1.DeleteOptions{})
	})
}
