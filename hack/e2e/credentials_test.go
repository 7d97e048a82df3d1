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
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// What the tests' Secrets contain, and nothing else may contain.
const (
	canary         = "# canary: this line is in Secrets only"
	passwordPrefix = "password-of-"
	// tokenPrefix is the start of the embedded Keystone's tokens.
	tokenPrefix = "gAAAAA"
)

func passwordOf(project string) string { return passwordPrefix + project }

// newWorldOf is newWorld, with these projects in Neutron besides the controller's own. The
// test's client sees all of them. At its end the test fails if anything from a Secret, or
// a token, is in a log or in an object other than a Secret.
func newWorldOf(t *testing.T, projects ...string) *world {
	t.Helper()
	w := newWorldWithoutNeutron(t)
	w.neutron = w.startNeutron(append([]embedded.Project{{Name: project, Password: password}}, projectsOf(projects)...))
	w.neutron.SetFault(w.chooseFault)
	w.Cleanup(w.nothingLeaked) // after the controller's end, so that its log is complete
	return w
}

func projectsOf(names []string) []embedded.Project {
	var all []embedded.Project
	for _, name := range names {
		all = append(all, embedded.Project{Name: name, ID: "id-of-" + name, Password: passwordOf(name)})
	}
	return all
}

// startNeutron starts a Neutron whose client is an administrator's and sees all projects.
func (w *world) startNeutron(projects []embedded.Project) *stack.Neutron {
	w.Helper()
	n, err := stack.StartNeutron(w.Context(), w.dir, embedded.Options{Projects: projects})
	w.must(err)
	w.Cleanup(func() { _ = n.Close() })
	n.Client, err = stack.Connect(w.Context(), stack.Cloud+"-admin", n.Server.CloudsYAML(stack.Cloud))
	w.must(err)
	return n
}

// cloudsYAML returns what a team writes into its Secret: the entry mycloud.
func cloudsYAML(url, project, password string) string {
	return fmt.Sprintf(`%s
clouds:
  mycloud:
    auth:
      auth_url: %s/identity/v3
      username: %s
      password: %s
      project_name: %[3]s
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
`, canary, url, project, password)
}

// credentialsOf returns the data of a Secret for a project of the world's Neutron.
func (w *world) credentialsOf(project string) map[string]string {
	return map[string]string{"clouds.yaml": cloudsYAML(w.neutron.URL(), project, passwordOf(project))}
}

// secret returns a Secret as it is sent to Kubernetes.
func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

// applySecret applies a Secret with exactly this data.
func (w *world) applySecret(name string, data map[string]string) {
	w.Helper()
	text, err := json.Marshal(secret(name, data))
	w.must(err)
	_, err = w.tryKubectl(string(text), "apply", "-f", "-")
	w.must(err)
}

// withSecret is manifest, for a Network that references a Secret.
func withSecret(name, cidr, gateway, secretName string) string {
	return manifest(name, cidr, gateway) + fmt.Sprintf("  cloudCredentialsRef: {secretName: %s, cloudName: mycloud}\n", secretName)
}

// applyWith applies a Network that references a Secret.
func (w *world) applyWith(name, cidr, gateway, secretName string) {
	w.Helper()
	_, err := w.tryKubectl(withSecret(name, cidr, gateway, secretName), "apply", "-f", "-")
	w.must(err)
}

// specWith returns the spec of a Network that references a Secret.
func specWith(cidr, gateway, secretName string) samplecrdv1.NetworkSpec {
	return samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway},
		CloudCredentialsRef: &samplecrdv1.CloudCredentialsReference{SecretName: secretName, CloudName: "mycloud"}}
}

// waitSays waits until the Network is not ready for that reason, with a message that
// contains the texts.
func (w *world) waitSays(name, reason string, texts ...string) (network *samplecrdv1.Network) {
	w.Helper()
	w.eventually(func() error {
		network = w.get(name)
		ready := condition(network, samplecrdv1.ConditionReady)
		said := ready.Status == metav1.ConditionFalse && ready.Reason == reason && ready.ObservedGeneration == network.Generation
		for _, text := range texts {
			said = said && strings.Contains(ready.Message, text)
		}
		if !said {
			return fmt.Errorf("Network %s is not Ready=False for reason %s with %q, but %+v", name, reason, texts, ready)
		}
		return nil
	})
	return network
}

