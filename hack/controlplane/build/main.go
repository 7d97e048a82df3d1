// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build builds the control plane, unless it is up to date, and prints the path of
// the executable.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	binary, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(binary)
}
