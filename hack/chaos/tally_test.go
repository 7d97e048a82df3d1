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
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts events, and writes them to a journal: to explain a violation one needs their
// order.
type tally struct {
	mu      sync.Mutex
	counts  map[string]int
	samples map[string]sample
	notes   []string
	journal io.Writer
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

// count returns how often something was counted.
func (t *tally) count(what string) int {
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

func (t *tally) note(what string, duration time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf("%8s %s", duration.Round(100*time.Millisecond), what))
}

// sample records a duration.
func (t *tally) sample(what string, duration time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.samples == nil {
		t.samples = map[string]sample{}
	}
	t.samples[what] = append(t.samples[what], duration)
}

// String returns one line for each count, and the sums of the faults.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := map[string]int{}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		lines = append(lines, fmt.Sprintf("%8d %s", t.counts[what], what))
		if realm, _, ok := strings.Cut(what, " fault: "); ok {
			faults[realm] += t.counts[what]
		}
	}
	for _, realm := range slices.Sorted(maps.Keys(faults)) {
		lines = append(lines, fmt.Sprintf("%8d %s faults in all", faults[realm], realm))
	}
	for _, what := range slices.Sorted(maps.Keys(t.samples)) {
		lines = append(lines, fmt.Sprintf("%8s %s: %s", "", what, t.samples[what]))
	}
	return strings.Join(append(lines, t.notes...), "\n")
}
