// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stack runs the controller and its surroundings, for tests and for development:
// the controller as a separate process, and an embedded Neutron with a client that shares
// no code with the controller. The Kubernetes part is in controlplane/cluster.
package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Root returns the top folder of the repository that contains the working directory.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	folder := filepath.Dir(strings.TrimSpace(string(out)))
	// A clone of the repository may be called hack too: only in the module hack is there one above.
	above := filepath.Dir(folder)
	if _, err := os.Stat(filepath.Join(above, "go.mod")); err == nil && filepath.Base(folder) == "hack" {
		return above, nil
	}
	return folder, nil
}

// BuildController builds the controller into the top folder of the repository, like go build, and returns the executable.
func BuildController(ctx context.Context) (string, error) { return build(ctx, "samplecrd-controller") }

// BuildRaceController is BuildController with the race detector, into hack/_output/bin.
func BuildRaceController(ctx context.Context) (string, error) {
	return build(ctx, filepath.Join("hack", "_output", "bin", "samplecrd-controller-race"), "-race")
}

// build builds the controller as that file of the repository. If it is up to date, go build does not write it. The lock keeps
// another process, which may run it already, from having it written at the same time.
func build(ctx context.Context, file string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "hack", "_output", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(bin, filepath.Base(file)+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	binary := filepath.Join(root, file)
	// The commit is for -version, if Git knows it.
	args := append(append([]string{"build", "-trimpath", "-buildvcs=auto"}, flags...), "-o", binary, ".")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build the controller: %w", err), errors.New(string(out)))
	}
	return binary, nil
}
