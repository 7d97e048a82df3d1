// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

const testCluster = "11111111-0000-0000-0000-000000000000"

var (
	monday  = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	tuesday = monday.AddDate(0, 0, 1)
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// of returns a snapshot from texts such as "u:a,b": the UID of an owner, and network IDs. "u:/r,a/s"
// are a router without a network, and a network with a router.
func of(texts ...string) snapshot {
	s := snapshot{owned: map[types.UID]*neutron.Observed{}}
	for _, text := range texts {
		uid, ids, _ := strings.Cut(text, ":")
		observed := &neutron.Observed{}
		for id := range strings.SplitSeq(ids, ",") {
			id, router, _ := strings.Cut(id, "/")
			if observed.Exists() {
				observed.Duplicates = append(observed.Duplicates, &neutron.Network{ID: id})
			} else {
				observed.ID = id
			}
			for r := range strings.SplitSeq(router, "+") {
				if r != "" {
					observed.Routers = append(observed.Routers, neutron.Router{ID: r})
				}
			}
		}
		s.owned[types.UID(uid)] = observed
	}
	return s
}

func TestAnOrphanExistsBeforeAndAfterTheListOfOwners(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after snapshot
		owners        []types.UID
		want          []string
	}{
		{"all have owners", of("u:a", "v:b"), of("u:a", "v:b"), []types.UID{"u", "v", "w"}, nil},
		{"one has none", of("u:a", "v:b"), of("u:a", "v:b"), []types.UID{"v"}, []string{"a"}},
		{"two of an owner that is gone", of("u:a,b", "v:c"), of("u:a,b", "v:c"), []types.UID{"v"}, []string{"a", "b"}},
		{"it was deleted during the list, with its owner", of("u:a", "v:b"), of("v:b"), []types.UID{"v"}, nil},
		{"it was created during the list, with its owner", of("v:b"), of("u:a", "v:b"), []types.UID{"v"}, nil},
		{"it has another owner after the list", of("u:a"), of("v:a"), []types.UID{"v"}, nil},
		{"a network with a router", of("u:a/r"), of("u:a/r"), nil, []string{"a"}},
		{"a router without a network", of("u:/r"), of("u:/r"), nil, []string{"r"}},
		{"routers of two owners", of("u:/q", "v:/r"), of("u:/q", "v:/r"), nil, []string{"q", "r"}},
		{"one of two routers was deleted during the list", of("u:/q+r"), of("u:/r"), nil, []string{"r"}},
		{"the network of the router appeared during the list", of("u:/r"), of("u:a/r"), nil, nil},
		{"an owner without anything", of("u:"), of("u:"), nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := compare("cloud", test.before, test.after, sets.New(test.owners...), nil, monday)
			equal(t, test.want, slices.Sorted(maps.Keys(got)))
			if len(got) > 0 && !test.before.unowned(sets.New(test.owners...)) {
				t.Error("unowned is false, so Kubernetes would not be listed")
			}
			for id, orphan := range got {
				equal(t, "cloud "+id, orphan.Cloud+" "+orphan.NetworkID+orphan.RouterID)
				equal(t, true, test.before.has(orphan.OwnerUID, id))
				equal(t, monday, orphan.Since)
				equal(t, 1, orphan.sightings)
			}
		})
	}
}

func TestCompareKeepsTheStateOfAnOrphan(t *testing.T) {
	ports := 2
	was := Orphan{Cloud: "cloud", NetworkID: "a", OwnerUID: "u", Since: monday, Ports: &ports, sightings: 3}
	for _, test := range []struct {
		name  string
		known map[string]Orphan
		since time.Time
		ports *int
		seen  int
	}{
		{"it was not known", nil, tuesday, nil, 1},
		{"it was known", map[string]Orphan{"a": was}, monday, &ports, 4},
		{"it had another owner", map[string]Orphan{"a": {NetworkID: "a", OwnerUID: "v", Since: monday, sightings: 3}}, tuesday, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := compare("cloud", of("u:a"), of("u:a"), nil, test.known, tuesday)["a"]
			equal(t, test.since, got.Since)
			equal(t, test.ports, got.Ports)
			equal(t, test.seen, got.sightings)
		})
	}
}

func TestRemovable(t *testing.T) {
	// seen returns an orphan for each number, which is the number of its sightings.
	seen := func(times ...int) map[string]Orphan {
		orphans := map[string]Orphan{}
		for i, n := range times {
			id := fmt.Sprintf("o%02d", i)
			orphans[id] = Orphan{NetworkID: id, sightings: n}
		}
		return orphans
	}
	for _, test := range []struct {
		name          string
		orphans       map[string]Orphan
		removal       Removal
		total, owners int
		want          []string
		refusal       string
	}{
		{"none", nil, RemoveFew, 20, 20, nil, ""},
		{"deletion is off", seen(9), RemoveNone, 20, 19, nil, ""},
		{"it was seen once", seen(1), RemoveFew, 20, 19, nil, ""},
		{"it was seen twice", seen(2), RemoveFew, 20, 19, []string{"o00"}, ""},
		{"one of two was seen twice", seen(1, 2), RemoveFew, 20, 18, []string{"o01"}, ""},
		{"a tenth, rounded down", seen(2, 2), RemoveFew, 29, 27, []string{"o00", "o01"}, ""},
		{"more than a tenth, of which a tenth was seen twice", seen(2, 2, 1), RemoveFew, 29, 26, nil, "3 of 29"},
		{"more than a tenth, all", seen(2, 2, 1), RemoveAll, 29, 26, []string{"o00", "o01"}, ""},
		{"Kubernetes has no Networks", seen(2), RemoveFew, 1, 0, nil, "there are no Networks"},
		{"Kubernetes has no Networks, all", seen(2, 2), RemoveAll, 2, 0, []string{"o00", "o01"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, refusal := removable(test.orphans, test.removal, test.total, test.owners, nil)
			var ids []string
			for _, orphan := range got {
				ids = append(ids, orphan.NetworkID)
			}
			equal(t, test.want, ids)
			if test.refusal == "" && refusal != nil || test.refusal != "" && (refusal == nil || !strings.Contains(refusal.Error(), test.refusal)) {
				t.Errorf("got %v, want %q", refusal, test.refusal)
			}
		})
	}
}

