// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asController is an environment variable. If it is set, the test binary runs the controller: see
// TestMain.
const asController = "SAMPLECRD_TEST_AS_CONTROLLER"

// runController runs main in a process, and returns its output and exit code.
func runController(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir = t.TempDir() // no clouds.yaml here
	cmd.Env = append([]string{asController + "=1", "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// write writes a file in a new directory, and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// kubeconfigTo writes a kubeconfig for the address, and returns its path.
func kubeconfigTo(t *testing.T, address string) string {
	return write(t, "kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"users":[{"name":"a","user":{}}],"clusters":[{"name":"a","cluster":{"server":"`+address+`"}}]}`)
}

// noServer is a loopback address on which no server listens: the port is reserved (RFC 6335).
const noServer = "http://127.0.0.1:1"

func TestWrongSettingIsReportedInOneLine(t *testing.T) {
	noCloud := func(*testing.T) []string { return nil }
	tests := []struct {
		name string
		env  func(*testing.T) []string
		args func(*testing.T) []string
		code int
		want []string
	}{
		{"no cluster at all", noCloud, func(*testing.T) []string { return nil }, 1, []string{"-kubeconfig", "-master"}},
		{"kubeconfig does not exist", noCloud, func(*testing.T) []string { return []string{"-kubeconfig=/does/not/exist"} }, 1,
			[]string{"kubeconfig", "/does/not/exist", "no such file"}},
		{"no server at that address", noCloud, func(t *testing.T) []string { return []string{"-kubeconfig=" + kubeconfigTo(t, noServer)} }, 1,
			[]string{"Kubernetes at " + noServer, "connection refused"}},
		{"unknown cloud", func(t *testing.T) []string {
			return []string{"OS_CLIENT_CONFIG_FILE=" + write(t, "clouds.yaml", "clouds: {mine: {auth: {auth_url: http://127.0.0.1:1/v3}}}")}
		}, func(*testing.T) []string { return []string{"-master=" + noServer, "-cloud=yours"} }, 1,
			[]string{`cloud "yours"`, "clouds.yaml"}},
		{"clouds.yaml with an error", func(t *testing.T) []string {
			return []string{"OS_CLOUD=mine", "OS_CLIENT_CONFIG_FILE=" + write(t, "clouds.yaml", "clouds:\n  mine: [not, a, map\n")}
		}, func(*testing.T) []string { return []string{"-master=" + noServer} }, 1,
			[]string{"cloud mine", "yaml: line"}},
		{"no workers", noCloud, func(*testing.T) []string { return []string{"-workers=0"} }, 2, []string{"-workers=0", "at least 1"}},
		{"unknown flag", noCloud, func(*testing.T) []string { return []string{"-worker=3"} }, 2, []string{"-worker", "-h"}},
		{"unknown command", noCloud, func(*testing.T) []string { return []string{"start"} }, 1, []string{`"start"`, "-h"}},
		{"mistyped flag of a command", noCloud, func(*testing.T) []string { return []string{"export", "-cluod=a"} }, 1, []string{"did you mean -cloud?"}},
		{"a command without a cloud", noCloud, func(*testing.T) []string { return []string{"export"} }, 1, []string{"no cloud is configured"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := runController(t, tt.env(t), tt.args(t)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("want one line on standard error:\n%s%s", stderr, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not contain %q", stderr, want)
				}
			}
		})
	}
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		stdout, stderr, code := runController(t, nil, arg)
		if code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d, and on standard error: %s", arg, code, stderr)
		}
		for _, want := range []string{"Usage:", "-kubeconfig file", "-workers", "(default 32)", "Logging:", "  export  "} {
			if !strings.Contains(stdout, want) {
				t.Errorf("the output of %s does not contain %q", arg, want)
			}
		}
	}
	stdout, _, code := runController(t, nil, "-version")
	if code != 0 || !strings.HasPrefix(stdout, "samplecrd-controller ") || !strings.Contains(stdout, ", commit ") {
		t.Errorf("-version: exit code %d: %s", code, stdout)
	}
}

func TestFatalErrorIsLoggedAsJSON(t *testing.T) {
	_, stderr, code := runController(t, nil, "-logging-format=json", "-master="+noServer)
	var line struct{ Level, Msg, Err string }
	if err := json.Unmarshal([]byte(stderr), &line); err != nil {
		t.Fatalf("not an object: %q: %v", stderr, err)
	}
	if code != 1 || line.Level != "ERROR" || line.Msg == "" || !strings.Contains(line.Err, "Kubernetes at "+noServer) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
