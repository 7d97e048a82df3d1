// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChartsOfResults(t *testing.T) {
	curve := []Point{{0, 0}, {1, 50}}
	of := func(scenario string, n, connections int, seconds float64) Result {
		return Result{Scenario: scenario, N: n, Connections: connections, Median: Sample{Seconds: seconds, Curve: curve}}
	}
	for _, tt := range []struct {
		name    string
		results []Result
		want    map[string][]string
	}{
		{"each scenario has a curve", []Result{of(convergeName, 50, 8, 2), of(applyName, 50, 8, 3.125), of(rawName, 50, 8, 1), of(writesName, 50, 8, 0.5)},
			map[string][]string{"Networks Ready, over time": {"converge 2 s", "apply 3.12 s", "raw 1 s", "writes 0.5 s"}}},
		{"curves are of the largest N", []Result{of(rawName, 500, 8, 2), of(rawName, 50, 8, 1)},
			map[string][]string{"Networks Ready, over time": {"raw 2 s"}}},
		{"curves are of the connections with most results", []Result{of(convergeName, 50, 8, 2), of(rawName, 50, 8, 1), of(rawName, 50, 16, 0.5)},
			map[string][]string{"Networks Ready, over time": {"converge 2 s", "raw 1 s"}, "Networks per second, by connections": {"raw"}}},
		{"curves are of the most connections", []Result{of(rawName, 50, 8, 1), of(rawName, 50, 16, 0.5)},
			map[string][]string{"Networks Ready, over time": {"raw 0.5 s"}, "Networks per second, by connections": {"raw"}}},
		{"connections are compared for the N with most results", []Result{of(rawName, 500, 32, 2), of(convergeName, 500, 32, 3), of(rawName, 50, 8, 1), of(rawName, 50, 16, 0.5), of(rawName, 50, 32, 0.25)},
			map[string][]string{"Networks Ready, over time": {"raw 2 s", "converge 3 s"}, "Networks per second, by connections": {"raw"}}},
		{"a line over N needs two points", measured()[3:4], map[string][]string{}},
		{"figures over N, without a relist", measured()[3:],
			map[string][]string{"Time of a restart, and CPU": {"restart", "restart, CPU"}, "Resident memory of the controller": {"at the end", "at the peak"}}},
		{"nothing is compared with an edit", []Result{of("edit", 50, 8, 2)}, map[string][]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			drawn := map[string][]string{}
			for _, c := range charts(tt.results) {
				for _, l := range c.lines {
					drawn[c.title] = append(drawn[c.title], l.name)
				}
			}
			if diff := cmp.Diff(tt.want, drawn); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAxes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   axisKind
		values []float64
		want   []float64
	}{
		{"the next round number", linearAxis, []float64{3, 370}, []float64{0, 50, 100, 150, 200, 250, 300, 350, 400}},
		{"steps that are not whole", linearAxis, []float64{0.6}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6}},
		{"whole powers", powersAxis, []float64{150, 40000}, []float64{100, 1000, 10000, 100000}},
		{"one power is too short", powersAxis, []float64{1000}, []float64{1000, 10000}},
		{"each value once", measuredAxis, []float64{8, 2, 32, 8, 2}, []float64{2, 8, 32}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := axis{kind: tt.kind}
			a.set(tt.values)
			equal := cmp.Comparer(func(x, y float64) bool { return x-y < tiny && y-x < tiny })
			if diff := cmp.Diff(tt.want, a.ticks, equal); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
			for _, v := range tt.values {
				if at := a.of(v); !(at >= 0 && at <= 1) {
					t.Errorf("%v is at %v of the axis", v, at)
				}
			}
			if first, last := a.of(a.ticks[0]), a.of(a.ticks[len(a.ticks)-1]); first != 0 || last != 1 {
				t.Errorf("the ticks go from %v to %v of the axis", first, last)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name     string
		at, room []float64
		want     []float64
	}{
		{"too close together", []float64{50, 52}, []float64{10, 20}, []float64{50, 65}},
		{"the order is kept", []float64{52, 50}, []float64{10, 10}, []float64{60, 50}},
		{"at the high end", []float64{90, 95, 100}, []float64{10, 10, 10}, []float64{75, 85, 95}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, spread(tt.at, tt.room, 0, 100)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// element is an XML element of an SVG.
type element struct {
	name       string
	attributes map[string]string
	text       string
}

func elements(t *testing.T, svg []byte) (all []element) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v, in:\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			all[len(all)-1].text += strings.TrimSuffix(string(token), "\n")
		}
	}
}

func TestSVGHoldsEachLine(t *testing.T) {
	drawn := []chart{
		{title: "a < b & c", lines: []line{{"one", 0, []Point{{0, 0}, {10, 100}}}, {"two", 1, []Point{{5, 50}}}}},
		{title: "powers", x: axis{kind: measuredAxis}, y: axis{kind: powersAxis}, lines: []line{{"three", 0, []Point{{100, 10}, {1000, 1000}, {10000, 100}}}}},
	}
	for i := range drawn {
		drawn[i].setAxes()
	}
	var lines, titles []string
	for _, e := range elements(t, svg(drawn)) {
		switch {
		case e.name == "polyline":
			lines = append(lines, e.attributes["points"])
		case e.attributes["class"] == "title":
			titles = append(titles, e.text)
		}
	}
	if diff := cmp.Diff([]string{"64.0,244.0 748.0,59.0", "406.0,151.5", "64.0,534.0 406.0,349.0 748.0,441.5"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a < b & c", "powers"}, titles); diff != "" {
		t.Errorf("titles (-want +got):\n%s", diff)
	}
}
