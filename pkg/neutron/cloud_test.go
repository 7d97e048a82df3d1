// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var identity = Identity{Owner: owner}

// seen returns the identity of a Network whose status has the ID of that network.
func seen(n *Observed) Identity {
	return Identity{Owner: owner, NetworkID: n.ID}
}

// world is a Cloud on a lab, with a second client of the same project for the changes of other clients.
type world struct {
	*lab
	*Cloud
	others *Client
	told   []types.UID
}

func newWorld(t *testing.T, options embedded.Options) *world {
	t.Helper()
	l := newLab(t, options)
	w := &world{lab: l, Cloud: NewCloud("test", l.client(t), owner.Cluster, time.Minute), others: l.client(t)}
	w.Observer().AddHandler(func(uid types.UID) { w.told = append(w.told, uid) })
	noError(t, w.Observer().Relist(t.Context()))
	return w
}

// converge applies steps until Neutron has the desired state. It returns the network and
// the requests to Neutron.
func (w *world) converge(t *testing.T, want View, have *Observed) (*Observed, []string) {
	t.Helper()
	w.mu.Lock()
	w.served = nil
	w.mu.Unlock()
	for range 10 {
		step := at(want, have).Next()
		if step == nil {
			return have, w.changes(have)
		}
		var err error
		have, err = w.takeOne(t, identity, have, step)
		noError(t, err)
	}
	t.Fatalf("Neutron does not have the desired state after 10 steps; the next step is %+v", at(want, have).Next())
	return nil, nil
}

// convergeFrom is Converge for a Network that knows this.
func (w *world) convergeFrom(t *testing.T, as Identity, want View, have *Observed, guard Guard) (*Observed, []Step, error) {
	t.Helper()
	want.Owner, want.NetworkID, want.Observed = as.Owner, as.NetworkID, have
	v, steps, err := w.Converge(t.Context(), want, guard)
	return v.Observed, steps, err
}

// delete deletes the network, as a step does.
func (w *world) delete(ctx context.Context, as Identity, have *Observed) error {
	_, _, err := w.take(ctx, as, have, []Step{DeleteNetwork{Network: &have.Network}}, Guard{})
	return err
}

// takeOne takes one step, as Converge does.
func (w *world) takeOne(t *testing.T, as Identity, have *Observed, step Step) (*Observed, error) {
	t.Helper()
	next, _, err := w.take(t.Context(), as, have, []Step{step}, Guard{})
	return next, err
}

// changes returns the requests to Neutron, without IDs.
func (w *world) changes(n *Observed) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, request := range w.served {
		method, path, _ := strings.Cut(request, " ")
		if rest, ok := strings.CutPrefix(path, "/networking/v2.0/"); ok && rest != "" {
			collection, _, _ := strings.Cut(rest, "/")
			all = append(all, method+" "+collection)
		}
	}
	return all
}

// made returns a world in which Neutron has the desired state, and the network.
func made(t *testing.T, want View) (*world, *Observed) {
	t.Helper()
	w := newWorld(t, embedded.Options{})
	have, _ := w.converge(t, want, &Observed{})
	return w, have
}

// inNeutron reads the network from Neutron.
func (w *world) inNeutron(t *testing.T, id string) *Observed {
	t.Helper()
	n, err := w.others.GetNetwork(t.Context(), id)
	noError(t, err)
	return having(n)
}

// remembered reads the network from the cache.
func (w *world) remembered(t *testing.T) (*Observed, bool) {
	t.Helper()
	observed, known, err := w.observer.Get(identity.Owner.UID)
	noError(t, err)
	return observed.of(identity), known
}

// theirs changes the network's description as another client, and its name unless that is "".
func (w *world) theirs(t *testing.T, id, name, description string) {
	t.Helper()
	fields := object{"description": description}
	if name != "" {
		fields["name"] = name
	}
	put(t, w.others, "network", id, fields)
}

