// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var (
	update = flag.Bool("update", false, "record the answers of the real Neutron")
	all    = flag.Bool("all", false, "compare each row with the real Neutron")
)

// sample is of how many rows one is compared with the real Neutron if it is from the packages of the
// recording. The same programs give the same answers.
const sample = 3

func TestTheEmbeddedNeutronAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	rows := append(load(t, recording), load(t, unrecorded)...)
	for _, paged := range []bool{false, true} {
		options := embedded.Options{Projects: []embedded.Project{{Name: "samplecrd"}, {Name: "other"}}}
		if paged {
			options.PageLimit = pageLimit
		}
		s, err := embedded.Start("127.0.0.1:0", options)
		must(t, err)
		defer func() { _ = s.Close() }()
		runAll(t, connect(t, "embedded", s.CloudsYAML(realneutron.Cloud)), rows, 1, paged, compare)
	}
}

func TestTheRealNeutronAnswersAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	rows, use := load(t, recording), compare
	if *update {
		use = record
	}
	t.Parallel() // it starts while the embedded one answers
	n := startReal(t)
	every := 1
	one := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if state := recordedState(t); !*all && !*update && !one && bytes.Equal(contents(verified), state) {
		every = sample
		t.Logf("one row of %d is compared, because the recording is from the same packages:\n%s", every, state)
	}
	runAll(t, n.connect(t), rows, every, false, use)
	n.restart(t, "[DEFAULT]", fmt.Sprint("pagination_max_limit = ", pageLimit))
	runAll(t, n.connect(t), rows, 1, true, use)
	if *update {
		write(t, rows)
	}
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
	must(t, realneutron.Purge(realDir))
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
	must(t, n.Down())
	n.up(t, config...)
}

func (n *real) up(t *testing.T, config ...string) {
	t.Helper()
	var err error
	n.Neutron, err = realneutron.Up(t.Context(), realDir, config...)
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
}

func (n *real) connect(t *testing.T) *cloud {
	t.Helper()
	cloudsYAML, err := os.ReadFile(n.CloudsYAML)
	must(t, err)
	return connect(t, "real", cloudsYAML)
}

// runAll runs one row of every for this kind of cloud, first those that must run alone, and
// passes their answers to use.
func runAll(t *testing.T, c *cloud, rows []*row, every int, paged bool, use func(t *testing.T, r *row, answers string)) {
	one := func(t *testing.T, r *row) {
		t.Run(r.name, func(t *testing.T) {
			if r.flag != "alone" {
				t.Parallel()
			}
			use(t, r, c.answersOf(t, r))
		})
	}
	// In a subtest, so that all rows have ended when runAll returns.
	t.Run("rows", func(t *testing.T) {
		for _, alone := range []bool{true, false} {
			for i, r := range rows {
				if i%every == 0 && (r.flag == "alone") == alone && (r.flag == "paged") == paged {
					one(t, r)
				}
			}
		}
	})
}

// compare compares the answers with the recording.
func compare(t *testing.T, r *row, answers string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(r.answers, "\n"), strings.Split(answers, "\n")); diff != "" {
		t.Errorf("-recorded +answered:\n%s", diff)
	}
}

// record replaces the answers of the row.
func record(_ *testing.T, r *row, answers string) { r.answers, r.answered = answers, true }
