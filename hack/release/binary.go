// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// build builds the binary like the Dockerfile. The result does not depend on the folder or
// on the environment's Go settings.
func (r *release) build(ctx context.Context, arch, binary string) error {
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT="}
	const version = "github.com/samplecrd/samplecrd-controller/pkg/version"
	linker := fmt.Sprintf("-s -w -X %s.Version=%s -X %s.Commit=%s", version, r.version, version, r.commit)
	_, err := output(ctx, r.root, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", linker, "-o", binary, ".")
	if err != nil {
		return fmt.Errorf("build for %s: %w", arch, err)
	}
	return nil
}

// makeArchive packs the binary together with the licence.
func (r *release) makeArchive(arch, binary string) error {
	return writeFile(r.file("-linux-"+arch+".tar.gz"), func(w io.Writer) error {
		zipped := gzip.NewWriter(w)
		err := writeTar(zipped, r.time, []entry{{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644}, {program, binary, 0o755}})
		return errors.Join(err, zipped.Close())
	})
}

// entry is a file for an archive.
type entry struct {
	name, source string
	mode         int64
}

// writeTar writes files without an owner's name, with this modification time.
func writeTar(w io.Writer, at time.Time, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		data, err := os.ReadFile(e.source)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(data)), Mode: e.mode, ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeFile creates a file with the content that write writes.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// folderEntries returns all files of a folder, in a fixed order.
func folderEntries(folder string) (entries []entry, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		entries = append(entries, entry{filepath.ToSlash(name), path, 0o644})
		return err
	})
	return entries, err
}

// sum writes SHA256SUMS, which sha256sum -c reads.
func (r *release) sum() error {
	entries, err := folderEntries(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(e.source)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
