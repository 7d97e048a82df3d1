// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the artifacts of a release from the work tree in the working
// directory. The same commit always gives the same files, on any machine and at any time; only signatures differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const usage = `Makes the artifacts of a release:
  hack/release.sh [-o FOLDER] [-image NAME] [-key FILE | -keyless] [VERSION]
or checks the provenance of one that was made:
  hack/release.sh -verify FOLDER -key FILE

VERSION has the form v1.2.3. The default is the output of git describe, with -dirty if the
work tree has uncommitted changes. SOURCE_DATE_EPOCH in the environment replaces the
commit's time. Without -key and -keyless the release is not signed. hack/README.md has the
commands that verify a signed one.

`

// architectures are the architectures of the binaries and images; the system is linux.
var architectures = []string{"amd64", "arm64"}

// program is the name of the binary, and the image's default name.
const program = "samplecrd-controller"

// options are the values of the flags and the argument.
type options struct {
	out, image, key, verify, version string
	keyless                          bool
}

func main() {
	var o options
	flags := flag.NewFlagSet("release.sh", flag.ExitOnError)
	flags.StringVar(&o.out, "o", "", "folder to write to (default hack/_output/release/VERSION)")
	flags.StringVar(&o.image, "image", program, "name of the image, with its registry, in the archives and in install.yaml")
	flags.StringVar(&o.key, "key", "", "PEM file with the private key, ECDSA with P-256, that signs the release; with -verify, the public key")
	flags.BoolVar(&o.keyless, "keyless", false, "sign the release with cosign, for the identity that cosign asks for or finds in CI")
	flags.StringVar(&o.verify, "verify", "", "folder of a release that was signed with a key, whose provenance to check")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	o.version = flags.Arg(0)
	if wrong := o.check(flags.NArg()); wrong != "" {
		fmt.Fprintln(os.Stderr, "release.sh:", wrong)
		flags.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "release.sh:", err)
		os.Exit(1)
	}
}

// check returns what is wrong with the options and the number of arguments, "" if nothing is.
func (o options) check(args int) string {
	switch {
	case args > 1:
		return "there is more than one version"
	case o.keyless && (o.key != "" || o.verify != ""):
		return "-keyless excludes -key and -verify"
	case o.verify != "" && o.key == "":
		return "-verify needs the public key: add -key FILE"
	case o.verify != "" && args > 0:
		return "-verify needs no version"
	}
	return ""
}

func run(ctx context.Context, progress io.Writer, o options) error {
	if o.verify != "" {
		return verify(ctx, progress, o.verify, o.key)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	r, err := describe(ctx, root, o.version)
	if err != nil {
		return err
	}
	if r.signer, err = newSigner(o.key, o.keyless); err != nil {
		return fmt.Errorf("sign the release: %w", err)
	}
	if r.signer != nil && strings.HasSuffix(r.version, dirty) {
		return errors.New("a signed release cannot have uncommitted changes: commit them")
	}
	r.image, r.out, r.progress = o.image, o.out, progress
	if o.out == "" {
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
	image string
	// signer signs the release; nil leaves it unsigned.
	signer   signer
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
	if err := r.sign(ctx); err != nil {
		return fmt.Errorf("sign the release: %w", err)
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
