// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	unauthorized = "The request you have made requires authentication."
	proxysPage   = "<html>\n<head><title>502 Bad Gateway</title></head>\n</html>"
)

func neutronBody(errorType, message string) string {
	return fmt.Sprintf(`{"NeutronError": {"type": %q, "message": %q, "detail": ""}}`, errorType, message)
}

func keystoneBody(status int, message string) string {
	return fmt.Sprintf(`{"error": {"code": %d, "title": %q, "message": %q}}`, status, http.StatusText(status), message)
}

// wantError fails the test if err is not the Error want.
func wantError(t *testing.T, want Error, err error) {
	t.Helper()
	var got *Error
	if !errors.As(err, &got) {
		t.Fatalf("got %T %v, want %+v", err, err, want)
	}
	if diff := cmp.Diff(want, *got, comparers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatAnAnswerMeans(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		// body is the type of a NeutronError with the message "m", or the whole body.
		body    string
		reason  ErrorReason
		message string
	}{
		{"the content is refused", 400, "InvalidInput", Invalid, "m"},
		{"the right is missing", 403, "PolicyNotAuthorized", Forbidden, "m"},
		{"the object does not exist", 404, "NetworkNotFound", NotFound, "m"},
		{"a proxy without a backend proves nothing", 404, "<html><h1>404 Not Found</h1></html>", Unavailable, "404 Not Found"},
		{"a proxy refuses the content, which is not final", 400, proxysPage, Unavailable, "400 Bad Request"},
		{"a proxy refuses the access, which is not final", 403, proxysPage, Unavailable, "403 Forbidden"},
		{"ports are on the network", 409, "NetworkInUse", InUse, "m"},
		{"other projects use the network", 409, "InvalidSharedSetting", InUse, "m"},
		{"a policy is in use by ports of its project", 409, "RbacPolicyInUse", InUse, "m"},
		{"the network is shared already", 409, "DuplicateRbacPolicy", InUse, "m"},
		{"the quota is used up", 409, "OverQuota", OverQuota, "m"},
		{"the quota of the project in the subnet pool is used up", 409, "SubnetPoolQuotaExceeded", OverQuota, "m"},
		{"the address of an interface is in use", 409, "IpAddressAlreadyAllocated", InUse, "m"},
		{"no address is free", 409, "IpAddressGenerationFailure", InUse, "m"},
		{"an interface is in use", 409, "RouterInterfaceInUseByFloatingIP", InUse, "m"},
		{"the gateway is in an allocation pool, which the spec has too", 409, "GatewayConflictWithAllocationPools", Invalid, "m"},
		{"another conflict is not final", 409, "NeutronDbObjectDuplicateEntry", Unavailable, "409 m"},
		{"the object has changed", 412, "RevisionNumberConstraintFailed", Stale, "m"},
		{"too many requests", 429, "Too Many Requests", Unavailable, "429 Too Many Requests"},
		{"an internal error", 500, "HTTPInternalServerError", Unavailable, "500 m"},
		{"an unknown availability zone", 404, "AvailabilityZoneNotFound", NoZone, "m"},
		{"no block of the subnet pool is free", 500, "SubnetAllocationError", PoolEmpty, "m"},
		{"no segment is free", 503, "NoNetworkAvailable", NoSegment, "m " + allSegmentsUsed},
		{"a proxy answers with a page", 502, proxysPage, Unavailable, "502 Bad Gateway"},
		{"control characters", 500, `{"NeutronError": {"type": "X", "message": "a\u001b[2Jb\nc"}}`, Unavailable, "500 a [2Jb c"},
		{"a status without a name", 599, " ", Unavailable, "599"},
		{"a status that is not an error but unexpected", 200, "{}", Unavailable, "200 OK"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := test.body
			if !strings.ContainsAny(body, "<{ ") {
				body = neutronBody(body, "m")
			}
			l := newLab(t, embedded.Options{})
			l.answer(replyTo("POST", networksPath, test.status, body))
			_, err := l.client(t).CreateNetwork(t.Context(), creating(testName).fields())
			wantError(t, Error{Op: "create network", Reason: test.reason, Message: test.message}, err)
		})
	}
}

func TestAnErrorHasTheOperationAndNeutronsMessage(t *testing.T) {
	err := fmt.Errorf("sync: %w", &Error{Op: "create subnet", Reason: OverQuota, Message: "Quota exceeded.", RetryAfter: time.Second})
	equal(t, "sync: create subnet: Quota exceeded.", err.Error())
	equal(t, OverQuota, ReasonOf(err))
	equal(t, time.Second, RetryAfterOf(err))
	equal(t, ErrorReason(""), ReasonOf(errors.New("of Kubernetes")))
	equal(t, time.Duration(0), RetryAfterOf(errors.New("of Kubernetes")))
	equal(t, ErrorReason(""), ReasonOf(nil))
}

