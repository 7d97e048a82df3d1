// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// pooled returns an edit of a spec: its CIDR is from the pool.
func pooled(ref samplecrdv1.NeutronReference, length int32) edit {
	return func(s *samplecrdv1.NetworkSpec) {
		s.CIDR, s.SubnetPool = "", &samplecrdv1.SubnetPoolSpec{NeutronReference: ref, PrefixLength: length}
	}
}

// pool creates a subnet pool as another client, and returns its ID.
func (c *routedCloud) pool(t *testing.T, name, prefix string) string {
	t.Helper()
	return post(t, c.others, "subnetpool", object{"name": name, "prefixes": []string{prefix}})
}

func cidrsIn(n *Observed) (cidrs []string) {
	for _, s := range n.Subnets {
		cidrs = append(cidrs, s.CIDR.String())
	}
	return cidrs
}

func TestTheRequestsOfASubnetFromAPool(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/16")
	plain := c.declare()
	equal(t, []string{"POST networks", "POST subnets"}, c.calls(func() { plain.synced(t) }))

	r := c.declare(pooled(byName("team"), 24))
	r.UID = "22222222-2222-4222-8222-222222222222"
	equal(t, []string{"POST networks", "GET subnetpools", "POST subnets"}, c.calls(func() { equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t))) }))
	noError(t, c.Observer().Relist(t.Context()))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))

	// A new process looks once which pool the name leads to.
	c.Cloud = NewCloud("test", c.Client(), owner.Cluster, c.observer.period)
	noError(t, c.Observer().Relist(t.Context()))
	equal(t, []string{"GET subnetpools"}, c.calls(func() { r.synced(t) }))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
}

func TestAPoolThatIsNotThere(t *testing.T) {
	for _, test := range []struct {
		name string
		ref  samplecrdv1.NeutronReference
		want string
	}{
		{"by its name", byName("team"), `spec.subnetPool: there is no subnet pool named "team" that the credentials can see`},
		{"by its ID", byIDOf("11111111-1111-4111-8111-111111111111"), "spec.subnetPool: there is no subnet pool with the ID 11111111-1111-4111-8111-111111111111 that the credentials can see"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(pooled(test.ref, 24))
			err := r.err(t)
			equal(t, Unresolved, ReasonOf(err))
			equal(t, test.want, fmt.Sprint(err))

			// A Network that has a subnet keeps it, and what does not depend on the pool is done.
			other := c.declare(withSubnet("v6", "fd00:1::/64"))
			other.UID = "22222222-2222-4222-8222-222222222222"
			before := other.synced(t)
			pooled(test.ref, 24)(&other.Spec)
			other.Spec.DNSDomain, other.Spec.AdditionalSubnets = "example.org.", nil
			equal(t, Unresolved, ReasonOf(other.err(t)))
			after, _, _ := other.sync(t)
			equal(t, cidrsIn(before), cidrsIn(after))
			equal(t, "example.org.", after.DNSDomain)
		})
	}
}

func TestPoolsOfOneName(t *testing.T) {
	c := newRoutedCloud(t)
	first := c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	r.synced(t)
	c.pool(t, "team", "10.21.0.0/16")
	c.Cloud = NewCloud("test", c.Client(), owner.Cluster, c.observer.period)
	noError(t, c.Observer().Relist(t.Context()))
	observed, done, err := r.sync(t)
	equal(t, Unresolved, ReasonOf(err))
	equal(t, []string(nil), done)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))
	r.Spec.SubnetPool.NeutronReference = byIDOf(first)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t)))
}

