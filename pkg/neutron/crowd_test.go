// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// crowd is a Neutron with many networks of another cluster, each with a subnet. Each one in every is the
// cluster's own. It makes each page when it is read.
type crowd struct {
	networks, every, pageLimit int
	pages                      int
}

const crowdID = "%08d-0000-0000-0000-000000000000"

func (c *crowd) RoundTrip(r *http.Request) (*http.Response, error) {
	c.pages++
	collection, first := strings.TrimPrefix(r.URL.Path, "/v2.0/"), 0
	if marker := r.URL.Query().Get("marker"); marker != "" {
		if _, err := fmt.Sscanf(marker, "%08d", &first); err != nil {
			return nil, err
		}
		first++
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{%q: [`, collection)
	after := min(first+c.pageLimit, c.networks)
	for i := first; i < after; i++ {
		description := "team-a " + Owner{"another", "u"}.Mark()
		if c.every > 0 && i%c.every == 0 {
			description = Owner{owner.Cluster, types.UID(fmt.Sprintf(crowdID, i))}.Mark()
		}
		if i > first {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id": "`+crowdID+`", "name": "network-%[1]d", "description": %q, "revision_number": 1`, i, description)
		if collection == "networks" {
			fmt.Fprintf(&b, `, "mtu": 1450, "subnets": ["`+crowdID+`"]}`, i)
		} else {
			fmt.Fprintf(&b, `, "network_id": "`+crowdID+`", "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}`, i)
		}
	}
	b.WriteString(`]`)
	if after-first == c.pageLimit {
		fmt.Fprintf(&b, `, "%s_links": [{"rel": "next", "href": "http://neutron.example/next"}]`, collection)
	}
	b.WriteString(`}`)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&b), Request: r}, nil
}

func TestManyNetworksOfStrangersDoNotStopTheList(t *testing.T) {
	if maxPages*smallPage < 1_000_000 {
		t.Errorf("%d pages of %d are too few", maxPages, smallPage)
	}
	for _, test := range []struct {
		crowd
		want, pages int
	}{
		{crowd{networks: maxItems + 1, every: 1000, pageLimit: pageSize}, 51, 2 * 51},
		{crowd{networks: maxItems + 1, every: 0, pageLimit: pageSize}, 0, 51},
		// Neutron's operator may limit pages.
		{crowd{networks: 52_500, every: 5000, pageLimit: smallPage}, 11, 2 * 1051},
	} {
		t.Run(fmt.Sprintf("%d own, pages of %d", test.want, test.pageLimit), func(t *testing.T) {
			t.Parallel()
			got, err := clientOf(&test.crowd).ListNetworks(t.Context(), owner.Cluster)
			noError(t, err)
			equal(t, test.want, len(got))
			equal(t, test.pages, test.crowd.pages)
			for _, n := range got {
				if len(n.Subnets) != 1 || n.Subnets[0].NetworkID != n.ID {
					t.Fatalf("network %s has the subnets %+v", n.ID, n.Subnets)
				}
			}
		})
	}
}

// A worker waits for a lookup, so a server that only pretends must not send pages for hours.
func TestALookupEnds(t *testing.T) {
	for name, lookup := range map[string]func(context.Context, *Client) error{
		"networks with a mark": func(ctx context.Context, c *Client) error { _, err := c.FindNetworks(ctx, owner.Mark()); return err },
		"a network":            func(ctx context.Context, c *Client) error { _, err := c.GetNetwork(ctx, "n"); return err },
		"ports":                func(ctx context.Context, c *Client) error { _, err := c.PortsOnNetworks(ctx, "n"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := 0
				c := clientOf(roundTripper(func(r *http.Request) (*http.Response, error) {
					page++
					select {
					case <-r.Context().Done():
						return nil, r.Context().Err()
					case <-time.After(20 * time.Second): // less than the time-out of a request
					}
					collection := strings.TrimPrefix(r.URL.Path, "/v2.0/")
					body := fmt.Sprintf(`{%q: [{"id": "n%d"}], "%[1]s_links": [{"rel": "next", "href": "x"}]}`, collection, page)
					if collection == "networks/n" {
						body = `{"network": {"id": "n"}}`
					}
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
				}))
				began := time.Now()
				err := lookup(t.Context(), c)
				equal(t, Unavailable, ReasonOf(err))
				equal(t, maxLookup, time.Since(began))
			})
		})
	}
}

