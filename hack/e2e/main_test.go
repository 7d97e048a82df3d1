// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
)

// What all tests share.
var (
	// dir holds the control planes' files, and each test's controller logs.
	dir string
	// binary is the controller, built with the race detector.
	binary string
	// shared is the control plane of all tests, except those of TestWholeCluster and TestHostileTenants.
	shared      *plane
	realNeutron realCloud
)

// plane is a control plane with clients of a cluster administrator.
type plane struct {
	controlPlane *cluster.Cluster
	adminConfig  *rest.Config
	kube         kubernetes.Interface
	client       clientset.Interface
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	defer stopSharing()
	if err := startSharing(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	waitInParallel()
	code := m.Run()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "e2e: the logs are in %s and %s\n", filepath.Join(dir, "tests"), filepath.Join(dir, "*cluster", "logs"))
	}
	return code
}

// waitInParallel allows more parallel tests than there are cores, because tests mostly
// wait. It does nothing if the flag -parallel is set.
func waitInParallel() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // the flag is testing's own
	}
}

func startSharing(ctx context.Context) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	dir = filepath.Join(root, "hack", "_output", "e2e")
	if err := os.RemoveAll(filepath.Join(dir, "tests")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "tests"), 0o700); err != nil {
		return err
	}
	if flag.Lookup("test.run").Value.String() == "" {
		realNeutron.start() // it takes as long as the first tests
	}
	executable, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if binary, err = stack.BuildRaceController(ctx); err != nil {
		return err
	}
	if shared, err = startPlane(ctx, executable, "cluster"); err != nil {
		return err
	}
	return shared.applyCRD(crdOfToday)
}

// startPlane starts a control plane with its files in that folder.
func startPlane(ctx context.Context, executable, folder string) (*plane, error) {
	c, err := cluster.Start(ctx, cluster.Options{Binary: executable, Dir: filepath.Join(dir, folder), Fresh: true})
	if err != nil {
		return nil, err
	}
	p := &plane{controlPlane: c}
	if err := p.connect(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return p, nil
}

func (p *plane) connect() (err error) {
	if p.adminConfig, err = clientcmd.BuildConfigFromFlags("", p.controlPlane.Kubeconfig()); err != nil {
		return err
	}
	p.adminConfig.QPS = -1 // no limit
	if p.kube, err = kubernetes.NewForConfig(p.adminConfig); err != nil {
		return err
	}
	p.client, err = clientset.NewForConfig(p.adminConfig)
	return err
}

func (p *plane) applyCRD(folder string) error {
	for _, args := range [][]string{
		{"apply", "-f", folder},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=5m"},
	} {
		if out, err := p.controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func stopSharing() {
	if err := realNeutron.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the real Neutron:", err)
	}
	if shared == nil {
		return
	}
	if err := shared.controlPlane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the control plane:", err)
	}
}
