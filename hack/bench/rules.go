// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// withoutRules returns the CustomResourceDefinitions of a file, or of all files of a directory,
// without their x-kubernetes-validations.
func withoutRules(name string) (string, error) {
	files := []string{name}
	if info, err := os.Stat(name); err != nil {
		return "", err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(name, "*_*.yaml")); err != nil {
			return "", err
		}
	}
	var texts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		stripRules(crd)
		if text, err = yaml.Marshal(crd); err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n"), nil
}

func stripRules(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "x-kubernetes-validations")
		for _, child := range v {
			stripRules(child)
		}
	case []any:
		for _, child := range v {
			stripRules(child)
		}
	}
}
