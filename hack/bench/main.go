// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the controller's executable between a real control plane and a
// Neutron: its requests to both sides, and the CPU and memory of its process.
//
// Neutron is the embedded one, which answers after a set latency, or the real one. The
// benchmark counts the controller's requests to the embedded Neutron. The controller itself
// counts those to the real one, and kube-apiserver counts those to Kubernetes.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// options are the values of the flags.
type options struct {
	sizes, connections ints
	runs, workers      int
	latency, resync    time.Duration
	neutron            string
	controller, flags  string
	crd                string
	noRules            bool
	draw               string
	with               string
	cpuProfile         bool
	memoryProfile      bool
	names              []string
}

const (
	embeddedNeutron = "embedded"
	realNeutron     = "real"
)

// ints is a flag.Value of numbers, separated by commas.
type ints []int

func (v *ints) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*v)), " ", ","), "[]")
}

// Set replaces the numbers with those in text.
func (v *ints) Set(text string) error {
	*v = nil
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return errors.New("must be numbers above 0, separated by commas")
		}
		*v = append(*v, n)
	}
	return nil
}

func main() {
	o, batches, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	work := run
	if o.draw != "" {
		work = redraw
	}
	if err := work(ctx, o, batches); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, batches []batch, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Var(&o.sizes, "n", "the number of `Networks`, up to 65536 (default: each scenario's own number); with several numbers, separated by commas, each scenario runs with each of them")
	flags.IntVar(&o.runs, "runs", 5, "the number of runs of each scenario; the table has the medians")
	flags.DurationVar(&o.latency, "latency", 50*time.Millisecond, "the time that the embedded Neutron takes for each answer")
	flags.Var(&o.connections, "connections", "the controller's -neutron-connections, and the `number` of connections of the scenario raw; with several numbers, the scenarios that start with an empty cluster run with each of them (default 32; 8 for fair)")
	flags.IntVar(&o.workers, "workers", 0, "the controller's -workers (default four times its connections)")
	flags.DurationVar(&o.resync, "resync", 10*time.Second, "the controller's -resync")
	flags.StringVar(&o.neutron, "neutron", embeddedNeutron, "the `Neutron` to use: embedded or real")
	flags.StringVar(&o.controller, "controller", "", "the `executable` of the controller to measure (default: built from this repository)")
	flags.StringVar(&o.flags, "flags", "", "more `flags` for the controller, separated by spaces")
	flags.StringVar(&o.crd, "crd", "", "the `file or directory` of the CustomResourceDefinitions (default: artifacts/crd)")
	flags.BoolVar(&o.noRules, "without-rules", false, "remove the x-kubernetes-validations from the CustomResourceDefinitions: what they cost")
	flags.BoolVar(&o.cpuProfile, "cpuprofile", false, "make one more run of each scenario, with a CPU profile of the controller")
	flags.BoolVar(&o.memoryProfile, "memprofile", false, "make one more run of each scenario, with a memory profile of the controller at the end")
	flags.StringVar(&o.with, "with", "", "for the scenario beside: the `files` that describe the controllers, separated by commas")
	flags.StringVar(&o.draw, "draw", "", "measure nothing: draw bench.svg from these `files`, bench.json of earlier runs, separated by commas")
	flags.Usage = func() { usage(flags) }
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	for _, n := range o.sizes {
		if n > 1<<16 {
			return o, nil, fmt.Errorf("-n=%d: must be at most 65536, the number of CIDRs", n)
		}
	}
	switch {
	case o.workers < 0:
		return o, nil, errors.New("-workers must be at least 1")
	case o.runs < 1:
		return o, nil, errors.New("-runs must be at least 1")
	case o.neutron != embeddedNeutron && o.neutron != realNeutron:
		return o, nil, errors.New("-neutron must be embedded or real")
	case runtime.GOOS != "linux":
		return o, nil, errors.New("the benchmark runs on Linux only: it reads /proc")
	}
	o.names = flags.Args()
	known, err := o.scenarios()
	if err != nil {
		return o, nil, err
	}
	batches, err = plan(o.names, o.sizes, o.connections, o.neutron == realNeutron, known)
	return o, batches, err
}

