// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
)

const timeout = 10 * time.Minute

// starterEnv makes the test binary start a control plane in the folder that it names, and
// wait until it is killed. See TestMain.
const starterEnv = "CONTROLPLANE_TEST_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterEnv); dir != "" {
		starter(dir)
	}
	os.Exit(m.Run())
}

// starter prints the supervisor's process ID when the control plane is ready.
func starter(dir string) {
	binary, err := cluster.Built()
	if err == nil {
		var c *cluster.Cluster
		if c, err = cluster.Start(context.Background(), cluster.Options{Binary: binary, Dir: dir, Fresh: true}); err == nil {
			fmt.Println(c.PID())
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestControlPlane starts a control plane in one folder, again and again, because each start takes seconds. The parts run in this
// order. The namespace outlasting is there from the first part to the last.
func TestControlPlane(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir)
	kubectl(t, c, "create", "namespace", "outlasting")
	kubeconfig := mustRead(t, c.Kubeconfig())
	t.Run("reports the version in go.mod", func(t *testing.T) { reportsVersion(t, c) })
	t.Run("writes a kubeconfig for its owner only", func(t *testing.T) { protectsKubeconfig(t, c) })
	t.Run("survives a restart of the API server", func(t *testing.T) { survivesRestart(t, c) })
	t.Run("restores a backup of etcd", func(t *testing.T) { restoresBackup(t, c) })
	t.Run("stops in order", func(t *testing.T) { stopsInOrder(t, c) })

	c = start(t, dir)
	t.Run("keeps its data and its kubeconfig", func(t *testing.T) {
		kubectl(t, c, "get", "namespace", "outlasting")
		if mustRead(t, c.Kubeconfig()) != kubeconfig {
			t.Error("the kubeconfig has changed")
		}
	})
	needProc(t)
	components := killSupervisor(t, c)
	// The new supervisor waits until the last child of the dead one has ended.
	c = start(t, dir)
	t.Run("ended when its supervisor was killed", func(t *testing.T) {
		if left := alive(components); len(left) > 0 {
			t.Errorf("processes %v still run", left)
		}
		kubectl(t, c, "get", "namespace", "outlasting")
	})
	t.Run("ends when a component fails", func(t *testing.T) { endsWithItsComponent(t, c) })
	t.Run("begins anew, and ends when its starter is killed", func(t *testing.T) { endsWithItsStarter(t, dir) })
}

func reportsVersion(t *testing.T, c *cluster.Cluster) {
	want, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	must(t, err)
	got := kubectl(t, c, "version")
	for _, side := range []string{"Client", "Server"} {
		if line := side + " Version: " + strings.TrimSpace(string(want)); !strings.Contains(got, line) {
			t.Errorf("want %q in:\n%s", line, got)
		}
	}
}

func protectsKubeconfig(t *testing.T, c *cluster.Cluster) {
	info, err := os.Stat(c.Kubeconfig())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func survivesRestart(t *testing.T, c *cluster.Cluster) {
	kubectl(t, c, "create", "namespace", "kept")
	must(t, c.RestartAPIServer())
	kubectl(t, c, "get", "namespace", "kept")
	must(t, c.KillAPIServer())
	if err := c.Kubectl("get", "namespace", "kept").Run(); err == nil {
		t.Error("a killed API server answers")
	}
	must(t, c.StartAPIServer())
	if err := c.StartAPIServer(); err == nil {
		t.Error("a running API server was started again")
	}
	// The controller manager has recovered too.
	kubectl(t, c, "delete", "namespace", "kept", "--timeout="+timeout.String())
}

func restoresBackup(t *testing.T, c *cluster.Cluster) {
	backup := filepath.Join(t.TempDir(), "backup")
	kubectl(t, c, "create", "namespace", "before")
	must(t, c.Backup(backup))
	eventually(t, "the API server writes again", func() bool {
		return c.Kubectl("create", "namespace", "after").Run() == nil
	})
	kubectl(t, c, "delete", "namespace", "before", "--timeout="+timeout.String())
	must(t, c.Restore(backup, nil))
	kubectl(t, c, "get", "namespace", "before")
	if out, err := c.Kubectl("get", "namespace", "after").CombinedOutput(); !strings.Contains(string(out), "NotFound") {
		t.Errorf("want the namespace to be gone, got %v:\n%s", err, out)
	}
	// The controller manager works with the restored data.
	kubectl(t, c, "delete", "namespace", "before", "--timeout="+timeout.String())
}

func stopsInOrder(t *testing.T, c *cluster.Cluster) {
	pids := children(c.PID())
	if err := c.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stop again: %v", err)
	}
	if left := alive(pids); len(left) > 0 {
		t.Errorf("processes %v still run", left)
	}
}

// killSupervisor returns the IDs of the components.
func killSupervisor(t *testing.T, c *cluster.Cluster) []int {
	t.Helper()
	components := children(c.PID())
	if len(components) != 3 {
		t.Fatalf("want three components, got %v", components)
	}
	must(t, syscall.Kill(c.PID(), syscall.SIGKILL))
	<-c.Done()
	return components
}

func endsWithItsComponent(t *testing.T, c *cluster.Cluster) {
	for _, pid := range children(c.PID()) {
		if data, _ := os.ReadFile(procFile(pid, "cmdline")); bytes.Contains(data, []byte("\x00etcd\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-c.Done()
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "etcd ended early (signal: killed)") {
		t.Errorf("got %v", err)
	}
}

// endsWithItsStarter starts the control plane by another process, with the option Fresh.
func endsWithItsStarter(t *testing.T, dir string) {
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starterEnv+"="+dir)
	starter.Stderr = os.Stderr
	stdout, err := starter.StdoutPipe()
	must(t, err)
	must(t, starter.Start())
	var supervisor int
	if _, err := fmt.Fscan(stdout, &supervisor); err != nil {
		t.Fatalf("read the supervisor's process ID: %v", err)
	}
	get := exec.Command(cluster.Kubectl(built(t)), "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "get", "namespace", "outlasting")
	if out, err := get.CombinedOutput(); !strings.Contains(string(out), "NotFound") {
		t.Errorf("want the namespace to be gone, got %v:\n%s", err, out)
	}
	pids := append(children(supervisor), supervisor)
	_ = starter.Process.Kill()
	_ = starter.Wait()
	eventually(t, "all processes have gone", func() bool { return len(alive(pids)) == 0 })
}

func TestComponentThatFailsIsNamedWithItsLog(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600))
	_, err := cluster.Start(t.Context(), cluster.Options{Binary: built(t), Dir: dir})
	if err == nil {
		t.Fatal("the control plane started with a file in place of a data folder")
	}
	for _, want := range []string{"etcd ended early", filepath.Join(dir, "logs", "etcd.log"), "not a directory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in:\n%v", want, err)
		}
	}
}

// built returns the control plane to test. Building it takes minutes, so a test does not
// build it: without it the tests are skipped, except where all tests must run.
func built(t *testing.T) string {
	t.Helper()
	binary, err := cluster.Built()
	if errors.Is(err, cluster.ErrNotBuilt) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	return binary
}

func start(t *testing.T, dir string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Binary: built(t), Dir: dir})
	must(t, err)
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

// kubectl runs kubectl and returns its standard output.
func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	cmd := c.Kubectl(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return string(data)
}

// needProc skips a test that reads the processes of others, if the system does not show
// them.
func needProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(procFile(os.Getpid(), "stat")); err != nil {
		t.Skip("this system has no /proc")
	}
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// children returns the children of a process. The components have no children.
func children(parent int) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, ppid := status(pid); ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive returns the processes in pids that still run.
func alive(pids []int) []int {
	var left []int
	for _, pid := range pids {
		// A zombie has ended; its parent has just not waited for it yet.
		if state, _ := status(pid); state != "" && state != "Z" {
			left = append(left, pid)
		}
	}
	return left
}

// status returns the state and the parent of a process.
func status(pid int) (state string, parent int) {
	data, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return "", 0
	}
	// The name, in parentheses, may contain any characters.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}
