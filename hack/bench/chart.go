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
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart is a picture of lines.
type chart struct {
	title, x, y string
	// log has both axes in powers of ten.
	log   bool
	lines []line
}

type line struct {
	name   string
	points []Point
}

// charts returns what there is to draw: lines of more than one point.
func charts(results []Result) []chart {
	all := []chart{
		{title: "Networks that are done", x: "seconds", y: "Networks", lines: progress(results)},
		{title: "Networks per second, by connections", x: "connections", y: "Networks/s", lines: byConnections(results)},
		{title: "Restart: time until every Network was looked at", x: "Networks", y: "seconds", log: true,
			lines: byN(results, restartName, "restart", func(s Sample) float64 { return s.Seconds })},
		{title: "Resident memory after a restart", x: "Networks", y: "MiB", log: true,
			lines: byN(results, restartName, "resident", func(s Sample) float64 { return float64(s.Resident) / (1 << 20) })},
		{title: "Steady: CPU of one look at Neutron", x: "Networks", y: "seconds", log: true,
			lines: byN(results, steadyName, "CPU", func(s Sample) float64 { return s.CPU[controllerProcess] })},
		{title: "Steady: requests of one look at Neutron", x: "Networks", y: "requests", log: true,
			lines: byN(results, steadyName, "requests", func(s Sample) float64 { return float64(total(s.Calls)) })},
	}
	var drawn []chart
	for _, c := range all {
		if len(c.lines) > 0 {
			drawn = append(drawn, c)
		}
	}
	return drawn
}

// fromNothing are the scenarios that can be compared.
var fromNothing = []string{convergeName, applyName, rawName, writesName}

// progress returns a line for each scenario that has a curve and begins with nothing, of
// the largest N, and of the most connections with that.
func progress(results []Result) (lines []line) {
	var of Result
	begins := func(r Result) bool {
		return len(r.Median.Curve) > 1 && slices.Contains(fromNothing, r.Scenario)
	}
	for _, r := range results {
		if begins(r) && cmp.Or(cmp.Compare(r.N, of.N), cmp.Compare(r.Connections, of.Connections)) > 0 {
			of = r
		}
	}
	for _, r := range results {
		if begins(r) && r.N == of.N && r.Connections == of.Connections {
			lines = append(lines, line{r.Scenario, r.Median.Curve})
		}
	}
	return lines
}

// byConnections returns a line for each scenario that was made with several numbers of
// connections.
func byConnections(results []Result) []line {
	var lines []line
	for _, r := range results {
		if !slices.Contains(fromNothing, r.Scenario) {
			continue
		}
		name := fmt.Sprintf("%s, N = %d", r.Scenario, r.N)
		i := slices.IndexFunc(lines, func(l line) bool { return l.name == name })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{name: name})
		}
		lines[i].points = append(lines[i].points, Point{float64(r.Connections), r.rate()})
	}
	return slices.DeleteFunc(lines, func(l line) bool { return len(l.points) < 2 })
}

// byN returns the line of a figure over N, if there is more than one N.
func byN(results []Result, scenario, name string, get func(Sample) float64) []line {
	l := line{name: name}
	for _, r := range results {
		if r.Scenario == scenario {
			l.points = append(l.points, Point{float64(r.N), get(r.Median)})
		}
	}
	if len(l.points) < 2 {
		return nil
	}
	return []line{l}
}

// Sizes in pixels, of a chart with what is around it.
const (
	chartWidth, chartHeight = 420, 260
	left, right             = 56, 14
	top, bottom             = 30, 50
)

// style has the colors of either theme.
const style = `text{font:11px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:12px}.small{fill:#6e7781;font-size:10px}
.back{fill:#fff}.grid{stroke:#d0d7de;stroke-width:.5}polyline{fill:none;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#8d96a0}.back{fill:#0d1117}.grid{stroke:#30363d}}`

var palette = []string{"#218bff", "#2da44e", "#bf8700", "#cf222e", "#8250df", "#1b9e9e"}

