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

// Package clouds finds the cloud that a Network works in: the controller's own, or the one of
// the credentials that the Network names.
//
// It watches the Secrets that Networks name, each by itself and no others; reads each into a
// neutron.Config; and keeps one neutron.Cloud, which is one session and one Observer, for each
// distinct content, however many Networks use it.
package clouds

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Clouds counts which Networks use which credentials, and closes what no Network uses any
// more. Its methods may be called concurrently; they do not wait for Kubernetes or Neutron,
// except For, for a Network that is being deleted.
type Clouds struct {
	own *neutron.Cloud
	set *set

	mu       sync.Mutex
	handlers Handlers
	// refs are the credentials that each Network uses, users how many Networks use each.
	refs  map[cache.ObjectName]Ref
	users map[Ref]int
}

// Handlers are called back by Clouds. They must not block. Each is required.
type Handlers struct {
	// Drift is called when the networks of an owner changed in Neutron.
	Drift func(owner types.UID)
	// Recovered is called when the controller's own cloud answers again after a failure.
	Recovered func()
	// SecretChanged is called when For has a new answer for the Networks that name the Secret.
	SecretChanged func(secret cache.ObjectName)
	// Released is called when no Network uses the credentials any more.
	Released func(Ref)
}

// New returns Clouds with the controller's own cloud. What it starts for others runs until it
// is no longer used, or ctx is cancelled.
func New(ctx context.Context, own *neutron.Cloud, options Options) *Clouds {
	return &Clouds{own: own, set: newSet(ctx, options), refs: map[cache.ObjectName]Ref{}, users: map[Ref]int{}}
}

// AddHandlers registers the handlers. It is called once, before For.
func (c *Clouds) AddHandlers(handlers Handlers) {
	c.handlers = handlers
	c.own.Observer().AddHandler(handlers.Drift)
	c.own.Observer().OnRecovery(handlers.Recovered)
	c.set.onDrift(handlers.Drift)
	c.set.onChange(handlers.SecretChanged)
}

// Own returns the controller's own cloud.
func (c *Clouds) Own() *neutron.Cloud { return c.own }

// List returns all clouds that are in use, the controller's own first.
func (c *Clouds) List() []*neutron.Cloud { return append([]*neutron.Cloud{c.own}, c.set.list()...) }

// Wait waits for all that was started to end, after the context of New was cancelled.
func (c *Clouds) Wait() { c.set.running.Wait() }

// RefOf returns the credentials that the Network names; the zero Ref for the controller's own.
func RefOf(network *samplecrdv1.Network) Ref {
	named := network.Spec.CloudCredentialsRef
	if named == nil {
		return Ref{}
	}
	return Ref{Secret: cache.NewObjectName(network.Namespace, named.SecretName), CloudName: named.CloudName}
}

// SecretsOf returns the Secret that the Network names, if it names one. It is for an index.
func SecretsOf(network *samplecrdv1.Network) []string {
	if ref := RefOf(network); ref != (Ref{}) {
		return []string{ref.Secret.String()}
	}
	return nil
}

// RefOfKey returns the credentials that For last returned a cloud for; the zero Ref for the
// controller's own.
func (c *Clouds) RefOfKey(key cache.ObjectName) Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refs[key]
}

// For returns the Network's cloud, and keeps its credentials in use for the key until the key
// names others or Forget is called. It returns ErrNotReady until the Secret and the cloud were
// read once; a handler is called then. An unusable Secret is an *neutron.Error of reason
// NoCredentials. A Network that is being deleted together with its namespace keeps the cloud
// that its Secret led to, because nobody can create the Secret again.
func (c *Clouds) For(ctx context.Context, key cache.ObjectName, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	ref := RefOf(network)
	c.acquire(key, ref)
	if ref == (Ref{}) {
		return c.own, nil
	}
	cloud, err := c.set.get(ref)
	if neutron.ReasonOf(err) != neutron.NoCredentials || network.DeletionTimestamp.IsZero() {
		return cloud, err
	}
	last, lastErr := c.set.last(ctx, ref)
	if lastErr != nil {
		return nil, lastErr
	}
	if last == nil {
		return nil, err
	}
	return last, nil
}

// Forget releases the credentials that the key uses.
func (c *Clouds) Forget(key cache.ObjectName) { c.acquire(key, Ref{}) }

// acquire counts that the key uses the credentials from now on, and no others. The zero Ref is
// not counted.
func (c *Clouds) acquire(key cache.ObjectName, ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.refs[key]
	if before == ref {
		return
	}
	if ref == (Ref{}) {
		delete(c.refs, key)
	} else {
		c.refs[key] = ref
		c.users[ref]++
	}
	c.release(before)
}

// release is called with the lock held, so that nobody acquires the credentials meanwhile.
func (c *Clouds) release(ref Ref) {
	if ref == (Ref{}) {
		return
	}
	if c.users[ref]--; c.users[ref] > 0 {
		return
	}
	delete(c.users, ref)
	c.set.release(ref)
	c.handlers.Released(ref)
}

// Explain adds to an error of refused credentials which Secret they are from.
func Explain(network *samplecrdv1.Network, err error) error {
	ref := RefOf(network)
	if ref == (Ref{}) || neutron.ReasonOf(err) != neutron.Unauthenticated {
		return err
	}
	return fmt.Errorf("Secret %s, key %s, cloud %s: %w", ref.Secret.Name, keyCloudsYAML, ref.CloudName, err)
}
