// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// pageLimit is pagination_max_limit for the paged rows.
const pageLimit = 3

// step is one request of a row.
type step struct {
	shown              string // as written in the row
	compared           bool
	label, user        string
	method, path, body string
	header             http.Header
}

var stepForm = regexp.MustCompile(`^(!?)\s*(?:(\w+): )?(?:@(\w+) )?([A-Z]+) (\S+)(?: ([^|]*?))?(?: \| ([\w-]+): (.*))?$`)

// parse parses the requests.
func (r *row) parse(t *testing.T) []step {
	t.Helper()
	var steps []step
	for _, line := range r.requests() {
		m := stepForm.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("this line is not a request: %s", line)
		}
		s := step{shown: line, compared: m[1] != "", label: m[2], user: m[3], method: m[4], path: m[5], body: m[6], header: http.Header{}}
		if m[7] != "" {
			s.header.Set(m[7], m[8])
		}
		steps = append(steps, s)
	}
	steps[len(steps)-1].compared = true
	return steps
}

// run is a row that runs on one cloud.
type run struct {
	*cloud
	row  *row
	name string
	// ids are the IDs, by label.
	ids map[string]string
}

// answersOf runs a row on a cloud and returns its answers as text for the comparison.
func (c *cloud) answersOf(t *testing.T, r *row) string {
	t.Helper()
	w := &run{cloud: c, row: r, name: "contract-" + strings.ToLower(rand.Text()[:12]), ids: map[string]string{}}
	for user, a := range c.accounts {
		w.ids[map[string]string{"": "project", "other": "other", "admin": "admin"}[user]] = a.project
	}
	delete(w.ids, "")
	if r.flag == "alone" {
		w.reset(t)
		defer w.reset(t)
	}
	var b strings.Builder
	steps := r.parse(t)
	if n := r.shared(steps); n > 0 {
		b.WriteString(w.prepare(t, steps[:n]))
		steps = steps[n:]
	}
	b.WriteString(w.doAll(t, steps))
	return b.String()
}

func (w *run) doAll(t *testing.T, steps []step) string {
	t.Helper()
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s\n%s", s.shown, w.do(t, &s))
	}
	return b.String()
}

// preparation is what the rows share that begin with the same requests.
type preparation struct {
	once          sync.Once
	name, answers string
	ids           map[string]string
}

// shared returns how many requests at the beginning of the row create something, if all others change nothing
// according to the recording. Rows that begin with the same ones can share what they created: the real Neutron
// takes a tenth of a second of CPU time for each.
func (r *row) shared(steps []step) int {
	if r.flag == "alone" {
		return 0
	}
	statuses := statusLine.FindAllStringSubmatch(r.answers, -1)
	if len(statuses) != len(steps) {
		return 0 // a WALK has several; a new row has none
	}
	n := 0
	for n < len(steps)-1 && steps[n].method == http.MethodPost && !steps[n].compared && statuses[n][1] == "201" {
		n++
	}
	for i := n; i < len(steps); i++ {
		// A router can change although the request is refused.
		if steps[i].method != http.MethodGet && (statuses[i][1] < "400" || strings.HasPrefix(steps[i].path, "routers")) {
			return 0
		}
	}
	return n
}

// statusLine matches the first line of an answer in the recording.
var statusLine = regexp.MustCompile(`(?m)^    (\d{3})(?: \||$)`)

// prepare makes what the rows share, once, and returns the answers.
func (w *run) prepare(t *testing.T, steps []step) string {
	t.Helper()
	var key strings.Builder
	for _, s := range steps {
		key.WriteString(s.shown + "\n")
	}
	made, _ := w.preparations.LoadOrStore(key.String(), &preparation{})
	p := made.(*preparation)
	p.once.Do(func() {
		p.answers = w.doAll(t, steps)
		p.name, p.ids = w.name, maps.Clone(w.ids)
	})
	w.name, w.ids = p.name, maps.Clone(p.ids)
	return p.answers
}

// do sends one request, remembers the IDs of created objects, and returns the answer as
// text for the comparison.
func (w *run) do(t *testing.T, s *step) string {
	t.Helper()
	if s.method == "WALK" {
		return w.walk(t, s)
	}
	resp, raw := w.send(t, s.user, s.method, w.expand(s.path), w.expand(s.body), s.header)
	body := decode(raw)
	switch {
	case s.method == http.MethodPost && resp.StatusCode == http.StatusCreated:
		w.remember(s, body)
	case resp.StatusCode == http.StatusOK && body["port_id"] != nil:
		w.keep(s.label, body["port_id"])
	}
	if !s.compared {
		return fmt.Sprintf("    %d\n", resp.StatusCode)
	}
	return w.describe(s, resp, raw, body)
}

