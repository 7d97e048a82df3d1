// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localup starts a Kubernetes control plane, a Neutron and the controller, and
// creates a Network that becomes a network in Neutron. With -once it runs the whole
// walkthrough unattended; the exit code reports whether each step had its effect.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

func main() {
	o := options{neutron: embeddedNeutron}
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "use the cluster of this `file` instead of starting a control plane")
	flag.BoolVar(&o.fresh, "fresh", false, "delete what earlier runs with the real Neutron left in Neutron and in the control plane; runs with the embedded Neutron always start empty")
	flag.BoolVar(&o.once, "once", false, "run the whole walkthrough unattended in a new control plane, and exit 0 if each step had its effect")
	flag.Var(&o.neutron, "neutron", "which Neutron to start: embedded, a part of the controller's code, or `real`, with Keystone, from Debian's packages")
	flag.BoolVar(&o.traffic, "traffic", false, "with -neutron=real: start Neutron's agents, and machines on networks that carry traffic; needs root, and always starts empty")
	flag.IntVar(&o.verbosity, "v", 0, "the `level` of the controller's log: 2 adds retries, 4 each sync")
	flag.Usage = usage
	flag.Parse()
	if o.traffic && (o.neutron != realNeutron || o.kubeconfig != "") {
		fmt.Fprintln(os.Stderr, "local-up: -traffic needs -neutron=real, and cannot be used with -kubeconfig")
		os.Exit(2)
	}
	if flag.NArg() > 0 || o.once && o.kubeconfig != "" {
		usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, o)
	if err == nil || ctx.Err() != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "local-up: %v\n", err)
	if errors.Is(err, realneutron.ErrUnavailable) {
		os.Exit(3)
	}
	os.Exit(1)
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `local-up.sh starts a Kubernetes control plane, a Neutron and the controller, and
applies artifacts/examples/example-network.yaml. Ctrl-C stops everything.

Usage: hack/local-up.sh [-neutron real] [-fresh] [-kubeconfig FILE] [-v LEVEL]
       hack/local-up.sh -neutron real -traffic [-v LEVEL]
       hack/local-up.sh -once [-neutron real [-traffic]] [-v LEVEL]

The exit code is 3 where the real Neutron, or its agents, are not available.

`)
	flag.PrintDefaults()
}

type options struct {
	kubeconfig  string
	neutron     neutronKind
	fresh, once bool
	traffic     bool
	verbosity   int
}

// startsEmpty reports whether nothing of earlier sessions is kept.
func (o options) startsEmpty() bool { return o.fresh || o.once || o.traffic }

func run(ctx context.Context, o options) error {
	s, err := newSession(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	if o.once {
		return s.walkthrough(ctx)
	}
	return s.interactive(ctx)
}

// interactive does the first steps of the walkthrough, and then prints the controller's
// log until ctx is cancelled.
func (s *session) interactive(ctx context.Context) error {
	// The cluster may have the CRD already, from an earlier session or with -kubeconfig:
	// then the controller does not wait for it.
	steps := []step{
		{"The controller starts", func(context.Context) error { return s.startController() }},
		{"The CRD is applied, and the controller starts its workers", s.applyCRD},
		{"The example is applied, and becomes a network in Neutron", func(ctx context.Context) error { return s.apply(ctx, example) }},
	}
	steps = append(steps, s.trafficSteps()...)
	defer s.leaveCluster(context.WithoutCancel(ctx))
	if err := s.take(ctx, steps); err != nil {
		return err
	}
	s.printNext()
	s.logs.open()
	select {
	case <-ctx.Done():
		fmt.Println("\nStopping everything.")
		return nil
	case <-s.controller.Done():
		return errors.New("the controller has ended")
	}
}

// leaveCluster deletes the example from a cluster that outlives the controller: without
// the controller nothing removes its finalizer.
func (s *session) leaveCluster(ctx context.Context) {
	if s.cluster != nil || s.controller == nil {
		return
	}
	if _, err := s.output(ctx, "delete", "-f", example, "--ignore-not-found", "--timeout=30s"); err != nil {
		fmt.Fprintln(os.Stderr, "local-up:", err)
	}
}

func (s *session) printNext() {
	fmt.Printf(`Try next, in another terminal:
    cd "%s"
    export KUBECONFIG="%s" PATH="%s:$PATH"
    kubectl get %s --watch
    cp %s /tmp/network.yaml
    $EDITOR /tmp/network.yaml         # another gateway, another CIDR
    kubectl apply -f /tmp/network.yaml
    kubectl describe %s
    kubectl delete -f /tmp/network.yaml

%s

To see Neutron's side with OpenStack's client:
    export OS_CLIENT_CONFIG_FILE="%s" OS_CLOUD=%s
    openstack network list
%s%s
Ctrl-C stops everything. The controller's log:

`, s.root, s.kubeconfig, filepath.Dir(s.kubectlPath), resource, example, object, whyFullName,
		s.neutron.CloudsYAML, stack.Cloud, s.aboutRealNeutron(), s.aboutMachines())
}

// aboutRealNeutron returns what differs from the embedded Neutron, "" for the embedded one.
func (s *session) aboutRealNeutron() string {
	if s.neutronLogs == "" {
		return ""
	}
	next := "finds the same networks, unless it is started with -fresh"
	if s.machines != nil {
		next = "starts empty"
	}
	return fmt.Sprintf(`
This is the real Neutron; its cloud %s has an administrator's rights. It stops with
local-up. The next session with it %s.
The logs of Neutron, Keystone and MariaDB are in
    %s
`, realneutron.AdminCloud, next, s.neutronLogs)
}
