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
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// replica is a process of a controller. It is started again when it has ended, as by a
// Deployment.
type replica struct {
	name        string
	proxy       *proxy
	binary, dir string
	env, flags  []string
	tally       *tally
	// kubernetesAway returns a count of the stops and starts of kube-apiserver.
	kubernetesAway func() int64

	mu         sync.Mutex
	life       *life
	starts     int
	violations []string
}

// life is one process of a replica, from its start to its end.
type life struct {
	name    string
	replica *replica
	process *stack.Controller
	// away is the value of kubernetesAway when the process was started.
	away int64

	mu                 sync.Mutex
	end                end
	stopped, continued time.Time
}

// end is the way in which a process should end.
type end int

const (
	notYet    end = iota
	byAKill       // whatever it was doing
	inOrder       // after a SIGTERM: with exit code 0
	leaseLost     // at once, with exit code 1
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

// stop pauses the process, and resume continues it.
func (l *life) stop() {
	_ = l.process.Signal(syscall.SIGSTOP) // it may have ended
	l.replica.tally.log("%s is paused", l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = time.Now()
}

func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.continued.IsZero() {
		l.continued = time.Now()
		l.replica.tally.log("%s is continued", l.name)
		_ = l.process.Signal(syscall.SIGCONT) // it may have ended
	}
}

// pause returns when the process was paused and continued; zero: never.
func (l *life) pause() (stopped, continued time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped, l.continued
}

// ended waits until the process has ended, for at most atMost, and reports whether it has.
func (l *life) ended(ctx context.Context, atMost time.Duration) bool {
	select {
	case <-l.process.Done():
		return true
	case <-time.After(atMost):
	case <-ctx.Done():
	}
	return false
}

// kill ends the process as a crash would.
func (r *replica) kill() {
	l := r.now()
	l.is(byAKill)
	r.tally.log("%s is killed", l.name)
	if l.process.Signal(os.Kill) == nil {
		r.tally.add("kills")
	}
	<-l.process.Done()
}

// now returns the running process, or the last one.
func (r *replica) now() *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life
}

// afterOwnEnd is the delay before a process that ended by itself is started again.
const afterOwnEnd = 200 * time.Millisecond

// keepRunning starts the process again and again. It returns when ctx is done and the
// process has been stopped.
func (r *replica) keepRunning(ctx context.Context) error {
	for {
		l, err := r.start()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			_ = l.process.Signal(syscall.SIGCONT) // it may have ended, and not be stopped
			err := l.process.Stop()
			r.look(l)
			return err
		case <-l.process.Done():
		}
		r.look(l)
		r.judge(l)
		if l.isTo() != byAKill {
			select {
			case <-time.After(afterOwnEnd):
			case <-ctx.Done():
				return nil
			}
		}
		r.waitUntilIdle()
		if err := r.proxy.gate.wait(ctx); err != nil {
			return nil
		}
	}
}

func (r *replica) start() (*life, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	l := &life{name: fmt.Sprintf("%s-%03d", r.name, r.starts), replica: r, away: r.kubernetesAway()}
	r.tally.log("%s is started", l.name)
	file, err := os.Create(filepath.Join(r.dir, l.name+".log"))
	if err != nil {
		return nil, err
	}
	r.proxy.life.Store(l)
	l.process, err = stack.StartController(r.binary, r.env, file, r.flags...)
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

// judge records a violation if a process ended in a way in which it should not.
func (r *replica) judge(l *life) {
	code, lost := l.process.ExitCode(), l.process.Log.Count(lostMessage) > 0
	r.tally.log("%s has ended, exit code %d", l.name, code)
	// Without Kubernetes it can neither start nor lead, and may exit with an error.
	undisturbed := l.away == r.kubernetesAway() && l.away%2 == 0
	switch l.isTo() {
	case byAKill:
	case leaseLost:
		if code != 1 || !lost {
			r.violate("%s had lost the lease, and ended with exit code %d: see %s", l.name, code, r.dir)
		}
	case inOrder:
		// Under load its answers can come too late for the lease in the same moment.
		if code != 0 && undisturbed && !lost {
			r.violate("%s was asked to stop, and ended with exit code %d: see %s", l.name, code, r.dir)
		}
	case notYet:
		if lost && code == 1 {
			// The answers to its renewals of the Lease came too late, or never.
			r.tally.add("leaders that lost the lease by themselves")
			return
		}
		r.tally.add("controller ended by itself")
		if undisturbed {
			r.violate("%s ended by itself, exit code %d: see %s", l.name, code, r.dir)
		}
	}
}

// lostMessage is the last log line of a controller that has lost the Lease.
const lostMessage = "the lease is lost"

// look searches the log of a process that has ended for races and panics.
func (r *replica) look(l *life) {
	for _, trouble := range []string{"DATA RACE", "panic: "} {
		if l.process.Log.Count(trouble) > 0 {
			r.violate("%q in the log of %s in %s", trouble, l.name, r.dir)
		}
	}
}

func (r *replica) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *replica) found() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.violations...)
}

// waitUntilIdle waits for the requests that the killed process had sent. If Neutron created
// a network for one of them later, the ledger could not tell whether a second network is a
// mistake of the next process.
func (r *replica) waitUntilIdle() {
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return r.proxy.inFlight.Load() == 0, nil
	})
}
