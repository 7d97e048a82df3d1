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

// allChanges changes each field of the table that Neutron can change.
func allChanges[D, O any](table []field[D, O]) (changes []Change) {
	for _, f := range table {
		if !f.isFixed {
			changes = append(changes, Change{Name: f.name, Label: f.label})
		}
	}
	return changes
}

func TestEveryFieldIsChangedByAStep(t *testing.T) {
	named := map[string]bool{}
	for _, test := range []struct {
		step Step
		want []string
	}{
		{creating("a"), []string{"network"}},
		{UpdateNetwork{[]Change{toName(fieldNetworkName, "a"), toMark(fieldNetworkMark)}}, []string{"network mark", "network name"}},
		{DeleteNetwork{}, []string{"duplicate network"}},
		{CreateSubnet{}, []string{"subnet"}},
		{DeleteSubnet{}, []string{"obsolete subnet"}},
		{SetTags{}, []string{"tags"}},
		{CreateRouter{}, []string{"router"}},
		{AttachSubnet{}, []string{"router interface"}},
		{DetachSubnet{}, []string{"router interface"}},
		{DeleteRouter{}, []string{"obsolete router"}},
		{UpdateNetwork{allChanges(networkTable)}, []string{"DNS domain", "MTU", "external", "network mark", "network name",
			"network type", "physical network", "port security", "segmentation ID", "shared"}},
		{UpdateSubnet{Changes: allChanges(subnetTable)}, []string{"DHCP", "DNS servers", "allocation pools", "gateway", "host routes", "subnet mark", "subnet name"}},
		{UpdateRouter{"r", allChanges(routerTable)}, []string{"router gateway", "router mark", "router name"}},
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
