// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes a kubeconfig that refers to no other file, and that only its owner
// can read.
func writeKubeconfig(file, server, user string, l layout) error {
	ca, errCA := os.ReadFile(l.pki("ca.crt"))
	certificate, errCertificate := os.ReadFile(l.pki(user + ".crt"))
	key, errKey := os.ReadFile(l.pki(user + ".key"))
	if err := errors.Join(errCA, errCertificate, errKey); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	const name = "samplecrd-local"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: certificate, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}, file)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// adminClient returns an HTTP client that authenticates as the admin.
func adminClient(l layout) (*http.Client, error) {
	ca, err := os.ReadFile(l.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(l.pki("admin.crt"), l.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
			// A connection that is kept open could be one to the API server before its
			// restart.
			DisableKeepAlives: true,
		},
	}, nil
}
