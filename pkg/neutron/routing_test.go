// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	routersPath     = "/networking/v2.0/routers"
	floatingIPsPath = "/networking/v2.0/floatingips"
)

// routedCloud has the external networks public and public2, and a router gate of another client with
// its gateway on public.
type routedCloud struct {
	*world
	public, public2, gate string
	// admin is a client of an administrator.
	admin *Client
}

func newRoutedCloud(t *testing.T) *routedCloud {
	t.Helper()
	return newRoutedCloudWith(t, false)
}

// newRoutedCloudWith returns a cloud whose routers are distributed, or not.
func newRoutedCloudWith(t *testing.T, distributed bool) *routedCloud {
	t.Helper()
	w := newWorld(t, embedded.Options{
		Projects: []embedded.Project{
			{Name: "samplecrd", ID: "project-1", Password: password},
			{Name: "admin", ID: "project-2", Password: password},
		},
		ExternalNetwork: embedded.ExternalNetwork{Name: "public", CIDR: cidr("198.18.0.0/24")},
	})
	w.SetDistributed(distributed)
	c := &routedCloud{world: w}
	externals, err := w.others.externalNetworks(t.Context())
	noError(t, err)
	c.public = externals[0].ID
	c.admin = newTestClient(t, w.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	c.public2 = post(t, c.admin, "network", object{"name": "public2", "router:external": true})
	post(t, c.admin, "subnet", object{"network_id": c.public2, "cidr": "198.19.0.0/24", "ip_version": 4})
	c.gate = c.makeRouter(t, "gate", "")
	c.ageNames()
	return c
}

// ageNames makes the lists of names so old that they are made again for a name that they do not have.
func (c *routedCloud) ageNames() {
	c.routing.mu.Lock()
	defer c.routing.mu.Unlock()
	c.routing.externalsListed, c.routing.routersListed, c.routing.poolsListed, c.routing.poolsDue = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// freshNames makes the lists of names so new that they are not made again, however slow the computer is.
func (c *routedCloud) freshNames() {
	c.routing.mu.Lock()
	defer c.routing.mu.Unlock()
	for _, listed := range []*time.Time{&c.routing.externalsListed, &c.routing.routersListed} {
		if !listed.IsZero() {
			*listed = time.Now().Add(time.Hour)
		}
	}
}

// post creates an object as another client, and returns its ID.
func post(t *testing.T, c *Client, kind string, fields object) string {
	t.Helper()
	var answer map[string]struct {
		ID string `json:"id"`
	}
	noError(t, c.send(t.Context(), http.MethodPost, object{kind: fields}, &answer, nil, kind+"s"))
	return answer[kind].ID
}

// put changes an object as another client.
func put(t *testing.T, c *Client, kind, id string, fields object) {
	t.Helper()
	var answer object
	noError(t, c.send(t.Context(), http.MethodPut, object{kind: fields}, &answer, nil, kind+"s", id))
}

// makeRouter creates a router on public as another client.
func (c *routedCloud) makeRouter(t *testing.T, name, description string) string {
	t.Helper()
	return post(t, c.others, "router", object{"name": name, "description": description, "external_gateway_info": object{"network_id": c.public}})
}

// attached returns the routers of each subnet that is attached, by CIDR. It fails the test if an
// interface is half.
func (c *routedCloud) attached(t *testing.T, n *Observed) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, i := range c.Interfaces() {
		if i.Half {
			t.Errorf("a half interface: %+v", i)
		}
		for _, id := range i.SubnetIDs {
			if s := n.subnet(id); s != nil {
				all[s.CIDR.String()] += i.RouterID
			}
		}
	}
	return all
}

// own returns the routers with the owner's mark.
func (c *routedCloud) own() (routers []embedded.Router) {
	for _, r := range c.Routers() {
		if owner.marks(r.Description) {
			routers = append(routers, r)
		}
	}
	return routers
}

// edit changes a spec.
type edit = func(*samplecrdv1.NetworkSpec)

// resource is a Network that is synced as the controller does it.
type resource struct {
	*samplecrdv1.Network
	c *routedCloud
}

// declare returns the Network default/web.
func (c *routedCloud) declare(changes ...edit) *resource {
	r := &resource{declares("10.0.0.0/24", ""), c}
	for _, change := range changes {
		change(&r.Spec)
	}
	return r
}

func ownRouterOn(ref samplecrdv1.NeutronReference) edit {
	return func(s *samplecrdv1.NetworkSpec) { s.Router = &samplecrdv1.RouterSpec{ExternalNetwork: &ref} }
}

func existingRouter(ref samplecrdv1.NeutronReference) edit {
	return func(s *samplecrdv1.NetworkSpec) { s.Router = &samplecrdv1.RouterSpec{Existing: &ref} }
}

func byName(name string) samplecrdv1.NeutronReference {
	return samplecrdv1.NeutronReference{Name: name}
}

func byIDOf(id string) samplecrdv1.NeutronReference { return samplecrdv1.NeutronReference{ID: id} }

func withSubnet(name, cidr string) edit {
	return func(s *samplecrdv1.NetworkSpec) {
		s.AdditionalSubnets = append(s.AdditionalSubnets, samplecrdv1.AdditionalSubnet{Name: name, SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}})
	}
}

// sync observes and converges, and writes the status, until there is nothing more to record.
func (r *resource) sync(t *testing.T) (observed *Observed, done []string, err error) {
	t.Helper()
	for range 4 {
		var steps []Step
		observed, steps, err = r.syncOnce(t, Guard{})
		for _, step := range steps {
			done = append(done, step.String())
		}
		if ReasonOf(err) != Unrecorded {
			return observed, done, err
		}
	}
	t.Fatalf("the status never has the router: %+v", r.Status)
	return nil, nil, nil
}

// err returns the error of a sync.
func (r *resource) err(t *testing.T) error {
	t.Helper()
	_, _, err := r.sync(t)
	return err
}

func (r *resource) syncOnce(t *testing.T, guard Guard) (*Observed, []Step, error) {
	t.Helper()
	v := viewOf(t, r.Network)
	read := Cached
	if r.Generation == 0 {
		read = CacheOnly
	}
	r.Generation = 1
	observed, err := r.c.Observe(t.Context(), v.Identity, read)
	if err != nil {
		return nil, nil, err
	}
	v, steps, err := r.c.Converge(t.Context(), *at(v, observed), guard)
	if v.Observed == nil {
		return nil, steps, err
	}
	r.Status.NetworkID, r.Status.Subnets, r.Status.Router = v.Observed.ID, nil, nil
	if shown := v.Shown(); len(shown) > 0 {
		r.Status.SubnetID = shown[0].ID
	}
	r.Status.Imported, r.Status.SharedWith = v.IsImported(), v.CurrentProjects()
	for _, s := range v.Shown() {
		r.Status.Subnets = append(r.Status.Subnets, samplecrdv1.SubnetStatus{Name: s.Label, ID: s.ID, RouterPortID: s.RouterPortID})
	}
	if id, exists := v.CurrentRouter(); exists {
		r.Status.Router = &samplecrdv1.RouterStatus{ID: id}
		for _, route := range v.KnownRoutes().All() {
			r.Status.Router.Routes = append(r.Status.Router.Routes, samplecrdv1.RouteStatus(route))
		}
	}
	return v.Observed, steps, err
}

// synced syncs without an error until nothing is left to do.
func (r *resource) synced(t *testing.T) *Observed {
	t.Helper()
	observed, _, err := r.sync(t)
	noError(t, err)
	return observed
}

// preview returns the steps that a sync would take.
func (r *resource) preview(t *testing.T) []PlannedStep {
	t.Helper()
	desired, err := NewDesired(r.Network, owner.Cluster)
	noError(t, err)
	preview, err := r.c.Preview(t.Context(), NewIdentity(r.Network, owner.Cluster), desired)
	noError(t, err)
	return preview.Steps
}

