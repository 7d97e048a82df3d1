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
	"net/http"
	"slices"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// The rights that the controller needs, no more and no less: in the namespaces that it
// works in, and in the cluster.
var (
	inNamespace = []rbacv1.PolicyRule{
		{APIGroups: []string{"samplecrd.k8s.io"}, Resources: []string{"networks"}, Verbs: []string{"get", "list", "watch", "patch", "create", "delete"}},
		{APIGroups: []string{"samplecrd.k8s.io"}, Resources: []string{"networks/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		// The controller also needs list if the API server does not stream lists.
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "watch"}},
	}
	// Admission requires this right for blockOwnerDeletion; no request has this form.
	forAdmission = rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments/finalizers"}, Verbs: []string{"update"}}
	inCluster    = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
	}
)

func TestControllerThatMayNotReadTheClustersIDSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProxy(t, w.serviceAccount())
	said, code := w.run(w.neutron.Env(), "-master="+p.url, "-namespace="+w.namespace)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	w.contains(said, "forbidden", "kube-system", "-cluster-id")
	said, code = w.run(w.neutron.Env(), "-master="+p.url, "-namespace="+w.namespace, "-cluster-id=me")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	w.contains(said, "list Networks", "forbidden")
}

// serviceAccount creates a service account without any rights, and returns a config with
// its token.
func (w *world) serviceAccount() *rest.Config {
	w.Helper()
	accounts := w.kube.CoreV1().ServiceAccounts(w.namespace)
	_, err := accounts.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "controller"}}, metav1.CreateOptions{})
	w.must(err)
	token, err := accounts.CreateToken(w.Context(), "controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	config := rest.AnonymousClientConfig(w.adminConfig)
	config.BearerToken = token.Status.Token
	return config
}

// grant grants the service account the rights that the controller needs.
func (w *world) grant() {
	w.Helper()
	rbac, meta := w.kube.RbacV1(), metav1.ObjectMeta{Name: w.namespace}
	account := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "controller"}}
	_, err := rbac.Roles(w.namespace).Create(w.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: append(slices.Clone(inNamespace), forAdmission)}, metav1.CreateOptions{})
	w.must(err)
	_, err = rbac.RoleBindings(w.namespace).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: account, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: w.namespace},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = rbac.ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: inCluster}, metav1.CreateOptions{})
	w.must(err)
	_, err = rbac.ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: account, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: w.namespace},
	}, metav1.CreateOptions{})
	w.must(err)
	// The API server applies new rights after a moment.
	w.eventually(func() error {
		as := "--as=system:serviceaccount:" + w.namespace + ":controller"
		_, err := w.tryKubectl("", "auth", "can-i", "get", "namespaces/kube-system", as)
		if err == nil {
			_, err = w.tryKubectl("", "auth", "can-i", "create", "events", as)
		}
		return err
	})
}

// It is part of TestWholeCluster, because all tests need the API server.
func controllerRecoversFromARestartOfTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.expected = failedToSync
	controller := w.start(retryQuickly)
	w.create("edited", "10.1.0.0/16", "10.1.0.1")
	w.create("deleted", "10.2.0.0/16", "10.2.0.1")

	// The API server is stopped when Neutron answers, so the status cannot be written.
	came, away := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.harm(func(r *http.Request) *embedded.Fault {
		if neutronRequest(r) == "POST networks" {
			once.Do(func() { close(came) })
			<-away
		}
		return nil
	})
	w.apply("new", "10.3.0.0/16", "10.3.0.1")
	w.await("the request", came)
	err := w.controlPlane.StopAPIServer()
	close(away)
	w.must(err)
	w.waitForLog(controller, failedToSync)
	w.must(w.controlPlane.StartAPIServer())

	w.waitReady("new")
	w.matches("new", "10.3.0.0/16", "10.3.0.1")
	w.create("edited", "10.1.0.0/16", "10.1.0.2")
	w.matches("edited", "10.1.0.0/16", "10.1.0.2")
	w.delete("deleted")
	w.nothing("deleted")
	select {
	case <-controller.Done():
		t.Error("the controller has ended")
	default:
	}
}
