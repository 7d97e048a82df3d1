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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/typed/samplecrd/v1"
)

const (
	// clients is the number of users. Each works on Networks of its own, so that it knows
	// their latest specs.
	clients = 8
	// editsAfterwards is how many edits each user makes after the last kill.
	editsAfterwards = 5
)

// user is one of the clients.
type user struct {
	rand     *rand.Rand
	networks []*wanted
	world    *world
	// tours means that the user makes each kind of edit at least once.
	tours bool
}

// wanted is the state of one Network that its user wants. It changes only while its user, or a
// restore of etcd, has the users' lock.
type wanted struct {
	api       clientset.NetworkInterface
	cluster   string
	namespace string
	name      string
	spec      *samplecrdv1.NetworkSpec // nil: it is deleted
	last      samplecrdv1.NetworkSpec  // of the Network that is deleted
	paused    bool
	uid       types.UID
	// restores is the number of restores of etcd that have replaced all of this.
	restores int
	// routers are routers that it can attach to. Only one Network has them: others could have the
	// same CIDR.
	routers []external
	visits  []visit
	// pair is nil if the Network does not import its network.
	pair *pair
}

// owner returns the owner in the mark of the Network.
func (n *wanted) owner() string { return n.cluster + "/" + string(n.uid) }

// intentOf returns what the API server has of the Network, for controllers.
func (w *world) intentOf(n *wanted) intent {
	i := intent{
		paused: n.paused, deleted: n.spec == nil, retained: isRetained(&n.last),
		gateways: map[netip.Prefix]string{}, router: w.routerIntent(&n.last),
	}
	i.declareImport(&n.last)
	for _, s := range subnetsOf(&n.last) {
		i.gateways[netip.MustParsePrefix(s.CIDR).Masked()] = s.Gateway
	}
	return i
}

// subnetsOf returns all subnets that the spec declares. The first one has no name; an import may not
// have it.
func subnetsOf(spec *samplecrdv1.NetworkSpec) []samplecrdv1.AdditionalSubnet {
	if spec.CIDR == "" {
		return spec.AdditionalSubnets
	}
	return append([]samplecrdv1.AdditionalSubnet{{SubnetSpec: spec.SubnetSpec}}, spec.AdditionalSubnets...)
}

// work creates the Networks, and then changes them until enough reports true.
func (u *user) work(ctx context.Context, enough func() bool) error {
	for _, n := range u.networks {
		if err := u.create(ctx, n); err != nil && !errors.Is(err, errRestored) {
			return err
		}
	}
	for again := u.tours; again; {
		err := u.tour(ctx, u.networks[0])
		if again = errors.Is(err, errRestored); err != nil && !again {
			return err
		}
	}
	for done := 0; done < u.world.edits*len(u.networks) || !enough(); done++ {
		if err := u.act(ctx); err != nil && !errors.Is(err, errRestored) {
			return err
		}
	}
	for range editsAfterwards {
		if err := u.act(ctx); err != nil {
			return err
		}
	}
	for _, n := range u.networks {
		if n.pair != nil {
			u.tidyImport(ctx, n)
		} else {
			u.visit(ctx, n) // what the status says of it goes last
		}
		if err := errors.Join(u.leave(ctx, n), u.resume(ctx, n)); err != nil {
			return err
		}
	}
	return nil
}

// tour makes each kind of edit that a run must have, because chance alone does not in each run.
func (u *user) tour(ctx context.Context, n *wanted) error {
	if err := errors.Join(u.leave(ctx, n), u.resume(ctx, n)); err != nil {
		return err
	}
	if n.spec == nil { // a restore of etcd has taken it away
		if err := u.create(ctx, n); err != nil {
			return err
		}
	}
	router, err := u.world.addRouter(ctx, u.rand, n)
	if err != nil {
		return err
	}
	n.routers = append(n.routers, external{router.Name, router.ID})
	none := (*samplecrdv1.RouterSpec)(nil)
	own := &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{ID: u.world.externals[0].id}}
	existing := &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: router.ID}}
	for _, stop := range []struct {
		cidr, gateway string
		router        *samplecrdv1.RouterSpec
	}{
		{"10.0.0.0/24", "10.0.0.9", none},
		{"10.0.0.0/24", "10.0.0.9", own},
		{"10.0.0.0/24", "10.0.0.9", existing},
		{"10.1.0.0/24", "10.1.0.9", existing},
		{"10.1.0.0/24", "10.1.0.8", existing},
		{"10.1.0.0/24", "", none},
		{"fd00:1::/64", "fd00:1::8", none},
		{"fd00:1::/64", "fd00:1::9", none},
	} {
		if err := u.edit(ctx, n, samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: stop.cidr, Gateway: stop.gateway}, Router: stop.router}); err != nil {
			return err
		}
		u.waitAWhile(ctx, n)
	}
	return nil
}

