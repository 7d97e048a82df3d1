// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// made is the release that all tests read. No test changes it.
var made *release

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "release-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	root, err := filepath.Abs("../..")
	if err == nil {
		made = newRelease(root, filepath.Join(folder, "out"))
		keys = filepath.Join(folder, "keys")
		err = makeSigned()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make the release:", err)
		return 1
	}
	return m.Run()
}

func makeSigned() (err error) {
	if err := os.Mkdir(keys, 0o700); err != nil {
		return err
	}
	if made.signer, err = useNewKey(keys); err != nil {
		return err
	}
	return made.make(context.Background())
}

func newRelease(root, out string) *release {
	return &release{
		root: root, out: out,
		version: "v9.8.7-rc.1", commit: "0123456789abcdef0123456789abcdef01234567",
		time:  time.Unix(1_000_000_000, 0).UTC(),
		image: "example.com/team/" + program, progress: io.Discard,
	}
}

func TestReleaseIsTheSameFromAnotherFolderAndByAnotherUser(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"pkg", "artifacts"} {
		must(t, os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join(made.root, name))))
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go", "controller.go", "LICENSE"} {
		must(t, os.WriteFile(filepath.Join(root, name), read(t, filepath.Join(made.root, name)), 0o600))
	}
	t.Setenv("GOFLAGS", "-gcflags=-N")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("TZ", "Asia/Tokyo")
	again := newRelease(root, filepath.Join(t.TempDir(), "out"))
	must(t, again.make(t.Context()))
	sums := func(r *release) string { return string(read(t, filepath.Join(r.out, "SHA256SUMS"))) }
	if diff := cmp.Diff(sums(made), sums(again)); diff != "" {
		t.Errorf("the second release differs from the first:\n%s", diff)
	}
}

func TestChecksumsHoldForAllFiles(t *testing.T) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = made.out
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	var want strings.Builder
	for _, end := range []string{
		"-chart.tar", "-image-linux-amd64.tar", "-image-linux-arm64.tar", "-image.tar",
		"-linux-amd64.cdx.json", "-linux-amd64.tar.gz", "-linux-arm64.cdx.json", "-linux-arm64.tar.gz",
	} {
		fmt.Fprintf(&want, "%s: OK\n", filepath.Base(made.file(end)))
	}
	const first = "install.yaml: OK\nsamplecrd-controller-9.8.7-rc.1.tgz: OK\n"
	if diff := cmp.Diff(first+want.String(), string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBinaryIsStaticAndForItsMachine(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			binary, err := elf.NewFile(bytes.NewReader(packed(t, arch)[program]))
			must(t, err)
			if binary.Machine != machine {
				t.Errorf("the binary is for %s", binary.Machine)
			}
			for _, p := range binary.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("the binary is not static: it has %s", p.Type)
				}
			}
		})
	}
}

func TestArchiveHoldsTheLicence(t *testing.T) {
	want := string(read(t, filepath.Join(made.root, "LICENSE")))
	for _, arch := range architectures {
		if diff := cmp.Diff(want, string(packed(t, arch)["LICENSE"])); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", arch, diff)
		}
	}
}

// packed returns the files in the archive for that architecture.
func packed(t *testing.T, arch string) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, made.file("-linux-"+arch+".tar.gz"))))
	must(t, err)
	return untar(t, unzipped)
}

// untar returns the files in an archive. It checks that they have no owner's name, and the
// release's time.
func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		must(t, err)
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || !header.ModTime.Equal(made.time) {
			t.Errorf("%s: owner %d:%d %q, time %s", header.Name, header.Uid, header.Gid, header.Uname, header.ModTime)
		}
		if executable := header.Mode == 0o755; executable != (header.Name == program) || !executable && header.Mode != 0o644 {
			t.Errorf("%s: mode %o", header.Name, header.Mode)
		}
		files[header.Name], err = io.ReadAll(archive)
		must(t, err)
	}
}

// openLayout unpacks the archive in the OCI layout, and returns its index.
func openLayout(t *testing.T) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	for name, data := range untar(t, bytes.NewReader(read(t, made.file("-image.tar")))) {
		file := filepath.Join(folder, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, data, 0o600))
	}
	index, err := layout.ImageIndexFromPath(folder)
	must(t, err)
	return index
}

