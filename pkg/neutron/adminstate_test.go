// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// What another client switches off is not connected, and a list that shows it wakes the Network. The
// controller does not switch it on, and does everything else as always.
func TestWhatIsSwitchedOffIsNotConnected(t *testing.T) {
	own, existing := ownRouterOn(byName("public")), existingRouter(byName("gate"))
	ownID := func(c *routedCloud, _ *Observed) string { return c.own()[0].ID }
	gateID := func(c *routedCloud, _ *Observed) string { return c.gate }
	for _, test := range []struct {
		name   string
		router edit
		// kind is what is switched off, and id returns its ID.
		kind string
		id   func(c *routedCloud, n *Observed) string
		// observes means that the network is only observed.
		observes bool
	}{
		{"the network", own, "network", func(_ *routedCloud, n *Observed) string { return n.ID }, false},
		{"the own router", own, "router", ownID, false},
		{"the existing router", existing, "router", gateID, false},
		{"the router of a network that is only observed", existing, "router", gateID, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(test.router)
			if test.observes {
				r, _ = c.importOnGate(t)
				r.Spec.ManagementPolicy = samplecrdv1.ManagementObserve
			}
			n := r.synced(t)
			id := test.id(c, n)
			turn := func(up bool) {
				t.Helper()
				noError(t, c.Observer().Relist(t.Context())) // has everything else
				c.told = nil
				put(t, c.others, test.kind, id, object{"admin_state_up": up})
				noError(t, c.Observer().Relist(t.Context()))
				equal(t, 1, len(c.told))
				c.told = nil
				noError(t, c.Observer().Relist(t.Context()))
				equal(t, 0, len(c.told))
			}
			want := Error{Op: "admin_state_up", Reason: AdminStateDown, Message: fmt.Sprintf("%s %s is switched off: openstack %[1]s set --enable %[2]s switches it on", test.kind, id)}
			turn(false)
			for range 2 {
				equal(t, []string(nil), c.calls(func() { wantError(t, want, r.err(t)) }))
			}
			if !test.observes {
				r.Spec.Tags = []samplecrdv1.Tag{"edited"}
				_, done, err := r.sync(t)
				wantError(t, want, err)
				equal(t, 1, len(done))
			}
			turn(true)
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))

			turn(false)
			_, err := r.remove(t, false, Guard{})
			noError(t, err)
		})
	}
}
