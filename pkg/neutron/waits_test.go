// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// waitingUIDs returns the owners that wait.
func (w *waits) waitingUIDs() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uids []types.UID
	for key := range w.all {
		uids = append(uids, key.owner)
	}
	slices.Sort(uids)
	return uids
}

func portOn(network, name string, subnets ...string) Port {
	p := Port{ID: name, Name: name, NetworkID: network}
	for _, id := range subnets {
		p.FixedIPs = append(p.FixedIPs, FixedIP{SubnetID: id})
	}
	return p
}

func TestWhichWaitsAListEnds(t *testing.T) {
	const owner = types.UID("u")
	onNetwork := blockersOfNetwork("n")
	onSubnets := blockers{op: "replace", network: "n", subnets: []string{"a", "b"}}
	for _, test := range []struct {
		name     string
		blockers blockers
		// listed are the networks whose ports were listed.
		listed []string
		ports  []Port
		// newer means that a sync listed the ports after this list began.
		newer bool
		wakes bool
		// message is what the owner then waits for; "": it does not wait any more.
		message string
	}{
		{name: "the ports are gone", blockers: onNetwork, listed: []string{"n"}, wakes: true},
		{name: "the port is still there", blockers: onNetwork, listed: []string{"n"}, ports: []Port{portOn("n", "web-0")}, message: "in use by port web-0 (no device)"},
		{name: "there is one more port", blockers: onNetwork, listed: []string{"n"}, ports: []Port{portOn("n", "web-1"), portOn("n", "web-0")}, wakes: true,
			message: "in use by port web-0 (no device), web-1 (no device)"},
		{name: "another network was listed", blockers: onNetwork, listed: []string{"m"}, message: "in use by port web-0 (no device)"},
		{name: "an old list", blockers: onNetwork, listed: []string{"n"}, newer: true, message: "in use by port web-0 (no device)"},
		{name: "a port in the second subnet", blockers: onSubnets, listed: []string{"n"}, ports: []Port{portOn("n", "web-0", "c", "b")}, message: "in use by port web-0 (no device)"},
		{name: "a port in another subnet", blockers: onSubnets, listed: []string{"n"}, ports: []Port{portOn("n", "web-0", "c"), portOn("n", "web-0")}, wakes: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w waits
			began := time.Now().Add(time.Hour)
			if test.newer {
				began = time.Now().Add(-time.Hour)
			}
			w.add(owner, test.blockers, "in use by port web-0 (no device)")
			equal(t, test.wakes, len(w.update(began, test.listed, test.ports)) == 1)
			err := w.check(owner, test.blockers)
			if test.message == "" {
				noError(t, err)
				return
			}
			wantError(t, Error{Op: test.blockers.op, Reason: InUse, Message: test.message}, err)
		})
	}
}

func TestAWaitIsForOneStep(t *testing.T) {
	replaces := blockers{op: "replace", network: "n", subnets: []string{"a"}}
	// After a restore of etcd, the status may have the router again only after a sync that waits.
	ofOwnRouter := replaces
	ofOwnRouter.except = []Interface{{PortID: "p", SubnetID: "a"}}
	for _, test := range []struct {
		name  string
		then  blockers
		waits bool
	}{
		{"the same step", replaces, true},
		{"a replacement of more subnets", blockers{op: "replace", network: "n", subnets: []string{"a", "b"}}, false},
		{"the deletion of the network", blockersOfNetwork("n"), false},
		{"a step that no port prevents", blockers{}, false},
		{"the same step, and the port turns out to be an interface of the Network's own router", ofOwnRouter, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w waits
			w.add("u", replaces, "x")
			err := w.check("u", test.then)
			equal(t, test.waits, ReasonOf(err) == InUse)
			equal(t, test.waits, len(w.waitingUIDs()) == 1)
			noError(t, w.check("v", replaces))
		})
	}
}

// portsAPI is a Neutron that answers lists of ports, and has no networks.
type portsAPI struct {
	mu     sync.Mutex
	ports  []Port
	status int // of the next answers; 0: 200
	// broken is a network whose lists get no answer.
	broken string
	// lists are the lists of ports, and when they were requested.
	lists []url.Values
	at    []time.Time
	// longest is the length of the longest request line.
	longest int
}

