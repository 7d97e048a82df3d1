// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts what happens, and writes it to a journal: to explain a violation one needs the order.
type tally struct {
	mu         sync.Mutex
	counts     map[string]int
	violations []string
	journal    io.Writer
}

// count counts something.
func (t *tally) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// counted returns how often something was counted.
func (t *tally) counted(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// log writes a line of the journal.
func (t *tally) log(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The test goes on if the journal cannot be written.
	_, _ = fmt.Fprintf(t.journal, time.Now().Format("15:04:05.000000 ")+format+"\n", args...)
}

func (t *tally) violate(format string, args ...any) {
	t.log("VIOLATION: "+format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.violations = append(t.violations, fmt.Sprintf(format, args...))
}

func (t *tally) found() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.violations)
}

// String returns one line for each count.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		lines = append(lines, fmt.Sprintf("%8d %s", t.counts[what], what))
	}
	return strings.Join(lines, "\n")
}
