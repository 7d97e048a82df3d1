// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	registryserver "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
)

func TestChartHasThisReleasesVersionAndImage(t *testing.T) {
	packed, err := loader.LoadFile(made.chartFile())
	must(t, err)
	values, _ := packed.Values["image"].(map[string]any)
	got := []any{filepath.Base(made.chartFile()), packed.Metadata.Version, packed.Metadata.AppVersion, values["repository"], values["tag"]}
	want := []any{"samplecrd-controller-9.8.7-rc.1.tgz", "9.8.7-rc.1", "v9.8.7-rc.1", "example.com/team/samplecrd-controller", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	must(t, packed.Validate())
	if len(packed.Schema) == 0 || len(packed.Templates) == 0 {
		t.Error("the chart has no schema, or no templates")
	}
}

func TestChartNeedsTheLinesThatItReplaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Chart.yaml")
	must(t, os.WriteFile(file, []byte("name: mine\nversion: 1.0.0\n"), 0o600))
	err := replaceLines(file, map[string]string{"version: 0.0.0": "version: 1.2.3"})
	if err == nil || !strings.Contains(err.Error(), `Chart.yaml has the line "version: 0.0.0" 0 times, want 1`) {
		t.Errorf("got %v", err)
	}
}

// serveRegistry starts a registry and returns its address, and Helm's client for it.
func serveRegistry(t *testing.T) (string, *registry.Client) {
	t.Helper()
	server := httptest.NewServer(registryserver.New(registryserver.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "config.json")))
	must(t, err)
	return strings.TrimPrefix(server.URL, "http://"), client
}

// A tool that copies the OCI layout to a registry does the same as helm push with the packaged chart,
// and Helm pulls the chart from there.
func TestOCIArtifactIsWhatHelmPushes(t *testing.T) {
	address, client := serveRegistry(t)
	folder := t.TempDir()
	out, err := exec.Command("tar", "-xf", made.file("-chart.tar"), "-C", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	store, err := oci.New(folder)
	must(t, err)
	repository, err := remote.NewRepository(address + "/copied/" + program)
	must(t, err)
	repository.PlainHTTP = true
	_, err = oras.Copy(t.Context(), store, made.chartVersion(), repository, made.chartVersion(), oras.DefaultCopyOptions)
	must(t, err)

	packed := read(t, made.chartFile())
	pushed, err := client.Push(packed, address+"/pushed/"+program+":"+made.chartVersion(), registry.PushOptCreationTime("2001-09-09T01:46:40Z"))
	must(t, err)
	want := manifestAt(t, address+"/pushed/"+program, pushed.Manifest.Digest)
	want.MediaType = ocispec.MediaTypeImageManifest // Helm leaves it out
	if diff := cmp.Diff(want, manifestAt(t, address+"/copied/"+program, made.chartVersion())); diff != "" {
		t.Errorf("the manifest differs from that of helm push (-want +got):\n%s", diff)
	}
	pulled, err := client.Pull(address + "/copied/" + program + ":" + made.chartVersion())
	must(t, err)
	if string(pulled.Chart.Data) != string(packed) {
		t.Error("Helm pulls another chart")
	}
}

// manifestAt reads a manifest from a registry.
func manifestAt(t *testing.T, name, reference string) (manifest ocispec.Manifest) {
	t.Helper()
	repository, err := remote.NewRepository(name)
	must(t, err)
	repository.PlainHTTP = true
	_, data, err := oras.FetchBytes(t.Context(), repository, reference, oras.DefaultFetchBytesOptions)
	must(t, err)
	must(t, json.Unmarshal(data, &manifest))
	return manifest
}