func (a *portsAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"120"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if !strings.HasSuffix(r.URL.Path, "/ports") {
		return reply(http.StatusOK, `{"networks": []}`)
	}
	query := r.URL.Query()
	a.lists, a.at = append(a.lists, query), append(a.at, time.Now())
	a.longest = max(a.longest, len("GET  HTTP/1.1\r\n")+len(r.URL.RequestURI()))
	if a.status != 0 {
		return reply(a.status, `{}`)
	}
	if slices.Contains(query["network_id"], a.broken) {
		return nil, errors.New("too many ports")
	}
	var items []string
	for _, p := range a.ports {
		if slices.Contains(query["network_id"], p.NetworkID) {
			items = append(items, fmt.Sprintf(`{"id": %q, "name": %q, "device_owner": "", "network_id": %q, "fixed_ips": []}`, p.ID, p.Name, p.NetworkID))
		}
	}
	return reply(http.StatusOK, `{"ports": [`+strings.Join(items, ",")+`]}`)
}

func (a *portsAPI) set(status int, ports ...Port) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.ports = status, ports
}

func (a *portsAPI) breakNetwork(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = id
}

// take returns the number of networks in each list since it was last called.
func (a *portsAPI) take() (networks []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, query := range a.lists {
		networks = append(networks, len(query["network_id"]))
	}
	a.lists = nil
	return networks
}

