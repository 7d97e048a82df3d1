// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
)

// chart is a line chart.
type chart struct {
	title, note string
	x, y        axis
	lines       []line
	// curves reports whether the lines are curves that end at the same height. Otherwise they
	// join measured points, and each point is marked.
	curves bool
	// half reports whether the chart takes half the width only.
	half bool
}

type line struct {
	name string
	// color is the index of the line's color.
	color  int
	points []Point
}

// charts returns the charts to draw. It leaves out lines of a single point, and charts without
// lines.
func charts(results []Result) []chart {
	var drawn []chart
	for _, c := range []chart{
		progress(results),
		byConnections(results),
		restartTime(results),
		restartMemory(results),
	} {
		c.lines = slices.DeleteFunc(c.lines, func(l line) bool { return len(l.points) < 2 })
		if len(c.lines) > 0 {
			c.setAxes()
			drawn = append(drawn, c)
		}
	}
	return drawn
}

// compared are the fresh scenarios that can be compared.
var compared = []string{convergeName, rawName, applyName, writesName}

// alone describes the scenarios that are limits.
var alone = map[string]string{
	rawName:    "raw: Neutron alone",
	writesName: "writes: Kubernetes alone",
}

// toCompare returns the results of the compared scenarios with the largest N.
func toCompare(results []Result) (of []Result) {
	for _, r := range results {
		switch {
		case !slices.Contains(compared, r.Scenario) || len(of) > 0 && r.N < of[0].N:
		case len(of) > 0 && r.N == of[0].N:
			of = append(of, r)
		default:
			of = []Result{r}
		}
	}
	return of
}

// progress has a line for each compared scenario, all with the same number of connections: the
// one with most results, and of several such numbers the largest.
func progress(results []Result) chart {
	c := chart{title: "Networks Ready, over time", curves: true,
		x: axis{name: "seconds since the start"}, y: axis{name: "Networks"}}
	of := most(toCompare(results), func(r Result) int { return r.Connections })
	for i, r := range of {
		if i == 0 {
			c.note = fmt.Sprintf("%d Networks, %d connections; each the run with the median time", r.N, r.Connections)
		}
		if what := alone[r.Scenario]; what != "" {
			c.note += "; " + what
		}
		name := fmt.Sprintf("%s %.3g s", r.Scenario, r.Median.Seconds)
		c.lines = append(c.lines, line{name, slices.Index(compared, r.Scenario), r.Median.Curve})
	}
	return c
}

// most returns the largest group of results with the same key. Of several such groups it
// returns the one with the largest key.
func most(results []Result, key func(Result) int) []Result {
	groups := map[int][]Result{}
	for _, r := range results {
		groups[key(r)] = append(groups[key(r)], r)
	}
	largest := 0
	for k, group := range groups {
		if cmp.Or(cmp.Compare(len(group), len(groups[largest])), cmp.Compare(k, largest)) > 0 {
			largest = k
		}
	}
	return groups[largest]
}

// byConnections compares the controller with the limit raw, over the number of connections. It
// has the results of the N with most results.
func byConnections(results []Result) chart {
	c := chart{title: "Networks per second, by connections",
		x: axis{name: "connections", kind: measuredAxis}, y: axis{name: "Networks per second"}}
	names := []string{convergeName, rawName}
	of := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !slices.Contains(names, r.Scenario) })
	of = most(of, func(r Result) int { return r.N })
	for color, name := range names {
		l := line{name: name, color: color}
		for _, r := range of {
			if r.Scenario == name {
				l.points = append(l.points, Point{float64(r.Connections), r.rate()})
				c.note = fmt.Sprintf("%d Networks; medians; %s", r.N, alone[rawName])
			}
		}
		c.lines = append(c.lines, l)
	}
	return c
}

func restartTime(results []Result) chart {
	cpu := func(s Sample) float64 { return s.CPU[controllerProcess] }
	return chart{title: "Time of a restart, and CPU", note: "relist: one relist of Neutron, as every -resync; medians", half: true,
		x: axis{name: "Networks", kind: measuredAxis}, y: axis{name: "seconds", kind: powersAxis},
		lines: []line{
			byN(results, 0, restartName, "restart", func(s Sample) float64 { return s.Seconds }),
			byN(results, 2, restartName, "restart, CPU", cpu),
			byN(results, 3, steadyName, "relist, CPU", cpu),
		}}
}

func restartMemory(results []Result) chart {
	return chart{title: "Resident memory of the controller", note: "after a restart; medians", half: true,
		x: axis{name: "Networks", kind: measuredAxis}, y: axis{name: "MiB", kind: powersAxis},
		lines: []line{
			byN(results, 0, restartName, "at the end", func(s Sample) float64 { return float64(s.Resident) / (1 << 20) }),
			byN(results, 1, restartName, "at the peak", func(s Sample) float64 { return float64(s.Peak) / (1 << 20) }),
		}}
}

// byN returns the line of a figure over N. It leaves out 0, which is too little to measure.
func byN(results []Result, color int, scenario, name string, get func(Sample) float64) line {
	l := line{name: name, color: color}
	for _, r := range results {
		if y := get(r.Median); r.Scenario == scenario && y > 0 {
			l.points = append(l.points, Point{float64(r.N), y})
		}
	}
	return l
}