// svg draws the charts, two beside each other.
func svg(charts []chart) []byte {
	var b bytes.Buffer
	width, height := 2*chartWidth, (len(charts)+1)/2*chartHeight
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title>Benchmarks of samplecrd-controller</title>\n<style>%s</style>\n<rect width=\"%d\" height=\"%d\" class=\"back\"/>\n",
		width, height, width, height, style, width, height)
	for i, c := range charts {
		fmt.Fprintf(&b, "<g transform=\"translate(%d,%d)\">\n", i%2*chartWidth, i/2*chartHeight)
		c.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (c chart) draw(b *bytes.Buffer) {
	text := func(x, y float64, anchor, class, what string) {
		fmt.Fprintf(b, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, html.EscapeString(what))
	}
	text(left, 18, "start", "title", c.title)
	const w, h = chartWidth - left - right, chartHeight - top - bottom
	xs, ys := c.scales()
	for _, tick := range ys.ticks() {
		y := top + h*(1-ys.of(tick))
		fmt.Fprintf(b, "<path d=\"M%d %.1fh%d\" class=\"grid\"/>\n", left, y, w)
		text(left-5, y+3, "end", "small", short(tick))
	}
	for _, tick := range xs.ticks() {
		x := left + w*xs.of(tick)
		fmt.Fprintf(b, "<path d=\"M%.1f %dv%d\" class=\"grid\"/>\n", x, top, h)
		text(x, top+h+13, "middle", "small", short(tick))
	}
	text(left+w, top+h+26, "end", "small", c.x)
	text(left+4, top+10, "start", "small", c.y)
	for i, l := range c.lines {
		color := palette[i%len(palette)]
		var points []string
		for _, p := range l.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", left+w*xs.of(p.X), top+h*(1-ys.of(p.Y))))
		}
		fmt.Fprintf(b, "<polyline points=\"%s\" stroke=\"%s\"/>\n", strings.Join(points, " "), color)
		x := float64(left + i*w/max(len(c.lines), 3))
		fmt.Fprintf(b, "<rect x=\"%.0f\" y=\"%d\" width=\"9\" height=\"3\" fill=\"%s\"/>\n", x, chartHeight-12, color)
		text(x+13, chartHeight-7, "start", "small", l.name)
	}
}

// scale is what the ends of an axis stand for.
type scale struct {
	low, high float64
	log       bool
}

// scales returns those of both axes, in which all points have room.
func (c chart) scales() (x, y scale) {
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	return scaleOf(xs, c.log), scaleOf(ys, c.log)
}

func scaleOf(values []float64, log bool) scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		high = max(high, v)
		if v > 0 {
			low = min(low, v)
		}
	}
	switch {
	case high == 0:
		return scale{high: 1}
	case log:
		low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
		return scale{math.Pow(10, low), math.Pow(10, max(high, low+1)), true}
	}
	power := math.Pow(10, math.Floor(math.Log10(high)))
	for _, factor := range []float64{1, 2, 4, 6, 8} {
		if factor*power >= high {
			return scale{high: factor * power}
		}
	}
	return scale{high: 10 * power}
}

// of returns how far along the axis a value is, between 0 and 1.
func (s scale) of(value float64) float64 {
	if s.log {
		return math.Log(max(value, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return value / s.high
}

// ticks returns the values that are written at the axis.
func (s scale) ticks() (ticks []float64) {
	if s.log {
		for tick := s.low; tick < s.high*1.5; tick *= 10 {
			ticks = append(ticks, tick)
		}
		return ticks
	}
	for i := range 5 {
		ticks = append(ticks, s.high*float64(i)/4)
	}
	return ticks
}

// short writes a number with as few digits as it takes.
func short(value float64) string {
	if value >= 1000 && math.Mod(value, 1000) == 0 {
		return fmt.Sprintf("%gk", value/1000)
	}
	return fmt.Sprintf("%.3g", value)
}
