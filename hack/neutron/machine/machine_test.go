// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseLease(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	for name, test := range map[string]struct {
		text, err string
		want      Lease
	}{
		"a lease with all that Neutron can give": {
			text: "udhcpc: started\nudhcpc: lease of 10.1.0.5 obtained from 10.1.0.2, lease time 86400\n" +
				`{"address":"10.1.0.5/24","server":"10.1.0.2","mtu":1450,"routers":["10.1.0.1"],"dns":["10.1.0.53","10.1.0.54"],` +
				`"routes":[{"destination":"10.2.0.0/24","via":"0.0.0.0"},{"destination":"0.0.0.0/0","via":"10.1.0.1"}]}` + "\n",
			want: Lease{
				Address: prefix("10.1.0.5/24"), Server: addr("10.1.0.2"), Routers: []netip.Addr{addr("10.1.0.1")},
				DNS: []netip.Addr{addr("10.1.0.53"), addr("10.1.0.54")}, MTU: 1450,
				Routes: []Route{{prefix("10.2.0.0/24"), addr("0.0.0.0")}, {prefix("0.0.0.0/0"), addr("10.1.0.1")}},
			},
		},
		"a lease with an address only": {
			text: `{"address":"10.1.0.5/24","mtu":0,"routers":[],"dns":[],"routes":[]}`,
			want: Lease{Address: prefix("10.1.0.5/24"), Routers: []netip.Addr{}, DNS: []netip.Addr{}, Routes: []Route{}},
		},
		"no lease":                {text: "udhcpc: no lease, failing\n", err: "no lease"},
		"an address that is none": {text: `{"address":"10.1.0/24"}`, err: "10.1.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseLease(test.text)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("want an error with %q, got %v", test.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answers returns ping's lines for these sequence numbers, and its summary.
func answers(sent string, numbers ...string) string {
	out := "PING 10.1.0.1 (10.1.0.1) 56(84) bytes of data.\n"
	for _, number := range numbers {
		out += "64 bytes from 10.1.0.1: icmp_seq=" + number + " ttl=64 time=0.061 ms\n"
	}
	return out + "\n--- 10.1.0.1 ping statistics ---\n" + sent + " packets transmitted, " + "some received\n"
}

func TestParsePings(t *testing.T) {
	const ms = time.Millisecond
	const unreachable = "From 10.1.0.9 icmp_seq=1 Destination Host Unreachable\n"
	for name, test := range map[string]struct {
		out  string
		want Result
	}{
		"all are answered":                 {answers("3", "1", "2", "3"), Result{Sent: 3}},
		"the longest of two outages":       {answers("8", "1", "3", "6", "7", "8"), Result{Sent: 8, Lost: 3, Outage: 20 * ms}},
		"the last one has no answer":       {answers("3", "1", "2"), Result{Sent: 3, Lost: 1, Outage: 10 * ms}},
		"the first pings are lost":         {answers("3", "3"), Result{Sent: 3, Lost: 2, Outage: 20 * ms}},
		"answers that overtake each other": {answers("4", "2", "1", "4", "3"), Result{Sent: 4}},
		"an answer that comes twice":       {answers("3", "1", "1", "3"), Result{Sent: 3, Lost: 1, Outage: 10 * ms}},
		"a router's message is no answer":  {unreachable + answers("2", "2"), Result{Sent: 2, Lost: 1, Outage: 10 * ms}},
		"no answer at all":                 {answers("1"), Result{Sent: 1, Lost: 1, Outage: 10 * ms}},
		"without times, as Ping prints":    {"64 bytes from 10.1.0.1: icmp_seq=1 ttl=64 time=0.06 ms\n" + answers("1"), Result{Sent: 1}},
		"IPv6":                             {"64 bytes from fd00:1::1: icmp_seq=1 ttl=64 time=0.06 ms\n" + answers("1"), Result{Sent: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			pings, err := parsePings(test.out)
			if err != nil {
				t.Fatal(err)
			}
			if got := pings.result(10 * ms); got != test.want {
				t.Errorf("want %+v, got %+v", test.want, got)
			}
		})
	}
}

// TestThePendingPing: a Probe that is stopped waits for no answer.
func TestThePendingPing(t *testing.T) {
	for name, test := range map[string]struct {
		out  string
		want Result
	}{
		"the last ping has no answer yet": {answers("3", "1", "2"), Result{Sent: 2}},
		"the ones before are lost":        {answers("24", "1", "2"), Result{Sent: 4, Lost: 2, Outage: 20 * time.Millisecond}},
		"the last ping has its answer":    {answers("2", "1", "2"), Result{Sent: 2}},
		"no ping was sent":                {answers("0"), Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			pings, err := parsePings(test.out)
			if err != nil {
				t.Fatal(err)
			}
			if got := pings.withoutPending().result(10 * time.Millisecond); got != test.want {
				t.Errorf("want %+v, got %+v", test.want, got)
			}
		})
	}
}

// TestParsePingsBeyond16Bits counts the pings of more than eleven minutes.
func TestParsePingsBeyond16Bits(t *testing.T) {
	var out strings.Builder
	for number := 1; number <= 70000; number++ {
		if number != 66000 {
			out.WriteString(strings.Replace("64 bytes from 10.1.0.1: icmp_seq=N ttl=64 time=0.06 ms\n", "N", strconv.Itoa(number%(1<<16)), 1))
		}
	}
	pings, err := parsePings(out.String() + answers("70000"))
	got := pings.result(10 * time.Millisecond)
	if want := (Result{Sent: 70000, Lost: 1, Outage: 10 * time.Millisecond}); err != nil || got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}

func TestParsePingsWithoutASummary(t *testing.T) {
	if _, err := parsePings("ping: connect: Network is unreachable\n"); err == nil || !strings.Contains(err.Error(), "Network is unreachable") {
		t.Errorf("want what ping said, got %v", err)
	}
}
