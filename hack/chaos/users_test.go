// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// user creates, edits and deletes some of the Networks.
type user struct {
	world *world
	rand  *rand.Rand
	slots []*slot
}

// slot is the name of a Network.
type slot struct {
	name string
	// legacy is the ID of the network that the Network imports; "" if the controller creates one.
	legacy string
	// cidr is that of the imported network.
	cidr string
	// first is the number in the addresses of the first Network that is created, and step leads to the next one. made is how many were
	// created.
	first, step, made int
}

// maxBlock is the highest number in the addresses of a Network.
const maxBlock = 200

// nextBlock returns the number in the addresses of the next Network. Another slot never has it: what stays of a Network, such as a
// router that its subnets are attached to, is in nobody else's way. It is not 0: with it, IPv6 addresses would be written otherwise.
func (s *slot) nextBlock() int { return s.first + s.step*(s.made%max(1, maxBlock/s.step)) }

// act is what a user does with a Network that exists.
type act struct {
	name string
	do   func(context.Context, *user, *slot) error
	// isOnImport means that the Network imports its network. isLasting means that a restore of etcd to a moment before would leave
	// something that users would have to tidy up: a network that was given up, or that is shared.
	isOnImport, isLasting bool
}

// acts are what users do with Networks whose networks the controller creates. Each user does all of them, one after the
// other, again and again.
var acts = []act{
	{name: "changes the gateway", do: edit(func(u *user, n *samplecrdv1.Network) { u.withGateway(n, 8+u.rand.IntN(2)) })},
	{name: "leaves out the gateway", do: edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.Gateway = "" })},
	{name: "wants no gateway", do: edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.Router, n.Spec.Gateway = nil, samplecrdv1.GatewayNone })},
	{name: "grows or shrinks the CIDR", do: edit(func(u *user, n *samplecrdv1.Network) { u.withCIDR(n, "10.%d.0.0/20", "10.%d.0.0/25") })},
	{name: "moves to another CIDR", do: edit(func(u *user, n *samplecrdv1.Network) { u.withCIDR(n, "10.%d.16.0/24", "10.%d.32.0/24") })},
	{name: "moves to IPv6", do: edit(func(u *user, n *samplecrdv1.Network) { u.withCIDR(n, "fd00:%d::/64", "fd00:0:%d::/64") })},
	{name: "changes fields", do: edit((*user).withFields)},
	{name: "adds a subnet", do: edit((*user).withSubnet)},
	{name: "removes the other subnet", do: edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.AdditionalSubnets = nil })},
	{name: "wants a router", do: edit(func(_ *user, n *samplecrdv1.Network) { withExternal(n, "public") })},
	{name: "wants a router in the other external network", do: edit(func(u *user, n *samplecrdv1.Network) { withExternal(n, u.world.internet) })},
	{name: "attaches to a router", do: edit(func(u *user, n *samplecrdv1.Network) { u.withGate(n) })},
	{name: "removes the router", do: edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.Router = nil })},
	{name: "declares routes", do: edit((*user).withRoutes), isLasting: true},
	{name: "takes its ranges from a pool", do: edit((*user).withPool)},
	{name: "shares the network", do: edit((*user).withShares), isLasting: true},
	{name: "ends the sharing", do: edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.SharedWith = nil })},
	{name: "pauses, edits and resumes", do: pauseAnd(edit(func(u *user, n *samplecrdv1.Network) { u.withCIDR(n, "10.%d.48.0/24", "10.%d.64.0/24") }))},
	{name: "pauses, deletes and resumes", do: pauseAnd(deleteIt)},
	{name: "deletes", do: deleteIt},
	{name: "deletes and creates again", do: recreate},
	{name: "creates and deletes soon after", do: createAndDelete},
	{name: "deletes, and the network stays", do: retain, isLasting: true},
	{name: "is refused", do: beRefused},
}

// importing are what they do with Networks that import a network.
var importing = []act{
	onImport("observes the imported network", edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.ManagementPolicy = samplecrdv1.ManagementObserve })),
	onImport("manages the imported network", edit(func(_ *user, n *samplecrdv1.Network) { n.Spec.ManagementPolicy = samplecrdv1.ManagementManaged })),
	onImport("declares tags of the imported network", edit(func(u *user, n *samplecrdv1.Network) {
		n.Spec.Tags = []samplecrdv1.Tag{samplecrdv1.Tag(fmt.Sprint("by-", u.rand.IntN(3)))}
	})),
	onImport("deletes an import", deleteIt),
	onImport("deletes an import and creates it again", recreate),
}

func onImport(name string, do func(context.Context, *user, *slot) error) act {
	return act{name, do, true, true}
}

