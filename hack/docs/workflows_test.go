// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rhysd/actionlint"
	"sigs.k8s.io/yaml"
)

func TestWorkflowsAreValid(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	linter, err := actionlint.NewLinter(t.Output(), &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mistakes, err := linter.LintFiles(files, nil)
	if err != nil || len(mistakes) > 0 {
		t.Errorf("%d mistakes: %v", len(mistakes), err)
	}
}

// GitHub ignores a form that it cannot read.
func TestIssueFormsHaveWhatGitHubNeeds(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/ISSUE_TEMPLATE/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	forms := 0
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		forms++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Description, Render string }
				Validations struct{ Required bool }
			}
		}
		if err := yaml.UnmarshalStrict(text, &form); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s has no name, no description or no body", file)
		}
		ids := map[string]bool{}
		for _, field := range form.Body {
			if field.ID == "" || ids[field.ID] || field.Attributes.Label == "" {
				t.Errorf("%s: the field %q has no ID of its own, or no label", file, field.ID)
			}
			ids[field.ID] = true
		}
	}
	if forms == 0 {
		t.Error("there are no forms")
	}
}
