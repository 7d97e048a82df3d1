// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The names of scenarios that are used elsewhere.
const (
	convergeName = "converge"
	applyName    = "apply"
	rawName      = "raw"
	createName   = "create"
	writesName   = "writes"
	steadyName   = "steady"
	restartName  = "restart"
	blockedName  = "blocked"
	growName     = "grow"
	besideName   = "beside"
)

// scenario is something that is measured.
type scenario struct {
	name string
	// what describes it in the help.
	what string
	// n is the default number of Networks.
	n int
	// connections is the default number of connections; 0 means defaultConnections.
	connections int
	// fresh reports whether each run begins with an empty control plane and Neutron. Otherwise
	// all runs share a stand with n Networks that are Ready, and each begins with a new process
	// of the controller.
	fresh bool
	// with is what the stand of a fresh scenario has besides Neutron.
	with equipment
	// controller is the name of the controller in the scenario beside; "" in all others.
	controller string
	// named reports whether it runs only if it is named, because it takes minutes.
	named bool
	// observes reports whether it observes the requests to Neutron, so needs the embedded one.
	observes bool
	run      func(ctx context.Context, s *stand, n, connections int) (Sample, error)
}

// defaultConnections is the default number of connections of most scenarios.
const defaultConnections = 32

// scenarios are all scenarios except grow, in the order in which they run.
var scenarios = []*scenario{
	{name: convergeName, what: "N Networks exist and the controller starts: until all are Ready", n: 500, fresh: true, run: converge},
	{name: applyName, what: "the controller runs and 8 clients create N Networks: until all are Ready", n: 500, fresh: true, run: applyAll},
	{name: rawName, what: "a plain loop creates the same networks with as many connections, without Kubernetes: the limit of Neutron", n: 500, fresh: true, with: justNeutron, run: raw},
	{name: createName, what: "8 clients create N Networks as kubectl create does, without the controller: the limit of Kubernetes", n: 1000, fresh: true, named: true, run: createAll},
	{name: writesName, what: "a plain loop makes the same writes to Kubernetes except events, without Neutron: the limit of Kubernetes", n: 500, fresh: true, run: writes},
	{name: "react", what: "the controller is idle and N Networks are created, one after another: from the answer of Kubernetes to the first request to Neutron", n: 50, fresh: true, observes: true, run: react},
	{name: "fair", what: "converge, and meanwhile single Networks of another namespace and of another cloud are edited: until all N are Ready, and the times of the edits", n: 5000, connections: 8, fresh: true, observes: true, run: fair},
	{name: restartName, what: "N Networks are Ready and the controller starts: until it has synced each", n: 1000, run: restart},
	{name: steadyName, what: "N Networks are Ready: one relist of Neutron, as every -resync", n: 1000, observes: true, run: steady},
	{name: "edit", what: "the gateways of all N Networks change: until all are Ready again", n: 1000, run: edit},
	{name: "drift", what: "the gateways of 5 % of N are removed in Neutron: from the next relist until they are repaired", n: 1000, observes: true, run: drift},
	{name: "delete", what: "all N Networks are deleted: until they are gone from Kubernetes", n: 1000, run: deleteAll},
	{name: blockedName, what: "N Networks with a port each are being deleted: the requests per second while nothing changes, and the times from the deletion of a port until the Network is gone", n: 500, fresh: true, named: true, observes: true, run: blocked},
}

// grow has the sizes and scenarios that show how CPU and memory grow with the Networks.
var grow = []struct {
	n         int
	scenarios []string
}{
	{100, []string{restartName, steadyName}},
	{1_000, []string{restartName, steadyName}},
	{10_000, []string{restartName, steadyName}},
	{50_000, []string{restartName}},
}

func converge(ctx context.Context, s *stand, n, connections int) (Sample, error) {
	return convergeWithEdits(ctx, s, n, connections)
}

