// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// lockout is what PCI DSS asks for: so many wrong passwords lock the account. Keystone counts them
// without a window, until one is right (lockout_failure_attempts).
const lockout = 6

// guarded is an embedded OpenStack for virtual time. It counts the log-ins, and those that Keystone
// refuses.
type guarded struct {
	*embedded.Server
	// status is the answer to a log-in in place of Keystone's; 0: Keystone answers.
	status         atomic.Int64
	mu             sync.Mutex
	tried, refused int
}

func newGuarded() *guarded {
	return &guarded{Server: embedded.New(embedded.Options{Projects: []embedded.Project{{Name: "samplecrd", ID: "project-1", Password: password}}})}
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	g.mu.Lock()
	defer g.mu.Unlock()
	isLogIn := r.Method == http.MethodPost && r.URL.Path == tokensPath
	if status := int(g.status.Load()); isLogIn && status != 0 {
		reply(answer, status, keystoneBody(status, unauthorized))
	} else {
		g.Server.ServeHTTP(answer, r)
	}
	if isLogIn {
		g.tried++
	}
	if isLogIn && answer.Code == http.StatusUnauthorized {
		g.refused++
	}
	return answer.Result(), nil
}

// counts returns how many log-ins were tried, and how many were refused.
func (g *guarded) counts() (tried, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tried, g.refused
}

// file is a clouds.yaml whose password can change.
type file struct{ config atomic.Pointer[Config] }

func withPassword(t *testing.T, password string) *file {
	t.Helper()
	f := &file{}
	f.write(t, password)
	return f
}

func (f *file) write(t *testing.T, password string) {
	t.Helper()
	l := lab{http: &httptest.Server{URL: "http://openstack.test"}}
	config := l.configAs(t, "samplecrd", password)
	f.config.Store(&config)
}

func (f *file) read() (Config, error) { return *f.config.Load(), nil }

// replica is a controller that works in a cloud: its Observer runs, and so do the syncs of many
// Networks that fail.
type replica struct {
	*Cloud
	stop func()
	// recoveries is how often OnRecovery was called.
	recoveries atomic.Int64
}

// run starts a replica. The file is that of the controller's own cloud; a Secret's cloud has none, and
// the content of the file is the Secret's.
func (g *guarded) run(t *testing.T, file *file, isSecret bool) *replica {
	t.Helper()
	config, err := file.read()
	noError(t, err)
	if !isSecret {
		config.reload = file.read
	}
	c := NewClient(config, ClientOptions{Timeout: time.Minute})
	c.transport.base = g
	r := &replica{Cloud: NewCloud("lab", c, owner.Cluster, 5*time.Minute)}
	r.Observer().OnRecovery(func() { r.recoveries.Add(1) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	r.stop = func() { cancel(); running.Wait() }
	running.Go(func() { r.Run(ctx) })
	for range 20 {
		running.Go(func() { syncForever(ctx, c) })
	}
	return r
}

// syncForever reads a network again and again, and waits as the work queue does.
func syncForever(ctx context.Context, c *Client) {
	for ctx.Err() == nil {
		_, err := c.GetNetwork(ctx, "1")
		delay := RetryAfterOf(err)
		if delay == 0 {
			delay = time.Minute
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// forEachKindOfCloud runs a test for the controller's own cloud and for a Secret's, in virtual time.
func forEachKindOfCloud(t *testing.T, test func(t *testing.T, isSecret bool)) {
	for name, isSecret := range map[string]bool{"own cloud": false, "cloud of a Secret": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, isSecret) })
		})
	}
}

// The process ends in the hour, and another one takes over.
func TestWrongCredentialsDoNotLockTheAccount(t *testing.T) {
	for _, takeover := range []time.Duration{time.Second, 10 * time.Minute, 59 * time.Minute} {
		t.Run("after "+takeover.String(), func(t *testing.T) {
			forEachKindOfCloud(t, func(t *testing.T, isSecret bool) {
				g := newGuarded()
				wrong := withPassword(t, "wrong")
				first := g.run(t, wrong, isSecret)
				time.Sleep(takeover)
				first.stop()
				alone, _ := g.counts()
				second := g.run(t, wrong, isSecret)
				time.Sleep(time.Hour - takeover)
				tried, _ := g.counts()
				if alone > 3 || tried-alone > 3 || tried >= lockout {
					t.Errorf("the first process tried them %d times, and both %d times in an hour", alone, tried)
				}
				time.Sleep(4 * time.Hour)
				second.stop()
				total, _ := g.counts()
				if later := total - tried; later < 4 || later > 3*4 {
					t.Errorf("%d attempts in the next 4 hours, want a few in an hour", later)
				}
			})
		})
	}
}

func TestChangedCredentialsAreTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded()
		file := withPassword(t, "wrong")
		r := g.run(t, file, false)
		time.Sleep(time.Hour)
		before, _ := g.counts()
		file.write(t, "wrong too")
		time.Sleep(time.Minute / 2)
		if _, refused := g.counts(); refused == before {
			t.Error("other wrong credentials were not tried")
		}
		equal(t, int64(0), r.recoveries.Load())
		file.write(t, password)
		time.Sleep(time.Minute / 2)
		equal(t, int64(1), r.recoveries.Load()) // all Networks are enqueued
		if _, err := r.Client().ListNetworks(t.Context()); err != nil {
			t.Error(err)
		}
		r.stop()
	})
}

// The Observer lists seldom: that a sync's credentials are refused must not wait for it.
func TestTheNetworksAreEnqueuedWhenCredentialsAreAccepted(t *testing.T) {
	forEachKindOfCloud(t, func(t *testing.T, isSecret bool) {
		g := newGuarded()
		right := withPassword(t, password)
		r := g.run(t, right, isSecret)
		time.Sleep(time.Minute)
		g.status.Store(401)
		g.RevokeTokens()
		_, err := r.Client().ListNetworks(t.Context())
		equal(t, Unauthenticated, ReasonOf(err))
		g.status.Store(0)
		time.Sleep(time.Minute)
		equal(t, int64(1), r.recoveries.Load())
		_, refused := g.counts()
		equal(t, 1, refused)
		r.stop()
	})
}

// Keystone refuses right credentials too, while something behind it is away.
func TestATemporaryRefusalEndsWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded()
		g.status.Store(401)
		r := g.run(t, withPassword(t, password), false)
		time.Sleep(10 * time.Second)
		g.status.Store(0)
		time.Sleep(50 * time.Second)
		equal(t, int64(1), r.recoveries.Load())
		r.stop()
	})
}

// Answers of a Keystone that is not well do not make the Client forget how often it was refused.
func TestAnOutageOfKeystoneDoesNotResetTheCountOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded()
		r := g.run(t, withPassword(t, "wrong"), false)
		time.Sleep(5 * time.Minute)
		_, before := g.counts()
		g.status.Store(503)
		time.Sleep(time.Hour)
		g.status.Store(0)
		time.Sleep(20 * time.Minute)
		_, after := g.counts()
		equal(t, before+1, after)
		r.stop()
	})
}