func TestThePlanWorksInNeutron(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		first, then View
		gateway     string
		requests    []string
	}{
		{"a network is created, with a gateway", View{}, wants("192.168.0.0/16", "192.168.0.1"), "192.168.0.1", []string{"POST networks", "POST subnets"}},
		{"an IPv6 network is created, with Neutron's default gateway", View{}, wants("fd00:1::/64", ""), "fd00:1::", []string{"POST networks", "POST subnets"}},
		{"the gateway changes to an address in the allocation pool", wants("192.168.0.0/16", "192.168.0.1"), wants("192.168.0.0/16", "192.168.1.1"), "192.168.1.1", []string{"PUT subnets"}},
		{"the CIDR changes to one that does not overlap", wants("192.168.0.0/16", ""), wants("10.0.0.0/24", ""), "10.0.0.1", []string{"GET ports", "POST subnets", "GET ports", "DELETE subnets"}},
		{"the CIDR grows", wants("10.0.0.0/24", ""), wants("10.0.0.0/16", ""), "10.0.0.1", []string{"GET ports", "DELETE subnets", "POST subnets"}},
		{"the name changes", wants("10.0.0.0/24", "", func(d *View) { d.Network.Name = "x" }), wants("10.0.0.0/24", ""), "10.0.0.1", []string{"PUT networks", "PUT subnets"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			have := &Observed{}
			if test.first.Network.Name != "" {
				have, _ = w.converge(t, test.first, have)
			}
			w.told = nil
			have, requests := w.converge(t, test.then, have)
			equal(t, test.requests, requests)

			now := w.inNeutron(t, have.ID)
			equal(t, testName+" "+owner.Mark(), now.Name+" "+now.Description)
			if len(now.Subnets) != 1 {
				t.Fatalf("got subnets %+v, want one", now.Subnets)
			}
			s := now.Subnets[0]
			equal(t, []any{testName, owner.Mark(), test.then.Subnets[0].CIDR, addr(test.gateway)}, []any{s.Name, s.Description, s.CIDR, s.Gateway})

			// The cache is the same as Neutron, so a relist notifies of nothing.
			remembered, known := w.remembered(t)
			equal(t, true, known)
			equal(t, true, sameObserved(now, remembered))
			noError(t, w.Observer().Relist(t.Context()))
			equal(t, []types.UID(nil), w.told)
			if found, err := w.readNeutron(t.Context(), identity, false); err != nil || !sameObserved(now, found) {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}

func TestACloudHasAName(t *testing.T) {
	equal(t, "test", newWorld(t, embedded.Options{}).Name())
}

func TestFind(t *testing.T) {
	t.Parallel()
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}.Mark()
	for _, test := range []struct {
		name         string
		mark, subnet string // the descriptions; no subnet if it is "-"
		lastSeen     bool   // whether the status has the network's ID
		want         bool
	}{
		{"a network with the mark", owner.Mark(), "-", false, true},
		{"a network in the status without a mark, with a subnet that has the mark", "", owner.Mark(), true, true},
		{"a network in the status without a mark, with a subnet without a mark: an ID alone proves nothing", "", "", true, false},
		{"a network in the status without a mark, with a subnet of another owner", "", other, true, false},
		{"a network that has only the name", "", "", false, false},
		{"a network without a mark that is not in the status, with a subnet that has the mark", "", owner.Mark(), false, false},
		{"a network in the status with the mark of another owner", other, owner.Mark(), true, false},
		{"a network in the status with the mark of the same UID in another cluster", Owner{"other", owner.UID}.Mark(), owner.Mark(), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			made := makeNetwork(t, w.others, testName, test.mark)
			if test.subnet != "-" {
				s, err := w.others.CreateSubnet(t.Context(), made.ID, markedSubnet("10.0.0.0/24", test.subnet).fields())
				noError(t, err)
				made.Subnets = []Subnet{s}
			}
			as := identity
			if test.lastSeen {
				as = seen(having(&made))
			}
			got, err := w.readNeutron(t.Context(), as, false)
			noError(t, err)
			equal(t, test.want, got.ID == made.ID)
			equal(t, test.want, got.Exists())
			remembered, known := w.remembered(t)
			equal(t, true, known)
			equal(t, got.ID, remembered.ID)
		})
	}
}

func TestFindPrefersTheNetworkInTheStatus(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	ids := makeNetworks(t, w.others, 3)
	for known, want := range map[string]string{ids[0]: ids[0], ids[2]: ids[2], "gone": ids[0]} {
		as := Identity{Owner: owner, NetworkID: known}
		got, err := w.readNeutron(t.Context(), as, false)
		noError(t, err)
		remembered, err := w.read(t.Context(), as, Cached)
		noError(t, err)
		equal(t, []string{want, want}, []string{got.ID, remembered.ID})
	}
}

func TestTheNetworkInTheStatusIsKeptAlthoughTheOtherIsInUse(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	ids := makeNetworks(t, w.others, 2)
	makePort(t, w.others, ids[0], "web-0", "compute:nova")
	as := Identity{Owner: owner, NetworkID: ids[1]}
	have, err := w.readNeutron(t.Context(), as, false)
	noError(t, err)
	have, err = w.pickSurvivor(t.Context(), as, have)
	noError(t, err)
	equal(t, ids[1], have.ID)
	step := DeleteNetwork{Network: have.Duplicates[0], IsDuplicate: true}
	equal(t, ids[0], step.Network.ID)
	kept, err := w.takeOne(t, as, have, step)
	equal(t, have, kept)
	equal(t, InUse, ReasonOf(err))
}

// A list that begins again can show a network twice. It is no duplicate of itself.
func TestANetworkThatIsListedTwiceIsKept(t *testing.T) {
	w, have := made(t, wants("10.0.0.0/24", ""))
	var all struct {
		Networks []object `json:"networks"`
	}
	noError(t, w.others.send(t.Context(), http.MethodGet, nil, &all, nil, "networks"))
	body, err := json.Marshal(object{"networks": append(all.Networks, all.Networks...)})
	noError(t, err)
	w.answer(replyTo("GET", networksPath, 200, string(body)))
	noError(t, w.Observer().Relist(t.Context()))
	w.answer(nil)
	_, steps, err := w.convergeFrom(t, seen(have), wants("10.0.0.0/24", ""), w.observe(t, seen(have), Cached), Guard{})
	noError(t, err)
	equal(t, []string(nil), texts(steps))
}

func TestTheNetworkWithPortsIsKeptAfterASecondRead(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	ids := makeNetworks(t, w.others, 2)
	makePort(t, w.others, ids[1], "web-0", "compute:nova")
	noError(t, w.Observer().Relist(t.Context()))
	observed := w.observe(t, identity, Cached)
	w.theirs(t, ids[1], "theirs", owner.Mark()) // the revision is outdated
	cidr := w.inNeutron(t, ids[1]).Subnets[0].CIDR.String()
	kept, _, err := w.convergeFrom(t, identity, wants(cidr, ""), observed, Guard{})
	noError(t, err)
	equal(t, ids[1], kept.ID)
	_, err = w.others.GetNetwork(t.Context(), ids[0])
	equal(t, NotFound, ReasonOf(err))
}

func TestTheOnlyNetworkIsKeptWithoutARequest(t *testing.T) {
	w, have := made(t, wants("10.0.0.0/24", ""))
	w.answer(func(rw http.ResponseWriter, _ *http.Request) bool { return reply(rw, 500, "") })
	got, err := w.pickSurvivor(t.Context(), identity, have)
	noError(t, err)
	equal(t, have, got)
}

func TestAFindThatFailsDoesNotChangeTheCache(t *testing.T) {
	for _, path := range []string{networksPath, subnetsPath} {
		w, have := made(t, wants("10.0.0.0/24", ""))
		w.answer(replyTo("GET", path, 500, ""))
		_, err := w.readNeutron(t.Context(), seen(have), false)
		equal(t, Unavailable, ReasonOf(err))
		remembered, known := w.remembered(t)
		equal(t, true, known)
		equal(t, have.ID, remembered.ID)
	}
}

func TestTheCacheAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		known  bool
	}{
		{"a refusal does not change the cache", 400, neutronBody("InvalidInput", ""), true},
		{"a missing permission does not change it", 403, neutronBody("PolicyNotAuthorized", ""), true},
		{"a refused token does not change it", 401, keystoneBody(401, unauthorized), true},
		{"a network in use does not change it", 409, neutronBody("NetworkInUse", ""), true},
		{"an exhausted quota does not change it", 409, neutronBody("OverQuota", ""), true},
		{"another revision: the cache is outdated", 412, neutronBody("RevisionNumberConstraintFailed", ""), false},
		{"an error of a proxy: the change may have taken effect", 502, proxysPage, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, have := made(t, wants("10.0.0.0/24", ""))
			w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
				return r.Method != "GET" && strings.HasPrefix(r.URL.Path, networksPath) && reply(rw, test.status, test.body)
			})
			got, stepErr := w.takeOne(t, identity, have, renaming("x"))
			equal(t, have, got)
			_, known := w.remembered(t)
			equal(t, test.known, known)

			w.Observer().Update(owner.UID, have)
			deleteErr := w.delete(t.Context(), identity, have)
			_, known = w.remembered(t)
			equal(t, test.known, known)
			if stepErr == nil || deleteErr == nil {
				t.Errorf("got the errors %v and %v", stepErr, deleteErr)
			}
		})
	}
}

