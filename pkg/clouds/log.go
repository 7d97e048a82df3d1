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

import "k8s.io/klog/v2"

// bodies is the verbosity from which client-go logs response bodies.
const bodies = 8

// withoutBodies returns the logger without what is logged at that verbosity: a Secret must not
// be in a log.
func withoutBodies(logger klog.Logger) klog.Logger {
	if logger.GetSink() == nil {
		return logger // it discards everything
	}
	return logger.WithSink(discreet{logger.GetSink()})
}

// discreet is a klog.LogSink that does not log bodies.
type discreet struct{ klog.LogSink }

func (d discreet) Enabled(level int) bool { return level < bodies && d.LogSink.Enabled(level) }

func (d discreet) WithValues(keysAndValues ...any) klog.LogSink {
	return discreet{d.LogSink.WithValues(keysAndValues...)}
}

func (d discreet) WithName(name string) klog.LogSink { return discreet{d.LogSink.WithName(name)} }