// remove removes what Neutron has.
func (r *resource) remove(t *testing.T, retain bool, guard Guard) (*Network, error) {
	t.Helper()
	as := NewIdentity(r.Network, owner.Cluster)
	observed, err := r.c.Observe(t.Context(), as, Cached)
	noError(t, err)
	return r.c.Remove(t.Context(), as, observed, retain, guard)
}

// calls calls do, and returns the requests that it made of Neutron: without IDs, and with the part of
// an object that they are for.
func (c *routedCloud) calls(do func()) (calls []string) {
	c.mu.Lock()
	c.served = nil
	c.mu.Unlock()
	do()
	for _, request := range c.requests() {
		method, path, _ := strings.Cut(request, " ")
		rest, ok := strings.CutPrefix(path, "/networking/v2.0/")
		if !ok || rest == "" {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) == 3 {
			parts = []string{parts[0], parts[2]}
		} else {
			parts = parts[:1]
		}
		calls = append(calls, method+" "+strings.Join(parts, "/"))
	}
	return calls
}

const attachCall, detachCall = "PUT routers/add_router_interface", "PUT routers/remove_router_interface"

func TestTheRequestsOfARoutedNetwork(t *testing.T) {
	for _, test := range []struct {
		name  string
		spec  []edit
		first []string
		own   int
	}{
		{"two subnets on an own router", []edit{ownRouterOn(byName("public")), withSubnet("v6", "fd00:1::/64")},
			[]string{"POST networks", "POST subnets", "POST subnets", "POST routers", attachCall, attachCall}, 1},
		{"an existing router", []edit{existingRouter(byName("gate"))}, []string{"POST networks", "POST subnets", attachCall}, 0},
		{"every other field, of which only the tags take a request", []edit{func(s *samplecrdv1.NetworkSpec) {
			s.MTU, s.DNSDomain, s.PortSecurityEnabled = ptr.To[int32](1400), "example.org.", ptr.To(false)
			s.DNSNameservers, s.EnableDHCP = []samplecrdv1.IPAddress{"192.0.2.53"}, ptr.To(false)
			s.AllocationPools = []samplecrdv1.AllocationPool{{Start: "10.0.0.100", End: "10.0.0.200"}}
			s.HostRoutes = []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "10.0.0.254"}}
			s.Tags = []samplecrdv1.Tag{"a"}
		}}, []string{"POST networks", "PUT networks/tags", "POST subnets"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			c.routing.need(Identity{Owner: Owner{UID: "another owner"}, Routed: true}, &Observed{}) // so the lists have the names
			noError(t, c.Observer().Relist(t.Context()))
			r := c.declare(test.spec...)
			var n *Observed
			equal(t, test.first, c.calls(func() { n = r.synced(t) }))
			equal(t, test.own, len(c.own()))
			if r.Spec.Router != nil {
				router := c.gate
				if test.own > 0 {
					router = c.own()[0].ID
				}
				equal(t, router, r.Status.Router.ID)
				for _, s := range n.Subnets {
					equal(t, router, c.attached(t, n)[s.CIDR.String()])
				}
			}
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
			// The lists see what the cache has.
			c.told = nil
			noError(t, c.Observer().Relist(t.Context()))
			equal(t, []types.UID(nil), c.told)
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
			// And so does a live read.
			live, err := c.Observe(t.Context(), NewIdentity(r.Network, owner.Cluster), Live)
			noError(t, err)
			v, err := c.resolve(t.Context(), viewOf(t, r.Network))
			noError(t, err)
			equal(t, Step(nil), at(v, live).Next())
		})
	}
}

func TestWhatALookLists(t *testing.T) {
	c := newRoutedCloud(t)
	look := func() []string {
		return c.calls(func() { noError(t, c.Observer().Relist(t.Context())) })
	}
	plain := []string{"GET networks"}
	routed := []string{"GET networks", "GET subnets", "GET routers", "GET ports", "GET networks"}
	equal(t, plain, look()) // newWorld has made the first list
	r := c.declare(ownRouterOn(byIDOf(c.public)))
	r.synced(t)
	var ports url.Values
	c.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == portsPath {
			ports = r.URL.Query()
		}
		return false
	})
	equal(t, routed, look())
	equal(t, url.Values{"fields": portFields, "limit": {"1000"}, "project_id": {"project-1"}, "device_owner": interfaceOwners}, ports)
	_, err := c.Observe(t.Context(), NewIdentity(r.Network, owner.Cluster), Live)
	noError(t, err)
	equal(t, url.Values{"fields": portFields, "limit": {"1000"}, "network_id": {r.Status.NetworkID}, "device_owner": interfaceOwners}, ports)
	c.answer(nil)
	_, err = r.remove(t, false, Guard{})
	noError(t, err)
	equal(t, []string{"GET networks", "GET routers"}, look()) // the last list had routers with a mark
	equal(t, plain, look())
	c.routing.need(Identity{Owner: Owner{UID: "in another cloud by now"}, Routed: true}, &Observed{})
	look() // without what it needs
	equal(t, plain, look())

	// The first list of a process finds the routers of an earlier one.
	c = newRoutedCloud(t)
	noError(t, c.Observer().Relist(t.Context()))
	c.makeRouter(t, "r", owner.Mark())
	again := NewCloud("test", c.lab.client(t), owner.Cluster, time.Minute)
	equal(t, []string{"GET networks", "GET routers", "GET ports", "GET networks"}, c.calls(func() { noError(t, again.Observer().Relist(t.Context())) }))
	observed, _, err := again.Observer().Get(owner.UID)
	noError(t, err)
	equal(t, false, observed.Exists())
	equal(t, 1, len(observed.Routers))
}

func TestReferencesThatAreNotThereOrDouble(t *testing.T) {
	for _, test := range []struct {
		name          string
		router        edit
		list, message string
	}{
		{"an external network", ownRouterOn(byName("nowhere")), "GET networks", `spec.router.externalNetwork: there is no external network named "nowhere" that the credentials can see`},
		{"two routers", existingRouter(byName("twin")), "GET routers", `spec.router.existing: there are 2 routers named "twin": set id instead of name, to one of `},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			c.makeRouter(t, "twin", "")
			c.makeRouter(t, "twin", "")
			r := c.declare(test.router)
			check := func(want ...string) {
				t.Helper()
				var n *Observed
				var err error
				got := c.calls(func() { n, _, err = r.sync(t) })
				equal(t, want, got)
				equal(t, Unresolved, ReasonOf(err))
				if !strings.Contains(fmt.Sprint(err), test.message) {
					t.Errorf("got %v", err)
				}
				equal(t, 1, len(n.Subnets)) // only the router waits
			}
			// The list is made again only when it is old.
			check("POST networks", test.list, "POST subnets")
			c.freshNames()
			check()
			if retry := RetryAfterOf(r.err(t)); retry <= 0 || retry > maxNamesAge+time.Hour {
				t.Errorf("the next list is in %s", retry)
			}
			c.ageNames()
			check(test.list)
			c.freshNames()
			check()
			equal(t, 0, len(c.own())+len(c.Interfaces()))
		})
	}
	t.Run("a name that appears", func(t *testing.T) {
		c := newRoutedCloud(t)
		r := c.declare(existingRouter(byName("later")))
		equal(t, Unresolved, ReasonOf(r.err(t)))
		id := c.makeRouter(t, "later", "")
		noError(t, c.Observer().Relist(t.Context())) // has the name
		equal(t, []string{attachCall}, c.calls(func() { r.synced(t) }))
		equal(t, id, c.attached(t, r.synced(t))["10.0.0.0/24"])
	})
	t.Run("neither is set", func(t *testing.T) {
		r := newRoutedCloud(t).declare(func(s *samplecrdv1.NetworkSpec) { s.Router = &samplecrdv1.RouterSpec{} })
		equal(t, Invalid, ReasonOf(r.err(t)))
	})
}

