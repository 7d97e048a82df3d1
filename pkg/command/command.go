// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has the subcommands of the binary. Without one, the binary is the controller.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/samplecrd/samplecrd-controller/pkg/command/export"
	"github.com/samplecrd/samplecrd-controller/pkg/command/move"
	"github.com/samplecrd/samplecrd-controller/pkg/command/plan"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

// command is a subcommand: one row of the table.
type command struct {
	name, summary string
	// run returns the exit code. arguments are those after the name.
	run func(ctx context.Context, arguments []string, stdout, stderr io.Writer) int
}

const help = "help"

// failure is the exit code of an error, also of a mistake in the arguments: 2 means for plan that
// there are changes.
const failure = 1

// commands returns the table. It is a function because help lists it.
func commands() []command {
	return []command{
		{"plan", "show what the controller would do, without doing it", plan.Run},
		{"export", "write manifests that import the networks of a project", export.Run},
		{"move", "give the networks of another cluster to this one", move.Run},
		{help, "explain a command: help COMMAND", runHelp},
	}
}

// Run runs the subcommand that the first argument names, until it ends or a signal stops it. If
// there is none, handled is false: the arguments are the controller's.
func Run(ctx context.Context, arguments []string, stdout, stderr io.Writer) (code int, handled bool) {
	if len(arguments) == 0 || strings.HasPrefix(arguments[0], "-") {
		return 0, false
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return run(ctx, arguments[0], arguments[1:], stdout, stderr), true
}

func run(ctx context.Context, name string, arguments []string, stdout, stderr io.Writer) int {
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, arguments, stdout, stderr)
		}
		names = append(names, c.name)
	}
	hint := ""
	if nearest := options.Nearest(name, names); nearest != "" {
		hint = fmt.Sprintf(": did you mean %s?", nearest)
	}
	fmt.Fprintf(stderr, "samplecrd-controller: unknown command %q%s (-h lists the commands and flags)\n", name, hint)
	return failure
}

// Summaries returns a line about each subcommand, for the help.
func Summaries() []string {
	var lines []string
	for _, c := range commands() {
		lines = append(lines, fmt.Sprintf("%-8s%s", c.name, c.summary))
	}
	return lines
}

// runHelp prints the help of the named subcommand, or that of the controller.
func runHelp(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	if len(arguments) > 0 && arguments[0] != help && !strings.HasPrefix(arguments[0], "-") {
		return run(ctx, arguments[0], []string{"-h"}, stdout, stderr)
	}
	if _, _, err := options.Parse([]string{"-h"}, stdout, Summaries()...); err != nil {
		fmt.Fprintf(stderr, "samplecrd-controller: %v\n", err)
		return failure
	}
	return 0
}
