// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	listers "github.com/samplecrd/samplecrd-controller/pkg/generated/listers/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// yes and no are answers to whether this replica leads.
func yes() bool { return true }
func no() bool  { return false }

// scrape returns the samples of the controller's own metrics as Prometheus gets them, without the
// buckets of histograms.
func scrape(t *testing.T, m *Metrics) (samples []string) {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	equal(t, http.StatusOK, w.Code)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "samplecrd_") && !strings.Contains(line, "_seconds_bucket{") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

// of returns the samples of the metrics with these names.
func of(samples []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(samples), func(sample string) bool {
		name, _, _ := strings.Cut(sample, "{")
		return !slices.Contains(names, name)
	})
}

// network returns a Network with that Ready condition, or without one if ready is "".
func network(i int, ready metav1.ConditionStatus, reason string) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i)}}
	if ready != "" {
		n.Status.Conditions = []metav1.Condition{
			{Type: samplecrdv1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Reconciling"},
			{Type: samplecrdv1.ConditionReady, Status: ready, Reason: reason},
		}
	}
	return n
}

func listerOf(t testing.TB, networks ...*samplecrdv1.Network) listers.NetworkLister {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range networks {
		if err := indexer.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return listers.NewNetworkLister(indexer)
}

// cloudAt returns a cloud with that name and that Keystone.
func cloudAt(t *testing.T, name, keystone, password string) *neutron.Cloud {
	t.Helper()
	config, err := neutron.ParseConfig("x", fmt.Appendf(nil,
		"clouds: {x: {auth: {auth_url: %q, username: samplecrd, password: %q, project_name: samplecrd, user_domain_name: Default, project_domain_name: Default}}}", keystone, password))
	noError(t, err)
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Minute})
	t.Cleanup(client.Close)
	return neutron.NewCloud(name, client, "cluster", time.Minute)
}

// named returns clouds with these names to which no request was sent yet.
func named(t *testing.T, names ...string) (clouds []*neutron.Cloud) {
	for _, name := range names {
		clouds = append(clouds, cloudAt(t, name, "http://127.0.0.1:1/v3", "x"))
	}
	return clouds
}

func TestTheMetricsPassTheLinterOfPrometheus(t *testing.T) {
	m := New("v1.2.3", "abc")
	m.Meter(Controller).CountRequest(neutron.Request{Operation: "create network", Code: "201", Duration: time.Second})
	m.MustRegister(Networks(listerOf(t, network(1, "False", "InUse")), yes), Clouds(func() []*neutron.Cloud { return named(t, "cloud") }, none, yes))
	problems, err := testutil.GatherAndLint(m.registry)
	noError(t, err)
	if len(problems) > 0 {
		t.Error(problems)
	}
}

