// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scanned is a small package of the controller. It calls klog.FromContext, and nothing else calls klog.Fatal.
const scanned = "./pkg/signals"

// writeDatabase writes a vulnerability database with these vulnerabilities of klog, in the form of
// https://go.dev/doc/security/vuln/database.
func writeDatabase(t *testing.T, affected ...any) string {
	t.Helper()
	type object = map[string]any
	const id, klog, at = "GO-2000-0001", "k8s.io/klog/v2", "2000-01-01T00:00:00Z"
	modules, vulns := []object{}, []object{}
	if len(affected) > 0 {
		modules = append(modules, object{"path": klog, "vulns": []object{{"id": id, "modified": at}}})
		vulns = append(vulns, object{"id": id, "modified": at})
	}
	folder := t.TempDir()
	for name, content := range map[string]any{
		"index/db.json": object{"modified": at}, "index/modules.json": modules, "index/vulns.json": vulns,
		"ID/" + id + ".json": object{"schema_version": "1.3.1", "id": id, "modified": at, "published": at, "details": "It leaks.", "affected": affected,
			"database_specific": object{"url": "https://pkg.go.dev/vuln/" + id}},
	} {
		text, err := json.Marshal(content)
		must(t, err)
		must(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return folder
}

// vulnerable returns the entry for a symbol of klog, until that version if it is not empty.
func vulnerable(symbol, fixed string) any {
	events := []map[string]string{{"introduced": "0"}}
	if fixed != "" {
		events = append(events, map[string]string{"fixed": fixed})
	}
	return map[string]any{
		"package":            map[string]string{"name": "k8s.io/klog/v2", "ecosystem": "Go"},
		"ranges":             []any{map[string]any{"type": "SEMVER", "events": events}},
		"ecosystem_specific": map[string]any{"imports": []any{map[string]any{"path": "k8s.io/klog/v2", "symbols": []string{symbol}}}},
	}
}

// vulncheck runs the script with VULNDB in the environment, and returns its output and exit code.
func vulncheck(t *testing.T, database string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(made.root, "hack", "vulncheck.sh"), args...)
	cmd.Env = append(os.Environ(), "VULNDB="+database)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func TestKnownVulnerabilityOfCalledCodeIsFound(t *testing.T) {
	for _, tc := range []struct {
		name, database string
		code           int
		want           string
	}{
		{"an empty database", writeDatabase(t), 0, "No vulnerabilities found."},
		{"a symbol that is called", writeDatabase(t, vulnerable("FromContext", "")), 3, "GO-2000-0001"},
		{"a symbol that is not called", writeDatabase(t, vulnerable("Fatal", "")), 0, "No vulnerabilities found."},
		{"a version that is not used any more", writeDatabase(t, vulnerable("FromContext", "2.0.1")), 0, "No vulnerabilities found."},
		{"no database", "", 0, "--- SKIP: hack/vulncheck.sh: there is no database of vulnerabilities"},
		{"a folder without a database, in which govulncheck finds nothing", t.TempDir(), 1, "is not a database"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, code := vulncheck(t, tc.database, scanned)
			if code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tc.code, tc.want, out)
			}
		})
	}
	if out, code := vulncheck(t, "", "-db", writeDatabase(t, vulnerable("FromContext", "")), scanned); code != 3 {
		t.Errorf("with -db: exit code %d, want 3:\n%s", code, out)
	}
}
