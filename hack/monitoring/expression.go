// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Scraped has the labels of each metric, by the metric's name.
type Scraped map[string]map[string]bool

// Missing returns the metrics that a PromQL expression uses and Prometheus does not have,
// and likewise the labels that it selects, groups or matches by.
func (s Scraped) Missing(expression string) ([]string, error) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	want := func(metrics []string, labels ...string) {
		metrics = slices.DeleteFunc(metrics, func(metric string) bool { return s[metric] == nil })
		for _, label := range labels {
			if len(metrics) > 0 && !s.anyHas(metrics, label) {
				missing[fmt.Sprintf("%s of %v", label, metrics)] = true
			}
		}
	}
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			metric := nameOf(n)
			if s[metric] == nil {
				missing[metric] = true
			}
			for _, m := range n.LabelMatchers {
				if m.Name != model.MetricNameLabel {
					want([]string{metric}, m.Name)
				}
			}
		case *parser.AggregateExpr:
			want(metricsIn(n.Expr), n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				want(metricsIn(n.LHS), n.VectorMatching.MatchingLabels...)
				want(metricsIn(n.RHS), n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(missing)), nil
}

func (s Scraped) anyHas(metrics []string, label string) bool {
	return slices.ContainsFunc(metrics, func(metric string) bool { return s[metric][label] })
}

func metricsIn(node parser.Node) (names []string) {
	parser.Inspect(node, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, nameOf(selector))
		}
		return nil
	})
	return names
}

// nameOf returns the metric's name, which the parser also has as a label.
func nameOf(selector *parser.VectorSelector) string {
	for _, m := range selector.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			return m.Value
		}
	}
	return ""
}
