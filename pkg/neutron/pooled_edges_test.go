// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// A user can ask an IPv4 pool for the prefix length of IPv6. Nothing is taken away for it, and nothing panics.
func TestAPrefixLengthThatThePoolCannotHave(t *testing.T) {
	for _, length := range []int32{1, 7, 33, 64, 128} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			c := newRoutedCloud(t)
			c.pool(t, "team", "10.20.0.0/16")
			c.pool(t, "more", "10.21.0.0/16")
			fresh := c.declare(pooled(byName("team"), length), ownRouterOn(byName("public")))
			fresh.UID = "22222222-2222-4222-8222-222222222222"
			equal(t, Invalid, ReasonOf(fresh.err(t)))
			equal(t, true, fresh.preview(t)[0].Blocked != "")
			r := c.declare(pooled(byName("team"), 24), ownRouterOn(byName("public")))
			r.synced(t)
			for _, pool := range []string{"team", "more"} {
				pooled(byName(pool), length)(&r.Spec)
				observed, done, err := r.sync(t)
				equal(t, Invalid, ReasonOf(err))
				equal(t, []string(nil), done)
				equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))
				equal(t, true, r.preview(t)[0].Blocked != "")
			}
		})
	}
}

// Neutron is certain to refuse the gateway of a /31, and to attach a /32. So the subnet stays that it would replace.
func TestAPrefixLengthWithoutRoomForAGateway(t *testing.T) {
	for _, length := range []int32{31, 32} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			c := newRoutedCloud(t)
			c.pool(t, "team", "10.20.0.0/16")
			c.pool(t, "more", "10.21.0.0/16")
			fresh := c.declare(pooled(byName("team"), length), func(s *samplecrdv1.NetworkSpec) { s.EnableDHCP = new(false) })
			fresh.UID = "22222222-2222-4222-8222-222222222222"
			equal(t, Invalid, ReasonOf(fresh.err(t)))
			r := c.declare(pooled(byName("team"), 24), ownRouterOn(byName("public")))
			r.synced(t)
			pooled(byName("more"), length)(&r.Spec)
			observed, done, err := r.sync(t)
			equal(t, Invalid, ReasonOf(err))
			equal(t, []string(nil), done)
			equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))
		})
	}
}

// With subnetPool, an import takes over no subnet. It leaves a stranger's from the same pool alone, although the status shows it.
func TestAnImportLeavesAStrangersSubnetFromThePoolAlone(t *testing.T) {
	for _, test := range []struct {
		name    string
		isLater bool // the spec gets the pool after the import
		policy  samplecrdv1.ManagementPolicy
		want    []string
	}{
		{"at once", false, "", []string{"10.20.0.0/24", "10.20.1.0/24"}},
		{"later", true, "", []string{"10.20.0.0/24", "10.20.1.0/24"}},
		{"only observed", false, samplecrdv1.ManagementObserve, []string{"10.20.0.0/24"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			pool := c.pool(t, "team", "10.20.0.0/16")
			id := post(t, c.others, "network", object{"name": "legacy"})
			stranger := post(t, c.others, "subnet", object{"network_id": id, "ip_version": 4, "subnetpool_id": pool, "prefixlen": 24,
				"name": "theirs", "dns_nameservers": []string{"192.0.2.1"}})
			r := c.declare()
			r.Spec.SubnetSpec, r.Spec.Import, r.Spec.ManagementPolicy = samplecrdv1.SubnetSpec{}, &samplecrdv1.ImportSpec{NetworkID: id}, test.policy
			if test.isLater {
				r.synced(t)
			}
			pooled(byName("team"), 24)(&r.Spec)
			r.Spec.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.53"}
			r.synced(t)
			observed := r.synced(t)
			equal(t, Addresses("192.0.2.1"), observed.subnet(stranger).DNSNameservers)
			cidrs := map[string]bool{}
			for _, s := range cidrsIn(observed) {
				cidrs[s] = true
			}
			for _, s := range test.want {
				equal(t, true, cidrs[s])
			}
			equal(t, len(test.want), len(cidrs))
			if test.policy != "" {
				v := viewOf(t, r.Network)
				equal(t, []string{"subnet /24 from subnet pool team is missing"}, at(v, observed).Differences())
			}
		})
	}
}

