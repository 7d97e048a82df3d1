// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Sample has the figures of one run, or the medians of several.
type Sample struct {
	// Seconds is the time from the beginning to the last Network.
	Seconds float64 `json:"seconds"`
	// WorkSeconds is the time from the first request that changes Neutron to the last Network.
	WorkSeconds float64 `json:"workSeconds,omitempty"`
	// Wait is how long the Networks took, each from its own beginning.
	Wait Percentiles `json:"waitSeconds"`
	// Edits is how long the single edits of other Networks took, by their namespace.
	Edits map[string]Percentiles `json:"editSeconds,omitempty"`
	// Calls are the controller's requests to Neutron, by method and collection.
	Calls map[string]int `json:"neutronCalls,omitempty"`
	// Writes are the controller's requests that change Networks in Kubernetes.
	Writes map[string]int `json:"kubernetesWrites,omitempty"`
	// Reads are the controller's requests for single Networks.
	Reads map[string]int `json:"kubernetesReads,omitempty"`
	// Events are the requests that record events.
	Events map[string]int `json:"events,omitempty"`
	// CPU is the CPU time of each process, in seconds, by its name.
	CPU map[string]float64 `json:"cpuSeconds,omitempty"`
	// Peak is the controller's peak resident memory, Resident that at the end, in bytes.
	Peak     int64 `json:"peakBytes,omitempty"`
	Resident int64 `json:"residentBytes,omitempty"`
	// Busy is the part of the machine's CPU that was in use right before, from 0 to 1.
	Busy float64 `json:"busyBefore"`
	// Curve is the number of Networks done over the time in seconds.
	Curve []Point `json:"curve,omitempty"`
	// Deletion has the figures of the deletion, if the scenario measures creation and deletion.
	Deletion *Sample `json:"deletion,omitempty"`
}

// Percentiles are of times, in seconds. All are 0 if no time was measured.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	// Count is the number of times that were measured.
	Count int `json:"count"`
}

// Point is a place in a chart.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Result has the runs of a scenario with the same size and number of connections.
type Result struct {
	Scenario string `json:"scenario"`
	// Controller is the controller's name in the scenario beside; "" in all others.
	Controller  string `json:"controller,omitempty"`
	N           int    `json:"n"`
	Connections int    `json:"connections,omitempty"`
	// Workers is the controller's -workers, and the number of workers of the scenario writes.
	Workers int `json:"workers,omitempty"`
	// Runs are in the order in which they were made. Median has the median of each single
	// figure, and the curve of the run with the median time.
	Runs   []Sample `json:"runs"`
	Median Sample   `json:"median"`
}

// rate returns the number of Networks per second.
func (r Result) rate() float64 {
	if r.Median.Seconds == 0 {
		return 0
	}
	return float64(r.N) / r.Median.Seconds
}

// controllerProcess is the controller's name in Sample.CPU.
const controllerProcess = "controller"

// total returns the sum of counts.
func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// median returns the median of values, which must not be empty. Of an even number of values it
// is the lower of the two in the middle, so that it is always a measured value.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// medianOf returns the median of what get returns for each sample.
func medianOf[T cmp.Ordered](samples []Sample, get func(Sample) T) T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = get(s)
	}
	return median(values)
}

// medianOfMaps is medianOf for each key that is in any of the maps. A missing key counts as 0.
func medianOfMaps[T cmp.Ordered](samples []Sample, get func(Sample) map[string]T) map[string]T {
	result := map[string]T{}
	for _, s := range samples {
		for key := range get(s) {
			result[key] = medianOf(samples, func(s Sample) T { return get(s)[key] })
		}
	}
	return result
}

// medianOfPercentiles is medianOf for each field.
func medianOfPercentiles(samples []Sample, get func(Sample) Percentiles) Percentiles {
	return Percentiles{
		P50:   medianOf(samples, func(s Sample) float64 { return get(s).P50 }),
		P95:   medianOf(samples, func(s Sample) float64 { return get(s).P95 }),
		P99:   medianOf(samples, func(s Sample) float64 { return get(s).P99 }),
		Max:   medianOf(samples, func(s Sample) float64 { return get(s).Max }),
		Count: medianOf(samples, func(s Sample) int { return get(s).Count }),
	}
}

// summarize returns the medians of samples, which must not be empty.
func summarize(samples []Sample) Sample {
	m := Sample{
		Seconds:     medianOf(samples, func(s Sample) float64 { return s.Seconds }),
		WorkSeconds: medianOf(samples, func(s Sample) float64 { return s.WorkSeconds }),
		Wait:        medianOfPercentiles(samples, func(s Sample) Percentiles { return s.Wait }),
		Calls:       medianOfMaps(samples, func(s Sample) map[string]int { return s.Calls }),
		Writes:      medianOfMaps(samples, func(s Sample) map[string]int { return s.Writes }),
		Reads:       medianOfMaps(samples, func(s Sample) map[string]int { return s.Reads }),
		Events:      medianOfMaps(samples, func(s Sample) map[string]int { return s.Events }),
		CPU:         medianOfMaps(samples, func(s Sample) map[string]float64 { return s.CPU }),
		Peak:        medianOf(samples, func(s Sample) int64 { return s.Peak }),
		Resident:    medianOf(samples, func(s Sample) int64 { return s.Resident }),
		Busy:        medianOf(samples, func(s Sample) float64 { return s.Busy }),
	}
	for namespace := range samples[0].Edits {
		if m.Edits == nil {
			m.Edits = map[string]Percentiles{}
		}
		m.Edits[namespace] = medianOfPercentiles(samples, func(s Sample) Percentiles { return s.Edits[namespace] })
	}
	var deletions []Sample
	for _, s := range samples {
		if s.Seconds == m.Seconds {
			m.Curve = s.Curve
		}
		if s.Deletion != nil {
			deletions = append(deletions, *s.Deletion)
		}
	}
	if len(deletions) > 0 {
		deletion := summarize(deletions)
		m.Deletion = &deletion
	}
	return m
}

// percentiles returns percentiles that are measured times, not interpolated ones.
func percentiles(times []time.Duration) Percentiles {
	if len(times) == 0 {
		return Percentiles{}
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(part float64) float64 {
		rank := int(math.Ceil(part * float64(len(sorted))))
		return sorted[max(rank, 1)-1].Seconds()
	}
	return Percentiles{P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(1), Count: len(times)}
}

// maxCurve is the number of points that are enough for a chart.
const maxCurve = 100

// curve returns the number of times that have passed, over the time: at most maxCurve points
// after the first, which is 0, 0.
func curve(times []time.Duration) []Point {
	sorted := slices.Sorted(slices.Values(times))
	points := []Point{{0, 0}}
	for i := range min(len(sorted), maxCurve) {
		done := (i + 1) * len(sorted) / min(len(sorted), maxCurve)
		points = append(points, Point{sorted[done-1].Seconds(), float64(done)})
	}
	return points
}

// since returns the counts in after less those in before, without those that are equal.
func since(before, after map[string]int) map[string]int {
	difference := maps.Clone(after)
	for key, n := range before {
		difference[key] -= n
	}
	maps.DeleteFunc(difference, func(_ string, n int) bool { return n == 0 })
	return difference
}
