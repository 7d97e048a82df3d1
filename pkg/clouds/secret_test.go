// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestBodiesAreNotLogged(t *testing.T) {
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(10), ktesting.BufferLogs(true)))
	quiet := withoutBodies(logger)
	for _, l := range []klog.Logger{quiet, quiet.WithName("name"), quiet.WithValues("key", "value"), quiet.WithCallDepth(1), quiet.V(4).V(3)} {
		l.Info("logged")
		l.V(8).Info("hidden")
		l.V(10).Info("hidden")
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if strings.Count(log, "logged") != 5 || strings.Contains(log, "hidden") {
		t.Errorf("got %q", log)
	}
}

func TestWithoutBodiesAcceptsALoggerWithoutASink(t *testing.T) {
	withoutBodies(klog.Logger{}).Info("not logged")
}