// A backup has no status, and the subnet pools cannot be listed once. Each subnet stays what it was.
func TestABackupWhosePoolIsNotKnownAtFirst(t *testing.T) {
	for range 8 { // the IDs of subnets are random, and their order matters
		c := newRoutedCloud(t)
		c.pool(t, "team", "10.20.0.0/16")
		r := c.declare(pooled(byName("team"), 24), withPooled("b", "team", 24))
		r.Spec.AdditionalSubnets[0].Gateway = samplecrdv1.GatewayNone
		r.synced(t)
		r.Status = samplecrdv1.NetworkStatus{}
		c.Cloud = NewCloud("test", c.Client(), owner.Cluster, c.observer.period)
		noError(t, c.Observer().Relist(t.Context()))
		c.answer(func(w http.ResponseWriter, request *http.Request) bool {
			isPools := strings.Contains(request.URL.Path, "subnetpools")
			if isPools {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return isPools
		})
		equal(t, Unavailable, ReasonOf(r.err(t)))
		c.answer(nil)
		_, done, err := r.sync(t)
		noError(t, err)
		equal(t, []string(nil), done)
	}
}

// While it is not known which pool one subnet is from, no other subnet gets its range.
func TestARangeIsNotGivenToAnotherSubnet(t *testing.T) {
	c := newRoutedCloud(t)
	pool := c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	first := r.synced(t).Subnets[0]
	c.pool(t, "team", "10.21.0.0/16")
	r.Status = samplecrdv1.NetworkStatus{}
	c.Cloud = NewCloud("test", c.Client(), owner.Cluster, c.observer.period)
	noError(t, c.Observer().Relist(t.Context()))
	withPooled("b", "team", 24)(&r.Spec)
	r.Spec.AdditionalSubnets[0].SubnetPool.NeutronReference = byIDOf(pool)
	equal(t, Unresolved, ReasonOf(r.err(t)))
	r.Spec.SubnetPool.NeutronReference = byIDOf(pool)
	equal(t, first.Name, r.synced(t).subnet(first.ID).Name)
}

// A request that had timed out takes the last block of the pool after all, right before the next one.
func TestTheLastBlockIsTakenByARequestThatHadTimedOut(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/24")
	r := c.declare(pooled(byName("team"), 24))
	var late atomic.Pointer[[]byte] // the body of the first request
	c.answer(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodPost || request.URL.Path != subnetsPath {
			return false
		}
		if body := late.Load(); body != nil {
			arrives := httptest.NewRequest(http.MethodPost, request.URL.String(), bytes.NewReader(*body))
			arrives.Header = request.Header.Clone()
			c.Server.ServeHTTP(httptest.NewRecorder(), arrives)
			return false
		}
		body, _ := io.ReadAll(request.Body)
		late.Store(&body)
		panic(http.ErrAbortHandler)
	})
	equal(t, Unavailable, ReasonOf(r.err(t)))
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t)))
}

// The limits of a pool can change.
func TestAPoolThatAllowsLongerPrefixesNow(t *testing.T) {
	c := newRoutedCloud(t)
	pool := post(t, c.others, "subnetpool", object{"name": "team", "prefixes": []string{"10.20.0.0/16"}, "max_prefixlen": 26})
	r := c.declare(pooled(byName("team"), 24))
	r.synced(t)
	r.Spec.SubnetPool.PrefixLength = 28
	equal(t, Invalid, ReasonOf(r.err(t)))
	put(t, c.others, "subnetpool", pool, object{"max_prefixlen": 32})
	c.ageNames()
	equal(t, []string{"10.20.1.0/28"}, cidrsIn(r.synced(t)))
}

