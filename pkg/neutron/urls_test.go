// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"strings"
	"testing"
)

func TestURLsAllow(t *testing.T) {
	for _, test := range []struct {
		name, allowed, address string
		want                   bool
	}{
		{"the same", "https://a.example/v3", "https://a.example/v3", true},
		{"below it", "https://a.example/identity", "https://a.example/identity/v3", true},
		{"a slash at the end of what is allowed", "https://a.example/v3/", "https://a.example/v3", true},
		{"one of several", "https://a.example, https://b.example", "https://b.example/v3", true},
		{"the scheme and the host in another case", "https://A.example", "HTTPS://a.EXAMPLE", true},
		{"the default port of https", "https://a.example", "https://a.example:443/v3", true},
		{"no port after the colon", "http://a.example", "http://a.example:/v3", true},
		{"a port with a zero before it", "http://a.example:5000", "http://a.example:05000", true},
		{"a dot at the end makes another name: it is not looked up in the search domains of a pod", "https://a.example", "https://a.example./v3", false},
		{"an IPv6 address, written at length", "https://[2001:db8::1]:5000", "https://[2001:0DB8:0:0:0:0:0:1]:5000/v3", true},
		{"an IPv4 address, written as IPv6", "https://192.0.2.1", "https://[::ffff:192.0.2.1]", true},

		{"another host", "https://a.example", "https://b.example", false},
		{"a host that begins with it", "https://a.example", "https://a.example.evil.example", false},
		{"a host that ends with it", "https://a.example", "https://evil-a.example", false},
		{"another scheme at the same port", "https://a.example", "http://a.example:443", false},
		{"another port", "https://a.example", "https://a.example:8443", false},
		{"another path", "https://a.example/identity", "https://a.example/image", false},
		{"a path above it", "https://a.example/identity", "https://a.example/", false},
		{"a path that begins with it", "https://a.example/identity", "https://a.example/identity2", false},
		{"a path in another case", "https://a.example/identity", "https://a.example/Identity", false},
		{"two dots", "https://a.example/identity", "https://a.example/identity/../admin", false},
		{"two dots, encoded", "https://a.example/identity", "https://a.example/identity/%2e%2e/admin", false},
		{"a segment that is empty", "https://a.example/identity", "https://a.example//identity", false},
		{"a segment of a dot", "https://a.example/identity", "https://a.example/./identity", false},
		{"a user that looks like the host", "https://a.example", "https://a.example@evil.example/", false},
		{"a line end", "https://a.example", "https://a.example/\r\nHost: evil.example", false},
		{"a letter of another script", "https://a.example", "https://а.example", false},
		{"an IPv4 address, written with fewer parts", "http://127.0.0.1", "http://127.1", false},
		{"a port that is not valid", "https://a.example", "https://a.example:99999", false},
		{"another protocol", "https://a.example", "file://a.example/etc/passwd", false},
		{"no scheme", "https://a.example", "//a.example", false},
		{"no host", "https://a.example", "https:a.example", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			urls, err := ParseURLs(test.allowed)
			noError(t, err)
			equal(t, test.want, urls.Allows(test.address))
		})
	}
}

func TestURLsThatCannotBeRead(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"nothing, which would allow all", "", "there is no URL"},
		{"nothing after the comma", "https://a.example,", "there is no URL"},
		{"a host alone", "a.example", "http://"},
		{"a star", "https://*.example", "letters"},
		{"two dots", "https://a.example/a/../b", "dots"},
		{"another protocol", "ftp://a.example", "http://"},
		{"no host", "https://:5000", "no host"},
		{"no port", "https://a.example:0", "port"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var urls URLs
			equal(t, true, urls.Allows("anything")) // without a list
			noError(t, urls.Set("https://before.example"))
			err := urls.Set(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			equal(t, "https://before.example", urls.String())
			equal(t, false, urls.Allows("https://a.example"))
		})
	}
}
