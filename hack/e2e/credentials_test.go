// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command"
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
	for _, step := range []struct {
		what   string
		data   map[string]string
		reason string
		says   string
	}{
		{"YAML, where an alias is taken for a password", map[string]string{"clouds.yaml": strings.Replace(good, passwordPrefix, "*"+passwordPrefix, 1)},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key clouds.yaml: "},
		{"with an authority that is none", map[string]string{"clouds.yaml": good, "cacert": canary},
			samplecrdv1.ReasonNoCredentials, "Secret team-cloud: key cacert: it contains no certificate in PEM format"},
		{"with a wrong password", map[string]string{"clouds.yaml": strings.Replace(good, passwordOf("team"), passwordOf("nobody"), 1)},
			samplecrdv1.ReasonAuthenticationFailed, "Secret team-cloud, key clouds.yaml, cloud mycloud: authenticate: Unauthorized"},
	} {
		began := time.Now()
		w.applySecret("team-cloud", step.data)
		network := w.waitSays("net", step.reason, step.says)
		t.Logf("a Secret %s was reported %s after kubectl began: %s", step.what, time.Since(began).Round(time.Millisecond),
			condition(network, samplecrdv1.ConditionReady).Message)
		w.hides("the Network", fmt.Sprintf("%+v", network))
		w.nothing("net")
	}
	w.applySecret("team-cloud", map[string]string{"clouds.yaml": good})
	w.waitReady("net")
	w.equal(w.matches("net", "10.1.0.0/16", "10.1.0.1").ProjectID, "id-of-team")
}

// Each subcommand reads what it can: plan a Secret, and export the controller's own credentials.
func TestNoSubcommandLogsASecretAtWhateverVerbosity(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	for _, summary := range command.Summaries() {
		name := strings.Fields(summary)[0]
		for _, verbosity := range []string{"0", "6", "8", "9", "10"} {
			arguments := []string{name, "-n", w.namespace, "-v", verbosity}
			if name == "help" {
				arguments = []string{name}
			}
			out, errs, code := w.command("", arguments...)
			if name == "plan" && (code != 2 || verbosity == "10" && !strings.Contains(errs, "/secrets/team-cloud")) {
				w.Errorf("exit code %d, want 2, and the request in the log: %s", code, errs)
			}
			w.hides(strings.Join(arguments, " "), out+errs+password)
		}
	}
}

// All of it is gone while the controller runs: it has seen the Secret.
func TestCredentialsDeletedWithTheirNamespaceDoNotBlockIt(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	w.start("-v=6", "-resync=1h")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitReady("net")
	w.kubectl("delete", "namespace", w.namespace, "--timeout="+patience.String())
	w.nothing("net")
}

// offer creates a ClusterCloud and its Secret. The selector is in YAML; "" is for nobody.
func (w *world) offer(home *world, name, project, selector string) {
	w.Helper()
	file := home.file(name+".yaml", w.credentialsOf(project)["clouds.yaml"])
	home.kubectl("create", "secret", "generic", name, "--from-file=clouds.yaml="+file)
	w.Cleanup(func() { w.kubectl("delete", "clustercloud", name, "--ignore-not-found") })
	w.applyText("apiVersion: samplecrd.k8s.io/v1\nkind: ClusterCloud\nmetadata: {name: " + name + "}\nspec: {secretName: " + name + ", cloudName: mycloud" + selector + "}\n")
}

func TestCredentialsDeletedWithTheirNamespaceBeforeARestartAreReplacedByAClusterCloud(t *testing.T) {
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
	w.kubectl("wait", "--for=delete", "secret/team-cloud", "--timeout="+patience.String())

	// The next leader has not seen the Secret.
	w.must(first.Stop())
	second := w.start(flags)
	stuck := func() {
		t.Helper()
		network := w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it does not exist, and nothing can be created because the namespace is being deleted",
			`with a ClusterCloud for project "id-of-team" in region "RegionOne": see artifacts/deploy/procedures.md#deleted-namespaces`)
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
	w.offer(home, "wrong-"+w.namespace, "other-team", "")
	w.waitForLog(second, `"ClusterCloud" name="wrong-`+w.namespace+`" state="in use for project \"id-of-other-team\"`)
	stuck()

	w.offer(home, "finish-"+w.namespace, "team", "")
	w.kubectl("wait", "--for=delete", "namespace/"+w.namespace, "--timeout="+patience.String())
	w.nothing("net")
}

