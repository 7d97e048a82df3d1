// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is an ID that no user of a host has.
const user = "65532:65532"

// makeImages makes an image for each architecture, as an archive for docker load, and one
// archive of all of them in the OCI layout.
func (r *release) makeImages(binaries map[string]string) error {
	tag, err := name.NewTag(r.image + ":" + r.version)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := r.makeImage(arch, binaries[arch])
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(r.file("-image-linux-"+arch+".tar"), tag, image); err != nil {
			return err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated := mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	return r.writeLayout(annotated)
}

// makeImage makes the image for one architecture. It has one layer with one file. The
// certificate authorities that the controller trusts are inside the binary.
func (r *release) makeImage(arch, binary string) (v1.Image, error) {
	var files bytes.Buffer
	if err := writeTar(&files, r.time, []entry{{program, binary, 0o755}}); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "hack/release.sh"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{User: user, Entrypoint: []string{"/" + program}, Labels: r.labels()}
	return mutate.ConfigFile(image, config)
}

func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       program,
		"org.opencontainers.image.description": "Makes OpenStack Neutron networks of Network objects in Kubernetes",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.time.Format("2006-01-02T15:04:05Z07:00"),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// writeLayout writes the archive in the OCI layout. Tools that load it read the image's
// name from annotations: the tag from the first one, and containerd reads the full name
// from the second.
func (r *release) writeLayout(index v1.ImageIndex) error {
	named, err := reference.ParseNormalizedNamed(r.image + ":" + r.version)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          named.String(),
	}))
	if err != nil {
		return err
	}
	entries, err := folderEntries(folder)
	if err != nil {
		return err
	}
	return writeFile(r.file("-image.tar"), func(w io.Writer) error { return writeTar(w, r.time, entries) })
}
