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

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// ofProcess matches the process ID in a line of the log in text format.
var ofProcess = regexp.MustCompile(`(?m)^I\d{4} \S+ +(\d+) `)

// process is a controller as users run it, with what Linux reports of its process.
type process struct {
	*world
	*stack.Controller
	kubernetes *proxy
	pid        string
}

// startReleased starts a replica with leader election, through a proxy of its own. It does
// not use launch, whose checks cost CPU time.
func (w *world) startReleased(flags ...string) *process {
	w.Helper()
	executable, err := released()
	w.must(err)
	p := &process{world: w, kubernetes: w.throughProxy()}
	election := "-leader-elect=true -leader-elect-resource-namespace=" + w.namespace
	args := strings.Fields(strings.Join(append(flags, w.reach, "-namespace="+w.namespace, election), " "))
	p.Controller, err = stack.StartController(executable, append(w.neutron.Env(), "KUBE_CACHE_MUTATION_DETECTOR=false"), nil, args...)
	w.must(err)
	w.Cleanup(func() {
		if err := p.Stop(); err != nil {
			w.Errorf("stop the controller: %v\n%s", err, p.Log.String())
		}
	})
	w.waitForLog(p.Controller, standsBy)
	p.pid = ofProcess.FindStringSubmatch(p.Log.String())[1]
	w.contains(p.proc("cmdline"), w.namespace)
	return p
}

// proc reads a file of /proc.
func (p *process) proc(name string) string {
	p.Helper()
	content, err := os.ReadFile("/proc/" + p.pid + "/" + name)
	p.must(err)
	return string(bytes.ReplaceAll(content, []byte{0}, []byte{' '}))
}

// used returns the CPU time that the process has used.
func (p *process) used() time.Duration {
	p.Helper()
	// The fields after the name in parentheses (proc(5)): the 14th and the 15th of all are user
	// and system time, in hundredths of a second.
	_, fields, _ := strings.Cut(p.proc("stat"), ") ")
	var ticks int
	for _, field := range strings.Fields(fields)[11:13] {
		n, err := strconv.Atoi(field)
		p.must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns the resident memory, its current and its highest value.
func (p *process) memory() string {
	p.Helper()
	lines := regexp.MustCompile(`Vm(HWM|RSS):.*`).FindAllString(p.proc("status"), -1)
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

func TestIdleReplicasCostNextToNothing(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux reports what a process uses: ", err)
	}
	const (
		networks = 1000
		minute   = time.Minute
		// promised holds on a machine that does nothing else; more than tolerated fails the
		// test.
		promised, tolerated = minute / 100, minute / 20
	)
	w := newWorld(t)
	leader := w.startReleased(fast)
	w.waitUntilAtWork(leader.Controller)
	follower := w.startReleased(fast)
	w.createMany(networks)
	// Events come last. One of them is the election's.
	w.eventually(func() error {
		if n := leader.kubernetes.peek()["create events"]; n <= networks {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	w.calls.take()
	replicas := map[string]*process{"leader": leader, "follower": follower}
	before := map[string]time.Duration{}
	for name, p := range replicas {
		p.kubernetes.take()
		before[name] = p.used()
	}

	select {
	case <-time.After(minute):
	case <-leader.Done():
	case <-follower.Done():
	}
	for name, p := range replicas {
		used := p.used() - before[name]
		t.Logf("the %s of %d Networks, idle for %s, used %s of CPU time (%.2f %%; promised: %s); %s",
			name, networks, minute, used, 100*float64(used)/float64(minute), promised, p.memory())
		if used > tolerated {
			t.Errorf("the %s is not idle", name)
		}
		if written := writes(p.kubernetes.take()); len(written) > 0 {
			t.Errorf("the %s wrote to Kubernetes: %v", name, written)
		}
	}
	for request, n := range w.calls.take() {
		if n > 1 || request != "GET networks" && request != "GET subnets" {
			t.Errorf("%d requests to Neutron: %s", n, request)
		}
	}
}
