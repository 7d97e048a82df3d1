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

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// plan says what a run is to be.
type plan struct {
	seed                              uint64
	networks, kills, faults, restarts int
	// lateDeletes has users delete only what has its finalizer. Otherwise some deletions meet
	// the very patch that stores it, and Kubernetes may then remove the object all the same:
	// it looks at the finalizers when the deletion begins.
	lateDeletes bool
	// patience is how long order may take to come when the faults have stopped: longer than
	// the minute after which the controller tries again what a person has to put right.
	patience time.Duration
	// bound is how long a run may take.
	bound             time.Duration
	cloudsYAML, cloud string
}

// The plans that there are; the environment changes them.
var (
	short = plan{seed: 1, networks: 60, kills: 10, faults: 20, restarts: 1, patience: 90 * time.Second, bound: 10 * time.Minute}
	long  = plan{seed: 1, networks: 300, kills: 100, faults: 20, restarts: 2, patience: 2 * time.Minute, bound: 30 * time.Minute}
)

func TestChaos(t *testing.T) {
	p, seeds := planned(t)
	controlPlane := startControlPlane(t)
	binary := filepath.Join(outputDir(t), "samplecrd-controller")
	if err := stack.BuildControllerAs(t.Context(), binary, "-race"); err != nil {
		t.Fatal(err)
	}
	for range seeds {
		t.Run(fmt.Sprintf("seed %d", p.seed), func(t *testing.T) {
			for _, violation := range p.execute(t, controlPlane, binary) {
				t.Error(violation)
			}
		})
		p.seed++
	}
}

// planned returns the plan, and how many seeds it is for.
func planned(t *testing.T) (p plan, seeds int) {
	t.Helper()
	p, seeds = short, 1
	if os.Getenv("CHAOS_LONG") != "" {
		p, seeds = long, 10
	}
	p.seed = uint64(number(t, "CHAOS_SEED", int(p.seed)))
	p.networks = number(t, "CHAOS_NETWORKS", p.networks)
	p.kills = number(t, "CHAOS_KILLS", p.kills)
	p.faults = number(t, "CHAOS_FAULTS", p.faults)
	p.restarts = number(t, "CHAOS_RESTARTS", p.restarts)
	p.lateDeletes = os.Getenv("CHAOS_LATE_DELETES") != ""
	p.cloudsYAML, p.cloud = os.Getenv("CHAOS_CLOUDS_YAML"), os.Getenv("CHAOS_CLOUD")
	return p, number(t, "CHAOS_SEEDS", seeds)
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a number", variable, text)
	}
	return n
}

// execute runs the plan, and returns the violations.
func (p plan) execute(t *testing.T, controlPlane *cluster.Cluster, binary string) violations {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.bound)
	defer cancel()
	started := time.Now()
	w, err := newWorld(ctx, p, controlPlane, binary, filepath.Join(outputDir(t), filepath.Base(binary)+"-"+strconv.FormatUint(p.seed, 10)))
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.run(ctx)
	w.tally.note("in all", time.Since(started))
	t.Logf("seed %d: %d Networks, %d kills and %d %% of the calls faulty, and a quarter of that in a second cluster; logs in %s\n%s\n%8d violations",
		p.seed, p.networks, p.kills, p.faults, w.dir, w.tally, len(found))
	if err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	return found
}

func outputDir(t *testing.T) string {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "hack", "_output", "chaos")
}

func startControlPlane(t *testing.T) *cluster.Cluster {
	t.Helper()
	dir := outputDir(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	executable, err := cluster.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	controlPlane, err := cluster.Start(t.Context(), cluster.Options{Binary: executable, Dir: filepath.Join(dir, "cluster"), Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := controlPlane.Stop(); err != nil {
			t.Error(err)
		}
	})
	crd := filepath.Join(dir, "..", "..", "..", "artifacts", "crd")
	for _, args := range [][]string{
		{"apply", "-f", crd},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=30s"},
	} {
		if out, err := controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", args[0], err, out)
		}
	}
	return controlPlane
}
