// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Controller is a running controller process. On Linux it ends with the process that
// started it, even if that process crashes.
type Controller struct {
	// Log is the controller's whole output.
	Log *Log
	cmd *exec.Cmd
	// done is closed when the process has ended; err is set before that.
	done chan struct{}
	err  error
}

// StartController starts the executable with these flags. It does not inherit the caller's
// OS_* variables, nor the one that says that the caller is in a pod, and gets those in env. Its
// output is also written to log, unless log is nil.
func StartController(binary string, env []string, log io.Writer, flags ...string) (*Controller, error) {
	c := &Controller{Log: &Log{also: log}, done: make(chan struct{})}
	c.cmd = exec.Command(binary, flags...)
	c.cmd.Env = append(withoutClouds(os.Environ()), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.Log, c.Log
	// Ctrl-C reaches only the caller, who then calls Stop.
	c.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		c.Log.close()
		close(c.done)
	}()
	return c, nil
}

// withoutClouds removes the variables that lead to an OpenStack or a Kubernetes of the caller.
func withoutClouds(env []string) []string {
	return slices.DeleteFunc(env, func(variable string) bool {
		return strings.HasPrefix(variable, "OS_") || strings.HasPrefix(variable, "KUBERNETES_SERVICE_HOST=")
	})
}

// Signal sends the signal to the process.
func (c *Controller) Signal(signal os.Signal) error { return c.cmd.Process.Signal(signal) }

// Pid returns the ID of the process.
func (c *Controller) Pid() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (c *Controller) Done() <-chan struct{} { return c.done }

// ExitCode returns the exit code after Done is closed; -1 if a signal ended the process.
func (c *Controller) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// stopTimeout is longer than the workers need to finish the work that they have begun.
const stopTimeout = 3 * time.Minute

// Stop sends SIGTERM, waits until the process has ended, and returns an error unless the
// exit code is 0. It may be called more than once.
func (c *Controller) Stop() error {
	_ = c.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.done:
		return c.err
	case <-time.After(stopTimeout):
		_ = c.Signal(syscall.SIGKILL)
		<-c.done
		return errors.New("the controller did not stop after SIGTERM")
	}
}

// Log is the output of a process. A caller can wait for text in it.
type Log struct {
	also io.Writer

	mu      sync.Mutex
	text    bytes.Buffer
	ended   bool
	changed chan struct{}
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	l.wake()
	if l.also != nil {
		return l.also.Write(p)
	}
	return len(p), nil
}

func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// wake must be called with the lock held.
func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// String returns the whole log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often text is in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// WaitFor waits until text is in the log.
func (l *Log) WaitFor(ctx context.Context, text string) error {
	for {
		l.mu.Lock()
		if strings.Contains(l.text.String(), text) {
			l.mu.Unlock()
			return nil
		}
		if l.ended {
			l.mu.Unlock()
			return fmt.Errorf("the process ended without writing %q", text)
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %q in the log: %w", text, context.Cause(ctx))
		}
	}
}
