// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// What kubectl applies, from the top of the repository.
const (
	crd     = "artifacts/crd"
	example = "artifacts/examples/example-network.yaml"
)

// The names of the Networks and of the example for kubectl, with the API group.
const (
	resource = "networks.samplecrd.k8s.io"
	object   = "network.samplecrd.k8s.io/example-network"

	whyFullName = `The full name networks.samplecrd.k8s.io works in every cluster. The short names networks
and net may mean another resource where the cluster has one of that name: OpenShift has
networks.config.openshift.io.`
)

// session is everything that local-up runs.
type session struct {
	root, binary            string
	kubeconfig, kubectlPath string
	kubectlEnv              []string
	dir                     string // for the files of this session
	verbosity               int    // of the controller

	cluster    *cluster.Cluster // nil if the cluster is the user's own
	neutron    *stack.Neutron
	controller *stack.Controller // nil until it is started
	logs       *gate
	transcript bytes.Buffer // the commands of this step, with their output

	locked      *os.File
	stopNeutron func() error // nil until Neutron is started
	neutronLogs string       // the folder with the logs of the real Neutron

	machines *machines // nil without -traffic
}

// newSession starts everything except the controller.
func newSession(ctx context.Context, o options) (_ *session, err error) {
	s := &session{logs: &gate{}, verbosity: o.verbosity}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.root, err = stack.Root(); err != nil {
		return nil, err
	}
	if err := s.makeDir(o); err != nil {
		return nil, err
	}
	// Neutron comes first: where the real one is not available, that shows at once.
	err = s.report(fmt.Sprintf("Neutron starts (%s)", o.neutron), func() error { return s.startNeutron(ctx, o, s.dir) })
	if err != nil {
		return nil, err
	}
	if err := s.useCluster(ctx, o); err != nil {
		return nil, err
	}
	return s, s.report("The controller is built", func() error { return s.build(ctx) })
}

// makeDir creates the folder of this session, and locks it against a second session,
// which would stop the processes of the first.
func (s *session) makeDir(o options) error {
	s.dir = filepath.Join(s.root, "hack", "_output", "local-up")
	switch {
	case o.once:
		s.dir = filepath.Join(s.root, "hack", "_output", "once")
	case o.traffic: // it starts empty, and leaves alone what a session without it finds again
		s.dir = filepath.Join(s.root, "hack", "_output", "local-up-traffic")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(s.dir, "lock"))
	if err != nil {
		return err
	}
	s.locked = f // until this process ends
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another local-up is running: lock %s: %w", f.Name(), err)
	}
	return nil
}

// build builds the controller, and announces it when that takes long.
func (s *session) build(ctx context.Context) (err error) {
	if _, err := os.Stat(filepath.Join(s.root, "samplecrd-controller")); err != nil {
		fmt.Fprintln(os.Stderr, "building the controller; the first time this takes a minute or two")
	}
	s.show("$ go build")
	s.binary, err = stack.BuildController(ctx)
	return err
}

// useCluster starts a control plane, or uses the cluster of -kubeconfig.
func (s *session) useCluster(ctx context.Context, o options) error {
	if o.kubeconfig != "" {
		// kubectl treats a missing file as an empty one.
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return err
		}
	}
	binary, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	s.kubectlPath = cluster.Kubectl(binary)
	if o.kubeconfig != "" {
		s.kubeconfig, err = filepath.Abs(o.kubeconfig)
		s.kubectlEnv = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
		return err
	}
	// The embedded Neutron loses everything when it ends, its projects too: to it, the
	// Networks of the last session would belong to another cloud.
	fresh := o.startsEmpty() || o.neutron == embeddedNeutron
	return s.report("Kubernetes starts (etcd, kube-apiserver, kube-controller-manager)", func() error {
		s.cluster, err = cluster.Start(ctx, cluster.Options{Binary: binary, Dir: filepath.Join(s.dir, "cluster"), Fresh: fresh})
		if err != nil {
			return err
		}
		s.kubeconfig = s.cluster.Kubeconfig()
		s.kubectlEnv = s.cluster.Kubectl().Env
		s.show(`$ export KUBECONFIG="%s"`, s.kubeconfig)
		return nil
	})
}

// startController starts the controller. It does not wait for its workers.
func (s *session) startController(flags ...string) (err error) {
	flags = append([]string{"-kubeconfig=" + s.kubeconfig}, flags...)
	if s.verbosity > 0 {
		flags = append(flags, fmt.Sprintf("-v=%d", s.verbosity))
	}
	if s.cluster == nil {
		// The other Networks of the user's cluster do not belong in this Neutron.
		flags = append(flags, "-namespace=default")
	}
	s.show("$ export %s", strings.Join(s.neutron.Env(), " "))
	s.showCommand("./samplecrd-controller", flags...)
	s.controller, err = stack.StartController(s.binary, s.neutron.Env(), s.logs, flags...)
	return err
}

// kubectl runs kubectl, and shows the command with its output.
func (s *session) kubectl(ctx context.Context, args ...string) error {
	s.showCommand("kubectl", args...)
	stdout, stderr, err := s.runKubectl(ctx, args...)
	s.showOutput(stdout + stderr)
	return err
}

// kubectlFails is kubectl for a command that must fail with these words.
func (s *session) kubectlFails(ctx context.Context, words string, args ...string) error {
	err := s.kubectl(ctx, args...)
	if err == nil || !strings.Contains(err.Error(), words) {
		return fmt.Errorf("kubectl %s: want the error %q, got %v", strings.Join(args, " "), words, err)
	}
	return nil
}

// output runs kubectl, and returns its output without showing it.
func (s *session) output(ctx context.Context, args ...string) (string, error) {
	stdout, _, err := s.runKubectl(ctx, args...)
	return stdout, err
}

// runKubectl runs kubectl. The error contains what kubectl wrote to stderr.
func (s *session) runKubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, s.kubectlPath, args...)
	cmd.Dir, cmd.Env = s.root, s.kubectlEnv
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), errOut.String(), err
}

// close stops what was started. It prints errors, and goes on after them.
func (s *session) close() {
	var errs []error
	if s.controller != nil {
		errs = append(errs, s.controller.Stop())
	}
	if s.stopNeutron != nil {
		errs = append(errs, s.stopNeutron())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "local-up: stop:", err)
	}
}
