// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// listeners are those of Serve, by their addresses.
var listeners sync.Map

// serial makes the hosts different.
var serial atomic.Int64

// Clients copy the default transport. It leads to the listeners; other connections are made as usual.
func init() {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	usual := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l, ok := listeners.Load(address); ok {
			return l.(*pipes).dial(ctx)
		}
		return usual(ctx, network, address)
	}
	http.DefaultTransport = transport
	// The handler of client-go that delays errors compares the times of one bubble with those of another.
	utilruntime.ErrorHandlers = nil
}

// Serve lets the handler answer in memory, at the host that it returns, until stop is called. In a bubble of synctest,
// time stands still while a goroutine waits for a socket, but not while it waits for such a connection.
func Serve(handler http.Handler) (host string, stop func()) {
	host = fmt.Sprintf("in-memory-%d", serial.Add(1))
	l := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
	listeners.Store(host+":80", l)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	return host, func() {
		_ = server.Close()
		listeners.Delete(host + ":80")
	}
}

// pipes is a net.Listener whose connections stay in memory.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case connection := <-p.connections:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
