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
	"sync"
	"syscall"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// What kubectl applies, from the top of the repository.
const (
	crd     = "artifacts/crd"
	example = "artifacts/examples/example-network.yaml"
)

// session is all that local-up has running.
type session struct {
	root, binary            string
	kubeconfig, kubectlPath string
	kubectlEnv              []string

	cluster    *cluster.Cluster // nil if the cluster is somebody else's
	neutron    *stack.Neutron
	controller *stack.Controller
	logs       *gate

	locked      *os.File
	stopNeutron func() error // nil until there is something to stop
	neutronLogs string       // the folder of the real one's logs
}

// newSession brings up everything but the controller.
func newSession(ctx context.Context, o options) (_ *session, err error) {
	s := &session{logs: &gate{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.root, err = stack.Root(); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.root, "hack", "_output", "local-up")
	if o.once {
		dir = filepath.Join(s.root, "hack", "_output", "once")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.lock(dir); err != nil {
		return nil, err
	}
	// First, for where the real one cannot be had that shows at once.
	err = s.say(fmt.Sprintf("Neutron started (%s)", o.neutron), func() error { return s.startNeutron(ctx, o, dir) })
	if err != nil {
		return nil, err
	}
	if err := s.useCluster(ctx, o, dir); err != nil {
		return nil, err
	}
	return s, s.say("controller built", func() error { return s.build(ctx) })
}

// build builds the controller, and says so beforehand when it is going to take long.
func (s *session) build(ctx context.Context) (err error) {
	if _, err := os.Stat(filepath.Join(s.root, "samplecrd-controller")); err != nil {
		fmt.Fprintln(os.Stderr, "building the controller; the first time this takes a minute or two")
	}
	s.binary, err = stack.BuildController(ctx)
	return err
}

// lock keeps a second session out of dir: it would stop what the first one has running.
func (s *session) lock(dir string) error {
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	s.locked = f // until this process ends
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another local-up is running: lock %s: %w", f.Name(), err)
	}
	return nil
}

// useCluster starts a control plane, or takes the one that it is told to.
func (s *session) useCluster(ctx context.Context, o options, dir string) error {
	if o.kubeconfig != "" {
		// kubectl takes a file that is not there for an empty one.
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return err
		}
	}
	binary, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	s.kubectlPath = filepath.Join(filepath.Dir(binary), "kubectl")
	if o.kubeconfig != "" {
		s.kubeconfig, err = filepath.Abs(o.kubeconfig)
		s.kubectlEnv = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
		return err
	}
	// The embedded Neutron forgets everything when it ends, its projects too: Networks that were
	// made in the one before would be another cloud's.
	fresh := o.fresh || o.once || o.neutron == embeddedNeutron
	return s.say("control plane started (etcd, kube-apiserver, kube-controller-manager)", func() error {
		s.cluster, err = cluster.Start(ctx, cluster.Options{Binary: binary, Dir: filepath.Join(dir, "cluster"), Fresh: fresh})
		if err != nil {
			return err
		}
		s.kubeconfig = s.cluster.Kubeconfig()
		s.kubectlEnv = s.cluster.Kubectl().Env
		return nil
	})
}

// startController starts the controller and waits until its workers work.
func (s *session) startController(ctx context.Context, flags ...string) error {
	if err := s.launch(flags...); err != nil {
		return err
	}
	return s.controller.Log.WaitFor(ctx, "Starting workers")
}

func (s *session) launch(flags ...string) (err error) {
	flags = append([]string{"-kubeconfig=" + s.kubeconfig}, flags...)
	if s.cluster == nil {
		// What else there is in somebody's cluster is none of this Neutron's business.
		flags = append(flags, "-namespace=default")
	}
	s.controller, err = stack.StartController(s.binary, s.neutron.Env(), s.logs, flags...)
	return err
}

// kubectl runs kubectl, and returns what it complained about as the error.
func (s *session) kubectl(ctx context.Context, args ...string) error {
	_, err := s.output(ctx, args...)
	return err
}

// output is kubectl, and returns what it printed.
func (s *session) output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.kubectlPath, args...)
	cmd.Dir, cmd.Env = s.root, s.kubectlEnv
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// close takes down what was started. Whatever goes wrong is told, and the rest goes on.
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
		fmt.Fprintln(os.Stderr, "local-up: take all down:", err)
	}
}

// gate holds back the controller's log until it is opened.
type gate struct {
	mu   sync.Mutex
	held bytes.Buffer
	free bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free {
		return os.Stderr.Write(p)
	}
	return g.held.Write(p)
}

// open prints what was held back, and lets through what comes.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = true
	_, _ = g.held.WriteTo(os.Stderr)
}
