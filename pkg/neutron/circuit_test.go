// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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

// together calls f that many times at the same time, and waits for all calls.
func together(times int, f func()) {
	var running sync.WaitGroup
	for range times {
		running.Go(f)
	}
	running.Wait()
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
	return tryAs(t.Context(), c, http.MethodGet, "/")
}

// hangs counts the requests, and answers none of them.
func hangs(timeout time.Duration, asked *atomic.Int64) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		time.Sleep(timeout)
		return nil, errTimeout
	}
}

// tryAs makes a request, and reads and closes the answer. It closes the body twice, which counts once.
func tryAs(ctx context.Context, c *circuit, method, path string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, nil)
	if err != nil {
		return err
	}
	response, err := c.RoundTrip(request)
	if err == nil {
		_, _ = io.ReadAll(response.Body)
		_ = response.Body.Close()
		_ = response.Body.Close()
	}
	return err
}

// wantAway fails the test unless that is what the circuit says of Neutron.
func wantAway(t *testing.T, c *circuit, since time.Time, isOutage bool) {
	t.Helper()
	if gotSince, got := c.away(); !gotSince.Equal(since) || got != isOutage {
		t.Errorf("away since %v, an outage: %v; want %v, %v", gotSince, got, since, isOutage)
	}
}

func TestAnUnavailableNeutronGetsOneRequestPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := newCircuit(unbounded, roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			return nil, errAway
		}))
		together(8, func() {
			for range 600 {
				if err := try(t, c); !errors.Is(err, errAway) {
					t.Errorf("got %v, want the last failure", err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		// The requests that were under way at the fifth failure had passed too.
		if got := asked.Load(); got < 55 || got > 60+enough+8 {
			t.Errorf("asked %d times in a minute, want about once a second", got)
		}
	})
}

func TestANeutronThatHangsHoldsUpOnlyOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		c := newCircuit(unbounded, hangs(timeout, new(atomic.Int64)))
		var held atomic.Int64 // calls that took time after the circuit opened
		began := time.Now()
		together(8, func() {
			for time.Since(began) < 10*time.Minute {
				asked := time.Now()
				_ = try(t, c)
				if asked.Sub(began) > timeout && time.Since(asked) > 0 {
					held.Add(1)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		// One after the other, each for the whole timeout.
		if got := held.Load(); got < 15 || got > 20 {
			t.Errorf("callers were held up %d times in nine and a half minutes, want once in %s", got, timeout)
		}
	})
}

func TestACallerThatHasWaitedMakesNoRequestIfTheCircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		var asked atomic.Int64
		c := newCircuit(enough, hangs(timeout, &asked))
		began := time.Now()
		together(100, func() {
			if err := try(t, c); !errors.Is(err, errTimeout) {
				t.Error(err)
			}
		})
		// Between the first and the last of those failures, others got their turns.
		if got := asked.Load(); got < enough || got >= 2*enough {
			t.Errorf("%d requests, want at least %d, and fewer than twice as many", got, enough)
		}
		if got := time.Since(began); got > 2*timeout {
			t.Errorf("it took %s, want at most %s", got, 2*timeout)
		}
	})
}

// A panic ends one sync: see retry.Recover. Others must not wait for its turn.
func TestARequestThatPanicsGivesItsTurnBack(t *testing.T) {
	c := newCircuit(1, roundTripper(func(*http.Request) (*http.Response, error) { panic("broken") }))
	func() {
		defer func() { _ = recover() }()
		_ = try(t, c)
	}()
	if !c.turns.TryAcquire(1) {
		t.Fatal("the turn is lost")
	}
	c.turns.Release(1)
	wantAway(t, c, time.Time{}, false) // it is no failure of Neutron
	c.base = statusOnly(http.StatusOK)
	noError(t, try(t, c))
}

func TestBodiesThatAreCutShortOpenTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(unbounded, roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(errTimeout))}, nil
		}))
		for range enough {
			noError(t, try(t, c))
		}
		if err := try(t, c); !errors.Is(err, errTimeout) {
			t.Errorf("got %v, want the last failure", err)
		}
		equal(t, 0, c.underWay)
	})
}

func TestOneGoodAnswerClosesTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(unbounded, statusOnly(http.StatusServiceUnavailable))
		began := time.Now()
		for range enough {
			noError(t, try(t, c))
		}
		if err := try(t, c); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("got %v, want the status of the last answer", err)
		}
		wantAway(t, c, began, true)
		c.base = statusOnly(http.StatusNotFound) // about the request, so a good answer
		time.Sleep(probing)
		for range 20 {
			noError(t, try(t, c))
		}
		wantAway(t, c, time.Time{}, false)
	})
}

func TestSeveralFailuresInARowAreAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := statusOnly(http.StatusOK), statusOnly(http.StatusInternalServerError)
		opened, c := 0, newCircuit(unbounded, nil)
		c.opened = func() { opened++ }
		send := func(answer http.RoundTripper) {
			c.base = answer
			time.Sleep(probing) // so that the circuit lets it through
			_ = try(t, c)
		}
		wantAway(t, c, time.Time{}, false)
		send(bad)
		first := time.Now()
		wantAway(t, c, first, true) // Neutron has never answered
		send(bad)
		wantAway(t, c, first, true)
		for outage := range 2 {
			send(good)
			wantAway(t, c, time.Time{}, false)
			for i := range enough + 2 {
				send(bad)
				if i == 0 {
					first = time.Now()
				}
				isOutage := i >= enough-1
				wantAway(t, c, first, isOutage)
				equal(t, isOutage, opened == outage+1) // once per outage
			}
		}
	})
}

func TestACancelledRequestIsNotAFailure(t *testing.T) {
	c := newCircuit(unbounded, nil)
	for range 2 * enough {
		ctx, cancel := context.WithCancel(t.Context())
		c.base = roundTripper(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, ctx.Err()
		})
		if err := tryAs(ctx, c, http.MethodGet, "/"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	wantAway(t, c, time.Time{}, false)
}

// One object can fail for as long as it exists. See TestNetworksThatFailForEverCostTheOthersNothing.
func TestOnlyReadsAndKeystonesAnswersTellThatNeutronFails(t *testing.T) {
	for _, test := range []struct {
		method, path string
		want         bool
	}{
		{http.MethodPost, "/networking/v2.0/networks", false},
		{http.MethodPut, "/networking/v2.0/routers/r/add_router_interface", false},
		{http.MethodDelete, "/networking/v2.0/subnets/s", false},
		{http.MethodGet, "/networking/v2.0/networks", true},
		{http.MethodPost, "/identity/v3/auth/tokens", true},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			c := newCircuit(unbounded, statusOnly(http.StatusServiceUnavailable))
			for range 2 * enough {
				_ = tryAs(t.Context(), c, test.method, test.path)
			}
			_, isOutage := c.away()
			equal(t, test.want, isOutage)
			equal(t, 0, c.underWay)
		})
	}
}

func TestAFailedChangeDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(unbounded, failing(errAway))
		began := time.Now()
		for range enough {
			_ = try(t, c)
		}
		c.base = statusOnly(http.StatusServiceUnavailable)
		time.Sleep(probing)
		noError(t, tryAs(t.Context(), c, http.MethodDelete, "/networking/v2.0/networks/n"))
		wantAway(t, c, began, true)
		// It was the probe of this second.
		if err := try(t, c); !errors.As(err, new(unsentError)) {
			t.Errorf("got %v", err)
		}
	})
}