// A router or an external network that was deleted and made again under its name has another ID. What a
// list says of the name ends with the first request that does not find the ID.
func TestANameOfSomethingThatWasMadeAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		before edit
		// after is the edit that needs what was made again.
		after edit
		list  string
	}{
		{"another subnet on the existing router", existingRouter(byName("gate")), withSubnet("more", "10.1.0.0/24"), "GET routers"},
		{"an own router on another external network", ownRouterOn(byName("public")), ownRouterOn(byName("public2")), "GET networks"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare()
			test.before(&r.Spec)
			r.synced(t)
			c.routing.need(Identity{Owner: Owner{UID: "another owner"}, Routed: true}, &Observed{}) // so the lists have the names
			noError(t, c.Observer().Relist(t.Context()))

			for _, i := range c.Interfaces() {
				if i.RouterID == c.gate {
					noError(t, c.others.DetachSubnet(t.Context(), i.RouterID, i.SubnetIDs[0]))
				}
			}
			noError(t, c.others.DeleteRouter(t.Context(), c.gate))
			gate := c.makeRouter(t, "gate", "")
			noError(t, c.admin.DeleteNetwork(t.Context(), c.public2, nil))
			public2 := post(t, c.admin, "network", object{"name": "public2", "router:external": true})
			post(t, c.admin, "subnet", object{"network_id": public2, "cidr": "198.19.0.0/24", "ip_version": 4})

			test.after(&r.Spec)
			interfaces := c.Interfaces()
			c.freshNames()
			equal(t, Unresolved, ReasonOf(r.err(t)))
			equal(t, interfaces, c.Interfaces()) // what is attached stays so
			err := r.err(t)                      // the names were listed just now
			equal(t, Unresolved, ReasonOf(err))
			if retry := RetryAfterOf(err); retry <= 0 || retry > maxNamesAge+time.Hour {
				t.Errorf("the next list is in %s", retry)
			}
			c.ageNames() // a minute later
			var n *Observed
			calls := c.calls(func() { n = r.synced(t) })
			equal(t, true, slices.Contains(calls, test.list))
			router := gate
			if own := c.own(); len(own) > 0 {
				router = own[0].ID
				equal(t, public2, own[0].ExternalNetwork)
			}
			for _, on := range c.attached(t, n) {
				equal(t, router, on)
			}
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		})
	}
}

// While only the lists for the routers fail from the first list on, a routed Network is not taken for one without
// a router, and reads its own.
func TestARoutedNetworkReadsLiveIfItsRoutersAreNotKnown(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byIDOf(c.public)))
	r.synced(t)
	for _, path := range []string{routersPath, portsPath} {
		c.Cloud = NewCloud("test", c.lab.client(t), owner.Cluster, time.Minute)
		c.answer(replyTo("GET", path, 500, ""))
		noError(t, c.Observer().Relist(t.Context()))
		noError(t, c.Observer().Relist(t.Context())) // the cache has the network now, and not its routers
		_, _, err := r.sync(t)
		equal(t, Unavailable, ReasonOf(err))
		c.answer(nil)
		equal(t, []string{"GET networks", "GET subnets", "GET routers", "GET ports"}, c.calls(func() { r.synced(t) }))
		equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		equal(t, 1, len(c.own()))

		// What it has read stays known.
		c.answer(replyTo("GET", path, 500, ""))
		noError(t, c.Observer().Relist(t.Context()))
		equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		c.answer(nil)
	}
}

// parts are the lists of a relist, by the requests that a tap can answer.
var parts = []struct {
	name string
	is   func(*http.Request) bool
	// isWhole means that the relist fails with it.
	isWhole bool
}{
	{"networks", isList("networks", ""), true},
	{"subnets", isList("subnets", ""), true},
	{"routers", isList("routers", ""), false},
	{"ports", isList("ports", "device_owner"), false},
	{"external networks", isList("networks", "router:external"), false},
	{"imported networks", isList("networks", "id"), false},
	{"subnets of imported networks", isList("subnets", "network_id"), false},
}

// isList returns whether a request is a list of the collection with that filter, or without one.
func isList(collection, filter string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		query := r.URL.Query()
		for _, name := range []string{"fields", "limit", "project_id", "marker"} {
			query.Del(name)
		}
		isFiltered := len(query) == 1 && query.Has(filter)
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+collection) && (isFiltered || filter == "" && len(query) == 0)
	}
}

// What is cached stays valid when some of the lists fail, whichever they are: no Network reads its own, no handler
// is called, and the next relist without a failure finds nothing new.
func TestWhatIsCachedStaysValidIfSomeListsFail(t *testing.T) {
	c := newRoutedCloud(t)
	var all []*resource
	for i, change := range []edit{
		func(*samplecrdv1.NetworkSpec) {}, ownRouterOn(byName("public")), ownRouterOn(byIDOf(c.public)), existingRouter(byName("gate")),
	} {
		r := c.declare(change)
		r.UID, r.Spec.CIDR = types.UID(fmt.Sprintf("44444444-0000-0000-0000-%012d", i)), fmt.Sprintf("10.%d.0.0/24", i)
		r.synced(t)
		all = append(all, r)
	}
	shared := post(t, c.admin, "network", object{"name": "shared", "shared": true})
	post(t, c.admin, "subnet", object{"network_id": shared, "cidr": "10.9.0.0/24", "ip_version": 4})
	imports := importer("importer", shared)
	imports.ReadOnly = true
	// An owner of which only the router is left.
	onlyRouter := Owner{owner.Cluster, "only-a-router"}
	c.makeRouter(t, "left", onlyRouter.Mark())
	relist := func() error { return c.Observer().Relist(t.Context()) }
	look := func() (read []string) {
		for _, r := range all {
			read = append(read, c.calls(func() { r.synced(t) })...)
		}
		return append(read, c.calls(func() {
			foreign, err := c.Observe(t.Context(), imports, Cached)
			noError(t, err)
			equal(t, true, foreign.IsForeign)
			equal(t, 1, len(foreign.Subnets))
		})...)
	}
	for range 2 { // of another owner, so that none goes
		post(t, c.others, "network", object{"description": Owner{owner.Cluster, "two"}.Mark()})
	}
	look()
	// A new importer can have routers that its network's other Network does not have.
	_, err := c.Observe(t.Context(), importer("new", all[3].Status.NetworkID), Cached)
	noError(t, err)
	c.answer(replyTo("GET", routersPath, http.StatusInternalServerError, ""))
	noError(t, relist())
	equal(t, false, c.Observer().known()["new"].RoutersKnown)
	c.answer(nil)
	look()
	noError(t, relist())
	before := c.Observer().known()
	for failing := range 1 << len(parts) {
		var names []string
		whole := false
		for i, part := range parts {
			if failing&(1<<i) != 0 {
				names, whole = append(names, part.name), whole || part.isWhole
			}
		}
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			c.answer(func(w http.ResponseWriter, r *http.Request) bool {
				for i, part := range parts {
					if failing&(1<<i) != 0 && part.is(r) {
						return reply(w, http.StatusInternalServerError, "")
					}
				}
				return false
			})
			c.told = nil
			requests := len(c.calls(func() { equal(t, whole, relist() != nil) }))
			if requests > len(parts) {
				t.Errorf("%d requests", requests)
			}
			equal(t, []string(nil), look())
			equal(t, []types.UID(nil), c.told)
			equal(t, before, c.Observer().known())
			c.answer(nil)
			noError(t, relist())
			equal(t, []types.UID(nil), c.told)
		})
	}
}

// makeFloatingIP gives a new port on the network a floating IP, and returns its ID and address.
func (c *routedCloud) makeFloatingIP(t *testing.T, n *Observed) (id, address string) {
	t.Helper()
	port := makePort(t, c.others, n.ID, "web-0", "compute:nova")
	id = post(t, c.others, "floatingip", object{"floating_network_id": c.public, "port_id": port})
	var answer struct {
		FloatingIP FloatingIP `json:"floatingip"`
	}
	noError(t, c.others.send(t.Context(), http.MethodGet, nil, &answer, nil, "floatingips", id))
	return id, answer.FloatingIP.String()
}

