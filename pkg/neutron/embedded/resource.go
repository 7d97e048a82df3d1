// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// flags are the permitted uses of an attribute, as in Neutron's attribute maps.
type flags uint

const (
	onPost    flags = 1 << iota // may be given on creation
	onPut                       // may be updated
	required                    // must be given on creation
	filter                      // may be filtered on
	sortable                    // may be sorted by
	adminSets                   // only an admin may set it
	adminSees                   // shown only to an admin
	boolean                     // filters on it are read as booleans
	folded                      // filters on it ignore case and trailing blanks
)

// attribute is one attribute of a kind: how it is read, checked and shown.
type attribute[T object] struct {
	name  string
	flags flags
	// get returns the value that is shown; nil: never shown.
	get func(T) any
	// getFor is get if what is shown depends on who asks; nil: it does not.
	getFor func(caller, T) any
	// check converts and validates a value from a request; nil: accepted as it is.
	check func(name string, v any) (any, *failure)
	// def is the value that a member may send on creation, although only an admin may set
	// the attribute (adminSets).
	def any
	// match makes a filter from query values, for attributes whose filter does not just
	// compare one value.
	match func(values []string) (func(T) bool, *failure)
}

// absent is the value of an attribute that an object does not have.
type absent struct{}

// values are the checked attributes of a request. Their types are those that the getters
// below expect.
type values map[string]any

func (v values) has(name string) bool { _, ok := v[name]; return ok }

// given returns the value of an attribute, or def if the request has none, or null.
func given[V any](v values, name string, def V) V {
	if x, ok := v[name].(V); ok {
		return x
	}
	return def
}

// resource is a kind with any type of object.
type resource interface {
	serve(*request) *answer
}

// kind is one collection of the API: its attributes, and how its objects are created,
// updated and deleted.
type kind[T object] struct {
	*neutron
	title        string // as in the names of exceptions
	name, plural string // derived from the title
	attrs        []*attribute[T]
	index        map[string]*attribute[T]
	items        *collection[T]
	// visible and owned report whether a caller can see an object, and change it.
	visible, owned func(caller, T) bool
	// admit is called before the quota check, and only for members.
	admit  func(c caller, v values) *failure
	create func(t *tx, v values) (T, *failure)
	update func(t *tx, old T, v values) (T, *failure)
	remove func(t *tx, o T) *failure
	// updated returns what a PUT answers; nil: the same as a GET.
	updated func(T) T
	// forbid is called for members only, for rules about parts of an attribute.
	forbid func(v values, action string) *failure
	// noBulk: several cannot be created at once.
	noBulk bool
	// noPages: a list has all items, whatever the limit of the request and that of the operator.
	noPages bool
	// matchFirst: If-Match is checked before update is called, not after it.
	matchFirst bool
	// copy returns a copy, for a change of the standard attributes.
	copy func(T) T
	// actions are the requests PUT /kinds/ID/ACTION.
	actions map[string]func(r *request, id string) *answer
	// parts are the resources below /kinds/ID. rest is the path after their name.
	parts map[string]func(r *request, id string, rest []string) *answer
}

func (k *kind[T]) init() *kind[T] {
	k.name = strings.ToLower(k.title)
	k.plural = k.name + "s"
	k.index = map[string]*attribute[T]{}
	for _, a := range k.attrs {
		k.index[a.name] = a
	}
	return k
}

func (k *kind[T]) serve(r *request) *answer {
	// Go would answer HEAD like GET; pecan, Neutron's framework, refuses it.
	if r.Method == http.MethodHead || r.Method == http.MethodPatch {
		return methodNotAllowed(r.Method).answer()
	}
	rest := r.path[2:]
	var err *failure
	if r.constraint, err = readConstraint(r.Header.Get("If-Match")); err != nil {
		return err.answer()
	}
	isOfTags := len(rest) > 1 && rest[1] == "tags"
	switch {
	case r.constraint != nil && (len(rest) == 0 || isOfTags):
		return internalError().answer() // Neutron fails because it expects an ID
	case len(rest) == 0:
		return k.serveAll(r)
	case len(rest) == 1:
		return k.serveOne(r, rest[0])
	case isOfTags && len(rest) <= 3:
		return k.serveTags(r, rest[0], rest[2:])
	case len(rest) <= 3 && k.parts[rest[1]] != nil:
		return k.parts[rest[1]](r, rest[0], rest[2:])
	case len(rest) == 2 && k.actions[rest[1]] != nil:
		if r.Method != http.MethodPut {
			a := methodNotAllowed(http.MethodPatch).answer()
			a.header.Set("Allow", "DELETE, HEAD, PATCH, POST, PUT")
			return a
		}
		return k.actions[rest[1]](r, rest[0])
	}
	return notFoundPath().answer()
}

