// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the artifacts of a release from the work tree in the working
// directory. The same commit always gives the same files, on any machine and at any time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const usage = `Makes the artifacts of a release:
  hack/release.sh [-o FOLDER] [-image NAME] [VERSION]

VERSION has the form v1.2.3. The default is the output of git describe, with -dirty if the
work tree has uncommitted changes. SOURCE_DATE_EPOCH in the environment replaces the
commit's time.

`

// architectures are the architectures of the binaries and images; the system is linux.
var architectures = []string{"amd64", "arm64"}

// program is the name of the binary, and the image's default name.
const program = "samplecrd-controller"

func main() {
	flags := flag.NewFlagSet("release.sh", flag.ExitOnError)
	out := flags.String("o", "", "folder to write to (default hack/_output/release/VERSION)")
	image := flags.String("image", program, "name of the image, with its registry, in the archives and in install.yaml")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	if flags.NArg() > 1 {
		flags.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, *out, *image, flags.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "release.sh:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, progress io.Writer, out, image, version string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	r, err := describe(ctx, root, version)
	if err != nil {
		return err
	}
	r.image, r.out, r.progress = image, out, progress
	if out == "" {
		r.out = filepath.Join(root, "hack", "_output", "release", r.version)
	}
	return r.make(ctx)
}

// release holds the properties of a release.
type release struct {
	// root is the work tree, out the output folder.
	root, out string
	// version has the form v1.2.3; commit is the full hash.
	version, commit string
	// time is the commit's time. The artifacts do not contain the build time.
	time time.Time
	// image is the image's name without a tag.
	image    string
	progress io.Writer
}

// make writes all artifacts to the output folder. After an error it removes the folder.
func (r *release) make(ctx context.Context) (err error) {
	if found, _ := os.ReadDir(r.out); len(found) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or choose another folder with -o", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.out))
		}
	}()
	r.report("%s %s, commit %s", program, r.version, r.commit)
	if err := r.makeInstall(); err != nil {
		return fmt.Errorf("make install.yaml: %w", err)
	}
	if err := r.makeChart(ctx); err != nil {
		return fmt.Errorf("make the chart: %w", err)
	}
	if err := r.makePrograms(ctx); err != nil {
		return err
	}
	if err := r.sum(); err != nil {
		return fmt.Errorf("make SHA256SUMS: %w", err)
	}
	r.report("all artifacts are in %s", r.out)
	return nil
}

// makePrograms makes the binaries, and the archives, SBOMs and images that contain or
// describe them.
func (r *release) makePrograms(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	binaries := map[string]string{}
	for _, arch := range architectures {
		binary := filepath.Join(folder, arch, program)
		r.report("building the binary for linux/%s", arch)
		if err := r.build(ctx, arch, binary); err != nil {
			return err
		}
		if err := r.makeArchive(arch, binary); err != nil {
			return fmt.Errorf("pack the binary for %s: %w", arch, err)
		}
		if err := r.makeSBOM(ctx, arch, binary); err != nil {
			return fmt.Errorf("make the SBOM for %s: %w", arch, err)
		}
		binaries[arch] = binary
	}
	r.report("making the images")
	if err := r.makeImages(binaries); err != nil {
		return fmt.Errorf("make the images: %w", err)
	}
	return nil
}

// file returns the path of the artifact whose name ends with end.
func (r *release) file(end string) string {
	return filepath.Join(r.out, program+"-"+r.version+end)
}

func (r *release) report(format string, args ...any) {
	fmt.Fprintf(r.progress, "==> "+format+"\n", args...)
}