func TestMayBeSent(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{&Error{Op: "create network", Reason: Unavailable, Message: "504 Gateway Timeout"}, true},
		{wrap("create network", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), true},
		{wrap("create network", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), false},
		{ofAnother(&Error{Op: "list networks", Reason: Unavailable}), false},
		{wrap("create network", errSlow), false},
		{&Error{Op: authenticate, Reason: Unavailable}, false},
		{fmt.Errorf("sync: %w", &Error{Op: findNeutron, Reason: Unavailable}), false},
	} {
		equal(t, test.want, mayBeSent(test.err))
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "": 0, "0": 0, "-5": 0, "soon": 0, "99999999999999999999": 0, // the last one overflows
		"Wed, 21 Oct 2015 07:28:00 GMT": 0,
	} {
		equal(t, want, retryAfter(http.Header{"Retry-After": {header}}))
	}
	// A date is compared with that of the answer, since this machine's clock can be a day wrong.
	synctest.Test(t, func(t *testing.T) {
		for _, clock := range []time.Duration{-24 * time.Hour, 0, 24 * time.Hour} {
			at := func(later time.Duration) []string {
				return []string{time.Now().Add(clock + later).UTC().Format(http.TimeFormat)}
			}
			header := http.Header{"Date": at(0), "Retry-After": at(time.Minute)}
			equal(t, time.Minute, retryAfter(header))
			if clock == 0 {
				header.Del("Date")
				equal(t, time.Minute, retryAfter(header))
			}
		}
	})
	for status, want := range map[int]time.Duration{429: time.Minute, 503: time.Minute, 500: 0} {
		err := wrap("x", gophercloud.ErrUnexpectedResponseCode{Actual: status, ResponseHeader: http.Header{"Retry-After": {"60"}}})
		equal(t, want, RetryAfterOf(err))
	}
}

func TestWhatKeystonesAnswerMeans(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		reason ErrorReason
		want   string
	}{
		{"the password is wrong", 401, keystoneBody(401, unauthorized), Unauthenticated, unauthorized},
		{"the credentials are invalid", 400, keystoneBody(400, "Invalid input"), Unauthenticated, "Invalid input"},
		{"the user is not allowed", 403, keystoneBody(403, "You are not authorized"), Unauthenticated, "You are not authorized"},
		{"the application credential does not exist", 404, keystoneBody(404, "Could not find Application Credential: x."), Unauthenticated, "Could not find Application Credential: x."},
		{"a proxy without a Keystone", 404, "default backend - 404", Unavailable, "404 Not Found"},
		{"Keystone is away", 503, "", Unavailable, "503 Service Unavailable"},
		{"an internal error", 500, keystoneBody(500, "An unexpected error prevented the server from fulfilling your request."), Unavailable, "500 An unexpected error prevented the server from fulfilling your request."},
		{"an HTML page that says Created", 201, proxysPage, Unavailable, "invalid character '<' looking for beginning of value"},
		{"a token that is not one", 201, `{"token": 1}`, Unavailable, "json: cannot unmarshal number into Go value of type tokens.ServiceCatalog"},
		{"a project whose ID cannot be one", 201, `{"token": {"project": {"id": "a/b"}, "catalog": []}}`, Unavailable, "the answer is not from Keystone"},
		{"a project that is not one", 201, `{"token": {"project": [], "catalog": []}}`, Unavailable, "the answer is not from Keystone"},
	} {
		want := Error{Op: "authenticate", Reason: test.reason, Message: test.want}
		// The same happens when the token of a client expires.
		for _, isFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, at first: %v", test.name, isFirst), func(t *testing.T) {
				l := newLab(t, embedded.Options{})
				c := l.client(t)
				if !isFirst {
					works(t, c)
					l.RevokeTokens()
				}
				l.answer(replyTo("POST", tokensPath, test.status, test.body))
				_, err := c.ListNetworks(t.Context())
				wantError(t, want, err)
			})
		}
	}
}

// labWithNetwork returns a lab, an authenticated client, and a network.
func labWithNetwork(t *testing.T) (*lab, *Client, Network) {
	t.Helper()
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	network, err := c.CreateNetwork(t.Context(), creating(testName).fields())
	noError(t, err)
	return l, c, network
}

