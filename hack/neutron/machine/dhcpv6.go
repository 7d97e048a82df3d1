// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// LeaseV6 is what a DHCPv6 server gave to a machine. Routes are not in it: they come from a router's
// advertisements.
type LeaseV6 struct {
	// Address is the machine's address, unless it asked for information only.
	Address netip.Addr
	// DNS are the addresses of DNS servers.
	DNS []netip.Addr
}

// RequestAddressV6 asks the DHCPv6 server for an address, and sets the address.
func (m *Machine) RequestAddressV6(ctx context.Context) (LeaseV6, error) {
	l, err := m.askDHCPv6(ctx, "stateful")
	if err == nil {
		_, err = m.Run(ctx, "ip", "address", "replace", l.Address.String()+"/128", "dev", "eth0")
	}
	return l, err
}

// RequestInformationV6 asks the DHCPv6 server for all but an address.
func (m *Machine) RequestInformationV6(ctx context.Context) (LeaseV6, error) {
	return m.askDHCPv6(ctx, "stateless")
}

func (m *Machine) askDHCPv6(ctx context.Context, mode string) (LeaseV6, error) {
	out, err := m.Run(ctx, "python3", m.host.file("dhcpv6.py"), mode, strconv.Itoa(dhcpTries))
	if err != nil {
		return LeaseV6{}, err
	}
	return parseLeaseV6(out)
}

// parseLeaseV6 reads what dhcpv6.py prints.
func parseLeaseV6(text string) (l LeaseV6, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		a, err := netip.ParseAddr(value)
		if err != nil {
			return l, fmt.Errorf("DHCPv6: %q: %w", line, err)
		}
		switch key {
		case "address":
			l.Address = a
		case "dns":
			l.DNS = append(l.DNS, a)
		}
	}
	return l, nil
}
