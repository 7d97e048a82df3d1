// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// tally counts requests. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

// now returns a copy of the counts.
func (t *tally) now() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return since(nil, t.counts)
}

// kubernetesCounts are the API server's counts of requests. Reading them costs the controller
// nothing, but they do not tell the clients apart.
type kubernetesCounts struct {
	writes, reads, events map[string]int
}

// filter tells which requests are those of the controller.
type filter struct {
	// groups are the API groups of its objects, verbs those of its writes.
	groups, verbs []string
}

// ownRequests are those of this repository's controller. The benchmark uses only POST, PUT, DELETE
// and WATCH for Networks, so all other requests for Networks are the controller's.
var ownRequests = filter{[]string{samplecrdv1.GroupName}, []string{"PATCH", "APPLY"}}

// countKubernetes returns the counts from the start of the API server until now.
func countKubernetes(ctx context.Context, kube kubernetes.Interface, of filter) (kubernetesCounts, error) {
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return kubernetesCounts{}, fmt.Errorf("metrics of kube-apiserver: %w", err)
	}
	return parseKubernetesCounts(text, of)
}

const apiServerRequests = "apiserver_request_total"

func parseKubernetesCounts(text []byte, of filter) (kubernetesCounts, error) {
	// They are a hundredth of a megabyte of metrics.
	var lines bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(apiServerRequests)) {
			lines.Write(line)
		}
	}
	families, err := parseMetrics(&lines)
	if err != nil {
		return kubernetesCounts{}, err
	}
	c := kubernetesCounts{writes: map[string]int{}, reads: map[string]int{}, events: map[string]int{}}
	for _, metric := range families[apiServerRequests].GetMetric() {
		labels := labelsOf(metric)
		what := strings.ToLower(labels["verb"]) + " " + labels["resource"]
		if labels["subresource"] != "" {
			what += "/" + labels["subresource"]
		}
		n := int(value(metric))
		switch verb := labels["verb"]; {
		case labels["resource"] == "events" && (verb == "POST" || verb == "PATCH"):
			c.events[what] += n
		case slices.Contains(of.groups, labels["group"]) && slices.Contains(of.verbs, verb):
			c.writes[what] += n
		case slices.Contains(of.groups, labels["group"]) && verb == "GET":
			c.reads[what] += n
		}
	}
	return c, nil
}

func parseMetrics(text io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return families, nil
}

// scrape returns the metrics of the process that serves url.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s/metrics: %s", url, response.Status)
	}
	return parseMetrics(response.Body)
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// value returns the value of a counter or gauge, or the number of observations of a histogram.
// A metric is untyped if its text had no "# TYPE".
func value(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	case metric.Histogram != nil:
		return float64(metric.Histogram.GetSampleCount())
	}
	return metric.Untyped.GetValue()
}

// backlog is the state of a workqueue.
type backlog struct {
	done, waiting, unfinished float64
}

// backlogOf returns the backlog of a queue, by its metrics.
func backlogOf(families map[string]*dto.MetricFamily, queue string) backlog {
	read := func(name string) float64 {
		for _, metric := range families[name].GetMetric() {
			if labelsOf(metric)["name"] == queue {
				return value(metric)
			}
		}
		return 0
	}
	return backlog{
		done:       read("workqueue_work_duration_seconds"),
		waiting:    read("workqueue_depth"),
		unfinished: read("workqueue_unfinished_work_seconds"),
	}
}

// isListed reports whether the controller has listed Neutron.
func isListed(families map[string]*dto.MetricFamily) bool {
	for _, metric := range families["samplecrd_neutron_last_look_timestamp_seconds"].GetMetric() {
		return value(metric) > 0
	}
	return false
}

// neutronCalls returns the controller's own counts of its requests to Neutron, by operation.
func neutronCalls(families map[string]*dto.MetricFamily) map[string]int {
	calls := map[string]int{}
	for _, metric := range families["samplecrd_neutron_requests_total"].GetMetric() {
		calls[labelsOf(metric)["operation"]] += int(value(metric))
	}
	return calls
}
