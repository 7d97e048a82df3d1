// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"go/ast"
	"go/parser"
	"go/token"
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
		{UpdateNetwork{[]Change{toName("network name", "a"), toMark(fieldNetworkMark)}}, []string{"network mark", "network name"}},
		{DeleteNetwork{IsDuplicate: true}, []string{"duplicate network"}},
		{CreateSubnet{}, []string{"subnet"}},
		{DeleteSubnet{}, []string{"obsolete subnet"}},
		{SetTags{}, []string{"tags"}},
		{CreateRouter{}, []string{"router"}},
		{AttachSubnet{}, []string{"router interface"}},
		{DetachSubnet{}, []string{"router interface"}},
		{SetRoutes{}, []string{"router routes"}},
		{RemoveRoutes{}, nil},
		{DeleteRouter{}, []string{"obsolete router"}},
		{ShareNetwork{}, []string{"share"}},
		{UnshareNetwork{}, []string{"obsolete share"}},
		{UpdateNetwork{allChanges(networkTable)}, []string{"DNS domain", "MTU", "availability zone hints", "external", "network mark", "network name",
			"network type", "physical network", "port security", "segmentation ID", "shared"}},
		{UpdateSubnet{Changes: allChanges(subnetTable)}, []string{"DHCP", "DNS servers", "allocation pools", "gateway", "host routes", "subnet mark", "subnet name"}},
		{UpdateRouter{"r", allChanges(routerTable)}, []string{"router gateway", "router mark", "router name"}},
	} {
		got := FieldsOf(test.step)
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

// A step without a request would be an error of each sync that needs it.
func TestEveryStepHasARequest(t *testing.T) {
	files := token.NewFileSet()
	expect, err := parser.ParseFile(files, "expect.go", nil, 0)
	noError(t, err)
	var steps []string
	for _, decl := range expect.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "expect" {
			steps = append(steps, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	if len(steps) < 20 {
		t.Errorf("found only the steps %q", steps)
	}
	for _, path := range []string{"take.go", "effects.go"} {
		file, err := parser.ParseFile(files, path, nil, 0)
		noError(t, err)
		cases := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if clause, ok := n.(*ast.CaseClause); ok {
				for _, step := range clause.List {
					if name, ok := step.(*ast.Ident); ok {
						cases[name.Name] = true
					}
				}
			}
			return true
		})
		for _, step := range steps {
			if !cases[step] {
				t.Errorf("%s has no case for %s", path, step)
			}
		}
	}
}
