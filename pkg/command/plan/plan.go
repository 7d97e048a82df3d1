// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan is the subcommand plan: it shows what the controller would do in Neutron for manifests,
// or for the Networks of a cluster, without doing it.
//
// It reads Kubernetes and Neutron live, and writes to neither. The controller uses the same functions to
// decide what to do: see neutron.Plan and neutron.Cloud.Preview.
package plan

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

const description = `Shows what the controller would do in Neutron, in order, and does nothing. With -f it
does so for manifests, as if they were applied with kubectl; otherwise for the
Networks in the cluster. Kubernetes and Neutron are read live. Manifests are
validated by the API server (a dry run), and nothing is written.

Neutron can still refuse a step, for example because of a quota, and what was read can
change before the controller acts.

The exit code is 0 if there is nothing to do, 2 if there are changes, and 1 after an
error.`

const examples = `  samplecrd-controller plan -f network.yaml
  kustomize build . | samplecrd-controller plan -f -
  samplecrd-controller plan -A -o json
  samplecrd-controller plan web database -n team
`

// The exit codes. They are those of terraform plan -detailed-exitcode.
const (
	exitNothing = 0
	exitError   = 1
	exitChanges = 2
)

// settings are what the flags and the arguments of the subcommand say.
type settings struct {
	*options.Options
	networks.Selection
	output string
}

// command returns the subcommand, whose own flags set s.
func command(s *settings) options.Command {
	return options.Command{
		Name: "plan", Arguments: "(-f FILE... | [NAME...] [-A]) [flags]", Description: description, Examples: examples,
		Usage: networks.Usage, Shared: networks.SharedFlags,
		Add: func(fs *flag.FlagSet) {
			s.AddFlags(fs, "A `file` or a directory with manifests, or - for standard input.")
			fs.StringVar(&s.output, "o", "text", "The `format`: text or json.")
		},
	}
}

// Run runs the subcommand and returns its exit code.
func Run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	s := &settings{}
	return command(s).Run(ctx, arguments, stdout, stderr, func(ctx context.Context, o *options.Options, names []string) (int, error) {
		s.Options, s.Names = o, names
		plans, err := s.run(ctx, stderr)
		if err == nil {
			err = write(stdout, s.output, plans)
		}
		return exitCode(plans), err
	})
}

// complete sets the defaults, and returns the first error in the flags.
func (s *settings) complete() error {
	if s.output != "text" && s.output != "json" {
		return fmt.Errorf("-o=%s: must be one of: text, json", s.output)
	}
	return s.Complete(s.Options)
}

func (s *settings) run(ctx context.Context, stderr io.Writer) ([]NetworkPlan, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	clients, err := kubeclient.Connect(ctx, s.Kubernetes)
	if err != nil {
		return nil, err
	}
	return s.planWith(ctx, clients, stderr)
}

// planWith plans with these clients.
func (s *settings) planWith(ctx context.Context, clients *kubeclient.Clients, stderr io.Writer) ([]NetworkPlan, error) {
	targets, err := s.targets(ctx, clients.Networks, stderr)
	if err != nil {
		return nil, err
	}
	p := newPlanner(clients, s)
	defer p.clouds.Close()
	return p.plan(ctx, targets), nil
}
