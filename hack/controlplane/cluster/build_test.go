// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHackIsFoundFromAnyFolderOfTheRepository(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(root, "pkg", "deep")
	write(t, filepath.Join(deep, "deep.go"), "package deep\n")
	write(t, filepath.Join(root, "hack", "go.mod"), "module "+module+"\n")
	for _, dir := range []string{root, deep, filepath.Join(root, "hack")} {
		t.Chdir(dir)
		got, err := findHack()
		if err != nil || got != filepath.Join(root, "hack") {
			t.Errorf("from %s: got %q, %v", dir, got, err)
		}
	}
	t.Chdir(t.TempDir())
	if got, err := findHack(); err == nil {
		t.Errorf("found %s from outside", got)
	}
}

func TestHashChangesWithWhatIsBuiltAndNothingElse(t *testing.T) {
	hack := t.TempDir()
	source := filepath.Join(hack, "controlplane", "main.go")
	write(t, filepath.Join(hack, "go.mod"), "module example\n")
	write(t, filepath.Join(hack, "go.sum"), "")
	write(t, source, "package main\n")
	first := hash(t, hack)

	write(t, filepath.Join(hack, "controlplane", "main_test.go"), "package main\n")
	write(t, filepath.Join(hack, "other", "main.go"), "package main\n")
	if hash(t, hack) != first {
		t.Error("the hash changed with a test, or with another command")
	}
	write(t, source, "package main // changed\n")
	second := hash(t, hack)
	if second == first {
		t.Error("the hash did not change with a source")
	}
	write(t, filepath.Join(hack, "go.sum"), "changed\n")
	if hash(t, hack) == second {
		t.Error("the hash did not change with go.sum")
	}
}

func TestExecutableIsUpToDateOnlyWithItsStamp(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "controlplane")
	write(t, stamp(binary), "hash")
	if upToDate(binary, "hash") {
		t.Error("up to date without an executable")
	}
	write(t, binary, "")
	if upToDate(binary, "hash") {
		t.Error("up to date without kubectl")
	}
	write(t, Kubectl(binary), "")
	if !upToDate(binary, "hash") {
		t.Error("not up to date")
	}
	if upToDate(binary, "other") {
		t.Error("up to date with other sources")
	}
}

func TestProgressIsPrintedOncePerInterval(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	r := newReporter(&out)
	r.now, r.begin = func() time.Time { return now }, now
	r.phase("listing packages")
	r.fetched("go: downloading example v1")
	now = now.Add(logInterval)
	r.fetched("go: downloading example v2")
	r.compiling([]string{"a", "b"})
	now = now.Add(logInterval)
	if r.compiled("a.go:1: broken") || !r.compiled("a") {
		t.Error("a package and an error message are not distinguished")
	}
	want := `building the control plane: listing packages (0s)
building the control plane: fetching modules, 2 so far (15s)
building the control plane: compiling (15s)
building the control plane: compiling, 1 of up to 2 packages (30s)
`
	if out.String() != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, out.String())
	}
}

func TestFailedBuildShowsTheCompilersOutput(t *testing.T) {
	hack := t.TempDir()
	write(t, filepath.Join(hack, "go.mod"), "module example\n")
	write(t, filepath.Join(hack, "main.go"), "package main\n\nfunc main() { nonsense() }\n")
	_, err := output(goCommand(t.Context(), hack, "build", "-o", os.DevNull, "."), func(string) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("got %v", err)
	}
}

func hash(t *testing.T, hack string) string {
	t.Helper()
	sum, err := sourceHash(t.Context(), hack)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
