// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Servers says to which servers Secrets may lead the controller. The zero Servers allow all: a user who may write Secrets and
// Networks can then make the controller connect to anything that it can reach.
type Servers struct {
	// Allowed are the Keystones that Secrets may name. An allowed Keystone says where its Neutron is.
	Allowed URLs
	// Denied are the networks that no connection is made to, whatever the server's name is, if Allowed is zero.
	Denied CIDRs
}

// CIDRs is a list of networks of addresses. *CIDRs is a flag.Value.
type CIDRs []netip.Prefix

// AroundPod returns the networks that a server outside the pod never has, and the address of the API server, if it is one.
func AroundPod(apiServer string) CIDRs {
	around := CIDRs{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fe80::/10"),
	}
	if address, err := netip.ParseAddr(apiServer); err == nil {
		around = append(around, netip.PrefixFrom(address, address.BitLen()))
	}
	return around
}

// String returns the networks, separated by commas.
func (c *CIDRs) String() string {
	var texts []string
	for _, p := range *c {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

// Set replaces the networks by those in the text.
func (c *CIDRs) Set(text string) error {
	var networks CIDRs
	for entry := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(entry))
		if err != nil || p.Addr().Is4In6() { // which no address is compared with
			return fmt.Errorf("%q is not a network such as 10.96.0.0/12", strings.TrimSpace(entry))
		}
		networks = append(networks, p.Masked())
	}
	*c = networks
	return nil
}

// URLs is a list of the Keystones that the controller may connect to. The zero URLs allow all.
// *URLs is a flag.Value.
type URLs struct {
	// text is the text that was parsed.
	text    string
	allowed []location
}

// location is an http or https URL in a normal form, so that two of them can be compared.
type location struct {
	scheme string
	host   string // with the port
	// segments is the path.
	segments []string
}

// ParseURLs parses a list of URLs, separated by commas. Each URL allows itself and all URLs below
// it: those with the same scheme, host and port, and a path that begins with the same segments.
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

// Allows reports whether the controller may connect to the address. Unless all are allowed, it
// is false for an address that cannot be parsed.
func (u URLs) Allows(address string) bool {
	if u.allowed == nil {
		return true
	}
	parsed, err := parseLocation(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(u.allowed, func(allowed location) bool { return allowed.covers(parsed) })
}

// String returns the text that was parsed; "" for the list that allows all.
func (u *URLs) String() string { return u.text }

// Set parses the text into u. An empty text, as from a variable that is not set, is an error,
// because an empty list would allow all.
func (u *URLs) Set(text string) error {
	urls, err := ParseURLs(text)
	if err == nil {
		*u = urls
	}
	return err
}

func (l location) covers(other location) bool {
	return l.scheme == other.scheme && l.host == other.host &&
		len(l.segments) <= len(other.segments) && slices.Equal(l.segments, other.segments[:len(l.segments)])
}

// plainURL matches URLs without a user, query, fragment or escapes. All programs read such a URL
// in the same way.
var plainURL = regexp.MustCompile(`^[A-Za-z0-9:/._~\[\]-]+$`)

// hostName matches a DNS name. The same name with a dot at its end can be another host: it is not
// looked up in the search domains of the pod.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?$`)

// parseLocation refuses every URL that two programs could read in different ways.
func parseLocation(address string) (location, error) {
	if address == "" {
		return location{}, errors.New("there is no URL")
	}
	if !plainURL.MatchString(address) {
		return location{}, errors.New("a URL may have a scheme, a host, a port and a path, of letters, digits and the characters . _ ~ - only")
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Opaque != "" || parsed.Host == "" {
		return location{}, errors.New("it is not a URL that begins with http:// or https://")
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
		return "", errors.New("it has no host that is an IP address or a DNS name")
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
		return "", errors.New("its port is not valid")
	}
	return strconv.FormatUint(number, 10), nil
}

// segmentsOf splits a path. It ignores a slash at the end.
func segmentsOf(path string) ([]string, error) {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil, nil
	}
	segments := strings.Split(path, "/")
	if slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return nil, errors.New("its path has an empty segment, or a segment of dots")
	}
	return segments, nil
}
