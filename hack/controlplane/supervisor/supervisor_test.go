// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// helperFlag makes the test binary act as a component. See TestMain.
const helperFlag = "-helper="

func TestMain(m *testing.M) {
	DieWithParent()
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], helperFlag) {
		helper(strings.TrimPrefix(os.Args[1], helperFlag))
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func helper(what string) {
	if what == "fail" {
		os.Stderr.WriteString(strings.Repeat("noise\n", 100) + "the reason\n")
		os.Exit(3)
	}
	select {} // until the lifeline ends
}

func TestProcessThatEndsEarlyIsReportedWithTheEndOfItsLog(t *testing.T) {
	p, end := startHelper(t, "fail")
	defer end.Close()
	<-p.done
	message := p.failure().Error()
	for _, want := range []string{"fail ended early", "exit status 3", p.log, "the reason"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is missing in %q", want, message)
		}
	}
	if lines := strings.Count(message, "\n"); lines > logTail {
		t.Errorf("the message has %d lines", lines)
	}
}

func TestClearLeavesOtherFiles(t *testing.T) {
	l := layout{dir: t.TempDir()}
	other := filepath.Join(l.dir, "other")
	for _, file := range []string{l.kubeconfig(), l.ports(), l.lock(), other} {
		must(t, os.WriteFile(file, nil, 0o600))
	}
	must(t, errors.Join(ensurePKI(l.pki("")), l.clear()))
	left, err := filepath.Glob(filepath.Join(l.dir, "*"))
	must(t, err)
	if len(left) != 2 || left[0] != l.lock() || left[1] != other {
		t.Errorf("want the lock and the other files to be left, got %v", left)
	}
}

func TestInvalidCommandsAreRefused(t *testing.T) {
	s := &supervisor{arguments: testArguments()}
	for _, command := range []string{"", "stop", "stop kubelet", "dance etcd"} {
		if err := s.obey(t.Context(), command); err == nil {
			t.Errorf("%q was accepted", command)
		}
	}
}

func TestAnswersAreOneLineEach(t *testing.T) {
	var w bytes.Buffer
	c := readControl(strings.NewReader(""), &w, func() {})
	c.answer(nil)
	c.answer(errors.New("no\nluck"))
	c.fail(errors.New("gone"))
	want := "{}\n" + `{"error":"no\nluck"}` + "\n" + `{"error":"gone","fatal":true}` + "\n"
	if w.String() != want {
		t.Errorf("want %s, got %s", want, w.String())
	}
}

// startHelper starts the test binary as a component, and returns the
// supervisor's end of its lifeline too.
func startHelper(t *testing.T, what string) (*process, *os.File) {
	t.Helper()
	lifeline, end, err := os.Pipe()
	must(t, err)
	defer lifeline.Close()
	binary, err := os.Executable()
	must(t, err)
	p, err := startProcess(what, filepath.Join(t.TempDir(), "log"), []string{binary, helperFlag + what}, lifeline)
	must(t, err)
	return p, end
}
