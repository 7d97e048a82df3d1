// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// unhurried are Options whose token bucket never delays a key.
var unhurried = Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1e6, Burst: 1e6}

// oneGroup puts all keys into the same group.
func oneGroup[K comparable](K) string { return "" }

func between(t *testing.T, low, high, got time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s is not between %s and %s", got, low, high)
	}
}

func TestTheDelayOfAKeyDoublesUpToMaxDelay(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[string])
	for _, least := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		least *= time.Second
		between(t, least, least*12/10, limiter.When("a"))
	}
	// The delay does not overflow.
	for range 1000 {
		between(t, time.Minute, 72*time.Second, limiter.When("a"))
	}
}

func TestDelaysHaveJitter(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[int])
	distinct := map[time.Duration]bool{}
	for key := range 1000 {
		delay := limiter.When(key)
		between(t, time.Second, 1200*time.Millisecond, delay)
		distinct[delay] = true
	}
	if len(distinct) < 900 {
		t.Errorf("1000 keys have only %d different delays", len(distinct))
	}
}

func TestForgetResetsTheDelayOfAKey(t *testing.T) {
	limiter := NewLimiter(unhurried, oneGroup[string])
	for range 5 {
		limiter.When("a")
	}
	limiter.Forget("a")
	if n := limiter.NumRequeues("a"); n != 0 {
		t.Errorf("got %d requeues, want 0", n)
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("a"))
}

func TestTheTokenBucketDelaysAllKeysOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 2, Burst: 3}, oneGroup[int])
		for key := range 3 {
			between(t, time.Millisecond, 2*time.Millisecond, limiter.When(key))
		}
		// After the burst, one key every 500 ms.
		for key := range 10 {
			want := time.Duration(key+1) * 500 * time.Millisecond
			between(t, want, want, limiter.When(100+key))
		}
		// The longer of the two delays applies.
		time.Sleep(time.Hour)
		for range 20 {
			limiter.When(7)
		}
		between(t, time.Minute, 72*time.Second, limiter.When(7))
	})
}

func TestEachGroupHasItsOwnTokenBucket(t *testing.T) {
	options := Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 1, Burst: 1}
	limiter := NewLimiter(options, func(key string) string { return key[:1] })
	for i := range 100 {
		limiter.When(fmt.Sprint("bad", i))
	}
	between(t, time.Second, 1200*time.Millisecond, limiter.When("good"))
}

// Each of the two kinds has the whole rate, and a key that has waited for one does not hold a turn of the other.
func TestRetriesWithAKnownDelayDoNotDelayThoseWithABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 1, Burst: 1}, oneGroup[int])
		between(t, time.Minute, 72*time.Second, limiter.After(0, time.Minute))
		for key := range 100 {
			between(t, time.Duration(key+1)*time.Second, max(72*time.Second, time.Duration(key+1)*time.Second), limiter.After(1+key, time.Minute))
		}
		between(t, time.Millisecond, 2*time.Millisecond, limiter.When(1000))
		between(t, time.Second, time.Second, limiter.When(1)) // gives back the turn in a second, and has the next one here
		between(t, time.Minute, 72*time.Second, limiter.After(1001, time.Minute))
		if turn := limiter.turns[1001].at; time.Until(turn) != time.Second {
			t.Errorf("the turn is in %s, want the one that was given back", time.Until(turn))
		}
	})
}

func TestADroppedGroupStartsWithAFullTokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := Options{BaseDelay: time.Millisecond, MaxDelay: time.Minute, QPS: 0.001, Burst: 1}
		limiter := NewLimiter(options, oneGroup[int])
		limiter.When(1)
		between(t, 1000*time.Second, 1000*time.Second, limiter.When(2)) // the bucket is empty
		limiter.Drop("")
		between(t, time.Millisecond, 2*time.Millisecond, limiter.When(3))
	})
}

// production are the default Options.
var production = Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 10, Burst: 100}

// What enqueues all keys, such as the recovery of Neutron, overtakes the retries that they wait
// for.
func TestRetriesThatAreOvertakenLeaveNoDebt(t *testing.T) {
	for _, test := range []struct {
		name string
		// syncs are what happens to each key after a recovery, before the next one has its turn.
		syncs func(*Limiter[int, string], int)
		// most is the longest delay of the first failure of another key.
		most time.Duration
	}{
		{"each sync fails", func(l *Limiter[int, string], key int) { l.When(key) }, 20 * time.Second},
		{"each sync fails and succeeds then", func(l *Limiter[int, string], key int) { l.When(key); l.Forget(key) }, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := NewLimiter(production, oneGroup[int])
				for range 30 {
					for key := range 200 {
						test.syncs(limiter, key)
					}
					time.Sleep(time.Second) // until the next recovery
				}
				between(t, time.Second, test.most, limiter.When(-1))
			})
		})
	}
}

// Whatever happens to the keys: of the retries that nothing overtakes, there are never more than
// the token bucket allows.
func TestTurnsThatAreGivenBackDoNotExceedTheRate(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			options := Options{BaseDelay: time.Nanosecond, MaxDelay: time.Nanosecond, QPS: 10, Burst: 5}
			limiter := NewLimiter(options, oneGroup[int])
			turns := map[int]time.Time{} // of the keys that wait
			var retries []time.Time
			for range 2000 {
				time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
				for key, turn := range turns {
					if !turn.After(time.Now()) {
						retries = append(retries, turn)
						delete(turns, key)
					}
				}
				switch key := random.IntN(200); random.IntN(3) {
				case 0:
					limiter.Forget(key)
					delete(turns, key)
				default:
					turns[key] = time.Now().Add(limiter.When(key))
				}
			}
			slices.SortFunc(retries, time.Time.Compare)
			if len(retries) < 500 {
				t.Fatalf("seed %d: only %d retries", seed, len(retries))
			}
			for i, from := range retries {
				for j, to := range retries[i:] {
					if allowed := float64(options.Burst) + options.QPS*to.Sub(from).Seconds() + 0.01; float64(j+1) > allowed {
						t.Fatalf("seed %d: %d retries in %s", seed, j+1, to.Sub(from))
					}
				}
			}
		})
	}
}

func TestAKeyThatChangesItsGroupGivesItsTurnBackToTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := "a"
		limiter := NewLimiter(Options{BaseDelay: time.Second, MaxDelay: time.Minute, QPS: 0.01, Burst: 1}, func(key string) string {
			if key == "moves" {
				return group
			}
			return key[:1]
		})
		limiter.When("a1")
		between(t, 100*time.Second, 100*time.Second, limiter.When("moves"))
		group = "b"
		between(t, 2*time.Second, 2400*time.Millisecond, limiter.When("moves")) // b has a bucket of its own
		between(t, 100*time.Second, 100*time.Second, limiter.When("a2"))
		between(t, 100*time.Second, 100*time.Second, limiter.When("b1"))
	})
}

// A key that nothing retries any more is forgotten by the queue.
func TestTheLimiterKeepsNothingOfForgottenKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(production, oneGroup[int])
		for key := range 1000 {
			limiter.When(key)
		}
		for key := range 1000 {
			limiter.Forget(key)
		}
		time.Sleep(time.Hour)
		limiter.When(-1)
		limiter.Forget(-1)
		if len(limiter.turns)+len(limiter.buckets[""].backOff.unused) > 0 {
			t.Errorf("it holds %d turns, and %d that were given back", len(limiter.turns), len(limiter.buckets[""].backOff.unused))
		}
	})
}