// runningCloud calls test with a Cloud that runs on a portsAPI, in virtual time, and with what its
// handler was called for.
func runningCloud(t *testing.T, test func(*testing.T, *Cloud, *portsAPI, func() []types.UID)) {
	synctest.Test(t, func(t *testing.T) {
		api := &portsAPI{}
		cloud := NewCloud("test", clientOf(api), owner.Cluster, time.Hour)
		var mu sync.Mutex
		var woken []types.UID
		cloud.Observer().AddHandler(func(uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			woken = append(woken, uid)
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { cloud.Run(ctx) })
		test(t, cloud, api, func() []types.UID {
			mu.Lock()
			defer mu.Unlock()
			all := woken
			woken = nil
			slices.Sort(all)
			return all
		})
		cancel()
		running.Wait()
	})
}

const uuidOfNetwork = "0a85c3e1-eb5c-4133-b676-%012d"

func TestAnOwnerIsWokenSoonAfterItsLastPort(t *testing.T) {
	for offset := range 20 { // the list has no fixed phase
		runningCloud(t, func(t *testing.T, c *Cloud, api *portsAPI, woken func() []types.UID) {
			c.waits.add("u", blockersOfNetwork("n"), "in use by port web-0 (no device)")
			api.set(0, portOn("n", "web-0"))
			time.Sleep(40*time.Second + time.Duration(offset)*time.Second)
			synctest.Wait()
			equal(t, []types.UID(nil), woken())
			if lists := len(api.take()); lists < 2 || lists > 4 {
				t.Errorf("%d lists in a minute", lists)
			}
			api.set(0)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			equal(t, []types.UID{"u"}, woken())
			noError(t, c.waits.check("u", blockersOfNetwork("n")))
			api.take()
			time.Sleep(time.Hour)
			equal(t, []int(nil), api.take())
			equal(t, []types.UID(nil), woken())
		})
	}
}

func TestAllOwnersShareTheLists(t *testing.T) {
	const owners = 500
	runningCloud(t, func(t *testing.T, c *Cloud, api *portsAPI, woken func() []types.UID) {
		var ports []Port
		sync := func() {
			for i := range owners {
				_ = c.waits.check(types.UID(fmt.Sprint(i)), blockersOfNetwork(fmt.Sprintf(uuidOfNetwork, i)))
			}
		}
		for i := range owners {
			id := fmt.Sprintf(uuidOfNetwork, i)
			c.waits.add(types.UID(fmt.Sprint(i)), blockersOfNetwork(id), "in use by port web-0 (no device)")
			ports = append(ports, portOn(id, "web-0"))
		}
		api.set(0, ports...)
		requests := 0
		for range 10 {
			time.Sleep(time.Minute)
			for _, networks := range api.take() {
				requests++
				if networks > maxFilterIDs {
					t.Errorf("%d networks in one list", networks)
				}
			}
			sync()
		}
		// The goal is less than one request per second.
		if most := 600 * 8 / 15; requests > most {
			t.Errorf("%d requests in 10 minutes, want at most %d", requests, most)
		}
		if api.longest > 4000 {
			t.Errorf("a request line of %d bytes", api.longest)
		}
		equal(t, []types.UID(nil), woken())
		api.set(0, ports[3:]...)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		equal(t, []types.UID{"0", "1", "2"}, woken())
	})
}

// A failed list must not pass for an empty one. And if all lists fail, or Neutron does not let
// the credentials see the ports any more, the owner must not wait for ever.
func TestAListThatFailsEndsNoWaitButAnOldWaitIsNotTrusted(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusNotFound, http.StatusTooManyRequests} {
		runningCloud(t, func(t *testing.T, c *Cloud, api *portsAPI, woken func() []types.UID) {
			c.waits.add("u", blockersOfNetwork("n"), "x")
			api.set(status)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			equal(t, []types.UID(nil), woken())
			equal(t, InUse, ReasonOf(c.waits.check("u", blockersOfNetwork("n"))))
			if status == http.StatusTooManyRequests && len(api.take()) > 2 {
				t.Error("Retry-After is ignored")
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			equal(t, []types.UID(nil), woken())
			noError(t, c.waits.check("u", blockersOfNetwork("n")))
		})
	}
}

func TestOneListThatFailsDoesNotDelayTheOthers(t *testing.T) {
	runningCloud(t, func(t *testing.T, c *Cloud, api *portsAPI, woken func() []types.UID) {
		for i := range 2 * maxFilterIDs {
			c.waits.add(types.UID(fmt.Sprintf("%03d", i)), blockersOfNetwork(fmt.Sprintf(uuidOfNetwork, i)), "x")
		}
		api.breakNetwork(fmt.Sprintf(uuidOfNetwork, 0))
		err := c.RelistPorts(t.Context())
		equal(t, Unavailable, ReasonOf(err))
		equal(t, maxFilterIDs, len(woken()))
		equal(t, maxFilterIDs, len(c.waits.waitingUIDs()))
	})
}

// The Network may be gone, or have another cloud: nobody ends its wait then.
func TestTheWaitOfAnOwnerThatIsNotSyncedAnyMoreEnds(t *testing.T) {
	runningCloud(t, func(t *testing.T, c *Cloud, api *portsAPI, woken func() []types.UID) {
		c.waits.add("synced", blockersOfNetwork("n"), "in use by port web-0 (no device)")
		c.waits.add("not synced", blockersOfNetwork("m"), "in use by port web-0 (no device)")
		api.set(0, portOn("n", "web-0"), portOn("m", "web-0"))
		for range 10 {
			time.Sleep(time.Minute)
			equal(t, InUse, ReasonOf(c.waits.check("synced", blockersOfNetwork("n"))))
		}
		equal(t, []types.UID{"synced"}, c.waits.waitingUIDs())
		equal(t, []types.UID(nil), woken())
		api.take()
		time.Sleep(time.Minute)
		for _, networks := range api.take() {
			equal(t, 1, networks)
		}
	})
}

// blockedWorld returns a world in which the network has a port, and what removes the port.
func blockedWorld(t *testing.T) (w *world, n *Observed, free func()) {
	t.Helper()
	w, n = made(t, wants("10.0.0.0/24", ""))
	id := makePort(t, w.others, n.ID, "web-0", "compute:nova")
	return w, w.inNeutron(t, n.ID), func() {
		t.Helper()
		noError(t, w.others.delete(t.Context(), "delete", "ports", id, nil))
	}
}

// While ports prevent a step, only the first sync makes requests, until the ports are gone.
func TestASyncThatWaitsForPortsMakesNoRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		try      func(*testing.T, *world, *Observed, Guard) error
		requests []string
		verified int
		then     []string
	}{
		{"a deletion", func(t *testing.T, w *world, n *Observed, guard Guard) error {
			_, err := w.Remove(t.Context(), seen(n), n, false, guard)
			return err
		}, []string{"GET networks", "DELETE networks", "GET ports"}, 1, []string{"GET networks", "DELETE networks", "GET networks"}},
		{"a replacement", func(t *testing.T, w *world, n *Observed, guard Guard) error {
			_, _, err := w.convergeFrom(t, seen(n), wants("10.1.0.0/24", ""), n, guard)
			return err
		}, []string{"GET ports"}, 0, []string{"GET ports", "POST subnets", "GET ports", "DELETE subnets"}},
		{"a replacement with overlap", func(t *testing.T, w *world, n *Observed, guard Guard) error {
			_, _, err := w.convergeFrom(t, seen(n), wants("10.0.0.0/16", ""), n, guard)
			return err
		}, []string{"GET quotas", "GET subnets", "GET networks", "GET ports"}, 0, []string{"GET quotas", "GET subnets", "GET networks", "GET ports", "DELETE subnets", "POST subnets"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, n, free := blockedWorld(t)
			verified := 0
			guard := Guard{Verify: func(context.Context) error { verified++; return nil }}
			try := func() (requests []string, err error) {
				requests = w.since(func() { err = test.try(t, w, n, guard) })
				return requests, err
			}
			requests, first := try()
			equal(t, InUse, ReasonOf(first))
			equal(t, test.requests, requests)
			for range 3 {
				requests, err := try()
				equal(t, first.Error(), err.Error())
				equal(t, []string(nil), requests)
			}
			equal(t, test.verified, verified)
			noError(t, w.RelistPorts(t.Context()))
			equal(t, 0, len(w.told))

			free()
			requests, err := try()
			equal(t, InUse, ReasonOf(err)) // until the ports are listed
			equal(t, []string(nil), requests)
			noError(t, w.RelistPorts(t.Context()))
			equal(t, []types.UID{owner.UID}, w.told)
			requests, err = try()
			noError(t, err)
			equal(t, test.then, requests)
			equal(t, []types.UID(nil), w.waits.waitingUIDs())
		})
	}
}

