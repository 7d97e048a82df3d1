// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install tests the chart with the real helm on a real control plane of its own: uninstalling
// a chart can delete the CRD.
package install

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

const (
	release = "samplecrd-controller"
	system  = "samplecrd-system"
	crd     = "networks.samplecrd.k8s.io"
)

var (
	// root is the repository, dir the folder of these tests, helmBinary the real helm.
	root, dir, helmBinary string
	controlPlane          *cluster.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if err := start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		return 1
	}
	code = m.Run()
	if err := controlPlane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "install: stop the control plane:", err)
		return 1
	}
	return code
}

func start(ctx context.Context) (err error) {
	if root, err = stack.Root(); err != nil {
		return err
	}
	dir = filepath.Join(root, "hack", "_output", "helm")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	helmBinary = filepath.Join(root, "hack", "_output", "bin", "helm")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "hack"), "-trimpath", "-o", helmBinary, "helm.sh/helm/v4/cmd/helm")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build helm: %w: %s", err, out)
	}
	executable, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	controlPlane, err = cluster.Start(ctx, cluster.Options{Binary: executable, Dir: filepath.Join(dir, "cluster"), Fresh: true})
	return err
}

// tools are the commands of a test, which fail it.
type tools struct{ *testing.T }

// tryHelm runs helm as the administrator. It ignores the user's own configuration.
func (t tools) tryHelm(args ...string) (string, error) {
	cmd := exec.Command(helmBinary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+controlPlane.Kubeconfig(),
		"HELM_CACHE_HOME="+filepath.Join(dir, "cache"), "HELM_CONFIG_HOME="+filepath.Join(dir, "config"), "HELM_DATA_HOME="+filepath.Join(dir, "data"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (t tools) helm(args ...string) string {
	t.Helper()
	out, err := t.tryHelm(args...)
	if err != nil {
		t.Fatalf("helm %s: %v: %s", args[0], err, out)
	}
	return out
}

// kubectl runs kubectl with stdin as the administrator, and returns its standard output.
func (t tools) kubectl(stdin string, args ...string) string {
	t.Helper()
	cmd := controlPlane.Kubectl(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// clean removes the release and the CRD at the end of the test.
func (t tools) clean() {
	t.Cleanup(func() {
		t.helm("uninstall", release, "-n", system, "--ignore-not-found", "--wait")
		t.kubectl("", "delete", "networks", "--all", "--all-namespaces", "--ignore-not-found")
		t.removeCRDs(crd, "clusterclouds.samplecrd.k8s.io")
	})
}

// removeCRDs removes CRDs. If kube-apiserver cannot list the instances of a new one yet ("storage is (re)initializing"), it
// sometimes tries again only after five minutes. Any change of the CRD lets it try at once.
func (t tools) removeCRDs(names ...string) {
	t.Helper()
	t.kubectl("", append([]string{"delete", "crd", "--ignore-not-found", "--wait=false"}, names...)...)
	left := func() string {
		return t.kubectl("", append([]string{"get", "crd", "--ignore-not-found", "-o", "name"}, names...)...)
	}
	for i := 0; left() != ""; i++ {
		wait := append([]string{"wait", "crd", "--for=delete", "--timeout=5s"}, names...)
		if controlPlane.Kubectl(wait...).Run() == nil {
			return
		}
		touch := append([]string{"annotate", "--overwrite"}, strings.Fields(left())...)
		_ = controlPlane.Kubectl(append(touch, fmt.Sprint("looked-at=", i))...).Run() // it may be gone by now
	}
}

func chart() string { return filepath.Join(root, "artifacts", "helm", release) }

// olderChart returns a copy of the chart whose CRD does not have spec.import yet.
func (t tools) olderChart() string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), release)
	t.must(os.CopyFS(folder, os.DirFS(chart())))
	file := filepath.Join(folder, "files", "samplecrd.k8s.io_networks.yaml")
	text, err := os.ReadFile(file)
	t.must(err)
	lines := strings.Split(string(text), "\n")
	rules := slices.Index(lines, "            x-kubernetes-validations:")
	field := slices.Index(lines, "              import:")
	if rules < 0 || field < 0 {
		t.Fatalf("%s has no field spec.import, or no rules of spec", file)
	}
	t.must(os.WriteFile(file, []byte(strings.Join(without(lines, field, rules), "\n")), 0o644))
	return folder
}

// without returns the lines of YAML without the blocks that begin at these lines.
func without(lines []string, blocks ...int) (rest []string) {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	within := -1
	for i, line := range lines {
		isItem := strings.HasPrefix(strings.TrimLeft(line, " "), "- ") && indent(line) == within
		if within >= 0 && line != "" && indent(line) <= within && !isItem {
			within = -1
		}
		if slices.Contains(blocks, i) {
			within = indent(line)
		}
		if within < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

func (t tools) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hasImport reports whether the CRD has the field spec.import.
func (t tools) hasImport() bool {
	t.Helper()
	const path = "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.import.type}"
	return t.kubectl("", "get", "crd", crd, "-o", "jsonpath="+path) != ""
}

func (t tools) install(args ...string) string {
	t.Helper()
	return t.helm(append([]string{"install", release, chart(), "-n", system, "--create-namespace"}, args...)...)
}

// installed returns the objects with names of this project, except for the CRD.
func (t tools) installed() []string {
	t.Helper()
	const kinds = "deployment,service,configmap,serviceaccount,poddisruptionbudget,role,rolebinding,clusterrole,clusterrolebinding"
	all := strings.Fields(t.kubectl("", "get", kinds, "-n", system, "-o", "name"))
	return slices.DeleteFunc(all, func(name string) bool { return !strings.Contains(name, "/samplecrd-") })
}

// wants fails the test if the text does not have a part.
func (t tools) wants(text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in:\n%s", part, text)
		}
	}
}

const net1 = `{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: net-1, finalizers: [samplecrd.k8s.io/neutron]}, spec: {cidr: 10.0.0.0/24}}`

// A user installs the chart, creates a Network, upgrades to a chart with a newer CRD, uninstalls the chart,
// and installs it again. The CRD follows the chart, and the Network stays.
func TestUpgradeTakesTheCRDAlongAndUninstallKeepsTheNetworks(t *testing.T) {
	u := tools{t}
	u.clean()
	older := u.olderChart()
	u.helm("install", release, older, "-n", system, "--create-namespace")
	if u.hasImport() {
		t.Fatal("the older chart has the field spec.import")
	}
	u.kubectl("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=5m")
	u.kubectl(net1, "create", "-f", "-")
	// Without this, a test that fails would wait for ever for the deletion.
	t.Cleanup(func() {
		u.kubectl("", "patch", "network", "net-1", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	})
	uid := u.kubectl("", "get", "network", "net-1", "-o", "jsonpath={.metadata.uid}")

	u.helm("upgrade", release, chart(), "-n", system)
	if !u.hasImport() {
		t.Error("the upgrade has not changed the CRD")
	}
	if got := len(u.installed()); got < 10 {
		t.Errorf("the release has only %d objects", got)
	}
	u.wants(u.helm("uninstall", release, "-n", system, "--wait"), "kept", crd)
	if left := u.installed(); len(left) > 0 {
		t.Errorf("after the deletion of the release there is: %s", left)
	}

	u.install()
	if got := u.kubectl("", "get", "network", "net-1", "-o", "jsonpath={.metadata.uid}"); got != uid {
		t.Errorf("the Network has the UID %s, want %s", got, uid)
	}
}

// The ways of the chart's README: take over an older CRD that kubectl has applied, upgrade, go back without
// the CRD, and upgrade again. Such a CRD belongs to no release, so Helm takes it over only when it is told to.
func TestUpgradeAndGoBackAsTheREADMESays(t *testing.T) {
	u := tools{t}
	u.clean()
	older := u.olderChart()
	u.kubectl("", "apply", "-f", filepath.Join(older, "files", "samplecrd.k8s.io_networks.yaml"))
	for flag, says := range map[string]string{"--take-ownership=false": "invalid ownership metadata", "--take-ownership": "conflict"} {
		out, err := u.tryHelm("install", release, chart(), "-n", system, "--create-namespace", flag)
		if err == nil {
			t.Error("helm has installed the chart")
		}
		u.wants(out, says)
		u.helm("uninstall", release, "-n", system, "--ignore-not-found")
	}
	u.install("--take-ownership", "--force-conflicts")
	if !u.hasImport() {
		t.Error("the installation has not changed the CRD")
	}
	if keep := u.kubectl("", "get", "crd", crd, "-o", `jsonpath={.metadata.annotations.helm\.sh/resource-policy}`); keep != "keep" {
		t.Errorf("the CRD has the policy %q, want keep", keep)
	}

	upgrade := func(chart string, args ...string) {
		t.Helper()
		u.helm(append([]string{"upgrade", release, chart, "-n", system, "--reset-then-reuse-values"}, args...)...)
	}
	upgrade(chart(), "--set=replicas=3")
	upgrade(older, "--set=crds.install=false")
	if !u.hasImport() {
		t.Error("the way back has changed the CRD")
	}
	upgrade(older, "--set=crds.install=auto")
	if u.hasImport() {
		t.Error("crds.install=auto has not installed the CRD")
	}
	upgrade(chart())
	if !u.hasImport() {
		t.Error("the upgrade has not changed the CRD")
	}
	if got := u.kubectl("", "get", "deployment", release, "-n", system, "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("there are %s replicas, want 3", got)
	}
}

// The chart's README says how helm takes over what kubectl has applied.
func TestInstallationByKubectlIsTakenOver(t *testing.T) {
	u := tools{t}
	u.clean()
	u.kubectl("", "apply", "-k", filepath.Join(root, "artifacts", "deploy"))
	t.Cleanup(func() { // what the chart does not have
		u.kubectl("", "delete", "configmap", "--namespace="+system, "--all", "--ignore-not-found")
	})
	u.kubectl("", "-n", system, "delete", "deployment,service", release)
	u.install("--take-ownership", "--force-conflicts")
	upgraded := u.helm("upgrade", release, chart(), "-n", system, "--reset-then-reuse-values", "--set=replicas=3")
	u.wants(upgraded, "STATUS: deployed")
	if got := u.kubectl("", "get", "deployment", release, "-n", system, "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("there are %s replicas, want 3", got)
	}
}

// The chart installs the policies together with the CRD that they are about, and removes them.
func TestNetworksAreProtectedFromDeletion(t *testing.T) {
	u := tools{t}
	u.clean()
	u.install("--set=deletionProtection.enabled=true")
	u.kubectl("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=5m")
	u.kubectl(`{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: net-1, labels: {samplecrd.k8s.io/deletion-protection: "true"}}, spec: {cidr: 10.0.0.0/24}}`,
		"create", "-n", system, "-f", "-")
	u.deletionIs("Network "+system+"/net-1 is protected from deletion", "network", "net-1")
	u.deletionIs("has a Network that is protected from deletion: net-1", "namespace", system)

	u.helm("upgrade", release, chart(), "-n", system, "--set=deletionProtection.enabled=false")
	u.deletionIs("", "network", "net-1")
	u.deletionIs("", "namespace", system)
}

// deletionIs waits until a deletion is refused with that text, and with "" until it is not refused. Nothing is deleted. The API server
// looks only every half minute for the kinds that policies have as parameters.
func (t tools) deletionIs(refused, kind, name string) {
	t.Helper()
	var out []byte
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		var err error
		out, err = controlPlane.Kubectl("delete", "-n", system, "--dry-run=server", kind, name).CombinedOutput()
		return (err != nil) == (refused != "") && strings.Contains(string(out), refused), nil
	})
	if err != nil {
		t.Errorf("want %q, got %s", refused, out)
	}
}

// The API server accepts what the chart renders, with all that can be installed without other operators,
// and the pods pass the admission of the namespace, which refuses unrestricted ones.
func TestInstallWithOptions(t *testing.T) {
	u := tools{t}
	u.clean()
	out := u.install("--set=https.enabled=true,monitoring.dashboard.enabled=true,flags.workers=64,flags.resync=10m",
		"--set=priorityClassName=system-cluster-critical,replicas=3")
	u.wants(out, "STATUS: deployed", "kubectl")
	u.kubectl("", "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	if got := u.kubectl("", "get", "deployment", release, "-n", system, "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].args}"); !strings.HasPrefix(got, "3 ") || !strings.Contains(got, `"-workers=64"`) {
		t.Errorf("the Deployment has %s", got)
	}
	u.wants(u.kubectl("", "get", "networkpolicy,configmap,pdb", "-n", system, "-o", "name"), "networkpolicy", "poddisruptionbudget", "dashboard")
	u.kubectl("", "wait", "--for=create", "pods", "-n", system, "-l", "app.kubernetes.io/name="+release, "--timeout=60s")
}
