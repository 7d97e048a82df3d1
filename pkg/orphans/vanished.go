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

package orphans

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Vanished removes from Neutron what belongs to Networks that are gone although they had the
// finalizer: see FinalizerBypassed. It keeps them in memory only; what is left after a crash
// is an orphan. Its methods may be called concurrently.
type Vanished struct {
	networks *live.Networks
	clouds   *clouds.Clouds
	cluster  string

	mu       sync.Mutex
	vanished map[cache.ObjectName][]*samplecrdv1.Network
}

// NewVanished returns an empty Vanished.
func NewVanished(networks *live.Networks, clouds *clouds.Clouds, cluster string) *Vanished {
	return &Vanished{networks: networks, clouds: clouds, cluster: cluster, vanished: map[cache.ObjectName][]*samplecrdv1.Network{}}
}

// FinalizerBypassed reports whether a Network that is gone was deleted in spite of its
// finalizer. The API server does that if the finalizer is stored while the deletion is in
// progress: such a Network was never marked for deletion.
func FinalizerBypassed(gone *samplecrdv1.Network) bool {
	return live.HasFinalizer(gone) && gone.DeletionTimestamp.IsZero()
}

// Add remembers a Network that is gone and was not finalized.
func (v *Vanished) Add(network *samplecrdv1.Network) {
	v.put(cache.MetaObjectToName(network), []*samplecrdv1.Network{network})
}

func (v *Vanished) put(key cache.ObjectName, networks []*samplecrdv1.Network) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.vanished[key] = append(v.vanished[key], networks...)
}

func (v *Vanished) take(key cache.ObjectName) []*samplecrdv1.Network {
	v.mu.Lock()
	defer v.mu.Unlock()
	networks := v.vanished[key]
	delete(v.vanished, key)
	return networks
}

// Remove removes what the vanished Networks of that name have left in Neutron, as their
// deletion policies say. Its caller holds the key in the work queue, so that nothing else works
// on it. What fails is tried again by the next call.
func (v *Vanished) Remove(ctx context.Context, key cache.ObjectName) error {
	networks := v.take(key)
	for i, network := range networks {
		if err := v.remove(ctx, network); err != nil {
			v.put(key, networks[i:])
			return fmt.Errorf("remove what a vanished Network left: %w", err)
		}
		v.clouds.Forget(credentialsKey(network))
	}
	return nil
}

// credentialsKey is the key under which a vanished Network keeps its credentials in use:
// another Network may have its name.
func credentialsKey(vanished *samplecrdv1.Network) cache.ObjectName {
	return cache.NewObjectName(vanished.Namespace, vanished.Name+"/"+string(vanished.UID))
}

// errExists ends a removal: the API server has the Network.
var errExists = errors.New("the Network exists")

// remove removes the networks that carry the mark of a vanished Network. What it must not or
// cannot touch is reported as an orphan.
func (v *Vanished) remove(ctx context.Context, network *samplecrdv1.Network) error {
	if network.IsPaused() {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "uid", network.UID)
	cloud, err := v.clouds.For(ctx, credentialsKey(network), network)
	if err == nil {
		err = v.removeFrom(klog.NewContext(ctx, logger), cloud, network)
	}
	switch {
	case neutron.ReasonOf(err) == neutron.NoCredentials, neutron.ReasonOf(err) == neutron.OtherCloud:
		logger.Info("Left what a vanished Network created", "err", err)
		return nil
	case errors.Is(err, errExists):
		return nil
	case errors.Is(err, clouds.ErrNotReady):
		// No handler enqueues a Network that is gone, so the back-off has to.
		return &neutron.Error{Op: "find the cloud", Reason: neutron.Unavailable, Message: err.Error()}
	}
	return err
}

func (v *Vanished) removeFrom(ctx context.Context, cloud *neutron.Cloud, network *samplecrdv1.Network) error {
	identity := neutron.NewIdentity(network, v.cluster)
	observed, err := cloud.Observe(ctx, identity, neutron.Cached)
	if err != nil {
		return err
	}
	_, err = cloud.Remove(ctx, identity, observed, network.IsRetained(), neutron.Guard{Verify: func(ctx context.Context) error {
		gone, err := v.networks.IsGone(ctx, network)
		if err == nil && !gone {
			err = errExists
		}
		if err == nil {
			klog.FromContext(ctx).Info("Removing the network of a vanished Network")
		}
		return err
	}})
	return err
}
