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

package main

import (
	"os"
	"testing"
)

// TestOwnProcess compares the values from /proc with what this process knows about itself.
func TestOwnProcess(t *testing.T) {
	p, err := readProcess(os.Getpid())
	must(t, err)
	if p.pid != os.Getpid() || p.parent != os.Getppid() {
		t.Errorf("got %+v, want pid %d and parent %d", p, os.Getpid(), os.Getppid())
	}
	peak, resident, err := memory(os.Getpid())
	must(t, err)
	if resident < 1<<20 || peak < resident {
		t.Errorf("%d bytes resident, %d at the peak", resident, peak)
	}
	processes, err := family("/no such controller")
	must(t, err)
	if len(processes) != 1 || processes[benchmarkProcess].pid != os.Getpid() {
		t.Errorf("the processes are %+v, want this one as %s", processes, benchmarkProcess)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 17 1 1 0 -1 4194560 100 0 0 0 250 50 7 7 20 0 9 0 100 1000 10"
	// A name may have parentheses and blanks. The times are user's and system's, without the children's.
	if got, err := parseStat("42 (a) b (c 1 2)" + rest); err != nil || got != (process{42, 17, 3}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := parseStat("42 (etcd) S 17 1"); err == nil {
		t.Error("no error for a truncated text")
	}
}
