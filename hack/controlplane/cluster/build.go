// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// module is the Go module that the control plane is built in.
	module = "github.com/samplecrd/samplecrd-controller/hack"
	// kubernetes is the module whose version the control plane reports.
	kubernetes = "k8s.io/kubernetes"
)

// ErrNotBuilt is returned by Built before the first Build.
var ErrNotBuilt = errors.New("the control plane is not built: run go run -C hack ./controlplane/build")

// Built returns the executable of the last Build, even if it is out of date.
func Built() (string, error) {
	hack, err := findHack()
	if err != nil {
		return "", err
	}
	binary := executable(hack)
	if _, err := os.Stat(binary); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotBuilt
	}
	return binary, err
}

// Build builds the control plane into hack/_output/bin, with a kubectl beside it, unless it
// is up to date, and returns the executable. The first build takes minutes; its progress is
// written to progress. Build works from any folder of the repository, and waits for another
// build in progress.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	hack, err := findHack()
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	binary := executable(hack)
	if err := build(ctx, hack, binary, newReporter(progress)); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return binary, nil
}

func build(ctx context.Context, hack, binary string, r *reporter) error {
	defer r.finish()
	defer r.tick()()
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	unlock, err := lockBuild(ctx, binary+".lock", r)
	if err != nil {
		return err
	}
	defer unlock()
	// The hash is computed before the build, so that a source that changes during the build
	// is built next time.
	hash, err := sourceHash(ctx, hack)
	if err != nil {
		return err
	}
	if upToDate(binary, hash) {
		return nil
	}
	if err := compile(ctx, hack, binary, r); err != nil {
		return err
	}
	return os.WriteFile(stamp(binary), []byte(hash), 0o644)
}

// compile runs go build, and reports each compiled package to r.
func compile(ctx context.Context, hack, binary string, r *reporter) error {
	flags, err := versionFlags(ctx, hack)
	if err != nil {
		return err
	}
	// Listing the packages fetches the modules.
	r.phase("listing packages")
	commands := []string{"./controlplane", "./controlplane/kubectl"}
	packages, err := output(goCommand(ctx, hack, append([]string{"list", "-deps"}, commands...)...), r.fetched)
	if err != nil {
		return err
	}
	r.compiling(strings.Fields(packages))
	args := []string{"build", "-v", "-trimpath", "-ldflags", flags, "-o", filepath.Dir(binary) + string(filepath.Separator)}
	_, err = output(goCommand(ctx, hack, append(args, commands...)...), r.compiled)
	return err
}

// output runs a command and returns its standard output. Lines on standard error that
// isProgress accepts are progress; the others explain a failure.
func output(cmd *exec.Cmd, isProgress func(line string) bool) (string, error) {
	var stdout, complaints strings.Builder
	cmd.Stdout = &stdout
	cmd.Stderr = &lineWriter{line: func(line string) {
		if !isProgress(line) {
			fmt.Fprintln(&complaints, line)
		}
	}}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, complaints.String())
	}
	return stdout.String(), nil
}

// goCommand returns a go command that runs in folder. When the context ends it is
// interrupted, not killed, because killing it would leave its compilers running.
func goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// versionFlags returns linker flags that make the control plane report the
// version of Kubernetes that hack/go.mod requires.
func versionFlags(ctx context.Context, hack string) (string, error) {
	version, err := output(goCommand(ctx, hack, "list", "-m", "-f", "{{.Version}}", kubernetes), func(string) bool { return false })
	if err != nil {
		return "", err
	}
	return linkerFlags(strings.TrimSpace(version))
}

func linkerFlags(version string) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("version %q of %s is not of the form v1.2.3", version, kubernetes)
	}
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion="+version,
			"-X", pkg+".gitMajor="+parts[0],
			"-X", pkg+".gitMinor="+parts[1],
			"-X", pkg+".gitTreeState=clean",
		)
	}
	return strings.Join(flags, " "), nil
}

// lockBuild waits until no other process is building.
func lockBuild(ctx context.Context, file string, r *reporter) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		r.phase("waiting for another build to finish")
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// findHack returns the folder of hack's module. The process must run in the repository.
func findHack() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		for _, hack := range []string{dir, filepath.Join(dir, "hack")} {
			data, err := os.ReadFile(filepath.Join(hack, "go.mod"))
			if err == nil && strings.HasPrefix(string(data), "module "+module+"\n") {
				return hack, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository: no parent folder has a hack/go.mod", start)
		}
	}
}

func executable(hack string) string {
	return filepath.Join(hack, "_output", "bin", "controlplane")
}

// Kubectl returns the kubectl that is beside that executable.
func Kubectl(binary string) string { return filepath.Join(filepath.Dir(binary), "kubectl") }