func TestMetricsOfClientGoAndOfTheProcessAreServed(t *testing.T) {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "test"})
	defer queue.ShutDown()
	families, err := New("", "").Gatherer().Gather()
	noError(t, err)
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	for _, name := range []string{"workqueue_depth", "go_goroutines", "process_resident_memory_bytes", "samplecrd_build_info"} {
		if runtime.GOOS != "linux" && strings.HasPrefix(name, "process_") {
			continue
		}
		if !names[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestBuildInfoHasVersionAndCommit(t *testing.T) {
	equal(t, []string{fmt.Sprintf(`samplecrd_build_info{commit="abc",go_version=%q,version="v1.2.3"} 1`, runtime.Version())},
		of(scrape(t, New("v1.2.3", "abc")), "samplecrd_build_info"))
}

func TestRequestsAreCountedByCredentials(t *testing.T) {
	m := New("", "")
	m.Meter(Controller).CountRequest(neutron.Request{Operation: "create network", Code: "201", Duration: time.Second})
	m.Meter(Secret).CountRequest(neutron.Request{Operation: "create network", Code: "409", Duration: time.Second})
	m.Meter(Secret).CountRequest(neutron.Request{Operation: "create network", Code: "timeout", Duration: time.Minute})
	m.Meter(Secret).CountAuthenticationFailure()
	equal(t, []string{
		`samplecrd_neutron_authentication_failures_total{credentials="clustercloud"} 0`,
		`samplecrd_neutron_authentication_failures_total{credentials="controller"} 0`,
		`samplecrd_neutron_authentication_failures_total{credentials="secret"} 1`,
		`samplecrd_neutron_request_duration_seconds_count{credentials="controller",operation="create network"} 1`,
		`samplecrd_neutron_request_duration_seconds_count{credentials="secret",operation="create network"} 2`,
		`samplecrd_neutron_requests_total{code="201",credentials="controller",operation="create network"} 1`,
		`samplecrd_neutron_requests_total{code="409",credentials="secret",operation="create network"} 1`,
		`samplecrd_neutron_requests_total{code="timeout",credentials="secret",operation="create network"} 1`,
	}, of(scrape(t, m), "samplecrd_neutron_authentication_failures_total", "samplecrd_neutron_request_duration_seconds_count", "samplecrd_neutron_requests_total"))
}

func TestWaitsAreCountedByReason(t *testing.T) {
	m := New("", "")
	m.Meter(Controller).CountWait(neutron.ForConnection, 2*time.Second)
	m.Meter(Controller).CountWait(neutron.ForConnection, time.Second)
	m.Meter(Secret).CountWait(neutron.ForRate, time.Minute)
	equal(t, []string{
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="clustercloud",for="connection"} 0`,
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="clustercloud",for="rate"} 0`,
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="controller",for="connection"} 3`,
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="controller",for="rate"} 0`,
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="secret",for="connection"} 0`,
		`samplecrd_neutron_request_wait_duration_seconds_sum{credentials="secret",for="rate"} 60`,
	}, of(scrape(t, m), "samplecrd_neutron_request_wait_duration_seconds_sum"))
}

func TestAHostileServerMakesFewSeries(t *testing.T) {
	var mu sync.Mutex
	status := 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("X-Openstack-Request-Id", fmt.Sprint("req-", status))
		w.WriteHeader(status)
		if status++; status > 999 {
			status = 200
		}
	}))
	defer server.Close()
	m := New("", "")
	config, err := neutron.ParseConfig("x", fmt.Appendf(nil, "clouds: {x: {auth: {auth_url: %q, username: u, password: p}}}", server.URL))
	noError(t, err)
	for range 1000 {
		client := neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Second, Meter: m.Meter(Secret)})
		_, _ = client.ListNetworks(t.Context())
		client.Close()
	}
	if n := testutil.CollectAndCount(m.requests); n < 10 || n > 3*70 {
		t.Errorf("%d series", n)
	}
}

func TestNetworksAreCountedByTheirReadyCondition(t *testing.T) {
	m := New("", "")
	m.MustRegister(Networks(listerOf(t,
		network(1, "True", "Available"),
		network(2, "True", "Available"),
		network(3, "False", "InUse"),
		network(4, "Unknown", "Pending"),
		network(5, "", ""),
		network(6, "Maybe", "Available"),
		network(7, "False", "SomethingThatAUserHasWritten"),
		network(8, "False", "something else"),
	), yes))
	equal(t, []string{
		`samplecrd_networks{ready="False",reason="InUse"} 1`,
		`samplecrd_networks{ready="False",reason="Other"} 2`,
		`samplecrd_networks{ready="True",reason="Available"} 2`,
		`samplecrd_networks{ready="Unknown",reason="Available"} 1`,
		`samplecrd_networks{ready="Unknown",reason="Pending"} 2`,
	}, of(scrape(t, m), "samplecrd_networks"))
}

func TestEachReasonOfTheAPIIsCountedByItsName(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../apis/samplecrd/v1/conditions.go", nil, 0)
	noError(t, err)
	declared := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			noError(t, err)
			declared[reason] = true
		}
		return true
	})
	equal(t, declared, reasons)
}

func TestNoNetworksAreCountedAsZero(t *testing.T) {
	m := New("", "")
	m.MustRegister(Networks(listerOf(t), yes))
	equal(t, []string{`samplecrd_networks{ready="True",reason="Available"} 0`}, of(scrape(t, m), "samplecrd_networks"))
}

func TestOnlyTheLeaderHasMetricsOfNetworksAndClouds(t *testing.T) {
	m := New("", "")
	m.MustRegister(Networks(listerOf(t, network(1, "True", "Available")), no), Clouds(func() []*neutron.Cloud { return named(t, "cloud") }, none, no))
	equal(t, []string{}, of(scrape(t, m), "samplecrd_networks", "samplecrd_neutron_up", "samplecrd_neutron_last_look_timestamp_seconds", "samplecrd_neutron_cache_overflow"))
}

func TestTheWorstOfCloudsWithOneNameCounts(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{Projects: []embedded.Project{{Name: "samplecrd", Password: "right"}}})
	noError(t, err)
	defer server.Close()
	good := func(name string) *neutron.Cloud { return cloudAt(t, name, server.URL(), "right") }
	refused := func(name string) *neutron.Cloud { return cloudAt(t, name, server.URL(), "wrong") }
	away := func(name string) *neutron.Cloud { return cloudAt(t, name, "http://127.0.0.1:1/v3", "right") }
	clouds := []*neutron.Cloud{good("own"), away("own"), good("a"), refused("a"), good("b"), away("b"), good("c")}
	for _, cloud := range clouds {
		_ = cloud.Observer().Relist(t.Context())
	}
	m := New("", "")
	m.MustRegister(Clouds(func() []*neutron.Cloud { return clouds }, none, yes))
	samples := scrape(t, m)
	equal(t, []string{
		`samplecrd_neutron_up{cloud="(others)",credentials="secret"} 0`,
		`samplecrd_neutron_up{cloud="a",credentials="secret"} 1`,
		`samplecrd_neutron_up{cloud="b",credentials="secret"} 0`,
		`samplecrd_neutron_up{cloud="c",credentials="secret"} 1`,
		`samplecrd_neutron_up{cloud="own",credentials="controller"} 1`,
	}, of(samples, "samplecrd_neutron_up"))
	listed := map[string]bool{}
	for _, sample := range of(samples, "samplecrd_neutron_last_look_timestamp_seconds") {
		var seconds float64
		series, value, _ := strings.Cut(sample, " ")
		_, err := fmt.Sscan(value, &seconds)
		noError(t, err)
		if seconds != 0 && time.Since(time.Unix(int64(seconds), 0)).Abs() > time.Minute {
			t.Errorf("a list at %v", seconds)
		}
		_, label, _ := strings.Cut(series, `cloud="`)
		label, _, _ = strings.Cut(label, `"`)
		listed[label] = seconds != 0
	}
	equal(t, map[string]bool{"own": true, "(others)": false, "a": false, "b": false, "c": true}, listed)
}

