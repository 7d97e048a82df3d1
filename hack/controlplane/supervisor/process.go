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

package supervisor

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// lifelineEnv tells a component that its third descriptor is a pipe that
	// ends with the supervisor.
	lifelineEnv = "CONTROLPLANE_LIFELINE"
	lifelineFD  = 3

	// stopTimeout is how long a component that was told to stop may take.
	stopTimeout = 20 * time.Second

	// logTail is how much of its log is shown when a component fails.
	logTail = 12
)

// DieWithParent ends this process when the supervisor that started it has
// ended, however that came about. It does nothing in other processes.
//
// The kernel closes the supervisor's end of a pipe for it, on every system;
// Linux's parent death signal would be tied to the thread that forked.
func DieWithParent() {
	if os.Getenv(lifelineEnv) == "" {
		return
	}
	os.Unsetenv(lifelineEnv)
	syscall.CloseOnExec(lifelineFD)
	lifeline := os.NewFile(lifelineFD, "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		os.Exit(1)
	}()
}

// process is a component that was started.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// done is closed when the process has ended; err is set before.
	done chan struct{}
	err  error
}

// startProcess runs command, which belongs to one of the components, with its
// output appended to log. The inherited files begin with the lifeline.
func startProcess(name, log string, command []string, inherited ...*os.File) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = inherited
	// None of the user's environment: ETCD_* are flags to etcd, and a proxy
	// would be asked for other hosts.
	cmd.Env = []string{lifelineEnv + "=1"}
	// A group of its own, or Ctrl-C would reach all components at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop sends the signal and waits for the end, which SIGKILL brings about if
// the process takes too long.
func (p *process) stop(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure says how a process ended that should not have, and why by its log.
func (p *process) failure() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended early (%s); the end of %s:\n%s", p.name, how, p.log, lastLines(p.log, logTail))
}

// lastLines returns the last n lines of a file.
func lastLines(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
