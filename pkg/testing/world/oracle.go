/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package world

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

// Protect makes Check fail if one of these networks in Neutron changes from now on.
func (w *World) Protect(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.protected[id] = w.describe(id)
	}
}

// describe returns everything that Neutron shows of the network, its revision too.
func (w *World) describe(id string) string {
	w.t.Helper()
	defer w.TakeJournal()
	n, err := networks.Get(context.Background(), w.Client, id).Extract()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", *n)
}

// CreateProtected creates and protects networks in Neutron that look like the Network's, except
// that one has no mark and one has another cluster's. It returns the ID of the one without a
// mark.
func (w *World) CreateProtected() (unmarked string) {
	w.t.Helper()
	unmarked = w.CreateInNeutron("default/net-a", "", "10.0.0.0/24")
	w.Protect(unmarked, w.CreateInNeutron("default/net-a", neutron.Owner{Cluster: "another", UID: UID}.Mark(), "10.0.0.0/24"))
	return unmarked
}

// Check compares both sides after a controller has done all its work, and returns what is wrong.
// The Network must have this spec; nil: there must be no Network, and nothing of it in Neutron. left
// are networks that must be there without any mark, such as "unmarked: 10.0.0.0/24 10.0.0.1".
func (w *World) Check(want *samplecrdv1.NetworkSpec, left ...string) (violations []string) {
	w.t.Helper()
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	for id, before := range w.protected {
		if diff := gocmp.Diff(before, w.describe(id)); diff != "" {
			violate("a network of another owner was changed (-before +after):\n%s", diff)
		}
	}
	n := w.Find()
	switch {
	case want == nil && n != nil:
		violate("the Network is still there: %+v", n)
	case want != nil && n == nil:
		violate("the Network is gone")
	}
	wantOwned := slices.Clone(left)
	if want != nil && n != nil {
		cidr, gateway := subnet(want)
		wantOwned = append(wantOwned, fmt.Sprintf("%s of %s: %s %s", n.Status.NetworkID, n.UID, cidr, gateway))
	}
	slices.Sort(wantOwned)
	if diff := gocmp.Diff(wantOwned, w.Owned(), cmpopts.EquateEmpty()); diff != "" {
		violate("in Neutron (-want +got):\n%s", diff)
	}
	if want == nil || n == nil {
		return violations
	}
	cidr, gateway := subnet(want)
	if !status.IsAvailable(n) || n.Status.CIDR != cidr || n.Status.Gateway != gateway || n.Status.ObservedGeneration != n.Generation || !live.HasFinalizer(n) {
		violate("the Network: %+v", n)
	}
	return violations
}

// CheckRestored is Check for an API server that was restored from a backup. restored is the Network
// of the backup, or nil; before is what Owned returned then. Networks of owners that the backup
// does not have are orphans, which stay.
func (w *World) CheckRestored(restored *samplecrdv1.Network, before []string) (violations []string) {
	w.t.Helper()
	if restored == nil {
		return w.Check(nil, before...)
	}
	var others []string
	isLeft := restored.DeletionTimestamp != nil && restored.IsRetained()
	for _, line := range before {
		id, subnets, _ := strings.Cut(line, ":")
		if !strings.HasSuffix(id, string(restored.UID)) {
			others = append(others, line)
		} else if isLeft {
			others = append(others, "unmarked:"+subnets)
		}
	}
	if restored.DeletionTimestamp != nil {
		return w.Check(nil, others...)
	}
	return w.Check(&restored.Spec, others...)
}

// subnet returns the CIDR and the gateway that the spec leads to. The embedded Neutron chooses the
// first address of an IPv6 subnet as its gateway.
func subnet(spec *samplecrdv1.NetworkSpec) (cidr, gateway string) {
	prefix := netip.MustParsePrefix(spec.CIDR).Masked()
	first := prefix.Addr()
	if first.Is4() {
		first = first.Next()
	}
	return prefix.String(), cmp.Or(spec.Gateway, first.String())
}

// Owned returns a line for each network in Neutron that is not protected.
func (w *World) Owned() (lines []string) {
	w.t.Helper()
	defer w.TakeJournal()
	for _, n := range w.listNetworks() {
		if _, isProtected := w.protected[n.ID]; isProtected {
			continue
		}
		line := "unmarked:"
		if owner, marked := neutron.OwnerOf(n.Description); marked && owner.Cluster == Cluster {
			line = fmt.Sprintf("%s of %s:", n.ID, owner.UID)
		} else if slices.ContainsFunc(n.Subnets, w.isMarked) {
			line = n.ID + " unmarked, with a marked subnet:"
		}
		lines = append(lines, line+w.describeSubnets(n))
	}
	slices.Sort(lines)
	return lines
}

func (w *World) isMarked(subnet string) bool {
	_, marked := neutron.OwnerOf(w.getSubnet(subnet).Description)
	return marked
}
