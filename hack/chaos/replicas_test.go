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

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The parameters of the election, and what the replicas may take beyond them.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 100 * time.Millisecond
	allowance     = 2 * time.Second
	// patience is longer than the next leader needs until it works, with all faults.
	patience = 2 * time.Minute
)

var electionFlags = []string{
	"-leader-elect=true",
	"-leader-elect-lease-duration=" + leaseDuration.String(),
	"-leader-elect-renew-deadline=" + renewDeadline.String(),
	"-leader-elect-retry-period=" + retryPeriod.String(),
}

// The plans with replicas.
var (
	shortWithReplicas = plan{
		seed: 1, seeds: 1, networks: 40, replicas: 3, troubles: len(troubles), edits: 2, faults: 20, pageLimit: 100,
		neutronTimeout: 2 * time.Second, patience: 90 * time.Second, bound: 10 * time.Minute,
	}
	longWithReplicas = plan{
		seed: 1, seeds: 5, networks: 150, replicas: 3, troubles: 8 * len(troubles), edits: 3, faults: 20, restarts: 1, restores: 1, pageLimit: 150,
		neutronTimeout: 2 * time.Second, patience: 2 * time.Minute, bound: 30 * time.Minute,
	}
)

func TestChaosReplicas(t *testing.T) { shortWithReplicas.adjusted().testBoth(t) }

func TestChaosReplicasLong(t *testing.T) {
	needLong(t)
	longWithReplicas.adjusted().testBoth(t)
}

// testBoth runs the plan without other faults, which has time limits, and with them.
func (p plan) testBoth(t *testing.T) {
	t.Helper()
	alone := p
	alone.faults, alone.restarts = 0, 0
	alone.test(t, p)
}

// controller is the controller of one cluster: one process, or several of which one leads.
type controller struct {
	cluster, namespace string
	replicas           []*replica
	ledger             ledger
	record             *record
	witness            witness
	changes            changes
	tally              *tally
	// endNamespace is that of the world.
	endNamespace func(context.Context, *controller, *term) error
	// ofOneNamespace reports whether it has the flag -namespace.
	ofOneNamespace bool
	// strict reports whether nothing except the troubles can delay the next leader.
	strict bool
	// troubles is the number of remaining troubles.
	troubles atomic.Int32

	mu         sync.Mutex
	violations violations
}

// keepRunning starts the processes. The returned function waits until all of them have
// ended, after ctx is done.
func (c *controller) keepRunning(ctx context.Context) (wait func() error) {
	errs := make([]error, len(c.replicas))
	var group sync.WaitGroup
	for i, r := range c.replicas {
		group.Go(func() { errs[i] = r.keepRunning(ctx) })
	}
	return func() error {
		group.Wait()
		return errors.Join(errs...)
	}
}

func (c *controller) heal() {
	for _, r := range c.replicas {
		r.proxy.healed.Store(true)
	}
}

// killAll kills all processes, and returns when they have ended.
func (c *controller) killAll() {
	for _, r := range c.replicas {
		r.kill()
	}
}

func (c *controller) killsLeft() int {
	left := int(c.troubles.Load())
	for _, r := range c.replicas {
		left += r.proxy.killsLeft()
	}
	return left
}

func (c *controller) looks() (n int32) {
	for _, r := range c.replicas {
		n += r.proxy.looks.Load()
	}
	return n
}

// hasLogged reports whether a running process has logged a line with all of the texts.
func (c *controller) hasLogged(texts ...string) bool {
	for _, r := range c.replicas {
		for line := range strings.Lines(r.now().process.Log.String()) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return true
			}
		}
	}
	return false
}

// syncs returns how often the running processes have synced.
func (c *controller) syncs() (n int) {
	for _, r := range c.replicas {
		n += r.now().process.Log.Count(`"Syncing"`)
	}
	return n
}

func (c *controller) logins() (n int32) {
	for _, r := range c.replicas {
		n += r.proxy.logins.Load()
	}
	return n
}

// changes are the requests that changed something, on either side. Events and leases are not among
// them.
type changes struct {
	mu  sync.Mutex
	all []string
}

func (c *changes) add(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, request)
}

func (c *changes) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

func (c *controller) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations.add(c.cluster+": "+format, args...)
}

// found returns the violations at any time. It is called after the processes have ended.
func (c *controller) found(intents *intents) violations {
	found := append(c.violations, c.witness.found(intents, c.tally)...)
	for _, r := range c.replicas {
		found = append(found, r.found()...)
	}
	if len(c.replicas) > 1 {
		found = append(found, c.record.found()...)
	}
	return append(found, c.ledger.found(c.tally)...)
}

func (c *controller) close() error {
	var errs []error
	for _, r := range c.replicas {
		errs = append(errs, r.proxy.server.Close())
	}
	return errors.Join(errs...)
}

// trouble is something that happens to a controller with replicas, or to its leader.
type trouble struct {
	name string
	make func(context.Context, *controller, *term) error
}

// troubles are all equally likely.
var troubles = []trouble{
	{"leader killed", killLeader},
	{"leader stopped", stopLeader},
	{"leader paused", pauseLeader},
	{"leader paused before the answer to a renewal", pauseRenewingLeader},
	{"leader cut off, refused", func(ctx context.Context, c *controller, t *term) error { return cutOffLeader(ctx, c, t, true) }},
	{"leader cut off, hanging", func(ctx context.Context, c *controller, t *term) error { return cutOffLeader(ctx, c, t, false) }},
	{"follower killed", killFollower},
	{"namespace deleted, and the leader killed", func(ctx context.Context, c *controller, t *term) error { return c.endNamespace(ctx, c, t) }},
}

