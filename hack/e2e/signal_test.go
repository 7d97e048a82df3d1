// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// atOnce is much shorter than any timeout that the controller could be waiting for.
const atOnce = 10 * time.Second

// exitsAtOnce fails unless the process ends within atOnce, with that exit code.
func (w *world) exitsAtOnce(c *stack.Controller, code int) {
	w.Helper()
	select {
	case <-c.Done():
	case <-time.After(atOnce):
		w.Fatalf("the process did not end within %s", atOnce)
	}
	if got := c.ExitCode(); got != code {
		w.Errorf("exit code %d, want %d", got, code)
	}
}

// The events of the last sync are recorded too, although each takes a while.
func TestSignalLetsRequestsInFlightFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.throughProxy().slow.Store("create events")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		name := signal.String()
		came := w.harmOnce("POST networks", embedded.Fault{Delay: time.Second})
		controller := w.start()
		w.apply(name, "10.1.0.0/16", "10.1.0.1")
		w.await("the request", came)
		w.must(controller.Signal(signal))
		w.exitsAtOnce(controller, 0)
		w.contains(controller.Log.String(), "Stopped")
		w.waitReady(name)
		w.matches(name, "10.1.0.0/16", "10.1.0.1")
		if n := len(w.events(name, samplecrdv1.EventCreated)); n != 1 {
			t.Errorf("%s: %d events", name, n)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	came := w.harmOnce("POST networks", embedded.Fault{After: true, Hang: true})
	controller := w.start()
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the request that hangs", came)
	w.must(controller.Signal(syscall.SIGTERM))
	w.waitForLog(controller, "a second signal stops at once")
	w.must(controller.Signal(syscall.SIGTERM))
	w.exitsAtOnce(controller, 1)
}

func TestSignalEndsAControllerThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	came := w.harmOnce("GET networks", embedded.Fault{Hang: true})
	forNeutron := w.launch()
	w.await("the list that hangs", came)
	w.must(forNeutron.Signal(syscall.SIGTERM))
	w.exitsAtOnce(forNeutron, 0)

	silent := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		silent <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	w.reach = "-master=" + server.URL
	for _, flag := range []string{"", "-cluster-id=me"} {
		forKubernetes := w.launch(flag)
		w.await("the request to Kubernetes", silent)
		w.must(forKubernetes.Signal(syscall.SIGTERM))
		w.exitsAtOnce(forKubernetes, 0)
	}
}