// act makes one change, and then often waits for its effect.
func (u *user) act(ctx context.Context) error {
	n := u.networks[u.rand.IntN(len(u.networks))]
	// There are few pairs, and much can happen to each.
	if at := slices.IndexFunc(u.networks, func(n *wanted) bool { return n.pair != nil }); at >= 0 && u.rand.IntN(2) == 0 {
		if err := u.actOnPair(ctx, u.networks[at+u.rand.IntN(len(u.networks)-at)].pair); err != nil {
			return err
		}
	}
	if u.rand.IntN(2) == 0 {
		if err := u.leave(ctx, n); err != nil {
			return err
		}
		if n.pair != nil {
			u.tidyImport(ctx, n)
		}
	}
	if n.paused && (n.spec == nil || u.rand.IntN(2) == 0) {
		return u.resume(ctx, n)
	}
	if n.spec == nil {
		return u.create(ctx, n)
	}
	if n.pair != nil {
		return u.actOnImport(ctx, n)
	}
	var err error
	switch u.rand.IntN(12) {
	case 0:
		return u.changeMind(ctx, n)
	case 1:
		return u.alarm(ctx, n)
	case 2, 3:
		if n.spec.Router != nil {
			u.waitAWhile(ctx, n)
			u.tamper(ctx, n)
		}
	case 4:
		u.waitAWhile(ctx, n)
		u.visit(ctx, n)
		return ctx.Err()
	default:
		err = u.change(ctx, n)
	}
	if err != nil || u.rand.IntN(2) == 0 {
		return err
	}
	u.waitAWhile(ctx, n)
	return ctx.Err()
}

// changeMind deletes the Network, creates it again, and deletes it while the controller
// still works on it.
func (u *user) changeMind(ctx context.Context, n *wanted) error {
	if err := u.replace(ctx, n); err != nil {
		return err
	}
	u.wait(ctx, 300*time.Millisecond)
	u.world.tally.add("Networks deleted soon after")
	return u.delete(ctx, n)
}

// replace deletes the Network and creates it again.
func (u *user) replace(ctx context.Context, n *wanted) error {
	if err := u.delete(ctx, n); err != nil {
		return err
	}
	if err := u.resume(ctx, n); err != nil {
		return err
	}
	return u.create(ctx, n)
}

// alarm requests something that cannot be undone, and then pauses the Network at once, or
// before. Later it takes back the request, or resumes the Network.
func (u *user) alarm(ctx context.Context, n *wanted) error {
	first := u.rand.IntN(4) == 0
	if first {
		if err := u.pause(ctx, n); err != nil {
			return err
		}
	}
	before := n.last
	var err error
	switch u.rand.IntN(4) {
	case 0, 1:
		err = u.delete(ctx, n)
	case 2:
		err = u.edit(ctx, n, u.withOtherCIDR(*n.spec))
	case 3:
		err = u.editRouter(ctx, n, *n.spec)
	}
	if err == nil && !first {
		err = u.pause(ctx, n)
	}
	if err != nil || u.rand.IntN(3) == 0 {
		return err // it stays paused for longer
	}
	u.wait(ctx, 2*lateness)
	if n.spec != nil && u.rand.IntN(3) == 0 {
		u.world.tally.add("changes of a CIDR taken back while paused")
		if err := u.edit(ctx, n, before); err != nil {
			return err
		}
	}
	return u.resume(ctx, n)
}

func (u *user) change(ctx context.Context, n *wanted) error {
	spec := *n.spec
	switch u.rand.IntN(18) {
	case 0:
		return u.delete(ctx, n)
	case 1, 2:
		u.world.tally.add("Networks created again with the same name")
		return u.replace(ctx, n)
	case 3:
		return u.editRouter(ctx, n, randomSpec(u.rand))
	case 4, 5: // the router stays
		return u.edit(ctx, n, u.withOtherCIDR(spec))
	case 12, 13, 14:
		return u.editRouter(ctx, n, spec)
	case 15, 16, 17:
		return u.edit(ctx, n, withOtherFields(u.rand, spec))
	case 6:
		return u.edit(ctx, n, withOtherHostBits(u.rand, *n.spec))
	case 7:
		return u.deleteWithOtherPolicy(ctx, n)
	}
	spec.Gateway = randomGateway(u.rand, spec.CIDR)
	return u.edit(ctx, n, consistent(spec))
}

