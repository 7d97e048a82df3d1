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

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// metrics are the metrics of one scrape, by name.
type metrics map[string]*dto.MetricFamily

// scrape reads the metrics as Prometheus does.
func (s *site) scrape() metrics {
	s.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(s.ask(http.MethodGet, "/metrics", "", http.StatusOK)))
	s.must(err)
	return found
}

// sum returns the sum of the metric's values with those labels, such as code=200; for a
// histogram, the number of observations. It is 0 if there are none.
func (m metrics) sum(name string, labels ...string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		if has(metric, labels) {
			// A metric has only one of these.
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// has reports whether there is such a metric with these labels.
func (m metrics) has(name string, labels ...string) bool {
	return slices.ContainsFunc(m[name].GetMetric(), func(metric *dto.Metric) bool { return has(metric, labels) })
}

func has(metric *dto.Metric, labels []string) bool {
	is := map[string]bool{}
	for _, pair := range metric.GetLabel() {
		is[pair.GetName()+"="+pair.GetValue()] = true
	}
	for _, label := range labels {
		if !is[label] {
			return false
		}
	}
	return true
}

// becomes waits until the metric's sum is want.
func (s *site) becomes(want float64, name string, labels ...string) {
	s.Helper()
	s.eventually(func() error {
		if got := s.scrape().sum(name, labels...); got != want {
			return fmt.Errorf("%s with %v is %v, want %v", name, labels, got, want)
		}
		return nil
	})
}

func TestMetricsCountNetworksAndRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.siteOf(w.start(serve, "-resync=1h"), "http")
	w.create("one", "10.1.0.0/16", "10.1.0.1")
	w.create("one", "10.1.0.0/16", "10.1.0.2")
	w.create("two", "10.2.0.0/16", "10.2.0.1")
	w.create("gone", "10.3.0.0/16", "10.3.0.1")
	w.delete("gone")
	w.apply("bad", "10.4.0.0/31", "")
	w.waitNotReady("bad", samplecrdv1.ReasonInvalidSpec)
	s.becomes(2, "samplecrd_networks", "ready=True", "reason=Available")
	s.becomes(1, "samplecrd_networks", "ready=False", "reason=InvalidSpec")
	s.becomes(0, "samplecrd_networks", "ready=Unknown")

	calls := w.calls.peek()
	for operation, request := range map[string]string{
		"list networks":  "GET networks",
		"list subnets":   "GET subnets",
		"create network": "POST networks",
		"create subnet":  "POST subnets",
		"update subnet":  "PUT subnets/*",
		"delete network": "DELETE networks/*",
	} {
		// Neutron counts a request when it arrives, the controller when it has ended.
		if calls[request] == 0 {
			t.Errorf("%s: Neutron got no such request", request)
		}
		s.becomes(float64(calls[request]), "samplecrd_neutron_requests_total", "credentials=controller", "operation="+operation)
		s.becomes(float64(calls[request]), "samplecrd_neutron_request_duration_seconds", "credentials=controller", "operation="+operation)
	}
	m := s.scrape()
	w.equal(fmt.Sprint(m.sum("samplecrd_neutron_requests_total", "operation=create subnet", "code=400")), "1")
	w.equal(fmt.Sprint(m.sum("samplecrd_neutron_requests_total", "operation=create subnet", "code=201")), "3")
	w.equal(fmt.Sprint(m.sum("samplecrd_neutron_requests_total", "operation=authenticate", "code=201")), "1")
	w.equal(fmt.Sprint(m.sum("samplecrd_neutron_requests_total", "credentials=secret")), "0")
}

func TestMetricsHaveTheVersionTheProcessAndTheQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.siteOf(w.start(serve), "http")
	m := s.scrape()
	said, code := w.run(nil, "-version")
	w.equal(fmt.Sprint(code), "0")
	var version, commit string
	_, err := fmt.Sscanf(strings.ReplaceAll(said, ",", ""), "samplecrd-controller %s commit %s\n", &version, &commit)
	w.must(err)
	w.equal(fmt.Sprint(m.sum("samplecrd_build_info", "version="+version, "commit="+commit)), "1")
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "process_start_time_seconds", "rest_client_requests_total"} {
		if m.sum(name) == 0 {
			t.Errorf("%s is missing, or 0", name)
		}
	}
	for _, queue := range []string{"networks", "deployments", "events"} {
		if !m.has("workqueue_depth", "name="+queue) {
			t.Errorf("there is no depth of the queue %s", queue)
		}
	}
}
