// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
)

// aProbe shows that a probe counts an interruption, and none where there is none.
func aProbe(t *testing.T) {
	takeTurn(t)
	w := newWorld(t)
	w.lasts = true
	pair := w.apply(network("pair", "{cidr: 10.63.0.0/24}"))
	from, to := w.machine("1", pair, machine.Options{}), w.machine("2", pair, machine.Options{})
	w.expectNothingOnTheHost()
	address := to.Lease.Address.Addr().String()
	w.reaches(from, address)
	probe := func(while func()) machine.Result {
		p, err := from.Probe(w.Context(), address)
		w.must(err)
		while()
		w.reaches(from, address)
		r, err := p.Stop()
		w.must(err)
		return r
	}
	if r := probe(func() {}); r.Sent == 0 || r.Lost > 0 {
		w.Errorf("nothing was interrupted: %+v", r)
	}
	r := probe(func() {
		rule := []string{"INPUT", "--protocol", "icmp", "--jump", "DROP"}
		_, err := to.Run(w.Context(), "iptables", append([]string{"--append"}, rule...)...)
		w.must(err)
		if r, err := from.Ping(w.Context(), address, 1); err == nil {
			w.Errorf("a machine that drops pings has answered: %+v", r)
		}
		_, err = to.Run(w.Context(), "iptables", append([]string{"--delete"}, rule...)...)
		w.must(err)
	})
	// Ping has waited for two seconds.
	if r.Outage < time.Second || r.Lost == r.Sent {
		w.Errorf("two seconds were interrupted: %+v", r)
	}
}
