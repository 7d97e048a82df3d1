// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

func TestPKI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	must(t, ensurePKI(dir))
	verifies := func(name, authority string, options x509.VerifyOptions) error {
		options.Roots = x509.NewCertPool()
		options.Roots.AddCert(load(t, dir, authority))
		_, err := load(t, dir, name).Verify(options)
		return err
	}
	for _, name := range []string{"127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default.svc"} {
		if err := verifies("apiserver", "ca", x509.VerifyOptions{DNSName: name}); err != nil {
			t.Errorf("the API server's for %s: %v", name, err)
		}
	}
	for file, want := range map[string]string{
		"admin":              "CN=admin,O=system:masters",
		"controller-manager": "CN=system:kube-controller-manager",
	} {
		if got := load(t, dir, file).Subject.String(); got != want {
			t.Errorf("%s: want subject %s, got %s", file, want, got)
		}
		if err := verifies(file, "ca", x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	any := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if err := verifies("etcd", "etcd-ca", any); err != nil {
		t.Errorf("etcd does not trust its own certificate: %v", err)
	}
	if err := verifies("admin", "etcd-ca", any); err == nil {
		t.Error("etcd trusts the certificate of the API's administrator")
	}

	before := load(t, dir, "ca")
	if err := ensurePKI(dir); err != nil || !load(t, dir, "ca").Equal(before) {
		t.Errorf("the authority was created again, or %v", err)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others can read %s, or %v", entry.Name(), err)
		}
	}
}

func load(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	must(t, err)
	block, _ := pem.Decode(data)
	certificate, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return certificate
}
