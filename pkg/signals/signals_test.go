// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inChild is set in the process that receives the signal.
const inChild = "SIGNALS_TEST_IN_CHILD"

// A process has one signal handler, so each run of the test has a process of its own.
func TestTheFirstSignalCancelsTheContext(t *testing.T) {
	if os.Getenv(inChild) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), inChild+"=true")
		if output, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	ctx := SetupSignalHandler()
	if err := ctx.Err(); err != nil {
		t.Fatalf("cancelled before a signal: %v", err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
