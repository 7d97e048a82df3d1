// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// TestTheWalkthroughWithMachines runs the walkthrough with the real Neutron and machines on its networks. When each step was
// checked, it ends local-up with SIGKILL, as a crash does. Everything that local-up had started must then end by itself.
func TestTheWalkthroughWithMachines(t *testing.T) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(root, "hack", "_output")
	dirs := []string{filepath.Join(output, "once"), filepath.Join(output, "neutron", "once")}
	before := ofTheHost(t, dirs)
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "local-up.sh"), "-once", "-neutron=real", "-traffic")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var found, checked bool
	for lines := bufio.NewScanner(io.TeeReader(stdout, os.Stdout)); !checked && lines.Scan(); {
		switch {
		case strings.HasPrefix(lines.Text(), "==> It reaches an address outside"):
			found = len(processes(t, dirs)) > 0
		case strings.HasSuffix(lines.Text(), allChecked):
			checked = true
			_ = cmd.Process.Signal(syscall.SIGKILL)
		}
	}
	switch err := cmd.Wait(); {
	case cmd.ProcessState.ExitCode() == 3 && os.Getenv("CI") != "true":
		t.Skip("the real Neutron with its agents is not available here")
	case !checked:
		t.Fatalf("local-up: %v", err)
	case !found:
		t.Fatal("no process of local-up was found while machines were there: this test looks for the wrong ones")
	}
	waitUntilEnded(t, dirs)
	for what := range ofTheHost(t, dirs) {
		if !before[what] {
			t.Errorf("%s was not there before", what)
		}
	}
}

// waitUntilEnded waits until no process uses the folders.
func waitUntilEnded(t *testing.T, dirs []string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		left := processes(t, dirs)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there, %s after local-up was killed:\n%s", patience, strings.Join(slices.Sorted(maps.Values(left)), "\n"))
		}
	}
}

// processes returns the command lines of the processes that use one of the folders, by ID: it is in their arguments, in their
// environment, or they work or were started in it.
func processes(t *testing.T, dirs []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	ids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		// What cannot be read belongs to a process that has ended.
		arguments, _ := os.ReadFile(filepath.Join(id, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(id, "environ"))
		folder, _ := os.Readlink(filepath.Join(id, "cwd"))
		program, _ := os.Readlink(filepath.Join(id, "exe"))
		all := strings.Join([]string{string(arguments), string(environment), folder + "/", program}, "\x00")
		if slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(all, dir+"/") }) {
			found[id] = strings.ReplaceAll(string(arguments), "\x00", " ")
		}
	}
	return found
}

// ofTheHost returns what this computer has of what Neutron's agents make: network interfaces with their addresses, routes, network
// namespaces, and mounts with one of the folders.
func ofTheHost(t *testing.T, dirs []string) map[string]bool {
	t.Helper()
	has := map[string]bool{}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs() // it may be gone
		has[fmt.Sprintf("the interface %s with %v", i.Name, addresses)] = true
	}
	namespaces, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, n := range namespaces {
		has["the network namespace "+n.Name()] = true
	}
	addLines := func(what, file string, isAdded func(string) bool) {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if isAdded(line) {
				has[what+" "+strings.TrimSpace(line)] = true
			}
		}
	}
	addLines("the route", "/proc/net/route", func(string) bool { return true })
	addLines("the mount", "/proc/self/mountinfo", func(line string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(line, dir) })
	})
	return has
}
