// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Picture makes artifacts/monitoring/dashboard.svg: the dashboard's panels with the answers
// of a real Prometheus, after a run of the real controller with many faults. It takes about
// seven minutes. Run it in hack's module: go run ./monitoring/picture
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/monitoring"
)

var pause = flag.Duration("pause", 35*time.Second, "pause after each act")

func main() {
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "artifacts", "monitoring")
	dashboard, err := monitoring.ReadDashboard(filepath.Join(folder, "dashboard.json"))
	if err != nil {
		return err
	}
	programs, err := monitoring.Fetch(ctx)
	if err != nil {
		return err
	}
	scene, err := monitoring.StartScene(ctx, monitoring.SceneOptions{
		Programs: programs,
		Dir:      filepath.Join(root, "hack", "_output", "picture"),
		Every:    time.Second,
		Flags:    []string{"-resync=20s"},
	})
	defer func() { err = errors.Join(err, scene.Stop()) }()
	if err != nil {
		return err
	}
	d := &drawing{began: time.Now()}
	err = scene.Play(ctx, *pause, func(name string) {
		fmt.Println(name)
		d.moments = append(d.moments, moment{name, time.Since(d.began)})
	})
	if err != nil {
		return errors.Join(err, errors.New(scene.Logs()))
	}
	d.length = time.Since(d.began)
	for _, panel := range dashboard.Panels {
		lines, err := ask(ctx, scene.Prometheus, panel, d)
		if err != nil {
			return fmt.Errorf("%s: %w", panel.Title, err)
		}
		d.panel(panel, lines)
	}
	return os.WriteFile(filepath.Join(folder, "dashboard.svg"), d.svg(), 0o644)
}

const (
	// window is the interval of the rates.
	window = "10s"
	// points is the number of values of a line.
	points = 150
)

// line is a series: its values, indexed from left to right.
type line struct {
	name   string
	values map[int]float64
}

// top returns the largest value; 0 if none is positive.
func (l *line) top() (top float64) {
	for _, value := range l.values {
		if !math.IsNaN(value) {
			top = max(top, value)
		}
	}
	return top
}

// ask returns the lines of a panel, without those that are always 0.
func ask(ctx context.Context, prometheus *monitoring.Prometheus, panel monitoring.Panel, d *drawing) (lines []line, err error) {
	step := (d.length / points).Truncate(time.Millisecond)
	span := promv1.Range{Start: d.began, End: d.began.Add(d.length), Step: step}
	if panel.Type != monitoring.TypeTimeSeries { // these show only the current value
		span.Start = span.End
	}
	for _, target := range panel.Targets {
		result, _, err := prometheus.QueryRange(ctx, target.Query(window), span)
		if err != nil {
			return nil, err
		}
		for _, stream := range result.(model.Matrix) {
			l := line{name: target.Legend(stream.Metric), values: map[int]float64{}}
			if panel.Type == monitoring.TypeTable {
				l.name = row(stream.Metric)
			}
			for _, sample := range stream.Values {
				l.values[int(sample.Timestamp.Time().Sub(span.Start)/step)] = float64(sample.Value)
			}
			if panel.Type != monitoring.TypeTimeSeries || l.top() > 0 {
				lines = append(lines, l)
			}
		}
	}
	return lines, nil
}

// row returns a line of a table: the values of the labels, in the order of their names.
func row(metric model.Metric) string {
	var values []string
	for _, label := range slices.Sorted(maps.Keys(metric)) {
		values = append(values, string(metric[label]))
	}
	return strings.Join(values, "  ")
}
