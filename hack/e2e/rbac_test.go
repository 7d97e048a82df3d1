/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
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

// rightsOf splits rules into single rights.
func rightsOf(rules []rbacv1.PolicyRule, namespace string) (rights []right) {
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

// boundRights returns the rights that the bindings among the objects grant the controller.
func (w *world) boundRights(objects []*unstructured.Unstructured) (rights []right) {
	w.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range find[rbacv1.ClusterRole](w, objects, "ClusterRole") {
		rules["ClusterRole "+role.Name] = role.Rules
	}
	for _, role := range find[rbacv1.Role](w, objects, "Role") {
		rules["Role "+role.Name] = role.Rules
	}
	for _, binding := range find[rbacv1.ClusterRoleBinding](w, objects, "ClusterRoleBinding") {
		rights = append(rights, rightsOf(rules["ClusterRole "+binding.RoleRef.Name], "")...)
	}
	for _, binding := range find[rbacv1.RoleBinding](w, objects, "RoleBinding") {
		rights = append(rights, rightsOf(rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name], binding.Namespace)...)
	}
	return rights
}

// credentialsRights returns the rights of the ClusterRole that users bind in a namespace
// whose Secrets the controller may read.
func (w *world) credentialsRights(objects []*unstructured.Unstructured, namespace string) []right {
	w.Helper()
	for _, role := range find[rbacv1.ClusterRole](w, objects, "ClusterRole") {
		if role.Name == "samplecrd-controller-credentials" {
			return rightsOf(role.Rules, namespace)
		}
	}
	w.Fatal("the ClusterRole is missing")
	return nil
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
	if err == nil && response.StatusCode == http.StatusForbidden {
		a.refused = append(a.refused, missingRights(response, request, admission)...)
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

// missingRights returns the rights for lack of which a request was refused. It returns none
// if the reason is another one, for example that the namespace is being deleted.
func missingRights(response *http.Response, request right, admission []right) []right {
	said, _ := io.ReadAll(response.Body) // after an error the controller gets the same part
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(said))
	text := string(said)
	switch {
	case strings.Contains(text, "cannot set an ownerRef"):
		return slices.DeleteFunc(admission, func(r right) bool { return r.verb != "delete" })
	case strings.Contains(text, "cannot set blockOwnerDeletion"):
		return slices.DeleteFunc(admission, func(r right) bool { return r.verb != "update" })
	case strings.Contains(text, "cannot "):
		return []right{request}
	}
	return nil
}

func (a *accesses) all() (requested, refused []right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requested), slices.Clone(a.refused)
}

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

// recorded makes the controllers that are started from now on reach Kubernetes with the
// credentials of config, and records their requests.
func (w *world) recorded(config *rest.Config) *accesses {
	w.Helper()
	a := &accesses{}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { a.base = base; return a })
	w.reach = "-master=" + newProxy(w.T, config).url
	return a
}

// withoutStreams makes client-go list and then watch, as it does with API servers that
// cannot begin a watch with a list.
const withoutStreams = "KUBE_FEATURE_WatchListClient=false"

// step is an action of a user, and the check that it had its effect.
type step struct {
	do, done func(*world) error
}

// walkthrough makes the controller do everything that it does for Networks in its own cloud.
var walkthrough = []step{
	{apply("net", "192.168.1.0/16", "192.168.0.1"), inForce("net", "192.168.0.0/16", "192.168.0.1")},
	{apply("net", "192.168.0.0/16", "192.168.0.2"), inForce("net", "192.168.0.0/16", "192.168.0.2")},
	{apply("net", "192.168.0.0/16", "192.168.0.1"), inForce("net", "192.168.0.0/16", "192.168.0.1")},
	// This edit repeats an earlier one, so the event is counted.
	{apply("net", "192.168.0.0/16", "192.168.0.2"), eventsCounted("net")},
	{apply("net", "10.1.0.0/16", "10.1.0.1"), inForce("net", "10.1.0.0/16", "10.1.0.1")},
	{remove("net"), gone("net")},
}

// withDeployment is walkthrough for the Network of a Deployment.
var withDeployment = []step{
	{deployed("web", "10.2.0.0/16"), inForce("web", "10.2.0.0/16", "10.2.0.1")},
	{undeployed("web"), gone("web")},
}

// withAdoption is walkthrough for a Network that a Deployment adopts.
var withAdoption = []step{
	{applyLabelled("shop", "10.4.0.0/16"), inForce("shop", "10.4.0.0/16", "10.4.0.1")},
	{deployed("shop", "10.4.0.0/16"), adopted("shop")},
}

