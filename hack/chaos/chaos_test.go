// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

// plan has the parameters of a run.
type plan struct {
	seed uint64
	// networks is the number of Networks, besides those that import one.
	networks int
	// kills is how often the leader is killed at one of its requests.
	kills int
	// dropped is the percentage of the requests whose connections are dropped. hangs means that on some of those to
	// OpenStack nothing comes back.
	dropped int
	hangs   bool
	// neutronTimeout is how long the controller waits for an answer of Neutron, resync how often it lists all, and workers
	// how many Networks it syncs at a time.
	neutronTimeout, resync time.Duration
	workers                int
}

var (
	seed         = flag.Uint64("seed", 1, "the first seed")
	seeds        = flag.Int("seeds", 1, "how many seeds, one after the other")
	networksFlag = flag.Int("networks", 0, "how many Networks (default 30, with the real Neutron 12)")
	kills        = flag.Int("kills", 3, "how often the leader is killed at one of its requests")
	patience     = flag.Duration("patience", 10*time.Minute, "how long anything may take that is waited for: a loaded machine is no mistake of the controller's")
)

// TestChaos and TestChaosReal run at the same time, because each waits a lot.
func TestChaos(t *testing.T) {
	t.Parallel()
	plan{networks: 30, dropped: 10, hangs: true, neutronTimeout: 2 * time.Second, resync: 3 * time.Second, workers: 32}.test(t, func(t *testing.T, dir string) string {
		t.Helper()
		neutron, err := startNeutron(t.Context(), dir)
		must(t, err)
		t.Cleanup(func() { _ = neutron.Close() })
		return neutron.CloudsYAML
	})
}

// The real Neutron is ten times slower, and takes seconds for one request when it has many at the same time.
func TestChaosReal(t *testing.T) {
	t.Parallel()
	plan{networks: 12, dropped: 5, neutronTimeout: 30 * time.Second, resync: 10 * time.Second, workers: 8}.test(t, startRealNeutron)
}

// test runs the plan with each seed. startNeutron returns a clouds.yaml.
func (p plan) test(t *testing.T, startNeutron func(t *testing.T, dir string) string) {
	t.Helper()
	p.kills = *kills
	if *networksFlag > 0 {
		p.networks = *networksFlag
	}
	binary, err := buildController()
	must(t, err)
	for i := range *seeds {
		p.seed = *seed + uint64(i)
		t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
			dir := makeDir(t, t.Name())
			cloudsYAML := startNeutron(t, dir)
			p.execute(t, startControlPlane(t, dir), binary, cloudsYAML, dir)
		})
	}
}

// execute runs the plan with its seed.
func (p plan) execute(t *testing.T, controlPlane *cluster.Cluster, binary, cloudsYAML, dir string) {
	t.Helper()
	started := time.Now()
	w, err := newWorld(t.Context(), p, controlPlane, binary, cloudsYAML, dir)
	must(t, err)
	disagreements, err := w.run(t.Context())
	violations := w.found()
	t.Logf("seed %d: %d Networks, %d replicas; logs in %s\n%s\n%8s in all\n%8d violations",
		p.seed, len(w.slots), replicas, dir, w.tally, time.Since(started).Round(time.Second), len(violations)+len(disagreements))
	for _, violation := range violations {
		t.Error(violation)
	}
	for _, disagreement := range disagreements {
		w.log("DISAGREEMENT: %s", disagreement)
		t.Error(disagreement)
	}
	if err != nil {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	for _, what := range w.mustHappen() {
		if w.counted(what) == 0 {
			t.Errorf("not in this run: %s", what)
		}
	}
}

// mustHappen returns what a run without it does not show.
func (p plan) mustHappen() (all []string) {
	all = append(all, restored, "leaders", dropsBy("neutron"), dropsBy("kubernetes"))
	for _, t := range troubles {
		all = append(all, t.name)
	}
	for _, a := range append(append([]act(nil), acts...), importing...) {
		all = append(all, "a user "+a.name)
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeDir creates the test's folder, empty, and returns it.
func makeDir(t *testing.T, name string) string {
	t.Helper()
	dir, err := outputDir()
	must(t, err)
	dir = filepath.Join(dir, name)
	must(t, os.RemoveAll(dir))
	must(t, os.MkdirAll(dir, 0o700))
	return dir
}

func outputDir() (string, error) {
	root, err := stack.Root()
	return filepath.Join(root, "hack", "_output", "chaos"), err
}

// buildController builds the controller, once for all tests.
var buildController = sync.OnceValues(func() (string, error) { return stack.BuildRaceController(context.Background()) })

func startControlPlane(t *testing.T, dir string) *cluster.Cluster {
	t.Helper()
	executable, err := cluster.Build(t.Context(), os.Stderr)
	must(t, err)
	controlPlane, err := cluster.Start(t.Context(), cluster.Options{Binary: executable, Dir: filepath.Join(dir, "cluster"), Fresh: true})
	must(t, err)
	t.Cleanup(func() {
		if err := controlPlane.Stop(); err != nil {
			t.Error(err)
		}
	})
	root, err := stack.Root()
	must(t, err)
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(root, "artifacts", "crd")},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=5m"},
	} {
		if out, err := controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", args[0], err, out)
		}
	}
	return controlPlane
}

// startRealNeutron starts a Neutron, and returns its clouds.yaml.
func startRealNeutron(t *testing.T, _ string) string {
	t.Helper()
	dir, err := outputDir()
	must(t, err)
	n, err := realneutron.Up(t.Context(), filepath.Join(dir, "..", "neutron", "chaos"))
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := n.Purge(); err != nil {
			t.Error(err)
		}
	})
	return n.CloudsYAML
}
