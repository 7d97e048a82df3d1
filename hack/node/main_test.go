//go:build linux

// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// cgroupVariable is an environment variable of the process that runs the tests on the node.
// It has the name of the pods' cgroup.
const cgroupVariable = "SAMPLECRD_NODE_CGROUP"

// errUnavailable is returned where a node cannot run.
var errUnavailable = errors.New("a node cannot run here")

var (
	// dir is the folder of the programs and the logs.
	dir string
	// unavailable is the reason why there is no node, or nil.
	unavailable error
)

// TestMain starts the test binary again as the first process of the node.
func TestMain(m *testing.M) {
	flag.Parse()
	root, err := stack.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
	dir = filepath.Join(root, "hack", "_output", "node")
	if cgroup := os.Getenv(cgroupVariable); cgroup != "" {
		os.Exit(inside(m, cgroup))
	}
	os.Exit(outside(m))
}

// outside does the preparation and the cleanup that cannot run on the node.
func outside(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	cgroup := fmt.Sprintf("samplecrd-node-%d", os.Getpid())
	defer removeCgroup(cgroup)
	err := prepare(ctx, cgroup)
	if errors.Is(err, errUnavailable) && os.Getenv("CI") != "true" {
		unavailable = err
		return m.Run()
	}
	if err == nil {
		err = build(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	cmd := isolated(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), cgroupVariable+"="+cgroup)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	if !cmd.ProcessState.Exited() {
		fmt.Fprintln(os.Stderr, "node:", cmd.ProcessState)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// prepare checks whether a node can run here, as far as this can be checked in advance.
func prepare(ctx context.Context, cgroup string) error {
	if err := check(ctx); err != nil {
		return err
	}
	if err := makeCgroup(cgroup); err != nil {
		return err
	}
	return fetch(ctx)
}

// isolated returns a command that becomes the first process of new namespaces. When it
// ends, the kernel ends all other processes in them.
func isolated(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// check checks the quick requirements: namespaces, iproute2 and overlayfs.
func check(ctx context.Context) error {
	if err := isolated(ctx, "true").Run(); err != nil {
		return fmt.Errorf("%w: make namespaces: %w", errUnavailable, err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("%w: %w: install the package iproute2", errUnavailable, err)
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(filesystems), "\toverlay\n") {
		err = fmt.Errorf("%w: the kernel has no overlayfs", errUnavailable)
	}
	return err
}

// makeCgroup creates a cgroup in each hierarchy.
func makeCgroup(name string) error {
	m, err := manager.New(&cgroups.Cgroup{Path: "/" + name, Resources: &cgroups.Resources{}})
	if err == nil {
		err = m.Apply(-1) // no process
	}
	if err != nil {
		return fmt.Errorf("%w: make a cgroup: %w", errUnavailable, err)
	}
	return nil
}

func removeCgroup(name string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		folders, _ := filepath.Glob(filepath.Join(pattern, name)) // the pattern is well formed
		for _, folder := range folders {
			if err := cgroups.RemovePath(folder); err != nil {
				fmt.Fprintln(os.Stderr, "node:", err)
			}
		}
	}
}

// fetch fetches and unpacks containerd, runc and the CNI plugins.
func fetch(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "./fetch.sh").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return fmt.Errorf("%w: %s", errUnavailable, bytes.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("fetch.sh: %w: %s", err, out)
	}
	return nil
}

// build builds all programs that run on the node, and the release under test.
func build(ctx context.Context) error {
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	version, err := output(ctx, nil, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	linker := "-s -w -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(version)
	if _, err := output(ctx, nil, "go", "build", "-trimpath", "-ldflags", linker, "-o", filepath.Join(dir, "kubelet"), "./kubelet"); err != nil {
		return err
	}
	static := []string{"CGO_ENABLED=0"}
	if _, err := output(ctx, static, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "pause"), "./pause"); err != nil {
		return err
	}
	release := filepath.Join(dir, "release")
	if err := os.RemoveAll(release); err != nil {
		return err
	}
	_, err = output(ctx, nil, "../release.sh", "-o", release)
	return err
}

// output runs a command, and returns its standard output.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return string(out), nil
}
