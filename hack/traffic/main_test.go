// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
)

// shared is what all tests share. It starts once.
var shared site

// site is a control plane, a Neutron with agents, the controller, and a machine outside.
type site struct {
	// root is the top of the repository, dir has the files of this run, and binary is the controller.
	root, dir, binary string
	// unavailable is why there is no Neutron with agents here; everything else is then missing.
	unavailable error

	controlPlane *cluster.Cluster
	kube         kubernetes.Interface
	client       clientset.Interface
	real         *realneutron.Neutron
	// neutron has a client in the controller's project.
	neutron *stack.Neutron
	// host makes machines, with an administrator's rights.
	host       *machine.Host
	outside    *machine.Machine
	controller *stack.Controller
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Only takeTurn limits how many tests run at the same time.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	code := 1
	defer func() { shared.stop(code != 0) }()
	err := shared.start(context.Background())
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		shared.unavailable, err = err, nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		return code
	}
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, "traffic: the logs are in", shared.dir)
	}
	return code
}

// start starts Neutron and the control plane at the same time, and then the controller.
func (s *site) start(ctx context.Context) (err error) {
	if s.root, err = stack.Root(); err != nil {
		return err
	}
	s.dir = filepath.Join(s.root, "hack", "_output", "traffic")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startNeutron(ctx) })
	group.Go(func() error { return s.startKubernetes(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.startController()
}

func (s *site) startNeutron(ctx context.Context) (err error) {
	dir := filepath.Join(s.dir, "neutron")
	// After a run that was killed, it has the networks of that run.
	if err := realneutron.Purge(dir); err != nil {
		return err
	}
	if s.real, err = realneutron.UpWithAgents(ctx, dir); err != nil {
		return err
	}
	cloudsYAML, err := os.ReadFile(s.real.CloudsYAML)
	if err != nil {
		return err
	}
	s.neutron = &stack.Neutron{CloudsYAML: s.real.CloudsYAML}
	if s.neutron.Client, err = stack.Connect(ctx, realneutron.Cloud, cloudsYAML); err != nil {
		return err
	}
	if s.host, err = machine.NewHost(ctx, s.real); err != nil {
		return err
	}
	s.outside, err = s.host.Outside(ctx)
	return err
}

func (s *site) startKubernetes(ctx context.Context) (err error) {
	executable, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	s.controlPlane, err = cluster.Start(ctx, cluster.Options{Binary: executable, Dir: filepath.Join(s.dir, "cluster"), Fresh: true})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.controlPlane.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1 // many tests wait at the same time
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.client, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(s.root, "artifacts", "crd")},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=5m"},
	} {
		if out, err := s.controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	s.binary, err = stack.BuildController(ctx)
	return err
}

// startController starts the controller for all namespaces. It works when the first test needs it.
func (s *site) startController() error {
	resync := "10s" // each list takes a good part of a second of Neutron's CPU time
	if *idleNetworks > 0 {
		resync = "5s" // each one can show that the controller repairs what the agents change
	}
	log, err := os.Create(filepath.Join(s.dir, "controller.log"))
	if err != nil {
		return err
	}
	s.controller, err = stack.StartController(s.binary, s.neutron.Env(), log, "-v=4", "-kubeconfig="+s.controlPlane.Kubeconfig(),
		"-retry-base-delay=100ms", "-retry-max-delay=2s", "-resync="+resync, neutronTimeout)
	return err
}

// stop stops what was started. The machine outside ends with Neutron, whose files are only kept for those who look at the logs.
func (s *site) stop(keepsLogs bool) {
	var errs []error
	if s.controller != nil {
		errs = append(errs, s.controller.Stop())
	}
	switch {
	case s.real == nil:
	case keepsLogs:
		errs = append(errs, s.real.Down())
	default:
		errs = append(errs, s.real.Purge())
	}
	if s.controlPlane != nil {
		errs = append(errs, s.controlPlane.Stop())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "traffic: stop:", err)
	}
}
