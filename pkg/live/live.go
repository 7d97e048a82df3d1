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

// Package live reads and writes Networks at the API server itself, past the informer's cache.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

// fieldManager is the controller's name in managedFields.
const fieldManager = "samplecrd-controller"

var (
	// ErrStaleCache is returned by CheckFresh while the cache does not have our last write.
	ErrStaleCache = errors.New("the cache does not have the controller's last write yet")
	// ErrGone is returned for a write to a Network that the API server no longer has. The
	// informer is about to report its deletion.
	ErrGone = errors.New("the Network is gone")
)

// Networks reads and writes Networks. Its methods may be called concurrently for different
// Networks; the work queue ensures that there is one caller for each Network.
type Networks struct {
	client clientset.Interface

	mu sync.Mutex
	// written holds the resourceVersion of our last write of a Network, until the cache has it.
	written map[types.UID]string
}

// NewNetworks returns Networks that use the client.
func NewNetworks(client clientset.Interface) *Networks {
	return &Networks{client: client, written: map[types.UID]string{}}
}

// CheckFresh returns ErrStaleCache if the cached Network is older than our last write of it. A
// sync of that one would compare with an old status, find nothing to write, and leave a wrong
// status behind.
func (l *Networks) CheckFresh(cached *samplecrdv1.Network) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	written, ok := l.written[cached.UID]
	if !ok {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written); err == nil && order < 0 {
		return ErrStaleCache
	}
	delete(l.written, cached.UID)
	return nil
}

func (l *Networks) wroteAt(network *samplecrdv1.Network) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[network.UID] = network.ResourceVersion
}

// Clear forgets our last write of a Network that is gone.
func (l *Networks) Clear(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, uid)
}

// Verify reads the Network at the API server, and returns a conflict unless it is still the
// same object (UID), asks for the same (generation, pause), and names the same network
// (status.networkID, which another controller may have written). Call it before each change that
// cannot be undone.
func (l *Networks) Verify(ctx context.Context, cached *samplecrdv1.Network) error {
	live, err := l.get(ctx, cached)
	if err != nil {
		return fmt.Errorf("read the Network past the cache: %w", err)
	}
	if live.UID != cached.UID || live.Generation != cached.Generation || live.Status.NetworkID != cached.Status.NetworkID ||
		live.IsPaused() != cached.IsPaused() {
		return conflict(cached, "it has changed since it was read")
	}
	return nil
}

// IsGone reports whether the API server no longer has the Network; another Network may have
// its name.
func (l *Networks) IsGone(ctx context.Context, cached *samplecrdv1.Network) (bool, error) {
	live, err := l.get(ctx, cached)
	if isNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the Network past the cache: %w", err)
	}
	return live.UID != cached.UID, nil
}

// RereadIfStatusless returns the Network as it is in the API server's status subresource, if
// the cached one has no status at all, not even the default of the CustomResourceDefinition.
// It uses a patch that changes nothing. If there is no status subresource, the API server uses
// an older CustomResourceDefinition and hides the fields that it does not know: where the
// network is, whose credentials created it, whether it is to be retained. Then nothing is safe
// to do, and the patch fails. The cache can keep such an object after the right
// CustomResourceDefinition is back.
func (l *Networks) RereadIfStatusless(ctx context.Context, cached *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	if !status.Equal(&cached.Status, &samplecrdv1.NetworkStatus{}) {
		return cached, nil
	}
	live, err := l.client.SamplecrdV1().Networks(cached.Namespace).Patch(ctx, cached.Name, types.MergePatchType, []byte("{}"),
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if isNotFound(err) {
		return nil, fmt.Errorf("read the status: %w: if the Network exists, the CustomResourceDefinition is too old; kubectl apply -f artifacts/crd", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	if live.UID != cached.UID {
		return nil, conflict(cached, "another Network has its name")
	}
	return live, nil
}

// HasFinalizer reports whether the Network has the controller's finalizer.
func HasFinalizer(network *samplecrdv1.Network) bool {
	return slices.Contains(network.Finalizers, samplecrdv1.Finalizer)
}

// AddFinalizerIfNeeded returns the Network with the finalizer, and whether it had to be added.
func (l *Networks) AddFinalizerIfNeeded(ctx context.Context, network *samplecrdv1.Network) (patched *samplecrdv1.Network, added bool, err error) {
	if HasFinalizer(network) {
		return network, false, nil
	}
	patched, err = l.patchFinalizers(ctx, network, append(slices.Clone(network.Finalizers), samplecrdv1.Finalizer))
	if isNotFound(err) {
		return nil, false, ErrGone
	}
	if err != nil {
		return nil, false, fmt.Errorf("add the finalizer: %w", err)
	}
	l.wroteAt(patched)
	return patched, true, nil
}

// RemoveFinalizer removes the finalizer, so that Kubernetes deletes the Network. It returns
// ErrGone if the API server no longer has the Network.
func (l *Networks) RemoveFinalizer(ctx context.Context, network *samplecrdv1.Network) error {
	_, err := l.patchFinalizers(ctx, network, slices.DeleteFunc(slices.Clone(network.Finalizers), func(f string) bool { return f == samplecrdv1.Finalizer }))
	if isNotFound(err) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// patchFinalizers writes the finalizers if the Network is still as it was read: of two
// controllers that act on the same version, one gets a conflict.
func (l *Networks) patchFinalizers(ctx context.Context, network *samplecrdv1.Network, finalizers []string) (*samplecrdv1.Network, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             network.UID,
		"resourceVersion": network.ResourceVersion,
		"finalizers":      finalizers,
	}})
	if err != nil {
		return nil, err
	}
	return l.client.SamplecrdV1().Networks(network.Namespace).Patch(ctx, network.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// UpdateStatusIfNeeded writes the next status if it differs. It returns ErrGone if the API
// server no longer has the Network.
func (l *Networks) UpdateStatusIfNeeded(ctx context.Context, network *samplecrdv1.Network, next samplecrdv1.NetworkStatus) error {
	if status.Equal(&network.Status, &next) {
		return nil
	}
	patch, err := status.Patch(network, &next)
	if err != nil {
		return err
	}
	written, err := l.client.SamplecrdV1().Networks(network.Namespace).Patch(ctx, network.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if isNotFound(err) || apierrors.IsConflict(err) {
		gone, readErr := l.IsGone(ctx, network)
		if readErr != nil {
			return readErr
		}
		if gone {
			return ErrGone
		}
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	l.wroteAt(written)
	return nil
}

func (l *Networks) get(ctx context.Context, network *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	return l.client.SamplecrdV1().Networks(network.Namespace).Get(ctx, network.Name, metav1.GetOptions{})
}

// isNotFound reports whether the API server says that the object does not exist. A 404 from a
// proxy, or from an API server that does not serve Networks at the moment, does not say that.
func isNotFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func conflict(network *samplecrdv1.Network, why string) error {
	return apierrors.NewConflict(samplecrdv1.Resource("networks"), network.Name, errors.New(why))
}
