// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs tests on mutants.
type runner struct {
	// root is the top of the repository, dir is for what the runner writes.
	root, dir string
	// stages are the tests that a mutant has to survive, in this order.
	stages []string
	// seeds is the number of seeds of the stage simulation.
	seeds int
	// all is set to look for all tests that kill a mutant. Tests that skip matches do not run.
	all  bool
	skip string

	// building is locked for writing while no mutant may be built. It guards what follows.
	building sync.RWMutex
	// usual has how long a package's tests take on the code as it is.
	usual map[string]time.Duration
	// kept are the files of the build cache that were not built from mutants.
	kept map[string]bool
}

const module = "github.com/samplecrd/samplecrd-controller"

// memory is the most that a mutant may use, in KiB.
const memory = 8 << 20

// outcome is what tests said of a mutant.
type outcome struct {
	// isInvalid is set if it does not compile.
	isInvalid bool
	// tests are those that failed, as "PACKAGE:TEST".
	tests []string
}

// judge runs a mutant's stages until one kills it, or all stages with all set.
func (r *runner) judge(ctx context.Context, m mutant) (outcome, error) {
	dir, err := os.MkdirTemp(r.dir, "mutant-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return outcome{}, err
	}
	var total outcome
	seen := map[string]bool{}
	for _, stage := range r.stages {
		packages, err := r.packages(ctx, stage, m)
		if err != nil {
			return outcome{}, err
		}
		for _, pkg := range packages {
			if seen[pkg] && stage != "known" && stage != "simulation" {
				continue
			}
			seen[pkg] = stage != "known"
			found, err := r.test(ctx, m, stage, pkg, overlay, filepath.Join(dir, "test"))
			if err != nil {
				return outcome{}, err
			}
			total.tests = append(total.tests, found.tests...)
			if found.isInvalid || len(total.tests) > 0 && !r.all {
				return outcome{found.isInvalid, total.tests}, nil
			}
		}
	}
	return total, nil
}

// overlay writes a mutant, and what tells the go command to use it.
func (r *runner) overlay(dir string, m mutant) (string, error) {
	path, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, m.file): path}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(path, []byte(m.text), 0o600), os.WriteFile(overlay, replaced, 0o600))
}

// packages returns the packages whose tests a stage runs.
func (r *runner) packages(ctx context.Context, stage string, m mutant) ([]string, error) {
	switch stage {
	case "known":
		if m.tests == "" {
			return nil, nil
		}
		return []string{m.tests}, nil
	case "own":
		return []string{m.folder()}, nil
	case "root", "simulation":
		return []string{"."}, nil
	case "others":
		return r.importers(ctx, m.folder())
	}
	return nil, fmt.Errorf("there is no stage %q", stage)
}

// importers returns the packages that have tests and import a package.
func (r *runner) importers(ctx context.Context, folder string) ([]string, error) {
	list := fmt.Sprintf(`{{$dir := .Dir}}{{if .TestGoFiles}}{{range .Imports}}{{if eq . "%s"}}{{$dir}}{{"\n"}}{{end}}{{end}}{{end}}`, path.Join(module, folder))
	out, err := r.command(ctx, "go", "list", "-f", list, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var found []string
	for _, dir := range strings.Fields(string(out)) {
		found = append(found, folderOf(strings.TrimPrefix(dir+"/any", r.root+"/")))
	}
	return found, nil
}

func (r *runner) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	c.Env = append(os.Environ(), "GOCACHE="+filepath.Join(r.dir, "cache"), "KUBE_CACHE_MUTATION_DETECTOR=true")
	c.WaitDelay = 10 * time.Second
	return c
}

// test builds a package's tests with a mutant and runs them.
func (r *runner) test(ctx context.Context, m mutant, stage, pkg, overlay, binary string) (outcome, error) {
	usual, err := r.baseline(ctx, pkg)
	if err != nil {
		return outcome{}, err
	}
	if usual == 0 { // it has no tests
		return outcome{}, nil
	}
	r.building.RLock()
	text, err := r.build(ctx, pkg, binary, "-overlay="+overlay)
	r.building.RUnlock()
	if err != nil {
		if ctx.Err() == nil && strings.Contains(text, ".go:") {
			return outcome{isInvalid: true}, nil
		}
		return outcome{}, fmt.Errorf("%s: build the tests of %s: %w\n%s", m.id, pkg, err, text)
	}
	if stage == "simulation" {
		return r.simulate(ctx, binary)
	}
	skip := r.skip
	if stage != "known" && slices.Contains(r.stages, "simulation") {
		skip = either(skip, "^TestSimulation$")
	}
	var failed []string
	for range 10 { // a panic ends the process, and the tests after it are still to run
		// A known test is one of few, and -short leaves out most of its cases.
		args := []string{fmt.Sprint("-test.short=", stage != "known"), "-test.timeout=" + (4*usual + time.Minute).String(), "-test.skip=" + skip}
		if !r.all {
			args = append(args, "-test.failfast")
		}
		if stage == "known" {
			args = append(args, "-test.run="+m.run)
		}
		found, isComplete, err := r.run(ctx, pkg, binary, args...)
		if err != nil {
			return outcome{}, err
		}
		failed = append(failed, found...)
		if !r.all || isComplete || len(found) == 0 {
			break
		}
		for _, test := range found {
			skip = either(skip, "^"+test+"$")
		}
	}
	var o outcome
	for _, test := range failed {
		if name := pkg + ":" + test; !slices.Contains(o.tests, name) {
			o.tests = append(o.tests, name)
		}
	}
	return o, nil
}

