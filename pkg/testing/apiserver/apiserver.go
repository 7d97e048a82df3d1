// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver replaces the API server under the fake clientset, in tests that run through thousands of cases, each of
// which syncs one Network after another. Package restapi is the API server for whole controllers.
// Used under the generated fake clientset, it adds for Networks what the fake lacks: UIDs,
// resourceVersions and their conflicts, generations, deletion that waits for finalizers,
// and a status that only its subresource changes.
//
// The end-to-end tests check the same behaviour on a real API server. This server does not
// validate, does not keep managed fields, and sets defaults only in the status. Of the kinds of
// patch it knows only the JSON merge patch.
package apiserver

import (
	"encoding/json"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
)

// Server holds the Networks. Its zero value is not ready for use; see Install.
type Server struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*samplecrdv1.Network
	version int
	uids    int
	// history holds all Networks as they were after each change. These copies never change.
	history []map[types.NamespacedName]*samplecrdv1.Network
	// versions are the resourceVersions of those changes.
	versions []int

	around func(Request, func() (runtime.Object, error)) (runtime.Object, error)
}

// Request is one request of a client.
type Request struct {
	Verb, Subresource string
}

// Writes reports whether the request may change anything.
func (r Request) Writes() bool { return !slices.Contains([]string{"get", "list"}, r.Verb) }

// Install returns a Server that stores all Networks of the fake clientset.
func Install(client *fake.Clientset) *Server {
	s := &Server{objects: map[types.NamespacedName]*samplecrdv1.Network{}}
	client.PrependReactor("*", "networks", s.react)
	return s
}

// Around sets a function that is called for each request. It decides whether to call do,
// which executes the request, and what to return. nil: requests are just executed.
func (s *Server) Around(around func(r Request, do func() (runtime.Object, error)) (runtime.Object, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around = around
}

func (s *Server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	around := s.around
	s.mu.Unlock()
	do := func() (runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.do(action)
	}
	if around == nil {
		object, err := do()
		return true, object, err
	}
	object, err := around(Request{action.GetVerb(), action.GetSubresource()}, do)
	return true, object, err
}

func (s *Server) do(action clienttesting.Action) (runtime.Object, error) {
	key := types.NamespacedName{Namespace: action.GetNamespace()}
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		key.Name = a.Name
		return s.get(key)
	case clienttesting.ListActionImpl:
		return s.list(key.Namespace), nil
	case clienttesting.CreateActionImpl:
		return s.create(a.Object.(*samplecrdv1.Network))
	case clienttesting.UpdateActionImpl:
		return s.update(a.Object.(*samplecrdv1.Network), a.Subresource)
	case clienttesting.PatchActionImpl:
		key.Name = a.Name
		return s.patch(key, a)
	case clienttesting.DeleteActionImpl:
		key.Name = a.Name
		return s.remove(key, a.DeleteOptions.Preconditions)
	}
	return nil, fmt.Errorf("unknown action: %T", action)
}

func notFound(key types.NamespacedName) error {
	return apierrors.NewNotFound(samplecrdv1.Resource("networks"), key.Name)
}

func conflict(key types.NamespacedName, what string) error {
	return apierrors.NewConflict(samplecrdv1.Resource("networks"), key.Name, errors.New(what))
}

func (s *Server) get(key types.NamespacedName) (*samplecrdv1.Network, error) {
	if n, ok := s.objects[key]; ok {
		return n.DeepCopy(), nil
	}
	return nil, notFound(key)
}

