/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
