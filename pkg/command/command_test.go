// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name, arguments string
		handled         bool
		code            int
		stdout, stderr  string // parts of what is printed; "" for nothing
	}{
		{"no argument is the controller", "", false, 0, "", ""},
		{"so is a flag", "-h", false, 0, "", ""},
		{"and a flag before a command", "-v=2 export", false, 0, "", ""},
		{"the help of a command", "export -h", true, 0, "samplecrd-controller export [NAME|ID...] [flags]", ""},
		{"the same", "help export", true, 0, "samplecrd-controller export [NAME|ID...] [flags]", ""},
		{"the help", "help", true, 0, "  export  write manifests", ""},
		{"the help of the help", "help help", true, 0, "  export  write manifests", ""},
		{"a mistyped command", "exprot -h", true, 1, "", `unknown command "exprot": did you mean export? (-h lists the commands and flags)`},
		{"a mistyped command of the help", "help exprot", true, 1, "", "did you mean export?"},
		{"an unknown command", "start", true, 1, "", `samplecrd-controller: unknown command "start" (-h`},
		{"a mistyped flag", "export -tga=a", true, 1, "", "did you mean -tag?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code, handled := Run(t.Context(), strings.Fields(tt.arguments), &stdout, &stderr)
			if code != tt.code || handled != tt.handled {
				t.Errorf("got %d, %t", code, handled)
			}
			for printed, want := range map[string]string{stdout.String(): tt.stdout, stderr.String(): tt.stderr} {
				if !strings.Contains(printed, want) || want == "" && printed != "" {
					t.Errorf("want %q in %q", want, printed)
				}
			}
		})
	}
}

func TestEachCommandHasASummaryInOneLine(t *testing.T) {
	for i, c := range commands() {
		if line := Summaries()[i]; !strings.HasPrefix(line, c.name+" ") || strings.Contains(line, "\n") || c.summary == "" || len(c.name) > 7 {
			t.Errorf("%s: %q", c.name, line)
		}
	}
}
