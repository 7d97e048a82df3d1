// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/gophercloud/gophercloud/v2"
)

// pages answers lists with bodies that were prepared. The key is the collection and the marker.
type pages map[string]string

func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	body, ok := p[strings.TrimPrefix(r.URL.Path, "/v2.0/")+" "+r.URL.Query().Get("marker")]
	if !ok {
		return nil, fmt.Errorf("unexpected request for %s", r.URL)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// add adds the pages of n items, as Neutron sends them. The ID of an item is its number.
func (p pages) add(collection string, n int, members func(id string) string) {
	marker := ""
	for first := 0; first < n; first += pageSize {
		var items []string
		var last string
		for i := first; i < min(n, first+pageSize); i++ {
			last = fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
			items = append(items, fmt.Sprintf(`{"id": %q, %s}`, last, members(last)))
		}
		p[collection+" "+marker] = fmt.Sprintf(`{%q: [%s], "%[1]s_links": [{"rel": "next", "href": "http://neutron.example/v2.0/%[1]s?marker=%[3]s"}]}`,
			collection, strings.Join(items, ","), last)
		marker = last
	}
	p[collection+" "+marker] = fmt.Sprintf(`{%q: []}`, collection)
}

// project returns the pages of n networks of the owner with a subnet each, and with names of that
// length.
func project(n, nameLength int) pages {
	name := strings.Repeat("x", nameLength)
	p := pages{}
	p.add("networks", n, func(string) string {
		return fmt.Sprintf(`"name": %q, "description": %q, "mtu": 1450, "revision_number": 2`, name, owner.Mark())
	})
	p.add("subnets", n, func(id string) string {
		return fmt.Sprintf(`"network_id": %q, "name": %q, "description": %q, "cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1", "revision_number": 0`, id, name, owner.Mark())
	})
	return p
}

// clientOf returns an authenticated client that sends its requests to base.
func clientOf(base http.RoundTripper) *Client {
	c := NewClient(Config{}, ClientOptions{Timeout: time.Minute})
	c.transport.base = base
	provider := &gophercloud.ProviderClient{HTTPClient: c.http}
	provider.UseTokenLock()
	c.session.Store(&session{service: &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://neutron.example/v2.0/"}})
	return c
}

// heap returns how many bytes of heap are in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// memory calls f, and returns the greatest number of bytes of heap that were in use during the
// call, including garbage, and how many the result keeps.
func memory(f func() any) (peak, kept uint64) {
	before := heap()
	var top atomic.Uint64
	watched, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top.Store(max(top.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	result := f()
	close(stop)
	<-watched
	after := heap()
	runtime.KeepAlive(f)
	runtime.KeepAlive(result)
	return max(top.Load(), before) - before, max(after, before) - before
}

// checkMemory fails the test if f uses more than peak MiB of heap, or its result more than kept
// MiB. f uses at most a third of peak, and several times as much without the limits under test.
func checkMemory(t *testing.T, peak, kept uint64, f func() any) {
	t.Helper()
	gotPeak, gotKept := memory(f)
	t.Logf("%.1f MiB at most, %.1f MiB kept", float64(gotPeak)/(1<<20), float64(gotKept)/(1<<20))
	if gotPeak > peak<<20 || gotKept > kept<<20 {
		t.Errorf("%d MiB of heap were used, and %d MiB are kept; want at most %d and %d", gotPeak>>20, gotKept>>20, peak, kept)
	}
}

func TestAListThatIsNoneOfNeutronsTakesLittleMemory(t *testing.T) {
	full := func(unit string) string { return strings.Repeat(unit+",", (maxPage-100)/(len(unit)+1)) + unit }
	for _, test := range []struct {
		name, body string
		peak       uint64
	}{
		{"items without an ID", `{"networks": [` + full(`{}`) + `]}`, 16},
		{"items that are numbers", `{"networks": [` + full(`0`) + `]}`, 16},
		{"very many items", `{"networks": [` + full(`{"id":"a"}`) + `]}`, 100},
		{"an item that is very long", `{"networks": [{"id": "a", "name": "` + full(`x`) + `"}]}`, 16},
		{"an item with very much else", `{"networks": [{"id": "a", "x": [` + full(`{}`) + `]}]}`, 16},
		{"very much beside the list", `{"x": [` + full(`{}`) + `], "networks": []}`, 16},
		{"very many links", `{"networks_links": [` + full(`{}`) + `], "networks": []}`, 16},
		{"a key that is very long", `{"` + full(`x`) + `": 0, "networks": []}`, 16},
		{"a list in a list in a list", `{"networks": ` + strings.Repeat("[", maxPage/2), 16},
		{"blanks", `{"networks": [` + strings.Repeat(" ", maxPage/2) + `]}`, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clientOf(pages{"networks ": test.body})
			checkMemory(t, test.peak, 1, func() any {
				got, err := c.ListNetworks(t.Context())
				if len(got) != 0 || ReasonOf(err) != Unavailable {
					t.Errorf("got %d networks and the error %v", len(got), err)
				}
				return err
			})
		})
	}
}

func TestTheLongestListTakesABoundedAmountOfMemory(t *testing.T) {
	c := clientOf(project(maxItems, 70))
	checkMemory(t, 180, 100, func() any {
		got, err := c.ListNetworks(t.Context())
		noError(t, err)
		equal(t, maxItems, len(got))
		return got
	})
}

func TestKeepingOneNetworkDoesNotRetainTheWholeList(t *testing.T) {
	c := clientOf(project(10_000, 40))
	checkMemory(t, 60, 1, func() any {
		got, err := c.ListNetworks(t.Context())
		noError(t, err)
		return got[len(got)/2]
	})
}

// The cache of a large cloud consists of such networks.
func TestWhatIsObservedHasItsNetworkOnce(t *testing.T) {
	listed := netOf("u", "a")
	kept := weak.Make(listed)
	observed := newObserved("u", []*Network{listed}, nil, false)
	listed = nil
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the listed network is kept beside its copy")
	}
	runtime.KeepAlive(observed)
}

func TestAListWithTooMuchTextIsAnError(t *testing.T) {
	p := pages{}
	p.add("networks", maxListText/maxText, func(string) string { return `"name": "` + strings.Repeat("x", maxText) + `"` })
	got, err := clientOf(p).ListNetworks(t.Context())
	if len(got) != 0 || !errors.Is(err, errTooMany) || ReasonOf(err) != Unavailable {
		t.Errorf("got %d networks and the error %v", len(got), err)
	}
}

func TestThePageWithTheLongestTextsIsRead(t *testing.T) {
	// Neutron escapes all characters that are not ASCII.
	escaped, text := strings.Repeat(`\ud83d\ude00`, 253), strings.Repeat("\U0001f600", 253)
	var tags, want []string
	for i := range 50 {
		tags = append(tags, fmt.Sprintf(`"%02d%s"`, i, escaped))
		want = append(want, fmt.Sprintf("%02d%s", i, text))
	}
	p := pages{"subnets ": `{"subnets": []}`}
	p.add("networks", pageSize, func(id string) string {
		members := `"name": "` + escaped + `", "description": "` + escaped + `"`
		if strings.HasPrefix(id, "00000000-") {
			members += `, "tags": [` + strings.Join(tags, ", ") + `]`
		}
		return members
	})
	got, err := clientOf(p).ListNetworks(t.Context())
	noError(t, err)
	equal(t, pageSize, len(got))
	equal(t, text+text, got[0].Name+got[0].Description)
	equal(t, NewTags(want...), got[0].Tags)
}

// keystone returns a client whose Keystone answers with that token, and which has no Neutron.
func keystone(t *testing.T, answer string) *Client {
	config, err := ParseConfig("c", []byte(`clouds: {c: {auth: {auth_url: 'http://keystone.example/v3', username: u, password: p, project_name: p, user_domain_name: d, project_domain_name: d}}}`))
	noError(t, err)
	c := NewClient(config, ClientOptions{Timeout: time.Minute})
	c.transport.base = roundTripper(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			return nil, errors.New("there is no Neutron")
		}
		return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"X-Subject-Token": {"t"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})
	return c
}

func TestAnAnswerOfKeystoneTakesABoundedAmountOfMemory(t *testing.T) {
	for _, unit := range []string{`{}`, `{"":0}`, `0`, `{"":{"":{"":0}}}`} {
		signs := strings.Count(unit, "{") + 1
		for name, n := range map[string]int{"as many as allowed": (maxValues - 10) / signs, "more": (maxAnswer - 100) / (len(unit) + 1)} {
			t.Run(name+" "+unit, func(t *testing.T) {
				c := keystone(t, `{"token": {"catalog": [`+strings.Repeat(unit+",", n-1)+unit+`]}}`)
				checkMemory(t, 48, 24, func() any {
					_, err := c.connect(t.Context())
					if err == nil || name == "more" && !strings.Contains(err.Error(), errTooLarge.Error()) {
						t.Errorf("got the error %v", err)
					}
					return c
				})
			})
		}
	}
}

func TestTheCatalogOfALargeCloudIsRead(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	repeat := func(text string, times int) string { return strings.TrimSuffix(strings.Repeat(text+",", times), ",") }
	endpoint := `{"id": "` + id + `", "interface": "public", "region_id": "region-1", "region": "region-1", "url": "https://service-1.region-1.cloud.example:8774/v2.1/` + id + `"}`
	// In ten regions, a service has a public, an internal and an admin endpoint.
	service := `{"id": "` + id + `", "type": "type-1", "name": "name-1", "endpoints": [` + repeat(endpoint, 30) + `]}`
	_, err := keystone(t, `{"token": {"project": {"id": "p"}, "catalog": [`+repeat(service, 60)+`]}}`).connect(t.Context())
	// The catalog was read, and has no Neutron.
	wantError(t, Error{Op: "find Neutron in Keystone's catalog", Reason: Unavailable, Message: "No suitable endpoint could be found in the service catalog."}, err)
}
