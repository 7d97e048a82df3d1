// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/monitoring"
)

// moment is the time at which an act began.
type moment struct {
	name string
	at   time.Duration
}

// drawing is an SVG to which panels are added.
type drawing struct {
	began   time.Time
	length  time.Duration
	moments []moment

	body   bytes.Buffer
	bottom int
}

// Sizes in pixels: of a unit of Grafana's grid, of the margins and of a letter.
const (
	unitWidth, unitHeight = 42, 24
	width                 = 24 * unitWidth
	space                 = 4
	letter                = 5.2
	axis                  = 34
)

// style has the colors of the light and the dark theme.
const style = `text{font:10px system-ui,sans-serif;fill:#24292f}.b{font-weight:600}.h{font-size:17px;font-weight:600}.v{font-size:20px;font-weight:600;fill:#fff;text-anchor:middle}
.s{fill:#6e7781;font-size:9px}.back{fill:#f6f8fa}.card{fill:#fff;stroke:#d0d7de}.grid{stroke:#d0d7de;stroke-width:.5}.when{stroke:#8c959f;stroke-dasharray:2 2;stroke-width:.7}polyline{fill:none;stroke-width:1.3}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#8d96a0}.back{fill:#0d1117}.card{fill:#161b22;stroke:#30363d}.grid{stroke:#30363d}}`

var palette = []string{"#2da44e", "#bf8700", "#218bff", "#e16f24", "#cf222e", "#8250df", "#1b9e9e", "#d4409f", "#7d8590", "#6f9a1f"}

var named = map[string]string{"green": "#2da44e", "yellow": "#bf8700", "red": "#cf222e"}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.body, format+"\n", args...) }

func (d *drawing) text(x, y float64, class, text string) {
	d.add(`<text x="%.0f" y="%.0f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

// box is the area of an element.
type box struct{ x, y, w, h float64 }

// panel draws a panel, or a heading.
func (d *drawing) panel(p monitoring.Panel, lines []line) {
	b := box{float64(p.Place.X*unitWidth + space/2), float64(p.Place.Y*unitHeight + space/2), float64(p.Place.W*unitWidth - space), float64(p.Place.H*unitHeight - space)}
	d.bottom = max(d.bottom, (p.Place.Y+p.Place.H)*unitHeight)
	if p.Type == monitoring.TypeText {
		d.text(b.x+space, b.y+b.h*0.65, "h", strings.TrimPrefix(p.Options.Content, "## "))
		return
	}
	d.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="3" class="card"/>`, b.x, b.y, b.w, b.h)
	inner := box{b.x + 2*space, b.y + 29, b.w - 4*space, b.h - 33}
	switch p.Type {
	case monitoring.TypeStat:
		d.stat(b, p, lines)
	case monitoring.TypeTimeSeries:
		d.chart(inner, p, lines)
	case monitoring.TypeTable:
		if len(lines) == 0 {
			lines = []line{{name: cmp.Or(p.FieldConfig.Defaults.NoValue, "none")}}
		}
		for i, l := range lines {
			d.text(inner.x, inner.y+float64(14*i+5), "", shorten(l.name, inner.w))
		}
	}
	d.text(b.x+2*space, b.y+14, "b", p.Title)
}

