// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// fixture is a recorder with an API server that can be slow and fail.
type fixture struct {
	*Recorder
	t      *testing.T
	client *fake.Clientset
	log    ktesting.Buffer

	// latency and fail apply to each request before it is answered.
	latency time.Duration
	fail    func() error

	mu sync.Mutex
	// asked holds all requests, at the time since start of each.
	asked []string
	at    []time.Duration
	start time.Time
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, client: fake.NewClientset(), start: time.Now()}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	f.log = logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	sink := slowSink{&typedcorev1.EventSinkImpl{Interface: f.client.CoreV1().Events("")}, f}
	f.Recorder = NewRecorder(ctx, sink, runtime.NewScheme(), corev1.EventSource{Component: "test"})
	cancel() // the recorder outlives the context
	return f
}

type slowSink struct {
	record.EventSink
	*fixture
}

func (s slowSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if err := s.before("create", event); err != nil {
		return nil, err
	}
	return s.EventSink.Create(event)
}

func (s slowSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	if err := s.before("patch", event); err != nil {
		return nil, err
	}
	return s.EventSink.Patch(event, patch)
}

func (f *fixture) before(verb string, event *corev1.Event) error {
	f.mu.Lock()
	f.asked = append(f.asked, fmt.Sprintf("%s %s %s", verb, event.InvolvedObject.Name, event.Message))
	f.at = append(f.at, time.Since(f.start))
	f.mu.Unlock()
	time.Sleep(f.latency)
	if f.fail != nil {
		return f.fail()
	}
	return nil
}

// record records an event of the object with that name.
func (f *fixture) record(name, message string) {
	f.Event(&corev1.ObjectReference{Kind: "Thing", Namespace: "here", Name: name}, corev1.EventTypeNormal, "Tested", message)
	time.Sleep(time.Nanosecond) // events of one object are named by their time
	synctest.Wait()
}

// expectAsked compares the requests so far with want.
func (f *fixture) expectAsked(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.asked); diff != "" {
		f.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// expectWritten compares the events in Kubernetes with want.
func (f *fixture) expectWritten(want ...string) {
	f.t.Helper()
	list, err := f.client.CoreV1().Events("here").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, event := range list.Items {
		got = append(got, fmt.Sprintf("%s %s x%d", event.InvolvedObject.Name, event.Message, event.Count))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// expectLog expects text in the log once, or not at all.
func (f *fixture) expectLog(text string, want bool) {
	f.t.Helper()
	if got := strings.Count(f.log.String(), text); got > 1 || (got == 1) != want {
		f.t.Errorf("%q is in the log %d times, want it there: %v", text, got, want)
	}
}

func TestAllEventsOfABurstAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &countingSink{}
		r := NewRecorder(t.Context(), sink, runtime.NewScheme(), corev1.EventSource{Component: "test"})
		const burst = 5000
		var want []string
		for i := range burst {
			name := fmt.Sprint("thing-", i)
			r.Event(&corev1.ObjectReference{Kind: "Thing", Namespace: "here", Name: name}, corev1.EventTypeNormal, "Tested", "made")
			want = append(want, name)
			if i%500 == 0 {
				synctest.Wait() // the broadcaster itself queues 1,000; real work is slower
			}
		}
		time.Sleep(burst * sinkLatency)
		synctest.Wait()
		if diff := cmp.Diff(want, sink.created); diff != "" {
			t.Errorf("created (-want +got):\n%s", diff)
		}
		r.Stop()
	})
}

// countingSink takes sinkLatency for each event, and keeps the names of the events' objects.
type countingSink struct {
	record.EventSink
	created []string
}

const sinkLatency = 10 * time.Millisecond

func (s *countingSink) Create(event *corev1.Event) (*corev1.Event, error) {
	time.Sleep(sinkLatency)
	s.created = append(s.created, event.InvolvedObject.Name)
	return event, nil
}

func TestARepeatedEventIsCountedBeforeItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.latency = time.Second
		for range 3 {
			f.record("thing", "made")
		}
		f.expectAsked("create thing made")
		f.Stop()
		f.expectAsked("create thing made", "patch thing made", "patch thing made")
		f.expectWritten("thing made x3")
	})
}

func TestARepeatedEventThatWasDeletedIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.record("thing", "made")
		events := f.client.CoreV1().Events("here")
		list, err := events.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("events: %v, %v", list, err)
		}
		if err := events.Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.record("thing", "made")
		f.expectWritten("thing made x2")
		f.Stop()
	})
}

