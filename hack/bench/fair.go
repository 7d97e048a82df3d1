// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// The namespaces of the Networks that fair edits. Those of anotherCloud are made in a Neutron
// of their own, with the credentials of a Secret.
const (
	anotherNamespace = "another-namespace"
	anotherCloud     = "another-cloud"
)

const (
	// edited is the number of Networks in each of these namespaces.
	edited = 5
	// editPause is the time between two edits in a namespace. It keeps the edits to a few per
	// cent of the requests to Neutron, so that they do not slow down the N Networks by
	// themselves.
	editPause = 250 * time.Millisecond
)

// fair is converge with edits of other Networks meanwhile.
func fair(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	dir := filepath.Join(s.dir, anotherCloud)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return sample, err
	}
	other, err := stack.StartNeutron(ctx, dir, embedded.Options{})
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	other.SetFault(s.cloud.see)
	if err := s.prepareEdited(ctx, other.CloudsYAML); err != nil {
		return sample, fmt.Errorf("prepare: %w", err)
	}
	return convergeWithEdits(ctx, s, n, connections, anotherNamespace, anotherCloud)
}

// prepareEdited creates the Networks that are edited later, and waits until they are Ready.
func (s *stand) prepareEdited(ctx context.Context, cloudsYAML string) (err error) {
	c, err := s.startQuick(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	for _, in := range []string{anotherNamespace, anotherCloud} {
		if _, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	content, err := os.ReadFile(cloudsYAML)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: anotherCloud}, Data: map[string][]byte{"clouds.yaml": content}}
	if _, err := s.kube.CoreV1().Secrets(anotherCloud).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	s.await(2*edited, isReady)
	for i := range edited {
		spec := samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr(i), Gateway: gateway(i, 1)}}
		if err := s.create(ctx, anotherNamespace, editedName(anotherNamespace, i), spec); err != nil {
			return err
		}
		spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: anotherCloud, CloudName: stack.Cloud}
		if err := s.create(ctx, anotherCloud, editedName(anotherCloud, i), spec); err != nil {
			return err
		}
	}
	if _, err := s.wait(ctx); err != nil {
		return err
	}
	return rest(ctx, c.pid) // until it has recorded its events
}

// editedName returns a name that no other namespace has: the watcher knows Networks by name.
func editedName(namespace string, i int) string { return fmt.Sprintf("%s-%d", namespace, i) }

// waitWithEdits waits as wait does, and meanwhile edits Networks of these namespaces. It
// returns the times of the edits by namespace.
func (s *stand) waitWithEdits(ctx context.Context, namespaces []string) (at map[string]time.Time, edits map[string]Percentiles, err error) {
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() (err error) {
		defer close(done)
		at, err = s.wait(ctx)
		return err
	})
	times := make([][]time.Duration, len(namespaces))
	for i, namespace := range namespaces {
		group.Go(func() (err error) {
			times[i], err = s.editUntil(ctx, done, namespace)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	edits = map[string]Percentiles{}
	for i, namespace := range namespaces {
		edits[namespace] = percentiles(times[i])
	}
	return at, edits, nil
}

// editUntil edits the Networks of a namespace, one after another, from the first change in
// Neutron until done is closed, and returns how long each edit took. There is at least one.
func (s *stand) editUntil(ctx context.Context, done <-chan struct{}, namespace string) (times []time.Duration, err error) {
	if _, err := waitFor(ctx, &s.cloud.firstChange); err != nil {
		return nil, err
	}
	for k := 0; ; k++ {
		i := k % edited
		took, err := s.editOne(ctx, namespace, editedName(namespace, i), gateway(i, 2+k%250))
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		select {
		case <-done:
			return times, nil
		case <-time.After(editPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// editOne sets the gateway of a Network, and returns how long it took from the answer of
// Kubernetes until the Network was Ready with it.
func (w *watcher) editOne(ctx context.Context, namespace, name, gateway string) (time.Duration, error) {
	lister := w.networks.Lister().Networks(namespace)
	network, err := lister.Get(name)
	if err != nil {
		return 0, err
	}
	network = network.DeepCopy()
	network.Spec.Gateway = gateway
	if _, err := w.client.SamplecrdV1().Networks(namespace).Update(ctx, network, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	answered := time.Now()
	for {
		if network, err = lister.Get(name); err != nil {
			return 0, err
		}
		if network.Spec.Gateway == gateway && isReady(network) {
			return time.Since(answered), nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return 0, fmt.Errorf("wait until the edit of %s/%s takes effect: %w", namespace, name, err)
		}
	}
}
