// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextsInJSON(t *testing.T) {
	addresses, pools, routes, tags, ips := into[Addresses], into[Pools], into[Routes], into[Tags], into[ExternalIPs]
	for _, test := range []struct {
		name string
		read func([]byte) (any, error)
		// json is what Neutron sends.
		json string
		want any
	}{
		{"addresses keep their order", addresses, `["192.0.2.54", "192.0.2.53"]`, Addresses("192.0.2.54, 192.0.2.53")},
		{"addresses in the form of RFC 5952", addresses, `["2001:DB8:0::1"]`, Addresses("2001:db8::1")},
		{"pools in the order of their addresses", pools, `[{"start": "10.0.0.100", "end": "10.0.0.254"}, {"start": "10.0.0.2", "end": "10.0.0.20"}]`,
			Pools("10.0.0.2-10.0.0.20, 10.0.0.100-10.0.0.254")},
		{"an IPv6 pool", pools, `[{"start": "FD00::0002", "end": "fd00::ffff"}]`, Pools("fd00::2-fd00::ffff")},
		{"routes are a set", routes, `[{"destination": "10.99.0.0/16", "nexthop": "10.0.0.254"}, {"destination": "10.98.0.0/16", "nexthop": "10.0.0.254"}]`,
			Routes("10.98.0.0/16 via 10.0.0.254, 10.99.0.0/16 via 10.0.0.254")},
		{"a route twice", routes, `[{"destination": "10.98.0.0/16", "nexthop": "10.0.0.254"}, {"destination": "10.98.0.0/16", "nexthop": "10.0.0.254"}]`,
			Routes("10.98.0.0/16 via 10.0.0.254")},
		{"two routes to one destination", routes, `[{"destination": "10.98.0.0/16", "nexthop": "10.0.0.254"}, {"destination": "10.98.0.0/16", "nexthop": "10.0.0.253"}]`,
			Routes("10.98.0.0/16 via 10.0.0.253, 10.98.0.0/16 via 10.0.0.254")},
		{"tags are a set", tags, `["b", "a", "b"]`, Tags(`["a","b"]`)},
		{"any character may be in a tag", tags, `["a, b", "\"", "<>&", "\u00fc"]`, Tags(`["\"","\u003c\u003e\u0026","a, b","ü"]`)},
		{"external addresses are a set", ips, `[{"subnet_id": "s", "ip_address": "2001:DB8::7"}, {"subnet_id": "t", "ip_address": "198.18.0.7"}]`,
			ExternalIPs("198.18.0.7, 2001:db8::7")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.read([]byte(test.json))
			noError(t, err)
			equal(t, test.want, got)
		})
	}
}

func TestEmptyTextsAreEmptyLists(t *testing.T) {
	for _, value := range []any{NewAddresses[string](), NewPools(), newRoutes(nil), NewTags[string](), Addresses(""), Pools(""), Routes(""), Tags("")} {
		equal(t, "[]", asJSON(t, value))
	}
	equal(t, []string{}, ExternalIPs("").All())
	equal(t, []string{"198.18.0.7", "2001:db8::7"}, ExternalIPs("198.18.0.7, 2001:db8::7").All())
}

// What a server sends that only pretends to be Neutron is an error, or is as harmless as a text of
// Neutron's.
func TestOddTexts(t *testing.T) {
	for _, test := range []struct {
		name, json string
		read       func([]byte) (any, error)
		ok         bool
	}{
		{"pools that are no addresses", `[{"start": "x", "end": "y"}]`, into[Pools], false},
		{"pools that are a text", `"10.0.0.1-10.0.0.2"`, into[Pools], false},
		{"a pool without an end", `[{"start": "10.0.0.1"}]`, into[Pools], true},
		{"a pool that ends before it begins", `[{"start": "10.0.0.9", "end": "10.0.0.1"}]`, into[Pools], true},
		{"a pool with zones", `[{"start": "fe80::1%a, b", "end": "fe80::2%a, b"}]`, into[Pools], true},
		{"addresses that are none", `["x, y", ""]`, into[Addresses], true},
		{"routes that are none", `[{"destination": " via ", "nexthop": ", "}, {}]`, into[Routes], true},
		{"tags that are numbers", `[1]`, into[Tags], false},
		{"external addresses that are none", `[{"ip_address": "x, y"}, {}]`, into[ExternalIPs], true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.read([]byte(test.json))
			if (err == nil) != test.ok {
				t.Errorf("got %q, %v", got, err)
			}
			_, _ = json.Marshal(got) // it is not sent, and must not panic
		})
	}
}

// into reads a T.
func into[T any](text []byte) (any, error) {
	var value T
	err := json.Unmarshal(text, &value)
	return value, err
}

// FuzzTexts reads the lists of a network and a subnet. What was read once can be written, and is
// read the same again; sets are the same in any order.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		`["192.0.2.54", "192.0.2.53"]`, `[{"start": "10.0.0.2", "end": "10.0.0.254"}, {"start": "10.0.0.2", "end": "10.0.0.1"}]`,
		`[{"destination": "10.99.1.0/16", "nexthop": "10.0.0.254"}, {"destination": "::/0", "nexthop": "::1"}]`, `[{"ip_address": "::1"}]`,
		`["a, b", "a via b", " via ", ""]`, `[{"destination": ", ", "nexthop": " via "}]`, `[{"start": "fe80::1%,-", "end": "fe80::2%,-"}]`,
		`[{"start": "::ffff:10.0.0.1", "end": "::ffff:10.0.0.2"}]`, `[{"start": null}]`, `[null]`, `null`, `[]`, `{}`, `""`, `1`, ``, `["\ud800"]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkText[Addresses](t, text, false)
		checkText[Pools](t, text, true)
		checkText[Routes](t, text, true)
		checkText[Tags](t, text, true)
		checkText[ExternalIPs](t, text, true)
	})
}

func checkText[T ~string](t *testing.T, text string, isSet bool) {
	t.Helper()
	var value T
	if json.Unmarshal([]byte(text), &value) != nil {
		return
	}
	if !utf8.ValidString(string(value)) {
		t.Errorf("%q is read as %q", text, value)
	}
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		t.Fatalf("%q is no list, and is read as %q", text, value)
	}
	if isSet {
		slices.Reverse(items)
		var reversed T
		if err := json.Unmarshal([]byte(asJSON(t, items)), &reversed); err != nil || reversed != value {
			t.Errorf("%q is read as %q, and in another order as %q, %v", text, value, reversed, err)
		}
	}
	// A list of a cloud is compared, and not sent: it may have texts that look like a separator.
	written, err := json.Marshal(value)
	if err != nil || strings.Contains(string(value), "%") {
		return
	}
	var again T
	if err := json.Unmarshal(written, &again); err != nil {
		return // ExternalIPs are only read
	}
	if again != value && !strings.Contains(text, ",") && !strings.Contains(text, "via") && !strings.Contains(text, `\`) {
		t.Errorf("%q is read as %q, written as %s, and read as %q", text, value, written, again)
	}
}
