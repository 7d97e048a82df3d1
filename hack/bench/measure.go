// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measurement has the counts at the beginning of a run.
type measurement struct {
	*stand
	busy       float64
	began      time.Time
	calls      map[string]int
	kubernetes kubernetesCounts
	processes  map[string]process
	// profiled receives the result of the CPU profile; nil if there is none.
	profiled chan error
}

// begin waits until the machine is idle, and begins a run. c is nil if the controller does not
// run yet.
func (s *stand) begin(ctx context.Context, c *running) (m *measurement, err error) {
	m = &measurement{stand: s}
	if m.busy, err = settle(ctx, s.calmDown); err != nil {
		return nil, err
	}
	if m.calls, m.kubernetes, err = s.count(ctx, c); err != nil {
		return nil, err
	}
	if m.processes, err = family(s.controller); err != nil {
		return nil, err
	}
	s.cloud.reset()
	if c != nil {
		m.profile(ctx, c)
	}
	m.began = time.Now()
	return m, nil
}

// count returns the numbers of requests to Neutron and to Kubernetes until now.
func (s *stand) count(ctx context.Context, c *running) (calls map[string]int, kubernetes kubernetesCounts, err error) {
	switch {
	case !s.cloud.isReal():
		calls = s.cloud.calls.now()
	case c != nil:
		families, err := scrape(ctx, c.url)
		if err != nil {
			return nil, kubernetes, err
		}
		calls = neutronCalls(families)
	}
	if s.cluster != nil {
		kubernetes, err = countKubernetes(ctx, s.kube, s.counted)
	}
	return calls, kubernetes, err
}

// end waits until the controller is idle, because it may still record events, and returns the
// sample. ended is the time at which the last Network was done.
func (m *measurement) end(ctx context.Context, c *running, ended time.Time) (Sample, error) {
	sample := Sample{Busy: m.busy, Seconds: ended.Sub(m.began).Seconds(), CPU: map[string]float64{}}
	if first := m.cloud.firstChange.Load(); first != 0 {
		sample.WorkSeconds = ended.Sub(time.Unix(0, first)).Seconds()
	}
	var err error
	if c != nil {
		if err := m.endOf(ctx, c, &sample); err != nil {
			return sample, err
		}
	}
	calls, kubernetes, err := m.count(ctx, c)
	if err != nil {
		return sample, err
	}
	sample.Calls = since(m.calls, calls)
	sample.Writes = since(m.kubernetes.writes, kubernetes.writes)
	sample.Reads = since(m.kubernetes.reads, kubernetes.reads)
	sample.Events = since(m.kubernetes.events, kubernetes.events)
	processes, err := family(m.controller)
	for name, p := range processes {
		sample.CPU[name] = p.cpu
		if before := m.processes[name]; before.pid == p.pid {
			sample.CPU[name] -= before.cpu
		}
	}
	return sample, err
}

// endOf waits until the controller is idle, and adds its memory to the sample. It also waits
// for the profiles.
func (m *measurement) endOf(ctx context.Context, c *running, sample *Sample) error {
	if err := rest(ctx, c.pid); err != nil {
		return err
	}
	var err error
	if sample.Peak, sample.Resident, err = memory(c.pid); err != nil {
		return err
	}
	if m.profiled != nil {
		if err := <-m.profiled; err != nil {
			return err
		}
	}
	if m.profiles != nil && m.profiles.memory != "" {
		return fetch(ctx, c.url+"/debug/pprof/heap?gc=1", m.profiles.memory)
	}
	return nil
}

// profiles are the files for the profiles of one run; "" for no profile.
type profiles struct {
	cpu, memory string
	// length is the length of the CPU profile.
	length time.Duration
}

// profilesOf returns the files for a run that takes about length. Their names begin with what.
func (l *lab) profilesOf(what string, length time.Duration) *profiles {
	p := &profiles{length: length}
	if l.cpuProfile {
		p.cpu = filepath.Join(l.dir, what+"-cpu.pprof")
	}
	if l.memoryProfile {
		p.memory = filepath.Join(l.dir, what+"-memory.pprof")
	}
	return p
}

// top returns the head of the CPU profile, as go tool pprof prints it.
func (p *profiles) top(ctx context.Context) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=60", p.cpu).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w: %s", err, out)
	}
	return out, nil
}

// profile starts a CPU profile of the controller, if this run makes one.
func (m *measurement) profile(ctx context.Context, c *running) {
	if m.profiles == nil || m.profiles.cpu == "" {
		return
	}
	m.profiled = make(chan error, 1)
	seconds := max(1, math.Ceil(m.profiles.length.Seconds()))
	go func() {
		m.profiled <- fetch(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%.0f", c.url, seconds), m.profiles.cpu)
	}()
}

// fetch writes the answer to GET url to a file.
func fetch(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, content)
	}
	return os.WriteFile(file, content, 0o644)
}

// last returns the latest of these times.
func last(at map[string]time.Time) (latest time.Time) {
	for _, t := range at {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
