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
	"fmt"
	"math"
	"slices"
)

// axis is one of a chart. The ends stand for low and high.
type axis struct {
	name      string
	kind      axisKind
	low, high float64
	// ticks are the values that are written at it, from low to high.
	ticks []float64
}

type axisKind int

const (
	// linearAxis begins at 0, and has round numbers.
	linearAxis axisKind = iota
	// powersAxis is logarithmic, and has powers of ten.
	powersAxis
	// measuredAxis is logarithmic, and has what was measured.
	measuredAxis
)

// setAxes makes room for all points.
func (c *chart) setAxes() {
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	c.x.set(xs)
	c.y.set(ys)
}

// set makes room for values. Those of logarithmic axes must be above 0.
func (a *axis) set(values []float64) {
	a.ticks = nil
	switch low, high := slices.Min(values), slices.Max(values); a.kind {
	case linearAxis:
		step := stepOf(high)
		for i := range max(int(math.Ceil(high/step-tiny)), 1) + 1 {
			a.ticks = append(a.ticks, float64(i)*step)
		}
	case powersAxis:
		first := math.Floor(math.Log10(low) + tiny)
		last := max(math.Ceil(math.Log10(high)-tiny), first+1)
		for power := first; power <= last; power++ {
			a.ticks = append(a.ticks, math.Pow(10, power))
		}
	case measuredAxis:
		a.ticks = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	a.low, a.high = a.ticks[0], a.ticks[len(a.ticks)-1]
}

// tiny is more than what is lost by rounding.
const tiny = 1e-9

// stepOf returns the least of 1, 2 and 5 times a power of ten with which there are at most
// 8 steps to a value.
func stepOf(high float64) float64 {
	if high <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(high/8)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power*8 >= high {
			return factor * power
		}
	}
	return 10 * power
}

// of returns how far along the axis a value is, between 0 and 1.
func (a *axis) of(value float64) float64 {
	if a.kind == linearAxis {
		return value / a.high
	}
	return math.Log(value/a.low) / math.Log(a.high/a.low)
}

// short writes a number with as few digits as it takes.
func short(value float64) string {
	if value >= 1000 {
		return fmt.Sprintf("%.3gk", value/1000)
	}
	return fmt.Sprintf("%.3g", value)
}
