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
	"context"
	"crypto/tls"
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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	notFromNeutron = "the answer is not from Neutron"
	unauthorized   = "The request you have made requires authentication."
	proxysPage     = "<html>\n<head><title>502 Bad Gateway</title></head>\n</html>"
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
		body   string
		want   Error
	}{
		{"the content is refused", 400, neutronBody("InvalidInput", "Invalid input for operation: Gateway is not valid on subnet."),
			Error{Reason: Invalid, Message: "Invalid input for operation: Gateway is not valid on subnet."}},
		{"the right is missing", 403, neutronBody("PolicyNotAuthorized", "rule:create_network is disallowed by policy"),
			Error{Reason: Forbidden, Message: "rule:create_network is disallowed by policy"}},
		{"the object does not exist", 404, neutronBody("NetworkNotFound", "Network n could not be found."),
			Error{Reason: NotFound, Message: "Network n could not be found."}},
		{"a proxy without a backend proves nothing", 404, "<html><h1>404 Not Found</h1></html>",
			Error{Reason: Unavailable, Message: "404 Not Found"}},
		{"plain text of an ingress, which may be from any server", 404, "default backend - 404",
			Error{Reason: Unavailable, Message: "404 Not Found"}},
		{"ports are on the network", 409, neutronBody("NetworkInUse", "There are one or more ports still in use on the network."),
			Error{Reason: InUse, Message: "There are one or more ports still in use on the network."}},
		{"ports are on the subnet", 409, neutronBody("SubnetInUse", "One or more ports have an IP allocation from this subnet."),
			Error{Reason: InUse, Message: "One or more ports have an IP allocation from this subnet."}},
		{"other projects use the network", 409, neutronBody("InvalidSharedSetting", "Multiple tenants are using it."),
			Error{Reason: InUse, Message: "Multiple tenants are using it."}},
		{"a port has the gateway", 409, neutronBody("GatewayIpInUse", "Current gateway ip is already in use."),
			Error{Reason: InUse, Message: "Current gateway ip is already in use."}},
		{"the quota is used up", 409, neutronBody("OverQuota", "Quota exceeded for resources: ['network']."),
			Error{Reason: OverQuota, Message: "Quota exceeded for resources: ['network']."}},
		{"the address of an interface is in use", 409, neutronBody("IpAddressAlreadyAllocated", "IP address 10.0.0.1 already allocated in subnet s"),
			Error{Reason: InUse, Message: "IP address 10.0.0.1 already allocated in subnet s"}},
		{"an interface is in use", 409, neutronBody("RouterInterfaceInUseByFloatingIP", "It is required by one or more floating IPs."),
			Error{Reason: InUse, Message: "It is required by one or more floating IPs."}},
		{"the gateway is in an allocation pool, which the spec has too", 409, neutronBody("GatewayConflictWithAllocationPools", "Gateway ip conflicts with allocation pool."),
			Error{Reason: Invalid, Message: "Gateway ip conflicts with allocation pool."}},
		{"another conflict is not final", 409, neutronBody("NeutronDbObjectDuplicateEntry", "Failed to create a duplicate RouterPort."),
			Error{Reason: Unavailable, Message: "409 Failed to create a duplicate RouterPort."}},
		{"the object has changed", 412, neutronBody("RevisionNumberConstraintFailed", "Constrained to 3, but current revision is 4"),
			Error{Reason: Stale, Message: "Constrained to 3, but current revision is 4"}},
		{"too many requests", 429, "Too Many Requests",
			Error{Reason: Unavailable, Message: "429 Too Many Requests"}},
		{"an internal error", 500, neutronBody("HTTPInternalServerError", "Request Failed: internal server error while processing your request."),
			Error{Reason: Unavailable, Message: "500 Request Failed: internal server error while processing your request."}},
		{"Keystone is away, and Neutron answers", 503, "The server is currently unavailable. Please try again at a later time.",
			Error{Reason: Unavailable, Message: "503 Service Unavailable"}},
		{"no segment is free", 503, neutronBody("NoNetworkAvailable", "Unable to create the network. No tenant network is available for allocation."),
			Error{Reason: NoSegment, Message: "Unable to create the network. No tenant network is available for allocation. " + allSegmentsUsed}},
		{"another resource is exhausted", 503, neutronBody("OvsdbConnectionUnavailable", "OVS database connection to OVN_Northbound failed."),
			Error{Reason: Unavailable, Message: "503 OVS database connection to OVN_Northbound failed."}},
		{"a proxy answers with a page", 502, proxysPage,
			Error{Reason: Unavailable, Message: "502 Bad Gateway"}},
		{"no body", 504, "",
			Error{Reason: Unavailable, Message: "504 Gateway Timeout"}},
		{"control characters", 500, `{"NeutronError": {"type": "X", "message": "a\u001b[2Jb\nc"}}`,
			Error{Reason: Unavailable, Message: "500 a [2Jb c"}},
		{"JSON of another API", 500, `{"message": "?"}`,
			Error{Reason: Unavailable, Message: "500 Internal Server Error"}},
		{"a status without a name", 599, "",
			Error{Reason: Unavailable, Message: "599"}},
		{"a status that is not an error but unexpected", 200, "{}",
			Error{Reason: Unavailable, Message: "200 OK"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			l.answer(replyTo("POST", networksPath, test.status, test.body))
			_, err := l.client(t).CreateNetwork(t.Context(), creating(testName))
			test.want.Op = "create network"
			wantError(t, test.want, err)
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

func TestRetryAfter(t *testing.T) {
	at := func(later time.Duration) string { return time.Now().Add(later).UTC().Format(http.TimeFormat) }
	for _, test := range []struct {
		name   string
		header string
		want   time.Duration
	}{
		{"seconds", "120", 2 * time.Minute},
		{"none", "", 0},
		{"zero", "0", 0},
		{"a negative number", "-5", 0},
		{"garbage", "soon", 0},
		{"a date in the past", "Wed, 21 Oct 2015 07:28:00 GMT", 0},
		{"a number that overflows", "99999999999999999999", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			l.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != networksPath {
					return false
				}
				w.Header().Set("Retry-After", test.header)
				return reply(w, http.StatusServiceUnavailable, "")
			})
			_, err := l.client(t).ListNetworks(t.Context())
			equal(t, test.want, RetryAfterOf(err))
		})
	}
	t.Run("a date in the future", func(t *testing.T) {
		header := http.Header{"Retry-After": {at(time.Hour)}}
		if got := retryAfter(header); got < 59*time.Minute || got > time.Hour {
			t.Errorf("got %s", got)
		}
	})
	for name, jump := range map[string]time.Duration{"forwards": -24 * time.Hour, "back": 24 * time.Hour} {
		t.Run("a date, after this machine's clock has jumped a day "+name, func(t *testing.T) {
			header := http.Header{"Date": {at(jump)}, "Retry-After": {at(jump + time.Minute)}}
			if got := retryAfter(header); got < 59*time.Second || got > 61*time.Second {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestWhatKeystonesAnswerMeans(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   Error
	}{
		{"the password is wrong", 401, keystoneBody(401, unauthorized), Error{Reason: Unauthenticated, Message: unauthorized}},
		{"the credentials are invalid", 400, keystoneBody(400, "Invalid input"), Error{Reason: Unauthenticated, Message: "Invalid input"}},
		{"the user is not allowed", 403, keystoneBody(403, "You are not authorized"), Error{Reason: Unauthenticated, Message: "You are not authorized"}},
		{"the application credential does not exist", 404, keystoneBody(404, "Could not find Application Credential: x."), Error{Reason: Unauthenticated, Message: "Could not find Application Credential: x."}},
		{"a proxy without a Keystone", 404, "default backend - 404", Error{Reason: Unavailable, Message: "404 Not Found"}},
		{"Keystone is away", 503, "", Error{Reason: Unavailable, Message: "503 Service Unavailable"}},
		{"an HTML page", 502, proxysPage, Error{Reason: Unavailable, Message: "502 Bad Gateway"}},
		{"an internal error", 500, keystoneBody(500, "An unexpected error prevented the server from fulfilling your request."),
			Error{Reason: Unavailable, Message: "500 An unexpected error prevented the server from fulfilling your request."}},
		{"an HTML page that says Created", 201, proxysPage, Error{Reason: Unavailable, Message: "invalid character '<' looking for beginning of value"}},
		{"a token that is not one", 201, `{"token": 1}`, Error{Reason: Unavailable, Message: "json: cannot unmarshal number into Go value of type tokens.ServiceCatalog"}},
		{"a project that is not one", 201, `{"token": {"project": [], "catalog": []}}`, Error{Reason: Unavailable, Message: "the answer is not from Keystone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Op = "authenticate"
			l := newLab(t, embedded.Options{})
			l.answer(replyTo("POST", tokensPath, test.status, test.body))
			_, err := l.client(t).ListNetworks(t.Context())
			wantError(t, test.want, err)
		})
		// The same happens when the token of a client expires.
		t.Run(test.name+", when the token has expired", func(t *testing.T) {
			test.want.Op = "authenticate"
			l, c, network := labWithNetwork(t)
			l.RevokeTokens()
			l.answer(replyTo("POST", tokensPath, test.status, test.body))
			wantError(t, test.want, c.DeleteNetwork(t.Context(), network.ID, nil))
		})
	}
}

// labWithNetwork returns a lab, an authenticated client, and a network.
func labWithNetwork(t *testing.T) (*lab, *Client, Network) {
	t.Helper()
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	network, err := c.CreateNetwork(t.Context(), creating(testName))
	noError(t, err)
	return l, c, network
}

func TestCredentialsThatAreWrong(t *testing.T) {
	l := newLab(t, embedded.Options{})
	for _, test := range []struct{ name, user, password string }{
		{"a wrong password", "samplecrd", "hunter2hunter2"},
		{"an unknown user", "nobody", password},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newTestClient(t, l.configAs(t, test.user, test.password), ClientOptions{Timeout: 10 * time.Second}).ListNetworks(t.Context())
			wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: unauthorized}, err)
			if strings.Contains(fmt.Sprintf("%+v", err), test.password) {
				t.Errorf("the password is in the error: %+v", err)
			}
		})
	}
}

