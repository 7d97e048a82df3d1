// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
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
