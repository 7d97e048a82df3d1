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
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

const unbounded = 1 << 30

// newCircuit returns a circuit that lets that many requests pass at the same time.
func newCircuit(turns int64, base http.RoundTripper) *circuit {
	return &circuit{base: base, turns: semaphore.NewWeighted(turns), meter: unmetered{}}
}

func statusOnly(status int) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}
}

func failing(err error) roundTripper {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func try(t *testing.T, c *circuit) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	return err
}

func TestAnUnavailableNeutronGetsOneRequestPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		var asked atomic.Int64
		c := newCircuit(unbounded, roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			return nil, refused
		}))
		const minute = time.Minute
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for end := time.Now().Add(minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if err := try(t, c); !errors.Is(err, refused) {
						t.Errorf("got %v, want the last failure", err)
					}
				}
			})
		}
		workers.Wait()
		// The requests that were under way at the fifth failure had passed too.
		if got := asked.Load(); got < 55 || got > 60+enough+8 {
			t.Errorf("asked %d times in a minute, want about once a second", got)
		}
	})
}

func TestANeutronThatHangsHoldsUpOnlyOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		c := newCircuit(unbounded, roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(timeout)
			return nil, errTimeout
		}))
		var held atomic.Int64 // calls that took time after the circuit opened
		var workers sync.WaitGroup
		began := time.Now()
		for range 8 {
			workers.Go(func() {
				for time.Since(began) < 10*time.Minute {
					asked := time.Now()
					_ = try(t, c)
					if asked.Sub(began) > timeout && time.Since(asked) > 0 {
						held.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		workers.Wait()
		// One after the other, each for the whole timeout.
		if got := held.Load(); got < 15 || got > 20 {
			t.Errorf("callers were held up %d times in nine and a half minutes, want once in %s", got, timeout)
		}
	})
}

func TestRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns, each = 3, time.Second
		var underWay, most atomic.Int64
		c := newCircuit(turns, roundTripper(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), underWay.Add(1)))
			time.Sleep(each)
			underWay.Add(-1)
			return statusOnly(http.StatusOK).RoundTrip(r)
		}))
		began := time.Now()
		var workers sync.WaitGroup
		for range 4 * turns {
			workers.Go(func() {
				if err := try(t, c); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		if got := most.Load(); got != turns {
			t.Errorf("%d requests were under way at the same time, want %d", got, turns)
		}
		if got := time.Since(began); got != 4*each {
			t.Errorf("it took %s, want %s", got, 4*each)
		}
	})
}

func TestACallerThatHasWaitedMakesNoRequestIfTheCircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		var asked atomic.Int64
		c := newCircuit(enough, roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			time.Sleep(timeout)
			return nil, errTimeout
		}))
		began := time.Now()
		var workers sync.WaitGroup
		for range 100 {
			workers.Go(func() {
				if err := try(t, c); !errors.Is(err, errTimeout) {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		// Between the first and the last of those failures, others got their turns.
		if got := asked.Load(); got < enough || got >= 2*enough {
			t.Errorf("%d requests, want at least %d, and fewer than twice as many", got, enough)
		}
		if got := time.Since(began); got > 2*timeout {
			t.Errorf("it took %s, want at most %s", got, 2*timeout)
		}
	})
}

func TestTheWaitForATurnEndsWithItsContext(t *testing.T) {
	c := newCircuit(1, statusOnly(http.StatusOK))
	if err := c.turns.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
	if since, isOutage := c.away(); !since.IsZero() || isOutage {
		t.Error("Neutron is considered away")
	}
	// The request did not keep its turn.
	c.turns.Release(1)
	if err := try(t, c); err != nil {
		t.Error(err)
	}
}

// A panic ends one sync: see Controller.recoverSync. Others must not wait for its turn.
func TestARequestThatPanicsGivesItsTurnBack(t *testing.T) {
	isFirst := true
	c := newCircuit(1, roundTripper(func(r *http.Request) (*http.Response, error) {
		if isFirst {
			isFirst = false
			panic("broken")
		}
		return statusOnly(http.StatusOK).RoundTrip(r)
	}))
	func() {
		defer func() { _ = recover() }()
		_ = try(t, c)
	}()
	if !c.turns.TryAcquire(1) {
		t.Fatal("the turn is lost")
	}
	c.turns.Release(1)
	if err := try(t, c); err != nil {
		t.Errorf("the next request: %v", err)
	}
	if _, isOutage := c.away(); isOutage {
		t.Error("a panic counts as an outage of Neutron")
	}
}

func TestBodiesThatAreCutShortOpenTheCircuit(t *testing.T) {
	c := newCircuit(unbounded, roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(errTimeout))}, nil
	}))
	for i := range enough + 1 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.RoundTrip(request)
		if (err != nil) != (i == enough) {
			t.Fatalf("request %d: %v", i, err)
		}
		if err == nil {
			_, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
			_ = response.Body.Close() // counts once
		}
	}
	if c.underWay != 0 {
		t.Errorf("%d requests are under way", c.underWay)
	}
}

func TestOpenedIsCalledOncePerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, dead := 0, failing(errors.New("connection refused"))
		c := newCircuit(unbounded, dead)
		c.opened = func() { calls++ }
		for _, want := range []int{1, 2} { // once per outage
			for i := range enough + 10 {
				if _ = try(t, c); i < enough-1 && calls == want {
					t.Errorf("called after %d failures", i+1)
				}
				time.Sleep(probing)
			}
			equal(t, want, calls)
			c.base = statusOnly(http.StatusOK)
			noError(t, try(t, c))
			c.base = dead
		}
	})
}

func TestOneGoodAnswerClosesTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(unbounded, failing(errors.New("connection refused")))
		began := time.Now()
		for range enough + 3 {
			_ = try(t, c)
		}
		if since, isOutage := c.away(); !isOutage || !since.Equal(began) {
			t.Errorf("away since %v, an outage: %v, want one since %v", since, isOutage, began)
		}
		c.base = statusOnly(http.StatusNotFound) // about the request, so a good answer
		time.Sleep(probing)
		for i := range 20 {
			if err := try(t, c); err != nil {
				t.Errorf("request %d after the recovery: %v", i, err)
			}
		}
		if since, isOutage := c.away(); !since.IsZero() || isOutage {
			t.Error("Neutron is still considered away")
		}
	})
}

func TestSeveralFailuresInARowAreAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := statusOnly(http.StatusOK), statusOnly(http.StatusInternalServerError)
		c := newCircuit(unbounded, nil)
		expect := func(what string, wantSince time.Time, want bool) {
			t.Helper()
			if since, isOutage := c.away(); !since.Equal(wantSince) || isOutage != want {
				t.Errorf("%s: away since %v, an outage: %v; want %v, %v", what, since, isOutage, wantSince, want)
			}
		}
		send := func(answer http.RoundTripper) {
			c.base = answer
			time.Sleep(probing) // so that the circuit lets it through
			_ = try(t, c)
		}
		expect("nothing was sent", time.Time{}, false)
		send(bad)
		first := time.Now()
		expect("Neutron has never answered", first, true)
		send(bad)
		expect("Neutron has never answered, twice", first, true)
		for range 2 { // outages
			send(good)
			expect("a good answer", time.Time{}, false)
			var began time.Time
			for i := range enough + 2 {
				send(bad)
				if i == 0 {
					began = time.Now()
				}
				expect("a failure", began, i >= enough-1)
			}
		}
	})
}

func TestFailuresThatAreNotInARowDoNotOpenTheCircuit(t *testing.T) {
	c := newCircuit(unbounded, nil)
	for range 10 * enough {
		c.base = statusOnly(http.StatusInternalServerError)
		_ = try(t, c)
		c.base = statusOnly(http.StatusOK)
		if err := try(t, c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACancelledRequestIsNotAFailure(t *testing.T) {
	c := newCircuit(unbounded, roundTripper(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * enough {
		if _, err := c.RoundTrip(request); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if since, isOutage := c.away(); !since.IsZero() || isOutage {
		t.Error("Neutron is considered away")
	}
}

func TestServerErrorsOpenTheCircuit(t *testing.T) {
	c := newCircuit(unbounded, statusOnly(http.StatusServiceUnavailable))
	for range enough {
		if err := try(t, c); err != nil {
			t.Fatalf("got %v, want the answer", err)
		}
	}
	if err := try(t, c); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want the status of the last answer", err)
	}
}

// One object can fail for as long as it exists. See TestNetworksThatFailForEverCostTheOthersNothing.
func TestOnlyReadsAndKeystonesAnswersTellThatNeutronFails(t *testing.T) {
	for _, test := range []struct {
		method, path string
		want         bool
	}{
		{http.MethodPost, "/networking/v2.0/networks", false},
		{http.MethodPut, "/networking/v2.0/networks/n", false},
		{http.MethodPut, "/networking/v2.0/routers/r/add_router_interface", false},
		{http.MethodDelete, "/networking/v2.0/subnets/s", false},
		{http.MethodGet, "/networking/v2.0/networks", true},
		{http.MethodGet, "/networking/v2.0/networks/n", true},
		{http.MethodPost, "/identity/v3/auth/tokens", true},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			c := newCircuit(unbounded, statusOnly(http.StatusServiceUnavailable))
			for range 2 * enough {
				request, err := http.NewRequestWithContext(t.Context(), test.method, "http://127.0.0.1"+test.path, nil)
				noError(t, err)
				if response, err := c.RoundTrip(request); err == nil {
					_ = response.Body.Close()
				}
			}
			_, isOutage := c.away()
			equal(t, test.want, isOutage)
			equal(t, 0, c.underWay)
		})
	}
}

func TestAFailedChangeDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(unbounded, failing(errors.New("connection refused")))
		for range enough {
			_ = try(t, c)
		}
		c.base = statusOnly(http.StatusServiceUnavailable)
		time.Sleep(probing)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://127.0.0.1/networking/v2.0/networks/n", nil)
		noError(t, err)
		response, err := c.RoundTrip(request)
		noError(t, err)
		noError(t, response.Body.Close())
		if _, isOutage := c.away(); !isOutage {
			t.Error("the outage is over")
		}
		// It was the probe of this second.
		if err := try(t, c); !errors.As(err, new(unsentError)) {
			t.Errorf("got %v", err)
		}
	})
}