// serveAll serves a collection. It answers PUT and DELETE as Neutron does, which has no
// bulk update (400) and no bulk delete (404).
func (k *kind[T]) serveAll(r *request) *answer {
	switch r.Method {
	case http.MethodGet:
		return k.list(r)
	case http.MethodPost:
		return k.post(r)
	case http.MethodPut:
		if _, _, err := k.decode(r.body, false); err != nil {
			return err.answer()
		}
	}
	return missing(k.title, "None").answer() // Neutron reads this ID from such a path
}

func (k *kind[T]) serveOne(r *request, id string) *answer {
	switch r.Method {
	case http.MethodGet:
		return k.show(r, id)
	case http.MethodPut:
		return k.put(r, id)
	case http.MethodDelete:
		return k.delete(r, id)
	}
	return methodNotAllowed(r.Method).answer()
}

func (k *kind[T]) show(r *request, id string) *answer {
	k.mu.RLock()
	o, err := k.find(r.caller, id)
	k.mu.RUnlock()
	if err != nil {
		return err.answer()
	}
	return k.single(http.StatusOK, r, o)
}

// post creates one resource or several, all or none of them.
func (k *kind[T]) post(r *request) *answer {
	items, bulk, err := k.decode(r.body, true)
	if err != nil {
		return err.answer()
	}
	all := make([]values, len(items))
	for i, item := range items {
		if all[i], err = k.check(r.caller, item, true); err != nil {
			return err.answer()
		}
	}
	var made []T
	if err := k.write(r, func(t *tx) *failure { made, err = k.createAll(t, r.caller, all); return err }); err != nil {
		return err.answer()
	}
	if !bulk {
		return k.single(http.StatusCreated, r, made[0])
	}
	return rawAnswer(http.StatusCreated, k.appendList(nil, made, k.shown(r.caller, r.URL.Query()["fields"]), "}"))
}

// createAll checks in the order of Neutron's hooks: the network's owner, the quota, the
// policy, and then the plug-in.
func (k *kind[T]) createAll(t *tx, c caller, all []values) ([]T, *failure) {
	for _, v := range all {
		if k.admit != nil && !c.admin {
			if err := k.admit(c, v); err != nil {
				return nil, err
			}
		}
	}
	if err := k.checkQuota(all); err != nil {
		return nil, err
	}
	for _, v := range all {
		if err := k.authorize(c, v, "create_"+k.name, true); err != nil {
			return nil, err
		}
	}
	made := make([]T, 0, len(all))
	for _, v := range all {
		o, err := k.create(t, v)
		if err != nil {
			return nil, err
		}
		made = append(made, o)
	}
	return made, nil
}

// put increments the revision even if nothing changes, unless update returns the object that is
// stored.
func (k *kind[T]) put(r *request, id string) *answer {
	items, _, err := k.decode(r.body, false)
	if err != nil {
		return err.answer()
	}
	v, err := k.check(r.caller, items[0], false)
	if err != nil {
		return err.answer()
	}
	var o T
	err = k.write(r, func(t *tx) *failure {
		old, err := k.change(r, id, "update_"+k.name)
		if err != nil {
			return err
		}
		if err := k.authorize(r.caller, v, "update_"+k.name, false); err != nil {
			return err
		}
		if k.matchFirst && len(v) > 0 {
			if err := ifMatch(r, old.std().revision); err != nil {
				return err
			}
		}
		if o, err = k.update(t, old, v); err != nil || any(o) == any(k.items.byID[id]) {
			return err
		}
		s := o.std()
		s.name = given(v, "name", s.name)
		s.description = given(v, "description", s.description)
		t.bump(s)
		store(t, k.items, o)
		return ifMatch(r, old.std().revision)
	})
	if err != nil {
		return err.answer()
	}
	if k.updated != nil {
		o = k.updated(o)
	}
	return k.single(http.StatusOK, r, o)
}

func (k *kind[T]) delete(r *request, id string) *answer {
	err := k.write(r, func(t *tx) *failure {
		o, err := k.change(r, id, "delete_"+k.name)
		if err != nil {
			return err
		}
		if err := k.remove(t, o); err != nil {
			return err
		}
		return ifMatch(r, o.std().revision)
	})
	if err != nil {
		return err.answer()
	}
	return &answer{status: http.StatusNoContent}
}