func TestACatalogWithoutNeutronInTheRegion(t *testing.T) {
	l := newLab(t, embedded.Options{})
	config := l.config(t)
	config.Endpoint.Region = "elsewhere"
	_, err := newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second}).ListNetworks(t.Context())
	wantError(t, Error{Op: "find Neutron in Keystone's catalog", Reason: Unavailable, Message: "No suitable endpoint could be found in the service catalog."}, err)
}

func TestAnErrorOfTheDiscoveryIsNotAboutANetwork(t *testing.T) {
	for _, status := range []int{400, 403, 404, 409, 412, 500, 503} {
		l, _, network := labWithNetwork(t)
		l.answer(replyTo("GET", "/networking/", status, `{"NeutronError": {"type": "NetworkNotFound", "message": "gone"}}`))
		for op, try := range map[string]func(*Client) error{
			"get":    func(c *Client) error { _, err := c.GetNetwork(t.Context(), network.ID); return err },
			"delete": func(c *Client) error { return c.DeleteNetwork(t.Context(), network.ID, nil) },
			"unmark": func(c *Client) error { return c.UnmarkNetwork(t.Context(), &network) },
			"list":   func(c *Client) error { _, err := c.ListNetworks(t.Context()); return err },
		} {
			if err := try(l.client(t)); ReasonOf(err) != Unavailable {
				t.Errorf("%s: %d from Neutron's root is %s: %v", op, status, ReasonOf(err), err)
			}
		}
		equal(t, 0, l.count("DELETE "+networksPath+"/"+network.ID))
	}
}

