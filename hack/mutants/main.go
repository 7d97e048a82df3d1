// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// options are the flags.
type options struct {
	count, jobs                         int
	seed, match, tests, stages, results string
	broken, list, summary               bool
}

func main() {
	var o options
	r := runner{usual: map[string]time.Duration{}}
	flag.IntVar(&o.count, "n", 320, "how many mutants")
	flag.StringVar(&o.seed, "seed", "1", "another seed chooses other mutants")
	flag.IntVar(&o.jobs, "jobs", 1, "how many mutants run at once")
	flag.StringVar(&o.match, "match", "", "only the mutants whose IDs match this regular expression")
	flag.StringVar(&o.stages, "stages", "known,own,root,others",
		"the tests that a mutant has to survive: those of broken.go; of its package; of the controller; of the packages that import its package; simulation")
	flag.IntVar(&r.seeds, "seeds", 200, "how many seeds the stage simulation has")
	flag.BoolVar(&r.all, "all", false, "record all tests that kill a mutant")
	flag.StringVar(&o.tests, "tests", "", "run those mutants again that only tests whose names match have killed")
	flag.StringVar(&r.skip, "skip", "", "tests that do not run, with -tests: those that are to be deleted")
	flag.StringVar(&o.results, "results", "", `the file with the results; "": one in hack/_output/mutants, for each mode`)
	flag.BoolVar(&o.broken, "broken", false, "run the controllers of broken.go")
	flag.BoolVar(&o.list, "list", false, "print the mutants, and run none")
	flag.BoolVar(&o.summary, "summary", false, "print the summary, and run none")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := o.run(ctx, &r); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// path returns the file with the results of this mode.
func (o options) path(r *runner) string {
	name := "mutants"
	if o.broken {
		name = "broken"
	}
	if r.all {
		name += "-all"
	}
	return cmp.Or(o.results, filepath.Join(r.dir, name+".tsv"))
}

func (o options) run(ctx context.Context, r *runner) (err error) {
	if r.root, err = stack.Root(); err != nil {
		return err
	}
	r.dir = filepath.Join(r.root, "hack", "_output", "mutants")
	r.stages = strings.Split(o.stages, ",")
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	all, err := o.choose(r)
	if err != nil {
		return err
	}
	if o.list {
		for _, m := range all[:min(o.count, len(all))] {
			fmt.Printf("%s\t%s\t%s\n", m.id, m.position(), m.source)
		}
		return nil
	}
	reasons, err := accepted(survivors)
	if err != nil {
		return err
	}
	path := o.path(r)
	if o.tests != "" {
		path = strings.TrimSuffix(path, ".tsv") + "-again.tsv"
	}
	done, err := readResults(path)
	if err != nil {
		return err
	}
	if !o.summary {
		if err := o.judgeAll(ctx, r, all, path, done); err != nil {
			return err
		}
	}
	maps.DeleteFunc(done, func(id string, _ result) bool {
		return !slices.ContainsFunc(all, func(m mutant) bool { return m.id == id })
	})
	summarize(os.Stdout, slices.Collect(maps.Values(done)), reasons)
	return nil
}

// choose returns the mutants in the order in which they are run, more than are needed: some of them do not compile.
func (o options) choose(r *runner) ([]mutant, error) {
	var all []mutant
	var err error
	if o.broken {
		all, err = readBroken(r.root)
	} else {
		all, err = candidates(r.root, o.seed)
	}
	if err != nil {
		return nil, err
	}
	match, err := regexp.Compile(o.match)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !match.MatchString(m.id) })
	if o.tests == "" {
		return all, nil
	}
	tests, err := regexp.Compile(o.tests)
	if err != nil {
		return nil, err
	}
	before, err := readResults(o.path(r))
	return slices.DeleteFunc(all, func(m mutant) bool { return !before[m.id].isKilledOnlyBy(tests) }), err
}

// readBroken returns the mutants of broken.go.
func readBroken(root string) ([]mutant, error) {
	var all []mutant
	var errs []error
	for _, b := range brokenByHand {
		text, err := os.ReadFile(filepath.Join(root, b.file))
		if err != nil {
			return nil, err
		}
		m, err := b.mutant(string(text))
		all, errs = append(all, m), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// mutant returns what a controller that is broken by hand makes of its file.
func (b broken) mutant(text string) (mutant, error) {
	before, _, _ := strings.Cut(text, b.edits[0])
	m := mutant{
		id: b.name, file: b.file, tests: b.tests, run: b.run,
		line: strings.Count(before, "\n") + 1, column: len(before) - strings.LastIndex(before, "\n"), source: short(b.edits[0]),
	}
	for i := 0; i < len(b.edits); i += 2 {
		if n := strings.Count(text, b.edits[i]); n != 1 {
			return m, fmt.Errorf("%s: %q is %d times in %s: mend the row in broken.go", b.name, b.edits[i], n, b.file)
		}
		text = strings.Replace(text, b.edits[i], b.edits[i+1], 1)
	}
	m.text = text
	return m, nil
}

// judgeAll runs mutants in their order until there are enough that compile, and adds their results to those that are done.
func (o options) judgeAll(ctx context.Context, r *runner, all []mutant, path string, done map[string]result) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lock, err := os.Create(filepath.Join(r.dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another run builds its mutants in %s: %w", r.dir, err)
	}
	var mu sync.Mutex
	judge := func(ctx context.Context, m mutant) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		started := time.Now()
		found, err := r.judge(ctx, m)
		if err != nil {
			return err
		}
		row := result{m.id, m.position(), alive, found.tests, time.Since(started).Seconds(), m.source}
		switch {
		case found.isInvalid:
			row.state = invalid
		case len(found.tests) > 0:
			row.state = killed
		}
		mu.Lock()
		defer mu.Unlock()
		done[m.id] = row
		fmt.Fprint(os.Stderr, row.line())
		_, err = file.WriteString(row.line())
		return err
	}
	// What does not compile is replaced by the next candidates, until nothing is missing.
	for missing := o.count; missing > 0 && len(all) > 0; {
		n := min(missing, len(all))
		todo := slices.Clone(all[:n])
		todo = slices.DeleteFunc(todo, func(m mutant) bool { _, isDone := done[m.id]; return isDone })
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(o.jobs)
		for _, m := range todo {
			group.Go(func() error { return judge(ctx, m) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, m := range all[:n] {
			if done[m.id].state != invalid {
				missing--
			}
		}
		all = all[n:]
	}
	return nil
}
