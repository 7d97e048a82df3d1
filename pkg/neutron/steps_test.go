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

package neutron

import (
	"slices"
	"testing"
)

func TestEveryFieldIsChangedByAStep(t *testing.T) {
	named := map[string]bool{}
	for _, test := range []struct {
		step Step
		want []string
	}{
		{CreateNetwork{Name: "a", Description: "b"}, []string{"network"}},
		{UpdateNetwork{Name: "a"}, []string{"network name"}},
		{UpdateNetwork{Description: "b"}, []string{"network mark"}},
		{UpdateNetwork{Name: "a", Description: "b"}, []string{"network mark", "network name"}},
		{DeleteNetwork{}, []string{"duplicate network"}},
		{CreateSubnet{}, []string{"subnet"}},
		{UpdateSubnet{SetGateway: true}, []string{"gateway"}},
		{UpdateSubnet{Name: "a"}, []string{"subnet name"}},
		{UpdateSubnet{Name: "a", Description: "b", SetGateway: true}, []string{"gateway", "subnet mark", "subnet name"}},
		{DeleteSubnet{}, []string{"obsolete subnet"}},
	} {
		got := test.step.Fields()
		slices.Sort(got)
		equal(t, test.want, got)
		for _, field := range got {
			named[field] = true
		}
	}
	for _, field := range Fields {
		if !named[field] {
			t.Errorf("no step changes the field: %s", field)
		}
	}
	equal(t, len(Fields), len(named))
}
