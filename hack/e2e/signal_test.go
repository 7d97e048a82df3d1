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
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var signals = []os.Signal{syscall.SIGTERM, syscall.SIGINT}

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

func TestSignalLetsRequestsInFlightFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			w := w.at(t)
			name := signal.String()
			came := w.harmOnce("POST networks", embedded.Fault{Delay: time.Second})
			controller := w.start()
			w.apply(name, "10.1.0.0/16", "10.1.0.1")
			w.await("the request", came)
			w.must(controller.Signal(signal))
			w.exitsAtOnce(controller, 0)
			w.waitReady(name)
			w.matches(name, "10.1.0.0/16", "10.1.0.1")
			w.waitForEvent(name, samplecrdv1.EventCreated, "")
		})
	}
}

func TestEventsDuringTheDrainAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	kubernetes.slow.Store("create events")
	came := w.harmOnce("POST networks", embedded.Fault{Delay: time.Second})
	controller := w.start()
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the request", came)
	w.must(controller.Signal(syscall.SIGTERM))
	w.exitsAtOnce(controller, 0)
	w.waitReady("net")
	if len(w.events("net", samplecrdv1.EventCreated)) != 1 {
		t.Error("the event was lost")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			w := w.at(t)
			name := signal.String()
			came := w.harmOnce("POST networks", embedded.Fault{After: true, Hang: true})
			controller := w.start()
			w.apply(name, "10.1.0.0/16", "10.1.0.1")
			w.await("the request that hangs", came)
			w.must(controller.Signal(signal))
			w.waitForLog(controller, "a second signal stops at once")
			w.must(controller.Signal(signal))
			w.exitsAtOnce(controller, 1)
			if len(w.networks(name)) != 1 {
				t.Error("want the network whose answer was lost")
			}
			next := w.start()
			w.waitReady(name)
			w.matches(name, "10.1.0.0/16", "10.1.0.1")
			w.must(next.Stop())
		})
	}
}

func TestSignalEndsAnIdleController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, signal := range signals {
		controller := w.start()
		w.must(controller.Signal(signal))
		w.exitsAtOnce(controller, 0)
		w.contains(controller.Log.String(), "Stopped")
	}
}

func TestSignalEndsAControllerThatWaitsForNeutron(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	came := w.harmOnce("GET networks", embedded.Fault{Hang: true})
	controller := w.launch()
	w.await("the look that hangs", came)
	w.must(controller.Signal(syscall.SIGTERM))
	w.exitsAtOnce(controller, 0)
}

func TestSignalEndsAControllerThatWaitsForKubernetes(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"", "-cluster-id=me"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			came := make(chan struct{}, 10)
			silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				came <- struct{}{}
				<-r.Context().Done()
			}))
			t.Cleanup(silent.Close)
			w.reach = "-master=" + silent.URL
			controller := w.launch(flag)
			select {
			case <-came:
			case <-time.After(patience):
				t.Fatal("the controller sent no request to Kubernetes")
			}
			w.must(controller.Signal(syscall.SIGTERM))
			w.exitsAtOnce(controller, 0)
		})
	}
}
