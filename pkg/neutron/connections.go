// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"

	"k8s.io/klog/v2"
)

// connections is the http.RoundTripper at the bottom: it has the connections to Keystone and
// Neutron. If the certificates in the configuration change, it closes the idle connections, and
// makes new ones with the new certificates.
//
// It reads the configuration again after each request without an answer, since a handshake can
// fail in many ways. The circuit bounds that: while Neutron is away, it lets one request per second
// through.
type connections struct {
	config Config
	idle   int // how many connections are kept open

	mu      sync.Mutex
	current *http.Transport
	tls     *tls.Config // of current
}

func newConnections(config Config, idle int) *connections {
	return &connections{config: config, idle: idle, current: newTransport(config, idle), tls: config.TLS}
}

func newTransport(config Config, idle int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config.TLS
	if len(config.Denied) > 0 {
		t.DialContext = dialExcept(config.Denied)
	}
	t.MaxIdleConns = 0 // no limit except the next one
	t.MaxIdleConnsPerHost = idle
	return t
}

func (c *connections) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.transport().RoundTrip(request)
	if ctx := request.Context(); err != nil && ctx.Err() == nil {
		c.reload(ctx)
	}
	return response, err
}

func (c *connections) transport() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// reload reads the configuration, and uses its certificates if it is readable.
func (c *connections) reload(ctx context.Context) {
	config, err := c.config.current()
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to read the cloud's certificates again; the previous ones stay in use", "err", err)
		return
	}
	c.use(ctx, config)
}

// use makes new connections with these settings from now on. Requests that are under way keep
// their connections.
func (c *connections) use(ctx context.Context, config Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sameTLS(c.tls, config.TLS) {
		return
	}
	c.current.CloseIdleConnections()
	c.current, c.tls = newTransport(config, c.idle), config.TLS
	klog.FromContext(ctx).Info("The certificates for the cloud have changed; new connections use them")
}
