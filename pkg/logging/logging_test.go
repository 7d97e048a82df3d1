// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// loggedAsJSON returns the lines that are logged with -v=4.
func loggedAsJSON(t *testing.T, log func()) (lines []map[string]any) {
	t.Helper()
	defer func() { klog.ClearLogger(); inJSON = false }()
	content := stderrOf(t, func() { Setup("json", 4); log() })
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
	if got := stderrOf(t, func() { Setup("text", 0); PrintError(failed) }); got != "samplecrd-controller: no luck\n" {
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