// withCredentials is walkthrough for a Network with a Secret. At its end, the namespace is
// gone.
var withCredentials = []step{
	{applyTeam, inForce("team", "10.3.0.0/16", "10.3.0.1")},
	// The Secret is deleted first, as can happen when a namespace is deleted.
	{removeSecret, unready("team", samplecrdv1.ReasonNoCredentials)},
	{removeNamespace, namespaceGone},
}

func apply(name, cidr, gateway string) func(*world) error {
	return func(w *world) error { return w.applyNetwork(name, manifest(name, cidr, gateway)) }
}

func (w *world) applyNetwork(name, manifest string) error {
	_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.ApplyYAMLPatchType, []byte(manifest), metav1.PatchOptions{FieldManager: "e2e"})
	return err
}

func remove(name string) func(*world) error {
	return func(w *world) error {
		return w.client.SamplecrdV1().Networks(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{})
	}
}

func deployed(name, cidr string) func(*world) error {
	return func(w *world) error { w.deploy(name, cidr, ""); return nil }
}

// undeployed removes the annotation from the Deployment.
func undeployed(name string) func(*world) error {
	return func(w *world) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cidrAnnotation)
		_, err := w.kube.AppsV1().Deployments(w.namespace).Patch(w.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

// applyLabelled creates a Network that is labelled for the Deployment of the same name.
func applyLabelled(name, cidr string) func(*world) error {
	return func(w *world) error {
		n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{samplecrdv1.LabelDeployment: name}}}
		n.Spec.CIDR = cidr
		_, err := w.client.SamplecrdV1().Networks(w.namespace).Create(w.Context(), n, metav1.CreateOptions{})
		return err
	}
}

func adopted(name string) func(*world) error {
	return func(w *world) error {
		if n := w.get(name); metav1.GetControllerOf(n) == nil {
			return fmt.Errorf("Network %s has no owner", name)
		}
		return nil
	}
}

func applyTeam(w *world) error {
	content := map[string]string{"clouds.yaml": cloudsYAML(w.neutron.URL(), project, password)}
	_, err := w.kube.CoreV1().Secrets(w.namespace).Create(w.Context(), secret("team-cloud", content), metav1.CreateOptions{})
	return errors.Join(err, w.applyNetwork("team", withSecret("team", "10.3.0.0/16", "10.3.0.1", "team-cloud")))
}

func removeSecret(w *world) error {
	return w.kube.CoreV1().Secrets(w.namespace).Delete(w.Context(), "team-cloud", metav1.DeleteOptions{})
}

func removeNamespace(w *world) error {
	return w.kube.CoreV1().Namespaces().Delete(w.Context(), w.namespace, metav1.DeleteOptions{})
}

func inForce(name, cidr, gateway string) func(*world) error {
	return func(w *world) error {
		n, err := w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := condition(n, samplecrdv1.ConditionReady)
		if ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != n.Generation || n.Status.CIDR != cidr || n.Status.Gateway != gateway {
			return fmt.Errorf("Network %s is %+v, %+v", name, n.Spec, n.Status)
		}
		found := w.networks(name)
		if len(found) != 1 || len(found[0].Subnets) != 1 || found[0].Subnets[0].CIDR != cidr || found[0].Subnets[0].GatewayIP != gateway {
			return fmt.Errorf("Neutron has %+v", found)
		}
		return nil
	}
}

// reconciled returns a step that requests a reconcile over HTTP.
func reconciled(name string, c *stack.Controller) step {
	var token string
	return step{
		func(w *world) error { token = w.mayUpdate("caller", name); return nil },
		func(w *world) error {
			at := servingAt.FindStringSubmatch(c.Log.String())
			if at == nil {
				return errors.New("the controller does not serve HTTP yet")
			}
			s := &site{world: w, client: http.DefaultClient, url: "http://127.0.0.1:" + at[1]}
			code, said, err := s.try(http.MethodPost, "/reconcile/"+w.namespace+"/"+name, token)
			if err == nil && code != http.StatusAccepted {
				err = fmt.Errorf("POST /reconcile: %d %s", code, said)
			}
			return err
		},
	}
}

func unready(name, reason string) func(*world) error {
	return func(w *world) error {
		if ready := condition(w.get(name), samplecrdv1.ConditionReady); ready.Reason != reason {
			return fmt.Errorf("Network %s is %+v", name, ready)
		}
		return nil
	}
}

func eventsCounted(name string) func(*world) error {
	return func(w *world) error {
		for _, event := range w.events(name, samplecrdv1.EventUpdated) {
			if event.Count == 2 {
				return nil
			}
		}
		return errors.New("no event was counted twice")
	}
}

