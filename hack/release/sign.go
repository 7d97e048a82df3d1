// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

const (
	// envelopeFile contains the provenance, in a DSSE envelope.
	envelopeFile = "provenance.intoto.jsonl"
	payloadType  = "application/vnd.in-toto+json"
)

// signer signs the SHA256SUMS in a folder, and the statement, and writes the signatures to
// the folder.
type signer interface {
	sign(ctx context.Context, folder string, statement []byte) error
}

// newSigner returns what signs a release with that key file or with cosign, nil if nothing
// does.
func newSigner(keyFile string, keyless bool) (signer, error) {
	if keyless {
		path, err := exec.LookPath("cosign")
		if err != nil {
			return nil, fmt.Errorf("%w: install cosign, or use -key", err)
		}
		return cosign(path), nil
	}
	if keyFile == "" {
		return nil, nil
	}
	key, private, err := loadKey(keyFile)
	if err == nil && !private {
		err = fmt.Errorf("%s is a public key: use the private one", keyFile)
	}
	return keySigner{key}, err
}

// sign signs the release, if there is a signer.
func (r *release) sign(ctx context.Context) error {
	if r.signer == nil {
		r.report("the release is not signed, and has no provenance: use -key or -keyless for that")
		return nil
	}
	r.report("signing the release")
	statement, err := r.provenance(ctx)
	if err != nil {
		return err
	}
	return r.signer.sign(ctx, r.out, statement)
}

// keySigner signs with a key.
type keySigner struct{ dsse.SignerVerifier }

func (k keySigner) sign(ctx context.Context, folder string, statement []byte) error {
	sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		return err
	}
	signature, err := k.Sign(ctx, sums)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "SHA256SUMS.sig"), signature, 0o644); err != nil {
		return err
	}
	envelopes, err := dsse.NewEnvelopeSigner(k)
	if err != nil {
		return err
	}
	envelope, err := envelopes.SignPayload(ctx, payloadType, statement)
	if err != nil {
		return err
	}
	text, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, envelopeFile), append(text, '\n'), 0o644)
}

// cosign is the path of cosign. It signs with a key that it makes for this one time, and
// that a certificate binds to the identity of who signs.
type cosign string

func (c cosign) sign(ctx context.Context, folder string, statement []byte) error {
	const file = ".statement.json"
	if err := os.WriteFile(filepath.Join(folder, file), statement, 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(folder, file))
	for _, args := range [][]string{
		{"sign-blob", "--yes", "--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"},
		{"attest-blob", "--yes", "--bundle", "provenance.sigstore.json", "--statement", file},
	} {
		cmd := exec.CommandContext(ctx, string(c), args...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = folder, os.Stdin, os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cosign %s: %w", args[0], err)
		}
	}
	return nil
}

// loadKey reads a key, and tells whether it is a private one.
func loadKey(file string) (key dsse.SignerVerifier, private bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, false, err
	}
	// openssl dgst and cosign verify signatures by these keys.
	unsuitable := fmt.Errorf("%s has no ECDSA key with P-256, without a password: hack/README.md says how to make one", file)
	loaded, err := signerverifier.LoadKey(text)
	if err != nil || loaded.KeyType != signerverifier.ECDSAKeyType {
		return nil, false, errors.Join(unsuitable, err)
	}
	ecdsaKey, err := signerverifier.NewECDSASignerVerifierFromSSLibKey(loaded)
	if err != nil || ecdsaKey.Public().(*ecdsa.PublicKey).Curve != elliptic.P256() {
		return nil, false, errors.Join(unsuitable, err)
	}
	return ecdsaKey, loaded.KeyVal.Private != "", nil
}

// verify checks that the key signed the provenance of the release in that folder, and that
// it is of the files in SHA256SUMS. It prints the predicate.
func verify(ctx context.Context, w io.Writer, folder, keyFile string) error {
	key, _, err := loadKey(keyFile)
	if err != nil {
		return err
	}
	file := filepath.Join(folder, envelopeFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: the release was not signed with a key", err)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return err
	}
	_, statement, err := verifier.VerifyAndDecode(ctx, &envelope)
	if err == nil && envelope.PayloadType != payloadType {
		err = fmt.Errorf("it contains %s", envelope.PayloadType)
	}
	if err != nil {
		return fmt.Errorf("%s is no provenance that the key in %s signed: %w", file, keyFile, err)
	}
	predicate, err := checkProvenance(folder, statement)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	_, err = fmt.Fprintf(w, "%s: OK\n%s\n", file, predicate)
	return err
}
