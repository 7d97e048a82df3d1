// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The jitter of delays comes from math/rand. This makes it the same in each run of one seed.
//go:debug randautoseed=0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/caches"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/command/move"
	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/simulation"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the first seed of TestSimulation; 0: 1")
	seedsFlag   = flag.Uint64("seeds", 0, "how many seeds TestSimulation has; 0: 200, 2 with -short, and 1 with -seed")
	journalFlag = flag.String("journal", "", "the file to which TestSimulation writes all that happens with the last seed")
)

// allSeeds is how many seeds have what happens seldom: handovers of each kind.
const allSeeds = 200

// TestSimulation runs whole controllers in virtual time. See pkg/testing/simulation. Of the first seed that fails it prints
// the shortest part of what happened that still fails.
func TestSimulation(t *testing.T) {
	first, last := uint64(1), cmp.Or(*seedsFlag, allSeeds)
	if testing.Short() && *seedsFlag == 0 {
		last = 1
	}
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag+max(*seedsFlag, 1)-1
	}
	var mu sync.Mutex
	var handovers simulation.Handovers
	seeds := 0 // those that -run matches
	t.Cleanup(func() {
		if t.Logf("%d seeds have the handovers %+v", seeds, handovers); seeds >= allSeeds && handovers.Least() < 10 {
			t.Error("too few handovers of a kind")
		}
	})
	var isShortened atomic.Bool
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			plan := simulation.NewPlan(seed)
			violations, all, ended := simulate(t, seed, plan)
			mu.Lock()
			handovers.Add(ended)
			seeds++
			mu.Unlock()
			if *journalFlag != "" && seed == last {
				if err := os.WriteFile(*journalFlag, []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
					t.Error(err)
				}
			}
			if len(violations) == 0 {
				return
			}
			t.Errorf("go test -run TestSimulation -seed %d .\n%s", seed, strings.Join(violations, "\n"))
			if isShortened.Swap(true) {
				return
			}
			wrong, journal := violations, all
			shortest := simulation.Shorten(plan, 60, func(plan []simulation.Act) bool {
				found, lines, _ := simulate(t, seed, plan)
				if len(found) > 0 {
					wrong, journal = found, lines
				}
				return len(found) > 0
			})
			t.Logf("%d of %d acts are enough for\n%s\n%s", len(shortest), len(plan), strings.Join(wrong, "\n"), strings.Join(journal, "\n"))
		})
	}
}

// simulate runs one simulation.
func simulate(t *testing.T, seed uint64, plan []simulation.Act) (violations, journal []string, handovers simulation.Handovers) {
	synctest.Test(t, func(*testing.T) {
		violations, journal, handovers = simulation.Run(seed, plan, simulation.Program{Start: startProcessOf, Preview: previewOf, Move: moveOf})
	})
	return violations, journal, handovers
}

// startProcessOf runs a process as run in main.go does, without what it serves.
func startProcessOf(ctx context.Context, p simulation.Process) error {
	o, _, err := options.Parse(append([]string{
		"-leader-elect=true", "-leader-elect-lease-duration=60s", "-leader-elect-renew-deadline=48s", "-leader-elect-retry-period=24s",
		"-leader-elect-resource-namespace=kube-system",
	}, p.Arguments...), io.Discard)
	if err != nil {
		return err
	}
	o.Neutron.UserAgent = p.Name
	config, err := neutron.ParseConfig("test", p.CloudsYAML)
	if err != nil {
		return err
	}
	kube, networks := kubernetes.NewForConfigOrDie(p.Kubernetes), clientset.NewForConfigOrDie(p.Kubernetes)
	clients := &kubeclient.Clients{ClusterID: p.Cluster, Kube: kube, WatchKube: kube, Leases: kube, Networks: networks, WatchNetworks: networks}
	ctx = klog.NewContext(ctx, klog.Logger{})
	recorder := clients.NewRecorder(ctx)
	defer recorder.Stop()
	informers := caches.New(clients, o.Namespace, o.DeploymentWorkers > 0)
	replica, err := election.New(clients.Leases.CoordinationV1(), recorder, o.ForElection(), p.Lost)
	if err != nil {
		return err
	}
	c := newControllers(ctx, o, clients, informers, replica, recorder, config)
	return informers.Run(ctx, func(ctx context.Context) error { return replica.Run(ctx, c.run) })
}

// moveOf runs the subcommand move for all Networks, or with old as -f.
func moveOf(ctx context.Context, p simulation.Process, from string, old []samplecrdv1.Network) (code int, output string, err error) {
	o, _, err := options.Parse(p.Arguments, io.Discard)
	if err != nil {
		return 0, "", err
	}
	o.Neutron.UserAgent = p.Name
	config, err := neutron.ParseConfig("test", p.CloudsYAML)
	if err != nil {
		return 0, "", err
	}
	ctx = klog.NewContext(ctx, klog.Logger{})
	clients := &kubeclient.Clients{ClusterID: p.Cluster, Kube: kubernetes.NewForConfigOrDie(p.Kubernetes), Networks: clientset.NewForConfigOrDie(p.Kubernetes)}
	opened := networks.NewClouds(clients, o)
	defer opened.Close()
	client := neutron.NewClient(config, o.Neutron)
	defer client.Close()
	own := neutron.NewCloud(config.Name, client, p.Cluster, time.Hour)
	cloudOf := func(ctx context.Context, n *samplecrdv1.Network) (*neutron.Cloud, error) {
		if clouds.RefOf(n) == (clouds.Ref{}) {
			return own, nil
		}
		return opened.Of(ctx, n)
	}
	all, err := networks.List(ctx, clients.Networks, "", nil, true)
	if err != nil {
		return 1, "", err
	}
	var targets []move.Target
	for _, n := range all {
		if len(old) == 0 {
			targets = append(targets, move.Target{Network: n})
		}
		for _, o := range old {
			if n.Namespace == o.Namespace && n.Name == o.Name {
				targets = append(targets, move.Target{Network: n, Old: o})
			}
		}
	}
	var stdout strings.Builder
	code, err = move.Request{From: from, OldIsStopped: len(old) == 0, Yes: true}.Move(ctx, clients, cloudOf, targets, &stdout)
	if errors.Is(err, move.ErrNoMarks) {
		return 0, stdout.String(), nil // the ID is right
	}
	return code, stdout.String(), err
}

// previewOf returns what the subcommand plan would show for the Networks: what a controller would do now.
func previewOf(ctx context.Context, cluster string, cloudsYAML []byte, cloudName string, networks []*samplecrdv1.Network) (previews []simulation.Preview, err error) {
	config, err := neutron.ParseConfig(cloudName, cloudsYAML)
	if err != nil {
		return nil, err
	}
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Minute})
	defer client.Close()
	cloud := neutron.NewCloud(config.Name, client, cluster, time.Hour)
	if err := cloud.Observer().Relist(ctx); err != nil {
		return nil, err
	}
	for _, n := range networks {
		desired, err := neutron.NewDesired(n, cluster)
		if err != nil {
			return nil, err
		}
		preview, err := cloud.Preview(ctx, neutron.NewIdentity(n, cluster), desired)
		previews = append(previews, simulation.Preview{Steps: len(preview.Steps), Text: fmt.Sprint(preview.Steps), Err: err})
	}
	return previews, nil
}
