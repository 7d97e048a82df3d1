// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads and writes Networks at the API server itself, past the informer's cache.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

// fieldManager is the controller's name in managedFields.
const fieldManager = "samplecrd-controller"

// ErrGone is returned for a Network that the API server no longer has. The informer is about to
// report its deletion.
var ErrGone = errors.New("the Network is gone")

// StaleCacheError is returned by CheckFresh while the cache does not have our last write, and by UpdateStatusIfNeeded if the cache may
// have another client's status that is newer than the written one.
type StaleCacheError struct {
	// RetryAfter is when to check again.
	RetryAfter time.Duration
}

func (*StaleCacheError) Error() string {
	return "the cache does not have the controller's last write, or has a later one of another client"
}

// Networks reads and writes Networks. Its methods may be called concurrently for different
// Networks; the work queue ensures that there is one caller for each Network.
type Networks struct {
	client clientset.Interface

	mu sync.Mutex
	// written holds our last write of a Network, until the cache has it.
	written map[types.UID]*write
	// writing has the Networks whose status is being written, each with the last version that was taken for our own meanwhile.
	writing map[types.UID]*samplecrdv1.Network
}

// write is our last write of a Network.
type write struct {
	resourceVersion string
	// missed is when the cache was first seen without it.
	missed time.Time
	// reread is when the Network was last read from the API server because of that; missed at first.
	reread time.Time
}

// NewNetworks returns Networks that use the client.
func NewNetworks(client clientset.Interface) *Networks {
	return &Networks{client: client, written: map[types.UID]*write{}, writing: map[types.UID]*samplecrdv1.Network{}}
}

const (
	// A cache that is behind is checked again after as long as it has been behind, within
	// these bounds. It is rarely behind for longer than minDelay.
	minDelay, maxDelay = 20 * time.Millisecond, time.Second
	// rereadDelay is how long the cache must be behind before the Network is read from the API
	// server, and the time between two such reads.
	rereadDelay = 5 * time.Second
)

// CheckFresh returns a StaleCacheError if the cached Network is older than our last write of it.
// A sync of the older one would compare with an old status, find nothing to write, and leave a
// wrong status behind.
//
// An API server that was restored from a backup may never reach the resourceVersion of that
// write, so CheckFresh reads the Network from it now and then. If the API server has lost the
// write, CheckFresh forgets it. If it has lost the Network too, CheckFresh returns ErrGone.
func (l *Networks) CheckFresh(ctx context.Context, cached *samplecrdv1.Network) error {
	missing := l.missing(cached)
	if missing == nil {
		return nil
	}
	now := time.Now()
	if missing.missed.IsZero() {
		missing.missed, missing.reread = now, now
	}
	if now.Sub(missing.reread) >= rereadDelay {
		missing.reread = now
		if lost, err := l.isLost(ctx, cached, missing); lost {
			return err
		}
	}
	return &StaleCacheError{RetryAfter: min(max(now.Sub(missing.missed), minDelay), maxDelay)}
}

// missing returns our last write if the cached Network is older. Otherwise it forgets the write
// and returns nil.
func (l *Networks) missing(cached *samplecrdv1.Network) *write {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.written[cached.UID]
	if last != nil && !isOlder(cached, last.resourceVersion) {
		delete(l.written, cached.UID)
		return nil
	}
	return last
}

// isLost reports whether the API server has lost our last write, and forgets a write that is lost.
// gone is ErrGone if the Network is lost too. If the API server does not answer, nothing is lost.
func (l *Networks) isLost(ctx context.Context, cached *samplecrdv1.Network, last *write) (lost bool, gone error) {
	live, err := l.get(ctx, cached)
	switch {
	case isNotFound(err) || err == nil && live.UID != cached.UID:
		gone = ErrGone
	case err != nil || !isOlder(live, last.resourceVersion):
		return false, nil
	default:
		klog.FromContext(ctx).Info("The API server has lost our last write, as after a restore from a backup",
			"written", last.resourceVersion, "resourceVersion", live.ResourceVersion)
	}
	l.Clear(cached.UID)
	return true, gone
}