func either(a, b string) string { return strings.Trim(a+"|"+b, "|") }

// simulate runs simulations, ten at a time, until one of them fails.
func (r *runner) simulate(ctx context.Context, binary string) (outcome, error) {
	for seed := 1; seed <= r.seeds; seed += 10 {
		failed, _, err := r.run(ctx, ".", binary, "-test.run=^TestSimulation$", "-test.timeout=30m", fmt.Sprint("-seed=", seed), "-seeds=10")
		if err != nil {
			return outcome{}, err
		}
		if len(failed) > 0 {
			slices.SortFunc(failed, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }) // by number
			return outcome{tests: []string{".:" + failed[0]}}, nil
		}
	}
	return outcome{}, nil
}

// baseline returns how long a package's tests take without a mutant, and 0 if it has none. All have to pass.
func (r *runner) baseline(ctx context.Context, pkg string) (time.Duration, error) {
	r.building.Lock()
	defer r.building.Unlock()
	r.removeMutants()
	if usual, ok := r.usual[pkg]; ok {
		return usual, nil
	}
	binary := filepath.Join(r.dir, "baseline")
	defer os.Remove(binary)
	if text, err := r.build(ctx, pkg, binary); err != nil {
		return 0, fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, text)
	}
	r.kept = r.cached()
	if _, err := os.Stat(binary); err != nil {
		r.usual[pkg] = 0
		return 0, nil
	}
	started := time.Now()
	failed, _, err := r.run(ctx, pkg, binary, "-test.short", "-test.skip="+r.skip)
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("%s fails without any mutant: %q", pkg, failed)
	}
	r.usual[pkg] = time.Since(started)
	fmt.Fprintf(os.Stderr, "the tests of %s take %s\n", pkg, r.usual[pkg].Round(time.Second/10))
	return r.usual[pkg], err
}

func (r *runner) build(ctx context.Context, pkg, binary string, flags ...string) (string, error) {
	out, err := r.command(ctx, "go", slices.Concat([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, flags, []string{pkg})...).CombinedOutput()
	return string(out), err
}

// removeMutants removes what was built from mutants, which is 30 to 90 MB for each. Nothing is built meanwhile.
func (r *runner) removeMutants() {
	for path := range r.cached() {
		if r.kept != nil && !r.kept[path] {
			_ = os.Remove(path)
		}
	}
}

func (r *runner) cached() map[string]bool {
	found := map[string]bool{}
	_ = filepath.WalkDir(filepath.Join(r.dir, "cache"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found[path] = true
		}
		return nil
	})
	return found
}

var (
	failure = regexp.MustCompile(`^--- FAIL: (\S+)`)
	seed    = regexp.MustCompile(`^ +--- FAIL: (TestSimulation/\S+)`)
	running = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +([^/\s]+)`)
)

// run runs tests, and returns those that failed, and whether all of them ended.
func (r *runner) run(ctx context.Context, pkg, binary string, args ...string) (failed []string, isComplete bool, err error) {
	c := r.command(ctx, "sh", slices.Concat([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), binary, "-test.v"}, args)...)
	c.Dir = filepath.Join(r.root, pkg)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, false, err
	}
	if err := c.Start(); err != nil {
		return nil, false, err
	}
	var last string
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if match := failure.FindSubmatch(line); match != nil && string(match[1]) != "TestSimulation" {
			failed = append(failed, string(match[1]))
		} else if match := seed.FindSubmatch(line); match != nil {
			failed = append(failed, string(match[1]))
		} else if match := running.FindSubmatch(line); match != nil {
			last = string(match[1])
		}
		isComplete = isComplete || bytes.Equal(line, []byte("FAIL\n")) || bytes.Equal(line, []byte("PASS\n"))
		if err != nil {
			break
		}
	}
	err = c.Wait()
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if err != nil && len(failed) == 0 {
		failed = []string{last}
	}
	return failed, isComplete, nil
}
