// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
)

const ownDescription = "samplecrd-controller.yaml"

// This repository's controller is measured as any other one. Its requests are known.
func TestAControllerIsMeasuredByItsDescription(t *testing.T) {
	// Building the control plane takes minutes.
	if _, err := cluster.Built(); errors.Is(err, cluster.ErrNotBuilt) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	o, batches, err := parse([]string{"-n", "8", "-runs", "1", "-latency", "0", "-with", ownDescription, besideName})
	must(t, err)
	l, err := newLab(t.Context(), o)
	must(t, err)
	l.dir, l.calmDown = t.TempDir(), 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	results, err := l.measureAll(ctx, batches)
	must(t, err)
	created := results[0].Median
	if diff := cmp.Diff(map[string]int{"POST networks": 8, "POST subnets": 8}, changes(created.Calls)); diff != "" {
		t.Errorf("requests to Neutron for creations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"patch networks": 8, "patch networks/status": 8}, created.Writes); diff != "" {
		t.Errorf("writes to Kubernetes for creations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"DELETE networks/*": 8}, changes(created.Deletion.Calls)); diff != "" {
		t.Errorf("requests to Neutron for deletions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"patch networks": 8}, created.Deletion.Writes); diff != "" {
		t.Errorf("writes to Kubernetes for deletions (-want +got):\n%s", diff)
	}
	if created.Seconds <= 0 || created.CPU[controllerProcess] <= 0 || created.Resident < 1<<20 || created.Deletion.Seconds <= 0 {
		t.Errorf("figures are missing: %+v", created)
	}
}

// changes returns the requests that change something.
func changes(calls map[string]int) map[string]int {
	changing := map[string]int{}
	for what, n := range calls {
		if !strings.HasPrefix(what, "GET ") {
			changing[what] = n
		}
	}
	return changing
}

func TestInvalidDescriptionsAreRefused(t *testing.T) {
	valid, err := os.ReadFile(ownDescription)
	must(t, err)
	for _, tt := range []struct{ name, old, new, want string }{
		{"a mistyped field", "condition: Ready", "conditions: Ready", `unknown field "conditions"`},
		{"no name", "name: samplecrd-controller\n", "\n", "name: must be set"},
		{"an executable that does not exist", "{{.Controller}}\"\n", "./no-such-file\"\n", "command: "},
		{"an unknown field in a template", "{{.Kubeconfig}}\n", "{{.KubeConfig}}\n", "can't evaluate field KubeConfig"},
		{"objects without a kind", "  kind: Network\n", "", "objects: each must have apiVersion, kind and metadata.name"},
		{"objects with the same name", "name: {{.Name}}", "name: network", "objects: more than one is Network.samplecrd.k8s.io network: use {{.Name}} or {{.Number}} in the name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := string(valid)
			if !strings.Contains(text, tt.old) {
				t.Fatalf("the description has no %q", tt.old)
			}
			text = strings.Replace(text, "../../artifacts", filepath.Join(mustAbs(t, "../.."), "artifacts"), 1)
			file := filepath.Join(t.TempDir(), "controller.yaml")
			must(t, os.WriteFile(file, []byte(strings.Replace(text, tt.old, tt.new, 1)), 0o600))
			_, err := readPeers(file)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), file+": ") {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := readPeers("no-such-file.yaml"); err == nil || err.Error() != "no-such-file.yaml: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := readPeers(ownDescription + "," + ownDescription); err == nil || !strings.Contains(err.Error(), "is also the name of another controller") {
		t.Errorf("the same name twice: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustAbs(t *testing.T, path string) string {
	absolute, err := filepath.Abs(path)
	must(t, err)
	return absolute
}

// The controller may make objects of the same kind, which are ready earlier.
func TestOnlyTheObjectsOfTheDescriptionCount(t *testing.T) {
	networks := schema.GroupVersionResource{Group: "a.example", Version: "v1", Resource: "networks"}
	of := func(namespace, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "a.example/v1", "kind": "Network", "metadata": map[string]any{"namespace": namespace, "name": name},
		}}
	}
	own := of("default", "net")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{networks: "NetworkList"},
		of("default", "child"), of("other", "net"), own)
	o := &objectsOf{client: client, all: []object{{own, client.Resource(networks).Namespace("default"), networks.GroupResource()}}, seen: &tracker[*unstructured.Unstructured]{}}
	o.seen.expect(len(o.all)+1, func(*unstructured.Unstructured) bool { return true })
	must(t, o.watch(t.Context(), map[schema.GroupVersionResource]bool{networks: true}))
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	if got := slices.Collect(maps.Keys(o.seen.at)); !slices.Equal(got, []string{"Network.a.example default/net"}) {
		t.Errorf("got %q", got)
	}
}

func TestIsReady(t *testing.T) {
	p := &peer{description: description{Condition: "Available"}}
	for _, tt := range []struct {
		name, conditions string
		want             bool
	}{
		{"no status", "", false},
		{"true", `{"type": "Available", "status": "True"}`, true},
		{"true for this generation", `{"type": "Available", "status": "True", "observedGeneration": 3}`, true},
		{"true for an older generation", `{"type": "Available", "status": "True", "observedGeneration": 2}`, false},
		{"false", `{"type": "Available", "status": "False"}`, false},
		{"another condition", `{"type": "Progressing", "status": "True"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			text := `{"kind": "A", "metadata": {"generation": 3}, "status": {"conditions": [` + tt.conditions + `]}}`
			must(t, u.UnmarshalJSON([]byte(text)))
			if got := p.isReady(u); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestControllersAreReportedSideBySide(t *testing.T) {
	of := func(name string, scale int) Result {
		m := Sample{
			Seconds: float64(scale), Calls: map[string]int{"POST networks": 500 * scale}, Writes: map[string]int{"patch networks": 1000 * scale},
			CPU: map[string]float64{controllerProcess: 0.5}, Peak: 50 << 20, Resident: 40 << 20, Deletion: &Sample{Seconds: 0.5},
		}
		return Result{Scenario: besideName, Controller: name, N: 500, Runs: make([]Sample, 3), Median: m}
	}
	var out bytes.Buffer
	writeBeside(&out, append(measured(), of("one", 1), of("two", 20)))
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		"500 networks, each with a subnet one two",
		"create: time 1 s 20 s",
		"create: requests to Neutron 500 (1.00) 10000 (20.00)",
		"create: writes to Kubernetes 1000 (2.00) 20000 (40.00)",
		"create: events 0 (0.00) 0 (0.00)",
		"create: CPU of the controller 0.50 s 0.50 s",
		"create: memory at the peak 50 MiB 50 MiB",
		"create: memory at the end 40 MiB 40 MiB",
		"delete: time 500 ms 500 ms",
	} {
		if i >= len(got) || strings.Join(strings.Fields(got[i]), " ") != want {
			t.Fatalf("line %d of\n%s\nwant %s", i, out.String(), want)
		}
	}
}
