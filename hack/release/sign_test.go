// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
)

// keys is the folder with release.key and release.pub, which signed the release that all tests read.
var keys string

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// writeKeys writes release.key and release.pub.
func writeKeys(folder string, key crypto.Signer) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	write := func(name, kind string, data []byte) error {
		return os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600)
	}
	return errors.Join(write("release.key", "PRIVATE KEY", private), write("release.pub", "PUBLIC KEY", public))
}

// useNewKey makes a new key, and returns what signs with it.
func useNewKey(folder string) (signer, error) {
	key, err := newKey()
	if err == nil {
		err = writeKeys(folder, key)
	}
	if err != nil {
		return nil, err
	}
	return newSigner(filepath.Join(folder, "release.key"), false)
}

// pageBlock returns the first block of code after a heading of hack/README.md, as lines.
func pageBlock(t *testing.T, heading string) []string {
	t.Helper()
	text := string(read(t, filepath.Join(made.root, "hack", "README.md")))
	found := regexp.MustCompile("(?s)\n### " + heading + "\n.*?\n```sh\n(.*?)\n```\n").FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("hack/README.md has no commands after %q", heading)
	}
	return strings.Split(found[1], "\n")
}

// shell runs a command of the page.
func shell(t *testing.T, folder, command string, env ...string) (string, error) {
	t.Helper()
	for _, tool := range []string{"openssl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: install it; Debian's packages are openssl and coreutils", err)
		}
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyRelease returns a folder with links to the files of the release.
func copyRelease(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	entries, err := os.ReadDir(made.out)
	must(t, err)
	for _, e := range entries {
		must(t, os.Symlink(filepath.Join(made.out, e.Name()), filepath.Join(folder, e.Name())))
	}
	return folder
}

// replace writes a file in place of a link.
func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	must(t, os.Remove(file))
	must(t, os.WriteFile(file, content, 0o600))
}

// replaceSum makes SHA256SUMS have the checksum of a changed install.yaml.
func replaceSum(t *testing.T, folder string) {
	t.Helper()
	changed := append(read(t, filepath.Join(folder, "install.yaml")), "# changed\n"...)
	sums := filepath.Join(folder, "SHA256SUMS")
	text := regexp.MustCompile(`(?m)^\w+  install\.yaml$`).ReplaceAll(read(t, sums), fmt.Appendf(nil, "%x  install.yaml", sha256.Sum256(changed)))
	replace(t, filepath.Join(folder, "install.yaml"), changed)
	replace(t, sums, text)
}

func readEnvelope(t *testing.T, folder string) (envelope dsse.Envelope, statement []byte) {
	t.Helper()
	must(t, json.Unmarshal(read(t, filepath.Join(folder, envelopeFile)), &envelope))
	statement, err := envelope.DecodeB64Payload()
	must(t, err)
	return envelope, statement
}

func writeEnvelope(t *testing.T, folder string, envelope dsse.Envelope) {
	t.Helper()
	text, err := json.Marshal(envelope)
	must(t, err)
	replace(t, filepath.Join(folder, envelopeFile), text)
}

// removeSignatures removes the links, through which signing would change the release that all tests read.
func removeSignatures(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{"SHA256SUMS.sig", envelopeFile} {
		must(t, os.Remove(filepath.Join(folder, name)))
	}
}

