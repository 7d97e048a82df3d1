// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var errRefused = errors.New("not approved")

// writes returns the number of requests so far that can change something in Neutron.
func (w *world) writes() (n int) {
	for _, request := range w.requests() {
		if strings.Contains(request, "/networking/") && !strings.HasPrefix(request, "GET ") {
			n++
		}
	}
	return n
}

// since calls do, and returns the requests that it made of Neutron.
func (w *world) since(do func()) []string {
	w.mu.Lock()
	w.served = nil
	w.mu.Unlock()
	do()
	return w.changes(nil)
}

// verifying returns a Guard that approves that many steps that cannot be undone. It adds to asked
// how many writes were made before each of them.
func (w *world) verifying(asked *[]int, approved int) Guard {
	before := w.writes()
	return Guard{Verify: func(context.Context) error {
		*asked = append(*asked, w.writes()-before)
		if len(*asked) > approved {
			return errRefused
		}
		return nil
	}}
}

func TestConvergeAsksBeforeEachStepThatCannotBeUndone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		first, then View
		// duplicates is the number of further networks with the mark.
		duplicates int
		steps      []string
		// irreversible are the indexes of the steps that cannot be undone.
		irreversible []int
	}{
		{"nothing to do", wants("10.0.0.0/24", ""), wants("10.0.0.0/24", ""), 0, nil, nil},
		{"a new network", View{}, wants("10.0.0.0/24", ""), 0, []string{"network created", "subnet 10.0.0.0/24 created"}, []int{0}},
		{"a CIDR that overlaps", wants("10.0.0.0/24", ""), wants("10.0.0.0/16", ""), 0, []string{"subnet 10.0.0.0/24 deleted", "subnet 10.0.0.0/16 created"}, []int{0}},
		{"another name", wants("10.0.0.0/24", "", func(d *View) { d.Network.Name = "x" }), wants("10.0.0.0/24", ""), 0,
			[]string{"name set to default/web", "subnet name set to default/web"}, nil},
		{"duplicates, after the rest", wants("10.0.0.0/24", ""), wants("10.0.0.0/24", "none"), 2,
			[]string{"gateway removed", "duplicate network ID deleted", "duplicate network ID deleted"}, []int{1, 2}},
	} {
		// The last round has a paused Network.
		for approved := range len(test.irreversible) + 2 {
			t.Run(fmt.Sprintf("%s, %d steps approved", test.name, approved), func(t *testing.T) {
				w := newWorld(t, embedded.Options{})
				observed := &Observed{}
				if test.first.Network.Name != "" {
					observed, _ = w.converge(t, test.first, observed)
				}
				as := seen(observed)
				if test.duplicates > 0 {
					makeNetworks(t, w.others, test.duplicates)
					observed = w.observe(t, as, Live)
				}
				var asked []int
				guard := w.verifying(&asked, approved)
				guard.Paused = approved > len(test.irreversible)
				got, steps, err := w.convergeFrom(t, as, test.then, observed, guard)
				var done []string
				for _, text := range texts(steps) {
					done = append(done, anyID.ReplaceAllString(text, "ID"))
				}
				switch {
				case guard.Paused && len(test.steps) > 0:
					equal(t, []int(nil), asked)
					equal(t, []string(nil), done)
					wantError(t, Error{Op: "paused by the annotation samplecrd.k8s.io/paused", Reason: Paused, Message: "next step: " + test.steps[0]}, err)
				case approved < len(test.irreversible):
					equal(t, test.irreversible[:approved+1], asked) // each step before makes one write
					equal(t, test.steps[:test.irreversible[approved]], done)
					equal(t, true, errors.Is(err, errRefused))
				default:
					noError(t, err)
					equal(t, test.irreversible, asked)
					equal(t, test.steps, done)
				}
				if got.Exists() {
					equal(t, true, same(&got.Network, &w.inNeutron(t, got.ID).Network))
				}
				left, err := w.others.ListNetworks(t.Context())
				noError(t, err)
				want := test.duplicates - strings.Count(strings.Join(done, ","), "duplicate")
				if got.Exists() {
					want++
				}
				equal(t, want, len(left))
			})
		}
	}
}

