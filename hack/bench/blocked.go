// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

const (
	// blockedFor is how long the requests are counted while the deletions are blocked.
	blockedFor = 3 * time.Minute
	// released is the number of Networks whose ports are deleted, one after another with
	// releasePause between them.
	released     = 20
	releasePause = 3700 * time.Millisecond
)

// blocked measures deletions that a port prevents: first the requests while nothing changes, then
// the time from the deletion of a port until its Network is gone.
func blocked(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	if err := s.prepare(ctx, n); err != nil {
		return sample, fmt.Errorf("prepare: %w", err)
	}
	c, err := s.atWork(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	portOf, err := s.block(ctx, c, n)
	if err != nil {
		return sample, err
	}
	m, err := s.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	if err := pause(ctx, blockedFor); err != nil {
		return sample, err
	}
	if sample, err = m.end(ctx, c, time.Now()); err != nil {
		return sample, err
	}
	times, err := s.release(ctx, portOf)
	sample.Wait = percentiles(times)
	return sample, err
}

// block creates a port on each network, deletes all n Networks, and waits until each reports that
// it is in use. It returns the IDs of the ports by the names of the Networks.
func (s *stand) block(ctx context.Context, c *running, n int) (map[string]string, error) {
	networks := s.all()
	portOf := map[string]string{}
	var mu sync.Mutex
	err := inParallel(ctx, appliers, len(networks), func(ctx context.Context, i int) error {
		port, err := ports.Create(ctx, s.cloud.Client, ports.CreateOpts{NetworkID: networks[i].Status.NetworkID, Name: networks[i].Name}).Extract()
		if err != nil {
			return fmt.Errorf("create port: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		portOf[networks[i].Name] = port.ID
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.await(n, isInUse)
	if err := s.deleteAll(ctx, newMoments()); err != nil {
		return nil, err
	}
	if _, err := s.wait(ctx); err != nil {
		return nil, err
	}
	return portOf, rest(ctx, c.pid)
}

// isInUse reports whether ports prevent the deletion of the Network.
func isInUse(network *samplecrdv1.Network) bool {
	return slices.ContainsFunc(network.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == samplecrdv1.ConditionReady && c.Reason == samplecrdv1.ReasonInUse
	})
}

// release deletes some of the ports, and returns how long after that each Network was gone.
func (s *stand) release(ctx context.Context, portOf map[string]string) ([]time.Duration, error) {
	names := slices.Sorted(maps.Keys(portOf))
	names = names[:min(released, len(names))]
	s.await(len(names), nil)
	asked := newMoments()
	for _, name := range names {
		if err := ports.Delete(ctx, s.cloud.Client, portOf[name]).ExtractErr(); err != nil {
			return nil, fmt.Errorf("delete port: %w", err)
		}
		asked.now(name)
		if err := pause(ctx, releasePause); err != nil {
			return nil, err
		}
	}
	at, err := s.wait(ctx)
	return asked.until(at), err
}

// writeBlocked prints the requests per second while deletions were blocked, and how long they
// took after the last port.
func writeBlocked(out io.Writer, results []Result) {
	for _, r := range results {
		if r.Scenario != blockedName || r.Median.Seconds == 0 {
			continue
		}
		m := r.Median
		fmt.Fprintf(out, "%s, N = %d, requests per second: %.2f\n", r.Scenario, r.N,
			float64(total(m.Calls)+total(m.Reads)+total(m.Writes)+total(m.Events))/m.Seconds)
		for _, counts := range []struct {
			to    string
			kinds map[string]int
		}{{"Neutron", m.Calls}, {"Kubernetes", m.Reads}, {"Kubernetes", m.Writes}, {"Kubernetes", m.Events}} {
			for _, kind := range slices.Sorted(maps.Keys(counts.kinds)) {
				fmt.Fprintf(out, "  %s, %s: %.2f\n", counts.to, kind, float64(counts.kinds[kind])/m.Seconds)
			}
		}
		fmt.Fprintf(out, "%s, N = %d, from the deletion of the last port until the Network is gone: %d, p50 %s, max %s\n",
			r.Scenario, r.N, m.Wait.Count, seconds(m.Wait.P50), seconds(m.Wait.Max))
	}
}