func TestFloatingIPsKeepEverythingAsItIs(t *testing.T) {
	// It has no address of a port. It prevents the detachment of the first subnet too.
	t.Run("one that only forwards ports, on the second of two subnets", func(t *testing.T) {
		c := newRoutedCloud(t)
		r := c.declare(ownRouterOn(byName("public")))
		r.Spec.CIDR = "fd00:1::/64"
		withSubnet("v4", "10.0.0.0/24")(&r.Spec)
		n := r.synced(t)
		port := makePort(t, c.others, n.ID, "web-0", "compute:nova")
		id := post(t, c.others, "floatingip", object{"floating_network_id": c.public})
		var answer struct {
			FloatingIP FloatingIP `json:"floatingip"`
			Forwarding struct {
				Address string `json:"internal_ip_address"`
				ID      string `json:"id"`
			} `json:"port_forwarding"`
		}
		forwarding := object{"protocol": "tcp", "internal_port_id": port, "internal_port": 80, "external_port": 8080}
		noError(t, c.others.send(t.Context(), http.MethodPost, object{"port_forwarding": forwarding}, &answer, nil, "floatingips", id, "port_forwardings"))
		noError(t, c.others.send(t.Context(), http.MethodGet, nil, &answer, nil, "floatingips", id))
		equal(t, addr(""), answer.FloatingIP.FixedIP)
		before := c.Interfaces()
		existingRouter(byName("gate"))(&r.Spec)
		_, done, err := r.sync(t)
		wantError(t, Error{Op: "detach subnet 10.0.0.0/24", Reason: InUse, Message: "in use by floating IP " + answer.FloatingIP.Address.String() + " of " + answer.Forwarding.Address}, err)
		equal(t, []string(nil), done)
		equal(t, before, c.Interfaces())
		noError(t, c.others.send(t.Context(), http.MethodDelete, nil, nil, nil, "floatingips", id, "port_forwardings", answer.Forwarding.ID))
		r.synced(t)
	})
	t.Run("a floating IP elsewhere on the router does not matter", func(t *testing.T) {
		c := newRoutedCloud(t)
		other := makeNetworks(t, c.others, 1)[0]
		put(t, c.others, "network", other, object{"description": ""})
		put(t, c.others, "subnet", c.inNeutron(t, other).Subnets[0].ID, object{"description": ""})
		r := c.declare(existingRouter(byIDOf(c.gate)))
		r.Spec.CIDR = "10.9.0.0/24"
		r.synced(t)
		_, err := c.others.AttachSubnet(t.Context(), c.gate, c.inNeutron(t, other).Subnets[0].ID)
		noError(t, err)
		c.makeFloatingIP(t, c.inNeutron(t, other))
		r.Spec.Router = nil
		r.synced(t)
		equal(t, 1, len(c.Interfaces()))
	})
}

func TestRemoveARoutedNetwork(t *testing.T) {
	for _, test := range []struct {
		name     string
		existing bool
		retain   bool
		calls    []string
	}{
		{"an own router", false, false, []string{"GET routers", "GET ports", "GET floatingips", "GET networks", detachCall, "GET ports", "GET floatingips", "GET networks", detachCall, "GET routers", "DELETE routers", "GET networks", "DELETE networks",
			"GET networks", "GET routers"}},
		{"an existing router", true, false, []string{"GET routers", "GET ports", "GET floatingips", "GET networks", detachCall, "GET ports", "GET floatingips", "GET networks", detachCall, "GET networks", "DELETE networks", "GET networks", "GET routers"}},
		{"a retained own router", false, true, []string{"PUT subnets", "PUT subnets", "GET routers", "PUT routers", "GET networks", "PUT networks", "GET networks", "GET routers"}},
		{"a retained network on an existing router", true, true, []string{"PUT subnets", "PUT subnets", "GET networks", "PUT networks", "GET networks", "GET routers"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byIDOf(c.public)), withSubnet("v6", "fd00:1::/64"))
			if test.existing {
				existingRouter(byIDOf(c.gate))(&r.Spec)
			}
			n := r.synced(t)
			before := c.Interfaces()
			var kept *Network
			var err error
			equal(t, test.calls, c.calls(func() { kept, err = r.remove(t, test.retain, Guard{}) }))
			noError(t, err)
			equal(t, test.retain, kept != nil)
			equal(t, 0, len(c.own()))
			routers := 1 // gate
			if test.retain {
				equal(t, before, c.Interfaces())
				if !test.existing {
					routers++
				}
				equal(t, n.ID, kept.ID)
			} else {
				equal(t, 0, len(c.Interfaces()))
			}
			equal(t, routers, len(c.Routers()))
			_, err = c.others.GetNetwork(t.Context(), n.ID)
			equal(t, !test.retain, ReasonOf(err) == NotFound)
			observed, known, err := c.Observer().Get(owner.UID)
			noError(t, err)
			equal(t, []any{true, true}, []any{observed.IsEmpty(), known})
		})
	}
}

// A Network from a backup can lack the router that Neutron has. A new process must not end the deletion before it knows the
// router, whichever list fails.
func TestARouterThatABackupLacksIsRemovedAlsoIfItCannotBeListed(t *testing.T) {
	for name, path := range map[string]string{"routers": routersPath, "ports": portsPath} {
		for _, retain := range []bool{true, false} {
			for _, isAgain := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, retain %t, again %t", name, retain, isAgain), func(t *testing.T) {
					t.Parallel()
					c := newRoutedCloud(t)
					r := c.declare(ownRouterOn(byIDOf(c.public)))
					r.synced(t)
					r.Spec.Router, r.Status.Router, r.Status.Subnets[0].RouterPortID = nil, nil, "" // the backup

					c.Cloud = NewCloud("test", c.lab.client(t), owner.Cluster, time.Minute)
					c.answer(replyTo("GET", path, http.StatusInternalServerError, ""))
					noError(t, c.Observer().Relist(t.Context()))
					remove := func() error {
						as := NewIdentity(r.Network, owner.Cluster)
						observed, err := c.Observe(t.Context(), as, Cached)
						if err == nil {
							_, err = c.Remove(t.Context(), as, observed, retain, Guard{})
						}
						return err
					}
					if isAgain {
						equal(t, Unavailable, ReasonOf(remove()))
					}
					c.answer(nil)
					noError(t, remove())
					equal(t, 0, len(c.own()))
				})
			}
		}
	}
}

// Only an answer about routers tells that a cloud has none. A proxy can answer for any list.
func TestAProxysAnswerDoesNotLeaveARouterBehind(t *testing.T) {
	for _, path := range []string{networksPath, subnetsPath, portsPath} {
		c := newRoutedCloud(t)
		r := c.declare(ownRouterOn(byIDOf(c.public)))
		r.synced(t)
		r.Spec.Router, r.Status.Router, r.Status.Subnets[0].RouterPortID = nil, nil, "" // the backup
		c.Cloud = NewCloud("test", c.lab.client(t), owner.Cluster, time.Minute)
		c.answer(replyTo("GET", routersPath, http.StatusInternalServerError, ""))
		noError(t, c.Observer().Relist(t.Context()))
		as := NewIdentity(r.Network, owner.Cluster)
		observed, err := c.Observe(t.Context(), as, Cached)
		noError(t, err)
		c.answer(replyTo("GET", path, http.StatusNotFound, "<html>no backend</html>"))
		_, err = c.Remove(t.Context(), as, observed, true, Guard{})
		equal(t, Unavailable, ReasonOf(err))
		c.answer(nil)
		_, err = c.Remove(t.Context(), as, observed, true, Guard{})
		noError(t, err)
		equal(t, 0, len(c.own()))
	}
}

// A mark stays until Neutron has confirmed that it is removed, or that the subnet or the router is gone.
func TestAMarkThatIsNotFoundIsReadAgain(t *testing.T) {
	for path, body := range map[string]string{subnetsPath: neutronBody("SubnetNotFound", "not here"), routersPath: neutronBody("RouterNotFound", "not here")} {
		c := newRoutedCloud(t)
		r := c.declare(ownRouterOn(byIDOf(c.public)))
		r.synced(t)
		isFirst := true
		c.answer(func(w http.ResponseWriter, q *http.Request) bool {
			isNow := isFirst && q.Method == http.MethodPut && strings.HasPrefix(q.URL.Path, path)
			isFirst = isFirst && !isNow
			return isNow && reply(w, http.StatusNotFound, body)
		})
		_, err := r.remove(t, true, Guard{})
		equal(t, NotFound, ReasonOf(err))
		_, err = r.remove(t, true, Guard{})
		noError(t, err)
		n, err := c.others.GetNetwork(t.Context(), r.Status.NetworkID)
		noError(t, err)
		equal(t, []any{"", "", 0}, []any{n.Description, n.Subnets[0].Description, len(c.own())})
	}
}

