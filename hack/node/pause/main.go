// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause waits for SIGTERM. It is the first container of each pod, which only keeps
// the pod's namespaces.
package main

import (
	"context"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	<-ctx.Done()
}