// anyID matches the IDs in texts.
var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func TestConvergeReadsOnceMoreIfItIsOutdated(t *testing.T) {
	t.Parallel()
	stale := func(rw http.ResponseWriter, r *http.Request) bool {
		return r.Method == "PUT" && strings.HasPrefix(r.URL.Path, networksPath) && reply(rw, 412, neutronBody("RevisionNumberConstraintFailed", ""))
	}
	renamed := func(d *View) { d.Network.Name = "renamed" }
	for _, test := range []struct {
		name string
		// change is made by another client after the network was observed. It returns the network
		// that the controller takes for observed.
		change   func(t *testing.T, w *world, n *Observed) *Observed
		desired  View
		steps    int
		requests []string
		err      ErrorReason
	}{
		{"another client was faster", func(t *testing.T, w *world, n *Observed) *Observed {
			w.theirs(t, n.ID, "x", n.Description)
			return n
		}, wants("10.0.0.0/24", "", renamed), 2, []string{"PUT networks", "GET networks", "GET subnets", "PUT networks", "PUT subnets"}, ""},
		{"a subnet that was created in spite of a time-out overlaps with itself", func(_ *testing.T, _ *world, n *Observed) *Observed {
			return n.withoutSubnet(n.Subnets[0].ID)
		}, wants("10.0.0.0/24", ""), 0, []string{"POST subnets", "GET networks", "GET subnets"}, ""},
		{"a subnet that overlaps with an unmanaged one is refused again without a request", func(t *testing.T, w *world, n *Observed) *Observed {
			w.subnet(t, n.ID, "10.1.0.0/24", "")
			return w.inNeutron(t, n.ID)
		}, wants("10.1.0.0/16", ""), 0, []string{"GET ports", "GET networks", "GET subnets"}, Invalid},
		{"the revision is outdated again", func(_ *testing.T, w *world, n *Observed) *Observed {
			w.answer(stale)
			return n
		}, wants("10.0.0.0/24", "", renamed), 0, []string{"PUT networks", "GET networks", "GET subnets", "PUT networks"}, Stale},
		{"Neutron cannot be read", func(_ *testing.T, w *world, n *Observed) *Observed {
			w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
				return stale(rw, r) || replyTo("GET", networksPath, 500, "")(rw, r)
			})
			return n
		}, wants("10.0.0.0/24", "", renamed), 0, []string{"PUT networks", "GET networks"}, Unavailable},
		{"other errors are not about what was observed", func(_ *testing.T, w *world, n *Observed) *Observed {
			w.answer(replyTo("PUT", networksPath, 400, neutronBody("InvalidInput", "")))
			return n
		}, wants("10.0.0.0/24", "", renamed), 0, []string{"PUT networks"}, Invalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, n := made(t, wants("10.0.0.0/24", ""))
			observed := test.change(t, w, w.inNeutron(t, n.ID))
			var got *Observed
			var steps []Step
			var err error
			requests := w.since(func() {
				got, steps, err = w.convergeFrom(t, seen(n), test.desired, observed, Guard{})
			})
			w.answer(nil)
			equal(t, test.err, ReasonOf(err))
			equal(t, test.steps, len(steps))
			equal(t, test.requests, requests)
			if err == nil {
				equal(t, Step(nil), at(test.desired, w.inNeutron(t, n.ID)).Next())
				equal(t, true, sameObserved(got, w.inNeutron(t, n.ID)))
			}
		})
	}
}

func TestAnswersThatDoNotShowTheChangeEndConverge(t *testing.T) {
	w, n := made(t, wants("10.0.0.0/24", ""))
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		return r.Method == "PUT" && reply(rw, 200, fmt.Sprintf(`{"network": {"id": %q, "name": "x", "description": %q}}`, n.ID, n.Description))
	})
	var steps []Step
	var err error
	requests := w.since(func() {
		_, steps, err = w.convergeFrom(t, seen(n), wants("10.0.0.0/24", "", func(d *View) { d.Network.Name = "renamed" }), n, Guard{})
	})
	wantError(t, Error{Op: "change network", Reason: Unavailable, Message: "Neutron's answers do not show the requested change: name set to renamed"}, err)
	equal(t, 0, len(steps)) // nothing that was done can be reported
	equal(t, []string{"PUT networks"}, requests)
}

func TestConvergeEndsIfNeutronCannotTellWhichNetworkToKeep(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	makeNetworks(t, w.others, 2)
	observed, err := w.readNeutron(t.Context(), identity, false)
	noError(t, err)
	w.answer(replyTo("GET", portsPath, 500, ""))
	before := w.writes()
	got, steps, err := w.convergeFrom(t, identity, wants("10.0.0.0/24", ""), observed, Guard{Verify: func(context.Context) error {
		t.Error("a step was chosen")
		return nil
	}})
	equal(t, before, w.writes())
	if got != nil || steps != nil || ReasonOf(err) != Unavailable {
		t.Errorf("got %+v, %v, %v", got, steps, err)
	}
}