// In a cloud that has no routers, or does not show them, a deletion does not wait for them.
func TestADeletionDoesNotWaitForRoutersThatTheCloudDoesNotServe(t *testing.T) {
	for code, body := range map[int]string{
		http.StatusNotFound:  `{"message": "The resource could not be found.", "code": "404 Not Found", "title": "Not Found"}`,
		http.StatusForbidden: `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "get_router is disallowed by policy", "detail": ""}}`,
	} {
		c := newRoutedCloud(t)
		r := c.declare()
		r.synced(t)
		c.Cloud = NewCloud("test", c.lab.client(t), owner.Cluster, time.Minute)
		c.answer(replyTo("GET", routersPath, code, body))
		noError(t, c.Observer().Relist(t.Context()))
		_, err := r.remove(t, false, Guard{})
		noError(t, err)
		_, err = c.others.GetNetwork(t.Context(), r.Status.NetworkID)
		equal(t, NotFound, ReasonOf(err))
	}
}

// A router is all that is left when another client has deleted the network.
func TestRemoveARouterWithoutItsNetwork(t *testing.T) {
	for _, retain := range []bool{true, false} {
		t.Run(fmt.Sprint("retain ", retain), func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byIDOf(c.public)))
			n := r.synced(t)
			noError(t, c.others.DetachSubnet(t.Context(), r.Status.Router.ID, n.Subnets[0].ID))
			noError(t, c.others.DeleteNetwork(t.Context(), n.ID, nil))
			noError(t, c.Observer().Relist(t.Context()))
			_, err := r.remove(t, retain, Guard{})
			noError(t, err)
			equal(t, 0, len(c.own()))
			left := 1 // gate
			if retain {
				left++
			}
			equal(t, left, len(c.Routers()))
		})
	}
}

func TestWhatPreventsTheRemovalOfARoutedNetwork(t *testing.T) {
	for _, test := range []struct {
		name    string
		prevent func(t *testing.T, c *routedCloud, n *Observed) (undo func(), message string)
	}{
		{"a port of a server", func(t *testing.T, c *routedCloud, n *Observed) (func(), string) {
			id := makePort(t, c.others, n.ID, "web-0", "compute:nova")
			return func() { noError(t, c.others.delete(t.Context(), "delete", "ports", id, nil)) }, "in use by port web-0 (compute:nova)"
		}},
		{"a stranger's router", func(t *testing.T, c *routedCloud, n *Observed) (func(), string) {
			port := post(t, c.others, "port", object{"network_id": n.ID, "name": "theirs"})
			var answer object
			noError(t, c.others.send(t.Context(), http.MethodPut, object{"port_id": port}, &answer, nil, "routers", c.gate, "add_router_interface"))
			return func() { noError(t, c.others.DetachSubnet(t.Context(), c.gate, n.Subnets[0].ID)) }, "in use by port theirs (network:router_interface)"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byIDOf(c.public)))
			n := r.synced(t)
			undo, message := test.prevent(t, c, n)
			noError(t, c.Observer().Relist(t.Context()))
			before, own := c.Interfaces(), c.own()
			for range 2 {
				_, err := r.remove(t, false, Guard{})
				wantError(t, Error{Op: "delete network", Reason: InUse, Message: message}, err)
			}
			equal(t, before, c.Interfaces())
			equal(t, own, c.own())
			undo()
			c.waits.drop(owner.UID)
			noError(t, c.Observer().Relist(t.Context()))
			_, err := r.remove(t, false, Guard{})
			noError(t, err)
			equal(t, 0, len(c.own())+len(c.Interfaces()))
		})
	}
	t.Run("a stranger's subnet on the own router", func(t *testing.T) {
		c := newRoutedCloud(t)
		r := c.declare(ownRouterOn(byIDOf(c.public)))
		r.synced(t)
		router, theirs := c.own()[0].ID, c.legacy(t, "10.9.0.0/24").Subnets[0].ID
		_, err := c.others.AttachSubnet(t.Context(), router, theirs)
		noError(t, err)
		_, err = r.remove(t, false, Guard{})
		equal(t, InUse, ReasonOf(err))
		equal(t, []string{theirs}, c.Interfaces()[0].SubnetIDs)
		noError(t, c.others.DetachSubnet(t.Context(), router, theirs))
		_, err = r.remove(t, false, Guard{})
		noError(t, err)
		equal(t, 0, len(c.own()))
	})
	t.Run("a stranger's subnet of the network on the own router's IPv6 port", func(t *testing.T) {
		c := newRoutedCloud(t)
		r := c.declare(ownRouterOn(byIDOf(c.public)), withSubnet("v6", "fd00:1::/64"))
		n := r.synced(t)
		s, err := c.others.CreateSubnet(t.Context(), n.ID, CreateSubnet{Subnet: DesiredSubnet{Name: "theirs", CIDR: cidr("fd00:9::/64")}}.fields())
		noError(t, err)
		port, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, s.ID)
		noError(t, err)
		noError(t, c.Observer().Relist(t.Context()))
		before := c.Interfaces()
		for range 2 {
			_, err = r.remove(t, false, Guard{})
			wantError(t, Error{Op: "delete network", Reason: InUse, Message: "in use by port " + port + " (network:router_interface)"}, err)
			equal(t, before, c.Interfaces())
		}
		noError(t, c.others.DetachSubnet(t.Context(), c.own()[0].ID, s.ID))
		c.waits.drop(owner.UID)
		noError(t, c.Observer().Relist(t.Context()))
		_, err = r.remove(t, false, Guard{})
		noError(t, err)
		equal(t, 0, len(c.own())+len(c.Interfaces()))
	})
}

// Half an interface is repaired before Converge reports success.
func TestAHalfInterfaceIsCured(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byIDOf(c.gate)))
	c.SetFault(func(request *http.Request) *embedded.Fault {
		if strings.HasSuffix(request.URL.Path, "/add_router_interface") {
			return &embedded.Fault{Half: true}
		}
		return nil
	})
	_, _, err := r.sync(t)
	equal(t, Unavailable, ReasonOf(err))
	equal(t, true, c.Interfaces()[0].Half)
	c.SetFault(nil)
	var done []string
	equal(t, []string{"GET networks", "GET subnets", "GET routers", "GET ports", "GET routers", attachCall, detachCall, "GET networks", "GET subnets", "GET routers", "GET ports", attachCall}, c.calls(func() {
		var n *Observed
		n, done, err = r.sync(t)
		noError(t, err)
		equal(t, c.gate, c.attached(t, n)["10.0.0.0/24"])
	}))
	equal(t, []string{"subnet 10.0.0.0/24 attached to router " + c.gate}, done)
	equal(t, c.Interfaces()[0].PortID, r.Status.Subnets[0].RouterPortID)
	equal(t, []string(nil), c.calls(func() { r.synced(t) }))
}

// Another client can attach the subnet right before the controller does: its interface stays. A port
// that has lost its device is attached too, but no list shows it: it is replaced.
func TestASubnetThatIsAttachedAlready(t *testing.T) {
	for _, test := range []struct {
		name     string
		isHidden bool
		calls    []string
	}{
		{"by another client", false, []string{"GET routers", attachCall, "GET ports", "GET networks", "GET subnets", "GET routers", "GET ports", "GET routers", attachCall}},
		{"by a port that has lost its device", true, []string{"GET routers", attachCall, "GET ports", detachCall, "GET networks", "GET subnets", "GET routers", "GET ports", attachCall}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(existingRouter(byIDOf(c.gate)))
			_, _, err := r.syncOnce(t, Guard{})
			equal(t, Unrecorded, ReasonOf(err))
			port, err := c.others.AttachSubnet(t.Context(), c.gate, r.Status.Subnets[0].ID)
			noError(t, err)
			if test.isHidden {
				put(t, c.others, "port", port, object{"device_id": "", "device_owner": ""})
			}
			equal(t, test.calls, c.calls(func() { r.synced(t) }))
			interfaces := c.Interfaces()
			equal(t, 1, len(interfaces))
			equal(t, !test.isHidden, interfaces[0].PortID == port)
			equal(t, interfaces[0].PortID, r.Status.Subnets[0].RouterPortID)
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		})
	}
}

