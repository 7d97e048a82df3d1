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

// Command localup is the main job in one go: a Kubernetes control plane, a Neutron, the
// controller, and a Network that becomes a network. With -once it does the whole
// walkthrough unattended, and says by its exit code whether each step was seen to happen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
)

func main() {
	o := options{neutron: embeddedNeutron}
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "work in the cluster of this `file` instead of starting a control plane")
	flag.BoolVar(&o.fresh, "fresh", false, "forget what earlier runs with the real Neutron left there and in the control plane; with the embedded one, each run begins with nothing")
	flag.BoolVar(&o.once, "once", false, "do the whole walkthrough unattended, in a fresh control plane, and exit 0 if each step was seen to happen")
	flag.Var(&o.neutron, "neutron", "which Neutron: embedded, a part of the controller's code, or `real`, with Keystone, from Debian's packages")
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 || o.once && o.kubeconfig != "" {
		usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, o)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "local-up: %v\n", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `local-up.sh starts a Kubernetes control plane, a Neutron and the controller,
and makes the network of artifacts/examples/example-network.yaml. Ctrl-C takes all down.

Usage: hack/local-up.sh [-neutron real] [-fresh] [-kubeconfig FILE]
       hack/local-up.sh -once [-neutron real]

`)
	flag.PrintDefaults()
}

type options struct {
	kubeconfig  string
	neutron     neutronKind
	fresh, once bool
}

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

// interactive shows the example, and then the controller's log until ctx is cancelled.
func (s *session) interactive(ctx context.Context) error {
	if err := s.say("CustomResourceDefinition applied", func() error { return s.kubectl(ctx, "apply", "-f", crd) }); err != nil {
		return err
	}
	if err := s.say("controller started", func() error { return s.startController(ctx) }); err != nil {
		return err
	}
	defer s.leaveCluster(context.WithoutCancel(ctx))
	if err := s.say(example+" applied", func() error { return s.kubectl(ctx, "apply", "-f", example) }); err != nil {
		return err
	}
	err := s.say("Network example-network is Ready", func() error {
		return s.kubectl(ctx, "wait", "--for=condition=Ready", "network/example-network", "--timeout=30s")
	})
	if err != nil {
		return err
	}
	if err := s.showBothSides(ctx); err != nil {
		return err
	}
	s.showNext()
	s.logs.open()
	select {
	case <-ctx.Done():
		fmt.Println("\nTaking all down.")
		return nil
	case <-s.controller.Done():
		return errors.New("the controller has ended")
	}
}

// leaveCluster takes the example out of a cluster that goes on without the controller:
// nobody else could take its finalizer off.
func (s *session) leaveCluster(ctx context.Context) {
	if s.cluster != nil {
		return
	}
	if err := s.kubectl(ctx, "delete", "-f", example, "--ignore-not-found", "--timeout=30s"); err != nil {
		fmt.Fprintln(os.Stderr, "local-up:", err)
	}
}

func (s *session) showBothSides(ctx context.Context) error {
	fmt.Println("\nIn Kubernetes (kubectl get networks):")
	table, err := s.output(ctx, "get", "networks", "-A")
	if err != nil {
		return err
	}
	fmt.Println(indent(table))
	fmt.Println("In Neutron:")
	networks, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	fmt.Println(indent(neutronTable(networks)))
	return nil
}

// neutronTable shows networks as kubectl would.
func neutronTable(networks []stack.Network) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSUBNET\tGATEWAY")
	for _, n := range networks {
		cidr, gateway := "-", "-"
		for _, subnet := range n.Subnets {
			cidr, gateway = subnet.CIDR, subnet.GatewayIP
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.ID, n.Name, cidr, gateway)
	}
	w.Flush()
	return b.String()
}

func (s *session) showNext() {
	fmt.Printf(`Try next, in another terminal:
    export KUBECONFIG=%s PATH=%s:$PATH
    kubectl get networks --watch
    kubectl edit network example-network        # try another gateway, another CIDR
    kubectl describe network example-network
    kubectl delete network example-network

and to look at Neutron with OpenStack's client:
    export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=%s
    openstack network list
%s
Ctrl-C takes all down. The controller's log:

`, s.kubeconfig, filepath.Dir(s.kubectlPath), s.neutron.CloudsYAML, stack.Cloud, s.aboutRealNeutron())
}

// aboutRealNeutron says what is not so with the embedded one.
func (s *session) aboutRealNeutron() string {
	if s.neutronLogs == "" {
		return ""
	}
	return fmt.Sprintf(`
This Neutron is a real one; its cloud %s is an admin's. It ends with local-up. The
next session with it finds what it holds, unless that one begins with -fresh. The logs of
Neutron, Keystone and MariaDB are in
    %s
`, realneutron.AdminCloud, s.neutronLogs)
}

// say prints what was done and how long it took, or how it failed.
func (s *session) say(what string, do func() error) error {
	started := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("failed at %q: %w", what, err)
	}
	fmt.Printf("==> %-60s %6.1fs\n", what, time.Since(started).Seconds())
	return nil
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}