func TestManyRequestsAuthenticateOnce(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			if _, err := c.ListNetworks(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	equal(t, 1, l.count("POST "+tokensPath))
}

func TestAnExpiredTokenIsRenewed(t *testing.T) {
	l, c, network := labWithNetwork(t)
	l.RevokeTokens()
	got, err := c.GetNetwork(t.Context(), network.ID)
	noError(t, err)
	equal(t, network.ID, got.ID)
	equal(t, 2, l.count("POST "+tokensPath))
}

func TestAFreshTokenThatIsRefused(t *testing.T) {
	l, c, network := labWithNetwork(t)
	l.answer(replyTo("DELETE", networksPath, 401, keystoneBody(401, unauthorized)))
	err := c.DeleteNetwork(t.Context(), network.ID, nil)
	wantError(t, Error{Op: "delete network", Reason: Unauthenticated, Message: unauthorized}, err)
	// One retry only.
	equal(t, 2, l.count("DELETE "+networksPath+"/"+network.ID))
	equal(t, 2, l.count("POST "+tokensPath))
}

func TestAPasswordThatWasChanged(t *testing.T) {
	l, c, network := labWithNetwork(t)
	noError(t, l.SetPassword("samplecrd", "another"))
	_, err := c.GetNetwork(t.Context(), network.ID)
	wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: unauthorized}, err)
	// As at the start, Keystone is not asked again at once.
	_, err = c.GetNetwork(t.Context(), network.ID)
	equal(t, true, RetryAfterOf(err) > 0)
	equal(t, 2, l.count("POST "+tokensPath))
	noError(t, l.SetPassword("samplecrd", password))
	c.refused.until = time.Now()
	_, err = c.GetNetwork(t.Context(), network.ID)
	noError(t, err)
}

