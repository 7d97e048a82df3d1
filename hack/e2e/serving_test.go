// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// serve is the flag for an HTTP server on any free port.
const serve = "-bind-address=127.0.0.1:0"

// servingAt matches the address of the HTTP server in the controller's log.
var servingAt = regexp.MustCompile(`"Serving HTTP" address="\S+:(\d+)"`)

// site is a controller's HTTP server.
type site struct {
	*world
	url string
}

// siteOf waits until the controller serves.
func (w *world) siteOf(c *stack.Controller) *site {
	w.Helper()
	w.waitForLog(c, "Serving HTTP")
	return &site{w, "http://127.0.0.1:" + servingAt.FindStringSubmatch(c.Log.String())[1]}
}

// try sends a request, with a token unless that is "", and returns the answer's code and body.
func (s *site) try(method, path, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(s.Context(), method, s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// ask is try, and fails unless the answer has that code. It returns the body.
func (s *site) ask(method, path, token string, code int) string {
	s.Helper()
	got, body, err := s.try(method, path, token)
	s.must(err)
	if got != code {
		s.Fatalf("%s %s: got %d, want %d: %s", method, path, got, code, body)
	}
	return body
}

// account creates a ServiceAccount, and returns its token.
func (w *world) account(name string) string {
	w.Helper()
	w.kubectl("create", "serviceaccount", name)
	return strings.TrimSpace(w.kubectl("create", "token", name))
}

// may waits until Kubernetes allows the ServiceAccount to do that.
func (w *world) may(account string, what ...string) {
	w.Helper()
	w.eventually(func() error {
		_, err := w.tryKubectl("", append([]string{"auth", "can-i", "--as=system:serviceaccount:" + w.namespace + ":" + account}, what...)...)
		return err
	})
}

// mayUpdate creates an account that may update Networks of those names.
func (w *world) mayUpdate(account string, names ...string) (token string) {
	w.Helper()
	token = w.account(account)
	role := []string{"create", "role", account, "--verb=update", "--resource=networks.samplecrd.k8s.io"}
	for _, name := range names {
		role = append(role, "--resource-name="+name)
	}
	w.kubectl(role...)
	w.kubectl("create", "rolebinding", account, "--role="+account, "--serviceaccount="+w.namespace+":"+account)
	w.may(account, "update", "networks.samplecrd.k8s.io/"+names[0])
	return token
}

func TestServingLooksAtNeutronForThoseWhoMayUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// At this verbosity, client-go logs all that it sends and receives.
	c := w.start(serve, "-resync=1h", "-v=10")
	s := w.siteOf(c)
	for _, name := range []string{"net", "other"} {
		w.create(name, "10.1.0.0/16", "10.1.0.1")
	}
	stranger, right := w.account("stranger"), w.mayUpdate("right", "net", "none")
	w.calls.take()

	s.ask("POST", "/reconcile/"+w.namespace+"/net", "", http.StatusUnauthorized)
	s.ask("POST", "/reconcile/"+w.namespace+"/net", "nonsense", http.StatusUnauthorized)
	s.ask("POST", "/reconcile/"+w.namespace+"/net", stranger, http.StatusForbidden)
	s.ask("POST", "/reconcile/"+w.namespace+"/none", stranger, http.StatusForbidden)
	s.ask("POST", "/reconcile/"+w.namespace+"/other", right, http.StatusForbidden)
	s.ask("POST", "/reconcile/default/net", right, http.StatusForbidden)
	s.ask("POST", "/reconcile/"+w.namespace+"/none", right, http.StatusNotFound)
	s.ask("GET", "/reconcile/"+w.namespace+"/net", right, http.StatusMethodNotAllowed)
	if calls := w.calls.take(); len(calls) > 0 {
		t.Errorf("unauthorized callers caused requests to Neutron: %v", calls)
	}

	before := w.get("net")
	var last string
	for range 2 {
		at := strings.TrimSpace(s.ask("POST", "/reconcile/"+w.namespace+"/net", right, http.StatusAccepted))
		if at == "" || at == last {
			t.Errorf("requested at %q, after %q", at, last)
		}
		last = at
		w.kubectl("wait", "network/net", "--for=jsonpath={.status.lastHandledReconcileAt}="+at, "--timeout="+patience.String())
		calls := w.calls.take()
		if calls["GET networks"] == 0 {
			t.Errorf("Neutron was not read: %v", calls)
		}
		for request := range calls {
			if !strings.HasPrefix(request, "GET ") {
				t.Errorf("request to Neutron: %s", request)
			}
		}
	}
	after := w.waitReady("net")
	w.equal(after.Annotations[samplecrdv1.AnnotationReconcileRequestedAt], last)
	w.equal(fmt.Sprint(after.Generation, after.Spec), fmt.Sprint(before.Generation, before.Spec))
	w.equal(w.get("other").Status.LastHandledReconcileAt, "")
	for _, token := range []string{stranger, right} {
		if c.Log.Count(token) > 0 {
			t.Error("a token is in the controller's log")
		}
	}
}

func TestServingTokensForAnotherAudienceAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.siteOf(w.start(serve, "-resync=1h", "-token-audience=samplecrd-controller"))
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	usual := w.mayUpdate("right", "net")
	own := strings.TrimSpace(w.kubectl("create", "token", "right", "--audience=samplecrd-controller"))
	s.ask("POST", "/reconcile/"+w.namespace+"/net", usual, http.StatusUnauthorized)
	s.ask("POST", "/reconcile/"+w.namespace+"/net", own, http.StatusAccepted)
}

func TestServingExampleGivesTheRights(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutNeutron(t)
	root, err := stack.Root()
	w.must(err)
	w.namespace = "default"
	w.kubectl("apply", "-f", filepath.Join(root, "artifacts", "examples", "example-callers.yaml"))
	w.may("ops", "update", "networks.samplecrd.k8s.io/net")
	w.may("ops", "list", "networks.samplecrd.k8s.io", "--all-namespaces")
}
