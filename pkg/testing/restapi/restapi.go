// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restapi is an API server in memory for tests in which whole controllers run. Clients reach it
// through an http.RoundTripper, so they are the real ones, and no socket is involved: a bubble of
// testing/synctest stays in virtual time.
//
// It has what controllers depend on: UIDs, resourceVersions and their conflicts, generations, a status that
// only its subresource changes, deletion that waits for finalizers, preconditions, dry runs, lists with
// selectors, and watches that begin at a resourceVersion or with a list, are late, break, or are too old. It
// does not validate, does not default what Kind.Default does not, keeps no managed fields, returns each list as
// a whole, and takes each patch for a JSON merge patch.
package restapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// Kind describes the objects of one resource.
type Kind struct {
	// Name is the kind, such as Network.
	Name string
	// HasStatus means that the status is a subresource, and that a change of the spec is a new generation.
	HasStatus bool
	// Default sets the defaults of an object that is about to be stored; nil: there are none.
	Default func(*unstructured.Unstructured)
}

// Key names an object.
type Key struct {
	Resource, Namespace, Name string
}

// Change is one change of an object.
type Change struct {
	Version int64
	At      time.Time
	Type    watch.EventType
	Key     Key
	// Object is the object after the change, or before its deletion. It never changes.
	Object *unstructured.Unstructured
}

// Server is an API server. Its methods may be called concurrently.
type Server struct {
	number int
	kinds  map[string]Kind

	mu      sync.Mutex
	objects map[Key]*unstructured.Unstructured
	version int64
	uids    int
	// changes are those that watches show.
	changes  []Change
	onChange func(Change)
	// restores is how often a backup was restored.
	restores int
	// expired is the oldest resourceVersion from which a watch can begin.
	expired int64
	watches map[*stream]struct{}
}

// New returns a Server for these resources, whose UIDs begin with the number. A resource is its plural name without a group: no two may share one. onChange is
// called for each change, one after the other, and must not call the Server; it may be nil.
func New(number int, kinds map[string]Kind, onChange func(Change)) *Server {
	if onChange == nil {
		onChange = func(Change) {}
	}
	return &Server{number: number, kinds: kinds, objects: map[Key]*unstructured.Unstructured{}, watches: map[*stream]struct{}{}, version: 1, onChange: onChange}
}

// Request is one request of a client.
type Request struct {
	Verb        string // get, list, watch, create, update, patch or delete
	Key         Key
	Subresource string
	Body        []byte
	version     schema.GroupVersion
	labels      labels.Selector
	fields      fields.Selector
	options     metav1.ListOptions
	isDryRun    bool
	contentType string
}

// Writes reports whether the request may change anything.
func (r *Request) Writes() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && !r.isDryRun
}

func (r *Request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.version.Group, Resource: r.Key.Resource}
}

// parse returns the request that an HTTP request stands for.
func parse(h *http.Request, body []byte) (*Request, error) {
	r := &Request{Body: body, contentType: h.Header.Get("Content-Type")}
	parts := strings.Split(strings.Trim(h.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		r.version, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		r.version, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, h.URL.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.Key.Namespace, parts = parts[1], parts[2:]
	}
	r.Key.Resource = parts[0]
	if len(parts) > 1 {
		r.Key.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	query := h.URL.Query()
	r.isDryRun = query.Get("dryRun") == metav1.DryRunAll
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &r.options, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var errs [2]error
	r.labels, errs[0] = labels.Parse(r.options.LabelSelector)
	r.fields, errs[1] = fields.ParseSelector(r.options.FieldSelector)
	if errs[0] != nil || errs[1] != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprint(errs))
	}
	r.Verb = verbOf(h.Method, r)
	return r, nil
}

func verbOf(method string, r *Request) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case r.options.Watch:
		return "watch"
	case r.Key.Name == "":
		return "list"
	}
	return "get"
}

