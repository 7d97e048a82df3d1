// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// step is one part of a session, printed with the time that it took.
type step struct {
	what string
	do   func(context.Context) error
}

// take takes the steps, one after the other, until one fails.
func (s *session) take(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := s.report(step.what, func() error { return step.do(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// report calls do and prints what it did: the time that it took, its commands with their
// output, and the lines that the controller logged meanwhile.
func (s *session) report(what string, do func() error) error {
	started := time.Now()
	err := do()
	fmt.Printf("==> %-72s %5.1fs\n", what, time.Since(started).Seconds())
	s.printLines("    ", s.transcript.String())
	s.printLines("    log: ", s.logs.take())
	if s.controller != nil {
		fmt.Println()
	}
	s.transcript.Reset()
	if err != nil {
		return fmt.Errorf("failed at %q: %w", what, err)
	}
	return nil
}

func (s *session) printLines(prefix, text string) {
	for line := range strings.Lines(s.relative(text)) {
		fmt.Print(prefix, strings.TrimRight(line, " \n"), "\n")
	}
}

// relative returns the text with paths as they are seen from the top of the repository.
func (s *session) relative(text string) string { return strings.ReplaceAll(text, s.root+"/", "") }

// show adds lines to what is printed of this step.
func (s *session) show(format string, args ...any) {
	fmt.Fprintf(&s.transcript, format+"\n", args...)
}

// showCommand shows a command as a user types it.
func (s *session) showCommand(name string, args ...string) {
	line := "$ " + name
	for _, arg := range args {
		if strings.ContainsAny(arg, " \"(){}[]*?") {
			arg = "'" + arg + "'"
		}
		line += " " + arg
	}
	s.show("%s", line)
}

// showOutput adds the output of a command to what is printed of this step.
func (s *session) showOutput(text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		s.show("%s", text)
	}
}

// showBothSides shows the Network in Kubernetes and the networks in Neutron. The flags
// go to kubectl get.
func (s *session) showBothSides(ctx context.Context, flags ...string) error {
	if err := s.kubectl(ctx, append([]string{"get", resource}, flags...)...); err != nil {
		return err
	}
	networks, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	s.show("In Neutron:")
	s.showOutput(neutronTable(networks))
	return nil
}

// neutronTable returns the networks as a table like kubectl's.
func neutronTable(networks []stack.Network) string {
	if len(networks) == 0 {
		return "No networks."
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSUBNET\tGATEWAY\tID")
	for _, n := range networks {
		for _, subnet := range n.Subnets {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.Name, subnet.CIDR, subnet.GatewayIP, n.ID)
		}
	}
	w.Flush()
	return b.String()
}

// gate holds back the controller's log until it is taken, or the gate is opened.
type gate struct {
	mu     sync.Mutex
	held   bytes.Buffer
	isOpen bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen {
		return os.Stderr.Write(p)
	}
	return g.held.Write(p)
}

// take removes the whole lines that are held back, and returns them.
func (g *gate) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	end := bytes.LastIndexByte(g.held.Bytes(), '\n') + 1
	return string(g.held.Next(end))
}

// open prints what is held back, and from now on lets everything through.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOpen = true
	_, _ = g.held.WriteTo(os.Stderr)
}
