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

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// ownerTagPrefix begins the tag that marks an imported network.
const ownerTagPrefix = "samplecrd-owner-"

// legacy is a network that a user has created in Neutron by hand. Networks import it.
type legacy struct {
	// before has its fields as users have set them.
	before stack.Network
	// deleted means that a user has deleted it.
	deleted bool
	// othersMark means that its description is the mark of another cluster.
	othersMark bool
}

// pair has what two Networks share that import the same networks. One user works on both.
type pair struct {
	index    int
	networks []string
	// created is the number of CIDRs that were chosen for new subnets.
	created int
	// foreign are the tags that make a network look like another's import, and have to be removed.
	foreign []foreignTag
}

type foreignTag struct{ network, tag string }

// legacies has the networks that were created by hand, and the Networks that ever imported one.
type legacies struct {
	mu      sync.Mutex
	byID    map[string]*legacy
	subnets map[string]string // the ID of the network by that of the subnet
	// importers are by UID.
	importers map[types.UID]importer
	// shows is how often a controller has read a network alone.
	shows map[string]int
}

// importer is a Network that imports a network.
type importer struct{ namespace, name, network string }

// networksPerPair is how many other Networks there are for each pair of imports.
const networksPerPair = 6

// wantImports adds Networks that import networks to w.wanted, in pairs. It does not create them. The
// second one of half of the pairs is in the other cluster.
func (w *world) wantImports() {
	for i := range max(1, w.networks/networksPerPair) {
		p := &pair{index: i}
		for j, c := range []*controller{w.controllers[0], w.controllers[i%len(w.controllers)]} {
			w.wanted = append(w.wanted, &wanted{
				api:     w.client.SamplecrdV1().Networks(c.namespace),
				cluster: c.cluster, namespace: c.namespace, name: fmt.Sprintf("import-%d-%d", i, j), pair: p,
			})
		}
	}
}

// addLegacy creates a network by hand, for the pair.
func (w *world) addLegacy(ctx context.Context, r *rand.Rand, p *pair) error {
	l := &legacy{othersMark: r.IntN(12) == 0}
	description := []string{"", "made by hand", ownerPrefix + "without a UID", "team-a's"}[r.IntN(4)]
	if l.othersMark {
		description = ownerPrefix + "another/" + newUID(r)
	}
	network, err := networks.Create(ctx, w.neutron.Client, networks.CreateOpts{Name: fmt.Sprintf("legacy-%d", p.index), Description: description}).Extract()
	if err != nil {
		return fmt.Errorf("create a network by hand: %w", err)
	}
	if r.IntN(2) == 0 {
		if err := attributestags.Add(ctx, w.neutron.Client, "networks", network.ID, "by-hand").ExtractErr(); err != nil {
			return fmt.Errorf("tag a network: %w", err)
		}
	}
	for _, opts := range legacySubnets(r) {
		opts.NetworkID = network.ID
		if _, err := subnets.Create(ctx, w.neutron.Client, opts).Extract(); err != nil {
			return fmt.Errorf("create a subnet by hand: %w", err)
		}
	}
	if l.before, err = w.showAll(ctx, network.ID); err != nil {
		return fmt.Errorf("read a network that was created by hand: %w", err)
	}
	w.legacies.add(l)
	p.networks = append(p.networks, network.ID)
	w.tally.add("networks created by hand")
	w.tally.log("user: creates by hand %+v", l.before)
	return nil
}

// legacySubnets returns the subnets of a network that is created by hand. Users change the gateways to
// addresses that no pool has, unless Neutron chose the pools.
func legacySubnets(r *rand.Rand) []subnets.CreateOpts {
	all := []subnets.CreateOpts{
		{CIDR: "10.20.0.0/24", IPVersion: gophercloud.IPv4, Name: "by hand", Description: "theirs"},
		{CIDR: "fd20::/64", IPVersion: gophercloud.IPv6, Name: "by hand too", DNSNameservers: []string{"fd20::53"}},
	}
	for i := range all {
		if r.IntN(3) == 0 {
			all[i].EnableDHCP = new(false)
		}
	}
	if r.IntN(2) == 0 {
		all[0].AllocationPools = []subnets.AllocationPool{{Start: "10.20.0.100", End: "10.20.0.200"}}
	}
	return all
}

func newUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.Uint32())
}

// showAll returns all fields of a network and its subnets.
func (w *world) showAll(ctx context.Context, id string) (stack.Network, error) {
	network, err := networks.Get(ctx, w.neutron.Client, id).Extract()
	if err != nil {
		return stack.Network{}, err
	}
	pages, err := subnets.List(w.neutron.Client, subnets.ListOpts{NetworkID: id}).AllPages(ctx)
	if err != nil {
		return stack.Network{}, err
	}
	all, err := subnets.ExtractSubnets(pages)
	return stack.Network{Network: *network, Subnets: all}, err
}

func (s *legacies) add(l *legacy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID, s.subnets = map[string]*legacy{}, map[string]string{}
	}
	s.byID[l.before.ID] = l
	for _, subnet := range l.before.Subnets {
		s.subnets[subnet.ID] = l.before.ID
	}
}

// get returns the network that was created by hand with that ID; nil if there was none.
func (s *legacies) get(id string) *legacy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *legacies) has(id string) bool { return s.get(id) != nil }

// change changes what users know of a network.
func (s *legacies) change(id string, change func(*legacy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.byID[id])
}

// record records which network a Network imports.
func (s *legacies) record(n *wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.importers == nil {
		s.importers = map[types.UID]importer{}
	}
	s.importers[n.uid] = importer{n.namespace, n.name, n.last.Import.NetworkID}
}

func (s *legacies) importer(uid types.UID) (i importer, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known = s.importers[uid]
	return i, known
}

// importersOf returns the UIDs of the Networks that ever imported the network.
func (s *legacies) importersOf(network string) (uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, i := range s.importers {
		if i.network == network {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (s *legacies) shown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shows == nil {
		s.shows = map[string]int{}
	}
	s.shows[id]++
}

func (s *legacies) timesShown(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shows[id]
}

// ownersIn returns the UIDs in the tags.
func ownersIn(tags []string) (uids []types.UID) {
	for _, tag := range ownerTags(tags) {
		uids = append(uids, ownerIn(tag))
	}
	return uids
}

// ownerTags returns those of the tags that mark an imported network.
func ownerTags(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !strings.HasPrefix(tag, ownerTagPrefix) })
}

// ownerIn returns the UID in such a tag. Digits that stand for the cluster follow it.
func ownerIn(tag string) types.UID {
	uid := strings.TrimPrefix(tag, ownerTagPrefix)
	return types.UID(uid[:min(len(uid), len(uuid.Nil.String()))])
}

// importSpec returns the spec of a new Network of the pair. It mostly imports the network that the other
// one imports.
func (u *user) importSpec(ctx context.Context, p *pair) (samplecrdv1.NetworkSpec, error) {
	isGone := func(id string) bool {
		_, err := networks.Get(ctx, u.world.neutron.Client, id).Extract()
		return err != nil
	}
	last := len(p.networks) - 1
	if last < 0 || u.rand.IntN(8) == 0 || isGone(p.networks[last]) && u.rand.IntN(8) > 0 {
		if err := u.world.addLegacy(ctx, u.rand, p); err != nil {
			return samplecrdv1.NetworkSpec{}, err
		}
		last++
	}
	spec := samplecrdv1.NetworkSpec{Import: &samplecrdv1.ImportSpec{NetworkID: p.networks[last]}}
	if u.rand.IntN(3) == 0 {
		spec.ManagementPolicy = samplecrdv1.ManagementObserve
	}
	switch u.rand.IntN(6) {
	case 0:
		spec.DeletionPolicy = samplecrdv1.DeletionDelete
	case 1:
		spec.DeletionPolicy = samplecrdv1.DeletionRetain
	}
	for range u.rand.IntN(3) {
		spec = u.withOtherDeclaration(p, spec)
	}
	return spec, nil
}