func TestWhatOtherClientsDoToRouters(t *testing.T) {
	own, existing := ownRouterOn(byName("public")), existingRouter(byName("gate"))
	detach := func(t *testing.T, c *routedCloud, r *resource) {
		noError(t, c.others.DetachSubnet(t.Context(), r.Status.Router.ID, r.Status.Subnets[0].ID))
	}
	deleteRouter := func(t *testing.T, c *routedCloud, r *resource) {
		detach(t, c, r)
		noError(t, c.others.DeleteRouter(t.Context(), r.Status.Router.ID))
	}
	const attached, detached = "subnet 10.0.0.0/24 attached to router ID", "subnet 10.0.0.0/24 detached from router ID"
	for _, test := range []struct {
		name   string
		router edit
		change func(t *testing.T, c *routedCloud, r *resource)
		done   []string
	}{
		{"the interface is taken off", own, detach, []string{attached}},
		{"the own router is deleted", own, deleteRouter, []string{"router created", attached}},
		{"the existing router is deleted", existing, deleteRouter, nil},
		{"the own router loses its mark, and the status names it: it is replaced", own, func(t *testing.T, c *routedCloud, r *resource) {
			put(t, c.others, "router", r.Status.Router.ID, object{"description": "mine now"})
		}, []string{"router created", detached, attached}},
		{"another router is made with a copy of the mark", own, func(t *testing.T, c *routedCloud, _ *resource) {
			c.makeRouter(t, testName, owner.Mark())
		}, []string{"router ID deleted"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(test.router)
			r.synced(t)
			noError(t, c.Observer().Relist(t.Context()))
			c.told = nil
			test.change(t, c, r)
			noError(t, c.Observer().Relist(t.Context()))
			equal(t, 1, len(c.told)) // the drift is noticed
			n, done, err := r.sync(t)
			for i := range done {
				done[i] = anyID.ReplaceAllString(done[i], "ID")
			}
			equal(t, test.done, done)
			if test.done == nil {
				equal(t, Unresolved, ReasonOf(err))
				return
			}
			noError(t, err)
			equal(t, 1, len(c.own()))
			equal(t, map[string]string{"10.0.0.0/24": c.own()[0].ID}, c.attached(t, n))
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
			noError(t, c.Observer().Relist(t.Context()))
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		})
	}
}

// A router that another client has changed after the cache saw it is read again at once.
func TestAnOwnRouterThatHasChangedSinceTheList(t *testing.T) {
	type change = func(*testing.T, *routedCloud, *Observed)
	rewrite := func(fields object) change {
		return func(t *testing.T, c *routedCloud, _ *Observed) { put(t, c.others, "router", c.own()[0].ID, fields) }
	}
	detach := func(t *testing.T, c *routedCloud, n *Observed) {
		noError(t, c.others.DetachSubnet(t.Context(), c.own()[0].ID, n.Subnets[0].ID))
	}
	deleteRouter := func(t *testing.T, c *routedCloud, n *Observed) {
		detach(t, c, n)
		noError(t, c.others.DeleteRouter(t.Context(), c.own()[0].ID))
	}
	none := func(*testing.T, *routedCloud, *Observed) {}
	for _, test := range []struct {
		name          string
		before, after change // the list
		edit          edit
		routers       int
	}{
		{"it is gone, and one more subnet needs it", none, deleteRouter, withSubnet("more", "10.1.0.0/24"), 2},
		{"it is gone, and had another name, which is restored first", rewrite(object{"name": "x"}), deleteRouter, withSubnet("more", "10.1.0.0/24"), 2},
		{"it is attached again, and another one is desired", detach, func(t *testing.T, c *routedCloud, n *Observed) {
			_, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, n.Subnets[0].ID)
			noError(t, err)
		}, existingRouter(byName("gate")), 1},
		{"it is no longer ours, and none is desired", none, rewrite(object{"description": "mine now"}), func(s *samplecrdv1.NetworkSpec) { s.Router = nil }, 2},
		{"it is no longer ours, and has another name", rewrite(object{"name": "x"}), rewrite(object{"description": "mine now"}), func(*samplecrdv1.NetworkSpec) {}, 3},
		{"it is no longer ours, and other routes are desired", none, rewrite(object{"description": "mine now"}), func(s *samplecrdv1.NetworkSpec) {
			s.Router.Routes = []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "10.0.0.10"}}
		}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byName("public")))
			n := r.synced(t)
			test.before(t, c, n)
			noError(t, c.Observer().Relist(t.Context()))
			test.after(t, c, n)
			test.edit(&r.Spec)
			n = r.synced(t)
			want := map[string]string{}
			for _, s := range n.Subnets {
				if r.Status.Router != nil {
					want[s.CIDR.String()] = r.Status.Router.ID
				}
			}
			equal(t, want, c.attached(t, n))
			equal(t, test.routers, len(c.Routers()))
		})
	}
}

// Since the last list, other clients have taken over what is to be removed: it stays as it is.
func TestWhatOthersHaveTakenOverIsNotFreed(t *testing.T) {
	hop := samplecrdv1.HostRoute{Destination: "10.99.0.0/16", NextHop: "10.0.0.10"}
	unmark := func(t *testing.T, c *routedCloud, n *Observed) {
		put(t, c.others, "network", n.ID, object{"description": "mine now"})
		for _, s := range n.Subnets {
			put(t, c.others, "subnet", s.ID, object{"description": ""})
		}
	}
	for _, test := range []struct {
		name     string
		retain   bool
		takeOver func(*testing.T, *routedCloud, *Observed)
	}{
		{"the router", false, func(*testing.T, *routedCloud, *Observed) {}},
		{"the router of a network that is retained", true, func(*testing.T, *routedCloud, *Observed) {}},
		{"all", false, unmark},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byName("public")))
			r.Spec.Router.Routes = []samplecrdv1.HostRoute{hop}
			n := r.synced(t)
			noError(t, c.Observer().Relist(t.Context()))
			router := c.own()[0]
			put(t, c.others, "router", router.ID, object{"description": "for the VPN"})
			test.takeOver(t, c, n)
			_, err := r.remove(t, test.retain, Guard{})
			equal(t, Stale, ReasonOf(err))
			details, err := c.others.getRouterDetails(t.Context(), router.ID)
			noError(t, err)
			equal(t, "for the VPN", details.Description)
			equal(t, Routes("10.99.0.0/16 via 10.0.0.10"), details.Routes)
			equal(t, map[string]string{"10.0.0.0/24": router.ID}, c.attached(t, n))
			_, _ = r.remove(t, test.retain, Guard{}) // what the next sync does
			_, err = c.others.GetNetwork(t.Context(), n.ID)
			noError(t, err)
			equal(t, map[string]string{"10.0.0.0/24": router.ID}, c.attached(t, n))
		})
	}
}

// Nothing is created or attached before the status names the router.
func TestTheRouterIsRecordedFirst(t *testing.T) {
	for name, router := range map[string]edit{"own": ownRouterOn(byName("public")), "existing": existingRouter(byName("gate"))} {
		t.Run(name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(router)
			noError(t, c.Observer().Relist(t.Context())) // has the names
			n, _, err := r.syncOnce(t, Guard{})
			equal(t, Unrecorded, ReasonOf(err))
			equal(t, 1, len(n.Subnets))
			equal(t, 0, len(c.own())+len(c.Interfaces()))
			equal(t, true, r.Status.Router != nil)
			// The spec is changed before the next sync: there is nothing to clean up, and nothing is forgotten.
			r.Spec.Router = nil
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
			equal(t, true, r.Status.Router == nil)
		})
	}
}

