// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records events and writes them to Kubernetes, as client-go's recorder does, but
// with a longer queue. client-go's broadcaster queues 1,000 events (a private constant) and drops
// the rest silently. A burst of work has more, because the API server is busy then.
package events

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// maxWaiting bounds the events that wait to be written. An event takes 1 to 2 kB of memory:
	// together at most 100 MB.
	maxWaiting = 50_000
	// stopTimeout bounds how long Stop waits for events to be written.
	stopTimeout = 5 * time.Second
	// lastEvent is the reason of the event that Stop records last. It is not written.
	lastEvent = "Stopping"
)

// backoff spaces out the tries to write one event, over two minutes as in client-go.
var backoff = wait.Backoff{Steps: 9, Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1}

// Recorder records events. It writes them in order, one after the other, and aggregates and
// filters them with client-go's correlator when they are written.
type Recorder struct {
	record.EventRecorder

	logger     klog.Logger
	sink       record.EventSink
	correlator *record.EventCorrelator
	queue      workqueue.TypedInterface[*corev1.Event]
	limit      int           // of the queue's length
	dropped    atomic.Int64  // since it was last logged
	done       chan struct{} // closed when run returns
	cancel     context.CancelFunc
}

// NewRecorder returns a Recorder that writes to sink until Stop is called. The cancellation of
// ctx does not stop it, so that events of the last syncs are written too.
func NewRecorder(ctx context.Context, sink record.EventSink, scheme *runtime.Scheme, source corev1.EventSource) *Recorder {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	r := &Recorder{
		EventRecorder: broadcaster.NewRecorder(scheme, source),
		logger:        klog.FromContext(ctx),
		sink:          sink,
		correlator:    record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		queue:         workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[*corev1.Event]{Name: "events"}),
		limit:         maxWaiting,
		done:          make(chan struct{}),
		cancel:        cancel,
	}
	broadcaster.StartEventWatcher(r.enqueue)
	go r.run(ctx)
	return r
}

// Stop waits until all events recorded before are written, at most 5 seconds. The rest is lost;
// Stop logs how many.
func (r *Recorder) Stop() {
	defer r.cancel()
	r.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, lastEvent, "")
	select {
	case <-r.done:
	case <-time.After(stopTimeout):
		r.logger.Error(nil, "Stopped before all events were written", "waiting", r.queue.Len(), "dropped", r.dropped.Load())
		r.queue.ShutDown()
	}
}

// enqueue takes the broadcaster's events. It never blocks: the broadcaster would drop events.
func (r *Recorder) enqueue(event *corev1.Event) {
	switch {
	case event.Reason == lastEvent:
		r.queue.ShutDown() // run still gets what is queued
	case r.queue.Len() < r.limit:
		r.queue.Add(event)
	case r.dropped.Add(1) == 1:
		r.logger.Error(nil, "Dropping events: too many wait to be written", "waiting", r.limit)
	}
}

// run writes the queued events, until the queue is shut down and empty, or ctx is cancelled.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		event, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		r.write(ctx, event)
		r.queue.Done(event)
		if r.queue.Len() > 0 {
			continue
		}
		if dropped := r.dropped.Swap(0); dropped > 0 {
			r.logger.Error(nil, "Dropped events: too many waited to be written", "dropped", dropped)
		}
	}
}

// write writes an event, unless the correlator filters it out. It retries while the API server
// cannot be reached; all later events wait.
func (r *Recorder) write(ctx context.Context, event *corev1.Event) {
	logger := r.logger.WithValues("kind", event.InvolvedObject.Kind,
		"object", klog.KRef(event.InvolvedObject.Namespace, event.InvolvedObject.Name),
		"reason", event.Reason, "message", event.Message)
	result, err := r.correlator.EventCorrelate(event)
	if err == nil && result.Skip {
		return
	}
	if err == nil {
		_ = wait.ExponentialBackoffWithContext(ctx, backoff, func(context.Context) (bool, error) {
			if err = r.try(result); err != nil && !final(err) {
				logger.V(2).Info("Cannot write an event yet", "err", err)
				return false, nil
			}
			return true, nil
		})
	}
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		logger.V(5).Info("An event was rejected", "err", err)
	default:
		logger.Error(err, "Cannot write an event")
	}
}

// try sends one event. The correlator need not see the answer: the event's name is known before,
// and a patch applies to any resourceVersion.
func (r *Recorder) try(result *record.EventCorrelateResult) error {
	if result.Event.Count > 1 {
		_, err := r.sink.Patch(result.Event, result.Patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// It was never written, or Kubernetes has deleted it because of its age.
	}
	_, err := r.sink.Create(result.Event)
	return err
}

// final reports whether a retry is pointless. Events that a namespace's quota or webhook refuses
// must not hold up the events of other namespaces. An error that only means that no API server
// answered is worth a retry.
func final(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		unanswered := []int32{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		return !slices.Contains(unanswered, status.ErrStatus.Code)
	}
	_, unsendable := errors.AsType[*rest.RequestConstructionError](err)
	return unsendable
}
