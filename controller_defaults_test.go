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
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// A default that Neutron does not let the controller restore is told, and holds up nothing that the spec
// declares. When Neutron accepts it, it is restored.
func TestADefaultThatCannotBeRestoredHoldsUpNothing(t *testing.T) {
	for i, field := range world.Defaults {
		for j, declared := range world.Declarations {
			if leftOut(i+j, 1) || field.Label == declared.Name || field.IsHeld && (declared.Replaces() || declared.Want.Router != nil) {
				continue
			}
			t.Run(field.Name+", and "+declared.Name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.CreateProtected()
				f.CreateRouting()
				f.Create(*declared.Start())
				if err := f.settle(nothing); err != nil {
					t.Fatal(err)
				}
				if err := field.Change(f.World); err != nil {
					t.Fatal(err)
				}
				_, _ = f.rest()
				f.expectUnrestored(field.Label)
				declared.Act(f.World)
				if changes, isQuiet := f.rest(); !isQuiet {
					t.Errorf("the controller does not come to rest: %q, %s", changes, f.message())
				}
				if missing := declared.Missing(f.World); missing != "" {
					t.Errorf("not made: %s, and the message is %q", missing, f.message())
				}
				if !field.IsOfSubnet || !declared.Replaces() {
					f.expectUnrestored(field.Label)
				}
				f.ClearObstacles()
				_, _ = f.rest()
				for _, violation := range f.Check(declared.Want) {
					t.Errorf("after Neutron accepts the default: %s", violation)
				}
			})
		}
	}
}

// expectUnrestored expects a Network that is not ready, with a message that names the field.
func (f *fixture) expectUnrestored(label string) {
	f.t.Helper()
	if isReady, reason, message := f.IsReady(); isReady || !strings.Contains(message, label) {
		f.t.Errorf("ready: %v, %s: %q does not name %s", isReady, reason, message, label)
	}
}