func gone(name string) func(*world) error {
	return func(w *world) error {
		_, err := w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("Network %s is still there", name)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		if found := w.networks(name); len(found) > 0 {
			return fmt.Errorf("Neutron still has %+v", found)
		}
		return nil
	}
}

func namespaceGone(w *world) error {
	_, err := w.kube.CoreV1().Namespaces().Get(w.Context(), w.namespace, metav1.GetOptions{})
	if err == nil {
		return errors.New("the namespace is still there")
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	return gone("team")(w)
}

// walk takes all steps, and waits for the effect of each on both sides.
func (w *world) walk(steps []step) {
	w.Helper()
	for _, s := range steps {
		w.must(s.do(w))
		w.eventually(func() error { return s.done(w) })
	}
}

func deployedRightsAreAllUsedAndNoOthersAreTried(t *testing.T) {
	w := newWorld(t)
	w.takeAway(systemNamespace)
	folder := w.overlay(clusterWide, "components: [HTTPS]\n")
	w.applyAll(folder)
	objects := w.built(folder)
	w.kubectl("create", "rolebinding", "samplecrd-controller-credentials", "--clusterrole=samplecrd-controller-credentials",
		"--serviceaccount="+systemNamespace+":"+deployedName)
	w.kubectl("delete", "lease", deployedName, "--namespace="+systemNamespace, "--ignore-not-found")

	config := rest.AnonymousClientConfig(w.adminConfig)
	config.BearerToken = strings.TrimSpace(w.kubectl("create", "token", deployedName, "--namespace="+systemNamespace))
	asked := w.recorded(config)
	flags := "-namespace= -leader-elect=true -leader-elect-resource-namespace=" + systemNamespace + " -cluster-resource-namespace=" + systemNamespace
	lists := w.launchIn(append(w.neutron.Env(), withoutStreams), flags)
	w.waitUntilAtWork(lists)
	w.walk(withCredentials[:1])
	w.must(lists.Stop())
	c := w.start(flags, serve)
	w.walk(slices.Concat(walkthrough[:1], []step{reconciled("net", c)}, walkthrough[1:], withDeployment, withAdoption, withCredentials[1:]))

	rights := append(w.boundRights(objects), w.credentialsRights(objects, w.namespace)...)
	// Networks of other tests reference Secrets too, which this controller may not read.
	elsewhere := func(r right) bool {
		return r.resource == "secrets" && r.namespace != w.namespace && r.namespace != systemNamespace
	}
	requested, refused := asked.all()
	requested, refused = slices.DeleteFunc(requested, elsewhere), slices.DeleteFunc(refused, elsewhere)
	if len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
	for _, r := range rights {
		if !slices.ContainsFunc(requested, r.allows) {
			t.Errorf("never used: %s", r)
		}
	}
	for _, request := range requested {
		if !slices.ContainsFunc(rights, func(r right) bool { return r.allows(request) }) {
			t.Errorf("not covered by any rule: %s", request)
		}
	}
	// This is why the controller may get all namespaces.
	if !slices.Contains(requested, right{"get", "", "namespaces", w.namespace, w.namespace}) {
		t.Error("the controller did not get the namespace of the Secret")
	}
	t.Logf("%d rights, %d requests", len(rights), len(requested))
}

func TestDeployedControllerFailsWithoutAnyOneOfItsRights(t *testing.T) {
	t.Parallel()
	parent := newWorldWithoutNeutron(t)
	objects := parent.built(parent.overlay(clusterWide, "components: [HTTPS]\n"))
	all := append(parent.boundRights(objects), parent.credentialsRights(objects, "")...)
	for i, taken := range all {
		t.Run(taken.String(), func(t *testing.T) {
			t.Parallel()
			w, home := newWorld(t), newWorldWithoutNeutron(t)
			w.expected = failedToSync
			asked := w.recorded(home.serviceAccount())
			w.grantRights(home, slices.Delete(slices.Clone(all), i, i+1))
			env := w.neutron.Env()
			if taken.verb == "list" {
				env = append(env, withoutStreams)
			}
			c := w.launchIn(env, serve, retryQuickly, "-leader-elect=true -leader-elect-resource-namespace="+home.namespace, "-cluster-resource-namespace="+home.namespace)
			w.failsFor(taken.at(w, home), w.stepsFor(taken, c), asked)
			// Its exit code does not matter.
			_ = c.Signal(os.Kill)
			w.await("the controller's end", c.Done())
		})
	}
}

// at returns the right as granted in a test that has one namespace for the Networks (w) and
// one for the controller (home).
func (r right) at(w, home *world) right {
	switch {
	case r.resource == "leases", r.isForSpares():
		r.namespace = home.namespace
	case r.resource == "events":
		// Events are recorded in both: some are about the Lease.
	case !r.ofCluster():
		r.namespace = w.namespace
	}
	return r
}

// isForSpares reports whether the right is for Secrets with spare credentials, which only a
// RoleBinding in the controller's namespace grants.
func (r right) isForSpares() bool { return r.resource == "secrets" && r.namespace == systemNamespace }

// ofCluster reports whether only a ClusterRoleBinding can grant the right.
func (r right) ofCluster() bool {
	return r.resource == "namespaces" || strings.HasSuffix(r.resource, "reviews")
}

// grantRights grants the rights to the service account in home, and waits until it has them.
func (w *world) grantRights(home *world, rights []right) {
	w.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range rights {
		r = r.at(w, home)
		rule := rbacv1.PolicyRule{Verbs: []string{r.verb}, APIGroups: []string{r.group}, Resources: []string{r.resource}}
		if r.name != "" {
			rule.ResourceNames = []string{r.name}
		}
		rules[r.namespace] = append(rules[r.namespace], rule)
	}
	account := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home.namespace, Name: "controller"}}
	meta, rbac := metav1.ObjectMeta{Name: w.namespace}, w.kube.RbacV1()
	for namespace, rules := range rules {
		if namespace == "" {
			_, err := rbac.ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			w.must(err)
			_, err = rbac.ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: account, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: meta.Name},
			}, metav1.CreateOptions{})
			w.must(err)
			continue
		}
		_, err := rbac.Roles(namespace).Create(w.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		w.must(err)
		_, err = rbac.RoleBindings(namespace).Create(w.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: account, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: meta.Name},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	for _, r := range rights {
		w.eventually(func() error { return home.has(r.at(w, home)) })
	}
}

