// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving is the controller's HTTP server. It serves health, metrics and profiles to everyone,
// and requests to the controller to callers that Kubernetes authorizes.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// Options configure a Server.
type Options struct {
	// Address is host:port, or :port for all addresses.
	Address string
	// CertFile and KeyFile are the files of the TLS certificate; "" for plain HTTP.
	CertFile, KeyFile string
	// Authorized is "true" if the routes for callers with tokens are served, or "auto" if they
	// are served only where nobody on the way can read the tokens.
	Authorized string
	// Audience is the one that a caller's token must be for; "" for that of the API server. The API server does not accept a token
	// for another audience, so it is of no use to a thief.
	Audience string
}

// Server listens from the start, and serves HTTP when Serve is called.
type Server struct {
	options  Options
	listener net.Listener
	tls      *tls.Config // nil: plain HTTP
}

// Listen returns a Server that listens, or an error if the address or the certificate cannot be
// used. Without an address it returns nil, and Start does nothing.
func Listen(options Options) (*Server, error) {
	if options.Address == "" {
		return nil, nil
	}
	s := &Server{options: options}
	if options.CertFile != "" {
		certificate, err := loadCertificate(options.CertFile, options.KeyFile)
		if err != nil {
			return nil, err
		}
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.forConnection}
	}
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP: %w", err)
	}
	s.listener = newBoundedListener(listener)
	return s, nil
}

// Address returns the address on which the Server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// TLS reports whether the Server serves HTTPS.
func (s *Server) TLS() bool { return s.tls != nil }

// Confidential reports whether requests, with their tokens, cannot be read on the network: they are
// encrypted, or stay on this machine.
func (s *Server) Confidential() bool {
	address, ok := s.listener.Addr().(*net.TCPAddr)
	return s.TLS() || ok && address.IP.IsLoopback()
}

const (
	// readTimeout and writeTimeout bound one request.
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	// shutdownTimeout bounds how long Serve waits at the end for requests that are under way.
	shutdownTimeout = 5 * time.Second
	// maxHeader has room for long tokens.
	maxHeader = 16 << 10
)

// Start serves the routes until the caller calls stop, which waits for the requests under
// way. The end of ctx does not stop it, so that it can be asked for metrics and the like while
// everything else ends. An error is logged only: the controller does not need the server.
func (s *Server) Start(ctx context.Context, routes Routes) (stop func()) {
	if s == nil {
		return func() {}
	}
	logger := klog.FromContext(ctx)
	logger.Info("Serving HTTP", "address", s.Address(), "tls", s.TLS())
	routes.Audience = s.options.Audience
	routes.Guarded = s.options.Authorized == "true" || s.options.Authorized == "auto" && s.Confidential()
	if !routes.Guarded {
		logger.Info("Not serving POST /reconcile and GET /orphans: callers send tokens, which others could read on the way without TLS, except on a loopback address",
			"serve-authorized", s.options.Authorized)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ctx, NewHandler(routes)); err != nil {
			logger.Error(err, "Failed to serve HTTP; the controller continues without it")
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Serve serves until ctx is cancelled. Then it finishes the requests that are under way.
func (s *Server) Serve(ctx context.Context, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         s.tls,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          log.New(errorLog{klog.FromContext(ctx)}, "", 0),
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		shutDown(context.WithoutCancel(ctx), server)
	}()
	var err error
	if s.TLS() {
		err = server.ServeTLS(s.listener, "", "")
	} else {
		err = server.Serve(s.listener)
	}
	cancel()
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

func shutDown(ctx context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		klog.FromContext(ctx).Info("Cut off HTTP requests that did not end", "err", err)
		_ = server.Close() // nothing can be done about an error
	}
}

// errorLog logs the messages of net/http. Most are about callers that do not use TLS.
type errorLog struct{ klog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	l.V(2).Info("HTTP server", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
