// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"sync"
	"testing"
)

// TestMachines shows what machines notice of Networks.
func TestMachines(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"examples":     theExamples,
		"fields":       theFields,
		"DHCP servers": dhcpServersBlockNothing,
		"probe":        aProbe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestChanges shows what changes cost the machines on a Network. It compares the costs with what plan says, and with the page. The
// changes of the router are made beside those in place. The failures wait for both, because they disturb them.
func TestChanges(t *testing.T) {
	found := &table{rows: map[string]tableRow{}}
	t.Cleanup(func() {
		if err := found.comparePage(); err != nil {
			t.Error(err)
		}
	})
	var ofTheRouter sync.WaitGroup
	t.Run("in place", func(t *testing.T) {
		t.Parallel()
		s := newInPlaceScene(t)
		s.play(found, inPlace)
		ofTheRouter.Wait()
		s.play(found, failures)
	})
	t.Run("of the router", func(t *testing.T) {
		ofTheRouter.Add(1)
		t.Cleanup(ofTheRouter.Done) // the last one: what the test has made is deleted by then
		t.Parallel()
		s := newRoutingScene(t)
		s.play(found, routing)
		t.Run("the controller is idle", func(t *testing.T) { s.at(t).idles() })
	})
}
