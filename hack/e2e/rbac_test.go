// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// right is the smallest part of a rule. A request is a right without empty parts.
type right struct {
	verb, group, resource string
	// name and namespace are "" for all of them.
	name, namespace string
}

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// allows reports whether the right suffices for the request.
func (r right) allows(request right) bool {
	return r.verb == request.verb && r.group == request.group && r.resource == request.resource &&
		(r.name == "" || r.name == request.name) && (r.namespace == "" || r.namespace == request.namespace)
}

// split splits rules into single rights.
func split(rules []rbacv1.PolicyRule, namespace string) (rights []right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						rights = append(rights, right{verb, group, resource, name, namespace})
					}
				}
			}
		}
	}
	return rights
}

// rightsOf returns the rights that the bindings among the objects grant the controller, and those of the ClusterRole that
// users bind in a namespace whose Secrets the controller may read: in that of the world.
func (w *world) rightsOf(objects []*unstructured.Unstructured) (rights []right) {
	w.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range find[rbacv1.ClusterRole](w, objects, "ClusterRole") {
		rules["ClusterRole "+role.Name] = role.Rules
	}
	for _, role := range find[rbacv1.Role](w, objects, "Role") {
		rules["Role "+role.Name] = role.Rules
	}
	for _, binding := range find[rbacv1.ClusterRoleBinding](w, objects, "ClusterRoleBinding") {
		rights = append(rights, split(rules["ClusterRole "+binding.RoleRef.Name], "")...)
	}
	for _, binding := range find[rbacv1.RoleBinding](w, objects, "RoleBinding") {
		rights = append(rights, split(rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name], binding.Namespace)...)
	}
	return append(rights, split(rules["ClusterRole samplecrd-controller-credentials"], w.namespace)...)
}

// accesses records the requests to the API server, and those that it refuses.
type accesses struct {
	base http.RoundTripper

	mu                 sync.Mutex
	requested, refused []right
}

// RoundTrip implements http.RoundTripper.
func (a *accesses) RoundTrip(r *http.Request) (*http.Response, error) {
	request, ok := requestedRight(r)
	admission := admissionRights(r, request)
	response, err := a.base.RoundTrip(r)
	if !ok {
		return response, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requested = append(append(a.requested, request), admission...)
	// While a namespace is being deleted, nothing can be created in it, which is also a 403.
	if err == nil && response.StatusCode == http.StatusForbidden {
		said, _ := io.ReadAll(response.Body) // after an error the controller gets the same part
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(said))
		if bytes.Contains(said, []byte("cannot ")) {
			a.refused = append(a.refused, request)
		}
	}
	return response, err
}

// admissionRights returns the rights that the admission plug-in
// OwnerReferencesPermissionEnforcement requires for a request, besides the right to make it.
func admissionRights(r *http.Request, request right) (rights []right) {
	if r.Body == nil || request.resource != "networks" {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failedReader{err}))
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) != nil || len(object.OwnerReferences) == 0 {
		return nil
	}
	if request.verb != "create" {
		rights = append(rights, right{"delete", request.group, request.resource, request.name, request.namespace})
	}
	for _, owner := range object.OwnerReferences {
		if blocks := owner.BlockOwnerDeletion; blocks != nil && *blocks {
			group, _, _ := strings.Cut(owner.APIVersion, "/")
			rights = append(rights, right{"update", group, strings.ToLower(owner.Kind) + "s/finalizers", owner.Name, request.namespace})
		}
	}
	return rights
}

// failedReader returns the error of an earlier read, or io.EOF.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// requestedRight returns the right that a request needs, as the API server determines it,
// and false if the request is not for a resource.
func requestedRight(r *http.Request) (request right, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		request.group, parts = parts[1], parts[3:]
	default:
		return request, false
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		request.namespace = parts[1]
		if len(parts) > 2 {
			parts = parts[2:]
		}
	}
	request.resource, request.verb = parts[0], verb(r, len(parts) > 1)
	if len(parts) > 1 {
		request.name = parts[1]
	}
	if len(parts) > 2 {
		request.resource += "/" + parts[2]
	}
	if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil && request.name == "" {
		request.name, _ = selector.RequiresExactMatch(metav1.ObjectNameField)
	}
	return request, true
}

