// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
)

// axis is an axis of a chart. Its ends are the values low and high.
type axis struct {
	name      string
	kind      axisKind
	low, high float64
	// ticks are the values that are marked, from low to high.
	ticks []float64
}

type axisKind int

const (
	// linearAxis begins at 0, and marks round numbers.
	linearAxis axisKind = iota
	// powersAxis is logarithmic, and marks powers of ten.
	powersAxis
	// measuredAxis is logarithmic, and marks the measured values.
	measuredAxis
)

// setAxes sets both axes so that they include all points.
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

// set sets the axis so that it includes the values. On logarithmic axes they must be above 0.
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

// tiny is larger than any rounding error.
const tiny = 1e-9

// stepOf returns the smallest step for which high is at most 8 steps. A step is 1, 2 or 5 times
// a power of ten.
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

// of returns the position of a value on the axis, from 0 to 1.
func (a *axis) of(value float64) float64 {
	if a.kind == linearAxis {
		return value / a.high
	}
	return math.Log(value/a.low) / math.Log(a.high/a.low)
}

// short formats a number with at most three digits.
func short(value float64) string {
	if value >= 1000 {
		return fmt.Sprintf("%.3gk", value/1000)
	}
	return fmt.Sprintf("%.3g", value)
}
