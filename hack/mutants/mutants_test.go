// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// idsOf returns the mutants of a function's body.
func idsOf(t *testing.T, signature, body string) []string {
	t.Helper()
	found, err := mutate("pkg/p/p.go", "package p\n\nfunc (x *T) f"+signature+" {\n"+body+"\n}\n")
	must(t, err)
	var ids []string
	for _, m := range found {
		id, _ := strings.CutPrefix(m.id, "pkg/p T.f: ")
		ids = append(ids, id)
	}
	return ids
}

func TestTheOperators(t *testing.T) {
	for _, tt := range []struct {
		name, signature, body string
		want                  []string
	}{
		{"a comparison", "()", "for a < b {}", []string{"compare a < b => a <= b", "compare a < b => a >= b"}},
		{"a condition", "()", "for a && !b {}", []string{"operand a && !b => a", "operand a && !b => !b", "negation !b => b"}},
		{"an error that is checked", "()", "for err != nil {}", []string{"compare err != nil => false && err != nil"}},
		{"statements", "()", "a = 7; b++; c(); for i = d; e; i++ { continue }", []string{
			"remove a = 7", "constant 7 => 8", "remove b++", "remove c()", "remove i = d", "remove continue",
		}},
		{"statements that hang or leak when they are removed", "()", "a.Lock(); defer a.Unlock(); cancel()", nil},
		{"logs and metrics", "()", "klog.FromContext(ctx).V(2).Info(`a`, `b`, c == d); metrics.Syncs.Inc(); if logger.V(4).Enabled() { a() }; if a > b { klog.Info(c) }", nil},
		{"returned values", "() (bool, error)", "if a { return true, err }; return b(), nil", []string{
			"remove return true, err", "return err => nil", "return b() => !(b())",
		}},
		{"values that a function in the function returns", "() error", "return a(func() bool { return b })", []string{
			"return a(func() bool { return b }) => nil", "return b => !(b)",
		}},
		{"small numbers", "()", "for a(0, 1, 100, 101, 0o600, make(b, 0, 1)) {}", []string{"constant 0 => 1", "constant 1 => 0", "constant 100 => 101"}},
		{"durations", "()", "for a(5*time.Second) {}", []string{"constant 5*time.Second => 100 * 5 * time.Second"}},
		{"rows", "()", "for range []T{{a: b, c: d}, {}} {}", []string{"element {a: b, c: d}", "element {}", "element a: b", "element c: d"}},
		{"cases", "()", "switch a { case b: c := d; default: }", []string{"remove case b:", "remove default:"}},
		{"the same twice", "()", "a++; a++", []string{"remove a++", "remove a++ #2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, idsOf(t, tt.signature, tt.body)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAMutantChangesOnePlace(t *testing.T) {
	text := "package p\n\nvar rows = []string{\n\t\"a\",\n\t\"b\",\n}\n"
	found, err := mutate("controller.go", text)
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	m := found[1]
	if want := "package p\n\nvar rows = []string{\n\t\"a\",\n}\n"; m.text != want {
		t.Error(cmp.Diff(want, m.text))
	}
	if m.id != `. rows: element "b"` || m.position() != "controller.go:4:5" || m.folder() != "." {
		t.Errorf("%q at %s in %s", m.id, m.position(), m.folder())
	}
}

func TestEachBeginningOfTheListHasTheSameShareOfEachFunction(t *testing.T) {
	var all []mutant
	for function, n := range map[string]int{"a": 100, "b": 50, "c": 10} {
		for i := range n {
			all = append(all, mutant{id: function + strings.Repeat("'", i), function: function})
		}
	}
	shuffled := slices.Clone(all)
	slices.Reverse(shuffled)
	all = inOrder(all, "1")
	if diff := cmp.Diff(all, inOrder(shuffled, "1"), cmp.Comparer(func(a, b mutant) bool { return a.id == b.id })); diff != "" {
		t.Error("the order depends on the order of the files")
	}
	count := map[string]int{}
	for _, m := range all[:32] {
		count[m.function]++
	}
	for function, want := range map[string]int{"a": 20, "b": 10, "c": 2} {
		if n := count[function]; n < want-1 || n > want+1 {
			t.Errorf("%d of %s, want %d", n, function, want)
		}
	}
}

// TestBrokenControllersFitTheCode is quick, so that they do not fall behind.
func TestBrokenControllersFitTheCode(t *testing.T) {
	root, err := stack.Root()
	must(t, err)
	all, err := readBroken(root)
	if err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.id] {
			t.Errorf("two have the name %s", m.id)
		}
		seen[m.id] = true
	}
}

func TestSurvivorsFitTheCode(t *testing.T) {
	root, err := stack.Root()
	must(t, err)
	all, err := candidates(root, "1")
	must(t, err)
	if len(all) < 1000 {
		t.Errorf("%d candidates", len(all))
	}
	ids := map[string]bool{}
	for _, m := range all {
		if ids[m.id] {
			t.Errorf("two have the ID %s", m.id)
		}
		ids[m.id] = true
	}
	reasons, err := accepted(survivors)
	must(t, err)
	for id := range reasons {
		if !ids[id] {
			t.Errorf("survivors.txt has a mutant that is none any more: %s", id)
		}
	}
}

func TestASurvivorNeedsAReason(t *testing.T) {
	for _, text := range []string{"a\nb\n\twhy\n", "\twhy\n"} {
		if found, err := accepted(text); err == nil {
			t.Errorf("%q: %v", text, found)
		}
	}
	got, err := accepted("# all\na\n\tone\n\ttwo\n\nb\n\tthree\n")
	if diff := cmp.Diff(map[string]string{"a": "one two ", "b": "three "}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestResultsAreReadAsTheyWereWritten(t *testing.T) {
	want := map[string]result{
		"pkg/p f: remove a()": {"pkg/p f: remove a()", "pkg/p/p.go:1:2", killed, []string{"./pkg/p:TestA", ".:TestB"}, 1.5, "a()"},
		"pkg/p f: remove b()": {"pkg/p f: remove b()", "pkg/p/p.go:2:2", alive, nil, 20, "b()"},
	}
	path := t.TempDir() + "/results.tsv"
	var text string
	for _, r := range want {
		text += r.line()
	}
	must(t, os.WriteFile(path, []byte(text), 0o600))
	got, err := readResults(path)
	must(t, err)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{}), cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
		t.Error(diff)
	}
}

func TestWhoseTestsAreToBeDeleted(t *testing.T) {
	r := result{state: killed, tests: []string{"./pkg/p:TestA", ".:TestB"}}
	for text, want := range map[string]bool{"^TestA$": false, "^Test[AB]$": true, "^TestC$": false} {
		if r.isKilledOnlyBy(regexp.MustCompile(text)) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

func TestTheSummary(t *testing.T) {
	var out bytes.Buffer
	summarize(&out, []result{
		{"a", "pkg/p/p.go:1:1", killed, []string{"./pkg/p:TestA"}, 1, "a"},
		{"b", "pkg/p/p.go:2:1", killed, []string{".:TestB"}, 2, "b"},
		{"c", "pkg/p/p.go:3:1", killed, []string{"./pkg/q:TestC"}, 3, "c"},
		{"d", "controller.go:4:1", killed, []string{".:TestSimulation/seed_7"}, 4, "d"},
		{"e", "pkg/p/p.go:5:1", alive, nil, 10, "e()"},
		{"f", "pkg/p/p.go:6:1", alive, nil, 10, "f()"},
		{"g", "pkg/p/p.go:7:1", invalid, nil, 0, "g()"},
	}, map[string]string{"f": "equivalent"})
	want := `
package          mutants  killed by   own  root other simulation   alive accepted
.                      1                0     0     0          1       0        0
./pkg/p                5                1     1     1          0       1        1
all                    6                1     1     1          1       1        1
30 s, 5.0 s for each

pkg/p/p.go:5:1: e()
e
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Error(diff)
	}
}
