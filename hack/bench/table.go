// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// writeTable prints the medians, one line per result.
func writeTable(out io.Writer, results []Result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scenario\tN\tconn.\tworkers\truns\ttime\tNetworks/s\tp50\tp95\tp99\tcalls\tper N\twrites\tper N\tevents\tCPU\tpeak\tat the end\t")
	for _, r := range results {
		m := r.Median
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%.1f\t%s\t%s\t%s\t%d\t%.2f\t%d\t%.2f\t%d\t%.2f s\t%s\t%s\t\n",
			r.Scenario, r.N, r.Connections, r.Workers, len(r.Runs), seconds(m.Seconds), r.rate(),
			seconds(m.Wait.P50), seconds(m.Wait.P95), seconds(m.Wait.P99),
			total(m.Calls), float64(total(m.Calls))/float64(r.N),
			total(m.Writes), float64(total(m.Writes))/float64(r.N),
			total(m.Events), m.CPU[controllerProcess], mebibytes(m.Peak), mebibytes(m.Resident))
	}
	w.Flush()
}

// seconds formats a time with three digits; "-" if it is 0.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

func mebibytes(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}

// writeRatios prints the controller's speed as a part of the limits, which are raw and writes.
func writeRatios(out io.Writer, results []Result) {
	for _, limit := range results {
		if limit.Scenario != rawName && limit.Scenario != writesName || limit.Median.Seconds == 0 {
			continue
		}
		for _, r := range results {
			if r.Scenario != convergeName && r.Scenario != applyName || r.N != limit.N || r.Connections != limit.Connections || r.Median.Seconds == 0 {
				continue
			}
			fmt.Fprintf(out, "%s/%s, N = %d, %d connections: %.2f", r.Scenario, limit.Scenario, r.N, r.Connections, limit.Median.Seconds/r.Median.Seconds)
			if limit.Median.WorkSeconds > 0 && r.Median.WorkSeconds > 0 {
				fmt.Fprintf(out, " (since the first request that changes Neutron: %.2f)", limit.Median.WorkSeconds/r.Median.WorkSeconds)
			}
			fmt.Fprintln(out)
		}
	}
}

// writeEdits prints the times of the single edits made while N Networks were waiting.
func writeEdits(out io.Writer, results []Result) {
	for _, r := range results {
		for _, namespace := range slices.Sorted(maps.Keys(r.Median.Edits)) {
			e := r.Median.Edits[namespace]
			fmt.Fprintf(out, "%s, N = %d, %d connections, edits in %s: %d, p50 %s, p95 %s, p99 %s, max %s\n",
				r.Scenario, r.N, r.Connections, namespace, e.Count, seconds(e.P50), seconds(e.P95), seconds(e.P99), seconds(e.Max))
		}
	}
}

// writeGrowth prints the CPU and memory of each additional Network, between the sizes of a
// scenario.
func writeGrowth(out io.Writer, results []Result) {
	for _, name := range []string{restartName, steadyName} {
		var before *Result
		for _, r := range results {
			if r.Scenario != name {
				continue
			}
			if before != nil && r.N > before.N {
				more := float64(r.N - before.N)
				fmt.Fprintf(out, "%s, N = %d to %d, per Network: %.1f µs of CPU, %.2f KiB resident at the end, %.2f KiB at the peak\n",
					name, before.N, r.N,
					(r.Median.CPU[controllerProcess]-before.Median.CPU[controllerProcess])/more*1e6,
					float64(r.Median.Resident-before.Median.Resident)/more/1024,
					float64(r.Median.Peak-before.Median.Peak)/more/1024)
			}
			before = &r
		}
	}
}

// writeCPU prints the CPU time of each process, which shows what the limit was.
func writeCPU(out io.Writer, results []Result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "CPU of\tN\ttime\t")
	for _, name := range processNames {
		fmt.Fprintf(w, "%s\t", name)
	}
	fmt.Fprintln(w, "busy before\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%s\t", r.Scenario, r.N, seconds(r.Median.Seconds))
		for _, name := range processNames {
			fmt.Fprintf(w, "%.2f s\t", r.Median.CPU[name])
		}
		fmt.Fprintf(w, "%.0f %%\t\n", 100*r.Median.Busy)
	}
	w.Flush()
}