// editRouter changes the spec to that one with another router.
func (u *user) editRouter(ctx context.Context, n *wanted, spec samplecrdv1.NetworkSpec) error {
	spec, err := u.withOtherRouter(ctx, n, spec)
	if err != nil {
		return err
	}
	return u.edit(ctx, n, spec)
}

// withOtherFields returns the spec with another value of one of the fields that are no address of the
// network.
func withOtherFields(r *rand.Rand, spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	first := netip.MustParsePrefix(spec.CIDR).Masked().Addr().As16()
	inside := func(last byte) samplecrdv1.IPAddress {
		first[15] = last
		return samplecrdv1.IPAddress(netip.AddrFrom16(first).Unmap().String())
	}
	switch r.IntN(4) {
	case 0:
		spec.DNSNameservers = [][]samplecrdv1.IPAddress{nil, {inside(253)}, {inside(254), inside(253)}}[r.IntN(3)]
	case 1: // no gateway is there: see addressIn
		spec.AllocationPools = [][]samplecrdv1.AllocationPool{nil, {{Start: inside(251), End: inside(252)}, {Start: inside(254), End: inside(254)}}}[r.IntN(2)]
	case 2:
		spec.Tags = [][]samplecrdv1.Tag{nil, {}, {"team-a"}, {"team-b", "team-a"}}[r.IntN(4)]
	case 3:
		spec.AdditionalSubnets = nil
		if r.IntN(3) > 0 {
			cidr := fmt.Sprintf("fd0a:%d::/64", r.IntN(2))
			slaac := &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
			spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, IPv6: slaac}}}
		}
	}
	return spec
}

// deleteWithOtherPolicy changes the deletion policy, once or twice, and then deletes the
// Network at once.
func (u *user) deleteWithOtherPolicy(ctx context.Context, n *wanted) error {
	u.world.tally.add("deletion policies changed before a deletion")
	for range 1 + u.rand.IntN(2) {
		spec := n.last
		if isRetained(&spec) { // written out: the default depends on the import
			spec.DeletionPolicy = samplecrdv1.DeletionDelete
		} else {
			spec.DeletionPolicy = samplecrdv1.DeletionRetain
		}
		if err := u.edit(ctx, n, spec); err != nil {
			return err
		}
	}
	return u.delete(ctx, n)
}

// wait waits for a part of that time.
func (u *user) wait(ctx context.Context, atMost time.Duration) {
	select {
	case <-time.After(time.Duration(u.rand.Int64N(int64(atMost)))):
	case <-ctx.Done():
	}
}

// persist sends a request until it succeeds: the API server may be down, and an edit may
// conflict with a write of the controller. Then it calls done, and records what the user wants
// now. It fails with errRestored if etcd was restored meanwhile.
func (u *user) persist(ctx context.Context, n *wanted, what string, send func(context.Context) error, done func()) error {
	began, restores := time.Now(), n.restores
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		u.world.users.RLock()
		defer u.world.users.RUnlock()
		if n.restores != restores {
			return false, errRestored
		}
		last = send(ctx)
		if apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return false, last
		}
		if last == nil {
			done()
			u.asked(n, what, began)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, n.name, errors.Join(err, last))
	}
	return nil
}

// errRestored ends what a user is doing when etcd was restored meanwhile.
var errRestored = errors.New("etcd was restored")

// asked records what the API server has of the Network since a request that began then.
func (u *user) asked(n *wanted, what string, began time.Time) {
	if n.spec != nil {
		n.last = *n.spec
	}
	i := u.world.intentOf(n)
	i.sent, i.answered = began, time.Now()
	u.world.intents.add(n.uid, i)
	if n.pair != nil {
		u.world.legacies.record(n)
		what += " that import a network"
	}
	u.world.tally.add("Networks " + what)
	u.world.tally.log("user %s %s/%s, %s: %s", what, n.namespace, n.name, n.uid, i)
}

// errDeleting is the result of a creation while an older Network of that name still exists.
var errDeleting = errors.New("it is being deleted")

