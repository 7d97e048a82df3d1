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

// Package realneutron brings up the real Neutron with a real Keystone, for tests. The
// work is done by the scripts in hack/neutron.
package realneutron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The entries of the clouds.yaml.
const (
	Cloud      = "local"       // role member
	OtherCloud = "local-other" // role member, in another project
	AdminCloud = "local-admin" // sees every project
)

// ErrUnavailable is returned where Neutron's packages cannot be had: a test that needs
// them is skipped.
var ErrUnavailable = errors.New("the real Neutron is not available")

// unavailableCode is what up.sh exits with then.
const unavailableCode = 3

// Neutron is a Neutron that runs. It ends with this process, if Down is never called.
type Neutron struct {
	// CloudsYAML is the path of a clouds.yaml with the entries named above.
	CloudsYAML string
	dir        string
}

// Up starts a Neutron that keeps its files in dir, and waits until it answers. With a
// database already in dir that takes seconds; without the packages, minutes. config are
// lines of neutron.conf that are added to the usual ones. The Neutron that runs in dir
// already, if any, is returned as it is.
func Up(ctx context.Context, dir string, config ...string) (*Neutron, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	args := []string{"-state", dir, "-parent", strconv.Itoa(os.Getpid())}
	if config != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		more := filepath.Join(dir, "config")
		if err := os.WriteFile(more, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-config", more)
	}
	out, err := script(ctx, "up.sh", args...)
	if err != nil {
		return nil, err
	}
	return &Neutron{CloudsYAML: out, dir: dir}, nil
}

// Down stops it. What it had is there again after the next Up.
func (n *Neutron) Down() error {
	_, err := script(context.Background(), "down.sh", "-state", n.dir)
	return err
}

// Purge stops it and removes all its files.
func (n *Neutron) Purge() error { return Purge(n.dir) }

// Purge removes the files that a Neutron kept in dir, and stops it first if it runs.
func Purge(dir string) error {
	_, err := script(context.Background(), "down.sh", "-state", dir, "-purge")
	return err
}

// script runs one of the scripts and returns what it prints.
func script(ctx context.Context, name string, args ...string) (string, error) {
	// Where this file was compiled from.
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(filepath.Dir(file)), name), args...)
	// Told to end, rather than killed, the script cleans up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == unavailableCode {
		return "", fmt.Errorf("%w: %s", ErrUnavailable, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
