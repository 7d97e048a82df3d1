// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// What one address can take from the others. Callers behind one proxy share an address.
const (
	// connectionsAtOnce and connectionsPerAddress bound the connections, each of which takes up to 100 KB. As many again as the
	// former are for addresses that have none, such as those of the kubelet, whose probes must not fail, and of Prometheus.
	connectionsAtOnce     = 512
	connectionsPerAddress = 64
	// junkPerSecond and junkAtOnce bound the tokens that are not valid, or whose users may not do what they ask. Those that are sent
	// at the same time are counted only afterwards.
	junkPerSecond = 1
	junkAtOnce    = 10
	// knownAddresses is how many addresses with such tokens are remembered.
	knownAddresses = 1024
)

// junk bounds the tokens of each address that are refused, so that they leave the reviews of requestsPerSecond to others.
type junk struct{ limiters *lru.Cache }

func newJunk() junk { return junk{lru.New(knownAddresses)} }

// exceeds reports whether the address of a request has sent too many such tokens.
func (j junk) exceeds(remoteAddr string) bool {
	limiter, known := j.limiters.Get(addressOf(remoteAddr))
	return known && limiter.(*rate.Limiter).Tokens() < 1
}

// add counts such a token.
func (j junk) add(remoteAddr string) {
	address := addressOf(remoteAddr)
	limiter, known := j.limiters.Get(address)
	if !known {
		limiter = rate.NewLimiter(junkPerSecond, junkAtOnce)
		j.limiters.Add(address, limiter)
	}
	limiter.(*rate.Limiter).Allow()
}

// addressOf returns the address without its port. All addresses of an IPv6 network of /64 are one: a host can have all of them.
func addressOf(remoteAddr string) netip.Addr {
	at, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().Addr()
	}
	return address
}

// boundedListener closes a new connection at once if there are too many.
type boundedListener struct {
	net.Listener

	mu    sync.Mutex
	open  int
	peers map[netip.Addr]int
}

func newBoundedListener(listener net.Listener) *boundedListener {
	return &boundedListener{Listener: listener, peers: map[netip.Addr]int{}}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := addressOf(connection.RemoteAddr().String())
		if l.admit(peer) {
			return &countedConn{Conn: connection, release: sync.OnceFunc(func() { l.release(peer) })}, nil
		}
		_ = connection.Close()
	}
}

func (l *boundedListener) admit(peer netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := connectionsAtOnce
	if l.peers[peer] == 0 {
		limit *= 2
	}
	if l.open >= limit || l.peers[peer] >= connectionsPerAddress {
		return false
	}
	l.open++
	l.peers[peer]++
	return true
}

func (l *boundedListener) release(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	release func()
}

func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