func TestAPoolThatIsUsedUp(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/24")
	one := c.declare(pooled(byName("team"), 24))
	one.synced(t)
	r := c.declare(pooled(byName("team"), 24))
	r.UID = "22222222-2222-4222-8222-222222222222"
	err := r.err(t)
	equal(t, PoolEmpty, ReasonOf(err))
	equal(t, "create subnet: no /24 from subnet pool team is free: Failed to allocate subnet: Insufficient prefix space to allocate subnet size /24.", fmt.Sprint(err))

	// A longer prefix does not take the one that is there away, as long as there is no other.
	one.Spec.SubnetPool.PrefixLength = 25
	equal(t, PoolEmpty, ReasonOf(one.err(t)))
	observed, done, _ := one.sync(t)
	equal(t, []string(nil), done)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))

	// Another pool does, because Neutron refuses both at the same time, and the message says so.
	c.pool(t, "more", "10.21.0.0/24")
	c.ageNames()
	r.Spec.SubnetPool.Name = "more"
	equal(t, []string{"10.21.0.0/24"}, cidrsIn(r.synced(t)))
	one.Spec.SubnetPool.Name, one.Spec.SubnetPool.PrefixLength = "more", 24
	err = one.err(t)
	equal(t, PoolEmpty, ReasonOf(err))
	equal(t, "create subnet: no /24 from subnet pool more is free: Failed to allocate subnet: Insufficient prefix space to allocate subnet size /24."+TakenBefore+"subnet 10.20.0.0/24 deleted", fmt.Sprint(err))
	r.Spec.SubnetPool.Name = "team"
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t)))
	observed, done, err = one.sync(t)
	noError(t, err)
	equal(t, []string{"10.21.0.0/24"}, cidrsIn(observed))
	equal(t, []string{"subnet 10.21.0.0/24 from subnet pool more created"}, done)
}

// What a lost answer has left behind is used: no second CIDR is taken from the pool.
func TestASubnetFromAPoolWhoseAnswerWasLost(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	c.answer(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodPost || request.URL.Path != subnetsPath {
			return false
		}
		c.Server.ServeHTTP(httptest.NewRecorder(), request)
		panic(http.ErrAbortHandler)
	})
	equal(t, Unavailable, ReasonOf(r.err(t)))
	c.answer(nil)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t)))
}

// Another sync can forget a pool after it was found. Without an error, the Network would be ready.
func TestAPoolThatIsForgottenAfterItWasFound(t *testing.T) {
	_, _, err := new(routing).subnetPool("spec.subnetPool", "p")
	equal(t, Unresolved, ReasonOf(err))
	equal(t, "spec.subnetPool: there is no subnet pool p any more", fmt.Sprint(err))
}

// The list of names has a pool that is gone by now.
func TestAPoolThatIsMadeAgain(t *testing.T) {
	c := newRoutedCloud(t)
	pool := c.pool(t, "team", "10.20.0.0/16")
	one := c.declare(pooled(byName("team"), 24))
	n := one.synced(t)
	noError(t, c.deleteByAdmin(t, "networks", n.ID))
	noError(t, c.others.delete(t.Context(), "delete subnet pool", "subnetpools", pool, nil))
	c.pool(t, "team", "10.21.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	r.UID = "22222222-2222-4222-8222-222222222222"
	equal(t, Unresolved, ReasonOf(r.err(t)))
	c.ageNames()
	equal(t, []string{"10.21.0.0/24"}, cidrsIn(r.synced(t)))
}

// Neutron takes all subnets of one IP version from one pool, or none. An unmanaged subnet stays, so the spec cannot be fulfilled.
func TestAStrangersSubnetIsFromNoPool(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	n := r.synced(t)
	stranger := c.subnet(t, n.ID, "fd00:9::/64", "a stranger's")
	noError(t, c.Observer().Relist(t.Context()))
	withSubnet("v6", "fd00:1::/64")(&r.Spec)
	n = r.synced(t)
	equal(t, 3, len(n.Subnets))
	c.pool(t, "v6", "fd20::/48")
	c.ageNames()
	pooled(byName("v6"), 64)(&r.Spec)
	r.Spec.AdditionalSubnets = nil
	err := r.err(t)
	equal(t, Invalid, ReasonOf(err))
	equal(t, "create subnet: Neutron takes all subnets of a network that have the same IP version from one subnet pool, or none of them from a pool: "+
		"subnet fd00:9::/64 ("+stranger+") is not from the same pool as the new subnet", fmt.Sprint(err))
	observed, done, _ := r.sync(t)
	equal(t, []string(nil), done)
	equal(t, cidrsIn(n), cidrsIn(observed))
}