// Whatever a sync does: a server that answers each request just in time does not keep it for ever.
func TestASyncBeginsNoRequestAfterTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := clientOf(roundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			time.Sleep(29 * time.Second)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"network": {"id": "n"}}`)), Request: r}, nil
		}))
		ctx, began := ForSync(t.Context(), uuid.New()), time.Now()
		var err error
		for err == nil && requests < 100 {
			_, err = c.UpdateNetwork(ctx, &Network{ID: "n"}, nil)
		}
		equal(t, 5, requests)
		equal(t, 5*29*time.Second, time.Since(began))
		equal(t, "update network: OpenStack is slow: this sync has taken more than 2m0s", err.Error())
		equal(t, false, IsUnsent(err)) // so the back-off applies
		_, err = c.UpdateNetwork(ForSync(t.Context(), uuid.New()), &Network{ID: "n"}, nil)
		noError(t, err)
	})
}

func TestTooManyOwnNetworksAreAnErrorOfTheList(t *testing.T) {
	got, err := clientOf(&crowd{networks: maxItems + 1, every: 1, pageLimit: pageSize}).ListNetworks(t.Context(), owner.Cluster)
	if len(got) != 0 || ReasonOf(err) != Unavailable || !errors.Is(err, errTooMany) {
		t.Errorf("got %d networks and the error %v", len(got), err)
	}
	// The clouds of Secrets share the memory.
	const share = maxItems / untrustedShare
	for n, want := range map[int]error{share: nil, share + 1: errTooMany} {
		c := clientOf(&crowd{networks: n, every: 1, pageLimit: pageSize})
		c.config.Untrusted = true
		if got, err := c.ListNetworks(t.Context(), owner.Cluster); !errors.Is(err, want) || (len(got) == n) != (want == nil) {
			t.Errorf("%d networks: got %d and the error %v", n, len(got), err)
		}
	}
}

func TestAfterAnOverflowOnlyWhatWasReadIsKnownAndNothingFails(t *testing.T) {
	overflow := wrap("list networks", errTooMany)
	a, b := netOf("u", "a"), netOf("v", "b")
	w := watch(a, b)
	check := func(uid types.UID, isComplete bool, want ...*Network) {
		t.Helper()
		got, known, err := w.Get(uid)
		noError(t, err)
		equal(t, want, got.Networks())
		equal(t, isComplete || len(want) > 0, known)
		equal(t, !isComplete, w.Overflow())
	}
	for _, start := range []string{"at first", "later", "after a failure"} {
		t.Run(start, func(t *testing.T) {
			if start == "after a failure" {
				w.sky.err = errAway
				w.relist(t)
			}
			w.sky.err = overflow
			w.called = nil
			noError(t, w.Relist(t.Context()))
			equal(t, []types.UID(nil), w.called)
			equal(t, true, closed(w.FirstListDone()))
			check("u", false)
			// A sync reads its own network, and changes it.
			w.replace("u", having(a))
			w.Update("v", having(b))
			check("u", false, a)
			// An outage changes nothing.
			w.sky.err = errAway
			w.relist(t)
			check("u", false, a)
			// What was read is dropped after a period, unless it is newer than the list.
			w.sky.err, w.sky.meanwhile = overflow, func() { w.Update("v", having(b)) }
			noError(t, w.Relist(t.Context()))
			w.sky.meanwhile = nil
			check("u", false)
			check("v", false, b)
			w.sky.err = nil
			equal(t, []types.UID{"u"}, w.relist(t))
			check("u", true, a)
			check("v", true, b)
		})
	}
}

func TestAnOverflowIsListedAgainOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, lists := running(t, 5*time.Minute, func(n int) error {
			if n == 1 {
				return errAway
			}
			return wrap("list networks", errTooMany)
		})
		var recoveries, relists atomic.Int64
		o.OnRecovery(func() { recoveries.Add(1) })
		o.OnRelist(func() { relists.Add(1) })
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, gap := range gaps(lists())[1:] {
			between(t, 4*time.Minute, 6*time.Minute, gap)
		}
		// What waits for Neutron continues. Nothing looks for orphans in a cache that is not complete.
		equal(t, int64(1), recoveries.Load())
		equal(t, int64(0), relists.Load())
		equal(t, time.Time{}, o.LastList())
	})
}

// Only an administrator can create such a subnet, and see it.
func TestSubnetsOfOtherProjectsAreListed(t *testing.T) {
	l := newLab(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password}, {Name: "admin", ID: "project-2", Password: password},
	}})
	admin := newTestClient(t, l.configAs(t, "admin", password), ClientOptions{Timeout: 10 * time.Second})
	id := makeNetworks(t, admin, 1)[0]
	post(t, admin, "subnet", object{"network_id": id, "cidr": "10.9.0.0/24", "ip_version": 4, "project_id": "project-1"})
	listed, err := admin.ListNetworks(t.Context(), owner.Cluster)
	noError(t, err)
	found, err := admin.FindNetworks(t.Context(), owner.Mark())
	noError(t, err)
	equal(t, 2, len(listed[0].Subnets))
	equal(t, listed, found)
}

// Between the lists, other clients create and delete subnets.
func TestChangesBetweenTheListsOfNetworksAndSubnets(t *testing.T) {
	for subnets, change := range map[int]func(*testing.T, *Client, *Observed){
		0: func(t *testing.T, c *Client, n *Observed) {
			noError(t, c.DeleteSubnet(t.Context(), n.Subnets[0].ID, nil))
		},
		2: func(t *testing.T, c *Client, n *Observed) {
			_, err := c.CreateSubnet(t.Context(), n.ID, creates("10.8.0.0/24", "", "").fields())
			noError(t, err)
		},
	} {
		w, n := made(t, wants("10.0.0.0/24", ""))
		changed := false
		w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == subnetsPath && r.Method == http.MethodGet && !changed {
				changed = true
				change(t, w.others, n)
			}
			return false
		})
		before := w.count("GET " + subnetsPath)
		got, err := w.others.ListNetworks(t.Context(), owner.Cluster)
		noError(t, err)
		equal(t, subnets, len(got[0].Subnets))
		if n := w.count("GET "+subnetsPath) - before; n > 2 {
			t.Errorf("%d lists of subnets", n)
		}
	}
}

// hiding returns a client that sees n networks of the owner with two subnets each. subnets returns the
// subnets, in JSON, of the networks with these IDs. Without IDs, there are none in the project.
func hiding(n int, subnets func(ids []string) string) *Client {
	var networks []string
	for i := range n {
		networks = append(networks, fmt.Sprintf(`{"id": "`+crowdID+`", "description": %q, "subnets": ["x", "y"]}`, i, owner.Mark()))
	}
	return clientOf(roundTripper(func(r *http.Request) (*http.Response, error) {
		body := `{"networks": [` + strings.Join(networks, ",") + `]}`
		if strings.HasSuffix(r.URL.Path, "subnets") {
			body = `{"subnets": []}`
			if ids := r.URL.Query()["network_id"]; len(ids) > 0 {
				body = `{"subnets": [` + subnets(ids) + `]}`
			}
			if len(r.URL.RequestURI()) > 4000 {
				return nil, fmt.Errorf("a request line of %d bytes", len(r.URL.RequestURI()))
			}
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}))
}

// A network whose other subnet is not visible is asked for once in each look.
func TestManyNetworksAreAskedForInShortRequests(t *testing.T) {
	const many = 150
	asked := 0
	c := hiding(many, func(ids []string) string {
		asked += len(ids)
		var items []string
		for _, id := range ids {
			items = append(items, fmt.Sprintf(`{"id": %q, "network_id": %[1]q}`, id))
		}
		return strings.Join(items, ",")
	})
	listed, err := c.ListNetworks(t.Context(), owner.Cluster)
	noError(t, err)
	found, err := c.FindNetworks(t.Context(), owner.Mark())
	noError(t, err)
	equal(t, []int{many, many, 2 * many}, []int{len(listed), len(found), asked})
	for _, n := range slices.Concat(listed, found) {
		equal(t, 1, len(n.Subnets))
	}
}

// The limits are for the lists of all chunks together.
func TestSubnetsThatAreListedByNetworkAreLimitedTogether(t *testing.T) {
	c := hiding(3*maxFilterIDs, func(ids []string) string {
		return strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"id": "s", "network_id": %q},`, ids[0]), maxItems/2), ",")
	})
	_, err := c.ListNetworks(t.Context(), owner.Cluster)
	if !errors.Is(err, errTooMany) || ReasonOf(err) != Unavailable {
		t.Errorf("got the error %v", err)
	}
}