// changes are changes of a release, and whether each command of the page succeeds after it.
var changes = []struct {
	name   string
	change func(t *testing.T, folder, keys string)
	want   [3]bool
}{
	{"as it was made", func(*testing.T, string, string) {}, [3]bool{true, true, true}},
	{"an artifact", func(t *testing.T, folder, _ string) {
		replace(t, filepath.Join(folder, "install.yaml"), []byte("changed"))
	}, [3]bool{true, false, true}},
	{"an artifact that is missing", func(t *testing.T, folder, _ string) {
		must(t, os.Remove(filepath.Join(folder, "install.yaml")))
	}, [3]bool{true, false, true}},
	{"an artifact and its checksum", func(t *testing.T, folder, _ string) { replaceSum(t, folder) }, [3]bool{false, true, false}},
	{"the signature of the checksums", func(t *testing.T, folder, _ string) {
		replace(t, filepath.Join(folder, "SHA256SUMS.sig"), []byte("changed"))
	}, [3]bool{false, true, true}},
	{"the provenance", func(t *testing.T, folder, _ string) {
		envelope, statement := readEnvelope(t, folder)
		changed := bytes.ReplaceAll(statement, []byte(made.commit), []byte(strings.Repeat("f", 40)))
		envelope.Payload = base64.StdEncoding.EncodeToString(changed)
		writeEnvelope(t, folder, envelope)
	}, [3]bool{true, true, false}},
	{"the type of the provenance", func(t *testing.T, folder, _ string) {
		envelope, _ := readEnvelope(t, folder)
		envelope.PayloadType = "text/plain"
		writeEnvelope(t, folder, envelope)
	}, [3]bool{true, true, false}},
	{"the signature of the provenance is missing", func(t *testing.T, folder, _ string) {
		envelope, _ := readEnvelope(t, folder)
		envelope.Signatures = nil
		writeEnvelope(t, folder, envelope)
	}, [3]bool{true, true, false}},
	{"the provenance is missing", func(t *testing.T, folder, _ string) {
		must(t, os.Remove(filepath.Join(folder, envelopeFile)))
	}, [3]bool{true, true, false}},
	{"another key", func(t *testing.T, _, keys string) {
		_, err := useNewKey(keys)
		must(t, err)
	}, [3]bool{false, true, false}},
	{"signed with another key", func(t *testing.T, folder, _ string) {
		r := *made
		r.out = folder
		var err error
		r.signer, err = useNewKey(t.TempDir())
		must(t, err)
		removeSignatures(t, folder)
		must(t, r.sign(t.Context()))
	}, [3]bool{false, true, false}},
	{"the provenance of another release with the same key", func(t *testing.T, folder, _ string) {
		r := *made
		r.out = copyRelease(t)
		replaceSum(t, r.out)
		removeSignatures(t, r.out)
		must(t, r.sign(t.Context()))
		replace(t, filepath.Join(folder, envelopeFile), read(t, filepath.Join(r.out, envelopeFile)))
	}, [3]bool{true, true, false}},
	{"the provenance as another type with the same key", func(t *testing.T, folder, _ string) {
		signer, err := dsse.NewEnvelopeSigner(made.signer.(keySigner))
		must(t, err)
		envelope, err := signer.SignPayload(t.Context(), "text/plain", readStatement(t, folder))
		must(t, err)
		writeEnvelope(t, folder, *envelope)
	}, [3]bool{true, true, false}},
	{"another statement with the same key", func(t *testing.T, folder, _ string) {
		statement := bytes.ReplaceAll(readStatement(t, folder), []byte(predicateType), []byte("https://example.com/v1"))
		removeSignatures(t, folder)
		must(t, made.signer.sign(t.Context(), folder, statement))
	}, [3]bool{true, true, false}},
}

// The commands are those of the page.
func TestChangedReleaseFailsVerification(t *testing.T) {
	commands := pageBlock(t, "Verifying a release")
	if len(commands) != 3 {
		t.Fatalf("hack/README.md has the commands %q, want three", commands)
	}
	for _, tc := range changes {
		t.Run(tc.name, func(t *testing.T) {
			folder, public := copyRelease(t), t.TempDir()
			must(t, os.CopyFS(public, os.DirFS(keys)))
			tc.change(t, folder, public)
			for i, command := range commands {
				out, err := shell(t, made.root, command, "R="+folder, "KEY="+filepath.Join(public, "release.pub"))
				if got := err == nil; got != tc.want[i] {
					t.Errorf("%s: success %t, want %t:\n%s", command, got, tc.want[i], out)
				}
			}
		})
	}
}

func readStatement(t *testing.T, folder string) []byte {
	t.Helper()
	_, statement := readEnvelope(t, folder)
	return statement
}

