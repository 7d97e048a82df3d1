// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"encoding/json"
	"errors"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// stderrOf returns what log writes to standard error.
func stderrOf(t *testing.T, log func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	log()
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// setup sets the log up as these flags say, until the test ends.
func setup(t *testing.T, flags ...string) *Options {
	t.Helper()
	t.Cleanup(klog.CaptureState().Restore)
	fs, o := flag.NewFlagSet("", flag.ContinueOnError), &Options{}
	o.AddFlags(fs)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	o.Setup()
	return o
}

// loggedAsJSON returns the lines that are logged with -v=4.
func loggedAsJSON(t *testing.T, log func()) (lines []map[string]any) {
	t.Helper()
	defer func() { inJSON = false }()
	content := stderrOf(t, func() { setup(t, "-logging-format=json", "-v=4"); log() })
	for line := range strings.Lines(content) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("not an object: %q: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

func TestALineInJSON(t *testing.T) {
	const name = "default/net"
	network := cache.NewObjectName("default", "net")
	tests := []struct {
		name string
		log  func(klog.Logger)
		want map[string]any // nil: no line
	}{
		{"a message", func(l klog.Logger) { l.Info("Stopped") }, map[string]any{"level": "INFO", "msg": "Stopped"}},
		{"a message of -v is for debugging, at any level", func(l klog.Logger) { l.V(4).Info("Synced") }, map[string]any{"level": "DEBUG", "msg": "Synced"}},
		{"a message above the verbosity", func(l klog.Logger) { l.V(5).Info("Synced") }, nil},
		{"an error", func(l klog.Logger) { l.Error(errors.New("no luck"), "Failed") }, map[string]any{"level": "ERROR", "msg": "Failed", "err": "no luck"}},
		{"a key of the queue", func(l klog.Logger) { l.Info("", "network", network) }, map[string]any{"network": name}},
		{"a duration", func(l klog.Logger) { l.Info("", "after", 1500*time.Millisecond) }, map[string]any{"after": "1.5s"}},
		{"a time", func(l klog.Logger) { l.Info("", "at", time.Unix(0, 0).UTC()) }, map[string]any{"at": "1970-01-01T00:00:00Z"}},
		{"a nil pointer", func(l klog.Logger) { l.Info("", "url", (*url.URL)(nil)) }, map[string]any{"url": "<nil>"}},
		{"a value of the logger", func(l klog.Logger) { klog.LoggerWithValues(l, "network", network).Info("") }, map[string]any{"network": name}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := loggedAsJSON(t, func() { tt.log(klog.Background()) })
			if tt.want == nil {
				if len(lines) > 0 {
					t.Errorf("got %v", lines)
				}
				return
			}
			if len(lines) != 1 {
				t.Fatalf("want one line, got %v", lines)
			}
			said, _ := lines[0]["time"].(string)
			if at, err := time.Parse(time.RFC3339Nano, said); err != nil || time.Since(at) > time.Minute {
				t.Errorf("the time is %v: %v", at, err)
			}
			for key, want := range tt.want {
				if got := lines[0][key]; got != want {
					t.Errorf("%s: got %v, want %v", key, got, want)
				}
			}
			if source, _ := lines[0]["source"].(string); !strings.HasPrefix(source, "logging_test.go:") {
				t.Errorf("the source is %v", source)
			}
		})
	}
}

func TestTheErrorThatEndsTheProcess(t *testing.T) {
	failed := errors.New("no luck")
	if got := stderrOf(t, func() { setup(t); PrintError(failed) }); got != "samplecrd-controller: no luck\n" {
		t.Errorf("as text: %q", got)
	}
	lines := loggedAsJSON(t, func() { PrintError(failed) })
	if len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["msg"] != "Failed" || lines[0]["err"] != "no luck" {
		t.Fatalf("in JSON: %v", lines)
	}
	if source, _ := lines[0]["source"].(string); !strings.HasPrefix(source, "logging_test.go:") {
		t.Errorf("the source is %v", source)
	}
}

// What others write: into a spec, into the path of a request, into an answer of Neutron.
var foreign = []string{
	"a\nI0101 00:00:00.000000       1 controller.go:1] \"Deleted\" network=\"default/net\"",
	"a\r\nb", "\n", "a\n >\nI0101 forged", "\x1b[2J\x1b]0;title\x07", "a\nb\x1b[2Jc", "\u009b2J", "\x7f\x00", "\u202egnp.exe", "a\u2028b", "\xff\xfe", "\U000e0001", "\t",
}

func TestForeignTextIsPrintable(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, text := range foreign {
			log := stderrOf(t, func() {
				setup(t, "-logging-format="+format)
				defer func() { inJSON = false }()
				klog.Background().Info("A value", "value", text)
				klog.Background().Info(text)
				klog.Background().WithName("x").Error(errors.New(text), "An error", "list", []string{text}, "fields", map[string]string{text: text})
				klog.Infof("Without structure: %s", text)
				PrintError(errors.New(text))
			})
			if strings.Count(log, "A value") != 1 || strings.Count(log, "Without structure") != 1 {
				t.Fatalf("%s: entries are missing: %q", format, log)
			}
			for line := range strings.Lines(log) {
				isOurs := strings.HasPrefix(line, "{") || strings.Contains(line, " logging_test.go:") || strings.HasPrefix(line, "samplecrd-controller: ")
				isContinued := format == "text" && (strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " "))
				if !isOurs && !isContinued || strings.HasPrefix(line, "I0101") {
					t.Errorf("%s: a line that is not ours: %q", format, line)
				}
				if at := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar }); at >= 0 {
					t.Errorf("%s: a character that cannot be seen, at %d: %q", format, at, line)
				}
				if format == "text" || !isOurs || strings.HasPrefix(line, "sample") {
					continue
				}
				fields := map[string]any{"value": "", "msg": ""}
				if err := json.Unmarshal([]byte(line), &fields); err != nil {
					t.Errorf("not JSON: %q", line)
				}
				if want := strings.ToValidUTF8(text, "\ufffd\ufffd"); fields["msg"] == "A value" && fields["value"] != want {
					t.Errorf("got %q, want %q", fields["value"], want)
				}
			}
		}
	}
}

func TestPrintableTextStaysAsItIs(t *testing.T) {
	for _, entry := range []string{"", "\n", "plain\n", "Überprüfung 网络 \u00a0? ", "key=<\n\tfirst\n\tsecond\n >\n", "\\u001b"} {
		var out strings.Builder
		if n, err := (printable{&out}).Write([]byte(entry)); n != len(entry) || err != nil {
			t.Errorf("%q: got %d, %v", entry, n, err)
		}
		if want := strings.ReplaceAll(entry, "\u00a0", `\u00a0`); out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}

func TestTheVerbosityOfOneFile(t *testing.T) {
	for _, flags := range []string{"-vmodule=logging_test=4", "-v=4"} {
		log := stderrOf(t, func() {
			o := setup(t, strings.Fields(flags)...)
			klog.Background().V(4).Info("By the process")
			klog.V(4).Info("By klog")
			o.Text(os.Stderr).V(4).Info("By a subcommand")
			klog.Background().V(5).Info("Not logged")
		})
		if strings.Count(log, "By ") != 3 || strings.Contains(log, "Not logged") {
			t.Errorf("%s: %s", flags, log)
		}
	}
}
