// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// recheck is how often the files of a certificate are read again, if there are connections.
const recheck = time.Second

// certificate is a TLS certificate that is reloaded when its files change.
type certificate struct {
	certFile, keyFile string
	recheck           time.Duration

	mu      sync.Mutex
	current *tls.Certificate
	// err is the error in the files as they were at checked.
	err     error
	checked time.Time
}

// loadCertificate loads the certificate for the first time: it must be valid then.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, recheck: recheck}
	c.read()
	return c, c.err
}

// forConnection is a tls.Config's GetCertificate.
func (c *certificate) forConnection(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.get(hello.Context()), nil
}

// get returns the certificate. It reads the files again, at most once per recheck.
func (c *certificate) get(ctx context.Context) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < c.recheck {
		return c.current
	}
	changed := c.read()
	logger := klog.FromContext(ctx)
	switch {
	case changed && c.err != nil:
		// Only one of the two files may have been written yet.
		logger.Error(c.err, "Failed to reload the TLS certificate; the previous one stays in use")
	case changed:
		logger.Info("Reloaded the TLS certificate", "file", c.certFile)
	}
	return c.current
}

// read reads the files, and reports whether the certificate or the error changed.
func (c *certificate) read() (changed bool) {
	c.checked = time.Now()
	before, failed := c.current, c.err
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.err = fmt.Errorf("TLS certificate %s with key %s: %w", c.certFile, c.keyFile, err)
		return failed == nil || failed.Error() != c.err.Error()
	}
	c.current, c.err = &pair, nil
	return before == nil || failed != nil || !slices.EqualFunc(before.Certificate, pair.Certificate, bytes.Equal)
}
