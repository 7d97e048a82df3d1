// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestSecuritySecretOfAnotherNamespaceIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	other, err := w.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-other-"}}, metav1.CreateOptions{})
	w.must(err)
	credentials := secret("creds", w.credentialsOf("team"))
	_, err = w.kube.CoreV1().Secrets(other.Name).Create(t.Context(), credentials, metav1.CreateOptions{})
	w.must(err)
	w.start("-resync=1h")
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "creds")
	w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret creds: it does not exist")
	w.nothing("net")
	for _, name := range []string{other.Name + "/creds", "../" + other.Name + "/creds", "../../" + other.Name + "/secrets/creds", "creds,metadata.namespace=" + other.Name} {
		if out, err := w.tryKubectl(withSecret("refused", "10.1.0.0/16", "10.1.0.1", `"`+name+`"`), "apply", "-f", "-"); err == nil {
			t.Errorf("the name %q was accepted: %s", name, out)
		}
	}
}

func TestSecurityForeignAnswersAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t) // it fails if the canary is found anywhere
	var asked atomic.Int32
	foreign := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(rw, canary, http.StatusForbidden)
	}))
	t.Cleanup(foreign.Close)
	w.start("-resync=1h", retryQuickly)
	for name, path := range map[string]string{"versions": "/", "token": "/v3"} {
		w.applySecret(name, map[string]string{"clouds.yaml": strings.Replace(cloudsYAML(foreign.URL, "team", passwordOf("team")), "/identity/v3", path, 1)})
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", name)
		w.waitSays(name, samplecrdv1.ReasonNeutronUnavailable, "403 Forbidden")
	}
	if asked.Load() == 0 {
		t.Error("the server got no request, so the test shows nothing")
	}
}

// A tenant's own cloud cannot lead the controller to another server: neither by a redirect nor by the link of a page.
func TestSecurityRogueNeutronLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t)
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(rw, canary, http.StatusForbidden)
	}))
	t.Cleanup(elsewhere.Close)
	w.start("-resync=1h", retryQuickly)
	for name, rogue := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"redirects": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect"},
		"links": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"networks": [{"id": "n1"}], "networks_links": [{"rel": "next", "href": "%s/v2.0/networks"}]}`, elsewhere.URL)
		}, "every page is the same"},
	} {
		cloud := embedded.New(embedded.Options{Projects: projectsOf([]string{"team"})})
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/networks") {
				rogue.answer(rw, r)
				return
			}
			cloud.ServeHTTP(rw, r)
		}))
		t.Cleanup(func() {
			_ = cloud.Close()
			server.Close()
		})
		w.applySecret(name, map[string]string{"clouds.yaml": cloudsYAML(server.URL, "team", passwordOf("team"))})
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", name)
		w.waitSays(name, samplecrdv1.ReasonNeutronUnavailable, rogue.says)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
}

func TestSecurityEventsOfANetworkAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	w.start("-resync=1h")
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	const edits, most = 40, 30
	for i := range edits {
		w.patch("net", fmt.Sprintf(`{"spec": {"gateway": "10.1.1.%d"}}`, i+1))
		w.waitReady("net")
	}
	told := kubernetes.take()
	if n := told["create events"] + told["patch events"]; n < 2 || n > most {
		t.Errorf("%d edits led to %d events: %v", edits, n, told)
	}
}
