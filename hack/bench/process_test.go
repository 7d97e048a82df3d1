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

	"github.com/google/go-cmp/cmp"
)

// TestOwnProcess compares the values from /proc with what this process knows about itself.
func TestOwnProcess(t *testing.T) {
	p, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p.pid != os.Getpid() || p.parent != os.Getppid() {
		t.Errorf("got %+v, want pid %d and parent %d", p, os.Getpid(), os.Getppid())
	}
	peak, resident, err := memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if resident < 1<<20 || peak < resident {
		t.Errorf("%d bytes resident, %d at the peak", resident, peak)
	}
	processes, err := family("/no such controller")
	if err != nil {
		t.Fatal(err)
	}
	if len(processes) != 1 || processes[benchmarkProcess].pid != os.Getpid() {
		t.Errorf("the processes are %+v, want this one as %s", processes, benchmarkProcess)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 17 1 1 0 -1 4194560 100 0 0 0 250 50 7 7 20 0 9 0 100 1000 10"
	for _, tt := range []struct {
		name, stat string
		want       process
		wantErr    bool
	}{
		{"user and system time, without the children's", "42 (etcd)" + rest, process{42, 17, 3}, false},
		{"a name with parentheses and spaces", "42 (a) b (c 1 2)" + rest, process{42, 17, 3}, false},
		{"truncated", "42 (etcd) S 17 1", process{}, true},
		{"empty", "", process{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat(tt.stat)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v", err)
			}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseMemory(t *testing.T) {
	const status = "Name:\tx\nVmPeak:\t 999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n"
	for _, tt := range []struct {
		key     string
		want    int64
		wantErr bool
	}{
		{"VmHWM", 2 << 20, false},
		{"VmRSS", 1 << 20, false},
		{"Threads", 0, true},
		{"VmSwap", 0, true},
	} {
		t.Run(tt.key, func(t *testing.T) {
			got, err := parseMemory(status, tt.key)
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("%d, error %v; want %d", got, err, tt.want)
			}
		})
	}
}

func TestParseIdle(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		idle, all  float64
		wantErr    bool
	}{
		{"iowait is idle, user includes guest", "cpu  1 2 3 10 5 6 7 8 100 100\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 15, 42, false},
		{"not the line of all CPUs", "cpu0 1 2 3 4 5 6 7 8 9 10\n", 0, 0, true},
		{"not a number", "cpu  1 2 3 x 5 6 7 8 9 10\n", 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			idle, all, err := parseIdle(tt.stat)
			if (err != nil) != tt.wantErr {
				t.Fatalf("error %v", err)
			}
			if err == nil && (idle != tt.idle || all != tt.all) {
				t.Errorf("idle %v of %v, want %v of %v", idle, all, tt.idle, tt.all)
			}
		})
	}
}

func TestNameOf(t *testing.T) {
	got := map[string]string{}
	for _, commandLine := range [][]string{
		{"/bin/controller", "-workers=8"},
		{"/bin/controlplane", "etcd", "--name=local"},
		{"/bin/controlplane", "kube-apiserver"},
		{"/bin/controlplane", "up"},
		{"sleep"},
	} {
		got[commandLine[len(commandLine)-1]] = nameOf(commandLine, "/bin/controller")
	}
	want := map[string]string{"-workers=8": controllerProcess, "--name=local": "etcd", "kube-apiserver": "kube-apiserver", "up": "", "sleep": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := nameOf(nil, ""); got != "" {
		t.Errorf("a process without a command line is %q", got)
	}
}

func TestDescends(t *testing.T) {
	all := map[int]process{1: {1, 0, 0}, 5: {5, 1, 0}, 6: {6, 5, 0}, 7: {7, 6, 0}, 9: {9, 8, 0}}
	for pid, want := range map[int]bool{1: false, 5: true, 6: true, 7: true, 9: false} {
		if got := descends(all, pid, 5); got != want {
			t.Errorf("%d descends from 5: %t, want %t", pid, got, want)
		}
	}
}
