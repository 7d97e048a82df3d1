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

// Command release makes the artifacts of a release from the work tree that it is started
// in. The same commit makes the same files, wherever and whenever it is built.
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

VERSION is like v1.2.3; left out, it is what git describe says, with -dirty if the work
tree is not as it was committed. SOURCE_DATE_EPOCH in the environment takes the place of
the commit's time.

`

// architectures are those of which there are binaries and images; the system is linux.
var architectures = []string{"amd64", "arm64"}

// program is the name of the binary, and of the image unless -image says another.
const program = "samplecrd-controller"

func main() {
	flags := flag.NewFlagSet("release.sh", flag.ExitOnError)
	out := flags.String("o", "", "the folder to write to (default hack/_output/release/VERSION)")
	image := flags.String("image", program, "the image's name, and where install.yaml takes it from")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // it exits
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

// release is what there is to know before it is made.
type release struct {
	// root is the work tree, out the folder that is filled.
	root, out string
	// version is like v1.2.3, commit the whole hash.
	version, commit string
	// time is that of the commit: nothing tells when it was built.
	time time.Time
	// image is the image's name without a tag.
	image    string
	progress io.Writer
}

// make fills the folder. If it fails, there is no folder.
func (r *release) make(ctx context.Context) (err error) {
	if found, _ := os.ReadDir(r.out); len(found) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder with -o", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(r.out))
		}
	}()
	r.tell("%s %s, commit %s", program, r.version, r.commit)
	if err := r.makeInstall(); err != nil {
		return fmt.Errorf("make install.yaml: %w", err)
	}
	if err := r.makePrograms(ctx); err != nil {
		return err
	}
	if err := r.sum(); err != nil {
		return fmt.Errorf("make SHA256SUMS: %w", err)
	}
	r.tell("all is in %s", r.out)
	return nil
}

// makePrograms makes the binaries, and all that is made of them.
func (r *release) makePrograms(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	binaries := map[string]string{}
	for _, arch := range architectures {
		binary := filepath.Join(folder, arch, program)
		r.tell("binary for linux/%s", arch)
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
	r.tell("images")
	if err := r.makeImages(binaries); err != nil {
		return fmt.Errorf("make the images: %w", err)
	}
	return nil
}

// file returns the path of an artifact whose name ends so.
func (r *release) file(end string) string {
	return filepath.Join(r.out, program+"-"+r.version+end)
}

func (r *release) tell(format string, args ...any) {
	fmt.Fprintf(r.progress, "==> "+format+"\n", args...)
}