// work does all acts, again and again until there is no more trouble.
func (u *user) work(ctx context.Context, isOver func() bool) error {
	for _, s := range u.slots {
		if err := u.create(ctx, s); err != nil {
			return err
		}
	}
	for round := 0; round == 0 || !isOver(); round++ {
		todo := append(slices.Clone(acts), importing...)
		u.rand.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for len(todo) > 0 && (round == 0 || !isOver()) {
			a := todo[0]
			todo = todo[1:]
			if a.isLasting && u.world.isBackedUp.Load() {
				todo = append(todo, a) // users would have to put them back after the restore
			} else if err := u.act(ctx, a); err != nil {
				return err
			}
			u.wait(ctx, 500*time.Millisecond)
		}
	}
	return u.finish(ctx)
}

// act does one of the acts, and often waits before until the Network is ready: some edits should find one that is, and
// others one that is not.
func (u *user) act(ctx context.Context, a act) error {
	s := u.slots[u.rand.IntN(len(u.slots))]
	for (s.legacy != "") != a.isOnImport {
		s = u.slots[u.rand.IntN(len(u.slots))]
	}
	if err := u.create(ctx, s); err != nil {
		return err
	}
	if u.rand.IntN(2) == 0 {
		u.waitUntilReady(ctx, s)
	}
	u.world.log("user: %s %s", s.name, a.name)
	if err := a.do(ctx, u, s); err != nil {
		return fmt.Errorf("%s %s: %w", s.name, a.name, err)
	}
	u.world.count("a user " + a.name)
	return ctx.Err()
}

// finish resumes what is paused.
func (u *user) finish(ctx context.Context) error {
	for _, s := range u.slots {
		if err := u.update(ctx, s, func(n *samplecrdv1.Network) { delete(n.Annotations, samplecrdv1.AnnotationPaused) }); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a part of that time.
func (u *user) wait(ctx context.Context, atMost time.Duration) {
	select {
	case <-time.After(time.Duration(u.rand.Int64N(int64(atMost)))):
	case <-ctx.Done():
	}
}

func (u *user) waitUntilReady(ctx context.Context, s *slot) {
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 3*time.Second, true, func(ctx context.Context) (bool, error) {
		n, err := u.world.networks.Get(ctx, s.name, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady) && n.Status.ObservedGeneration == n.Generation, nil
	})
}

// persist sends a request until it succeeds, or its object is there or not there: the API server may be away, and an edit may
// conflict with a write of the controller.
func (u *user) persist(ctx context.Context, send func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		u.world.users.RLock()
		defer u.world.users.RUnlock()
		last = send(ctx)
		if apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return false, last
		}
		return last == nil || apierrors.IsNotFound(last) || apierrors.IsAlreadyExists(last), nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// create creates the Network, unless there is one.
func (u *user) create(ctx context.Context, s *slot) error {
	n := u.newNetwork(s)
	return u.persist(ctx, func(ctx context.Context) error {
		_, err := u.world.networks.Create(ctx, n, metav1.CreateOptions{})
		if err == nil {
			s.made++
		}
		return err
	})
}

func (u *user) newNetwork(s *slot) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: namespace}}
	if s.legacy != "" {
		n.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: s.legacy}
		n.Spec.ManagementPolicy = []samplecrdv1.ManagementPolicy{"", samplecrdv1.ManagementManaged, samplecrdv1.ManagementObserve}[u.rand.IntN(3)]
		if u.rand.IntN(2) == 0 {
			n.Spec.CIDR, n.Spec.Gateway = s.cidr, strings.Replace(s.cidr, ".0/24", fmt.Sprint(".", 1+u.rand.IntN(3)), 1)
		}
		return n
	}
	number := s.nextBlock()
	n.Labels = map[string]string{blockLabel: fmt.Sprint(number)}
	n.Spec.CIDR = fmt.Sprintf("10.%d.0.0/24", number)
	n.Spec.AvailabilityZoneHints = [][]samplecrdv1.AvailabilityZone{nil, {"nova"}}[u.rand.IntN(2)] // they cannot change
	if u.rand.IntN(4) == 0 {
		u.withCIDR(n, "fd00:%d::/64", "fd00:0:%d::/64")
	}
	switch u.rand.IntN(4) {
	case 0:
		withExternal(n, "public")
	case 1:
		u.withGate(n)
	}
	if u.rand.IntN(3) == 0 {
		u.withFields(n)
	}
	return n
}

