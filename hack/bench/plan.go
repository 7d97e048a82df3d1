// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
)

// batch has scenarios whose runs alternate, so that a change in the machine's speed affects
// all of them alike.
type batch struct {
	fresh          bool
	n, connections int
	scenarios      []*scenario
}

// plan returns the batches to measure, for names of known scenarios; without names, for all
// scenarios except grow and those that must be named. The scenarios of different controllers can
// have the same name. Without sizes or connections, each
// scenario has its own. The fresh scenarios run with each number of connections, the others
// with the first one only.
func plan(names []string, sizes, connections []int, real bool, known []*scenario) ([]batch, error) {
	p := planner{connections: connections}
	for _, name := range names {
		if name == growName {
			p.grow()
			continue
		}
		of := slices.DeleteFunc(slices.Clone(known), func(s *scenario) bool { return s.name != name })
		if len(of) == 0 {
			return nil, fmt.Errorf("unknown scenario %q", name)
		}
		for _, s := range of {
			if real && s.observes {
				return nil, fmt.Errorf("scenario %s needs -neutron=embedded", name)
			}
			p.add(s, sizes)
		}
	}
	if len(names) == 0 {
		for _, s := range known {
			if !s.named && (!real || !s.observes) {
				p.add(s, sizes)
			}
		}
	}
	// The batches that are not fresh share a stand, and only ever add Networks to it.
	slices.SortStableFunc(p.batches, func(a, b batch) int {
		if a.fresh != b.fresh {
			return cmp.Compare(first(b.fresh), first(a.fresh))
		}
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.connections, b.connections))
	})
	return p.batches, nil
}

func first(fresh bool) int {
	if fresh {
		return 1
	}
	return 0
}

type planner struct {
	connections []int
	batches     []batch
}

// grow adds the scenarios of grow.
func (p *planner) grow() {
	for _, g := range grow {
		for _, s := range scenarios {
			if slices.Contains(g.scenarios, s.name) {
				p.put(s, g.n, p.connectionsOf(s)[0])
			}
		}
	}
}

func (p *planner) add(s *scenario, sizes []int) {
	if len(sizes) == 0 {
		sizes = []int{s.n}
	}
	for _, n := range sizes {
		for _, c := range p.connectionsOf(s) {
			p.put(s, n, c)
		}
	}
}

// connectionsOf returns the numbers of connections that a scenario runs with.
func (p *planner) connectionsOf(s *scenario) []int {
	switch {
	case s.controller != "": // another controller has no such flag
		return []int{0}
	case len(p.connections) == 0:
		return []int{cmp.Or(s.connections, defaultConnections)}
	case !s.fresh:
		return p.connections[:1]
	}
	return p.connections
}

func (p *planner) put(s *scenario, n, connections int) {
	for i := range p.batches {
		b := &p.batches[i]
		if b.fresh == s.fresh && b.n == n && b.connections == connections {
			if !slices.Contains(b.scenarios, s) {
				b.scenarios = append(b.scenarios, s)
			}
			return
		}
	}
	p.batches = append(p.batches, batch{s.fresh, n, connections, []*scenario{s}})
}

// turn returns the scenarios in the order for a run. Every second run has the reverse order.
func (b batch) turn(run int) []*scenario {
	order := slices.Clone(b.scenarios)
	if run%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