func (u *user) create(ctx context.Context, n *wanted) error {
	n.routers = nil
	if err := u.leave(ctx, n); err != nil {
		return err // otherwise the one before could wait for ever
	}
	if n.pair != nil {
		u.tidyImport(ctx, n) // for the same reason
	}
	spec, err := u.newSpec(ctx, n)
	if err != nil {
		return err
	}
	network := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{clusterLabel: n.namespace}}, Spec: spec}
	var made *samplecrdv1.Network
	err = u.persist(ctx, n, "created", func(ctx context.Context) (err error) {
		made, err = n.api.Create(ctx, network, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			// It is still being deleted, or was created by a request whose answer was lost.
			made, err = n.api.Get(ctx, n.name, metav1.GetOptions{})
		}
		if err == nil && !made.DeletionTimestamp.IsZero() {
			err = errDeleting
		}
		return err
	}, func() { n.uid, n.spec, n.paused = made.UID, &spec, false })
	if err == nil && n.pair == nil && u.rand.IntN(4) == 0 {
		return u.world.addStranger(ctx, u.rand, n)
	}
	return err
}

// newSpec returns the spec of a new Network.
func (u *user) newSpec(ctx context.Context, n *wanted) (samplecrdv1.NetworkSpec, error) {
	if n.pair != nil {
		return u.importSpec(ctx, n.pair)
	}
	return u.withOtherRouter(ctx, n, withOtherFields(u.rand, randomSpec(u.rand)))
}

func (u *user) edit(ctx context.Context, n *wanted, spec samplecrdv1.NetworkSpec) error {
	if n.pair == nil {
		u.countEdit(&n.last, &spec)
	}
	return u.persist(ctx, n, "edited", func(ctx context.Context) error {
		network, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		network.Spec = spec
		_, err = n.api.Update(ctx, network, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			u.world.tally.add("conflicting edits")
		}
		return err
	}, func() { n.spec = &spec })
}

// countEdit counts the kinds of edit that a run must have.
func (u *user) countEdit(before, now *samplecrdv1.NetworkSpec) {
	if before.Gateway != "" && now.Gateway == "" {
		u.world.tally.add("gateways taken away")
	}
	if is6(before) != is6(now) {
		u.world.tally.add("changes between IPv4 and IPv6")
	}
	if is6(now) && before.Gateway != now.Gateway {
		u.world.tally.add("changes of an IPv6 gateway")
	}
	was, will := u.world.routerIntent(before), u.world.routerIntent(now)
	none := routerIntent{}
	switch {
	case was == will && was == none:
	case was == none:
		u.world.tally.add("routers added")
	case will == none:
		u.world.tally.add("routers removed")
	case was != will:
		u.world.tally.add("moves to another router")
	case before.CIDR != now.CIDR:
		u.world.tally.add("CIDRs changed while attached")
	case before.Gateway != now.Gateway:
		u.world.tally.add("gateways changed while attached")
	}
}

func is6(spec *samplecrdv1.NetworkSpec) bool { return netip.MustParsePrefix(spec.CIDR).Addr().Is6() }

// delete deletes the Network. The API server deletes it at once if it read it before it stored the
// finalizer, although it has answered the request with the finalizer (Store.Delete in
// k8s.io/apiserver/pkg/registry/generic/registry).
func (u *user) delete(ctx context.Context, n *wanted) error {
	return u.persist(ctx, n, "deleted", func(ctx context.Context) error {
		before, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
		if err == nil && !slices.Contains(before.Finalizers, samplecrdv1.Finalizer) {
			u.world.intents.unguard(n.uid)
		}
		err = n.api.Delete(ctx, n.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.uid}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return err
	}, func() { n.spec = nil })
}

// pause pauses the Network, if it still exists.
func (u *user) pause(ctx context.Context, n *wanted) error {
	return u.annotate(ctx, n, "paused", "true")
}

func (u *user) resume(ctx context.Context, n *wanted) error {
	if !n.paused {
		return nil
	}
	return u.annotate(ctx, n, "resumed", nil)
}

func (u *user) annotate(ctx context.Context, n *wanted, what string, value any) error {
	var exists bool
	return u.persist(ctx, n, what, func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": n.uid, "annotations": map[string]any{samplecrdv1.AnnotationPaused: value},
		}})
		if err != nil {
			return err
		}
		_, err = n.api.Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{})
		exists = err == nil
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return err
	}, func() { n.paused = exists && value != nil })
}

// waitAWhile waits until the Network is ready, but not for long: some edits should find a
// Network that is ready, and others one that is not.
func (u *user) waitAWhile(ctx context.Context, n *wanted) {
	if n.spec == nil || n.paused {
		return
	}
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		network, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
		return err == nil && isReady(network), nil
	})
}