func TestAChangeOfAnotherClientIsNotOverwritten(t *testing.T) {
	w, have := made(t, wants("10.0.0.0/24", ""))
	have = w.inNeutron(t, have.ID)
	subnet := have.Subnets[0]
	w.theirs(t, have.ID, "x", owner.Mark())
	put(t, w.others, "subnet", subnet.ID, object{"name": "x"})
	for _, step := range []Step{renaming(testName), renamingSubnet(subnet.ID, testName), DeleteSubnet{ID: subnet.ID, CIDR: subnet.CIDR}} {
		_, err := w.takeOne(t, identity, have, step)
		equal(t, Stale, ReasonOf(err))
	}
	now := w.inNeutron(t, have.ID)
	equal(t, "x x", now.Name+" "+now.Subnets[0].Name)
}

func TestChangesFailIfThePortsCannotBeListed(t *testing.T) {
	w, have := made(t, wants("10.0.0.0/24", ""))
	makePort(t, w.others, have.ID, "web-0", "compute:nova")
	w.answer(replyTo("GET", portsPath, 500, ""))
	// Before a replacement, the ports are not known, so nothing is changed.
	_, err := w.takeOne(t, identity, have, at(wants("10.1.0.0/24", ""), have).Next())
	wantError(t, Error{Op: "list ports", Reason: Unavailable, Message: "500 Internal Server Error"}, err)
	equal(t, 1, len(w.inNeutron(t, have.ID).Subnets))
	// After a refused delete, the error has Neutron's own message.
	err = w.delete(t.Context(), identity, have)
	equal(t, InUse, ReasonOf(err))
	if !strings.Contains(err.Error(), have.ID) {
		t.Errorf("got %v", err)
	}
}

