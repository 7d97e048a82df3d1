// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newRepository creates a Git repository with one commit that has a fixed time.
func newRepository(t *testing.T) string {
	t.Helper()
	// The user's Git settings have no effect.
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull, "SOURCE_DATE_EPOCH": "",
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
		"GIT_AUTHOR_DATE": "2001-09-09T01:46:40Z", "GIT_COMMITTER_DATE": "2001-09-09T01:46:40Z",
	} {
		t.Setenv(name, value)
	}
	folder := t.TempDir()
	mustGit(t, folder, "init", "--quiet")
	edit(t, folder, "file")
	commitAll(t, folder)
	return folder
}

func mustGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := git(t.Context(), folder, args...)
	must(t, err)
	return out
}

func edit(t *testing.T, folder, name string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(folder, name), []byte(time.Now().String()), 0o600))
}

func commitAll(t *testing.T, folder string) {
	t.Helper()
	mustGit(t, folder, "add", "--all")
	mustGit(t, folder, "commit", "--quiet", "--message=m")
}

func TestVersionComesFromGitUnlessItIsGiven(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given string
		do    func(t *testing.T, folder string)
		// COMMIT stands for the first twelve digits of the commit.
		want, wantErr string
	}{
		{name: "without a tag", want: "v0.0.0-COMMIT"},
		{name: "with changes", do: func(t *testing.T, f string) { edit(t, f, "file") }, want: "v0.0.0-COMMIT-dirty"},
		{name: "with an untracked file, which go build would use", do: func(t *testing.T, f string) { edit(t, f, "new.go") }, want: "v0.0.0-COMMIT-dirty"},
		{name: "with a tag", do: func(t *testing.T, f string) { mustGit(t, f, "tag", "v1.2.3") }, want: "v1.2.3"},
		{name: "after a tag", do: func(t *testing.T, f string) {
			mustGit(t, f, "tag", "v1.2.3")
			edit(t, f, "file")
			commitAll(t, f)
		}, want: "v1.2.3-1-gCOMMIT"},
		{name: "given", given: "v1.2.3-rc.1", want: "v1.2.3-rc.1"},
		{name: "given, with changes", given: "v1.2.3", do: func(t *testing.T, f string) { edit(t, f, "file") }, wantErr: "commit them, or omit the version"},
		{name: "given without v", given: "1.2.3", wantErr: `"1.2.3" is not a version: use one like v1.2.3`},
		{name: "given with a character that is invalid in an image's tag", given: "v1.2.3+meta", wantErr: "is not a version"},
		{name: "given as a path to another folder", given: "v1.2.3-/../..", wantErr: "is not a version"},
		{name: "with a tag that is not a version", do: func(t *testing.T, f string) { mustGit(t, f, "tag", "nightly") }, wantErr: `"nightly" is not a version: use one`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			folder := newRepository(t)
			if tc.do != nil {
				tc.do(t, folder)
			}
			commit := mustGit(t, folder, "rev-parse", "HEAD")
			r, err := describe(t.Context(), folder, tc.given)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got the error %v, want %q", err, tc.wantErr)
				}
				return
			}
			must(t, err)
			if want := strings.ReplaceAll(tc.want, "COMMIT", commit[:12]); r.version != want || r.commit != commit {
				t.Errorf("got %s of %s, want %s", r.version, r.commit, want)
			}
		})
	}
}

func TestTimeIsTheCommitsUnlessItIsGiven(t *testing.T) {
	folder := newRepository(t)
	for _, tc := range []struct {
		given string
		want  int64
	}{{"", 1_000_000_000}, {"1234567890", 1_234_567_890}} {
		t.Setenv("SOURCE_DATE_EPOCH", tc.given)
		r, err := describe(t.Context(), folder, "")
		must(t, err)
		if !r.time.Equal(time.Unix(tc.want, 0)) {
			t.Errorf("given %q, got %s", tc.given, r.time)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := describe(t.Context(), folder, ""); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH must be in seconds since 1970") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutARepositoryTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	if _, err := describe(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "run this in a clone of the repository") {
		t.Errorf("got %v", err)
	}
}
