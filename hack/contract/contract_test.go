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

package contract

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var (
	update = flag.Bool("update", false, "record the answers of the real Neutron")
	all    = flag.Bool("all", false, "compare each row with the real Neutron")
)

const (
	recording = "testdata/answers.txt"
	// verified has the packages that all of the recording came from, and its hash.
	verified = "testdata/verified.txt"
	// sample is of how many rows one is compared with the real Neutron if it is from the packages of the
	// recording. The same programs give the same answers.
	sample = 3
)

// rows is the complete contract.
var rows = slices.Concat(networkRows, subnetRows, addressRows, portRows, routerRows, interfaceRows, floatingIPRows, distributedRows, fieldRows, listRows, pageRows, revisionRows, tenancyRows, importRows, tokenRows)

func TestTheEmbeddedNeutronAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	for _, paged := range []bool{false, true} {
		options := embedded.Options{Projects: []embedded.Project{{Name: "samplecrd"}, {Name: "other"}}}
		if paged {
			options.PageLimit = pageLimit
		}
		s, err := embedded.Start("127.0.0.1:0", options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		runAll(t, connect(t, "embedded", s.CloudsYAML(realneutron.Cloud)), 1, paged, compare)
	}
}

func TestTheRealNeutronAnswersAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	use, r := compare, recorder{answers: map[string]string{}}
	if *update {
		use = r.add
	}
	t.Parallel() // it starts while the embedded one answers
	n := startReal(t)
	every := 1
	one := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if state := recordedState(t); !*all && !*update && !one && bytes.Equal(contents(verified), state) {
		every = sample
		t.Logf("one row of %d is compared, because the recording is from the same packages:\n%s", every, state)
	}
	runAll(t, n.connect(t), every, false, use)
	n.restart(t, "[DEFAULT]", fmt.Sprint("pagination_max_limit = ", pageLimit))
	runAll(t, n.connect(t), 1, true, use)
	if *update {
		r.write(t)
	}
}

// recordedState returns what verified must have.
func recordedState(t *testing.T) []byte {
	t.Helper()
	packages, err := realneutron.Packages()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf([]byte(packages), "%x %s\n", sha256.Sum256(contents(recording)), recording)
}

// contents returns the content of a file, nothing if there is none.
func contents(file string) []byte {
	raw, _ := os.ReadFile(file)
	return raw
}

// realDir has the files of the real Neutron.
var realDir = filepath.Join("..", "_output", "neutron", "contract")

// real is a real Neutron in its own folder.
type real struct{ *realneutron.Neutron }

// startReal starts a real Neutron. Its database is removed at the end of the test, which is
// faster than deleting the objects of the rows, and before it, because a test that was killed
// left one.
func startReal(t *testing.T) *real {
	t.Helper()
	if err := realneutron.Purge(realDir); err != nil {
		t.Fatal(err)
	}
	n := &real{}
	n.up(t)
	t.Cleanup(func() {
		if err := n.Purge(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *real) restart(t *testing.T, config ...string) {
	t.Helper()
	if err := n.Down(); err != nil {
		t.Fatal(err)
	}
	n.up(t, config...)
}

func (n *real) up(t *testing.T, config ...string) {
	t.Helper()
	var err error
	n.Neutron, err = realneutron.Up(t.Context(), realDir, config...)
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (n *real) connect(t *testing.T) *cloud {
	t.Helper()
	cloudsYAML, err := os.ReadFile(n.CloudsYAML)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, "real", cloudsYAML)
}

// runAll runs one row of every for this kind of cloud, first those that must run alone, and
// passes their answers to use.
func runAll(t *testing.T, c *cloud, every int, paged bool, use func(t *testing.T, r *row, answers string)) {
	one := func(t *testing.T, r *row) {
		t.Run(r.name, func(t *testing.T) {
			if !r.alone {
				t.Parallel()
			}
			use(t, r, c.answersOf(t, r))
		})
	}
	// In a subtest, so that all rows have ended when runAll returns.
	t.Run("rows", func(t *testing.T) {
		for _, alone := range []bool{true, false} {
			for i := range rows {
				if i%every == 0 && rows[i].alone == alone && rows[i].paged == paged {
					one(t, &rows[i])
				}
			}
		}
	})
}

// compare compares the answers with the recording.
func compare(t *testing.T, r *row, answers string) {
	t.Helper()
	want, ok := recorded()[r.name]
	if !ok {
		t.Fatal("there is no recording of this row; see doc.go")
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(answers, "\n")); diff != "" {
		t.Errorf("-recorded +answered:\n%s", diff)
	}
}

// The recording has a line "# name" before the answers of each row.
var recorded = sync.OnceValue(func() map[string]string {
	raw := contents(recording) // without it no row is recorded
	all := map[string]string{}
	for _, part := range strings.Split("\n"+string(raw), "\n# ")[1:] {
		name, answers, _ := strings.Cut(part, "\n")
		all[name] = strings.TrimRight(answers, "\n") + "\n"
	}
	return all
})

// recorder collects the answers to write.
type recorder struct {
	mu      sync.Mutex
	answers map[string]string
}

func (r *recorder) add(_ *testing.T, row *row, answers string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[row.name] = answers
}

// write writes the recording in the order of the table. Rows that did not run stay
// unchanged.
func (r *recorder) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, row := range rows {
		answers, ok := r.answers[row.name]
		if !ok {
			answers = recorded()[row.name]
		}
		fmt.Fprintf(&b, "# %s\n%s\n", row.name, answers)
	}
	if err := os.WriteFile(recording, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	// The rows that were not recorded now are from the packages that verified names.
	if state := recordedState(t); len(r.answers) == len(rows) || samePackages(state, contents(verified)) {
		if err := os.WriteFile(verified, state, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// samePackages reports whether two states differ only in the hash, which is the last line.
func samePackages(a, b []byte) bool {
	return bytes.Equal(a[:bytes.LastIndexByte(bytes.TrimSpace(a), '\n')+1], b[:bytes.LastIndexByte(bytes.TrimSpace(b), '\n')+1])
}

func TestRowNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] {
			t.Errorf("two rows have the name %q", r.name)
		}
		seen[r.name] = true
	}
}