// IsRestored reports whether the API server has an older version of the Network than before, as
// after a restore from a backup.
func IsRestored(before, now *samplecrdv1.Network) bool { return isOlder(now, before.ResourceVersion) }

// isOlder reports whether the Network is older than that resourceVersion.
func isOlder(network *samplecrdv1.Network, resourceVersion string) bool {
	order, err := resourceversion.CompareResourceVersion(network.ResourceVersion, resourceVersion)
	return err == nil && order < 0
}

// UnknownWriteDelay is the delay of a sync after a change of the status that is not known to be the
// controller's own: another client wrote it, an earlier leader, or a request of this one whose answer was
// lost. Two controllers that write the same status by mistake then write it once per second at most.
const UnknownWriteDelay = time.Second

// IsOwnWrite reports whether this version of a Network is known to come from our last write, or from
// an earlier one. It is not known if the answer to the write was lost: then the cache can lack the
// write for a while, and syncs that run meanwhile compare with the status before it. While a write is
// under way, every version counts as our own: a write that fails is retried, and after one that succeeds, a later version is synced.
func (l *Networks) IsOwnWrite(network *samplecrdv1.Network) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, isWriting := l.writing[network.UID]; isWriting {
		l.writing[network.UID] = network
		return true
	}
	last := l.written[network.UID]
	if last == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(network.ResourceVersion, last.resourceVersion)
	return err == nil && order <= 0
}

// begin notes that the status of the Network is being written, until the returned function is called.
func (l *Networks) begin(uid types.UID) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing[uid] = nil
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.writing, uid)
	}
}

func (l *Networks) wroteAt(network *samplecrdv1.Network) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[network.UID] = &write{resourceVersion: network.ResourceVersion}
}

// checkNewest returns a StaleCacheError if a later version than the written one was taken for our own while the write was under way,
// which it is not any more.
func (l *Networks) checkNewest(written *samplecrdv1.Network) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.writing[written.UID]
	delete(l.writing, written.UID)
	if last != nil && isOlder(written, last.ResourceVersion) {
		return &StaleCacheError{RetryAfter: UnknownWriteDelay}
	}
	return nil
}

// Clear forgets our last write of a Network that is gone.
func (l *Networks) Clear(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, uid)
}

// Verify reads the Network at the API server, and returns a conflict if anything has changed
// that a decision rests on. Call it before each change that cannot be undone.
func (l *Networks) Verify(ctx context.Context, cached *samplecrdv1.Network) error {
	live, err := l.get(ctx, cached)
	if err != nil {
		return fmt.Errorf("read the Network past the cache: %w", err)
	}
	if changed := changes(cached, live); len(changed) > 0 {
		return conflict(cached, "it has changed since it was read: "+strings.Join(changed, ", "))
	}
	return nil
}

// changes returns the names of the fields that a decision rests on and that differ. The spec is
// compared as well as its generation, because an API server that was restored from a backup counts generations again.
// The status says which network it is and where, and others can write it: a user who clears
// status.cloud abandons the network.
func changes(cached, live *samplecrdv1.Network) (changed []string) {
	before, now := &cached.Status, &live.Status
	for _, fact := range []struct {
		name    string
		differs bool
	}{
		{"metadata.uid", cached.UID != live.UID},
		{"metadata.generation", cached.Generation != live.Generation},
		{"spec", !equality.Semantic.DeepEqual(cached.Spec, live.Spec)},
		{"metadata.deletionTimestamp", cached.DeletionTimestamp.IsZero() != live.DeletionTimestamp.IsZero()},
		{"the finalizer", HasFinalizer(cached) != HasFinalizer(live)},
		{"the annotation " + samplecrdv1.AnnotationPaused, cached.IsPaused() != live.IsPaused()},
		{"status.networkID", before.NetworkID != now.NetworkID},
		{"status.imported", before.Imported != now.Imported},
		{"status.subnetID", before.SubnetID != now.SubnetID},
		{"status.subnets", !slices.Equal(before.Subnets, now.Subnets)},
		{"status.router", !equality.Semantic.DeepEqual(before.Router, now.Router)},
		{"status.sharedWith", !slices.Equal(before.SharedWith, now.SharedWith)},
		{"status.cloud", before.Cloud != now.Cloud},
		{"status.projectID", before.ProjectID != now.ProjectID},
		{"status.region", before.Region != now.Region},
	} {
		if fact.differs {
			changed = append(changed, fact.name)
		}
	}
	return changed
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

// IsWrittenHere reports whether a controller of this cluster, or the subcommand move, has written the Network. What a backup has restored
// of managedFields is older than the Network. The clocks of several API servers may differ by a minute.
func IsWrittenHere(network *samplecrdv1.Network) bool {
	return slices.ContainsFunc(network.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == fieldManager && entry.Time != nil && entry.Time.Add(time.Minute).After(network.CreationTimestamp.Time)
	})
}

