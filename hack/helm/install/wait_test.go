// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// recordedStatus returns the status of a Network that hack/gitops has recorded, as a patch.
func (t tools) recordedStatus(name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "hack", "gitops", "testdata", name+".yaml"))
	t.must(err)
	var network struct {
		Status map[string]any `json:"status"`
	}
	t.must(yaml.Unmarshal(text, &network))
	patch, err := json.Marshal(network)
	t.must(err)
	return string(patch)
}

// networkChart returns a chart that has one Network.
func (t tools) networkChart(name string) string {
	t.Helper()
	folder := t.TempDir()
	t.must(os.Mkdir(filepath.Join(folder, "templates"), 0o755))
	for file, text := range map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: networks\nversion: 1.0.0\n",
		"templates/network.yaml": "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata:\n  name: " + name + "\nspec:\n  cidr: 10.1.0.0/16\n",
	} {
		t.must(os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644))
	}
	return folder
}

// helm install --wait waits for a Network, and ends at once if the Network is stalled. The test writes
// the statuses, which are recorded from real runs.
func TestHelmWaitsForNetworks(t *testing.T) {
	u := tools{t}
	u.clean()
	u.install()
	u.kubectl("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=5m")
	tests := []struct {
		name, timeout string
		// says is in the error of helm; "": none.
		says string
	}{
		{"available", "60s", ""},
		{"forbidden", "60s", "status: Failed, message: create network: "},
		{"paused", "15s", "status: InProgress, message: paused by the annotation samplecrd.k8s.io/paused: next step: network created"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			u := tools{t}
			chart, status := u.networkChart(tc.name), u.recordedStatus(tc.name)
			t.Cleanup(func() { u.helm("uninstall", tc.name, "--ignore-not-found", "--wait") })
			type result struct {
				out string
				err error
			}
			done := make(chan result, 1)
			go func() {
				out, err := u.tryHelm("install", tc.name, chart, "--wait", "--timeout="+tc.timeout)
				done <- result{out, err}
			}()
			u.kubectl("", "wait", "--for=create", crd+"/"+tc.name, "--timeout=60s")
			u.kubectl("", "patch", crd, tc.name, "--subresource=status", "--type=merge", "-p", status)
			r := <-done
			switch {
			case tc.says == "" && r.err != nil:
				t.Errorf("helm: %v: %s", r.err, r.out)
			case tc.says != "" && (r.err == nil || !strings.Contains(r.out, tc.says)):
				t.Errorf("helm: %v, want %q in: %s", r.err, tc.says, r.out)
			case tc.says != "" && tc.timeout == "60s" && strings.Contains(r.out, "deadline"):
				t.Errorf("helm waited until its time-out: %s", r.out)
			}
			t.Log(r.out)
		})
	}
}