func TestConvergeKeepsTheNetworkThatIsInUse(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	ids := makeNetworks(t, w.others, 3)
	makePort(t, w.others, ids[1], "web-0", "compute:nova")
	observed, err := w.readNeutron(t.Context(), identity, false)
	noError(t, err)
	kept := w.inNeutron(t, ids[1])
	got, _, err := w.convergeFrom(t, identity, wants(kept.Subnets[0].CIDR.String(), ""), observed, Guard{})
	noError(t, err)
	equal(t, ids[1], got.ID)
	left, err := w.others.ListNetworks(t.Context())
	noError(t, err)
	equal(t, []string{ids[1]}, idsOf(left))
}

func TestRemove(t *testing.T) {
	t.Parallel()
	takeMark := func(t *testing.T, w *world, ids []string) { w.theirs(t, ids[0], "", "somebody's own") }
	for _, test := range []struct {
		name     string
		networks int
		retain   bool
		// change is made by another client, before the networks are observed.
		change func(t *testing.T, w *world, ids []string)
		// refuse is the number of the approval that is refused, counted from 1; 0: none is.
		refuse int
		paused bool
		// approvals is how many approvals are requested.
		approvals int
		// left are the numbers of the networks that Neutron still has, marked those that still
		// have their marks.
		left, marked []int
		kept         int // its number; -1: none
		err          ErrorReason
	}{
		{name: "nothing to remove", kept: -1},
		{name: "a network", networks: 1, approvals: 1, kept: -1},
		{name: "the second is not approved", networks: 3, refuse: 2, approvals: 2, left: []int{1, 2}, marked: []int{1, 2}, kept: -1},
		{name: "the Network is paused", networks: 2, paused: true, left: []int{0, 1}, marked: []int{0, 1}, kept: -1, err: Paused},
		{name: "the Network is paused, and its network is retained", networks: 1, retain: true, paused: true, left: []int{0}, marked: []int{0}, kept: -1, err: Paused},
		{name: "a retained network", networks: 1, retain: true, approvals: 2, left: []int{0}, kept: 0},
		{name: "a network that goes before it is retained", networks: 1, retain: true, change: func(t *testing.T, w *world, ids []string) {
			w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == "GET" && r.URL.Path == networksPath+"/"+ids[0] {
					noError(t, w.others.DeleteNetwork(t.Context(), ids[0], nil))
				}
				return false
			})
		}, approvals: 2, kept: 0},
		{name: "retained duplicates", networks: 2, retain: true, approvals: 4, left: []int{0, 1}, kept: 0},
		{name: "a network whose mark was removed is left alone", networks: 1, change: takeMark, approvals: 1, left: []int{0}, kept: 0},
		{name: "a network that is in use", networks: 2, change: func(t *testing.T, w *world, ids []string) {
			makePort(t, w.others, ids[1], "web-0", "compute:nova")
		}, approvals: 2, left: []int{1}, marked: []int{1}, kept: -1, err: InUse},
		{name: "Neutron is away", networks: 1, change: func(_ *testing.T, w *world, _ []string) {
			w.answer(replyTo("DELETE", networksPath, 500, ""))
		}, approvals: 1, left: []int{0}, marked: []int{0}, kept: -1, err: Unavailable},
		{name: "Neutron does not delete the network", networks: 1, change: func(_ *testing.T, w *world, _ []string) {
			w.answer(replyTo("DELETE", networksPath, 204, ""))
		}, approvals: maxSteps, left: []int{0}, marked: []int{0}, kept: -1, err: Unavailable},
		{name: "Neutron is away, and the network is retained", networks: 1, retain: true, change: func(_ *testing.T, w *world, _ []string) {
			w.answer(replyTo("PUT", networksPath, 500, ""))
		}, approvals: 2, left: []int{0}, marked: []int{0}, kept: -1, err: Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			ids := makeNetworks(t, w.others, test.networks)
			as := identity
			if len(ids) > 0 {
				as.NetworkID = ids[0]
			}
			if test.change != nil {
				test.change(t, w, ids)
			}
			observed := w.observe(t, as, Live)
			before, approvals := w.writes(), 0
			kept, err := w.Remove(t.Context(), as, observed, test.retain, Guard{Paused: test.paused, Verify: func(context.Context) error {
				if approvals++; approvals == 1 {
					equal(t, before, w.writes())
				}
				if approvals == test.refuse {
					return errRefused
				}
				return nil
			}})
			w.answer(nil)
			equal(t, test.approvals, approvals)
			equal(t, test.refuse > 0, errors.Is(err, errRefused))
			equal(t, test.err, ReasonOf(err))
			equal(t, test.err != "", errorIn(err).Message != "")
			keptIndex := -1
			if kept != nil {
				keptIndex = slices.Index(ids, kept.ID)
			}
			equal(t, test.kept, keptIndex)

			var left, marked []int
			for i, id := range ids {
				n, err := w.others.GetNetwork(t.Context(), id)
				if ReasonOf(err) == NotFound {
					continue
				}
				noError(t, err)
				left = append(left, i)
				if identity.Marks(n) {
					marked = append(marked, i)
				}
				if test.kept == i && test.retain {
					equal(t, "", n.Description+n.Subnets[0].Description)
				}
			}
			equal(t, test.left, left)
			equal(t, test.marked, marked)
			if test.kept >= 0 && !test.retain {
				equal(t, before, w.writes()) // it is left alone
			}
			// What is gone, or not the owner's any more, is not cached.
			if cached, known := w.remembered(t); known && err == nil && (kept == nil || test.retain) {
				equal(t, false, cached.Exists())
			}
		})
	}
}

