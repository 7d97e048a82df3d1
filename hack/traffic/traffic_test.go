// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"sync"
	"testing"
)

// TestTraffic shows what machines notice of Networks, and what changes cost those on them. It compares the costs with what plan
// says, and with the page. Both series of changes begin at once, because they take longest. The other tests take turns beside them.
// Only the failures wait for all others, because they disturb them.
func TestTraffic(t *testing.T) {
	found := &table{rows: map[string]tableRow{}}
	t.Cleanup(func() {
		if err := found.comparePage(); err != nil {
			t.Error(err)
		}
	})
	var others sync.WaitGroup
	t.Run("changes in place", func(t *testing.T) {
		t.Parallel()
		changesInPlace(t, found, &others)
	})
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"changes of the router", func(t *testing.T) { changesOfTheRouter(t, found) }},
		{"examples", theExamples},
		{"fields", theFields},
		{"DHCP servers", dhcpServersBlockNothing},
		{"probe", aProbe},
	} {
		t.Run(part.name, func(t *testing.T) {
			others.Add(1)
			t.Cleanup(others.Done) // the last one: what the test has made is deleted by then
			t.Parallel()
			part.test(t)
		})
	}
}