func TestAnErrorOfTheDiscoveryIsNotAboutANetwork(t *testing.T) {
	for _, status := range []int{400, 403, 404, 409, 412, 500, 503} {
		l, _, network := labWithNetwork(t)
		l.answer(replyTo("GET", "/networking/", status, neutronBody("NetworkNotFound", "gone")))
		err := l.client(t).DeleteNetwork(t.Context(), network.ID, nil)
		if e := errorIn(err); e.Op != findNeutron || e.Reason != Unavailable {
			t.Errorf("%d: got %s: %v", status, e.Reason, err)
		}
		equal(t, 0, l.count("DELETE "+networksPath+"/"+network.ID))
	}
}

func TestAFileThatIsDamagedLater(t *testing.T) {
	l := newLab(t, embedded.Options{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	write(t, file, string(l.cloudsYAML("samplecrd", password)))
	config, err := LoadConfig("lab")
	noError(t, err)
	c := newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second})
	works(t, c)
	// The file is not read while the token is valid.
	write(t, file, "")
	works(t, c)
	noError(t, l.SetPassword("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	if ReasonOf(err) != Unauthenticated || !strings.Contains(err.Error(), "clouds.yaml") {
		t.Errorf("got %v, want the name of the file in it", err)
	}
	write(t, file, string(l.cloudsYAML("samplecrd", "another")))
	works(t, c)
}

// hang returns when the client has closed the connection. net/http notices that only after the
// body was read.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestAnAnswerStopsHalfway(t *testing.T) {
	t.Parallel()
	for hangs, want := range map[bool]string{false: "unexpected EOF", true: "no answer in time"} {
		l := newLab(t, embedded.Options{})
		c := l.client(t)
		works(t, c)
		l.answer(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"networks": [`))
			_ = http.NewResponseController(w).Flush()
			if !hangs {
				panic(http.ErrAbortHandler) // cuts the connection
			}
			hang(r)
			return true
		})
		if hangs {
			c.transport.timeout = 100 * time.Millisecond
		}
		_, err := c.ListNetworks(t.Context())
		wantError(t, Error{Op: "list networks", Reason: Unavailable, Message: want}, err)
	}
}

func TestAMessageIsTheSameEachTime(t *testing.T) {
	local := func(port int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, 0, 9), Port: port} }
	remote := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 5000}
	lookup := func(err net.DNSError) error {
		err.Name, err.Server = "keystone.example.com", "10.0.0.2:53"
		return &net.OpError{Op: "dial", Net: "tcp", Err: &err}
	}
	for _, test := range []struct {
		name string
		err  func(n int) error // the n-th error
		want string
	}{
		{"the local port differs", func(n int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: local(40000 + n), Addr: remote, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
		}, "read 10.0.0.2:5000: read: connection reset by peer"},
		{"the name server is away, and the local port is in the error", func(n int) error {
			return lookup(net.DNSError{Err: fmt.Sprintf("read udp 10.0.0.9:%d->10.0.0.2:53: i/o timeout", 40000+n), IsTimeout: true})
		}, "lookup keystone.example.com: no answer from a name server"},
		{"the name is wrong", func(int) error { return lookup(net.DNSError{Err: "no such host", IsNotFound: true}) }, "lookup keystone.example.com: no such host"},
		{"the certificate has expired, and the time is in the error", func(n int) error {
			return x509.CertificateInvalidError{Reason: x509.Expired, Detail: fmt.Sprintf("current time 2026-01-01T00:00:%02dZ is after 2025-12-31T00:00:00Z", n)}
		}, "the server's certificate has expired or is not yet valid"},
		{"the certificate is for something else", func(int) error { return x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign} },
			"x509: certificate is not authorized to sign other certificates"},
		{"the deadline has passed", func(int) error { return context.DeadlineExceeded }, "no answer in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for n := range 2 {
				err := wrap("list networks", &url.Error{Op: "Get", URL: "http://user:secret@keystone", Err: test.err(n)})
				wantError(t, Error{Op: "list networks", Reason: Unavailable, Message: test.want}, err)
			}
		})
	}
}

func TestDeletingWhatDoesNotExistIsNotAnError(t *testing.T) {
	l, c, network := labWithNetwork(t)
	noError(t, c.DeleteNetwork(t.Context(), network.ID, network.Revision))
	noError(t, c.DeleteNetwork(t.Context(), network.ID, network.Revision))
	noError(t, c.DeleteSubnet(t.Context(), network.ID, nil))

	l.answer(replyTo("DELETE", "/networking/", 404, "<html>no backend</html>"))
	wantError(t, Error{Op: "delete network", Reason: Unavailable, Message: "404 Not Found"}, c.DeleteNetwork(t.Context(), network.ID, nil))
	wantError(t, Error{Op: "delete subnet", Reason: Unavailable, Message: "404 Not Found"}, c.DeleteSubnet(t.Context(), network.ID, nil))
}
