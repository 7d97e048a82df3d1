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