// images returns the image for each architecture.
func images(t *testing.T) map[string]v1.Image {
	t.Helper()
	outer := openLayout(t)
	manifest, err := outer.IndexManifest()
	must(t, err)
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	manifest, err = index.IndexManifest()
	must(t, err)
	found := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if m.Platform.OS != "linux" {
			t.Errorf("an image for %s", m.Platform)
		}
		found[m.Platform.Architecture], err = index.Image(m.Digest)
		must(t, err)
	}
	if len(found) != len(architectures) || len(manifest.Manifests) != len(architectures) {
		t.Fatalf("images for %v", manifest.Manifests)
	}
	return found
}

func TestLayoutHasTheImagesNameForToolsThatLoadIt(t *testing.T) {
	manifest, err := openLayout(t).IndexManifest()
	must(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("got %d entries, want 1", len(manifest.Manifests))
	}
	want := map[string]string{
		"org.opencontainers.image.ref.name": "v9.8.7-rc.1",
		"io.containerd.image.name":          "example.com/team/samplecrd-controller:v9.8.7-rc.1",
	}
	if diff := cmp.Diff(want, manifest.Manifests[0].Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImageIsTheBinaryAndNothingElse(t *testing.T) {
	for arch, image := range images(t) {
		must(t, validate.Image(image))
		layers, err := image.Layers()
		must(t, err)
		if len(layers) != 1 {
			t.Errorf("%s: %d layers", arch, len(layers))
		}
		content, err := layers[0].Uncompressed()
		must(t, err)
		files := untar(t, content)
		if len(files) != 1 || !bytes.Equal(files[program], packed(t, arch)[program]) {
			t.Errorf("%s: the binary differs, or there are other files", arch)
		}
	}
}

func TestImageRunsWithoutRoot(t *testing.T) {
	created := v1.Time{Time: made.time}
	for arch, image := range images(t) {
		got, err := image.ConfigFile()
		must(t, err)
		want := &v1.ConfigFile{
			OS: "linux", Architecture: arch, Created: created,
			Config: v1.Config{
				User: "65532:65532", Entrypoint: []string{"/samplecrd-controller"},
				Labels: map[string]string{
					"org.opencontainers.image.title":       "samplecrd-controller",
					"org.opencontainers.image.description": "Makes OpenStack Neutron networks of Network objects in Kubernetes",
					"org.opencontainers.image.version":     "v9.8.7-rc.1",
					"org.opencontainers.image.revision":    "0123456789abcdef0123456789abcdef01234567",
					"org.opencontainers.image.created":     "2001-09-09T01:46:40Z",
					"org.opencontainers.image.licenses":    "Apache-2.0",
				},
			},
			History: []v1.History{{Created: created, CreatedBy: "hack/release.sh"}},
			RootFS:  got.RootFS, // validate has compared it with the layers
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", arch, diff)
		}
	}
}

func TestDockerReadsTheSameImages(t *testing.T) {
	tag, err := name.NewTag("example.com/team/samplecrd-controller:v9.8.7-rc.1")
	must(t, err)
	for arch, image := range images(t) {
		loaded, err := tarball.ImageFromPath(made.file("-image-linux-"+arch+".tar"), &tag)
		must(t, err)
		must(t, validate.Image(loaded))
		want, err := image.ConfigName()
		must(t, err)
		got, err := loaded.ConfigName() // Docker's image ID
		must(t, err)
		if got != want {
			t.Errorf("%s: the image's ID is %s, in the layout %s", arch, got, want)
		}
	}
}

func TestBinaryRunsInItsImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the root folder of a process")
	}
	image, ok := images(t)[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skipf("there is no image for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	root := t.TempDir()
	must(t, os.Chmod(root, 0o755))
	must(t, os.WriteFile(filepath.Join(root, program), untar(t, mutate.Extract(image))[program], 0o755))
	cmd := exec.Command("/"+program, "-version")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := cmd.CombinedOutput()
	want := "samplecrd-controller v9.8.7-rc.1, commit 0123456789abcdef0123456789abcdef01234567\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

func TestSBOMListsTheBinarysOwnBuildInformation(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			var bom cdx.BOM
			must(t, cdx.NewBOMDecoder(bytes.NewReader(read(t, made.file("-linux-"+arch+".cdx.json"))), cdx.BOMFileFormatJSON).Decode(&bom))
			if main := bom.Metadata.Component; main.Version != made.version || main.Name != "github.com/samplecrd/samplecrd-controller" {
				t.Errorf("the SBOM is for %s %s", main.Name, main.Version)
			}
			var got []string
			for _, c := range *bom.Components {
				got = append(got, c.Name+" "+c.Version)
				checkComponent(t, c)
			}
			if diff := cmp.Diff(goVersion(t, arch), got); diff != "" {
				t.Errorf("(-go version -m, +SBOM):\n%s", diff)
			}
		})
	}
}