func TestSetNeverOwned(t *testing.T) {
	for _, test := range []struct {
		name     string
		previous snapshot
		owners   []types.UID
		want     bool
	}{
		{"it was there before", of("u:a"), nil, false},
		{"it has appeared", of("v:b"), nil, true},
		{"a second one of an owner that is gone has appeared", of("u:b"), nil, true},
		{"its Network was created and deleted since", of(), []types.UID{"u"}, false},
		{"it had another owner", of("v:a"), nil, true},
		{"it had a router without a network", of("u:/r"), nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			orphans := compare("cloud", of("u:a"), of("u:a"), nil, nil, monday)
			setNeverOwned(orphans, test.previous, sets.New(test.owners...).Has)
			equal(t, test.want, orphans["a"].NeverOwned)
			equal(t, test.want, firstNeverOwned(orphans) != nil)
			// It does not change any more.
			again := compare("cloud", of("u:a"), of("u:a"), nil, orphans, tuesday)
			setNeverOwned(again, of("u:a"), sets.New[types.UID]().Has)
			equal(t, test.want, again["a"].NeverOwned)
		})
	}
}

func TestARouterWithoutANetworkIsNeverNeverOwned(t *testing.T) {
	for _, previous := range []snapshot{of(), of("u:a/r"), of("v:/r")} {
		orphans := compare("cloud", of("u:/r"), of("u:/r"), nil, nil, monday)
		setNeverOwned(orphans, previous, sets.New[types.UID]().Has)
		equal(t, false, orphans["r"].NeverOwned)
	}
}

func TestTotalCountsNetworksAndRoutersWithoutOne(t *testing.T) {
	equal(t, 5, of("u:a,b/q", "v:/r+s", "w:c", "x:").total())
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	equal(t, false, r.has("0"))
	uid := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range 3*maxRecent + 1 {
		r.add(uid(i))
		if !r.has(uid(i)) || !r.has(uid(max(0, i-maxRecent/2))) || len(r.newer)+len(r.older) > maxRecent {
			t.Fatalf("after %d UIDs: %d and %d", i+1, len(r.newer), len(r.older))
		}
	}
	equal(t, false, r.has("0"))
}

func TestRemovalIsAFlagWithAnOptionalValue(t *testing.T) {
	for _, test := range []struct {
		args []string
		want Removal
		text string
		fail bool
	}{
		{args: nil, want: RemoveNone, text: "false"},
		{args: []string{"-delete-orphans"}, want: RemoveFew, text: "true"},
		{args: []string{"-delete-orphans=false"}, want: RemoveNone, text: "false"},
		{args: []string{"-delete-orphans=all"}, want: RemoveAll, text: "all"},
		{args: []string{"-delete-orphans=some"}, want: RemoveNone, text: "false", fail: true},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var removal Removal
			flags := flag.NewFlagSet("", flag.ContinueOnError)
			flags.SetOutput(&strings.Builder{})
			flags.Var(&removal, "delete-orphans", "")
			err := flags.Parse(test.args)
			equal(t, test.fail, err != nil)
			equal(t, test.want, removal)
			equal(t, test.text, removal.String())
		})
	}
}

func TestOwnerName(t *testing.T) {
	long := strings.Repeat("a", 60) + "/" + strings.Repeat("b", 253)
	for name, want := range map[string]string{
		"default/net-a":            "default/net-a",
		"default/a.b":              "default/a.b",
		neutron.Name("n", "a"):     "n/a",
		"net-a":                    "",
		"":                         "",
		"default/":                 "",
		"/net-a":                   "",
		"default/net-a/b":          "",
		"default/../secrets/x":     "",
		"default/net a":            "",
		"Default/net-a":            "",
		"default/net%2Fa":          "",
		neutron.Name("", long[1:]): "",
	} {
		got, ok := ownerName(name)
		equal(t, want != "", ok)
		if ok {
			equal(t, want, got.String())
		}
	}
}

func TestUnchanged(t *testing.T) {
	revision := func(n int) *int { return &n }
	ours := neutron.Owner{Cluster: testCluster, UID: "u"}.Mark()
	observed := func(description string, revision *int, routers ...neutron.Router) neutron.Observed {
		return neutron.Observed{Network: neutron.Network{ID: "n", Description: description, Revision: revision}, Routers: routers}
	}
	for _, test := range []struct {
		name      string
		seen, now neutron.Observed
		want      bool
	}{
		{"the same", observed(ours, revision(3)), observed(ours, revision(3)), true},
		{"the relist had no revision", observed(ours, nil), observed(ours, revision(4)), false},
		{"the mark was removed", observed(ours, revision(3)), observed("", revision(3)), false},
		{"another cluster's mark", observed(ours, revision(3)),
			observed(neutron.Owner{Cluster: "other", UID: "u"}.Mark(), revision(3)), false},
		{"another name of the router", observed(ours, nil, neutron.Router{ID: "r"}), observed(ours, nil, neutron.Router{ID: "r", Name: "x"}), false},
		{"Neutron has no revisions", observed(ours, nil), observed(ours, nil), true},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, test.want, unchanged(&test.seen, &test.now)) })
	}
}