// logins counts the controller's authentications from now on.
func (w *world) logins() *tally {
	counted := &tally{}
	w.harm(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			counted.add("POST auth/tokens")
		}
		return nil
	})
	return counted
}

// nothingLeaked fails if something that only Secrets may contain is elsewhere.
func (w *world) nothingLeaked() {
	texts := map[string]string{}
	logs, _ := filepath.Glob(filepath.Join(w.dir, "controller-*.log"))
	for _, file := range logs {
		text, err := os.ReadFile(file)
		w.noError(err)
		texts[filepath.Base(file)] = string(text)
	}
	for _, resource := range []string{"networks", "events"} {
		text, err := w.tryKubectl("", "get", resource, "-o", "yaml", "--show-managed-fields")
		w.noError(err)
		texts[resource] = text
	}
	for where, text := range texts {
		w.hides(where, text)
	}
}

// dumped is a line of a hex dump, in which client-go logs bodies that are not JSON; the
// text is beside the bytes.
var dumped = regexp.MustCompile(`(?m)^\t?[0-9a-f]{8}  [0-9a-f ]+ \|(.{1,16})\|$`)

// hides fails if the text contains something that only Secrets may contain.
func (w *world) hides(where, text string) {
	w.Helper()
	for _, line := range dumped.FindAllStringSubmatch(text, -1) {
		text += line[1]
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, hidden := range []string{canary, encoded[:len(encoded)-4], passwordPrefix, tokenPrefix} {
		if at := strings.Index(text, hidden); at >= 0 {
			w.Errorf("%s contains a secret: ...%q...", where, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}

// noError is must for a cleanup, which must not end the test.
func (w *world) noError(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

func TestCredentialsThatAreLateOrChangeAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	good := w.credentialsOf("team")["clouds.yaml"]
	w.start("-v=6", "-resync=1h")
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it does not exist", "clouds.yaml")
	steps := []struct {
		what   string
		data   map[string]string
		reason string
		says   string
	}{
		{"without the key", map[string]string{"cloud.yaml": good},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: it does not exist"},
		{"not YAML", map[string]string{"clouds.yaml": canary + "\nclouds: [" + passwordPrefix + "\n"},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: it is not YAML"},
		{"YAML, where an alias is taken for a password", map[string]string{"clouds.yaml": strings.Replace(good, passwordPrefix, "*"+passwordPrefix, 1)},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: "},
		{"without the entry", map[string]string{"clouds.yaml": strings.Replace(good, "mycloud", "yourcloud", 1)},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: cloud mycloud: "},
		{"with a file of the controller", map[string]string{"clouds.yaml": good + "    cacert: /etc/passwd\n"},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: cacert in cloud mycloud names a file"},
		{"with an authority that is none", map[string]string{"clouds.yaml": good, "cacert": canary},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key cacert: it contains no certificate in PEM format"},
		{"with a wrong password", map[string]string{"clouds.yaml": strings.Replace(good, passwordOf("team"), passwordOf("nobody"), 1)},
			samplecrdv1.ReasonAuthenticationFailed, "Secret team-cloud, key clouds.yaml, cloud mycloud: authenticate: The request you have made requires authentication."},
	}
	for _, step := range steps {
		began := time.Now()
		w.applySecret("team-cloud", step.data)
		network := w.waitSays("net", step.reason, step.says)
		t.Logf("a Secret %s was reported %s after kubectl began: %s", step.what, time.Since(began).Round(time.Millisecond),
			condition(network, samplecrdv1.ConditionReady).Message)
		w.hides("the Network", fmt.Sprintf("%+v", network))
		w.nothing("net")
	}

	began := time.Now()
	w.applySecret("team-cloud", map[string]string{"clouds.yaml": good})
	w.waitReady("net")
	t.Logf("corrected: Ready %s after kubectl began", time.Since(began).Round(time.Millisecond))
	w.equal(w.matches("net", "10.1.0.0/16", "10.1.0.1").ProjectID, "id-of-team")

	w.must(w.neutron.SetPassword("team", passwordOf("team-rotated")))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.2", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonAuthenticationFailed, "Secret team-cloud, key clouds.yaml, cloud mycloud: ")
	began = time.Now()
	w.applySecret("team-cloud", map[string]string{"clouds.yaml": strings.Replace(good, passwordOf("team"), passwordOf("team-rotated"), 1)})
	w.waitReady("net")
	t.Logf("rotated: Ready %s after kubectl began", time.Since(began).Round(time.Millisecond))
	w.matches("net", "10.1.0.0/16", "10.1.0.2")
}

func TestCredentialsThatAreRotatedCostOneAuthentication(t *testing.T) {
	t.Parallel()
	const many = 500
	w := newWorldOf(t, "team")
	kubernetes, logins := w.throughProxy(), w.logins()
	controller := w.start("-v=6", "-resync=1h", "-kube-api-qps=1000", "-kube-api-burst=1000")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	for i := range many {
		w.make(fmt.Sprintf("net-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "team-cloud"))
	}
	w.waitAllReady(patience)
	w.eventually(func() error {
		if n := kubernetes.peek()["create events"]; n < many {
			return fmt.Errorf("%d events of %d", n, many)
		}
		return nil
	})
	before, synced := w.list(), controller.Log.Count(`"Synced"`)
	w.calls.take()
	kubernetes.take()
	logins.take()

	began := time.Now()
	w.must(w.neutron.SetPassword("team", passwordOf("team-rotated")))
	w.applySecret("team-cloud", map[string]string{"clouds.yaml": cloudsYAML(w.neutron.URL(), "team", passwordOf("team-rotated"))})
	w.eventually(func() error {
		if n := controller.Log.Count(`"Synced"`) - synced; n < many {
			return fmt.Errorf("%d syncs for %d Networks", n, many)
		}
		return nil
	})
	t.Logf("%d Networks were synced within %s with the new credentials", many, time.Since(began).Round(time.Millisecond))
	// A Network that is queued now comes after all of those, and is synced.
	w.patch("net-0", `{"spec": {"gateway": "10.1.0.2"}}`)
	w.waitReady("net-0")
	w.waitForEventIn(kubernetes)

	asked, ofKeystone, written := w.calls.take(), logins.take(), kubernetes.take()
	t.Logf("rotation for %d Networks, and the edit of one: Keystone %v, Neutron %v, Kubernetes %v", many, ofKeystone, asked, written)
	if diff := cmp.Diff(counts{"POST auth/tokens": 1}, ofKeystone); diff != "" {
		t.Errorf("authentications (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counts{"GET networks": 1, "GET subnets": 1, "GET routers": 1, "PUT subnets/*": 1}, asked); diff != "" {
		t.Errorf("one list, and one edit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counts{"patch networks/status": 1, "create events": 1}, written); diff != "" {
		t.Errorf("requests to Kubernetes: one edit's (-want +got):\n%s", diff)
	}
	for name, now := range w.list() {
		if name != "net-0" && now.ResourceVersion != before[name].ResourceVersion {
			t.Errorf("%s was written: %+v", name, now)
		}
	}
}

func TestCredentialsThatAreGoneLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	first := w.start("-v=6", "-resync=1h")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	for _, name := range []string{"idle", "edited", "deleted"} {
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", "team-cloud")
		w.waitReady(name)
	}
	idle, edited, deleted := w.matches("idle", "10.1.0.0/16", "10.1.0.1"), w.matches("edited", "10.1.0.0/16", "10.1.0.1"), w.networks("deleted")
	w.calls.take()

	w.kubectl("delete", "secret", "team-cloud")
	w.applyWith("edited", "10.1.0.0/16", "10.1.0.2", "team-cloud")
	w.kubectl("delete", "network", "deleted", "--wait=false")
	waiting := func() {
		for _, name := range []string{"idle", "edited", "deleted"} {
			network := w.waitSays(name, samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it does not exist")
			if network.Status.NetworkID == "" || network.Status.SubnetID == "" || network.Status.Gateway != "10.1.0.1" {
				t.Errorf("the status of %s lost what was known: %+v", name, network.Status)
			}
		}
		if w.get("deleted").DeletionTimestamp == nil {
			t.Error("it is not being deleted")
		}
	}
	waiting()
	w.contains(w.kubectl("get", "networks"), samplecrdv1.ReasonNoCredentials)
	w.waitForEvent("deleted", samplecrdv1.ReasonNoCredentials, "Secret team-cloud")
	// A controller that has never seen the Secret does the same.
	w.must(first.Stop())
	w.start("-v=6", "-resync=1h")
	waiting()
	for request, n := range w.calls.take() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("%d times %s", n, request)
		}
	}

	began := time.Now()
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.waitGone("deleted")
	w.waitReady("idle")
	w.waitReady("edited")
	t.Logf("all went on %s after kubectl began", time.Since(began).Round(time.Millisecond))
	w.nothing("deleted")
	if n := w.matches("idle", "10.1.0.0/16", "10.1.0.1"); n.ID != idle.ID {
		t.Error("the idle Network has another network")
	}
	if n := w.matches("edited", "10.1.0.0/16", "10.1.0.2"); n.ID != edited.ID {
		t.Error("the edited Network has another network")
	}
	if len(deleted) != 1 || deleted[0].ProjectID != "id-of-team" {
		t.Errorf("a network of another project was deleted: %+v", deleted)
	}
}

func TestCredentialsDeletedWithTheirNamespaceDoNotBlockIt(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	w.start("-v=6", "-resync=1h")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.applyWith(name, "10.1.0.0/16", "10.1.0.1", "team-cloud")
		w.waitReady(name)
	}
	began := time.Now()
	w.kubectl("delete", "namespace", w.namespace, "--timeout="+patience.String())
	t.Logf("the namespace was gone %s after kubectl began", time.Since(began).Round(time.Millisecond))
	for _, name := range names {
		w.nothing(name)
	}
}

// giveSpare creates a Secret with spare credentials, with the commands of artifacts/deploy/README.md.
func (w *world) giveSpare(home *world, name, project string) {
	w.Helper()
	file := home.file(name+".yaml", w.credentialsOf(project)["clouds.yaml"])
	home.kubectl("create", "secret", "generic", name, "--from-file=clouds.yaml="+file)
	home.kubectl("label", "secret", name, "samplecrd.k8s.io/cloud-credentials=true")
}

func TestCredentialsDeletedWithTheirNamespaceBeforeARestartAreReplacedBySpareOnes(t *testing.T) {
	t.Parallel()
	w, home := newWorldOf(t, "team", "other-team"), newWorldWithoutNeutron(t)
	flags := "-v=6 -resync=1h -cluster-resource-namespace=" + home.namespace
	first := w.start(flags)
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	before := w.waitReady("net")
	port := w.port(before.Status.NetworkID, "server-1")
	w.kubectl("delete", "namespace", w.namespace, "--wait=false")
	w.waitSays("net", samplecrdv1.ReasonInUse, "server-1")
	w.eventually(func() error {
		if secrets := w.kubectl("get", "secrets", "-o", "name"); secrets != "" {
			return fmt.Errorf("there still is %s", secrets)
		}
		return nil
	})

	// The next leader has not seen the Secret.
	w.must(first.Stop())
	second := w.start(flags)
	stuck := func() {
		t.Helper()
		network := w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it does not exist, and nothing can be created because the namespace is being deleted",
			`credentials for project "id-of-team" in region "RegionOne", in a Secret in namespace `+home.namespace+": see artifacts/deploy/README.md#deleted-namespaces")
		w.equal(network.Status.NetworkID, before.Status.NetworkID)
		if found := w.networks("net"); len(found) != 1 || found[0].ID != before.Status.NetworkID {
			t.Errorf("Neutron has %+v", found)
		}
	}
	stuck()
	_, err := w.tryKubectl("", "create", "secret", "generic", "team-cloud")
	if err == nil || !strings.Contains(err.Error(), "because it is being terminated") {
		t.Errorf("a Secret can be created in the namespace: %v", err)
	}
	w.removePort(port)
	w.giveSpare(home, "wrong", "other-team")
	w.waitForLog(second, `"Spare credentials" secret="`+home.namespace+`/wrong" cloud="mycloud" state="in use for project \"id-of-other-team\"`)
	stuck()

	began := time.Now()
	w.giveSpare(home, "team-finish", "team")
	w.eventually(func() error { return missing(w.namespace) })
	t.Logf("the namespace was gone %s after kubectl began", time.Since(began).Round(time.Millisecond))
	w.nothing("net")
}

// missing returns an error while the namespace exists.
func missing(namespace string) error {
	_, err := kube.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("namespace %s still exists", namespace), err)
}

// It is not parallel, as all tests that look for orphans.
func TestCredentialsThatAreSpareShowTheOrphansOfACloudThatNoNetworkNames(t *testing.T) {
	w, home := newWorldOf(t, "team"), newWorldWithoutNeutron(t)
	reader, flags := w.mayListAll("reader"), everywhere+" -cluster-resource-namespace="+home.namespace
	c := w.start(flags)
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	id := w.waitReady("net").Status.NetworkID
	w.must(c.Stop())
	uid := w.abandon("net")[0]

	c = w.start(flags)
	s := w.siteOf(c, "http")
	w.relists(3)
	s.orphans(reader, 0)
	w.giveSpare(home, "spare", "team")
	got := s.orphans(reader, 1)[0]
	w.equal(fmt.Sprint(got.Cloud, got.NetworkID, got.Name, got.OwnerUID), fmt.Sprint("mycloud", id, w.namespace+"/net", uid))
	w.contains(s.ask("GET", "/metrics", "", http.StatusOK), `samplecrd_orphans{cloud="mycloud"} 1`)
	home.kubectl("delete", "secret", "spare")
	s.orphans(reader, 0)
	w.must(c.Stop())

	w.giveSpare(home, "spare", "team")
	w.start(flags, "-delete-orphans=all")
	w.eventually(func() error {
		if len(w.networks("net")) > 0 {
			return errors.New("the orphan is still there")
		}
		return nil
	})
}

func TestCredentialsAfterARestartCostOneListAndNoWrite(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team", "other-team")
	first := w.start("-v=6", "-resync=1h")
	for _, name := range []string{"team", "other-team"} {
		w.applySecret(name, w.credentialsOf(name))
		for i := range 3 {
			w.make(fmt.Sprintf("%s-%d", name, i), specWith("10.1.0.0/16", "10.1.0.1", name))
		}
	}
	w.waitAllReady(patience)
	w.must(first.Stop())
	before := w.list()
	w.calls.take()

	kubernetes, logins := w.throughProxy(), w.logins()
	second := w.start("-v=6", "-resync=1h")
	for name := range before {
		w.waitForLog(second, fmt.Sprintf(`"Synced" network="%s/%s"`, w.namespace, name))
	}
	w.must(second.Stop())
	if diff := cmp.Diff(counts{"POST auth/tokens": 3}, logins.take()); diff != "" {
		t.Errorf("authentications, the controller's own among them (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counts{"GET networks": 3, "GET subnets": 2, "GET routers": 3}, w.calls.take()); diff != "" {
		t.Errorf("one list of each project, with its routers; the controller's own has no network (-want +got):\n%s", diff)
	}
	for request, n := range kubernetes.take() {
		if verb, _, _ := strings.Cut(request, " "); verb != "get" && verb != "list" && verb != "watch" {
			t.Errorf("%d times %s", n, request)
		}
	}
	if diff := cmp.Diff(before, w.list()); diff != "" {
		t.Errorf("the Networks (-before +after):\n%s", diff)
	}
}

func TestCredentialsOfAnotherProjectCreateNothingThere(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team", "other-team")
	w.start("-v=6", "-resync=1h")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	before := w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.1")

	w.applySecret("team-cloud", w.credentialsOf("other-team"))
	stalled := w.waitSays("net", samplecrdv1.ReasonOtherCloud, before.Status.NetworkID, "id-of-team", "id-of-other-team")
	w.equal(stalled.Status.ProjectID, "id-of-team")
	w.equal(stalled.Status.NetworkID, before.Status.NetworkID)
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.waitReady("net")
	n := w.matches("net", "10.1.0.0/16", "10.1.0.1") // the only one in all projects
	w.equal(n.ProjectID, "id-of-team")
	w.equal(n.ID, before.Status.NetworkID)
}

func TestCredentialsExampleIsUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t)
	w.start("-v=6")
	root, err := stack.Root()
	w.must(err)
	example, err := os.ReadFile(filepath.Join(root, "artifacts", "examples", "example-credentials.yaml"))
	w.must(err)
	const address = "https://keystone.example.com/v3"
	w.contains(string(example), address)
	_, err = w.tryKubectl(strings.Replace(string(example), address, "http://127.0.0.1:1/v3", 1), "apply", "-f", "-")
	w.must(err)
	w.waitSays("team-network", samplecrdv1.ReasonNeutronUnavailable, "dial 127.0.0.1:1: connect: connection refused")
}

func TestCredentialsOfFiftyTeamsKeepTheirTokens(t *testing.T) {
	t.Parallel()
	const many = 50
	var projects []string
	for i := range many {
		projects = append(projects, fmt.Sprintf("team-%d", i))
	}
	w := newWorldOf(t, projects...)
	logins := w.logins()
	w.start("-v=6", "-resync=1h", "-kube-api-qps=1000", "-kube-api-burst=1000")
	for _, name := range projects {
		_, err := kube.CoreV1().Secrets(w.namespace).Create(t.Context(), secret(name, w.credentialsOf(name)), metav1.CreateOptions{})
		w.must(err)
		w.make(name, specWith("10.1.0.0/16", "10.1.0.1", name))
	}
	w.waitAllReady(patience)
	if diff := cmp.Diff(counts{"POST auth/tokens": many + 1}, logins.take()); diff != "" {
		t.Errorf("authentications: one for each team, and the controller's own (-want +got):\n%s", diff)
	}
	w.calls.take()
	for _, name := range projects {
		w.patch(name, `{"spec": {"gateway": "10.1.0.2"}}`)
	}
	w.waitAllReady(patience)
	if diff := cmp.Diff(counts(nil), logins.take()); diff != "" {
		t.Errorf("authentications for an edit of each (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(counts{"PUT subnets/*": many}, w.calls.take()); diff != "" {
		t.Errorf("an edit of each (-want +got):\n%s", diff)
	}
	all, err := w.neutron.Networks(t.Context())
	w.must(err)
	if len(all) != many {
		t.Errorf("%d networks, want %d", len(all), many)
	}
	for _, n := range all {
		w.equal(n.ProjectID, "id-of-"+strings.TrimPrefix(n.Name, w.namespace+"/"))
		w.equal(n.Subnets[0].GatewayIP, "10.1.0.2")
	}
}

// hanging is a cloud that can stop answering.
type hanging struct {
	*embedded.Server
	came, givenUp atomic.Int32
}

// newHanging starts a cloud with the project team.
func (w *world) newHanging() *hanging {
	w.Helper()
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{Projects: projectsOf([]string{"team"})})
	w.must(err)
	w.Cleanup(func() { _ = server.Close() })
	return &hanging{Server: server}
}

// hang makes all requests hang from now on.
func (h *hanging) hang() {
	h.SetFault(func(r *http.Request) *embedded.Fault {
		h.came.Add(1)
		context.AfterFunc(r.Context(), func() { h.givenUp.Add(1) })
		return &embedded.Fault{Hang: true}
	})
}

func TestCredentialsThatAreBadHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	const many, others = 30, 5
	w := newWorldOf(t, "team")
	hangs, silent := w.newHanging(), w.newHanging()
	silent.hang()
	for name, url := range map[string]string{"good": w.neutron.URL(), "hangs": hangs.URL(), "silent": silent.URL(), "refuses": "http://127.0.0.1:1"} {
		w.applySecret(name, map[string]string{"clouds.yaml": cloudsYAML(url, "team", passwordOf("team"))})
	}
	w.start("-v=6", "-workers=4", "-neutron-timeout=20s", "-resync=1h")
	for i := range many {
		w.make(fmt.Sprintf("hangs-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "hangs"))
	}
	for i := range others {
		w.make(fmt.Sprintf("good-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "good"))
		w.make(fmt.Sprintf("own-%d", i), samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.1.0.0/16", Gateway: "10.1.0.1"}})
	}
	w.waitAllReady(patience)

	for i := range many {
		w.make(fmt.Sprintf("silent-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "silent"))
		w.make(fmt.Sprintf("refuses-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "refuses"))
	}
	// From here on, nothing may take as long as -neutron-timeout.
	hangs.hang()
	for i := range many {
		w.patch(fmt.Sprintf("hangs-%d", i), `{"spec": {"gateway": "10.1.0.2"}}`)
	}
	w.eventually(func() error {
		if hangs.came.Load() < 2 || silent.came.Load() < 1 {
			return errors.New("not enough requests hang yet")
		}
		return nil
	})
	began := time.Now()
	for i := range others {
		w.patch(fmt.Sprintf("good-%d", i), `{"spec": {"gateway": "10.1.0.2"}}`)
		w.patch(fmt.Sprintf("own-%d", i), `{"spec": {"gateway": "10.1.0.2"}}`)
	}
	for i := range others {
		w.waitReady(fmt.Sprintf("good-%d", i))
		w.waitReady(fmt.Sprintf("own-%d", i))
	}
	t.Logf("%d edits were Ready within %s, while %d Networks of bad credentials waited", 2*others, time.Since(began).Round(time.Millisecond), 3*many)
	if n := hangs.givenUp.Load(); n > 0 {
		t.Errorf("the edits waited until %d hanging requests timed out", n)
	}
	w.waitSays("refuses-0", samplecrdv1.ReasonNeutronUnavailable, "connection refused")
	w.waitSays("silent-0", samplecrdv1.ReasonNeutronUnavailable, "no answer in time")
	w.waitSays("hangs-0", samplecrdv1.ReasonNeutronUnavailable, "no answer in time")
	hangs.SetFault(nil)
	silent.SetFault(nil)
	began = time.Now()
	for i := range many {
		w.waitReady(fmt.Sprintf("hangs-%d", i))
		w.waitReady(fmt.Sprintf("silent-%d", i))
	}
	t.Logf("the Networks of the hanging clouds were all Ready %s after these answered again", time.Since(began).Round(time.Millisecond))
}

func TestCredentialsThatAreBadDelayNobodyElsesRetries(t *testing.T) {
	t.Parallel()
	// At the default -retry-qps, it takes 50 s to retry so many.
	const many, most = 500, 25 * time.Second
	w := newWorldOf(t, "team")
	w.applySecret("refuses", map[string]string{"clouds.yaml": cloudsYAML("http://127.0.0.1:1", "team", passwordOf("team"))})
	w.start("-v=6", "-resync=1h", "-kube-api-qps=1000", "-kube-api-burst=1000")
	w.create("own", "10.1.0.0/16", "10.1.0.1")
	for i := range many {
		w.make(fmt.Sprintf("refuses-%d", i), specWith("10.1.0.0/16", "10.1.0.1", "refuses"))
	}
	for i := range many {
		w.waitNotReady(fmt.Sprintf("refuses-%d", i), samplecrdv1.ReasonNeutronUnavailable)
	}
	came := w.harmOnce("PUT subnets/*", embedded.Fault{Status: http.StatusServiceUnavailable})
	w.patch("own", `{"spec": {"gateway": "10.1.0.2"}}`)
	w.await("the failure", came)
	began := time.Now()
	w.waitReady("own")
	after := time.Since(began)
	t.Logf("a failure was corrected after %s, while %d Networks of bad credentials were retried", after.Round(time.Millisecond), many)
	if after > most {
		t.Errorf("its retry waited for the retries of the others")
	}
}

// behindTLS puts the world's Neutron behind a TLS server whose certificate no public
// authority has signed, and returns the server.
func (w *world) behindTLS() *httptest.Server {
	w.Helper()
	target, err := url.Parse(w.neutron.URL())
	w.must(err)
	quiet := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		// The catalog has the address that the request was sent to, but without TLS.
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			body = bytes.ReplaceAll(body, []byte("http://"+r.Request.Host), []byte("https://"+r.Request.Host))
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return err
		},
	})
	server.Config.ErrorLog = quiet
	server.StartTLS()
	w.Cleanup(server.Close)
	return server
}

func TestCredentialsWithAnAuthorityOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	server := w.behindTLS()
	w.start("-v=6", "-resync=1h")
	w.calls.take()
	without := map[string]string{"clouds.yaml": cloudsYAML(server.URL, "team", passwordOf("team"))}
	w.applySecret("team-cloud", without)
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonNeutronUnavailable, "certificate signed by unknown authority")
	if asked := w.calls.take(); len(asked) > 0 {
		t.Errorf("Neutron was asked: %v", asked)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	with := map[string]string{"clouds.yaml": without["clouds.yaml"], "cacert": string(authority)}
	var notTLS atomic.Int32
	w.harm(func(r *http.Request) *embedded.Fault {
		if "https://"+r.Host != server.URL {
			notTLS.Add(1)
		}
		return nil
	})
	w.applySecret("team-cloud", with)
	w.waitReady("net")
	w.equal(w.matches("net", "10.1.0.0/16", "10.1.0.1").ProjectID, "id-of-team")
	if n := notTLS.Load(); n > 0 {
		t.Errorf("%d requests came without TLS", n)
	}

	// The authority is part of the credentials: without it, no request succeeds.
	w.applySecret("team-cloud", without)
	w.applyWith("net", "10.1.0.0/16", "10.1.0.2", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonNeutronUnavailable, "certificate signed by unknown authority")
	w.applySecret("team-cloud", with)
	w.waitReady("net")
	w.matches("net", "10.1.0.0/16", "10.1.0.2")
}

// secretReads counts the requests for Secrets on their way to the API server.
type secretReads struct {
	base http.RoundTripper
	// asked counts them by their selector, and watches counts the watches that are open.
	asked   *tally
	watches *atomic.Int32
}

// RoundTrip implements http.RoundTripper. It refuses watches that begin with a list, which
// older API servers do not have: client-go would log the answer to a list.
func (s *secretReads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("sendInitialEvents") {
		refusal := httptest.NewRecorder()
		refusal.WriteHeader(http.StatusUnprocessableEntity)
		return refusal.Result(), nil
	}
	if request := kubernetesRequest(r); strings.HasSuffix(request, " secrets") {
		s.asked.add(request + " " + r.URL.Query().Get("fieldSelector"))
	}
	response, err := s.base.RoundTrip(r)
	if err == nil && kubernetesRequest(r) == "watch secrets" && response.StatusCode == http.StatusOK {
		s.watches.Add(1)
		// The proxy ends its request when the controller's request ends.
		go func() {
			<-r.Context().Done()
			s.watches.Add(-1)
		}()
	}
	return response, err
}

func TestCredentialsAreReadOnlyWhereTheyAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	reads := &secretReads{asked: &tally{}, watches: &atomic.Int32{}}
	config := w.serviceAccount()
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { reads.base = base; return reads })
	p := newProxy(t, config)
	w.reach = "-master=" + p.url
	w.grant()
	w.start("-v=10", "-resync=1h")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applySecret("not-named", w.credentialsOf("team"))
	w.create("own", "10.1.0.0/16", "10.1.0.1")
	if asked := reads.asked.take(); len(asked) > 0 {
		t.Errorf("Secrets were read that no Network references: %v", asked)
	}

	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it cannot be read: ", "forbidden")
	w.grantSecret("team-cloud")
	w.waitReady("net")
	w.applyWith("another", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitReady("another")
	w.eventually(func() error {
		if n := reads.watches.Load(); n != 1 {
			return fmt.Errorf("%d watches of one Secret that two Networks reference", n)
		}
		return nil
	})
	for _, name := range []string{"net", "another"} {
		w.delete(name)
	}
	w.eventually(func() error {
		if n := reads.watches.Load(); n != 0 {
			return fmt.Errorf("%d watches of a Secret that no Network references any more", n)
		}
		return nil
	})
	const selects = " secrets metadata.name=team-cloud"
	for request, n := range reads.asked.take() {
		t.Logf("%d times %s", n, request)
		if !slices.Contains([]string{"list" + selects, "watch" + selects}, request) {
			t.Errorf("%d times %s", n, request)
		}
	}
}

// grantSecret grants the service account the right to read this Secret only.
func (w *world) grantSecret(name string) {
	w.Helper()
	meta, rbac := metav1.ObjectMeta{Name: "secrets"}, kube.RbacV1()
	_, err := rbac.Roles(w.namespace).Create(w.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{})
	w.must(err)
	_, err = rbac.RoleBindings(w.namespace).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "secrets"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "controller"}},
	}, metav1.CreateOptions{})
	w.must(err)
}

func TestCredentialsReferenceStaysAsItWasMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("without", "10.1.0.0/16", "")
	w.applyWith("with", "10.1.0.0/16", "", "team-cloud")
	const refused = "spec.cloudCredentialsRef: Forbidden: cannot be added, changed or removed: delete the Network and create another one"
	tests := []struct{ what, name, manifest string }{
		{"added", "without", withSecret("without", "10.1.0.0/16", "", "team-cloud")},
		{"another Secret", "with", withSecret("with", "10.1.0.0/16", "", "other-cloud")},
		{"another entry", "with", strings.Replace(withSecret("with", "10.1.0.0/16", "", "team-cloud"), "mycloud", "yourcloud", 1)},
		{"removed", "with", manifest("with", "10.1.0.0/16", "")},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			_, err := w.tryKubectl(tc.manifest, "apply", "-f", "-")
			if err == nil {
				t.Fatal("it was accepted")
			}
			w.contains(err.Error(), fmt.Sprintf("The Network %q is invalid: %s", tc.name, refused))
		})
	}
	// Another edit of the same Network is accepted.
	w.applyWith("with", "10.2.0.0/16", "", "team-cloud")
}