// scenarios returns all scenarios except grow.
func (o *options) scenarios() ([]*scenario, error) {
	switch named := slices.Contains(o.names, besideName); {
	case named && o.with == "":
		return nil, fmt.Errorf("scenario %s needs -with", besideName)
	case !named && o.with != "":
		return nil, fmt.Errorf("-with needs the scenario %s", besideName)
	case !named:
		return scenarios, nil
	}
	known := slices.Clone(scenarios)
	peers, err := readPeers(o.with)
	for _, p := range peers {
		known = append(known, besideOf(p))
	}
	return known, err
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, `bench.sh measures the controller between a real control plane and a Neutron.

Usage: hack/bench.sh [flags] [SCENARIO...]

Scenarios (all except create, blocked, grow and beside, if none is named):
`)
	for _, s := range scenarios {
		fmt.Fprintf(out, "  %-9s %s (N = %d)\n", s.name, s.what, s.n)
	}
	fmt.Fprintf(out, "  %-9s restart and steady with increasing numbers of Networks, up to %d\n", growName, grow[len(grow)-1].n)
	fmt.Fprintf(out, "  %-9s controllers side by side: each runs, and 8 clients create the objects of N networks, then delete them (-with; hack/README.md has an example)\n\n", besideName)
	fmt.Fprint(out, "The times p50, p95 and p99 are those of single Networks, from the client's request until the Network\nis Ready. In converge and fair they begin with the start of the controller; in react they end with\nthe first request to Neutron.\n\n")
	flags.PrintDefaults()
}

func run(ctx context.Context, o options, batches []batch) error {
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	results, err := l.measureAll(ctx, batches)
	// Report also the results from before a failure.
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, l.report(os.Stdout, results))
}

