// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKubernetesCounts(t *testing.T) {
	const text = `# HELP apiserver_request_total [STABLE] Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="samplecrd.k8s.io",resource="networks",subresource="",verb="PATCH",version="v1"} 5
apiserver_request_total{code="409",group="samplecrd.k8s.io",resource="networks",subresource="",verb="PATCH",version="v1"} 2
apiserver_request_total{code="200",group="samplecrd.k8s.io",resource="networks",subresource="status",verb="PATCH",version="v1"} 6
apiserver_request_total{code="200",group="samplecrd.k8s.io",resource="networks",subresource="status",verb="APPLY",version="v1"} 1
apiserver_request_total{code="200",group="samplecrd.k8s.io",resource="networks",subresource="",verb="GET",version="v1"} 4
apiserver_request_total{code="201",group="samplecrd.k8s.io",resource="networks",subresource="",verb="POST",version="v1"} 100
apiserver_request_total{code="200",group="samplecrd.k8s.io",resource="networks",subresource="",verb="WATCH",version="v1"} 3
apiserver_request_total{code="200",group="example.com",resource="networks",subresource="",verb="PUT",version="v2"} 11
apiserver_request_total{code="201",group="example.com",resource="subnets",subresource="",verb="POST",version="v2"} 12
apiserver_request_total{code="201",group="",resource="events",subresource="",verb="POST",version="v1"} 8
apiserver_request_total{code="200",group="",resource="events",subresource="",verb="PATCH",version="v1"} 9
apiserver_request_total{code="200",group="",resource="events",subresource="",verb="LIST",version="v1"} 9
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="PATCH",version="v1"} 9
apiserver_request_duration_seconds_count{resource="networks",verb="PATCH"} 70
`
	events := map[string]int{"post events": 8, "patch events": 9}
	for _, tt := range []struct {
		name string
		of   filter
		want kubernetesCounts
	}{
		{"our controller's writes are patches", ownRequests, kubernetesCounts{
			writes: map[string]int{"patch networks": 7, "patch networks/status": 6, "apply networks/status": 1},
			reads:  map[string]int{"get networks": 4},
			events: events,
		}},
		{"a resource of another group has the same name", filter{[]string{"example.com"}, []string{"POST", "PUT"}}, kubernetesCounts{
			writes: map[string]int{"put networks": 11, "post subnets": 12},
			reads:  map[string]int{},
			events: events,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseKubernetesCounts([]byte(text), tt.of)
			must(t, err)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(kubernetesCounts{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := parseKubernetesCounts([]byte(`apiserver_request_total{code="200"`), ownRequests); err == nil {
		t.Error("no error for a truncated text")
	}
}

func TestBacklogAndNeutronCallsFromMetrics(t *testing.T) {
	families, err := parseMetrics(strings.NewReader(`# TYPE workqueue_depth gauge
workqueue_depth{name="deployments"} 9
workqueue_depth{name="networks"} 3
# TYPE workqueue_unfinished_work_seconds gauge
workqueue_unfinished_work_seconds{name="networks"} 0.5
# TYPE workqueue_work_duration_seconds histogram
workqueue_work_duration_seconds_bucket{name="networks",le="+Inf"} 70
workqueue_work_duration_seconds_sum{name="networks"} 1.5
workqueue_work_duration_seconds_count{name="networks"} 70
# TYPE samplecrd_neutron_requests_total counter
samplecrd_neutron_requests_total{code="201",credentials="controller",operation="create network"} 5
samplecrd_neutron_requests_total{code="503",credentials="controller",operation="create network"} 2
samplecrd_neutron_requests_total{code="200",credentials="secret",operation="list subnets"} 1
# TYPE samplecrd_neutron_last_look_timestamp_seconds gauge
samplecrd_neutron_last_look_timestamp_seconds{cloud="one",credentials="controller"} 1.7e+09
`))
	must(t, err)
	if got, want := backlogOf(families, "networks"), (backlog{done: 70, waiting: 3, unfinished: 0.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := backlogOf(families, "no such queue"); got != (backlog{}) {
		t.Errorf("%+v for a queue that does not exist", got)
	}
	if !isListed(families) || isListed(nil) {
		t.Errorf("Neutron is listed: %t, without metrics: %t", isListed(families), isListed(nil))
	}
	want := map[string]int{"create network": 7, "list subnets": 1}
	if diff := cmp.Diff(want, neutronCalls(families)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
