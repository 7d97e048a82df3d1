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

package main

import (
	"testing"

	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// BenchmarkSyncInOrder is a sync that finds nothing to do, from the queue and back, with what
// is logged by default.
func BenchmarkSyncInOrder(b *testing.B) {
	f := newFixture(b, newNetwork("10.0.0.0/24", ""))
	f.syncUntil(samplecrdv1.ReasonAvailable)
	f.refresh()
	ctx := klog.NewContext(b.Context(), klog.Background())
	f.takeJournal()
	b.ReportAllocs()
	for b.Loop() {
		f.controller.queue.Add(testKey)
		f.controller.processNextWorkItem(ctx)
	}
	if calls := f.takeJournal(); len(calls) > 0 {
		b.Errorf("it was not in order: %q", calls)
	}
}

// BenchmarkNeedsSync is what an update that says nothing new costs.
func BenchmarkNeedsSync(b *testing.B) {
	network := newNetwork("10.0.0.0/24", "", withFinalizer)
	b.ReportAllocs()
	for b.Loop() {
		if needsSync(network, network) {
			b.Fatal("nothing has changed")
		}
	}
}