// openssl knows nothing of this program and its libraries.
func TestEnvelopeIsSignedAsTheSpecificationSays(t *testing.T) {
	envelope, statement := readEnvelope(t, made.out)
	folder := t.TempDir()
	signature, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "sig"), signature, 0o600))
	signed := fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(statement), statement)
	must(t, os.WriteFile(filepath.Join(folder, "signed"), []byte(signed), 0o600))
	out, err := shell(t, folder, "openssl dgst -sha256 -verify $KEY -signature sig signed", "KEY="+filepath.Join(keys, "release.pub"))
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestProvenanceNamesTheFilesTheCommitAndTheParameters(t *testing.T) {
	var statement intoto.Statement
	must(t, protojson.Unmarshal(readStatement(t, made.out), &statement))
	must(t, statement.Validate())
	var sums strings.Builder
	for _, s := range statement.Subject {
		fmt.Fprintf(&sums, "%s  %s\n", s.Digest["sha256"], s.Name)
	}
	if diff := cmp.Diff(string(read(t, filepath.Join(made.out, "SHA256SUMS"))), sums.String()); diff != "" {
		t.Errorf("(-SHA256SUMS, +subjects):\n%s", diff)
	}
	text, err := protojson.Marshal(statement.Predicate)
	must(t, err)
	var got, want slsa.Provenance
	must(t, protojson.Unmarshal(text, &got)) // fails with a field that SLSA does not have
	must(t, got.Validate())
	must(t, protojson.Unmarshal(fmt.Appendf(nil, `{
		"buildDefinition": {
			"buildType": "https://github.com/samplecrd/samplecrd-controller/blob/main/hack/README.md#releases",
			"externalParameters": {"version": "v9.8.7-rc.1", "image": "example.com/team/samplecrd-controller", "sourceDate": "2001-09-09T01:46:40Z"},
			"resolvedDependencies": [{
				"uri": "git+https://github.com/samplecrd/samplecrd-controller@0123456789abcdef0123456789abcdef01234567",
				"digest": {"gitCommit": "0123456789abcdef0123456789abcdef01234567"}
			}]
		},
		"runDetails": {"builder": {
			"id": "https://github.com/samplecrd/samplecrd-controller/blob/main/hack/release.sh",
			"version": {"go": %q}
		}}
	}`, runtime.Version()), &want))
	if diff := cmp.Diff(&want, &got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeyOfThePageSigns(t *testing.T) {
	folder := t.TempDir()
	for _, command := range pageBlock(t, "Signing a release") {
		if out, err := shell(t, folder, command); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	_, err := newSigner(filepath.Join(folder, "release.key"), false)
	must(t, err)
	if _, private, err := loadKey(filepath.Join(folder, "release.pub")); err != nil || private {
		t.Errorf("release.pub: private %t, %v", private, err)
	}
}

func TestKeyThatCannotSignIsRefusedBeforeTheBuild(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	otherCurve, otherKind := t.TempDir(), t.TempDir()
	must(t, writeKeys(otherCurve, ec))
	must(t, writeKeys(otherKind, ed))
	const unsuitable = "has no ECDSA key with P-256"
	for file, want := range map[string]string{
		filepath.Join(keys, "release.pub"):        "is a public key: use the private one",
		filepath.Join(otherCurve, "release.key"):  unsuitable,
		filepath.Join(otherKind, "release.key"):   unsuitable,
		filepath.Join(made.out, "SHA256SUMS"):     unsuitable,
		filepath.Join(t.TempDir(), "release.key"): "no such file",
	} {
		t.Chdir(newRepository(t))
		err := run(t.Context(), io.Discard, options{key: file, out: filepath.Join(t.TempDir(), "out")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}

func TestFlagsThatExcludeEachOtherAreRefused(t *testing.T) {
	for want, o := range map[string]options{
		"": {key: "k", verify: "f"}, "-keyless excludes -key and -verify": {key: "k", keyless: true},
		"-verify needs the public key: add -key FILE": {verify: "f"},
	} {
		if got := o.check(0); got != want {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
}

func TestSignedReleaseHasNoUncommittedChanges(t *testing.T) {
	folder := newRepository(t)
	edit(t, folder, "file")
	t.Chdir(folder)
	err := run(t.Context(), io.Discard, options{key: filepath.Join(keys, "release.key")})
	if err == nil || !strings.Contains(err.Error(), "a signed release cannot have uncommitted changes") {
		t.Errorf("got %v", err)
	}
}

func TestReleaseWithoutAKeySaysThatItIsNotSigned(t *testing.T) {
	var progress strings.Builder
	r := *made
	r.out, r.signer, r.progress = t.TempDir(), nil, &progress
	must(t, r.sign(t.Context()))
	if want := "the release is not signed, and has no provenance"; !strings.Contains(progress.String(), want) {
		t.Errorf("got %q, want %q", progress.String(), want)
	}
	if files, _ := os.ReadDir(r.out); len(files) > 0 {
		t.Errorf("there are %v", files)
	}
}

// In place of cosign, which needs a network, a script writes its arguments and the statement into the bundles.
func TestKeylessReleaseIsSignedByCosign(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	fake := func(script string) {
		must(t, os.WriteFile(filepath.Join(bin, "cosign"), []byte("#!/bin/sh\n"+script), 0o700))
	}
	r := *made
	r.out = t.TempDir()
	must(t, os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), read(t, filepath.Join(made.out, "SHA256SUMS")), 0o600))
	fake("echo \"$@\" >$4; [ $# -lt 6 ] || cat $6 >>$4\n")
	var err error
	r.signer, err = newSigner("", true)
	must(t, err)
	must(t, r.sign(t.Context()))
	want := map[string]string{
		"SHA256SUMS.sigstore.json": "sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS\n",
		"provenance.sigstore.json": "attest-blob --yes --bundle provenance.sigstore.json --statement .statement.json\n" + string(readStatement(t, made.out)),
		"SHA256SUMS":               string(read(t, filepath.Join(made.out, "SHA256SUMS"))),
	}
	got := map[string]string{}
	files, err := os.ReadDir(r.out)
	must(t, err)
	for _, f := range files {
		got[f.Name()] = string(read(t, filepath.Join(r.out, f.Name())))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fake("exit 1")
	if err := r.sign(t.Context()); err == nil || !strings.Contains(err.Error(), "cosign sign-blob: exit status 1") {
		t.Errorf("got %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := newSigner("", true); err == nil || !strings.Contains(err.Error(), "install cosign, or use -key") {
		t.Errorf("got %v", err)
	}
}

func TestBaseImageIsPinnedByItsDigest(t *testing.T) {
	pinned := regexp.MustCompile(`^FROM (scratch$|\S+:\S+@sha256:[0-9a-f]{64}( |$))`)
	for line := range strings.Lines(string(read(t, filepath.Join(made.root, "Dockerfile")))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "FROM ") && !pinned.MatchString(line) {
			t.Errorf("%s: there is no tag with a digest", line)
		}
	}
}
