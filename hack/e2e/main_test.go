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

package e2e

import (
	"context"
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

// What all tests share. Only tests that are not parallel change any of it: one restarts the
// API server, one adds a resource.
var (
	// dir holds the control plane's files, and each test's controller logs.
	dir string
	// binary is the controller, built with the race detector.
	binary       string
	controlPlane *cluster.Cluster
	// adminConfig, kube and client are a cluster administrator's.
	adminConfig *rest.Config
	kube        kubernetes.Interface
	client      clientset.Interface
)

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
		fmt.Fprintf(os.Stderr, "e2e: the logs are in %s and %s\n", filepath.Join(dir, "tests"), filepath.Join(controlPlane.Dir(), "logs"))
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
	executable, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	binary = filepath.Join(dir, "samplecrd-controller")
	if err := stack.BuildControllerAs(ctx, binary, "-race"); err != nil {
		return err
	}
	controlPlane, err = cluster.Start(ctx, cluster.Options{Binary: executable, Dir: filepath.Join(dir, "cluster"), Fresh: true})
	if err != nil {
		return err
	}
	if err := connect(); err != nil {
		return err
	}
	return applyCRD(filepath.Join(root, "artifacts", "crd"))
}

func connect() (err error) {
	if adminConfig, err = clientcmd.BuildConfigFromFlags("", controlPlane.Kubeconfig()); err != nil {
		return err
	}
	adminConfig.QPS = -1 // no limit
	if kube, err = kubernetes.NewForConfig(adminConfig); err != nil {
		return err
	}
	client, err = clientset.NewForConfig(adminConfig)
	return err
}

func applyCRD(folder string) error {
	for _, args := range [][]string{
		{"apply", "-f", folder},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=30s"},
	} {
		if out, err := controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func stopSharing() {
	if controlPlane == nil {
		return
	}
	if err := controlPlane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the control plane:", err)
	}
}
