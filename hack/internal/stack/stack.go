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

// Package stack runs what the controller works between, for tests and for development:
// the controller itself, as a process of its own, and an embedded Neutron with a view
// of what it holds that shares no code with the controller. The Kubernetes part is in
// controlplane/cluster.
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

// Root returns the folder of the repository that the working directory is in.
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

// BuildController builds the controller into the top folder of the repository, as
// go build does there, and returns the executable. The flags go to go build.
func BuildController(ctx context.Context, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "samplecrd-controller")
	return binary, BuildControllerAs(ctx, binary, flags...)
}

// BuildControllerAs is BuildController, for an executable somewhere else.
func BuildControllerAs(ctx context.Context, binary string, flags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	// The commit is for -version, wherever Git can tell it.
	args := append(append([]string{"build", "-buildvcs=auto"}, flags...), "-o", binary, ".")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the controller: %w", err), errors.New(string(out)))
	}
	return nil
}