func (s *Server) list(namespace string) *samplecrdv1.NetworkList {
	list := &samplecrdv1.NetworkList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for key, n := range s.objects {
		if namespace == "" || key.Namespace == namespace {
			list.Items = append(list.Items, *n.DeepCopy())
		}
	}
	slices.SortFunc(list.Items, func(a, b samplecrdv1.Network) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list
}

func (s *Server) create(n *samplecrdv1.Network) (*samplecrdv1.Network, error) {
	key := types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
	if _, there := s.objects[key]; there {
		return nil, apierrors.NewAlreadyExists(samplecrdv1.Resource("networks"), n.Name)
	}
	n = n.DeepCopy()
	s.uids++
	n.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
	n.Generation = 1
	n.CreationTimestamp = metav1.Time{Time: time.Unix(int64(s.uids), 0)}
	n.Status = samplecrdv1.NetworkStatus{}
	return s.store(key, n), nil
}

// defaultStatus returns the default that the CustomResourceDefinition sets in a Network
// without a status.
func defaultStatus() samplecrdv1.NetworkStatus {
	return samplecrdv1.NetworkStatus{Conditions: []metav1.Condition{{
		Type: samplecrdv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: samplecrdv1.ReasonPending,
		Message: "Waiting for the controller", LastTransitionTime: metav1.Unix(0, 0),
	}}}
}

// store stores the Network with a new resourceVersion. It removes a Network that is being
// deleted and has no finalizer left.
func (s *Server) store(key types.NamespacedName, n *samplecrdv1.Network) *samplecrdv1.Network {
	if equality.Semantic.DeepEqual(n.Status, samplecrdv1.NetworkStatus{}) {
		n.Status = defaultStatus()
	}
	s.version++
	n.ResourceVersion = strconv.Itoa(s.version)
	if n.DeletionTimestamp != nil && len(n.Finalizers) == 0 {
		delete(s.objects, key)
	} else {
		s.objects[key] = n
	}
	s.remember()
	return n.DeepCopy()
}

func (s *Server) remember() {
	s.history = append(s.history, maps.Clone(s.objects))
	s.versions = append(s.versions, s.version)
}

// update changes the fields that may change, if the resourceVersion is still the same.
func (s *Server) update(n *samplecrdv1.Network, subresource string) (*samplecrdv1.Network, error) {
	key := types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
	old, ok := s.objects[key]
	if !ok {
		return nil, notFound(key)
	}
	// The real API server also accepts any UID when the status of a custom resource is
	// written.
	if subresource != "status" && n.UID != "" && n.UID != old.UID {
		return nil, conflict(key, "the UID is different")
	}
	if n.ResourceVersion != "" && n.ResourceVersion != old.ResourceVersion {
		return nil, conflict(key, "the object has been modified")
	}
	next := old.DeepCopy()
	if subresource == "status" {
		next.Status = *n.Status.DeepCopy()
	} else {
		next.Labels, next.Annotations, next.Finalizers, next.OwnerReferences = n.Labels, n.Annotations, n.Finalizers, n.OwnerReferences
		next.Spec = n.Spec
		if !equality.Semantic.DeepEqual(next.Spec, old.Spec) {
			next.Generation++
		}
	}
	if equality.Semantic.DeepEqual(next, old) {
		return old.DeepCopy(), nil
	}
	return s.store(key, next), nil
}

func (s *Server) patch(key types.NamespacedName, a clienttesting.PatchActionImpl) (*samplecrdv1.Network, error) {
	old, ok := s.objects[key]
	if !ok {
		return nil, notFound(key)
	}
	if a.PatchType != types.MergePatchType {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", samplecrdv1.Resource("networks"), key.Name, string(a.PatchType), 0, true)
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, a.Patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	n := &samplecrdv1.Network{}
	if err := json.Unmarshal(after, n); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(n, a.Subresource)
}

func (s *Server) remove(key types.NamespacedName, p *metav1.Preconditions) (*samplecrdv1.Network, error) {
	old, ok := s.objects[key]
	if !ok {
		return nil, notFound(key)
	}
	if p != nil && (p.UID != nil && *p.UID != old.UID || p.ResourceVersion != nil && *p.ResourceVersion != old.ResourceVersion) {
		return nil, conflict(key, "the preconditions of the deletion are not met")
	}
	if old.DeletionTimestamp != nil {
		return old.DeepCopy(), nil
	}
	n := old.DeepCopy()
	n.DeletionTimestamp = &metav1.Time{Time: time.Unix(int64(s.version), 0)}
	n.Generation++
	return s.store(key, n), nil
}

// Changes returns the number of changes so far.
func (s *Server) Changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.history)
}

// After returns the Networks as they were after that many changes, like a cache that has
// seen only those.
func (s *Server) After(changes int) []*samplecrdv1.Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	var networks []*samplecrdv1.Network
	if changes > 0 {
		for _, n := range s.history[changes-1] {
			networks = append(networks, n.DeepCopy())
		}
	}
	return networks
}

// Delete deletes the Network as a client does: one with a finalizer only gets a deletionTimestamp.
func (s *Server) Delete(n *samplecrdv1.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.remove(types.NamespacedName{Namespace: n.Namespace, Name: n.Name}, nil)
}

// Remove removes the Network at once, whatever finalizers it has.
func (s *Server) Remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, types.NamespacedName{Namespace: namespace, Name: name})
	s.remember()
}

// Restore makes everything what it was after that many changes, resourceVersions included, as a
// restore of etcd from a backup does. It counts as a change.
func (s *Server) Restore(changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.version = map[types.NamespacedName]*samplecrdv1.Network{}, 0
	if changes > 0 {
		s.objects, s.version = maps.Clone(s.history[changes-1]), s.versions[changes-1]
	}
	s.remember()
}

// Put stores the Network without any check, for tests that start from a given state. It
// sets a UID, a generation and a resourceVersion if they are missing.
func (s *Server) Put(n *samplecrdv1.Network) *samplecrdv1.Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = n.DeepCopy()
	if n.UID == "" {
		s.uids++
		n.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
	}
	n.Generation = max(n.Generation, 1)
	return s.store(types.NamespacedName{Namespace: n.Namespace, Name: n.Name}, n)
}
