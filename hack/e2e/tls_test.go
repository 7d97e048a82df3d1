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
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func (w *world) newAuthority() *authority {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	w.must(err)
	certificate, err := x509.ParseCertificate(der)
	w.must(err)
	return &authority{certificate, key}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// issue returns a certificate for 127.0.0.1, after the call of change.
func (w *world) issue(a *authority, change func(*x509.Certificate)) tls.Certificate {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "the test's cloud"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	w.must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
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
	const unknown = "certificate signed by unknown authority"
	return []tlsCase{
		{"known", good, "", ours.pem(), ""},
		{"unknown", good, "", "", unknown},
		{"others", good, "", others.pem(), unknown},
		{"unverified", good, "    verify: false\n", "", ""},
		{"expired", expired, "", ours.pem(), "the server's certificate has expired"},
		{"elsewhere", elsewhere, "", ours.pem(), "cannot validate certificate for 127.0.0.1"},
		{"client", client, "", ours.pem(), "certificate specifies an incompatible key usage"},
		{"old", old, "", ours.pem(), "protocol version"},
	}
}

func TestTLSOfTheCloudsOfSecretsIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	w.start("-resync=1h", retryQuickly)
	for _, tc := range w.tlsCases() {
		t.Run(tc.name, func(t *testing.T) {
			w := w.at(t)
			data := map[string]string{"clouds.yaml": cloudsYAML(tc.url, "team", passwordOf("team")) + tc.entry}
			if tc.authority != "" {
				data["cacert"] = tc.authority
			}
			w.applySecret(tc.name, data)
			w.applyWith(tc.name, "10.1.0.0/16", "10.1.0.1", tc.name)
			w.verified(tc)
		})
	}
}

func TestTLSOfTheControllersOwnCloudIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range w.tlsCases() {
		t.Run(tc.name, func(t *testing.T) {
			w := w.at(t)
			entry := tc.entry
			if tc.authority != "" {
				entry += "    cacert: " + w.file(tc.name+".pem", tc.authority) + "\n"
			}
			file := w.file(tc.name+".yaml", cloudsYAML(tc.url, project, password)+entry)
			controller := w.launchIn([]string{"OS_CLIENT_CONFIG_FILE=" + file, "OS_CLOUD=mycloud"}, "-resync=1h", retryQuickly)
			w.waitUntilAtWork(controller)
			w.apply(tc.name, "10.1.0.0/16", "10.1.0.1")
			w.verified(tc)
			w.must(controller.Stop())
		})
	}
}

// verified waits until the case's Network has the expected result.
func (w *world) verified(tc tlsCase) {
	w.Helper()
	if tc.says == "" {
		w.waitReady(tc.name)
		w.matches(tc.name, "10.1.0.0/16", "10.1.0.1")
		return
	}
	w.waitSays(tc.name, samplecrdv1.ReasonNeutronUnavailable, tc.says)
	w.nothing(tc.name)
}
