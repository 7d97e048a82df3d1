// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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
	// lifelineEnv is set for a component whose third descriptor is a pipe that is closed
	// when the supervisor ends.
	lifelineEnv = "CONTROLPLANE_LIFELINE"
	lifelineFD  = 3

	// stopTimeout is how long a component may take to stop before it is killed.
	stopTimeout = 20 * time.Second

	// logTail is how many lines of its log are shown when a component fails.
	logTail = 12
)

// DieWithParent ends this process when the supervisor that started it has ended, for any
// reason. It does nothing in other processes.
//
// On every system the kernel closes the supervisor's end of the pipe. Linux's parent death
// signal would instead depend on the thread that forked.
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
	// done is closed when the process has ended; err is set before that.
	done chan struct{}
	err  error
}

// startProcess runs the command of a component and appends its output to log. The first
// inherited file is the lifeline.
func startProcess(name, log string, command []string, inherited ...*os.File) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = inherited
	// The component gets none of the user's environment: ETCD_* variables are flags of
	// etcd, and a configured proxy would be used for other hosts.
	cmd.Env = []string{lifelineEnv + "=1"}
	// A process group of its own: otherwise Ctrl-C would reach all components at once.
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

// stop sends the signal and waits until the process has ended. It sends SIGKILL if the
// process takes too long.
func (p *process) stop(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure returns how a process ended that should still run, with the end of its log.
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
