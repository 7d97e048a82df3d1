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

package options

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, arguments string
		done            bool
		out, err        string
	}{
		{"no arguments", "", false, "", ""},
		{"the help", "-h", true, "Usage:", ""},
		{"the version", "-version", true, "samplecrd-controller ", ""},
		{"the version, with a flag that is not valid", "-version -workers=0", true, "samplecrd-controller ", ""},
		{"an unknown flag", "-version -nonsense", false, "", "-nonsense (-h lists the flags)"},
		{"a flag that is not valid", "-workers=0", false, "", "-workers=0: must be at least 1 and at most 1000 (-h lists the flags)"},
		{"an argument", "start", false, "", "(-h lists the flags)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			o, done, err := Parse(strings.Fields(tt.arguments), &out)
			if done != tt.done || (o != nil) != (!done && err == nil) {
				t.Errorf("got %+v, done: %t", o, done)
			}
			if !strings.HasPrefix(out.String(), tt.out) && !strings.Contains(out.String(), "\n"+tt.out) || (out.Len() > 0) != tt.done {
				t.Errorf("it printed %q", out.String())
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestParseSetsTheVerbosity(t *testing.T) {
	t.Cleanup(func() { _, _, _ = Parse([]string{"-v=0"}, nil) }) // klog's flag is the process's
	if o, _, err := Parse([]string{"-v=4"}, nil); err != nil || o.Verbosity != 4 {
		t.Errorf("got %+v, %v", o, err)
	}
}