// has returns an error unless the service account has the right.
func (w *world) has(r right) error {
	resource, subresource, _ := strings.Cut(r.resource, "/")
	review, err := w.kube.AuthorizationV1().SubjectAccessReviews().Create(w.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + w.namespace + ":controller",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Name: r.name, Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource,
			},
		},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = fmt.Errorf("the service account may not %s", r)
	}
	return err
}

// stepsFor returns the steps that need the right.
func (w *world) stepsFor(r right, c *stack.Controller) []step {
	switch {
	case r.ofCluster():
		return []step{walkthrough[0], reconciled("net", c)}
	case r.isForSpares():
		// The controller reads them without any step.
		return []step{{func(*world) error { return nil }, func(*world) error { return errors.New("the controller may read the Secrets with spare credentials") }}}
	case r.resource == "secrets":
		return withCredentials[:1]
	case strings.HasPrefix(r.resource, "deployments"), r.verb == "create", r.verb == "delete":
		return withDeployment
	}
	return walkthrough
}

// failsFor takes the steps until the API server refuses a request of the controller. It
// fails unless the taken right would have allowed that request.
func (w *world) failsFor(taken right, steps []step, asked *accesses) {
	w.Helper()
	var refused []right
	for _, s := range steps {
		w.must(s.do(w))
		w.eventually(func() error {
			if _, refused = asked.all(); len(refused) > 0 {
				return nil
			}
			return s.done(w)
		})
		if len(refused) > 0 {
			break
		}
	}
	if len(refused) == 0 {
		w.Errorf("without the right to %s, nothing failed", taken)
	}
	for _, request := range refused {
		if !taken.allows(request) {
			w.Errorf("without the right to %s, this was refused too: %s", taken, request)
		}
	}
}

func TestDeployedRolesOfAllNamespacesAndOfOne(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	cluster, namespaced := w.built(w.overlay(clusterWide, "components: [HTTPS]\n")), w.built(w.kustomization(oneNamespace))
	for _, object := range slices.Concat(cluster, namespaced) {
		rules, _, err := unstructured.NestedSlice(object.Object, "rules")
		w.must(err)
		if strings.Contains(fmt.Sprint(rules), "*") {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), rules)
		}
	}
	// The rights in one namespace are the rights in all, except that spare credentials are off.
	in := func(objects []*unstructured.Unstructured) (all []string) {
		for _, r := range w.boundRights(objects) {
			if r.resource != "leases" && !r.ofCluster() && !r.isForSpares() {
				r.namespace = ""
				all = append(all, r.String())
			}
		}
		return all
	}
	if diff := gocmp.Diff(in(cluster), in(namespaced)); diff != "" {
		t.Errorf("the roles of one namespace and of all differ (-all +one):\n%s", diff)
	}
}
