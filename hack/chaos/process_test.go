// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// replica is a process of the controller. It is started again when it has ended, as by a
// Deployment.
type replica struct {
	name  string
	world *world
	proxy *proxy
	// env and flags are those of the process.
	env, flags []string

	mu     sync.Mutex
	life   *life
	starts int
}

// life is one process of a replica, from its start to its end.
type life struct {
	name    string
	replica *replica
	process *stack.Controller
	// away is the value of the world's away when the process was started.
	away int64

	mu  sync.Mutex
	end end
}

// end is the way in which a process should end.
type end int

const (
	notYet    end = iota
	byAKill       // whatever it was doing
	inOrder       // after a SIGTERM: with exit code 0
	leaseLost     // by itself, with exit code 1
)

// is sets the end that the process should have from now on.
func (l *life) is(e end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = e
}

func (l *life) isTo() end {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// send sends the process a signal, unless it has ended.
func (l *life) send(signal syscall.Signal) {
	l.replica.world.log("%s gets %s", l.name, signal)
	_ = l.process.Signal(signal) // it may have ended
}

// kill ends the process as a crash would.
func (l *life) kill() {
	l.is(byAKill)
	l.send(syscall.SIGKILL)
	l.replica.world.count("kills")
	<-l.process.Done()
}

// configure sets the environment and the flags of the process.
func (r *replica) configure(original []byte) error {
	cloudsYAML := filepath.Join(r.world.dir, r.name+".yaml")
	content := strings.ReplaceAll(string(original), r.world.keystone, r.proxy.url+"/keystone")
	r.env = []string{"OS_CLIENT_CONFIG_FILE=" + cloudsYAML, "OS_CLOUD=" + stack.Cloud,
		"KUBE_CACHE_MUTATION_DETECTOR=true", "GORACE=atexit_sleep_ms=0"}
	r.flags = []string{"-v=4", "-master=" + r.proxy.url + "/kubernetes",
		"-retry-base-delay=100ms", "-retry-max-delay=1s", "-neutron-timeout=" + r.world.neutronTimeout.String(),
		"-resync=" + r.world.resync.String(), fmt.Sprintf("-workers=%d", r.world.workers),
		"-leader-elect=true", "-leader-elect-resource-namespace=" + namespace,
		"-leader-elect-lease-duration=3s", "-leader-elect-renew-deadline=2s", "-leader-elect-retry-period=100ms"}
	return os.WriteFile(cloudsYAML, []byte(content), 0o600)
}

// now returns the running process, or the last one.
func (r *replica) now() *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life
}

// keepRunning starts the process again and again. It returns when ctx is done and the process has
// been stopped.
func (r *replica) keepRunning(ctx context.Context) error {
	for {
		l, err := r.start()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			l.send(syscall.SIGCONT)
			l.waitUntilItHandlesSignals()
			err := l.process.Stop()
			r.look(l)
			if l.process.Log.Count(lostMessage) > 0 {
				return nil
			}
			return err
		case <-l.process.Done():
		}
		r.look(l)
		r.judge(l)
		// A Deployment also waits a moment.
		select {
		case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		if err := r.proxy.gate.wait(ctx); err != nil {
			return nil
		}
	}
}

// waitUntilItHandlesSignals waits until the process has written something, or has ended. A busy computer takes seconds to begin a
// process, and until it handles signals, a SIGTERM ends it without an exit code.
func (l *life) waitUntilItHandlesSignals() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = l.process.Log.WaitFor(ctx, "\n")
}

func (r *replica) start() (*life, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	l := &life{name: fmt.Sprintf("%s-%03d", r.name, r.starts), replica: r, away: r.world.away.Load()}
	r.world.log("%s is started", l.name)
	file, err := os.Create(filepath.Join(r.world.dir, l.name+".log"))
	if err != nil {
		return nil, err
	}
	r.proxy.life.Store(l)
	l.process, err = stack.StartController(r.world.binary, r.env, file, r.flags...)
	if err != nil {
		return nil, err
	}
	r.life = l
	go func() {
		<-l.process.Done()
		file.Close()
	}()
	return l, nil
}

// lostMessage is in the last log line of a controller that has lost the Lease.
const lostMessage = "the lease is lost"

// judge finds a process that ended in a way in which it should not.
func (r *replica) judge(l *life) {
	code, lost := l.process.ExitCode(), l.process.Log.Count(lostMessage) > 0
	r.world.log("%s has ended, exit code %d", l.name, code)
	switch to := l.isTo(); {
	case to == byAKill:
	case code == 1 && lost:
		// If nobody has taken the Lease away, the answers to its renewals came too late.
		r.world.count("processes that ended because they had lost the Lease")
	case to == leaseLost:
		r.world.violate("%s had lost the Lease, and ended with exit code %d: see its log", l.name, code)
	case l.away != r.world.away.Load() || l.away%2 == 1:
		// Without Kubernetes it can neither start nor lead, and may exit with an error.
	case to == inOrder && code != 0:
		r.world.violate("%s was asked to stop, and ended with exit code %d: see its log", l.name, code)
	case to == notYet:
		r.world.violate("%s ended by itself, exit code %d: see its log", l.name, code)
	}
}

// look searches the log of a process that has ended for races and panics.
func (r *replica) look(l *life) {
	for _, trouble := range []string{"DATA RACE", "panic: "} {
		if l.process.Log.Count(trouble) > 0 {
			r.world.violate("%q in the log of %s", trouble, l.name)
		}
	}
}