func TestClusterClouds(t *testing.T) {
	t.Parallel()
	w, home := newWorldOf(t, "team"), newWorldWithoutNeutron(t)
	w.start("-v=6", "-resync=1h", "-cluster-resource-namespace="+home.namespace)
	name := "for-" + w.namespace
	network := func(gateway string) string {
		return strings.TrimRight(manifest("net", "10.1.0.0/16", gateway), "\n") + "\n  cloudCredentialsRef: {clusterCloudName: " + name + "}\n"
	}
	w.applyText(network("10.1.0.1"))
	w.waitSays("net", samplecrdv1.ReasonNoCredentials, "ClusterCloud "+name+": it does not exist")
	w.offer(home, name, "team", ", namespaceSelector: {matchLabels: {cloud: "+name+"}}")
	const notPermitted = "may not use it: an administrator can label the namespace as its namespaceSelector wants"
	w.waitSays("net", samplecrdv1.ReasonCloudNotPermitted, "ClusterCloud "+name+": namespace "+w.namespace+" "+notPermitted)
	w.nothing("net")
	if finalizers := w.get("net").Finalizers; len(finalizers) > 0 {
		t.Errorf("it has the finalizers %v, and nothing in Neutron", finalizers)
	}
	w.kubectl("label", "namespace", w.namespace, "cloud="+name)
	before := w.waitReady("net")
	w.equal(before.Status.ProjectID, "id-of-team")

	// What exists stays as it is, and can be deleted.
	w.kubectl("label", "namespace", w.namespace, "cloud-")
	w.waitSays("net", samplecrdv1.ReasonCloudNotPermitted, notPermitted)
	w.applyText(network("10.1.0.2"))
	w.eventually(func() error {
		if n := w.get("net"); n.Status.ObservedGeneration != n.Generation || n.Status.Gateway != "10.1.0.1" || n.Status.NetworkID != before.Status.NetworkID {
			return fmt.Errorf("the status is %+v", n.Status)
		}
		return nil
	})
	w.delete("net")
	w.nothing("net")

	w.contains(w.kubectl("get", "clusterclouds", name), "NAME", "SECRET", "CLOUD", "AGE", name, "mycloud")
	for refused, message := range map[string]string{
		"{clusterCloudName: a, secretName: b, cloudName: c}": "must have secretName and cloudName, or clusterCloudName alone",
		"{secretName: b}":          "must have secretName and cloudName, or clusterCloudName alone",
		"{clusterCloudName: A_b}":  "must be a valid name of a ClusterCloud",
		"{clusterCloudName: null}": "must have secretName and cloudName, or clusterCloudName alone",
	} {
		_, err := w.tryKubectl(manifest("refused", "10.2.0.0/16", "")+"  cloudCredentialsRef: "+refused+"\n", "apply", "-f", "-")
		w.contains(fmt.Sprint(err), message)
	}
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
	w.waitSays("team-network", samplecrdv1.ReasonNeutronUnavailable, "authenticate: connection refused")
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

// secretReads has the requests for Secrets on their way to the API server, by their selectors.
type secretReads struct {
	base  http.RoundTripper
	asked tally
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
	return s.base.RoundTrip(r)
}

func TestCredentialsAreReadOnlyWhereTheyAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	reads := &secretReads{}
	config := w.serviceAccount()
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { reads.base = base; return reads })
	w.reach = "-master=" + newProxy(t, config).url
	w.grant()
	w.start("-v=10", "-resync=1h", "-cluster-id=me")
	w.applySecret("team-cloud", w.credentialsOf("team"))
	w.applySecret("not-named", w.credentialsOf("team"))
	w.create("own", "10.1.0.0/16", "10.1.0.1")
	if asked := reads.asked.take(); len(asked) > 0 {
		t.Errorf("Secrets were read that no Network references: %v", asked)
	}

	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "team-cloud")
	w.waitSays("net", samplecrdv1.ReasonNoCredentials, "Secret team-cloud: it cannot be read: ", "forbidden")
	w.kubectl("create", "role", "secrets", "--verb=list,watch", "--resource=secrets", "--resource-name=team-cloud")
	w.kubectl("create", "rolebinding", "secrets", "--role=secrets", "--serviceaccount="+w.namespace+":controller")
	w.waitReady("net")
	for request, n := range reads.asked.take() {
		if !strings.HasSuffix(request, " secrets metadata.name=team-cloud") {
			t.Errorf("%d times %s", n, request)
		}
	}
}
