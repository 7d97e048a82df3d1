//go:build linux

// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience limits each wait. within is the same limit as a flag of kubectl.
	patience = 10 * time.Minute
	within   = "--timeout=10m"

	// deployment is the controller's Deployment.
	deployment = "deployment/samplecrd-controller"
)

// world holds the state of the steps of a test.
type world struct {
	*testing.T
	// system is the controller's namespace.
	system string
	// namespace is the namespace of the Network that the steps use.
	namespace string
}

// step is a part of a test. If it fails, the next steps do not run.
type step struct {
	what string
	do   func(world)
}

func (w world) run(steps ...step) {
	w.Helper()
	if unavailable != nil {
		w.Skip(unavailable)
	}
	for _, s := range steps {
		passed := w.Run(s.what, func(t *testing.T) {
			w := world{t, w.system, w.namespace}
			t.Cleanup(w.showIfFailed)
			s.do(w)
		})
		if !passed {
			return
		}
	}
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) kubectl(args ...string) string {
	w.Helper()
	out, err := kubectl("", args...)
	w.must(err)
	return out
}

// inSystem runs kubectl in the controller's namespace.
func (w world) inSystem(args ...string) string {
	w.Helper()
	return w.kubectl(append([]string{"--namespace=" + w.system}, args...)...)
}

// eventually calls try until it returns no error. After the limit it fails with the last
// error.
func (w world) eventually(try func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		w.Fatalf("%v: %v", err, last)
	}
}

func (w world) showIfFailed() {
	if !w.Failed() {
		return
	}
	pods := "--selector=app.kubernetes.io/name=samplecrd-controller"
	for _, args := range [][]string{
		{"get", "networks,pods,leases", "--all-namespaces", "--output=wide"},
		{"describe", "pods"},
		{"logs", pods, "--prefix", "--tail=50"},
		{"logs", pods, "--prefix", "--tail=50", "--previous"},
	} {
		out, err := kubectl("", append([]string{"--namespace=" + w.system}, args...)...)
		w.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// process is a process of the controller, as the node's kernel sees it.
type process struct {
	pid int
	pod string
}

// processes returns the controller's processes on the node.
func (w world) processes() (all []process) {
	w.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.must(err)
	for _, file := range commands {
		// If the file cannot be read, the process has ended.
		if command, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(command), "/samplecrd-controller\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		w.must(err)
		environment, err := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if err != nil {
			continue
		}
		for variable := range strings.SplitSeq(string(environment), "\x00") {
			if pod, ok := strings.CutPrefix(variable, "HOSTNAME="); ok {
				all = append(all, process{pid, pod})
			}
		}
	}
	return all
}

// leader waits until the holder of the Lease is a running process, and returns its pod's
// name.
func (w world) leader() (pod string) {
	w.Helper()
	w.eventually(func() error {
		holder := w.inSystem("get", "lease/samplecrd-controller", "--output=jsonpath={.spec.holderIdentity}")
		pod, _, _ = strings.Cut(holder, "_")
		if !slices.ContainsFunc(w.processes(), func(p process) bool { return p.pod == pod }) {
			return fmt.Errorf("%q holds the Lease", holder)
		}
		return nil
	})
	return pod
}

// metrics returns a pod's metrics.
func (w world) metrics(address string) string {
	w.Helper()
	response, err := http.Get("http://" + address + ":8080/metrics")
	w.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.must(err)
	return string(body)
}

// apply applies a Network of 10.9.0.0/16.
func (w world) apply(name, namespace, gateway string) {
	w.Helper()
	_, err := kubectl(fmt.Sprintf(`
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: %s, namespace: %s}
spec: {cidr: 10.9.0.0/16, gateway: %s}
`, name, namespace, gateway), "apply", "--filename=-")
	w.must(err)
}

// waitMatches waits until Neutron has exactly one network, with one subnet with that
// gateway.
func (w world) waitMatches(gateway string) {
	w.Helper()
	w.eventually(func() error {
		all, err := neutron.Networks(w.Context())
		if err != nil {
			return err
		}
		if len(all) != 1 || all[0].Name != w.namespace+"/net" || len(all[0].Subnets) != 1 {
			return fmt.Errorf("want one network with one subnet, got %+v", all)
		}
		if s := all[0].Subnets[0]; s.CIDR != "10.9.0.0/16" || s.GatewayIP != gateway {
			return fmt.Errorf("want the gateway %s, got %+v", gateway, s)
		}
		return nil
	})
}
