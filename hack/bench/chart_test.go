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
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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

func TestFiguresOverNLeaveOutZeros(t *testing.T) {
	results := slices.Clone(measured()[3:])
	results[0].Median.CPU = nil
	l := byN(results, 0, restartName, "CPU", func(s Sample) float64 { return s.CPU[controllerProcess] })
	if diff := cmp.Diff([]Point{{11000, 1.1}}, l.points); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
		{"a round number is high enough", linearAxis, []float64{0, 500}, []float64{0, 100, 200, 300, 400, 500}},
		{"steps that are not whole", linearAxis, []float64{0.6}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6}},
		{"steps of ten", linearAxis, []float64{75}, []float64{0, 10, 20, 30, 40, 50, 60, 70, 80}},
		{"nothing", linearAxis, []float64{0, 0}, []float64{0, 1}},
		{"whole powers", powersAxis, []float64{150, 40000}, []float64{100, 1000, 10000, 100000}},
		{"one power is too short", powersAxis, []float64{1000}, []float64{1000, 10000}},
		{"powers below 1", powersAxis, []float64{0.02, 0.3}, []float64{0.01, 0.1, 1}},
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

func TestShort(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.001: "0.001", 0.30000000000000004: "0.3", 500: "500", 1400: "1.4k", 65536: "65.5k"} {
		if got := short(value); got != want {
			t.Errorf("%v is %q, want %q", value, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name     string
		at, room []float64
		want     []float64
	}{
		{"there is room", []float64{20, 80}, []float64{10, 10}, []float64{20, 80}},
		{"too close together", []float64{50, 52}, []float64{10, 20}, []float64{50, 65}},
		{"the order is kept", []float64{52, 50}, []float64{10, 10}, []float64{60, 50}},
		{"the same position", []float64{50, 50}, []float64{10, 10}, []float64{50, 60}},
		{"at the low end", []float64{0, 3}, []float64{10, 10}, []float64{5, 15}},
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

// extent returns the area of a text that is not rotated.
func (e element) extent(t *testing.T) box {
	t.Helper()
	x, err := strconv.ParseFloat(e.attributes["x"], 64)
	y, errY := strconv.ParseFloat(e.attributes["y"], 64)
	if err := errors.Join(err, errY); err != nil {
		t.Fatal(err)
	}
	width := float64(len(e.text)) * letterWidth
	part := map[string]float64{"start": 0, "middle": 0.5, "end": 1}[e.attributes["text-anchor"]]
	return box{x - part*width, y - 10, width, 12}
}

func (b box) overlaps(c box) bool {
	return b.x < c.x+c.w && c.x < b.x+b.w && b.y < c.y+c.h && c.y < b.y+b.h
}

func TestTextDoesNotOverlap(t *testing.T) {
	for _, seconds := range []float64{0.1234, 2, 1234} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			var before []element
			picture := box{0, 0, pictureWidth, 3 * rowHeight}
			for _, e := range elements(t, svg(charts(crowd(seconds)))) {
				if e.name != "text" || e.attributes["transform"] != "" {
					continue
				}
				b := e.extent(t)
				for _, other := range before {
					if b.overlaps(other.extent(t)) {
						t.Errorf("%q overlaps %q", e.text, other.text)
					}
				}
				if b.x < picture.x || b.x+b.w > picture.w || b.y < picture.y || b.y+b.h > picture.h {
					t.Errorf("%q is at %v, outside the picture", e.text, b)
				}
				before = append(before, e)
			}
			if len(before) < 40 {
				t.Errorf("there are only %d texts", len(before))
			}
		})
	}
}

// crowd returns results that are close together. Each took about seconds.
func crowd(seconds float64) (results []Result) {
	for _, connections := range []int{1, 2, 3, 4, 8, 16, 32, 33, 64, 128} {
		for i, name := range compared {
			took := seconds * (1 + float64(i)/100)
			results = append(results, Result{Scenario: name, N: 500, Connections: connections,
				Median: Sample{Seconds: took, Curve: []Point{{0, 0}, {took, 500}}}})
		}
	}
	for _, n := range []int{100, 110, 1000, 10000, 50000, 65536} {
		for i, name := range []string{restartName, steadyName} {
			took := seconds * float64(n) * (1 + float64(i)/100)
			results = append(results, Result{Scenario: name, N: n, Connections: 1,
				Median: Sample{Seconds: took, CPU: map[string]float64{controllerProcess: took}, Resident: int64(n) << 20, Peak: int64(n) << 20}})
		}
	}
	return results
}
