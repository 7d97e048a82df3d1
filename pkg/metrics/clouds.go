// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

var (
	lastListDesc = prometheus.NewDesc("samplecrd_neutron_last_look_timestamp_seconds",
		"Unix time at which the last complete list of Neutron ended; 0 before the first. For several clouds with the same name, the oldest.",
		[]string{"cloud", "credentials"}, nil)
	upDesc = prometheus.NewDesc("samplecrd_neutron_up",
		"1 if Neutron and Keystone answered the last request, else 0. For several clouds with the same name, 0 if one of them did not.",
		[]string{"cloud", "credentials"}, nil)
	overflowDesc = prometheus.NewDesc("samplecrd_neutron_cache_overflow",
		"1 if Neutron had more networks or subnets of this cluster at the last list than the cache may hold, else 0. For several clouds with the same name, 1 if one of them had.",
		[]string{"cloud", "credentials"}, nil)
)

// Clouds returns a collector of the clouds' health, by cloud and credentials. It collects nothing
// while leading returns false, because then this replica sends no requests to them. list returns
// the clouds in the order that CloudLabels expects, and offered those of ClusterClouds.
func Clouds(list func() []*neutron.Cloud, offered func() map[*neutron.Cloud]bool, leading func() bool) prometheus.Collector {
	return &collector{[]*prometheus.Desc{lastListDesc, upDesc, overflowDesc}, leading, func(metrics chan<- prometheus.Metric) { collectClouds(list(), offered(), metrics) }}
}

func collectClouds(list []*neutron.Cloud, offered map[*neutron.Cloud]bool, metrics chan<- prometheus.Metric) {
	worst := map[series]health{}
	for i, label := range CloudLabels(list) {
		key := series{label, Secret}
		switch {
		case i == 0:
			key.credentials = Controller
		case offered[list[i]]: // an administrator has chosen the name, and there are few
			key = series{cloudLabel(list[i].Name()), ClusterCloud}
		}
		now := healthOf(list[i])
		if known, ok := worst[key]; ok {
			now = health{min(known.lastList, now.lastList), min(known.up, now.up), max(known.overflow, now.overflow)}
		}
		worst[key] = now
	}
	for key, h := range worst {
		metrics <- prometheus.MustNewConstMetric(lastListDesc, prometheus.GaugeValue, h.lastList, key.cloud, key.credentials)
		metrics <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, h.up, key.cloud, key.credentials)
		metrics <- prometheus.MustNewConstMetric(overflowDesc, prometheus.GaugeValue, h.overflow, key.cloud, key.credentials)
	}
}

// series identifies a time series of a cloud by the values of its labels.
type series struct{ cloud, credentials string }

// health is the state of a cloud. Lower values are worse, except for overflow.
type health struct{ lastList, up, overflow float64 }

func healthOf(cloud *neutron.Cloud) (h health) {
	if ended := cloud.Observer().LastList(); !ended.IsZero() {
		h.lastList = float64(ended.UnixNano()) / float64(time.Second)
	}
	if since, _ := cloud.Client().Away(); since.IsZero() {
		h.up = 1
	}
	if cloud.Observer().Overflow() {
		h.overflow = 1
	}
	return h
}

const (
	// maxCloudLabels is how many clouds have their own name as a label.
	maxCloudLabels = 100
	// maxCloudLabel is the longest such name, in bytes.
	maxCloudLabel = 64
	// otherClouds is the label of all other clouds together.
	otherClouds = "(others)"
)

// CloudLabels returns the value of the label cloud for each cloud. The first cloud is the
// controller's own. Users choose the names of all others, any name and any number of them, so these
// never get the label of the controller's own cloud, and only the alphabetically first names get
// labels of their own.
func CloudLabels(clouds []*neutron.Cloud) []string {
	values := make([]string, len(clouds))
	for i, cloud := range clouds {
		values[i] = cloudLabel(cloud.Name())
	}
	if len(values) == 0 {
		return nil
	}
	own, users := values[0], values[1:]
	shown := slices.Compact(slices.Sorted(slices.Values(users)))
	shown = slices.DeleteFunc(shown, func(value string) bool { return value == own })
	shown = shown[:min(len(shown), maxCloudLabels-1)]
	for i, value := range users {
		if _, ok := slices.BinarySearch(shown, value); !ok {
			users[i] = otherClouds
		}
	}
	return values
}

// cloudLabel shortens a name and makes it valid UTF-8: an invalid label would fail the whole scrape.
func cloudLabel(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxCloudLabel)], "")
}
