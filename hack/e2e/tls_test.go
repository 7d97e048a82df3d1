// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// authority issues certificates.
type authority tls.Certificate

// sign returns a certificate that is signed by the authority, or by itself if that is nil.
func (w *world) sign(template *x509.Certificate, by *authority) *authority {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template.SerialNumber, template.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if by == nil {
		by = &authority{Leaf: template, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	w.must(err)
	leaf, err := x509.ParseCertificate(der)
	w.must(err)
	return &authority{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (w *world) newAuthority() *authority {
	w.Helper()
	return w.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "the test's authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Leaf.Raw}))
}

// issue returns a certificate for 127.0.0.1, after the call of change.
func (w *world) issue(a *authority, change func(*x509.Certificate)) tls.Certificate {
	w.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "the test's cloud"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	return tls.Certificate(*w.sign(template, a))
}

// behind serves the world's cloud with this TLS configuration, and returns the address.
func (w *world) behind(config *tls.Config) string {
	w.Helper()
	server := httptest.NewUnstartedServer(w.behindTLS().Config.Handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = config
	server.StartTLS()
	w.Cleanup(server.Close)
	return server.URL
}

// tlsCase is a cloud with a certificate, and the expected result for its Networks.
type tlsCase struct {
	name string
	url  string
	// entry has further lines for the entry of clouds.yaml.
	entry string
	// authority is the file of the trusted authorities; "" for the system's.
	authority string
	says      string // the error; "" if it works
	inSecret  string // the error for credentials in a Secret, which quotes nothing of the server
}

func (w *world) tlsCases() []tlsCase {
	w.Helper()
	ours, others := w.newAuthority(), w.newAuthority()
	server := func(change func(*x509.Certificate)) string {
		return w.behind(&tls.Config{Certificates: []tls.Certificate{w.issue(ours, change)}})
	}
	good := server(func(*x509.Certificate) {})
	expired := server(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	elsewhere := server(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"keystone.example"} })
	client := server(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	old := w.behind(&tls.Config{Certificates: []tls.Certificate{w.issue(ours, func(*x509.Certificate) {})}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	const unknown, notSigned = "certificate signed by unknown authority", "the server's certificate is not signed by a known authority"
	return []tlsCase{
		{"known", good, "", ours.pem(), "", ""},
		{"unknown", good, "", "", unknown, notSigned},
		{"others", good, "", others.pem(), unknown, notSigned},
		{"unverified", good, "    verify: false\n", "", "", ""},
		{"expired", expired, "", ours.pem(), "the server's certificate has expired", "the server's certificate has expired"},
		{"elsewhere", elsewhere, "", ours.pem(), "cannot validate certificate for 127.0.0.1", "the server's certificate is for another name"},
		{"client", client, "", ours.pem(), "certificate specifies an incompatible key usage", "the server's certificate is not valid"},
		{"old", old, "", ours.pem(), "protocol version", "the server does not speak the protocol of the URL"},
	}
}

// Each case is tried with credentials in a Secret, and with the controller's own.
func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	w.start("-resync=1h", retryQuickly)
	for _, tc := range w.tlsCases() {
		t.Run(tc.name, func(t *testing.T) {
			w, own := w.at(t), newWorldWithoutNeutron(t)
			data := map[string]string{"clouds.yaml": cloudsYAML(tc.url, "team", passwordOf("team")) + tc.entry}
			entry := tc.entry
			if tc.authority != "" {
				data["cacert"] = tc.authority
				entry += "    cacert: " + own.file("ca.pem", tc.authority) + "\n"
			}
			w.applySecret(tc.name, data)
			w.applyWith(tc.name, "10.1.0.0/16", "10.1.0.1", tc.name)
			w.verified(tc.name, tc.inSecret)

			file := own.file("clouds.yaml", cloudsYAML(tc.url, project, password)+entry)
			own.waitUntilAtWork(own.launchIn([]string{"OS_CLIENT_CONFIG_FILE=" + file, "OS_CLOUD=mycloud"}, "-resync=1h", retryQuickly))
			own.apply(tc.name, "10.1.0.0/16", "10.1.0.1")
			own.verified(tc.name, tc.says)
		})
	}
}

// verified waits until the Network is ready, or has that error.
func (w *world) verified(name, says string) {
	w.Helper()
	if says == "" {
		w.waitReady(name)
		return
	}
	w.waitSays(name, samplecrdv1.ReasonNeutronUnavailable, says)
}
