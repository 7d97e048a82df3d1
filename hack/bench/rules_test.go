// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutRules(t *testing.T) {
	const dir = "../../artifacts/crd"
	files, err := filepath.Glob(filepath.Join(dir, "*_*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	all := 0
	for _, name := range append(files, dir) {
		text, err := withoutRules(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "x-kubernetes-validations") || !strings.Contains(text, "openAPIV3Schema") {
			t.Errorf("%s: want a schema without rules, got\n%s", name, text)
		}
		if name != dir {
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(before), "x-kubernetes-validations") {
				t.Errorf("%s has no rules", name)
			}
			all += strings.Count(text, "kind: CustomResourceDefinition")
		} else if n := strings.Count(text, "kind: CustomResourceDefinition"); n != all {
			t.Errorf("want %d definitions, got %d", all, n)
		}
	}
	if _, err := withoutRules("missing.yaml"); err == nil {
		t.Error("a file that does not exist is accepted")
	}
}
