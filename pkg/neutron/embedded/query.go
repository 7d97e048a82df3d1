// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// listing is a parsed list request.
type listing[T object] struct {
	caller  caller
	ids     []string // if not nil, only these are candidates
	network string   // if not "", only objects in this network are candidates
	match   []func(T) bool
	compare func(a, b T) int // nil: by ID
	limit   int
	marker  string
	reverse bool
}

// notFilters are the parameters that are not filters.
var notFilters = []string{"fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse"}

func (k *kind[T]) list(r *request) *answer {
	q := r.URL.Query()
	l, err := k.parseListing(r.caller, q)
	if err != nil {
		return err.answer()
	}
	k.mu.RLock()
	found, err := k.run(l)
	k.mu.RUnlock()
	if err != nil {
		return err.answer()
	}
	return rawAnswer(http.StatusOK, k.appendList(nil, found, k.shown(r.caller, q["fields"]), k.links(r, l, found)+"}"))
}

// parseListing checks in Neutron's order: paging, sorting, filters.
func (k *kind[T]) parseListing(c caller, q url.Values) (*listing[T], *failure) {
	l := &listing[T]{caller: c, marker: q.Get("marker"), reverse: strings.EqualFold(q.Get("page_reverse"), "true")}
	var err *failure
	if l.limit, err = k.parseLimit(q); err != nil {
		return nil, err
	}
	if l.compare, err = k.parseSort(q); err != nil {
		return nil, err
	}
	return l, k.parseFilters(l, q)
}

// parseLimit applies the operator's limit silently: a client notices only the links.
func (k *kind[T]) parseLimit(q url.Values) (int, *failure) {
	limit, err := 0, error(nil)
	// An empty limit is refused like any other that is not a number.
	if s := q.Get("limit"); q.Has("limit") {
		limit, err = strconv.Atoi(s)
	}
	if err != nil || limit < 0 {
		return 0, badResource("limit", fmt.Sprintf("Limit must be an integer 0 or greater and not '%s'", q.Get("limit")))
	}
	if k.noPages {
		return 0, nil
	}
	if k.pageLimit > 0 && (limit == 0 || limit > k.pageLimit) {
		limit = k.pageLimit
	}
	return limit, nil
}