// find returns an object that the caller can see. An invisible object gets the same 404 as
// a missing one.
func (k *kind[T]) find(c caller, id string) (T, *failure) {
	o, ok := k.items.byID[id]
	if !ok || !k.visible(c, o) {
		var none T
		return none, missing(k.title, id)
	}
	return o, nil
}

// change returns an object that the caller is allowed to change.
func (k *kind[T]) change(r *request, id, action string) (T, *failure) {
	o, err := k.find(r.caller, id)
	if err == nil && !k.owned(r.caller, o) {
		err = disallowed(action)
	}
	return o, err
}

var quotedTag = regexp.MustCompile(`(?:^|\s)(?:W/)?"((?:\\"|.)*?)"`)

// readConstraint reads the revision that If-Match requires, which may be quoted like an
// entity tag. It returns nil for any other form, which Neutron ignores.
func readConstraint(header string) (constraint *int, err *failure) {
	tags := []string{strings.TrimSpace(header)}
	if quoted := quotedTag.FindAllStringSubmatch(header, -1); quoted != nil {
		tags = nil
		for _, m := range quoted {
			tags = append(tags, m[1])
		}
	}
	for _, tag := range tags {
		number, ok := strings.CutPrefix(tag, "revision_number=")
		if !ok {
			continue
		}
		if constraint != nil {
			return nil, badResource("if-match", "Multiple revision_number etags are not supported.")
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil {
			return nil, badResource("if-match", "Revision number etag must be in the format of revision_number=<int>")
		}
		constraint = &n
	}
	return constraint, nil
}

// ifMatch checks the revision that a request requires. In most cases it is called last,
// because in Neutron the database session checks it: a refusal for another reason takes
// precedence.
func ifMatch(r *request, current int) *failure {
	if r.constraint == nil || *r.constraint == current {
		return nil
	}
	return &failure{http.StatusPreconditionFailed, "RevisionNumberConstraintFailed",
		fmt.Sprintf("Constrained to %d, but current revision is %d", *r.constraint, current)}
}

// decode reads the resources in a body: one, or on creation several.
func (k *kind[T]) decode(body []byte, create bool) (items []map[string]any, bulk bool, err *failure) {
	if len(body) == 0 {
		return nil, false, badRequest("Unable to find '%s' in request body", k.name)
	}
	root, err := decodeObject(body)
	if err != nil {
		return nil, false, err
	}
	// The collection takes precedence if both keys are present.
	list, bulk := root[k.plural]
	if !bulk {
		if root[k.name] == nil {
			return nil, false, badRequest("Unable to find '%s' in request body", k.name)
		}
		item, ok := root[k.name].(map[string]any)
		if !ok {
			return nil, false, badRequest("Object '%s' contains invalid data", k.name)
		}
		return []map[string]any{item}, false, nil
	}
	if !create || k.noBulk {
		return nil, true, badRequest("Bulk operation not supported")
	}
	all, _ := list.([]any)
	for _, e := range all {
		item, ok := e.(map[string]any)
		// Both forms are accepted: {"networks": [{"network": {...}}]} and the one without
		// "network".
		if inner, wrapped := item[k.name].(map[string]any); wrapped {
			item = inner
		}
		if !ok {
			return nil, true, badRequest("Object '%s' contains invalid data", k.name)
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return nil, true, badRequest("Resources required")
	}
	return items, true, nil
}

// decodeObject keeps numbers as written, for the error messages.
func decodeObject(body []byte) (map[string]any, *failure) {
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err := d.Decode(&root)
	if err == nil {
		_, err = d.Token() // io.EOF, unless something follows
	}
	if !errors.Is(err, io.EOF) || root == nil || !utf8.Valid(body) {
		return nil, badRequest("Body contains invalid data")
	}
	return root, nil
}

// check validates the attributes of one resource in Neutron's order: owner, unknown names,
// names that are required or not allowed, and then the values.
func (k *kind[T]) check(c caller, item map[string]any, create bool) (values, *failure) {
	if err := populateProject(c, item, create); err != nil {
		return nil, err
	}
	if err := k.checkNames(item, create); err != nil {
		return nil, err
	}
	v := values{}
	for _, a := range k.attrs {
		x, sent := item[a.name]
		if !sent {
			continue
		}
		if a.check != nil {
			var err *failure
			if x, err = a.check(a.name, x); err != nil {
				return nil, err
			}
		}
		v[a.name] = x
	}
	// The real Neutron's tables are utf8mb3 on MariaDB, which cannot hold these.
	if outsideBMP(given(v, "name", "")) || outsideBMP(given(v, "description", "")) {
		return nil, internalError()
	}
	return v, nil
}

// checkNames sorts the names in its message; Neutron's order is arbitrary.
func (k *kind[T]) checkNames(item map[string]any, create bool) *failure {
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(item)), func(name string) bool { return k.index[name] != nil })
	if len(unknown) > 0 {
		return badRequest("Unrecognized attribute(s) '%s'", strings.Join(unknown, ", "))
	}
	for _, a := range k.attrs {
		_, sent := item[a.name]
		switch {
		case create && !sent && a.flags&required != 0:
			return badRequest("Failed to parse request. Required attribute '%s' not specified", a.name)
		case create && sent && a.flags&onPost == 0:
			return badRequest("Attribute '%s' not allowed in POST", a.name)
		case !create && sent && a.flags&onPut == 0:
			return badRequest("Cannot update read-only attribute %s", a.name)
		}
	}
	return nil
}

