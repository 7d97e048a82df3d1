// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Only this control plane, on loopback, trusts these certificates, and its data may be kept
// for a long time. Ten years avoid renewing them.
const certificateLife = 10 * 365 * 24 * time.Hour

// An authority signs certificates. Its key is never stored, so after the certificates below
// are issued no others can be.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// ensurePKI creates all keys and certificates in dir, unless they exist.
func ensurePKI(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Renamed when complete, so that an interrupted run leaves no partial result.
	partial := dir + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o700)); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	if err := writePKI(partial); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	return os.Rename(partial, dir)
}

func writePKI(dir string) error {
	ca, err := newAuthority(filepath.Join(dir, "ca"), "samplecrd-local")
	if err != nil {
		return err
	}
	// etcd has an authority of its own, because every certificate of its authority is a
	// superuser.
	etcdCA, err := newAuthority(filepath.Join(dir, "etcd-ca"), "samplecrd-local-etcd")
	if err != nil {
		return err
	}
	serviceAccountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return errors.Join(
		ca.issue(filepath.Join(dir, "apiserver"), serving("kube-apiserver")),
		ca.issue(filepath.Join(dir, "admin"), client("admin", "system:masters")),
		ca.issue(filepath.Join(dir, "controller-manager"), client("system:kube-controller-manager")),
		etcdCA.issue(filepath.Join(dir, "etcd"), serving("etcd")),
		writeKey(filepath.Join(dir, "service-account.key"), serviceAccountKey),
	)
}

// serving returns the template for a server's certificate. etcd also uses its own as a
// client, and the API server uses it to connect to etcd.
func serving(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
}

func client(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func newAuthority(path, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, certificate: &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}}
	der, err := a.sign(a.certificate, key)
	if err != nil {
		return nil, err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(path+".crt", "CERTIFICATE", der)
}

// issue writes a new key and its certificate to path.key and path.crt.
func (a *authority) issue(path string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(path+".crt", "CERTIFICATE", der), writeKey(path+".key", key))
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// An hour ago, in case the clock is set back.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLife)
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