// Without a request to Neutron, what is known of it stays: an API server that is away costs Neutron nothing.
func TestALiveReadThatFailsDoesNotDropTheCache(t *testing.T) {
	for _, retain := range []bool{false, true} {
		w, n := made(t, wants("10.0.0.0/24", ""))
		_, err := w.Remove(t.Context(), seen(n), n, retain, w.verifying(new([]int), 0))
		equal(t, true, errors.Is(err, errRefused))
		var again *Observed
		equal(t, 0, len(w.since(func() { again = w.observe(t, seen(n), Cached) })))
		equal(t, n.ID, again.ID)
	}
}

func TestANetworkThatLosesItsMarkDuringTheRemovalStays(t *testing.T) {
	for _, retain := range []bool{false, true} {
		w, n := made(t, wants("10.0.0.0/24", ""))
		n = w.inNeutron(t, n.ID)
		kept, err := w.Remove(t.Context(), seen(n), n, retain, Guard{Verify: func(context.Context) error {
			w.theirs(t, n.ID, "", "somebody's own")
			return nil
		}})
		if ReasonOf(err) == Stale { // the next sync reads it
			kept, err = w.Remove(t.Context(), seen(n), w.observe(t, seen(n), Cached), retain, Guard{})
		}
		noError(t, err)
		equal(t, n.ID, kept.ID)
		equal(t, "somebody's own", w.inNeutron(t, n.ID).Description)
	}
}

func TestWhereObserveReads(t *testing.T) {
	t.Parallel()
	var (
		none     []string
		byMark   = []string{"GET networks"}
		complete = []string{"GET networks", "GET subnets"}
	)
	const (
		inBoth       = "the cache is right"
		inNeither    = "there is no network"
		inNeutron    = "the network is not in the cache"
		inCache      = "the network is gone from Neutron"
		notKnown     = "the cache does not know, and Neutron has it"
		noneNotKnown = "the cache does not know, and Neutron has none"
	)
	for _, test := range []struct {
		state    string
		read     Read
		exists   bool
		requests []string
	}{
		{inBoth, Cached, true, none},
		{inBoth, CacheOnly, true, none},
		{inBoth, Live, true, complete},
		{inNeither, Cached, false, byMark},
		{inNeither, CacheOnly, false, none},
		{inNeither, Live, false, byMark},
		{inNeutron, Cached, true, complete},
		{inNeutron, CacheOnly, false, none},
		{inNeutron, Live, true, complete},
		{inCache, Cached, true, none},
		{inCache, CacheOnly, true, none},
		{inCache, Live, false, byMark},
		{notKnown, Cached, true, complete},
		{notKnown, CacheOnly, true, complete},
		{notKnown, Live, true, complete},
		{noneNotKnown, CacheOnly, false, byMark},
	} {
		t.Run(fmt.Sprint(test.state, ", read ", test.read), func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			if test.state != inNeither && test.state != noneNotKnown {
				w.converge(t, wants("10.0.0.0/24", ""), &Observed{})
			}
			switch test.state {
			case inNeutron:
				w.Observer().replace(owner.UID, &Observed{})
			case inCache:
				cached, _ := w.remembered(t)
				noError(t, w.others.DeleteNetwork(t.Context(), cached.ID, nil))
			case notKnown, noneNotKnown:
				w.Observer().Invalidate(owner.UID)
			}
			var got *Observed
			var err error
			requests := w.since(func() { got, err = w.Observe(t.Context(), identity, test.read) })
			noError(t, err)
			equal(t, test.exists, got.Exists())
			equal(t, test.requests, requests)
		})
	}
}

