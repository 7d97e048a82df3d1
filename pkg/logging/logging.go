// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging sets the format of the log, and keeps it readable whatever text of others is in it.
package logging

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// inJSON reports whether the log is JSON. Like klog's own settings, it holds for the process.
var inJSON bool

// Options are the settings of the log. AddFlags sets the defaults.
type Options struct {
	// Format is text or json.
	Format string
	// verbosity is klog's own, and files that of single source files.
	verbosity, files flag.Value
}

// AddFlags adds the flags of the log.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	own := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(own)
	o.verbosity, o.files = own.Lookup("v").Value, own.Lookup("vmodule").Value
	fs.Var(o.verbosity, "v", "The `verbosity` of the log. 0: what was changed, and errors. 2: also retries and HTTP requests that were served. 4: also each sync. 6 and more: also requests to Kubernetes.")
	fs.Var(o.files, "vmodule", "The verbosity of single source files, as a list of `file=verbosity`, such as controller=4,clo*=6. It has no effect with -logging-format=json.")
	fs.StringVar(&o.Format, "logging-format", "text", "The `format` of the log: text or json. json writes one object per line.")
}

// Setup sets the format of the log for the whole process. Text is klog's own format. JSON is one object per line, with the
// messages up to the verbosity. Both go to standard error.
func (o *Options) Setup() {
	if inJSON = o.Format == "json"; !inJSON {
		text := o.Text(os.Stderr)
		klog.SetLoggerWithOptions(text, klog.ContextualLogger(true), klog.WriteKlogBuffer(text.GetSink().(textlogger.KlogBufferWriter).WriteKlogBuffer))
		return
	}
	verbosity, _ := strconv.Atoi(o.verbosity.String()) // the flag takes only numbers
	klog.SetSlogLogger(slog.New(slog.NewJSONHandler(printable{os.Stderr}, &slog.HandlerOptions{
		AddSource:   true,
		Level:       slog.Level(-verbosity),
		ReplaceAttr: replace,
	})))
}

// Text returns a logger that writes klog's own format, whatever Format says. A subcommand has it in its context.
func (o *Options) Text(w io.Writer) klog.Logger {
	config := textlogger.NewConfig(textlogger.Output(printable{w}))
	// The flags have checked the values.
	_ = config.Verbosity().Set(o.verbosity.String())
	_ = config.VModule().Set(o.files.String())
	return textlogger.NewLogger(config)
}

// PrintError prints the error that ends the process: in the log if it is JSON, otherwise as
// one line without a header, on standard error.
func PrintError(err error) {
	if inJSON {
		klog.ErrorSDepth(1, err, "Failed")
		return
	}
	fmt.Fprintf(printable{os.Stderr}, "samplecrd-controller: %v\n", err)
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
