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

package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// logged is a request to Neutron as a line of the log describes it.
type logged struct{ Network, ReconcileID, RequestID, Operation string }

// fieldsOfText matches the fields of a line in text format.
var fieldsOfText = regexp.MustCompile(`"Changed Neutron" network="([^"]+)" reconcileID="([^"]+)" step="[^"]+" operation="([^"]+)" code="[^"]+" requestID="([^"]+)"`)

// changesInText returns the changes of Neutron in a log in text format.
func changesInText(log string) (changes []logged) {
	for _, found := range fieldsOfText.FindAllStringSubmatch(log, -1) {
		changes = append(changes, logged{Network: found[1], ReconcileID: found[2], Operation: found[3], RequestID: found[4]})
	}
	return changes
}

// changesInJSON is changesInText for a log in JSON. It fails unless each line is an object
// with the fields that every line has.
func (w *world) changesInJSON(log string) (changes []logged) {
	w.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			logged
			Time, Level, Msg string
			Source           any
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			w.Errorf("not an object: %q: %v", line, err)
		}
		if entry.Time == "" || entry.Level == "" || entry.Msg == "" || entry.Source == nil {
			w.Errorf("a field is missing: %s", line)
		}
		if entry.Msg == "Changed Neutron" {
			changes = append(changes, entry.logged)
		}
	}
	return changes
}

func TestLogLinesOfASyncHaveItsIDs(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// At this verbosity, the log also has the libraries' lines.
			c := w.start("-v=6", "-logging-format="+format, serve)
			w.create("net", "10.1.0.0/16", "10.1.0.1")
			w.create("net", "10.1.0.0/16", "10.1.0.2")
			w.must(c.Stop())
			changes := changesInText(c.Log.String())
			if format == "json" {
				changes = w.changesInJSON(c.Log.String())
			}
			var operations []string
			requests := map[string]bool{}
			for _, change := range changes {
				w.equal(change.Network, w.namespace+"/net")
				operations = append(operations, change.Operation)
				id, ok := strings.CutPrefix(change.RequestID, "req-")
				if !ok || uuid.Validate(id) != nil || uuid.Validate(change.ReconcileID) != nil {
					t.Errorf("not an ID: %+v", change)
				}
				requests[id] = true
			}
			w.equal(strings.Join(operations, ", "), "create network, create subnet, update subnet")
			if t.Failed() {
				return
			}
			if len(requests) != 3 || changes[0].ReconcileID != changes[1].ReconcileID || changes[1].ReconcileID == changes[2].ReconcileID {
				t.Errorf("want the first two from one sync, and a different request ID in each: %+v", changes)
			}
		})
	}
}
