// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// trouble is something that happens to a real process while it works.
type trouble struct {
	name string
	make func(context.Context, *world, *rand.Rand) error
}

// troubles happen in each run, in an order that the seed decides. A backup of etcd is taken after a third of them, and
// restored after two thirds.
var troubles = []trouble{
	{leaderKilled, killLeader},
	{"a follower is killed", killFollower},
	{"all processes are killed", killAll},
	{"the leader is asked to stop", stopLeader},
	{"the leader is suspended until another process works", suspendLeader},
	{"the leader is cut off from the API server: connections break", func(ctx context.Context, w *world, _ *rand.Rand) error { return cutOffLeader(ctx, w, true) }},
	{"the leader is cut off from the API server: nothing comes back", func(ctx context.Context, w *world, _ *rand.Rand) error { return cutOffLeader(ctx, w, false) }},
	{"kube-apiserver is killed", restartKubernetes},
}

const (
	leaderKilled = "the leader is killed"
	restored     = "etcd is restored from a backup"
)

// makeTrouble makes one trouble after the other, each while a leader works.
func (w *world) makeTrouble(ctx context.Context, r *rand.Rand) error {
	all := append([]trouble(nil), troubles...)
	for range w.kills - 1 {
		all = append(all, troubles[0])
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, t := range all {
		var err error
		switch i {
		case len(all) / 3:
			err = w.backUp(ctx)
		case 2 * len(all) / 3:
			err = w.restore(ctx, r)
		}
		if err != nil {
			return err
		}
		if _, err := w.atWork(ctx, nil); err != nil {
			return fmt.Errorf("before %s: %w", t.name, err)
		}
		w.log("%s", t.name)
		if err := t.make(ctx, w, r); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		w.count(t.name)
	}
	_, err := w.atWork(ctx, nil)
	return err
}

// await waits until is reports true.
func await(ctx context.Context, what string, is func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, *patience, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// atWork waits until another process than that one leads and changes something in Neutron.
func (w *world) atWork(ctx context.Context, other *life) (leader *life, err error) {
	before := 0
	err = await(ctx, "a leader at work", func() bool {
		l, changes := w.election.leader()
		if l != leader {
			leader, before = l, changes
		}
		return l != nil && l != other && w.election.leads(l) && changes > before
	})
	return leader, err
}

func (w *world) awaitEnd(ctx context.Context, l *life) error {
	return await(ctx, "the end of "+l.name, func() bool {
		select {
		case <-l.process.Done():
			return true
		default:
			return false
		}
	})
}

// killLeader kills the leader at its next change in Neutron.
func killLeader(ctx context.Context, w *world, r *rand.Rand) error {
	victims, f := make(chan *life, 1), []fate{killBefore, killAfter, killSoon}[r.IntN(3)]
	next := func(c *call) fate {
		victims <- c.life
		return f
	}
	w.atNextChange.Store(&next)
	select {
	case l := <-victims:
		return w.awaitEnd(ctx, l)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func killFollower(_ context.Context, w *world, r *rand.Rand) error {
	leader, _ := w.election.leader()
	for _, i := range r.Perm(len(w.replicas)) {
		if l := w.replicas[i].now(); l != leader {
			l.kill()
			return nil
		}
	}
	return nil
}

func killAll(_ context.Context, w *world, _ *rand.Rand) error {
	for _, r := range w.replicas {
		r.now().kill()
	}
	return nil
}

// stopLeader sends the leader a SIGTERM: it ends when its workers have finished.
func stopLeader(ctx context.Context, w *world, _ *rand.Rand) error {
	leader, _ := w.election.leader()
	leader.is(inOrder)
	leader.send(syscall.SIGTERM)
	return w.awaitEnd(ctx, leader)
}

// suspendLeader suspends the leader during one of its syncs, and continues it when another process leads and works. The
// old one must then end by itself.
func suspendLeader(ctx context.Context, w *world, r *rand.Rand) error {
	leaders, delay := make(chan *life, 1), time.Duration(r.IntN(20))*time.Millisecond
	next := func(c *call) fate {
		c.life.is(leaseLost)
		time.AfterFunc(delay, func() {
			c.life.send(syscall.SIGSTOP)
			leaders <- c.life
		})
		return answered
	}
	w.atNextChange.Store(&next)
	var leader *life
	select {
	case leader = <-leaders:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer leader.send(syscall.SIGCONT) // otherwise only a SIGKILL could end it
	if _, err := w.atWork(ctx, leader); err != nil {
		return err
	}
	leader.send(syscall.SIGCONT)
	return w.awaitEnd(ctx, leader)
}

// cutOffLeader cuts the leader off from the API server until it has ended and another process leads.
func cutOffLeader(ctx context.Context, w *world, breaks bool) error {
	leader, _ := w.election.leader()
	leader.is(leaseLost)
	gate := &leader.replica.proxy.gate
	gate.shut(breaks)
	defer gate.open()
	if err := w.awaitEnd(ctx, leader); err != nil {
		return err
	}
	_, err := w.atWork(ctx, leader)
	return err
}

func restartKubernetes(ctx context.Context, w *world, _ *rand.Rand) error {
	return w.withoutKubernetes(ctx, func() error {
		if err := w.controlPlane.KillAPIServer(); err != nil {
			return err
		}
		return w.controlPlane.StartAPIServer()
	})
}

// withoutKubernetes does something during which the API server does not work. It returns when that works again.
func (w *world) withoutKubernetes(ctx context.Context, do func() error) error {
	w.away.Add(1)
	defer w.away.Add(1)
	if err := do(); err != nil {
		return err
	}
	return await(ctx, "the API server", func() bool {
		_, err := w.networks.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

func (w *world) backUp(ctx context.Context) error {
	w.users.Lock()
	w.isBackedUp.Store(true)
	w.users.Unlock()
	w.log("a backup of etcd is taken")
	return w.withoutKubernetes(ctx, func() error { return w.controlPlane.Backup(w.backup()) })
}

func (w *world) backup() string { return filepath.Join(w.dir, "backup") }

// restore restores etcd from the backup. Some of the processes are killed at that time. The others keep what they have
// in memory.
func (w *world) restore(ctx context.Context, r *rand.Rand) error {
	w.users.Lock()
	defer w.users.Unlock()
	w.log("%s", restored)
	// Nobody changes anything before the history has seen what there is.
	for _, r := range w.replicas {
		r.proxy.gate.shut(false)
		defer r.proxy.gate.open()
	}
	err := w.withoutKubernetes(ctx, func() error {
		// With no kube-apiserver, nothing is stored any more that the history could miss.
		if err := errors.Join(w.controlPlane.KillAPIServer(), w.history.stop(ctx)); err != nil {
			return err
		}
		return w.controlPlane.Restore(w.backup(), func() {
			w.restores.Add(1)
			w.election.etcdRestored()
			for _, replica := range w.replicas {
				if r.IntN(2) == 0 {
					replica.now().kill()
				}
			}
		})
	})
	if err == nil {
		err = w.history.start(ctx)
	}
	w.isBackedUp.Store(false)
	w.count(restored)
	return err
}
