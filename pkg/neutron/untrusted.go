// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// untrusted is an http.RoundTripper for servers that somebody else names, who reads the status, and may not be allowed to reach
// them. It passes on no text of a server, except for an error in the form that only Neutron has.
type untrusted struct{ base http.RoundTripper }

func (u untrusted) RoundTrip(request *http.Request) (*http.Response, error) {
	if proxy, _ := http.ProxyFromEnvironment(request); proxy != nil {
		request = request.WithContext(context.WithValue(request.Context(), proxied{}, true))
	}
	response, err := u.base.RoundTrip(request)
	if err != nil {
		return nil, inFixedWords(err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	response.Header.Del("Location") // net/http quotes one that is no URL
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	response.Body.Close()
	if err != nil {
		return nil, inFixedWords(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(withoutWords(response.StatusCode, body)))
	return response, nil
}

// withoutWords returns the body of an error with the type and the message of a Neutron, or with only the title of another service
// of OpenStack. A body that is no such error stays, because nothing is quoted of it: with status 300, it is a list of versions.
func withoutWords(status int, body []byte) []byte {
	var parsed struct {
		NeutronError *struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"NeutronError,omitempty"`
		Error *struct {
			Title   string `json:"title"`
			Message string `json:"message"`
		} `json:"error,omitempty"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Error == nil && parsed.NeutronError == nil {
		return body
	}
	if parsed.Error != nil {
		parsed.Error.Message = http.StatusText(status)
	}
	body, err := json.Marshal(parsed)
	if err != nil {
		panic(err) // it has only texts
	}
	return body
}

// inFixedWords returns the error without any text of the server, or of its certificate. transportMessage has fixed words for a
// time-out and for a name that is not found.
func inFixedWords(err error) error {
	var (
		netErr  net.Error
		dnsErr  *net.DNSError
		certErr *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		another x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, errDenied):
		return errDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errTimeout),
		errors.As(err, &dnsErr), errors.As(err, &netErr) && netErr.Timeout():
		return err
	case errors.As(err, &unknown):
		return errors.New("the server's certificate is not signed by a known authority")
	case errors.As(err, &another):
		return errors.New("the server's certificate is for another name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return invalid
	case errors.As(err, &certErr):
		return errors.New("the server's certificate is not valid")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	}
	return errors.New("no connection, or the server does not speak the protocol of the URL")
}

// unquoted returns the error in fixed words if it may quote what a server of somebody else has answered. An answer with an
// unexpected status, and an error of a request, have gone through RoundTrip.
func (c *Client) unquoted(err error) error {
	if err == nil || !c.config.Untrusted || ReasonOf(err) != "" {
		return err
	}
	if _, isStatus := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); isStatus {
		return err
	}
	if request, ok := errors.AsType[*url.Error](err); ok && request.Op != "parse" {
		return err
	}
	for _, ours := range []error{errTooMany, errTooLarge, errLongValue, errNoEnd, errSamePage, errSlow} {
		if errors.Is(err, ours) {
			return err
		}
	}
	if _, isMissing := errors.AsType[*gophercloud.ErrEndpointNotFound](err); isMissing {
		return err
	}
	return errors.New("the answer is not OpenStack's")
}

// unquotedLogIn is unquoted for a log-in. If no request can be made of the credentials, it returns what is missing in them.
func (c *Client) unquotedLogIn(auth gophercloud.AuthOptions, err error) error {
	if err == nil || !c.config.Untrusted {
		return err
	}
	scope, missing := auth.ToTokenV3ScopeMap()
	if missing == nil {
		_, missing = auth.ToTokenV3CreateMap(scope)
	}
	if missing != nil {
		return missing
	}
	return c.unquoted(err)
}

var errDenied = errors.New("the controller must not connect to this address; its administrator can allow the auth_url with -allowed-auth-urls")

// proxied is the key in a context of a request that goes to a proxy.
type proxied struct{}

// dialExcept returns a function that dials as net/http does by default, but not to an address in these networks, whatever its
// name is. A proxy of the environment may be in them: it decides for itself where it leads.
func dialExcept(denied []netip.Prefix) func(ctx context.Context, network, address string) (net.Conn, error) {
	defaults := http.DefaultTransport.(*http.Transport).DialContext
	guarded := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		isIn := func(p netip.Prefix) bool { return p.Contains(to.Addr().Unmap().WithZone("")) }
		if err != nil || slices.ContainsFunc(denied, isIn) {
			return errDenied
		}
		return nil
	}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(proxied{}) != nil {
			return defaults(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}
