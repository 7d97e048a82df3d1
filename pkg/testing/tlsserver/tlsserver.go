// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tlsserver serves HTTPS in tests, with certificates of authorities that can be rotated.
package tlsserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	// PEM is its certificate.
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no client trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.PEM, a.key = a.sign(t, a.certificate)
	return a
}

// Issue returns a certificate and its key, for a server on loopback and for a client.
func (a *Authority) Issue(t testing.TB) (certificate, key []byte) {
	t.Helper()
	certificate, pair := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// sign returns a certificate for a new key. The first is signed by itself.
func (a *Authority) sign(t testing.TB, template *x509.Certificate) (certificate []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// Server is an HTTPS server.
type Server struct {
	*httptest.Server
	settings atomic.Pointer[tls.Config]
}

// New starts a server with a certificate of the authority.
func New(t testing.TB, a *Authority, handler http.Handler) *Server {
	t.Helper()
	s := &Server{Server: httptest.NewUnstartedServer(handler)}
	s.Use(t, a, nil)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.settings.Load(), nil }}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Use gives the server a certificate of the authority for new connections. Clients need a
// certificate of the other authority, if it is not nil.
func (s *Server) Use(t testing.TB, a, clients *Authority) {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t))
	if err != nil {
		t.Fatal(err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		settings.ClientAuth, settings.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		settings.ClientCAs.AppendCertsFromPEM(clients.PEM)
	}
	s.settings.Store(settings)
}
