// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []int
		want   int
	}{
		{"the lower one of an even number", []int{4, 1, 3, 2}, 2},
		{"an outlier does not count", []int{1, 2, 1000000, 2, 2}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := append([]int(nil), tt.values...)
			if got := median(tt.values); got != tt.want {
				t.Errorf("median(%v) = %d, want %d", tt.values, got, tt.want)
			}
			if diff := cmp.Diff(before, tt.values); diff != "" {
				t.Errorf("it changed the values:\n%s", diff)
			}
		})
	}
}

func TestPercentilesAreMeasuredTimes(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[(i*37)%100] = time.Duration(i+1) * time.Second // unsorted
	}
	for _, tt := range []struct {
		name  string
		times []time.Duration
		want  Percentiles
	}{
		{"none", nil, Percentiles{}},
		{"a single time is every percentile", []time.Duration{time.Second}, Percentiles{1, 1, 1, 1, 1}},
		{"p50 of two is the lower one", []time.Duration{2 * time.Second, time.Second}, Percentiles{1, 2, 2, 2, 2}},
		{"of a hundred", hundred, Percentiles{50, 95, 99, 100, 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, percentiles(tt.times)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCurveEndsWithTheLastOne(t *testing.T) {
	few := curve([]time.Duration{3 * time.Second, time.Second})
	if diff := cmp.Diff([]Point{{0, 0}, {1, 1}, {3, 2}}, few); diff != "" {
		t.Errorf("of two (-want +got):\n%s", diff)
	}
	many := make([]time.Duration, 12345)
	for i := range many {
		many[i] = time.Duration(len(many)-i) * time.Second
	}
	points := curve(many)
	if len(points) != maxCurve+1 {
		t.Errorf("%d points, want %d", len(points), maxCurve+1)
	}
	if diff := cmp.Diff(Point{12345, 12345}, points[len(points)-1]); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	for _, p := range points[1:] {
		if p.X != p.Y { // one per second
			t.Errorf("%v done after %v s", p.Y, p.X)
		}
	}
}

func TestSummaryHasTheMedianOfEachFigure(t *testing.T) {
	got := summarize([]Sample{
		{
			Seconds: 3, Wait: Percentiles{P50: 1, P95: 5}, Calls: map[string]int{"POST networks": 10, "GET networks": 1},
			CPU: map[string]float64{"etcd": 2}, Peak: 30, Curve: []Point{{3, 3}}, Edits: map[string]Percentiles{"a": {P99: 3, Max: 3, Count: 10}},
		},
		{Seconds: 1, Wait: Percentiles{P50: 2, P95: 4}, Calls: map[string]int{"POST networks": 12}, CPU: map[string]float64{"etcd": 1}, Peak: 10, Curve: []Point{{1, 1}}, Edits: map[string]Percentiles{"a": {P99: 2, Max: 9, Count: 30}}},
		{Seconds: 2, Wait: Percentiles{P50: 3, P95: 3}, Calls: map[string]int{"POST networks": 11}, CPU: map[string]float64{"etcd": 3}, Peak: 20, Curve: []Point{{2, 2}}, Edits: map[string]Percentiles{"a": {P99: 1, Max: 4, Count: 20}}},
	})
	want := Sample{
		Seconds: 2, Wait: Percentiles{P50: 2, P95: 4}, Calls: map[string]int{"POST networks": 11, "GET networks": 0},
		Writes: map[string]int{}, Reads: map[string]int{}, Events: map[string]int{},
		CPU: map[string]float64{"etcd": 2}, Peak: 20, Curve: []Point{{2, 2}}, Edits: map[string]Percentiles{"a": {P99: 2, Max: 4, Count: 20}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
