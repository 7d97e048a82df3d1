// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"net/http"
	"sync"
)

// gate controls the connection of one replica to the API server. While it is shut, nothing
// passes in either direction.
type gate struct {
	mu sync.Mutex
	// opened is closed when the gate is opened again; it is nil while the gate is open.
	opened chan struct{}
	// refuses reports whether the shut gate refuses requests, in place of making them wait.
	refuses bool
	// streams has the functions that end the open streams, by their requests.
	streams map[*http.Request]context.CancelFunc
}

// shut shuts the gate. It refuses requests and ends streams, or makes all of them hang.
func (g *gate) shut(refuses bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened, g.refuses = make(chan struct{}), refuses
	if refuses {
		for _, end := range g.streams {
			end()
		}
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = nil
}

func (g *gate) state() (opened chan struct{}, refuses bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.refuses
}

// wait waits until the gate is open.
func (g *gate) wait(ctx context.Context) error {
	opened, _ := g.state()
	if opened == nil {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass returns when a request, or its answer, may pass. It closes the connection if the
// gate refuses the request, or the client gives up.
func (g *gate) pass(ctx context.Context) {
	if opened, refuses := g.state(); opened != nil && refuses || g.wait(ctx) != nil {
		panic(http.ErrAbortHandler)
	}
}

// stream passes on a request whose answer is a stream.
func (g *gate) stream(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	g.pass(r.Context())
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	g.mu.Lock()
	if g.streams == nil {
		g.streams = map[*http.Request]context.CancelFunc{}
	}
	g.streams[r] = cancel
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.streams, r)
	}()
	handler.ServeHTTP(&watchedWriter{w, func() { g.pass(ctx) }}, r.WithContext(ctx))
}

// watchedWriter calls before ahead of each part of an answer.
type watchedWriter struct {
	http.ResponseWriter
	before func()
}

// WriteHeader writes the header of an answer.
func (w *watchedWriter) WriteHeader(status int) {
	w.before()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes of the body of an answer.
func (w *watchedWriter) Write(body []byte) (int, error) {
	w.before()
	return w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
