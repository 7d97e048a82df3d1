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

package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

var (
	lastLookDesc = prometheus.NewDesc("samplecrd_neutron_last_look_timestamp_seconds",
		"When the last complete look at all of Neutron ended, in seconds since 1970; 0 if there was none yet. Of clouds of one name, it is the oldest.",
		[]string{"cloud", "credentials"}, nil)
	upDesc = prometheus.NewDesc("samplecrd_neutron_up",
		"Whether Neutron and Keystone have answered the last request; 0 if any of the clouds of that name has not.",
		[]string{"cloud", "credentials"}, nil)
)

// clouds asks the clouds when it is asked.
type clouds struct {
	list    func() []*neutron.Cloud
	leading func() bool
}

// Clouds collects how well the clouds are, and with whose credentials they are looked at, while leading is true: nobody else talks to them.
// What list returns is as for CloudLabels.
func Clouds(list func() []*neutron.Cloud, leading func() bool) prometheus.Collector {
	return &clouds{list, leading}
}

func (c *clouds) Describe(descs chan<- *prometheus.Desc) {
	descs <- lastLookDesc
	descs <- upDesc
}

func (c *clouds) Collect(metrics chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	list := c.list()
	worst := map[series]health{}
	for i, label := range CloudLabels(list) {
		of := series{label, Secret}
		if i == 0 {
			of.credentials = Controller
		}
		now := healthOf(list[i])
		if known, ok := worst[of]; ok {
			now = health{min(known.lastLook, now.lastLook), min(known.up, now.up)}
		}
		worst[of] = now
	}
	for of, h := range worst {
		metrics <- prometheus.MustNewConstMetric(lastLookDesc, prometheus.GaugeValue, h.lastLook, of.cloud, of.credentials)
		metrics <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, h.up, of.cloud, of.credentials)
	}
}

// series are the values of the labels of a cloud.
type series struct{ cloud, credentials string }

// health is what is told of a cloud; less is worse.
type health struct{ lastLook, up float64 }

func healthOf(cloud *neutron.Cloud) (h health) {
	if looked := cloud.Observer().LastList(); !looked.IsZero() {
		h.lastLook = float64(looked.UnixNano()) / float64(time.Second)
	}
	if _, away := cloud.Client().Away(); !away {
		h.up = 1
	}
	return h
}

const (
	// maxCloudLabels is how many clouds have a name of their own as a label.
	maxCloudLabels = 100
	// maxCloudLabel is how long such a name may be, in bytes.
	maxCloudLabel = 64
	// otherClouds are all the others together.
	otherClouds = "(others)"
)

// CloudLabels returns the value of the label cloud for each of the clouds. The first one is
// the controller's own. All others have been named by users, who may choose any name, and
// any number of them: they cannot pass for the controller's own, and of their names the
// first in the order of the alphabet are told apart.
func CloudLabels(clouds []*neutron.Cloud) []string {
	values := make([]string, len(clouds))
	for i, cloud := range clouds {
		values[i] = cloudLabel(cloud.Name())
	}
	if len(values) == 0 {
		return nil
	}
	own, users := values[0], values[1:]
	told := slices.Compact(slices.Sorted(slices.Values(users)))
	told = slices.DeleteFunc(told, func(value string) bool { return value == own })
	told = told[:min(len(told), maxCloudLabels-1)]
	for i, value := range users {
		if _, ok := slices.BinarySearch(told, value); !ok {
			users[i] = otherClouds
		}
	}
	return values
}

// cloudLabel bounds a name. One that is not UTF-8 would spoil the whole answer.
func cloudLabel(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxCloudLabel)], "")
}