func TestWhatEndsAWait(t *testing.T) {
	t.Parallel()
	replaced := wants("10.1.0.0/24", "")
	for _, test := range []struct {
		name string
		do   func(*testing.T, *world, *Observed)
		want []types.UID
	}{
		{"a read of the cache does not", func(t *testing.T, w *world, n *Observed) { w.observe(t, seen(n), Cached) }, []types.UID{owner.UID}},
		{"a live read", func(t *testing.T, w *world, n *Observed) { w.observe(t, seen(n), Live) }, nil},
		{"the edit is reverted", func(t *testing.T, w *world, n *Observed) {
			_, steps, err := w.convergeFrom(t, seen(n), wants("10.0.0.0/24", ""), n, Guard{})
			noError(t, err)
			equal(t, 0, len(steps))
		}, nil},
		{"another edit that no port prevents", func(t *testing.T, w *world, n *Observed) {
			_, steps, err := w.convergeFrom(t, seen(n), wants("10.0.0.0/24", "10.0.0.9"), n, Guard{})
			noError(t, err)
			equal(t, 1, len(steps))
		}, nil},
		{"the Network is paused", func(t *testing.T, w *world, n *Observed) {
			_, _, err := w.convergeFrom(t, seen(n), replaced, n, Guard{Paused: true})
			equal(t, Paused, ReasonOf(err))
		}, nil},
		{"the network is retained", func(t *testing.T, w *world, n *Observed) {
			kept, err := w.Remove(t.Context(), seen(n), n, true, Guard{})
			noError(t, err)
			equal(t, n.ID, kept.ID)
		}, nil},
		{"the Network is deleted: it waits for all ports of the network", func(t *testing.T, w *world, n *Observed) {
			requests := w.since(func() {
				_, err := w.Remove(t.Context(), seen(n), n, false, Guard{})
				wantError(t, Error{Op: "delete network", Reason: InUse, Message: "in use by port web-0 (compute:nova)"}, err)
			})
			equal(t, []string{"GET networks", "DELETE networks", "GET ports"}, requests)
		}, []types.UID{owner.UID}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, n, _ := blockedWorld(t)
			_, _, err := w.convergeFrom(t, seen(n), replaced, n, Guard{})
			equal(t, InUse, ReasonOf(err))
			test.do(t, w, n)
			equal(t, test.want, w.waits.waitingUIDs())
		})
	}
}

// A port that the credentials cannot see cannot be waited for. And one that goes between the
// two requests must not delay the deletion.
func TestInUseWithoutPortsToSee(t *testing.T) {
	t.Run("they are hidden", func(t *testing.T) {
		w, n, _ := blockedWorld(t)
		w.answer(replyTo("GET", portsPath, 200, `{"ports": []}`))
		var err error
		requests := w.since(func() { _, err = w.Remove(t.Context(), seen(n), n, false, Guard{}) })
		equal(t, InUse, ReasonOf(err))
		equal(t, []string{"GET networks", "DELETE networks", "GET ports", "DELETE networks"}, requests)
		equal(t, []types.UID(nil), w.waits.waitingUIDs())
	})
	t.Run("the last one has just gone", func(t *testing.T) {
		w, n, free := blockedWorld(t)
		gone := false
		w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == portsPath && !gone {
				gone = true
				free()
			}
			return false
		})
		requests := w.since(func() {
			_, err := w.Remove(t.Context(), seen(n), n, false, Guard{})
			noError(t, err)
		})
		equal(t, []string{"GET networks", "DELETE networks", "GET ports", "DELETE ports", "DELETE networks", "GET networks"}, requests)
	})
}

func TestWaitsMayBeUsedConcurrently(t *testing.T) {
	l := newLab(t, embedded.Options{})
	cloud := NewCloud("test", l.client(t), owner.Cluster, time.Minute)
	var running sync.WaitGroup
	for i := range 8 {
		uid, s := types.UID(fmt.Sprint(i)), blockersOfNetwork(fmt.Sprint("n", i%4))
		running.Go(func() {
			for range 50 {
				cloud.waits.add(uid, s, "x")
				_ = cloud.waits.check(uid, s)
				cloud.waits.drop(uid)
			}
		})
	}
	for range 20 {
		noError(t, cloud.RelistPorts(t.Context()))
	}
	running.Wait()
}