// A network that has changed since it was read is read again.
func TestDelete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		rename, hasNoMark bool // by another client, after the network was read
		tap               func(http.ResponseWriter, *http.Request) bool
		want              ErrorReason
		isDeleted         bool
	}{
		{"a network is deleted with its subnets", false, false, nil, "", true},
		{"a renamed network is deleted", true, false, nil, "", true},
		{"a network without its mark stays, and is read again: its subnet has the mark", false, true, nil, Stale, false},
		{"a network for which a proxy answers 404 stays", true, false, replyTo("GET", networksPath, 404, "no backend"), Unavailable, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, have := made(t, wants("10.0.0.0/24", ""))
			have = w.inNeutron(t, have.ID)
			switch {
			case test.rename:
				w.theirs(t, have.ID, "x", have.Description)
			case test.hasNoMark:
				w.theirs(t, have.ID, "", "")
			}
			w.answer(test.tap)
			equal(t, test.want, ReasonOf(w.delete(t.Context(), seen(have), have)))
			w.answer(nil)
			_, err := w.others.GetNetwork(t.Context(), have.ID)
			equal(t, test.isDeleted, ReasonOf(err) == NotFound)
			remembered, known := w.remembered(t)
			equal(t, test.want == "", known && !remembered.Exists())
		})
	}
}