// stat draws one value on a background of its color.
func (d *drawing) stat(b box, p monitoring.Panel, lines []line) {
	said, color := p.FieldConfig.Defaults.NoValue, ""
	if len(lines) > 0 {
		value := lines[0].values[0]
		said = format(p.FieldConfig.Defaults.Unit, value)
		for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
			if step.Value == nil || value >= *step.Value {
				color = named[step.Color]
			}
		}
	}
	d.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="3" fill="%s"/>`, b.x+2*space, b.y+24, b.w-4*space, b.h-32, cmp.Or(color, palette[8]))
	d.text(b.x+b.w/2, b.y+b.h/2+16, "v", said)
}

// chart draws lines over time, stacked if the panel stacks them.
func (d *drawing) chart(b box, p monitoring.Panel, lines []line) {
	stacked := p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	if stacked {
		pile(lines)
	}
	d.legend(box{b.x, b.y + b.h - 21, b.w, 24}, p, lines)
	b = box{b.x + axis, b.y, b.w - axis, b.h - 32}
	s := scaleOf(p, lines)
	for i, value := range s.ticks() {
		y := b.y + b.h*float64(2-i)/2
		d.add(`<path d="M%.0f %.1fh%.0f" class="grid"/>`, b.x, y, b.w)
		d.text(b.x-axis, y+3, "s", format(p.FieldConfig.Defaults.Unit, value))
	}
	for i, l := range slices.Backward(lines) {
		d.line(b, l, s, colorOf(p, i, l.name), stacked)
	}
	for i, m := range d.moments {
		x := b.x + b.w*float64(m.at)/float64(d.length)
		d.add(`<path d="M%.1f %.1fv%.1f" class="when"/>`, x, b.y, b.h)
		d.text(x-2, b.y-1, "s", fmt.Sprint(i+1))
	}
}

// scale has the values at the bottom and at the top of a chart.
type scale struct {
	low, high float64
	log       bool
}

func scaleOf(p monitoring.Panel, lines []line) scale {
	s := scale{log: p.FieldConfig.Defaults.Custom.Scale.Type == "log", low: math.Inf(1)}
	for _, l := range lines {
		s.high = max(s.high, l.top())
		for _, value := range l.values {
			if value > 0 {
				s.low = min(s.low, value)
			}
		}
	}
	if limit := p.FieldConfig.Defaults.Max; limit != nil {
		return scale{high: *limit}
	}
	if s.high == 0 {
		return scale{high: 1}
	}
	if s.log {
		low, high := math.Floor(math.Log10(s.low)), math.Ceil(math.Log10(s.high))
		if math.Mod(high-low, 2) != 0 { // so that the middle is also a power of ten
			high++
		}
		return scale{math.Pow(10, low), math.Pow(10, max(high, low+2)), true}
	}
	// Round up to 1, 1.2, 1.6, 2, 3, 4, 6, 8 or 10 times a power of ten.
	power := math.Pow(10, math.Floor(math.Log10(s.high)))
	for _, factor := range []float64{1, 1.2, 1.6, 2, 3, 4, 6, 8, 10} {
		if factor*power >= s.high {
			return scale{high: factor * power}
		}
	}
	return scale{high: s.high}
}

// ticks returns the values at the bottom, in the middle and at the top.
func (s scale) ticks() []float64 {
	if s.log {
		return []float64{s.low, math.Sqrt(s.low * s.high), s.high}
	}
	return []float64{0, s.high / 2, s.high}
}

// of returns the height of a value in the chart, between 0 and 1.
func (s scale) of(value float64) float64 {
	if s.log {
		return math.Log(max(value, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return min(value/s.high, 1)
}

// pile stacks the lines: it adds the earlier lines to each line.
func pile(lines []line) {
	for i := 1; i < len(lines); i++ {
		for x, below := range lines[i-1].values {
			lines[i].values[x] += below
		}
	}
}

func (d *drawing) line(b box, l line, s scale, color string, filled bool) {
	var part []string
	flush := func() {
		if len(part) > 1 && filled {
			first, _, _ := strings.Cut(part[0], ",")
			last, _, _ := strings.Cut(part[len(part)-1], ",")
			d.add(`<polygon points="%s,%.0f %s %s,%.0f" fill="%s"/>`, first, b.y+b.h, strings.Join(part, " "), last, b.y+b.h, color)
		} else if len(part) > 0 {
			d.add(`<polyline points="%s" stroke="%s"/>`, strings.Join(part, " "), color)
		}
		part = nil
	}
	for x := range points + 1 {
		value, ok := l.values[x]
		if !ok || math.IsNaN(value) {
			flush()
			continue
		}
		part = append(part, fmt.Sprintf("%.0f,%.1f", b.x+b.w*float64(x)/points, b.y+b.h-b.h*s.of(value)))
	}
	flush()
}

func colorOf(p monitoring.Panel, i int, name string) string {
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.Options == name && len(o.Properties) > 0 {
			return named[o.Properties[0].Value.FixedColor]
		}
	}
	return palette[i%len(palette)]
}

// legend draws the names of as many lines as fit.
func (d *drawing) legend(b box, p monitoring.Panel, lines []line) {
	x, y := b.x, b.y+9
	for i, l := range lines {
		need := 17 + letter*float64(len(l.name))
		last := y > b.y+10
		if x > b.x && x+need > b.x+b.w && !last {
			x, y, last = b.x, y+12, true
		}
		if room := b.x + b.w - x - need; last && (room < 0 || room < 40 && i < len(lines)-1) {
			d.text(x, y, "s", fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		d.add(`<rect x="%.0f" y="%.0f" width="8" height="3" fill="%s"/>`, x, y-5, colorOf(p, i, l.name))
		d.text(x+11, y, "s", shorten(l.name, b.w))
		x += need
	}
}

func shorten(text string, width float64) string {
	if room := int(width / letter); len(text) > room {
		return text[:room] + "…"
	}
	return text
}

// format formats a value in a unit, approximately as Grafana does.
func format(unit string, value float64) string {
	switch {
	case unit == "bool_yes_no":
		return map[bool]string{true: "Yes", false: "No"}[value != 0]
	case unit == "bytes":
		return fmt.Sprintf("%.0f MiB", value/(1<<20))
	case unit == "s" && value >= 100:
		return fmt.Sprintf("%.0f s", value)
	case unit == "s" && value >= 1:
		return fmt.Sprintf("%.3g s", value)
	case unit == "s" && value >= 0.001:
		return fmt.Sprintf("%.3g ms", value*1e3)
	case unit == "s" && value > 0:
		return fmt.Sprintf("%.3g µs", value*1e6)
	case unit == "reqps" || unit == "ops":
		return fmt.Sprintf("%.3g/s", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// svg returns the complete SVG, with the list of acts at the bottom.
func (d *drawing) svg() []byte {
	height := d.bottom + 14*len(d.moments) + 24
	for i, m := range d.moments {
		d.text(2*space, float64(d.bottom+16+14*i), "", fmt.Sprintf("%d  after %s: %s", i+1, m.at.Round(time.Second), m.name))
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"><title>The dashboard of samplecrd-controller</title>
<style>%s</style><rect width="%d" height="%d" class="back"/>
%s</svg>
`, width, height, width, height, style, width, height, d.body.Bytes())
}