// withOtherDeclaration returns the spec with another value of one of the fields of an imported network.
func (u *user) withOtherDeclaration(p *pair, spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	switch u.rand.IntN(6) {
	case 0:
		spec.Tags = [][]samplecrdv1.Tag{nil, {}, {"team-a"}, {"team-b", "team-a"}}[u.rand.IntN(4)]
	case 1:
		spec.AdditionalSubnets = nil
		if u.rand.IntN(3) > 0 {
			p.created++
			spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "more", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd21:%x::/64", p.created)}}}
		}
	case 2:
		if spec.CIDR != "" {
			inside := []samplecrdv1.IPAddress{"10.20.0.53", "10.20.0.54"}
			if is6(&spec) {
				inside = []samplecrdv1.IPAddress{"fd20::54", "fd20::55"}
			}
			spec.DNSNameservers = inside[:u.rand.IntN(3)]
		}
	case 3:
		spec.PortSecurityEnabled = []*bool{nil, new(true), new(false)}[u.rand.IntN(3)]
	default:
		spec = u.withOtherImportedSubnet(p, spec)
	}
	return spec
}

// withOtherImportedSubnet returns the spec with another CIDR or gateway: mostly those of a subnet that
// was created by hand.
func (u *user) withOtherImportedSubnet(p *pair, spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	spec.SubnetSpec = samplecrdv1.SubnetSpec{}
	switch u.rand.IntN(6) {
	case 0:
	case 1:
		p.created++
		spec.CIDR = fmt.Sprintf("10.%d.%d.0/24", 21+p.created/256, p.created%256)
	case 2, 3:
		spec.CIDR = []string{"10.20.0.0/24", "10.20.0.7/24"}[u.rand.IntN(2)]
		spec.Gateway = []string{"", "10.20.0.1", "10.20.0.2"}[u.rand.IntN(3)]
	default:
		spec.CIDR = "fd20::/64"
		spec.Gateway = []string{"", "fd20::1", "fd20::2"}[u.rand.IntN(3)]
	}
	return spec
}

