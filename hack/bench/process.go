// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// processNames are the processes whose CPU is measured. The benchmark applies the Networks
// and runs the embedded Neutron.
var processNames = []string{controllerProcess, "kube-apiserver", "etcd", "kube-controller-manager", benchmarkProcess}

const benchmarkProcess = "benchmark"

// process has what the kernel reports about a process.
type process struct {
	pid, parent int
	// cpu is the CPU time that it has used, in seconds.
	cpu float64
}

// tick is the unit of times in /proc, in seconds. It is the same on all Linuxes.
const tick = 0.01

// parseStat parses /proc/PID/stat. The process's name in it, in parentheses, can contain spaces
// and parentheses.
func parseStat(stat string) (process, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 {
		return process{}, fmt.Errorf("%q does not have the format of /proc/PID/stat", stat)
	}
	var values [4]int
	pid, _, _ := strings.Cut(stat, " ")
	// The indexes start at the state, which is the third field.
	for i, text := range []string{pid, fields[1], fields[11], fields[12]} {
		var err error
		if values[i], err = strconv.Atoi(text); err != nil {
			return process{}, fmt.Errorf("/proc/PID/stat: %w", err)
		}
	}
	return process{pid: values[0], parent: values[1], cpu: float64(values[2]+values[3]) * tick}, nil
}

func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(stat))
}

// nameOf returns the name in processNames of the process with a command line, "" if it is
// another process. The processes of the control plane have the same executable.
func nameOf(commandLine []string, controller string) string {
	switch {
	case len(commandLine) == 0:
		return ""
	case commandLine[0] == controller:
		return controllerProcess
	case len(commandLine) > 1 && slices.Contains(processNames, commandLine[1]):
		return commandLine[1]
	}
	return ""
}

// family returns this process and those of its descendants that are in processNames, by name.
func family(controller string) (map[string]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		p, err := parseStat(string(stat))
		if err != nil {
			return nil, err
		}
		all[p.pid] = p
	}
	found := map[string]process{}
	for pid, p := range all {
		if !descends(all, pid, os.Getpid()) {
			continue
		}
		if pid == os.Getpid() {
			found[benchmarkProcess] = p
			continue
		}
		commandLine, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if the process has ended
		if name := nameOf(strings.Split(string(bytes.TrimRight(commandLine, "\x00")), "\x00"), controller); name != "" {
			found[name] = p
		}
	}
	return found, nil
}

func descends(all map[int]process, pid, from int) bool {
	for ; pid != 0; pid = all[pid].parent {
		if pid == from {
			return true
		}
	}
	return false
}

// memory returns the peak and the current resident memory of a process, in bytes.
func memory(pid int) (peak, resident int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	peak, errPeak := parseMemory(string(status), "VmHWM")
	resident, errNow := parseMemory(string(status), "VmRSS")
	return peak, resident, errors.Join(errPeak, errNow)
}

// parseMemory returns the value of a line such as "VmHWM:   1234 kB", in bytes.
func parseMemory(status, key string) (int64, error) {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, key+":")
		if !ok {
			continue
		}
		number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !ok {
			return 0, fmt.Errorf("%q is not in kB", line)
		}
		kilobytes, err := strconv.ParseInt(number, 10, 64)
		return kilobytes * 1024, err
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", key)
}

// parseIdle parses the first line of /proc/stat. It returns the idle time and the whole time
// of all CPUs together, in the same unit.
func parseIdle(stat string) (idle, all float64, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("%q does not have the format of the first line of /proc/stat", line)
	}
	// user nice system idle iowait irq softirq steal; user already includes the fields after these.
	for i, text := range fields[1:9] {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if all += value; i == 3 || i == 4 {
			idle += value
		}
	}
	return idle, all, nil
}

func readIdle() (idle, all float64, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseIdle(string(stat))
}

const (
	// calm is the part of the CPU that may be in use when a measurement begins.
	calm = 0.08
	// maxCalmDown is the longest wait for that.
	maxCalmDown = 30 * time.Second
)

// settle waits until the machine is idle, at most for that time but at least for a second: a
// control plane is busy after its start. It returns the part of the CPU that was in use in the last second.
func settle(ctx context.Context, atMost time.Duration) (busy float64, err error) {
	idle, all, err := readIdle()
	for deadline := time.Now().Add(atMost); err == nil; {
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
		wasIdle, was := idle, all
		if idle, all, err = readIdle(); err != nil {
			break
		}
		busy = 1 - (idle-wasIdle)/(all-was)
		if busy < calm || time.Now().After(deadline) {
			return busy, nil
		}
	}
	return 0, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rest waits until a process has used almost no CPU for half a second.
func rest(ctx context.Context, pid int) error {
	const window, most = 500 * time.Millisecond, 2 * tick
	before, err := readProcess(pid)
	for err == nil {
		if err := pause(ctx, window); err != nil {
			return err
		}
		var now process
		if now, err = readProcess(pid); err == nil && now.cpu-before.cpu <= most {
			return nil
		}
		before = now
	}
	return err
}
