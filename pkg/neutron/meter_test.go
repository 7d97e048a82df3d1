// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// meter records what it counts.
type meter struct {
	mu       sync.Mutex
	requests []Request
	waits    []string
	failures int
}

func (m *meter) CountRequest(r Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, r)
}

func (m *meter) CountWait(what Wait, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, fmt.Sprint(what, " ", d))
}

func (m *meter) CountAuthenticationFailure() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
}

// counted returns the operation and the code of each request, and clears them.
func (m *meter) counted() (counted []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		counted = append(counted, r.Operation+" "+r.Code)
	}
	m.requests = nil
	return counted
}

func (m *meter) failed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures
}

func TestOperationsAreNamedByMethodAndPath(t *testing.T) {
	for _, test := range []struct{ method, path, want string }{
		{"POST", "/v3/auth/tokens", "authenticate"},
		{"POST", "/identity/v3/auth/tokens", "authenticate"},
		{"GET", "", "other"},
		{"GET", "/networking/v2.0/networks", "list networks"},
		{"POST", "/v2.0/networks", "create network"},
		{"GET", "/v2.0/networks/1", "get network"},
		{"PUT", "/v2.0/networks/1", "update network"},
		{"DELETE", "/v2.0/networks/1", "delete network"},
		{"GET", "/v2.0/ports", "list ports"},
		{"GET", "/v2.0/subnets", "list subnets"},
		{"DELETE", "/v2.0/networks", "other"},
		{"POST", "/v2.0/networks/1", "other"},
		{"PUT", "/v2.0/networks/1/tags", "set tags"},
		{"GET", "/v2.0/networks/1/tags", "other"},
		{"GET", "/v2.0/networks/../../v2.0/ports", "other"},
		{"GET", "/v2.0/routers", "list routers"},
		{"PUT", "/v2.0/routers/1/add_router_interface", "add router interface"},
		{"PUT", "/v2.0/routers/1/remove_router_interface", "remove router interface"},
		{"PUT", "/v2.0/subnets/1/add_router_interface", "other"},
		{"GET", "/v2.0/floatingips", "list floatingips"},
		{"GET", "/v2.0/quotas/1/details.json", "get quotas"},
		{"GET", "/v2.0/subnetpools", "list subnetpools"},
		{"GET", "/v2.0/rbac-policies", "list rbac policies"},
		{"POST", "/v2.0/rbac-policies", "create rbac policy"},
		{"DELETE", "/v2.0/rbac-policies/1", "delete rbac policy"},
		{"GET", "/v2.0/agents", "other"},
		{"BREW", "/v2.0/networks/1", "other"},
	} {
		equal(t, test.want, operationOf(test.method, test.path))
	}
}

func TestCodesAreFew(t *testing.T) {
	codes := map[string]bool{}
	for status := range 1000 {
		codes[codeOf(status)] = true
	}
	if len(codes) > 70 {
		t.Errorf("%d codes", len(codes))
	}
	for status, want := range map[int]string{200: "200", 299: "2xx", 404: "404", 409: "409", 499: "4xx", 503: "503", 599: "5xx", 600: "other", 999: "other", 0: "other"} {
		equal(t, want, codeOf(status))
	}
}

func TestRequestIDsAreWhatOpenStackMakes(t *testing.T) {
	const id = "req-11111111-2222-3333-4444-555555555555"
	for _, test := range []struct{ header, want string }{
		{id, id},
		{"", ""},
		{"req-11111111222233334444555555555555", ""},
		{"req-{11111111-2222-3333-4444-555555555555}", ""},
		{"req-" + strings.Repeat("x", 1<<20), ""},
	} {
		equal(t, test.want, requestIDOf(http.Header{"X-Openstack-Request-Id": {test.header}}))
	}
}

// The timeout of ten seconds includes the whole answer.
func TestEachRequestIsCountedOnceWithTheTimeThatItTook(t *testing.T) {
	status := func(status int) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			response, err := answering(2*time.Second, 0, 0)(r)
			response.StatusCode = status
			return response, err
		}
	}
	for _, test := range []struct {
		name    string
		base    roundTripper
		cancels time.Duration // after that time, the caller cancels the request
		want    Request
		err     error
	}{
		{"an answer", answering(2*time.Second, 3, time.Second), time.Hour, Request{Code: "200", Duration: 5 * time.Second}, nil},
		{"a refusal", status(409), time.Hour, Request{Code: "409", Duration: 2 * time.Second}, nil},
		{"no answer", answering(time.Hour, 0, 0), time.Hour, Request{Code: "timeout", Duration: 10 * time.Second}, errTimeout},
		{"an answer that stops halfway", answering(time.Second, 1, time.Hour), time.Hour, Request{Code: "timeout", Duration: 10 * time.Second}, errTimeout},
		{"an answer that arrives very slowly", answering(time.Second, 1000, time.Second), time.Hour, Request{Code: "timeout", Duration: 10 * time.Second}, errTimeout},
		{"no answer until it is cancelled", answering(time.Hour, 0, 0), time.Second, Request{Code: "canceled", Duration: time.Second}, context.Canceled},
		{"cancelled while it is read", answering(0, 1, time.Hour), time.Second, Request{Code: "canceled", Duration: time.Second}, context.Canceled},
		{"no connection", failing(errAway), time.Hour, Request{Code: "error"}, errAway},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				var sent context.Context
				tr := &transport{meter: m, limiter: rate.NewLimiter(rate.Every(time.Hour), 1), timeout: 10 * time.Second}
				tr.base = roundTripper(func(r *http.Request) (*http.Response, error) {
					sent = r.Context()
					return test.base(r)
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(test.cancels, cancel)
				if err := ask(ctx, tr); !errors.Is(err, test.err) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				test.want.Operation = "other"
				equal(t, []Request{test.want}, m.requests)
				if sent.Err() == nil {
					t.Error("the request's timer still runs")
				}
			})
		})
	}
}

func TestWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		c := &circuit{meter: m, turns: semaphore.NewWeighted(1), base: &transport{meter: m,
			base: answering(2*time.Second, 0, 0), limiter: rate.NewLimiter(rate.Every(10*time.Second), 1), timeout: time.Minute}}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { noError(t, ask(t.Context(), c)) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if err := ask(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the request did not wait for its turn: %v", err)
		}
		both.Wait()
		equal(t, true, c.turns.TryAcquire(1)) // it did not keep its turn
		equal(t, []string{"connection 0s", "rate 0s", "connection 1s", "connection 2s", "rate 8s"}, m.waits)
	})
}

// metered returns a client of the lab, and its meter.
func (l *lab) metered(t *testing.T) (*Client, *meter) {
	t.Helper()
	m := &meter{}
	return newTestClient(t, l.config(t), ClientOptions{Timeout: 10 * time.Second, Meter: m}), m
}

func TestRefusedCredentialsAreCounted(t *testing.T) {
	l := newLab(t, embedded.Options{})
	m := &meter{}
	c := newTestClient(t, l.configAs(t, "samplecrd", "wrong"), ClientOptions{Timeout: 10 * time.Second, Meter: m})
	// Only the first one makes a request. The counter grows all the same, so that an alert goes on.
	for i := range 3 {
		_, err := c.ListNetworks(t.Context())
		equal(t, Unauthenticated, ReasonOf(err))
		equal(t, "authenticate: "+unauthorized, err.Error())
		equal(t, i > 0, RetryAfterOf(err) > 0)
		equal(t, i+1, m.failed())
	}
	equal(t, 1, l.count("POST "+tokensPath))
}

func TestWhatIsAnAuthenticationFailure(t *testing.T) {
	all := func(w http.ResponseWriter, _ *http.Request) bool { return reply(w, 401, "") }
	for _, test := range []struct {
		name string
		// hasToken is whether Neutron has accepted a token, which is then revoked.
		hasToken bool
		tap      func(http.ResponseWriter, *http.Request) bool
		reason   ErrorReason
		want     int
	}{
		{"Keystone is away", false, replyTo("POST", tokensPath, 503, ""), Unavailable, 0},
		{"the token has expired", true, nil, "", 0},
		{"the token cannot be renewed", true, all, Unauthenticated, 1},
		{"Neutron refuses a new token", false, replyTo("GET", networksPath, 401, ""), Unauthenticated, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			c, m := l.metered(t)
			if test.hasToken {
				works(t, c)
				l.RevokeTokens()
				_, err := c.GetNetwork(t.Context(), "1")
				equal(t, NotFound, ReasonOf(err)) // Neutron has accepted the token all the same
				l.RevokeTokens()
			}
			l.answer(test.tap)
			_, err := c.ListNetworks(t.Context())
			equal(t, test.reason, ReasonOf(err))
			equal(t, test.want, m.failed())
		})
	}
}

func TestTheRequestIDIsNotInTheTextOfAnError(t *testing.T) {
	const id = "req-11111111-2222-3333-4444-555555555555"
	err := wrap("get network", gophercloud.ErrUnexpectedResponseCode{Actual: 404, Body: []byte(neutronBody("NetworkNotFound", "no")),
		ResponseHeader: http.Header{"X-Openstack-Request-Id": {id}}})
	equal(t, id, RequestIDOf(err))
	equal(t, "get network: no", err.Error())
}

// logged returns a context whose logger writes to the buffer, with that verbosity.
func logged(ctx context.Context, level int) (context.Context, *bytes.Buffer) {
	var buffer bytes.Buffer
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&buffer), textlogger.Verbosity(level)))), &buffer
}

func TestTheReconcileIDIsSentWithEachRequest(t *testing.T) {
	var sent []string
	c := keystone(t, "")
	c.transport.base = roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("X-Openstack-Request-Id"))
		return nil, errAway
	})
	_, _ = c.ListNetworks(ForSync(t.Context(), uuid.MustParse("AAAAAAAA-2222-3333-4444-555555555555")))
	_, _ = c.ListNetworks(t.Context())
	equal(t, []string{"req-aaaaaaaa-2222-3333-4444-555555555555", ""}, sent) // oslo.middleware requires lower case
}

func TestTheLogHasTheChangeAndItsRequestID(t *testing.T) {
	const id = "req-11111111-2222-3333-4444-555555555555"
	for _, test := range []struct {
		name, method, path, code, want string
		level                          int
	}{
		{"a change", "PUT", "/v2.0/subnets/1", "200", `"Changed Neutron" operation="update subnet" code="200" requestID="` + id + `" duration="1s"`, 0},
		{"a change that was refused", "POST", "/v2.0/networks", "409", `"Request to OpenStack failed" operation="create network" code="409"`, 2},
		{"a change without an answer", "POST", "/v2.0/networks", "timeout", `"Request to OpenStack failed" operation="create network" code="timeout"`, 2},
		{"a list", "GET", "/v2.0/networks", "200", `"Asked OpenStack" operation="list networks" code="200"`, 4},
		{"an authentication", "POST", "/v3/auth/tokens", "201", `"Asked OpenStack" operation="authenticate" code="201"`, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			for level := range 6 {
				ctx, log := logged(t.Context(), level)
				r := Request{operationOf(test.method, test.path), test.code, time.Second, id}
				r.log(ctx, test.method)
				if got := strings.Contains(log.String(), test.want); got != (level >= test.level) {
					t.Errorf("at level %d: %q", level, log)
				}
			}
		})
	}
}