// update changes the Network, if there is one that is not being deleted.
func (u *user) update(ctx context.Context, s *slot, change func(*samplecrdv1.Network)) error {
	return u.persist(ctx, func(ctx context.Context) error {
		n, err := u.world.networks.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		isDeleted, spec := n.DeletionTimestamp != nil, n.Spec.DeepCopy()
		change(n)
		if isDeleted {
			n.Spec = *spec
		}
		_, err = u.world.networks.Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func edit(change func(*user, *samplecrdv1.Network)) func(context.Context, *user, *slot) error {
	return func(ctx context.Context, u *user, s *slot) error {
		return u.update(ctx, s, func(n *samplecrdv1.Network) { change(u, n) })
	}
}

// deleteIt deletes the Network. One that only observes would leave its tag on the network.
func deleteIt(ctx context.Context, u *user, s *slot) error {
	if s.legacy != "" {
		if err := u.update(ctx, s, func(n *samplecrdv1.Network) { n.Spec.ManagementPolicy = samplecrdv1.ManagementManaged }); err != nil {
			return err
		}
	}
	return u.persist(ctx, func(ctx context.Context) error { return u.world.networks.Delete(ctx, s.name, metav1.DeleteOptions{}) })
}

// recreate deletes the Network, waits until it is gone, and creates it again.
func recreate(ctx context.Context, u *user, s *slot) error {
	err := deleteIt(ctx, u, s)
	if err == nil {
		_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := u.world.networks.Get(ctx, s.name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		err = u.create(ctx, s)
	}
	return err
}

func createAndDelete(ctx context.Context, u *user, s *slot) error {
	err := recreate(ctx, u, s)
	u.wait(ctx, 300*time.Millisecond)
	if err == nil {
		err = deleteIt(ctx, u, s)
	}
	return err
}

func retain(ctx context.Context, u *user, s *slot) error {
	err := u.update(ctx, s, func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain })
	if err == nil {
		err = deleteIt(ctx, u, s)
	}
	return err
}

// pauseAnd pauses the Network, before or after the act, and resumes it a moment later.
func pauseAnd(do func(context.Context, *user, *slot) error) func(context.Context, *user, *slot) error {
	pause := edit(func(_ *user, n *samplecrdv1.Network) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, samplecrdv1.AnnotationPaused, "true")
	})
	resume := edit(func(_ *user, n *samplecrdv1.Network) { delete(n.Annotations, samplecrdv1.AnnotationPaused) })
	return func(ctx context.Context, u *user, s *slot) error {
		steps := []func(context.Context, *user, *slot) error{pause, do}
		if u.rand.IntN(2) == 0 {
			steps[0], steps[1] = do, pause
		}
		for _, step := range steps {
			if err := step(ctx, u, s); err != nil {
				return err
			}
		}
		u.wait(ctx, 2*time.Second)
		return resume(ctx, u, s)
	}
}

// beRefused wants what the API server must refuse.
func beRefused(ctx context.Context, u *user, s *slot) error {
	err := u.update(ctx, s, func(n *samplecrdv1.Network) { n.Spec.Gateway = "192.0.2.1" })
	if apierrors.IsInvalid(err) {
		return nil
	}
	if err == nil {
		if n, _ := u.world.networks.Get(ctx, s.name, metav1.GetOptions{}); n != nil && n.Spec.Gateway == "192.0.2.1" {
			u.world.violate("the API server has accepted a gateway outside of the CIDR")
		}
	}
	return err
}

// blockLabel has the number in the addresses of a Network. No two have the same one, also after a restore of etcd: they could not
// share a router.
const blockLabel = "block"

func block(n *samplecrdv1.Network) (number int) {
	number, err := strconv.Atoi(n.Labels[blockLabel])
	if err != nil {
		panic(err) // newNetwork sets it
	}
	return number
}

// at returns the address of the first subnet that ends with that number.
func at(n *samplecrdv1.Network, last int) string {
	prefix, _, _ := strings.Cut(n.Spec.CIDR, "/")
	if strings.Contains(prefix, ":") {
		return fmt.Sprintf("%s%x", prefix, last)
	}
	return strings.TrimSuffix(prefix, "0") + fmt.Sprint(last)
}

func (u *user) withGateway(n *samplecrdv1.Network, last int) {
	if n.Spec.SubnetPool == nil {
		n.Spec.Gateway = at(n, last)
	}
}

// withCIDR chooses the one of two CIDRs that the spec does not have.
func (u *user) withCIDR(n *samplecrdv1.Network, formats ...string) {
	number, before := block(n), n.Spec.CIDR
	withoutRoutes(n)
	n.Spec.SubnetPool = nil
	for n.Spec.CIDR == before {
		n.Spec.CIDR = fmt.Sprintf(formats[u.rand.IntN(len(formats))], number)
	}
	n.Spec.Gateway, n.Spec.AllocationPools, n.Spec.DNSNameservers = "", nil, nil
	if u.rand.IntN(2) == 0 {
		u.withGateway(n, 8+u.rand.IntN(2))
	}
}

func (u *user) withFields(n *samplecrdv1.Network) {
	n.Spec.Tags = [][]samplecrdv1.Tag{nil, {}, {"team-a"}, {"team-b", "team-a"}}[u.rand.IntN(4)]
	if n.Spec.SubnetPool != nil {
		return
	}
	address := func(last int) samplecrdv1.IPAddress { return samplecrdv1.IPAddress(at(n, last)) }
	n.Spec.DNSNameservers = [][]samplecrdv1.IPAddress{nil, {address(100)}, {address(101), address(100)}}[u.rand.IntN(3)]
	n.Spec.AllocationPools = [][]samplecrdv1.AllocationPool{nil, {{Start: address(20), End: address(30)}}}[u.rand.IntN(2)]
}

// withSubnet adds an IPv6 subnet or, unless the first one is from a subnet pool, another IPv4 subnet: Neutron wants all subnets of
// an address family from the same pool, or none.
func (u *user) withSubnet(n *samplecrdv1.Network) {
	number, kinds := block(n), 2
	if n.Spec.SubnetPool != nil {
		kinds = 1
	}
	slaac := &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
	n.Spec.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{
		{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd01:%d::/64", number), Gateway: fmt.Sprintf("fd01:%d::1", number), IPv6: slaac}},
		{Name: "b", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("10.%d.128.0/24", number)}},
	}[u.rand.IntN(kinds):][:1]
}

// withPool lets Neutron choose the CIDR of the first subnet. As withSubnet says, no other IPv4 subnet can stay.
func (u *user) withPool(n *samplecrdv1.Network) {
	withoutRoutes(n)
	n.Spec.AdditionalSubnets = slices.DeleteFunc(n.Spec.AdditionalSubnets, func(s samplecrdv1.AdditionalSubnet) bool { return s.IPv6 == nil })
	pool := samplecrdv1.NeutronReference{Name: u.world.pool}
	n.Spec.SubnetSpec = samplecrdv1.SubnetSpec{SubnetPool: &samplecrdv1.SubnetPoolSpec{NeutronReference: pool, PrefixLength: int32(24 + u.rand.IntN(2))}}
}

func (u *user) withShares(n *samplecrdv1.Network) {
	a, b := samplecrdv1.Share{ProjectID: strings.Repeat("a", 32)}, samplecrdv1.Share{ProjectID: strings.Repeat("b", 32)}
	n.Spec.SharedWith = [][]samplecrdv1.Share{{a}, {b}, {a, b}}[u.rand.IntN(3)]
}

// withRoutes declares a route of the Network's own router, or that it has none.
func (u *user) withRoutes(n *samplecrdv1.Network) {
	if n.Spec.Router == nil || n.Spec.Router.Existing != nil {
		withExternal(n, "public")
	}
	destination := "10.208.0.0/16"
	if strings.Contains(n.Spec.CIDR, ":") {
		destination = "fd02::/64"
	}
	n.Spec.Router.Routes = []samplecrdv1.HostRoute{}
	if n.Spec.SubnetPool == nil && u.rand.IntN(3) > 0 {
		n.Spec.Router.Routes = []samplecrdv1.HostRoute{{Destination: destination, NextHop: samplecrdv1.IPAddress(at(n, 90+u.rand.IntN(2)))}}
	}
}

// withoutRoutes declares no routes, if the Network has some: their next hops are in its subnet.
func withoutRoutes(n *samplecrdv1.Network) {
	if n.Spec.Router != nil && len(n.Spec.Router.Routes) > 0 {
		n.Spec.Router.Routes = []samplecrdv1.HostRoute{}
	}
}

func withExternal(n *samplecrdv1.Network, name string) {
	withRouter(n, &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: name}})
}

// withGate attaches the Network to one of the routers that users have created, by name or by ID.
func (u *user) withGate(n *samplecrdv1.Network) {
	g := u.world.gates[u.rand.IntN(len(u.world.gates))]
	withRouter(n, &samplecrdv1.RouterSpec{Existing: []*samplecrdv1.NeutronReference{{Name: g.Name}, {ID: g.ID}}[u.rand.IntN(2)]})
}

func withRouter(n *samplecrdv1.Network, r *samplecrdv1.RouterSpec) {
	n.Spec.Router = r
	if n.Spec.Gateway == samplecrdv1.GatewayNone {
		n.Spec.Gateway = ""
	}
}
