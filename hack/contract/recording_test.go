// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

const (
	recording = "testdata/answers.txt"
	// verified has the packages that all of the recording came from, and its hash.
	verified = "testdata/verified.txt"
	// unrecorded has rows in the form of the recording that only the embedded Neutron answers. doc.go says why.
	unrecorded = "testdata/unrecorded.txt"
)

// row is one clause of the contract. doc.go describes how it is written.
type row struct {
	// comment has the lines before it that begin with //.
	comment, name string
	// flag is alone, paged or whole; empty for most rows.
	flag string
	// answers are the requests, each followed by its answer if it was recorded.
	answers string
	// answered: the answers are of this run.
	answered bool
}

var titleForm = regexp.MustCompile(`^# (.+?)(?: \[(alone|paged|whole)\])?\n$`)

// load reads the rows of a file.
func load(t *testing.T, file string) []*row {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	var all []*row
	comment, names := "", map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		title := titleForm.FindStringSubmatch(line)
		switch {
		case title != nil:
			if names[title[1]] {
				t.Errorf("two rows have the name %q", title[1])
			}
			names[title[1]] = true
			all = append(all, &row{comment: comment, name: title[1], flag: title[2]})
			comment = ""
		case strings.HasPrefix(line, "//"), len(all) == 0, comment != "":
			comment += line
		case line != "\n":
			all[len(all)-1].answers += line
		}
	}
	return all
}

// requests returns the lines of the row that are requests.
func (r *row) requests() []string {
	var all []string
	for line := range strings.Lines(r.answers) {
		if !strings.HasPrefix(line, "    ") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// gives reports whether one of the requests has this value of a field.
func (r *row) gives(value string) bool {
	return slices.ContainsFunc(r.requests(), func(request string) bool {
		return strings.Contains(request, ": "+value+",") || strings.Contains(request, ": "+value+"}")
	})
}

// write writes the recording, and what it is from.
func write(t *testing.T, rows []*row) {
	t.Helper()
	var b strings.Builder
	all := true
	for _, r := range rows {
		all = all && r.answered
		flag := ""
		if r.flag != "" {
			flag = " [" + r.flag + "]"
		}
		fmt.Fprintf(&b, "%s# %s%s\n%s\n", r.comment, r.name, flag, r.answers)
	}
	must(t, os.WriteFile(recording, []byte(b.String()), 0o644))
	// The rows that were not recorded now are from the packages that verified names.
	if state := recordedState(t); all || samePackages(state, contents(verified)) {
		must(t, os.WriteFile(verified, state, 0o644))
	}
}

// recordedState returns what verified must have.
func recordedState(t *testing.T) []byte {
	t.Helper()
	packages, err := realneutron.Packages()
	must(t, err)
	return fmt.Appendf([]byte(packages), "%x %s\n", sha256.Sum256(contents(recording)), recording)
}

// samePackages reports whether two states differ only in the hash, which is the last line.
func samePackages(a, b []byte) bool {
	return bytes.Equal(a[:bytes.LastIndexByte(bytes.TrimSpace(a), '\n')+1], b[:bytes.LastIndexByte(bytes.TrimSpace(b), '\n')+1])
}

// contents returns the content of a file, nothing if there is none.
func contents(file string) []byte {
	raw, _ := os.ReadFile(file)
	return raw
}
