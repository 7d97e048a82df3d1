// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signals handles the signals that stop the process.
package signals

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

var onlyOneSignalHandler = make(chan struct{})

// SetupSignalHandler returns a context that is cancelled by the first SIGINT or SIGTERM. A
// second one ends the process at once, with exit code 1.
func SetupSignalHandler() context.Context {
	close(onlyOneSignalHandler) // panics when called twice

	c := make(chan os.Signal, 2)
	ctx, cancel := context.WithCancel(context.Background())
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		klog.FromContext(ctx).Info("Stopping; a second signal stops at once", "signal", <-c)
		cancel()
		<-c
		os.Exit(1)
	}()
	return ctx
}
