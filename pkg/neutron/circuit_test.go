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

func TestADeadNeutronIsAskedOnceASecondHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		var asked atomic.Int64
		c := &circuit{meter: unmetered{}, base: roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			return nil, refused
		})}
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
		// Those that were under way when the fifth one failed got through, too.
		if got := asked.Load(); got < 55 || got > 60+enough+8 {
			t.Errorf("asked %d times in a minute, want about once a second", got)
		}
	})
}

func TestANeutronThatHangsHoldsUpOneCallerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		c := &circuit{meter: unmetered{}, base: roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(timeout)
			return nil, errTimeout
		})}
		var held atomic.Int64 // callers for more than an instant, after the circuit has opened
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
		// One after the other, each for the whole time-out.
		if got := held.Load(); got < 15 || got > 20 {
			t.Errorf("callers were held up %d times in nine and a half minutes, want once in %s", got, timeout)
		}
	})
}

func TestRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns, each = 3, time.Second
		var underWay, most atomic.Int64
		c := &circuit{meter: unmetered{}, turns: semaphore.NewWeighted(turns), base: roundTripper(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), underWay.Add(1)))
			time.Sleep(each)
			underWay.Add(-1)
			return statusOnly(http.StatusOK).RoundTrip(r)
		})}
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

func TestWhoWaitsForATurnDoesNotAskADeadNeutron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		var asked atomic.Int64
		c := &circuit{meter: unmetered{}, turns: semaphore.NewWeighted(enough), base: roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			time.Sleep(timeout)
			return nil, errTimeout
		})}
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
		// Between the first of those failures and the last, others got their turns.
		if got := asked.Load(); got < enough || got >= 2*enough {
			t.Errorf("asked %d times, want %d, and fewer than as many again", got, enough)
		}
		if got := time.Since(began); got > 2*timeout {
			t.Errorf("it took %s, want no more than %s", got, 2*timeout)
		}
	})
}

func TestTheWaitForATurnEndsWithItsContext(t *testing.T) {
	c := &circuit{meter: unmetered{}, turns: semaphore.NewWeighted(1), base: statusOnly(http.StatusOK)}
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
		t.Errorf("got %v, want that the caller has gone away", err)
	}
	if _, away := c.away(); away {
		t.Error("Neutron is taken to be away")
	}
	// It has not taken the turn along.
	c.passOn()
	if err := try(t, c); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatDoNotComeToTheirEndOpenTheCircuit(t *testing.T) {
	c := &circuit{meter: unmetered{}, base: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(errTimeout))}, nil
	})}
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
			_ = response.Body.Close() // it counts once
		}
	}
	if c.underWay != 0 {
		t.Errorf("%d requests are under way", c.underWay)
	}
}

func TestADeadNeutronIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		c := &circuit{meter: unmetered{}, base: failing(errors.New("connection refused")), opened: func() { told++ }}
		for _, want := range []int{1, 2} { // once for each time that it dies
			for i := range enough + 10 {
				if _ = try(t, c); i < enough-1 && told == want {
					t.Errorf("told after %d failures", i+1)
				}
				time.Sleep(probing)
			}
			equal(t, want, told)
			c.succeeded()
		}
	})
}

func TestOneGoodAnswerLetsAllThroughAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &circuit{meter: unmetered{}, base: failing(errors.New("connection refused"))}
		began := time.Now()
		for range enough + 3 {
			_ = try(t, c)
		}
		if since, away := c.away(); !away || !since.Equal(began) {
			t.Errorf("away since %v: %v, want since %v", since, away, began)
		}
		c.base = statusOnly(http.StatusNotFound) // an answer about the request, and so a good one
		time.Sleep(probing)
		for i := range 20 {
			if err := try(t, c); err != nil {
				t.Errorf("request %d after the recovery: %v", i, err)
			}
		}
		if _, away := c.away(); away {
			t.Error("Neutron is still held to be away")
		}
	})
}

func TestFailuresThatAreNotInARowOpenNothing(t *testing.T) {
	c := &circuit{meter: unmetered{}}
	for range 10 * enough {
		c.base = statusOnly(http.StatusInternalServerError)
		_ = try(t, c)
		c.base = statusOnly(http.StatusOK)
		if err := try(t, c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACallerThatGoesAwayIsNoFailureOfNeutron(t *testing.T) {
	c := &circuit{meter: unmetered{}, base: roundTripper(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() })}
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
	if _, away := c.away(); away {
		t.Error("Neutron is held to be away")
	}
}

func TestAnswersThatSayNothingOfTheRequestOpenTheCircuit(t *testing.T) {
	c := &circuit{meter: unmetered{}, base: statusOnly(http.StatusServiceUnavailable)}
	for range enough {
		if err := try(t, c); err != nil {
			t.Fatalf("got %v, want the answer", err)
		}
	}
	if err := try(t, c); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want what the last answer was", err)
	}
}
