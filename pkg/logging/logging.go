// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging sets the format of the log.
package logging

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/klog/v2"
)

// inJSON reports whether the log is JSON. Like klog's own settings, it holds for the process.
var inJSON bool

// Setup sets the format of the log, text or json, for the whole process. Text is klog's own
// format, with klog's own flags. JSON is one object per line on standard error, with the
// messages up to the verbosity.
func Setup(format string, verbosity int) {
	if inJSON = format == "json"; inJSON {
		klog.SetSlogLogger(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{
			AddSource:   true,
			Level:       slog.Level(-verbosity),
			ReplaceAttr: replace,
		})))
	}
}

// PrintError prints the error that ends the process: in the log if it is JSON, otherwise as
// one line without a header, on standard error.
func PrintError(err error) {
	if inJSON {
		klog.ErrorSDepth(1, err, "Failed")
		return
	}
	fmt.Fprintf(os.Stderr, "samplecrd-controller: %v\n", err)
}

// replace returns the attribute as the text format writes it: names, durations and other
// Stringers as strings. All levels below INFO, which -v enables, are DEBUG.
func replace(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case *slog.Source:
		return slog.String(a.Key, filepath.Base(value.File)+":"+strconv.Itoa(value.Line))
	case slog.Level:
		if a.Key == slog.LevelKey && value < slog.LevelInfo {
			return slog.String(a.Key, slog.LevelDebug.String())
		}
	case time.Time:
	case fmt.Stringer:
		return slog.String(a.Key, fmt.Sprint(value)) // unlike String, it does not panic for a nil pointer
	}
	return a
}
