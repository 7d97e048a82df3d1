// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	killed  = "killed"
	alive   = "alive"
	invalid = "invalid"
)

// result is a line of the results.
type result struct {
	id, position, state string
	tests               []string
	seconds             float64
	source              string
}

func (r result) line() string {
	return strings.Join([]string{r.id, r.position, r.state, strings.Join(r.tests, " "), fmt.Sprintf("%.1f", r.seconds), r.source}, "\t") + "\n"
}

// folder returns the package of the mutant.
func (r result) folder() string {
	file, _, _ := strings.Cut(r.position, ":")
	return folderOf(file)
}

// readResults returns the results of a file by the IDs of the mutants; the last one counts.
func readResults(path string) (map[string]result, error) {
	found := map[string]result{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 6 {
			return nil, fmt.Errorf("%s: a line has %d fields: %s", path, len(fields), lines.Text())
		}
		seconds, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found[fields[0]] = result{fields[0], fields[1], fields[2], strings.Fields(fields[3]), seconds, fields[5]}
	}
	return found, lines.Err()
}

// isKilledOnlyBy reports whether all tests that are known to kill a mutant match.
func (r result) isKilledOnlyBy(tests *regexp.Regexp) bool {
	return r.state == killed && !slices.ContainsFunc(r.tests, func(name string) bool { return !tests.MatchString(name[strings.Index(name, ":")+1:]) })
}

//go:embed survivors.txt
var survivors string

// accepted returns the reasons of survivors.txt by the IDs of the mutants.
func accepted(text string) (map[string]string, error) {
	found, last := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "\t"):
			last = line
			found[last] = ""
		case last == "":
			return nil, fmt.Errorf("a reason without a mutant: %s", line)
		default:
			found[last] += strings.TrimSpace(line) + " "
		}
	}
	for id, reason := range found {
		if reason == "" {
			return nil, fmt.Errorf("no reason for %s", id)
		}
	}
	return found, nil
}

// summarize writes totals, and the survivors that are not accepted.
func summarize(out io.Writer, results []result, accepted map[string]string) {
	type total struct{ mutants, own, root, other, simulation, alive, accepted int }
	totals := map[string]*total{"all": {}}
	var survivors []result
	var seconds float64
	for _, r := range results {
		seconds += r.seconds
		if r.state == invalid {
			continue
		}
		if totals[r.folder()] == nil {
			totals[r.folder()] = &total{}
		}
		_, isAccepted := accepted[r.id]
		if r.state == alive && !isAccepted {
			survivors = append(survivors, r)
		}
		for _, t := range []*total{totals["all"], totals[r.folder()]} {
			t.mutants++
			switch {
			case r.state == alive && isAccepted:
				t.accepted++
			case r.state == alive:
				t.alive++
			case strings.HasPrefix(r.tests[0], ".:TestSimulation/"):
				t.simulation++
			case strings.HasPrefix(r.tests[0], r.folder()+":"):
				t.own++
			case strings.HasPrefix(r.tests[0], ".:"):
				t.root++
			default:
				t.other++
			}
		}
	}
	fmt.Fprintf(out, "%-16s %7s  killed by %5s %5s %5s %10s  %6s %8s\n", "package", "mutants", "own", "root", "other", "simulation", "alive", "accepted")
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		t := totals[name]
		fmt.Fprintf(out, "%-16s %7d  %9s %5d %5d %5d %10d  %6d %8d\n", name, t.mutants, "", t.own, t.root, t.other, t.simulation, t.alive, t.accepted)
	}
	fmt.Fprintf(out, "%.0f s, %.1f s for each\n", seconds, seconds/float64(max(1, totals["all"].mutants)))
	slices.SortFunc(survivors, func(a, b result) int { return cmp.Compare(a.id, b.id) })
	for _, r := range survivors {
		fmt.Fprintf(out, "\n%s: %s\n%s\n", r.position, r.source, r.id)
	}
}