func TestAPasswordThatIsCorrectedInTheFile(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c, write := l.clientOfFile(t)
	_, err := c.ListNetworks(t.Context())
	noError(t, err)
	noError(t, l.SetPassword("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: unauthorized}, err)
	write(l.cloudsYAML("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	noError(t, err)
}

func TestAFileThatIsDamagedLater(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c, write := l.clientOfFile(t)
	_, err := c.ListNetworks(t.Context())
	noError(t, err)
	// The file is not read while the token is valid.
	write(nil)
	_, err = c.ListNetworks(t.Context())
	noError(t, err)
	noError(t, l.SetPassword("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	if ReasonOf(err) != Unauthenticated || !strings.Contains(err.Error(), "clouds.yaml") {
		t.Errorf("got %v, want the name of the file in it", err)
	}
	write(l.cloudsYAML("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	noError(t, err)
}

func TestCredentialsForAnotherProjectAreNotUsed(t *testing.T) {
	l := newLab(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password}, {Name: "other", ID: "project-2", Password: password},
	}})
	c, write := l.clientOfFile(t)
	_, err := c.ListNetworks(t.Context())
	noError(t, err)
	noError(t, l.SetPassword("samplecrd", "another"))
	write(l.cloudsYAML("other", password))
	_, err = c.ListNetworks(t.Context())
	wantError(t, Error{Op: "authenticate", Reason: Unauthenticated, Message: `the credentials are now for project "project-2" in region "RegionOne", ` +
		`and were for project "project-1" in region "RegionOne": to create networks there, restart the controller`}, err)
	write(l.cloudsYAML("samplecrd", "another"))
	_, err = c.ListNetworks(t.Context())
	noError(t, err)
}

// clientOfFile returns a client that is configured by a file, and a function that writes the file.
func (l *lab) clientOfFile(t *testing.T) (*Client, func(content []byte)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	write := func(content []byte) { noError(t, os.WriteFile(file, content, 0o600)) }
	write(l.cloudsYAML("samplecrd", password))
	config, err := LoadConfig("lab")
	noError(t, err)
	return newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second}), write
}

func TestRefusedCredentialsAreNotRetriedAtOnce(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := newTestClient(t, l.configAs(t, "samplecrd", "wrong"), ClientOptions{Timeout: 10 * time.Second})
	for i := range 5 {
		_, err := c.ListNetworks(t.Context())
		if asked := RetryAfterOf(err); ReasonOf(err) != Unauthenticated || (asked > 0) != (i > 0) || asked > shortHold {
			t.Errorf("attempt %d: got %v with a RetryAfter of %s", i, err, asked)
		}
	}
	equal(t, 1, l.count("POST "+tokensPath))

	noError(t, l.SetPassword("samplecrd", "wrong"))
	c.refused.until = time.Now()
	_, err := c.ListNetworks(t.Context())
	noError(t, err)
}

func TestAKeystoneThatHangsDelaysAllCallersByOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		var asked atomic.Int32
		c := NewClient(Config{Auth: gophercloud.AuthOptions{IdentityEndpoint: "http://keystone.test/v3", Username: "u", Password: "p", DomainName: "d"}}, ClientOptions{})
		c.circuit.base = roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			time.Sleep(timeout)
			return nil, errTimeout
		})
		began := time.Now()
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				_, err := c.ListNetworks(t.Context())
				wantError(t, Error{Op: "authenticate", Reason: Unavailable, Message: "no answer in time"}, err)
			})
		}
		running.Wait()
		equal(t, timeout, time.Since(began))
		equal(t, int32(1), asked.Load())
	})
}

