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
	"fmt"
	"math/rand/v2"
	"net/netip"
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
}

// wanted is the state of one Network that its user wants.
type wanted struct {
	api       clientset.NetworkInterface
	cluster   string
	namespace string
	name      string
	spec      *samplecrdv1.NetworkSpec // nil: it is deleted
	uid       types.UID
}

// work creates the Networks, and then changes them until enough reports true.
func (u *user) work(ctx context.Context, enough func() bool) error {
	for _, n := range u.networks {
		if err := u.create(ctx, n); err != nil {
			return err
		}
	}
	for done := 0; done < u.world.edits*len(u.networks) || !enough(); done++ {
		if err := u.act(ctx); err != nil {
			return err
		}
	}
	for range editsAfterwards {
		if err := u.act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// act makes one change, and then often waits for its effect.
func (u *user) act(ctx context.Context) error {
	n := u.networks[u.rand.IntN(len(u.networks))]
	if n.spec == nil {
		return u.create(ctx, n)
	}
	if u.rand.IntN(10) == 0 {
		return u.changeMind(ctx, n)
	}
	err := u.change(ctx, n)
	if err != nil || u.rand.IntN(2) == 0 {
		return err
	}
	u.waitAWhile(ctx, n)
	return ctx.Err()
}

// changeMind deletes the Network, creates it again, and deletes it while the controller
// still works on it.
func (u *user) changeMind(ctx context.Context, n *wanted) error {
	if err := u.delete(ctx, n); err != nil {
		return err
	}
	if err := u.create(ctx, n); err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(u.rand.IntN(300)) * time.Millisecond):
	case <-ctx.Done():
	}
	u.world.tally.add("Networks deleted soon after")
	return u.delete(ctx, n)
}

func (u *user) change(ctx context.Context, n *wanted) error {
	switch u.rand.IntN(10) {
	case 0:
		return u.delete(ctx, n)
	case 1, 2:
		if err := u.delete(ctx, n); err != nil {
			return err
		}
		u.world.tally.add("Networks created again with the same name")
		return u.create(ctx, n)
	case 3, 4, 5:
		spec := randomSpec(u.rand)
		return u.edit(ctx, n, spec)
	case 6:
		return u.edit(ctx, n, withOtherHostBits(u.rand, *n.spec))
	}
	spec := *n.spec
	spec.Gateway = randomGateway(u.rand, spec.CIDR)
	return u.edit(ctx, n, spec)
}

// persist calls try until it succeeds: the API server may be down, and an edit may conflict
// with a write of the controller.
func persist(ctx context.Context, try func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var done bool
		done, last = try(ctx)
		if apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return false, last
		}
		return done && last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

func (u *user) create(ctx context.Context, n *wanted) error {
	spec := randomSpec(u.rand)
	err := persist(ctx, func(ctx context.Context) (bool, error) {
		made, err := n.api.Create(ctx, &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: spec}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			// It is still being deleted, or was created by a request whose answer was lost.
			if made, err = n.api.Get(ctx, n.name, metav1.GetOptions{}); err != nil {
				return false, err
			}
		}
		if err != nil || !made.DeletionTimestamp.IsZero() {
			return false, err
		}
		n.uid = made.UID
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", n.name, err)
	}
	n.spec = &spec
	u.world.tally.add("Networks created")
	u.world.tally.log("user created %s/%s, %s: %+v", n.namespace, n.name, n.uid, spec)
	if u.rand.IntN(4) == 0 {
		return u.world.addStranger(ctx, u.rand, n)
	}
	return nil
}

func (u *user) edit(ctx context.Context, n *wanted, spec samplecrdv1.NetworkSpec) error {
	err := persist(ctx, func(ctx context.Context) (bool, error) {
		network, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		network.Spec = spec
		_, err = n.api.Update(ctx, network, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			u.world.tally.add("conflicting edits")
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("edit %s: %w", n.name, err)
	}
	n.spec = &spec
	u.world.tally.add("Networks edited")
	u.world.tally.log("user edited %s/%s, %s: %+v", n.namespace, n.name, n.uid, spec)
	return nil
}

func (u *user) delete(ctx context.Context, n *wanted) error {
	err := persist(ctx, func(ctx context.Context) (bool, error) {
		err := n.api.Delete(ctx, n.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.uid}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", n.name, err)
	}
	n.spec = nil
	u.world.tally.add("Networks deleted")
	u.world.tally.log("user deleted %s/%s, %s", n.namespace, n.name, n.uid)
	return nil
}

// waitAWhile waits until the Network is ready, but not for long: some edits should find a
// Network that is ready, and others one that is not.
func (u *user) waitAWhile(ctx context.Context, n *wanted) {
	if n.spec == nil {
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
	if r.IntN(10) == 0 {
		cidr = fmt.Sprintf("fd00:%d::/64", r.IntN(3))
	}
	spec := samplecrdv1.NetworkSpec{CIDR: cidr, Gateway: randomGateway(r, cidr)}
	if r.IntN(3) == 0 {
		return withOtherHostBits(r, spec)
	}
	return spec
}

func randomGateway(r *rand.Rand, cidr string) string {
	switch r.IntN(4) {
	case 0:
		return ""
	case 1:
		return samplecrdv1.GatewayNone
	}
	return addressIn(r, cidr).String()
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
