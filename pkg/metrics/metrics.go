// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the controller's metrics for Prometheus. The number of values of each label is
// bounded, whatever names users of Kubernetes and answers of OpenStack contain.
package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of queues, requests to Kubernetes and leader election

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The values of the label credentials: whose credentials a request to OpenStack was made with.
const (
	// Controller stands for the controller's own credentials.
	Controller = "controller"
	// ClusterCloud stands for those of all ClusterClouds together, and Secret for those in all Secrets that Networks name.
	ClusterCloud = "clustercloud"
	Secret       = "secret"
)

// Metrics are the controller's own metrics. Their methods may be called concurrently.
type Metrics struct {
	registry               *prometheus.Registry
	requests               *prometheus.CounterVec
	durations              *prometheus.HistogramVec
	waits                  *prometheus.HistogramVec
	authenticationFailures *prometheus.CounterVec
	repaired               *prometheus.CounterVec
}

// New returns the metrics of a process of this version and commit.
func New(version, commit string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("samplecrd_neutron_requests_total",
			"HTTP requests to Neutron and Keystone by status code; timeout, canceled or error if there was no answer.", "credentials", "operation", "code"),
		durations: histogram("samplecrd_neutron_request_duration_seconds",
			"Duration of requests to Neutron and Keystone until the answer was read or the request failed.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "credentials", "operation"),
		waits: histogram("samplecrd_neutron_request_wait_duration_seconds",
			"How long requests waited before they were sent: for a connection (-neutron-connections) or the rate limit (-neutron-qps).",
			[]float64{.001, .01, .05, .1, .5, 1, 5, 10, 60}, "credentials", "for"),
		authenticationFailures: counter("samplecrd_neutron_authentication_failures_total",
			"How often credentials, or a token just issued by Keystone, were refused, or credentials were not tried again yet.", "credentials"),
		repaired: counter("samplecrd_drift_repaired_total",
			"Fields that were changed in Neutron by others and that the controller repaired.", "field"),
	}
	m.MustRegister(m.requests, m.durations, m.waits, m.authenticationFailures, m.repaired, buildInfo(version, commit))
	// rate() does not see the first count of a counter that did not exist before.
	for _, credentials := range []string{Controller, ClusterCloud, Secret} {
		m.authenticationFailures.WithLabelValues(credentials)
		for _, wait := range neutron.Waits {
			m.waits.WithLabelValues(credentials, string(wait))
		}
	}
	for _, field := range neutron.Fields {
		m.repaired.WithLabelValues(field)
	}
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            name,
		Help:                            help,
		Buckets:                         buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func buildInfo(version, commit string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "samplecrd_build_info",
		Help:        "Version, commit and Go version of the controller; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}

// MustRegister adds collectors. It panics if their metrics are registered already.
func (m *Metrics) MustRegister(collectors ...prometheus.Collector) {
	m.registry.MustRegister(collectors...)
}

// Gatherer returns all metrics to serve: these, and those of the process, of client-go and of the
// Go runtime.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{legacyregistry.DefaultGatherer, m.registry}
}

// DriftRepaired counts the fields that the steps repaired.
func (m *Metrics) DriftRepaired(steps []neutron.Step) {
	for _, step := range steps {
		for _, field := range neutron.FieldsOf(step) {
			m.repaired.WithLabelValues(field).Inc()
		}
	}
}

// Meter returns the meter of requests that are made with these credentials: Controller, ClusterCloud or Secret.
func (m *Metrics) Meter(credentials string) neutron.Meter {
	labels := prometheus.Labels{"credentials": credentials}
	return &meter{
		requests:               m.requests.MustCurryWith(labels),
		durations:              m.durations.MustCurryWith(labels),
		waits:                  m.waits.MustCurryWith(labels),
		authenticationFailures: m.authenticationFailures.With(labels),
	}
}

type meter struct {
	requests               *prometheus.CounterVec
	durations              prometheus.ObserverVec
	waits                  prometheus.ObserverVec
	authenticationFailures prometheus.Counter
}

func (m *meter) CountRequest(r neutron.Request) {
	m.requests.WithLabelValues(r.Operation, r.Code).Inc()
	m.durations.WithLabelValues(r.Operation).Observe(r.Duration.Seconds())
}

func (m *meter) CountWait(w neutron.Wait, d time.Duration) {
	m.waits.WithLabelValues(string(w)).Observe(d.Seconds())
}

func (m *meter) CountAuthenticationFailure() { m.authenticationFailures.Inc() }

// collector collects metrics at each scrape while this replica leads.
type collector struct {
	descs   []*prometheus.Desc
	leading func() bool
	collect func(chan<- prometheus.Metric)
}

func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	if c.leading() {
		c.collect(metrics)
	}
}
