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
	// The runs have the seeds from seed on.
	seed  uint64
	seeds int
	// networks and kills are those of the first cluster.
	networks, kills int
	// replicas is the number of processes of each controller, one of which leads.
	replicas int
	// troubles is how many troubles the replicas of the first cluster have, besides kills.
	troubles int
	// edits is the minimum number of edits, deletions and so on for each Network.
	edits int
	// faults is the percentage of the requests that are spoiled.
	faults int
	// restarts is how often kube-apiserver is killed.
	restarts int
	// restores is how often etcd is restored from a backup, besides the restore at rest.
	restores int
	// keystone is how often all tokens are revoked while Keystone fails.
	keystone int
	// tokenTTL is the lifetime of the embedded Keystone's tokens; 0: long.
	tokenTTL time.Duration
	// moves is how often the embedded Keystone leads the controllers to another place.
	moves int
	// pageLimit is how many items Neutron lists at once.
	pageLimit int
	// neutronTimeout is how long the controllers wait for an answer of Neutron.
	neutronTimeout time.Duration
	// twins reports whether both controllers have the same cluster ID, by mistake, and delete
	// orphans.
	twins bool
	// patience is how long the controllers may take to converge after the faults stop: longer
	// than the minute after which the controller retries errors that a user must correct.
	patience time.Duration
	// bound is how long a run may take.
	bound time.Duration
	// cloudsYAML is the file for the Neutron to use; if it is "", an embedded one is started.
	cloudsYAML string
}

// The plans. Flags change them.
var (
	short = plan{
		seed: 1, seeds: 1, networks: 60, kills: 10, edits: 2, faults: 20, restarts: 1, restores: 1,
		keystone: 3, tokenTTL: 5 * time.Second, moves: 2, pageLimit: 100, neutronTimeout: 2 * time.Second, patience: 90 * time.Second, bound: 10 * time.Minute,
	}
	// The real Neutron is ten times slower, and takes seconds for one request when it has many
	// at the same time.
	shortOnReal = plan{
		seed: 1, seeds: 1, networks: 40, kills: 10, edits: 2, faults: 20, restarts: 1, keystone: 2, pageLimit: 50,
		neutronTimeout: 10 * time.Second, patience: 2 * time.Minute, bound: 20 * time.Minute,
	}
	// Without kills: to a controller that was started again, all networks of the other one look
	// like its own orphans, as the documentation says.
	shortOfTwins = plan{
		seed: 1, seeds: 1, networks: 40, edits: 1, faults: 20, twins: true, pageLimit: 100,
		neutronTimeout: 2 * time.Second, patience: 90 * time.Second, bound: 10 * time.Minute,
	}
	long = plan{
		seed: 1, seeds: 10, networks: 300, kills: 100, edits: 4, faults: 20, restarts: 2, restores: 4,
		keystone: 12, tokenTTL: 5 * time.Second, moves: 4, pageLimit: 300, neutronTimeout: 2 * time.Second, patience: 2 * time.Minute, bound: 30 * time.Minute,
	}
)

var (
	isLong = flag.Bool("long", false, "also run the long tests")

	seedFlag     = flag.Int("seed", notSet, "the first seed")
	seedsFlag    = flag.Int("seeds", notSet, "how many seeds, one after the other")
	networksFlag = flag.Int("networks", notSet, "how many Networks")
	killsFlag    = flag.Int("kills", notSet, "how often the controller is killed")
	editsFlag    = flag.Int("edits", notSet, "how many edits for each Network")
	troublesFlag = flag.Int("troubles", notSet, "how many troubles of the replicas")
	faultsFlag   = flag.Int("faults", notSet, "the percentage of the requests that are spoiled")
	restoresFlag = flag.Int("restores", notSet, "how often etcd is restored from a backup")
	keystoneFlag = flag.Int("keystone", notSet, "how often Keystone fails")
	movesFlag    = flag.Int("moves", notSet, "how often Keystone leads to another place")
	restartsFlag = flag.Int("restarts", notSet, "how often kube-apiserver is killed")
)

const notSet = -1

// adjusted returns the plan with the values of the flags.
func (p plan) adjusted() plan {
	if *seedFlag != notSet {
		p.seed = uint64(*seedFlag)
	}
	for value, given := range map[*int]int{
		&p.seeds: *seedsFlag, &p.networks: *networksFlag, &p.kills: *killsFlag,
		&p.edits: *editsFlag, &p.faults: *faultsFlag, &p.restarts: *restartsFlag,
		&p.troubles: *troublesFlag, &p.restores: *restoresFlag, &p.keystone: *keystoneFlag, &p.moves: *movesFlag,
	} {
		if given != notSet {
			*value = given
		}
	}
	return p
}

// TestChaos and TestChaosReal run at the same time, because each waits for faults and delays again and
// again while the other one can use the processors.
func TestChaos(t *testing.T) {
	t.Parallel()
	short.adjusted().test(t, shortOfTwins)
}