func deployedRightsAreAllUsedAndNoOthersAreTried(t *testing.T) {
	w := newWorld(t)
	w.takeAway(systemNamespace)
	folder := w.overlay(clusterWide, "components: [HTTPS]\n")
	w.applyAll(folder)
	w.kubectl("create", "rolebinding", "samplecrd-controller-credentials", "--clusterrole=samplecrd-controller-credentials",
		"--serviceaccount="+systemNamespace+":"+deployedName)
	w.kubectl("delete", "lease", deployedName, "--namespace="+systemNamespace, "--ignore-not-found")

	config := rest.AnonymousClientConfig(w.adminConfig)
	config.BearerToken = strings.TrimSpace(w.kubectl("create", "token", deployedName, "--namespace="+systemNamespace))
	asked := &accesses{}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { asked.base = base; return asked })
	w.reach = "-master=" + newProxy(t, config).url
	w.usesAllRights()

	asked.mu.Lock()
	defer asked.mu.Unlock()
	rights := w.rightsOf(w.built(folder))
	for _, request := range asked.refused {
		t.Errorf("refused: %s", request)
	}
	for _, r := range rights {
		if !slices.ContainsFunc(asked.requested, r.allows) {
			t.Errorf("never used: %s", r)
		}
	}
	for _, request := range asked.requested {
		if !slices.ContainsFunc(rights, func(r right) bool { return r.allows(request) }) {
			t.Errorf("not covered by any rule: %s", request)
		}
	}
	// This is why the controller may get all namespaces.
	if !slices.Contains(asked.requested, right{"get", "", "namespaces", w.namespace, w.namespace}) {
		t.Error("the controller did not get the namespace of the Secret")
	}
}

// usesAllRights makes the controller do everything that it does.
func (w *world) usesAllRights() {
	w.Helper()
	flags := "-namespace= -leader-elect=true -leader-elect-resource-namespace=" + systemNamespace + " -cluster-resource-namespace=" + systemNamespace
	w.Cleanup(func() { w.kubectl("delete", "clustercloud", w.namespace, "--ignore-not-found") })
	w.applyText("apiVersion: samplecrd.k8s.io/v1\nkind: ClusterCloud\nmetadata: {name: " + w.namespace + "}\nspec: {secretName: none, cloudName: mycloud}\n")
	// It lists and then watches, as with API servers that cannot begin a watch with a list.
	lists := w.launchIn(append(w.neutron.Env(), "KUBE_FEATURE_WatchListClient=false"), flags)
	w.waitUntilAtWork(lists)
	w.applySecret("team-cloud", map[string]string{"clouds.yaml": cloudsYAML(w.neutron.URL(), project, password)})
	w.applyWith("team", "10.3.0.0/16", "10.3.0.1", "team-cloud")
	w.waitReady("team")
	w.must(lists.Stop())

	c := w.start(flags, serve)
	for _, gateway := range []string{"10.1.0.1", "10.1.0.2", "10.1.0.1", "10.1.0.2"} { // the third edit is the same as the first: its event is counted
		w.create("net", "10.1.0.0/16", gateway)
	}
	w.eventually(func() error {
		if events := w.events("net", samplecrdv1.EventUpdated); !slices.ContainsFunc(events, func(e corev1.Event) bool { return e.Count == 2 }) {
			return fmt.Errorf("no event was counted twice: %+v", events)
		}
		return nil
	})
	w.siteOf(c).ask(http.MethodPost, "/reconcile/"+w.namespace+"/net", w.mayUpdate("caller", "net"), http.StatusAccepted)
	w.create("net", "10.5.0.0/16", "10.5.0.1")
	w.delete("net")

	w.deploy("web", "10.2.0.0/16", "")
	w.waitInForce("web", "10.2.0.0/16", "10.2.0.1")
	w.annotateDeployment("web", cidrAnnotation+"-")
	w.waitGone("web")
	w.applyText(strings.Replace(manifest("shop", "10.4.0.0/16", ""), "name: shop\n", "name: shop\n  labels: {"+samplecrdv1.LabelDeployment+": shop}\n", 1))
	w.waitReady("shop")
	w.deploy("shop", "10.4.0.0/16", "")
	w.eventually(func() error {
		if metav1.GetControllerOf(w.get("shop")) == nil {
			return errors.New("the Network has not been adopted")
		}
		return nil
	})

	// The Secret is deleted first, as can happen when a namespace is deleted.
	w.kubectl("delete", "secret", "team-cloud")
	w.waitSays("team", samplecrdv1.ReasonNoCredentials)
	w.kubectl("delete", "namespace", w.namespace, "--timeout="+patience.String())
	w.nothing("team")
}

func TestDeployedRolesOfAllNamespacesAndOfOne(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	// The rights in one namespace are the rights in all, except that there are no ClusterClouds.
	in := func(folder string) (all []string) {
		for _, r := range w.rightsOf(w.built(folder)) {
			ofTheCluster := r.resource == "namespaces" || r.resource == "clusterclouds" || strings.HasSuffix(r.resource, "reviews")
			if r.resource != "leases" && r.resource != "secrets" && !ofTheCluster {
				all = append(all, r.verb+" "+r.resource)
			}
			if strings.Contains(r.String(), "*") {
				t.Errorf("%s grants %s", folder, r)
			}
		}
		return all
	}
	if diff := gocmp.Diff(in(w.overlay(clusterWide, "components: [HTTPS]\n")), in(w.kustomization(oneNamespace))); diff != "" {
		t.Errorf("the roles of one namespace and of all differ (-all +one):\n%s", diff)
	}
}
