// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pipes has connections in memory for clients and servers in one process. In a bubble of synctest, time stands still
// while a goroutine waits for a socket, but not while it waits for such a connection; and it takes half the time of one.
package pipes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// listeners are those that Listen has returned, by their addresses.
var listeners sync.Map

// Clients copy the default transport. It leads to the listeners; other connections are made as usual.
func init() {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	usual := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l, ok := listeners.Load(address); ok {
			return l.(*listener).dial(ctx)
		}
		return usual(ctx, network, address)
	}
	http.DefaultTransport = transport
	// The handler of client-go that delays errors compares the times of one bubble with those of another.
	utilruntime.ErrorHandlers = nil
}

// hosts counts the names that NewHost has returned.
var hosts atomic.Int64

// NewHost returns a host name that it has not returned before.
func NewHost() string { return fmt.Sprint("in-memory-", hosts.Add(1)) }

// Listen returns a listener for connections in memory to that host. The default HTTP transport, and copies of it, connect to its
// address, which has the first free port from 80 on. A client may still have connections to an earlier listener of that host: then
// use NewHost.
func Listen(host string) net.Listener {
	l := &listener{connections: make(chan net.Conn), closed: make(chan struct{})}
	for port := 80; ; port++ {
		l.address = address(fmt.Sprintf("%s:%d", host, port))
		if _, isTaken := listeners.LoadOrStore(l.address.String(), l); !isTaken {
			return l
		}
	}
}

type listener struct {
	address     address
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.connections:
		return connection, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		listeners.Delete(l.address.String())
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }

type address string

func (a address) Network() string { return "memory" }
func (a address) String() string  { return string(a) }
