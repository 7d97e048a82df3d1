// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// show formats batches as "fresh N×connections: scenarios".
func show(batches []batch) (lines []string) {
	for _, b := range batches {
		var names []string
		for _, s := range b.scenarios {
			names = append(names, s.name)
		}
		line := fmt.Sprintf("%d×%d: %s", b.n, b.connections, strings.Join(names, " "))
		if b.fresh {
			line = "fresh " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{"all except grow, blocked and beside", "", []string{
			"fresh 50×32: react", "fresh 500×32: converge apply raw writes", "fresh 5000×8: fair", "1000×32: restart steady edit drift delete",
		}},
		{"the real Neutron leaves out the scenarios that observe", "-neutron=real", []string{
			"fresh 500×32: converge apply raw writes", "1000×32: restart edit delete",
		}},
		{"only fresh scenarios run with each number of connections", "-n 10,20 -connections 1,2 raw edit", []string{
			"fresh 10×1: raw", "fresh 10×2: raw", "fresh 20×1: raw", "fresh 20×2: raw", "10×1: edit", "20×1: edit",
		}},
		{"-connections applies to all scenarios", "-n 10 -connections 1 fair converge", []string{"fresh 10×1: fair converge"}},
		{"grow has increasing sizes", "grow", []string{
			"100×32: restart steady", "1000×32: restart steady", "10000×32: restart steady", "50000×32: restart",
		}},
		{"blocked takes minutes, so it must be named", "blocked", []string{"fresh 500×32: blocked"}},
		{"controllers side by side alternate, and connections are their own", "-n 10,20 -connections 1,2 -with samplecrd-controller.yaml beside raw", []string{
			"fresh 10×0: beside", "fresh 10×1: raw", "fresh 10×2: raw", "fresh 20×0: beside", "fresh 20×1: raw", "fresh 20×2: raw",
		}},
		{"nothing is measured twice", "steady grow steady", []string{
			"100×32: restart steady", "1000×32: steady restart", "10000×32: restart steady", "50000×32: restart",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, batches, err := parse(strings.Fields(tt.args))
			must(t, err)
			if diff := cmp.Diff(tt.want, show(batches)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	hideStderr(t)
	for _, args := range []string{
		"-n 0", "-n 70000", "-n 1,x", "-connections -1", "-runs 0", "-neutron fake", "converg", "-neutron real steady", "-no-such-flag",
		"beside", "-with samplecrd-controller.yaml", "-with samplecrd-controller.yaml converge", "-with no-such-file beside",
		"-with samplecrd-controller.yaml -neutron real beside",
	} {
		if _, _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

// hideStderr keeps the output of the package flag out of the test's log.
func hideStderr(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	stderr := os.Stderr
	os.Stderr = w
	go io.Copy(io.Discard, r)
	t.Cleanup(func() {
		os.Stderr = stderr
		w.Close()
	})
}

func TestRunsAlternate(t *testing.T) {
	b := batch{scenarios: scenarios[:3]}
	var got []string
	for run := range 3 {
		for _, s := range b.turn(run) {
			got = append(got, s.name)
		}
	}
	want := strings.Fields("converge apply raw  raw apply converge  converge apply raw")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