// convergeWithEdits measures converge while the Networks of other namespaces are edited.
func convergeWithEdits(ctx context.Context, s *stand, n, connections int, namespaces ...string) (sample Sample, err error) {
	if err := s.applyAll(ctx, 0, n, newMoments()); err != nil {
		return sample, err
	}
	m, err := s.begin(ctx, nil)
	if err != nil {
		return sample, err
	}
	s.await(n, func(network *samplecrdv1.Network) bool { return network.Namespace == namespace && isReady(network) })
	c, err := s.start(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	m.profile(ctx, c)
	at, edits, err := s.waitWithEdits(ctx, namespaces)
	if err != nil {
		return sample, err
	}
	sample, err = m.end(ctx, c, last(at))
	times := after(m.began, at)
	sample.Wait, sample.Curve, sample.Edits = percentiles(times), curve(times), edits
	return sample, err
}

// atWork starts a controller, and waits until it has synced all Networks and is idle.
func (s *stand) atWork(ctx context.Context, connections int) (*running, error) {
	c, err := s.start(ctx, connections)
	if err != nil {
		return nil, err
	}
	if err = c.Log.WaitFor(ctx, "Starting workers"); err == nil {
		err = c.waitUntilAllSynced(ctx, len(s.all()))
	}
	if err == nil {
		err = rest(ctx, c.pid)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// changeAll measures a change of all n Networks, made by do while the controller runs, until
// all fulfill the condition is, or are deleted if is is nil.
func changeAll(ctx context.Context, s *stand, n, connections int, do func(context.Context, *moments) error, is func(*samplecrdv1.Network) bool) (sample Sample, err error) {
	c, err := s.atWork(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	m, err := s.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	s.await(n, is)
	asked := newMoments()
	if err := do(ctx, asked); err != nil {
		return sample, err
	}
	at, err := s.wait(ctx)
	if err != nil {
		return sample, err
	}
	sample, err = m.end(ctx, c, last(at))
	sample.Wait, sample.Curve = percentiles(asked.until(at)), curve(after(m.began, at))
	return sample, err
}

func applyAll(ctx context.Context, s *stand, n, connections int) (Sample, error) {
	do := func(ctx context.Context, asked *moments) error { return s.applyAll(ctx, 0, n, asked) }
	return changeAll(ctx, s, n, connections, do, isReady)
}

func edit(ctx context.Context, s *stand, n, connections int) (Sample, error) {
	s.address++
	do := func(ctx context.Context, asked *moments) error { return s.editAll(ctx, s.address, asked) }
	return changeAll(ctx, s, n, connections, do, func(network *samplecrdv1.Network) bool {
		i, err := numberOf(network.Name)
		return err == nil && network.Spec.Gateway == gateway(i, s.address) && isReady(network)
	})
}

func deleteAll(ctx context.Context, s *stand, n, connections int) (Sample, error) {
	sample, err := changeAll(ctx, s, n, connections, s.deleteAll, nil)
	if err != nil {
		return sample, err
	}
	left, err := s.cloud.subnets(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d subnets are left in Neutron", len(left))
	}
	return sample, err
}

func raw(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	s.cloud.latency.Store(int64(s.latency))
	m, err := s.begin(ctx, nil)
	if err != nil {
		return sample, err
	}
	times, err := s.cloud.makeRaw(ctx, n, connections)
	if err != nil {
		return sample, err
	}
	points := curve(times)
	ended := m.began.Add(time.Duration(points[len(points)-1].X * float64(time.Second)))
	sample, err = m.end(ctx, nil, ended)
	sample.Curve = points
	return sample, err
}

func createAll(ctx context.Context, s *stand, n, _ int) (sample Sample, err error) {
	m, err := s.begin(ctx, nil)
	if err != nil {
		return sample, err
	}
	if err := s.applyAll(ctx, 0, n, newMoments()); err != nil {
		return sample, err
	}
	return m.end(ctx, nil, time.Now())
}

func writes(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	if err := s.applyAll(ctx, 0, n, newMoments()); err != nil {
		return sample, err
	}
	m, err := s.begin(ctx, nil)
	if err != nil {
		return sample, err
	}
	s.await(n, isReady)
	if err := s.writeRaw(ctx, s.workersFor(connections)); err != nil {
		return sample, err
	}
	at, err := s.wait(ctx)
	if err != nil {
		return sample, err
	}
	sample, err = m.end(ctx, nil, last(at))
	sample.Curve = curve(after(m.began, at))
	return sample, err
}

func react(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	c, err := s.atWork(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	m, err := s.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	var times []time.Duration
	for i := range n {
		s.cloud.reset()
		s.await(i+1, isReady)
		if err := s.apply(ctx, i); err != nil {
			return sample, err
		}
		answered := time.Now()
		came, err := waitFor(ctx, &s.cloud.firstChange)
		if err != nil {
			return sample, err
		}
		times = append(times, came.Sub(answered))
		if _, err := s.wait(ctx); err != nil {
			return sample, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil { // for the controller to record the event
			return sample, err
		}
	}
	ended := time.Now()
	s.cloud.reset()
	sample, err = m.end(ctx, c, ended)
	sample.Wait = percentiles(times)
	return sample, err
}

func restart(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	m, err := s.begin(ctx, nil)
	if err != nil {
		return sample, err
	}
	c, err := s.start(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	m.profile(ctx, c)
	if err := c.waitUntilAllSynced(ctx, n); err != nil {
		return sample, err
	}
	return m.end(ctx, c, time.Now())
}

// afterRelist waits for a relist of Neutron, and until the controller is idle again.
func (s *stand) afterRelist(ctx context.Context, c *running) error {
	s.cloud.reset()
	if _, err := waitFor(ctx, &s.cloud.first); err != nil {
		return err
	}
	return rest(ctx, c.pid)
}

func steady(ctx context.Context, s *stand, _, connections int) (sample Sample, err error) {
	c, err := s.atWork(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := s.afterRelist(ctx, c); err != nil {
		return sample, err
	}
	m, err := s.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	began, err := waitFor(ctx, &s.cloud.first)
	if err != nil {
		return sample, err
	}
	if err := rest(ctx, c.pid); err != nil {
		return sample, err
	}
	ended := time.Unix(0, s.cloud.last.Load())
	sample, err = m.end(ctx, c, ended)
	// ended is when the last request came in. Its answer takes the latency.
	sample.Seconds = (ended.Sub(began) + s.latency).Seconds()
	return sample, err
}

func drift(ctx context.Context, s *stand, n, connections int) (sample Sample, err error) {
	c, err := s.atWork(ctx, connections)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := s.afterRelist(ctx, c); err != nil {
		return sample, err
	}
	m, err := s.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	right, err := s.removeGateways(ctx, max(1, n/20))
	if err != nil {
		return sample, err
	}
	began, err := waitFor(ctx, &s.cloud.first)
	if err != nil {
		return sample, err
	}
	if err := s.waitUntilRepaired(ctx, m.calls, len(right)); err != nil {
		return sample, err
	}
	ended := time.Unix(0, s.cloud.last.Load())
	if sample, err = m.end(ctx, c, ended); err != nil {
		return sample, err
	}
	sample.Seconds = (ended.Sub(began) + s.latency).Seconds()
	return sample, s.checkGateways(ctx, right)
}

// removeGateways removes the gateways of k subnets, and returns the old ones by name.
func (s *stand) removeGateways(ctx context.Context, k int) (map[string]string, error) {
	all, err := s.cloud.subnets(ctx)
	if err != nil {
		return nil, err
	}
	right := map[string]string{}
	for name, subnet := range all {
		if len(right) == k {
			break
		}
		right[name] = subnet.GatewayIP
		if err := s.cloud.removeGateway(ctx, subnet); err != nil {
			return nil, err
		}
	}
	return right, nil
}

func (s *stand) waitUntilRepaired(ctx context.Context, before map[string]int, k int) error {
	const update = "PUT subnets/*"
	for s.cloud.calls.now()[update]-before[update] < k {
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("only %d of %d gateways were repaired: %w", s.cloud.calls.now()[update]-before[update], k, err)
		}
	}
	return nil
}

func (s *stand) checkGateways(ctx context.Context, right map[string]string) error {
	all, err := s.cloud.subnets(ctx)
	if err != nil {
		return err
	}
	for name, want := range right {
		if got := all[name].GatewayIP; got != want {
			return fmt.Errorf("the gateway of %s is %q, want %q", name, got, want)
		}
	}
	return nil
}
