// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// measured returns results such as those of a benchmark.
func measured() []Result {
	of := func(scenario string, n, connections int, m Sample) Result {
		return Result{Scenario: scenario, N: n, Connections: connections, Workers: 4 * connections, Runs: make([]Sample, 3), Median: m}
	}
	cpu := func(s float64) map[string]float64 { return map[string]float64{controllerProcess: s} }
	return []Result{
		of(convergeName, 500, 32, Sample{Seconds: 2, WorkSeconds: 1.6, Wait: Percentiles{P50: 1, P95: 1.9, P99: 1.99}, Calls: map[string]int{"POST networks": 500, "POST subnets": 500},
			Writes: map[string]int{"patch networks": 1000}, Events: map[string]int{"post events": 500}, CPU: cpu(0.5), Peak: 50 << 20, Resident: 40 << 20, Curve: []Point{{0, 0}, {1, 200}, {2, 500}}}),
		of(rawName, 500, 32, Sample{Seconds: 1.5, WorkSeconds: 1.2, Calls: map[string]int{"POST networks": 500, "POST subnets": 500}, Curve: []Point{{0, 0}, {1.5, 500}}}),
		of(rawName, 500, 64, Sample{Seconds: 0.75}),
		of(restartName, 1000, 32, Sample{Seconds: 0.5, CPU: cpu(0.1), Peak: 40 << 20, Resident: 30 << 20}),
		of(restartName, 11000, 32, Sample{Seconds: 2, CPU: cpu(1.1), Peak: 140 << 20, Resident: 130 << 20}),
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	writeTable(&out, measured())
	lines := strings.Split(out.String(), "\n")
	want := strings.Fields("converge 500 32 128 3 2 s 250.0 1 s 1.9 s 1.99 s 1000 2.00 1000 2.00 500 0.50 s 50 MiB 40 MiB")
	if diff := cmp.Diff(want, strings.Fields(lines[1])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, line := range lines[1:6] {
		if len(line) != len(lines[0]) {
			t.Errorf("the lines differ in length:\n%s", out.String())
		}
	}
}

func TestReports(t *testing.T) {
	fair := Result{Scenario: "fair", N: 5000, Connections: 8, Median: Sample{Edits: map[string]Percentiles{
		anotherNamespace: {P50: 0.1, P95: 0.2, P99: 0.3, Max: 0.4, Count: 190}, anotherCloud: {P50: 1, P95: 2, P99: 3, Max: 4, Count: 50},
	}}}
	blocked := Result{Scenario: blockedName, N: 500, Median: Sample{
		Seconds: 200, Calls: map[string]int{"GET ports": 100, "GET networks": 10}, Reads: map[string]int{"get networks": 20}, Wait: Percentiles{P50: 10, Max: 19, Count: 20},
	}}
	for _, tt := range []struct {
		what  string
		write func(io.Writer, []Result)
		want  string
	}{
		{"ratios of equal sizes and connections", writeRatios, `converge/raw, N = 500, 32 connections: 0.75 (since the first request that changes Neutron: 0.75)
`},
		{"edits, by namespace", writeEdits, `fair, N = 5000, 8 connections, edits in another-cloud: 50, p50 1 s, p95 2 s, p99 3 s, max 4 s
fair, N = 5000, 8 connections, edits in another-namespace: 190, p50 100 ms, p95 200 ms, p99 300 ms, max 400 ms
`},
		{"blocked deletions, by kind of request", writeBlocked, `blocked, N = 500, requests per second: 0.65
  Neutron, GET networks: 0.05
  Neutron, GET ports: 0.50
  Kubernetes, get networks: 0.10
blocked, N = 500, from the deletion of the last port until the Network is gone: 20, p50 10 s, max 19 s
`},
		{"growth, for each Network", writeGrowth, `restart, N = 1000 to 11000, per Network: 100.0 µs of CPU, 10.24 KiB resident at the end, 10.24 KiB at the peak
`},
	} {
		var out bytes.Buffer
		tt.write(&out, append(measured(), fair, blocked))
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}
