// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"

	"sigs.k8s.io/yaml"
)

// Rule has the fields of an alert rule that are used here.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ReadRules reads the alert rules of a Prometheus rules file.
func ReadRules(file string) (rules []Rule, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content struct {
		Groups []struct {
			Rules []Rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	for _, group := range content.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}
