// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
//
// Each of these Networks gets a key of its own in the work queue, so that its cloud and its
// errors do not hold up the Network that has its name now.
type Vanished struct {
	networks *live.Networks
	clouds   *clouds.Clouds
	cluster  string

	mu sync.Mutex
	// added are those that were not started yet, by their names.
	added map[cache.ObjectName][]*samplecrdv1.Network
	// started are the others, by their own keys.
	started map[cache.ObjectName]*samplecrdv1.Network
}

// NewVanished returns an empty Vanished.
func NewVanished(networks *live.Networks, clouds *clouds.Clouds, cluster string) *Vanished {
	return &Vanished{
		networks: networks, clouds: clouds, cluster: cluster,
		added: map[cache.ObjectName][]*samplecrdv1.Network{}, started: map[cache.ObjectName]*samplecrdv1.Network{},
	}
}

// FinalizerBypassed reports whether a Network that is gone was deleted in spite of its
// finalizer. The API server does that if the finalizer is stored while the deletion is in
// progress: such a Network was never marked for deletion.
func FinalizerBypassed(gone *samplecrdv1.Network) bool {
	return live.HasFinalizer(gone) && gone.DeletionTimestamp.IsZero()
}

// Add remembers a Network that is gone and was not finalized. The caller enqueues its name.
func (v *Vanished) Add(network *samplecrdv1.Network) {
	v.mu.Lock()
	defer v.mu.Unlock()
	name := cache.MetaObjectToName(network)
	v.added[name] = append(v.added[name], network)
}

// Start returns the keys of the vanished Networks of that name that were added since the last
// call, for the caller to enqueue. The caller holds the name in the work queue: so no sync of
// these Networks is in progress, and none can begin, because the cache does not have them.
func (v *Vanished) Start(ctx context.Context, name cache.ObjectName) (keys []cache.ObjectName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, network := range v.added[name] {
		key := keyOf(network)
		v.started[key] = network
		keys = append(keys, key)
		// The credentials decide when the key has its turn, so they are acquired before it is
		// enqueued. An error comes again in Remove.
		_, _ = v.clouds.For(ctx, key, network)
	}
	delete(v.added, name)
	return keys
}

// keyOf returns the key of a vanished Network. It is not the name of any object.
func keyOf(vanished *samplecrdv1.Network) cache.ObjectName {
	return cache.NewObjectName(vanished.Namespace, vanished.Name+"/"+string(vanished.UID))
}

// IsVanishedKey reports whether the key is one of those that Start returns.
func IsVanishedKey(key cache.ObjectName) bool { return strings.Contains(key.Name, "/") }

// Remove removes what the vanished Network with that key has left in Neutron, as its deletion
// policy says. The caller tries again after an error.
func (v *Vanished) Remove(ctx context.Context, key cache.ObjectName) error {
	v.mu.Lock()
	network := v.started[key]
	v.mu.Unlock()
	if network == nil {
		return nil
	}
	if err := v.remove(ctx, network); err != nil {
		return fmt.Errorf("remove what a vanished Network left: %w", err)
	}
	v.clouds.Forget(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.started, key)
	return nil
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
	cloud, err := v.clouds.For(ctx, keyOf(network), network)
	if err == nil {
		err = v.removeFrom(klog.NewContext(ctx, logger), cloud, network)
	}
	if err == nil {
		v.clouds.ForgetOwner(network.UID)
	}
	switch {
	case neutron.ReasonOf(err) == neutron.NoCredentials, neutron.ReasonOf(err) == neutron.OtherCloud, neutron.ReasonOf(err) == neutron.OtherOwner:
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
	observed, err := cloud.Observe(ctx, identity, neutron.Live)
	if err != nil {
		return err
	}
	isLogged := false
	_, err = cloud.Remove(ctx, identity, observed, network.IsRetained(), neutron.Guard{Verify: func(ctx context.Context) error {
		gone, err := v.networks.IsGone(ctx, network)
		if err == nil && !gone {
			err = errExists
		}
		if err == nil && !isLogged {
			klog.FromContext(ctx).Info("Removing the network of a vanished Network")
			isLogged = true
		}
		return err
	}})
	return err
}
