// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// Result is what became of a row of pings.
type Result struct {
	Sent, Lost int
	// Outage is the longest time in which every ping was lost. It is counted in pings, so that
	// answers that are read late, on a busy computer, are no outage.
	Outage time.Duration
}

// probeInterval is the time between the pings of a Probe.
const probeInterval = 10 * time.Millisecond

// Ping sends pings, and waits up to two seconds for the last answer. It returns an error unless
// there is an answer.
func (m *Machine) Ping(ctx context.Context, address string, count int) (Result, error) {
	const interval = 200 * time.Millisecond
	cmd := m.Command(ctx, "ping", "-n", "-c", strconv.Itoa(count), "-i", "0.2", "-W", "2", address)
	out, err := cmd.CombinedOutput()
	p, parseErr := parsePings(string(out))
	if parseErr != nil {
		return Result{}, fmt.Errorf("%s: ping %s: %w", m.Name, address, errors.Join(parseErr, err))
	}
	r := p.result(interval)
	if r.Lost == r.Sent {
		return r, fmt.Errorf("%s: ping %s: no answer to %d pings", m.Name, address, r.Sent)
	}
	return r, nil
}

// Probe is a row of pings in the background, one every 10 ms.
type Probe struct {
	cmd *exec.Cmd
	out stack.Log
}

// Probe starts to ping the address, and returns when the first answer has come. Stop ends it.
func (m *Machine) Probe(ctx context.Context, address string) (*Probe, error) {
	p := &Probe{cmd: m.Command(ctx, "ping", "-n", "-i", fmt.Sprint(probeInterval.Seconds()), address)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.out.WaitFor(ctx, " icmp_seq=1 "); err != nil {
		_, stopErr := p.Stop()
		return nil, fmt.Errorf("%s: ping %s: %w", m.Name, address, errors.Join(err, stopErr))
	}
	return p, nil
}

// Stop ends the pings, and returns what became of them.
func (p *Probe) Stop() (Result, error) {
	// ping prints its summary on SIGINT, also if it lost pings. What runs it ends with the signal.
	signalErr := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	err := p.cmd.Wait()
	sent, parseErr := parsePings(p.out.String())
	if parseErr != nil {
		return Result{}, errors.Join(parseErr, signalErr, err)
	}
	return sent.withoutPending().result(probeInterval), nil
}

var (
	answerLine  = regexp.MustCompile(`(?m)^[0-9]+ bytes from .* icmp_seq=([0-9]+) `)
	summaryLine = regexp.MustCompile(`(?m)^([0-9]+) packets transmitted, `)
)

// pings are how many pings were sent, and which of them were answered. The first one is 1.
type pings struct {
	sent     int
	answered map[int]bool
}

// parsePings reads the output of ping.
func parsePings(out string) (pings, error) {
	summary := summaryLine.FindStringSubmatch(out)
	if summary == nil {
		return pings{}, fmt.Errorf("ping has no summary: %s", strings.TrimSpace(out))
	}
	sent, err := strconv.Atoi(summary[1])
	if err != nil {
		return pings{}, err
	}
	p, last := pings{sent: sent, answered: map[int]bool{}}, 0
	for _, line := range answerLine.FindAllStringSubmatch(out, -1) {
		number, _ := strconv.Atoi(line[1]) // digits
		// ping's own numbers have 16 bits.
		for number+1<<15 < last {
			number += 1 << 16
		}
		p.answered[number], last = true, number
	}
	return p, nil
}

// maxPending is how many pings can be under way when ping ends: on a busy computer, an answer takes some time.
const maxPending = 20

// withoutPending leaves out the last pings if they have no answer: ping may have ended before the answers came.
func (p pings) withoutPending() pings {
	for n := 0; n < maxPending && p.sent > 0 && !p.answered[p.sent]; n++ {
		p.sent--
	}
	return p
}

// result counts the pings, which were sent at that interval.
func (p pings) result(interval time.Duration) Result {
	r, run, longest := Result{Sent: p.sent}, 0, 0
	for number := 1; number <= p.sent; number++ {
		if p.answered[number] {
			run = 0
			continue
		}
		r.Lost++
		run++
		longest = max(longest, run)
	}
	r.Outage = time.Duration(longest) * interval
	return r
}
