// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realneutron starts the real Neutron with a real Keystone, for tests. It calls the
// scripts in hack/neutron.
package realneutron

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// The entries of clouds.yaml.
const (
	Cloud      = "local"       // role member
	OtherCloud = "local-other" // role member, in another project
	AdminCloud = "local-admin" // can see every project
)

// ErrUnavailable is returned if Neutron's packages, or the namespaces of its agents, are not
// available. A test that needs them is then skipped.
var ErrUnavailable = errors.New("the real Neutron is not available")

// unavailableCode is the exit code of up.sh in this case.
const unavailableCode = 3

// Neutron is a running Neutron. It ends with this process, even if Down is not called.
type Neutron struct {
	// CloudsYAML is the path of a clouds.yaml with the entries named above.
	CloudsYAML string
	// Scripts is the folder of the scripts, hack/neutron.
	Scripts string
	dir     string
}

// Up starts a Neutron with its files in dir, and waits until it answers. With an existing
// database in dir this takes seconds; if the packages must be fetched, minutes. config are
// additional lines for neutron.conf. If a Neutron already runs in dir, Up returns that one
// unchanged.
func Up(ctx context.Context, dir string, config ...string) (*Neutron, error) {
	return up(ctx, dir, config)
}

// UpWithAgents is Up for a Neutron whose networks carry traffic: its agents run in namespaces of
// their own, where Command runs commands. A Neutron in dir must have been created with agents.
func UpWithAgents(ctx context.Context, dir string, config ...string) (*Neutron, error) {
	return up(ctx, dir, config, "-agents")
}

func up(ctx context.Context, dir string, config []string, flags ...string) (*Neutron, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	args := append(flags, "-state", dir, "-parent", strconv.Itoa(os.Getpid()))
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
	folder, err := scripts()
	return &Neutron{CloudsYAML: out, Scripts: folder, dir: dir}, err
}

// Command returns a command that runs in the namespaces of the agents, as in.sh runs it. When ctx
// is cancelled, the command is killed with its whole process group.
func (n *Neutron) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(n.Scripts, "in.sh"), append([]string{"-state", n.dir, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// Down stops Neutron. Its data is kept for the next Up.
func (n *Neutron) Down() error {
	_, err := script(context.Background(), "down.sh", "-state", n.dir)
	return err
}

// Purge stops Neutron and removes all its files.
func (n *Neutron) Purge() error { return Purge(n.dir) }

// Purge removes the files of the Neutron in dir, and stops it first if it runs.
func Purge(dir string) error {
	_, err := script(context.Background(), "down.sh", "-state", dir, "-purge")
	return err
}

// Packages returns the versions of Debian's packages that Up has started, one in a line.
func Packages() (string, error) {
	folder, err := scripts()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range []string{"neutron-server", "keystone", "mariadb-server-core"} {
		file := filepath.Join("usr", "share", "doc", name, "changelog.Debian.gz")
		raw, err := os.ReadFile(filepath.Join(folder, "..", "_output", "neutron", "root", file))
		if errors.Is(err, os.ErrNotExist) { // it was installed before
			raw, err = os.ReadFile(filepath.Join("/", file))
		}
		if err != nil {
			return "", err
		}
		unzip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return "", err
		}
		first, err := bufio.NewReader(unzip).ReadString(')')
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, first)
	}
	return b.String(), nil
}

// scripts returns the folder of the scripts in the repository that contains the working directory.
var scripts = sync.OnceValues(func() (string, error) {
	root, err := stack.Root()
	return filepath.Join(root, "hack", "neutron"), err
})

// script runs one of the scripts and returns its output.
func script(ctx context.Context, name string, args ...string) (string, error) {
	folder, err := scripts()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(folder, name), args...)
	// On SIGTERM the script cleans up; SIGKILL would prevent that.
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