func TestObserveFailsWithTheFirstList(t *testing.T) {
	l := newLab(t, embedded.Options{})
	cloud := NewCloud("test", l.client(t), owner.Cluster, time.Minute)
	l.answer(replyTo("GET", networksPath, 403, neutronBody("PolicyNotAuthorized", "")))
	equal(t, Forbidden, ReasonOf(cloud.Observer().Relist(t.Context())))
	l.answer(nil)
	before := len(l.requests())
	for _, read := range []Read{Cached, CacheOnly} {
		_, err := cloud.Observe(t.Context(), identity, read)
		equal(t, Forbidden, ReasonOf(err))
	}
	equal(t, before, len(l.requests()))
	got, err := cloud.Observe(t.Context(), identity, Live)
	noError(t, err)
	equal(t, false, got.Exists())
}

func TestANetworkOfAnotherPlaceIsNotCreatedAgain(t *testing.T) {
	const one, two = "RegionOne", "RegionTwo"
	here := Place{Project: "project-1", Region: one}
	for _, test := range []struct {
		name      string
		id, cloud string
		place     Place
		connected bool
		want      ErrorReason
	}{
		{"it was never created", "", "other", Place{Project: "p"}, true, ""},
		{"a user has cleared status.cloud to abandon it", "n", "", Place{Project: "p"}, true, ""},
		{"the same place", "n", "test", here, true, ""},
		{"another project", "n", "test", Place{Project: "p", Region: one}, true, OtherCloud},
		{"the same project, in a status without a region", "n", "test", Place{Project: "project-1"}, true, ""},
		{"another region", "n", "test", Place{Project: "project-1", Region: "r"}, true, OtherCloud},
		{"a status without a project, and the same cloud", "n", "test", Place{}, true, ""},
		{"a status without a project, and another cloud", "n", "other", Place{}, true, OtherCloud},
		{"the same place, but the session has ended", "n", "test", here, false, Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			if !test.connected {
				w.Client().session.Store(nil)
			}
			as := Identity{Owner: owner, NetworkID: test.id, CloudName: test.cloud, Place: test.place}
			got, err := w.Observe(t.Context(), as, CacheOnly)
			equal(t, test.want, ReasonOf(err))
			equal(t, false, got.Exists())
		})
	}
	for _, test := range []struct {
		name  string
		place Place
		want  ErrorReason
	}{
		{"the same place", here, ""},
		{"the other region", Place{Project: "project-1", Region: two}, OtherCloud},
		{"a status without a region, which can mean either", Place{Project: "project-1"}, OtherCloud},
		{"a status without a project and a region", Place{}, OtherCloud},
		{"a status without a project", Place{Region: one}, ""},
	} {
		t.Run("of two regions: "+test.name, func(t *testing.T) {
			l := newLab(t, embedded.Options{})
			l.SetRegions(embedded.Region{Name: two, Neutron: "two"}, embedded.Region{Name: one})
			cloud := NewCloud("test", l.clientIn(t, one), owner.Cluster, time.Minute)
			noError(t, cloud.Observer().Relist(t.Context()))
			_, err := cloud.Observe(t.Context(), Identity{Owner: owner, NetworkID: "n", CloudName: "test", Place: test.place}, Cached)
			equal(t, test.want, ReasonOf(err))
		})
	}
	t.Run("the error names both places", func(t *testing.T) {
		w := newWorld(t, embedded.Options{})
		_, err := w.Observe(t.Context(), Identity{Owner: owner, NetworkID: "n", CloudName: "other", Place: Place{Project: "p", Region: "r"}}, Cached)
		wantError(t, Error{Op: "find network n", Reason: OtherCloud, Message: `it was created in cloud "other", project "p" in region "r"; cloud "test", project "project-1" in region "RegionOne", does not have it: ` +
			"give the controller the credentials of the former, or clear status.cloud to abandon that network"}, err)
	})
}