// AddFinalizerIfNeeded returns the Network with the finalizer, and whether it had to be added.
func (l *Networks) AddFinalizerIfNeeded(ctx context.Context, network *samplecrdv1.Network) (patched *samplecrdv1.Network, added bool, err error) {
	if HasFinalizer(network) {
		return network, false, nil
	}
	patched, err = l.patchMetadata(ctx, network, map[string]any{"finalizers": append(slices.Clone(network.Finalizers), samplecrdv1.Finalizer)})
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
	others := slices.DeleteFunc(slices.Clone(network.Finalizers), func(f string) bool { return f == samplecrdv1.Finalizer })
	_, err := l.patchMetadata(ctx, network, map[string]any{"finalizers": others})
	if isNotFound(err) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// Lock adds the finalizer and the annotation AnnotationMovingFrom in one write. It fails with a conflict if the Network has changed
// since it was read, and so does Unlock.
func (l *Networks) Lock(ctx context.Context, network *samplecrdv1.Network, movingFrom string) (*samplecrdv1.Network, error) {
	finalizers := sets.List(sets.New(network.Finalizers...).Insert(samplecrdv1.Finalizer))
	return l.patchMetadata(ctx, network, map[string]any{"finalizers": finalizers, "annotations": map[string]any{samplecrdv1.AnnotationMovingFrom: movingFrom}})
}

// Unlock turns the annotation AnnotationMovingFrom into AnnotationMovedFrom; the finalizer stays. It requests that the controller reads
// Neutron: what the controller listed before the last change of the move is outdated.
func (l *Networks) Unlock(ctx context.Context, network *samplecrdv1.Network, requestedAt string) (*samplecrdv1.Network, error) {
	return l.patchMetadata(ctx, network, map[string]any{"annotations": map[string]any{
		samplecrdv1.AnnotationMovingFrom: nil, samplecrdv1.AnnotationMovedFrom: network.Annotations[samplecrdv1.AnnotationMovingFrom],
		samplecrdv1.AnnotationReconcileRequestedAt: requestedAt,
	}})
}

// patchMetadata writes the metadata if the Network is still as it was read: of two clients that act on the same version, one gets a
// conflict.
func (l *Networks) patchMetadata(ctx context.Context, network *samplecrdv1.Network, metadata map[string]any) (*samplecrdv1.Network, error) {
	metadata["uid"], metadata["resourceVersion"] = network.UID, network.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return l.client.SamplecrdV1().Networks(network.Namespace).Patch(ctx, network.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// UpdateStatusIfNeeded writes the next status if it differs. It returns ErrGone if the API
// server no longer has the Network, and a StaleCacheError if it has written the status, and another client may have done so since.
func (l *Networks) UpdateStatusIfNeeded(ctx context.Context, network *samplecrdv1.Network, next samplecrdv1.NetworkStatus) error {
	if status.Equal(&network.Status, &next) {
		return nil
	}
	patch, err := status.Patch(network, &next)
	if err != nil {
		return err
	}
	defer l.begin(network.UID)()
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
	return l.checkNewest(written)
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
