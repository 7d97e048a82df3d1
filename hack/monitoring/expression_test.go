// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import "testing"

func TestMissing(t *testing.T) {
	scraped := Scraped{"depth": {"job": true, "name": true}, "time_bucket": {"job": true, "le": true}}
	tests := []struct {
		why, expression string
		missing         []string
	}{
		{"everything exists", `sum by (name) (depth{job="a"}) > 0`, nil},
		{"a missing metric", `sum by (name) (rate(dept{job="a"}[5m]))`, []string{"dept"}},
		{"a missing label in a selector", `depth{jobb="a"}`, []string{"jobb of [depth]"}},
		{"a missing label that must be empty", `depth{jobb=""}`, []string{"jobb of [depth]"}},
		{"a missing label in by", `sum by (nam) (depth)`, []string{"nam of [depth]"}},
		{"a missing label in without", `sum without (nam) (depth)`, []string{"nam of [depth]"}},
		{"a missing label in on, on either side", `depth and on (name) time_bucket`, []string{"name of [time_bucket]"}},
		{"a quantile", `histogram_quantile(0.9, sum by (le) (rate(time_bucket{job="a"}[5m])))`, nil},
		{"a metric name as a label", `{__name__="depth"}`, nil},
	}
	for _, tc := range tests {
		t.Run(tc.why, func(t *testing.T) {
			missing, err := scraped.Missing(tc.expression)
			noError(t, err)
			equal(t, tc.missing, missing)
		})
	}
	if _, err := scraped.Missing("sum("); err == nil {
		t.Error("invalid PromQL was accepted")
	}
}
