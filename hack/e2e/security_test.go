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

// internal is a server that the controller can reach, and that is not allowed in its flags.
type internal struct {
	*httptest.Server
	asked atomic.Int32
}

func (w *world) newInternal() *internal {
	w.Helper()
	i := &internal{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		http.Error(rw, canary, http.StatusForbidden)
	}))
	w.Cleanup(i.Close)
	return i
}

func TestSecurityForeignAnswersAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t) // it fails if the canary is found anywhere
	foreign := w.newInternal()
	w.start("-resync=1h", retryQuickly)
	for name, path := range map[string]string{"versions": "/", "token": "/v3"} {
		w.applySecret(name, map[string]string{"clouds.yaml": strings.Replace(cloudsYAML(foreign.URL, "team", passwordOf("team")), "/identity/v3", path, 1)})
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", name)
		w.waitSays(name, samplecrdv1.ReasonNeutronUnavailable, "403 Forbidden")
	}
	if foreign.asked.Load() == 0 {
		t.Error("the server got no request, so the test shows nothing")
	}
}

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
	for i, name := range []string{"creds", other.Name + "/creds", "../" + other.Name + "/creds", "../../" + other.Name + "/secrets/creds", "creds,metadata.namespace=" + other.Name} {
		network := fmt.Sprint("net-", i)
		w.applyWith(network, "10.1.0.0/16", "10.1.0.1", `"`+name+`"`)
		w.waitSays(network, samplecrdv1.ReasonNoCredentials, "Secret "+name+": it does not exist")
		w.nothing(network)
	}
}

// rogue starts a tenant's own cloud, which answers the requests for networks with answer.
func (w *world) rogue(answer func(http.ResponseWriter, *http.Request)) *httptest.Server {
	w.Helper()
	cloud := embedded.New(embedded.Options{Projects: projectsOf([]string{"team"})})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/networks") {
			rw.Header().Set("Content-Type", "application/json")
			answer(rw, r)
			return
		}
		cloud.ServeHTTP(rw, r)
	}))
	w.Cleanup(func() {
		_ = cloud.Close()
		server.Close()
	})
	return server
}

func TestSecurityRogueNeutronHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t)
	elsewhere := w.newInternal()
	var pages atomic.Int64
	rogues := map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		says   string
	}{
		"endless": {func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(rw, `{"networks": [{"id": "n%d"}], "networks_links": [{"rel": "next", "href": "%s/v2.0/networks"}]}`, pages.Add(1), elsewhere.URL)
		}, "the list has no end"},
		"elsewhere": {func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"networks": [{"id": "../../identity/v3/users/x", "description": "x"}]}`)
		}, "without an ID"},
		"redirects": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect"},
	}
	controller := w.start("-resync=1h", retryQuickly)
	for name, rogue := range rogues {
		server := w.rogue(rogue.answer)
		w.applySecret(name, map[string]string{"clouds.yaml": cloudsYAML(server.URL, "team", passwordOf("team"))})
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", name)
	}
	for name, rogue := range rogues {
		network := w.waitSays(name, samplecrdv1.ReasonNeutronUnavailable, rogue.says)
		if message := condition(network, samplecrdv1.ConditionReady).Message; len(message) > 2048 {
			t.Errorf("%s: the message has %d characters", name, len(message))
		}
	}
	if n := elsewhere.asked.Load(); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
	w.create("own", "10.1.0.0/16", "10.1.0.1")
	w.apply("own", "10.1.0.0/16", "10.1.0.2")
	w.waitReady("own")
	w.matches("own", "10.1.0.0/16", "10.1.0.2")
	w.must(controller.Stop())
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
