// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// A process is killed while Neutron's answer is on its way. The systematic tests crash at every request.
func TestNextControllerContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start(retryQuickly)
	came := w.harmOnce("POST networks", embedded.Fault{After: true, Hang: true})
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.await("the creation, which hangs", came)
	w.kill(first)
	second := w.start(retryQuickly)
	w.waitReady("net")
	made := w.matches("net", "10.1.0.0/16", "10.1.0.1")
	w.waitForEvent("net", samplecrdv1.EventAdopted, made.ID)

	came = w.harmOnce("DELETE networks/*", embedded.Fault{After: true, Hang: true})
	w.kubectl("delete", "network", "net", "--wait=false")
	w.await("the deletion, which hangs", came)
	w.kill(second)
	w.start(retryQuickly)
	w.waitGone("net")
	w.nothing("net")
	if calls := w.calls.take(); calls["POST networks"] != 1 || calls["DELETE networks/*"] != 1 {
		t.Errorf("want one creation and one deletion, got %v", calls)
	}
}

func TestDeletionWhileTheControllerIsStoppedIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start()
	w.create("net", "10.0.0.0/24", "")
	w.kill(first)
	w.kubectl("delete", "network", "net", "--wait=false")
	w.start()
	w.waitGone("net")
	w.nothing("net")
}
