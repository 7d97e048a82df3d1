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

// replica is a process of a controller that is started again whenever it has ended, as a
// Deployment would.
type replica struct {
	name        string
	proxy       *proxy
	binary, dir string
	env, flags  []string
	tally       *tally
	// kubernetesAway counts up when kube-apiserver goes and when it comes.
	kubernetesAway func() int64

	mu         sync.Mutex
	life       *life
	starts     int
	violations []string
}

// life is one process, from its start to its end.
type life struct {
	name    string
	replica *replica
	process *stack.Controller
	// away is what kubernetesAway was when it was started.
	away int64

	mu                 sync.Mutex
	end                end
	stopped, continued time.Time
}

// end says how a process is to end.
type end int

const (
	notYet    end = iota
	byAKill       // whatever it was doing
	inOrder       // after a SIGTERM: with exit code 0
	leaseLost     // at once, with exit code 1
)

// is says which end the process is to have from now on.
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

// stop suspends the process, and resume has it go on.
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

// pause says when it was suspended, and when it went on; zero: never.
func (l *life) pause() (stopped, continued time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped, l.continued
}

// ended waits until the process has ended, for so long at the most.
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

// now returns the process that is running, or was last.
func (r *replica) now() *life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life
}

// afterOwnEnd is how long it takes to start a process that has ended by itself.
const afterOwnEnd = 200 * time.Millisecond

// keepRunning returns when ctx is done and the process has ended in order.
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

// judge says whether a process may end as it has.
func (r *replica) judge(l *life) {
	code, lost := l.process.ExitCode(), l.process.Log.Count(lostMessage) > 0
	r.tally.log("%s has ended, exit code %d", l.name, code)
	// Without Kubernetes it cannot start, nor lead, and may say so by its exit code.
	undisturbed := l.away == r.kubernetesAway() && l.away%2 == 0
	switch l.isTo() {
	case byAKill:
	case leaseLost:
		if code != 1 || !lost {
			r.violate("%s had lost the lease, and ended with exit code %d: see %s", l.name, code, r.dir)
		}
	case inOrder:
		if code != 0 && undisturbed {
			r.violate("%s was asked to stop, and ended with exit code %d: see %s", l.name, code, r.dir)
		}
	case notYet:
		if lost && code == 1 {
			// The answers to its renewals came too late, or never.
			r.tally.add("leaders that lost the lease by themselves")
			return
		}
		r.tally.add("controller ended by itself")
		if undisturbed {
			r.violate("%s ended by itself, exit code %d: see %s", l.name, code, r.dir)
		}
	}
}

// lostMessage is the last that a controller says that has lost the Lease.
const lostMessage = "the lease is lost"

// look reads the log of a process that has ended.
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

// waitUntilIdle waits for what the dead process had asked for. There is no telling a
// network that Neutron makes after that from one that nobody has asked for, so the ledger
// could not call any second network a mistake.
func (r *replica) waitUntilIdle() {
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return r.proxy.inFlight.Load() == 0, nil
	})
}
