// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
)

var networksDesc = prometheus.NewDesc("samplecrd_networks",
	"Networks by their Ready condition and its reason.", []string{"ready", "reason"}, nil)

// reasons are the reasons of the Ready condition. Others count as otherReason: users can write a
// status, too.
var reasons = status.Reasons()

const otherReason = "Other"

// Networks returns a collector of samplecrd_networks. It collects nothing while leading returns
// false: else each Network would be counted once per replica.
func Networks(lister listers.NetworkLister, leading func() bool) prometheus.Collector {
	return &collector{[]*prometheus.Desc{networksDesc}, leading, func(metrics chan<- prometheus.Metric) { collectNetworks(lister, metrics) }}
}

func collectNetworks(lister listers.NetworkLister, metrics chan<- prometheus.Metric) {
	all, err := lister.List(labels.Everything())
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(networksDesc, err)
		return
	}
	// One series exists even without Networks, so that sums are 0 and not empty.
	counts := map[state]int{{string(metav1.ConditionTrue), samplecrdv1.ReasonAvailable}: 0}
	for _, network := range all {
		counts[stateOf(network)]++
	}
	for s, count := range counts {
		metrics <- prometheus.MustNewConstMetric(networksDesc, prometheus.GaugeValue, float64(count), s.ready, s.reason)
	}
}

// state is one of a bounded number of states of Networks.
type state struct{ ready, reason string }

// stateOf returns the state by the Ready condition. A Network without it is new: it counts as
// Unknown and Pending, which are also the CRD's defaults for new Networks.
func stateOf(network *samplecrdv1.Network) state {
	s := state{string(metav1.ConditionUnknown), samplecrdv1.ReasonPending}
	condition := meta.FindStatusCondition(network.Status.Conditions, samplecrdv1.ConditionReady)
	if condition == nil {
		return s
	}
	if condition.Status == metav1.ConditionTrue || condition.Status == metav1.ConditionFalse {
		s.ready = string(condition.Status)
	}
	s.reason = otherReason
	if reasons[condition.Reason] {
		s.reason = condition.Reason
	}
	return s
}