var (
	resource        = schema.GroupResource{Resource: "events"}
	errAway         = errors.New("connection refused")
	errTerminating  = terminating()
	errConstruction = &rest.RequestConstructionError{Err: errors.New("no such encoding")}
)

func terminating() error {
	err := apierrors.NewForbidden(resource, "event", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestAnEventThatCannotBeWritten(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		times int // how often the error occurs
		tries int
		lost  bool
		log   bool
	}{
		"no answer, for long":    {err: errAway, times: 8, tries: 9},
		"no answer, for longer":  {err: errAway, times: 9, tries: 9, lost: true, log: true},
		"unavailable":            {err: apierrors.NewServiceUnavailable("starting"), times: 2, tries: 3},
		"too many requests":      {err: apierrors.NewTooManyRequestsError("too many events"), times: 1, tries: 1, lost: true, log: true},
		"invalid":                {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "event", nil), times: 1, tries: 1, lost: true, log: true},
		"namespace going":        {err: errTerminating, times: 1, tries: 1, lost: true},
		"there already":          {err: apierrors.NewAlreadyExists(resource, "event"), times: 1, tries: 1, lost: true},
		"request cannot be made": {err: errConstruction, times: 1, tries: 1, lost: true, log: true},
		"a proxy's own error":    {err: apierrors.NewGenericServerResponse(http.StatusBadGateway, "post", resource, "", "", 0, true), times: 1, tries: 2},
		"nothing":                {tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				left := test.times
				f.fail = func() error {
					if left == 0 {
						return nil
					}
					left--
					return test.err
				}
				f.record("thing", "first")
				f.record("thing", "second") // it waits for the first, and is written even if that is lost
				time.Sleep(3 * time.Minute)
				synctest.Wait()

				var want []string
				for range test.tries {
					want = append(want, "create thing first")
				}
				f.expectAsked(append(want, "create thing second")...)
				wait := 500 * time.Millisecond
				for i := 1; i < min(test.tries, len(f.at)); i++ {
					if waited := f.at[i] - f.at[i-1]; waited < wait || waited > wait*11/10 {
						t.Errorf("try %d came %v after the one before, want %v", i+1, waited, wait)
					}
					wait *= 2
				}
				if test.lost {
					f.expectWritten("thing second x1")
				} else {
					f.expectWritten("thing first x1", "thing second x1")
				}
				f.expectLog("Cannot write an event", test.log)
				f.Stop()
			})
		})
	}
}

func TestEventsBeyondTheBoundAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.limit = 2
		f.latency = time.Second
		for burst := range 2 {
			for i := range 8 { // one is being written, two wait
				f.record(fmt.Sprintf("thing-%d-%d", burst, i), "made")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		f.expectAsked(
			"create thing-0-0 made", "create thing-0-1 made", "create thing-0-2 made",
			"create thing-1-0 made", "create thing-1-1 made", "create thing-1-2 made")
		for _, line := range []string{"Dropping events: too many wait to be written", "Dropped events: too many waited to be written"} {
			if got := strings.Count(f.log.String(), line); got != 2 {
				t.Errorf("%q was logged %d times, want once for each burst", line, got)
			}
		}
		if got := strings.Count(f.log.String(), "dropped=5"); got != 2 {
			t.Errorf("the number of dropped events was logged %d times, want once for each burst:\n%s", got, f.log)
		}
		f.Stop()
	})
}

func TestStopWaitsForEvents(t *testing.T) {
	for name, test := range map[string]struct {
		latency time.Duration
		fail    error
		took    time.Duration
		written []string
		log     bool
	}{
		"at once":                {written: []string{"a made x1", "b made x1", "c made x1"}},
		"that are being written": {latency: time.Second, took: 3 * time.Second, written: []string{"a made x1", "b made x1", "c made x1"}},
		"not for ever":           {latency: 3 * time.Second, took: stopTimeout, written: []string{"a made x1", "b made x1"}, log: true},
		"not for the next try":   {fail: errAway, took: stopTimeout, log: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.latency = test.latency
				f.fail = func() error { return test.fail }
				for _, name := range []string{"a", "b", "c"} {
					f.Event(&corev1.ObjectReference{Kind: "Thing", Namespace: "here", Name: name}, corev1.EventTypeNormal, "Tested", "made")
				}
				start := time.Now()
				f.Stop()
				if took := time.Since(start); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				<-f.done // the request that is under way ends
				f.expectWritten(test.written...)
				f.expectLog("Stopped before all events were written", test.log)
			})
		})
	}
}