// makeTrouble makes one trouble after the other, each while the leader works.
func (c *controller) makeTrouble(ctx context.Context, rand *rand.Rand) error {
	var order []int
	for c.troubles.Load() > 0 {
		if len(order) == 0 {
			order = rand.Perm(len(troubles))
		}
		leader, err := c.atWork(ctx)
		if err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		trouble := troubles[order[0]]
		order = order[1:]
		c.tally.log("%s: %s", leader.life.name, trouble.name)
		c.tally.add("trouble: " + trouble.name)
		if err := trouble.make(ctx, c, leader); err != nil {
			return fmt.Errorf("%s: %s: %w", leader.life.name, trouble.name, err)
		}
		c.troubles.Add(-1)
	}
	return nil
}

// await waits until is reports true.
func (c *controller) await(ctx context.Context, is func() bool) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return is(), nil
	})
}

// atWork waits until the leader changes something in Neutron.
func (c *controller) atWork(ctx context.Context) (leader *term, err error) {
	before := 0
	err = c.await(ctx, func() bool {
		t := c.record.current()
		if t == nil || !t.over.IsZero() {
			return false
		}
		if leader == nil || leader.life != t.life {
			leader, before = t, c.record.changesOf(t.life)
		}
		return c.record.changesOf(t.life) > before
	})
	if err != nil {
		return nil, fmt.Errorf("%s: wait for a leader at work: %w", c.cluster, err)
	}
	return leader, nil
}

// next waits until another process leads, and records how long that took.
func (c *controller) next(ctx context.Context, old *life, since time.Time, what string, within time.Duration) (*term, error) {
	away := old.replica.kubernetesAway()
	var t *term
	err := c.await(ctx, func() bool {
		t = c.record.current()
		return t.life != old && t.over.IsZero()
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the next leader: %w", err)
	}
	if away != old.replica.kubernetesAway() || away%2 == 1 {
		return t, nil
	}
	took := t.acquired.Sub(since)
	c.tally.sample(what, took)
	if c.strict && took > within {
		c.violate("%s: %s, want at most %s", what, took, within)
	}
	return t, nil
}

func killLeader(ctx context.Context, c *controller, leader *term) error {
	began := time.Now()
	leader.life.is(byAKill)
	_ = leader.life.process.Signal(os.Kill) // it may have ended
	_, err := c.next(ctx, leader.life, began, "from the kill of a leader to the next one", leaseDuration+allowance)
	return err
}

// killFollower must not affect the leader.
func killFollower(_ context.Context, c *controller, leader *term) error {
	for _, r := range c.replicas {
		if r != leader.life.replica {
			r.kill()
			break
		}
	}
	return nil
}

// stopLeader sends the leader a SIGTERM: it ends when its workers have finished.
func stopLeader(ctx context.Context, c *controller, leader *term) error {
	began := time.Now()
	leader.life.is(inOrder)
	_ = leader.life.process.Signal(syscall.SIGTERM) // it may have ended
	t, err := c.next(ctx, leader.life, began, "from the SIGTERM of a leader to the next one", time.Minute)
	if err != nil {
		return err
	}
	over, released := c.record.end(leader.life)
	if !released {
		c.tally.add("leases that expired while their holder was stopping")
		return nil
	}
	took := t.acquired.Sub(over)
	c.tally.sample("from the release of the lease to the next leader", took)
	if c.strict && took > allowance {
		c.violate("the lease was released, and acquired %s later", took)
	}
	return nil
}

// cutOffLeader cuts the leader off from the API server until another replica leads.
func cutOffLeader(ctx context.Context, c *controller, leader *term, refused bool) error {
	began := time.Now()
	leader.life.is(leaseLost)
	gate := &leader.life.replica.proxy.gate
	gate.shut(refused)
	defer gate.open()
	if err := c.seeItEnd(ctx, leader.life, began, "from being cut off to the leader's end", renewDeadline+allowance); err != nil {
		return err
	}
	_, err := c.next(ctx, leader.life, began, "from being cut off to the next leader", leaseDuration+allowance)
	return err
}

// seeItEnd waits until the process has ended, and records a violation if that takes longer
// than within.
func (c *controller) seeItEnd(ctx context.Context, l *life, since time.Time, what string, within time.Duration) error {
	if !l.ended(ctx, patience) {
		return errors.New("the process does not end")
	}
	took := time.Since(since)
	c.tally.sample(what, took)
	if took > within {
		c.violate("%s: %s, want at most %s: %s", what, took, within, l.name)
	}
	return nil
}

func pauseLeader(ctx context.Context, c *controller, leader *term) error {
	leader.life.stop()
	return c.continueLater(ctx, leader.life)
}

// pauseRenewingLeader pauses the leader when the API server has renewed the lease, before
// the leader gets the answer.
func pauseRenewingLeader(ctx context.Context, c *controller, leader *term) error {
	stopped := make(chan struct{})
	holdUp := func() {
		leader.life.stop()
		close(stopped)
	}
	leader.life.replica.proxy.holdUp.Store(&holdUp)
	defer leader.life.replica.proxy.holdUp.Store(nil)
	select {
	case <-stopped:
	case <-leader.life.process.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.continueLater(ctx, leader.life)
}

// continueLater continues a paused process when another one leads and works. The process
// must then end by itself.
func (c *controller) continueLater(ctx context.Context, l *life) error {
	began := time.Now()
	l.is(leaseLost)
	// Otherwise only a SIGKILL could end it.
	defer l.resume()
	if _, err := c.next(ctx, l, began, "from the pause of a leader to the next one", leaseDuration+allowance); err != nil {
		return err
	}
	if _, err := c.atWork(ctx); err != nil {
		return err
	}
	l.resume()
	return c.seeItEnd(ctx, l, time.Now(), "from being continued to the old leader's end", renewDeadline+allowance)
}
