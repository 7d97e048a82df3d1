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

// Package metrics is what the controller tells Prometheus. The values of all labels are
// bounded, whatever Kubernetes' users and OpenStack say.
package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // of queues, requests to Kubernetes, and leader election

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The values of the label credentials: whose a request to OpenStack was made with.
const (
	// Controller is for the controller's own credentials.
	Controller = "controller"
	// Secret is for those of all Secrets.
	Secret = "secret"
)

// Metrics are the controller's own. Its methods may be called concurrently.
type Metrics struct {
	registry               *prometheus.Registry
	requests               *prometheus.CounterVec
	durations              *prometheus.HistogramVec
	waits                  *prometheus.HistogramVec
	authenticationFailures *prometheus.CounterVec
	repaired               *prometheus.CounterVec
}

// New makes the metrics of a process of that version and commit.
func New(version, commit string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "samplecrd_neutron_requests_total",
			Help: "HTTP requests to Neutron and Keystone, by the status of the answer; timeout, canceled or error if there was none.",
		}, []string{"credentials", "operation", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "samplecrd_neutron_request_duration_seconds",
			Help:                            "How long requests to Neutron and Keystone took until their answer was read, or they were given up.",
			Buckets:                         []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"credentials", "operation"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "samplecrd_neutron_request_wait_duration_seconds",
			Help:                            "How long requests waited before they were sent: for a connection (-neutron-connections), and for the rate (-neutron-qps).",
			Buckets:                         []float64{.001, .01, .05, .1, .5, 1, 5, 10, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"credentials", "for"}),
		authenticationFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "samplecrd_neutron_authentication_failures_total",
			Help: "How often credentials, or a token fresh from Keystone, were refused.",
		}, []string{"credentials"}),
		repaired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "samplecrd_drift_repaired_total",
			Help: "What others had changed in Neutron, and was put right.",
		}, []string{"field"}),
	}
	m.MustRegister(m.requests, m.durations, m.waits, m.authenticationFailures, m.repaired, buildInfo(version, commit))
	// A counter that begins to be with its first count hides that count from rate().
	for _, credentials := range []string{Controller, Secret} {
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

func buildInfo(version, commit string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "samplecrd_build_info",
		Help:        "What runs; it is always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}

// MustRegister adds collectors, and panics if they collect what others do.
func (m *Metrics) MustRegister(collectors ...prometheus.Collector) {
	m.registry.MustRegister(collectors...)
}

// Gatherer returns all there is to serve: these metrics, and those of the process, of
// client-go and of the Go runtime.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{legacyregistry.DefaultGatherer, m.registry}
}

// DriftRepaired counts what was put right by the steps.
func (m *Metrics) DriftRepaired(steps []neutron.Step) {
	for _, step := range steps {
		for _, field := range step.Fields() {
			m.repaired.WithLabelValues(field).Inc()
		}
	}
}

// Meter returns what counts the requests that are made with those credentials, Controller
// or Secret.
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

func (m *meter) CountWait(what neutron.Wait, d time.Duration) {
	m.waits.WithLabelValues(string(what)).Observe(d.Seconds())
}

func (m *meter) CountAuthenticationFailure() { m.authenticationFailures.Inc() }