// An image from scratch has no certificate authorities.
func TestBinaryContainsItsCertificateAuthorities(t *testing.T) {
	const authorities = "golang.org/x/crypto/x509roots/fallback "
	for _, arch := range architectures {
		if !slices.ContainsFunc(goVersion(t, arch), func(m string) bool { return strings.HasPrefix(m, authorities) }) {
			t.Errorf("%s: the binary does not contain %s", arch, authorities)
		}
	}
}

func checkComponent(t *testing.T, c cdx.Component) {
	t.Helper()
	if c.Licenses == nil {
		t.Errorf("%s has no licence", c.Name)
	}
	if c.Name == "std" {
		return
	}
	if c.Hashes == nil {
		t.Fatalf("%s has no hash", c.Name)
	}
	if hash, err := hex.DecodeString((*c.Hashes)[0].Value); err != nil || len(hash) != 32 {
		t.Errorf("%s has the hash %q", c.Name, (*c.Hashes)[0].Value)
	}
}

// goVersion returns the toolchain and the modules that go version -m finds.
func goVersion(t *testing.T, arch string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program)
	must(t, os.WriteFile(file, packed(t, arch)[program], 0o755))
	out, err := exec.Command("go", "version", "-m", file).Output()
	must(t, err)
	lines := slices.Collect(strings.Lines(string(out)))
	modules := []string{"std " + strings.TrimPrefix(strings.Fields(lines[0])[1], "go")}
	for _, line := range lines[1:] {
		if fields := strings.Fields(line); fields[0] == "dep" {
			modules = append(modules, fields[1]+" "+fields[2])
		}
	}
	return modules
}

func TestPackageURLsFollowTheirSpecification(t *testing.T) {
	for _, tc := range []struct{ path, version, want string }{
		{"k8s.io/api", "v0.1.2", "pkg:golang/k8s.io/api@v0.1.2"},
		{"github.com/Azure/go-x/v2", "v2.0.0+incompatible", "pkg:golang/github.com/azure/go-x/v2@v2.0.0%2Bincompatible"},
	} {
		if got := packageURL(tc.path, tc.version); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func TestInstallBeginsWithTheNamespaceAndHasThisImage(t *testing.T) {
	var kinds []string
	var image string
	for document := range bytes.SplitSeq(read(t, filepath.Join(made.out, "install.yaml")), []byte("\n---\n")) {
		var object appsv1.Deployment // has the fields that are needed of other kinds too
		must(t, yaml.Unmarshal(document, &object))
		kinds = append(kinds, object.Kind)
		if object.Kind == "Deployment" {
			image = object.Spec.Template.Spec.Containers[0].Image
		}
	}
	if want := []string{"Namespace", "CustomResourceDefinition"}; !slices.Equal(kinds[:2], want) {
		t.Errorf("the order is %v", kinds)
	}
	if !slices.Contains(kinds, "NetworkPolicy") {
		t.Errorf("there is no NetworkPolicy: %v", kinds)
	}
	if want := "example.com/team/samplecrd-controller:v9.8.7-rc.1"; image != want {
		t.Errorf("the image is %q, want %q", image, want)
	}
}

func TestFolderThatIsNotEmptyIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine")
	must(t, os.WriteFile(file, nil, 0o600))
	err := newRelease(made.root, filepath.Dir(file)).make(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not empty: remove it, or choose another folder with -o") {
		t.Errorf("got %v", err)
	}
	read(t, file)
}

func TestFailureLeavesNoFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	if err := newRelease(t.TempDir(), out).make(t.Context()); err == nil {
		t.Error("no error without a source")
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the folder exists: %v", err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