// randomSpec returns a spec with one of few CIDRs, so that many edits are to a CIDR that
// overlaps with the one before, or differs only in bits beyond the prefix.
func randomSpec(r *rand.Rand) samplecrdv1.NetworkSpec {
	cidr := fmt.Sprintf("10.%d.0.0/%d", r.IntN(3), []int{16, 20, 24}[r.IntN(3)])
	if r.IntN(3) == 0 {
		cidr = fmt.Sprintf("fd00:%d::/%d", r.IntN(3), []int{64, 96, 120}[r.IntN(3)])
	}
	spec := samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: randomGateway(r, cidr)}}
	if r.IntN(8) == 0 {
		spec.DeletionPolicy = samplecrdv1.DeletionRetain
	}
	if r.IntN(3) == 0 {
		return withOtherHostBits(r, spec)
	}
	return spec
}

// withOtherCIDR returns the spec with a CIDR for which the subnet must be replaced.
func (u *user) withOtherCIDR(spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	for {
		other := randomSpec(u.rand)
		if netip.MustParsePrefix(other.CIDR).Masked() != netip.MustParsePrefix(spec.CIDR).Masked() {
			other.DeletionPolicy, other.Router, other.Tags, other.AdditionalSubnets = spec.DeletionPolicy, spec.Router, spec.Tags, spec.AdditionalSubnets
			return consistent(other)
		}
	}
}

func randomGateway(r *rand.Rand, cidr string) string {
	address := addressIn(r, cidr)
	switch r.IntN(5) {
	case 0:
		return ""
	case 1:
		return samplecrdv1.GatewayNone
	case 2:
		if address.Is6() { // one of its other spellings
			return strings.ToUpper(address.StringExpanded())
		}
	}
	return address.String()
}

// addressIn returns one of the first addresses, but not the network's own address.
func addressIn(r *rand.Rand, cidr string) netip.Addr {
	address := netip.MustParsePrefix(cidr).Masked().Addr()
	for range 1 + r.IntN(250) {
		address = address.Next()
	}
	return address
}

func withOtherHostBits(r *rand.Rand, spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	spec.CIDR = netip.PrefixFrom(addressIn(r, spec.CIDR), netip.MustParsePrefix(spec.CIDR).Bits()).String()
	return spec
}

// strangers has the networks of other clients, by ID, with all fields as they were at first.
type strangers struct {
	mu     sync.Mutex
	before map[string]stack.Network
}

// addStranger creates a network that is similar to the Network's.
func (w *world) addStranger(ctx context.Context, r *rand.Rand, n *wanted) error {
	owner := func(cluster string) string { return "samplecrd.k8s.io/owner=" + cluster + "/" + string(n.uid) }
	descriptions := []string{
		"",
		"made by hand",
		owner("another"),
		owner(n.cluster + "x"),
		"SAMPLECRD.K8S.IO/OWNER=" + n.cluster + "/" + string(n.uid),
		owner(n.cluster) + " (copied)",
		"samplecrd.k8s.io/owner=" + n.cluster,
	}
	description := descriptions[r.IntN(len(descriptions))]
	network, err := networks.Create(ctx, w.neutron.Client, networks.CreateOpts{Name: n.namespace + "/" + n.name, Description: description}).Extract()
	if err != nil {
		return fmt.Errorf("create a stranger's network: %w", err)
	}
	subnet, err := subnets.Create(ctx, w.neutron.Client, subnets.CreateOpts{
		NetworkID: network.ID, Description: description, CIDR: "10.0.0.0/24", IPVersion: gophercloud.IPv4,
	}).Extract()
	if err != nil {
		return fmt.Errorf("create a stranger's subnet: %w", err)
	}
	before, err := w.show(ctx, network.ID, subnet.ID)
	if err != nil {
		return fmt.Errorf("read a stranger's network: %w", err)
	}
	w.strangers.mu.Lock()
	defer w.strangers.mu.Unlock()
	w.strangers.before[network.ID] = before
	w.tally.add("strangers' networks")
	return nil
}

// show returns all fields of a network and its subnet, with their revisions.
func (w *world) show(ctx context.Context, networkID, subnetID string) (stack.Network, error) {
	network, err := networks.Get(ctx, w.neutron.Client, networkID).Extract()
	if err != nil {
		return stack.Network{}, err
	}
	subnet, err := subnets.Get(ctx, w.neutron.Client, subnetID).Extract()
	if err != nil {
		return stack.Network{}, err
	}
	return stack.Network{Network: *network, Subnets: []subnets.Subnet{*subnet}}, nil
}