// importOnGate returns a Network that imports a network with two IPv6 subnets, which another client has
// attached to gate. The spec names the first one only, and gate.
func (c *routedCloud) importOnGate(t *testing.T) (r *resource, port string) {
	t.Helper()
	n := c.legacy(t, "fd00:1::/64", "fd00:2::/64")
	for _, s := range n.Subnets {
		var err error
		port, err = c.others.AttachSubnet(t.Context(), c.gate, s.ID)
		noError(t, err)
	}
	r = c.declare(existingRouter(byName("gate")))
	r.Spec.CIDR, r.Spec.Import = "fd00:1::/64", &samplecrdv1.ImportSpec{NetworkID: n.ID}
	return r, port
}

// A network that is external cannot be imported, so an import does not make its network external.
func TestAnImportDoesNotMakeItsNetworkExternal(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare()
	r.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: c.legacy(t, "10.0.0.0/24").ID}
	for range 2 { // before and after the network was taken over
		r.Spec.External = true
		calls := c.calls(func() {
			wantError(t, Error{Op: opImport, Reason: ImportRefused, Message: "network " + r.Spec.Import.NetworkID + " must not become an external network, which routers of any project may use: remove spec.external"}, r.err(t))
		})
		equal(t, false, slices.ContainsFunc(calls, func(call string) bool { return !strings.HasPrefix(call, "GET ") }))
		r.Spec.External = false
		equal(t, false, r.synced(t).External)
	}
	equal(t, true, r.Status.Imported)
}

// The status of a Network that only observes shows the router. That does not make the connection the Network's.
func TestTheConnectionThatWasOnlyObservedStays(t *testing.T) {
	c := newRoutedCloud(t)
	r, _ := c.importOnGate(t)
	r.Spec.ManagementPolicy = samplecrdv1.ManagementObserve
	r.synced(t)
	equal(t, c.gate, r.Status.Router.ID)
	r.Spec.ManagementPolicy, r.Spec.Router = "", nil
	n := r.synced(t)
	equal(t, map[string]string{"fd00:1::/64": c.gate, "fd00:2::/64": c.gate}, c.attached(t, n))
	equal(t, true, r.Status.Imported && r.Status.Router == nil)

	// It is the same when it was managed before.
	existingRouter(byName("gate"))(&r.Spec)
	r.Spec.ManagementPolicy = samplecrdv1.ManagementObserve
	r.synced(t)
	equal(t, true, r.Status.Imported && r.Status.Router == nil)
	r.Spec.ManagementPolicy, r.Spec.Router = "", nil
	equal(t, map[string]string{"fd00:1::/64": c.gate, "fd00:2::/64": c.gate}, c.attached(t, r.synced(t)))
}

// The subnets of an import that the spec does not name stay attached, although they share the port of one
// that it names.
func TestTheOtherIPv6SubnetOfAnImportStaysConnected(t *testing.T) {
	for _, moves := range []bool{false, true} { // to another router
		t.Run(fmt.Sprint("moves ", moves), func(t *testing.T) {
			c := newRoutedCloud(t)
			r, port := c.importOnGate(t)
			n := r.synced(t)
			equal(t, map[string]string{"fd00:1::/64": c.gate, "fd00:2::/64": c.gate}, c.attached(t, n))
			for _, s := range r.Status.Subnets {
				equal(t, n.subnet(s.ID).CIDR == cidr("fd00:1::/64"), s.RouterPortID == port)
			}
			want := map[string]string{"fd00:2::/64": c.gate}
			r.Spec.Router, r.Spec.CIDR = nil, "" // the spec names neither the router nor a subnet any more
			if moves {
				want["fd00:1::/64"] = c.makeRouter(t, "gate2", "")
				existingRouter(byName("gate2"))(&r.Spec)
				r.Spec.CIDR = "fd00:1::/64"
				c.ageNames()
			}
			equal(t, want, c.attached(t, r.synced(t)))
			noError(t, c.Observer().Relist(t.Context()))
			equal(t, []string(nil), c.calls(func() { r.synced(t) }))
		})
	}
}

// One of several IPv6 subnets is replaced, or taken out of the spec, and the router keeps the port with the
// addresses of the others, also of one that is not the Network's.
func TestTheOtherIPv6SubnetsKeepTheirConnection(t *testing.T) {
	for _, mode := range []samplecrdv1.IPv6Mode{"", samplecrdv1.IPv6ModeSLAAC, samplecrdv1.IPv6ModeDHCPv6Stateful} {
		for _, replaced := range []int{0, 1} {
			for _, next := range []string{"fd00:3::/64", "overlaps", ""} {
				t.Run(fmt.Sprint(mode, replaced, next), func(t *testing.T) {
					c := newRoutedCloud(t)
					r := c.declare(ownRouterOn(byName("public")), withSubnet("a", "fd00:1::/64"), withSubnet("b", "fd00:2::/64"))
					for i := range r.Spec.AdditionalSubnets {
						if mode != "" {
							r.Spec.AdditionalSubnets[i].IPv6 = &samplecrdv1.IPv6Spec{AddressMode: mode, RAMode: mode}
						}
					}
					n := r.synced(t)
					theirs, err := c.others.CreateSubnet(t.Context(), n.ID, CreateSubnet{Subnet: DesiredSubnet{Name: "theirs", CIDR: cidr("fd00:9::/64")}}.fields())
					noError(t, err)
					port, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, theirs.ID)
					noError(t, err)
					noError(t, c.Observer().Relist(t.Context()))
					equal(t, []string(nil), c.calls(func() { r.synced(t) }))

					all := r.Spec.AdditionalSubnets
					gone, next := all[replaced].CIDR, next
					if next == "overlaps" {
						next = strings.Replace(gone, "/64", "/60", 1)
					}
					if next == "" {
						r.Spec.AdditionalSubnets = slices.Delete(all, replaced, replaced+1)
					} else {
						all[replaced].CIDR, all[replaced].IPv6 = next, nil
					}
					calls := c.calls(func() { n = r.synced(t) })
					equal(t, 1, strings.Count(strings.Join(calls, "\n"), detachCall))
					router := c.own()[0].ID
					want := map[string]string{"10.0.0.0/24": router, "fd00:1::/64": router, "fd00:2::/64": router, "fd00:9::/64": router}
					delete(want, gone)
					if next != "" {
						want[next] = router
					}
					noError(t, c.Observer().Relist(t.Context()))
					n = r.synced(t)
					equal(t, want, c.attached(t, n))
					for _, i := range n.Interfaces {
						equal(t, n.subnet(i.SubnetID).CIDR.Addr().Is6(), i.PortID == port)
					}
				})
			}
		}
	}
}

// A CIDR is replaced under its interface: the new subnet is attached before the old one is detached,
// unless they overlap. Ports on the old one keep everything as it is.
func TestTheCIDROfAnAttachedSubnetChanges(t *testing.T) {
	for _, test := range []struct {
		cidr  string
		calls []string
	}{
		{"10.1.0.0/24", []string{"GET subnets", "GET ports", "GET subnets", "GET routers", "GET ports", "GET floatingips", "POST subnets", attachCall, "GET ports", "GET floatingips", detachCall, "GET ports", "DELETE subnets"}},
		{"10.0.0.0/16", []string{"GET ports", "GET quotas/details.json", "GET subnets", "GET networks", "GET ports", "GET subnets", "GET floatingips", detachCall, "GET ports", "DELETE subnets", "POST subnets", attachCall}},
	} {
		t.Run(test.cidr, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare(ownRouterOn(byName("public")))
			n := r.synced(t)
			router, before := c.own()[0].ID, c.Interfaces()
			port := makePort(t, c.others, n.ID, "web-0", "compute:nova")
			r.Spec.CIDR = test.cidr
			got, done, err := r.sync(t)
			wantError(t, Error{Op: "replace subnet 10.0.0.0/24", Reason: InUse, Message: "in use by port web-0 (compute:nova)"}, err)
			equal(t, 0, len(done))
			equal(t, true, sameObserved(n, got))
			equal(t, before, c.Interfaces())
			equal(t, before[0].PortID, r.Status.Subnets[0].RouterPortID)

			noError(t, c.others.delete(t.Context(), "delete", "ports", port, nil))
			c.waits.drop(owner.UID)
			equal(t, test.calls, c.calls(func() { n = r.synced(t) }))
			equal(t, map[string]string{test.cidr: router}, c.attached(t, n))
		})
	}
}