// The network that the status names may have become another Network's: it was handed over, or the Network was restored from a backup
// of another cluster with its status.
func TestNoNetworkIsCreatedInPlaceOfOneThatHasAnotherOwner(t *testing.T) {
	for _, test := range []struct {
		name        string
		description string
		cloud       string
		isGone      bool
		want        ErrorReason
		remedy      string
	}{
		{"another Network's of this cluster", Owner{owner.Cluster, otherUID}.Mark(), "test", false, OtherOwner, "restore the mark " + owner.Mark()},
		{"another cluster's", "kept, " + Owner{"another-cluster", otherUID}.Mark(), "test", false, OtherOwner, "run samplecrd-controller move to give it to this Network; or clear status.cloud"},
		{"a user has cleared status.cloud to abandon it", Owner{owner.Cluster, otherUID}.Mark(), "", false, "", ""},
		{"that of the same Network in the cluster that this one is a copy of", Owner{"another-cluster", owner.UID}.Mark(), "test", false, "", ""},
		{"nobody's", "a user has removed the mark", "test", false, "", ""},
		{"gone", "", "test", true, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, have := made(t, wants("10.0.0.0/24", ""))
			w.theirs(t, have.ID, "", test.description)
			put(t, w.others, "subnet", have.Subnets[0].ID, object{"description": test.description})
			if test.isGone {
				noError(t, w.others.DeleteNetwork(t.Context(), have.ID, nil))
			}
			as := Identity{Owner: owner, NetworkID: have.ID, CloudName: test.cloud, Place: Place{Project: "project-1", Region: "RegionOne"}}
			for _, read := range []Read{Cached, Live} {
				w.Observer().Invalidate(owner.UID)
				_, err := w.Observe(t.Context(), as, read)
				equal(t, test.want, ReasonOf(err))
				if !strings.Contains(fmt.Sprint(err), test.remedy) {
					t.Errorf("got %v, want %q", err, test.remedy)
				}
			}
			as.IsDeleted = true
			got, err := w.Observe(t.Context(), as, Live)
			noError(t, err)
			equal(t, false, got.Exists())
		})
	}
}

// A user may take back the deletion between the two requests.
func TestADeletionThatIsRepeatedIsVerifiedAgain(t *testing.T) {
	portsHaveJustGone := func(w *world) {
		var asked atomic.Int32
		w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
			return r.Method == "DELETE" && asked.Add(1) == 1 && reply(rw, http.StatusConflict, neutronBody("NetworkInUse", ""))
		})
	}
	for _, test := range []struct {
		name    string
		prevent func(*world)
		asked   int
	}{
		{"nothing prevents it", func(*world) {}, 1},
		{"ports that cannot be seen have just gone", portsHaveJustGone, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, approved := range []int{test.asked - 1, test.asked} {
				w, n := made(t, wants("10.0.0.0/24", ""))
				n = w.inNeutron(t, n.ID)
				test.prevent(w)
				var asked []int
				_, err := w.Remove(t.Context(), seen(n), n, false, w.verifying(&asked, approved))
				equal(t, test.asked, len(asked))
				equal(t, approved < test.asked, errors.Is(err, errRefused))
				_, err = w.others.GetNetwork(t.Context(), n.ID)
				equal(t, approved < test.asked, err == nil)
			}
		})
	}
}

// Another client changes the network when it was read and the deletion was verified: the network may be theirs now.
func TestANetworkThatChangesRightBeforeItsDeletionStays(t *testing.T) {
	w, n := made(t, wants("10.0.0.0/24", ""))
	n = w.inNeutron(t, n.ID)
	guard := Guard{Verify: func(context.Context) error {
		put(t, w.others, "network", n.ID, object{"description": "mine now"})
		return nil
	}}
	_, err := w.Remove(t.Context(), seen(n), n, false, guard)
	equal(t, Stale, ReasonOf(err))
	fresh, err := w.others.GetNetwork(t.Context(), n.ID)
	noError(t, err)
	equal(t, "mine now", fresh.Description)
}

// Each answer makes one more subnet that the next step would replace. It is the same step.
func TestASubnetThatIsAnsweredWithAnotherCIDRIsCreatedOnce(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	posts := 0
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != subnetsPath {
			return false
		}
		posts++
		return reply(rw, http.StatusCreated, fmt.Sprintf(`{"subnet": {"id": "s-%d", "network_id": "x", "cidr": "10.%d.0.0/24", "description": %q}}`, posts, 100+posts, owner.Mark()))
	})
	v := wants("10.0.0.0/24", "")
	v.Observed = &Observed{}
	_, _, err := w.Converge(t.Context(), v, Guard{})
	equal(t, []any{Unavailable, 1}, []any{ReasonOf(err), posts})
}