// All prefixes of the pool are smaller than the block. Somebody can add one, so a new Network waits, as for a free block.
func TestAPoolOfSmallPrefixes(t *testing.T) {
	c := newRoutedCloud(t)
	pool := post(t, c.others, "subnetpool", object{"name": "small", "prefixes": []string{"10.20.0.0/26"}, "min_prefixlen": 24, "default_prefixlen": 24})
	r := c.declare(pooled(byName("small"), 24))
	equal(t, PoolEmpty, ReasonOf(r.err(t)))
	put(t, c.others, "subnetpool", pool, object{"prefixes": []string{"10.20.0.0/26", "10.21.0.0/24"}})
	equal(t, []string{"10.21.0.0/24"}, cidrsIn(r.synced(t)))
}

// An administrator's subnet, which the project does not see, is from the old pool. Neutron takes none from elsewhere beside it.
func TestAHiddenSubnetFromTheOldPool(t *testing.T) {
	for name, change := range map[string]edit{
		"another pool":           pooled(byName("more"), 24),
		"a CIDR instead":         func(s *samplecrdv1.NetworkSpec) { s.SubnetPool, s.CIDR = nil, "10.99.0.0/24" },
		"a CIDR inside that one": func(s *samplecrdv1.NetworkSpec) { s.SubnetPool, s.CIDR = nil, "10.20.0.0/25" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newRoutedCloud(t)
			pool := c.pool(t, "team", "10.20.0.0/16")
			c.pool(t, "more", "10.21.0.0/16")
			r := c.declare(pooled(byName("team"), 24))
			n := r.synced(t)
			post(t, c.admin, "subnet", object{"network_id": n.ID, "ip_version": 4, "subnetpool_id": pool, "prefixlen": 24})
			noError(t, c.Observer().Relist(t.Context()))
			change(&r.Spec)
			observed, done, err := r.sync(t)
			equal(t, Invalid, ReasonOf(err))
			equal(t, []string(nil), done)
			equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))
		})
	}
}

// Somebody has removed the mark of a subnet that gets another label.
func TestALabelOfASubnetWithoutItsMarkIsRenamed(t *testing.T) {
	c := newRoutedCloud(t)
	c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24), withPooled("b", "team", 24))
	before := cidrsIn(r.synced(t))
	put(t, c.others, "subnet", r.Status.Subnets[1].ID, object{"description": ""})
	noError(t, c.Observer().Relist(t.Context()))
	r.Spec.AdditionalSubnets[0].Name = "c"
	equal(t, before, cidrsIn(r.synced(t)))
}

// The subnet from the old pool goes first, because Neutron refuses both. So the new pool is looked at before, past the list of names.
func TestAnotherPoolThatHasChangedSinceItWasListed(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(t *testing.T, c *routedCloud, pool string)
		// want is the reason of the first sync, and then that of the next one.
		want, then ErrorReason
		cidr       string
	}{
		{"it is gone", func(t *testing.T, c *routedCloud, pool string) { noError(t, c.deleteByAdmin(t, "subnetpools", pool)) }, Unresolved, Unresolved, "10.20.0.0/24"},
		{"it has another name", func(t *testing.T, c *routedCloud, pool string) {
			put(t, c.others, "subnetpool", pool, object{"name": "old"})
		}, Unresolved, Unresolved, "10.20.0.0/24"},
		{"its name is another's", func(t *testing.T, c *routedCloud, pool string) {
			put(t, c.others, "subnetpool", pool, object{"name": "old"})
			c.pool(t, "more", "10.22.0.0/16")
		}, "", "", "10.22.0.0/24"},
		{"it allows only smaller subnets", func(t *testing.T, c *routedCloud, pool string) {
			put(t, c.others, "subnetpool", pool, object{"min_prefixlen": 26, "default_prefixlen": 26})
		}, Invalid, Invalid, "10.20.0.0/24"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			c.pool(t, "team", "10.20.0.0/16")
			more := c.pool(t, "more", "10.21.0.0/16")
			r := c.declare(pooled(byName("team"), 24))
			r.synced(t)
			test.change(t, c, more)
			c.routing.mu.Lock()
			c.routing.poolsListed = c.routing.poolsListed.Add(-maxNamesAge - 1)
			c.routing.mu.Unlock()
			r.Spec.SubnetPool.Name = "more"
			observed, done, err := r.sync(t)
			equal(t, test.want, ReasonOf(err))
			equal(t, test.want != "", len(done) == 0)
			equal(t, []string{test.cidr}, cidrsIn(observed))
			equal(t, test.then, ReasonOf(r.err(t)))
		})
	}
}