func TestMoreNetworksThanTheCacheMayHoldAreReported(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{Projects: []embedded.Project{{Name: "samplecrd", Password: "right"}}})
	noError(t, err)
	defer server.Close()
	at := func(name string) *neutron.Cloud { return cloudAt(t, name, server.URL(), "right") }
	clouds := []*neutron.Cloud{at("own"), at("a"), at("a"), at("b")}
	m := New("", "")
	m.MustRegister(Clouds(func() []*neutron.Cloud { return clouds }, none, yes))
	check := func(own, a, b int) {
		t.Helper()
		equal(t, []string{
			fmt.Sprintf(`samplecrd_neutron_cache_overflow{cloud="a",credentials="secret"} %d`, a),
			fmt.Sprintf(`samplecrd_neutron_cache_overflow{cloud="b",credentials="secret"} %d`, b),
			fmt.Sprintf(`samplecrd_neutron_cache_overflow{cloud="own",credentials="controller"} %d`, own),
		}, of(scrape(t, m), "samplecrd_neutron_cache_overflow"))
	}
	check(0, 0, 0)
	items := make([]string, 50_001)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id": "n%d", "description": "samplecrd.k8s.io/owner=cluster/u"}`, i)
	}
	crowded := &embedded.Fault{Status: http.StatusOK, Message: `{"networks": [` + strings.Join(items, ",") + `]}`}
	server.SetFault(func(r *http.Request) *embedded.Fault {
		if strings.HasSuffix(r.URL.Path, "/networks") {
			return crowded
		}
		return nil
	})
	noError(t, clouds[0].Observer().Relist(t.Context()))
	noError(t, clouds[2].Observer().Relist(t.Context()))
	check(1, 1, 0)
	server.SetFault(nil)
	noError(t, clouds[0].Observer().Relist(t.Context()))
	check(0, 1, 0)
}

