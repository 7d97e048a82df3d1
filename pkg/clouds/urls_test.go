// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"net/http"
	"net/netip"
	"path"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
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
			must(t, err)
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
			must(t, urls.Set("https://before.example"))
			err := urls.Set(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			equal(t, "https://before.example", urls.String())
			equal(t, false, urls.Allows("https://a.example"))
		})
	}
}

// Go connects to the host and the port that are allowed, and the path begins with the allowed one,
// also after a server has normalized it.
func FuzzURLs(f *testing.F) {
	for _, address := range []string{
		"https://a.example/identity/v3", "https://a.example:443/identity", "https://A.example./identity/", "https://a.example/identity/../x",
		"https://a.example@evil.example/identity", "https://a.example:8443/identity", "https://a.example/identity2/x", "https://a.example/identity%2f..%2fx", "https://[::1]/identity", "https://a.example:0443/identity",
		"https://a.example\\identity", "https://a.example/identity//x", "https://a.example/identity?x#y", "https://a。example/identity", "",
	} {
		f.Add(address)
	}
	allowed, err := ParseURLs("https://a.example/identity,http://192.0.2.1:5000")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if urls, err := ParseURLs(address); err == nil && !strings.Contains(address, ",") && !urls.Allows(strings.TrimSpace(address)) {
			t.Errorf("%q does not allow itself", address)
		}
		if !allowed.Allows(address) {
			return
		}
		// This is how gophercloud and net/http read it.
		request, err := http.NewRequest(http.MethodPost, gophercloud.NormalizeURL(address)+"auth/tokens", nil)
		if err != nil {
			t.Fatalf("%q is allowed, but is not a URL: %v", address, err)
		}
		u := request.URL
		at := u.Scheme + " " + strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") + " " + strings.TrimLeft(u.Port(), "0")
		switch at {
		case "https a.example ", "https a.example 443":
			if clean := path.Clean(u.Path); clean != strings.TrimSuffix(u.Path, "/") || !strings.HasPrefix(clean, "/identity/") {
				t.Errorf("%q is allowed, and leads to %s", address, u)
			}
		case "http 192.0.2.1 5000", "http ::ffff:192.0.2.1 5000", "http ::ffff:c000:201 5000":
		default:
			if ip, err := netip.ParseAddr(u.Hostname()); err != nil || ip.Unmap().String() != "192.0.2.1" || strings.TrimLeft(u.Port(), "0") != "5000" {
				t.Errorf("%q is allowed, and leads to %s", address, u)
			}
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q is allowed, and is %+v", address, u)
		}
	})
}