// actOnPair makes some changes of the Networks of a pair: without a pause between them, so that the
// Networks race for the network.
func (u *user) actOnPair(ctx context.Context, p *pair) error {
	for _, n := range u.networks {
		if n.pair != p {
			continue
		}
		var err error
		switch {
		case n.spec == nil:
			err = cmp.Or(u.resume(ctx, n), u.create(ctx, n))
		case n.paused:
			err = u.resume(ctx, n)
		default:
			err = u.actOnImport(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// actOnImport makes one change of a Network that imports a network, or of that network.
func (u *user) actOnImport(ctx context.Context, n *wanted) error {
	var err error
	switch u.rand.IntN(14) {
	case 0:
		return u.delete(ctx, n)
	case 1, 2:
		return u.replace(ctx, n)
	case 3:
		return u.deleteWithOtherPolicy(ctx, n)
	case 4:
		return u.switchThenDelete(ctx, n)
	case 5, 6, 7:
		err = u.switchPolicy(ctx, n)
	case 8:
		return u.alarmOnImport(ctx, n)
	case 9, 10:
		u.waitAWhile(ctx, n)
		return u.tamperWithImport(ctx, n)
	default:
		err = u.edit(ctx, n, u.withOtherDeclaration(n.pair, *n.spec))
	}
	if err != nil || u.rand.IntN(2) == 0 {
		return err
	}
	u.waitAWhile(ctx, n)
	return ctx.Err()
}

// switchPolicy switches between Observe and Managed, perhaps there and back at once.
func (u *user) switchPolicy(ctx context.Context, n *wanted) error {
	for range 1 + u.rand.IntN(5)/4 {
		spec := *n.spec
		if isObserved(&spec) {
			spec.ManagementPolicy = []samplecrdv1.ManagementPolicy{"", samplecrdv1.ManagementManaged}[u.rand.IntN(2)]
			u.world.tally.add("imports switched to Managed")
		} else {
			spec.ManagementPolicy = samplecrdv1.ManagementObserve
			u.world.tally.add("imports switched to Observe")
		}
		if err := u.edit(ctx, n, spec); err != nil {
			return err
		}
	}
	return nil
}

func (u *user) switchThenDelete(ctx context.Context, n *wanted) error {
	if err := u.switchPolicy(ctx, n); err != nil {
		return err
	}
	u.wait(ctx, 300*time.Millisecond)
	return u.delete(ctx, n)
}

// alarmOnImport requests something and pauses the Network at once, or before. Later it resumes it.
func (u *user) alarmOnImport(ctx context.Context, n *wanted) error {
	do := []func() error{
		func() error { return u.pause(ctx, n) },
		func() error { return u.switchPolicy(ctx, n) },
	}
	if u.rand.IntN(2) == 0 {
		do[1] = func() error { return u.delete(ctx, n) }
	}
	if u.rand.IntN(3) > 0 {
		slices.Reverse(do)
	}
	for _, step := range do {
		if err := step(); err != nil {
			return err
		}
	}
	u.wait(ctx, 2*lateness)
	return u.resume(ctx, n)
}

// tamperWithImport changes the network that a Network imports, past the controller.
func (u *user) tamperWithImport(ctx context.Context, n *wanted) (err error) {
	client, id := u.world.neutron.Client, n.spec.Import.NetworkID
	network, err := networks.Get(ctx, client, id).Extract()
	if err != nil {
		return ctx.Err() // it is gone
	}
	what := "imported networks changed"
	switch action := u.rand.IntN(8); {
	case action < 2:
		err = u.describeAnew(ctx, n, id)
	case action < 5:
		what = "ownership tags removed"
		marks := ownerTags(network.Tags)
		if len(marks) == 0 {
			return nil
		}
		err = attributestags.Delete(ctx, client, "networks", id, marks[u.rand.IntN(len(marks))]).ExtractErr()
	case action < 7:
		what = "ownership tags of others added"
		tag := foreignTag{id, ownerTagPrefix + newUID(u.rand)}
		n.pair.foreign = append(n.pair.foreign, tag)
		err = attributestags.Add(ctx, client, "networks", id, tag.tag).ExtractErr()
	default:
		what = "imported networks deleted"
		if err = networks.Delete(ctx, client, id).ExtractErr(); err == nil {
			u.world.legacies.change(id, func(l *legacy) { l.deleted = true })
		}
	}
	if err == nil {
		u.world.tally.add(what + " by users")
	}
	u.world.tally.log("user: %s, network %s of %s/%s: %v", what, id, n.namespace, n.name, err)
	return ctx.Err()
}

// describeAnew changes the name and the description of an imported network.
func (u *user) describeAnew(ctx context.Context, n *wanted, id string) error {
	name, description := fmt.Sprintf("legacy-%d-%d", n.pair.index, u.rand.IntN(100)), fmt.Sprintf("described %d", u.rand.IntN(100))
	if u.world.legacies.get(id).othersMark {
		return nil
	}
	_, err := networks.Update(ctx, u.world.neutron.Client, id, networks.UpdateOpts{Name: &name, Description: &description}).Extract()
	if err == nil {
		u.world.legacies.change(id, func(l *legacy) { l.before.Name, l.before.Description = name, description })
	}
	return err
}

// tidyImport removes the tags that keep a network from its importers, as the documentation tells users
// to do: those of others, and those of Networks that are gone and have rightly left theirs.
func (u *user) tidyImport(ctx context.Context, n *wanted) {
	client := u.world.neutron.Client
	for _, f := range n.pair.foreign {
		_ = attributestags.Delete(ctx, client, "networks", f.network, f.tag).ExtractErr() // the network may be gone
	}
	n.pair.foreign = nil
	for _, id := range n.pair.networks {
		network, err := networks.Get(ctx, client, id).Extract()
		if err != nil {
			continue
		}
		for _, tag := range ownerTags(network.Tags) {
			if uid := ownerIn(tag); u.world.intents.mayLeaveTag(uid) {
				err := attributestags.Delete(ctx, client, "networks", id, tag).ExtractErr()
				u.world.tally.add("ownership tags of Networks that are gone removed by users")
				u.world.tally.log("user: removes the tag of %s from network %s: %v", uid, id, err)
			}
		}
	}
}

// isObserved reports whether the controller must not write to Neutron.
func isObserved(spec *samplecrdv1.NetworkSpec) bool {
	return spec.ManagementPolicy == samplecrdv1.ManagementObserve
}