// The Observer does not list pools, so the first sync after its period notices that a name leads elsewhere. Until Neutron answers, the
// old list is used.
func TestAPoolThatHasAnotherName(t *testing.T) {
	c := newRoutedCloud(t)
	pool := c.pool(t, "team", "10.20.0.0/16")
	r := c.declare(pooled(byName("team"), 24))
	r.synced(t)
	put(t, c.others, "subnetpool", pool, object{"name": "old"})
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	c.ageNames()
	c.answer(replyTo(http.MethodGet, "/networking/v2.0/subnetpools", http.StatusServiceUnavailable, ""))
	equal(t, []string{"GET subnetpools"}, c.calls(func() { r.synced(t) }))
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
	c.answer(nil)
	c.ageNames()
	equal(t, Unresolved, ReasonOf(r.err(t)))
	observed, _, _ := r.sync(t)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(observed))
}

// An administrator sees the pools of all projects. Their names are free, so only an ID can mean one of another project.
func TestAPoolOfAnotherProject(t *testing.T) {
	c := newRoutedCloud(t)
	w := *c.world
	w.Cloud = NewCloud("admin", c.admin, owner.Cluster, c.observer.period)
	theirs := c.pool(t, "team", "10.20.0.0/16")
	admin := &routedCloud{world: &w, admin: c.admin}
	r := admin.declare(pooled(byName("team"), 24))
	equal(t, Unresolved, ReasonOf(r.err(t)))
	post(t, c.admin, "subnetpool", object{"name": "team", "prefixes": []string{"10.21.0.0/16"}})
	admin.ageNames()
	equal(t, []string{"10.21.0.0/24"}, cidrsIn(r.synced(t)))
	r.Spec.SubnetPool.NeutronReference = byIDOf(theirs)
	equal(t, []string{"10.20.0.0/24"}, cidrsIn(r.synced(t)))
	// One that is shared with all projects can be meant by its name, too.
	post(t, c.admin, "subnetpool", object{"name": "all", "prefixes": []string{"10.23.0.0/16"}, "shared": true})
	c.ageNames()
	own := c.declare(pooled(byName("all"), 24))
	own.UID = "22222222-2222-4222-8222-222222222222"
	equal(t, []string{"10.23.0.0/24"}, cidrsIn(own.synced(t)))
}

// Neutron would refuse a route through a subnet that does not exist yet. That is not what the user has to look at.
func TestRoutesWaitForThePool(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(withPooled("b", "team", 64), ownRouterOn(byName("public")), declareRoutes([]string{"fd20::7"}))
	err := r.err(t)
	equal(t, Unresolved, ReasonOf(err))
	equal(t, `spec.additionalSubnets[b].subnetPool: there is no subnet pool named "team" that the credentials can see`, fmt.Sprint(err))
	c.pool(t, "team", "fd20::/48")
	c.ageNames()
	r.synced(t)
	equal(t, []string{"fd99::/64 via fd20::7"}, c.own()[0].Routes)
}

// An administrator renames the pool of a subnet that is there. The routes through the others do not wait for that.
func TestRoutesDoNotWaitForThePoolOfASubnetThatIsThere(t *testing.T) {
	c := newRoutedCloud(t)
	pool := c.pool(t, "team", "fd20::/48")
	r := c.declare(withPooled("b", "team", 64), ownRouterOn(byName("public")), declareRoutes([]string{"10.0.0.7"}))
	r.synced(t)
	put(t, c.others, "subnetpool", pool, object{"name": "old"})
	put(t, c.others, "router", c.own()[0].ID, object{"routes": []object{}})
	noError(t, c.Observer().Relist(t.Context()))
	c.ageNames()
	equal(t, Unresolved, ReasonOf(r.err(t)))
	equal(t, []string{string(toA)}, c.own()[0].Routes)
}