func TestChaosReal(t *testing.T) {
	t.Parallel()
	p := shortOnReal.adjusted()
	p.cloudsYAML = startRealNeutron(t, p.pageLimit)
	p.test(t)
}

func TestChaosLong(t *testing.T) {
	needLong(t)
	long.adjusted().test(t)
}

func needLong(t *testing.T) {
	t.Helper()
	if !*isLong {
		t.Skip("takes long: run it with -long")
	}
}

// test runs the plan and then the others, each with all of its seeds.
func (p plan) test(t *testing.T, others ...plan) {
	t.Helper()
	dir := makeDir(t)
	binary, err := buildController()
	if err != nil {
		t.Fatal(err)
	}
	controlPlane := startControlPlane(t, dir)
	for _, p := range append([]plan{p}, others...) {
		for range p.seeds {
			name, folder := fmt.Sprintf("seed %d, %d %% spoiled", p.seed, p.faults), fmt.Sprintf("%d-%d", p.seed, p.faults)
			if p.twins {
				name, folder = name+", one cluster ID", folder+"-twins"
			}
			t.Run(name, func(t *testing.T) {
				run := filepath.Join(dir, folder)
				for _, violation := range p.execute(t, controlPlane, binary, run) {
					t.Error(violation)
				}
			})
			p.seed++
		}
	}
}

// execute runs the plan with one seed, and returns the violations.
func (p plan) execute(t *testing.T, controlPlane *cluster.Cluster, binary, dir string) violations {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.bound)
	defer cancel()
	started := time.Now()
	w, err := newWorld(ctx, p, controlPlane, binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.run(ctx)
	w.tally.note("in all", time.Since(started))
	t.Logf("seed %d: %d Networks, %d kills, %d troubles of replicas and %d %% of the requests spoiled, and a quarter of that in a second cluster; logs in %s\n%s\n%8d violations",
		p.seed, p.networks, p.kills, p.troubles, p.faults, w.dir, w.tally, len(found))
	if err != nil && ctx.Err() != nil {
		found.add(endless+"%v", err)
	} else if err != nil {
		t.Error(err)
	}
	for _, actor := range w.actors() {
		if len(found) == 0 && err == nil && w.tally.count(actor) == 0 {
			t.Errorf("no %s in this run", actor)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	return found
}

// fewEdits are too few for each kind of edit to be among them.
const fewEdits = 60

// actors returns what the tally of a run must have.
func (p plan) actors() (names []string) {
	add := func(yes bool, more ...string) {
		if yes {
			names = append(names, more...)
		}
	}
	add(p.networks*p.edits >= fewEdits, "Networks paused", "Networks resumed", "deletion policies changed before a deletion",
		"gateways taken away", "changes between IPv4 and IPv6", "changes of an IPv6 gateway",
		"routers added", "routers removed", "moves to another router", "CIDRs changed while attached", "gateways changed while attached",
		visits, "networks created by hand", "Networks created that import a network",
		"imports switched to Observe", "imports switched to Managed", "irreversible: "+string(importsNetwork))
	// On the real Neutron a run has 0 to 5 of them.
	add(p.networks*p.edits >= fewEdits && p.cloudsYAML == "", tampered)
	add(p.networks*p.edits >= fewEdits && p.faults > 0 && p.cloudsYAML == "", "OpenStack fault: "+halfway.name)
	add(p.kills > 0 && p.faults > 0, "late watches")
	add(p.restores > 0, whileWorking, atRest, "Networks with an older spec since a restore")
	add(p.keystone > 0, keystoneFailures)
	add(p.moves > 0, movesTo+otherRegion.String())
	add(p.moves > 1, movesTo+otherProject.String())
	add(p.replicas > 1 && p.troubles >= len(troubles), namespacesDeleted)
	return names
}

// makeDir creates the test's folder, empty, and returns it.
func makeDir(t *testing.T) string {
	t.Helper()
	dir, err := outputDir()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, t.Name())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func outputDir() (string, error) {
	root, err := stack.Root()
	return filepath.Join(root, "hack", "_output", "chaos"), err
}

// buildController builds the controller, once for all tests.
var buildController = sync.OnceValues(func() (string, error) {
	dir, err := outputDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "samplecrd-controller")
	return binary, stack.BuildControllerAs(context.Background(), binary, "-race")
})

func startControlPlane(t *testing.T, dir string) *cluster.Cluster {
	t.Helper()
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
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(root, "artifacts", "crd")},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=30s"},
	} {
		if out, err := controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", args[0], err, out)
		}
	}
	return controlPlane
}

// startRealNeutron starts a Neutron with this many items per page of a list, and returns its
// clouds.yaml.
func startRealNeutron(t *testing.T, pageLimit int) string {
	t.Helper()
	dir, err := outputDir()
	if err != nil {
		t.Fatal(err)
	}
	n, err := realneutron.Up(t.Context(), filepath.Join(dir, "..", "neutron", "chaos"),
		"[DEFAULT]", fmt.Sprintf("pagination_max_limit = %d", pageLimit))
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Purge(); err != nil {
			t.Error(err)
		}
	})
	return n.CloudsYAML
}
