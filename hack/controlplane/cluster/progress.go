// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How often the line is rewritten on a terminal, or a new line is printed otherwise.
const (
	terminalInterval = time.Second
	logInterval      = 15 * time.Second
)

// reporter prints the progress of a build. A phase is printed when it begins, and then at
// intervals.
type reporter struct {
	w        io.Writer
	interval time.Duration
	terminal bool
	now      func() time.Time

	mu          sync.Mutex // for what follows
	begin, last time.Time
	what        string
	// packages are the packages that a build may have to compile.
	packages map[string]bool
	count    int
}

func newReporter(w io.Writer) *reporter {
	r := &reporter{w: w, interval: logInterval, now: time.Now}
	if w == nil {
		r.w = io.Discard
	}
	if isTerminal(w) {
		r.interval, r.terminal = terminalInterval, true
	}
	r.begin = r.now()
	return r
}

// isTerminal reports whether w is a terminal. It also returns true for /dev/null, which
// does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// phase sets the current phase. It may be called repeatedly with the same one.
func (r *reporter) phase(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.what != what {
		r.what, r.count, r.last = what, 0, time.Time{}
	}
	r.report()
}

// compiling begins the phase that compiles these packages.
func (r *reporter) compiling(packages []string) {
	set := make(map[string]bool, len(packages))
	for _, p := range packages {
		set[p] = true
	}
	r.mu.Lock()
	r.packages = set
	r.mu.Unlock()
	r.phase("compiling")
}

// fetched counts a line of the go command that fetches a module, and reports whether it is
// one.
func (r *reporter) fetched(line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress(strings.HasPrefix(line, "go: downloading "))
}

// compiled counts a line of go build -v that names a compiled package, and reports whether
// it is one.
func (r *reporter) compiled(line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress(r.packages[line])
}

func (r *reporter) progress(counts bool) bool {
	if counts {
		r.count++
		r.report()
	}
	return counts
}

// tick reports at intervals until stop is called, because linking takes long and prints
// nothing.
func (r *reporter) tick() (stop func()) {
	ticker := time.NewTicker(r.interval)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				r.mu.Lock()
				r.report()
				r.mu.Unlock()
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

// report prints the progress, unless it was just printed or no phase has begun.
func (r *reporter) report() {
	now := r.now()
	if r.what == "" || now.Sub(r.last) < r.interval {
		return
	}
	r.last = now
	line := fmt.Sprintf("building the control plane: %s (%s)", r.status(), now.Sub(r.begin).Round(time.Second))
	if r.terminal {
		fmt.Fprintf(r.w, "\r\033[K%s", line)
		return
	}
	fmt.Fprintln(r.w, line)
}

func (r *reporter) status() string {
	switch {
	case r.count == 0:
		return r.what
	case len(r.packages) == 0:
		return fmt.Sprintf("fetching modules, %d so far", r.count)
	default:
		// Packages in the build cache are not compiled again.
		return fmt.Sprintf("%s, %d of up to %d packages", r.what, r.count, len(r.packages))
	}
}

// finish ends the line on a terminal.
func (r *reporter) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal && r.what != "" {
		fmt.Fprint(r.w, "\r\033[K")
	}
}

// lineWriter calls line for each line that is written to it.
type lineWriter struct {
	line func(string)
	rest []byte
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.line(string(line))
		l.rest = rest
	}
}
