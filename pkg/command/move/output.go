// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// result is what has come of a Network, as the summary has it.
type result string

const (
	planned  result = "with changes"
	moved    result = "moved"
	unneeded result = "with nothing to move"
	failed   result = "with an error"
)

// handleAll handles the pairs, several at a time, and prints what comes of them in their order. It fails if it is interrupted.
func (m *mover) handleAll(ctx context.Context, pairs []pair, stdout io.Writer) ([]result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	texts, results, printed := make([]string, len(pairs)), make([]result, len(pairs)), 0
	workqueue.ParallelizeUntil(ctx, max(m.request.Workers, 1), len(pairs), func(i int) {
		text, result := m.handle(ctx, pairs[i])
		mu.Lock()
		defer mu.Unlock()
		texts[i], results[i] = text, result
		for ; printed < len(pairs) && results[printed] != ""; printed++ {
			if _, err := io.WriteString(stdout, texts[printed]); err != nil {
				stop(err)
				return
			}
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("not finished, run this again: %w", err)
	}
	return results, nil
}

// handle makes the changes for one Network with -yes, and returns what to print.
func (m *mover) handle(ctx context.Context, p pair) (text string, _ result) {
	lines, err := m.changes(ctx, p)
	if err == nil && m.request.Yes && len(lines) > 0 {
		err = m.move(ctx, p)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%s: error: %v\n", p, err), failed
	case p.handover.From.UID == "":
		return fmt.Sprintf("%s: nothing to move: nothing of cluster %s fits it\n", p, m.request.From), unneeded
	case len(lines) == 0:
		return fmt.Sprintf("%s: nothing to move: it has everything of %s\n", p, neutron.Printable(string(p.handover.From.UID))), unneeded
	}
	headline, result := networks.Count(len(lines), "change")+" to take over from", planned
	if m.request.Yes {
		headline, result = "moved from", moved
	}
	for i := range lines {
		lines[i] = fmt.Sprintf("  %d. %s\n", i+1, lines[i])
	}
	return fmt.Sprintf("%s: %s %s, found by %s\n%s", p, headline, neutron.Printable(string(p.handover.From.UID)), p.evidence, strings.Join(lines, "")), result
}

// changes describes what is left to do. Only for an import, Neutron is asked again: a list of each of many Networks takes long.
func (m *mover) changes(ctx context.Context, p pair) (lines []string, err error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case p.handover.From.UID == "":
		return nil, m.inventories[p.cloud].checkFound(p.Target)
	case isLocked(p.Network) && !p.isListed && !p.hasPart: // other credentials must not end the move
		return nil, fmt.Errorf("neither it nor %s has anything in cloud %s: do its credentials lead to the same project and region as when the move began? If what it takes over is gone, remove its annotation %s",
			neutron.Printable(string(p.handover.From.UID)), p.cloud.Name(), samplecrdv1.AnnotationMovingFrom)
	}
	observed, err := p.handover.Listed(m.inventories[p.cloud].owners)
	if p.handover.Import != "" {
		observed, err = m.observe(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	for _, step := range p.handover.Moves(observed) {
		lines = append(lines, step.String())
	}
	if isLocked(p.Network) {
		lines = append(lines, "annotation "+samplecrdv1.AnnotationMovingFrom+" removed")
	}
	if len(lines) == 0 {
		return nil, nil // it may be deleted with what it has
	}
	return lines, p.checkDeletion(p.Network, p.handover.IsBegun(observed))
}

// claim is what a Network takes over: all that an owner has in one place. It can have networks in several.
type claim struct {
	place neutron.Place
	owner neutron.Owner
}

func claimOf(cloud *neutron.Cloud, owner neutron.Owner) claim {
	place, _ := cloud.Client().Place() // its owners were listed
	return claim{place, owner}
}

// rest says what the old cluster has and no Network has claimed. isAgain means that after a move the old cluster has something that a
// Network has claimed, or fits now, or that this is not known: its controller still works, or a request of it has taken effect late.
func (m *mover) rest(ctx context.Context, pairs []pair, claims map[claim]result) (text string, isAgain bool) {
	for _, cloud := range m.clouds() {
		i := m.inventories[cloud]
		if m.request.Yes {
			var err error
			if i.owners, err = cloud.ListOwners(ctx, i.from, i.to); err != nil {
				text += fmt.Sprintf("error: what is left in cloud %s cannot be listed: %v\n", cloud.Name(), err)
				isAgain = true
				continue
			}
		}
		var unclaimed, again, late []types.UID
		fits := i.fitting(pairs, cloud)
		for owner := range i.owners {
			switch result := claims[claimOf(cloud, owner)]; {
			case owner.Cluster != i.from || result == failed:
			case result == "" && fits[owner]:
				late = append(late, owner.UID)
			case result == "":
				unclaimed = append(unclaimed, owner.UID)
			case m.request.Yes:
				again = append(again, owner.UID)
			}
		}
		if len(unclaimed) > 0 {
			text += fmt.Sprintf("None of these Networks takes over what cluster %s has in cloud %s:\n%s", i.from, cloud.Name(), i.describe(unclaimed))
		}
		if len(again) > 0 {
			text += fmt.Sprintf("error: cluster %s has in cloud %s again what was moved: its controller still works, or a request of it has taken effect late:\n%s", i.from, cloud.Name(), i.describe(again))
		}
		if len(late) > 0 {
			text += fmt.Sprintf("error: cluster %s has something new in cloud %s that these Networks take over: check that its controller is stopped, and run this again:\n%s", i.from, cloud.Name(), i.describe(late))
		}
		isAgain = isAgain || len(again) > 0 || len(late) > 0
	}
	return text, isAgain
}

// fitting returns the owners that fit a Network for which the old cluster had nothing when the command began.
func (i inventory) fitting(pairs []pair, cloud *neutron.Cloud) map[neutron.Owner]bool {
	found := map[neutron.Owner]bool{}
	for _, p := range pairs {
		if p.err != nil || p.handover.From.UID != "" {
			continue
		}
		// An error is that of the next run.
		if owner, _, _ := i.match(p.Target); claimOf(p.cloud, owner) == claimOf(cloud, owner) {
			found[owner] = true
		}
	}
	return found
}

// clouds returns the clouds of the Networks.
func (m *mover) clouds() []*neutron.Cloud {
	return slices.SortedFunc(maps.Keys(m.inventories), func(a, b *neutron.Cloud) int { return cmp.Compare(a.Name(), b.Name()) })
}

// checkMarks returns ErrNoMarks with the IDs that there are if the old cluster has nothing, and never had something of these Networks.
func (m *mover) checkMarks(pairs []pair) error {
	isKnown := func(p pair) bool { return p.err != nil || p.handover.From.UID != "" }
	if len(pairs) == 0 || slices.ContainsFunc(pairs, isKnown) {
		return nil
	}
	owners, names := map[string]int{}, []string{}
	for _, cloud := range m.clouds() {
		names = append(names, cloud.Name())
		for owner := range m.inventories[cloud].owners {
			owners[owner.Cluster]++
		}
	}
	if owners[m.request.From] > 0 {
		return nil
	}
	var others []string
	for cluster, n := range owners {
		others = append(others, fmt.Sprintf("%s (%s)", neutron.Printable(cluster), networks.Count(n, "Network")))
	}
	slices.Sort(others)
	return fmt.Errorf("-from-cluster-id=%s: %w in cloud %s; the IDs there are: %s",
		m.request.From, ErrNoMarks, strings.Join(names, ", "), cmp.Or(strings.Join(others, ", "), "none"))
}

// describe has a line for each owner of the old cluster.
func (i inventory) describe(uids []types.UID) string {
	slices.Sort(uids)
	var b strings.Builder
	for _, uid := range uids {
		fmt.Fprintf(&b, "  %s: %s\n", neutron.Printable(string(uid)), describe(i.owners[neutron.Owner{Cluster: i.from, UID: uid}]))
	}
	return b.String()
}

// describe says what an owner has in Neutron. It is nil if only subnets of another owner's network have its mark.
func describe(o *neutron.Observed) string {
	if o == nil {
		return "marks of subnets"
	}
	var parts []string
	for _, n := range o.Networks() {
		text := fmt.Sprintf("network %s %q", n.ID, n.Name)
		for _, s := range n.Subnets {
			text += " " + s.CIDR.String()
		}
		parts = append(parts, text)
	}
	for _, r := range o.Routers {
		parts = append(parts, fmt.Sprintf("router %s %q", r.ID, r.Name))
	}
	return strings.Join(parts, ", ")
}