// parseSort always compares the ID last, so that the pages are the same every time.
func (k *kind[T]) parseSort(q url.Values) (func(a, b T) int, *failure) {
	keys, dirs := q["sort_key"], q["sort_dir"]
	if len(dirs) != len(keys) {
		return nil, badRequest("The number of sort_keys and sort_dirs must be same")
	}
	var absent []string
	for _, key := range keys {
		if a := k.index[key]; a == nil || a.flags&sortable == 0 {
			absent = append(absent, key)
		}
	}
	if absent != nil {
		return nil, badRequest("%s is invalid attribute for sort_keys", pythonList(absent))
	}
	for _, d := range dirs {
		if d != "asc" && d != "desc" {
			return nil, badRequest("%s is invalid value for sort_dirs, valid value is 'asc' and 'desc'", pythonList([]string{d}))
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return func(a, b T) int {
		for i, key := range keys {
			get := k.index[key].get
			if order := strings.Compare(sortText(get(a)), sortText(get(b))); order != 0 {
				if dirs[i] == "desc" {
					return -order
				}
				return order
			}
		}
		return byID(a, b)
	}, nil
}

// sortText returns a key that sorts values as the database does: null first, and text
// without regard to case.
func sortText(v any) string {
	if v == nil {
		return ""
	}
	return " " + fold(fmt.Sprint(v))
}

// parseFilters reads the filters. Those that the store has an index for reduce the
// candidates instead.
func (k *kind[T]) parseFilters(l *listing[T], q url.Values) *failure {
	var invalid []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		a := k.index[name]
		switch {
		case slices.Contains(notFilters, name):
		case a == nil || a.flags&filter == 0:
			invalid = append(invalid, name)
		case name == "id":
			l.ids = q[name]
		case name == "network_id" && len(q[name]) == 1:
			l.network = q.Get(name)
		default:
			match, err := a.filter(q[name])
			if err != nil {
				return err
			}
			l.match = append(l.match, match)
		}
	}
	if invalid != nil {
		return badRequest("%s is invalid attribute for filtering", pythonList(invalid))
	}
	return nil
}

// filter returns a filter that accepts any of the wanted values of one parameter.
func (a *attribute[T]) filter(wanted []string) (func(T) bool, *failure) {
	if a.match != nil {
		return a.match(wanted)
	}
	accept := map[string]bool{}
	for _, w := range wanted {
		if a.flags&boolean != 0 {
			b, err := truth(a.name, w)
			if err != nil {
				return nil, err
			}
			w = fmt.Sprint(b)
		}
		accept[a.comparable(w)] = true
	}
	return func(o T) bool {
		v := a.get(o)
		if s, ok := v.(string); ok { // nearly always
			return accept[a.comparable(s)]
		}
		return v != nil && accept[a.comparable(fmt.Sprint(v))]
	}, nil
}

func (a *attribute[T]) comparable(s string) string {
	if a.flags&folded != 0 {
		return fold(s)
	}
	return s
}

// fold returns s as MariaDB's utf8_general_ci compares it: without case, accents and
// trailing blanks. So a client must compare exactly what a filter returned.
func fold(s string) string {
	s = strings.ToLower(strings.TrimRight(s, " "))
	if norm.NFD.IsNormalString(s) { // nearly always
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

// byID is the default order of a list.
func byID[T object](a, b T) int {
	return strings.Compare(a.std().id, b.std().id)
}

// run returns the listed objects. It holds the lock, and with a limit it reads no more of
// the collection than necessary.
func (k *kind[T]) run(l *listing[T]) ([]T, *failure) {
	var marker T
	if l.limit == 0 {
		l.marker = "" // as in Neutron: no paging, no marker
	}
	if l.marker != "" {
		var err *failure
		marker, err = k.find(l.caller, l.marker)
		switch {
		case err != nil && k.plural == "subnets":
			l.marker = "" // as in Neutron, where lists of networks and ports fail
		case err != nil:
			return nil, err
		}
	}
	all, compare := k.candidates(l), byID[T]
	// Any other order needs all matches before a page can be taken.
	if l.compare != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(o T) bool { return !k.matches(l, o) })
		compare = l.compare
		slices.SortFunc(all, compare)
	}
	// The marker need not match the filters; only its position in the order matters.
	first, step := 0, 1
	if l.marker != "" {
		first = sort.Search(len(all), func(i int) bool { return compare(all[i], marker) > 0 })
	}
	if l.reverse {
		first, step = len(all)-1, -1
		if l.marker != "" {
			first = sort.Search(len(all), func(i int) bool { return compare(all[i], marker) >= 0 }) - 1
		}
	}
	found := []T{}
	for i := first; i >= 0 && i < len(all) && (l.limit == 0 || len(found) < l.limit); i += step {
		if k.matches(l, all[i]) {
			found = append(found, all[i])
		}
	}
	// A page is always in the order of the list. Without a limit there are no pages, and
	// the whole list is reversed.
	if l.reverse && l.limit > 0 {
		slices.Reverse(found)
	}
	return found, nil
}

// candidates returns the objects to filter, in the order of their IDs.
func (k *kind[T]) candidates(l *listing[T]) []T {
	switch {
	case l.ids != nil:
		var all []T
		ids := slices.Clone(l.ids)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			if o, ok := k.items.byID[id]; ok && (l.network == "" || o.parent() == l.network) {
				all = append(all, o)
			}
		}
		return all
	case l.network != "":
		return k.items.in(l.network)
	}
	return k.items.sorted
}

func (k *kind[T]) matches(l *listing[T], o T) bool {
	return !slices.ContainsFunc(l.match, func(match func(T) bool) bool { return !match(o) }) && k.visible(l.caller, o)
}

// links returns the links to the next and the previous page. Neutron does not check whether
// these exist: a full last page has a next link, and the first page has a previous link.
func (k *kind[T]) links(r *request, l *listing[T], found []T) string {
	if l.limit == 0 {
		return ""
	}
	link := func(rel, marker string, reverse bool) map[string]string {
		q := r.URL.Query()
		q.Del("marker")
		q.Del("page_reverse")
		if marker != "" {
			q.Set("marker", marker)
		}
		if reverse {
			q.Set("page_reverse", "True")
		}
		return map[string]string{"rel": rel, "href": r.base + r.URL.Path + "?" + q.Encode()}
	}
	var first, last string
	if len(found) > 0 {
		first, last = found[0].std().id, found[len(found)-1].std().id
	}
	links := []map[string]string{}
	full := len(found) >= l.limit
	if full || l.reverse {
		links = append(links, link("next", last, false))
	}
	if full || !l.reverse {
		links = append(links, link("previous", first, true))
	}
	b, _ := json.Marshal(links)
	return fmt.Sprintf(`, "%s_links": %s`, k.plural, b)
}

// pythonList formats a list as Neutron's messages do.
func pythonList(list []string) string {
	return "['" + strings.Join(list, "', '") + "']"
}