// do executes a request other than a watch, and calls after. What it returns is not to be changed.
func (s *Server) do(r *Request, after func(*Request, error)) (o runtime.Object, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after != nil {
		defer func() { after(r, err) }()
	}
	if _, known := s.kinds[r.Key.Resource]; !known {
		return nil, apierrors.NewNotFound(r.groupResource(), r.Key.Name)
	}
	old := s.objects[r.Key]
	if old == nil && r.Verb != "list" && r.Verb != "create" {
		return nil, apierrors.NewNotFound(r.groupResource(), r.Key.Name)
	}
	switch r.Verb {
	case "get":
		return old, nil
	case "list":
		return s.list(r), nil
	case "create":
		return s.create(r)
	case "update":
		next := &unstructured.Unstructured{}
		if err := next.UnmarshalJSON(r.Body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return s.update(r, old, next)
	case "patch":
		return s.patch(r, old)
	case "delete":
		return s.remove(r, old)
	}
	return nil, apierrors.NewMethodNotSupported(r.groupResource(), r.Verb)
}

// matches reports whether the object is among those that the request is about.
func (r *Request) matches(key Key, o *unstructured.Unstructured) bool {
	return key.Resource == r.Key.Resource && (r.Key.Namespace == "" || key.Namespace == r.Key.Namespace) &&
		(r.labels.Empty() || r.labels.Matches(labels.Set(o.GetLabels()))) &&
		(r.fields.Empty() || r.fields.Matches(fields.Set{"metadata.name": key.Name, "metadata.namespace": key.Namespace}))
}

// sorted returns the objects that the request is about, by namespace and name.
func (s *Server) sorted(r *Request) (items []*unstructured.Unstructured) {
	var keys []Key
	for key, o := range s.objects {
		if r.matches(key, o) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, key := range keys {
		items = append(items, s.objects[key])
	}
	return items
}

func (s *Server) list(r *Request) runtime.Object {
	list := &unstructured.UnstructuredList{}
	for _, o := range s.sorted(r) {
		list.Items = append(list.Items, *o)
	}
	list.SetAPIVersion(r.version.String())
	list.SetKind(s.kinds[r.Key.Resource].Name + "List")
	list.SetResourceVersion(strconv.FormatInt(s.version, 10))
	return list
}

func (s *Server) create(r *Request) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(r.Body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	r.Key.Name = o.GetName()
	if _, exists := s.objects[r.Key]; exists {
		return nil, apierrors.NewAlreadyExists(r.groupResource(), r.Key.Name)
	}
	s.uids++
	o.SetUID(types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", s.number, s.uids)))
	o.SetNamespace(r.Key.Namespace)
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if s.kinds[r.Key.Resource].HasStatus {
		o.SetGeneration(1)
		delete(o.Object, "status")
	}
	return s.store(r, watch.Added, o), nil
}

// update replaces what the request may change, if the resourceVersion and the UID are still the same.
func (s *Server) update(r *Request, old, next *unstructured.Unstructured) (runtime.Object, error) {
	kind := s.kinds[r.Key.Resource]
	if uid := next.GetUID(); r.Subresource != "status" && uid != "" && uid != old.GetUID() {
		return nil, r.conflict("the UID is different")
	}
	if version := next.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, r.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	switch {
	case r.Subresource == "status":
		status := next.Object["status"]
		next = old.DeepCopy()
		next.Object["status"] = status
	case kind.HasStatus:
		next.Object["status"] = runtime.DeepCopyJSONValue(old.Object["status"])
	}
	next.SetNamespace(old.GetNamespace())
	next.SetUID(old.GetUID())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetGeneration(old.GetGeneration())
	if equality.Semantic.DeepEqual(old.Object, next.Object) {
		return old, nil
	}
	if kind.HasStatus && !equality.Semantic.DeepEqual(old.Object["spec"], next.Object["spec"]) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	return s.store(r, watch.Modified, next), nil
}

func (r *Request) conflict(why string) error {
	return apierrors.NewConflict(r.groupResource(), r.Key.Name, fmt.Errorf("%s", why))
}

func (s *Server) patch(r *Request, old *unstructured.Unstructured) (runtime.Object, error) {
	before, err := old.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(after, &next.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(r, old, next)
}

func (s *Server) remove(r *Request, old *unstructured.Unstructured) (runtime.Object, error) {
	var options metav1.DeleteOptions
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != old.GetUID() {
		return nil, r.conflict("the UID in the precondition is different")
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return nil, r.conflict("the resourceVersion in the precondition is different")
	}
	if old.GetDeletionTimestamp() != nil {
		return old, nil
	}
	next := old.DeepCopy()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	next.SetDeletionTimestamp(&now)
	if s.kinds[r.Key.Resource].HasStatus {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	return s.store(r, watch.Modified, next), nil
}

// BeginDelete begins the deletion of an object without finalizers. The returned function removes it, even if it has a finalizer
// by then: kube-apiserver looks for finalizers before the transaction that deletes. BeginDelete returns nil if there is no object,
// or it has finalizers.
func (s *Server) BeginDelete(key Key) (finish func()) {
	begun := s.Get(key)
	if begun == nil || len(begun.GetFinalizers()) > 0 {
		return nil
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := s.objects[key]; now != nil && now.GetUID() == begun.GetUID() {
			s.publish(watch.Deleted, key, now.DeepCopy())
		}
	}
}

// store stores the object with a new resourceVersion, and returns it. It removes an object that is being
// deleted and has no finalizer left.
func (s *Server) store(r *Request, event watch.EventType, o *unstructured.Unstructured) *unstructured.Unstructured {
	if kind := s.kinds[r.Key.Resource]; kind.Default != nil {
		kind.Default(o)
	}
	if r.isDryRun {
		return o
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		event = watch.Deleted
	}
	s.publish(event, r.Key, o)
	return o
}

// publish stores or removes the object with a new resourceVersion, and wakes the watches for it.
func (s *Server) publish(event watch.EventType, key Key, o *unstructured.Unstructured) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if event == watch.Deleted {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
	s.changes = append(s.changes, Change{s.version, time.Now(), event, key, o})
	s.onChange(s.changes[len(s.changes)-1])
	for w := range s.watches {
		if w.request.matches(key, o) {
			w.wake()
		}
	}
}

// Get returns a copy of the object as it is stored, or nil.
func (s *Server) Get(key Key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// List returns all objects of the resource, by namespace and name. They never change, and callers must not change them.
func (s *Server) List(resource string) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(&Request{Key: Key{Resource: resource}, labels: labels.Everything(), fields: fields.Everything()})
}

// Backup is all that a Server had at a moment.
type Backup struct {
	version int64
	objects map[Key]*unstructured.Unstructured
}

// Backup returns all that the Server has.
func (s *Server) Backup() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Backup{s.version, maps.Clone(s.objects)}
}

// Restore replaces all that the Server has. The resourceVersions go back to those of the backup, and all watches end. A watch
// that would continue from before is expired, as etcd's documentation wants it.
func (s *Server) Restore(b Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects
	s.objects, s.version = maps.Clone(b.objects), b.version
	s.changes = slices.DeleteFunc(s.changes, func(c Change) bool { return c.Version > b.version })
	s.restores++
	for key, o := range before {
		if b.objects[key] == nil || b.objects[key].GetUID() != o.GetUID() {
			s.onChange(Change{b.version, time.Now(), watch.Deleted, key, o})
		}
	}
	for key, o := range b.objects {
		if before[key] != o {
			s.onChange(Change{b.version, time.Now(), watch.Modified, key, o})
		}
	}
	s.breakWatches()
}

// Expire lets no watch begin at a resourceVersion until now.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = s.version
}

// BreakWatches ends all watches.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakWatches()
}

func (s *Server) breakWatches() {
	for w := range s.watches {
		w.end()
	}
}
