// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Sizes in pixels: of the picture, which is as wide as the text of a README on GitHub; of a row
// of charts; of the margins around a chart's lines; of the widest letter; of a line of text.
const (
	pictureWidth, rowHeight  = 840, 290
	left, right, top, bottom = 64, 92, 74, 46
	letterWidth, textHeight  = 7, 15
)

// style has the colors of the light and the dark theme.
const style = `text{font:12px -apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:14px;font-weight:600}.small{fill:#59636e}.back{fill:#fff}.grid{stroke:#d1d9e0;stroke-width:.6}
polyline{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}.to{stroke:currentColor;stroke-width:.6}circle,.name{fill:currentColor}
.c0{color:#0969da}.c1{color:#bc4c00}.c2{color:#1a7f37}.c3{color:#8250df}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#3d444d}
circle,.name{fill:currentColor}.c0{color:#58a6ff}.c1{color:#f0883e}.c2{color:#3fb950}.c3{color:#bc8cff}}`

// svg draws the charts below each other, and two halves beside each other.
func svg(charts []chart) []byte {
	var rows [][]chart
	for len(charts) > 0 {
		n := 1
		if len(charts) > 1 && charts[0].half && charts[1].half {
			n = 2
		}
		rows, charts = append(rows, charts[:n]), charts[n:]
	}
	var d drawing
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d"><title>Benchmarks of samplecrd-controller</title>`, pictureWidth, len(rows)*rowHeight)
	d.add("<style>%s</style>", style)
	d.add(`<rect width="%d" height="%d" class="back"/>`, pictureWidth, len(rows)*rowHeight)
	for y, row := range rows {
		width := pictureWidth / len(row)
		for x, c := range row {
			d.chart(c, box{float64(x*width + left), float64(y*rowHeight + top), float64(width - left - right), rowHeight - top - bottom})
		}
	}
	d.add("</svg>")
	return d.Bytes()
}

// drawing is an SVG under construction.
type drawing struct{ bytes.Buffer }

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// text writes text at x, y, which is its start, middle or end, depending on anchor.
func (d *drawing) text(x, y float64, anchor, class, text string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(text))
}

// box is the area of a chart's lines.
type box struct{ x, y, w, h float64 }

// at returns the position of a point of a chart in the picture.
func (b box) at(c chart, p Point) Point {
	return Point{b.x + b.w*c.x.of(p.X), b.y + b.h*(1-c.y.of(p.Y))}
}

func (d *drawing) chart(c chart, b box) {
	d.text(b.x, b.y-52, "start", "title", c.title)
	d.text(b.x, b.y-36, "start", "small", c.note)
	if !c.curves { // it has no names above it
		b.y, b.h = b.y-textHeight, b.h+textHeight
	}
	d.axes(c, b)
	for _, l := range c.lines {
		var points []string
		for _, p := range l.points {
			at := b.at(c, p)
			points = append(points, fmt.Sprintf("%.1f,%.1f", at.X, at.Y))
			if !c.curves {
				d.add(`<circle cx="%.1f" cy="%.1f" r="3" class="c%d"/>`, at.X, at.Y, l.color)
			}
		}
		d.add(`<polyline points="%s" class="c%d"/>`, strings.Join(points, " "), l.color)
	}
	if c.curves {
		d.namesAbove(c, b)
	} else {
		d.namesBeside(c, b)
	}
}

func (d *drawing) axes(c chart, b box) {
	for _, tick := range c.y.ticks {
		y := b.y + b.h*(1-c.y.of(tick))
		d.add(`<path d="M%.1f %.1fh%.1f" class="grid"/>`, b.x, y, b.w)
		d.text(b.x-6, y+4, "end", "small", short(tick))
	}
	end := b.x - left
	for _, tick := range c.x.ticks {
		x := b.x + b.w*c.x.of(tick)
		d.add(`<path d="M%.1f %.1fv%.1f" class="grid"/>`, x, b.y, b.h)
		if half := float64(len(short(tick))) * letterWidth / 2; x-half > end {
			d.text(x, b.y+b.h+16, "middle", "small", short(tick))
			end = x + half
		}
	}
	d.text(b.x+b.w/2, b.y+b.h+34, "middle", "small", c.x.name)
	d.add(`<text transform="translate(%.1f,%.1f) rotate(-90)" text-anchor="middle" class="small">%s</text>`, b.x-left+18, b.y+b.h/2, html.EscapeString(c.y.name))
}

// namesAbove writes the lines' names above a chart, over the lines' ends.
func (d *drawing) namesAbove(c chart, b box) {
	var at, room []float64
	for _, l := range c.lines {
		at = append(at, b.at(c, l.points[len(l.points)-1]).X)
		room = append(room, float64(len(l.name)+1)*letterWidth)
	}
	for i, x := range spread(at, room, b.x, b.x+b.w+right) {
		l := c.lines[i]
		d.text(x, b.y-14, "middle", fmt.Sprintf("name c%d", l.color), l.name)
		end := b.at(c, l.points[len(l.points)-1])
		d.add(`<path d="M%.1f %.1fL%.1f %.1f" class="to c%d"/>`, end.X, end.Y, x, b.y-11, l.color)
	}
}

// namesBeside writes the lines' names to the right of a chart.
func (d *drawing) namesBeside(c chart, b box) {
	var at, room []float64
	for _, l := range c.lines {
		at = append(at, b.at(c, l.points[len(l.points)-1]).Y)
		room = append(room, textHeight)
	}
	for i, y := range spread(at, room, b.y-textHeight/2, b.y+b.h+textHeight/2) {
		l := c.lines[i]
		d.text(b.x+b.w+14, y+4, "start", fmt.Sprintf("name c%d", l.color), l.name)
		end := b.at(c, l.points[len(l.points)-1])
		d.add(`<path d="M%.1f %.1fL%.1f %.1f" class="to c%d"/>`, end.X, end.Y, b.x+b.w+12, y, l.color)
	}
}

// spread returns the positions at, moved as far as is needed for each to have its room around
// it, without overlaps, between low and high.
func spread(at, room []float64, low, high float64) []float64 {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	at = slices.Clone(at)
	for _, i := range order {
		at[i] = max(at[i], low+room[i]/2)
		low = at[i] + room[i]/2
	}
	for _, i := range slices.Backward(order) {
		at[i] = min(at[i], high-room[i]/2)
		high = at[i] - room[i]/2
	}
	return at
}
