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

// Package events writes events to Kubernetes. client-go's own recorder lets 1,000 of them
// wait while they are written one after the other, and drops the rest without a word: a
// burst of work that keeps the API server busy makes more.
package events

import (
	"context"
	"errors"
	"net/http"
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
	// maxWaiting bounds the events that wait to be written. One takes 1 to 2 kB of memory, and
	// together they take 100 MB at the most.
	maxWaiting = 50_000
	// stopTimeout bounds how long Stop waits for events to be written.
	stopTimeout = 5 * time.Second
	// lastEvent is the reason of the event that comes after all others, and is not written.
	lastEvent = "Stopping"
)

// backoff spaces out the tries to write one event. They last for two minutes, as those of
// client-go's recorder.
var backoff = wait.Backoff{Steps: 9, Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1}

// Recorder records events. They wait in memory until they are counted, filtered and written
// as by client-go's own recorder: one after the other, in the order of their recording, and
// by the time at which that happens.
type Recorder struct {
	record.EventRecorder

	logger     klog.Logger
	sink       record.EventSink
	correlator *record.EventCorrelator
	queue      workqueue.TypedInterface[*corev1.Event]
	limit      int           // how many may wait
	dropped    atomic.Int64  // since this was last told
	done       chan struct{} // closed when nothing is written any more
	cancel     context.CancelFunc
}

// NewRecorder returns a recorder that writes to sink until it is stopped. It outlives ctx,
// so that what happens while the workers finish is told too.
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

// Stop returns once all events are written that were recorded before, or after 5 seconds. What
// is not written by then is lost, and its number logged.
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

// enqueue is called with one event after the other, and must be quick: the broadcaster
// drops what it cannot hand over.
func (r *Recorder) enqueue(event *corev1.Event) {
	switch {
	case event.Reason == lastEvent:
		r.queue.ShutDown() // run gets what it holds still
	case r.queue.Len() < r.limit:
		r.queue.Add(event)
	case r.dropped.Add(1) == 1:
		r.logger.Error(nil, "Dropping events: too many wait to be written", "waiting", r.limit)
	}
}

// run writes what is in the queue, until that is shut down and empty, or ctx is cancelled.
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

// write writes an event, unless there are too many of its kind. All others wait while the
// API server cannot be reached.
func (r *Recorder) write(ctx context.Context, event *corev1.Event) {
	logger := r.logger.WithValues("kind", event.InvolvedObject.Kind,
		"object", klog.KRef(event.InvolvedObject.Namespace, event.InvolvedObject.Name),
		"reason", event.Reason, "message", event.Message)
	result, err := r.correlator.EventCorrelate(event)
	if err != nil {
		logger.Error(err, "Cannot count an event")
		return
	}
	if result.Skip {
		return
	}
	_ = wait.ExponentialBackoffWithContext(ctx, backoff, func(context.Context) (bool, error) {
		err = r.try(result)
		if err == nil || final(err) {
			return true, nil
		}
		logger.V(2).Info("Cannot write an event yet", "err", err)
		return false, nil
	})
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		logger.V(5).Info("An event was rejected", "err", err)
	default:
		logger.Error(err, "Cannot write an event")
	}
}

// try asks once to have an event written. The correlator need not see the answer: it has
// made the event's name itself, and a patch holds for any resourceVersion.
func (r *Recorder) try(result *record.EventCorrelateResult) error {
	if result.Event.Count > 1 {
		_, err := r.sink.Patch(result.Event, result.Patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// It was never written, or is so old that Kubernetes has deleted it.
	}
	_, err := r.sink.Create(result.Event)
	return err
}

// final says whether there is no point in asking again: one namespace's events, which are too
// many for it or which its webhook refuses, must not hold up those of all others. What only
// says that nobody was there to answer is worth another try.
func final(err error) bool {
	if _, ok := errors.AsType[*rest.RequestConstructionError](err); ok {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false // there was no answer, or none that can be understood
	}
	switch status.ErrStatus.Code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}
