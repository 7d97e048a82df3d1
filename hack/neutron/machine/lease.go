// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Lease is what a DHCP server gave to a machine, as lease.sh prints it.
type Lease struct {
	// Address is the machine's address, with the prefix length of the subnet.
	Address netip.Prefix
	// MTU is the size of the network's largest packets, 0 if the server did not say.
	MTU int
	// Routers are the gateways, and DNS are the addresses of DNS servers.
	Routers, DNS []netip.Addr
	// Routes are the routes that the machine has set: the static routes of the lease, or else the
	// default route.
	Routes []Route
}

// Route leads to a destination.
type Route struct {
	Destination netip.Prefix
	// Via is the router, 0.0.0.0 if the destination is on the same link.
	Via netip.Addr
}

// parseLease finds the lease in the output of the DHCP client.
func parseLease(out string) (l Lease, err error) {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "{") {
			err = json.Unmarshal([]byte(line), &l)
			return l, err
		}
	}
	return l, fmt.Errorf("no lease in %q", out)
}