func (w *run) send(t *testing.T, user, method, path, body string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	a := w.accounts[user]
	url := a.neutron + path
	if rest, ok := strings.CutPrefix(path, "identity/"); ok {
		url = a.v3auth + rest
	}
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if a.token != "" {
		header.Set("X-Auth-Token", a.token)
	}
	return send(t, method, url, body, header)
}

var reference = regexp.MustCompile(`\$\w+`)

// expand replaces names and labels. A label stays if it has no ID, because its request was
// refused.
func (w *run) expand(s string) string {
	s = strings.NewReplacer("NAME", w.name, "$user", w.accounts[""].name, "$password", w.accounts[""].password).Replace(s)
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		if id, ok := w.ids[ref[1:]]; ok {
			return id
		}
		return ref
	})
}

// remember stores the IDs of created objects.
func (w *run) remember(s *step, body map[string]any) {
	kind := strings.TrimSuffix(path.Base(s.path), "s")
	if path.Base(s.path) == "rbac-policies" {
		kind = "rbac_policy"
	}
	if one, ok := body[kind].(map[string]any); ok {
		w.keep(s.label, one["id"])
	}
	list, _ := body[kind+"s"].([]any)
	for i, one := range list {
		w.keep(fmt.Sprint(s.label, i), one.(map[string]any)["id"])
	}
}

func (w *run) keep(label string, id any) {
	if id, ok := id.(string); ok && label != "" {
		w.ids[label] = id
	}
}

// reset removes the other project's quota and objects, so that a row that counts them begins
// with none.
func (w *run) reset(t *testing.T) {
	t.Helper()
	project := w.accounts["other"].project
	w.send(t, "admin", "DELETE", "quotas/"+project, "", nil)
	for _, id := range w.listed(t, "floatingips?fields=id&project_id="+project) {
		w.send(t, "admin", "DELETE", "floatingips/"+id, "", nil)
	}
	for _, id := range w.listed(t, "routers?fields=id&project_id="+project) {
		for _, port := range w.listed(t, "ports?fields=id&device_owner=network:router_interface&device_id="+id) {
			w.send(t, "admin", "PUT", "routers/"+id+"/remove_router_interface", `{"port_id": "`+port+`"}`, nil)
		}
		w.send(t, "admin", "DELETE", "routers/"+id, "", nil)
	}
	for _, id := range w.listed(t, "networks?fields=id&project_id="+project) {
		w.send(t, "admin", "DELETE", "networks/"+id, "", nil)
	}
	for _, id := range w.listed(t, "subnetpools?fields=id&project_id="+project) {
		w.send(t, "admin", "DELETE", "subnetpools/"+id, "", nil)
	}
}

// listed returns the IDs in a list of an admin.
func (w *run) listed(t *testing.T, path string) []string {
	t.Helper()
	_, raw := w.send(t, "admin", "GET", path, "", nil)
	kind, _, _ := strings.Cut(path, "?")
	list, _ := decode(raw)[kind].([]any)
	var ids []string
	for _, one := range list {
		ids = append(ids, one.(map[string]any)["id"].(string))
	}
	return ids
}

// walk follows the links of a list as clients do, and returns the length of each page.
func (w *run) walk(t *testing.T, s *step) string {
	t.Helper()
	kind, _, _ := strings.Cut(s.path, "?")
	kind = strings.ReplaceAll(kind, "-", "_") // in a body
	var b strings.Builder
	found := map[string]bool{}
	for path := w.expand(s.path); path != ""; {
		resp, raw := w.send(t, s.user, "GET", path, "", nil)
		body := decode(raw)
		page, _ := body[kind].([]any)
		fmt.Fprintf(&b, "    %d with %d items\n", resp.StatusCode, len(page))
		for _, one := range page {
			found[one.(map[string]any)["id"].(string)] = true
		}
		path = ""
		links, _ := body[kind+"_links"].([]any)
		for _, l := range links {
			if l := l.(map[string]any); l["rel"] == "next" {
				path = l["href"].(string)[len(w.accounts[s.user].neutron):]
			}
		}
	}
	fmt.Fprintf(&b, "    %d different ones\n", len(found))
	return b.String()
}