func TestKeystoneIsDownWhenTheTokenExpires(t *testing.T) {
	l, c, network := labWithNetwork(t)
	l.RevokeTokens()
	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == tokensPath {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		return false
	})
	_, err := c.GetNetwork(t.Context(), network.ID)
	wantError(t, Error{Op: "authenticate", Reason: Unavailable, Message: "EOF"}, err)
	l.answer(nil)
	_, err = c.GetNetwork(t.Context(), network.ID)
	noError(t, err)
}

// hang returns when the client has closed the connection. net/http notices that only after the
// body was read.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	cut := func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	hangs := func(_ http.ResponseWriter, r *http.Request) bool { hang(r); return true }
	hangHalfway := func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = w.Write([]byte(`{"networks": [`))
		_ = http.NewResponseController(w).Flush()
		hang(r)
		return true
	}
	cutHalfway := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"networks": [`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, test := range []struct {
		name    string
		tap     func(http.ResponseWriter, *http.Request) bool
		timeout time.Duration
		want    string
	}{
		{"the connection is cut", cut, time.Minute, "EOF"},
		{"the connection is cut in the middle of the answer", cutHalfway, time.Minute, "unexpected EOF"},
		{"the server hangs", hangs, 100 * time.Millisecond, "no answer in time"},
		{"the server hangs in the middle of the answer", hangHalfway, 100 * time.Millisecond, "no answer in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, embedded.Options{})
			c := l.client(t)
			_, err := c.ListNetworks(t.Context())
			noError(t, err)
			c.circuit.base.(*transport).timeout = test.timeout
			l.answer(test.tap)
			// The message must not change, or each failure would write the status.
			for range 2 {
				_, err := c.ListNetworks(t.Context())
				wantError(t, Error{Op: "list networks", Reason: Unavailable, Message: test.want}, err)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	l.http.Close()
	want := "dial " + strings.TrimPrefix(l.http.URL, "http://") + ": connect: connection refused"
	for range 2 {
		_, err := c.ListNetworks(t.Context())
		wantError(t, Error{Op: "authenticate", Reason: Unavailable, Message: want}, err)
	}
}

func TestTheCallerCancels(t *testing.T) {
	l := newLab(t, embedded.Options{})
	c := l.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		hang(r)
		return true
	})
	_, err := c.ListNetworks(ctx)
	wantError(t, Error{Op: "authenticate", Reason: Unavailable, Message: "context canceled"}, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not unwrap", err)
	}
}

func TestAMessageIsTheSameEachTime(t *testing.T) {
	local := func(port int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, 0, 9), Port: port} }
	remote := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 5000}
	for _, test := range []struct {
		name string
		err  func(n int) error // the n-th error
		want string
	}{
		{"the local port differs", func(n int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: local(40000 + n), Addr: remote, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
		}, "read 10.0.0.2:5000: read: connection reset by peer"},
		{"the name server is away, and the local port is in the error", func(n int) error {
			text := fmt.Sprintf("read udp 10.0.0.9:%d->10.0.0.2:53: i/o timeout", 40000+n)
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: text, Name: "keystone.example.com", Server: "10.0.0.2:53", IsTimeout: true, IsTemporary: true}}
		}, "lookup keystone.example.com: no answer from a name server"},
		{"the name is wrong", func(int) error {
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "keystone.example.com", Server: "10.0.0.2:53", IsNotFound: true}}
		}, "lookup keystone.example.com: no such host"},
		{"the certificate has expired, and the time is in the error", func(n int) error {
			return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: fmt.Sprintf("current time 2026-01-01T00:00:%02dZ is after 2025-12-31T00:00:00Z", n)}}
		}, "the server's certificate has expired or is not yet valid"},
		{"the certificate is for another host", func(int) error {
			return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}}
		}, "tls: failed to verify certificate: x509: certificate is not authorized to sign other certificates"},
		{"the deadline has passed", func(int) error { return context.DeadlineExceeded }, "no answer in time"},
		{"the server closed the connection", func(int) error { return io.EOF }, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for n := range 2 {
				err := wrap("list networks", &url.Error{Op: "Get", URL: "http://user:secret@keystone", Err: test.err(n)})
				wantError(t, Error{Op: "list networks", Reason: Unavailable, Message: test.want}, err)
			}
		})
	}
}

func TestAnAnswerThatIsNotFromNeutron(t *testing.T) {
	t.Parallel()
	operations := map[string]func(context.Context, *Client) error{
		"create network": func(ctx context.Context, c *Client) error {
			_, err := c.CreateNetwork(ctx, creating("x"))
			return err
		},
		"update network": func(ctx context.Context, c *Client) error {
			_, err := c.UpdateNetwork(ctx, &Network{ID: "n"}, renaming("x"))
			return err
		},
		"get network": func(ctx context.Context, c *Client) error {
			_, err := c.GetNetwork(ctx, "n")
			return err
		},
		"create subnet": func(ctx context.Context, c *Client) error {
			_, err := c.CreateSubnet(ctx, "n", creates("10.0.0.0/24", ""))
			return err
		},
		"update subnet": func(ctx context.Context, c *Client) error {
			_, err := c.UpdateSubnet(ctx, &Subnet{ID: "s"}, renamingSubnet("", "x"))
			return err
		},
	}
	success := map[string]int{http.MethodPost: 201, http.MethodPut: 200, http.MethodGet: 200}
	for _, test := range []struct {
		name string
		body string
		want string
	}{
		{"an HTML page", "<html>Please log in</html>", "invalid character '<' looking for beginning of value"},
		{"nothing", "", "EOF"},
		{"an empty object", "{}", notFromNeutron},
		{"null", `{"network": null, "subnet": null}`, notFromNeutron},
		{"a resource without an ID", `{"network": {"name": "x"}, "subnet": {"name": "x"}}`, notFromNeutron},
		{"an empty resource", `{"network": {}, "subnet": {}}`, notFromNeutron},
	} {
		for op, do := range operations {
			t.Run(op+" answered with "+test.name, func(t *testing.T) {
				l := newLab(t, embedded.Options{})
				l.answer(func(w http.ResponseWriter, r *http.Request) bool {
					return strings.HasPrefix(r.URL.Path, "/networking/v2.0/") && reply(w, success[r.Method], test.body)
				})
				wantError(t, Error{Op: op, Reason: Unavailable, Message: test.want}, do(t.Context(), l.client(t)))
			})
		}
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