func none() map[*neutron.Cloud]bool { return nil }

// Users' Secrets share no series with the cloud of a ClusterCloud, whatever they call theirs.
func TestTheCloudOfAClusterCloudHasASeriesOfItsOwn(t *testing.T) {
	m := New("", "")
	clouds := named(t, "own", "same", "same")
	m.MustRegister(Clouds(func() []*neutron.Cloud { return clouds }, func() map[*neutron.Cloud]bool { return map[*neutron.Cloud]bool{clouds[2]: true} }, yes))
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() == "samplecrd_neutron_up" {
			for _, metric := range family.GetMetric() {
				got = append(got, metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue())
			}
		}
	}
	if want := []string{"own controller", "same clustercloud", "same secret"}; !slices.Equal(want, got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCloudsHaveFewLabels(t *testing.T) {
	many := []string{"zzz, the controller's own"}
	for i := range 1000 {
		many = append(many, fmt.Sprintf("%03d", i))
	}
	for _, test := range []struct {
		name  string
		names []string
		want  []string // the first labels
		count int
	}{
		{"the controller's own", []string{"own"}, []string{"own"}, 1},
		{"two with one name", []string{"own", "a", "a"}, []string{"own", "a", "a"}, 2},
		{"a user's cloud with the name of the controller's own", []string{"own", "own", "a"}, []string{"own", "(others)", "a"}, 3},
		{"a user's cloud with that name in its first 64 bytes", []string{strings.Repeat("x", 64), strings.Repeat("x", 65)}, []string{strings.Repeat("x", 64), "(others)"}, 2},
		{"a name that is too long", []string{"own", strings.Repeat("x", 1<<20)}, []string{"own", strings.Repeat("x", 64)}, 2},
		{"a name that is cut within a letter", []string{"own", strings.Repeat("x", 63) + "ü"}, []string{"own", strings.Repeat("x", 63)}, 2},
		{"a name that is not UTF-8", []string{"own", "a\xff\xfe"}, []string{"own", "a"}, 2},
		{"more names than labels", many, []string{"zzz, the controller's own", "000"}, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			clouds := named(t, test.names...)
			got := CloudLabels(clouds)
			equal(t, len(test.names), len(got))
			equal(t, test.want, got[:len(test.want):len(test.want)])
			for _, label := range got {
				if !utf8.ValidString(label) || len(label) > 64 {
					t.Errorf("label %q", label)
				}
			}
			m := New("", "")
			m.MustRegister(Clouds(func() []*neutron.Cloud { return clouds }, none, yes))
			equal(t, test.count, len(of(scrape(t, m), "samplecrd_neutron_up")))
		})
	}
}

func TestRepairedDriftIsCountedByField(t *testing.T) {
	m := New("", "")
	equal(t, len(neutron.Fields), len(of(scrape(t, m), "samplecrd_drift_repaired_total")))
	m.DriftRepaired([]neutron.Step{
		neutron.UpdateNetwork{Changes: []neutron.Change{{Label: "network name", Value: "a"}, {Label: "network mark", Value: "b"}}},
		neutron.UpdateSubnet{Changes: []neutron.Change{{Label: "gateway"}}},
		neutron.UpdateSubnet{Changes: []neutron.Change{{Label: "gateway"}}},
	})
	repaired := slices.DeleteFunc(of(scrape(t, m), "samplecrd_drift_repaired_total"), func(s string) bool { return strings.HasSuffix(s, " 0") })
	equal(t, []string{
		`samplecrd_drift_repaired_total{field="gateway"} 2`,
		`samplecrd_drift_repaired_total{field="network mark"} 1`,
		`samplecrd_drift_repaired_total{field="network name"} 1`,
	}, repaired)
}
