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
	"cmp"
	"fmt"
	"slices"
)

// batch are scenarios whose runs take turns, so that what changes meanwhile, such as the
// machine's temper, does no wrong to any of them.
type batch struct {
	fresh          bool
	n, connections int
	scenarios      []*scenario
}

// plan returns what is to be measured, for the names of scenarios; none: all but grow.
// Without sizes, each scenario has its own. Those that begin with nothing are made for
// each number of connections, the others for the first.
func plan(names []string, sizes, connections []int, real bool) ([]batch, error) {
	p := planner{connections: connections}
	for _, name := range names {
		if name == growName {
			p.grow()
			continue
		}
		i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q", name)
		}
		if real && scenarios[i].observes {
			return nil, fmt.Errorf("%s takes the embedded Neutron, which can be observed", name)
		}
		p.add(scenarios[i], sizes)
	}
	if len(names) == 0 {
		for _, s := range scenarios {
			if !real || !s.observes {
				p.add(s, sizes)
			}
		}
	}
	// What is to hold more Networks goes on with those that there are.
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

// grow adds what is told by grow.
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

// connectionsOf returns the numbers of connections with which a scenario is made.
func (p *planner) connectionsOf(s *scenario) []int {
	switch {
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

// turn returns the scenarios in the order of that run: back and forth.
func (b batch) turn(run int) []*scenario {
	order := slices.Clone(b.scenarios)
	if run%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
