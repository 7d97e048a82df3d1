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
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// controller is a controller process that is started again whenever it has ended, as a
// Deployment would.
type controller struct {
	cluster, namespace string
	proxy              *proxy
	binary, dir        string
	env, flags         []string
	tally              *tally
	// kubernetesAway counts up when kube-apiserver goes and when it comes.
	kubernetesAway func() int64

	mu         sync.Mutex
	process    *stack.Controller
	killed     bool
	starts     int
	violations []string
}

// kill ends the process as a crash would.
func (c *controller) kill() {
	c.mu.Lock()
	process := c.process
	c.killed = true
	c.mu.Unlock()
	c.tally.log("%s is killed", c.cluster)
	if process.Signal(os.Kill) == nil {
		c.tally.add("kills")
	}
	<-process.Done()
}

// afterOwnEnd is how long it takes to start a process that has ended by itself.
const afterOwnEnd = 200 * time.Millisecond

// keepRunning returns when ctx is done and the process has ended in order.
func (c *controller) keepRunning(ctx context.Context) error {
	for {
		away := c.kubernetesAway()
		process, err := c.start()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			err := process.Stop()
			c.look(process)
			return err
		case <-process.Done():
		}
		c.look(process)
		if !c.wasKilled() {
			c.tally.add("controller ended by itself")
			// Without Kubernetes it cannot start, and may say so by its exit code.
			if away == c.kubernetesAway() && away%2 == 0 {
				c.violate("the controller ended by itself, exit code %d: see %s", process.ExitCode(), c.dir)
			}
			select {
			case <-time.After(afterOwnEnd):
			case <-ctx.Done():
				return nil
			}
		}
		c.waitUntilIdle()
	}
}

func (c *controller) start() (*stack.Controller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	c.killed = false
	c.tally.log("%s is started, time %d", c.cluster, c.starts)
	file, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("%s-%03d.log", c.cluster, c.starts)))
	if err != nil {
		return nil, err
	}
	c.process, err = stack.StartController(c.binary, c.env, file, c.flags...)
	if err != nil {
		return nil, err
	}
	go func(process *stack.Controller) {
		<-process.Done()
		file.Close()
	}(c.process)
	return c.process, nil
}

func (c *controller) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// look reads the log of a process that has ended.
func (c *controller) look(process *stack.Controller) {
	for _, trouble := range []string{"DATA RACE", "panic: "} {
		if process.Log.Count(trouble) > 0 {
			c.violate("%q in a log in %s", trouble, c.dir)
		}
	}
}

func (c *controller) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, c.cluster+": "+fmt.Sprintf(format, args...))
}

func (c *controller) found() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.violations...)
}

// waitUntilIdle waits for what the dead process had asked for. There is no telling a
// network that Neutron makes after that from one that nobody has asked for, so the ledger
// could not call any second network a mistake.
func (c *controller) waitUntilIdle() {
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return c.proxy.inFlight.Load() == 0, nil
	})
}
