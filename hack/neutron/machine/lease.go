// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Lease is what a DHCP server gave to a machine.
type Lease struct {
	// Address is the machine's address, with the prefix length of the subnet.
	Address netip.Prefix
	// Routers are the gateways. A client that gets Routes does not use them.
	Routers []netip.Addr
	// DNS are the addresses of DNS servers.
	DNS []netip.Addr
	// MTU is the size of the network's largest packets, 0 if the server did not say.
	MTU int
	// Routes are the static routes; the default route is one of them.
	Routes []Route
}

// Route leads to a destination.
type Route struct {
	Destination netip.Prefix
	// Via is the router, 0.0.0.0 if the destination is on the same link.
	Via netip.Addr
}

// parseLease reads what lease.sh prints among other lines.
func parseLease(text string) (l Lease, err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	addr := func(text string) netip.Addr {
		a, err := netip.ParseAddr(text)
		keep(err)
		return a
	}
	prefix := func(text string) netip.Prefix {
		p, err := netip.ParsePrefix(text)
		keep(err)
		return p
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		words := strings.Fields(value)
		switch {
		case len(words) == 0:
		case key == "address":
			l.Address = prefix(value)
		case key == "routers":
			for _, word := range words {
				l.Routers = append(l.Routers, addr(word))
			}
		case key == "dns":
			for _, word := range words {
				l.DNS = append(l.DNS, addr(word))
			}
		case key == "mtu":
			var e error
			l.MTU, e = strconv.Atoi(value)
			keep(e)
		case key == "routes":
			for i := 0; i+1 < len(words); i += 2 {
				l.Routes = append(l.Routes, Route{prefix(words[i]), addr(words[i+1])})
			}
		}
	}
	if err == nil && !l.Address.IsValid() {
		err = fmt.Errorf("no lease in %q", text)
	}
	return l, err
}
