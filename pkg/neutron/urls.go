/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package neutron

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// URLs are the addresses of Keystones that may be connected to. The zero URLs allow all.
// *URLs is a flag.Value.
type URLs struct {
	// text is what they were made of.
	text    string
	allowed []location
}

// location is an http or https URL in the one form in which two of them can be compared.
type location struct {
	scheme string
	host   string // with the port
	// segments are the path's.
	segments []string
}

// ParseURLs reads a list of URLs, separated by commas. Each allows itself and whatever is
// below it: scheme, host and port have to be the same, and the path has to begin with the
// same segments.
func ParseURLs(text string) (URLs, error) {
	urls := URLs{text: text}
	for entry := range strings.SplitSeq(text, ",") {
		allowed, err := parseLocation(strings.TrimSpace(entry))
		if err != nil {
			return URLs{}, fmt.Errorf("%q: %w", strings.TrimSpace(entry), err)
		}
		urls.allowed = append(urls.allowed, allowed)
	}
	return urls, nil
}

// Allows says whether that address may be connected to. What it cannot read, it does not
// allow, unless all is.
func (u URLs) Allows(address string) bool {
	if u.allowed == nil {
		return true
	}
	wanted, err := parseLocation(address)
	if err != nil {
		return false
	}
	for _, allowed := range u.allowed {
		if allowed.covers(wanted) {
			return true
		}
	}
	return false
}

// String returns what the list was made of; "" for the list that allows all.
func (u *URLs) String() string { return u.text }

// Set makes u the list that the text is. An empty one, such as of a variable that is not set,
// is an error: it would allow all.
func (u *URLs) Set(text string) error {
	urls, err := ParseURLs(text)
	if err == nil {
		*u = urls
	}
	return err
}

func (l location) covers(other location) bool {
	if l.scheme != other.scheme || l.host != other.host || len(l.segments) > len(other.segments) {
		return false
	}
	for i, segment := range l.segments {
		if segment != other.segments[i] {
			return false
		}
	}
	return true
}

// plainURL are the signs of a URL in which nothing is encoded: no user, query, fragment or
// escape. Whatever reads such a one takes it for the same.
var plainURL = regexp.MustCompile(`^[A-Za-z0-9:/._~\[\]-]+$`)

// hostName is a name as DNS has it. With a dot at its end it may be that of another host: it is
// not looked for in the search domains, of which a pod has several.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?$`)

// parseLocation refuses all that two readers could take for different places.
func parseLocation(address string) (location, error) {
	if address == "" {
		return location{}, errors.New("there is no URL")
	}
	if !plainURL.MatchString(address) {
		return location{}, errors.New("a URL of a scheme, a host, a port and a path is needed, of letters, digits and the signs . _ ~ - only")
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Opaque != "" || parsed.Host == "" {
		return location{}, errors.New("it is no URL that begins with http:// or https://")
	}
	host, err := hostOf(parsed)
	if err != nil {
		return location{}, err
	}
	port, err := portOf(parsed)
	if err != nil {
		return location{}, err
	}
	segments, err := segmentsOf(parsed.Path)
	if err != nil {
		return location{}, err
	}
	return location{parsed.Scheme, net.JoinHostPort(host, port), segments}, nil
}

func hostOf(parsed *url.URL) (string, error) {
	host := strings.ToLower(parsed.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), nil
	}
	if !hostName.MatchString(host) {
		return "", errors.New("it has no host that is an address or a name")
	}
	return host, nil
}

func portOf(parsed *url.URL) (string, error) {
	port := parsed.Port()
	switch {
	case port == "" && parsed.Scheme == "http":
		return "80", nil
	case port == "":
		return "443", nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", errors.New("its port is none")
	}
	return strconv.FormatUint(number, 10), nil
}

// segmentsOf splits a path. A slash at its end means nothing.
func segmentsOf(path string) ([]string, error) {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil, nil
	}
	segments := strings.Split(path, "/")
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return nil, errors.New("its path has an empty segment, or one of dots")
		}
	}
	return segments, nil
}
