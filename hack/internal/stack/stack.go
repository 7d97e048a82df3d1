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

// BuildController builds the controller into the top folder of the repository, like go
// build, and returns the executable. The flags are passed to go build.
func BuildController(ctx context.Context, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "samplecrd-controller")
	return binary, BuildControllerAs(ctx, binary, flags...)
}

// BuildControllerAs is BuildController with another path for the executable.
func BuildControllerAs(ctx context.Context, binary string, flags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	// The commit is for -version, if Git knows it.
	args := append(append([]string{"build", "-trimpath", "-buildvcs=auto"}, flags...), "-o", binary, ".")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the controller: %w", err), errors.New(string(out)))
	}
	return nil
}
