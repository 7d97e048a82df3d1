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
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// run runs the controller until it ends, and returns its output and its exit code.
func (w *world) run(env []string, flags ...string) (string, int) {
	w.Helper()
	c, err := stack.StartController(binary, env, nil, flags...)
	w.must(err)
	w.Cleanup(func() { _ = c.Signal(os.Kill) }) // it has ended, unless the test failed
	w.await("the controller's end", c.Done())
	return c.Log.String(), c.ExitCode()
}

// file writes a file for the test, and returns its path.
func (w *world) file(name, content string) string {
	w.Helper()
	path := filepath.Join(w.dir, name)
	w.must(os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSetupErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	notKubernetes := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(notKubernetes.Close)
	kubeconfig := "-kubeconfig=" + w.controlPlane.Kubeconfig()
	malformed := w.file("malformed.kubeconfig", "clusters: [}\n")
	empty := w.file("empty.kubeconfig", "")
	broken := w.file("broken.yaml", "clouds:\n  local:\n\tauth: {}\n")
	authless := w.file("authless.yaml", "clouds:\n  local:\n    region_name: here\n")
	missing := filepath.Join(w.dir, "missing")
	tests := []struct {
		what  string
		env   []string
		flags []string
		code  int
		says  []string
	}{
		{"no kubeconfig given", nil, nil, 1, []string{"-kubeconfig", "-master"}},
		{"kubeconfig missing", nil, []string{"-kubeconfig=" + missing}, 1, []string{"kubeconfig", missing, "no such file"}},
		{"kubeconfig malformed", nil, []string{"-kubeconfig=" + malformed}, 1, []string{"kubeconfig", malformed}},
		{"kubeconfig empty", nil, []string{"-kubeconfig=" + empty}, 1, []string{"kubeconfig", "no configuration has been provided"}},
		{"API server unreachable", nil, []string{"-master=http://127.0.0.1:1"}, 1, []string{"Kubernetes at http://127.0.0.1:1", "connection refused"}},
		{"API server unreachable, cluster ID given", nil, []string{"-master=http://127.0.0.1:1", "-cluster-id=me"}, 1, []string{"Kubernetes at http://127.0.0.1:1", "connection refused"}},
		{"not an API server", nil, []string{"-master=" + notKubernetes.URL}, 1, []string{"Kubernetes at " + notKubernetes.URL}},
		{"cloud unknown", w.neutron.Env()[:1], []string{kubeconfig, "-cloud=nowhere"}, 1, []string{"cloud nowhere", `"nowhere"`}},
		{"cloud unknown, by OS_CLOUD", append(w.neutron.Env()[:1:1], "OS_CLOUD=nowhere"), []string{kubeconfig}, 1, []string{"cloud nowhere"}},
		{"clouds.yaml missing", []string{"OS_CLIENT_CONFIG_FILE=" + missing}, []string{kubeconfig, "-cloud=local"}, 1, []string{"cloud local", missing}},
		{"clouds.yaml with an error", []string{"OS_CLIENT_CONFIG_FILE=" + broken}, []string{kubeconfig, "-cloud=local"}, 1, []string{"cloud local", "line 3"}},
		{"clouds.yaml without an auth section", []string{"OS_CLIENT_CONFIG_FILE=" + authless}, []string{kubeconfig, "-cloud=local"}, 1, []string{"cloud local", "auth"}},
		{"no workers", nil, []string{kubeconfig, "-workers=0"}, 2, []string{"-workers=0", "at least 1"}},
		{"less than no workers", nil, []string{kubeconfig, "-workers=-1"}, 2, []string{"-workers=-1", "at least 1"}},
		{"workers that are no number", nil, []string{kubeconfig, "-workers=many"}, 2, []string{"workers", `"many"`}},
		{"no time to wait for Neutron", nil, []string{kubeconfig, "-neutron-timeout=0s"}, 2, []string{"-neutron-timeout=0s"}},
		{"unknown flag", nil, []string{kubeconfig, "-worker=1"}, 2, []string{"-worker", "-h"}},
		{"argument", nil, []string{kubeconfig, "start"}, 2, []string{`"start"`, "-h"}},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			w := w.at(t)
			said, code := w.run(tc.env, tc.flags...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			w.contains(said, tc.says...)
			if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "samplecrd-controller: ") {
				t.Errorf("want one line that begins with the controller's name, got:\n%s", said)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	help, code := w.run(nil, "-h")
	if code != 0 {
		t.Errorf("-h: exit code %d", code)
	}
	w.contains(help, "Usage:", "-kubeconfig", "-master", "-namespace", "-workers", "-resync", "-cloud", "-cluster-id", "-kube-api-qps", "-neutron-timeout", "-v ")
	version, code := w.run(nil, "-version")
	if code != 0 || !regexp.MustCompile(`^samplecrd-controller \S+, commit \S+\n$`).MatchString(version) {
		t.Errorf("-version: exit code %d, %q", code, version)
	}
}

func TestControllerWithoutACloudUsesTheEmbeddedNeutron(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	controller := w.launchIn(nil)
	w.waitUntilAtWork(controller)
	w.contains(controller.Log.String(), "EMBEDDED Neutron, in memory", "OS_CLOUD")
	network := w.create("net", "10.1.0.0/16", "10.1.0.1")
	w.contains(network.Status.Cloud, "embedded")

	neutron := w.connectTo("embedded", printedCloudsYAML(controller.Log.String()))
	n, err := networks.Get(t.Context(), neutron, network.Status.NetworkID).Extract()
	w.must(err)
	w.equal(n.Name, w.namespace+"/net")
}

// printedCloudsYAML returns the indented lines that the controller prints at its start.
func printedCloudsYAML(log string) []byte {
	var text bytes.Buffer
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "    ") {
			text.WriteString(line)
		}
	}
	return text.Bytes()
}

// connectTo returns a client of the cloud, made from a clouds.yaml like any other program's.
func (w *world) connectTo(cloud string, cloudsYAML []byte) *gophercloud.ServiceClient {
	w.Helper()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud), clouds.WithCloudsYAML(bytes.NewReader(cloudsYAML)))
	w.must(err)
	provider, err := config.NewProviderClient(w.Context(), auth, config.WithTLSConfig(tls))
	w.must(err)
	service, err := openstack.NewNetworkV2(provider, endpoint)
	w.must(err)
	return service
}
