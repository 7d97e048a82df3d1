// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/fallback"
)

// neutronKind names the Neutron that the controller works with. It is a flag.Value.
type neutronKind string

// The kinds of Neutron.
const (
	embeddedNeutron neutronKind = "embedded"
	realNeutron     neutronKind = "real"
)

func (k *neutronKind) String() string { return string(*k) }

// Set parses the value of the flag.
func (k *neutronKind) Set(value string) error {
	switch kind := neutronKind(value); kind {
	case embeddedNeutron, realNeutron:
		*k = kind
		return nil
	}
	return errors.New("must be embedded or real")
}

// startNeutron starts the Neutron of o.neutron. Its files are in dir.
func (s *session) startNeutron(ctx context.Context, o options, dir string) error {
	if o.neutron == realNeutron {
		fmt.Fprintln(os.Stderr, "==> starting Neutron, Keystone and MariaDB; the first time it downloads their packages (40 MB)")
		return s.startRealNeutron(ctx, filepath.Join(s.root, "hack", "_output", "neutron", filepath.Base(dir)), o)
	}
	neutron, err := stack.StartNeutron(ctx, dir, fallback.Options())
	if err != nil {
		return err
	}
	s.neutron, s.stopNeutron = neutron, neutron.Close
	return nil
}

// startRealNeutron starts the Neutron of hack/neutron. Like the control plane, it has what
// the last session left there, unless the session starts empty.
func (s *session) startRealNeutron(ctx context.Context, dir string, o options) error {
	up := realneutron.Up
	if o.traffic {
		up = realneutron.UpWithAgents
	}
	if o.startsEmpty() {
		if err := realneutron.Purge(dir); err != nil {
			return err
		}
	}
	neutron, err := up(ctx, dir)
	if errors.Is(err, realneutron.ErrUnavailable) {
		return fmt.Errorf("%w; with -neutron=embedded, the default, and without -traffic, nothing of this is needed", err)
	}
	if err != nil {
		return err
	}
	s.stopNeutron = neutron.Down
	cloudsYAML, err := os.ReadFile(neutron.CloudsYAML)
	if err != nil {
		return err
	}
	client, err := stack.Connect(ctx, stack.Cloud, cloudsYAML)
	if err != nil {
		return err
	}
	s.neutron = &stack.Neutron{Client: client, CloudsYAML: neutron.CloudsYAML}
	s.neutronLogs = filepath.Join(dir, "log")
	if o.traffic {
		s.machines, err = newMachines(ctx, neutron, dir)
	}
	return err
}