// populateProject makes project_id and tenant_id, two names for the same value, agree. On
// creation the default is the caller's project.
func populateProject(c caller, item map[string]any, create bool) *failure {
	project, isProject := item["project_id"]
	tenant, isTenant := item["tenant_id"]
	switch {
	case isProject && isTenant && python(project) != python(tenant):
		return badRequest("'project_id' and 'tenant_id' do not match")
	case isProject:
		item["tenant_id"] = project
	case isTenant:
		item["project_id"] = tenant
	case create:
		item["project_id"], item["tenant_id"] = c.project, c.project
	default:
		return nil
	}
	if item["project_id"] != c.project && !c.admin {
		return badRequest("Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin or advsvc privileges")
	}
	return nil
}

// authorize refuses attributes that only an admin may set. A member may send the default on
// creation, and nothing on update.
func (k *kind[T]) authorize(c caller, v values, action string, create bool) *failure {
	if c.admin {
		return nil
	}
	rules := []string{action}
	for _, a := range k.attrs {
		if a.flags&adminSets == 0 || !v.has(a.name) || create && a.def != nil && v[a.name] == a.def {
			continue
		}
		rules = append(rules, action+":"+a.name)
	}
	switch {
	case len(rules) > 1:
		return disallowed(rules...)
	case k.forbid != nil:
		return k.forbid(v, action)
	}
	return nil
}

// newStandard returns the standard attributes of a new object.
func (t *tx) newStandard(v values, revision int) standard {
	now, name := t.now(), given(v, "name", "")
	return standard{
		id: t.newID(name), project: given(v, "project_id", ""), name: name, description: given(v, "description", ""),
		tags: []string{}, revision: revision, created: now, updated: now,
	}
}

// shown returns the attributes of an answer. Unknown fields are ignored, so fields= without
// a value returns an object without attributes.
func (k *kind[T]) shown(c caller, fields []string) []*attribute[T] {
	var show []*attribute[T]
	for _, a := range k.attrs {
		if a.get == nil || a.flags&adminSees != 0 && !c.admin {
			continue
		}
		if len(fields) == 0 || slices.Contains(fields, a.name) {
			show = append(show, a.shownTo(c))
		}
	}
	return show
}

// shownTo returns the attribute as the caller sees it.
func (a *attribute[T]) shownTo(c caller) *attribute[T] {
	if a.getFor == nil {
		return a
	}
	shown := *a
	shown.get = func(o T) any { return a.getFor(c, o) }
	return &shown
}

func (k *kind[T]) single(status int, r *request, o T) *answer {
	body := append([]byte(`{"`+k.name+`": `), k.appendObject(nil, o, k.shown(r.caller, r.URL.Query()["fields"]))...)
	return rawAnswer(status, append(body, '}'))
}

func (k *kind[T]) appendList(b []byte, all []T, show []*attribute[T], tail string) []byte {
	b = append(b, `{"`+k.plural+`": [`...)
	for i, o := range all {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = k.appendObject(b, o, show)
	}
	return append(append(b, ']'), tail...)
}

// appendObject appends an object attribute by attribute. With 50,000 objects, a map for
// each would cost more than the rest of the list.
func (k *kind[T]) appendObject(b []byte, o T, show []*attribute[T]) []byte {
	b = append(b, '{')
	first := len(b)
	for _, a := range show {
		shown := a.get(o)
		if shown == any(absent{}) {
			continue
		}
		if len(b) > first {
			b = append(b, ", "...)
		}
		b = append(b, `"`+a.name+`": `...)
		value, _ := json.Marshal(shown) // strings, numbers, and structs of them
		b = append(b, value...)
	}
	return append(b, '}')
}

// outsideBMP reports whether s has characters that take four bytes in UTF-8.
func outsideBMP(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r > 0xffff })
}
