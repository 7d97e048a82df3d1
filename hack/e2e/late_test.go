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

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// lateWatch holds up the events of watches. Its zero value holds up none.
type lateWatch struct {
	mu sync.Mutex
	// from is a text in the first event that is held up, together with all events after it;
	// nil: none is held up.
	from    *string
	changed chan struct{}
}

// holdFrom holds up the first event with this text, and all after it. Each event has the text "".
func (l *lateWatch) holdFrom(text string) { l.set(&text) }

// open lets all events pass.
func (l *lateWatch) open() { l.set(nil) }

func (l *lateWatch) set(from *string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = from
	if l.changed != nil {
		close(l.changed)
	}
	l.changed = make(chan struct{})
}

func (l *lateWatch) isHeld(event []byte) (held bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from != nil && bytes.Contains(event, []byte(*l.from)), l.changed
}

// wait returns when the event may pass.
func (l *lateWatch) wait(ctx context.Context, event []byte) error {
	for {
		held, changed := l.isHeld(event)
		if !held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lateWriter writes the answer to a watch: events in JSON.
type lateWriter struct {
	http.ResponseWriter
	ctx  context.Context
	late *lateWatch
	rest []byte
}

// Write writes the complete events when they may pass.
func (w *lateWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		var event json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(w.rest))
		if decoder.Decode(&event) != nil {
			return len(p), nil
		}
		if err := w.late.wait(w.ctx, event); err != nil {
			return 0, err
		}
		if _, err := w.ResponseWriter.Write(event); err != nil {
			return 0, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return 0, err
		}
		w.rest = w.rest[decoder.InputOffset():]
	}
}

// Unwrap is for http.ResponseController.
func (w *lateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The controller sees the first edit of each Network, and not yet the second, with which the user
// changed their mind.
func TestEditThatTheWatchDoesNotShowYetStopsWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := &w.throughProxy().late
	c := w.start(retryQuickly)
	paused := []string{"deleted", "replaced", "overlapping"}
	subnets := map[string]string{}
	for _, name := range append([]string{"retained"}, paused...) {
		w.create(name, "10.1.0.0/16", "10.1.0.1")
		subnets[name] = w.matches(name, "10.1.0.0/16", "10.1.0.1").Subnets[0].ID
	}
	w.calls.take()

	late.holdFrom("")
	w.kubectl("delete", "network", "deleted", "retained", "--wait=false")
	w.apply("replaced", "10.2.0.0/16", "10.2.0.1")
	w.apply("overlapping", "10.0.0.0/8", "10.1.0.1")
	for _, name := range paused {
		w.annotate(name, samplecrdv1.AnnotationPaused, "true")
	}
	w.patch("retained", `{"spec":{"deletionPolicy":"Retain"}}`)
	late.holdFrom(`"` + samplecrdv1.AnnotationPaused + `":"true"`)

	const changed = `\": it has changed since it was read: `
	for _, name := range paused {
		w.waitForLog(c, `networks.samplecrd.k8s.io \"`+name+changed+"the annotation "+samplecrdv1.AnnotationPaused)
	}
	w.waitForLog(c, `networks.samplecrd.k8s.io \"retained`+changed+"metadata.generation, spec")
	late.open()
	w.waitSays("deleted", samplecrdv1.ReasonPaused, "the deletion waits")
	w.waitSays("replaced", samplecrdv1.ReasonPaused, "subnet 10.1.0.0/16 deleted")
	w.waitSays("overlapping", samplecrdv1.ReasonPaused, "subnet 10.1.0.0/16 deleted")
	w.waitGone("retained")
	for name, id := range subnets {
		found := w.networks(name)
		if len(found) != 1 || !slices.Contains(found[0].Network.Subnets, id) {
			t.Errorf("the subnet of Network %s is gone: %+v", name, found)
		}
	}
	for request, n := range w.calls.take() {
		if strings.HasPrefix(request, "DELETE ") {
			t.Errorf("%d times %s", n, request)
		}
	}

	for _, name := range paused {
		w.annotate(name, samplecrdv1.AnnotationPaused, "")
	}
	w.waitGone("deleted")
	w.nothing("deleted")
	w.waitReady("replaced")
	w.matches("replaced", "10.2.0.0/16", "10.2.0.1")
	w.waitReady("overlapping")
	w.matches("overlapping", "10.0.0.0/8", "10.1.0.1")
}