// A status from a backup of etcd may not have the router that the spec names.
func TestTheInterfaceOnADeclaredRouterDoesNotPreventAReplacement(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(existingRouter(byName("gate")))
	r.synced(t)
	r.Status.Router, r.Spec.CIDR = nil, "10.1.0.0/24"
	equal(t, false, slices.ContainsFunc(r.preview(t), func(s PlannedStep) bool { return s.Blocked != "" }))
	equal(t, map[string]string{"10.1.0.0/24": c.gate}, c.attached(t, r.synced(t)))
}

// A duplicate network goes with its interfaces.
func TestADuplicateNetworkThatIsAttachedIsDeleted(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	attached := ""
	for _, id := range makeNetworks(t, c.others, 2) {
		if s := c.inNeutron(t, id).Subnets[0]; s.CIDR == cidr("10.1.0.0/16") {
			attached = id
			_, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, s.ID)
			noError(t, err)
		}
	}
	second := post(t, c.others, "subnet", object{"network_id": attached, "cidr": "10.2.0.0/16", "ip_version": 4, "description": owner.Mark()})
	_, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, second)
	noError(t, err)
	equal(t, 3, len(c.Interfaces()))
	put(t, c.others, "router", c.own()[0].ID, object{"name": "x"})
	noError(t, c.Observer().Relist(t.Context()))
	steps := r.preview(t)
	equal(t, 3, len(steps))
	equal(t, "router name x → default/web", steps[0].Text)
	equal(t, "", steps[0].Blocked+steps[1].Blocked+steps[2].Blocked)
	var writes []int
	n, _, err := r.syncOnce(t, c.verifying(&writes, 100))
	noError(t, err)
	equal(t, []int{1, 2, 3, 4}, writes) // one live read before each: the router's name is a write before them
	equal(t, map[string]string{"10.0.0.0/24": c.own()[0].ID}, c.attached(t, n))
	equal(t, 1, len(c.Interfaces()))
	equal(t, 3, len(c.world.Networks()))
}

// attachDuplicate attaches a duplicate to the own router, and lists it.
func (c *routedCloud) attachDuplicate(t *testing.T) (id string) {
	t.Helper()
	id = post(t, c.others, "network", object{"description": owner.Mark()})
	subnet := post(t, c.others, "subnet", object{"network_id": id, "cidr": "10.1.0.0/24", "ip_version": 4, "description": owner.Mark()})
	_, err := c.others.AttachSubnet(t.Context(), c.own()[0].ID, subnet)
	noError(t, err)
	noError(t, c.Observer().Relist(t.Context()))
	return id
}

// A router goes after all networks that are attached to it.
func TestADuplicateOnTheRouterDoesNotPreventTheDeletion(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	duplicate := c.attachDuplicate(t)
	_, err := r.remove(t, false, Guard{})
	noError(t, err)
	equal(t, 0, len(c.own())+len(c.Interfaces()))
	_, err = c.others.GetNetwork(t.Context(), duplicate)
	equal(t, NotFound, ReasonOf(err))
}

// A router that the spec no longer names goes after the duplicate that is attached to it.
func TestADuplicateOnAnObsoleteRouterGoesFirst(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	duplicate := c.attachDuplicate(t)
	r.Spec.Router = nil
	equal(t, false, slices.ContainsFunc(r.preview(t), func(s PlannedStep) bool { return s.Blocked != "" }))
	r.synced(t)
	equal(t, 0, len(c.own())+len(c.Interfaces()))
	_, err := c.others.GetNetwork(t.Context(), duplicate)
	equal(t, NotFound, ReasonOf(err))
}

// A list of routers that fails holds up no Network of whose routers the cache knows.
func TestADuplicateIsDeletedWhileRoutersCannotBeListed(t *testing.T) {
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	r.synced(t)
	noError(t, c.Observer().Relist(t.Context()))
	duplicate := post(t, c.others, "network", object{"description": owner.Mark()})
	c.answer(replyTo("GET", routersPath, http.StatusInternalServerError, ""))
	noError(t, c.Observer().Relist(t.Context()))
	r.synced(t)
	_, err := c.others.GetNetwork(t.Context(), duplicate)
	equal(t, NotFound, ReasonOf(err))
}

// syncedTwice syncs while Neutron handles each creation in the collection twice, and then once more without that. No subnet that is
// attached may go then.
func (r *resource) syncedTwice(t *testing.T, collection string, isLost bool) *Observed {
	t.Helper()
	r.c.SetFault(func(request *http.Request) *embedded.Fault {
		if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/"+collection) {
			return nil
		}
		return &embedded.Fault{Twice: true, Drop: isLost}
	})
	for range 3 {
		_, _, _ = r.sync(t)
	}
	r.c.SetFault(nil)
	noError(t, r.c.Observer().Relist(t.Context()))
	before := r.Status.DeepCopy()
	n := r.synced(t)
	for _, s := range before.Subnets {
		if s.RouterPortID != "" && n.subnet(s.ID) == nil {
			t.Errorf("the subnet of the status that is attached is gone: %+v", s)
		}
	}
	return n
}

// Two workers of Neutron can handle one request at the same moment: a client or a proxy has sent it again, or another controller has
// taken over. What is there twice goes, and what is attached stays.
func TestWhatWasMadeTwiceGoes(t *testing.T) {
	for _, kind := range []string{"networks", "subnets", "routers"} {
		for _, isLost := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, isLost), func(t *testing.T) {
				c := newRoutedCloud(t)
				r := c.declare(ownRouterOn(byName("public")), withSubnet("more", "10.1.0.0/24"))
				n := r.syncedTwice(t, kind, isLost)
				own := c.own()[0].ID
				equal(t, map[string]string{"10.0.0.0/24": own, "10.1.0.0/24": own}, c.attached(t, n))
				equal(t, "2 subnets, 1 routers, 2 interfaces", fmt.Sprintf("%d subnets, %d routers, %d interfaces", len(c.inNeutron(t, n.ID).Subnets), len(c.own()), len(c.Interfaces())))
				equal(t, 3, len(c.world.Networks())) // with the external ones
			})
		}
	}
}

// Neutron gives two requests two blocks of a subnet pool. The one that nothing needs goes back.
func TestABlockThatWasAllocatedTwiceGoesBack(t *testing.T) {
	for _, isLost := range []bool{false, true} {
		c := newRoutedCloud(t)
		c.pool(t, "team", "10.20.0.0/16")
		r := c.declare(ownRouterOn(byName("public")), pooled(byName("team"), 24), withPooled("more", "team", 24))
		n := r.syncedTwice(t, "subnets", isLost)
		subnets := c.inNeutron(t, n.ID).Subnets
		equal(t, "2 subnets, 2 interfaces", fmt.Sprintf("%d subnets, %d interfaces", len(subnets), len(c.Interfaces())))
	}
}

// A sync that waits for the list of another does not fail because that other one is slow.
func TestAListThatIsJoinedIsNotCutOffByAnotherSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCloud("none", NewClient(Config{}, ClientOptions{}), owner.Cluster, time.Hour)
		go func() {
			_, _, _ = c.routing.lists.Do(string(kindRouter), func() (any, error) {
				time.Sleep(time.Second)
				return nil, errSlow
			})
		}()
		synctest.Wait()
		if err := c.joinList(t.Context(), kindRouter); err == nil || errors.Is(err, errSlow) {
			t.Errorf("got %v, want the answer of its own list, which this Neutron cannot make", err)
		}
	})
}