// measureAll makes all runs. It returns the results so far together with an error.
func (l *lab) measureAll(ctx context.Context, batches []batch) (results []Result, err error) {
	var shared *stand
	defer func() {
		if shared != nil {
			err = errors.Join(err, shared.close())
		}
	}()
	for _, b := range batches {
		if !b.fresh && shared == nil {
			if shared, err = l.open(ctx, networksToo); err != nil {
				return results, err
			}
		}
		of, err := l.measure(ctx, b, shared)
		results = append(results, of...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// measure makes all runs of a batch. It returns the results so far together with an error.
func (l *lab) measure(ctx context.Context, b batch, shared *stand) (results []Result, err error) {
	samples, err := l.sample(ctx, b, shared)
	for _, sc := range b.scenarios {
		if len(samples[sc]) > 0 {
			results = append(results, Result{Scenario: sc.name, Controller: sc.controller, N: b.n, Connections: b.connections, Workers: l.workersFor(b.connections), Runs: samples[sc], Median: summarize(samples[sc])})
		}
	}
	if err != nil || !l.cpuProfile && !l.memoryProfile {
		return results, err
	}
	for i, sc := range b.scenarios {
		if sc.name == rawName || sc.name == writesName || sc.name == besideName {
			continue
		}
		if err := l.profile(ctx, sc, b, shared, results[i].Median); err != nil {
			return results, fmt.Errorf("%s, N = %d, run for a profile: %w", sc.name, b.n, err)
		}
	}
	return results, nil
}

// sample makes the runs whose results count.
func (l *lab) sample(ctx context.Context, b batch, shared *stand) (map[*scenario][]Sample, error) {
	samples := map[*scenario][]Sample{}
	for run := range l.runs {
		for _, sc := range b.turn(run) {
			sample, err := l.once(ctx, sc, b, shared)
			if err != nil {
				return samples, fmt.Errorf("%s, N = %d: %w", sc.name, b.n, err)
			}
			samples[sc] = append(samples[sc], sample)
			fmt.Fprintf(os.Stderr, "==> %-8s N = %-6d %s  run %d of %d: %s\n", sc.name, b.n, cmp.Or(sc.controller, fmt.Sprintf("%d connections", b.connections)), run+1, l.runs, seconds(sample.Seconds))
		}
	}
	return samples, nil
}

// profile makes one more run, whose result does not count.
func (l *lab) profile(ctx context.Context, sc *scenario, b batch, shared *stand, median Sample) error {
	length := time.Duration(median.Seconds * float64(time.Second))
	if sc.name == steadyName || sc.name == "drift" { // the run first waits for a relist
		length += l.resync + l.resync/10
	}
	l.profiles = l.profilesOf(fmt.Sprintf("%s-%d", sc.name, b.n), length)
	defer func() { l.profiles = nil }()
	if _, err := l.once(ctx, sc, b, shared); err != nil || !l.cpuProfile {
		return err
	}
	top, err := l.profiles.top(ctx)
	fmt.Fprintf(os.Stderr, "%s, N = %d:\n%s", sc.name, b.n, top)
	return err
}

// once makes one run.
func (l *lab) once(ctx context.Context, sc *scenario, b batch, shared *stand) (sample Sample, err error) {
	// Much longer than any run takes, so that only a run that hangs times out. Of another
	// controller, only the latency is known.
	each := 100 * time.Millisecond
	if sc.controller != "" {
		each += 20 * l.latency
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute+time.Duration(b.n)*each)
	defer cancel()
	s := shared
	if sc.fresh {
		if s, err = l.open(ctx, sc.with); err != nil {
			return sample, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
	} else if err := s.prepare(ctx, b.n); err != nil {
		return sample, fmt.Errorf("prepare: %w", err)
	}
	return sc.run(ctx, s, b.n, b.connections)
}

// report prints the results, and writes bench.json and bench.svg.
func (l *lab) report(out io.Writer, results []Result) error {
	fmt.Fprintf(out, "\nNeutron: %s; %d CPUs, %s; medians of %d runs", l.neutronText(), runtime.NumCPU(), runtime.Version(), l.runs)
	isBeside := func(r Result) bool { return r.Scenario == besideName }
	if own := slices.DeleteFunc(slices.Clone(results), isBeside); len(own) > 0 {
		fmt.Fprintf(out, "; flags of the controller: -resync=%s %s\n\n", l.resync, l.flags)
		writeOwn(out, own)
	} else {
		fmt.Fprintln(out)
	}
	writeBeside(out, results)
	text, err := json.MarshalIndent(map[string]any{
		"neutron": l.neutronText(), "resyncSeconds": l.resync.Seconds(), "flags": l.flags,
		"cpus": runtime.NumCPU(), "go": runtime.Version(), "results": results,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "bench.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "bench.svg"), svg(charts(results)), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "The figures of each run are in %s, the curves in bench.svg in the same directory.\n", filepath.Join(l.dir, "bench.json"))
	return nil
}

// writeOwn prints the results of all scenarios except beside.
func writeOwn(out io.Writer, results []Result) {
	writeTable(out, results)
	fmt.Fprintln(out)
	writeCPU(out, results)
	fmt.Fprintln(out)
	writeRatios(out, results)
	writeEdits(out, results)
	writeBlocked(out, results)
	writeGrowth(out, results)
}

// redraw draws the figures of earlier runs in one picture.
func redraw(_ context.Context, o options, _ []batch) error {
	var results []Result
	for file := range strings.SplitSeq(o.draw, ",") {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var figures struct{ Results []Result }
		if err := json.Unmarshal(text, &figures); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		results = append(results, figures.Results...)
	}
	root, err := stack.Root()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "hack", "_output", "bench", "bench.svg"), svg(charts(results)), 0o644)
}

// neutronText describes the Neutron for the report.
func (l *lab) neutronText() string {
	if l.neutron == realNeutron {
		return realNeutron
	}
	return fmt.Sprintf("%s, each answer after %s", l.neutron, l.latency)
}
