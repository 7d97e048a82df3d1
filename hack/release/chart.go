// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
)

// chartVersion is the version of the chart. A chart's version has no v.
func (r *release) chartVersion() string { return strings.TrimPrefix(r.version, "v") }

// chartFile returns the path of the packaged chart, which has the name that helm package gives it.
func (r *release) chartFile() string {
	return filepath.Join(r.out, program+"-"+r.chartVersion()+".tgz")
}

// makeChart packages the chart with this release's version and image, and makes an OCI artifact of
// the package. helm package would write the present time into it.
func (r *release) makeChart(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	source := filepath.Join(folder, program)
	if err := os.CopyFS(source, os.DirFS(filepath.Join(r.root, "artifacts", "helm", program))); err != nil {
		return err
	}
	if err := r.setVersions(source); err != nil {
		return err
	}
	entries, err := folderEntries(folder)
	if err != nil {
		return err
	}
	err = writeFile(r.chartFile(), func(w io.Writer) error {
		zipped := gzip.NewWriter(w)
		return errors.Join(writeTar(zipped, r.time, entries), zipped.Close())
	})
	if err != nil {
		return err
	}
	return r.makeChartLayout(ctx)
}

// setVersions sets the chart's version, and the image that its default values name.
func (r *release) setVersions(folder string) error {
	err := replaceLines(filepath.Join(folder, "Chart.yaml"), map[string]string{
		"version: 0.0.0":    "version: " + r.chartVersion(),
		"appVersion: devel": "appVersion: " + r.version,
	})
	if err != nil {
		return err
	}
	return replaceLines(filepath.Join(folder, "values.yaml"), map[string]string{
		"  repository: " + program: "  repository: " + r.image,
	})
}

// replaceLines replaces lines of a file. Each must be there once.
func replaceLines(file string, lines map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for old, line := range lines {
		old, line := []byte("\n"+old+"\n"), []byte("\n"+line+"\n")
		if count := bytes.Count(text, old); count != 1 {
			return fmt.Errorf("%s has the line %q %d times, want 1", filepath.Base(file), bytes.TrimSpace(old), count)
		}
		text = bytes.Replace(text, old, line, 1)
	}
	return os.WriteFile(file, text, 0o644)
}

// makeChartLayout writes the packaged chart as an OCI artifact: an archive in the OCI layout, with the
// manifest that helm push writes (https://helm.sh/docs/topics/registries).
func (r *release) makeChartLayout(ctx context.Context) error {
	packed, err := os.ReadFile(r.chartFile())
	if err != nil {
		return err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := packLayout(ctx, folder, packed, loaded.Metadata, r.time); err != nil {
		return err
	}
	entries, err := folderEntries(folder)
	if err != nil {
		return err
	}
	return writeFile(r.file("-chart.tar"), func(w io.Writer) error { return writeTar(w, r.time, entries) })
}

// packLayout writes an OCI layout with the packaged chart to the folder.
func packLayout(ctx context.Context, folder string, packed []byte, metadata *chart.Metadata, at time.Time) error {
	store, err := oci.NewWithContext(ctx, folder)
	if err != nil {
		return err
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		descriptor := content.NewDescriptorFromBytes(mediaType, data)
		err = errors.Join(err, store.Push(ctx, descriptor, bytes.NewReader(data)))
		return descriptor
	}
	configured, layer := push(registry.ConfigMediaType, config), push(registry.ChartLayerMediaType, packed)
	if err != nil {
		return err
	}
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_0, "", oras.PackManifestOptions{
		ConfigDescriptor: &configured,
		Layers:           []ocispec.Descriptor{layer},
		ManifestAnnotations: map[string]string{
			ocispec.AnnotationTitle:       metadata.Name,
			ocispec.AnnotationDescription: metadata.Description,
			ocispec.AnnotationVersion:     metadata.Version,
			ocispec.AnnotationURL:         metadata.Home,
			ocispec.AnnotationSource:      strings.Join(metadata.Sources, " "),
			ocispec.AnnotationCreated:     at.Format(time.RFC3339),
		},
	})
	if err != nil {
		return err
	}
	return store.Tag(ctx, manifest, strings.ReplaceAll(metadata.Version, "+", "_"))
}
