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

package supervisor

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

func TestServerCertificateIsValidForTheNamesClientsUse(t *testing.T) {
	dir := newPKI(t)
	certificate := load(t, dir, "apiserver")
	for _, name := range []string{"127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default.svc"} {
		options := x509.VerifyOptions{DNSName: name, Roots: roots(t, dir, "ca")}
		if _, err := certificate.Verify(options); err != nil {
			t.Errorf("for %s: %v", name, err)
		}
	}
}

func TestClientCertificatesHaveTheirSubjects(t *testing.T) {
	dir := newPKI(t)
	for file, want := range map[string]string{
		"admin":              "CN=admin,O=system:masters",
		"controller-manager": "CN=system:kube-controller-manager",
	} {
		certificate := load(t, dir, file)
		if got := certificate.Subject.String(); got != want {
			t.Errorf("%s: want subject %s, got %s", file, want, got)
		}
		options := x509.VerifyOptions{Roots: roots(t, dir, "ca"), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, err := certificate.Verify(options); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestEtcdTrustsNoCertificateOfTheAPI(t *testing.T) {
	dir := newPKI(t)
	options := x509.VerifyOptions{Roots: roots(t, dir, "etcd-ca"), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := load(t, dir, "etcd").Verify(options); err != nil {
		t.Errorf("its own: %v", err)
	}
	if _, err := load(t, dir, "admin").Verify(options); err == nil {
		t.Error("the admin's is trusted")
	}
}

func TestPKIIsCreatedOnceAndOnlyItsOwnerCanReadIt(t *testing.T) {
	dir := newPKI(t)
	before := load(t, dir, "ca")
	if err := ensurePKI(dir); err != nil {
		t.Fatal(err)
	}
	if !load(t, dir, "ca").Equal(before) {
		t.Error("the authority was created again")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode())
		}
	}
}

func newPKI(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := ensurePKI(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func roots(t *testing.T, dir, authority string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(load(t, dir, authority))
	return pool
}
